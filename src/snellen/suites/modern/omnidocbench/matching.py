"""Which blocks of a reply are to be compared with which blocks of the correct page (the makers' `quick_match`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from snellen.metrics.ocr import edit_distance

_ALIKE = 0.25
"""Blocks with a lower distance belong together, so that they are not joined with their neighbours."""
_PART = 0.6
"""Distance below which a block of a reply can be a part of a correct block."""
_DIFFERENT = 0.7
"""Blocks with a higher distance are not paired at first."""
_CONTAINED = 0.4
"""Distance below which a block of a reply contains a correct block."""


class Pair(Struct, frozen=True):
    """Correct blocks and blocks of a reply that are compared with each other, by their indexes. Either may be none."""

    golds: tuple[int, ...]
    replies: tuple[int, ...]


def quick_match(golds: Sequence[str], replies: Sequence[str]) -> list[Pair]:
    """Return which blocks of a reply are compared with which correct blocks.

    1. Blocks of the reply that follow each other are joined if together they are closer to a correct block.
    2. Blocks are assigned to correct blocks so that the sum of their distances is least. A pair with a distance
       above 0.7 is given up.
    3. A correct block that has none is assigned to a block of the reply that contains it.
    4. The correct blocks that still have none are assigned to blocks that remain, whatever their distance.

    As in the makers' code, correct blocks that have none occur twice if no block of the reply remains. Blocks that
    remain are left out if there were correct blocks without one.

    Args:
        golds: The correct blocks in the form in which they are compared; none is empty.
        replies: The blocks of the reply, likewise.
    """
    if not golds:
        return [Pair((), (reply,)) for reply in range(len(replies))]
    if not replies:
        return [Pair((gold,), ()) for gold in range(len(golds))]
    if len(golds) == len(replies) == 1:
        return [Pair((0,), (0,))]

    matched: dict[tuple[int, ...], list[int]] = {}
    unmatched: list[int] = []
    assigned = _assign(golds, replies)
    for gold in range(len(golds)):
        if gold in assigned:
            matched[assigned[gold]] = [gold]
        else:
            unmatched.append(gold)
    _add_contained(matched, unmatched, golds, replies)
    return _with_rest(matched, golds, replies)


def assign_least(costs: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Return the pairs of row and column with the least sum of costs, each row and column at most once."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return [(int(row), int(column)) for row, column in zip(rows, columns, strict=True)]


def distances(golds: Sequence[str], replies: Sequence[str]) -> list[list[float]]:
    """Return the edit distance of each pair of texts, divided by the length of the longer one."""
    return [[_distance(gold, reply) for reply in replies] for gold in golds]


@lru_cache(maxsize=4096)
def _distance(first: str, second: str) -> float:
    longest = max(len(first), len(second))
    return edit_distance(first, second) / longest if longest else 0.0


def _assign(golds: Sequence[str], replies: Sequence[str]) -> dict[int, tuple[int, ...]]:
    """Return, for each correct block, the blocks of the reply that it is paired with, if there are any."""
    costs = distances(golds, replies)
    runs = _runs(golds, replies, costs)
    if runs is not None:
        joined = [" ".join(replies[index] for index in run) for run in runs]
        costs = distances(golds, joined)
    else:
        runs = [(index,) for index in range(len(replies))]
    assigned: dict[int, tuple[int, ...]] = {}
    for gold, column in assign_least(costs):
        if costs[gold][column] <= _DIFFERENT:
            assigned[gold] = runs[column]
    return assigned


def _runs(
    golds: Sequence[str], replies: Sequence[str], costs: Sequence[Sequence[float]]
) -> list[tuple[int, ...]] | None:
    """Return the blocks of a reply as runs, each to be joined; None if no block is to be joined."""
    settled_golds: set[int] = set()
    settled_replies: set[int] = set()
    for gold, row in enumerate(costs):
        for reply, cost in enumerate(row):
            if cost < _ALIKE:
                settled_golds.add(gold)
                settled_replies.add(reply)
    free_replies = [index for index in range(len(replies)) if index not in settled_replies]
    if not free_replies:
        return None

    candidates: list[_Run] = []
    for gold, text in enumerate(golds):
        if gold in settled_golds:
            continue
        best: _Run | None = None
        for first in free_replies:
            blocks = _longest_run(text, replies, first, settled_replies)
            joined = " ".join(replies[index] for index in blocks)
            cost = _distance(text, joined)
            if best is None or cost < best.cost:
                best = _Run(blocks, cost)
        if best is not None:
            candidates.append(best)
    if not candidates:
        return None

    runs: list[tuple[int, ...]] = []
    chosen = {run[0]: run for run in _compatible(candidates)}
    index = 0
    while index < len(replies):
        run = chosen.get(index, (index,))
        runs.append(run)
        index += len(run)
    return runs


class _Run(Struct, frozen=True):
    """Blocks of a reply that follow each other, and the distance of all of them together from a correct block."""

    blocks: tuple[int, ...]
    cost: float


def _longest_run(
    gold: str, replies: Sequence[str], first: int, settled: set[int]
) -> tuple[int, ...]:
    """Return the blocks of a reply, from `first` on, that together may be a correct block."""
    blocks = [replies[first]]
    end = first + 1
    while end < len(replies) and end not in settled:
        blocks.append(replies[end])
        if not _continues(gold, blocks):
            break
        end += 1
        if len(" ".join(blocks)) > len(gold):
            break
    return tuple(range(first, end))


def _continues(gold: str, blocks: Sequence[str]) -> bool:
    """Return whether the last of some blocks continues the part of a correct block that the others give."""
    before = _distance(gold, " ".join(blocks[:-1]))
    together = _distance(gold, " ".join(blocks))
    if together > before:
        return False
    if any(_distance_from_part(gold, block) > _PART for block in blocks[:-1]):
        return False
    return _distance_from_part(gold, blocks[-1]) < _PART


@lru_cache(maxsize=4096)
def _distance_from_part(text: str, part: str, limit: float = _PART) -> float:
    """Return the least distance of `part` from a part of `text` of the same length, divided by that length.

    It is 1 if `part` is longer than the text, or if the distance is above `limit`.
    """
    if len(part) > len(text):
        return 1.0
    best = int(limit * len(part)) + 1
    bounds = _distances_by_end(text, part)
    for end in range(len(part), len(text) + 1):
        if bounds[end - 1] < best:
            window = text[end - len(part) : end]
            best = min(best, edit_distance(window, part))
    return best / len(part) if best <= limit * len(part) else 1.0


def _distances_by_end(text: str, part: str) -> list[int]:
    """Return, for each position in a text, the least edit distance of `part` from any part of the text that ends there.

    The columns of the usual table are kept as bits of integers (Myers 1999), as in `edit_distance`.
    """
    bits_by_sign: dict[str, int] = {}
    for position, sign in enumerate(part):
        bits_by_sign[sign] = bits_by_sign.get(sign, 0) | 1 << position
    all_bits = (1 << len(part)) - 1
    last_bit = 1 << (len(part) - 1)
    rises = all_bits
    falls = 0
    distance = len(part)
    found: list[int] = []
    for sign in text:
        match = bits_by_sign.get(sign, 0)
        diagonal = (((match & rises) + rises) ^ rises) | match | falls
        right_rises = falls | (all_bits & ~(diagonal | rises))
        right_falls = rises & diagonal
        distance += bool(right_rises & last_bit) - bool(right_falls & last_bit)
        found.append(distance)
        right_rises = right_rises << 1 & all_bits
        right_falls = right_falls << 1 & all_bits
        rises = right_falls | (all_bits & ~(diagonal | right_rises))
        falls = right_rises & diagonal
    return found


def _compatible(candidates: Sequence[_Run]) -> list[tuple[int, ...]]:
    """Return runs that have no block in common, from those that suit the correct blocks best.

    Runs with blocks in common form a group. Of each group, the combination with the lowest mean distance is taken.
    """
    groups: list[list[_Run]] = []
    for run in sorted(candidates, key=lambda run: run.blocks[0]):
        overlaps = bool(groups) and any(_overlap(run, other) for other in groups[-1])
        if overlaps:
            groups[-1].append(run)
        else:
            groups.append([run])

    chosen: list[tuple[int, ...]] = []
    for group in groups:
        best = min(_combinations(group), key=_mean_cost)
        chosen.extend(run.blocks for run in best)
    return chosen


def _combinations(group: Sequence[_Run]) -> list[list[_Run]]:
    """Return combinations of runs of a group without common blocks, as the makers' script builds them."""
    combinations = [[group[0]]]
    for run in group[1:]:
        is_placed = False
        for combination in combinations:
            same = [index for index, other in enumerate(combination) if other.blocks == run.blocks]
            for index in same:
                is_placed = True
                if combination[index].cost > run.cost:
                    combination[index] = run
            if not any(_overlap(run, other) for other in combination):
                combination.append(run)
                is_placed = True
        if not is_placed:
            combinations.append([run])
    return combinations


