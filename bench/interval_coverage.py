"""How often nominal 95 % intervals hold the true value, over simulated benchmarks whose true value is known.

    python bench/interval_coverage.py             # the whole grid, about ten minutes on two cores
    python bench/interval_coverage.py --scale 0.1 # a tenth of the replicates, within a minute
    python bench/interval_coverage.py --cells     # each cell of the grid and not only the summary

A cell is a design (number of groups, questions per group), a true value and an intra-group correlation. The table
gives, by family of metrics and number of groups, the least, mean and greatest coverage over the cells, the mean width
of the interval relative to that of the normal interval with the standard error known, and how many intervals reach
beyond the bounds or have no width. The simulated coverage of a cell has itself a standard error of 0.7 points; a
cell whose coverage comes out below 93 is simulated anew with four times the replicates.
Cells whose estimate cannot vary (all right; equal numbers right in each image) are summed up apart: any interval
that contains its estimate holds the truth there.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.group_means import estimate_mean
from snellen.analysis.intervals import NO_BOUNDS, UNIT_INTERVAL
from snellen.analysis.linearisation import linearised_estimates
from snellen.metrics.captions import BLEU_4
from snellen.metrics.hallucination import POPE
from snellen.records import Estimate

REPLICATES, CORPUS_REPLICATES, ANEW = 1000, 500, 4
GROUPS = (1, 2, 3, 5, 10, 30, 100, 300)
SIZES = ("1", "2", "5", "20", "1..10")
LARGEST = 900
"""Larger designs are left out: nothing new happens there."""
VALUES = (0.005, 0.02, 0.1, 1 / 3, 0.5, 1.0)
"""0.9 and 0.98 are mirror images of 0.1 and 0.02, and the interval of a share is symmetric."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cell:
    """A design, what is simulated on it, and the truth."""

    family: str
    groups: int
    size: str
    correlation: str
    truth_label: str
    bounds: tuple[float, float] | None = (0.0, 1.0)

    @property
    def name(self) -> str:
        return f"{self.family} G={self.groups} size={self.size} correlation={self.correlation} {self.truth_label}"


@dataclass
class Coverage:
    """Counts over the replicates of one cell."""

    cell: Cell
    n: int
    replicates: int = 0
    held: int = 0
    none: int = 0
    outside: int = 0
    points: int = 0
    width: float = 0.0
    spread: float = 0.0
    mean: float = 0.0

    @property
    def share(self) -> float:
        """Of the replicates that have an interval."""
        return self.held / (self.replicates - self.none)


def sizes_of(groups: int, size: str) -> list[int]:
    """Questions of each group; `1..10`: half have one, a few have many."""
    return (
        [(1, 1, 2, 1, 10, 3)[g % 6] for g in range(groups)]
        if size == "1..10"
        else [int(size)] * groups
    )


# --- what is simulated: arrays (replicates, questions) -----------------------------------------------------------


def uniforms(rng: np.random.Generator, ids: Array, replicates: int, rho: float) -> Array:
    """Uniform numbers whose normal scores correlate by rho within a group."""
    own = rng.standard_normal((replicates, len(ids)))
    if rho == 0:
        return _phi(own)
    shared = rng.standard_normal((replicates, ids[-1] + 1))[:, ids]
    return _phi(math.sqrt(rho) * shared + math.sqrt(1 - rho) * own)


def _phi(x: Array) -> Array:
    # Abramowitz and Stegun 26.2.17; its error of 7.5e-8 is far below what replicates can tell.
    t = 1 / (1 + 0.2316419 * np.abs(x))
    poly = t * (
        0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))
    )
    tail = poly * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return np.where(x > 0, 1 - tail, tail)


