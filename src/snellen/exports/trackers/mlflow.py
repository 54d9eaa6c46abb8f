"""MLflow: parameters, metrics and files of a run, in a store of its own or behind a tracking server."""

from __future__ import annotations

import time

from snellen.errors import DataError, MissingExtraError
from snellen.exports.tracking import TrackedRun, Tracker

EXPERIMENT = "snellen"
MOST_AT_ONCE = 100
"""Parameters, and metrics, in a call, as MLflow's interface limits them."""
LONGEST = 6000
"""Characters of a parameter's value."""


def _log(run: TrackedRun, place: str) -> str:
    try:
        import mlflow
        from mlflow.entities import Metric, Param
    except ImportError:
        raise MissingExtraError("mlflow-skinny", "mlflow", "--track mlflow:") from None
    uri, _, experiment = place.partition("#")
    try:
        client = mlflow.MlflowClient(uri or None)
        found = client.get_experiment_by_name(experiment or EXPERIMENT)
        number = found.experiment_id if found else client.create_experiment(experiment or EXPERIMENT)
        logged = client.create_run(number, run_name=run.name).info.run_id
        now = int(time.time() * 1000)
        params = [Param(name, value[:LONGEST]) for name, value in run.settings.items()]
        metrics = [Metric(name, value, now, 0) for name, value in run.values.items()]
        for first in range(0, max(len(params), len(metrics)), MOST_AT_ONCE):
            some = slice(first, first + MOST_AT_ONCE)
            client.log_batch(logged, params=params[some], metrics=metrics[some])
        for file in run.files:
            client.log_artifact(logged, str(file))
        client.set_terminated(logged)
    except (mlflow.MlflowException, OSError) as error:
        raise DataError(f"--track mlflow:{place}: {' '.join(str(error).split())[:300]}") from None
    return f"mlflow: run {logged} of experiment {experiment or EXPERIMENT} in {uri or mlflow.get_tracking_uri()}"


TRACKER = Tracker(title="MLflow: address of a store or server, then #EXPERIMENT", log=_log)
