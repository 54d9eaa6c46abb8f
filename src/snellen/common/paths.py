"""Folders in which Snellen stores files (`$SNELLEN_HOME`, or the user's cache folder), and checks of their names."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from snellen.errors import DataError

MAX_NAME_BYTES = 200
"""Bytes of the name of a folder; file systems end at 255, and several models of one run add to it."""
DIRECTION_MARKS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def snellen_home() -> Path:
    """Return the folder in which Snellen keeps what it builds and fetches: `$SNELLEN_HOME`, or the user's cache.

    Examples:
        >>> snellen_home().is_absolute()
        True
    """
    chosen_folder = os.environ.get("SNELLEN_HOME")
    if chosen_folder:
        return expanded(chosen_folder)
    import platformdirs

    return Path(platformdirs.user_cache_dir("snellen", appauthor=False))


def expanded(path: str | Path) -> Path:
    """Return a path in which `~` is replaced by the user's home folder.

    Unlike `Path.expanduser`, it returns `~name` unchanged if there is no user of this name. There is no such file, which
    callers report.

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
    """Return the folder in which a benchmark is built, whether it exists or not."""
    return snellen_home() / "benchmarks" / name


def check_folder_name(name: str, where: str = "") -> None:
    """Check that a name can be the name of a folder.

    Args:
        name: The name.
        where: Beginning of the error message.

    Raises:
        DataError: The name is a path, is too long, or has characters that cannot be printed.

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
    if len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise DataError(
            f"{where}{name[:40]!r}... is longer than {MAX_NAME_BYTES} bytes; give a shorter one"
        )


def check_benchmark_name(name: str, where: str = "") -> None:
    """Check that a name can be the name of a benchmark: one or several names of folders, with `/` between them.

    Args:
        name: The name.
        where: Beginning of the error message.

    Raises:
        DataError: It is not valid, for example because a part is empty, or begins with a dot or a dash.
    """
    for part in name.split("/"):
        if not part or part[0] in ".-" or part != part.strip():
            raise DataError(
                f"{where}{name!r} is not a valid benchmark name; use letters, digits, dots and dashes, and / "
                "between a suite and its parts"
            )
        check_folder_name(part, where)


def shell_word(name: str | Path) -> str:
    """Return a name or path as one word of a shell command, in quotes if it needs them.

    Examples:
        >>> shell_word("runs/my model")
        "'runs/my model'"
    """
    return shlex.quote(str(name))


def slug(text: str) -> str:
    """Turn a text into the name of a folder: all characters except letters, digits, `.`, `-` and `_` become dashes.

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
