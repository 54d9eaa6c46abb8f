"""Types of questions about annotated images: classes, attributes, locations, sizes and relations of objects.

A type is a frozen record of its settings, which an entry gives by name: `{ type = "count", largest = 5 }`. It tells
which images it fits and makes questions about an image. An ambiguous question becomes an `Exclusion` with a reason.
Other packages add types by an entry point in the group `snellen.question_types`.
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
    AnnotatedImage,
    AnnotatedObject,
    DistractorSpec,
    Exclusion,
    Outline,
    Polygon,
    QuestionDraft,
    answer_pools,
    image_bytes,
)
from snellen.common.foreign import open_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Box

_IRREGULAR = {"knife": "knives", "mouse": "mice", "person": "people", "child": "children"}
_VOWEL = re.compile(r"(?!uni|use|eu|one)[aeiou]", re.IGNORECASE)


def plural(name: str) -> str:
    """Return the plural of an English noun, or of a name that ends with one: `fire truck` gives
    `fire trucks`.
    """
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
    """Fill words into a template, with `an` in place of `a` before a vowel: `a {name}` gives `an orange`.

    Raises:
        DataError: If the template names a word that the question does not have.
    """
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
    """A question made from an image's annotations; a dialogue has several rounds.

    Examples:
        >>> question = choice_question("Warm or cold?", ("warm",), ("warm", "cold"), closed=True)
        >>> FormedQuestion("", (question,), "warm").answer
        'warm'
    """

    key: str
    """Subject of the question; unique among the questions of a type about an image."""
    rounds: tuple[QuestionDraft, ...]
    answer: str = ""
    """Answer by which sampling balances the questions of a type; empty if each question has its own answer."""
    outlines: tuple[Outline, ...] = ()
    crop: Box | None = None
    is_dialogue: bool = False


Formed = Iterator[FormedQuestion | Exclusion]


class AnnotatedSource:
    """All annotated images of a source, with pools of their classes, names, attributes and other annotations."""

    def __init__(self, pictures: Sequence[AnnotatedImage], seed: int = 0) -> None:
        self.pictures = pictures
        self._seed = seed
        self._computed: dict[Any, Any] = {}
        self._sizes: dict[str, tuple[int, int, bool]] = {}

    def once(self, compute: Callable[[AnnotatedSource], ValueT]) -> ValueT:
        """Return `compute(source)`, which is computed at the first call and then cached."""
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        value: ValueT = self._computed[compute]
        return value

    def stored_size(self, picture: AnnotatedImage) -> tuple[int, int, bool]:
        """Return the width and height of an image's file in pixels, and whether it is stored upright.

        Raises:
            DataError: If the file cannot be read or is not an image.
        """
        if picture.id not in self._sizes:
            content = _beginning(picture.file) if isinstance(picture.file, Path) else b""
            if not content:
                content = image_bytes(picture.file, picture.where)
            self._sizes[picture.id] = stored_size(content, picture.where)
        return self._sizes[picture.id]

    def rng(self, *names: str) -> random.Random:
        """Return a random generator seeded by `names` (a type of questions, an image) and the source's seed."""
        return rng_for("annotations", *names, self._seed)

    @cached_property
    def labels(self) -> Pool:
        """Usual names of all classes."""
        return _distinct(picture.labels[0] for picture in self.pictures if picture.labels)

    @cached_property
    def names(self) -> Pool:
        """Names of all objects."""
        return _distinct(item.name for picture in self.pictures for item in picture.objects)

    @cached_property
    def names_by_kind(self) -> dict[str, Pool]:
        """Names of objects, by the kind of object."""
        return answer_pools(
            (item.kind, item.name) for picture in self.pictures for item in picture.objects
        )

    @cached_property
    def occurrences(self) -> Pool:
        """Names of objects, each repeated as often as the number of images with such an object."""
        return tuple(name for picture in self.pictures for name in names_in(picture))

    @cached_property
    def attributes(self) -> dict[str, Pool]:
        """Values of the attributes of images and objects, by attribute."""
        pairs: list[tuple[str, str]] = []
        for picture in self.pictures:
            for attributes in attributes_in(picture):
                pairs.extend(attributes.items())
        return answer_pools(pairs)

    @cached_property
    def captions(self) -> Pool:
        """The first caption of each image."""
        return _distinct(picture.captions[0] for picture in self.pictures if picture.captions)

    @cached_property
    def texts(self) -> Pool:
        """Texts that can be read in images."""
        return _distinct(line.text for picture in self.pictures for line in picture.texts)

    @cached_property
    def fields(self) -> dict[str, Pool]:
        """Values of the fields of forms, by key."""
        return answer_pools(
            (key, values[0])
            for picture in self.pictures
            for key, values in picture.fields.items()
            if values
        )

    @cached_property
    def predicates(self) -> dict[str, Pool]:
        """Predicates of relations, by the name of their subject; the empty name has all predicates."""
        pairs: list[tuple[str, str]] = []
        for picture in self.pictures:
            for relation in picture.relations:
                subject = picture.objects[relation.subject].name
                pairs += [("", relation.predicate), (subject, relation.predicate)]
        return answer_pools(pairs)


