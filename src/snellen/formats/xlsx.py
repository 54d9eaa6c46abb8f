"""Read cells and embedded images of an .xlsx sheet without evaluating formulas, and write a sheet of texts.

Cells are read as they are stored: a number as its digits, a formula as `=` and its text. (A reader that returns values
loses a reply that begins with `=`, and one that allocates a rectangle fails on two cells far apart.) A table of own
questions is read `as_shown` instead: a formula as the value that was computed last, a date as 2026-11-27. No file can
exhaust the memory.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from xml.parsers import expat

from snellen.common.drafts import LazyImage
from snellen.common.foreign import open_file
from snellen.common.late import import_extra
from snellen.errors import DataError

LONGEST = 32_767
"""UTF-16 code units that a cell can hold."""
MOST_ROWS = 1_048_576
LARGEST = 512 << 20
"""Bytes that a file may unpack to."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile("([A-Z]{1,3})([0-9]{1,7})")

SheetRow = tuple[int, dict[int, str]]
"""Row number from 1, and the row's non-empty cells by column number from 0."""


class SpreadsheetError(Exception):
    """What is wrong with the file; the message does not name it."""


class Sheet:
    """A file's first sheet. `formulas` counts cells that were formulas, `others` the further sheets; `uncomputed` has
    the rows and columns of formulas whose value is not stored, where values are read."""

    def __init__(self) -> None:
        self.lines: list[SheetRow] = []
        self.formulas = self.others = 0
        self.uncomputed: list[tuple[int, int]] = []


def read_sheet(
    path: Path, largest: int | None = None, *, number: int = 0, as_shown: bool = False
) -> Sheet:
    """Read a file's first sheet, or another by its number from 0. Raises DataError for a file that is not .xlsx or
    unpacks to more than `largest` bytes (512 MiB)."""
    with _opened_pack(path, largest) as pack:
        return _sheet(pack, number, as_shown=as_shown)


@contextmanager
def _opened_pack(path: Path, largest: int | None = None) -> Iterator[zipfile.ZipFile]:
    """The members of an .xlsx file that unpacks to at most `largest` bytes (512 MiB). What is wrong is a DataError."""
    most = LARGEST if largest is None else largest
    with _faults_of(path), open_file(path) as file, zipfile.ZipFile(file) as pack:
        # Nothing is read beyond the sizes in the archive's directory, so they can be trusted here.
        if (total := sum(entry.file_size for entry in pack.infolist())) > most:
            raise SpreadsheetError(
                f"it unpacks to {total >> 20:,} MiB, more than the {most >> 20} that are read"
            )
        yield pack


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    """What is wrong with a file is a DataError that names it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (
        SpreadsheetError,
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise DataError(
            f"{path}: not an .xlsx file that can be read ({error}); save it again, or as .jsonl"
        ) from None


def sheet_pictures(path: Path, number: int = 0) -> dict[tuple[int, int], list[LazyImage]]:
    """The pictures that lie on a file's sheet, by the row (from 1) and column (from 0) of their upper left
    corner. Raises DataError."""
    pictures: dict[tuple[int, int], list[LazyImage]] = {}
    with _opened_pack(path) as pack:
        members = set(pack.namelist())
        parts = _related(pack, _sheets(pack)[number], members).values()
        for drawing in parts:
            if "drawings/drawing" not in drawing:
                continue
            anchors = _Anchors()
            _parse(pack, drawing, anchors)
            media = _related(pack, drawing, members)
            for row, column, name in anchors.places:
                member = media.get(name)
                if not member:
                    continue
                image = LazyImage(f"{path}: {member}", partial(_member, path, member))
                pictures.setdefault((row + 1, column), []).append(image)
    return pictures


def _member(path: Path, name: str) -> bytes:
    with _opened_pack(path) as pack:
        return pack.read(name)


def _related(pack: zipfile.ZipFile, part: str, members: Collection[str]) -> dict[str, str]:
    """The members that a part of a file refers to, by the ids that it uses for them."""
    folder, _, name = part.rpartition("/")
    if (relations := f"{folder}/_rels/{name}.rels") not in members:
        return {}
    targets = _Targets()
    _parse(pack, relations, targets)
    paths = {
        key: target if target.startswith("/") else f"{folder}/{target}"
        for key, target in targets.by_id.items()
    }
    return {key: posixpath.normpath(path).lstrip("/") for key, path in paths.items()}


def filled_sheets(path: Path) -> dict[str, int]:
    """The names of a file's sheets, in order, with the number of filled cells of each. Raises DataError."""
    with _opened_pack(path) as pack:
        names = _book(pack).names
        return {
            name: sum(len(cells) for _, cells in _sheet(pack, place).lines)
            for place, name in enumerate(names)
        }


