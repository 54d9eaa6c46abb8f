"""What a skeleton says of each mention in so many words: the answer, a sentence of its own, denied."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from snellen.extraction import patterns
from snellen.extraction.option_mentions import Skeleton
from snellen.extraction.patterns import ASIAN, DENSE, DENSE_DENIALS, foreign_patterns
from snellen.extraction.phrases import CONFLICT


class Sentence(NamedTuple):
    start: int
    end: int
    ending: str
    """Its sign at the end, or nothing."""


class Statements(NamedTuple):
    """The sentences of a skeleton, and the offsets of the mentions of which it says something plainly."""

    sentences: tuple[Sentence, ...]
    stated: frozenset[int]
    """Behind "the answer is", before "is correct" and their like."""
    declared: frozenset[int]
    """The first of a sentence that is an option and words that say nothing."""
    leading: frozenset[int]
    """At the beginning of a sentence, before a comma or a reason."""
    denied: frozenset[int]
    ends: tuple[int, ...]
    """Where each sentence ends."""

    def around(self, offset: int) -> Sentence:
        """The sentence that holds an offset."""
        return self.sentences[min(bisect_left(self.ends, offset), len(self.sentences) - 1)]


def named(skeleton: Skeleton) -> list[int]:
    """Offsets of the mentions that may name an option."""
    return [offset for offset in skeleton.offsets if skeleton.text[offset] <= CONFLICT]


def statements(skeleton: Skeleton, *, judging: bool = True) -> Statements:
    """All that the patterns find; a mention may be of several kinds. `judging`: "B is correct" states B, which it does
    not where the question asks for what is wrong."""
    every = tuple(_sentences(skeleton.text))
    foreign = foreign_patterns(skeleton.spoken) if skeleton.spoken else None
    declared, leading = set[int](), set[int]()
    for start, end, _ in every:
        sentence = skeleton.text[start:end].strip(" ")
        begin = start + len(skeleton.text[start:end]) - len(skeleton.text[start:end].lstrip(" "))
        match = patterns.DECLARED.fullmatch(sentence) or (
            foreign.declared.fullmatch(sentence) if foreign else None
        )
        if match:
            declared.add(begin + match.start("group"))
        match = patterns.LEADING.match(sentence)
        if match:
            leading.add(begin + match.start("group"))
    every = every or (Sentence(0, len(skeleton.text), ""),)
    return Statements(
        every,
        frozenset(_stated(skeleton, judging)),
        frozenset(declared),
        frozenset(leading),
        frozenset(_denied(skeleton)),
        tuple(sentence.end for sentence in every),
    )


def _sentences(text: str) -> Iterator[Sentence]:
    start = 0
    for stop in patterns.SENTENCE_END.finditer(text):
        if text[start : stop.start()].strip():
            yield Sentence(start, stop.start(), stop[0][0])
        start = stop.end()
    if text[start:].strip():
        yield Sentence(start, len(text), "")


def _stated(skeleton: Skeleton, judging: bool) -> Iterator[int]:
    text = skeleton.text
    foreign = foreign_patterns(skeleton.spoken) if skeleton.spoken else None
    dense = ASIAN.search(text) is not None
    before = (
        *patterns.VERDICTS,
        *(foreign.verdicts if foreign else ()),
        *(patterns.VERDICTS_DENSE if dense else ()),
    )
    for pattern in before:
        for match in pattern.finditer(text):
            offset = match.start("x")
            ended = patterns.END.match(text, offset + 1) or patterns.KOREAN_END.match(
                text, offset + 1
            )
            if ended or not skeleton.at[offset].soft:
                yield offset
    if not judging:
        return
    behind = [patterns.POST_VERDICT, *([foreign.post_verdict] if foreign else [])]
    for pattern in [*behind, *([patterns.POST_VERDICT_CJK] if dense else [])]:
        yield from (match.start("group") for match in pattern.finditer(text))


def _denied(skeleton: Skeleton) -> Iterator[int]:
    text = skeleton.text
    every: list[re.Pattern[str]] = [patterns.PRE_DENIAL, patterns.POST_DENIAL]
    if DENSE.search(text):
        every += [patterns.PRE_DENIAL_CJK, patterns.POST_DENIAL_CJK, *DENSE_DENIALS]
    if skeleton.spoken:
        every += foreign_patterns(skeleton.spoken).denials
    for pattern in every:
        for match in pattern.finditer(text):
            first, last = (bisect_left(skeleton.offsets, at) for at in match.span("group"))
            yield from skeleton.offsets[first:last]
