"""Run benchmarks in rounds, each of which evaluates more samples, until a stopping rule is satisfied."""

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
    """A run in rounds. The model is loaded once; but worker processes load it in each round.

    Args:
        plan: The plan of the complete run.
        parts: By the name of a benchmark, the part of it that was evaluated before the first round.
        model: The evaluated model, a model string or an object.
        role_models: Models in other roles, such as a judge.
        progress: Receives the state of the run.
        most: By the name of a benchmark, the largest part that all rounds together can evaluate. By
            default the complete benchmarks.
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
        """By the name of a benchmark, the part of it that was evaluated so far."""
        self.model = model
        if not plan.execution.is_asked_elsewhere:
            self.model = load_evaluated(model, role_models.models, role_models.roles)
        self._role_models = role_models
        self._update = progress_of(plan.with_parts(most or {}, {}), progress)
        self._outcomes: list[RunOutcome] = []
        self._began = time.monotonic()

    def ask(self, parts: Mapping[str, PartT], announce: Announce) -> None:
        """Evaluate those samples of `parts` that earlier rounds have not evaluated.

        Args:
            parts: By the name of a benchmark, the part of it to be evaluated after this round.
            announce: Receives lines for the user.

        Raises:
            SpentBudgetError: A limit on requests, cost or time was reached.
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
        """Record in the manifest for which benchmarks the comparison with another model is finished.

        Args:
            decided: The names of these benchmarks: it is decided which model is better, or all
                images were evaluated.
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
        """Names of the benchmarks that still have samples to evaluate."""
        return [name for name, part in self.parts.items() if not part.is_whole]

    def _taken(self) -> BudgetUse:
        """Return the requests, the cost and the seconds that the rounds of this session have used so far."""
        if not self._outcomes:
            return NO_BUDGET_USED
        seconds = time.monotonic() - self._began
        return BudgetUse(self.outcome.sent, self.outcome.paid, seconds)


def run_round(
    rounds: RunRounds[RandomPart], open_benchmarks: Sequence[str], announce: Announce
) -> ScoredRun:
    """Evaluate more images of the benchmarks that are not decided yet, and score all replies so far.

    Args:
        rounds: The run.
        open_benchmarks: Names of the benchmarks of which more images are needed.
        announce: Receives lines for the user.

    Raises:
        SpentBudgetError: A limit on requests, cost or time was reached.
    """
    reloads = rounds.plan.execution.is_asked_elsewhere
    parts = next_parts(rounds.parts, open_benchmarks, reloads=reloads)
    rounds.ask(parts, announce)
    return rounds.score(announce)


def run_until(
    rule: StoppingRule, rounds: RunRounds[RandomPart], announce: Announce
) -> tuple[RunOutcome, ScoredRun]:
    """Evaluate more and more of each benchmark, until its mean is as precise as the rule says or nothing is left.

    Args:
        rule: The rule that stops a benchmark, with a metric and the width of its confidence
            interval.
        rounds: The run.
        announce: Receives lines for the user.

    Returns:
        What all rounds have done, and the scored run.

    Raises:
        DataError: A benchmark does not have the metric of the rule.
        SpentBudgetError: A limit on requests, cost or time was reached.
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
