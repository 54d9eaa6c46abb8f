"""Check, when a model is loaded, which fast paths give the same scores and replies as the slow reference.

The name of an architecture does not show this: reading an image before its question is right for
LLaVA but wrong for PaliGemma, and keeping a prompt between calls is wrong for GIT. So each fast
path scores some test prompts, and is used only if it agrees with the reference for each token,
within measured noise. A model may behave differently with longer texts, larger batches or other
images. This is found by checking some requests of the run (`spot_checks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from snellen.models.hf.probe import REFUSALS, error_line, replies_flaw, with_repetition
from snellen.models.hf.reference import Scores, reference_scores
from snellen.models.hf.sharing_plan import PLAIN, FastPaths
from snellen.models.hf.tolerance import Tolerance, flaw, largest_difference, measure_tolerance

CACHE = "a cached prompt"
ALONE = "a text without what follows"
LAST_LOGITS = "logits of the last places alone"
GIVEN_ONCE = "images in the first forward pass alone"
TREES = "trees"
ODD_LAYERS = "its cache has layers that do not hold all tokens"
CANDIDATES = (
    FastPaths("tree", shared=True),
    FastPaths("tree"),
    FastPaths("rows", shared=True),
    FastPaths("rows"),
)
"""Fast paths to try, the fastest first."""


@dataclass(frozen=True)
class SelfCheckResult:
    """The fast paths that are exact for a model, and why others are not."""

    fast_paths: FastPaths
    """How options are scored."""
    replies: FastPaths
    """How replies are generated."""
    differences: dict[str, float]
    """Largest difference of a token's log-probability from the reference, in nats, for each path tried."""
    refusals: dict[str, str]
    tolerance: Tolerance
    all_logits: bool = False
    given_cache: bool = False
    images_again: bool = False
    """Settings of the model's layout with which the fast paths are exact.

    The engine that was checked has them already. Other engines of the model must set them (`adjusted`).
    """

    def adjusted(self, layout: ModelLayout) -> ModelLayout:
        """Return a layout of the same model with the settings that the check found to be necessary."""
        return replace(
            layout,
            all_logits=self.all_logits,
            given_cache=self.given_cache,
            images_again=self.images_again,
        )

    @property
    def name(self) -> str:
        """A description for the run's manifest, such as "tree, image shared"."""
        if self.replies == PLAIN:
            return f"{self.fast_paths.name}; replies token by token"
        return self.fast_paths.name

    @property
    def line(self) -> str:
        """A line for the user that says which faster ways are not used and why; empty if the fastest one is."""
        narrower = {candidate.name for candidate in CANDIDATES[1:]}
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
        return f"scoring falls back to {self.name} ({'; '.join(failures)})"


def choose_fast_paths(
    engine: Engine, probe: Sequence[ContinuedPrompt], *, exact: bool = False
) -> SelfCheckResult:
    """Return the fastest paths that agree with the reference on the test prompts `probe` (see `build_probe`).

    Args:
        engine: Runs the model. Its layout gets the settings with which the paths are exact.
        probe: The test prompts.
        exact: Whether options are scored by the reference alone. Replies are then continued from the cache of their
            own prompt.

    Raises:
        UnrepeatableError: The model does not repeat its scores.
        ValueError: The model cannot be run even one row at a time.
    """
    check = _SelfCheck(engine, list(probe))
    candidates = list(check.usable_candidates())
    fast_paths = PLAIN
    if not exact:
        fast_paths = check.fast_paths(candidates)
    reply_paths = fast_paths
    if exact and candidates:
        reply_paths = candidates[-1]
    if reply_paths != PLAIN:
        prompts = [prompt.context for prompt in check.probe]
        difference = replies_flaw(engine, prompts, reply_paths, check.tolerance)
        if difference:
            check.refusals[f"replies by {reply_paths.name}"] = difference
            reply_paths = PLAIN
    engine.prefix_cache.clear()
    return SelfCheckResult(
        fast_paths,
        reply_paths,
        check.differences,
        check.refusals,
        check.tolerance,
        engine.layout.all_logits,
        engine.layout.given_cache,
        engine.layout.images_again,
    )


