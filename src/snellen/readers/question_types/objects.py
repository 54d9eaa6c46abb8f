"""Which objects are in a picture, and how many."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Literal

from snellen.common.annotations import AnnotatedObject, AnnotatedPicture
from snellen.common.drafts import Outline
from snellen.readers.exclusions import Exclusion
from snellen.readers.object_presence import NegativeRule, ranked_negatives
from snellen.readers.question_types.declaration import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    QuestionType,
    choice,
    names_in,
    some,
)
from snellen.readers.wording import phrased, plural
from snellen.records import Box

MOST_NUMBERS = 12
"""Options that a question about a number can have."""
Ranking = Callable[[str], list[str]]


class PresenceQuestions(QuestionType, frozen=True):
    """Is there a dog in the picture? As often yes as no, for each picture."""

    needs = "names of objects"
    ask: str = "Is there a {name} in the picture?"
    negatives: Literal["even", NegativeRule] = "even"
    """Which name that is not there is asked for: `even`, a name as often as it is there in other pictures, so that it
    says nothing of the answer; or one of POPE's rules (Li et al. 2023)."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.objects)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        present = frozenset(names_in(picture))
        if not picture.is_exhaustive and not picture.absent:
            yield Exclusion("it is not said which names are missing in the picture")
            return
        may_be_absent = frozenset(picture.absent or source.names) - present
        rng = source.rng("presence", picture.id)
        for name in some(names_in(picture), self.most, rng):
            negative = self._negative(name, may_be_absent, source, rng)
            if not negative:
                yield Exclusion("every name that could be missing is in the picture")
                return
            may_be_absent -= {negative}
            yield self._formed(name, "yes")
            yield self._formed(negative, "no")

    def _negative(self, name: str, absent: frozenset[str], source: AnnotatedSource, rng: random.Random) -> str:
        """A name that is not in the picture; empty when there is none."""
        if not absent:
            return ""
        if self.negatives == "even":
            for _ in range(100):
                if (drawn := rng.choice(source.occurrences)) in absent:
                    return drawn
        elif self.negatives != "random":
            ranking = source.once(_popular if self.negatives == "popular" else _adversarial)(name)
            if first := next((other for other in ranking if other in absent), ""):
                return first
        return rng.choice(sorted(absent))

    def _formed(self, name: str, answer: str) -> FormedQuestion:
        return FormedQuestion(name, (choice(phrased(self.ask, name=name), (answer,), closed=True),), answer)


def _popular(source: AnnotatedSource) -> Ranking:
    return ranked_negatives([names_in(picture) for picture in source.pictures], "popular")


def _adversarial(source: AnnotatedSource) -> Ranking:
    return ranked_negatives([names_in(picture) for picture in source.pictures], "adversarial")


class CountQuestions(QuestionType, frozen=True):
    """How many dogs are in the picture? Numbers nearby are the distractors."""

    needs = "objects, all of a name"
    ask: str = "How many {names} are in the picture?"
    largest: int = 10
    """Larger numbers are not asked for."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.objects)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        crowds = {thing.name for thing in picture.objects if thing.is_crowd}
        askable = []
        for name, number in Counter(thing.name for thing in picture.objects).items():
            if name in crowds:
                yield Exclusion("a crowd that was not counted")
            elif name in picture.incomplete:
                yield Exclusion("not all objects of the name are marked")
            elif number > self.largest:
                yield Exclusion(f"more than {self.largest} of a kind")
            else:
                askable.append((name, number))
        rng = source.rng("count", picture.id)
        for name, number in some(askable, self.most, rng):
            text = phrased(self.ask, names=plural(name), name=name)
            question = choice(text, (str(number),), *numbers_nearby(number, rng), closed=True)
            yield FormedQuestion(name, (question,), str(number))


def numbers_nearby(number: int, rng: random.Random, least: int = 0) -> list[tuple[str, ...]]:
    """Numbers as a ranking, so that however many are taken, they and `number` follow one another, and `number` is as
    likely to be the least of them, the next and so on; near `least` they begin there."""
    ranking: list[tuple[str, ...]] = []
    share, below, above = rng.random(), number, number
    for options in range(2, MOST_NUMBERS + 1):
        if int(share * options) > int(share * (options - 1)) and below > least:
            below -= 1
            ranking.append((str(below),))
        else:
            above += 1
            ranking.append((str(above),))
    return ranking


class ObjectClassQuestions(QuestionType, frozen=True):
    """What is in the red box? Names of the same kind come first, none of which is in the picture."""

    needs = "objects with boxes"
    ask: str = ""
    show: Literal["box", "crop"] = "box"
    """Whether the box is drawn on the picture, or cut out of it."""
    smallest: float = 24
    """Pixels that a box has at least in width and height."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        return any(thing.box for thing in picture.objects)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        askable = []
        for place, thing in enumerate(picture.objects):
            if thing.box is None:
                continue
            if why := self._doubt(thing, thing.box, picture):
                yield Exclusion(why)
            else:
                askable.append((place, thing, thing.box))
        for place, thing, box in some(askable, self.most, source.rng("object-class", picture.id)):
            others = [name for name in names_in(picture) if name != thing.name]
            tiers = (source.names_by_kind[thing.kind], source.names) if thing.kind else (source.names,)
            own = "What is the object in the red box?" if self.show == "box" else "What does the picture show?"
            question = choice(self.ask or own, (thing.name,), *tiers, also_right=others)
            outlines, crop = ((Outline(box, width=3),), None) if self.show == "box" else ((), box)
            yield FormedQuestion(str(place), (question,), thing.name, outlines, crop)

    def _doubt(self, thing: AnnotatedObject, box: Box, picture: AnnotatedPicture) -> str:
        """Why the box does not show one object clearly; empty when it does."""
        if thing.is_crowd:
            return "a crowd in the box"
        if min(box[2:]) < self.smallest:
            return f"the box is smaller than {self.smallest:g} pixels"
        others = (other.box for other in picture.objects if other.box and other.name != thing.name)
        if any(shared_area(box, other) > 0.5 for other in others):
            return "another object fills much the same box"
        return ""


def shared_area(first: Box, second: Box) -> float:
    """The area that two boxes share, over the area that they cover together."""
    width = min(first[0] + first[2], second[0] + second[2]) - max(first[0], second[0])
    height = min(first[1] + first[3], second[1] + second[3]) - max(first[1], second[1])
    shared = max(width, 0) * max(height, 0)
    return shared / (first[2] * first[3] + second[2] * second[3] - shared)
