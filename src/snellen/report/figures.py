"""The figures of a report, each from the tables' own numbers: on the page, and as files of their own."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import ALL, HEADLINE, protocol_preference
from snellen.analysis.statistics import scaled_estimate
from snellen.metrics.declaration import SHARE, declared, find_metric, metric_row, unit_multiplier
from snellen.protocols.base import labelled_declaration
from snellen.protocols.prompts.templates import default_templates
from snellen.records import METHODS, Estimate, Method
from snellen.report import charts
from snellen.report.charts import (
    ACCURACY,
    Axis,
    ChartPanel,
    IntervalRow,
    PlotPoint,
    Scale,
    ScatterPoint,
    axis_of,
    heat_map,
    scatter_chart,
)
from snellen.report.content import ChartBlock
from snellen.report.cost_tables import MILLION, on_front
from snellen.report.pooled_estimates import (
    OptionPosition,
    PositionEstimates,
    accuracy_by_tag,
    accuracy_by_template,
    by_option_position,
)
from snellen.report.protocol_tables import DOSE_CAPTION, dose_panels
from snellen.report.run_view import (
    ModelMethodRow,
    RunView,
    common_chance,
    dimensions_of,
    method_rows,
)
from snellen.report.sections import (
    benchmark_chances,
    dimension_chances,
    other_metrics,
    scored_benchmarks,
)
from snellen.report.table import (
    FOLDED,
    capitalised,
    decimal_text,
    dimension_title,
    figure_text,
    metric_title,
)
from snellen.scoring.request_costs import RequestCost

FEWEST_AXES = 5
"""Dimensions from which on they are drawn as a radar; fewer are bars alone."""
MOST_VALUES, MOST_MARKS = 100, 500
"""Marks up to which a chart of intervals has their values, and up to which it can be read; of more there are the heat
map and the table."""


class FigureRow(Struct, frozen=True):
    """A row of bars or of a heat map: its label, and where to look up its numbers."""

    label: str
    metric: str
    benchmark: str
    dimension: str = ""
    chance: float | None = None
    """The level of guessing, where all runs have the same."""


class ChartDrawer:
    """Draws the charts of a report: one series per model, one panel per method. A chart without data has no panels."""

    def __init__(self, views: Sequence[RunView]) -> None:
        self.views = views
        self._lines = {method: self._of(method) for method in METHODS}
        self._all_lines = [line for lines in self._lines.values() for _, line in lines]
        self._scored = scored_benchmarks(views)
        self.dimensions = dimensions_of(views)

    def _of(self, method: Method) -> list[tuple[int, ModelMethodRow]]:
        return [
            (i, line)
            for i, view in enumerate(self.views)
            for line in view.method_rows
            if line.method == method
        ]

    def headline(self) -> list[ChartPanel]:
        """The number of each run, a row per model; nothing if benchmarks have no common scale."""
        panels: list[ChartPanel] = []
        for method, lines in self._lines.items():
            groups = []
            for i, line in lines:
                number = line.headline
                if number is None or number.estimate.value is None:
                    continue
                point = PlotPoint(i, line.view.label, number.estimate, number.unit, _samples_of(i))
                groups.append(IntervalRow(line.view.label, (point,), line.chance))
            units = {point.unit for group in groups for point in group.points}
            if len(units) != 1 or len(groups) > MOST_MARKS:
                continue
            if len(groups) > FOLDED:  # only the first rows of the table below are seen
                groups.sort(key=lambda group: -(group.points[0].estimate.value or 0.0))
            estimates = [group.points[0].estimate for group in groups]
            axis = _axis(HEADLINE, units.pop(), estimates)
            panels += _panel("Headline over all benchmarks", f"by {method}", groups, axis)
        return panels

    def radar(self) -> list[ChartPanel]:
        """Dimensions as axes, if there are enough of them for a shape to mean something."""
        names = self.radar_dimensions()
        if len(names) < FEWEST_AXES:
            return []
        level = [common_chance(dimension_chances(self.views, name)) for name in names]
        panels = []
        for method, lines in self._lines.items():
            polygons = [
                (
                    i,
                    [_share(_point(i, line, _of_dimension(name))) for name in names],
                )
                for i, line in lines
                if any(line.lookup(CAPABILITY, ALL, name) for name in names)
            ]
            if polygons:
                title = f"Capability by dimension, {method}"
                panels.append(
                    ChartPanel(
                        method,
                        charts.radar_chart(
                            title, [dimension_title(name) for name in names], polygons, level
                        ),
                    )
                )
        return panels

    def radar_dimensions(self) -> list[str]:
        """The dimensions whose capability is a share, since the rim of a radar means 100%."""
        return [
            name
            for name in self.dimensions
            if any(unit.startswith(SHARE) for unit in self._units(name))
        ]

    def _units(self, dimension: str) -> set[str]:
        numbers = (
            line.lookup(CAPABILITY, ALL, dimension)
            for lines in self._lines.values()
            for _, line in lines
        )
        return {number.unit for number in numbers if number and number.estimate.value is not None}

    def dimension_bars(self) -> list[ChartPanel]:
        rows = [
            replace(_of_dimension(name), chance=common_chance(dimension_chances(self.views, name)))
            for name in self.dimensions
        ]
        return self._intervals("Capability by dimension", rows)

    def benchmark_bars(self) -> list[ChartPanel]:
        rows = [
            FigureRow(
                name, "accuracy", name, chance=common_chance(benchmark_chances(self.views, name))
            )
            for name in self._scored
        ]
        return self._intervals("Accuracy by benchmark", rows)

    def metric_bars(self) -> list[ChartPanel]:
        """One chart for the headline row of every other metric, on the axis that it declares."""
        metrics = other_metrics(self.views)
        first_rows = (
            {find_metric(name).names[0] for name in registry.names("metrics")} if metrics else set()
        )
        return [
            panel
            for metric in metrics
            if metric in first_rows
            for panel in self._intervals(
                f"{capitalised(metric_title(metric))} by benchmark",
                [FigureRow(name, metric, name) for name in self._scored],
            )
        ]

    def _intervals(self, title: str, rows: Sequence[FigureRow]) -> list[ChartPanel]:
        """Rows of one metric: a panel per method and unit, since different units cannot share an axis."""
        panels = []
        metric = rows[0].metric if rows else ""
        for method, lines in self._lines.items():
            units: dict[str, list[IntervalRow]] = {}
            for row in rows:
                points = [_point(i, line, row) for i, line in lines]
                for unit in dict.fromkeys(point.unit for point in points if point):
                    of_unit = tuple(point for point in points if point and point.unit == unit)
                    level = None if row.chance is None else unit_multiplier(unit) * row.chance
                    level = level if unit.startswith(SHARE) else None
                    units.setdefault(unit, []).append(IntervalRow(row.label, of_unit, level))
            for unit, groups in units.items():
                if sum(len(group.points) for group in groups) > MOST_MARKS:
                    continue
                axis = _axis(
                    metric, unit, [point.estimate for group in groups for point in group.points]
                )
                subtitle = method if unit == SHARE or metric != CAPABILITY else f"{method}, {unit}"
                panels += _panel(title, subtitle, groups, axis)
        return panels

    def tag_bars(self) -> list[ChartPanel]:
        """Accuracy by value of each tag, over the questions of all benchmarks."""
        panels: list[ChartPanel] = []
        for method, lines in self._lines.items():
            tags: dict[str, dict[str, list[PlotPoint]]] = {}
            for i, line in lines:
                for tag, estimates in accuracy_by_tag(line).items():
                    for value, estimate in estimates.items():
                        name = f"{line.view.label}, {tag}={value}"
                        tags.setdefault(tag, {}).setdefault(value, []).append(
                            PlotPoint(i, name, estimate)
                        )
            for tag, values in tags.items():
                groups = [IntervalRow(value, tuple(points)) for value, points in values.items()]
                panels += _panel(f"Accuracy by {tag}", f"{tag}, {method}", groups)
        return panels

    def position_bars(self) -> tuple[list[ChartPanel], list[ChartPanel]]:
        """How often each letter is chosen, and accuracy by letter of the right answer, for the two commonest sizes."""
        by_line = [(i, line, by_option_position(line)) for i, line in self._lines["generation"]]
        sizes: Counter[int] = Counter()
        for _, _, places in by_line:
            for (size, place), share in places.chosen.items():
                sizes[size] += share.n if place == 0 else 0
        chosen, right = list[ChartPanel](), list[ChartPanel]()
        for size, _ in sizes.most_common(2):
            under = " and ".join(
                sorted(
                    frozenset().union(*(p.protocols for _, _, p in by_line)),
                    key=protocol_preference,
                )
            )
            names = [_place_name(size, place, [p for _, _, p in by_line]) for place in range(size)]
            picks = [
                _place_group(size, place, name, [(i, line, p.chosen) for i, line, p in by_line])
                for place, name in enumerate(names)
            ]
            golds = [
                _place_group(size, place, name, [(i, line, p.right) for i, line, p in by_line])
                for place, name in enumerate(names)
            ]
            axis = Axis("share of readable replies")
            chosen += _panel(
                "Share of replies that choose each letter", f"{size} options, {under}", picks, axis
            )
            right += _panel(
                "Accuracy by letter of the right answer", f"{size} options, {under}", golds
            )
        return chosen, right

    def template_bars(self) -> list[ChartPanel]:
        panels: list[ChartPanel] = []
        for method, lines in self._lines.items():
            templates: dict[str, list[PlotPoint]] = {}
            for i, line in lines:
                for name, estimate in accuracy_by_template(line).items():
                    templates.setdefault(name, []).append(
                        PlotPoint(i, f"{line.view.label}, {name}", estimate)
                    )
            groups = [
                IntervalRow(name, tuple(points), tooltip=self._wording(name))
                for name, points in templates.items()
            ]
            panels += _panel("Accuracy by template", method, groups)
        return panels

    def _wording(self, template: str) -> str:
        """A template's name, with its wording if all runs used Snellen's own templates."""
        default = default_templates()
        if any(view.run.manifest.templates != default.id for view in self.views):
            return template
        return f"{template}: {default.named(template)}"

    def instability_scatter(self) -> list[ChartPanel]:
        """One point per model and benchmark: is a model that is right also stable?"""
        panels = []
        points = {
            method: [
                ScatterPoint(
                    i,
                    f"{line.view.label}, {name}",
                    instability_number.estimate,
                    accuracy_number.estimate,
                    samples=_samples_of(i, name),
                )
                for i, line in lines
                for name in self._scored
                if (instability_number := line.lookup("instability", name))
                and (accuracy_number := line.lookup("accuracy", name))
                if instability_number.estimate.value is not None
                and accuracy_number.estimate.value is not None
            ]
            for method, lines in self._lines.items()
        }
        highs = [
            point.x.high or point.x.value or 0.0
            for method_points in points.values()
            for point in method_points
        ]
        instability = declared("instability")
        axis = Axis(instability.heading, instability.unit, max([0.5, *highs]) * 1.04)
        for method, method_points in points.items():
            if method_points:
                title = f"Instability against accuracy, {method}"
                panels.append(
                    ChartPanel(
                        method,
                        charts.scatter_chart(title, method_points, axis, self._accuracy_axis()),
                    )
                )
        return panels

    def _accuracy_axis(self) -> Axis:
        """The axis of shares, or of shares scaled as published."""
        numbers = (line.overall("accuracy") for lines in self._lines.values() for _, line in lines)
        return axis_of(
            declared("accuracy"), (), next((number.unit for number in numbers if number), SHARE)
        )

    def method_scatter(self) -> list[ChartPanel]:
        """One point per model and benchmark for which both methods were used."""
        points = []
        for i, view in enumerate(self.views):
            lines = {line.method: line for line in view.method_rows}
            if len(lines) < 2:
                continue
            for name in self._scored:
                pair = [lines[method].lookup("accuracy", name) for method in METHODS]
                if (
                    pair[0]
                    and pair[1]
                    and pair[0].estimate.value is not None
                    and pair[1].estimate.value is not None
                ):
                    estimates = pair[0].estimate, pair[1].estimate
                    points.append(
                        ScatterPoint(
                            i, f"{view.label}, {name}", *estimates, samples=_samples_of(i, name)
                        )
                    )
        if not points:
            return []
        x, y = (replace(self._accuracy_axis(), title=f"accuracy by {method}") for method in METHODS)
        return [
            ChartPanel(
                "",
                charts.scatter_chart("Generation against likelihood", points, x, y, diagonal=True),
            )
        ]


def _of_dimension(name: str) -> FigureRow:
    return FigureRow(dimension_title(name), CAPABILITY, ALL, name)


def _point(series: int, line: ModelMethodRow, row: FigureRow) -> PlotPoint | None:
    number = line.lookup(row.metric, row.benchmark, row.dimension)
    if number is None or number.estimate.value is None:
        return None
    samples = _samples_of(series, "" if row.benchmark == ALL else row.benchmark)
    return PlotPoint(
        series, f"{line.view.label}, {row.label}", number.estimate, number.unit, samples
    )


def _samples_of(model: int, benchmark: str = "") -> str:
    """The query of the browser of samples for a model, by its place, and a benchmark."""
    return urlencode({"model": model} | ({"benchmark": benchmark} if benchmark else {}))


def _share(point: PlotPoint | None) -> PlotPoint | None:
    """A point in shares of one, also where a paper prints them in per cent; None for any other unit."""
    if point is None or not point.unit.startswith(SHARE):
        return None
    return replace(
        point, estimate=scaled_estimate(point.estimate, 1 / unit_multiplier(point.unit)), unit=SHARE
    )


def _axis(metric: str, unit: str, estimates: Sequence[Estimate]) -> Axis:
    """The metric's axis; a capability has that of shares, or of whatever unit it averages."""
    row = declared(metric)
    if metric in (CAPABILITY, HEADLINE):
        row = metric_row(metric, unit=SHARE if unit.startswith(SHARE) else unit)
    return axis_of(row, estimates, unit)


