"""Check, when a model is loaded, which fast paths reproduce its own scores and replies.

The name of an architecture is not enough: reading an image before its question is correct for LLaVA but wrong for
PaliGemma, and keeping a prompt between calls is wrong for GIT. Each fast path therefore scores a probe, and is used
only if it agrees with the reference, token by token, within measured noise. What a short probe does not show, because a
model behaves differently in long texts, in larger batches or with other images, is found on the requests of a run
(`spot_checks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snellen.models.hf.cached_forward import (
    NO_CACHE,
    prefill,
)
from snellen.models.hf.caches import (
    holds_all_tokens,
)
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import inference
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.probe import REFUSALS, choose_writing, error_line, with_repetition
from snellen.models.hf.reference import Scores, reference_scores
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.tolerance import Tolerance, flaw, largest_difference, measure_tolerance

PLAINLY = "one row at a time"
CACHE = "a cached prompt"
ALONE, NOT_ALONE = "a text without what follows", "scores depend on the text after them"
LAST_LOGITS = "logits of the last places alone"
TREES = "trees"
ODD_LAYERS = "its cache has layers that do not hold all tokens"
CANDIDATES = (
    FastPaths("tree", shared=True, ragged=True),
    FastPaths("tree", shared=True),
    FastPaths("tree", ragged=True),
    FastPaths("rows", shared=True),
    FastPaths("rows"),
    FastPaths("full rows"),
)
"""Fast paths to try, the widest first."""


@dataclass(frozen=True)
class SelfCheckResult:
    """Fast paths that a model allows, and why others are refused."""

    fast_paths: FastPaths
    differences: dict[str, float]
    """Largest difference of a token's log-probability from the reference, in nats, for each path tried."""
    refusals: dict[str, str]
    tolerance: Tolerance
    alone: bool = True
    """Whether the scores of a text are independent of the text after it."""
    all_logits: bool = False
    given_cache: bool = False
    """Layout settings with which the paths hold. The checked engine has them; other engines must set them."""

    def adjusted(self, layout: ModelLayout) -> ModelLayout:
        """Return the layout of another engine of the model with these settings."""
        return replace(layout, all_logits=self.all_logits, given_cache=self.given_cache)

    @property
    def line(self) -> str:
        """One line on the widest path that failed, and on other findings; empty if all agreed."""
        narrower = {candidate.rows_name for candidate in CANDIDATES[1:]}
        failures: list[str] = []
        for name, reason in self.refusals.items():
            if name in narrower and failures:
                continue
            nats = self.differences.get(name)
            failures.append(
                f"{name}: {reason}" if nats is None else f"{name} is off by {nats:.2g} nats"
            )
        if not failures:
            return ""
        return f"scoring falls back to {self.fast_paths.name} ({'; '.join(failures)})"


@dataclass(frozen=True)
class _Case:
    """Prompts with their reference scores."""

    prompts: list[ContinuedPrompt]
    scores: list[Scores]


def choose_fast_paths(engine: Engine, probe: Sequence[ContinuedPrompt]) -> SelfCheckResult:
    """Return the fast paths that agree with the reference on `probe`.

    The probe asks two questions of different length about one image, one about another and two about two images each,
    with continuations of unequal length.

    Raises UnrepeatableError, or another ValueError, if the model cannot be scored even one row at a time.
    """
    check = _SelfCheck(engine, list(probe))
    fast_paths = check.fast_paths()
    rows = [prompt.context for prompt in check.probe]
    writing, refusals = choose_writing(engine, rows, fast_paths, check.tolerance, check.alone)
    engine.prefix_cache.clear()
    return SelfCheckResult(
        replace(fast_paths, writing=writing),
        check.differences,
        check.refusals | refusals,
        check.tolerance,
        check.alone,
        engine.layout.all_logits,
        engine.layout.given_cache,
    )


def plain_paths(engine: Engine, probe: Sequence[ContinuedPrompt]) -> FastPaths:
    """Return the last rung. Replies are written by the model's own `generate` if that equals the reference."""
    check = _SelfCheck(engine, list(probe))
    alone = check.scores_stand_alone()
    writing, _ = choose_writing(
        engine, [prompt.context for prompt in check.probe], PLAIN, check.tolerance, alone
    )
    return replace(PLAIN, writing=writing)


