"""Decides how a window of requests is run: by tree, by rows, or on the plain path.

Prefixes kept from call to call: CircularEval asks for the next order only when the first was answered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from snellen.errors import ModelError
from snellen.models.hf.cached_forward import (
    CachedState,
    TokenPicker,
    continuation_rows,
    copy_cache,
    plain_layers,
    prefill,
    score_rows,
    write_token_by_token,
)
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, truncate
from snellen.models.hf.load import (
    inference,
    input_device,
    kind_of,
    total_memory,
    unless_out_of_memory,
)
from snellen.models.hf.model_layout import ModelLayout, encoder_input_digest, to_prefix_item
from snellen.models.hf.prefix_sharing import (
    TreeState,
    extend_trees,
    generate_by_rows,
    generate_by_tree,
    run_trees,
    score_by_rows,
    score_by_tree,
)
from snellen.models.hf.reference import Scores
from snellen.models.hf.sharing_plan import (
    PLAIN,
    Budget,
    FastPaths,
    PrefixItem,
    SharingGroup,
    Tree,
    build_tree,
    plan_sharing,
    reusable_length,
)
from snellen.models.hf.vision_cache import VisionCache, caching_vision

RECENT = 4
"""Calls for which an unused prefix is kept; after that it can be evicted."""


@dataclass(frozen=True)
class _CachedPrefix:
    """One row of a state, without holes."""

    tokens: tuple[int, ...]
    state: CachedState
    size: int
    """Bytes of keys and values."""
    call: int
    """The call in which it was last used."""


class PrefixCache:
    """Prefixes cached within `room` bytes, one for each set of images.

    A prefix serves texts that begin with the same tokens and see the same images, whose digest is its
    key. When the cache is full, recently used prefixes stay and nothing is added: a window larger than the
    cache would otherwise evict each prefix just before it is needed.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        """Bytes that may be cached."""
        self._cached: dict[str, _CachedPrefix] = {}
        self._call = 0
        self.served = 0
        """Number of groups that needed no prefill."""

    def begin(self) -> None:
        """Start a new call."""
        self._call += 1

    def clear(self) -> None:
        """Drop everything."""
        self._cached.clear()

    def release_memory(self) -> bool:
        """After running out of memory, drop everything and halve the room. False if the cache was empty already."""
        had_prefixes = bool(self._cached)
        self._cached.clear()
        if had_prefixes:
            self.room //= 2
        return had_prefixes

    def split_cached(
        self, items: Sequence[PrefixItem], groups: Sequence[SharingGroup], shared: bool
    ) -> tuple[list[SharingGroup], CachedState | None, list[SharingGroup]]:
        """Groups with a cached prefix, cut back to it; the state after those prefixes; and the other groups."""
        cached_groups: list[tuple[SharingGroup, _CachedPrefix]] = []
        uncached_groups = []
        for group in groups:
            key = items[group.members[0]].key
            cached = self._cached.get(key)
            length = (
                reusable_length(items, group, cached.tokens, shared) if cached is not None else 0
            )
            if cached is None or not length:
                uncached_groups.append(group)
                continue
            self._cached[key] = replace(cached, call=self._call)
            cached_groups.append((replace(group, prefix=length), cached))
        self.served += len(cached_groups)
        return (
            [group for group, _ in cached_groups],
            _joined(cached_groups) if cached_groups else None,
            uncached_groups,
        )

    def add(
        self, items: Sequence[PrefixItem], groups: Sequence[SharingGroup], state: CachedState
    ) -> None:
        """Cache the rows of `state`, the state after the prefixes of `groups`, as far as there is room."""
        if state.cache is None or state.tile_mask is not None or not plain_layers(state.cache):
            return
        for row, group in enumerate(groups):
            first = items[group.members[0]]
            row_state = _row(state, row, group.prefix, alone=len(groups) == 1)
            size = sum(
                tensor.untyped_storage().nbytes()
                for layer in row_state.cache.layers
                for tensor in (layer.keys, layer.values)
            )
            self._cached.pop(first.key, None)
            if self._make_room(size):
                self._cached[first.key] = _CachedPrefix(
                    first.tokens[: group.prefix], row_state, size, self._call
                )

    def _make_room(self, size: int) -> bool:
        """Evict prefixes not used recently, the oldest first, until there is room."""
        stale = sorted(
            (cached.call, key)
            for key, cached in self._cached.items()
            if cached.call < self._call - RECENT
        )
        occupied = sum(cached.size for cached in self._cached.values())
        while occupied + size > self.room and stale:
            occupied -= self._cached.pop(stale.pop(0)[1]).size
        return occupied + size <= self.room


