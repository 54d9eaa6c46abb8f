"""MSCOCO's captions against pictures: does this one match (itm), which one fits (its)? (ReForm-Eval A.6)

Reads `captions_val2017.json`, `instances_val2017.json` and the folder `val2017` of the COCO site. Every
caption of the split is a question. What does not fit comes from pictures with distinct but similar objects:
of each the caption that is most similar to the right one by the objects it names.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.readers.coco_instances import CocoObjects
from snellen.readers.wording import plural
from snellen.reformulation.answer_equality import same_answer
from snellen.suites.reform_eval import wording
from snellen.suites.reform_eval.readers.coco import CocoCaption, read_captions, read_objects

NEIGHBOURS = 12
"""Similar pictures that offer a caption each; more than the options need, as some captions say the same."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["itm", "its"]
    split: str = "val2017"


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per caption, in the order of the pictures."""
    chosen = read_params(params, Params)
    objects = read_objects(folder, chosen.split)
    captions = read_captions(folder, chosen.split)
    pairs = _Pairs(objects, captions)
    for image, picture_captions in captions.items():
        if picture_captions and image not in objects.images:
            raise DataError(
                f"{picture_captions[0][0]}: the image {image} is not among those of instances_{chosen.split}.json"
            )
        for where, caption in picture_captions:
            yield (_matching if chosen.task == "itm" else _selection)(pairs, caption, where)


class _Pairs:
    """Pictures with what they show, captions with what they name, and which captions nearly fit a picture."""

    def __init__(self, objects: CocoObjects, captions: dict[int, list[tuple[str, CocoCaption]]]) -> None:
        name = category_finder(objects.names(), coco_words())
        self.pictures = objects.images
        self.own = {image: [caption.caption.strip() for _, caption in texts] for image, texts in captions.items()}
        self._named = {image: [(text, name(text)) for text in texts] for image, texts in self.own.items()}
        self._shown = {
            image: frozenset(map(objects.name, objects.present(image))) for image, texts in self.own.items() if texts
        }
        self._neighbours = SimilarPictures(self._shown)
        self._near: dict[int, list[int]] = {}
        self._name = name

    def nearly_right(self, caption: CocoCaption) -> tuple[str, ...]:
        """A caption of each similar picture, the most similar picture first."""
        image = caption.image_id
        if image not in self._near:
            rng = rng_for("coco-pairs", image, "neighbours")
            self._near[image] = self._neighbours.nearest(image, NEIGHBOURS, rng)
        gold: Categories = self._name(caption.caption)
        objects = self._shown[image]
        return tuple(
            text for neighbour in self._near[image] if (text := most_similar(gold, self._named[neighbour], objects))
        )


def _matching(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    """Yes for the picture's own caption, no for one that nearly fits; half of each."""
    gold = rng_for("coco-pairs", caption.id, "matches").randrange(2)
    text: str | None = caption.caption.strip()
    if gold:
        picture_captions = pairs.own[caption.image_id]
        text = next((near for near in pairs.nearly_right(caption) if differs_from_all(near, picture_captions)), None)
    if text is None:
        raise DataError(f"{where}: no picture is similar, so no caption nearly fits; is the split whole?")
    question = QuestionDraft(wording.matching_question(text), options=wording.MATCHING_OPTIONS, gold=(gold,))
    return _draft(pairs, caption, where, question, answer_tags={"answer": question.options[gold]})


def _selection(pairs: _Pairs, caption: CocoCaption, where: str) -> Draft:
    tiers = tuple((text,) for text in pairs.nearly_right(caption))
    gold = caption.caption.strip()
    further = tuple(text for text in pairs.own[caption.image_id] if text != gold)
    question = QuestionDraft(wording.TEXT_QUESTION, texts=(gold, *further), distractors=DistractorSpec(tiers=tiers))
    return _draft(pairs, caption, where, question, answer_tags={})


def _draft(
    pairs: _Pairs, caption: CocoCaption, where: str, question: QuestionDraft, answer_tags: dict[str, str]
) -> Draft:
    return Draft(
        id=str(caption.id),
        rounds=(question,),
        images=(pairs.pictures[caption.image_id],),
        where=where,
        group=str(caption.image_id),
        answer_tags=answer_tags,
        stratum=answer_tags.get("answer", ""),
    )


# --- captions that nearly fit: those of pictures with distinct but similar objects (ReForm-Eval A.6) ------------------
# Captions are compared by the object categories that they name; `coco_words.toml` lists the other words that
# captions use for COCO's categories (a person may be a man, a woman or a surfer).


KeyT = TypeVar("KeyT", bound=Hashable)
Categories = frozenset[str]
"""Object categories, by name."""


@cache
def coco_words() -> dict[str, tuple[str, ...]]:
    """For each COCO category the other words that captions use for it."""
    content = tomllib.loads(files("snellen.suites.reform_eval.readers").joinpath("coco_words.toml").read_text("utf-8"))
    return {name: tuple(words) for name, words in content.items()}


def category_finder(names: Iterable[str], words: Mapping[str, Sequence[str]]) -> Callable[[str], Categories]:
    """A function from a caption to the categories it names, by their own names or other `words` for them.

    Matches whole words in any case, singular or plural; a longer name hides a shorter one inside it (a hot
    dog is not a dog).
    """
    names_by_form = {
        form: name
        for name in names
        for word in map(str.casefold, (name, *words.get(name, ())))
        for form in (word, plural(word))
    }
    longest_first = sorted(names_by_form, key=lambda form: (-len(form), form))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b")
    return lambda caption: frozenset(names_by_form[form] for form in pattern.findall(caption.casefold()))


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
    ranked = [(bool(mentioned - categories), overlap(gold, mentioned), caption) for caption, mentioned in captions]
    if not ranked:
        return None
    return max(ranked, key=lambda entry: entry[:2])[2]


def differs_from_all(caption: str, own_captions: Collection[str]) -> bool:
    """Whether a caption differs in meaning from each of a picture's own."""
    return not any(same_answer(caption, own_caption) for own_caption in own_captions)
