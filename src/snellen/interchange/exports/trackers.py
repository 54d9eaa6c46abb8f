"""Experiment trackers: each imports its library when a run is logged.

What an experiment tracker receives about a run, and what a tracker declares (the registry's group `trackers`).
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from msgspec import Struct

from snellen import __version__
from snellen.analysis.aggregate import aggregate_run
from snellen.callers import for_caller
from snellen.common.late import import_extra
from snellen.errors import DataError, UnknownNameError
from snellen.registry import find_registered, names, unknown_name
from snellen.scoring.kept_scoring import RESULTS
from snellen.scoring.scored_run import ScoredRun

REPORT = "report.html"
_UNUSUAL = re.compile(r"[^\w./-]+", re.ASCII)


class TrackedMetric(Struct, frozen=True):
    """A number of a whole benchmark with its interval.

    Examples:
        >>> TrackedMetric("animals/accuracy", 0.75, 0.6, 0.87, n=40).value
        0.75
    """

    name: str
    """`BENCHMARK/PROTOCOL/METRIC`, in letters, digits and `_ . - /`, which all trackers take."""
    value: float
    low: float | None
    high: float | None
    n: int
    """Questions that were scored."""


class TrackedRun(Struct, frozen=True):
    """A scored run as a tracker receives it.

    Examples:
        >>> run = TrackedRun("run-1", {"model": "mine"}, (TrackedMetric("accuracy", 0.75, 0.6, 0.87, 40),), ())
        >>> run.metrics[0].name
        'accuracy'
    """

    name: str
    settings: dict[str, str]
    metrics: tuple[TrackedMetric, ...]
    files: tuple[Path, ...]
    """Results and report, where they were written."""

    @property
    def values(self) -> dict[str, float]:
        """All numbers by name.

        For `accuracy` there are also the ends of its interval, `accuracy_low` and `accuracy_high`,
        and the number of questions, `accuracy_n`.
        """
        numbers: dict[str, float] = {}
        for metric in self.metrics:
            numbers[metric.name] = metric.value
            if metric.low is not None:
                numbers[f"{metric.name}_low"] = metric.low
            if metric.high is not None:
                numbers[f"{metric.name}_high"] = metric.high
            numbers[f"{metric.name}_n"] = float(metric.n)
        return numbers


class Tracker(Struct, frozen=True):
    """An experiment tracker to which runs are logged.

    Examples:
        >>> tracker = Tracker("a text file", lambda run, target: f"logged {run.name} to {target}")
        >>> tracker.log(TrackedRun("run-1", {}, (), ()), "log.txt")
        'logged run-1 to log.txt'
    """

    title: str
    """As in "MLflow: a store's address, #EXPERIMENT"; says what stands after the colon."""
    log: Callable[[TrackedRun, str], str]
    """(run, what stands after the colon) -> where it went, for a reader. Raises DataError, MissingExtraError."""


def track(runs: Sequence[ScoredRun], target: str) -> list[str]:
    """Log runs to an experiment tracker, and return for each where it was logged.

    Args:
        runs: The runs. Each becomes a run of its own in the tracker.
        target: The tracker and a place in it: `NAME:PLACE`.

    Raises:
        UnknownNameError: No tracker has that name.
        DataError: The tracker fails.
        MissingExtraError: The package of the tracker is not installed.
    """
    name, _, place = target.partition(":")
    if name not in names("trackers"):
        raise UnknownNameError(
            f"{_track(target)}: {unknown_name('tracker', name, names('trackers'))}"
        )
    tracker: Tracker = find_registered("trackers", name)
    return [tracker.log(tracked_run(run), place) for run in runs]


def tracked_run(run: ScoredRun) -> TrackedRun:
    """Return what a tracker receives about a run: its settings, the numbers of whole benchmarks, results and report."""
    settings = {_plain(name): value for name, value in _settings(run)}
    metrics = []
    for row in aggregate_run(run):
        estimate = row.estimate
        if row.slice or row.benchmark == "*" or estimate.value is None:
            continue
        name = _plain(f"{row.benchmark}/{row.protocol}/{row.metric}")
        metric = TrackedMetric(name, estimate.value, estimate.low, estimate.high, estimate.n)
        metrics.append(metric)
    folder = run.stored_in or run.folder
    files = [file for file in (folder / RESULTS, folder / REPORT) if file.exists()]
    return TrackedRun(run.folder.name, settings, tuple(metrics), tuple(files))


def _plain(name: str) -> str:
    return _UNUSUAL.sub("_", name)


def _settings(run: ScoredRun) -> Iterator[tuple[str, str]]:
    """Yield the settings of a run as pairs of name and text: model, decoding, scoring, and versions of benchmarks."""
    manifest = run.manifest
    decoding = manifest.decoding
    n_examples = manifest.few_shot[0] if manifest.few_shot else 0
    yield "model", manifest.model
    yield "snellen", __version__
    yield "started", manifest.started
    yield "protocols", ", ".join(manifest.protocols)
    yield "templates", manifest.templates
    yield "temperature", f"{decoding.temperature:g}"
    yield "top_p", f"{decoding.top_p:g}"
    yield "seed", str(decoding.seed)
    yield "few_shot", str(n_examples)
    yield "extractor", run.scoring.extractor
    yield "likelihood_rule", run.scoring.likelihood_rule
    for use in manifest.benchmarks:
        yield f"benchmark/{use.name}", use.version
    for name, value in sorted(manifest.fingerprint.items()):
        yield f"fingerprint/{name}", value


PROJECT = "snellen"
"""The project of Snellen's runs, unless another is named."""
MLFLOW_BATCH = 100
"""Parameters, and metrics, in a call, as MLflow's interface limits them."""
MLFLOW_LONGEST = 6000
"""Characters of a parameter's value."""