def _row(state: CachedState, row: int, length: int, *, alone: bool) -> CachedState:
    """One row as its own state, copied unless it is alone, since a slice would keep its neighbours in memory."""
    cache = copy_cache(state.cache)
    for layer in cache.layers:
        keys, values = (tensor[row : row + 1, :, :length] for tensor in (layer.keys, layer.values))
        layer.keys, layer.values = (keys, values) if alone else (keys.clone(), values.clone())
    row_slice = slice(row, row + 1)
    return CachedState(
        cache,
        state.mask[row_slice, :length],
        state.position[row_slice],
        state.logits[row_slice].clone(),
        has_no_holes=True,
    )


def _joined(served: Sequence[tuple[SharingGroup, _CachedPrefix]]) -> CachedState:
    """One state of several rows, each cut back to its group's prefix."""
    import torch

    states, lengths = [cached.state for _, cached in served], [group.prefix for group, _ in served]
    cache = copy_cache(states[0].cache)
    for number, layer in enumerate(cache.layers):
        layer.keys = _stacked([state.cache.layers[number].keys for state in states], lengths)
        layer.values = _stacked([state.cache.layers[number].values for state in states], lengths)
    device = states[0].mask.device
    prefix_lengths = torch.tensor(lengths, device=device)
    full_lengths = torch.tensor([len(cached.tokens) for _, cached in served], device=device)
    return CachedState(
        cache=cache,
        mask=(torch.arange(max(lengths), device=device) < prefix_lengths[:, None]).long(),
        # Only text is cut off, whose positions increase by one.
        position=torch.cat([state.position for state in states]) - (full_lengths - prefix_lengths),
        logits=torch.cat([state.logits for state in states]),
        has_no_holes=len(set(lengths)) == 1,
    )


def _stacked(rows: Sequence[Any], lengths: Sequence[int]) -> Any:
    """[rows, heads, tokens, width]: each row's first `lengths[row]` tokens."""
    if len(rows) == 1:
        return rows[0][:, :, : lengths[0]]
    stacked = rows[0].new_zeros((len(rows), rows[0].shape[1], max(lengths), rows[0].shape[3]))
    for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        stacked[place, :, :length] = row[0, :, :length]
    return stacked


VISION_CACHE_BYTES = 256 * 1024 * 1024
"""Bytes of vision features kept from batch to batch."""
PREFIX_CACHE_BYTES = 1024 * 1024 * 1024
"""Bytes of keys and values kept from call to call, without an accelerator."""
R = TypeVar("R")


class DoesNotFitError(ModelError):
    """A request that does not fit in memory by itself."""

    def __init__(self) -> None:
        super().__init__(
            "a single question does not fit into memory; use smaller images, a smaller number format "
            "(?dtype=bf16), or a larger machine"
        )


@dataclass(frozen=True)
class SharedRunners(Generic[R]):
    """Computes results from prefixes that were run, for each member of their groups."""

    by_tree: Callable[[list[SharingGroup], list[Tree], TreeState], dict[int, R]]
    by_rows: Callable[[list[SharingGroup], CachedState], dict[int, R]]


