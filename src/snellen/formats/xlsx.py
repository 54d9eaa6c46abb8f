"""Read cells and embedded images of an .xlsx sheet without evaluating formulas, and write a sheet of text.

Cells are read as they are stored: a number as its digits, a formula as `=` and its text. (Readers that return values lose
a reply that begins with `=`, and readers that allocate a rectangle fail if two cells are far apart.) With `as_shown`, as
for a user's own questions, a formula is its stored value and a date is 2026-11-27. No file can exhaust the memory.
"""

from __future__ import annotations

import posixpath
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from snellen.common.drafts import LazyImage
from snellen.common.foreign import open_file
from snellen.common.late import import_extra
from snellen.errors import DataError
from snellen.formats.xlsx_parts import (
    AnchorParser,
    CellParser,
    DateStyles,
    RelationshipParser,
    SharedStringParser,
    Sheet,
    SpreadsheetError,
    WorkbookParser,
    parse_part,
)

MAX_CELL_CHARACTERS = 32_767
"""Maximum length of a cell, in UTF-16 code units."""
MAX_ROWS = 1_048_576
MAX_UNPACKED_BYTES = 512 << 20
"""Maximum uncompressed size of a file, in bytes."""
WORKBOOK = "xl/workbook.xml"
STYLES = "xl/styles.xml"
SHARED_STRINGS = "xl/sharedstrings.xml"  # in lower case; programs differ

