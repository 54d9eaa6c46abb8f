"""Writes a report or a comparison in the format of the file's suffix."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_type_hints

import msgspec

from snellen.analysis.paired.records import Comparison, flat_difference
from snellen.errors import DataError
from snellen.formats.shown_text import csv_table
from snellen.records import Estimate, Result
from snellen.report.latex import latex_report
from snellen.report.markdown import markdown_report, markdown_tables
from snellen.report.page import html_report
from snellen.report.paired_tables import comparison_tables
from snellen.report.run_view import RunView, run_views
from snellen.runs.journal import write_atomically
from snellen.scoring.scored_run import ScoredRun, flat_row


def write_report(runs: Sequence[ScoredRun], rows: Sequence[Result], path: Path) -> Path:
    """Write the report of `runs`, whose results are `rows`, and return its path.

    `.html` is one self-contained page, `.md` and `.tex` its tables, `.csv`, `.json` and `.parquet` all rows. Raises
    DataError for another suffix, StoreError when the file cannot be written.
    """
    form = FORMS.get(path.suffix.lower())
    if form is None:
        raise DataError(f"{path}: a report is one of {', '.join(FORMS)}; choose one of these suffixes")
    content = form(run_views(runs, rows))
    # A reply may hold half of a surrogate pair, which cannot be encoded.
    write_atomically(path, content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    return path


def csv_report(views: Sequence[RunView]) -> str:
    """All rows as CSV."""
    return csv_table([flat_row(row) for view in views for row in view.rows])


def json_report(views: Sequence[RunView]) -> str:
    """All rows as a JSON list, as in a run's `results.json`."""
    return json.dumps([flat_row(row) for view in views for row in view.rows], indent=1, ensure_ascii=False) + "\n"


def parquet_report(views: Sequence[RunView]) -> bytes:
    """All rows as Parquet, with the columns of the CSV."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = {int: pa.int64(), float | None: pa.float64()}
    kinds = {name: arrow[kind] for name, kind in get_type_hints(Estimate).items()}
    names = [*(name for name in Result.__struct_fields__ if name != "estimate"), *Estimate.__struct_fields__]
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    rows = [flat_row(row) for view in views for row in view.rows]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), file)
    return file.getvalue()


FORMS: dict[str, Callable[[Sequence[RunView]], str | bytes]] = {
    ".html": html_report,
    ".md": markdown_report,
    ".tex": latex_report,
    ".csv": csv_report,
    ".json": json_report,
    ".parquet": parquet_report,
}


# --- comparisons -----------------------------------------------------------------------------------------------------


def write_comparison(comparison: Comparison, path: Path) -> Path:
    """Write a comparison and return its path.

    `.md` holds its tables, `.csv` one row per difference, `.json` everything, the questions that flipped included.
    Raises DataError for another suffix, StoreError when the file cannot be written.
    """
    form = COMPARISON_FORMS.get(path.suffix.lower())
    if form is None:
        raise DataError(
            f"{path}: a comparison is one of {', '.join(COMPARISON_FORMS)}; `snellen report` shows it in an HTML page"
        )
    write_atomically(path, form(comparison).encode("utf-8", "replace"))
    return path


def _csv(comparison: Comparison) -> str:
    return csv_table([flat_difference(difference) for difference in comparison.differences])


def _markdown(comparison: Comparison) -> str:
    return "\n".join(["# Snellen comparison", "", *markdown_tables(comparison_tables(comparison), 2)])


def _json(comparison: Comparison) -> str:
    return msgspec.json.format(msgspec.json.encode(comparison), indent=1).decode() + "\n"


COMPARISON_FORMS: dict[str, Callable[[Comparison], str]] = {".md": _markdown, ".csv": _csv, ".json": _json}
