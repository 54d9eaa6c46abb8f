"""Replies that say that it cannot be told, where an option says just that: "There is no way to know"."""

from __future__ import annotations

from functools import lru_cache

from snellen.extraction.assertion_filters import mentioned
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.formats.late_patterns import late_pattern

_TELL = r"(?:tell|know|determine|say|infer|conclude|establish|deduce|judge|decide|be sure|be certain)"
_TOLD = r"(?:told|known|determined|said|inferred|concluded|established|deduced|judged|decided|answered)"
_NOT_ABLE = (
    r"(?:can't|cannot|can not|couldn't|could not|unable to|not able to|impossible to|not possible to|isn't possible to"
    r"|no way (?:to|of)|no telling)"
)
CANNOT_BE_TOLD = late_pattern(
    rf"\b{_NOT_ABLE} (?:\w+ ){{0,3}}?(?:{_TELL}|(?:telling|knowing|determining)|be {_TOLD})\b"
    r"|\b(?:not enough|insufficient|too little) (?:information|evidence|detail|details|context|data)\b"
    r"|\b(?:unknown|unclear|undetermined|indeterminate|undeterminable|indeterminable|inconclusive)\b"
    rf"|\bnot {_TOLD}\b|\b(?:isn't|is not|not) clear\b|\bnot sure\b"
)
_OF_THE_MODEL = late_pattern(
    r"\b(?:sorry|apolog\w+|as an? (?:ai|language)|language model|assist|help|please|upload\w*|attach\w*|provided?"
    r"|guidelines|polic(?:y|ies)|access|view|load|process|images|open the|blank|privacy|personal)\b"
    r"|\b(?:see|have|receive|without) (?:\w+ ){0,2}(?:image|picture|photo)s?\b|\bno (?:image|picture|photo)\b"
)
_GOES_ON = late_pattern(
    r"\b(?:but|however|though|although|yet|still|probably|likely|perhaps|maybe|appears?|seems?|suggests?|guess|lean\w*"
    r"|most|best|pick|choose|would|might|if|assum\w+|rather)\b"
)
_WHETHER = late_pattern(r"\b(?:whether|which|who|what|how|where|when|if)\b[^.,;!?\n]*")


@lru_cache(maxsize=4096)
def _place(options: tuple[str, ...]) -> int | None:
    """The one option that says that it cannot be told."""
    places = [place for place, option in enumerate(options) if CANNOT_BE_TOLD.search(option[:200].lower())]
    return places[0] if len(places) == 1 else None


def undetermined_option(skeleton: Skeleton, text: str, index: OptionIndex) -> int | None:
    """The option that it cannot be told, where a reply says no more than that; a model that sees nothing does not."""
    place = _place(index.options)
    text = " ".join(text.lower().split())
    if place is None or len(text) > _LONGEST or CANNOT_BE_TOLD.search(text) is None:
        return None
    if _OF_THE_MODEL.search(text) or _GOES_ON.search(_WHETHER.sub(" ", text)):
        return None
    asides = [match.span() for match in _WHETHER.finditer(skeleton.text)]
    outside = [o for o in mentioned(skeleton) if not any(start <= o < end for start, end in asides)]
    return place if all(skeleton.at[offset].places == (place,) for offset in outside) else None


_LONGEST = 400
