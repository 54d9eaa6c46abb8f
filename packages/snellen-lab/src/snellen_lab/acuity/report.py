"""Thresholds of models as tables and as the acuity card: a sentence each, a wall chart, curves, the visual field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import msgspec

from snellen import DataError
from snellen.plugin_api import (
    CHART_WIDTH,
    DASH,
    AdaptiveComparison,
    AdaptiveProcedure,
    Block,
    Cell,
    ChartBlock,
    ChartDrawing,
    ChartPanel,
    Group,
    Head,
    Line,
    Mark,
    PathLine,
    Point,
    Rectangle,
    ScoredRun,
    Section,
    Shape,
    Table,
    TableBlock,
    Text,
    offline_document,
    percent,
    shorten,
    wilson,
)
from snellen_lab.acuity.acuity_run import (
    AcuityRun,
    ThresholdDifference,
    difference_record,
    read_acuity,
    threshold_differences,
)
from snellen_lab.acuity.optotypes import UNITS, Contour
from snellen_lab.acuity.thresholds import (
    FEW,
    PlaceShare,
    Threshold,
    input_words,
)
from snellen_lab.acuity.trials import AcuityTest

THRESHOLD = "A threshold is the level at which a model is halfway between guessing and its best, with a 95% credible interval."
SIZES = (
    "Three levels are told apart: at its threshold a model is halfway between guessing and its best; what it needs is "
    "an easier level, at which it is nearly at its best; its mark in the chart stands at the next line above its "
    "threshold."
)
BOUND = "“sees all” and “not even” are bounds: the threshold is outside the tested levels."
DIFFERENCE = (
    "x 2 [1.4, 2.9]: the threshold of the second model is twice that of the first. Which sees better is decided by the "
    "thresholds, from all answers of both: surely where the interval excludes 1 (for a difference, 0). The last column "
    "counts, of the questions that both were asked, how many only the first, and only the second, answered rightly."
)

CHANCE = 0.25
"""Of tests of places."""
_CURVES = (
    "Share of right answers by level, harder to the left. Marks are answers (hollow where there are fewer than three), "
    "lines fitted curves; below stand thresholds with 95% credible intervals. Dashed is guessing."
)
_FIELD = "A letter of one size at places of the picture: the stronger the colour, the more often it was read."
_WALL = (
    "In pixels of the picture. A model's mark stands at the smallest line above its threshold, a hollow one at the "
    "smallest line that its input allows."
)
Series = Sequence[tuple[int, Threshold]]
"""Thresholds with the number of the model."""
LEFT, TOP, RIGHT, BOTTOM, LANE = 52.0, 14.0, CHART_WIDTH - 16.0, 250.0, 9.0
TICK, DIGIT = 40.0, 8.0
"""From one labelled level to the next at least, and the room of a digit of its label."""
LINES = (160, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4)
"""Heights of a wall chart's signs in pixels, the largest line first."""
FIRST = 64
"""The largest line of a chart on which no model needs, or reads, a larger one."""
INDENT, PITCH, BROADEST = 60.0, 1.5, 210.0
"""Left of the signs, from one to the next in heights, and how far a line goes; most have five signs."""

# --- tables -----------------------------------------------------------------------------------------------------------


def acuity_tables(runs: Sequence[AcuityRun]) -> list[Table]:
    """Thresholds of all models, what their input allows, their differences, and places of the visual field."""
    tables = (
        _threshold_table(runs),
        _input_table(runs),
        difference_table(
            [gap for gap in threshold_differences(list(runs)) if gap.difference or gap.better]
        ),
        _places_table(runs),
    )
    return [table for table in tables if table.rows]


def _summarise(run: ScoredRun) -> list[tuple[str, str]]:
    lines = read_acuity(run).thresholds
    return [(f"{line.title}, {line.method}", line.text) for line in lines]


