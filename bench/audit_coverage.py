"""How often corrected accuracies hold the true value, over simulated audits of readers whose errors are known.

    python bench/audit_coverage.py            # the whole grid, 2,000 audits a cell, on all cores
    python bench/audit_coverage.py --audits 200
    python bench/audit_coverage.py --cells    # each cell and not only the summary
    python bench/audit_coverage.py --others   # circular accuracy, POPE's F1, a mean of benchmarks, a part of a run

In each audit images with their questions are drawn anew, replies are right in truth with a given probability (alike
for questions of one image to a given degree), the reader reads them as certain, likely or open and errs as a given
reader does, and the replies drawn by `allocation` are labelled. The truth is the expected share of right replies, not
that of the questions drawn. Beside the interval of the corrected accuracy stand that of the accuracy as it was read
(`as read`), and that of as many labels drawn at random without a reader (`labels alone`).

Numbers that are not accuracies of one benchmark go through `corrected_number` itself. Questions of CircularEval have
four passes of one difficulty, end where a reply is not read as right, and are labelled as a whole (`labels` are
questions); POPE's are yes or no; of three benchmarks the second is read worse than the others and has a fifth of the
questions; of a part (`--where`) a third of the replies are, and only its labels count.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from scipy.special import ndtr

from snellen.analysis.group_means import estimate_mean
from snellen.metrics.hallucination import POPE, pope_counts
from snellen.records import Estimate
from snellen_lab.audit.draw import allocation, proportional_probabilities
from snellen_lab.audit.estimate import (
    AuditedPart,
    Contribution,
    cell_of,
    corrected_number,
    with_reading_error,
)
from snellen_lab.audit.right_each_time import LabelledQuestion, right_each_time

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
"""Replies, and questions about one image."""
LARGE = (5000, 5)
VALUES = (0.1, 0.5, 0.71, 0.95)
AUDITS = (50, 150, 300)
CORRELATION = 0.3
"""Of questions about one image, on the normal scale: of what is right, how it is worded, whether it is misread."""


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
        return f"{self.reader.name}, {self.replies} replies, {self.group} an image, {self.accuracy:g}, {self.labels}"


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
        assert (
            corrected.low is not None and corrected.high is not None and corrected.value is not None
        )
        assert as_read.low is not None and as_read.high is not None
        assert labels.low is not None and labels.high is not None
        held += corrected.low - 1e-12 <= setting.truth <= corrected.high + 1e-12
        held_as_read += as_read.low <= setting.truth <= as_read.high
        widths.append(corrected.high - corrected.low)
        labels_widths.append(labels.high - labels.low)
        errors.append(corrected.value - setting.truth)
    bias = fmean(errors) / (math.sqrt(fmean(error**2 for error in errors)) or 1.0)
    return Found(
        setting,
        held / replicates,
        held_as_read / replicates,
        fmean(widths),
        fmean(labels_widths),
        bias,
    )


def draw(
    setting: Setting, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Right in truth, right as read, the reading of each reply, and its image."""
    pictures = np.arange(setting.replies) // setting.group
    correlation = CORRELATION if setting.group > 1 else 0.0

    def uniform(shape: tuple[int, ...]) -> np.ndarray:
        shared = rng.standard_normal(pictures[-1] + 1)[pictures]
        return ndtr(
            math.sqrt(correlation) * shared
            + math.sqrt(1 - correlation) * rng.standard_normal(shape)
        )

    readings, right, truth = read(
        uniform(pictures.shape) < setting.accuracy, setting.reader, uniform
    )
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
    sizes = {
        name: (len(own) / setting.replies, len(own)) for name, own in members.items() if len(own)
    }
    drawn = Counter(allocation(sizes, setting.labels))
    cells, expected, added = [], right.copy(), np.zeros(setting.replies)
    for name in sizes:
        labelled = rng.choice(members[name], drawn[name], replace=False)
        for is_right in (False, True):
            everything = members[name][right[members[name]] == is_right]
            if len(everything):
                of_cell = labelled[right[labelled] == is_right]
                cell = cell_of(
                    len(everything) / setting.replies,
                    is_right,
                    [(1.0, t) for t in truth[of_cell].tolist()],
                )
                cells.append(cell)
                expected[everything] = cell.right
                added[of_cell] = (
                    (truth[of_cell] - cell.right) * len(everything) / max(len(of_cell), 1)
                )
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
    print(
        "| reader | cells | holds: least, mean, most | as read | width beside labels alone | greatest bias |"
    )
    print("|---|---|---|---|---|---|")
    for name in names:
        own = [
            row for row in rows if name in (row.setting.reader.name, f"{row.setting.labels} labels")
        ]
        held = [100 * row.held for row in own]
        print(
            f"| {name} | {len(own)} | {min(held):.1f}, {fmean(held):.1f}, {max(held):.1f} "
            f"| {100 * fmean(row.held_as_read for row in own):.1f} "
            f"| {fmean(row.width / row.width_of_labels for row in own):.2f} "
            f"| {max(abs(row.bias) for row in own):.2f} |"
        )


