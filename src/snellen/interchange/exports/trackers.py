"""Experiment trackers: each imports its library when a run is logged."""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

from snellen.errors import DataError, MissingExtraError
from snellen.interchange.exports.tracking import TrackedRun, Tracker

PROJECT = "snellen"
"""The project of Snellen's runs, unless another is named."""
MLFLOW_BATCH = 100
"""Parameters, and metrics, in a call, as MLflow's interface limits them."""
MLFLOW_LONGEST = 6000
"""Characters of a parameter's value."""


def _log_mlflow(run: TrackedRun, place: str) -> str:
    """Parameters, metrics and files of a run, in a store of its own or behind a tracking server."""
    try:
        import mlflow
        from mlflow.entities import Metric, Param
    except ImportError:
        raise MissingExtraError("mlflow-skinny", "mlflow", "--track mlflow:") from None
    uri, _, experiment = place.partition("#")
    try:
        client = mlflow.MlflowClient(uri or None)
        known_experiment = client.get_experiment_by_name(experiment or PROJECT)
        experiment_id = (
            known_experiment.experiment_id if known_experiment else client.create_experiment(experiment or PROJECT)
        )
        run_id = client.create_run(experiment_id, run_name=run.name).info.run_id
        now = int(time.time() * 1000)
        params = [Param(name, value[:MLFLOW_LONGEST]) for name, value in run.settings.items()]
        metrics = [Metric(name, value, now, 0) for name, value in run.values.items()]
        for first in range(0, max(len(params), len(metrics)), MLFLOW_BATCH):
            batch = slice(first, first + MLFLOW_BATCH)
            client.log_batch(run_id, params=params[batch], metrics=metrics[batch])
        for file in run.files:
            client.log_artifact(run_id, str(file))
        client.set_terminated(run_id)
    except (mlflow.MlflowException, OSError) as error:
        raise DataError(f"--track mlflow:{place}: {' '.join(str(error).split())[:300]}") from None
    return f"mlflow: run {run_id} of experiment {experiment or PROJECT} in {uri or mlflow.get_tracking_uri()}"


MLFLOW = Tracker(title="MLflow: address of a store or server, then #EXPERIMENT", log=_log_mlflow)


def _log_trackio(run: TrackedRun, place: str) -> str:
    """Configuration and numbers of a run, in its local database."""
    try:
        import trackio
    except ImportError:
        raise MissingExtraError("trackio", "trackio", "--track trackio:") from None
    project = place or PROJECT
    try:
        with redirect_stdout(sys.stderr):  # it speaks of its dashboard where others read what Snellen prints
            trackio.init(
                project=project, name=run.name, config=run.settings, embed=False, auto_log_cpu=False, auto_log_gpu=False
            )
            trackio.log(run.values)
            trackio.finish()
    except (OSError, ValueError, RuntimeError) as error:
        raise DataError(f"--track trackio:{place}: {' '.join(str(error).split())[:300]}") from None
    return f'trackio: trackio show --project "{project}"'


TRACKIO = Tracker(title="Trackio: a project", log=_log_trackio)


def _log_wandb(run: TrackedRun, place: str) -> str:
    """Configuration, summary and files of a run; with WANDB_MODE=offline in a folder here."""
    try:
        import wandb
    except ImportError:
        raise MissingExtraError("wandb", "wandb", "--track wandb:") from None
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
        raise DataError(f"--track wandb:{place}: {fault}; WANDB_MODE=offline keeps it in a folder here") from None
    return f"wandb: {logged.url or f'wandb sync {Path(logged.dir).parent}'}"


WANDB = Tracker(title="Weights & Biases: ENTITY/PROJECT, or a project of your own", log=_log_wandb)
