"""Replies that fill in a form of all options: boxes of which one is ticked, or a share for each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from snellen.extraction.option_index import OptionIndex
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.late_patterns import late_pattern

_BOX = late_pattern(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?\[(?P<tick>[ xX✓✔])\]\s*(?P<name>\S.*)")
_SHARE = late_pattern(
    r"\s*(?:[-*+]\s+)?(?P<name>\S.*?)\s*[:=]\s*(?:about |~|≈)?(?P<share>\d+(?:\.\d+)?)\s*%\s*[.,;]?\s*"
)
_LABELLED = late_pattern(r"\(?(?P<label>\w{1,4})[).:]\s+(?P<text>.+)")
_FRAME = " \t.,;:*_`\"'()"
_ARTICLE = late_pattern(r"(?:an?|the)\s+")


def filled_form(reply: str, index: OptionIndex) -> tuple[int, ...] | None:
    """The options whose boxes are ticked, or that have the largest share; None for a reply that is no such form.

    None are chosen where an option is missing, stands there twice, or a line names none.
    """
    lines = [line for line in reply.splitlines() if line.strip()]
    boxes = [found for line in lines if (found := _BOX.fullmatch(line))]
    if len(boxes) > 1:
        return _chosen([(box["name"], float(box["tick"] != " ")) for box in boxes], index)
    if (shares := _object(reply)) is not None:
        return _chosen(shares, index)
    percents = [found for line in lines if (found := _SHARE.fullmatch(line))]
    if len(percents) == len(lines) > 1:
        return _chosen([(found["name"], float(found["share"])) for found in percents], index)
    return None


def _object(reply: str) -> list[tuple[str, float]] | None:
    """The pairs of a JSON object from names to numbers from 0 to 100."""
    text = reply.strip().removeprefix("```json").removeprefix("```").removesuffix("```").strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    try:
        pairs = msgspec.json.decode(text, type=dict[str, float])
    except JSON_FAULTS:
        return None
    return list(pairs.items()) if all(0 <= share <= 100 for share in pairs.values()) else None


def _chosen(pairs: Sequence[tuple[str, float]], index: OptionIndex) -> tuple[int, ...] | None:
    places = [_place(name, index) for name, _ in pairs]
    if len({place for place in places if place is not None}) < 2:
        return None
    if sorted(place for place in places if place is not None) != list(range(index.count)) or None in places:
        return ()
    most = max(share for _, share in pairs)
    best = tuple(
        place for place, (_, share) in zip(places, pairs, strict=True) if place is not None and share == most > 0
    )
    return best if len(best) == 1 else ()


def _place(name: str, index: OptionIndex) -> int | None:
    """The option that a line names: by its label, its text, or both."""
    plain = name.strip(_FRAME)
    if plain in index.exact:
        return index.exact[plain]
    texts = {_bare(option): place for place, option in enumerate(index.options)}
    if len(texts) < index.count:
        return None
    if (labelled := _LABELLED.fullmatch(plain)) and index.exact.get(labelled["label"]) is not None:
        place = index.exact[labelled["label"]]
        return place if texts.get(_bare(labelled["text"])) == place else None
    return texts.get(_bare(plain))


def _bare(text: str) -> str:
    return _ARTICLE.sub("", text.strip(_FRAME).casefold(), count=1)
