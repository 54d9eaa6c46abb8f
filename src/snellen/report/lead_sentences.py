"""Sentences about several models: which is better than which, by how much, and in which dimensions.

All differences are of one model, the leader, from each other one: the model with the best headline, or the baseline if
the user chose one. A difference is significant if `is_significant` says so: its corrected p-value is below 5%, and uncertain
readings of replies could not reverse it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from snellen.analysis.paired.comparison import (
    ComparedRuns,
    compare_runs,
    correct_for_all_pairs,
    differences_of,
    overall_difference,
)
from snellen.analysis.paired.differences import PairedDifference, gain, is_significant
from snellen.metrics.declaration import SHARE
from snellen.records import METHODS, Method
from snellen.report.model_numbers import ModelNumbers
from snellen.report.number_text import dimension_title, metric_title
from snellen.report.reported_runs import describe_average
from snellen.report.sentence_parts import (
    difference_range,
    difference_text,
    name_list,
    review_advice,
)

Differences = Mapping[Method, Sequence[PairedDifference]]
"""Differences of the leader from each other model, by method."""


# --- which differences the sentences are about -----------------------------------------------------------------------


def leading_differences(
    compared: ComparedRuns, numbers: Sequence[ModelNumbers]
) -> dict[Method, Sequence[PairedDifference]]:
    """Return, for each method with several models, the differences between the best model and each other model.

    Args:
        compared: The comparison of the runs.
        numbers: The numbers of each model by each method (generation or likelihood).

    Raises:
        DataError: The runs used different builds of a benchmark.
    """
    differences: dict[Method, Sequence[PairedDifference]] = {}
    for method in METHODS:
        models = [model for model in numbers if model.method == method]
        if len(models) > 1:
            differences[method] = _leader_differences(compared, models, method)
    return differences


def _leader_differences(
    compared: ComparedRuns, models: Sequence[ModelNumbers], method: Method
) -> list[PairedDifference]:
    """Return the differences between the best model and each other model.

    They are the overall difference and those on single benchmarks. If there are only two models, those in ability
    dimensions are included.

    Args:
        compared: The comparison of the runs. It may name the baseline, which then takes the place of the best model.
        models: The numbers of the models.
        method: Generation or likelihood.
    """
    names = [model.name for model in models]
    leader = compared.headline.baseline
    if leader not in names:
        leader = max(models, key=lambda model: model.comparable_value).name
    others = [name for name in names if name != leader]

    differences: list[PairedDifference] = []
    for other in others:
        differences_of_pair = list(differences_of(compared.headline, leader, other, method, ""))
        overall = overall_difference(differences_of_pair)
        if overall is not None:
            differences.append(overall)
        for difference in differences_of_pair:
            is_of_two_by_dimension = difference.scope == "dimension" and len(others) == 1
            if difference.scope == "benchmark" or is_of_two_by_dimension:
                differences.append(difference)
    return differences


def order_differences(
    compared: ComparedRuns, first: str, second: str
) -> tuple[PairedDifference, ...]:
    """Return by how much two models differ in circular accuracy and in circular drop, over all common benchmarks.

    The circular drop is the accuracy minus the circular accuracy: what a model loses if a question counts only when all
    orders of its options are answered correctly.

    Returns:
        Both differences, or nothing if the models were not run with all orders.

    Raises:
        DataError: The runs used different builds of a benchmark.
    """
    accuracy_difference = overall_difference(
        differences_of(compared.circular, first, second, method="generation", metric="")
    )
    if accuracy_difference is None:
        return ()

    both_runs = []
    for run, label in zip(compared.runs, compared.headline.labels, strict=True):
        if label in (first, second):
            both_runs.append(run)
    drop_comparison = compare_runs(
        both_runs, metrics=("circular_drop",), resamples=0, with_flips=False
    )
    drop_difference = overall_difference(
        differences_of(drop_comparison, first, second, method="generation", metric="")
    )
    if drop_difference is None:
        return ()
    # Only these two runs were compared here, so the p-value is corrected for all runs of the report.
    return accuracy_difference, correct_for_all_pairs(drop_difference, compared.headline)


class _Outcomes(NamedTuple):
    """Differences of the leader by what they show."""

    better: list[PairedDifference]
    """The leader is significantly better."""
    worse: list[PairedDifference]
    """The leader is significantly worse."""
    undecided: list[PairedDifference]


def _split_by_outcome(differences: Iterable[PairedDifference]) -> _Outcomes:
    """Sort differences into better, worse, and undecided (whose interval includes 0)."""
    outcomes = _Outcomes([], [], [])
    for difference in differences:
        if not is_significant(difference):
            outcomes.undecided.append(difference)
        elif gain(difference) > 0:
            outcomes.better.append(difference)
        else:
            outcomes.worse.append(difference)
    return outcomes


def smallest_lead(differences: Sequence[PairedDifference]) -> PairedDifference | None:
    """Return the smallest significant lead over all benchmarks; None if there is none."""
    overall = [difference for difference in differences if difference.scope == "overall"]
    return min(_split_by_outcome(overall).better, key=gain, default=None)


# --- overall ---------------------------------------------------------------------------------------------------------


def standings(
    differences: Differences, models: Sequence[ModelNumbers], family: str
) -> Iterator[str]:
    """Yield a sentence for each method that says which models are better than which, or too close to call.

    Args:
        differences: By method, the differences between the best model and each other model.
        models: The numbers of the models by their first method.
        family: What the intervals are corrected for, such as `all pairs`.
    """
    for method, differences_by_method in differences.items():
        overall: list[PairedDifference] = []
        by_benchmark: list[PairedDifference] = []
        for difference in differences_by_method:
            if difference.scope == "overall":
                overall.append(difference)
            elif difference.scope == "benchmark":
                by_benchmark.append(difference)

        opening = f"By {method}, " if len(differences) > 1 else ""
        if overall:
            scope = _benchmark_scope(by_benchmark, models)
            yield f"{opening}{_overall_standing(overall, family, scope)}."
        elif by_benchmark:
            yield f"{opening}{_standing_by_benchmark(by_benchmark, models)}."


def _benchmark_scope(
    differences: Sequence[PairedDifference], models: Sequence[ModelNumbers]
) -> str:
    """Return which benchmarks an overall difference is over, such as ` on average over 3 benchmarks`.

    Args:
        differences: The differences on single benchmarks.
        models: The numbers of the models.

    Returns:
        The text with a leading space; empty for a single benchmark.
    """
    compared: set[str] = set()
    for difference in differences:
        if difference.difference.value is not None:
            compared.add(difference.benchmark)
    n_most = max((model.benchmarks for model in models), default=0)
    if compared and len(compared) < n_most:
        return f" on the {len(compared)} compared benchmarks of {n_most}"
    if len(compared) > 1:
        units = {model.over for model in models}
        averaged_over = units.pop() if len(units) == 1 else ""
        return f" {describe_average(len(compared), averaged_over)}"
    return ""


def _overall_standing(differences: Sequence[PairedDifference], family: str, scope: str = "") -> str:
    """Return how the leader compares with each other model, without a full stop.

    Args:
        differences: Overall differences of the leader, one for each other model.
        family: What they are corrected for.
        scope: What they are over, as `_benchmark_scope` returns it.
    """
    leader = differences[0].first
    n_others = len(differences)
    better, worse, undecided = _split_by_outcome(differences)
    same: list[PairedDifference] = []
    reversible: list[PairedDifference] = []
    level: list[PairedDifference] = []
    for difference in undecided:
        if difference.same_replies:
            same.append(difference)
        elif difference.may_turn:
            reversible.append(difference)
        else:
            level.append(difference)

    clauses: list[str] = []
    nearest = smallest_lead(differences)
    if nearest is not None:
        lead = difference_text(nearest, family, scope)
        if len(better) == 1:
            clauses.append(f"{leader} is better than {nearest.second} by {lead}")
        elif len(better) == n_others:
            clauses.append(
                f"{leader} is the best of {n_others + 1} models, ahead of {nearest.second} by {lead}"
            )
        else:
            clauses.append(
                f"{leader} is better than {len(better)} of the {n_others} other models, ahead of the nearest, "
                f"{nearest.second}, by {lead}"
            )
    if same:
        names = name_list([difference.second for difference in same])
        clauses.append(f"{leader} and {names} gave the same reply to every common question")
    if level:
        subject = "it" if clauses else leader
        names = name_list([difference.second for difference in level])
        bounds = ""
        if n_others == 1:
            bounds = f": {_bounds_text(level[0], family, scope)}"
        clauses.append(f"{subject} is not significantly different from {names}{bounds}")
    for difference in worse:
        lead = difference_text(difference, family, scope)
        clauses.append(f"{difference.second} is better than {leader} by {lead}")
    if reversible:
        names = name_list([difference.second for difference in reversible])
        clauses.append(
            f"{leader} and {names} cannot be ranked, because uncertain readings of their replies could reverse the "
            f"difference ({review_advice()})"
        )
    return "; ".join(clauses)


def _bounds_text(difference: PairedDifference, family: str, scope: str) -> str:
    """Return a clause on an undecided difference: `the difference is between -1.2 and 3.4 points of accuracy (...)`.

    Args:
        difference: The difference.
        family: What its interval is corrected for, such as `all pairs`.
        scope: What it is over, such as ` on average over 3 benchmarks`.
    """
    if difference.difference.low is None:
        n_common = difference.difference.n
        return f"the {n_common:,} common questions have too few images for an interval"
    return f"the difference is between {difference_text(difference, family, scope, ' and ')}"


def _standing_by_benchmark(
    differences: Sequence[PairedDifference], models: Sequence[ModelNumbers]
) -> str:
    """Say on how many benchmarks the best model is better than each other model, for benchmarks without a common scale.

    Args:
        differences: The differences between the best model and the others on single benchmarks.
        models: The numbers of the models.
    """
    leader = differences[0].first
    differences_by_model: dict[str, list[PairedDifference]] = defaultdict(list)
    for difference in differences:
        differences_by_model[difference.second].append(difference)

    clauses: list[str] = []
    for other, from_leader in differences_by_model.items():
        better, worse, _ = _split_by_outcome(from_leader)
        clauses.append(
            f"{leader} is significantly better than {other} on {len(better)} of {len(from_leader)} benchmarks and "
            f"significantly worse on {len(worse)}"
        )
    metrics = "their metrics"
    for model in models:
        if model.unaveraged_metrics:
            metrics = model.unaveraged_metrics
            break
    return f"{metrics} have no common scale, so models are compared on each benchmark: {'; '.join(clauses)}"


# --- in all orders, and by dimension ---------------------------------------------------------------------------------


def order_sentence(differences: Sequence[PairedDifference]) -> str:
    """Return the lead in circular accuracy, and whether it is larger or smaller than that of first replies.

    Args:
        differences: What `order_differences` returns.

    Returns:
        The sentence; empty if one of the differences is not significant, or if the leader is worse.
    """
    if len(differences) < 2:
        return ""
    circular, drop = differences
    if not is_significant(circular) or not is_significant(drop) or gain(circular) < 0:
        return ""
    change = difference_range(drop)
    if gain(drop) > 0:
        comparison = (
            f", {change} more than by first replies, because the replies of {drop.second} depend more on the "
            "order."
        )
    else:
        comparison = (
            f"; the rest of its lead, {change}, comes from replies that change with the order."
        )
    return (
        f"If only questions answered correctly in every option order count, {circular.first} leads "
        f"{circular.second} by {difference_range(circular)}{comparison}"
    )


def dimension_lead(differences: Sequence[PairedDifference]) -> str:
    """Return a sentence that says in how many ability dimensions the better one of two models leads, and where most.

    A dimension counts if the model is significantly better in each of its metrics.

    Args:
        differences: The differences between the two models, better one first, at least those of dimensions.

    Returns:
        The sentence; empty if it leads in no dimension, or if there is only one.
    """
    by_dimension = [difference for difference in differences if difference.scope == "dimension"]
    better, worse, undecided = _split_by_outcome(by_dimension)
    shares = [difference for difference in better if difference.unit == SHARE]
    if len(by_dimension) < 2 or not shares:
        return ""

    # A dimension counts if the leader is better by each of its metrics.
    n_dimensions = len({difference.dimension for difference in by_dimension})
    others = {difference.dimension for difference in (*worse, *undecided)}
    n_better = len({difference.dimension for difference in better} - others)
    if n_better < n_dimensions:
        count = f"{n_better} of {n_dimensions}"
    elif n_dimensions > 2:
        count = f"all {n_dimensions}"
    else:
        count = "both"

    widest = max(shares, key=gain)
    lead = f"{difference_range(widest)} of {metric_title(widest.metric)}"
    where = f"{dimension_title(widest.dimension)} ({lead})"
    reverse = ""
    if worse:
        titles = [dimension_title(difference.dimension) for difference in worse]
        reverse = f", and worse in {name_list(titles)}"
    return f"{widest.first} is significantly better in {count} dimensions, with the largest lead in {where}{reverse}."
