"""Find the user's own data under a name that no benchmark has, and say how to build a benchmark from it."""

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
    """Return a hint with the call that builds a benchmark from a folder or file of a given name.

    Users may pass the name of their data where the name of a benchmark is expected. For example,
    for `mine` in a folder with `mine.tsv`, the hint is to build a benchmark from the file
    `mine.tsv`.

    Args:
        name: What the user gave as a benchmark or a run: `classes` for a folder `classes/`, `mine`
            for `mine.tsv`.
        noun: What is built, as the message calls it.

    Returns:
        The end of a message: `build one from the folder classes with ...`; empty if there is
        nothing to build from.
    """
    path = _own_data(expanded(str(name)))
    if path is None:
        return ""
    call = for_caller(f"`snellen build {shell_word(path)}`", f"sn.build({str(path)!r})")
    kind = "folder" if path.is_dir() else "file"
    return f"build {noun} from the {kind} {path} with {call}"


def _own_data(path: Path) -> Path | None:
    """Return the folder at a path, if it has tables or images.

    If there is no folder at the path, return the first table that has its name and any suffix. None
    if there is neither.
    """
    if path.is_dir():
        return path if _holds_questions(path) else None
    tables = _tables_called(path)
    return tables[0] if tables else None


def data_called(name: str) -> list[Path]:
    """Return the tables and the folder of a name: `mine.csv`, `mine.tsv` and `mine/` for `mine`.

    A folder counts only if it has tables or images. The list is empty if there is nothing of that
    name.
    """
    path = expanded(name)
    found = _tables_called(path)
    if path.is_dir() and _holds_questions(path):
        found.append(path)
    return found


def _tables_called(path: Path) -> list[Path]:
    """Return the tables whose name is that of a path and a suffix; empty if the path has a suffix already."""
    if path.suffix:
        return []
    tables = []
    for file in sorted(path.parent.glob(f"{glob.escape(path.name)}.*")):
        if file.is_file() and is_row_file(file):
            tables.append(file)
    return tables


def _holds_questions(folder: Path) -> bool:
    """Return whether an image or a table is among the first 1000 files that are found in a folder."""
    for file in islice(folder.rglob("*"), MOST_LOOKED_AT):
        if is_image(file):
            return True
        if file.is_file() and is_row_file(file):
            return True
    return False
