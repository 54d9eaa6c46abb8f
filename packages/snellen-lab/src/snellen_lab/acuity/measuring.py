"""Adaptive runs that measure thresholds: a few questions at a time, each at the most informative level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen import DataError, ignore_progress
from snellen.plugin_api import (
    AdaptiveRun,
    Announce,
    Benchmark,
    ChosenPart,
    Method,
    ProgressListener,
    RunSpec,
    adaptive_runs,
    announce_nothing,
    labelled_declaration,
    matching_specs,
    write_atomically,
)
from snellen_lab.acuity import WIDTH
from snellen_lab.acuity.acuity_run import (
    IDEALS,
    LEVEL,
    AcuityRun,
    declared_test,
    read_acuity,
    stored_ideals,
)
from snellen_lab.acuity.ideal import ideal_threshold, shrinking_to
from snellen_lab.acuity.level_choice import MAX_BATCH
from snellen_lab.acuity.placing import (
    Effort,
    Parts,
    QuestionPool,
    most_asked,
    next_questions,
)
from snellen_lab.acuity.thresholds import Ideal

ONCE: Mapping[Method, str] = {"generation": "vanilla", "likelihood": "likelihood"}
"""By method, the protocol that asks each question once."""


def measure_spec(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    budget: int | None = None,
    width: float = WIDTH,
    input_side: int | None = None,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
) -> list[AcuityRun]:
    """Measure the thresholds of each model in the tests that a spec names as benchmarks.

    The same call continues an interrupted one; the order of replies does not matter.

    Args:
        spec: The run, whose benchmarks are tests.
        models: Models in place of those of the spec.
        budget: Maximum number of questions per model. By default each test has 48, and a test of places one per place.
        width: Width of a threshold's interval at which a test stops, in octaves if its levels are spaced by ratios, else
            as a share of their range. With a budget, other tests then use the questions that are left.
        input_side: Longer side in pixels to which images are reduced for the ideal reader. By default it uses the
            model's own image processor, if the model has a method `seen_pixels`.
        progress: Receives the progress of requests.
        announce: Receives lines for the user.

    Returns:
        The results of each model. Raises SnellenError.
    """
    effort = Effort(budget, width, input_side)
    acuity_spec = _acuity_spec(spec, effort)
    runs = []
    for run in adaptive_runs(acuity_spec, models, progress=progress, announce=announce):
        runs.append(_measure_model(run, effort))
    return runs


def acuity_forecasts(
    spec: RunSpec, budget: int | None = None, announce: Announce = announce_nothing
) -> list[str]:
    """Estimate the requests of `measure_spec` at most, in lines for a reader, without calling a model."""
    effort = Effort(budget)
    lines: list[str] = []
    for run in adaptive_runs(_acuity_spec(spec, effort), announce=announce):
        pools = _question_pools(run)
        lines += run.forecast(most_asked(pools, _earlier_parts(run, pools), effort))
    return lines


def _acuity_spec(spec: RunSpec, effort: Effort) -> RunSpec:
    """Check the fields of a run that a measurement sets itself, before any test is built, which takes minutes."""
    if spec.question.limit is not None or spec.question.where:
        raise DataError(
            "limit, where: an adaptive test chooses its own questions; set budget instead"
        )
    tests: set[str] = set()
    for pattern in spec.question.benchmarks:
        tests.update(test.name for test in matching_specs(pattern))
    required = MAX_BATCH * len(tests)
    if effort.budget is not None and effort.budget < required:
        raise DataError(
            f"budget {effort.budget}: {len(tests)} tests need {required} questions at least, {MAX_BATCH} each; "
            "raise it or name fewer tests"
        )
    if spec.question.protocols:
        return spec
    # A suite's own protocols do not apply to thresholds.
    return spec.with_question(protocols=tuple(ONCE[method] for method in spec.question.methods))


def _question_pools(run: AdaptiveRun) -> dict[str, QuestionPool]:
    """Return the questions of each test of a run, by benchmark."""
    pools = {}
    for benchmark in run.benchmarks:
        declared_test(
            benchmark.spec
        )  # raises DataError for a benchmark that is not a psychometric test
        for protocol in run.protocols(benchmark):
            if labelled_declaration(protocol.label).presentations != 1:
                raise DataError(
                    f"{protocol.label}: a threshold needs questions that are asked once each, as by vanilla"
                )
        pools[benchmark.name] = _question_pool(benchmark)
    return pools


def _question_pool(benchmark: Benchmark) -> QuestionPool:
    """Return the questions of an acuity test by level, with the mean probability that a guess is right."""
    levels = []
    chances = []
    for sample in benchmark.samples():
        levels.append((sample.id, float(sample.tags[LEVEL])))
        chances.append(1 / len(sample.options))
    mean_chance = sum(chances) / len(chances)
    return QuestionPool.of(declared_test(benchmark.spec), benchmark.name, levels, mean_chance)


def _measure_model(run: AdaptiveRun, effort: Effort) -> AcuityRun:
    """Ask the questions of a model in rounds until no test needs more."""
    pools = _question_pools(run)
    parts: Parts = _earlier_parts(run, pools)
    empty_parts = {name: replace(no_questions, samples=()) for name, no_questions in parts.items()}
    run.start(empty_parts, most_asked(pools, parts, effort))
    if parts == empty_parts:
        parts = next_questions(pools, parts, {}, effort)
    while True:
        run.ask(parts)
        with run.hold():
            measured = read_acuity(run.scores())
            # If a question is asked by generation and by likelihood, the first method chooses the questions of both.
            answers = {
                test_answers.benchmark: test_answers for test_answers in reversed(measured.answers)
            }
            grown_parts = next_questions(pools, parts, answers, effort)
            if grown_parts == parts:
                ideals = _measure_ideals(run, effort)
                if ideals:
                    write_atomically(run.folder / IDEALS, msgspec.json.encode(ideals))
                return read_acuity(run.score(), run.outcome)
        parts = grown_parts


def _measure_ideals(run: AdaptiveRun, effort: Effort) -> dict[str, Ideal]:
    """Return the ideal threshold of each test, if it is known how the model's images are processed.

    Those that an earlier call has measured for the same images are reused.
    """
    if effort.input_side:
        process = shrinking_to(effort.input_side)
    else:
        process = getattr(run.model, "seen_pixels", None)
    if process is None:
        return {}
    ideals = {}
    for name, ideal in stored_ideals(run.folder).items():
        if ideal.side == effort.input_side:
            ideals[name] = ideal
    for benchmark in run.benchmarks:
        spec = benchmark.spec
        if spec.name in ideals:
            continue
        ideal = ideal_threshold(declared_test(spec), process, spec.source.params.get("side", 0))
        if ideal is not None:
            ideals[spec.name] = replace(ideal, side=effort.input_side)
    return ideals


def _earlier_parts(run: AdaptiveRun, pools: Mapping[str, QuestionPool]) -> dict[str, ChosenPart]:
    """Return the questions that an earlier call chose for each test; an empty part if there was none."""
    stored_parts = run.earlier_parts()
    parts = {}
    for name, pool in pools.items():
        parts[name] = stored_parts.get(name) or pool.part()
    return parts
