"""Pools of a source's answers by type, from which distractors are drawn when no model writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

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
