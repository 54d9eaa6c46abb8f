"""Score and generate for a batch of groups, running shared prefixes once, with token trees after the prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
    GrowingReplies,
    TokenPicker,
    advance,
    cache_of,
    copy_cache,
    crop_cache,
    logits_to_keep,
    pad_rows,
    prefill,
    run_language_model,
    select_rows,
    to_device,
    token_scores,
    with_room,
)
from snellen.models.hf.encode import EncodedPrompt, extend
from snellen.models.hf.load import copy_to_device, input_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores
from snellen.models.hf.sharing_plan import PREFIX_END, PrefixItem, RowsTogether, SharingGroup, Tree

# --- token trees after prefixes: run in one forward pass, extended node by node in generation -------------------------
# A tree is stored in its prefix's row of the cache, one node after another; a mask says which of them each node sees.
# Twenty prompts about one image therefore store the image's keys and values once.


FEW = 64
"""Maximum nodes of a tree that is run in one forward pass with its prefix, where reading the weights dominates the cost."""
AT_ONCE = 1024
"""Maximum tokens of a prefix with its tree that are run in one forward pass.

The mask makes attention over the prefix half as expensive again, which grows with the square of its length, while the
saving of a second pass does not grow.
"""


@dataclass(frozen=True)
class TreeState:
    """Prefixes with the trees after them."""

    prefix: CachedState
    """The state before the trees. Its cache is not changed by them; it is None if it cannot be separated."""
    cache: Any
    sees: Any
    """[rows, nodes, tokens], true if a node sees a token of its row; trees are aligned at the end."""
    position: Any
    """[rows, nodes], the position of each node."""
    logits: Any
    """[rows, most scored, vocabulary] for the last nodes, which predict scored tokens; None without nodes."""


@dataclass(frozen=True)
class Branches:
    """Ends of texts that continue in the same row of a cache."""

    cache: Any
    mask: Any
    """[rows, branches, tokens], 0 if a branch sees a token, otherwise the lowest number.

    None if each row has one branch, which sees all tokens.
    """
    position: Any
    """[rows, branches], the position of the next token."""
    tile_mask: Any


def run_trees(
    layout: ModelLayout, prefixes: Sequence[EncodedPrompt], trees: Sequence[Tree], at_once: bool
) -> TreeState:
    """Run prefixes from the beginning, and then their trees; in one forward pass if that is allowed and faster."""
    width = max(len(prefix.ids) for prefix in prefixes) + max(len(tree.tokens) for tree in trees)
    if at_once and width <= AT_ONCE and 0 < max(len(tree.tokens) for tree in trees) <= FEW:
        return _read_at_once(layout, prefixes, trees)
    return extend_trees(layout, prefill(layout, prefixes), trees)


def extend_trees(layout: ModelLayout, state: CachedState, trees: Sequence[Tree]) -> TreeState:
    """Run one tree in each row, in one pass. `state` can be continued again."""
    import torch

    width = max(len(tree.tokens) for tree in trees)
    device, rows = state.mask.device, len(trees)
    if not width:
        sees = torch.zeros((rows, 0, state.mask.shape[1]), dtype=torch.bool, device=device)
        return TreeState(state, state.cache, sees, sees[:, :, 0].long(), None)
    ids, depths, among_nodes = _laid_out(trees, width, layout.pad, device)
    sees = torch.cat([state.mask.bool()[:, None].expand(-1, width, -1), among_nodes], dim=2)
    position = state.position[:, None] + depths
    logits_setting = logits_to_keep(layout.language_model, max(tree.scored for tree in trees))
    grown = replace(state, cache=copy_cache(state.cache))
    output = run_language_model(
        layout, grown, ids, additive(layout, sees)[:, None], position, logits_setting
    )
    return TreeState(state, cache_of(output), sees, position, _scored(output.logits, trees))


def branches_of(
    layout: ModelLayout, grown: TreeState, trees: Sequence[Tree], stems: Sequence[Sequence[int]]
) -> Branches:
    """Return a branch after each node of `stems[row]` (PREFIX_END: after the prefix), padded with dead branches."""
    import torch

    device, most = grown.sees.device, max(map(len, stems))
    nodes, tokens = grown.sees.shape[1:]
    sees = torch.zeros((len(stems), most, tokens), dtype=torch.bool, device=device)
    position = torch.zeros((len(stems), most), dtype=torch.long, device=device)
    for row, (tree, row_stems) in enumerate(zip(trees, stems, strict=True)):
        for branch, node in enumerate(row_stems):
            if node == PREFIX_END:
                sees[row, branch, : grown.prefix.mask.shape[1]] = grown.prefix.mask[row].bool()
                position[row, branch] = grown.prefix.position[row]
            else:
                place = nodes - len(tree.tokens) + node
                sees[row, branch] = grown.sees[row, place]
                position[row, branch] = grown.position[row, place] + 1
    mask = None if most == 1 and bool(sees.all()) else additive(layout, sees)
    return Branches(grown.cache, mask, position, grown.prefix.tile_mask)


def extend_branches(layout: ModelLayout, branches: Branches, ids: Any) -> tuple[Branches, Any]:
    """Run `ids` [rows, branches], one token per branch. The cache of `branches` is consumed.

    Returns the new branches and their logits [rows, branches, vocabulary].
    """
    import torch

    rows, count = ids.shape
    mask = branches.mask
    if mask is not None:
        itself = torch.eye(count, dtype=torch.bool, device=ids.device)
        mask = torch.cat([mask, additive(layout, itself).expand(rows, -1, -1)], dim=2)
    state = CachedState(branches.cache, None, None, None, branches.tile_mask)
    output = run_language_model(
        layout,
        state,
        ids,
        None if mask is None else mask[:, None],
        branches.position,
        logits_to_keep(layout.language_model, count),
    )
    grown = Branches(cache_of(output), mask, branches.position + 1, branches.tile_mask)
    return grown, output.logits[:, -count:]


def select_branches(branches: Branches, chosen: Sequence[Sequence[int]]) -> Branches:
    """Return the branches `chosen[row]` of each row, in that order, padded with dead branches."""
    import torch

    most, device = max(map(len, chosen)), branches.position.device
    index = copy_to_device(
        torch.tensor([[*places, *[0] * (most - len(places))] for places in chosen]), device
    )
    position = branches.position.gather(1, index)
    if branches.mask is None:
        return replace(branches, position=position)
    dead = copy_to_device(
        torch.tensor([[place >= len(places) for place in range(most)] for places in chosen]), device
    )
    mask = branches.mask.take_along_dim(index[:, :, None], 1)
    return replace(
        branches,
        mask=mask.masked_fill(dead[:, :, None], torch.finfo(mask.dtype).min),
        position=position,
    )


def additive(layout: ModelLayout, sees: Any) -> Any:
    """Return 0 where a token is seen, and the lowest number of the model's format elsewhere."""
    import torch

    dtype = layout.model.dtype
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill_(
        ~sees, torch.finfo(dtype).min
    )


