"""Items that are not made into questions: excluded by a named rule, counted, and reported to the user.

Pools of a source's answers by type, from which distractors are drawn when no model writes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft
from snellen.errors import DataError

NO_WORD = "no letter or digit in the answer, so that any reply would match"


class Exclusion(Struct, frozen=True):
    """An item that a reader excludes from the questions."""

    why: str


def without_exclusions(
    items: Iterable[Draft | Exclusion], path: Path, expected: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Draft]:
    """The drafts among the items; the last draft carries notes on how many items were excluded, and why.

    `expected` gives, by reason, a note for when nothing was excluded for it. Raises DataError without any draft.
    """
    excluded: Counter[str] = Counter()
    last: Draft | None = None
    for item in items:
        if isinstance(item, Exclusion):
            excluded[item.why] += 1
            continue
        if last is not None:
            yield last
        last = item
    notes = tuple(f"{path.name}: {count} left out: {why}" for why, count in sorted(excluded.items()))
    notes += tuple(f"{path.name}: {note}" for why, note in expected.items() if not excluded[why])
    if last is None:
        raise DataError(f"{path}: no question can be made of it" + "".join(f"; {note}" for note in notes))
    yield replace(last, notes=(*last.notes, *notes))


def has_word(text: str) -> bool:
    """Whether a gold has a letter or digit; without one, no word metric can score it (ReForm-Eval's FUNSD)."""
    return any(sign.isalnum() for sign in text)


KeyT = TypeVar("KeyT", bound=Hashable)


def answer_pools(pairs: Iterable[tuple[KeyT, str]]) -> dict[KeyT, tuple[str, ...]]:
    """The distinct answers under each key, in order of first appearance."""
    pools: dict[KeyT, dict[str, None]] = {}
    for key, answer in pairs:
        pools.setdefault(key, {})[answer] = None
    return {key: tuple(answers) for key, answers in pools.items()}


def by_votes(answers: Iterable[str]) -> tuple[str, ...]:
    """Distinct non-empty answers of several annotators, the most frequent first, ties in order of appearance."""
    counts = Counter(answer.strip() for answer in answers)
    counts.pop("", None)
    return tuple(answer for answer, _ in counts.most_common())
