"""Questions that ask for what is not so, and the option that a reply denies."""

from __future__ import annotations

from functools import lru_cache

from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.phrases import DENIED
from snellen.formats.late_patterns import late_pattern

LONGEST_QUESTION = 2_000
"""Characters of a question that are looked at."""
_NEGATIVE = late_pattern(
    r"\b(?:not|except|isn't|aren't|doesn't|don't|can't|cannot|false|incorrect|wrong|untrue|missing|absent|"
    r"lacks?|odd one|odd man|does not belong|different from the|nicht|kein|keine|keinen"
    r"|keines|falsch|fehlt|pas|aucun|absente?|manque|incorrecte|fausse|no|ningún|falta|ausente|não|nenhum|"
    r"non|nessun|manca|niet|geen|ontbreekt|nie|brakuje"
    r"|не|нет|отсутствует|лишний|лишнее|лишняя|лишним|değil|yok|olmayan|bukan|tidak|"
    r"không|ليس|لا|नहीं)\b|不是|没有|沒有|不在|不属于|不見|不见|没|ない|ません|"
    r"いない|없는|않은|않는|아닌|않"
)


_EITHER = late_pattern(r"\b(?:true|right|correct|accurate) or (?:not|false|wrong|incorrect|untrue|inaccurate)\b")


@lru_cache(maxsize=4096)
def asks_for_what_is_not(question: str) -> bool:
    """Whether a question asks for the option that is denied: "Which of these is not in the picture?"."""
    return denies(_EITHER.sub(" ", question[:LONGEST_QUESTION].lower()))


def denies(lowered: str) -> bool:
    """Whether a text in small letters denies something, in any language."""
    return _NEGATIVE.search(lowered) is not None


def denied_option(skeleton: Skeleton) -> int | None:
    """The one option that a reply denies, where it denies just one."""
    denied = [offset for offset in skeleton.offsets if skeleton.text[offset] == DENIED]
    places = {skeleton.at[offset].places for offset in denied}
    [only] = places if len(places) == 1 else [()]
    return only[0] if len(only) == 1 and not all(_identified(skeleton, offset) for offset in denied) else None


def tells_what_is_so(skeleton: Skeleton, offsets: list[int], asked_of: frozenset[str]) -> bool:
    """Whether a clause says of a mention the very thing that the question denies: "the apple is a fruit"."""
    for offset in offsets:
        behind = _CLAUSE.split(skeleton.text[offset + 1 : offset + 200].removeprefix(" :"))[0]
        words = [word for word in _WORD.findall(behind) if word not in _SMALL]
        if words and not denies(behind) and all(word[:4] in asked_of for word in words):
            return True
    return False


_WORD = late_pattern(r"[^\W\d_]{3,}")
_SMALL = frozenset(
    "the are was were all also both clearly indeed una eine ein une des les los las sind est het een jest это".split()
)


def _identified(skeleton: Skeleton, offset: int) -> bool:
    """Whether it is denied to be the answer ("it's not A"), and not what the question asks about ("A is not red")."""
    before = _CLAUSE.split(skeleton.text[max(0, offset - 200) : offset])[-1]
    behind = _CLAUSE.split(skeleton.text[offset + 1 : offset + 100])[0].strip()
    before = before.strip()
    return not behind and before not in _ABSENT and _IDENTIFIES.fullmatch(before) is not None


_CLAUSE = late_pattern(r" [,.;:!?\n-](?= |$)|^[,.;:!?\n-] ")
_IDENTIFIES = late_pattern(
    r"(?:(?:it's|it|is|isn't|this|that|that's|the|a|an|not|answer|option|would|be|wouldn't|correct|one|right|"
    r"es|ist|das|der|die|ein|nicht|kein|keine|c|ce|n|est|pas|un|une|le|la|no|el|la|una|não|é|o|um|uma|non|è|il|"
    r"het|niet|geen|de|to|nie|jest|это|не|bukan|itu|không|phải|là|đây|不是|这不是|答案不是)(?: |$))+"
)
_ABSENT = frozenset("no kein keine geen".split())
"""Alone before a thing they say that it is not there."""