class _SelfCheck:
    """One run of the self-check."""

    def __init__(self, engine: Engine, probe: list[ContinuedPrompt]) -> None:
        """Compute the reference scores of the test prompts, and the tolerance."""
        self.engine = engine
        probe = without_refused_pairs(engine.layout, probe)
        self.probe = [with_repetition(prompt) for prompt in probe]
        self.differences: dict[str, float] = {}
        self.refusals: dict[str, str] = {}
        scores = reference_scores(engine.layout, probe)
        self.tolerance = measure_tolerance(
            engine.layout, [probe[0], probe[-1]], [scores[0], scores[-1]]
        )
        # The repeated continuation has the same reference as where it stands first.
        self._expected: list[Scores] = []
        for prompt, prompt_scores in zip(self.probe, scores, strict=True):
            repeated = prompt.tails.index(prompt.tails[-1])
            self._expected.append([*prompt_scores, prompt_scores[repeated]])

    def usable_candidates(self) -> Iterator[FastPaths]:
        """Yield those of `CANDIDATES` that the model's cache allows."""
        layout = self.engine.layout
        if not (self._scores_stand_alone() and self._cache_agrees()):
            return
        has_trees = not layout.encoder_decoder and self._cache_holds_all_tokens()
        if not has_trees and not layout.encoder_decoder:
            self.refusals[TREES] = ODD_LAYERS
        for candidate in CANDIDATES:
            if candidate.way == "tree" and not has_trees:
                continue
            if candidate.shared and layout.encoder_decoder:  # its encoder reads the whole prompt
                continue
            yield candidate

    def fast_paths(self, candidates: Sequence[FastPaths]) -> FastPaths:
        """Return the first of some candidates that agrees with the reference; `PLAIN` if none does."""
        for candidate in candidates:
            if self._agrees(candidate.name, candidate):
                return candidate
        return PLAIN

    def _cache_agrees(self) -> bool:
        """Return whether the scores from a cached prompt agree with the reference.

        If they do not, other settings of the layout are tried, and the engine keeps those with
        which they do.
        """
        engine = self.engine
        cached = FastPaths("rows")
        first_layout = engine.layout
        if self._agrees(CACHE, cached):
            return True
        first_refusal = self.refusals.pop(CACHE)
        first_difference = self.differences.get(CACHE)
        for avoided, layout in self._other_layouts(first_refusal):
            engine.layout = layout
            if self._agrees(CACHE, cached):
                if first_difference is not None:
                    self.differences[avoided] = first_difference
                    self.refusals[avoided] = first_refusal
                return True
            del self.refusals[CACHE]
        engine.layout = first_layout
        self.refusals[CACHE] = first_refusal
        return False

    def _other_layouts(self, refusal: str) -> list[tuple[str, ModelLayout]]:
        """Return layouts with other settings, which may help if a cached prompt does not agree with the reference.

        Args:
            refusal: Why it does not agree.

        Returns:
            Pairs of a name for what the settings avoid, and the layout; empty if there is nothing
            to try.
        """
        layout = self.engine.layout
        if NO_CACHE in refusal:
            return [(NO_CACHE, replace(layout, given_cache=True))]
        if CACHE in self.differences:
            # GIT's logits have other positions than the text.
            return [(LAST_LOGITS, replace(layout, all_logits=True))]
        if not layout.encoder_decoder:
            return [(GIVEN_ONCE, replace(layout, images_again=True))]
        return []

    def _cache_holds_all_tokens(self) -> bool:
        """Return whether a cache that the model filled holds all keys and values."""
        with inference():
            return holds_all_tokens(prefill(self.engine.layout, [self.probe[0].context]).cache)

    def _scores_stand_alone(self) -> bool:
        """Return whether the scores of a text are the same with and without further text after it.

        For this, the first half of each prompt's longest continuation is scored without the second
        half. Caches, and replies that are generated token by token, rely on equal scores. They are
        not equal for sparse attention whose indexer gives many keys the same score: which of these
        keys it selects depends on the number of keys.
        """
        halves: list[ContinuedPrompt] = []
        expected: list[Scores] = []
        for prompt, scores in zip(self.probe, self._expected, strict=True):
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
        return agrees

    def _agrees(self, name: str, fast_paths: FastPaths) -> bool:
        """Return whether the scores by some fast paths agree with the reference.

        The prompts are scored twice. The second time they are in reverse order, after the first
        prompt was scored by itself, so that prefixes that are kept from call to call are used.

        Args:
            name: Under this name the difference, and the reason for a refusal, are recorded.
            fast_paths: The fast paths.
        """
        engine = self.engine
        engine.prefix_cache.clear()
        try:
            scores = engine.score(self.probe, fast_paths)
            engine.prefix_cache.clear()
            engine.score(self.probe[:1], fast_paths)
            scores_again = engine.score(self.probe[::-1], fast_paths)[::-1]
        except REFUSALS as error:
            self.refusals[name] = error_line(error)
            return False
        self.differences[name] = max(
            largest_difference(self._expected, scores),
            largest_difference(self._expected, scores_again),
        )
        difference = flaw(self._expected, scores, self.tolerance)
        difference = difference or flaw(self._expected, scores_again, self.tolerance)
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
