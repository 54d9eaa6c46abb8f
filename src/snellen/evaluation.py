"""From a spec to scored runs: planned, asked, scored, reported. `evaluate()` and `snellen run` are doors to this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import results_of
from snellen.errors import DataError, ErrorBudgetError, ModelError
from snellen.models.base import AsyncModel, Model, load_model, parse_spec
from snellen.registry import find
from snellen.runs.casting import load_evaluated, load_roles
from snellen.runs.drivers import Roles
from snellen.runs.journal import read_manifest
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.plan import Announce, RunPlan, plan_run
from snellen.runs.progress import ProgressListener, ignore_progress, progress_of
from snellen.runs.runner import RunOutcome, run_plan
from snellen.runs.spec import JudgeSpec, RunSpec, ScoringSpec, role_models
from snellen.runs.workers import run_workers
from snellen.scoring.answers import has_answers
from snellen.scoring.judges.agreement import agreement_sentence
from snellen.scoring.judges.calibration import calibrate
from snellen.scoring.judges.ensemble import JudgeEnsemble
from snellen.scoring.kept_scoring import (
    ScoringSettings,
    is_read_only,
    keep_scoring,
    load_scoring,
    scoring_folder,
    scoring_names,
    scoring_settings,
)
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
    """Write a run's own report to its place."""
    from snellen.report import write_report

    return write_report([scored], results_of(scored), report_path([scored]))


def report_path(runs: Sequence[ScoredRun]) -> Path:
    """Where a report lies unless said otherwise: of one run beside its scores, else, as of a run that cannot be
    written, in the working directory."""
    kept = runs[0].kept_in if len(runs) == 1 else None
    return (Path() if kept is None or is_read_only(kept) else kept) / REPORT


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
    folders: Sequence[Path],
    scoring: ScoringSpec,
    judge: JudgeSpec,
    announce: Announce = silent,
    *,
    kept_will_do: bool = False,
) -> list[ScoredRun]:
    """Read and score runs; a judge is loaded once for all of them.

    Each scoring is kept in the run's folder (`snellen.scoring.kept_scoring`), unless that is read-only, which is
    announced. Where the answers are not at hand, as in a run from elsewhere, nothing can be scored, which raises
    DataError; or, if it will do, what was kept by the same settings is opened and that is announced.
    """
    check_judging(scoring, judge)
    judges = [load_model(model) for model in judge.models]
    settings = scoring_settings(scoring, judge, judges)
    runs = []
    for folder in folders:
        if absent := _without_answers(folder):
            runs.append(_kept(folder, settings, absent, announce, kept_will_do))
        else:
            runs.append(_score_folder(folder, settings, _panel(judges, folder, judge, announce), announce))
    if judges and judge.calibrate:
        for agreement in calibrate(judges, judge, announce):
            announce(agreement_sentence(agreement))
    return runs


def _panel(
    judges: Sequence[Model | AsyncModel], folder: Path, judge: JudgeSpec, announce: Announce
) -> JudgeEnsemble | None:
    return JudgeEnsemble(judges, folder, judge, announce) if judges else None


def _score_folder(
    folder: Path, settings: ScoringSettings, panel: JudgeEnsemble | None, announce: Announce
) -> ScoredRun:
    scored = _keep(score_run(folder, settings.standard.scoring, panel), settings.standard)
    if settings.scoring.as_published:
        published = replace(score_run(folder, settings.scoring, panel), counterpart=scored)
        scored = _keep(published, settings)
    if is_read_only(folder):
        announce(f"{folder} is read-only: its scores are shown and not kept")
    return scored


def _keep(scored: ScoredRun, settings: ScoringSettings) -> ScoredRun:
    """The results of a scoring as published hold those by the standard rules too, the first ones."""
    if is_read_only(scored.folder):
        return scored
    standard = scored.counterpart
    rows = [*(results_of(standard) if standard else ()), *results_of(scored)]
    keep_scoring(scored, settings, rows, settings.standard.name if standard else None)
    return replace(scored, kept_in=scoring_folder(scored.folder, settings.name))


def _without_answers(folder: Path) -> list[str]:
    """The benchmarks of a run whose answers are known, but not here."""
    uses = read_manifest(folder).benchmarks
    return [use.name for use in uses if not has_answers(reopen_benchmark(use, folder).folder)]


def _kept(
    folder: Path, settings: ScoringSettings, absent: Sequence[str], announce: Announce, will_do: bool
) -> ScoredRun:
    names = ", ".join(absent)
    is_kept = settings.name in scoring_names(folder)
    if not (is_kept and will_do):
        shown = f"`snellen report {folder}` shows the scores that were kept, or " if is_kept else ""
        raise DataError(
            f"{folder} cannot be scored, as the answers of {names} are not here as they were when it was asked: {shown}"
            "build that version again, or have the run packed with its answers (`snellen pack --answers`)"
        )
    announce(f"{folder}: the answers of {names} are not here; these are the scores that were kept by these settings")
    return load_scoring(folder, settings.name)
