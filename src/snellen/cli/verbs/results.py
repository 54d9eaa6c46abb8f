"""`snellen score`, `report` and `mend`: commands for runs that exist already."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import MANIFEST
from snellen.catalogue import select
from snellen.catalogue.errata import Errata, chosen_errata, read_errata
from snellen.catalogue.loading import suite_folders
from snellen.cli.flags import (
    PATH,
    FloatParameter,
    column_flags,
    details_flag,
    field_flags,
    flags_on_line,
    json_flag,
    judge_from_flags,
    scoring_flags,
    scoring_from_flags,
    stored_scoring_flag,
    subset_flags,
)
from snellen.cli.show import (
    announce,
    announce_next,
    announce_next_of_runs,
    command_line,
    console,
    print_tables,
    show_results,
    show_table,
)
from snellen.cli.signatures import verify_flag, verify_runs
from snellen.common.answer_forms import FORMS
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.report_files import report_path
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import (
    as_scored_last,
    score_folders,
    scoring_words,
    with_judged_rows,
)
from snellen.installation import LAB, sibling_install_line
from snellen.metrics.declaration import DEFAULT_TEXT_METRICS, SHARE, find_metric
from snellen.report.figure_files import check_figure_format
from snellen.report.missing_values import missing_values
from snellen.runs.mending import DAMAGED, mend_run
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest, runs_in, suggest_runs
from snellen.runs.spec import ExecutionSpec, ScoringSpec, TokenPrice
from snellen.scoring.corrected_answers import AppliedCorrection, corrected_answers
from snellen.scoring.scored_run import run_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snellen.report.report_section import ReportSection
    from snellen.scoring.scored_run import ScoredRun


def _parse_bound(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> float | None:
    """Parse a bound such as `0.9` or `90%`."""
    if not text:
        return None
    try:
        bound = float(text.removesuffix("%"))
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise click.BadParameter(f"{text!r} is not a number; write 0.9 or 90%")
    if bound < 0 or (text.endswith("%") and bound > 100):
        raise click.BadParameter(f"{text} is not a share; write 0.9 or 90%")
    return bound / 100 if text.endswith("%") else bound


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
@click.option(
    "--benchmark",
    "benchmark",
    default="",
    help="For a file of predictions: the benchmark (built, or a table with answers).  [the one in the file]",
)
@click.option(
    "--as",
    "form",
    default="",
    help="For a file of predictions: its format.  [detected]",
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
    help="For a file of predictions: how answers name options.  [detected]",
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
    "--model",
    default="",
    help="For a file of predictions: the name of the model.  [the one in the file]",
)
@click.option(
    "--fail-under",
    metavar="SHARE",
    callback=_parse_bound,
    help="Exit with 1 if the headline of a run is below this, such as 0.9 or 90%.",
)
@verify_flag
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
    fail_under: float | None,
    signers: Path | None,
    where: str,
    common_answered: bool,
    as_json: bool,
    with_details: bool,
    **flags: Any,
) -> None:
    """Score RUNS again without calling the model, or score files of predictions from another toolkit.

    \b
      snellen score runs/x --extractor strict
      snellen score runs/x --judge hf:org/name --judge-price 0.15,0.6
      snellen score runs/x --metric mark --judge openai:name@http://host:port/v1
      snellen score model_MMBench_DEV_EN.xlsx --benchmark MMBench_DEV_EN.tsv
      snellen score VQA_SingleChoice_generation_x_y.json --benchmark reform-eval/vqav2
      snellen score 20260101_samples_pope.jsonl
      snellen score runs/x --fail-under 0.9

    The extractor reads the replies, and a judge (--judge) reads those that are difficult. The stored replies never
    change. Scores with other flags than the defaults are stored in the folder `scores` of the run and do not replace
    each other. Verdicts of a judge are stored too, so that it is asked only once. See docs/judging.md.

    A file of predictions becomes a run, which `report`, `agree` and judges accept like any other. Snellen recognises
    tables of VLMEvalKit, samples of lmms-eval, logs of Inspect and the formats of suites by their content, unless --as
    names the format. With --benchmark, each row is matched with its question and checked. Without it, the options and
    references in the file count. docs/predictions.md describes all formats.
    """
    files = [run for run in runs if run.exists() and not run.is_dir()]
    if (to or model) and len(files) != 1:
        raise DataError("--to and --model work for one file of predictions at a time")
    if (benchmark or form or columns or answer_is) and len(files) < len(runs):
        raise DataError(
            "--benchmark, --as, --column and --answer-is apply to files of predictions; a run is scored with the "
            "answers of its benchmark: to change them, rebuild it with `snellen build ... --answers` (its "
            "questions stay the same)"
        )
    if files and signers:
        raise DataError(f"--verify checks packed runs, and {files[0]} is a file of predictions")
    folders = runs_in(run for run in runs if run not in files)
    verify_runs(folders, signers, with_scores=False)
    scoring, judge = scoring_from_flags(flags), judge_from_flags(flags)
    if files:
        from snellen.interchange.predictions.scoring_call import given
        from snellen.interchange.predictions.taking import FileReading, import_with_notes

        reading = FileReading(benchmark, form, column_flags(columns), answer_is or "")
        with given(flags=tuple(scoring_words(scoring, judge))):
            folders += import_with_notes(files, reading, announce, to, model)
    if fail_under is not None:
        _check_bound(fail_under, folders, scoring)
    results = Results(score_folders(folders, scoring, judge, announce, is_asked_for=True))
    for run in results.runs:
        if run.stored_in not in (None, run.folder):
            announce(f"saved in {run.stored_in}, next to the other scores of the run")
    narrowed = results.only(where=where, common_answered=common_answered)
    show_results(narrowed, as_json, with_details=with_details)
    if scoring.has_errata:
        plain = replace(scoring, errata=False, errata_files=())
        before = Results(score_folders(folders, plain, judge, announce, may_use_stored=True))
        chosen = chosen_errata(scoring.errata, scoring.errata_files)
        _show_corrections(before, results, chosen, as_json)
        for file in scoring.errata_files:
            _announce_unused(read_errata(file), file, results)
    if published is not None:
        _show_published(results, published)
    flags_of_scoring = scoring_words(scoring, judge)
    report = command_line("report", *(run.folder for run in results.runs), *flags_of_scoring)
    is_below = fail_under is not None and _is_below(narrowed, fail_under)
    if not as_json:
        announce_next(f"{report} writes the report")
    if is_below:
        click.get_current_context().exit(1)


def _check_bound(bound: float, folders: Sequence[Path], scoring: ScoringSpec) -> None:
    """Raise DataError before any run is scored if the bound is above 1, and no metric of the runs can be."""
    if bound <= 1 or scoring.as_published:
        return
    metrics = {"accuracy", *scoring.metrics}
    for folder in folders:
        for use in read_manifest(folder).benchmarks:
            metrics.update(reopen_benchmark(use, folder).spec.metrics or DEFAULT_TEXT_METRICS)
    units = {row.unit for name in metrics for row in find_metric(name).rows}
    if units <= {SHARE}:
        raise DataError(f"--fail-under {bound:g}: the headline is a share; write {bound:g}%")


def _is_below(results: Results, bound: float) -> bool:
    """Return whether the headline number of any run is missing or below a bound. Each such run is printed.

    Args:
        results: The results of the runs.
        bound: The bound, in the unit of the headline numbers.

    Raises:
        DataError: The bound is above 1, but the headline numbers are shares.
    """
    if bound > 1 and all(row.unit == SHARE for row in results.headlines):
        raise DataError(f"--fail-under {bound:g}: the headline is a share; write {bound:g}%")
    is_below = False
    for run, label in zip(results.runs, run_labels(results.runs), strict=True):
        headline = Results([run]).value()
        if headline is None:
            announce(f"--fail-under: {label} has no headline to compare with {bound:g}")
        elif headline < bound:
            announce(f"--fail-under: the headline of {label} is {headline:.4f}, below {bound:g}")
        else:
            continue
        is_below = True
    return is_below


def _corrections(
    results: Results, benchmark: str, errata: Errata | None
) -> tuple[AppliedCorrection, ...]:
    """Return the corrections of a benchmark's ground truths, each with whether it was applied.

    They are looked up in the first run that has the benchmark.

    Args:
        results: The results of runs.
        benchmark: The name of the benchmark.
        errata: Its list of corrections; may be None.

    Returns:
        The corrections; an empty tuple if no run has the benchmark.
    """
    for run in results.runs:
        for scored in run.benchmarks:
            if scored.spec.name == benchmark:
                _, applied = corrected_answers(errata, scored.samples.values(), scored.answers)
                return applied
    return ()


def _announce_unused(errata: Errata, file: str, results: Results) -> None:
    """Print which corrections in the user's file had no effect, because no run has their benchmark or question."""
    asked: set[str] = set()
    has_benchmark = False
    for run in results.runs:
        for scored in run.benchmarks:
            if scored.spec.name == errata.benchmark:
                has_benchmark = True
                asked.update(scored.samples)
    if not has_benchmark:
        announce(f"{file}: no run has {errata.benchmark}, so nothing of it was corrected")
        return
    unused = [one.question for one in errata.corrections if one.question not in asked]
    if unused:
        shown = ", ".join(unused[:3]) + (", ..." if len(unused) > 3 else "")
        announce(
            f"{file}: {len(unused)} of {len(errata.corrections)} corrections are of questions that were not asked "
            f"({shown}); `snellen view RUN` shows the ids"
        )


