"""Where Snellen keeps built benchmarks: `$SNELLEN_HOME`, or the user's cache folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from snellen.errors import DataError

LONGEST_NAME = 200
"""Bytes of the name of a folder; file systems end at 255, and several models of one run add to it."""
DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def snellen_home() -> Path:
    """Return the folder in which Snellen keeps what it builds and fetches: `$SNELLEN_HOME`, or the user's cache.

    Examples:
        >>> snellen_home().is_absolute()
        True
    """
    if chosen := os.environ.get("SNELLEN_HOME"):
        return expanded(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("snellen", appauthor=False))


def expanded(path: str | Path) -> Path:
    """Return a path with the user's home folder for `~`.

    Unlike `Path.expanduser`, a `~name` of nobody here stays as it is: no such file is there, which callers report.

    Examples:
        >>> str(expanded("~nobody-of-this-name/runs"))
        '~nobody-of-this-name/runs'
    """
    written = Path(path)
    try:
        return written.expanduser()
    except RuntimeError:
        return written


def benchmark_folder(name: str) -> Path:
    """Return where the benchmark called `name` is, or would be, built."""
    return snellen_home() / "benchmarks" / name


def check_folder_name(name: str, where: str = "") -> None:
    """Raise DataError, which begins with `where`, for a name that is a path, too long, or cannot be printed.

    Examples:
        >>> check_folder_name("run-1", "run")
    """
    if name in (".", "..") or "/" in name or "\\" in name:
        raise DataError(
            f"{where}{name!r} is a path, but a folder name is needed; give the parent folder separately"
        )
    if not name.isprintable() or set(name) & DIRECTION_MARKS:
        raise DataError(
            f"{where}{name!r} contains unprintable characters; use letters, digits, dots and dashes"
        )
    if len(name.encode("utf-8", "replace")) > LONGEST_NAME:
        raise DataError(
            f"{where}{name[:40]!r}... is longer than {LONGEST_NAME} bytes; give a shorter one"
        )


def check_benchmark_name(name: str, where: str = "") -> None:
    """Raise DataError, which begins with `where`, for a name that does not name a place under a folder of benchmarks.

    A name is one or several names of folders, with `/` between them; none begins with a dot or a dash.
    """
    for part in name.split("/"):
        if not part or part[0] in ".-" or part != part.strip():
            raise DataError(
                f"{where}{name!r} is not a valid benchmark name; use letters, digits, dots and dashes, and / "
                "between a suite and its parts"
            )
        check_folder_name(part, where)


def shell_word(name: str | Path) -> str:
    """Return a name or path as one word of a command for a shell, in quotes where it needs them.

    Examples:
        >>> shell_word("runs/my model")
        "'runs/my model'"
    """
    return shlex.quote(str(name))


def slug(text: str) -> str:
    """Return a text as the name of a folder: other characters than letters, digits, `.`, `-` and `_` become dashes.

    Examples:
        >>> slug("hf:org/My Model")
        'hf-org-My-Model'
    """
    characters: list[str] = []
    for character in text:
        is_allowed = character.isalnum() or character in "._-"
        characters.append(character if is_allowed else "-")
    folder_name = "".join(characters)
    while "--" in folder_name:
        folder_name = folder_name.replace("--", "-")
    return folder_name.strip("-.") or "run"