class Engine:
    """Runs tokenised requests on one model. Scores are token log-probabilities in nats, float32."""

    def __init__(
        self, layout: ModelLayout, rows: int, tokens: int, fast_paths: FastPaths = PLAIN
    ) -> None:
        self.layout = layout
        self.fast_paths = fast_paths
        self.budget = Budget(rows, tokens)
        self.tower = (
            VisionCache(layout.tower, VISION_CACHE_BYTES) if layout.tower is not None else None
        )
        self.reader = (
            VisionCache(layout.text_encoder, VISION_CACHE_BYTES)
            if layout.text_encoder is not None
            else None
        )
        self.prefix_cache = PrefixCache(_room(layout))

    def score(
        self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths | None = None
    ) -> list[Scores]:
        """Token scores of every continuation of every request, in order."""
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        within = [
            i
            for i, prompt in enumerate(prompts)
            if is_proved(fast_paths, prompt.context, max(map(len, prompt.tails)))
        ]
        run = self._by_groups if fast_paths.cache else self._by_full_rows
        with inference(), self._undoing_for_the_largest():
            scores = dict(zip(within, run([prompts[i] for i in within], fast_paths), strict=True))
            beyond = [i for i in range(len(prompts)) if i not in scores]
            scores.update(
                zip(beyond, self._by_full_rows([prompts[i] for i in beyond], PLAIN), strict=True)
            )
        return [scores[i] for i in range(len(prompts))]

    def generate(
        self,
        rows: Sequence[EncodedPrompt],
        pick: TokenPicker,
        longest: int,
        fast_paths: FastPaths | None = None,
    ) -> list[list[int]]:
        """New tokens of every request: by shared prefixes as far as that is proved, otherwise token by token."""
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        by_prefixes = fast_paths.cache and fast_paths.writing == "shared"
        within = [
            i for i, row in enumerate(rows) if by_prefixes and is_proved(fast_paths, row, longest)
        ]
        beyond = [i for i in range(len(rows)) if i not in set(within)]

        def pick_for(places: list[int]) -> TokenPicker:
            return lambda members: pick([places[member] for member in members])

        shared = [rows[i] for i in within]
        replies = (
            self._write_by_prefixes(shared, fast_paths, pick_for(within), longest) if shared else []
        )
        alone = write_token_by_token(
            self.layout, [rows[i] for i in beyond], pick_for(beyond), longest
        )
        reply_of = dict(zip((*within, *beyond), (*replies, *alone), strict=True))
        return [reply_of[i] for i in range(len(rows))]

    def _write_by_prefixes(
        self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths, pick: TokenPicker, longest: int
    ) -> list[list[int]]:
        layout = self.layout
        # One extra token stands for the generated text, so that the tree ends at the node that predicts it.
        items = [to_prefix_item(layout, ContinuedPrompt(row, ((layout.pad,),))) for row in rows]
        work = SharedRunners(
            lambda groups, trees, grown: generate_by_tree(
                layout, groups, trees, grown, pick, longest
            ),
            lambda groups, prefixes: generate_by_rows(
                layout, items, groups, prefixes, fast_paths.together, pick, longest
            ),
        )
        with inference(), self._undoing_for_the_largest():
            return self._shared(rows, items, fast_paths, work)

    def _by_groups(self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths) -> list[Scores]:
        layout = self.layout
        items = [to_prefix_item(layout, request) for request in prompts]
        work = SharedRunners(
            lambda groups, trees, grown: score_by_tree(items, groups, trees, grown),
            lambda groups, prefixes: score_by_rows(
                layout, items, groups, prefixes, fast_paths.together
            ),
        )
        return self._shared([request.context for request in prompts], items, fast_paths, work)

    def _shared(
        self,
        contexts: Sequence[EncodedPrompt],
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        work: SharedRunners[R],
    ) -> list[R]:
        """`work` over prefixes, each run once or cached from an earlier call."""
        self.prefix_cache.begin()

        def known(groups: list[SharingGroup], state: CachedState) -> dict[int, R]:
            if not fast_paths.tree:
                return work.by_rows(groups, state)
            trees = [build_tree(items, group) for group in groups]
            return work.by_tree(groups, trees, extend_trees(self.layout, state, trees))

        def fresh(groups: list[SharingGroup]) -> dict[int, R]:
            firsts = [contexts[group.members[0]] for group in groups]
            texts = [
                truncate(first, group.prefix) for first, group in zip(firsts, groups, strict=True)
            ]
            with caching_vision(self._vision_caches(firsts, fast_paths)):
                if fast_paths.tree:
                    trees = [build_tree(items, group) for group in groups]
                    grown = run_trees(self.layout, texts, trees, fast_paths.at_once)
                    prefixes, results = grown.prefix, work.by_tree(groups, trees, grown)
                else:
                    prefixes = prefill(self.layout, texts)
                    results = work.by_rows(groups, prefixes)
            if fast_paths.prefix_cache:
                self.prefix_cache.add(items, groups, prefixes)
            return results

        def run(groups: list[SharingGroup]) -> dict[int, R]:
            if not fast_paths.prefix_cache:
                return fresh(groups)
            served, state, uncached = self.prefix_cache.split_cached(
                items, groups, fast_paths.shared
            )
            results = {} if state is None else known(served, state)
            return results | fresh(uncached) if uncached else results

        return self._planned(items, fast_paths, run)

    def _planned(
        self,
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        run: Callable[[list[SharingGroup]], dict[int, R]],
    ) -> list[R]:
        """`run` over the plan's batches; after running out of memory the rest is planned again with half the budget."""
        results: dict[int, R] = {}
        while len(results) < len(items):
            waiting = [i for i in range(len(items)) if i not in results]
            window = [items[i] for i in waiting]
            for batch in plan_sharing(
                window, self.budget, shared=fast_paths.shared, ragged=fast_paths.ragged
            ):
                groups = [
                    replace(group, members=tuple(waiting[m] for m in group.members))
                    for group in batch
                ]
                batch_results = unless_out_of_memory(partial(run, groups))
                if batch_results is None:
                    self._shrink(sum(len(group.members) for group in groups))
                    break
                results.update(batch_results)
        return [results[i] for i in range(len(items))]

    def _by_full_rows(
        self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths
    ) -> list[Scores]:
        rows = continuation_rows(prompts)

        def run(places: list[int]) -> list[list[float]]:
            part = [rows[place] for place in places]
            with caching_vision(self._vision_caches([context for context, _ in part], fast_paths)):
                return score_rows(self.layout, part)

        # The longest first, so that running out of memory happens at once. All continuations of a prompt
        # together, so that an encoder reads it once.
        owners = [i for i, request in enumerate(prompts) for _ in request.tails]
        order = sorted(
            range(len(rows)), key=lambda place: (-len(rows[place][0].ids), owners[place])
        )
        most = self.budget.rows if fast_paths.batch else 1
        batches = batches_by_form(order, [context for context, _ in rows], owners, most)
        scored = iter(self.in_batches(batches, run))
        return [[next(scored) for _ in request.tails] for request in prompts]

    def in_batches(
        self, waiting: list[list[int]], run: Callable[[list[int]], Sequence[R]]
    ) -> list[R]:
        """`run` over batches of positions; a batch that does not fit in memory is halved, and the budget reduced."""
        results: dict[int, R] = {}
        waiting = list(waiting)
        with self._undoing_for_the_largest():
            while waiting:
                places = waiting.pop(0)
                batch_results = unless_out_of_memory(partial(run, places))
                if batch_results is not None:
                    results.update(zip(places, batch_results, strict=True))
                    continue
                self._shrink(len(places))
                half = (len(places) + 1) // 2
                waiting = [part for part in (places[:half], places[half:]) if part] + waiting
        return [results[place] for place in sorted(results)]

    def remember(self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths | None = None) -> Any:
        """A context in which the encoders cache their outputs for `rows`."""
        return caching_vision(
            self._vision_caches(rows, self.fast_paths if fast_paths is None else fast_paths)
        )

    def _vision_caches(
        self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths
    ) -> list[tuple[VisionCache, list[str]]]:
        if not fast_paths.vision_cache:
            return []
        caches = []
        if self.tower is not None and all(row.digests for row in rows):
            # Features do not depend on the question; a Q-former, which may depend on it, comes after the tower.
            caches.append((self.tower, ["|".join(row.digests) for row in rows]))
        if self.reader is not None:
            caches.append((self.reader, [encoder_input_digest(row) for row in rows]))
        return caches

    def _shrink(self, members: int) -> None:
        """After running out of memory, drop cached prefixes or else halve the budget.

        Raises DoesNotFitError if there is nothing to halve.
        """
        if self.prefix_cache.release_memory():
            return
        if members == 1:
            raise DoesNotFitError
        smaller = self.budget.halved()
        self.budget = Budget(min(smaller.rows, max(1, members // 2)), smaller.tokens)

    @contextlib.contextmanager
    def _undoing_for_the_largest(self) -> Iterator[None]:
        """Restores the budget after a request that does not fit at all, so that the batches of the others do not stay
        small."""
        budget, room = self.budget, self.prefix_cache.room
        try:
            yield
        except DoesNotFitError:
            self.budget, self.prefix_cache.room = budget, room
            raise


def _room(layout: ModelLayout) -> int:
    """Bytes of keys and values kept from call to call: a sixteenth of an accelerator's memory."""
    if kind_of(layout.model) == "cpu":
        return PREFIX_CACHE_BYTES
    return total_memory(input_device(layout.model)) // 16


def is_proved(fast_paths: FastPaths, context: EncodedPrompt, more: int) -> bool:
    """Whether `fast_paths` were proved for a prompt with up to `more` tokens after it."""
    return fast_paths.proved.covers(len(context.ids), more, len(context.digests))


def batches_by_form(
    order: Sequence[int], contexts: Sequence[EncodedPrompt], owners: Sequence[int], size: int
) -> list[list[int]]:
    """Batches as of `batches_in_order`, each of positions whose contexts have one form."""
    places_of_form: dict[str, list[int]] = {}
    for place in order:
        places_of_form.setdefault(contexts[place].form, []).append(place)
    batches = []
    for places in places_of_form.values():
        batches.extend(batches_in_order(places, owners, size))
    return batches


def batches_in_order(order: Sequence[int], owners: Sequence[int], size: int) -> list[list[int]]:
    """Batches of at most `size` positions in `order`; positions of one owner stay together where they fit."""
    batches: list[list[int]] = []
    for _, places in groupby(order, key=owners.__getitem__):
        positions = list(places)
        if batches and len(batches[-1]) + len(positions) <= size:
            batches[-1].extend(positions)
        else:
            batches.extend(
                positions[start : start + size] for start in range(0, len(positions), size)
            )
    return batches
