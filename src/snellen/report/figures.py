"""The charts of a report, each from the tables' own numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.analysis.capability import ALL, CAPABILITY
from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import SHARE, declared, find_metric, metric_row, print_factor
from snellen.prompts.templates import default_templates
from snellen.records import METHODS, Estimate, Method
from snellen.report import svg
from snellen.report.formatting import heading, metric_title
from snellen.report.pooled_estimates import Place, by_place, by_tag, by_template
from snellen.report.request_counts import count_rotations
from snellen.report.run_view import MethodRow, RunView, chance, dimensions_of
from snellen.report.sections import dimension_chance, other_metrics, scored_benchmarks
from snellen.report.svg import ACCURACY, Axis, PlotGroup, PlotPoint, ScatterPoint, axis_of


class ChartPanel(Struct, frozen=True):
    title: str
    svg: str


class BarRow(Struct, frozen=True):
    """What a row of a bar chart shows: its label, and where its numbers are found."""

    label: str
    benchmark: str
    dimension: str = ""
    chance: float | None = None


class Figures:
    """Draws the charts of a report; a series is a model, a panel a method. A chart without data has no panels."""

    def __init__(self, sheets: Sequence[RunView]) -> None:
        self.sheets = sheets
        self._lines = {method: self._of(method) for method in METHODS}
        self._scored = scored_benchmarks(sheets)
        self.dimensions = dimensions_of(sheets)

    def _of(self, method: Method) -> list[tuple[int, MethodRow]]:
        return [(i, line) for i, sheet in enumerate(self.sheets) for line in sheet.lines if line.method == method]

    def radar(self) -> list[ChartPanel]:
        """Dimensions as axes, when there are three or more."""
        names = self.radar_dimensions()
        if len(names) < 3:
            return []
        level = [dimension_chance(self.sheets, name) for name in names]
        panels = []
        for method, lines in self._lines.items():
            polygons = [
                (
                    i,
                    [
                        _point(i, line, BarRow(dimension_titles().get(name, name), ALL, name), CAPABILITY)
                        for name in names
                    ],
                )
                for i, line in lines
                if any(line.at(CAPABILITY, ALL, name) for name in names)
            ]
            if polygons:
                title = f"Capability by dimension, {method}"
                panels.append(
                    ChartPanel(
                        method,
                        svg.radar(title, [dimension_titles().get(name, name) for name in names], polygons, level),
                    )
                )
        return panels

    def radar_dimensions(self) -> list[str]:
        """The dimensions whose capability is a share: the rim of a radar is all of it."""
        return [name for name in self.dimensions if SHARE in self._units(name)]

    def _units(self, dimension: str) -> set[str]:
        every = (line.at(CAPABILITY, ALL, dimension) for lines in self._lines.values() for _, line in lines)
        return {found.unit for found in every if found and found.estimate.value is not None}

    def dimension_bars(self) -> list[ChartPanel]:
        rows = [
            BarRow(dimension_titles().get(name, name), ALL, name, dimension_chance(self.sheets, name))
            for name in self.dimensions
        ]
        return self._intervals("Capability by dimension", rows, CAPABILITY)

    def benchmark_bars(self) -> list[ChartPanel]:
        rows = [BarRow(name, name, "", chance(one)) for name, one in self._scored.items()]
        return self._intervals("Accuracy by benchmark", rows, "accuracy")

    def metric_bars(self) -> list[ChartPanel]:
        """What else was measured, a chart for the row that stands for each metric, on the axis that it declares."""
        rows = [BarRow(name, name) for name in self._scored]
        return [
            panel
            for metric in other_metrics(self.sheets)
            if metric in self._first_rows
            for panel in self._intervals(f"{heading(metric_title(metric))} by benchmark", rows, metric)
        ]

    @cached_property
    def _first_rows(self) -> set[str]:
        return {find_metric(name).names[0] for name in registry.names("metrics")}

    def _intervals(self, title: str, rows: Sequence[BarRow], metric: str) -> list[ChartPanel]:
        """A panel for each method and unit: numbers of several units share no axis."""
        panels = []
        for method, lines in self._lines.items():
            units: dict[str, list[PlotGroup]] = {}
            for row in rows:
                points = [_point(i, line, row, metric) for i, line in lines]
                for unit in dict.fromkeys(point.unit for point in points if point):
                    of_unit = tuple(point for point in points if point and point.unit == unit)
                    level = None if row.chance is None else print_factor(unit) * row.chance
                    level = level if unit.startswith(SHARE) else None
                    units.setdefault(unit, []).append(PlotGroup(row.label, of_unit, level))
            for unit, groups in units.items():
                axis = _axis(metric, unit, [point.estimate for group in groups for point in group.points])
                subtitle = method if unit == SHARE or metric != CAPABILITY else f"{method}, {unit}"
                panels += _panel(title, subtitle, groups, axis)
        return panels

    def tag_bars(self) -> list[ChartPanel]:
        """Accuracy by value of each tag, over the questions of all benchmarks."""
        panels = []
        for method, lines in self._lines.items():
            tags: dict[str, dict[str, list[PlotPoint]]] = {}
            for i, line in lines:
                for tag, estimates in by_tag(line).items():
                    for value, found in estimates.items():
                        name = f"{line.sheet.label}, {tag}={value}"
                        tags.setdefault(tag, {}).setdefault(value, []).append(PlotPoint(i, name, found))
            for tag, values in tags.items():
                groups = [PlotGroup(value, tuple(points)) for value, points in values.items()]
                panels += _panel(f"Accuracy by {tag}", f"{tag}, {method}", groups)
        return panels

    def place_bars(self) -> tuple[list[ChartPanel], list[ChartPanel]]:
        """How often each place is chosen, and accuracy by the place of the gold, for the commonest option counts."""
        found = [(i, line, by_place(line)) for i, line in self._lines["generation"]]
        sizes: Counter[int] = Counter()
        for _, _, places in found:
            for (size, place), share in places.chosen.items():
                sizes[size] += share.n if place == 0 else 0
        chosen, right = [], []
        for size, _ in sizes.most_common(2):
            picks = [_place_group(size, place, [(i, line, p.chosen) for i, line, p in found]) for place in range(size)]
            golds = [_place_group(size, place, [(i, line, p.right) for i, line, p in found]) for place in range(size)]
            axis = Axis("share of readable replies")
            chosen += _panel("Share of replies that choose a place", f"{size} options", picks, axis)
            right += _panel("Accuracy by place of the correct option", f"{size} options", golds)
        return chosen, right

    def template_bars(self) -> list[ChartPanel]:
        panels = []
        for method, lines in self._lines.items():
            templates: dict[str, list[PlotPoint]] = {}
            for i, line in lines:
                for name, found in by_template(line).items():
                    templates.setdefault(name, []).append(PlotPoint(i, f"{line.sheet.label}, {name}", found))
            groups = [PlotGroup(name, tuple(points), tip=self._wording(name)) for name, points in templates.items()]
            panels += _panel("Accuracy by template", method, groups)
        return panels

    def _wording(self, template: str) -> str:
        """What a template says, when all runs used Snellen's own."""
        own = default_templates()
        if any(sheet.run.manifest.templates != own.id for sheet in self.sheets):
            return template
        return f"{template}: {own.named(template)}"

    def instability_scatter(self) -> list[ChartPanel]:
        """A point a model and benchmark: is a model that is right also stable?"""
        panels = []
        points = {
            method: [
                ScatterPoint(i, f"{line.sheet.label}, {name}", shaky.estimate, right.estimate)
                for i, line in lines
                for name in self._scored
                if (shaky := line.at("instability", name)) and (right := line.at("accuracy", name))
                if shaky.estimate.value is not None and right.estimate.value is not None
            ]
            for method, lines in self._lines.items()
        }
        highs = [point.x.high or point.x.value or 0.0 for found in points.values() for point in found]
        instability = declared("instability")
        axis = Axis(instability.heading, instability.unit, max([0.5, *highs]) * 1.04)
        for method, found in points.items():
            if found:
                title = f"Instability against accuracy, {method}"
                panels.append(ChartPanel(method, svg.scatter(title, found, axis, self._accuracy_axis())))
        return panels

    def _accuracy_axis(self) -> Axis:
        """That of shares, or of shares as printed."""
        every = (line.overall("accuracy") for lines in self._lines.values() for _, line in lines)
        return axis_of(declared("accuracy"), (), next((found.unit for found in every if found), SHARE))

    def method_scatter(self) -> list[ChartPanel]:
        """A point a model and benchmark where both methods were used."""
        points = []
        for i, sheet in enumerate(self.sheets):
            lines = {line.method: line for line in sheet.lines}
            if len(lines) < 2:
                continue
            for name in self._scored:
                pair = [lines[method].at("accuracy", name) for method in METHODS]
                if pair[0] and pair[1] and pair[0].estimate.value is not None and pair[1].estimate.value is not None:
                    points.append(ScatterPoint(i, f"{sheet.label}, {name}", pair[0].estimate, pair[1].estimate))
        if not points:
            return []
        x, y = (replace(self._accuracy_axis(), title=f"accuracy by {method}") for method in METHODS)
        return [ChartPanel("", svg.scatter("Generation against likelihood", points, x, y, diagonal=True))]

    def calls(self) -> list[ChartPanel]:
        asked = [(s.label, (("asked", s.run.asked), ("reused", s.run.reused))) for s in self.sheets]
        panels = [ChartPanel("requests: asked, reused", svg.stacks("Requests asked and reused", asked))]
        rotations = [(s.label, r) for s in self.sheets if (r := count_rotations(s))]
        if rotations:
            rows = [(label, (("presented", r.presented), ("avoided", r.avoided))) for label, r in rotations]
            panels.append(
                ChartPanel("rotations: presented, avoided", svg.stacks("Rotations presented and avoided", rows))
            )
        return panels