def _compare(scored: Sequence[ScoredRun]) -> AdaptiveComparison:
    runs = [read_acuity(run) for run in scored]
    differences = list(threshold_differences(runs))
    if not differences:
        raise DataError("these runs measured no threshold of the same test by the same method")
    records = [difference_record(difference) for difference in differences]
    return AdaptiveComparison(tuple(acuity_tables(runs)), tuple(records))


ADAPTIVE_PROCEDURE = AdaptiveProcedure(
    measures="thresholds", summarise=_summarise, compare=_compare
)


def acuity_records(runs: Sequence[AcuityRun]) -> Iterator[str]:
    """Lines of JSON: thresholds, shares by place, and differences, each with its `kind`."""
    for run in runs:
        for threshold in run.thresholds:
            content = {"kind": "threshold", "model": run.model, **msgspec.to_builtins(threshold)}
            yield msgspec.json.encode(content).decode()
        for name, shares in run.fields.items():
            content = {"kind": "places", "model": run.model, "benchmark": name, "places": shares}
            yield msgspec.json.encode(content).decode()
    yield from map(difference_record, threshold_differences(list(runs)))


def _threshold_table(runs: Sequence[AcuityRun]) -> Table:
    has_both, is_mixed = _asks_by_both(runs), _has_several_methods(runs)
    by_model = [
        {_key(threshold, has_both): threshold for threshold in run.thresholds} for run in runs
    ]
    names = {key: threshold for thresholds in by_model for key, threshold in thresholds.items()}
    rows: list[tuple[Cell, ...]] = [
        (
            _name(threshold, has_both),
            threshold.title,
            *(_cell(thresholds.get(key), is_mixed and not has_both) for thresholds in by_model),
        )
        for key, threshold in names.items()
    ]
    notes = tuple(
        f"{run.model}, {threshold.test}: {note}."
        for run in runs
        for threshold in run.thresholds
        for note in threshold.notes
    )
    header = ("test", "what varies", *(run.model for run in runs))
    has_bound = any("sees" in threshold.verdict for run in runs for threshold in run.thresholds)
    return Table(
        "Thresholds",
        header,
        tuple(rows),
        label_columns=2,
        notes=(THRESHOLD, *(BOUND,) * has_bound, *notes),
    )


def _key(threshold: Threshold, has_both: bool) -> tuple[str, str]:
    """What thresholds of one row, or one chart, share: the test, and the method where a model was asked by both."""
    return threshold.benchmark, threshold.method if has_both else ""


def _asks_by_both(runs: Sequence[AcuityRun]) -> bool:
    """Whether a model was asked a test by generation and by likelihood."""
    return any(
        len({answers.benchmark for answers in run.answers}) < len(run.answers) for run in runs
    )


def _has_several_methods(runs: Sequence[AcuityRun]) -> bool:
    return len({threshold.method for run in runs for threshold in run.thresholds}) > 1


def _name(threshold: Threshold, with_method: bool) -> str:
    return _short(threshold.benchmark) + f" ({threshold.method})" * with_method


def _short(benchmark: str) -> str:
    return benchmark.rpartition("/")[2]


def _cell(threshold: Threshold | None, with_method: bool) -> str:
    if threshold is None:
        return DASH
    return f"{threshold.text}, n={threshold.asked}" + f", by {threshold.method}" * with_method


def _input_table(runs: Sequence[AcuityRun]) -> Table:
    several = _has_several_methods(runs)
    rows = tuple(
        (run.model, _name(threshold, several), words)
        for run in runs
        for threshold in run.thresholds
        if (words := input_words(threshold))
    )
    note = (
        "What its input allows is the threshold of a reader that compares signs, in whole pixels of what the model's "
        "own image processor leaves."
    )
    return Table(
        "What their inputs allow",
        ("model", "test", "threshold"),
        rows,
        label_columns=2,
        notes=(note,),
    )


