"""Scores that others published, as a table of models and benchmarks, shown next to the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.rows import read_rows, text_encoding
from snellen.metrics.declaration import SHARE
from snellen.report.run_view import RunView, benchmarks_of, method_rows
from snellen.report.table import Cell, NumberCell, Table, decimal_text

MODELS = ("model", "models", "model_name", "method", "name")
BENCHMARKS = ("benchmark", "dataset", "task")
SCORES = ("score", "value", "accuracy", "result", "overall")


class PublishedScore(Struct, frozen=True):
    """A number of a model on a benchmark, as it was published."""

    model: str
    benchmark: str
    score: float
    where: str


def read_leaderboard(path: Path) -> list[PublishedScore]:
    """Read a table of published scores: a row for each model and benchmark, or a column for each benchmark.

    Raises:
        DataError: No column names models, or no cell is a number.
    """
    rows = [row for row in read_rows(path, text_encoding(path)) if not row.fault]
    columns = {_folded(name): name for row in rows for name in row.cells}
    model = _first(columns, MODELS)
    if not model:
        raise DataError(
            f"{path}: no column names models; there are {', '.join(map(repr, columns.values()))}; call it `model`"
        )
    benchmark, score = _first(columns, BENCHMARKS), _first(columns, SCORES)
    published: list[PublishedScore] = []
    for row in rows:
        name = str(row.cells.get(model, "")).strip()
        if not name:
            continue
        if benchmark and score:
            entries = [(str(row.cells.get(benchmark, "")).strip(), row.cells.get(score))]
        else:
            entries = [(column, cell) for column, cell in row.cells.items() if column != model]
        for own_benchmark, cell in entries:
            number = _number(cell)
            if number is not None and own_benchmark:
                published.append(PublishedScore(name, own_benchmark, number, row.where))
    if not published:
        raise DataError(
            f"{path}: no cell is a score; write columns model, benchmark and score, or a column for each benchmark"
        )
    return published


def _folded(name: str) -> str:
    return "_".join(name.strip().casefold().replace("-", " ").split())


def _first(columns: Mapping[str, str], names: Sequence[str]) -> str:
    return next((columns[name] for name in names if name in columns), "")


def _number(cell: Any) -> float | None:
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, (int, float)):
        return float(cell)
    try:
        return float(str(cell).strip().rstrip("%").replace(",", ""))
    except ValueError:
        return None


def published_table(views: Sequence[RunView], published: Sequence[PublishedScore]) -> Table:
    """Return the published scores on the benchmarks of the runs, the runs among them, the best first.

    A number of a run has its interval; published ones have none. Whether they were computed by the same rules is not
    known (`snellen reconcile` tells, where the replies are there).
    """
    benchmarks = benchmarks_of(views)
    by_benchmark: dict[str, list[tuple[float, str, Cell]]] = defaultdict(list)
    unmatched: dict[str, None] = {}
    for entry in published:
        name = _matching(entry.benchmark, benchmarks)
        if name:
            by_benchmark[name].append((entry.score, entry.model, decimal_text(entry.score, 2)))
        else:
            unmatched[entry.benchmark] = None
    for line in method_rows(views):
        for name in benchmarks:
            row = line.headlines.get(name)
            if row is None or row.estimate.value is None:
                continue
            percent = 100.0 if row.unit == SHARE else 1.0
            cell = NumberCell(row.unit, row.estimate)
            by_benchmark[name].append((row.estimate.value * percent, f"{line.label} (run)", cell))
    rows: list[tuple[Cell, ...]] = []
    for name in benchmarks:
        ranked = sorted(by_benchmark[name], key=lambda entry: -entry[0])
        rows += [(name, model, cell) for _, model, cell in ranked]
    notes = ["Published scores are as printed, without intervals and perhaps by other rules."]
    if unmatched:
        names = list(unmatched)
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        notes.append(f"Not of these runs: {', '.join(names[:6])}{more}.")
    return Table(
        "Published scores and runs",
        ("benchmark", "model", "score"),
        tuple(rows),
        label_columns=2,
        notes=tuple(notes),
    )


def _matching(written: str, benchmarks: Sequence[str]) -> str:
    """The benchmark of the runs that a written name stands for; empty if none does."""
    key = _letters(written)
    for name in benchmarks:
        short = _letters(name.rpartition("/")[2])
        if key in (short, _letters(name)) or (len(short) > 2 and key.startswith(short)):
            return name
    return ""


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
