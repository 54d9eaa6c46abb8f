"""Scoring and generation for a batch of groups, running shared prefixes once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
    GrowingReplies,
    TokenPicker,
    advance,
    select_rows,
    token_scores,
)
from snellen.models.hf.ladder import RowsTogether
from snellen.models.hf.load import sent
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores
from snellen.models.hf.tree_attention import TreeState, branches_of, extend_branches, select_branches
from snellen.models.prefix import PREFIX_END, PrefixItem, SharingGroup, Tree


def score_by_tree(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup], trees: Sequence[Tree], grown: TreeState
) -> dict[int, Scores]:
    """Scores from the logits of prefixes and of the nodes after them; nothing is run."""
    scores: dict[int, Scores] = {}
    for row, (group, tree) in enumerate(zip(groups, trees, strict=True)):
        nodes = None if grown.logits is None else grown.logits[row]
        scores.update(_tree_scores(grown.prefix.logits[row], nodes, items, group, tree))
    return scores


def generate_by_tree(
    layout: ModelLayout,
    groups: Sequence[SharingGroup],
    trees: Sequence[Tree],
    grown: TreeState,
    pick: TokenPicker,
    longest: int,
) -> dict[int, list[int]]:
    """New tokens of every request, each at most `longest`, as branches of the trees in the rows of the prefixes.

    Every member has one tail of one token, which stands for the text to generate.
    """
    import torch

    members = [member for group in groups for member in group.members]
    stems = [[tails[0][0] for tails in tree.predictors] for tree in trees]
    branches = branches_of(layout, grown, trees, stems)
    logits = torch.stack([_predicting(grown, trees, row, node) for row, nodes in enumerate(stems) for node in nodes])
    # For each row, the members whose branches are still running, in branch order.
    first = list(accumulate(map(len, stems), initial=0))
    live = [list(range(start, end)) for start, end in pairwise(first)]
    places = _places(live, logits.device)
    replies = GrowingReplies(len(members), pick(members))
    for step in range(longest):
        tokens = replies.choose(logits)
        running = [[member for member in row if not replies.ended[member]] for row in live]
        if step == longest - 1 or not any(running):
            break
        if running != live:
            branches = select_branches(
                branches, [[live[row].index(m) for m in branch_members] for row, branch_members in enumerate(running)]
            )
            live, places = running, _places(running, logits.device)
        most = max(map(len, live))
        ids = torch.tensor([[*(tokens[m] for m in row), *[layout.pad] * (most - len(row))] for row in live])
        branches, grown_logits = extend_branches(layout, branches, sent(ids, logits.device))
        rows, member_branches, targets = places
        logits = logits.index_copy(0, targets, grown_logits[rows, member_branches])
    return dict(zip(members, replies.tokens, strict=True))


def _places(live: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any, Any]:
    """Row, branch and member of every live branch."""
    import torch

    positions = [(row, branch, member) for row, members in enumerate(live) for branch, member in enumerate(members)]
    rows, branches, members = sent(torch.tensor(positions), device).unbind(1)
    return rows, branches, members


def score_by_rows(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
    together: RowsTogether,
) -> dict[int, Scores]:
    """After the prefixes run the rest of every prompt, then every continuation, each as a batch of rows."""
    scores: dict[int, Scores] = {}
    for block in _blocks(items, groups, together):
        state = _read_rests(layout, prefixes, items, groups, block)
        tails = [(row, tail) for row, (_, member) in enumerate(block) for tail in items[member].tails]
        parts = [[tail] for tail in tails] if together == "single" else [tails]
        scored = iter([values for part in parts for values in _tail_scores(layout, state, part)])
        for _, member in block:
            scores[member] = [next(scored) for _ in items[member].tails]
    return scores


def generate_by_rows(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
    together: RowsTogether,
    pick: TokenPicker,
    longest: int,
) -> dict[int, list[int]]:
    """New tokens of every request, each at most `longest`, one row per request."""
    new_tokens: dict[int, list[int]] = {}
    for block in _blocks(items, groups, together):
        members = [member for _, member in block]
        state = _read_rests(layout, prefixes, items, groups, block)
        replies = GrowingReplies(len(members), pick(members))
        for step in range(longest):
            tokens = replies.choose(state.logits)
            if all(replies.ended) or step == longest - 1:
                break
            state, _ = advance(layout, state, [[token] for token in tokens])
        new_tokens.update(zip(members, replies.tokens, strict=True))
    return new_tokens


def _predicting(grown: TreeState, trees: Sequence[Tree], row: int, node: int) -> Any:
    """[vocabulary]: the logits at a predicting node of a row's tree."""
    if node == PREFIX_END:
        return grown.prefix.logits[row]
    return grown.logits[row, grown.logits.shape[1] - len(trees[row].tokens) + node]


def _blocks(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup], together: RowsTogether
) -> list[list[tuple[int, int]]]:
    """(group, member) pairs to run as one batch: all, those of equal length where holes are not allowed, or one."""
    pairs = [(row, member) for row, group in enumerate(groups) for member in group.members]
    if together == "ragged":
        return [pairs]
    if together == "single":
        return [[pair] for pair in pairs]
    alike: dict[int, list[tuple[int, int]]] = {}
    for row, member in pairs:
        alike.setdefault(len(items[member].tokens), []).append((row, member))
    return list(alike.values())


def _tail_scores(
    layout: ModelLayout, state: CachedState, tails: Sequence[tuple[int, Sequence[int]]]
) -> list[list[float]]:
    """Token scores of continuations, each after a row of `state`, run as one batch."""
    first, later = state.logits, None
    if any(len(tail) > 1 for _, tail in tails):
        repeated = select_rows(state, [row for row, _ in tails])
        _, later = advance(layout, repeated, [tail[:-1] for _, tail in tails], all_logits=True)
    return [
        _row_scores(first[row], None if later is None else later[place], tail)
        for place, (row, tail) in enumerate(tails)
    ]


def _read_rests(
    layout: ModelLayout,
    prefixes: CachedState,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    block: Sequence[tuple[int, int]],
) -> CachedState:
    """The state after the prompts of `block`, given the state after their prefixes."""
    state = select_rows(prefixes, [row for row, _ in block])
    rests = [items[member].tokens[groups[row].prefix :] for row, member in block]
    return advance(layout, state, rests)[0] if any(rests) else state


def _row_scores(first: Any, later: Any, tail: Sequence[int]) -> list[float]:
    import torch

    logits = first[None] if later is None or len(tail) == 1 else torch.cat([first[None], later[: len(tail) - 1]])
    scores: list[float] = token_scores(logits, tail).tolist()
    return scores


def _tree_scores(
    prefix: Any, grown: Any, items: Sequence[PrefixItem], group: SharingGroup, tree: Tree
) -> dict[int, Scores]:
    """Scores of a group's members from the logits of its prefix's last token and of its tree's scored nodes."""
    import torch

    logits = prefix[None] if grown is None else torch.cat([prefix[None], grown[grown.shape[0] - tree.scored :]])
    logits = logits.float()
    unscored = len(tree.tokens) - tree.scored
    targets = [
        (0 if node == PREFIX_END else 1 + node - unscored, token)
        for member, tails in zip(group.members, tree.predictors, strict=True)
        for tail, nodes in zip(items[member].tails, tails, strict=True)
        for node, token in zip(nodes, tail, strict=True)
    ]
    places, tokens = (torch.tensor(column, device=logits.device) for column in zip(*targets, strict=True))
    values = iter((logits[places, tokens] - logits.logsumexp(-1)[places]).tolist())
    return {m: [[next(values) for _ in tail] for tail in items[m].tails] for m in group.members}
