"""One model's headline number over time, from runs that can be compared: same benchmarks, parts, protocols."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.metrics.declaration import SHARE
from snellen.report.charts import Axis
from snellen.report.drawing import ChartDrawing, Group, Line, Mark, PathLine, Shape, Text
from snellen.report.table import figure_text
from snellen.viewing.indexing import build_of
from snellen.viewing.library import ShownRun
from snellen.viewing.run_table import RunLine

WIDTH, HEIGHT = 460.0, 190.0
LEFT, RIGHT_EDGE, TOP, BOTTOM = 46.0, 448.0, 10.0, 158.0


class Trend(Struct, frozen=True):
    """Runs of a model from the earliest on, and the chart of their headlines."""

    lines: tuple[RunLine, ...]
    drawing: ChartDrawing


def trend_of(line: RunLine, lines: Sequence[RunLine]) -> Trend | None:
    """None where no other run of the model asked the same in the same way."""
    words = line.headline and line.headline.words
    alike = [other for other in lines if other.headline and other.headline.words == words]
    alike = [other for other in alike if _asks_alike(other.run, line.run)]
    if len(alike) < 2:
        return None
    ordered = sorted(alike, key=lambda other: other.started)
    return Trend(tuple(ordered), _draw(ordered))


def _asks_alike(one: ShownRun, other: ShownRun) -> bool:
    if one.manifest is None or other.manifest is None or one.manifest.model != other.manifest.model:
        return False
    first, second = one.manifest.benchmarks, other.manifest.benchmarks
    return {(use.name, build_of(use), use.selection) for use in first} == {
        (use.name, build_of(use), use.selection) for use in second
    }


def _draw(lines: Sequence[RunLine]) -> ChartDrawing:
    """A point for each run, in equal steps; the dates stand below the first and the last."""
    headlines = [line.headline for line in lines if line.headline]
    ends = [e for h in headlines for e in (h.estimate.low, h.estimate.value, h.estimate.high) if e is not None]
    is_share = headlines[0].unit == SHARE
    axis = Axis("", headlines[0].unit, 1.0 if is_share else max(ends) or 1.0, min(0.0, *ends))
    shapes: list[Shape] = []

    def height(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * axis.fraction(value)

    for tick in axis.ticks:
        shapes.append(Line(LEFT, height(tick), RIGHT_EDGE, height(tick), "grid"))
        shapes.append(Text(LEFT - 8, height(tick) + 4, axis.label(tick), "end tick"))
    step = (RIGHT_EDGE - LEFT - 40) / max(len(lines) - 1, 1)
    places = [(LEFT + 20 + i * step, height(h.estimate.value or 0.0)) for i, h in enumerate(headlines)]
    shapes.append(Group((PathLine(tuple(places), "front", is_open=True),), 0))
    for (x, y), line, headline in zip(places, lines, headlines, strict=True):
        low, high = headline.estimate.low, headline.estimate.high
        whisker = () if low is None or high is None else (Line(x, height(low), x, height(high), "whisker"),)
        tip = f"{line.title}, {line.started[:10]}: {figure_text(headline.estimate, headline.unit)}"
        shapes.append(Group((*whisker, Mark(0, x, y)), 0, tip))
    shapes += [Text(places[i][0], BOTTOM + 18, lines[i].started[:10], "tick") for i in (0, -1)]
    return ChartDrawing(f"{headlines[0].words} over time", WIDTH, HEIGHT, tuple(shapes))
