"""Check the models of a spec, plan its runs, and execute a plan here, in worker processes or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec
from snellen.errors import HookError, ModelError
from snellen.experiments.outcome_checks import check_spent
from snellen.experiments.scored_folders import (
    announce_changed_answers,
    check_judge_is_used,
    score_runs,
)
from snellen.models.api_keys import refuse_secrets
from snellen.models.base import AsyncModel, Model
from snellen.models.loading import check_opener, find_opener, load_model
from snellen.models.model_strings import parse_spec
from snellen.registry import find_registered, targets
from snellen.runs.drivers import ProgressCallback, ProgressUpdate
from snellen.runs.driving import Roles, load_evaluated, load_roles
from snellen.runs.finding import AbsentBenchmark, Announce, announce_nothing
from snellen.runs.locks import locked_while_scoring
from snellen.runs.plan import RunPlan, plan_run, samples_of
from snellen.runs.resuming import choose_folder
from snellen.runs.run_folder import RUN_MANIFEST, holds_answers, journals, read_manifest
from snellen.runs.run_progress import ProgressListener, progress_of
from snellen.runs.runner import RunOutcome, run_plan
from snellen.runs.spec import ExecutionSpec, RunSpec, check_sharing, parse_role_models
from snellen.runs.workers import run_workers
from snellen.scoring.entry_lint import entry_findings, judge_notice
from snellen.scoring.run_scoring import (
    check_scoring_of,
    rules_of,
    spec_by_rules,
    uses_judge,
)
from snellen.scoring.scored_run import ScoredRun

# --- models ----------------------------------------------------------------------------------------------------------


class LazyRoleModels:
    """The models in roles other than the evaluated one, such as a judge, shared by all evaluated models.

    They are loaded when they are first needed.

    Args:
        models: A model string or an object for each role.
    """

    def __init__(self, models: Mapping[str, Any]) -> None:
        self.models = models

    @cached_property
    def roles(self) -> Roles:
        """The loaded models."""
        return load_roles(self.models)


def check_models(spec: RunSpec, models: Sequence[Any], roles: Mapping[str, Any]) -> RunSpec:
    """Check that all models can be used, and return the settings with the names of the models.

    Args:
        spec: The settings of one or several runs.
        models: The evaluated models: model strings or objects.
        roles: Models in other roles, such as a judge.

    Raises:
        SnellenError: A string is not a model string, or an object would have to be shared by several worker processes.
    """
    check_sharing(spec.execution)
    for model in (*models, *roles.values()):
        _check_model(model, spec.execution)
    names = tuple(_name_of(model) for model in models)
    role_names = {role: _name_of(model) for role, model in roles.items()}
    return spec.with_question(models=names, roles=parse_role_models(role_names))


def check_model_string(model: str) -> None:
    """Check a model string as far as that is possible without loading the model.

    Raises:
        SnellenError: The string cannot be that of a model.
    """
    spec = parse_spec(model)
    check_opener(spec)
    if "://" in spec.target or spec.options.keys() & {"api_key", "extra_body"}:
        refuse_secrets(spec)
    if spec.scheme in targets("model_checks"):
        find_registered("model_checks", spec.scheme)(spec)


def _check_model(model: Any, execution: ExecutionSpec) -> None:
    """Raise an error for an unknown model string, or a model object that other processes would need."""
    if isinstance(model, str):
        check_model_string(model)
        find_opener(parse_spec(model))
        return
    if not execution.is_asked_elsewhere:
        return
    if execution.ray:
        workers = "workers on a cluster"
        remedy = "ray out"
    else:
        workers = f"{execution.workers} workers"
        remedy = "workers at 1"
    raise ModelError(
        f"{load_model(model).name} is an object in this process, which {workers} cannot share; use a model "
        f"string, or leave {remedy}"
    )


def _name_of(model: Any) -> str:
    if isinstance(model, str):
        return model
    return load_model(model).name


# --- plans -----------------------------------------------------------------------------------------------------------


def plan_scored_run(
    spec: RunSpec,
    announce: Announce = announce_nothing,
    absent: list[AbsentBenchmark] | None = None,
) -> RunPlan:
    """Plan a run like `plan_run`, and check that its replies can be scored before anyone pays for them.

    Raises:
        SnellenError: As `plan_run`, or an extractor, metric or judge does not exist or cannot be imported.

    Examples:
        >>> from snellen.plugin_api import run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4}
        >>> plan = plan_scored_run(run_spec(fields).of_model())
        >>> [use.benchmark.name for use in plan.benchmarks]
        ['eyechart/colour']
    """
    plan = plan_run(spec, announce, absent)
    for use in plan.benchmarks:
        benchmark_spec = use.benchmark.spec
        check_scoring_of(benchmark_spec, spec.scoring)
        for line in _scoring_notices(benchmark_spec, spec):
            announce(line)
    check_judge_is_used(spec.judge, _judged_benchmarks(plan))
    return plan


def _scoring_notices(benchmark_spec: BenchmarkSpec, spec: RunSpec) -> list[str]:
    """Return what the user should know about the scores of a benchmark before any request is paid for.

    For example, that a metric needs a judge model and none was given.
    """
    scored_spec = spec_by_rules(benchmark_spec, rules_of(benchmark_spec, spec.scoring))
    notices: list[str] = []
    judge_text = judge_notice(scored_spec, judged=bool(spec.judge.models))
    if judge_text:
        notices.append(judge_text)
    notices.extend(entry_findings(scored_spec))
    return notices


def _judged_benchmarks(plan: RunPlan) -> Iterator[bool]:
    """Yield, for each benchmark of a plan, whether a judge model could change any of its scores."""
    for use in plan.benchmarks:
        benchmark_spec = use.benchmark.spec
        protocols = plan.protocols_of(benchmark_spec)
        yield uses_judge(benchmark_spec, samples_of(use), protocols, plan.spec.scoring)


def in_own_folder(
    model: Any, plan: RunPlan, role_models: LazyRoleModels, announce: Announce
) -> tuple[Any, RunPlan]:
    """Load the evaluated model, and choose the folder of its run by its identity.

    If other processes load the model, or if the user named the folder, nothing is loaded.

    Returns:
        The loaded model and the plan with the chosen folder, or both unchanged.
    """
    if plan.execution.is_asked_elsewhere or not plan.has_automatic_name:
        return model, plan
    loaded = load_evaluated(model, role_models.models, role_models.roles)
    return loaded, choose_folder(plan, loaded, role_models.roles, announce)


# --- execution -------------------------------------------------------------------------------------------------------


def carry_out(
    plan: RunPlan,
    model: Any,
    role_models: LazyRoleModels,
    progress: ProgressListener,
    announce: Announce = announce_nothing,
) -> RunOutcome:
    """Send a model the requests of a plan that have no reply yet.

    An interruption (KeyboardInterrupt) gets a note that says where the replies are stored.

    Args:
        plan: The plan.
        model: The evaluated model, a model string or an object.
        role_models: Models in other roles.
        progress: Receives the state of the run.
        announce: Receives lines for the user.

    Raises:
        SpentBudgetError: A budget was spent before the end.
    """

    def load() -> Model | AsyncModel:
        return load_evaluated(model, role_models.models, role_models.roles)

    show_progress = progress_of(plan, progress)
    n_stored_questions = 0

    def update(since_last: ProgressUpdate) -> None:
        nonlocal n_stored_questions
        n_stored_questions += since_last.stored
        show_progress(since_last)

    stored_until = _time_of_last_reply(plan.folder)
    outcome = execute(plan, load, role_models, update, announce)
    if stored_until and n_stored_questions and not outcome.sent:
        announce(
            f"all {n_stored_questions:,} questions were answered by an earlier run, until {stored_until}; nothing was "
            f"asked. {setting('name', 'NEW')} asks again"
        )
    check_spent(outcome)
    return outcome


def _time_of_last_reply(folder: Path) -> str:
    """Return the time of the last reply in the folder of a run, to the minute; empty if there is none."""
    if not holds_answers(folder):
        return ""
    last = max(journal.stat().st_mtime for journal in journals(folder))
    return f"{datetime.fromtimestamp(last):%Y-%m-%d %H:%M}"


def execute(
    plan: RunPlan,
    load: Callable[[], Model | AsyncModel],
    role_models: LazyRoleModels,
    update: ProgressCallback,
    announce: Announce,
) -> RunOutcome:
    """Send the requests of a plan, in this process, in worker processes, or on a Ray cluster, as the plan says.

    Args:
        plan: The plan of a run.
        load: Function that loads the evaluated model. Other processes load it themselves.
        role_models: Models in other roles, such as a judge.
        update: Is called with the progress.
        announce: Receives lines for the user.
    """
    benchmarks = (selected.benchmark for selected in plan.benchmarks)
    announce_changed_answers(plan.folder, benchmarks, announce)
    _announce_fewer_samples(plan, announce)
    _announce_other_benchmarks(plan, announce)
    with noting_folder(plan):
        if plan.execution.ray:
            from snellen.runs.ray_cluster import run_on_ray

            return run_on_ray(plan, update, announce)
        if plan.execution.is_asked_elsewhere:
            return run_workers(plan, update)
        return run_plan(load(), plan, update, role_models.roles)


def _announce_fewer_samples(plan: RunPlan, announce: Announce) -> None:
    """Tell the user if a run is resumed with fewer samples of a benchmark than it had before."""
    if not (plan.folder / RUN_MANIFEST).exists():
        return
    earlier_selections = {use.name: use.selection for use in read_manifest(plan.folder).benchmarks}
    for use in plan.benchmarks:
        earlier = earlier_selections.get(use.benchmark.name, use.selection)
        if earlier == use.selection or earlier.part or use.selection.part:
            continue
        earlier_count = use.benchmark.count(earlier)
        count = use.benchmark.count(use.selection)
        if count < earlier_count:
            announce(
                f"{plan.folder}: an earlier call selected {earlier_count:,} samples of {use.benchmark.name}, this "
                f"one {count:,}; only these are scored, and replies to the others stay stored for later calls"
            )


def _announce_other_benchmarks(plan: RunPlan, announce: Announce) -> None:
    """Tell the user if a run has parts of other benchmarks from earlier calls, because its means include them."""
    if not (plan.folder / RUN_MANIFEST).exists():
        return
    present = {use.benchmark.name for use in plan.benchmarks}
    limited: list[str] = []
    for use in read_manifest(plan.folder).benchmarks:
        if use.name not in present and use.limit is not None and use.part is None:
            limited.append(f"{use.name} (first {use.limit:,})")
    if limited:
        announce(
            f"{plan.folder} also has questions of {', '.join(limited)} from earlier calls, and its means include them; "
            f"to keep runs apart, choose another name: {setting('name', f'{plan.folder.name}-2')}"
        )


@contextmanager
def noting_folder(plan: RunPlan) -> Iterator[None]:
    """Say where the replies are stored if the user interrupts the run, or if the user's own model fails."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if holds_answers(plan.folder):
            interruption.add_note(
                f"all replies so far are stored in {plan.folder}; repeat the call to resume"
            )
        raise
    except HookError as error:
        if holds_answers(plan.folder):
            again = for_caller("repeat the command", "repeat the call")
            changed = f"needs a new name: {setting('name', f'{plan.folder.name}-2')}"
            if plan.has_automatic_name:
                changed = "gets a folder of its own"
            error.args = (
                f"{error}; all replies so far are stored in {plan.folder}: {again} to resume (a model whose code has "
                f"changed {changed})",
            )
        raise


def score_plan(plan: RunPlan, announce: Announce) -> ScoredRun:
    """Score the stored replies of a plan as its spec says."""
    with locked_while_scoring(plan.folder):
        [scored] = score_runs(
            [plan.folder], plan.spec.scoring, plan.spec.judge, announce, is_asked_for=True
        )
    return scored
