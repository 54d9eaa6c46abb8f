"""Questions that nothing tells apart but their answers: a model is asked the same, and no reply can be right for all.

What a model is shown of a question are the pictures, the context, the question with its options, and in a dialogue what
was said before. Where all of this is equal and the golds are not, one reply would serve several questions. That golds
are hidden says nothing of a question about a picture; hidden ones without a picture count as different.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from snellen.records import Answer, IndistinguishableQuestion, Sample

_encode = msgspec.json.Encoder().encode


class IndistinguishableFinder:
    """Takes note of questions one by one, in 24 bytes each, and finds those that nothing tells apart at the end."""

    def __init__(self) -> None:
        self._shown, self._golds, self._samples = array("Q"), array("Q"), array("Q")

    def note(self, sample: Sample, golds: Sequence[Answer], replies: Sequence[str]) -> None:
        """Take note of a sample's questions; `replies` is the published history of a dialogue."""
        by_turn = {gold.turn: gold for gold in golds}
        number = self._samples[-1] + 1 if self._samples else 0
        shown = _digest(([image.digest for image in sample.images], sample.context))
        for turn, question in enumerate(sample.rounds):
            shown = _digest((shown, question, replies[turn - 1] if replies and turn else ""))
            self._shown.append(shown)
            self._golds.append(_gold(sample, turn, by_turn.get(turn)))
            self._samples.append(number)

    def found(self, ids: Sequence[str]) -> Iterator[IndistinguishableQuestion]:
        """The questions with equals of another gold, in order; `ids` are those of the samples in the order noted."""
        groups: dict[int, list[int]] = defaultdict(list)
        repeated = self._repeated()
        for place, shown in enumerate(self._shown if repeated else ()):
            if shown in repeated:
                groups[shown].append(place)
        alike = [places for places in groups.values() if len({self._golds[place] for place in places}) > 1]
        first = {number: place for place, number in reversed(list(enumerate(self._samples)))} if alike else {}
        for group, places in enumerate(alike):
            kinds: dict[int, int] = {}
            for place in places:
                number = self._samples[place]
                kind = kinds.setdefault(self._golds[place], len(kinds))
                yield IndistinguishableQuestion(ids[number], place - first[number], group, kind)

    def _repeated(self) -> frozenset[int]:
        """What is shown of more than one question."""
        return frozenset(shown for shown, following in pairwise(sorted(self._shown)) if shown == following)


def _gold(sample: Sample, turn: int, gold: Answer | None) -> int:
    if gold is None:
        return _digest(None if sample.images else (sample.id, turn))
    return _digest((sorted(gold.options), sorted(gold.texts)))


def _digest(content: object) -> int:
    """A number of 64 bits; in a million questions two differing ones are taken for one in one build of 40 million."""
    return int.from_bytes(hashlib.blake2b(_encode(content), digest_size=8).digest())
