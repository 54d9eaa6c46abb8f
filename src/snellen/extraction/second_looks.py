"""Where the plain rules leave a reply open, or read it in spite of what it says: parts of options, hints, doubts."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.extraction import patterns, phrases
from snellen.extraction.alignment import aligned_option
from snellen.extraction.assertion_filters import keep_asserted, mentioned, without_denials
from snellen.extraction.comparisons import without_comparisons
from snellen.extraction.discourse import Corrected, after_correction, without_guesses
from snellen.extraction.elimination import odd_option, undenied_option
from snellen.extraction.near_texts import respelt_option
from snellen.extraction.negative_questions import asks_for_what_is_not, denied_option, tells_what_is_so
from snellen.extraction.option_index import OptionIndex, tokens
from snellen.extraction.option_mentions import Skeleton, skeleton
from snellen.extraction.other_subjects import said_of_others_too, says_of_another
from snellen.extraction.partial_texts import framed_option, partial_index, supported_option
from snellen.extraction.passing_mentions import does_otherwise, in_passing, says_another_in_part, tells_of_itself
from snellen.extraction.question_words import answering_option, predicates, question_stems, topic
from snellen.extraction.reading import ExtractedChoice
from snellen.extraction.settling import Settled, no_option, settle
from snellen.extraction.yes_no import contradicts_itself, yes_or_no


class PlainReply(NamedTuple):
    """A text without markup, and what it replies to."""

    text: str
    asked: OptionIndex
    question: str
    strict: bool
    cut: bool

    def likely(self, place: int, why: str) -> ExtractedChoice:
        """The option by all of the text."""
        return ExtractedChoice(place, "text", "likely", why, (0, len(self.text)))


ANOTHER_IN_PART = "another option in part"
_STATES = frozenset(("verdict", "question", "conclusion"))
"""What makes an assertion the answer although others are named."""


def read_part(reply: PlainReply) -> ExtractedChoice | None:
    """What a reply names by the words that tell one option from the others, where it names none in full."""
    place = framed_option(reply.text, reply.asked)
    if place is not None:
        return reply.likely(place, "what tells it from the others")
    place = respelt_option(reply.text, reply.asked)
    if place is not None:
        return reply.likely(place, "in another spelling")
    partial = partial_index(reply.asked.options, reply.asked.labels, reply.question)
    if partial is None:
        return None
    whole = skeleton(reply.text, partial, False, topic(reply.question))
    if not whole.at or patterns.REFUSAL.search(whole.text):
        return None
    compared = without_comparisons(whole, reply.question)
    asserted, _, refused = keep_asserted(compared, predicates(reply.question))
    corrected = after_correction(without_guesses(asserted), cut=False)
    if refused or corrected.open:
        return None
    settled = settle(corrected.said, corrected.start, cut=False, question=reply.question)
    stated = settled.choice if settled is not None and settled.ground in _STATES else None
    place = supported_option(corrected.said, reply.text, partial, stated)
    return None if place is None else reply.likely(place, "the words that tell it from the others")


def doubted(reply: PlainReply, whole: Skeleton, corrected: Corrected, settled: Settled) -> ExtractedChoice | None:
    """What a reading gives way to: all of the options, or none where the reply says what speaks against it."""
    asserted = corrected.said
    if settled.ground not in _STATES and reply.asked.summing_up:
        everything = _all_of_them(asserted, reply.asked)
        if everything is not None:
            return ExtractedChoice(everything, "text", "likely", "all of them")
        if _names_parts_of_others(reply, settled):
            return no_option("ambiguous", "several options, one in part")
    if settled.choice is None or reply.cut or settled.ground not in ("opening", "only one left"):
        return None
    if settled.ground == "only one left" and settled.reading.extraction_method == "text":
        last = mentioned(asserted)[-1]
        if patterns.REFUSED_AT_LAST.search(asserted.text, last) is not None:
            return no_option("refused")
        if tells_of_itself(asserted, reply.question, reply.asked):
            return no_option("no match", "said of the option, and not of the question")
        if not corrected.changed and says_another_in_part(reply.text, reply.asked, reply.question, whole):
            return no_option("ambiguous", ANOTHER_IN_PART)
        if does_otherwise(asserted, reply.question):
            return no_option("no match", "another deed than the question's")
        if not corrected.changed and in_passing(asserted, reply.question):
            return no_option("no match", "mentioned in passing")
        if not corrected.changed and says_of_another(asserted, reply.question):
            return no_option("no match", "said of another thing than the question's")
    if said_of_others_too(asserted):
        return no_option("ambiguous", "said of others too")
    wanted = question_stems(reply.question)
    if asks_for_what_is_not(reply.question) and tells_what_is_so(asserted, mentioned(asserted), wanted):
        return no_option("ambiguous", "what the question does not ask for")
    if contradicts_itself(reply.text, reply.question, settled.choice, reply.asked):
        return no_option("ambiguous", "yes or no, and the contrary")
    return None


def _all_of_them(asserted: Skeleton, index: OptionIndex) -> int | None:
    """The option "all of the above", where a reply names others and then it."""
    said = {place for offset in mentioned(asserted) for place in asserted.at[offset].places}
    summing_up = said & index.summing_up
    return summing_up.pop() if len(summing_up) == 1 and len(said) > 1 else None


def _names_parts_of_others(reply: PlainReply, settled: Settled) -> bool:
    """Whether words that tell another option stand beside the one that was read: "it is closed and busy"."""
    partial = partial_index(reply.asked.options, reply.asked.labels, reply.question)
    if partial is None or settled.reading.extraction_method != "text":
        return False
    said = without_denials(skeleton(reply.text, partial, strict=False))
    return any(settled.choice not in said.at[offset].places for offset in mentioned(said))


def hinted(reply: PlainReply, whole: Skeleton, asserted: Skeleton, settled: Settled | None) -> ExtractedChoice | None:
    """What the question, or what became of the others, makes of a reply that leaves several options or none."""
    question, asked = reply.question, reply.asked
    several = settled is not None and settled.ground != "verdict" and settled.reading.reason == "ambiguous"
    negative = asks_for_what_is_not(question)
    place, why = denied_option(asserted) if negative else None, "denied, as the question asks"
    if place is None:
        place, why = odd_option(whole, asserted, asked, negative=negative), "the others are named together"
    if place is None and several and question and not negative:
        place, why = answering_option(asserted, question, asked), "said of what the question asks"
    if place is None and several:
        place, why = aligned_option(asserted, question, asked), "it alone is said of what the question asks"
    if place is None and not negative:
        place, why = undenied_option(asserted, asked), "the others are denied"
    return None if place is None else ExtractedChoice(place, "text", "likely", why)


def read_unmentioned(reply: PlainReply, whole: Skeleton) -> ExtractedChoice:
    """Why a text without a mention says nothing, or the one option that it begins to spell out."""
    if patterns.REFUSAL.search(whole.text):
        return no_option("refused")
    text, asked = reply.text.strip().lower(), reply.asked
    if not reply.strict:
        place = _cut_off(reply.text, asked)
        if place is not None:
            return reply.likely(place, "cut off inside the option's text")
        ordinal = patterns.ORDINAL.fullmatch(text)
        place = -1 if ordinal is None else _counted(ordinal, asked)
        if 0 <= place < asked.count:
            return reply.likely(place, "by its number in the list")
        said = None if reply.cut else yes_or_no(reply.text, reply.question, asked)
        if said is not None:
            return reply.likely(said, "yes or no in other words")
    return no_option("no match", "a label that was not shown" if patterns.UNKNOWN_LABEL.fullmatch(text) else "")


def _counted(ordinal: re.Match[str], index: OptionIndex) -> int:
    """The place that "the third one", or "option 3" of options without numbers, counts to."""
    if ordinal[1]:
        return index.count - 1 if ordinal[1] == "last" else phrases.ORDINALS.index(ordinal[1])
    return -1 if index.numeric or index.numbered else int(ordinal[2]) - 1


_LONGEST_OPTION = 2000


def _cut_off(text: str, index: OptionIndex) -> int | None:
    """The one option whose text begins with the whole reply: token limits cut long options short."""
    if len(text) > _LONGEST_OPTION:
        return None
    words = " ".join(token.text for token in tokens(text) if token.kind not in ("sign", "newline"))
    words = patterns.OPENINGS.sub("", words, count=1)
    if len(words) < 12 or words.count(" ") < 2:
        return None
    begun = [place for place, option in enumerate(index.texts) if option.startswith(words)]
    return begun[0] if len(begun) == 1 else None
