"""Thresholds of a model: questions are asked a few at a time, each where its answer tells most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.benchmark import Benchmark, ChosenPart
from snellen.errors import DataError
from snellen.experiments.evaluation import Cast, Rounds, check_judging, check_models, silent
from snellen.psychometrics.posterior import ParameterGrid, Posterior, counts_by_level, next_levels
from snellen.psychometrics.thresholds import LevelScale, PlaceShare, Threshold, shares_by, threshold_of
from snellen.records import Sample
from snellen.runs.journal import RUN_MANIFEST, holds_answers, read_manifest
from snellen.runs.plan import Announce, plan_run
from snellen.runs.progress import ProgressListener, ignore_progress
from snellen.runs.runner import RunOutcome
from snellen.runs.spec import RunSpec
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun
from snellen.seeds import rng_for
from snellen.stimuli.trials import AcuityTest

RULE = "acuity"
LEVEL_TAG = "level"
BUDGET = 48
"""Questions of each test, unless a budget says otherwise."""
AT_ONCE = 6
"""Questions of each test that are asked together."""
CHECKS = 6
"""Of so many questions one is at a random easier level: it shows lapses, and curves that do not rise."""
WIDTH = 0.25
"""Width of the interval, in octaves or as a share of the range, below which a test needs no more questions."""


class AcuityRun(Struct, frozen=True):
    """What was measured of one model."""

    model: str
    thresholds: tuple[Threshold, ...]
    fields: Mapping[str, tuple[PlaceShare, ...]]
    """By test, shares by place where levels are places."""
    scored: ScoredRun
    outcome: RunOutcome


class _TestPool(Struct, frozen=True):
    """A test's benchmark with its questions by level, each level's in the order in which they are asked."""

    test: AcuityTest
    benchmark: Benchmark
    scale: LevelScale
    by_level: Mapping[float, Sequence[str]]
    levels: Mapping[str, float]
    chance: float
    grid: ParameterGrid


def measure_acuity(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    budget: int | None = None,
    width: float = WIDTH,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> list[AcuityRun]:
    """Measure the thresholds of each model in the tests that a spec names as benchmarks.

    `budget` is the most questions that a model is asked in all; without one each test has 48. A test ends early once
    its interval is narrower than `width`, in octaves where its levels are spaced so, else as a share of their range.
    The same call goes on where an earlier one stopped; the order of answers does not matter. Raises SnellenError.
    """
    evaluated = list(models or spec.question.models)
    named = check_models(spec, evaluated, dict(spec.question.roles))
    check_judging(spec.scoring, spec.judge)
    cast = Cast(dict(spec.question.roles))
    return [
        _measure(named.for_model(number, named.question.models[number]), model, cast, budget, width, progress, announce)
        for number, model in enumerate(evaluated)
    ]


def _measure(
    spec: RunSpec,
    model: Any,
    cast: Cast,
    budget: int | None,
    width: float,
    progress: ProgressListener,
    announce: Announce,
) -> AcuityRun:
    plan = plan_run(spec, announce)
    pools = {use.benchmark.name: _pool(use.benchmark) for use in plan.benchmarks}
    most = BUDGET if budget is None else max(budget // len(pools), 1)
    before = _asked_before(plan.folder, pools)
    rounds = Rounds(plan, {name: replace(part, samples=()) for name, part in before.items()}, model, cast, progress)
    parts = {name: part if part.samples else _first_part(pools[name], part, most) for name, part in before.items()}
    while True:
        rounds.ask(parts, announce)
        answers = _answers(score_run(plan.folder, spec.scoring), pools)
        grown = {name: _grown(pools[name], part, answers[name], most, width) for name, part in parts.items()}
        if grown == parts:
            break
        parts = grown
    scored = rounds.score(announce)
    method = plan.protocols[0].method if plan.protocols else spec.question.methods[0]
    thresholds = [
        threshold_of(pool.test, name, method, _pairs(pool, answers[name]), pool.chance)
        for name, pool in pools.items()
        if pool.test.easier != "neither"
    ]
    fields = {
        name: shares_by({sample: f"{pool.levels[sample]:g}" for sample in answers[name]}, answers[name])
        for name, pool in pools.items()
        if pool.test.easier == "neither"
    }
    return AcuityRun(scored.manifest.model, tuple(thresholds), fields, scored, rounds.outcome)


def _pool(benchmark: Benchmark) -> _TestPool:
    params = benchmark.spec.source.params
    if benchmark.spec.source.reader != RULE:
        raise DataError(f"{benchmark.name} is not a psychometric test; `snellen list acuity` shows them")
    test: AcuityTest = registry.find("acuity_tests", params["test"])
    samples = list(benchmark.samples())
    levels = {sample.id: float(sample.tags[LEVEL_TAG]) for sample in samples}
    by_level: dict[float, list[str]] = defaultdict(list)
    for sample in sorted(samples, key=_place):
        by_level[levels[sample.id]].append(sample.id)
    scale = LevelScale.of(test)
    chance = sum(1 / len(sample.options) for sample in samples) / len(samples)
    grid = ParameterGrid([scale.x(level) for level in scale.levels], chance)
    return _TestPool(test, benchmark, scale, by_level, levels, chance, grid)


def _place(sample: Sample) -> float:
    return rng_for(sample.benchmark, sample.id, RULE, 0).random()


def _asked_before(folder: Path, pools: Mapping[str, _TestPool]) -> dict[str, ChosenPart]:
    """What an earlier call chose of each test, in the run's manifest; nothing where there is none."""
    earlier = {}
    if (folder / RUN_MANIFEST).exists() and holds_answers(folder):
        earlier = {use.name: use.part for use in read_manifest(folder).benchmarks}
    parts = {}
    for name, pool in pools.items():
        part = earlier.get(name)
        parts[name] = part if isinstance(part, ChosenPart) else ChosenPart((), len(pool.levels), RULE)
    return parts


