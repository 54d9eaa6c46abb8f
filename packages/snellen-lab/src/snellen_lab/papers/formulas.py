"""Formulas by which values in a paper's tables follow from other values, on exact decimals in percent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal


def round_half_up(value: Decimal, digits: int) -> Decimal:
    """Round to a number of decimals, halves up, as papers do."""
    return value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


HUNDRED = Decimal(100)
Formula = Callable[[Sequence[Decimal], Decimal], Decimal | None]
"""Function from the sources and the share of questions whose answer is yes to the value; None if it is undefined."""


def half_unit(digits: int) -> Decimal:
    """Return how far a value may be from the printed one with this many decimals."""
    return Decimal(5).scaleb(-digits - 1)


def mean(values: Sequence[Decimal]) -> Decimal:
    """Return the exact mean of some decimals."""
    return sum(values, Decimal(0)) / len(values)


def _unchanged(sources: Sequence[Decimal], positives: Decimal) -> Decimal:
    """Return the only source."""
    [source] = sources
    return source


def _mean(sources: Sequence[Decimal], positives: Decimal) -> Decimal:
    """Return the mean of the sources."""
    return mean(sources)


def _difference(sources: Sequence[Decimal], positives: Decimal) -> Decimal:
    """Return the first of two sources minus the second."""
    first, second = sources
    return first - second


def _f1(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal:
    """Return F1. It is 2 true positives / (predicted + positive), and 0 if precision and recall are 0."""
    precision, recall = precision_recall
    if not precision + recall:
        return Decimal(0)
    return 2 * precision * recall / (precision + recall)


def _yes_rate(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal | None:
    """Return the share of replies that are yes: the true positives (`positives` x recall) divided by precision."""
    precision, recall = precision_recall
    if not precision:
        return None
    return HUNDRED * positives * recall / precision


def _accuracy(precision_recall: Sequence[Decimal], positives: Decimal) -> Decimal | None:
    """Return the accuracy: the true positives, and the negatives that are not false positives."""
    yes_rate = _yes_rate(precision_recall, positives)
    if yes_rate is None:
        return None
    _, recall = precision_recall
    true_positives = positives * recall
    false_positives = yes_rate - true_positives
    return true_positives + HUNDRED * (1 - positives) - false_positives


FORMULAS: Mapping[str, Formula] = {
    "same": _unchanged,
    "mean": _mean,
    "difference": _difference,
    "F1": _f1,
    "implied accuracy": _accuracy,
    "implied yes-rate": _yes_rate,
}
SOURCE_COUNTS = {"same": 1, "difference": 2, "F1": 2, "implied accuracy": 2, "implied yes-rate": 2}
"""Number of sources of each formula that does not take any number."""


def pooled_share(shares: Sequence[Decimal], counts: Sequence[int]) -> Decimal:
    """Return the share among all questions, given the share and the number of questions of each part.

    Each share is converted back to a number of questions first.
    """
    n_correct = Decimal(0)
    for share, count in zip(shares, counts, strict=True):
        n_correct += round_half_up(share * count / HUNDRED, 0)
    return HUNDRED * n_correct / sum(counts)


def nearest_share(printed: Decimal, tests: int, digits: int) -> tuple[Decimal, bool]:
    """Find the share of a number of tests that a printed percentage stands for.

    A model can only be correct in a whole number of tests. If the printed value is such a share with further decimals
    cut off instead of rounded, that share is returned; otherwise the nearest one.

    Args:
        printed: The printed percentage.
        tests: Number of tests.
        digits: Number of printed decimals.

    Returns:
        The share in percent, and whether decimals were cut off.
    """
    n_correct = (printed * tests / HUNDRED).to_integral_value(ROUND_FLOOR)
    below = HUNDRED * n_correct / tests
    above = HUNDRED * (n_correct + 1) / tests
    above_cut_off = above.quantize(Decimal(1).scaleb(-digits), ROUND_DOWN)
    if above_cut_off == printed and round_half_up(above, digits) != printed:
        return above, True
    if above - printed < printed - below:
        return above, False
    return below, False
