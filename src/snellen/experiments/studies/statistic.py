"""What a statistic of a study gives: rows for CSV and JSON, and tables and charts for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from snellen import registry
from snellen.experiments.studies.series import StudyNumbers, StudySeries
from snellen.records import Estimate
from snellen.report.charts import ChartPanel
from snellen.report.table import Table


class StudyRow(Struct, frozen=True, kw_only=True):
    """One number of a study."""

    statistic: str
    quantity: str
    """What the number is: mean, share of variance ..."""
    model: str
    benchmark: str
    protocol: str
    metric: str
    unit: str
    estimate: Estimate
    cell: str = ""
    """The cell, source of variance or sample that it is about."""
    against: str = ""
    """What it is compared with: another cell, or another metric."""
    cells: int = 0
    """How many cells it rests on."""


class StudyPart(Struct, frozen=True):
    """All that one statistic found."""

    rows: tuple[StudyRow, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[ChartPanel, ...] = ()


class StudyStatistic(Struct, frozen=True):
    """One statistic (the registry's group `study_statistics`)."""

    title: str
    """Heading of its section."""
    compute: Callable[[StudyNumbers], StudyPart]


def computed(numbers: StudyNumbers, statistics: Iterable[str]) -> dict[str, StudyPart]:
    """What each named statistic finds, by its title. Raises UnknownNameError."""
    declared_statistics: list[StudyStatistic] = [registry.find("study_statistics", name) for name in statistics]
    return {statistic.title: statistic.compute(numbers) for statistic in declared_statistics}


def study_row(
    series: StudySeries,
    statistic: str,
    quantity: str,
    estimate: Estimate,
    *,
    cell: str = "",
    against: str = "",
    unit: str | None = None,
) -> StudyRow:
    """A row about a series; its unit is the metric's unless another one is named."""
    return StudyRow(
        statistic=statistic, quantity=quantity, model=series.model, benchmark=series.benchmark,
        protocol=series.protocol, metric=series.metric, unit=series.unit if unit is None else unit,
        estimate=estimate, cell=cell, against=against, cells=len(series.cells),
    )  # fmt: skip


def bare(value: float | None, n: int = 0) -> Estimate:
    """A number that has no interval of its own."""
    return Estimate(value, None, None, None, n)


def flat_study_row(row: StudyRow) -> dict[str, Any]:
    """A row as a flat dict of plain values."""
    fields = asdict(row)
    return {**{name: value for name, value in fields.items() if name != "estimate"}, **asdict(row.estimate)}
