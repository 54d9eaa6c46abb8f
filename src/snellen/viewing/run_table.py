"""The table of runs: which are shown, in which order, what a row says; and one model's headline over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.metrics.declaration import SHARE
from snellen.report.charts import Axis, ChartDrawing, Group, Line, Mark, PathLine, Shape, Text
from snellen.report.table import figure_text
from snellen.viewing.indexing import build_of
from snellen.viewing.library import ShownRun
from snellen.viewing.run_notes import RunNote
from snellen.viewing.run_summary import Headline
from snellen.viewing.running import RunState


class RunFilter(Struct, frozen=True):
    """Which runs are listed, in which order."""

    q: str = ""
    """Words that all occur in a run's name, alias, model, benchmarks, protocols or tags."""
    tag: str = ""
    archived: bool = False
    """Whether runs that were put away are listed, too."""
    sort: str = "-started"
    """A column; with `-` before it, the largest or latest first."""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RunFilter:
        sort = query.get("sort", "")
        return cls(
            q=query.get("q", "")[:200],
            tag=query.get("tag", "")[:40],
            archived=query.get("archived") == "1",
            sort=sort if sort.removeprefix("-") in COLUMNS else cls().sort,
        )

    @property
    def query(self) -> str:
        """For an address, `?` included; empty for the defaults."""
        default = asdict(RunFilter())
        settings = {name: value for name, value in asdict(self).items() if value != default[name]}
        query = urlencode(
            {
                name: int(value) if isinstance(value, bool) else value
                for name, value in settings.items()
            }
        )
        return f"?{query}" if query else ""

    def sorted_by(self, column: str) -> RunFilter:
        """By a column; by one that orders already, the other way round."""
        descending = (
            self.sort == column
            if self.sort.removeprefix("-") == column
            else column in LARGEST_FIRST
        )
        return replace(self, sort=f"-{column}" if descending else column)

    def direction(self, column: str) -> str:
        """As `aria-sort` says it."""
        if self.sort.removeprefix("-") != column:
            return "none"
        return "descending" if self.sort.startswith("-") else "ascending"


class RunLine(Struct, frozen=True):
    """A row of the table."""

    run: ShownRun
    note: RunNote
    state: RunState | None

    @property
    def headline(self) -> Headline | None:
        return self.run.summary.headline

    @property
    def title(self) -> str:
        return self.note.alias or self.run.name

    @property
    def benchmarks(self) -> tuple[str, ...]:
        return tuple(use.name for use in self.run.manifest.benchmarks) if self.run.manifest else ()

    @property
    def benchmark_words(self) -> str:
        """One name, or what several have in common with their number."""
        families = dict.fromkeys(name.split("/")[0] for name in self.benchmarks)
        if len(self.benchmarks) < 2:
            return "".join(self.benchmarks)
        return f"{', '.join(list(families)[:3])}{' …' if len(families) > 3 else ''} ({len(self.benchmarks)})"

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.run.manifest.protocols if self.run.manifest else ()

    @property
    def started(self) -> str:
        return self.run.manifest.started if self.run.manifest else ""

    @property
    def state_name(self) -> str:
        if self.run.fault or self.state is None:
            return "fault" if self.run.fault else "waiting"
        return (
            "indexing"
            if self.state.state == "finished" and self.run.ended_since
            else self.state.state
        )

    @property
    def changes(self) -> bool:
        """Whether it will soon be shown otherwise."""
        return self.state_name in ("under way", "indexing")

    @property
    def text(self) -> str:
        parts = (
            self.run.name,
            self.note.alias,
            self.run.label,
            *self.benchmarks,
            *self.protocols,
            *self.note.tags,
        )
        return " ".join(parts).casefold()

    def count(self, outcome: str) -> int:
        """Questions with this outcome under one protocol or more."""
        return self.run.summary.questions.get(outcome, 0)


COLUMNS: dict[str, tuple[str, Callable[[RunLine], Any]]] = {
    "name": ("run", lambda line: line.title.casefold()),
    "model": ("model", lambda line: line.run.label.casefold()),
    "benchmarks": ("benchmarks", lambda line: line.benchmark_words),
    "protocol": ("protocol", lambda line: line.protocols),
    "headline": (
        "headline",
        lambda line: (line.headline is not None, line.headline and line.headline.estimate.value),
    ),
    "n": ("questions", lambda line: line.headline.estimate.n if line.headline else 0),
    "unparsed": ("unparsed", lambda line: line.count("unparsed")),
    "errors": ("errors", lambda line: line.count("error")),
    "started": ("started", lambda line: line.started),
    "state": ("state", lambda line: line.state_name),
}
"""Name -> its heading, and what rows are ordered by."""
LARGEST_FIRST = ("headline", "n", "unparsed", "errors", "started")


def chosen_lines(lines: Iterable[RunLine], chosen: RunFilter) -> list[RunLine]:
    words = chosen.q.casefold().split()
    fitting = [
        line
        for line in lines
        if all(word in line.text for word in words)
        and (chosen.tag in line.note.tags or not chosen.tag)
        and (chosen.archived or not line.note.archived)
    ]
    _, key = COLUMNS[chosen.sort.removeprefix("-")]
    return sorted(fitting, key=key, reverse=chosen.sort.startswith("-"))


# --- over time, from runs that can be compared: same benchmarks, parts, protocols ------------------------------------


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


def _asks_alike(first: ShownRun, second: ShownRun) -> bool:
    if (
        first.manifest is None
        or second.manifest is None
        or first.manifest.model != second.manifest.model
    ):
        return False
    parts, other_parts = (
        {(use.name, build_of(use), use.selection) for use in manifest.benchmarks}
        for manifest in (first.manifest, second.manifest)
    )
    return parts == other_parts


def _draw(lines: Sequence[RunLine]) -> ChartDrawing:
    """A point for each run, in equal steps; the dates stand below the first and the last."""
    headlines = [line.headline for line in lines if line.headline]
    ends = [
        e
        for h in headlines
        for e in (h.estimate.low, h.estimate.value, h.estimate.high)
        if e is not None
    ]
    is_share = headlines[0].unit == SHARE
    axis = Axis("", headlines[0].unit, 1.0 if is_share else max(ends) or 1.0, min(0.0, *ends))
    shapes: list[Shape] = []

    def height(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * axis.fraction(value)

    for tick in axis.ticks:
        shapes.append(Line(LEFT, height(tick), RIGHT_EDGE, height(tick), "grid"))
        shapes.append(Text(LEFT - 8, height(tick) + 4, axis.label(tick), "end tick"))
    step = (RIGHT_EDGE - LEFT - 40) / max(len(lines) - 1, 1)
    places = [
        (LEFT + 20 + i * step, height(h.estimate.value or 0.0)) for i, h in enumerate(headlines)
    ]
    shapes.append(Group((PathLine(tuple(places), "front", is_open=True),), 0))
    for (x, y), line, headline in zip(places, lines, headlines, strict=True):
        low, high = headline.estimate.low, headline.estimate.high
        whisker = (
            ()
            if low is None or high is None
            else (Line(x, height(low), x, height(high), "whisker"),)
        )
        tip = f"{line.title}, {line.started[:10]}: {figure_text(headline.estimate, headline.unit)}"
        shapes.append(Group((*whisker, Mark(0, x, y)), 0, tip))
    shapes += [Text(places[i][0], BOTTOM + 18, lines[i].started[:10], "tick") for i in (0, -1)]
    return ChartDrawing(f"{headlines[0].words} over time", WIDTH, HEIGHT, tuple(shapes))
