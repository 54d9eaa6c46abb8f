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

from collections.abc import Iterator, Mapping, Sequence
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
    """The images' folder: that of the classes, or the one that names of files are relative to."""
    split: str = ""
    """Of class folders that lie in folders of splits, the split; all of them when empty."""
    columns: Columns = Columns()
    """What the columns of a table hold."""
    find_images: bool = False
    """Whether images of a table are found anywhere below the folder by their names."""
    encoding: str = ""
    """That of a delimited table which is not in UTF-8."""
    questions: tuple[str | dict[str, Any], ...] = ()
    """The types of questions, each by its name, or with its settings as `{ type = "count" }`; every type that fits when
    empty."""
    seed: int = 0
    """Draws which objects are asked for."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The questions of every type, image by image. Raises DataError where none can be made."""
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
    """All images with what is said of them, and what is wrong with rows that cannot be used. Raises DataError for
    wrong files, and WrongRowsError without any image."""
    base = source or Path()
    pictures: list[AnnotatedImage] = []
    faults: Sequence[str] = ()
    try:
        pictures.extend(_annotated(params, base))
    except WrongRowsError as error:
        if not pictures:
            raise
        faults = error.faults
    if not pictures:
        raise DataError(f"{base / (params.file or params.images)}: no image with annotations in it")
    first = {picture.id: picture for picture in reversed(pictures)}
    doubled = [
        _doubled(picture, first[picture.id].where)
        for picture in pictures
        if first[picture.id] is not picture
    ]
    return [picture for picture in pictures if first[picture.id] is picture], [*faults, *doubled]


def _doubled(picture: AnnotatedImage, first: str) -> str:
    """What is wrong with an image whose id an earlier one has."""
    if isinstance(picture.file, Path) and picture.file.as_posix().endswith(picture.id):
        return (
            f"{picture.where}: the image {picture.id!r} is that of {first} too; write what both say in one row "
            '(several labels as `["red", "round"]`), or give each row an id '
            f"({setting('columns', {'id': 'NAME'})})"
        )
    return f"{picture.where}: the id {picture.id!r} is taken by {first}; ids must differ"


def _annotated(params: Params, base: Path) -> Iterator[AnnotatedImage]:
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
    """The types that an entry declares, by name; a second one of the same type has a number behind it.

    Raises UnknownNameError for an unknown type, DataError for a setting that it does not have.
    """
    types: dict[str, QuestionType] = {}
    for place, each in enumerate(declared):
        settings = {"type": each} if isinstance(each, str) else each
        name = settings.get("type")
        if not isinstance(name, str):
            raise DataError(
                f'{PARAMS}.questions[{place}]: name the type, as in {{ type = "count" }}'
            )
        form: type[QuestionType] = registry.find_registered("question_types", name)
        options = {key: value for key, value in settings.items() if key != "type"}
        try:
            question_type = msgspec.convert(options, form)
        except msgspec.ValidationError as error:
            raise DataError(f"{PARAMS}.questions[{place}] ({name}): {error}") from None
        number = 1 + sum(earlier.partition(" ")[0] == name for earlier in types)
        types[name if number == 1 else f"{name} {number}"] = question_type
    return types


def fitting_types(pictures: list[AnnotatedImage]) -> dict[str, QuestionType]:
    """Every type, with its own settings, that fits one of the images."""
    every = {
        name: registry.find_registered("question_types", name)()
        for name in registry.names("question_types")
    }
    return {name: kind for name, kind in every.items() if any(map(kind.fits, pictures))}


def formed_drafts(
    source: AnnotatedSource, types: Mapping[str, QuestionType]
) -> Iterator[Draft | Exclusion]:
    """The questions of all images, and what is left out with its reasons."""
    for picture in source.pictures:
        for name, kind in types.items():
            if not kind.fits(picture):
                yield Exclusion(f"{name}: the image has no annotation of the kind ({kind.needs})")
                continue
            for formed in kind.questions(picture, source):
                if isinstance(formed, Exclusion):
                    yield Exclusion(f"{name}: {formed.why}")
                elif not _has_distractors(formed):
                    yield Exclusion(f"{name}: {NO_DISTRACTOR}")
                else:
                    yield _draft(picture, name, formed)


def _draft(picture: AnnotatedImage, name: str, formed: FormedQuestion) -> Draft:
    spec = ImageSpec(picture.file, formed.crop, formed.outlines)
    return Draft(
        id="/".join(filter(None, (picture.id, name, formed.key))),
        rounds=formed.rounds,
        images=(spec if formed.crop or formed.outlines else picture.file,),
        where=picture.where,
        dialogue=formed.is_dialogue,
        group=picture.group or picture.id,
        tags={"type": name, **picture.tags},
        stratum=f"{name}/{formed.answer}",
    )


def _has_distractors(formed: FormedQuestion) -> bool:
    """Whether each round that is multiple choice has a candidate that can be a distractor."""
    for question in formed.rounds:
        spec = question.distractors
        if spec and spec.tiers:
            candidates = (candidate for tier in spec.tiers for candidate in tier)
            if all(
                rejection_reason(candidate, question.texts, spec.also_right, ())
                for candidate in candidates
            ):
                return False
        elif spec and not spec.closed:
            return False
    return True


def read_class_folders(folder: Path, split: str = "") -> Iterator[AnnotatedImage]:
    """The images in order of their names; the class is the name of the folder, `_` in it a space.

    Raises DataError when there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; `images` names the one that holds the folders of classes"
        )
    splits = splits_in(folder)
    if split and split not in splits:
        raise (
            unknown_name("split", split, splits)
            if splits
            else DataError(f"{folder}: has no folders of splits")
        )
    for part in [split] if split else splits or [""]:
        for home in _folders(folder / part):
            label = home.name.replace("_", " ").strip()
            for file in sorted(file for file in home.rglob("*") if is_image(file)):
                name = str(file.relative_to(folder)).replace("\\", "/")
                yield AnnotatedImage(
                    name, file, str(file), labels=(label,), tags={"split": part} if part else {}
                )


def read_named_images(folder: Path) -> Iterator[AnnotatedImage]:
    """The images in a folder, whose names say what they show: `red_fox-2.jpg` a red fox.

    Raises DataError when there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `images` names the one with the images")
    for file in sorted(filter(is_image, folder.iterdir())):
        if label := name_in_words(file.stem):
            yield AnnotatedImage(file.name, file, str(file), labels=(label,))


def _folders(folder: Path) -> list[Path]:
    return sorted(
        home for home in folder.iterdir() if home.is_dir() and not home.name.startswith(".")
    )
