"""The command that goes on with a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.models.base import names_model
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import RecordField, record_fields


def command_to_go_on(folder: Path, manifest: RunManifest) -> str:
    """`snellen run ...` as the last call of a run asked, which asks what is missing and scores.

    Empty for a run that was made elsewhere, or by objects of a program."""
    if not manifest.asked or not manifest.executed or not names_model(manifest.model):
        return ""
    question, execution = manifest.asked[-1], manifest.executed[-1]
    words = [manifest.model, *question.benchmarks, *_flags(question, but=("models", "benchmarks"))]
    words += _flags(execution, but=("name", "runs"))
    runs = ["--runs", str(folder.parent)] if folder.parent != Path("runs") else []
    return shlex.join(["snellen", "run", *words, *runs, "--name", folder.name])


def _flags(record: Struct, but: tuple[str, ...]) -> Iterator[str]:
    """The flags of the fields that are not at their default."""
    for name, field in record_fields(type(record)).items():
        value = getattr(record, name)
        if name not in but and value != field.default:
            yield from _words(field, value)


def _words(field: RecordField, value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        yield field.flag if value else f"--no-{field.flag.removeprefix('--')}"
        return
    if isinstance(value, Mapping):
        values = [f"{key}={item}" for key, item in value.items()]
    elif field.is_table:
        values = [f"{name}={item}" for name, item in value]
    elif field.is_list:
        values = [str(item) for item in value]
    else:
        values = [",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    for text in values:
        yield from (field.flag, text)