def _show_corrections(
    before: Results, after: Results, errata: Mapping[str, Errata], as_json: bool
) -> None:
    """Print the headlines without and with errata, and how many ground truths were corrected.

    Args:
        before: The results without errata.
        after: The results of the same runs with errata.
        errata: The lists of errata, by benchmark.
        as_json: Whether to print JSON instead of a table.
    """
    rows = []
    for headline_before, headline_after in zip(before.headlines, after.headlines, strict=True):
        value_before = headline_before.estimate.value
        value_after = headline_after.estimate.value
        change = ""
        if value_before is not None and value_after is not None:
            change = f"{value_after - value_before:+.4f}"
        benchmark = headline_before.benchmark
        corrections = _corrections(before, benchmark, errata.get(benchmark))
        counts = Counter(correction.outcome for correction in corrections)
        rows.append(
            (
                headline_before.model,
                benchmark,
                headline_before.metric,
                str(counts["corrected"]),
                str(counts["right already"]),
                str(counts["another answer"]),
                "" if value_before is None else f"{value_before:.4f}",
                "" if value_after is None else f"{value_after:.4f}",
                change,
            )
        )
    header = (
        "model",
        "benchmark",
        "metric",
        "corrected",
        "right already",
        "another answer",
        "without",
        "with",
        "change",
    )
    show_table("Without and with errata", header, rows, as_json)


