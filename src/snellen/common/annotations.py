"""What people wrote about a picture, in one form: readers of annotations yield it, question types make questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.common.drafts import ImageFile
from snellen.records import Box

Polygon = tuple[float, ...]
"""x, y, x, y ... in pixels of the picture as it is stored."""


class AnnotatedObject(Struct, frozen=True):
    """An object in a picture."""

    name: str
    box: Box | None = None
    """Left, top, width and height in pixels of the picture as it is stored."""
    mask: tuple[Polygon, ...] = ()
    """Its outline; several polygons where something stands before it."""
    attributes: dict[str, str] = {}
    """What is said of it, by the attribute's name: colour, material."""
    kind: str = ""
    """What its name is a kind of: COCO's supercategory."""
    is_crowd: bool = False
    """Whether it stands for several objects that were not told apart."""


class Relation(Struct, frozen=True):
    """`subject predicate object`: the man holds the cup."""

    subject: int
    """Which of the picture's objects, from 0."""
    predicate: str
    object: int


class TextLine(Struct, frozen=True):
    """A text that can be read in a picture, and where."""

    text: str
    box: Box | None = None


class OpenQuestion(Struct, frozen=True):
    """An open question about a picture with the answers that are accepted, the usual one first."""

    question: str
    answers: tuple[str, ...]
    kind: str = ""
    """The question's type, where the source names one."""


class AnnotatedPicture(Struct, frozen=True):
    """A picture with all that is said of it; most sources have one or two of these."""

    id: str
    file: ImageFile
    where: str
    """File and line, for error messages."""
    labels: tuple[str, ...] = ()
    """The names of its class, the usual one first; the others would also be right."""
    attributes: dict[str, str] = {}
    """What is said of the whole picture, by the attribute's name: weather, age."""
    objects: tuple[AnnotatedObject, ...] = ()
    absent: tuple[str, ...] = ()
    """Names that were looked for and not found, where the source lists them (LVIS)."""
    is_exhaustive: bool = True
    """Whether every object of the source's names is listed, so that a name that is missing is not in the picture."""
    incomplete: tuple[str, ...] = ()
    """Names of objects of which some may not be marked, so that they cannot be counted (LVIS)."""
    relations: tuple[Relation, ...] = ()
    captions: tuple[str, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    is_dialogue: bool = False
    """Whether the questions are rounds of one talk."""
    texts: tuple[TextLine, ...] = ()
    fields: dict[str, tuple[str, ...]] = {}
    """Entries of a form by key, each with its accepted values: total, date."""
    group: str = ""
    """What pictures share that are not independent: a scene, a document; the picture itself when empty."""
    tags: dict[str, str] = {}


AnnotationReader = Callable[[dict[str, Any], Path | None], Iterable[AnnotatedPicture]]
"""A source of annotations: `read(params, folder)` yields pictures, again from the beginning each time it is called."""
