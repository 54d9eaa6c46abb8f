"""Read untrusted bytes within limits, and hide secrets.

Untrusted are all files that Snellen did not just write itself: those that users or others supply, and those that are
fetched. All code reads them by a function of this module. Addresses are opened by `common.addresses`, images decoded by
`common.decoding`, and texts made safe to show by `formats.shown_text`. `tests/foreign_door.py`, a part of `make style`,
looks for code that does not use them. Faults of files are OSErrors whose `strerror` is a phrase for users, so that a
caller needs one `except OSError` to add the name of the file.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import quote

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

# --- limits -----------------------------------------------------------------------------------------------------------

LIMITS = "SNELLEN_LIMITS"
"""The environment variable with the factor by which all limits of this module are raised."""

SETTINGS_BYTES = 64 << 20
"""Most bytes of a file of settings or of a manifest."""
TABLE_BYTES = 8 << 30
"""Most bytes of a table or a list that is unpacked or held in memory as a whole."""
IMAGE_BYTES = 256 << 20
"""Most bytes of an image file."""
LINE_BYTES = 256 << 20
"""Most bytes of one line of a file of records."""


class LimitError(OSError):
    """An error: something has more bytes, or takes more seconds, than are allowed. `strerror` says what to do."""

    def __init__(self, fault: str) -> None:
        super().__init__(
            errno.EFBIG,
            f"{fault}; if you trust the file, set {LIMITS}=10 to raise all limits tenfold",
        )


class NotAFileError(OSError):
    """A path that is a pipe, a device, a socket or a folder, where a file should be."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file")


def effective_limit(limit: float) -> float:
    """Return a limit multiplied by the factor that the user set in $SNELLEN_LIMITS.

    A factor that is not a number of at least 1 is ignored.
    """
    try:
        factor = float(os.environ.get(LIMITS, "1"))
    except ValueError:
        factor = 1.0
    is_valid = 1 <= factor < float("inf")
    return limit * factor if is_valid else limit


def raise_limits(factor: float) -> None:
    """Multiply all limits by a factor, in this process and those that it starts."""
    os.environ[LIMITS] = f"{factor:g}"


def format_bytes(number: float) -> str:
    """Return a number of bytes for a reader, such as `1.5 GB`."""
    for unit in ("B", "KB"):
        if number < 1000:
            return f"{number:,.0f} {unit}"
        number /= 1000
    for unit in ("MB", "GB"):
        if number < 1000:
            return f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


# --- files ------------------------------------------------------------------------------------------------------------

_NOT_FILES: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_file(path: Path, *, buffering: int = -1) -> io.BufferedReader:
    """Open a regular file for reading bytes.

    The check is on the opened file, so the path cannot change in between. A link to a device or a pipe is rejected, and
    a pipe without a writer does not block.

    Raises:
        OSError: The file cannot be opened; NotAFileError for anything but a regular file.

    Examples:
        >>> _ = Path("note.txt").write_text("wren")
        >>> with open_file(Path("note.txt")) as file:
        ...     print(file.read())
        b'wren'
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what Linux says of a socket
            raise NotAFileError("a socket") from None
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotAFileError(_describe_kind(mode))
        return cast("io.BufferedReader", os.fdopen(descriptor, "rb", buffering))
    except BaseException:
        os.close(descriptor)
        raise


def _describe_kind(mode: int) -> str:
    """Describe what a path is that is not a regular file, such as `a pipe`, from its mode as `os.fstat` reports it."""
    for is_of_kind, description in _NOT_FILES:
        if is_of_kind(mode):
            return description
    return "a special file"


def regular_file(path: Path) -> Path:
    """Return a path unchanged if it is that of a regular file. Raises OSError, as `open_file` does, if it is not.

    This is for files that a library opens by itself.

    Examples:
        >>> _ = Path("birds.csv").write_text("wren")
        >>> regular_file(Path("birds.csv")).name
        'birds.csv'
    """
    open_file(path).close()
    return path


def read_file(path: Path, most: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError, LimitError for a larger one.

    Examples:
        >>> _ = Path("note.txt").write_text("wren")
        >>> read_file(Path("note.txt"))
        b'wren'
    """
    limit = int(effective_limit(most))
    content = bytearray()
    with open_file(path) as file:
        # Reading allocates as many bytes as are requested, so the size of the file is requested. A file may have grown
        # since, or may not report its size, so reading continues until no byte comes.
        size = os.fstat(file.fileno()).st_size
        while len(content) <= limit and size <= limit:
            n_expected = size + 1 - len(content)
            block = file.read(max(n_expected, 1 << 16))
            if not block:
                return bytes(content)
            content += block
    raise LimitError(f"it has more than {format_bytes(limit)}")


def read_text(path: Path | Traversable, most: int = SETTINGS_BYTES) -> str:
    """Return the text of a file, or of a file in a packed package, of at most `most` bytes.

    The encoding is UTF-8, or that of its byte order mark, which is left out.

    Raises:
        OSError: The file cannot be read.
        UnicodeDecodeError: It is in another encoding.

    Examples:
        >>> _ = Path("note.txt").write_text("wren")
        >>> read_text(Path("note.txt"))
        'wren'
    """
    content = read_file(path, most) if isinstance(path, Path) else path.read_bytes()
    return decode_text(content)


