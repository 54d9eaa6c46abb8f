"""`snellen lint`: what built benchmarks hide."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click
import msgspec
from rich.table import Table as RichTable
from rich.text import Text

from snellen import DataError, JudgeSpec, ScoringSpec, evaluate, load_model
from snellen.plugin_api import (
    RUN_MANIFEST,
    Benchmark,
    CheckOutcome,
    IntegerParameter,
    QuestionCheck,
    Solvers,
    announce,
    announce_next,
    as_scored_last,
    command_line,
    console,
    find_benchmarks,
    find_registered,
    json_flag,
    print_built,
    print_records,
    run_progress,
    slug,
    strip_controls,
    write_atomically,
)
from snellen_lab.cli.flags import PATH
from snellen_lab.linting import SEVERITIES, Finding, Severity, is_run_on, lint, text_only
from snellen_lab.linting.doubtful import doubtful_questions
from snellen_lab.linting.material import first_examples
from snellen_lab.verification.audit_outcome import against_people

STYLES: dict[Severity, str] = {"serious": "bold red", "warning": "yellow", "note": "dim"}


@click.command()
@click.argument("benchmarks", nargs=-1, required=True, metavar="BENCHMARK_OR_RUN...")
@click.option("--model", help="Also run this model on the questions without their images.")
@click.option(
    "--limit", type=IntegerParameter(1), help="Maximum samples per benchmark for --model."
)
@click.option(
    "--runs", default="runs", help="Folder for the runs of --model, --jury and --blind.  [runs]"
)
@click.option(
    "--jury",
    multiple=True,
    metavar="MODEL",
    help="Model that votes on each option. Repeat for more.",
)
@click.option(
    "--blind",
    multiple=True,
    metavar="MODEL",
    help="Model that tries to solve the questions without images. Repeat for more.",
)
@click.option(
    "--votes",
    type=click.Choice(["majority", "all"]),
    default="majority",
    help="How the votes of the jury are counted.  [majority]",
)
@click.option(
    "--keep",
    metavar="NAME",
    help="Build a benchmark from the questions that pass, under this name.",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="With runs: file for the list of questions to review.  [NAME.doubtful.jsonl]",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if there is a serious finding.")
@json_flag
def lint_command(
    benchmarks: tuple[str, ...],
    model: str | None,
    limit: int | None,
    runs: str,
    jury: tuple[str, ...],
    blind: tuple[str, ...],
    votes: Literal["majority", "all"],
    keep: str | None,
    output: Path | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Find problems in built BENCHMARKS: repeated questions, conflicting answers, hints that give answers away.

    \b
      snellen lint eyechart
      snellen lint ./my-benchmark --model snellen:tiny --strict
      snellen lint mine --jury openai:a@http://host:port/v1 --jury hf:b --blind hf:b --keep mine-checked
      snellen lint mine runs/a runs/b runs/a-blind runs/b-blind

    The command also reports duplicate options, and how often simple rules find the answer without the image.
    docs/lint.md describes each check. With --jury, --blind or --keep, it checks each question on its own; --keep builds
    a benchmark in which the questions that fail are set aside, with the reasons (docs/verifying.md).

    If you also name runs on a benchmark, the command finds the questions that most models answer without the image, or
    that all models get wrong. It writes them to a list, which people can review with `snellen audit NAME --only LIST`.
    """
    folders: list[Path] = []
    names: list[str] = []
    for argument in benchmarks:
        if (Path(argument) / RUN_MANIFEST).exists():
            folders.append(Path(argument))
        else:
            names.append(argument)
    if folders and not names:
        raise DataError("all arguments are runs; also name the benchmark that they were run on")
    if output and not folders:
        raise DataError(
            "-o writes the questions that runs make doubtful; add runs to the arguments"
        )
    opened = [use.benchmark for use in find_benchmarks(names, announce=announce)]
    if keep and len(opened) > 1:
        raise DataError(
            f"--keep builds one benchmark, but {len(opened)} are named; run the command once for each"
        )
    if output and len(opened) > 1:
        raise DataError(
            f"-o writes one list, but {len(opened)} benchmarks are named; leave it out, or run the command once for each"
        )
    scored = as_scored_last(folders, ScoringSpec(), JudgeSpec(), announce)
    text_only_findings = _blind(opened, model, limit, runs) if model else {}
    serious = 0
    for benchmark in opened:
        with run_progress() as progress:
            solvers = Solvers(jury, blind, votes, runs=runs, progress=progress, announce=announce)
            if keep:
                _keep(benchmark, keep, solvers, as_json)
                return
            outcomes = solvers.check(benchmark) if jury or blind else {}
        runs_on_benchmark = [run for run in scored if is_run_on(run, benchmark)]
        findings_by_runs, doubtful = doubtful_questions(benchmark.name, runs_on_benchmark)

        findings = [*lint(benchmark), *text_only_findings.get(benchmark.name, [])]
        for check_name, outcome in outcomes.items():
            findings.append(_finding(benchmark, check_name, outcome))
        findings.extend(findings_by_runs)
        findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        serious += sum(finding.severity == "serious" for finding in findings)
        if as_json:
            _print_lines(benchmark, findings)
        else:
            _print_table(benchmark, findings)

        if findings_by_runs:
            path = output or Path(f"{slug(benchmark.name)}.doubtful.jsonl")
            write_atomically(path, msgspec.json.Encoder().encode_lines(doubtful))
            count = len({(question.id, question.turn) for question in doubtful})
            audit = command_line("audit", _own_name(benchmark, names, opened), "--only", path)
            announce(f"{count:,} questions to review: {path}; {audit} shows them")
    if not as_json:
        audit = command_line("audit", _own_name(opened[0], names, opened))
        announce_next(
            command_line("run", "MODEL", *names), f"{audit} draws questions for people to check"
        )
    if strict and serious:
        noun = "finding" if serious == 1 else "findings"
        click.echo(f"{serious} serious {noun}", err=True)
        sys.exit(1)


