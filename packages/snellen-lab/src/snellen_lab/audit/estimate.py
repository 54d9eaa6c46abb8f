"""Numbers corrected by labels of some replies (prediction-powered inference, Angelopoulos et al. 2023).

What is labelled together (a reply, or all replies that a value depends on) lies in cells: by how it was read, and what
it counted as. In each cell the labels estimate what it counts in truth. The corrected number is what it would be if
each member of a cell counted so much: a difference estimator stratified after the draw, so that a reader who tells
nothing costs nothing beside an estimate from labels alone. A number that is no mean (F1) is computed from corrected
sums, near which it changes like a sum. Two things make its interval: other questions might have been asked (by picture,
`estimate_mean`), and other replies drawn (by cell, Wilson's, which keeps its width where no reply was misread).
`bench/audit_coverage.py` measures how often it holds the truth.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    UNIT_INTERVAL,
    Bounds,
    Counts,
    Estimate,
    estimate_mean,
    gradient_of,
    linear_estimate,
    margins,
    mean_of_estimates,
    wilson,
)


class Contribution(Struct, frozen=True, gc=False):
    """What one reply, or several that are labelled together, give to a question."""

    question: int
    """Its place."""
    cell: Hashable
    """Where it lies: all of a cell were read in one way and counted alike."""
    counted: Counts
    """As it was read."""
    unit: Hashable
    """What is drawn and labelled as a whole."""
    share: float = 1.0
    """The part of its question that it is."""
    weight: float = 0.0
    """How many it stands for: 1 / the probability with which it was drawn; 0 without a label."""
    truth: Counts = ()
    """What it counts as by its label."""
    possible: tuple[Counts, ...] = ((0.0,), (1.0,))
    """Among other things, the least and the most that it could count as."""
    is_settled: bool = False
    """Whether there is nothing to label: it counts as it was read."""


class AuditedPart(Struct, frozen=True):
    """The questions of a benchmark that a number is made of, and what their replies give to it."""

    groups: Sequence[Hashable]
    """The picture of each question."""
    counts: Sequence[Counts]
    """What each question counts as it was read; with one number, the value is their mean."""
    contributions: Sequence[Contribution]
    compute: Callable[[Counts], float | None] | None = None
    """Summed counts -> the value, where that is no mean."""
    bounds: Bounds = UNIT_INTERVAL


Tree = Sequence[Sequence[Sequence[AuditedPart]]]
"""A mean of means: questions of the innermost parts count alike, then these (benchmarks), then those (dimensions)."""


class ReadingCell(Struct, frozen=True):
    """Replies that were read in one way and count alike."""

    weight: float
    """The part of the number that they are, times the difference between the least and the most they could count."""
    right: float
    """By labels, what they count from 0 for the least to 1 for the most; as scored where none was labelled."""
    labelled: float = 0.0
    """How many labels say so, if all had the same weight (Kish); infinite where none is needed."""
    drawn: float = 0.0
    """The sum of the labels' weights."""

    @property
    def margins(self) -> tuple[float, float]:
        """How far their mean may lie below and above, in parts of the number."""
        if math.isinf(self.labelled):
            return 0.0, 0.0
        low, high = wilson(self.right, self.labelled) if self.labelled else (0.0, 1.0)
        return self.weight * (self.right - low), self.weight * (high - self.right)


def cell_of(weight: float, scored: float, labels: Sequence[tuple[float, float]]) -> ReadingCell:
    """The cell of so much weight, scored so from 0 to 1; `labels` are pairs of a weight, and the truth from 0 to 1."""
    drawn = math.fsum(own for own, _ in labels)
    if not drawn:
        return ReadingCell(weight, float(scored))
    right = math.fsum(own * truth for own, truth in labels) / drawn
    right = max(0.0, min(1.0, right))
    return ReadingCell(weight, right, drawn**2 / math.fsum(own**2 for own, _ in labels), drawn)


def with_reading_error(
    linearised: Estimate,
    expected: Estimate,
    cells: Sequence[ReadingCell],
    bounds: Bounds = UNIT_INTERVAL,
) -> Estimate:
    """The corrected number with its interval: on either side the wider one of two margins.

    `linearised` is the mean over questions of what the cells expect of each, and what each label adds to its question:
    its spread over pictures is that of both samples together, whatever questions about one picture have in common.
    `expected` is the mean without what labels add; its margins and those of the cells add up (MOVER).
    """
    if linearised.low is None or linearised.high is None or linearised.value is None:
        return linearised
    by_cells = (
        math.hypot(*side)
        for side in zip(margins(expected), *(cell.margins for cell in cells), strict=True)
    )
    below, above = map(max, margins(linearised), by_cells)
    low, high = linearised.value - below, linearised.value + above
    return replace(linearised, low=max(bounds[0], low), high=min(bounds[1], high))


