"""Read a source leniently: skip the rows that cannot be used, and say why."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator

from snellen.building.draft_images import file_identity
from snellen.building.draft_rules import check_draft
from snellen.building.recipe import Drafts
from snellen.common.decoding import inspect_image
from snellen.common.drafts import Draft, ImageFile, ImageSpec, LazyFrames, image_bytes
from snellen.errors import DataError, WrongRowsError

MAX_FAULTS_QUOTED = 3
"""The number of faults that the note about skipped rows quotes."""


class SoundRows:
    """A source that skips the rows that cannot be used.

    Call the object to read the source, as often as needed.

    Args:
        read: Function that yields the drafts of the source.
    """

    def __init__(self, read: Drafts) -> None:
        self._read = read
        self._fault_by_file: dict[Hashable, str] = {}
        self.faults: dict[str, None] = {}
        """Faults of the skipped rows, each once, as keys."""

    def __call__(self) -> Iterator[Draft]:
        """Yield the drafts that can be used, and add the faults of the others to `faults`."""
        try:
            for draft in self._read():
                try:
                    check_draft(draft)
                    self._check_images(draft)
                except DataError as error:
                    self.faults[str(error)] = None
                else:
                    yield draft
        except WrongRowsError as error:
            self.faults |= dict.fromkeys(error.faults)

    def _check_images(self, draft: Draft) -> None:
        """Raise DataError if an image cannot be decoded. Each file is decoded once."""
        for image in draft.images:
            if isinstance(image, LazyFrames):
                continue
            file = image.file if isinstance(image, ImageSpec) else image
            identity = file_identity(file)
            if identity not in self._fault_by_file:
                self._fault_by_file[identity] = _image_fault(file, draft.where)
            fault = self._fault_by_file[identity]
            if fault:
                raise DataError(fault)

    def note(self) -> tuple[str, ...]:
        """Return a sentence about the skipped rows, in a tuple: their number and the first errors.

        Empty if none was skipped.
        """
        if not self.faults:
            return ()
        count = len(self.faults)
        shown = sorted(self.faults, key=fault_order)[:MAX_FAULTS_QUOTED]
        sentence = f"{count:,} rows were skipped: {'; '.join(shown)}"
        if count > MAX_FAULTS_QUOTED:
            sentence += f"; and {count - MAX_FAULTS_QUOTED:,} more"
        return (sentence,)


def fault_order(fault: str) -> list[tuple[int, str]]:
    """Return a sort key that puts error messages in the order of their line numbers: `f.csv:9: ...`
    before `f.csv:10: ...`.
    """
    location, _, _ = fault.partition(": ")
    key: list[tuple[int, str]] = []
    for part in re.split(r"(\d+)", location):
        number = int(part) if part.isdecimal() else 0
        key.append((number, part))
    return key


def _image_fault(file: ImageFile, where: str) -> str:
    """Return why a file cannot be decoded as an image; empty if it can."""
    try:
        inspect_image(image_bytes(file, where), where)
    except DataError as error:
        return str(error)
    return ""
