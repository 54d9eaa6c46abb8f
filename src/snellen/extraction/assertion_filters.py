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
        listed = group[0].kind == TEXT and here != offsets[-1]
        comma = not listed and said.text[before + 1 : here].strip() in ("", ",", ";", "-")
        if comma and said.at[here].kind == TEXT and not patterns.END.match(said.text, here + 1):
            break  # "B, a cat would be smaller": a new clause
        group.append(said.at[here])
    return group


Span = tuple[int, int]


def set_aside(said: Skeleton, spans: list[Span], placeholder: str) -> Skeleton:
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
    places = said.offered
    spans: list[Span] = []
    run: list[int] = []
    for offset in [*mentioned(said), -1]:
        if run and not (offset >= 0 and _continues(said, run[-1], offset)):
            if _is_list(said, run, places, restarts=offset >= 0 and said.at[offset].places == said.at[run[0]].places):
                spans.append((run[0], run[-1] + 1))
            run = []
        if offset >= 0 and len(said.at[offset].places) == 1:
            run = [*run, offset]
    return set_aside(said, spans + _enumeration(said) + _shares(said), IDLE)


def _shares(said: Skeleton) -> list[Span]:
    """Marks that are given a probability each."""
    if "%" not in said.words and "0" not in said.text:
        return []
    shared = [found.span("x") for found in patterns.SHARE.finditer(said.text)]
    return shared if len({said.at[start].places for start, _ in shared}) > 1 else []


def _enumeration(said: Skeleton, kinds: tuple[str, ...] = (STRONG,)) -> list[Span]:
    """Marks that number the lines of a reply from the first on: steps, or a word about each option."""
    begins = [offset for offset in mentioned(said) if said.text[offset] in kinds and _begins_line(said, offset)]
    counted = [said.at[offset].places for offset in begins]
    if len(begins) < 2 or counted != [(place,) for place in range(len(counted))]:
        return []
    return [(offset, offset + 1) for offset in begins]


def _begins_line(said: Skeleton, offset: int) -> bool:
    return offset == 0 or said.text[max(0, offset - 2) : offset] == "\n "


def _continues(said: Skeleton, last: int, offset: int) -> bool:
    before, here = said.at[last], said.at[offset]
    same = before.kind == here.kind or {before.kind, here.kind} <= {BARE, STRONG}
    follows = here.places == (before.places[0] + 1,)
    return same and follows and bool(patterns.LIST_GAP.fullmatch(said.text, last + 1, offset))


def _is_list(said: Skeleton, run: list[int], places: int, *, restarts: bool) -> bool:
    first, last = said.at[run[0]], said.at[run[-1]]
    enough = len(run) >= max(2, places - (first.kind == BOTH and places > 2))
    whole = first.places[0] <= 1 and last.places[0] >= places - 1
    return enough and whole and (restarts or patterns.LIST_END.match(said.text, run[-1] + 1) is not None)


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
    idle = [found.span() for found in patterns.ASKS.finditer(said.text)]
    for number in asked:
        follower = (
            said.text[every[number + 1][0] : every[number + 1][1]].split(" ", 1)[0] if number + 1 < len(every) else ""
        )
        if follower in NO_WORDS:
            denied.append(every[number][:2])
        elif outside:
            idle.append(every[number][:2])
    return set_aside(set_aside(said, denied, DENIED), idle, IDLE)


def without_hypotheses(said: Skeleton) -> Skeleton:
    """ "If it were smaller it would be X", "although it looks like X" say nothing; "if I had to choose, X" does."""
    spans: list[Span] = []
    for pattern, telling in patterns.UNASSERTED:
        if not telling.isdisjoint(said.words):
            spans += [found.span(bool(pattern.groups)) for found in pattern.finditer(said.text)]
    if "if " in said.text:
        for start, end, _ in sentences(said):
            if _hypothesis(said.text[start:end]):
                begun = said.text.find("if ", start, end)
                settled = patterns.SETTLED.search(said.text, max(start, begun), end)
                spans.append((start, settled.start() if settled else end))
    if not patterns.INVERTING.isdisjoint(said.words):
        spans += [
            (start, end)
            for start, end, _ in sentences(said)
            if patterns.INVERTED.search(said.text, start, end) and not patterns.SETTLED.search(said.text, start, end)
        ]
    return set_aside(said, spans, IDLE)


def _hypothesis(sentence: str) -> bool:
    return bool(patterns.HYPOTHESIS.search(sentence)) and not patterns.FORCED_CHOICE.search(sentence)


def without_denials(said: Skeleton, asked_of: frozenset[str] = frozenset()) -> Skeleton:
    """Mentions that are denied, before or behind: "not A", "A and B are wrong"."""
    kept = {found.start("x") for found in patterns.BETTER_THAN.finditer(said.text)} if "than" in said.words else set()
    denied = [found.span("group") for found in patterns.PRE_DENIAL.finditer(said.text)]
    said = set_aside(said, [span for span in denied if span[0] not in kept] if kept else denied, DENIED)
    dense = foreign_patterns.DENSE.search(said.text) is not None
    for pattern, telling in patterns.DENIALS:
        if (dense and not telling) or not telling.isdisjoint(said.words):
            said = set_aside(said, [found.span("group") for found in pattern.finditer(said.text)], DENIED)
    if DENIED in said.text:
        said = set_aside(said, [found.span("group") for found in patterns.DENIED_TOO.finditer(said.text)], DENIED)
    spans: list[Span] = []
    for found in patterns.POST_DENIAL.finditer(said.text):
        word = "visible" if _APPEARS.search(found[0]) else (found["soft"] or "").strip()
        counts: Callable[[Mention], bool] = (
            partial(_denied_by, word) if asked_of.isdisjoint(_stems_of(found[0])) else lambda _: True
        )
        inside = mentioned(said, *found.span("group"))
        spans += [(o, o + 1) for o in inside if found["soft"] is None or counts(said.at[o])]
    return set_aside(said, spans, DENIED)


