"""Predictions of a table that has only the verdict on each reply, and neither the replies nor the right answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from snellen.errors import DataError
from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.cells import Asked, image_names, place_of, text_in_cell
from snellen.interchange.predictions.missing_replies import (
    are_detections,
    are_scores,
    column_of_empty_replies,
)
from snellen.interchange.predictions.reply_choice import MOSTLY, TableReading
from snellen.interchange.predictions.rows import Findings, PredictedRow
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.recognition.columns import (
    PARTLY,
    RIGHT_OF_ANOTHER_THING,
    name_score,
    split_name,
)
from snellen.recognition.folding import folded_name
from snellen.recognition.model_columns import is_name_of_model
from snellen.recognition.profiles import ColumnProfile
from snellen.recognition.reply_names import is_verdict
from snellen.recognition.tables import TableRoles
from snellen.recognition.verdicts import verdict_column, verdict_of_cell

FEWEST_VERDICTS = 2
"""A table of a single row sums up a run."""
FEWEST_SHARES = 20
"""The fewest rows with ids for which numbers between 0 and 1 are verdicts on replies, and not results of models."""
MOST_NAMED = 8
"""Columns of verdicts that an error names."""


def columns_of_verdicts(
    path: Path, rows: Sequence[SourceRow], roles: TableRoles, given: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the column of verdicts that counts, in a table without replies.

    If columns are named alike (`clip_correct` and `blip_correct`), or after models, each of them
    has the verdicts on one model, and all are returned. A column of replies that is empty says that
    the requests failed, so no verdict counts.

    Args:
        path: The table, for messages.
        rows: Its rows.
        roles: What its columns are for.
        given: The columns of verdicts that the user named.

    Returns:
        The columns; empty if the table has no verdicts.

    Raises:
        DataError: Several columns have different verdicts, and no name says which of them counts.
    """
    if given:
        return tuple(given)
    if len(rows) < FEWEST_VERDICTS or are_scores(roles) or column_of_empty_replies(rows):
        return ()
    profiles = {
        name: profile
        for name, profile in roles.profiles.items()
        if _may_be_verdicts(name, profile) and _are_of_rows(rows, roles, name)
    }
    surest = verdict_column(profiles)
    if surest and name_score("verdict", surest[0]) > PARTLY:
        return surest
    flags = [name for name, profile in roles.profiles.items() if _are_flags(profile)]
    of_models = _columns_called_alike(flags) or list(filter(is_name_of_model, flags))
    if of_models:
        return tuple(of_models)

    texts = [profile.texts for profile in profiles.values()]
    if any(other != texts[0] for other in texts):
        shares = [f"{name!r} {_share_right(rows, name)}" for name in profiles]
        call = scoring_call(path, columns={"verdict": next(iter(profiles))})
        raise DataError(
            f"{path}: it has no replies, only verdicts on them, and columns of verdicts differ "
            f"({', '.join(shares[:MOST_NAMED])}); name the one that counts: {call}"
        )
    return tuple(profiles)[:1]


class VerdictReader:
    """Turns rows without replies into predictions that have only a verdict, as a `RowReader` does with other rows.

    Args:
        reading: The table.
        column: The column of verdicts.
    """

    def __init__(self, reading: TableReading, column: str) -> None:
        self.rows = reading.rows
        self.findings = Findings()
        self.notes = ["the file has no replies, only the verdict on each"]
        self._reading = reading
        self._column = column

    def predicted(self, row: SourceRow) -> Iterator[PredictedRow]:
        """Yield the prediction of a row; nothing if it has no verdict, which `findings` counts."""
        text = text_in_cell(row.cells.get(self._column))
        verdict = verdict_of_cell(text)
        if verdict is None:
            self.findings.add("rows left out, without a verdict", place_of(row))
            return
        roles = self._reading.roles.roles
        asked = Asked(row.cells, roles)
        tags = {
            folded_name(name): text_in_cell(row.cells.get(name)) for name in roles.get("tag", ())
        }
        yield PredictedRow(
            where=place_of(row),
            id=text_in_cell(row.cells.get(self._reading.column("id"))),
            question=asked.question,
            prompt=asked.prompt,
            picture=image_names(row.cells, roles.get("image", ())),
            tags=tags,
            reply=text,
            verdict=verdict,
        )


