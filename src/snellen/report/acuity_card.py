"""The acuity card: what each model still sees, as a sentence, a wall chart, curves and a map of the visual field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from snellen.psychometrics.measuring import AcuityRun
from snellen.psychometrics.thresholds import LevelScale, PlaceShare, Threshold
from snellen.report.acuity_tables import acuity_tables
from snellen.report.charts import WIDTH, series_class
from snellen.report.content import Block, ChartBlock, Head, Section, TableBlock
from snellen.report.document import offline_document
from snellen.report.drawing import Box, ChartDrawing, ChartPanel, Group, Line, Mark, PathLine, Point, Shape, Text
from snellen.report.formatting import percent
from snellen.stimuli.canvas import Contour
from snellen.stimuli.optotypes import SLOAN
from snellen.stimuli.trials import READ_LETTERS

LETTER_TEST = "letter-size"
LINES = (64, 48, 32, 24, 16, 12, 8, 6, 4)
"""Heights of the wall chart's letters in pixels, the largest line first."""
LETTERS_IN_LINE = 5
LEFT, TOP, RIGHT, BOTTOM = 52.0, 14.0, WIDTH - 16.0, 250.0
MUCH = 0.15
"""By how much the least seen quarter of the picture must fall behind the best to be named."""


def prescription(run: AcuityRun) -> str:
    """One line: what the model needs, and what it lacks."""
    parts = [phrase(threshold) for threshold in run.thresholds if (phrase := _PHRASES.get(threshold.test))]
    for shares in run.fields.values():
        parts.append(_field_words(shares))
    return "; ".join(filter(None, parts)) + "." if any(parts) else "nothing was measured."


def _needs(noun: str) -> Callable[[Threshold], str]:
    def phrase(threshold: Threshold) -> str:
        unit = f" {threshold.unit}" * bool(threshold.unit)
        if threshold.verdict == "sees all":
            return f"{noun} of {threshold.hardest:g}{unit} are seen"
        if threshold.verdict == "sees none":
            return f"{noun} are not seen, even at {threshold.easiest:g}{unit}"
        if threshold.value is None:
            return ""
        return f"needs {noun} of {_needed(threshold):.3g}{unit} or {_easier_word(threshold)}"

    return phrase


def _needed(threshold: Threshold) -> float:
    """The level at which the curve has nearly reached the model's best: half a width beyond the threshold."""
    scale = _scale(threshold)
    return scale.level(scale.x(threshold.value or 0.0) + threshold.slope.value / 2)


def _scale(threshold: Threshold) -> LevelScale:
    return LevelScale((threshold.hardest, threshold.easiest), threshold.hardest > threshold.easiest)


def _easier_word(threshold: Threshold) -> str:
    return "less" if threshold.hardest > threshold.easiest else "more"


_PHRASES = {
    LETTER_TEST: _needs("letters"),
    "contrast": _needs("contrast"),
    "crowding": _needs("distances"),
    "colour-difference": _needs("colour differences"),
}
"""The tests that a prescription names, in the order in which they were asked."""


