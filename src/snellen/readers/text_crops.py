"""Pictures of single words with their text (ReForm-Eval A.3): CUTE80, IC15, IIIT5K, COCO-Text, WordArt.

Label lists as provided by the sites and by recognition toolkits:

- `.txt`: `PATH<TAB>LABEL`, `PATH LABEL`, `word_1.png, "LABEL"` (ICDAR); with `doubled`, also `PATH LABEL 1 LABEL`
  (MMOCR's CUTE80)
- `_words_gt.txt`: `ID,LABEL`, with bars around a label that contains commas (COCO-Text's crops)
- `.jsonl`: `{"filename": ..., "text": ...}`
- `.json`: MMOCR's `data_list` of `img_path` and `instances[].text`
- `.mat`: IIIT5K's `testdata`

LMDB archives of the same pictures are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import Draft, read_params
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, open_text
from snellen.formats.json_files import json_lines, list_items, read_json
from snellen.formats.locate import base_of, locate, locate_or_none
from snellen.formats.pickles import read_mat
from snellen.readers.exclusions import NO_WORD, Exclusion, has_word, without_exclusions
from snellen.readers.text_boxes import Scenes, drafts_of_scenes, reading_question

Word = tuple[str, str, str]
"""Location in the label file, path of the picture, text."""

_QUOTED = re.compile(r'(\S+\.\w+),\s*"(.*)"')
_PAIR = re.compile(r"(\w+),(.*)")
_DOUBLED = re.compile(r"(.+) [01] \1")


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    labels: tuple[str, ...]
    """Names of the label file; the first one found is used."""
    pictures: tuple[str, ...] = ()
    """Folders that paths are relative to, besides the label file's own."""
    doubled: bool = False
    """Whether a line may give its label twice."""
    scenes: Scenes | None = None
    """Whole pictures with boxes, from which words are cropped when there is no label file."""


class _Line(Struct, frozen=True):
    filename: str
    text: str


class _Instance(Struct, frozen=True):
    text: str


class _Item(Struct, frozen=True):
    img_path: str
    instances: tuple[_Instance, ...]


class _List(Struct, frozen=True):
    data_list: list[msgspec.Raw]


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """One draft per word, in file order."""
    chosen = read_params(params, Params)
    if chosen.scenes and folder and not locate_or_none(folder, *chosen.labels):
        return drafts_of_scenes(chosen.scenes, folder)
    path = locate(folder, *chosen.labels)
    bases = (path.parent, *(locate_or_none(folder, name) for name in chosen.pictures))
    return without_exclusions(_drafts(path, bases, doubled=chosen.doubled), path)


def _drafts(path: Path, bases: tuple[Path | None, ...], *, doubled: bool) -> Iterator[Draft | Exclusion]:
    base: Path | None = None
    for where, picture, text in _words(path, doubled=doubled):
        if not text:
            raise DataError(f"{where}: {picture} has no label; give its text behind a blank or tab")
        base = base or base_of(picture, bases, where)
        if not has_word(text):
            yield Exclusion(NO_WORD)
            continue
        yield Draft(picture, (reading_question(text),), (base / picture,), where)


def _words(path: Path, *, doubled: bool) -> Iterator[Word]:
    match path.suffix.lower():
        case ".jsonl":
            yield from ((where, line.filename, line.text) for where, line in json_lines(path, _Line))
        case ".json":
            yield from _of_list(path)
        case ".mat":
            yield from _of_mat(path)
        case _ if path.name.endswith("_words_gt.txt"):
            yield from _of_pairs(path)
        case _:
            yield from _of_lines(path, doubled=doubled)


def _of_lines(path: Path, *, doubled: bool) -> Iterator[Word]:
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            if line.strip():
                yield f"{path}:{number}", *_parted(line.strip(), doubled=doubled)


def _parted(line: str, *, doubled: bool) -> tuple[str, str]:
    """Path and label of a line; the label is everything after the first space, as it may have several words."""
    if "\t" not in line and (quoted := _QUOTED.fullmatch(line)):
        return quoted[1], re.sub(r'\\(["\\])', r"\1", quoted[2])
    picture, _, label = line.partition("\t" if "\t" in line else " ")
    label = label.strip()
    if doubled and (twice := _DOUBLED.fullmatch(label)):
        label = twice[1]
    return picture.strip(), label


def _of_pairs(path: Path) -> Iterator[Word]:
    """`ID,LABEL` on each line; a label that opens with a bar may span lines until a closing bar."""
    pending: Word | None = None
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            where, text = f"{path}:{number}", line.strip()
            if pending:
                where, picture, label = pending
                label = f"{label} {text}".strip()
            elif not text:
                continue
            elif not (pair := _PAIR.fullmatch(text)):
                raise DataError(f"{where}: {text!r} is not ID,LABEL")
            else:
                picture, label = f"{pair[1]}.jpg", pair[2].strip()
            pending = (where, picture, label) if _is_open(label) else None
            if not pending:
                yield where, picture, label.removeprefix("|").removesuffix("|").strip() if len(label) > 1 else label
    if pending:
        raise DataError(f"{pending[0]}: the label {pending[2][:40]!r} opens with a bar and is never closed by one")


def _is_open(label: str) -> bool:
    return len(label) > 1 and label.startswith("|") and not label.endswith("|")


def _of_list(path: Path) -> Iterator[Word]:
    for where, item in list_items(path, "data_list", read_json(path, _List).data_list, _Item):
        if len(item.instances) != 1:
            raise DataError(f"{where}: {len(item.instances)} instances; a picture of one word has one")
        yield where, item.img_path, item.instances[0].text


def _of_mat(path: Path) -> Iterator[Word]:
    for number, record in enumerate(read_mat(path, "testdata")):
        where = f"{path}: testdata({number + 1})"
        try:
            yield where, str(record["ImgName"]), str(record["GroundTruth"])
        except (KeyError, TypeError, IndexError):
            raise DataError(f"{where}: no record with ImgName and GroundTruth") from None
