"""Estimates of adaptive runs, with intervals that are valid whenever the run stopped.

An adaptive run evaluates the images of a benchmark in a random order until a rule stops it
(`snellen.analysis.stopping_rules`). Its part is the images evaluated so far. The intervals are about the mean of the
whole benchmark (`snellen.analysis.confidence_sequence`, where the values of all metrics are scaled to [0, 1]).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from snellen.analysis.confidence_sequence import DrawnImage, PopulationCounts, sequence_interval
from snellen.analysis.headline import protocol_preference
from snellen.analysis.question_means import mean_estimate
from snellen.analysis.stopping_rules import StoppingRule, rule_of
from snellen.building.benchmark import RandomPart, image_order
from snellen.records import Method, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

DEFAULT_AIMS = (0.02, 0.05, 0.1, 0.2)
"""Distances from the mean, as shares of the metric's range, to detect if no rule says how narrow an interval should be."""
REASONS_WITHOUT_VALUE = ("hidden answer",)
"""Reasons why a question never has a value, so that it is not part of the mean."""
QuestionKey = tuple[str, int]
"""Id of the sample, and round."""
Bounds = Mapping[QuestionKey, tuple[float, float]]
"""Least and greatest possible value of each question, in [0, 1]."""


class SequentialEstimate(Struct, frozen=True):
    """The mean of a metric over the evaluated part of a benchmark, with an interval for the whole benchmark."""

    benchmark: str
    protocol: str
    method: Method
    metric: str
    unit: str
    value: float | None
    low: float
    high: float
    n: int
    """Questions with a value."""
    part: RandomPart
    questions: int
    """Evaluated questions."""

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    @property
    def is_open(self) -> bool:
        """Whether the rule needs more images than were evaluated."""
        if self.part.is_whole:
            return False
        target = rule_of(self.part.rule).half_width
        if target is None:
            return self.part.awaits_verdict
        return self.half_width > target

    @property
    def saved(self) -> float:
        """Share of the questions that were not evaluated."""
        if not self.part.questions:
            return 0.0
        return 1 - self.questions / self.part.questions


def sequential_estimates(run: ScoredRun) -> list[SequentialEstimate]:
    """Return the estimates of an adaptive run, one for each benchmark and protocol that has the metric of the rule.

    Benchmarks that were not evaluated adaptively have none.
    """
    parts_by_name = parts_of(run)
    estimates: list[SequentialEstimate] = []
    for scored in run.benchmarks:
        evaluated_part = parts_by_name.get(scored.spec.name)
        if evaluated_part is not None:
            estimates += _estimates(scored, evaluated_part)
    return estimates


def open_by_width(run: ScoredRun) -> list[str]:
    """Return the benchmarks of an adaptive run whose interval is still wider than the run's stopping rule allows."""
    names: dict[str, None] = {}
    for estimate in sequential_estimates(run):
        if estimate.is_open and not estimate.part.awaits_verdict:
            names[estimate.benchmark] = None
    return list(names)


def parts_of(run: ScoredRun) -> dict[str, RandomPart]:
    """Return which random part of each benchmark an adaptive run has evaluated, by the name of the benchmark."""
    parts: dict[str, RandomPart] = {}
    for use in run.manifest.benchmarks:
        if isinstance(use.part, RandomPart):
            parts[use.name] = use.part
    return parts


def _estimates(scored: ScoredBenchmark, evaluated_part: RandomPart) -> Iterator[SequentialEstimate]:
    """Yield the current estimate of a benchmark in an adaptive run, one for each protocol.

    An adaptive run evaluates images in random order until an interval is narrow enough. The interval remains valid
    although the run stops because of it.

    Args:
        scored: The benchmark with the scores so far.
        evaluated_part: The random part of its images that was evaluated, and the stopping rule.
    """
    rule = rule_of(evaluated_part.rule)
    # Distances from the mean that the interval should exclude soonest, as shares of the metric's range.
    aims: tuple[float, ...] = DEFAULT_AIMS
    if rule.half_width is not None:
        aims = (rule.half_width / rule.span,)
    n_evaluated = sum(len(sample.rounds) for sample in scored.samples.values())
    for (protocol, method), scores in _scores_by_protocol(scored, rule.metric).items():
        draws = _draws(scored, evaluated_part, _question_bounds(scores, rule))
        low_share, high_share = sequence_interval(draws, _population(evaluated_part), aims)
        yield SequentialEstimate(
            benchmark=scored.spec.name,
            protocol=protocol,
            method=method,
            metric=rule.metric,
            unit=rule.row.unit,
            value=mean_estimate(scored, list(scores.values()), rule.metric).value,
            low=rule.low + rule.span * low_share,
            high=rule.low + rule.span * high_share,
            n=sum(score.value is not None for score in scores.values()),
            part=evaluated_part,
            questions=n_evaluated,
        )


