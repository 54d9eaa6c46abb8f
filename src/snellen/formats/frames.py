"""Data frames of polars, which is an optional dependency: building, running and scoring need none."""

from __future__ import annotations

from importlib.util import find_spec

from snellen.errors import MissingExtraError


def check_polars() -> None:
    """Raise MissingExtraError where polars is not installed."""
    if find_spec("polars") is None:
        raise MissingExtraError("polars", "frames", "a table as a data frame")