def _point(series: int, line: MethodRow, row: BarRow, metric: str) -> PlotPoint | None:
    found = line.at(metric, row.benchmark, row.dimension)
    if found is None or found.estimate.value is None:
        return None
    return PlotPoint(series, f"{line.sheet.label}, {row.label}", found.estimate, found.unit)


def _axis(metric: str, unit: str, estimates: Sequence[Estimate]) -> Axis:
    """The metric's axis; a capability's is that of shares, or of whatever else it is a mean of."""
    row = declared(metric)
    if metric == CAPABILITY:
        row = metric_row(metric, unit=SHARE if unit.startswith(SHARE) else unit)
    return axis_of(row, estimates, unit)


def _place_group(size: int, place: int, found: Sequence[tuple[int, MethodRow, dict[Place, Estimate]]]) -> PlotGroup:
    name = f"place {place + 1}"
    points = (
        PlotPoint(i, f"{line.sheet.label}, {name}", one[size, place]) for i, line, one in found if (size, place) in one
    )
    return PlotGroup(name, tuple(points), 1 / size)


def _panel(title: str, subtitle: str, groups: Sequence[PlotGroup], axis: Axis = ACCURACY) -> list[ChartPanel]:
    """One panel, or none when no group has a point."""
    if not any(group.points for group in groups):
        return []
    return [ChartPanel(subtitle, svg.intervals(f"{title}, {subtitle}", groups, axis))]
