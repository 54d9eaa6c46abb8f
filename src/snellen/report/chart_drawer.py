"""Charts of runs: bars with intervals, radars and scatter charts, each from the numbers of the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import HEADLINE, OVERALL, protocol_preference
from snellen.metrics.declaration import (
    SHARE,
    declared_row,
    find_metric,
    metric_row,
    unit_multiplier,
)
from snellen.protocols.prompts.templates import default_templates
from snellen.records import METHODS, Estimate, Method
from snellen.report.axes import ACCURACY_AXIS, ChartAxis, PlotPoint
from snellen.report.drawing import ChartPanel
from snellen.report.interval_chart import IntervalRow, interval_chart
from snellen.report.matrix_tables import (
    benchmark_chances,
    dimension_chances,
    other_metrics,
    scored_benchmarks,
)
from snellen.report.number_text import capitalised, dimension_title, metric_title
from snellen.report.page_table import ROWS_BEFORE_FOLD
from snellen.report.pooled_estimates import (
    OptionPosition,
    PositionEstimates,
    accuracy_by_tag,
    accuracy_by_template,
    by_option_position,
)
from snellen.report.radar_chart import radar_chart
from snellen.report.reported_runs import ModelMethodRow, ReportedRun, common_chance, dimensions_of
from snellen.report.scatter_chart import ScatterPoint, scatter_chart

MIN_RADAR_AXES = 5
"""Least number of dimensions that are drawn as a radar; fewer are drawn as bars alone."""
MAX_RADAR_AXES = 24
"""Greatest number of values of a tag that are drawn as a radar: the names of more cannot be read."""
MAX_PRINTED_VALUES = 100
"""Greatest number of marks in an interval chart that also prints their values."""
MAX_CHART_MARKS = 500
"""Greatest number of marks in a readable interval chart. More are in the heat map and the table alone."""


class FigureRow(Struct, frozen=True):
    """A row of bars or of a heat map: its label, and where to look up its numbers."""

    label: str
    metric: str
    benchmark: str
    dimension: str = ""
    chance: float | None = None
    """Chance level, if it is the same for all runs."""


def dimension_row(name: str, chance: float | None = None) -> FigureRow:
    """Return the row with the capability in a dimension."""
    return FigureRow(
        label=dimension_title(name),
        metric=CAPABILITY,
        benchmark=OVERALL,
        dimension=name,
        chance=chance,
    )


class ChartDrawer:
    """Draws the charts of some runs: one series per model, one panel per method. A chart without data has no panels."""

    def __init__(self, reported_runs: Sequence[ReportedRun]) -> None:
        """Prepare to draw charts of some runs. A run keeps its index as its series number, which determines its colour."""
        self.reported_runs = reported_runs
        self.dimensions = dimensions_of(reported_runs)
        self._benchmarks = scored_benchmarks(reported_runs)
        # For each method: the index of each run that used it, which is its series, and the run's numbers.
        self._rows_by_method: dict[Method, list[tuple[int, ModelMethodRow]]] = {}
        for method in METHODS:
            self._rows_by_method[method] = []
            for series, reported_run in enumerate(reported_runs):
                for row in reported_run.method_rows:
                    if row.method == method:
                        self._rows_by_method[method].append((series, row))

    def headline(self) -> list[ChartPanel]:
        """Draw the headline number of each run as a dot with its interval, one row per model.

        There is a panel for each method (generation or likelihood) whose headline numbers all have the same unit,
        unless there are more than `MAX_CHART_MARKS` of them. If there are more than `ROWS_BEFORE_FOLD`, the best one is
        on top; otherwise they are in the order of the runs.
        """
        panels: list[ChartPanel] = []
        for method, rows in self._rows_by_method.items():
            points: list[tuple[PlotPoint, float | None]] = []
            for series, row in rows:
                number = row.headline
                if number is None or number.estimate.value is None:
                    continue
                label = row.reported_run.label
                query = _samples_query(series)
                point = PlotPoint(
                    series=series,
                    name=label,
                    estimate=number.estimate,
                    unit=number.unit,
                    samples=query,
                )
                points.append((point, row.chance))
            units = {point.unit for point, _ in points}
            if len(units) != 1 or len(points) > MAX_CHART_MARKS:
                continue
            # The page shows only the first rows of a long table, so the chart has the best models on top.
            if len(points) > ROWS_BEFORE_FOLD:
                points.sort(key=lambda entry: -(entry[0].estimate.value or 0.0))

            axis = _metric_axis(HEADLINE, units.pop(), [point.estimate for point, _ in points])
            groups = [IntervalRow(point.name, (point,), chance) for point, chance in points]
            panels += interval_panel("Headline over all benchmarks", f"by {method}", groups, axis)
        return panels

    def radar(self) -> list[ChartPanel]:
        """Draw a radar chart for each method: one axis per ability dimension, one polygon per model.

        With fewer than `MIN_RADAR_AXES` dimensions the shape has no meaning, and nothing is drawn.
        """
        names = self.radar_dimensions()
        if len(names) < MIN_RADAR_AXES:
            return []
        titles = [dimension_title(name) for name in names]
        chances = [common_chance(dimension_chances(self.reported_runs, name)) for name in names]
        panels: list[ChartPanel] = []
        for method, rows in self._rows_by_method.items():
            polygons: list[tuple[int, list[PlotPoint | None]]] = []
            for series, row in rows:
                if any(row.lookup(CAPABILITY, OVERALL, name) for name in names):
                    points = [_plot_point(series, row, dimension_row(name)) for name in names]
                    polygons.append((series, [_as_share(point) for point in points]))
            if polygons:
                title = f"Capability by dimension, {method}"
                panels.append(ChartPanel(method, radar_chart(title, titles, polygons, chances)))
        return panels

    def radar_dimensions(self) -> list[str]:
        """Return the dimensions whose capability is a share, because the rim of a radar means 100%."""
        return [name for name in self.dimensions if self._is_share(name)]

    def _is_share(self, dimension: str) -> bool:
        """Return whether a run has a value of this dimension in percent."""
        for rows in self._rows_by_method.values():
            for _, row in rows:
                number = row.lookup(CAPABILITY, OVERALL, dimension)
                if number is None or number.estimate.value is None:
                    continue
                if number.unit.startswith(SHARE):
                    return True
        return False

    def dimension_bars(self) -> list[ChartPanel]:
        """Draw the mean score in each ability dimension, one row per dimension, with a mark per model."""
        rows: list[FigureRow] = []
        for name in self.dimensions:
            chance = common_chance(dimension_chances(self.reported_runs, name))
            rows.append(dimension_row(name, chance))
        return self._bars("Capability by dimension", rows)

    def benchmark_bars(self) -> list[ChartPanel]:
        """Draw the accuracy on each benchmark, one row per benchmark, with a mark per model."""
        rows: list[FigureRow] = []
        for name in self._benchmarks:
            chance = common_chance(benchmark_chances(self.reported_runs, name))
            rows.append(FigureRow(name, "accuracy", name, chance=chance))
        return self._bars("Accuracy by benchmark", rows)

    def metric_bars(self) -> list[ChartPanel]:
        """Draw a chart for each further metric of the runs, with one row per benchmark and a mark per model.

        If a metric yields several numbers, only the first one is drawn.
        """
        metrics = other_metrics(self.reported_runs)
        if not metrics:
            # Metrics are loaded only where one is drawn: one of another package may be broken.
            return []
        first_rows: set[str] = set()
        for name in registry.names("metrics"):
            first_rows.add(find_metric(name).names[0])
        panels: list[ChartPanel] = []
        for metric in metrics:
            if metric not in first_rows:
                continue
            title = f"{capitalised(metric_title(metric))} by benchmark"
            rows = [FigureRow(name, metric, name) for name in self._benchmarks]
            panels += self._bars(title, rows)
        return panels

    def _bars(self, title: str, rows: Sequence[FigureRow]) -> list[ChartPanel]:
        """Draw a chart with a row for each of some benchmarks or dimensions, and a mark for each model in a row.

        Methods and units have separate panels, because different units cannot share an axis. A panel with more than
        `MAX_CHART_MARKS` marks is left out.

        Args:
            title: The title of the chart.
            rows: What each row shows: a metric on a benchmark or in a dimension. All have the same metric.
        """
        metric = rows[0].metric if rows else ""
        panels: list[ChartPanel] = []
        for method, model_rows in self._rows_by_method.items():
            groups_by_unit: dict[str, list[IntervalRow]] = defaultdict(list)
            for row in rows:
                points_by_unit: dict[str, list[PlotPoint]] = defaultdict(list)
                for series, model_row in model_rows:
                    point = _plot_point(series, model_row, row)
                    if point is not None:
                        points_by_unit[point.unit].append(point)
                for unit, points in points_by_unit.items():
                    chance = None
                    if row.chance is not None and unit.startswith(SHARE):
                        chance = unit_multiplier(unit) * row.chance
                    groups_by_unit[unit].append(IntervalRow(row.label, tuple(points), chance))

            for unit, groups in groups_by_unit.items():
                estimates = [point.estimate for group in groups for point in group.points]
                if len(estimates) > MAX_CHART_MARKS:
                    continue
                subtitle: str = method
                if metric == CAPABILITY and unit != SHARE:
                    subtitle = f"{method}, {unit}"
                axis = _metric_axis(metric, unit, estimates)
                panels += interval_panel(title, subtitle, groups, axis)
        return panels

    def tag_bars(self) -> list[ChartPanel]:
        """Draw the accuracy for each value of each tag, such as `level=hard`, over the questions of all benchmarks."""
        panels: list[ChartPanel] = []
        for method, rows in self._rows_by_method.items():
            points_by_tag: dict[str, dict[str, list[PlotPoint]]] = defaultdict(
                lambda: defaultdict(list)
            )
            for series, row in rows:
                for tag, estimates in accuracy_by_tag(row).items():
                    for value, estimate in estimates.items():
                        name = f"{row.reported_run.label}, {tag}={value}"
                        points_by_tag[tag][value].append(PlotPoint(series, name, estimate))
            for tag, points_by_value in points_by_tag.items():
                groups = [
                    IntervalRow(value, tuple(points)) for value, points in points_by_value.items()
                ]
                panels += interval_panel(f"Accuracy by {tag}", f"{tag}, {method}", groups)
        return panels

    def tag_radar(self) -> list[ChartPanel]:
        """Draw a radar chart for each tag, with one axis per value: for MMBench, one for each of its 20 abilities.

        The accuracy is over the questions of all benchmarks. A tag is drawn only if it has enough values for a shape to
        have a meaning, and not more than can be read.
        """
        panels: list[ChartPanel] = []
        for method, rows in self._rows_by_method.items():
            estimates_by_tag: dict[str, list[tuple[int, ModelMethodRow, Mapping[str, Estimate]]]]
            estimates_by_tag = defaultdict(list)
            for series, row in rows:
                for tag, estimates in accuracy_by_tag(row, MAX_RADAR_AXES).items():
                    estimates_by_tag[tag].append((series, row, estimates))
            for tag, models in estimates_by_tag.items():
                distinct_values: dict[str, None] = {}
                for _, _, estimates_by_value in models:
                    distinct_values.update(dict.fromkeys(estimates_by_value))
                values = list(distinct_values)
                if not MIN_RADAR_AXES <= len(values) <= MAX_RADAR_AXES:
                    continue
                polygons: list[tuple[int, list[PlotPoint | None]]] = []
                for series, row, estimates_by_value in models:
                    points: list[PlotPoint | None] = []
                    for value in values:
                        estimate = estimates_by_value.get(value)
                        name = f"{row.reported_run.label}, {tag}={value}"
                        points.append(PlotPoint(series, name, estimate) if estimate else None)
                    polygons.append((series, points))
                drawing = radar_chart(
                    f"Accuracy by {tag}, {method}", values, polygons, [None] * len(values)
                )
                panels.append(ChartPanel(f"{tag}, {method}", drawing))
        return panels

    def position_bars(self) -> tuple[list[ChartPanel], list[ChartPanel]]:
        """Draw, for each option letter, how often models choose it, and their accuracy if it is the correct one.

        Returns:
            The panels of both charts. Each chart has a panel for the number of options that most replies are about,
            such as 4, and one for the second most frequent number.
        """
        models: list[tuple[int, ModelMethodRow, PositionEstimates]] = []
        replies_by_size: Counter[int] = Counter()
        protocols: set[str] = set()
        for series, row in self._rows_by_method["generation"]:
            positions = by_option_position(row)
            models.append((series, row, positions))
            protocols |= positions.protocols
            for (size, position), share in positions.choice_rate.items():
                if position == 0:  # all positions are estimated from the same replies
                    replies_by_size[size] += share.n
        protocol_names = " and ".join(sorted(protocols, key=protocol_preference))

        chosen_panels: list[ChartPanel] = []
        correct_panels: list[ChartPanel] = []
        for size, _ in replies_by_size.most_common(2):
            chosen_rows: list[IntervalRow] = []
            correct_rows: list[IntervalRow] = []
            for position in range(size):
                name = _position_name(size, position, [positions for _, _, positions in models])
                chosen = [(series, row, positions.choice_rate) for series, row, positions in models]
                correct = [(series, row, positions.right) for series, row, positions in models]
                chosen_rows.append(_position_row((size, position), name, chosen))
                correct_rows.append(_position_row((size, position), name, correct))
            subtitle = f"{size} options, {protocol_names}"
            chosen_panels += interval_panel(
                "Share of replies that choose each letter",
                subtitle,
                chosen_rows,
                ChartAxis("share of readable replies"),
            )
            correct_panels += interval_panel(
                "Accuracy by letter of the correct answer", subtitle, correct_rows
            )
        return chosen_panels, correct_panels

    def template_bars(self) -> list[ChartPanel]:
        """Draw the accuracy with each prompt template, one row per template, with a mark per model."""
        panels: list[ChartPanel] = []
        for method, rows in self._rows_by_method.items():
            points_by_template: dict[str, list[PlotPoint]] = defaultdict(list)
            for series, row in rows:
                for template, estimate in accuracy_by_template(row).items():
                    name = f"{row.reported_run.label}, {template}"
                    points_by_template[template].append(PlotPoint(series, name, estimate))
            groups: list[IntervalRow] = []
            for template, points in points_by_template.items():
                tooltip = self._template_tooltip(template)
                groups.append(IntervalRow(template, tuple(points), tooltip=tooltip))
            panels += interval_panel("Accuracy by template", method, groups)
        return panels

    def _template_tooltip(self, template: str) -> str:
        """Return the tooltip of a prompt template: its name, with its text if all runs used Snellen's own templates."""
        default = default_templates()
        if any(
            reported_run.run.manifest.templates != default.id for reported_run in self.reported_runs
        ):
            return template
        return f"{template}: {default.named(template)}"

    def instability_scatter(self) -> list[ChartPanel]:
        """Draw a chart of instability against accuracy for each method, with a point for each model and benchmark.

        Instability is how much the chosen option varies if a question is presented differently.
        """
        points_by_method: dict[Method, list[ScatterPoint]] = {}
        greatest = 0.5
        for method, rows in self._rows_by_method.items():
            points: list[ScatterPoint] = []
            for series, row in rows:
                for name in self._benchmarks:
                    instability = row.lookup("instability", name)
                    accuracy = row.lookup("accuracy", name)
                    if instability is None or instability.estimate.value is None:
                        continue
                    if accuracy is None or accuracy.estimate.value is None:
                        continue
                    point = ScatterPoint(
                        series,
                        f"{row.reported_run.label}, {name}",
                        instability.estimate,
                        accuracy.estimate,
                        samples=_samples_query(series, name),
                    )
                    points.append(point)
                    greatest = max(greatest, point.x.high or point.x.value or 0.0)
            points_by_method[method] = points

        declaration = declared_row("instability")
        axis = ChartAxis(declaration.heading, declaration.unit, greatest * 1.04)
        panels: list[ChartPanel] = []
        for method, points in points_by_method.items():
            if points:
                title = f"Instability against accuracy, {method}"
                drawing = scatter_chart(title, points, axis, self._accuracy_axis())
                panels.append(ChartPanel(method, drawing))
        return panels

    def _accuracy_axis(self) -> ChartAxis:
        """Return the axis for accuracy: in percent if the runs are scored as in a paper that prints percentages."""
        for rows in self._rows_by_method.values():
            for _, row in rows:
                number = row.overall("accuracy")
                if number is not None:
                    return ChartAxis.of_metric(declared_row("accuracy"), (), number.unit)
        return ChartAxis.of_metric(declared_row("accuracy"), (), SHARE)

    def method_scatter(self) -> list[ChartPanel]:
        """Draw the accuracy by generation against that by likelihood: a point for each model and benchmark with both."""
        points: list[ScatterPoint] = []
        for series, reported_run in enumerate(self.reported_runs):
            rows = {row.method: row for row in reported_run.method_rows}
            if len(rows) < 2:
                continue
            for name in self._benchmarks:
                estimates: list[Estimate] = []
                for method in METHODS:
                    number = rows[method].lookup("accuracy", name)
                    if number is not None and number.estimate.value is not None:
                        estimates.append(number.estimate)
                if len(estimates) == 2:
                    x, y = estimates
                    label = f"{reported_run.label}, {name}"
                    query = _samples_query(series, name)
                    points.append(ScatterPoint(series, label, x, y, samples=query))
        if not points:
            return []
        axes = [replace(self._accuracy_axis(), title=f"accuracy by {method}") for method in METHODS]
        x_axis, y_axis = axes
        title = "Generation against likelihood"
        return [ChartPanel("", scatter_chart(title, points, x_axis, y_axis, diagonal=True))]