def decode_text(content: bytes) -> str:
    """Decode text in UTF-8, or in UTF-16 if it begins with a byte order mark of UTF-16. The mark is left out.

    Raises:
        UnicodeDecodeError: The text is in another encoding.
    """
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def lines_of(file: IO[bytes] | io.BufferedIOBase, longest: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of an open file. Raises LimitError if a line is longer than `longest` bytes.

    Examples:
        >>> import io
        >>> list(lines_of(io.BytesIO(b"wren\\nrobin\\n")))
        [b'wren\\n', b'robin\\n']
    """
    limit = int(effective_limit(longest))
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise LimitError(f"a line of it has more than {format_bytes(limit)}")
        yield line


def open_gzip(file: BinaryIO, most: int = TABLE_BYTES) -> BinaryIO:
    """Return an open file with the uncompressed content of a gzip file.

    Args:
        file: The gzip file.
        most: Maximum number of bytes to read from the result. Reading more raises LimitError. Reading a damaged file
            raises EOFError, OSError or zlib.error.
    """
    content = _GzipContent(file, int(effective_limit(most)))
    return cast("BinaryIO", io.BufferedReader(content, 1 << 17))


class _GzipContent(io.RawIOBase):
    """The uncompressed content of a gzip file, of which only a limited number of bytes can be read."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        import gzip

        self._content = gzip.GzipFile(fileobj=file, mode="rb")
        self._limit = limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read uncompressed bytes into a buffer. Raises LimitError if there are more in all than the limit allows."""
        block = self._content.read1(len(buffer))
        buffer[: len(block)] = block
        if self._content.tell() > self._limit:
            raise LimitError(f"its uncompressed size is more than {format_bytes(self._limit)}")
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()


# --- limits on what is fetched ----------------------------------------------------------------------------------------


class Allowance:
    """A limit on the bytes and seconds of a download from one address, or of all downloads of a build together.

    It may be shared between threads. The bytes of the block that a thread is reading are counted when it is complete.
    """

    def __init__(self, most: float, seconds: float, what: str, within: Allowance | None = None):
        """Begin to count bytes and seconds.

        Args:
            most: The greatest number of bytes. It is multiplied by the factor that the user set for all limits.
            seconds: The longest time. It is multiplied by the same factor.
            what: What is read, for messages.
            within: A larger allowance, for which the bytes that are counted here also count.
        """
        self.what = what
        self.limit = effective_limit(most)
        self.seconds = effective_limit(seconds)
        self.fault = ""
        """Why the allowance is used up; empty before."""
        self._spent = 0
        self._end = time.monotonic() + self.seconds
        self._within = within

    def remaining_seconds(self) -> float:
        """Return how many seconds are left, also of the allowance that contains this one. Raises LimitError at 0."""
        remaining = self._end - time.monotonic()
        if remaining <= 0:
            raise self._ended(f"{self.what} took more than {self.seconds:,.0f} seconds")
        if self._within is None:
            return remaining
        return min(remaining, self._within.remaining_seconds())

    def spend(self, count: int) -> None:
        """Count bytes, also in the allowance that contains this one. Raises LimitError if there are too many."""
        if self._within is not None:
            self._within.spend(count)
        self._spent += count
        if self._spent > self.limit:
            raise self._ended(f"{self.what} has more than {format_bytes(self.limit)}")

    def _ended(self, fault: str) -> LimitError:
        """Return the error for an allowance that is used up, and remember its message."""
        error = LimitError(fault)
        self.fault = str(error.strerror)
        return error


# --- secrets ----------------------------------------------------------------------------------------------------------

HIDDEN = "***"
MIN_SECRET_CHARACTERS = 8
"""Length of the shortest text that is treated as a secret. The key EMPTY of a local server is not a secret."""
_known_secrets: frozenset[str] = frozenset()


class Secret:
    """A key or password that is never printed: it is `***` as text, in formatted strings, in tracebacks and in pickles.

    Examples:
        >>> key = Secret("sk-1234567890")
        >>> f"{key} {key!r} {without_secrets('refused: sk-1234567890')}"
        '*** Secret(***) refused: ***'
    """

    __slots__ = ("reveal",)

    def __init__(self, value: str) -> None:
        """Keep a value. From now on `without_secrets` hides it, also in the forms that addresses and JSON have."""
        global _known_secrets

        self.reveal = lambda: value
        """Returns the value, to be sent to the server that it is for and to no other."""
        if len(value) >= MIN_SECRET_CHARACTERS and value not in _known_secrets:
            in_path = quote(value)
            in_query = quote(value, safe="")
            in_json = json.dumps(value)[1:-1]
            _known_secrets |= {value, in_path, in_query, in_json}

    def __bool__(self) -> bool:
        return bool(self.reveal())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.reveal() == self.reveal()

    def __hash__(self) -> int:
        return hash(self.reveal())

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __format__(self, form: str) -> str:
        return format(HIDDEN, form)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (HIDDEN,)


def without_secrets(text: str) -> str:
    """Return a text in which each secret that this process knows is replaced by `***`."""
    for secret in sorted(_known_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
