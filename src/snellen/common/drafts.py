"""Records that readers yield: drafts of questions, annotated images, and items that are left out, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.faults import locate_fault
from snellen.common.foreign import IMAGE_BYTES, read_file
from snellen.errors import DataError, HookError, SnellenError
from snellen.records import Box, Region, RowRef

PARAMS = "source.params"
"""Beginning of error messages about the parameters of a catalogue entry: their key in its file."""
Colour = tuple[int, int, int]


class Outline(Struct, frozen=True):
    """A rectangle to draw on an image, with a line `width` pixels wide inside its box.

    Examples:
        >>> Outline((10, 20, 110, 80), colour="red", width=2).box
        (10, 20, 110, 80)
    """

    box: Box
    colour: Colour = (255, 0, 0)
    width: int = 2


class LazyImage(Struct, frozen=True):
    """An image inside a larger file; `read` is called when the image is needed, and raises DataError.

    `read` returns the bytes of an image file, such as a PNG.

    Examples:
        >>> image = LazyImage("birds.zip/wren.png", lambda: b"...")
        >>> image.read()
        b'...'
    """

    place: str
    """Its location, unique to the image."""
    read: Callable[[], bytes]
    """Function without arguments that returns the bytes of an image file."""


class ClipFrame(Struct, frozen=True):
    """An image out of a clip, and its name: `clip.mp4#t=1.25` with seconds from the clip's beginning.

    Examples:
        >>> ClipFrame("clip.mp4#t=1.25", b"...", time=1.25).time
        1.25
    """

    name: str
    content: bytes
    time: float | None = None
    """Seconds from the clip's beginning; None in a folder of frames."""


class LazyFrames(Struct, frozen=True):
    """Images sampled from a clip, in order; `read` is called when they are needed, and raises DataError.

    Examples:
        >>> clip = LazyFrames("clip.mp4", lambda: [ClipFrame("clip.mp4#t=0", b"...", 0.0)])
        >>> [frame.time for frame in clip.read()]
        [0.0]
    """

    place: str
    """Its location, unique to the clip."""
    read: Callable[[], Iterable[ClipFrame]]


ImageFile = bytes | Path | LazyImage
"""The file of an image: its bytes, its path, or a function that reads it."""


def image_bytes(file: ImageFile, where: str) -> bytes:
    """Return the content of an image's file. Raises DataError, naming `where`, when it cannot be read.

    Examples:
        >>> image_bytes(b"...", "animals.csv:2")
        b'...'
    """
    if isinstance(file, bytes):
        return file
    if isinstance(file, LazyImage):
        return _lazy_bytes(file, where)
    try:
        return read_file(file, IMAGE_BYTES)
    except OSError as error:
        raise DataError(f"{where}: cannot read the image {file} ({error.strerror})") from None


def _lazy_bytes(image: LazyImage, where: str) -> bytes:
    """Return what the function of an image returns, which may be code of another package. Raises HookError, DataError."""
    try:
        content = image.read()
    except (SnellenError, OSError):
        raise
    except Exception as error:  # foreign code may raise anything
        raise HookError(f"{where}: the image {image.place} cannot be read", error) from error
    if not isinstance(content, bytes):
        raise DataError(
            f"{where}: the function of the LazyImage {image.place} returned a {type(content).__name__}; it has to return "
            "the bytes of an image file"
        )
    return content


class ImageSpec(Struct, frozen=True):
    """An image as its question shows it: cropped to `crop`, with `outlines` drawn on it.

    Examples:
        >>> picture = ImageSpec(Path("street.jpg"), outlines=(Outline((10, 20, 110, 80)),))
        >>> len(picture.outlines)
        1
    """

    file: ImageFile
    crop: Box | None = None
    outlines: tuple[Outline, ...] = ()


DistractorPrompt = Literal["", "options", "rationales", "dialogue"]
"""Which of ReForm-Eval's three prompts (A.4, A.8) asks a model for distractors."""


class DistractorSpec(Struct, frozen=True):
    """Candidates for the wrong options (distractors) that turn an open question into a multiple-choice question.

    The first of the question's `texts` becomes the correct option.

    Examples:
        >>> DistractorSpec(tiers=(("a wolf", "a fox"), ("a house",))).tiers[0]
        ('a wolf', 'a fox')
    """

    tiers: tuple[Sequence[str], ...] = ()
    """Candidates in groups (tiers), the most similar to the correct answer first. Those of the first tier are used up
    before one of the next tier is used."""
    fillers: tuple[str, ...] = ()
    """Options used when the candidates run out: Not sure, Unknown."""
    prompt: DistractorPrompt = ""
    """The prompt for a model that writes them, as in the paper; the tiers are for builds without a model."""
    rationale: str = ""
    """The correct answer that the rationales explain (prompt `rationales`)."""
    question: str = ""
    """The question as shown to a writer; the round's own when empty."""
    also_right: tuple[str, ...] = ()
    """Answers that would also be correct, in addition to all `texts`. They are not used as distractors."""
    allow_fewer: bool = False
    """Whether fewer options than requested are acceptable."""
    closed: bool = False
    """Whether only these candidates are used, in their order, also if the user names another source of distractors.

    This is so for numbers near the correct one, positions in the image, and yes and no."""


