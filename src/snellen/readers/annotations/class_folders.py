"""Folders of pictures by class: `dogs/1.jpg`, or by split and class: `val/dogs/1.jpg`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from snellen.annotations import AnnotatedPicture
from snellen.errors import DataError
from snellen.registry import unknown

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def read_class_folders(folder: Path, split: str = "") -> Iterator[AnnotatedPicture]:
    """The pictures in order of their names; the class is the name of the folder, `_` in it a space.

    Raises DataError when there is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `pictures` names the one that holds the folders of classes")
    splits = splits_in(folder)
    if split and split not in splits:
        raise unknown("split", split, splits) if splits else DataError(f"{folder}: has no folders of splits")
    for part in [split] if split else splits or [""]:
        for home in _folders(folder / part):
            label = home.name.replace("_", " ").strip()
            for file in sorted(file for file in home.rglob("*") if is_picture(file)):
                name = str(file.relative_to(folder)).replace("\\", "/")
                yield AnnotatedPicture(name, file, str(file), labels=(label,), tags={"split": part} if part else {})


def splits_in(folder: Path) -> list[str]:
    """The folders of splits in it; none where the folders are classes."""
    names = [home.name for home in _folders(folder)]
    return names if names and SPLITS.issuperset(map(str.casefold, names)) else []


def is_picture(file: Path) -> bool:
    """Whether a file's name is that of a picture."""
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(".")


def _folders(folder: Path) -> list[Path]:
    return sorted(home for home in folder.iterdir() if home.is_dir() and not home.name.startswith("."))
