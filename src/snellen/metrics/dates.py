"""Dates in replies, in whatever order of day, month and year they are written."""

from __future__ import annotations

import re
from datetime import date

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTHS = tuple(
    "January February March April May June July August September October November December".split()
)
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in _MONTHS)
_DATE_WITH_MONTH_NAME = re.compile(
    rf"\b(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?"
    rf"|(?P<first_day>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?(?P<second_month>{_MONTH})\.?,?) (?P<year>\d{{4}})\b",
    re.IGNORECASE,
)
"""A date with its month in words: `March 22, 2026`, `22 Mar 2026`."""
_NUMERIC_DATE = re.compile(r"(?<![\d/.-])(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})(?![\d/-])")


def date_in_full(text: str) -> date | None:
    """Return the date that a text is, in ISO form or with its month in words; None for any other text.

    Examples:
        >>> date_in_full("2026-03-22"), date_in_full("22 March 2026"), date_in_full("22/03/2026")
        (datetime.date(2026, 3, 22), datetime.date(2026, 3, 22), None)
    """
    dated = in_iso_form(text.strip())
    if not _ISO_DATE.fullmatch(dated):
        return None
    try:
        return date.fromisoformat(dated)
    except ValueError:
        return None


def in_iso_form(text: str) -> str:
    """Return a text in which each date that has its month in words is replaced by the same date in ISO form.

    Examples:
        >>> in_iso_form("It was on March 22nd, 2026.")
        'It was on 2026-03-22.'
    """
    return _DATE_WITH_MONTH_NAME.sub(_iso_form_of_match, text)


def _iso_form_of_match(match: re.Match[str]) -> str:
    """Return a match of `_DATE_WITH_MONTH_NAME` as a date in ISO form."""
    month_name = match["month"] or match["second_month"]
    short_names = [name[:3].casefold() for name in _MONTHS]
    month = 1 + short_names.index(month_name[:3].casefold())
    day = int(match["day"] or match["first_day"])
    return f"{match['year']}-{month:02}-{day:02}"


def has_date(reply: str) -> bool:
    """Return whether a reply has a date, in figures or with its month in words."""
    return _NUMERIC_DATE.search(in_iso_form(reply)) is not None


def states_date(reply: str, expected: date) -> bool:
    """Return whether the only date in a reply may be the expected one: year first, day first or month first.

    Examples:
        >>> states_date("It was 22/03/2026.", date(2026, 3, 22)), states_date("March 22, 2026", date(2026, 3, 22))
        (True, True)
        >>> states_date("From 22/03/2026 to 24/03/2026.", date(2026, 3, 22))
        False
    """
    match_by_text = {match[0]: match for match in _NUMERIC_DATE.finditer(in_iso_form(reply))}
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
