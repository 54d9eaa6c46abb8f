"""First pass over a file of MMBench's form: all rows without their images, each checked by itself."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, DelimitedRow, DelimitedTable, unknown_columns
from snellen.formats.locate import PICTURE_FILE

MAX_REFERENCE_LENGTH = 64
"""An image cell with at most this many characters is the index of another row, unless it is the name of a file."""
NEEDED_COLUMNS = ("index", "question", "A", "B")
IMAGE_COLUMNS = ("image", "image_path")
FORM_COLUMNS = (
    "index",
    "g_index",
    "question",
    "hint",
    "answer",
    "category",
    *IMAGE_COLUMNS,
    "source",
    "l2-category",
    "comment",
    "split",
    *LETTERS,
)
L2_COLUMNS = ("l2-category", "L2-category", "l2_category")
"""Spellings of the column of L-2 abilities in published files."""


class SurveyedRow(Struct, frozen=True):
    """A row of a file without its image."""

    line: int
    place: int
    index: str
    g_index: str
    question: str
    options: tuple[str, ...]
    gold: int | None
    """Place of the correct option in this row; None when hidden."""
    hint: str
    category: str
    l2: str
    split: str
    source: str
    comment: str
    link: str
    """Index of another row, whose image this row shows; empty if the row has an image of its own, or no image."""
    picture: str
    """Digest of the row's own image cell; empty if the row has no image of its own."""


class Faults:
    """The faults of a file, at most one for each question.

    If the file is read strictly, the first few are reported together as one error. If it is read leniently, the
    questions with faults are left out, and notes say how many.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, tuple[str, str]] = {}
        """For each question with a fault, the kind of its first fault, and that fault in full."""

    def add(self, key: str, kind: str, text: str) -> None:
        """Record a fault of a question; only the first one of each question is kept.

        Args:
            key: Index of the question.
            kind: The kind of fault, such as "no answer".
            text: The fault in full, with file and line.
        """
        self.by_key.setdefault(key, (kind, text))

    def refuse(self, most: int) -> None:
        """Raise a DataError with the first `most` faults, one line each. Does nothing if there are no faults."""
        if self.by_key:
            texts = dict.fromkeys(text for _, text in self.by_key.values())
            raise DataError("\n".join(list(texts)[:most]))

    def notes(self) -> list[str]:
        """Return a line for each kind of fault: how many questions are left out because of it, and the first of them."""
        counts: Counter[str] = Counter()
        first_texts: dict[str, str] = {}
        for kind, text in self.by_key.values():
            counts[kind] += 1
            first_texts.setdefault(kind, text)
        lines = []
        for kind, count in counts.items():
            lines.append(f"{question_count_text(count)} left out, {kind}: {first_texts[kind]}")
        return lines


class RowError(Exception):
    """A fault of one row: its kind, such as "no question", and a text that does not name file and line."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def question_count_text(count: int) -> str:
    """Return a number of questions as text, such as "1 question" or "2,000 questions"."""
    noun = "question" if count == 1 else "questions"
    return f"{count:,} {noun}"


def has_form(header: Collection[str]) -> bool:
    """Return whether a table with these columns is in MMBench's format.

    It needs at least the columns index, question, A and B, and one for images (image or image_path).
    """
    return set(NEEDED_COLUMNS) <= set(header) and not set(IMAGE_COLUMNS).isdisjoint(header)


def check_header(table: DelimitedTable, *, pictures: bool = True) -> list[str]:
    """Return the names of columns that MMBench's format does not have, which are ignored and named in a note.

    Args:
        table: The table.
        pictures: Whether a column of images is needed.

    Raises:
        DataError: A needed column is missing, or the name of a column looks like a misspelt one of the format.
    """
    where = f"{table.path}:1"
    columns = {*FORM_COLUMNS, *L2_COLUMNS}
    for name in NEEDED_COLUMNS:
        if name not in table.header:
            unknown_columns(table.header, columns, where)
            raise DataError(
                f"{where}: the column {name!r} is missing; there are {', '.join(table.header) or 'none'}"
            )
    ignored_columns = unknown_columns(table.header, columns, where)
    if pictures and not has_form(table.header):
        raise DataError(f"{where}: there is neither a column 'image' nor 'image_path'")
    return ignored_columns


def survey(
    table: DelimitedTable, faults: Faults, *, pictures: bool = True, repeated: bool = False
) -> dict[str, SurveyedRow]:
    """Return the usable rows of a table by their index, in the order of the file, without their images.

    Args:
        table: The table.
        faults: Receives the fault of each wrong row, such as an empty question, under the index of its question's
            base row.
        pictures: Whether images matter. If not, a question without an image is treated as if it had one of its own.
        repeated: Whether two options of a question may have the same text. They may when published replies are
            scored.
    """
    grouped = "g_index" in table.header
    entries: dict[str, SurveyedRow] = {}
    for row in table:
        index = normal_index(row.cells.get("index", ""))
        if index:
            g_index = normal_index(row.cells.get("g_index", ""))
            question_key = base_index(index, g_index, grouped)
        else:
            question_key = f"line {row.line}"
        try:
            entry = _surveyed_row(row, index, repeated)
            earlier = entries.get(index)
            if earlier:
                raise RowError(
                    "an index twice", f"the index {index} is taken by {table.path}:{earlier.line}"
                )
        except RowError as error:
            faults.add(question_key, error.kind, f"{table.path}:{row.line}: {error}")
            continue
        if not pictures and not entry.link and not entry.picture:
            entry = replace(entry, picture=f"of {question_key}")
        entries[index] = entry
    return entries


