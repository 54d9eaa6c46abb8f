"""Charts as SVG, drawn without a library: points with intervals, a radar, a scatter, bars.

A series has a colour and a shape, so nothing depends on colour alone. Each point carries its numbers in
a `<title>`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.metrics.declaration import SHARE, MetricRow, unit_multiplier
from snellen.records import Estimate
from snellen.report.formatting import figure_text
from snellen.report.markup import esc

ToPixels = Callable[[float, float], tuple[float, float]]
"""From values to coordinates in the picture."""

WIDTH = 460
LETTERS = 26
"""Longest label, in characters."""
COLOURS = 8
SHAPES = (
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",  # circle
    "M-3.2-3.2h6.4v6.4h-6.4z",  # square
    "M0-4.2L4 3.2H-4z",  # triangle
    "M0-4.6L4.2 0L0 4.6L-4.2 0z",  # diamond
    "M0 4.2L4-3.2H-4z",  # triangle, upside down
    "M-1.5-4h3v2.5H4v3H1.5V4h-3V1.5H-4v-3h2.5z",  # cross
    "M-4-1.6h8v3.2h-8z",  # bar
)


class PlotPoint(Struct, frozen=True):
    """One estimate of one series."""

    series: int
    name: str
    estimate: Estimate
    unit: str = SHARE

    @property
    def tooltip(self) -> str:
        return f"{self.name}: {figure_text(self.estimate, self.unit)}"


class IntervalRow(Struct, frozen=True):
    """A row of an interval chart; `reference` is drawn as a line across it."""

    label: str
    points: tuple[PlotPoint, ...]
    reference: float | None = None
    tooltip: str = ""


class ScatterPoint(Struct, frozen=True):
    """A point in a scatter chart."""

    series: int
    name: str
    x: Estimate
    y: Estimate
    is_hollow: bool = False


class Axis(Struct, frozen=True):
    title: str
    unit: str = SHARE
    top: float = 1.0
    """The largest value."""
    bottom: float = 0.0
    """The smallest."""

    @property
    def ticks(self) -> list[float]:
        span = self.top - self.bottom
        step = _step(span)
        first = math.ceil(self.bottom / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.top / step + 1e-9) + 1)]

    def label(self, value: float) -> str:
        return f"{100 * value:.0f}%" if self.unit == SHARE else f"{value + 0.0:.3g}"

    def fraction(self, value: float) -> float:
        """Position of a value between the bottom, 0, and the top, 1."""
        return (value - self.bottom) / (self.top - self.bottom)


ACCURACY = Axis("accuracy")


def axis_of(row: MetricRow, estimates: Sequence[Estimate], unit: str = "") -> Axis:
    """An axis for a metric: over its declared bounds, else as far as the estimates and their intervals reach.

    Its title names the unit, and says where lower is better.
    """
    ends = [end for e in estimates for end in (e.low, e.value, e.high) if end is not None]
    unit = unit or row.unit
    low, high = min([0.0, *ends]), max([0.0, *ends])
    bottom, top = low, high * 1.04
    if row.low is not None and row.high is not None:
        bottom, top = (unit_multiplier(unit) * bound for bound in (min(row.low, 0.0), row.high))
    return Axis(row.heading, unit, max(top, bottom + 1e-6) if top > bottom else bottom + 1.0, bottom)


def marker(series: int, x: float, y: float, *, is_hollow: bool = False) -> str:
    hollow = " hollow" if is_hollow else ""
    path = SHAPES[series % len(SHAPES)]
    return f'<path class="mark{hollow}" transform="translate({x:.1f} {y:.1f})" d="{path}"/>'


def svg_document(title: str, height: float, inner: Sequence[str], width: float = WIDTH) -> str:
    """An SVG picture with a name for screen readers."""
    content = "\n".join(inner)
    return (
        f'<svg class="chart" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{esc(title)}">\n'
        f"{content}\n</svg>"
    )


def series_class(series: int) -> str:
    return f"s{series % COLOURS}"


def svg_text(x: float, y: float, content: str, kind: str = "", tooltip: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    title = f"<title>{esc(tooltip)}</title>" if tooltip else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name}>{title}{esc(content)}</text>'


def svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def shorten(label: str, letters: int = LETTERS) -> str:
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def interval_chart(title: str, groups: Sequence[IntervalRow], axis: Axis = ACCURACY) -> str:
    """Groups from top to bottom, with one lane per point for its value and interval."""
    lane, gap, above, below = 9.5, 9.0, 6.0, 36.0
    left = min(max((len(shorten(group.label)) for group in groups), default=4), LETTERS) * 7.0 + 16
    plot = WIDTH - left - 14
    background: list[str] = []
    y = above
    foreground: list[str] = []
    for i, group in enumerate(groups):
        height = max(len(group.points), 1) * lane + gap
        if i % 2 == 0:
            background.append(f'<rect class="band" x="0" y="{y:.1f}" width="{WIDTH}" height="{height:.1f}"/>')
        foreground.append(
            svg_text(left - 10, y + height / 2 + 4, shorten(group.label), "end", group.tooltip or group.label)
        )
        if group.reference is not None:
            x = left + plot * axis.fraction(group.reference)
            foreground.append(svg_line(x, y + 1, x, y + height - 1, "reference"))
        for j, point in enumerate(group.points):
            foreground.append(_interval(point, y + gap / 2 + (j + 0.5) * lane, left, plot, axis))
        y += height
    for tick in axis.ticks:
        x = left + plot * axis.fraction(tick)
        background.append(svg_line(x, above, x, y, "grid"))
        foreground.append(svg_text(x, y + 15, axis.label(tick), "tick"))
    foreground.append(svg_text(left + plot / 2, y + 31, axis.title, "axis"))
    return svg_document(title, y + below, [*background, *foreground])


def _interval(point: PlotPoint, y: float, left: float, plot: float, axis: Axis) -> str:
    e = point.estimate
    if e.value is None:
        return ""
    low, high = (e.value if e.low is None else e.low), (e.value if e.high is None else e.high)
    whisker = svg_line(left + plot * axis.fraction(low), y, left + plot * axis.fraction(high), y, "ci")
    # A transparent bar makes the tooltip easy to hit.
    hover_area = f'<rect class="hit" x="{left:.1f}" y="{y - 4.5:.1f}" width="{WIDTH - left:.1f}" height="9"/>'
    dot = marker(point.series, left + plot * axis.fraction(e.value), y)
    return f'<g class="{series_class(point.series)}"><title>{esc(point.tooltip)}</title>{hover_area}{whisker}{dot}</g>'


def scatter_chart(
    title: str, points: Sequence[ScatterPoint], x_axis: Axis, y_axis: Axis, *, diagonal: bool = False
) -> str:
    """Points with faint intervals along both axes; the first series lies on top."""
    left, top, right, bottom = 52.0, 12.0, WIDTH - 16.0, 400.0 if diagonal else 330.0
    wide, tall = right - left, bottom - top

    def at(x: float, y: float) -> tuple[float, float]:
        return left + wide * x_axis.fraction(x), bottom - tall * y_axis.fraction(y)

    elements: list[str] = []
    for tick in x_axis.ticks:
        x, _ = at(tick, y_axis.bottom)
        elements += [svg_line(x, top, x, bottom, "grid"), svg_text(x, bottom + 16, x_axis.label(tick), "tick")]
    for tick in y_axis.ticks:
        _, y = at(x_axis.bottom, tick)
        elements += [svg_line(left, y, right, y, "grid"), svg_text(left - 8, y + 4, y_axis.label(tick), "end tick")]
    elements.append(svg_text((left + right) / 2, bottom + 34, x_axis.title, "axis"))
    middle = (top + bottom) / 2
    elements.append(f'<text class="axis" transform="translate(13 {middle:.0f}) rotate(-90)">{esc(y_axis.title)}</text>')
    if diagonal:
        elements.append(svg_line(*at(x_axis.bottom, y_axis.bottom), *at(x_axis.top, y_axis.top), "reference"))
    elements += [_point(point, at, x_axis, y_axis) for point in reversed(points)]
    return svg_document(title, bottom + 42, elements)


def _point(point: ScatterPoint, at: ToPixels, x_axis: Axis, y_axis: Axis) -> str:
    vx, vy = point.x.value or 0.0, point.y.value or 0.0
    x, y = at(vx, vy)
    whiskers = ""
    if point.x.low is not None and point.x.high is not None:
        (x1, _), (x2, _) = at(max(point.x.low, x_axis.bottom), vy), at(min(point.x.high, x_axis.top), vy)
        whiskers += svg_line(x1, y, x2, y, "ci faint")
    if point.y.low is not None and point.y.high is not None:
        (_, y1), (_, y2) = at(vx, max(point.y.low, y_axis.bottom)), at(vx, min(point.y.high, y_axis.top))
        whiskers += svg_line(x, y1, x, y2, "ci faint")
    tooltip = (
        f"{point.name}: {x_axis.title} {figure_text(point.x, x_axis.unit)}, "
        f"{y_axis.title} {figure_text(point.y, y_axis.unit)}"
    )
    dot = marker(point.series, x, y, is_hollow=point.is_hollow)
    return f'<g class="{series_class(point.series)}"><title>{esc(tooltip)}</title>{whiskers}{dot}</g>'


def radar_chart(
    title: str,
    axes: Sequence[str],
    polygons: Sequence[tuple[int, Sequence[PlotPoint | None]]],
    chance: Sequence[float | None],
) -> str:
    """One axis per share, one polygon per series; chance is dotted. Values are cut at the rim, which is 1."""
    size, middle, radius = 390.0, (WIDTH / 2, 192.0), 128.0
    count = len(axes)

    def at(i: int, share: float) -> tuple[float, float]:
        angle = 2 * math.pi * i / count - math.pi / 2
        return middle[0] + radius * share * math.cos(angle), middle[1] + radius * share * math.sin(angle)

    elements = []
    for share in (0.25, 0.5, 0.75, 1.0):
        ring = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(i, share) for i in range(count)))
        elements.append(f'<polygon class="ring" points="{ring}"/>')
    for i, name in enumerate(axes):
        elements.append(svg_line(*middle, *at(i, 1.0), "ring"))
        elements += _axis_name(name, *at(i, 1.1), middle)
    elements += [
        svg_text(middle[0] + 4, middle[1] - radius * s - 3, f"{100 * s:.0f}%", "tick start") for s in (0.5, 1.0)
    ]
    elements += _outline("reference", [None if c is None else at(i, c) for i, c in enumerate(chance)])
    for series, points in polygons:
        places = [
            None if m is None or m.estimate.value is None else at(i, min(m.estimate.value, 1.0))
            for i, m in enumerate(points)
        ]
        shape = [f'<g class="{series_class(series)}">', *_outline("polygon", places)]
        for point, place in zip(points, places, strict=True):
            if point and place:
                shape.append(f"<g><title>{esc(point.tooltip)}</title>{marker(series, *place)}</g>")
        elements += [*shape, "</g>"]
    return svg_document(title, size, elements)


def _outline(kind: str, places: Sequence[tuple[float, float] | None]) -> list[str]:
    """A closed outline; where a point is missing, only the sides between neighbours that exist."""
    present = [place for place in places if place is not None]
    if len(present) == len(places):
        return [f'<polygon class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in present)}"/>']
    sides = zip(places, [*places[1:], places[0]], strict=True)
    return [svg_line(*a, *b, kind) for a, b in sides if a is not None and b is not None]


def _axis_name(name: str, x: float, y: float, middle: tuple[float, float]) -> list[str]:
    side = "start" if x > middle[0] + 8 else "end" if x < middle[0] - 8 else "middle"
    words = name.split(" ")
    half = (len(words) + 1) // 2
    lines = [" ".join(words[:half]), " ".join(words[half:])] if len(words) > 1 else [name]
    # A name above the rim ends there, one below it begins there, one beside it is centred.
    rise = (y - middle[1]) / abs(middle[1] - y or 1) if side == "middle" else 0
    up = 6.5 * (len(lines) - 1) * (1 - rise) - 7 * rise
    return [svg_text(x, y + 4 - up + 13 * i, words_of_line, f"name {side}") for i, words_of_line in enumerate(lines)]


def stacked_bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> str:
    """One stacked bar per row; segment lengths are counts."""
    left = min(max((len(shorten(label)) for label, _ in rows), default=4), LETTERS) * 7.0 + 16
    longest = max((sum(count for _, count in segments) for _, segments in rows), default=1) or 1
    scale = (WIDTH - left - 14) / longest
    elements = []
    for i, (label, segments) in enumerate(rows):
        y = 6 + 26 * i
        elements.append(svg_text(left - 10, y + 13, shorten(label), "end", label))
        x = left
        for j, (name, count) in enumerate(segments):
            tooltip = f"<title>{esc(f'{label}: {count:,} {name}')}</title>"
            width = count * scale
            elements.append(
                f'<rect class="part{j}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="17">{tooltip}</rect>'
            )
            if width > 7 * len(text := f"{count:,}") + 8:
                elements.append(svg_text(x + 6, y + 13, text, f"start in{j}"))
            x += width
    return svg_document(title, 26 * len(rows) + 10, elements)


def _step(top: float) -> float:
    if top == 1.0:
        return 0.25
    rough = top / 5
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
