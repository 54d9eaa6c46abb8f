"""The records of an entry: files in nine formats, read as a stream of records with their locations.

The schema of a record, declared in an entry's TOML in the shape of the record, and checked on reading.

`"text"`, `"integer"`, `"number"`, `"flag"`, `"id"` (text or integer), `"texts"` (one or a list), `"red|green"` (one of
these). A trailing `?` marks a field that may be missing, null or empty. `["text"]` is a list, `["text", "?"]` an
optional one, `["text", "text"]` a pair, a table a nested object, which the key `"?"` makes optional, `[{...}]` a list
of objects.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, Union

import msgspec
from msgspec import Struct

from snellen import registry
from snellen.common.faults import format_json_error
from snellen.common.seeds import numpy_permutation
from snellen.errors import DataError
from snellen.formats.delimited import TABLES, DelimitedLines, DelimitedTable, open_text
from snellen.formats.hub_parquet import ParquetSplit
from snellen.formats.json_files import JSON_FAULTS, json_lines, list_items, read_json, stream_list
from snellen.formats.locate import locate_file

Record = dict[str, Any]
Fields = dict[str, Any]
"""The fields of a record by name, each with its type: a word such as `"text"` or `"integer?"`
(optional), a list such as `["text"]`, or a table of fields for a nested object.
"""
OPTIONAL = "?"
"""Marks a field that may be missing, null or empty: the end of a word, the last item of a list, a key of a table."""
_WORDS: dict[str, Any] = {
    "text": str,
    "integer": int,
    "number": float,
    "flag": bool,
    "texts": Union[str, list[str]],  # noqa: UP007
    "id": Union[str, int],  # noqa: UP007  # the form that the functional syntax takes
}


def record_type(fields: Fields, name: str = "Record") -> Any:
    """Return a type into which msgspec can decode records with the declared fields.

    Raises DataError if a field is declared with an unknown type.
    """
    # Types are computed here and in `_declared_type`, which type checkers cannot follow.
    types: dict[str, Any] = {}
    for field, declared in fields.items():
        field_type, optional = _declared_type(declared, field)
        if optional:
            field_type = NotRequired[Union[field_type, None]]  # noqa: UP007  # pyrefly: ignore[invalid-annotation]
        types[field] = field_type
    # A name that is not an identifier is not a valid name of a class.
    class_name = name if name.isidentifier() and not keyword.iskeyword(name) else "Record"
    return TypedDict(class_name, types)  # pyrefly: ignore[not-callable]


def _declared_type(declared: Any, field: str) -> tuple[Any, bool]:
    """Return the Python type of a field, and whether the field is optional.

    For example, `"integer?"` gives `(int, True)`, and `["text"]` gives `(list[str], False)`.

    Args:
        declared: The type as the entry declares it.
        field: The name of the field, for error messages.
    """
    match declared:
        case dict():
            nested = {name: kind for name, kind in declared.items() if name != OPTIONAL}
            return record_type(nested, field), OPTIONAL in declared
        case [*kinds, "?"]:
            return _declared_type(kinds, field)[0], True
        case [item]:
            return list[_declared_type(item, field)[0]], False  # pyrefly: ignore[invalid-annotation]
        case [*several] if several:
            types = tuple(_declared_type(item, field)[0] for item in several)
            return tuple[types], False  # pyrefly: ignore[not-a-type]
        case str():
            word = declared.removesuffix("?")
            words = tuple(word.split("|"))
            kind = Literal[words] if len(words) > 1 else _WORDS.get(word)  # pyrefly: ignore[not-a-type]
            if kind is not None:
                return kind, declared != word
    raise DataError(
        f"fields: {field} = {declared!r} is not a type; a type is {', '.join(_WORDS)}, a list or a table of them"
    )


def is_optional(fields: Fields, path: tuple[str, ...]) -> bool:
    """Return whether a field is declared as optional, so that it may be empty or missing.

    Args:
        fields: The declared fields.
        path: The names that lead to the field: `("answer", "text")` for `answer.text`.
    """
    return _is_optional(_declared_at(fields, path))


def is_integer(fields: Fields, path: tuple[str, ...]) -> bool:
    """Return whether a field is declared as an integer. `path` has the names that lead to it."""
    return _declared_at(fields, path) in ("integer", "integer?")


def _declared_at(fields: Any, path: tuple[str, ...]) -> Any:
    """Return the declared type of the field that a path leads to; None if there is no such field.

    A list of objects is treated like each of its items: with the fields `{"answers": [{"text":
    "text"}]}`, the path `("answers", "text")` gives `"text"`.
    """
    for step in path:
        while isinstance(fields, list) and not step.isdecimal():
            fields = fields[0] if fields else None
        if isinstance(fields, list):
            fields = fields[min(int(step), len(fields) - 1)]
        elif isinstance(fields, dict):
            fields = fields.get(step)
        else:
            return None
    return fields


def check_required_fields(names: Iterable[str], fields: Fields, place: str) -> None:
    """Raise DataError if one of `names` is not a declared field, or is an optional one.

    Args:
        names: The names.
        fields: The declared fields.
        place: The setting that has the names, for error messages.
    """
    for name in names:
        if name not in fields:
            raise DataError(f"{place}: {registry.unknown_name('field', name, fields)}")
        if _is_optional(fields[name]):
            raise DataError(
                f"{place}: the field {name!r} may be left out; take the ? from its type"
            )


def required_names(fields: Fields) -> Iterator[str]:
    """Return the names of the fields that are not optional, so that every record has them."""
    return (name for name, declared in fields.items() if not _is_optional(declared))


def _is_optional(declared: Any) -> bool:
    """Return whether a type is declared as optional, such as `"text?"` or `["text", "?"]`."""
    if isinstance(declared, dict):
        return OPTIONAL in declared
    if isinstance(declared, list):
        return declared[-1:] == [OPTIONAL]
    return isinstance(declared, str) and declared.endswith(OPTIONAL)


def record_converter(fields: Fields) -> Callable[[Mapping[str, Any], str], Record]:
    """Return a function that takes the cells of a row and their location, and returns them as a
    record.

    Texts are converted to the declared types: "7" becomes 7 in an integer field. The function
    raises DataError if this is not possible.
    """
    kind = record_type(fields)

    def convert(cells: Mapping[str, Any], where: str) -> Record:
        """Return the cells of a row as a record, converted to the declared types."""
        try:
            record: Record = msgspec.convert(cells, kind, strict=False)
        except msgspec.ValidationError as error:
            raise DataError(f"{where}: {error}") from None
        return record

    return convert


Form = Literal["json", "list", "keyed", "lines", "table", "columns", "pattern", "folder", "parquet"]
LocatedRecords = Iterator[tuple[str, Record]]
"""Records, each with its location for error messages: `val.json: data[3]`."""


class SplitList(Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON file that lists the ids of each split.

    Only the records of one split are read, in the order of its list.
    """

    file: str
    key: str


