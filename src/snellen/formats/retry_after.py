"""The header by which servers say how long to wait."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def parse_retry_after(value: str, now: float) -> float | None:
    """Return the seconds that a server asks to wait in its Retry-After header (RFC 9110, 10.2.3);
    None if it is unreadable.

    Args:
        value: The header: a number of seconds, or an HTTP date. A date in the past gives 0.
        now: The present time in seconds since 1970.
    """
    value = value.strip()
    if value.replace(".", "", 1).isdecimal() and value.isascii():
        return float(value)
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
