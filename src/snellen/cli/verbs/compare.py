"""`snellen compare`"""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict, replace
from rich.text import Text

from snellen.cli.flags import (
    PATH,
    FloatParameter,
    GroupedCommand,
    details_flag,
    field_flags,
    flags_given,
    flags_on_line,
    given_fields,
    json_flag,
    judge_flags,
    judge_from_flags,
    scoring_from_flags,
    stored_scoring_flag,
    subset_flags,
)
from snellen.cli.show import (
    announce,
    announce_next,
    command_line,
    console,
    print_records,
    print_tables,
    run_progress,
)
from snellen.common.field_values import convert_fields, fields_of
from snellen.common.record_fields import record_fields
from snellen.errors import DataError, SnellenError
from snellen.experiments.compare_spec import CompareSpec, GateSpec, SubsetSpec
from snellen.experiments.gate_file import gate_settings
from snellen.experiments.outcome_checks import check_budget
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import as_scored_last
from snellen.metrics.declaration import find_metric, metric_with
from snellen.registry import code_attribute, code_name, is_code, register_scoring_code
from snellen.runs.run_folder import runs_in
from snellen.runs.spec import JudgeSpec, ScoringSpec, overlaid, read_run_spec, run_spec
from snellen.scoring.kept_scoring import (
    CHOSEN_STANDARD,
    STANDARD,
    find_scoring,
    shared_last_scoring,
    stored_metrics,
)
from snellen.scoring.scored_run import ScoredRun

if TYPE_CHECKING:
    from snellen.analysis.paired.differences import Comparison
    from snellen.report.table import Table


GATE_ERROR = 3
"""Exit code of a gate that could not decide because of an error."""


class _Compare(GroupedCommand):
    usual = ("--metric", "--where", "--baseline", "--output", "--details", "--json", "--help")
    usual_title = "Options that most comparisons need"
    titles = MappingProxyType(
        {
            CompareSpec: "How runs are compared",
            GateSpec: "Gates",
            SubsetSpec: "Which questions count",
            ScoringSpec: "How replies are read and scored",
            JudgeSpec: "Models as judges",
        }
    )
    others_title = "Two models that have not run yet"


