"""Parsers for the XML parts of an .xlsx file: workbook, styles, relationships, drawings, shared strings and cells."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Any
from xml.parsers import expat

DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), 45, 46, 47, *range(50, 59)})
"""Numbers of the built-in formats of dates and times (ECMA-376, part 1, 18.8.30)."""
END_OF_DATES = 2_958_466
"""Number of the first day after the year 9999."""
_ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile("([A-Z]{1,3})([0-9]{1,7})")
_QUOTED_IN_FORMAT = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]')
"""Literal text, escaped characters and conditions in the format of a number."""

SheetRow = tuple[int, dict[int, str]]
"""Row number from 1, and the row's non-empty cells by column number from 0."""


class SpreadsheetError(Exception):
    """Fault of a spreadsheet; the message does not name the file."""


class Sheet:
    """The cells of one sheet."""

    def __init__(self) -> None:
        self.lines: list[SheetRow] = []
        self.formulas = 0
        """Number of cells that contain formulas."""
        self.others = 0
        """Number of other sheets in the file."""
        self.uncomputed: list[tuple[int, int]] = []
        """Row and column of formulas without a stored value, if values are read."""


class PartHandler:
    """Base of the parsers; `text` collects the text between tags."""

    def __init__(self) -> None:
        self.text: list[str] = []

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None: ...


def parse_part(pack: zipfile.ZipFile, name: str, handler: PartHandler) -> None:
    """Parse a member of an .xlsx file. Raises SpreadsheetError.

    A document type is rejected, because its entities could expand without limit.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True

    def reject_doctype(*_: Any) -> None:
        raise SpreadsheetError(f"{name} has a document type, which spreadsheets do not have")

    parser.StartDoctypeDeclHandler = reject_doctype
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


def _tag(name: str) -> str:
    """Return the name of an element without its namespace."""
    return name.rpartition(" ")[2]


class WorkbookParser(PartHandler):
    """Relationship ids and names of the sheets, and the day from which dates are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.names: list[str] = []
        self.first_day = datetime(1899, 12, 30)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        tag = _tag(name)
        if tag == "sheet":
            self.names.append(attributes.get("name", ""))
            for key, value in attributes.items():
                if key.endswith("relationships id"):
                    self.ids.append(value)
        elif tag == "workbookPr" and attributes.get("date1904") in ("1", "true"):
            self.first_day = datetime(1904, 1, 1)


class DateStyles(PartHandler):
    """Styles of cells that show a number as a date or time, counted in days from `first`."""

    def __init__(self) -> None:
        super().__init__()
        self.first = datetime(1899, 12, 30)
        self.styles: list[bool] = []
        """Whether each style of cells shows a date."""
        self._date_formats = set(DATE_FORMATS)
        self._in_cell_styles = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Note which number formats, and so which cell styles, show numbers as dates."""
        tag = _tag(name)
        if tag == "numFmt":
            code = _QUOTED_IN_FORMAT.sub("", attributes.get("formatCode", "")).casefold()
            has_date_letters = bool(set("ymdhs") & set(code))
            if has_date_letters and "general" not in code:
                self._date_formats.add(int(attributes["numFmtId"]))
        elif tag == "cellXfs":
            self._in_cell_styles = True
        elif tag == "xf" and self._in_cell_styles:
            number_format = int(attributes.get("numFmtId", 0))
            self.styles.append(number_format in self._date_formats)

    def end(self, name: str) -> None:
        if _tag(name) == "cellXfs":
            self._in_cell_styles = False

    def shown(self, value: str, style: int) -> str:
        """Return a cell as text: a number as it is stored; a date as 2026-11-27, with its time unless that is midnight."""
        is_date = style < len(self.styles) and self.styles[style]
        if not value or not is_date:
            return value
        days = float(value)
        if not 0 <= days < END_OF_DATES:
            return value
        moment = self.first + timedelta(seconds=round(days * 86400))
        if days < 1:
            return moment.time().isoformat()
        if moment.time() == time():
            return moment.date().isoformat()
        return moment.isoformat(" ")


class RelationshipParser(PartHandler):
    """Targets of the relationships of a part, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.target_by_id: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if _tag(name) == "Relationship":
            self.target_by_id[attributes.get("Id", "")] = attributes.get("Target", "")


