"""Read conversations about images in the formats of LLaVA, ShareGPT and OpenAI.

A conversation of one turn becomes an open question, and one of several turns a dialogue. A row has
a list of messages, each with its speaker (`from` or `role`) and text (`value` or `content`). Images
are in a column of their own, or are parts of the messages, such as `{"type": "image_url", ...}`.
System messages become the context of the question.

The text of a message marks images by `<image>`. Marks at its beginning and end are removed, because
images are shown before the text anyway. Marks inside the first message are kept and numbered:
`<image 1>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, LazyImage, QuestionDraft, read_params
from snellen.errors import DataError, WrongRowsError
from snellen.formats.listed_cells import listed
from snellen.formats.locate import ImageFinder
from snellen.formats.message_parts import (
    ANSWERING,
    ASKING,
    MARK,
    SYSTEM,
    images_of_messages,
    speaker_of_message,
    text_of_message,
)
from snellen.formats.rows import read_rows
from snellen.formats.source_row import SourceRow
from snellen.readers.listed_questions import with_listed_options
from snellen.readers.table_columns import OneOrMore
from snellen.readers.table_notes import image_notes, row_names
from snellen.readers.table_pictures import picture_of

_LISTED_OPTION = re.compile(r"^\s*\(?A[.):]\s*\S", re.MULTILINE)
_LETTER = re.compile(r"\(?[A-Z][.)]?")
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
    """Whether images are found by file name in any folder below `images`.

    The name in the table may lack the suffix.
    """
    fetch_images: bool = False
    """Whether images at URLs are downloaded."""
    options_in_question: bool = False
    """Whether each question lists its options in its text, and the reply names one."""


class _Talk(Struct):
    """What was said in a conversation: the questions, the replies, and the system messages, which
    become the context.
    """

    questions: list[str] = []
    replies: list[str] = []
    context: list[str] = []


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a question or dialogue for each conversation in a table.

    The last draft has the notes about the whole file, for example on conversations whose images belong to later messages.
    After it, raise WrongRowsError if rows cannot be used.

    Args:
        params: The fields of `Params`: the file, its columns, and how images are found.
        folder: The folder that contains the file.
    """
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = (folder or Path()) / chosen.images if chosen.images else path.parent
    files = ImageFinder(images) if chosen.find_images else None
    if files is not None:
        files.learn(_all_image_cells(path, chosen.columns))
    fetched = None
    if chosen.fetch_images:
        from snellen.fetching.image_urls import ImageDownloads

        fetched = ImageDownloads(_all_image_cells(path, chosen.columns))
    faults: list[str] = []
    rows_with_later_images: list[int] = []
    rows_with_letters: list[int] = []
    last: Draft | None = None  # held back, because it carries the notes about the whole file
    for row in read_rows(path):
        if last is not None:
            yield last
            last = None
        try:
            if row.fault:
                raise DataError(row.fault)
            messages = listed(row.cells.get(chosen.columns.messages)) or []
            talk = _read_messages(messages, row.where)
            pictures = []
            for cell in _image_cells(row, chosen.columns):
                pictures.append(picture_of(cell, row.where, images, fetched, files))
            last = _conversation_draft(row, talk, chosen.columns, pictures)
            if chosen.options_in_question:
                last = replace(last, rounds=tuple(with_listed_options(last.rounds, row.where)))
                continue
            later_questions = talk.questions[1:]
            if any(MARK in question for question in later_questions):
                rows_with_later_images.append(row.number)
            for question, reply in zip(talk.questions, talk.replies, strict=False):
                if _names_listed_option(question, reply):
                    rows_with_letters.append(row.number)
                    break
        except DataError as error:
            faults.append(str(error))
    if last is not None:
        notes: list[str] = []
        if rows_with_later_images:
            count = len(rows_with_later_images)
            words = f"{count:,} conversations show the images of later messages with the first one"
            notes.append(f"{path.name}: {words} ({row_names(path, rows_with_later_images)})")
        if rows_with_letters:
            count = len(rows_with_letters)
            words = (
                f"{count:,} questions list options and are answered by a letter; they are scored as open questions, "
                "because not every row is one question with its options on a line each, an instruction at most after "
                "them, and a reply that names one"
            )
            notes.append(f"{path.name}: {words} ({row_names(path, rows_with_letters)})")
        notes += image_notes(path, files)
        yield replace(last, notes=tuple(notes))
    if faults:
        raise WrongRowsError(faults)


def _all_image_cells(path: Path, columns: ConversationColumns) -> Iterator[Any]:
    for row in read_rows(path):
        yield from _image_cells(row, columns)


