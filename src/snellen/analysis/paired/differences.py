"""The difference of two runs on the questions that both have a value for: by benchmark, by dimension, overall.

What each run measured on each question under one metric, and how far a question moves the metric's value.
"""

from __future__ import annotations

import html
import math
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.group_spread import GroupLabels, group_spread, sum_by_group
from snellen.analysis.headline import OVERALL, benchmark_weights, protocol_preference
from snellen.analysis.intervals import NO_BOUNDS, RELATIVE_ROUNDING, Bounds, interval_of
from snellen.analysis.linearisation import linearised_deviations
from snellen.analysis.paired.significance import (
    SIGNIFICANCE_LEVEL,
    Correction,
    agree_with_test,
    questions_needed,
    sign_flip_test,
)
from snellen.analysis.question_means import censored_mean, is_censored, with_counts
from snellen.analysis.reading_error import (
    DoubtfulValue,
    certain,
    difference_doubt,
    widened_by_reading,
)
from snellen.building.kept_sources import check_overwrites_no_source
from snellen.catalogue import BenchmarkSpec
from snellen.common.attribute_hints import answering_keywords, same_hint, unknown_attribute
from snellen.common.late import data_frame, pandas_frame
from snellen.errors import DataError
from snellen.formats.shown_text import csv_table, object_line
from snellen.formats.whole_files import write_atomically
from snellen.metrics.declaration import (
    MetricRow,
    ReplyMetric,
    declared_row,
    find_metric,
    metric_of,
    summed_metric,
)
from snellen.metrics.question_counts import Counts
from snellen.reasons import Reason
from snellen.records import Better, Estimate, Method, ReadingDoubt, Score
from snellen.registry import unknown_name
from snellen.scoring.scored_run import RowKey, ScoredBenchmark

if TYPE_CHECKING:
    import pandas
    import polars

RESAMPLES = 10_000
"""Bootstrap draws behind intervals of ranks."""


DIFFERENCE_HINTS = {
    **same_hint(
        "it is p; p_adjusted is corrected for the number of comparisons",
        "p_value",
        "pvalue",
        "p_values",
    ),
    **same_hint(
        "difference.value is the difference, first_value and second_value are those of the runs",
        "value",
        "mean",
        "score",
        "diff",
        "delta",
        "effect",
        "effect_size",
        "accuracy",
        "scores",
    ),
    **same_hint("ci is the 95% interval", "interval", "confidence_interval", "conf_int"),
    **same_hint("stderr is the standard error of the difference", "std", "sem", "se"),
    **same_hint("it is significant", "is_significant", "reject", "verdict"),
    **same_hint("first and second are the runs", "model", "models", "a", "b"),
    **same_hint(
        "first is better than second if difference.value is positive and significant is True",
        "winner",
        "better_model",
        "best",
    ),
}
"""What to write instead of names that other libraries use."""


class PairedDifference(Struct, frozen=True):
    """How much higher `first` scores than `second`, on common questions."""

    first: str
    second: str
    """Labels of the runs."""
    benchmark: str
    """`*` for a mean over benchmarks."""
    dimension: str
    suite: str
    protocol: str
    method: Method
    metric: str
    first_value: float | None
    second_value: float | None
    difference: Estimate
    p: float | None = None
    """By the sign-flip test over images and by the interval, the larger of both."""
    p_adjusted: float | None = None
    """Corrected for the comparisons of its kind: of its scope (benchmarks, dimensions, or overall) by the same method,
    between models, or with an instrument."""
    low_corrected: float | None = None
    high_corrected: float | None = None
    """The interval corrected for the same comparisons: without zero where `p_adjusted` is below 5%, and only there."""
    only_first: int | None = None
    """Questions on which the first run did better; None for a metric that no single question has."""
    only_second: int | None = None
    only_one_has_value: int = 0
    """Questions left out because one of the runs has no value there."""
    unit: str = ""
    better: Better = "higher"
    needed: int | None = None
    """Questions that would show a difference of this size at the 5% level with probability 0.8."""
    reason: Reason | None = None
    """Why there is no difference."""
    least_by_reading: float | None = None
    """The difference if all unsure readings of the first run are wrong, and all of the second are right."""
    most_by_reading: float | None = None
    """The difference if all unsure readings of the first run are right, and all of the second are wrong. This and
    `least_by_reading` are None if no reading is unsure."""
    same_replies: bool = False
    """Whether both runs gave the same reply to each common question."""
    second_protocol: str = ""
    """The protocol of the second run, if the runs used different ones and are compared in their first passes."""
    other_orders: int = 0
    """Common questions whose options the first passes of different protocols showed in different orders."""

    def __getattr__(self, name: str) -> Any:
        """Raise an error for an unknown attribute, which names the right one if it is a name of another library."""
        raise unknown_attribute(self, name, DIFFERENCE_HINTS)

    @property
    def ci(self) -> tuple[float | None, float | None]:
        """The 95% interval of the difference alone, uncorrected for other comparisons."""
        return self.difference.low, self.difference.high

    @property
    def low(self) -> float | None:
        """Lower end of the uncorrected 95% interval of the difference; `low_corrected` is the corrected one."""
        return self.difference.low

    @property
    def high(self) -> float | None:
        """Upper end of the uncorrected 95% interval of the difference; `high_corrected` is the corrected one."""
        return self.difference.high

    @property
    def stderr(self) -> float | None:
        """Standard error of the difference."""
        return self.difference.stderr

    @property
    def n(self) -> int:
        """Number of common questions."""
        return self.difference.n

    @property
    def significant(self) -> bool:
        """Whether reports call it a difference, as `is_significant` decides."""
        return is_significant(self)

    @property
    def may_turn(self) -> bool:
        """Whether the sign of the difference could change if uncertain replies were read differently.

        Reading means to find out which option a reply chooses.
        """
        value = self.difference.value
        if value is None or self.least_by_reading is None or self.most_by_reading is None:
            return False
        if value > 0:
            return self.least_by_reading <= 0
        return self.most_by_reading >= 0

    @property
    def scope(self) -> str:
        """Level of the difference: `benchmark`, `dimension` or `overall`. P-values are corrected within a level."""
        if self.benchmark != OVERALL:
            return "benchmark"
        return "overall" if self.dimension == OVERALL else "dimension"


