"""Of several options named in prose, the one of which the reply says what the question asks."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from snellen.extraction import languages, patterns, phrases
from snellen.extraction.assertion_filters import sentences
from snellen.extraction.foreign_patterns import DENSE
from snellen.extraction.negative_questions import LONGEST_QUESTION, asks_for_what_is_not, denies
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.question_words import COPULAR_STEMS, question_stems, stems, turns
from snellen.formats.late_patterns import late_pattern

_SEPARATOR = late_pattern(r" (?:[,;:-]|and|while|whereas|but|however)(?= )")
_FOREIGN_SEPARATOR = late_pattern(
    r" (?:[,;:-]|und|während|aber|et|tandis|mais|y|mientras|pero|e|enquanto|mas|mentre|ma"
    r"|en|terwijl|maar|i|podczas|ale|a|и|а|но|sedangkan|dan|tetapi|còn|và|nhưng|ve|ama)(?= )"
)
_OF_OTHERS_TOO = late_pattern(
    r"\b(?:so|neither|nor) (?:do|does|did|is|are|was|were|has|have|can|will)\b|\bas (?:do|does|did|well)\b"
    r"|\b(?:too|also|likewise|both|same|plus|besides|addition|along with|together|equally"
    r"|sowohl|sowie|außerdem|zusammen|ainsi que|en plus|avec|además|junto|tanto|além|com|inoltre|oltre|insieme|evenals"
    r"|naast|oraz|oprócz|razem|вместе|кроме|а также|bersama|serta|cùng|auch|ebenfalls|ebenso|aussi|également"
    r"|también|também|anche|pure|ook|też"
    r"|także|również|тоже|также|juga|cũng|ayrıca)\b|也|も|도 |भी|أيضا"
)
_TURNS = late_pattern(r"\b(?:actually|wait|no ,|instead|rather|sorry|correction|than|except|unless|otherwise)\b")
_MENTION = late_pattern(patterns.X)
_MOST_MENTIONS = 60
_FEWEST_SHARED = 2
_TABLE = 3
_BRIEF = 2
_VERBAL = late_pattern(r"\b[^\W\d_]{3,}(?:ing|ed|en|wn)\b")
_WORD = late_pattern(r"[^\W\d_]{3,}|\d+")


class _Segment(NamedTuple):
    """The part of a sentence that speaks of one mention."""

    places: tuple[int, ...]
    asserted: bool
    shared: frozenset[str]
    """Which of the wanted stems it holds."""
    denied: bool
    coordinated: bool
    """It is named together with another option, or nothing of its own is said of it."""
    brief: bool
    """It is a word or two beside the option, as in a table."""


@lru_cache(maxsize=4096)
def _keys(question: str) -> frozenset[str]:
    """The stems that a clause must hold one of: the last word of the question that says something, and its verbs."""
    lowered = question[:LONGEST_QUESTION].lower()
    content = [word[:4] for word in _WORD.findall(lowered) if stems(word)]
    verbs = frozenset(word[:4] for word in _VERBAL.findall(lowered) if stems(word))
    attribute = _ATTRIBUTE.match(lowered.strip())
    return frozenset(content[-1:]) | verbs | (frozenset((attribute[1][:4],)) if attribute else frozenset())


_ATTRIBUTE = late_pattern(
    r"what (?:colou?r|shape|size|material|type|kind) (?:is|are|was|were) (?:the |his |her |their |a |an )?([a-z]{3,})"
)


def aligned_option(skeleton: Skeleton, question: str, index: OptionIndex) -> int | None:
    """The one option of which clauses say what is asked for, where of no other any of it is said."""
    if any(words and words[0] in languages.YES | languages.NO for words in index.words):
        return None
    if not question or asks_for_what_is_not(question) or DENSE.search(skeleton.text):
        return None
    naming = " . ".join(
        skeleton.text[start:end] for start, end, _ in sentences(skeleton) if _MENTION.search(skeleton.text, start, end)
    )
    if _OF_OTHERS_TOO.search(naming) or _TURNS.search(naming):
        return None
    wanted = _wanted(skeleton, question, index)
    offsets = [offset for offset in skeleton.offsets if not skeleton.at[offset].soft]
    if (
        not wanted
        or not 1 < len(offsets) <= _MOST_MENTIONS
        or any(skeleton.at[o].kind != phrases.TEXT for o in offsets)
    ):
        return None
    if len(_BEGINS_LINE.findall(skeleton.text)) > 1:
        return None
    segments = _segments(skeleton, offsets, wanted)
    shared: dict[tuple[int, ...], frozenset[str]] = {}
    for segment in segments:
        shared[segment.places] = shared.get(segment.places, frozenset()) | segment.shared
    if len(shared) < 2 or any(len(places) != 1 for places in shared):
        return None
    place = _of_which(skeleton, segments, offsets, _keys(question))
    if place is not None:
        return place
    place = _telling(segments, shared, wanted, _keys(question), counts=_HOW_MANY.match(question.lower()) is not None)
    if place is not None and _HOW_MANY.match(question.lower()) and not _counts(skeleton, offsets, place, wanted):
        return None
    return None if place is None or _turns_away(skeleton, offsets, place) else place


def listed_option(whole: Skeleton, question: str, index: OptionIndex) -> int | None:
    """The one option of a list, a line each, whose line has what is asked for in its words."""
    if not question or asks_for_what_is_not(question) or whole.text.count("\n") > _MOST_MENTIONS:
        return None
    wanted = _wanted(whole, question, index)
    lines: dict[int, str] = {}
    begin = 0
    for line in whole.text.split("\n"):
        first = next((o for o in whole.offsets if begin <= o < begin + len(line)), None)
        if first is not None:
            places = whole.at[first].places
            if not _ITEM.fullmatch(whole.text[begin:first].strip()) or len(places) != 1 or places[0] in lines:
                return None
            lines[places[0]] = whole.text[first + 1 : begin + len(line)]
        begin += len(line) + 1
    if len(lines) != index.count or index.count < _TABLE or _TELLS_LATER.search(whole.text):
        return None
    telling = [place for place, line in lines.items() if stems(line) & wanted & _keys(question)]
    shared = [place for place, line in lines.items() if stems(line) & wanted]
    return telling[0] if len(telling) == len(shared) == 1 and not denies(lines[telling[0]]) else None


_ITEM = late_pattern(r"(?:[-•·*]|\d+ [.)]?)?")
_TELLS_LATER = late_pattern(r"\b(?:too|also|both|same|none|all of)\b")
_PARTITIVE = late_pattern(r" of (?:which|whom|them|these|those)\b")


def _of_which(skeleton: Skeleton, segments: list[_Segment], offsets: list[int], keys: frozenset[str]) -> int | None:
    """The one part of a whole that is said to do what is asked for: "four candles, three of which are lit"."""
    parts = [segment for o, segment in zip(offsets, segments, strict=True) if _PARTITIVE.match(skeleton.text, o + 1)]
    rest = [segment for o, segment in zip(offsets, segments, strict=True) if not _PARTITIVE.match(skeleton.text, o + 1)]
    doing = [segment for segment in parts if segment.shared & keys and segment.asserted and not segment.denied]
    alone = len({segment.places for segment in doing}) == 1 and not any(segment.shared & keys for segment in rest)
    return doing[0].places[0] if alone else None


def _counts(skeleton: Skeleton, offsets: list[int], place: int, wanted: frozenset[str]) -> bool:
    """Whether a number stands right before what is counted: "3 windows", "two of them"."""
    behind = [
        skeleton.text[offset + 1 : offset + 60].split()[:_NEAR]
        for offset in offsets
        if skeleton.at[offset].places == (place,)
    ]
    return any(stems(" ".join(words)) & wanted or words[:2] == ["of", "them"] for words in behind)


_HOW_MANY = late_pattern(r"how many|what is the number|wie ?viele|combien|cuánt|quant|hoeveel|ile|сколько|berapa|kaç")
_NEAR = 3
_BEGINS_LINE = late_pattern(rf"\n (?:[-•·] |\d+ [.)] ?)?{patterns.X}")
_IDENTIFIED = late_pattern(
    rf"(?:\b(?:so|therefore|thus|hence|it's|it is|this is|that's|this makes|which makes|making it|it must be|it was)"
    rf"(?: (?:,|a|an|the|is|be))* |[=→] ?){patterns.X}"
)


def _turns_away(skeleton: Skeleton, offsets: list[int], place: int) -> bool:
    """Whether what follows the option may take it back: a but before another, or another that is what it is."""
    first = next(offset for offset in offsets if skeleton.at[offset].places == (place,))
    later = [offset for offset in offsets if offset > first and skeleton.at[offset].places != (place,)]
    if not later:
        return False
    turned = any(first < match.start() < later[-1] for match in turns(skeleton.spoken).finditer(skeleton.text))
    last = patterns.SENTENCE_END.split(skeleton.text[: later[-1] + 1])[-1]
    return turned or (offsets[-1] == later[-1] and _IDENTIFIED.search(last) is not None)


def _wanted(skeleton: Skeleton, question: str, index: OptionIndex) -> frozenset[str]:
    """The stems of the question's words that are no option's."""
    idle = COPULAR_STEMS if skeleton.spoken else frozenset[str]()
    return question_stems(question) - frozenset(word[:4] for word in index.vocabulary) - idle


def _telling(
    segments: list[_Segment],
    shared: dict[tuple[int, ...], frozenset[str]],
    wanted: frozenset[str],
    keys: frozenset[str],
    *,
    counts: bool,
) -> int | None:
    if any(segment.coordinated and segment.asserted for segment in segments):
        return None
    brief = not counts and len(segments) >= _TABLE and all(segment.brief for segment in segments)
    restated = _restated(segments, wanted)
    if restated is not None:
        return restated
    best = max(shared, key=lambda places: len(shared[places]))
    of_others = frozenset[str]().union(*(words for places, words in shared.items() if places != best))
    own = shared[best] - of_others
    more = of_others - shared[best]
    if more and (more & keys or not own & keys or len(own) <= len(more)):
        return None
    if not (own & keys or len(own) >= _FEWEST_SHARED or (own and brief)):
        return None
    speaking = [segment for segment in segments if segment.places == best and segment.shared & own]
    fine = bool(speaking) and all(segment.asserted and not segment.denied for segment in speaking)
    return best[0] if fine else None


def _restated(segments: list[_Segment], wanted: frozenset[str]) -> int | None:
    """The option of which all is said that the question has words for, where of no other half of it is."""
    whole = {
        segment.places for segment in segments if segment.shared == wanted and segment.asserted and not segment.denied
    }
    if len(wanted) < _FEWEST_SHARED or len(whole) != 1:
        return None
    [(place,)] = whole
    others = [segment for segment in segments if segment.places != (place,)]
    return place if all(2 * len(segment.shared) < len(wanted) for segment in others) else None


def _segments(skeleton: Skeleton, offsets: list[int], wanted: frozenset[str]) -> list[_Segment]:
    """Each mention with the words around it, up to where another is spoken of."""
    text = skeleton.text
    ends = [0, *(found.end() for found in patterns.SENTENCE_END.finditer(text)), len(text)]
    starts = []
    separator = _FOREIGN_SEPARATOR if skeleton.spoken else _SEPARATOR
    for number, offset in enumerate(offsets):
        start = ends[bisect_right(ends, offset) - 1]
        if number and offsets[number - 1] >= start:
            before = offsets[number - 1]
            cuts = [found.start() for found in separator.finditer(text, before + 1, offset + 1)]
            start = cuts[-1] if cuts else offset
        starts.append(start)
    found = []
    grouped = _groups(skeleton, offsets)
    for number, offset in enumerate(offsets):
        stop = ends[min(bisect_right(ends, offset), len(ends) - 1)]
        stop = min(stop, starts[number + 1]) if number + 1 < len(offsets) else stop
        around = text[starts[number] : max(stop, offset + 1)]
        mention = skeleton.at[offset]
        asserted = text[offset] <= phrases.CONFLICT or text[offset] == phrases.DOUBTFUL
        words = stems(around)
        together = any(before < offset < end for before, end in grouped)
        first = any(offset == before for before, _ in grouped)
        alone = together or first or not words
        found.append(_Segment(mention.places, asserted, words & wanted, denies(around), alone, len(words) <= _BRIEF))
    return found


def _groups(skeleton: Skeleton, offsets: list[int]) -> list[tuple[int, int]]:
    """Where several options are named together: "X and Y", "X, Y"."""
    groups = []
    for offset in offsets:
        match = patterns.GROUP.match(skeleton.text, offset)
        if match and any(
            offset < other < match.end() and skeleton.at[other].places != skeleton.at[offset].places
            for other in offsets
        ):
            groups.append((offset, match.end()))
    return groups
