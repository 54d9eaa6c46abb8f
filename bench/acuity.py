"""Thresholds over simulated observers whose thresholds, slopes and lapses are known.

    python bench/acuity.py                 # all tables, some ten minutes on one core
    python bench/acuity.py --observers 20  # a first look in a minute
    python bench/acuity.py --bounds        # what any placement can save at most, for each test: a calculation
    python bench/acuity.py --verdicts      # only who is at chance, or perfect, and pairs of observers, in two minutes
    python bench/acuity.py --psignifit     # a few data sets beside psignifit (pip install psignifit), and no table

An observer has a threshold anywhere in the middle three quarters of the levels of `letter-size` (6 octaves, four
options), a width (5 to 95 %, in octaves) and a lapse rate. Each is asked by the very placement of `snellen acuity`,
from the test's own pool at each level.

**What is compared.** Constant stimuli are laid out as one must who does not know the threshold: all levels of the test
alike, round after round. Both methods are fitted by the same posterior, with the same prior, and asked for the same
interval, the central 95 % of the threshold. A saving is the number of constant stimuli by the number of questions
placed at which that interval is equally wide, over the observers that a user meets: thresholds anywhere, steep curves
and flat ones, with lapses and without.

The first table is after so many questions of each kind of observer: the share of intervals that hold the true
threshold, the bias (how much greater the threshold found is, on average of logarithms), the median width of the
interval, the root of the mean squared error, both in octaves, and how many times as many constant stimuli are needed
for the same median width and for the same error. Below stands each kind by all its intervals, with the standard error
of their coverage and the most that any placement could save.

The second is of all observers together, for an interval of a width that one wants: how many questions the placement
asks on average, as it stops for each observer when that width is reached; how many constant stimuli a design needs that
is fixed beforehand and must do for 95 % of the observers, easy or hard; and how many if it, too, could stop for each
observer after each round of all levels.

**The most that can be saved** (`--bounds`). After n answers the variance of a threshold is at least 1 / (n I), I being
the mean Fisher information of an answer,

    I(x) = psi'(x)^2 / (psi(x) (1 - psi(x))).

No placement has more of it than one that asks at the best level from the first question on; constant stimuli have the
mean over all levels. The ratio of these, over thresholds anywhere, bounds what any method can save, however clever. It
takes the width, lapse and guess rate as known.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from snellen import registry
from snellen_lab.acuity.acuity_run import posterior_difference
from snellen_lab.acuity.level_choice import batch_size, is_known, next_levels
from snellen_lab.acuity.parameter_grid import STEEPNESS, ParameterGrid
from snellen_lab.acuity.posterior import Interval, Posterior
from snellen_lab.acuity.thresholds import LevelScale, threshold_of
from snellen_lab.acuity.trials import AcuityTest

CHANCE = 0.25
WIDTHS, LAPSES, SIZES = (0.5, 1.0, 2.0), (0.0, 0.03), (24, 48, 96)
CONSTANT = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48)
"""Constant stimuli at each level."""
WANTED = (1.0, 0.7, 0.5)
"""Widths of an interval, in octaves."""
DATA_SETS = ((14, 1.2, 0.03, 20), (6, 0.6, 0.0, 10), (40, 2.0, 0.05, 12), (22, 0.9, 0.1, 40))
"""Threshold in pixels, width, lapse rate, and answers at each level."""
MOST = 144
"""Questions after which the placement gives up on a width."""


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
    found: AcuityTest = registry.find_registered("acuity_tests", "letter-size")
    return found


@cache
def grid() -> ParameterGrid:
    return LevelScale.of(test()).posterior((), CHANCE).grid


def observers(count: int, width: float, lapse: float) -> Iterator[tuple[Observer, random.Random]]:
    low, high = grid().levels[0], grid().levels[-1]
    for number in range(count):
        rng = random.Random(f"{width} {lapse} {number}")
        yield Observer(low + (high - low) * rng.uniform(0.125, 0.875), width, lapse), rng


def adaptive(
    observer: Observer, rng: random.Random, most: int, width: float = 0.0, least: int = 1
) -> dict[int, Posterior]:
    """What is known after each batch, until there are `most` questions, or `least` and an interval of `width`."""
    levels, pool = grid().levels, test().exemplars
    right, asked, known = np.zeros(len(levels)), np.zeros(len(levels)), dict[int, Posterior]()
    posterior, n = Posterior(grid(), right, asked), 0
    while n < most and not (width and n >= least and is_known(posterior, width)):
        count = min(batch_size(n), most - n, *(size - n for size in SIZES if size > n))
        weights = posterior.weights
        for place in next_levels(posterior, [pool - int(number) for number in asked], count, rng):
            is_right = observer.is_right(levels[place], rng)
            asked[place] += 1
            right[place] += is_right
            probability = grid().correct_probability[:, place]
            weights = weights * (probability if is_right else 1 - probability)
        n += count
        posterior = known[n] = Posterior(grid(), right.copy(), asked.copy(), weights)
    return known


def constant(observer: Observer, rng: random.Random, each: int) -> Posterior:
    right = [sum(observer.is_right(x, rng) for _ in range(each)) for x in grid().levels]
    return Posterior(grid(), right, np.full(len(right), each))


@cache
def logarithms() -> tuple[Any, Any]:
    """(N, T K) of the probabilities of right and of wrong answers."""
    probabilities = grid().correct_probability.swapaxes(0, 1).reshape(len(grid().levels), -1)
    return np.log(probabilities), np.log1p(-probabilities)


def constant_rounds(observer: Observer, rng: random.Random) -> dict[int, Interval]:
    """By the number of questions, the interval after so many rounds of all levels."""
    levels = grid().levels
    right, asked, intervals = np.zeros(len(levels)), 0, dict[int, Interval]()
    for each in CONSTANT:
        right += [sum(observer.is_right(x, rng) for _ in range(each - asked)) for x in levels]
        asked = each
        of_right, of_wrong = logarithms()
        logs = right.astype(np.float32) @ of_right + (each - right).astype(np.float32) @ of_wrong
        weights = grid().prior * np.exp(logs - logs.max()).reshape(grid().prior.shape)
        intervals[each * len(levels)] = Posterior(
            grid(), right, np.full(len(levels), each), weights
        ).threshold
    return intervals


def breadth(interval: Interval) -> float:
    return interval.high - interval.low


def error(some: list[Found]) -> float:
    return math.sqrt(fmean((found.interval.value - found.true) ** 2 for found in some))


def median_breadth(some: list[Found]) -> float:
    return median(breadth(found.interval) for found in some)


def needed(value: float, table: Mapping[int, float]) -> float:
    """The number of constant stimuli that reaches a value: between logarithms, beyond the table by 1 / sqrt(n)."""
    numbers = sorted(table)
    values = [table[number] for number in numbers]
    for (n0, v0), (n1, v1) in zip(zip(numbers, values), zip(numbers[1:], values[1:])):  # noqa: B905
        if v0 >= value >= v1:
            return math.exp(
                math.log(n0) + math.log(v0 / value) / math.log(v0 / v1) * math.log(n1 / n0)
            )
    end = 0 if value > values[0] else -1
    return numbers[end] * (values[end] / value) ** 2


def main_table(count: int) -> None:
    print("width lapse    n   covered    bias   interval   error   savings: interval  error")
    everything: list[Found] = []
    savings: list[tuple[float, float]] = []
    by_kind: dict[tuple[float, float], list[Found]] = {}
    placed: list[dict[int, Interval]] = []
    rounds: list[dict[int, Interval]] = []
    for width, lapse in product(WIDTHS, LAPSES):
        by_size: dict[int, list[Found]] = {size: [] for size in SIZES}
        fixed: dict[int, list[Found]] = {24 * each: [] for each in CONSTANT}
        for observer, rng in observers(count, width, lapse):
            placed.append(
                {
                    n: known.threshold
                    for n, known in adaptive(observer, rng, MOST, min(WANTED), SIZES[-1]).items()
                }
            )
            rounds.append(constant_rounds(observer, rng))
            for size in SIZES:
                by_size[size].append(Found(placed[-1][size], observer.threshold))
            for n, interval in rounds[-1].items():
                fixed[n].append(Found(interval, observer.threshold))
        widths = {n: median_breadth(some) for n, some in fixed.items()}
        errors = {n: error(some) for n, some in fixed.items()}
        for size, some in by_size.items():
            saved = needed(median_breadth(some), widths) / size, needed(error(some), errors) / size
            print(
                line(f"{width:5g} {lapse:5g} {size:4d}", some)
                + "   {:17.1f} {:6.1f}".format(*saved),
                flush=True,
            )
            everything += some
            by_kind.setdefault((width, lapse), []).extend(some)
            savings.append(saved)
    print(
        line("all            ", everything)
        + "   {:17.1f} {:6.1f}".format(*map(median, zip(*savings, strict=True)))
    )
    kinds_table(by_kind)
    wanted_table(placed, rounds)


def kinds_table(by_kind: Mapping[tuple[float, float], list[Found]]) -> None:
    """Each kind of observer by the intervals of all sizes; standard errors as if those of one observer were one."""
    print("width lapse   covered           bias   can be saved at most")
    for (width, lapse), some in by_kind.items():
        covered = fmean(found.interval.low <= found.true <= found.interval.high for found in some)
        deviation = math.sqrt(covered * (1 - covered) / (len(some) / len(SIZES)))
        bias = 2 ** fmean(found.interval.value - found.true for found in some) - 1
        most = most_saved(grid().levels, width, lapse, CHANCE)
        print(
            f"{width:5g} {lapse:5g}   {covered:7.3f} ± {deviation:.3f} {bias:+7.1%}   {most:8.1f}"
        )


def information(x: Any, width: float, lapse: float, guess: float) -> Any:
    """Of an answer at x about a threshold at 0 (Fisher)."""
    rise, fall = (1 / (1 + np.exp(sign * STEEPNESS * x / width)) for sign in (-1, 1))
    reach = 1 - guess - lapse
    slope = reach * STEEPNESS / width * rise * fall
    return slope**2 / ((guess + reach * rise) * (lapse + reach * fall))


def most_saved(levels: Any, width: float, lapse: float, guess: float) -> float:
    """How many times as many constant stimuli any placement can stand for, over thresholds in the middle three quarters
    of the levels: the information at the best level by that of the mean level."""
    low, high = levels.min(), levels.max()
    thresholds = np.linspace(low + 0.125 * (high - low), high - 0.125 * (high - low), 201)
    each = information(levels - thresholds[:, None], width, lapse, guess)
    return float(each.max(axis=1).mean() / each.mean())


def most_saved_together() -> float:
    """The same where observers of all kinds are asked until the interval of each is as wide: flat curves need the most
    questions of both methods, and are those where least can be saved."""
    levels, of_best, of_all = grid().levels, list[float](), list[float]()
    thresholds = np.linspace(*np.quantile(levels[[0, -1]], (0.125, 0.875)), 201)
    for width, lapse in product(WIDTHS, LAPSES):
        each = information(levels - thresholds[:, None], width, lapse, CHANCE)
        of_best += (1 / each.max(axis=1)).tolist()
        of_all += (1 / each.mean(axis=1)).tolist()
    return fmean(of_all) / fmean(of_best)


def bounds_table() -> None:
    """The most that can be saved in each test, by the width of the curve as a part of the levels' range."""
    parts = (1 / 12, 1 / 6, 1 / 3)
    print(
        "test                levels  chance   a twelfth  a sixth  a third of the range wide; lapses of 3 %"
    )
    for name in sorted(registry.targets("acuity_tests")):
        each: AcuityTest = registry.find_registered("acuity_tests", name)
        if each.easier == "neither":
            continue
        scale = LevelScale.of(each)
        levels = np.array([scale.x(level) for level in scale.levels])
        _, shown = next(each.at(each.levels[-1]))
        chance, span = 1 / len(shown.options), levels.max() - levels.min()
        most = [most_saved(levels, part * span, 0.03, chance) for part in parts]
        print(
            f"{name:18s} {len(levels):7d} {chance:7.2f} "
            + " ".join(f"{value:10.1f}" for value in most)
        )
    print(
        f"the observers of this bench, each asked until its interval is as wide: {most_saved_together():.1f}"
    )


