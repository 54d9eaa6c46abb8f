"""Pairs of values that occur twice in a paper's tables: slips in copying, or chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from msgspec import Struct

from snellen_lab.papers.printed_tables import Paper, PrintedValue


class RepeatedPair(Struct, frozen=True):
    """Two cells with the same value and the same second value."""

    first: PrintedValue
    second: PrintedValue
    pair: tuple[str, str]


def repeated_pairs(paper: Paper) -> Iterator[RepeatedPair]:
    """Yield pairs of values that a paper prints twice, which may be a slip in copying.

    A pair is, for example, the precision and the recall of a model on a benchmark (the paper's file of derivations
    names the columns). It is suspicious if the same method gives it for one model on two benchmarks, or for two models
    on one benchmark, or if both methods give it for one model on one benchmark.
    """
    for repetition in paper.derived.repetitions:
        first_column, second_column = repetition.columns
        cells_by_pair: dict[tuple[str, str], list[PrintedValue]] = defaultdict(list)
        for table in paper.tables:
            cells = {}
            for cell in paper.values(table):
                cells[cell.column, *cell.labels.values()] = cell
            for (column, *row_labels), cell in cells.items():
                if not column.endswith(f" {first_column}") or not cell.benchmark:
                    continue
                second_name = column.removesuffix(first_column) + second_column
                second_cell = cells.get((second_name, *row_labels))
                if second_cell is not None and second_cell.value:
                    cells_by_pair[cell.printed, second_cell.printed].append(cell)

        for printed_pair, equal_cells in cells_by_pair.items():
            for first, second in combinations(equal_cells, 2):
                if _is_suspicious(first, second):
                    yield RepeatedPair(first, second, printed_pair)


def _is_suspicious(first: PrintedValue, second: PrintedValue) -> bool:
    """Return whether two cells with the same values are for the same model, benchmark or both, as `repeated_pairs` says."""
    same_model = first.model == second.model
    same_benchmark = first.benchmark == second.benchmark
    if first.method == second.method:
        return same_model != same_benchmark
    return same_model and same_benchmark