@click.command(cls=_Compare)
@click.argument("runs", nargs=-1, required=True)
@click.option(
    "--sequential",
    is_flag=True,
    help="With MODEL_A MODEL_B BENCHMARK...: run both models on the same images until it is "
    "decided which is better.",
)
@click.option(
    "--equivalent",
    type=FloatParameter(0),
    metavar="POINTS",
    help="With --sequential: also stop when the interval of the difference is within ±POINTS.  "
    "[0, any matters]",
)
@click.option(
    "-p",
    "--protocol",
    "protocols",
    multiple=True,
    help="With --sequential: protocol, as in `snellen run`.",
)
@click.option(
    "--exam",
    type=PATH,
    help="With --sequential: a TOML file with further settings of a run (limit, runs, workers "
    "...).",
)
@field_flags(CompareSpec, has_negations=False)
@field_flags(GateSpec, has_negations=False)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=PATH,
    help="File to write: .md, .csv, or .json (includes the questions that flipped); for a gate "
    ".xml (JUnit), .md or .json. Repeat for more.",
)
@subset_flags
@stored_scoring_flag
@field_flags(ScoringSpec, but=("metrics",))
@judge_flags
@details_flag
@json_flag
def compare_command(
    runs: tuple[str, ...],
    sequential: bool,
    equivalent: float | None,
    protocols: tuple[str, ...],
    exam: Path | None,
    outputs: tuple[Path, ...],
    with_details: bool,
    as_json: bool,
    stored_scoring: str | None,
    **flags: Any,
) -> None:
    """Compare RUNS question by question.

    \b
      snellen compare runs/a runs/b
      snellen compare runs/new runs/old --fail-if-worse 1pt -o gate.xml
      snellen compare runs/* --baseline runs/a -o comparison.json
      snellen compare --sequential MODEL_A MODEL_B BENCHMARK...

    Two runs are compared on the questions for which both have a value: by benchmark, by dimension and overall, with
    confidence intervals and p-values that treat questions about the same image as one unit. Intervals of ranks come
    from resampled images. --metric names the metrics to compare instead of the headline of each benchmark. Runs that
    were last scored in the same way (--metric, --judge and others of `snellen score`) are compared by that scoring, and
    others by standard settings; --scoring chooses.
    docs/comparison.md explains the results. For runs of `snellen acuity`, the command compares thresholds.

    With --fail-if-worse, or rules in a --gate file, the first run is a release candidate and the second its baseline.
    The exit code says whether the candidate can be released (docs/gate.md).

    With --sequential, the command runs two models on only as many questions as it takes to decide which one is better
    (docs/adaptive.md).
    """
    given_settings = given_fields(flags)
    compare = convert_fields(fields_of(CompareSpec, given_settings), CompareSpec)
    gate = convert_fields(fields_of(GateSpec, given_settings), GateSpec)
    subset = convert_fields(fields_of(SubsetSpec, given_settings), SubsetSpec)
    has_flags_for_models = equivalent is not None or bool(protocols or exam)
    _check_flags(sequential, has_flags_for_models=has_flags_for_models)
    if sequential:
        flags_of_runs = {}
        for name, value in given_settings.items():
            if name not in _COMPARISON_FIELDS:
                flags_of_runs[name] = value
        run_settings = flags_given(flags_of_runs)
        if protocols:
            run_settings["protocols"] = protocols
        if subset.where:
            run_settings["where"] = subset.where
        if compare.seed:
            run_settings["seed"] = compare.seed
        _run_both(runs, equivalent or 0.0, compare.metrics, run_settings, exam, as_json)
        return

    _check_no_models(runs)
    _check_no_files(runs)
    metric_names = [code_name(name) for name in compare.metrics]
    folders = runs_in(runs)
    metrics_to_compute = _metrics_to_compute(metric_names, folders, stored_scoring)
    compare = replace(compare, metrics=tuple(code_attribute(name) for name in metric_names))
    scoring = scoring_from_flags({**flags, "metrics": tuple(metrics_to_compute)})
    judge = judge_from_flags(flags)
    scored = as_scored_last(folders, scoring, judge, announce, stored_scoring)
    results = Results(scored)
    if gate.fail_if_worse or gate.gate:
        narrowed = results.only(where=subset.where, common_answered=subset.common_answered)
        _gate(narrowed, gate, outputs, as_json=as_json)
        return
    if gate.on or gate.plan:
        raise DataError("--on and --plan need a gate: add --fail-if-worse MARGIN or --gate FILE")
    if any(run.manifest.adaptive_rules for run in scored):
        is_narrowed = bool(compare.baseline or outputs or subset.common_answered or subset.where)
        _compare_adaptive_runs(scored, as_json, is_narrowed=is_narrowed)
        return

    narrowed = results.only(where=subset.where, common_answered=subset.common_answered)
    # For two runs, ranks say no more than the difference, so only files contain them.
    has_ranks = bool(outputs) or len(scored) > 2
    if not has_ranks:
        compare = replace(compare, resamples=0)
    comparison = narrowed.compare(**asdict(compare))
    for folder, reason in comparison.left_out.items():
        announce(f"{folder} is left out of the comparison: {reason}")
    compared_runs = [run for run in narrowed.runs if str(run.folder) not in comparison.left_out]
    compared = Results(compared_runs)
    for path in outputs:
        _write(comparison, path)
    if as_json:
        _print_differences(comparison)
        return
    if not compare.metrics:
        _show_verdict(compared, comparison)
    if with_details:
        _show_tables(comparison, compared)
    else:
        _show_short(comparison)
    viewed: Sequence[str | Path] = runs
    if comparison.left_out:
        viewed = [run.folder for run in compared_runs]
    announce_next(f"{command_line('view', *viewed)} shows the questions that flipped")


def _metrics_to_compute(
    metric_names: Sequence[str], folders: Sequence[Path], stored_scoring: str | None
) -> list[str]:
    """Return the requested metrics that must be computed now, because not all runs have stored values of them.

    Metrics that every scoring reports, such as accuracy, are never computed again and are left out. A metric that
    the user wrote as code (`my_file.py:NAME`) is registered first.

    Args:
        metric_names: The metrics that the user wants to compare.
        folders: The folders of the runs.
        stored_scoring: The scoring that the user chose by `--scoring`; None without a choice.

    Returns:
        The names of the metrics, each once; an empty list if nothing has to be computed.
    """
    common_metrics = _stored_metrics_of_all(folders, stored_scoring)
    names = [name for name in metric_names if name not in common_metrics]
    register_scoring_code(names, "")
    metrics_to_compute: list[str] = []
    for metric_name in names:
        name = metric_name if is_code(metric_name) else metric_with(metric_name)
        if not find_metric(name).is_always_reported and name not in metrics_to_compute:
            metrics_to_compute.append(name)
    return metrics_to_compute


