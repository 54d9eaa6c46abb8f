"""What a run that a rule stopped knows of whole benchmarks: intervals that hold whenever it stopped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from snellen.analysis.question_means import mean_estimate
from snellen.analysis.sequential.confidence_sequence import DrawnPicture, PopulationCounts, sequence_interval
from snellen.analysis.sequential.rule import StoppingRule, rule_of
from snellen.building.benchmark import RandomPart, picture_order
from snellen.records import Method, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

AIMS = (0.02, 0.05, 0.1, 0.2)
"""Differences, as shares of the range, that bets aim at where nothing says how wide the interval should be."""
NO_VALUE = ("hidden answer",)
Key = tuple[str, int]
"""Sample and round."""


class SequentialEstimate(Struct, frozen=True):
    """The mean of one metric over the part of a benchmark that was asked, with an interval for the whole benchmark."""

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
    asked: int
    """Questions asked."""

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    @property
    def saved(self) -> float:
        """The share of the questions that was not asked."""
        return 1 - self.asked / self.part.questions if self.part.questions else 0.0


def sequential_estimates(run: ScoredRun) -> list[SequentialEstimate]:
    """One for each benchmark of which a part was asked by a rule, and each protocol that has the rule's metric."""
    parts = parts_of(run)
    return [
        estimate
        for scored in run.benchmarks
        if scored.spec.name in parts
        for estimate in _estimates(scored, parts[scored.spec.name])
    ]


def parts_of(run: ScoredRun) -> dict[str, RandomPart]:
    """The parts that rules have let a run ask, by benchmark."""
    return {use.name: use.part for use in run.manifest.benchmarks if isinstance(use.part, RandomPart)}


def _estimates(scored: ScoredBenchmark, part: RandomPart) -> Iterator[SequentialEstimate]:
    rule = rule_of(part.rule)
    aims = AIMS if rule.half_width is None else (rule.half_width / rule.span,)
    n_asked = sum(len(sample.rounds) for sample in scored.samples.values())
    for (protocol, method), scores in scores_of(scored, rule.metric).items():
        values = [score.value for score in scores.values() if score.value is not None]
        draws = drawn_pictures(scored, part, bounds_of_questions(scores, rule))
        low, high = sequence_interval(draws, population_of(part), aims)
        yield SequentialEstimate(
            scored.spec.name, protocol, method, rule.metric, rule.row.unit,
            mean_estimate(scored, list(scores.values()), rule.metric).value,
            _unscaled(low, rule), _unscaled(high, rule), len(values), part, n_asked,
        )  # fmt: skip


def scores_of(scored: ScoredBenchmark, metric: str) -> dict[tuple[str, Method], dict[Key, Score]]:
    """The scores of one metric by protocol and question, without questions whose answer is hidden."""
    scores: dict[tuple[str, Method], dict[Key, Score]] = defaultdict(dict)
    for score in scored.scores_of(metric):
        if score.reason not in NO_VALUE:
            scores[score.protocol, score.method][score.sample_id, score.turn] = score
    return scores


def bounds_of_questions(scores: Mapping[Key, Score], rule: StoppingRule) -> dict[Key, tuple[float, float]]:
    """The least and the greatest value of each question as shares of the metric's range.

    The value itself; 0 to 1 where no answer came; nothing for a question without a value, which is out of the mean.
    """
    bounds = {}
    for key, score in scores.items():
        if score.value is not None:
            value = scaled(score.value, rule)
            bounds[key] = value, value
        elif score.never_answered:
            bounds[key] = 0.0, 1.0
    return bounds


def scaled(value: float, rule: StoppingRule) -> float:
    """A value as a share of its metric's range, where rounding cannot lead out of it."""
    return min(1.0, max(0.0, (value - rule.low) / rule.span))


def _unscaled(share: float, rule: StoppingRule) -> float:
    return rule.low + rule.span * share


def drawn_pictures(
    scored: ScoredBenchmark, part: RandomPart, bounds: Mapping[Key, tuple[float, float]]
) -> list[DrawnPicture]:
    """The pictures asked, in their random order, with the sums of the least and the greatest values of their questions;
    a picture none of whose questions counts is drawn too."""
    members: dict[str, list[tuple[float, float]]] = {
        group: [] for group in picture_order((sample.group for sample in scored.samples.values()), part.seed)
    }
    for (sample_id, _), bound in bounds.items():
        members[scored.samples[sample_id].group].append(bound)
    return [_drawn(values) for values in members.values()]


def _drawn(values: Iterable[tuple[float, float]]) -> DrawnPicture:
    values = list(values)
    return DrawnPicture(len(values), sum(low for low, _ in values), sum(high for _, high in values))


def population_of(part: RandomPart) -> PopulationCounts:
    return PopulationCounts(part.of, part.questions, part.largest)
