"""Ratings in files: what the form saves (.json), and questionnaires with a row per rater and a column per rating.

A column of a questionnaire is titled with the number of an item, a separator, and, after any words, the title of a
dimension: `7. Redundancy`, `7、The robot ... —Level of redundancy(lower, better)`. The first column without a number
names the rater; others are left out. Values are whole numbers of the scale; an empty cell is a missing rating.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.experiments.ratings.key import RatingKey
from snellen.experiments.ratings.study import RatingStudy
from snellen.formats.text_table import READERS, TextTable, read_text_table, write_text_table

RATER, FORM = "rater", "form"
"""Columns of the questionnaires that are written."""
_ITEM = re.compile(r"\s*(\d+)\s*[、.:)\]-]")
_REMARK = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_WHOLE = re.compile(r"([0-9]+)(?:\.0*)?")

ItemRatings = dict[int, dict[str, int]]
"""By the number of the item: the value by dimension, as given (not turned)."""


class RaterSheet(Struct, frozen=True, omit_defaults=True):
    """All that one person rated."""

    rater: str
    ratings: ItemRatings
    source: str = ""
    """The file's name."""
    order: tuple[int, ...] = ()
    """In which the items were shown, where known."""


class ReadSheets(Struct, frozen=True):
    """What a file holds; `notes` say what was left out."""

    sheets: tuple[RaterSheet, ...]
    notes: tuple[str, ...] = ()


def read_sheets(path: Path, key: RatingKey) -> ReadSheets:
    """Read a file of ratings. Raises DataError, naming the place, for what is not a rating of this study."""
    if path.suffix.lower() == ".json":
        return ReadSheets((_read_saved(path, key),))
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path}: ratings come as .json from a form, or as a sheet (.csv, .tsv, .xlsx)")
    return _read_questionnaire(read_text_table(path), path, key)


# --- what a form saves -------------------------------------------------------------------------------------------


class _Saved(Struct, frozen=True):
    form: str
    rater: str
    ratings: dict[int, dict[str, int]]
    order: tuple[int, ...] = ()


def _read_saved(path: Path, key: RatingKey) -> RaterSheet:
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=_Saved)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{path}: not what a rating form saves ({error})") from None
    _check_form(saved.form, key, str(path))
    if not saved.rater.strip():
        raise DataError(f"{path}: the rater has no name; give one in the file ('rater')")
    for number, values in saved.ratings.items():
        for dimension, value in values.items():
            _check(key, number, dimension, value, f"{path}: item {number}, {dimension}")
    ratings = {number: dict(values) for number, values in saved.ratings.items() if values}
    return RaterSheet(saved.rater.strip(), ratings, path.name, saved.order)


def _check_form(form: str, key: RatingKey, where: str) -> None:
    if key.form and form != key.form:
        raise DataError(f"{where}: these are ratings for another form ({form or 'none named'}, not {key.form})")


def _check(key: RatingKey, number: int, dimension: str, value: int, where: str) -> None:
    if not 1 <= number <= len(key.items):
        raise DataError(f"{where}: there is no item {number}; the study has {len(key.items)}")
    if dimension not in (names := [declared.name for declared in key.study.dimensions]):
        raise DataError(f"{where}: the study has no such dimension; it has {', '.join(names)}")
    if value not in key.study.values:
        raise DataError(
            f"{where}: {value} is not on the scale from {key.study.lowest} to {key.study.highest}; correct or empty it"
        )


# --- questionnaires ----------------------------------------------------------------------------------------------


def _read_questionnaire(table: TextTable, path: Path, key: RatingKey) -> ReadSheets:
    columns = {name: place for name in table.columns if (place := column_of(name, key.study)) is not None}
    _check_columns(columns, path, key)
    other_columns = [name for name in table.columns if name not in columns]
    if not other_columns:
        raise DataError(f"{path}: no column names the rater; add one in front, without a number in its title")
    rater, *unread = other_columns
    sheets, skipped = [], 0
    for line, cells in table.rows:
        ratings: ItemRatings = {}
        for name, (number, dimension) in columns.items():
            if text := cells.get(name, "").strip():
                where = f"{path}:{line}: item {number}, {dimension}"
                ratings.setdefault(number, {})[dimension] = _value(text, where)
                _check(key, number, dimension, ratings[number][dimension], where)
        if not ratings:
            skipped += 1
            continue
        if FORM in other_columns:
            _check_form(cells.get(FORM, ""), key, f"{path}:{line}")
        if not (name := cells.get(rater, "").strip()):
            raise DataError(f"{path}:{line}: the column {rater!r} is empty; name the rater")
        sheets.append(RaterSheet(name, ratings, path.name))
    notes = list(table.notes)
    if skipped:
        notes.append(f"rows without a rating, left out: {skipped}")
    if unread := [name for name in unread if name != FORM]:
        notes.append(f"columns that are not ratings, left out: {', '.join(name[:40] for name in unread)}")
    return ReadSheets(tuple(sheets), tuple(notes))


def column_of(title: str, study: RatingStudy) -> tuple[int, str] | None:
    """The item's number and the dimension that a column's title names; None for one without a number or dimension."""
    match = _ITEM.match(title)
    if not match:
        return None
    words = _REMARK.sub("", title[match.end() :]).strip().casefold()
    fitting = [
        (len(heading), dimension.name)
        for dimension in study.dimensions
        for heading in (dimension.title, dimension.name, *dimension.columns)
        if words.endswith(heading.casefold())
    ]
    # Of two titles, one of which ends with the other, the longer one is meant.
    return (int(match[1]), max(fitting)[1]) if fitting else None


def _check_columns(columns: Mapping[str, tuple[int, str]], path: Path, key: RatingKey) -> None:
    if not columns:
        raise DataError(
            f"{path}: no column is a rating; its title begins with an item's number and ends with a dimension, as in "
            f"'1. {key.study.dimensions[0].title}'"
        )
    places: dict[tuple[int, str], str] = {}
    for name, place in columns.items():
        if places.setdefault(place, name) != name:
            raise DataError(f"{path}:1: the columns {places[place][:40]!r} and {name[:40]!r} rate the same; delete one")
    if (most := max(number for number, _ in columns.values())) > len(key.items):
        raise DataError(f"{path}:1: there is a column for item {most}, but the study has {len(key.items)} items")


def _value(text: str, where: str) -> int:
    whole = _WHOLE.fullmatch(text)
    if not whole:
        raise DataError(f"{where}: {text[:40]!r} is not a whole number; correct or empty it")
    return int(whole[1])


def write_questionnaire(path: Path, key: RatingKey, sheets: Sequence[RaterSheet]) -> None:
    """Write all ratings, a row per rater, as .csv, .tsv, .xlsx, .json or .jsonl. Raises DataError."""
    places = [(item.number, dimension) for item in key.items for dimension in key.study.dimensions]
    titles = {place: f"{place[0]}. {place[1].title}" for place in places}
    rows = [
        {
            RATER: sheet.rater,
            FORM: key.form,
            **{
                title: str(value)
                for (number, dimension), title in titles.items()
                if (value := sheet.ratings.get(number, {}).get(dimension.name)) is not None
            },
        }
        for sheet in sheets
    ]
    write_text_table(path, [RATER, *([FORM] if key.form else []), *titles.values()], rows)
