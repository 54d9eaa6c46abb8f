"""What a reply says of options in other words: by meaning, by spelling, and in the sentence that answers the question.

The sentence that answers is the one with most of the question's words; a word that stands in the sentence before it
counts by half, since "it" may take its place.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from snellen.common.late import late_pattern
from snellen.errors import DataError
from snellen.extraction.inflections import common_beginning, english_stem
from snellen.extraction.option_index import OptionIndex
from snellen.extraction.phrases import FUNCTION_WORDS, PREPOSITIONS
from snellen.extraction.propositions import SMALL, content

Array = np.ndarray[Any, Any]
TABLE = "word_vectors.npz"


@contextmanager
def packaged_arrays(name: str) -> Iterator[Any]:
    """The arrays of a file that comes with the package. Raises DataError where it was left out."""
    path = files("snellen.extraction").joinpath(name)
    if not path.is_file():
        raise DataError(
            f"{path}: this file of Snellen is missing, without which no reply is weighed; install Snellen again"
        )
    with path.open("rb") as file, np.load(file) as held:
        yield held


@lru_cache(maxsize=1)
def _table() -> tuple[dict[str, int], Array]:
    """The row of each word, and the rows: [words, dimensions], the last of them zero, for words without a vector."""
    with packaged_arrays(TABLE) as held:
        words, vectors = held["words"].tobytes().decode("ascii").split("\n"), held["vectors"]
    rows = np.concatenate([vectors, np.zeros_like(vectors[:1])])
    return {word: row for row, word in enumerate(words)}, rows


@lru_cache(maxsize=8192)
def _meaning(word: str) -> Array | None:
    """A word's unit vector: [dimensions]; None for a word without one."""
    row_of, rows = _table()
    if word not in row_of:
        return None
    vector = rows[row_of[word]].astype(np.float32)
    return np.asarray(vector / np.maximum(np.linalg.norm(vector[None], axis=1), 1.0))


def _meanings(words: Sequence[str]) -> Array:
    """The vectors of words: [words, dimensions]; zero for words without one."""
    vectors = np.zeros((len(words), _table()[1].shape[1]), np.float32)
    for place, word in enumerate(words):
        vector = _meaning(word)
        if vector is not None:
            vectors[place] = vector
    return vectors


def nearness(words: Sequence[str], others: Sequence[str]) -> Array:
    """The cosines of all pairs of two lists of words in small letters: [words, others]; equal words are at 1, and words
    without a vector at 0."""
    cosines = _meanings(words) @ _meanings(others).T
    places: dict[str, list[int]] = {}
    for place, word in enumerate(others):
        places.setdefault(word, []).append(place)
    for place, word in enumerate(words):
        cosines[place, places.get(word, [])] = 1.0
    return np.asarray(cosines)


# --- likeness ---------------------------------------------------------------------------------------------------------


_END = late_pattern(r"[.!?](?=\s|$)|[\n。！？]")
_WORD = late_pattern(r"[^\W_]+")
_DENSE = late_pattern("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]")
_MOST_WORDS, _MOST_LETTERS, _MOST_SENTENCES, _MOST_ASKED = 400, 12, 60, 40
_FARTHEST = 0.45
"""A cosine below it says nothing."""
_SHORTEST_BEGINNING = 4
_IDLE = SMALL | FUNCTION_WORDS | PREPOSITIONS


class Sentences(NamedTuple):
    """A reply in sentences, and how near each comes to the question."""

    spans: tuple[tuple[int, int], ...]
    covered: tuple[float, ...]
    """Of each sentence how much of the question's words it has, as such or in words near to them."""
    as_such: tuple[float, ...]
    """... and how much of them as such alone."""
    likened: tuple[float, ...]
    """Of each sentence how near a word that the question does not have comes to one that the sentence lacks: the
    girl's umbrella where the boy's is asked for."""
    answering: int
    """The sentence that has most of them; of several the last."""

    def at(self, place: int) -> int:
        """The sentence that holds a place in the text."""
        return max(0, bisect_right(self.spans, (place, sys.maxsize)) - 1)


def in_sentences(text: str, question: str, options: OptionIndex) -> Sentences:
    """The sentences of a text in small letters."""
    ends = [match.end() for match in _END.finditer(text)]
    spans = [
        (a, b) for a, b in zip([0, *ends], [*ends, len(text)], strict=True) if text[a:b].strip()
    ] or [(0, 0)]
    spans = [
        *spans[:_MOST_SENTENCES],
        *([(spans[_MOST_SENTENCES][0], len(text))] if spans[_MOST_SENTENCES:] else []),
    ]
    offered = frozenset(word for words in options.words for word in words)
    stems = frozenset(content(question)) - frozenset(
        stem for word in offered for stem in content(word)
    )
    words = [
        word
        for word in dict.fromkeys(_WORD.findall(question))
        if word not in _IDLE and word not in offered
    ]
    words = words[:_MOST_ASKED]
    spoken = [match for match in _WORD.finditer(text) if match[0] not in _IDLE][:_MOST_WORDS]
    near = _near(words, [match[0] for match in spoken])
    numbers: dict[str, int] = {}
    asked, said = (
        np.array([numbers.setdefault(english_stem(word), len(numbers)) for word in some], dtype=int)
        for some in (words, [match[0] for match in spoken])
    )
    same = asked[:, None] == said
    new = np.array([match[0] not in offered for match in spoken], dtype=bool) & ~same.any(axis=0)
    sentence = (
        np.searchsorted(
            [start for start, _ in spans], [match.start() for match in spoken], side="right"
        )
        - 1
    )
    covered: list[float] = []
    as_such, likened = [0.0] * len(spans), [0.0] * len(spans)
    here = np.zeros((len(near), len(spans)))
    for number in np.unique(sentence) if words else ():
        inside = sentence == number
        here[:, number] = near[:, inside].max(axis=1)
        has = same[:, inside].any(axis=1)
        as_such[number] = float(has.mean())
        likened[number] = float(near[~has][:, inside & new].max(initial=0.0))
    here[here < _FARTHEST] = 0.0
    with_before = np.maximum(here, np.hstack([np.zeros((len(near), 1)), here[:, :-1] / 2]))
    by_meaning = with_before.mean(axis=0).tolist() if len(near) else [0.0] * len(spans)
    stems_before = frozenset[str]()
    for (start, end), meant in zip(spans, by_meaning, strict=True):
        stems_here = stems.intersection(content(text[start:end])) if stems else stems
        by_stem = (len(stems_here) + len(stems_before - stems_here) / 2) / max(1, len(stems))
        covered.append(max(by_stem, meant))
        stems_before = stems_here
    answering = max(range(len(spans)), key=lambda number: (covered[number], number))
    return Sentences(tuple(spans), tuple(covered), tuple(as_such), tuple(likened), answering)


