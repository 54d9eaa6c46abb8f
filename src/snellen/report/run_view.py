"""Runs as a report sees them: each under its own label, with its rows indexed and split by method."""

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
    ALL,
    HEADLINE,
    benchmark_weights,
    counted_alike,
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
    declared,
    of_answered,
    unit_multiplier,
)
from snellen.protocols.base import labelled_declaration
from snellen.reasons import word_reason
from snellen.records import METHODS, Estimate, MeanOver, Method, Prediction, Result, Score
from snellen.report.table import percent
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
    """Presentations whose reply addresses its grader; they are read like any other."""
    unscored: Counter[str] = msgspec.field(default_factory=Counter)
    """Questions without a value of their first metric, by reason."""

    def add(self, prediction: Prediction) -> None:
        """Count one presentation."""
        self.presentations += 1
        self.to_grader += bool(prediction.addresses_grader)
        if prediction.error:
            self.errors[prediction.error.kind] += 1
        elif prediction.choice is None and prediction.text is None:
            self.unparsed[prediction.reason or ""] += 1
        else:
            self.read += 1


class RotationCounts(Struct, frozen=True):
    """CircularEval rotations presented, out of all that the questions have."""

    presented: int
    total: int

    @property
    def avoided(self) -> int:
        return self.total - self.presented


def question_metric(scored: ScoredBenchmark, has_options: bool) -> str:
    """The first metric of a question: accuracy if it has options."""
    return "accuracy" if has_options else first_text_metric(scored.spec)


def count_replies(run: ScoredRun) -> list[ReplyCounts]:
    """One record per protocol, in the run's order."""
    counts = {protocol: ReplyCounts(protocol) for protocol in run.manifest.protocols}
    for scored in run.benchmarks:
        for protocol_counts in counts.values():
            _count_questions(scored, protocol_counts)
        for prediction in scored.predictions:
            if prediction.protocol in counts:
                counts[prediction.protocol].add(prediction)
    return list(counts.values())


def _count_questions(scored: ScoredBenchmark, counts: ReplyCounts) -> None:
    questions: set[tuple[str, int]] = set()
    for (protocol, _, metric), scores in scored.score_rows.items():
        if protocol != counts.protocol:
            continue
        for score in scores:
            questions.add((score.sample_id, score.turn))
            if score.value is None and metric == _own_metric(scored, score):
                counts.unscored[word_reason(score.reason, score.detail)] += 1
    counts.questions += len(questions)


class ReplyTotals(Struct, frozen=True):
    """Replies of one run, each counted once, however many protocols share it."""

    with_options: int
    """Replies to questions with options."""
    unparsed: int
    """Those that name no option."""


def count_once(run: ScoredRun) -> ReplyTotals:
    """Each reply to a question with options once: a presentation that two protocols have in common is one request."""
    replies, unparsed = set[tuple[str, str]](), set[tuple[str, str]]()
    for scored in run.benchmarks:
        for prediction in scored.predictions:
            asked_by = (
                f"{scored.spec.name} {prediction.sample_id}"
                if run.manifest.answers_by_sample
                else ""
            )
            key = prediction.key, asked_by
            if (
                prediction.error is None
                and prediction.method == "generation"
                and prediction.text is None
            ):
                replies.add(key)
                if prediction.choice is None:
                    unparsed.add(key)
    return ReplyTotals(len(replies), len(unparsed))


def was_asked(scored: ScoredBenchmark) -> bool:
    """Whether any of its questions was asked, which a protocol may be unable to, or a stopped run has not come to."""
    return len(scored.predictions) > 0


def _own_metric(scored: ScoredBenchmark, score: Score) -> str:
    return question_metric(scored, bool(scored.samples[score.sample_id].rounds[score.turn].options))


def count_rotations(run: ScoredRun) -> RotationCounts | None:
    """Rotations of the questions that were started; None without a circular protocol."""
    labels = run.manifest.protocols
    circular = {
        label: declaration
        for label in labels
        if (declaration := labelled_declaration(label)).circular
    }
    if not circular:
        return None
    presented = total = 0
    for scored in run.benchmarks:
        tests = Counter(
            (p.protocol, p.sample_id) for p in scored.predictions if p.protocol in circular
        )
        presented += sum(tests.values())
        total += sum(
            circular[protocol].n_presentations(scored.samples[sample]) for protocol, sample in tests
        )
    return RotationCounts(presented, total)