def _place_name(size: int, place: int, by_line: Sequence[PositionEstimates]) -> str:
    """`A, place 1`; without a letter where the option there was not always called the same."""
    labels = {shown[place] for estimates in by_line for shown in estimates.labels.get(size, ())}
    return f"{labels.pop()}, place {place + 1}" if len(labels) == 1 else f"place {place + 1}"


def _place_group(
    size: int,
    place: int,
    name: str,
    by_line: Sequence[tuple[int, ModelMethodRow, dict[OptionPosition, Estimate]]],
) -> IntervalRow:
    points = (
        PlotPoint(i, f"{line.view.label}, {name}", estimates[size, place])
        for i, line, estimates in by_line
        if (size, place) in estimates
    )
    return IntervalRow(name, tuple(points), 1 / size)


def _panel(
    title: str, subtitle: str, groups: Sequence[IntervalRow], axis: Axis = ACCURACY
) -> list[ChartPanel]:
    """One panel, or none when no group has a point; values stand beside the marks where these are not too many."""
    marks = sum(len(group.points) for group in groups)
    title = f"{title}, {subtitle}"
    return [
        ChartPanel(
            subtitle, charts.interval_chart(title, groups, axis, has_values=marks <= MOST_VALUES)
        )
    ] * bool(marks)


