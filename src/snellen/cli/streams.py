"""The standard streams of a command, which may be closed, full, or without a reader."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any


class OutputError(OSError):
    """Standard output cannot be written, for example because the disk is full or the reader has ended."""

    def __init__(self, cause: OSError) -> None:
        # Not the error number of the cause: click and rich end a command with exit code 1 for a broken pipe.
        super().__init__(errno.EIO, cause.strerror)
        self.has_reader = not isinstance(cause, BrokenPipeError)


class _Output(io.TextIOWrapper):
    """Standard output whose write errors can be told from errors of other files, because they are `OutputError`."""

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
    """Standard error. A message that cannot be written is ignored, so that the command continues."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def guard_streams() -> None:
    """Replace the standard streams by others whose errors `main` can recognise, even if the shell has closed one of
    them.

    Characters that cannot be encoded, such as an unpaired surrogate, are replaced in the output.
    """
    # The next file that is opened would get the descriptor of a closed stream. Opening the null device here takes the
    # lowest free descriptor. That of standard output is opened for reading, so that writing to it fails.
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
    """Return the arguments for a new text stream that takes the place of a standard stream.

    Args:
        stream: The standard stream, which must not be used any more; None if it is closed.
        descriptor: Its file descriptor.
    """
    if stream is None:
        return {"buffer": os.fdopen(descriptor, "wb", closefd=False), "encoding": "utf-8"}
    encoding = stream.encoding
    line_buffering = stream.line_buffering
    return {"buffer": stream.detach(), "encoding": encoding, "line_buffering": line_buffering}


def drop_output() -> None:
    """Redirect standard output to the null device, so that Python does not try to write again when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
