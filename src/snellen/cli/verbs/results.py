"""`snellen score`, `report` and `mend`: runs that have been asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import MANIFEST
from snellen.catalogue.loading import suite_folders
from snellen.cli.flags import (
    PATH,
    Number,
    column_flags,
    details_flag,
    field_flags,
    flags_on_line,
    json_flag,
    judge_from_flags,
    scoring_flags,
    scoring_from_flags,
    subset_flags,
)
from snellen.cli.show import announce, out, print_tables, show_results
from snellen.common.answer_forms import FORMS
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.report_files import report_path
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import score_folders
from snellen.installation import LAB, sibling_install_line
from snellen.runs.mending import DAMAGED, mend_run
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.runs.spec import ExecutionSpec, TokenPrice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snellen.interchange.predictions.taking import FileReading
    from snellen.report.report_section import ReportSection
    from snellen.scoring.scored_run import ScoredRun


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--benchmark",
    "benchmark",
    default="",
    help="For a file of predictions: the benchmark (built, or a table with answers).  [the "
    "file's own]",
)
@click.option(
    "--as",
    "form",
    default="",
    help="For a file of predictions: its format.  [the one that fits it]",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="For a file of predictions: role of a column: reply, question, options, "
    "answer, id, image or model. Repeat for more.",
)
@click.option(
    "--answer-is",
    type=click.Choice(FORMS),
    help="For a file of predictions: how answers name options.  [as the cells do]",
)
@click.option(
    "--published",
    type=PATH,
    help="Table of published scores (model, benchmark, score) to show next to the runs.",
)
@click.option(
    "--to", type=PATH, help="For a file of predictions: the folder of the run.  [under runs]"
)
@click.option(
    "--model", default="", help="For a file of predictions: the name of the model.  [the file's]"
)
@subset_flags
@scoring_flags
@details_flag
@json_flag
def score_command(
    runs: tuple[Path, ...],
    benchmark: str,
    form: str,
    columns: tuple[str, ...],
    answer_is: str | None,
    published: Path | None,
    to: Path | None,
    model: str,
    where: str,
    common_answered: bool,
    as_json: bool,
    with_details: bool,
    **flags: Any,
) -> None:
    """Read and score RUNS again, without asking the model; or files of predictions that another toolkit made.

    \b
      snellen score runs/x --extractor strict
      snellen score runs/x --judge hf:org/name --judge-price 0.15,0.6
      snellen score runs/x --metric mark --judge openai:name@http://host:port/v1
      snellen score model_MMBench_DEV_EN.xlsx --benchmark MMBench_DEV_EN.tsv
      snellen score VQA_SingleChoice_generation_x_y.json --benchmark reform-eval/vqav2
      snellen score 20260101_samples_pope.jsonl

    Replies are read by the chosen extractor, and those that are hard to read by --judge; likelihoods are reduced by the chosen
    rule. The journal is never changed. Scores by other flags than the standard ones are kept under the run's `scores`,
    and none overwrites another; a judge's verdicts are kept in the run's folder and not asked for twice. See
    docs/judging.md.

    A file of predictions becomes a run, which report, agree and the judges accept like any other. Its form (--as) is
    recognised by its content: tables of VLMEvalKit, samples of lmms-eval, logs of Inspect, and those of suites. With
    --benchmark each row is joined to its question and checked; without, the file's own options and references count.
    docs/predictions.md shows all.
    """
    files = [run for run in runs if run.exists() and not run.is_dir()]
    if (to or model) and len(files) != 1:
        raise DataError("--to and --model are for one file of predictions at a time")
    if (benchmark or form or columns or answer_is) and len(files) < len(runs):
        raise DataError(
            "--benchmark, --as, --column and --answer-is are for files of predictions; a run is scored by its "
            "benchmark's: build that one again with `snellen build ... --answers`, its questions stay the same"
        )
    folders = [run for run in runs if run not in files]
    if files:
        from snellen.interchange.predictions.taking import FileReading

        reading = FileReading(benchmark, form, column_flags(columns), answer_is or "")
        folders += _taken(files, reading, to, model)
    results = Results(
        score_folders(folders, scoring_from_flags(flags), judge_from_flags(flags), announce)
    )
    for run in results.runs:
        if run.kept_in not in (None, run.folder):
            announce(f"kept in {run.kept_in}, beside the run's other scores")
    show_results(
        results.only(where=where, common_answered=common_answered),
        as_json,
        with_details=with_details,
    )
    if published is not None:
        _show_published(results, published)


def _taken(files: list[Path], reading: FileReading, to: Path | None, model: str) -> list[Path]:
    """The runs of files of predictions, and what was found in each."""
    from snellen.interchange.predictions.taking import import_runs

    folders = import_runs(files, reading, to, model)
    for folder in folders:
        manifest = read_manifest(folder)
        announce(f"{manifest.fingerprint.get('predictions', '')} is the run {folder}")
        for note in manifest.notes:
            announce(f"  note: {note}")
    return folders


def _show_published(results: Results, path: Path) -> None:
    """Print published scores on the benchmarks of the runs, the runs among them."""
    from snellen.report.published_scores import published_table, read_leaderboard
    from snellen.report.run_view import run_views

    views = run_views(results.runs, results.rows)
    print_tables([published_table(views, read_leaderboard(path))])


OF_BENCHMARKS = ("error_limit", "strict", "as_json")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN_OR_BENCHMARK...")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .html, .md, .tex, .csv, .json or .parquet. Repeat for more.  "
    "[report.html beside the scores; of several runs report-of-NAMES.html; of a benchmark "
    "NAME.datasheet.html]",
)
@click.option(
    "--with-standard",
    is_flag=True,
    help="With --as-published: also show the standard numbers of each run.",
)
@field_flags(ExecutionSpec, ("price",))
@click.option(
    "--against",
    type=PATH,
    help="Another result on the same questions: a run or a file of any harness. Adds a section that explains why the "
    "numbers differ.",
)
@click.option("--figures", type=PATH, metavar="DIR", help="Also write each figure to a file.")
@click.option(
    "--figure-format",
    type=click.Choice(["svg", "png", "pdf"]),
    default="svg",
    help="Format of the figure files.  [svg]",
)
@click.option("--tables", type=PATH, metavar="DIR", help="Also write each table to a LaTeX file.")
@click.option(
    "--error-limit",
    type=Number(0, 1, min_open=True),
    help="For a benchmark: the largest bound on the share of bad questions that is certified.  [0.05]",
)
@click.option("--strict", is_flag=True, help="For a benchmark: exit with 1 if it is not certified.")
@json_flag
@subset_flags
@scoring_flags
def report_command(
    runs: tuple[Path, ...],
    outputs: tuple[Path, ...],
    with_standard: bool,
    price: TokenPrice | None,
    against: Path | None,
    figures: Path | None,
    figure_format: str,
    tables: Path | None,
    error_limit: float | None,
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
      snellen report runs/mine --against theirs.jsonl

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
        _report_benchmark(
            [str(path) for path in benchmarks],
            blind,
            outputs,
            error_limit,
            strict=strict,
            as_json=as_json,
        )
        return
    if useless := flags_on_line(only=OF_BENCHMARKS):
        raise DataError(
            f"{', '.join(useless)}: for the datasheet of a benchmark; these are runs, so leave it out"
        )
    scoring, judge = scoring_from_flags(flags), judge_from_flags(flags)
    if with_standard and not scoring.as_published:
        raise DataError("--with-standard goes with --as-published")
    plain = replace(scoring, as_published=False)
    standard = (
        score_folders(runs, plain, judge, announce, kept_will_do=True) if with_standard else []
    )
    scored = score_folders(runs, scoring, judge, announce, kept_will_do=True)
    priced = Results([replace(run, price=price) for run in (*standard, *scored)])
    results = priced.only(where=where, common_answered=common_answered)
    paths = outputs or (report_path(scored),)
    further = []
    if against:
        if all(path.suffix not in WITH_SECTIONS for path in paths):
            raise DataError(
                f"--against adds a section, which only {', '.join(WITH_SECTIONS)} have; name such a file with -o"
            )
        further.append(_why_it_differs(results.runs, against))
    if scoring.as_published and "papers" not in registry.targets("report_sections"):
        _announce_absent_papers(scored)
    for path in paths:
        out.print(str(results.report(path, further)), soft_wrap=True)
    if figures:
        out.print(
            f"{len(results.figures(figures, figure_format))} figures: {figures}", soft_wrap=True
        )
    if tables:
        out.print(f"{len(results.latex_tables(tables))} tables: {tables}", soft_wrap=True)


WITH_SECTIONS = (".html", ".md", ".tex")
"""Forms of a report that have sections, not only rows of results."""


def _announce_absent_papers(scored: Sequence[ScoredRun]) -> None:
    """Say that the report lacks the models of papers, if a suite of the runs has the tables of its paper."""
    folders = suite_folders()
    suites = {benchmark.spec.suite for run in scored for benchmark in run.benchmarks}
    if any(folders[suite].joinpath("paper").is_dir() for suite in suites & folders.keys()):
        announce(
            f"no section of published models: it comes with another package: {sibling_install_line(LAB)}"
        )


def _why_it_differs(scored: Sequence[ScoredRun], against: Path) -> ReportSection:
    """The section of a report that explains the difference between its run and another result."""
    from snellen.cli.verbs.reconcile import side_at
    from snellen.interchange.predictions.taking import FileReading
    from snellen.interchange.reconciled_sources import reconciled, side_of_run
    from snellen.report.reconciliation import reconciliation_section

    if len(scored) != 1:
        raise DataError(
            f"--against explains one run at a time, and these are {len(scored)}; for each: snellen report RUN --against "
            f"{against}"
        )
    return reconciliation_section(
        reconciled(side_of_run(scored[0]), side_at(against, FileReading()))
    )


def _looks_like_a_run(path: Path) -> bool:
    """Whether a run is there, or anything that is not a benchmark, or nothing in a folder of runs."""
    if (path / RUN_MANIFEST).exists():
        return True
    is_among_runs = path.parent.name == "runs" or (
        path.parent != Path() and any(path.parent.glob(f"*/{RUN_MANIFEST}"))
    )
    return (path.exists() or is_among_runs) and not any(
        (folder / MANIFEST).exists() for folder in (path, benchmark_folder(str(path)))
    )


class BenchmarkReport(Protocol):
    """What `snellen report BENCHMARK` writes: of the group `benchmark_reports` of the registry, the name `datasheet`."""

    def __call__(
        self,
        benchmark: str,
        runs: Sequence[Path],
        outputs: Sequence[Path],
        *,
        error_limit: float | None,
        strict: bool,
        as_json: bool,
    ) -> None:
        """Write it.

        Args:
            benchmark: A name or a folder. Raises UnknownNameError for one that is not there.
            runs: Runs of models that saw no pictures.
            outputs: Files to write; without one the report is written beside where the command runs.
            error_limit: The largest bound on the share of bad questions that is certified; None for the usual one.
            strict: Exit with 1 if the benchmark is not certified.
            as_json: Print it as JSON.
        """


def _report_benchmark(
    names: list[str],
    runs: list[Path],
    outputs: tuple[Path, ...],
    error_limit: float | None,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    if len(names) > 1:
        raise DataError(f"{', '.join(names)}: a datasheet is of one benchmark; name one")
    if "datasheet" not in registry.targets("benchmark_reports"):
        raise UnknownNameError(
            f"{names[0]} is not a run; the datasheet of a benchmark comes with another package: "
            f"{sibling_install_line(LAB)}"
        )
    write_report: BenchmarkReport = registry.find("benchmark_reports", "datasheet")
    try:
        write_report(
            names[0], runs, outputs, error_limit=error_limit, strict=strict, as_json=as_json
        )
    except UnknownNameError as error:
        raise UnknownNameError(f"{names[0]} is not a run and not a benchmark: {error}") from None


SHOWN = 10


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
def mend_command(runs: tuple[Path, ...]) -> None:
    """Repair RUNS: restore a damaged manifest, and set damaged lines of journals aside.

    \b
      snellen mend runs/x

    Damaged are lines that are not an exchange, that another model answered, or that ask what the sample does not have.
    They are kept as they are in the run's folder, under damaged; the run's own command asks again what is then missing.
    A manifest is restored from its copy, or made from the journals and the run's own questions.
    """
    for run in runs:
        damages = mend_run(run)
        for damage in damages[:SHOWN]:
            out.print(str(damage), soft_wrap=True)
        if len(damages) > SHOWN:
            out.print(f"and {len(damages) - SHOWN:,} more")
        if not damages:
            out.print(f"{run}: nothing is damaged", soft_wrap=True)
            continue
        lines = sum(damage.line > 0 for damage in damages)
        done = f"{lines:,} lines set aside" if lines else "what was damaged is"
        out.print(f"{run}: {done} in {run / DAMAGED}; the run's command goes on", soft_wrap=True)
