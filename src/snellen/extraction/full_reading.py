"""A reply of any form: what it plainly says, else what the reader makes of it.

The text becomes a skeleton with a placeholder for each mention of an option. A reply that is one option letter by
letter, or that names one option alone, in a verdict or a sentence of its own, with no word that could turn it, is read
for certain. All others are weighed (`snellen.extraction.reader`); what is not probable enough stays open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from snellen.common.late import late_pattern
from snellen.extraction import patterns, phrases, reader
from snellen.extraction.clues import (
    LONGEST_QUESTION,
    TURNS,
    Sight,
    answers_at_once,
    contradicts_itself,
    repeats_question,
    sight_of,
)
from snellen.extraction.normalisation import (
    EXAMPLE,
    FinalAnswer,
    NormalisedReply,
    find_final_answer,
    is_example,
    normalise_reply,
)
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.option_mentions import Mention, skeleton
from snellen.extraction.patterns import REFUSED
from snellen.extraction.propositions import (
    content,
    judged_in_other_words,
    stands_as_asked,
    verdict_on_statement,
)
from snellen.extraction.reading import STATED, ExtractedChoice, RuleMethod
from snellen.extraction.statements import named
from snellen.formats.quantities import quantities, whole_quantity
from snellen.reasons import NoChoiceReason

_FENCED = late_pattern(r"```[\w+-]{0,20}\n(.{1,4000}?)\n?```", re.DOTALL)
_AROUND = " \n\t\r`\"'*$“”「」"
_LONGEST_REPLY = 8_000


def exact_option(reply: str, index: OptionIndex) -> int | None:
    """The option that the whole reply is, or the one code block in it, letter by letter; None for none or several."""
    if len(reply) > _LONGEST_REPLY:
        return None
    fences = _FENCED.findall(reply) if "```" in reply else []
    stripped = reply.strip()
    candidates = {
        stripped,
        stripped.strip(_AROUND),
        stripped.strip(_AROUND).removesuffix(".").rstrip(_AROUND),
    }
    if len(fences) == 1:
        candidates.add(fences[0].strip("\n"))
    places = {
        place
        for place, option in enumerate(index.options)
        if option.strip()
        and not candidates.isdisjoint((option.strip(), _without_dollars(option.strip())))
    }
    place = places.pop() if len(places) == 1 else None
    return (
        None
        if place is None or index.label(stripped.strip(_AROUND).rstrip(".")) is not None
        else place
    )


def _without_dollars(option: str) -> str:
    """ "x^2" of "$x^2$", but not "3.50" of "$3.50"."""
    return option[1:-1] if len(option) > 2 and option[0] == option[-1] == "$" else option


# --- plain sayings and what is weighed --------------------------------------------------------------------------------

LOOKED_AT = 64_000
"""Characters of a reply in which reasoning, tags and boxes are looked for: of a longer one the first quarter of them,
and the last three."""
READ_AT_MOST = 16_000
"""Characters of what is left that are read, by the same rule."""


def read_in_full(
    reply: str, index: OptionIndex, error: float, *, finish: str | None = None, question: str = ""
) -> ExtractedChoice:
    """`read_choice` without the short way: any reply."""
    looked_at, left_unseen = _looked_at(reply)
    if left_unseen:
        reading = read_in_full(looked_at, index, error, finish=finish, question=question)
        return _moved(reading, left_unseen, LOOKED_AT // 4)
    view = look_at(reply, index, finish=finish, question=question)
    reading = view.plain or _weighed(view.sight, error)
    reading = _placed(reading, view.text, view.part.start)
    reading = _moved(reading, view.left_out, view.part.start + READ_AT_MOST // 4)
    if view.part.framed and reading.choice is not None:
        return replace(reading, detail="framed as the answer")
    return reading


_INSTRUCTION = late_pattern(
    r"(?<=[.?!:\n])\s*(?:please |this is a closed|in your response|(?:do not|don't|your|the) (?:answer|include|explain)"
    r"|(?:answer|reply|respond|select|choose|pick|give|provide|output|write)\b)[^.?!\n]*[.!?]?",
    re.IGNORECASE,
)


def without_instructions(question: str) -> str:
    """A question without what it says of its answer's form: "Answer with yes or no.", "Select from A, B, C and D."."""
    return _INSTRUCTION.sub(" ", question)


