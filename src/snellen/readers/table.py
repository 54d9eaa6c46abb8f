"""Questions from a table in any format, with the columns that an entry names, or with recognised columns.

`columns` names the column of each role, or several: `question` (required), `image`, `options`, `answer`, `id` (by
default the number of the row), `context`, `group`, `relevance` (how correct each option is, a list of numbers of at least
0) and `tag` (columns that become tags; columns named `tag_...` and `answer_tag_...` always do).

- An image is a path relative to the file (or to `images`), base64 text, a data URL, bytes or, with `fetch_images`, a
  URL; or a list of these. If the question has as many `<image>` marks as there are images, they mark the positions.
- Options have a column each, or one column contains a list, which may be written as text. A question without options is
  open.
- `answer_is` tells how an answer names an option: by `letter`, `text`, or index from 0 (`index0`) or 1 (`index1`). `any`
  accepts a letter, a text or, in JSON, an index from 0, and rejects an answer that means two options. The answer of an
  open question is a text, or a list of accepted texts. All answers of a file may be missing.

Cells of text stay as they are: "NA", "None" and "5.0" are not interpreted. Empty cells and JSON nulls are missing values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.answer_forms import AnswerForm
from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError, WrongRowsError
from snellen.formats.locate import ImageFinder
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.readers.listed_questions import with_listed_options
from snellen.readers.table_answers import option_texts_of, read_answer, wrong_texts
from snellen.readers.table_columns import TableColumns, TableSource, column_names
from snellen.readers.table_notes import (
    ExpectedParts,
    OddRows,
    image_notes,
    repeated_ids_note,
    unused_columns_note,
)
from snellen.readers.table_pictures import image_cells, images_in_row
from snellen.recognition.named_option import named_option
from snellen.recognition.profiles import LOOKED_AT
from snellen.recognition.tables import ANSWER_TAG, TAG, accepted_texts, table_roles
from snellen.registry import nearest_names


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    """The file; a pattern may match several Parquet files."""
    images: str = ""
    """Folder that contains all images and that paths are relative to; by default the folder of the file."""
    columns: TableColumns | None = None
    """Columns by role; recognised if missing."""
    answer_is: AnswerForm = "any"
    no_images: bool = False
    """Whether the questions have no images on purpose."""
    hidden_answers: bool = False
    """Whether the questions have no answers on purpose."""
    find_images: bool = False
    """Whether images are found by name anywhere below the folder, with or without a suffix."""
    encoding: str = ""
    """Encoding of a text file that is not in UTF-8."""
    fetch_images: bool = False
    """Whether images at URLs are downloaded."""
    make_options: bool = False
    """Whether open questions become multiple choice, with other answers of the table as distractors."""
    classes: tuple[str, ...] = ()
    """The few answers of all open questions, such as yes and no, which become the options."""
    options_in_question: bool = False
    """Whether each question lists its options in its text, and the answer names one."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a question for each row that can be used.

    After the last one, raise WrongRowsError if there are other rows. The last question carries the
    notes about the whole table, such as its unused columns.
    """
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = (folder or Path()) / chosen.images if chosen.images else path.parent
    if not images.is_dir():
        raise DataError(
            f"{chosen.images or images}: no such folder of images ({setting('images')})"
        )
    source = _table_source(chosen, path, images)

    faults: list[str] = []
    odd_rows = OddRows()
    expected_parts = ExpectedParts(images=not chosen.no_images, answers=not chosen.hidden_answers)
    unused_columns: dict[str, None] = {}
    id_counts: Counter[str] = Counter()
    last: Draft | None = None  # held back, because it carries the notes about the whole file
    for row in read_rows(path, chosen.encoding):
        if last is not None:
            yield last
            last = None
        if row.fault:
            faults.append(row.fault)
            continue
        unused_columns |= dict.fromkeys(_unused_columns(row, source))
        try:
            last = _with_unique_id(_draft(row, source), source, id_counts)
            if chosen.options_in_question:
                last = replace(last, rounds=tuple(with_listed_options(last.rounds, row.where)))
        except DataError as error:
            faults.append(str(error))
            continue
        expected_parts.look_at(last)
        odd_rows.look_at(row, last, source)

    if last is not None:
        if not faults:
            expected_parts.check(path)
        notes = (
            *unused_columns_note(path, unused_columns),
            *repeated_ids_note(path, source),
            *odd_rows.notes(path),
            *image_notes(path, source.files),
        )
        yield replace(last, notes=notes)
    if faults:
        raise WrongRowsError(faults)


def _with_unique_id(draft: Draft, source: TableSource, counts: Counter[str]) -> Draft:
    """Return the draft with a unique id: of two rows with the id `7`, the second becomes `7 (2)`."""
    if draft.id not in source.repeated_ids:
        return draft
    counts[draft.id] += 1
    count = counts[draft.id]
    unique_id = draft.id if count == 1 else f"{draft.id} ({count})"
    return replace(draft, id=unique_id, group=draft.group or draft.id)


def _unused_columns(row: SourceRow, source: TableSource) -> Iterator[str]:
    for column in row.cells:
        is_tag = column.startswith((TAG, ANSWER_TAG))
        if column not in source.named_columns and not is_tag:
            yield column


# --- preparation of a file ---------------------------------------------------------------------------------------------


def _table_source(chosen: Params, path: Path, images: Path) -> TableSource:
    """Return what is needed to read the rows of a table, such as its columns by role.

    Some settings depend on all rows, such as which ids are repeated. For each of them the file is
    read once here, before its questions are read.
    """
    if chosen.columns is None:
        recognised = _recognised_columns(chosen, path)
        if recognised is None:  # the file has no rows
            return TableSource(
                TableColumns("question"), frozenset(), (), (), chosen.answer_is, images
            )
        columns, answer_is = recognised
    else:
        columns = chosen.columns
        answer_is = chosen.answer_is
        _check_columns_exist(read_rows(path, chosen.encoding), path, columns)

    named = {*column_names(columns.unused)}
    for names in columns.columns_by_role().values():
        named.update(names)
    pictures = column_names(columns.image)

    fetched = None
    if chosen.fetch_images:
        from snellen.fetching.image_urls import ImageDownloads

        fetched = ImageDownloads(_all_picture_cells(chosen, path, pictures))
    files = None
    if chosen.find_images:
        files = ImageFinder(images)
        for column in pictures:
            files.learn(_all_picture_cells(chosen, path, (column,)))

    return TableSource(
        columns=columns,
        named_columns=frozenset(named),
        pictures=pictures,
        options=column_names(columns.options),
        answer_is=answer_is,
        folder=images,
        fetched=fetched,
        files=files,
        pool=_answer_pool(chosen, path, columns) if chosen.make_options else (),
        classes=chosen.classes,
        repeated_ids=_repeated_ids(chosen, path, columns) if columns.id else frozenset(),
    )


def _recognised_columns(chosen: Params, path: Path) -> tuple[TableColumns, AnswerForm] | None:
    """Recognise which column has which role (question, answer, ...) and how the answers name
    options; None if the table has no rows.

    Raises:
        DataError: It is unclear which column has a role, no column looks like the question, or the
            file cannot be read.
    """
    roles = table_roles(path, answer_is=chosen.answer_is, encoding=chosen.encoding)
    if roles.doubts:
        raise DataError(f"{path}: {roles.doubts[0].line()}")
    if roles.faults:
        raise DataError(roles.faults[0])
    if not roles.profiles:
        return None
    if "question" not in roles.roles:
        names = ", ".join(roles.profiles)
        raise DataError(
            f"{path}: no column is recognised as the question among {names}; name it with {setting('columns', {'question': ...})}"
        )

    columns_by_role: dict[str, Any] = {}
    for role, names in roles.roles.items():
        if role in ("image", "options", "distractors"):
            columns_by_role[role] = names
        elif role != "tag":
            columns_by_role[role] = names[0]
    return TableColumns(**columns_by_role), roles.answer_is


def _all_picture_cells(chosen: Params, path: Path, columns: Sequence[str]) -> Iterator[Any]:
    for row in read_rows(path, chosen.encoding):
        yield from image_cells(row.cells, columns)


def _answer_pool(chosen: Params, path: Path, columns: TableColumns) -> tuple[str, ...]:
    """Return the distinct answers of all rows, from which wrong options of open questions are
    drawn.
    """
    pool: dict[str, None] = {}
    for row in read_rows(path, chosen.encoding):
        answer = row.cells.get(columns.answer)
        if answer:
            pool |= dict.fromkeys(accepted_texts(answer)[:1])
    return tuple(pool)


def _repeated_ids(chosen: Params, path: Path, columns: TableColumns) -> frozenset[str]:
    """Return the ids that several rows of a table have."""
    counts: Counter[str] = Counter()
    for row in read_rows(path, chosen.encoding):
        cell = row.cells.get(columns.id)
        if cell is not None:
            counts[str(cell)] += 1
    return frozenset(name for name, count in counts.items() if count > 1)


def _check_columns_exist(rows: Iterator[SourceRow], path: Path, columns: TableColumns) -> None:
    """Raise DataError if the entry names a column that none of the first rows has, for example
    after the table was edited.

    A table without rows passes. Of several option columns, only the first one is required, because
    rows may have fewer options.
    """
    existing: set[str] = set()
    for row in islice(rows, LOOKED_AT):
        existing.update(row.cells)
    if not existing:
        return
    for role, names in columns.columns_by_role().items():
        required = names[:1] if role == "options" else names
        for name in required:
            if name in existing:
                continue
            near = nearest_names(name, sorted(existing))
            hint = f"the columns are {', '.join(sorted(existing)[:12])}"
            if near:
                hint = f"did you mean {' or '.join(near)}?"
            raise DataError(
                f"{path}: no row has the column {name!r}, which the entry names as {role}; correct the entry, or "
                f"remove its columns to have them recognised; {hint}"
            )


# --- a row ------------------------------------------------------------------------------------------------------------


def _draft(row: SourceRow, source: TableSource) -> Draft:
    """Return the question in a row of a table, with its options, answer, images and tags.

    Raises DataError if a cell cannot be used.
    """
    cells = row.cells
    where = row.where
    columns = source.columns
    question = cells.get(columns.question)
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{where}: the question is empty")
    options = option_texts_of(cells, source, where)
    correct_options, texts = read_answer(cells, options, source, where)
    if source.classes and texts:
        # The answer names one of the classes of the table, which are the options of all questions.
        options = source.classes
        correct_options = (_class_index(texts, source.classes, where),)
        texts = ()
    distractors = _distractors(cells, source) if texts else None
    relevance = _relevance(cells, columns, where)
    context = cells.get(columns.context)

    tags = _tags_with_prefix(cells, TAG)
    for column in column_names(columns.tag):
        if column in cells:
            tags[column.removeprefix(TAG)] = str(cells[column])

    question_draft = QuestionDraft(
        question, options, correct_options, texts, distractors, relevance=relevance
    )
    return Draft(
        id=str(cells.get(columns.id, row.number)),
        rounds=(question_draft,),
        images=images_in_row(cells, source, where),
        where=where,
        context=str(context) if context else None,
        group=str(cells.get(columns.group, "")),
        tags=tags,
        answer_tags=_tags_with_prefix(cells, ANSWER_TAG),
    )


def _class_index(texts: Sequence[str], classes: tuple[str, ...], where: str) -> int:
    """Return the index of the class that an answer names.

    Raises DataError if the answer is not one of the classes.
    """
    index = named_option(texts[0], classes, "text")
    if index is None:
        raise DataError(
            f"{where}: answer {texts[0]!r} is not one of {', '.join(classes)}; correct it, or remove `classes` from "
            "the entry"
        )
    return index


def _distractors(cells: Mapping[str, Any], source: TableSource) -> DistractorSpec | None:
    """Return where the wrong options of a question come from.

    They are those in the row itself if it has any, or else answers to other questions, if the entry
    asks for that (`make_options`). None means that the question stays open.
    """
    wrong = wrong_texts(cells, source.columns)
    if wrong:
        return DistractorSpec(tuple((text,) for text in wrong), allow_fewer=True)
    if source.pool:
        return DistractorSpec((source.pool,), prompt="options")
    return None


def _tags_with_prefix(cells: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Return the cells of the columns that begin with a prefix, by the name of the column without it."""
    return {
        column.removeprefix(prefix): str(value)
        for column, value in cells.items()
        if column.startswith(prefix)
    }


def _relevance(cells: Mapping[str, Any], columns: TableColumns, where: str) -> tuple[float, ...]:
    """Return the relevance of each option of a row; an empty tuple if it has none. Raises DataError for anything but numbers."""
    try:
        return msgspec.convert(cells.get(columns.relevance, ()), tuple[float, ...])
    except msgspec.ValidationError:
        raise DataError(
            f"{where}: relevance must be a list of numbers, one per option, in JSONL"
        ) from None
