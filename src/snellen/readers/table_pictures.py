"""Find the images of a table's rows, which may be paths, URLs, base64 text, bytes, or lists of
these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.callers import setting
from snellen.common.drafts import LazyImage
from snellen.errors import DataError
from snellen.formats.delimited import decode_base64
from snellen.formats.listed_cells import listed
from snellen.formats.locate import PICTURE_FILE, ImageFinder
from snellen.readers.table_columns import TableSource
from snellen.recognition.profiles import ENCODED, URL

if TYPE_CHECKING:
    from snellen.fetching.image_urls import ImageDownloads

MAX_PATH_CHARACTERS = 1024
"""Characters of a path; longer texts are base64."""


def image_cells(cells: Mapping[str, Any], columns: Sequence[str]) -> list[Any]:
    """Return the images of a row in the order of the columns, without empty cells; a cell with a
    list gives all its items.
    """
    pictures: list[Any] = []
    for column in columns:
        cell = cells.get(column)
        if cell is None or cell == "":
            continue
        may_be_list = isinstance(cell, list) or (isinstance(cell, str) and cell.startswith("["))
        values = listed(cell) if may_be_list else None
        if values is None:
            pictures.append(cell)
        else:
            pictures += values
    return pictures


def images_in_row(
    cells: Mapping[str, Any], source: TableSource, where: str
) -> tuple[bytes | Path | LazyImage, ...]:
    """Return the images of a row; an empty tuple if it has none.

    Raises DataError if an image cannot be used, or if an image column before a filled one is empty.
    """
    filled = [column for column in source.pictures if cells.get(column)]
    if len(source.pictures) > 1 and filled != list(source.pictures[: len(filled)]):
        raise DataError(f"{where}: {filled[-1]} is given, but an image before it is empty")

    pictures: list[bytes | Path | LazyImage] = []
    first_is_path = source.pictures[:1] == ("image_path",)
    for index, cell in enumerate(image_cells(cells, source.pictures)):
        if first_is_path and index == 0:
            pictures.append(_path_below_folder(source.folder, str(cell), where))
        else:
            pictures.append(picture_of(cell, where, source.folder, source.fetched, source.files))
    return tuple(pictures)


def picture_of(
    cell: Any,
    where: str,
    folder: Path,
    fetched: ImageDownloads | None = None,
    files: ImageFinder | None = None,
) -> bytes | Path | LazyImage:
    """Return the image that a cell contains or names.

    Images and their bytes are returned as they are. Other cells are texts, for which these rules apply in order: the name
    of an image that `files` finds; a URL; a data URL; a path, if the text is short, does not begin like an image in
    base64, and has a suffix; and otherwise base64 text.

    Args:
        cell: An image, a path, a URL, a data URL, base64 text, or an object with `bytes`, `path` or `url`.
        where: File and line, for error messages.
        folder: Folder that paths are relative to.
        fetched: Downloaded images by URL, if images are downloaded.
        files: Finds images by name in a folder, if paths may be inaccurate.

    Raises:
        DataError: The cell does not give an image, or is ambiguous.
    """
    if isinstance(cell, (LazyImage, bytes)):
        return cell
    if isinstance(cell, dict):
        cell = cell.get("bytes") or cell.get("path") or cell.get("url")
    if files is not None:
        file = files.find(cell)
        if file:
            return file
        candidates = files.of_number(cell)
        if len(candidates) > 1:
            raise DataError(
                f"{where}: the image {str(cell)!r} may be {candidates[0]} or {candidates[1]}; write the name of its file"
            )

    if isinstance(cell, str):
        cell = cell.strip()
    if not isinstance(cell, str) or not cell:
        raise DataError(f"{where}: image must be a path or base64 text, or in JSONL a list of them")
    if cell.startswith(URL):
        if fetched is None:
            raise DataError(
                f"{where}: the image {cell[:60]!r} is a URL; add {setting('fetch_images', True)} to download it"
            )
        return fetched.path(cell, where)
    if cell.startswith("data:"):
        return decode_base64(cell.partition(",")[2], where, "a data URL")

    looks_encoded = cell.startswith(ENCODED) and not PICTURE_FILE.fullmatch(cell)
    if len(cell) <= MAX_PATH_CHARACTERS and not looks_encoded:
        path = _path_below_folder(folder, cell, where)
        if path.suffix:
            return path
    return decode_base64(cell, where, "a file name")


def _path_below_folder(folder: Path, name: str, where: str) -> Path:
    """Return the path of an image below a folder. Raises DataError if it is outside."""
    if "\0" in name:
        raise DataError(f"{where}: the image path {name!r} contains a NUL character")
    path = folder / name
    is_inside = path.resolve().is_relative_to(folder.resolve())
    if not is_inside and not _is_in_hub_cache(path, folder):
        raise DataError(
            f"{where}: the image {name!r} is outside {folder}; move it there, or give a folder that contains all images "
            f"with {_images_setting(path, name)}"
        )
    return path


def _images_setting(path: Path, name: str) -> str:
    """Return the setting `images` for an error message about an image outside the folder.

    It includes the folder to give if the image would be found from there: `--images photos`.
    Otherwise it is the bare name of the setting.
    """
    folder = Path(os.path.normpath(path)).parent
    image = (folder / name).resolve()
    works = image == path.resolve() and image.is_file() and image.is_relative_to(folder.resolve())
    return setting("images", os.path.relpath(folder)) if works else setting("images")


def _is_in_hub_cache(path: Path, folder: Path) -> bool:
    """Return whether an image is a link within the Hugging Face hub's cache, and therefore safe to
    open.

    That cache has the files of a dataset as links in `snapshots/COMMIT/`, which lead to `blobs/` of
    the same dataset. A link resolves to a path outside the folder of the table, but not outside the
    dataset.
    """
    for parent in (folder, *folder.parents):
        if parent.name == "snapshots":
            snapshots = parent
            break
    else:
        return False
    if not Path(os.path.normpath(path)).is_relative_to(os.path.normpath(folder)):
        return False
    return path.resolve().is_relative_to((snapshots.parent / "blobs").resolve())