def shares(
    rng: np.random.Generator, ids: Array, replicates: int, p: float, correlation: str
) -> Array:
    """Right or wrong. Positive correlation is beta-binomial; negative gives each group as equal numbers as can be."""
    groups = ids[-1] + 1
    if correlation == "negative":
        sizes = np.bincount(ids)
        expected = p * sizes
        low = np.floor(expected + 1e-9)
        right = low + (rng.random((replicates, groups)) < expected - low)
        place = np.concatenate([np.arange(size) for size in sizes])
        return (place[None, :] < right[:, ids]).astype(float)
    rho = float(correlation)
    if rho == 0 or p in (0, 1):
        chance: Any = p
    elif rho == 1:
        chance = (rng.random((replicates, groups)) < p)[:, ids]
    else:
        k = (1 - rho) / rho
        chance = rng.beta(p * k, (1 - p) * k, (replicates, groups))[:, ids]
    return (rng.random((replicates, len(ids))) < chance).astype(float)


def vqa(rng: np.random.Generator, ids: Array, replicates: int, rho: float) -> tuple[Array, float]:
    """VQA accuracy: mostly 0 or 1, thirds between."""
    values, chances = np.array([0, 0.3, 0.6, 0.9, 1.0]), np.array([0.25, 0.06, 0.06, 0.08, 0.55])
    drawn = values[np.searchsorted(chances.cumsum()[:-1], uniforms(rng, ids, replicates, rho))]
    return drawn, float(values @ chances)


def edit_similarity(
    rng: np.random.Generator, ids: Array, replicates: int, rho: float
) -> tuple[Array, float]:
    """Half exactly 1, half anywhere below, as u^(1/3)."""
    u = uniforms(rng, ids, replicates, rho)
    return np.where(u > 0.5, 1.0, (2 * u) ** (1 / 3)), 0.5 + 0.5 * 0.75


def narrow(
    rng: np.random.Generator, ids: Array, replicates: int, rho: float
) -> tuple[Array, float]:
    """A similarity of embeddings: 0.7 +- 0.09, never near a bound."""
    u = uniforms(rng, ids, replicates, rho)
    return 0.55 + 0.3 * u, 0.7


def constant(
    rng: np.random.Generator, ids: Array, replicates: int, rho: float
) -> tuple[Array, float]:
    return np.full((replicates, len(ids)), 0.4), 0.4


def instability(
    rng: np.random.Generator, ids: Array, replicates: int, rho: float, unstable: float
) -> tuple[Array, float]:
    """Entropy over five presentations: 0 but for the share `unstable`, of which most have one dissenting reply."""
    u = uniforms(rng, ids, replicates, rho)
    kinds = [(4, 1), (3, 2), (3, 1, 1), (2, 2, 1), (2, 1, 1, 1)]
    entropies = np.array([-sum(k / 5 * math.log(k / 5) for k in some) for some in kinds])
    chances = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    which = np.searchsorted(chances.cumsum()[:-1], np.clip(u / max(unstable, 1e-9), 0, 1))
    return np.where(u < unstable, entropies[which], 0.0), unstable * float(entropies @ chances)


def cider(rng: np.random.Generator, ids: Array, replicates: int, rho: float) -> tuple[Array, float]:
    """CIDEr of captions: a tenth 0, the rest lognormal with median 0.7."""
    u = uniforms(rng, ids, replicates, rho)
    from scipy.special import ndtri

    values = np.where(
        u < 0.1, 0.0, 0.7 * np.exp(0.7 * ndtri(np.clip((u - 0.1) / 0.9, 1e-12, 1 - 1e-12)))
    )
    return np.minimum(values, 10.0), 0.9 * 0.7 * math.exp(0.7**2 / 2)


def differences(
    rng: np.random.Generator, ids: Array, replicates: int, rho: float, gain: float, loss: float
) -> tuple[Array, float]:
    """Two models on the same questions: one alone right with chance `gain`, the other alone with `loss`."""
    u = uniforms(rng, ids, replicates, rho)
    return np.where(u < gain, 1.0, 0.0) - np.where(u > 1 - loss, 1.0, 0.0), gain - loss


# --- cells -------------------------------------------------------------------------------------------------------

