"""Notes about a whole table: oddities of its rows, unused columns, and how images were found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from snellen.callers import for_caller, setting
from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.locate import ImageFinder
from snellen.formats.source_row import SourceRow
from snellen.formats.suffixes import SHEET, TEXTS
from snellen.readers.table_columns import TableSource

MARK = "<image>"
SHOWN_ROWS = 5
"""Rows that a note names."""

ODDITIES = {
    "no image": "{count:,} of {total:,} questions have no image ({rows})",
    "letter or text": "in {count:,} questions the answer is the letter of one option and the text of another, and was read as "
    "the letter ({rows})",
    "no options": "{count:,} of {total:,} questions have no options and are open ({rows})",
    "mark in text": "{count:,} of {total:,} questions contain `<image>` as text ({rows}); it marks the position of an image only "
    "if there are several images and one mark for each",
    "nan": "{count:,} of {total:,} questions contain the text 'nan' ({rows}); leave empty cells empty",
    "bar in answer": "the answers of {count:,} open questions contain `|` ({rows}) and are one text each; write a list "
    '(`["red", "crimson"]`) if several answers are accepted',
    "truth value": "the answers of {count:,} open questions are {answers} ({rows}), which a reply of yes or no does not match; "
    "write the words that the question asks for",
}
"""The text of the note for each oddity.

