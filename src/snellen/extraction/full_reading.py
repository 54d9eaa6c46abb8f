"""A reply of any form, read by all rules.

The text becomes a skeleton with a placeholder for each mention of an option; mentions that assert nothing
(a repeated option list, questions, denials, refusals) are set aside; then, in this order: an explicit
verdict (the last one wins), sentences that are an option and nothing else, what opens the reply, and at
last the single option that is still mentioned.
"""

from __future__ import annotations

from msgspec.structs import replace

from snellen.extraction.assertion_filters import without_quoted_orders
from snellen.extraction.exact_texts import exact_option, verbatim_option, without_twins
from snellen.extraction.filled_forms import filled_form
from snellen.extraction.normalisation import find_final_answer, normalise_reply
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.plain_reading import read_plain
from snellen.extraction.reading import ExtractedChoice, Mode
from snellen.extraction.second_looks import PlainReply
from snellen.extraction.settling import no_option
from snellen.formats.late_patterns import late_pattern

LOOKED_AT = 64_000
"""Characters of a reply in which reasoning, tags and boxes are looked for: of a longer one the first quarter of them,
and the last three."""
READ_AT_MOST = 16_000
"""Characters of what is left that are read, by the same rule."""


def read_in_full(
    reply: str, index: OptionIndex, mode: Mode = "standard", *, finish: str | None = None, question: str = ""
) -> ExtractedChoice:
    """`read_choice` without the short way: all rules, any reply."""
    looked_at, left_unseen = _looked_at(reply)
    if left_unseen:
        reading = read_in_full(looked_at, index, mode, finish=finish, question=question)
        if reading.span is None:
            return reading
        start, end = (at + (left_unseen if at > LOOKED_AT // 4 else 0) for at in reading.span)
        return replace(reading, span=(start, end))
    part = find_final_answer(reply)
    index = without_twins(reply[part.start : part.end], index)
    place = None if mode == "strict" else exact_option(reply[part.start : part.end], index)
    if place is not None:
        why = "longest of nested options" if place in index.nested else ""
        why = "framed as the answer" if part.framed else why
        return ExtractedChoice(place, "text", "certain", why, (part.start, part.end))
    form = None if mode == "strict" or finish == "length" else filled_form(reply[part.start : part.end], index)
    if form is not None:
        return (
            ExtractedChoice(form[0], "label+text", "likely", "ticked, or with the largest share, in a form of all")
            if form
            else no_option("ambiguous", "a form of options that chooses no single one")
        )
    spoken, left_out = _readable(reply[part.start : part.end])
    text = normalise_reply(spoken)
    if not text.text.strip():
        if part.unfinished and finish == "length":
            return no_option("reasoning cut off")
        return no_option("empty", "the reasoning never ended" if part.unfinished else "")
    cut = finish == "length" and part.end == len(reply) and not part.framed
    reading = read_plain(PlainReply(without_quoted_orders(text.text), index, question, mode == "strict", cut))
    if reading.choice is None and reading.reason in ("ambiguous", "no match") and mode != "strict":
        place = verbatim_option(spoken, index)
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
_HALF_WORD_BEFORE = late_pattern(r"\s\S{0,60}\Z")
_HALF_WORD_AFTER = late_pattern(r"\S{0,60}\s")


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