Draw = Callable[[np.random.Generator, Array, int, float], tuple[Array, float]]
MEANS: dict[str, tuple[tuple[float, float] | None, dict[str, Draw]]] = {
    "bounded mean": ((0, 1), {"vqa": vqa, "edit similarity": edit_similarity, "narrow": narrow}),
    "constant": ((0, 1), {"all 0.4": constant}),
    "instability": (
        (0, math.log(5)),
        {f"unstable {q:.0%}": partial(instability, unstable=q) for q in (0, 0.03, 0.5)},
    ),
    "unbounded mean": (None, {"cider": cider}),
    "CIDEr": ((0, 10), {"within 0 and 10": cider}),
    "difference": (
        (-1, 1),
        {
            "identical": partial(differences, gain=0, loss=0),
            **{
                f"+{gain:.0%} -{loss:.0%}": partial(differences, gain=gain, loss=loss)
                for gain, loss in ((0.03, 0.01), (0.1, 0.1), (0.3, 0.15))
            },
        },
    ),
}


def designs() -> Iterator[tuple[int, str]]:
    return ((g, s) for g in GROUPS for s in SIZES if sum(sizes_of(g, s)) <= LARGEST)


def cells() -> Iterator[Cell]:
    for groups, size in designs():
        correlations = ("0",) if size == "1" else ("0", "0.3", "1", "negative")
        for correlation in correlations:
            for p in VALUES:
                yield Cell("share", groups, size, correlation, f"p={p:.3g}")
        if size == "2":
            yield Cell("share", groups, "3", "negative", "p=0.333")
        for family, (bounds, draws) in MEANS.items():
            for label in draws:
                for correlation in correlations[:3]:
                    yield Cell(family, groups, size, correlation, label, bounds)
    for groups in (1, 2, 3, 5, 10, 30, 100):
        for correlation in ("0", "0.3"):
            yield Cell("corpus", groups, "6", correlation, "POPE F1")
            yield Cell("corpus", groups, "6", correlation, "POPE F1 near 1")
        yield Cell("corpus", groups, "1", "0", "BLEU-4", (0, 1))
    for parts in (1, 3, 10):
        for groups in (2, 5, 10, 30, 100):
            for correlation in ("0", "0.3"):
                for label in ("shares", "shares near 1", "instability 3%"):
                    bounds = (0.0, math.log(5)) if label.startswith("inst") else (0.0, 1.0)
                    yield Cell(f"mean of {parts}", groups, "3", correlation, label, bounds)
    for groups in (5, 10, 30, 100):
        for size, correlation in (
            ("1", "0"),
            ("3", "0"),
            ("3", "0.3"),
        ):  # errors that are rare add up to one side
            for label in ("shares near 1", "shares of 0.99", "shares of 0.995"):
                yield Cell("mean of 20", groups, size, correlation, label)


def simulate(cell: Cell, scale: float) -> Coverage:
    """One cell, seeded by its name; more replicates than one scale are others."""
    rng = np.random.default_rng([*cell.name.encode(), *([ANEW] if scale > 1 else [])])
    of_family = CORPUS_REPLICATES if cell.family == "corpus" else REPLICATES
    replicates = max(1, int(of_family * scale))
    if cell.family == "corpus":
        return _corpus(cell, rng, replicates)
    if cell.family.startswith("mean of"):
        return _mean_of(cell, rng, replicates)
    ids = np.repeat(np.arange(cell.groups), sizes_of(cell.groups, cell.size))
    if cell.family == "share":
        truth = float(cell.truth_label[2:]) if cell.truth_label != "p=0.333" else 1 / 3
        drawn = shares(rng, ids, replicates, truth, cell.correlation)
    else:
        _, draws = MEANS[cell.family]
        drawn, truth = draws[cell.truth_label](rng, ids, replicates, float(cell.correlation))
    groups, bounds = ids.tolist(), cell.bounds or NO_BOUNDS
    # Where answers are nearly all alike, replicates repeat.
    estimate = cache(lambda row: estimate_mean(row, groups, bounds=bounds))
    return tallied(cell, len(ids), truth, [estimate(tuple(row)) for row in drawn.tolist()])


