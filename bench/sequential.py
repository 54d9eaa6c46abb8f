"""How often intervals and decisions err that may be looked at after every image, and how much asking they save.

    python bench/sequential.py             # the whole grid: 2,000 simulated runs a cell, some minutes on two cores
    python bench/sequential.py --runs 200  # a tenth of the runs

A cell is a benchmark with known answers of one or two models: images, questions an image, accuracy (or the
accuracies of two models), and the correlation within images. Its images are asked in random orders, 2,000 times:

    misses      share of runs in which the interval, looked at after every image, ever leaves out the benchmark's mean
    naive       the same for a 95 % interval for a fixed number of images (normal, by image, finite population)
    asked       mean share of the images asked until the rule stops, looked at after each twentieth part
    empirical Bernstein   the same for the interval of Waudby-Smith and Ramdas (2023), theorem 4 with section 5's means

For two models: false decisions, the share of runs that ever call the wrong model better, or either of two that score
the same on the whole benchmark; and how much is asked until a verdict, which at the end of the benchmark is certain.
The mean share asked is over the first twentieth of the runs. Standard error of 5 % over 2,000 runs: 0.5 points.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from snellen.analysis.confidence_sequence import (
    ALPHA,
    Bets,
    DrawnImage,
    PopulationCounts,
    sequence_interval,
)
from snellen.analysis.sequential import DEFAULT_AIMS

LOOKS = 20
Picture = tuple[int, float]
"""Its questions, and the sum of their values in [0, 1]."""
Interval = Callable[[Sequence[Picture], PopulationCounts, Sequence[float]], tuple[float, float]]


@dataclass(frozen=True)
class Cell:
    """A benchmark, and what is asked of it."""

    pictures: int
    size: str
    first: float
    second: float | None
    """None for one model."""
    correlation: float
    margin: float
    """Half width at which one model is stopped; of two, differences within it do not matter (0: all do)."""

    @property
    def name(self) -> str:
        models = (
            f"{self.first:.0%}"
            if self.second is None
            else f"{self.first:.0%} and {self.second:.0%}"
        )
        return f"{self.pictures} x {self.size}, {models}, correlation {self.correlation:g}, ±{100 * self.margin:g}"


@dataclass(frozen=True)
class Found:
    """What the runs of a cell came to."""

    cell: Cell
    wrong: float
    naive: float
    asked: float
    bernstein: float | None


def cells() -> Iterator[Cell]:
    for pictures, size, correlation in (
        (100, "1", 0.0),
        (200, "4", 0.5),
        (200, "1..10", 0.5),
        (1000, "1", 0.0),
    ):
        yield from (Cell(pictures, size, p, None, correlation, 0.04) for p in (0.5, 0.8, 0.97))
        for first, second in ((0.6, 0.6), (0.7, 0.6), (0.8, 0.5)):
            yield Cell(pictures, size, first, second, correlation, 0.02)


def benchmark(cell: Cell, rng: random.Random) -> list[Picture]:
    """The images of a benchmark. Two models share how hard a question is; their values are (1 + a - b) / 2."""
    least, _, most = cell.size.partition("..")
    pictures = []
    for _ in range(cell.pictures):
        size = rng.randint(int(least), int(most or least))
        shared = rng.random()
        total = 0.0
        for _ in range(size):
            draw = shared if rng.random() < cell.correlation else rng.random()
            first = draw < cell.first
            if cell.second is None:
                total += first
                continue
            other = draw if rng.random() < 0.5 else rng.random()
            total += (1 + first - (other < cell.second)) / 2
        pictures.append((size, total))
    return pictures if cell.first != cell.second else balanced(pictures)


def balanced(pictures: list[Picture]) -> list[Picture]:
    """The same with values turned over, image by image, until both models score the same."""
    excess = sum(total - size / 2 for size, total in pictures)
    turned = []
    for size, total in pictures:
        gap = total - size / 2
        if gap and gap * excess > 0 and abs(2 * gap) <= abs(excess) + 1e-9:
            excess -= 2 * gap
            total = size - total
        turned.append((size, total))
    if excess:  # what is left is a single question
        place = next(i for i, (size, total) in enumerate(turned) if 0 <= total - excess <= size)
        turned[place] = (turned[place][0], turned[place][1] - excess)
    return turned


def simulate(cell: Cell, runs: int) -> Found:
    rng = random.Random(cell.name)
    pictures = benchmark(cell, rng)
    questions = sum(size for size, _ in pictures)
    population = PopulationCounts(len(pictures), questions, max(size for size, _ in pictures))
    mean = sum(total for _, total in pictures) / questions
    wrong = naive = 0
    asked: list[int] = []
    others: list[int] = []
    for run in range(runs):
        rng.shuffle(pictures)
        wrong += errs(cell, pictures, population, mean)
        naive += naive_errs(cell, pictures, mean)
        if run < runs // 20:
            asked.append(stops_at(cell, pictures, population, betting))
            if ".." not in cell.size:
                others.append(stops_at(cell, pictures, population, bernstein))
    share, other = (sum(places) / max(1, len(places)) / cell.pictures for places in (asked, others))
    return Found(cell, wrong / runs, naive / runs, share, other if others else None)


def aims_of(cell: Cell) -> tuple[float, ...]:
    return (
        (cell.margin,)
        if cell.second is None
        else tuple(aim / 2 for aim in dict.fromkeys((cell.margin, *DEFAULT_AIMS)))
    )


def errs(
    cell: Cell, pictures: Sequence[Picture], population: PopulationCounts, mean: float
) -> bool:
    """Whether the interval, looked at after every image, ever leaves out the mean: its capital reaches 2 / alpha.

    Of two models, whether it ever speaks against the truth: rules out 1/2, on a side on which the mean is not.
    """
    mirrored = [(size, size - total) for size, total in pictures]
    if cell.second is None:
        sides = [(list(pictures), mean), (mirrored, 1 - mean)]
    else:
        sides = [(list(pictures), 0.5)] * (mean <= 0.5) + [(mirrored, 0.5)] * (mean >= 0.5)
    most = math.log(2 / ALPHA)
    return any(
        max(Bets(totals, population, aims_of(cell)).path(at)) >= most for totals, at in sides
    )


def naive_errs(cell: Cell, pictures: Sequence[Picture], mean: float) -> bool:
    """The same for a normal 95 % interval by image with the finite population's correction, from ten images on."""
    truth = mean if cell.second is None else 0.5
    n = total = squares = products = sizes = 0.0
    for i, (size, value) in enumerate(pictures, 1):
        n, total = n + size, total + value
        squares, products, sizes = squares + value**2, products + value * size, sizes + size**2
        if i < 10 or i == len(pictures):
            continue
        estimate = total / n
        residual = max(0.0, squares - 2 * estimate * products + estimate**2 * sizes)
        error = math.sqrt(i / (i - 1) * residual * (1 - i / len(pictures))) / n
        low, high = estimate - 1.96 * error, estimate + 1.96 * error
        if error and ((low > truth and mean <= truth) or (high < truth and mean >= truth)):
            return True
    return False


