"""Runs a window of requests in the way that a model allows, in batches that fit in memory."""

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
    Row,
    TokenPicker,
    continuation_rows,
    logits_to_keep,
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
from snellen.models.hf.prefix_cache import PrefixCache
from snellen.models.hf.prefix_sharing import (
    generate_by_rows,
    generate_by_tree,
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
)
from snellen.models.hf.token_trees import TreeState, extend_trees
from snellen.models.hf.tolerance import LEAST, largest_difference
from snellen.models.hf.vision_cache import VisionCache, caching_vision

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
    """Computes results after prefixes that were run, for each member of their groups."""

    by_tree: Callable[[list[SharingGroup], list[Tree], TreeState], dict[int, R]]
    by_rows: Callable[[list[SharingGroup], CachedState], dict[int, R]]


class Engine:
    """Runs tokenised requests on one model. Scores are token log-probabilities in nats, float32."""

    def __init__(
        self, layout: ModelLayout, rows: int, tokens: int, fast_paths: FastPaths = PLAIN
    ) -> None:
        """Prepare a model to be run.

        Args:
            layout: The model.
            rows: Maximum number of requests in a forward pass.
            tokens: Maximum number of tokens in a forward pass, padding included.
            fast_paths: What may be shared between requests.
        """
        self.layout = layout
        self.fast_paths = fast_paths
        self.budget = Budget(rows, tokens)
        self.vision_tower: VisionCache | None = None
        if layout.tower is not None:
            self.vision_tower = VisionCache(layout.tower, VISION_CACHE_BYTES)
        self.text_encoder: VisionCache | None = None
        if layout.text_encoder is not None:
            self.text_encoder = VisionCache(layout.text_encoder, VISION_CACHE_BYTES)
        self.prefix_cache = PrefixCache(_room(layout))
        self._longest_compared = 0
        """Tokens of the longest row that was scored with and without the logits that are not needed."""
        self._needs_all_logits = False

    def score(
        self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths | None = None
    ) -> list[Scores]:
        """Return the token scores of every continuation of every prompt, in order."""
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        run = self._by_groups if fast_paths.uses_cache else self._by_full_rows
        with inference(), self._undoing_for_the_largest():
            return run(prompts, fast_paths)

    def generate(
        self,
        rows: Sequence[EncodedPrompt],
        pick: TokenPicker,
        longest: int,
        fast_paths: FastPaths | None = None,
    ) -> list[list[int]]:
        """Return the new tokens of every request, at most `longest`, chosen by `pick`.

        Requests share prefixes if `fast_paths` allow it; otherwise each is written token by token.
        """
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        if fast_paths.uses_cache and fast_paths.writing == "shared":
            return self._write_by_prefixes(rows, fast_paths, pick, longest)
        return write_token_by_token(self.layout, rows, pick, longest)

    def _write_by_prefixes(
        self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths, pick: TokenPicker, longest: int
    ) -> list[list[int]]:
        """Return the new tokens of every request, from shared prefixes."""
        layout = self.layout
        # One extra token stands for the generated text, so that the tree ends at the node that predicts it.
        items = [to_prefix_item(layout, ContinuedPrompt(row, ((layout.pad,),))) for row in rows]

        def by_tree(
            groups: list[SharingGroup], trees: list[Tree], tree_state: TreeState
        ) -> dict[int, list[int]]:
            return generate_by_tree(layout, groups, trees, tree_state, pick, longest)

        def by_rows(groups: list[SharingGroup], prefixes: CachedState) -> dict[int, list[int]]:
            return generate_by_rows(layout, items, groups, prefixes, pick, longest)

        with inference(), self._undoing_for_the_largest():
            return self._run_shared(rows, items, fast_paths, SharedRunners(by_tree, by_rows))

    def _by_groups(self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths) -> list[Scores]:
        """Return the token scores of every continuation, from shared prefixes."""
        layout = self.layout
        items = [to_prefix_item(layout, prompt) for prompt in prompts]

        def by_tree(
            groups: list[SharingGroup], trees: list[Tree], tree_state: TreeState
        ) -> dict[int, Scores]:
            return score_by_tree(items, groups, trees, tree_state)

        def by_rows(groups: list[SharingGroup], prefixes: CachedState) -> dict[int, Scores]:
            return score_by_rows(layout, items, groups, prefixes)

        contexts = [prompt.context for prompt in prompts]
        return self._run_shared(contexts, items, fast_paths, SharedRunners(by_tree, by_rows))

    def _run_shared(
        self,
        contexts: Sequence[EncodedPrompt],
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        runners: SharedRunners[R],
    ) -> list[R]:
        """Return the result of every request. Each shared prefix is run once, or cached from an earlier call.

        Args:
            contexts: The encoded prompts.
            items: The same requests as the sharing plan sees them.
            fast_paths: What may be shared.
            runners: Compute the results from prefixes that were run.
        """
        self.prefix_cache.begin()

        def run_from_beginning(groups: list[SharingGroup]) -> dict[int, R]:
            """Return the results of groups whose prefixes are not cached."""
            first_contexts = [contexts[group.members[0]] for group in groups]
            prefix_texts = []
            for context, group in zip(first_contexts, groups, strict=True):
                prefix_texts.append(truncate(context, group.prefix))
            with caching_vision(self._vision_caches(first_contexts, fast_paths)):
                if fast_paths.way == "rows":
                    return runners.by_rows(groups, prefill(self.layout, prefix_texts))
                trees = [build_tree(items, group) for group in groups]
                tree_state = extend_trees(self.layout, prefill(self.layout, prefix_texts), trees)
                results = runners.by_tree(groups, trees, tree_state)
            if fast_paths.ragged:
                self.prefix_cache.add(items, groups, tree_state.prefix)
            return results

        def run(groups: list[SharingGroup]) -> dict[int, R]:
            if not fast_paths.ragged:
                return run_from_beginning(groups)
            cached_groups, state, uncached_groups = self.prefix_cache.split_cached(
                items, groups, fast_paths.shared
            )
            results: dict[int, R] = {}
            if state is not None:
                trees = [build_tree(items, group) for group in cached_groups]
                tree_state = extend_trees(self.layout, state, trees)
                results.update(runners.by_tree(cached_groups, trees, tree_state))
            if uncached_groups:
                results.update(run_from_beginning(uncached_groups))
            return results

        return self._planned(items, fast_paths, run)

    def _planned(
        self,
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        run: Callable[[list[SharingGroup]], dict[int, R]],
    ) -> list[R]:
        """Return the results of `run` for all requests, called with one batch of the sharing plan at a time.

        After running out of memory, the remaining requests are planned again with half the budget.
        """
        results: dict[int, R] = {}
        while len(results) < len(items):
            waiting = [index for index in range(len(items)) if index not in results]
            plan = plan_sharing(
                [items[index] for index in waiting],
                self.budget,
                shared=fast_paths.shared,
                ragged=fast_paths.ragged,
            )
            for batch in plan:
                groups = []
                for group in batch:
                    members = tuple(waiting[member] for member in group.members)
                    groups.append(replace(group, members=members))
                batch_results = unless_out_of_memory(partial(run, groups))
                if batch_results is None:
                    self._shrink(sum(len(group.members) for group in groups))
                    break
                results.update(batch_results)
        return [results[index] for index in range(len(items))]

    def _by_full_rows(
        self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths
    ) -> list[Scores]:
        """Return the token scores of every continuation, each run as a row with its whole prompt."""
        rows = continuation_rows(prompts)
        contexts = [context for context, _ in rows]
        prompt_of_row: list[int] = []
        for index, prompt in enumerate(prompts):
            prompt_of_row.extend([index] * len(prompt.tails))

        def run(indices: list[int]) -> list[list[float]]:
            if fast_paths.way == "plain":
                return [self._score_plainly(rows[index]) for index in indices]
            batch_contexts = [contexts[index] for index in indices]
            with caching_vision(self._vision_caches(batch_contexts, fast_paths)):
                return score_rows(self.layout, [rows[index] for index in indices])

        # The longest first, so that running out of memory happens at once. All continuations of a prompt
        # together, so that an encoder reads it once.
        def longest_first(index: int) -> tuple[int, int]:
            return -len(contexts[index].ids), prompt_of_row[index]

        order = sorted(range(len(rows)), key=longest_first)
        batch_size = 1 if fast_paths.way == "plain" else self.budget.rows
        batches = batches_by_form(order, contexts, prompt_of_row, batch_size)
        row_scores = iter(self.in_batches(batches, run))
        scores: list[Scores] = []
        for prompt in prompts:
            scores.append([next(row_scores) for _ in prompt.tails])
        return scores

    def _score_plainly(self, row: Row) -> list[float]:
        """Return the token scores of one row alone.

        Some models give other logits where only the last ones are asked for, perhaps only from a number of tokens on. All
        logits of 4,000 tokens take 2.4 GB with a vocabulary of 150,000 in float32. They are therefore computed for the
        longest row so far. If its scores are the same without them, shorter rows do without; otherwise no row does.
        """
        whole_layout = replace(self.layout, all_logits=True)
        computes_all = self.layout.all_logits or not logits_to_keep(self.layout.model, 1)
        if computes_all or self.layout.encoder_decoder or self._needs_all_logits:
            return score_rows(whole_layout, [row])[0]
        context, continuation = row
        length = len(context.ids) + len(continuation)
        if length > self._longest_compared:
            whole_scores = unless_out_of_memory(partial(score_rows, whole_layout, [row]))
            if whole_scores is not None:
                self._needs_all_logits = not self._last_logits_suffice(row, whole_scores)
                self._longest_compared = length
                return whole_scores[0]
        return score_rows(self.layout, [row])[0]

    def _last_logits_suffice(self, row: Row, whole_scores: list[list[float]]) -> bool:
        """Return whether a row has the same scores if only the logits that predict its continuation are computed."""
        try:
            scores = score_rows(self.layout, [row])
        except (RuntimeError, TypeError, ValueError):
            return False
        number_format = str(self.layout.model.dtype).removeprefix("torch.")
        tolerance = LEAST.get(number_format, LEAST["bfloat16"])
        return largest_difference([whole_scores], [scores]) <= tolerance

    def in_batches(
        self, waiting: list[list[int]], run: Callable[[list[int]], Sequence[R]]
    ) -> list[R]:
        """Call `run` with each batch of indices, and return the results in the order of the indices.

        A batch that does not fit in memory is halved, and the budget reduced.
        """
        results: dict[int, R] = {}
        waiting = list(waiting)
        with self._undoing_for_the_largest():
            while waiting:
                batch = waiting.pop(0)
                batch_results = unless_out_of_memory(partial(run, batch))
                if batch_results is not None:
                    results.update(zip(batch, batch_results, strict=True))
                    continue
                self._shrink(len(batch))
                middle = (len(batch) + 1) // 2
                halves = [half for half in (batch[:middle], batch[middle:]) if half]
                waiting = halves + waiting
        return [results[index] for index in sorted(results)]

    def remember(self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths | None = None) -> Any:
        """Return a context manager within which the encoders cache their outputs for `rows`."""
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        return caching_vision(self._vision_caches(rows, fast_paths))

    def _vision_caches(
        self, rows: Sequence[EncodedPrompt], fast_paths: FastPaths
    ) -> list[tuple[VisionCache, list[str]]]:
        """Return the caches of encoders to use for `rows`, each with the key of each row."""
        if fast_paths.way == "plain":
            return []
        caches = []
        if self.vision_tower is not None and all(row.digests for row in rows):
            # Features do not depend on the question; a Q-former, which may depend on it, comes after the tower.
            image_keys = ["|".join(row.digests) for row in rows]
            caches.append((self.vision_tower, image_keys))
        if self.text_encoder is not None:
            input_keys = [encoder_input_digest(row) for row in rows]
            caches.append((self.text_encoder, input_keys))
        return caches

    def _shrink(self, members: int) -> None:
        """After a batch of `members` requests ran out of memory, drop cached prefixes or else halve the budget.

        Raises DoesNotFitError if there is nothing to halve.
        """
        if self.prefix_cache.release_memory():
            return
        if members == 1:
            raise DoesNotFitError
        halved = self.budget.halved()
        rows = min(halved.rows, max(1, members // 2))
        self.budget = Budget(rows, halved.tokens)

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


def batches_by_form(
    order: Sequence[int], contexts: Sequence[EncodedPrompt], owners: Sequence[int], size: int
) -> list[list[int]]:
    """Return batches like `batches_in_order`, each of rows whose inputs have the same shapes."""
    indices_by_form: dict[str, list[int]] = {}
    for index in order:
        indices_by_form.setdefault(contexts[index].form, []).append(index)
    batches = []
    for indices in indices_by_form.values():
        batches.extend(batches_in_order(indices, owners, size))
    return batches


def batches_in_order(order: Sequence[int], owners: Sequence[int], size: int) -> list[list[int]]:
    """Split row indices into batches of at most `size`. Rows of one owner stay together if they fit.

    Args:
        order: Row indices, with those of one owner next to each other.
        owners: Owner of each row, by its index.
        size: Maximum number of rows in a batch.
    """
    batches: list[list[int]] = []
    for _, owner_indices in groupby(order, key=owners.__getitem__):
        indices = list(owner_indices)
        if batches and len(batches[-1]) + len(indices) <= size:
            batches[-1].extend(indices)
            continue
        for start in range(0, len(indices), size):
            batches.append(indices[start : start + size])
    return batches