def _read_at_once(
    layout: ModelLayout, prefixes: Sequence[EncodedPrompt], trees: Sequence[Tree]
) -> TreeState:
    """Run prefix and tree as one text, in which tokens of the tree see only their ancestors."""
    import torch

    model, pad, device = layout.model, layout.pad, input_device(layout.model)
    longest, nodes = (
        max(len(prefix.ids) for prefix in prefixes),
        max(len(tree.tokens) for tree in trees),
    )
    texts = [
        extend(
            prefix,
            (*[pad] * (longest + nodes - len(prefix.ids) - len(tree.tokens)), *tree.tokens),
            layout.reply_type,
        )
        for prefix, tree in zip(prefixes, trees, strict=True)
    ]
    batch = to_device(model, pad_rows(texts, pad, "right"))
    lengths = torch.tensor([len(prefix.ids) for prefix in prefixes], device=device)
    is_token = torch.arange(longest, device=device) < lengths[:, None]
    _, depths, among_nodes = _laid_out(trees, nodes, pad, device)
    sees = torch.cat([is_token[:, None].expand(-1, nodes, -1), among_nodes], dim=2)
    earlier = torch.ones((longest, longest + nodes), dtype=torch.bool, device=device).tril()
    standing, following = layout.places(batch, is_token, texts[0].per_token)
    position = following[:, None] + depths
    batch["attention_mask"] = additive(
        layout, torch.cat([earlier.expand(len(trees), -1, -1), sees], dim=1)
    )[:, None]
    batch["position_ids"] = torch.cat([standing, position.expand(*standing.shape[:-1], -1)], dim=-1)
    scored = torch.arange(
        longest + nodes - max(tree.scored for tree in trees), longest + nodes, device=device
    )
    logit_places: Any = torch.unique(torch.cat([lengths - 1, scored]))
    logits_setting = (
        {} if layout.all_logits else dict.fromkeys(logits_to_keep(model, 1), logit_places)
    )
    layout.forget_positions()
    output = model(**batch, **logits_setting, **layout.first_cache(), use_cache=True)
    cache, logits = cache_of(output), output.logits
    ends = (
        torch.searchsorted(logit_places, lengths - 1)
        if logits_setting
        else lengths - 1 + logits.shape[1] - longest - nodes
    )
    first = logits[torch.arange(len(trees), device=device), ends]
    tile_mask = batch.get("cross_attention_mask")
    prefix = CachedState(
        cache=crop_cache(cache, longest) if tile_mask is None else None,
        mask=is_token.long(),
        position=following,
        logits=first,
        tile_mask=None if tile_mask is None else tile_mask[:, -1:],
    )
    return TreeState(prefix, cache, sees, position, _scored(logits, trees))


