"""Forward passes that continue from a cache: run prompts, select rows, extend them.

Rows are padded on the right, so a prompt is run exactly as without a cache. A shorter row leaves a hole in the cache,
which masks hide and explicit positions skip. The module also has scores and replies by full forward passes without
sharing, which are the last rung of the ladder.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Tensors, extend
from snellen.models.hf.load import copy_to_device, import_transformers, inference, input_device
from snellen.models.hf.model_layout import ModelLayout

# --- copies, rows and lengths of a cache, layer by layer --------------------------------------------------------------
# What a layer holds decides, not which model filled it. A layer of attention holds keys and values, which grow by new
# tensors. A layer of linear attention, of a convolution or of a state space holds one state for all tokens, which each
# forward pass changes in place: it must be copied before a text is continued twice, and cannot be cut back.


GROWN_BY_NEW_TENSORS = (
    "DynamicLayer",
    "DynamicSlidingWindowLayer",
    "DynamicIndexedLayer",
    "DummyLayer",
)
"""Types of cache layers that never change a tensor in place."""


def copy_cache(cache: Any) -> Any:
    """Return a cache that can grow without changing `cache`.

    Keys and values are shared until growth replaces them. Other states, which may be updated in place, are copied.
    """
    twin = copy.copy(cache)
    attributes = {
        name: copy.deepcopy(value) for name, value in vars(cache).items() if name != "layers"
    }
    vars(twin).update(attributes)
    twin.layers = [
        copy.copy(layer) if type(layer).__name__ in GROWN_BY_NEW_TENSORS else copy.deepcopy(layer)
        for layer in cache.layers
    ]
    return twin


def select_cache_rows(cache: Any, rows: Any) -> Any:
    """Return a new cache with the given rows, a tensor of indices that may repeat.

    Raises ValueError if a layer has a state whose rows cannot be selected.
    """
    twin = copy_cache(cache)
    count = cache_rows(cache)
    for name in states_beside_layers(cache):
        setattr(
            twin,
            name,
            [part[rows] if _has_rows(part, count) else part for part in getattr(twin, name)],
        )
    for number, layer in enumerate(twin.layers):
        # Every kind of layer can reorder all that it holds, for beams; few can select.
        layer.reorder_cache(rows)
        if count != len(rows) and any(_has_rows(tensor, count) for tensor in layer_tensors(layer)):
            raise ValueError(
                f"layer {number} of its cache, a {type(layer).__name__}, keeps a state of all rows"
            )
    return twin


def states_beside_layers(cache: Any) -> tuple[str, ...]:
    """Return the names of lists of tensors that a cache has in addition to its layers, as MiniMax's does."""
    count = cache_rows(cache)
    lists = {
        name: value
        for name, value in vars(cache).items()
        if name != "layers" and isinstance(value, list)
    }
    return tuple(
        name for name, value in lists.items() if any(_has_rows(part, count) for part in value)
    )


def cache_rows(cache: Any) -> int | None:
    """Return the number of rows of a cache; None if it is empty."""
    return next(
        (int(tensor.shape[0]) for layer in cache.layers for tensor in layer_tensors(layer)), None
    )


def crop_cache(cache: Any, length: int) -> Any:
    """Return the first `length` tokens of `cache`, sharing its tensors; None if a layer does not hold all tokens."""
    if not plain_layers(cache):
        return None
    twin = copy_cache(cache)
    for layer in filter(_holds_tokens, twin.layers):
        layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]
    return twin


ROOM = 32
"""Maximum number of reply tokens for which a cache allocates room at once."""


def with_room(cache: Any, longest: int) -> Any:
    """Return a copy of `cache` whose plain layers have room for replies of up to `longest` tokens.

    Ordinary layers copy all keys and values for each token. Tensors that others hold are not changed.
    """
    roomy = _roomy_layer()
    twin = copy_cache(cache)
    for number, layer in enumerate(twin.layers):
        if type(layer).__name__ == "DynamicLayer" and _holds_tokens(layer):
            twin.layers[number] = roomy.__new__(roomy)
            vars(twin.layers[number]).update(vars(layer), steps=min(ROOM, longest))
    return twin


