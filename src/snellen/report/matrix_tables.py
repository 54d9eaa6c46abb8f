"""Tables of one metric with a column for each model: by dimension, by benchmark, or by part of a benchmark.

A dimension is a capability that a suite assigns to its benchmarks, such as spatial understanding. A slice is a part of
a benchmark, such as `tag=hard`. A matrix is a table whose rows are dimensions, benchmarks or slices, and whose columns
are models: one for each model and method (`ModelMethodRow`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.capability import CAPABILITY, TASK_CAPABILITY
from snellen.analysis.headline import HEADLINE, OVERALL, headline_metric
from snellen.analysis.ranks import AVERAGE_RANK
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    OF_ANSWERED,
    SHARE,
    declared_row,
    find_metric,
)
from snellen.report.number_text import (
    DASH,
    capitalised,
    dimension_title,
    metric_meaning,
    metric_title,
    percent_text,
)
from snellen.report.reported_runs import (
    CHOICE_METRIC_NAMES,
    HeadlineEstimate,
    ModelMethodRow,
    ReportedRun,
    benchmarks_of,
    chance_levels,
    common_chance,
    dimensions_of,
    method_rows,
    overall_label,
    pools_of,
    question_metric,
    uses_first_presentation_only,
)
from snellen.report.summary import summary_cell
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate
from snellen.scoring.scored_run import ScoredBenchmark

NOT_MEASURED = (
    "not measured: the run does not include the benchmark, or the metric does not apply to it"
)
METRICS_WITH_OWN_TABLES = (
    "template_deviation",
    HEADLINE,
    CAPABILITY,
    TASK_CAPABILITY,
    AVERAGE_RANK,
)
"""Metric rows that have tables or figures of their own."""


def scored_benchmarks(reported_runs: Sequence[ReportedRun]) -> dict[str, ScoredBenchmark]:
    """Return all benchmarks of some runs by name. If several runs have a benchmark, that of the first run is returned."""
    benchmarks: dict[str, ScoredBenchmark] = {}
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            benchmarks.setdefault(scored.spec.name, scored)
    return {name: benchmarks[name] for name in benchmarks_of(reported_runs)}


def dimension_chances(reported_runs: Sequence[ReportedRun], dimension: str) -> dict[str, float]:
    """Return the chance level of each run in a dimension, by the label of the run."""
    return chance_levels(reported_runs, lambda spec: spec.dimension == dimension)


def benchmark_chances(reported_runs: Sequence[ReportedRun], name: str) -> dict[str, float]:
    """Return the chance level of each run on a benchmark, by the label of the run."""
    return chance_levels(reported_runs, lambda spec: spec.name == name)


class MatrixRow(Struct, frozen=True):
    """What a row of a matrix is about, as `ModelMethodRow.lookup` finds its numbers."""

    labels: tuple[str, ...]
    benchmark: str
    """`*` for a mean over benchmarks."""
    dimension: str = ""
    slice: str = ""
    chance: Mapping[str, float] = {}
    """Chance level of each run, by its label."""
    metric: str = ""
    """Metric row of this row, if it is not that of the table."""


# --- by dimension ----------------------------------------------------------------------------------------------------


def dimension_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return tables with a row for each ability dimension and a column for each model.

    The first one has the mean of the headline numbers of the benchmarks of each dimension. The others have one metric
    each.
    """
    dimension_rows: list[MatrixRow] = []
    for dimension in dimensions_of(reported_runs):
        label = f"{dimension_title(dimension)} ({dimension})"
        chances = dimension_chances(reported_runs, dimension)
        dimension_rows.append(MatrixRow((label,), OVERALL, dimension, chance=chances))

    capability_rows: list[MatrixRow] = []
    for row in dimension_rows:
        capability_rows.append(row)
        capability_rows += _task_rows(row.dimension, reported_runs)
    overall = overall_label(method_rows(reported_runs))
    capability_rows.append(MatrixRow((overall,), OVERALL, OVERALL, metric=HEADLINE))
    capability_rows.append(MatrixRow(("average rank",), OVERALL, OVERALL, metric=AVERAGE_RANK))

    tables: list[Table] = []
    for table in _matrix("dimension", capability_rows, reported_runs, CAPABILITY):
        tables.append(replace(table, notes=_capability_notes(reported_runs)))
    for metric in CHOICE_METRIC_NAMES:
        tables += _matrix("dimension", dimension_rows, reported_runs, metric)
    return tables


