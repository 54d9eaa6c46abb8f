"""Extract archives (zip, tar, gz) within limits."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

from snellen.building.staging import staging_folder
from snellen.catalogue.places import fits
from snellen.common.foreign import LimitError, effective_limit, format_bytes, open_file
from snellen.errors import DataError
from snellen.fetching.download import BLOCK_BYTES, ROOM_EVERY, check_room

UNPACKED_BYTES = 10e9
"""Bytes that any archive may extract to, however small it is."""
UNPACKED_TIMES = 100
"""What an archive may extract to, in multiples of its own size. JSON shrinks to a thirtieth, zeros to a thousandth."""
MAX_MEMBERS = 5_000_000
"""Most files in an archive."""

_DAMAGES = (
    EOFError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    RuntimeError,  # zipfile raises it for an encrypted member
)


def extract_archive(archive: Path, keep: Sequence[str], to: Path) -> Path:
    """Extract an archive into its own folder inside `to`, either completely or not at all.

    An archive that is already extracted is not extracted again.

    Args:
        archive: A .zip, .tar (compressed or not) or .gz file.
        keep: Patterns of the names of files to extract from it; if empty, all are extracted.
        to: The folder with a folder for each archive.

    Returns:
        The folder with the extracted files.

    Raises:
        DataError: The file is not an archive, is damaged, contains none of the files, or is too
            large for the limits or the disk.
    """
    folder = to / folder_name(archive, keep)
    if folder.is_dir():
        return folder
    with staging_folder(folder) as staging:
        try:
            _extract(archive, staging, lambda name: not keep or fits(name, keep))
        except LimitError as error:
            raise DataError(error.strerror) from None
        except _DAMAGES as error:
            raise DataError(
                f"cannot unpack {archive} ({error}); remove the file and try again to download a new copy"
            ) from None
        if keep and not any(staging.iterdir()):
            raise DataError(
                f"no member of {archive} matches {', '.join(keep)}; check that it is the right archive"
            )
    return folder


def folder_name(archive: Path, keep: Sequence[str]) -> str:
    """Return the name of the folder that an archive is extracted to.

    It consists of the folder of the archive (which is named by its checksum), the archive's name
    and a digest of the patterns. So different archives, and different selections of one, have
    different folders.

    Args:
        archive: The archive.
        keep: Patterns of the files to extract; empty for all.
    """
    selection = "all"
    if keep:
        selection = hashlib.sha256("\0".join(keep).encode()).hexdigest()[:8]
    return f"{archive.parent.name}-{archive.name}-{selection}"


def _extract(archive: Path, folder: Path, is_kept: Callable[[str], bool]) -> None:
    """Extract the files of an archive whose names `is_kept` accepts.

    A .gz file that is not a compressed .tar contains a single file, which is always extracted.

    Raises:
        LimitError: The files are too many or too large.
        DataError: The disk has no room, or the archive is of another format.
    """
    with open_file(archive) as file:
        size = os.fstat(file.fileno()).st_size
        max_bytes = max(UNPACKED_BYTES, UNPACKED_TIMES * size)
        check_limits = partial(_within_limits, archive, folder, max_bytes)

        if zipfile.is_zipfile(file):
            _extract_zip(file, folder, is_kept, check_limits)
            return
        file.seek(0)
        if tarfile.is_tarfile(file):
            file.seek(0)
            _extract_tar(file, folder, is_kept, check_limits)
            return
        file.seek(0)
        if archive.suffix != ".gz":
            raise DataError(f"{archive} is not an archive of a supported format (zip, tar, gz)")
        with gzip.open(file) as packed, (folder / archive.stem).open("wb") as target:
            blocks = iter(lambda: packed.read(BLOCK_BYTES), b"")
            blocks_with_sizes = ((block, len(block)) for block in blocks)
            target.writelines(check_limits(blocks_with_sizes))


Part = TypeVar("Part")
CheckLimits = Callable[[Iterable[tuple[Part, int]]], Iterator[Part]]


def _extract_zip(
    file: BinaryIO,
    folder: Path,
    is_kept: Callable[[str], bool],
    check_limits: CheckLimits[zipfile.ZipInfo],
) -> None:
    """Extract files from a zip archive.

    Args:
        file: The archive.
        folder: The folder to extract to.
        is_kept: Takes the name of a file and returns whether to extract it.
        check_limits: Takes files with their sizes and yields the files, until their total size
            exceeds the limits; then it raises an error.
    """
    with zipfile.ZipFile(file) as content:
        # zipfile reads no more of a member than the size that its directory declares.
        members_with_sizes = [(member, member.file_size) for member in content.infolist()]
        checked = check_limits(members_with_sizes)
        kept = [member for member in checked if is_kept(member.filename)]
        content.extractall(folder, kept)  # noqa: S202


def _extract_tar(
    file: BinaryIO,
    folder: Path,
    is_kept: Callable[[str], bool],
    check_limits: CheckLimits[tarfile.TarInfo],
) -> None:
    """Extract files from a tar archive.

    Args:
        file: The archive.
        folder: The folder to extract to.
        is_kept: Takes the name of a file and returns whether to extract it.
        check_limits: Takes files with their sizes and yields the files, until their total size
            exceeds the limits; then it raises an error.
    """
    with tarfile.open(fileobj=file) as content:
        # Members are checked one by one during extraction, because listing a compressed tar decompresses all of it.
        members_with_sizes = ((member, member.size) for member in content)
        checked = check_limits(members_with_sizes)
        kept = (member for member in checked if is_kept(member.name.removeprefix("./")))
        content.extractall(folder, kept, filter="data")


def _within_limits(
    archive: Path, folder: Path, max_bytes: float, parts: Iterable[tuple[Part, int]]
) -> Iterator[Part]:
    """Yield the parts of an archive (files or blocks of bytes), and raise an error once they are
    too many or too large.

    Args:
        archive: The archive, for error messages.
        folder: The folder to extract to.
        max_bytes: Maximum bytes of all parts together.
        parts: Each part with its size in bytes.

    Raises:
        LimitError: There are more bytes or parts than allowed.
        DataError: The disk has too little room.
    """
    byte_limit = effective_limit(max_bytes)
    part_limit = effective_limit(MAX_MEMBERS)
    total = 0
    total_at_last_check = 0
    for number, (part, size) in enumerate(parts, 1):
        total += size
        if total > byte_limit:
            raise LimitError(
                f"the uncompressed size of {archive} is more than {format_bytes(byte_limit)}"
            )
        if number > part_limit:
            raise LimitError(f"{archive} contains more than {part_limit:,.0f} files")
        if total - total_at_last_check > ROOM_EVERY:
            check_room(folder, size, str(archive))
            total_at_last_check = total
        yield part
