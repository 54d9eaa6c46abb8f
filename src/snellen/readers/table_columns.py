"""Columns of a table by role, and what is needed to read its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from snellen.common.answer_forms import AnswerForm
from snellen.formats.delimited import LETTERS
from snellen.formats.locate import ImageFinder

if TYPE_CHECKING:
    from snellen.fetching.image_urls import ImageDownloads

OneOrMore = str | tuple[str, ...]


class TableColumns(Struct, frozen=True, forbid_unknown_fields=True):
    """The names of a table's columns by role, such as `question` or `answer`.

    A role without a column is empty.
    """

    question: str
    image: OneOrMore = ()
    options: OneOrMore = ()
    distractors: OneOrMore = ()
    """Columns with wrong options; the answer column holds the correct one."""
    answer: str = ""
    id: str = ""
    context: str = ""
    group: str = ""
    relevance: str = ""
    tag: OneOrMore = ()
    unused: OneOrMore = ()
    """Columns that are ignored on purpose; a note names other columns without a role."""

    def columns_by_role(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of each role, without roles that have no column and without the
        `unused` columns.
        """
        by_role: dict[str, tuple[str, ...]] = {}
        for role in self.__struct_fields__:
            columns = column_names(getattr(self, role))
            if role != "unused" and any(columns):
                by_role[role] = columns
        return by_role


def column_names(columns: OneOrMore) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else columns


class TableSource(NamedTuple):
    """What is needed to read a row of a table."""

    columns: TableColumns
    named_columns: frozenset[str]
    """All columns with a role, and those that are ignored on purpose."""
    pictures: tuple[str, ...]
    options: tuple[str, ...]
    answer_is: AnswerForm
    folder: Path = Path()
    """Folder that image paths are relative to."""
    fetched: ImageDownloads | None = None
    files: ImageFinder | None = None
    pool: tuple[str, ...] = ()
    """Answers of all questions, from which wrong options are drawn; empty if open questions stay
    open.
    """
    classes: tuple[str, ...] = ()
    """The few possible answers of all open questions, such as yes and no.

    They become the options of each question.
    """
    repeated_ids: frozenset[str] = frozenset()
    """Ids that several rows have.

    They are probably ids of images, so each row gets an id of its own.
    """

    @property
    def has_option_columns(self) -> bool:
        """Whether each option has its own column."""
        if len(self.options) == 1:
            [column] = self.options
            return len(column) == 1 and column in LETTERS
        return len(self.options) > 1
