"""Psychometric tests in scored runs: replies at levels, thresholds, and differences between two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from snellen import DataError
from snellen.plugin_api import (
    BenchmarkSpec,
    Method,
    RunOutcome,
    ScoredBenchmark,
    ScoredRun,
    find_registered,
    read_file,
)
from snellen_lab.acuity import RULE
from snellen_lab.acuity.posterior import CREDIBILITY, MEDIAN_AND_ENDS, Interval, Posterior
from snellen_lab.acuity.thresholds import (
    Answers,
    Ideal,
    LevelScale,
    PlaceShare,
    Threshold,
    place_shares,
    threshold_of,
)
from snellen_lab.acuity.trials import AcuityTest

LEVEL = "level"
"""Tag of a sample that holds its level."""
IDEALS = "input-allows.json"
"""File in a run's folder with the ideal thresholds of its model's input, by benchmark."""


class TestAnswers(Struct, frozen=True):
    """Replies of a model in one test by one method.

    Failed requests are left out. A reply that names no option is wrong.
    """

    test: AcuityTest
    benchmark: str
    method: Method
    chance: float
    levels: Mapping[str, float]
    """Level of each sample of the benchmark."""
    right: Mapping[str, bool]
    """Whether the reply to a sample was right, for each sample with a reply."""
    silent: int = 0
    """Number of replies that named no option."""

    @property
    def pairs(self) -> Answers:
        """The level of each reply, with whether it was right."""
        return [(self.levels[sample], is_right) for sample, is_right in self.right.items()]

    def threshold(self, ideal: Ideal | None = None) -> Threshold:
        """Return the threshold that follows from these replies."""
        return threshold_of(
            self.test,
            self.benchmark,
            self.method,
            self.pairs,
            self.chance,
            silent=self.silent,
            ideal=ideal,
        )

    def posterior(self) -> Posterior:
        """Return the posterior of the psychometric function."""
        return LevelScale.of(self.test).posterior(self.pairs, self.chance, self.silent)

    def robust_posterior(self) -> Posterior:
        """Return the posterior if the curve need not fit."""
        return LevelScale.of(self.test).robust_posterior(self.pairs, self.chance, self.silent)


class AcuityRun(Struct, frozen=True, dict=True):
    """Results of one model in psychometric tests."""

    model: str
    folder: Path
    answers: tuple[TestAnswers, ...]
    outcome: RunOutcome | None = None
    """Outcome of the requests of this call; None if the run was only read."""
    ideals: Mapping[str, Ideal] = {}
    """Ideal thresholds of the model's input, by benchmark."""

    @cached_property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Thresholds in the tests whose levels are a quantity."""
        thresholds = []
        for answers in self.answers:
            if answers.test.easier != "neither":
                thresholds.append(answers.threshold(self.ideals.get(answers.benchmark)))
        return tuple(thresholds)

    @cached_property
    def fields(self) -> Mapping[str, tuple[PlaceShare, ...]]:
        """Shares by place in the tests whose levels are places, by benchmark."""
        fields = {}
        for answers in self.answers:
            if answers.test.easier == "neither":
                fields[answers.benchmark] = place_shares(answers.pairs)
        return fields


def is_psychometric(spec: BenchmarkSpec) -> bool:
    """Return whether the questions of a benchmark have levels of a psychometric test."""
    return spec.source.reader == RULE


def declared_test(spec: BenchmarkSpec) -> AcuityTest:
    """Return the test of a benchmark. Raises DataError if the benchmark is not a psychometric test."""
    if not is_psychometric(spec):
        raise DataError(f"{spec.name} is not a psychometric test; `snellen list acuity` shows them")
    test: AcuityTest = find_registered("acuity_tests", spec.source.params["test"])
    return test


def read_acuity(run: ScoredRun, outcome: RunOutcome | None = None) -> AcuityRun:
    """Return the psychometric tests of a scored run, with ideal thresholds if the run's folder has them.

    Raises DataError for a damaged file of ideal thresholds.
    """
    answers: list[TestAnswers] = []
    for scored in run.benchmarks:
        if is_psychometric(scored.spec):
            answers.extend(_test_answers(scored))
    ideals = stored_ideals(run.folder)
    return AcuityRun(run.manifest.model, run.folder, tuple(answers), outcome, ideals)


def stored_ideals(folder: Path) -> dict[str, Ideal]:
    """Return the ideal thresholds in a run's folder by benchmark; none if the run has no such file.

    Raises DataError for a damaged file.
    """
    file = folder / IDEALS
    try:
        return msgspec.json.decode(read_file(file), type=dict[str, Ideal])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"{file}: {error}; delete it, and `snellen acuity` measures it again"
        ) from error


def _test_answers(scored: ScoredBenchmark) -> list[TestAnswers]:
    """Return the replies to the questions of a psychometric test, once for each method (generation, likelihood)."""
    test = declared_test(scored.spec)
    samples = scored.samples
    levels = {name: float(sample.tags[LEVEL]) for name, sample in samples.items()}
    chances = [1 / len(sample.options) for sample in samples.values()]
    mean_chance = sum(chances) / max(len(samples), 1)
    silent_replies: Counter[Method] = Counter()
    for reply in scored.predictions:
        if reply.choice is None and reply.error is None:
            silent_replies[reply.method] += 1

    all_answers = []
    for (_, method, metric), scores in scored.score_rows.items():
        if metric != "accuracy":
            continue
        is_correct = {}
        for score in scores:
            if score.value is not None:
                is_correct[score.sample_id] = score.value > 0.5
        answers = TestAnswers(
            test=test,
            benchmark=scored.spec.name,
            method=method,
            chance=mean_chance,
            levels=levels,
            right=is_correct,
            silent=silent_replies[method],
        )
        all_answers.append(answers)
    return all_answers


class SharedAnswers(Struct, frozen=True):
    """Questions that both models answered. They are for information: the thresholds follow from all replies."""

    questions: int
    only_first: int
    """Questions that only the first model answered correctly."""
    only_second: int
    """Questions that only the second model answered correctly."""


class ThresholdDifference(Struct, frozen=True):
    """Difference between the thresholds of two models in one test.

    The thresholds are treated as independent, which is conservative if both models had the same questions.
    """

    first: str
    second: str
    benchmark: str
    test: str
    unit: str
    method: str
    is_ratio: bool
    """Whether the difference is the second threshold divided by the first, instead of minus the first."""
    difference: Interval | None
    """The difference with its 95% interval; None unless both thresholds are within the levels."""
    first_better: float
    """Probability that the first model's threshold is at a harder level."""
    shared: SharedAnswers

    @property
    def better(self) -> str:
        """The model that sees better with a probability above 97.5% (two-sided 5%); empty if neither does."""
        required = (1 + CREDIBILITY) / 2
        if self.first_better > required:
            return self.first
        if self.first_better < 1 - required:
            return self.second
        return ""

    @property
    def text(self) -> str:
        """`x 1.8 [1.3, 2.6]`, or `+0.4 [0.1, 0.7]`."""
        if self.difference is None:
            return "only a bound"
        value, low, high = self.difference
        head = f"x {value:.3g}" if self.is_ratio else f"{value:+.3g}"
        return f"{head} [{low:.3g}, {high:.3g}]"


