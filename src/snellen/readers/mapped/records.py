"""The records of an entry: files in nine formats, read as a stream of records with their locations.

The schema of a record, declared in an entry's TOML in the shape of the record, and checked on reading.

`"text"`, `"integer"`, `"number"`, `"flag"`, `"id"` (text or integer), `"texts"` (one or a list), `"red|green"` (one of
these). A trailing `?` marks a field that may be missing, null or empty. `["text"]` is a list, `["text", "?"]` an
optional one, `["text", "text"]` a pair, a table a nested object, `[{...}]` a list of objects.
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
"""Types of fields by name: a word, a list of types, or a table of fields."""
_WORDS: dict[str, Any] = {
    "text": str,
    "integer": int,
    "number": float,
    "flag": bool,
    "texts": Union[str, list[str]],  # noqa: UP007
    "id": Union[str, int],  # noqa: UP007  # the form that the functional syntax takes
}


def record_type(fields: Fields, name: str = "Record") -> Any:
    """The fields as a type for msgspec. Raises DataError for an unknown type."""
    # Here and in `_type` types are values, which no checker follows.
    typed: dict[str, Any] = {}
    for field, declared in fields.items():
        kind, optional = _type(declared, field)
        if optional:
            kind = NotRequired[Union[kind, None]]  # noqa: UP007  # pyrefly: ignore[invalid-annotation]
        typed[field] = kind
    known = name if name.isidentifier() and not keyword.iskeyword(name) else "Record"
    return TypedDict(known, typed)  # pyrefly: ignore[not-callable]


def _type(declared: Any, field: str) -> tuple[Any, bool]:
    """The declared type of a field, and whether the field is optional."""
    match declared:
        case dict():
            return record_type(declared, field), False
        case [*kinds, "?"]:
            return _type(kinds, field)[0], True
        case [item]:
            return list[_type(item, field)[0]], False  # pyrefly: ignore[invalid-annotation]
        case [*several] if several:
            types = tuple(_type(item, field)[0] for item in several)
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
    """Whether the field at a path may be empty."""
    return _is_optional(_value_at(fields, path))


def is_integer(fields: Fields, path: tuple[str, ...]) -> bool:
    return _value_at(fields, path) in ("integer", "integer?")


def _value_at(fields: Any, path: tuple[str, ...]) -> Any:
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
    """Raise DataError for a name that is not a field, or for an optional field."""
    for name in names:
        if name not in fields:
            raise DataError(f"{place}: {registry.unknown_name('field', name, fields)}")
        if _is_optional(fields[name]):
            raise DataError(
                f"{place}: the field {name!r} may be left out; take the ? from its type"
            )


def required(fields: Fields) -> Iterator[str]:
    """The names of the fields that every record has."""
    return (name for name, declared in fields.items() if not _is_optional(declared))


def _is_optional(declared: Any) -> bool:
    return (
        declared[-1:] == ["?"]
        if isinstance(declared, list)
        else isinstance(declared, str) and declared.endswith("?")
    )


def converter(fields: Fields) -> Callable[[Mapping[str, Any], str], Record]:
    """A function from cells and their location to a record; texts are parsed. It raises DataError for a wrong one."""
    kind = record_type(fields)

    def convert(cells: Mapping[str, Any], where: str) -> Record:
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
    """A file that lists the ids of each split; only those records are read, in that order."""

    file: str
    key: str


class DrawnRecords(Struct, frozen=True, forbid_unknown_fields=True):
    """Records that somebody drew with NumPy: `numpy.random.seed(seed)` and a choice without replacement."""

    seed: int
    of: int
    """How many records the file has; of another number others would be drawn."""
    kept: tuple[int, ...]
    """Places among those drawn, from 0."""


class Records(Struct, frozen=True, forbid_unknown_fields=True):
    """Files and the format of their records."""

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
        """The file. Raises DataError naming all that was looked for."""
        return folder or Path() if self.kind == "parquet" else locate_file(folder, *self.file)

    @property
    def kind(self) -> Form:
        """The format; unless declared, inferred from the suffix of the file's first name."""
        if self.form:
            return self.form
        suffix = Path(self.file[0].removesuffix(".gz")).suffix if self.file else ""
        if self.list:
            return "list"
        if self.columns or self.pattern:
            return "columns" if self.columns else "pattern"
        if suffix in TABLES:
            return "table"
        by_suffix: dict[str, Form] = {".jsonl": "lines", ".parquet": "parquet"}
        return by_suffix.get(suffix, "json")