@functools.cache
def _roomy_layer() -> Any:
    """Return the type of layer that has room. It is defined here because transformers is imported late."""
    plain: Any = import_transformers().cache_utils.DynamicLayer

    class RoomyLayer(plain):
        steps = ROOM
        held: dict[str, tuple[Any, Any]] | None = None
        """By name, a tensor with room and the part of it that was shown last."""

        def update(
            self, key_states: Any, value_states: Any, *args: Any, **settings: Any
        ) -> tuple[Any, Any]:
            self.keys, self.values = (
                self._grown("keys", key_states),
                self._grown("values", value_states),
            )
            return self.keys, self.values

        def _grown(self, name: str, new: Any) -> Any:
            before, held = getattr(self, name), self.held or {}
            length, more = before.shape[-2], new.shape[-2]
            room, shown = held.get(name, (None, None))
            if shown is not before or room.shape[-2] < length + more:
                room = new.new_empty(
                    (*before.shape[:-2], length + self.steps * more, before.shape[-1])
                )
                room[..., :length, :] = before
            room[..., length : length + more, :] = new
            grown = room[..., : length + more, :]
            self.held = {**held, name: (room, grown)}
            return grown

    return RoomyLayer


def plain_layers(cache: Any) -> bool:
    """Return whether each layer holds the keys and values of all tokens and nothing else, or nothing at all.

    Layers of an image are empty if there is none (Mllama).
    """
    layers = cache.layers
    if states_beside_layers(cache):
        return False
    return all(type(layer).__name__ == "DynamicLayer" for layer in layers) and (
        len({layer.keys.shape[2] for layer in filter(_holds_tokens, layers)}) == 1
    )


def _holds_tokens(layer: Any) -> bool:
    return layer.keys is not None


def _has_rows(value: Any, count: int | None) -> bool:
    """Return whether `value` is a tensor with an entry for each of `count` rows."""
    return getattr(value, "ndim", 0) > 1 and value.shape[0] == count


def layer_tensors(layer: Any) -> list[Any]:
    """Return the tensors that a layer holds for its rows: keys, values and states, also inside lists and mappings."""
    import torch

    values = [
        part
        for value in vars(layer).values()
        for part in (value.values() if isinstance(value, dict) else [value])
    ]
    return [value for value in values if isinstance(value, torch.Tensor) and value.ndim > 1]


# --- rows of unequal length as one batch ------------------------------------------------------------------------------


Side = Literal["left", "right"]


def pad_rows(rows: Sequence[EncodedPrompt], pad: int, side: Side) -> Tensors:
    """Return one batch of `rows`, with tokens padded on `side`. Nothing else is padded.

    Raises ValueError for rows of different form, because padding of images, tiles or sizes would be visible to the
    model.
    """
    import torch

    if len({row.form for row in rows}) > 1:
        raise ValueError("inputs of different shapes cannot share a batch")
    longest = max(len(row.ids) for row in rows)
    missing = [longest - len(row.ids) for row in rows]
    ids = [_padded(row.ids, pad, lack, side) for row, lack in zip(rows, missing, strict=True)]
    mask = [
        _padded((1,) * len(row.ids), 0, lack, side) for row, lack in zip(rows, missing, strict=True)
    ]
    batch = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    for name in rows[0].extras:
        values = [row.extras[name] for row in rows]
        if name in rows[0].per_token:
            values = [
                _pad_tokens(value, lack, side) for value, lack in zip(values, missing, strict=True)
            ]
        batch[name] = _concatenate(values)
    return batch


