"""Tables for a terminal, as rich draws them.

A figure is a number with its interval and its n, such as `62.5% [58.1, 66.7] n=440`. It takes one, two or three lines,
whichever fits.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from snellen.formats.shown_text import short_name
from snellen.metrics.declaration import declared_row, find_metric
from snellen.records import Result
from snellen.report.common_question_tables import common_question_tables
from snellen.report.content import suite_sections
from snellen.report.control_tables import control_tables
from snellen.report.convention_tables import convention_tables
from snellen.report.findings import findings
from snellen.report.headline_table import (
    headline_by_model,
    headline_table,
    requested_metrics_table,
    side_table,
)
from snellen.report.interval_width import wide_interval_note
from snellen.report.matrix_tables import dimension_tables, other_metrics, scored_benchmarks
from snellen.report.number_text import figure_parts, superscript
from snellen.report.reported_runs import (
    HeadlineEstimate,
    ReportedRun,
    benchmarks_of,
    benchmarks_with_options,
    dimensions_of,
    method_rows,
    pools_of,
    prepare_reported_runs,
)
from snellen.report.sequential_tables import sequential_tables
from snellen.report.step_tables import multi_step_tables
from snellen.report.summary import summary
from snellen.report.table import Cell, NumberCell, Table, cell_text, footnote_of
from snellen.scoring.scored_run import ScoredRun

TEXT_WIDTH = 100
"""Characters of a line of text that no terminal shows."""
MIN_TABLE_WIDTH = 60
"""Characters: wider than any column, narrower than any table."""
COLUMN_GAP = 2
"""Characters between columns."""
MAX_MODELS_AS_COLUMNS = 4
"""Models and methods with an interval each that fit side by side."""
MAX_BENCHMARKS_AS_COLUMNS = 6
"""Benchmarks that fit side by side next to the mean."""


def first_tables(reported_runs: Sequence[ReportedRun]) -> list[RichTable]:
    """Return the tables that a terminal shows first: the results, what limits them, and metrics that the user asked for.

    If there are many models but few benchmarks, the results have a row for each model instead of a column.
    """
    has_many_lines = len(method_rows(reported_runs)) > MAX_MODELS_AS_COLUMNS
    if has_many_lines and len(benchmarks_of(reported_runs)) <= MAX_BENCHMARKS_AS_COLUMNS:
        headlines = headline_by_model(reported_runs)
    else:
        headlines = headline_table(reported_runs, values_alone=has_many_lines)
    tables = [plain_table(replace(headlines, title=""))]
    for table in (side_table(reported_runs), requested_metrics_table(reported_runs)):
        if table is not None:
            tables.append(plain_table(replace(table, title="")))
    return tables


def results_text(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> str:
    """Return the findings and the first tables of a report as plain text.

    Args:
        runs: The runs.
        rows: Their results.
    """
    reported_runs = prepare_reported_runs(runs, rows)
    text = io.StringIO()
    console = Console(file=text, width=TEXT_WIDTH, no_color=True)
    for sentence in findings(reported_runs):
        console.print(sentence, markup=False, highlight=False)
    for table in first_tables(reported_runs):
        console.print(table)
    width_note = wide_interval_note(reported_runs)
    if width_note:
        console.print(width_note, markup=False, highlight=False)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    return "\n".join(lines)


def table_text(table: Table) -> str:
    """Return a table with its notes as plain text."""
    text = io.StringIO()
    Console(file=text, width=TEXT_WIDTH, no_color=True).print(plain_table(table))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def details_tables(reported_runs: Sequence[ReportedRun]) -> list[RichTable]:
    """Return the tables that a terminal shows on request.

    These are a summary of multiple-choice questions, and scores by ability dimension if there are several dimensions.
    """
    tables: list[Table] = []
    has_options = any(
        any(True for _ in benchmarks_with_options(reported_run)) for reported_run in reported_runs
    )
    if has_options:
        tables.append(summary(reported_runs))
    if len(dimensions_of(reported_runs)) > 1:
        tables += dimension_tables(reported_runs)[:1]
    return [plain_table(table) for table in tables]


def tables_of_runs(reported_runs: Sequence[ReportedRun]) -> list[RichTable]:
    """Return the tables of special runs: adaptive ones, those scored as published, controls, answers in several steps."""
    tables = [*sequential_tables(reported_runs), *convention_tables(reported_runs)]
    for table in common_question_tables(reported_runs):
        # Only the report lists the questions that were left out.
        lists_questions = table.label_columns == 2
        if not lists_questions:
            tables.append(table)
    tables += [*control_tables(reported_runs), *multi_step_tables(reported_runs)]
    return [plain_table(table) for table in tables]


def suite_tables(reported_runs: Sequence[ReportedRun]) -> dict[str, list[RichTable]]:
    """Return the tables that benchmark suites add to a report, by their subject."""
    tables: dict[str, list[RichTable]] = {}
    for section in suite_sections(reported_runs):
        tables[section.layout.subject] = [plain_table(table) for table in section.tables]
    return tables


def unbroken_texts(table: Table) -> list[list[str]]:
    """Return, for each column of a table, its heading and the texts of its cells, as far as they must not be broken.

    A caller computes the least width of a column from them.
    """
    footnotes = table.footnotes()
    columns: list[list[str]] = []
    for index, heading in enumerate(table.header):
        columns.append([heading, *(_unbroken_text(row[index], footnotes) for row in table.rows)])
    return columns


def _unbroken_text(cell: Cell, footnotes: dict[str, int]) -> str:
    """Return a cell as text in which underscores mark the spaces that must not be broken: `62.5% [58.1,_66.7] n=440`."""
    if not isinstance(cell, NumberCell):
        return short_name(cell_text(cell, footnotes))
    words: list[str] = []
    for row in _Figure(cell).rows:
        words += [figure_part.replace(" ", "_") for figure_part in row]
    return " ".join(words)


class _NotedTable(RichTable):
    """Table whose notes use the full width of the terminal, however narrow its columns are."""

    def __init__(self, notes: Sequence[str], **layout: Any) -> None:
        super().__init__(**layout)
        self._notes_below = Text("\n".join(notes), style="table.caption")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super().__rich_console__(console, options)
        if self._notes_below:
            yield self._notes_below


def plain_table(table: Table, widths: Sequence[int] = ()) -> RichTable:
    """Return a table with its title above, and its notes and footnotes below.

    Args:
        table: The table.
        widths: Widths of the columns; columns beyond these are left out. By default all columns are shown, and rich
            chooses their widths.
    """
    footnotes = table.footnotes()
    notes = list(table.all_notes)
    for note, number in footnotes.items():
        notes.append(f"{superscript(number)} {note}")
    rich_table = _NotedTable(
        notes,
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        title=Text(short_name(table.title)) if table.title else None,
        title_justify="left",
    )
    n_columns = len(widths) or len(table.header)
    for index, heading in enumerate(table.header[:n_columns]):
        justify: Literal["left", "right"] = "left" if index < table.label_columns else "right"
        width = widths[index] if widths else None
        rich_table.add_column(
            Text(short_name(heading)), overflow="fold", justify=justify, width=width
        )

    column_space = _WidthBudget.of(table, n_columns)
    for row in table.rows:
        shown_cells: list[Text | _Figure] = []
        for cell in row[:n_columns]:
            if not isinstance(cell, NumberCell):
                shown_cells.append(Text(short_name(cell_text(cell, footnotes))))
                continue
            number = footnotes.get(footnote_of(cell))
            mark = "" if number is None else superscript(number)
            shown_cells.append(_Figure(cell, mark, column_space))
        rich_table.add_row(*shown_cells)
    return rich_table


class _WidthBudget(Struct, frozen=True):
    """The width that a table needs. It decides whether a number, its interval and its n are on one, two or three lines."""

    columns: int = 4
    """Number of columns with numbers."""
    other_width: int = MIN_TABLE_WIDTH // 2
    """Characters that all other columns need together."""

    @classmethod
    def of(cls, table: Table, n_columns: int) -> _WidthBudget:
        """Measure how much width the first columns of a table need, apart from the columns with numbers."""
        figure_columns = 0
        other_width = 0
        for index in range(n_columns):
            cells = [row[index] for row in table.rows]
            if any(isinstance(cell, NumberCell) for cell in cells):
                figure_columns += 1
                continue
            texts = [table.header[index], *(cell_text(cell, {}) for cell in cells)]
            other_width += max(len(text) for text in texts) + 1
        return cls(max(figure_columns, 1), other_width)

    def holds(self, width: int, available: int) -> bool:
        """Return whether the table fits into a terminal.

        Args:
            width: The width of each column with numbers, in characters.
            available: The width of the terminal, in characters.
        """
        needed = self.columns * (width + 1) + self.other_width
        return needed <= available


def other_tables(reported_runs: Sequence[ReportedRun]) -> list[RichTable]:
    """Return metrics of open questions and any requested ones by benchmark, a table per model and method."""
    benchmarks = [*scored_benchmarks(reported_runs), *pools_of(reported_runs)]
    metrics = other_metrics(reported_runs)
    # A metric that found nothing to count needs only its first row to say so.
    later_rows: set[str] = set()
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            for tally in scored.tallies:
                later_rows.update(find_metric(tally.metric).names[1:])

    tables: list[RichTable] = []
    for model_row in method_rows(reported_runs):
        numbers: dict[tuple[str, str], HeadlineEstimate] = {}
        for benchmark in benchmarks:
            for metric in metrics:
                number = model_row.lookup(metric, benchmark)
                if number is None:
                    continue
                if number.estimate.n or metric not in later_rows:
                    numbers[benchmark, metric] = number
        if numbers:
            title = f"{short_name(model_row.reported_run.label)} {model_row.method}"
            tables.append(_metric_table(title, numbers))
    return tables


def _metric_table(title: str, numbers: Mapping[tuple[str, str], HeadlineEstimate]) -> RichTable:
    """Return a row for each number.

    Args:
        title: Title of the table.
        numbers: The numbers by benchmark and metric. The numbers of a benchmark are next to each other.
    """
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
        heading = replace(declared_row(metric), unit=number.unit).heading
        rich_table.add_row(
            name, heading, figure, f"{estimate.unscored:,} / {estimate.unanswered:,}"
        )
        previous = benchmark
    return rich_table


class _Figure:
    """Figures of a cell for rich, which may break between value, interval and n, but never within one of them."""

    def __init__(
        self, number: NumberCell, mark: str = "", width_budget: _WidthBudget | None = None
    ) -> None:
        """Prepare a number for a cell in a terminal.

        Args:
            number: The number, with further ones below it.
            mark: The mark of its footnote.
            width_budget: The width that the table of the cell needs.
        """
        self._width_budget = width_budget or _WidthBudget()
        value, interval, count = figure_parts(number.estimate, number.unit)
        if mark:
            count = f"{count} {mark}"
        self.rows = [(value, interval, count)]
        """Value, interval and n of each figure."""
        for label, estimate in number.secondary:
            value, interval, count = figure_parts(estimate, number.unit)
            self.rows.append((f"{label} {value}", interval, count))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the least and the greatest width of the cell for the library rich.

        A number with its interval and n is written in one, two or three lines. Rich calls this twice: with the width of
        the complete table, and with what is left for the column.
        """
        available = options.max_width
        value_width = max(len(value) for value, _, _ in self.rows)
        interval_width = max(len(interval) for _, interval, _ in self.rows)
        count_width = max(len(count) for _, _, count in self.rows)
        width_of_three_lines = max(value_width, interval_width, count_width)
        width_of_two_lines = max(value_width, interval_width + 1 + count_width)
        # The text of one line, its two blanks, and a gap to the previous column.
        width_of_one_line = value_width + interval_width + count_width + 2 + COLUMN_GAP
        is_left_for_column = available < MIN_TABLE_WIDTH
        if is_left_for_column:
            greatest = min(max(width_of_three_lines, available), width_of_one_line)
            return Measurement(width_of_three_lines, greatest)
        for width in (width_of_one_line, width_of_two_lines):
            if self._width_budget.holds(width, available):
                return Measurement(width_of_three_lines, width)
        return Measurement(width_of_three_lines, width_of_three_lines)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        figures = [self._break(row, options.max_width) for row in self.rows]
        yield Text("\n", justify="right").join(figures)

    def _break(self, row: tuple[str, str, str], width: int) -> Text:
        """Return a number with its interval and n in as few lines as the width allows: one, two or three.

        Args:
            row: The texts of the number, its interval and its n.
            width: The width in characters.
        """
        value, interval, count = row
        if len(f"{value} {interval} {count}") <= width:
            continuation = f" {interval} {count}"
        elif len(f"{interval} {count}") <= width:
            continuation = f"\n{interval} {count}"
        else:
            continuation = f"\n{interval}\n{count}"
        return Text.assemble((value, "bold"), (continuation, "dim"), justify="right")
