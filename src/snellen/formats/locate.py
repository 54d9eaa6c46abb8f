"""Finding official files in a user's folder by their usual names.

Files of images found by what a table calls them: with other slashes, in other letters, without an ending.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from snellen.callers import source_setting
from snellen.errors import DataError


def locate_file(folder: Path | None, *names: str) -> Path:
    """The first of `names` (relative paths) found in `folder` or up to two folders below it.

    Raises DataError naming everything that was looked for; `folder` is None when the user named no source.

    Examples:
        >>> _ = Path("data").mkdir(), Path("data/birds.csv").write_text("id\\n")
        >>> locate_file(Path("data"), "birds.csv").as_posix()
        'data/birds.csv'
    """
    if folder is None:
        raise DataError(
            f"no folder with the official files; name it with {source_setting()} (it holds {names[0]})"
        )
    if path := locate_or_none(folder, *names):
        return path
    raise DataError(
        f"{folder}: {' or '.join(names)} is missing; is this the folder with the official files?"
    )


def locate_or_none(folder: Path | None, *names: str) -> Path | None:
    """Like `locate_file`, but None when nothing is found; `.` is the folder itself. Raises DataError when a file is found
    twice."""
    if folder is None:
        return None
    for pattern in ("", "*/", "*/*/"):
        for name in names:
            if matches := [folder] if name == "." else sorted(folder.glob(pattern + name)):
                if matches[0].is_file() and len(matches) > 1:
                    raise DataError(
                        f"{matches[0]} and {matches[1]} both exist; name the folder of one with {source_setting()}"
                    )
                return matches[0]
    return None


def base_of(picture: str, bases: Iterable[Path | None], where: str) -> Path:
    """The first of the folders `bases` that holds the image. Raises DataError naming the folders."""
    tried = [base for base in bases if base is not None]
    for base in tried:
        if (base / picture).is_file():
            return base
    raise DataError(
        f"{where}: the image {picture} is in none of {', '.join(map(str, tried))}; unpack the images"
    )


_PADDED = re.compile(r"0\d+", re.ASCII)
PICTURE_FILE = re.compile(r"\S.{0,500}\.(?:png|jpe?g|webp|gif|bmp|tiff?)(?:\?\S*)?", re.IGNORECASE)
MOST_FILES = 200_000
"""Files of any kind, after which no further folder is looked into."""
LONGEST_CELL = 1024
"""Letters of a cell that may name a file; longer ones hold an image."""
DEEPEST = 5
"""Folders within one another that are looked into."""
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def is_image(file: Path) -> bool:
    """Whether a file's name is that of an image."""
    return bool(PICTURE_FILE.fullmatch(file.name)) and not file.name.startswith(".")


def name_in_words(stem: str) -> str:
    """What a file is called, without the number at its end: `red_fox-2` is a red fox. Empty for a number alone."""
    return re.sub(r"[\W_]+", " ", re.sub(r"[\W_]*\d+$", "", stem)).strip()


def splits_in(folder: Path) -> list[str]:
    """The folders of splits in a folder; none where its folders are classes."""
    names = sorted(
        home.name for home in folder.iterdir() if home.is_dir() and not home.name.startswith(".")
    )
    return names if names and SPLITS.issuperset(map(str.casefold, names)) else []


def _folded(name: str) -> str:
    """A name for comparison: in small letters, with accents as one letter each, as not all systems write them."""
    return unicodedata.normalize("NFC", name).casefold()


Folders = tuple[str, ...]
"""Names of folders within one another, for comparison."""
ANY_FOLDER: Folders = ("*",)
"""As the beginning that a shift replaces: all folders of a cell, whatever they are called."""


class FolderShift(NamedTuple):
    """One rule by which files lie elsewhere than the cells of a column say: another beginning of the path."""

    replaced: Folders
    by: Folders

    def place(self, folders: Folders) -> Folders | None:
        """Where the rule looks for what a cell gives in these folders; None where it says nothing of them."""
        if self.replaced == ANY_FOLDER:
            return self.by
        count = len(self.replaced)
        return (*self.by, *folders[count:]) if folders[:count] == self.replaced else None


