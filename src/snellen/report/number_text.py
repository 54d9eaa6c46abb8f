"""Texts of numbers and labels as tables, charts and sentences show them; a number is never without interval and n."""

from __future__ import annotations

from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import SHARE, declared_row, metric_of, unit_multiplier
from snellen.records import Estimate

DASH = "—"
"""The text of an empty cell."""
SHARE_POINTS = "points of a share"
"""Unit of the difference of two shares."""
MAX_LABEL_LETTERS = 28
"""Longest label in a chart, in characters."""


def metric_title(metric: str) -> str:
    """Return what a metric is called in tables.

    Examples:
        >>> metric_title("accuracy")
        'accuracy'
    """
    return declared_row(metric).display_name


def dimension_title(dimension: str) -> str:
    """Return what a dimension is called in tables; an unknown one keeps its short name."""
    return dimension_titles().get(dimension, dimension)


def metric_meaning(metric: str) -> str:
    """Return what a metric measures, in one line; empty if it does not declare that."""
    declaration = metric_of(metric)
    return declaration.description if declaration else ""


def capitalised(text: str) -> str:
    """Return a text with its first letter capitalised, the rest unchanged."""
    return text[:1].upper() + text[1:]


def hint_text(column: str, hint: str) -> str:
    """Return what a column is, as a sentence: `Reused: replies from an earlier request.`"""
    return f"{capitalised(column)}: {hint}."


def unit_of_difference(unit: str) -> str:
    """Return the unit of a difference of two values: points for two shares, else the unit of the values.

    Examples:
        >>> unit_of_difference("share")
        'points of a share'
    """
    return SHARE_POINTS if unit == SHARE else unit


def percent_text(share: float) -> str:
    """Format a share as `62.5%`.

    Examples:
        >>> percent_text(0.125)
        '12.5%'
    """
    return f"{decimal_text(100 * share, 1)}%"


def value_text(estimate: Estimate, unit: str = SHARE) -> str:
    """Return the value of an estimate: `62.5%`, or `0.693` in a unit that is not a share; a dash without a value.

    Examples:
        >>> value_text(Estimate(0.75, 0.05, 0.64, 0.83, 80))
        '75.0%'
    """
    return number_or_dash(estimate.value, unit)


def number_text(value: float, unit: str = SHARE) -> str:
    """Return a number in its unit, such as `62.5%`, `3.1 points` or `0.693`."""
    factor, digits, sign = _number_format(unit)
    return f"{decimal_text(factor * value, digits)}{sign}"


def number_or_dash(value: float | None, unit: str = SHARE) -> str:
    """Return a number in its unit as `number_text` does, or a dash without a number."""
    return DASH if value is None else number_text(value, unit)


def interval_text(estimate: Estimate, unit: str = SHARE) -> str:
    """Format the interval of an estimate: `[58.1, 66.7]`, or `[no interval]` if there are too few questions.

    Args:
        estimate: The estimate.
        unit: Its unit. A share is printed as a percentage.

    Examples:
        >>> interval_text(Estimate(0.75, 0.05, 0.64, 0.83, 80))
        '[64.0, 83.0]'
    """
    if estimate.low is None or estimate.high is None:
        return "[no interval]"
    factor, digits, _ = _number_format(unit)
    low = decimal_text(factor * estimate.low, digits)
    high = decimal_text(factor * estimate.high, digits)
    return f"[{low}, {high}]"


def _number_format(unit: str) -> tuple[int, int, str]:
    """Return the factor and the number of decimals of values in a unit, and the sign after them."""
    if unit == SHARE:
        return 100, 1, "%"
    if unit == SHARE_POINTS:
        return 100, 1, " points"
    is_scaled = unit_multiplier(unit) != 1
    return 1, 2 if is_scaled else 3, ""


def count_text(estimate: Estimate) -> str:
    """Return the number of questions of an estimate: `n=440`."""
    return f"n={estimate.n:,}"


def figure_parts(estimate: Estimate, unit: str = SHARE) -> tuple[str, str, str]:
    """Return the texts of value, interval and number of questions."""
    return value_text(estimate, unit), interval_text(estimate, unit), count_text(estimate)


def figure_text(estimate: Estimate, unit: str = SHARE) -> str:
    """Return an estimate as text: `62.5% [58.1, 66.7] n=440`."""
    return " ".join(figure_parts(estimate, unit))


def superscript(number: int) -> str:
    """Return the number of a footnote in superscript digits."""
    digits = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    return str(number).translate(digits)


def footnote_mark(number: int, text: str) -> str:
    """Return the mark of a footnote behind a text, after a blank if it would look like a power of a number."""
    is_after_digit = text[-1:].isdigit()
    blank = " " if is_after_digit else ""
    return blank + superscript(number)


def counts_text(counts: dict[str, int]) -> str:
    """Return counts by name, the most frequent first: `no-match 12, empty 3`; a dash without counts."""
    names = sorted(counts)
    # Equally frequent ones stay in alphabetical order.
    names.sort(key=counts.__getitem__, reverse=True)
    texts = [f"{name} {counts[name]:,}" for name in names]
    return ", ".join(texts) or DASH


def decimal_text(value: float, digits: int) -> str:
    """Return a value with a number of decimals, never `-0.0`.

    Examples:
        >>> decimal_text(0.125, 2)
        '0.12'
    """
    rounded = round(value, digits) + 0.0  # adding zero turns -0.0 into 0.0
    return f"{rounded:.{digits}f}"


def shorten(label: str, letters: int = MAX_LABEL_LETTERS) -> str:
    """Cut a label to at most some number of characters. If it was cut, its last character is an ellipsis.

    Examples:
        >>> shorten("a very long title of a benchmark", 12)
        'a very long…'
    """
    if len(label) <= letters:
        return label
    return f"{label[: letters - 1]}…"


def shorten_inside(label: str, letters: int) -> str:
    """Shorten a label to a number of characters by cutting out its middle: `vendor/…-6-7B`.

    The beginning and the end are kept, because the end distinguishes models of the same family.
    """
    if len(label) <= letters:
        return label
    half = letters // 2
    beginning = label[: half - 1]
    end = label[half - letters :]
    return f"{beginning}…{end}"
