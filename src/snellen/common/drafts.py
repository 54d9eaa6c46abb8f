"""What readers yield: drafts of questions, what people wrote about images, and what is left out and why."""

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
from snellen.errors import DataError
from snellen.records import Box, Region, RowRef

PARAMS = "source.params"
"""How the faults of an entry's parameters begin, by their key in its file."""
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

    Examples:
        >>> image = LazyImage("birds.zip/wren.png", lambda: b"...")
        >>> image.read()
        b'...'
    """

    place: str
    """Its location, unique to the image."""
    read: Callable[[], bytes]


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
"""An image's file: its bytes, where it lies, or how to read it."""


def image_bytes(file: ImageFile, where: str) -> bytes:
    """Return the content of an image's file. Raises DataError, naming `where`, when it cannot be read.

    Examples:
        >>> image_bytes(b"...", "animals.csv:2")
        b'...'
    """
    if isinstance(file, bytes):
        return file
    if isinstance(file, LazyImage):
        return file.read()
    try:
        return read_file(file, IMAGE_BYTES)
    except OSError as error:
        raise DataError(f"{where}: cannot read the image {file} ({error.strerror})") from None


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
    """What turns an open question into multiple choice; the first of its `texts` becomes the gold.

    Examples:
        >>> DistractorSpec(tiers=(("a wolf", "a fox"), ("a house",))).tiers[0]
        ('a wolf', 'a fox')
    """

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
    names: numbers nearby, places in the image, yes and no."""


class QuestionDraft(Struct, frozen=True):
    """One question with its gold; a draft that is not a dialogue has one round.

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
    """How right each option is, from 0 for wrong; empty when unknown."""
    may_repeat: bool = False
    """Whether options may say the same, as in a file that others published: only their labels tell them apart."""
    candidates: tuple[str, ...] = ()
    """Answers published beside an open question, for metrics that read all of them."""


class Draft(Struct, frozen=True):
    """A question as read from a source. `where` is the file and line for error messages.

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
    """Why the question is excluded from the benchmark and stored next to it; empty for other questions."""
    stratum: str = ""
    """Group that sampling balances, such as the answer, the category of an object or the type of the question."""


ParamsT = TypeVar("ParamsT")


def read_params(params: dict[str, Any], form: type[ParamsT]) -> ParamsT:
    """Return the parameters of a source as a typed record. Raises DataError for an unknown or invalid one, by its key.

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
    """Which of the image's objects, from 0."""
    predicate: str
    object: int


class TextLine(Struct, frozen=True):
    """A text that can be read in an image, and where."""

    text: str
    box: Box | None = None


class OpenQuestion(Struct, frozen=True):
    """An open question about an image with the answers that are accepted, the usual one first."""

    question: str
    answers: tuple[str, ...]
    kind: str = ""
    """The question's type, where the source names one."""


class AnnotatedImage(Struct, frozen=True):
    """An image with all that is said of it; most sources have one or two of these.

    Examples:
        >>> AnnotatedImage("1", Path("1.png"), "labels.csv:2", labels=("cherry",)).labels
        ('cherry',)
    """

    id: str
    file: ImageFile
    where: str
    """File and line, for error messages."""
    labels: tuple[str, ...] = ()
    """The names of its class, the usual one first; the others would also be right."""
    attributes: dict[str, str] = {}
    """What is said of the whole image, by the attribute's name: weather, age."""
    objects: tuple[AnnotatedObject, ...] = ()
    absent: tuple[str, ...] = ()
    """Names that were looked for and not found, where the source lists them (LVIS)."""
    is_exhaustive: bool = True
    """Whether every object of the source's names is listed, so that a name that is missing is not in the image."""
    incomplete: tuple[str, ...] = ()
    """Names of objects of which some may not be marked, so that they cannot be counted (LVIS)."""
    relations: tuple[Relation, ...] = ()
    captions: tuple[str, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    texts: tuple[TextLine, ...] = ()
    fields: dict[str, tuple[str, ...]] = {}
    """Entries of a form by key, each with its accepted values: total, date."""
    group: str = ""
    """What images share that are not independent: a scene, a document; the image itself when empty."""
    tags: dict[str, str] = {}


NO_WORD = "no letter or digit in the answer, so any reply would match"


class Exclusion(Struct, frozen=True):
    """An item that a reader excludes from the questions.

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
    """Yield the drafts among drafts and exclusions (records of which no question is made).

    The last draft gets notes on how many items were excluded, and why.

    Args:
        items: The drafts and exclusions.
        path: The file that they come from, for notes and messages.
        expected: Notes for reasons that are expected: each is given if no item was excluded for its reason.

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
