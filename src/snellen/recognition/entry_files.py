"""What was recognised as an entry of the catalogue's language: a TOML file beside the source, for the next build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.loading import LoadedEntry, read_entry_file
from snellen.errors import DataError
from snellen.recognition.recognising import Recognition

ENDING = ".toml"
_OMITTED = ("name", "title", "formulation", "source")


def entry_path(path: Path) -> Path:
    """Where the entry of a file or folder lies: beside it."""
    if "*" in path.name:
        path = path.parent / path.parent.name
        return path.with_name(f"{path.name}{ENDING}")
    return path.with_name(f"{path.name if path.is_dir() or not path.suffix else path.stem}{ENDING}")


def entry_of(path: Path) -> LoadedEntry | None:
    """The entry that was written for a file or folder, beside it or in the current folder; None where there is none.

    Raises DataError for one that cannot be read.
    """
    for entry in dict.fromkeys((entry_path(path), Path(entry_path(path).name))):
        if entry.is_file():
            loaded = read_entry_file(entry)
            named = loaded.spec.source.params.get("file") or loaded.spec.source.params.get("pictures") or ""
            if (entry.parent / str(named)).resolve() == path.resolve():
                return loaded
    return None


def recognised_spec(recognition: Recognition, name: str = "", base: BenchmarkSpec | None = None) -> BenchmarkSpec:
    """The entry for what was recognised; what `base` says besides its source stays."""
    path = recognition.path
    is_open = recognition.form.startswith(("open", "conversations"))
    source = SourceSpec(recognition.reader, recognition.params, embedded=True)
    if base is not None:
        return replace(base, name=name or base.name, source=source)
    return BenchmarkSpec(
        name=name or (path.name if path.is_dir() else path.stem.partition("*")[0].strip("-_") or path.parent.name),
        title=path.name,
        formulation="text" if is_open else "choice",
        source=source,
    )


def write_entry(recognition: Recognition, spec: BenchmarkSpec) -> Path:
    """Write the entry beside the source, or in the current folder where that cannot be written, and return its path.

    Raises DataError where a file of that name says something else.
    """
    beside = entry_path(recognition.path)
    for path in dict.fromkeys((beside, Path(beside.name))):
        if path.exists() and entry_of(recognition.path) is None:
            raise DataError(f"{path} is there and says something else; rename it, or the table")
        text = entry_text(recognition, spec if path is beside else _with_whole_paths(spec, recognition.path))
        try:
            path.write_text(text, "utf-8")
            return path
        except OSError:
            if path is not beside:
                raise DataError(f"{path}: cannot be written; make the folder writable") from None
    return beside


def _with_whole_paths(spec: BenchmarkSpec, source: Path) -> BenchmarkSpec:
    """The entry for another folder than that of its source."""
    params = {
        name: str((source.parent / value).resolve()) if name in ("file", "pictures", "images") else value
        for name, value in spec.source.params.items()
    }
    return replace(spec, source=replace(spec.source, params=params))


def entry_text(recognition: Recognition, spec: BenchmarkSpec) -> str:
    """The entry as TOML."""
    facts = msgspec.to_builtins(spec)
    blank = msgspec.to_builtins(BenchmarkSpec(name="", title="", formulation="choice", source=SourceSpec("")))
    further = {name: value for name, value in facts.items() if name not in _OMITTED and value != blank[name]}
    params = dict(spec.source.params)
    columns = params.pop("columns", None)
    source: dict[str, Any] = {"reader": spec.source.reader, "embedded": spec.source.embedded}
    lines = [
        f"# {line}" if place else f"# {line}; change here what is wrong, the next build says the same"
        for place, line in enumerate(recognition.lines()[:1])
    ]
    lines += _table("", {"name": spec.name, "title": spec.title, "formulation": spec.formulation, **further})
    lines += _table("source", {name: value for name, value in source.items() if value})
    lines += _table("source.params", params)
    if columns:
        lines += _table("source.params.columns", columns)
    for place in spec.source.places:
        said = {name: value for name, value in msgspec.to_builtins(place).items() if value not in ("", [], {}, ())}
        lines += _table("[source.places]", said)
    return "\n".join(lines) + "\n"


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    head = ["", f"[{name}]"] if name else []
    return [*head, *(f"{_key(key)} = {_value(value)}" for key, value in values.items())]


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _value(name)


def _value(value: Any) -> str:
    """A value as TOML; a text of JSON is one of TOML but for a character that is not written out there."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
