"""How often corrected accuracies hold the true value, over simulated audits of readers whose errors are known.

    python bench/audit_coverage.py            # the whole grid, 2,000 audits a cell, on all cores
    python bench/audit_coverage.py --quick    # 200 audits a cell
    python bench/audit_coverage.py --cells    # each cell and not only the summary

In each audit pictures with their questions are drawn anew, replies are right in truth with a given probability (alike
for questions of one picture to a given degree), the reader reads them as certain, likely or open and errs as a given
reader does, and the replies drawn by `allocation` are labelled. The truth is the expected share of right replies, not
that of the questions drawn. Beside the interval of the corrected accuracy stand that of the accuracy as it was read
(`as read`), and that of as many labels drawn at random without a reader (`labels alone`).
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from scipy.special import ndtr

from snellen.analysis.audit.correction import cell_of, with_reading_error
from snellen.analysis.audit.draw import allocation
from snellen.analysis.statistics import estimate_mean
from snellen.records import Estimate

REPLICATES, QUICK = 2000, 200
READINGS = ("certain", "likely", "open")


@dataclass(frozen=True)
class Reader:
    """Of certain and of likely readings the share that is lost (right, read as wrong) and gained (wrong, as right); of
    open ones, the share that means an option and is right as often as any other."""

    name: str
    certain: tuple[float, float]
    likely: tuple[float, float]
    open: float
    shares: tuple[float, float, float] = (0.9, 0.07, 0.03)


READERS = (
    Reader("never errs", (0, 0), (0, 0), 0.0),
    Reader("0.5 %, both ways", (0.004, 0.004), (0.02, 0.02), 0.05),
    Reader("2 %, loses", (0.01, 0), (0.1, 0), 0.3),
    Reader("2 %, gains", (0, 0.03), (0, 0.2), 0.0),
    Reader("10 %, both ways", (0.06, 0.1), (0.3, 0.2), 0.4, (0.75, 0.15, 0.1)),
    Reader("10 %, loses", (0.06, 0), (0.4, 0), 0.6, (0.75, 0.15, 0.1)),
    Reader("30 %, poor", (0.28, 0.28), (0.4, 0.4), 0.5, (0.5, 0.3, 0.2)),
)
DESIGNS = ((100, 1), (100, 5), (500, 1), (500, 25), (2000, 1), (2000, 20))
"""Replies, and questions about one picture."""
LARGE = (5000, 5)
VALUES = (0.1, 0.5, 0.71, 0.95)
AUDITS = (50, 150, 300)
CORRELATION = 0.3
"""Of questions about one picture, on the normal scale: of what is right, how it is worded, whether it is misread."""


@dataclass(frozen=True)
class Setting:
    reader: Reader
    replies: int
    group: int
    accuracy: float
    labels: int

    @property
    def truth(self) -> float:
        """The expected share of replies that are right: open ones that mean no option are not."""
        return self.accuracy * (1 - self.reader.shares[2] * (1 - self.reader.open))

    @property
    def name(self) -> str:
        return f"{self.reader.name}, {self.replies} replies, {self.group} a picture, {self.accuracy:g}, {self.labels}"


@dataclass(frozen=True)
class Found:
    """Shares of intervals that hold the truth, mean widths, and the bias beside the root mean squared error."""

    setting: Setting
    held: float
    held_as_read: float
    width: float
    width_of_labels: float
    bias: float


def simulate(setting: Setting, replicates: int) -> Found:
    design = setting.replies, setting.group, round(1000 * setting.accuracy), setting.labels
    rng = np.random.default_rng([*design, READERS.index(setting.reader)])
    held = held_as_read = 0
    widths, labels_widths, errors = [], [], []
    for _ in range(replicates):
        truth, right, readings, groups = draw(setting, rng)
        corrected = audit(setting, truth, right, readings, groups, rng)
        as_read = estimate_mean(right.tolist(), groups)
        some = rng.choice(setting.replies, min(setting.labels, setting.replies), replace=False)
        labels = estimate_mean(truth[some].tolist(), [groups[place] for place in some])
        assert corrected.low is not None and corrected.high is not None and corrected.value is not None
        assert as_read.low is not None and as_read.high is not None
        assert labels.low is not None and labels.high is not None
        held += corrected.low - 1e-12 <= setting.truth <= corrected.high + 1e-12
        held_as_read += as_read.low <= setting.truth <= as_read.high
        widths.append(corrected.high - corrected.low)
        labels_widths.append(labels.high - labels.low)
        errors.append(corrected.value - setting.truth)
    bias = fmean(errors) / (math.sqrt(fmean(error**2 for error in errors)) or 1.0)
    return Found(setting, held / replicates, held_as_read / replicates, fmean(widths), fmean(labels_widths), bias)


def draw(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Right in truth, right as read, the reading of each reply, and its picture."""
    pictures = np.arange(setting.replies) // setting.group
    correlation = CORRELATION if setting.group > 1 else 0.0

    def below(share: float) -> np.ndarray:
        return uniform() < share

    def uniform() -> np.ndarray:
        shared = rng.standard_normal(pictures[-1] + 1)[pictures]
        return ndtr(math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * rng.standard_normal(len(pictures)))

    reader, truth = setting.reader, below(setting.accuracy)
    readings = np.digitize(uniform(), np.cumsum(reader.shares[:2]))
    chance, right = uniform(), truth.copy()
    for place, (lost, gained) in enumerate((reader.certain, reader.likely)):
        misread = (readings == place) & (chance < np.where(truth, lost, gained))
        right[misread] = ~truth[misread]
    is_open = readings == 2
    right[is_open] = False
    truth[is_open] &= chance[is_open] < reader.open
    return truth.astype(float), right.astype(float), readings, pictures.tolist()


