"""What is known of the files that places hold: `sources.lock`, and `size`, `sha256` and `md5` of an entry."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.catalogue.places import HubPlace, SourceFile
from snellen.errors import DataError
from snellen.formats.decoding import parse_toml

LOCK = Path(__file__).with_name("sources.lock")
FILES = "files"


class KnownFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What a file holds, as far as that is known."""

    size: int = 0
    sha256: str = ""
    md5: str = ""
    date: str = ""
    licence: str = ""
    rests_on: str = ""
    """Who says so."""


class KnownDataset(Struct, frozen=True, forbid_unknown_fields=True):
    """A dataset at one commit."""

    commit: str = ""
    date: str = ""
    licence: str = ""
    gated: bool = False
    rests_on: str = ""
    files: dict[str, KnownFile] = {}


class Lock(Struct, frozen=True, forbid_unknown_fields=True):
    files: dict[str, KnownFile] = {}
    """By address."""
    hub: dict[str, KnownDataset] = {}


@cache
def source_lock() -> Lock:
    return read_lock(LOCK)


def read_lock(path: Path) -> Lock:
    """A lock file. Raises DataError."""
    try:
        return msgspec.convert(parse_toml(path.read_text("utf-8"), str(path)), Lock)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}") from None


def lock_text(lock: Lock, comment: str = "") -> str:
    """A lock as it stands in its file: tables by name and keys sorted, below lines of comment."""
    tables = ["\n".join(lines) for kind in lock.__struct_fields__ for lines in _tables([kind], getattr(lock, kind))]
    return "\n\n".join(filter(None, [comment, *tables])) + "\n"


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock; the comment at the top of a file that is there stays. Raises DataError."""
    try:
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        comment = "\n".join(itertools.takewhile(lambda line: line.startswith("#"), lines))
        path.write_text(lock_text(lock, comment), "utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error})") from None


def _tables(above: list[str], entries: Mapping[str, KnownFile | KnownDataset]) -> Iterator[list[str]]:
    """The lines of each table, those of a dataset's files behind its own."""
    for name, facts in sorted(entries.items()):
        path = [*above, _text(name)]
        values = {field: getattr(facts, field) for field in sorted(facts.__struct_fields__) if field != FILES}
        yield [f"[{'.'.join(path)}]", *(f"{field} = {_text(value)}" for field, value in values.items() if value)]
        if isinstance(facts, KnownDataset):
            yield from _tables([*path, FILES], facts.files)


def _text(value: str | int | bool) -> str:
    """A value of TOML, which writes texts, integers and flags as JSON does."""
    return msgspec.json.encode(value).decode()


def known_dataset(place: HubPlace) -> KnownDataset:
    """What is known of a dataset by the lock."""
    return source_lock().hub.get(place.repo) or KnownDataset()


def locked_commit(place: HubPlace) -> str:
    """The commit at which a dataset is read: its own, else the lock's; empty where none is known."""
    return place.revision or known_dataset(place).commit


def known_file(file: SourceFile) -> KnownFile:
    """What is known of a file: by the lock, else by its entry."""
    locked = source_lock().files.get(file.url)
    return locked or KnownFile(size=file.size, sha256=file.sha256, md5=file.md5)