def _laid_out(trees: Sequence[Tree], width: int, pad: int, device: Any) -> tuple[Any, Any, Any]:
    """Return ids and depths [rows, width], and node visibility [rows, width, width]; trees are aligned at the end."""
    import torch

    ids = torch.full((len(trees), width), pad)
    depths = torch.zeros((len(trees), width), dtype=torch.long)
    sees = torch.eye(width, dtype=torch.bool).repeat(len(trees), 1, 1)
    for row, tree in enumerate(trees):
        if tree.tokens:
            start = width - len(tree.tokens)
            ids[row, start:] = torch.tensor(tree.tokens)
            depths[row, start:] = torch.tensor(tree.depths)
            sees[row, start:, start:] = _lineage(tree)
    return copy_to_device(ids, device), copy_to_device(depths, device), copy_to_device(sees, device)


def _lineage(tree: Tree) -> Any:
    """Return which nodes each node sees, including itself: [nodes, nodes]."""
    import torch

    sees = torch.eye(len(tree.tokens), dtype=torch.bool)
    for node in sorted(range(len(tree.tokens)), key=tree.depths.__getitem__):
        if tree.parents[node] != PREFIX_END:
            sees[node] |= sees[tree.parents[node]]
    return sees


def _scored(logits: Any, trees: Sequence[Tree]) -> Any:
    return logits[:, logits.shape[1] - max(tree.scored for tree in trees) :]


# --- groups of requests -----------------------------------------------------------------------------------------------


def score_by_tree(
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    trees: Sequence[Tree],
    grown: TreeState,
) -> dict[int, Scores]:
    """Return scores from the logits of prefixes and of the nodes after them, without running the model."""
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
    """Return new tokens of every request, at most `longest`, generated as branches of the trees.

    Every member has one tail of one token, which represents the text to generate.
    """
    import torch

    members = [member for group in groups for member in group.members]
    stems = [[tails[0][0] for tails in tree.predictors] for tree in trees]
    branches = branches_of(layout, grown, trees, stems)
    branches = replace(branches, cache=with_room(branches.cache, longest))
    logits = torch.stack(
        [_predicting(grown, trees, row, node) for row, nodes in enumerate(stems) for node in nodes]
    )
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
                branches,
                [
                    [live[row].index(m) for m in branch_members]
                    for row, branch_members in enumerate(running)
                ],
            )
            live, places = running, _places(running, logits.device)
        most = max(map(len, live))
        ids = torch.tensor(
            [[*(tokens[m] for m in row), *[layout.pad] * (most - len(row))] for row in live]
        )
        branches, grown_logits = extend_branches(
            layout, branches, copy_to_device(ids, logits.device)
        )
        rows, member_branches, targets = places
        logits = logits.index_copy(0, targets, grown_logits[rows, member_branches])
    return dict(zip(members, replies.tokens, strict=True))


