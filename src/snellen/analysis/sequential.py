"""What a run that a rule stopped knows of whole benchmarks: intervals that hold whenever it stopped.

Confidence sequences by betting, for the mean of a benchmark whose pictures are asked in a random order.

Waudby-Smith and Ramdas (2023), "Estimating means of bounded random variables by betting", JRSS-B 86(1): sections 4
(hedged capital) and 5 (sampling without replacement). A picture is drawn as a whole, so its questions may depend on
each other in any way. With its number of questions n_g and the sum of their values t_g in [0, n_g], the mean over all
questions is the m at which sum_g (t_g - m n_g) = 0 over all P pictures: a ratio, so pictures may have different sizes.

Who bets against m that the mean is greater has the capital

    K_t(m) = prod_{i <= t} (1 + lambda_i D_i(m)),   D_i(m) = Z_i + (Z_1 + ... + Z_{i-1}) / (P - i + 1),
    Z_i = t_i - m n_i

At the true m, D_i has mean zero given what was drawn before, so the capital is a martingale and exceeds 2 / alpha,
ever, with probability alpha / 2 at most (Ville). It decreases in m, so the m that are not ruled out begin at one bound.
The bet on a smaller mean is the same with 1 - value. What is certain is used too: questions not asked are 0 to 1 each.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from snellen.analysis.headline import protocol_preference
from snellen.analysis.question_means import mean_estimate
from snellen.building.benchmark import RandomPart, picture_order
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE, MetricRow, declared, find_metric, metric_of
from snellen.records import Method, Score
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, run_labels

LEAST_POINTS, MOST_POINTS = 0.1, 50.0
"""Half widths of a share in percentage points that are taken for what they say."""
DECIDED = "decided"
_TEXT = re.compile(r"\s*([\w.-]+)\s*(?:±|\+/?-)\s*([0-9]*\.?[0-9]+)\s*(?:%|points?)?\s*")
_FORM = "write a metric and how well it is to be known, in percentage points: 'accuracy ±2' (or 'accuracy +-2')"


class StoppingRule(Struct, frozen=True):
    """A row of a metric within bounds, and how wide its interval may be at the end."""

    row: MetricRow
    half_width: float | None
    """In the unit of the values: 0.02 for two percentage points; None where another run decides."""

    @property
    def metric(self) -> str:
        return self.row.name

    @property
    def low(self) -> float:
        """The least value."""
        return self.row.low or 0.0

    @property
    def span(self) -> float:
        """The greatest value less the least."""
        return (self.row.high or 0.0) - self.low


def width_rule(text: str) -> StoppingRule:
    """The rule that a text says. Raises DataError for another text, or a metric that is not a mean of bounded values,
    and UnknownNameError for one that nobody has."""
    if (match := _TEXT.fullmatch(text)) is None:
        raise DataError(f"--until {text!r}: {_FORM}")
    metric, width = match[1], float(match[2])
    row = bounded_row(metric, f"--until {text!r}")
    return StoppingRule(row, margin_in_unit(row, width, f"--until {text!r}"))


def margin_in_unit(row: MetricRow, margin: float, where: str) -> float:
    """A margin as a user writes it, percentage points for a share, in the unit of the values. Raises DataError for one
    that is not positive or of a share hardly meant."""
    if row.unit != SHARE:
        if margin <= 0:
            raise DataError(f"{where}: {margin:g} is not a margin; give a number above 0")
        return margin
    if not LEAST_POINTS <= margin <= MOST_POINTS:
        suggestion = (
            f"; {100 * margin:g} points are ±{100 * margin:g}" if 0 < margin < LEAST_POINTS else ""
        )
        raise DataError(
            f"{where}: {margin:g} percentage points are not within {LEAST_POINTS:g} and {MOST_POINTS:g}{suggestion}"
        )
    return margin / 100


def rule_of(text: str) -> StoppingRule:
    """The rule that a run keeps: of a width, or `accuracy decided`."""
    metric, _, criterion = text.partition(" ")
    return (
        StoppingRule(bounded_row(metric, text), None) if criterion == DECIDED else width_rule(text)
    )


def decision_rule(metric: str) -> str:
    """The text of the rule by which two runs of one metric are stopped."""
    return f"{bounded_row(metric, f'--sequential by {metric}').name} {DECIDED}"


def bounded_row(name: str, where: str) -> MetricRow:
    """The row of a metric that is a mean of values within bounds. Raises UnknownNameError, DataError."""
    metric = metric_of(name) or find_metric(name)
    row = declared(name) if metric_of(name) else metric.rows[0]
    if row.low is None or row.high is None:
        raise DataError(
            f"{where}: {name} declares no bounds, so no interval holds whenever one stops; take another"
        )
    if metric.computed_over == "corpus":
        raise DataError(
            f"{where}: the values of {name} depend on all replies, also on those that are not there yet"
        )
    if row.interval not in ("proportion", "mean"):
        raise DataError(
            f"{where}: {name} is not a mean over questions, so no interval holds whenever one stops"
        )
    return row


# --- confidence sequences ---------------------------------------------------------------------------------------------


ALPHA = 0.05
BOLDNESS = 0.75
"""The share of the capital that a bet may lose."""
PRECISION = 1e-6
PRIOR_SPREAD = 0.25
"""Variance of a value that is taken before any is known: the greatest that a value in [0, 1] can have."""


class DrawnPicture(Struct, frozen=True):
    """What one picture showed: the sum of its values, each in [0, 1], between two bounds where some are not known."""

    size: int
    """Questions that have a value, or may have one."""
    least: float
    greatest: float


class PopulationCounts(Struct, frozen=True):
    """What is known of all pictures before any is asked."""

    pictures: int
    questions: int
    largest: int
    """Most questions of a picture."""


class _Step(Struct, frozen=True):
    """One picture with what was known before it was drawn."""

    size: int
    total: float
    remaining: int
    """Pictures not drawn before, this one among them."""
    drawn: float
    """Questions of the pictures before."""
    sum: float
    """Their total."""
    bets: tuple[float, ...]
    """One for each aim, before it is held back."""


def sequence_interval(
    draws: Sequence[DrawnPicture], population: PopulationCounts, aims: Sequence[float]
) -> tuple[float, float]:
    """The means in [0, 1] that pictures drawn in a random order do not rule out.

    Looked at after every picture, the intervals hold the mean of the whole benchmark all at once with probability
    1 - ALPHA. Bets are such that a mean off by one of `aims` is ruled out soonest. When all pictures are drawn the
    interval is the mean itself. Without draws it is (0, 1).
    """
    size = sum(draw.size for draw in draws)
    if not size:
        return 0.0, 1.0
    least, greatest = sum(draw.least for draw in draws), sum(draw.greatest for draw in draws)
    n_asked = (
        size + max(0, population.questions - size) if len(draws) < population.pictures else size
    )
    floor, ceiling = least / n_asked, (greatest + n_asked - size) / n_asked
    below = Bets([(draw.size, draw.least) for draw in draws], population, aims)
    above = Bets([(draw.size, draw.size - draw.greatest) for draw in draws], population, aims)
    low = _first_possible(below, floor, least / size)
    return low, 1 - _first_possible(above, 1 - ceiling, 1 - greatest / size)


class Bets:
    """Bets that the mean is greater than what is said, on pictures in the order in which they were drawn.

    `totals` are the number of questions of each, and the sum of their values. The bets depend on the pictures before
    alone. Against a mean that is off by a, D_i has the mean a n P / (P - i + 1), where n is the mean size; the best bet
    is that by the variance of t_g - m n_g, which is estimated with the mean so far.
    """

    def __init__(
        self,
        totals: Sequence[tuple[int, float]],
        population: PopulationCounts,
        aims: Sequence[float],
    ) -> None:
        self._steps: list[_Step] = []
        self._largest, self._aims = population.largest, len(aims)
        squares, questions_drawn, total = 0.0, 0.0, 0.0
        for i, (size, value) in enumerate(totals):
            remaining = population.pictures - i
            mean_size = (population.questions / population.pictures + questions_drawn) / (1 + i)
            variance = (PRIOR_SPREAD * mean_size**2 + squares) / (1 + i)
            drift = mean_size * population.pictures / remaining
            bets = tuple(aim * drift / variance for aim in aims)
            self._steps.append(_Step(size, value, remaining, questions_drawn, total, bets))
            questions_drawn, total = questions_drawn + size, total + value
            squares += (value - size * (total + 0.5) / (questions_drawn + 1)) ** 2

    def log_capital(self, mean: float) -> float:
        """Log of what became of a capital of 1."""
        logs = deque(self._logs(mean), maxlen=1)
        return _log_of_mean(logs[0]) if logs else 0.0

    def path(self, mean: float) -> Iterator[float]:
        """The same after each picture."""
        return map(_log_of_mean, self._logs(mean))

    def _logs(self, mean: float) -> Iterator[list[float]]:
        """By aim, after each picture; the same list again and again."""
        logs, largest = [0.0] * self._aims, self._largest
        for step in self._steps:
            before = (step.sum - mean * step.drawn) / step.remaining
            gain = step.total - mean * step.size + before
            worst = mean * largest - before
            most = BOLDNESS / worst if worst > 0 else math.inf
            for k, bet in enumerate(step.bets):
                logs[k] += math.log1p(min(bet, most) * gain)
            yield logs


def _log_of_mean(logs: Sequence[float]) -> float:
    """The log of the mean of exp: the capital is spread evenly over the aims."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(log - top) for log in logs) / len(logs))


