"""The reference extractor: which option a reply names, or that it names none. Pure; it never guesses.

The text becomes a skeleton with a placeholder for each mention of an option; mentions that assert nothing
(a repeated option list, questions, denials, refusals) are set aside; then, in this order: an explicit
verdict (the last one wins), sentences that are an option and nothing else, what opens the reply, and at
last the single option that is still mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from snellen.extraction import patterns, phrases
from snellen.extraction.assertion_filters import (
    keep_asserted,
    mentioned,
    without_denials,
    without_fragment,
    without_quoted_orders,
)
from snellen.extraction.comparisons import without_comparisons
from snellen.extraction.discourse import after_correction, without_guesses
from snellen.extraction.elimination import odd_option, undenied_option
from snellen.extraction.exact_texts import exact_option, verbatim_option, without_twins
from snellen.extraction.near_texts import respelt_option
from snellen.extraction.negative_questions import asks_for_what_is_not, denied_option, tells_what_is_so
from snellen.extraction.normalisation import find_final_answer, normalise_reply
from snellen.extraction.option_index import OptionIndex, index_options, tokens
from snellen.extraction.option_mentions import Skeleton, skeleton
from snellen.extraction.partial_texts import framed_option, partial_index, supported_option
from snellen.extraction.phrases import DENIED, DOUBTFUL
from snellen.extraction.question_words import answering_option, of_other_things, predicates, question_stems
from snellen.extraction.reading import ExtractedChoice
from snellen.extraction.settling import STATED, Settled, no_option, settle
from snellen.extraction.yes_no import yes_or_no

VERSION = "snellen-choice-4"
"""Stored with every prediction; any change that can change a reading changes it."""

Mode = Literal["standard", "strict"]


def read_choice(
    reply: str,
    options: Sequence[str],
    labels: Sequence[str],
    mode: Mode = "standard",
    *,
    finish: str | None = None,
    question: str = "",
) -> ExtractedChoice:
    """The option that `reply` names, as its place in `options`, or None with the reason.

    `options` are the texts in the order shown, `labels` what stood before them (may be empty). "strict"
    accepts labels alone. `finish` is why the model stopped: of a reply that the length limit cut ("length")
    only what it had concluded counts. `question` tells which of several named options is the answer to it.
    Never raises; the same arguments always give the same reading.
    """
    asked = index_options(tuple(options), tuple(labels))
    return _read_short(reply, asked) or read_in_full(reply, asked, mode, finish=finish, question=question)


# What most replies look like: a label, with its text or not, behind "The answer is" or not.
_SHORT = re.compile(
    r"[ \n]*(The answer is:? |The correct answer is:? )?(?:\(([A-Za-z]|\d{1,2})\)|([A-Za-z]|\d{1,2}))"
    r"(?:(?:(?<=\))[.:]?|(?<!\))[.:]) ([A-Za-z0-9]+(?: [A-Za-z0-9]+)*))?\.?[ \n]*"
)


def _read_short(reply: str, asked: OptionIndex) -> ExtractedChoice | None:
    """The reading of a short reply of the usual form, equal to `read_in_full`'s; None for all others."""
    found = _SHORT.fullmatch(reply)
    if found is None:
        return None
    opened, bracketed, bare, text = found.groups()
    label = bracketed or bare
    place = asked.exact.get(label)
    if place is None or (bare and (label.casefold() in asked.phrases or (asked.numeric and label.isdigit()))):
        return None
    if text and asked.short.get(text.lower()) != place:
        return None
    span = (found.start(2 if bracketed else 3), found.end(4 if text else 2 if bracketed else 3))
    return ExtractedChoice(
        place, "label+text" if text else "label", "certain", STATED if opened else "", span, follows_format=True
    )


LOOKED_AT = 64_000
"""Characters of a reply in which reasoning, tags and boxes are looked for: of a longer one the first quarter of them,
and the last three."""
READ_AT_MOST = 16_000
"""Characters of what is left that are read, by the same rule."""


