"""The standard streams of a command, which may be closed, full, or without a reader."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any


class OutputError(OSError):
    """Standard output takes no more."""

    def __init__(self, cause: OSError) -> None:
        # Of another number than the cause: click and rich end a command with exit code 1 for a broken pipe.
        super().__init__(errno.EIO, cause.strerror)
        self.has_reader = not isinstance(cause, BrokenPipeError)


class _Output(io.TextIOWrapper):
    """Standard output, whose faults can be told from those of files."""

    def write(self, text: str, /) -> int:
        """Write text; an OSError becomes an OutputError, which is told apart from errors of other files."""
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(error) from None

    def flush(self) -> None:
        """Write what is buffered, with the same errors as `write`."""
        try:
            super().flush()
        except OSError as error:
            raise OutputError(error) from None


class _Messages(io.TextIOWrapper):
    """Standard error: a message that cannot be written ends nothing."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def guard_streams() -> None:
    """Put streams in place whose faults `main` can tell, also where a stream was closed.

    What is shown may hold half of a surrogate pair, or letters that the terminal's encoding lacks: they are replaced.
    """
    # A descriptor that is closed would be taken by the next file that is opened. What is opened here takes the lowest
    # that is free; nothing can be written to one that is open for reading.
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = _Output(**_settings(sys.stdout, 1), errors="replace")
    sys.stderr = _Messages(**_settings(sys.stderr, 2), errors="backslashreplace")


def _settings(stream: Any, descriptor: int) -> dict[str, Any]:
    """The buffer of a stream and how it is written."""
    if stream is None:
        return {"buffer": os.fdopen(descriptor, "wb", closefd=False), "encoding": "utf-8"}
    encoding, is_by_line = stream.encoding, stream.line_buffering
    return {"buffer": stream.detach(), "encoding": encoding, "line_buffering": is_by_line}


def drop_output() -> None:
    """Have nothing more written to standard output, so that Python does not try again when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
