"""Replace a folder completely or not at all, even if several processes build it."""

from __future__ import annotations

import errno
import glob
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from snellen.building.benchmark import MANIFEST
from snellen.common.foreign import read_file
from snellen.common.paths import slug
from snellen.errors import DataError

EARLIER_SUFFIX = "-earlier"
"""Ending of the name of an earlier build that was moved aside; a number follows it."""
MAX_ATTEMPTS = 100
"""How often an earlier build is moved aside while other processes put theirs in its place."""
AT_FDCWD = -100
"""Argument of `renameat2`: paths are relative to the current folder."""
RENAME_EXCHANGE = 2
"""Argument of `renameat2`: swap the two paths."""


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """Create a folder that replaces `target` if the block succeeds; otherwise `target` stays as it was.

    Leftovers of killed builds of `target` are removed first. If several processes build the same benchmark, the first
    to finish wins, and the others discard their identical results.

    Raises:
        DataError: The folder of `target` cannot be written.

    Examples:
        >>> with staging_folder(Path("made")) as folder:
        ...     _ = (folder / "benchmark.json").write_text("{}")
        >>> [path.name for path in Path("made").iterdir()]
        ['benchmark.json']
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        folder = Path(tempfile.mkdtemp(prefix=_staging_prefix(target), dir=target.parent))
        before = _identity(target)
    except OSError as error:
        raise DataError(
            f"cannot build in {target.parent}: {error.strerror}; set SNELLEN_HOME or choose a folder"
        ) from None
    try:
        yield folder
        folder.chmod(0o755)
        # If another process has replaced `target` meanwhile by the same build, nothing is left to do.
        if _identity(target) == before or not _is_same_build(target, folder):
            _replace(target, folder)
    except OSError as error:
        raise DataError(
            f"cannot write {target}: {error.strerror}; free some space or choose another folder"
        ) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _staging_prefix(target: Path) -> str:
    """Return the beginning of a staging folder's name, which names the process and host that own it: `.mine-412@pc-`."""
    host = slug(platform.node())
    return f".{target.name}-{os.getpid()}@{host}-"


def _remove_leftovers(target: Path) -> None:
    """Remove temporary folders that crashed builds on this host left next to a folder.

    If a build crashed after it had moved the earlier benchmark aside, that benchmark is moved back.

    Args:
        target: The folder of the benchmark.
    """
    name = re.escape(target.name)
    host = re.escape(slug(platform.node()))
    of_this_host = re.compile(rf"\.{name}-(\d+)@{host}-\w+({EARLIER_SUFFIX}\d+)?")
    for path in sorted(target.parent.glob(f".{glob.escape(target.name)}-*")):
        match = of_this_host.fullmatch(path.name)
        if match is None:
            continue
        process = int(match[1])
        if _is_alive(process):
            continue
        is_earlier_build = match[2] is not None
        if is_earlier_build and not target.exists():
            # Killed between moving the earlier build aside and putting the new one in place.
            with suppress(FileNotFoundError):
                path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    """Return whether a process of this number is running on this host."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _identity(target: Path) -> tuple[int, int] | None:
    """Return device and inode of the folder at `target`, or None if there is none."""
    try:
        stat = target.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _is_same_build(target: Path, folder: Path) -> bool:
    """Return whether two folders have benchmarks with the same manifest, and so with the same content."""
    try:
        return read_file(target / MANIFEST) == read_file(folder / MANIFEST)
    except FileNotFoundError:
        return False


def _replace(target: Path, folder: Path) -> None:
    """Move `folder` to `target`. An earlier build at `target` is deleted only once the new one is there.

    If possible, the two folders are swapped. Otherwise the earlier build is moved aside first, and moved back if the
    new one cannot take its place.

    Raises:
        OSError: A folder cannot be moved, or other processes keep putting their builds at `target`.
    """
    earlier: list[Path] = []
    try:
        while not _rename(folder, target) and not _exchange(folder, target):
            aside = folder.with_name(f"{folder.name}{EARLIER_SUFFIX}{len(earlier)}")
            # Another build may just have moved `target` aside to put its own there.
            with suppress(FileNotFoundError):
                target.rename(aside)
                earlier.append(aside)
            if len(earlier) > MAX_ATTEMPTS:
                raise OSError(errno.EBUSY, "other builds of it keep replacing it")
    except OSError:
        if earlier and not target.exists():
            earlier.pop().rename(target)
        raise
    finally:
        for folder_aside in earlier:
            shutil.rmtree(folder_aside, ignore_errors=True)


def _exchange(folder: Path, target: Path) -> bool:
    """Swap two folders atomically, so that `target` always exists. Returns False if the system cannot."""
    import ctypes

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # only Linux has it
        return False
    error = swap(AT_FDCWD, os.fsencode(folder), AT_FDCWD, os.fsencode(target), RENAME_EXCHANGE)
    return bool(error == 0)


def _rename(folder: Path, target: Path) -> bool:
    """Rename `folder` to `target`. Returns False if a build is already there."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