def threshold_differences(runs: list[AcuityRun]) -> Iterator[ThresholdDifference]:
    """Yield the difference of each pair of runs in each test that both have by the same method."""
    for first, second in combinations(runs, 2):
        second_answers = {
            (answers.benchmark, answers.method): answers for answers in second.answers
        }
        for answers in first.answers:
            counterpart = second_answers.get((answers.benchmark, answers.method))
            if counterpart is not None and answers.test.easier != "neither":
                yield _difference(first.model, second.model, answers, counterpart)


def _difference(
    first_model: str, second_model: str, first: TestAnswers, second: TestAnswers
) -> ThresholdDifference:
    """Return the difference of the thresholds of two models in a test, with an interval if both have a threshold."""
    test = first.test
    scale = LevelScale.of(test)
    difference = posterior_difference(first.robust_posterior(), second.robust_posterior())
    interval = None
    if first.threshold().value is not None and second.threshold().value is not None:
        interval = _in_levels(scale, difference.interval)
    return ThresholdDifference(
        first=first_model,
        second=second_model,
        benchmark=first.benchmark,
        test=test.name,
        unit=test.unit,
        method=first.method,
        is_ratio=scale.is_log,
        difference=interval,
        first_better=difference.first_better,
        shared=_shared_answers(first, second),
    )


class PosteriorDifference(NamedTuple):
    """Second threshold minus the first, in units of x."""

    interval: Interval
    first_better: float
    """Probability that the first threshold is at a harder level."""


def posterior_difference(first: Posterior, second: Posterior) -> PosteriorDifference:
    """Compare the thresholds of two models, given independent posteriors on the same grid.

    Thresholds are positions x on the scale of a test, where a larger x is an easier level. So the first model sees
    better if the second threshold minus the first is positive. The distribution of this difference is the convolution
    of the second posterior with the mirrored first.

    Returns:
        The median of the difference with its interval, and the probability that the first model sees better, where a
        tie counts half.
    """
    first_probabilities = first.weights.sum(axis=1)  # by threshold, shape (T,)
    second_probabilities = second.weights.sum(axis=1)
    probabilities = np.convolve(second_probabilities, first_probabilities[::-1])  # (2 T - 1,)
    step = first.grid.thresholds[1] - first.grid.thresholds[0]
    steps_apart = np.arange(len(probabilities)) - (len(first_probabilities) - 1)
    differences = step * steps_apart

    # Quantiles, by linear interpolation of the cumulative distribution between the edges of the steps.
    last_edge = differences[-1] + step / 2
    edges = np.concatenate([differences - step / 2, [last_edge]])
    cumulative = [0.0, *np.cumsum(probabilities)]
    median_and_ends = np.interp(MEDIAN_AND_ENDS, cumulative, edges).tolist()

    tie_probability = probabilities[np.argmin(np.abs(differences))]
    first_better = float(probabilities[differences > 0].sum() + tie_probability / 2)
    return PosteriorDifference(Interval(*median_and_ends), first_better)


def _in_levels(scale: LevelScale, interval: Interval) -> Interval:
    """Return a difference in x as a ratio, or a difference, of levels."""
    values = list(interval)
    if scale.smaller_is_easier:
        values = [-value for value in values]
    if scale.is_log:
        values = [2**value for value in values]
    middle, *ends = values
    return Interval(middle, min(ends), max(ends))


def _shared_answers(first: TestAnswers, second: TestAnswers) -> SharedAnswers:
    """Count the questions that two models both answered, and those that only one answered correctly."""
    shared_samples = first.right.keys() & second.right.keys()
    only_first = 0
    only_second = 0
    for sample in shared_samples:
        if first.right[sample] and not second.right[sample]:
            only_first += 1
        elif second.right[sample] and not first.right[sample]:
            only_second += 1
    return SharedAnswers(len(shared_samples), only_first, only_second)


def difference_record(difference: ThresholdDifference) -> str:
    """Return a difference as a line of JSON."""
    content = {
        "kind": "difference",
        **msgspec.to_builtins(difference),
        "better": difference.better or None,
    }
    return msgspec.json.encode(content).decode()
