"""Choose which text of a row is read as the reply.

It is usually the cell in the column of replies. But if replies are programs, what they printed is
read, and if replies repeat their prompt, only the rest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.cells import (
    Asked,
    first_column,
    replies_in_cell,
    text_in_cell,
    without_prompt,
)
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.recognition.folding import folded_name
from snellen.recognition.named_option import bare_label, label_of
from snellen.recognition.reply_names import reply_score
from snellen.recognition.tables import TableRoles

MOSTLY = 0.9
EXECUTIONS = frozenset(("execution", "execution_result", "exec_result", "executed"))
"""Names of columns with the results of running programs that a model wrote as replies."""


_CODE = re.compile(r"^\s*(?:```|def |import |from \w+ import |print\(|\w+ = )", re.MULTILINE)
"""What a line of a program begins with."""


_DEFINES = re.compile(r"^def \w+\(.*\).*:\s*$", re.MULTILINE)


class TableReading(Struct, frozen=True):
    """A table of predictions with what each column is for, and how it is to be read."""

    path: Path
    roles: TableRoles
    rows: tuple[SourceRow, ...]
    notes: tuple[str, ...] = ()
    is_joined: bool = False
    """Whether the rows are joined to a benchmark, which checks their options and has the right answers."""
    is_reply_given: bool = False
    """Whether the user, or the form, named the column of replies."""
    options_in_prompts: bool = True
    """Whether a question is multiple choice if its prompt lists options."""
    verdicts: tuple[str, ...] = ()
    """The columns of verdicts in a file that has no replies, each of one model."""
    is_of_form: bool = False
    """Whether the file has the known format of a toolkit (a form). Its replies are then read exactly as they are."""

    def column(self, role: str) -> str:
        """Return the first column that has a role, such as `answer`; empty if none has it."""
        return first_column(self.roles.roles, role)


def results_of_programs(reading: TableReading, column: str) -> str:
    """Return the column with the results of programs that a model wrote as replies.

    Args:
        reading: The table.
        column: The column of replies.

    Returns:
        The name of the column; empty if the replies are not programs, or if the user named the
        column of replies.

    Raises:
        DataError: The replies are programs, but no column has their results.
    """
    if reading.is_reply_given:
        return ""
    results = [name for name in reading.roles.profiles if folded_name(name) in EXECUTIONS]
    if results and _share_of(reading, column, _has_code) > 0.5:
        return reading.column("reading") or results[0]
    if not _are_programs(reading, column):
        return ""
    others = [
        name
        for name, profile in reading.roles.profiles.items()
        if name != column and reply_score(name, profile) and not _are_programs(reading, name)
    ]
    if others:
        return max(
            others, key=lambda name: _share_of(reading, name, lambda reply: bool(bare_label(reply)))
        )
    answer = reading.column("answer")
    if answer and not _are_programs(reading, answer):
        raise DataError(
            f"{reading.path}: the replies in {column!r} are programs, and no column has what they gave; if one "
            f"has: {scoring_call(reading.path, columns={'reply': 'NAME'})}"
        )
    return ""


EXTRACTED = "res"
LOG_OF_EXTRACTION = "log"
"""Columns of VLMEvalKit: the answer that a model extracted from each reply, and a log of whether that succeeded."""
_HOW_IT_WENT = re.compile(r"succe|retr(?:y|ies)|fail", re.IGNORECASE)
"""What VLMEvalKit writes in its log: `Prefetch succeed`, `Succeed`, `All 5 retries failed.`"""


def extracted_by_model(reading: TableReading) -> str:
    """Return the column with answers that another model extracted from the replies; empty if there is none.

    VLMEvalKit lets a model do this for MathVista, MathVision and others before it compares answers,
    as their papers do (MathVista, Lu et al. 2024, section 3.3). Its published numbers depend on it.
    The column is used only if the log beside it says that the extraction was made.
    """
    if reading.is_reply_given or reading.is_joined:
        return ""
    by_name = {folded_name(name): name for name in reading.roles.profiles}
    if not by_name.keys() >= {EXTRACTED, LOG_OF_EXTRACTION}:
        return ""
    column = by_name[EXTRACTED]
    log = by_name[LOG_OF_EXTRACTION]
    n_extracted = 0
    for row in reading.rows:
        says_how = _HOW_IT_WENT.search(text_in_cell(row.cells.get(log))) is not None
        n_extracted += says_how and bool(text_in_cell(row.cells.get(column)))
    return column if n_extracted > MOSTLY * len(reading.rows) else ""


def are_prompts_repeated(reading: TableReading, column: str) -> bool:
    """Return whether nearly all replies begin with their prompts, as texts from Hugging Face's `generate` do."""
    if not column or reading.is_of_form:
        return False
    repeating = 0
    for row in reading.rows:
        asked = Asked(row.cells, reading.roles.roles)
        [reply, *_] = replies_in_cell(row.cells.get(column)) or ("",)
        repeating += len(without_prompt(reply, asked)) < len(reply)
    return repeating > MOSTLY * len(reading.rows)


def extracted_letters(reading: TableReading) -> str:
    """Return the column with letters that an evaluation harness read from the replies.

    The text is empty if there is no such column, or if the table has prompts or questions, which
    may list the options: then full replies can be read.
    """
    column = reading.column("reading")
    rows = [row for row in reading.rows if column and row.cells.get(column)]
    if not rows or {"prompt", "question"} & reading.roles.roles.keys():
        return ""
    letters = sum(bool(label_of(text_in_cell(row.cells[column]))) for row in rows)
    return column if letters > MOSTLY * len(reading.rows) else ""


def _are_programs(reading: TableReading, column: str) -> bool:
    """Whether most cells of a column are programs in Python."""
    return _share_of(reading, column, _is_program) > 0.5


def _share_of(reading: TableReading, column: str, fits: Callable[[str], bool]) -> float:
    """Return the share of the rows whose first reply in a column passes a test, from 0 to 1.

    Args:
        reading: The table.
        column: The column; 0 is returned if this is an empty text.
        fits: The test.
    """
    if not column:
        return 0.0
    fitting = 0
    for row in reading.rows:
        [reply, *_] = replies_in_cell(row.cells.get(column)) or ("",)
        fitting += fits(reply)
    return fitting / len(reading.rows)


def _has_code(reply: str) -> bool:
    return _CODE.search(reply) is not None


def _is_program(reply: str) -> bool:
    """Whether a reply is a program: it defines a function, or is several lines that Python can parse."""
    if _DEFINES.search(reply):
        return True
    if not _has_code(reply) or "\n" not in reply.strip():
        return False
    try:
        ast.parse(reply)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