def stops_at(
    cell: Cell, pictures: Sequence[Picture], population: PopulationCounts, interval: Interval
) -> int:
    """After how many images the interval is narrow enough, or there is a verdict."""
    for look in range(1, LOOKS + 1):
        drawn = math.ceil(look * len(pictures) / LOOKS)
        low, high = interval(pictures[:drawn], population, aims_of(cell))
        if cell.second is None and (high - low) / 2 <= cell.margin:
            return drawn
        low, high = 2 * low - 1, 2 * high - 1
        if cell.second is not None and (
            low > 0 or high < 0 or -cell.margin <= low <= high <= cell.margin
        ):
            return drawn
    return len(pictures)


def betting(
    pictures: Sequence[Picture], population: PopulationCounts, aims: Sequence[float]
) -> tuple[float, float]:
    draws = [DrawnImage(size, total, total) for size, total in pictures]
    return sequence_interval(draws, population, aims)


def bernstein(
    pictures: Sequence[Picture], population: PopulationCounts, aims: Sequence[float]
) -> tuple[float, float]:
    """Empirical Bernstein by predictable bets (Waudby-Smith and Ramdas 2023, theorem 2, with the means of section 5).

    For images of one size: the value of an image is the mean of its questions.
    """
    aim, log = min(aims), math.log(2 / ALPHA)
    weights = weighted = price = spread = total = 0.0
    for i, (size, sum_) in enumerate(pictures):
        value, mean = sum_ / size, (0.5 + total) / (1 + i)
        variance, remaining = (0.25 + spread) / (1 + i), population.images - i
        bet = min(0.75, aim * population.images / remaining / variance)
        # E[x_i] = (P m - total) / remaining, so each factor tells of m by P / remaining
        weights += bet * population.images / remaining
        weighted += bet * (value + total / remaining)
        price += 4 * (value - mean) ** 2 * (-math.log1p(-bet) - bet) / 4
        total, spread = total + value, spread + (value - (0.5 + total + value) / (2 + i)) ** 2
    middle, half = weighted / weights, (log + price) / weights
    return max(0.0, middle - half), min(1.0, middle + half)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=2000, help="simulated runs of each cell")
    runs = parser.parse_args().runs
    print(f"{runs} runs a cell; errors should be 5 % at most\n")
    print(
        "| benchmark | errs | naive errs | asked | empirical Bernstein asks |\n|---|---:|---:|---:|---:|"
    )
    with ProcessPoolExecutor() as pool:
        for found in pool.map(partial(simulate, runs=runs), list(cells())):
            other = "" if found.bernstein is None else f"{found.bernstein:.0%}"
            print(
                f"| {found.cell.name} | {found.wrong:.1%} | {found.naive:.1%} | {found.asked:.0%} | {other} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