# --- heat maps -------------------------------------------------------------------------------------------------------


HEAT_NOTE = (
    "One cell per model and row, in per cent: the stronger the tint, the nearer to 100%. An empty cell was not "
    "measured, or is not a share."
)
PER_CENT = Scale(SHARE, 0, 100.0, (0.0, 1.0))


def benchmark_heat_maps(views: Sequence[RunView]) -> list[ChartPanel]:
    """The headline of each benchmark, where it is a share; from two benchmarks and two models on."""
    rows = []
    for name in scored_benchmarks(views):
        of_models = [line.headlines.get(name) for line in method_rows(views)]
        metrics = dict.fromkeys(row.metric for row in of_models if row)
        for metric in metrics:
            label = name if metric == "accuracy" else f"{name}, {metric_title(metric)}"
            rows.append(FigureRow(label, metric, name))
    return list(_panels("Headline by benchmark", rows, views))


def dimension_heat_maps(views: Sequence[RunView]) -> list[ChartPanel]:
    """The capability in each dimension, where it is a share; from two dimensions and two models on."""
    return list(
        _panels("Capability by dimension", list(map(_of_dimension, dimensions_of(views))), views)
    )


def _panels(
    title: str, rows: Sequence[FigureRow], views: Sequence[RunView]
) -> Iterator[ChartPanel]:
    for method in METHODS:
        lines = [line for line in method_rows(views) if line.method == method]
        grid = {
            (row.label, line.view.label): scaled_estimate(
                number.estimate, 1 / unit_multiplier(number.unit)
            )
            for row in rows
            for line in lines
            if (number := line.lookup(row.metric, row.benchmark, row.dimension))
            and number.unit.startswith(SHARE)
            and number.estimate.value is not None
        }
        labels = [row.label for row in rows if any(label == row.label for label, _ in grid)]
        names = _names(lines, (name for _, name in grid))
        if len(labels) > 1 and len(names) > 1:
            yield ChartPanel(method, heat_map(f"{title}, {method}", labels, names, grid, PER_CENT))


