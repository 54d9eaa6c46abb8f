"""False alarms and misses of the gate (`snellen compare CANDIDATE BASELINE --fail-if-worse MARGIN`).

For each cell it draws releases whose candidate is truly worse by a known amount, and counts verdicts. A release that is
less than the margin worse must not fail, and one that is worse by the margin or more must not pass, each in at most 5 of
100. `python bench/gate.py --releases 2000` prints a row for each cell; `--several` draws five rules a release.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from snellen.analysis.group_means import estimate_mean
from snellen.analysis.paired.gate import ALPHA, RuleData, judge_release

MARGIN = 0.02
DIFFERENCE_BOUNDS = (-1.0, 1.0)


@dataclass(frozen=True)
class Cell:
    """A world that releases are drawn from."""

    true_difference: float
    """Candidate minus baseline, as a share."""
    churn: float
    """The share of the questions on which the two differ."""
    images: int
    per_image: int
    """Questions of an image, of which half the images change all at once."""
    rules: int = 1

    @property
    def is_worse(self) -> bool:
        """Whether the candidate is worse by the margin or more."""
        return self.true_difference <= -MARGIN + 1e-12


def cells(several: bool) -> Iterator[Cell]:
    differences = (0.01, 0.0, -MARGIN / 2, -0.9 * MARGIN, -MARGIN, -1.5 * MARGIN, -3 * MARGIN)
    for difference, churn, (images, per_image) in product(
        differences, (0.07, 0.25), ((400, 1), (2000, 1), (250, 4))
    ):
        yield Cell(difference, churn, images, per_image, 5 if several else 1)


def draw(cell: Cell, rng: np.random.Generator) -> RuleData:
    """Draw the differences of one release on one benchmark."""
    gain = (cell.churn + cell.true_difference) / 2
    loss = (cell.churn - cell.true_difference) / 2
    shape = (cell.images, cell.per_image)
    alone = rng.random(shape)
    together = np.repeat(rng.random((cell.images, 1)), cell.per_image, axis=1)
    is_together = rng.random((cell.images, 1)) < 0.5
    uniform = np.where(is_together, together, alone)
    values = np.where(uniform < gain, 1.0, np.where(uniform > 1 - loss, -1.0, 0.0))
    groups = np.repeat(np.arange(cell.images), cell.per_image)
    estimate = estimate_mean(values.ravel().tolist(), groups.tolist(), bounds=DIFFERENCE_BOUNDS)
    return RuleData("drawn", MARGIN, estimate, None, None, "share", "higher", 0)


def verdicts(cell: Cell, releases: int, seed: int) -> Counter[str]:
    """Count the verdicts over so many releases."""
    rng = np.random.default_rng(
        [seed, round(1e4 * (1 + cell.true_difference)), round(1e3 * cell.churn), cell.images]
    )
    counts: Counter[str] = Counter()
    for _ in range(releases):
        data = [draw(cell, rng) for _ in range(cell.rules)]
        counts[judge_release("candidate", "baseline", data).verdict] += 1
    return counts


def is_within(errors: int, releases: int) -> bool:
    """Return whether so many errors are no more than declared, but for three standard errors of the simulation."""
    allowed = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / releases)
    return errors <= allowed * releases


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--several", action="store_true")
    parser.add_argument("--only", type=int, default=0, help="so many cells, for a test")
    options = parser.parse_args(words)
    print(
        "true difference | churn | images x questions | rules | pass | fail | open | errors | within"
    )
    faults = 0
    chosen = list(cells(options.several))
    if options.only:
        chosen = chosen[:: max(1, len(chosen) // options.only)]
    for cell in chosen:
        counts = verdicts(cell, options.releases, options.seed)
        errors = counts["pass"] if cell.is_worse else counts["fail"]
        within = is_within(errors, options.releases)
        faults += not within
        shares = [
            f"{counts[name] / options.releases:.3f}"
            for name in ("pass", "fail", "not enough evidence")
        ]
        kind = "misses" if cell.is_worse else "false alarms"
        print(
            f"{100 * cell.true_difference:+.1f} pt | {cell.churn:.2f} | {cell.images} x {cell.per_image} | "
            f"{cell.rules} | {' | '.join(shares)} | {kind} {errors / options.releases:.3f} | {within}",
            flush=True,
        )
    print(f"{faults} cells above what was declared")
    return int(faults > 0)


if __name__ == "__main__":
    raise SystemExit(main())
