"""The images of a record: a file named by a template, a cell of a Parquet file, or frames of a clip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from glob import escape
from pathlib import Path

from msgspec import Struct

from snellen.common.drafts import ImageFile, ImageSpec, LazyFrames
from snellen.errors import DataError
from snellen.formats.clips import FrameSampling, sampled_frames
from snellen.formats.hub_parquet import ImageColumn, ParquetRow, ParquetSplit
from snellen.formats.locate import base_of, locate_file, locate_or_none
from snellen.readers.mapped.records import Fields, Record
from snellen.readers.mapped.templates import Template
from snellen.records import Box


class ImageSource(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the images are."""

    file: str = ""
    """Template of the file name, relative to its folder."""
    folders: tuple[str, ...] = ()
    """Names of the folder; if several exist, the first that contains the first image. When empty, the folder of
    the records' file, or its parent."""
    column: str = ""
    """The column of a Parquet file with the images, one or a list in each cell."""
    columns: tuple[str, ...] = ()
    """Several such columns, in the order of a question's images; empty cells are skipped."""
    optional: bool = False
    """Whether a question may have no image."""
    apart: tuple[str, ...] = ()
    """Patterns of separate Parquet files with the images, if they are not in the records' files."""
    key: str = "id"
    """The column of those files with an image's name, as given by the template `file`."""
    crop: tuple[str, str, str, str] | None = None
    """Templates of the box that is shown: left, top, width and height in pixels; the whole image when left out."""


class VideoSource(FrameSampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the clips are, and which of their frames are shown."""

    file: str
    """Template of the clip's name, relative to its folder: a file, a folder of frames, or a file without its suffix."""
    folders: tuple[str, ...] = ()
    """As for images."""


ImageLookup = Callable[[Record, str], tuple[ImageFile | ImageSpec, ...]]
"""(record, location for error messages) -> the record's images."""


def image_finder(
    picture: ImageSource, fields: Fields, path: Path, folder: Path | None
) -> ImageLookup:
    """A function that finds images. Raises DataError when their folder is missing."""
    whole = _whole_picture_finder(picture, fields, path, folder)
    if picture.crop is None:
        return whole
    sides = [Template(text, fields, needed=True) for text in picture.crop]
    return lambda record, where: tuple(
        ImageSpec(file, _box(sides, record, where)) for file in whole(record, where)
    )


def _box(sides: Sequence[Template], record: Record, where: str) -> Box:
    texts = [side.fill(record) for side in sides]
    try:
        left, top, width, height = map(float, texts)
    except ValueError:
        raise DataError(
            f"{where}: the crop {', '.join(texts)} is not a box of four numbers"
        ) from None
    return left, top, width, height


def _whole_picture_finder(
    picture: ImageSource, fields: Fields, path: Path, folder: Path | None
) -> Callable[[Record, str], tuple[ImageFile, ...]]:
    if picture.apart:
        apart = _apart(picture, Template(picture.file, fields, needed=True), folder)
        return lambda record, where: (apart(record, where),)
    if names := picture.columns or ((picture.column,) if picture.column else ()):
        return _in_columns([ImageColumn(name) for name in names], picture)
    files = _Files(
        Template(picture.file, fields, needed=True), _bases(picture.folders, path, folder)
    )
    return lambda record, where: (files(record, where),)


def _in_columns(
    cells: list[ImageColumn], picture: ImageSource
) -> Callable[[Record, str], tuple[ImageFile, ...]]:
    def of(record: Record, where: str) -> tuple[ImageFile, ...]:
        images = tuple(image for column in cells for image in column.all_at(record["@place"]))
        if not images and not picture.optional:
            column = (*picture.columns, picture.column)[0]
            raise DataError(f"{where}: {column} holds no image; is it the dataset with images?")
        return images

    return of


def clip_finder(
    video: VideoSource, fields: Fields, path: Path, folder: Path | None
) -> Callable[[Record, str], LazyFrames]:
    """A function that finds clips. Raises DataError when their folder is missing."""
    template, bases = Template(video.file, fields, needed=True), _bases(video.folders, path, folder)

    def find(record: Record, where: str) -> LazyFrames:
        clip = _clip_in(bases, template.fill(record), where)
        return LazyFrames(str(clip), partial(sampled_frames, clip, video, where))

    return find


def _clip_in(bases: Sequence[Path], name: str, where: str) -> Path:
    for base in bases:
        clip = base / name
        if clip.exists():
            return clip
        if matches := sorted(clip.parent.glob(f"{escape(clip.name)}.*")):
            return matches[0]
    raise DataError(
        f"{where}: the clip {name} is in none of {', '.join(map(str, bases))}; unpack the videos"
    )


def _bases(folders: Sequence[str], path: Path, folder: Path | None) -> list[Path]:
    if not folders:
        return [path] if path.is_dir() else [path.parent, path.parent.parent]
    return [base for name in folders if (base := locate_or_none(folder, name))] or [
        locate_file(folder, *folders)
    ]


class _Files:
    """Images in a folder, which is determined by the first image."""

    def __init__(self, template: Template, bases: list[Path]) -> None:
        self._template, self._bases = template, bases
        self._base = bases[0] if len(bases) == 1 else None
        self._files: dict[str, Path] = {}

    def __call__(self, record: Record, where: str) -> Path:
        name = self._template.fill(record)
        if name not in self._files:
            self._base = self._base or base_of(name, self._bases, where)
            self._files[name] = self._base / name
        return self._files[name]


def _apart(
    picture: ImageSource, template: Template, folder: Path | None
) -> Callable[[Record, str], ImageFile]:
    table, cells = ParquetSplit(folder, picture.apart), ImageColumn(picture.column)
    places: dict[str, ParquetRow] = {
        str(row[picture.key]): place
        for place, row in table.rows((picture.key,), (), dict[str, str | int])
    }

    def of(record: Record, where: str) -> ImageFile:
        name = template.fill(record)
        if name not in places:
            raise DataError(f"{where}: there is no image {name} in {picture.apart[0]}")
        return cells.at(places[name])

    return of
