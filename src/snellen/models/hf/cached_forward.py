"""Forward passes that continue from a cache: run prompts, select rows, add tokens to them.

Prompts are padded on the right, so that each gets the same results as without padding. In the
cache, the padding of a shorter prompt leaves a hole, which is hidden by a mask.

The cache of an encoder-decoder holds what its decoder has read: after a prompt, this is the decoder's first token.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from snellen.models.hf.caches import copy_cache, select_cache_rows
from snellen.models.hf.encode import EncodedPrompt, Tensors
from snellen.models.hf.load import copy_to_device, import_transformers, input_device
from snellen.models.hf.model_layout import ModelLayout

# --- rows of unequal length as one batch ------------------------------------------------------------------------------


def pad_rows(rows: Sequence[EncodedPrompt], pad: int) -> Tensors:
    """Return several prompts as one batch, with token ids padded on the right to the longest prompt.

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
        ids.append([*row.ids, *[pad] * missing])
        mask.append([1] * len(row.ids) + [0] * missing)
    batch = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    for name in rows[0].extras:
        values = [row.extras[name] for row in rows]
        if name in rows[0].per_token:
            padded = []
            for row, value in zip(rows, values, strict=True):
                padding = value.new_zeros((1, longest - len(row.ids), *value.shape[2:]))
                padded.append(torch.cat([value, padding], dim=1))
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


def _concatenate(values: Sequence[Any]) -> Any:
    """Return the inputs of several rows, concatenated along the batch dimension. Lists are joined."""
    import torch

    if not isinstance(values[0], torch.Tensor):
        return [item for value in values for item in value]
    return torch.cat(list(values), dim=0)


# --- forward passes ---------------------------------------------------------------------------------------------------


def logits_to_keep(model: Any, positions: int) -> dict[str, Any]:
    """Return the setting that makes a model compute the logits of only the last `positions`, to save memory.

    {} if the model does not have this setting.
    """
    supported = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if supported else {}


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
    seen: Tensors = field(default_factory=dict)
    """What the last token sees, which text after it sees too: inputs of shape (rows, 1, images, ...).

    Mllama has one, for the tiles of images.
    """
    again: Tensors = field(default_factory=dict)
    """Inputs that each further forward pass is given again, with one entry per row.

    For an encoder-decoder, this is the encoder's output.
    """


def prefill(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> CachedState:
    """Run prompts from their beginning, including their images, and return the state after them, one row per prompt."""
    import torch

    model = layout.model
    device = input_device(model)
    batch = to_device(model, pad_rows(rows, layout.pad))
    row_lengths = [len(row.ids) for row in rows]
    lengths = copy_to_device(torch.tensor(row_lengths), device)
    layout.forget_positions()
    if layout.encoder_decoder:
        start = torch.full((len(rows), 1), layout.start, device=device)
        output = model(**batch, decoder_input_ids=start, use_cache=True)
        return CachedState(
            cache=cache_of(output),
            mask=batch["attention_mask"],
            position=lengths,
            logits=output.logits[:, -1],
            again={"encoder_outputs": _encoder_states(output)},
        )
    logits_setting = _last_only(layout, model, lengths)
    output = model(**batch, **logits_setting, **layout.first_cache(), use_cache=True)

    position = lengths + layout.offset
    if layout.rotary is not None and "video_grid_thw" in batch:
        position = layout.positions_after_clips(batch)
    seen: Tensors = {}
    again: Tensors = {}
    every_row = torch.arange(len(rows), device=device)
    for name in rows[0].extras:
        is_per_token = name in rows[0].per_token
        if is_per_token and batch[name].ndim > 2:
            seen[name] = batch[name][every_row, lengths - 1][:, None]
        elif layout.images_again and not is_per_token:
            again[name] = batch[name]
    return CachedState(
        cache=cache_of(output),
        mask=batch["attention_mask"],
        position=position,
        logits=_logits_at_last_token(
            output.logits, lengths, logits_setting, batch["input_ids"].shape[1]
        ),
        seen=seen,
        again=again,
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
        seen={name: value[index] for name, value in state.seen.items()},
        again={name: value[index] for name, value in state.again.items()},
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
        seen=state.seen,
        again=state.again,
    )


def logits_of_texts(layout: ModelLayout, state: CachedState, texts: Sequence[Sequence[int]]) -> Any:
    """Return the logits at each token of texts that follow the rows of a state.

    Their shape is (rows, longest text, vocabulary). Shorter texts are padded at their ends, which
    does not change the logits before. The rows of `state` must have no holes. Its cache is changed,
    so it must not be used again.
    """
    import torch

    longest = max(len(text) for text in texts)
    padded = [[*text, *[layout.pad] * (longest - len(text))] for text in texts]
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
    settings = {**logits_setting, **state.again}
    for name, value in state.seen.items():
        settings[name] = value.expand(-1, ids.shape[1], *value.shape[2:])
    if layout.encoder_decoder:
        base_output = import_transformers().modeling_outputs.BaseModelOutput
        settings["encoder_outputs"] = base_output(last_hidden_state=state.again["encoder_outputs"])
        settings["decoder_input_ids"] = ids
    else:
        settings.update(input_ids=ids, attention_mask=mask, position_ids=positions)
    output = layout.language_model(past_key_values=state.cache, use_cache=True, **settings)
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


def _encoder_states(output: Any) -> Any:
    """Return the encoder's output [rows, tokens, width] in the output of an encoder-decoder."""
    inner = getattr(output, "language_model_outputs", None) or output
    return inner.encoder_last_hidden_state


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
