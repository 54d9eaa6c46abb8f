"""Answers that are kept apart from their questions: a table with the columns index and answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from snellen.errors import DataError
from snellen.formats.delimited import TABLES, DelimitedTable, open_text
from snellen.suites.mmbench.groups import CircularGroup
from snellen.suites.mmbench.survey import RowError, gold_of, normal_index


def read_answers(path: Path, questions: Sequence[CircularGroup]) -> list[CircularGroup]:
    """The questions with the answers of a file, letters that refer to their base rows.

    Raises DataError naming the file and line of a letter without an option, of an answer that differs from
    the one in the questions' own file, or of an index that is not there.
    """
    bases = {question.base.index: question for question in questions}
    indexes = {row.index for question in questions for row in question.rows}
    answered: dict[str, CircularGroup] = {}
    for index, letter, where in _letters(path):
        if index not in indexes:
            raise DataError(f"{where}: index {index} is not among the questions")
        if (question := bases.get(index)) is None:
            continue  # A file with a row for each rotation has the base rows too.
        try:
            gold = gold_of(letter, len(question.base.options))
        except RowError as error:
            raise DataError(f"{where}: {error}") from None
        if question.gold not in (None, gold):
            raise DataError(f"{where}: another answer than in the questions' own file")
        answered[index] = replace(question, gold=gold)
    return [answered.get(index, question) for index, question in bases.items()]


def _letters(path: Path) -> Iterator[tuple[str, str, str]]:
    """Index, letter and place of each row."""
    if path.suffix.lower() not in TABLES:
        raise DataError(f"{path}: a file of answers ends with {' or '.join(TABLES)}")
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        for name in ("index", "answer"):
            if name not in table.header:
                named = ", ".join(table.header) or "none"
                raise DataError(f"{path}:1: the column {name!r} is missing; there are {named}")
        for row in table:
            yield normal_index(row.cells.get("index", "")), row.cells.get("answer", ""), f"{path}:{row.line}"
