"""What a type of question declares, and what it may know of the whole source.

A type is a frozen record of its settings, which an entry gives by name: `{ type = "count", largest = 5 }`. It says
which pictures it fits, and makes questions of one; what cannot be asked without doubt is an `Exclusion` with a reason.
Another package adds a type by an entry point in the group `snellen.question_types`.

What a picture, or an object in it, is said to be: its class, and its attributes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from msgspec import Struct

from snellen.common.annotations import AnnotatedObject, AnnotatedPicture
from snellen.common.drafts import DistractorSpec, Outline, QuestionDraft, picture_bytes
from snellen.common.images import stored_size
from snellen.common.seeds import rng_for
from snellen.readers.exclusions import Exclusion, answer_pools
from snellen.readers.wording import phrased
from snellen.records import Box

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
            self._sizes[picture.id] = stored_size(head or picture_bytes(picture.file, picture.where), picture.where)
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
        return answer_pools((thing.kind, thing.name) for picture in self.pictures for thing in picture.objects)

    @cached_property
    def occurrences(self) -> Pool:
        """The distinct names of each picture's objects, one picture after the other: a name as often as it is seen."""
        return tuple(name for picture in self.pictures for name in names_in(picture))

    @cached_property
    def attributes(self) -> dict[str, Pool]:
        """The values of each attribute, of pictures and of objects."""
        return answer_pools(
            pair for picture in self.pictures for attributes in attributes_in(picture) for pair in attributes.items()
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
            (key, values[0]) for picture in self.pictures for key, values in picture.fields.items() if values
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
    ask: str = ""
    """The question's text in place of the type's own, with the same words in braces."""
    most: int = 3
    """Questions of a picture, drawn at random; 0 for all."""

    def fits(self, picture: AnnotatedPicture) -> bool:
        """Whether the picture has these annotations."""
        raise NotImplementedError

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        """The questions of a picture that fits, and what is left out of it."""
        raise NotImplementedError


def some(items: Sequence[ItemT], most: int, rng: random.Random) -> list[ItemT]:
    """At most so many of the items, drawn at random, in their order; 0 for all."""
    if not most or len(items) <= most:
        return list(items)
    return [items[place] for place in sorted(rng.sample(range(len(items)), most))]


def choice(
    text: str, answers: Sequence[str], *tiers: Sequence[str], also_right: Sequence[str] = (), closed: bool = False
) -> QuestionDraft:
    """A question with an accepted answer or several, the usual one first, and candidates for distractors."""
    spec = DistractorSpec(tiers=tiers, also_right=tuple(also_right), allow_fewer=True, closed=closed)
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
        with file.open("rb") as opened:
            return opened.read(1 << 18)
    except OSError:
        return b""


def _distinct(texts: Iterable[str]) -> Pool:
    return tuple(dict.fromkeys(texts))


class ClassQuestions(QuestionType, frozen=True):
    """What does the picture show? The other classes are candidates."""

    needs = "a class"
    ask: str = "What does the picture show?"

    def fits(self, picture: AnnotatedPicture) -> bool:
        return bool(picture.labels)

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
        return any(self.of in ("", attribute) for attributes in attributes_in(picture) for attribute in attributes)

    def questions(self, picture: AnnotatedPicture, source: AnnotatedSource) -> Formed:
        askable = [
            (attribute, value, "") for attribute, value in picture.attributes.items() if self.of in ("", attribute)
        ]
        single = single_objects(picture)
        for thing in picture.objects:
            for attribute, value in thing.attributes.items():
                if self.of in ("", attribute):
                    if thing.name in single:
                        askable.append((attribute, value, thing.name))
                    else:
                        yield Exclusion("several objects of the name, so that it does not say which is meant")
        for chosen in some(askable, self.most, source.rng("attribute", picture.id)):
            yield self._formed(*chosen, source)

    def _formed(self, attribute: str, value: str, name: str, source: AnnotatedSource) -> FormedQuestion:
        own = "What is the {attribute} of the {name}?" if name else "What is the {attribute} in the picture?"
        text = phrased(self.ask or own, attribute=attribute, name=name)
        question = choice(text, (value,), source.attributes[attribute])
        return FormedQuestion(f"{name} {attribute}".strip(), (question,), value)
