"""`snellen paper`, `analyse` and `study`: what papers print, groups of models, runs that differ in one thing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from snellen.analysis.paper_check import PaperReport, check_paper
from snellen.catalogue.cards import load_cards, model_cards
from snellen.catalogue.papers import Paper, paper_of, papers
from snellen.cli.flags import PATH, field_flags, flags_given, json_flag, scoring_flags
from snellen.cli.show import announce, out, print_records, print_tables, run_progress
from snellen.errors import DataError
from snellen.experiments.model_groups.declaration import analyses, find_analysis
from snellen.experiments.model_groups.outcome import (
    compute_analysis,
    flat_analysis_row,
    write_analysis,
)
from snellen.experiments.studies.cell_table import STUDY_FILES, StudyOutcome
from snellen.experiments.studies.declaration import NOT_FIXED
from snellen.experiments.studies.series import flat_study_row
from snellen.report import paper_tables
from snellen.report.table import Table, cell_text, superscript
from snellen.runs.spec import ExecutionSpec, QuestionSpec

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
    """Show the tables of suites' papers, check them, and set RUNS beside the models in them.

    \b
      snellen paper                                 what there is
      snellen paper reform-eval 9                   Table 9
      snellen paper reform-eval 9 runs/x runs/y     with two runs, scored as published
      snellen paper --check                         figures recomputed; misprints

    With --json a table is one object per printed value, with the names of benchmark, metric and method that a run's
    results have. See docs/papers.md.
    """
    shown_form: Form = "json" if as_json else form or "terminal"
    chosen = [paper_of(suite)] if suite else list(papers().values())
    if check:
        if table:
            raise DataError("--check is for whole papers; leave the table out")
        _check(chosen, strict, shown_form)
    elif strict:
        raise DataError("--strict goes with --check")
    elif not table:
        _show(paper_tables.paper_list(chosen), shown_form)
    elif shown_form == "json" and not runs:
        print_records(_tidy(chosen[0], table))
    else:
        _show(
            paper_tables.printed_table(chosen[0], table, _views(runs, kept_will_do=True)),
            shown_form,
        )


def _views(runs: Sequence[Path], *, kept_will_do: bool = False) -> Sequence[Any]:
    """The runs, scored as published; with `kept_will_do` scores that were kept are as good."""
    if not runs:
        return ()
    from snellen.experiments.results import Results
    from snellen.experiments.scored_folders import score_folders
    from snellen.report.run_view import run_views
    from snellen.runs.spec import JudgeSpec, ScoringSpec

    published = ScoringSpec(as_published=True)
    results = Results(
        score_folders(runs, published, JudgeSpec(), announce, kept_will_do=kept_will_do)
    )
    return run_views(results.runs, results.rows)


def _check(chosen: Sequence[Paper], strict: bool, form: Form) -> None:
    reports = [check_paper(paper) for paper in chosen]
    if form == "json":
        print_records(row for report in reports for row in _check_rows(report))
    else:
        _show(paper_tables.check_summary(reports), form)
        for report in reports:
            for table in (
                paper_tables.misprint_table(report),
                paper_tables.repetition_table(report),
                paper_tables.read_errata(report),
            ):
                if table.rows:
                    out.print()
                    _show(table, form)
    strange = [check.cell.place for report in reports for check in report.unknown]
    strange += [
        f"{erratum.place} (known, and not found)"
        for report in reports
        for erratum in report.unfound
    ]
    for place in strange:
        announce(f"not as in the errata: {place}")
    if strict and strange:
        raise SystemExit(1)


def _check_rows(report: PaperReport) -> Iterator[dict[str, Any]]:
    for check in report.checks:
        yield {
            "suite": report.paper.suite,
            "place": check.cell.place,
            "formula": check.formula,
            "printed": check.cell.printed,
            "computed": str(check.computed),
            "would_agree": str(check.agreeing),
            "agrees": check.agrees,
            "arithmetic": check.arithmetic,
            "why": check.known.why if check.known else "",
        }


def _tidy(paper: Paper, table: str) -> Iterator[dict[str, Any]]:
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
    notes = table.footnotes()
    cells = [[cell_text(cell, notes) for cell in row] for row in table.rows]
    if form == "json":
        print_records(dict(zip(table.header, row, strict=True)) for row in cells)
    elif form == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([table.header, *cells])
        out.out(text.getvalue(), end="", highlight=False)
    elif form == "markdown":
        from snellen.report.markdown import markdown_tables

        out.out("\n".join(markdown_tables([table], 3)), highlight=False)
    else:
        _show_in_terminal(table, cells, notes)


def _show_in_terminal(table: Table, cells: Sequence[Sequence[str]], notes: dict[str, int]) -> None:
    """In blocks of columns that fit the width, each with the labels."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    out.print(Text(table.title, style="bold"))
    for columns in _blocks(table, cells, out.width):
        block = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=0)
        for i in columns:
            block.add_column(
                table.header[i],
                justify="left" if i < table.label_columns else "right",
                overflow="fold",
            )
        for row in cells:
            block.add_row(*(Text(row[i]) for i in columns))
        out.print(block)
    for note in (*table.notes, *(f"{superscript(i)} {note}" for note, i in notes.items())):
        out.print(Text(note, style="dim"))


