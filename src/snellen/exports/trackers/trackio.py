"""Trackio: configuration and numbers of a run, in its local database."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

from snellen.errors import DataError, MissingExtraError
from snellen.exports.tracking import TrackedRun, Tracker

PROJECT = "snellen"


def _log(run: TrackedRun, place: str) -> str:
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


TRACKER = Tracker(title="Trackio: a project", log=_log)
