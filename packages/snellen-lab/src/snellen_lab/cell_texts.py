"""Texts of table cells that may have no number."""

from __future__ import annotations

from snellen.plugin_api import decimal_text, percent_text

DASH = "—"
"""The text of a cell without a number."""


def percent_or_dash(share: float | None) -> str:
    """Return a share in percent, or a dash for None: 0.25 gives `25.0%`."""
    return DASH if share is None else percent_text(share)


def decimal_or_dash(value: float | None, digits: int) -> str:
    """Return a number with a fixed number of digits after the decimal point, or a dash for None."""
    return DASH if value is None else decimal_text(value, digits)