def _corpus(cell: Cell, rng: np.random.Generator, replicates: int) -> Coverage:
    ids = np.repeat(np.arange(cell.groups), sizes_of(cell.groups, cell.size))
    draw = _bleu_counts if cell.truth_label == "BLEU-4" else partial(_pope_counts, cell)
    estimates, expected = [], ()
    for _ in range(replicates):
        counts, expected = draw(rng, ids)
        metric, place = (BLEU_4, 0) if cell.truth_label == "BLEU-4" else (POPE, 3)
        rows = [tuple(row) for row in counts.astype(float).tolist()]
        estimates.append(
            linearised_estimates(
                rows, ids.tolist(), metric.compute, [UNIT_INTERVAL] * len(metric.rows)
            )[place]
        )
    truth = metric.compute(tuple(map(float, expected)))[place]
    assert truth is not None
    return tallied(cell, len(ids), truth, estimates)


def _bleu_counts(rng: np.random.Generator, ids: Array) -> tuple[Array, Sequence[float]]:
    """Captions of eight to twelve words against references of eleven; longer n-grams match less often."""
    lengths = rng.integers(8, 13, len(ids))
    totals = lengths[:, None] - np.arange(4)
    matches = rng.binomial(totals, rng.beta(4, 2, len(ids))[:, None] ** np.arange(1, 5))
    moments = [math.prod((4 + j) / (6 + j) for j in range(k)) for k in range(1, 5)]
    expected = [*((10 - k) * moment for k, moment in enumerate(moments)), 10, 9, 8, 7, 10, 11]
    return np.column_stack([matches, totals, lengths, np.full(len(ids), 11)]), expected