class AnchorParser(PartHandler):
    """Upper left cells of the images on a sheet: row and column from 0, and the id of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: list[tuple[int, int, str]] = []
        self._row = 0
        self._column = 0
        self._in_from = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        tag = _tag(name)
        if tag == "from":
            self._in_from = True
        elif tag not in ("row", "col", "rowOff", "colOff"):
            self._in_from = False
        if tag == "blip":
            for key, value in attributes.items():
                if key.endswith(" embed"):
                    self.anchors.append((self._row, self._column, value))

    def end(self, name: str) -> None:
        if not self._in_from:
            return
        tag = _tag(name)
        if tag == "row":
            self._row = int("".join(self.text))
        elif tag == "col":
            self._column = int("".join(self.text))


class SharedStringParser(PartHandler):
    """Strings that cells refer to by index, with their runs joined and without phonetic readings."""

    def __init__(self) -> None:
        super().__init__()
        self.strings: list[str] = []
        self._runs: list[str] = []
        self._phonetic_depth = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.text.clear()
        if _tag(name) == "rPh":
            self._phonetic_depth += 1

    def end(self, name: str) -> None:
        tag = _tag(name)
        if tag == "t" and not self._phonetic_depth:
            self._runs.append("".join(self.text))
        elif tag == "rPh":
            self._phonetic_depth -= 1
        elif tag == "si":
            self.strings.append(decode_escapes("".join(self._runs)))
            self._runs.clear()


class CellParser(PartHandler):
    """The cells of a sheet, in `sheet`.

    With `dates`, cells are read as they are shown: formulas as their values, and dates as 2026-11-27. Otherwise they are
    read as they are stored.
    """

    def __init__(self, strings: Sequence[str], dates: DateStyles | None) -> None:
        super().__init__()
        self.sheet = Sheet()
        self._strings = strings
        self._dates = dates
        self._column_by_letters: dict[str, int] = {}
        self._row = 0
        self._cells: dict[int, str] = {}
        self._column = -1
        self._kind = ""
        self._style = 0
        self._value = ""
        self._formula: str | None = None

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Prepare for the content of an element: a cell (`c`) gives its type, style and position, a row its number."""
        if self.text:
            self.text.clear()
        tag = _tag(name)
        if tag == "c":
            self._kind = attributes.get("t", "n")
            self._style = int(attributes.get("s", 0))
            self._value = ""
            reference = attributes.get("r")
            if reference is None:
                self._column += 1
            else:
                self._column = self._column_of(reference)
        elif tag == "row":
            self._row = int(attributes.get("r", self._row + 1))
            self._cells = {}
            self._column = -1

    def end(self, name: str) -> None:
        """Take the content of an element that ends: a value, a formula, a cell or a row."""
        tag = _tag(name)
        if tag == "v" or tag == "t":
            self._value += "".join(self.text)
        elif tag == "f":
            self._formula = "".join(self.text)
        elif tag == "c":
            text = self._cell_text()
            if text:
                self._cells[self._column] = text
        elif tag == "row" and self._cells:
            self.sheet.lines.append((self._row, self._cells))

    def _cell_text(self) -> str:
        """Return the text of the cell that ends here, by its type: a shared text, a Boolean, a number, a date or a formula."""
        formula = self._formula
        if formula is not None:
            self._formula = None
            self.sheet.formulas += 1
            if self._dates is None:
                return f"={decode_escapes(formula)}"
            may_be_empty = self._kind == "str"
            if not self._value and not may_be_empty:
                self.sheet.uncomputed.append((self._row, self._column))

        if self._kind == "s":
            return self._strings[int(self._value)] if self._value else ""
        if self._kind == "b":
            return "TRUE" if self._value == "1" else "FALSE"
        if self._kind in ("inlineStr", "str"):
            return decode_escapes(self._value)
        if self._kind == "n" and self._dates is not None:
            return self._dates.shown(self._value, self._style)
        return self._value

    def _column_of(self, reference: str) -> int:
        """Return the column number, from 0, of a cell such as `AB12`."""
        letters = reference.rstrip("0123456789")
        column = self._column_by_letters.get(letters)
        if column is not None:
            return column
        if not _REFERENCE.fullmatch(reference):
            raise SpreadsheetError(f"{reference!r} is not the name of a cell")
        number = 0
        for letter in letters:
            number = 26 * number + ord(letter) - ord("A") + 1
        column = number - 1
        self._column_by_letters[letters] = column
        return column


def decode_escapes(text: str) -> str:
    """Decode characters that XML cannot contain, which the format writes as `_x0001_`."""
    if "_x" not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
