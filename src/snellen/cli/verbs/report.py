"""`snellen report`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from snellen.building.benchmark import MANIFEST
from snellen.cli.flags import (
    field_flags,
    flags_on_line,
    json_flag,
    judge_from_flags,
    scoring_flags,
    scoring_from_flags,
    subset_flags,
)
from snellen.cli.show import announce, err, out
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.evaluation import report_path, score_folders
from snellen.experiments.results import Results
from snellen.runs.journal import RUN_MANIFEST
from snellen.runs.spec import ExecutionSpec, TokenPrice
from snellen.verification.datasheets.certificate import ERROR_LIMIT

OF_BENCHMARKS = ("error_limit", "strict", "as_json")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN_OR_BENCHMARK...")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="File to write: .html, .md, .tex, .csv, .json or .parquet; repeat for more.  [report.html beside the scores; "
    "of a benchmark NAME.datasheet.html]",
)
@click.option("--with-standard", is_flag=True, help="With --as-published: the standard numbers of each run too.")
@field_flags(ExecutionSpec, ("price",))
@click.option(
    "--figures", type=click.Path(path_type=Path), metavar="DIR", help="Also each figure as a file, for a paper."
)
@click.option(
    "--figure-format", type=click.Choice(["svg", "png", "pdf"]), default="svg", help="Form of these files.  [svg]"
)
@click.option("--tables", type=click.Path(path_type=Path), metavar="DIR", help="Also each table as a LaTeX file.")
@click.option(
    "--error-limit",
    type=click.FloatRange(0, 1, min_open=True),
    default=ERROR_LIMIT,
    help=f"Of a benchmark: the largest bound on bad questions that is certified.  [{ERROR_LIMIT:g}]",
)
@click.option("--strict", is_flag=True, help="Of a benchmark: exit with 1 when it is not certified.")
@json_flag
@subset_flags
@scoring_flags
def command(
    runs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    with_standard: bool,
    price: TokenPrice | None,
    figures: Path | None,
    figure_format: str,
    tables: Path | None,
    error_limit: float,
    strict: bool,
    as_json: bool,
    where: str,
    common_answered: bool,
    **flags: Any,
) -> None:
    """Write the report of one or several runs, or the datasheet of a benchmark.

    \b
      snellen report runs/a runs/b
      snellen report mine
      snellen report mine runs/blind-a -o mine.datasheet.html --strict

    The HTML report is one file that opens offline: tables, charts, and a browser of samples with
    picture, prompt, reply and how it was read. Runs are scored first, as `snellen score` does with the same flags;
    where the answers are not here, the scores that were kept by these flags are shown.
    With --common-answered all models are compared on the same questions; the report lists those left out, and why.

    Of a benchmark, by name or folder, it writes what it is, how it was made, what was thrown out, what rules and blind
    models score, and whether it is certified; runs beside it are evidence of models without pictures. See
    docs/datasheets.md.
    """
    benchmarks = [path for path in runs if not _looks_like_a_run(path)]
    if benchmarks:
        if useless := flags_on_line(but=("runs", "outputs", *OF_BENCHMARKS)):
            raise DataError(
                f"{', '.join(useless)}: for reports of runs; {benchmarks[0]} is a benchmark, so leave it out"
            )
        blind = [path for path in runs if path not in benchmarks]
        _datasheet([str(path) for path in benchmarks], blind, outputs, error_limit, strict=strict, as_json=as_json)
        return
    if useless := flags_on_line(only=OF_BENCHMARKS):
        raise DataError(f"{', '.join(useless)}: for the datasheet of a benchmark; these are runs, so leave it out")
    scoring, judge = scoring_from_flags(flags), judge_from_flags(flags)
    if with_standard and not scoring.as_published:
        raise DataError("--with-standard goes with --as-published")
    plain = replace(scoring, as_published=False)
    standard = score_folders(runs, plain, judge, announce, kept_will_do=True) if with_standard else []
    scored = score_folders(runs, scoring, judge, announce, kept_will_do=True)
    priced = Results([replace(run, price=price) for run in (*standard, *scored)])
    results = priced.only(where=where, common_answered=common_answered)
    for path in outputs or (report_path(scored),):
        out.print(str(results.report(path)), soft_wrap=True)
    if figures:
        out.print(f"{len(results.figures(figures, figure_format))} figures: {figures}", soft_wrap=True)
    if tables:
        out.print(f"{len(results.latex_tables(tables))} tables: {tables}", soft_wrap=True)


def _looks_like_a_run(path: Path) -> bool:
    """Whether a run is there, or anything else that is no benchmark and no name of one."""
    folders = (path, benchmark_folder(str(path)))
    return (path / RUN_MANIFEST).exists() or (
        path.exists() and not any((folder / MANIFEST).exists() for folder in folders)
    )


def _datasheet(
    names: list[str], runs: list[Path], outputs: tuple[Path, ...], error_limit: float, *, strict: bool, as_json: bool
) -> None:
    from snellen.api import datasheet
    from snellen.verification.datasheets.datasheet import sheet_name
    from snellen.verification.datasheets.page import write_datasheet

    if len(names) > 1:
        raise DataError(f"{', '.join(names)}: a datasheet is of one benchmark; name one")
    try:
        sheet = datasheet(names[0], runs, error_limit=error_limit, announce=announce)
    except UnknownNameError as error:
        raise UnknownNameError(f"{names[0]} is not a run, and no benchmark: {error}") from None
    if as_json:
        import msgspec

        out.out(msgspec.json.encode(sheet.flat()).decode())
    else:
        out.print(f"{sheet.benchmark.name}: {sheet.summary}", soft_wrap=True)
        for criterion in sheet.certificate.criteria:
            out.print(
                f"  {'yes' if criterion.is_met else 'no':4} {criterion.name:7} {criterion.result}", soft_wrap=True
            )
    for path in outputs or (() if as_json else (sheet_name(sheet.benchmark),)):
        (announce if as_json else out.print)(str(write_datasheet(sheet, path)))
    if strict and not sheet.certificate.is_certified:
        err.print(sheet.certificate.sentence)
        sys.exit(1)
