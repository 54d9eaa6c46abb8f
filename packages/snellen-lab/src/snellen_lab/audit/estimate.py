"""Correct the numbers of a run by labels of some replies.

The method is prediction-powered inference (Angelopoulos et al. 2023). A unit is what is labelled
together: a reply, or all replies that a value depends on. Units are grouped into cells by how they
were read and by what they counted as: for example, all replies that were read with certainty and
counted as right. In each cell, the labels estimate how much its units should count. The corrected
number is what the number would be if each unit of a cell counted that much. This is a difference
estimator, stratified after the draw. If the readings carry no information, it is as precise as an
estimate from labels alone.

A number that is not a mean (F1) is computed from corrected sums, and linearised around them.

The interval covers two uncertainties: other questions might have been asked (by image,
`estimate_mean`), and other replies might have been drawn (by cell, Wilson's interval, which keeps
its width if no labelled reply was misread). `bench/audit_coverage.py` measures how often the
interval contains the true value.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    Estimate,
    estimate_mean,
    gradient_of,
    linear_estimate,
    mean_of_estimates,
    wilson,
)

Counts = tuple[float, ...]
"""Numbers that a metric counts on a question; those of several questions are added."""
Bounds = tuple[float, float]
"""The smallest and the largest possible value of a metric."""
SHARE_BOUNDS: Bounds = (0.0, 1.0)


class Contribution(Struct, frozen=True, gc=False):
    """What a reply, or several that are labelled together, contributes to the number of a question."""

    question: int
    """Index of the question in its part."""
    cell: Hashable
    """Members of a cell were read in the same way and counted the same."""
    counted: Counts
    """Counts by the reading."""
    unit: Hashable
    """Identity of the replies that are drawn and labelled together."""
    share: float = 1.0
    """Share of its question."""
    weight: float = 0.0
    """How many units it represents: 1 / the probability with which it was drawn; 0 without a label."""
    truth: Counts = ()
    """Counts by the label."""
    possible: tuple[Counts, ...] = ((0.0,), (1.0,))
    """Possible counts, which include the smallest and the largest."""
    is_settled: bool = False
    """Whether no label is needed, because the reading cannot be wrong."""


class AuditedPart(Struct, frozen=True):
    """The questions of a benchmark behind a number, with the contributions of their replies."""

    groups: Sequence[Hashable]
    """The image of each question."""
    counts: Sequence[Counts]
    """Counts of each question by the reading. If these are single numbers, the value is their mean."""
    contributions: Sequence[Contribution]
    compute: Callable[[Counts], float | None] | None = None
    """Function from summed counts to the value, if it is not a mean."""
    bounds: Bounds = SHARE_BOUNDS


Tree = Sequence[Sequence[Sequence[AuditedPart]]]
"""A number as a mean of means: over dimensions, over the pools of a dimension (usually a benchmark each), and over the
questions of all parts of a pool."""


class ReadingCell(Struct, frozen=True):
    """A summary of the replies that were read in the same way and count the same."""

    weight: float
    """Share of the number, times the difference between the largest and the smallest possible count."""
    right: float
    """Mean count by labels, from 0 for the smallest to 1 for the largest; as read if no member is labelled."""
    labelled: float = 0.0
    """Effective number of labels (Kish); infinite if no label is needed."""
    drawn: float = 0.0
    """Sum of the labels' weights."""

    @property
    def margins(self) -> tuple[float, float]:
        """Return how far the cell's mean may be below and above `right`, as shares of the number.

        Both are 0 if the cell needs no labels.
        """
        if math.isinf(self.labelled):
            return 0.0, 0.0
        low = 0.0
        high = 1.0
        if self.labelled:
            low, high = wilson(self.right, self.labelled)
        return self.weight * (self.right - low), self.weight * (high - self.right)


class _SharedCell(ReadingCell, frozen=True):
    """A reading cell with its share of the number."""

    share: float = 0.0


