"""What a file or folder of annotations holds, by its form and the names of its columns."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.readers.annotations.class_folders import is_picture, splits_in
from snellen.readers.annotations.coco import FOLDERS
from snellen.readers.annotations.rows import annotated_rows

ROLES = {
    "picture": "picture image img image_path img_path file file_name filename path",
    "label": "label class category class_name",
    "caption": "captions caption",
    "objects": "objects boxes",
    "relations": "relations relationships",
    "texts": "ocr ocr_text ocr_texts ocr_tokens",
    "fields": "fields entities",
    "questions": "questions question qa",
    "answer": "answer answers gt ground_truth",
    "id": "id",
    "group": "group",
}
"""Usual names of columns by role."""
LOOKED_AT = 2000
"""Rows by which a column without a usual name is judged."""


class RecognisedAnnotations(Struct, frozen=True):
    """The parameters of the reader `annotations` for a target, and what was taken for what."""

    params: dict[str, Any]
    folder: Path
    """What its paths are relative to."""
    lines: tuple[str, ...]


def recognised_annotations(target: Path, pictures: Path | None = None) -> RecognisedAnnotations:
    """What `target` holds. Raises DataError where it holds no annotations, or no column of pictures."""
    if not target.exists():
        raise DataError(f"{target}: no such file or folder")
    folder = target.resolve().parent
    if pictures and not pictures.is_dir():
        raise DataError(f"--pictures {pictures}: no such folder")
    named = {"pictures": os.path.relpath(pictures, folder)} if pictures else {}
    if target.is_dir():
        return _class_folders(target, folder)
    if target.suffix == ".json" and _is_coco(target):
        found = pictures or next((folder / name for name in FOLDERS if (folder / name).is_dir()), folder)
        params = {"form": "coco", "file": target.name, **named}
        return RecognisedAnnotations(params, folder, (f"  in the form of COCO, pictures in {found}",))
    columns, line = _columns(target)
    return RecognisedAnnotations({"form": "rows", "file": target.name, **named, "columns": columns}, folder, (line,))


def _class_folders(target: Path, folder: Path) -> RecognisedAnnotations:
    splits = splits_in(target)
    split = next((name for name in splits if name.casefold().startswith(("test", "val"))), "")
    homes = [home for home in (target / split).iterdir() if home.is_dir() and any(map(is_picture, home.rglob("*")))]
    if not homes:
        raise DataError(f"{target}: no folders with pictures in it; a folder for each class is read, or name a file")
    taken = "  a folder for each class" + (f", of the split {split} of {', '.join(splits)}" if split else "")
    params = {"form": "class-folders", "pictures": target.resolve().name, **({"split": split} if split else {})}
    return RecognisedAnnotations(params, folder, (taken,))


class _CocoKeys(Struct):
    images: list[msgspec.Raw]
    annotations: list[msgspec.Raw]


def _is_coco(path: Path) -> bool:
    try:
        msgspec.json.decode(path.read_bytes(), type=_CocoKeys)
    except JSON_FAULTS:
        return False
    return True


def _columns(path: Path) -> tuple[dict[str, Any], str]:
    """The roles of a table's columns, by their names. Other words are attributes where they repeat; where nothing else
    is said of the pictures, other texts are entries of forms."""
    rows = [row for _, row in islice(annotated_rows(path), LOOKED_AT)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    folded = {re.sub(r"[-\s]+", "_", name.strip().casefold()): name for name in names}
    columns: dict[str, Any] = {}
    for role, usual in ROLES.items():
        if known := next((folded[name] for name in usual.split() if name in folded), ""):
            columns[role] = known
    if "picture" not in columns:
        raise DataError(
            f"{path}: no column is called as pictures usually are; the columns are {', '.join(names)}; name it in an "
            'entry: columns = { picture = "..." }'
        )
    values = {name: [row[name] for row in rows if row.get(name) not in (None, "")] for name in names}
    free = {name: values[name] for name in names if name not in columns.values() and _are_short_texts(values[name])}
    attributes = {name: name for name, texts in free.items() if _are_values(texts)}
    if not columns.keys() & {"label", "caption", "objects", "texts", "questions", "fields", "relations"}:
        columns["fields"] = {name.strip().replace("_", " "): name for name in free if name not in attributes}
    if attributes:
        columns["attributes"] = {name.strip().replace("_", " "): name for name in attributes}
    return columns, "  " + ", ".join(f"{role} {_shown(column)}" for role, column in columns.items())


def _are_short_texts(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, str) and len(value) <= 60 for value in values)


def _are_values(texts: list[str]) -> bool:
    """Whether texts are values of an attribute: words, each of which several pictures have."""
    distinct = set(texts)
    return 1 < len(distinct) <= max(2, len(texts) // 4) and all(
        re.fullmatch(r"[^\W\d][^\d]*", text) for text in distinct
    )


def _shown(column: str | dict[str, str]) -> str:
    return f"`{column}`" if isinstance(column, str) else " ".join(f"`{name}`" for name in column.values())
