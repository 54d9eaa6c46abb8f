"""What a type of question declares, and what it may know of the whole source.

A type is a frozen record of its settings, which an entry gives by name: `{ type = "count", largest = 5 }`. It says
which pictures it fits, and makes questions of one; what cannot be asked without doubt is an `Exclusion` with a reason.
Another package adds a type by an entry point in the group `snellen.question_types`.

Here are those of what a picture, or an object in it, is said to be, where objects are and how they are related.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from msgspec import Struct

from snellen.common.decoding import stored_size
from snellen.common.drafts import (
    AnnotatedObject,
    AnnotatedPicture,
    DistractorSpec,
    Exclusion,
    Outline,
    Polygon,
    QuestionDraft,
    answer_pools,
    picture_bytes,
)
from snellen.common.foreign import open_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Box

_IRREGULAR = {"knife": "knives", "mouse": "mice", "person": "people", "child": "children"}
_VOWEL = re.compile(r"(?!uni|use|eu|one)[aeiou]", re.IGNORECASE)


def plural(name: str) -> str:
    """The plural of a noun, or of a name that ends in one."""
    head, _, noun = name.rpartition(" ")
    if noun in _IRREGULAR:
        last = _IRREGULAR[noun]
    elif noun.endswith("man"):
        last = f"{noun[:-3]}men"
    elif noun.endswith(("s", "x", "ch", "sh")):
        last = f"{noun}es"
    elif noun.endswith("y") and noun[-2:-1] not in "aeiou":
        last = f"{noun[:-1]}ies"
    else:
        last = f"{noun}s"
    return f"{head} {last}".strip()


def phrased(template: str, **words: str) -> str:
    """The template with the words in it: `a {name}` becomes `an {name}` before a vowel. Raises DataError for a
    word that the template names and the question does not have."""
    for word, text in words.items():
        if _VOWEL.match(text):
            template = template.replace(f"a {{{word}}}", f"an {{{word}}}")
    try:
        return template.format(**words)
    except (KeyError, IndexError, ValueError):
        choices = ", ".join(f"{{{word}}}" for word in words) or "nothing"
        raise DataError(
            f"source.params.questions: ask = {template!r} cannot be filled in; it may name {choices}"
        ) from None


ItemT = TypeVar("ItemT")
ValueT = TypeVar("ValueT")
Pool = tuple[str, ...]


class FormedQuestion(Struct, frozen=True):
    """A question made from a picture's annotations; a dialogue has several rounds."""

    key: str
    """What it is about: unique among the picture's questions of the type."""
    rounds: tuple[QuestionDraft, ...]
    answer: str = ""
    """What sampling balances by, within the type; empty where answers are all different."""
    outlines: tuple[Outline, ...] = ()
    crop: Box | None = None
    is_dialogue: bool = False


Formed = Iterator[FormedQuestion | Exclusion]


class AnnotatedSource:
    """All pictures of a source, and what is known of them together."""

    def __init__(self, pictures: Sequence[AnnotatedPicture], seed: int = 0) -> None:
        self.pictures, self._seed = pictures, seed
        self._known: dict[Any, Any] = {}
        self._sizes: dict[str, tuple[int, int, bool]] = {}

    def once(self, compute: Callable[[AnnotatedSource], ValueT]) -> ValueT:
        """What `compute` makes of the source, computed once."""
        if compute not in self._known:
            self._known[compute] = compute(self)
        value: ValueT = self._known[compute]
        return value

    def stored_size(self, picture: AnnotatedPicture) -> tuple[int, int, bool]:
        """Width and height of a picture's file, and whether it is upright as it is stored. Raises DataError."""
        if picture.id not in self._sizes:
            head = _beginning(picture.file) if isinstance(picture.file, Path) else b""
            self._sizes[picture.id] = stored_size(
                head or picture_bytes(picture.file, picture.where), picture.where
            )
        return self._sizes[picture.id]

    def rng(self, *names: str) -> random.Random:
        """A generator for a type of questions and a picture."""
        return rng_for("annotations", *names, self._seed)

    @cached_property
    def labels(self) -> Pool:
        """The usual names of all classes."""
        return _distinct(picture.labels[0] for picture in self.pictures if picture.labels)

    @cached_property
    def names(self) -> Pool:
        """The names of all objects."""
        return _distinct(thing.name for picture in self.pictures for thing in picture.objects)

    @cached_property
    def names_by_kind(self) -> dict[str, Pool]:
        """The names of objects of each kind."""
        return answer_pools(
            (thing.kind, thing.name) for picture in self.pictures for thing in picture.objects
        )

    @cached_property
    def occurrences(self) -> Pool:
        """The distinct names of each picture's objects, one picture after the other: a name as often as it is seen."""
        return tuple(name for picture in self.pictures for name in names_in(picture))

    @cached_property
    def attributes(self) -> dict[str, Pool]:
        """The values of each attribute, of pictures and of objects."""
        return answer_pools(
            pair
            for picture in self.pictures
            for attributes in attributes_in(picture)
            for pair in attributes.items()
        )

    @cached_property
    def captions(self) -> Pool:
        """A caption of each picture."""
        return _distinct(picture.captions[0] for picture in self.pictures if picture.captions)

    @cached_property
    def texts(self) -> Pool:
        """The texts that can be read in pictures."""
        return _distinct(line.text for picture in self.pictures for line in picture.texts)

    @cached_property
    def fields(self) -> dict[str, Pool]:
        """The values of each key of forms."""
        return answer_pools(
            (key, values[0])
            for picture in self.pictures
            for key, values in picture.fields.items()
            if values
        )

    @cached_property
    def predicates(self) -> dict[str, Pool]:
        """The predicates of relations, by the name of their subject; all of them under the empty name."""
        pairs = (
            (name, relation.predicate)
            for picture in self.pictures
            for relation in picture.relations
            for name in ("", picture.objects[relation.subject].name)
        )
        return answer_pools(pairs)