def interval_panel(
    title: str, subtitle: str, groups: Sequence[IntervalRow], axis: ChartAxis = ACCURACY_AXIS
) -> list[ChartPanel]:
    """Return a chart of rows with marks and intervals, as a list of one panel; an empty list without marks.

    The values are printed next to the marks if there are at most `MAX_PRINTED_VALUES` of them.
    """
    marks = sum(len(group.points) for group in groups)
    if marks == 0:
        return []
    title = f"{title}, {subtitle}"
    drawing = interval_chart(title, groups, axis, has_values=marks <= MAX_PRINTED_VALUES)
    return [ChartPanel(subtitle, drawing)]


def _plot_point(series: int, model_row: ModelMethodRow, row: FigureRow) -> PlotPoint | None:
    """Return the mark of a model in one row of a chart, or None if the model has no value there.

    Args:
        series: The number of the model, which determines its colour.
        model_row: The results of the model by one method.
        row: The metric and the benchmark or dimension that the row of the chart shows.
    """
    number = model_row.lookup(row.metric, row.benchmark, row.dimension)
    if number is None or number.estimate.value is None:
        return None
    benchmark = "" if row.benchmark == OVERALL else row.benchmark
    query = _samples_query(series, benchmark)
    name = f"{model_row.reported_run.label}, {row.label}"
    return PlotPoint(
        series=series, name=name, estimate=number.estimate, unit=number.unit, samples=query
    )


