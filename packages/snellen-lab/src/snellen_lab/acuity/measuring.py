"""Thresholds of a model: questions are asked a few at a time, each where its answer tells most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen import DataError
from snellen.plugin_api import (
    RUN_MANIFEST,
    Announce,
    Benchmark,
    ChosenPart,
    LazyRoleModels,
    Method,
    Part,
    ProgressListener,
    Rounds,
    RunPlan,
    RunSpec,
    check_judging,
    check_models,
    declaration_of,
    forecast,
    held_while_scored,
    holds_answers,
    ignore_progress,
    plan_scored_run,
    protocols_of,
    read_manifest,
    score_run,
    silent,
    specs_of,
    with_parts,
    write_atomically,
)
from snellen_lab.acuity import WIDTH
from snellen_lab.acuity.acuity_run import (
    IDEALS,
    LEVEL,
    AcuityRun,
    declared_test,
    kept_ideals,
    read_acuity,
)
from snellen_lab.acuity.ideal import ideal_threshold, shrinking_to
from snellen_lab.acuity.placing import (
    Effort,
    Parts,
    QuestionPool,
    most_asked,
    next_questions,
)
from snellen_lab.acuity.posterior import AT_ONCE
from snellen_lab.acuity.thresholds import Ideal

ONCE: Mapping[Method, str] = {"generation": "vanilla", "likelihood": "likelihood"}
"""The protocols that ask each question once."""


def measure_spec(
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
    cast, effort = LazyRoleModels(dict(spec.question.roles)), Effort(budget, width, input_side)
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


def acuity_forecasts(
    spec: RunSpec, budget: int | None = None, announce: Announce = silent
) -> list[str]:
    """What `measure_spec` would ask each model at most, in lines for a reader; nothing is asked."""
    lines: list[str] = []
    for number, name in enumerate(spec.question.models):
        effort = Effort(budget)
        plan, pools = _planned(spec.for_model(number, name), effort, announce)
        most = most_asked(pools, _chosen_before(plan.folder, pools), effort)
        lines += forecast(with_parts(plan, most, {})).lines(spec.execution.price)
    return lines


def _planned(
    spec: RunSpec, effort: Effort, announce: Announce
) -> tuple[RunPlan, dict[str, QuestionPool]]:
    if not spec.question.protocols:  # however a suite is asked otherwise
        spec = spec.with_question(protocols=tuple(ONCE[method] for method in spec.question.methods))
    if spec.question.limit is not None or spec.question.where:
        raise DataError(
            "limit, where: an adaptive test chooses its own questions; set budget instead"
        )
    # Before anything is built, which takes minutes.
    tests = {test.name for pattern in spec.question.benchmarks for test in specs_of(pattern)}
    least = AT_ONCE * len(tests)
    if effort.budget is not None and effort.budget < least:
        raise DataError(
            f"budget {effort.budget}: {len(tests)} tests need {least} questions at least, {AT_ONCE} each; "
            "raise it or name fewer tests (--test)"
        )
    plan = plan_scored_run(spec, announce)
    for use in plan.benchmarks:
        declared_test(use.benchmark.spec)
        for protocol in protocols_of(use.benchmark.spec, plan):
            if declaration_of(protocol).presentations != 1:
                raise DataError(
                    f"{protocol.label}: a threshold needs questions that are asked once each, as by vanilla"
                )
    pools = {use.benchmark.name: _pool(use.benchmark) for use in plan.benchmarks}
    return plan, pools


def _measure(
    spec: RunSpec,
    model: Any,
    cast: LazyRoleModels,
    effort: Effort,
    progress: ProgressListener,
    announce: Announce,
) -> AcuityRun:
    plan, pools = _planned(spec, effort, announce)
    parts: Parts = _chosen_before(plan.folder, pools)
    nothing = {name: replace(part, samples=()) for name, part in parts.items()}
    rounds = Rounds(plan, nothing, model, cast, progress, most_asked(pools, parts, effort))
    if parts == nothing:
        parts = next_questions(pools, parts, {}, effort)
    while True:
        rounds.ask(parts, announce)
        with held_while_scored(plan.folder):
            run = read_acuity(score_run(plan.folder, spec.scoring))
            # Where a question is asked by generation and by likelihood, the first places both.
            answers = {
                test_answers.benchmark: test_answers for test_answers in reversed(run.answers)
            }
            grown = next_questions(pools, parts, answers, effort)
            if grown == parts:
                if ideals := _ideals(rounds.model, plan, effort, kept_ideals(plan.folder)):
                    write_atomically(plan.folder / IDEALS, msgspec.json.encode(ideals))
                return read_acuity(rounds.score(announce), rounds.outcome)
        parts = grown


def _ideals(
    model: Any, plan: RunPlan, effort: Effort, earlier: Mapping[str, Ideal]
) -> dict[str, Ideal]:
    """What the model's input allows in each test, where it is known what becomes of pictures."""
    declared = effort.input_side and shrinking_to(effort.input_side)
    process = declared or getattr(model, "seen_pixels", None)
    if process is None:
        return {}
    ideals = {name: ideal for name, ideal in earlier.items() if ideal.side == effort.input_side}
    for spec in (use.benchmark.spec for use in plan.benchmarks):
        if spec.name in ideals:
            continue
        ideal = ideal_threshold(declared_test(spec), process, spec.source.params.get("side", 0))
        if ideal is not None:
            ideals[spec.name] = replace(ideal, side=effort.input_side)
    return ideals


def _pool(benchmark: Benchmark) -> QuestionPool:
    samples = list(benchmark.samples())
    levels = [(sample.id, float(sample.tags[LEVEL])) for sample in samples]
    chance = sum(1 / len(sample.options) for sample in samples) / len(samples)
    return QuestionPool.of(declared_test(benchmark.spec), benchmark.name, levels, chance)


def _chosen_before(folder: Path, pools: Mapping[str, QuestionPool]) -> dict[str, ChosenPart]:
    """What an earlier call chose of each test, in the run's manifest; nothing where there is none."""
    earlier: dict[str, Part | None] = {}
    if (folder / RUN_MANIFEST).exists() and holds_answers(folder):
        earlier = {use.name: use.part for use in read_manifest(folder).benchmarks}
    return {
        name: part if isinstance(part := earlier.get(name), ChosenPart) else pool.part()
        for name, pool in pools.items()
    }
