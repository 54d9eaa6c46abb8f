"""Name settings in messages as the caller writes them: a flag on the command line, a keyword in Python.

A message is written once. `setting("limit", 5)` in it is `--limit 5` while a command runs, and otherwise `limit=5`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import EllipsisType
from typing import Any

REPEATED = frozenset(
    {
        "benchmarks",
        "columns",
        "controls",
        "errata_files",
        "metrics",
        "models",
        "params",
        "protocols",
        "roles",
    }
)
"""Fields with several values, whose flag is given once for each: `--metric` for `metrics`."""


class _Caller:
    """Who called Snellen. All threads of a process answer to the same caller."""

    is_command_line = False
    function = ""
    """The function that takes the settings in Python, if it is not the one that was called."""
    command = ""
    """The command that takes the settings, such as `snellen build FILE`, if it is not the one that was called."""


def is_command_line() -> bool:
    """Return whether a command runs."""
    return _Caller.is_command_line


@contextmanager
def called_from_command_line(is_so: bool = True) -> Iterator[None]:
    """Write the messages of a `with` block for a user of the command line, or of Python if `is_so` is False."""
    before = _Caller.is_command_line
    _Caller.is_command_line = is_so
    try:
        yield
    finally:
        _Caller.is_command_line = before


@contextmanager
def settings_of(function: str, command: str = "") -> Iterator[None]:
    """Name the function and the command that take the settings, in the messages of a `with` block.

    Examples:
        >>> with settings_of("sn.build"):
        ...     setting("no_images", True)
        'sn.build(..., no_images=True)'
    """
    before = _Caller.function, _Caller.command
    _Caller.function = function
    _Caller.command = command
    try:
        yield
    finally:
        _Caller.function, _Caller.command = before


def for_caller(command_line: str, python: str) -> str:
    """Return the words of a message that suit the caller.

    Examples:
        >>> for_caller("run `snellen build`", "call sn.build(...)")
        'call sn.build(...)'
    """
    return command_line if _Caller.is_command_line else python


def setting(name: str, value: Any = ..., *, is_quoted: bool = False) -> str:
    """Return a setting as the user has to write it: a flag on the command line, or a keyword in Python.

    Args:
        name: The name of the setting, which is also the keyword in Python.
        value: Its value: True for a switch, or a dict for a setting that has several values by name (a list in it
            stands for several values of one name). Without a value, the text only names the setting.
        is_quoted: Whether the value is in quotes on the command line, too, as conditions are.

    Examples:
        >>> setting("limit", 5), setting("no_images", True)
        ('limit=5', 'no_images=True')
        >>> with called_from_command_line():
        ...     setting("limit", 5), setting("no_images", True), setting("columns", {"answer": "label"})
        ('--limit 5', '--no-images', '--column answer=label')
    """
    flag = f"{flag_of(name)} {value!r}" if is_quoted else _as_flag(name, value)
    if _Caller.command:
        flag = f"`{_Caller.command} {flag}`"
    keyword = f"{name}={_in_python(value)}"
    if _Caller.function:
        keyword = f"{_Caller.function}(..., {keyword})"
    return for_caller(flag, keyword)


def source_setting() -> str:
    """Return the setting that names the folder of a benchmark's official files, which in Python only `build` has."""
    return for_caller("--source", "sn.build(NAME, source=FOLDER)")


def flag_of(name: str) -> str:
    """Return the command-line flag of a setting: `--max-cost` for `max_cost`, and `--metric` for `metrics`."""
    flag = f"--{name.replace('_', '-')}"
    return flag.removesuffix("s") if name in REPEATED else flag


def _as_flag(name: str, value: Any) -> str:
    """Return a setting as it is written on the command line: `--limit 5`.

    A switch is only its flag. A dict becomes a flag for each of its values, such as `--column tag=city --column
    tag=year` for `{"tag": ["city", "year"]}`.
    """
    flag = flag_of(name)
    if isinstance(value, EllipsisType) or value is True:
        return flag
    if not isinstance(value, Mapping):
        return f"{flag} {_plain(value)}"
    flags: list[str] = []
    for key, item_or_items in value.items():
        is_list = isinstance(item_or_items, (list, tuple))
        items = item_or_items if is_list else [item_or_items]
        for item in items:
            flags.append(f"{flag} {key}={_plain(item)}")
    return " ".join(flags)


def _plain(value: Any) -> str:
    if isinstance(value, EllipsisType):
        return "..."
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_python(value: Any) -> str:
    """Return a value as it is written as a keyword argument in Python. A list with one item is written as that item."""
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = [f"{key!r}: {_in_python(inner)}" for key, inner in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        items = [_in_python(item) for item in value]
        return items[0] if len(items) == 1 else "[" + ", ".join(items) + "]"
    return _plain(value)
