"""Lock a run folder, so that one command at a time writes into it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from snellen.callers import setting
from snellen.errors import StoreError
from snellen.formats.whole_files import unwritable

LOCK = ".lock"


def write_elsewhere() -> str:
    """Return what to do about a folder of a run that cannot be written."""
    return f"choose a folder you can write with {setting('runs')}"


@contextmanager
def locked_run(folder: Path) -> Iterator[int]:
    """Hold a run folder for one command, creating it if it does not exist.

    Yields:
        The file descriptor of the lock. Worker processes inherit it, so the folder is held until the last of them has
        ended.

    Raises:
        StoreError: Another command holds the folder, or it cannot be written.
    """
    file = _open_lock(folder, LOCK)
    lock_file(file, folder)
    try:
        yield file
    finally:
        os.close(file)


@contextmanager
def locked_share(folder: Path, shares: int) -> Iterator[None]:
    """Hold a run folder together with other commands that run a share of it.

    Args:
        folder: The folder of the run.
        shares: The number of shares.

    Raises:
        StoreError: Another command holds the folder alone, or with another number of shares.
    """
    own_name = f"{LOCK}-{shares}"
    with ExitStack() as locks:
        for name in (LOCK, own_name):
            file = _open_lock(folder, name)
            lock_file(file, folder, shared=True)
            locks.callback(os.close, file)
        # Of two commands with different numbers of shares, the second to lock sees the lock of the first.
        for lock in folder.glob(f"{LOCK}-*"):
            if lock.name != own_name:
                file = _open_lock(folder, lock.name)
                lock_file(file, folder)
                os.close(file)
        yield


def _open_lock(folder: Path, name: str) -> int:
    """Open a lock file in a folder, creating both if needed; returns its file descriptor."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(folder, error, write_elsewhere()) from None


def lock_file(file: int, folder: Path, *, shared: bool = False) -> None:
    """Lock an open file of a run folder, or close it.

    Args:
        file: The file descriptor.
        folder: Named in the error.
        shared: Whether others may hold a shared lock at the same time.

    Raises:
        StoreError: Another process holds the lock.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise StoreError(
            f"{folder} is in use by another run; wait for it, or choose another {setting('name')}"
        ) from None


@contextmanager
def held_while_scored(folder: Path) -> Iterator[None]:
    """Hold a run folder while the command that ran it also scores it, so that viewers see that it continues.

    If the folder cannot be held, the body runs without the lock, because scoring does not disturb other commands.
    """
    with ExitStack() as locks:
        with suppress(StoreError):
            locks.enter_context(locked_run(folder))
        yield


def is_held(folder: Path) -> bool:
    """Return whether a command works on a run folder now. This writes nothing and does not disturb the command."""
    lock = folder / LOCK
    try:
        # Network file systems lock only files that are open for writing.
        file = os.open(lock, os.O_RDONLY if is_read_only(lock) else os.O_RDWR)
    except OSError:  # never held, or copied without its lock
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a network file system, and a folder of another user
        return False
    finally:
        os.close(file)
    return False


def is_read_only(path: Path) -> bool:
    """Return whether this user cannot write a run's folder, or a file in it."""
    effective = os.access in os.supports_effective_ids
    return not os.access(path, os.W_OK, effective_ids=effective)


TAIL_BLOCK = 1 << 16
"""Bytes that are read at a time to find the last line break."""


def cut_torn_line(file: int) -> None:
    """Cut off an incomplete last line of a file, which a killed process may have left.

    Args:
        file: The descriptor of the file.
    """
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        start = max(end - TAIL_BLOCK, 0)
        newline = os.pread(file, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(file, end)