def cell_of(weight: float, scored: float, labels: Sequence[tuple[float, float]]) -> ReadingCell:
    """Return the summary of replies that were read in the same way and count the same.

    Args:
        weight: The cell's share of the number.
        scored: Mean count of its replies as they were read, from 0 to 1.
        labels: For each label, how many replies it represents, and the true count of its reply,
            from 0 to 1.
    """
    total = math.fsum(label_weight for label_weight, _ in labels)
    if not total:
        return ReadingCell(weight, float(scored))
    mean_truth = math.fsum(label_weight * truth for label_weight, truth in labels) / total
    mean_truth = max(0.0, min(1.0, mean_truth))  # not outside by rounding
    # Kish's effective number: unequal weights are worth fewer labels.
    sum_of_squares = math.fsum(label_weight**2 for label_weight, _ in labels)
    effective_labels = total**2 / sum_of_squares
    return ReadingCell(weight, mean_truth, effective_labels, total)


def with_reading_error(
    linearised: Estimate,
    expected: Estimate,
    cells: Sequence[ReadingCell],
    bounds: Bounds = SHARE_BOUNDS,
) -> Estimate:
    """Widen the interval of a corrected number, because only some replies were labelled.

    On either side, the new interval is the wider one of two: that of `linearised`, and that of
    `expected` together with the margins of the cells, added as the root of the sum of their squares
    (MOVER).

    Args:
        linearised: Mean over questions of the expected counts plus what each label adds to its
            question. Its spread over images covers both the choice of questions and the draw of
            labels.
        expected: Mean over questions of the expected counts.
        cells: The reading cells.
        bounds: Bounds of the metric.
    """
    if linearised.low is None or linearised.high is None or linearised.value is None:
        return linearised
    linearised_below, linearised_above = linearised.margins
    expected_below, expected_above = expected.margins
    cells_below = []
    cells_above = []
    for cell in cells:
        below, above = cell.margins
        cells_below.append(below)
        cells_above.append(above)
    margin_below = max(linearised_below, math.hypot(expected_below, *cells_below))
    margin_above = max(linearised_above, math.hypot(expected_above, *cells_above))
    lowest, highest = bounds
    return replace(
        linearised,
        low=max(lowest, linearised.value - margin_below),
        high=min(highest, linearised.value + margin_above),
    )


def corrected_number(tree: Tree, bounds: Bounds = SHARE_BOUNDS) -> Estimate:
    """Return the corrected number of these parts with its interval.

    Args:
        tree: The parts of the number, a mean of means: over dimensions, over the pools of a dimension (usually one for each
            benchmark), and over the questions of all parts of a pool.
        bounds: The lowest and the highest possible value.

    Returns:
        The number. It has no value if the metric is not defined at the corrected sums.
    """
    parts: list[AuditedPart] = []
    question_shares: list[float] = []
    """Share of the number that each question of a part has."""
    for pools in tree:
        for pool in pools:
            n_questions = sum(len(part.counts) for part in pool)
            for part in pool:
                parts.append(part)
                question_shares.append(1 / len(tree) / len(pools) / n_questions)

    means = _mean_truths(parts, question_shares)
    linearisations: list[_Linearisation] = []
    for part in parts:
        linearisation = _Linearisation.of(part, means)
        if linearisation is None:
            return Estimate(None, None, None, None, sum(len(part.counts) for part in parts))
        linearisations.append(linearisation)

    cells = _reading_cells(parts, question_shares, linearisations)
    expected_values: list[list[float]] = []
    corrected_values: list[list[float]] = []
    for part, linearisation in zip(parts, linearisations, strict=True):
        expected, corrected = linearisation.question_values(part, means, cells)
        expected_values.append(expected)
        corrected_values.append(corrected)
    expected_estimate = _tree_estimate(tree, linearisations, expected_values)
    linearised_estimate = _tree_estimate(tree, linearisations, corrected_values)
    return with_reading_error(linearised_estimate, expected_estimate, list(cells.values()), bounds)


MeanTruths = Mapping[Hashable, tuple[float, ...]]


def _mean_truths(parts: Sequence[AuditedPart], question_shares: Sequence[float]) -> MeanTruths:
    """Return for each cell the mean true counts of its labelled members.

    Cells without labels are left out.
    """
    weights: dict[Hashable, float] = defaultdict(float)
    sums: dict[Hashable, list[float]] = {}
    for part, question_share in zip(parts, question_shares, strict=True):
        for contribution in part.contributions:
            if not contribution.weight or contribution.is_settled:
                continue
            weight = question_share * contribution.share * contribution.weight
            weights[contribution.cell] += weight
            cell_sums = sums.setdefault(contribution.cell, [0.0] * len(contribution.truth))
            for column, count in enumerate(contribution.truth):
                cell_sums[column] += weight * count

    means = {}
    for cell, cell_sums in sums.items():
        means[cell] = tuple(total / weights[cell] for total in cell_sums)
    return means


