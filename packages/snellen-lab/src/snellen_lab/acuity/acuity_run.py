"""What runs found: answers at levels, the thresholds that they speak for, and which of two models sees better."""

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
    find,
    read_file,
)
from snellen_lab.acuity import RULE
from snellen_lab.acuity.posterior import (
    CREDIBILITY,
    MEDIAN_AND_ENDS,
    Interval,
    Posterior,
)
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
"""The tag of a sample that says its level."""
IDEALS = "input-allows.json"
"""The file of a run with what its model's input allows, by benchmark."""


class TestAnswers(Struct, frozen=True):
    """What was answered in one test by one method. A request that failed is absent, a reply without an option wrong."""

    test: AcuityTest
    benchmark: str
    method: Method
    chance: float
    levels: Mapping[str, float]
    """By sample."""
    right: Mapping[str, bool]
    """By sample that was answered."""
    silent: int = 0
    """How many replies named no option."""

    @property
    def pairs(self) -> Answers:
        return [(self.levels[sample], is_right) for sample, is_right in self.right.items()]

    def threshold(self, ideal: Ideal | None = None) -> Threshold:
        """The threshold that they speak for."""
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
        """What is known of the psychometric function."""
        return LevelScale.of(self.test).posterior(self.pairs, self.chance, self.silent)

    def robust_posterior(self) -> Posterior:
        """Return what is known if the curve need not fit."""
        return LevelScale.of(self.test).robust_posterior(self.pairs, self.chance, self.silent)


class AcuityRun(Struct, frozen=True, dict=True):
    """What was measured of one model."""

    model: str
    folder: Path
    answers: tuple[TestAnswers, ...]
    outcome: RunOutcome | None = None
    """What this call asked; None where a run is read again."""
    ideals: Mapping[str, Ideal] = {}
    """By benchmark, what the model's input allows."""

    @cached_property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Of tests whose levels are a quantity."""
        return tuple(
            answers.threshold(self.ideals.get(answers.benchmark))
            for answers in self.answers
            if answers.test.easier != "neither"
        )

    @cached_property
    def fields(self) -> Mapping[str, tuple[PlaceShare, ...]]:
        """Of tests whose levels are places: by test, shares by place."""
        return {
            answers.benchmark: place_shares(answers.pairs)
            for answers in self.answers
            if answers.test.easier == "neither"
        }


def is_psychometric(spec: BenchmarkSpec) -> bool:
    """Whether the questions of a benchmark stand at levels of a psychometric test."""
    return spec.source.reader == RULE


def declared_test(spec: BenchmarkSpec) -> AcuityTest:
    """The test of a benchmark. Raises DataError for a benchmark that is none."""
    if not is_psychometric(spec):
        raise DataError(f"{spec.name} is not a psychometric test; `snellen list acuity` shows them")
    test: AcuityTest = find("acuity_tests", spec.source.params["test"])
    return test


def read_acuity(run: ScoredRun, outcome: RunOutcome | None = None) -> AcuityRun:
    """The psychometric tests of a scored run, with what its model's input allows as far as that was kept.

    Raises DataError for a damaged file.
    """
    benchmarks = [scored for scored in run.benchmarks if is_psychometric(scored.spec)]
    answers = tuple(answers for scored in benchmarks for answers in _answers_of(scored))
    return AcuityRun(run.manifest.model, run.folder, answers, outcome, kept_ideals(run.folder))


def kept_ideals(folder: Path) -> dict[str, Ideal]:
    """By benchmark, what the input of a run's model allows, as far as that was kept. Raises DataError for a damaged
    file."""
    file = folder / IDEALS
    try:
        return msgspec.json.decode(read_file(file), type=dict[str, Ideal])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"{file}: {error}; delete it, and `snellen acuity` measures it again"
        ) from error


def _answers_of(scored: ScoredBenchmark) -> list[TestAnswers]:
    test, samples = declared_test(scored.spec), scored.samples
    levels = {name: float(sample.tags[LEVEL]) for name, sample in samples.items()}
    chance = sum(1 / len(sample.options) for sample in samples.values()) / max(len(samples), 1)
    silent = Counter(
        reply.method for reply in scored.predictions if reply.choice is None and reply.error is None
    )
    return [
        TestAnswers(
            test,
            scored.spec.name,
            method,
            chance,
            levels,
            {score.sample_id: score.value > 0.5 for score in scores if score.value is not None},
            silent[method],
        )
        for (_, method, metric), scores in scored.score_rows.items()
        if metric == "accuracy"
    ]


class SharedAnswers(Struct, frozen=True):
    """The questions that both models were asked. They decide nothing: the thresholds speak for all answers, of which
    these are some."""

    questions: int
    only_first: int
    """Right for the first model alone."""
    only_second: int


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
    """With its 95% interval; None unless both thresholds lie within the levels."""
    first_better: float
    """The probability that the first model's threshold is at a harder level."""
    shared: SharedAnswers

    @property
    def better(self) -> str:
        """The model that surely sees better (97.5%, as two-sided at 5%); empty where neither does."""
        sure = (1 + CREDIBILITY) / 2
        return (
            self.first
            if self.first_better > sure
            else self.second
            if self.first_better < 1 - sure
            else ""
        )

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
        by_test = {(answers.benchmark, answers.method): answers for answers in second.answers}
        for answers in first.answers:
            counterpart = by_test.get((answers.benchmark, answers.method))
            if counterpart is not None and answers.test.easier != "neither":
                yield _difference((first.model, second.model), (answers, counterpart))


