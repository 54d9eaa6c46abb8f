"""For a terminal or a notebook: tables, where a number takes one, two or three lines, whichever fits; and progress."""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from snellen.formats.shown_text import short_name
from snellen.metrics.declaration import declared, find_metric
from snellen.records import Estimate
from snellen.report.content import suite_sections
from snellen.report.headline_table import headline_by_model, headline_table, side_table
from snellen.report.paired_tables import sequential_tables
from snellen.report.protocol_tables import control_tables, talk_tables
from snellen.report.rendering import escaped
from snellen.report.run_view import (
    HeadlineEstimate,
    RunView,
    benchmarks_of,
    dimensions_of,
    each_choice_benchmark,
    method_rows,
    pools_of,
)
from snellen.report.sections import (
    common_question_tables,
    convention_tables,
    dimension_tables,
    other_metrics,
    scored_benchmarks,
)
from snellen.report.summary import summary
from snellen.report.table import (
    Cell,
    NumberCell,
    Table,
    cell_text,
    figure_parts,
    footnote_of,
    superscript,
)
from snellen.runs.run_progress import ProgressListener, RunProgress, SessionPace

LEAST = 60
"""Characters: wider than any column, narrower than any table."""
GAP = 2
MOST_LINES = 4
"""Models and methods with an interval each that fit side by side."""
MOST_COLUMNS = 6
"""Benchmarks that fit side by side next to the mean."""


def first_tables(views: Sequence[RunView]) -> list[RichTable]:
    """The headline of each benchmark by model, and a second table with what says something about these numbers."""
    many = len(method_rows(views)) > MOST_LINES
    if many and len(benchmarks_of(views)) <= MOST_COLUMNS:
        first = headline_by_model(views)
    else:
        first = headline_table(views, values_alone=many)
    tables = [first, side_table(views)]
    return [plain_table(replace(table, title="")) for table in tables if table is not None]


def details_tables(views: Sequence[RunView]) -> list[RichTable]:
    """All notes on the questions with options, and the dimensions, each where there is such a thing."""
    tables: list[Table] = []
    if any(True for view in views for _ in each_choice_benchmark(view)):
        tables.append(summary(views))
    if len(dimensions_of(views)) > 1:
        tables += dimension_tables(views)[:1]
    return [plain_table(table) for table in tables]


def tables_of_runs(views: Sequence[RunView]) -> list[RichTable]:
    """What runs that a rule stopped know, both conventions, common questions, what pictures are needed for, and answers
    in several steps: each where there is such a thing."""
    # Only the report lists the questions left out.
    common = [table for table in common_question_tables(views) if table.label_columns != 2]
    before, after = (
        (*sequential_tables(views), *convention_tables(views)),
        (*control_tables(views), *talk_tables(views)),
    )
    return [plain_table(table) for table in (*before, *common, *after)]


def suite_tables(views: Sequence[RunView]) -> dict[str, list[RichTable]]:
    """The tables that suites add, by their subject."""
    sections = suite_sections(views)
    return {
        section.layout.subject: [plain_table(table) for table in section.tables]
        for section in sections
    }


def shown_words(table: Table) -> list[list[str]]:
    """The texts of each column, heading and cells, in which what may not be broken is one word."""
    notes = table.footnotes()
    rows = ([_unbroken(cell, notes) for cell in row] for row in table.rows)
    return [list(column) for column in zip(table.header, *rows, strict=True)]


def _unbroken(cell: Cell, notes: dict[str, int]) -> str:
    """A number's parts as words, which stand on lines of their own where there is no room beside each other."""
    if not isinstance(cell, NumberCell):
        return short_name(cell_text(cell, notes))
    return " ".join(part.replace(" ", "_") for row in _Figure(cell).rows for part in row)


class _NotedTable(RichTable):
    """A table whose notes take the whole width of the terminal, however narrow its columns are."""

    def __init__(self, notes: Sequence[str], **layout: Any) -> None:
        super().__init__(**layout)
        self._notes_below = Text("\n".join(notes), style="table.caption")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options)
        if self._notes_below:
            yield self._notes_below


