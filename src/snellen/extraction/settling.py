"""Which assertion of a reply is its answer: an explicit verdict, a sentence of its own, its opening, its conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from snellen.extraction import patterns, phrases
from snellen.extraction.assertion_filters import group_at, mentioned, sentences
from snellen.extraction.discourse import concluded, concluded_before_cut
from snellen.extraction.foreign_patterns import ASIAN, ForeignPatterns, foreign_patterns
from snellen.extraction.option_mentions import Mention, Skeleton
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DENIED, DOUBTFUL, TEXT
from snellen.extraction.question_words import answers_in_its_words
from snellen.extraction.reading import STATED, ExtractedChoice, RuleMethod
from snellen.formats.late_patterns import late_pattern
from snellen.reasons import NoChoiceReason

Found = Literal["certain", "likely"]
Ground = Literal["verdict", "question", "sentence", "opening", "conclusion", "only one left"]
"""What makes an assertion the answer: it is stated as such, answers in the question's words, is a sentence of its own,
opens the reply, is its conclusion, or is the only one that is left."""


class Settled(NamedTuple):
    """A reading, and what made it."""

    reading: ExtractedChoice
    ground: Ground

    @property
    def choice(self) -> int | None:
        return self.reading.choice


_SEVERAL, _DOUBTED = "several options", "other options may be meant"


def settle(asserted: Skeleton, start: int, cut: bool, question: str = "") -> Settled | None:
    """What the rules make of the assertions, in the order of how plainly these are meant as the answer."""
    if _BOTH_ARE.search(asserted.text):
        return Settled(no_option("ambiguous", _SEVERAL), "verdict")
    stated = _verdict(asserted)
    if stated is not None and stated.choice is not None and stated.span is not None:
        by_end = None if cut else _concluded(asserted, cut)
        if by_end is not None and by_end.choice not in (None, stated.choice) and _behind(by_end, stated.span[1]):
            return Settled(no_option("ambiguous", "the conclusion names another option"), "verdict")
    if stated is not None:
        return Settled(stated, "verdict")
    in_words = _in_the_words_of(question, asserted)
    if in_words is not None:
        return Settled(in_words, "question")
    by_end = _concluded(asserted, cut)
    by_rule = _declared(asserted) or _opening(asserted, start)
    if by_rule is not None and by_rule.choice is not None and by_end is not None and by_end.choice != by_rule.choice:
        if by_rule.reading.extraction_method == "text":
            return by_end
        return Settled(no_option("ambiguous", "the conclusion names another option"), "conclusion")
    if by_rule is not None and by_rule.choice is not None:
        return by_rule
    if by_end is not None:
        return by_end
    if by_rule is not None or (cut and not concluded_before_cut(asserted)):
        return by_rule
    return _remaining(asserted)


_BOTH_ARE = late_pattern(rf"{patterns.X} (?:are|is) both (?:right|correct|true|valid|possible|right answers)\b")


def _behind(settled: Settled, offset: int) -> bool:
    return settled.reading.span is not None and settled.reading.span[0] >= offset


def _in_the_words_of(question: str, asserted: Skeleton) -> ExtractedChoice | None:
    """What sentences say of the very thing that the question asks about: "The main idea is A"."""
    offsets = answers_in_its_words(asserted, question) if question else []
    if not offsets:
        return None
    return agreed_option(
        [m for offset in offsets for m in group_at(asserted, offset)], "likely", "in the question's words"
    )


def _concluded(asserted: Skeleton, cut: bool) -> Settled | None:
    """What the reply concludes with: "so it is B"."""
    offsets = concluded(asserted, cut)
    if not offsets:
        return None
    return Settled(agreed_option([asserted.at[offset] for offset in offsets], "likely", "the conclusion"), "conclusion")


def _verdict(asserted: Skeleton) -> ExtractedChoice | None:
    """The last explicit statement of the answer, unless another label stands alone behind it."""
    named: dict[int, bool] = {}
    for offset, explicit in _verdicts(asserted):
        named[offset] = explicit or named.get(offset, False)
    stated = sorted(named)
    if not stated:
        return None
    readings = [agreed_option(group_at(asserted, offset), "certain", STATED) for offset in stated]
    last = readings[-1]
    if last.choice is None:
        return last
    alone = _labels_alone(asserted, stated[-1], explained=named[stated[-1]])
    if any(last.choice not in mention.places for mention in alone):
        return no_option("ambiguous", "another label follows the answer")
    others = [
        offset
        for offset, reading in zip(stated, readings, strict=True)
        if reading.choice != last.choice and not _leaves_open(asserted, offset, last.choice)
    ]
    finally_only = _finally(asserted, stated[-1]) and not any(_finally(asserted, offset) for offset in others)
    if others and finally_only and stated[-1] - others[-1] > _REASONED:
        return replace(last, confidence="likely", detail="the final answer")
    if others and (not named[stated[-1]] or any(named[offset] for offset in others)):
        return no_option("ambiguous", "several answers")
    if any(reading.choice != last.choice for reading in readings):
        return replace(last, confidence="likely", detail="the last of several answers")
    return last


_FINAL = late_pattern(r"\bfinal (?:answer|choice|verdict)(?: (?:is|:|=|-))*(?: (?:option|a|an|the))* $")


_REASONED = 80
"""Characters between an answer and the final one that make the first a step on the way."""


def _finally(asserted: Skeleton, offset: int) -> bool:
    """Whether a mention is called the final answer."""
    return _FINAL.search(asserted.text, max(0, offset - 60), offset) is not None


def _leaves_open(asserted: Skeleton, offset: int, choice: int) -> bool:
    """Whether an answer names several options, one of which is `choice`: "The answer is B or C"."""
    places = {place for mention in group_at(asserted, offset) for place in mention.places}
    return len(places) > 1 and choice in places


def _verdicts(asserted: Skeleton) -> Iterator[tuple[int, bool]]:
    """Offsets of the mentions that are stated as the answer, and whether the reply calls them so."""
    text = asserted.text
    foreign = foreign_patterns(asserted.spoken) if asserted.spoken else None
    every = (*patterns.VERDICTS, *foreign.verdicts) if foreign else patterns.VERDICTS
    dense = ASIAN.search(text) is not None
    if dense:
        every = (*every, *patterns.VERDICTS_DENSE)
    for pattern in every:
        for match in pattern.finditer(text):
            offset = match.start("x")
            ended = patterns.END.match(text, offset + 1) or patterns.KOREAN_END.match(text, offset + 1)
            open_ended = asserted.at[offset].soft and not ended
            if not open_ended and not _hypothetical(text, match.start()):
                yield offset, _calls_it_so(match[0], foreign)
    for match in patterns.POST_VERDICT.finditer(text):
        offset = match.start("group")
        only_texts = all(mention.kind == TEXT for mention in group_at(asserted, offset))
        if (patterns.NAMES_ANSWER.search(match[0]) or not only_texts) and not _hypothetical(text, offset):
            yield offset, _calls_it_so(match[0], foreign)
    if foreign is not None:
        for match in foreign.post_verdict.finditer(text):
            offset = match.start("group")
            only_texts = all(mention.kind == TEXT for mention in group_at(asserted, offset))
            if foreign.names_answer.search(match[0]) or not only_texts:
                yield offset, _calls_it_so(match[0], foreign)
    if dense:
        yield from ((match.start("group"), True) for match in patterns.POST_VERDICT_CJK.finditer(text))


def _calls_it_so(statement: str, foreign: ForeignPatterns | None) -> bool:
    """Whether a statement has a word for answer: "the answer is X", not "so it is X"."""
    named = patterns.NAMES_ANSWER.search(statement) or patterns.ANSWERS_ELSEWHERE.search(statement)
    return bool(named or (foreign and foreign.names_answer.search(statement)))


def _hypothetical(text: str, at: int) -> bool:
    """An "if" earlier in the sentence (within 300 characters), other than "if I had to choose"."""
    sentence = patterns.SENTENCE_END.split(text[max(0, at - 300) : at])[-1]
    return bool(patterns.HYPOTHETICAL.search(sentence)) and not patterns.FORCED_CHOICE.search(sentence)


def _labels_alone(asserted: Skeleton, after: int, *, explained: bool) -> Iterator[Mention]:
    """Labels that are a sentence of their own, beyond an offset; those with their texts do not count where an
    answer that is called so is `explained`: "The answer is C. Here's why: A. A ball. There is none."."""
    reasons = _EXPLAINS.search(asserted.text, after) if explained else None
    for start, end, _ in sentences(asserted):
        goes_on = _GOES_ON.match(asserted.text, end)  # behind the full stop of an option: "C. It rains. is wrong"
        if start > after and not goes_on and patterns.DECLARED.fullmatch(asserted.text[start:end].strip(" ")):
            group = group_at(asserted, mentioned(asserted, start, end)[0])
            told = reasons is not None and start >= reasons.start()
            if all(mention.kind != TEXT and not (told and mention.kind == BOTH) for mention in group):
                yield from group


_GOES_ON = late_pattern(r"[. ]*(?:is|are|was|were|isn't|would|does|cannot|can't)\b")
_EXPLAINS = late_pattern(
    r"\b(?:why|because|reasons?|reasoning|explanation|explained|analysis|breakdown|others?|incorrect)\b"
)


def _declared(asserted: Skeleton) -> Settled | None:
    """Sentences that are an option and nothing else, or begin with a strong label: all must agree."""
    declared: list[Mention] = []
    asking = False
    foreign = foreign_patterns(asserted.spoken) if asserted.spoken else None
    for start, end, ending in sentences(asserted):
        offsets = mentioned(asserted, start, end)
        sentence = asserted.text[start:end].strip(" ")
        asking = asking or bool(offsets and ending == "?")
        if offsets and (patterns.DECLARED.fullmatch(sentence) or (foreign and foreign.declared.fullmatch(sentence))):
            declared += group_at(asserted, offsets[0])
        elif offsets and patterns.LEADING_STRONG.match(sentence):
            several = patterns.SPEAKER.match(sentence) is not None
            declared += [asserted.at[offset] for offset in offsets[: 1 + several]]
    if not declared:
        return None
    sole = len(declared) == 1 and patterns.SAYS_NOTHING.fullmatch(asserted.text)
    return Settled(
        agreed_option(declared, "likely" if asking else "certain", "" if sole else "a sentence of its own"), "sentence"
    )


def _opening(asserted: Skeleton, start: int) -> Settled | None:
    """What the reply, or what stands behind its correction, begins with: "B, because ...", "No, it is not there"."""
    match = patterns.LEADING.match(asserted.text, start)
    if match is None:
        return None
    opened = agreed_option(group_at(asserted, match.start("group")), "certain", "opens the reply")
    if opened.choice is not None and _opened_otherwise(asserted, match.end(), opened.choice):
        return Settled(no_option("ambiguous", "sentences open with several options"), "opening")
    return Settled(opened, "opening")


def _opened_otherwise(asserted: Skeleton, after: int, choice: int) -> bool:
    """Whether a later sentence opens with another option: "Yes, it is full. No, it is not"."""
    leading = (
        patterns.LEADING.match(asserted.text, start)
        for start, end, _ in sentences(asserted)
        if start >= after and mentioned(asserted, start, end)
    )
    return any(found is not None and choice not in asserted.at[found.start("group")].places for found in leading)


def _remaining(asserted: Skeleton) -> Settled | None:
    """The option that all remaining mentions agree on; one that may be meant otherwise leaves it open."""
    left: list[Mention] = []
    nothing_else = patterns.SAYS_NOTHING.fullmatch(asserted.text) is not None
    for match in patterns.GROUP.finditer(asserted.text):
        supposed = _hypothetical(asserted.text, match.start())
        if (
            not supposed
            and (nothing_else or _counts(asserted, match.start(), match.end()))
            and not _somehow_denied(asserted, match.start())
        ):
            left += [asserted.at[offset] for offset in mentioned(asserted, *match.span())]
    if not left:
        return None
    reading = agreed_option(left, "likely", "the only option left")
    doubts = (m for o, m in asserted.at.items() if asserted.text[o] in (BARE, DOUBTFUL) and not m.soft)
    if reading.choice is not None and any(reading.choice not in mention.places for mention in doubts):
        return Settled(no_option("ambiguous", _DOUBTED), "only one left")
    return Settled(reading, "only one left")


def _somehow_denied(asserted: Skeleton, start: int) -> bool:
    """Whether a clause denies something before it names an option: "he isn't there for milk"."""
    if asserted.at[start].kind != TEXT:
        return False
    clause = patterns.CLAUSE_START.split(asserted.text[max(0, start - 200) : start])[-1]
    return patterns.SOMEHOW_DENIED.search(clause) is not None


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
_CJK_NEXT = late_pattern(r" ?[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")


def agreed_option(named: Sequence[Mention], confidence: Found, detail: str) -> ExtractedChoice:
    """The option that all of some mentions agree on, else ambiguous."""
    span = min(m.start for m in named), max(m.end for m in named)
    if any(mention.kind == CONFLICT and not mention.opposed for mention in named) or all(m.opposed for m in named):
        return no_option("ambiguous", "a label and another option's text", span)
    agreed = set(named[0].places).intersection(*(mention.places for mention in named[1:]))
    if len(agreed) != 1:
        return no_option("ambiguous", "two options have this text" if agreed else _SEVERAL, span)
    kinds = {mention.kind for mention in named}
    marked = kinds != {TEXT}
    method: RuleMethod = "text" if not marked else "label+text" if kinds & {TEXT, BOTH} else "label"
    if any(mention.alias for mention in named):
        confidence = "likely"
    if any(mention.other_case for mention in named):
        detail = f"{detail}, in the other case".lstrip(", ")
    return ExtractedChoice(agreed.pop(), method, confidence, detail, span, follows_format=marked)


def no_option(reason: NoChoiceReason, detail: str = "", span: tuple[int, int] | None = None) -> ExtractedChoice:
    return ExtractedChoice(None, None, "none", detail, span, reason=reason)
