"""Finding official files in a user's folder by their usual names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from snellen.errors import DataError


def locate(folder: Path | None, *names: str) -> Path:
    """The first of `names` (relative paths) found in `folder` or up to two folders below it.

    Raises DataError naming everything that was looked for; `folder` is None when the user named no source.
    """
    if folder is None:
        raise DataError(f"no folder with the official files; name it with --source (it holds {names[0]})")
    if path := locate_or_none(folder, *names):
        return path
    raise DataError(f"{folder}: {' or '.join(names)} is missing; is this the folder with the official files?")


def locate_or_none(folder: Path | None, *names: str) -> Path | None:
    """Like `locate`, but None when nothing is found. Raises DataError when a file is found twice."""
    if folder is None:
        return None
    for pattern in ("", "*/", "*/*/"):
        for name in names:
            if matches := sorted(folder.glob(pattern + name)):
                if matches[0].is_file() and len(matches) > 1:
                    raise DataError(f"{matches[0]} and {matches[1]} both exist; name the folder of one with --source")
                return matches[0]
    return None


def base_of(picture: str, bases: Iterable[Path | None], where: str) -> Path:
    """The first of the folders `bases` that holds the picture. Raises DataError naming the folders."""
    tried = [base for base in bases if base is not None]
    for base in tried:
        if (base / picture).is_file():
            return base
    raise DataError(f"{where}: the picture {picture} is in none of {', '.join(map(str, tried))}; unpack the pictures")
