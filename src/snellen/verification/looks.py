"""What is visible in an option without knowing what it means, and when hits of it are no luck."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from snellen.verification.questions import LintQuestion

UNLIKELY = 0.001
"""p-value below which an imbalance is reported as one."""
LEAST = 20
"""With fewer questions that have an odd option nothing is concluded."""
_ARTICLE = re.compile(r"\s*(?:an?|the)\s", re.IGNORECASE)
_FUNCTION_WORDS = frozenset(
    "a an the of in on at to is are was were do does did what which who where when how why many much there this that "
    "it its and or for with from by be can has have not no yes you your".split()
)


class SurfaceFeature(Struct, frozen=True):
    """A property of an option that can be seen without understanding the option."""

    name: str
    has: str
    lacks: str
    flags: Callable[[LintQuestion], list[bool]]


def _each(test: Callable[[str], bool]) -> Callable[[LintQuestion], list[bool]]:
    return lambda question: [test(option) for option in question.options]


def _echoes(question: LintQuestion) -> list[bool]:
    question_words = set(question.question.split()) - _FUNCTION_WORDS
    return [not question_words.isdisjoint(option.split()) for option in question.folded]


SURFACE_FEATURES = (
    SurfaceFeature(
        "full-stop",
        "ends with a full stop",
        "does not end with a full stop",
        _each(lambda option: option.rstrip().endswith(".")),
    ),
    SurfaceFeature(
        "capital",
        "begins with a capital",
        "does not begin with a capital",
        _each(lambda option: option.lstrip()[:1].isupper()),
    ),
    SurfaceFeature(
        "article",
        "begins with an article",
        "does not begin with an article",
        _each(lambda option: _ARTICLE.match(option) is not None),
    ),
    SurfaceFeature(
        "digit",
        "has a digit",
        "has no digit",
        _each(lambda option: any(letter.isdigit() for letter in option)),
    ),
    SurfaceFeature(
        "echo", "repeats a word of the question", "repeats no word of the question", _echoes
    ),
)
"""What checks look at; `snellen lint` counts each."""


def hits_p_value(hits: float, chances: Sequence[float]) -> float:
    """Return the two-sided p-value of a number of successes in independent trials (normal approximation).

    Args:
        hits: The number of successes.
        chances: For each trial, the probability of a success if there is nothing but luck.

    Examples:
        >>> round(hits_p_value(60, [0.5] * 100), 3)
        0.046
    """
    expected = math.fsum(chances)
    standard_deviation = math.sqrt(math.fsum(p * (1 - p) for p in chances))
    if not standard_deviation:
        return 1.0
    return math.erfc(abs(hits - expected) / standard_deviation / math.sqrt(2))
