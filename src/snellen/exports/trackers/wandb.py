"""Weights & Biases: configuration, summary and files of a run; with WANDB_MODE=offline in a folder here."""

from __future__ import annotations

from pathlib import Path

from snellen.errors import DataError, MissingExtraError
from snellen.exports.tracking import TrackedRun, Tracker

PROJECT = "snellen"


def _log(run: TrackedRun, place: str) -> str:
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


TRACKER = Tracker(title="Weights & Biases: ENTITY/PROJECT, or a project of your own", log=_log)
