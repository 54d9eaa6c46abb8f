"""Forward passes that continue from a cache: run prompts, select rows, add tokens to them.

Prompts are padded on the right, so that each gets the same results as without padding. In the
cache, the padding of a shorter prompt leaves a hole, which is hidden by a mask. The module also
scores and generates by full forward passes without sharing, for models for which no faster way is
exact.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from snellen.models.hf.caches import copy_cache, select_cache_rows
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Tensors, extend
from snellen.models.hf.load import copy_to_device, inference, input_device
from snellen.models.hf.model_layout import ModelLayout

# --- rows of unequal length as one batch ------------------------------------------------------------------------------


Side = Literal["left", "right"]


def pad_rows(rows: Sequence[EncodedPrompt], pad: int, side: Side) -> Tensors:
    """Return several prompts as one batch, with token ids padded on `side` to the longest prompt.

    Only inputs with one entry per token are padded. ValueError is raised for prompts with inputs of
    different shapes, because the model would see padding of images, tiles or sizes.
    """
    import torch

    if len({row.form for row in rows}) > 1:
        raise ValueError("inputs of different shapes cannot share a batch")
    longest = max(len(row.ids) for row in rows)
    ids = []
    mask = []
    for row in rows:
        missing = longest - len(row.ids)
        ids.append(_padded(row.ids, pad, missing, side))
        mask.append(_padded((1,) * len(row.ids), 0, missing, side))
    batch = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    for name in rows[0].extras:
        values = [row.extras[name] for row in rows]
        if name in rows[0].per_token:
            padded = []
            for row, value in zip(rows, values, strict=True):
                padded.append(_pad_tokens(value, longest - len(row.ids), side))
            values = padded
        batch[name] = _concatenate(values)
    return batch


def to_device(model: Any, batch: Tensors) -> Tensors:
    """Return a batch on the model's device, with floating-point inputs such as images in the model's number format."""
    import torch

    device = input_device(model)
    moved = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            number = model.dtype if value.is_floating_point() else value.dtype
            value = copy_to_device(value, device).to(number)
        moved[name] = value
    return moved


def _padded(values: Sequence[int], pad: int, missing: int, side: Side) -> list[int]:
    padding = [pad] * missing
    if side == "left":
        return [*padding, *values]
    return [*values, *padding]


def _pad_tokens(values: Any, missing: int, side: Side) -> Any:
    """Return a tensor of shape (1, tokens, ...) with `missing` zeros added along the tokens, on one side."""
    import torch

    padding = values.new_zeros((1, missing, *values.shape[2:]))
    parts = [padding, values] if side == "left" else [values, padding]
    return torch.cat(parts, dim=1)


def _concatenate(values: Sequence[Any]) -> Any:
    """Return the inputs of several rows, concatenated along the batch dimension. Lists are joined."""
    import torch

    if not isinstance(values[0], torch.Tensor):
        return [item for value in values for item in value]
    return torch.cat(list(values), dim=0)


# --- forward passes ---------------------------------------------------------------------------------------------------


Row = tuple[EncodedPrompt, tuple[int, ...]]
"""A prompt, and the token ids of the continuation that is scored after it."""


def continuation_rows(prompts: Sequence[ContinuedPrompt]) -> list[Row]:
    """Return a row for each continuation of each prompt: the prompt and the continuation, in order."""
    rows: list[Row] = []
    for prompt in prompts:
        rows.extend((prompt.context, tail) for tail in prompt.tails)
    return rows


def score_rows(layout: ModelLayout, rows: Sequence[Row]) -> list[list[float]]:
    """Return the log-probability (nats, float32) of each token of several continuations, from one forward pass.

    Args:
        layout: The model and its special tokens.
        rows: For each row of the batch, the prompt and the token ids of its continuation.
    """
    if layout.encoder_decoder:
        logits_of_rows = decoder_logits(layout, rows)
    else:
        logits_of_rows = _logits(layout, rows)
    scores = []
    for logits, (_, continuation) in zip(logits_of_rows, rows, strict=True):
        scores.append(token_scores(logits, continuation).tolist())
    return scores


def write_token_by_token(
    layout: ModelLayout, rows: Sequence[EncodedPrompt], pick: TokenPicker, longest: int
) -> list[list[int]]:
    """Return the token ids of a reply to each prompt, at most `longest` of them.

    Each token is chosen after a full forward pass over the prompt and all earlier tokens. This is
    the slow reference with which faster ways are compared.

    Args:
        layout: The model.
        rows: The prompts.
        pick: Returns, for some requests, the function that chooses the next token of each.
        longest: Maximum number of tokens of a reply.
    """
    replies = []
    with inference():
        for index, row in enumerate(rows):
            reply = GrowingReplies(1, pick([index]))
            while len(reply.tokens[0]) < longest and not reply.ended[0]:
                logits = _next_logits(layout, row, reply.tokens[0])
                reply.choose(logits)
            replies.append(reply.tokens[0])
    return replies


def _next_logits(layout: ModelLayout, context: EncodedPrompt, tail: Sequence[int]) -> Any:
    """Return the logits of the token that follows a prompt and the tokens `tail`; shape (1, vocabulary)."""
    if layout.encoder_decoder:
        # The decoder does not read the last token of a row, it only predicts it. So any token can stand there.
        [logits] = decoder_logits(layout, [(context, (*tail, layout.pad))])
        return logits[-1:]
    text = extend(context, tail, layout.reply_type)
    batch = to_device(layout.model, pad_rows([text], layout.pad, "right"))
    layout.forget_positions()
    return layout.model(**batch, use_cache=False).logits[:, -1]


def token_scores(logits: Any, tail: Sequence[int]) -> Any:
    """Return the log-probability (nats, float32) of each token of a continuation; shape [tokens].

    Args:
        logits: The model's outputs [at least tokens, vocabulary], where logits[i] predicts token i.
        tail: Token ids of the continuation.
    """
    import torch

    token_ids = torch.tensor(tail, device=logits.device)
    log_probabilities = logits[: len(tail)].float().log_softmax(-1)  # [tokens, vocabulary]
    of_tokens = log_probabilities.gather(-1, token_ids[:, None])  # [tokens, 1]
    return of_tokens[:, 0]


def logits_to_keep(model: Any, positions: int) -> dict[str, Any]:
    """Return the setting that makes a model compute the logits of only the last `positions`, to save memory.

    {} if the model does not have this setting.
    """
    supported = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if supported else {}


def _logits(layout: ModelLayout, rows: Sequence[Row]) -> list[Any]:
    """Return the logits that predict each continuation, by a decoder model that reads prompt and continuation.

    Args:
        layout: The model and its special tokens.
        rows: For each row of the batch, the prompt and the token ids of its continuation.

    Returns:
        For each row, a tensor [tokens, vocabulary] from the last token of the prompt on: index i predicts token i of
        the continuation.
    """
    model = layout.model
    texts = [extend(context, continuation, layout.reply_type) for context, continuation in rows]
    batch = to_device(model, pad_rows(texts, layout.pad, "right"))
    length = batch["input_ids"].shape[1]
    # Only logits from the last token of the shortest prompt on are needed; computing fewer saves memory.
    start = min(len(context.ids) for context, _ in rows) - 1
    layout.forget_positions()
    logits_setting: dict[str, Any] = {}
    if not layout.all_logits:
        logits_setting = logits_to_keep(model, length - start)
    output = model(**batch, **logits_setting, use_cache=False)
    logits = output.logits[:, start - length :]
    row_logits = []
    for row, (context, _) in enumerate(rows):
        last_of_context = len(context.ids) - 1
        row_logits.append(logits[row, last_of_context - start :])
    return row_logits


def decoder_logits(layout: ModelLayout, rows: Sequence[Row]) -> list[Any]:
    """Return the logits that predict each continuation, by an encoder-decoder model.

    The encoder reads the prompt and the decoder reads the continuation without its last token.

    Args:
        layout: The model and its special tokens.
        rows: For each row of the batch, the prompt and the token ids of its continuation.

    Returns:
        For each row, a tensor [tokens, vocabulary], where index i predicts token i of the continuation.
    """
    import torch

    longest = max(len(continuation) for _, continuation in rows)
    decoder_ids = []
    for _, continuation in rows:
        padding = [layout.pad] * (longest - len(continuation))
        decoder_ids.append([layout.start, *continuation[:-1], *padding])
    contexts = [context for context, _ in rows]
    batch = to_device(layout.model, pad_rows(contexts, layout.pad, "right"))
    decoder_input = copy_to_device(torch.tensor(decoder_ids), input_device(layout.model))
    output = layout.model(**batch, decoder_input_ids=decoder_input, use_cache=False)
    return list(output.logits)


# --- replies as they grow ---------------------------------------------------------------------------------------------


TokenChooser = Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]
"""Function that chooses the next token of each row.

