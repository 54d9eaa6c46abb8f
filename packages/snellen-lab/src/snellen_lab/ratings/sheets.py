"""The files of a rating study: its key, and the ratings that people gave.

`key.json` says which model wrote which item; raters never see it. It is in the folder of the form,
or of the ratings if these came as a published sheet.

Ratings are read from two kinds of files: what a form saves (.json), and questionnaires with a row
for each rater and a column for each rating. The title of a column is the number of an item, a
separator, possibly other words, and the title of a dimension, as in `7. Redundancy` or `7、The robot
... —Level of redundancy(lower, better)`. The first column without a number has the names of the
raters; other columns are left out. Values are whole numbers of the scale. An empty cell is a
missing rating.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import DataError, StoreError
from snellen.plugin_api import (
    RatingStudy,
    TextTable,
    guard_formula,
    read_file,
    unguard_formula,
    write_atomically,
    write_text_table,
)

# --- the key ---------------------------------------------------------------------------------------------------------


KEY = "key.json"


class KeyItem(Struct, frozen=True, omit_defaults=True):
    """What an item of the form is: the reply of a model to a question, or an attention check."""

    number: int
    model: str
    """Empty for an attention check."""
    scene: str
    """What was asked: items of one scene are replies to the same question."""
    expected: dict[str, int] = {}
    """For an attention check, the value that its text asks for, by dimension; empty for a reply."""

    @property
    def is_check(self) -> bool:
        return bool(self.expected)


class RatingKey(Struct, frozen=True, omit_defaults=True):
    """The key of a study: what each of its items is."""

    study: RatingStudy
    items: tuple[KeyItem, ...]
    form: str = ""
    """Digest of the form that the ratings are for; empty for a published sheet."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.model for item in self.items if not item.is_check))


def published_key(study: RatingStudy) -> RatingKey:
    """Return the key of a sheet that the authors of a study have published.

    Its items are the replies of all models to the first question (scene), then to the second, and
    so on.

    Raises:
        DataError: If the study declares no sheet.
    """
    sheet = study.sheet
    if sheet is None:
        raise DataError(
            f"the study {study.name} declares no [sheet], so the model of each item is unknown; "
            "read the ratings into the folder that `snellen rate form` made"
        )
    items: list[KeyItem] = []
    for scene in sheet.scenes:
        for model in sheet.models:
            items.append(KeyItem(len(items) + 1, model, scene))
    return RatingKey(study, tuple(items))