def gain(difference: PairedDifference) -> float:
    """Return by how much the first run is better; negative if it is worse."""
    value = difference.difference.value or 0.0
    return -value if difference.better == "lower" else value


def oriented_from(difference: PairedDifference, run: str) -> PairedDifference:
    """Return the same difference with `run` as the first of its two runs. All signs change if it was the second."""
    if difference.first == run:
        return difference
    estimate = difference.difference
    negated_estimate = replace(
        estimate,
        value=_negated(estimate.value),
        low=_negated(estimate.high),
        high=_negated(estimate.low),
    )
    return replace(
        difference,
        first=difference.second,
        second=difference.first,
        first_value=difference.second_value,
        second_value=difference.first_value,
        difference=negated_estimate,
        low_corrected=_negated(difference.high_corrected),
        high_corrected=_negated(difference.low_corrected),
        only_first=difference.only_second,
        only_second=difference.only_first,
        least_by_reading=_negated(difference.most_by_reading),
        most_by_reading=_negated(difference.least_by_reading),
    )


def _negated(number: float | None) -> float | None:
    return None if number is None else 0.0 - number


def corrected_estimate(difference: PairedDifference) -> Estimate:
    """Return the difference with its interval corrected for multiple comparisons, as tables and sentences show it.

    If there is no corrected interval, the difference keeps its own.
    """
    if difference.low_corrected is None or difference.high_corrected is None:
        return difference.difference
    return replace(
        difference.difference, low=difference.low_corrected, high=difference.high_corrected
    )


def is_significant(difference: PairedDifference) -> bool:
    """Return whether a difference is significant.

    It is if its corrected p-value is below 5%, its interval excludes zero, and uncertain readings of replies could not
    change its sign (`may_turn`).
    """
    if difference.may_turn:
        return False
    low = difference.difference.low
    high = difference.difference.high
    if low is None or high is None or difference.p_adjusted is None:
        return False
    excludes_zero = low > 0 or high < 0
    return excludes_zero and difference.p_adjusted < SIGNIFICANCE_LEVEL


class QuestionFlip(Struct, frozen=True):
    """A question on which two runs differ."""

    first: str
    second: str
    benchmark: str
    sample_id: str
    turn: int
    protocol: str
    method: Method
    metric: str
    first_value: float
    second_value: float


class RankInterval(Struct, frozen=True):
    """The rank of a run among the compared runs, 1 for the best, on the questions for which all have a value."""

    model: str
    benchmark: str
    dimension: str
    """`*` overall: the average of the ranks over dimensions (ReForm-Eval, Table 1)."""
    method: Method
    metric: str
    rank: float
    low: float | None
    high: float | None
    """Bounds of the rank: 1 + the number of significantly better runs, and the number of runs - the significantly worse.

    Significance is by the corrected p-values of all pairs. For an average rank, the bounds contain 95% of the resamples
    of images. None for a single image.
    """
    best: float | None
    """Share of resamples in which no other run is better."""
    n: int
    """Number of questions behind the rank."""


COMPARISON_HINTS = {
    **same_hint(
        "each difference has its own: comparison[0].p, of the mean over benchmarks comparison.overall.p",
        "p",
        "pvalue",
        "p_values",
    ),
    **same_hint(
        "each difference has its own: comparison[0].significant, of the mean over benchmarks "
        "comparison.overall.significant",
        "significant",
        "is_significant",
        "significance",
        "winner",
        "best",
        "better",
        "verdict",
    ),
    **same_hint(
        "each difference has its own: comparison[0].difference.value, of the mean over benchmarks "
        "comparison.overall.difference.value",
        "difference",
        "delta",
        "diff",
        "value",
        "score",
        "mean",
        "effect",
    ),
    **same_hint(
        "each difference has its own: comparison[0].ci, .stderr and .n, of the mean over benchmarks "
        "comparison.overall.ci",
        "ci",
        "interval",
        "confidence_interval",
        "low",
        "high",
        "stderr",
        "std",
        "n",
    ),
    **same_hint(
        "table(), to_pandas(), to_csv(path) or print(comparison)",
        "summary",
        "to_df",
        "df",
        "to_latex",
        "to_markdown",
        "to_html",
        "describe",
    ),
    **same_hint(
        "flip_table() has the questions on which two runs differ",
        "samples",
        "disagreements",
        "wins",
        "losses",
        "regressions",
        "changed",
        "fixed",
        "broken",
        "questions",
    ),
    **same_hint(
        "results.plot() draws the headlines of all runs with their intervals, and "
        "to_pandas().plot the differences",
        "plot",
        "show",
    ),
    **same_hint(
        "sn.compare(first, second, to='comparison.md') writes a .md, .csv or .json file",
        "save",
        "report",
        "export",
        "to_json",
    ),
}
"""What to write instead of names that other libraries use."""


