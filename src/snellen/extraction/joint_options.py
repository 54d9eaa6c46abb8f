"""Options that stand for others: "all of the above", "both a tree and a house"; and "the latter" of two."""

from __future__ import annotations

from snellen.extraction import patterns, phrases
from snellen.extraction.assertion_filters import (
    mentioned,
    sentences,
    without_denials,
    without_hypotheses,
    without_questions,
)
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.formats.late_patterns import late_pattern

_BOTH = late_pattern(r"both(?: (?:of (?:them|these|the above|the two)|(?:the )?[a-z]+))?")
_APART = late_pattern(
    r"\b(?:or|either|neither|nor|but|if|might|may|could|would|maybe|not|instead|rather|unlike|except|without|than|either|only)\b|n't\b|\?"
)


def joint_option(whole: Skeleton, index: OptionIndex) -> int | None:
    """The option that stands for several others, where a reply asserts all of these together and none besides."""
    said = without_denials(without_hypotheses(without_questions(whole)))
    offsets = mentioned(said)
    if not offsets or any(len(said.at[o].places) != 1 or said.at[o].kind == phrases.CONFLICT for o in offsets):
        return None
    named = frozenset(said.at[offset].places[0] for offset in offsets)
    joint = [place for place in range(index.count) if (parts := _parts(place, index)) and named - {place} == parts]
    if len(joint) != 1 or len(mentioned(whole)) != len(offsets):
        return None
    together = [
        (start, end)
        for start, end, _ in sentences(said)
        if {said.at[o].places[0] for o in mentioned(said, start, end)} - {joint[0]} == named - {joint[0]}
    ]
    naming = [(start, end) for start, end, ending in sentences(said) if mentioned(said, start, end) and ending != "?"]
    plain = bool(naming) and together == naming and not any(_APART.search(said.text, *span) for span in together)
    return joint[0] if plain and "\n" not in said.text.strip() else None


def _parts(place: int, index: OptionIndex) -> frozenset[int]:
    """The options that an option stands for; none where it stands for itself."""
    others = [p for p in range(index.count) if p != place and not _stands_for_none(index.words[p])]
    words = index.words[place]
    if place in index.summing_up and words[:1] == ("all",):
        return frozenset(others) if len(others) > 1 else frozenset()
    if not words or "and" not in words:
        both = len(others) == 2 and _BOTH.fullmatch(" ".join(words)) is not None
        return frozenset(others) if both else frozenset()
    core = _core(words)
    for one in others:
        for two in others:
            if one != two and core == (*_core(index.words[one]), "and", *_core(index.words[two])):
                return frozenset((one, two))
    return frozenset()


def _core(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word for word in words if word != "both" and word not in phrases.DETERMINERS)


def _stands_for_none(words: tuple[str, ...]) -> bool:
    return not words or words[0] in ("none", "neither", "both", "all", "cannot", "no", "unknown", "nothing")


_OF_TWO = late_pattern(
    r"\b(?:so|therefore|hence|thus|with|for|choose|pick|select|say|answer :|answer is|towards?|prefer|be|it's|on)"
    r"(?: (?:,|it's|it is|for|is))* the (?P<which>former|latter)(?: (?:one|option|choice))?(?= [.!\n]|$)"
)
_DENIED = late_pattern(r"\b(?:not|no|never|than|unlike|if|neither)\b|n't\b")


def of_two(whole: Skeleton) -> int | None:
    """The former, or the latter, of the two options that a reply has named before."""
    found = list(_OF_TWO.finditer(whole.text)) if not {"former", "latter"}.isdisjoint(whole.words) else []
    if len(found) != 1 or any(offset > found[0].end() for offset in whole.offsets) or "other" in whole.words:
        return None
    sentence = patterns.SENTENCE_END.split(whole.text[: found[0].start()])[-1]
    if _DENIED.search(sentence) or _DENIED.search(whole.text, found[0].end()):
        return None
    named = list(dict.fromkeys(whole.at[offset].places for offset in whole.offsets))
    if len(named) != 2 or any(len(places) != 1 for places in named):
        return None
    return named[found[0]["which"] == "latter"][0]


_TICK = late_pattern(r"[✓✔✅☑←]|< ?-|\b(?:correct|selected|chosen)\b(?! ?\?)")
_NO_TICK = late_pattern(r"[✗✘❌✕❎✖☒]|\b(?:incorrect|not|no|wrong)\b|n't\b")


def ticked_option(whole: Skeleton, index: OptionIndex) -> int | None:
    """The one option that is ticked in a list of all, a line each."""
    lines = [line for line in whole.text.split("\n") if patterns.ASIDE.search(line)]
    if len(lines) != index.count or index.count < 2:
        return None
    ticked = [number for number, line in enumerate(lines) if _TICK.search(line) and not _NO_TICK.search(line)]
    first = [whole.at[offset].places for offset in _line_starts(whole)]
    listed = len(first) == index.count and all(places == (rank,) for rank, places in enumerate(first))
    return ticked[0] if listed and len(ticked) == 1 else None


def _line_starts(whole: Skeleton) -> list[int]:
    """Of each line the first mention."""
    starts, begin = [], 0
    for line in whole.text.split("\n"):
        inside = [offset for offset in whole.offsets if begin <= offset < begin + len(line)]
        starts += inside[:1]
        begin += len(line) + 1
    return starts
