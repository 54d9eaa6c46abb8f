"""Thresholds over simulated observers whose thresholds, slopes and lapses are known.

    python bench/acuity.py                 # the whole table, some twenty minutes on one core
    python bench/acuity.py --observers 40  # a first look in four minutes
    python bench/acuity.py --psignifit     # one data set beside psignifit (pip install psignifit), and no table

An observer has a threshold anywhere in the middle three quarters of the levels of `letter-size` (6 octaves, four
options), a width (5 to 95 %, in octaves) and a lapse rate. Each is asked by the very placement of `snellen acuity`,
twelve questions at each level at most. For each number of questions the table has the share of 95 % intervals that hold
the true threshold, the bias (how much greater the threshold found is, on average of logarithms), the median width of
the interval, the root of the mean squared error, both in octaves, and how many times as many constant stimuli, alike at
all levels, are needed for the same median width and for the same error. `most` is what a placement would save that knew
the observer from the first question on: no method can save more.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from snellen import registry
from snellen.psychometrics.differences import posterior_difference
from snellen.psychometrics.placement import AT_ONCE, first_levels, is_known, next_levels
from snellen.psychometrics.posterior import STEEPNESS, Interval, ParameterGrid, Posterior
from snellen.psychometrics.stimuli.trials import AcuityTest
from snellen.psychometrics.thresholds import LevelScale, threshold_of

CHANCE, POOL = 0.25, 12
WIDTHS, LAPSES, SIZES = (0.5, 1.0, 2.0), (0.0, 0.03), (24, 48, 96)
CONSTANT = (2, 4, 8, 12, 16, 24, 32)
"""Constant stimuli at each level."""


class Observer(NamedTuple):
    threshold: float
    """log2 px."""
    width: float
    lapse: float
    guess: float = CHANCE

    def is_right(self, x: float, rng: random.Random) -> bool:
        rise = 1 / (1 + math.exp(-STEEPNESS * (x - self.threshold) / self.width))
        return rng.random() < self.guess + (1 - self.guess - self.lapse) * rise


class Found(NamedTuple):
    interval: Interval
    true: float


@cache
def test() -> AcuityTest:
    found: AcuityTest = registry.find("acuity_tests", "letter-size")
    return found


@cache
def grid() -> ParameterGrid:
    return LevelScale.of(test()).grid(CHANCE)


def observers(count: int, width: float, lapse: float) -> Iterator[tuple[Observer, random.Random]]:
    low, high = grid().levels[0], grid().levels[-1]
    for number in range(count):
        rng = random.Random(f"{width} {lapse} {number}")
        yield Observer(low + (high - low) * rng.uniform(0.125, 0.875), width, lapse), rng


def adaptive(
    observer: Observer, rng: random.Random, sizes: tuple[int, ...], width: float = 0.0
) -> dict[int, Posterior]:
    """What is known after so many questions, or where an interval of `width` ends it."""
    levels = grid().levels
    right, asked, known = np.zeros(len(levels)), np.zeros(len(levels)), dict[int, Posterior]()
    places = first_levels(len(levels), AT_ONCE)
    while True:
        for place in places:
            asked[place] += 1
            right[place] += observer.is_right(levels[place], rng)
        posterior, n = Posterior(grid(), right, asked), int(asked.sum())
        if n in sizes:
            known[n] = posterior
        if n >= max(sizes) or (width and is_known(posterior, width)):
            return known | {n: posterior}
        left = [POOL - int(count) for count in asked]
        places = next_levels(posterior, left, min(AT_ONCE, max(sizes) - n), rng)


def constant(observer: Observer, rng: random.Random, each: int) -> Posterior:
    right = [sum(observer.is_right(x, rng) for _ in range(each)) for x in grid().levels]
    return Posterior(grid(), right, np.full(len(right), each))


def error(some: list[Found]) -> float:
    return math.sqrt(fmean((found.interval.value - found.true) ** 2 for found in some))


def breadth(some: list[Found]) -> float:
    return median(found.interval.high - found.interval.low for found in some)


def needed(value: float, table: dict[int, float]) -> float:
    """The number of constant stimuli that reaches a value: between logarithms, beyond the table by 1 / sqrt(n)."""
    numbers = sorted(table)
    values = [table[number] for number in numbers]
    for (n0, v0), (n1, v1) in zip(zip(numbers, values), zip(numbers[1:], values[1:])):  # noqa: B905
        if v0 >= value >= v1:
            return math.exp(math.log(n0) + math.log(v0 / value) / math.log(v0 / v1) * math.log(n1 / n0))
    end = 0 if value > values[0] else -1
    return numbers[end] * (values[end] / value) ** 2


def main_table(count: int) -> None:
    print("width lapse    n   covered    bias   interval   error   savings: interval  error   most")
    everything: list[Found] = []
    savings: list[tuple[float, float]] = []
    for width, lapse in product(WIDTHS, LAPSES):
        by_size: dict[int, list[Found]] = {size: [] for size in SIZES}
        fixed: dict[int, list[Found]] = {24 * each: [] for each in CONSTANT}
        for observer, rng in observers(count, width, lapse):
            known = adaptive(observer, rng, SIZES)
            for size in SIZES:
                by_size[size].append(Found(known[size].threshold, observer.threshold))
            for each in CONSTANT:
                fixed[24 * each].append(Found(constant(observer, rng, each).threshold, observer.threshold))
        widths = {n: breadth(some) for n, some in fixed.items()}
        errors = {n: error(some) for n, some in fixed.items()}
        for size, some in by_size.items():
            saved = needed(breadth(some), widths) / size, needed(error(some), errors) / size
            print(
                line(f"{width:5g} {lapse:5g} {size:4d}", some)
                + "   {:17.1f} {:6.1f} {:6.1f}".format(*saved, most_saved(width, lapse, size)),
                flush=True,
            )
            everything += some
            savings.append(saved)
    print(line("all            ", everything) + "   {:17.1f} {:6.1f}".format(*map(median, zip(*savings))))  # noqa: B905
    bounds(count)
    differences(count)


def most_saved(width: float, lapse: float, n: int) -> float:
    """Constant stimuli for each question of the best fixed placement for an observer with a threshold of 17 px.

    By Fisher information with normal priors; the standard error is the threshold's with all four parameters unknown.
    """
    from scipy.optimize import minimize

    true = np.array([math.log2(17), math.log(width), max(lapse, 0.002), CHANCE])
    priors = np.diag(np.array([3.0, 0.7, 0.05, 0.03]) ** -2.0)

    def psi(threshold: float, log_width: float, lapse: float, guess: float) -> Any:
        rise = 1 / (1 + np.exp(-STEEPNESS * (grid().levels - threshold) / np.exp(log_width)))
        return guess + (1 - guess - lapse) * rise

    slopes = np.array([(psi(*(true + step)) - psi(*(true - step))) / 2e-5 for step in 1e-5 * np.eye(4)])
    information = np.einsum("in,jn->nij", slopes, slopes) / (psi(*true) * (1 - psi(*true)))[:, None, None]

    def error_of(shares: Any, number: float) -> float:
        return float(np.linalg.inv(priors + number * np.einsum("n,nij->ij", shares, information))[0, 0] ** 0.5)

    def shares_of(weights: Any) -> Any:
        return np.exp(weights) / np.exp(weights).sum()

    levels, starts = len(grid().levels), np.random.default_rng(0)
    best = min(minimize(lambda w: error_of(shares_of(w), n), starts.normal(size=levels)).fun for _ in range(3))
    number = float(n)
    while error_of(np.full(levels, 1 / levels), number) > best:
        number *= 1.01
    return number / n


def line(head: str, some: list[Found]) -> str:
    covered = fmean(found.interval.low <= found.true <= found.interval.high for found in some)
    bias = 2 ** fmean(found.interval.value - found.true for found in some) - 1
    return f"{head}   {covered:7.3f} {bias:+7.1%}   {breadth(some):8.2f} {error(some):7.2f}"


def differences(count: int) -> None:
    """Pairs of observers, equal or half an octave apart, after 48 questions each: how often the 95 % interval of the
    difference holds the truth, and how often one is said to see better."""
    for apart in (0.0, 0.5):
        covered, decided = 0, 0
        for number, (observer, rng) in enumerate(observers(count, 1.0, 0.02)):
            other = observer._replace(threshold=observer.threshold + apart)
            first = adaptive(observer, rng, (48,))[48]
            second = adaptive(other, random.Random(number), (48,))[48]
            difference = posterior_difference(first, second)
            covered += difference.interval.low <= apart <= difference.interval.high
            decided += not 0.025 < difference.first_better < 0.975
        print(f"{apart:g} octaves apart: covered {covered / count:.3f}, said to differ {decided / count:.3f}")


def bounds(count: int) -> None:
    """Who guesses throughout, or is right throughout, and who has a curve: what is said of each after 48 questions."""
    cases = {
        "at chance throughout": (Observer(99, 1, 0), "sees none"),
        "right throughout": (Observer(-99, 1, 0), "sees all"),
        "threshold in the middle": (Observer(4.3, 1, 0.02), "threshold"),
    }
    for name, (observer, expected) in cases.items():
        verdicts, notes = [], 0
        for number in range(count):
            known = adaptive(observer, random.Random(f"{name} {number}"), (48,), width=0.25)
            threshold = verdict_of(known[max(known)])
            verdicts.append(threshold.verdict)
            notes += bool(threshold.notes)
        said = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
        print(f"{name}: {said}, expected {expected!r}; said not to rise: {notes}")


def verdict_of(posterior: Posterior) -> Any:
    scale, pairs = LevelScale.of(test()), list[tuple[float, bool]]()
    for level, right, asked in zip(scale.levels, posterior.right, posterior.asked, strict=True):
        pairs += [(level, number < right) for number in range(int(asked))]
    return threshold_of(test(), "", "", pairs, CHANCE)


def beside_psignifit() -> None:
    """One observer, 20 answers at each level: threshold and width by both, with 95 % intervals."""
    import psignifit

    observer, rng = Observer(math.log2(14), 1.2, 0.03), random.Random(5)
    posterior = constant(observer, rng, 20)
    table = np.column_stack([posterior.grid.levels, posterior.right, posterior.asked])
    theirs = psignifit.psignifit(
        table,
        experiment_type="4AFC",
        sigmoid="logistic",
        stimulus_range=(table[0, 0], table[-1, 0]),
        CI_method="percentiles",
    )
    ours = {"threshold": posterior.threshold, "width": posterior.width, "lambda": posterior.lapse}
    for name, interval in ours.items():
        low, high = theirs.confidence_intervals[name]["0.95"]
        estimate = theirs.get_parameter_estimate(estimate_type="mean")[name]
        print(
            f"{name:10s} psignifit {estimate:.3f} [{low:.3f}, {high:.3f}]",
            "here {:.3f} [{:.3f}, {:.3f}]".format(*interval),
        )
    print(f"truth      {observer.threshold:.3f} {observer.width:.3f} {observer.lapse:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observers", type=int, default=200, help="for each cell of the table")
    parser.add_argument("--psignifit", action="store_true", help="compare one data set with psignifit")
    arguments = parser.parse_args()
    if arguments.psignifit:
        beside_psignifit()
    else:
        main_table(arguments.observers)