def _overlap(first: _Run, second: _Run) -> bool:
    return not set(first.blocks).isdisjoint(second.blocks)


def _mean_cost(runs: Sequence[_Run]) -> float:
    return sum(run.cost for run in runs) / len(runs)


def _add_contained(
    matched: dict[tuple[int, ...], list[int]],
    unmatched: Sequence[int],
    golds: Sequence[str],
    replies: Sequence[str],
) -> None:
    """Add correct blocks to the first block of the reply that contains them.

    A block of the reply that contains only correct blocks of earlier ones gets an empty list, so that it counts as
    matched.
    """
    placed: set[int] = set()
    for index, reply in enumerate(replies):
        contained = [gold for gold in unmatched if _contains(reply, golds[gold])]
        if contained:
            new = [gold for gold in contained if gold not in placed]
            matched.setdefault((index,), []).extend(new)
            placed.update(new)


def _contains(reply: str, gold: str) -> bool:
    return _distance_from_part(reply, gold, _CONTAINED) < _CONTAINED


def _with_rest(
    matched: Mapping[tuple[int, ...], list[int]], golds: Sequence[str], replies: Sequence[str]
) -> list[Pair]:
    """Return the matched blocks as pairs, together with the blocks that remain on either side."""
    pairs: list[Pair] = []
    for blocks, indexes in matched.items():
        if indexes:
            pairs.append(Pair(tuple(sorted(indexes)), blocks))
    matched_golds = {gold for indexes in matched.values() for gold in indexes}
    matched_replies = {reply for blocks in matched for reply in blocks}
    # The order settles which of several assignments with the same costs is taken; the makers take that of sets.
    missed = list(set(range(len(golds))) - matched_golds)
    surplus = list(set(range(len(replies))) - matched_replies)

    if surplus and not missed:
        pairs.append(Pair((), tuple(surplus)))
    elif surplus:
        costs = [
            [float(edit_distance(golds[gold], replies[reply])) for reply in surplus]
            for gold in missed
        ]
        paired: set[int] = set()
        for row, column in assign_least(costs):
            pairs.append(Pair((missed[row],), (surplus[column],)))
            paired.add(missed[row])
        pairs.extend(Pair((gold,), ()) for gold in missed if gold not in paired)
    else:
        twice = [*missed, *missed]
        pairs.extend(Pair((gold,), ()) for gold in twice)
    return pairs
