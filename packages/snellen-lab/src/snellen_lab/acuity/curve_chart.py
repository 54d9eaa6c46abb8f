"""Chart of psychometric curves: shares of right replies by level, for the models of a test."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from snellen.plugin_api import ChartDrawing, ChartPanel, DrawingBuilder
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.labels import label_of, needs_method_rows, row_key
from snellen_lab.acuity.thresholds import FEW, Threshold

ModelThresholds = Sequence[tuple[int, Threshold]]
"""Pairs of the index of a model and one of its thresholds."""

# In pixels.
LEFT = 52.0
TOP = 14.0
RIGHT = DrawingBuilder.default_width - 16.0
BOTTOM = 250.0
LANE_HEIGHT = 9.0  # of the interval of a model below the curves
MIN_TICK_SPACING = 40.0
DIGIT_WIDTH = 8.0  # of a tick label


def curve_panels(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """Yield a chart for each test, with the replies, curves and thresholds of all models."""
    with_method = needs_method_rows(runs)
    models = [run.model for run in runs]
    thresholds_by_test: dict[tuple[str, str], list[tuple[int, Threshold]]] = defaultdict(list)
    for model_index, run in enumerate(runs):
        for threshold in run.thresholds:
            test_key = row_key(threshold, with_method)
            thresholds_by_test[test_key].append((model_index, threshold))

    for thresholds in thresholds_by_test.values():
        _, first_threshold = thresholds[0]
        title = label_of(first_threshold, with_method)
        yield ChartPanel(title, _curve_chart(thresholds, models))


class _Axes:
    """Positions of levels and shares in the chart of a test."""

    def __init__(self, threshold: Threshold) -> None:
        self._scale = threshold.scale
        self._hardest_x = self._scale.x(threshold.hardest)
        self._easiest_x = self._scale.x(threshold.easiest)

    def x(self, level: float) -> float:
        """Return the horizontal position of a level in pixels; the hardest level is at the left edge of the chart."""
        offset = self._scale.x(level) - self._hardest_x
        span = self._easiest_x - self._hardest_x
        return LEFT + (RIGHT - LEFT) * offset / span

    def point(self, level: float, share: float) -> tuple[float, float]:
        """Return the position of a share of correct replies at a level, in pixels."""
        return self.x(level), BOTTOM - (BOTTOM - TOP) * share


def _curve_chart(thresholds: ModelThresholds, models: Sequence[str]) -> ChartDrawing:
    """Draw the curves of a test. Below them, each model has a lane with its threshold and interval."""
    _, first = thresholds[0]
    axes = _Axes(first)
    bottom = BOTTOM + LANE_HEIGHT * len(thresholds) + 6

    builder = DrawingBuilder()
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = axes.point(first.hardest, share)
        builder.line((LEFT, y), (RIGHT, y), "grid")
        builder.text(LEFT - 8, y + 4, f"{share:.0%}", "end tick")

    label_end = -math.inf
    for point in first.points:
        x = axes.x(point.level)
        label = f"{point.level:.4g}" if point.level >= 1 else f"{point.level:.2g}"
        half_width = max(MIN_TICK_SPACING, DIGIT_WIDTH * (len(label) + 1)) / 2
        if x - half_width < label_end:  # Its label would touch the one before.
            continue
        builder.line((x, TOP), (x, bottom), "grid")
        builder.text(x, bottom + 14, label, "tick")
        label_end = x + half_width

    chance_start = axes.point(first.hardest, first.chance)
    chance_end = axes.point(first.easiest, first.chance)
    builder.line(chance_start, chance_end, "reference")
    axis_title = f"{first.title} ({first.unit})" if first.unit else first.title
    builder.text((LEFT + RIGHT) / 2, bottom + 32, axis_title, "axis")

    for lane, (model_index, threshold) in enumerate(thresholds):
        lane_y = BOTTOM + 8 + LANE_HEIGHT * lane
        _draw_curve(builder, model_index, models[model_index], threshold, axes, lane_y)
    return builder.drawing(f"{first.test}: correct replies by level", height=bottom + 40)


def _draw_curve(
    builder: DrawingBuilder,
    model_index: int,
    model: str,
    threshold: Threshold,
    axes: _Axes,
    lane_y: float,
) -> None:
    """Draw the result of one model in the chart of a test.

    This is its fitted curve, a mark for each level with replies, and below the curves its threshold with the interval.

    Args:
        builder: Receives the shapes.
        model_index: Index of the model, which decides its colour.
        model: Name of the model.
        threshold: Its result.
        axes: Positions of levels and shares.
        lane_y: Vertical position of the threshold in pixels.
    """
    curve = [axes.point(point.level, point.fitted) for point in threshold.points]
    builder.path(curve, "curve", is_open=True, series=model_index)

    for point in threshold.points:
        if not point.trials:
            continue
        x, y = axes.point(point.level, point.right / point.trials)
        label = f"{model}: {point.right} of {point.trials} right at {point.level:g}"
        builder.mark(model_index, x, y, is_hollow=point.trials < FEW, tooltip=label)

    if threshold.value is None:
        return
    # An end of the interval that is beyond the levels is drawn at the edge of the chart.
    harder_end = threshold.hardest if threshold.low is None else threshold.low
    easier_end = threshold.easiest if threshold.high is None else threshold.high
    interval = (axes.x(harder_end), axes.x(easier_end))
    label = f"{model}: {threshold.text}"
    builder.mark_in_interval(model_index, axes.x(threshold.value), lane_y, interval, tooltip=label)
