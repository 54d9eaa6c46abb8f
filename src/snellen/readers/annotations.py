"""Closed questions from what people annotated: classes, boxes, captions, answers, texts (the reader `annotations`).

An entry names the form of the annotations, and which types of questions are made of them:

    [source]
    reader = "annotations"
    distractors = "near-text:2,random:1"
    params = { form = "coco", file = "instances.json", images = "val2017", questions = [{ type = "count" }] }

Each type says itself what it needs and what it leaves out (`snellen.readers.question_types`). Folders of images
by class are `dogs/1.jpg`, or by split and class: `val/dogs/1.jpg`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.callers import setting
from snellen.common.drafts import (
    PARAMS,
    AnnotatedImage,
    Draft,
    Exclusion,
    ImageFile,
    ImageSpec,
    read_params,
    without_exclusions,
)
from snellen.errors import DataError, WrongRowsError
from snellen.formats.locate import ImageFinder, is_image, name_in_words, splits_in
from snellen.formats.rows import read_rows
from snellen.readers.annotation_rows import Columns, Pictures, read_annotated_rows
from snellen.readers.coco import read_coco
from snellen.readers.question_types import AnnotatedSource, FormedQuestion, QuestionType
from snellen.reformulation.distractors import rejection_reason
from snellen.registry import unknown_name

Form = Literal["class-folders", "named-images", "coco", "rows"]
NO_DISTRACTOR = "no answer in the source that could be a distractor"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    form: Form
    file: str = ""
    """The JSON file or table; for folders of images none."""
    images: str = ""
    """The folder of the images. Paths in `file` are relative to it; for folders of classes, it is
    the folder that contains them.
    """
    split: str = ""
    """For folders such as `val/dogs/`, where classes are inside folders of splits: the split to
    read.

    All splits if empty.
    """
    columns: Columns = Columns()
    """What the columns of a table hold."""
    find_images: bool = False
    """Whether images of a table are found anywhere below the folder by their names."""
    encoding: str = ""
    """The encoding of a table of text, if it is not UTF-8."""
    questions: tuple[str | dict[str, Any], ...] = ()
    """The types of questions to make, each by its name (`"count"`) or as a table with settings (`{
    type = "count", largest = 5 }`).

    If empty, all types are used that fit at least one image.
    """
    seed: int = 0
    """Seed of the draw that chooses which objects of an image are asked about."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of each type about each image.

    Raises:
        DataError: No question can be made.
        WrongRowsError: After the last question, for rows that cannot be used.
    """
    chosen = read_params(params, Params)
    pictures, faults = read_pictures(chosen, folder)
    types = question_types(chosen.questions) or fitting_types(pictures)
    path = Path(chosen.file or chosen.images)
    yield from without_exclusions(
        formed_drafts(AnnotatedSource(pictures, chosen.seed), types), path
    )
    if faults:
        raise WrongRowsError(faults)


def read_pictures(
    params: Params, source: Path | None
) -> tuple[list[AnnotatedImage], Sequence[str]]:
    """Read all annotated images of a source.

    Returns:
        The images, and an error message for each row that cannot be used. If several images have
        the same id, the first is kept and the others are among the errors.

    Raises:
        DataError: The files cannot be read, or there is no image.
        WrongRowsError: None of the rows can be used.
    """
    base = source or Path()
    pictures: list[AnnotatedImage] = []
    faults: Sequence[str] = ()
    try:
        pictures.extend(_read_images(params, base))
    except WrongRowsError as error:
        if not pictures:
            raise
        faults = error.faults
    if not pictures:
        raise DataError(f"{base / (params.file or params.images)}: no image with annotations in it")
    first_by_id: dict[str, AnnotatedImage] = {}
    repeated_id_faults = []
    for picture in pictures:
        first = first_by_id.setdefault(picture.id, picture)
        if first is not picture:
            repeated_id_faults.append(_repeated_id_fault(picture, first.where))
    return list(first_by_id.values()), [*faults, *repeated_id_faults]


def _repeated_id_fault(picture: AnnotatedImage, first: str) -> str:
    """Return the error message about an image that has the id of an earlier image, whose location
    is `first`.
    """
    if isinstance(picture.file, Path) and picture.file.as_posix().endswith(picture.id):
        return (
            f"{picture.where}: the image {picture.id!r} is that of {first} too; write what both say in one row "
            '(several labels as `["red", "round"]`), or give each row an id '
            f"({setting('columns', {'id': 'NAME'})})"
        )
    return f"{picture.where}: the id {picture.id!r} is taken by {first}; ids must differ"


def _read_images(params: Params, base: Path) -> Iterator[AnnotatedImage]:
    """Return the annotated images of a source, reading the layout that the entry declares as
    `form`, such as `coco`.
    """
    match params.form:
        case "class-folders":
            return read_class_folders(base / params.images, params.split)
        case "named-images":
            return read_named_images(base / params.images)
        case "coco":
            return read_coco(base / params.file, base / params.images if params.images else None)
        case _:
            table = base / params.file
            folder = base / params.images if params.images else table.parent
            finder = ImageFinder(folder) if params.find_images else None
            if finder is not None:
                rows = read_rows(table, params.encoding)
                finder.learn(row.cells.get(params.columns.image) for row in rows)
            return read_annotated_rows(
                table, Pictures(folder, finder), params.columns, params.encoding
            )


def question_types(declared: tuple[str | dict[str, Any], ...]) -> dict[str, QuestionType]:
    """Return the question types that an entry declares, by name.

    If a type is declared twice, with different settings, the second one is numbered: `count`,
    `count 2`.

    Raises:
        UnknownNameError: There is no such question type.
        DataError: A type is given a setting that it does not have.
    """
    types: dict[str, QuestionType] = {}
    counts: Counter[str] = Counter()
    for index, written in enumerate(declared):
        settings = {"type": written} if isinstance(written, str) else dict(written)
        where = f"{PARAMS}.questions[{index}]"
        name = settings.pop("type", None)
        if not isinstance(name, str):
            raise DataError(f'{where}: name the type, as in {{ type = "count" }}')
        form: type[QuestionType] = registry.find_registered("question_types", name)
        try:
            question_type = msgspec.convert(settings, form)
        except msgspec.ValidationError as error:
            raise DataError(f"{where} ({name}): {error}") from None
        counts[name] += 1
        unique_name = name if counts[name] == 1 else f"{name} {counts[name]}"
        types[unique_name] = question_type
    return types


def fitting_types(pictures: list[AnnotatedImage]) -> dict[str, QuestionType]:
    """Return each registered question type, with its default settings, that fits at least one image."""
    types: dict[str, QuestionType] = {}
    for name in registry.names("question_types"):
        question_type: QuestionType = registry.find_registered("question_types", name)()
        if any(question_type.fits(picture) for picture in pictures):
            types[name] = question_type
    return types


def formed_drafts(
    source: AnnotatedSource, types: Mapping[str, QuestionType]
) -> Iterator[Draft | Exclusion]:
    """Yield all questions about all images.

    If a type fits no annotation of an image, or a question would be ambiguous or has no wrong
    option, an exclusion with the reason is yielded instead, so that the user can be told how many
    were left out.
    """
    for picture in source.pictures:
        for name, question_type in types.items():
            if not question_type.fits(picture):
                yield Exclusion(
                    f"{name}: the image has no annotation of the kind ({question_type.needs})"
                )
                continue
            for formed in question_type.questions(picture, source):
                if isinstance(formed, Exclusion):
                    yield Exclusion(f"{name}: {formed.why}")
                elif not _has_usable_distractors(formed):
                    yield Exclusion(f"{name}: {NO_DISTRACTOR}")
                else:
                    yield _question_draft(picture, name, formed)


def _question_draft(picture: AnnotatedImage, name: str, formed: FormedQuestion) -> Draft:
    """Return a question about an image in the form in which readers return it.

    Its id consists of the image's id, the question type and the subject, such as
    `12.jpg/count/dog`. Its stratum, by which a sample may be balanced, consists of type and answer:
    `count/3`.
    """
    image: ImageFile | ImageSpec = picture.file
    if formed.crop or formed.outlines:
        image = ImageSpec(picture.file, formed.crop, formed.outlines)
    id_parts = [part for part in (picture.id, name, formed.key) if part]
    return Draft(
        id="/".join(id_parts),
        rounds=formed.rounds,
        images=(image,),
        where=picture.where,
        dialogue=formed.is_dialogue,
        group=picture.group or picture.id,
        tags={"type": name, **picture.tags},
        stratum=f"{name}/{formed.answer}",
    )


def _has_usable_distractors(formed: FormedQuestion) -> bool:
    """Return whether every multiple-choice question in `formed` has at least one candidate that can
    be a wrong option.

    A candidate cannot if it is also correct, for example. A question without any candidates is
    accepted only if it is closed: then its options follow from the answer, as for yes and no.
    """
    for question in formed.rounds:
        spec = question.distractors
        if spec is None:
            continue
        if not spec.tiers:
            if spec.closed:
                continue  # the options of yes/no questions follow from the answer
            return False
        is_usable = (
            not rejection_reason(candidate, question.texts, spec.also_right, chosen=())
            for candidate in chain.from_iterable(spec.tiers)
        )
        if not any(is_usable):
            return False
    return True


def read_class_folders(folder: Path, split: str = "") -> Iterator[AnnotatedImage]:
    """Yield the images of a folder that has one folder per class, such as `dogs/1.jpg`.

    The class of an image is the name of its folder, with spaces for underscores. The folders of classes may be inside
    folders of splits: `val/dogs/1.jpg`. Images are yielded in the order of the names of folders and files.

    Args:
        folder: The folder.
        split: The split to read, such as "val"; if empty, the images of all splits are read.

    Raises:
        DataError: The folder does not exist, or a split is named and there are no splits.
        UnknownNameError: There is no split of this name.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; `images` names the one that holds the folders of classes"
        )
    splits = splits_in(folder)
    if split and not splits:
        raise DataError(f"{folder}: has no folders of splits")
    if split and split not in splits:
        raise unknown_name("split", split, splits)
    if split:
        splits_to_read = [split]
    elif splits:
        splits_to_read = splits
    else:
        splits_to_read = [""]  # the folders of classes are in the folder itself
    for split_name in splits_to_read:
        tags = {"split": split_name} if split_name else {}
        for class_folder in _visible_folders(folder / split_name):
            label = class_folder.name.replace("_", " ").strip()
            files = [file for file in class_folder.rglob("*") if is_image(file)]
            for file in sorted(files):
                yield AnnotatedImage(
                    id=str(file.relative_to(folder)).replace("\\", "/"),
                    file=file,
                    where=str(file),
                    labels=(label,),
                    tags=tags,
                )


def read_named_images(folder: Path) -> Iterator[AnnotatedImage]:
    """Yield the images of a folder with labels from their names: `red_fox-2.jpg` gets the label "red fox".

    Images whose names are only numbers are skipped. Raises DataError if the folder does not exist.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `images` names the one with the images")
    for file in sorted(folder.iterdir()):
        if not is_image(file):
            continue
        label = name_in_words(file.stem)
        if label:
            yield AnnotatedImage(id=file.name, file=file, where=str(file), labels=(label,))


def _visible_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name, without hidden ones."""
    return sorted(
        home for home in folder.iterdir() if home.is_dir() and not home.name.startswith(".")
    )
