"""Runs as reports show them: labelled, with their results indexed and split by method."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import mul

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import results_of_all
from snellen.analysis.headline import (
    HEADLINE,
    OVERALL,
    aggregation_unit,
    benchmark_weights,
    first_text_metric,
    headline_chance,
    headline_rows,
    protocol_preference,
)
from snellen.catalogue import BenchmarkSpec, dimension_titles
from snellen.metrics.declaration import (
    SHARE,
    MetricRow,
    as_read,
    declared_row,
    of_answered,
    unit_multiplier,
)
from snellen.protocols.base import Declaration, labelled_declaration
from snellen.reasons import word_reason
from snellen.records import METHODS, Estimate, MeanOver, Method, Prediction, Result
from snellen.report.number_text import percent_text
from snellen.scoring.choice_metrics import CHOICE_METRICS
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels


class ReplyCounts(Struct):
    """Outcomes of one protocol in one run."""

    protocol: str
    questions: int = 0
    presentations: int = 0
    read: int = 0
    unparsed: Counter[str] = msgspec.field(default_factory=Counter)
    """Unparsed presentations by reason."""
    errors: Counter[str] = msgspec.field(default_factory=Counter)
    """Failed presentations by kind of failure."""
    to_grader: int = 0
    """Presentations whose reply addresses its grader. They are read like any other."""
    unscored: Counter[str] = msgspec.field(default_factory=Counter)
    """Questions without a value of their first metric, by reason."""

    def add(self, prediction: Prediction) -> None:
        """Count one reply: as failed, as not readable, or as read."""
        self.presentations += 1
        if prediction.addresses_grader:
            self.to_grader += 1
        if prediction.error:
            self.errors[prediction.error.kind] += 1
        elif prediction.choice is None and prediction.text is None:
            self.unparsed[prediction.reason or ""] += 1
        else:
            self.read += 1


class RotationCounts(Struct, frozen=True):
    """CircularEval rotations that were presented, and the total of the questions."""

    presented: int
    total: int

    @property
    def n_avoided(self) -> int:
        return self.total - self.presented


def question_metric(scored: ScoredBenchmark, has_options: bool) -> str:
    """Return the first metric of a question: accuracy if it has options."""
    return "accuracy" if has_options else first_text_metric(scored.spec)


def count_replies(run: ScoredRun) -> list[ReplyCounts]:
    """Count the replies of a run by protocol: failed, not readable and read ones."""
    counts = {protocol: ReplyCounts(protocol) for protocol in run.manifest.protocols}
    for scored in run.benchmarks:
        for protocol_counts in counts.values():
            _count_questions(scored, protocol_counts)
        for prediction in scored.predictions:
            if prediction.protocol in counts:
                counts[prediction.protocol].add(prediction)
    return list(counts.values())


def _count_questions(scored: ScoredBenchmark, counts: ReplyCounts) -> None:
    """Add the questions of a benchmark to the counts of a protocol, and those without a value by their reason."""
    questions: set[tuple[str, int]] = set()
    for (protocol, _, metric), scores in scored.score_rows.items():
        if protocol != counts.protocol:
            continue
        for score in scores:
            questions.add((score.sample_id, score.turn))
            if score.value is not None:
                continue
            turn = scored.samples[score.sample_id].rounds[score.turn]
            if metric == question_metric(scored, bool(turn.options)):
                counts.unscored[word_reason(score.reason, score.detail)] += 1
    counts.questions += len(questions)


class ReplyTotals(Struct, frozen=True):
    """Replies of one run, each counted once, however many protocols share it."""

    with_options: int
    """Replies to questions with options."""
    unparsed: int
    """Unparsed replies among them."""


def count_distinct_replies(run: ScoredRun) -> ReplyTotals:
    """Count the distinct replies to multiple-choice questions, and those from which no option could be read.

    Two protocols may send the same request. Its reply is then counted once. In some runs the reply also depends on the
    sample, so that equal requests about two samples are different.
    """
    replies: set[tuple[str, str]] = set()
    unparsed: set[tuple[str, str]] = set()
    for scored in run.benchmarks:
        for prediction in scored.predictions:
            is_reply = prediction.error is None and prediction.method == "generation"
            is_open_question = prediction.text is not None
            if not is_reply or is_open_question:
                continue
            sample = ""
            if run.manifest.answers_by_sample:
                sample = f"{scored.spec.name} {prediction.sample_id}"
            reply = (prediction.key, sample)
            replies.add(reply)
            if prediction.choice is None:
                unparsed.add(reply)
    return ReplyTotals(len(replies), len(unparsed))


def has_predictions(scored: ScoredBenchmark) -> bool:
    """Return whether the run has any reading of a reply for a benchmark.

    It has none if no protocol applies to the questions, or if the run was stopped before it came to them.
    """
    return len(scored.predictions) > 0


def count_rotations(run: ScoredRun) -> RotationCounts | None:
    """Count in how many orders of the options the questions of a run were asked, and in how many they should be.

    The circular protocol asks a question with its options in several orders. It may stop a question early.

    Returns:
        Both numbers, summed over the questions that were asked at least once; None if the run has no circular
        protocol.
    """
    circular: dict[str, Declaration] = {}
    for label in run.manifest.protocols:
        declaration = labelled_declaration(label)
        if declaration.circular:
            circular[label] = declaration
    if not circular:
        return None

    presented = 0
    total = 0
    for scored in run.benchmarks:
        presentations: Counter[tuple[str, str]] = Counter()
        for prediction in scored.predictions:
            if prediction.protocol in circular:
                presentations[prediction.protocol, prediction.sample_id] += 1
        presented += presentations.total()
        for protocol, sample_id in presentations:
            total += circular[protocol].n_presentations(scored.samples[sample_id])
    return RotationCounts(presented, total)


# --- runs in a report -----------------------------------------------------------------------------------------------------------


CHOICE_METRIC_NAMES = tuple(
    row.name for metric in CHOICE_METRICS for row in metric.rows if not row.secondary_to
)
"""Metric rows of every question with options, in the order of the tables."""
MEAN_DESCRIPTIONS: dict[MeanOver, str] = {
    "dimensions": "mean of the dimensions",
    "benchmarks": "mean over benchmarks",
    "questions": "over all questions",
}
"""Description of a mean by what has equal weight in it."""


def describe_average(n_benchmarks: int, averaged_over: str) -> str:
    """Return over what a mean was computed, as a part of a sentence.

    If ability dimensions have equal weight, this is said, because such a mean differs from the mean of the
    benchmarks in a table.

    Examples:
        >>> describe_average(3, "dimensions")
        'on average over the dimensions of 3 benchmarks'
        >>> describe_average(3, "benchmarks")
        'on average over 3 benchmarks'
    """
    of_dimensions = "the dimensions of " if averaged_over == "dimensions" else ""
    return f"on average over {of_dimensions}{n_benchmarks} benchmarks"


METRICS_OVER_UNBIASED = ("accuracy", "hit_rate", "unparsed_rate")
"""Rows computed over unbiased presentations, which do not depend on earlier replies."""


def uses_first_presentation_only(metric: str, protocol: str) -> bool:
    """Return whether a metric covers only the first of several presentations of each question.

    A protocol that stops a question after its first wrong reply repeats only questions that were answered correctly.
    Only the first presentation is unbiased by that, so metrics such as accuracy leave out the others.
    """
    declaration = labelled_declaration(protocol)
    is_repeated = declaration.presentations != 1
    is_first_only = declaration.unbiased == (0,)  # indices of the unbiased presentations
    return metric in METRICS_OVER_UNBIASED and is_first_only and is_repeated


ResultKey = tuple[str, str, str, str, str]
"""Protocol, metric, benchmark, dimension (of a mean over benchmarks only), slice."""


class ReportedRun(Struct, frozen=True, dict=True):
    """A run with its results. In the results, the name of the model is the label of the run (`run_labels`)."""

    label: str
    run: ScoredRun
    rows: tuple[Result, ...]

    @cached_property
    def replies_to_grader(self) -> list[Prediction]:
        """Predictions whose reply addresses its grader. Cached, because several tables need them."""
        predictions = chain.from_iterable(scored.predictions for scored in self.run.benchmarks)
        return [prediction for prediction in predictions if prediction.addresses_grader]

    @cached_property
    def results_by_key(self) -> dict[ResultKey, Result]:
        """The results of the run, by (protocol, metric, benchmark, dimension, slice).

        The dimension is empty except for results over several benchmarks.
        """
        results: dict[ResultKey, Result] = {}
        for row in self.rows:
            dimension = row.dimension if row.benchmark == OVERALL else ""
            key = (row.protocol, row.metric, row.benchmark, dimension, row.slice)
            results[key] = row
        return results

    @cached_property
    def benchmark_counts(self) -> Counter[tuple[str, str]]:
        """The number of benchmarks that have a value, by (protocol, metric)."""
        counts: Counter[tuple[str, str]] = Counter()
        for row in self.rows:
            is_of_benchmark = row.benchmark != OVERALL and not row.slice
            if is_of_benchmark and row.estimate.value is not None:
                counts[row.protocol, row.metric] += 1
        return counts

    @cached_property
    def headlines(self) -> dict[Method, dict[str, Result]]:
        """The headline result of each benchmark, by method (generation or likelihood) and then by benchmark."""
        headlines: dict[Method, dict[str, Result]] = {}
        for method, rows in headline_rows(self.run, self.rows).items():
            headlines[method] = {row.benchmark: row for row in rows}
        return headlines

    @cached_property
    def reply_counts(self) -> list[ReplyCounts]:
        """Counts of replies for each protocol, in the order of the run."""
        return count_replies(self.run)

    @cached_property
    def substitutes(self) -> dict[str, str]:
        """By the name of a metric, the metric that takes its place if the run is scored as in a paper."""
        substitutes: dict[str, str] = {}
        for scored in self.run.benchmarks:
            if scored.published:
                substitutes.update(scored.published.instead)
        return substitutes

    @property
    def method_rows(self) -> list[ModelMethodRow]:
        """The results of the run, split by method: one object for generation and one for likelihood, if it has both."""
        protocols_by_method: dict[Method, set[str]] = defaultdict(set)
        for row in self.rows:
            protocols_by_method[row.method].add(row.protocol)
        rows: list[ModelMethodRow] = []
        for method in METHODS:
            if method in protocols_by_method:
                protocols = sorted(protocols_by_method[method], key=protocol_preference)
                rows.append(ModelMethodRow(self, method, tuple(protocols)))
        return rows

    def find_result(
        self, protocol: str, metric: str, benchmark: str, dimension: str = "", slice_name: str = ""
    ) -> Result | None:
        """Return the result of a protocol in a metric; None if the run has no such result.

        Args:
            protocol: The protocol, or a method (generation or likelihood) for the headline of the run.
            metric: Name of the metric row.
            benchmark: The benchmark, or `*` for a mean over benchmarks.
            dimension: The ability dimension of a mean over benchmarks, or `*` for all dimensions.
            slice_name: The part of the benchmark, such as `level=hard`; empty for all its questions.
        """
        return self.results_by_key.get((protocol, metric, benchmark, dimension, slice_name))

    def benchmark(self, name: str) -> ScoredBenchmark | None:
        """Return the benchmark of that name, or None if the run has no such benchmark."""
        return next((scored for scored in self.run.benchmarks if scored.spec.name == name), None)


class HeadlineEstimate(Struct, frozen=True):
    """An estimate and its protocol, with secondary estimates if replies were unparsed."""

    protocol: str
    estimate: Estimate
    unit: str = ""
    reason: str = ""
    """Why there is no value, unless the counts of the estimate say it."""
    secondary: tuple[tuple[str, Estimate], ...] = ()
    """Secondary estimates with their labels."""
    over: MeanOver = ""
    """What has equal weight in a mean over benchmarks."""
    members: str = ""
    """The benchmarks of a mean, with the part of their questions that was evaluated."""
    partial: str = ""
    """What the suites name and a mean does not include."""


class ModelMethodRow(Struct, frozen=True, dict=True):
    """One model under one method; `protocols` are in order of preference.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [reported_run] = prepare_reported_runs(results.runs, results.rows)
        >>> [line] = reported_run.method_rows
        >>> line.lookup("accuracy", "eyechart/colour").estimate.value
        1.0
    """

    reported_run: ReportedRun
    method: Method
    protocols: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.reported_run.label}, {self.method}"

    @property
    def headlines(self) -> Mapping[str, Result]:
        """The headline of each benchmark, by its name."""
        return self.reported_run.headlines.get(self.method, {})

    @property
    def headline(self) -> Result | None:
        """The headline of the run: the mean of those of its benchmarks."""
        return self.reported_run.find_result(self.method, HEADLINE, OVERALL, dimension=OVERALL)

    @cached_property
    def chances(self) -> Mapping[str, float]:
        """The headline number of each benchmark that random guessing is expected to reach, by the name of the
        benchmark.

        Benchmarks without such a level, for example with open questions, are not in it.
        """
        levels: dict[str, float] = {}
        for name, row in self.headlines.items():
            scored = self.reported_run.benchmark(name)
            level = headline_chance(scored, row.metric) if scored else None
            if level is not None and row.unit.startswith(SHARE):
                levels[name] = level * unit_multiplier(row.unit)
        return levels

    @property
    def chance(self) -> float | None:
        """The headline number of the run that random guessing is expected to reach.

        The headline number of a run is a mean over its benchmarks; this is the mean of their chance levels with the
        same weights. It is None if a benchmark has no chance level, or if the headline number is not such a mean,
        but for example a sum.
        """
        headlines = list(self.headlines.values())
        has_level_everywhere = all(row.benchmark in self.chances for row in headlines)
        is_mean_of_run = self.headline is not None and not self.headline.detail
        if not headlines or not has_level_everywhere or not is_mean_of_run:
            return None

        specs: list[BenchmarkSpec] = []
        metrics: list[str] = []
        sizes: list[int] = []
        for row in headlines:
            metrics.append(row.metric)
            sizes.append(row.estimate.questions)
            scored = self.reported_run.benchmark(row.benchmark)
            if scored:
                specs.append(scored.spec)
        weights = benchmark_weights(specs, metrics, sizes)
        levels = [self.chances[row.benchmark] for row in headlines]
        return math.fsum(map(mul, weights, levels))

    def overall(self, metric: str) -> HeadlineEstimate | None:
        """Return the mean over all benchmarks, by the protocol of `lookup`."""
        return self.lookup(metric, OVERALL, OVERALL)

    def lookup(
        self, metric: str, benchmark: str, dimension: str = "", slice_name: str = ""
    ) -> HeadlineEstimate | None:
        """Return the number of this model in a metric.

        A run may have used several protocols. The number is from the protocol that has values of the metric for most
        benchmarks, or from the preferred one of several with equally many. If the run is scored as in a paper, the
        paper's metric may take the place of the given one.

        Args:
            metric: Name of the metric row.
            benchmark: Name of the benchmark, or `*` for a mean over benchmarks.
            dimension: Ability dimension of the mean, or `*` for all dimensions.
            slice_name: Slice of the benchmark, such as `level=hard`.

        Returns:
            The estimate; None if there is none.
        """
        metric = self.reported_run.substitutes.get(metric, metric)
        counts = self.reported_run.benchmark_counts
        for protocol in sorted(self.protocols, key=lambda label: -counts[label, metric]):
            result = self.reported_run.find_result(
                protocol, metric, benchmark, dimension, slice_name
            )
            if result is not None:
                return self._with_secondary(result, protocol, metric, dimension)
        return None

    def _with_secondary(
        self, result: Result, protocol: str, metric: str, dimension: str
    ) -> HeadlineEstimate:
        """Return an estimate together with the secondary estimates that table cells show next to it.

        These are the same metric over parsed replies only, the bounds that unparsed replies leave, and, after an audit, the
        estimate before its correction. They are left out if they are equal to the estimate, which is so unless a reply is
        missing or unparsed.
        """

        def find(metric_row: MetricRow) -> Result | None:
            """Return the result of another metric for the same protocol, benchmark and slice."""
            return self.reported_run.find_result(
                protocol, metric_row.name, result.benchmark, dimension, result.slice
            )

        secondary: list[tuple[str, Estimate]] = []
        any_differs = False
        for metric_row in secondary_rows(metric):
            other = find(metric_row)
            if other is None:
                continue
            secondary.append((metric_row.label, other.estimate))
            is_equal = (
                other.estimate.value == result.estimate.value
                and other.estimate.n == result.estimate.n
            )
            if not is_equal:
                any_differs = True
        if not any_differs:
            secondary.clear()

        uncorrected_row = as_read(declared_row(metric))
        uncorrected = find(uncorrected_row)
        if uncorrected is not None:
            secondary.append((uncorrected_row.label, uncorrected.estimate))
        return HeadlineEstimate(
            protocol=protocol,
            estimate=result.estimate,
            unit=result.unit,
            reason=word_reason(result.reason, result.detail),
            secondary=tuple(secondary),
            over=result.over,
            members=result.members,
            partial=result.partial,
        )


def secondary_rows(metric: str) -> list[MetricRow]:
    """Return the metrics that are shown in the same cell as a headline metric.

    They are the same number without missing replies, and without replies that could not be read.
    """
    rows = [of_answered(declared_row(metric))]
    for choice_metric in CHOICE_METRICS:
        rows += [row for row in choice_metric.rows if row.secondary_to == metric and row.label]
    return rows


def prepare_reported_runs(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[ReportedRun]:
    """Return runs as reports use them: each with its label and its own results.

    Args:
        runs: The runs.
        rows: The results of all runs together, from `results_of_all`. Their `model` is the label of the run.

    Examples:
        >>> from snellen.plugin_api import aggregate_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [reported_run] = prepare_reported_runs(results.runs, aggregate_run(results.runs[0]))
        >>> reported_run.label
        'snellen:oracle'
    """
    rows_by_label: dict[str, list[Result]] = defaultdict(list)
    for row in rows:
        rows_by_label[row.model].append(row)
    reported_runs: list[ReportedRun] = []
    for label, run in zip(run_labels(runs), runs, strict=True):
        reported_runs.append(ReportedRun(label, run, tuple(rows_by_label[label])))
    return reported_runs


def prepare_common_benchmarks(runs: Sequence[ScoredRun]) -> list[ReportedRun]:
    """Prepare runs for a report, with only the benchmarks that all of them have, so that their means are comparable.

    Returns:
        One reported run per run; none if the runs have no benchmark in common.
    """
    names_by_run = [{scored.spec.name for scored in run.benchmarks} for run in runs]
    shared = set.intersection(*names_by_run)
    if not shared:
        return []
    restricted: list[ScoredRun] = []
    for run in runs:
        benchmarks = tuple(scored for scored in run.benchmarks if scored.spec.name in shared)
        if len(benchmarks) < len(run.benchmarks):
            restricted.append(replace(run, benchmarks=benchmarks, stored_rows=None))
        else:
            restricted.append(run)
    return prepare_reported_runs(restricted, results_of_all(restricted))


def method_rows(reported_runs: Sequence[ReportedRun]) -> list[ModelMethodRow]:
    """Return the rows of all runs, one per method of each.

    Examples:
        >>> from snellen.plugin_api import aggregate_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [row.method for row in method_rows(prepare_reported_runs(results.runs, aggregate_run(results.runs[0])))]
        ['generation']
    """
    return [model_row for reported_run in reported_runs for model_row in reported_run.method_rows]


def benchmarks_of(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return the names of all benchmarks of some runs, ordered by ability dimension and then as in the runs."""
    dimension_by_name: dict[str, str] = {}
    for reported_run in reported_runs:
        for scored in reported_run.run.benchmarks:
            dimension_by_name[scored.spec.name] = scored.spec.dimension
    return sorted(dimension_by_name, key=lambda name: _dimension_index(dimension_by_name[name]))