class ImageFinder:
    """The images below a folder by name.

    An image that is not where its cell says is taken from elsewhere only if one `FolderShift` explains every cell of
    its column (`learn`): else a missing image would be replaced by another one of the same name.
    A cell may leave out the first folders of its path, but not if another cell of its column gives its whole path.
    `moved` holds what was found by such a rule, `numbered` what was found by its number alone.
    """

    def __init__(self, folder: Path) -> None:
        self.moved: dict[str, Path] = {}
        self.numbered: dict[str, Path] = {}
        self._folder = folder
        self._shifted: dict[str, Path] = {}
        self._whole_paths: set[str] = set()

    @cached_property
    def _paths(self) -> tuple[Mapping[str, list[str]], ...]:
        """By name, by name without its ending, and by a name's number without the zeros before it.

        The folder is looked through when an image is first asked for: much may lie beside a table that has none.
        """
        by_name, by_stem, by_number = (defaultdict[str, list[str]](list) for _ in range(3))
        count = 0
        for place, folders, names in os.walk(self._folder):
            count += len(names)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if len(Path(place).relative_to(self._folder).parts) >= DEEPEST or count > MOST_FILES:
                folders.clear()
            for name in sorted(filter(PICTURE_FILE.fullmatch, names)):
                by_name[_folded(name)].append(f"{place}/{name}")
                stem = name.rpartition(".")[0]
                by_stem[_folded(stem)].append(f"{place}/{name}")
                if _PADDED.fullmatch(stem):
                    by_number[stem.lstrip("0") or "0"].append(f"{place}/{name}")
        return by_name, by_stem, by_number

    def learn(self, cells: Iterable[object]) -> None:
        """Look at all cells of a column, for the one rule that says where its images are."""
        names = dict.fromkeys(cell for cell in map(_picture_name, cells) if cell)
        self._shifted |= self._shift(names)
        for cell in names:
            folders, candidates = self._candidates(cell)
            if any(place == folders for place, _ in candidates):
                self._whole_paths.update(names)
                return

    def _shift(self, cells: Iterable[object]) -> dict[str, Path]:
        """By cell, the files that one rule gives; empty where there is no such rule, or more than one."""
        places: dict[str, tuple[Folders, list[tuple[Folders, Path]]]] = {}
        for content in cells:
            cell = _picture_name(content)
            if cell in places or not cell:
                continue
            folders, candidates = self._candidates(cell)
            if folders and candidates:
                places[cell] = (folders, candidates)
        rules: set[FolderShift] | None = None
        for folders, candidates in places.values():
            possible = {rule for place, _ in candidates for rule in _shifts(folders, place)}
            rules = possible if rules is None else rules & possible
            if not rules:
                return {}
        found: set[tuple[Path, ...]] = set()
        for rule in rules or ():
            if len(places) == 1 and rule.replaced and rule.by:
                continue  # one image is no evidence that a folder was renamed
            files = _files_under(rule, places.values())
            if len(set(files)) == len(places):
                found.add(files)
        if len(found) != 1:
            return {}
        [files] = found
        return dict(zip(places, files, strict=True))

    def _candidates(self, cell: str) -> tuple[Folders, list[tuple[Folders, Path]]]:
        """The folders that a cell names, and the files of its name, each with the folders that it lies in."""
        folder, _, name = _folded(cell.strip().replace("\\", "/")).rpartition("/")
        by_name, by_stem, by_number = self._paths
        paths = by_name.get(name) or by_stem.get(name) or by_number.get(name) or []
        base = _folded(str(self._folder))
        candidates = []
        for path in paths:
            if not self._is_other_split(path, folder):
                place = _folded(path).removeprefix(base).rpartition("/")[0]
                candidates.append((_folders(place), Path(path)))
        return _folders(folder), candidates

    def find(self, cell: object) -> Path | None:
        """The one image that a cell names, or None where there is none, or several. An image of one split is not
        taken for that of another."""
        folders, candidates = self._candidates(str(cell))
        if str(cell) in self._whole_paths:
            there = [path for place, path in candidates if place == folders]
        else:
            count = len(folders)
            there = [path for place, path in candidates if place[len(place) - count :] == folders]
        if len(there) != 1:
            shifted = self._shifted.get(str(cell))
            if shifted is not None:
                self.moved[str(cell)] = shifted
            return shifted
        if there[0] in self.of_number(cell):
            self.numbered[str(cell)] = there[0]
        return there[0]

    def of_number(self, cell: object) -> list[Path]:
        """The images whose names are the number of a cell with zeros before it, as in COCO."""
        folder, _, number = str(cell).strip().replace("\\", "/").rpartition("/")
        paths = self._paths[2].get(number, [])
        return [Path(path) for path in paths if not self._is_other_split(path, _folded(folder))]

    def _is_other_split(self, path: str, folder: str) -> bool:
        """Whether an image lies in the folder of one split, and a cell names that of another."""
        splits = [
            {part[:3] for part in parts if part in SPLITS}
            for parts in (
                folder.split("/"),
                _folded(path.removeprefix(str(self._folder))).split("/"),
            )
        ]
        return all(splits) and not splits[0] & splits[1]

    def share(self, cells: list[str]) -> float:
        """The share of a column's cells that name one of the images, or have the number of several."""
        shifted = self._shift(cells)
        named = sum(
            cell in shifted or self.find(cell) is not None or bool(self.of_number(cell))
            for cell in cells
        )
        return named / len(cells) if cells else 0.0


def _files_under(
    rule: FolderShift, places: Iterable[tuple[Folders, list[tuple[Folders, Path]]]]
) -> tuple[Path, ...]:
    """The file that a rule gives each cell; none at all where it gives some cell none, or several."""
    files = []
    for folders, candidates in places:
        expected = rule.place(folders)
        matching = [path for place, path in candidates if place == expected]
        if len(matching) != 1:
            return ()
        files.append(matching[0])
    return tuple(files)


def _picture_name(content: object) -> str:
    """What a cell calls its file; empty if it holds an image, or nothing."""
    name = content.get("path") if isinstance(content, dict) else content
    if not isinstance(name, (str, int)) or len(str(name)) > LONGEST_CELL:
        return ""
    return str(name)


def _folders(path: str) -> Folders:
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _shifts(said: Folders, place: Folders) -> Iterator[FolderShift]:
    """All rules that lead from the folders that a cell names to those that a file lies in."""
    yield FolderShift(ANY_FOLDER, place)
    for count in range(min(len(said), len(place)) + 1):
        if said[len(said) - count :] == place[len(place) - count :]:
            yield FolderShift(said[: len(said) - count], place[: len(place) - count])
