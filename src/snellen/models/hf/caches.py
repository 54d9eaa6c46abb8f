"""Copy the key-value caches of models, select rows of them, and find out what their layers hold.

This is decided by what a layer holds, not by the name of the model. A layer of attention holds keys
and values. When tokens are added, it replaces its tensors by longer ones. A layer of linear
attention, of a convolution or of a state space holds a single state for all tokens, which each
forward pass changes in place. Such a state must be copied before two texts continue from it, and
cannot be cut back to fewer tokens.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

from snellen.models.hf.load import import_transformers

GROWN_BY_NEW_TENSORS = (
    "DynamicLayer",
    "DynamicSlidingWindowLayer",
    "DynamicIndexedLayer",
    "DummyLayer",
)
"""Types of cache layers that never change a tensor in place."""


def copy_cache(cache: Any) -> Any:
    """Return a copy of a cache that can get more tokens without changing the original.

    Keys and values are not copied, because layers of attention replace their tensors when tokens
    are added. All other states are copied.
    """
    if hasattr(cache, "self_attention_cache"):
        return _by_part(cache, copy_cache)
    twin = copy.copy(cache)
    for name, value in vars(cache).items():
        if name != "layers":
            vars(twin)[name] = copy.deepcopy(value)
    layers = []
    for layer in cache.layers:
        grows_by_new_tensors = type(layer).__name__ in GROWN_BY_NEW_TENSORS
        layers.append(copy.copy(layer) if grows_by_new_tensors else copy.deepcopy(layer))
    twin.layers = layers
    return twin


def select_cache_rows(cache: Any, rows: Any) -> Any:
    """Return a new cache with the given rows of a cache.

    Args:
        cache: The cache.
        rows: A tensor of row indices [selected rows], in which an index may occur several times.

    Raises:
        ValueError: A layer has a state whose rows cannot be selected.
    """
    if hasattr(cache, "self_attention_cache"):
        return _by_part(cache, lambda part: select_cache_rows(part, rows))
    twin = copy_cache(cache)
    count = cache_rows(cache)
    for name in states_beside_layers(cache):
        states = []
        for state in getattr(twin, name):
            states.append(state[rows] if _has_rows(state, count) else state)
        setattr(twin, name, states)
    for number, layer in enumerate(twin.layers):
        # Every kind of layer can reorder all that it holds, for beams; few can select.
        layer.reorder_cache(rows)
        if count == len(rows):
            continue
        if any(_has_rows(tensor, count) for tensor in layer_tensors(layer)):
            raise ValueError(
                f"layer {number} of its cache, a {type(layer).__name__}, keeps a state of all rows"
            )
    return twin


def _by_part(cache: Any, change: Callable[[Any], Any]) -> Any:
    """Return a copy of the cache of an encoder-decoder, whose two caches are results of `change`."""
    twin = copy.copy(cache)
    twin.is_updated = dict(cache.is_updated)
    twin.self_attention_cache = change(cache.self_attention_cache)
    twin.cross_attention_cache = change(cache.cross_attention_cache)
    return twin


def states_beside_layers(cache: Any) -> tuple[str, ...]:
    """Return the names of a cache's lists of tensors, other than `layers`, that have one entry per row.

    MiniMax's cache has such an attribute. The result is () for most models.
    """
    count = cache_rows(cache)
    names = []
    for name, value in vars(cache).items():
        if name == "layers" or not isinstance(value, list):
            continue
        if any(_has_rows(part, count) for part in value):
            names.append(name)
    return tuple(names)


def cache_rows(cache: Any) -> int | None:
    """Return the number of rows of a cache; None if it is empty."""
    for layer in cache.layers:
        for tensor in layer_tensors(layer):
            return int(tensor.shape[0])
    return None


ROOM = 32
"""Maximum number of reply tokens for which a cache allocates room at once."""


def with_room(cache: Any, longest: int) -> Any:
    """Return a copy of a cache whose attention layers have room for several further tokens.

    An ordinary layer copies all its keys and values for each new token, which takes long for long
    prompts. The tensors of `cache` are not changed.

    Args:
        cache: The cache.
        longest: Maximum number of tokens that will be added. At most `ROOM` tokens of room are
            allocated at once.
    """
    if hasattr(cache, "self_attention_cache"):
        return _by_part(cache, lambda part: with_room(part, longest))
    layer_with_room = _roomy_layer()
    twin = copy_cache(cache)
    for number, layer in enumerate(twin.layers):
        if type(layer).__name__ == "DynamicLayer" and holds_tokens(layer):
            roomy = layer_with_room.__new__(layer_with_room)
            vars(roomy).update(vars(layer), steps=min(ROOM, longest))
            twin.layers[number] = roomy
    return twin


@functools.cache
def _roomy_layer() -> Any:
    """Return a type of cache layer that allocates room for several tokens at once.

    It is defined here because transformers is imported late.
    """
    plain: Any = import_transformers().cache_utils.DynamicLayer

    class RoomyLayer(plain):
        steps = ROOM
        buffers: dict[str, tuple[Any, Any]] | None = None
        """For "keys" and "values": a tensor with room, and the filled part of it that the layer returned last."""

        def update(
            self, key_states: Any, value_states: Any, *args: Any, **settings: Any
        ) -> tuple[Any, Any]:
            self.keys = self._appended("keys", key_states)
            self.values = self._appended("values", value_states)
            return self.keys, self.values

        def _appended(self, name: str, new: Any) -> Any:
            """Return the layer's keys or values, followed by those of the new tokens.

            They are written into the allocated room. Everything is copied only when the room is
            used up, or when the layer's tensor was replaced.

            Args:
                name: "keys" or "values".
                new: Keys or values of the new tokens; shape (rows, heads, new tokens, width).
            """
            before = getattr(self, name)
            length = before.shape[-2]
            added = new.shape[-2]
            buffers = self.buffers or {}
            buffer, filled = buffers.get(name, (None, None))
            is_current = filled is before
            if not is_current or buffer.shape[-2] < length + added:
                shape = (*before.shape[:-2], length + self.steps * added, before.shape[-1])
                buffer = new.new_empty(shape)
                buffer[..., :length, :] = before
            buffer[..., length : length + added, :] = new
            filled = buffer[..., : length + added, :]
            self.buffers = {**buffers, name: (buffer, filled)}
            return filled

    return RoomyLayer


def holds_all_tokens(cache: Any) -> bool:
    """Return whether each layer holds the keys and values of all tokens that it was given, and nothing else.

    This is false for a sliding window, which drops old tokens, and for recurrent layers, which hold
    a state instead.
    """
    if states_beside_layers(cache):
        return False
    return all(type(layer).__name__ == "DynamicLayer" for layer in cache.layers)


def plain_layers(cache: Any) -> bool:
    """Return whether all layers hold keys and values of the same number of tokens, and nothing else.

    This is also false if a layer holds nothing, as Mllama's layers for images do if there is no
    image.
    """
    if not holds_all_tokens(cache):
        return False
    if not all(holds_tokens(layer) for layer in cache.layers):
        return False
    return len({layer.keys.shape[2] for layer in cache.layers}) == 1


def holds_tokens(layer: Any) -> bool:
    """Return whether a layer has keys and values. Mllama's layers for images have none if there is no image."""
    return layer.keys is not None


def _has_rows(value: Any, count: int | None) -> bool:
    """Return whether `value` is a tensor with an entry for each of `count` rows."""
    has_dimensions = getattr(value, "ndim", 0) > 1
    return has_dimensions and value.shape[0] == count


def layer_tensors(layer: Any) -> list[Any]:
    """Return the tensors that a layer holds for its rows: keys, values and states, also inside mappings."""
    import torch

    values: list[Any] = []
    for value in vars(layer).values():
        if isinstance(value, dict):
            values.extend(value.values())
        else:
            values.append(value)
    return [value for value in values if isinstance(value, torch.Tensor) and value.ndim > 1]
