"""Plans prefix sharing within a window of tokenised requests. Pure, without torch.

Requests about one picture begin with the same tokens: the picture, often the instruction, sometimes
the question. This shared prefix is run once. What follows is a trie of tokens, each node of which is
run once, whichever question, template, option order or option it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

PREFIX_END = -1
"""In a tree, the last token of the prefix."""


@dataclass(frozen=True)
class PrefixItem:
    """A tokenised request."""

    key: str
    """Digest of what must be equal besides the tokens for a prefix to be shared: the pictures."""
    tokens: tuple[int, ...]
    anchor: int = 0
    """Number of tokens up to and including the last picture's: a shared prefix has at least these."""
    tails: tuple[tuple[int, ...], ...] = ()
    """The continuations that are scored after `tokens`; none for generation."""


@dataclass(frozen=True)
class SharingGroup:
    """Requests that share their first `prefix` tokens."""

    members: tuple[int, ...]
    """Positions in the window, sorted by their tokens."""
    prefix: int


@dataclass(frozen=True)
class Budget:
    """What fits in one forward."""

    rows: int
    """Requests."""
    tokens: int
    """Tokens, padding included."""

    def halved(self) -> Budget:
        return Budget(max(1, self.rows // 2), max(1, self.tokens // 2))


@dataclass(frozen=True)
class Tree:
    """The tokens after a prefix as a trie: a node stands for all texts with the same beginning."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    """The node before each node, or PREFIX_END."""
    depths: tuple[int, ...]
    """Distance from the prefix: 0 for a token that follows it directly."""
    scored: int
    """Number of nodes that predict a scored token; they come last."""
    predictors: tuple[tuple[tuple[int, ...], ...], ...]
    """predictors[m][t][j] is the node that predicts token j of tail t of member m, or PREFIX_END."""


def plan_sharing(
    items: Sequence[PrefixItem], budget: Budget, *, shared: bool = True, ragged: bool = True
) -> list[list[SharingGroup]]:
    """Batches of groups: every request is in exactly one group, and groups of similar length are together.

    `shared`: different prompts may share a prefix; otherwise only equal prompts do. `ragged`: prefixes of
    different length may be in one batch; otherwise every batch holds one group. Apart from the indices,
    the plan does not depend on the order of the items.
    """
    groups = _groups(items, shared)
    pieces = [piece for group in groups for piece in _split(items, group, budget)]
    pieces.sort(key=lambda group: (-group.prefix, items[group.members[0]].key, items[group.members[0]].tokens))
    if not ragged:
        return [[group] for group in pieces]
    batches: list[list[SharingGroup]] = []
    for group in pieces:
        if not (batches and _fits(items, [*batches[-1], group], budget)):
            batches.append([])
        batches[-1].append(group)
    return batches


def build_tree(items: Sequence[PrefixItem], group: SharingGroup) -> Tree:
    """The trie of everything after the prefix of `group`. A final scored token needs no node of its own."""
    nodes: dict[tuple[int, int], int] = {}
    predictors = []
    for member in group.members:
        stem = _walk(nodes, PREFIX_END, items[member].tokens[group.prefix :])[-1]
        predictors.append(tuple(tuple(_walk(nodes, stem, tail[:-1])[: len(tail)]) for tail in items[member].tails))
    return _ordered(list(nodes), predictors)


def reusable_length(items: Sequence[PrefixItem], group: SharingGroup, cached: Sequence[int], shared: bool) -> int:
    """How many tokens of `known`, a prefix read earlier with the same pictures, `group` can reuse.

    Without `shared` only an identical prefix counts. The logits after the last token of a part are not known.
    """
    prefix = items[group.members[0]].tokens[: group.prefix]
    if not shared:
        return group.prefix if prefix == tuple(cached) else 0
    length = common_prefix(prefix, cached)
    if length < len(cached):
        length = min(length, min(len(items[member].tokens) for member in group.members) - 1)
    return length if length >= max(1, *(_worth(items[member]) for member in group.members)) else 0


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    end = min(len(first), len(second))
    return next((i for i in range(end) if first[i] != second[i]), end)


def _groups(items: Sequence[PrefixItem], shared: bool) -> list[SharingGroup]:
    order = sorted(range(len(items)), key=lambda i: (items[i].key, items[i].tokens, items[i].tails))
    groups: list[SharingGroup] = []
    for i in order:
        prefix = _joined(items, groups[-1], i, shared) if groups else 0
        if prefix:
            groups[-1] = SharingGroup((*groups[-1].members, i), prefix)
        else:
            groups.append(SharingGroup((i,), len(items[i].tokens)))
    return groups


def _joined(items: Sequence[PrefixItem], group: SharingGroup, i: int, shared: bool) -> int:
    """The prefix of `group` with item i added, or 0 when it does not belong there."""
    first, item = items[group.members[0]], items[i]
    if first.key != item.key:
        return 0
    if not shared:
        return group.prefix if first.tokens == item.tokens else 0
    prefix = common_prefix(first.tokens[: group.prefix], item.tokens)
    return prefix if prefix >= max(_worth(item), first.anchor, 1) else 0


def _worth(item: PrefixItem) -> int:
    """The minimum length of a shared prefix: the pictures, or half of a text without pictures."""
    return item.anchor or (len(item.tokens) + 1) // 2


def _split(items: Sequence[PrefixItem], group: SharingGroup, budget: Budget) -> list[SharingGroup]:
    """Parts of a group, each within the budget; a request that exceeds it is on its own."""
    pieces: list[list[int]] = [[]]
    for member in group.members:
        if pieces[-1] and (
            len(pieces[-1]) >= budget.rows or _after(items, [*pieces[-1], member], group.prefix) > budget.tokens
        ):
            pieces.append([])
        pieces[-1].append(member)
    return [SharingGroup(tuple(piece), group.prefix) for piece in pieces]


def _fits(items: Sequence[PrefixItem], groups: Sequence[SharingGroup], budget: Budget) -> bool:
    longest = max(group.prefix for group in groups)
    widest = max(_after(items, group.members, group.prefix) for group in groups)
    return (
        sum(len(group.members) for group in groups) <= budget.rows
        and len(groups) * max(longest, widest) <= budget.tokens
    )


def _after(items: Sequence[PrefixItem], members: Sequence[int], prefix: int) -> int:
    """Upper bound of the tokens after the prefix: what members share further on is counted twice."""
    return sum(len(items[m].tokens) - prefix + sum(map(len, items[m].tails)) for m in members)


def _walk(nodes: dict[tuple[int, int], int], start: int, tokens: Sequence[int]) -> list[int]:
    """The nodes from `start` along `tokens`, including `start`; missing ones are added."""
    return list(accumulate(tokens, lambda node, token: nodes.setdefault((node, token), len(nodes)), initial=start))


def _ordered(edges: list[tuple[int, int]], predictors: list[tuple[tuple[int, ...], ...]]) -> Tree:
    """The tree with its predicting nodes last, so that only their logits need computing."""
    depths: list[int] = []
    for parent, _ in edges:
        depths.append(0 if parent == PREFIX_END else depths[parent] + 1)
    predicting = {node for member in predictors for tail in member for node in tail} - {PREFIX_END}
    order = sorted(range(len(edges)), key=lambda node: (node in predicting, node))
    place = {PREFIX_END: PREFIX_END} | {node: i for i, node in enumerate(order)}
    return Tree(
        tokens=tuple(edges[node][1] for node in order),
        parents=tuple(place[edges[node][0]] for node in order),
        depths=tuple(depths[node] for node in order),
        scored=len(predicting),
        predictors=tuple(tuple(tuple(place[n] for n in tail) for tail in member) for member in predictors),
    )
