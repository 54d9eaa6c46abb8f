"""How numbers are written: a value never without its interval and its n."""

from __future__ import annotations

from snellen.records import Estimate

PLAIN = frozenset({"instability", "cider", "round_slope"})
"""Metrics written as they are; all others are shares of one, written in percent."""
NAMES = {
    "accuracy": "accuracy",
    "circular_accuracy": "circular accuracy",
    "instability": "instability",
    "hit_rate": "hit rate",
    "accuracy_strict": "strict accuracy",
    "template_spread": "template spread",
}
DASH = "—"


def name_of(metric: str) -> str:
    return NAMES.get(metric, metric)


def value_text(value: float, metric: str) -> str:
    """`62.5%`, or `0.693` for a metric that is no share."""
    return _fixed(value, 3) if metric in PLAIN else f"{_fixed(100 * value, 1)}%"


def interval_text(estimate: Estimate, metric: str) -> str:
    """`[58.1, 66.7]`, or `[no interval]` when the questions are too few to have one."""
    if estimate.low is None or estimate.high is None:
        return "[no interval]"
    if metric in PLAIN:
        return f"[{_fixed(estimate.low, 3)}, {_fixed(estimate.high, 3)}]"
    return f"[{_fixed(100 * estimate.low, 1)}, {_fixed(100 * estimate.high, 1)}]"


def count_text(estimate: Estimate) -> str:
    return f"n={estimate.n:,}"


def parts(estimate: Estimate, metric: str) -> tuple[str, str, str]:
    """Value, interval and n of an estimate that has a value."""
    value = DASH if estimate.value is None else value_text(estimate.value, metric)
    return value, interval_text(estimate, metric), count_text(estimate)


def figure_text(estimate: Estimate, metric: str) -> str:
    """`62.5% [58.1, 66.7] n=440`."""
    return " ".join(parts(estimate, metric))


def raised(number: int) -> str:
    """A footnote's number in superscript digits."""
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def listed(counts: dict[str, int]) -> str:
    """`no-match 12, empty 3`, the most frequent first; a dash when there is nothing."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered) or DASH


def _fixed(value: float, digits: int) -> str:
    # Adding zero turns a rounded -0.0 into 0.0.
    return f"{round(value, digits) + 0.0:.{digits}f}"