def pools_of(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return the names of the pools that have results in some runs.

    A pool is a set of benchmarks that their suite scores as if they were one. So it has results under a name that
    is not the name of a benchmark.
    """
    names: dict[str, None] = {}
    for reported_run in reported_runs:
        for row in reported_run.rows:
            if row.benchmark != OVERALL:
                names[row.benchmark] = None
    pools = []
    for name in names:
        if all(reported_run.benchmark(name) is None for reported_run in reported_runs):
            pools.append(name)
    return pools


def overall_label(model_rows: Sequence[ModelMethodRow]) -> str:
    """Return what has equal weight in the numbers of some runs, as their suites declare it."""
    headlines = [model_row.headline for model_row in model_rows if model_row.headline]
    labels = dict.fromkeys(
        MEAN_DESCRIPTIONS[headline.over] for headline in headlines if headline.over
    )
    return " or ".join(labels)


def dimensions_of(reported_runs: Sequence[ReportedRun]) -> list[str]:
    """Return the ability dimensions of all benchmarks of some runs, in the order in which their suites list them.

    Dimensions of suites that are not installed come last.
    """
    dimensions: set[str] = set()
    for reported_run in reported_runs:
        dimensions.update(scored.spec.dimension for scored in reported_run.run.benchmarks)
    dimensions.discard("")
    return sorted(dimensions, key=lambda name: (_dimension_index(name), name))


def _dimension_index(dimension: str) -> int:
    titles = list(dimension_titles())
    return titles.index(dimension) if dimension in titles else len(titles)


def mean_chance(benchmarks: Sequence[ScoredBenchmark]) -> float | None:
    """Return the accuracy that random guessing is expected to reach on average over benchmarks.

    Benchmarks have equal weight, or all questions if the suites declare that.

    Returns:
        The mean; None if no benchmark has questions with options.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> from snellen.plugin_api import score_run
        >>> mean_chance(score_run(results.runs[0].folder, sn.ScoringSpec()).benchmarks)
        0.25
    """
    with_options: list[ScoredBenchmark] = []
    levels: list[float] = []
    for scored in benchmarks:
        level = scored.chance_accuracy
        if level is not None:
            with_options.append(scored)
            levels.append(level)
    if not levels:
        return None
    weights = [1] * len(levels)
    if aggregation_unit(scored.spec for scored in with_options) == "questions":
        weights = [scored.n_with_options for scored in with_options]
    return math.fsum(map(mul, weights, levels)) / sum(weights)


def chance_levels(
    reported_runs: Sequence[ReportedRun], is_included: Callable[[BenchmarkSpec], bool]
) -> dict[str, float]:
    """Return the chance level of each run over some of its benchmarks, by the label of the run.

    Runs without a multiple-choice question of these benchmarks are left out.
    """
    levels: dict[str, float] = {}
    for reported_run in reported_runs:
        included = [
            scored
            for scored in reported_run.run.benchmarks
            if has_predictions(scored) and is_included(scored.spec)
        ]
        level = mean_chance(included)
        if level is not None:
            levels[reported_run.label] = level
    return levels


def common_chance(levels: Mapping[str, float]) -> float | None:
    """Return the chance level of all runs, or None if the printed levels differ."""
    printed = {percent_text(level) for level in levels.values()}
    return next(iter(levels.values())) if len(printed) == 1 else None


def benchmarks_with_options(reported_run: ReportedRun) -> Iterator[ScoredBenchmark]:
    """Yield the benchmarks of a run that have a chance level."""
    for scored in reported_run.run.benchmarks:
        if scored.chance_accuracy is not None:
            yield scored