def read_source_records(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """The records of a file in order, one in memory at a time where the format allows it. Raises DataError."""
    all_records = _READ[records.kind](records, path, folder)
    return all_records if records.drawn is None else _draw(records.drawn, all_records, path)


def _draw(draw: DrawnRecords, all_records: LocatedRecords, path: Path) -> LocatedRecords:
    records = list(all_records)
    if len(records) != draw.of:
        raise DataError(
            f"{path} has {len(records):,} records, but {draw.of:,} were drawn from; it is another version"
        )
    order = numpy_permutation(draw.of, draw.seed)
    yield from (records[order[place]] for place in draw.kept)


def _json(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return list_items(path, "", read_json(path, list[msgspec.Raw]), record_type(records.fields))


def _list(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return stream_list(path, records.list, record_type(records.fields))


def _lines(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    return json_lines(path, record_type(records.fields))


def _keyed(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    content = read_json(path, dict[str, msgspec.Raw])
    kind = record_type(records.fields)
    for key, source in _keys(records.split, content, path, folder):
        where = f"{path}: {key}"
        if key not in content:
            raise DataError(f"{source}: there is no record {key!r} in {path.name}")
        try:
            record = msgspec.json.decode(content[key], type=kind)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {format_json_error(error, kind, content[key])}") from None
        yield where, {**record, "@key": key}


def _keys(
    split: SplitList | None, content: Mapping[str, Any], path: Path, folder: Path | None
) -> Iterator[tuple[str, str]]:
    """The keys of the records to read, each with the location that lists it."""
    if split is None:
        yield from ((key, str(path)) for key in content)
        return
    listing = locate_file(folder, split.file)
    splits = read_json(listing, dict[str, list[str]])
    if split.key not in splits:
        raise DataError(f"{listing}: there is no split {split.key!r}; it has {', '.join(splits)}")
    yield from (
        (key, f"{listing}: {split.key}[{number}]") for number, key in enumerate(splits[split.key])
    )


def _folder(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """The files, sorted by the numbers in their names: `2` before `10`."""
    own_folder = "/" in records.inside
    files = {
        file.parent.name if own_folder else file.stem: file for file in path.glob(records.inside)
    }
    if not files:
        raise DataError(
            f"{path}: there is no {records.inside}; is this the folder with the official files?"
        )
    kind = record_type(records.fields)
    for key in sorted(
        files, key=lambda name: (len(name), name) if name.isdecimal() else (1 << 30, name)
    ):
        yield str(files[key]), {**read_json(files[key], kind), "@key": key}


def _table(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    convert = converter(records.fields)
    needed = tuple(required(records.fields))
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        if missing := [name for name in (*needed, *records.json_cells) if name not in table.header]:
            raise DataError(
                f"{path}:1: the column {missing[0]!r} is missing; there are {', '.join(table.header)}"
            )
        for line, _, cells, _ in table:
            where = f"{path}:{line}"
            if empty := [name for name in needed if name not in cells]:
                raise DataError(f"{where}: {empty[0]} is empty")
            yield where, convert(_unpacked(cells, records.json_cells, where), where)


def _unpacked(cells: dict[str, str], names: tuple[str, ...], where: str) -> dict[str, Any]:
    """The cells, with the named columns decoded from JSON."""
    decoded: dict[str, Any] = {}
    for name in names:
        try:
            if name in cells:
                decoded[name] = msgspec.json.decode(cells[name])
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {name}: {error}") from None
    return {**cells, **decoded}


def _columns(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    """Parallel lines of several files; errors name the file that holds the wrong line."""
    files = {name: path.with_name(file) for name, file in records.columns.items()}
    columns = {name: _text_lines(file) for name, file in files.items()}
    (first, lines), *other_columns = columns.items()
    for name, other_lines in other_columns:
        if len(other_lines) != len(lines):
            raise DataError(
                f"{files[name]}: {len(other_lines)} lines, but {files[first].name} has {len(lines)}"
            )
    converts = {name: converter({name: declared}) for name, declared in records.fields.items()}
    for number in range(len(lines)):
        record: Record = {"@row": number + 1}
        for name, convert in converts.items():
            record |= convert({name: columns[name][number]}, f"{files[name]}:{number + 1}")
        yield f"{files[first]}:{number + 1}", record


def _text_lines(path: Path) -> list[str]:
    with open_text(path) as file:
        return [line.strip() for line in DelimitedLines(file, path)]


def _pattern(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    fitting, convert = re.compile(records.pattern), converter(records.fields)
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            text = line.strip()
            if not text:
                continue
            parts = fitting.fullmatch(text)
            if parts is None:
                raise DataError(
                    f"{path}:{number}: {text[:60]!r} is not {records.looks_like or records.pattern}"
                )
            yield f"{path}:{number}", convert(parts.groupdict(), f"{path}:{number}")


def _parquet(records: Records, path: Path, folder: Path | None) -> LocatedRecords:
    table = ParquetSplit(folder, records.file)
    needed = tuple(required(records.fields))
    for place, row in table.rows(
        needed, tuple(set(records.fields) - set(needed)), record_type(records.fields)
    ):
        yield (
            place.where,
            {**row, "@row": place.number, "@place": place, "@folder": place.path.parent.name},
        )


_READ: dict[Form, Callable[[Records, Path, Path | None], LocatedRecords]] = {
    "json": _json,
    "list": _list,
    "keyed": _keyed,
    "lines": _lines,
    "table": _table,
    "columns": _columns,
    "pattern": _pattern,
    "folder": _folder,
    "parquet": _parquet,
}
