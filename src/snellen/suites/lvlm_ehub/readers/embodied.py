"""Pictures of simulators with a task each, to be planned in words: no gold (LVLM-eHub, Figures A.5 to A.7).

A folder per simulator: `val_dataset.json` (a list of `image_path` and `question`), its pictures, and perhaps
`prefix_prompt.txt`, the words around each question.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.drafts import Draft
from snellen.errors import DataError
from snellen.formats.locate import locate
from snellen.readers.mapped import read as read_mapped

RECORDS = "val_dataset.json"
PREFIX = "prefix_prompt.txt"
MARKER = "{INSERT HERE}"
"""Where the question stands in the words around it; without it, it follows them."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The drafts of the mapping in `params`, each question in the words of `prefix_prompt.txt`, where there is one."""
    path = locate(folder, RECORDS).with_name(PREFIX)
    prefix = _prefix(path) if path.exists() else MARKER
    for draft in read_mapped(params, folder):
        yield replace(draft, rounds=tuple(replace(one, question=_within(prefix, one.question)) for one in draft.rounds))


def _prefix(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the words around each question ({error})") from None
    if not text:
        raise DataError(f"{path}: the file is empty; delete it where questions are asked as they are")
    return text


def _within(prefix: str, question: str) -> str:
    return prefix.replace(MARKER, question) if MARKER in prefix else f"{prefix} {question}"
