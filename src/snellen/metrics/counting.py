"""Counting: how far the number in a reply is from the number of objects.

The legacy rows are by the script of GVT (Wang et al. 2023), the origin of the data sets COCO-OC and VCR-OC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial

from snellen.formats.quantities import quantities
from snellen.metrics.declaration import MetricRow, metric_row, share
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.summed import CorpusCountMetric, Counts, Golds
from snellen.metrics.vqa import number_in

Reader = Callable[[str], float | None]
_LEGACY_WORDS = {word: str(i) for i, word in enumerate("none one two three four five six seven eight nive".split())}
"""In the script's own spelling."""


def read_count(reply: str) -> float | None:
    """The only number in a reply, in figures or in words to twelve; None if there is none, or several differ."""
    in_words = {number_in(word) for word in standard_normalise(reply).split()}
    in_figures = {float(quantity.values[0]) for quantity in quantities(reply)}
    numbers = (in_words | in_figures) - {None}
    return numbers.pop() if len(numbers) == 1 else None


def legacy_read_count(reply: str) -> float:
    """GVT's: the first run of digits, 0 without one, once the letters of number words are digits wherever they stand.

    So `someone` is 1, `nine` is 0 (the script says nive), and `Two` too.
    """
    for word, digit in _LEGACY_WORDS.items():
        reply = reply.replace(word, digit)
    digits = re.search(r"\d+", reply)
    return float(digits[0]) if digits else 0.0


def _count(reader: Reader, replies: Sequence[str], golds: Golds) -> list[Counts | str]:
    """Summed: 1, right, at most one off, read, |error|, error squared."""

    def count(reply: str, texts: Sequence[str]) -> Counts | str:
        gold = read_count(texts[0]) if texts else None
        if gold is None:
            return f"gold {' / '.join(texts)!r} is not a number"
        number = reader(reply)
        if number is None:
            return (1, 0, 0, 0, 0, 0)
        error = abs(number - gold)
        return (1, error == 0, error <= 1, 1, error, error * error)

    return [count(reply, texts) for reply, texts in zip(replies, golds, strict=True)]


def _compute(sums: Counts) -> tuple[float | None, ...]:
    n, right, near, n_read, error, squared = sums
    errors = (error / n_read, math.sqrt(squared / n_read)) if n_read else (None, None)
    return (right / n, near / n, *errors, 1 - n_read / n)


def _rows(name_prefix: str, title_prefix: str) -> tuple[MetricRow, ...]:
    def error(name: str, title: str) -> MetricRow:
        return metric_row(
            f"{name_prefix}{name}", title=f"{title_prefix}{title}", unit="objects", low=0.0, better="lower",
            interval="linearised", scale=f"{name_prefix}{name}", unparsed="left out",
            undefined="no reply has just one number",
        )  # fmt: skip

    def rate(name: str, title: str, **declared: object) -> MetricRow:
        return share(
            f"{name_prefix}{name}", f"{title_prefix}{title}", interval="linearised", **{"unparsed": "wrong"} | declared
        )

    return (
        rate("count_accuracy", "count accuracy"),
        rate("count_within_1", "count within 1"),
        error("count_mae", "count MAE"),
        error("count_rmse", "count RMSE"),
        rate("count_unparsed_rate", "count unparsed rate", better="lower", scale="", unparsed="counted"),
    )


COUNTING = CorpusCountMetric(
    what="counting: right, at most one off; mean absolute and root mean squared error of the replies with one number",
    rows=_rows("", ""),
    count=partial(_count, read_count),
    compute=_compute,
    per_question=("count_accuracy", "count_within_1", "count_mae"),
    by_answer=True,
)
LEGACY_COUNTING = CorpusCountMetric(
    what="the same by GVT's script: the first run of digits, 0 without one",
    rows=_rows("legacy_", "legacy "),
    count=partial(_count, legacy_read_count),
    compute=_compute,
    per_question=("legacy_count_accuracy",),
    by_answer=True,
)
