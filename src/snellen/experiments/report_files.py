"""Write the report of a run, and name report files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.analysis.aggregate import results_of_all
from snellen.runs.locks import is_read_only
from snellen.scoring.scored_run import ScoredRun

REPORT_FILE = "report.html"
MAX_FILE_NAME_LETTERS = 100


def write_run_report(scored: ScoredRun) -> Path:
    """Write the report of a run to its default path, and return the path."""
    from snellen.report.page import write_report

    return write_report([scored], results_of_all([scored]), report_path([scored]))


def report_path(runs: Sequence[ScoredRun]) -> Path:
    """Return where the report of some runs is written by default.

    The report of one run is written next to its scores. If there are several runs, or if the folder of the run is
    read-only, the report is written to the working directory.
    """
    if len(runs) == 1:
        scores_folder = runs[0].stored_in
        if scores_folder is not None and not is_read_only(scores_folder):
            return scores_folder / REPORT_FILE
    run_names = [run.folder.name for run in runs]
    return Path(report_name(run_names))


def report_name(runs: Sequence[str]) -> str:
    """Return the file name of a report on named runs: `report-of-a-and-b.html`, or their number if that is too long."""
    name = f"report-of-{'-and-'.join(runs)}.html"
    if len(name) > MAX_FILE_NAME_LETTERS:
        return f"report-of-{len(runs)}-runs.html"
    return name
