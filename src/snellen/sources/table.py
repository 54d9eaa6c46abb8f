"""A user's own questions: JSONL, TSV or CSV with image files or base64.

Fields of a row (TSV/CSV: columns):
- `question` (needed), `id` (else the line number), `context` or `hint`, `group`;
- `image`: a path relative to the file (or to `images`), or base64 of an image file;
  `image_path` is always a path. A row without either has no picture;
- multiple choice: columns `A`, `B`, ... and `answer`: an option's letter or its text; or (JSONL) a list
  `options` and `answer`: an option's text, its letter, or its index from 0. What is named first wins;
- open questions: no options; `answer`: a text or (JSONL) a list of texts;
- `answer` may be left out of the whole file: a split with hidden answers;
- any other column named `tag_...` becomes a tag.
Every cell is text: "NA", "None" and "5.0" stay what they are. An empty cell, or JSON's null, is left out.
"""

from __future__ import annotations

import base64
import binascii
import csv
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.errors import DataError
from snellen.sources.base import Draft, Round, read_params

LETTERS = string.ascii_uppercase
SUFFIXES = (".jsonl", ".tsv", ".csv")


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    images: str = ""
    """Folder that image paths are relative to; the file's own when empty."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft a row. Raises DataError naming the file and line of a wrong one."""
    chosen = read_params(params, Params)
    path = (folder or Path()) / chosen.file
    images = Path(chosen.images) if chosen.images else path.parent
    for line, row in _rows(path):
        yield _draft(row, f"{path}:{line}", line, images)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    form = path.suffix.lower()
    if form not in SUFFIXES:
        raise DataError(f"{path}: cannot tell the form from {path.suffix or 'no suffix'!r}; use {', '.join(SUFFIXES)}")
    line = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            if form == ".jsonl":
                for line, text in enumerate(file, 1):
                    if text.strip():
                        yield line, _json_row(text, f"{path}:{line}")
            else:
                # A cell may hold a whole image in base64.
                csv.field_size_limit(sys.maxsize)
                reader = csv.reader(file, delimiter="\t" if form == ".tsv" else ",", strict=True)
                header = next(reader, [])
                _check_header(header, path)
                for cells in reader:
                    line = reader.line_num
                    if not cells:
                        continue  # a blank line
                    if len(cells) != len(header):
                        raise DataError(f"{path}:{line}: {len(cells)} cells, but the header has {len(header)} columns")
                    yield line, {name: cell for name, cell in zip(header, cells, strict=True) if cell != ""}
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot read the file ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{_not_utf8(path)}; save the file as UTF-8") from None
    except csv.Error as error:
        raise DataError(f"{path}:{line + 1}: {error}; quote cells that hold tabs, commas or line breaks") from None


def _not_utf8(path: Path) -> str:
    """Where and what the first byte is that cannot be read. The decoder itself works ahead of the lines."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"{path}:{number}: not UTF-8 (byte {line[error.start]:#04x})"
    return f"{path}: not UTF-8"


def _check_header(header: list[str], path: Path) -> None:
    if "question" not in header:
        raise DataError(f"{path}:1: the header has no column 'question'; it has {', '.join(header) or 'nothing'}")
    if twice := {name for name in header if header.count(name) > 1}:
        raise DataError(f"{path}:1: the column {min(twice)!r} is there twice")


def _json_row(text: str, where: str) -> dict[str, Any]:
    try:
        row = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
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
    tags = {name[4:]: str(value) for name, value in row.items() if name.startswith("tag_")}
    context = row.get("context") or row.get("hint")
    return Draft(
        id=str(row.get("id", row.get("index", line))),
        rounds=(Round(question, options, gold, texts),),
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
    there = [letter for letter in LETTERS if letter in row]
    if there != list(LETTERS[: len(there)]):
        raise DataError(f"{where}: option {there[-1]} is given, but an option before it is empty")
    return there


def _text(value: Any) -> str:
    """JSON's own None, numbers and truth values as the texts they are written as."""
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
    try:
        return (base64.b64decode(cell, validate=True),)
    except (binascii.Error, ValueError):
        shown = cell if len(cell) < 60 else cell[:60] + "..."
        raise DataError(f"{where}: image {shown!r} is neither a file name nor base64") from None


def _path(folder: Path, name: str, where: str) -> Path:
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} holds a NUL")
    return folder / name
