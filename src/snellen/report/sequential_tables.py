"""Runs that a rule stopped: their estimates for whole benchmarks, and how much they did not ask."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.sequential.decision import SequentialDifference
from snellen.analysis.sequential.estimates import SequentialEstimate, sequential_estimates
from snellen.building.benchmark import RandomPart
from snellen.records import Estimate
from snellen.report.formatting import metric_title, percent
from snellen.report.run_view import RunView
from snellen.report.table import Cell, NumberCell, Table

INTERVAL_NOTE = (
    "The interval is anytime-valid: it holds the value of the whole benchmark with probability 95 %, whenever one looks"
    " and stops (a confidence sequence by betting, Waudby-Smith and Ramdas 2023, over pictures without replacement)."
)
PART_NOTE = (
    "Numbers are over a random part of the pictures. Other intervals of this run are for a number of pictures that is "
    "fixed beforehand: too narrow for one that a rule stopped."
)
GOES_ON = "`snellen run` with the same words but the rule goes on to the whole benchmark; nothing is asked twice."
DECISION_NOTE = (
    "Verdicts are about the questions of the benchmark, each wrong with probability 5 % at most; asked to its end, a"
    " benchmark has one value. What its questions tell of others, `snellen compare RUN RUN` says."
)


def sequential_tables(views: Sequence[RunView]) -> list[Table]:
    """One table of all runs that were asked in a random order until a rule stopped them; none without such a run."""
    rows = [_row(view.label, estimate) for view in views for estimate in sequential_estimates(view.run)]
    if not rows:
        return []
    header = ("run", "benchmark", "protocol", "metric", "value", "stopped by", *_PART_HEADER)
    notes = (INTERVAL_NOTE, PART_NOTE, GOES_ON)
    return [Table("Stopped by a rule", header, tuple(rows), label_columns=4, notes=notes)]


_PART_HEADER = ("pictures", "questions", "not asked")


def _row(label: str, estimate: SequentialEstimate) -> tuple[Cell, ...]:
    cell = NumberCell(estimate.unit, Estimate(estimate.value, None, estimate.low, estimate.high, estimate.n))
    return (
        label,
        estimate.benchmark,
        estimate.protocol,
        metric_title(estimate.metric),
        cell,
        estimate.part.rule,
        *_part(estimate.part, estimate.asked),
    )


def _part(part: RandomPart, n_asked: int) -> tuple[Cell, ...]:
    saved = 1 - n_asked / part.questions if part.questions else 0.0
    return f"{part.pictures:,} of {part.of:,}", f"{n_asked:,} of {part.questions:,}", percent(saved)


def decision_table(differences: Sequence[SequentialDifference]) -> Table:
    """Two models asked the same pictures in a random order until it was decided which is better."""
    rows: list[tuple[Cell, ...]] = []
    for difference in differences:
        cell = NumberCell(
            difference.unit, Estimate(difference.value, None, difference.low, difference.high, difference.n)
        )
        better = {"first": f"{difference.first} is better", "second": f"{difference.second} is better"}
        verdict = better.get(difference.verdict, difference.verdict)
        labels = difference.benchmark, difference.protocol, metric_title(difference.metric)
        rows.append((*labels, cell, verdict, *_part(difference.part, difference.asked)))
    header = ("benchmark", "protocol", "metric", "difference", "verdict", *_PART_HEADER)
    names = f"{differences[0].first} minus {differences[0].second}" if differences else ""
    notes = (f"Difference: {names}.", INTERVAL_NOTE, DECISION_NOTE, GOES_ON)
    return Table("Compared until decided", header, tuple(rows), label_columns=3, notes=notes)
