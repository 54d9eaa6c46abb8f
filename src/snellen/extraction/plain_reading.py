"""What the rules make of a plain text: mentions, what is asserted of them, which of these is the answer. Pure."""

from __future__ import annotations

import re

from msgspec.structs import replace

from snellen.extraction.assertion_filters import keep_asserted, without_fragment
from snellen.extraction.comparisons import without_comparisons
from snellen.extraction.discourse import Corrected, after_correction, without_guesses
from snellen.extraction.last_looks import TAKEN_BACK, look_again
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Skeleton, skeleton
from snellen.extraction.phrases import DENIED, DOUBTFUL
from snellen.extraction.question_words import of_other_things, predicates, topic, without_reversed_relations
from snellen.extraction.reading import ExtractedChoice
from snellen.extraction.second_looks import ANOTHER_IN_PART, PlainReply, doubted, hinted, read_part, read_unmentioned
from snellen.extraction.settling import Settled, no_option, settle
from snellen.extraction.word_forms import with_own_words
from snellen.formats.late_patterns import late_pattern

_CUT_OFF = "cut off before an answer"


_DISREGARDED = late_pattern(
    r"\b(?:disregard|ignore|forget|discard)\b[^.!?\n]{0,20}\b(?:first|previous|earlier|initial|original)\b"
    r"[^.!?\n]{0,20}\b(?:answer|reply|response|guess|choice)\b",
    re.IGNORECASE,
)
_BOTH = late_pattern(r"\bboth (?:\w+ )?(\w{1,3}) and (?:\w+ )?(\w{1,3})\b", re.IGNORECASE)


def read_plain(reply: PlainReply) -> ExtractedChoice:
    """The reading of a text without markup."""
    reading = _reading(reply)
    if reading.choice is None or reply.strict:
        return reading
    if _DISREGARDED.search(reply.text):
        return no_option("ambiguous", TAKEN_BACK)
    for match in _BOTH.finditer(reply.text):
        places = {reply.asked.exact.get(label) for label in match.groups()}
        if None not in places and len(places) == 2 and reading.choice in places:
            return no_option("ambiguous", "two options at once")
    return reading


def _reading(reply: PlainReply) -> ExtractedChoice:
    reading = look_again(reply, _read(reply))
    if (
        reading.choice is None
        and (reading.reason == "no match" or reading.detail == ANOTHER_IN_PART)
        and not (reply.strict or reply.cut or "?" in reply.text)
    ):
        respelt = with_own_words(reply.text, reply.asked)
        again = None if respelt is None else _read(reply._replace(text=respelt))
        if again is not None and again.choice is not None:
            return reply.likely(again.choice, "in another form of its words")
    return reading


def _read(reply: PlainReply) -> ExtractedChoice:
    wordless = reply.asked.bare.get(reply.text.strip(" \n\"'"), ())
    if len(wordless) == 1 and not reply.strict:
        return ExtractedChoice(wordless[0], "text", "certain")
    whole = skeleton(reply.text, reply.asked, reply.strict, topic(reply.question))
    if not (reply.strict or reply.cut) and all(m.kind == DOUBTFUL or m.soft for m in whole.at.values()):
        part = read_part(reply)
        if part is not None:
            return part
    if whole.at:
        return _read_mentions(reply, whole)
    reading = read_unmentioned(reply, whole)
    return no_option("cut off", _CUT_OFF) if reply.cut and reading.reason == "no match" else reading


def _read_mentions(reply: PlainReply, whole: Skeleton) -> ExtractedChoice:
    """The reading of a text that mentions options."""
    question, cut = reply.question, reply.cut
    compared = without_comparisons(whole, question)
    asserted, listed, refused = keep_asserted(compared, predicates(question))
    corrected = after_correction(without_guesses(asserted), cut)
    if corrected.open:
        return no_option("cut off", _CUT_OFF) if cut else no_option("ambiguous", TAKEN_BACK)
    asserted = _of_the_question(reply, corrected)
    settled = settle(asserted, corrected.start, cut, question)
    doubt = (
        None if settled is None or reply.strict else doubted(reply, whole, corrected._replace(said=asserted), settled)
    )
    if doubt is not None:
        return doubt
    if settled is not None and settled.choice is not None:
        return _qualified(settled, reply.asked, whole, corrected.changed)
    hint = None if reply.strict or cut or refused else hinted(reply, whole, asserted, settled)
    if hint is not None:
        return hint
    if cut and not refused:
        return no_option("cut off", _CUT_OFF)
    return settled.reading if settled is not None else _why_none(asserted, listed, refused)


def _of_the_question(reply: PlainReply, corrected: Corrected) -> Skeleton:
    """What is asserted of the thing that is asked about."""
    said = without_fragment(corrected.said) if reply.cut else corrected.said
    if not reply.question:
        return said
    said = of_other_things(said, reply.question, reply.asked)
    return without_reversed_relations(said, reply.question, reply.asked)


def _why_none(asserted: Skeleton, listed: bool, refused: bool) -> ExtractedChoice:
    if listed:
        return no_option("ambiguous", "the option list, repeated")
    if refused:
        return no_option("refused")
    if DENIED in asserted.text:
        return no_option("negated")
    return no_option("no match", "an option is mentioned, but not as the answer")


def _qualified(settled: Settled, index: OptionIndex, whole: Skeleton, corrected: bool) -> ExtractedChoice:
    """A reading after a correction, or beside other options, is no more than likely."""
    reading = settled.reading
    if corrected:
        return replace(reading, confidence="likely", detail="after a correction")
    if reading.extraction_method == "text" and reading.choice in index.nested and not reading.detail:
        return replace(reading, detail="longest of nested options")
    others = any(reading.choice not in mention.places for mention in whole.at.values())
    if others and settled.ground != "verdict":
        return replace(reading, confidence="likely")
    return reading
