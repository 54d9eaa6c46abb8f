"""From a spec to scored runs: planned, asked, scored, reported. `evaluate()` and `snellen run` are doors to this.

Two models are asked the same pictures, in a random order, until it is decided which is better on each benchmark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import results_of
from snellen.analysis.headline import headline_metric
from snellen.analysis.sequential import (
    SequentialDifference,
    StoppingRule,
    bounded_row,
    decision_rule,
    margin_in_unit,
    open_by_width,
    sequential_differences,
    sequential_estimates,
    width_rule,
)
from snellen.building.benchmark import Part, RandomPart
from snellen.common.paths import as_word
from snellen.errors import (
    AbsentBenchmarkError,
    DataError,
    ErrorBudgetError,
    ModelError,
    SpentBudgetError,
)
from snellen.experiments.scored_folders import announce_changed_answers, check_judging, score_runs
from snellen.models.base import (
    AsyncModel,
    Model,
    check_opener,
    find_opener,
    identity_of,
    load_model,
    parse_spec,
    refuse_secrets,
)
from snellen.registry import find, targets
from snellen.runs.drivers import NOTHING_TAKEN, BudgetTaken, ProgressCallback
from snellen.runs.driving import Roles, load_evaluated, load_roles
from snellen.runs.finding import AbsentBenchmark, Announce, silent
from snellen.runs.forecast import forecast
from snellen.runs.locks import held_while_scored, is_read_only, locked_run, locked_share
from snellen.runs.plan import RunPlan, plan_run, with_parts
from snellen.runs.resuming import choose_folder, with_name_by_fingerprint
from snellen.runs.rounds import empty_parts, next_parts
from snellen.runs.run_folder import RUN_MANIFEST, holds_answers, read_manifest, write_manifest
from snellen.runs.run_progress import ProgressListener, ignore_progress, progress_of
from snellen.runs.runner import RunOutcome, run_plan, summed_outcome
from snellen.runs.spec import ExecutionSpec, RunSpec, check_sharing, role_models, share_of_run
from snellen.runs.workers import run_workers
from snellen.scoring.run_scoring import check_scoring_of
from snellen.scoring.scored_run import ScoredRun, cut_reply_sentences, empty_reply_sentences

REPORT, LONGEST_NAME = "report.html", 100


class FinishedRun(Struct, frozen=True):
    """A run that was carried to its end and scored."""

    outcome: RunOutcome
    scored: ScoredRun
    absent: tuple[AbsentBenchmark, ...] = ()
    """The benchmarks that could not be fetched, and were left out."""


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
    evaluated_models, played = models or spec.question.models, roles or dict(spec.question.roles)
    named_spec = check_models(spec, evaluated_models, played)
    check_judging(spec.scoring, spec.judge)
    if spec.execution.until:
        width_rule(spec.execution.until)
    cast = Cast(played)
    return [
        _evaluate_one(
            named_spec.for_model(number, named_spec.question.models[number]),
            model,
            cast,
            progress,
            announce,
        )
        for number, model in enumerate(evaluated_models)
    ]


def planned(
    spec: RunSpec, announce: Announce = silent, absent: list[AbsentBenchmark] | None = None
) -> RunPlan:
    """What `plan_run` gives, once all that its replies will be read and scored by was found and imported: whoever pays
    for replies is told before. Raises SnellenError."""
    plan = plan_run(spec, announce, absent)
    for use in plan.benchmarks:
        check_scoring_of(use.benchmark.spec, spec.scoring)
    return plan


def check_models(spec: RunSpec, models: Sequence[Any], roles: Mapping[str, Any]) -> RunSpec:
    """The spec with the names of the models, which may be objects. Raises SnellenError for what is not a model string,
    and for an object that several workers cannot share."""
    check_sharing(spec.execution)
    for model in (*models, *roles.values()):
        _check_model(model, spec.execution)
    return spec.with_question(
        models=tuple(_name_of(model) for model in models),
        roles=role_models({role: _name_of(model) for role, model in roles.items()}),
    )


def ask_share(
    spec: RunSpec,
    share: str,
    *,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> list[RunOutcome]:
    """Ask each model what share `K/N` of a spec's pictures holds, and score nothing; an outcome for each.

    The processes of the other shares may run on other machines, if all see the same folder of runs. Raises DataError
    for what is not a share, or cannot be done in shares, and SnellenError as `evaluate_spec`.
    """
    number, shares = share_of_run(share)
    execution, question = spec.execution, spec.question
    if execution.is_asked_elsewhere or execution.until:
        conflicting = "until" if execution.until else "ray" if execution.ray else "workers"
        raise DataError(
            f"share: this is one process of several that share a whole run; leave {conflicting} out"
        )
    roles = dict(question.roles)
    check_models(spec, question.models, roles)
    cast, outcomes = Cast(roles), list[RunOutcome]()
    for place, model in enumerate(question.models):
        plan = planned(spec.for_model(place, model), announce)  # shares must all ask the same
        own_plan = replace(plan, spec=plan.spec.with_execution(workers=shares), worker=number - 1)
        evaluated = load_evaluated(model, cast.models, cast.roles)
        own_plan = choose_folder(own_plan, evaluated, cast.roles, announce)
        # A share that is the whole run is held by its runner.
        with (
            _noting_folder(own_plan),
            locked_share(own_plan.folder, shares) if shares > 1 else nullcontext(),
        ):
            outcomes.append(
                run_plan(
                    evaluated, own_plan, progress_of(own_plan, progress, of_worker=True), cast.roles
                )
            )
    for outcome in outcomes:
        for finding in outcome.findings:  # the manifest is written by the first share alone
            announce(f"share {share}: {finding}")
        _check_spent(outcome)
    return outcomes


def forecasts(spec: RunSpec, announce: Announce = silent) -> list[str]:
    """What `evaluate_spec` would ask each model, in lines for a reader; nothing is asked and no model is loaded."""
    return [
        line
        for number, name in enumerate(spec.question.models)
        for line in forecast(planned(spec.for_model(number, name), announce, [])).lines(
            spec.execution.price
        )
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


def check_model_string(model: str) -> None:
    """Raise SnellenError for what cannot name a model, as far as that shows without running a model's own code."""
    spec = parse_spec(model)
    check_opener(spec)
    if "://" in spec.target or spec.options.keys() & {"api_key", "extra_body"}:
        refuse_secrets(spec)
    if spec.scheme in targets("model_checks"):
        find("model_checks", spec.scheme)(spec)


