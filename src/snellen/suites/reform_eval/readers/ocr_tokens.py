"""TextVQA and DocVQA by the stricter rule: only questions of which a gold stands among the published OCR tokens.

The paper leaves out what has to be inferred and does not say how. The entries leave out what the answer itself shows
to be no text of the picture; this reader, around their mapping, also what OCR has not found. The tokens of TextVQA
miss much of what people read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, read_params
from snellen.formats.json_files import list_items, read_json
from snellen.formats.locate import locate
from snellen.readers.exclusions import Exclusion, without_exclusions
from snellen.readers.mapped import read as read_mapped
from snellen.reformulation.answer_equality import fold_answer

TokenLookup = Callable[[str], frozenset[str]]
"""The words that OCR found in a picture, by the name that its questions have as their group."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    mapping: dict[str, Any]
    """The parameters of the reader `mapped` for the questions."""
    tokens: Literal["rosetta", "scans"]
    """TextVQA's one file of tokens, or DocVQA's one file per page."""


class _Data(Struct, frozen=True):
    data: list[msgspec.Raw]


class _Tokens(Struct, frozen=True):
    image_id: str
    ocr_tokens: tuple[str, ...]


class _Text(Struct, frozen=True):
    text: str


class _Lines(Struct, frozen=True):
    lines: tuple[_Text, ...]


class _Scan(Struct, frozen=True):
    recognition: tuple[_Lines, ...] = msgspec.field(name="recognitionResults")


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The mapping's drafts, but those without an accepted answer of which OCR found all words."""
    chosen = read_params(params, Params)
    tokens = _rosetta(folder) if chosen.tokens == "rosetta" else _scans(folder)
    drafts = list(read_mapped(chosen.mapping, folder))
    notes = tuple(note for draft in drafts for note in draft.notes)
    for draft in without_exclusions((_with_tokens(draft, tokens) for draft in drafts), Path(chosen.tokens)):
        yield replace(draft, notes=(*notes, *draft.notes))
        notes = ()


def _with_tokens(draft: Draft, tokens: TokenLookup) -> Draft | Exclusion:
    words = tokens(draft.group)
    if any(words.issuperset(fold_answer(gold).split()) for gold in draft.rounds[0].texts):
        return replace(draft, notes=())
    return Exclusion("no accepted answer among the OCR tokens")


def _rosetta(folder: Path | None) -> TokenLookup:
    path = locate(folder, "TextVQA_Rosetta_OCR_v0.2_val.json")
    items = list_items(path, "data", read_json(path, _Data).data, _Tokens)
    words = {item.image_id: _words(item.ocr_tokens) for _, item in items}
    return lambda image: words.get(image, frozenset())


def _scans(folder: Path | None) -> TokenLookup:
    scans = locate(folder, "val/ocr_results", "ocr_results", "spdocvqa_ocr")

    def words(page: str) -> frozenset[str]:
        scan = read_json(scans / f"{page}.json", _Scan)
        return _words(line.text for part in scan.recognition for line in part.lines)

    return words


def _words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(word for text in texts for word in fold_answer(text).split())
