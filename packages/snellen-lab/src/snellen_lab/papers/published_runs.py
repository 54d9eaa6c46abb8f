"""Score runs by the rules of their suites' papers, to show them beside the papers' models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen import JudgeSpec, Results, ScoringSpec
from snellen.plugin_api import ReportedRun, announce, prepare_reported_runs, runs_in, score_folders


def runs_as_published(runs: Sequence[Path], *, kept_will_do: bool = False) -> Sequence[ReportedRun]:
    """Return the runs, scored as published.

    Args:
        runs: Folders of runs.
        kept_will_do: Whether a scoring that was kept may be of an earlier version.
    """
    if not runs:
        return ()
    published = ScoringSpec(as_published=True)
    scored = score_folders(
        runs_in(runs), published, JudgeSpec(), announce, kept_will_do=kept_will_do
    )
    results = Results(scored)
    return prepare_reported_runs(results.runs, results.rows)