def normal_index(index: str) -> str:
    """Return an index without blanks, and a whole number in its shortest form: pandas may have written 7 as 7.0."""
    index = index.strip()
    without_decimals = re.sub(r"\.0+$", "", index)
    if without_decimals.isdecimal():
        return str(int(without_decimals))
    return index


ROTATION_STEP = 1_000_000
"""What is added to the index of a base row for each rotation: the rotations of 7 are 1000007, 2000007 and so on."""


def base_index(index: str, g_index: str, grouped: bool) -> str:
    """Return the index of the base row of the question that a row shows.

    Args:
        index: Index of the row. A rotation has the base row's index plus a multiple of a million.
        g_index: The base row that the row names, if `grouped`.
        grouped: Whether the file has a column `g_index`.
    """
    if grouped:
        return g_index or index
    if index.isdecimal():
        return str(int(index) % ROTATION_STEP)
    return index


def _first_cell(cells: Mapping[str, str], columns: Sequence[str]) -> str:
    """Return the cell of the first of these columns that a row has; "" if it has none of them."""
    for column in columns:
        if column in cells:
            return cells[column]
    return ""


def _surveyed_row(row: DelimitedRow, index: str, repeated: bool) -> SurveyedRow:
    """Return the content of a row, with a digest in place of its image, which may be large.

    Raises RowError for an empty index or question, and for options or an answer that cannot be used.
    """
    cells = row.cells
    if not index:
        raise RowError("no index", "the index is empty")
    if not cells.get("question", "").strip():
        raise RowError("no question", "the question is empty")
    options = parse_options(cells, repeated=repeated)
    link, picture = _image_link_and_digest(cells)
    return SurveyedRow(
        line=row.line,
        place=row.place,
        index=index,
        g_index=normal_index(cells.get("g_index", "")),
        question=cells["question"],
        options=options,
        gold=parse_answer(cells.get("answer", ""), len(options)),
        hint=cells.get("hint", ""),
        category=cells.get("category", ""),
        l2=_first_cell(cells, L2_COLUMNS),
        split=cells.get("split", ""),
        source=cells.get("source", ""),
        comment=cells.get("comment", ""),
        link=link,
        picture=picture,
    )


def parse_options(cells: dict[str, str], *, repeated: bool = False) -> tuple[str, ...]:
    """Return the options of a row, from its cells A, B, C and so on.

    Args:
        cells: The cells of the row by column.
        repeated: Whether two options may have the same text.

    Raises:
        RowError: An option before a filled one is empty, an option has only blanks, there are fewer than two, or
            two of them are equal.
    """
    letters = [letter for letter in LETTERS if letter in cells]  # of the options that are not empty
    if letters != list(LETTERS[: len(letters)]):
        raise RowError(
            "a hole in the options",
            f"option {letters[-1]} is given, but an option before it is empty",
        )
    if len(letters) < 2:
        raise RowError(
            "fewer than two options",
            f"two options are needed, there {'is 1' if letters else 'are none'}",
        )
    options = tuple(cells[letter] for letter in letters)
    for letter in letters:
        if not cells[letter].strip():
            raise RowError("a blank option", f"option {letter} is blank")
    trimmed = [option.strip() for option in options]
    if len(set(trimmed)) < len(trimmed) and not repeated:
        first_repeated = next(option for option in trimmed if trimmed.count(option) > 1)
        raise RowError(
            "an option twice", f"the option {first_repeated!r} appears twice; options must differ"
        )
    return options


def parse_answer(letter: str, count: int) -> int | None:
    """Return the index of the correct option: 2 for the letter C.

    Args:
        letter: The letter in the cell `answer`.
        count: The number of options.

    Returns:
        The index; None if the cell is empty, as in files that do not reveal the answers.

    Raises:
        RowError: The cell is not the letter of an option.
    """
    letter = letter.strip()
    if not letter:
        return None
    index = LETTERS.find(letter) if len(letter) == 1 else -1
    if not 0 <= index < count:
        excerpt = letter if len(letter) < 40 else letter[:40] + "..."
        raise RowError(
            "an answer without its option",
            f"the answer {excerpt!r} is not one of the letters A-{LETTERS[count - 1]}",
        )
    return index


def may_refer_to_row(cell: str) -> bool:
    """Return whether an image cell may be the index of another row, rather than base64 text, a file name or a list."""
    is_short = 0 < len(cell) <= MAX_REFERENCE_LENGTH
    return is_short and not cell.startswith("[") and not names_file(cell)


def names_file(cell: str) -> bool:
    """Return whether an image cell is the name of an image file."""
    return PICTURE_FILE.fullmatch(cell) is not None


def _image_link_and_digest(cells: dict[str, str]) -> tuple[str, str]:
    """Return where the image of a row is: in another row, or in the row itself.

    Args:
        cells: The cells of the row by column.

    Returns:
        Two texts, of which at most one is filled. The first is the index of another row if the image cell contains
        such an index. The second is a digest of the row's own image cell. Both are empty if the row has no image.
    """
    cell = cells.get("image", "").strip()
    if may_refer_to_row(cell):
        return normal_index(cell), ""
    if not cell:
        cell = cells.get("image_path", "").strip()
    if not cell:
        return "", ""
    return "", hashlib.blake2b(cell.encode(), digest_size=16).hexdigest()


def row_location(path: Path, entry: SurveyedRow) -> str:
    """Return the file and the line of a row, for messages."""
    return f"{path}:{entry.line}"
