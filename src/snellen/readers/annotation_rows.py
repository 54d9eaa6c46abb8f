"""Read annotated images from a table: each row has an image and its annotations, in columns that
the entry names.

A cell may contain JSON: a list of captions, a list of objects (names, or `{"name": ..., "box":
...}`), or an object of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import (
    AnnotatedImage,
    AnnotatedObject,
    OpenQuestion,
    Relation,
    TextLine,
)
from snellen.errors import DataError, WrongRowsError
from snellen.formats.json_files import JSON_FAULTS, converted
from snellen.formats.locate import ImageFinder
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.readers.table_pictures import picture_of

Row = dict[str, Any]


class Columns(Struct, frozen=True, forbid_unknown_fields=True):
    """The names of a table's columns by what they contain.

    A role for which the table has no column is empty.
    """

    image: str = ""
    label: str = ""
    caption: str | tuple[str, ...] = ()
    """A column with a caption or a list of them; or several columns."""
    objects: str = ""
    box: tuple[str, ...] = ()
    """The four columns with left, top, right and bottom of one object; its name is in the column
    `label`.

    The table need not list every object of an image, so no questions are made about how many there
    are or which are missing.
    """
    relations: str = ""
    texts: str = ""
    fields: str | dict[str, str] = ""
    """A column that contains an object of keys and values, such as `{"total": "9.50"}`; or a table
    with the column of each key.
    """
    questions: str = ""
    """A list of `{"question", "answer" or "answers", "kind"}`, or one question, whose answer is in `answer`."""
    answer: str = ""
    attributes: dict[str, str] = {}
    id: str = ""
    group: str = ""
    tag: tuple[str, ...] = ()
    """Columns whose values are tags of the images' questions, by their names."""


class _Object(Struct, frozen=True):
    name: str
    box: tuple[float, float, float, float] | None = None
    attributes: dict[str, str] = {}
    kind: str = ""


class _Question(Struct, frozen=True):
    question: str
    answer: str | list[str] = ""
    answers: list[str] = []
    kind: str = ""


class Pictures(Struct, frozen=True):
    """Where the images of a table are."""

    folder: Path
    files: ImageFinder | None = None
    """If given, finds images by file name in any folder below `folder`."""


def read_annotated_rows(
    path: Path, pictures: Pictures, columns: Columns, encoding: str = ""
) -> Iterator[AnnotatedImage]:
    """Yield an annotated image for each row of a table.

    If the table has one caption, box or question per row and no column of ids, an image has several
    rows, which are merged.

    Raises:
        DataError: The table lacks a column that the entry names.
        WrongRowsError: After the last image, for rows that cannot be used.
    """
    if not columns.image:
        raise DataError(
            f"{path}: no column is named as the image's; say columns = {{ image = ... }}"
        )
    reader = _RowReader(path, pictures, columns)
    # With one question, box or caption in each row, an image has several rows.
    may_repeat_images = not columns.id and bool(columns.questions or columns.box or columns.caption)
    pictures_by_key: dict[object, AnnotatedImage] = {}
    faults = []
    for row in read_rows(path, encoding):
        try:
            picture = reader.picture(row)
        except DataError as error:
            faults.append(str(error))
            continue
        is_shared = may_repeat_images and isinstance(picture.file, Path)
        key: object = picture.file if is_shared else row.where
        if key in pictures_by_key:
            picture = _merge_rows(pictures_by_key[key], picture)
        pictures_by_key[key] = picture
    yield from pictures_by_key.values()
    if faults:
        raise WrongRowsError(faults)


def _merge_rows(first: AnnotatedImage, second: AnnotatedImage) -> AnnotatedImage:
    """Return one annotated image with the annotations of two rows about the same image.

    Labels that both have appear once.
    """
    labels = dict.fromkeys((*first.labels, *second.labels))
    incomplete = dict.fromkeys((*first.incomplete, *second.incomplete))
    return msgspec.structs.replace(
        first,
        labels=tuple(labels),
        objects=(*first.objects, *second.objects),
        incomplete=tuple(incomplete),
        captions=(*first.captions, *second.captions),
        questions=(*first.questions, *second.questions),
    )


