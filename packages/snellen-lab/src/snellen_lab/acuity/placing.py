"""Choice of the questions of an adaptive run: pure functions of the tests' questions and of the replies so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.plugin_api import ChosenPart, rng_for
from snellen_lab.acuity import BUDGET, RULE, WIDTH
from snellen_lab.acuity.acuity_run import TestAnswers
from snellen_lab.acuity.level_choice import batch_size, is_known, next_levels
from snellen_lab.acuity.posterior import Posterior
from snellen_lab.acuity.thresholds import LevelScale
from snellen_lab.acuity.trials import AcuityTest

Parts = Mapping[str, ChosenPart]
"""The chosen questions, by benchmark."""


class QuestionPool(Struct, frozen=True):
    """The questions of a test by level, in the order in which each level uses them."""

    test: AcuityTest
    scale: LevelScale
    by_level: Sequence[Sequence[str]]
    """Names of samples, the hardest level first."""
    chance: float

    @classmethod
    def of(
        cls, test: AcuityTest, benchmark: str, samples: Iterable[tuple[str, float]], chance: float
    ) -> QuestionPool:
        """Sort the questions of a benchmark into levels, and shuffle those of each level.

        Args:
            test: The test that the benchmark is made of.
            benchmark: Name of the benchmark, which seeds the order.
            samples: Id and level of each question.
            chance: Probability that a random option is correct.
        """

        def random_order(sample: tuple[str, float]) -> float:
            name, _ = sample
            return rng_for(benchmark, name, RULE, 0).random()

        by_level: dict[float, list[str]] = defaultdict(list)
        for name, level in sorted(samples, key=random_order):
            by_level[level].append(name)
        scale = LevelScale.of(test)
        return cls(test, scale, [by_level[level] for level in scale.levels], chance)

    @property
    def has_places(self) -> bool:
        """Whether levels are places, which get equally many questions."""
        return self.test.easier == "neither"

    @property
    def size(self) -> int:
        """Number of questions of all levels."""
        return sum(len(samples) for samples in self.by_level)

    def part(self, samples: Sequence[str] = ()) -> ChosenPart:
        """Return some of the questions as a part of the benchmark."""
        return ChosenPart(tuple(samples), self.size, RULE)

    def evenly(self, count: int) -> ChosenPart:
        """Return up to `count` questions, taken from each level in turn."""
        chosen = []
        largest_level = max(map(len, self.by_level))
        for turn in range(largest_level):
            for samples in self.by_level:
                if turn < len(samples):
                    chosen.append(samples[turn])
        return self.part(chosen[:count])


class Effort(Struct, frozen=True):
    """Limits on the questions for each model."""

    budget: int | None
    """Maximum number of questions for all tests; None for 48 per test."""
    width: float = WIDTH
    """Width of an interval, in octaves or as a share of the range, at which a test stops."""
    input_side: int | None = None
    """The longer side, in pixels, to which the model's images are reduced before it sees them, as its maker declares."""

    def share(self, pools: Mapping[str, QuestionPool], pool: QuestionPool) -> int:
        """Return the number of questions for a test, before any test leaves its share to others."""
        if self.budget is not None:
            return self.budget // len(pools)
        if pool.has_places:
            return len(pool.by_level)
        return BUDGET

    def still_to_ask(self, parts: Parts, name: str, n_open: int) -> int:
        """Return how many more questions a test may use.

        Args:
            parts: The questions that each test has used.
            name: Name of the test.
            n_open: Number of tests that need more questions. A budget is divided equally among them.
        """
        if self.budget is None:
            return BUDGET - len(parts[name].samples)
        n_used = sum(len(part.samples) for part in parts.values())
        return (self.budget - n_used) // max(n_open, 1)


def most_asked(pools: Mapping[str, QuestionPool], parts: Parts, effort: Effort) -> Parts:
    """Return the questions of each test if it uses its whole share, for an upper estimate of requests.

    Args:
        pools: All questions of each test.
        parts: The questions that each test has used already; they are included.
        effort: The budget. If it is used up, `parts` is returned.
    """
    n_used = sum(len(part.samples) for part in parts.values())
    if effort.budget is not None and n_used >= effort.budget:
        return parts

    shares = {name: effort.share(pools, pool) for name, pool in pools.items()}
    # The remainder of the division goes to the first tests.
    n_remaining = (effort.budget or 0) % len(pools)
    for name in list(pools)[:n_remaining]:
        shares[name] += 1

    full_parts = {}
    for name, pool in pools.items():
        used = parts[name].samples
        all_samples = pool.evenly(pool.size).samples
        used_first = list(dict.fromkeys((*used, *all_samples)))
        full_parts[name] = pool.part(used_first[: max(shares[name], len(used))])
    return full_parts


def next_questions(
    pools: Mapping[str, QuestionPool],
    parts: Parts,
    answers: Mapping[str, TestAnswers],
    effort: Effort,
) -> Parts:
    """Return the parts of the next round; the same parts if all thresholds are known or the budget is used up."""
    grown = dict(parts)
    open_tests: dict[str, Posterior] = {}
    for name, pool in pools.items():
        if pool.has_places:
            share = effort.share(pools, pool)
            if len(parts[name].samples) < share:
                grown[name] = pool.evenly(share)
            continue
        if name in answers:
            posterior = answers[name].posterior()
        else:
            posterior = pool.scale.posterior((), pool.chance)
        if not is_known(posterior, effort.width * pool.scale.unit):
            open_tests[name] = posterior

    # Counted before questions are added to any of these tests, so that all get equal shares.
    n_open = len(open_tests)
    still_to_ask = {name: effort.still_to_ask(grown, name, n_open) for name in open_tests}
    for name, posterior in open_tests.items():
        pool = pools[name]
        earlier = parts[name].samples
        chosen = set(earlier)
        unused_by_level = []
        for samples in pool.by_level:
            unused_by_level.append([sample for sample in samples if sample not in chosen])
        count = min(batch_size(len(chosen)), still_to_ask[name])
        rng = rng_for(name, str(len(chosen)), "check", 0)
        levels = next_levels(posterior, list(map(len, unused_by_level)), count, rng)
        added = [unused_by_level[level].pop(0) for level in levels if unused_by_level[level]]
        grown[name] = pool.part((*earlier, *added))
    return grown