def largest_sheet(path: Path) -> int:
    """The number from 0 of the sheet with the most filled cells. Raises DataError."""
    with _opened_pack(path) as pack:
        count = len(_sheets(pack))
    filled = list(filled_sheets(path).values()) if count > 1 else [0]
    return filled.index(max(filled))


def _book(pack: zipfile.ZipFile) -> _Sheets:
    names = _Sheets()
    _parse(pack, "xl/workbook.xml", names)
    if not names.ids:
        raise SpreadsheetError("it has no sheet")
    return names


def _sheets(pack: zipfile.ZipFile) -> list[str]:
    """The members that are the sheets, in order."""
    targets = _related(pack, "xl/workbook.xml", pack.namelist())
    return [targets.get(name, "") for name in _book(pack).ids]


def _sheet(pack: zipfile.ZipFile, number: int, *, as_shown: bool = False) -> Sheet:
    """Read one sheet of an open file. Texts and formats of dates are kept in members of their own."""
    shared_texts = _Strings()
    for member in pack.namelist():
        if member.lower() == "xl/sharedstrings.xml":
            _parse(pack, member, shared_texts)
            break

    dates = None
    if as_shown:
        dates = _Dates()
        if "xl/styles.xml" in pack.namelist():
            _parse(pack, "xl/styles.xml", dates)
            dates.first = _book(pack).first_day

    sheets = _sheets(pack)
    cells = _Cells(shared_texts.found, dates)
    _parse(pack, sheets[number], cells)
    cells.sheet.others = len(sheets) - 1
    return cells.sheet


class _Handler:
    """Collects the text between tags."""

    def __init__(self) -> None:
        self.text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...


def _parse(pack: zipfile.ZipFile, name: str, handler: _Handler) -> None:
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def refuse(*_: Any) -> None:
        raise SpreadsheetError(f"{name} has a document type, which no spreadsheet writes")

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.text.append
    try:
        with pack.open(name) as file:
            parser.ParseFile(file)
    except KeyError:
        raise SpreadsheetError(f"{name} is missing") from None
    except expat.ExpatError as error:
        raise SpreadsheetError(f"{name}: {error}") from None


class _Sheets(_Handler):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.names: list[str] = []
        self.first_day = datetime(1899, 12, 30)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" sheet"):
            self.ids += [
                value for key, value in attributes.items() if key.endswith("relationships id")
            ]
            self.names.append(attributes.get("name", ""))
        elif name.endswith(" workbookPr") and attributes.get("date1904") in ("1", "true"):
            self.first_day = datetime(1904, 1, 1)


DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), 45, 46, 47, *range(50, 59)})
"""The numbers of the formats of dates and times that every spreadsheet knows (ECMA-376, part 1, 18.8.30)."""


class _Dates(_Handler):
    """Which styles of cells show a number as a date or a time, which counts days from `first`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = datetime(1899, 12, 30)
        self.styles: list[bool] = []
        self._formats = set(DATE_FORMATS)
        self._in_cells = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        if tag == "numFmt":
            signs = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", attributes.get("formatCode", ""))
            if set("ymdhs") & set(signs.casefold()) and "general" not in signs.casefold():
                self._formats.add(int(attributes["numFmtId"]))
        elif tag == "cellXfs":
            self._in_cells = True
        elif tag == "xf" and self._in_cells:
            self.styles.append(int(attributes.get("numFmtId", 0)) in self._formats)

    def end(self, name: str) -> None:
        if name.endswith(" cellXfs"):
            self._in_cells = False

    def shown(self, value: str, style: int) -> str:
        """A number as it is stored, a date as 2026-11-27, with the time where it has one."""
        if not value or style >= len(self.styles) or not self.styles[style]:
            return value
        if not 0 <= (days := float(value)) < 2_958_466:  # after the year 9999
            return value
        day = self.first + timedelta(seconds=round(days * 86400))
        if days < 1:
            return day.time().isoformat()
        return day.date().isoformat() if day.time() == time() else day.isoformat(" ")


class _Targets(_Handler):
    def __init__(self) -> None:
        super().__init__()
        self.by_id: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Relationship"):
            self.by_id[attributes.get("Id", "")] = attributes.get("Target", "")


class _Anchors(_Handler):
    """Row and column, both from 0, of each picture on a sheet, with its id."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[tuple[int, int, str]] = []
        self._row = self._column = 0
        self._in_from = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        tag = name.rpartition(" ")[2]
        self._in_from = tag == "from" or (
            self._in_from and tag in ("row", "col", "rowOff", "colOff")
        )
        if tag == "blip":
            ids = [value for key, value in attributes.items() if key.endswith(" embed")]
            self.places += [(self._row, self._column, name) for name in ids]

    def end(self, name: str) -> None:
        tag = name.rpartition(" ")[2]
        if self._in_from and tag == "row":
            self._row = int("".join(self.text))
        elif self._in_from and tag == "col":
            self._column = int("".join(self.text))


