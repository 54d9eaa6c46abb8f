"""Days of the calendar as texts write them: 5 August 2024, 05/08/2024, 8月5日, March 13th."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from snellen.formats.late_patterns import late_pattern

_MONTHS = (
    "january jan januar januari janvier enero janeiro gennaio styczeń stycznia январь января ocak tháng_1 जनवरी يناير",
    "february feb februar februari février febrero fevereiro febbraio luty lutego февраль февраля şubat फ़रवरी فبراير",
    "march mar märz maart mars marzo março marzec marca март марта mart maret मार्च مارس",
    "april apr avril abril aprile kwiecień kwietnia апрель апреля nisan अप्रैल أبريل",
    "may mai mei mayo maio maggio maj maja май мая mayıs मई مايو",
    "june jun juni juin junio junho giugno czerwiec czerwca июнь июня haziran जून يونيو",
    "july jul juli juillet julio julho luglio lipiec lipca июль июля temmuz जुलाई يوليو",
    "august aug augustus août agosto sierpień sierpnia август августа ağustos agustus अगस्त أغسطس",
    "september sep sept septembre septiembre setembro settembre wrzesień września сентябрь сентября eylül सितंबर سبتمبر",
    "october oct oktober octobre octubre outubro ottobre październik października октябрь октября ekim अक्टूबर أكتوبر",
    "november nov novembre noviembre novembro listopad listopada ноябрь ноября kasım नवंबर نوفمبر",
    "december dec dezember décembre diciembre dezembro dicembre grudzień grudnia декабрь декабря aralık "
    "desember दिसंबर ديسمبر",
)
_MONTH_OF = {name.replace("_", " "): number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_NAMES = "|".join(sorted(map(re.escape, _MONTH_OF), key=len, reverse=True))
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th|er|º|ª|\.)?"
_YEAR = r"(?:,? ?(?:de |del |г\. ?)?(?P<year>\d{4}))?(?!\d)"
_FORMS = tuple(
    late_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<!\d){_DAY} (?:de |of |d')?(?P<name>{_NAMES})(?![^\W\d_])\.?{_YEAR}",
        rf"(?<![^\W_])(?P<name>{_NAMES})\.? (?:the )?{_DAY}(?![\d]){_YEAR}",
        r"(?:(?P<year>\d{4}) ?[年년] ?)?(?P<month>\d{1,2}) ?[月월] ?(?P<day>\d{1,2}) ?[日号號일]",
        r"(?<![\d.,/-])(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})(?![\d/-])",
        r"(?<![\d.,/-])(?P<one>\d{1,2})(?P<sign>[-/.])(?P<other>\d{1,2})(?:(?P=sign)(?P<year>\d{4}|\d{2}))?(?![\d/%-])",
    )
)


class Date(Struct, frozen=True):
    """A day, where it stands in a text, and its readings as (month, day): two where their order is open."""

    days: tuple[tuple[int, int], ...]
    year: int | None
    start: int
    end: int

    def equals(self, other: Date) -> bool:
        """The same day; a missing year agrees with any."""
        years = self.year is None or other.year is None or self.year % 100 == other.year % 100
        return years and not set(self.days).isdisjoint(other.days)


def dates(text: str, *, day_first: bool | None = None) -> list[Date]:
    """All dates of a text, in order; `day_first` settles what 05/08 is."""
    every = [date for pattern in _FORMS for match in pattern.finditer(text) if (date := _date(match, day_first))]
    kept: list[Date] = []
    for date in sorted(every, key=lambda date: (date.start, -date.end)):
        if not kept or date.start >= kept[-1].end:
            kept.append(date)
    return kept


def _date(match: re.Match[str], day_first: bool | None) -> Date | None:
    groups = match.groupdict()
    year = int(groups["year"]) if groups.get("year") else None
    if groups.get("one"):
        one, other = int(groups["one"]), int(groups["other"])
        days = {True: [(other, one)], False: [(one, other)], None: [(other, one), (one, other)]}[day_first]
    else:
        name = groups.get("name")
        month = _MONTH_OF[name.lower()] if name else int(groups["month"])
        days = [(month, int(groups["day"]))]
    possible = tuple(dict.fromkeys(pair for pair in days if 1 <= pair[0] <= 12 and 1 <= pair[1] <= 31))
    return Date(possible, year, match.start(), match.end()) if possible else None


def days_come_first(texts: Sequence[str]) -> bool | None:
    """Whether texts of one hand write the day before the month, where one of them shows it."""
    for text in texts:
        for date in dates(text):
            digits = re.match(r"(\d{1,2})[-/.](\d{1,2})", text[date.start :])
            if digits and len(date.days) == 1 and int(digits[1]) != int(digits[2]):
                return int(digits[1]) > 12
    return None


def whole_date(text: str, *, day_first: bool | None = None) -> Date | None:
    """The date that a text is, with nothing else in it."""
    every = dates(text.strip(), day_first=day_first)
    alone = len(every) == 1 and every[0].start == 0 and every[0].end == len(text.strip())
    return every[0] if alone else None
