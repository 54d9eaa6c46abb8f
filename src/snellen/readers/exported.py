"""Read a dataset that `snellen export --as dataset` wrote from a benchmark.

It contains everything that a sample has. The columns are described on the dataset's card: images,
options, the turns of a dialogue, regions, tags and, in `gold`, the answers if they were included.
`interchange.exports.dataset` writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.readers.table_pictures import image_cells, picture_of
from snellen.records import Region, Turn

TAG = "tag_"
GOLD_TAG = "gold_tag_"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    """The Parquet file, or the pattern of its parts."""


class _Gold(Struct, frozen=True):
    """The answer to one question."""

    turn: int = 0
    options: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    relevance: tuple[float, ...] = ()
    candidates: tuple[str, ...] = ()


class _Row(Struct, frozen=True):
    """A row of an exported benchmark, without its images and tags."""

    id: str
    question: str = ""
    options: tuple[str, ...] = ()
    context: str | None = None
    turns: tuple[Turn, ...] = ()
    rewordings: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    group: str = ""
    replies: tuple[str, ...] = ()
    gold: tuple[_Gold, ...] = ()


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the sample in each row of a benchmark that Snellen exported.

    Raises DataError if a row has another form.
    """
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    for row in read_rows(path):
        if row.fault:
            raise DataError(row.fault)
        yield _row_draft(row, path.parent)


def _row_draft(row: SourceRow, folder: Path) -> Draft:
    """Return the sample in a row of the exported benchmark.

    Raises DataError if the row does not have the form of an export.
    """
    cells = row.cells
    try:
        content = msgspec.convert(_without_missing(cells), _Row)
    except msgspec.ValidationError as error:
        raise DataError(f"{row.where}: {error}; export the benchmark again") from None
    images = [picture_of(cell, row.where, folder) for cell in image_cells(cells, ("images",))]
    return Draft(
        id=content.id,
        rounds=_question_drafts(content),
        images=tuple(images),
        where=row.where,
        dialogue=bool(content.turns),
        context=content.context,
        regions=content.regions,
        group=content.group,
        tags=_tags_with_prefix(cells, TAG),
        answer_tags=_tags_with_prefix(cells, GOLD_TAG),
        replies=content.replies,
    )


def _without_missing(value: Any) -> Any:
    """Return a cell without the fields of nested objects that are null.

    Parquet stores every field of a nested object in every row, with null for those that were
    missing.
    """
    if isinstance(value, Mapping):
        return {name: _without_missing(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_missing(each) for each in value]
    return value


def _question_drafts(row: _Row) -> tuple[QuestionDraft, ...]:
    """Return the questions of a row, one for each turn of a dialogue; a row without turns has one
    question.

    Questions have no answer if the benchmark was exported without answers.
    """
    gold_by_turn = {gold.turn: gold for gold in row.gold}
    rounds = []
    for number, turn in enumerate(row.turns or (Turn(row.question, row.options),)):
        gold = gold_by_turn.get(number, _Gold())
        rounds.append(
            QuestionDraft(
                turn.question,
                turn.options,
                gold=gold.options,
                texts=gold.texts,
                rewordings=row.rewordings,
                relevance=gold.relevance,
                may_repeat=True,
                candidates=gold.candidates,
            )
        )
    return tuple(rounds)


def _tags_with_prefix(cells: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Return the cells of the columns that begin with a prefix, by column name without the prefix."""
    tags = {}
    for column, value in cells.items():
        if column.startswith(prefix):
            tags[column.removeprefix(prefix)] = str(value)
    return tags
