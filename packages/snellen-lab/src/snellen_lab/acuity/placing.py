"""Which questions a model is asked next: pure functions of the tests' pools and of what was answered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.plugin_api import ChosenPart, rng_for
from snellen_lab.acuity import BUDGET, RULE, WIDTH
from snellen_lab.acuity.acuity_run import TestAnswers
from snellen_lab.acuity.posterior import is_known, next_levels, number_at_once
from snellen_lab.acuity.thresholds import LevelScale
from snellen_lab.acuity.trials import AcuityTest

Parts = Mapping[str, ChosenPart]
"""By benchmark, the questions that were chosen."""


class QuestionPool(Struct, frozen=True):
    """A test's questions by level, each level's in the order in which they are asked."""

    test: AcuityTest
    scale: LevelScale
    by_level: Sequence[Sequence[str]]
    """Names of samples, the hardest level first."""
    chance: float

    @classmethod
    def of(
        cls, test: AcuityTest, benchmark: str, samples: Iterable[tuple[str, float]], chance: float
    ) -> QuestionPool:
        """The pool of a benchmark's samples, each a name and a level."""
        scale, by_level = LevelScale.of(test), defaultdict[float, list[str]](list)
        for name, level in sorted(
            samples, key=lambda sample: rng_for(benchmark, sample[0], RULE, 0).random()
        ):
            by_level[level].append(name)
        return cls(test, scale, [by_level[level] for level in scale.levels], chance)

    @property
    def has_places(self) -> bool:
        """Whether its levels are places: all are asked alike."""
        return self.test.easier == "neither"

    @property
    def size(self) -> int:
        return sum(map(len, self.by_level))

    def part(self, samples: Sequence[str] = ()) -> ChosenPart:
        """Some of its questions."""
        return ChosenPart(tuple(samples), self.size, RULE)

    def evenly(self, most: int) -> ChosenPart:
        """Questions of all levels alike, each level in turn."""
        deepest = max(map(len, self.by_level))
        turns = [
            samples[turn]
            for turn in range(deepest)
            for samples in self.by_level
            if turn < len(samples)
        ]
        return self.part(turns[:most])


class Effort(Struct, frozen=True):
    """How much is asked of each model."""

    budget: int | None
    """Most questions in all; None for 48 of each test."""
    width: float = WIDTH
    """Width of an interval, in octaves or as a share of the range, from which a test asks no more."""
    input_side: int | None = None
    """The longer side to which the model's pictures are reduced before it sees them, as its maker declares."""

    def share(self, pools: Mapping[str, QuestionPool], pool: QuestionPool) -> int:
        """The questions of a test unless others leave it some of theirs."""
        if self.budget is not None:
            return self.budget // len(pools)
        return len(pool.by_level) if pool.has_places else BUDGET

    def still_to_ask(self, parts: Parts, name: str, n_open: int) -> int:
        """How many questions a test may still ask: with a budget, its share of what is left for those not known yet."""
        if self.budget is None:
            return BUDGET - len(parts[name].samples)
        return (self.budget - sum(len(part.samples) for part in parts.values())) // max(n_open, 1)


def most_asked(pools: Mapping[str, QuestionPool], parts: Parts, effort: Effort) -> Parts:
    """The questions of each test, with those of an earlier call, if it asks its whole share; only the latter where they
    are more than the budget."""
    if (
        effort.budget is not None
        and sum(len(part.samples) for part in parts.values()) >= effort.budget
    ):
        return parts
    shares = {name: effort.share(pools, pool) for name, pool in pools.items()}
    for name in list(pools)[
        : (effort.budget or 0) % len(pools)
    ]:  # what a division leaves goes to any of them
        shares[name] += 1
    return {name: _filled(pool, parts[name], shares[name]) for name, pool in pools.items()}


def _filled(pool: QuestionPool, part: ChosenPart, most: int) -> ChosenPart:
    others = dict.fromkeys((*part.samples, *pool.evenly(pool.size).samples))
    return pool.part(list(others)[: max(most, len(part.samples))])


def next_questions(
    pools: Mapping[str, QuestionPool],
    parts: Parts,
    answers: Mapping[str, TestAnswers],
    effort: Effort,
) -> Parts:
    """The parts of the next round; the same where enough is known, or nothing may be asked any more."""
    grown = dict(parts)
    for name, pool in pools.items():
        if pool.has_places and len(parts[name].samples) < effort.share(pools, pool):
            grown[name] = pool.evenly(effort.share(pools, pool))
    open_tests = {
        name: posterior
        for name, pool in pools.items()
        if not pool.has_places
        for posterior in [
            answers[name].posterior() if name in answers else pool.scale.posterior((), pool.chance)
        ]
        if not is_known(posterior, effort.width * pool.scale.unit)
    }
    still_to_ask = {name: effort.still_to_ask(grown, name, len(open_tests)) for name in open_tests}
    for name, posterior in open_tests.items():
        pool, chosen, count = pools[name], set(parts[name].samples), still_to_ask[name]
        free = [[sample for sample in samples if sample not in chosen] for samples in pool.by_level]
        rng = rng_for(name, str(len(chosen)), "check", 0)
        levels = next_levels(
            posterior, list(map(len, free)), min(number_at_once(len(chosen)), count), rng
        )
        grown[name] = pool.part(
            (*parts[name].samples, *(free[level].pop(0) for level in levels if free[level]))
        )
    return grown
