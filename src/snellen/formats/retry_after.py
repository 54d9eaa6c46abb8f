"""The header by which servers say how long to wait."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, or None when it cannot be read (RFC 9110, 10.2.3).

    It is a number of seconds or an HTTP date; `now` is seconds since 1970. A past date is 0.
    """
    value = value.strip()
    if value.replace(".", "", 1).isdecimal() and value.isascii():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