def _stored_metrics_of_all(folders: Sequence[Path], stored_scoring: str | None) -> set[str]:
    """Return the names of the metrics that need not be computed, because every run has stored values of them.

    Scoring a run writes its values into the folder of the run: the standard scoring into the folder itself, another
    one (for example with a judge, or with `--metric bleu`) into a folder of its own under `scores`. This function
    looks only at the scoring of each run that will be compared. For example, if run A was scored with `bleu` and
    `rouge`, and run B with `bleu` alone, it returns `{"bleu"}`.

    Args:
        folders: The folders of the runs.
        stored_scoring: The scoring that the user chose by `--scoring`. Without a choice (None), it is the last
            scoring if all runs were scored in the same way, and otherwise the standard one.

    Returns:
        The names; an empty set if the standard scoring of any run is compared, or if no metric is stored in all
        runs.
    """
    if stored_scoring in (STANDARD, CHOSEN_STANDARD):
        return set()
    if stored_scoring is None:
        names = [shared_last_scoring(folders)] * len(folders)
    else:
        names = [find_scoring(folder, stored_scoring) for folder in folders]
    if STANDARD in names:
        return set()
    metrics = [stored_metrics(folder, name) for folder, name in zip(folders, names, strict=True)]
    return set.intersection(*metrics)


_COMPARISON_FIELDS = {
    *record_fields(CompareSpec),
    *record_fields(GateSpec),
    *record_fields(SubsetSpec),
}
"""Settings of how existing runs are compared."""
_SEQUENTIAL_FIELDS = ("metrics", "where", "seed")
"""The fields of `_COMPARISON_FIELDS` that --sequential uses, too."""


def _check_flags(sequential: bool, *, has_flags_for_models: bool) -> None:
    """Raise DataError for flags that do not work together.

    `--sequential` runs two models, so flags for existing runs (such as `--baseline`) do not go with it. The flags
    for such a run (`--equivalent`, `--protocol`, `--exam`) do not work without it.

    Args:
        sequential: Whether `--sequential` is given.
        has_flags_for_models: Whether one of the flags that need `--sequential` is given.
    """
    if sequential:
        fields_for_runs = [name for name in _COMPARISON_FIELDS if name not in _SEQUENTIAL_FIELDS]
        flags_for_runs = flags_on_line(only=(*fields_for_runs, "outputs"))
        if flags_for_runs:
            raise DataError(
                f"--sequential runs models, but {', '.join(flags_for_runs)} applies to existing runs; remove it"
            )
    if has_flags_for_models and not sequential:
        raise DataError(
            "--equivalent, --protocol and --exam need --sequential, because runs are already complete"
        )


def _check_no_models(words: Sequence[str]) -> None:
    """Raise DataError if a model string is given where a run is expected."""
    from snellen.models.loading import names_model

    models = [word for word in words if names_model(word) and not Path(word).exists()]
    if models:
        raise DataError(
            f"{models[0]} is a model, and runs are compared: first `snellen run {models[0]} BENCHMARK`, or run two models "
            "and compare them in one command: `snellen compare --sequential MODEL_A MODEL_B BENCHMARK`"
        )


def _check_no_files(words: Sequence[str]) -> None:
    """Raise DataError if a file is given where a run is expected, with the command that makes runs of files."""
    files = [word for word in words if Path(word).is_file()]
    if files:
        raise DataError(
            f"{files[0]} is a file, and runs are compared: first {command_line('score', *files)}, which makes a run of "
            "each file of predictions, and then compare these runs"
        )


def _write(comparison: Comparison, path: Path) -> None:
    from snellen.report.page import write_comparison

    announce(f"wrote {write_comparison(comparison, path)}")


def _print_differences(comparison: Comparison) -> None:
    from snellen.analysis.paired.differences import flat_difference

    print_records(map(flat_difference, comparison.rows))


def _show_verdict(results: Results, comparison: Comparison) -> None:
    """Print the first finding of a report on these runs: the sentence that says which model is better.

    It is about the benchmarks that all runs have in common. Nothing is printed if there is no such sentence.
    """
    from snellen.analysis.paired.comparison import ComparedRuns
    from snellen.report.findings import findings
    from snellen.report.reported_runs import prepare_common_benchmarks

    compared = ComparedRuns(results.runs, comparison)
    common_benchmarks = prepare_common_benchmarks(compared.runs)
    sentences = findings(common_benchmarks, compared, of_instruments=True)
    if sentences:
        console.print(Text(sentences[0]))
        console.print()


def _show_short(comparison: Comparison) -> None:
    """Print one table, and what to do next."""
    from snellen.report.short_comparison import next_steps, short_table

    print_tables([short_table(comparison)])
    console.print()
    for step in next_steps(comparison):
        console.print(Text(step))