def corrected_number(tree: Tree, bounds: Bounds = UNIT_INTERVAL) -> Estimate:
    """The number of these parts with its interval. Without a value where it has none in the corrected sums."""
    parts = [part for pools in tree for pool in pools for part in pool]
    shares = [
        1 / len(tree) / len(pools) / sum(len(part.counts) for part in pool)
        for pools in tree
        for pool in pools
        for _ in pool
    ]
    means = _mean_counts(parts, shares)
    slopes = [_Slope.of(part, means) for part in parts]
    known = [slope for slope in slopes if slope is not None]
    if len(known) < len(slopes):
        return Estimate(None, None, None, None, sum(len(part.counts) for part in parts))
    cells = _reading_cells(parts, shares, known)
    values = [slope.values_of(part, means, cells) for part, slope in zip(parts, known, strict=True)]
    expected, linearised = (
        _of_tree(
            tree,
            [
                (part, slope, side[place])
                for part, slope, side in zip(parts, known, values, strict=True)
            ],
        )
        for place in (0, 1)
    )
    return with_reading_error(linearised, expected, list(cells.values()), bounds)


Means = Mapping[Hashable, tuple[float, ...]]


def _mean_counts(parts: Sequence[AuditedPart], shares: Sequence[float]) -> Means:
    """What the labelled members of each cell count in truth, on average."""
    sums: dict[Hashable, list[float]] = {}
    for part, of_question in zip(parts, shares, strict=True):
        for given in part.contributions:
            if given.weight and not given.is_settled:
                weight = of_question * given.share * given.weight
                totals = sums.setdefault(given.cell, [0.0] * (len(given.truth) + 1))
                for place, count in enumerate((1.0, *given.truth)):
                    totals[place] += weight * count
    return {
        cell: tuple(total / drawn for total in totals) for cell, (drawn, *totals) in sums.items()
    }


def _expected(given: Contribution, means: Means) -> Counts:
    return given.counted if given.is_settled else means.get(given.cell, given.counted)


class _Slope(Struct, frozen=True):
    """A part's value, and how it changes with what its questions count."""

    value: float
    gradient: Counts
    """Of the mean over questions of what they count."""
    middle: float
    """What the gradient makes of the mean counts: where a question lies that does not change the value."""

    @classmethod
    def of(cls, part: AuditedPart, means: Means) -> _Slope | None:
        """At the corrected sums; None where the value is not defined there, or nearby."""
        n, columns = len(part.counts), len(part.counts[0])
        sums = [math.fsum(counts[place] for counts in part.counts) for place in range(columns)]
        for given in part.contributions:
            for place, (after, before) in enumerate(
                zip(_expected(given, means), given.counted, strict=True)
            ):
                sums[place] += given.share * (after - before)
        if part.compute is None:
            return cls(sums[0] / n, (1.0,), sums[0] / n)
        value, gradient = part.compute(tuple(sums)), gradient_of(part.compute, tuple(sums))
        if value is None or gradient is None:
            return None
        per_question = tuple(n * slope for slope in gradient)
        return cls(value, per_question, _product(per_question, [total / n for total in sums]))

    def at(self, counts: Counts) -> float:
        return _product(self.gradient, counts)

    def values_of(
        self, part: AuditedPart, means: Means, cells: Mapping[Hashable, _DrawnCell]
    ) -> tuple[list[float], list[float]]:
        """What the cells expect of each question, and that with what the labels of its replies add."""
        expected = [self.at(counts) + self.value - self.middle for counts in part.counts]
        added = [0.0] * len(expected)
        for given in part.contributions:
            corrected = self.at(_expected(given, means))
            expected[given.question] += given.share * (corrected - self.at(given.counted))
            if given.weight and not given.is_settled:
                cell = cells[given.cell]
                of_label = given.share * given.weight * (self.at(given.truth) - corrected)
                added[given.question] += of_label * cell.members / cell.drawn
        return expected, [value + more for value, more in zip(expected, added, strict=True)]


def _product(gradient: Counts, counts: Sequence[float]) -> float:
    return (
        counts[0]
        if gradient == (1.0,)
        else math.fsum(map(float.__mul__, gradient, map(float, counts)))
    )


class _DrawnCell(ReadingCell, frozen=True):
    members: float = 0.0
    """The part of the number that they are."""


