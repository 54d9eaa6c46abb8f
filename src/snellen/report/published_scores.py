"""Scores that others published, read from a table of models and benchmarks, and shown next to the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.rows import read_rows
from snellen.formats.text_encoding import text_encoding
from snellen.metrics.declaration import SHARE
from snellen.report.number_text import decimal_text
from snellen.report.reported_runs import ReportedRun, benchmarks_of, method_rows
from snellen.report.table import Cell, Column, NumberCell, Table, tabulate

MODEL_COLUMNS = ("model", "models", "model_name", "model_id", "method", "name")
BENCHMARK_COLUMNS = ("benchmark", "dataset", "task", "task_id", "benchmark_id", "dataset_id")
SCORE_COLUMNS = ("score", "value", "accuracy", "result", "overall")
MAX_LISTED_UNMATCHED = 6
"""Names of benchmarks without a run that are listed."""


class PublishedScore(Struct, frozen=True):
    """A score of a model on a benchmark, as it was published."""

    model: str
    benchmark: str
    """Name as it was published."""
    score: float
    where: str
    """File and row."""


def read_leaderboard(path: Path) -> list[PublishedScore]:
    """Read a table of published scores.

    It has either a row for each model and benchmark, or a row for each model and a column for each benchmark.

    Raises:
        DataError: No column has names of models, or no cell is a number.
    """
    rows = [row for row in read_rows(path, text_encoding(path)) if not row.fault]
    columns: dict[str, str] = {}
    for row in rows:
        for name in row.cells:
            columns[_folded(name)] = name
    model_column = _first_column(columns, MODEL_COLUMNS)
    if not model_column:
        raise DataError(
            f"{path}: no column with model names among {', '.join(map(repr, columns.values()))}; name it `model`"
        )
    benchmark_column = _first_column(columns, BENCHMARK_COLUMNS)
    score_column = _first_column(columns, SCORE_COLUMNS)

    published: list[PublishedScore] = []
    for row in rows:
        model = str(row.cells.get(model_column, "")).strip()
        if not model:
            continue
        if benchmark_column and score_column:
            benchmark = str(row.cells.get(benchmark_column, "")).strip()
            entries = [(benchmark, row.cells.get(score_column))]
        else:
            entries = [(name, cell) for name, cell in row.cells.items() if name != model_column]
        for benchmark, cell in entries:
            score = _number(cell)
            if score is not None and benchmark:
                published.append(PublishedScore(model, benchmark, score, row.where))
    if not published:
        raise DataError(
            f"{path}: no cell contains a score; use the columns model, benchmark and score, or one column per "
            "benchmark"
        )
    return published


def _folded(name: str) -> str:
    """Return the name of a column in the spelling in which names are compared: `model_name` for `Model-Name`."""
    return "_".join(name.strip().casefold().replace("-", " ").split())


def _first_column(columns: Mapping[str, str], names: Sequence[str]) -> str:
    """Return the first of some columns that a table has; empty if it has none of them.

    Args:
        columns: The columns of the table by their names as they are compared (`_folded`).
        names: The names to look for, in order of preference, in the same spelling.
    """
    for name in names:
        if name in columns:
            return columns[name]
    return ""


def _number(cell: Any) -> float | None:
    """Return the number in a cell: 1234.5 for `1,234.5` and 62.5 for `62.5%`; None if the cell has no number."""
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, (int, float)):
        return float(cell)
    try:
        return float(str(cell).strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None


class _ScoreRow(Struct, frozen=True):
    """A row of the table: a published score, or that of a run."""

    benchmark: str
    model: str
    score: float
    """In percent if it is a share."""
    cell: Cell


def published_table(
    reported_runs: Sequence[ReportedRun], published: Sequence[PublishedScore]
) -> Table:
    """Return a table that compares the scores of runs with published ones, for each benchmark from the best score down.

    The score of a run has an interval, and a published score has none. It is not known whether they follow the same
    rules (`snellen reconcile` finds out if the replies are available).
    """
    benchmarks = benchmarks_of(reported_runs)
    rows_by_benchmark: dict[str, list[_ScoreRow]] = defaultdict(list)
    unmatched: dict[str, None] = {}
    for entry in published:
        name = _matching_benchmark(entry.benchmark, benchmarks)
        if not name:
            unmatched[entry.benchmark] = None
            continue
        row = _ScoreRow(name, entry.model, entry.score, decimal_text(entry.score, 2))
        rows_by_benchmark[name].append(row)
    for model_row in method_rows(reported_runs):
        for name in benchmarks:
            headline = model_row.headlines.get(name)
            if headline is None or headline.estimate.value is None:
                continue
            score = headline.estimate.value * (100.0 if headline.unit == SHARE else 1.0)
            cell = NumberCell(headline.unit, headline.estimate)
            rows_by_benchmark[name].append(_ScoreRow(name, f"{model_row.label} (run)", score, cell))

    rows: list[_ScoreRow] = []
    for name in benchmarks:
        rows += sorted(rows_by_benchmark[name], key=lambda row: -row.score)
    columns: list[Column[_ScoreRow]] = [
        Column("benchmark", lambda row: row.benchmark, is_label=True),
        Column("model", lambda row: row.model, is_label=True),
        Column("score", lambda row: row.cell),
    ]
    notes = [
        "Published scores are shown as printed, without intervals; they may follow other scoring rules."
    ]
    if unmatched:
        names = list(unmatched)
        listed = ", ".join(names[:MAX_LISTED_UNMATCHED])
        if len(names) > MAX_LISTED_UNMATCHED:
            listed += f" and {len(names) - MAX_LISTED_UNMATCHED} more"
        notes.append(f"Not in these runs: {listed}.")
    return tabulate("Published scores and runs", columns, rows, notes)


def _matching_benchmark(written: str, benchmarks: Sequence[str]) -> str:
    """Return which benchmark of the runs a name in a paper or leaderboard means; empty if none.

    For example, `MMStar` and `MMStar (val)` mean `modern/mmstar`.

    Args:
        written: The name as it was published.
        benchmarks: Names of the benchmarks of the runs.
    """
    key = _letters(written)
    for name in benchmarks:
        short_name = _letters(name.rpartition("/")[2])
        if key in (short_name, _letters(name)):
            return name
        if len(short_name) > 2 and key.startswith(short_name):
            return name
    return ""


def _letters(name: str) -> str:
    """Return the letters and digits of a name in lower case."""
    return "".join(filter(str.isalnum, name.casefold()))
