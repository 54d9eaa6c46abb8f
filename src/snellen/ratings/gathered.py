"""The ratings gathered in a study's folder.

ratings.jsonl   one RaterSheet a line; a rater has one
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import DataError, StoreError
from snellen.paths import as_word
from snellen.ratings.key import published_key, read_key, write_key
from snellen.ratings.sheets import RaterSheet, read_sheets
from snellen.ratings.study import RatingStudy
from snellen.runs.journal import write_atomically

RATINGS = "ratings.jsonl"


class Gathered(Struct, frozen=True):
    """What reading files did: all sheets that the folder now has, and what there is to say of the files."""

    sheets: tuple[RaterSheet, ...]
    added: int
    notes: tuple[str, ...]


def gather(folder: Path, files: Sequence[Path], study: RatingStudy | None = None, *, replace: bool = False) -> Gathered:
    """Add the ratings in `files` to a study's folder; nothing is written unless all can be read.

    With `study` the folder is made for its published sheet. A rater whose ratings are there already counts once;
    where they differ, DataError, unless the new ones are to `replace` them. Raises DataError, StoreError.
    """
    key = read_key(folder) if study is None else published_key(study)
    sheets = {sheet.rater: sheet for sheet in (read_gathered(folder) if (folder / RATINGS).exists() else ())}
    known, notes = set(sheets), list[str]()
    fresh = set[str]()
    for file in files:
        read = read_sheets(file, key)
        notes += [f"{file.name}: {note}" for note in read.notes]
        for sheet in read.sheets:
            earlier = sheets.get(sheet.rater)
            if earlier and earlier.ratings != sheet.ratings and (sheet.rater in fresh or not replace):
                raise DataError(
                    f"{file}: {sheet.rater!r} has rated already ({earlier.source}), and differently; rename one of "
                    "the two, or let the new ratings take the place of the earlier ones with --replace"
                )
            fresh.add(sheet.rater)
            sheets[sheet.rater] = sheet
    if study is not None:
        write_key(folder, key)
    kept = tuple(sheets.values())
    write_atomically(folder / RATINGS, msgspec.json.Encoder().encode_lines(kept))
    return Gathered(kept, len(set(sheets) - known), tuple(notes))


def read_gathered(folder: Path) -> tuple[RaterSheet, ...]:
    """The ratings in a study's folder. Raises StoreError when there are none, or a line is none."""
    path = folder / RATINGS
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        raise StoreError(
            f"{folder}: no ratings yet; `snellen rate read {as_word(folder)} FILES...` adds some"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            found.append(msgspec.json.decode(line, type=RaterSheet))
        except msgspec.DecodeError as error:
            raise StoreError(f"{path}:{number}: not a rater's ratings ({error}); mend or remove the line") from None
    return tuple(found)