# --- views -----------------------------------------------------------------------------------------------------------


CHOICE_ROWS = tuple(
    row.name for metric in CHOICE_METRICS for row in metric.rows if not row.secondary_to
)
"""The metric rows of every question with options, in the order of the tables."""


OVER: dict[MeanOver, str] = {
    "dimensions": "mean of the dimensions",
    "benchmarks": "mean over benchmarks",
    "questions": "over all questions",
}


OF_UNBIASED = ("accuracy", "hit_rate", "unparsed_rate")
"""Rows over the presentations that no earlier reply has decided."""


def is_of_first_alone(metric: str, protocol: str) -> bool:
    """Whether a row is of each question's first presentation, though its protocol has several."""
    declared = labelled_declaration(protocol)
    return metric in OF_UNBIASED and declared.unbiased == (0,) and declared.presentations != 1


class RunView(Struct, frozen=True, dict=True):
    """One run and its rows, which carry its label (`run_labels`) as model name."""

    label: str
    run: ScoredRun
    rows: tuple[Result, ...]

    @cached_property
    def replies_to_grader(self) -> list[Prediction]:
        """Predictions of the replies that speak to whoever grades them; found in one pass, as several tables ask."""
        predictions = chain.from_iterable(scored.predictions for scored in self.run.benchmarks)
        return [prediction for prediction in predictions if prediction.addresses_grader]

    @cached_property
    def results_by_key(self) -> dict[tuple[str, str, str, str, str], Result]:
        """(protocol, metric, benchmark, dimension of a mean, slice) -> result."""
        return {
            (
                row.protocol,
                row.metric,
                row.benchmark,
                row.dimension if row.benchmark == ALL else "",
                row.slice,
            ): row
            for row in self.rows
        }

    @cached_property
    def benchmark_counts(self) -> Counter[tuple[str, str]]:
        """(protocol, metric) -> number of benchmarks that have a value."""
        return Counter(
            (row.protocol, row.metric)
            for row in self.rows
            if not row.slice and row.benchmark != ALL and row.estimate.value is not None
        )

    @cached_property
    def headlines(self) -> dict[Method, dict[str, Result]]:
        """The row that stands for each benchmark, by method and name of the benchmark."""
        by_method = headline_rows(self.run, self.rows)
        return {method: {row.benchmark: row for row in rows} for method, rows in by_method.items()}

    @cached_property
    def reply_counts(self) -> list[ReplyCounts]:
        """One record per protocol, in the run's order."""
        return count_replies(self.run)

    @cached_property
    def substitutes(self) -> dict[str, str]:
        """Row -> the row that replaces it in tables of a run scored as published."""
        rules = [scored.published for scored in self.run.benchmarks if scored.published]
        return {row: substitute for rule in rules for row, substitute in rule.instead.items()}

    @property
    def method_rows(self) -> list[ModelMethodRow]:
        """One row for each method under which the run has results."""
        methods = {row.protocol: row.method for row in self.rows}
        return [
            ModelMethodRow(
                self,
                method,
                tuple(
                    sorted((p for p, m in methods.items() if m == method), key=protocol_preference)
                ),
            )
            for method in METHODS
            if method in methods.values()
        ]

    def benchmark(self, name: str) -> ScoredBenchmark | None:
        return next((scored for scored in self.run.benchmarks if scored.spec.name == name), None)


class HeadlineEstimate(Struct, frozen=True):
    """An estimate and the protocol it comes from; with secondary estimates where replies were unparsed."""

    protocol: str
    estimate: Estimate
    unit: str = ""
    reason: str = ""
    """Why there is no value, if the estimate's counts do not say."""
    secondary: tuple[tuple[str, Estimate], ...] = ()
    """Secondary estimates with their labels."""
    over: MeanOver = ""
    """What counts alike in it, where it is of several benchmarks."""
    members: str = ""
    """The benchmarks in it, with the part of their questions that was asked."""
    partial: str = ""
    """What of all that its suites name is not in it."""


