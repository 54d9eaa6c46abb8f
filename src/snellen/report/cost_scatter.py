"""Scatter charts of accuracy against cost: price, tokens and seconds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.headline import OVERALL
from snellen.metrics.declaration import declared_row
from snellen.protocols.base import labelled_declaration
from snellen.records import Estimate
from snellen.report.axes import ChartAxis
from snellen.report.cost_tables import on_front
from snellen.report.drawing import ChartPanel
from snellen.report.number_text import decimal_text, figure_text
from snellen.report.reported_runs import ReportedRun
from snellen.report.scatter_chart import ScatterPoint, scatter_chart
from snellen.runs.drivers import cost_of
from snellen.scoring.request_costs import RequestCost

COST_NOTE = (
    "One point per model and protocol; accuracy is the mean over its benchmarks. Filled points, joined by the "
    "line, form the Pareto front: no other point is at least as accurate at the same or a lower cost. A chart "
    "only contains points over the same benchmarks. Seconds are the median per request, averaged over benchmarks."
)
COST_KINDS = (
    ("price of 1,000 questions", 4),
    ("tokens per question", 0),
    ("seconds per request", 3),
)
"""What costs are of, with the number of decimals that are shown."""


class CostPoint(Struct, frozen=True):
    """A model under one protocol: its mean accuracy and its costs."""

    series: int
    name: str
    accuracy: Estimate
    unit: str
    benchmarks: frozenset[str]
    costs: tuple[float | None, ...]
    """One for each of `COST_KINDS`; None if it is unknown."""


def cost_scatters(reported_runs: Sequence[ReportedRun]) -> list[ChartPanel]:
    """Draw accuracy against cost: a chart for each kind of cost (price, tokens, seconds).

    A chart needs at least two runs that were evaluated on the same benchmarks and scored by the same rules.
    """
    # Only points with the same benchmarks, unit and scoring rules can share a chart.
    groups: dict[tuple[frozenset[str], str, str], list[CostPoint]] = defaultdict(list)
    for series, reported_run in enumerate(reported_runs):
        for point in _cost_points(series, reported_run):
            groups[point.benchmarks, point.unit, reported_run.run.convention].append(point)

    panels: list[ChartPanel] = []
    for (benchmarks, _, _), points in groups.items():
        scope = ""
        if len(groups) > 1:
            plural = "" if len(benchmarks) == 1 else "s"
            scope = f", {len(benchmarks)} benchmark{plural}"
        for cost_kind in range(len(COST_KINDS)):
            with_cost = [point for point in points if point.costs[cost_kind] is not None]
            if len(with_cost) > 1:
                panels.append(_cost_panel(cost_kind, with_cost, scope))
    return panels


def _cost_points(series: int, reported_run: ReportedRun) -> Iterator[CostPoint]:
    """Yield a point for each protocol of a run: its mean accuracy over benchmarks and its costs.

    Protocols that do not measure the model, such as controls without the image, have no point. If the run is scored as
    in a paper, the paper's metric takes the place of the accuracy (`substitutes`).

    Args:
        series: The index of the run among the runs of the chart, which determines its colour.
        reported_run: The run.
    """
    run = reported_run.run

    metric = reported_run.substitutes.get("accuracy", "accuracy")
    for protocol in dict.fromkeys(cost.protocol for cost in run.costs):
        mean_accuracy = reported_run.find_result(protocol, metric, OVERALL, dimension=OVERALL)
        if mean_accuracy is None or mean_accuracy.estimate.value is None:
            continue
        if not labelled_declaration(protocol).stands_for_model:
            continue

        # Only the costs of benchmarks that the mean accuracy includes.
        costs: list[RequestCost] = []
        for cost in run.costs:
            accuracy = reported_run.find_result(protocol, metric, cost.benchmark)
            if cost.protocol == protocol and accuracy is not None:
                costs.append(cost)
        benchmarks = frozenset(cost.benchmark for cost in costs)
        n_questions = 0
        for scored in run.benchmarks:
            if scored.spec.name in benchmarks:
                n_questions += len(scored.samples)
        if n_questions == 0:
            continue

        costs_per_question = _costs_per_question(reported_run, costs, n_questions)
        yield CostPoint(
            series=series,
            name=f"{reported_run.label}, {protocol}",
            accuracy=mean_accuracy.estimate,
            unit=mean_accuracy.unit,
            benchmarks=benchmarks,
            costs=costs_per_question,
        )


def _costs_per_question(
    reported_run: ReportedRun, costs: Sequence[RequestCost], questions: int
) -> tuple[float | None, float | None, float | None]:
    """Return the price of 1,000 questions, the tokens of one question, and the seconds of one request.

    Each of them is None if it is unknown for any of the given costs.

    Args:
        reported_run: The run, with its price per token.
        costs: What its requests on some benchmarks cost.
        questions: The number of questions of these benchmarks.
    """
    price = None
    tokens = None
    usages = [cost.usage for cost in costs if cost.usage is not None]
    if len(usages) == len(costs):
        tokens_read = sum(usage.prompt_tokens or 0 for usage in usages)
        tokens_written = sum(usage.completion_tokens or 0 for usage in usages)
        tokens = (tokens_read + tokens_written) / questions
        if reported_run.run.price is not None:
            total = sum(cost_of(usage, reported_run.run.price) for usage in usages)
            price = 1000 * total / questions

    mean_seconds = None
    medians = [cost.seconds[0] for cost in costs if cost.seconds]
    if len(medians) == len(costs):
        mean_seconds = math.fsum(medians) / len(medians)
    return price, tokens, mean_seconds


def _cost_panel(cost_kind: int, points: Sequence[CostPoint], scope: str) -> ChartPanel:
    """Draw one kind of cost. Points on the Pareto front are filled, and joined by a line.

    Args:
        cost_kind: Index into `COST_KINDS`.
        points: Points that have this cost.
        scope: The end of the title, which says over which benchmarks the chart is.
    """
    heading, digits = COST_KINDS[cost_kind]
    scores_and_costs = [
        (point.accuracy.value or 0.0, point.costs[cost_kind] or 0.0) for point in points
    ]
    dots: list[ScatterPoint] = []
    front: set[tuple[float, float]] = set()
    for point, (score, cost) in zip(points, scores_and_costs, strict=True):
        is_best = on_front((score, cost), scores_and_costs)
        accuracy = figure_text(point.accuracy, point.unit)
        tooltip = f"{point.name}: accuracy {accuracy}, {heading} {decimal_text(cost, digits)}"
        if is_best:
            front.add((cost, score))
            tooltip += ", on the front"
        cost_estimate = Estimate(value=cost, stderr=None, low=None, high=None, n=point.accuracy.n)
        dots.append(
            ScatterPoint(
                point.series,
                point.name,
                cost_estimate,
                point.accuracy,
                is_hollow=not is_best,
                tooltip=tooltip,
            )
        )
    greatest_cost = max(cost for _, cost in scores_and_costs)
    x_axis = ChartAxis(heading, "", 1.06 * greatest_cost or 1.0)
    y_axis = ChartAxis.of_metric(declared_row("accuracy"), (), points[0].unit)
    title = f"Accuracy against {heading}{scope}"
    drawing = scatter_chart(title, dots, x_axis, y_axis, front=sorted(front))
    return ChartPanel(heading + scope, drawing)