def _check_model(model: Any, execution: ExecutionSpec) -> None:
    if isinstance(model, str):
        check_model_string(model)
        find_opener(parse_spec(model))
    elif execution.is_asked_elsewhere:
        workers = f"{execution.workers} workers"
        who, way = (
            ("workers on a cluster", "ray out") if execution.ray else (workers, "workers at 1")
        )
        raise ModelError(
            f"{load_model(model).name} is an object of this process, which {who} cannot share; "
            f"name it by a model string, or leave {way}"
        )


def _evaluate_one(
    spec: RunSpec,
    model: Any,
    cast: Cast,
    progress: ProgressListener,
    announce: Callable[[str], object],
) -> FinishedRun:
    absent: list[AbsentBenchmark] = []
    plan, execution = planned(spec, announce, absent), spec.execution
    if isinstance(model, str):
        announce(f"loading {model}")
    model, plan = _in_own_folder(model, plan, cast, announce)
    if execution.until:
        rules = {use.benchmark.name: execution.until for use in plan.benchmarks}
        rounds = Rounds(plan, empty_parts(plan, rules), model, cast, progress)
        outcome, scored = _ask_until(width_rule(execution.until), rounds, announce)
    else:
        outcome = carry_out(plan, model, cast, progress, announce)
        scored = _scored(plan, announce)
    for sentence in (*cut_reply_sentences(scored), *empty_reply_sentences(scored)):
        announce(sentence)
    for use in scored.roles:
        announce(use.sentence(execution.price))
    if execution.report:
        announce(f"report: {report_on(scored)}")
    return FinishedRun(outcome, scored, tuple(absent))


def _in_own_folder(
    model: Any, plan: RunPlan, cast: Cast, announce: Announce
) -> tuple[Any, RunPlan]:
    """Load the evaluated model, and choose the folder of its run by who it is.

    Where other processes load the model, both are returned as they are."""
    if plan.execution.is_asked_elsewhere or not plan.has_automatic_name:
        return model, plan
    loaded = load_evaluated(model, cast.models, cast.roles)
    return loaded, choose_folder(plan, loaded, cast.roles, announce)


