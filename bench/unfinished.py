"""Bias and coverage of circular accuracy in a run that was stopped: by the weights of rows of answers, by the questions
that have a verdict, and by those before the first, in the order of asking, that has none.

    python bench/unfinished.py [--runs 400] [--questions 150] [--others]

Four options, and with `--others` four more worlds: other accuracies and numbers of options, independent passes, wrong
answers that go together by image. A question whose first answer is wrong has its verdict with it, one that turns
wrong later needs more answers, one that is right each time all. `window` asks a round of all that is under way and then
takes in more, as `drive` does for a model that answers batches; `slots` keeps so many requests in flight, each of which
takes a random time, as `drive_async` does. The table has for each share of the requests at which a run is stopped the
mean of what is estimated, how often the 95% interval holds the true value, the interval's width, and how often there is
no value.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from snellen.analysis.question_means import mean_estimate
from snellen.catalogue import entries
from snellen.records import Estimate, Sample, Score
from snellen.scoring.scored_run import ScoredBenchmark

METRIC = "circular_accuracy"
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)


class Question(Struct, frozen=True):
    """What comes of a question: after how many answers its verdict is known, and how many are asked for."""

    verdict_after: int
    asked: int
    value: float


class World(Struct, frozen=True):
    """What questions there are, by share."""

    orders: int
    kinds: tuple[tuple[float, Question], ...]
    picture: int = 1
    """Questions about one image, asked one after the other."""
    alike: float = 0.0
    """The share of the questions that are of the same kind as the others about their image of which that is so."""

    @property
    def truth(self) -> float:
        return math.fsum(share * question.value for share, question in self.kinds)

    def drawn(self, count: int, rng: random.Random) -> list[Question]:
        shares, questions = (
            [share for share, _ in self.kinds],
            [question for _, question in self.kinds],
        )
        chosen = rng.choices(questions, shares, k=count)
        if not self.alike:
            return chosen
        common = rng.choices(questions, shares, k=count)
        return [
            common[i // self.picture] if rng.random() < self.alike else own
            for i, own in enumerate(chosen)
        ]


def of_passes(orders: int, wrong: Sequence[float], same: float = 0.0) -> World:
    """A world by the shares that are wrong first in each order, and that give the same wrong option each time."""
    first, *later = wrong
    kinds = [(first, Question(1, 2, 0.0)), (same, Question(1, orders, 0.0))]
    kinds += [(share, Question(order, order, 0.0)) for order, share in enumerate(later, 2)]
    right = 1 - math.fsum(share for share, _ in kinds)
    return World(orders, (*kinds, (right, Question(orders, orders, 1.0))))


FIRST = of_passes(4, (0.15, 0.12, 0.06, 0.05), same=0.15)
TRUTH = FIRST.truth
WORLDS = {
    "four options": FIRST,
    "four options, images of 5": World(4, FIRST.kinds, 5, 0.7),
    "two options, often wrong": of_passes(2, (0.3, 0.25), same=0.25),
    "six options, seldom wrong": of_passes(6, (0.04, 0.03, 0.03, 0.03, 0.02, 0.02), same=0.03),
    "five options, independent passes": of_passes(5, [0.2 * 0.8**order for order in range(5)]),
}


def by_window(questions: Sequence[Question], window: int, rng: random.Random) -> Iterator[int]:
    """The numbers of questions as they are answered."""
    live: list[int] = []
    came = [0] * len(questions)
    for number in (*range(len(questions)), *[-1] * sum(question.asked for question in questions)):
        live += [number] if number >= 0 else []
        if len(live) >= window or number < 0:
            for i in live:
                came[i] += 1
                yield i
            live = [i for i in live if came[i] < questions[i].asked]


def by_slots(questions: Sequence[Question], slots: int, rng: random.Random) -> Iterator[int]:
    """The same with so many requests in flight."""
    waiting = iter(range(len(questions)))
    came = [0] * len(questions)
    in_flight = [(rng.expovariate(1), i) for i in islice(waiting, slots)]
    heapq.heapify(in_flight)
    while in_flight:
        now, i = heapq.heappop(in_flight)
        came[i] += 1
        yield i
        following = i if came[i] < questions[i].asked else next(waiting, None)
        if following is not None:
            heapq.heappush(in_flight, (now + rng.expovariate(1), following))


def scores_of(questions: Sequence[Question], answers: Sequence[int]) -> list[Score]:
    """The circular scores once these questions were answered, each as often as it is named."""
    came = [0] * len(questions)
    for i in answers:
        came[i] += 1
    scores = []
    for i, (question, steps) in enumerate(zip(questions, came, strict=True)):
        known = steps >= question.verdict_after
        value, reason = (question.value, None) if known else (None, "not asked")
        steps = min(steps, question.verdict_after)
        scores.append(
            Score(
                "circular",
                "generation",
                "made up",
                str(i),
                0,
                METRIC,
                value,
                reason,
                steps=steps,
                n_presentations=question.asked,
                broken=not known,
            )
        )
    return scores


def estimates(
    questions: Sequence[Question], answers: Sequence[int], picture: int = 1
) -> Iterator[tuple[str, Estimate]]:
    samples = {
        str(i): Sample(str(i), "made up", options=("a", "b", "c", "d"), group=str(i // picture))
        for i in range(len(questions))
    }
    scored = ScoredBenchmark(entries()["eyechart/count"], samples, (), {}, {})
    scores = scores_of(questions, answers)
    first_open = next((place for place, score in enumerate(scores) if score.broken), len(scores))
    yield "weighted", mean_estimate(scored, scores, METRIC)
    yield (
        "with a verdict",
        mean_estimate(scored, [score for score in scores if not score.broken], METRIC),
    )
    yield "before the first open", mean_estimate(scored, scores[:first_open], METRIC)


Schedule = Callable[[Sequence[Question], int, random.Random], Iterator[int]]


def measured(
    schedule: Schedule, size: int, runs: int, count: int, world: World = FIRST
) -> dict[tuple[str, float], list[Estimate]]:
    """Estimates of so many runs, by the way and by the share of the requests at which they are stopped."""
    cells: dict[tuple[str, float], list[Estimate]] = defaultdict(list)
    for number in range(runs):
        rng = random.Random(f"run {number}")
        questions = world.drawn(count, rng)
        answers = list(schedule(questions, size, rng))
        for share in SHARES:
            for way, estimate in estimates(
                questions, answers[: round(share * len(answers))], world.picture
            ):
                cells[way, share].append(estimate)
    return cells


def summary(cell: Sequence[Estimate], truth: float = TRUTH) -> tuple[float, float, float, float]:
    """Mean, share of intervals that hold the truth, their mean width, and the share of runs without a value."""
    shown = [
        (e.value, 0.0 if e.low is None else e.low, 1.0 if e.high is None else e.high)
        for e in cell
        if e.value is not None
    ]
    if not shown:
        return math.nan, math.nan, math.nan, 1.0
    n = len(shown)
    held = sum(low <= truth <= high for _, low, high in shown)
    return (
        math.fsum(value for value, _, _ in shown) / n,
        held / n,
        math.fsum(high - low for _, low, high in shown) / n,
        1 - n / len(cell),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--questions", type=int, default=150)
    parser.add_argument(
        "--others", action="store_true", help="the other worlds, by the weights alone"
    )
    options = parser.parse_args()
    print("mean/held/width/no value, in %, when so much was asked")
    for name, world in WORLDS.items():
        if options.others != (world is FIRST):
            print(
                f"{f'{name}, true value {world.truth:.1%}':54}",
                *(f"{share:>15.0%}" for share in SHARES),
            )
            table(world, options.runs, options.questions, ("weighted",) if options.others else ())


def table(world: World, runs: int, count: int, ways: Sequence[str]) -> None:
    for name, schedule, size in (
        ("window", by_window, 1),
        ("window", by_window, 16),
        ("window", by_window, 64),
        ("slots", by_slots, 8),
        ("slots", by_slots, 64),
        ("slots", by_slots, 200),
    ):
        cells = measured(schedule, size, runs, count, world)
        for way in ways or dict.fromkeys(way for way, _ in cells):
            numbers = (summary(cells[way, share], world.truth) for share in SHARES)
            words = ("/".join(f"{100 * number:.0f}" for number in cell) for cell in numbers)
            print(f"{name:6} {size:4} {way:42}", *(f"{text:>15}" for text in words), flush=True)


if __name__ == "__main__":
    main()