class QuestionDraft(Struct, frozen=True):
    """A question with its correct answers. A draft that is not a dialogue has one such question.

    Examples:
        >>> QuestionDraft("Which animal?", ("a cat", "a dog"), gold=(1,)).options
        ('a cat', 'a dog')
    """

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
    """How relevant each option is as an answer, from 0 for wrong; empty if this is not known."""
    may_repeat: bool = False
    """Whether several options may have the same text, as in some published files. Only their labels differ then."""
    candidates: tuple[str, ...] = ()
    """Candidate answers that were published with an open question, for metrics that rank all of them."""


class Draft(Struct, frozen=True):
    """A question, or a dialogue, as read from a source. `where` is the file and line for error messages.

    Examples:
        >>> draft = Draft("q1", (QuestionDraft("Which animal?", ("a cat", "a dog"), gold=(1,)),), where="animals.csv:2")
        >>> draft.rounds[0].gold
        (1,)
    """

    id: str
    rounds: tuple[QuestionDraft, ...]
    images: tuple[ImageFile | ImageSpec | LazyFrames, ...] = ()
    where: str = ""
    dialogue: bool = False
    context: str | None = None
    regions: tuple[Region, ...] = ()
    group: str = ""
    tags: dict[str, str] = {}
    """Tags that do not reveal the answer. Protocols, runs and pages can use them."""
    answer_tags: dict[str, str] = {}
    """Tags that equal the answer or follow from it. Only scoring can use them."""
    judge_notes: dict[str, tuple[str, ...]] = {}
    """Texts for the prompt of a judge by name. They are stored with the answers."""
    replies: tuple[str, ...] = ()
    """The published history of a dialogue, one reply per round."""
    rows: tuple[RowRef, ...] = ()
    """The file rows that show this question, if they are needed to write the file again."""
    cells: dict[str, str] = {}
    """Cells of the first row that are kept only for that purpose."""
    notes: tuple[str, ...] = ()
    """Notes about the file for the user; a reader may attach them to any draft."""
    set_apart: tuple[str, ...] = ()
    """Why the question is left out from the benchmark and stored next to it; empty for other questions."""
    stratum: str = ""
    """Group that sampling balances, such as the answer, the category of an object or the type of the question."""


ParamsT = TypeVar("ParamsT")


def read_params(params: dict[str, Any], form: type[ParamsT]) -> ParamsT:
    """Convert the parameters of a source to a typed record.

    Raises:
        DataError: A parameter is unknown or invalid. The message names its key.

    Examples:
        >>> class Params(Struct, forbid_unknown_fields=True):
        ...     file: str
        ...     limit: int = 10
        >>> read_params({"file": "birds.csv"}, Params).limit
        10
    """
    try:
        return msgspec.convert(params, form)
    except msgspec.ValidationError as error:
        raise DataError(f"{PARAMS}{': '.join(locate_fault(error, form, params))}") from None


SourceReader = Callable[[dict[str, Any], Path | None], Iterable[Draft]]
"""A source: `read(params, folder)` yields drafts; `folder` holds the user's files, if any are needed."""


Polygon = tuple[float, ...]
"""x, y, x, y ... in pixels of the image as it is stored."""


class AnnotatedObject(Struct, frozen=True):
    """An object in an image.

    Examples:
        >>> AnnotatedObject("dog", box=(10, 20, 110, 80)).name
        'dog'
    """

    name: str
    box: Box | None = None
    """Left, top, width and height in pixels of the image as it is stored."""
    mask: tuple[Polygon, ...] = ()
    """Its outline as polygons; several if another object covers a part of it."""
    attributes: dict[str, str] = {}
    """Values of its attributes, such as colour and material, by name."""
    kind: str = ""
    """The more general category of its name, such as COCO's supercategory."""
    is_crowd: bool = False
    """Whether it is a group of objects that were not annotated one by one."""


class Relation(Struct, frozen=True):
    """`subject predicate object`: the man holds the cup."""

    subject: int
    """Which of the image's objects, from 0."""
    predicate: str
    object: int


class TextLine(Struct, frozen=True):
    """A text that can be read in an image, and its position."""

    text: str
    box: Box | None = None


