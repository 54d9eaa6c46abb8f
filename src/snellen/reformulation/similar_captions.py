"""Captions that nearly fit a picture: those of pictures with distinct but similar objects (ReForm-Eval A.6).

Captions are compared by the object categories that they name; `coco_words.toml` lists the other words that
captions use for COCO's categories (a person may be a man, a woman or a surfer).
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Generic, TypeVar

from snellen.reformulation.answer_equality import same_answer

KeyT = TypeVar("KeyT", bound=Hashable)
Categories = frozenset[str]
"""Object categories, by name."""

_IRREGULAR = {"knife": "knives", "mouse": "mice", "person": "people", "child": "children"}


@cache
def coco_words() -> dict[str, tuple[str, ...]]:
    """For each COCO category the other words that captions use for it."""
    content = tomllib.loads(files("snellen.reformulation").joinpath("coco_words.toml").read_text("utf-8"))
    return {name: tuple(words) for name, words in content.items()}


def category_finder(names: Iterable[str], words: Mapping[str, Sequence[str]]) -> Callable[[str], Categories]:
    """A function from a caption to the categories it names, by their own names or other `words` for them.

    Matches whole words in any case, singular or plural; a longer name hides a shorter one inside it (a hot
    dog is not a dog).
    """
    names_by_form = {
        form: name for name in names for word in (name, *words.get(name, ())) for form in _forms(word.casefold())
    }
    longest_first = sorted(names_by_form, key=lambda form: (-len(form), form))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
    return lambda caption: frozenset(names_by_form[form] for form in pattern.findall(caption.casefold()))


def _forms(word: str) -> tuple[str, ...]:
    """A word and its plural."""
    head, _, noun = word.rpartition(" ")
    if noun in _IRREGULAR:
        plural = _IRREGULAR[noun]
    elif noun.endswith("man"):
        plural = f"{noun[:-3]}men"
    elif noun.endswith(("s", "x", "ch", "sh")):
        plural = f"{noun}es"
    elif noun.endswith("y") and noun[-2:-1] not in "aeiou":
        plural = f"{noun[:-1]}ies"
    else:
        plural = f"{noun}s"
    return word, f"{head} {plural}".strip()


def overlap(first: Categories, second: Categories) -> float:
    """Share of the categories of both that are common to both (Jaccard), in [0, 1]; 0 when there are none."""
    common = len(first & second)
    union = len(first) + len(second) - common
    return common / union if union else 0.0


class SimilarPictures(Generic[KeyT]):
    """Finds pictures similar to a picture, by the categories they show.

    A neighbour must show something that the picture does not, since otherwise all its captions might be right.
    Pictures with the same categories are compared once, as bit sets; `overlap` computes the same, more slowly.
    """

    def __init__(self, categories: Mapping[KeyT, Categories]) -> None:
        places: dict[str, int] = {}
        self._alike: dict[int, list[KeyT]] = {}
        self._bits: dict[KeyT, int] = {}
        for key, names in categories.items():
            bits = sum(1 << places.setdefault(name, len(places)) for name in names)
            self._alike.setdefault(bits, []).append(key)
            self._bits[key] = bits
        self._near: dict[tuple[int, int], list[list[KeyT]]] = {}

    def nearest(self, key: KeyT, count: int, rng: random.Random) -> list[KeyT]:
        """Up to `count` neighbours, the most similar first; of equally similar ones `rng` draws."""
        neighbours: list[KeyT] = []
        for equals in self._tiers(self._bits[key], count):
            neighbours += rng.sample(equals, min(len(equals), count - len(neighbours)))
        return neighbours

    def _tiers(self, own_bits: int, count: int) -> list[list[KeyT]]:
        """Lists of equally similar neighbours, the most similar first; at least `count` neighbours where there are."""
        if (neighbours := self._near.get((own_bits, count))) is None:
            by_overlap: dict[float, list[int]] = {}
            for bits in self._alike:
                if bits & ~own_bits:
                    likeness = (own_bits & bits).bit_count() / (own_bits | bits).bit_count()
                    by_overlap.setdefault(likeness, []).append(bits)
            neighbours, missing = [], count
            for likeness in sorted(by_overlap, reverse=True):
                if missing <= 0:
                    break
                neighbours.append([key for bits in by_overlap[likeness] for key in self._alike[bits]])
                missing -= len(neighbours[-1])
            self._near[own_bits, count] = neighbours
        return neighbours


def most_similar(gold: Categories, captions: Iterable[tuple[str, Categories]], categories: Categories) -> str | None:
    """Among another picture's captions the one most similar to the gold by the categories named; None without any.

    `categories` is what the gold's picture shows. A caption that names nothing else may be true of that picture
    too, and is chosen only when the other picture has no better one.
    """
    ranked = [(bool(named - categories), overlap(gold, named), caption) for caption, named in captions]
    if not ranked:
        return None
    return max(ranked, key=lambda entry: entry[:2])[2]


def differs_from_all(caption: str, own_captions: Collection[str]) -> bool:
    """Whether a caption differs in meaning from each of a picture's own."""
    return not any(same_answer(caption, own_caption) for own_caption in own_captions)
