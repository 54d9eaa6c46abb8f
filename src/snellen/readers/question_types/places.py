"""Where objects are, how large, and how they are related."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Literal

from snellen.common.annotations import AnnotatedObject, AnnotatedPicture, Polygon
from snellen.readers.exclusions import Exclusion
from snellen.readers.question_types.declaration import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    QuestionType,
    choice,
    single_objects,
    some,
)
from snellen.readers.wording import phrased
from snellen.records import Box

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
        rng, askable = source.rng("spatial", picture.id), []
        for pair in combinations(things, 2):
            (thing, box), (other, other_box) = pair if rng.random() < 0.5 else reversed(pair)
            if direction := direction_of(box, other_box):
                wrong = [word for word in _APART if word != direction and not _APART[word](box, other_box)]
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
"""What is true besides the plainest direction is no distractor: far to the left and a little above is above too."""


def direction_of(box: Box, other: Box) -> str:
    """Where a box is as seen from another one: apart from it, and at most half as far off in the other direction."""
    across = box[0] + box[2] / 2 - other[0] - other[2] / 2
    down = box[1] + box[3] / 2 - other[1] - other[3] / 2
    if abs(down) <= abs(across) / 2 and abs(across) >= (box[2] + other[2]) / 2:
        return "left of" if across < 0 else "right of"
    if abs(across) <= abs(down) / 2 and abs(down) >= (box[3] + other[3]) / 2:
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
        rng, askable = source.rng("size", picture.id), []
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
        single, askable = single_objects(picture), []
        stated: dict[tuple[str, str], list[str]] = {}
        for relation in picture.relations:
            pair = picture.objects[relation.subject].name, picture.objects[relation.object].name
            stated.setdefault(pair, []).append(relation.predicate)
        for (subject, target), predicates in stated.items():
            if subject not in single or target not in single:
                yield Exclusion("several objects of the name, so that it does not say which is meant")
                continue
            askable.append((subject, target, predicates))
        for subject, target, predicates in some(askable, self.most, source.rng("relation", picture.id)):
            tiers = [
                [_stated(subject, predicate, target) for predicate in source.predicates[name]] for name in (subject, "")
            ]
            answers = [_stated(subject, predicate, target) for predicate in predicates]
            question = choice(self.ask, answers, *tiers)
            yield FormedQuestion(f"{subject}-{target}", (question,), predicates[0])


def _stated(subject: str, predicate: str, target: str) -> str:
    return f"the {subject} {predicate} the {target}"