def wanted_table(placed: list[dict[int, Interval]], rounds: list[dict[int, Interval]]) -> None:
    """What an interval of a width costs where nobody knows the observer."""
    print("interval   placed, reached   constant for 95 %, savings   constant with stops, savings")
    for wanted in WANTED:
        ends, constant_ends = (
            [_first_reaching(wanted, known) for known in some] for some in (placed, rounds)
        )
        reached = fmean(end is not None for end in ends)
        asked = fmean(end or MOST for end in ends)
        hardest = {
            n: float(np.quantile([breadth(known[n]) for known in rounds], 0.95)) for n in rounds[0]
        }
        fixed, stopping = (
            needed(wanted, hardest),
            fmean(end or max(hardest) for end in constant_ends),
        )
        print(
            f"{wanted:8g}   {asked:6.0f} {reached:8.0%}   {fixed:17.0f} {fixed / asked:9.1f}"
            f"   {stopping:19.0f} {stopping / asked:8.1f}"
        )


def _first_reaching(wanted: float, known: dict[int, Interval]) -> int | None:
    return next((n for n, interval in sorted(known.items()) if breadth(interval) <= wanted), None)


def line(head: str, some: list[Found]) -> str:
    covered = fmean(found.interval.low <= found.true <= found.interval.high for found in some)
    bias = 2 ** fmean(found.interval.value - found.true for found in some) - 1
    return f"{head}   {covered:7.3f} {bias:+7.1%}   {median_breadth(some):8.2f} {error(some):7.2f}"


