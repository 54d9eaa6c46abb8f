"""The chart that an analysis declares, drawn from the numbers of its table."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from snellen.plugin_api import (
    ChartAxis,
    ChartDrawing,
    ChartPanel,
    Estimate,
    IntervalRow,
    PlotPoint,
    ScatterPoint,
    heat_map,
    interval_chart,
    radar_chart,
    scatter_chart,
)
from snellen_lab.analyses.declaration import AnalysisSpec
from snellen_lab.analyses.group_statistics import DIGITS, AnalysisRow, Member, mean_over_models


def analysis_charts(
    spec: AnalysisSpec, rows: Sequence[AnalysisRow], members: Sequence[Member]
) -> Iterator[ChartPanel]:
    """Yield a panel for each method and unit."""
    if spec.plot == "scatter":
        yield from _scatter_panels(spec, members)
        return
    rows_by_panel: dict[tuple[str, str], list[AnalysisRow]] = defaultdict(list)
    for row in rows:
        rows_by_panel[row.method, row.unit].append(row)
    for (method, unit), panel_rows in rows_by_panel.items():
        title = ", ".join(text for text in (method, unit) if text)
        chart_title = f"{spec.title}, {title}"
        if spec.plot == "heat":
            yield ChartPanel(title, _heat_map(chart_title, panel_rows, unit))
        elif spec.plot == "intervals":
            yield ChartPanel(title, _interval_chart(chart_title, panel_rows, unit))
        elif spec.plot == "radar":
            yield ChartPanel(title, _radar_chart(chart_title, panel_rows, series_of(rows)))


def series_of(rows: Sequence[AnalysisRow]) -> list[str]:
    """Return the names of the groups, each of which is a series of a radar chart."""
    return list(dict.fromkeys(map(_group_name, rows)))


def _group_name(row: AnalysisRow) -> str:
    """Return the groups of a row as text, such as "7B, Vicuna"."""
    return ", ".join(row.groups)


def _quantities(rows: Sequence[AnalysisRow]) -> list[str]:
    """Return the different quantities of some rows, in the order in which they first appear."""
    return list(dict.fromkeys(row.quantity for row in rows))


def _heat_map(title: str, rows: Sequence[AnalysisRow], unit: str) -> ChartDrawing:
    """Draw a table of coloured numbers: a row for each group of models and a column for each quantity."""
    estimates = {(_group_name(row), row.quantity): row.estimate for row in rows}
    digits = DIGITS.get(unit, 2)
    return heat_map(title, series_of(rows), _quantities(rows), estimates, unit, digits=digits)


def _interval_chart(title: str, rows: Sequence[AnalysisRow], unit: str) -> ChartDrawing:
    """Draw a row for each group and quantity, so that no colour has to tell them apart."""
    quantities = _quantities(rows)
    chart_rows = []
    for row in rows:
        label = _group_name(row)
        if len(quantities) > 1:
            label = f"{label}, {row.quantity}"
        point = PlotPoint(quantities.index(row.quantity), label, row.estimate, unit)
        chart_rows.append(IntervalRow(label, (point,)))
    axis = _axis(rows[0].statistic, unit, [row.estimate for row in rows])
    return interval_chart(title, chart_rows, axis)


def _radar_chart(title: str, rows: Sequence[AnalysisRow], series: Sequence[str]) -> ChartDrawing:
    """Draw a radar chart with an axis for each quantity and an outline for each group of models.

    Args:
        title: Title of the chart.
        rows: The numbers, in percent.
        series: Names of all groups; the position of a group decides its colour.
    """
    quantities = _quantities(rows)
    points_by_group: dict[str, dict[str, PlotPoint]] = defaultdict(dict)
    for row in rows:
        group = _group_name(row)
        share = row.estimate.scaled(0.01)
        point = PlotPoint(series.index(group), f"{group}, {row.quantity}", share)
        points_by_group[group][row.quantity] = point
    outlines = []
    for group, points in points_by_group.items():
        outline = [points.get(quantity) for quantity in quantities]
        outlines.append((series.index(group), outline))
    no_references: list[None] = [None] * len(quantities)
    return radar_chart(title, quantities, outlines, no_references)


def _axis(title: str, unit: str, estimates: Sequence[Estimate]) -> ChartAxis:
    """Return an axis that contains 0 and all estimates with their intervals."""
    low = 0.0
    high = 0.0
    for estimate in estimates:
        for end in (estimate.low, estimate.value, estimate.high):
            if end is not None:
                low = min(low, end)
                high = max(high, end)
    name = f"{title}, {unit}" if unit else title
    return ChartAxis(name, unit, high + 0.04 * (high - low) or 1.0, low)


def _scatter_panels(spec: AnalysisSpec, members: Sequence[Member]) -> Iterator[ChartPanel]:
    """Yield a scatter chart for each method and unit: the mean value of each model against the logarithm of its size.

    The size is the number on the model's card that the first grouping uses.
    """
    values_by_panel: dict[tuple[str, str], dict[Member, list[float]]] = defaultdict(dict)
    first_members: dict[tuple[str, str], Member] = {}
    for member in members:
        if not member.groups or not member.x:
            continue
        observation = member.observation
        # The first value of a model stands for the model; its other values are collected under it.
        model = first_members.setdefault((observation.method, observation.model), member)
        values_by_model = values_by_panel[observation.method, observation.unit]
        values_by_model.setdefault(model, []).append(observation.value)
    for (method, unit), values_by_model in values_by_panel.items():
        yield ChartPanel(method, _scatter_chart(spec, method, unit, values_by_model))


def _scatter_chart(
    spec: AnalysisSpec, method: str, unit: str, values_by_model: Mapping[Member, Sequence[float]]
) -> ChartDrawing:
    """Draw the mean value of each model against the logarithm of its size; each group of models has a colour.

    Args:
        spec: The analysis.
        method: Method of the values, for the title.
        unit: Unit of the values.
        values_by_model: The values of each model.
    """
    groups = list(dict.fromkeys(model.groups[1:] for model in values_by_model))
    points = []
    sizes = []
    means = []
    for model, values in values_by_model.items():
        group = model.groups[1:]
        label = ", ".join((model.observation.model, *group))
        size = math.log10(model.x or 1.0)
        mean = Estimate(mean_over_models(values).value, None, None, None, 1)
        sizes.append(size)
        means.append(mean)
        size_estimate = Estimate(size, None, None, None, 1)
        points.append(ScatterPoint(groups.index(group), label, size_estimate, mean))
    heading = f"log10 of {spec.groups[0].heading}"
    x_axis = ChartAxis(heading, "1", max(sizes) + 0.2, min(sizes) - 0.2)
    y_axis = _axis("mean", unit, means)
    return scatter_chart(f"{spec.title}, {method}", points, x_axis, y_axis)
