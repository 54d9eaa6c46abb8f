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
        wrong = [
            f"{name} is off by {value:.2g} nats"
            for name, value in self.differences.items()
            if name in self.refusals
        ]
        failed = [
            f"{name}: {why}" for name, why in self.refusals.items() if name not in self.differences
        ]
        if not (wrong or failed):
            return ""
        return f"scoring falls back to {self.fast_paths.name} ({'; '.join([*wrong, *failed])})"


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
        self.engine, self._given = engine, facts
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
        # What stands twice has one reference.
        again = [
            [*prompt_scores, prompt_scores[prompt.tails.index(prompt.tails[-1])]]
            for prompt_scores, prompt in zip(scores, self.probe, strict=True)
        ]
        self._case = _Case(self.probe, again)
        first = _Case(self.probe[:1], again[:1])
        if not self._agrees(PLAINLY, PLAIN, first):
            # Where activations are scaled together, as in dynamic quantisation, logits depend on which are asked for.
            engine.layout = replace(engine.layout, all_logits=True)
            wrong = self.refusals.pop(PLAINLY)
            if not self._agrees(PLAINLY, PLAIN, first):
                raise ValueError(f"scored one row at a time it {wrong} from its own logits")
        del self.differences[PLAINLY]

    def fast_paths(self) -> FastPaths:
        """Return the highest rung that holds, with the range of texts that it holds for."""
        layout = self.engine.layout
        chosen = FastPaths(cache=not layout.encoder_decoder and self._cache_agrees())
        if self._given is None:
            self.facts = self._read_facts(chosen.cache)
        forbidden = forbidden_paths(self.facts, self._longest_text())
        unsure = self.facts.doubt or self.facts.lengths or not chosen.cache
        why = (
            NOT_ALONE
            if unsure and not self._scores_stand_alone(self._case)
            else selects(self.facts, self._longest_text())
        )
        if why:
            self.keeps, chosen, forbidden = False, FastPaths(), dict.fromkeys(TOGETHER, why)
        for name, path in WIDER.items():
            if not all(getattr(chosen, needed) for needed in NEEDS.get(name, ())):
                continue
            if name in forbidden:
                self.refusals[path] = forbidden[name]
            elif self._agrees(path, wider := chosen.with_path(name), self._case):
                chosen = wider
        if not self._agrees(
            BACKWARDS, chosen, _Case(self._case.prompts[::-1], self._case.scores[::-1])
        ):
            chosen = PLAIN
        return self._from_its_shortest(self._in_its_range(chosen))

    def _cache_agrees(self) -> bool:
        """Return whether a cached prompt agrees, if necessary with another layout, which the engine then gets."""
        cached, engine, first = FastPaths(cache=True), self.engine, self.engine.layout
        if self._agrees(CACHE, cached, self._case):
            return True
        why, difference = self.refusals.pop(CACHE), self.differences.get(CACHE)
        for reason, layout in self._other_layouts(why):
            engine.layout = layout
            if self._agrees(CACHE, cached, self._case):
                if difference is not None:
                    self.differences[reason], self.refusals[reason] = difference, why
                return True
            del self.refusals[CACHE]
        engine.layout, self.refusals[CACHE] = first, why
        return False

    def _other_layouts(self, why: str) -> list[tuple[str, ModelLayout]]:
        """Return layouts with which a refused cache may agree, each with the name of what it avoids."""
        layout = self.engine.layout
        if NO_CACHE in why:
            return [(NO_CACHE, replace(layout, given_cache=True))]
        # GIT's places are not those of the text.
        return (
            [(LAST_LOGITS, replace(layout, all_logits=True))] if CACHE in self.differences else []
        )

    def _in_its_range(self, chosen: FastPaths) -> FastPaths:
        """Return `chosen` with the longest text that it holds for, or a lower rung that holds on long texts."""
        facts, length_of_probe = self.facts, self._longest_text()
        if not chosen.runs_together or not (facts.doubt or facts.lengths):
            return chosen
        ahead, crossing = facts.ahead(length_of_probe), crossing_length(facts)
        if not (facts.doubt or facts.odd_layers or facts.settings_reached(length_of_probe)):
            return replace(chosen, proved=ProvedRange(longest=ahead - 1 if ahead else None))
        surely = facts.endless and not facts.doubt
        length = crossing + MARGIN if surely else max(crossing + MARGIN, LONGEST_UNKNOWN)
        length = min(length, self._limits(), *([facts.selecting[1] - 1] if facts.selecting else []))
        proved = ProvedRange(
            longest=None if surely and length > crossing else max(length, length_of_probe)
        )
        return (
            replace(chosen, proved=proved)
            if length <= length_of_probe
            else self._beyond(chosen, length, proved)
        )

    def _from_its_shortest(self, chosen: FastPaths) -> FastPaths:
        """Return `chosen` with the shortest prompt and the numbers of images that it was proved for."""
        shortest = min(len(prompt.context.ids) for prompt in self.probe)
        pictures = frozenset(len(prompt.context.digests) for prompt in self.probe)
        unsure = bool(self.facts.doubt or self.facts.settings_reached(shortest))
        if not chosen.runs_together or (pictures == {0} and not unsure):
            return chosen
        prompts = without_image(
            self.probe, self.engine.layout, self._longest_text() if unsure else BRIEF
        )
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
            shortest, pictures = 0, pictures | {0}
        proved = replace(
            chosen.proved,
            shortest=shortest,
            pictures=pictures if self.facts.doubt else None,
            blind=agrees,
        )
        return replace(chosen, proved=proved)

    def _beyond(self, chosen: FastPaths, length: int, proved: ProvedRange) -> FastPaths:
        """Return the first rung from `chosen` down that agrees on texts of `length` tokens."""
        prompts = stretched(self.probe, self.engine.layout, length)
        try:
            case = _Case(prompts, reference_scores(self.engine.layout, prompts))
        except (*REFUSALS, MemoryError) as error:
            self.refusals[LONG] = error_line(error)
            return replace(chosen, proved=replace(proved, longest=self._longest_text()))
        rungs = rungs_below(chosen)
        if not self._scores_stand_alone(_Case(case.prompts[:1], case.scores[:1])):
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
        halves, expected = list[ContinuedPrompt](), list[Scores]()
        for prompt, scores in zip(case.prompts, case.scores, strict=True):
            place = max(range(len(prompt.tails)), key=lambda i: len(prompt.tails[i]))
            half = (len(prompt.tails[place]) + 1) // 2
            halves.append(replace(prompt, tails=(prompt.tails[place][:half],)))
            expected.append([scores[place][:half]])
        half_scores = reference_scores(self.engine.layout, halves)
        difference = largest_difference(expected, half_scores)
        self.differences[ALONE] = max(difference, self.differences.get(ALONE, 0.0))
        if difference > self.tolerance.token:
            self.refusals[ALONE], self.alone = "differs", False
        return difference <= self.tolerance.token

    def _agrees(self, name: str, fast_paths: FastPaths, case: _Case) -> bool:
        """Return whether scores by `fast_paths` equal the reference, and record the result under `name`."""
        engine = self.engine
        engine.prefix_cache.clear()
        served = engine.prefix_cache.served
        try:
            if fast_paths.prefix_cache:
                engine.score(case.prompts[:1], fast_paths)
            scores = engine.score(case.prompts, fast_paths)
        except REFUSALS as error:
            self.refusals[name] = error_line(error)
            return False
        self.differences[name] = largest_difference(case.scores, scores)
        if wrong := flaw(case.scores, scores, self.tolerance):
            self.refusals[name] = wrong
        elif fast_paths.prefix_cache and engine.prefix_cache.served == served:
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
        return max(text_length(prompt, self.engine.layout.encoder_decoder) for prompt in self.probe)

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
    """Return why nothing may be cached in texts of `length` tokens; empty if it may."""
    if facts.selecting is None or facts.selecting[1] > length:
        return ""
    return (
        f"a part of the text is selected ({facts.selecting[0]}, from {facts.selecting[1]:,} tokens)"
    )


def forbidden_paths(facts: ModelFacts, length: int) -> dict[str, str]:
    """Return fast paths that no finite probe could prove on texts of `length` tokens, each with the reason."""
    if facts.doubt:
        return dict.fromkeys(ACROSS, facts.doubt)
    forbidden = dict.fromkeys(("batch", "ragged"), facts.image_doubt) if facts.image_doubt else {}
    if facts.odd_layers:
        forbidden |= dict.fromkeys(
            HOLES, f"its cache has other layers than plain ones ({', '.join(facts.odd_layers)})"
        )
    elif reached := facts.settings_reached(length):
        forbidden |= dict.fromkeys(HOLES, f"behaviour begins at a length ({', '.join(reached)})")
    return forbidden


def rungs_below(chosen: FastPaths) -> list[FastPaths]:
    """Return `chosen` and its remainders on the lower rungs, down to one row at a time."""
    within = FastPaths(cache=chosen.cache, batch=chosen.batch, vision_cache=chosen.vision_cache)
    rungs = [chosen, within, replace(within, batch=False), replace(within, cache=False)]
    rungs += [FastPaths(vision_cache=chosen.vision_cache), PLAIN]
    return list(dict.fromkeys(rung for rung in rungs if rung != FastPaths()))