def _samples_query(series: int, benchmark: str = "") -> str:
    """Return the query of the sample browser for a model, by its index, and a benchmark: `model=0&benchmark=pets`."""
    query: dict[str, str | int] = {"model": series}
    if benchmark:
        query["benchmark"] = benchmark
    return urlencode(query)


def _as_share(point: PlotPoint | None) -> PlotPoint | None:
    """Convert a point of a chart to a share between 0 and 1, for example from percent; None for any other unit."""
    if point is None or not point.unit.startswith(SHARE):
        return None
    estimate = point.estimate.scaled(1 / unit_multiplier(point.unit))
    return replace(point, estimate=estimate, unit=SHARE)


def _metric_axis(metric: str, unit: str, estimates: Sequence[Estimate]) -> ChartAxis:
    """Return an axis for estimates of a metric.

    Summary metrics, which average other metrics, have no range of their own. Their axis is that of their unit.
    """
    row = declared_row(metric)
    if metric in (CAPABILITY, HEADLINE):
        plain_unit = SHARE if unit.startswith(SHARE) else unit
        row = metric_row(metric, unit=plain_unit)
    return ChartAxis.of_metric(row, estimates, unit)


def _position_name(size: int, position: int, models: Sequence[PositionEstimates]) -> str:
    """Return the name of an option position in a chart, such as `A, position 1`.

    Args:
        size: The number of options.
        position: The index of the option.
        models: The estimates of each model. If the option had several letters, the name has none.
    """
    labels: set[str] = set()
    for estimates in models:
        for labels_in_order in estimates.labels.get(size, ()):
            labels.add(labels_in_order[position])
    if len(labels) == 1:
        return f"{labels.pop()}, position {position + 1}"
    return f"position {position + 1}"


def _position_row(
    key: OptionPosition,
    name: str,
    models: Sequence[tuple[int, ModelMethodRow, Mapping[OptionPosition, Estimate]]],
) -> IntervalRow:
    """Return a row of a chart: the marks of all models for one option letter, and chance as 1 / (number of options).

    Args:
        key: The number of options and the position of the letter among them, from 0.
        name: The name of the row.
        models: For each model, its number, its results, and its estimates by position.
    """
    points: list[PlotPoint] = []
    for series, row, estimates in models:
        if key in estimates:
            points.append(PlotPoint(series, f"{row.reported_run.label}, {name}", estimates[key]))
    size, _ = key
    return IntervalRow(name, tuple(points), 1 / size)
