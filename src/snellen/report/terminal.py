"""The numbers in a terminal: a figure takes one, two or three lines, whatever fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

from snellen.analysis.capability import ALL, CAPABILITY
from snellen.analysis.ranks import AVERAGE_RANK
from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import declared
from snellen.records import Estimate, Result
from snellen.report import comparison
from snellen.report.formatting import DASH, figure_parts, short_name, superscript, value_text
from snellen.report.run_view import MetricEstimates, dimensions_of, method_rows, run_views
from snellen.report.sections import other_metrics, scored_benchmarks
from snellen.report.suite_tables import suite_sections
from snellen.report.summary import summary
from snellen.report.table import Cell, NumberCell, Table, cell_text, note_of
from snellen.scoring.scored_run import ScoredRun
from snellen.scoring.text_scoring import rows_of

LEAST = 60
"""Letters that no column has, and any table."""
GAP = 2
MOST_LINES = 4


def summary_table(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> RichTable:
    """One row a model and method: each number with its interval and n, footnotes below."""
    table = summary(run_views(runs, rows))
    notes = table.footnotes()
    shown = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        caption=Text("\n".join((*table.notes, *(f"{superscript(i)} {note}" for note, i in notes.items())))),
        caption_justify="left",
    )
    # Names share a column, and so do the counts: with four figures that just fits 80 columns. Headings break, so
    # that the names, which may be folded, are what Rich makes narrower.
    shown.add_column("model, method", overflow="fold")
    for name in table.header[2:-3]:
        shown.add_column(name.replace(" ", "\n"), justify="right")
    shown.add_column("unparsed, unscored / errors", justify="right", max_width=len("unscored"))
    for model, method, *figures, unparsed, unscored, errors in table.rows:
        share = value_text(unparsed.estimate, unparsed.unit) if isinstance(unparsed, NumberCell) else DASH
        counts = f"{share}\n{cell_text(unscored, notes)} / {cell_text(errors, notes)}"
        shown.add_row(
            Text.assemble(short_name(str(model)), (f" {method}", "dim")),
            *(_render(cell, notes) for cell in figures),
            counts,
        )
    return shown


def capability_table(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> RichTable | None:
    """Dimensions by models and methods, when there are several dimensions and few enough columns."""
    sheets = run_views(runs, rows)
    lines, dimensions = method_rows(sheets), dimensions_of(sheets)
    if len(dimensions) < 2 or len(lines) > MOST_LINES:
        return None
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
    shown.add_column("capability", overflow="fold")
    for line in lines:
        shown.add_column(Text.assemble(short_name(line.sheet.label), (f"\n{line.method}", "dim")), justify="right")
    reasons: dict[str, int] = {}
    for name in (*dimensions, ALL):
        cells = [_capability(line.at(CAPABILITY, ALL, name), reasons) for line in lines]
        shown.add_row("mean of the dimensions" if name == ALL else dimension_titles().get(name, name), *cells)
    ranks = [line.at(AVERAGE_RANK, ALL, ALL) for line in lines]
    if any(ranks):
        shown.add_row("average rank", *(_capability(rank, reasons) for rank in ranks))
    shown.caption = Text("\n".join(f"{superscript(i)} {reason}" for reason, i in reasons.items()))
    shown.caption_justify = "left"
    return shown


def _capability(found: MetricEstimates | None, reasons: dict[str, int]) -> Text | _Figure:
    """A figure, or a dash with the number of its reason, which is noted in `reasons`."""
    if found is None:
        return Text(DASH)
    if found.estimate.value is not None:
        return _Figure(NumberCell(found.unit, found.estimate))
    return Text(DASH + superscript(reasons.setdefault(found.reason, len(reasons) + 1)))


def common_tables(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[RichTable]:
    """What runs on common questions have in common, and how they differ; the questions left out are in the report."""
    tables = comparison.common_question_tables(run_views(runs, rows))
    return [_plain_table(table) for table in tables if table.labels != 2]


def suite_tables(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> dict[str, list[RichTable]]:
    """The tables that suites add, by what their rows are."""
    sections = suite_sections(run_views(runs, rows))
    return {section.layout.subject: [_plain_table(table) for table in section.tables] for section in sections}


def _plain_table(table: Table) -> RichTable:
    notes = table.footnotes()
    told = (*table.notes, *(f"{superscript(i)} {note}" for note, i in notes.items()))
    shown = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        title=Text(short_name(table.title)),
        title_justify="left",
        caption=Text("\n".join(told)),
        caption_justify="left",
    )
    for i, name in enumerate(table.header):
        shown.add_column(name, overflow="fold", justify="left" if i < table.labels else "right")
    for row in table.rows:
        shown.add_row(*(_render(cell, notes) if isinstance(cell, NumberCell) else _words(cell, notes) for cell in row))
    return shown


def other_tables(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[RichTable]:
    """Metrics of open questions and those that were asked for, by benchmark: a table a model and method."""
    sheets = run_views(runs, rows)
    metrics, names = other_metrics(sheets), list(scored_benchmarks(sheets))
    # Where a metric could count nothing, one of its rows is enough to say so.
    pooled = {tally.metric for run in runs for one in run.benchmarks for tally in one.tallies}
    followers = {row for metric in pooled for row in rows_of(metric)[1:]}
    tables = []
    for line in method_rows(sheets):
        found = {(name, metric): line.at(metric, name) for name in names for metric in metrics}
        kept = {place: one for place, one in found.items() if one and (one.estimate.n or place[1] not in followers)}
        if kept:
            tables.append(_other_table(f"{short_name(line.sheet.label)} {line.method}", kept))
    return tables


def _other_table(title: str, numbers: Mapping[tuple[str, str], MetricEstimates]) -> RichTable:
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0, title=Text(title), title_justify="left")
    shown.add_column("benchmark", overflow="fold")
    shown.add_column("metric", overflow="fold")
    shown.add_column("value [95% interval] n", justify="right", no_wrap=True)
    shown.add_column("unscored / errors", justify="right", max_width=len("unscored"))
    before = ""
    for (benchmark, metric), number in numbers.items():
        one = number.estimate
        value, interval, count = figure_parts(one, number.unit)
        figure = Text.assemble((value, "bold"), (f" {interval} {count}", "dim"))
        name = "" if benchmark == before else short_name(benchmark)
        shown.add_row(
            name, replace(declared(metric), unit=number.unit).heading, figure, f"{one.unscored:,} / {one.errors:,}"
        )
        before = benchmark
    return shown


def _words(cell: Cell, notes: dict[str, int]) -> Text:
    return Text(short_name(cell_text(cell, notes)))


def _render(cell: Cell, notes: dict[str, int]) -> Text | _Figure:
    if isinstance(cell, NumberCell):
        note = note_of(cell)
        return _Figure(cell, superscript(notes[note]) if note else "")
    return Text(cell_text(cell, notes))


class _Figure:
    """A number that breaks between value, interval and n, never within one of them."""

    def __init__(self, number: NumberCell, mark: str = "") -> None:
        value, interval, count = _row("", number.estimate, number.unit)
        self._rows = [(value, interval, count + mark)]
        self._rows += [_row(f"{label} ", other, number.unit) for label, other in number.beside]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Rich asks twice: with the room of the whole table, and with what is left for the column."""
        room = options.max_width
        values, intervals, counts = (max(map(len, column)) for column in zip(*self._rows, strict=True))
        three = max(values, intervals, counts)
        two = max(values, intervals + 1 + counts)
        # Two letters more than it takes on one line, as a gap to the column before.
        one = values + intervals + counts + 2 + GAP
        if room < LEAST:
            return Measurement(three, min(max(three, room), one))
        return Measurement(three, next((width for width in (one, two) if 4 * width + LEAST // 2 <= room), three))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n", justify="right").join(self._break(row, options.max_width) for row in self._rows)

    def _break(self, row: tuple[str, str, str], width: int) -> Text:
        value, interval, count = row
        if len(" ".join(row)) <= width:
            rest = f" {interval} {count}"
        elif len(f"{interval} {count}") <= width:
            rest = f"\n{interval} {count}"
        else:
            rest = f"\n{interval}\n{count}"
        return Text.assemble((value, "bold"), (rest, "dim"), justify="right")


def _row(before: str, estimate: Estimate, unit: str) -> tuple[str, str, str]:
    value, interval, count = figure_parts(estimate, unit)
    return f"{before}{value}", interval, count
