"""Files that appear complete or not at all, in the form that their suffix names."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from snellen.callers import for_caller
from snellen.errors import DataError, StoreError


def write_atomically(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file so that it appears complete or not at all, and stays after a loss of power. Raises StoreError.

    Content in parts is written part by part, so that it need not be in memory as a whole.

    Examples:
        >>> write_atomically(Path("note.txt"), b"wren")
        >>> Path("note.txt").read_text()
        'wren'
    """
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise unwritable(path.parent, error) from None


Thing = TypeVar("Thing")


def write_in_form(
    path: Path,
    what: str,
    thing: Thing,
    forms: Mapping[str, Callable[[Thing], str | bytes]],
    advice: str = "",
) -> Path:
    """Write something to a file in the format that the file's suffix names, and return the path.

    Args:
        path: The file.
        what: What is written, for an error message, such as `a list of birds`.
        thing: What is written.
        forms: For each supported suffix, a function that returns the content of the file.
        advice: What to do if the suffix is not supported, for the error message.

    Raises:
        DataError: The suffix is not supported.
        StoreError: The file cannot be written.

    Examples:
        >>> forms = {".txt": lambda birds: "\\n".join(birds)}
        >>> write_in_form(Path("birds.txt"), "a list of birds", ["wren", "robin"], forms).name
        'birds.txt'
    """
    form = forms.get(path.suffix.lower())
    if form is None:
        advice = advice or "choose one of these suffixes"
        raise DataError(f"{path}: {what} is written as one of {', '.join(forms)}; {advice}")
    content = form(thing)
    # A reply may hold half of a surrogate pair, which cannot be encoded.
    write_atomically(
        path, content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    )
    return path


def sync_folder(folder: Path) -> None:
    """Make sure that new files in a folder are still there after a loss of power."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def unwritable(
    folder: Path, error: OSError, way_out: str = "choose a folder you can write"
) -> StoreError:
    """Return the error for a folder that cannot be written to.

    A full disk gets a message of its own.

    Args:
        folder: The folder.
        error: The error of the operating system.
        way_out: What the user can do, for the message.
    """
    if error.errno == errno.ENOSPC:
        again = for_caller("run the same command", "repeat the call")
        return StoreError(f"{folder}: the disk is full; free some space, then {again} to go on")
    return StoreError(f"{folder}: cannot write ({error.strerror}); {way_out}")
