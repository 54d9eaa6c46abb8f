"""Finding official files in a user's folder by their usual names.

Files of images found by what a table calls them: with other slashes, in other letters, without an ending.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from snellen.callers import source_setting
from snellen.errors import DataError


def locate_file(folder: Path | None, *names: str) -> Path:
    """Return the first of `names` that exists in a folder or up to two levels below it.

    Args:
        folder: The folder to search; None if the user gave no source.
        names: Relative paths, the preferred one first.

    Raises:
        DataError: None of the files exists. The message lists them.

    Examples:
        >>> _ = Path("data").mkdir(), Path("data/birds.csv").write_text("id\\n")
        >>> locate_file(Path("data"), "birds.csv").as_posix()
        'data/birds.csv'
    """
    if folder is None:
        raise DataError(
            f"no folder with the official files; name it with {source_setting()} (it holds {names[0]})"
        )
    path = locate_or_none(folder, *names)
    if path is not None:
        return path
    raise DataError(
        f"{folder}: {' or '.join(names)} is missing; is this the folder with the official files?"
    )


def locate_or_none(folder: Path | None, *names: str) -> Path | None:
    """Return the first of `names` that exists in a folder or up to two levels below it; None if
    none exists.

    The folder itself is searched first, then the folders in it, then those in these. The name `.`
    is the folder itself. Raises DataError if a file exists twice at the same level.
    """
    if folder is None:
        return None
    for parent_pattern in ("", "*/", "*/*/"):
        for name in names:
            matches = _paths_of(name, folder, parent_pattern)
            if not matches:
                continue
            if matches[0].is_file() and len(matches) > 1:
                raise DataError(
                    f"{matches[0]} and {matches[1]} both exist; name the folder of one with {source_setting()}"
                )
            return matches[0]
    return None


def _paths_of(name: str, folder: Path, parent_pattern: str) -> list[Path]:
    """Return the paths that a name stands for in some folders; an empty list if there are none.

    Args:
        name: A relative path or a pattern such as `*.json`, `.` for the folder itself, or an
            absolute path.
        folder: The folder.
        parent_pattern: Which folders are searched: empty for the folder itself, `*/` for those in
            it.
    """
    path = folder / name
    if name == ".":
        return [folder]
    if Path(name).is_absolute() or not parent_pattern:
        if path.exists():  # checked first, as brackets in a name would be read as a pattern
            return [path]
        if Path(name).is_absolute():
            return []
    return sorted(folder.glob(parent_pattern + name))


def base_of(picture: str, bases: Iterable[Path | None], where: str) -> Path:
    """Return the first folder of `bases` that contains an image.

    Args:
        picture: Path of the image, relative to one of the folders.
        bases: Folders to try; None is skipped.
        where: What names the image, such as `a.csv:3`, for the message.

    Raises:
        DataError: None of the folders contains the image.
    """
    folders = [base for base in bases if base is not None]
    for folder in folders:
        if (folder / picture).is_file():
            return folder
    tried = ", ".join(str(folder) for folder in folders)
    raise DataError(f"{where}: the image {picture} is in none of {tried}; unpack the images")


_PADDED = re.compile(r"0\d+", re.ASCII)
PICTURE_FILE = re.compile(r"\S.{0,500}\.(?:png|jpe?g|webp|gif|bmp|tiff?)(?:\?\S*)?", re.IGNORECASE)
MAX_FILES = 200_000
"""Number of files, of any kind, after which no further folders are searched."""
MAX_CELL_CHARACTERS = 1024
"""Longest text of a cell, in characters, that may be a file name.

A longer one contains the image itself.
"""
MAX_FOLDER_LEVELS = 5
"""Number of levels of folders that are searched."""
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def is_image(file: Path) -> bool:
    """Return whether the name of a file has an image extension and does not begin with a dot."""
    return bool(PICTURE_FILE.fullmatch(file.name)) and not file.name.startswith(".")


def name_in_words(stem: str) -> str:
    """Return a file name as words, without the number at its end; empty if it is only a number.

    Examples:
        >>> name_in_words("red_fox-2")
        'red fox'
    """
    without_number = re.sub(r"[\W_]*\d+$", "", stem)
    return re.sub(r"[\W_]+", " ", without_number).strip()


def splits_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder if all are names of splits (`train`, `val`,
    `test`); otherwise an empty list.
    """
    names = [
        path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
    ]
    are_splits = all(name.casefold() in SPLITS for name in names)
    return sorted(names) if are_splits else []


def _folded(name: str) -> str:
    """Return a name in the form in which names are compared: in lower case, with each accented
    letter as one character (NFC).
    """
    return unicodedata.normalize("NFC", name).casefold()


Folders = tuple[str, ...]
"""The folders of a path, from the outermost to the innermost, in lower case: `images/train/` is `("images", "train")`."""
Located = tuple[Folders, list[tuple[Folders, Path]]]
"""Two values: the folders that a cell names, and the images with its file name, each with the
folders that it is in.
"""
ANY_FOLDER: Folders = ("*",)
"""As `FolderShift.replaced`: the rule replaces whatever folders a cell names."""