def _names(lines: Sequence[ModelMethodRow], measured: Iterable[str]) -> list[str]:
    names = set(measured)
    return [line.view.label for line in lines if line.view.label in names]


# --- accuracy against cost -------------------------------------------------------------------------------------------


COST_NOTE = (
    "One point per model and protocol: accuracy is the mean over the benchmarks that it was asked. Filled, and joined "
    "by the line: the Pareto front, where no other point is at least as accurate at no greater cost. Only points over "
    "the same benchmarks stand in one chart. Seconds are the median of a request, averaged over benchmarks."
)
KINDS = (("price of 1,000 questions", 4), ("tokens per question", 0), ("seconds of a request", 3))
"""What a question costs, and with how many decimals it is written."""


class CostPoint(Struct, frozen=True):
    """A model under one protocol: its mean accuracy, and what a question took by each of `KINDS`."""

    series: int
    name: str
    accuracy: Estimate
    unit: str
    benchmarks: frozenset[str]
    costs: tuple[float | None, ...]


def cost_scatters(views: Sequence[RunView]) -> list[ChartPanel]:
    """A chart for each kind of cost that at least two comparable points have."""
    groups: dict[tuple[frozenset[str], str, str], list[CostPoint]] = defaultdict(list)
    for series, view in enumerate(views):
        for point in _points(series, view):
            groups[point.benchmarks, point.unit, view.run.convention].append(point)
    return [
        _cost_panel(kind, points, benchmarks if len(groups) > 1 else frozenset())
        for (benchmarks, _, _), members in groups.items()
        for kind in range(len(KINDS))
        if len(points := [point for point in members if point.costs[kind] is not None]) > 1
    ]


