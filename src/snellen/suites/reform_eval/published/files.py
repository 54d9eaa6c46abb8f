"""Which file holds which benchmark of the published data, and where the pictures of its records are."""

from __future__ import annotations

import base64
import binascii
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.drafts import Outline, PictureSpec
from snellen.errors import DataError
from snellen.records import Box
from snellen.reformulation.regions import PALETTE, from_corners

NAME_LENGTH = 200
"""A longer text is a picture itself, not the name of one."""


class Drawing(Struct, frozen=True, forbid_unknown_fields=True):
    width: int
    corners: bool = False
    """Boxes are given by two corners, not by corner and size."""


class PublishedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a benchmark lies in the published data, and in which form."""

    form: str
    files: tuple[str, ...]
    type: str = ""
    """TDIUC's own name of the task."""
    draw: Drawing | None = None
    crop: bool = False


@cache
def published_entries() -> dict[str, PublishedEntry]:
    """The 61 benchmarks of the data, by their short names in the catalogue."""
    text = files("snellen.suites.reform_eval.published").joinpath("files.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, PublishedEntry])


class PublishedPictures:
    """Pictures of one file: inside its records, or in a folder."""

    def __init__(self, folder: Path, entry: PublishedEntry) -> None:
        self.entry = entry
        self._folder = folder

    def picture(self, text: str | int, where: str, boxes: tuple[Box, ...] = ()) -> bytes | Path | PictureSpec:
        """The picture as its question shows it: cut out, or with its boxes drawn."""
        content = self._content(str(text), where)
        entry = self.entry
        if entry.crop and boxes:
            return PictureSpec(content, crop=boxes[0])
        if entry.draw is None or not boxes:
            return content
        if entry.draw.corners:
            boxes = tuple(from_corners(*box) for box in boxes)
        width = entry.draw.width
        outlines = tuple(Outline(box, PALETTE[place % len(PALETTE)], width) for place, box in enumerate(boxes))
        return PictureSpec(content, outlines=outlines)

    def _content(self, text: str, where: str) -> bytes | Path:
        if len(text) > NAME_LENGTH:
            try:
                return base64.b64decode(text.rpartition("base64,")[2], validate=True)
            except (binascii.Error, ValueError):
                raise DataError(f"{where}: the picture {text[:30]!r}... is not base64") from None
        names = [text, f"{text}.jpg", f"{text}.png"]
        if text.isdigit():
            names += [f"{int(text):012d}.jpg", f"COCO_val2014_{int(text):012d}.jpg"]
        for name in names:
            if (path := self._folder / name).is_file():
                return path
        raise DataError(
            f"{where}: the picture {text!r} is not in {self._folder}; name the folder of the pictures with --images"
        )