class _Strings(_Handler):
    """Shared strings with their runs joined; phonetic readings are skipped."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._parts: list[str] = []
        self._aside = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        self._aside += name.endswith(" rPh")

    def end(self, name: str) -> None:
        if name.endswith(" t") and not self._aside:
            self._parts.append("".join(self.text))
        elif name.endswith(" rPh"):
            self._aside -= 1
        elif name.endswith(" si"):
            self.found.append(_plain("".join(self._parts)))
            self._parts.clear()


class _Cells(_Handler):
    def __init__(self, strings: Sequence[str], dates: _Dates | None) -> None:
        """Formulas and dates are read as they are shown where `dates` are known."""
        super().__init__()
        self.sheet = Sheet()
        self._strings = strings
        self._dates = dates
        self._style = 0
        self._columns: dict[str, int] = {}
        self._row, self._cells = 0, dict[int, str]()
        self._kind = self._value = self._formula = ""
        self._is_formula = False
        self._column = -1

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if self.text:
            self.text.clear()
        tag = name.rpartition(" ")[2]
        if tag == "c":
            self._kind, self._style = attributes.get("t", "n"), int(attributes.get("s", 0))
            place = attributes.get("r")
            self._column = self._column + 1 if place is None else self._number(place)
            self._value = ""
        elif tag == "row":
            self._row = int(attributes.get("r", self._row + 1))
            self._cells = {}
            self._column = -1

    def end(self, name: str) -> None:
        tag = name.rpartition(" ")[2]
        if tag == "v" or tag == "t":
            self._value += "".join(self.text)
        elif tag == "f":
            self._formula, self._is_formula = "".join(self.text), True
        elif tag == "c":
            if text := self._text():
                self._cells[self._column] = text
        elif tag == "row" and self._cells:
            self.sheet.lines.append((self._row, self._cells))

    def _text(self) -> str:
        if self._is_formula:
            self._is_formula = False
            self.sheet.formulas += 1
            if self._dates is None:
                return f"={_plain(self._formula)}"
            if not self._value and self._kind != "str":  # a text that is computed may be empty
                self.sheet.uncomputed.append((self._row, self._column))
        if self._kind == "s":
            return self._strings[int(self._value)] if self._value else ""
        if self._kind == "b":
            return "TRUE" if self._value == "1" else "FALSE"
        if self._kind in ("inlineStr", "str"):
            return _plain(self._value)
        return (
            self._dates.shown(self._value, self._style)
            if self._dates and self._kind == "n"
            else self._value
        )

    def _number(self, place: str) -> int:
        letters = place.rstrip("0123456789")
        if (column := self._columns.get(letters)) is not None:
            return column
        if not _REFERENCE.fullmatch(place):
            raise SpreadsheetError(f"{place!r} is not the name of a cell")
        number = 0
        for letter in letters:
            number = 26 * number + ord(letter) - ord("A") + 1
        self._columns[letters] = number - 1
        return number - 1


def _plain(text: str) -> str:
    """Decode the characters that XML cannot hold, which the format writes as `_x0001_`."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def write_sheet(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write one sheet with text cells only. Raises DataError for a cell or table that the format cannot hold, and
    UnicodeEncodeError for half of a surrogate pair."""
    xlsxwriter = import_extra("xlsxwriter", "xlsx", "writing .xlsx files")
    if len(rows) >= MOST_ROWS:
        raise DataError(f"an .xlsx file holds {MOST_ROWS:,} rows at most; write .tsv or .jsonl")
    for row in rows:
        for column, text in zip(columns, row, strict=True):
            if len(text.encode("utf-16-le")) // 2 > LONGEST:
                raise DataError(
                    f"row {row[0]}, {column}: {len(text):,} characters, but a cell of an .xlsx file holds {LONGEST:,} "
                    "(one beyond U+FFFF counts twice); nothing is cut: write .tsv, .csv, .json or .jsonl instead"
                )
    options = {f"strings_to_{kind}": False for kind in ("numbers", "formulas", "urls")}
    with xlsxwriter.Workbook(path, options) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate((columns, *rows)):
            for place, text in enumerate(row):
                if text:
                    sheet.write_string(number, place, text)