def _gate(results: Results, gate: GateSpec, outputs: Sequence[Path], *, as_json: bool) -> None:
    """Print whether a candidate is worse than its baseline, and exit with the code of the verdict.

    An error exits with 3, so that it is not taken for a lack of evidence.
    """
    from snellen.analysis.paired.gate import check_gate, plan_gate
    from snellen.report.gate_forms import (
        gate_json,
        gate_table,
        plan_table,
        verdict_sentence,
        write_gate,
    )

    try:
        file = Path(gate.gate) if gate.gate else None
        rules, alpha = gate_settings(gate.fail_if_worse, gate.on, file)
        if len(results.runs) != 2:
            raise DataError(
                f"a gate compares two runs, CANDIDATE BASELINE, but {len(results.runs)} are given"
            )
        candidate, baseline = results.runs
        if gate.plan:
            plans = plan_gate(candidate, baseline, rules, alpha)
            if as_json:
                print_records(plans)
            else:
                print_tables([plan_table(plans, alpha)])
            return
        result = check_gate(candidate, baseline, rules, alpha)
        for path in outputs:
            announce(f"wrote {write_gate(result, path)}")
    except SnellenError as error:
        error.exit_code = GATE_ERROR
        raise
    if as_json:
        console.out(gate_json(result), highlight=False)
    else:
        console.print(Text(verdict_sentence(result)))
        console.print()
        print_tables([gate_table(result)])
    sys.exit(result.exit_code)


def _show_tables(comparison: Comparison, results: Results) -> None:
    """Print all tables of a comparison: differences, ranks, questions that flipped, and how often letters were chosen.

    A note below a table is not repeated below the next ones.

    Args:
        comparison: The comparison.
        results: The results of the runs that are compared.
    """
    from snellen.report.flipped import flip_tables
    from snellen.report.letters import letter_tables
    from snellen.report.paired_tables import flips_line, tables_of
    from snellen.report.reported_runs import prepare_reported_runs

    pairs = [(difference.first, difference.second) for difference in comparison.differences]
    tables = [
        *tables_of(comparison),
        *flip_tables(results.runs, pairs),
        *letter_tables(prepare_reported_runs(results.runs, ())),
    ]
    printed_notes: set[str] = set()
    for table in tables:
        print_tables([_without_notes(table, printed_notes)])
        console.print()
        printed_notes.update(table.all_notes)
    console.print(flips_line(comparison))


def _without_notes(table: Table, printed_notes: Container[str]) -> Table:
    """Return a table without the hints and notes that were printed below an earlier table."""
    from snellen.report.number_text import hint_text

    new_hints = {}
    for name, hint in table.hints.items():
        if hint_text(name, hint) not in printed_notes:
            new_hints[name] = hint
    new_notes = tuple(note for note in table.notes if note not in printed_notes)
    return replace(table, hints=new_hints, notes=new_notes)


def _compare_adaptive_runs(
    scored: Sequence[ScoredRun], as_json: bool, *, is_narrowed: bool
) -> None:
    """Print the results of runs that chose their own questions next to each other, and their differences."""
    from snellen.report.adaptive_procedures import common_procedure

    procedure = common_procedure(scored)
    if is_narrowed:
        raise DataError(
            "these runs chose their own questions; --baseline, -o, --where and --common-answered do not apply to them"
        )
    compared = procedure.compare(scored)
    if as_json:
        for record in compared.records:
            console.out(record)
    else:
        print_tables(compared.tables)


def _run_both(
    words: Sequence[str],
    equivalent: float,
    metrics: Sequence[str],
    settings: Mapping[str, Any],
    exam: Path | None,
    as_json: bool,
) -> None:
    """Run two models on the same questions until it is decided which is better, and print the decision.

    Args:
        words: The two models, and the benchmarks.
        equivalent: Points within which the models count as equally good; 0 if any difference matters.
        metrics: The metric that decides, as the only item; empty for the headline of each benchmark.
        settings: Settings of the runs by name.
        exam: A TOML file with further settings; None if there is none.
        as_json: Whether to print the differences as JSON.

    Raises:
        SnellenError: A setting is not valid, or a run failed.
    """
    from snellen.experiments.deciding import decide_between

    models = words[:2]
    benchmarks = tuple(words[2:])
    if len(metrics) > 1:
        raise DataError(
            "--sequential decides by one metric; give a single --metric, or none to use each benchmark's headline"
        )
    if metrics and is_code(code_name(metrics[0])):
        raise DataError(
            f"--sequential does not decide by a function of your own; run both models, then `snellen compare RUN_A RUN_B "
            f"--metric {metrics[0]}`"
        )
    settings_of_line = dict(settings)
    if benchmarks:
        settings_of_line["benchmarks"] = benchmarks
    settings_of_file = read_run_spec(exam) if exam else {}
    spec = run_spec(overlaid(settings_of_file, settings_of_line))
    with run_progress() as progress:
        comparison = decide_between(
            spec,
            models,
            metric="".join(metrics),
            equivalent=equivalent,
            progress=progress,
            announce=announce,
        )
    if as_json:
        print_records(comparison.differences)
    else:
        from snellen.report.sequential_tables import decision_table

        print_tables([decision_table(comparison.differences)])
        for run in comparison.runs:
            console.print(f"{run.manifest.model}: {run.folder}")
    for outcome in comparison.outcomes:
        check_budget(outcome, spec.execution.error_budget)
