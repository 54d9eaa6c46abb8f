"""Conversations about images, as LLaVA and ShareGPT write them: one turn is an open question, several a dialogue.

A row has a list of messages, each with who says it (`from` or `role`) and what (`value` or `content`), and its images
in a column of their own. Messages of a system are the question's context. Marks of images at the beginning or the end
of a message are left out, as images stand first; those within the first one are numbered, `<image 1>`, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError, WrongRowsError
from snellen.formats.listed_cells import listed
from snellen.formats.locate import ImageFinder
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.readers.table_columns import OneOrMore
from snellen.readers.table_notes import image_notes, row_names
from snellen.readers.table_pictures import picture_of

ASKING = frozenset({"human", "user", "question"})
ANSWERING = frozenset({"gpt", "assistant", "model", "bot", "chatgpt", "answer"})
SYSTEM = frozenset({"system"})
MARK = "<image>"
_AROUND = re.compile(rf"^(?:\s*{MARK})+\s*|\s*(?:{MARK}\s*)+$")


class ConversationColumns(Struct, frozen=True, forbid_unknown_fields=True):
    """The column of each role."""

    messages: str
    image: OneOrMore = ()
    id: str = ""
    unused: OneOrMore = ()


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    columns: ConversationColumns
    images: str = ""
    """Folder that image paths are relative to; the file's folder when empty."""
    find_images: bool = False
    """Whether images are found anywhere below the folder by their names, with or without an ending."""


class _Talk(Struct):
    """What was said: the questions, the replies, and what a system said before."""

    questions: list[str] = []
    replies: list[str] = []
    context: list[str] = []


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft for each conversation; after the last, WrongRowsError for those that cannot be used."""
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = (folder or Path()) / chosen.images if chosen.images else path.parent
    files = ImageFinder(images) if chosen.find_images else None
    if files is not None:
        for name in _picture_columns(chosen.columns):
            files.learn(cell for row in read_rows(path) for cell in _cells(row, name))
    faults, moved, last = (
        list[str](),
        list[int](),
        None,
    )  # the last is kept back, since a note goes with it
    for row in read_rows(path):
        if last is not None:
            yield last
            last = None
        try:
            if row.fault:
                raise DataError(row.fault)
            talk = _talk(listed(row.cells.get(chosen.columns.messages)) or [], row.where)
            last = _draft(row, talk, chosen.columns, images, files)
            if any(MARK in question for question in talk.questions[1:]):
                moved.append(row.number)
        except DataError as error:
            faults.append(str(error))
    if last is not None:
        words = f"{len(moved):,} conversations show the images of later messages with the first one"
        shown_first = (f"{path.name}: {words} ({row_names(path, moved)})",) if moved else ()
        yield replace(last, notes=(*shown_first, *image_notes(path, files)))
    if faults:
        raise WrongRowsError(faults)


def _picture_columns(columns: ConversationColumns) -> tuple[str, ...]:
    return (columns.image,) if isinstance(columns.image, str) else columns.image


def _cells(row: SourceRow, name: str) -> list[Any]:
    """The images of a row in one column."""
    cell = row.cells.get(name)
    if isinstance(cell, list):
        return cell
    return [cell] if cell else []


def _draft(
    row: SourceRow,
    talk: _Talk,
    columns: ConversationColumns,
    folder: Path,
    files: ImageFinder | None,
) -> Draft:
    pictures: list[Any] = []
    for name in _picture_columns(columns):
        pictures += _cells(row, name)
    is_dialogue = len(talk.questions) > 1
    replies = [*talk.replies, ""][: len(talk.questions)]
    questions = _with_places(talk.questions, len(pictures), row.where)
    return Draft(
        id=str(row.cells.get(columns.id, row.number)),
        rounds=tuple(
            QuestionDraft(question, texts=(reply,) if reply else ())
            for question, reply in zip(questions, replies, strict=True)
        ),
        images=tuple(picture_of(cell, row.where, folder, files=files) for cell in pictures),
        where=row.where,
        dialogue=is_dialogue,
        context="\n".join(talk.context) or None,
        replies=tuple(replies) if is_dialogue and all(replies) else (),
    )


def _talk(messages: Sequence[Any], where: str) -> _Talk:
    """The turns of a conversation. Raises DataError where they do not take turns."""
    talk = _Talk()
    for message in messages:
        if not isinstance(message, dict):
            raise DataError(f"{where}: a message must be an object that says who says what")
        who, text = (
            message.get("from", message.get("role")),
            _text(message.get("value", message.get("content"))),
        )
        if who in SYSTEM:
            talk.context.append(text.replace(MARK, "").strip())
        elif who in ASKING and len(talk.questions) == len(talk.replies):
            talk.questions.append(text)
        elif who in ANSWERING and len(talk.questions) == len(talk.replies) + 1:
            talk.replies.append(text.replace(MARK, "").strip())
        else:
            raise DataError(
                f"{where}: {who!r} says something out of turn; questions and replies must alternate"
            )
    if not talk.questions:
        raise DataError(f"{where}: nobody asks anything in this conversation")
    return talk


def _text(content: Any) -> str:
    """What a message says, with the marks of its images; content may be a list of parts."""
    if isinstance(content, list):
        parts = (part for part in content if isinstance(part, dict))
        content = "\n".join(
            MARK if "image" in str(part.get("type")) else part.get("text") or "" for part in parts
        )
    return str(content or "").strip()


def _with_places(questions: Sequence[str], pictures: int, where: str) -> list[str]:
    """The questions without the marks around them, and with those within the first one numbered as its images.

    Raises DataError where marks within a question do not say where each image stands.
    """
    bare = [_AROUND.sub("", question) for question in questions]
    if any(MARK in question for question in bare[1:]):
        raise DataError(
            f"{where}: a mark {MARK} stands within a later message; put it at the beginning, or ask apart"
        )
    if MARK not in bare[0]:
        return bare
    if (marks := questions[0].count(MARK)) != pictures:
        raise DataError(
            f"{where}: {marks} marks {MARK} stand within a message, but it has {pictures} images"
        )
    numbers = count(1)
    return [re.sub(MARK, lambda mark: f"<image {next(numbers)}>", questions[0]), *bare[1:]]