class ReplyView(NamedTuple):
    """What is seen of a reply before anything is weighed."""

    part: FinalAnswer
    plain: ExtractedChoice | None
    """What it plainly says, or that it says nothing."""
    sight: Sight
    text: NormalisedReply
    left_out: int = 0


def look_at(
    reply: str, index: OptionIndex, *, finish: str | None = None, question: str = ""
) -> ReplyView:
    """What a reply plainly says, and what there is to weigh."""
    part = find_final_answer(reply)
    answer = reply[part.start : part.end]
    spoken, left_out = _readable(answer)
    text = normalise_reply(spoken)
    cut = finish == "length" and part.end == len(reply) and not part.framed
    question = without_instructions(question[:LONGEST_QUESTION])
    about = frozenset(content(question.lower()))
    sight = sight_of(skeleton(text.text, index, about), index, question, text.text, cut=cut)
    if not text.text.strip():
        return ReplyView(part, _nothing(part, finish), sight, text)
    if not index.count:
        return ReplyView(part, _open("no match"), sight, text)
    wordless = index.bare.get(text.text.strip(" \n\"'"), ())
    place = wordless[0] if len(wordless) == 1 else exact_option(answer, index)
    if place is not None:
        exact = ExtractedChoice(place, "text", "certain", span=(0, len(text.text)))
        return ReplyView(part, exact, sight, text, left_out)
    return ReplyView(part, _certain(sight), sight, text, left_out)


def _nothing(part: FinalAnswer, finish: str | None) -> ExtractedChoice:
    if part.unfinished and finish == "length":
        return _open("reasoning cut off")
    return _open("empty", "the reasoning never ended" if part.unfinished else "")


def _open(
    reason: NoChoiceReason, detail: str = "", probabilities: tuple[float, ...] = ()
) -> ExtractedChoice:
    return ExtractedChoice(None, None, "none", detail, reason=reason, probabilities=probabilities)


_MOST_WORDS = 60
# "No. 417 is wearing a vest"; the answer to another question.
_OF_ANOTHER_THING = late_pattern(
    rf"{phrases.TEXT} \. \d|\b(?:previous|earlier|last|next|other) question\b"
)
_OTHER_LABEL = late_pattern(r"\(\w\)\s*$")


def _certain(sight: Sight) -> ExtractedChoice | None:
    """The one option that a reply names, as its answer, where nothing else could be meant."""
    whole = sight.whole
    if (
        len(sight.places()) != 1
        or "?" in whole.text
        or '"' in sight.text
        or len(frozenset(whole.words)) > _MOST_WORDS
    ):
        return None
    if any(sight.marks[kind] for kind in TURNS) or _OF_ANOTHER_THING.search(whole.text):
        return None
    if EXAMPLE.search(sight.text):
        return None
    texts = (mention for mention in whole.at.values() if mention.kind == phrases.TEXT)
    if any(_OTHER_LABEL.search(sight.text[: mention.start][-6:]) for mention in texts):
        return None  # "(C) yes", where C is no label of it
    plainly = sight.claims.stated if sight.cut else sight.claims.stated | sight.claims.declared
    stated = [offset for offset in sorted(plainly) if _names(whole.at[offset])]
    if sight.cut and stated and not sight.claims.around(stated[-1]).ending:
        return None  # the sentence might have gone on
    if not stated:
        return None
    alone = len(whole.at) == 1 and patterns.SAYS_NOTHING.fullmatch(whole.text)
    why = "" if alone else STATED if stated[-1] in sight.claims.stated else "a sentence of its own"
    return _read(sight, whole.at[stated[-1]], why, certain=True)


def _names(mention: Mention) -> bool:
    return mention.kind <= phrases.BOTH and not mention.alias and len(mention.places) == 1


def _weighed(sight: Sight, error: float) -> ExtractedChoice:
    """The most probable option, if it is probable enough."""
    chances = reader.probabilities(sight)
    place = int(chances.argmax())
    chance = float(chances[place])
    none = max(0.0, 1.0 - float(chances.sum()))
    probabilities = (*map(float, chances), none)
    if chance < reader.model().limit(error, direct=answers_directly(sight, place)):
        return _open(
            _why_open(sight),
            _WEIGHED.format(chance, sight.options.options[place][:40]),
            probabilities,
        )
    why_not = stays_open(sight, place)
    if why_not is not None:
        return _open(*why_not, probabilities)
    naming = _naming(sight, place)
    if not naming:
        detail = f"in other words, {chance:.1%}"
        return ExtractedChoice(
            place, "text", "likely", detail, (0, len(sight.text)), probabilities=probabilities
        )
    return _read(
        sight,
        sight.whole.at[naming[-1]],
        f"weighed, {chance:.1%}",
        place=place,
        certain=False,
        probabilities=probabilities,
    )