# --- numbers that are not accuracies of one benchmark ----------------------------------------------------------------

PASSES, F1 = 4, 3


@dataclass(frozen=True)
class Other:
    """A number over `replies` questions (of CircularEval, each of four passes), audited by so many labels."""

    kind: str
    reader: Reader
    replies: int
    accuracy: float
    labels: int

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.reader.name}, {self.replies} questions, {self.accuracy:g}, {self.labels}"


def other_settings() -> list[Other]:
    readers = [READERS[place] for place in (1, 2, 3, 4, 6)]
    designs = ((200, 60), (500, 150), (1000, 300))
    kinds = ("circular accuracy", "POPE F1", "mean of 3 benchmarks", "part of a run")
    return [
        Other(
            kind,
            reader,
            designs[(i + k) % 3][0],
            (0.6, 0.8, 0.93)[(2 * i + k) % 3],
            designs[(i + k) % 3][1],
        )
        for k, kind in enumerate(kinds)
        for i, reader in enumerate(readers)
    ]


def draw_units(
    readings: np.ndarray, weights: np.ndarray, limit: int, rng: np.random.Generator
) -> np.ndarray:
    """1 / probability of each unit that is drawn, else 0: strata by reading, in each in proportion to the weights."""
    strata = {name: np.flatnonzero(readings == place) for place, name in enumerate(READINGS)}
    sizes = {
        name: (float(weights[own].sum()), len(own)) for name, own in strata.items() if len(own)
    }
    drawn, inverse = Counter(allocation(sizes, limit)), np.zeros(len(readings))
    for name, count in drawn.items():
        own = strata[name]
        chances = np.array(proportional_probabilities(weights[own].tolist(), count))
        chosen = np.argsort(rng.random(len(own)) / weights[own])[:count]
        inverse[own[chosen]] = 1 / chances[chosen]
    return inverse


