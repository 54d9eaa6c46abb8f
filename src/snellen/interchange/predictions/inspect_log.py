"""Logs of Inspect (log format 2): one .json file, or an .eval file, which is a zip with a file for each sample.

A sample has `id`, `epoch`, `input` (a text, or messages), `choices`, `target` (a text or several; the letters of right
choices) and `output.choices[0].message.content`; each epoch is a presentation. Inspect turns shuffled choices back
before it writes. Long texts stand once in `attachments`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen.catalogue.suites import PredictionForm
from snellen.common.foreign import open_file
from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile, gold_places

HEADER = "header.json"
SAMPLES = "samples/"
ATTACHMENT = "attachment://"
LARGEST = 512 << 20
"""Bytes that one sample may unpack to."""


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not a log with samples; empty when it is one."""
    del benchmark
    try:
        if path.suffix == ".eval":
            with open_file(path) as file, zipfile.ZipFile(file) as archive:
                has_samples = any(map(_is_sample, archive.namelist()))
                return "" if has_samples else f"there is no sample in it (nothing under {SAMPLES})"
        content = read_json_value(path)
    except (zipfile.BadZipFile, OSError):
        return "not a zip file"
    except DataError as error:
        return (
            "not a .json or .eval file"
            if not path.name.endswith(".json")
            else str(error).removeprefix(f"{path}: ")
        )
    if not isinstance(content, dict) or "eval" not in content:
        return "there is no eval in it"
    return "" if content.get("samples") else "there are no samples in it"


def _read_rows(path: Path) -> PredictionFile:
    """The log's samples. Raises DataError naming a sample that is damaged."""
    header, samples = _archive(path) if path.suffix == ".eval" else _whole(path)
    facts = header.get("eval") if isinstance(header.get("eval"), dict) else {}
    rows = tuple(_row(sample, place, f"{path}: {place}") for place, sample in samples)
    return PredictionFile(
        rows=rows,
        repeats=len({row.presentation for row in rows}) > 1,
        title=str((facts or {}).get("task") or path.stem).rpartition("/")[2],
        model=str((facts or {}).get("model") or ""),
    )


def _whole(path: Path) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    content = read_json_value(path)
    return content, [
        (f"sample {number}", sample)
        for number, sample in enumerate(content.get("samples") or [], 1)
    ]


def _archive(path: Path) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        names = sorted(filter(_is_sample, archive.namelist()))
        header = _member(archive, HEADER, path) if HEADER in archive.namelist() else {}
        return header, [(name, _member(archive, name, path)) for name in names]


def _is_sample(name: str) -> bool:
    return name.startswith(SAMPLES) and name.endswith(".json")


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    try:
        if archive.getinfo(name).file_size > LARGEST:
            raise DataError(f"{path}: {name} unpacks to more than {LARGEST >> 20} MiB")
        return msgspec.json.decode(archive.read(name))
    except NotImplementedError:
        raise DataError(
            f"{path}: packed in a way that this Python cannot read (zstandard, which Inspect uses since 2026, needs "
            "Python 3.14); write it again with `inspect log convert --to json`"
        ) from None
    except (zipfile.BadZipFile, zlib.error, msgspec.DecodeError, OSError, RuntimeError) as error:
        raise DataError(f"{path}: {name}: cannot be read ({error})") from None


def _row(sample: Any, place: str, where: str) -> PredictedRow:
    if not isinstance(sample, dict) or "id" not in sample:
        raise DataError(f"{where}: not a sample, as it has no id")
    attached = sample.get("attachments") or {}
    options = tuple(_text(option, attached) for option in sample.get("choices") or ())
    targets = sample.get("target")
    texts = [
        _text(text, attached)
        for text in (targets if isinstance(targets, list) else [targets])
        if text
    ]
    failure, epoch = _failure(sample), sample.get("epoch")
    return PredictedRow(
        where=place,
        id=str(sample["id"]),
        presentation=epoch - 1 if isinstance(epoch, int) and epoch > 0 else None,
        question=_question(sample.get("input"), attached),
        options=options,
        gold=tuple(sorted({place for text in texts for place in gold_places(text, options)})),
        references=() if options else tuple(text.strip() for text in texts if text.strip()),
        reply=None if failure else _reply(sample, attached),
        failure=failure,
    )


def _failure(sample: Mapping[str, Any]) -> str:
    error = sample.get("error")
    if isinstance(error, dict):
        return str(error.get("message") or "the sample failed")
    return "" if _choices(sample) else "there is no output"


def _choices(sample: Mapping[str, Any]) -> list[Any]:
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    return choices if isinstance(choices, list) else []


def _reply(sample: Mapping[str, Any], attached: Mapping[str, Any]) -> str:
    message = _choices(sample)[0].get("message") or {}
    return _content(message.get("content"), attached)


def _question(prompt: Any, attached: Mapping[str, Any]) -> str:
    """The input; of messages what the user says last."""
    if not isinstance(prompt, list):
        return _text(prompt, attached)
    user_messages = [
        message for message in prompt if isinstance(message, dict) and message.get("role") == "user"
    ]
    return _content(user_messages[-1].get("content"), attached) if user_messages else ""


def _content(content: Any, attached: Mapping[str, Any]) -> str:
    """A message's text; of several parts those that are text, without reasoning."""
    if isinstance(content, list):
        return "\n".join(_parts(content, attached))
    return _text(content, attached)


def _parts(parts: list[Any], attached: Mapping[str, Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "text":
            yield _text(part.get("text"), attached)


def _text(value: Any, attached: Mapping[str, Any]) -> str:
    text = "" if value is None else str(value)
    return (
        str(attached.get(text.removeprefix(ATTACHMENT), text))
        if text.startswith(ATTACHMENT)
        else text
    )


PREDICTION_FORM = PredictionForm(title="a log of Inspect", fault=_fault, rows=_read_rows)
