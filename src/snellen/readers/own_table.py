"""A user's own questions: JSONL, TSV or CSV, with image files or base64.

Fields of a row (TSV/CSV: columns):
- `question` (required), `id` (default: the line number), `context` or `hint`, `group`;
- `image`: a path relative to the file (or to `images`), or base64 of an image file;
  `image_path` is always a path. A row with neither has no picture;
- multiple choice: columns `A`, `B`, ... and `answer`: an option's letter or its text; or (JSONL) a list
  `options` and `answer`: an option's text, its letter, or its index from 0; the first that fits counts;
- open questions: no options; `answer`: a text or (JSONL) a list of texts;
- `answer` may be missing from the whole file: a split with hidden answers;
- `relevance` (JSONL): how right each option is, a list of numbers from 0 up, for NDCG;
- any other column named `tag_...` becomes a tag.
Every cell is text: "NA", "None" and "5.0" stay as they are. An empty cell or a JSON null counts as missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.decoding import JSON_FAULTS
from snellen.formats.delimited import (
    LETTERS,
    TABLES,
    DelimitedLines,
    DelimitedTable,
    decode_base64,
    open_text,
    unknown_columns,
)

SUFFIXES = (".jsonl", *TABLES)
OWN = ("id", "context", "group", "options", "relevance")
"""Columns that have a meaning here but none in MMBench's format."""
KNOWN = ("question", "index", "hint", "image", "image_path", "answer", *OWN, *LETTERS)
TAG = "tag_"


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    images: str = ""
    """Folder that image paths are relative to, and that holds all of them; the file's folder when empty."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft per row. Raises DataError naming the file and line of an invalid row."""
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = Path(chosen.images) if chosen.images else path.parent
    for line, row, strange in _rows(path):
        yield replace(_draft(row, f"{path}:{line}", line, images), notes=_notes(path, strange))


def _notes(path: Path, strange: list[str]) -> tuple[str, ...]:
    if not strange:
        return ()
    return (f"{path.name}: {', '.join(map(repr, strange))} left out: such columns mean nothing here",)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    """Each row with its line, and the unknown columns that first appear in it."""
    form = path.suffix.lower()
    if form not in SUFFIXES:
        raise DataError(f"{path}: cannot tell the form from {path.suffix or 'no suffix'!r}; use {', '.join(SUFFIXES)}")
    with open_text(path) as file:
        yield from (
            _objects(DelimitedLines(file, path), path) if form == ".jsonl" else _table(DelimitedTable(file, path))
        )


def _objects(lines: DelimitedLines, path: Path) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    seen: set[str] = set()
    for line, text in enumerate(lines, 1):
        if text.strip():
            row = _json_row(text, f"{path}:{line}")
            strange = [name for name in _strangers(list(row), f"{path}:{line}") if name not in seen]
            seen.update(strange)
            yield line, row, strange


def _table(table: DelimitedTable) -> Iterator[tuple[int, dict[str, Any], list[str]]]:
    if "question" not in table.header:
        named = ", ".join(table.header) or "nothing"
        raise DataError(f"{table.path}:1: the header has no column 'question'; it has {named}")
    strange = _strangers(table.header, f"{table.path}:1")
    for line, _, cells in table:
        yield line, cells, strange
        strange = []


def _strangers(names: Sequence[str], where: str) -> list[str]:
    return [name for name in unknown_columns(names, KNOWN, where) if not name.startswith(TAG)]


def _json_row(text: str, where: str) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(text)
    except JSON_FAULTS as error:
        raise DataError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise DataError(f"{where}: a row must be an object with a question, not {text.strip()[:40]}")
    return {name: value for name, value in row.items() if value is not None}


def _draft(row: dict[str, Any], where: str, line: int, images: Path) -> Draft:
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{where}: the question is empty")
    options = _options(row, where)
    gold, texts = _answer(row, options, where)
    tags = {name.removeprefix(TAG): str(value) for name, value in row.items() if name.startswith(TAG)}
    context = row.get("context") or row.get("hint")
    return Draft(
        id=str(row.get("id", row.get("index", line))),
        rounds=(QuestionDraft(question, options, gold, texts, relevance=_relevance(row, where)),),
        images=_images(row, where, images),
        where=where,
        context=str(context) if context else None,
        group=str(row.get("group", "")),
        tags=tags,
    )


def _options(row: dict[str, Any], where: str) -> tuple[str, ...]:
    listed = row.get("options")
    if listed is None:
        return tuple(_text(row[letter]) for letter in _lettered(row, where))
    if not isinstance(listed, list):
        raise DataError(f"{where}: options must be a list of texts; in a table use columns A, B, ...")
    return tuple(_text(option) for option in listed)


def _lettered(row: dict[str, Any], where: str) -> list[str]:
    given_letters = [letter for letter in LETTERS if letter in row]
    if given_letters != list(LETTERS[: len(given_letters)]):
        raise DataError(f"{where}: option {given_letters[-1]} is given, but an option before it is empty")
    return given_letters


def _text(value: Any) -> str:
    """A value as text; JSON numbers and booleans as they are written."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _answer(row: dict[str, Any], options: tuple[str, ...], where: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    answer = row.get("answer")
    if answer is None:
        return (), ()
    if not options:
        texts = tuple(_text(text) for text in answer) if isinstance(answer, list) else (_text(answer),)
        return (), texts
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not 0 <= answer < len(options):
            raise DataError(f"{where}: answer {answer} but options are 0-{len(options) - 1}")
        return (answer,), ()
    text, letters = _text(answer), LETTERS[: len(options)]
    if "options" not in row and len(text) == 1 and text in letters:
        return (LETTERS.index(text),), ()
    if text in options:
        return (options.index(text),), ()
    if len(text) == 1 and text.upper() in letters:
        return (LETTERS.index(text.upper()),), ()
    raise DataError(
        f"{where}: answer {text!r} is neither one of the letters {LETTERS[0]}-{LETTERS[len(options) - 1]} "
        "nor the text of an option"
    )


def _relevance(row: dict[str, Any], where: str) -> tuple[float, ...]:
    try:
        return msgspec.convert(row.get("relevance", ()), tuple[float, ...])
    except msgspec.ValidationError:
        raise DataError(f"{where}: relevance must be a list of numbers, one per option, in JSONL") from None


def _images(row: dict[str, Any], where: str, folder: Path) -> tuple[bytes | Path, ...]:
    if path := row.get("image_path"):
        return (_path(folder, str(path), where),)
    cell = row.get("image")
    if cell is None or cell == "":
        return ()
    if not isinstance(cell, str):
        raise DataError(f"{where}: image must be a path or base64 text")
    if len(cell) <= 1024 and (file := _path(folder, cell, where)).suffix:
        return (file,)
    return (decode_base64(cell, where, "a file name"),)


def _path(folder: Path, name: str, where: str) -> Path:
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} holds a NUL")
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{where}: the image {name!r} lies outside {folder}; move it there, or name a folder that holds all "
            "pictures with --images"
        )
    return path