class QuestionType(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A type of question; its fields are the settings that an entry may give."""

    needs: ClassVar[str]
    """The annotations it is made from, in words: objects with boxes."""
    made_of: ClassVar[str] = ""
    """The field of a picture that holds them, where having some is enough to fit."""
    ask: str = ""
    """The question's text in place of the type's own, with the same words in braces."""
    most: int = 3
    """Questions of a picture, drawn at random; 0 for all."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        """Whether the picture has these annotations."""
        return bool(getattr(picture, self.made_of))

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        """The questions of a picture that fits, and what is left out of it."""
        raise NotImplementedError


def some(items: Sequence[ItemT], most: int, rng: random.Random) -> list[ItemT]:
    """At most so many of the items, drawn at random, in their order; 0 for all."""
    if not most or len(items) <= most:
        return list(items)
    return [items[place] for place in sorted(rng.sample(range(len(items)), most))]


def choice(
    text: str,
    answers: Sequence[str],
    *tiers: Sequence[str],
    also_right: Sequence[str] = (),
    closed: bool = False,
) -> QuestionDraft:
    """A question with an accepted answer or several, the usual one first, and candidates for distractors."""
    spec = DistractorSpec(
        tiers=tiers, also_right=tuple(also_right), allow_fewer=True, closed=closed
    )
    return QuestionDraft(text, texts=tuple(answers), distractors=spec)


def names_in(picture: AnnotatedPicture) -> Pool:
    """The distinct names of a picture's objects."""
    return _distinct(thing.name for thing in picture.objects)


def attributes_in(picture: AnnotatedPicture) -> list[dict[str, str]]:
    """The attributes of a picture, and those of each of its objects."""
    return [picture.attributes, *(thing.attributes for thing in picture.objects)]


def single_objects(picture: AnnotatedPicture) -> dict[str, AnnotatedObject]:
    """The objects that are the only one of their name in the picture, so that the name says which is meant."""
    by_name: dict[str, list[AnnotatedObject]] = {}
    for thing in picture.objects:
        by_name.setdefault(thing.name, []).append(thing)
    unsure = frozenset(picture.incomplete)
    return {
        name: things[0]
        for name, things in by_name.items()
        if len(things) == 1 and not things[0].is_crowd and name not in unsure
    }


def _beginning(file: Path) -> bytes:
    """The beginning of a file, which holds a picture's size; nothing where it cannot be read."""
    try:
        with open_file(file) as opened:
            return opened.read(1 << 18)
    except OSError:
        return b""


def _distinct(texts: Iterable[str]) -> Pool:
    return tuple(dict.fromkeys(texts))


class ClassQuestions(QuestionType, frozen=True):
    """What does the picture show? The other classes are candidates."""

    needs = "a class"
    made_of = "labels"
    ask: str = "What does the picture show?"

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        question = choice(self.ask, picture.labels, source.labels)
        yield FormedQuestion("", (question,), picture.labels[0])


class AttributeQuestions(QuestionType, frozen=True):
    """What is the colour of the car? Other values of the attribute are candidates."""

    needs = "attributes of pictures or objects"
    ask: str = ""
    """With {attribute} and, of an object, {name}."""
    of: str = ""
    """The one attribute that is asked for; all of them when empty."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return any(
            self.of in ("", attribute)
            for attributes in attributes_in(picture)
            for attribute in attributes
        )

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        askable = [
            (attribute, value, "")
            for attribute, value in picture.attributes.items()
            if self.of in ("", attribute)
        ]
        single = single_objects(picture)
        for thing in picture.objects:
            for attribute, value in thing.attributes.items():
                if self.of in ("", attribute):
                    if thing.name in single:
                        askable.append((attribute, value, thing.name))
                    else:
                        yield Exclusion(
                            "several objects of the name, so that it does not say which is meant"
                        )
        for chosen in some(askable, self.most, source.rng("attribute", picture.id)):
            yield self._formed(*chosen, source)

    def _formed(
        self, attribute: str, value: str, name: str, source: AnnotatedSource
    ) -> FormedQuestion:
        own = (
            "What is the {attribute} of the {name}?"
            if name
            else "What is the {attribute} in the picture?"
        )
        text = phrased(self.ask or own, attribute=attribute, name=name)
        question = choice(text, (value,), source.attributes[attribute])
        return FormedQuestion(f"{name} {attribute}".strip(), (question,), value)


FIELDS = (
    "top left", "top centre", "top right", "middle left", "centre", "middle right", "bottom left", "bottom centre",
    "bottom right",
)  # fmt: skip
HALVES = ("left half", "right half")
CLEAR = 0.04
"""How far from a dividing line the middle of an object must be, as a share of the picture's side."""
TURNED = "the picture is stored turned, so that left is not left"
SEVERAL = "no object, or only one, that is alone of its name and has a box"


def placed_objects(picture: AnnotatedPicture) -> list[tuple[AnnotatedObject, Box]]:
    """Objects with a box that are the only one of their name."""
    return [(thing, thing.box) for thing in single_objects(picture).values() if thing.box]


class LocationQuestions(QuestionType, frozen=True):
    """Where in the picture is the dog? One of nine fields, or a half."""

    needs = "objects with boxes"
    ask: str = "Where in the picture is the {name}?"
    fields: Literal["nine", "halves"] = "nine"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return any(thing.box for thing in picture.objects)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        things = placed_objects(picture)
        if not things:
            yield Exclusion("no object with a box that is alone of its name")
            return
        width, height, is_upright = source.stored_size(picture)
        if not is_upright:
            yield Exclusion(TURNED)
            return
        askable = []
        for thing, box in things:
            if field := self._field(box, width, height):
                askable.append((thing.name, field))
            else:
                yield Exclusion("the object is not clearly in one part of the picture")
        for name, field in some(askable, self.most, source.rng("location", picture.id)):
            fields = FIELDS if self.fields == "nine" else HALVES
            question = choice(phrased(self.ask, name=name), (field,), fields, closed=True)
            yield FormedQuestion(name, (question,), field)

    def _field(self, box: Box, width: int, height: int) -> str:
        """The part of the picture that an object is in; empty where it is too large, or its middle near a line."""
        parts = 3 if self.fields == "nine" else 2
        column = _part(box[0], box[2], width, parts)
        row = _part(box[1], box[3], height, parts) if parts == 3 else 0
        if column is None or row is None:
            return ""
        return FIELDS[row * 3 + column] if parts == 3 else HALVES[column]


def _part(start: float, length: float, whole: float, parts: int) -> int | None:
    """Which of so many equal parts of a side an object is in, None when that is not clear."""
    middle = (start + length / 2) / whole
    near_line = any(abs(middle - line / parts) < CLEAR for line in range(1, parts))
    return None if near_line or length > whole / 2 or not 0 <= middle < 1 else int(middle * parts)


class SpatialQuestions(QuestionType, frozen=True):
    """Where is the cat in relation to the dog? Left, right, above or below, only where that is clear."""

    needs = "two objects with boxes"
    ask: str = "Where is the {name} in relation to the {other}, as the picture shows them?"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return len([thing for thing in picture.objects if thing.box]) > 1

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        things = placed_objects(picture)
        if len(things) < 2:
            yield Exclusion(SEVERAL)
            return
        if not source.stored_size(picture)[2]:
            yield Exclusion(TURNED)
            return
        rng, askable = source.rng("spatial", picture.id), list[tuple[str, str, str, list[str]]]()
        for pair in combinations(things, 2):
            (thing, box), (other, other_box) = pair if rng.random() < 0.5 else reversed(pair)
            if direction := direction_of(box, other_box):
                wrong = [
                    word
                    for word in _APART
                    if word != direction and not _APART[word](box, other_box)
                ]
                askable.append((thing.name, other.name, direction, wrong))
            else:
                yield Exclusion("the objects are not clearly beside or above each other")
        for name, other_name, direction, wrong in some(askable, self.most, rng):
            options = [f"{word} the {other_name}" for word in wrong]
            text = phrased(self.ask, name=name, other=other_name)
            question = choice(text, (f"{direction} the {other_name}",), options, closed=True)
            yield FormedQuestion(f"{name}-{other_name}", (question,), direction)


_APART: dict[str, Callable[[Box, Box], bool]] = {
    "left of": lambda box, other: box[0] + box[2] <= other[0],
    "right of": lambda box, other: box[0] >= other[0] + other[2],
    "above": lambda box, other: box[1] + box[3] <= other[1],
    "below": lambda box, other: box[1] >= other[1] + other[3],
}
"""What is true besides the plainest direction is not a distractor: far to the left and a little above is above too."""


def direction_of(box: Box, reference: Box) -> str:
    """Where a box is as seen from another one: apart from it, and at most half as far off in the other direction."""
    # Differences of centres are exact negatives of each other, so the way round never changes the answer.
    across = (box[0] + box[2] / 2) - (reference[0] + reference[2] / 2)
    down = (box[1] + box[3] / 2) - (reference[1] + reference[3] / 2)
    if abs(down) <= abs(across) / 2 and abs(across) >= (box[2] + reference[2]) / 2:
        return "left of" if across < 0 else "right of"
    if abs(across) <= abs(down) / 2 and abs(down) >= (box[3] + reference[3]) / 2:
        return "above" if down < 0 else "below"
    return ""


class SizeQuestions(QuestionType, frozen=True):
    """Which is larger in the picture, the cat or the dog? By outline, else by box."""

    needs = "two objects with boxes or masks"
    ask: str = "Which takes up more of the picture, the {name} or the {other}?"
    times: float = 2
    """How many times as large as the other one the larger one is at least."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return len([thing for thing in picture.objects if thing.box or thing.mask]) > 1

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        things = [thing for thing in single_objects(picture).values() if thing.box or thing.mask]
        if len(things) < 2:
            yield Exclusion(SEVERAL)
            return
        rng, askable = source.rng("size", picture.id), list[tuple[str, str]]()
        sized = [(_area(thing), thing) for thing in things]
        for pair in combinations(sized, 2):
            (small_area, small), (large_area, large) = sorted(pair, key=lambda entry: entry[0])
            if bool(small.mask) != bool(large.mask):
                yield Exclusion("one has an outline, and the other only a box")
            elif large_area < self.times * small_area:
                yield Exclusion(f"neither is {self.times:g} times as large as the other")
            else:
                askable.append((small.name, large.name))
        for small_name, large_name in some(askable, self.most, rng):
            first, second = rng.sample((small_name, large_name), 2)
            text = phrased(self.ask, name=first, other=second)
            question = choice(text, (f"the {large_name}",), (f"the {small_name}",), closed=True)
            yield FormedQuestion(f"{small_name}-{large_name}", (question,))


def _area(thing: AnnotatedObject) -> float:
    """Square pixels of the outline; of the box where there is none."""
    if thing.mask:
        return sum(map(_polygon_area, thing.mask))
    return thing.box[2] * thing.box[3] if thing.box else 0


def _polygon_area(polygon: Polygon) -> float:
    """By Gauss's formula."""
    corners = list(zip(polygon[::2], polygon[1::2], strict=True))
    edges = zip(corners, [*corners[1:], *corners[:1]], strict=True)
    return abs(sum(x1 * y2 - x2 * y1 for (x1, y1), (x2, y2) in edges)) / 2


class RelationQuestions(QuestionType, frozen=True):
    """Which of these is right? Statements with the same two objects and other predicates are candidates."""

    needs = "relations between objects"
    ask: str = "Which of these does the picture show?"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.relations)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        single, askable = single_objects(picture), list[tuple[str, str, list[str]]]()
        stated: dict[tuple[str, str], list[str]] = {}
        for relation in picture.relations:
            pair = picture.objects[relation.subject].name, picture.objects[relation.object].name
            stated.setdefault(pair, []).append(relation.predicate)
        for (subject, target), predicates in stated.items():
            if subject not in single or target not in single:
                yield Exclusion(
                    "several objects of the name, so that it does not say which is meant"
                )
                continue
            askable.append((subject, target, predicates))
        for subject, target, predicates in some(
            askable, self.most, source.rng("relation", picture.id)
        ):
            tiers = [
                [_stated(subject, predicate, target) for predicate in source.predicates[name]]
                for name in (subject, "")
            ]
            answers = [_stated(subject, predicate, target) for predicate in predicates]
            question = choice(self.ask, answers, *tiers)
            yield FormedQuestion(f"{subject}-{target}", (question,), predicates[0])


def _stated(subject: str, predicate: str, target: str) -> str:
    return f"the {subject} {predicate} the {target}"
