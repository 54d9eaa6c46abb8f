"""Formatting of numbers, never without interval and n."""

from __future__ import annotations

from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import SHARE, declared, metric_of, unit_multiplier
from snellen.records import Estimate

DASH = "—"
LETTERS = 28
"""Longest label in a chart, in characters."""


def metric_title(metric: str) -> str:
    return declared(metric).display_name


def dimension_title(dimension: str) -> str:
    return dimension_titles().get(dimension, dimension)


def metric_meaning(metric: str) -> str:
    """What a metric is, in one line; empty for one that declares nothing."""
    declaring = metric_of(metric)
    return declaring.what if declaring else ""


def capitalised(text: str) -> str:
    """`text` with its first letter capitalised, the rest unchanged."""
    return text[:1].upper() + text[1:]


def percent(share: float) -> str:
    return f"{decimal_text(100 * share, 1)}%"


def value_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`62.5%`, or `0.693` in a unit that is not a share; a dash when there is no value."""
    if estimate.value is None:
        return DASH
    factor, digits, sign = _style(unit)
    return f"{decimal_text(factor * estimate.value, digits)}{sign}"


def interval_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`[58.1, 66.7]`, or `[no interval]` when the questions are too few to have one."""
    if estimate.low is None or estimate.high is None:
        return "[no interval]"
    factor, digits, _ = _style(unit)
    return f"[{decimal_text(factor * estimate.low, digits)}, {decimal_text(factor * estimate.high, digits)}]"


def _style(unit: str) -> tuple[int, int, str]:
    """The factor and digits of values in this unit, and the sign after them."""
    if unit == SHARE:
        return 100, 1, "%"
    return (1, 2, "") if unit_multiplier(unit) != 1 else (1, 3, "")


def count_text(estimate: Estimate) -> str:
    return f"n={estimate.n:,}"


def figure_parts(estimate: Estimate, unit: str = SHARE) -> tuple[str, str, str]:
    """Value, interval and n."""
    return value_text(estimate, unit), interval_text(estimate, unit), count_text(estimate)


def figure_text(estimate: Estimate, unit: str = SHARE) -> str:
    """`62.5% [58.1, 66.7] n=440`."""
    return " ".join(figure_parts(estimate, unit))


def superscript(number: int) -> str:
    """A footnote's number in superscript digits."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def counts_text(counts: dict[str, int]) -> str:
    """`no-match 12, empty 3`, the most frequent first; a dash when there is nothing."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered) or DASH


def decimal_text(value: float, digits: int) -> str:
    """`value` with `digits` decimals; never `-0.0`."""
    # Adding zero turns a rounded -0.0 into 0.0.
    return f"{round(value, digits) + 0.0:.{digits}f}"


def shorten(label: str, letters: int = LETTERS) -> str:
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def shorten_inside(label: str, letters: int) -> str:
    """`vendor/…-6-7B`: the end tells models of one family from each other."""
    if len(label) <= letters:
        return label
    return f"{label[: letters // 2 - 1]}…{label[letters // 2 - letters :]}"
