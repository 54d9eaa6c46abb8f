"""From a spec to scored runs: planned, asked, scored, reported. `evaluate()` and `snellen run` are doors to this."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import flat_row, results_of
from snellen.errors import ErrorBudgetError, ModelError
from snellen.models.base import AsyncModel, Model, load_model, parse_spec
from snellen.records import Result
from snellen.registry import find
from snellen.runs.casting import load_evaluated, load_roles
from snellen.runs.drivers import Roles
from snellen.runs.journal import write_atomically
from snellen.runs.plan import Announce, RunPlan, plan_run
from snellen.runs.progress import ProgressListener, ignore_progress, progress_of
from snellen.runs.runner import RunOutcome, run_plan
from snellen.runs.spec import JudgeSpec, RunSpec, ScoringSpec, role_models
from snellen.runs.workers import run_workers
from snellen.scoring.judges.agreement import agreement_sentence
from snellen.scoring.judges.calibration import calibrate
from snellen.scoring.judges.ensemble import JudgeEnsemble
from snellen.scoring.run_scoring import check_scoring, score_run
from snellen.scoring.scored_run import ScoredRun
from snellen.scoring.unparsed import prompt_version

REPORT = "report.html"


class FinishedRun(Struct, frozen=True):
    """A run that was carried to its end and scored."""

    outcome: RunOutcome
    scored: ScoredRun


def silent(line: str) -> None:
    """Nobody reads what is announced."""


def evaluate_spec(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    roles: Mapping[str, Any] = MappingProxyType({}),
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> list[FinishedRun]:
    """Ask each model what a spec says, and score it; a run for each.

    `models` stand in the place of the spec's model strings, one for each, and may be objects; so do `roles`, by role.
    Faults of the spec's names are raised before anything is asked; requests that failed are for `check_budget`.
    Raises SnellenError.
    """
    asked, played = models or spec.models, roles or dict(spec.roles)
    names = [_name_of(model) for model in asked]
    named = replace(
        spec,
        models=tuple(names),
        roles=role_models({role: _name_of(model) for role, model in played.items()}),
    )
    for model in (*asked, *played.values()):
        _check_model(model, spec)
    check_judging(spec.scoring, spec.judge)
    cast = Cast(played)
    return [
        _evaluate_one(named.for_model(number, names[number]), model, cast, progress, announce)
        for number, model in enumerate(asked)
    ]


def _name_of(model: Any) -> str:
    return model if isinstance(model, str) else load_model(model).name


class Cast:
    """Who plays the roles: loaded when first needed, and then for all models of a call."""

    def __init__(self, models: Mapping[str, Any]) -> None:
        self.models = models

    @cached_property
    def roles(self) -> Roles:
        return load_roles(self.models)


def _check_model(model: Any, spec: RunSpec) -> None:
    if isinstance(model, str):
        find("models", parse_spec(model).scheme)
    elif spec.workers > 1:
        raise ModelError(
            f"{load_model(model).name} is an object of this process, which {spec.workers} workers cannot share; "
            "name it by a model string, or leave workers at 1"
        )


def _evaluate_one(
    spec: RunSpec, model: Any, cast: Cast, progress: ProgressListener, announce: Callable[[str], object]
) -> FinishedRun:
    plan = plan_run(spec, announce)
    outcome = carry_out(plan, model, cast, progress)
    [scored] = score_folders([outcome.folder], spec.scoring, spec.judge, announce)
    for use in scored.roles:
        announce(use.sentence)
    if spec.report:
        announce(f"report: {report_on(scored)}")
    return FinishedRun(outcome, scored)


def carry_out(plan: RunPlan, model: Any, cast: Cast, progress: ProgressListener) -> RunOutcome:
    """Ask a model, a string or an object, what a plan says and is not answered yet."""
    update = progress_of(plan, progress)
    if plan.spec.workers > 1:
        return run_workers(plan, update)
    return run_plan(load_evaluated(model, cast.models, cast.roles), plan, update, cast.roles)


def report_on(scored: ScoredRun) -> Path:
    """Write a run's own report into its folder."""
    from snellen.report import write_report

    return write_report([scored], results_of(scored), scored.folder / REPORT)


def check_budget(outcome: RunOutcome, budget: float) -> None:
    """Raise ErrorBudgetError when too large a share of this session's requests to one of its models failed."""
    for role, failed in outcome.failed.items():
        total = outcome.answered.get(role, 0) + failed
        if failed > budget * total:
            to_whom = f" to the {role}" if role else ""
            raise ErrorBudgetError(
                f"{failed} of {total} requests{to_whom} failed ({failed / total:.1%}, --error-budget {budget:.1%}): "
                f"{_main_reasons(outcome)}; "
                f"they are counted as errors in {outcome.folder}; run the same command to ask them again"
            )


def _main_reasons(outcome: RunOutcome, most: int = 3) -> str:
    """The most frequent reasons of failures, each with its count where there are several."""
    first = sorted(outcome.reasons.items(), key=lambda item: -item[1])
    if len(first) == 1:
        return first[0][0]
    more = f", and {len(first) - most} other reasons" if len(first) > most else ""
    return ", ".join(f"{count} x {reason}" for reason, count in first[:most]) + more


# --- scoring -----------------------------------------------------------------------------------------------------


def check_judging(scoring: ScoringSpec, judge: JudgeSpec) -> None:
    """Raise UnknownNameError or DataError for what scoring would refuse, before a model or a judge is asked."""
    check_scoring(scoring, judged=bool(judge.models))
    prompt_version(judge)
    for model in judge.models:
        if isinstance(model, str):
            find("models", parse_spec(model).scheme)


def score_folders(
    folders: Sequence[Path], scoring: ScoringSpec, judge: JudgeSpec, announce: Announce = silent
) -> list[ScoredRun]:
    """Read and score runs, with results written beside their journals; a judge is loaded once for all of them."""
    check_judging(scoring, judge)
    judges = [load_model(model) for model in judge.models]
    runs = [_score_folder(folder, scoring, _panel(judges, folder, judge, announce)) for folder in folders]
    if judges and judge.calibrate:
        for agreement in calibrate(judges, judge, announce):
            announce(agreement_sentence(agreement))
    return runs


def _panel(
    judges: Sequence[Model | AsyncModel], folder: Path, judge: JudgeSpec, announce: Announce
) -> JudgeEnsemble | None:
    return JudgeEnsemble(judges, folder, judge, announce) if judges else None


def _score_folder(folder: Path, scoring: ScoringSpec, panel: JudgeEnsemble | None) -> ScoredRun:
    """As published the results hold both conventions; the other files are the standard ones."""
    scored = score_run(folder, replace(scoring, as_published=False), panel)
    if not scoring.as_published:
        _write_scored(scored, results_of(scored))
        return scored
    published = score_run(folder, scoring, panel)
    _write_scored(scored, [*results_of(scored), *results_of(published)])
    return replace(published, counterpart=scored)


def _write_scored(scored: ScoredRun, results: Sequence[Result]) -> None:
    lines = msgspec.json.Encoder().encode_lines
    predictions = [prediction for benchmark in scored.benchmarks for prediction in benchmark.predictions]
    scores = [score for benchmark in scored.benchmarks for score in benchmark.scores]
    write_atomically(scored.folder / "predictions.jsonl", lines(predictions))
    write_atomically(scored.folder / "scores.jsonl", lines(scores))
    rows = [flat_row(row) for row in results]
    write_atomically(scored.folder / "results.json", json.dumps(rows, indent=1, ensure_ascii=False).encode())
