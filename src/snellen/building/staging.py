"""A staging folder that replaces its target completely or not at all, even when several builds race."""

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
from snellen.common.paths import slug
from snellen.errors import DataError

EARLIER = "-earlier"
MOST_RACES = 100


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that replaces it when the block succeeds; otherwise `target` stays as it was.

    Leftovers of killed builds of `target` are removed first. When several builds of the same benchmark race, the
    first to finish takes the place and the others discard their identical results. Raises DataError for a place
    that cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _clean(target)
        folder = Path(tempfile.mkdtemp(prefix=_prefix(target), dir=target.parent))
        before = _identity(target)
    except OSError as error:
        raise DataError(
            f"cannot build in {target.parent}: {error.strerror}; set SNELLEN_HOME or choose a folder"
        ) from None
    try:
        yield folder
        folder.chmod(0o755)
        if _identity(target) == before or not _is_same_build(target, folder):
            _replace(target, folder)
    except OSError as error:
        raise DataError(f"cannot write {target}: {error.strerror}; free some space or choose another folder") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prefix(target: Path) -> str:
    """The prefix names the owner: its process id and host."""
    return f".{target.name}-{os.getpid()}@{slug(platform.node())}-"


def _clean(target: Path) -> None:
    """Remove leftovers of dead processes on this host, and put back earlier builds that they had moved aside."""
    owned = re.compile(rf"\.{re.escape(target.name)}-(\d+)@{re.escape(slug(platform.node()))}-\w+({EARLIER}\d+)?")
    for path in sorted(target.parent.glob(f".{glob.escape(target.name)}-*")):
        match = owned.fullmatch(path.name)
        if match is None or _lives(int(match[1])):
            continue
        if match[2] and not target.exists():
            # Killed between moving the earlier build aside and putting the new one in place.
            with suppress(FileNotFoundError):
                path.rename(target)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _identity(target: Path) -> tuple[int, int] | None:
    """Device and inode of the folder at `target`, whatever its content; None when there is none."""
    try:
        stat = target.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _is_same_build(target: Path, folder: Path) -> bool:
    try:
        return (target / MANIFEST).read_bytes() == (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        return False


def _replace(target: Path, folder: Path) -> None:
    """Put `folder` in the place of `target`; the earlier build is deleted only once the new one is there."""
    earlier: list[Path] = []
    try:
        while not _renamed(folder, target) and not _exchanged(folder, target):
            aside = folder.with_name(f"{folder.name}{EARLIER}{len(earlier)}")
            # Another build may just have moved it aside to put its own there.
            with suppress(FileNotFoundError):
                target.rename(aside)
                earlier.append(aside)
            if len(earlier) > MOST_RACES:
                raise OSError(errno.EBUSY, "other builds of it end all the time")
    except OSError:
        if earlier and not target.exists():
            earlier.pop().rename(target)
        raise
    finally:
        for folder_aside in earlier:
            shutil.rmtree(folder_aside, ignore_errors=True)


def _exchanged(folder: Path, target: Path) -> bool:
    """Swap the two atomically, so that the place is never empty; False where the system cannot."""
    import ctypes

    try:
        swap = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # only Linux has it
        return False
    current_folder, exchange = -100, 2
    return bool(swap(current_folder, os.fsencode(folder), current_folder, os.fsencode(target), exchange) == 0)


def _renamed(folder: Path, target: Path) -> bool:
    """Rename `folder` to `target`; False when a build is already there."""
    try:
        folder.rename(target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