def without_shared_ids(rows: Sequence[PredictedRow]) -> Sequence[PredictedRow]:
    """Return rows without their ids, if several have the same one, so that each row is a question of its own.

    Rows with the same id stay one group.
    """
    ids = {row.id for row in rows}
    if len(ids) == len(rows):
        return rows
    return [replace(row, id="", group=row.group or row.id) for row in rows]


def _may_be_verdicts(name: str, profile: ColumnProfile) -> bool:
    """Return whether the name of a column says that it holds verdicts.

    A name that only says that a task succeeded, such as `status` or `is_success`, is not enough if
    all cells are the same: they may then say that the requests were answered.
    """
    if is_verdict(name):
        return True
    is_of_success = _says_success(name) and _are_flags(profile)
    return (is_of_success or name_score("verdict", name) > PARTLY) and len(profile.texts) > 1


_OF_SUCCESS = frozenset("success successful succeeded solved resolved passed won".split())
_NO_FLAG = frozenset("rate count num number total steps time max".split())


def _says_success(name: str) -> bool:
    """Return whether the name of a column says that a task was done: `is_success`, `task_solved`."""
    words = split_name(name)
    is_of_reply = RIGHT_OF_ANOTHER_THING.search(folded_name(name)) is None
    return is_of_reply and not _OF_SUCCESS.isdisjoint(words) and _NO_FLAG.isdisjoint(words)


def _columns_called_alike(names: Iterable[str]) -> list[str]:
    """Return columns named by a word for verdicts and what these are about: `clip_correct` and `blip_correct`.

    The word may be the first or the last one. Of several such groups the largest is returned; the
    list is empty if no two columns are named like this.
    """
    by_word: dict[str, list[str]] = defaultdict(list)
    for name in names:
        words = folded_name(name).split("_")
        if len(words) > 1 and is_verdict(words[-1]):
            by_word[f"... {words[-1]}"].append(name)
        elif len(words) > 1 and is_verdict(words[0]):
            by_word[f"{words[0]} ..."].append(name)
    several = [columns for columns in by_word.values() if len(columns) > 1]
    return max(several, key=len) if several else []


def _are_of_rows(rows: Sequence[SourceRow], roles: TableRoles, column: str) -> bool:
    """Return whether a column has a verdict on one reply in nearly every row.

    A row may instead sum up a model or a task, with its accuracy. If cells lie between 0 and 1, as
    the grades of MM-Vet do, they count as verdicts only if there are at least 20 rows with ids,
    questions or images that are not boxes which a model detected.
    """
    verdicts = _verdicts(rows, column)
    if len(verdicts) <= MOSTLY * len(rows) or are_scores(roles):
        return False
    are_right_or_wrong = all(verdict in (0.0, 1.0) for verdict in verdicts)
    if are_right_or_wrong:
        return True
    has_ids = any(role in roles.roles for role in ("id", "question", "image"))
    return has_ids and len(rows) >= FEWEST_SHARES and not are_detections(roles)


def _are_flags(profile: ColumnProfile) -> bool:
    """Return whether all cells of a column are 0 and 1, or true and false."""
    texts = {text.strip().casefold() for text in profile.texts}
    return bool(texts) and texts <= {"true", "false", "0", "1"}


def _verdicts(rows: Iterable[SourceRow], column: str) -> list[float]:
    """Return the verdicts in the filled cells of a column, from 0 (wrong) to 1 (right)."""
    given = (verdict_of_cell(text_in_cell(row.cells.get(column))) for row in rows)
    return [verdict for verdict in given if verdict is not None]


def _share_right(rows: Iterable[SourceRow], column: str) -> str:
    verdicts = _verdicts(rows, column)
    return f"{sum(verdicts) / len(verdicts):.1%} of {len(verdicts):,}"
