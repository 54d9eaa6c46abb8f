"""Scoring and generation over one batch of groups: what is shared is run once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from snellen.models.hf.anatomy import Anatomy
from snellen.models.hf.cached import State, advance, advance_trees, prefill, take
from snellen.models.hf.encode import Continued, Encoded, cut
from snellen.models.hf.plain import token_scores
from snellen.models.prefix import TRUNK, Group, Item, Tree, grow

Scores = list[list[float]]
"""Log-probabilities of one request: a list a continuation, a number a token."""

Pick = Callable[[Sequence[int]], Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]]
"""For the requests of a batch, by number: from logits and the tokens so far to the next token of each
row, and whether the row ends with it."""


def score_by_tree(
    anatomy: Anatomy, asked: Sequence[Continued], items: Sequence[Item], groups: Sequence[Group]
) -> dict[int, Scores]:
    """Two forwards: all trunks, then all trees. One, where every continuation is a single token."""
    trees = [grow(items, group) for group in groups]
    state = prefill(anatomy, _trunks(asked, items, groups))
    grown = advance_trees(anatomy, state, trees) if any(tree.tokens for tree in trees) else None
    scores: dict[int, Scores] = {}
    for row, (group, tree) in enumerate(zip(groups, trees, strict=True)):
        values = _tree_scores(state.logits[row], None if grown is None else grown[row], items, group, tree)
        scores.update(values)
    return scores


def score_by_rows(
    anatomy: Anatomy, asked: Sequence[Continued], items: Sequence[Item], groups: Sequence[Group], ragged: bool
) -> dict[int, Scores]:
    """Trunks, then the rest of every prompt, then every continuation: each a batch of rows."""
    trunks = prefill(anatomy, _trunks(asked, items, groups))
    scores: dict[int, Scores] = {}
    for block in _blocks(items, groups, ragged):
        state = _read_rests(anatomy, trunks, items, groups, block)
        tails = [(row, tail) for row, (_, member) in enumerate(block) for tail in items[member].tails]
        first = state.logits
        later = None
        if any(len(tail) > 1 for _, tail in tails):
            repeated = take(state, [row for row, _ in tails])
            _, later = advance(anatomy, repeated, [tail[:-1] for _, tail in tails], every=True)
        place = iter(range(len(tails)))
        for row, (_, member) in enumerate(block):
            scores[member] = [
                _row_scores(first[row], None if later is None else later[next(place)], tail)
                for tail in items[member].tails
            ]
    return scores


def write_on(
    anatomy: Anatomy,
    rows: Sequence[Encoded],
    items: Sequence[Item],
    groups: Sequence[Group],
    ragged: bool,
    pick: Pick,
    longest: int,
) -> dict[int, list[int]]:
    """New tokens of every request, each at most `longest`."""
    trunks = prefill(anatomy, [cut(rows[group.members[0]], group.trunk) for group in groups])
    written: dict[int, list[int]] = {}
    for block in _blocks(items, groups, ragged):
        members = [member for _, member in block]
        state = _read_rests(anatomy, trunks, items, groups, block)
        said: list[list[int]] = [[] for _ in members]
        ended = [False] * len(members)
        choose = pick(members)
        for step in range(longest):
            tokens, ends = choose(state.logits, said)
            for row, token in enumerate(tokens):
                if not ended[row]:
                    said[row].append(token)
                    ended[row] = ends[row]
            if all(ended) or step == longest - 1:
                break
            state, _ = advance(anatomy, state, [[token] for token in tokens])
        written.update(zip(members, said, strict=True))
    return written


def _trunks(asked: Sequence[Continued], items: Sequence[Item], groups: Sequence[Group]) -> list[Encoded]:
    return [cut(asked[group.members[0]].context, group.trunk) for group in groups]


def _blocks(items: Sequence[Item], groups: Sequence[Group], ragged: bool) -> list[list[tuple[int, int]]]:
    """(group, member) pairs that are run as one batch: all, or those of equal length where holes are not allowed."""
    pairs = [(row, member) for row, group in enumerate(groups) for member in group.members]
    if ragged:
        return [pairs]
    alike: dict[int, list[tuple[int, int]]] = {}
    for row, member in pairs:
        alike.setdefault(len(items[member].tokens), []).append((row, member))
    return list(alike.values())


def _read_rests(
    anatomy: Anatomy, trunks: State, items: Sequence[Item], groups: Sequence[Group], block: Sequence[tuple[int, int]]
) -> State:
    """The state after the prompts of `block`, whose trunks were read."""
    state = take(trunks, [row for row, _ in block])
    rests = [items[member].tokens[groups[row].trunk :] for row, member in block]
    return advance(anatomy, state, rests)[0] if any(rests) else state


def _row_scores(first: Any, later: Any, tail: Sequence[int]) -> list[float]:
    import torch

    logits = first[None] if later is None or len(tail) == 1 else torch.cat([first[None], later[: len(tail) - 1]])
    scores: list[float] = token_scores(logits, tail).tolist()
    return scores


def _tree_scores(trunk: Any, grown: Any, items: Sequence[Item], group: Group, tree: Tree) -> dict[int, Scores]:
    """Scores of a group's members from the logits of its trunk's last token and of its tree's scored nodes."""
    import torch

    logits = trunk[None] if grown is None else torch.cat([trunk[None], grown[grown.shape[0] - tree.scored :]])
    logits = logits.float()
    unscored = len(tree.tokens) - tree.scored
    wanted = [
        (0 if node == TRUNK else 1 + node - unscored, token)
        for member, tails in zip(group.members, tree.predictors, strict=True)
        for tail, nodes in zip(items[member].tails, tails, strict=True)
        for node, token in zip(nodes, tail, strict=True)
    ]
    places, tokens = (torch.tensor(column, device=logits.device) for column in zip(*wanted, strict=True))
    values = iter((logits[places, tokens] - logits.logsumexp(-1)[places]).tolist())
    return {m: [[next(values) for _ in tail] for tail in items[m].tails] for m in group.members}
