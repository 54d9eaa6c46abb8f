"""`snellen paper`: tables of the papers of suites, their checks, and runs beside them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from snellen import DataError
from snellen.plugin_api import (
    Table,
    announce,
    console,
    json_flag,
    markdown_tables,
    print_records,
)
from snellen_lab.papers import check_tables, paper_tables
from snellen_lab.papers.paper_check import PaperReport, check_paper
from snellen_lab.papers.printed_tables import Paper, paper_of, papers
from snellen_lab.papers.published_runs import runs_as_published

SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Form = Literal["terminal", "csv", "markdown", "json"]


@click.command()
@click.argument("suite", default="")
@click.argument("table", default="")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--check",
    is_flag=True,
    help="Recompute printed figures from each other, and list what does not agree.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="With --check: exit with 1 unless the misprints are exactly the known ones.",
)
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--markdown", "form", flag_value="markdown", help="Print Markdown.")
@json_flag
def paper_command(
    suite: str,
    table: str,
    runs: tuple[Path, ...],
    check: bool,
    strict: bool,
    form: Form | None,
    as_json: bool,
) -> None:
    """Show tables from the papers of suites, check them, and add RUNS next to the models in them.

    \b
      snellen paper                                 list the tables
      snellen paper reform-eval 9                   Table 9
      snellen paper reform-eval 9 runs/x runs/y     Table 9 with two runs, scored as published
      snellen paper --check                         recompute printed numbers and list misprints

    With --json, the command prints one object per printed value, with the same names of benchmark, metric and method as
    in the results of a run. See docs/papers.md.
    """
    shown_form: Form = "json" if as_json else form or "terminal"
    chosen = [paper_of(suite)] if suite else list(papers().values())
    if check:
        if table:
            raise DataError("--check checks a complete paper; remove the table")
        _check(chosen, strict, shown_form)
    elif strict:
        raise DataError("--strict requires --check")
    elif not table:
        _show(paper_tables.paper_list(chosen), shown_form)
    elif shown_form == "json" and not runs:
        print_records(_tidy(chosen[0], table))
    else:
        _show(
            paper_tables.printed_table(
                chosen[0], table, runs_as_published(runs, may_use_stored=True)
            ),
            shown_form,
        )


def _check(chosen: Sequence[Paper], strict: bool, form: Form) -> None:
    """Print whether the printed tables of papers agree with themselves.

    With `strict`, exit with 1 if misprints and errata differ.
    """
    reports = [check_paper(paper) for paper in chosen]
    if form == "json":
        for report in reports:
            print_records(_check_rows(report))
    else:
        _show(check_tables.check_summary(reports), form)
        for report in reports:
            _show_details(report, form)

    differences = []
    for report in reports:
        for check in report.new_misprints:
            differences.append(check.cell.location)
    for report in reports:
        for erratum in report.unfound:
            differences.append(f"{erratum.location} (a known misprint that was not found)")
    for difference in differences:
        announce(f"differs from the errata: {difference}")
    if strict and differences:
        raise SystemExit(1)


def _show_details(report: PaperReport, form: Form) -> None:
    """Show the tables of a check that have rows."""
    for table in (
        check_tables.misprint_table(report),
        check_tables.repetition_table(report),
        check_tables.read_errata(report),
    ):
        if table.rows:
            console.print()
            _show(table, form)


def _check_rows(report: PaperReport) -> Iterator[dict[str, Any]]:
    """Yield each check of a paper as a record for JSON."""
    for check in report.checks:
        yield {
            "suite": report.paper.suite,
            "place": check.cell.location,
            "formula": check.formula,
            "printed": check.cell.printed,
            "computed": str(check.computed),
            "would_agree": str(check.agreeing),
            "agrees": check.agrees,
            "arithmetic": check.arithmetic,
            "why": check.erratum.why if check.erratum else "",
        }


def _tidy(paper: Paper, table: str) -> Iterator[dict[str, Any]]:
    """Yield the numbers of a printed table as records, one for each number."""
    for cell in paper.values(table):
        yield {
            "suite": paper.suite,
            "table": table,
            **cell.labels,
            "column": cell.column,
            "printed": cell.printed,
            "value": None if cell.value is None else float(cell.value),
            "unit": cell.unit,
            "method": cell.method,
            "benchmark": cell.benchmark,
            "dimension": cell.dimension,
            "slice": cell.slice,
            "metric": cell.metric,
        }


def _show(table: Table, form: Form) -> None:
    """Print a table as JSON, CSV, Markdown or in the terminal."""
    notes = table.footnotes()
    cells = table.text_rows()
    if form == "json":
        print_records(dict(zip(table.header, row, strict=True)) for row in cells)
    elif form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([table.header, *cells])
        console.out(text.getvalue(), end="", highlight=False)
    elif form == "markdown":
        console.out("\n".join(markdown_tables([table], 3)), highlight=False)
    else:
        _show_in_terminal(table, cells, notes)


def _show_in_terminal(table: Table, cells: Sequence[Sequence[str]], notes: dict[str, int]) -> None:
    """Print a table in blocks of columns that fit the width, each with the labels.

    Args:
        table: The table.
        cells: Texts of its cells, row by row, with the marks of their notes.
        notes: Number of each note of a cell.
    """
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    console.print(Text(table.title, style="bold"))
    for columns in _blocks(table, cells, console.width):
        block = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for column in columns:
            is_label = column < table.label_columns
            block.add_column(
                table.header[column], justify="left" if is_label else "right", overflow="fold"
            )
        for row in cells:
            shown_cells = [Text(row[column]) for column in columns]
            block.add_row(*shown_cells)
        console.print(block)

    lines = list(table.notes)
    for note, number in notes.items():
        mark = str(number).translate(SUPERSCRIPTS)
        lines.append(f"{mark} {note}")
    for line in lines:
        console.print(Text(line, style="dim"))


def _blocks(table: Table, cells: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table that fits the width. Every part begins with the columns of labels."""
    widths = []
    for column, name in enumerate(table.header):
        lengths = [len(name)] + [len(row[column]) for row in cells]
        widths.append(max(lengths) + 2)

    labels = list(range(table.label_columns))
    block = list(labels)
    for column in range(table.label_columns, len(table.header)):
        has_values = len(block) > len(labels)
        block_width = sum(widths[other] for other in block)
        if has_values and block_width + widths[column] > width:
            yield block
            block = list(labels)
        block.append(column)
    yield block
