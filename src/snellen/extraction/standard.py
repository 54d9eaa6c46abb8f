"""The reference extractor: which option a reply names, or that it names none. Pure; it never guesses.

The text becomes a skeleton with a placeholder for each mention of an option; mentions that assert nothing
(a repeated option list, questions, denials, refusals) are set aside; then, in this order: an explicit
verdict (the last one wins), sentences that are an option and nothing else, what opens the reply, and at
last the single option that is still mentioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from snellen.extraction import patterns, phrases
from snellen.extraction.assertion_filters import (
    group_at,
    keep_asserted,
    mentioned,
    sentences,
    without_fragment,
    without_quoted_orders,
)
from snellen.extraction.discourse import after_correction, concluded, concluded_before_cut, without_guesses
from snellen.extraction.exact_texts import exact_option, verbatim_option, without_twins
from snellen.extraction.foreign_patterns import foreign_patterns
from snellen.extraction.normalisation import find_final_answer, normalise_reply
from snellen.extraction.option_index import OptionIndex, index_options, tokens
from snellen.extraction.option_mentions import Mention, Skeleton, skeleton
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DENIED, DOUBTFUL, TEXT
from snellen.extraction.question_hints import answering_option, asks_for_what_is_not, denied_option, yes_or_no
from snellen.extraction.reading import ExtractedChoice, RuleMethod
from snellen.reasons import NoChoiceReason

VERSION = "snellen-choice-3"
"""Stored with every prediction; any change that can change a reading changes it."""

Mode = Literal["standard", "strict"]
Found = Literal["certain", "likely"]


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


_VERDICT = "stated as the answer"

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
        place, "label+text" if text else "label", "certain", _VERDICT if opened else "", span, follows_format=True
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
        return _nothing("empty", "the reasoning never ended" if part.unfinished else "")
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
    if not whole.at:
        reading = _unmentioned(text, whole, asked, strict)
        place = yes_or_no(text, question, asked) if reading.choice is None and not strict and not cut else None
        if place is not None:
            return ExtractedChoice(place, "text", "likely", "yes or no in other words", (0, len(text)))
        return _nothing("cut off", _CUT_OFF) if cut and reading.reason == "no match" else reading
    asserted, listed, refused = keep_asserted(whole)
    corrected = after_correction(without_guesses(asserted), cut)
    if corrected.open:
        return _nothing("cut off", _CUT_OFF) if cut else _nothing("ambiguous", "the answer is taken back")
    asserted = without_fragment(corrected.said) if cut else corrected.said
    settled = _settle(asserted, corrected.start, cut)
    if settled is not None and settled.choice is not None:
        return _qualified(settled, asked, whole, corrected.changed)
    hint = None if strict or cut else _hinted(asserted, settled, question, asked)
    if hint is not None:
        return hint
    if cut and not refused:
        return _nothing("cut off", _CUT_OFF)
    if settled is not None:
        return settled
    if listed:
        return _nothing("ambiguous", "the option list, repeated")
    if refused:
        return _nothing("refused")
    if DENIED in asserted.text:
        return _nothing("negated")
    return _nothing("no match", "an option is mentioned, but not as the answer")


_SEVERAL, _DOUBTED = "several options", "other options may be meant"
_CUT_OFF = "cut off before an answer"


def _hinted(
    asserted: Skeleton, reading: ExtractedChoice | None, question: str, asked: OptionIndex
) -> ExtractedChoice | None:
    """What the question makes of a reply that leaves several options, or only a denied one."""
    if not question:
        return None
    place = denied_option(asserted) if asks_for_what_is_not(question) else None
    why = "denied, as the question asks"
    if place is None:
        several = reading is not None and reading.reason == "ambiguous"
        place = answering_option(asserted, question, asked) if several else None
        why = "said of what the question asks"
    return None if place is None else ExtractedChoice(place, "text", "likely", why)


def _settle(asserted: Skeleton, start: int, cut: bool) -> ExtractedChoice | None:
    """What the rules make of the assertions, in the order of how plainly these are meant as the answer."""
    stated = _verdict(asserted)
    if stated is not None:
        return stated
    by_end = _concluded(asserted, cut)
    by_rule = _declared(asserted) or _opening(asserted, start)
    if by_rule is not None and by_rule.choice is not None and by_end is not None and by_end.choice != by_rule.choice:
        opens = by_rule.extraction_method == "text"
        return by_end if opens else _nothing("ambiguous", "the conclusion names another option")
    if by_rule is not None and by_rule.choice is not None:
        return by_rule
    if by_end is not None:
        return by_end
    if by_rule is not None or (cut and not concluded_before_cut(asserted)):
        return by_rule
    return _remaining(asserted)


def _qualified(reading: ExtractedChoice, asked: OptionIndex, whole: Skeleton, corrected: bool) -> ExtractedChoice:
    """A reading after a correction, or beside other options, is no more than likely."""
    if corrected:
        return replace(reading, confidence="likely", detail="after a correction")
    if reading.extraction_method == "text" and reading.choice in asked.nested and not reading.detail:
        return replace(reading, detail="longest of nested options")
    others = any(reading.choice not in mention.places for mention in whole.at.values())
    if others and reading.confidence == "certain" and reading.detail not in (_VERDICT,):
        return replace(reading, confidence="likely")
    return reading


def _concluded(asserted: Skeleton, cut: bool) -> ExtractedChoice | None:
    """What the reply concludes with: "so it is B"."""
    offsets = concluded(asserted, cut)
    return _settled([asserted.at[offset] for offset in offsets], "likely", "the conclusion") if offsets else None


def _unmentioned(text: str, whole: Skeleton, asked: OptionIndex, strict: bool) -> ExtractedChoice:
    """Why a text without a mention says nothing, or the one option that it begins to spell out."""
    if patterns.REFUSAL.search(whole.text):
        return _nothing("refused")
    place = None if strict else _cut_off(text, asked)
    if place is not None:
        return ExtractedChoice(place, "text", "likely", "cut off inside the option's text", (0, len(text)))
    ordinal = patterns.ORDINAL.fullmatch(text.strip().lower())
    if ordinal is not None and not strict:
        place = len(asked.options) - 1 if ordinal[1] == "last" else patterns.ORDINALS.index(ordinal[1])
        if 0 <= place < len(asked.options):
            return ExtractedChoice(place, "text", "likely", "by its number in the list", (0, len(text)))
    unknown = patterns.UNKNOWN_LABEL.fullmatch(text.strip().lower())
    return _nothing("no match", "a label that was not shown" if unknown else "")


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


def _verdict(asserted: Skeleton) -> ExtractedChoice | None:
    """The last explicit statement of the answer, unless another label stands alone behind it."""
    stated = sorted(set(_verdicts(asserted)))
    if not stated:
        return None
    readings = [_settled(group_at(asserted, offset), "certain", _VERDICT) for offset in stated]
    last = readings[-1]
    if last.choice is None:
        return last
    if any(last.choice not in mention.places for mention in _labels_alone(asserted, stated[-1])):
        return _nothing("ambiguous", "another label follows the answer")
    if any(reading.choice != last.choice for reading in readings):
        return replace(last, confidence="likely", detail="the last of several answers")
    return last


def _verdicts(asserted: Skeleton) -> Iterator[int]:
    """Offsets of the mentions that are stated as the answer."""
    text = asserted.text
    foreign = foreign_patterns(asserted.spoken) if asserted.spoken else None
    every = (*patterns.VERDICTS, *foreign.verdicts) if foreign else patterns.VERDICTS
    for pattern in every:
        for found in pattern.finditer(text):
            offset = found.start("x")
            open_ended = asserted.at[offset].soft and not patterns.END.match(text, offset + 1)
            if not open_ended and not _hypothetical(text, found.start()):
                yield offset
    for found in patterns.POST_VERDICT.finditer(text):
        offset = found.start("group")
        only_texts = all(mention.kind == TEXT for mention in group_at(asserted, offset))
        if (patterns.NAMES_ANSWER.search(found[0]) or not only_texts) and not _hypothetical(text, offset):
            yield offset
    if foreign is not None:
        for found in foreign.post_verdict.finditer(text):
            offset = found.start("group")
            only_texts = all(mention.kind == TEXT for mention in group_at(asserted, offset))
            if foreign.names_answer.search(found[0]) or not only_texts:
                yield offset
    yield from (found.start("group") for found in patterns.POST_VERDICT_CJK.finditer(text))


def _hypothetical(text: str, at: int) -> bool:
    """An "if" earlier in the sentence (within 300 characters), other than "if I had to choose"."""
    sentence = patterns.SENTENCE_END.split(text[max(0, at - 300) : at])[-1]
    return bool(patterns.HYPOTHETICAL.search(sentence)) and not patterns.FORCED_CHOICE.search(sentence)


def _labels_alone(asserted: Skeleton, after: int) -> Iterator[Mention]:
    """Labels that are a sentence of their own, beyond an offset."""
    for start, end, _ in sentences(asserted):
        if start > after and patterns.DECLARED.fullmatch(asserted.text[start:end].strip(" ")):
            group = group_at(asserted, mentioned(asserted, start, end)[0])
            if all(mention.kind != TEXT for mention in group):
                yield from group


def _declared(asserted: Skeleton) -> ExtractedChoice | None:
    """Sentences that are an option and nothing else, or begin with a strong label: all must agree."""
    declared: list[Mention] = []
    foreign = foreign_patterns(asserted.spoken) if asserted.spoken else None
    for start, end, _ in sentences(asserted):
        offsets = mentioned(asserted, start, end)
        sentence = asserted.text[start:end].strip(" ")
        if offsets and (patterns.DECLARED.fullmatch(sentence) or (foreign and foreign.declared.fullmatch(sentence))):
            declared += group_at(asserted, offsets[0])
        elif offsets and patterns.LEADING_STRONG.match(sentence):
            declared.append(asserted.at[offsets[0]])
    if not declared:
        return None
    sole = len(declared) == 1 and patterns.SAYS_NOTHING.fullmatch(asserted.text)
    return _settled(declared, "certain", "" if sole else "a sentence of its own")


def _opening(asserted: Skeleton, start: int) -> ExtractedChoice | None:
    """What the reply, or what stands behind its correction, begins with: "B, because ...", "No, it is not there"."""
    found = patterns.LEADING.match(asserted.text, start)
    if found is None:
        return None
    return _settled(group_at(asserted, found.start("group")), "certain", "opens the reply")


def _remaining(asserted: Skeleton) -> ExtractedChoice | None:
    """The option that all remaining mentions agree on; one that may be meant otherwise leaves it open."""
    left: list[Mention] = []
    for found in patterns.GROUP.finditer(asserted.text):
        if _counts(asserted, found.start(), found.end()):
            left += [asserted.at[offset] for offset in mentioned(asserted, *found.span())]
    if not left:
        return None
    reading = _settled(left, "likely", "the only option left")
    doubts = (m for o, m in asserted.at.items() if asserted.text[o] in (BARE, DOUBTFUL) and not m.soft)
    if reading.choice is not None and any(reading.choice not in mention.places for mention in doubts):
        return _nothing("ambiguous", _DOUBTED)
    return reading


def _counts(asserted: Skeleton, start: int, end: int) -> bool:
    """Whether mentions in running prose name an option; a bare letter does so only where it is no name."""
    mention = asserted.at[start]
    if mention.kind != BARE:
        return True
    if mention.soft:
        return mention.previous in phrases.LABEL_NOUNS
    before = asserted.text[max(0, start - 40) : start].rstrip(" ").rsplit(" ", 1)[-1]
    after = asserted.text[end : end + 40].lstrip(" ").split(" ", 1)[0]
    if before in phrases.CLAUSE_STARTS and after in phrases.VERBS_AFTER_BARE:
        return True
    if patterns.END.match(asserted.text, end) is None and not _CJK_NEXT.match(asserted.text, end):
        return False
    earlier = patterns.SENTENCE_END.split(asserted.text[max(0, start - 40) : start])[-1].rpartition(DENIED)
    if earlier[1] and earlier[2].count(" ") <= _NEAR:
        return True  # "not A but B", in any language
    introduced = asserted.spoken and before in foreign_patterns(asserted.spoken).introduces
    return before in phrases.BEFORE_BARE or bool(introduced)


_NEAR = 5
_CJK_NEXT = re.compile(r" ?[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")


def _settled(named: Sequence[Mention], confidence: Found, detail: str) -> ExtractedChoice:
    """The option that all of some mentions agree on, else ambiguous."""
    span = min(m.start for m in named), max(m.end for m in named)
    if any(mention.kind == CONFLICT for mention in named):
        return _nothing("ambiguous", "a label and another option's text", span)
    agreed = set(named[0].places).intersection(*(mention.places for mention in named[1:]))
    if len(agreed) != 1:
        return _nothing("ambiguous", "two options have this text" if agreed else _SEVERAL, span)
    kinds = {mention.kind for mention in named}
    marked = kinds != {TEXT}
    method: RuleMethod = "text" if not marked else "label+text" if kinds & {TEXT, BOTH} else "label"
    if any(mention.alias for mention in named):
        confidence = "likely"
    if any(mention.other_case for mention in named):
        detail = f"{detail}, in the other case".lstrip(", ")
    return ExtractedChoice(agreed.pop(), method, confidence, detail, span, follows_format=marked)


def _nothing(reason: NoChoiceReason, detail: str = "", span: tuple[int, int] | None = None) -> ExtractedChoice:
    return ExtractedChoice(None, None, "none", detail, span, reason=reason)