class Comparison(Struct, frozen=True):
    """The result of `compare_runs`: differences, ranks and flips of several runs."""

    labels: tuple[str, ...]
    differences: tuple[PairedDifference, ...]
    ranks: tuple[RankInterval, ...]
    """Ranks on the benchmarks that all runs have."""
    flips: tuple[QuestionFlip, ...]
    correction: Correction
    resamples: int
    partial: dict[str, tuple[str, ...]]
    """Benchmarks that not every run has, with the runs that have them."""
    baseline: str = ""
    """The run that was compared with each other run; empty if all pairs were compared."""
    instruments: tuple[str, ...] = ()
    """Runs of reference baselines such as `snellen:oracle`. Pairs with them are corrected separately."""
    circular: tuple[PairedDifference, ...] | None = None
    """Differences in circular accuracy, corrected like the others; None if they were not computed."""
    left_out: dict[str, str] = {}
    """Folders of runs that share nothing with the others, and why: their numbers are in no difference."""

    @property
    def rows(self) -> tuple[PairedDifference, ...]:
        """All differences; the differences in circular accuracy are last."""
        return (*self.differences, *(self.circular or ()))

    @property
    def in_circular(self) -> Comparison:
        """The comparison in circular accuracy only, without ranks and flips."""
        return replace(self, differences=self.circular or (), ranks=(), flips=(), circular=None)

    def __repr__(self) -> str:
        return object_line(
            self,
            ", ".join(self.labels),
            differences=len(self.rows),
            ranks=len(self.ranks),
            flips=len(self.flips),
        )

    def __getattr__(self, name: str) -> Any:
        """Raise an error for an unknown attribute, which names the right one if it is a name of another library."""
        raise unknown_attribute(self, name, COMPARISON_HINTS)

    def __str__(self) -> str:
        """Return a line of text for each difference between two runs, with the corrected interval and p-value.

        These are the numbers that `snellen compare` prints.
        """
        lines: list[str] = []
        for row in self.rows:
            scope = row.benchmark if row.benchmark != OVERALL else f"mean ({row.dimension})"
            name = f"{scope}, {row.protocol}, {row.metric}: {row.first} against {row.second}"
            estimate = corrected_estimate(row)
            if row.first_value is None or row.second_value is None or estimate.value is None:
                lines.append(f"{name}: no difference ({row.reason})")
                continue
            line = f"{name}: {row.first_value:.4g} - {row.second_value:.4g} = {estimate.value:+.4g}"
            if estimate.low is not None and estimate.high is not None:
                line += f" [{estimate.low:+.4g}, {estimate.high:+.4g}]"
            if row.p_adjusted is not None:
                line += f", p = {row.p_adjusted:.3g}"
            lines.append(line)
        if self.correction != "none":
            lines.append(
                f"95% intervals and p are corrected ({self.correction}) for all comparisons of the same kind, as "
                "`snellen compare` prints them; `ci` and `p` of a difference are uncorrected."
            )
        for folder, reason in self.left_out.items():
            lines.append(f"{folder} is left out of the comparison: {reason}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the lines as notebooks show them."""
        return f"<pre>{html.escape(str(self))}</pre>"

    @property
    def p_value(self) -> float | None:
        """The p-value of the difference of two runs. Raises DataError as `overall` does."""
        return self.overall.p

    @property
    def overall(self) -> PairedDifference:
        """The difference of two runs over all benchmarks, or on the only one.

        Raises:
            DataError: There are several such differences, as of three runs, or none.
        """
        rows = [row for row in self.differences if row.scope == "overall"]
        if not rows:
            rows = [row for row in self.differences if row.scope == "benchmark"]
        if len(rows) == 1:
            return rows[0]
        shown = ", ".join(f"{row.first} against {row.second} ({row.protocol})" for row in rows)
        raise DataError(
            f"the comparison has {len(rows)} overall differences ({shown}); index it, as in comparison[0], or iterate "
            "over it"
        )

    def __len__(self) -> int:
        """Return the number of differences, which iterating yields."""
        return len(self.rows)

    def __iter__(self) -> Iterator[PairedDifference]:
        return iter(self.rows)

    @overload
    def __getitem__(self, name: int) -> PairedDifference: ...

    @overload
    def __getitem__(self, name: str) -> Comparison: ...

    def __getitem__(self, name: int | str) -> PairedDifference | Comparison:
        """Return one difference by its index, or the part of the comparison that is about one benchmark.

        The part keeps p-values and intervals that are corrected for all comparisons.

        Args:
            name: An index, or the name of a benchmark with or without its suite: `modern/mmstar` or `mmstar`.

        Raises:
            UnknownNameError: The comparison has no such benchmark.
        """
        if isinstance(name, int):
            return self.rows[name]
        available = dict.fromkeys(row.benchmark for row in self.rows if row.benchmark != OVERALL)
        chosen = []
        for benchmark in available:
            if benchmark == name or benchmark.endswith(f"/{name}"):
                chosen.append(benchmark)
        if not chosen:
            raise unknown_name("benchmark", name, list(available))
        circular = self.circular
        if circular is not None:
            circular = tuple(row for row in circular if row.benchmark in chosen)
        return replace(
            self,
            differences=tuple(row for row in self.differences if row.benchmark in chosen),
            ranks=tuple(rank for rank in self.ranks if rank.benchmark in chosen),
            flips=tuple(flip for flip in self.flips if flip.benchmark in chosen),
            circular=circular,
        )

    def to_polars(self) -> polars.DataFrame:
        """Return the same table as `table()`."""
        return self.table()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the same table as `table()`, as a data frame of pandas."""
        return pandas_frame(map(flat_difference, self.rows))

    @answering_keywords("the file is always UTF-8 with commas", without_effect={"index": False})
    def to_csv(self, path: str | Path) -> Path:
        """Write the table to a CSV file and return its path."""
        file = Path(path).with_suffix(".csv")
        check_overwrites_no_source(file)
        write_atomically(file, csv_table([flat_difference(row) for row in self.rows]).encode())
        return file

    def table(self) -> polars.DataFrame:
        """Return a data frame with one row per difference.

        It has the runs, benchmark, dimension, both values, the difference with stderr, low, high, n and groups, p,
        p_adjusted, and the number of questions on which each run did better.
        """
        return data_frame(map(flat_difference, self.rows))

    def rank_table(self) -> polars.DataFrame:
        """Return a data frame with one row per run and benchmark or dimension: rank, low, high, and best."""
        return data_frame(asdict(rank) for rank in self.ranks)

    def flip_table(self) -> polars.DataFrame:
        """Return a data frame with one row per question on which two runs differ, with both values."""
        return data_frame(asdict(flip) for flip in self.flips)


def flat_difference(difference: PairedDifference) -> dict[str, object]:
    """Return a difference as a flat dict of plain values. The value of its estimate has the key `difference`."""
    fields = asdict(difference)
    estimate = asdict(fields.pop("difference"))
    return {**fields, "difference": estimate.pop("value"), **estimate}


QuestionKey = tuple[str, int]
"""Sample and round."""


Spread = tuple[float, list[float]] | None
"""A value, and the contribution of each question's deviation to it; None if the value is undefined."""


class Questions(NamedTuple):
    """Questions in order, with their groups (image or dialogue). Questions of one group may depend on each other."""

    keys: list[QuestionKey]
    groups: GroupLabels[str]


class QuestionMeasures(Struct, frozen=True, dict=True):
    """One metric of one benchmark in one run: a value for each question, or the counts its value is computed from."""

    scored: ScoredBenchmark
    protocol: str
    method: Method
    metric: str
    values: Mapping[QuestionKey, float] = {}
    censored: Mapping[QuestionKey, Score] = {}
    """All scores, if some questions lack a value because a sequence of requests ended early (`question_means`); else
    empty."""
    doubts: Mapping[QuestionKey, ReadingDoubt] = {}
    """Possible other values of the questions with an uncertain reading."""
    audited: Estimate | None = None
    """The value over all questions, corrected by labels of some replies (`snellen audit`)."""
    counts: Mapping[QuestionKey, Counts] = {}
    """Counts per question, for a metric that is computed from summed counts."""
    counted_by: str = ""
    """Name of the metric that made the counts; `metric` is one of its rows."""

    @cached_property
    def row(self) -> MetricRow:
        return declared_row(self.metric)

    @cached_property
    def keys(self) -> frozenset[QuestionKey]:
        return frozenset(self.counts if self.counted_by else self.censored or self.values)

    def first_orders(self) -> dict[QuestionKey, tuple[int, ...]]:
        """Return the order of the options in the first presentation of each question; empty for an open question."""
        orders: dict[QuestionKey, tuple[int, ...]] = {}
        for prediction in self.scored.predictions:
            variant = prediction.variant
            if prediction.protocol != self.protocol or prediction.method != self.method:
                continue
            if variant.test == 0:
                orders.setdefault((prediction.sample_id, variant.turn), variant.order)
        return orders

    def group(self, key: QuestionKey) -> str:
        """Return the image or dialogue of a question."""
        return self.scored.samples[key[0]].group

    @cached_property
    def _ordered(self) -> Questions:
        return self._in_order(self.keys)

    @cached_property
    def _own_spread(self) -> Spread:
        return self._spread_over(self._ordered.keys)

    def _in_order(self, keys: Iterable[QuestionKey]) -> Questions:
        ordered = sorted(keys)
        return Questions(ordered, GroupLabels(map(self.group, ordered)))

    def questions(self, keys: frozenset[QuestionKey]) -> Questions:
        """Return some of the questions, in order."""
        return self._ordered if len(keys) == len(self.keys) else self._in_order(keys)

    def spread_over(self, keys: Sequence[QuestionKey]) -> Spread:
        """Return the value over some questions, and the contribution of each question's deviation.

        The contributions sum to zero. They are (v_i - mean) / n for a mean, and the first-order change for a metric of
        summed counts (Woodruff 1971). None if the metric is undefined on these questions.
        """
        return self._own_spread if len(keys) == len(self.keys) else self._spread_over(keys)

    def _spread_over(self, keys: Sequence[QuestionKey]) -> Spread:
        """Return the value of the metric over some questions, and the influence of each question on it.

        There are three kinds of metrics: one computed from summed counts, a mean corrected for sequences of requests
        that ended early, and a plain mean.

        Args:
            keys: The questions.

        Returns:
            The value and the influences, which sum to zero; None if the metric has no value over these questions.
        """
        if self.counted_by:
            metric = summed_metric(self.counted_by)
            row = metric.names.index(self.metric)
            counts = [self.counts[key] for key in keys]
            [spread] = linearised_deviations(counts, lambda sums: (metric.compute(sums)[row],), 1)
            return spread
        if self.censored:
            scores = [self.censored[key] for key in keys]
            corrected = censored_mean([scores])
            if corrected is None or not corrected.is_sure:
                return None
            return corrected.value, corrected.deviations
        if not keys:
            return None
        n = len(keys)
        values = [self.values[key] for key in keys]
        mean = math.fsum(values) / n
        influences = [(value - mean) / n for value in values]
        return mean, influences


def difference_bounds(row: MetricRow) -> Bounds:
    """Return the least and the greatest possible difference of two values of a metric."""
    if row.low is None or row.high is None:
        return NO_BOUNDS
    return row.low - row.high, row.high - row.low


def question_values(
    scored: ScoredBenchmark, metrics: Container[str] | None = None
) -> Iterator[QuestionMeasures]:
    """Yield each metric of a benchmark under each protocol, with the values of its questions.

    Questions without a value, and metrics that are not comparable by question, are left out.

    Args:
        scored: The benchmark.
        metrics: Names of the metrics; by default all.

    Examples:
        >>> from snellen.plugin_api import score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = score_run(results.runs[0].folder, sn.ScoringSpec()).benchmarks
        >>> [len(measure.values) for measure in question_values(scored, ["accuracy"])]
        [4]
    """
    counts: dict[RowKey, dict[QuestionKey, Counts]] = defaultdict(dict)
    for tally in scored.tallies:
        if tally.counts:
            row_key = (tally.protocol, tally.method, tally.metric)
            counts[row_key][tally.sample_id, tally.turn] = tally.counts
    from_counts: set[str] = set()
    for _, _, counting_metric in counts:
        from_counts.update(find_metric(counting_metric).names)

    for (protocol, method, metric), records in scored.score_rows.items():
        is_wanted = metrics is None or metric in metrics
        if metric in from_counts or not is_wanted:
            continue
        declaring = metric_of(metric)
        if isinstance(declaring, ReplyMetric) and declaring.mean_over == "answers":
            continue  # not a mean over questions
        scores = list(records)
        values: dict[QuestionKey, float] = {}
        doubts: dict[QuestionKey, ReadingDoubt] = {}
        for score in scores:
            key = (score.sample_id, score.turn)
            if score.value is not None:
                values[key] = score.value
            if score.doubt is not None:
                doubts[key] = score.doubt
        if values:
            yield QuestionMeasures(
                scored,
                protocol,
                method,
                metric,
                values=values,
                censored=_censored(scores),
                doubts=doubts,
            )
    for (protocol, method, metric), by_counts in counts.items():
        for row in find_metric(metric).names:
            if metrics is None or row in metrics:
                yield QuestionMeasures(
                    scored, protocol, method, row, counts=by_counts, counted_by=metric
                )


def _censored(scores: Sequence[Score]) -> Mapping[QuestionKey, Score]:
    """Return the scores by question if failed requests bias a plain mean over them; otherwise an empty mapping.

    There is a bias if a question takes several requests, one after the other, and some of these sequences ended early
    (see `question_means`). Questions of which no request was sent are left out.
    """
    if not is_censored(scores):
        return {}
    scores_by_question: dict[QuestionKey, Score] = {}
    for score in scores:
        was_begun = score.value is not None or score.steps or score.broken
        if was_begun:
            scores_by_question[score.sample_id, score.turn] = score
    return scores_by_question


def shared_protocol(runs: Sequence[Iterable[str]]) -> str | None:
    """Return the preferred protocol among those that all runs have, or None."""
    shared = set.intersection(*(set(protocols) for protocols in runs))
    return min(shared, key=protocol_preference, default=None)


class Paired(Struct, frozen=True):
    """A difference of two runs on a benchmark, with what is needed to average it with those on other benchmarks."""

    result: PairedDifference
    spec: BenchmarkSpec
    """Entry of the benchmark; for a mean, of one of its benchmarks."""
    contributions: dict[str, float]
    """Contribution of each image; they add up to the difference."""
    raw: Estimate | None = None
    """The difference with its interval before the interval was adjusted to agree with the test."""
    missing_in_first: int = 0
    """Questions that have a value only in the second run."""


def pair(
    labels: tuple[str, str],
    first: QuestionMeasures,
    second: QuestionMeasures,
    questions: frozenset[QuestionKey] | None = None,
) -> Paired:
    """Compare two runs in one metric of one benchmark, question by question.

    The interval includes the doubt about uncertain readings and the corrections of audits. The p-value is of a
    sign-flip test over images, and the interval is adjusted to agree with it.

    Args:
        labels: The label of each run.
        first: The values of the first run's questions.
        second: The values of the second run's questions.
        questions: The questions to compare; by default all for which both runs have a value.
    """
    if questions is None:
        questions = first.keys & second.keys
    keys, groups = first.questions(questions)
    n = len(keys)
    compared = _compare_values(first, second, keys, groups)
    difference = compared.difference
    if first.censored or second.censored:
        difference = _with_unfinished_counts(difference, first, second, keys)

    only_first, only_second = _count_questions_won(first, second, keys)
    n_different_groups = sum(
        abs(value) > RELATIVE_ROUNDING for value in compared.contributions.values()
    )
    needed = questions_needed(
        difference.value or 0.0, difference.stderr or 0.0, n, n_different_groups
    )
    first_label, second_label = labels
    spec = first.scored.spec
    result = PairedDifference(
        first=first_label,
        second=second_label,
        benchmark=spec.name,
        dimension=spec.dimension,
        suite=spec.suite,
        protocol=first.protocol,
        method=first.method,
        metric=first.metric,
        first_value=compared.first_value,
        second_value=compared.second_value,
        difference=difference,
        p=compared.p,
        only_first=only_first,
        only_second=only_second,
        only_one_has_value=len(first.keys ^ second.keys),
        unit=first.row.unit,
        better=first.row.better,
        needed=needed,
        reason=None if compared.contributions else _why_without_difference(first, second, n),
        least_by_reading=compared.least_by_reading,
        most_by_reading=compared.most_by_reading,
        second_protocol=second.protocol if second.protocol != first.protocol else "",
        other_orders=_count_other_orders(first, second, keys),
    )
    return Paired(
        result=result,
        spec=spec,
        contributions=compared.contributions,
        raw=compared.difference_before_test,
        missing_in_first=len(second.keys - first.keys),
    )


def _count_other_orders(
    first: QuestionMeasures, second: QuestionMeasures, keys: Iterable[QuestionKey]
) -> int:
    """Count the questions whose options the first passes of two different protocols showed in different orders."""
    if first.protocol == second.protocol:
        return 0
    first_orders = first.first_orders()
    second_orders = second.first_orders()
    n_other_orders = 0
    for key in keys:
        has_both = key in first_orders and key in second_orders
        if has_both and first_orders[key] != second_orders[key]:
            n_other_orders += 1
    return n_other_orders


class _ComparedValues(NamedTuple):
    """The values of two runs in a metric, and the test of their difference. Without both values there is none."""

    first_value: float | None
    second_value: float | None
    difference: Estimate
    """The first value minus the second. Its interval agrees with the p-value."""
    contributions: dict[str, float]
    """Contribution of each image group; they add up to the difference."""
    difference_before_test: Estimate | None = None
    p: float | None = None
    least_by_reading: float | None = None
    """The least difference that uncertain readings of replies allow; None if no reading is uncertain."""
    most_by_reading: float | None = None


def _compare_values(
    first: QuestionMeasures,
    second: QuestionMeasures,
    keys: Sequence[QuestionKey],
    groups: GroupLabels[str],
) -> _ComparedValues:
    """Compare two runs in one metric over some questions, and test whether they differ.

    Args:
        first: The values of the first run's questions.
        second: The values of the second run's questions.
        keys: The questions.
        groups: The image group of each of these questions.
    """
    n = len(keys)
    first_spread = first.spread_over(keys)
    second_spread = second.spread_over(keys)
    first_correction = _audit_correction(first, keys)
    second_correction = _audit_correction(second, keys)
    if not first_spread or not second_spread:
        return _ComparedValues(
            first_value=first_spread[0] + first_correction.shift if first_spread else None,
            second_value=second_spread[0] + second_correction.shift if second_spread else None,
            difference=Estimate(
                value=None, stderr=None, low=None, high=None, n=n, groups=len(groups.sizes)
            ),
            contributions={},
        )

    first_value, first_deviations = first_spread
    second_value, second_deviations = second_spread
    uncorrected_gap = first_value - second_value
    deviations: list[float] = []
    for first_deviation, second_deviation in zip(first_deviations, second_deviations, strict=True):
        deviations.append(first_deviation - second_deviation)

    bounds = difference_bounds(first.row)
    doubtful = _doubtful_differences(first, second, keys)
    difference = _estimate_difference(first, second, keys, groups, uncorrected_gap, deviations)
    difference = widened_by_reading(difference, doubtful, n, bounds)
    difference = _corrected_difference(difference, (first_correction, second_correction), bounds)

    gap = uncorrected_gap + (first_correction.shift - second_correction.shift)
    least_by_reading: float | None = None
    most_by_reading: float | None = None
    if doubtful:
        change_at_least = math.fsum(doubt.least - value for value, doubt in doubtful) / n
        change_at_most = math.fsum(doubt.most - value for value, doubt in doubtful) / n
        least_by_reading = gap + change_at_least
        most_by_reading = gap + change_at_most

    gap_per_question = gap / n
    shares_of_gap = [gap_per_question + deviation for deviation in deviations]
    contributions = sum_by_group(shares_of_gap, groups)
    p_of_test = sign_flip_test(list(contributions.values()))
    agreeing_difference, p = agree_with_test(difference, p_of_test)
    return _ComparedValues(
        first_value=first_value + first_correction.shift,
        second_value=second_value + second_correction.shift,
        difference=agreeing_difference,
        contributions=contributions,
        difference_before_test=difference,
        p=p,
        least_by_reading=least_by_reading,
        most_by_reading=most_by_reading,
    )


class AuditCorrection(NamedTuple):
    """The correction of a run's value by an audit, with its margins of error."""

    shift: float = 0.0
    """Change of the value."""
    below: float = 0.0
    """Margin below the corrected value."""
    above: float = 0.0
    """Margin above the corrected value."""


def _audit_correction(run: QuestionMeasures, keys: Sequence[QuestionKey]) -> AuditCorrection:
    """Return by how much an audit of the replies corrects a run's value.

    In an audit, people label a sample of the replies, which shows how often they were read wrongly.

    Args:
        run: The values of a run.
        keys: The questions that are compared. If the run has further questions, the correction is zero, because the
            audit is about all of them.

    Returns:
        The shift of the value, and how far the corrected interval exceeds the interval of sampling on each side.
    """
    audited = run.audited
    if audited is None or audited.value is None or len(keys) < len(run.keys) or run.counted_by:
        return AuditCorrection()
    values = [run.values[key] for key in keys]
    groups = GroupLabels(map(run.group, keys))
    unaudited = estimate_mean(values, groups, bounds=run.row.bounds)
    if None in (audited.low, audited.high, unaudited.value, unaudited.low, unaudited.high):
        return AuditCorrection()
    below, above = audited.margins
    below_sampling, above_sampling = unaudited.margins
    return AuditCorrection(
        shift=audited.value - (unaudited.value or 0.0),
        below=math.sqrt(max(0.0, below**2 - below_sampling**2)),
        above=math.sqrt(max(0.0, above**2 - above_sampling**2)),
    )


def _corrected_difference(
    difference: Estimate, corrections: tuple[AuditCorrection, AuditCorrection], bounds: Bounds
) -> Estimate:
    """Correct the difference of two runs by the audits of their replies.

    Args:
        difference: The value of the first run minus that of the second.
        corrections: The correction of each run's value, with its margins. Margins are combined as root sums of squares
            (MOVER).
        bounds: The least and the greatest possible difference.
    """
    first, second = corrections
    no_correction = AuditCorrection()
    if first == no_correction and second == no_correction:
        return difference
    value = (difference.value or 0.0) + first.shift - second.shift
    if difference.low is None or difference.high is None:
        return replace(difference, value=value)
    below, above = difference.margins
    below = math.hypot(below, first.below, second.above)
    above = math.hypot(above, first.above, second.below)
    low = max(bounds[0], value - below)
    high = min(bounds[1], value + above)
    return replace(difference, value=value, low=low, high=high)


def _doubtful_differences(
    first: QuestionMeasures, second: QuestionMeasures, keys: Sequence[QuestionKey]
) -> list[DoubtfulValue]:
    """Return the difference on each question for which a reply could be read in more than one way.

    Returns:
        Pairs of the difference, first minus second, and the doubt: its expected value, its variance, and its range.
    """
    # If a run was audited, the human labels already correct for misread replies on average.
    first_doubts = first.doubts if first.audited is None else {}
    second_doubts = second.doubts if second.audited is None else {}
    doubtful: list[DoubtfulValue] = []
    for key in keys:
        if key not in first_doubts and key not in second_doubts:
            continue
        if key not in first.values or key not in second.values:
            continue
        first_value = first.values[key]
        second_value = second.values[key]
        first_doubt = first_doubts.get(key) or certain(first_value)
        second_doubt = second_doubts.get(key) or certain(second_value)
        doubtful.append((first_value - second_value, difference_doubt(first_doubt, second_doubt)))
    return doubtful


def _why_without_difference(first: QuestionMeasures, second: QuestionMeasures, n: int) -> Reason:
    """Return why two runs have no difference on `n` common questions."""
    if not n:
        return "not asked"
    return "too few asked to the end" if first.censored or second.censored else "metric undefined"


def _with_unfinished_counts(
    difference: Estimate,
    first: QuestionMeasures,
    second: QuestionMeasures,
    keys: Sequence[QuestionKey],
) -> Estimate:
    """Set the question counts of a difference if some questions have a value in only one of the two runs.

    A question can need several requests in a row. If a request fails or the run stops, the question has no value, but
    it still affects the difference through the weights of the others. `n` counts the questions for which both runs have
    a value. The others count as errors or as unfinished.
    """
    lacking: list[Score] = []
    for key in keys:
        if key not in first.values:
            lacking.append(first.censored[key])
        elif key not in second.values:
            lacking.append(second.censored[key])
    counted = with_counts(difference, lacking, 0)
    return replace(counted, n=len(keys) - len(lacking))


def _estimate_difference(
    first: QuestionMeasures,
    second: QuestionMeasures,
    keys: Sequence[QuestionKey],
    groups: Sequence[str],
    gap: float,
    deviations: Sequence[float],
) -> Estimate:
    """Return the difference of two runs with its 95% interval.

    Args:
        first: The values of the first run.
        second: The values of the second run.
        keys: The questions on which they are compared.
        groups: The image group of each question.
        gap: The difference. It is used if it is not a mean over differences on single questions.
        deviations: The influence of each question on `gap`.
    """
    bounds = difference_bounds(first.row)
    is_plain_mean = not (first.counted_by or first.censored or second.censored)
    if is_plain_mean:
        differences = [first.values[key] - second.values[key] for key in keys]
        return estimate_mean(differences, groups, bounds=bounds)
    spread = group_spread(deviations, groups)
    low, high = interval_of(gap, spread, bounds)
    return Estimate(
        value=gap, stderr=spread.error, low=low, high=high, n=len(keys), groups=spread.groups
    )


def _count_questions_won(
    first: QuestionMeasures, second: QuestionMeasures, keys: Sequence[QuestionKey]
) -> tuple[int | None, int | None]:
    """Count the questions on which the first run is better, and those on which the second run is better.

    Returns:
        A pair of None if the metric has no values of single questions, such as a corpus BLEU.
    """
    if first.counted_by:
        return None, None
    n_higher_first = 0
    n_higher_second = 0
    for key in keys:
        if key not in first.values or key not in second.values:
            continue
        if first.values[key] > second.values[key]:
            n_higher_first += 1
        elif first.values[key] < second.values[key]:
            n_higher_second += 1
    if first.row.better == "lower":
        return n_higher_second, n_higher_first
    return n_higher_first, n_higher_second


def flips(
    labels: tuple[str, str], first: QuestionMeasures, second: QuestionMeasures
) -> Iterator[QuestionFlip]:
    """Yield the common questions on which two runs have different values."""
    if first.counted_by:
        return
    for key in sorted(first.values.keys() & second.values.keys()):
        if first.values[key] != second.values[key]:
            first_label, second_label = labels
            sample_id, turn = key
            yield QuestionFlip(
                first=first_label,
                second=second_label,
                benchmark=first.scored.spec.name,
                sample_id=sample_id,
                turn=turn,
                protocol=first.protocol,
                method=first.method,
                metric=first.metric,
                first_value=first.values[key],
                second_value=second.values[key],
            )


def mean_differences(pairs: Sequence[Paired]) -> Iterator[PairedDifference]:
    """Yield the mean difference of two runs over the benchmarks of each ability dimension, then over all benchmarks.

    There is no mean over metrics with different scales, and no overall mean if all benchmarks belong to one dimension.
    The suites declare whether benchmarks or questions have equal weight.

    Args:
        pairs: The difference on each benchmark, between the same two runs and by the same method.
    """
    usable = [paired for paired in pairs if paired.result.difference.value is not None]
    pairs_by_dimension: dict[str, list[Paired]] = defaultdict(list)
    for paired in usable:
        if paired.result.dimension:
            pairs_by_dimension[paired.result.dimension].append(paired)
    for dimension, members in pairs_by_dimension.items():
        mean = mean_of_pairs(members, dimension)
        if mean:
            yield mean.result

    all_have_dimension = all(paired.result.dimension for paired in usable)
    is_of_one_dimension = len(pairs_by_dimension) == 1 and all_have_dimension
    if len(usable) < 2 or is_of_one_dimension:
        return
    overall = mean_of_pairs(usable, OVERALL)
    if overall:
        yield overall.result


def mean_of_pairs(members: Sequence[Paired], dimension: str) -> Paired | None:
    """Return the mean over benchmarks of the differences of two runs; None if their metrics have different scales.

    The benchmarks have equal weights or, if their suites declare it, weights by number of questions.

    Args:
        members: The difference on each benchmark.
        dimension: The dimension that the benchmarks share, for the result.
    """
    results = [member.result for member in members]
    metrics = list(dict.fromkeys(result.metric for result in results))
    rows = [declared_row(metric) for metric in metrics]
    first_row = rows[0]
    has_one_scale = len({(row.scale, row.better) for row in rows}) == 1
    if not has_one_scale or (len(members) > 1 and not first_row.scale):
        return None

    n_members = len(members)
    shares = benchmark_weights(
        [member.spec for member in members],
        [result.metric for result in results],
        [result.difference.questions for result in results],
    )
    weights = [n_members * share for share in shares]
    contributions: dict[str, float] = {}
    weighted_differences: list[Estimate] = []
    weighted_raw_differences: list[Estimate] = []
    for member, weight in zip(members, weights, strict=True):
        result = member.result
        for group, value in member.contributions.items():
            name = f"{result.benchmark} {result.dimension} {group}"
            contributions[name] = weight * value / n_members
        weighted_differences.append(result.difference.scaled(weight))
        weighted_raw_differences.append((member.raw or result.difference).scaled(weight))
    test = sign_flip_test(list(contributions.values()))
    difference, p = agree_with_test(mean_of_estimates(weighted_differences), test)

    first_result = results[0]
    suites = {result.suite for result in results}
    least_by_reading = [result.least_by_reading for result in results]
    most_by_reading = [result.most_by_reading for result in results]
    mean_difference = PairedDifference(
        first=first_result.first,
        second=first_result.second,
        benchmark=OVERALL,
        dimension=dimension,
        suite=first_result.suite if len(suites) == 1 else "",
        protocol=first_result.method,
        method=first_result.method,
        metric=metrics[0] if len(metrics) == 1 else first_row.scale,
        first_value=_weighted([result.first_value for result in results], weights),
        second_value=_weighted([result.second_value for result in results], weights),
        difference=difference,
        p=p,
        only_one_has_value=sum(result.only_one_has_value for result in results),
        unit=first_row.unit,
        better=first_row.better,
        least_by_reading=_mean_by_reading(results, weights, least_by_reading),
        most_by_reading=_mean_by_reading(results, weights, most_by_reading),
        same_replies=all(result.same_replies for result in results),
    )
    return Paired(
        result=mean_difference,
        spec=members[0].spec,
        contributions=contributions,
        raw=mean_of_estimates(weighted_raw_differences),
        missing_in_first=sum(member.missing_in_first for member in members),
    )


def _mean_by_reading(
    results: Sequence[PairedDifference], weights: Sequence[float], ends: Sequence[float | None]
) -> float | None:
    """Return the least or the greatest mean difference that unsure readings allow; None if no reading is unsure.

    Args:
        results: The difference on each benchmark.
        weights: The weight of each benchmark; 1 on average.
        ends: The least (or the greatest) difference on each benchmark; None for one without unsure readings, whose
            difference is used as it is.
    """
    if all(end is None for end in ends):
        return None
    values = [
        result.difference.value if end is None else end
        for result, end in zip(results, ends, strict=True)
    ]
    return _weighted(values, weights)


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float:
    """Return the weighted mean of some values. The weights are 1 on average, and None counts as 0."""
    products: list[float] = []
    for value, weight in zip(values, weights, strict=True):
        products.append(weight * (value or 0.0))
    return math.fsum(products) / len(values)
