"""Where the files of a source lie, in the order in which they are tried, and what `sources.lock` knows of them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from snellen.common.faults import names_of
from snellen.formats.json_files import read_toml

ReaderName = Annotated[str, names_of("readers")]


class SourceFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file to download. Its size and digests are in the lock file, or given here."""

    url: str
    mirrors: tuple[str, ...] = ()
    """Other addresses of the same bytes."""
    name: str = ""
    """Its name in the source's folder; the last part of the address when empty."""
    unpack: bool = False
    """An archive, whose members stand in the folder."""
    to: str = ""
    """The folder below the source's in which the file, or what it unpacks to, stands."""
    keep: tuple[str, ...] = ()
    """Patterns of the members that are unpacked; all when empty."""
    size: int = 0
    sha256: str = ""
    md5: str = ""

    @property
    def file_name(self) -> str:
        """Its name in the source's folder. By default the last part of the address: `a.zip` of `https://x.org/data/a.zip?raw=1`."""
        if self.name:
            return self.name
        path = self.url.partition("?")[0].rstrip("/")
        return path.rpartition("/")[2]


class UrlSource(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="urls"):
    """The files of a benchmark at web addresses."""

    files: tuple[SourceFile, ...]
    reader: ReaderName = ""
    """What reads them in place of the source's own reader; empty for the official files."""
    params: dict[str, Any] = {}


class HubSource(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="hub"
):
    """A dataset on the Hugging Face hub."""

    repo: str
    before: tuple[str, ...] = ()
    """Names that it had."""
    modelscope: str = ""
    """Its name on ModelScope, where the same files are fetched when the hub does not give them."""
    split: str = ""
    config: str = ""
    files: tuple[str, ...] = ()
    """Patterns of the split's files; when empty, the names that the `datasets` library writes."""
    images: tuple[str, ...] = ()
    """Patterns of the files with the images, where they are separate."""
    beside: tuple[str, ...] = ()
    """Patterns of images and clips that are files of their own beside the rows."""
    archives: tuple[str, ...] = ()
    """Patterns of zip and tar files whose members stand in their place among the files that are read."""
    revision: str = ""
    """Full commit; for a built benchmark, the one that it was built from."""
    reader: ReaderName = "hub-rows"
    params: dict[str, Any] = {}
    importer: Annotated[str, names_of("importers")] = ""
    """Who reads the files in place of a reader: a name in the registry's group `importers`."""

    @property
    def rows(self) -> tuple[str, ...]:
        """Patterns of the files with the rows, such as `data/test-*.parquet`."""
        return self.files or (f"{self.config or 'data'}/{self.split}-*.parquet",)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of all files that are read."""
        return (*self.rows, *self.images, *self.beside, *self.archives)


class BorrowedSource(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="their-hub"
):
    """The hub dataset of another benchmark, `files_of`, whose rows also contain the questions of this benchmark."""

    split: str = ""
    """The split that is read here; theirs when empty."""
    params: dict[str, Any] = {}
    """What the parameters of its rows are here; tables are merged."""


class ManualSource(
    Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="by-hand"
):
    """Files that a program cannot fetch, because they are behind a form, a signature, or a service for people."""

    url: str
    what: str
    """What to do, in one line."""


FoundPlace = UrlSource | HubSource | ManualSource
"""A place that needs no other benchmark to be found."""
Place = FoundPlace | BorrowedSource


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether the path of a file matches one of some patterns, by the hub's rules: `*` also matches slashes."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


LOCK = Path(__file__).with_name("sources.lock")


class KnownFile(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The size, digests, date and licence of a file, as far as they are known."""

    size: int = 0
    sha256: str = ""
    md5: str = ""
    date: str = ""
    licence: str = ""
    rests_on: str = ""
    """Who says so."""


class KnownDataset(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A dataset at one commit."""

    commit: str = ""
    date: str = ""
    licence: str = ""
    gated: bool = False
    rests_on: str = ""
    files: dict[str, KnownFile] = {}


class Lock(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    files: dict[str, KnownFile] = {}
    """By address."""
    hub: dict[str, KnownDataset] = {}


@cache
def source_lock() -> Lock:
    return read_lock(LOCK)


def read_lock(path: Path) -> Lock:
    """Return the content of a lock file. Raises DataError."""
    return read_toml(path, Lock)


def known_dataset(place: HubSource) -> KnownDataset:
    """Return what the lock file says about a dataset."""
    return source_lock().hub.get(place.repo) or KnownDataset()


def locked_commit(place: HubSource) -> str:
    """Return the commit (revision) at which a dataset on the hub is read.

    It is the one that the place names, or else the one in the lock file; empty if neither has one.
    """
    return place.revision or known_dataset(place).commit


def known_file(file: SourceFile, lock: Lock | None = None) -> KnownFile:
    """Return the size and digests of a file: those in a lock file or, if that does not list the file, those in its entry.

    Args:
        file: The file.
        lock: The content of the lock file; by default Snellen's own.
    """
    locked = (lock or source_lock()).files.get(file.url)
    return locked or KnownFile(size=file.size, sha256=file.sha256, md5=file.md5)