def differences(count: int) -> None:
    """Pairs of observers, equal or half an octave apart, after 48 questions each: how often the 95 % interval of the
    difference holds the truth, and how often one is said to see better."""
    for apart in (0.0, 0.5):
        covered, decided = 0, 0
        for number, (observer, rng) in enumerate(observers(count, 1.0, 0.02)):
            other = observer._replace(threshold=observer.threshold + apart)
            first = adaptive(observer, rng, 48)[48]
            second = adaptive(other, random.Random(number), 48)[48]
            difference = posterior_difference(first, second)
            covered += difference.interval.low <= apart <= difference.interval.high
            decided += not 0.025 < difference.first_better < 0.975
        print(
            f"{apart:g} octaves apart: covered {covered / count:.3f}, said to differ {decided / count:.3f}"
        )


def verdicts(count: int) -> None:
    """Who guesses throughout, or is right throughout, and who has a curve: what is said of each after 48 questions."""
    cases = {
        "at chance throughout": (Observer(99, 1, 0), "sees none"),
        "right throughout": (Observer(-99, 1, 0), "sees all"),
        "threshold in the middle": (Observer(4.3, 1, 0.02), "threshold"),
    }
    for name, (observer, expected) in cases.items():
        given, notes = [], 0
        for number in range(count):
            known = adaptive(observer, random.Random(f"{name} {number}"), 48, width=0.25)
            threshold = verdict_of(known[max(known)])
            given.append(threshold.verdict)
            notes += bool(threshold.notes)
        said = {verdict: given.count(verdict) for verdict in sorted(set(given))}
        print(f"{name}: {said}, expected {expected!r}; said not to rise: {notes}")