def _first_possible(bets: Bets, floor: float, mean: float) -> float:
    """The least mean that the bets have not ruled out, between what is certain and the mean of the draws."""
    most = math.log(2 / ALPHA)
    if mean <= floor or bets.log_capital(floor) < most:
        return floor
    low, high = floor, mean
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if bets.log_capital(middle) >= most else (low, middle)
    return low


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
    def is_open(self) -> bool:
        """Whether the rule wants more pictures than were asked."""
        width = rule_of(self.part.rule).half_width
        is_wide = self.part.awaits_verdict if width is None else self.half_width > width
        return is_wide and not self.part.is_whole

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


def open_by_width(run: ScoredRun) -> list[str]:
    """The benchmarks of which not all is asked and not enough is known by the rule that stops the run at a width."""
    return list(
        dict.fromkeys(
            estimate.benchmark
            for estimate in sequential_estimates(run)
            if estimate.is_open and not estimate.part.awaits_verdict
        )
    )


def parts_of(run: ScoredRun) -> dict[str, RandomPart]:
    """The parts that rules have let a run ask, by benchmark."""
    return {
        use.name: use.part for use in run.manifest.benchmarks if isinstance(use.part, RandomPart)
    }


def _estimates(scored: ScoredBenchmark, part: RandomPart) -> Iterator[SequentialEstimate]:
    rule = rule_of(part.rule)
    aims = AIMS if rule.half_width is None else (rule.half_width / rule.span,)
    n_asked = sum(len(sample.rounds) for sample in scored.samples.values())
    for (protocol, method), scores in scores_of(scored, rule.metric).items():
        values = [score.value for score in scores.values() if score.value is not None]
        draws = drawn_pictures(scored, part, bounds_of_questions(scores, rule))
        low, high = sequence_interval(draws, population_of(part), aims)
        yield SequentialEstimate(
            scored.spec.name,
            protocol,
            method,
            rule.metric,
            rule.row.unit,
            mean_estimate(scored, list(scores.values()), rule.metric).value,
            _unscaled(low, rule),
            _unscaled(high, rule),
            len(values),
            part,
            n_asked,
        )