def to_device(model: Any, batch: Tensors) -> Tensors:
    """Return the batch on the model's device, with images in the model's dtype."""
    import torch

    device = input_device(model)
    moved = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            number = model.dtype if value.is_floating_point() else value.dtype
            value = copy_to_device(value, device).to(number)
        moved[name] = value
    return moved


def _padded(values: Sequence[int], pad: int, lack: int, side: Side) -> list[int]:
    padding = [pad] * lack
    return [*padding, *values] if side == "left" else [*values, *padding]


def _pad_tokens(values: Any, lack: int, side: Side) -> Any:
    import torch

    padding = values.new_zeros((1, lack, *values.shape[2:]))
    return torch.cat([padding, values] if side == "left" else [values, padding], dim=1)


def _concatenate(values: Sequence[Any]) -> Any:
    """Return inputs of the same form, concatenated along the batch."""
    import torch

    if not isinstance(values[0], torch.Tensor):
        return [item for value in values for item in value]
    return torch.cat(list(values), dim=0)


# --- forward passes ---------------------------------------------------------------------------------------------------


Row = tuple[EncodedPrompt, tuple[int, ...]]
"""A context, and the scored tokens after it."""


def continuation_rows(prompts: Sequence[ContinuedPrompt]) -> list[Row]:
    return [(request.context, tail) for request in prompts for tail in request.tails]


def score_rows(layout: ModelLayout, rows: Sequence[Row]) -> list[list[float]]:
    """Return the log-probability (nats, float32) of every scored token of every row, from one forward pass."""
    logits = decoder_logits(layout, rows) if layout.encoder_decoder else _logits(layout, rows)
    return [
        token_scores(values, tail).tolist() for values, (_, tail) in zip(logits, rows, strict=True)
    ]


def write_token_by_token(
    layout: ModelLayout, rows: Sequence[EncodedPrompt], pick: TokenPicker, longest: int
) -> list[list[int]]:
    """Return new tokens of every request, each from a full forward pass over the prompt and all earlier tokens."""
    replies = []
    with inference():
        for place, row in enumerate(rows):
            reply = GrowingReplies(1, pick([place]))
            while len(reply.tokens[0]) < longest and not reply.ended[0]:
                reply.choose(_next_logits(layout, row, reply.tokens[0]))
            replies.append(reply.tokens[0])
    return replies


def _next_logits(layout: ModelLayout, context: EncodedPrompt, tail: Sequence[int]) -> Any:
    """Return the logits [1, vocabulary] that predict the token after `tail`."""
    if layout.encoder_decoder:
        # The last token of a row is predicted alone, and not read.
        return decoder_logits(layout, [(context, (*tail, layout.pad))])[0][-1:]
    batch = to_device(
        layout.model, pad_rows([extend(context, tail, layout.reply_type)], layout.pad, "right")
    )
    layout.forget_positions()
    return layout.model(**batch, use_cache=False).logits[:, -1]


def token_scores(logits: Any, tail: Sequence[int]) -> Any:
    """Return log p of each token of `tail`, where logits[i] predicts tail[i]: [len(tail)], float32."""
    import torch

    ids = torch.tensor(tail, device=logits.device)[:, None]
    return logits[: len(tail)].float().log_softmax(-1).gather(-1, ids)[:, 0]


def logits_to_keep(model: Any, positions: int) -> dict[str, Any]:
    """Return the setting that computes logits of only the last `positions`, if the model supports it."""
    supported = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": positions} if supported else {}


def _logits(layout: ModelLayout, rows: Sequence[Row]) -> list[Any]:
    """Return for each row the logits from the last token of its context on."""
    model = layout.model
    texts = [extend(context, tail, layout.reply_type) for context, tail in rows]
    batch = to_device(model, pad_rows(texts, layout.pad, "right"))
    start = min(len(context.ids) for context, _ in rows) - 1
    length = batch["input_ids"].shape[1]
    layout.forget_positions()
    limit: dict[str, Any] = {} if layout.all_logits else logits_to_keep(model, length - start)
    logits = model(**batch, **limit, use_cache=False).logits[:, start - length :]
    return [logits[i, len(context.ids) - 1 - start :] for i, (context, _) in enumerate(rows)]


