"""A dataset of the hub in a local folder: one table for each split, as its files are called.

    colours/README.md
    colours/data/train-00000-of-00002.parquet
    colours/data/train-00001-of-00002.parquet
    colours/data/test-00000-of-00001.parquet

So are the folders that `datasets` writes by `DatasetDict.save_to_disk`, and folders of images with a table beside them:

    colours/train/metadata.jsonl
    colours/train/red.png

Users name a split as `colours:test`, which may also be a folder of class folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from snellen.errors import DataError
from snellen.fetching.hub import tables_by_split
from snellen.formats.locate import SPLITS, is_image, splits_in
from snellen.formats.rows import is_row_file

PARQUET = ".parquet"
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
"""Tables of a folder of images, as `imagefolder` of the library `datasets` calls them."""


class SplitTable(Struct, frozen=True):
    """The table of a split."""

    path: Path
    """A file, a folder of `save_to_disk` or of class folders, or the pattern of several Parquet files."""
    name: str
    """Name of the benchmark: that of the folder, with the split if there are several."""


def names_a_split(target: str) -> bool:
    """Return whether a target is written `FOLDER:SPLIT`."""
    folder, colon, split = target.rpartition(":")
    return bool(colon and split and folder) and Path(folder).is_dir()


def split_table(target: str | Path) -> SplitTable | None:
    """Return the table that a target names in a folder of a dataset; None for any other target.

    Args:
        target: A folder, or `FOLDER:SPLIT`.

    Raises:
        DataError: The folder has several splits and the target names none, or one that does not exist.
    """
    folder, wanted = Path(target), ""
    if not folder.exists() and names_a_split(str(target)):
        folder_name, _, wanted = str(target).rpartition(":")
        folder = Path(folder_name)
    if not folder.is_dir() or is_row_file(folder):
        return None
    own_name = folder.resolve().name
    metadata = _metadata_table(folder)
    if metadata is not None and not wanted:
        return SplitTable(metadata, own_name)
    tables = (
        dict(_saved_splits(folder))
        or dict(_parquet_splits(folder))
        or dict(_metadata_parts(folder))
    )
    if not tables and wanted:
        tables = dict(_class_splits(folder))
    if not tables and not wanted:
        return None
    if not tables:
        raise DataError(f"{folder}: it has no tables of splits, such as data/{wanted}-*{PARQUET}")
    name_of_split = f"{folder}:{wanted}"
    if not wanted and len(tables) == 1:
        [name_of_split] = tables
    if name_of_split not in tables:
        raise DataError(f"{target}: which table? Name one of {', '.join(sorted(tables))}")
    split = name_of_split.rpartition(":")[2]
    name = own_name if len(tables) == 1 else f"{own_name}-{split}"
    return SplitTable(tables[name_of_split], name)


def _saved_splits(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the splits that `DatasetDict.save_to_disk` wrote, each as `FOLDER:SPLIT` with its folder."""
    if not (folder / "dataset_dict.json").is_file():
        return
    for part in sorted(folder.iterdir()):
        if part.is_dir() and is_row_file(part):
            yield f"{folder}:{part.name}", part


def _parquet_splits(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the splits of Parquet files, each as `FOLDER:SPLIT` or `FOLDER/CONFIG:SPLIT` with the pattern of its files.

    Files that are not named after splits are parts of one table, so nothing is yielded for them.
    """
    tables = tables_by_split(_parquet_files(folder))
    if not any(split.casefold() in SPLITS for _, split in tables):
        return
    for (_, split), pattern in tables.items():
        path = folder / pattern
        home = folder if path.parent == folder / "data" else path.parent
        yield f"{home}:{split}", path


def _metadata_table(folder: Path) -> Path | None:
    """Return the table `metadata` of a folder of images; None if there is none, or another table beside it."""
    if not folder.is_dir():
        return None
    tables = [path for path in folder.iterdir() if is_row_file(path)]
    if len(tables) == 1 and tables[0].name in METADATA:
        return tables[0]
    return None


def _metadata_parts(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders of images that have a table `metadata`, each as `FOLDER:PART` with this table."""
    for home in (folder, folder / "data"):
        if not home.is_dir() or any(is_row_file(path) for path in home.iterdir()):
            continue
        for part in sorted(home.iterdir()):
            table = _metadata_table(part)
            if table is not None:
                yield f"{folder}:{part.name}", table


def _class_splits(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders of splits that hold class folders, each as `FOLDER:SPLIT`."""
    for split in splits_in(folder):
        if any(is_image(path) for path in (folder / split).glob("*/*")):
            yield f"{folder}:{split}", folder / split


def _parquet_files(folder: Path) -> Iterator[str]:
    """Yield the Parquet files below a folder, relative to it."""
    for visited_folder, inner_folders, files in os.walk(folder):
        # os.walk visits the folders that remain in this list.
        inner_folders[:] = [name for name in inner_folders if not name.startswith(".")]
        for name in files:
            if name.endswith(PARQUET) and not name.startswith("."):
                yield (Path(visited_folder) / name).relative_to(folder).as_posix()