def _image_cells(row: SourceRow, columns: ConversationColumns) -> list[Any]:
    """Return the images of a row: those inside its messages or, if there are none, those in its
    image columns.
    """
    within_messages = images_of_messages(listed(row.cells.get(columns.messages)) or [])
    if within_messages:
        return within_messages
    cells: list[Any] = []
    for name in _image_columns(columns):
        cells += _images_in_column(row, name)
    return cells


def _names_listed_option(question: str, reply: str) -> bool:
    """Return whether a question lists options with letters in its text, and the reply is one of the letters."""
    return bool(_LISTED_OPTION.search(question) and _LETTER.fullmatch(reply))


def _image_columns(columns: ConversationColumns) -> tuple[str, ...]:
    """Return the names of the columns with images."""
    return (columns.image,) if isinstance(columns.image, str) else columns.image


def _images_in_column(row: SourceRow, name: str) -> list[Any]:
    """Return the images of a row in one column, whose cell contains one image or a list of them."""
    cell = row.cells.get(name)
    if isinstance(cell, list):
        return cell
    return [cell] if cell else []


def _conversation_draft(
    row: SourceRow,
    talk: _Talk,
    columns: ConversationColumns,
    pictures: Sequence[bytes | Path | LazyImage],
) -> Draft:
    """Return the draft of a conversation: several turns are a dialogue, a single one is an open question.

    Args:
        row: The row of the table.
        talk: Its questions, replies and context.
        columns: The column with the id; the number of the row is the id if there is no such column.
        pictures: Its images.
    """
    is_dialogue = len(talk.questions) > 1
    replies = [*talk.replies, ""][: len(talk.questions)]  # the last question may have no reply
    questions = _with_image_marks(talk.questions, len(pictures), row.where)
    rounds = []
    for question, reply in zip(questions, replies, strict=True):
        texts = (reply,) if reply else ()
        rounds.append(QuestionDraft(question, texts=texts))
    has_all_replies = is_dialogue and all(replies)
    return Draft(
        id=str(row.cells.get(columns.id, row.number)),
        rounds=tuple(rounds),
        images=tuple(pictures),
        where=row.where,
        dialogue=is_dialogue,
        context="\n".join(talk.context) or None,
        replies=tuple(replies) if has_all_replies else (),
    )


def _read_messages(messages: Sequence[Any], where: str) -> _Talk:
    """Return the questions, replies and system messages of a conversation.

    Raises DataError if questions and replies do not alternate, or there is no question.
    """
    talk = _Talk()
    for message in messages:
        if not isinstance(message, dict):
            raise DataError(f"{where}: a message must be an object that says who says what")
        who = speaker_of_message(message)
        text = text_of_message(message.get("value", message.get("content")))
        all_answered = len(talk.questions) == len(talk.replies)
        one_unanswered = len(talk.questions) == len(talk.replies) + 1
        if who in SYSTEM:
            talk.context.append(text.replace(MARK, "").strip())
        elif who in ASKING and all_answered:
            talk.questions.append(text)
        elif who in ANSWERING and one_unanswered:
            talk.replies.append(text.replace(MARK, "").strip())
        else:
            raise DataError(
                f"{where}: {who!r} says something out of turn; questions and replies must alternate"
            )
    if not talk.questions:
        raise DataError(f"{where}: nobody asks anything in this conversation")
    return talk


def _with_image_marks(questions: Sequence[str], pictures: int, where: str) -> list[str]:
    """Return the questions without the marks `<image>` at their beginning and end, because all
    images are shown first.

    If the first question has a mark in the middle of its text, the positions matter. Then all its
    marks stay and are numbered: `<image 1>`, `<image 2>`.

    Args:
        questions: The questions of the conversation.
        pictures: Number of its images.
        where: File and line, for error messages.

    Raises:
        DataError: It is unclear which image a mark within a text stands for.
    """
    unmarked = [_AROUND.sub("", question) for question in questions]
    if any(MARK in question for question in unmarked[1:]):
        raise DataError(
            f"{where}: a mark {MARK} stands within a later message; put it at the beginning, or ask apart"
        )
    if MARK not in unmarked[0]:
        return unmarked
    marks = questions[0].count(MARK)
    if marks != pictures:
        raise DataError(
            f"{where}: {marks} marks {MARK} stand within a message, but it has {pictures} images"
        )
    numbers = count(1)
    first_question = re.sub(MARK, lambda mark: f"<image {next(numbers)}>", questions[0])
    return [first_question, *unmarked[1:]]
