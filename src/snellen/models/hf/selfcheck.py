"""Check, when a model is loaded, which fast paths reproduce its own scores and replies.

The name of an architecture is not enough: reading an image before its question is correct for LLaVA but wrong for
PaliGemma, and keeping a prompt between calls is wrong for GIT. Each fast path therefore scores a probe, and is used
only if it agrees with the reference, token by token, within measured noise. What no probe can show is decided by facts
(`thresholds`). Sets of fast paths form a ladder of rungs, the slowest and safest last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from snellen.models.hf.cached_forward import NO_CACHE, prefill
from snellen.models.hf.encode import ContinuedPrompt
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import inference
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.probe import (
    BRIEF,
    REFUSALS,
    REPLY,
    affordable_length,
    choose_writing,
    error_line,
    stretched,
    text_length,
    with_repetition,
    without_image,
)
from snellen.models.hf.reference import Scores, reference_scores
from snellen.models.hf.sharing_plan import PLAIN, FastPaths, ProvedRange
from snellen.models.hf.thresholds import (
    ModelFacts,
    Tolerance,
    crossing_length,
    flaw,
    largest_difference,
    longest_text,
    measure_tolerance,
    read_facts,
)

PLAINLY, CACHE, LONG, SHORT = (
    "one row at a time",
    "a cached prompt",
    "a long text",
    "a text without a picture",
)
ALONE, NOT_ALONE = "a text without what follows", "scores depend on the text after them"
BACKWARDS = "the reverse order"
LAST_LOGITS = "logits of the last places alone"
WIDER = {
    "shared": "a shared picture",
    "batch": "several rows in one forward",
    "ragged": "unequal rows in a cache",
    "tree": "a tree in one forward",
    "at_once": "prefix and tree in one forward",
    "prefix_cache": "a prefix of the last call",
    "vision_cache": "keeping features",
}
"""Fast paths to try, in this order."""
NEEDS = {
    "shared": ("cache",),
    "ragged": ("cache", "batch"),
    "tree": ("cache",),
    "at_once": ("tree",),
    "prefix_cache": ("ragged",),
}
"""Fast paths that another one requires."""
ACROSS = tuple(WIDER)
"""Fast paths in which one text could change another."""
TOGETHER = tuple(name for name in WIDER if name != "vision_cache")
"""Fast paths that do more than cache the encoded images."""
HOLES = ("ragged", "tree", "at_once")
"""Fast paths whose tokens have other places in the cache than their positions."""
MARGIN = 32
"""Tokens by which a long probe exceeds the length that it must cross."""
LONGEST_UNKNOWN = 2048
"""Tokens of the longest probe if the lengths at which behaviour changes are unknown."""


@dataclass(frozen=True)
class SelfCheckResult:
    """Fast paths that a model allows, and why others are refused."""

    fast_paths: FastPaths
    differences: dict[str, float]
    """Largest difference of a token's log-probability from the reference, in nats, for each path tried."""
    refusals: dict[str, str]
    tolerance: Tolerance
    facts: ModelFacts
    alone: bool = True
    """Whether the scores of a text are independent of the text after it."""
    all_logits: bool = False
    given_cache: bool = False
    """Layout settings with which the paths hold. The checked engine has them; other engines must set them."""

    def laid_out(self, layout: ModelLayout) -> ModelLayout:
        """Return the layout of another engine of the model with these settings."""
        return replace(layout, all_logits=self.all_logits, given_cache=self.given_cache)

    @property
    def line(self) -> str:
        """One line on the paths that failed; empty if all agreed."""
        failures = []
        for name, nats in self.differences.items():
            if name in self.refusals:
                failures.append(f"{name} is off by {nats:.2g} nats")
        for name, reason in self.refusals.items():
            if name not in self.differences:
                failures.append(f"{name}: {reason}")
        if not failures:
            return ""
        return f"scoring falls back to {self.fast_paths.name} ({'; '.join(failures)})"


@dataclass(frozen=True)
class _Case:
    """Prompts with their reference scores."""

    prompts: list[ContinuedPrompt]
    scores: list[Scores]


