"""Thresholds of a model: questions are asked a few at a time, each where its answer tells most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark, ChosenPart
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.experiments.evaluation import Cast, Rounds, check_judging, check_models, silent
from snellen.protocols.base import declaration_of
from snellen.psychometrics import BUDGET, RULE, WIDTH
from snellen.psychometrics.acuity_run import (
    IDEALS,
    LEVEL,
    AcuityRun,
    TestAnswers,
    declared_test,
    kept_ideals,
    read_acuity,
)
from snellen.psychometrics.ideal import ideal_threshold, shrinking_to
from snellen.psychometrics.posterior import AT_ONCE, is_known, next_levels, number_at_once
from snellen.psychometrics.thresholds import Ideal, LevelScale
from snellen.psychometrics.trials import AcuityTest
from snellen.records import Method, Sample
from snellen.runs.finding import Announce
from snellen.runs.forecast import forecast
from snellen.runs.plan import ProgressListener, RunPlan, ignore_progress, plan_run, protocols_of, with_parts
from snellen.runs.run_folder import RUN_MANIFEST, holds_answers, read_manifest, write_atomically
from snellen.runs.spec import RunSpec
from snellen.scoring.run_scoring import score_run

Parts = Mapping[str, ChosenPart]
"""By benchmark, the questions that were chosen."""


ONCE: Mapping[Method, str] = {"generation": "vanilla", "likelihood": "likelihood"}
"""The protocols that ask each question once."""


class _TestPool(Struct, frozen=True):
    """A test's benchmark with its questions by level, each level's in the order in which they are asked."""

    test: AcuityTest
    benchmark: Benchmark
    scale: LevelScale
    by_level: Sequence[Sequence[str]]
    """The hardest level first."""
    chance: float

    @property
    def has_places(self) -> bool:
        """Whether its levels are places: all are asked alike."""
        return self.test.easier == "neither"


class Effort(Struct, frozen=True):
    """How much is asked of each model."""

    budget: int | None
    """Most questions in all; None for 48 of each test."""
    width: float = WIDTH
    """Width of an interval, in octaves or as a share of the range, from which a test asks no more."""
    input_side: int | None = None
    """The longer side to which the model's pictures are reduced before it sees them, as its maker declares."""

    def share(self, pools: Mapping[str, _TestPool], pool: _TestPool) -> int:
        """The questions of a test unless others leave it some of theirs."""
        if self.budget is not None:
            return self.budget // len(pools)
        return len(pool.by_level) if pool.has_places else BUDGET

    def still_to_ask(self, parts: Parts, name: str, n_open: int) -> int:
        """How many questions a test may still ask: with a budget, its share of what is left for those not known yet."""
        if self.budget is None:
            return BUDGET - len(parts[name].samples)
        return (self.budget - sum(len(part.samples) for part in parts.values())) // max(n_open, 1)


