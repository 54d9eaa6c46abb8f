"""Text in images (ReForm-Eval A.3): boxes in whole images, cropped or marked in place, and images of one word.

Layouts:

- `textocr`: `TextOCR_0.1_val.json` and `train_images`
- `coco-text`: `COCO_Text.json` (v1.4) and `train2014`
- `icdar`: one `gt_img_1.txt` per image (`x1,y1,...,x4,y4,TEXT`) and `ch4_test_images`

Words that the annotators call illegible or not English are left out and counted.

Images of single words (CUTE80, IC15, IIIT5K, COCO-Text, WordArt) come with label lists, as provided by the sites and
by recognition toolkits:

- `.txt`: `PATH<TAB>LABEL`, `PATH LABEL`, `word_1.png, "LABEL"` (ICDAR); with `doubled`, also `PATH LABEL 1 LABEL`
  (MMOCR's CUTE80)
- `_words_gt.txt`: `ID,LABEL`, with bars around a label that contains commas (COCO-Text's crops)
- `.jsonl`: `{"filename": ..., "text": ...}`
- `.json`: MMOCR's `data_list` of `img_path` and `instances[].text`
- `.mat`: IIIT5K's `testdata`

LMDB archives of the same images are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from snellen.common.drafts import (
    NO_WORD,
    Draft,
    Exclusion,
    ImageSpec,
    Outline,
    QuestionDraft,
    has_word,
    read_params,
    without_exclusions,
)
from snellen.common.drawing import from_corners
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text
from snellen.formats.json_files import JSON_FAULTS, json_lines, list_items, read_json
from snellen.formats.locate import base_of, locate_file, locate_or_none
from snellen.formats.pickles import read_mat
from snellen.records import Box, Region

SMALL = "the box is not larger than {0}"

Corners = Literal["all", "opposite"]


class Scenes(Struct, frozen=True, forbid_unknown_fields=True):
    """Which images to read, and how their words are shown."""

    layout: Literal["textocr", "coco-text", "icdar"]
    annotations: tuple[str, ...]
    """Names of the annotation file (icdar: folder); the first one found is used."""
    images: tuple[str, ...]
    split: str = "val"
    show: Literal["crop", "box"] = "crop"
    line: int = 2
    """Width of the outline in pixels."""
    larger_than: float = 0
    """Minimum (exclusive) length in pixels of both sides of a box."""
    area_above: float = 0
    """Minimum (exclusive) area of a box in square pixels (ReForm-Eval A.3: 40 x 40)."""
    corners: Corners = "all"
    """For the layout `icdar`, which has four corners of a possibly tilted box: whether the upright
    box contains all corners, or reaches from the first to the third.
    """


class _Word(NamedTuple):
    id: str
    picture: str
    box: Box
    text: str
    where: str


class _Annotation(Struct, frozen=True):
    image_id: str | int
    bbox: Box
    utf8_string: str = ""
    legibility: str = "legible"
    language: str = "english"


class _Image(Struct, frozen=True):
    file_name: str
    set: str


class _File(Struct, frozen=True):
    imgs: dict[str, _Image]
    anns: dict[str, msgspec.Raw]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each legible word, in the order of the annotations."""
    return read_scenes(read_params(params, Scenes), folder)


def read_scenes(scenes: Scenes, folder: Path | None) -> Iterator[Draft]:
    """Return questions about the words in images of scenes. Each question says by a box which word is meant.

    Args:
        scenes: Names of the files with annotations and of the folders with images.
        folder: The folder with the official files.
    """
    path = locate_file(folder, *scenes.annotations)
    if scenes.layout == "icdar":
        words = _icdar_words(path, scenes)
    else:
        words = _json_words(path, scenes)
    image_folders = [locate_or_none(folder, name) for name in scenes.images]
    possible_folders = (*image_folders, path.parent)
    return without_exclusions(_scene_drafts(words, scenes, possible_folders), path)