def _task_rows(dimension: str, reported_runs: Sequence[ReportedRun]) -> list[MatrixRow]:
    """Return a row for each task of a dimension, if its suite divides it into tasks."""
    slices: dict[str, None] = {}
    for reported_run in reported_runs:
        for row in reported_run.rows:
            if row.metric == TASK_CAPABILITY and row.dimension == dimension:
                slices[row.slice] = None
    rows: list[MatrixRow] = []
    for slice_name in slices:
        task = slice_name.removeprefix("task=")
        rows.append(
            MatrixRow((f"· {task}",), OVERALL, dimension, slice_name, metric=TASK_CAPABILITY)
        )
    return rows


def _capability_notes(reported_runs: Sequence[ReportedRun]) -> tuple[str, ...]:
    """Return notes for the table of ability dimensions.

    They say what has equal weight in a mean, which metrics enter each dimension, and which benchmarks or questions are
    missing.
    """
    weighted: set[str] = set()
    for reported_run in reported_runs:
        for row in reported_run.rows:
            if row.metric == CAPABILITY and row.dimension != OVERALL:
                weighted.add(row.over)
    weighted.discard("")
    common = (
        "Means are taken only over metrics with a common scale. Ranks cover the dimensions in which all models were "
        "measured in the same way."
    )
    if weighted:  # benchmarks of the user often have no dimension
        units = " or ".join(sorted(weighted))
        common = f"Each dimension is a mean over {units} of headline metrics (accuracy for multiple choice). {common}"
    notes = [common]

    model_rows = method_rows(reported_runs)
    benchmarks = scored_benchmarks(reported_runs).values()
    for dimension in dimensions_of(reported_runs):
        specs = [scored.spec for scored in benchmarks if scored.spec.dimension == dimension]
        metrics = dict.fromkeys(metric_title(headline_metric(spec)) for spec in specs)
        noun = "benchmark" if len(specs) == 1 else "benchmarks"
        title = capitalised(dimension_title(dimension))
        name = dimension if title == dimension else f"{title} ({dimension})"
        gaps = _coverage_gaps(model_rows, CAPABILITY, dimension)
        notes.append(f"{name}: {', '.join(metrics)} of {len(specs)} {noun}{gaps}.")
    for title, metric in (("All dimensions", HEADLINE), ("Average rank", AVERAGE_RANK)):
        gaps = _coverage_gaps(model_rows, metric, OVERALL)
        if gaps:
            notes.append(f"{title}{gaps}.")
    return tuple(notes)


def _coverage_gaps(model_rows: Sequence[ModelMethodRow], metric: str, dimension: str) -> str:
    """Describe which benchmarks or questions are missing from the numbers of models in an ability dimension.

    Args:
        model_rows: The results of each model by one method.
        metric: The metric of the numbers.
        dimension: The dimension, or `*` for all dimensions.

    Returns:
        The end of a sentence: `; partial, 2 of 3 benchmarks` if all models have the same gap, otherwise
        `; partial (A, generation and B, generation): 2 of 3 benchmarks`. It is empty if all numbers are complete.
    """
    n_models = 0
    labels_by_gap: dict[str, list[str]] = defaultdict(list)
    for model_row in model_rows:
        number = model_row.lookup(metric, OVERALL, dimension)
        if number is None:
            continue
        n_models += 1
        if number.partial:
            labels_by_gap[number.partial].append(model_row.label)

    text = ""
    for gap, labels in labels_by_gap.items():
        is_gap_of_all = len(labels) == n_models
        if is_gap_of_all:
            first_part, *other_parts = gap.split("; ")
            sentences = [f"; partial, {first_part}"]
            sentences += [capitalised(part) for part in other_parts]
            return ". ".join(sentences)
        text += f"; partial ({' and '.join(labels)}): {gap.replace('; ', ', ')}"
    return text


# --- by benchmark ----------------------------------------------------------------------------------------------------


def benchmark_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table for each metric, with a row for each benchmark and a column for each model and method."""
    rows: list[MatrixRow] = []
    for name in scored_benchmarks(reported_runs):
        rows.append(MatrixRow((name,), name, chance=benchmark_chances(reported_runs, name)))
    for name in pools_of(reported_runs):
        rows.append(MatrixRow((name,), name))
    tables: list[Table] = []
    for metric in (*CHOICE_METRIC_NAMES, *other_metrics(reported_runs), "template_deviation"):
        tables += _matrix("benchmark", rows, reported_runs, metric)
    return tables


def other_metrics(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return the metrics of some runs without those that every multiple-choice benchmark has, such as accuracy.

    The metrics that benchmarks declare come first, then those that users asked for. Metrics that are shown in a table
    of their own, or in the cell of another metric, are left out.
    """
    measured: dict[str, None] = {}
    for reported_run in reported_runs:
        measured.update(dict.fromkeys(row.metric for row in reported_run.rows))
    ordered: dict[str, None] = {}
    for scored in scored_benchmarks(reported_runs).values():
        for metric in benchmark_metric_rows(scored):
            if metric in measured:
                ordered[metric] = None
    ordered.update(measured)

    others: list[str] = []
    for metric in ordered:
        is_choice_metric = (
            metric in CHOICE_METRIC_NAMES
            or declared_row(metric).secondary_to in CHOICE_METRIC_NAMES
        )
        is_in_cell_of_another = metric.endswith(OF_ANSWERED)
        has_own_table = metric in METRICS_WITH_OWN_TABLES
        if not (is_choice_metric or is_in_cell_of_another or has_own_table):
            others.append(metric)
    return others