def _show_published(results: Results, path: Path) -> None:
    """Print a table of published scores on the benchmarks of the runs, with the scores of the runs.

    Args:
        results: The results of the runs.
        path: The file with the published scores.
    """
    from snellen.report.published_scores import published_table, read_leaderboard
    from snellen.report.reported_runs import prepare_reported_runs

    reported_runs = prepare_reported_runs(results.runs, results.rows)
    print_tables([published_table(reported_runs, read_leaderboard(path))])


OF_BENCHMARKS = ("error_limit", "strict", "as_json")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH, metavar="RUN_OR_BENCHMARK...")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .html, .md, .tex, .csv, .json or .parquet. Repeat for more.  [report.html next to the "
    "scores; report-of-NAMES.html for several runs; NAME.datasheet.html for a benchmark]",
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
    type=FloatParameter(0, 1, min_open=True),
    help="For a benchmark: the largest bound on the share of bad questions that is certified.  [0.05]",
)
@click.option("--strict", is_flag=True, help="For a benchmark: exit with 1 if it is not certified.")
@json_flag
@subset_flags
@stored_scoring_flag
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
    stored_scoring: str | None,
    **flags: Any,
) -> None:
    """Write a report on one or more runs, or the datasheet of a benchmark.

    \b
      snellen report runs/a runs/b
      snellen report runs
      snellen report mine
      snellen report mine runs/blind-a -o mine.datasheet.html --strict
      snellen report runs/mine --against theirs.jsonl

    The HTML report is one file that opens offline. It has tables, charts, and samples with image, prompt, reply and how
    the reply was read. Snellen scores the runs first, as `snellen score` does with the same flags. If the answers are
    not on this machine, the report shows the scores that were stored with these flags. With --common-answered, all
    models are compared on the same questions, and the report lists the ones left out with the reasons.

    The datasheet of a benchmark, given by name or folder, describes what it contains, how it was made and what was
    left out, how simple rules and models without images score on it, and whether it is certified. Runs that you name
    after it are used as evidence of models without images. See docs/datasheets.md.
    """
    # An argument is a run, a folder of runs, or a benchmark.
    benchmarks: list[Path] = []
    folders: list[Path] = []
    for path in runs_in(runs):
        if _looks_like_a_run(path):
            folders.append(path)
        else:
            benchmarks.append(path)
    if benchmarks:
        flags_of_runs = flags_on_line(but=("runs", "outputs", *OF_BENCHMARKS))
        if flags_of_runs:
            raise DataError(
                f"{', '.join(flags_of_runs)} applies to reports on runs, but {benchmarks[0]} is a benchmark; remove it"
            )
        names = [str(path) for path in benchmarks]
        _report_benchmark(names, folders, outputs, error_limit, strict=strict, as_json=as_json)
        return
    flags_of_benchmarks = flags_on_line(only=OF_BENCHMARKS)
    if flags_of_benchmarks:
        raise DataError(
            f"{', '.join(flags_of_benchmarks)} applies to the datasheet of a benchmark, but these are runs; remove it"
        )
    if figures:
        check_figure_format(figure_format)

    # Score the runs, or open their stored scores.
    scoring = scoring_from_flags(flags)
    judge = judge_from_flags(flags)
    if with_standard and not scoring.as_published:
        raise DataError("--with-standard needs --as-published")
    standard: list[ScoredRun] = []
    if with_standard:
        plain = replace(scoring, as_published=False)
        standard = score_folders(folders, plain, judge, announce, may_use_stored=True)
    scored = as_scored_last(folders, scoring, judge, announce, stored_scoring)
    has_default_scoring = all(run.scoring == ScoringSpec() for run in scored)
    if has_default_scoring and not judge.models:
        scored = [with_judged_rows(run) for run in scored]
    priced_runs = [replace(run, price=price) for run in (*standard, *scored)]
    results = Results(priced_runs).only(where=where, common_answered=common_answered)
    if scoring.metrics:
        for sentence in missing_values(results.runs, results.rows):
            announce(sentence)

    # Write the files.
    paths = outputs or (report_path(scored),)
    further_sections = []
    if against:
        if all(path.suffix not in WITH_SECTIONS for path in paths):
            raise DataError(
                f"--against adds a section, which only {', '.join(WITH_SECTIONS)} files support; give such a file "
                "with -o"
            )
        further_sections.append(_why_it_differs(results.runs, against))
    if scoring.as_published and "papers" not in registry.targets("report_sections"):
        _announce_absent_papers(scored)
    for path in paths:
        written = results.report(path, further_sections)
        console.print(str(written), soft_wrap=True)
    if figures:
        n_figures = len(results.figures(figures, figure_format))
        console.print(f"{n_figures} figures: {figures}", soft_wrap=True)
    if tables:
        n_tables = len(results.latex_tables(tables))
        console.print(f"{n_tables} tables: {tables}", soft_wrap=True)
    announce_next_of_runs(folders, runs)