def _stems_of(text: str) -> list[str]:
    return [word.removesuffix("n't")[:_STEM] for word in text.split()]


_STEM = 4
_APPEARS = re.compile(r" (?:appear|seem to be)(?: |$)")


def _denied_by(word: str, mention: Mention) -> bool:
    """ "B is not ..." denies B; "the dog is not moving" says nothing against the dog."""
    return word not in NOT_ONLY and (mention.kind != TEXT or not word or word in DENIES_TEXT)


def without_foreign_denials(said: Skeleton) -> Skeleton:
    """Without what is denied, or only supposed, in another language than English."""
    denials: tuple[re.Pattern[str], ...] = ()
    if foreign_patterns.DENSE.search(said.text):
        denials = (*foreign_patterns.DENSE_DENIALS, foreign_patterns.DENSE_NOT_DONE)
        said = set_aside(said, [m.span() for m in foreign_patterns.DENSE_HYPOTHESIS.finditer(said.text)], IDLE)
    if said.spoken:
        foreign = foreign_patterns.foreign_patterns(said.spoken)
        denials = (*denials, *foreign.denials, *([foreign_patterns.KOREAN_NOT_DONE] if "ko" in said.spoken else []))
        said = set_aside(said, [found.span() for found in foreign.hypothesis.finditer(said.text)], IDLE)
    for pattern in denials:
        said = set_aside(said, [found.span("group") for found in pattern.finditer(said.text)], DENIED)
    return said


def without_marks_of_wrong(said: Skeleton) -> Skeleton:
    """Without what a cross is set behind: "A ✗, B ✗"; of a line with a tick too, only what the cross is nearest to."""
    if patterns.CROSSES.isdisjoint(said.words):
        return said
    return set_aside(said, [found.span("group") for found in patterns.CROSSED.finditer(said.text)], DENIED)


def without_fragment(said: Skeleton) -> Skeleton:
    """Of a cut reply, without the mentions in its last, unfinished sentence; a reply of one sentence is left whole."""
    said = set_aside(said, _enumeration(said, (STRONG, BOTH)), IDLE)
    *earlier, (start, end, ending) = list(sentences(said))
    if (
        ending
        or not earlier
        or (not bisect_left(said.offsets, start) and patterns.DECLARED.fullmatch(said.text[start:end].strip(" ")))
    ):
        return said
    every = (*patterns.VERDICTS, *patterns.VERDICTS_DENSE)
    verdict = any(pattern.search(said.text, start, end) for pattern in every)
    return said if verdict else set_aside(said, [(start, end)], IDLE)


def without_refusals(said: Skeleton) -> tuple[Skeleton, bool]:
    """Without what is mentioned in a clause that refuses, and whether one does."""
    english = patterns.REFUSAL.search(said.text) is not None
    foreign = not english and _is_foreign(said) and foreign_patterns.REFUSED.search(said.text) is not None
    if not english and not foreign:
        return said, False
    refusal = patterns.REFUSAL if english else foreign_patterns.REFUSED
    spans: list[Span] = []
    for start, end, _ in sentences(said):
        begin = start
        for stop in [*(m.span() for m in patterns.CLAUSE_BREAK.finditer(said.text, start, end)), (end, end)]:
            if refusal.search(said.text, begin, stop[0]):
                spans.append((begin, stop[0]))
            begin = stop[1]
    # Beside a refusal only what is plainly an option counts: "I cannot tell. None of the options."
    spans += [(offset, offset + 1) for offset, mention in said.at.items() if mention.alias]
    return set_aside(said, spans, IDLE), bool(spans)


def _is_foreign(said: Skeleton) -> bool:
    return bool(said.spoken) or foreign_patterns.DENSE.search(said.text) is not None


# Words in a picture may order an answer; orders to ignore instructions and "gold = C" are no answers either.
_QUOTED_ORDER = re.compile(
    r"\b(?:says?|said|reads?|states?|written|text|sign|label|caption|note|instruct\w*|tells?|"
    r"asks?)\b[^\"\n]{0,60}\"([^\"\n]{8,400})\"",
    re.IGNORECASE,
)
_ORDER = re.compile(r"\b(?:answer|option|choose|select|ignore|respond|output|pick|reply)\b", re.IGNORECASE)
_GRADER = re.compile(
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


def _blank_order(found: re.Match[str]) -> str:
    if not _ORDER.search(found[1]):
        return found[0]
    start, end = found.start(1) - found.start(), found.end(1) - found.start()
    return found[0][:start] + " " * (end - start) + found[0][end:]