def scores_of(scored: ScoredBenchmark, metric: str) -> dict[tuple[str, Method], dict[Key, Score]]:
    """The scores of one metric by protocol and question, without questions whose answer is hidden."""
    scores: dict[tuple[str, Method], dict[Key, Score]] = defaultdict(dict)
    for score in scored.scores_of(metric):
        if score.reason not in NO_VALUE:
            scores[score.protocol, score.method][score.sample_id, score.turn] = score
    return scores


def bounds_of_questions(
    scores: Mapping[Key, Score], rule: StoppingRule
) -> dict[Key, tuple[float, float]]:
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
        group: []
        for group in picture_order((sample.group for sample in scored.samples.values()), part.seed)
    }
    for (sample_id, _), bound in bounds.items():
        members[scored.samples[sample_id].group].append(bound)
    return [_drawn(values) for values in members.values()]


def _drawn(values: Iterable[tuple[float, float]]) -> DrawnPicture:
    values = list(values)
    return DrawnPicture(len(values), sum(low for low, _ in values), sum(high for _, high in values))


def population_of(part: RandomPart) -> PopulationCounts:
    return PopulationCounts(part.of, part.questions, part.largest)


# --- which of two models is better, where both were asked the same random part ----------------------------------------


Verdict = Literal["first", "second", "equivalent", "equal", "undecided"]


