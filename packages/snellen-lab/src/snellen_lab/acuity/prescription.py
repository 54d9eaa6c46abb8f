"""The prescription of a model: a sentence on what it needs to see, and on what it does not see."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from snellen.plugin_api import percent_text, wilson
from snellen_lab.acuity.acuity_run import AcuityRun
from snellen_lab.acuity.labels import has_several_methods
from snellen_lab.acuity.thresholds import PlaceShare, Threshold, total_shares

PLACES_CHANCE = 0.25
"""Chance level of tests of places, which have four options."""
WIDE_RATIO = 4
"""Ratio of the ends of an interval above which a threshold is not well known: two octaves."""


def prescription_line(run: AcuityRun) -> str:
    """Return one line that says what a model needs to see, with its name and the methods by which it was tested.

    Example: `snellen:tiny, by likelihood: needs shapes of 39 px or more.`
    """
    methods: list[str] = []
    for answers in run.answers:
        if answers.method not in methods:
            methods.append(answers.method)
    return f"{run.model}, by {' and '.join(methods)}: {prescription(run)}"


def prescription(run: AcuityRun) -> str:
    """Return what a model needs to see in each test, separated by semicolons; with the method if it had several."""
    needs = {answers.test.name: answers.test.needs for answers in run.answers if answers.test.needs}
    with_method = has_several_methods([run])
    parts: list[str] = []
    for threshold in run.thresholds:
        if threshold.test not in needs:
            continue
        need = _describe_need(needs[threshold.test], threshold)
        if need and with_method:
            need = f"{need} (by {threshold.method})"
        parts.append(need)
    for shares in run.fields.values():
        parts.append(_describe_field(shares))
    for threshold in run.thresholds:
        if threshold.notes:
            parts.append(f"{threshold.test}: does not only rise")

    text = "; ".join(part for part in parts if part)
    if not text:
        return "the table lists the tests."
    return f"{text}."


def _describe_need(objects: str, threshold: Threshold) -> str:
    """Return the need in one test, given the `needs` of the test, such as `letters of {} px`."""
    if threshold.verdict == "sees all":
        return "sees " + objects.format(f"even {threshold.hardest:.4g}")
    if threshold.verdict == "sees none":
        return "cannot tell " + objects.format(f"even {threshold.easiest:.4g}")
    needed_level = level_needed(threshold)
    if threshold.value is None or needed_level is None:
        return ""

    direction = "less" if threshold.scale.smaller_is_easier else "more"
    needed_share = f"{threshold.share_at(needed_level):.0%} right"
    threshold_share = f"{threshold.share_at(threshold.value):.0%} right"
    level = f"{threshold.value:.3g}{threshold.unit_suffix}"
    text = (
        f"needs {objects.format(f'{needed_level:g}')} or {direction} "
        f"({needed_share}; {threshold_share} at its threshold, {level})"
    )
    if _is_wide(threshold):
        text += f", not sure: the threshold may be {_describe_range(threshold)}"
    return text


def level_needed(threshold: Threshold) -> float | None:
    """Return the level at which a model is nearly at its best, in two digits.

    It is half a width of the curve easier than the threshold, or the easiest level. None unless the threshold is within
    the levels.
    """
    if threshold.value is None:
        return None
    scale = threshold.scale
    easier = scale.level(scale.x(threshold.value) + threshold.slope.value / 2)
    rounded = float(f"{easier:.2g}")
    if scale.smaller_is_easier:
        return max(rounded, threshold.easiest)
    return min(rounded, threshold.easiest)


def _is_wide(threshold: Threshold) -> bool:
    """Return whether an end of the interval is beyond the levels, or the interval spans more than two octaves."""
    low = threshold.low
    high = threshold.high
    if low is None or high is None:
        return True
    return threshold.is_log and max(low, high) > WIDE_RATIO * min(low, high)


def _describe_range(threshold: Threshold) -> str:
    """Return in words where the threshold may be."""
    low, high = threshold.bounds
    unit = threshold.unit_suffix
    if low is None and high is None:
        return "anywhere"
    if low is None:
        return f"anything up to {high:.2g}{unit}"
    if high is None:
        return f"{low:.2g}{unit} or anything above"
    return f"anything from {low:.2g} to {high:.2g}{unit}"


def _describe_field(shares: Sequence[PlaceShare]) -> str:
    """Return which quarter of the image is seen significantly worse than the best one.

    Two quarters differ if their 95% intervals do not overlap.
    """
    right, total = total_shares(shares)
    if not total:
        return ""
    lower_end, _ = wilson(right / total, total)
    if lower_end <= PLACES_CHANCE:
        return "the letter of the visual field test is too small for it"

    places_per_row = math.isqrt(max(share.place for share in shares)) + 1
    shares_by_quarter: dict[str, list[PlaceShare]] = defaultdict(list)
    for share in shares:
        row, column = divmod(share.place, places_per_row)
        vertical = "top" if 2 * row < places_per_row else "bottom"
        horizontal = "left" if 2 * column < places_per_row else "right"
        shares_by_quarter[f"{vertical} {horizontal}"].append(share)
    counts = {name: total_shares(members) for name, members in shares_by_quarter.items()}

    def accuracy(name: str) -> float:
        right, total = counts[name]
        return right / total

    worst, *_, best = sorted(counts, key=accuracy)
    _, worst_upper_end = wilson(accuracy(worst), counts[worst][1])
    best_lower_end, _ = wilson(accuracy(best), counts[best][1])
    if worst_upper_end >= best_lower_end:
        return "sees equally well in all quarters of the image"
    return f"sees least at the {worst} ({percent_text(accuracy(worst))})"
