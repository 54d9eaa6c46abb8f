"""The accuracy that a file of predictions prints of itself, beside its records, and whether its replies agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.recognition.folding import folded_name

_NAMES = (
    "accuracy",
    "acc",
    "overall_accuracy",
    "overall_acc",
    "total_accuracy",
    "final_accuracy",
    "accuracy_percent",
    "accuracy_pct",
    "average_score",
    "average_scores",
)
"""Names of fields with the share of right replies among all replies."""
DEEPEST = 3
"""How many levels of nested objects are searched."""
ROUNDED = 0.005
"""How far a printed share may be rounded."""


class PrintedAccuracy(Struct, frozen=True):
    """A share of right replies that a file of predictions states itself."""

    field: str
    """Where it stands: `summary.accuracy`."""
    share: float
    """From 0 to 1."""

    def note(self, share: float) -> str:
        """Return a line that says how far a share of right replies differs from the stated one; empty if it does not."""
        if abs(share - self.share) <= ROUNDED:
            return ""
        return (
            f"the file prints {self.share:.1%} in {self.field!r}, and as its replies are read here {share:.1%} are right: "
            "compare some replies with the right answers"
        )


def printed_accuracy(path: Path) -> PrintedAccuracy | None:
    """Return the accuracy that a JSON file states beside its records.

    None if it states none, or several different ones.
    """
    if path.suffix.casefold() != ".json":
        return None
    try:
        content = read_json_value(path)
    except DataError:
        return None
    for depth in range(DEEPEST):
        printed = list(_printed(content, depth)) if isinstance(content, dict) else []
        if printed:
            shares = {accuracy.share for accuracy in printed}
            return printed[0] if len(shares) == 1 else None
    return None


def _printed(content: Mapping[str, Any], depth: int, outer: str = "") -> Iterator[PrintedAccuracy]:
    """Yield the accuracies at a certain depth of nested objects.

    Args:
        content: The outer object.
        depth: How deep they lie: 1 for the fields of objects that are fields of `content`.
        outer: The path of `content` in the file, with a full stop at its end.
    """
    for name, value in content.items():
        field = f"{outer}{name}"
        if depth and isinstance(value, dict):
            yield from _printed(value, depth - 1, f"{field}.")
        if isinstance(value, list) and value:
            value = value[0]  # of several measures, the first is that of the verdicts
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if depth or not is_number or folded_name(name) not in _NAMES:
            continue
        is_percentage = value > 1 or folded_name(name).endswith(("percent", "pct"))
        share = value / 100 if is_percentage else float(value)
        if 0 <= share <= 1:
            yield PrintedAccuracy(field, share)
