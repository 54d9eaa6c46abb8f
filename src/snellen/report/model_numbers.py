"""The numbers of each model that the sentences of a report are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.capability import CAPABILITY
from snellen.analysis.headline import HEADLINE, OVERALL, headline_metrics
from snellen.analysis.paired.comparison import is_instrument
from snellen.metrics.declaration import SHARE
from snellen.protocols.base import labelled_declaration
from snellen.records import Better, Estimate, Method
from snellen.report.number_text import dimension_title
from snellen.report.reported_runs import (
    ModelMethodRow,
    ReportedRun,
    benchmarks_with_options,
    dimensions_of,
    mean_chance,
)

RECORDED_VERDICT = "recorded_verdict"
RIGHT_OR_WRONG_METRICS = (
    "accuracy",
    "overall_accuracy",
    "question_score",
    "exact_match",
    "typed_match",
)
"""Rows that say whether a reply is correct, if every question has the value 0 or 1."""


class DimensionShare(Struct, frozen=True):
    """Accuracy of a model in one dimension whose benchmarks all have options, and its chance level."""

    title: str
    estimate: Estimate
    chance: float


class ModelNumbers(Struct, frozen=True):
    """The numbers of one model by one method that sentences are made of."""

    name: str
    method: Method
    metric: str
    """The row of the only benchmark, or of all benchmarks; `headline` for a mean of several rows."""
    headline: Estimate
    """The number of the run."""
    unit: str = SHARE
    chance: float | None = None
    """Chance level of the headline."""
    benchmarks: int = 1
    """Number of benchmarks in the headline; if it has no value, of those with a number of their own."""
    dimensions: tuple[DimensionShare, ...] = ()
    circular: Estimate | None = None
    """Circular accuracy."""
    instability: Estimate | None = None
    unparsed: Estimate | None = None
    """Share of replies from which no option was read."""
    unsure: Estimate | None = None
    """Share of replies that are read with a confidence below 90%."""
    errors: int = 0
    """Questions of the headline that received no reply."""
    is_partial: bool = False
    """Whether the headline covers only part of what the suites name."""
    better: Better = "higher"
    by_benchmark: tuple[tuple[str, Estimate], ...] = ()
    """The headline of each benchmark, if all are shares of which a higher one is better."""
    over: str = "benchmarks"
    """What has equal weight in the headline."""
    counts_replies: bool = False
    """Whether the headline is the share of all questions that were answered correctly."""
    scope: str = ""
    """Which benchmarks numbers of options are of: ` on the 12 of 14 benchmarks with options`; empty for all."""
    unaveraged_metrics: str = ""
    """Names of the metrics that have no common scale, if the run has no number for that reason."""
    share_in_file: float | None = None
    """The share that the file of an imported run itself calls right, if that is far from the headline."""

    @property
    def comparable_value(self) -> float:
        """The headline, negated if a lower one is better."""
        value = self.headline.value or 0.0
        return -value if self.better == "lower" else value


def runs_to_describe(
    reported_runs: Sequence[ReportedRun], *, of_instruments: bool
) -> list[ReportedRun]:
    """Return the runs that the sentences of a report describe.

    Instruments are reference baselines, such as `snellen:oracle`. They are described only if there are no models, or if
    `of_instruments` is true. Runs scored as published are left out, because their numbers have scales of their own.
    """
    models = [
        reported_run
        for reported_run in reported_runs
        if not is_instrument(reported_run.run.manifest)
    ]
    included = models
    if of_instruments or not models:
        included = list(reported_runs)
    return [reported_run for reported_run in included if reported_run.run.convention == "standard"]


def model_numbers(reported_run: ReportedRun) -> Iterator[ModelNumbers]:
    """Yield the numbers of a run by each method that gave any benchmark a value."""
    for model_row in reported_run.method_rows:
        number = model_row.headline
        if number is None or not model_row.headlines:
            continue
        metrics = {row.metric for row in model_row.headlines.values()}
        circular = model_row.overall("circular_accuracy")
        has_circular_share = circular is not None and circular.unit == SHARE
        yield ModelNumbers(
            name=reported_run.label,
            method=model_row.method,
            metric=metrics.pop() if len(metrics) == 1 else HEADLINE,
            headline=number.estimate,
            unit=number.unit,
            chance=model_row.chance,
            benchmarks=len(model_row.headlines),
            dimensions=tuple(_dimension_shares(model_row)),
            circular=circular.estimate if circular and has_circular_share else None,
            instability=_overall_estimate(model_row, "instability"),
            unparsed=_overall_estimate(model_row, "unparsed_rate"),
            unsure=_overall_estimate(model_row, "unsure_rate"),
            errors=number.estimate.errors + number.estimate.absent,
            is_partial=bool(number.partial),
            better=number.better,
            by_benchmark=_benchmark_shares(model_row),
            over=number.over,
            counts_replies=_is_share_of_questions(model_row),
            scope=_option_scope(reported_run),
            unaveraged_metrics=number.detail if number.estimate.value is None else "",
            share_in_file=_contradicting_file_accuracy(model_row),
        )


CONTRADICTING_DIFFERENCE = 0.1
"""How far the share that a file calls right has to be from the headline to contradict it."""
MIN_JUDGED_SHARE = 0.95
"""The share of the replies that a file has to judge for its verdicts to say something of the headline."""


def _contradicting_file_accuracy(model_row: ModelMethodRow) -> float | None:
    """Return the accuracy by the verdicts in an imported file, if Snellen computes a clearly different one.

    A file of replies that another program wrote may say for each reply whether it is correct. If these verdicts give
    another accuracy, the two programs read replies or ground truth in different ways, and the report warns.

    Returns:
        The share of replies that the file calls correct. None if the run has several benchmarks, if the file has
        verdicts on too few replies, or if both accuracies agree.
    """
    headline = model_row.headline
    if len(model_row.headlines) != 1 or headline is None or headline.estimate.value is None:
        return None
    [result] = model_row.headlines.values()
    scored = model_row.reported_run.benchmark(result.benchmark)
    is_comparable = result.unit == SHARE and result.better == "higher"
    if scored is None or not is_comparable or result.metric == RECORDED_VERDICT:
        return None

    answered = [prediction for prediction in scored.predictions if not prediction.error]
    verdicts = [prediction.verdict for prediction in answered if prediction.verdict is not None]
    if not verdicts or len(verdicts) < MIN_JUDGED_SHARE * len(answered):
        return None
    file_accuracy = sum(verdicts) / len(verdicts)
    if file_accuracy in (0.0, 1.0):  # such verdicts say whether requests succeeded
        return None
    # A missing reply is wrong in the headline, and has no verdict here.
    with_missing = sum(verdicts) / len(scored.predictions)
    shares = (file_accuracy, with_missing)
    difference = min(abs(share - headline.estimate.value) for share in shares)
    return file_accuracy if difference >= CONTRADICTING_DIFFERENCE else None


def _overall_estimate(model_row: ModelMethodRow, metric: str) -> Estimate | None:
    number = model_row.overall(metric)
    return None if number is None else number.estimate


def _is_share_of_questions(model_row: ModelMethodRow) -> bool:
    """Return whether the headline of a model is simply the share of questions that it answered correctly.

    That is so if each question has one reply, which is either right or wrong, and if all questions have equal weight.
    Then a sentence can say `A answers 62.5% of the questions correctly`.
    """
    rows = list(model_row.headlines.values())
    if len(rows) > 1:
        mean = model_row.headline
        if mean is None or mean.over != "questions":
            return False
    for row in rows:
        if row.unit != SHARE or row.metric not in RIGHT_OR_WRONG_METRICS:
            return False
        if labelled_declaration(row.protocol).n_unbiased != 1:
            return False
        scored = model_row.reported_run.benchmark(row.benchmark)
        if scored is None:
            return False
        for score in scored.scores_of(row.metric, row.protocol):
            if score.value not in (0.0, 1.0, None):
                return False
    return True


def _option_scope(reported_run: ReportedRun) -> str:
    """Return ` on the 12 of 14 benchmarks with options`, or an empty text if all benchmarks have options."""
    n_benchmarks = len(reported_run.run.benchmarks)
    n_with_options = len(list(benchmarks_with_options(reported_run)))
    if n_with_options == n_benchmarks:
        return ""
    return f" on the {n_with_options} of {n_benchmarks} benchmarks with options"


def _benchmark_shares(model_row: ModelMethodRow) -> tuple[tuple[str, Estimate], ...]:
    """Return the headline number of each benchmark, if they can be compared with each other.

    They can if every one of them is a share and a higher one is better.

    Returns:
        Pairs of the name of a benchmark and its number; an empty tuple if they are not comparable.
    """
    pairs: list[tuple[str, Estimate]] = []
    for result in model_row.headlines.values():
        if result.unit != SHARE or result.better != "higher":
            return ()
        pairs.append((result.benchmark, result.estimate))
    return tuple(pairs)


def _dimension_shares(model_row: ModelMethodRow) -> Iterator[DimensionShare]:
    """Yield the score of a model in each ability dimension that has a chance level.

    Only a dimension whose benchmarks all have accuracy as their headline metric has one.
    """
    for dimension in dimensions_of([model_row.reported_run]):
        benchmarks = [
            scored
            for scored in model_row.reported_run.run.benchmarks
            if scored.spec.dimension == dimension
        ]
        if not all(set(headline_metrics(scored)) == {"accuracy"} for scored in benchmarks):
            continue
        number = model_row.lookup(CAPABILITY, OVERALL, dimension)
        chance = mean_chance(benchmarks)
        if number is None or number.unit != SHARE or number.estimate.value is None:
            continue
        if chance is not None:
            yield DimensionShare(dimension_title(dimension), number.estimate, chance)
