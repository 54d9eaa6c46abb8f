"""Cache the beginnings of prompts (prefixes) from one call of the model to the next.

For example, CircularEval sends a question in another order of options only after the first order
was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
)
from snellen.models.hf.caches import (
    copy_cache,
    plain_layers,
)
from snellen.models.hf.sharing_plan import PrefixItem, SharingGroup, reusable_length

RECENT = 4
"""Calls for which an unused prefix is kept; after that it can be evicted."""


@dataclass(frozen=True)
class _CachedPrefix:
    """The state of the model after one prefix: a single row, without padding between its tokens."""

    tokens: tuple[int, ...]
    state: CachedState
    size: int
    """Bytes of keys and values."""
    call: int
    """The call in which it was last used."""


class PrefixCache:
    """Cache of prefixes, of at most `room` bytes, with one prefix for each set of images.

    A prefix can be used for texts that begin with the same tokens and show the same images. Its key
    is a digest of the images. When the cache is full, recently used prefixes stay, and no new ones
    are added: if more prefixes are used in turn than fit, each would otherwise be removed just
    before it is needed.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        """Bytes that may be cached."""
        self._cached: dict[str, _CachedPrefix] = {}
        self._call = 0
        self.served = 0
        """Number of groups of requests whose prefix was found in the cache."""

    def begin(self) -> None:
        """Begin a new call of the model. Prefixes that were not used in the last few calls may be removed."""
        self._call += 1

    def clear(self) -> None:
        """Drop everything."""
        self._cached.clear()

    def release_memory(self) -> bool:
        """After running out of memory, remove all prefixes and halve the maximum size.

        Returns False if the cache was empty, so that no memory was gained.
        """
        had_prefixes = bool(self._cached)
        self._cached.clear()
        if had_prefixes:
            self.room //= 2
        return had_prefixes

    def split_cached(
        self, items: Sequence[PrefixItem], groups: Sequence[SharingGroup], shared: bool
    ) -> tuple[list[SharingGroup], CachedState | None, list[SharingGroup]]:
        """Separate the groups whose prefix is cached from the others.

        Args:
            items: The tokenised requests.
            groups: Groups of them with a common prefix.
            shared: Whether a part of a cached prefix may be used; otherwise only an identical
                prefix is.

        Returns:
            The groups whose prefix is cached, with `prefix` set to the number of cached tokens; the
            state of the model after these prefixes, one row per group, or None if there is no such
            group; and the other groups.
        """
        cached_groups: list[SharingGroup] = []
        cached_prefixes: list[_CachedPrefix] = []
        uncached_groups = []
        for group in groups:
            key = items[group.members[0]].key
            cached = self._cached.get(key)
            length = 0
            if cached is not None:
                length = reusable_length(items, group, cached.tokens, shared)
            if cached is None or not length:
                uncached_groups.append(group)
                continue
            self._cached[key] = replace(cached, call=self._call)
            cached_groups.append(replace(group, prefix=length))
            cached_prefixes.append(cached)
        self.served += len(cached_groups)
        state = None
        if cached_groups:
            state = _joined(cached_prefixes, [group.prefix for group in cached_groups])
        return cached_groups, state, uncached_groups

    def add(
        self, items: Sequence[PrefixItem], groups: Sequence[SharingGroup], state: CachedState
    ) -> None:
        """Add the prefixes of some groups to the cache, as long as there is room.

        Args:
            items: The tokenised requests.
            groups: Groups of them with a common prefix.
            state: The state of the model after these prefixes, one row per group.
        """
        if state.seen or not plain_layers(state.cache):
            return
        for row, group in enumerate(groups):
            first = items[group.members[0]]
            row_state = _row(state, row, group.prefix, alone=len(groups) == 1)
            size = 0
            for layer in row_state.cache.layers:
                for tensor in (layer.keys, layer.values):
                    size += tensor.untyped_storage().nbytes()
            self._cached.pop(first.key, None)
            if self._make_room(size):
                prefix_tokens = first.tokens[: group.prefix]
                self._cached[first.key] = _CachedPrefix(prefix_tokens, row_state, size, self._call)

    def _make_room(self, size: int) -> bool:
        """Remove prefixes that were not used recently, the oldest first, until `size` bytes are free.

        Returns False if that is not enough.
        """
        stale = []
        occupied = 0
        for key, cached in self._cached.items():
            occupied += cached.size
            if cached.call < self._call - RECENT:
                stale.append((cached.call, key))
        for _, key in sorted(stale):
            if occupied + size <= self.room:
                break
            occupied -= self._cached.pop(key).size
        return occupied + size <= self.room


def _row(state: CachedState, row: int, length: int, *, alone: bool) -> CachedState:
    """Return one row of a state, with its first `length` tokens.

    The row is copied unless it is the only one (`alone`). A slice of a tensor would keep the memory
    of the other rows in use.
    """
    cache = copy_cache(state.cache)
    for layer in cache.layers:
        keys = layer.keys[row : row + 1, :, :length]
        values = layer.values[row : row + 1, :, :length]
        layer.keys = keys if alone else keys.clone()
        layer.values = values if alone else values.clone()
    row_slice = slice(row, row + 1)
    return CachedState(
        cache,
        state.mask[row_slice, :length],
        state.position[row_slice],
        state.logits[row_slice].clone(),
    )


def _joined(prefixes: Sequence[_CachedPrefix], lengths: Sequence[int]) -> CachedState:
    """Return one state with a row for each cached prefix.

    Args:
        prefixes: The prefixes.
        lengths: How many tokens of each prefix are used. Shorter rows are padded at the end.
    """
    import torch

    states = [prefix.state for prefix in prefixes]
    cache = copy_cache(states[0].cache)
    for number, layer in enumerate(cache.layers):
        layers = [state.cache.layers[number] for state in states]
        layer.keys = _stacked([row_layer.keys for row_layer in layers], lengths)
        layer.values = _stacked([row_layer.values for row_layer in layers], lengths)
    device = states[0].mask.device
    used_lengths = torch.tensor(lengths, device=device)
    cached_lengths = torch.tensor([len(prefix.tokens) for prefix in prefixes], device=device)
    # Only text is cut off, whose positions increase by one.
    cut_off = cached_lengths - used_lengths
    position = torch.cat([state.position for state in states]) - cut_off
    mask = torch.arange(max(lengths), device=device) < used_lengths[:, None]
    return CachedState(
        cache=cache,
        mask=mask.long(),
        position=position,
        logits=torch.cat([state.logits for state in states]),
    )


def _stacked(rows: Sequence[Any], lengths: Sequence[int]) -> Any:
    """Return the keys or values of several prompts as one tensor [prompts, heads, longest, width].

    Args:
        rows: One tensor [1, heads, tokens, width] for each prompt.
        lengths: How many of its tokens to use; zeros follow them up to the longest.
    """
    if len(rows) == 1:
        return rows[0][:, :, : lengths[0]]
    _, heads, _, width = rows[0].shape
    stacked = rows[0].new_zeros((len(rows), heads, max(lengths), width))
    for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        stacked[index, :, :length] = row[0, :, :length]
    return stacked