class FolderShift(NamedTuple):
    """A rule that says in which folder an image is if it is not in the one that the table names.

    It replaces the first folders of a path. With `replaced=("train",)` and `by=("images",)`, the
    cell `train/a.jpg` finds `images/a.jpg`.
    """

    replaced: Folders
    by: Folders

    def place(self, folders: Folders) -> Folders | None:
        """Return the folders in which the rule expects an image whose cell names `folders`; None if
        the rule does not apply to it.
        """
        if self.replaced == ANY_FOLDER:
            return self.by
        count = len(self.replaced)
        if folders[:count] != self.replaced:
            return None
        return (*self.by, *folders[count:])


class _ImagePaths(NamedTuple):
    """Paths of images by three keys; several images may share a key."""

    by_name: dict[str, list[str]]
    """By file name, in lower case."""
    by_stem: dict[str, list[str]]
    """By file name without its extension, in lower case."""
    by_number: dict[str, list[str]]
    """By number, for names such as `000042.jpg`: the key is `42`."""


class ImageFinder:
    """Finds the images below a folder by the file names in the cells of a table, even if their
    folders are not exact.

    If an image is in another folder than its cell says, this is accepted only if one rule
    (`FolderShift`) explains the folders of all cells in the column (see `learn`). Otherwise another
    image with the same name could be taken for one that is missing.

    A cell may leave out the first folders of its path, unless another cell of its column gives a
    complete path.

    Attributes:
        moved: By cell, the images that were found by such a rule.
        numbered: By cell, the images that were found only by their number, such as `000042.jpg` for
            `42`.
    """

    def __init__(self, folder: Path) -> None:
        self.moved: dict[str, Path] = {}
        self.numbered: dict[str, Path] = {}
        self._folder = folder
        self._shifted: dict[str, Path] = {}
        self._whole_paths: set[str] = set()

    @cached_property
    def _paths(self) -> _ImagePaths:
        """Paths of all images below the folder.

        The folder is searched when the first image is looked up: a table without images may be in a folder with
        many files.
        """
        paths = _ImagePaths(defaultdict(list), defaultdict(list), defaultdict(list))
        file_count = 0
        for folder, subfolders, names in os.walk(self._folder):
            file_count += len(names)
            depth = len(Path(folder).relative_to(self._folder).parts)
            if depth >= MAX_FOLDER_LEVELS or file_count > MAX_FILES:
                subfolders.clear()
            # os.walk visits what remains in this list, in its order.
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))

            image_names = [name for name in names if PICTURE_FILE.fullmatch(name)]
            for name in sorted(image_names):
                path = f"{folder}/{name}"
                stem = name.rpartition(".")[0]
                paths.by_name[_folded(name)].append(path)
                paths.by_stem[_folded(stem)].append(path)
                if _PADDED.fullmatch(stem):
                    number = stem.lstrip("0") or "0"
                    paths.by_number[number].append(path)
        return paths

    def learn(self, cells: Iterable[object]) -> None:
        """Find the rule that explains where the images of a column are, from all its cells, and
        remember it.

        Nothing is remembered if no rule explains all of them, or several rules find different
        images.
        """
        names: dict[str, None] = {}  # without duplicates, in order
        for content in cells:
            name = _picture_name(content)
            if name:
                names[name] = None
        self._shifted |= self._shift(names)
        for name in names:
            folders, candidates = self._candidates(name)
            gives_whole_path = any(actual == folders for actual, _ in candidates)
            if gives_whole_path:
                self._whole_paths.update(names)
                return

    def _shift(self, cells: Iterable[object]) -> dict[str, Path]:
        """Find the images of all cells by one rule: the same folders of their paths are missing, added or renamed.

        For example, cells with paths such as `old/val/1.jpg` may all be found as `new/val/1.jpg`.

        Returns:
            The image of each cell, by the name in the cell. It is empty if no rule finds all images, or if several rules
            find different ones.
        """
        located: dict[str, Located] = {}
        """For each name, the folders in its path, and the images with the same file name."""
        for content in cells:
            name = _picture_name(content)
            if name in located or not name:
                continue
            folders, candidates = self._candidates(name)
            if folders and candidates:
                located[name] = (folders, candidates)

        common_rules: set[FolderShift] | None = None
        for folders, candidates in located.values():
            rules: set[FolderShift] = set()
            for actual, _ in candidates:
                rules.update(_shifts(folders, actual))
            common_rules = rules if common_rules is None else common_rules & rules
            if not common_rules:
                return {}

        solutions: set[tuple[Path, ...]] = set()
        for rule in common_rules or ():
            if len(located) == 1 and rule.replaced and rule.by:
                continue  # one image is no evidence that a folder was renamed
            files = _files_under(rule, located.values())
            are_distinct = len(set(files)) == len(located)
            if are_distinct:
                solutions.add(files)
        if len(solutions) != 1:
            return {}
        [files] = solutions
        return dict(zip(located, files, strict=True))

    def _candidates(self, cell: str) -> Located:
        """Return the folders that a cell names, and all images with its file name, each with the
        folders that it is in.

        The cell `train/a.jpg` gives `("train",)` and, for example, `[(("images", "train"),
        Path("images/train/a.jpg"))]`.
        """
        folder, _, name = _folded(cell.strip().replace("\\", "/")).rpartition("/")
        paths = (
            self._paths.by_name.get(name)
            or self._paths.by_stem.get(name)
            or self._paths.by_number.get(name)
            or []
        )
        root = _folded(str(self._folder))
        candidates: list[tuple[Folders, Path]] = []
        for path in paths:
            if self._is_other_split(path, folder):
                continue
            actual_folder = _folded(path).removeprefix(root).rpartition("/")[0]
            candidates.append((_folders(actual_folder), Path(path)))
        return _folders(folder), candidates

    def find(self, cell: object) -> Path | None:
        """Return the image that a cell names; None if there is none, or if it could be one of
        several.

        A cell that names a split, such as `train/1.jpg`, never finds an image of another split.
        """
        name = str(cell)
        folders, candidates = self._candidates(name)
        matches: list[Path] = []
        for actual, path in candidates:
            ends_alike = actual[len(actual) - len(folders) :] == folders
            if actual == folders or (ends_alike and name not in self._whole_paths):
                matches.append(path)

        if len(matches) == 1:
            [image] = matches
            if image in self.of_number(cell):
                self.numbered[name] = image
            return image
        moved_image = self._shifted.get(name)
        if moved_image is not None:
            self.moved[name] = moved_image
        return moved_image

    def of_number(self, cell: object) -> list[Path]:
        """Return the images whose name is the number in a cell with zeros before it, as in COCO:
        `000042.jpg` for `42`.

        They are several if images in different folders have the same number; an empty list if there
        are none.
        """
        named_path = str(cell).strip().replace("\\", "/")
        named_folder, _, number = named_path.rpartition("/")
        images = []
        for path in self._paths.by_number.get(number, []):
            if not self._is_other_split(path, _folded(named_folder)):
                images.append(Path(path))
        return images

    def _is_other_split(self, path: str, folder: str) -> bool:
        """Return whether a cell names the folder of one split, such as `train`, and an image is in
        the folder of another.
        """
        image_splits = _splits_of(_folded(path.removeprefix(str(self._folder))))
        cell_splits = _splits_of(folder)
        if not image_splits or not cell_splits:
            return False
        return image_splits.isdisjoint(cell_splits)

    def share(self, cells: list[str]) -> float:
        """Return the share of cells, from 0 to 1, for which there is an image, or several with
        their number. 0 if there are no cells.
        """
        if not cells:
            return 0.0
        shifted = self._shift(cells)
        found_count = 0
        for cell in cells:
            if cell in shifted or self.find(cell) is not None or self.of_number(cell):
                found_count += 1
        return found_count / len(cells)


