"""Pictures of simulators with a task each, to be planned in words: no gold (LVLM-eHub, Figures A.5 to A.7).

A folder per simulator: `val_dataset.json` (a list of `image_path` and `question`), its pictures, and perhaps
`prefix_prompt.txt`, the words around each question. Without that file they are the entry's `prompt`, if it has one,
except around a question that already holds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.formats.locate import locate
from snellen.readers.mapped import read as read_mapped

RECORDS = "val_dataset.json"
PREFIX = "prefix_prompt.txt"
MARKER = "{INSERT HERE}"
"""Where the question stands in the words around it; without it, it follows them."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The drafts of the mapping in `params`, each question in the words around it."""
    path = locate(folder, RECORDS).with_name(PREFIX)
    mapping = {name: value for name, value in params.items() if name != "prompt"}
    prompt = _prefix(path) if path.exists() else params.get("prompt", MARKER).strip()
    for draft in read_mapped(mapping, folder):
        yield replace(
            draft,
            rounds=tuple(replace(question, question=_within(prompt, question.question)) for question in draft.rounds),
        )


def _prefix(path: Path) -> str:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot read the words around each question ({error})") from None
    if not text:
        raise DataError(f"{path}: the file is empty; write {MARKER} where questions are to be asked as they are")
    return text


def _within(prompt: str, question: str) -> str:
    around = [words.strip() for words in prompt.split(MARKER) if words.strip()]
    if around and all(words in question for words in around):
        return question
    return prompt.replace(MARKER, question) if MARKER in prompt else f"{prompt} {question}"
