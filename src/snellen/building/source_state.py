"""Tell whether the files that a benchmark was built from have changed after the build.

For this, the state of the files (sizes, times of change and digests) is stored at each build. It is
stored next to the built folder and not in it, so that two builds of the same files have equal
folders, whatever the times of their files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from snellen.building.benchmark import MANIFEST, file_digest
from snellen.catalogue import BenchmarkSpec, entry_folder
from snellen.catalogue.loading import entry_with_files, hook_targets
from snellen.common.foreign import read_file
from snellen.common.paths import benchmark_folder
from snellen.errors import DataError, SnellenError
from snellen.formats.json_files import parse_toml

MAX_BYTES = 2**30
"""Size up to which a table or folder of the user is read completely to compute a digest, which
takes about a second.
"""
MAX_FILES = 20_000
"""Number of files up to which a folder of the user is checked for changes, which takes some tenths
of a second.
"""


class SourceState(Struct, frozen=True):
    """The state of a benchmark's source files at the time of its build, by which later changes are
    noticed.

    Most digests are computed from the paths, sizes and times of change of files, so that their
    content need not be read.
    """

    entry: str = ""
    """Path of the benchmark's entry (the file that defines it), if it is in a user's folder or has
    its files next to it.

    It tells apart two benchmarks of the same name.
    """
    neighbour_digest: str = field(default="", name="beside")
    """Digest of files next to the entry: those that its parameters name, or all files of its folder
    if they name none, and the suite's Python files that read them.

    Empty if there are no such files.
    """
    tables: dict[str, int] = {}
    """Files in the user's folder that the entry's parameters name, each with the time of its last
    change in nanoseconds.
    """
    folders: dict[str, str] = {}
    """Folders in the user's folder that the entry's parameters name, each with a digest of the
    paths, sizes and times of its files.

    Folders with more than `MAX_FILES` files are not checked and not listed.
    """
    contents: dict[str, str] = {}
    """For each of these files and folders, a digest of its content.

    Those with more than `MAX_BYTES` are not listed.
    """
    own_entries: dict[str, str] = {}
    """The user's TOML files that say how the tables are read, each with a digest of its settings.
    """

    def changed_sources(self) -> Iterator[str]:
        """Yield the paths of source files and folders that have changed after the build.

        TOML files with settings come first, then tables, then folders. A table or folder whose time
        of change differs but whose content is as it was is not yielded. Neither is one that no
        longer exists, for example because the build was copied from another machine.
        """
        for entry, digest in self.own_entries.items():
            if Path(entry).is_file() and _entry_digest(Path(entry)) != digest:
                yield entry
        for table, modified_ns in self.tables.items():
            with suppress(OSError):  # it was removed, or the build is from another machine
                is_touched = Path(table).stat().st_mtime_ns != modified_ns
                if is_touched and not self.has_content_of(Path(table), built=table):
                    yield table
        for folder, digest in self.folders.items():
            with suppress(OSError):
                is_touched = Path(folder).is_dir() and _folder_digest(Path(folder)) != digest
                if is_touched and not self.has_content_of(Path(folder), built=folder):
                    yield folder

    def has_content_of(self, path: Path, built: str) -> bool:
        """Return whether a file or folder has the same content as a source had at the build.

        False if the content at the build is unknown, because it was too large for a digest.

        Args:
            path: The file or folder.
            built: Path of the source at the build.
        """
        digest = self.contents.get(built, "")
        return bool(digest) and _content_digest(path) == digest

    def is_built_from(self, path: Path) -> bool:
        """Return whether the benchmark was built from a file or folder of the user.

        This is so if it is one of the sources, a folder that contains one, or a copy of one with
        the same content.
        """
        path = path.resolve()
        for source in (*self.tables, *self.folders, *self.own_entries):
            if Path(source).resolve().is_relative_to(path):
                return True
        return any(self.has_content_of(path, built) for built in self.contents)


def source_state(spec: BenchmarkSpec, source: Path | None = None) -> SourceState:
    """Return the present state of the files that a benchmark is built from.

    Args:
        spec: The benchmark.
        source: The user's folder with its files. If None, the files are those next to its entry.
    """
    entry = entry_with_files(spec.name)
    if source:
        return _state_of_user_files(entry, _named_paths(spec, source))

    folder = entry_folder(spec)
    if folder is None:
        return SourceState(entry)
    paths = list(_named_paths(spec, folder))
    if not paths and spec.source.folder:
        paths.append(folder)
    paths += _reading_modules(spec)
    if not paths:
        return SourceState(entry)
    files: set[str] = set()
    for path in paths:
        files.update(_files_below(path))
    return SourceState(entry, neighbour_digest=_metadata_digest(files))


def _state_of_user_files(entry: str, paths: Iterable[Path]) -> SourceState:
    """Return the present state of files and folders of the user.

    Args:
        entry: The file of the benchmark's entry if its data files are next to it; else empty.
        paths: The files and folders.
    """
    tables: dict[str, int] = {}
    folders: dict[str, str] = {}
    contents: dict[str, str] = {}
    for path in paths:
        path = path.absolute()
        if path.is_file():
            tables[str(path)] = path.stat().st_mtime_ns
        elif path.is_dir():
            digest = _folder_digest(path)
            if digest:
                folders[str(path)] = digest
        content_digest = _content_digest(path)
        if content_digest:
            contents[str(path)] = content_digest
    return SourceState(entry, tables=tables, folders=folders, contents=contents)


def is_built(spec: BenchmarkSpec) -> bool:
    """Return whether a benchmark is built from the entry that it has now.

    A build does not count if it was made from another entry with the same name, such as one in
    another folder.
    """
    if not (benchmark_folder(spec.name) / MANIFEST).exists():
        return False
    return kept_state(spec.name).entry == entry_with_files(spec.name)


def keep_state(name: str, state: SourceState) -> None:
    """Store the state of the files that a benchmark has just been built from.

    An empty state removes the stored one.
    """
    if state == SourceState():
        _state_file(name).unlink(missing_ok=True)
    else:
        _state_file(name).write_bytes(msgspec.json.encode(state))


def keep_own_entry(name: str, entry: Path) -> None:
    """Store a digest of the user's TOML file by which a benchmark was built, so that later changes
    of it are noticed.

    Args:
        name: The name of the benchmark.
        entry: Path of the TOML file.
    """
    state = kept_state(name)
    own_entries = {str(entry.absolute()): _entry_digest(entry)}
    keep_state(name, replace(state, own_entries=own_entries))


def kept_state(name: str) -> SourceState:
    """Return the state of a benchmark's files that was stored at its build; an empty state if none
    is stored or it is damaged.
    """
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(read_file(_state_file(name)), type=SourceState)
    return SourceState()


def _state_file(name: str) -> Path:
    folder = benchmark_folder(name)
    return folder.with_name(f".{folder.name}.source.json")


# --- digests of files ------------------------------------------------------------------------------------------------


def _entry_digest(entry: Path) -> str:
    """Return a digest of the settings in a TOML file; empty if the file cannot be read.

    Changes of comments and layout do not change the digest.
    """
    try:
        content = parse_toml(read_file(entry).decode(), str(entry))
    except (SnellenError, OSError, UnicodeDecodeError):
        return ""
    return hashlib.sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def _folder_digest(folder: Path) -> str:
    """Return a digest of the paths, sizes and times of a folder's files; empty if there are more
    than `MAX_FILES`.
    """
    files = list(islice(_files_below(folder), MAX_FILES + 1))
    return _metadata_digest(files) if len(files) <= MAX_FILES else ""


def _metadata_digest(files: Iterable[str]) -> str:
    """Return a digest of the paths, sizes and times of change of some files.

    The files are not read.
    """
    digest = hashlib.sha256()
    for path in sorted(files):
        with suppress(OSError):  # a broken link, or removed since it was listed
            status = os.stat(path)  # noqa: PTH116  (a text takes half of the time of a Path)
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _content_digest(path: Path) -> str:
    """Return a digest of the content of a file, or of the names and contents of all files in a
    folder.

    Empty if there are more than `MAX_FILES` files or `MAX_BYTES` bytes, or a file cannot be read.
    """
    files = sorted(islice(_files_below(path), MAX_FILES + 1))
    if len(files) > MAX_FILES:
        return ""
    digest = hashlib.sha256()
    try:
        size = sum(Path(file).stat().st_size for file in files)
        if size > MAX_BYTES:
            return ""
        for file in files:
            name = Path(file).relative_to(path)
            digest.update(f"{name}\0{file_digest(Path(file))}\n".encode())
    except (OSError, DataError):  # removed since it was listed, or not readable
        return ""
    return digest.hexdigest()


def _files_below(path: Path) -> Iterator[str]:
    """Yield the path of a file, or the paths of all files in a folder and its subfolders."""
    if path.is_file():
        yield str(path)
    for folder, _, names in os.walk(path):
        for name in names:
            yield f"{folder}{os.sep}{name}"


# --- which files an entry names --------------------------------------------------------------------------------------


def _named_paths(spec: BenchmarkSpec, folder: Path) -> Iterator[Path]:
    """Yield the existing paths in a folder that the parameters of a benchmark's entry name.

    For example, `{file = "test.csv", images = "photos"}` names two. Any text among the parameters
    counts if there is such a file or folder.
    """
    for text in _texts(spec.source.params):
        path = folder / text
        if os.path.exists(path):  # noqa: PTH110  (unlike Path.exists() for any text, however long)
            yield path


def _reading_modules(spec: BenchmarkSpec) -> Iterator[Path]:
    """Yield the Python files of a suite that determine how a benchmark is read.

    These are the files with its reader, and with functions that transform the texts of its prompt templates.
    """
    targets: list[
        str
    ] = []  # `module:attribute`, in which the module may be the path of a Python file
    readers = hook_targets("readers")
    if spec.source.reader in readers:
        targets.append(readers[spec.source.reader])
    # A template names a transform after a colon, as in `{name:lower}`.
    texts = list(_texts(spec.source.params))
    for name, target in hook_targets("transforms").items():
        if any(f":{name}" in text for text in texts):
            targets.append(target)
    modules = {target.rpartition(":")[0] for target in targets}
    for module in modules:
        if module.endswith(".py"):
            yield Path(module)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts in nested parameters that are not empty: `{"a": ["b", {"c": "d"}]}` has `b` and `d`."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