WITH_SECTIONS = (".html", ".md", ".tex")
"""Forms of a report that have sections, not only rows of results."""


def _announce_absent_papers(scored: Sequence[ScoredRun]) -> None:
    """Tell the user that the report does not have the section with models of papers, because it needs snellen-lab.

    This is said only if a suite of the runs has the tables of its paper.
    """
    suites = set()
    for run in scored:
        suites.update(benchmark.spec.suite for benchmark in run.benchmarks)
    folders = suite_folders()
    for suite in suites & folders.keys():
        if folders[suite].joinpath("paper").is_dir():
            announce(
                "the section of published models is missing, because it is part of another package: "
                f"{sibling_install_line(LAB)}"
            )
            return


def _why_it_differs(scored: Sequence[ScoredRun], against: Path) -> ReportSection:
    """Return a section of a report that explains why the result of its run differs from another result.

    Args:
        scored: The runs of the report. There must be exactly one.
        against: The other result: the folder of a run, or a file of predictions of any harness.

    Raises:
        DataError: The report has several runs, or the other result cannot be read.
    """
    from snellen.cli.verbs.reconcile import side_at
    from snellen.interchange.predictions.taking import FileReading
    from snellen.interchange.reconciled_sources import reconciled, side_of_run
    from snellen.report.reconciliation import reconciliation_section

    if len(scored) != 1:
        raise DataError(
            f"--against explains one run at a time, but {len(scored)} are given; for each of them, use: snellen "
            f"report RUN --against {against}"
        )
    return reconciliation_section(
        reconciled(side_of_run(scored[0]), side_at(against, FileReading()))
    )


