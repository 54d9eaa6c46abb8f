"""Bias and coverage of circular accuracy in a run that was stopped: by the weights of rows of answers, by the questions
that have a verdict, and by those before the first, in the order of asking, that has none.

    python bench/unfinished.py [--runs 400] [--questions 150]

Four options. A question whose first answer is wrong has its verdict with it, one that turns wrong later needs more
answers, one that is right each time all four. `window` asks a round of all that is under way and then takes in more,
as `drive` does for a model that answers batches; `slots` keeps so many requests in flight, each of which takes a random
time, as `drive_async` does. The table has for each share of the requests at which a run is stopped the mean of what is
estimated, how often the 95% interval holds the true value, the interval's width, and how often there is no value.
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

ORDERS, METRIC = 4, "circular_accuracy"
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0)


class Question(Struct, frozen=True):
    """What comes of a question: after how many answers its verdict is known, and how many are asked for."""

    verdict_after: int
    asked: int
    value: float


KINDS = (
    (0.15, Question(1, 2, 0.0)),  # wrong, and another option in the next order
    (0.15, Question(1, ORDERS, 0.0)),  # the same wrong option each time
    (0.12, Question(2, 2, 0.0)),
    (0.06, Question(3, 3, 0.0)),
    (0.05, Question(4, 4, 0.0)),
    (0.47, Question(ORDERS, ORDERS, 1.0)),
)
TRUTH = math.fsum(share * question.value for share, question in KINDS)


def by_window(questions: Sequence[Question], window: int, rng: random.Random) -> Iterator[int]:
    """The numbers of questions as they are answered."""
    live: list[int] = []
    came = [0] * len(questions)
    for number in (*range(len(questions)), *[-1] * len(questions) * ORDERS):
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


def drawn(count: int, rng: random.Random) -> list[Question]:
    return rng.choices([question for _, question in KINDS], [share for share, _ in KINDS], k=count)


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
        scores.append(Score("circular", "generation", "made up", str(i), 0, METRIC, value, reason, steps=steps,
                            n_presentations=ORDERS, broken=not known))  # fmt: skip
    return scores


def estimates(questions: Sequence[Question], answers: Sequence[int]) -> Iterator[tuple[str, Estimate]]:
    samples = {
        str(i): Sample(str(i), "made up", options=("a", "b", "c", "d"), group=str(i)) for i in range(len(questions))
    }
    scored = ScoredBenchmark(entries()["eyechart/count"], samples, (), {}, {})
    scores = scores_of(questions, answers)
    first_open = next((place for place, score in enumerate(scores) if score.broken), len(scores))
    yield "weighted", mean_estimate(scored, scores, METRIC)
    yield "with a verdict", mean_estimate(scored, [score for score in scores if not score.broken], METRIC)
    yield "before the first open", mean_estimate(scored, scores[:first_open], METRIC)


Schedule = Callable[[Sequence[Question], int, random.Random], Iterator[int]]


def measured(schedule: Schedule, size: int, runs: int, count: int) -> dict[tuple[str, float], list[Estimate]]:
    """Estimates of so many runs, by the way and by the share of the requests at which they are stopped."""
    cells: dict[tuple[str, float], list[Estimate]] = defaultdict(list)
    for number in range(runs):
        rng = random.Random(f"run {number}")
        questions = drawn(count, rng)
        answers = list(schedule(questions, size, rng))
        for share in SHARES:
            for way, estimate in estimates(questions, answers[: round(share * len(answers))]):
                cells[way, share].append(estimate)
    return cells


def summary(cell: Sequence[Estimate]) -> tuple[float, float, float, float]:
    """Mean, share of intervals that hold the truth, their mean width, and the share of runs without a value."""
    shown = [
        (e.value, 0.0 if e.low is None else e.low, 1.0 if e.high is None else e.high)
        for e in cell
        if e.value is not None
    ]
    if not shown:
        return math.nan, math.nan, math.nan, 1.0
    n = len(shown)
    held = sum(low <= TRUTH <= high for _, low, high in shown)
    return (
        math.fsum(value for value, _, _ in shown) / n,
        held / n,
        math.fsum(high - low for _, low, high in shown) / n,
        1 - n / len(cell),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--questions", type=int, default=150)
    options = parser.parse_args()
    print(f"true value {TRUTH:.0%}; mean/held/width/no value, in %, when so much was asked")
    print(f"{'':34}", *(f"{share:>15.0%}" for share in SHARES))
    for name, schedule, size in (
        ("window", by_window, 1), ("window", by_window, 16), ("window", by_window, 64),
        ("slots", by_slots, 8), ("slots", by_slots, 64), ("slots", by_slots, 200),
    ):  # fmt: skip
        cells = measured(schedule, size, options.runs, options.questions)
        for way in dict.fromkeys(way for way, _ in cells):
            numbers = (summary(cells[way, share]) for share in SHARES)
            words = ("/".join(f"{100 * number:.0f}" for number in cell) for cell in numbers)
            print(f"{name:6} {size:4} {way:22}", *(f"{text:>15}" for text in words), flush=True)


if __name__ == "__main__":
    main()
