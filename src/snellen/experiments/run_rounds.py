"""Run benchmarks in rounds, each of which asks more samples, until a rule is met."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from snellen.analysis.sequential import open_by_width, sequential_estimates
from snellen.analysis.stopping_rules import StoppingRule
from snellen.building.benchmark import QuestionPart, RandomPart
from snellen.callers import setting
from snellen.errors import DataError
from snellen.experiments.execution import LazyRoleModels, execute, score_plan
from snellen.experiments.outcome_checks import check_spent
from snellen.runs.drivers import NO_BUDGET_USED, BudgetUse
from snellen.runs.driving import load_evaluated
from snellen.runs.finding import Announce
from snellen.runs.locks import locked_run
from snellen.runs.plan import RunPlan
from snellen.runs.rounds import next_parts
from snellen.runs.run_folder import BenchmarkUse, read_manifest, write_manifest
from snellen.runs.run_progress import ProgressListener, progress_of
from snellen.runs.runner import RunOutcome, summed_outcome
from snellen.scoring.scored_run import ScoredRun

PartT = TypeVar("PartT", bound=QuestionPart)


class RunRounds(Generic[PartT]):
    """A run in rounds. The model is loaded once, except by worker processes, which load it each round.

    Args:
        plan: The complete run.
        parts: Parts of the benchmarks that were asked before the first round.
        model: The evaluated model, a model string or an object.
        role_models: Models in other roles.
        progress: Receives the state of the run.
        most: Parts of the benchmarks that all rounds together ask at most, if not the complete benchmarks.
    """

    def __init__(
        self,
        plan: RunPlan,
        parts: Mapping[str, PartT],
        model: Any,
        role_models: LazyRoleModels,
        progress: ProgressListener,
        most: Mapping[str, QuestionPart] | None = None,
    ) -> None:
        """Prepare a run that evaluates its benchmarks part by part, and load its model.

        If other processes send the requests, they load the model.

        Args:
            plan: The plan of the run.
            parts: The part of each benchmark that was run so far, by its name.
            model: The evaluated model, a model string or an object.
            role_models: Models in other roles, such as a judge.
            progress: Receives the state of the run.
            most: The largest part of each benchmark that the run may reach, for the progress.
        """
        self.plan = plan
        self.parts = parts
        """Parts of the benchmarks that were asked until now."""
        self.model = model
        if not plan.execution.is_asked_elsewhere:
            self.model = load_evaluated(model, role_models.models, role_models.roles)
        self._role_models = role_models
        self._update = progress_of(plan.with_parts(most or {}, {}), progress)
        self._outcomes: list[RunOutcome] = []
        self._began = time.monotonic()

    def ask(self, parts: Mapping[str, PartT], announce: Announce) -> None:
        """Run the samples of some parts of the benchmarks, except those that earlier rounds have run.

        Args:
            parts: The part of each benchmark, by its name.
            announce: Receives lines for the user.

        Raises:
            SpentBudgetError: As `carry_out`.
        """
        earlier_parts = self.parts
        self.parts = parts
        plan = self.plan.with_parts(parts, earlier_parts)
        plan = replace(plan, budget_used=self._taken())
        outcome = execute(plan, lambda: self.model, self._role_models, self._update, announce)
        self._outcomes.append(outcome)
        check_spent(self.outcome)

    def score(self, announce: Announce) -> ScoredRun:
        """Score the replies of all rounds."""
        return score_plan(self.plan, announce)

    def settle(self: RunRounds[RandomPart], decided: Collection[str]) -> None:
        """Record in the manifest of the run that the comparison with another model is finished.

        Args:
            decided: The benchmarks on which it is decided which model is better, or all images were evaluated.
        """
        settled: dict[str, RandomPart] = {}
        for name, part in self.parts.items():
            awaits_verdict = part.awaits_verdict and name not in decided
            settled[name] = replace(part, awaits_verdict=awaits_verdict)
        self.parts = settled
        with locked_run(self.plan.folder):
            manifest = read_manifest(self.plan.folder)
            uses: list[BenchmarkUse] = []
            for use in manifest.benchmarks:
                settled_part = settled.get(use.name, use.part)
                uses.append(replace(use, part=settled_part))
            write_manifest(self.plan.folder, replace(manifest, benchmarks=tuple(uses)))

    @property
    def outcome(self) -> RunOutcome:
        """The outcome of all rounds together."""
        return summed_outcome(self._outcomes)

    @property
    def unfinished(self) -> list[str]:
        """Benchmarks that have samples left to ask."""
        return [name for name, part in self.parts.items() if not part.is_whole]

    def _taken(self) -> BudgetUse:
        """Return how much of this session's budget earlier rounds have used: requests, cost and seconds."""
        if not self._outcomes:
            return NO_BUDGET_USED
        seconds = time.monotonic() - self._began
        return BudgetUse(self.outcome.sent, self.outcome.paid, seconds)


def run_round(
    rounds: RunRounds[RandomPart], open_benchmarks: Sequence[str], announce: Announce
) -> ScoredRun:
    """Evaluate more images of the benchmarks that are not decided yet, and score everything evaluated so far.

    Raises:
        SpentBudgetError: As `carry_out`.
    """
    reloads = rounds.plan.execution.is_asked_elsewhere
    parts = next_parts(rounds.parts, open_benchmarks, reloads=reloads)
    rounds.ask(parts, announce)
    return rounds.score(announce)


def run_until(
    rule: StoppingRule, rounds: RunRounds[RandomPart], announce: Announce
) -> tuple[RunOutcome, ScoredRun]:
    """Run rounds until each benchmark's mean is as precise as a rule says, or the benchmark is complete.

    Raises:
        DataError: The metric of the rule does not exist for a benchmark.
        SpentBudgetError: As `carry_out`.
    """
    open_benchmarks = list(rounds.parts)
    while True:
        scored = run_round(rounds, open_benchmarks, announce)
        estimated = {estimate.benchmark for estimate in sequential_estimates(scored)}
        without_estimate = rounds.parts.keys() - estimated
        if without_estimate:
            raise DataError(
                f"{min(without_estimate)} has no {rule.metric} under the protocols of this run, so this rule "
                f"cannot stop it; use one of its metrics with {setting('until')}, or remove the benchmark"
            )
        # An earlier session of the run may have left other benchmarks open.
        open_benchmarks = [name for name in open_by_width(scored) if name in rounds.parts]
        if not open_benchmarks:
            return rounds.outcome, scored