def carry_out(
    plan: RunPlan, model: Any, cast: Cast, progress: ProgressListener, announce: Announce = silent
) -> RunOutcome:
    """Ask a model, a string or an object, what a plan says and is not answered yet. An interruption (KeyboardInterrupt)
    gets a note that says where the answers are. Raises SpentBudgetError where a budget was spent before the end."""
    load = partial(load_evaluated, model, cast.models, cast.roles)
    outcome = _ask(plan, load, cast, progress_of(plan, progress), announce)
    _check_spent(outcome)
    return outcome


def _scored(plan: RunPlan, announce: Announce) -> ScoredRun:
    """What was asked by a plan, scored as its spec says."""
    with held_while_scored(plan.folder):
        [scored] = score_runs([plan.folder], plan.spec.scoring, plan.spec.judge, announce)
    return scored


def _ask(
    plan: RunPlan,
    load: Callable[[], Model | AsyncModel],
    cast: Cast,
    update: ProgressCallback,
    announce: Announce,
) -> RunOutcome:
    """Ask in this process, or through the processes that the spec names, which load the models themselves."""
    announce_changed_answers(
        plan.folder, (selected.benchmark for selected in plan.benchmarks), announce
    )
    _announce_fewer_questions(plan, announce)
    with _noting_folder(plan):
        if not plan.execution.is_asked_elsewhere:
            return run_plan(load(), plan, update, cast.roles)
        if not plan.execution.ray:
            return run_workers(plan, update)
        from snellen.runs.ray_cluster import run_on_ray

        return run_on_ray(plan, update, announce)


def _announce_fewer_questions(plan: RunPlan, announce: Announce) -> None:
    """Say of each benchmark that fewer questions are scored than earlier calls of this run chose."""
    if not (plan.folder / RUN_MANIFEST).exists():
        return
    earlier = {use.name: use.selection for use in read_manifest(plan.folder).benchmarks}
    for use in plan.benchmarks:
        before = earlier.get(use.benchmark.name, use.selection)
        if before == use.selection or before.part or use.selection.part:
            continue
        chosen, now = use.benchmark.count(before), use.benchmark.count(use.selection)
        if now < chosen:
            announce(
                f"{plan.folder}: an earlier call chose {chosen:,} samples of {use.benchmark.name}, this one {now:,}; "
                "these alone are scored, answers to the others are kept for a call that chooses them again"
            )


@contextmanager
def _noting_folder(plan: RunPlan) -> Iterator[None]:
    """An interruption gets a note that says where the answers are."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if holds_answers(plan.folder):
            stopped.add_note(f"all answers so far are kept in {plan.folder}; the same call goes on")
        raise


def _check_spent(outcome: RunOutcome) -> None:
    if outcome.spent:
        folder = outcome.folder
        cost = f" for {outcome.paid:.3g} at the price given" if outcome.paid else ""
        answered = f"{sum(outcome.answered.values()):,} requests were answered now{cost}"
        raise SpentBudgetError(
            f"stopped at {outcome.spent}: {answered}, all answers are kept in {folder}; the same command goes on, "
            f"`snellen score {as_word(folder)}` scores what is there"
        )


PartT = TypeVar("PartT", bound=Part)


class Rounds(Generic[PartT]):
    """A run that asks more of its benchmarks round by round. Its model is loaded once, but for workers, here or on a
    cluster."""

    def __init__(
        self,
        plan: RunPlan,
        parts: Mapping[str, PartT],
        model: Any,
        cast: Cast,
        progress: ProgressListener,
        most: Mapping[str, Part] | None = None,
    ) -> None:
        """`most` is what all rounds together ask at most, where that is less than the whole of the benchmarks."""
        self.plan, self._cast = plan, cast
        self._update = progress_of(with_parts(plan, most or {}, {}), progress)
        self.model = (
            model
            if plan.execution.is_asked_elsewhere
            else load_evaluated(model, cast.models, cast.roles)
        )
        self.parts = parts
        """What was asked so far."""
        self._outcomes: list[RunOutcome] = []
        self._began = time.monotonic()

    def ask(self, parts: Mapping[str, PartT], announce: Announce) -> None:
        """Ask what these parts have that was not asked before. Raises SpentBudgetError as `carry_out`."""
        before, self.parts = self.parts, parts
        plan = replace(with_parts(self.plan, self.parts, before), taken=self._taken())
        self._outcomes.append(_ask(plan, lambda: self.model, self._cast, self._update, announce))
        _check_spent(self.outcome)

    def score(self, announce: Announce) -> ScoredRun:
        """All that was asked, scored."""
        return _scored(self.plan, announce)

    def settle(self: Rounds[RandomPart], decided: Collection[str]) -> None:
        """Note in the run that it is known which model is better on these benchmarks, or all of them was asked."""
        self.parts = {
            name: replace(part, awaits_verdict=part.awaits_verdict and name not in decided)
            for name, part in self.parts.items()
        }
        with locked_run(self.plan.folder):
            manifest = read_manifest(self.plan.folder)
            uses = tuple(
                replace(use, part=self.parts.get(use.name, use.part)) for use in manifest.benchmarks
            )
            write_manifest(self.plan.folder, replace(manifest, benchmarks=uses))

    @property
    def outcome(self) -> RunOutcome:
        """What all rounds did together."""
        return summed_outcome(self._outcomes)

    def _taken(self) -> BudgetTaken:
        """What the rounds before took of this call's budget."""
        if not self._outcomes:
            return NOTHING_TAKEN
        return BudgetTaken(self.outcome.sent, self.outcome.paid, time.monotonic() - self._began)

    @property
    def unfinished(self) -> list[str]:
        """The benchmarks of which something is left to ask."""
        return [name for name, part in self.parts.items() if not part.is_whole]


