"""Verdicts and denials in other languages than English, as patterns over a skeleton.

Built from the word tables of `snellen.extraction.languages`. Repetitions are bounded, so matching is linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from snellen.common.late import late_pattern
from snellen.extraction import languages
from snellen.extraction.patterns import ANY_LABEL, ANY_MENTION, END, GROUP

_LETTER = r"[^\W\d_]"
_HANGUL_OR_WORD = r"[^\W\d_][^\s.,;:!?()\n]*"


def words_pattern(words: Iterable[str]) -> str:
    """One of some words as a word of its own; phrases have `_` for blanks."""
    every = sorted({re.escape(word.replace("_", " ")) for word in words}, key=len, reverse=True)
    return rf"(?<![\w'])(?:{'|'.join(every)})(?![\w'])" if every else "(?!)"


def dense_pattern(words: str) -> str:
    """One of some Chinese, Japanese or Korean expressions, inside a run of characters."""
    return "(?:" + "|".join(sorted(map(re.escape, words.split()), key=len, reverse=True)) + ")"


_X, _MARK, _END = ANY_MENTION, ANY_LABEL, END.pattern
_GROUP = rf"(?P<group>{GROUP.pattern})"
_BECAUSE = (
    "weil da denn car parce puisque porque pois perché poiché omdat want ponieważ bo gdyż потому так çünkü karena vì "
    "لأن क्योंकि und et y e en i и"
)
_EDGE = rf"(?= [.,;:!?)\n-]|$| {words_pattern(_BECAUSE.split())})"


class ForeignPatterns(Struct, frozen=True):
    """The verdicts and denials of some languages."""

    verdicts: tuple[re.Pattern[str], ...]
    post_verdict: re.Pattern[str]
    denials: tuple[re.Pattern[str], ...]
    declared: re.Pattern[str]


def words_of(table: languages.Words, spoken: tuple[str, ...]) -> frozenset[str]:
    """The words of some languages, and those that hold in several."""
    return frozenset(word for language in (*spoken, "any") for word in table.get(language, "").split())


@lru_cache(maxsize=256)
def foreign_patterns(spoken: tuple[str, ...]) -> ForeignPatterns:
    """The patterns of some languages together."""
    answer, option = (
        words_pattern(words_of(languages.ANSWER, spoken)),
        words_pattern(words_of(languages.OPTION, spoken)),
    )
    correct, choose = (
        words_pattern(words_of(languages.CORRECT, spoken)),
        words_pattern(words_of(languages.CHOOSE, spoken)),
    )
    tables = (languages.FILL, languages.OPTION, languages.CORRECT, languages.FINAL, languages.ANSWER, languages.COPULA)
    between = frozenset[str]().union(*(words_of(table, spoken) for table in tables)) - set(":-=→,")
    filled = rf"(?: (?:{words_pattern(between)}|[:=→-]))"
    pointed = rf"(?: (?:{words_pattern(words_of(languages.COPULA, spoken))}|[:=→-]))"
    denying = words_of(languages.NEGATION, spoken) - (_MEANS_IN_THE if "pt" in spoken else frozenset())
    negation, wrong = words_pattern(denying), words_pattern(words_of(languages.WRONG, spoken))
    stops = words_pattern(words_of(languages.CONTRAST, spoken) | words_of(languages.CONCLUSION, spoken))
    within = rf"(?: (?!{stops}){_HANGUL_OR_WORD})"
    behind = words_pattern(
        words_of(languages.NEGATION_BEHIND, spoken) | words_of({"ko": languages.DENIED_BEHIND_KOREAN}, spoken)
    )
    lead = rf"(?:(?:{words_pattern(between | words_of(languages.CONCLUSION, spoken))}|[,:=→-]) ){{0,10}}"
    verdicts = (
        rf"{answer}{filled}{{0,8}} (?P<x>{_X})",
        rf"(?:{option}{filled}{{0,6}} (?P<x>{_MARK}){_EDGE})",
        rf"{correct}{filled}{{0,6}} (?P<x>{_MARK})",
        rf"{choose}{filled}{{0,6}} (?P<x>{_X}){_EDGE}",
        rf"{correct}{filled}{{0,4}}{pointed}{filled}{{0,3}} (?P<x>{_X}){_EDGE}",
    )
    denials = (
        rf"{negation}{within}{{0,5}} {_GROUP}",
        rf"{wrong}(?: :)?{filled}{{0,5}} {_GROUP}",
        rf"{_GROUP}{within}{{0,4}} {wrong}",
        rf"{_GROUP}{within}{{0,5}} {behind}",
        rf"{_GROUP}{within}{{0,3}} {negation}(?! (?:{_HANGUL_OR_WORD} ){{0,3}}{_X})",
    )
    return ForeignPatterns(
        verdicts=tuple(map(re.compile, verdicts)),
        post_verdict=re.compile(rf"{_GROUP}(?: ,)?{filled}{{0,6}} (?:{correct}|{answer})"),
        denials=tuple(map(re.compile, denials)),
        declared=re.compile(rf"{lead}{_GROUP}{filled}{{0,4}}"),
    )


_MEANS_IN_THE = frozenset({"no"})
"""Portuguese and Spanish look alike, and the "no" of one is no denial in the other."""
DENSE_DENIALS = (
    late_pattern(
        rf"{_GROUP} ?(?:选项|選項|项|的|は|が|も|都|均|是|と){{0,3}} ?{dense_pattern(languages.DENIED_BEHIND_DENSE)}"
    ),
    late_pattern(
        rf"{dense_pattern(languages.DENIED_BEFORE_DENSE)}(?:选项|選項|[\u3040-\u30ff\u4e00-\u9fff]|\s){{0,4}}"
        rf"(?P<group>{_X}(?: ?(?:或者|或|和|,|与|と|や) ?{_X}){{0,30}})"
    ),
)
ASIAN = late_pattern("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
DENSE = late_pattern("[\u3040-\u30ff\u4e00-\u9fff]")
REFUSED = late_pattern(languages.REFUSED)
