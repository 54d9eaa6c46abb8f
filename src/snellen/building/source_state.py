"""What a benchmark was built of: by which entry, and whether the files have changed since.

Kept beside the built folder, not in it: two builds of the same files are the same bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.building.benchmark import MANIFEST
from snellen.catalogue import BenchmarkSpec, entry_folder
from snellen.catalogue.loading import entry_with_files, hook_targets
from snellen.common.foreign import read_file
from snellen.common.paths import benchmark_folder

MOST_FILES = 20_000
"""Of a folder that a user gave: looking at so many takes some tenths of a second."""


class SourceState(Struct, frozen=True):
    """How the files of a source were when a benchmark was built of them."""

    entry: str = ""
    """The file of the entry of its name: of a folder that a user names, or of a package where its files lie beside it.
    Two suites of one name are told apart by it."""
    beside: str = ""
    """A digest of paths, sizes and times of change of the files beside its entry that its parameters name, or, where
    they name none, of all in the folder that its source has, and of the modules beside its suite that read them; empty
    where there are none."""
    tables: dict[str, int] = {}
    """Of files that a user gave, those that its parameters name: path -> time of the last change, in ns."""
    folders: dict[str, str] = {}
    """Of folders that a user gave, those that its parameters name: path -> a digest of paths, sizes and times of
    change of its files. One of more than `MOST_FILES` is absent."""

    def changed_sources(self) -> Iterator[str]:
        """The tables that have changed since, and the folders in which a file has, is new, or is gone."""
        for table, changed in self.tables.items():
            with suppress(OSError):  # gone, or on another machine: nothing can be said
                if Path(table).stat().st_mtime_ns != changed:
                    yield table
        for folder, digest in self.folders.items():
            with suppress(OSError):
                if Path(folder).is_dir() and _folder_digest(Path(folder)) != digest:
                    yield folder


def source_state(spec: BenchmarkSpec, source: Path | None = None) -> SourceState:
    """The files of a benchmark as they are now: those in a folder that a user gave, else those beside its entry."""
    if source:
        places = [path.absolute() for path in _named(spec, source)]
        folders = {str(place): _folder_digest(place) for place in places if place.is_dir()}
        return SourceState(
            entry_with_files(spec.name),
            tables={str(place): place.stat().st_mtime_ns for place in places if place.is_file()},
            folders={folder: digest for folder, digest in folders.items() if digest},
        )
    folder = entry_folder(spec)
    if folder is None:
        return SourceState(entry_with_files(spec.name))
    places = list(_named(spec, folder)) or [folder] * bool(spec.source.folder)
    places += _modules(spec)
    files = {file for place in places for file in _files_below(place)}
    return SourceState(entry_with_files(spec.name), _digest(files) if places else "")


def is_built(spec: BenchmarkSpec) -> bool:
    """Whether a benchmark is built, and by its entry of today rather than by another of the same name."""
    is_here = (benchmark_folder(spec.name) / MANIFEST).exists()
    return is_here and kept_state(spec.name).entry == entry_with_files(spec.name)


def keep_state(name: str, state: SourceState) -> None:
    """Write the state of what the benchmark of that name has just been built of, if there is anything to say of it."""
    if state == SourceState():
        _file(name).unlink(missing_ok=True)
    else:
        _file(name).write_bytes(msgspec.json.encode(state))


def kept_state(name: str) -> SourceState:
    """As it was when the benchmark of that name was built; nothing where that was not kept, or is damaged."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_file(_file(name)), type=SourceState)
    return SourceState()


def _file(name: str) -> Path:
    folder = benchmark_folder(name)
    return folder.with_name(f".{folder.name}.source.json")


def _folder_digest(folder: Path) -> str:
    """That of a folder's files; empty where there are too many to look at each time that the benchmark is asked."""
    files = list(islice(_files_below(folder), MOST_FILES + 1))
    return _digest(files) if len(files) <= MOST_FILES else ""


def _digest(files: Iterable[str]) -> str:
    """Of the paths, sizes and times of change of files."""
    digest = hashlib.sha256()
    for path in sorted(files):
        with suppress(OSError):  # a link that leads nowhere, or gone since it was listed
            state = os.stat(path)  # noqa: PTH116  (a text takes half of the time of a Path)
            digest.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _modules(spec: BenchmarkSpec) -> Iterator[Path]:
    """The modules beside a suite's file that read its questions, or change the texts of its templates."""
    texts = list(_texts(spec.source.params))
    targets = [
        target for name, target in hook_targets("readers").items() if name == spec.source.reader
    ]
    for name, target in hook_targets("transforms").items():
        targets += [target] * any(f":{name}" in text for text in texts)
    modules = {target.rpartition(":")[0] for target in targets}
    yield from (Path(module) for module in modules if module.endswith(".py"))


def _named(spec: BenchmarkSpec, folder: Path) -> Iterator[Path]:
    for text in _texts(spec.source.params):
        if os.path.exists(path := folder / text):  # noqa: PTH110  (unlike Path.exists() for any text, however long)
            yield path


def _texts(value: Any) -> Iterator[str]:
    """All texts in parameters that are not empty, however deep."""
    match value:
        case str():
            yield from [value] if value else ()
        case dict():
            yield from chain.from_iterable(map(_texts, value.values()))
        case list() | tuple():
            yield from chain.from_iterable(map(_texts, value))


def _files_below(path: Path) -> Iterator[str]:
    if path.is_file():
        yield str(path)
    for folder, _, names in os.walk(path):
        yield from (f"{folder}{os.sep}{name}" for name in names)
