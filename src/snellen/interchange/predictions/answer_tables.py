"""Read right answers from a table without questions: a column of ids and one of answers, or `{id: answer}`.

They are added to the replies with the same ids, which are then scored as if the file had had them
from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from snellen.errors import DataError
from snellen.formats.rows import is_row_file
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.cells import first_column, text_in_cell, without_fraction
from snellen.recognition.folding import folded_name
from snellen.recognition.profiles import profiles_of
from snellen.recognition.tables import prediction_roles

ADDED = "right answer, by the table"
"""The column of right answers that rows get from a table."""
FITTING = 0.5
"""The share of the rows whose id has to be in the table."""

Answers = Mapping[str, Any]
"""The right answer by id."""


def answers_in(benchmark: str, rows: Sequence[SourceRow]) -> Answers:
    """Return the right answers by id in a table without questions; empty if the table is anything else.

    Args:
        benchmark: What the user named as the benchmark, which may be such a table.
        rows: The rows of the table; empty if no table was named.
    """
    if not rows or not is_row_file(Path(benchmark)):
        return {}
    names = list(profiles_of(rows))
    ids = [name for name in names if folded_name(name) in _IDS] or names[:1]
    others = [name for name in names if name != ids[0]]
    if len(others) > 1:
        roles = prediction_roles(Path(benchmark), rows, {}, is_gold_known=False).roles
        answer = first_column(roles, "answer") or first_column(roles, "reply")
        if first_column(roles, "question") or first_column(roles, "prompt") or not answer:
            return {}
        others = [answer]
    answers: dict[str, Any] = {}
    for row in rows:
        for answer in others[:1]:
            if answer in row.cells:
                answers[_id_in(row.cells.get(ids[0]))] = row.cells[answer]
    return answers


_IDS = frozenset("id question_id questionid qid index sample_id uid image_id image".split())


def _id_in(cell: Any) -> str:
    return without_fraction(text_in_cell(cell))


def with_answers(path: Path, rows: Sequence[SourceRow], answers: Answers) -> list[SourceRow]:
    """Return the rows of a file of replies with a further column, which has the right answers by their ids.

    Rows whose id is not among the answers are returned as they are.

    Raises:
        DataError: No column has these ids in more than half of the rows.
    """
    names = list(profiles_of(rows))
    counts = {name: sum(_id_in(row.cells.get(name)) in answers for row in rows) for name in names}
    best = max(names, key=lambda name: counts[name], default="")
    if not best or counts[best] <= FITTING * len(rows):
        first = next(iter(answers), "")
        raise DataError(
            f"{path}: no column has the ids of the table of right answers, such as {first!r}; give each right answer the id "
            "of its row"
        )
    result: list[SourceRow] = []
    for row in rows:
        answer = answers.get(_id_in(row.cells.get(best)))
        added = {} if answer is None else {ADDED: answer}
        result.append(row._replace(cells={**row.cells, **added}))
    return result
