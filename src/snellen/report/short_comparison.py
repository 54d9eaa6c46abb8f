"""A comparison on one screen: one table, and what to do next. `--details` shows all other tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from snellen.analysis.headline import OVERALL
from snellen.analysis.paired.comparison import differences_of
from snellen.analysis.paired.differences import (
    Comparison,
    PairedDifference,
    corrected_estimate,
    gain,
    is_significant,
)
from snellen.callers import for_caller
from snellen.installation import LAB
from snellen.reasons import word_reason
from snellen.records import METHODS, Method
from snellen.report.headline_table import short_title
from snellen.report.number_text import number_or_dash
from snellen.report.paired_tables import (
    NO_DIFFERENCE,
    describe_family,
    mean_label,
    needed_questions_text,
)
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate

MAX_SHOWN_ROWS = 14
"""Rows of the table; the verdict, the notes and the advice have room besides."""


def short_table(comparison: Comparison) -> Table:
    """Return the differences of two runs by benchmark, or of several runs from the first overall."""
    if len(comparison.labels) == 2:
        return _table_of_two(comparison)
    return _table_of_many(comparison)


def _table_of_two(comparison: Comparison) -> Table:
    """Return a table of the differences between two runs, with a row for each benchmark that both have, and for their mean."""
    first, second = comparison.labels
    is_one_dimension = len({each.dimension for each in comparison.differences}) == 1
    single: list[PairedDifference] = []
    means: list[PairedDifference] = []
    for method in METHODS:
        for difference in differences_of(comparison, first, second, method, ""):
            if difference.scope == "benchmark":
                single.append(difference)
            elif difference.scope == "overall":
                means.append(difference)
            elif is_one_dimension and len(single) > 1:
                means.append(difference)  # the mean of the only dimension is the overall mean

    methods = {difference.method for difference in single}
    columns: list[Column[PairedDifference]] = [
        Column("benchmark", _subject, is_label=True),
        Column("metric", lambda row: _metric_text(row, methods), is_label=True),
        *_number_columns(first, second),
    ]
    notes = [_difference_note(comparison, f"{first} minus {second}")]
    n_hidden = len(single) - MAX_SHOWN_ROWS
    if n_hidden > 0:
        plural = "" if n_hidden == 1 else "s"
        notes.append(f"{n_hidden} more benchmark{plural}: {_all_tables()}.")
    notes += _exclusion_notes(comparison)
    return tabulate("Comparison", columns, [*single[:MAX_SHOWN_ROWS], *means], notes)


def _table_of_many(comparison: Comparison) -> Table:
    """Return a table of the differences between each run and the baseline, which is the first run unless another is named."""
    first = comparison.baseline or comparison.labels[0]
    differences: list[PairedDifference] = []
    for label in comparison.labels:
        if label == first:
            continue
        for method in METHODS:
            differences_of_pair = list(differences_of(comparison, label, first, method, ""))
            differences += _broadest_differences(differences_of_pair)

    columns: list[Column[PairedDifference]] = [
        Column("run", lambda row: row.first, is_label=True),
        Column("over", _subject, is_label=True),
        *_number_columns("its number", first),
    ]
    notes = [_difference_note(comparison, f"each run minus {first}")]
    n_hidden = len(differences) - MAX_SHOWN_ROWS
    if n_hidden > 0:
        plural = "" if n_hidden == 1 else "s"
        notes.append(f"{n_hidden} more row{plural}: {_all_tables()}.")
    notes += _exclusion_notes(comparison)
    return tabulate("Comparison", columns, differences[:MAX_SHOWN_ROWS], notes)


def _broadest_differences(differences: Sequence[PairedDifference]) -> list[PairedDifference]:
    """Select, of all differences between two runs, those that cover the most questions.

    Args:
        differences: The differences between the two runs over all benchmarks, in each ability dimension and on each
            benchmark. Some of these may be missing.

    Returns:
        The overall difference if there is one. Otherwise the difference in the ability dimension if there is only one
        dimension, or else the differences on single benchmarks.
    """
    by_scope: dict[str, list[PairedDifference]] = defaultdict(list)
    for difference in differences:
        by_scope[difference.scope].append(difference)
    if by_scope["overall"]:
        return by_scope["overall"]
    has_several_benchmarks = len(by_scope["benchmark"]) > 1
    if has_several_benchmarks and len(by_scope["dimension"]) == 1:
        return by_scope["dimension"]
    return by_scope["benchmark"]


def _subject(difference: PairedDifference) -> str:
    """Return the benchmark of a difference, or what a mean is over."""
    if difference.benchmark == OVERALL:
        return mean_label(difference)
    return difference.benchmark


def _metric_text(difference: PairedDifference, methods: set[Method]) -> str:
    """Return the metric of a difference as text: `accuracy`, or `accuracy by generation` if there are several methods."""
    metric = "" if difference.benchmark == OVERALL else short_title(difference.metric)
    if len(methods) > 1:
        return f"{metric} by {difference.method}".strip()
    return metric


def _number_columns(first_heading: str, second_heading: str) -> list[Column[PairedDifference]]:
    """Return the columns of both values and their difference."""
    return [
        Column(first_heading, lambda row: number_or_dash(row.first_value, row.unit)),
        Column(second_heading, lambda row: number_or_dash(row.second_value, row.unit)),
        Column("difference", _difference_cell),
        Column("sure?", significance_text),
    ]


def _difference_cell(difference: PairedDifference) -> Cell:
    """Return a cell with a difference and its interval, which is corrected for several comparisons.

    Without a difference the footnote of the cell says why there is none.
    """
    if difference.difference.value is None:
        return AbsentCell(word_reason(difference.reason))
    return NumberCell.of_difference(difference.unit, corrected_estimate(difference))


def significance_text(difference: PairedDifference) -> str:
    """Return whether a difference is significant, for the column `sure?`: `yes, A is better`, or `no`.

    If both runs gave the same replies, or if uncertain readings of replies could reverse the difference, the text says
    so.
    """
    if difference.same_replies:
        return "no, same replies"
    if difference.may_turn:
        return "no, uncertain readings"
    if not is_significant(difference):
        return "no"
    better = difference.first if gain(difference) > 0 else difference.second
    return f"yes, {better} is better"


def _difference_note(comparison: Comparison, minus: str) -> str:
    """Return the note that explains a column of differences."""
    corrected = ""
    if comparison.correction != "none":
        corrected = f", corrected for {describe_family(comparison)}"
    return f"Difference: {minus}, on the same questions, with its 95% interval{corrected}."


def _exclusion_notes(comparison: Comparison) -> list[str]:
    """Return notes on what a comparison leaves out: passes of a protocol, questions and benchmarks that only one run has."""
    n_left_out = 0
    for difference in comparison.differences:
        if difference.scope == "benchmark":
            n_left_out += difference.only_one_has_value

    notes: list[str] = []
    protocols: dict[str, None] = {}
    other_orders_by_pair: Counter[tuple[str, str]] = Counter()
    for difference in comparison.differences:
        if difference.second_protocol:
            protocols.update(dict.fromkeys((difference.protocol, difference.second_protocol)))
            other_orders_by_pair[difference.first, difference.second] += difference.other_orders
    if protocols:
        n_other_orders = max(other_orders_by_pair.values())
        which = "which is the same in both"
        if n_other_orders:
            up_to = "up to " if len(other_orders_by_pair) > 1 else ""
            noun = "question" if n_other_orders == 1 else "questions"
            which = f"which differs between the runs on {up_to}{n_other_orders:,} {noun}"
        notes.append(
            f"The runs used different protocols ({', '.join(protocols)}): accuracy is that of the first order of options, "
            f"{which}."
        )
    if n_left_out:
        notes.append(f"{n_left_out:,} questions have a value in only one run and are left out.")
    if comparison.partial:
        names = ", ".join(sorted(comparison.partial))
        notes.append(f"Left out, because not all runs have them: {names}.")
    return notes


def next_steps(comparison: Comparison) -> list[str]:
    """Return advice for the user after a comparison, as sentences: what would decide open differences, what to look at.

    Args:
        comparison: The comparison of two or more runs.
    """
    on_benchmarks: list[PairedDifference] = []
    undecided: list[PairedDifference] = []
    for difference in comparison.differences:
        if difference.scope != "benchmark":
            continue
        on_benchmarks.append(difference)
        is_open = not (is_significant(difference) or difference.may_turn or difference.same_replies)
        if is_open:
            undecided.append(difference)

    steps: list[str] = []
    if any(difference.may_turn for difference in comparison.differences):
        judge = for_caller("--judge MODEL", "judge=MODEL")
        steps.append(
            f"Uncertain readings of replies could reverse a difference: score with {judge}, or label some replies "
            f"(`snellen audit` of {LAB})."
        )
    if on_benchmarks and all(difference.same_replies for difference in on_benchmarks):
        steps.append(
            "The replies of the runs are identical: check that you compare different models or settings."
        )
    if undecided and len(comparison.labels) == 2:
        steps.append(f"Next: {_needed_questions_clause(undecided)}")

    flipped_questions = {(flip.benchmark, flip.sample_id, flip.turn) for flip in comparison.flips}
    n_flipped = len(flipped_questions)
    show_all = f"{_all_tables()} shows all tables."
    if n_flipped:
        noun_and_verb = "question differs" if n_flipped == 1 else "questions differ"
        file = for_caller("-o FILE.json lists them", "`flips` has them")
        steps.append(f"{n_flipped:,} {noun_and_verb}: {file}. {show_all}")
    else:
        steps.append(show_all)
    return steps


def _all_tables() -> str:
    """Return what shows all rows of a comparison."""
    return for_caller("--details", "table()")


def _needed_questions_clause(undecided: Sequence[PairedDifference]) -> str:
    """Return how many questions would detect each difference, as the end of a sentence.

    For example `questions needed to detect differences of this size: about 1,200 for mmstar.`
    """
    needs: list[str] = []
    without_difference: list[str] = []
    for difference in undecided:
        n_needed = needed_questions_text(difference)
        if n_needed == NO_DIFFERENCE:
            without_difference.append(difference.benchmark)
        elif difference.needed is not None:
            qualifier = "about " if n_needed[0].isdigit() else ""
            needs.append(f"{qualifier}{n_needed} for {difference.benchmark}")

    clauses: list[str] = []
    if needs:
        clauses.append(
            f"questions needed to detect differences of this size: {_list_first_three(needs)}"
        )
    if without_difference:
        clauses.append(f"{NO_DIFFERENCE} in {_list_first_three(without_difference)}")
    if not clauses:
        return "run more common questions."
    return f"{'; '.join(clauses)}."


def _list_first_three(texts: Sequence[str]) -> str:
    """Join texts by commas, cut after the third: `a, b, c ...`."""
    listed = ", ".join(texts[:3])
    return f"{listed} ..." if len(texts) > 3 else listed
