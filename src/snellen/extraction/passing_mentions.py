"""Options that a reply mentions in passing: of another deed, thing or place than what the question asks about."""

from __future__ import annotations

from snellen.extraction import patterns, phrases
from snellen.extraction.assertion_filters import mentioned, sentences, without_denials
from snellen.extraction.inflections import english_stem
from snellen.extraction.negative_questions import LONGEST_QUESTION, asks_for_what_is_not
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.option_mentions import Mention, Skeleton, skeleton
from snellen.extraction.partial_texts import partial_index
from snellen.extraction.question_words import COPULAS, FILL, question_stems, stems
from snellen.formats.late_patterns import late_pattern

_MOST_MENTIONS = 200


def does_otherwise(skeleton: Skeleton, question: str) -> bool:
    """Whether all that is said of who does what is asked for is another deed: "A lost" of "Who won?"."""
    asked = question[:LONGEST_QUESTION].lower().strip()
    if asks_for_what_is_not(question):
        return False
    deed = _DOING if _WHOSE_DOING.match(asked) else _DEED if _WHOSE_DEED.match(asked) else None
    offsets = mentioned(skeleton)[:_MOST_MENTIONS]
    if deed is None or not offsets or any(skeleton.at[offset].kind != phrases.TEXT for offset in offsets):
        return False
    if _IDENTIFIES.search(skeleton.text) is not None:
        return False
    found = [deed.match(skeleton.text, offset + 1) for offset in offsets]
    wanted = stems(asked)
    return all(
        done is not None and done[1] not in _NO_DEEDS and not stems(_sentence_behind(skeleton, offset)) & wanted
        for offset, done in zip(offsets, found, strict=True)
    )


def _sentence_behind(skeleton: Skeleton, offset: int) -> str:
    return patterns.SENTENCE_END.split(skeleton.text[offset + 1 : offset + 300])[0]


_WHOSE_DOING = late_pattern(r"(?:who|which (?!of\b|one\b|best\b)\w+) (?:is|are|was|were) \w+ing\b")
_DOING = late_pattern(r" (?:is|are|was|were) ([a-z]+ing)\b")
_WHOSE_DEED = late_pattern(
    r"(?:who|which (?!of\b|one\b|best\b)\w+) (?!(?:is|are|was|were|has|have|had|can|could|would|will)\b)\w+"
)
_DEED = late_pattern(r" ([a-z]{3,})(?= |$)")
_NO_DEEDS = phrases.AUXILIARIES | phrases.PREPOSITIONS | frozenset(("and", "because", "since", "indeed", "clearly"))


_ARTICLE = (
    r"(?:(?:the|a|an|this|der|die|das|ein|eine|el|la|los|las|un|una|le|les|l|une|o|os|as|um|uma|il|lo|i|gli|de|het|een)"
    r" )?"
)
_SUBJECT = late_pattern(
    rf"(?:^|(?<=[.!?\n;] )|(?<=, and )|(?<=, but )){_ARTICLE}(?P<x>[{patterns.MENTIONS}]) (?P<said>[^\W\d_]+ [^.!?\n]+)"
)
_IN_GENERAL = late_pattern(
    r"(?:occurs?|happens?|forms?|appears?|is|are|means?|refers?)\b[^.!?\n,]* (?:when|whenever|where|used to"
    r"|defined|known as)\b"
)


_JUDGES = late_pattern(r"\bthan\b|^(?:is|are|seems|looks) (?:the )?(?:right|correct|best|answer|odd|only|one)\b")


def tells_of_itself(skeleton: Skeleton, question: str, index: OptionIndex) -> bool:
    """Whether options are only what sentences are about, and these say nothing that the question asks for.

    "Seaview Inn is located near the beach" of "Which hotel has the best rating?"; "A full moon occurs when ..." of any.
    """
    offsets = mentioned(skeleton)
    if not question or asks_for_what_is_not(question) or len(offsets) > _MOST_MENTIONS:
        return False
    if any(
        not _is_name(skeleton.at[offset], index) or (skeleton.spoken and skeleton.at[offset].alias)
        for offset in offsets
    ):
        return False
    subjects = {match.start("x"): match["said"] for match in _SUBJECT.finditer(skeleton.text)}
    wanted = question_stems(question)
    return all(
        offset in subjects
        and (
            (not stems(subjects[offset]) & wanted and _JUDGES.search(subjects[offset]) is None)
            or _IN_GENERAL.match(subjects[offset]) is not None
        )
        for offset in offsets
    )


def _is_name(mention: Mention, index: OptionIndex) -> bool:
    """Whether an option is named by a text that may be the subject of a sentence: no number, no clause."""
    words = index.words[mention.places[0]]
    return mention.kind == phrases.TEXT and len(words) <= _LONGEST_NAME and not any(word[0].isdigit() for word in words)


_LONGEST_NAME = 3
_DESCRIPTION = 3
"""Sentences that make a reply a description, in which an option may be said of anything."""


def in_passing(skeleton: Skeleton, question: str) -> bool:
    """Whether a description names options only in its middle, or in its background, of what nobody asked about."""
    every = [(start, end) for start, end, _ in sentences(skeleton) if skeleton.text[start:end].strip()]
    if len(every) < 2 or not question:
        return False
    wanted = question_stems(question)
    naming = [span for span in every if mentioned(skeleton, *span)]
    return bool(naming) and all(
        not stems(skeleton.text[start:end]) & wanted
        and (
            _ELSEWHERE.match(skeleton.text, start) is not None
            or (
                len(every) >= _DESCRIPTION
                and (start, end) not in (every[0], every[-1])
                and _IDENTIFIES.search(skeleton.text, start, end) is None
            )
        )
        for start, end in naming
    )


_ELSEWHERE = late_pattern(
    r" ?(?:in the background|(?:behind|next to) (?:him|her|them|it)|nearby|meanwhile|elsewhere|another|daneben"
    r"|im hintergrund|à l arrière-plan|à côté|al fondo|ao fundo|sullo sfondo|op de achtergrond|w tle|на заднем плане"
    r"|рядом)\b"
)
_IDENTIFIES = late_pattern(
    rf"\b(?:it's|that's|(?:it|this|that|he|she|they|these|c|das|es|dit|dat|to|это|questo|isso|esto) {COPULAS})"
    rf"(?: {FILL})* [{patterns.MENTIONS}]"
)


_LOOKED_AT = 4_000
"""Characters of a reply in which parts of options are looked for."""


def says_another_in_part(text: str, index: OptionIndex, question: str, whole: Skeleton) -> bool:
    """Whether another option, nowhere named in full, is said by all that tells it: "a bathroom" of "In a bathroom".

    In a description any of its telling words will do.
    """
    partial = partial_index(index.options, index.labels, question)
    if partial is None:
        return False
    text = text[:_LOOKED_AT]
    said = without_denials(skeleton(text, partial, strict=False))
    named = {place for mention in whole.at.values() if not mention.soft for place in mention.places}
    told: dict[int, set[str]] = {}
    for offset in mentioned(said):
        mention = said.at[offset]
        for place in set(mention.places) - named:
            told.setdefault(place, set()).update(_stems_of(text[mention.start : mention.end]))
    long = sum(1 for start, end, _ in sentences(whole) if end > start) >= _DESCRIPTION
    return any(long or partial.telling[place] <= said_of_it for place, said_of_it in told.items())


def _stems_of(text: str) -> set[str]:
    return {english_stem(token.text) for token in tokens(text)}