def verdict_of(posterior: Posterior) -> Any:
    scale, pairs = LevelScale.of(test()), list[tuple[float, bool]]()
    for level, right, asked in zip(scale.levels, posterior.correct, posterior.total, strict=True):
        pairs += [(level, number < right) for number in range(int(asked))]
    return threshold_of(test(), "", "", pairs, CHANCE)


def beside_psignifit() -> None:
    """A few observers, alike at each level: thresholds, widths and lapse rates by both, with 95 % intervals, as a line
    of packages/snellen-lab/tests/psignifit.json each."""
    import psignifit

    for number, (height, width, lapse, each) in enumerate(DATA_SETS):
        posterior = constant(Observer(math.log2(height), width, lapse), random.Random(number), each)
        table = np.column_stack([posterior.grid.levels, posterior.correct, posterior.total])
        fitted = psignifit.psignifit(
            table,
            experiment_type="4AFC",
            sigmoid="logistic",
            stimulus_range=(table[0, 0], table[-1, 0]),
            CI_method="percentiles",
        )
        means = fitted.get_parameter_estimate(estimate_type="mean")
        theirs = {
            name: [
                round(float(value), 3)
                for value in (means[name], *fitted.confidence_intervals[name]["0.95"])
            ]
            for name in ("threshold", "width", "lambda")
        }
        right = [int(count) for count in posterior.correct]
        print(
            json.dumps(
                {"true": [math.log2(height), width, lapse], "asked": each, "right": right, **theirs}
            )
        )
        print(
            "here ",
            *(
                f"{value:.3f}"
                for value in (*posterior.threshold, *posterior.width, *posterior.lapse)
            ),
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--observers", type=int, default=200, help="for each cell of the table")
    parser.add_argument(
        "--bounds", action="store_true", help="only the most that can be saved in each test"
    )
    parser.add_argument(
        "--verdicts",
        action="store_true",
        help="only what is said of guessers, perfect readers, pairs",
    )
    parser.add_argument(
        "--psignifit", action="store_true", help="compare a few data sets with psignifit"
    )
    arguments = parser.parse_args()
    if arguments.psignifit:
        beside_psignifit()
    elif arguments.bounds:
        bounds_table()
    else:
        if not arguments.verdicts:
            main_table(arguments.observers)
        verdicts(arguments.observers)
        differences(arguments.observers)