An oddity is something in a row that looks like a mistake, although the row can be used.
"""
TRUTH_VALUES = ({"true", "false"}, {"0", "1"})
"""Pairs of answers that probably mean yes and no."""


class OddRows:
    """Collects the numbers of the rows that look like mistakes although they can be used, by kind
    of oddity.
    """

    def __init__(self) -> None:
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._total = 0
        self._answers: set[str] = set()

    def look_at(self, row: SourceRow, draft: Draft, source: TableSource) -> None:
        """Record what looks like a mistake in a row, and the answers of open questions, of which three are enough."""
        self._total += 1
        for oddity in _oddities(row, draft, source):
            self._rows[oddity].append(row.number)
        [question] = draft.rounds
        is_open = not question.options and question.distractors is None
        if is_open and len(self._answers) < 3:
            self._answers |= {text.casefold() for text in question.texts}

    def notes(self, path: Path) -> tuple[str, ...]:
        """Return a note for each kind of oddity that was found; an empty tuple if there was none.

        No note is made of missing images if no question has one, nor of open questions if all are
        open: then this is intended. The note about answers that stand for yes and no is made only
        if the open questions have no others.
        """
        notes: list[str] = []
        answers = " and ".join(sorted(self._answers, reverse="true" in self._answers))
        for oddity, note in ODDITIES.items():
            rows = self._rows[oddity]
            if not rows or self._is_intended(oddity):
                continue
            text = note.format(
                count=len(rows), total=self._total, rows=row_names(path, rows), answers=answers
            )
            notes.append(f"{path.name}: {text}")
        return tuple(notes)

    def _is_intended(self, oddity: str) -> bool:
        if oddity in ("no image", "no options"):
            return len(self._rows[oddity]) == self._total
        return oddity == "truth value" and self._answers not in TRUTH_VALUES


def _oddities(row: SourceRow, draft: Draft, source: TableSource) -> list[str]:
    """Return what looks like a mistake in a row, as keys of `ODDITIES`; an empty list if nothing
    does.
    """
    [question] = draft.rounds
    is_open = not question.options and question.distractors is None
    oddities: list[str] = []
    if not draft.images:
        oddities.append("no image")
    if _is_letter_and_text(row, source):
        oddities.append("letter or text")
    if is_open and source.options:
        oddities.append("no options")

    # Several marks are meant as the places of the images if there are as many.
    n_marks = question.question.count(MARK)
    has_mark_for_each_image = n_marks > 1 and n_marks == len(draft.images)
    if n_marks and not has_mark_for_each_image:
        oddities.append("mark in text")
    if draft.context == "nan" or "nan" in question.options:
        oddities.append("nan")

    if is_open:
        written_answer = str(row.cells.get(source.columns.answer))
        if "|" in written_answer and question.texts == (written_answer,):
            oddities.append("bar in answer")
        if question.texts:
            oddities.append("truth value")
    return oddities


def _is_letter_and_text(row: SourceRow, source: TableSource) -> bool:
    """Return whether an answer is the letter of one option and the text of another.

    With `A` = "B" and `B` = "C", the answer `B` is the letter of the second option and the text of
    the first.
    """
    if not source.has_option_columns or source.answer_is not in ("any", "letter"):
        return False
    text_by_letter: dict[str, object] = {}
    for letter, column in zip(LETTERS, source.options, strict=False):
        if column in row.cells:
            text_by_letter[letter] = row.cells[column]
    answer = str(row.cells.get(source.columns.answer))
    if answer not in text_by_letter:
        return False
    return text_by_letter[answer] != answer and answer in text_by_letter.values()


class ExpectedParts:
    """Checks that a table has images and answers, or has none if the user said so (`no_images`,
    `hidden_answers`).
    """

    def __init__(self, *, images: bool, answers: bool) -> None:
        self._expects_images = images
        self._expects_answers = answers
        self._images = 0
        self._answers = 0

    def look_at(self, draft: Draft) -> None:
        """Count a question, and whether it has an image and an answer."""
        [question] = draft.rounds
        if draft.images:
            self._images += 1
        if question.gold or question.texts:
            self._answers += 1

    def check(self, path: Path) -> None:
        """Raise DataError if no question has an image or answer although they are expected, or one
        has although none is.
        """
        _check_part(path, "an image", self._images, self._expects_images, "picture", "no_images")
        _check_part(
            path, "an answer", self._answers, self._expects_answers, "answer", "hidden_answers"
        )


def _check_part(
    path: Path, part: str, count: int, is_expected: bool, role: str, parameter: str
) -> None:
    """Raise DataError if no question has a part (an image or an answer) that is expected, or one
    has an unexpected part.

    Args:
        path: The table.
        part: The part with its article, such as `an image`, for messages.
        count: Number of questions that have the part.
        is_expected: Whether questions are expected to have the part.
        role: Role of the column with the part.
        parameter: Parameter of an entry that says that the part is missing on purpose, such as
            `no_images`; the command-line flag has the same name.
    """
    declared = setting(parameter, True)
    if count and not is_expected:
        sharing = ""
        if role == "answer":
            sharing = "; `snellen pack NAME` then packs the benchmark without its answers"
        raise DataError(f"{path}: {count:,} questions have {part}; remove {declared}{sharing}")
    if is_expected and not count:
        in_entry = for_caller(f" ({parameter} = true)", "")
        raise DataError(
            f"{path}: no question has {part}; name the column with "
            f"{setting('columns', {role: ...})}, or add {declared}{in_entry} if this is intended"
        )


def unused_columns_note(path: Path, columns: Iterable[str]) -> tuple[str, ...]:
    names = ", ".join(repr(name) for name in columns)
    return (f"{path.name}: unused columns: {names}",) if names else ()


def repeated_ids_note(path: Path, source: TableSource) -> tuple[str, ...]:
    """Return a note on ids that several rows have; an empty tuple if no id is repeated."""
    if not source.repeated_ids:
        return ()
    return (
        f"{path.name}: {len(source.repeated_ids):,} ids in {source.columns.id!r} belong to several rows, as ids of "
        "images do; their rows are numbered",
    )


def image_notes(path: Path, files: ImageFinder | None) -> tuple[str, ...]:
    """Return notes about images that are not exactly where their cells say; an empty tuple if there
    are none.

    For example, the cell `train/1.jpg` found `images/1.jpg`, or the cell `42` found `000042.jpg`.
    """
    if files is None:
        return ()
    notes: list[str] = []
    if files.moved:
        notes.append(_found_note(path, files.moved, "by name in another folder"))
    if files.numbered:
        notes.append(_found_note(path, files.numbered, "by number alone"))
    return tuple(notes)


def _found_note(path: Path, file_by_cell: Mapping[str, Path], how: str) -> str:
    noun = "image was" if len(file_by_cell) == 1 else "images were"
    cell, file = next(iter(file_by_cell.items()))
    return f"{path.name}: {len(file_by_cell):,} {noun} found {how}: {cell} is {file}"


def row_names(path: Path, rows: list[int]) -> str:
    """Return the first of some row numbers as text for a note: `line 3, 5, ...` or, if the file has no lines, `record 3`.

    Args:
        path: The file with the rows.
        rows: The numbers.
    """
    has_lines = path.suffix.lower() in (".jsonl", SHEET, *TEXTS)
    noun = "line" if has_lines else "record"
    numbers = ", ".join(str(row) for row in rows[:SHOWN_ROWS])
    more = ", ..." if len(rows) > SHOWN_ROWS else ""
    return f"{noun} {numbers}{more}"