def audit(
    setting: Setting,
    truth: np.ndarray,
    right: np.ndarray,
    readings: np.ndarray,
    groups: list[int],
    rng: np.random.Generator,
) -> Estimate:
    """The corrected accuracy of one simulated audit."""
    members = {name: np.flatnonzero(readings == place) for place, name in enumerate(READINGS)}
    sizes = {name: (len(own) / setting.replies, len(own)) for name, own in members.items() if len(own)}
    drawn = Counter(allocation(sizes, setting.labels))
    cells, expected, added = [], right.copy(), np.zeros(setting.replies)
    for name in sizes:
        labelled = rng.choice(members[name], drawn[name], replace=False)
        for is_right in (False, True):
            everything = members[name][right[members[name]] == is_right]
            if len(everything):
                of_cell = labelled[right[labelled] == is_right]
                cell = cell_of(len(everything) / setting.replies, is_right, [(1.0, t) for t in truth[of_cell].tolist()])
                cells.append(cell)
                expected[everything] = cell.right
                added[of_cell] = (truth[of_cell] - cell.right) * len(everything) / max(len(of_cell), 1)
    linearised = estimate_mean((expected + added).tolist(), groups)
    return with_reading_error(linearised, estimate_mean(expected.tolist(), groups), cells)


def settings() -> list[Setting]:
    """Each reader by each design and audit; accuracies take turns."""
    whole = [
        Setting(reader, *design, VALUES[(i + j + k) % len(VALUES)], labels)
        for i, reader in enumerate(READERS)
        for j, design in enumerate(DESIGNS)
        for k, labels in enumerate(AUDITS)
    ]
    return [*whole, *(Setting(reader, *LARGE, 0.71, 150) for reader in READERS[2::2])]


def summary(rows: Sequence[Found], names: Sequence[str]) -> None:
    print("| reader | cells | holds: least, mean, most | as read | width beside labels alone | greatest bias |")
    print("|---|---|---|---|---|---|")
    for name in names:
        own = [row for row in rows if name in (row.setting.reader.name, f"{row.setting.labels} labels")]
        held = [100 * row.held for row in own]
        print(
            f"| {name} | {len(own)} | {min(held):.1f}, {fmean(held):.1f}, {max(held):.1f} "
            f"| {100 * fmean(row.held_as_read for row in own):.1f} "
            f"| {fmean(row.width / row.width_of_labels for row in own):.2f} "
            f"| {max(abs(row.bias) for row in own):.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cells", action="store_true")
    arguments = parser.parse_args()
    started = time.perf_counter()
    replicates = QUICK if arguments.quick else REPLICATES
    with ProcessPoolExecutor() as pool:
        rows = list(pool.map(partial(simulate, replicates=replicates), settings()))
    if arguments.cells:
        for row in rows:
            print(
                f"{row.setting.name}: {100 * row.held:.1f} ({100 * row.held_as_read:.1f} as read), width "
                f"{100 * row.width:.1f} (labels {100 * row.width_of_labels:.1f}), bias {row.bias:+.2f}"
            )
    summary(rows, [*(reader.name for reader in READERS), *(f"{labels} labels" for labels in AUDITS)])
    print(f"{len(rows)} cells, {replicates:,} audits each, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
