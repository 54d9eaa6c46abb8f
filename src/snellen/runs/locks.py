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
    """Return the advice for a user whose run cannot be written to its folder, as a part of an error message."""
    return f"choose a folder you can write with {setting('runs')}"


@contextmanager
def locked_run(folder: Path) -> Iterator[int]:
    """Lock a run folder for one command inside the block. The folder is created if it does not exist.

    Yields:
        The descriptor of the lock file. Worker processes inherit it, so the folder stays locked until the last of them
        has ended.

    Raises:
        StoreError: Another command has locked the folder, or it cannot be written.
    """
    descriptor = _open_lock(folder, LOCK)
    lock_file(descriptor, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def locked_share(folder: Path, shares: int) -> Iterator[None]:
    """Lock a run folder in such a way that commands with other shares of the same run can lock it too.

    Args:
        folder: The folder of the run.
        shares: The number of shares into which the run is divided.

    Raises:
        StoreError: Another command has locked the folder alone, or for another number of shares.
    """
    own_name = f"{LOCK}-{shares}"
    with ExitStack() as locks:
        for name in (LOCK, own_name):
            descriptor = _open_lock(folder, name)
            lock_file(descriptor, folder, shared=True)
            locks.callback(os.close, descriptor)
        # The name of a lock contains the number of shares. Locking those of other numbers alone, for a moment, raises
        # an error if another command has locked one of them.
        for path in folder.glob(f"{LOCK}-*"):
            if path.name != own_name:
                descriptor = _open_lock(folder, path.name)
                lock_file(descriptor, folder)
                os.close(descriptor)
        yield


def _open_lock(folder: Path, name: str) -> int:
    """Open a lock file in a folder, and return its descriptor. Both are created if they do not exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(folder, error, write_elsewhere()) from None


def lock_file(descriptor: int, folder: Path, *, shared: bool = False) -> None:
    """Lock an open file of a run folder. If that fails, the file is closed.

    Args:
        descriptor: The descriptor of the file.
        folder: The folder, which the message of the error names.
        shared: Whether other processes may hold a shared lock at the same time.

    Raises:
        StoreError: Another process holds the lock.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(
            f"{folder} is in use by another run; wait for it, or choose another {setting('name')}"
        ) from None


@contextmanager
def locked_while_scoring(folder: Path) -> Iterator[None]:
    """Lock a run folder while the command that ran it also scores it, so that viewers see that the command continues.

    If the folder cannot be locked, the block runs without the lock, because scoring does not disturb other commands.
    """
    with ExitStack() as locks:
        with suppress(StoreError):
            locks.enter_context(locked_run(folder))
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a command works on a run folder now. This writes nothing and does not disturb the command."""
    path = folder / LOCK
    # Network file systems lock only files that are open for writing.
    mode = os.O_RDONLY if is_read_only(path) else os.O_RDWR
    try:
        descriptor = os.open(path, mode)
    except OSError:  # never locked, or copied without its lock
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a network file system, and a folder of another user
        return False
    finally:
        os.close(descriptor)
    return False


def is_read_only(path: Path) -> bool:
    """Return whether this user cannot write a run's folder, or a file in it."""
    supports_effective_ids = os.access in os.supports_effective_ids
    return not os.access(path, os.W_OK, effective_ids=supports_effective_ids)


TAIL_BLOCK = 1 << 16
"""Bytes that are read at a time to find the last line break."""


def cut_torn_line(descriptor: int) -> None:
    """Cut off an incomplete last line of a file, which a killed process may have left.

    The file is read in blocks from its end, until a line break is found.

    Args:
        descriptor: The descriptor of the file.
    """
    size = os.fstat(descriptor).st_size
    end_of_lines = size
    while end_of_lines > 0:
        block_start = max(end_of_lines - TAIL_BLOCK, 0)
        block = os.pread(descriptor, end_of_lines - block_start, block_start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            end_of_lines = block_start + newline + 1
            break
        end_of_lines = block_start
    if end_of_lines < size:
        os.ftruncate(descriptor, end_of_lines)
