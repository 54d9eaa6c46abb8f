"""Find the images of a record: files with names made by a template, cells of Parquet files, or
frames of a video clip.
"""

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
    """Where the images of the questions are: files in a folder, or columns of Parquet files."""

    file: str = ""
    """Template of an image's file name, relative to its folder, such as `{image_id}.jpg`."""
    folders: tuple[str, ...] = ()
    """Possible names of the folder.

    If several exist, the one is used that contains the first image. If empty, the folder of the
    records' file or its parent.
    """
    column: str = ""
    """Column of a Parquet file whose cells contain an image or a list of images."""
    columns: tuple[str, ...] = ()
    """Several such columns, in the order in which a question shows their images.

    Empty cells are skipped.
    """
    optional: bool = False
    """Whether a question may have no image."""
    apart: tuple[str, ...] = ()
    """Patterns of Parquet files that contain only the images, if these are not in the same files as
    the records.
    """
    key: str = "id"
    """Column of those files with the name of each image.

    The template `file` makes the same name from a record.
    """
    crop: tuple[str, str, str, str] | None = None
    """Templates of left, top, width and height, in pixels, of the part of the image that is shown.

    If None, all of it is shown.
    """


class VideoSource(FrameSampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the clips are, and which of their frames are shown."""

    file: str
    """Template of the clip's name, relative to its folder: a file, a folder of frames, or a file without its suffix."""
    folders: tuple[str, ...] = ()
    """As for images."""


ImageLookup = Callable[[Record, str], tuple[ImageFile | ImageSpec, ...]]
"""(record, location for error messages) -> the record's images."""


def make_image_finder(
    picture: ImageSource, fields: Fields, path: Path, folder: Path | None
) -> ImageLookup:
    """Return a function that takes a record and its location for error messages, and returns the
    record's images.

    If the entry declares a crop, only this part of each image is shown. Raises DataError if no
    folder of images exists.

    Args:
        picture: Where the images are.
        fields: The fields of a record, with their types.
        path: The file or folder of the records.
        folder: The folder with the official files.
    """
    find_whole = _make_whole_image_finder(picture, fields, path, folder)
    if picture.crop is None:
        return find_whole
    sides = [Template(text, fields, needed=True) for text in picture.crop]

    def find_crop(record: Record, where: str) -> tuple[ImageSpec, ...]:
        files = find_whole(record, where)
        return tuple(ImageSpec(file, crop=_fill_box(sides, record, where)) for file in files)

    return find_crop


def _fill_box(sides: Sequence[Template], record: Record, where: str) -> Box:
    """Return the part of an image that a record says to show: left, top, width and height in
    pixels.

    Args:
        sides: A template for each of the four numbers.
        record: The record.
        where: Location of the record, for error messages.

    Raises:
        DataError: One of them is not a number.
    """
    texts = [side.fill(record) for side in sides]
    try:
        left, top, width, height = map(float, texts)
    except ValueError:
        raise DataError(
            f"{where}: the crop {', '.join(texts)} is not a box of four numbers"
        ) from None
    return left, top, width, height


def _make_whole_image_finder(
    picture: ImageSource, fields: Fields, path: Path, folder: Path | None
) -> Callable[[Record, str], tuple[ImageFile, ...]]:
    """Return a function that takes a record and its location, and returns its complete images,
    without crop.

    The images are in separate Parquet files, in columns of the records' own files, or files in a
    folder.
    """
    if picture.apart:
        name = Template(picture.file, fields, needed=True)
        find_separate = _make_separate_file_finder(picture, name, folder)
        return lambda record, where: (find_separate(record, where),)
    columns = picture.columns
    if not columns and picture.column:
        columns = (picture.column,)
    if columns:
        return _make_column_finder([ImageColumn(name) for name in columns], picture)
    name = Template(picture.file, fields, needed=True)
    find_file = _ImageFilesInFolder(name, _image_folders(picture.folders, path, folder))
    return lambda record, where: (find_file(record, where),)


def _make_column_finder(
    cells: list[ImageColumn], picture: ImageSource
) -> Callable[[Record, str], tuple[ImageFile, ...]]:
    """Return a function that takes a record and its location, and returns the images in the columns
    of its Parquet row.

    The function raises DataError if there is no image, unless the entry says that images are
    optional.
    """

    def find(record: Record, where: str) -> tuple[ImageFile, ...]:
        images: list[ImageFile] = []
        for column in cells:
            images.extend(column.images_in_row(record["@place"]))
        if not images and not picture.optional:
            name = picture.columns[0] if picture.columns else picture.column
            raise DataError(f"{where}: {name} holds no image; is it the dataset with images?")
        return tuple(images)

    return find


def make_clip_finder(
    video: VideoSource, fields: Fields, path: Path, folder: Path | None
) -> Callable[[Record, str], LazyFrames]:
    """Return a function that takes a record and its location, and returns the frames to show of its
    video clip.

    The clip is decoded only when the frames are read. Raises DataError if none of the declared
    folders of clips exists.
    """
    template = Template(video.file, fields, needed=True)
    bases = _image_folders(video.folders, path, folder)

    def find(record: Record, where: str) -> LazyFrames:
        clip = _find_clip(bases, template.fill(record), where)
        return LazyFrames(str(clip), partial(sampled_frames, clip, video, where))

    return find


def _find_clip(bases: Sequence[Path], name: str, where: str) -> Path:
    """Return the path of a clip in the first folder that has it.

    The name may lack the suffix: `a1` finds `a1.mp4`. Raises DataError if it is in none of the
    folders.
    """
    for base in bases:
        clip = base / name
        if clip.exists():
            return clip
        with_suffix = sorted(clip.parent.glob(f"{escape(clip.name)}.*"))
        if with_suffix:
            return with_suffix[0]
    raise DataError(
        f"{where}: the clip {name} is in none of {', '.join(map(str, bases))}; unpack the videos"
    )


def _image_folders(folders: Sequence[str], path: Path, folder: Path | None) -> list[Path]:
    """Return the folders that may contain the images.

    Args:
        folders: Names of folders that the entry declares. If there are none, the images may be in the folder of the
            records and, if `path` is a file, in the one above.
        path: The file or folder of the records.
        folder: The folder with the official files.

    Raises:
        DataError: No declared folder exists.
    """
    if not folders:
        return [path] if path.is_dir() else [path.parent, path.parent.parent]
    existing: list[Path] = []
    for name in folders:
        image_folder = locate_or_none(folder, name)
        if image_folder:
            existing.append(image_folder)
    return existing or [locate_file(folder, *folders)]


class _ImageFilesInFolder:
    """Image files in one of several folders.

    The folder that contains the first image is used for all of them.
    """

    def __init__(self, template: Template, bases: list[Path]) -> None:
        """Look for images in these folders.

        Args:
            template: Makes the name of an image from a record.
            bases: The folders that may contain the images.
        """
        self._template = template
        self._folders = bases
        self._base = bases[0] if len(bases) == 1 else None
        self._files: dict[str, Path] = {}

    def __call__(self, record: Record, where: str) -> Path:
        """Return the image file of a record. The first record determines which of the folders is used."""
        name = self._template.fill(record)
        if name not in self._files:
            self._base = self._base or base_of(name, self._folders, where)
            self._files[name] = self._base / name
        return self._files[name]


def _make_separate_file_finder(
    picture: ImageSource, template: Template, folder: Path | None
) -> Callable[[Record, str], ImageFile]:
    """Return a function that finds the image of a record in Parquet files that are separate from the records.

    Args:
        picture: The files, and their columns of names and of images.
        template: Makes the name of an image from a record.
        folder: Folder of the files.
    """
    table = ParquetSplit(folder, picture.apart)
    images = ImageColumn(picture.column)
    rows_by_name: dict[str, ParquetRow] = {}
    for parquet_row, cells in table.rows((picture.key,), (), dict[str, str | int]):
        rows_by_name[str(cells[picture.key])] = parquet_row

    def find(record: Record, where: str) -> ImageFile:
        name = template.fill(record)
        if name not in rows_by_name:
            raise DataError(f"{where}: there is no image {name} in {picture.apart[0]}")
        return images.at(rows_by_name[name])

    return find