def _looks_like_a_run(path: Path) -> bool:
    """Return whether the user means a run by a path, and not a benchmark. The run may be missing or damaged."""
    if (path / RUN_MANIFEST).exists():
        return True
    for folder in (path, benchmark_folder(str(path))):
        if (folder / MANIFEST).exists():
            return False
    if path.exists() or path.parent.name == "runs":
        return True
    if path.parent == Path():
        return False
    # Other runs next to it.
    return any(path.parent.glob(f"*/{RUN_MANIFEST}"))


class BenchmarkReport(Protocol):
    """The function that writes the report of a benchmark for `snellen report BENCHMARK`.

    A package provides it under the name `datasheet` in the group `benchmark_reports` of the registry.
    """

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
        """Write the report.

        Args:
            benchmark: A name or a folder. Raises UnknownNameError if there is no such benchmark.
            runs: Runs of models that saw no images.
            outputs: Files to write. Without any, the report is written to the current folder.
            error_limit: The largest share of bad questions with which a benchmark is certified; None for the
                default.
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
    """Write the datasheet of a benchmark, which describes its questions. The code is part of another package.

    Raises:
        DataError: Several names were given.
        UnknownNameError: The name is neither a run nor a benchmark, or the package is not installed.
    """
    if len(names) > 1:
        raise DataError(f"{', '.join(names)}: a datasheet describes one benchmark; give only one")
    if "datasheet" not in registry.targets("benchmark_reports"):
        is_built = Path(names[0]).exists() or benchmark_folder(names[0]).is_dir()
        if not is_built:
            try:
                select(names[0])
            except UnknownNameError as error:
                raise _neither_run_nor_benchmark(names[0], error) from None
        raise UnknownNameError(
            f"{names[0]} is not a run; datasheets of benchmarks are part of another package: "
            f"{sibling_install_line(LAB)}"
        )
    write_report: BenchmarkReport = registry.find_registered("benchmark_reports", "datasheet")
    try:
        write_report(
            names[0], runs, outputs, error_limit=error_limit, strict=strict, as_json=as_json
        )
    except UnknownNameError as error:
        raise _neither_run_nor_benchmark(names[0], error) from None


def _neither_run_nor_benchmark(name: str, error: UnknownNameError) -> UnknownNameError:
    """Return the error for a name that is unknown, which suggests a run of a similar name if there is one."""
    suggestion = suggest_runs(Path(name))
    if suggestion.startswith("; did you mean"):
        return UnknownNameError(f"there is no folder {name}{suggestion}")
    return UnknownNameError(f"{name} is neither a run nor a benchmark: {error}")


SHOWN = 10


@click.command()
@click.argument("runs", nargs=-1, required=True, type=PATH)
def mend_command(runs: tuple[Path, ...]) -> None:
    """Repair RUNS: restore a damaged manifest, and move damaged journal lines aside.

    \b
      snellen mend runs/x

    A line is damaged if it cannot be read, if another model answered it, or if it does not fit its sample. The command
    moves such lines unchanged to the folder `damaged` of the run. Repeat the command that started the run to send the
    missing requests again. A manifest is restored from its copy, or made again from the journals and the questions that
    are stored with the run.
    """
    for run in runs:
        damages = mend_run(run)
        for damage in damages[:SHOWN]:
            console.print(str(damage), soft_wrap=True)
        if len(damages) > SHOWN:
            console.print(f"and {len(damages) - SHOWN:,} more")
        if not damages:
            console.print(f"{run}: nothing is damaged", soft_wrap=True)
            continue
        lines = sum(damage.line > 0 for damage in damages)
        done = f"{lines:,} lines were moved aside and are" if lines else "the damaged files are"
        console.print(
            f"{run}: {done} in {run / DAMAGED}; repeat the run's command to resume it",
            soft_wrap=True,
        )