class QuestionType(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A type of question; its fields are the settings that an entry may give.

    Examples:
        >>> class WarmOrCold(QuestionType, frozen=True):
        ...     needs = "a class"
        ...
        ...     def fits(self, picture):
        ...         return "cherry" in picture.labels
        ...
        ...     def questions(self, picture, source):
        ...         question = choice_question("Warm or cold?", ("warm",), ("warm", "cold"), closed=True)
        ...         yield FormedQuestion("", (question,), "warm")
        >>> WarmOrCold().needs
        'a class'
    """

    needs: ClassVar[str]
    """Description of the annotations that the questions are made from: `objects with boxes`."""
    made_of: ClassVar[str] = ""
    """Field of `AnnotatedImage` with these annotations; by default, an image fits if the field is not empty."""
    ask: str = ""
    """Text of the question, with the same words in braces as the default text of the type."""
    most: int = 3
    """Maximum number of questions about an image, drawn at random; 0 for all."""

    def fits(self, picture: AnnotatedImage) -> bool:
        """Return whether an image has the annotations that questions of this type need."""
        return bool(getattr(picture, self.made_of))

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield the questions about an image that fits, and an exclusion for each one that would be ambiguous."""
        raise NotImplementedError


def draw_at_most(items: Sequence[ItemT], most: int, rng: random.Random) -> list[ItemT]:
    """Draw at most `most` items at random, and return them in their original order. If `most` is 0, return all."""
    if not most or len(items) <= most:
        return list(items)
    indices = sorted(rng.sample(range(len(items)), most))
    return [items[index] for index in indices]


def choice_question(
    text: str,
    answers: Sequence[str],
    *tiers: Sequence[str],
    also_right: Sequence[str] = (),
    closed: bool = False,
) -> QuestionDraft:
    """Return a draft of a multiple-choice question whose options are drawn when the benchmark is built.

    Args:
        text: The question.
        answers: Accepted answers, the usual one first.
        tiers: Candidates for distractors, the most suitable tier first.
        also_right: Texts that are correct too, and so are not distractors.
        closed: Whether these tiers are the only candidates, even if a build names another source of distractors.

    Examples:
        >>> question = choice_question("Which animal?", ("a dog",), ("a wolf", "a fox"), ("a house",))
        >>> question.texts, question.distractors.tiers[0]
        (('a dog',), ('a wolf', 'a fox'))
    """
    spec = DistractorSpec(
        tiers=tiers, also_right=tuple(also_right), allow_fewer=True, closed=closed
    )
    return QuestionDraft(text, texts=tuple(answers), distractors=spec)


def names_in(picture: AnnotatedImage) -> Pool:
    """Return the distinct names of an image's objects."""
    return _distinct(item.name for item in picture.objects)


def attributes_in(picture: AnnotatedImage) -> list[dict[str, str]]:
    """Return the attributes of an image and those of each of its objects."""
    return [picture.attributes, *(item.attributes for item in picture.objects)]


def single_objects(picture: AnnotatedImage) -> dict[str, AnnotatedObject]:
    """Return the objects of an image that can be asked about by name, because no other object of
    the image has the same name.

    Crowds are left out, and so are names of which not all objects in the image are annotated.
    """
    objects_by_name: dict[str, list[AnnotatedObject]] = {}
    for item in picture.objects:
        objects_by_name.setdefault(item.name, []).append(item)
    incomplete_names = frozenset(picture.incomplete)
    return {
        name: objects[0]
        for name, objects in objects_by_name.items()
        if len(objects) == 1 and not objects[0].is_crowd and name not in incomplete_names
    }


def _beginning(file: Path) -> bytes:
    """Return the first 256 KiB of a file, which contain the size of an image; empty if it cannot be read."""
    try:
        with open_file(file) as opened:
            return opened.read(1 << 18)
    except OSError:
        return b""


def _distinct(texts: Iterable[str]) -> Pool:
    return tuple(dict.fromkeys(texts))


class ClassQuestions(QuestionType, frozen=True):
    """What does the image show? The other classes are candidates."""

    needs = "a class"
    made_of = "labels"
    ask: str = "What does the picture show?"

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        question = choice_question(self.ask, picture.labels, source.labels)
        yield FormedQuestion("", (question,), picture.labels[0])


class AttributeQuestions(QuestionType, frozen=True):
    """What is the colour of the car?

    The wrong options are other values of the attribute, such as other colours.
    """

    needs = "attributes of images or objects"
    ask: str = ""
    """Text of the question, in which {attribute} and {name} (of the object, if it is about one) are
    replaced.
    """
    of: str = ""
    """The only attribute that is asked about; all attributes if empty."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return any(
            self._is_asked_about(attribute)
            for attributes in attributes_in(picture)
            for attribute in attributes
        )

    def _is_asked_about(self, attribute: str) -> bool:
        """Return whether questions are asked about this attribute."""
        return self.of in ("", attribute)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about attributes of the image or of its objects, such as the colour of the car.

        An object is left out if another one in the image has the same name.
        """
        askable: list[tuple[str, str, str]] = []
        """(attribute, value, name of the object or "" for the image)"""
        for attribute, value in picture.attributes.items():
            if self._is_asked_about(attribute):
                askable.append((attribute, value, ""))
        single = single_objects(picture)
        for thing in picture.objects:
            for attribute, value in thing.attributes.items():
                if not self._is_asked_about(attribute):
                    continue
                if thing.name in single:
                    askable.append((attribute, value, thing.name))
                else:
                    yield Exclusion(
                        "several objects of the name, so that it does not say which is meant"
                    )
        for chosen in draw_at_most(askable, self.most, source.rng("attribute", picture.id)):
            yield self._formed(*chosen, source)

    def _formed(
        self, attribute: str, value: str, name: str, source: AnnotatedSource
    ) -> FormedQuestion:
        """Return the question about an attribute of an object, or of the whole image if `name` is empty."""
        if name:
            default_text = "What is the {attribute} of the {name}?"
        else:
            default_text = "What is the {attribute} in the picture?"
        text = phrased(self.ask or default_text, attribute=attribute, name=name)
        question = choice_question(text, (value,), source.attributes[attribute])
        return FormedQuestion(f"{name} {attribute}".strip(), (question,), value)


FIELDS = (
    "top left", "top centre", "top right", "middle left", "centre", "middle right", "bottom left", "bottom centre",
    "bottom right",
)  # fmt: skip
HALVES = ("left half", "right half")
MIN_CLEARANCE = 0.04
"""Smallest distance of an object's centre from a line between two parts of the image, as a share of
the image's width or height.

Closer to a line, it is unclear in which part the object is.
"""
NOT_UPRIGHT = "the image is stored turned, so that left is not left"
FEWER_THAN_TWO_OBJECTS = "no object, or only one, that is alone of its name and has a box"


def placed_objects(picture: AnnotatedImage) -> list[tuple[AnnotatedObject, Box]]:
    """Return the objects that have a box and a name that no other object of the image has, each
    with its box.
    """
    return [(item, item.box) for item in single_objects(picture).values() if item.box]


class LocationQuestions(QuestionType, frozen=True):
    """Where in the image is the dog?

    The options are nine parts of the image, such as "top left", or its two halves.
    """

    needs = "objects with boxes"
    ask: str = "Where in the picture is the {name}?"
    fields: Literal["nine", "halves"] = "nine"

    def fits(self, picture: AnnotatedImage) -> bool:
        return any(thing.box for thing in picture.objects)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about which part of the image an object is in, such as "top left".

        Unclear cases are left out.
        """
        objects = placed_objects(picture)
        if not objects:
            yield Exclusion("no object with a box that is alone of its name")
            return
        width, height, is_upright = source.stored_size(picture)
        if not is_upright:
            yield Exclusion(NOT_UPRIGHT)
            return
        askable = []
        for item, box in objects:
            field = self._field(box, width, height)
            if field:
                askable.append((item.name, field))
            else:
                yield Exclusion("the object is not clearly in one part of the image")
        for name, field in draw_at_most(askable, self.most, source.rng("location", picture.id)):
            fields = FIELDS if self.fields == "nine" else HALVES
            question = choice_question(phrased(self.ask, name=name), (field,), fields, closed=True)
            yield FormedQuestion(name, (question,), field)

    def _field(self, box: Box, width: int, height: int) -> str:
        """Return the part of the image that an object is in, such as "top left".

        With `fields="nine"` the image has nine parts, otherwise a left and a right half. Empty if the object is too
        large, or its centre is close to a line between parts.

        Args:
            box: Left, top, width and height of the object in pixels.
            width: Width of the image in pixels.
            height: Height of the image in pixels.
        """
        left, top, box_width, box_height = box
        if self.fields != "nine":
            half = _part(left, box_width, width, parts=2)
            return "" if half is None else HALVES[half]
        column = _part(left, box_width, width, parts=3)
        row = _part(top, box_height, height, parts=3)
        if column is None or row is None:
            return ""
        return FIELDS[row * 3 + column]


def _part(start: float, length: float, side: float, parts: int) -> int | None:
    """Return the number, from 0, of the part of the image that an object is in, along its width or
    its height.

    None if this is unclear, because the object is longer than half of the side or its centre is
    close to a dividing line.

    Args:
        start: Where the object begins, in pixels.
        length: Its length, in pixels.
        side: Width or height of the image, in pixels.
        parts: Number of equal parts that the side is divided into.
    """
    centre = (start + length / 2) / side
    if length > side / 2 or not 0 <= centre < 1:
        return None
    for number in range(1, parts):
        line = number / parts  # between two parts
        if abs(centre - line) < MIN_CLEARANCE:
            return None
    return int(centre * parts)


class SpatialQuestions(QuestionType, frozen=True):
    """Where is the cat in relation to the dog?

    Left, right, above or below; only pairs are used for which this is clear.
    """

    needs = "two objects with boxes"
    ask: str = "Where is the {name} in relation to the {other}, as the picture shows them?"

    def fits(self, picture: AnnotatedImage) -> bool:
        return len([item for item in picture.objects if item.box]) > 1

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about where an object is relative to another, such as "left of the table".

        Objects with the same name are left out, since their name does not say which one is meant. Pairs are left out
        unless one object is clearly beside or above the other. A direction is a wrong option only if the object is clearly
        not there.
        """
        objects = placed_objects(picture)
        if len(objects) < 2:
            yield Exclusion(FEWER_THAN_TWO_OBJECTS)
            return
        _, _, is_upright = source.stored_size(picture)
        if not is_upright:
            yield Exclusion(NOT_UPRIGHT)
            return
        rng = source.rng("spatial", picture.id)
        askable: list[tuple[str, str, str, list[str]]] = []
        for first, second in combinations(objects, 2):
            # The object that is asked about is a random one of the two.
            if rng.random() < 0.5:
                (item, box), (other, other_box) = first, second
            else:
                (item, box), (other, other_box) = second, first
            direction = direction_of(box, other_box)
            if not direction:
                yield Exclusion("the objects are not clearly beside or above each other")
                continue
            wrong_directions = []
            for word, is_apart in _IS_APART.items():
                if word != direction and not is_apart(box, other_box):
                    wrong_directions.append(word)
            askable.append((item.name, other.name, direction, wrong_directions))
        for name, other_name, direction, wrong_directions in draw_at_most(askable, self.most, rng):
            options = [f"{word} the {other_name}" for word in wrong_directions]
            text = phrased(self.ask, name=name, other=other_name)
            question = choice_question(
                text, (f"{direction} the {other_name}",), options, closed=True
            )
            yield FormedQuestion(f"{name}-{other_name}", (question,), direction)


_IS_APART: dict[str, Callable[[Box, Box], bool]] = {
    "left of": lambda box, other: box[0] + box[2] <= other[0],
    "right of": lambda box, other: box[0] >= other[0] + other[2],
    "above": lambda box, other: box[1] + box[3] <= other[1],
    "below": lambda box, other: box[1] >= other[1] + other[3],
}
"""For each direction, a function that tells whether a box is entirely on that side of another box.

Such a direction is not used as a wrong option: a box far to the left and a little above is above,
too.
"""


def direction_of(box: Box, reference: Box) -> str:
    """Return where a box is relative to another: "left of", "right of", "above" or "below"; empty if that is unclear.

    It is clear if the boxes do not overlap in this direction, and their centres are at least twice as far apart in it
    as in the other direction.

    Args:
        box: Left, top, width and height in pixels.
        reference: The same of the other box.
    """
    left, top, width, height = box
    other_left, other_top, other_width, other_height = reference
    # Differences of centres are exact negatives of each other, so swapping the boxes reverses the direction.
    across = (left + width / 2) - (other_left + other_width / 2)
    down = (top + height / 2) - (other_top + other_height / 2)
    are_apart_across = abs(across) >= (width + other_width) / 2
    are_apart_down = abs(down) >= (height + other_height) / 2
    if abs(down) <= abs(across) / 2 and are_apart_across:
        return "left of" if across < 0 else "right of"
    if abs(across) <= abs(down) / 2 and are_apart_down:
        return "above" if down < 0 else "below"
    return ""


class SizeQuestions(QuestionType, frozen=True):
    """Which is larger in the image, the cat or the dog?

    Sizes are those of the outlines or, without these, of the boxes.
    """

    needs = "two objects with boxes or masks"
    ask: str = "Which takes up more of the picture, the {name} or the {other}?"
    times: float = 2
    """The larger object must have at least this many times the area of the smaller one."""

    def fits(self, picture: AnnotatedImage) -> bool:
        return len([item for item in picture.objects if item.box or item.mask]) > 1

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about which of two objects is larger.

        Pairs are left out unless one is clearly larger.
        """
        objects = [item for item in single_objects(picture).values() if item.box or item.mask]
        if len(objects) < 2:
            yield Exclusion(FEWER_THAN_TWO_OBJECTS)
            return
        rng = source.rng("size", picture.id)
        askable: list[tuple[str, str]] = []
        sized = [(_area(item), item) for item in objects]
        for pair in combinations(sized, 2):
            by_area = sorted(pair, key=lambda entry: entry[0])
            (small_area, small), (large_area, large) = by_area
            if bool(small.mask) != bool(large.mask):
                yield Exclusion("one has an outline, and the other only a box")
            elif large_area < self.times * small_area:
                yield Exclusion(f"neither is {self.times:g} times as large as the other")
            else:
                askable.append((small.name, large.name))
        for small_name, large_name in draw_at_most(askable, self.most, rng):
            first, second = rng.sample((small_name, large_name), 2)
            text = phrased(self.ask, name=first, other=second)
            question = choice_question(
                text, (f"the {large_name}",), (f"the {small_name}",), closed=True
            )
            yield FormedQuestion(f"{small_name}-{large_name}", (question,))


def _area(item: AnnotatedObject) -> float:
    """Return the area of an object's outline, or else of its box, in square pixels."""
    if item.mask:
        return sum(map(_polygon_area, item.mask))
    return item.box[2] * item.box[3] if item.box else 0


def _polygon_area(polygon: Polygon) -> float:
    """Return the area of a polygon by the shoelace formula.

    Args:
        polygon: x and y of each corner in turns.
    """
    corners = list(zip(polygon[::2], polygon[1::2], strict=True))
    next_corners = [*corners[1:], *corners[:1]]
    doubled_area = 0.0
    for (x, y), (next_x, next_y) in zip(corners, next_corners, strict=True):
        doubled_area += x * next_y - next_x * y
    return abs(doubled_area) / 2


class RelationQuestions(QuestionType, frozen=True):
    """Which of these is right? The wrong options are statements about the same two objects with
    other relations.
    """

    needs = "relations between objects"
    ask: str = "Which of these does the picture show?"

    def fits(self, picture: AnnotatedImage) -> bool:
        return bool(picture.relations)

    def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
        """Yield questions about relations between two objects of an image, such as "the dog is
        under the table".

        The wrong options are other relations between the same two: first those that the first
        object has in any image, then all others. A relation is left out if the image has several
        objects with one of the two names.
        """
        single = single_objects(picture)
        askable: list[tuple[str, str, list[str]]] = []
        predicates_by_pair: dict[tuple[str, str], list[str]] = {}
        for relation in picture.relations:
            pair = picture.objects[relation.subject].name, picture.objects[relation.object].name
            predicates_by_pair.setdefault(pair, []).append(relation.predicate)
        for (subject, target), predicates in predicates_by_pair.items():
            if subject not in single or target not in single:
                yield Exclusion(
                    "several objects of the name, so that it does not say which is meant"
                )
                continue
            askable.append((subject, target, predicates))
        for subject, target, predicates in draw_at_most(
            askable, self.most, source.rng("relation", picture.id)
        ):
            answers = [_statement(subject, predicate, target) for predicate in predicates]
            of_subject = [
                _statement(subject, predicate, target) for predicate in source.predicates[subject]
            ]
            of_any = [_statement(subject, predicate, target) for predicate in source.predicates[""]]
            question = choice_question(self.ask, answers, of_subject, of_any)
            yield FormedQuestion(f"{subject}-{target}", (question,), predicates[0])


def _statement(subject: str, predicate: str, target: str) -> str:
    return f"the {subject} {predicate} the {target}"