def plain_table(table: Table, widths: Sequence[int] = ()) -> RichTable:
    """Any table, with its title above, and notes and footnotes below; with `widths` as many columns as these."""
    notes = table.footnotes()
    note_lines = (*table.all_notes, *(f"{superscript(i)} {note}" for note, i in notes.items()))
    rich_table = _NotedTable(
        note_lines,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        title=Text(short_name(table.title)) if table.title else None,
        title_justify="left",
    )
    count = len(widths) or len(table.header)
    for i, name in enumerate(table.header[:count]):
        justify: Literal["left", "right"] = "left" if i < table.label_columns else "right"
        rich_table.add_column(
            Text(short_name(name)),
            overflow="fold",
            justify=justify,
            width=widths[i] if widths else None,
        )
    figures = _Room.of(table, count)
    for row in table.rows:
        shown: list[Text | _Figure] = []
        for cell in row[:count]:
            if isinstance(cell, NumberCell):
                note = footnote_of(cell)
                mark = superscript(notes[note]) if note in notes else ""
                shown.append(_Figure(cell, mark, figures))
            else:
                shown.append(_words(cell, notes))
        rich_table.add_row(*shown)
    return rich_table


class _Room(Struct, frozen=True):
    """What a table needs besides its figures, to choose how many lines a figure takes."""

    columns: int = 4
    """Columns of figures."""
    others: int = LEAST // 2
    """Characters that all other columns take."""

    @classmethod
    def of(cls, table: Table, count: int) -> _Room:
        """Return the room of the first `count` columns of a table."""
        columns = 0
        others = 0
        for place in range(count):
            cells = [row[place] for row in table.rows]
            if any(isinstance(cell, NumberCell) for cell in cells):
                columns += 1
            else:
                texts = [table.header[place], *(cell_text(cell, {}) for cell in cells)]
                others += max(map(len, texts)) + 1
        return cls(max(columns, 1), others)

    def holds(self, width: int, room: int) -> bool:
        """Return whether all figures fit if each takes so many characters."""
        return self.columns * (width + 1) + self.others <= room


def other_tables(views: Sequence[RunView]) -> list[RichTable]:
    """Metrics of open questions and any requested ones, by benchmark: one table per model and method."""
    metrics, names = other_metrics(views), [*scored_benchmarks(views), *pools_of(views)]
    # A metric without anything to count needs only one row to say so.
    pooled = {
        tally.metric for view in views for scored in view.run.benchmarks for tally in scored.tallies
    }
    followers = {row for metric in pooled for row in find_metric(metric).names[1:]}
    tables = []
    for line in method_rows(views):
        estimates = {
            (name, metric): line.lookup(metric, name) for name in names for metric in metrics
        }
        numbers = {
            place: number
            for place, number in estimates.items()
            if number and (number.estimate.n or place[1] not in followers)
        }
        if numbers:
            tables.append(_other_table(f"{short_name(line.view.label)} {line.method}", numbers))
    return tables


def _other_table(title: str, numbers: Mapping[tuple[str, str], HeadlineEstimate]) -> RichTable:
    rich_table = RichTable(
        box=box.SIMPLE_HEAD, show_edge=False, padding=0, title=Text(title), title_justify="left"
    )
    rich_table.add_column("benchmark", overflow="fold")
    rich_table.add_column("metric", overflow="fold")
    rich_table.add_column("value [95% interval] n", justify="right", no_wrap=True)
    rich_table.add_column("unscored / unanswered", justify="right", max_width=len("unanswered"))
    previous = ""
    for (benchmark, metric), number in numbers.items():
        estimate = number.estimate
        value, interval, count = figure_parts(estimate, number.unit)
        figure = Text.assemble((value, "bold"), (f" {interval} {count}", "dim"))
        name = "" if benchmark == previous else short_name(benchmark)
        rich_table.add_row(
            name,
            replace(declared(metric), unit=number.unit).heading,
            figure,
            f"{estimate.unscored:,} / {estimate.unanswered:,}",
        )
        previous = benchmark
    return rich_table


def _words(cell: Cell, notes: dict[str, int]) -> Text:
    return Text(short_name(cell_text(cell, notes)))