def _expected_counts(contribution: Contribution, means: MeanTruths) -> Counts:
    """Return the counts that a contribution should have, judging by the labels of its cell.

    Without labels in the cell, or if the reading cannot be wrong, these are the counts as read.
    """
    if contribution.is_settled:
        return contribution.counted
    return means.get(contribution.cell, contribution.counted)


class _Linearisation(Struct, frozen=True):
    """The value of a part at its corrected counts, and how it changes with the counts."""

    value: float
    """Value at the corrected sums."""
    gradient: Counts
    """Gradient of the value by the mean counts of questions."""
    neutral: float
    """Product of the gradient and the mean counts, which a question has that does not change the value."""

    @classmethod
    def of(cls, part: AuditedPart, means: MeanTruths) -> _Linearisation | None:
        """Return the linear approximation of a part's number at the corrected sums of its counts.

        None is returned if the number, or its gradient, is not defined there.
        """
        n_questions = len(part.counts)
        sums = [math.fsum(column) for column in zip(*part.counts, strict=True)]
        for contribution in part.contributions:
            expected_counts = _expected_counts(contribution, means)
            for column, expected in enumerate(expected_counts):
                difference = expected - contribution.counted[column]
                sums[column] += contribution.share * difference
        if part.compute is None:
            mean = sums[0] / n_questions
            return cls(mean, (1.0,), mean)

        value = part.compute(tuple(sums))
        sum_gradient = gradient_of(part.compute, tuple(sums))
        if value is None or sum_gradient is None:
            return None
        gradient = tuple(n_questions * slope for slope in sum_gradient)
        mean_counts = [total / n_questions for total in sums]
        return cls(value, gradient, _product(gradient, mean_counts))

    def project(self, counts: Counts) -> float:
        """Return the product of the gradient and the counts of a question."""
        return _product(self.gradient, counts)

    def question_values(
        self, part: AuditedPart, means: MeanTruths, cells: Mapping[Hashable, _SharedCell]
    ) -> tuple[list[float], list[float]]:
        """Return two lists with a value for each question of a part.

        The mean of each list is the corrected number. The first list has the values that the cells
        of a question's replies let one expect. The second list adds to these how far the labels of
        the question's own replies differ from that.
        """
        expected = []
        for counts in part.counts:
            expected.append(self.project(counts) + self.value - self.neutral)
        added_by_labels = [0.0] * len(expected)
        for contribution in part.contributions:
            expected_count = self.project(_expected_counts(contribution, means))
            difference = expected_count - self.project(contribution.counted)
            expected[contribution.question] += contribution.share * difference
            if contribution.weight and not contribution.is_settled:
                cell = cells[contribution.cell]
                residual = self.project(contribution.truth) - expected_count
                added = contribution.share * contribution.weight * residual
                added_by_labels[contribution.question] += added * cell.share / cell.drawn
        corrected = []
        for value, added in zip(expected, added_by_labels, strict=True):
            corrected.append(value + added)
        return expected, corrected


def _product(gradient: Counts, counts: Sequence[float]) -> float:
    """Return the scalar product of a gradient and counts.

    For the gradient (1,), which stands for a plain mean, this is the first count.
    """
    if gradient == (1.0,):
        return counts[0]
    products = []
    for slope, count in zip(gradient, counts, strict=False):
        products.append(float(slope) * float(count))
    return math.fsum(products)