def _naming(sight: Sight, place: int) -> list[int]:
    """Where an option is named; where it is denied, only if it always is."""
    offsets = [offset for offset in named(sight.whole) if place in sight.whole.at[offset].places]
    return [offset for offset in offsets if offset not in sight.claims.denied] or offsets


def stays_open(sight: Sight, place: int) -> tuple[NoChoiceReason, str] | None:
    """Why an option is not read however probable it is, or None."""
    if len(sight.whole.words) > _FEW_WORDS and repeats_question(sight):
        return "no match", "words of the question"
    if place not in sight.shown.stated and _has_no_end(sight.whole.words):
        return "no match", "the same words again and again"
    if _order_is_open(sight, place):
        return "ambiguous", "in another order than the question"
    naming = _naming(sight, place)
    if naming and _is_another_quantity(sight, place, sight.whole.at[naming[-1]]):
        return "no match", "another unit or root"
    return None


_FEW_WORDS = 3
"""So few words of a question may name one of its options."""
_MANY_WORDS, _EACH = 100, 8


def _has_no_end(words: Sequence[str]) -> bool:
    """Whether a long reply says each word so often that a loop must have made it."""
    words = [word for word in words if word[0].isalnum()]
    return len(words) > _MANY_WORDS and _EACH * len(frozenset(words)) < len(words)


def _order_is_open(sight: Sight, place: int) -> bool:
    """Whether yes or no follows from a statement alone that may have the question's things in another order, or an
    option from words that it shares with others."""
    asserted = frozenset(named(sight.whole)) - sight.claims.denied
    if place in sight.shown.stated | sight.places(asserted):
        return place in (*sight.yes, *sight.no) and contradicts_itself(sight, place)
    if place in (*sight.yes, *sight.no):
        if verdict_on_statement(" ".join(sight.text.split())):
            return judged_in_other_words(sight.text, sight.question)
        return not stands_as_asked(sight.text, sight.question)
    stems = [frozenset(content(" ".join(words))) for words in sight.options.words]
    return stems.count(stems[place]) > 1


def _is_another_quantity(sight: Sight, place: int, mention: Mention) -> bool:
    """Whether the number of an option stands with another unit or root than the option has: "5 km" of "5 cm"."""
    own = (
        whole_quantity(sight.options.options[place][:200]) if mention.kind == phrases.TEXT else None
    )
    if own is None:
        return False
    start = max(0, mention.start - 2)
    stretch = quantities(sight.text[start : mention.start + 40])
    said = next((q for q in stretch if start + q.start <= mention.start < start + q.end), None)
    if said is None:
        return False
    return (said.root, said.pi) != (own.root, own.pi) or bool(
        said.unit and own.unit and not said.equals(own)
    )


_WEIGHED = "weighed, {:.1%} for {!r}"


def _read(
    sight: Sight,
    mention: Mention,
    why: str,
    *,
    certain: bool,
    probabilities: tuple[float, ...] = (),
    place: int | None = None,
) -> ExtractedChoice:
    labels = {
        alike.kind
        for alike in sight.whole.at.values()
        if mention.places == alike.places and alike.kind != phrases.TEXT
    } & {phrases.BARE, phrases.STRONG, phrases.BOTH}
    texts = mention.kind in (phrases.TEXT, phrases.BOTH, phrases.DOUBTFUL)
    method: RuleMethod = "text" if not labels else "label+text" if texts else "label"
    return ExtractedChoice(
        mention.places[0] if place is None else place,
        method,
        "certain" if certain else "likely",
        why,
        (mention.start, mention.end),
        follows_format=bool(labels),
        probabilities=probabilities,
    )


def _why_open(sight: Sight) -> NoChoiceReason:
    if patterns.REFUSAL.search(sight.whole.text) or REFUSED.search(sight.whole.text):
        return "refused"
    if sight.cut:
        return "cut off"
    naming = frozenset(named(sight.whole))
    places = sight.places(naming - sight.claims.denied)
    if len(places) > 1:
        return "ambiguous"
    return "negated" if naming and not places else "no match"


# --- direct answers and prose -----------------------------------------------------------------------------------------