class DrawnRecords(Struct, frozen=True, forbid_unknown_fields=True):
    """Records that the authors of a benchmark drew with NumPy, which are found again by repeating
    their draw.

    It is `numpy.random.seed(seed)`, followed by a choice without replacement.
    """

    seed: int
    of: int
    """Number of records in the file. If it were another one, the draw would give other records."""
    kept: tuple[int, ...]
    """Positions, from 0, in the drawn order of the records that are used."""


class Records(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the records and its format."""

    fields: Fields
    """The fields of a record, see `mapped.fields`; other fields are ignored."""
    file: tuple[str, ...] = ()
    """Possible names of the file (`folder`: of the folder); for `parquet`, patterns of its files."""
    form: Form | Literal[""] = ""
    """`json`: a list; `list`: the list `list` in an object; `keyed`: an object of records by their keys (`@key`);
    `lines`: JSONL; `table`: CSV or TSV; `columns`: parallel text files with one line per record, one file per field;
    `pattern`: lines that match a regular expression, whose groups are fields; `folder`: one JSON file per record.
    Inferred from the suffix when empty."""
    list: str = ""
    columns: dict[str, str] = {}
    """For `columns`, the file beside `file` that holds each field."""
    pattern: str = ""
    looks_like: str = ""
    """What a line looks like under `pattern`, for error messages."""
    inside: str = "*.json"
    """Pattern of the files in a `folder`; `@key` is the file's stem, or the name of its own subfolder."""
    json_cells: tuple[str, ...] = ()
    """Columns of a `table` whose cells hold JSON."""
    split: SplitList | None = None
    """For `keyed`: the file that lists the ids."""
    drawn: DrawnRecords | None = None
    """Which records alone are read, in that order."""

    def locate(self, folder: Path | None) -> Path:
        """Return the path of the file (for Parquet, of its folder).

        Raises DataError, which names all possible files, if none exists.
        """
        return folder or Path() if self.kind == "parquet" else locate_file(folder, *self.file)

    @property
    def kind(self) -> Form:
        """The format; unless declared, inferred from the suffix of the file's first name."""
        if self.form:
            return self.form
        suffix = Path(self.file[0].removesuffix(".gz")).suffix if self.file else ""
        if self.list:
            return "list"
        if self.columns:
            return "columns"
        if self.pattern:
            return "pattern"
        if suffix in TABLES:
            return "table"
        by_suffix: dict[str, Form] = {".jsonl": "lines", ".parquet": "parquet"}
        return by_suffix.get(suffix, "json")


def read_source_records(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Return the records of a file with their locations, in order. Raises DataError.

    If the format allows it, only one record is in memory at a time.
    """
    all_records = _READ[records.kind](records, path, folder)
    return all_records if records.drawn is None else _select_drawn(records.drawn, all_records, path)


def _select_drawn(draw: DrawnRecords, all_records: LocatedRecords, path: Path) -> LocatedRecords:
    """Yield the records that the declared draw selects, in its order.

    Raises DataError if the number of records is not the declared one, because the draw would then
    select other records.
    """
    records = list(all_records)
    if len(records) != draw.of:
        raise DataError(
            f"{path} has {len(records):,} records, but {draw.of:,} were drawn from; it is another version"
        )
    order = numpy_permutation(draw.of, draw.seed)
    for place in draw.kept:
        yield records[order[place]]


def _read_json_list(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return list_items(path, "", read_json(path, list[msgspec.Raw]), record_type(records.fields))


def _read_list_in_object(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return stream_list(path, records.list, record_type(records.fields))


def _read_json_lines(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return json_lines(path, record_type(records.fields))


def _read_keyed(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield the records of a JSON object such as `{"17": {...}, "18": {...}}`, each with its key in
    the field `@key`.

    They are in the order of the object or, if the entry names a split, in that of the split's list.
    """
    content = read_json(path, dict[str, msgspec.Raw])
    kind = record_type(records.fields)
    for key, source in _keys_to_read(records.split, content, path, folder):
        where = f"{path}: {key}"
        if key not in content:
            raise DataError(f"{source}: there is no record {key!r} in {path.name}")
        try:
            record = msgspec.json.decode(content[key], type=kind)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {format_json_error(error, kind, content[key])}") from None
        yield where, {**record, "@key": key}


def _keys_to_read(
    split: SplitList | None, content: Mapping[str, Any], path: Path, folder: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield the keys of the records to read, each with the place where it is listed, for error
    messages.

    These are all keys of `content`, or those that a file lists for a split.
    """
    if split is None:
        yield from ((key, str(path)) for key in content)
        return
    listing = locate_file(folder, split.file)
    splits = read_json(listing, dict[str, list[str]])
    if split.key not in splits:
        raise DataError(f"{listing}: there is no split {split.key!r}; it has {', '.join(splits)}")
    for number, key in enumerate(splits[split.key]):
        yield key, f"{listing}: {split.key}[{number}]"


def _read_json_folder(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield the records of a folder that has a JSON file for each, in the order of their numbers:
    `2.json` before `10.json`.
    """
    own_folder = "/" in records.inside
    files = {}
    for file in path.glob(records.inside):
        key = file.parent.name if own_folder else file.stem
        files[key] = file
    if not files:
        raise DataError(
            f"{path}: there is no {records.inside}; is this the folder with the official files?"
        )
    kind = record_type(records.fields)

    def sort_key(name: str) -> tuple[int, str]:
        # Numbers with fewer digits are smaller; names that are not numbers come last.
        return (len(name), name) if name.isdecimal() else (1 << 30, name)

    for key in sorted(files, key=sort_key):
        yield str(files[key]), {**read_json(files[key], kind), "@key": key}


def _read_table(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield a record for each row of a CSV or TSV file, with the location of the row for messages.

    Raises:
        DataError: A declared column is missing, or a cell of a required field is empty.
    """
    convert = record_converter(records.fields)
    needed = tuple(required_names(records.fields))
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        for name in (*needed, *records.json_cells):
            if name not in table.header:
                columns = ", ".join(table.header)
                raise DataError(f"{path}:1: the column {name!r} is missing; there are {columns}")
        for line, _, cells, _ in table:
            where = f"{path}:{line}"
            for name in needed:
                if name not in cells:
                    raise DataError(f"{where}: {name} is empty")
            yield where, convert(_decode_json_cells(cells, records.json_cells, where), where)


def _decode_json_cells(cells: dict[str, str], names: tuple[str, ...], where: str) -> dict[str, Any]:
    """Return the cells of a row, with those in the columns `names` decoded from JSON.

    Raises DataError if one is not JSON.
    """
    decoded: dict[str, Any] = {}
    for name in names:
        try:
            if name in cells:
                decoded[name] = msgspec.json.decode(cells[name])
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {name}: {error}") from None
    return {**cells, **decoded}


def _read_parallel_files(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield records whose fields are in separate text files: line 7 of each file belongs to the
    seventh record.

    An error message about a field names its file and line.
    """
    files = {name: path.with_name(file) for name, file in records.columns.items()}
    columns = {name: _text_lines(file) for name, file in files.items()}
    first_name = next(iter(columns))
    first_file = files[first_name]
    line_count = len(columns[first_name])
    for name, lines in columns.items():
        if len(lines) != line_count:
            raise DataError(
                f"{files[name]}: {len(lines)} lines, but {first_file.name} has {line_count}"
            )
    converters = {}
    for name, declared in records.fields.items():
        converters[name] = record_converter({name: declared})
    for index in range(line_count):
        number = index + 1
        record: Record = {"@row": number}
        for name, convert in converters.items():
            record |= convert({name: columns[name][index]}, f"{files[name]}:{number}")
        yield f"{first_file}:{number}", record


def _text_lines(path: Path) -> list[str]:
    """Return the lines of a text file, without white space at both ends of each."""
    with open_text(path) as file:
        return [line.strip() for line in DelimitedLines(file, path)]


def _read_matching_lines(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield a record for each line of a text file that is not blank.

    The entry declares a regular expression, whose named groups are the fields of the record. Raises
    DataError if a line does not match it.
    """
    line_pattern = re.compile(records.pattern)
    convert = record_converter(records.fields)
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            text = line.strip()
            if not text:
                continue
            parts = line_pattern.fullmatch(text)
            if parts is None:
                raise DataError(
                    f"{path}:{number}: {text[:60]!r} is not {records.looks_like or records.pattern}"
                )
            yield f"{path}:{number}", convert(parts.groupdict(), f"{path}:{number}")


def _read_parquet(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Yield a record for each row of the Parquet files, with the location of the row for messages.

    Besides the declared fields, a record has `@row` (its number), `@place` (file and row) and `@folder` (name of the
    file's folder).
    """
    table = ParquetSplit(folder, records.file)
    needed = tuple(required_names(records.fields))
    optional = tuple(set(records.fields) - set(needed))
    for place, row in table.rows(needed, optional, record_type(records.fields)):
        position = {"@row": place.number, "@place": place, "@folder": place.path.parent.name}
        yield place.where, {**row, **position}


_READ: dict[Form, Callable[[Records, Path, Path | None], LocatedRecords]] = {
    "json": _read_json_list,
    "list": _read_list_in_object,
    "keyed": _read_keyed,
    "lines": _read_json_lines,
    "table": _read_table,
    "columns": _read_parallel_files,
    "pattern": _read_matching_lines,
    "folder": _read_json_folder,
    "parquet": _read_parquet,
}