It is given logits of shape (rows, vocabulary) and the tokens of each row so far. It returns the token of each row, and
for each row whether this token ends the reply.
"""
TokenPicker = Callable[[Sequence[int]], TokenChooser]
"""Function that is given the indices of the requests in a batch, and returns the `TokenChooser` for them."""


class GrowingReplies:
    """The tokens generated so far for each request of a batch, and whether each reply has ended."""

    def __init__(self, count: int, choose: TokenChooser) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.ended = [False] * count
        self._choose = choose

    def choose(self, logits: Any) -> list[int]:
        """Choose the next token of each request, append it to its reply, and return all chosen tokens.

        Replies that have ended stay unchanged.

        Args:
            logits: Logits of the next token; shape (requests, vocabulary).
        """
        tokens, ends = self._choose(logits, self.tokens)
        for row, token in enumerate(tokens):
            if not self.ended[row]:
                self.tokens[row].append(token)
                self.ended[row] = ends[row]
        return tokens


NO_CACHE = "it returns no cache"


@dataclass(frozen=True)
class CachedState:
    """The state of a model after it has read the text of each row of a batch."""

    cache: Any
    mask: Any
    """Shape (rows, tokens): 1 for a token, 0 for padding (a hole)."""
    position: Any
    """Position of the next token of each row; shape (rows)."""
    logits: Any
    """Logits of the next token; shape (rows, vocabulary)."""
    tile_mask: Any = None
    """Which tiles of images the last token sees; shape (rows, 1, images, tiles). Only Mllama has it."""


def prefill(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> CachedState:
    """Run prompts from their beginning, including their images, and return the state after them, one row per prompt."""
    import torch

    model = layout.model
    device = input_device(model)
    batch = to_device(model, pad_rows(rows, layout.pad, "right"))
    row_lengths = [len(row.ids) for row in rows]
    lengths = copy_to_device(torch.tensor(row_lengths), device)
    logits_setting = _last_only(layout, model, lengths)
    layout.forget_positions()
    output = model(**batch, **logits_setting, **layout.first_cache(), use_cache=True)

    position = lengths + layout.offset
    if layout.rotary is not None and "video_grid_thw" in batch:
        position = layout.positions_after_clips(batch)
    tile_mask = batch.get("cross_attention_mask")
    if tile_mask is not None:
        every_row = torch.arange(len(rows), device=device)
        tile_mask = tile_mask[every_row, lengths - 1][:, None]
    return CachedState(
        cache=cache_of(output),
        mask=batch["attention_mask"],
        position=position,
        logits=_logits_at_last_token(
            output.logits, lengths, logits_setting, batch["input_ids"].shape[1]
        ),
        tile_mask=tile_mask,
    )


def select_rows(state: CachedState, rows: Sequence[int]) -> CachedState:
    """Return a state with the given rows of a state, and with a cache of its own.

    A row may be given several times: rows [0, 0, 1] give two copies of the first row.
    """
    import torch

    # The index is on the CPU, because the layers of a cache may be on several devices, like the layers of the model.
    index = torch.tensor(rows)
    is_every_row = list(rows) == list(range(state.mask.shape[0]))
    cache = copy_cache(state.cache) if is_every_row else select_cache_rows(state.cache, index)
    return CachedState(
        cache=cache,
        mask=state.mask[index],
        position=state.position[index],
        logits=state.logits[index],
        tile_mask=None if state.tile_mask is None else state.tile_mask[index],
    )


def advance(layout: ModelLayout, state: CachedState, texts: Sequence[Sequence[int]]) -> CachedState:
    """Add tokens to each row, run the model on them, and return the new state.

    The rows of `state` must have no holes. Its cache is changed, so it must not be used again.

    Args:
        layout: The model.
        state: The state.
        texts: Token ids to add to each row, the same number for all rows.
    """
    import torch

    model = layout.language_model
    ids = copy_to_device(torch.tensor(texts), state.mask.device)
    logits_setting = {} if layout.all_logits else logits_to_keep(model, 1)
    output = _continued(layout, state, ids, logits_setting)
    return CachedState(
        cache=cache_of(output),
        mask=torch.cat([state.mask, torch.ones_like(ids)], dim=1),
        position=state.position + ids.shape[1],
        logits=output.logits[:, -1],
        tile_mask=state.tile_mask,
    )


def logits_of_texts(layout: ModelLayout, state: CachedState, texts: Sequence[Sequence[int]]) -> Any:
    """Return the logits at each token of texts that follow the rows of a state.

    Their shape is (rows, longest text, vocabulary). Shorter texts are padded at their ends, which
    does not change the logits before. The rows of `state` must have no holes. Its cache is changed,
    so it must not be used again.
    """
    import torch

    longest = max(len(text) for text in texts)
    padded = [_padded(text, layout.pad, longest - len(text), "right") for text in texts]
    ids = copy_to_device(torch.tensor(padded), state.mask.device)
    return _continued(layout, state, ids, {}).logits[:, -longest:]


def _continued(
    layout: ModelLayout, state: CachedState, ids: Any, logits_setting: dict[str, Any]
) -> Any:
    """Return the output of a forward pass over further tokens, which follow a state without holes.

    Args:
        layout: The model.
        state: The state. Its cache is changed.
        ids: Token ids; shape (rows, tokens).
        logits_setting: Which logits to compute, as from `logits_to_keep`.
    """
    import torch

    steps = torch.arange(ids.shape[1], device=ids.device)
    positions = state.position[:, None] + steps
    return run_language_model(layout, state, ids, None, positions, logits_setting)


def run_language_model(
    layout: ModelLayout,
    state: CachedState,
    ids: Any,
    mask: Any,
    positions: Any,
    logits_setting: dict[str, Any],
) -> Any:
    """Run the language model on further tokens after a state, and return its output.

    The cache of `state` is changed, so it must not be used again.

    Args:
        layout: The model.
        state: The state to continue.
        ids: Token ids; shape (rows, tokens).
        mask: Which tokens each new token sees; None if it sees all tokens before it.
        positions: Positions of the new tokens; shape (rows, tokens).
        logits_setting: Which logits to compute, as from `logits_to_keep`.
    """
    # M-RoPE has three positions per token (time, height, width), which are equal for text.
    if layout.rotary is not None:
        positions = positions[None].expand(3, -1, -1)
    settings = dict(logits_setting)
    if state.tile_mask is not None:
        settings["cross_attention_mask"] = state.tile_mask.expand(-1, ids.shape[1], -1, -1)
    output = layout.language_model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=state.cache,
        use_cache=True,
        **settings,
    )
    # The head may be on another device than the inputs. If the whole model is called, accelerate moves the output back,
    # but here only a part of it is called.
    output.logits = output.logits.to(ids.device)
    return output


def cache_of(output: Any) -> Any:
    """Return the cache in the output of a forward pass. Raises ValueError if there is none."""
    for part in (output, getattr(output, "language_model_outputs", None)):
        cache = getattr(part, "past_key_values", None)
        if cache is not None:
            return cache
    raise ValueError(NO_CACHE)


def _last_only(layout: ModelLayout, model: Any, lengths: Any) -> dict[str, Any]:
    """Return the setting that computes logits only where a row ends; {} if the model does not support it.

    Args:
        layout: The model, whose setting `all_logits` forbids this.
        model: The module that is called.
        lengths: Number of tokens of each row; shape (rows).
    """
    if layout.all_logits:
        return {}
    last_positions = (lengths - 1).unique()
    return dict.fromkeys(logits_to_keep(model, 1), last_positions)


def _logits_at_last_token(
    logits: Any, lengths: Any, logits_setting: dict[str, Any], longest: int
) -> Any:
    """Return the logits at the last token of each row; shape (rows, vocabulary).

    Args:
        logits: Computed logits; shape (rows, positions, vocabulary). Without a setting, they may
            have further positions before the text, which are skipped.
        lengths: Number of tokens of each row; shape (rows).
        logits_setting: The setting with which the logits were computed, as from `_last_only`.
        longest: Number of tokens of the longest row.
    """
    import torch

    computed_positions = next(iter(logits_setting.values()), None)
    last_positions = lengths - 1
    if computed_positions is None:
        index = last_positions + logits.shape[1] - longest
    else:
        index = torch.searchsorted(computed_positions, last_positions)
    return logits[torch.arange(len(lengths), device=logits.device), index]