def ask_more(
    rounds: Rounds[RandomPart], open_benchmarks: Sequence[str], announce: Announce
) -> ScoredRun:
    """Ask more pictures of these benchmarks, and score all that was asked. Raises SpentBudgetError as `carry_out`."""
    reloads = rounds.plan.spec.execution.is_asked_elsewhere
    rounds.ask(next_parts(rounds.parts, open_benchmarks, reloads=reloads), announce)
    return rounds.score(announce)


def _ask_until(
    rule: StoppingRule, rounds: Rounds[RandomPart], announce: Announce
) -> tuple[RunOutcome, ScoredRun]:
    """Ask until the mean of each benchmark is known as well as the rule says, or all of it is asked. Raises DataError
    for a benchmark that the rule's metric is not computed on."""
    open_benchmarks = list(rounds.parts)
    while True:
        scored = ask_more(rounds, open_benchmarks, announce)
        estimates = sequential_estimates(scored)
        if without := rounds.parts.keys() - {estimate.benchmark for estimate in estimates}:
            raise DataError(
                f"{min(without)} has no {rule.metric} by the protocols of this run, which could stop it; name one "
                "of its metrics with --until, or leave it out"
            )
        open_benchmarks = open_by_width(scored)
        if not open_benchmarks:
            return rounds.outcome, scored


def report_on(scored: ScoredRun) -> Path:
    """Write a run's own report to its place."""
    from snellen.report.page import write_report

    return write_report([scored], results_of(scored), report_path([scored]))


def report_path(runs: Sequence[ScoredRun]) -> Path:
    """Where a report lies unless said otherwise: of one run beside its scores, else, as of a run that cannot be
    written, in the working directory under the names of the runs."""
    kept_folder = runs[0].kept_in if len(runs) == 1 else None
    if kept_folder is None or is_read_only(kept_folder):
        return Path(report_name([run.folder.name for run in runs]))
    return kept_folder / REPORT


def report_name(runs: Sequence[str]) -> str:
    """`report-of-a-and-b.html`; of many runs, or with long names, how many."""
    name = f"report-of-{'-and-'.join(runs)}.html"
    return name if len(name) <= LONGEST_NAME else f"report-of-{len(runs)}-runs.html"


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


def check_finished(finished: Sequence[FinishedRun], budget: float) -> None:
    """Raise what is to be said at the end of a call, when all that could be asked was asked and scored.

    Raises:
        ErrorBudgetError: Too large a share of a run's requests failed.
        AbsentBenchmarkError: Benchmarks could not be fetched.
    """
    for run in finished:
        check_budget(run.outcome, budget)
    absent = {benchmark.name: benchmark.fault for run in finished for benchmark in run.absent}
    if absent:
        names = ", ".join(absent)
        first = next(iter(absent.values()))
        raise AbsentBenchmarkError(
            f"left out: {names}; {first}; the same command asks what was left out once it can be fetched, and --strict "
            "(strict=True) stops before anything is asked"
        )