class SequentialDifference(SequentialEstimate, frozen=True, kw_only=True):
    """How much higher the first model scores than the second, with an interval for the whole benchmark.

    `n` counts questions that have a value in both runs, `asked` those asked of each model.
    """

    first: str
    second: str
    verdict: Verdict
    """Which is better; `equal` for a benchmark asked to its end, `equivalent` within the margin that was given."""


def sequential_differences(
    first: ScoredRun, second: ScoredRun, equivalent: Mapping[str, float] = MappingProxyType({})
) -> list[SequentialDifference]:
    """The difference on each benchmark of which both runs were asked the same part, by the preferred protocol of each
    method. `equivalent` is by benchmark the greatest difference that does not matter, in the unit of the values; 0, or
    none, where any matters."""
    labels, parts = run_labels([first, second]), parts_of(first)
    by_name = {scored.spec.name: scored for scored in second.benchmarks}
    return [
        difference
        for scored in first.benchmarks
        if (part := parts.get(scored.spec.name)) is not None
        and part == parts_of(second).get(scored.spec.name)
        for difference in _differences(
            (labels[0], labels[1]),
            (scored, by_name[scored.spec.name]),
            part,
            equivalent.get(scored.spec.name, 0.0),
        )
    ]


def _differences(
    labels: tuple[str, str],
    pair: tuple[ScoredBenchmark, ScoredBenchmark],
    part: RandomPart,
    equivalent: float,
) -> Iterator[SequentialDifference]:
    rule = rule_of(part.rule)
    first, second = (scores_of(scored, rule.metric) for scored in pair)
    n_asked = sum(len(sample.rounds) for sample in pair[0].samples.values())
    shared = sorted(first.keys() & second.keys(), key=lambda key: protocol_preference(key[0]))
    preferred = {method: (protocol, method) for protocol, method in reversed(shared)}
    for protocol, method in preferred.values():
        own_scores, rival_scores = first[protocol, method], second[protocol, method]
        gaps = {
            key: (own_scores[key].value or 0.0) - (rival_scores[key].value or 0.0)
            for key in own_scores.keys() & rival_scores.keys()
            if own_scores[key].value is not None and rival_scores[key].value is not None
        }
        bounds = _difference_bounds(
            bounds_of_questions(own_scores, rule), bounds_of_questions(rival_scores, rule)
        )
        aims = tuple(
            dict.fromkeys(
                [aim / 2 for aim in (*([equivalent / rule.span] if equivalent else []), *AIMS)]
            )
        )
        shares = sequence_interval(drawn_pictures(pair[0], part, bounds), population_of(part), aims)
        low, high = (rule.span * (2 * share - 1) for share in shares)
        yield SequentialDifference(
            pair[0].spec.name,
            protocol,
            method,
            rule.metric,
            rule.row.unit,
            sum(gaps.values()) / len(gaps) if gaps else None,
            low,
            high,
            len(gaps),
            part,
            n_asked,
            first=labels[0],
            second=labels[1],
            verdict=_verdict(low, high, rule, part, equivalent),
        )


def _difference_bounds(
    first: dict[Key, tuple[float, float]], second: dict[Key, tuple[float, float]]
) -> dict[Key, tuple[float, float]]:
    """Of each question that counts in both runs, the least and the greatest difference, from -1 and 1 to 0 and 1."""
    return {
        key: ((1 + first[key][0] - second[key][1]) / 2, (1 + first[key][1] - second[key][0]) / 2)
        for key in sorted(first.keys() & second.keys())
    }


def _verdict(
    low: float, high: float, rule: StoppingRule, part: RandomPart, equivalent: float
) -> Verdict:
    better, worse = (low, high) if rule.row.better != "lower" else (-high, -low)
    rounding = 1e-9 * rule.span
    if equivalent and -equivalent <= low and high <= equivalent:
        return "equivalent"
    if better > rounding:
        return "first"
    if worse < -rounding:
        return "second"
    return "equal" if part.is_whole and high - low <= 2 * rounding else "undecided"