def _pope_counts(cell: Cell, rng: np.random.Generator, ids: Array) -> tuple[Array, Sequence[float]]:
    """Half of the questions want a yes."""
    n, (hit, alarm) = len(ids), (0.98, 0.02) if "near" in cell.truth_label else (0.9, 0.2)
    wanted = np.tile([1, 0], n // 2)
    u = uniforms(rng, ids, 1, float(cell.correlation))[0]
    right = np.where(wanted == 1, u < hit, u < 1 - alarm)
    replied = np.where(right, wanted, 1 - wanted)
    expected = [1, (hit + 1 - alarm) / 2, (hit + alarm) / 2, 0.5, hit / 2, 0]
    return np.column_stack(
        [np.ones(n), right, replied, wanted, replied * wanted, np.zeros(n)]
    ), expected


def _mean_of(cell: Cell, rng: np.random.Generator, replicates: int) -> Coverage:
    parts = int(cell.family.split()[-1])
    ids = np.repeat(np.arange(cell.groups), sizes_of(cell.groups, cell.size))
    columns, truths = [], []
    for part in range(parts):
        if cell.truth_label.startswith("instability"):
            drawn, truth = instability(rng, ids, replicates, float(cell.correlation), 0.03)
        elif cell.truth_label.startswith("shares of"):
            truth = float(cell.truth_label.split()[-1])
            drawn = shares(rng, ids, replicates, truth, cell.correlation)
        else:
            truth = (
                1 - 0.02 * (1 + part % 3)
                if "near" in cell.truth_label
                else (0.3, 0.6, 0.9)[part % 3]
            )
            drawn = shares(rng, ids, replicates, truth, cell.correlation)
        columns.append(drawn.tolist())
        truths.append(truth)
    groups, bounds = ids.tolist(), cell.bounds or NO_BOUNDS
    estimates = [
        mean_of_estimates(
            [estimate_mean(column[replicate], groups, bounds=bounds) for column in columns]
        )
        for replicate in range(replicates)
    ]
    return tallied(cell, parts * len(ids), float(np.mean(truths)), estimates)


def tallied(cell: Cell, n: int, truth: float, estimates: Sequence[Estimate]) -> Coverage:
    values = np.array([one.value for one in estimates if one.value is not None])
    coverage = Coverage(
        cell, n, len(estimates), mean=float(values.mean()) - truth, spread=float(values.std())
    )
    least, greatest = cell.bounds or NO_BOUNDS
    for one in estimates:
        if one.low is None or one.high is None:
            coverage.none += 1
            continue
        coverage.held += one.low - 1e-12 <= truth <= one.high + 1e-12
        coverage.outside += one.low < least - 1e-12 or one.high > greatest + 1e-12
        coverage.points += one.high - one.low < 1e-12
        coverage.width += one.high - one.low
    return coverage


# --- tables ------------------------------------------------------------------------------------------------------


def fixed_estimate(coverage: Coverage) -> bool:
    """The estimate is (nearly) the same in each replicate."""
    return coverage.spread < 1e-9


def summary(results: Sequence[Coverage]) -> str:
    by: dict[tuple[str, int], list[Coverage]] = defaultdict(list)
    for result in results:
        by[result.cell.family, result.cell.groups].append(result)
    titles = ("metrics", "groups", "cells", "least", "mean", "greatest", "within 93-97", "width")
    titles += ("beyond bounds", "no width", "no interval")
    lines = [f"| {' | '.join(titles)} |", "|" + "---|" * len(titles)]
    for (family, groups), some in by.items():
        total = sum(one.replicates for one in some)
        counts = (sum(getattr(one, what) for one in some) for what in ("outside", "points", "none"))
        figures = [f"{100 * count / total:.1f} %" for count in counts]
        moving = [one for one in some if one.none < one.replicates and not fixed_estimate(one)]
        if moving:
            covers = [one.share for one in moving]
            widths = [
                one.width / (one.replicates - one.none) / (2 * 1.96 * one.spread) for one in moving
            ]
            inside = sum(0.93 <= cover <= 0.97 for cover in covers)
            ranges = [
                f"{100 * c:.1f}" for c in (min(covers), sum(covers) / len(covers), max(covers))
            ]
            ranges += [f"{inside}/{len(moving)}", f"{sum(widths) / len(widths):.2f}"]
        else:
            ranges = ["-"] * 5
        lines.append(
            f"| {family} | {groups} | {len(moving)} | {' | '.join(ranges)} | {' | '.join(figures)} |"
        )
    return "\n".join(lines)


def cell_line(one: Coverage) -> str:
    cover = f"{100 * one.share:5.1f}" if one.none < one.replicates else "  -  "
    kind = " fixed" if fixed_estimate(one) else ""
    return (
        f"{cover}  n={one.n:<5} bias {one.mean:+.4f} none {one.none} beyond {one.outside} points {one.points} "
        f"{one.cell.name}{kind}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="share of the replicates")
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--family", default="")
    parser.add_argument("--jobs", type=int, default=2)
    words = parser.parse_args()
    begun, chosen = (
        time.perf_counter(),
        [cell for cell in cells() if cell.family.startswith(words.family)],
    )
    with ProcessPoolExecutor(words.jobs) as pool:
        results = list(pool.map(partial(simulate, scale=words.scale), chosen, chunksize=8))
        weak = [
            place
            for place, one in enumerate(results)
            if one.none < one.replicates and one.share < 0.93
        ]
        again = (
            []
            if words.scale < 1
            else pool.map(partial(simulate, scale=ANEW), [chosen[place] for place in weak])
        )
        for place, one in zip(weak, again, strict=False):
            results[place] = one
    if words.cells:
        print("\n".join(cell_line(one) for one in results))
    print(summary(results))
    intervals, seconds = sum(one.replicates for one in results), time.perf_counter() - begun
    print(f"\n{len(results):,} cells, {intervals:,} intervals, {seconds:.0f} s")


if __name__ == "__main__":
    main()