class _SelfCheck:
    """One run of the self-check."""

    def __init__(self, engine: Engine, probe: list[ContinuedPrompt]) -> None:
        """Compute the reference scores of `probe`, and the tolerance.

        Raises ValueError if scores of one row at a time, from the engine, do not equal the reference.
        """
        self.engine = engine
        probe = without_refused_pairs(engine.layout, probe)
        self.probe = [with_repetition(prompt) for prompt in probe]
        self.differences: dict[str, float] = {}
        self.refusals: dict[str, str] = {}
        self.alone = True
        """Whether no text was found whose scores depend on the text after it."""
        scores = reference_scores(engine.layout, probe)
        self.tolerance = measure_tolerance(
            engine.layout, [probe[0], probe[-1]], [scores[0], scores[-1]]
        )
        # The repeated continuation has the same reference as where it stands first.
        scores_with_repetition: list[Scores] = []
        for prompt, prompt_scores in zip(self.probe, scores, strict=True):
            repeated = prompt.tails.index(prompt.tails[-1])
            scores_with_repetition.append([*prompt_scores, prompt_scores[repeated]])
        self._case = _Case(self.probe, scores_with_repetition)

        first_prompt = _Case(self.probe[:1], scores_with_repetition[:1])
        if not self._agrees(PLAINLY, PLAIN, first_prompt):
            difference = self.refusals.pop(PLAINLY)
            raise ValueError(f"scored one row at a time it {difference} from its own logits")
        del self.differences[PLAINLY]

    def fast_paths(self) -> FastPaths:
        """Return the widest fast paths that agree with the reference."""
        if not self.scores_stand_alone():
            return PLAIN
        has_cache = not self.engine.layout.encoder_decoder and self._cache_agrees()
        has_trees = has_cache and self._cache_holds_all_tokens()
        if has_cache and not has_trees:
            self.refusals[TREES] = ODD_LAYERS
        for candidate in CANDIDATES:
            if candidate.way == "tree" and not has_trees:
                continue
            if candidate.uses_cache and not has_cache:
                continue
            if self._agrees(candidate.rows_name, candidate, self._case):
                return candidate
        return PLAIN

    def _cache_agrees(self) -> bool:
        """Return whether a cached prompt agrees, if necessary with another layout, which the engine then gets."""
        engine = self.engine
        cached = FastPaths("rows")
        first_layout = engine.layout
        if self._agrees(CACHE, cached, self._case):
            return True
        first_refusal = self.refusals.pop(CACHE)
        first_difference = self.differences.get(CACHE)
        for avoided, layout in self._other_layouts(first_refusal):
            engine.layout = layout
            if self._agrees(CACHE, cached, self._case):
                if first_difference is not None:
                    self.differences[avoided] = first_difference
                    self.refusals[avoided] = first_refusal
                return True
            del self.refusals[CACHE]
        engine.layout = first_layout
        self.refusals[CACHE] = first_refusal
        return False

    def _other_layouts(self, refusal: str) -> list[tuple[str, ModelLayout]]:
        """Return layouts with which a refused cache may agree, each with the name of what it avoids."""
        layout = self.engine.layout
        if NO_CACHE in refusal:
            return [(NO_CACHE, replace(layout, given_cache=True))]
        if CACHE in self.differences:
            # GIT's logits have other positions than the text.
            return [(LAST_LOGITS, replace(layout, all_logits=True))]
        return []

    def _cache_holds_all_tokens(self) -> bool:
        """Return whether a cache that the model filled holds all keys and values."""
        with inference():
            return holds_all_tokens(prefill(self.engine.layout, [self.probe[0].context]).cache)

    def scores_stand_alone(self) -> bool:
        """Return whether the first half of a prompt's longest continuation has the same scores without the second half.

        Caches and replies written token by token rely on that. It fails for sparse attention whose indexer gives many
        keys the same score: which of them its top-k selects depends on their number.
        """
        halves: list[ContinuedPrompt] = []
        expected: list[Scores] = []
        for prompt, scores in zip(self._case.prompts, self._case.scores, strict=True):
            lengths = [len(tail) for tail in prompt.tails]
            longest = lengths.index(max(lengths))
            half = (lengths[longest] + 1) // 2
            halves.append(replace(prompt, tails=(prompt.tails[longest][:half],)))
            expected.append([scores[longest][:half]])
        difference = largest_difference(expected, reference_scores(self.engine.layout, halves))
        self.differences[ALONE] = difference
        agrees = difference <= self.tolerance.token
        if not agrees:
            self.refusals[ALONE] = "differs"
            self.alone = False
        return agrees

    def _agrees(self, name: str, fast_paths: FastPaths, case: _Case) -> bool:
        """Return whether scores by `fast_paths` equal the reference, and record the result under `name`.

        The prompts are scored once more in reverse order, after the first of them alone, whose prefix the others then go
        on from if prefixes are kept.
        """
        engine = self.engine
        engine.prefix_cache.clear()
        try:
            scores = engine.score(case.prompts, fast_paths)
            engine.prefix_cache.clear()
            engine.score(case.prompts[:1], fast_paths)
            scores_again = engine.score(case.prompts[::-1], fast_paths)[::-1]
        except REFUSALS as error:
            self.refusals[name] = error_line(error)
            return False
        self.differences[name] = max(
            largest_difference(case.scores, scores), largest_difference(case.scores, scores_again)
        )
        difference = flaw(case.scores, scores, self.tolerance)
        difference = difference or flaw(case.scores, scores_again, self.tolerance)
        if difference:
            self.refusals[name] = difference
        return not difference


def without_refused_pairs(
    layout: ModelLayout, probe: Sequence[ContinuedPrompt]
) -> list[ContinuedPrompt]:
    """Return `probe` without prompts of several images, if the model accepts only one image (GIT, BLIP)."""
    single = [prompt for prompt in probe if len(prompt.context.digests) < 2]
    several = [prompt for prompt in probe if len(prompt.context.digests) > 1]
    try:
        reference_scores(layout, [replace(prompt, tails=prompt.tails[:1]) for prompt in several])
    except REFUSALS:
        return single
    return list(probe)
