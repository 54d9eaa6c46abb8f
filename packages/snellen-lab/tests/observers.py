"""Simulated observers for psychometric tests: models that see as a psychometric function says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import snellen as sn
from acuity import SMALL_SIDE, declared
from snellen.common.paths import snellen_home
from snellen.records import ContinuationScore, Request, RequestKind, Response
from snellen_lab import measure_acuity
from snellen_lab.acuity.acuity_run import AcuityRun, TestAnswers
from snellen_lab.acuity.placing import (
    Effort,
    Parts,
    QuestionPool,
    next_questions,
)
from snellen_lab.acuity.trials import AcuityTest, Stimulus

STEEPNESS = 2 * math.log(19)
CHANCE = 0.25


class Observer:
    """Right with the probability of its curve; each question has a luck of its own, the same whenever it is asked.

    The level is the one that the sample's name says; the right option is drawn anew, as answers are not in requests.
    """

    kinds: frozenset[RequestKind] = frozenset({"generate", "loglikelihood"})
    batch_size = 16

    def __init__(
        self,
        threshold: float,
        width: float = 1.0,
        lapse: float = 0.0,
        seed: int = 0,
        *,
        name: str = "",
        sees: Callable[[float], float] | None = None,
        backwards: bool = False,
        dies_after: int = 10**9,
    ) -> None:
        self.threshold, self.width, self.lapse, self.seed, self.sees = (
            threshold,
            width,
            lapse,
            seed,
            sees,
        )
        self.name = name or f"observer-{threshold:g}-{width:g}-{lapse:g}-{seed}"
        self.backwards, self.dies_after = backwards, dies_after
        self.asked: list[str] = []

    def fingerprint(self) -> dict[str, str]:
        return {"observer": self.name}

    def probability(self, level: float, chance: float) -> float:
        if self.sees is not None:
            return self.sees(level)
        if level == 0:  # a place
            return 0.9
        rise = 1 / (1 + math.exp(-STEEPNESS * math.log2(level / self.threshold) / self.width))
        return chance + (1 - chance - self.lapse) * rise

    def choice(self, request: Request) -> int:
        """The index of the option that it takes, among those of the question."""
        test, level, number = request.sample_id.rsplit("-", 2)
        stimulus, luck = _stimulus(test, float(level), int(number)), self.luck(request.sample_id)
        if luck.random() < self.probability(float(level), 1 / len(stimulus.options)):
            return stimulus.right
        return luck.choice(
            [place for place in range(len(stimulus.options)) if place != stimulus.right]
        )

    def luck(self, sample: str) -> random.Random:
        return random.Random(f"{self.seed} {sample}")

    def is_right(self, sample: str, level: float, chance: float) -> bool:
        """Whether `choice` is right, without a request."""
        return self.luck(sample).random() < self.probability(level, chance)

    def generate(self, requests: Sequence[Request], images: Any) -> list[Response]:
        responses = {
            request.key: self._reply(request)
            for request in requests[:: -1 if self.backwards else 1]
        }
        return [responses[request.key] for request in requests]

    def _reply(self, request: Request) -> Response:
        if len(self.asked) >= self.dies_after:
            raise KeyboardInterrupt
        self.asked.append(request.sample_id)
        return Response(
            f"({request.variant.labels[request.variant.order.index(self.choice(request))]})"
        )

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> list[Response]:
        return [
            Response(
                scores=tuple(
                    ContinuationScore(0.0 if place == self.choice(request) else -5.0, 1, 1)
                    for place in range(len(request.continuations))
                )
            )
            for request in requests
        ]


@cache
def _stimulus(test: str, level: float, number: int) -> Stimulus:
    """One question of a level; no other is drawn."""
    trials: Any = replace(declared(test), draw=lambda trial: trial)
    return declared(test).draw([trial for _, trial in trials.at(level, SMALL_SIDE[test])][number])


@cache
def pool(name: str) -> str:
    """The folder of a test with small images, for observers that do not look at them; built once in a session."""
    params = {"side": SMALL_SIDE[name], **({"exemplars": 1} if name == "place" else {})}
    return str(sn.build(f"acuity/{name}", to=snellen_home() / "small" / name, params=params).folder)


def measured(
    observer: Observer, runs: Path, test: str = "letter-size", **settings: Any
) -> AcuityRun:
    """What a run says of an observer."""
    [run] = measure_acuity(observer, pool(test), runs=str(runs), **settings)
    return run


def placed(observer: Observer, *tests: str, budget: int | None = None) -> AcuityRun:
    """The same without a run: questions are placed and answered in memory."""
    asked = [declared(name) for name in tests or ("letter-size",)]
    levels = {
        f"acuity/{test.name}": {sample: float(level) for level, sample in _samples(test)}
        for test in asked
    }
    pools = {
        name: QuestionPool.of(test, name, levels[name].items(), CHANCE)
        for name, test in zip(levels, asked, strict=True)
    }
    parts: Parts = {}
    answers: dict[str, TestAnswers] = {}
    grown: Parts = {name: pool.part() for name, pool in pools.items()}
    while grown != parts:
        parts = grown
        for name, part in parts.items():
            right = {
                sample: observer.is_right(sample, levels[name][sample], CHANCE)
                for sample in part.samples
            }
            answers[name] = TestAnswers(
                pools[name].test, name, "generation", CHANCE, levels[name], right
            )
        grown = next_questions(pools, parts, answers, Effort(budget))
    return AcuityRun(observer.name, Path(), tuple(answers.values()))


@cache
def _samples(test: AcuityTest) -> tuple[tuple[str, str], ...]:
    """Level and name of each question; none is drawn."""
    return tuple(
        (level, name) for level, name, _ in replace(test, draw=lambda trial: None).stimuli()
    )