class OpenQuestion(Struct, frozen=True):
    """An open question about an image with the answers that are accepted, the usual one first."""

    question: str
    answers: tuple[str, ...]
    kind: str = ""
    """The question's type, where the source names one."""


class AnnotatedImage(Struct, frozen=True):
    """An image with its annotations. Most sources have one or two kinds of them.

    Examples:
        >>> AnnotatedImage("1", Path("1.png"), "labels.csv:2", labels=("cherry",)).labels
        ('cherry',)
    """

    id: str
    file: ImageFile
    where: str
    """File and line, for error messages."""
    labels: tuple[str, ...] = ()
    """The names of its class, the usual one first; the others would also be correct."""
    attributes: dict[str, str] = {}
    """Values of the attributes of the complete image, such as weather and age, by name."""
    objects: tuple[AnnotatedObject, ...] = ()
    absent: tuple[str, ...] = ()
    """Categories that the annotators looked for and did not find, if the source lists them (LVIS)."""
    is_exhaustive: bool = True
    """Whether all objects of the source's categories are annotated, so that a category without one is not in the image."""
    incomplete: tuple[str, ...] = ()
    """Categories of which some objects may not be annotated, so that they cannot be counted (LVIS)."""
    relations: tuple[Relation, ...] = ()
    captions: tuple[str, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    texts: tuple[TextLine, ...] = ()
    fields: dict[str, tuple[str, ...]] = {}
    """Entries of a form by key, each with its accepted values: total, date."""
    group: str = ""
    """Name of the scene, document or the like that dependent images share; empty if the image is independent."""
    tags: dict[str, str] = {}


NO_WORD = "no letter or digit in the answer, so any reply would match"


class Exclusion(Struct, frozen=True):
    """A record of a source from which a reader makes no question, with the reason.

    Examples:
        >>> Exclusion("the image is missing").why
        'the image is missing'
    """

    why: str


def without_exclusions(
    items: Iterable[Draft | Exclusion],
    path: Path,
    expected: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Draft]:
    """Yield the drafts, and drop the exclusions (records of the source from which no question is made).

    The last draft gets notes on how many records were left out, and why.

    Args:
        items: The drafts and exclusions.
        path: The file that they come from, for notes and messages.
        expected: Notes on reasons that are expected, by reason. The note is given if no record was left out for the
            reason.

    Raises:
        DataError: There is no draft.

    Examples:
        >>> drafts = [Draft("q1", (QuestionDraft("Which animal?"),)), Exclusion("no image")]
        >>> expected = {"no image": "images that the authors withdrew"}
        >>> [draft.id for draft in without_exclusions(drafts, Path("animals.csv"), expected)]
        ['q1']
    """
    count_by_reason: Counter[str] = Counter()
    last: Draft | None = None
    for item in items:
        if isinstance(item, Exclusion):
            count_by_reason[item.why] += 1
            continue
        if last is not None:
            yield last
        last = item

    notes: list[str] = []
    for reason, count in sorted(count_by_reason.items()):
        notes.append(f"{path.name}: {count} skipped: {reason}")
    for reason, note in expected.items():
        if not count_by_reason[reason]:
            notes.append(f"{path.name}: {note}")
    if last is None:
        parts = [f"{path}: no questions could be made from this file", *notes]
        raise DataError("; ".join(parts))
    yield replace(last, notes=(*last.notes, *notes))


def has_word(text: str) -> bool:
    """Return whether a text has a letter or digit.

    No word metric can score a ground truth without one (ReForm-Eval's FUNSD).
    """
    return any(character.isalnum() for character in text)


KeyT = TypeVar("KeyT", bound=Hashable)


def answer_pools(pairs: Iterable[tuple[KeyT, str]]) -> dict[KeyT, tuple[str, ...]]:
    """Return the distinct answers of each key, in order of first appearance.

    Examples:
        >>> answer_pools([("colour", "red"), ("count", "2"), ("colour", "blue"), ("colour", "red")])
        {'colour': ('red', 'blue'), 'count': ('2',)}
    """
    pools: dict[KeyT, dict[str, None]] = {}
    for key, answer in pairs:
        pool = pools.setdefault(key, {})
        pool[answer] = None
    return {key: tuple(pool) for key, pool in pools.items()}


def by_votes(answers: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct answers of several annotators, the most frequent first, ties in order of appearance.

    Answers are stripped of white space, and empty ones are left out.

    Examples:
        >>> by_votes(["red", "dark red ", "red", ""])
        ('red', 'dark red')
    """
    counts: Counter[str] = Counter()
    for answer in answers:
        text = answer.strip()
        if text:
            counts[text] += 1
    return tuple(answer for answer, _ in counts.most_common())
