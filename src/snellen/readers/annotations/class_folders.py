"""Folders of pictures by class: `dogs/1.jpg`, or by split and class: `val/dogs/1.jpg`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from snellen.common.annotations import AnnotatedPicture
from snellen.errors import DataError
from snellen.formats.locate import is_picture, name_in_words, splits_in
from snellen.registry import unknown


def read_class_folders(folder: Path, split: str = "") -> Iterator[AnnotatedPicture]:
    """The pictures in order of their names; the class is the name of the folder, `_` in it a space.

    Raises DataError when there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `images` names the one that holds the folders of classes")
    splits = splits_in(folder)
    if split and split not in splits:
        raise unknown("split", split, splits) if splits else DataError(f"{folder}: has no folders of splits")
    for part in [split] if split else splits or [""]:
        for home in _folders(folder / part):
            label = home.name.replace("_", " ").strip()
            for file in sorted(file for file in home.rglob("*") if is_picture(file)):
                name = str(file.relative_to(folder)).replace("\\", "/")
                yield AnnotatedPicture(name, file, str(file), labels=(label,), tags={"split": part} if part else {})


def read_named_pictures(folder: Path) -> Iterator[AnnotatedPicture]:
    """The pictures in a folder, whose names say what they show: `red_fox-2.jpg` a red fox.

    Raises DataError when there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `images` names the one with the pictures")
    for file in sorted(filter(is_picture, folder.iterdir())):
        if label := name_in_words(file.stem):
            yield AnnotatedPicture(file.name, file, str(file), labels=(label,))


def _folders(folder: Path) -> list[Path]:
    return sorted(home for home in folder.iterdir() if home.is_dir() and not home.name.startswith("."))
