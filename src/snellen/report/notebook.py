"""Results as a notebook shows them."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.records import Result
from snellen.report.rendering import part
from snellen.report.run_view import run_views
from snellen.report.summary import summary
from snellen.scoring.scored_run import ScoredRun


def html_summary(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> str:
    """The summary table as HTML without style or script, every text escaped."""
    return part("parts.html", "table")(summary(run_views(runs, rows)))