def _scores_by_protocol(
    scored: ScoredBenchmark, metric: str
) -> dict[tuple[str, Method], dict[QuestionKey, Score]]:
    """Return the scores in a metric, by (protocol, method) and then by question.

    Questions without a value that no reply could give them, such as those with a hidden answer, are left out.
    """
    scores: dict[tuple[str, Method], dict[QuestionKey, Score]] = defaultdict(dict)
    for score in scored.scores_of(metric):
        if score.reason in REASONS_WITHOUT_VALUE:
            continue
        question = (score.sample_id, score.turn)
        scores[score.protocol, score.method][question] = score
    return scores


def _question_bounds(scores: Mapping[QuestionKey, Score], rule: StoppingRule) -> Bounds:
    """Return the least and the greatest possible value of each question, as a share of the metric's range.

    If a question has a value, both bounds are that value. If it received no reply, its value could be anything from 0
    to 1. A question without a value for another reason is not part of the mean and is left out.
    """
    bounds: dict[QuestionKey, tuple[float, float]] = {}
    for key, score in scores.items():
        if score.value is not None:
            share = (score.value - rule.low) / rule.span
            share = min(1.0, max(0.0, share))  # rounding may lead out of the range
            bounds[key] = (share, share)
        elif score.never_answered:
            bounds[key] = (0.0, 1.0)
    return bounds


def _draws(scored: ScoredBenchmark, evaluated_part: RandomPart, bounds: Bounds) -> list[DrawnImage]:
    """Return the evaluated images in the random order in which they were drawn.

    Args:
        scored: The benchmark.
        evaluated_part: The random part of its images that was evaluated.
        bounds: The least and the greatest possible value of each question.

    Returns:
        For each image, its number of questions and the sums of both bounds. Images without a question in `bounds` have
        0 questions.
    """
    groups = (sample.group for sample in scored.samples.values())
    bounds_by_group: dict[str, list[tuple[float, float]]] = {}
    for group in image_order(groups, evaluated_part.seed):
        bounds_by_group[group] = []
    for (sample_id, _), question_bounds in bounds.items():
        group = scored.samples[sample_id].group
        bounds_by_group[group].append(question_bounds)

    draws: list[DrawnImage] = []
    for group_bounds in bounds_by_group.values():
        least = sum(low for low, _ in group_bounds)
        greatest = sum(high for _, high in group_bounds)
        draws.append(DrawnImage(len(group_bounds), least, greatest))
    return draws


def _population(evaluated_part: RandomPart) -> PopulationCounts:
    """Return the size of the population that a part was drawn from."""
    return PopulationCounts(
        evaluated_part.total_images, evaluated_part.questions, evaluated_part.largest
    )


# --- which of two models is better, if both evaluated the same random part --------------------------------------------


Verdict = Literal["first", "second", "equivalent", "equal", "undecided"]


class SequentialDifference(SequentialEstimate, frozen=True, kw_only=True):
    """How much higher the first model scores than the second, with an interval for the whole benchmark.

    `n` counts questions with a value in both runs, `questions` those that each model was evaluated on.
    """

    first: str
    second: str
    verdict: Verdict
    """Which model is better; `equivalent` if the difference is within a margin, `equal` if the complete benchmark was
    evaluated and they do not differ."""


def sequential_differences(
    first: ScoredRun, second: ScoredRun, equivalent: Mapping[str, float] = MappingProxyType({})
) -> list[SequentialDifference]:
    """Return the differences between two adaptive runs, on each benchmark of which both evaluated the same images.

    Each method (generation or likelihood) has one difference, under its preferred protocol.

    Args:
        first: A run.
        second: The other run.
        equivalent: For each benchmark, the greatest difference that does not matter, in the unit of the values. By
            default every difference matters.
    """
    first_label, second_label = run_labels([first, second])
    first_parts = parts_of(first)
    second_parts = parts_of(second)
    second_benchmarks = {scored.spec.name: scored for scored in second.benchmarks}
    differences: list[SequentialDifference] = []
    for scored in first.benchmarks:
        name = scored.spec.name
        evaluated_part = first_parts.get(name)
        if evaluated_part is None or evaluated_part != second_parts.get(name):
            continue
        run_pair = _RunPair(
            first_label=first_label,
            second_label=second_label,
            first=scored,
            second=second_benchmarks[name],
            part=evaluated_part,
        )
        differences += _differences(run_pair, equivalent.get(name, 0.0))
    return differences


class _RunPair(Struct, frozen=True):
    """Two runs on the same part of a benchmark."""

    first_label: str
    second_label: str
    first: ScoredBenchmark
    second: ScoredBenchmark
    part: RandomPart