def _blocks(table: Table, cells: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    widths = [
        2 + max(len(text) for text in (name, *(row[i] for row in cells)))
        for i, name in enumerate(table.header)
    ]
    labels = list(range(table.label_columns))
    block = list(labels)
    for i in range(table.label_columns, len(table.header)):
        if len(block) > len(labels) and sum(widths[j] for j in block) + widths[i] > width:
            yield block
            block = list(labels)
        block.append(i)
    yield block


@click.command()
@click.argument("name", default="")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path, exists=True))
@click.option("--cards", help="TOML file with your own model cards.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .html, .md, .csv, .json, or .svg for the chart alone. Repeat for more.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 1 unless all printed figures agree or are known misprints.",
)
@json_flag
def analyse_command(
    name: str,
    runs: tuple[Path, ...],
    cards: str | None,
    outputs: tuple[Path, ...],
    strict: bool,
    as_json: bool,
) -> None:
    """Show the analysis NAME of the published models, and of RUNS beside them.

    \b
      snellen analyse                                   what there is
      snellen analyse backbones                         the paper's models
      snellen analyse backbones runs/x --cards my.toml  with a run, whose model's card says its group
      snellen analyse backbones -o backbones.html -o backbones.svg

    NAME may be a TOML file of your own. See docs/analyses.md.
    """
    if not name:
        _list()
        return
    spec = find_analysis(name)
    known_cards = load_cards(Path(cards)) if cards else model_cards()
    outcome = compute_analysis(spec, _views(runs), known_cards)
    for path in outputs:
        announce(f"wrote {write_analysis(outcome, path)}")
    if as_json:
        print_records(flat_analysis_row(row, spec) for row in outcome.rows)
    else:
        print_tables([outcome.table, *([outcome.check_table] if outcome.checks else ())])
    for note in outcome.notes:
        announce(f"note: {note}")
    if strict and outcome.unexplained:
        raise SystemExit(1)


def _list() -> None:
    rows = tuple((name, spec.title, spec.about) for name, spec in analyses().items())
    print_tables(
        [Table("Analyses", ("analysis", "what it shows", "repeats"), rows, label_columns=3)]
    )


MOST_ROWS = 30
"""Rows of a table that is printed; longer ones are in the files."""


@click.command()
@click.argument("name")
@click.argument("models", nargs=-1, required=True)
@click.option(
    "--benchmark", "benchmarks", multiple=True, help="Run this benchmark instead. Repeat for more."
)
@click.option(
    "--source",
    type=PATH,
    help="Folder with official files, to build missing benchmarks from.",
)
@click.option("--output", type=PATH, help="Folder of the study.  [studies/NAME]")
@click.option(
    "--levels",
    "levels",
    multiple=True,
    metavar="FACTOR=FILE",
    help="Levels of the varied factor, instead of the study's: a text file with one per line, "
    "or a comma-separated list.",
)
@field_flags(QuestionSpec, but=("benchmarks", *NOT_FIXED), unless="the study's")
@field_flags(ExecutionSpec, but=("until", *NOT_FIXED), unless="the study's")
@scoring_flags
@json_flag
def study_command(
    name: str,
    models: tuple[str, ...],
    benchmarks: tuple[str, ...],
    source: Path | None,
    output: Path | None,
    levels: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Carry out the study NAME, declared by a suite or in a TOML file of your own, with MODELS.

    \b
      snellen study prompt-sweep hf:org/name --source FILES
      snellen study rounds-captions openai:name@http://host:port/v1 --temperature 0.7
      snellen study mine.toml snellen:tiny --levels prompt=prompts.txt

    `snellen list studies` shows all. Each cell is a run in the study's folder, and the same command goes on where it
    was. The folder then holds study.html, study.md, results.csv and results.json. See docs/studies.md.
    """
    from snellen.api import study

    fields: Any = flags_given({**flags, "benchmarks": benchmarks})
    metrics = fields.get("scoring", {}).pop("metrics", ())
    with run_progress() as progress:
        results = study(
            name,
            list(models),
            source=source,
            output=output or "",
            levels=_levels(levels),
            metrics=metrics,
            progress=progress,
            announce=announce,
            **fields,
        )
    if as_json:
        print_records(map(flat_study_row, results.rows))
        return
    _show_study(results.outcome)


def _show_study(outcome: StudyOutcome) -> None:
    for part in outcome.parts.values():
        for table in part.tables:
            if len(table.rows) > MOST_ROWS:
                out.print(f"{table.title}: {len(table.rows)} rows, in the files\n", highlight=False)
                continue
            print_tables([table])
            out.print()
    for note in (*outcome.study.notes, *outcome.notes):
        announce(f"note: {note}")
    out.print(f"{', '.join(STUDY_FILES)}\n  {outcome.folder}", highlight=False, soft_wrap=True)


def _levels(texts: tuple[str, ...]) -> dict[str, Any]:
    levels: dict[str, Any] = {}
    for text in texts:
        factor, equals, value = text.partition("=")
        if not equals or not value:
            raise DataError(f"--levels {text!r}: write FACTOR=FILE, or FACTOR=a,b,c")
        levels[factor] = (
            value if Path(value).is_file() else [_plain(level) for level in value.split(",")]
        )
    return levels


def _plain(text: str) -> int | float | str:
    """A number where it is one."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
