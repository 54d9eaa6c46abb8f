"""Results as flat dicts of plain values, as `results.json` and frames have them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from snellen.records import Estimate, Result

_ESTIMATE = frozenset(Estimate.__struct_fields__)
FIRST = ("model", "benchmark", "metric", "value", "low", "high", "n", "protocol")
"""Columns that stand first, so that a frame's few printed ones have the numbers."""


def flat_row(row: Result) -> dict[str, Any]:
    """A result as a flat dict of plain values."""
    fields = {**asdict(row), **asdict(row.estimate)}
    del fields["estimate"]
    return {name: fields[name] for name in dict.fromkeys((*FIRST, *fields))}


def result_of_flat(flat: Mapping[str, Any]) -> Result:
    """The result behind a flat dict. Raises msgspec.ValidationError."""
    estimate = {name: value for name, value in flat.items() if name in _ESTIMATE}
    rest = {name: value for name, value in flat.items() if name not in _ESTIMATE}
    return msgspec.convert({**rest, "estimate": estimate}, Result)
