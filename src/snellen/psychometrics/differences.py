"""Which of two models sees better: the difference of their thresholds, and their answers to the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from snellen.analysis.paired.significance import sign_flip_test
from snellen.psychometrics.acuity_run import AcuityRun, TestAnswers
from snellen.psychometrics.posterior import LEVEL, Interval, Posterior
from snellen.psychometrics.thresholds import LevelScale, Threshold, threshold_of


class SharedAnswers(Struct, frozen=True):
    """The questions that both models were asked."""

    questions: int
    only_first: int
    """Right for the first model alone."""
    only_second: int
    p: float
    """McNemar's exact test of these two."""


class ThresholdDifference(Struct, frozen=True):
    """Two models in one test. Thresholds are taken as independent, which is cautious where both were asked the same
    questions."""

    first: str
    second: str
    benchmark: str
    test: str
    unit: str
    method: str
    is_ratio: bool
    """Whether the difference is the second threshold divided by the first, and not minus it."""
    difference: Interval | None
    """With its 95 % interval; None unless both thresholds lie within the levels."""
    first_better: float
    """The probability that the first model's threshold is at a harder level."""
    shared: SharedAnswers

    @property
    def better(self) -> str:
        """The model that surely sees better (97.5 %, as two-sided at 5 %); empty where neither does."""
        sure = (1 + LEVEL) / 2
        return self.first if self.first_better > sure else self.second if self.first_better < 1 - sure else ""

    @property
    def text(self) -> str:
        """`x 1.8 [1.3, 2.6]`, or `+0.4 [0.1, 0.7]`."""
        if self.difference is None:
            return "only a bound"
        value, low, high = self.difference
        head = f"x {value:.3g}" if self.is_ratio else f"{value:+.3g}"
        return f"{head} [{low:.3g}, {high:.3g}]"


def threshold_differences(runs: list[AcuityRun]) -> Iterator[ThresholdDifference]:
    """Of each two runs, in each test that both were asked by the same method."""
    for first, second in combinations(runs, 2):
        theirs = {(each.benchmark, each.method): each for each in second.answers}
        for answers in first.answers:
            others = theirs.get((answers.benchmark, answers.method))
            if others is not None and answers.test.easier != "neither":
                yield threshold_difference(first.model, second.model, answers, others)


def threshold_difference(first: str, second: str, one: TestAnswers, other: TestAnswers) -> ThresholdDifference:
    """The difference of two models' thresholds in a test."""
    scale = LevelScale.of(one.test)
    grid = scale.grid(one.chance)
    posteriors = [scale.posterior(grid, answers.pairs) for answers in (one, other)]
    differences = posterior_difference(*posteriors)
    thresholds = [_threshold(answers) for answers in (one, other)]
    is_measured = all(threshold.value is not None for threshold in thresholds)
    return ThresholdDifference(
        first, second, one.benchmark, one.test.name, one.test.unit, one.method, scale.is_log,
        _in_levels(scale, differences.interval) if is_measured else None,
        differences.first_better, _shared(one, other),
    )  # fmt: skip


def _threshold(answers: TestAnswers) -> Threshold:
    return threshold_of(answers.test, answers.benchmark, answers.method, answers.pairs, answers.chance)


class PosteriorDifference(NamedTuple):
    interval: Interval
    first_better: float


def posterior_difference(first: Posterior, second: Posterior) -> PosteriorDifference:
    """The second threshold less the first, in units of x: the convolution of both."""
    one, other = (posterior.weights.sum(axis=(1, 2, 3)) for posterior in (first, second))
    weights = np.convolve(other, one[::-1])
    step = first.grid.thresholds[1] - first.grid.thresholds[0]
    values = step * (np.arange(len(weights)) - (len(one) - 1))
    ends = np.concatenate([values - step / 2, [values[-1] + step / 2]])
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    middle, low, high = np.interp([0.5, (1 - LEVEL) / 2, (1 + LEVEL) / 2], cumulative, ends)
    better = float(weights[values > 0].sum() + weights[np.argmin(np.abs(values))] / 2)
    return PosteriorDifference(Interval(float(middle), float(low), float(high)), better)


def _in_levels(scale: LevelScale, interval: Interval) -> Interval:
    """A difference in x as a ratio, or difference, of levels."""
    values = [-value if scale.smaller_is_easier else value for value in interval]
    middle, *ends = [2**value for value in values] if scale.is_log else values
    return Interval(middle, min(ends), max(ends))


def _shared(one: TestAnswers, other: TestAnswers) -> SharedAnswers:
    common = one.right.keys() & other.right.keys()
    signs = [one.right[sample] - other.right[sample] for sample in sorted(common)]
    return SharedAnswers(len(common), signs.count(1), signs.count(-1), sign_flip_test(signs))


def difference_record(difference: ThresholdDifference) -> str:
    """A line of JSON."""
    content = {"kind": "difference", **msgspec.to_builtins(difference), "better": difference.better or None}
    return msgspec.json.encode(content).decode()
