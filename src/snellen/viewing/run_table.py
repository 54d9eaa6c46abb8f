"""The table of runs: filter, order and rows; and the chart of a model's headline over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.axes import ChartAxis
from snellen.report.drawing import ChartDrawing, DrawingBuilder
from snellen.report.number_text import figure_text
from snellen.runs.run_folder import RunManifest
from snellen.viewing.indexing import build_of
from snellen.viewing.library import ShownRun
from snellen.viewing.run_notes import RunNote
from snellen.viewing.run_summary import Headline
from snellen.viewing.running import RunState

MAX_SUITES_SHOWN = 3
"""Suites that a row names; of more than this, the first."""


class RunFilter(Struct, frozen=True):
    """The runs that the table lists, and their order."""

    q: str = ""
    """Words that all occur in a run's name, alias, model, benchmarks, protocols or tags."""
    tag: str = ""
    archived: bool = False
    """Whether runs that were put away are listed, too."""
    sort: str = "-started"
    """A column; with `-` before it, the largest or latest first."""

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> RunFilter:
        """Return the filter that the query of an address has; unknown values are ignored."""
        sort = query.get("sort", "")
        return cls(
            q=query.get("q", "")[:200],
            tag=query.get("tag", "")[:40],
            archived=query.get("archived") == "1",
            sort=sort if sort.removeprefix("-") in SORTABLE_COLUMNS else cls().sort,
        )

    @property
    def query(self) -> str:
        """The filter as the query of a URL, beginning with `?`; empty if all settings are defaults."""
        default = asdict(RunFilter())
        settings = {}
        for name, value in asdict(self).items():
            if value != default[name]:
                settings[name] = int(value) if isinstance(value, bool) else value
        return f"?{urlencode(settings)}" if settings else ""

    def sorted_by(self, column: str) -> RunFilter:
        """Return the filter with the order of a column; the reverse order if the column orders the table already."""
        if self.sort.removeprefix("-") == column:
            is_descending = self.sort == column
        else:
            is_descending = column in COLUMNS_LARGEST_FIRST
        return replace(self, sort=f"-{column}" if is_descending else column)

    def direction(self, column: str) -> str:
        """Return the order of a column, as a value of `aria-sort`."""
        if self.sort.removeprefix("-") != column:
            return "none"
        return "descending" if self.sort.startswith("-") else "ascending"


class RunTableRow(Struct, frozen=True):
    """A row of the table of runs: a run with the user's note on it and its progress."""

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
    def benchmarks_text(self) -> str:
        """The benchmarks of the run: the name of its only one, or the suites of several: `mmbench, pope (5)`."""
        if len(self.benchmarks) < 2:
            return "".join(self.benchmarks)
        suites = list(dict.fromkeys(name.split("/")[0] for name in self.benchmarks))
        suites_text = ", ".join(suites[:MAX_SUITES_SHOWN])
        if len(suites) > MAX_SUITES_SHOWN:
            suites_text += " …"
        return f"{suites_text} ({len(self.benchmarks)})"

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.run.manifest.protocols if self.run.manifest else ()

    @property
    def started(self) -> str:
        return self.run.manifest.started if self.run.manifest else ""

    @property
    def state_name(self) -> str:
        """The state of the run in a word or two.

        It is `under way`, `finished` or `stopped`; `failed` if it ended without a single reply; `indexing` if it was
        scored after it was indexed; `waiting` if its progress is not known; and `fault` if it cannot be read.
        """
        if self.run.fault:
            return "fault"
        if self.state is None:
            return "waiting"
        if self.state.state == "finished" and self.run.was_scored_since:
            return "indexing"
        if self.state.has_failed:
            return "failed"
        return self.state.state

    @property
    def changes(self) -> bool:
        """Whether the run is under way or being indexed, so that the page is reloaded soon."""
        return self.state_name in ("under way", "indexing")

    @property
    def text(self) -> str:
        """Return all texts of a row in lower case, for the search."""
        searched_texts = (
            self.run.name,
            self.note.alias,
            self.run.label,
            *self.benchmarks,
            *self.protocols,
            *self.note.tags,
        )
        return " ".join(searched_texts).casefold()

    def count(self, outcome: str) -> int:
        """Return the number of questions with an outcome under one protocol or more."""
        return self.run.summary.questions.get(outcome, 0)


SORTABLE_COLUMNS: dict[str, tuple[str, Callable[[RunTableRow], Any]]] = {
    "name": ("run", lambda run_row: run_row.title.casefold()),
    "model": ("model", lambda run_row: run_row.run.label.casefold()),
    "benchmarks": ("benchmarks", lambda run_row: run_row.benchmarks_text),
    "protocol": ("protocol", lambda run_row: run_row.protocols),
    "headline": (
        "headline",
        lambda run_row: (
            run_row.headline is not None,
            run_row.headline and run_row.headline.estimate.value,
        ),
    ),
    "n": ("questions", lambda run_row: run_row.headline.estimate.n if run_row.headline else 0),
    "unparsed": ("unparsed", lambda run_row: run_row.count("unparsed")),
    "errors": ("errors", lambda run_row: run_row.count("error")),
    "started": ("started", lambda run_row: run_row.started),
    "state": ("state", lambda run_row: run_row.state_name),
}
"""Heading of each column, and the function from a row to the value that it is ordered by."""
COLUMNS_LARGEST_FIRST = ("headline", "n", "unparsed", "errors", "started")


