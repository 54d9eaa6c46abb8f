"""Questions that ask for what is not so, and the option that a reply denies."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.phrases import DENIED

LONGEST_QUESTION = 2_000
"""Characters of a question that are looked at."""
_NEGATIVE = re.compile(
    r"\b(?:not|except|isn't|aren't|doesn't|don't|can't|cannot|false|incorrect|wrong|untrue|missing|absent|"
    r"lacks?|odd one|odd man|does not belong|different from the|nicht|kein|keine|keinen"
    r"|keines|falsch|fehlt|pas|aucun|absente?|manque|incorrecte|fausse|no|ningún|falta|ausente|não|nenhum|"
    r"non|nessun|manca|niet|geen|ontbreekt|nie|brakuje"
    r"|не|нет|отсутствует|лишний|лишнее|лишняя|лишним|değil|yok|olmayan|bukan|tidak|"
    r"không|ليس|لا|नहीं)\b|不是|没有|沒有|不在|不属于|不見|不见|没|ない|ません|"
    r"いない|없는|않은|않는|아닌|않"
)


@lru_cache(maxsize=4096)
def asks_for_what_is_not(question: str) -> bool:
    """Whether a question asks for the option that is denied: "Which of these is not in the picture?"."""
    return denies(question[:LONGEST_QUESTION].lower())


def denies(lowered: str) -> bool:
    """Whether a text in small letters denies something, in any language."""
    return _NEGATIVE.search(lowered) is not None


def denied_option(said: Skeleton) -> int | None:
    """The one option that a reply denies, where it denies just one."""
    places = {mention.places for offset, mention in said.at.items() if said.text[offset] == DENIED}
    [only] = places if len(places) == 1 else [()]
    return only[0] if len(only) == 1 else None
