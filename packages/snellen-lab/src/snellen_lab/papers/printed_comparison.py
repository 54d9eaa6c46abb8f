"""Comparison of a run's number with the printed numbers of a paper's models."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen import parse_protocol
from snellen.plugin_api import (
    OVERALL,
    Better,
    Estimate,
    ModelMethodRow,
    competition_ranks,
    declared_row,
    entries,
    few_names,
    headline_metric,
)
from snellen_lab.cell_texts import DASH
from snellen_lab.papers.printed_tables import Paper, PrintedValue
from snellen_lab.row_names import CAPABILITY, HEADLINE

NOT_SHARED = "not in the run, or only by another metric"


class PrintedComparison(Struct, frozen=True):
    """A number of a run next to a printed column of a paper's table, with its rank in that column."""

    unit: str
    estimate: Estimate
    rank: str
    note: str = ""
    """Why the run has no number, or which part of the benchmark the number covers."""
    text: str = ""
    """The number as text, if it is computed from other numbers; formatted by its unit if empty."""


def compare_with_printed(
    paper: Paper, model_row: ModelMethodRow, cells: Sequence[PrintedValue]
) -> PrintedComparison | None:
    """Compare a run with the numbers that a paper prints in a column.

    Args:
        paper: The paper.
        model_row: The run's numbers by one method.
        cells: The printed values of all models in a column and kind of row.

    Returns:
        The comparison. None if the run was not scored as published, or lacks a number of the same
        benchmark, metric and method.
    """
    cell = cells[0]
    if model_row.reported_run.run.convention == "standard" or cell.method != model_row.method:
        return None
    if not cell.metric or not (cell.benchmark or cell.dimension):
        return None
    metric = cell.metric
    if metric == CAPABILITY and cell.dimension == OVERALL:
        metric = HEADLINE
    number = model_row.lookup(metric, cell.benchmark or OVERALL, cell.dimension, cell.slice)
    if number is None:
        return None

    if cell.dimension:
        differences = _describe_other_benchmarks(paper, model_row, cell.dimension)
        if differences:
            note = f"no mean beside theirs: {differences}"
            no_value = Estimate(None, None, None, None, 0)
            return PrintedComparison(number.unit, no_value, DASH, note)
    notes = [
        _describe_part(model_row, cell),
        _describe_other_protocol(model_row, cell, number.protocol),
    ]
    note = "; ".join(text for text in notes if text)
    return PrintedComparison(number.unit, number.estimate, _rank(number.estimate, cells), note)


def better_of(cell: PrintedValue) -> Better:
    """Return whether higher or lower values are better in the column of a printed cell."""
    return "higher" if cell.dimension else declared_row(cell.metric).better


def _describe_other_benchmarks(paper: Paper, model_row: ModelMethodRow, dimension: str) -> str:
    """Return how the benchmarks in a run's mean differ from those in the paper's mean.

    The text is "" if they are the same.

    Args:
        paper: The paper.
        model_row: The run's numbers by one method.
        dimension: The dimension that the mean is over, or `*` for all.
    """
    paper_benchmarks = set()
    for spec in entries().values():
        if spec.suite == paper.suite and dimension in (spec.dimension, OVERALL):
            paper_benchmarks.add(spec.name)
    run_benchmarks = set()
    for scored in model_row.reported_run.run.benchmarks:
        spec = scored.spec
        if dimension not in (spec.dimension, OVERALL):
            continue
        number = model_row.lookup(headline_metric(spec), spec.name)
        if number is not None and number.estimate.value is not None:
            run_benchmarks.add(spec.name)

    differences = []
    if paper_benchmarks - run_benchmarks:
        differences.append(f"theirs are over {few_names(paper_benchmarks - run_benchmarks)} too")
    if run_benchmarks - paper_benchmarks:
        differences.append(f"the run's is over {few_names(run_benchmarks - paper_benchmarks)} too")
    return "; ".join(differences)


def _describe_part(model_row: ModelMethodRow, cell: PrintedValue) -> str:
    """Return how many of the paper's questions the run covers; "" if it covers all."""
    n_run = 0
    n_published = 0
    for scored in model_row.reported_run.run.benchmarks:
        spec = scored.spec
        is_in_dimension = bool(cell.dimension) and cell.dimension in (spec.dimension, OVERALL)
        if cell.benchmark != spec.name and not is_in_dimension:
            continue
        expected = entries()[spec.name].expected.samples if spec.name in entries() else None
        if expected:
            n_run += min(len(scored.samples), expected)
            n_published += expected
    if n_run == n_published:
        return ""
    return f"{n_run:,} of {n_published:,} questions"


def _describe_other_protocol(model_row: ModelMethodRow, cell: PrintedValue, protocol: str) -> str:
    """Return a note if the run was evaluated by another protocol than the suite's; else ""."""
    scored = model_row.reported_run.benchmark(cell.benchmark)
    if scored is None:
        return ""
    if model_row.method == "likelihood":
        suite_protocols = scored.spec.likelihood
    else:
        suite_protocols = scored.spec.generation
    labels = [parse_protocol(text).label for text in suite_protocols]
    if not labels or protocol in labels:
        return ""
    return f"by {protocol}, theirs by {', '.join(labels)}"


def _rank(estimate: Estimate, cells: Sequence[PrintedValue]) -> str:
    """Return the rank of a run's number among the printed ones, as in `5 of 17 [3, 8]`.

    The brackets have the ranks of the ends of its interval. Without a number this is a dash.
    """
    if estimate.value is None:
        return DASH
    printed = [float(cell.value) for cell in cells if cell.value is not None]
    rank = f"{_rank_among(estimate.value, printed, cells[0])} of {len(printed) + 1}"
    if estimate.low is None or estimate.high is None:
        return rank
    end_ranks = [
        _rank_among(estimate.low, printed, cells[0]),
        _rank_among(estimate.high, printed, cells[0]),
    ]
    return f"{rank} [{min(end_ranks)}, {max(end_ranks)}]"


def _rank_among(value: float, printed: Sequence[float], cell: PrintedValue) -> int:
    """Return the rank that a value would have among printed values of a column.

    The value is rounded to the printed number of decimals, so that it shares the rank of an equal
    printed value.
    """
    rounded = round(value, cell.digits)
    ranks = competition_ranks([rounded, *printed], better_of(cell))
    return ranks[0]