def _points(series: int, view: RunView) -> Iterator[CostPoint]:
    metric = view.substitutes.get("accuracy", "accuracy")
    for protocol in dict.fromkeys(cost.protocol for cost in view.run.costs):
        row = view.results_by_key.get((protocol, metric, ALL, ALL, ""))
        if (
            row is None
            or row.estimate.value is None
            or not labelled_declaration(protocol).stands_for_model
        ):
            continue
        costs = [
            cost
            for cost in view.run.costs
            if cost.protocol == protocol
            and (protocol, metric, cost.benchmark, "", "") in view.results_by_key
        ]
        names = frozenset(cost.benchmark for cost in costs)
        questions = sum(
            len(scored.samples) for scored in view.run.benchmarks if scored.spec.name in names
        )
        if questions:
            yield CostPoint(
                series,
                f"{view.label}, {protocol}",
                row.estimate,
                row.unit,
                names,
                _costs(view, costs, questions),
            )


def _costs(view: RunView, costs: Sequence[RequestCost], questions: int) -> tuple[float | None, ...]:
    usages = [cost.usage for cost in costs if cost.usage is not None]
    seconds = [cost.seconds[0] for cost in costs if cost.seconds]
    price = tokens = None
    if len(usages) == len(costs):
        tokens_read = sum(usage.prompt_tokens or 0 for usage in usages)
        tokens_written = sum(usage.completion_tokens or 0 for usage in usages)
        tokens = (tokens_read + tokens_written) / questions
        if view.run.price is not None:
            price = (
                1000
                * (tokens_read * view.run.price[0] + tokens_written * view.run.price[1])
                / MILLION
                / questions
            )
    return price, tokens, math.fsum(seconds) / len(seconds) if len(seconds) == len(costs) else None


