"""A comparison on one screen: a verdict, one table, what to do next. `--details` has all other tables."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.headline import ALL
from snellen.analysis.paired.comparison import differences_of
from snellen.analysis.paired.differences import (
    Comparison,
    PairedDifference,
    corrected_estimate,
    gain,
    is_shown,
)
from snellen.reasons import word_reason
from snellen.records import METHODS, Estimate, Method
from snellen.report.headline_table import short_title
from snellen.report.paired_tables import NO_DIFFERENCE, family_words, mean_label, needed_words
from snellen.report.table import (
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    unit_of_difference,
    value_text,
)

MOST_ROWS = 14
"""Rows of the table; the verdict, the notes and the advice have room besides."""


def short_table(comparison: Comparison) -> Table:
    """Return the differences of two runs by benchmark, or of several runs from the first overall."""
    if len(comparison.labels) == 2:
        return _table_of_two(comparison)
    return _table_of_many(comparison)


def _table_of_two(comparison: Comparison) -> Table:
    first, second = comparison.labels
    single: list[PairedDifference] = []
    overall: list[PairedDifference] = []
    for method in METHODS:
        for difference in differences_of(comparison, first, second, method, ""):
            if difference.scope == "benchmark":
                single.append(difference)
            elif difference.scope == "overall" or (
                len({each.dimension for each in comparison.differences}) == 1 and len(single) > 1
            ):
                overall.append(difference)

    hidden = max(0, len(single) - MOST_ROWS)
    methods = {difference.method for difference in single}
    rows = [_row(difference, methods) for difference in [*single[:MOST_ROWS], *overall]]
    notes = [_what_is_shown(comparison, f"{first} minus {second}")]
    if hidden:
        notes.append(f"{hidden} more benchmarks: --details.")
    notes += _uncompared(comparison)
    return Table(
        "Comparison",
        ("benchmark", "metric", first, second, "difference", "sure?"),
        tuple(rows),
        label_columns=2,
        notes=tuple(notes),
    )


def _row(difference: PairedDifference, methods: set[Method]) -> tuple[Cell, ...]:
    is_mean = difference.benchmark == ALL
    name = mean_label(difference) if is_mean else difference.benchmark
    metric = "" if is_mean else short_title(difference.metric)
    if len(methods) > 1:
        metric = f"{metric} by {difference.method}".strip()
    return (
        name,
        metric,
        _value(difference.first_value, difference),
        _value(difference.second_value, difference),
        _difference_cell(difference),
        sureness(difference),
    )


def _value(value: float | None, difference: PairedDifference) -> str:
    return value_text(Estimate(value, None, None, None, 0), difference.unit)


def _difference_cell(difference: PairedDifference) -> Cell:
    if difference.difference.value is None:
        return AbsentCell(word_reason(difference.reason))
    return NumberCell(unit_of_difference(difference.unit), corrected_estimate(difference))


def sureness(difference: PairedDifference) -> str:
    """Return which run is better, if that is shown."""
    if difference.may_turn:
        return "no, unsure readings"
    if not is_shown(difference):
        return "no"
    return f"yes, {difference.first if gain(difference) > 0 else difference.second} is better"


def _table_of_many(comparison: Comparison) -> Table:
    """Return a row for each pair with the first run, or with the baseline."""
    first = comparison.baseline or comparison.labels[0]
    rows: list[tuple[Cell, ...]] = []
    for label in comparison.labels:
        if label == first:
            continue
        for method in METHODS:
            of_pair = list(differences_of(comparison, label, first, method, ""))
            rows += [_pair_row(difference) for difference in _widest(of_pair)]
    hidden = max(0, len(rows) - MOST_ROWS)
    notes = [_what_is_shown(comparison, f"each run minus {first}")]
    if hidden:
        notes.append(f"{hidden} more rows: --details.")
    notes += _uncompared(comparison)
    return Table(
        "Comparison",
        ("run", "over", "its number", first, "difference", "sure?"),
        tuple(rows[:MOST_ROWS]),
        label_columns=2,
        notes=tuple(notes),
    )


def _widest(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Return the overall difference; without one those of the benchmarks."""
    overall = [each for each in differences if each.scope == "overall"]
    single = [each for each in differences if each.scope == "benchmark"]
    dimensions = [each for each in differences if each.scope == "dimension"]
    if not overall and len(single) > 1 and len(dimensions) == 1:
        return dimensions
    return overall or single


def _pair_row(difference: PairedDifference) -> tuple[Cell, ...]:
    is_mean = difference.benchmark == ALL
    return (
        difference.first,
        mean_label(difference) if is_mean else difference.benchmark,
        _value(difference.first_value, difference),
        _value(difference.second_value, difference),
        _difference_cell(difference),
        sureness(difference),
    )


def _what_is_shown(comparison: Comparison, minus: str) -> str:
    corrected = (
        "" if comparison.correction == "none" else f", corrected for {family_words(comparison)}"
    )
    return f"Difference: {minus}, on the same questions, with its 95% interval{corrected}."


def _uncompared(comparison: Comparison) -> list[str]:
    """Return what is left out: questions and benchmarks that one run alone has."""
    notes: list[str] = []
    left_out = sum(
        difference.only_one_has_value
        for difference in comparison.differences
        if difference.scope == "benchmark"
    )
    if left_out:
        notes.append(f"{left_out:,} questions have a value in one run alone and are left out.")
    if comparison.partial:
        notes.append(f"Not in all runs, and left out: {', '.join(sorted(comparison.partial))}.")
    return notes


def next_steps(comparison: Comparison) -> list[str]:
    """Return what to do next, in one or two sentences."""
    steps: list[str] = []
    single = [each for each in comparison.differences if each.scope == "benchmark"]
    if any(each.may_turn for each in comparison.differences):
        steps.append(
            "Unsure readings of replies could turn a difference: score with --judge MODEL, or label some replies "
            "(snellen audit)."
        )
    undecided = [each for each in single if not is_shown(each) and not each.may_turn]
    if undecided and len(comparison.labels) == 2:
        steps.append(f"Next: {_what_would_decide(undecided)}")
    flipped = len({(flip.benchmark, flip.sample_id, flip.turn) for flip in comparison.flips})
    if flipped:
        noun = "question differs" if flipped == 1 else "questions differ"
        steps.append(f"{flipped:,} {noun}: -o FILE.json lists them. --details has all tables.")
    else:
        steps.append("--details has all tables.")
    return steps


def _what_would_decide(undecided: Sequence[PairedDifference]) -> str:
    """Return how many questions would show a difference of the observed size."""
    needs: list[str] = []
    hopeless: list[str] = []
    for difference in undecided:
        words = needed_words(difference)
        if words == NO_DIFFERENCE:
            hopeless.append(difference.benchmark)
        elif difference.needed is not None:
            needs.append(f"{difference.needed:,} for {difference.benchmark}")
    parts: list[str] = []
    if needs:
        listed = ", ".join(needs[:3]) + (" ..." if len(needs) > 3 else "")
        parts.append(f"differences of this size would show with about so many questions: {listed}")
    if hopeless:
        listed = ", ".join(hopeless[:3]) + (" ..." if len(hopeless) > 3 else "")
        parts.append(f"{NO_DIFFERENCE} in {listed}")
    return "; ".join(parts) + "." if parts else "ask the runs more questions in common."
