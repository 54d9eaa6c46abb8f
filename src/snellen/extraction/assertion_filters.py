"""Sets aside the mentions that assert nothing: repeated lists, questions, hypotheses, denials, refusals."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from snellen.extraction import foreign_patterns, patterns
from snellen.extraction.option_mentions import Mention, Skeleton
from snellen.extraction.phrases import BARE, BOTH, CONFLICT, DENIED, DENIES_TEXT, IDLE, NO_WORDS, NOT_ONLY, STRONG, TEXT
from snellen.formats.late_patterns import late_pattern


def keep_asserted(whole: Skeleton, asked_of: frozenset[str] = frozenset()) -> tuple[Skeleton, bool, bool]:
    """What is still asserted, whether the option list was repeated, whether something was refused.

    `asked_of` are the beginnings of the question's words: who does not do what is asked for is denied.
    """
    listless = without_lists(whole)
    asserted = without_marks_of_wrong(without_denials(without_hypotheses(without_questions(listless)), asked_of))
    if _is_foreign(whole):
        asserted = without_foreign_denials(asserted)
    unrefused, refused = without_refusals(asserted)
    return unrefused, listless.text != whole.text, refused


def mentioned(skeleton: Skeleton, start: int = 0, end: int | None = None) -> list[int]:
    """Offsets of the mentions that still assert something."""
    first = bisect_left(skeleton.offsets, start)
    last = len(skeleton.offsets) if end is None else bisect_left(skeleton.offsets, end)
    return [offset for offset in skeleton.offsets[first:last] if skeleton.text[offset] <= CONFLICT]


def sentences(skeleton: Skeleton) -> Iterator[tuple[int, int, str]]:
    """Start, end and ending of each sentence."""
    start = 0
    for stop in patterns.SENTENCE_END.finditer(skeleton.text):
        yield start, stop.start(), stop[0][0]
        start = stop.end()
    yield start, len(skeleton.text), ""


def group_at(skeleton: Skeleton, first: int) -> list[Mention]:
    """The mentions coordinated with the one at `first`: "A or B", "B, dog"."""
    match = patterns.GROUP.match(skeleton.text, first)
    offsets = mentioned(skeleton, first, match.end() if match else first + 1)
    group = [skeleton.at[first]]
    for before, here in pairwise(offsets):
        listed = group[0].kind == TEXT and here != offsets[-1]
        comma = not listed and skeleton.text[before + 1 : here].strip() in ("", ",", ";", "-")
        if comma and skeleton.at[here].kind == TEXT and not patterns.END.match(skeleton.text, here + 1):
            break  # "B, a cat would be smaller": a new clause
        group.append(skeleton.at[here])
    return group


Span = tuple[int, int]


def set_aside(skeleton: Skeleton, spans: list[Span], placeholder: str) -> Skeleton:
    """The skeleton with all mentions inside some spans replaced."""
    if not spans:
        return skeleton
    pieces, last = [], 0
    for start, end in sorted(spans):
        begin = max(start, last)
        if begin < end:
            pieces += [skeleton.text[last:begin], patterns.ASIDE.sub(placeholder, skeleton.text[begin:end])]
            last = end
    return skeleton._replace(text="".join([*pieces, skeleton.text[last:]]))


def without_lists(skeleton: Skeleton) -> Skeleton:
    """Without repetitions of the option list: all options, or all but one, in the order shown."""
    places = skeleton.offered
    spans: list[Span] = []
    run: list[int] = []
    for offset in [*mentioned(skeleton), -1]:
        if run and not (offset >= 0 and _continues(skeleton, run[-1], offset)):
            if _is_list(
                skeleton, run, places, restarts=offset >= 0 and skeleton.at[offset].places == skeleton.at[run[0]].places
            ):
                spans.append((run[0], run[-1] + 1))
            run = []
        if offset >= 0 and len(skeleton.at[offset].places) == 1:
            run = [*run, offset]
    return set_aside(skeleton, spans + _enumeration(skeleton) + _walked_through(skeleton) + _shares(skeleton), IDLE)


def _shares(skeleton: Skeleton) -> list[Span]:
    """Marks that are given a probability each."""
    if "%" not in skeleton.words and "0" not in skeleton.text:
        return []
    shared = [match.span("x") for match in patterns.SHARE.finditer(skeleton.text)]
    return shared if len({skeleton.at[start].places for start, _ in shared}) > 1 else []


def _enumeration(skeleton: Skeleton, kinds: tuple[str, ...] = (STRONG,)) -> list[Span]:
    """Marks that number the lines of a reply from the first on: steps, or a word about each option."""
    begins = [
        offset for offset in mentioned(skeleton) if skeleton.text[offset] in kinds and _begins_line(skeleton, offset)
    ]
    counted = [skeleton.at[offset].places for offset in begins]
    if len(begins) < 2 or counted != [(place,) for place in range(len(counted))]:
        return []
    return [(offset, offset + 1) for offset in begins]


def _walked_through(skeleton: Skeleton) -> list[Span]:
    """Labels that begin lines behind a preamble, each with a word about its option: "Here's why: A. A ball. There is
    none. B. ...". What is said of each option is no answer, however many of them a cut reply has; a line that calls
    its option right is one."""
    text = skeleton.text
    items = [
        offset
        for offset in mentioned(skeleton)
        if text[offset] in (STRONG, BOTH) and _BEGINS_ITEM.search(text, max(0, offset - 12), offset)
    ]
    if not items or mentioned(skeleton)[0] == 0 or _announced(text, items[0]):
        return []
    items = [offset for offset in items if not _announced(text, offset)]
    places = [skeleton.at[offset].places for offset in items]
    if places != sorted(set(places)) or not any(text[offset] == BOTH for offset in items):
        return []
    if len(items) < 2 and not (items and _WALKS.search(text[: items[0]]) and _CUT.search(text, items[0])):
        return []
    lines = [(offset, text.find("\n", offset)) for offset in items]
    return [
        (offset, offset + 1)
        for offset, end in lines
        if not _CALLED_RIGHT.search(text, offset, end if end >= 0 else len(text))
    ]


_BEGINS_ITEM = late_pattern(r"(?:\n |: )(?:\d+ ?[.)] )?$")
_WALKS = late_pattern(
    r"\b(?:step by step|one by one|each (?:of the )?(?:option|choice|answer|statement)|let's (?:consider|analy[sz]e"
    r"|evaluate|examine|go (?:through|over)|look at|break))"
)
_CUT = late_pattern(r"[^\W\d_]{2,} *$")
"""The end of a text that stops within a sentence."""


def _announced(text: str, offset: int) -> bool:
    """Whether a mention stands behind a colon that announces an answer, or all that are right."""
    sentence = patterns.SENTENCE_END.split(text[max(0, offset - 300) : offset])[-1]
    return text[:offset].endswith(": ") and _ANNOUNCES.search(sentence) is not None


_CALLED_RIGHT = late_pattern(r"\b(?:answer|correct|right|true|matches|best|accurate|accurately|fits)\b|[✓✔✅☑]")
_ANNOUNCES = late_pattern(
    r"\b(?:answers?|choices?|choose|pick|select|correct|best|right|final|conclusion|is|are|be|following|include)\b"
)


def _begins_line(skeleton: Skeleton, offset: int) -> bool:
    return offset == 0 or skeleton.text[max(0, offset - 2) : offset] == "\n "


def _continues(skeleton: Skeleton, last: int, offset: int) -> bool:
    before, here = skeleton.at[last], skeleton.at[offset]
    same = before.kind == here.kind or {before.kind, here.kind} <= {BARE, STRONG}
    follows = here.places == (before.places[0] + 1,)
    return same and follows and bool(patterns.LIST_GAP.fullmatch(skeleton.text, last + 1, offset))


def _is_list(skeleton: Skeleton, run: list[int], places: int, *, restarts: bool) -> bool:
    first, last = skeleton.at[run[0]], skeleton.at[run[-1]]
    enough = len(run) >= max(2, places - (first.kind == BOTH and places > 2))
    whole = first.places[0] <= 1 and last.places[0] >= places - 1
    return enough and whole and (restarts or patterns.LIST_END.match(skeleton.text, run[-1] + 1) is not None)


def without_questions(skeleton: Skeleton) -> Skeleton:
    """A question asserts nothing, unless nothing but questions was said; answered with no, it is a denial."""
    if "?" not in skeleton.text:
        return skeleton
    every = list(sentences(skeleton))
    asked = [
        number for number, (start, end, ending) in enumerate(every) if ending == "?" and mentioned(skeleton, start, end)
    ]
    outside = len(mentioned(skeleton)) - sum(len(mentioned(skeleton, *every[number][:2])) for number in asked)
    denied: list[Span] = []
    idle = [match.span() for match in patterns.ASKS.finditer(skeleton.text)]
    for number in asked:
        follower = (
            skeleton.text[every[number + 1][0] : every[number + 1][1]].split(" ", 1)[0]
            if number + 1 < len(every)
            else ""
        )
        if follower in NO_WORDS:
            denied.append(every[number][:2])
        elif outside:
            idle.append(every[number][:2])
    return set_aside(set_aside(skeleton, denied, DENIED), idle, IDLE)


def without_hypotheses(skeleton: Skeleton) -> Skeleton:
    """ "If it were smaller it would be X", "although it looks like X" say nothing; "if I had to choose, X" does."""
    spans: list[Span] = []
    for pattern, telling in patterns.UNASSERTED:
        if not telling.isdisjoint(skeleton.words):
            spans += [match.span(bool(pattern.groups)) for match in pattern.finditer(skeleton.text)]
    if "if " in skeleton.text:
        for start, end, _ in sentences(skeleton):
            if _hypothesis(skeleton.text[start:end]):
                begun = skeleton.text.find("if ", start, end)
                settled = patterns.SETTLED.search(skeleton.text, max(start, begun), end)
                spans.append((start, settled.start() if settled else end))
    if not patterns.INVERTING.isdisjoint(skeleton.words):
        spans += [
            (start, end)
            for start, end, _ in sentences(skeleton)
            if patterns.INVERTED.search(skeleton.text, start, end)
            and not patterns.SETTLED.search(skeleton.text, start, end)
        ]
    return set_aside(skeleton, spans, IDLE)


def _hypothesis(sentence: str) -> bool:
    return bool(patterns.HYPOTHESIS.search(sentence)) and not patterns.FORCED_CHOICE.search(sentence)


def without_denials(skeleton: Skeleton, asked_of: frozenset[str] = frozenset()) -> Skeleton:
    """Mentions that are denied, before or behind: "not A", "A and B are wrong"."""
    kept = (
        {match.start("x") for match in patterns.BETTER_THAN.finditer(skeleton.text)}
        if "than" in skeleton.words
        else set()
    )
    denied = [match.span("group") for match in patterns.PRE_DENIAL.finditer(skeleton.text)]
    skeleton = set_aside(skeleton, [span for span in denied if span[0] not in kept] if kept else denied, DENIED)
    dense = foreign_patterns.DENSE.search(skeleton.text) is not None
    for pattern, telling in patterns.DENIALS:
        if (dense and not telling) or not telling.isdisjoint(skeleton.words):
            skeleton = set_aside(skeleton, [match.span("group") for match in pattern.finditer(skeleton.text)], DENIED)
    if DENIED in skeleton.text:
        skeleton = set_aside(
            skeleton, [match.span("group") for match in patterns.DENIED_TOO.finditer(skeleton.text)], DENIED
        )
    spans: list[Span] = []
    for match in patterns.POST_DENIAL.finditer(skeleton.text):
        word = "visible" if _APPEARS.search(match[0]) else (match["soft"] or "").strip()
        counts: Callable[[Mention], bool] = (
            partial(_denied_by, word) if asked_of.isdisjoint(_stems_of(match[0])) else lambda _: True
        )
        inside = mentioned(skeleton, *match.span("group"))
        spans += [(o, o + 1) for o in inside if match["soft"] is None or counts(skeleton.at[o])]
    return set_aside(skeleton, spans, DENIED)


def _stems_of(text: str) -> list[str]:
    return [word.removesuffix("n't")[:_STEM] for word in text.split()]


_STEM = 4
_APPEARS = late_pattern(r" (?:appear|seem to be)(?: |$)")


def _denied_by(word: str, mention: Mention) -> bool:
    """ "B is not ..." denies B; "the dog is not moving" says nothing against the dog."""
    return word not in NOT_ONLY and (mention.kind != TEXT or not word or word in DENIES_TEXT)


def without_foreign_denials(skeleton: Skeleton) -> Skeleton:
    """Without what is denied, or only supposed, in another language than English."""
    denials: tuple[re.Pattern[str], ...] = ()
    if foreign_patterns.DENSE.search(skeleton.text):
        denials = (*foreign_patterns.DENSE_DENIALS, foreign_patterns.DENSE_NOT_DONE)
        skeleton = set_aside(
            skeleton, [m.span() for m in foreign_patterns.DENSE_HYPOTHESIS.finditer(skeleton.text)], IDLE
        )
    if skeleton.spoken:
        foreign = foreign_patterns.foreign_patterns(skeleton.spoken)
        denials = (*denials, *foreign.denials, *([foreign_patterns.KOREAN_NOT_DONE] if "ko" in skeleton.spoken else []))
        skeleton = set_aside(skeleton, [match.span() for match in foreign.hypothesis.finditer(skeleton.text)], IDLE)
    for pattern in denials:
        skeleton = set_aside(skeleton, [match.span("group") for match in pattern.finditer(skeleton.text)], DENIED)
    return skeleton


def without_marks_of_wrong(skeleton: Skeleton) -> Skeleton:
    """Without what a cross is set behind: "A ✗, B ✗"; of a line with a tick too, only what the cross is nearest to."""
    if patterns.CROSSES.isdisjoint(skeleton.words):
        return skeleton
    return set_aside(skeleton, [match.span("group") for match in patterns.CROSSED.finditer(skeleton.text)], DENIED)


def without_fragment(skeleton: Skeleton) -> Skeleton:
    """Of a cut reply, without the mentions in its last, unfinished sentence; a reply of one sentence is left whole."""
    skeleton = set_aside(skeleton, _enumeration(skeleton, (STRONG, BOTH)), IDLE)
    *earlier, (start, end, ending) = list(sentences(skeleton))
    if (
        ending
        or not earlier
        or (
            not bisect_left(skeleton.offsets, start)
            and patterns.DECLARED.fullmatch(skeleton.text[start:end].strip(" "))
        )
    ):
        return skeleton
    every = (*patterns.VERDICTS, *patterns.VERDICTS_DENSE)
    verdict = any(pattern.search(skeleton.text, start, end) for pattern in every)
    return skeleton if verdict else set_aside(skeleton, [(start, end)], IDLE)


def without_refusals(skeleton: Skeleton) -> tuple[Skeleton, bool]:
    """Without what is mentioned in a clause that refuses, and whether one does."""
    english = patterns.REFUSAL.search(skeleton.text) is not None
    foreign = not english and _is_foreign(skeleton) and foreign_patterns.REFUSED.search(skeleton.text) is not None
    if not english and not foreign:
        return skeleton, False
    refusal = patterns.REFUSAL if english else foreign_patterns.REFUSED
    spans: list[Span] = []
    for start, end, _ in sentences(skeleton):
        begin = start
        for stop in [*(m.span() for m in patterns.CLAUSE_BREAK.finditer(skeleton.text, start, end)), (end, end)]:
            if refusal.search(skeleton.text, begin, stop[0]):
                spans.append((begin, stop[0]))
            begin = stop[1]
    # Beside a refusal only what is plainly an option counts: "I cannot tell. None of the options."
    spans += [(offset, offset + 1) for offset, mention in skeleton.at.items() if mention.alias]
    return set_aside(skeleton, spans, IDLE), bool(spans)


def _is_foreign(skeleton: Skeleton) -> bool:
    return bool(skeleton.spoken) or foreign_patterns.DENSE.search(skeleton.text) is not None


# Words in a picture may order an answer; orders to ignore instructions and "gold = C" are no answers either.
_QUOTED_ORDER = late_pattern(
    r"\b(?:says?|said|reads?|states?|written|text|sign|label|caption|note|instruct\w*|tells?|"
    r"asks?)\b[^\"\n]{0,60}\"([^\"\n]{8,400})\"",
    re.IGNORECASE,
)
_ORDER = late_pattern(r"\b(?:answer|option|choose|select|ignore|respond|output|pick|reply)\b", re.IGNORECASE)
_GRADER = late_pattern(
    r"[^.!?\n]{0,80}\b(?:ignore|disregard|forget)\b[^.!?\n]{0,40}\b(?:instructions?|prompts?|rules|"
    r"guidelines)\b[^.!?\n]{0,300}"
    r"|\b(?:gold|ground[_ ]truth|expected|target|correct_answer)\s?=\s?\S+",
    re.IGNORECASE,
)


def without_quoted_orders(text: str) -> str:
    """The text with such words blanked, of the same length."""
    if '"' in text:
        text = _QUOTED_ORDER.sub(_blank_order, text)
    if "=" in text or "nstruction" in text or "prompt" in text or "rules" in text or "guideline" in text:
        return _GRADER.sub(lambda found: " " * len(found[0]), text)
    return text


def _blank_order(match: re.Match[str]) -> str:
    if not _ORDER.search(match[1]):
        return match[0]
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + " " * (end - start) + match[0][end:]