class _RowReader:
    """Reads the annotations in the columns of a row."""

    def __init__(self, path: Path, pictures: Pictures, columns: Columns) -> None:
        self._path = path
        self._pictures = pictures
        self._columns = columns
        self._captions = (columns.caption,) if isinstance(columns.caption, str) else columns.caption

    def picture(self, source: SourceRow) -> AnnotatedImage:
        """Return the image of a row with its annotations. Raises DataError for a row or a cell that cannot be read."""
        columns = self._columns
        row = source.cells
        where = source.where
        if source.fault:
            raise DataError(source.fault)
        cell = self._cell(row, columns.image)
        if cell is None:
            raise DataError(f"{where}: no image in {columns.image!r}")
        file = picture_of(cell, where, self._pictures.folder, files=self._pictures.files)

        name = self._text(row, columns.id)
        if not name:
            name = str(cell) if isinstance(file, Path) else where
        # Without the path of the table, so that the id is the same in any folder.
        image_id = name.removeprefix(f"{self._path}:").lstrip()

        # Labels are classes of the image or, with columns of boxes, names of the objects in the boxes.
        labels = tuple(self._texts(row, columns.label, where))
        boxed_objects = self._objects_with_box_columns(row, labels, where)
        captions: list[str] = []
        for column in self._captions:
            captions += self._texts(row, column, where)
        fields = {}
        for key, value in self._fields(row, where).items():
            fields[key] = tuple(_texts_in(value))
        tag_columns = {tag: tag for tag in columns.tag}
        return AnnotatedImage(
            id=image_id,
            file=file,
            where=where,
            labels=() if columns.box else labels,
            attributes=self._texts_by_name(row, columns.attributes),
            objects=(*boxed_objects, *self._objects(row, where)),
            is_exhaustive=not columns.box,
            incomplete=tuple(boxed.name for boxed in boxed_objects),
            relations=tuple(self._records(row, columns.relations, Relation, where)),
            captions=tuple(captions),
            questions=tuple(self._questions(row, where)),
            texts=tuple(self._records(row, columns.texts, TextLine, where)),
            fields=fields,
            group=self._text(row, columns.group),
            tags=self._texts_by_name(row, tag_columns),
        )

    def _objects_with_box_columns(
        self, row: Row, names: Sequence[str], where: str
    ) -> tuple[AnnotatedObject, ...]:
        """Return the object whose box is in four columns of the row, as a tuple of one.

        Its name is the row's first label. The box is converted from left, top, right and bottom to
        left, top, width and height, in pixels. Returns an empty tuple if the table has no such
        columns, the row has no label, or one of the four cells is empty.
        """
        cells = [self._cell(row, column) for column in self._columns.box]
        if not names or not cells or None in cells:
            return ()
        try:
            left, top, right, bottom = map(float, cells)
        except ValueError:
            raise DataError(
                f"{where}: a box has left, top, right and bottom in pixels, not {cells}"
            ) from None
        return (AnnotatedObject(names[0], (left, top, right - left, bottom - top)),)

    def _cell(self, row: Row, column: str) -> Any:
        """Return the cell of a row in a column; None if the cell is empty, or `column` is empty
        because the table has no such column.
        """
        value = row.get(column) if column else None
        return None if value in ("", []) else value

    def _text(self, row: Row, column: str) -> str:
        value = self._cell(row, column)
        return "" if value is None else str(value).strip()

    def _texts(self, row: Row, column: str, where: str) -> list[str]:
        """Return the texts in a cell, which may contain one text or a JSON list of them; an empty
        list for an empty cell.
        """
        return _texts_in(_decode_json_cell(self._cell(row, column), where))

    def _texts_by_name(self, row: Row, columns: dict[str, str]) -> dict[str, str]:
        """Return the texts of several columns by the names that `columns` gives them, without empty
        cells.
        """
        return {name: text for name, column in columns.items() if (text := self._text(row, column))}

    def _fields(self, row: Row, where: str) -> dict[str, Any]:
        """Return the values of a row by key, from a column for each key or from a column that contains an object."""
        if isinstance(self._columns.fields, dict):
            return self._texts_by_name(row, self._columns.fields)
        content = _decode_json_cell(self._cell(row, self._columns.fields), where)
        if content is None:  # an object may have been split into columns, such as `fields.total`
            inner = f"{self._columns.fields}."
            return {
                name.removeprefix(inner): cell
                for name, cell in row.items()
                if name.startswith(inner)
            }
        if not isinstance(content, dict):
            raise DataError(f"{where}: {self._columns.fields} must be an object of keys and values")
        return content

    def _objects(self, row: Row, where: str) -> Iterator[AnnotatedObject]:
        """Yield the objects of a row: records, or names that are separated by commas or semicolons."""
        content = _decode_json_cell(self._cell(row, self._columns.objects), where)
        if isinstance(content, str):
            names = content.replace(";", ",").split(",")
            content = [name.strip() for name in names if name.strip()]
        for item in content or ():
            if isinstance(item, str):
                yield AnnotatedObject(item)
            else:
                record = converted(item, _Object, where)
                yield AnnotatedObject(
                    record.name, record.box, attributes=record.attributes, kind=record.kind
                )

    def _records(self, row: Row, column: str, form: Any, where: str) -> list[Any]:
        """Return the records of a cell in the type `form`. Lines of text may also be given as texts alone."""
        content = _decode_json_cell(self._cell(row, column), where)
        records: list[Any] = []
        for item in _as_list(content):
            if form is TextLine and isinstance(item, str):
                item = {"text": item}
            records.append(converted(item, form, where))
        return records

    def _questions(self, row: Row, where: str) -> Iterator[OpenQuestion]:
        """Yield the open questions of a row: one with its answer in a column of its own, or a list of records with
        both."""
        content = self._cell(row, self._columns.questions)
        if self._columns.answer:
            answers = tuple(self._texts(row, self._columns.answer, where))
            yield OpenQuestion(str(content or ""), answers)
            return
        for item in _as_list(_decode_json_cell(content, where)):
            question = converted(item, _Question, where)
            yield OpenQuestion(
                question.question,
                tuple(question.answers or _texts_in(question.answer)),
                question.kind,
            )


def _decode_json_cell(cell: Any, where: str) -> Any:
    """Return the list or object that a text contains as JSON; other cells are returned unchanged. Raises DataError
    for JSON that is not valid."""
    if isinstance(cell, str) and cell[:1] in "[{" and cell[-1:] in "]}":
        try:
            return msgspec.json.decode(cell)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {cell[:40]!r} is not JSON: {error}") from None
    return cell


def _as_list(content: Any) -> list[Any]:
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def _texts_in(content: Any) -> list[str]:
    """Return the non-empty texts of a value or a list of values."""
    return [str(item).strip() for item in _as_list(content) if str(item).strip()]
