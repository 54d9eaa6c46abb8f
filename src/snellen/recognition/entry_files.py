"""What was recognised as an entry of the catalogue's language: a TOML file beside the source, for the next build."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.entry_text import entry_text
from snellen.catalogue.loading import LoadedEntry, read_entry_file
from snellen.errors import DataError
from snellen.recognition.recognising import Recognition

ENDING = ".toml"


def entry_path(path: Path, name: str = "") -> Path:
    """Where the entry of a file or folder lies: beside it, under the name that it was given."""
    if "*" in path.name:
        path = path.parent / path.parent.name
    stem = name.rpartition("/")[2] or (path.name if path.is_dir() or not path.suffix else path.stem)
    return path.with_name(f"{stem}{ENDING}")


def entry_of(path: Path, name: str = "") -> LoadedEntry | None:
    """The entry that was written for a file or folder, beside it or in the current folder; None where there is none.

    Raises DataError for one that cannot be read.
    """
    for entry in dict.fromkeys((entry_path(path, name), Path(entry_path(path, name).name))):
        if entry.is_file():
            loaded = read_entry_file(entry)
            named = loaded.spec.source.params.get("file") or loaded.spec.source.params.get("images") or ""
            if (entry.parent / str(named)).resolve() == path.resolve():
                return loaded
    return None


def _own_name(path: Path) -> str:
    return path.name if path.is_dir() else path.stem.partition("*")[0].strip("-_") or path.parent.name


def recognised_spec(recognition: Recognition, name: str = "", base: BenchmarkSpec | None = None) -> BenchmarkSpec:
    """The entry for what was recognised; what `base` says besides its source stays."""
    path = recognition.path
    is_open = recognition.form.startswith(("open", "conversations"))
    source = SourceSpec(recognition.reader, recognition.params, embedded=True)
    if base is not None:
        return replace(base, name=name or base.name, source=source)
    return BenchmarkSpec(
        name=name or _own_name(path),
        title=path.name,
        formulation="text" if is_open else "choice",
        source=source,
    )


def write_entry(recognition: Recognition, spec: BenchmarkSpec) -> Path:
    """Write the entry beside the source, or in the current folder where that cannot be written, and return its path.

    Raises DataError where a file of that name says something else.
    """
    name = "" if spec.name == _own_name(recognition.path) else spec.name
    beside = entry_path(recognition.path, name)
    for path in dict.fromkeys((beside, Path(beside.name))):
        if path.exists() and entry_of(recognition.path, name) is None:
            raise DataError(f"{path} is there and says something else; rename it, or the table")
        text = _text(recognition, spec if path is beside else _with_whole_paths(spec, recognition.path))
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
        name: str((source.parent / value).resolve()) if name in ("file", "images") else value
        for name, value in spec.source.params.items()
    }
    return replace(spec, source=replace(spec.source, params=params))


def _text(recognition: Recognition, spec: BenchmarkSpec) -> str:
    """The entry, with a line on what it was made of."""
    first = f"# {recognition.lines()[0]}; change here what is wrong, the next build says the same"
    return f"{first}\n\n{entry_text(spec)}"