def chosen_rows(run_rows: Iterable[RunTableRow], chosen: RunFilter) -> list[RunTableRow]:
    """Return the runs that pass a filter, in the order that it chooses.

    Archived runs are hidden unless the filter includes them.
    """
    search_words = chosen.q.casefold().split()
    matches = []
    for run_row in run_rows:
        if run_row.note.archived and not chosen.archived:
            continue
        if chosen.tag and chosen.tag not in run_row.note.tags:
            continue
        if all(word in run_row.text for word in search_words):
            matches.append(run_row)
    _, sort_key = SORTABLE_COLUMNS[chosen.sort.removeprefix("-")]
    return sorted(matches, key=sort_key, reverse=chosen.sort.startswith("-"))


# --- over time, from runs that can be compared: same benchmarks, parts, protocols ------------------------------------


# In pixels.
TREND_WIDTH = 460.0
TREND_HEIGHT = 190.0
PLOT_LEFT = 46.0
PLOT_RIGHT = 448.0
PLOT_TOP = 10.0
PLOT_BOTTOM = 158.0
PLOT_MARGIN = 20.0  # between the ends of the axis and the first and the last point


class Trend(Struct, frozen=True):
    """Comparable runs of a model, the earliest first, and the chart of their headlines."""

    run_rows: tuple[RunTableRow, ...]
    drawing: ChartDrawing


def trend_of(run_row: RunTableRow, run_rows: Sequence[RunTableRow]) -> Trend | None:
    """Return the runs of a model that can be compared over time with one of them, and their chart.

    They have the same questions and the same headline.

    Returns:
        None if there is no second one.
    """
    if run_row.headline is None:
        return None
    comparable = []
    for other in run_rows:
        has_same_headline = other.headline and other.headline.title == run_row.headline.title
        if has_same_headline and _has_same_questions(other.run, run_row.run):
            comparable.append(other)
    if len(comparable) < 2:
        return None
    comparable.sort(key=lambda other: other.started)
    return Trend(tuple(comparable), _trend_chart(comparable))


def _has_same_questions(first: ShownRun, second: ShownRun) -> bool:
    """Return whether two runs are of the same model, and used the same questions of the same builds of benchmarks."""
    if first.manifest is None or second.manifest is None:
        return False
    if first.manifest.model != second.manifest.model:
        return False
    return _selected_questions(first.manifest) == _selected_questions(second.manifest)


def _selected_questions(manifest: RunManifest) -> set[tuple[str, Any, Any]]:
    return {(use.name, build_of(use), use.selection) for use in manifest.benchmarks}


def _trend_chart(run_rows: Sequence[RunTableRow]) -> ChartDrawing:
    """Draw the headline number of several runs over time: a point for each run, with equal distances between runs.

    The dates of the first and the last run are printed below.
    """
    headlines = [run_row.headline for run_row in run_rows if run_row.headline]
    unit = headlines[0].unit
    axis = _trend_axis([headline.estimate for headline in headlines], unit)

    def y_of(value: float) -> float:
        return PLOT_BOTTOM - (PLOT_BOTTOM - PLOT_TOP) * axis.fraction(value)

    builder = DrawingBuilder()
    for tick in axis.ticks:
        y = y_of(tick)
        builder.line((PLOT_LEFT, y), (PLOT_RIGHT, y), "grid")
        builder.text(PLOT_LEFT - 8, y + 4, axis.label(tick), "end tick")

    step = (PLOT_RIGHT - PLOT_LEFT - 2 * PLOT_MARGIN) / max(len(run_rows) - 1, 1)
    points = []
    for index, headline in enumerate(headlines):
        x = PLOT_LEFT + PLOT_MARGIN + index * step
        points.append((x, y_of(headline.estimate.value or 0.0)))
    builder.path(points, "front", is_open=True, series=0)

    for (x, y), run_row, headline in zip(points, run_rows, headlines, strict=True):
        estimate = headline.estimate
        interval = None
        if estimate.low is not None and estimate.high is not None:
            interval = (y_of(estimate.low), y_of(estimate.high))
        tooltip = f"{run_row.title}, {run_row.started[:10]}: {figure_text(estimate, headline.unit)}"
        builder.mark_with_whisker(0, x, y, interval, tooltip=tooltip)

    for index in (0, -1):
        x, _ = points[index]
        builder.text(x, PLOT_BOTTOM + 18, run_rows[index].started[:10], "tick")
    title = f"{headlines[0].title} over time"
    return builder.drawing(title, height=TREND_HEIGHT, width=TREND_WIDTH)


def _trend_axis(estimates: Sequence[Estimate], unit: str) -> ChartAxis:
    """Return the vertical axis of a chart of headline numbers over time.

    Args:
        estimates: The numbers, with their intervals. All are within the axis.
        unit: Their unit. The axis of a share is from 0 to 1. Other axes contain 0 and end at the greatest number.
    """
    numbers: list[float] = []
    for estimate in estimates:
        for number in (estimate.low, estimate.value, estimate.high):
            if number is not None:
                numbers.append(number)
    top = 1.0 if unit == SHARE else max(numbers) or 1.0
    bottom = min(0.0, *numbers)
    return ChartAxis("", unit, top, bottom)