def likeness(
    text: str, question: str, options: OptionIndex, parts: Sentences
) -> list[Mapping[str, float]]:
    """Of each option how near the reply's words come to those that no other option has."""
    own = [_telling(options.words, place) for place in range(options.count)]
    every = [word for words in own for word in words]
    topic = frozenset(_WORD.findall(question))
    idle = _IDLE | topic
    spoken = [m for m in _WORD.finditer(text) if m[0] not in idle or m[0] in every][:_MOST_WORDS]
    near = _near(every, [match[0] for match in spoken])
    own_words = np.array([match[0] in every for match in spoken], dtype=bool)
    near[own_words & (near < 1.0)] = 0.0  # an option's own word speaks for no other
    at = np.array([match.start() for match in spoken], dtype=int)
    start, end = parts.spans[parts.answering]
    regions = {
        "anywhere": np.ones(len(spoken), dtype=bool),
        "where asked": (at >= start) & (at < end),
        "last": at >= parts.spans[-1][0],
        "first": at < parts.spans[0][1],
    }
    clues: list[dict[str, float]] = [{} for _ in own]
    worded = [place for place, words in enumerate(own) if words]
    lengths = np.array([len(own[place]) for place in worded])
    starts = np.cumsum(lengths) - lengths
    values = [0.0] * len(own)
    for name, inside in regions.items():
        if worded and spoken and (name == "anywhere" or len(parts.spans) > 1):
            values = [0.0] * len(own)
            most = near.max(axis=1, where=inside, initial=0.0)
            for place, mean in zip(
                worded, (np.add.reduceat(most, starts) / lengths).tolist(), strict=True
            ):
                values[place] = mean
        _put(clues, f"meant {name}", values)
    _put(clues, "letters anywhere", _letters(options, text))
    _put(clues, "letters where asked", _letters(options, text[start:end]))
    return list(clues)


def _put(clues: list[dict[str, float]], name: str, values: Sequence[float]) -> None:
    """A clue of each option, and by how much it is more than any other's."""
    second, most = sorted([0.0, *values])[-2:]
    for place, value in enumerate(values):
        clues[place] |= {name: value, f"{name} more": value - (second if value == most else most)}


def _telling(words: Sequence[Sequence[str]], place: int) -> list[str]:
    """The words of an option that no other has, else all of its own."""
    own = [word for word in words[place] if word not in _IDLE] or list(words[place])
    others = {word for rival, some in enumerate(words) if rival != place for word in some}
    return ([word for word in own if word not in others] or own)[:30]


def _near(words: Sequence[str], spoken: Sequence[str]) -> Array:
    """How near each two words are: the same 1, else by meaning, or by the share of the longer that both begin with."""
    if not words or not spoken:
        return np.zeros((len(words), len(spoken)))
    near = nearness(words, spoken).astype(np.float64)
    alike: dict[str, list[int]] = {}
    for place, word in enumerate(spoken):
        alike.setdefault(word[:_SHORTEST_BEGINNING], []).append(place)
    for row, word in enumerate(words):
        for place in (
            alike.get(word[:_SHORTEST_BEGINNING], ()) if len(word) >= _SHORTEST_BEGINNING else ()
        ):
            near[row, place] = max(
                near[row, place], _alike(word[:_MOST_LETTERS], spoken[place][:_MOST_LETTERS])
            )
    return near


def _alike(word: str, other: str) -> float:
    """The share of the longer of two words that both begin with."""
    return common_beginning(word, other) / max(len(word), len(other))


def _letters(options: OptionIndex, text: str) -> list[float]:
    """Of options in scripts whose words run together: the share of the letters of each alone that a text has."""
    if text.isascii():
        return [0.0] * options.count
    letters = [frozenset(_DENSE.findall(option)) for option in options.options]
    shares = []
    for place, own in enumerate(letters):
        telling = (
            own
            - frozenset[str]().union(
                *(some for rival, some in enumerate(letters) if rival != place)
            )
            or own
        )
        shares.append(sum(letter in text for letter in telling) / len(telling) if telling else 0.0)
    return shares