class ModelMethodRow(Struct, frozen=True, dict=True):
    """One model under one method; `protocols` are in order of preference."""

    view: RunView
    method: Method
    protocols: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.view.label}, {self.method}"

    @property
    def headlines(self) -> Mapping[str, Result]:
        """The row that stands for each benchmark, by its name."""
        return self.view.headlines.get(self.method, {})

    @property
    def headline(self) -> Result | None:
        """The number of the run: the mean of the headlines of its benchmarks."""
        return self.view.results_by_key.get((self.method, HEADLINE, ALL, ALL, ""))

    @cached_property
    def chances(self) -> Mapping[str, float]:
        """What guessing scores in the headline of each benchmark that has such a level."""
        levels: dict[str, float] = {}
        for name, row in self.headlines.items():
            scored = self.view.benchmark(name)
            level = headline_chance(scored, row.metric) if scored else None
            if level is not None and row.unit.startswith(SHARE):
                levels[name] = level * unit_multiplier(row.unit)
        return levels

    @property
    def chance(self) -> float | None:
        """What guessing scores in the number of the run; None if a benchmark in it has no such level."""
        rows = list(self.headlines.values())
        if not rows or any(row.benchmark not in self.chances for row in rows):
            return None
        if self.headline is None or self.headline.detail:  # a sum, or a mean of printed figures
            return None
        scored = [self.view.benchmark(row.benchmark) for row in rows]
        weights = benchmark_weights(
            [each.spec for each in scored if each],
            [row.metric for row in rows],
            [row.estimate.questions for row in rows],
        )
        levels = [self.chances[row.benchmark] for row in rows]
        return math.fsum(map(mul, weights, levels))

    def overall(self, metric: str) -> HeadlineEstimate | None:
        """The mean over all benchmarks, by the protocol that covers most of them (of equals, the preferred one)."""
        metric = self.view.substitutes.get(metric, metric)
        for protocol in self._order(metric):
            if estimates := self._find(protocol, metric, ALL, ALL, ""):
                return estimates
        return None

    def lookup(
        self, metric: str, benchmark: str, dimension: str = "", slice_name: str = ""
    ) -> HeadlineEstimate | None:
        """The estimate of a benchmark, a slice of it, or (benchmark `*`) a dimension; protocol as in `overall`."""
        metric = self.view.substitutes.get(metric, metric)
        for protocol in self._order(metric):
            if estimates := self._find(protocol, metric, benchmark, dimension, slice_name):
                return estimates
        return None

    def _find(self, protocol: str, metric: str, *key: str) -> HeadlineEstimate | None:
        benchmark, dimension, slice_name = key
        numbers = self.view.results_by_key
        result = numbers.get((protocol, metric, benchmark, dimension, slice_name))
        if result is None:
            return None
        secondary = [
            (row.label, numbers[protocol, row.name, benchmark, dimension, slice_name].estimate)
            for row in secondary_rows(metric)
            if (protocol, row.name, benchmark, dimension, slice_name) in numbers
        ]
        # Those of other replies differ from the headline only if something was unparsed, or never came.
        read = as_read(declared(metric))
        number_as_read = numbers.get((protocol, read.name, benchmark, dimension, slice_name))
        if all(
            (estimate.value, estimate.n) == (result.estimate.value, result.estimate.n)
            for _, estimate in secondary
        ):
            secondary.clear()
        if number_as_read:
            secondary.append((read.label, number_as_read.estimate))
        return HeadlineEstimate(
            protocol,
            result.estimate,
            result.unit,
            word_reason(result.reason, result.detail),
            tuple(secondary),
            result.over,
            result.members,
            result.partial,
        )

    def _order(self, metric: str) -> list[str]:
        counts = self.view.benchmark_counts
        return sorted(self.protocols, key=lambda protocol: -counts[protocol, metric])


def secondary_rows(metric: str) -> list[MetricRow]:
    """The secondary rows shown beside a headline row: without what never came, and without what was unparsed."""
    of_choices = (row for choice_metric in CHOICE_METRICS for row in choice_metric.rows)
    beside = [row for row in of_choices if row.secondary_to == metric and row.label]
    return [of_answered(declared(metric)), *beside]