def decoder_logits(layout: ModelLayout, rows: Sequence[Row]) -> list[Any]:
    """Return for each row the decoder's logits from its first token on."""
    import torch

    longest = max(len(tail) for _, tail in rows)
    decoder_ids = [
        [layout.start, *tail[:-1], *[layout.pad] * (longest - len(tail))] for _, tail in rows
    ]
    batch = to_device(layout.model, pad_rows([context for context, _ in rows], layout.pad, "right"))
    decoder = copy_to_device(torch.tensor(decoder_ids), input_device(layout.model))
    return list(layout.model(**batch, decoder_input_ids=decoder, use_cache=False).logits)


# --- replies as they grow ---------------------------------------------------------------------------------------------


TokenPicker = Callable[
    [Sequence[int]], Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]
]
"""Function from the indices of a batch's requests to a function that chooses tokens.

That function maps logits and the tokens so far to the next token of each row, and whether the row ends with it.
"""


class GrowingReplies:
    """The tokens generated so far for the requests of a batch."""

    def __init__(
        self, count: int, choose: Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]
    ) -> None:
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.ended = [False] * count
        self._choose = choose

    def choose(self, logits: Any) -> list[int]:
        """Append and return the next tokens; requests that have ended stay unchanged."""
        tokens, ends = self._choose(logits, self.tokens)
        for row, token in enumerate(tokens):
            if not self.ended[row]:
                self.tokens[row].append(token)
                self.ended[row] = ends[row]
        return tokens


NO_CACHE = "it returns no cache"


@dataclass(frozen=True)
class CachedState:
    """The state of a model after the text of each row."""

    cache: Any
    mask: Any
    """[rows, tokens], 1 for a token, 0 for a hole."""
    position: Any
    """[rows], the position of the next token."""
    logits: Any
    """[rows, vocabulary], predicting the next token."""
    tile_mask: Any = None
    """[rows, 1, images, tiles], which tiles the last token sees (Mllama)."""
    has_no_holes: bool = False
    """Whether rows certainly have no holes. Then no mask is needed, and attention uses its causal form."""