def _differences(run_pair: _RunPair, equivalent: float) -> Iterator[SequentialDifference]:
    """Yield the difference between two adaptive runs on one benchmark, for each method that both have.

    The interval remains valid although a run stops because of it. The difference of each question is scaled from [-1,
    1] to [0, 1] for the computation, and the result is scaled back.

    Args:
        run_pair: The two runs on the benchmark, and the random part of its images that both evaluated.
        equivalent: The greatest difference that does not matter; 0 if every difference matters.
    """
    rule = rule_of(run_pair.part.rule)
    aims = _difference_aims(rule, equivalent)
    n_evaluated = sum(len(sample.rounds) for sample in run_pair.first.samples.values())
    first_scores = _scores_by_protocol(run_pair.first, rule.metric)
    second_scores = _scores_by_protocol(run_pair.second, rule.metric)
    for protocol, method in _preferred_protocols(first_scores.keys() & second_scores.keys()):
        first = first_scores[protocol, method]
        second = second_scores[protocol, method]
        gaps: list[float] = []
        for key in first.keys() & second.keys():
            first_value = first[key].value
            second_value = second[key].value
            if first_value is not None and second_value is not None:
                gaps.append(first_value - second_value)

        bounds = _difference_bounds(_question_bounds(first, rule), _question_bounds(second, rule))
        draws = _draws(run_pair.first, run_pair.part, bounds)
        low_share, high_share = sequence_interval(draws, _population(run_pair.part), aims)
        low = rule.span * (2 * low_share - 1)
        high = rule.span * (2 * high_share - 1)
        yield SequentialDifference(
            benchmark=run_pair.first.spec.name,
            protocol=protocol,
            method=method,
            metric=rule.metric,
            unit=rule.row.unit,
            value=sum(gaps) / len(gaps) if gaps else None,
            low=low,
            high=high,
            n=len(gaps),
            part=run_pair.part,
            questions=n_evaluated,
            first=run_pair.first_label,
            second=run_pair.second_label,
            verdict=_verdict(low, high, rule, run_pair.part, equivalent),
        )


def _preferred_protocols(
    protocols: AbstractSet[tuple[str, Method]],
) -> list[tuple[str, Method]]:
    """Select one protocol for each method.

    Args:
        protocols: Pairs of a protocol and a method, generation or likelihood.

    Returns:
        The pair with the preferred protocol for each method.
    """
    preferred_first = sorted(protocols, key=lambda pair: protocol_preference(pair[0]))
    selected: dict[Method, tuple[str, Method]] = {}
    for protocol, method in reversed(preferred_first):
        selected[method] = (protocol, method)  # the preferred one comes last
    return list(selected.values())


def _difference_aims(rule: StoppingRule, equivalent: float) -> tuple[float, ...]:
    """Return the differences that an adaptive comparison should detect soonest.

    They are shares of the metric's range, divided by two, because differences are scaled from [-1, 1] to [0, 1].
    """
    aims = list(DEFAULT_AIMS)
    if equivalent:
        aims.insert(0, equivalent / rule.span)
    return tuple(dict.fromkeys(aim / 2 for aim in aims))


def _difference_bounds(first: Bounds, second: Bounds) -> Bounds:
    """Return the smallest and the greatest difference that each question of both runs may have, first minus second.

    A question has a smallest and a greatest possible score, because it may have received no reply (`_question_bounds`).
    Scores are in [0, 1]. Their differences are scaled from [-1, 1] to [0, 1], as `sequence_interval` needs them: 0.5
    means no difference.

    Args:
        first: The smallest and the greatest possible score of each question of the first run.
        second: The same of the second run.

    Example: (1, 1) and (0, 0.5) give (0.75, 1), because the difference is between 0.5 and 1.
    """
    bounds: dict[QuestionKey, tuple[float, float]] = {}
    for key in sorted(first.keys() & second.keys()):
        first_low, first_high = first[key]
        second_low, second_high = second[key]
        smallest = (1 + first_low - second_high) / 2
        greatest = (1 + first_high - second_low) / 2
        bounds[key] = (smallest, greatest)
    return bounds


def _verdict(
    low: float, high: float, rule: StoppingRule, evaluated_part: RandomPart, equivalent: float
) -> Verdict:
    """Return which model is better, from the interval of the first minus the second.

    Args:
        low: Lower end of the interval, in the unit of the values.
        high: Upper end.
        rule: The rule with its metric.
        evaluated_part: The evaluated part.
        equivalent: The greatest difference that does not matter; 0 if every difference matters.
    """
    if equivalent and -equivalent <= low and high <= equivalent:
        return "equivalent"
    rounding = 1e-9 * rule.span
    is_above = low > rounding
    is_below = high < -rounding
    if is_above or is_below:
        higher_is_better = rule.row.better != "lower"
        return "first" if is_above == higher_is_better else "second"
    if evaluated_part.is_whole and high - low <= 2 * rounding:
        return "equal"
    return "undecided"