def _cost_panel(kind: int, points: Sequence[CostPoint], benchmarks: frozenset[str]) -> ChartPanel:
    heading, digits = KINDS[kind]
    places = [(point.accuracy.value or 0.0, point.costs[kind] or 0.0) for point in points]
    best = [on_front(place, places) for place in places]
    dots = [
        ScatterPoint(
            point.series,
            point.name,
            Estimate(cost, None, None, None, point.accuracy.n),
            point.accuracy,
            not is_best,
            f"{point.name}: accuracy {figure_text(point.accuracy, point.unit)}, {heading} {decimal_text(cost, digits)}"
            + (", on the front" if is_best else ""),
        )
        for point, (_, cost), is_best in zip(points, places, best, strict=True)
    ]
    front = sorted(
        {(cost, score) for (score, cost), is_best in zip(places, best, strict=True) if is_best}
    )
    x_axis = Axis(heading, "", 1.06 * max(cost for _, cost in places) or 1.0)
    y_axis = axis_of(declared("accuracy"), (), points[0].unit)
    of = f", {len(benchmarks)} benchmark{'s' * (len(benchmarks) != 1)}" if benchmarks else ""
    title = f"Accuracy against {heading}{of}"
    return ChartPanel(f"{heading}{of}", scatter_chart(title, dots, x_axis, y_axis, front=front))


# --- figures of a report by name -------------------------------------------------------------------------------------


HEADLINE_CAPTION = (
    "One row per model: its mark, its 95% interval and its value over all benchmarks; the dashed line is what guessing "
    "gives."
)
WHISKERS = "One mark per model and row. Whiskers are 95% intervals; the dashed line is what guessing gives."
POINT_AT = "Point at a mark for its numbers."
RADAR = "One outline per model, from 0% in the middle to 100% at the rim; the dotted one is what guessing gives."
TEMPLATES = (
    "One mark per model and template, over all presentations of all benchmarks that used it."
)
PLACES = "One mark per model and letter. A model without a preference chooses each letter equally often (dashed)."
METRICS = "One mark per model and benchmark, each metric on an axis in its own unit; whiskers are 95% intervals."
TAGS = (
    "One mark per model and value of the tag, over the questions of all benchmarks that carry it."
)
INSTABILITY = (
    "One point per model and benchmark. Instability is the entropy of the options chosen when the same question is put "
    "in other words and orders; 0 is a model that never wavers, right or wrong."
)
METHODS_NOTE = "One point per model and benchmark. Above the line, the model is right more often by likelihood than by generation."


def report_figures(views: Sequence[RunView]) -> dict[str, ChartBlock]:
    """All figures in the order of the page; one without data has no panels."""
    drawer = ChartDrawer(views)
    names = tuple(view.label for view in views)
    missing = [
        dimension_title(name) for name in drawer.dimensions if name not in drawer.radar_dimensions()
    ]
    radar = RADAR + (
        f" Not shown, because they are not shares: {', '.join(missing)}." if missing else ""
    )
    chosen, right = drawer.position_bars()
    whiskers = f"{WHISKERS} {POINT_AT}"

    def series(panels: Sequence[ChartPanel], caption: str, *, is_tall: bool = False) -> ChartBlock:
        return ChartBlock(tuple(panels), caption, names, is_tall)

    return {
        "headline": ChartBlock(tuple(drawer.headline()), HEADLINE_CAPTION),
        "radar": series(drawer.radar(), radar),
        "dimensions": series(drawer.dimension_bars(), whiskers),
        "dimension-heat-map": ChartBlock(tuple(dimension_heat_maps(views)), HEAT_NOTE),
        "instability": series(drawer.instability_scatter(), INSTABILITY, is_tall=True),
        "templates": series(drawer.template_bars(), TEMPLATES),
        "methods": series(drawer.method_scatter(), METHODS_NOTE, is_tall=True),
        "doses": series(tuple(dose_panels(views)), DOSE_CAPTION),
        "benchmark-heat-map": ChartBlock(tuple(benchmark_heat_maps(views)), HEAT_NOTE),
        "benchmarks": series(drawer.benchmark_bars(), whiskers),
        "metrics": series(drawer.metric_bars(), METRICS),
        "tags": series(drawer.tag_bars(), TAGS),
        "positions-chosen": series(chosen, PLACES),
        "positions-correct": series(right, whiskers),
        "cost": series(cost_scatters(views), COST_NOTE),
    }
