"""How well a set of questions is spread: dev and test by ability, and what would make its numbers weak."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.common.seeds import rng_for
from snellen.formats.delimited import LETTERS
from snellen.suites.mmbench.taxonomy import Leaf

DEV_SHARE = 0.4
"""Share of the dev split: MMBench has dev and test as 4 to 6."""
MIN_TEST_QUESTIONS = 25
"""Questions of an ability in test below which one of them counts for more than 4 points."""
MAX_SIZE_RATIO = 4
"""How many times as large as the smallest ability the largest one may be."""


class BalanceItem(Struct, frozen=True):
    """What of a question bears on balance. `picture` is a digest."""

    index: str
    leaf: Leaf
    count: int
    """Number of its options."""
    gold: int
    picture: str


class LeafBalance(Struct, frozen=True):
    """One ability (a leaf), or with an empty leaf all of them."""

    leaf: Leaf
    dev: int
    test: int
    chance: float
    """Share of questions that guessing gets right."""
    letters: tuple[int, ...]
    """How often A, B, ... is correct."""

    @property
    def total(self) -> int:
        return self.dev + self.test


def choose_dev(items: Sequence[BalanceItem], name: str) -> frozenset[str]:
    """Indexes of the dev split: 40 % of each ability within one question, and of all together.

    Drawn by `name` (of the benchmark) and the ability alone. An ability with two questions or more has some in
    both splits.
    """
    by_leaf = _by_leaf(items)
    quota = {leaf: DEV_SHARE * len(members) for leaf, members in by_leaf.items()}
    counts = {leaf: math.floor(share) for leaf, share in quota.items()}
    most = sorted(by_leaf, key=lambda leaf: (counts[leaf] - quota[leaf], leaf))
    for leaf in most[: round(DEV_SHARE * len(items)) - sum(counts.values())]:
        counts[leaf] += 1
    chosen: list[str] = []
    for leaf, members in by_leaf.items():
        indexes = [item.index for item in members]
        rng_for(name, "/".join(leaf), "split").shuffle(indexes)
        least = min(1, len(members) // 2)
        chosen += indexes[: max(least, counts[leaf])]
    return frozenset(chosen)


def _by_leaf(items: Sequence[BalanceItem]) -> dict[Leaf, list[BalanceItem]]:
    by_leaf: dict[Leaf, list[BalanceItem]] = defaultdict(list)
    for item in items:
        by_leaf[item.leaf].append(item)
    return dict(sorted(by_leaf.items()))


def balance_by_leaf(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[LeafBalance]:
    """A part for each ability, then one for all questions."""
    return [_part(leaf, members, dev) for leaf, members in (*_by_leaf(items).items(), (("", ""), list(items)))]


def _part(leaf: Leaf, items: Sequence[BalanceItem], dev: frozenset[str]) -> LeafBalance:
    golds = Counter(item.gold for item in items)
    in_dev = sum(item.index in dev for item in items)
    return LeafBalance(
        leaf,
        in_dev,
        len(items) - in_dev,
        sum(1 / item.count for item in items) / len(items),
        tuple(golds[place] for place in range(max(item.count for item in items))),
    )


def balance_warnings(items: Sequence[BalanceItem], dev: frozenset[str]) -> list[str]:
    """What would make the numbers of these questions weak, one line each; empty if nothing does."""
    *leaves, whole = balance_by_leaf(items, dev)
    warnings = [line for part in leaves for line in _few(part)]
    warnings += _letters(whole, items, "all questions")
    for part in leaves:
        warnings += _letters(part, [item for item in items if item.leaf == part.leaf], part.leaf[1])
    smallest, largest = (pick(leaves, key=lambda part: part.total) for pick in (min, max))
    if largest.total > MAX_SIZE_RATIO * smallest.total:
        warnings.append(
            f"{largest.leaf[1]} has {largest.total} questions and {smallest.leaf[1]} {smallest.total}: the overall "
            "accuracy is mostly that of the large ones"
        )
    pictures = {split: {i.picture for i in items if (i.index in dev) == split} for split in (True, False)}
    if shared := pictures[True] & pictures[False]:
        warnings.append(f"pictures in both splits: {len(shared)}; whoever trains on dev has seen them")
    return warnings


def _few(part: LeafBalance) -> Iterator[str]:
    if not part.dev or not part.test:
        yield f"{part.leaf[1]} has {part.dev} questions in dev and {part.test} in test: it has too few to be split"
    elif part.test < MIN_TEST_QUESTIONS:
        yield f"{part.leaf[1]} has {part.test} questions in test: one of them is {100 / part.test:.1f} points"


def _letters(part: LeafBalance, items: Sequence[BalanceItem], name: str) -> Iterator[str]:
    """A letter that is correct far more often than chance has it: whoever names it always gets that share."""
    place = max(range(len(part.letters)), key=lambda place: part.letters[place])
    even = sum(1 / item.count for item in items if item.count > place) / part.total
    share = part.letters[place] / part.total
    if share - even > 3 * math.sqrt(even * (1 - even) / part.total):
        yield (
            f"{name}: {LETTERS[place]} is correct {share:.0%} of the time, {even:.0%} would be even; shuffle the "
            "options (CircularEval forgives it, one pass does not)"
        )