def choose_fast_paths(
    engine: Engine, probe: Sequence[ContinuedPrompt], facts: ModelFacts | None = None
) -> SelfCheckResult:
    """Return the fast paths that agree with the reference on `probe` and on longer texts made from it.

    The probe asks two questions of different length about one image, one about another and two about two images each,
    with continuations of unequal length. By default, `facts` are read from the model.

    Raises UnrepeatableError, or another ValueError, if the model cannot be scored even one row at a time.
    """
    check = _SelfCheck(engine, list(probe), facts)
    fast_paths = check.fast_paths()
    rows = [prompt.context for prompt in (*check.probe, *check.long_prompts)]
    everywhere = replace(fast_paths, proved=ProvedRange())
    # Its own `generate` keeps a cache, which was found wrong, at least on some texts.
    cached = check.keeps and not (check.facts.doubt and not fast_paths.cache)
    writing, refusals = choose_writing(engine, rows, everywhere, check.tolerance, cached)
    chosen = replace(fast_paths, writing=writing)
    engine.prefix_cache.clear()
    return SelfCheckResult(
        chosen if chosen.shares else PLAIN,
        check.differences,
        check.refusals | refusals,
        check.tolerance,
        check.facts,
        check.alone,
        engine.layout.all_logits,
        engine.layout.given_cache,
    )


def plain_paths(engine: Engine, probe: Sequence[ContinuedPrompt]) -> FastPaths:
    """Return the last rung. Replies are written by the model's own `generate` if that equals the reference."""
    check = _SelfCheck(engine, list(probe), ModelFacts())
    alone = check.scores_stand_alone()
    writing, _ = choose_writing(
        engine, [prompt.context for prompt in check.probe], PLAIN, check.tolerance, alone
    )
    return replace(PLAIN, writing=writing)