_READ_FAULTS = (
    SpreadsheetError,
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
"""Raised by zipfile and the parsers for damaged or foreign files."""


def read_sheet(
    path: Path, largest: int | None = None, *, number: int = 0, as_shown: bool = False
) -> Sheet:
    """Read a sheet.

    Args:
        path: The file.
        largest: Maximum uncompressed size in bytes; by default 512 MiB.
        number: Number of the sheet, from 0.
        as_shown: Read formulas and dates as a spreadsheet program shows them.

    Raises:
        DataError: The file is not an .xlsx file, is damaged, or is too large.

    Examples:
        >>> from snellen.plugin_api import write_text_table
        >>> write_text_table(Path("birds.xlsx"), ("bird", "songs"), [{"bird": "wren", "songs": "3"}])
        >>> len(read_sheet(Path("birds.xlsx")).lines)
        2
    """
    with _open_pack(path, largest) as pack:
        return _read_sheet(pack, number, as_shown=as_shown)


@contextmanager
def _open_pack(path: Path, largest: int | None = None) -> Iterator[zipfile.ZipFile]:
    """Open an .xlsx file, which is a zip archive.

    Raises DataError if it is damaged, or larger than `largest` bytes when it is unpacked.
    """
    limit = MAX_UNPACKED_BYTES if largest is None else largest
    with _faults_of(path), open_file(path) as file, zipfile.ZipFile(file) as pack:
        # zipfile never reads more than the sizes in the archive's directory, so they can be trusted here.
        total = sum(entry.file_size for entry in pack.infolist())
        if total > limit:
            raise SpreadsheetError(
                f"its uncompressed size is {total >> 20:,} MiB, more than the limit of {limit >> 20} MiB"
            )
        yield pack


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    """Turn errors of reading a spreadsheet, raised inside the block, into a DataError that names
    the file.
    """
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except _READ_FAULTS as error:
        raise DataError(
            f"{path}: not a readable .xlsx file ({error}); save it again, or as .jsonl"
        ) from None


def sheet_images(path: Path, number: int = 0) -> dict[tuple[int, int], list[LazyImage]]:
    """Return the images on a sheet by row (from 1) and column (from 0) of their upper left corner. Raises DataError."""
    images: defaultdict[tuple[int, int], list[LazyImage]] = defaultdict(list)
    with _open_pack(path) as pack:
        members = set(pack.namelist())
        sheet_member = _sheet_members(pack)[number]
        for drawing in _related_members(pack, sheet_member, members).values():
            if "drawings/drawing" not in drawing:
                continue
            parser = AnchorParser()
            parse_part(pack, drawing, parser)
            media = _related_members(pack, drawing, members)
            for row, column, image_id in parser.anchors:
                member = media.get(image_id)
                if member:
                    image = LazyImage(f"{path}: {member}", partial(_read_member, path, member))
                    images[row + 1, column].append(image)
    return dict(images)


def _read_member(path: Path, name: str) -> bytes:
    """Return the content of a file in a workbook."""
    with _open_pack(path) as pack:
        return pack.read(name)


def _related_members(pack: zipfile.ZipFile, part: str, members: Collection[str]) -> dict[str, str]:
    """Return the members that a part refers to, by their ids in this part."""
    folder, _, name = part.rpartition("/")
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in members:
        return {}
    parser = RelationshipParser()
    parse_part(pack, relations, parser)
    members_by_id: dict[str, str] = {}
    for key, target in parser.target_by_id.items():
        path = target if target.startswith("/") else f"{folder}/{target}"
        members_by_id[key] = posixpath.normpath(path).lstrip("/")
    return members_by_id


def filled_sheets(path: Path) -> dict[str, int]:
    """Return the number of filled cells of each sheet by name, in the order of the file. Raises DataError."""
    counts: dict[str, int] = {}
    with _open_pack(path) as pack:
        for number, name in enumerate(_parse_workbook(pack).names):
            sheet = _read_sheet(pack, number)
            counts[name] = sum(len(cells) for _, cells in sheet.lines)
    return counts


def largest_sheet(path: Path) -> int:
    """Return the number, from 0, of the sheet with the most filled cells. Raises DataError."""
    with _open_pack(path) as pack:
        if len(_sheet_members(pack)) == 1:
            return 0
    counts = list(filled_sheets(path).values())
    return counts.index(max(counts))


def _parse_workbook(pack: zipfile.ZipFile) -> WorkbookParser:
    """Return the names and ids of the sheets of a spreadsheet. Raises SpreadsheetError if it has no sheet."""
    workbook = WorkbookParser()
    parse_part(pack, WORKBOOK, workbook)
    if not workbook.ids:
        raise SpreadsheetError("it has no sheet")
    return workbook


def _sheet_members(pack: zipfile.ZipFile) -> list[str]:
    """Return the members with the sheets, in order."""
    members_by_id = _related_members(pack, WORKBOOK, pack.namelist())
    return [members_by_id.get(sheet_id, "") for sheet_id in _parse_workbook(pack).ids]


def _read_sheet(pack: zipfile.ZipFile, number: int, *, as_shown: bool = False) -> Sheet:
    """Read a sheet of a spreadsheet.

    Args:
        pack: The open .xlsx file, a zip archive of XML files.
        number: Index of the sheet.
        as_shown: Whether cells have the text that a spreadsheet shows, such as a date; else the stored value.
    """
    strings = SharedStringParser()
    for member in pack.namelist():
        if member.lower() == SHARED_STRINGS:
            parse_part(pack, member, strings)
            break

    dates = None
    if as_shown:
        dates = DateStyles()
        if STYLES in pack.namelist():
            parse_part(pack, STYLES, dates)
            dates.first = _parse_workbook(pack).first_day

    members = _sheet_members(pack)
    cells = CellParser(strings.strings, dates)
    parse_part(pack, members[number], cells)
    cells.sheet.others = len(members) - 1
    return cells.sheet


def write_sheet(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write one sheet that contains only text cells.

    Raises:
        DataError: The format cannot represent a cell, or so many rows.
        UnicodeEncodeError: A text contains an unpaired surrogate.
    """
    xlsxwriter = import_extra("xlsxwriter", "xlsx", "writing .xlsx files")
    if len(rows) >= MAX_ROWS:
        raise DataError(f"an .xlsx file has at most {MAX_ROWS:,} rows; write .tsv or .jsonl")
    for row in rows:
        for name, text in zip(columns, row, strict=True):
            if len(text.encode("utf-16-le")) // 2 > MAX_CELL_CHARACTERS:
                raise DataError(
                    f"row {row[0]}, {name}: {len(text):,} characters, but a cell of an .xlsx file holds at most "
                    f"{MAX_CELL_CHARACTERS:,} (characters above U+FFFF count twice); write .tsv, .csv, .json or .jsonl instead"
                )
    options = {f"strings_to_{kind}": False for kind in ("numbers", "formulas", "urls")}
    with xlsxwriter.Workbook(path, options) as book:
        sheet = book.add_worksheet()
        for number, row in enumerate((columns, *rows)):
            for column, text in enumerate(row):
                if text:
                    sheet.write_string(number, column, text)
