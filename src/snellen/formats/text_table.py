"""Read and write tables of text in five formats: .xlsx, .tsv, .csv, .json and .jsonl.

Numbers keep their digits. A written table is read back and compared.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.delimited import TABLES, DelimitedTable, open_text
from snellen.formats.xlsx import read_sheet, write_sheet

Cells = Mapping[str, str]


class TextTable(Struct, frozen=True):
    """A table: its columns, and for each row its line in the file and its non-empty cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]
    notes: tuple[str, ...] = ()
    """Oddities of the file to tell the user about."""


def read_text_table(path: Path) -> TextTable:
    """Read a table in the format of its suffix; numbers keep their digits. Raises DataError naming file and line."""
    form = READERS.get(path.suffix.lower())
    if form is None:
        raise DataError(f"{path}: a table ends with {', '.join(READERS)}")
    return form(path)


def _read_lines(path: Path) -> TextTable:
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        rows = tuple(
            (row.line, {name: cell for name, cell in row.cells.items() if name}) for row in table
        )
        return TextTable(tuple(name for name in table.header if name), rows)


def _read_xlsx(path: Path) -> TextTable:
    sheet = read_sheet(path)
    if not sheet.lines:
        raise DataError(f"{path}: the first sheet is empty")
    (_, names), *lines = sheet.lines
    if len(set(names.values())) < len(names):
        repeated = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise DataError(f"{path}:1: the column {repeated!r} appears twice")
    # pandas writes its index as a column without a name.
    rows = tuple(
        (line, {names[place]: text for place, text in cells.items() if place in names})
        for line, cells in lines
    )
    notes = []
    if sheet.formulas:
        notes.append(f"cells that are formulas, taken as their text: {sheet.formulas:,}")
    if sheet.others:
        notes.append(f"only the first sheet is read; left out: {sheet.others}")
    return TextTable(tuple(names.values()), rows, tuple(notes))


def _read_json(path: Path) -> TextTable:
    content = _decoded(_text_of(path), str(path))
    if not isinstance(content, list):
        raise DataError(f"{path}: a JSON file of rows is a list of objects")
    return _table([(number, row) for number, row in enumerate(content, 1)], path)


def _read_jsonl(path: Path) -> TextTable:
    # Only a line feed ends a line: a text may contain other separators.
    lines = enumerate(_text_of(path).split("\n"), 1)
    return _table(
        [(line, _decoded(text, f"{path}:{line}")) for line, text in lines if text.strip()], path
    )


def _text_of(path: Path) -> str:
    with open_text(path) as file:
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: not UTF-8 (byte {error.start}); save the file as UTF-8"
            ) from None


def _decoded(text: str, where: str) -> Any:
    """JSON with numbers kept as written; NaN, which pandas writes for an empty cell, becomes null."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda name: None)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error})") from None


def _table(rows: Sequence[tuple[int, Any]], path: Path) -> TextTable:
    columns: dict[str, None] = {}
    table_rows = []
    for line, row in rows:
        if not isinstance(row, dict):
            raise DataError(
                f"{path}:{line}: a row is an object, {{'index': ..., 'prediction': ...}}"
            )
        cells = {name: _text(value, f"{path}:{line}: {name}") for name, value in row.items()}
        columns.update(dict.fromkeys(cells))
        table_rows.append((line, {name: text for name, text in cells.items() if text}))
    return TextTable(tuple(columns), tuple(table_rows))


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        raise DataError(f"{where}: a cell is a text or a number, not a {type(value).__name__}")
    return value


READERS: dict[str, Callable[[Path], TextTable]] = {
    ".xlsx": _read_xlsx,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    **dict.fromkeys(TABLES, _read_lines),
}


def write_text_table(path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    """Write a table in the format of its suffix, read it back, and keep it only if every cell is the same.

    Raises DataError for a text that the format cannot hold, naming the row (by its first cell, or else its number).
    """
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path}: a table ends with {', '.join(READERS)}")
    with replacing_atomically(path) as draft:
        try:
            _write(draft, columns, rows)
        except UnicodeEncodeError:
            raise DataError(
                f"cannot write {path}: a cell contains an unpaired surrogate; use .json or .jsonl"
            ) from None
        except DataError as error:
            raise DataError(f"{path} is not written: {error}") from None
        _check(draft, path, columns, rows)


def _write(path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    suffix = path.suffix.lower()
    cells = [[row.get(name, "") for name in columns] for row in rows]
    if suffix == ".xlsx":
        write_sheet(path, columns, cells)
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        if suffix in TABLES:
            # All cells are quoted: a lone carriage return would otherwise end a row.
            table = csv.writer(
                file, delimiter=TABLES[suffix], quoting=csv.QUOTE_ALL, lineterminator="\n"
            )
            table.writerows([columns, *cells])
            return
        # ASCII: half of a surrogate pair, which a reply may hold, has no other encoding.
        lines = (json.dumps(dict(zip(columns, row, strict=True))) for row in cells)
        is_list = suffix == ".json"
        file.write(("[%s]\n" if is_list else "%s\n") % (",\n" if is_list else "\n").join(lines))


def _check(draft: Path, path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    reread = read_text_table(draft)
    expected = [{name: row[name] for name in columns if row.get(name)} for row in rows]
    if len(reread.rows) != len(expected):
        raise DataError(
            f"{path} is not written: {len(reread.rows)} rows of {len(expected)} would be read again"
        )
    for number, ((_, cells), row) in enumerate(zip(reread.rows, expected, strict=True), 1):
        if cells != row:
            name = next(name for name in columns if cells.get(name) != row.get(name))
            raise DataError(
                f"{path} is not written: row {row.get(columns[0], number)}, column {name!r}: the text would not be "
                "read again as it is; write .jsonl instead"
            )


@contextmanager
def replacing_atomically(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that replaces it when the block succeeds. Raises DataError if that fails."""
    draft = None
    try:
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix, delete=False
        ) as file:
            draft = Path(file.name)
        yield draft
        draft.chmod(0o644)
        draft.replace(path)
    except OSError as error:
        raise DataError(
            f"cannot write {path}: {error.strerror}; free some space or choose another folder"
        ) from None
    finally:
        if draft:
            draft.unlink(missing_ok=True)