def _splits_of(path: str) -> set[str]:
    """Return the splits among the folders of a path, as their first three letters: `val` for `validation`."""
    return {folder[:3] for folder in path.split("/") if folder in SPLITS}


def _files_under(rule: FolderShift, located: Iterable[Located]) -> tuple[Path, ...]:
    """Return the image that a rule finds for each cell.

    Returns an empty tuple if the rule finds no image for one of the cells, or more than one.
    """
    files: list[Path] = []
    for folders, candidates in located:
        expected = rule.place(folders)
        matches = [path for actual, path in candidates if actual == expected]
        if len(matches) != 1:
            return ()
        files.append(matches[0])
    return tuple(files)


def _picture_name(content: object) -> str:
    """Return the file name in a cell, which may be a text, a number or an object such as `{"path":
    "a.jpg"}`.

    Empty if the cell is something else, or so long that it contains the image itself.
    """
    name = content.get("path") if isinstance(content, dict) else content
    if not isinstance(name, (str, int)):
        return ""
    text = str(name)
    return text if len(text) <= MAX_CELL_CHARACTERS else ""


def _folders(path: str) -> Folders:
    # A folder above the table, as in `../images/a.jpg`, is not below the folder of images.
    return tuple(part for part in path.split("/") if part not in ("", ".", ".."))


def _shifts(named: Folders, actual: Folders) -> Iterator[FolderShift]:
    """Yield all rules that turn the folders named by a cell into the folders that a file is in.

    For `named = ("train", "a")` and `actual = ("images", "a")` the rules are: anything becomes `images/a`,
    `train/a` becomes `images/a`, and `train` becomes `images`.

    Args:
        named: The folders in the path that a cell gives.
        actual: The folders in the path of the file.
    """
    yield FolderShift(ANY_FOLDER, actual)
    for shared_count in range(min(len(named), len(actual)) + 1):
        named_beginning = named[: len(named) - shared_count]
        actual_beginning = actual[: len(actual) - shared_count]
        named_end = named[len(named_beginning) :]
        actual_end = actual[len(actual_beginning) :]
        if named_end == actual_end:
            yield FolderShift(named_beginning, actual_beginning)