_LABELS = (phrases.STRONG, phrases.BOTH, phrases.CONFLICT)
_EXCLAIMS = late_pattern(r"[^.?!\n]*\w\W+\w[^.?!\n]*!")
_SHORT = 6
"""Words of a reply that is hardly more than its label."""


def answers_directly(sight: Sight, place: int) -> bool:
    """Whether a reply has an option in so many words: a verdict alone, yes or no at once, its label, with its text
    or alone, or that among few words.

    Not where it asks, or has that in somebody's mouth, nor where a courtesy or an example looks like it: "Yes, I can
    help with that!". Of a reply that was cut only a verdict in a whole sentence counts."""
    whole, stated = sight.whole, sight.shown.stated
    if "?" in whole.text or (place in (*sight.yes, *sight.no) and _EXCLAIMS.match(sight.text)):
        return False
    if stated:
        last = max(sight.claims.stated)
        ended = not sight.cut or bool(sight.claims.around(last).ending)
        return stated == {place} and ended and not _is_cited(sight, last)
    if sight.cut:
        return False
    judged = verdict_on_statement(" ".join(sight.text.split()))
    if (answers_at_once(sight) == place and not sight.places() - {place}) or (
        judged and place in (sight.yes if judged > 0 else sight.no)
    ):
        return True
    short = len(whole.words) <= _SHORT and not any(sight.marks[kind] for kind in TURNS)
    if (
        short
        and sight.places() == {place}
        and all(_is_label(mention) for mention in whole.at.values())
    ):
        return True
    asserted = [offset for offset in whole.offsets if offset not in sight.claims.denied]
    named = [
        offset
        for offset in asserted
        if whole.at[offset].kind in _LABELS and not _is_cited(sight, offset)
    ]
    with_text = any(whole.at[offset].kind == phrases.BOTH for offset in named)
    return sight.places(named) == {place} and (with_text or sight.places() == {place})


def _is_label(mention: Mention) -> bool:
    return mention.kind in (phrases.BARE, *_LABELS) and not mention.soft


def _is_cited(sight: Sight, offset: int) -> bool:
    """Whether a mention is what somebody says, or an example: 'She says "it is B"', "in this form: B"."""
    before = sight.text[: sight.whole.at[offset].start].rstrip(' "(')
    start = sight.claims.around(offset).start
    said = before.count('"') % 2 == 1 or any(start <= at < offset for at in sight.marks["speech"])
    return said or is_example(before, len(before))


# --- long replies -----------------------------------------------------------------------------------------------------

# Neither a blank nor the end of a sentence: what was cut must not become a sentence of its own.
_GAP = " ~ "
_HALF_WORD_BEFORE = late_pattern(r"\s\S{0,60}\Z")
_HALF_WORD_AFTER = late_pattern(r"\S{0,60}\s")


def _placed(reading: ExtractedChoice, text: NormalisedReply, start: int) -> ExtractedChoice:
    """The reading with its span where the words stand in the reply as received."""
    if reading.span is None:
        return reading
    first, last = text.span(*reading.span)
    return replace(reading, span=(first + start, last + start))


def _moved(reading: ExtractedChoice, left_out: int, behind: int) -> ExtractedChoice:
    """The reading with its span moved by what was left out; one across the gap keeps its first end."""
    if reading.span is None or not left_out:
        return reading
    start, end = (at + (left_out if at > behind else 0) for at in reading.span)
    return replace(reading, span=(start, end))


def _looked_at(reply: str) -> tuple[str, int]:
    """What of a very long reply is looked at, and how many characters less that is."""
    if len(reply) <= LOOKED_AT:
        return reply, 0
    both_ends = reply[: LOOKED_AT // 4] + _GAP + reply[-(LOOKED_AT * 3 // 4 - len(_GAP)) :]
    return both_ends, len(reply) - len(both_ends)


def _readable(spoken: str) -> tuple[str, int]:
    """What of a long text is read, and how many characters less that is."""
    if len(spoken) <= READ_AT_MOST:
        return spoken, 0
    head, tail = spoken[: READ_AT_MOST // 4], spoken[-(READ_AT_MOST * 3 // 4) :]
    # Half a word at either side of the gap could look like a label.
    half, other_half = _HALF_WORD_BEFORE.search(head), _HALF_WORD_AFTER.match(tail)
    head = head[: half.start()] if half else head
    tail = tail[other_half.end() :] if other_half else tail
    both_ends = head.ljust(READ_AT_MOST // 4) + _GAP + tail
    return both_ends, len(spoken) - len(both_ends)
