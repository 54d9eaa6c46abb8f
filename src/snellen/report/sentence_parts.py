"""Parts that sentences of a report share: lists of names, values with intervals, differences in points.

An undecided difference is one that is not significant; a family is the set of differences that are corrected together.
"""

from __future__ import annotations

from collections.abc import Sequence

from snellen.analysis.paired.differences import PairedDifference, corrected_estimate, is_significant
from snellen.callers import setting
from snellen.installation import LAB
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.number_text import decimal_text, metric_title, number_text, value_text
from snellen.scoring.published_means import PUBLISHED_MEAN, QUESTION_SCORE

MAX_LISTED_NAMES = 3
"""More names than this are counted."""
NO_INTERVAL = "too few images for an interval"


def review_advice() -> str:
    """Return what makes uncertain readings of replies certain."""
    return f"use {setting('judge')}, or label some of them with `snellen audit` of {LAB}"


def name_list(names: Sequence[str]) -> str:
    """Join names as in a sentence: `A, B and C`. If there are many, the others are counted: `A, B, C and 4 more`."""
    listed = list(names)
    n_unlisted = len(names) - MAX_LISTED_NAMES
    if n_unlisted > 1:
        listed = [*names[:MAX_LISTED_NAMES], f"{n_unlisted} more"]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def some_dimensions(titles: Sequence[str], count: int) -> str:
    """Return dimensions by name, or how many of `count`: `spatial understanding`, `5 of 8 dimensions`."""
    if len(titles) == count:
        return "any dimension"
    if len(titles) < MAX_LISTED_NAMES:
        return name_list(titles)
    return f"{len(titles)} of {count} dimensions"


def interval_range(estimate: Estimate, unit: str = SHARE) -> str:
    """Format the interval of an estimate for a sentence: `58.1 to 66.7%`."""
    if estimate.low is None or estimate.high is None:
        return NO_INTERVAL
    low = number_text(estimate.low, unit).replace("%", "", 1)
    return f"{low} to {number_text(estimate.high, unit)}"


def ranked_values(numbers: Sequence[tuple[str, Estimate | None]], unit: str) -> str:
    """List named values with their intervals, the greatest first: `A 62.5% (58.1 to 66.7%), B 50.0% (...)`.

    Of more than three, only the greatest and the least are listed. Estimates without a value are left out.
    """
    values: list[tuple[float, str, Estimate]] = []
    for name, estimate in numbers:
        if estimate is not None and estimate.value is not None:
            values.append((estimate.value, name, estimate))
    values.sort(key=lambda entry: -entry[0])

    is_long = len(values) > MAX_LISTED_NAMES
    listed = [values[0], values[-1]] if is_long else values
    texts: list[str] = []
    for _, name, estimate in listed:
        interval = interval_range(estimate, unit)
        texts.append(f"{name} {value_text(estimate, unit)} ({interval})")
    if is_long:
        return f"among {len(values)} models, from {' down to '.join(texts)}"
    return ", ".join(texts)


def difference_text(
    difference: PairedDifference, family: str, scope: str = "", between: str = " to "
) -> str:
    """Describe the difference between two runs: `4.1 to 9.0 points of accuracy (95% interval, paired on 360 ...)`.

    Args:
        difference: The difference.
        family: What its interval is corrected for if there are several differences, such as `all pairs`.
        scope: What it is over, such as ` on average over 3 benchmarks`.
        between: Text between the ends of the interval.
    """
    is_alone = corrected_estimate(difference) == difference.difference
    interval_text = "95% interval" if is_alone else f"95% interval, corrected for {family}"
    of_metric = ""
    is_of_one_metric = difference.metric not in (SHARE, QUESTION_SCORE, PUBLISHED_MEAN)
    if difference.unit == SHARE and is_of_one_metric:
        of_metric = f" of {metric_title(difference.metric)}"
    count = f"{difference.difference.n:,} questions"
    return f"{difference_range(difference, between)}{of_metric}{scope} ({interval_text}, paired on {count})"


def difference_range(difference: PairedDifference, between: str = " to ") -> str:
    """Format the interval of a difference between two runs: `4.1 to 9.0 points`, or in the unit of another metric.

    For a significant difference the ends have no sign, because the sentence says which run is better. A difference that
    is not significant has signs: `-1.2 to 3.4 points`.
    """
    estimate = corrected_estimate(difference)
    low = estimate.low
    high = estimate.high
    if low is None or high is None:
        return NO_INTERVAL
    if is_significant(difference):
        low, high = sorted((abs(low), abs(high)))
    if difference.unit == SHARE:
        return f"{decimal_text(100 * low, 1)}{between}{decimal_text(100 * high, 1)} points"
    return f"{decimal_text(low, 3)}{between}{decimal_text(high, 3)} {difference.unit}".strip()