class _SelfCheck:
    """One run of the self-check."""

    def __init__(
        self, engine: Engine, probe: list[ContinuedPrompt], facts: ModelFacts | None
    ) -> None:
        """Compute the reference scores of `probe`, and the tolerance.

        Raises ValueError if scores of one row at a time, from the engine, do not equal the reference.
        """
        self.engine = engine
        self._given_facts = facts
        probe = without_refused_pairs(engine.layout, probe)
        self.probe = [with_repetition(prompt) for prompt in probe]
        self.facts = facts or ModelFacts()
        self.differences: dict[str, float] = {}
        self.refusals: dict[str, str] = {}
        self.long_prompts: list[ContinuedPrompt] = []
        """Prompts beyond a length, if the chosen paths hold there."""
        self.alone = True
        """Whether no text was found whose scores depend on the text after it."""
        self.keeps = True
        """Whether cached parts of a text may be used for what follows."""
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
            # Where activations are scaled together, as in dynamic quantisation, logits depend on which are asked for.
            engine.layout = replace(engine.layout, all_logits=True)
            difference = self.refusals.pop(PLAINLY)
            if not self._agrees(PLAINLY, PLAIN, first_prompt):
                raise ValueError(f"scored one row at a time it {difference} from its own logits")
        del self.differences[PLAINLY]

    def fast_paths(self) -> FastPaths:
        """Return the highest rung that holds, with the range of texts that it holds for."""
        layout = self.engine.layout
        chosen = FastPaths(cache=not layout.encoder_decoder and self._cache_agrees())
        if self._given_facts is None:
            self.facts = self._read_facts(chosen.cache)
        length = self._longest_text()
        forbidden = forbidden_paths(self.facts, length)
        unsure = self.facts.doubt or self.facts.lengths or not chosen.cache
        if unsure and not self._scores_stand_alone(self._case):
            why_not_together = NOT_ALONE
        else:
            why_not_together = selects(self.facts, length)
        if why_not_together:
            self.keeps = False
            chosen = FastPaths()
            forbidden = dict.fromkeys(TOGETHER, why_not_together)

        for name, description in WIDER.items():
            if not all(getattr(chosen, needed) for needed in NEEDS.get(name, ())):
                continue
            if name in forbidden:
                self.refusals[description] = forbidden[name]
                continue
            wider = chosen.with_path(name)
            if self._agrees(description, wider, self._case):
                chosen = wider

        reversed_case = _Case(self._case.prompts[::-1], self._case.scores[::-1])
        if not self._agrees(BACKWARDS, chosen, reversed_case):
            chosen = PLAIN
        return self._from_its_shortest(self._in_its_range(chosen))

    def _cache_agrees(self) -> bool:
        """Return whether a cached prompt agrees, if necessary with another layout, which the engine then gets."""
        engine = self.engine
        cached = FastPaths(cache=True)
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

    def _in_its_range(self, chosen: FastPaths) -> FastPaths:
        """Return `chosen` with the longest text that it holds for, or a lower rung that holds on long texts."""
        facts = self.facts
        probe_length = self._longest_text()
        if not chosen.runs_together or not (facts.doubt or facts.lengths):
            return chosen
        if not (facts.doubt or facts.odd_layers or facts.settings_reached(probe_length)):
            next_length = facts.next_length(probe_length)
            longest = next_length - 1 if next_length else None
            return replace(chosen, proved=ProvedRange(longest=longest))

        # Try a text beyond all known lengths.
        crossing = crossing_length(facts)
        only_windows = facts.endless and not facts.doubt
        length = crossing + MARGIN
        if not only_windows:
            length = max(length, LONGEST_UNKNOWN)
        length = min(length, self._limits())
        if facts.selecting:
            _, selection_begins = facts.selecting
            length = min(length, selection_begins - 1)
        if only_windows and length > crossing:
            proved = ProvedRange(longest=None)
        else:
            proved = ProvedRange(longest=max(length, probe_length))
        if length <= probe_length:
            return replace(chosen, proved=proved)
        return self._beyond(chosen, length, proved)

    def _from_its_shortest(self, chosen: FastPaths) -> FastPaths:
        """Return `chosen` with the shortest prompt and the numbers of images that it was proved for."""
        shortest = min(len(prompt.context.ids) for prompt in self.probe)
        image_counts = frozenset(len(prompt.context.digests) for prompt in self.probe)
        unsure = bool(self.facts.doubt or self.facts.settings_reached(shortest))
        if not chosen.runs_together or (image_counts == {0} and not unsure):
            return chosen
        length = self._longest_text() if unsure else BRIEF
        prompts = without_image(self.probe, self.engine.layout, length)
        try:
            case = _Case(prompts, reference_scores(self.engine.layout, prompts))
        except REFUSALS as error:
            if not unsure:  # there are no such texts
                return chosen
            self.refusals[SHORT] = error_line(error)
            case = None
        agrees = case is not None and self._agrees(SHORT, chosen, case)
        if not unsure:
            return replace(chosen, proved=replace(chosen.proved, blind=agrees))
        if agrees:
            shortest = 0
            image_counts |= {0}
        proved = replace(
            chosen.proved,
            shortest=shortest,
            image_counts=image_counts if self.facts.doubt else None,
            blind=agrees,
        )
        return replace(chosen, proved=proved)

    def _beyond(self, chosen: FastPaths, length: int, proved: ProvedRange) -> FastPaths:
        """Return the first rung from `chosen` down that agrees on texts of `length` tokens, with the range `proved`.

        If such texts cannot be run, `chosen` is proved only up to the length of the probe.
        """
        prompts = stretched(self.probe, self.engine.layout, length)
        try:
            case = _Case(prompts, reference_scores(self.engine.layout, prompts))
        except (*REFUSALS, MemoryError) as error:
            self.refusals[LONG] = error_line(error)
            return replace(chosen, proved=replace(proved, longest=self._longest_text()))
        rungs = rungs_below(chosen)
        first_prompt = _Case(case.prompts[:1], case.scores[:1])
        if not self._scores_stand_alone(first_prompt):
            rungs = [FastPaths(vision_cache=True), PLAIN] if chosen.vision_cache else [PLAIN]
        for rung in rungs:
            if rung == PLAIN or self._agrees(f"{LONG}, {rung.rows_name}", rung, case):
                break
        self.long_prompts = prompts[1:2]
        return replace(rung, proved=proved)

    def scores_stand_alone(self) -> bool:
        """Return whether the scores of the probe's continuations are independent of the text after them."""
        return self._scores_stand_alone(self._case)

    def _scores_stand_alone(self, case: _Case) -> bool:
        """Return whether the first half of a prompt's longest continuation has the same scores without the second half.

        Caches and replies written token by token rely on that. It fails for sparse attention whose indexer gives many
        keys the same score: which of them its top-k selects depends on their number.
        """
        halves: list[ContinuedPrompt] = []
        expected: list[Scores] = []
        for prompt, scores in zip(case.prompts, case.scores, strict=True):
            lengths = [len(tail) for tail in prompt.tails]
            longest = lengths.index(max(lengths))
            half = (lengths[longest] + 1) // 2
            halves.append(replace(prompt, tails=(prompt.tails[longest][:half],)))
            expected.append([scores[longest][:half]])
        difference = largest_difference(expected, reference_scores(self.engine.layout, halves))
        self.differences[ALONE] = max(difference, self.differences.get(ALONE, 0.0))
        agrees = difference <= self.tolerance.token
        if not agrees:
            self.refusals[ALONE] = "differs"
            self.alone = False
        return agrees

    def _agrees(self, name: str, fast_paths: FastPaths, case: _Case) -> bool:
        """Return whether scores by `fast_paths` equal the reference, and record the result under `name`."""
        engine = self.engine
        engine.prefix_cache.clear()
        served_before = engine.prefix_cache.served
        try:
            if fast_paths.prefix_cache:
                engine.score(case.prompts[:1], fast_paths)
            scores = engine.score(case.prompts, fast_paths)
        except REFUSALS as error:
            self.refusals[name] = error_line(error)
            return False
        self.differences[name] = largest_difference(case.scores, scores)
        difference = flaw(case.scores, scores, self.tolerance)
        if difference:
            self.refusals[name] = difference
        elif fast_paths.prefix_cache and engine.prefix_cache.served == served_before:
            del self.differences[name]
            self.refusals[name] = "its cache cannot be kept"
        return name not in self.refusals

    def _read_facts(self, cached: bool) -> ModelFacts:
        """Return the facts of the model, and of a cache that it fills."""
        layout = self.engine.layout
        with inference():
            cache = prefill(layout, [self.probe[0].context]).cache if cached else None
        return read_facts(layout.model, longest_text(layout.model), cache)

    def _longest_text(self) -> int:
        """Return the number of tokens of the probe's longest text."""
        encoder_decoder = self.engine.layout.encoder_decoder
        return max(text_length(prompt, encoder_decoder) for prompt in self.probe)

    def _limits(self) -> int:
        """Return the number of tokens of the longest text that can be tried."""
        model = self.engine.layout.model
        most = longest_text(model)
        length = affordable_length(model)
        return length if most is None else min(length, most - REPLY)


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


