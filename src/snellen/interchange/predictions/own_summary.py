"""The accuracy that a file of predictions prints of itself, beside its records, and whether its replies agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import DataError
from snellen.formats.json_files import read_json_value
from snellen.recognition.columns import split_name
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


def outer_object(path: Path) -> Mapping[str, Any]:
    """Return the object that a JSON file is; an empty one for any other file."""
    if path.suffix.casefold() != ".json":
        return {}
    try:
        content = read_json_value(path)
    except DataError:
        return {}
    return content if isinstance(content, dict) else {}


def check_lists_all(path: Path, content: Mapping[str, Any]) -> None:
    """Raise DataError if the only list of records in a file has the replies that it calls wrong, and no others.

    An accuracy of these rows alone would be near 0, whatever the accuracy of the model.

    Args:
        path: The file, for the message.
        content: The object that the file is.
    """
    lists: dict[str, list[Any]] = {}
    totals: list[int] = []
    for name, value in content.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            lists[name] = value
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if is_count and not _OF_TOTAL.isdisjoint(split_name(name)):
            totals.append(value)
    if len(lists) != 1:
        return
    [(name, listed)] = lists.items()
    total = max(totals, default=0)
    if _OF_WRONG.isdisjoint(split_name(name)) or total <= len(listed):
        return
    printed = printed_accuracy(content)
    stated = f"; the file itself prints {printed.share:.1%} in {printed.field!r}" if printed else ""
    raise DataError(
        f"{path}: {name!r} lists only the replies that the file calls wrong ({len(listed):,} of {total:,}), of which no "
        f"accuracy can be computed{stated}; take the file that has all replies"
    )


_OF_WRONG = frozenset(
    "incorrect wrong error errors failed failure failures mistake mistakes misclassified".split()
)
"""Words in the name of a list of wrong replies: `incorrect_answers`."""
_OF_TOTAL = frozenset("total num n count number".split())
"""Words in the name of a number of questions: `total_questions`."""


def printed_accuracy(content: Mapping[str, Any]) -> PrintedAccuracy | None:
    """Return the accuracy that the object of a JSON file states beside its records.

    None if it states none, or several different ones.
    """
    for depth in range(DEEPEST):
        printed = list(_printed(content, depth))
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
