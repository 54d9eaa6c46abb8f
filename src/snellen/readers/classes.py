"""Classification data sets, as questions with other classes as distractors (ReForm-Eval A.1).

Layouts as distributed, unpacked into one folder, at most two folders deep:
- Flowers102: the folders `valid/1/`, `valid/2/` ... of the widespread split by folders (818 pictures in `valid`),
  or else the authors' `jpg/`, `imagelabels.mat` and `setid.mat` (1,020);
- Pets37: `images/` and `annotations/test.txt`;
- CIFAR10: see `snellen.readers.cifar`;
- ImageNet-1K: see `snellen.readers.imagenet`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text
from snellen.formats.hub_parquet import ParquetRow, ParquetSplit, PictureColumn
from snellen.formats.locate import locate, locate_or_none
from snellen.formats.pickles import read_mat
from snellen.readers import cifar, imagenet
from snellen.readers.labelled import LabelClass, LabelledPicture

Data = Literal["flowers102", "pets37", "cifar10", "imagenet-1k"]
Split = Literal["train", "val", "test"]

_FLOWERS: dict[Split, tuple[str, str]] = {
    "train": ("train", "trnid"),
    "val": ("valid", "valid"),
    "test": ("test", "tstid"),
}
"""For each split of Flowers102 its folder, and its list in `setid.mat`."""
_QUESTIONS: dict[Data, str] = {
    "flowers102": "Which flower does the picture show?",
    "pets37": "Which breed of cat or dog does the picture show?",
    "cifar10": "What does the picture show?",
    "imagenet-1k": "What does the picture show?",
}
_PET = re.compile(r"(\w+)_\d+ (\d+) ([12]) \d+")


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    data: Data
    split: Split


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per picture. Distractors are any other classes, or the most similar ones (CIFAR10, ImageNet-1K)."""
    chosen = read_params(params, Params)
    for picture in _pictures(chosen, folder):
        yield draft_of(picture, chosen.data)


class HubParams(Struct, frozen=True, forbid_unknown_fields=True):
    """A hub dataset with a picture and its class number in each row."""

    files: tuple[str, ...]
    data: Data
    image: str = "image"
    label: str = "label"
    id: str = ""
    """The column with the picture's name; the row number when empty."""
    species: str = ""
    """The column with the species number (Pets37)."""


