"""What `build` and `reform` have in common: columns said by flags, and doubts that are asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from snellen.cli.show import announce, err
from snellen.errors import DataError, WrongRowsError
from snellen.recognition.columns import Doubt
from snellen.recognition.own_sources import refuse_doubt


def column_flags(texts: Sequence[str]) -> dict[str, list[str]]:
    """`picture=Foto`, once or several times, as the columns of each role."""
    columns: dict[str, list[str]] = {}
    for text in texts:
        role, equals, column = text.partition("=")
        if not equals or not column:
            raise DataError(f"--column {text}: write it as ROLE=COLUMN, such as picture=Foto")
        columns.setdefault(role, []).append(column)
    return columns


_OF_A_ROW = re.compile(r":\d+: |: (?:record|row|image) \w+:")


@contextmanager
def naming_leniency(lenient: bool) -> Iterator[None]:
    """Say how a file with wrong rows is built all the same."""
    try:
        yield
    except WrongRowsError as error:
        if not lenient and all(map(_OF_A_ROW.search, error.faults)):
            announce("rows that cannot be used are named below; --lenient leaves them out and counts them")
        raise


def ask_user(path: Path, doubt: Doubt) -> str:
    """Have a user decide with one key. Raises DataError with the choices where nobody can be asked."""
    if not (sys.stdin.isatty() and err.is_terminal):
        return refuse_doubt(path, doubt)
    err.print(f"{path.name}: {doubt.why}. Which?")
    for number, choice in enumerate(doubt.choices[:9], 1):
        err.print(f"  {number}  {choice}")
    while (key := click.getchar()) not in map(str, range(1, len(doubt.choices[:9]) + 1)):
        if key in ("q", "\x1b", "\x03", "\x04"):
            return refuse_doubt(path, doubt)
    return doubt.choices[int(key) - 1]