def _own_name(benchmark: Benchmark, names: Sequence[str], opened: Sequence[Benchmark]) -> str:
    """Return an argument that names one benchmark alone, for a command that takes a single one.

    Args:
        benchmark: The benchmark.
        names: The arguments of this command. One of them may name several benchmarks.
        opened: All benchmarks that they name.
    """
    if len(opened) == 1:
        return names[0]
    for name in names:
        if Path(name).resolve() == benchmark.folder.resolve():
            return name
    return benchmark.name


def _finding(benchmark: Benchmark, name: str, outcome: CheckOutcome) -> Finding:
    """Return the outcome of a check of questions as a finding of lint.

    Args:
        benchmark: The benchmark.
        name: Name of the check.
        outcome: The questions at fault, how many were checked, and by which models.
    """
    check: QuestionCheck = find_registered("checks", name)
    message = f"have {check.title}"
    if outcome.by:
        message += f" (asked: {', '.join(outcome.by)})"
    ids = list(dict.fromkeys(fault.sample_id for fault in outcome.faults))
    details = [outcome.detail, against_people(benchmark, ids)]
    details_text = "; ".join(detail for detail in details if detail)
    if details_text:
        message += f": {details_text}"
    severity = "warning" if ids else "note"
    return Finding(name, severity, message, len(ids), outcome.checked, first_examples(ids))


def _keep(benchmark: Benchmark, name: str, solvers: Solvers, as_json: bool) -> None:
    """Make a benchmark of the questions that pass, and say how many did not."""
    kept_benchmark = solvers.keep_passing(benchmark, name)
    verification = kept_benchmark.manifest.verification
    if as_json:
        print_records([verification])
        return
    print_built(kept_benchmark, with_verification=True)
    announce_next(
        command_line("run", "MODEL", kept_benchmark.name),
        f"{command_line('audit', kept_benchmark.name)} draws questions for people to check",
    )


def _blind(
    benchmarks: Sequence[Benchmark], model: str, limit: int | None, runs: str
) -> dict[str, list[Finding]]:
    """Run a model under the protocol `blind`, by likelihood if it cannot generate; a run like any other."""
    opened = load_model(model).model
    protocol = "blind" if "generate" in opened.kinds else "blind?by=likelihood"
    with run_progress() as progress:
        folders = [str(benchmark.folder) for benchmark in benchmarks]
        results = evaluate(
            opened,
            folders,
            protocol,
            limit=limit,
            runs=runs,
            allow_same_requests=True,
            progress=progress,
        )
    [run] = results.runs
    announce(f"run: {run.folder}")
    return text_only(run)


def _print_lines(benchmark: Benchmark, findings: Sequence[Finding]) -> None:
    """Print each finding as a line of JSON, with the benchmark and its version."""
    records = []
    for finding in findings:
        record = {"benchmark": benchmark.name, "version": benchmark.manifest.version}
        record |= msgspec.to_builtins(finding)
        records.append(record)
    print_records(records)


def _print_table(benchmark: Benchmark, findings: Sequence[Finding]) -> None:
    """Print the findings about a benchmark as a table in the terminal."""
    counts = benchmark.manifest.counts
    table = RichTable(
        title=f"{benchmark.name}: {counts.questions:,} questions, {counts.images:,} images",
        title_justify="left",
        box=None,
        header_style="bold",
        pad_edge=False,
    )
    for name in ("finding", "count", "what", "for example"):
        table.add_column(name, overflow="fold", justify="right" if name == "count" else "left")
    for finding in findings:
        count = f"{finding.count:,} of {finding.total:,}" if finding.total else ""
        label = Text(f"{finding.severity}\n{finding.check}", style=STYLES[finding.severity])
        table.add_row(
            label,
            count,
            Text(strip_controls(finding.message)),
            Text(strip_controls(" ".join(finding.examples))),
        )
    console.print(table)