def _scene_drafts(
    words: Iterator[_Word | Exclusion], scenes: Scenes, bases: tuple[Path | None, ...]
) -> Iterator[Draft | Exclusion]:
    """Yield a question for each word, or an exclusion with the reason if the word has no letter or
    digit or its box is too small.

    The folder of the first word's image is used for all images.
    """
    base: Path | None = None
    for word in words:
        if isinstance(word, Exclusion):
            yield word
            continue
        if not has_word(word.text):
            yield Exclusion(NO_WORD)
            continue
        size_fault = _size_fault(word.box, scenes)
        if size_fault:
            yield Exclusion(size_fault)
            continue
        if base is None:
            base = base_of(word.picture, bases, word.where)
        yield _word_draft(word, base / word.picture, scenes)


def _size_fault(box: Box, scenes: Scenes) -> str:
    """Return why a box is too small to be asked about; empty if it is large enough."""
    width, height = box[2:]
    if min(width, height) <= 0:
        return "the box has no area"
    if min(width, height) <= scenes.larger_than:
        return SMALL.format(f"{scenes.larger_than:g} x {scenes.larger_than:g} pixels")
    if width * height <= scenes.area_above:
        return SMALL.format(f"{scenes.area_above:,g} square pixels")
    return ""


def _word_draft(word: _Word, file: Path, scenes: Scenes) -> Draft:
    """Return the question what a word says.

    The image has a box drawn around the word, or is cropped to it.
    """
    boxed = scenes.show == "box"
    if boxed:
        picture = ImageSpec(file, outlines=(Outline(word.box, width=scenes.line),))
    else:
        picture = ImageSpec(file, crop=word.box)
    return Draft(
        id=word.id,
        rounds=(reading_question(word.text, boxed=boxed),),
        images=(picture,),
        where=word.where,
        regions=(Region(word.box),) if boxed else (),
        group=PurePosixPath(word.picture).stem,
    )


def _json_words(path: Path, scenes: Scenes) -> Iterator[_Word | Exclusion]:
    """Yield the words of a split from TextOCR's or COCO-Text's file, and exclusions for words that are illegible or
    not English.

    TextOCR's file names contain a folder, which is dropped: all images are in one folder.
    """
    content = read_json(path, _File)
    decode = msgspec.json.Decoder(_Annotation).decode
    for id_, raw in content.anns.items():
        where = f"{path}: anns[{id_!r}]"
        try:
            annotation = decode(raw)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {error}") from None
        image = content.imgs.get(str(annotation.image_id))
        if image is None:
            raise DataError(f"{where}: there is no image {annotation.image_id}")
        if image.set != scenes.split:
            continue
        if annotation.legibility != "legible" or annotation.utf8_string == ".":
            yield Exclusion("the annotators could not read it")
        elif annotation.language == "not english":
            yield Exclusion("not English")
        else:
            yield _Word(
                id=id_,
                picture=PurePosixPath(image.file_name).name,
                box=annotation.bbox,
                text=annotation.utf8_string.strip(),
                where=where,
            )


