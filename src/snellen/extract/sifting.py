"""Sets aside the mentions that assert nothing: repeated lists, questions, hypotheses, denials, refusals."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise

from snellen.extract import patterns
from snellen.extract.mentions import Mention, Skeleton
from snellen.extract.phrases import BARE, BOTH, CONFLICT, DENIED, DENIES_TEXT, IDLE, NO_WORDS, NOT_ONLY, STRONG, TEXT


def sift(whole: Skeleton) -> tuple[Skeleton, bool, bool]:
    """What is still asserted, whether the option list was repeated, whether something was refused."""
    listless = without_lists(whole)
    asserted = deny(without_hypotheses(without_questions(listless)))
    unrefused, refused = without_refusals(asserted)
    return unrefused, listless is not whole, refused


def mentioned(said: Skeleton, start: int = 0, end: int | None = None) -> list[int]:
    """Offsets of the mentions that still assert something."""
    first = bisect_left(said.offsets, start)
    last = len(said.offsets) if end is None else bisect_left(said.offsets, end)
    return [offset for offset in said.offsets[first:last] if said.text[offset] <= CONFLICT]


def sentences(said: Skeleton) -> Iterator[tuple[int, int, str]]:
    """Start, end and ending of each sentence."""
    start = 0
    for stop in patterns.SENTENCE_END.finditer(said.text):
        yield start, stop.start(), stop[0][0]
        start = stop.end()
    yield start, len(said.text), ""


def group_at(said: Skeleton, first: int) -> list[Mention]:
    """The mentions coordinated with the one at `first`: "A or B", "B, dog"."""
    found = patterns.GROUP.match(said.text, first)
    offsets = mentioned(said, first, found.end() if found else first + 1)
    group = [said.at[first]]
    for before, here in pairwise(offsets):
        comma = said.text[before + 1 : here].strip() in ("", ",", ";", "-")
        if comma and said.at[here].kind == TEXT and not patterns.END.match(said.text, here + 1):
            break  # "B, a cat would be smaller": a new clause
        group.append(said.at[here])
    return group


Span = tuple[int, int]


def _aside(said: Skeleton, spans: list[Span], placeholder: str) -> Skeleton:
    """The skeleton with all mentions inside some spans replaced."""
    if not spans:
        return said
    pieces, last = [], 0
    for start, end in sorted(spans):
        begin = max(start, last)
        if begin < end:
            pieces += [said.text[last:begin], patterns.ASIDE.sub(placeholder, said.text[begin:end])]
            last = end
    return said._replace(text="".join([*pieces, said.text[last:]]))


def without_lists(said: Skeleton) -> Skeleton:
    """Without repetitions of the option list: all options, or all but one, in the order shown."""
    places = max((max(mention.places) for mention in said.at.values()), default=0) + 1
    spans: list[Span] = []
    run: list[int] = []
    for offset in [*mentioned(said), -1]:
        if run and not (offset >= 0 and _continues(said, run[-1], offset)):
            if _is_list(said, run, places):
                spans.append((run[0], run[-1] + 1))
            run = []
        if offset >= 0 and len(said.at[offset].places) == 1:
            run = [*run, offset]
    return _aside(said, spans, IDLE)


def _continues(said: Skeleton, last: int, offset: int) -> bool:
    before, here = said.at[last], said.at[offset]
    same = before.kind == here.kind or {before.kind, here.kind} <= {BARE, STRONG}
    follows = here.places == (before.places[0] + 1,)
    return same and follows and bool(patterns.LIST_GAP.fullmatch(said.text, last + 1, offset))


def _is_list(said: Skeleton, run: list[int], places: int) -> bool:
    first, last = said.at[run[0]], said.at[run[-1]]
    enough = len(run) >= max(2, places - (first.kind == BOTH and places > 2))
    whole = first.places[0] <= 1 and last.places[0] >= places - 1
    return enough and whole and patterns.LIST_END.match(said.text, run[-1] + 1) is not None


def without_questions(said: Skeleton) -> Skeleton:
    """A question asserts nothing, unless nothing but questions was said; answered with no, it is a denial."""
    if "?" not in said.text:
        return said
    every = list(sentences(said))
    asked = [
        number for number, (start, end, ending) in enumerate(every) if ending == "?" and mentioned(said, start, end)
    ]
    outside = len(mentioned(said)) - sum(len(mentioned(said, *every[number][:2])) for number in asked)
    denied: list[Span] = []
    idle: list[Span] = []
    for number in asked:
        follower = (
            said.text[every[number + 1][0] : every[number + 1][1]].split(" ", 1)[0] if number + 1 < len(every) else ""
        )
        if follower in NO_WORDS:
            denied.append(every[number][:2])
        elif outside:
            idle.append(every[number][:2])
    return _aside(_aside(said, denied, DENIED), idle, IDLE)


def without_hypotheses(said: Skeleton) -> Skeleton:
    """ "If it were smaller it would be X", "although it looks like X" say nothing; "if I had to choose, X" does."""
    spans = [found.span() for found in patterns.CONCESSION.finditer(said.text)]
    if "if " in said.text:
        spans += [(start, end) for start, end, _ in sentences(said) if _hypothesis(said.text[start:end])]
    return _aside(said, spans, IDLE)


def _hypothesis(sentence: str) -> bool:
    return bool(patterns.HYPOTHESIS.search(sentence)) and not patterns.FORCED_CHOICE.search(sentence)


def deny(said: Skeleton) -> Skeleton:
    """Mentions that are denied, before or behind: "not A", "A and B are wrong"."""
    for pattern in (patterns.PRE_DENIAL, patterns.PRE_DENIAL_CJK, patterns.SO_IS_DENIED, patterns.POST_DENIAL_CJK):
        said = _aside(said, [found.span("group") for found in pattern.finditer(said.text)], DENIED)
    spans: list[Span] = []
    for found in patterns.POST_DENIAL.finditer(said.text):
        counts: Callable[[Mention], bool] = partial(_denied_by, (found["soft"] or "").strip())
        inside = mentioned(said, *found.span("group"))
        spans += [(o, o + 1) for o in inside if found["soft"] is None or counts(said.at[o])]
    return _aside(said, spans, DENIED)


def _denied_by(word: str, mention: Mention) -> bool:
    """ "B is not ..." denies B; "the dog is not moving" says nothing against the dog."""
    return word not in NOT_ONLY and (mention.kind != TEXT or word in DENIES_TEXT)


def without_refusals(said: Skeleton) -> tuple[Skeleton, bool]:
    """Without what is mentioned in a clause that refuses, and whether one does."""
    spans: list[Span] = []
    for start, end, _ in sentences(said):
        begin = start
        for stop in [*(m.span() for m in patterns.CLAUSE_BREAK.finditer(said.text, start, end)), (end, end)]:
            if patterns.REFUSAL.search(said.text, begin, stop[0]):
                spans.append((begin, stop[0]))
            begin = stop[1]
    return _aside(said, spans, IDLE), bool(spans)
