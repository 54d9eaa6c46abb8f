"""Conversations about pictures, as LLaVA and ShareGPT write them: one turn is an open question, several a dialogue.

A row has a list of messages, each with who says it (`from` or `role`) and what (`value` or `content`), and its pictures
in a column of their own. Messages of a system are the question's context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError, WrongRowsError
from snellen.formats.rows import SourceRow, listed, read_rows
from snellen.readers.table import OneOrMore, picture_of

ASKING = frozenset({"human", "user", "question"})
ANSWERING = frozenset({"gpt", "assistant", "model", "bot", "chatgpt", "answer"})
SYSTEM = frozenset({"system"})
MARK = "<image>"


class ConversationColumns(Struct, frozen=True, forbid_unknown_fields=True):
    """The column of each role."""

    messages: str
    picture: OneOrMore = ()
    id: str = ""
    unused: OneOrMore = ()


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    columns: ConversationColumns
    images: str = ""
    """Folder that image paths are relative to; the file's folder when empty."""


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
    faults: list[str] = []
    for row in read_rows(path):
        try:
            if row.fault:
                raise DataError(row.fault)
            yield _draft(row, chosen.columns, images)
        except DataError as error:
            faults.append(str(error))
    if faults:
        raise WrongRowsError(faults)


def _draft(row: SourceRow, columns: ConversationColumns, folder: Path) -> Draft:
    talk = _talk(listed(row.cells.get(columns.messages)) or [], row.where)
    pictures: list[Any] = []
    for name in (columns.picture,) if isinstance(columns.picture, str) else columns.picture:
        cell = row.cells.get(name)
        pictures += cell if isinstance(cell, list) else [cell] if cell else []
    is_dialogue = len(talk.questions) > 1
    replies = [*talk.replies, ""][: len(talk.questions)]
    return Draft(
        id=str(row.cells.get(columns.id, row.number)),
        rounds=tuple(
            QuestionDraft(question, texts=(reply,) if reply else ())
            for question, reply in zip(talk.questions, replies, strict=True)
        ),
        images=tuple(picture_of(cell, row.where, folder) for cell in pictures),
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
        who, text = message.get("from", message.get("role")), _text(message.get("value", message.get("content")))
        if who in SYSTEM:
            talk.context.append(text)
        elif who in ASKING and len(talk.questions) == len(talk.replies):
            talk.questions.append(text)
        elif who in ANSWERING and len(talk.questions) == len(talk.replies) + 1:
            talk.replies.append(text)
        else:
            raise DataError(f"{where}: {who!r} says something out of turn; questions and replies must alternate")
    if not talk.questions:
        raise DataError(f"{where}: nobody asks anything in this conversation")
    return talk


def _text(content: Any) -> str:
    """What a message says, without the mark of its picture; content may be a list of parts."""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return str(content or "").replace(MARK, "").strip()