def _first_part(pool: _TestPool, part: ChosenPart, most: int) -> ChosenPart:
    """The first questions, spread over the levels: they find where the threshold may be."""
    levels = pool.scale.levels
    count = min(AT_ONCE, most)
    if pool.test.easier == "neither":
        return replace(part, samples=_by_turns(pool, most))
    chosen = [levels[round((place + 0.5) * (len(levels) - 1) / count)] for place in range(count)]
    return replace(part, samples=tuple(pool.by_level[level][0] for level in dict.fromkeys(chosen)))


def _by_turns(pool: _TestPool, most: int) -> tuple[str, ...]:
    """Questions of all levels alike, as many as there may be, each level in turn."""
    deepest = max(map(len, pool.by_level.values()))
    rows = (pool.by_level[level][turn : turn + 1] for turn in range(deepest) for level in pool.scale.levels)
    return tuple([sample for row in rows for sample in row][:most])


def _grown(pool: _TestPool, part: ChosenPart, answers: Mapping[str, bool], most: int, width: float) -> ChosenPart:
    """The part of the next round; the same where enough is known, or nothing may be asked any more."""
    count = min(AT_ONCE, most - len(part.samples))
    if pool.test.easier == "neither" or count <= 0:
        return part
    places = pool.scale.places
    pairs = [(places[level], is_right) for level, is_right in _pairs(pool, answers)]
    posterior = Posterior(pool.grid, *counts_by_level(pairs, len(pool.scale.levels)))
    if _is_known(pool, posterior, width, len(pairs)):
        return part
    taken = set(part.samples)
    free = {places[level]: [each for each in samples if each not in taken] for level, samples in pool.by_level.items()}
    chosen = next_levels(posterior, {place: len(samples) for place, samples in free.items()}, count)
    if count >= CHECKS and chosen:
        chosen[-1] = _check_level(pool, chosen, free, len(part.samples))
    added = [free[place].pop(0) for place in chosen if free[place]]
    return replace(part, samples=(*part.samples, *added))


def _check_level(pool: _TestPool, chosen: Sequence[int], free: Mapping[int, Sequence[str]], asked: int) -> int:
    """A level at random among those easier than the ones chosen; the last one chosen where there is none."""
    easier = [place for place in range(max(chosen) + 1, len(pool.scale.levels)) if free[place]]
    return rng_for(pool.benchmark.name, str(asked), "check", 0).choice(easier) if easier else chosen[-1]


def _is_known(pool: _TestPool, posterior: Posterior, width: float, asked: int) -> bool:
    """Whether the interval is narrow enough, or the threshold almost surely beyond the levels."""
    found, (hardest, easiest) = posterior.threshold, (pool.grid.levels[0], pool.grid.levels[-1])
    unit = 1.0 if pool.scale.is_log else easiest - hardest
    beyond = max(posterior.beyond(easiest), posterior.below(hardest))
    return asked >= 2 * AT_ONCE and (found.high - found.low <= width * unit or beyond > 0.975)


def _answers(run: ScoredRun, pools: Mapping[str, _TestPool]) -> dict[str, dict[str, bool]]:
    """By test and sample whether its answer was right; one that failed is absent, one that names no option wrong."""
    answers: dict[str, dict[str, bool]] = {name: {} for name in pools}
    for scored in run.benchmarks:
        for score in scored.scores_of("accuracy"):
            if score.value is not None:
                answers[scored.spec.name][score.sample_id] = score.value > 0.5
    return answers


def _pairs(pool: _TestPool, answers: Mapping[str, bool]) -> list[tuple[float, bool]]:
    return [(pool.levels[sample], is_right) for sample, is_right in answers.items()]
