"""Picture cells: base64, a path, or a list of either in brackets."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from snellen.errors import DataError
from snellen.formats.delimited import decode_base64
from snellen.images import inspect_image


def row_pictures(cells: dict[str, str], folder: Path, where: str) -> tuple[bytes | Path, ...]:
    """The pictures of a row that holds its own: of `image`, else of `image_path` (relative to `folder`).

    Raises DataError for a cell that is neither.
    """
    if cell := cells.get("image", "").strip():
        return tuple(decode_base64(entry, where, "the index of a row") for entry in _listed(cell, where))
    return tuple(_path(folder, entry, where) for entry in _listed(cells["image_path"].strip(), where))


def check_pictures(images: tuple[bytes | Path, ...], where: str) -> None:
    """Raise DataError for one that cannot be read."""
    for image in images:
        if isinstance(image, Path):
            try:
                inspect_image(image.read_bytes(), where)
            except OSError as error:
                raise DataError(f"{where}: cannot read the image {image} ({error.strerror})") from None
        else:
            inspect_image(image, where)


def _listed(cell: str, where: str) -> list[str]:
    """The entries of a list in brackets, as JSON or as Python writes it; another cell alone.

    Nothing is evaluated: `ast.literal_eval` reads literals only.
    """
    if not cell.startswith("["):
        return [cell]
    try:
        entries = json.loads(cell)
    except (ValueError, RecursionError):
        try:
            entries = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            entries = None
    if (
        not isinstance(entries, list)
        or not entries
        or not all(isinstance(entry, str) and entry.strip() for entry in entries)
    ):
        excerpt = cell if len(cell) < 60 else cell[:60] + "..."
        raise DataError(f'{where}: image {excerpt!r} is not a list of pictures; write ["...", "..."]')
    return [entry.strip() for entry in entries]


def _path(folder: Path, name: str, where: str) -> Path:
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} holds a NUL")
    return folder / name