def _reading_cells(
    parts: Sequence[AuditedPart], shares: Sequence[float], slopes: Sequence[_Slope]
) -> dict[Hashable, _DrawnCell]:
    """The cells of a number. Labels of one unit in one cell count as one."""
    members: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    ends: dict[Hashable, tuple[float, float]] = {}
    labels: dict[Hashable, dict[Hashable, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for number, (part, of_question, slope) in enumerate(zip(parts, shares, slopes, strict=True)):
        at = _Remembered(slope)
        for given in part.contributions:
            if given.is_settled:
                continue
            weight = of_question * given.share
            members[given.cell].append((weight, at(given.counted)))
            low, high = at.ends(given.possible)
            least, most = ends.get(given.cell, (low, high))
            ends[given.cell] = min(least, low), max(most, high)
            if given.weight:
                labels[given.cell][number, given.unit].append(
                    (weight * given.weight, at(given.truth))
                )
    return dict(_cells(members, ends, labels))


class _Remembered:
    """Values along a slope; few different counts come often."""

    def __init__(self, slope: _Slope) -> None:
        self._slope, self._values = slope, dict[Counts, float]()
        self._ends: dict[tuple[Counts, ...], tuple[float, float]] = {}

    def __call__(self, counts: Counts) -> float:
        if (value := self._values.get(counts)) is None:
            value = self._values[counts] = self._slope.at(counts)
        return value

    def ends(self, possible: tuple[Counts, ...]) -> tuple[float, float]:
        if (ends := self._ends.get(possible)) is None:
            values = list(map(self, possible))
            ends = self._ends[possible] = min(values), max(values)
        return ends


def _cells(
    members: Mapping[Hashable, Sequence[tuple[float, float]]],
    ends: Mapping[Hashable, tuple[float, float]],
    labels: Mapping[Hashable, Mapping[Hashable, Sequence[tuple[float, float]]]],
) -> Iterator[tuple[Hashable, _DrawnCell]]:
    for key, own in members.items():
        low, high = ends[key]
        span = (high - low) or 1.0
        total = math.fsum(weight for weight, _ in own)
        scored = math.fsum(weight * value for weight, value in own) / total
        units = [
            (drawn, (math.fsum(weight * value for weight, value in unit) / drawn - low) / span)
            for unit in labels[key].values()
            for drawn in [math.fsum(weight for weight, _ in unit)]
        ]
        cell = cell_of(total * (high - low), (scored - low) / span, units)
        yield key, _DrawnCell(cell.weight, cell.right, cell.labelled, cell.drawn, total)


def _of_tree(tree: Tree, sides: Sequence[tuple[AuditedPart, _Slope, Sequence[float]]]) -> Estimate:
    upcoming = iter(sides)
    return _mean(
        [_mean([_of_pool([next(upcoming) for _ in pool]) for pool in pools]) for pools in tree]
    )


def _of_pool(sides: Sequence[tuple[AuditedPart, _Slope, Sequence[float]]]) -> Estimate:
    """Of questions that count alike; a number that is no mean is of one part alone."""
    part, slope, values = sides[0]
    if part.compute is None:
        all_values = list(chain.from_iterable(values for _, _, values in sides))
        all_groups = list(chain.from_iterable(part.groups for part, _, _ in sides))
        return estimate_mean(all_values, all_groups, bounds=part.bounds)
    deviations = [(value - slope.value) / len(values) for value in values]
    return linear_estimate((slope.value, deviations), part.groups, part.bounds)


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    return estimates[0] if len(estimates) == 1 else mean_of_estimates(estimates)


LITTLE, FEW = 0.05, 5
"""The share of questions that may have been given up where fewer than so many of the labelled went on."""


class LabelledQuestion(Struct, frozen=True, gc=False):
    """A labelled question that has to be right each time it is asked."""

    cell: Hashable
    weight: float
    """How many it stands for."""
    right: Sequence[bool]
    """In truth, each reply that came: no more were asked after one that was not read as right."""
    promised: int
    """How many replies it takes."""


def right_each_time(
    labelled: Sequence[LabelledQuestion], sizes: Mapping[Hashable, int]
) -> list[float] | None:
    """What each counts in truth: 1 or 0; of one that was given up although all that came was right, how likely the rest
    would have been right, too. `sizes` are the numbers of questions in each cell.

    The share right in a place, of the labelled that were right until then and went on, is that of all if misreading
    does not depend on what would have come (Kaplan and Meier 1958). To each value what it changes of these shares is
    added, which is none in all, so that the spread of the values is that of the corrected number (Greenwood). None
    where more than a little was given up so, and fewer than `FEW` of the labelled went on from there.
    """
    drawn: dict[Hashable, float] = defaultdict(float)
    for question in labelled:
        drawn[question.cell] += question.weight
    weights = [
        question.weight * sizes[question.cell] / drawn[question.cell] for question in labelled
    ]
    places = max((question.promised for question in labelled), default=0)
    came = [
        [place for place in range(len(question.right)) if all(question.right[:place])]
        for question in labelled
    ]
    at_risk, going_on, slopes, number = ([0.0] * places for _ in range(4))
    for question, weight, own in zip(labelled, weights, came, strict=True):
        for place in own:
            number[place] += 1
            at_risk[place] += weight
            going_on[place] += weight * question.right[place]
    shares = [right / risk if risk else 1.0 for right, risk in zip(going_on, at_risk, strict=True)]
    unsure = math.fsum(
        weight
        for question, weight in zip(labelled, weights, strict=True)
        if all(question.right)
        and min(number[len(question.right) : question.promised], default=FEW) < FEW
    )
    if unsure > LITTLE * math.fsum(weights):
        return None
    values = []
    for question, weight in zip(labelled, weights, strict=True):
        missed = range(len(question.right), question.promised)
        values.append(math.prod(shares[place] for place in missed) if all(question.right) else 0.0)
        for place in missed if values[-1] else ():
            slopes[place] += weight * values[-1] / shares[place]
    return [
        value + math.fsum(slopes[k] / at_risk[k] * (question.right[k] - shares[k]) for k in own)
        for value, question, own in zip(values, labelled, came, strict=True)
    ]