def _main_reasons(outcome: RunOutcome, most: int = 3) -> str:
    """The most frequent reasons of failures, each with its count where there are several."""
    first = sorted(outcome.reasons.items(), key=lambda item: -item[1])
    if len(first) == 1:
        return first[0][0]
    more = f", and {len(first) - most} other reasons" if len(first) > most else ""
    return ", ".join(f"{count} x {reason}" for reason, count in first[:most]) + more


# --- two models until one is better ----------------------------------------------------------------------------------


FLAG = "--sequential"


class DecidedComparison(Struct, frozen=True):
    """What was decided, and the two runs, whose folders a later run of the same goes on with."""

    differences: tuple[SequentialDifference, ...]
    runs: tuple[ScoredRun, ScoredRun]
    outcomes: tuple[RunOutcome, RunOutcome]


def decide_between(
    spec: RunSpec,
    models: Sequence[Any],
    *,
    metric: str = "",
    equivalent: float = 0.0,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> DecidedComparison:
    """Ask two models what a spec says, picture by picture, until each benchmark is decided by a metric.

    `metric` is a mean of bounded values, by default each benchmark's headline; `equivalent` the greatest difference
    that does not matter, in percentage points for a share, or 0. A benchmark is decided when the anytime-valid interval
    of the difference leaves out 0, or lies within what does not matter; else all of it is asked. Raises SnellenError.
    """
    if len(models) != 2:
        raise DataError(
            f"{FLAG} compares two models, not {len(models)}: MODEL_A MODEL_B BENCHMARK..."
        )
    if until := spec.execution.until:
        raise DataError(
            f"{FLAG} stops when it is decided who is better; leave until = {until!r} out"
        )
    roles = dict(spec.question.roles)
    named_spec, cast = check_models(spec, models, roles), Cast(roles)
    check_judging(spec.scoring, spec.judge)
    rounds: list[Rounds[RandomPart]] = []
    rivals: list[Any] = []
    for number, model in enumerate(models):
        model_spec = named_spec.for_model(number, named_spec.question.models[number])
        plan = planned(model_spec, announce if not number else silent)
        model, plan = _in_own_folder(model, plan, cast, announce)
        rivals.append(model)
        if len(rivals) == 2 and plan.folder == rounds[0].plan.folder:
            plan = _apart_from(plan, rivals, cast)
        rules = {
            use.benchmark.name: decision_rule(metric or headline_metric(use.benchmark.spec))
            for use in plan.benchmarks
        }
        parts = {
            name: replace(part, awaits_verdict=True)
            for name, part in empty_parts(plan, rules).items()
        }
        rounds.append(Rounds(plan, parts, model, cast, progress))
    if rounds[0].plan.folder == rounds[1].plan.folder:
        raise DataError(
            f"{FLAG}: both models are {named_spec.question.models[0]}; name two that differ"
        )
    first, second = rounds
    margins = {
        name: _margin(part.rule.partition(" ")[0], equivalent) for name, part in first.parts.items()
    }
    open_benchmarks = list(first.parts)
    while True:
        runs = (
            ask_more(first, open_benchmarks, announce),
            ask_more(second, open_benchmarks, announce),
        )
        differences = sequential_differences(*runs, margins)
        if without := first.parts.keys() - {difference.benchmark for difference in differences}:
            raise DataError(
                f"{min(without)}: the two runs have no protocol with the metric in common; name another"
            )
        undecided = {
            difference.benchmark for difference in differences if difference.verdict == "undecided"
        }
        open_benchmarks = [name for name in first.unfinished if name in undecided]
        for of_model in rounds:
            of_model.settle(first.parts.keys() - set(open_benchmarks))
        if not open_benchmarks:
            runs = (
                first.score(announce),
                second.score(announce),
            )  # they have come to their end by now
            decided = tuple(
                replace(difference, part=first.parts[difference.benchmark])
                for difference in differences
            )
            return DecidedComparison(decided, runs, (first.outcome, second.outcome))


def _apart_from(plan: RunPlan, rivals: Sequence[Any], cast: Cast) -> RunPlan:
    """Return the plan of the second of two models of one string with a folder of its own, if they are two."""
    if isinstance(rivals[0], str) or not plan.has_automatic_name:
        return plan
    first, second = (identity_of(rival) for rival in rivals)
    return plan if first == second else with_name_by_fingerprint(plan, rivals[1], cast.roles)


def _margin(metric: str, equivalent: float) -> float:
    row = bounded_row(metric, FLAG)
    return margin_in_unit(row, equivalent, f"--equivalent {equivalent:g}") if equivalent else 0.0