def benchmark_metric_rows(scored: ScoredBenchmark) -> list[str]:
    """Return the names of all numbers that the metrics of a benchmark yield. A metric can yield several numbers."""
    rows: list[str] = []
    for metric in scored.spec.metrics or DEFAULT_TEXT_METRICS:
        rows += find_metric(metric).names
    return rows


# --- by slice --------------------------------------------------------------------------------------------------------


def slice_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return tables with a row for each slice of a benchmark, such as `level=hard`, and a column for each model.

    There is a table of accuracy, and one for the first metric of each benchmark with only open questions.
    """
    slices_by_benchmark: dict[str, set[str]] = defaultdict(set)
    for reported_run in reported_runs:
        for row in reported_run.rows:
            if is_slice(row.slice):
                slices_by_benchmark[row.benchmark].add(row.slice)

    rows: list[MatrixRow] = []
    metrics: dict[str, None] = {"accuracy": None}
    for name, scored in scored_benchmarks(reported_runs).items():
        slices = sorted(slices_by_benchmark[name])
        rows += [MatrixRow((name, slice_name), name, slice=slice_name) for slice_name in slices]
        if scored.chance_accuracy is None:
            metrics[question_metric(scored, has_options=False)] = None
    tables: list[Table] = []
    for metric in metrics:
        tables += _matrix("part", rows, reported_runs, metric)
    return tables


def is_slice(slice_name: str) -> bool:
    """Return whether a result is about part of a benchmark. One of a template is not: it covers all questions."""
    return bool(slice_name) and not slice_name.startswith("template=")


# --- a matrix --------------------------------------------------------------------------------------------------------


class _FilledRow(Struct, frozen=True):
    """A row of a matrix with its numbers, by the label of the model and method. Those without a number are left out."""

    subject: MatrixRow
    numbers: Mapping[str, HeadlineEstimate]


def _matrix(
    row_kind: str, subjects: Sequence[MatrixRow], reported_runs: Sequence[ReportedRun], metric: str
) -> list[Table]:
    """Return a table of one metric with a row for each subject and a column for each model and method.

    Rows and columns without any number are left out.

    Args:
        row_kind: What a subject is: `dimension`, `benchmark` or `part`. A part has two labels.
        subjects: What the rows are about. A subject with a metric of its own has the numbers of that metric.
        reported_runs: The runs.
        metric: The metric row.

    Returns:
        One table; none if no model has a number.
    """
    all_model_rows = method_rows(reported_runs)
    rows: list[_FilledRow] = []
    for subject in subjects:
        numbers = _lookup_numbers(all_model_rows, subject, subject.metric or metric)
        if numbers:
            rows.append(_FilledRow(subject, numbers))
    if not rows:
        return []
    model_rows = [
        model_row
        for model_row in all_model_rows
        if any(model_row.label in row.numbers for row in rows)
    ]
    main_protocols = _main_protocols(model_rows, rows)
    has_chance = metric == "accuracy" and any(row.subject.chance for row in rows)

    columns: list[Column[_FilledRow]] = []
    if row_kind == "part":
        columns.append(Column("benchmark", lambda row: row.subject.labels[0], is_label=True))
        columns.append(Column("part", lambda row: row.subject.labels[1], is_label=True))
    else:
        columns.append(Column(row_kind, lambda row: row.subject.labels[0], is_label=True))
    if has_chance:
        columns.append(
            Column("chance", lambda row: _chance_text(row.subject.chance), is_label=True)
        )
    for model_row in model_rows:
        columns.append(_model_column(model_row, metric, main_protocols[model_row.method]))

    title = capitalised(metric_title(metric))
    notes = _metric_notes(metric, rows)
    if has_chance:
        for row in rows:
            notes += _chance_notes(row.subject)
    for method, protocol in main_protocols.items():
        if protocol != method:
            first_only = ""
            if uses_first_presentation_only(metric, protocol):
                first_only = ", each first presentation"
            notes.append(f"By {method}: from the protocol {protocol}{first_only}.")

    # The columns of a run are next to each other.
    spans: list[tuple[str, int]] = []
    for label, of_run in groupby(model_rows, lambda model_row: model_row.reported_run.label):
        spans.append((label, len(list(of_run))))
    table = tabulate(f"{title} by {row_kind}", columns, rows, notes)
    return [replace(table, spans=tuple(spans))]


def _lookup_numbers(
    model_rows: Sequence[ModelMethodRow], subject: MatrixRow, metric: str
) -> dict[str, HeadlineEstimate]:
    """Return the number of each model for one row of a table, by the label of the model. Models without one are missing.

    Args:
        model_rows: The results of each model by one method.
        subject: What the row is about: a benchmark, an ability dimension or a slice.
        metric: The metric of the table.
    """
    numbers: dict[str, HeadlineEstimate] = {}
    for model_row in model_rows:
        number = model_row.lookup(metric, subject.benchmark, subject.dimension, subject.slice)
        if number is not None:
            numbers[model_row.label] = number
    return numbers


def _main_protocols(
    model_rows: Sequence[ModelMethodRow], rows: Sequence[_FilledRow]
) -> dict[str, str]:
    """Return, for each method, the protocol from which most numbers of a table come: `{"generation": "circular"}`.

    Cells with a number from another protocol have a note.

    Args:
        model_rows: The models in the columns of the table, each by one method.
        rows: The rows of the table with the number of each model.
    """
    counts_by_method: dict[str, Counter[str]] = defaultdict(Counter)
    for model_row in model_rows:
        for row in rows:
            number = row.numbers.get(model_row.label)
            if number is not None:
                counts_by_method[model_row.method][number.protocol] += 1

    main_protocols: dict[str, str] = {}
    for method, counts in counts_by_method.items():
        [(most_frequent_protocol, _)] = counts.most_common(1)
        main_protocols[method] = most_frequent_protocol
    return main_protocols


def _model_column(model_row: ModelMethodRow, metric: str, main_protocol: str) -> Column[_FilledRow]:
    return Column(model_row.label, lambda row: _cell(model_row, metric, main_protocol, row))


def _cell(model_row: ModelMethodRow, metric: str, main_protocol: str, row: _FilledRow) -> Cell:
    """Return a table cell with the number of a model.

    The number has a note if it comes from another protocol than most numbers of the table, or if it has another unit.
    """
    number = row.numbers.get(model_row.label)
    if number is None:
        return AbsentCell(NOT_MEASURED)
    benchmark = "" if row.subject.benchmark == OVERALL else row.subject.benchmark
    cell = summary_cell(model_row, metric, number, benchmark)
    if not isinstance(cell, NumberCell):
        return cell
    notes: list[str] = []
    if number.protocol != main_protocol:
        notes.append(f"from {number.protocol}")
    if metric == CAPABILITY and number.unit not in (SHARE, "rank"):
        notes.append(f"in {number.unit}")
    return replace(cell, note="; ".join(notes))


def _metric_notes(metric: str, rows: Sequence[_FilledRow]) -> list[str]:
    """Return notes on a metric: what it measures, and its unit and whether lower is better if all numbers have one unit."""
    notes: list[str] = []
    meaning = metric_meaning(metric)
    if meaning:
        notes.append(f"{capitalised(metric_title(metric))}: {meaning.rstrip('.')}.")
    units: set[str] = set()
    for row in rows:
        units.update(number.unit for number in row.numbers.values())
    if len(units) == 1:
        qualifiers = replace(declared_row(metric), unit=units.pop()).qualifiers
        if qualifiers:
            notes.append(f"{capitalised(qualifiers)}.")
    return notes


def _chance_text(levels: Mapping[str, float]) -> str:
    """Return the chance level of all runs: `25.0%`, `25.0% to 33.3%` if it differs, or a dash without one."""
    if not levels:
        return DASH
    level = common_chance(levels)
    if level is not None:
        return percent_text(level)
    return f"{percent_text(min(levels.values()))} to {percent_text(max(levels.values()))}"


def _chance_notes(subject: MatrixRow) -> Iterator[str]:
    """Yield a note with the chance level of each model for one row of a table.

    There is no note if all models have the same level, which the row then shows, or if there is no chance level. Models
    have different levels if they were run on different questions.
    """
    if not subject.chance or common_chance(subject.chance) is not None:
        return
    levels: list[str] = []
    for label, level in subject.chance.items():
        levels.append(f"{percent_text(level)} ({label})")
    yield f"Chance level in {subject.labels[0]}, for the questions of each model: {', '.join(levels)}."
