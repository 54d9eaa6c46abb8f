"""Dates in replies, in whatever order of day, month and year they are written."""

from __future__ import annotations

import re
from datetime import date

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIGURES = re.compile(r"(?<![\d/.-])(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?![\d/-])")


def iso_date(text: str) -> date | None:
    """Return the date that a text is in ISO form; None for any other text.

    Examples:
        >>> iso_date("2026-03-22")
        datetime.date(2026, 3, 22)
    """
    if not _ISO.fullmatch(text.strip()):
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None


def states_date(reply: str, expected: date) -> bool:
    """Return whether the only date in a reply may be the expected one: year first, day first or month first.

    Examples:
        >>> states_date("It was 22/03/2026.", date(2026, 3, 22))
        True
        >>> states_date("From 22/03/2026 to 24/03/2026.", date(2026, 3, 22))
        False
    """
    match_by_text = {match[0]: match for match in _FIGURES.finditer(reply)}
    if len(match_by_text) != 1:
        return False
    [match] = match_by_text.values()
    first = int(match[1])
    second = int(match[3])
    third = int(match[4])
    possible_dates = (  # (year, month, day)
        (first, second, third),
        (third, second, first),
        (third, first, second),
    )
    return (expected.year, expected.month, expected.day) in possible_dates
