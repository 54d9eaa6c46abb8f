"""Run the same models several times with different settings, loading each model once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import ModelError
from snellen.experiments.execution import LazyRoleModels, carry_out, plan_scored_run
from snellen.experiments.scored_folders import check_judging, score_folders
from snellen.models.loading import load_model
from snellen.records import RequestKind
from snellen.runs.finding import Announce, announce_nothing
from snellen.runs.plan import RunPlan
from snellen.runs.run_folder import RUN_MANIFEST
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.runner import RunOutcome
from snellen.runs.spec import JudgeSpec, RunSpec, ScoringSpec, check_sharing
from snellen.scoring.scored_run import ScoredRun


class NotAsked(Struct, frozen=True):
    """A run that a model cannot do, and why."""

    reason: str


class SuccessiveRuns:
    """Runs models one run after the other, and scores all runs at the end.

    Replies that another run in the same folder has are reused. A model named by a string stays loaded until another
    model is used.

    Args:
        scoring: How replies are scored.
        judge: Judges of replies.
        progress: Receives the state of each run.
        announce: Receives lines for the user.

    Raises:
        SnellenError: The scoring needs a judge, or a judge has no use.

    Examples:
        >>> from snellen.plugin_api import run_spec
        >>> runs = SuccessiveRuns(sn.ScoringSpec(), sn.JudgeSpec())
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4, "report": False}
        >>> outcome = runs.ask("snellen:oracle", run_spec(fields))
        >>> [scored] = runs.score([outcome.folder])
        >>> scored.manifest.model
        'snellen:oracle'
    """

    def __init__(
        self,
        scoring: ScoringSpec,
        judge: JudgeSpec,
        progress: ProgressListener = ignore_progress,
        announce: Announce = announce_nothing,
    ) -> None:
        """Prepare to run models several times. No model is loaded yet.

        Args:
            scoring: The scoring settings of all runs.
            judge: The judge settings of all runs.
            progress: Receives the state of each run.
            announce: Receives lines for the user.
        """
        check_judging(scoring, judge)
        self._scoring = scoring
        self._judge = judge
        self._progress = progress
        self._announce = announce
        self._loaded_name = ""
        self._loaded_model: Any = None
        self._kinds: dict[str, frozenset[RequestKind]] = {}

    def ask(self, model: Any, spec: RunSpec) -> RunOutcome | NotAsked:
        """Run a model: send the requests of a run that have no reply yet.

        Args:
            model: A model string, or an object.
            spec: The settings of the run. Their model is replaced by the name of `model`.

        Returns:
            The outcome, or why the model cannot be run: it may, for example, not generate text.
        """
        check_sharing(spec.execution)
        loaded_or_name = self._opened(model, spec)
        if isinstance(loaded_or_name, str):
            name = loaded_or_name
        else:
            name = load_model(loaded_or_name).name
        plan = plan_scored_run(spec.with_question(models=(name,)).of_model(), self._announce)
        reason = _why_model_cannot(name, self._kinds_of(loaded_or_name), plan)
        if reason:
            self._announce(f"left out: {reason}")
            return NotAsked(reason)
        plan = replace(plan, reusable_runs=tuple(_other_runs(plan.folder)))
        role_models = LazyRoleModels(dict(plan.question.roles))
        return carry_out(plan, loaded_or_name, role_models, self._progress, self._announce)

    def score(self, folders: Sequence[Path]) -> list[ScoredRun]:
        """Score runs."""
        return score_folders(folders, self._scoring, self._judge, self._announce, is_asked_for=True)

    def _opened(self, model: Any, spec: RunSpec) -> Any:
        """Return the loaded model, or its string if worker processes load it."""
        if spec.execution.is_asked_elsewhere:
            if isinstance(model, str):
                return model
            raise ModelError(
                "an object of this process cannot be shared by workers; name it by a model string"
            )
        if not isinstance(model, str):
            return model
        if self._loaded_name != model:
            # The memory of the last model is free before the next one is loaded.
            self._loaded_name = ""
            self._loaded_model = None
            self._loaded_model = load_model(model)
            self._loaded_name = model
        return self._loaded_model

    def _kinds_of(self, opened: Any) -> frozenset[RequestKind]:
        """Return which kinds of requests a model can answer: generation, log-likelihoods or both.

        Args:
            opened: A loaded model; or a model string if worker processes are to load the model. Then it is loaded here
                only to find out, and the answer is remembered.
        """
        if not isinstance(opened, str):
            return load_model(opened).kinds
        if opened not in self._kinds:
            self._kinds[opened] = load_model(opened).kinds
        return self._kinds[opened]


def _why_model_cannot(name: str, kinds: frozenset[RequestKind], plan: RunPlan) -> str:
    """Return why a model cannot do what a plan needs, such as log-likelihoods; empty if it can."""
    for selected in plan.benchmarks:
        for protocol in plan.protocols_of(selected.benchmark.spec):
            if protocol.method == "likelihood" and "loglikelihood" not in kinds:
                return f"{name} gives no log-likelihoods, which {protocol.label} needs"
            if protocol.method != "likelihood" and "generate" not in kinds:
                return f"{name} gives no replies, which {protocol.label} needs"
    return ""


def _other_runs(folder: Path) -> list[Path]:
    """Return the other runs in the same folder."""
    manifests = sorted(folder.parent.glob(f"*/{RUN_MANIFEST}"))
    return [manifest.parent for manifest in manifests if manifest.parent != folder]
