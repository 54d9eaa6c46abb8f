"""Score runs as the papers of their suites do, to compare them with the models in the papers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen import JudgeSpec, Results, ScoringSpec
from snellen.plugin_api import ReportedRun, announce, prepare_reported_runs, runs_in, score_folders


def runs_as_published(
    runs: Sequence[Path], *, may_use_stored: bool = False
) -> Sequence[ReportedRun]:
    """Return runs, scored by the published rules of their suites; () without runs.

    Args:
        runs: Folders of runs.
        may_use_stored: Whether stored scores by an earlier version of Snellen may be used.
    """
    if not runs:
        return ()
    published = ScoringSpec(as_published=True)
    scored = score_folders(
        runs_in(runs), published, JudgeSpec(), announce, may_use_stored=may_use_stored
    )
    results = Results(scored)
    return prepare_reported_runs(results.runs, results.rows)
