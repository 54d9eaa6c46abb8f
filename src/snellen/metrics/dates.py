"""Dates in replies, in whatever order of day, month and year they are written."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from typing import NamedTuple

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
_YEAR_DIGITS = 4


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


class DateMention(NamedTuple):
    """A date in a text."""

    start: int
    """Where it begins in the text."""
    possible_dates: frozenset[date]
    """What it may mean: one date, or two if day and month may be exchanged."""


def dates_in(text: str) -> list[DateMention]:
    """Return the dates with a year of four digits in a text, in figures with year first, day first or month first.

    Numbers that are no date, such as those of a version or a telephone, are left out.

    Examples:
        >>> [mention.start for mention in dates_in("From 22/03/2026 to 24/03/2026, call 555-12-3456.")]
        [5, 19]
    """
    mentions: list[DateMention] = []
    for match in _NUMERIC_DATE.finditer(text):
        first, second, third = match[1], match[3], match[4]
        orders: list[tuple[str, str, str]] = []  # (year, month, day)
        if len(first) == _YEAR_DIGITS:
            orders.append((first, second, third))
        if len(third) == _YEAR_DIGITS:
            orders += [(third, second, first), (third, first, second)]
        possible_dates: set[date] = set()
        for order in orders:
            with suppress(ValueError):
                possible_dates.add(date(*map(int, order)))
        if possible_dates:
            mentions.append(DateMention(match.start(), frozenset(possible_dates)))
    return mentions
