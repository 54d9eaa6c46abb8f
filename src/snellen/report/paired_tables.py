"""Tables of a comparison: paired differences, ranks with intervals, how many questions flipped.

Runs that a rule stopped: their estimates for whole benchmarks, and how much they did not ask.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from snellen.analysis.coverage import few_names
from snellen.analysis.headline import ALL
from snellen.analysis.paired.comparison import ComparedRuns, compare_runs
from snellen.analysis.paired.differences import (
    Comparison,
    PairedDifference,
    QuestionFlip,
    RankInterval,
    corrected_estimate,
    seen_from,
)
from snellen.analysis.sequential import (
    SequentialDifference,
    SequentialEstimate,
    sequential_estimates,
)
from snellen.building.benchmark import RandomPart
from snellen.errors import DataError, MissingExtraError, SnellenError
from snellen.metrics.declaration import SHARE
from snellen.reasons import word_reason
from snellen.records import Estimate
from snellen.report.run_view import RunView, is_of_first_alone
from snellen.report.table import (
    DASH,
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    decimal_text,
    dimension_title,
    metric_title,
    percent,
    unit_of_difference,
    value_text,
)
from snellen.scoring.scored_run import ScoredRun

CORRECTIONS = {"holm": "by Holm", "bh": "by Benjamini and Hochberg"}
Comparisons = Mapping[str, ComparedRuns | SnellenError]
"""Of the runs of each convention, or why there is none."""


def comparison_tables(comparison: Comparison, first: str = "") -> list[Table]:
    """Differences by benchmark, means of them, and ranks of more than two runs. Of all pairs that were compared, or of
    the run `first` with each other one, which then are corrected for all pairs nevertheless."""
    shown = [
        seen_from(difference, first) if first else difference
        for difference in comparison.differences
        if first in ("", difference.first, difference.second)
    ]
    single = [difference for difference in shown if difference.scope == "benchmark"]
    means = [mean_difference for mean_difference in shown if mean_difference.scope != "benchmark"]
    tables = [_benchmark_table(single, comparison)]
    if means:
        tables.append(_mean_table(means))
    if comparison.ranks and len(comparison.labels) > 2:
        tables.append(_ranks(comparison))
    return tables


def tables_of(comparison: Comparison, first: str = "") -> list[Table]:
    """Differences in headlines and in circular accuracy, which is not a benchmark's headline, as in
    `comparison_tables`; none where runs have nothing in common."""
    both = (comparison, comparison.in_circular)
    return [table for each in both if each.differences for table in comparison_tables(each, first)]


def compare_views(views: Sequence[RunView]) -> Comparisons:
    """The runs of a report that were scored by the same rules, compared, by their convention."""
    runs: dict[str, list[ScoredRun]] = defaultdict(list)
    for view in views:
        runs[view.run.convention].append(view.run)
    return {convention: _compare(alike) for convention, alike in runs.items() if len(alike) > 1}


def standard_comparison(comparisons: Comparisons) -> ComparedRuns | None:
    """That of the runs which sentences are about, where there is one."""
    compared = comparisons.get("standard")
    return compared if isinstance(compared, ComparedRuns) else None


def _compare(runs: Sequence[ScoredRun]) -> ComparedRuns | SnellenError:
    try:
        return ComparedRuns(runs, compare_runs(runs, with_flips=False))
    except (DataError, MissingExtraError) as error:
        return error


def paired_tables(views: Sequence[RunView], comparisons: Comparisons) -> list[Table]:
    """Each run of a report beside the first scored by the same rules, and ranks; none where runs have nothing in
    common."""
    is_mixed = len({view.run.convention for view in views}) > 1
    return [
        replace(table, title=f"{table.title}, {convention}") if is_mixed else table
        for convention, compared in comparisons.items()
        for table in _report_tables(compared)
    ]


def _report_tables(compared: ComparedRuns | SnellenError) -> list[Table]:
    if isinstance(compared, SnellenError):
        return [Table("Paired differences", ("runs",), (), notes=(f"Not compared: {compared}",))]
    return tables_of(compared.in_both, compared.headline.labels[0])


def _benchmark_table(differences: Sequence[PairedDifference], comparison: Comparison) -> Table:
    metrics = [_metric_words(difference) for difference in differences]
    places = [difference.benchmark for difference in differences]
    more = {
        "only first better": [_count(difference.only_first) for difference in differences],
        "only second better": [_count(difference.only_second) for difference in differences],
        "needed": [needed_words(difference) for difference in differences],
    }
    notes = [
        "Differences are taken question by question, over those that both have a value for, so what is hard for all "
        "cancels out; intervals and p-values go by picture.",
    ]
    if left_out := sum(difference.only_one_has_value for difference in differences):
        notes.append(
            f"{left_out:,} questions have a value in only one of two runs, and are left out."
        )
    notes += [
        f"{name}: only in {', '.join(holders)}." for name, holders in comparison.partial.items()
    ]
    return _table("benchmark", places, metrics, differences, more, "", notes, _hints(comparison))


def _mean_table(means: Sequence[PairedDifference]) -> Table:
    alike = "Benchmarks of one scale count equally, or questions where the suites say so; columns are as above."
    titles = ["shares" if mean.metric == SHARE else metric_title(mean.metric) for mean in means]
    metrics = [f"{title} by {mean.method}" for title, mean in zip(titles, means, strict=True)]
    places = [_dimension(mean.dimension) for mean in means]
    return _table("dimension", places, metrics, means, {}, ", means over benchmarks", (alike,), {})


def _table(
    place: str,
    places: Sequence[str],
    metrics: Sequence[str],
    differences: Sequence[PairedDifference],
    more: Mapping[str, Sequence[Cell]],
    means: str,
    notes: Sequence[str],
    hints: Mapping[str, str],
) -> Table:
    """A row for each difference. What all rows have in common, metric or models, stands in the title."""
    pairs = [f"{difference.first} - {difference.second}" for difference in differences]
    columns: dict[str, Sequence[Cell]] = {place: places, "metric": metrics, "models": pairs}
    title = "Paired differences"
    if len(set(metrics)) == 1:
        title += f" of {metrics[0]}"
        del columns["metric"]
    title += means
    if len(set(pairs)) == 1:
        title += f": {differences[0].first} minus {differences[0].second}"
        del columns["models"]
    label_columns = len(columns)
    columns |= {
        "first": [_value(difference, difference.first_value) for difference in differences],
        "second": [_value(difference, difference.second_value) for difference in differences],
        "difference": [_difference(difference) for difference in differences],
        "p corrected": [_p(difference.p_adjusted) for difference in differences],
        "p alone": [_p(difference.p) for difference in differences],
        **more,
    }
    hints = {name: hint for name, hint in hints.items() if name in columns}
    rows = tuple(zip(*columns.values(), strict=True))
    return Table(
        title, tuple(columns), rows, label_columns=label_columns, notes=tuple(notes), hints=hints
    )


def _metric_words(difference: PairedDifference | QuestionFlip) -> str:
    """`accuracy under circular (first order alone)`: not to be taken for circular accuracy."""
    words = f"{metric_title(difference.metric)} under {difference.protocol}"
    return (
        f"{words} (first order alone)"
        if is_of_first_alone(difference.metric, difference.protocol)
        else words
    )


def _hints(comparison: Comparison) -> dict[str, str]:
    return {
        "first": "the first model's value on the common questions",
        "second": "the second model's",
        "difference": "first minus second, so below 0 where the second is higher; its 95% interval is corrected as the "
        "p beside it is, and excludes 0 where that is below 0.05",
        "p corrected": _correction(comparison),
        "p alone": "as if this comparison were the only one, by sign-flip test (for single right or wrong answers "
        "McNemar's) and interval, the larger",
        "only first better": "questions on which the first model did better",
        "only second better": "questions on which the second model did better",
        "needed": "questions that would show a difference of this size at the 5% level four times in five",
    }


def _correction(comparison: Comparison) -> str:
    """How p-values are corrected and for what."""
    if comparison.correction == "none":
        return "not corrected for their number"
    pairs = (
        f"{family_words(comparison)}, by kind"
        if len(comparison.labels) > 2
        else "the comparisons of their kind"
    )
    methods = {difference.method for difference in comparison.differences}
    kinds = f"benchmarks, dimensions, overall{'; by each method apart' if len(methods) > 1 else ''}"
    is_mixed = (
        0 < len(comparison.instruments) < len(comparison.labels) and len(comparison.labels) > 2
    )
    apart = f"; pairs with {few_names(comparison.instruments)}, no models but instruments, are corrected apart"
    return f"corrected {CORRECTIONS[comparison.correction]} for {pairs} ({kinds}){apart if is_mixed else ''}"


def family_words(comparison: Comparison) -> str:
    """The differences that are corrected together: `all pairs`, `all pairs with A`, of two runs `all comparisons`."""
    if len(comparison.labels) < 3:
        return "all comparisons"
    return f"all pairs with {comparison.baseline}" if comparison.baseline else "all pairs"


def flips_line(comparison: Comparison) -> str:
    """How many questions the comparison lists, and by what they differ."""
    count = len({(flip.benchmark, flip.sample_id, flip.turn) for flip in comparison.flips})
    metrics = {_metric_words(flip) for flip in comparison.flips}
    where = f"in {metrics.pop()}" if len(metrics) == 1 else "in what is compared"
    return f"{count:,} {'question differs' if count == 1 else 'questions differ'} {where}; -o FILE.json lists them."


def mean_label(difference: PairedDifference) -> str:
    """Return what a mean over benchmarks is called in a row of its own."""
    if difference.dimension == ALL:
        return "mean of all"
    return f"mean of {dimension_title(difference.dimension)}"


NO_DIFFERENCE = "no difference in sight"
FARTHEST = 20
"""More times the questions that there are is no useful advice."""


def needed_words(difference: PairedDifference) -> str:
    """Return how many questions would show a difference of the observed size, or that none is in sight."""
    questions = difference.difference.n
    if difference.difference.value is None or not questions:
        return DASH
    if not difference.difference.stderr and difference.difference.value:
        return DASH
    if difference.needed is None or difference.needed > FARTHEST * questions:
        return NO_DIFFERENCE
    return f"{difference.needed:,}"


def _dimension(name: str) -> str:
    return "all benchmarks" if name == ALL else dimension_title(name)


def _count(number: int | None) -> Cell:
    return DASH if number is None else number


def _value(difference: PairedDifference, value: float | None) -> str:
    return value_text(Estimate(value, None, None, None, 0), difference.unit)


def _difference(difference: PairedDifference) -> NumberCell | AbsentCell:
    if difference.difference.value is None:
        return AbsentCell(word_reason(difference.reason))
    return NumberCell(unit_of_difference(difference.unit), corrected_estimate(difference))


def _p(p: float | None) -> str:
    if p is None:
        return DASH
    return "<0.0001" if p < 0.0001 else decimal_text(p, 4 if p < 0.01 else 3)


def _ranks(comparison: Comparison) -> Table:
    places: dict[tuple[str, str, str], dict[str, RankInterval]] = defaultdict(dict)
    for rank in comparison.ranks:
        places[rank.benchmark, rank.dimension, f"{metric_title(rank.metric)} by {rank.method}"][
            rank.model
        ] = rank
    metrics = {metric for _, _, metric in places}
    rows = tuple(
        (
            benchmark
            if benchmark != ALL
            else "average rank"
            if dimension == ALL
            else _dimension(dimension),
            *([metric] if len(metrics) > 1 else []),
            *(_rank(by_model[label]) for label in comparison.labels),
        )
        for (benchmark, dimension, metric), by_model in places.items()
    )
    notes = (
        "Rank, in brackets the places that corrected tests of all pairs leave, and in what share of "
        f"{comparison.resamples:,} resamples of pictures, the same for all models, the model comes first, alone or "
        "tied. An average rank is between its ends in 95% of these. Over the questions for which all have a value.",
    )
    labels = ("ranked on", "metric") if len(metrics) > 1 else ("ranked on",)
    title = "Ranks" if len(metrics) > 1 else f"Ranks in {metrics.pop()}"
    return Table(title, (*labels, *comparison.labels), rows, label_columns=len(labels), notes=notes)


def _rank(rank: RankInterval) -> str:
    """`2 [1 to 3], first in 8.3%`"""
    text = f"{rank.rank:g}" if rank.rank == int(rank.rank) else decimal_text(rank.rank, 2)
    if rank.low is None or rank.high is None or rank.best is None:
        return f"{text} [no interval]"
    return f"{text} [{rank.low:.3g} to {rank.high:.3g}], first in {percent(rank.best)}"


INTERVAL_NOTE = (
    "The interval is anytime-valid: it holds the value of the whole benchmark with probability 95%, whenever one looks"
    " and stops (a confidence sequence by betting, Waudby-Smith and Ramdas 2023, over pictures without replacement)."
)
PART_NOTE = (
    "Numbers are over a random part of the pictures. Other intervals of this run are for a number of pictures that is "
    "fixed beforehand: too narrow for one that a rule stopped."
)
GOES_ON = "`snellen run` with the same words but the rule goes on to the whole benchmark; nothing is asked twice."
DECISION_NOTE = (
    "Verdicts are about the questions of the benchmark, each wrong with probability 5% at most; asked to its end, a"
    " benchmark has one value. What its questions tell of others, `snellen compare RUN RUN` says."
)


def sequential_tables(views: Sequence[RunView]) -> list[Table]:
    """One table of all runs that were asked in a random order until a rule stopped them; none without such a run."""
    rows = [
        _row(view.label, estimate) for view in views for estimate in sequential_estimates(view.run)
    ]
    if not rows:
        return []
    header = ("run", "benchmark", "protocol", "metric", "value", "stopped by", *_PART_HEADER)
    notes = (INTERVAL_NOTE, PART_NOTE, GOES_ON)
    return [Table("Stopped by a rule", header, tuple(rows), label_columns=4, notes=notes)]


_PART_HEADER = ("pictures", "questions", "not asked")


def _row(label: str, estimate: SequentialEstimate) -> tuple[Cell, ...]:
    cell = NumberCell(
        estimate.unit, Estimate(estimate.value, None, estimate.low, estimate.high, estimate.n)
    )
    return (
        label,
        estimate.benchmark,
        estimate.protocol,
        metric_title(estimate.metric),
        cell,
        f"{estimate.part.rule} (not yet)" if estimate.is_open else estimate.part.rule,
        *_part(estimate.part, estimate.asked),
    )


def _part(part: RandomPart, n_asked: int) -> tuple[Cell, ...]:
    saved = 1 - n_asked / part.questions if part.questions else 0.0
    return f"{part.pictures:,} of {part.of:,}", f"{n_asked:,} of {part.questions:,}", percent(saved)


def decision_table(differences: Sequence[SequentialDifference]) -> Table:
    """Two models asked the same pictures in a random order until it was decided which is better."""
    rows: list[tuple[Cell, ...]] = []
    for difference in differences:
        estimate = Estimate(difference.value, None, difference.low, difference.high, difference.n)
        cell = NumberCell(unit_of_difference(difference.unit), estimate)
        better = {
            "first": f"{difference.first} is better",
            "second": f"{difference.second} is better",
        }
        verdict = better.get(difference.verdict, difference.verdict)
        labels = difference.benchmark, difference.protocol, metric_title(difference.metric)
        rows.append((*labels, cell, verdict, *_part(difference.part, difference.asked)))
    header = ("benchmark", "protocol", "metric", "difference", "verdict", *_PART_HEADER)
    names = f"{differences[0].first} minus {differences[0].second}" if differences else ""
    notes = (f"Difference: {names}.", INTERVAL_NOTE, DECISION_NOTE, GOES_ON)
    return Table("Compared until decided", header, tuple(rows), label_columns=3, notes=notes)