def _field_words(shares: Sequence[PlaceShare]) -> str:
    quarters: dict[tuple[int, int], list[PlaceShare]] = {}
    side = math.isqrt(max((int(float(share.place)) for share in shares), default=0)) + 1
    for share in shares:
        row, column = divmod(int(float(share.place)), side)
        quarters.setdefault((2 * row // side, 2 * column // side), []).append(share)
    seen = {place: sum(s.right for s in members) / sum(s.asked for s in members) for place, members in quarters.items()}
    if not seen or max(seen.values()) - min(seen.values()) < MUCH:
        return "sees alike in all quarters of the picture" if seen else ""
    row, column = min(seen, key=lambda place: seen[place])
    return f"sees least at the {('top', 'bottom')[row]} {('left', 'right')[column]} ({percent(seen[row, column])})"


def acuity_page(runs: Sequence[AcuityRun]) -> str:
    """The card of several models as one page."""
    names = tuple(run.model for run in runs)
    lines = tuple(f"{run.model}: {prescription(run)}" for run in runs)
    asked = sum(threshold.asked for run in runs for threshold in run.thresholds)
    head = Head("Snellen acuity card", names, facts=((asked, "questions"),), lines=lines)
    charts = [panel for name in _tests(runs) for panel in [_curves(name, runs)]]
    fields = [panel for run in runs for panel in _fields(run)]
    sections = [
        Section("chart", "The line that is still read", tuple(_wall_block(runs))),
        Section("thresholds", "Thresholds", tuple(TableBlock(table) for table in acuity_tables(runs))),
        Section("curves", "Curves", (ChartBlock(tuple(charts), _CURVES, names),) if charts else ()),
        Section("field", "The visual field", (ChartBlock(tuple(fields), _FIELD),) if fields else ()),
    ]
    return offline_document("Snellen acuity card", head, sections)


_CURVES = (
    "Share of right answers by level, harder to the left. Marks are answers (hollow where there are fewer than three), "
    "lines fitted curves, bars at the bottom thresholds with 95 % credible intervals; dashed is guessing."
)
_FIELD = "A letter of one size at places of the picture: the darker, the more often it was read."
_WALL = "Letters in pixels. A model's mark stands at the smallest line whose letters lie above its threshold."


def _tests(runs: Sequence[AcuityRun]) -> list[str]:
    return list(dict.fromkeys(threshold.test for run in runs for threshold in run.thresholds))


# --- curves ----------------------------------------------------------------------------------------------------------


def _curves(test: str, runs: Sequence[AcuityRun]) -> ChartPanel:
    thresholds = [(i, t) for i, run in enumerate(runs) for t in run.thresholds if t.test == test]
    first = thresholds[0][1]
    levels = sorted({point.level for _, t in thresholds for point in t.points} | {first.hardest, first.easiest})
    scale = _scale(first)
    low, high = scale.x(first.hardest), scale.x(first.easiest)

    def at(level: float, share: float) -> Point:
        return LEFT + (RIGHT - LEFT) * (scale.x(level) - low) / (high - low), BOTTOM - (BOTTOM - TOP) * share

    shapes: list[Shape] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(first.hardest, share)
        shapes += [Line(LEFT, y, RIGHT, y, "grid"), Text(LEFT - 8, y + 4, f"{share:.0%}", "end tick")]
    for level in _ticks(levels):
        x, _ = at(level, 0)
        shapes += [Line(x, TOP, x, BOTTOM, "grid"), Text(x, BOTTOM + 16, f"{level:g}", "tick")]
    _, y = at(first.hardest, first.chance)
    shapes.append(Line(LEFT, y, RIGHT, y, "reference"))
    shapes.append(
        Text((LEFT + RIGHT) / 2, BOTTOM + 34, f"{first.title}" + f" ({first.unit})" * bool(first.unit), "axis")
    )
    for lane, (series, threshold) in enumerate(thresholds):
        shapes += _one_curve(series, threshold, at, BOTTOM - 6 - 7 * lane, runs[series].model)
    return ChartPanel(test, ChartDrawing(f"{test}: right answers by level", WIDTH, BOTTOM + 42, tuple(shapes)))


def _one_curve(
    series: int, threshold: Threshold, at: Callable[[float, float], Point], lane: float, model: str
) -> Iterator[Shape]:
    style = series_class(series)
    yield PathLine(tuple(at(point.level, point.fitted) for point in threshold.points), f"outline {style}", is_open=True)
    for point in threshold.points:
        x, y = at(point.level, point.right / point.asked)
        words = f"{model}: {point.right} of {point.asked} right at {point.level:g}"
        yield Group((Mark(series, x, y, is_hollow=point.asked < 3),), series, words)
    if threshold.value is not None:
        low, high = (at(end if bound is None else bound, 0)[0] for bound, end in (
            (threshold.low, threshold.hardest), (threshold.high, threshold.easiest)))  # fmt: skip
        x, _ = at(threshold.value, 0)
        bar = (Line(low, lane, high, lane, "whisker"), Mark(series, x, lane))
        yield Group(bar, series, f"{model}: {threshold.text}")


def _ticks(levels: Sequence[float], most: int = 9) -> list[float]:
    step = max(-(-len(levels) // most), 1)
    return [*levels[::step], *([levels[-1]] if (len(levels) - 1) % step else [])]


# --- the wall chart --------------------------------------------------------------------------------------------------


def _wall_block(runs: Sequence[AcuityRun]) -> Iterator[Block]:
    read = [(i, t) for i, run in enumerate(runs) for t in run.thresholds if t.test == LETTER_TEST]
    if read:
        panel = ChartPanel("Sloan letters", _wall_chart(read, runs))
        yield ChartBlock((panel,), _WALL, tuple(run.model for run in runs))


def _wall_chart(read: Sequence[tuple[int, Threshold]], runs: Sequence[AcuityRun]) -> ChartDrawing:
    shapes: list[Shape] = []
    y, places = 12.0, dict[float, float]()
    for row, height in enumerate(LINES):
        pitch, x = height * 1.6, 70.0
        for column in range(LETTERS_IN_LINE):
            letter = READ_LETTERS[(3 * row + column) % len(READ_LETTERS)]
            shapes += _letter(letter, x, y, height)
            x += pitch
        shapes.append(Text(52, y + height / 2 + 4, f"{height} px", "end tick"))
        places[height] = y + height / 2
        y += height + max(0.35 * height, 9)
    for lane, (series, threshold) in enumerate(read):
        x = 70.0 + LETTERS_IN_LINE * LINES[0] * 1.6 + 14 + 120 * lane
        line = _line_read(threshold)
        at = places[line] if line else 6.0
        words = f"{runs[series].model}: {threshold.text}"
        shapes.append(Group((Mark(series, x, at), Text(x + 10, at + 4, runs[series].model, "start")), series, words))
    return ChartDrawing("A wall chart of Sloan letters", WIDTH, y + 6, tuple(shapes))


def _line_read(threshold: Threshold) -> float | None:
    """The height of the smallest line that is read; None where not even the largest is."""
    if threshold.verdict == "sees all":
        return LINES[-1]
    fitting = [height for height in LINES if threshold.value is not None and height >= threshold.value]
    return min(fitting, default=None)


def _letter(letter: str, x: float, y: float, height: float) -> Iterator[Shape]:
    for part in SLOAN[letter]:
        outer, *holes = part
        points = [*outer, outer[0]]
        for hole in holes:
            turned = hole if (_area(hole) > 0) != (_area(outer) > 0) else tuple(reversed(hole))
            points += [*turned, turned[0], outer[0]]
        yield PathLine(tuple((x + px * height / 5, y + py * height / 5) for px, py in points), "optotype")


def _area(contour: Contour) -> float:
    """Twice the signed area."""
    return sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in zip(contour, (*contour[1:], contour[0]), strict=True))


# --- the visual field ------------------------------------------------------------------------------------------------


def _fields(run: AcuityRun) -> Iterator[ChartPanel]:
    for name, shares in run.fields.items():
        side = math.isqrt(max((int(float(share.place)) for share in shares), default=0)) + 1
        cell = 300.0 / side
        shapes: list[Shape] = []
        for share in shares:
            row, column = divmod(int(float(share.place)), side)
            seen = share.right / share.asked
            box = Box(10 + cell * column, 10 + cell * row, cell - 1, cell - 1, "heat", 0.05 + 0.8 * seen)
            shapes.append(Group((box,), 0, f"row {row + 1}, column {column + 1}: {share.right} of {share.asked}"))
        seen_in_all = sum(s.right for s in shares) / max(sum(s.asked for s in shares), 1)
        title = f"{run.model}, {name.rpartition('/')[2]}: {percent(seen_in_all)} read in all"
        yield ChartPanel(title, ChartDrawing("Visual field", 320, 320, tuple(shapes)))