def read(
    truth: np.ndarray, reader: Reader, uniform: Callable[[tuple[int, ...]], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How each reply is read, whether as right, and whether it is right in truth (an open one may mean nothing);
    `uniform` draws from [0, 1]."""
    truth = truth.copy()
    readings = np.digitize(uniform(truth.shape), np.cumsum(reader.shares[:2]))
    chance, right = uniform(truth.shape), truth.copy()
    for place, (lost, gained) in enumerate((reader.certain, reader.likely)):
        misread = (readings == place) & (chance < np.where(truth, lost, gained))
        right[misread] = ~truth[misread]
    is_open = readings == 2
    right[is_open] = False
    truth[is_open] &= chance[is_open] < reader.open
    return readings, right, truth


def means_share(reader: Reader) -> float:
    """The share of replies that mean an option."""
    return 1 - reader.shares[2] * (1 - reader.open)


def circular_audit(case: Other, rng: np.random.Generator) -> tuple[Estimate, float] | None:
    """Questions are always right, or right each time with one chance."""
    always = rng.random((case.replies, 1)) < case.accuracy - 0.1
    truth = always | (rng.random((case.replies, PASSES)) < 0.5)
    readings, right, truth = read(truth, case.reader, rng.random)
    ended = [int(np.argmin(row)) + 1 if not row.all() else PASSES for row in right]
    doubt = np.array([readings[i, :n].max() for i, n in enumerate(ended)])
    inverse = draw_units(doubt, np.ones(case.replies), case.labels, rng)
    cells = [(int(doubt[i]), (float(right[i, :n].all()),)) for i, n in enumerate(ended)]
    labelled = {
        i: LabelledQuestion(cells[i], inverse[i], truth[i, :n].tolist(), PASSES)
        for i, n in enumerate(ended)
        if inverse[i]
    }
    values = right_each_time(list(labelled.values()), Counter(cells))
    if values is None:
        return None
    said = dict(zip(labelled, values, strict=True))
    given = [
        Contribution(i, cell, cell[1], i, 1.0, inverse[i], (said[i],) if i in said else ())
        for i, cell in enumerate(cells)
    ]
    part = AuditedPart(range(case.replies), [one.counted for one in given], given)
    meaning = means_share(case.reader)
    chances = (meaning**PASSES, (0.5 * meaning) ** PASSES)
    return corrected_number([[[part]]]), float(
        np.dot(chances, (case.accuracy - 0.1, 1.1 - case.accuracy))
    )


def pope_audit(case: Other, rng: np.random.Generator) -> tuple[Estimate, float]:
    """Half of the questions want a yes; an open reply counts as neither."""
    wanted = np.arange(case.replies) % 2 == 0
    readings, right, truth = read(rng.random(case.replies) < case.accuracy, case.reader, rng.random)
    inverse, given = draw_units(readings, np.ones(case.replies), case.labels, rng), []
    meant = rng.random(case.replies) < case.reader.open
    for i in range(case.replies):
        gold, other = ("yes", "no") if wanted[i] else ("no", "yes")
        counted = _pope(None if readings[i] == 2 else gold if right[i] else other, gold)
        said = gold if truth[i] else None if readings[i] == 2 and not meant[i] else other
        possible = tuple(_pope(reply, gold) for reply in ("yes", "no", None))
        given.append(
            Contribution(
                i,
                (int(readings[i]), counted),
                counted,
                i,
                1.0,
                inverse[i],
                _pope(said, gold),
                possible,
            )
        )
    counts = [one.counted for one in given]
    part = AuditedPart(range(case.replies), counts, given, lambda sums: POPE.compute(sums)[F1])
    share, open_wrong = (
        case.accuracy * means_share(case.reader),
        case.reader.shares[2] * case.reader.open,
    )
    alarms = (1 - case.accuracy) * (1 - case.reader.shares[2]) + open_wrong * (
        1 - case.accuracy * case.reader.open
    )
    return corrected_number([[[part]]]), 2 * share / 2 / ((share + alarms) / 2 + 0.5)


def _pope(reply: str | None, gold: str) -> tuple[float, ...]:
    return tuple(map(float, pope_counts(reply, gold)))  # type: ignore[arg-type]


def mean_audit(case: Other, rng: np.random.Generator) -> tuple[Estimate, float]:
    sizes, shifts = (
        (case.replies // 2, case.replies // 5, case.replies * 3 // 10),
        (0.05, -0.2, 0.0),
    )
    worse = Reader("", (0.1, 0.1), (0.3, 0.3), case.reader.open, case.reader.shares)
    values = [case.accuracy + shift for shift in shifts]
    drawn = [
        read(rng.random(size) < value, worse if place == 1 else case.reader, rng.random)
        for place, (size, value) in enumerate(zip(sizes, values, strict=True))
    ]
    weights = np.concatenate([np.full(size, 1 / size / len(sizes)) for size in sizes])
    inverse = draw_units(
        np.concatenate([readings for readings, *_ in drawn]), weights, case.labels, rng
    )
    ends = np.cumsum([0, *sizes])
    parts = [
        _accuracy_part(*one, inverse[begin:end])
        for one, begin, end in zip(drawn, ends, ends[1:], strict=False)
    ]
    return corrected_number([[[part] for part in parts]]), fmean(values) * means_share(case.reader)


def part_audit(case: Other, rng: np.random.Generator) -> tuple[Estimate, float]:
    readings, right, truth = read(
        rng.random(3 * case.replies) < case.accuracy, case.reader, rng.random
    )
    inverse, n = draw_units(readings, np.ones(3 * case.replies), 3 * case.labels, rng), case.replies
    part = _accuracy_part(readings[:n], right[:n], truth[:n], inverse[:n])
    return corrected_number([[[part]]]), case.accuracy * means_share(case.reader)


def _accuracy_part(
    readings: np.ndarray, right: np.ndarray, truth: np.ndarray, inverse: np.ndarray
) -> AuditedPart:
    given = [
        Contribution(
            i,
            (reading, counted),
            (float(counted),),
            i,
            1.0,
            weight,
            (float(is_right),) if weight else (),
        )
        for i, (reading, counted, is_right, weight) in enumerate(
            zip(readings.tolist(), right.tolist(), truth.tolist(), inverse.tolist(), strict=True)
        )
    ]
    return AuditedPart(range(len(given)), [one.counted for one in given], given)


AUDITS_OF_OTHERS = {
    "circular accuracy": circular_audit,
    "POPE F1": pope_audit,
    "mean of 3 benchmarks": mean_audit,
    "part of a run": part_audit,
}


def simulate_other(case: Other, replicates: int) -> tuple[Other, float, float, float, float]:
    """Coverage, the share of audits that give a number, mean width, and bias beside the root mean squared error."""
    rng = np.random.default_rng([*case.name.encode()])
    held, widths, errors = 0, [], []
    for _ in range(replicates):
        audited = AUDITS_OF_OTHERS[case.kind](case, rng)
        if audited is None:
            continue
        corrected, truth = audited
        assert (
            corrected.low is not None and corrected.high is not None and corrected.value is not None
        )
        held += corrected.low - 1e-12 <= truth <= corrected.high + 1e-12
        widths.append(corrected.high - corrected.low)
        errors.append(corrected.value - truth)
    bias = fmean(errors) / (math.sqrt(fmean(error**2 for error in errors)) or 1.0)
    return case, held / len(widths), len(widths) / replicates, fmean(widths), bias


def others(replicates: int, chosen: str, jobs: int, *, cells: bool) -> None:
    rows, cases = [], [case for case in other_settings() if chosen in ("", case.kind)]
    with ProcessPoolExecutor(jobs) as pool:
        for case, held, given, width, bias in pool.map(
            partial(simulate_other, replicates=replicates), cases
        ):
            rows.append((case, held, width, bias))
            if cells:
                print(
                    f"{case.name}: {100 * held:.1f} of {100 * given:.0f} %, width {100 * width:.1f}, bias {bias:+.2f}",
                    flush=True,
                )
    print(
        "| number | cells | holds: least, mean, most | mean width | greatest bias |\n|---|---|---|---|---|"
    )
    for kind in dict.fromkeys(case.kind for case in cases):
        own = [row for row in rows if row[0].kind == kind]
        held = [100 * row[1] for row in own]
        print(
            f"| {kind} | {len(own)} | {min(held):.1f}, {fmean(held):.1f}, {max(held):.1f} "
            f"| {100 * fmean(row[2] for row in own):.1f} | {max(abs(row[3]) for row in own):.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--audits", type=int, default=2000, help="simulated audits of each cell")
    parser.add_argument("--cells", action="store_true")
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--kind", default="", choices=["", *AUDITS_OF_OTHERS])
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    started = time.perf_counter()
    replicates = arguments.audits
    if arguments.others:
        others(replicates, arguments.kind, arguments.jobs, cells=arguments.cells)
        return
    with ProcessPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(partial(simulate, replicates=replicates), settings()))
    if arguments.cells:
        for row in rows:
            print(
                f"{row.setting.name}: {100 * row.held:.1f} ({100 * row.held_as_read:.1f} as read), width "
                f"{100 * row.width:.1f} (labels {100 * row.width_of_labels:.1f}), bias {row.bias:+.2f}"
            )
    summary(
        rows, [*(reader.name for reader in READERS), *(f"{labels} labels" for labels in AUDITS)]
    )
    print(f"{len(rows)} cells, {replicates:,} audits each, {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