def read_hub_classes(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Like `read`, but from a hub dataset, whose files name the classes."""
    chosen = read_params(params, HubParams)
    table, pictures = ParquetSplit(folder, chosen.files), PictureColumn(chosen.image)
    names = table.names(chosen.label)
    labels = _labels(chosen.data, names)
    species = table.names(chosen.species) if chosen.species else ()
    columns = [name for name in (chosen.label, chosen.id, chosen.species) if name]
    for place, row in table.rows(columns, (), dict[str, str | int]):
        label = labels[_within(row[chosen.label], names, place, "label")]
        tags = {"class": label.stratum} if chosen.data == "cifar10" else {}
        if species:
            tags = {"species": species[_within(row[chosen.species], species, place, "species")]}
        name = str(row[chosen.id] if chosen.id else place.number)
        picture = LabelledPicture(name, pictures.at(place), place.where, label.names, label.others, label.stratum, tags)
        yield draft_of(picture, chosen.data)


def _labels(dataset: Data, names: Sequence[str]) -> list[LabelClass]:
    if dataset == "cifar10":
        return cifar.cifar_label_classes(names)
    if dataset == "imagenet-1k":
        return imagenet.imagenet_classes(names)
    plain = tuple(name.replace("_", " ") for name in names)
    return [LabelClass((name,), (plain,), name) for name in plain]


def _within(number: str | int, names: Sequence[str], place: ParquetRow, column: str) -> int:
    if not isinstance(number, int) or not 0 <= number < len(names):
        raise DataError(
            f"{place.where}: the {column} is {number}, but classes are 0-{len(names) - 1}; has the split labels?"
        )
    return number


def draft_of(picture: LabelledPicture, dataset: Data) -> Draft:
    return Draft(
        id=picture.id,
        rounds=(QuestionDraft(_QUESTIONS[dataset], texts=picture.names, distractors=DistractorSpec(picture.others)),),
        images=(picture.file,),
        where=picture.where,
        group=picture.id,
        answer_tags=picture.answer_tags,
        stratum=picture.stratum,
    )


def _pictures(chosen: Params, folder: Path | None) -> Iterator[LabelledPicture]:
    match chosen.data, chosen.split:
        case "flowers102", split:
            return _flowers(folder, *_FLOWERS[split])
        case "pets37", "train":
            return _pets(folder, "trainval.txt")
        case "pets37", "test":
            return _pets(folder, "test.txt")
        case "cifar10", "test":
            return cifar.cifar_pictures(folder)
        case "imagenet-1k", "val":
            return imagenet.imagenet_pictures(folder)
    raise DataError(f"{chosen.data}: its {chosen.split} pictures are not read; the entry's split is wrong")


def _flowers(folder: Path | None, by_folder: str, listed: str) -> Iterator[LabelledPicture]:
    names = files("snellen.readers").joinpath("flowers102.txt").read_text("utf-8").splitlines()
    pairs = (
        _of_folders(split_folder) if (split_folder := locate_or_none(folder, by_folder)) else _of_lists(folder, listed)
    )
    for where, file, number in pairs:
        if not 1 <= number <= len(names):
            raise DataError(f"{where}: there is no class {number}; Flowers102 has {len(names)}")
        yield LabelledPicture(file.stem, file, where, (names[number - 1],), (names,), names[number - 1])


def _of_folders(split: Path) -> Iterator[tuple[str, Path, int]]:
    """The pictures in a folder with one subfolder per class, named by the class number."""
    for folder in sorted(split.iterdir(), key=lambda path: (len(path.name), path.name)):
        if not folder.name.isdecimal():
            raise DataError(f"{folder}: not the number of a class; is this the split of Flowers102 by folders?")
        yield from ((str(file), file, int(folder.name)) for file in sorted(folder.glob("*.jpg")))


def _of_lists(folder: Path | None, listed: str) -> Iterator[tuple[str, Path, int]]:
    """The pictures listed in `setid.mat`, by number."""
    path = locate(folder, "imagelabels.mat")
    pictures = locate(folder, "jpg")
    labels = read_mat(path, "labels")
    for number in map(int, read_mat(locate(folder, "setid.mat"), listed)):
        where = f"{path}: labels[{number}]"
        if not 1 <= number <= len(labels):
            raise DataError(f"{where}: there are {len(labels)} labels; do the files belong together?")
        yield where, pictures / f"image_{number:05d}.jpg", int(labels[number - 1])


def _pets(folder: Path | None, listed: str) -> Iterator[LabelledPicture]:
    path = locate(folder, f"annotations/{listed}")
    pictures = locate(folder, "images")
    entries: list[tuple[str, str, str, str]] = []
    numbers: dict[str, str] = {}
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            where, text = f"{path}:{number}", line.strip()
            if text.startswith("#") or not text:
                continue
            parts = _PET.fullmatch(text)
            if parts is None:
                raise DataError(f"{where}: {text!r} is not a file's name, class, species (1 or 2) and breed")
            if numbers.setdefault(parts[2], parts[1]) != parts[1]:
                raise DataError(f"{where}: class {parts[2]} is {parts[1]} here and {numbers[parts[2]]} above")
            entries.append((where, text.split()[0], parts[1].replace("_", " "), ("cat", "dog")[int(parts[3]) - 1]))
    breeds = tuple(dict.fromkeys(breed for _, _, breed, _ in entries))
    for where, name, breed, species in entries:
        yield LabelledPicture(name, pictures / f"{name}.jpg", where, (breed,), (breeds,), breed, {"species": species})