def read_in_full(
    reply: str, asked: OptionIndex, mode: Mode = "standard", *, finish: str | None = None, question: str = ""
) -> ExtractedChoice:
    """`read_choice` without the short way: all rules, any reply."""
    looked_at, left_unseen = _looked_at(reply)
    if left_unseen:
        reading = read_in_full(looked_at, asked, mode, finish=finish, question=question)
        if reading.span is None:
            return reading
        start, end = (at + (left_unseen if at > LOOKED_AT // 4 else 0) for at in reading.span)
        return replace(reading, span=(start, end))
    part = find_final_answer(reply)
    asked = without_twins(reply[part.start : part.end], asked)
    place = None if mode == "strict" else exact_option(reply[part.start : part.end], asked)
    if place is not None:
        why = "longest of nested options" if place in asked.nested else ""
        why = "framed as the answer" if part.framed else why
        return ExtractedChoice(place, "text", "certain", why, (part.start, part.end))
    spoken, left_out = _readable(reply[part.start : part.end])
    text = normalise_reply(spoken)
    if not text.text.strip():
        return no_option("empty", "the reasoning never ended" if part.unfinished else "")
    cut = finish == "length" and part.end == len(reply) and not part.framed
    reading = _read_plain(without_quoted_orders(text.text), asked, mode == "strict", cut, question)
    if reading.choice is None and reading.reason in ("ambiguous", "no match") and mode != "strict":
        place = verbatim_option(spoken, asked)
        if place is not None:
            return ExtractedChoice(place, "text", "likely", "word by word")
    if reading.span is not None:
        start, end = text.span(*reading.span)
        # A span behind the gap moves by what was left out; one across it keeps its ends.
        start, end = (at + part.start + (left_out if at > READ_AT_MOST // 4 else 0) for at in (start, end))
        reading = replace(reading, span=(start, end))
    if part.framed and reading.choice is not None:
        reading = replace(reading, detail="framed as the answer")
    return reading


# Neither a blank nor the end of a sentence: what was cut must not become a sentence of its own.
_GAP = " ~ "
_HALF_WORD_BEFORE = re.compile(r"\s\S{0,60}\Z")
_HALF_WORD_AFTER = re.compile(r"\S{0,60}\s")


def _looked_at(reply: str) -> tuple[str, int]:
    """What of a very long reply is looked at, and how many characters less that is."""
    if len(reply) <= LOOKED_AT:
        return reply, 0
    shown = reply[: LOOKED_AT // 4] + _GAP + reply[-(LOOKED_AT * 3 // 4 - len(_GAP)) :]
    return shown, len(reply) - len(shown)


def _readable(spoken: str) -> tuple[str, int]:
    """What of a long text is read, and how many characters less that is."""
    if len(spoken) <= READ_AT_MOST:
        return spoken, 0
    head, tail = spoken[: READ_AT_MOST // 4], spoken[-(READ_AT_MOST * 3 // 4) :]
    # Half a word at either side of the gap could look like a label.
    half, other_half = _HALF_WORD_BEFORE.search(head), _HALF_WORD_AFTER.match(tail)
    head = head[: half.start()] if half else head
    tail = tail[other_half.end() :] if other_half else tail
    shown = head.ljust(READ_AT_MOST // 4) + _GAP + tail
    return shown, len(spoken) - len(shown)


def _read_plain(text: str, asked: OptionIndex, strict: bool, cut: bool, question: str) -> ExtractedChoice:
    wordless = asked.bare.get(text.strip(" \n\"'"), ())
    if len(wordless) == 1 and not strict:
        return ExtractedChoice(wordless[0], "text", "certain")
    whole = skeleton(text, asked, strict)
    if not (strict or cut) and all(mention.kind == DOUBTFUL or mention.soft for mention in whole.at.values()):
        part = _read_part(text, asked, question)
        if part is not None:
            return part
    if not whole.at:
        reading = _unmentioned(text, whole, asked, strict)
        place = yes_or_no(text, question, asked) if reading.choice is None and not strict and not cut else None
        if place is not None:
            return ExtractedChoice(place, "text", "likely", "yes or no in other words", (0, len(text)))
        return no_option("cut off", _CUT_OFF) if cut and reading.reason == "no match" else reading
    asserted, listed, refused = keep_asserted(without_comparisons(whole, question), predicates(question))
    corrected = after_correction(without_guesses(asserted), cut)
    if corrected.open:
        return no_option("cut off", _CUT_OFF) if cut else no_option("ambiguous", "the answer is taken back")
    asserted = without_fragment(corrected.said) if cut else corrected.said
    asserted = of_other_things(asserted, question, asked)
    settled = settle(asserted, corrected.start, cut, question)
    if settled is not None and settled.ground not in _STATES and asked.summing_up and not strict:
        everything = _all_of_them(asserted, asked)
        if everything is not None:
            return ExtractedChoice(everything, "text", "likely", "all of them")
        if _names_parts_of_others(text, settled, asked, question):
            return no_option("ambiguous", "several options, one in part")
    negative = not cut and asks_for_what_is_not(question)
    if (
        settled is not None
        and settled.choice is not None
        and negative
        and settled.ground in ("opening", "only one left")
    ):
        if tells_what_is_so(asserted, mentioned(asserted), question_stems(question)):
            return no_option("ambiguous", "what the question does not ask for")
    if settled is not None and settled.choice is not None:
        return _qualified(settled, asked, whole, corrected.changed)
    hint = None if strict or cut or refused else _hinted(whole, asserted, settled, question, asked)
    if hint is not None:
        return hint
    if cut and not refused:
        return no_option("cut off", _CUT_OFF)
    if settled is not None:
        return settled.reading
    if listed:
        return no_option("ambiguous", "the option list, repeated")
    if refused:
        return no_option("refused")
    if DENIED in asserted.text:
        return no_option("negated")
    return no_option("no match", "an option is mentioned, but not as the answer")


_STATES = frozenset(("verdict", "question", "conclusion"))
"""What makes an assertion the answer although others are named."""


def _read_part(text: str, asked: OptionIndex, question: str) -> ExtractedChoice | None:
    """What a reply names by the words that tell one option from the others, where it names none in full."""
    place = framed_option(text, asked)
    if place is not None:
        return ExtractedChoice(place, "text", "likely", "what tells it from the others", (0, len(text)))
    place = respelt_option(text, asked)
    if place is not None:
        return ExtractedChoice(place, "text", "likely", "in another spelling", (0, len(text)))
    partial = partial_index(asked.options, asked.labels, question)
    if partial is None:
        return None
    whole = skeleton(text, partial, strict=False)
    if not whole.at or patterns.REFUSAL.search(whole.text):
        return None
    asserted, _, refused = keep_asserted(without_comparisons(whole, question), predicates(question))
    corrected = after_correction(without_guesses(asserted), cut=False)
    if refused or corrected.open:
        return None
    settled = settle(corrected.said, corrected.start, cut=False, question=question)
    stated = settled.choice if settled is not None and settled.ground in _STATES else None
    place = supported_option(corrected.said, text, partial, stated)
    return None if place is None else ExtractedChoice(place, "text", "likely", "the words that tell it from the others")


def _all_of_them(asserted: Skeleton, asked: OptionIndex) -> int | None:
    """The option "all of the above", where a reply names others and then it."""
    said = {place for offset in mentioned(asserted) for place in asserted.at[offset].places}
    summing_up = said & asked.summing_up
    return summing_up.pop() if len(summing_up) == 1 and len(said) > 1 else None


def _names_parts_of_others(text: str, settled: Settled, asked: OptionIndex, question: str) -> bool:
    """Whether words that tell another option stand beside the one that was read: "it is closed and busy"."""
    partial = partial_index(asked.options, asked.labels, question)
    if partial is None or settled.reading.extraction_method != "text":
        return False
    said = without_denials(skeleton(text, partial, strict=False))
    return any(settled.choice not in said.at[offset].places for offset in mentioned(said))


_CUT_OFF = "cut off before an answer"


def _hinted(
    whole: Skeleton, asserted: Skeleton, settled: Settled | None, question: str, asked: OptionIndex
) -> ExtractedChoice | None:
    """What the question makes of a reply that leaves several options, or only a denied one."""
    several = settled is not None and settled.reading.reason == "ambiguous"
    negative = asks_for_what_is_not(question)
    place, why = denied_option(asserted) if negative else None, "denied, as the question asks"
    if place is None:
        place, why = odd_option(whole, asserted, asked, negative=negative), "the others are named together"
    if place is None and several and question and not negative:
        place, why = answering_option(asserted, question, asked), "said of what the question asks"
    if place is None and not negative:
        place, why = undenied_option(asserted, asked), "the others are denied"
    return None if place is None else ExtractedChoice(place, "text", "likely", why)


def _qualified(settled: Settled, asked: OptionIndex, whole: Skeleton, corrected: bool) -> ExtractedChoice:
    """A reading after a correction, or beside other options, is no more than likely."""
    reading = settled.reading
    if corrected:
        return replace(reading, confidence="likely", detail="after a correction")
    if reading.extraction_method == "text" and reading.choice in asked.nested and not reading.detail:
        return replace(reading, detail="longest of nested options")
    others = any(reading.choice not in mention.places for mention in whole.at.values())
    if others and settled.ground != "verdict":
        return replace(reading, confidence="likely")
    return reading


def _unmentioned(text: str, whole: Skeleton, asked: OptionIndex, strict: bool) -> ExtractedChoice:
    """Why a text without a mention says nothing, or the one option that it begins to spell out."""
    if patterns.REFUSAL.search(whole.text):
        return no_option("refused")
    place = None if strict else _cut_off(text, asked)
    if place is not None:
        return ExtractedChoice(place, "text", "likely", "cut off inside the option's text", (0, len(text)))
    ordinal = patterns.ORDINAL.fullmatch(text.strip().lower())
    if ordinal is not None and not strict:
        place = len(asked.options) - 1 if ordinal[1] == "last" else phrases.ORDINALS.index(ordinal[1])
        if 0 <= place < len(asked.options):
            return ExtractedChoice(place, "text", "likely", "by its number in the list", (0, len(text)))
    unknown = patterns.UNKNOWN_LABEL.fullmatch(text.strip().lower())
    return no_option("no match", "a label that was not shown" if unknown else "")


_LONGEST_OPTION = 2000


def _cut_off(text: str, asked: OptionIndex) -> int | None:
    """The one option whose text begins with the whole reply: token limits cut long options short."""
    if len(text) > _LONGEST_OPTION:
        return None
    words = " ".join(token.text for token in tokens(text) if token.kind not in ("sign", "newline"))
    words = patterns.OPENINGS.sub("", words, count=1)
    if len(words) < 12 or words.count(" ") < 2:
        return None
    begun = [place for place, option in enumerate(asked.texts) if option.startswith(words)]
    return begun[0] if len(begun) == 1 else None
