"""Wall charts: lines of optotypes in their size, with each model's mark next to the smallest line that it reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from snellen.plugin_api import (
    ChartDrawing,
    ChartPanel,
    DrawingBuilder,
)
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.optotypes import UNITS
from snellen_lab.acuity.prescription import level_needed
from snellen_lab.acuity.rasterising import Contour
from snellen_lab.acuity.thresholds import Threshold
from snellen_lab.acuity.trials import AcuityTest

LINES = (160, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4)
"""Heights of the optotypes of each line in pixels, the largest line first."""
FIRST_LINE = 64
"""The largest line of a chart, unless a model reads or needs a larger one, or its input allows no smaller one."""
CHART_INDENT = 60.0  # pixels left of the optotypes
OPTOTYPE_PITCH = 1.5  # from one optotype to the next, in multiples of their height
MAX_LINE_WIDTH = 210.0  # pixels
MAX_OPTOTYPES = 5  # in a line
MARK_PITCH = 14  # pixels from one mark to the next
MAX_LABEL_LETTERS = 28


def wall_charts(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """Yield a chart for each test that declares one, with the first threshold of each model in that test."""
    tests: dict[AcuityTest, None] = {}
    for run in runs:
        for answers in run.answers:
            if answers.test.chart:
                tests[answers.test] = None

    for test in tests:
        thresholds: list[tuple[int, Threshold]] = []
        for model_index, run in enumerate(runs):
            for threshold in run.thresholds:
                if threshold.test == test.name:
                    thresholds.append((model_index, threshold))
                    break
        models = [run.model for run in runs]
        yield ChartPanel(test.title, wall_chart(test, thresholds, models))


class _LineMark(NamedTuple):
    """A mark next to a line: of a model, or of the ideal reader on the model's input."""

    model_index: int
    label: str
    is_input: bool


def _short_name(model: str) -> str:
    """Cut the name of a model to the width of a label."""
    if len(model) <= MAX_LABEL_LETTERS:
        return model
    return f"{model[: MAX_LABEL_LETTERS - 1]}…"


def wall_chart(
    test: AcuityTest, thresholds: Sequence[tuple[int, Threshold]], models: Sequence[str]
) -> ChartDrawing:
    """Draw the wall chart of a test: lines of optotypes that get larger from line to line.

    Next to a line are the marks of the models that can just read it. Models that can read no line are above the first.

    Args:
        test: A test that declares a chart.
        thresholds: Pairs of the index of a model and its threshold in the test.
        models: Names of all models.
    """
    marks_by_line: dict[float | None, list[_LineMark]] = defaultdict(list)
    # Lines that the chart has to contain.
    shown_lines: list[float | None] = [FIRST_LINE]
    for model_index, threshold in thresholds:
        level = level_needed(threshold)
        if level is not None:
            shown_lines.append(_smallest_line(level))
        model = _short_name(models[model_index])
        mark = _LineMark(model_index, model, is_input=False)
        marks_by_line[line_read(threshold)].append(mark)
        ideal = threshold.ideal  # of an observer who sees all that the model's input contains
        if ideal is not None and ideal.verdict != "sees none":
            input_mark = _LineMark(model_index, f"input of {model}", is_input=True)
            marks_by_line[_smallest_line(ideal.level)].append(input_mark)
    shown_lines.extend(marks_by_line)
    largest = max(line for line in shown_lines if line is not None)

    builder = DrawingBuilder()
    line_middles: dict[float | None, float] = {}
    y = 14.0
    lines = [line for line in LINES if line <= largest]
    for row, height in enumerate(lines):
        for column in range(_optotypes_in(height)):
            option = test.chart[(3 * row + column) % len(test.chart)]
            x = CHART_INDENT + OPTOTYPE_PITCH * height * column
            _draw_optotype(builder, test, option, (x, y), height)
        middle = y + height / 2
        line_middles[height] = middle
        builder.text(CHART_INDENT - 12, middle + 4, f"{height} px", "end")
        y += height + max(0.3 * height, 10)

    line_middles[None] = 4.0  # above the first line, for models that read none
    for line, marks in marks_by_line.items():
        _draw_marks(builder, line, marks, line_middles[line])
    return builder.drawing(f"A wall chart: {test.title}", height=y + 2, above=10.0)


def _draw_marks(
    builder: DrawingBuilder, line: float | None, marks: Sequence[_LineMark], y: float
) -> None:
    """Draw the marks of a line in a row, and their names after the last one."""
    x = CHART_INDENT + 8
    if line is not None:
        x = CHART_INDENT + OPTOTYPE_PITCH * line * _optotypes_in(line) + 8
    for mark in marks:
        builder.mark(mark.model_index, x, y, is_hollow=mark.is_input, tooltip=mark.label)
        x += MARK_PITCH

    labels = [mark.label for mark in marks if not mark.is_input]
    input_labels = [mark.label for mark in marks if mark.is_input]
    if len(input_labels) > 1:
        input_labels = ["what inputs allow"]
    text = ", ".join([*labels, *input_labels])
    if line is None:
        text += ": no line"
    builder.text(x - 4, y + 4, text, "start")


def line_read(threshold: Threshold) -> float | None:
    """Return the height of the smallest line that a model reads; None if it does not read even the largest."""
    if threshold.verdict == "sees all":
        return LINES[-1]
    if threshold.value is None:
        return None
    return _smallest_line(threshold.value)


def _smallest_line(height: float) -> float | None:
    """Return the smallest line of at least this height; None if there is none."""
    return min((line for line in LINES if line >= height), default=None)


def _optotypes_in(height: float) -> int:
    """Return how many optotypes of this height, in pixels, fit into a line."""
    pitch = OPTOTYPE_PITCH * height
    return min(MAX_OPTOTYPES, int(MAX_LINE_WIDTH // pitch))


def _draw_optotype(
    builder: DrawingBuilder,
    test: AcuityTest,
    option: str,
    corner: tuple[float, float],
    height: float,
) -> None:
    """Draw a path for each part of an option's shape, below and to the right of a corner.

    A path has one outline. Holes are joined to it by a cut of no width, and run in the other direction, so that they
    stay empty under the non-zero rule.
    """
    if test.signs is None:
        return
    x, y = corner
    for outer, *holes in test.signs(option):
        outline = [*outer, outer[0]]
        for hole in holes:
            opposite = hole
            if (_signed_area(hole) > 0) == (_signed_area(outer) > 0):
                opposite = tuple(reversed(hole))
            outline += [*opposite, opposite[0], outer[0]]
        path = []
        for unit_x, unit_y in outline:
            path.append((x + unit_x * height / UNITS, y + unit_y * height / UNITS))
        builder.path(path, "optotype")


def _signed_area(contour: Contour) -> float:
    """Return twice the signed area of a closed outline (shoelace formula); its sign tells the direction of the outline."""
    area = 0.0
    next_points = (*contour[1:], contour[0])
    for (x, y), (next_x, next_y) in zip(contour, next_points, strict=True):
        area += x * next_y - next_x * y
    return area
