"""The forms of verdicts that docs/judging.md promises are those that are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from snellen.protocols.verdict import Verdict, read_label, read_number

PAGE = Path(__file__).parent.parent / "docs/judging.md"


def read_option(text: str) -> Verdict | None:
    return read_label(text, ("a cat", "a dog", "a bus"), ("A", "B", "C"), "X")


def read_mark(text: str) -> Verdict | None:
    return read_number(text, 1, 5)


def read_mark_of_ten(text: str) -> Verdict | None:
    return read_number(text, 1, 10, decimals=True)


def read_right(text: str) -> Verdict | None:
    return read_number(text, 0, 1)


def rows_of_page() -> list[tuple[str, list[str], list[str]]]:
    section = PAGE.read_text("utf-8").partition("## What a judge must reply")[2]
    table = section.partition("| Asked |")[2].partition("\n\n")[0]
    rows = []
    for line in table.splitlines()[2:]:
        asked, counting, others = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((asked, re.findall(r"`(.*?)`", counting), re.findall(r"`(.*?)`", others)))
    return rows


@pytest.mark.parametrize(
    ("place", "read", "values"),
    [
        (0, read_option, {1, None}),
        (1, read_mark, {4}),
        (2, read_mark_of_ten, {7, 7.5}),
        (3, read_right, {0, 1}),
    ],
)
def test_what_the_page_says_of_verdicts_is_so(
    place: int, read: Callable[[str], Verdict | None], values: set[float | None]
) -> None:
    asked, counting, others = rows_of_page()[place]
    assert len(counting) >= 4 and len(others) >= 3, asked
    for text in counting:
        verdict = read(text)
        assert verdict is not None and verdict.value in values, text
    for text in others:
        assert read(text) is None, text
