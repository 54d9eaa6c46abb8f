"""Archives, unpacked once beside the data; nothing in them can stand outside their folder."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from snellen.building.staging import staging_folder
from snellen.catalogue.places import fits
from snellen.errors import DataError

_FAULTS = (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, zlib.error, RuntimeError)


def unpacked(archive: Path, keep: Sequence[str], to: Path) -> Path:
    """The folder with what an archive holds, of it what fits one of the patterns `keep`; all when there are none.

    It lies below `to`, whole or not at all. Raises DataError for a file that is no archive, or broken.
    """
    folder = to / folder_name(archive, keep)
    if folder.is_dir():
        return folder
    with staging_folder(folder) as staging:
        try:
            _unpack(archive, staging, lambda name: not keep or fits(name, keep))
        except _FAULTS as error:
            raise DataError(f"{archive} cannot be unpacked ({error}); remove it, and it is fetched again") from None
        if keep and not any(staging.iterdir()):
            raise DataError(f"{archive} holds nothing that is called {', '.join(keep)}; is it the right file?")
    return folder


def folder_name(archive: Path, keep: Sequence[str]) -> str:
    """What the folder is called to which an archive, or what is kept of it, is unpacked."""
    chosen = hashlib.sha256("\0".join(keep).encode()).hexdigest()[:8] if keep else "all"
    return f"{archive.parent.name}-{archive.name}-{chosen}"


def _unpack(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as content:
            content.extractall(folder, [name for name in content.namelist() if wanted(name)])  # noqa: S202
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive) as content:
            members = [one for one in content if wanted(one.name.removeprefix("./"))]
            content.extractall(folder, members, filter="data")
    elif archive.suffix == ".gz":
        with gzip.open(archive) as packed, (folder / archive.stem).open("wb") as file:
            shutil.copyfileobj(packed, file)
    else:
        raise DataError(f"{archive} is no archive that is known here (zip, tar, gz)")