def read_key(folder: Path) -> RatingKey:
    """Return the key in a study's folder. Raises StoreError if it has none, or a damaged one."""
    path = folder / KEY
    try:
        return msgspec.json.decode(read_file(path), type=RatingKey)
    except FileNotFoundError:
        raise StoreError(
            f"{folder}: no {KEY}; `snellen rate form RUN... --to {shlex.quote(str(folder))}` makes one, and for a published "
            "sheet `snellen rate read SHEET --study STUDY` does"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise StoreError(f"{path}: not the key of a study ({error})") from None


def write_key(folder: Path, key: RatingKey) -> None:
    """Write the key of a study into its folder.

    Raises StoreError if the folder has the key of another study.
    """
    if (folder / KEY).exists() and read_key(folder) != key:
        raise StoreError(
            f"{folder} contains another study; choose another folder, or delete this one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / KEY, msgspec.json.format(msgspec.json.encode(key), indent=1))


# --- ratings in files ------------------------------------------------------------------------------------------------


RATER, FORM = "rater", "form"
"""Columns of the questionnaires that are written."""
SHEETS = (".xlsx", ".json", ".jsonl", ".tsv", ".csv")
"""Suffixes of questionnaires."""
DELIMITED = (".tsv", ".csv")
"""The suffixes of text files in which a spreadsheet program would run a formula."""
_ITEM = re.compile(r"\s*(\d+)\s*[、.:)\]-]")
_REMARK = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_WHOLE = re.compile(r"([0-9]+)(?:\.0*)?")

ItemRatings = dict[int, dict[str, int]]
"""By the number of the item, the ratings by dimension as they were given, so that low may be good."""


class RaterSheet(Struct, frozen=True, omit_defaults=True):
    """All ratings by one person."""

    rater: str
    ratings: ItemRatings
    source: str = ""
    """The file's name."""
    order: tuple[int, ...] = ()
    """The numbers of the items in the order in which they were shown; () if it is not known."""


class ReadSheets(Struct, frozen=True):
    """The ratings in a file. `notes` say what was left out."""

    sheets: tuple[RaterSheet, ...]
    notes: tuple[str, ...] = ()


def read_sheets(path: Path, key: RatingKey) -> ReadSheets:
    """Read a file of ratings: .json as a form saves it, or a questionnaire.

    Raises DataError, which names file, line and item, for a rating that the study does not allow.
    """
    if path.suffix.lower() == ".json":
        return ReadSheets((_read_saved(path, key),))
    if path.suffix.lower() not in SHEETS:
        raise DataError(
            f"{path}: ratings must be a .json file from a form or a sheet (.csv, .tsv, .xlsx)"
        )
    return _read_questionnaire(TextTable.read(path), path, key)


# --- what a form saves -------------------------------------------------------------------------------------------


class _Saved(Struct, frozen=True):
    form: str
    rater: str
    ratings: dict[int, dict[str, int]]
    order: tuple[int, ...] = ()


def _read_saved(path: Path, key: RatingKey) -> RaterSheet:
    """Read the file that a rating form saves.

    Raises:
        DataError: If the file is of another form, has no rater, or a rating is not allowed.
    """
    try:
        saved = msgspec.json.decode(read_file(path), type=_Saved)
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{path}: not a file that a rating form saves ({error})") from None
    _check_form(saved.form, key, str(path))
    rater = saved.rater.strip()
    if not rater:
        raise DataError(f"{path}: the rater has no name; give one in the file ('rater')")
    ratings: ItemRatings = {}
    for number, values in saved.ratings.items():
        for dimension, value in values.items():
            _check(key, number, dimension, value, f"{path}: item {number}, {dimension}")
        if values:
            ratings[number] = dict(values)
    return RaterSheet(rater, ratings, path.name, saved.order)


def _check_form(form: str, key: RatingKey, where: str) -> None:
    """Raise DataError if ratings were given on another form than the one that the key is for."""
    if key.form and form != key.form:
        raise DataError(
            f"{where}: these are ratings for another form ({form or 'none named'}, not {key.form})"
        )


def _check(key: RatingKey, number: int, dimension: str, value: int, where: str) -> None:
    """Check a rating against the study.

    Args:
        key: The study and its items.
        number: Number of the rated item.
        dimension: Name of the dimension.
        value: The rating.
        where: File, line and item, for the message.

    Raises:
        DataError: If the study has no such item or dimension, or the value is not on its scale.
    """
    if not 1 <= number <= len(key.items):
        raise DataError(f"{where}: there is no item {number}; the study has {len(key.items)}")
    dimensions = [declared.name for declared in key.study.dimensions]
    if dimension not in dimensions:
        raise DataError(f"{where}: the study has no such dimension; it has {', '.join(dimensions)}")
    if value not in key.study.values:
        raise DataError(
            f"{where}: {value} is not on the scale from {key.study.lowest} to {key.study.highest}; correct it, or leave it empty"
        )


# --- questionnaires ----------------------------------------------------------------------------------------------


def _read_questionnaire(table: TextTable, path: Path, key: RatingKey) -> ReadSheets:
    """Read a questionnaire with a row for each rater and a column for each item and dimension.

    Rows without any rating are skipped.
    """
    columns: dict[str, tuple[int, str]] = {}  # item and dimension, by the title of the column
    other_columns: list[str] = []
    for title in table.columns:
        item_and_dimension = column_of(title, key.study)
        if item_and_dimension is None:
            other_columns.append(title)
        else:
            columns[title] = item_and_dimension
    _check_columns(columns, path, key)
    if not other_columns:
        raise DataError(
            f"{path}: no column names the rater; add a first column whose title has no number"
        )

    rater_column, *other_titles = other_columns
    is_delimited = path.suffix.lower() in DELIMITED
    sheets: list[RaterSheet] = []
    n_skipped = 0
    for line, cells in table.rows:
        ratings: ItemRatings = {}
        for title, (number, dimension) in columns.items():
            text = cells.get(title, "").strip()
            if text:
                where = f"{path}:{line}: item {number}, {dimension}"
                value = _value(text, where)
                _check(key, number, dimension, value, where)
                ratings.setdefault(number, {})[dimension] = value
        if not ratings:
            n_skipped += 1
            continue
        if FORM in other_columns:
            _check_form(cells.get(FORM, ""), key, f"{path}:{line}")
        rater = cells.get(rater_column, "").strip()
        if not rater:
            raise DataError(f"{path}:{line}: the column {rater_column!r} is empty; name the rater")
        if is_delimited:
            rater = unguard_formula(rater)
        sheets.append(RaterSheet(rater, ratings, path.name))

    notes = list(table.notes)
    if n_skipped:
        notes.append(f"rows without a rating, left out: {n_skipped}")
    unread_names = [title[:40] for title in other_titles if title != FORM]
    if unread_names:
        notes.append(f"columns that are not ratings, left out: {', '.join(unread_names)}")
    return ReadSheets(tuple(sheets), tuple(notes))


def column_of(title: str, study: RatingStudy) -> tuple[int, str] | None:
    """Return which item and dimension a column of a questionnaire rates, going by its title.

    The title begins with the number of the item and ends with the dimension. For example, "7.
    Redundancy" gives (7, "redundancy") if the study has a dimension of that name. None is returned
    if the title lacks the number or the dimension.
    """
    match = _ITEM.match(title)
    if not match:
        return None
    heading_text = _REMARK.sub("", title[match.end() :]).strip().casefold()
    matching_headings = []
    for dimension in study.dimensions:
        for heading in (dimension.title, dimension.name, *dimension.columns):
            if heading_text.endswith(heading.casefold()):
                matching_headings.append((len(heading), dimension.name))
    if not matching_headings:
        return None
    # One title may end with another ("Redundancy", "Level of redundancy"). The longer one is meant.
    _, dimension_name = max(matching_headings)
    return int(match[1]), dimension_name


def _check_columns(columns: Mapping[str, tuple[int, str]], path: Path, key: RatingKey) -> None:
    """Check that a questionnaire rates some items, none of them unknown or in two columns.

    Raises DataError, which names the columns.
    """
    if not columns:
        raise DataError(
            f"{path}: no column is a rating; its title begins with an item's number and ends with a dimension, as in "
            f"'1. {key.study.dimensions[0].title}'"
        )
    titles_by_rating: dict[tuple[int, str], str] = {}
    for title, item_and_dimension in columns.items():
        earlier_title = titles_by_rating.setdefault(item_and_dimension, title)
        if earlier_title != title:
            raise DataError(
                f"{path}:1: the columns {earlier_title[:40]!r} and {title[:40]!r} rate the same; delete one"
            )
    highest_number = max(number for number, _ in columns.values())
    if highest_number > len(key.items):
        raise DataError(
            f"{path}:1: there is a column for item {highest_number}, but the study has {len(key.items)} items"
        )


def _value(text: str, where: str) -> int:
    """Parse a rating, a whole number; `where` is the file, line and item for the error message."""
    number_match = _WHOLE.fullmatch(text)
    if not number_match:
        raise DataError(
            f"{where}: {text[:40]!r} is not a whole number; correct it, or leave it empty"
        )
    return int(number_match[1])


def write_questionnaire(path: Path, key: RatingKey, sheets: Sequence[RaterSheet]) -> None:
    """Write all ratings as a table with a row for each rater (.csv, .tsv, .xlsx, .json or .jsonl).

    A spreadsheet program would run a name that begins like a formula, such as "=1+1". In .csv and
    .tsv, an apostrophe is therefore put before it, which reading removes again. Raises DataError.
    """
    titles: dict[tuple[int, str], str] = {}
    for item in key.items:
        for dimension in key.study.dimensions:
            titles[item.number, dimension.name] = f"{item.number}. {dimension.title}"

    is_delimited = path.suffix.lower() in DELIMITED
    rows = []
    for sheet in sheets:
        rater = guard_formula(sheet.rater) if is_delimited else sheet.rater
        row = {RATER: rater, FORM: key.form}
        for (number, dimension_name), title in titles.items():
            value = sheet.ratings.get(number, {}).get(dimension_name)
            if value is not None:
                row[title] = str(value)
        rows.append(row)

    columns = [RATER]
    if key.form:
        columns.append(FORM)
    columns.extend(titles.values())
    write_text_table(path, columns, rows)