class _Figure:
    """A number that may break between value, interval and n, but never within one of them."""

    def __init__(self, number: NumberCell, mark: str = "", around: _Room | None = None) -> None:
        self._around = around or _Room()
        value, interval, count = _row("", number.estimate, number.unit)
        self.rows = [(value, interval, f"{count} {mark}" if mark else count)]
        self.rows += [
            _row(f"{label} ", estimate, number.unit) for label, estimate in number.secondary
        ]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Rich asks twice: with the width of the whole table, and with what is left for the column."""
        room = options.max_width
        values, intervals, counts = (
            max(map(len, column)) for column in zip(*self.rows, strict=True)
        )
        three_lines = max(values, intervals, counts)
        two_lines = max(values, intervals + 1 + counts)
        # Two characters more than one line takes, as a gap to the previous column.
        one_line = values + intervals + counts + 2 + GAP
        if room < LEAST:
            return Measurement(three_lines, min(max(three_lines, room), one_line))
        for width in (one_line, two_lines):
            if self._around.holds(width, room):
                return Measurement(three_lines, width)
        return Measurement(three_lines, three_lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n", justify="right").join(
            self._break(row, options.max_width) for row in self.rows
        )

    def _break(self, row: tuple[str, str, str], width: int) -> Text:
        value, interval, count = row
        if len(" ".join(row)) <= width:
            continuation = f" {interval} {count}"
        elif len(f"{interval} {count}") <= width:
            continuation = f"\n{interval} {count}"
        else:
            continuation = f"\n{interval}\n{count}"
        return Text.assemble((value, "bold"), (continuation, "dim"), justify="right")


def _row(prefix: str, estimate: Estimate, unit: str) -> tuple[str, str, str]:
    value, interval, count = figure_parts(estimate, unit)
    return f"{prefix}{value}", interval, count


# --- progress: plain lines, or in a notebook a bar that grows in its place -------------------------------------------


SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_BARS = 0.2


class ProgressWords:
    """Says when to show a run again, and in words how far it has come."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._paces: dict[str, SessionPace] = defaultdict(SessionPace)
        self._shown: dict[str, float] = {}

    def due(self, state: RunProgress) -> str:
        """`120 of 400 questions done, 3.1/s, 90 s left, 130 requests, 2 failed`, or nothing where not enough time has
        gone by and the run has not come to its end."""
        now = self._clock()
        rate = self._paces[state.folder].rate(now, state.requests, state.done)
        is_early = now - self._shown.get(state.folder, -math.inf) < self._seconds
        if is_early and state.done < state.total:
            return ""
        self._shown[state.folder] = now
        is_over = state.done == state.total
        pace = (
            f", {rate:,.1f}/s"
            + ("" if is_over else f", {(state.total - state.done) / rate:,.0f} s left")
            if rate
            else ""
        )
        different = (
            f" ({state.different:,} different ones, by several protocols)"
            if state.different
            else ""
        )
        done = f"{state.done:,} of {state.total:,} questions done{different}"
        return f"{done}{pace}, {state.requests:,} requests, {state.failures:,} failed"


def progress_lines(write: Callable[[str], object]) -> ProgressListener:
    """A listener that writes a line now and then, and one when a run has come to its end; none before something was
    asked, so that the first counts all that was answered before."""
    words = ProgressWords(SECONDS_BETWEEN_LINES)

    def listen(state: RunProgress) -> None:
        if (state.requests or 0 < state.done == state.total) and (line := words.due(state)):
            write(f"{short_name(state.model)}: {line}")

    return listen


def shown_progress() -> ProgressListener:
    """Return a listener that shows progress: a bar per run in a notebook, otherwise a line on stderr every ten seconds.

    Examples:
        >>> sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, progress=sn.shown_progress()).value()
        1.0
    """
    return _bars() if _is_notebook() else progress_lines(lambda line: print(line, file=sys.stderr))  # noqa: T201


def _is_notebook() -> bool:
    """Whether this is a kernel: a shell that shows more than text."""
    shells = sys.modules.get("IPython")
    return getattr(shells and shells.get_ipython(), "kernel", None) is not None


def _bars() -> ProgressListener:
    from IPython.display import display

    words = ProgressWords(SECONDS_BETWEEN_BARS)
    bars: dict[str, Any] = {}

    def listen(state: RunProgress) -> None:
        if not (line := words.due(state)):
            return
        name = short_name(state.model)
        bar = f'<progress value="{state.done}" max="{state.total}"></progress>'
        bundle = {
            "text/plain": f"{name}: {line}",
            "text/html": f"<div>{escaped(name)} {bar} {escaped(line)}</div>",
        }
        if state.folder in bars:
            bars[state.folder].update(bundle, raw=True)
        else:
            bars[state.folder] = display(bundle, raw=True, display_id=True)

    return listen
