"""Evaluate models: plan, run, score and report. `evaluate()` and `snellen run` call this module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from snellen.analysis.stopping_rules import width_rule
from snellen.callers import setting
from snellen.errors import DataError, PendingBatchesError
from snellen.experiments.execution import (
    LazyRoleModels,
    carry_out,
    check_models,
    in_own_folder,
    plan_scored_run,
    score_plan,
)
from snellen.experiments.outcome_checks import check_absent, check_budget
from snellen.experiments.report_files import write_run_report
from snellen.experiments.run_rounds import RunRounds, run_until
from snellen.experiments.scored_folders import check_judging
from snellen.runs.finding import AbsentBenchmark, Announce, announce_nothing
from snellen.runs.forecast import forecast_requests
from snellen.runs.rounds import empty_parts
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.runner import RunOutcome
from snellen.runs.spec import QuestionSpec, RunSpec
from snellen.scoring.scored_run import (
    ScoredRun,
    cut_reply_sentences,
    empty_reply_sentences,
    whole_text_sentences,
)


class FinishedRun(Struct, frozen=True):
    """A run that is complete and scored."""

    outcome: RunOutcome
    scored: ScoredRun
    absent: tuple[AbsentBenchmark, ...] = ()
    """Benchmarks that were left out because they could not be fetched."""


def evaluate_spec(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    roles: Mapping[str, Any] = MappingProxyType({}),
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
) -> list[FinishedRun]:
    """Run and score each model of a spec.

    Names in the spec are checked before the first request. Failed requests do not raise; `check_finished` does.

    Args:
        spec: The spec of one or several runs.
        models: The evaluated models, strings or objects; by default those of the spec.
        roles: Models in other roles, strings or objects; by default those of the spec.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Returns:
        A run for each model.

    Raises:
        SnellenError: The spec is wrong, a model cannot be loaded, or a budget is spent.
        PendingBatchesError: `wait` is False, and batches have not ended.

    Examples:
        >>> from snellen.plugin_api import run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4, "report": False}
        >>> [outcome] = evaluate_spec(run_spec(fields))
        >>> outcome.scored.manifest.model
        'snellen:oracle'
    """
    _check_method(spec.question)
    evaluated_models = models or spec.question.models
    models_by_role = roles or dict(spec.question.roles)
    named_spec = check_models(spec, evaluated_models, models_by_role)
    check_judging(spec.scoring, spec.judge)
    if spec.execution.until:
        width_rule(spec.execution.until)  # raises for a rule that does not exist

    role_models = LazyRoleModels(models_by_role)
    finished = []
    pending = []
    for index, model in enumerate(evaluated_models):
        model_spec = named_spec.for_model(index, named_spec.question.models[index])
        try:
            finished.append(_evaluate_model(model_spec, model, role_models, progress, announce))
        except PendingBatchesError as error:
            # The batches of the other models are to be submitted too.
            pending.append(error)
    _check_pending(pending)
    return finished


def _check_pending(pending: Sequence[PendingBatchesError]) -> None:
    """Raise one error for all models whose batches have not ended."""
    if len(pending) == 1:
        raise pending[0]
    if pending:
        batches: list[str] = []
        for error in pending:
            batches.extend(error.batches)
        raise PendingBatchesError("\n".join(map(str, pending)), batches)


def _evaluate_model(
    spec: RunSpec,
    model: Any,
    role_models: LazyRoleModels,
    progress: ProgressListener,
    announce: Announce,
) -> FinishedRun:
    """Run one model on some benchmarks and score its replies.

    Args:
        spec: The settings of the evaluation, for this model.
        model: A model, or its model string.
        role_models: Models in other roles, such as a judge, loaded when first needed.
        progress: Called after each reply.
        announce: Called with each sentence for the user.
    """
    absent: list[AbsentBenchmark] = []
    plan = plan_scored_run(spec, announce, absent)
    if isinstance(model, str):
        announce(f"loading {model}")
    model, plan = in_own_folder(model, plan, role_models, announce)
    until = spec.execution.until
    if until:
        rules = {use.benchmark.name: until for use in plan.benchmarks}
        rounds = RunRounds(plan, empty_parts(plan, rules), model, role_models, progress)
        outcome, scored = run_until(width_rule(until), rounds, announce)
    else:
        outcome = carry_out(plan, model, role_models, progress, announce)
        scored = score_plan(plan, announce)

    for sentences in (cut_reply_sentences, empty_reply_sentences, whole_text_sentences):
        for sentence in sentences(scored):
            announce(sentence)
    for usage in scored.roles:
        announce(usage.sentence(spec.execution.price))
    if spec.execution.report:
        announce(f"report: {write_run_report(scored)}")
    return FinishedRun(outcome, scored, tuple(absent))


def estimate_requests(spec: RunSpec, announce: Announce = announce_nothing) -> list[str]:
    """Estimate the requests of an evaluation, without loading a model or sending anything.

    Returns:
        Lines of text for the user. Those of the first model come first.
    """
    lines: list[str] = []
    for index, name in enumerate(spec.question.models):
        model_spec = spec.for_model(index, name)
        plan = plan_scored_run(model_spec, announce, [])
        forecast = forecast_requests(plan)
        lines.extend(forecast.lines(spec.execution.price))
    return lines


def _check_method(question: QuestionSpec) -> None:
    """Raise DataError if a method is chosen that has no effect, because protocols are named as well."""
    if not question.protocols or question.method == "generation":
        return
    named = setting("protocols", question.protocols[0])
    added = setting("protocols", "likelihood")
    raise DataError(
        f"{setting('method', question.method)} chooses the protocols if none is named, but {named} is; remove one of "
        f"them, or name both methods as protocols ({named} and {added})"
    )


def check_finished(finished: Sequence[FinishedRun], budget: float) -> None:
    """Raise at the end of an evaluation what went wrong in it, after everything else was run and scored.

    Args:
        finished: The runs.
        budget: Share of failed requests that is allowed, in [0, 1].

    Raises:
        ErrorBudgetError: A larger share of a run's requests failed.
        AbsentBenchmarkError: Benchmarks could not be fetched.
    """
    for run in finished:
        check_budget(run.outcome, budget)
    faults = {}
    for run in finished:
        for benchmark in run.absent:
            faults[benchmark.name] = benchmark.fault
    check_absent(faults)
