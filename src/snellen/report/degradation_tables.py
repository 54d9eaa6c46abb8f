"""Scores on degraded images: a table, and charts of the score by dose.

A degradation damages an image, for example by blur, and its dose says how much. The half-loss dose is where the score
is halfway between that on clean images and chance (`snellen.analysis.dose_response`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.dose_response import DosePoint, DoseResponse, HalfDose, dose_responses
from snellen.common.degradation import DEGRADATIONS
from snellen.metrics.declaration import declared_row
from snellen.records import Estimate
from snellen.report.axes import ChartAxis
from snellen.report.drawing import ChartPanel, ChartPoint
from snellen.report.number_text import metric_title, number_or_dash
from snellen.report.reported_runs import ReportedRun
from snellen.report.scatter_chart import ScatterPoint, scatter_chart
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate

DOSE_NOTE = (
    "Losses compare the same questions with clean and with degraded images. The last column is the dose at which "
    "a non-increasing curve, linear between the measured doses, is halfway between the clean score and chance, "
    "with a 95% bootstrap interval over images."
)
DOSE_CAPTION = (
    "Score by dose of degradation, next to the score with clean images. Whiskers are 95% intervals of the loss, "
    "paired by question. A hollow mark shows where half of the score above chance (dashed) is lost."
)


# --- table -----------------------------------------------------------------------------------------------------------


class _DoseRow(Struct, frozen=True):
    """The score of a run at one dose, and the response that it is a point of."""

    run: str
    response: DoseResponse
    point: DosePoint


def degradation_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of scores on degraded images, with a row for each run, benchmark and strength of the degradation.

    Returns:
        One table; none if no run has degraded images.
    """
    rows: list[_DoseRow] = []
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            for response in dose_responses(scored):
                rows += [_DoseRow(reported_run.label, response, point) for point in response.points]
    if not rows:
        return []
    columns: list[Column[_DoseRow]] = [
        Column("run", lambda row: row.run, is_label=True),
        Column("benchmark", lambda row: row.response.benchmark, is_label=True),
        Column("protocol", lambda row: row.response.protocol, is_label=True),
        Column("metric", lambda row: metric_title(row.response.metric), is_label=True),
        Column("the image", _degradation_text, is_label=True),
        Column("clean", lambda row: number_or_dash(row.response.clean, row.response.unit)),
        Column("degraded", lambda row: number_or_dash(row.point.value, row.response.unit)),
        Column("loss [95%] n", _loss_cell),
        Column(
            "half of the score above chance is lost at",
            lambda row: _half_loss_cell(row.response),
        ),
    ]
    return [tabulate("Loss from degraded images", columns, rows, [DOSE_NOTE])]


def _degradation_text(row: _DoseRow) -> str:
    """Return the degradation with its dose, such as `blurred by 2 pixels`."""
    title = DEGRADATIONS[row.response.kind].title
    return title.format(f"{row.point.dose:g}")


def _loss_cell(row: _DoseRow) -> Cell:
    if row.point.loss.value is None:
        return AbsentCell("no questions")
    return NumberCell.of_difference(row.response.unit, row.point.loss)


def _half_loss_cell(response: DoseResponse) -> Cell:
    """Return the half-loss dose of a response, or why it has none."""
    if response.half.why_not:
        return AbsentCell(response.half.why_not)
    return _half_loss_text(response.half, greatest_dose=response.points[-1].dose)


def _half_loss_text(half: HalfDose, greatest_dose: float) -> str:
    """Format the strength of an image degradation at which half of the score is lost, with its interval.

    For example `3.1 [2.4, beyond 8]`: the upper end is beyond the strongest degradation that was tested, 8. If all
    three are, the text is `beyond 8`.
    """

    def dose_text(dose: float | None) -> str:
        return f"beyond {greatest_dose:g}" if dose is None else f"{dose:.3g}"

    value = dose_text(half.value)
    if half.value is None and half.low is None and half.high is None:
        return value
    return f"{value} [{dose_text(half.low)}, {dose_text(half.high)}]"


# --- charts ----------------------------------------------------------------------------------------------------------


class _Curve(Struct, frozen=True):
    """The response of one run, which is the series of that index in a chart."""

    series: int
    run: str
    response: DoseResponse