def _difference(
    models: tuple[str, str], pair: tuple[TestAnswers, TestAnswers]
) -> ThresholdDifference:
    test = pair[0].test
    scale = LevelScale.of(test)
    between = posterior_difference(*(answers.robust_posterior() for answers in pair))
    is_measured = all(answers.threshold().value is not None for answers in pair)
    return ThresholdDifference(
        *models,
        pair[0].benchmark,
        test.name,
        test.unit,
        pair[0].method,
        scale.is_log,
        _in_levels(scale, between.interval) if is_measured else None,
        between.first_better,
        _shared(*pair),
    )


class PosteriorDifference(NamedTuple):
    interval: Interval
    first_better: float


def posterior_difference(first: Posterior, second: Posterior) -> PosteriorDifference:
    """The second threshold less the first, in units of x: the convolution of both."""
    before, after = (posterior.weights.sum(axis=1) for posterior in (first, second))
    weights = np.convolve(after, before[::-1])
    step = first.grid.thresholds[1] - first.grid.thresholds[0]
    values = step * (np.arange(len(weights)) - (len(before) - 1))
    ends = np.concatenate([values - step / 2, [values[-1] + step / 2]])
    interval = Interval(*np.interp(MEDIAN_AND_ENDS, [0.0, *np.cumsum(weights)], ends).tolist())
    return PosteriorDifference(
        interval, float(weights[values > 0].sum() + weights[np.argmin(np.abs(values))] / 2)
    )


def _in_levels(scale: LevelScale, interval: Interval) -> Interval:
    """A difference in x as a ratio, or difference, of levels."""
    values = [-value if scale.smaller_is_easier else value for value in interval]
    middle, *ends = [2**value for value in values] if scale.is_log else values
    return Interval(middle, min(ends), max(ends))


def _shared(first: TestAnswers, second: TestAnswers) -> SharedAnswers:
    common = first.right.keys() & second.right.keys()
    signs = [first.right[sample] - second.right[sample] for sample in sorted(common)]
    return SharedAnswers(len(common), signs.count(1), signs.count(-1))


def difference_record(difference: ThresholdDifference) -> str:
    """A line of JSON."""
    content = {
        "kind": "difference",
        **msgspec.to_builtins(difference),
        "better": difference.better or None,
    }
    return msgspec.json.encode(content).decode()
