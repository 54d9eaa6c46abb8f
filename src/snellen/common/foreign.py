"""The one door for bytes from elsewhere: files that users or others supply, what is fetched, and secrets.

Whatever reads what Snellen did not just write itself does it by a function of this module; addresses are opened by
`common.addresses`, images decoded by `common.decoding`, texts made safe to show by `formats.shown_text`
(`tests/foreign_door.py`, a part of `make style`, looks for code that goes around them). Faults of files are OSErrors
whose `strerror` is a phrase for people, so that a caller needs one `except OSError` to name the place.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
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
    """More bytes or seconds than are allowed. `strerror` says what to do."""

    def __init__(self, fault: str) -> None:
        super().__init__(
            errno.EFBIG,
            f"{fault}; if you trust the file, set {LIMITS}=10 to raise all limits tenfold",
        )


class NotAFileError(OSError):
    """A path that is a pipe, a device, a socket or a folder, where a file should be."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, f"it is {kind}, not a file")


def raised(limit: float) -> float:
    """Return a limit times the factor in $SNELLEN_LIMITS; a factor that is not a number from 1 up counts as 1."""
    try:
        factor = float(os.environ.get(LIMITS, "1"))
    except ValueError:
        factor = 1.0
    is_usable = 1 <= factor < float("inf")
    return limit * factor if is_usable else limit


def raise_limits(factor: float) -> None:
    """Multiply all limits by a factor, in this process and those that it starts."""
    os.environ[LIMITS] = f"{factor:g}"


def in_bytes(number: float) -> str:
    """Return a number of bytes for people: `1.5 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:,.0f} {unit}" if unit in ("B", "KB") else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


# --- files ------------------------------------------------------------------------------------------------------------

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
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
            [description] = [text for is_kind, text in _KINDS if is_kind(mode)]
            raise NotAFileError(description)
        return cast("io.BufferedReader", os.fdopen(descriptor, "rb", buffering))
    except BaseException:
        os.close(descriptor)
        raise


def regular_file(path: Path) -> Path:
    """Return the path of a file that a library opens by itself. Raises OSError as `open_file` does.

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
    limit = int(raised(most))
    content = bytearray()
    with open_file(path) as file:
        # Memory is taken for what is asked for: the size and no more. A file may have grown since, or tell no size.
        size = os.fstat(file.fileno()).st_size
        while len(content) <= limit and size <= limit:
            block = file.read(max(size + 1 - len(content), 1 << 16))
            if not block:
                return bytes(content)
            content += block
    raise LimitError(f"it has more than {in_bytes(limit)}")


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
    return decoded(content)


def decoded(content: bytes) -> str:
    """Return text in UTF-8, or as its byte order mark says, without the mark. Raises UnicodeDecodeError."""
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if is_utf16 else "utf-8-sig")


def limited(blocks: Iterable[bytes], most: int, what: str) -> Iterator[bytes]:
    """Yield blocks of bytes unchanged. Raises LimitError as soon as there are more than `most` bytes."""
    limit, count = raised(most), 0
    for block in blocks:
        count += len(block)
        if count > limit:
            raise LimitError(f"{what} has more than {in_bytes(limit)}")
        yield block


def lines_of(file: IO[bytes] | io.BufferedIOBase, longest: int = LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of an open file, of which none may be longer than `longest` bytes. Raises LimitError.

    Examples:
        >>> import io
        >>> list(lines_of(io.BytesIO(b"wren\\nrobin\\n")))
        [b'wren\\n', b'robin\\n']
    """
    limit = int(raised(longest))
    while line := file.readline(limit + 1):
        if len(line) > limit:
            raise LimitError(f"a line of it has more than {in_bytes(limit)}")
        yield line


def open_gzip(file: BinaryIO, most: int = TABLE_BYTES) -> BinaryIO:
    """Return the uncompressed content of a gzip file as a file of at most `most` bytes.

    Reading raises LimitError beyond them, and EOFError, OSError or zlib.error for a file that is damaged.
    """
    content = _Unpacked(file, int(raised(most)))
    return cast("BinaryIO", io.BufferedReader(content, 1 << 17))


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, as far as it may be read."""

    def __init__(self, file: BinaryIO, limit: int) -> None:
        import gzip

        self._content = gzip.GzipFile(fileobj=file, mode="rb")
        self._limit = limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        block = self._content.read1(len(buffer))
        buffer[: len(block)] = block
        if self._content.tell() > self._limit:
            raise LimitError(f"its uncompressed size is more than {in_bytes(self._limit)}")
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()


# --- what a fetch may spend -----------------------------------------------------------------------------------------------------


class Allowance:
    """How many bytes and seconds may be spent: on one address, or on all addresses of a build together.

    It is shared between threads; counting is exact up to the block that each of them has in hand.
    """

    def __init__(self, most: float, seconds: float, what: str, within: Allowance | None = None):
        """Begin to count bytes and seconds.

        Args:
            most: The greatest number of bytes, before the factor that a user may set for all limits.
            seconds: The longest time, before the same factor.
            what: What is read, for messages.
            within: A larger allowance for which bytes spent here also count.
        """
        self.what = what
        self.limit = raised(most)
        self.seconds = raised(seconds)
        self.fault = ""
        """Why the allowance is used up; empty before."""
        self._spent = 0
        self._end = time.monotonic() + self.seconds
        self._within = within

    def remaining_seconds(self) -> float:
        """Return how many seconds the allowance still has, and the one that contains it. Raises LimitError at 0."""
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
            raise self._ended(f"{self.what} has more than {in_bytes(self.limit)}")

    def _ended(self, fault: str) -> LimitError:
        error = LimitError(fault)
        self.fault = str(error.strerror)
        return error


# --- secrets ----------------------------------------------------------------------------------------------------------

HIDDEN = "***"
LEAST_SECRET = 8
"""Length of the shortest text that is treated as a secret: the EMPTY of a local server is none."""
_known: frozenset[str] = frozenset()


class Secret:
    """A key or password that no sink prints: it is `***` as text, in formats, in tracebacks and pickled.

    Examples:
        >>> key = Secret("sk-1234567890")
        >>> f"{key} {key!r} {without_secrets('refused: sk-1234567890')}"
        '*** Secret(***) refused: ***'
    """

    __slots__ = ("reveal",)

    def __init__(self, value: str) -> None:
        """Keep a value, and have `without_secrets` know it from now on, also as addresses and JSON write it."""
        global _known

        self.reveal = lambda: value
        """Returns the value, to be sent where it belongs and nowhere else."""
        if len(value) >= LEAST_SECRET and value not in _known:
            _known |= {value, quote(value, safe=""), quote(value), json.dumps(value)[1:-1]}

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
    """Return text with `***` for each secret that this process knows."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
