"""Data of the user that a name stands for, where no benchmark has that name: what can be built, and how."""

from __future__ import annotations

import glob
from itertools import islice
from pathlib import Path

from snellen.callers import for_caller
from snellen.common.paths import expanded, shell_word
from snellen.formats.locate import is_image
from snellen.formats.rows import is_row_file

MOST_LOOKED_AT = 1000
"""Files of a folder that are looked at."""


def how_to_build(name: str | Path, noun: str = "one") -> str:
    """Return a hint with the call that builds a benchmark from a folder or file of that name.

    Args:
        name: What was given as a benchmark or a run: `classes` for a folder `classes/`, `mine` for `mine.tsv`.
        noun: What is built, as the message calls it.

    Returns:
        The end of a message: `build one from the folder classes with ...`; empty if there is nothing to build from.
    """
    path = _own_data(expanded(str(name)))
    if path is None:
        return ""
    call = for_caller(f"`snellen build {shell_word(path)}`", f"sn.build({str(path)!r})")
    kind = "folder" if path.is_dir() else "file"
    return f"build {noun} from the {kind} {path} with {call}"


def _own_data(path: Path) -> Path | None:
    """Return a folder with tables or images, or the table that is called so without its suffix."""
    if path.is_dir():
        return path if _holds_questions(path) else None
    tables = _tables_called(path)
    return tables[0] if tables else None


def data_called(name: str) -> list[Path]:
    """Return the folder of that name, if it has tables or images, and the tables that are called so without suffix."""
    path = expanded(name)
    found = _tables_called(path)
    if path.is_dir() and _holds_questions(path):
        found.append(path)
    return found


def _tables_called(path: Path) -> list[Path]:
    """Return the tables that have the name of a path and a suffix."""
    if path.suffix:
        return []
    tables = []
    for file in sorted(path.parent.glob(f"{glob.escape(path.name)}.*")):
        if file.is_file() and is_row_file(file):
            tables.append(file)
    return tables


def _holds_questions(folder: Path) -> bool:
    """Return whether a folder has images or files of rows, among the first files that are found in it."""
    for file in islice(folder.rglob("*"), MOST_LOOKED_AT):
        if is_image(file):
            return True
        if file.is_file() and is_row_file(file):
            return True
    return False
