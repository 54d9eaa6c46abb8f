"""Read the journals of a run, which hold its exchanges in order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from snellen.common.foreign import lines_of, open_file
from snellen.common.paths import shell_word
from snellen.errors import StoreError
from snellen.records import Exchange
from snellen.runs.journal_lines import (
    NO_AUTHORS,
    JournalEntry,
    LineT,
    StoredExchange,
    read_entry,
    read_line,
    read_stored,
)
from snellen.runs.run_folder import RUN_MANIFEST, journals, read_manifest

READ_AT_ONCE = 1 << 20
"""Bytes of a journal that one system call reads."""

JOURNAL_BITS = 8
"""Bits of a position for the index of the journal; the bits above are the offset of the line."""
MAX_JOURNALS = 1 << JOURNAL_BITS


def position_of(journal_index: int, offset: int) -> int:
    """Return the position of a line in the journals of a run, as one number.

    Args:
        journal_index: The index of the journal. It takes the lowest `JOURNAL_BITS` bits.
        offset: The number of bytes before the line in this journal. It takes the bits above.
    """
    return offset << JOURNAL_BITS | journal_index


def numbered_journals(folder: Path) -> list[Path]:
    """Return the journals of a run, in the order of their indexes. Raises StoreError if there are too many."""
    paths = journals(folder)
    if len(paths) > MAX_JOURNALS:
        raise StoreError(
            f"{folder} has {len(paths)} journals, more than {MAX_JOURNALS}; merge some of them"
        )
    return paths


def read_exchanges(folder: Path) -> Iterator[Exchange]:
    """Yield all exchanges of a run in order of arrival.

    Raises:
        StoreError: A line is not an exchange, or was answered by a model that is not in the manifest.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> len(list(read_exchanges(results.runs[0].folder)))
        4
    """
    authors = NO_AUTHORS
    if (folder / RUN_MANIFEST).exists():
        authors = read_manifest(folder).authors
    for path in journals(folder):
        for _, exchange in read_journal(path, authors):
            yield exchange


def holds_replies(folder: Path) -> bool:
    """Return whether any request of a run received a reply. Failed requests do not count.

    Raises:
        StoreError: A journal cannot be read.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> holds_replies(results.runs[0].folder)
        True
    """
    for path in journals(folder):
        for _, entry in read_lines(path, NO_AUTHORS, read_entry):
            if entry.response.error is None:
                return True
    return False


def read_journal(
    path: Path, authors: Mapping[str, str] = NO_AUTHORS
) -> Iterator[tuple[int, Exchange]]:
    """Yield the exchanges in a journal, each with the offset of its line in bytes.

    A last line without a line break is skipped, because the process was killed while it wrote the line.

    Args:
        path: The journal.
        authors: The identity of the model in each role; roles that are absent are not checked.

    Raises:
        StoreError: A line is not an exchange, or was answered by another model.
    """
    return read_lines(path, authors, read_line)


def read_entries(
    paths: Sequence[Path], authors: Mapping[str, str]
) -> Iterator[tuple[int, JournalEntry]]:
    """Yield the exchanges in the journals of a run, in order of arrival, without their texts.

    Args:
        paths: The journals.
        authors: The identity of the model in each role. Roles that are absent are not checked.

    Yields:
        The position of an exchange, with which a `JournalReader` reads all of it, and the exchange without its texts.

    Raises:
        StoreError: As `read_journal`.
    """
    for journal_index, path in enumerate(paths):
        for offset, entry in read_lines(path, authors, read_entry):
            yield position_of(journal_index, offset), entry


def read_stored_lines(
    paths: Sequence[Path], authors: Mapping[str, str]
) -> Iterator[StoredExchange]:
    """Yield all exchanges in some journals, without the parts that a resumed run does not need.

    Args:
        paths: The journals.
        authors: The identity of the model in each role; roles that are absent are not checked.

    Raises:
        StoreError: As `read_journal`.
    """
    for path in paths:
        for _, stored in read_lines(path, authors, read_stored):
            yield stored


def read_lines(
    path: Path, authors: Mapping[str, str], decode: Callable[[bytes, Mapping[str, str]], LineT]
) -> Iterator[tuple[int, LineT]]:
    """Yield the offset and the decoded content of each line of a journal.

    A last line without a line break is skipped, because the process was killed while it wrote the line.

    Args:
        path: The journal.
        authors: The identity of the model in each role, which is passed to `decode`.
        decode: Decodes a line: `read_line`, or a function that decodes only a part of the exchange.

    Raises:
        StoreError: `decode` raised it. The message then also names the file and the line.
    """
    offset = 0
    for line_number, line in enumerate(_lines(path), 1):
        if line.endswith(b"\n"):
            try:
                content = decode(line, authors)
            except StoreError as error:
                raise _at_line(path, line_number, error) from None
            yield offset, content
        offset += len(line)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a journal; raises StoreError if it cannot be read."""
    try:
        with open_file(path, buffering=READ_AT_ONCE) as file:
            yield from lines_of(file)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> StoreError:
    """Return an error that says why a journal cannot be read and what to do about it."""
    remedy = "check its permissions"
    if path.is_dir():
        remedy = f"run `snellen mend {shell_word(path.parent)}` to move it aside"
    return StoreError(f"{path}: cannot be read ({error.strerror}); {remedy}")


def _at_line(path: Path, line_number: int, error: StoreError) -> StoreError:
    """Return an error about a line of a journal that also names the file and the line, and says what to do."""
    return StoreError(
        f"{path}:{line_number}: {error}; run `snellen mend {shell_word(path.parent)}` to move damaged lines aside"
    )


class JournalReader:
    """Reader of single exchanges by their positions, which `read_entries` yields.

    Args:
        paths: The journals, in the order of their indexes.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        self._files: dict[int, BinaryIO] = {}

    def read(self, position: int) -> Exchange:
        """Return the exchange at a position. Raises StoreError as `read_journal`."""
        journal_index = position & (MAX_JOURNALS - 1)
        offset = position >> JOURNAL_BITS
        path = self._paths[journal_index]
        if journal_index not in self._files:
            try:
                self._files[journal_index] = open_file(path)
            except OSError as error:
                raise _unreadable(path, error) from None
        file = self._files[journal_index]
        try:
            return read_line(_line_at(file, offset))
        except StoreError as error:
            raise _at_line(path, _line_number_at(file, offset), error) from None

    def close(self) -> None:
        """Close the journals."""
        for file in self._files.values():
            file.close()

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_exchange_at(path: Path, offset: int) -> Exchange:
    """Return the exchange whose line begins at an offset that `read_journal` yielded."""
    with open_file(path) as file:
        return read_line(_line_at(file, offset))


def _line_at(file: BinaryIO, offset: int) -> bytes:
    """Return the line that begins at an offset. Raises StoreError if it is longer than a line may be."""
    file.seek(offset)
    try:
        return next(lines_of(file), b"")
    except OSError as error:
        raise StoreError(f"it cannot be read ({error.strerror})") from None


def _line_number_at(file: BinaryIO, offset: int) -> int:
    """Return the number, from 1, of the line that begins at an offset. A journal may not fit into memory."""
    file.seek(0)
    line_breaks = 0
    while offset > 0:
        block = file.read(min(offset, READ_AT_ONCE))
        if not block:
            break
        line_breaks += block.count(b"\n")
        offset -= len(block)
    return line_breaks + 1