def selects(facts: ModelFacts, length: int) -> str:
    """Return why nothing may be cached in texts of `length` tokens; empty if it may.

    Nothing may be cached if the model reads only a selected part of such texts.
    """
    if facts.selecting is None:
        return ""
    setting, first_length = facts.selecting
    if first_length > length:
        return ""
    return f"a part of the text is selected ({setting}, from {first_length:,} tokens)"


def forbidden_paths(facts: ModelFacts, length: int) -> dict[str, str]:
    """Return fast paths that no finite probe could prove on texts of `length` tokens, each with the reason."""
    if facts.doubt:
        return dict.fromkeys(ACROSS, facts.doubt)
    forbidden: dict[str, str] = {}
    if facts.image_doubt:
        forbidden["batch"] = facts.image_doubt
        forbidden["ragged"] = facts.image_doubt
    reached = facts.settings_reached(length)
    if facts.odd_layers:
        layers = ", ".join(facts.odd_layers)
        reason = f"its cache has other layers than plain ones ({layers})"
        forbidden.update(dict.fromkeys(HOLES, reason))
    elif reached:
        reason = f"behaviour begins at a length ({', '.join(reached)})"
        forbidden.update(dict.fromkeys(HOLES, reason))
    return forbidden


def rungs_below(chosen: FastPaths) -> list[FastPaths]:
    """Return the ways to run texts that share as much as `chosen` or less, down to one row at a time."""
    within_prompt = FastPaths(
        cache=chosen.cache, batch=chosen.batch, vision_cache=chosen.vision_cache
    )
    return [
        chosen,
        within_prompt,
        replace(within_prompt, batch=False),
        replace(within_prompt, cache=False),
        FastPaths(vision_cache=chosen.vision_cache),
        PLAIN,
    ]