def run_views(runs: Sequence[ScoredRun], rows: Sequence[Result]) -> list[RunView]:
    """A view of each run. `rows` are those of all runs, as `results_of_all` gives them."""
    tables: dict[str, list[Result]] = defaultdict(list)
    for row in rows:
        tables[row.model].append(row)
    return [
        RunView(label, run, tuple(tables[label]))
        for label, run in zip(run_labels(runs), runs, strict=True)
    ]


def common_views(runs: Sequence[ScoredRun]) -> list[RunView]:
    """The runs as if they had asked only the benchmarks that all of them have, so that their means are over the same
    ones; none without such a benchmark."""
    shared = set.intersection(*({scored.spec.name for scored in run.benchmarks} for run in runs))
    if not shared:
        return []
    narrowed = [
        run
        if all(scored.spec.name in shared for scored in run.benchmarks)
        else replace(
            run,
            benchmarks=tuple(b for b in run.benchmarks if b.spec.name in shared),
            kept_rows=None,
        )
        for run in runs
    ]
    return run_views(narrowed, results_of_all(narrowed))


def method_rows(views: Sequence[RunView]) -> list[ModelMethodRow]:
    """Return the rows of all runs, one per method of each."""
    return [line for view in views for line in view.method_rows]


def benchmarks_of(views: Sequence[RunView]) -> list[str]:
    """Names of all benchmarks, ordered by dimension, then as the runs list them."""
    dimensions = {
        scored.spec.name: scored.spec.dimension for view in views for scored in view.run.benchmarks
    }
    return sorted(dimensions, key=lambda name: _place(dimensions[name]))


def pools_of(views: Sequence[RunView]) -> list[str]:
    """Names of the pools of benchmarks that have rows of their own."""
    benchmark_names = dict.fromkeys(
        row.benchmark for view in views for row in view.rows if row.benchmark != ALL
    )
    return [name for name in benchmark_names if all(view.benchmark(name) is None for view in views)]


def overall_label(lines: Sequence[ModelMethodRow]) -> str:
    """Return what has equal weight in the numbers of some runs, as their suites declare it."""
    numbers = [line.headline for line in lines if line.headline]
    return " or ".join(dict.fromkeys(OVER[number.over] for number in numbers if number.over))


def dimensions_of(views: Sequence[RunView]) -> list[str]:
    """The dimensions of all benchmarks in the order of their suites; those of unknown suites come last."""
    dimensions = {
        scored.spec.dimension
        for view in views
        for scored in view.run.benchmarks
        if scored.spec.dimension
    }
    return sorted(dimensions, key=lambda name: (_place(name), name))


def _place(dimension: str) -> int:
    titles = list(dimension_titles())
    return titles.index(dimension) if dimension in titles else len(titles)


def mean_chance(benchmarks: Sequence[ScoredBenchmark]) -> float | None:
    """The chance level of a mean over benchmarks, or over their questions where the suites say that these count
    alike."""
    guessed = [
        (scored, level) for scored in benchmarks if (level := scored.chance_accuracy) is not None
    ]
    if not guessed:
        return None
    by_questions = counted_alike(scored.spec for scored, _ in guessed) == "questions"
    weights = [scored.n_with_options if by_questions else 1 for scored, _ in guessed]
    return math.fsum(
        weight * level for weight, (_, level) in zip(weights, guessed, strict=True)
    ) / sum(weights)


def chance_levels(
    views: Sequence[RunView], is_meant: Callable[[BenchmarkSpec], bool]
) -> dict[str, float]:
    """For each run, by its label, the level of guessing over those of its benchmarks that are meant; runs that were
    asked no choice of them are left out."""
    levels = {
        view.label: mean_chance(
            [s for s in view.run.benchmarks if was_asked(s) and is_meant(s.spec)]
        )
        for view in views
    }
    return {label: level for label, level in levels.items() if level is not None}


def common_chance(levels: Mapping[str, float]) -> float | None:
    """The level that all runs share as it is shown; None where they were asked what is guessed differently."""
    return (
        next(iter(levels.values()))
        if len({percent(level) for level in levels.values()}) == 1
        else None
    )


def each_choice_benchmark(view: RunView) -> Iterator[ScoredBenchmark]:
    for scored in view.run.benchmarks:
        if scored.chance_accuracy is not None:
            yield scored
