"""Read and write tables of text: .xlsx, .tsv, .csv, .json and .jsonl.

Numbers keep their digits. A table is read again after it was written, and compared.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections import Counter
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
    """A table of text.

    Examples:
        >>> TextTable(("bird",), ((2, {"bird": "wren"}),)).rows[0]
        (2, {'bird': 'wren'})
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[int, dict[str, str]], ...]
    """For each row, its line in the file and its non-empty cells."""
    notes: tuple[str, ...] = ()
    """Oddities of the file that the user should know."""

    @staticmethod
    def read(path: Path) -> TextTable:
        """Read a table in the format of its suffix. Raises DataError, naming file and line.

        Examples:
            >>> _ = Path("birds.csv").write_text("bird,songs\\nwren,3\\n")
            >>> TextTable.read(Path("birds.csv")).rows
            ((2, {'bird': 'wren', 'songs': '3'}),)
        """
        read = READERS.get(path.suffix.lower())
        if read is None:
            raise DataError(f"{path}: the suffix of a table must be one of {', '.join(READERS)}")
        return read(path)


def _read_delimited(path: Path) -> TextTable:
    """Read a table of text such as a .csv file. Columns without a name are left out."""
    rows: list[tuple[int, dict[str, str]]] = []
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        for row in table:
            cells = {name: cell for name, cell in row.cells.items() if name}
            rows.append((row.line, cells))
    columns = tuple(name for name in table.header if name)
    return TextTable(columns, tuple(rows))


def _read_xlsx(path: Path) -> TextTable:
    """Read the first sheet of a spreadsheet. Notes tell the user about formulas and further sheets."""
    sheet = read_sheet(path)
    if not sheet.lines:
        raise DataError(f"{path}: the first sheet is empty")
    (_, names), *lines = sheet.lines
    for name, count in Counter(names.values()).items():
        if count > 1:
            raise DataError(f"{path}:1: the column {name!r} appears twice")

    rows: list[tuple[int, dict[str, str]]] = []
    for line, cells in lines:
        # pandas writes its index as a column without a name.
        named_cells = {names[column]: text for column, text in cells.items() if column in names}
        rows.append((line, named_cells))

    notes: list[str] = []
    if sheet.formulas:
        notes.append(f"cells with formulas, read as text: {sheet.formulas:,}")
    if sheet.others:
        notes.append(f"only the first sheet is read; further sheets: {sheet.others}")
    return TextTable(tuple(names.values()), tuple(rows), tuple(notes))


def _read_json(path: Path) -> TextTable:
    content = _decode_json(_read_utf8(path), str(path))
    if not isinstance(content, list):
        raise DataError(f"{path}: a table in JSON must be a list of objects")
    return _table_of_objects(list(enumerate(content, 1)), path)


def _read_jsonl(path: Path) -> TextTable:
    """Read a file with a JSON object in each line."""
    objects: list[tuple[int, Any]] = []
    # Only a line feed ends a line: a text may contain other separators.
    for line, text in enumerate(_read_utf8(path).split("\n"), 1):
        if text.strip():
            objects.append((line, _decode_json(text, f"{path}:{line}")))
    return _table_of_objects(objects, path)


def _read_utf8(path: Path) -> str:
    """Return the text of a file, without a byte order mark. Raises DataError if it is not in UTF-8."""
    with open_text(path) as file:
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: not UTF-8 (byte {error.start}); save the file as UTF-8"
            ) from None


def _decode_json(text: str, where: str) -> Any:
    """Decode JSON with numbers as text. NaN, which pandas writes for an empty cell, becomes null."""
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda name: None)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON ({error})") from None


def _table_of_objects(objects: Sequence[tuple[int, Any]], path: Path) -> TextTable:
    """Return a table of JSON objects. Its columns are all fields, in order of first appearance; empty cells are left out.

    Args:
        objects: For each object its line in the file, and its content.
        path: The file, for messages.
    """
    columns: dict[str, None] = {}
    rows: list[tuple[int, dict[str, str]]] = []
    for line, record in objects:
        if not isinstance(record, dict):
            raise DataError(
                f"{path}:{line}: a row must be an object, {{'index': ..., 'prediction': ...}}"
            )
        cells: dict[str, str] = {}
        for name, value in record.items():
            columns[name] = None
            text = _cell_text(value, f"{path}:{line}: {name}")
            if text:
                cells[name] = text
        rows.append((line, cells))
    return TextTable(tuple(columns), tuple(rows))


def _cell_text(value: Any, where: str) -> str:
    """Return a cell as text: empty for null, and TRUE or FALSE for a Boolean, as a spreadsheet shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if not isinstance(value, str):
        raise DataError(f"{where}: a cell must be a text or a number, not a {type(value).__name__}")
    return value


READERS: dict[str, Callable[[Path], TextTable]] = {
    ".xlsx": _read_xlsx,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    **dict.fromkeys(TABLES, _read_delimited),
}


def write_text_table(path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    """Write a table in the format of its suffix, read it again, and keep it only if every cell is the same.

    Raises DataError for a text that the format cannot represent, naming the row by its first cell, or by its number.

    Examples:
        >>> write_text_table(Path("birds.csv"), ("bird", "songs"), [{"bird": "wren", "songs": "3"}])
        >>> Path("birds.csv").read_text()
        '"bird","songs"\\n"wren","3"\\n'
    """
    if path.suffix.lower() not in READERS:
        raise DataError(f"{path}: the suffix of a table must be one of {', '.join(READERS)}")
    with replacing_atomically(path) as draft:
        try:
            _write(draft, columns, rows)
        except UnicodeEncodeError:
            raise DataError(
                f"cannot write {path}: a cell contains an unpaired surrogate; use .json or .jsonl"
            ) from None
        except DataError as error:
            raise DataError(f"cannot write {path}: {error}") from None
        _check_written(draft, path, columns, rows)


def _write(path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    """Write rows as .xlsx, as a table of text, as a JSON list, or as JSON lines, depending on the suffix of the path."""
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
        # ASCII, because an unpaired surrogate, which a reply may contain, has no other encoding.
        objects = []
        for row in cells:
            cells_by_column = dict(zip(columns, row, strict=True))
            objects.append(json.dumps(cells_by_column))
        if suffix == ".json":
            lines = ",\n".join(objects)
            file.write(f"[{lines}]\n")
        else:
            lines = "\n".join(objects)
            file.write(f"{lines}\n")


def _check_written(draft: Path, path: Path, columns: Sequence[str], rows: Sequence[Cells]) -> None:
    """Raise DataError if the rows of the draft are not the rows that were written."""
    reread = TextTable.read(draft)
    if len(reread.rows) != len(rows):
        raise DataError(
            f"cannot write {path}: only {len(reread.rows)} of {len(rows)} rows could be read again"
        )
    for number, ((_, cells), row) in enumerate(zip(reread.rows, rows, strict=True), 1):
        for name in columns:
            written = row.get(name) or None
            if cells.get(name) != written:
                label = row.get(columns[0]) or number
                raise DataError(
                    f"cannot write {path}: row {label}, column {name!r}: the text would change when it is read "
                    "again; write .jsonl instead"
                )


@contextmanager
def replacing_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary file next to `path`, which replaces it if the block succeeds. Raises DataError."""
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
