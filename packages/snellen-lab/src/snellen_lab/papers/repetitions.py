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
    """Yield the pairs of values that a paper prints twice where it should not.

    A pair is suspicious if the same method gives it for one model on two benchmarks, or for two models on one
    benchmark, or if both methods give it for one model on one benchmark.
    """
    for repetition in paper.derived.repetitions:
        first_column, second_column = repetition.columns
        cells_by_pair: dict[tuple[str, str], list[PrintedValue]] = defaultdict(list)
        for table in paper.tables:
            cells = {(cell.column, *cell.labels.values()): cell for cell in paper.values(table)}
            for (column, *labels), cell in cells.items():
                if not column.endswith(f" {first_column}") or not cell.benchmark:
                    continue
                counterpart_column = f"{column.removesuffix(first_column)}{second_column}"
                counterpart = cells.get((counterpart_column, *labels))
                if counterpart is not None and counterpart.value:
                    cells_by_pair[cell.printed, counterpart.printed].append(cell)

        for printed_pair, same_cells in cells_by_pair.items():
            for first, second in combinations(same_cells, 2):
                n_same = (first.model == second.model) + (first.benchmark == second.benchmark)
                if n_same == (1 if first.method == second.method else 2):
                    yield RepeatedPair(first, second, printed_pair)
