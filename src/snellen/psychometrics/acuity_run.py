"""What a run found: answers at levels, and the thresholds that they speak for. Read from any run's scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError
from snellen.psychometrics import RULE
from snellen.psychometrics.stimuli.trials import AcuityTest
from snellen.psychometrics.thresholds import Answers, Ideal, PlaceShare, Threshold, place_shares, threshold_of
from snellen.records import Method
from snellen.runs.runner import RunOutcome
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun

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

    @property
    def pairs(self) -> Answers:
        return [(self.levels[sample], is_right) for sample, is_right in self.right.items()]


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
            threshold_of(
                each.test, each.benchmark, each.method, each.pairs, each.chance, self.ideals.get(each.benchmark)
            )
            for each in self.answers
            if each.test.easier != "neither"
        )

    @cached_property
    def fields(self) -> Mapping[str, tuple[PlaceShare, ...]]:
        """Of tests whose levels are places: by test, shares by place."""
        return {each.benchmark: place_shares(each.pairs) for each in self.answers if each.test.easier == "neither"}


def is_psychometric(spec: BenchmarkSpec) -> bool:
    """Whether the questions of a benchmark stand at levels of a psychometric test."""
    return spec.source.reader == RULE


def declared_test(spec: BenchmarkSpec) -> AcuityTest:
    """The test of a benchmark. Raises DataError for a benchmark that is none."""
    if not is_psychometric(spec):
        raise DataError(f"{spec.name} is not a psychometric test; `snellen list acuity` shows them")
    test: AcuityTest = registry.find("acuity_tests", spec.source.params["test"])
    return test


def read_acuity(run: ScoredRun, outcome: RunOutcome | None = None) -> AcuityRun:
    """The psychometric tests of a scored run, with what its model's input allows as far as that was kept.

    Raises DataError for a damaged file.
    """
    answers = tuple(each for scored in run.benchmarks if is_psychometric(scored.spec) for each in _answers_of(scored))
    return AcuityRun(run.manifest.model, run.folder, answers, outcome, _kept_ideals(run.folder / IDEALS))


def _kept_ideals(file: Path) -> dict[str, Ideal]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Ideal])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise DataError(f"{file}: {error}; delete it, and `snellen acuity` measures it again") from error


def _answers_of(scored: ScoredBenchmark) -> list[TestAnswers]:
    test, samples = declared_test(scored.spec), scored.samples
    levels = {name: float(sample.tags[LEVEL]) for name, sample in samples.items()}
    chance = sum(1 / len(sample.options) for sample in samples.values()) / max(len(samples), 1)
    return [
        TestAnswers(
            test, scored.spec.name, method, chance, levels,
            {score.sample_id: score.value > 0.5 for score in scores if score.value is not None},
        )
        for (_, method, metric), scores in scored.score_rows.items()
        if metric == "accuracy"
    ]  # fmt: skip