def prefill(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> CachedState:
    """Run prompts from the beginning, including their images."""
    import torch

    model = layout.model
    batch = to_device(model, pad_rows(rows, layout.pad, "right"))
    layout.forget_positions()
    device = input_device(model)
    lengths = copy_to_device(torch.tensor([len(row.ids) for row in rows]), device)
    logits_setting = _last_only(layout, model, lengths)
    output = model(**batch, **logits_setting, **layout.first_cache(), use_cache=True)
    every_row = torch.arange(len(rows), device=device)
    position = lengths + layout.offset
    if layout.rotary is not None and "video_grid_thw" in batch:
        _, position = layout.places(batch, batch["attention_mask"], rows[0].per_token)
    tile_mask = batch.get("cross_attention_mask")
    return CachedState(
        cache=cache_of(output),
        mask=batch["attention_mask"],
        position=position,
        logits=_last(output.logits, lengths, logits_setting, batch["input_ids"].shape[1]),
        tile_mask=None if tile_mask is None else tile_mask[every_row, lengths - 1][:, None],
        has_no_holes=len({len(row.ids) for row in rows}) == 1,
    )


def select_rows(state: CachedState, rows: Sequence[int]) -> CachedState:
    """Return the given rows, possibly repeated, with a new cache."""
    import torch

    # On the CPU, since the layers of a cache are where their blocks are, which may be several devices.
    index = torch.tensor(rows)
    every = list(rows) == list(range(state.mask.shape[0]))
    cache = copy_cache(state.cache) if every else select_cache_rows(state.cache, index)
    tile_mask = None if state.tile_mask is None else state.tile_mask[index]
    return CachedState(
        cache,
        state.mask[index],
        state.position[index],
        state.logits[index],
        tile_mask,
        state.has_no_holes,
    )


def advance(
    layout: ModelLayout,
    state: CachedState,
    texts: Sequence[Sequence[int]],
    all_logits: bool = False,
) -> tuple[CachedState, Any]:
    """Run `texts[i]` in row i. Returns the new state, and logits after every token: [rows, longest, vocabulary].

    Consumes the cache of `state`. Without `all_logits` the logits are those of the new state only. A row
    with an empty text keeps its logits.
    """
    import torch

    device, longest = state.mask.device, max(map(len, texts))
    lengths = copy_to_device(torch.tensor([len(text) for text in texts]), device)
    ids = copy_to_device(
        torch.tensor([[*text, *[layout.pad] * (longest - len(text))] for text in texts]), device
    )
    steps = torch.arange(longest, device=device)
    mask = torch.cat([state.mask, (steps[None] < lengths[:, None]).to(state.mask.dtype)], dim=1)
    logits_setting = (
        {} if all_logits else _last_only(layout, layout.language_model, lengths.clamp_min(1))
    )
    whole = state.has_no_holes and len({len(text) for text in texts}) == 1
    positions = state.position[:, None] + steps[None]
    output = run_language_model(
        layout, state, ids, None if whole else mask, positions, logits_setting
    )
    last = _last(output.logits, lengths.clamp_min(1), logits_setting, longest)
    logits = torch.where(lengths[:, None] > 0, last, state.logits)
    grown = CachedState(
        cache_of(output), mask, state.position + lengths, logits, state.tile_mask, whole
    )
    return grown, output.logits


def run_language_model(
    layout: ModelLayout,
    state: CachedState,
    ids: Any,
    mask: Any,
    positions: Any,
    logits_setting: dict[str, Any],
) -> Any:
    """Run a forward pass after `state`, whose cache is consumed. `mask` is None if every token sees all tokens before it."""
    # M-RoPE has three positions per token (time, height, width), which are equal for text.
    if layout.rotary is not None:
        positions = positions[None].expand(3, -1, -1)
    tile_mask: dict[str, Any] = (
        {}
        if state.tile_mask is None
        else {"cross_attention_mask": state.tile_mask.expand(-1, ids.shape[1], -1, -1)}
    )
    output = layout.language_model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=state.cache,
        use_cache=True,
        **logits_setting,
        **tile_mask,
    )
    # The head may be on another device than the inputs, to which accelerate brings back what the whole model returns.
    output.logits = output.logits.to(ids.device)
    return output


def cache_of(output: Any) -> Any:
    """Return the cache in the output of a forward pass. Raises ValueError if there is none."""
    outputs = (output, getattr(output, "language_model_outputs", None))
    cache = next(
        (
            part_cache
            for part in outputs
            if (part_cache := getattr(part, "past_key_values", None)) is not None
        ),
        None,
    )
    if cache is None:
        raise ValueError(NO_CACHE)
    return cache


def _last_only(layout: ModelLayout, model: Any, lengths: Any) -> dict[str, Any]:
    """Return the setting that computes logits only at the rows' last positions, if the model supports it."""
    return (
        {}
        if layout.all_logits
        else {name: (lengths - 1).unique() for name in logits_to_keep(model, 1)}
    )


def _last(logits: Any, lengths: Any, logits_setting: dict[str, Any], longest: int) -> Any:
    """Return the logits [rows, vocabulary] at each row's last token. Logits of anything before the text are skipped."""
    import torch

    places = next(iter(logits_setting.values()), None)
    index = (
        lengths - 1 + logits.shape[1] - longest
        if places is None
        else torch.searchsorted(places, lengths - 1)
    )
    return logits[torch.arange(len(lengths), device=logits.device), index]
