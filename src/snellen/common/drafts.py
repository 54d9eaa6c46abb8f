"""What a reader yields: a question with its gold and its pictures, before it is checked and split."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.errors import DataError
from snellen.records import Box, Region, RowRef

PARAMS = "source.params"
"""How the faults of an entry's parameters begin, by their key in its file."""
Colour = tuple[int, int, int]


class Outline(Struct, frozen=True):
    """A rectangle to draw on a picture, with a line `width` pixels wide inside its box."""

    box: Box
    colour: Colour = (255, 0, 0)
    width: int = 2


class LazyImage(Struct, frozen=True):
    """A picture inside a larger file; `read` is called when the picture is needed, and raises DataError."""

    place: str
    """Its location, unique to the picture."""
    read: Callable[[], bytes]


class Frame(Struct, frozen=True):
    """A picture out of a clip, and its name: `clip.mp4#t=1.25` with seconds from the clip's beginning."""

    name: str
    content: bytes
    time: float | None = None
    """Seconds from the clip's beginning; None in a folder of frames."""


class LazyFrames(Struct, frozen=True):
    """Pictures sampled from a clip, in order; `read` is called when they are needed, and raises DataError."""

    place: str
    """Its location, unique to the clip."""
    read: Callable[[], Iterable[Frame]]


ImageFile = bytes | Path | LazyImage
"""A picture's file: its bytes, where it lies, or how to read it."""


def picture_bytes(file: ImageFile, where: str) -> bytes:
    """The content of a picture's file. Raises DataError, naming `where`, when it cannot be read."""
    if isinstance(file, bytes):
        return file
    if isinstance(file, LazyImage):
        return file.read()
    try:
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise DataError(f"{where}: {file} is a device or a pipe, not a file with an image")
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{where}: cannot read the image {file} ({error.strerror})") from None


class PictureSpec(Struct, frozen=True):
    """A picture as its question shows it: cropped to `crop`, with `outlines` drawn on it."""

    file: ImageFile
    crop: Box | None = None
    outlines: tuple[Outline, ...] = ()


DistractorPrompt = Literal["", "options", "rationales", "dialogue"]
"""Which of ReForm-Eval's three prompts (A.4, A.8) asks a model for distractors."""


class DistractorSpec(Struct, frozen=True):
    """What turns an open question into multiple choice; the first of its `texts` becomes the gold."""

    tiers: tuple[Sequence[str], ...] = ()
    """Distractor candidates, the nearest tier first; tiers of one candidate each are a ranking."""
    fillers: tuple[str, ...] = ()
    """Options used when the candidates run out: Not sure, Unknown."""
    prompt: DistractorPrompt = ""
    """The prompt for a model that writes them, as in the paper; the tiers are for builds without a model."""
    rationale: str = ""
    """The gold answer that the rationales explain (prompt `rationales`)."""
    question: str = ""
    """The question as shown to a writer; the round's own when empty."""
    also_right: tuple[str, ...] = ()
    """Answers that would also be right, besides all the `texts`."""
    allow_fewer: bool = False
    """Whether fewer options than requested are acceptable."""
    closed: bool = False
    """Whether the tiers are all that there is to choose from, in their order, whatever source of distractors a build
    names: numbers nearby, places in the picture, yes and no."""


class QuestionDraft(Struct, frozen=True):
    """One question with its gold; a draft that is not a dialogue has one round."""

    question: str
    options: tuple[str, ...] = ()
    gold: tuple[int, ...] = ()
    """Correct options by index; empty for an open question or a hidden answer."""
    texts: tuple[str, ...] = ()
    """Reference texts of an open question; empty when hidden."""
    distractors: DistractorSpec | None = None
    """Set when distractors are still needed."""
    rewordings: tuple[str, ...] = ()
    """Rewordings of the question in the source; presentations alternate between them."""
    relevance: tuple[float, ...] = ()
    """How right each option is, from 0 for wrong; empty when unknown."""
    may_repeat: bool = False
    """Whether options may say the same, as in a file that others published: only their labels tell them apart."""
    candidates: tuple[str, ...] = ()
    """Answers published beside an open question, for metrics that read all of them."""


class Draft(Struct, frozen=True):
    """A question as read from a source. `where` is the file and line for error messages."""

    id: str
    rounds: tuple[QuestionDraft, ...]
    images: tuple[ImageFile | PictureSpec | LazyFrames, ...] = ()
    where: str = ""
    dialogue: bool = False
    context: str | None = None
    regions: tuple[Region, ...] = ()
    group: str = ""
    tags: dict[str, str] = {}
    """Tags that tell nothing of the answer: models' protocols, runs and pages see them."""
    answer_tags: dict[str, str] = {}
    """Tags that equal the answer or follow from it; only scoring sees them."""
    replies: tuple[str, ...] = ()
    """The published history of a dialogue, one reply per round."""
    rows: tuple[RowRef, ...] = ()
    """The file rows that show this question, if they are needed to write the file again."""
    cells: dict[str, str] = {}
    """Cells of the first row that are kept only for that purpose."""
    notes: tuple[str, ...] = ()
    """Notes about the file for the user; a reader may attach them to any draft."""
    set_apart: tuple[str, ...] = ()
    """Why it is kept beside the benchmark and never asked; empty for a question that is."""
    stratum: str = ""
    """What sampling balances by, such as the answer, the object's category or the question's type."""


ParamsT = TypeVar("ParamsT")


def read_params(params: dict[str, Any], form: type[ParamsT]) -> ParamsT:
    """The parameters of a source as a typed record. Raises DataError for an unknown or invalid one, by its key."""
    try:
        return msgspec.convert(params, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{PARAMS}{_told(str(error), form)}") from None


def _told(fault: str, form: Any) -> str:
    """A fault that msgspec found, by its key: `.records: unknown field 'fild'; did you mean file?`"""
    message, _, where = fault.partition(" - at `$")
    path = where.rstrip("`")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message)
    if unknown is None:
        return f"{path}: {message}"
    for step in re.findall(r"\w+", path):
        kind = get_type_hints(form).get(step)
        form = next((inner for inner in (kind, *get_args(kind)) if hasattr(inner, "__struct_fields__")), form)
    return f"{path}: {registry.unknown('field', unknown[1], form.__struct_fields__)}"


SourceReader = Callable[[dict[str, Any], Path | None], Iterable[Draft]]
"""A source: `read(params, folder)` yields drafts; `folder` holds the user's files, if any are needed."""