def _log_mlflow(run: TrackedRun, place: str) -> str:
    """Log the settings, metrics and files of a run to MLflow: a store of files, or a tracking server.

    Args:
        run: The run.
        place: `ADDRESS#EXPERIMENT`. Without an address, MLflow's own default; without an experiment, Snellen's.

    Returns:
        Where it was logged, for the user.

    Raises:
        DataError: If MLflow fails.
        MissingExtraError: If MLflow is not installed.
    """
    mlflow = import_extra("mlflow", "mlflow", _track("mlflow:"), "mlflow-skinny")
    uri, _, experiment = place.partition("#")
    experiment = experiment or PROJECT
    try:
        client = mlflow.MlflowClient(uri or None)
        known_experiment = client.get_experiment_by_name(experiment)
        if known_experiment:
            experiment_id = known_experiment.experiment_id
        else:
            experiment_id = client.create_experiment(experiment)
        run_id = client.create_run(experiment_id, run_name=run.name).info.run_id
        now = int(time.time() * 1000)
        params = []
        for name, value in run.settings.items():
            params.append(mlflow.entities.Param(name, value[:MLFLOW_LONGEST]))
        metrics = []
        for name, number in run.values.items():
            metrics.append(mlflow.entities.Metric(name, number, now, 0))
        for start in range(0, max(len(params), len(metrics)), MLFLOW_BATCH):
            batch = slice(start, start + MLFLOW_BATCH)
            client.log_batch(run_id, params=params[batch], metrics=metrics[batch])
        for file in run.files:
            client.log_artifact(run_id, str(file))
        client.set_terminated(run_id)
    except (mlflow.MlflowException, OSError) as error:
        message = " ".join(str(error).split())[:300]
        raise DataError(f"{_track(f'mlflow:{place}')}: {message}") from None
    store = uri or mlflow.get_tracking_uri()
    return f"mlflow: run {run_id} of experiment {experiment} in {store}"


MLFLOW = Tracker(title="MLflow: address of a store or server, then #EXPERIMENT", log=_log_mlflow)


def _log_trackio(run: TrackedRun, place: str) -> str:
    """Log the settings and numbers of a run to the local database of trackio, and return where."""
    trackio = import_extra("trackio", "trackio", _track("trackio:"))
    project = place or PROJECT
    try:
        with redirect_stdout(
            sys.stderr
        ):  # it speaks of its dashboard where others read what Snellen prints
            trackio.init(
                project=project,
                name=run.name,
                config=run.settings,
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
            trackio.log(run.values)
            trackio.finish()
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{_track(f'trackio:{place}')}: {' '.join(str(error).split())[:300]}"
        ) from None
    return f'trackio: trackio show --project "{project}"'


TRACKIO = Tracker(title="Trackio: a project", log=_log_trackio)


def _log_wandb(run: TrackedRun, place: str) -> str:
    """Log the settings, numbers and files of a run to Weights & Biases, and return where.

    With WANDB_MODE=offline, they are written to a folder on this machine.
    """
    wandb = import_extra("wandb", "wandb", _track("wandb:"))
    entity, _, project = place.rpartition("/")
    try:
        logged = wandb.init(
            entity=entity or None,
            project=project or PROJECT,
            name=run.name,
            config=run.settings,
            settings=wandb.Settings(silent=True),
        )
        logged.log(run.values)
        if run.files:
            files = wandb.Artifact(f"results-{logged.id}", type="results")
            for file in run.files:
                files.add_file(str(file))
            logged.log_artifact(files)
        logged.finish()
    except (wandb.Error, OSError) as error:
        fault = " ".join(str(error).split())[:300]
        raise DataError(
            f"{_track(f'wandb:{place}')}: {fault}; WANDB_MODE=offline keeps it in a folder here"
        ) from None
    return f"wandb: {logged.url or f'wandb sync {Path(logged.dir).parent}'}"


WANDB = Tracker(title="Weights & Biases: ENTITY/PROJECT, or a project of your own", log=_log_wandb)


def _track(target: str) -> str:
    """Return a tracker as the caller names it."""
    return for_caller(f"--track {target}", f"track({target!r})")
