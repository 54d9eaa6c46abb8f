"""Runs in rounds, in which another package chooses the next questions by the replies so far.

An example is the measurement of a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from snellen.building.benchmark import Benchmark, ChosenPart
from snellen.experiments.execution import LazyRoleModels, check_models, plan_scored_run
from snellen.experiments.run_rounds import RunRounds
from snellen.experiments.scored_folders import check_judging
from snellen.protocols.base import Protocol
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.forecast import forecast_requests
from snellen.runs.locks import locked_while_scoring
from snellen.runs.run_folder import RUN_MANIFEST, holds_answers, read_manifest
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.runner import RunOutcome
from snellen.runs.spec import RunSpec
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun


class AdaptiveRun:
    """The run of one model in rounds. Get it from `adaptive_runs`.

    Call `start` once, then `ask` with the questions of each round. Between rounds, `scores` scores
    the replies so far. At the end, call `score`.

    Attributes:
        spec: The run's settings.
        folder: The run's folder.
        benchmarks: The benchmarks of the run.
        model: The evaluated model. After `start` it is loaded, unless worker processes load it.
    """

    def __init__(
        self,
        spec: RunSpec,
        model: Any,
        role_models: LazyRoleModels,
        progress: ProgressListener,
        announce: Announce,
    ) -> None:
        """Plan the run of one model. No request is sent yet.

        Args:
            spec: The settings of the run.
            model: The evaluated model, a model string or an object.
            role_models: Models in other roles, such as a judge, loaded when first needed.
            progress: Receives the state of the run.
            announce: Receives lines for the user.
        """
        self._plan = plan_scored_run(spec, announce)
        self._role_models = role_models
        self._progress = progress
        self._announce = announce
        self._rounds: RunRounds[ChosenPart] | None = None
        self.spec = spec
        self.model = model
        self.folder: Path = self._plan.folder
        self.benchmarks: list[Benchmark] = [use.benchmark for use in self._plan.benchmarks]

    def protocols(self, benchmark: Benchmark) -> Sequence[Protocol]:
        """Return the protocols with which the questions of a benchmark are asked."""
        return self._plan.protocols_of(benchmark.spec)

    def earlier_parts(self) -> dict[str, ChosenPart]:
        """Return the questions that an earlier, interrupted call has chosen, by the name of the benchmark.

        {} if none of them was answered.
        """
        if not (self.folder / RUN_MANIFEST).exists() or not holds_answers(self.folder):
            return {}
        parts = {}
        for use in read_manifest(self.folder).benchmarks:
            if isinstance(use.part, ChosenPart):
                parts[use.name] = use.part
        return parts

    def forecast(self, most: Mapping[str, ChosenPart]) -> list[str]:
        """Return lines that estimate the requests for some questions. No request is sent.

        Args:
            most: The questions, by the name of the benchmark.
        """
        forecast = forecast_requests(self._plan.with_parts(most, {}))
        return list(forecast.lines(self.spec.execution.price))

    def start(self, parts: Mapping[str, ChosenPart], most: Mapping[str, ChosenPart]) -> None:
        """Load the model, and prepare the first round.

        Args:
            parts: Questions that were asked before, by the name of the benchmark. They are not
                asked again.
            most: The largest set of questions that all rounds together can ask, from which the
                shown progress is computed.
        """
        self._rounds = RunRounds(
            self._plan, parts, self.model, self._role_models, self._progress, most
        )
        self.model = self._rounds.model

    def ask(self, parts: Mapping[str, ChosenPart]) -> None:
        """Ask those questions of `parts` that no earlier round has asked.

        Args:
            parts: By the name of the benchmark, the questions of all rounds including this one.

        Raises:
            SpentBudgetError: A limit on requests, cost or time was reached.
        """
        self._started.ask(parts, self._announce)

    def hold(self) -> AbstractContextManager[None]:
        """Return a context manager that locks the run's folder, so that viewers see that the run continues.

        It is used between two rounds.
        """
        return locked_while_scoring(self.folder)

    def scores(self) -> ScoredRun:
        """Return the scores of the replies so far, by rules alone. No judge model is called."""
        return score_run(self.folder, self.spec.scoring)

    def score(self) -> ScoredRun:
        """Return the scores of the replies of all rounds, with judges if the settings name any."""
        return self._started.score(self._announce)

    @property
    def outcome(self) -> RunOutcome:
        """What all rounds together have done, such as the number of requests that were answered or failed."""
        return self._started.outcome

    @property
    def _started(self) -> RunRounds[ChosenPart]:
        if self._rounds is None:
            raise RuntimeError("call start() before the first round")
        return self._rounds


def adaptive_runs(
    spec: RunSpec,
    models: Sequence[Any] | None = None,
    *,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
) -> Iterator[AdaptiveRun]:
    """Yield, for each model of some settings, a run whose questions are chosen round by round.

    All models and judges are checked first. A run is planned when the iteration reaches it, and no request is sent
    before `AdaptiveRun.ask` is called.

    Args:
        spec: The settings of one or several runs.
        models: The evaluated models, strings or objects; by default those of the settings.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Raises:
        SnellenError: The settings or a model are wrong.

    Examples:
        >>> from snellen.plugin_api import run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "report": False}
        >>> [run] = adaptive_runs(run_spec(fields))
        >>> [benchmark.name for benchmark in run.benchmarks]
        ['eyechart/colour']
    """
    evaluated = list(models or spec.question.models)
    models_by_role = dict(spec.question.roles)
    checked_spec = check_models(spec, evaluated, models_by_role)
    check_judging(spec.scoring, spec.judge)
    role_models = LazyRoleModels(models_by_role)
    for index, model in enumerate(evaluated):
        model_spec = checked_spec.for_model(index, checked_spec.question.models[index])
        yield AdaptiveRun(model_spec, model, role_models, progress, announce)