def dose_panels(reported_runs: Sequence[ReportedRun]) -> Iterator[ChartPanel]:
    """Yield a chart of the score against the strength of an image degradation, with a curve for each run.

    There is one chart for each benchmark, protocol, metric and kind of degradation.
    """
    curves_by_panel: dict[tuple[str, str, str, str], list[_Curve]] = defaultdict(list)
    for series, reported_run in enumerate(reported_runs):
        for scored in reported_run.run.benchmarks:
            for response in dose_responses(scored):
                panel = (response.benchmark, response.protocol, response.metric, response.kind)
                curves_by_panel[panel].append(_Curve(series, reported_run.label, response))
    for curves in curves_by_panel.values():
        yield _dose_panel(curves)


def _dose_panel(curves: Sequence[_Curve]) -> ChartPanel:
    """Draw one chart of the score against the strength of a degradation, with a dashed line at the chance level.

    Args:
        curves: The curve of each run, all for the same benchmark and degradation.
    """
    response = curves[0].response
    points: list[ScatterPoint] = []
    lines: list[tuple[int | None, list[ChartPoint]]] = []
    for curve in curves:
        marks = list(_dose_marks(curve))
        points += marks
        positions = [_point_of_mark(mark) for mark in marks if not mark.is_hollow]
        lines.append((curve.series, positions))

    doses = [_point_of_mark(point)[0] for point in points]
    x_title = DEGRADATIONS[response.kind].title.format("dose")
    x_axis = ChartAxis(x_title, "", top=max(doses), bottom=min(doses))
    y_axis = ChartAxis.of_metric(
        declared_row(response.metric), [point.y for point in points], response.unit
    )
    chance_line = [(x_axis.bottom, response.chance), (x_axis.top, response.chance)]
    lines.append((None, chance_line))

    title = f"{response.benchmark}, {response.protocol}, {response.kind}"
    chart = scatter_chart(f"{title}: dose and score", points, x_axis, y_axis, curves=lines)
    return ChartPanel(title, chart)


def _point_of_mark(mark: ScatterPoint) -> ChartPoint:
    """Return the dose and the score of a mark, without their intervals, for the line through several marks."""
    return mark.x.value or 0.0, mark.y.value or 0.0


def _dose_marks(curve: _Curve) -> Iterator[ScatterPoint]:
    """Yield the points of one run in a chart of scores on degraded images.

    These are the score on clean images, the score at each strength of the degradation with its interval, and as a
    hollow mark the strength at which half of the score above chance is lost.
    """
    response = curve.response
    clean_dose = DEGRADATIONS[response.kind].none
    yield _score_mark(curve, clean_dose, _without_interval(response.clean))
    for point in response.points:
        if point.value is None:
            continue
        # The interval of the loss is shown around the score: score = clean - loss.
        low = None if point.loss.high is None else response.clean - point.loss.high
        high = None if point.loss.low is None else response.clean - point.loss.low
        yield _score_mark(
            curve, point.dose, Estimate(value=point.value, stderr=None, low=low, high=high, n=0)
        )

    half = response.half
    if half.value is None:
        return
    halfway = response.chance + (response.clean - response.chance) / 2
    half_text = _half_loss_text(half, greatest_dose=response.points[-1].dose)
    yield ScatterPoint(
        curve.series,
        curve.run,
        Estimate(value=half.value, stderr=None, low=half.low, high=half.high, n=0),
        _without_interval(halfway),
        is_hollow=True,
        tooltip=f"{curve.run}: half of the score above chance is lost at {half_text}",
    )


def _score_mark(curve: _Curve, dose: float, score: Estimate) -> ScatterPoint:
    """Return the mark of a run in a chart of scores on degraded images.

    Args:
        curve: The curve of the run, which determines the colour and the label.
        dose: The strength of the degradation: the x of the mark.
        score: The score with its interval: the y of the mark.
    """
    name = f"{curve.run}, dose {dose:g}"
    return ScatterPoint(curve.series, name, _without_interval(dose), score)


def _without_interval(value: float) -> Estimate:
    """Return an estimate without an interval."""
    return Estimate(value=value, stderr=None, low=None, high=None, n=0)
