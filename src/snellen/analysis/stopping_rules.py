"""Rules that stop an adaptive run: when its interval is narrow enough, or when one of two models is better.

A rule is a text in the manifest of a run: `accuracy ±2` (the interval of the accuracy is at most 2 percentage points on
either side) or `accuracy decided` (another run decides).
"""

from __future__ import annotations

import re

from msgspec import Struct

from snellen.callers import for_caller, setting
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE, MetricRow, declared_row, find_metric, metric_of

MIN_HALF_WIDTH_POINTS = 0.1
MAX_HALF_WIDTH_POINTS = 50.0
"""Half-widths of a share, in percentage points, between which a rule is plausible."""
DECIDED_BY_COMPARISON = "decided"
_WIDTH_RULE = re.compile(r"\s*([\w.-]+)\s*(?:±|\+/?-)\s*([0-9]*\.?[0-9]+)\s*(?:%|points?)?\s*")
_WIDTH_RULE_ADVICE = "write a metric and the half-width of its interval in percentage points: 'accuracy ±2' (or 'accuracy +-2')"


class StoppingRule(Struct, frozen=True):
    """A metric with bounded values, and how wide its interval may be at the end."""

    row: MetricRow
    half_width: float | None
    """In the unit of the values: 0.02 for two percentage points. None if another run decides."""

    @property
    def metric(self) -> str:
        return self.row.name

    @property
    def low(self) -> float:
        """Lower bound of the values."""
        return self.row.low or 0.0

    @property
    def span(self) -> float:
        """Upper bound of the values minus the lower one."""
        return (self.row.high or 0.0) - self.low


def width_rule(text: str) -> StoppingRule:
    """Parse a stopping rule about the width of an interval: `accuracy ±2` stops at ±2 percentage points.

    Raises:
        DataError: The text has another form, or the metric is not a mean of bounded values.
        UnknownNameError: The metric does not exist.
    """
    where = setting("until", text, is_quoted=True)
    match = _WIDTH_RULE.fullmatch(text)
    if match is None:
        raise DataError(f"{where}: {_WIDTH_RULE_ADVICE}")
    metric, margin = match[1], float(match[2])
    row = bounded_row(metric, where)
    return StoppingRule(row, margin_in_unit(row, margin, where))


def margin_in_unit(row: MetricRow, margin: float, where: str) -> float:
    """Convert a margin to the unit of a metric's values: 2 percentage points of a share to 0.02.

    Args:
        row: The metric row.
        margin: The margin as the user wrote it: percentage points for a share, otherwise in the unit of the metric.
        where: The flag, for error messages.

    Raises:
        DataError: The margin is not above 0, or implausible for a share.
    """
    if row.unit != SHARE:
        if margin <= 0:
            raise DataError(f"{where}: {margin:g} is not a margin; give a number above 0")
        return margin
    if not MIN_HALF_WIDTH_POINTS <= margin <= MAX_HALF_WIDTH_POINTS:
        suggestion = ""
        if 0 < margin < MIN_HALF_WIDTH_POINTS:  # probably a share: 0.02 for 2 points
            suggestion = f"; {100 * margin:g} points are ±{100 * margin:g}"
        raise DataError(
            f"{where}: {margin:g} percentage points are not within {MIN_HALF_WIDTH_POINTS:g} and {MAX_HALF_WIDTH_POINTS:g}{suggestion}"
        )
    return margin / 100


def rule_of(text: str) -> StoppingRule:
    """Parse the stopping rule of an adaptive run.

    Args:
        text: `accuracy ±2` stops when the interval is that narrow, and `accuracy decided` when one of two models is
            better.
    """
    metric, _, criterion = text.partition(" ")
    if criterion == DECIDED_BY_COMPARISON:
        return StoppingRule(bounded_row(metric, text), None)
    return width_rule(text)


def decision_rule(metric: str) -> str:
    """Return the text of the rule that stops two runs when one is better in a metric: `accuracy decided`."""
    row = bounded_row(metric, for_caller(f"--sequential by {metric}", f"metric={metric!r}"))
    return f"{row.name} {DECIDED_BY_COMPARISON}"


def bounded_row(name: str, where: str) -> MetricRow:
    """Return the row of a metric that is a mean of bounded values.

    Args:
        name: Name of a metric row, or of a metric, which stands for its first row.
        where: The flag, for error messages.

    Raises:
        UnknownNameError: The metric does not exist.
        DataError: It is not a mean over questions of values within declared bounds.
    """
    metric = metric_of(name) or find_metric(name)
    row = declared_row(name) if metric_of(name) else metric.rows[0]
    if row.low is None or row.high is None:
        raise DataError(
            f"{where}: {name} declares no bounds, so there is no anytime-valid interval; choose another metric"
        )
    if metric.computed_over == "corpus":
        raise DataError(
            f"{where}: the values of {name} depend on all replies, including those still missing; choose another "
            "metric"
        )
    if row.interval not in ("proportion", "mean"):
        raise DataError(
            f"{where}: {name} is not a mean over questions, so there is no anytime-valid interval; choose another "
            "metric"
        )
    return row
