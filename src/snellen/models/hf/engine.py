"""Run a list of requests on a model, in the fastest way that is exact for it, in batches that fit into memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from snellen.errors import ModelError
from snellen.models.hf.cached_forward import CachedState, prefill
from snellen.models.hf.decoding import TokenPicker
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, truncate
from snellen.models.hf.load import (
    inference,
    input_device,
    kind_of,
    total_memory,
    unless_out_of_memory,
)
from snellen.models.hf.model_layout import ModelLayout, to_prefix_item
from snellen.models.hf.prefix_cache import PrefixCache
from snellen.models.hf.prefix_sharing import (
    generate_by_rows,
    generate_by_tree,
    score_by_rows,
    score_by_tree,
)
from snellen.models.hf.reference import Scores, plain_reply, plain_scores
from snellen.models.hf.sharing_plan import (
    PLAIN,
    Budget,
    FastPaths,
    PrefixItem,
    SharingGroup,
    plan_sharing,
)
from snellen.models.hf.vision_cache import VisionCache

VISION_CACHE_BYTES = 256 * 1024 * 1024
"""Bytes of vision features kept from batch to batch."""
PREFIX_CACHE_BYTES = 1024 * 1024 * 1024
"""Bytes of keys and values kept from call to call, without an accelerator."""
P = TypeVar("P")
R = TypeVar("R")


class DoesNotFitError(ModelError):
    """A single request does not fit into memory."""

    def __init__(self) -> None:
        super().__init__(
            "a single question does not fit into memory; use smaller images, a smaller number format "
            "(?dtype=bf16), or a larger machine"
        )


class Engine:
    """Runs tokenised requests on one model. Scores are log-probabilities of tokens, in nats (float32)."""

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
        self.prefix_cache = PrefixCache(_room(layout))

    def score(
        self, prompts: Sequence[ContinuedPrompt], fast_paths: FastPaths | None = None
    ) -> list[Scores]:
        """Return the log-probability of each token of every continuation of every prompt, in order.

        Args:
            prompts: The prompts with their continuations.
            fast_paths: How to run them; by default in the way of this engine.
        """
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        layout = self.layout
        if fast_paths.way == "plain":
            return self._one_by_one(prompts, partial(plain_scores, layout))
        items = [to_prefix_item(layout, prompt) for prompt in prompts]

        def finish(groups: list[SharingGroup], prefixes: CachedState) -> dict[int, Scores]:
            if fast_paths.way == "rows":
                return score_by_rows(layout, items, groups, prefixes, self.budget.rows)
            return score_by_tree(layout, items, groups, prefixes)

        contexts = [prompt.context for prompt in prompts]
        return self._run_shared(contexts, items, fast_paths, finish)

    def generate(
        self,
        rows: Sequence[EncodedPrompt],
        pick: TokenPicker,
        longest: int,
        fast_paths: FastPaths | None = None,
    ) -> list[list[int]]:
        """Return the token ids of a reply to each prompt.

        Args:
            rows: The prompts.
            pick: Returns, for some requests, the function that chooses the next token of each.
            longest: Maximum number of tokens of a reply.
            fast_paths: How to run them; by default in the way of this engine.
        """
        fast_paths = self.fast_paths if fast_paths is None else fast_paths
        layout = self.layout
        if fast_paths.way == "plain":

            def write(index: int) -> list[int]:
                return plain_reply(layout, rows[index], pick([index]), longest)

            return self._one_by_one(range(len(rows)), write)
        # One extra token stands for the generated text, so that the tree ends at the node that predicts it.
        items = [to_prefix_item(layout, ContinuedPrompt(row, ((layout.pad,),))) for row in rows]

        def finish(groups: list[SharingGroup], prefixes: CachedState) -> dict[int, list[int]]:
            generate_after = generate_by_rows if fast_paths.way == "rows" else generate_by_tree
            return generate_after(layout, items, groups, prefixes, pick, longest)

        return self._run_shared(rows, items, fast_paths, finish)

    def _one_by_one(self, requests: Iterable[P], run: Callable[[P], R]) -> list[R]:
        """Return the result of each request, which is run by itself."""
        results: list[R] = []
        with self._undoing_for_the_largest():
            for request in requests:
                result = unless_out_of_memory(partial(run, request))
                while result is None:
                    self._shrink(1)
                    result = unless_out_of_memory(partial(run, request))
                results.append(result)
        return results

    def _run_shared(
        self,
        contexts: Sequence[EncodedPrompt],
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        finish: Callable[[list[SharingGroup], CachedState], dict[int, R]],
    ) -> list[R]:
        """Return the result of every request. Each common prefix is run once, or taken from the cache.

        Args:
            contexts: The prompts as tensors.
            items: The tokens of the same requests.
            fast_paths: What may be shared.
            finish: Returns the results of groups by the index of the request, given the state after
                their prefixes.
        """
        self.prefix_cache.begin()

        def run(groups: list[SharingGroup]) -> dict[int, R]:
            results: dict[int, R] = {}
            if fast_paths.ragged:
                cached_groups, state, groups = self.prefix_cache.split_cached(
                    items, groups, fast_paths.shared
                )
                if state is not None:
                    results.update(finish(cached_groups, state))
            if not groups:
                return results
            first_contexts = [contexts[group.members[0]] for group in groups]
            prefix_texts = []
            for context, group in zip(first_contexts, groups, strict=True):
                prefix_texts.append(truncate(context, group.prefix))
            with self._caching_images(first_contexts):
                prefixes = prefill(self.layout, prefix_texts)
                results.update(finish(groups, prefixes))
            if fast_paths.ragged:
                self.prefix_cache.add(items, groups, prefixes)
            return results

        with inference(), self._undoing_for_the_largest():
            return self._planned(items, fast_paths, run)

    def _planned(
        self,
        items: Sequence[PrefixItem],
        fast_paths: FastPaths,
        run: Callable[[list[SharingGroup]], dict[int, R]],
    ) -> list[R]:
        """Divide requests into batches, call `run` with each batch, and return the results in order.

        If a batch does not fit into memory, the remaining requests are divided again into smaller
        batches.

        Args:
            items: The tokens of the requests.
            fast_paths: What may be shared.
            run: Returns the results of a batch of groups, by the index of the request.
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
                    members = [member for group in groups for member in group.members]
                    rows = len(members)
                    if fast_paths.way == "rows":
                        rows = sum(max(1, len(items[member].tails)) for member in members)
                    self._shrink(rows)
                    break
                results.update(batch_results)
        return [results[index] for index in range(len(items))]

    def _caching_images(self, rows: Sequence[EncodedPrompt]) -> Any:
        """Return a context manager inside which the image encoder runs once per image, for prompts that all have one."""
        if self.vision_tower is None or not all(row.digests for row in rows):
            return contextlib.nullcontext()
        # Features do not depend on the question; a Q-former, which may depend on it, comes after the tower.
        return self.vision_tower.rows(["|".join(row.digests) for row in rows])

    def _shrink(self, rows: int) -> None:
        """Free memory after a batch did not fit: remove cached prefixes or, without any, halve the batches.

        Args:
            rows: Number of rows in that batch.

        Raises:
            DoesNotFitError: A batch of a single row did not fit.
        """
        if self.prefix_cache.release_memory():
            return
        if min(rows, self.budget.rows) == 1:
            raise DoesNotFitError
        halved = self.budget.halved()
        self.budget = Budget(min(halved.rows, rows // 2), halved.tokens)

    @contextlib.contextmanager
    def _undoing_for_the_largest(self) -> Iterator[None]:
        """Restore the size of batches if a single request does not fit into memory.

        The size was reduced step by step for this request, and the other requests need no smaller
        batches.
        """
        budget, room = self.budget, self.prefix_cache.room
        try:
            yield
        except DoesNotFitError:
            self.budget, self.prefix_cache.room = budget, room
            raise


def _room(layout: ModelLayout) -> int:
    """Return how many bytes of cached prefixes may be kept: 1 GiB on a CPU, a sixteenth of an accelerator's memory."""
    if kind_of(layout.model) == "cpu":
        return PREFIX_CACHE_BYTES
    return total_memory(input_device(layout.model)) // 16