def _places(live: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any, Any]:
    """Return row, branch and member of every live branch."""
    import torch

    positions = [
        (row, branch, member)
        for row, members in enumerate(live)
        for branch, member in enumerate(members)
    ]
    rows, branches, members = copy_to_device(torch.tensor(positions), device).unbind(1)
    return rows, branches, members


def score_by_rows(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
    together: RowsTogether,
) -> dict[int, Scores]:
    """Run the rest of every prompt after the prefixes, and then every continuation, each as a batch of rows."""
    scores: dict[int, Scores] = {}
    for block in _blocks(items, groups, together):
        state = _read_rests(layout, prefixes, items, groups, block)
        tails = [
            (row, tail) for row, (_, member) in enumerate(block) for tail in items[member].tails
        ]
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
    """Return new tokens of every request, at most `longest`, with one row per request."""
    new_tokens: dict[int, list[int]] = {}
    for block in _blocks(items, groups, together):
        members = [member for _, member in block]
        state = _read_rests(layout, prefixes, items, groups, block)
        state = replace(state, cache=with_room(state.cache, longest))
        replies = GrowingReplies(len(members), pick(members))
        for step in range(longest):
            tokens = replies.choose(state.logits)
            if all(replies.ended) or step == longest - 1:
                break
            state, _ = advance(layout, state, [[token] for token in tokens])
        new_tokens.update(zip(members, replies.tokens, strict=True))
    return new_tokens


def _predicting(grown: TreeState, trees: Sequence[Tree], row: int, node: int) -> Any:
    """Return the logits [vocabulary] at a predicting node of a row's tree."""
    if node == PREFIX_END:
        return grown.prefix.logits[row]
    return grown.logits[row, grown.logits.shape[1] - len(trees[row].tokens) + node]


def _blocks(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup], together: RowsTogether
) -> list[list[tuple[int, int]]]:
    """Return the (group, member) pairs of each batch: all, those of equal length if holes are not allowed, or one."""
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
    """Return token scores of continuations, each after a row of `state`, run as one batch."""
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
    """Return the state after the prompts of `block`, given the state after their prefixes."""
    state = select_rows(prefixes, [row for row, _ in block])
    rests = [items[member].tokens[groups[row].prefix :] for row, member in block]
    return advance(layout, state, rests)[0] if any(rests) else state


def _row_scores(first: Any, later: Any, tail: Sequence[int]) -> list[float]:
    import torch

    logits = (
        first[None]
        if later is None or len(tail) == 1
        else torch.cat([first[None], later[: len(tail) - 1]])
    )
    scores: list[float] = token_scores(logits, tail).tolist()
    return scores


def _tree_scores(
    prefix: Any, grown: Any, items: Sequence[PrefixItem], group: SharingGroup, tree: Tree
) -> dict[int, Scores]:
    """Return scores of a group's members from the logits of its prefix's last token and of its tree's scored nodes."""
    import torch

    logits = (
        prefix[None]
        if grown is None
        else torch.cat([prefix[None], grown[grown.shape[0] - tree.scored :]])
    )
    logits = logits.float()
    unscored = len(tree.tokens) - tree.scored
    targets = [
        (0 if node == PREFIX_END else 1 + node - unscored, token)
        for member, tails in zip(group.members, tree.predictors, strict=True)
        for tail, nodes in zip(items[member].tails, tails, strict=True)
        for node, token in zip(nodes, tail, strict=True)
    ]
    places, tokens = (
        torch.tensor(column, device=logits.device) for column in zip(*targets, strict=True)
    )
    values = iter((logits[places, tokens] - logits.logsumexp(-1)[places]).tolist())
    return {m: [[next(values) for _ in tail] for tail in items[m].tails] for m in group.members}