def _icdar_words(folder: Path, scenes: Scenes) -> Iterator[_Word | Exclusion]:
    """Yield the words in the files `gt_img_1.txt`, `gt_img_2.txt` and so on, in the order of their
    numbers.

    Each line has one word.
    """
    files = sorted(folder.glob("gt_*.txt"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise DataError(f"{folder}: there is no gt_img_1.txt; unpack the annotations")
    for path in files:
        name = path.stem.removeprefix("gt_")
        with open_text(path) as file:
            for number, line in enumerate(DelimitedLines(file, path), 1):
                if line.strip():
                    yield _icdar_word(
                        line.strip(),
                        id_=f"{name}_{number}",
                        picture=f"{name}.jpg",
                        where=f"{path}:{number}",
                        span=scenes.corners,
                    )


def _icdar_word(line: str, id_: str, picture: str, where: str, span: Corners) -> _Word | Exclusion:
    """Return the word in a line `x1,y1,...,x4,y4,TEXT`, with an upright box around it.

    If the text is `###`, which means that it is illegible, an exclusion is returned instead.

    Args:
        line: The line, with the four corners of the word in pixels.
        id_: Id of the word.
        picture: Name of its image.
        where: File and line, for error messages.
        span: Whether the box contains all corners (`all`), or reaches from the first to the third
            (`opposite`). In the latter case it has no area if the first corner is not above and
            left of the third.
    """
    fault = f"{where}: {line!r} is not four corners x,y and a text"
    *corners, text = line.split(",", 8)
    try:
        xs = [float(x) for x in corners[0::2]]
        ys = [float(y) for y in corners[1::2]]
    except ValueError:
        raise DataError(fault) from None
    if len(xs) != 4 or len(ys) != 4:
        raise DataError(fault)
    if text.strip() == "###":
        return Exclusion("the annotators could not read it")
    if span == "opposite":
        box: Box = (xs[0], ys[0], max(xs[2] - xs[0], 0), max(ys[2] - ys[0], 0))
    else:
        box = from_corners(min(xs), min(ys), max(xs), max(ys))
    return _Word(id=id_, picture=picture, box=box, text=text.strip(), where=where)


# --- rewordings of the question, which presentations alternate, as in the published data ------------------------------


READING = (
    "Which text does the picture show?",
    "What word or words can be read in the image?",
    "What does the writing in this picture say?",
    "Which letters, digits and words are seen here?",
    "What is the text in the image?",
    "How does the writing in this picture read?",
)
READING_IN_BOX = (
    "Which text stands inside the red box?",
    "What word or words can be read within the red box?",
    "What does the writing in the red box say?",
    "Which letters, digits and words does the red box enclose?",
    "What is the text in the region that is marked in red?",
    "How does the writing within the red rectangle read?",
)


def reading_question(text: str, *, boxed: bool = False) -> QuestionDraft:
    """Return the open question what text an image shows or, with `boxed`, what text is in its red
    box.
    """
    question, *rewordings = READING_IN_BOX if boxed else READING
    return QuestionDraft(question, texts=(text,), rewordings=tuple(rewordings))


Word = tuple[str, str, str]
"""Location in the label file, path of the image, text."""

_QUOTED = re.compile(r'(\S+\.\w+),\s*"(.*)"')
_PAIR = re.compile(r"(\w+),(.*)")
_DOUBLED = re.compile(r"(.+) [01] \1")


class CropParams(Struct, frozen=True, forbid_unknown_fields=True):
    labels: tuple[str, ...]
    """Names of the label file; the first one found is used."""
    images: tuple[str, ...] = ()
    """Folders that paths are relative to, besides the label file's own."""
    doubled: bool = False
    """Whether a line may give its label twice."""
    scenes: Scenes | None = None
    """Whole images with boxes, from which words are cropped when there is no label file."""


class _Line(Struct, frozen=True):
    filename: str
    text: str


class _Instance(Struct, frozen=True):
    text: str


class _Item(Struct, frozen=True):
    img_path: str
    instances: tuple[_Instance, ...]


class _List(Struct, frozen=True):
    data_list: list[msgspec.Raw]


def read_crops(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Return a question for each image of a single word, in the order of the list of labels.

    If there is no such list, but the entry declares images of whole scenes, the words are cropped from those.

    Args:
        params: The entry's parameters (`CropParams`).
        folder: The folder with the official files.
    """
    chosen = read_params(params, CropParams)
    has_labels = locate_or_none(folder, *chosen.labels) is not None
    if chosen.scenes and folder and not has_labels:
        return read_scenes(chosen.scenes, folder)
    path = locate_file(folder, *chosen.labels)
    image_folders = [locate_or_none(folder, name) for name in chosen.images]
    possible_folders = (path.parent, *image_folders)
    return without_exclusions(_crop_drafts(path, possible_folders, doubled=chosen.doubled), path)


def _crop_drafts(
    path: Path, bases: tuple[Path | None, ...], *, doubled: bool
) -> Iterator[Draft | Exclusion]:
    """Yield a draft for each image of a single word. The folder of the images is found by the first of them. Raises
    DataError for an image without a label."""
    base: Path | None = None
    for where, picture, text in _labelled_words(path, doubled=doubled):
        if not text:
            raise DataError(f"{where}: {picture} has no label; give its text behind a blank or tab")
        base = base or base_of(picture, bases, where)
        if not has_word(text):
            yield Exclusion(NO_WORD)
            continue
        yield Draft(
            id=picture,
            rounds=(reading_question(text),),
            images=(base / picture,),
            where=where,
        )


def _labelled_words(path: Path, *, doubled: bool) -> Iterator[Word]:
    """Yield location, image and text of each word of a label file, whose format is recognised by its name."""
    match path.suffix.lower():
        case ".jsonl":
            for where, line in json_lines(path, _Line):
                yield where, line.filename, line.text
        case ".json":
            yield from _mmocr_labels(path)
        case ".mat":
            yield from _mat_labels(path)
        case _ if path.name.endswith("_words_gt.txt"):
            yield from _id_label_lines(path)
        case _:
            yield from _path_label_lines(path, doubled=doubled)


def _path_label_lines(path: Path, *, doubled: bool) -> Iterator[Word]:
    """Yield the words of a text file whose lines are the path of an image and the word in it.

    Args:
        path: The file.
        doubled: Whether the word may be repeated, as in `LABEL 1 LABEL`.
    """
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            if line.strip():
                picture, label = _split_label_line(line.strip(), doubled=doubled)
                yield f"{path}:{number}", picture, label


def _split_label_line(line: str, *, doubled: bool) -> tuple[str, str]:
    """Split a line into the path of an image and the word in it (the label).

    The line is `PATH<TAB>LABEL`, `PATH LABEL` or `PATH, "LABEL"`. Without a tab, the label is everything after the first
    space, as it may have several words. With `doubled`, `PATH LABEL 1 LABEL` gives the label once.
    """
    has_tab = "\t" in line
    quoted = _QUOTED.fullmatch(line)
    if quoted and not has_tab:
        path, escaped_label = quoted[1], quoted[2]
        label = re.sub(r'\\(["\\])', r"\1", escaped_label)
        return path, label
    path, _, label = line.partition("\t" if has_tab else " ")
    label = label.strip()
    if doubled:
        repeated = _DOUBLED.fullmatch(label)
        if repeated:
            label = repeated[1]
    return path.strip(), label


def _id_label_lines(path: Path) -> Iterator[Word]:
    """Yield the words of lines `ID,LABEL`, as where they are, the file of their image, and the label.

    A label that begins with a bar (`|`) ends with one, perhaps on a later line. Its lines are then joined by spaces, and
    the bars are removed. The image is `ID.jpg`.

    Raises:
        DataError: A line has another form, or a bar is never closed.
    """
    pending: Word | None = None
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            where = f"{path}:{number}"
            text = line.strip()
            if pending:
                where, picture, label = pending
                label = f"{label} {text}".strip()
            elif not text:
                continue
            else:
                pair = _PAIR.fullmatch(text)
                if pair is None:
                    raise DataError(f"{where}: {text!r} is not ID,LABEL")
                picture = f"{pair[1]}.jpg"
                label = pair[2].strip()

            if _is_open(label):
                pending = (where, picture, label)
                continue
            pending = None
            if len(label) > 1:  # a single bar is a label itself
                label = label.removeprefix("|").removesuffix("|").strip()
            yield where, picture, label
    if pending:
        where, _, label = pending
        raise DataError(
            f"{where}: the label {label[:40]!r} opens with a bar and is never closed by one"
        )


def _is_open(label: str) -> bool:
    """Return whether a label begins with a bar and does not end with one, so that it continues on the next line."""
    return len(label) > 1 and label.startswith("|") and not label.endswith("|")


def _mmocr_labels(path: Path) -> Iterator[Word]:
    """Yield the words of MMOCR's JSON list. Raises DataError for an image that does not have exactly one word."""
    for where, item in list_items(path, "data_list", read_json(path, _List).data_list, _Item):
        if len(item.instances) != 1:
            raise DataError(
                f"{where}: {len(item.instances)} instances; an image of one word has one"
            )
        yield where, item.img_path, item.instances[0].text


def _mat_labels(path: Path) -> Iterator[Word]:
    """Yield the words of IIIT5K's MATLAB file."""
    for number, record in enumerate(read_mat(path, "testdata")):
        where = f"{path}: testdata({number + 1})"
        try:
            yield where, str(record["ImgName"]), str(record["GroundTruth"])
        except (KeyError, TypeError, IndexError):
            raise DataError(f"{where}: no record with ImgName and GroundTruth") from None
