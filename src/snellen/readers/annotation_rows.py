"""Annotations as rows of a table: an image and what is said of it, in columns that the entry names.

A cell may hold JSON: lists of captions, objects as names or as `{"name", "box"}`, `{"key": "value"}`.
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
    """Which column holds what; a role that is empty has none."""

    image: str = ""
    label: str = ""
    caption: str | tuple[str, ...] = ()
    """A column with a caption or a list of them; or several columns."""
    objects: str = ""
    box: tuple[str, ...] = ()
    """Left, top, right and bottom of one object, each in a column; its name is the `label`. That all objects of an
    image have rows is not taken for granted, so that they are neither counted nor said to be missing."""
    relations: str = ""
    texts: str = ""
    fields: str | dict[str, str] = ""
    """A column with an object of keys and values; or by key the column with its value."""
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
    """Finds them below the folder by their names alone."""


def read_annotated_rows(
    path: Path, pictures: Pictures, columns: Columns, encoding: str = ""
) -> Iterator[AnnotatedImage]:
    """An image for each row; rows of the same image that have no id are one image.

    Raises DataError for a column that is not there, and after the last row WrongRowsError for those that are wrong.
    """
    if not columns.image:
        raise DataError(
            f"{path}: no column is named as the image's; say columns = {{ image = ... }}"
        )
    reader = _RowReader(path, pictures, columns)
    several = not columns.id and bool(columns.questions or columns.box or columns.caption)
    held: dict[object, AnnotatedImage] = {}
    faults = []
    for row in read_rows(path, encoding):
        try:
            picture = reader.picture(row)
        except DataError as error:
            faults.append(str(error))
            continue
        key: object = picture.file if several and isinstance(picture.file, Path) else row.where
        held[key] = _together(held[key], picture) if key in held else picture
    yield from held.values()
    if faults:
        raise WrongRowsError(faults)


def _together(first: AnnotatedImage, second: AnnotatedImage) -> AnnotatedImage:
    """What two rows say of the same image."""
    return msgspec.structs.replace(
        first,
        labels=tuple(dict.fromkeys((*first.labels, *second.labels))),
        objects=(*first.objects, *second.objects),
        incomplete=tuple(dict.fromkeys((*first.incomplete, *second.incomplete))),
        captions=(*first.captions, *second.captions),
        questions=(*first.questions, *second.questions),
    )


class _RowReader:
    """Reads what the columns of a row hold."""

    def __init__(self, path: Path, pictures: Pictures, columns: Columns) -> None:
        self._path, self._pictures, self._columns = path, pictures, columns
        self._captions = (columns.caption,) if isinstance(columns.caption, str) else columns.caption

    def picture(self, source: SourceRow) -> AnnotatedImage:
        """What a row says of its image. Raises DataError for a row or a cell that cannot be read."""
        columns, row, where = self._columns, source.cells, source.where
        if source.fault:
            raise DataError(source.fault)
        cell = self._cell(row, columns.image)
        if cell is None:
            raise DataError(f"{where}: no image in {columns.image!r}")
        file = picture_of(cell, where, self._pictures.folder, files=self._pictures.files)
        name = self._text(row, columns.id) or (str(cell) if isinstance(file, Path) else where)
        labels = tuple(self._texts(row, columns.label, where))
        boxed = self._boxed(row, labels, where)
        return AnnotatedImage(
            id=name.removeprefix(f"{self._path}:").lstrip(),  # the same wherever the table lies
            file=file,
            where=where,
            labels=() if columns.box else labels,
            attributes=self._named(row, columns.attributes),
            objects=(*boxed, *self._objects(row, where)),
            is_exhaustive=not columns.box,
            incomplete=tuple(thing.name for thing in boxed),
            relations=tuple(self._records(row, columns.relations, Relation, where)),
            captions=tuple(
                text for column in self._captions for text in self._texts(row, column, where)
            ),
            questions=tuple(self._questions(row, where)),
            texts=tuple(self._records(row, columns.texts, TextLine, where)),
            fields={key: tuple(_listed(value)) for key, value in self._fields(row, where).items()},
            group=self._text(row, columns.group),
            tags=self._named(row, {name: name for name in columns.tag}),
        )

    def _boxed(self, row: Row, names: Sequence[str], where: str) -> tuple[AnnotatedObject, ...]:
        """The object of a row with a box in columns of its own."""
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
        """What a column holds; None for a column that has no role, or is empty in the row."""
        value = row.get(column) if column else None
        return None if value in ("", []) else value

    def _text(self, row: Row, column: str) -> str:
        value = self._cell(row, column)
        return "" if value is None else str(value).strip()

    def _texts(self, row: Row, column: str, where: str) -> list[str]:
        """A text, or those of a list, which may be written as JSON."""
        return _listed(_parsed(self._cell(row, column), where))

    def _named(self, row: Row, columns: dict[str, str]) -> dict[str, str]:
        """The cells of several columns, each by the name that it is given."""
        return {name: text for name, column in columns.items() if (text := self._text(row, column))}

    def _fields(self, row: Row, where: str) -> dict[str, Any]:
        if isinstance(self._columns.fields, dict):
            return self._named(row, self._columns.fields)
        content = _parsed(self._cell(row, self._columns.fields), where)
        if content is None:  # an object stands as columns of its own: `fields.total`
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
        content = _parsed(self._cell(row, self._columns.objects), where)
        if isinstance(content, str):
            content = [
                name for name in map(str.strip, content.replace(";", ",").split(",")) if name
            ]
        for thing in content or ():
            if isinstance(thing, str):
                yield AnnotatedObject(thing)
            else:
                record = converted(thing, _Object, where)
                yield AnnotatedObject(
                    record.name, record.box, attributes=record.attributes, kind=record.kind
                )

    def _records(self, row: Row, column: str, form: Any, where: str) -> list[Any]:
        """The records of a list; of `texts` a text alone will do."""
        content = _parsed(self._cell(row, column), where)
        if form is TextLine:
            content = [
                {"text": text} if isinstance(text, str) else text for text in _as_list(content)
            ]
        return [converted(item, form, where) for item in _as_list(content)]

    def _questions(self, row: Row, where: str) -> Iterator[OpenQuestion]:
        content = self._cell(row, self._columns.questions)
        if self._columns.answer:
            answers = tuple(self._texts(row, self._columns.answer, where))
            yield OpenQuestion(str(content or ""), answers)
            return
        for item in _as_list(_parsed(content, where)):
            question = converted(item, _Question, where)
            yield OpenQuestion(
                question.question,
                tuple(question.answers or _listed(question.answer)),
                question.kind,
            )


def _parsed(cell: Any, where: str) -> Any:
    """A cell whose text is a JSON list or object as that."""
    if isinstance(cell, str) and cell[:1] in "[{" and cell[-1:] in "]}":
        try:
            return msgspec.json.decode(cell)
        except JSON_FAULTS as error:
            raise DataError(f"{where}: {cell[:40]!r} is not JSON: {error}") from None
    return cell


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [] if content is None else [content]


def _listed(content: Any) -> list[str]:
    return [str(item).strip() for item in _as_list(content) if str(item).strip()]
