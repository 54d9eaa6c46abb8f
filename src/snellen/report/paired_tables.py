"""Tables of a comparison of runs: paired differences, and ranks.

A paired difference is the value of one run minus the value of another over the questions that both answered, so the
difficulty of the questions cancels out. An orientation is the choice of which run comes first. A family is the set
of differences whose p-values are corrected together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.coverage import few_names
from snellen.analysis.headline import OVERALL
from snellen.analysis.paired.comparison import ComparedRuns, compare_runs
from snellen.analysis.paired.differences import (
    Comparison,
    PairedDifference,
    QuestionFlip,
    RankInterval,
    corrected_estimate,
    oriented_from,
)
from snellen.analysis.paired.significance import SIGNIFICANCE_LEVEL
from snellen.callers import for_caller
from snellen.errors import DataError, MissingExtraError, SnellenError
from snellen.metrics.declaration import SHARE
from snellen.reasons import word_reason
from snellen.report.number_text import (
    DASH,
    decimal_text,
    dimension_title,
    metric_title,
    number_or_dash,
    percent_text,
)
from snellen.report.reported_runs import ReportedRun, uses_first_presentation_only
from snellen.report.table import (
    MIN_RELIABLE_GROUPS,
    AbsentCell,
    Cell,
    Column,
    NumberCell,
    Table,
    tabulate,
)
from snellen.scoring.scored_run import ScoredRun

CORRECTION_NAMES = {"holm": "by Holm", "bh": "by Benjamini and Hochberg"}
Comparisons = Mapping[str, ComparedRuns | SnellenError]
"""The comparison of the runs of each scoring convention, or the error that prevents it."""


# --- which runs are compared -----------------------------------------------------------------------------------------


def compare_reported_runs(reported_runs: Sequence[ReportedRun]) -> Comparisons:
    """Compare the runs of a report. Only runs that were scored by the same rules are compared with each other.

    Returns:
        By the scoring rules, such as `standard`, the comparison or the error that prevented it. Rules with a single run
        are left out.
    """
    runs_by_convention: dict[str, list[ScoredRun]] = defaultdict(list)
    for reported_run in reported_runs:
        runs_by_convention[reported_run.run.convention].append(reported_run.run)

    comparisons: dict[str, ComparedRuns | SnellenError] = {}
    for convention, runs in runs_by_convention.items():
        if len(runs) < 2:
            continue
        try:
            comparisons[convention] = ComparedRuns(runs, compare_runs(runs, with_flips=False))
        except (DataError, MissingExtraError) as error:
            comparisons[convention] = error
    return comparisons


def standard_comparison(comparisons: Comparisons) -> ComparedRuns | None:
    """Return the comparison of the runs scored by the standard rules, which sentences are about; None without one."""
    compared = comparisons.get("standard")
    return compared if isinstance(compared, ComparedRuns) else None


def paired_tables(reported_runs: Sequence[ReportedRun], comparisons: Comparisons) -> list[Table]:
    """Return tables that compare each run of a report with the first one that was scored by the same rules, and ranks.

    If the runs were scored by different rules, the title of each table names them.

    Args:
        reported_runs: The runs.
        comparisons: The result of `compare_reported_runs`.
    """
    conventions = {reported_run.run.convention for reported_run in reported_runs}
    tables: list[Table] = []
    for convention, compared in comparisons.items():
        if isinstance(compared, SnellenError):
            note = f"Not compared: {compared}"
            tables_of_convention = [Table("Paired differences", ("runs",), (), notes=(note,))]
        else:
            tables_of_convention = tables_of(compared.in_both, compared.headline.labels[0])
        for table in tables_of_convention:
            if len(conventions) > 1:
                tables.append(replace(table, title=f"{table.title}, {convention}"))
            else:
                tables.append(table)
    return tables


def tables_of(comparison: Comparison, first: str = "") -> list[Table]:
    """Return the tables of the headlines, then those of circular accuracy, each as in `comparison_tables`.

    Runs that have nothing in common have no table.
    """
    tables: list[Table] = []
    for one_comparison in (comparison, comparison.in_circular):
        if one_comparison.differences:
            tables += comparison_tables(one_comparison, first)
    return tables


def comparison_tables(comparison: Comparison, first: str = "") -> list[Table]:
    """Return the differences by benchmark, their means, and the ranks of more than two runs.

    Args:
        comparison: The comparison.
        first: Label of the run to compare with each other run. Each difference is then that run minus the other one.
            By default all compared pairs are shown as they are. The p-values are corrected for all pairs in either
            case.
    """
    single: list[PairedDifference] = []
    means: list[PairedDifference] = []
    for difference in comparison.differences:
        if first and first not in (difference.first, difference.second):
            continue
        oriented = oriented_from(difference, first) if first else difference
        if oriented.scope == "benchmark":
            single.append(oriented)
        else:
            means.append(oriented)

    tables = [_benchmark_table(single, comparison)]
    if means:
        tables.append(_mean_table(means, comparison))
    if comparison.ranks and len(comparison.labels) > 2:
        tables.append(_rank_table(comparison))
    return tables


# --- differences -----------------------------------------------------------------------------------------------------


def _benchmark_table(differences: Sequence[PairedDifference], comparison: Comparison) -> Table:
    """Return a row for each difference on one benchmark."""
    subject = Column[PairedDifference]("benchmark", lambda row: row.benchmark, is_label=True)
    columns = [*_label_columns(subject, _metric_under_protocol, differences)]
    columns += _value_columns(comparison)
    columns += [
        Column(
            "only first better",
            lambda row: _count_or_dash(row.only_first),
            "questions on which the first model did better",
        ),
        Column(
            "only second better",
            lambda row: _count_or_dash(row.only_second),
            "questions on which the second model did better",
        ),
        Column(
            "needed",
            needed_questions_text,
            "questions needed to detect a difference of this size at the 5% level with 80% power",
        ),
    ]

    notes = [
        "Differences are paired by question, over the questions for which both have a value, so the difficulty "
        "of questions cancels out. Intervals and p-values are clustered by image.",
    ]
    n_left_out = sum(difference.only_one_has_value for difference in differences)
    if n_left_out:
        notes.append(
            f"{n_left_out:,} questions have a value in only one of two runs and are left out."
        )
    for benchmark, holders in comparison.partial.items():
        notes.append(f"{benchmark}: only in {', '.join(holders)}.")
    title = _title("", _metric_under_protocol, differences)
    return tabulate(title, columns, differences, notes)


def _mean_table(means: Sequence[PairedDifference], comparison: Comparison) -> Table:
    """Return a row for each difference of means over benchmarks."""
    subject = Column[PairedDifference](
        "dimension", lambda row: _dimension_label(row.dimension), is_label=True
    )
    columns = [*_label_columns(subject, _metric_by_method, means), *_value_columns(comparison)]
    note = (
        "Benchmarks with the same scale have equal weights; if the suites say so, questions do. Columns are as "
        "above."
    )
    title = _title(", means over benchmarks", _metric_by_method, means)
    table = tabulate(title, columns, means, [note])
    return replace(table, hints={})  # the table above explains the columns


def _title(
    scope: str,
    metric_text: Callable[[PairedDifference], str],
    differences: Sequence[PairedDifference],
) -> str:
    """Return the title of a table of differences between runs, such as `Paired differences of accuracy: A minus B`.

    Args:
        scope: What the differences are over, such as ` by benchmark`.
        metric_text: Function that returns the metric of a difference as text.
        differences: The rows. The metric and the two models are in the title if all rows have the same.
    """
    metrics = {metric_text(difference) for difference in differences}
    model_pairs = {(difference.first, difference.second) for difference in differences}
    title = "Paired differences"
    if len(metrics) == 1:
        title += f" of {metrics.pop()}"
    title += scope
    if len(model_pairs) == 1:
        first, second = model_pairs.pop()
        title += f": {first} minus {second}"
    return title


def _label_columns(
    subject: Column[PairedDifference],
    metric_text: Callable[[PairedDifference], str],
    differences: Sequence[PairedDifference],
) -> list[Column[PairedDifference]]:
    """Return the label columns of a table of differences between runs.

    The first is what the difference is on. The metric and the two models have columns only if they differ between rows;
    otherwise the title of the table names them.

    Args:
        subject: The first column.
        metric_text: Function that returns the metric of a difference as text.
        differences: The rows of the table.
    """
    columns = [subject]
    metrics = {metric_text(difference) for difference in differences}
    if len(metrics) != 1:
        columns.append(Column("metric", metric_text, is_label=True))
    pairs_of_models = {(difference.first, difference.second) for difference in differences}
    if len(pairs_of_models) != 1:
        columns.append(Column("models", lambda row: f"{row.first} - {row.second}", is_label=True))
    return columns


def _value_columns(comparison: Comparison) -> list[Column[PairedDifference]]:
    """Return the columns of both values, their difference and its p-values."""
    return [
        Column(
            "first",
            lambda row: number_or_dash(row.first_value, row.unit),
            "the first model's value on the common questions",
        ),
        Column(
            "second",
            lambda row: number_or_dash(row.second_value, row.unit),
            "the second model's",
        ),
        Column(
            "difference",
            _difference_cell,
            "first minus second, so below 0 if the second is higher; its 95% interval is corrected like the "
            "p-value next to it and excludes 0 if that is below 0.05",
        ),
        Column("p corrected", lambda row: _p_text(row.p_adjusted), _correction_text(comparison)),
        Column(
            "p alone",
            lambda row: _p_text(row.p),
            "uncorrected p-value: the larger one of a sign-flip test (McNemar's test for binary scores) and of "
            "the interval",
        ),
    ]


def _metric_under_protocol(difference: PairedDifference | QuestionFlip) -> str:
    """Return the metric of a difference with its protocol, such as `accuracy under vanilla`.

    A circular protocol shows the options in several orders. If its accuracy covers only the first order, that is added,
    because a reader could take it for circular accuracy: `accuracy under circular (first order only)`.
    """
    text = f"{metric_title(difference.metric)} under {difference.protocol}"
    if isinstance(difference, PairedDifference) and difference.second_protocol:
        return f"{text} and {difference.second_protocol} (first order only)"
    if uses_first_presentation_only(difference.metric, difference.protocol):
        text += " (first order only)"
    return text


def _metric_by_method(mean: PairedDifference) -> str:
    """Return the metric of a mean over benchmarks with its method: `accuracy by generation`."""
    title = "shares" if mean.metric == SHARE else metric_title(mean.metric)
    return f"{title} by {mean.method}"


def _correction_text(comparison: Comparison) -> str:
    """Return how p-values are corrected: `corrected by Holm for all pairs, by kind (benchmarks, dimensions, overall)`."""
    if comparison.correction == "none":
        return "not corrected for their number"

    has_many_runs = len(comparison.labels) > 2
    family = "the comparisons of their kind"
    if has_many_runs:
        family = f"{describe_family(comparison)}, by kind"

    kinds = "benchmarks, dimensions, overall"
    methods = {difference.method for difference in comparison.differences}
    if len(methods) > 1:
        kinds += "; by each method apart"

    text = f"corrected {CORRECTION_NAMES[comparison.correction]} for {family} ({kinds})"
    n_instruments = len(comparison.instruments)
    if has_many_runs and 0 < n_instruments < len(comparison.labels):
        text += (
            f"; pairs with {few_names(comparison.instruments)}, which are instruments and not models, are "
            "corrected separately"
        )
    return text


def describe_family(comparison: Comparison) -> str:
    """Return which differences are corrected together: `all pairs`, `all pairs with A`, or `all comparisons` of two runs."""
    if len(comparison.labels) < 3:
        return "all comparisons"
    if comparison.baseline:
        return f"all pairs with {comparison.baseline}"
    return "all pairs"


def flips_line(comparison: Comparison) -> str:
    """Return a line that counts the questions on which runs have different values.

    For example `12 questions differ in accuracy under vanilla; -o FILE.json lists them.`
    """
    questions = {(flip.benchmark, flip.sample_id, flip.turn) for flip in comparison.flips}
    metrics = {_metric_under_protocol(flip) for flip in comparison.flips}
    verb = "question differs" if len(questions) == 1 else "questions differ"
    metric_text = "what is compared"
    if len(metrics) == 1:
        [metric_text] = metrics
    remedy = for_caller("-o FILE.json lists them", "`flips` has them")
    return f"{len(questions):,} {verb} in {metric_text}; {remedy}."


def mean_label(difference: PairedDifference) -> str:
    """Return the label of a mean over benchmarks, in a table that also has benchmarks: `mean of spatial understanding`."""
    if difference.dimension == OVERALL:
        return "overall mean"
    return f"mean of {dimension_title(difference.dimension)}"


def _dimension_label(dimension: str) -> str:
    """Return the label of a mean over benchmarks, in a table that has only means."""
    return "all benchmarks" if dimension == OVERALL else dimension_title(dimension)


NO_DIFFERENCE = "no difference in sight"
MAX_NEEDED_RATIO = 20
"""If a comparison needs more than this many times its present questions, the number of them is not shown."""


def needed_questions_text(difference: PairedDifference) -> str:
    """Return how many questions a comparison needs to detect a difference as large as the observed one.

    For example `1,200`. It is `at least 30` if there are few images, so that the number is only a lower bound, and
    `more than 40` if the difference is undecided with the present 40 questions although fewer were computed to be
    enough.

    Args:
        difference: The difference between two runs.

    Returns:
        The text. It is `no difference in sight` if more than `MAX_NEEDED_RATIO` times the present questions are
        needed, and a dash if there is nothing to compute.
    """
    estimate = difference.difference
    if estimate.value is None or not estimate.n:
        return DASH
    # Without a standard error the difference is the same in every question, and needs no more of them.
    has_no_variance = not estimate.stderr
    if has_no_variance and estimate.value:
        return DASH
    if difference.needed is None or difference.needed > MAX_NEEDED_RATIO * estimate.n:
        return NO_DIFFERENCE
    p = difference.p if difference.p_adjusted is None else difference.p_adjusted
    is_undecided = p is not None and p >= SIGNIFICANCE_LEVEL
    if is_undecided and difference.needed <= estimate.n:
        return f"more than {estimate.n:,}"
    if estimate.groups < MIN_RELIABLE_GROUPS:
        return f"at least {difference.needed:,}"
    return f"{difference.needed:,}"


def _count_or_dash(count: int | None) -> Cell:
    return DASH if count is None else count


def _difference_cell(difference: PairedDifference) -> NumberCell | AbsentCell:
    if difference.difference.value is None:
        return AbsentCell(word_reason(difference.reason))
    return NumberCell.of_difference(difference.unit, corrected_estimate(difference))


def _p_text(p: float | None) -> str:
    """Return a p-value as `0.042`, `0.0042` or `<0.0001`."""
    if p is None:
        return DASH
    if p < 0.0001:
        return "<0.0001"
    digits = 4 if p < 0.01 else 3
    return decimal_text(p, digits)


# --- ranks -----------------------------------------------------------------------------------------------------------


class _RankedMetric(Struct, frozen=True):
    """What runs are ranked on: a benchmark or an average over benchmarks, and a metric."""

    benchmark: str
    """`*` for an average of ranks."""
    dimension: str
    """Dimension of an average; `*` for all."""
    metric: str
    """Such as `accuracy by generation`."""

    @property
    def label(self) -> str:
        """Return the name of what was ranked: a benchmark, a dimension, or the average rank."""
        if self.benchmark != OVERALL:
            return self.benchmark
        if self.dimension == OVERALL:
            return "average rank"
        return _dimension_label(self.dimension)


class _RankRow(Struct, frozen=True):
    """A row of the table of ranks: the rank of each run, by its label."""

    ranked_on: _RankedMetric
    rank_by_model: dict[str, RankInterval]


def _rank_table(comparison: Comparison) -> Table:
    """Return a table of ranks, with a row for each benchmark or average and a column for each run."""
    rank_by_model: dict[_RankedMetric, dict[str, RankInterval]] = defaultdict(dict)
    for rank in comparison.ranks:
        metric = f"{metric_title(rank.metric)} by {rank.method}"
        ranked_on = _RankedMetric(rank.benchmark, rank.dimension, metric)
        rank_by_model[ranked_on][rank.model] = rank
    rows = [_RankRow(ranked_on, ranks) for ranked_on, ranks in rank_by_model.items()]

    columns = [Column[_RankRow]("ranked on", lambda row: row.ranked_on.label, is_label=True)]
    title = "Ranks"
    metrics = {row.ranked_on.metric for row in rows}
    if len(metrics) > 1:
        columns.append(Column("metric", lambda row: row.ranked_on.metric, is_label=True))
    else:
        title += f" in {metrics.pop()}"
    columns += [_rank_column(label) for label in comparison.labels]
    note = (
        "Rank, with the ranks that corrected pairwise tests allow in brackets, and the share of "
        f"{comparison.resamples:,} resamples of images (the same for all models) in which the model is first, "
        "alone or tied. An average rank is within its bounds in 95% of the resamples. Over the questions for "
        "which all models have a value."
    )
    return tabulate(title, columns, rows, [note])


def _rank_column(model: str) -> Column[_RankRow]:
    return Column(model, lambda row: _rank_text(row.rank_by_model[model]))


def _rank_text(rank: RankInterval) -> str:
    """Format the rank of a run among the compared runs: `2 [1 to 3], first in 8.3%`.

    The numbers in brackets are the ranks that the test results allow. The share says in how many resamples of the
    images the run is first. A mean rank has two decimals.
    """
    is_whole = rank.rank == int(rank.rank)
    text = f"{rank.rank:g}" if is_whole else decimal_text(rank.rank, 2)
    if rank.low is None or rank.high is None or rank.best is None:
        return f"{text} [no interval]"
    bounds = f"[{rank.low:.3g} to {rank.high:.3g}]"
    share_first = percent_text(rank.best)
    return f"{text} {bounds}, first in {share_first}"