def measure_acuity(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    budget: int | None = None,
    width: float = WIDTH,
    input_side: int | None = None,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> list[AcuityRun]:
    """Measure the thresholds of each model in the tests that a spec names as benchmarks.

    `budget` is the most questions that a model is asked in all; without one each test has 48, one of places a question
    at each. A test ends early once its interval is narrower than `width`, in octaves where its levels are spaced so,
    else as a share of their range; with a budget the others ask more then. The same call goes on where an earlier one
    stopped; the order of answers does not matter. What the input of a model allows is measured with its own image
    processor, where it has a method `seen_pixels`, or with pictures reduced to `input_side`. Raises SnellenError.
    """
    evaluated = list(models or spec.question.models)
    checked_spec = check_models(spec, evaluated, dict(spec.question.roles))
    check_judging(spec.scoring, spec.judge)
    cast, effort = Cast(dict(spec.question.roles)), Effort(budget, width, input_side)
    return [
        _measure(
            checked_spec.for_model(number, checked_spec.question.models[number]),
            model,
            cast,
            effort,
            progress,
            announce,
        )
        for number, model in enumerate(evaluated)
    ]


def acuity_forecasts(spec: RunSpec, budget: int | None = None, announce: Announce = silent) -> list[str]:
    """What `measure_acuity` would ask each model at most, in lines for a reader; nothing is asked."""
    lines: list[str] = []
    for number, name in enumerate(spec.question.models):
        effort = Effort(budget)
        plan, pools = _planned(spec.for_model(number, name), effort, announce)
        most = _most(pools, _chosen_before(plan.folder, pools), effort)
        lines += forecast(with_parts(plan, most, {})).lines(spec.execution.price)
    return lines


def _planned(spec: RunSpec, effort: Effort, announce: Announce) -> tuple[RunPlan, dict[str, _TestPool]]:
    if not spec.question.protocols:  # however a suite is asked otherwise
        spec = spec.with_question(protocols=tuple(ONCE[method] for method in spec.question.methods))
    if spec.question.limit is not None or spec.question.where:
        raise DataError("limit, where: questions are placed by what was answered before; say how many with budget")
    plan = plan_run(spec, announce)
    for use in plan.benchmarks:
        declared_test(use.benchmark.spec)
        for protocol in protocols_of(use.benchmark.spec, plan):
            if declaration_of(protocol).presentations != 1:
                raise DataError(
                    f"{protocol.label}: a threshold needs questions that are asked once each, as by vanilla"
                )
    pools = {use.benchmark.name: _pool(use.benchmark) for use in plan.benchmarks}
    least = AT_ONCE * len(pools)
    if effort.budget is not None and effort.budget < least:
        raise DataError(
            f"budget {effort.budget}: {len(pools)} tests need {least} questions at least, {AT_ONCE} each; "
            "raise it or name fewer tests (--test)"
        )
    return plan, pools


def _measure(
    spec: RunSpec, model: Any, cast: Cast, effort: Effort, progress: ProgressListener, announce: Announce
) -> AcuityRun:
    plan, pools = _planned(spec, effort, announce)
    parts: Parts = _chosen_before(plan.folder, pools)
    nothing = {name: replace(part, samples=()) for name, part in parts.items()}
    rounds = Rounds(plan, nothing, model, cast, progress, _most(pools, parts, effort))
    if parts == nothing:
        parts = _grown(pools, parts, {}, effort)
    while True:
        rounds.ask(parts, announce)
        run = read_acuity(score_run(plan.folder, spec.scoring))
        # Where a question is asked by generation and by likelihood, the first places both.
        answers = {test_answers.benchmark: test_answers for test_answers in reversed(run.answers)}
        grown = _grown(pools, parts, answers, effort)
        if grown == parts:
            if ideals := _ideals(rounds.model, pools, effort, kept_ideals(plan.folder)):
                write_atomically(plan.folder / IDEALS, msgspec.json.encode(ideals))
            return read_acuity(rounds.score(announce), rounds.outcome)
        parts = grown


def _most(pools: Mapping[str, _TestPool], parts: Parts, effort: Effort) -> Parts:
    """The questions of each test, with those of an earlier call, if it asks its whole share; only the latter where they
    are more than the budget."""
    if effort.budget is not None and sum(len(part.samples) for part in parts.values()) >= effort.budget:
        return parts
    return {name: _filled(pool, parts[name], effort.share(pools, pool)) for name, pool in pools.items()}


def _filled(pool: _TestPool, part: ChosenPart, most: int) -> ChosenPart:
    others = dict.fromkeys((*part.samples, *_evenly(pool, sum(map(len, pool.by_level))).samples))
    return _chosen(pool, list(others)[: max(most, len(part.samples))])


def _ideals(
    model: Any, pools: Mapping[str, _TestPool], effort: Effort, earlier: Mapping[str, Ideal]
) -> dict[str, Ideal]:
    """What the model's input allows in each test, where it is known what becomes of pictures."""
    declared = effort.input_side and shrinking_to(effort.input_side)
    process = declared or getattr(model, "seen_pixels", None)
    if process is None:
        return {}
    ideals = {name: ideal for name, ideal in earlier.items() if ideal.side == effort.input_side}
    for name, pool in pools.items():
        side = pool.benchmark.spec.source.params.get("side", 0)
        if name not in ideals and (ideal := ideal_threshold(pool.test, process, side)) is not None:
            ideals[name] = replace(ideal, side=effort.input_side)
    return ideals


def _pool(benchmark: Benchmark) -> _TestPool:
    test, samples = declared_test(benchmark.spec), list(benchmark.samples())
    by_level: dict[float, list[str]] = defaultdict(list)
    for sample in sorted(samples, key=_place):
        by_level[float(sample.tags[LEVEL])].append(sample.id)
    scale = LevelScale.of(test)
    chance = sum(1 / len(sample.options) for sample in samples) / len(samples)
    return _TestPool(test, benchmark, scale, [by_level[level] for level in scale.levels], chance)


def _place(sample: Sample) -> float:
    return rng_for(sample.benchmark, sample.id, RULE, 0).random()


def _chosen_before(folder: Path, pools: Mapping[str, _TestPool]) -> dict[str, ChosenPart]:
    """What an earlier call chose of each test, in the run's manifest; nothing where there is none."""
    earlier = {}
    if (folder / RUN_MANIFEST).exists() and holds_answers(folder):
        earlier = {use.name: use.part for use in read_manifest(folder).benchmarks}
    return {
        name: part if isinstance(part := earlier.get(name), ChosenPart) else _chosen(pool, ())
        for name, pool in pools.items()
    }


def _chosen(pool: _TestPool, samples: Sequence[str]) -> ChosenPart:
    return ChosenPart(tuple(samples), sum(map(len, pool.by_level)), RULE)


def _grown(pools: Mapping[str, _TestPool], parts: Parts, answers: Mapping[str, TestAnswers], effort: Effort) -> Parts:
    """The parts of the next round; the same where enough is known, or nothing may be asked any more."""
    grown = dict(parts)
    for name, pool in pools.items():
        if pool.has_places and len(parts[name].samples) < effort.share(pools, pool):
            grown[name] = _evenly(pool, effort.share(pools, pool))
    open_tests = {
        name: posterior
        for name, pool in pools.items()
        if not pool.has_places
        for posterior in [answers[name].posterior() if name in answers else pool.scale.posterior((), pool.chance)]
        if not is_known(posterior, effort.width * pool.scale.unit)
    }
    still_to_ask = {name: effort.still_to_ask(grown, name, len(open_tests)) for name in open_tests}
    for name, posterior in open_tests.items():
        pool, chosen, count = pools[name], set(parts[name].samples), still_to_ask[name]
        free = [[sample for sample in samples if sample not in chosen] for samples in pool.by_level]
        rng = rng_for(name, str(len(chosen)), "check", 0)
        levels = next_levels(posterior, list(map(len, free)), min(number_at_once(len(chosen)), count), rng)
        grown[name] = _chosen(pool, (*parts[name].samples, *(free[level].pop(0) for level in levels if free[level])))
    return grown


def _evenly(pool: _TestPool, most: int) -> ChosenPart:
    """Questions of all levels alike, each level in turn."""
    deepest = max(map(len, pool.by_level))
    turns = [samples[turn] for turn in range(deepest) for samples in pool.by_level if turn < len(samples)]
    return _chosen(pool, turns[:most])