def difference_table(differences: Sequence[ThresholdDifference]) -> Table:
    """Two models by two, in each test that both were asked."""
    rows = tuple(
        (_short(d.benchmark), d.first, d.second, d.text, d.better or "not decided", _shared(d))
        for d in differences
    )
    header = (
        "test",
        "first",
        "second",
        "second against first",
        "sees better, by threshold",
        "on the same questions",
    )
    return Table("Differences", header, rows, label_columns=3, notes=(DIFFERENCE,))


def _shared(difference: ThresholdDifference) -> str:
    shared = difference.shared
    return f"{shared.only_first} to {shared.only_second} of {shared.questions}"


def _places_table(runs: Sequence[AcuityRun]) -> Table:
    rows = []
    for run in runs:
        for name, shares in run.fields.items():
            right, total = _right_of_all(shares)
            rows.append((run.model, _short(name), f"{percent(right / total)} of {total}"))
    return Table("Places", ("model", "test", "read"), tuple(rows), label_columns=2)


def _right_of_all(shares: Sequence[PlaceShare]) -> tuple[int, int]:
    """How many answers were right, and how many there were."""
    return sum(share.right for share in shares), sum(share.asked for share in shares)


# --- curves ----------------------------------------------------------------------------------------------------------


def curve_panels(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """A panel for each test: all models' answers, curves, and thresholds with their intervals below."""
    has_both = _asks_by_both(runs)
    for key in dict.fromkeys(
        _key(threshold, has_both) for run in runs for threshold in run.thresholds
    ):
        series = [
            (i, threshold)
            for i, run in enumerate(runs)
            for threshold in run.thresholds
            if _key(threshold, has_both) == key
        ]
        yield ChartPanel(_name(series[0][1], has_both), _curves(series, runs))


def _curves(series: Series, runs: Sequence[AcuityRun]) -> ChartDrawing:
    first = series[0][1]
    scale, bottom = first.scale, BOTTOM + LANE * len(series) + 6
    low, high = scale.x(first.hardest), scale.x(first.easiest)

    def at(level: float, share: float) -> Point:
        return LEFT + (RIGHT - LEFT) * (scale.x(level) - low) / (high - low), BOTTOM - (
            BOTTOM - TOP
        ) * share

    shapes: list[Shape] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = at(first.hardest, share)
        shapes += [
            Line(LEFT, y, RIGHT, y, "grid"),
            Text(LEFT - 8, y + 4, f"{share:.0%}", "end tick"),
        ]
    free = -math.inf
    for level in (point.level for point in first.points):
        (x, _), label = at(level, 0), _written(level)
        room = max(TICK, DIGIT * (len(label) + 1)) / 2
        if x - room >= free:
            shapes += [Line(x, TOP, x, bottom, "grid"), Text(x, bottom + 14, label, "tick")]
            free = x + room
    shapes.append(
        Line(*at(first.hardest, first.chance), *at(first.easiest, first.chance), "reference")
    )
    shapes.append(
        Text(
            (LEFT + RIGHT) / 2,
            bottom + 32,
            f"{first.title}" + f" ({first.unit})" * bool(first.unit),
            "axis",
        )
    )
    for lane, (number, threshold) in enumerate(series):
        shapes += _curve(number, threshold, at, BOTTOM + 8 + LANE * lane, runs[number].model)
    return ChartDrawing(
        f"{first.test}: right answers by level", CHART_WIDTH, bottom + 40, tuple(shapes)
    )


def _written(level: float) -> str:
    return f"{level:.4g}" if level >= 1 else f"{level:.2g}"


def _curve(
    number: int, threshold: Threshold, at: Callable[[float, float], Point], lane: float, model: str
) -> Iterator[Shape]:
    path = tuple(at(point.level, point.fitted) for point in threshold.points)
    yield Group((PathLine(path, "curve", is_open=True),), number)
    for point in threshold.points:
        if point.asked:
            x, y = at(point.level, point.right / point.asked)
            words = f"{model}: {point.right} of {point.asked} right at {point.level:g}"
            yield Group((Mark(number, x, y, is_hollow=point.asked < FEW),), number, words)
    if threshold.value is not None:
        low, _ = at(threshold.hardest if threshold.low is None else threshold.low, 0)
        high, _ = at(threshold.easiest if threshold.high is None else threshold.high, 0)
        x, _ = at(threshold.value, 0)
        yield Group(
            (Line(low, lane, high, lane, "whisker"), Mark(number, x, lane)),
            number,
            f"{model}: {threshold.text}",
        )


# --- the wall chart --------------------------------------------------------------------------------------------------


def wall_charts(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """A chart for each test that declares signs for one, with the first threshold of each model in it."""
    for test in dict.fromkeys(
        answers.test for run in runs for answers in run.answers if answers.test.chart
    ):
        of_test = [
            [threshold for threshold in run.thresholds if threshold.test == test.name]
            for run in runs
        ]
        series = [(i, thresholds[0]) for i, thresholds in enumerate(of_test) if thresholds]
        yield ChartPanel(test.title, wall_chart(test, series, runs))


def wall_chart(test: AcuityTest, series: Series, runs: Sequence[AcuityRun]) -> ChartDrawing:
    """Lines of a test's signs in their size, each model's mark beside the last line that it reads."""
    needed = [_line_above(level) for _, threshold in series if (level := level_needed(threshold))]
    read = filter(None, (*(line_read(threshold) for _, threshold in series), *needed))
    largest = max([FIRST, *read])
    shapes: list[Shape] = []
    y, middles = 14.0, dict[float | None, float]()
    for row, height in enumerate(line for line in LINES if line <= largest):
        for column in range(_signs_in(height)):
            sign = test.chart[(3 * row + column) % len(test.chart)]
            shapes += _sign(test, sign, INDENT + PITCH * height * column, y, height)
        middles[height] = y + height / 2
        shapes.append(Text(INDENT - 12, middles[height] + 4, f"{height} px", "end"))
        y += height + max(0.3 * height, 10)
    middles[None] = 4.0
    by_line: dict[float | None, list[tuple[int, str, bool]]] = {}
    for number, threshold in series:
        model = shorten(runs[number].model)
        by_line.setdefault(line_read(threshold), []).append((number, model, False))
        if threshold.ideal is not None and threshold.ideal.verdict != "sees none":
            by_line.setdefault(_line_above(threshold.ideal.level), []).append(
                (number, f"input of {model}", True)
            )
    for line, places in by_line.items():
        x, y_of_line = _end_of(line) + 8, middles[line]
        for number, words, is_hollow in places:
            shapes.append(Group((Mark(number, x, y_of_line, is_hollow),), number, words))
            x += 14
        names, inputs = (
            [words for _, words, of_input in places if of_input == is_input]
            for is_input in (False, True)
        )
        label = ", ".join([*names, *(inputs if len(inputs) < 2 else ["what inputs allow"])])
        shapes.append(
            Text(x - 4, y_of_line + 4, label + (": no line" if line is None else ""), "start")
        )
    return ChartDrawing(
        f"A wall chart: {test.title}", CHART_WIDTH, y + 2, tuple(shapes), above=10.0
    )


def line_read(threshold: Threshold) -> float | None:
    """The height of the smallest line that is read; None where not even the largest is."""
    if threshold.verdict == "sees all":
        return LINES[-1]
    return None if threshold.value is None else _line_above(threshold.value)


def _line_above(height: float) -> float | None:
    return min((line for line in LINES if line >= height), default=None)


def _signs_in(height: float) -> int:
    return min(5, int(BROADEST // (PITCH * height)))


def _end_of(line: float | None) -> float:
    """Where the signs of a line end; of no line, where they begin."""
    return INDENT + (PITCH * line * _signs_in(line) if line else 0.0)


def _sign(test: AcuityTest, option: str, x: float, y: float, height: float) -> Iterator[Shape]:
    """A path for each part, its holes joined to its outline by a cut of no width, turning the other way."""
    for outer, *holes in test.signs(option) if test.signs else ():
        points = [*outer, outer[0]]
        for hole in holes:
            turned = hole if (_area(hole) > 0) != (_area(outer) > 0) else tuple(reversed(hole))
            points += [*turned, turned[0], outer[0]]
        yield PathLine(
            tuple((x + px * height / UNITS, y + py * height / UNITS) for px, py in points),
            "optotype",
        )


def _area(contour: Contour) -> float:
    """Twice the signed area."""
    return sum(
        x1 * y2 - x2 * y1
        for (x1, y1), (x2, y2) in zip(contour, (*contour[1:], contour[0]), strict=True)
    )


# --- the visual field ------------------------------------------------------------------------------------------------


def field_panels(runs: Sequence[AcuityRun]) -> Iterator[ChartPanel]:
    """A map for each model and test of places."""
    for run in runs:
        for name, shares in run.fields.items():
            right, total = _right_of_all(shares)
            title = f"{run.model}, {_short(name)}: {percent(right / max(total, 1))} of {total} read"
            yield ChartPanel(title, _field(shares))


def _field(shares: Sequence[PlaceShare]) -> ChartDrawing:
    """Cells where the letter stood; neighbours are joined, two by two, where there are few answers."""
    side = math.isqrt(max((share.place for share in shares), default=0)) + 1
    join = 1 if min((share.asked for share in shares), default=0) >= FEW else 2
    counts: dict[tuple[int, int], tuple[int, int]] = {}
    for share in shares:
        cell = share.place // side // join, share.place % side // join
        right, total = counts.get(cell, (0, 0))
        counts[cell] = right + share.right, total + share.asked
    width, shapes = 320.0 / side * join, list[Shape]()
    for (row, column), (right, total) in sorted(counts.items()):
        box = Rectangle(
            10 + width * column,
            10 + width * row,
            width - 1,
            width - 1,
            "heat",
            0.04 + 0.86 * right / total,
        )
        shapes.append(
            Group((box,), 0, f"row {row + 1}, column {column + 1}: {right} of {total} read")
        )
    return ChartDrawing("Visual field", 340, 340, tuple(shapes))


# --- the card ---------------------------------------------------------------------------------------------------------


def prescription_line(run: AcuityRun) -> str:
    """`snellen:tiny, by likelihood: needs shapes of 39 px or more`: a model may see otherwise when asked otherwise."""
    methods = " and ".join(dict.fromkeys(answers.method for answers in run.answers))
    return f"{run.model}, by {methods}: {prescription(run)}"


def prescription(run: AcuityRun) -> str:
    """What the model needs, and what it lacks; by which method, where it was asked by several."""
    needs = {answers.test.name: answers.test.needs for answers in run.answers if answers.test.needs}
    is_mixed = _has_several_methods([run])
    parts = [
        f"{need} (by {threshold.method})" if is_mixed else need
        for threshold in run.thresholds
        if threshold.test in needs and (need := _need(needs[threshold.test], threshold))
    ]
    parts += [_field_words(shares) for shares in run.fields.values()]
    parts += [
        f"{threshold.test}: does not only rise" for threshold in run.thresholds if threshold.notes
    ]
    return (
        "; ".join(filter(None, parts)) + "." if any(parts) else "the tests asked are in the table."
    )


def _need(things: str, threshold: Threshold) -> str:
    if threshold.verdict == "sees all":
        return "sees " + things.format(f"even {threshold.hardest:.4g}")
    if threshold.verdict == "sees none":
        return "cannot tell " + things.format(f"even {threshold.easiest:.4g}")
    needed = level_needed(threshold)
    if threshold.value is None or needed is None:
        return ""
    needs = f"needs {things.format(f'{needed:g}')} or {'less' if threshold.scale.smaller_is_easier else 'more'}"
    right, halfway = (
        f"{threshold.share_at(level):.0%} right" for level in (needed, threshold.value)
    )
    unit = f" {threshold.unit}" * bool(threshold.unit)
    words = f"{needs} ({right}; {halfway} at its threshold, {threshold.value:.3g}{unit})"
    return (
        f"{words}, not sure: the threshold may be {_anywhere(threshold)}"
        if _is_wide(threshold)
        else words
    )


def level_needed(threshold: Threshold) -> float | None:
    """The level at which a model is nearly at its best, in two digits: half a width of the curve beyond its threshold,
    or the easiest; None unless the threshold lies within the levels."""
    if threshold.value is None:
        return None
    scale = threshold.scale
    beyond = scale.level(scale.x(threshold.value) + threshold.slope.value / 2)
    return (max if scale.smaller_is_easier else min)(float(f"{beyond:.2g}"), threshold.easiest)


def _anywhere(threshold: Threshold) -> str:
    """In words, where a threshold may be that is not known well."""
    unit, (low, high) = f" {threshold.unit}" * bool(threshold.unit), threshold.bounds
    if low is None:
        return "anywhere" if high is None else f"anything up to {high:.2g}{unit}"
    return (
        f"{low:.2g}{unit} or anything above"
        if high is None
        else f"anything from {low:.2g} to {high:.2g}{unit}"
    )


def _is_wide(threshold: Threshold) -> bool:
    """Whether an interval has no end among the levels, or spans more than two octaves."""
    low, high = threshold.low, threshold.high
    if low is None or high is None:
        return True
    return threshold.is_log and max(low, high) > 4 * min(low, high)


def _field_words(shares: Sequence[PlaceShare]) -> str:
    """Which quarter of the picture is seen surely less than the best one, by intervals that do not meet."""
    right, total = _right_of_all(shares)
    if not total or wilson(right / total, total)[0] <= CHANCE:
        return "the letter of the visual field is too small for it" if total else ""
    side = max(share.place for share in shares) ** 0.5 // 1 + 1
    quarters: dict[str, list[PlaceShare]] = {}
    for share in shares:
        row, column = divmod(share.place, side)
        name = f"{('top', 'bottom')[int(2 * row // side)]} {('left', 'right')[int(2 * column // side)]}"
        quarters.setdefault(name, []).append(share)
    counts = {name: _right_of_all(members) for name, members in quarters.items()}
    least, *_, most = sorted(counts, key=lambda name: counts[name][0] / counts[name][1])
    (fewest, of_least), (best, of_most) = counts[least], counts[most]
    if wilson(fewest / of_least, of_least)[1] >= wilson(best / of_most, of_most)[0]:
        return "sees alike in all quarters of the picture"
    return f"sees least at the {least} ({percent(fewest / of_least)})"


def acuity_page(runs: Sequence[AcuityRun]) -> str:
    """The card of several models as one page."""
    names = tuple(run.model for run in runs)
    n_answers = sum(len(answers.right) for run in runs for answers in run.answers)
    lines = tuple(map(prescription_line, runs))
    if any(threshold.value is not None for run in runs for threshold in run.thresholds):
        lines += (SIZES,)
    head = Head("Snellen acuity card", names, facts=((n_answers, "answers"),), findings=lines)
    curves, fields = tuple(curve_panels(runs)), tuple(field_panels(runs))
    sections = [
        Section("chart", "Lines that are still read", _wall_blocks(runs)),
        Section(
            "thresholds", "Thresholds", tuple(TableBlock(table) for table in acuity_tables(runs))
        ),
        Section("curves", "Curves", (ChartBlock(curves, _CURVES, names),) if curves else ()),
        Section("field", "The visual field", (ChartBlock(fields, _FIELD),) if fields else ()),
    ]
    return offline_document("Snellen acuity card", head, sections)


def _wall_blocks(runs: Sequence[AcuityRun]) -> tuple[Block, ...]:
    panels = tuple(wall_charts(runs))
    return (ChartBlock(panels, _WALL, tuple(run.model for run in runs)),) if panels else ()
