"""Logs of Inspect (log format 2): one .json file, or an .eval file, which is a zip with a file for each sample.

A sample has `id`, `epoch`, `input` (a text, or messages), `choices`, `target` (a text or several) and
`output.choices[0].message.content`. Inspect restores the order of shuffled choices before it writes. A long text is
stored once in `attachments`.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from snellen.common.foreign import open_file
from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.formats.source_row import SourceRow

HEADER = "header.json"
SAMPLES = "samples/"
ATTACHMENT = "attachment://"
MAX_SAMPLE_BYTES = 512 << 20
"""Bytes that one sample may unpack to."""


def log_fault(path: Path) -> str:
    """Return why a file cannot be read as a log of Inspect; empty if it is a log with samples."""
    try:
        if path.suffix == ".eval":
            with open_file(path) as file, zipfile.ZipFile(file) as archive:
                if any(_is_sample(name) for name in archive.namelist()):
                    return ""
                return f"there is no sample in it (nothing under {SAMPLES})"
        content = read_json_value(path)
    except (zipfile.BadZipFile, OSError):
        return "not a zip file"
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    if not isinstance(content, dict) or not isinstance(content.get("eval"), dict):
        return "there is no eval in it"
    samples = content.get("samples")
    has_samples = isinstance(samples, list) and len(samples) > 0
    return "" if has_samples else "there are no samples in it"


def log_rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each sample of a log of Inspect.

    The task and the model of the log are cells of each row. Raises DataError, which names the
    sample, if one is damaged.
    """
    if path.suffix == ".eval":
        header, samples = _read_archive(path)
    else:
        header = read_json_value(path)
        samples = [(f"sample {n}", sample) for n, sample in enumerate(header["samples"], 1)]
    facts = header.get("eval")
    facts = facts if isinstance(facts, dict) else {}
    for number, (place, sample) in enumerate(samples, 1):
        if not isinstance(sample, dict) or "id" not in sample:
            raise DataError(f"{path}: {place}: not a sample, as it has no id")
        try:
            sample_cells = _cells(sample)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: {place}: not a sample of Inspect ({type(error).__name__}: {error})"
            ) from None
        cells = {"model": facts.get("model"), "title": facts.get("task"), **sample_cells}
        filled = {name: cell for name, cell in cells.items() if cell}
        yield SourceRow(f"{path}: {place}", number, {**filled, "id": sample["id"]})


def _read_archive(path: Path) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    with open_file(path) as file, zipfile.ZipFile(file) as archive:
        names = sorted(filter(_is_sample, archive.namelist()))
        header = _member(archive, HEADER, path) if HEADER in archive.namelist() else {}
        return header, [(name, _member(archive, name, path)) for name in names]


def _is_sample(name: str) -> bool:
    return name.startswith(SAMPLES) and name.endswith(".json")


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> Any:
    """Return the decoded JSON of a file in a log of Inspect. Raises DataError if it is too large or cannot be read."""
    try:
        if archive.getinfo(name).file_size > MAX_SAMPLE_BYTES:
            raise DataError(f"{path}: {name} unpacks to more than {MAX_SAMPLE_BYTES >> 20} MiB")
        return msgspec.json.decode(archive.read(name))
    except NotImplementedError:
        raise DataError(
            f"{path}: packed in a way that this Python cannot read (zstandard, which Inspect uses since 2026, needs "
            "Python 3.14); write it again with `inspect log convert --to json`"
        ) from None
    except (zipfile.BadZipFile, zlib.error, msgspec.DecodeError, OSError, RuntimeError) as error:
        raise DataError(f"{path}: {name}: cannot be read ({error})") from None


def _cells(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row for a sample of Inspect: its question, options, answer, and its reply or failure."""
    attachments = sample.get("attachments") or {}
    epoch = sample.get("epoch")
    error = sample.get("error")
    output = sample.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    cells: dict[str, Any] = {
        "presentation": str(epoch - 1) if isinstance(epoch, int) and epoch > 0 else None,
        "question": _last_of_user(sample.get("input")),
        "options": sample.get("choices"),
        "answer": sample.get("target"),
    }
    if isinstance(error, dict):
        cells["failure"] = error.get("message") or "the sample failed"
    elif choices:
        cells["reply"] = choices[0]["message"].get("content")
    else:
        cells["failure"] = "there is no output"
    return {name: _with_attachments(cell, attachments) for name, cell in cells.items()}


def _last_of_user(prompt: Any) -> Any:
    """Return the content of the last message of the user in a conversation; a prompt that is a text is returned as it is."""
    if not isinstance(prompt, list):
        return prompt
    contents = [message.get("content") for message in prompt if message.get("role") == "user"]
    return contents[-1] if contents else ""


def _with_attachments(cell: Any, attachments: Mapping[str, str]) -> Any:
    """Return a cell of a log of Inspect with its attached texts in place of references to them.

    Args:
        cell: A text, a list of texts, or the parts of a message (`[{"type": "text", "text": ...}, ...]`). Parts become
            one text, without reasoning and images.
        attachments: The attached texts by name.
    """
    if isinstance(cell, str) and cell.startswith(ATTACHMENT):
        return attachments.get(cell.removeprefix(ATTACHMENT), cell)
    if not isinstance(cell, list):
        return cell
    is_message = bool(cell) and isinstance(cell[0], dict)
    if not is_message:
        return [_with_attachments(text, attachments) for text in cell]
    texts: list[str] = []
    for part in cell:
        if isinstance(part, dict) and part.get("type") == "text":
            texts.append(_with_attachments(part.get("text") or "", attachments))
    return "\n".join(texts)
