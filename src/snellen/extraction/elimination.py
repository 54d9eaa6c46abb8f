"""The option that is left when a reply has disposed of the others: "not A, B or C"; "A, B and D are fruits"."""

from __future__ import annotations

from bisect import bisect_left

from snellen.extraction import languages, patterns
from snellen.extraction.assertion_filters import mentioned
from snellen.extraction.foreign_patterns import words_pattern
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.phrases import DENIED
from snellen.formats.late_patterns import late_pattern

_FEWEST = 4
"""Options that a question must have: of fewer, the others may be denied without saying which is left."""


def undenied_option(skeleton: Skeleton, index: OptionIndex) -> int | None:
    """The one option that is not denied where all others are and nothing is asserted."""
    if index.count < _FEWEST or mentioned(skeleton):
        return None
    denied = {place for offset, m in skeleton.at.items() if skeleton.text[offset] == DENIED for place in m.places}
    left = set(range(index.count)) - denied
    return left.pop() if len(left) == 1 else None


_JOIN = rf"(?: (?:,|{words_pattern(languages.JOINS | languages.ARTICLES)}|[或和与とや와과]))"
_LISTED = late_pattern(
    rf"{patterns.ANY}(?:{_JOIN}{{1,3}} {patterns.ANY}){{1,30}}|{patterns.ANY}(?:[和与或、] ?{patterns.ANY}){{1,30}}"
)


def odd_option(whole: Skeleton, skeleton: Skeleton, index: OptionIndex, *, negative: bool) -> int | None:
    """The one option that a reply does not name together with all others, but by itself; denied only if asked so."""
    if index.count < _FEWEST:
        return None
    for match in _LISTED.finditer(whole.text):
        inside = whole.offsets[bisect_left(whole.offsets, match.start()) : bisect_left(whole.offsets, match.end())]
        together = {place for offset in inside for place in whole.at[offset].places}
        [*left] = set(range(index.count)) - together
        if len(left) != 1 or len(together) != index.count - 1:
            continue
        asserted = mentioned(skeleton)
        others = [o for o in asserted if not match.start() <= o < match.end() and skeleton.at[o].places != (left[0],)]
        apart = [o for o in (whole.offsets if negative else asserted) if whole.at[o].places == (left[0],)]
        return left[0] if apart and not others else None
    return None
