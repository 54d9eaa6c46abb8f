"""How well samples of each size stand for the whole (ReForm-Eval, Tables 29 and 30)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, variance

from msgspec import Struct

from snellen.analysis.ranks import pearson
from snellen.experiments.studies.declaration import SAMPLE_RATIO, SAMPLE_SEED
from snellen.experiments.studies.series import CellScores, StudyNumbers, StudySeries
from snellen.experiments.studies.statistic import StudyPart, StudyRow, StudyStatistic, bare, study_row
from snellen.metrics.declaration import SHARE
from snellen.report.formatting import DASH, decimal_text
from snellen.report.table import Cell, Table

HEADER = ("benchmark", "metric", "other levels", "share", "draws", "models", "correlation", "deviation", "variance")
QUANTITIES = ("correlation over models", "mean absolute deviation", "variance over draws")
NOTES = (
    "Correlation: Pearson's, over models, of scores on a sample and on the whole, mean over draws. Deviation: of a "
    "score on a sample from that on the whole. Variance: over draws (divisor: draws - 1), mean over models. Shares are "
    "in points.",
)


class _Stability(Struct, frozen=True):
    correlation: float | None
    deviation: float | None
    variance: float | None


def _compute(numbers: StudyNumbers) -> StudyPart:
    places: dict[tuple[str, ...], list[StudySeries]] = defaultdict(list)
    for series in numbers.of_benchmarks():
        places[series.benchmark, series.metric, series.split].append(series)
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for members in places.values():
        for others in dict.fromkeys(_others(cell) for cell in members[0].cells):
            values = [_values(series, others) for series in members]
            scale = 100.0 if members[0].unit == SHARE else 1.0
            for ratio in sorted({ratio for by_cell in values for ratio, _ in by_cell}):
                found = _stability(values, ratio, scale)
                measured = (found.correlation, found.deviation, found.variance)
                cell = ", ".join(filter(None, (f"share={ratio:g}", others)))
                rows += [
                    study_row(members[0], "stability", quantity, bare(value), cell=cell, unit="")
                    for quantity, value in zip(QUANTITIES, measured, strict=True)
                ]
                draws = len({draw for by_cell in values for share, draw in by_cell if share == ratio})
                words = (
                    DASH if value is None else decimal_text(value, digits)
                    for value, digits in zip(measured, (4, 2, 2), strict=True)
                )
                name, heading = members[0].benchmark, members[0].row.heading
                table.append((name, heading, others, f"{100 * ratio:g} %", draws, len(members), *words))
    return StudyPart(
        tuple(rows),
        (Table("Samples against the whole", HEADER, tuple(table), label_columns=4, notes=NOTES),) if table else (),
    )


def _others(cell: CellScores) -> str:
    """What the cell sets besides the share and the draw."""
    spec = cell.cell.spec
    others = {name: value for name, value in spec.fields.items() if name not in (SAMPLE_RATIO, SAMPLE_SEED)}
    return ", ".join(f"{name}={value}" for name, value in {**others, **spec.options}.items())


def _values(series: StudySeries, others: str) -> dict[tuple[float, int], float]:
    """The score of each share and draw."""
    return {
        (float(cell.cell.spec.fields.get(SAMPLE_RATIO, 1.0)), int(cell.cell.spec.fields.get(SAMPLE_SEED, 0))): value
        for cell in series.cells
        if _others(cell) == others and (value := cell.estimate.value) is not None
    }


def _stability(models: Sequence[dict[tuple[float, int], float]], ratio: float, scale: float) -> _Stability:
    draws = sorted(set.intersection(*({draw for share, draw in cells if share == ratio} for cells in models)))
    wholes = [next((value for (share, _), value in cells.items() if share == 1), None) for cells in models]
    spreads = [variance([scale * cells[ratio, draw] for draw in draws]) for cells in models if len(draws) > 1]
    if not draws or any(whole is None for whole in wholes):
        return _Stability(None, None, fmean(spreads) if spreads else None)
    known = [whole for whole in wholes if whole is not None]
    rhos = [pearson([cells[ratio, draw] for cells in models], known) for draw in draws]
    deviations = [
        scale * math.fabs(cells[ratio, draw] - whole)
        for cells, whole in zip(models, known, strict=True)
        for draw in draws
    ]
    found = [rho for rho in rhos if rho is not None]
    return _Stability(fmean(found) if found else None, fmean(deviations), fmean(spreads) if spreads else None)


STABILITY = StudyStatistic("Samples against the whole", _compute)
