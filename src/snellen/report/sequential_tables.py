"""Tables of adaptive runs: runs that a rule stopped, and two models compared until one is better.

An adaptive run evaluates the images of a benchmark in a random order. Its part is the images evaluated so far, and its
rule says when they are enough, for example when the interval is narrower than two points.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from snellen.analysis.sequential import (
    SequentialDifference,
    SequentialEstimate,
    sequential_estimates,
)
from snellen.callers import for_caller
from snellen.records import Estimate
from snellen.report.number_text import metric_title, percent_text, unit_of_difference
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import Column, NumberCell, Table, tabulate

INTERVAL_NOTE = (
    "The interval is anytime-valid: it contains the value of the whole benchmark with 95% probability, whenever "
    "the run is stopped (a confidence sequence by betting, Waudby-Smith and Ramdas 2023, over images without "
    "replacement)."
)
PART_NOTE = (
    "Scores are over a random subset of the images. The other intervals of this run assume a fixed number of "
    "images and are too narrow for a run that a rule stopped."
)
DECISION_NOTE = (
    "Verdicts refer to the questions of the benchmark, and each is wrong with a probability of at most 5%. To "
    "generalise beyond these questions, use `snellen compare RUN RUN`."
)


def _resume_note() -> str:
    """Return the note on how to ask the remaining questions of a benchmark that a rule stopped."""
    call = for_caller("`snellen run` command", "call")
    return (
        f"To run the whole benchmark, repeat the {call} without the rule; no request is sent twice."
    )


class _StoppedRow(Struct, frozen=True):
    """An estimate of an adaptive run, and the label of the run."""

    run: str
    estimate: SequentialEstimate


def sequential_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of adaptive runs, which evaluated images in random order until a rule stopped them.

    Returns:
        One table; none if no run is adaptive.
    """
    rows: list[_StoppedRow] = []
    for reported_run in reported_runs:
        for estimate in sequential_estimates(reported_run.run):
            rows.append(_StoppedRow(reported_run.label, estimate))
    if not rows:
        return []
    columns: list[Column[_StoppedRow]] = [
        Column("run", lambda row: row.run, is_label=True),
        Column("benchmark", lambda row: row.estimate.benchmark, is_label=True),
        Column("protocol", lambda row: row.estimate.protocol, is_label=True),
        Column("metric", lambda row: metric_title(row.estimate.metric), is_label=True),
        Column("value", lambda row: _interval_cell(row.estimate, row.estimate.unit)),
        Column("stopped by", lambda row: _rule_text(row.estimate)),
        Column("images", lambda row: _images_text(row.estimate)),
        Column("questions", lambda row: _questions_text(row.estimate)),
        Column("not asked", lambda row: percent_text(row.estimate.saved)),
    ]
    notes = [INTERVAL_NOTE, PART_NOTE, _resume_note()]
    return [tabulate("Stopped by a rule", columns, rows, notes)]


def decision_table(differences: Sequence[SequentialDifference]) -> Table:
    """Return a table of the differences between two models that were compared on more and more images until it was clear
    which one is better."""
    columns: list[Column[SequentialDifference]] = [
        Column("benchmark", lambda row: row.benchmark, is_label=True),
        Column("protocol", lambda row: row.protocol, is_label=True),
        Column("metric", lambda row: metric_title(row.metric), is_label=True),
        Column("difference", lambda row: _interval_cell(row, unit_of_difference(row.unit))),
        Column("verdict", _verdict_text),
        Column("images", _images_text),
        Column("questions", _questions_text),
        Column("not asked", lambda row: percent_text(row.saved)),
    ]
    names = f"{differences[0].first} minus {differences[0].second}" if differences else ""
    notes = [f"Difference: {names}.", INTERVAL_NOTE, DECISION_NOTE, _resume_note()]
    return tabulate("Compared until decided", columns, differences, notes)


def _interval_cell(estimate: SequentialEstimate, unit: str) -> NumberCell:
    """Return the value with its anytime-valid interval."""
    value = Estimate(
        value=estimate.value, stderr=None, low=estimate.low, high=estimate.high, n=estimate.n
    )
    return NumberCell(unit, value)


def _rule_text(estimate: SequentialEstimate) -> str:
    """Return the rule of a run, such as `±2`, and whether it is still to be met."""
    return f"{estimate.part.rule} (not yet)" if estimate.is_open else estimate.part.rule


def _images_text(estimate: SequentialEstimate) -> str:
    """Return how many images were evaluated: `40 of 1,200`."""
    return f"{estimate.part.images:,} of {estimate.part.total_images:,}"


def _questions_text(estimate: SequentialEstimate) -> str:
    """Return how many questions were evaluated: `80 of 2,400`."""
    return f"{estimate.questions:,} of {estimate.part.questions:,}"


def _verdict_text(difference: SequentialDifference) -> str:
    """Return which model is better, or another verdict as it is: `equal`, `equivalent` or `open`."""
    if difference.verdict == "first":
        return f"{difference.first} is better"
    if difference.verdict == "second":
        return f"{difference.second} is better"
    return difference.verdict
