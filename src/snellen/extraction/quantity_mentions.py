"""Where a text names an option that is a quantity: by its value and unit, in whatever way they are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from snellen.common.late import late_pattern
from snellen.formats.quantities import (
    Date,
    DecimalSign,
    Quantity,
    dates,
    days_come_first,
    decimal_sign,
    quantities,
    whole_date,
    whole_quantity,
)


class QuantityOptions(NamedTuple):
    """What the options are as quantities."""

    of_place: tuple[Quantity | None, ...]
    decimal: DecimalSign | None
    """The sign before decimals that the options show."""


class QuantityMatch(NamedTuple):
    """A quantity in a text: [start, end), and the options that it is; none for a number of something else."""

    start: int
    end: int
    places: tuple[int, ...]
    loose: bool
    """Without the unit that the option has."""


def quantity_options(options: Sequence[str]) -> QuantityOptions | None:
    """The quantities that options are; None where fewer than two, or fewer than half, are any."""
    if not any(sign.isdigit() or sign in "πi" for option in options for sign in option[:200]):
        return None
    texts = [option if len(option) <= _LONGEST else "" for option in options]
    decimal = decimal_sign(texts)
    of_place = tuple(whole_quantity(option, decimal) for option in texts)
    some = sum(quantity is not None for quantity in of_place)
    return QuantityOptions(of_place, decimal) if some >= max(2, len(of_place) / 2) else None


_LONGEST = 200
_OPERATOR_BEHIND = late_pattern(
    r"\s{0,12}(?:[+×÷·*/^=≈]|[-−]\s?[\d√π]|x\s?\d|(?:plus|minus|times|divided by|of the|out of|von)\b)", re.IGNORECASE
)
_OPERATOR_BEFORE = late_pattern(
    r"(?:[+×÷·*/^√(]|[\d%)π]\s?[-−]|\bx|\b(?:plus|minus|times|by|out of))\s{0,3}\Z", re.IGNORECASE
)


def quantity_matches(text: str, offered: QuantityOptions) -> list[QuantityMatch]:
    """All quantities of a text, in order. Operands of a sum name no option; its result, behind =, does."""
    decimal = offered.decimal if decimal_sign([text]) is None else decimal_sign([text])
    return [_matched(text, quantity, offered) for quantity in quantities(text, decimal)]


def _matched(text: str, quantity: Quantity, offered: QuantityOptions) -> QuantityMatch:
    if _operand(text, quantity):
        return QuantityMatch(quantity.start, quantity.end, (), False)
    equal = [p for p, option in enumerate(offered.of_place) if option is not None and quantity.equals(option)]
    if not equal and quantity.unit == "%":
        equal = [p for p, option in enumerate(offered.of_place) if option is not None and _is_share(quantity, option)]
    same_unit = [p for p in equal if offered.of_place[p].unit == quantity.unit]  # type: ignore[union-attr]
    places = same_unit or [p for p in equal if not quantity.unit or not offered.of_place[p].unit] or equal  # type: ignore[union-attr]
    return QuantityMatch(quantity.start, quantity.end, tuple(places), not same_unit)


def _is_share(percent: Quantity, option: Quantity) -> bool:
    """Whether a number of per cent is a fraction without a unit: 50 % of 1/2."""
    if option.unit or len(percent.values) != 1 or len(option.values) != 1 or not 0 < option.values[0] < 1:
        return False
    return (percent.root, percent.pi) == (option.root, option.pi) and percent.values[0] / 100 == option.values[0]


def _operand(text: str, quantity: Quantity) -> bool:
    before = text[max(0, quantity.start - 12) : quantity.start]
    if _OPERATOR_BEHIND.match(text, quantity.end):
        return True
    match = _OPERATOR_BEFORE.search(before)
    return match is not None and not (
        match[0].startswith("(") and text[quantity.end : quantity.end + 2].lstrip()[:1] == ")"
    )


class DateOptions(NamedTuple):
    """What the options are as dates."""

    of_place: tuple[Date | None, ...]
    day_first: bool | None
    """Whether the options write the day before the month."""


def date_options(options: Sequence[str]) -> DateOptions | None:
    """The dates that options are; None where fewer than two, or fewer than half, are any."""
    texts = [option if len(option) <= _LONGEST and any(map(str.isdigit, option)) else "" for option in options]
    if not any(texts):
        return None
    day_first = days_come_first(texts)
    of_place = tuple(whole_date(option, day_first=day_first) for option in texts)
    some = sum(date is not None for date in of_place)
    return DateOptions(of_place, day_first) if some >= max(2, len(of_place) / 2) else None


def date_matches(text: str, offered: DateOptions) -> list[QuantityMatch]:
    """All dates of a text, in order, with the options that they are."""
    matches = []
    for date in dates(text, day_first=offered.day_first):
        places = tuple(p for p, option in enumerate(offered.of_place) if option is not None and date.equals(option))
        matches.append(QuantityMatch(date.start, date.end, places, loose=False))
    return matches