class _CellMembers:
    """Collects the members of a cell from all parts of a number."""

    def __init__(self) -> None:
        """Start without members; contributions are added one after the other."""
        self.read: list[tuple[float, float]] = []
        """For each member, its share of the number and its count by the reading."""
        self.lowest = math.inf
        self.highest = -math.inf
        self.labels: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
        """For each labelled unit, the weights and the true counts of its members."""

    def cell(self) -> _SharedCell:
        """Return the summary of the cell.

        Counts are scaled so that the lowest possible count is 0 and the highest 1. Several labels
        of one unit count as a single label: their weighted mean.
        """
        span = self.highest - self.lowest
        scale = span or 1.0
        total_weight = math.fsum(weight for weight, _ in self.read)
        mean_count = math.fsum(weight * count for weight, count in self.read) / total_weight
        labels = []
        for unit_labels in self.labels.values():
            unit_weight = math.fsum(weight for weight, _ in unit_labels)
            mean_truth = math.fsum(weight * truth for weight, truth in unit_labels) / unit_weight
            labels.append((unit_weight, (mean_truth - self.lowest) / scale))
        scaled_count = (mean_count - self.lowest) / scale
        cell = cell_of(total_weight * span, scaled_count, labels)
        return _SharedCell(
            weight=cell.weight,
            right=cell.right,
            labelled=cell.labelled,
            drawn=cell.drawn,
            share=total_weight,
        )


def _reading_cells(
    parts: Sequence[AuditedPart],
    question_shares: Sequence[float],
    linearisations: Sequence[_Linearisation],
) -> dict[Hashable, _SharedCell]:
    """Sort the replies of all parts of a number into reading cells.

    Args:
        parts: The parts of the number.
        question_shares: For each part, the share of the number that each of its questions has.
        linearisations: For each part, how its value changes with counts.

    Returns:
        The cells by their keys (`Contribution.cell`).
    """
    members_by_cell: dict[Hashable, _CellMembers] = defaultdict(_CellMembers)
    for index, part in enumerate(parts):
        share = question_shares[index]
        _gather_members(members_by_cell, index, part, share, linearisations[index])
    cells = {}
    for key, members in members_by_cell.items():
        cells[key] = members.cell()
    return cells


def _gather_members(
    members: dict[Hashable, _CellMembers],
    part_index: int,
    part: AuditedPart,
    question_share: float,
    linearisation: _Linearisation,
) -> None:
    """Add each contribution of a part to its cell in `members`."""
    # Only few different counts occur, so the results for each are kept.
    project = cache(linearisation.project)

    @cache
    def extremes(possible: tuple[Counts, ...]) -> tuple[float, float]:
        values = [project(counts) for counts in possible]
        return min(values), max(values)

    for contribution in part.contributions:
        if contribution.is_settled:
            continue
        cell = members[contribution.cell]
        weight = question_share * contribution.share
        cell.read.append((weight, project(contribution.counted)))
        low, high = extremes(contribution.possible)
        cell.lowest = min(cell.lowest, low)
        cell.highest = max(cell.highest, high)
        if contribution.weight:
            label = (weight * contribution.weight, project(contribution.truth))
            cell.labels[part_index, contribution.unit].append(label)


def _tree_estimate(
    tree: Tree, linearisations: Sequence[_Linearisation], values: Sequence[Sequence[float]]
) -> Estimate:
    """Return the mean of means over a tree of parts.

    Args:
        tree: The parts, by dimension and pool.
        linearisations: For each part in order, its linear approximation.
        values: For each part in order, the values of its questions.
    """
    remaining = iter(zip(linearisations, values, strict=True))
    dimension_estimates = []
    for pools in tree:
        pool_estimates = []
        for pool in pools:
            pool_estimates.append(_pool_estimate(pool, remaining))
        dimension_estimates.append(_mean(pool_estimates))
    return _mean(dimension_estimates)


def _pool_estimate(
    pool: Sequence[AuditedPart], remaining: Iterator[tuple[_Linearisation, Sequence[float]]]
) -> Estimate:
    """Return the mean over all questions of a pool, or the only number of a pool that is not a mean.

    Args:
        pool: The parts of the pool.
        remaining: Linear approximation and values of the parts still to come. As many are consumed
            as the pool has parts.
    """
    if pool[0].compute is None:
        all_values: list[float] = []
        all_groups: list[Hashable] = []
        for part in pool:
            _, values = next(remaining)
            all_values.extend(values)
            all_groups.extend(part.groups)
        return estimate_mean(all_values, all_groups, bounds=pool[0].bounds)

    # A number that is not a mean has a single part.
    [part] = pool
    linearisation, values = next(remaining)
    deviations = [(value - linearisation.value) / len(values) for value in values]
    return linear_estimate((linearisation.value, deviations), part.groups, part.bounds)


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent estimates. A single estimate is returned unchanged."""
    if len(estimates) == 1:
        return estimates[0]
    return mean_of_estimates(estimates)
