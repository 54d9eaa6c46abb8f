"""Token trees after prefixes: run in one forward pass, and extended node by node in generation.

A tree is stored in its prefix's row of the cache, one node after another; a mask says which of them
each node sees. Twenty prompts about one picture therefore store the picture's keys and values once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.hf.cache_layers import copy_cache, crop_cache
from snellen.models.hf.cached_forward import (
    CachedState,
    cache_of,
    logits_to_keep,
    prefill,
    pruned_to_logit_positions,
    run_language_model,
)
from snellen.models.hf.collate import pad_rows, to_device
from snellen.models.hf.encode import EncodedPrompt, extend
from snellen.models.hf.load import input_device, sent
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.prefix import PREFIX_END, Tree

FEW = 64
"""Largest tree, in nodes, run in one forward pass with its prefix: reading the weights then dominates the cost."""
AT_ONCE = 1024
"""Largest prefix and tree, in tokens, run in one forward pass. The mask makes attention over the prefix half
as expensive again, which grows with the square of its length; the saving of a second pass does not."""


@dataclass(frozen=True)
class TreeState:
    """Prefixes with the trees after them."""

    prefix: CachedState
    """The state before the trees. Growth does not change its cache, which is None where it cannot be separated."""
    cache: Any
    sees: Any
    """[rows, nodes, tokens], true where a node sees a token of its row; trees are aligned at the end."""
    position: Any
    """[rows, nodes], the position of each node."""
    logits: Any
    """[rows, most scored, vocabulary]: for the last nodes, which predict scored tokens; None without nodes."""


@dataclass(frozen=True)
class Branches:
    """Ends of texts that continue in the same row of a cache."""

    cache: Any
    mask: Any
    """[rows, branches, tokens], 0 where a branch sees a token, the least number elsewhere; None where each row has one
    branch, which sees all tokens."""
    position: Any
    """[rows, branches], the position of the next token."""
    tile_mask: Any


def run_trees(
    layout: ModelLayout, prefixes: Sequence[EncodedPrompt], trees: Sequence[Tree], at_once: bool
) -> TreeState:
    """Run prefixes from the beginning, then their trees, in one forward pass if allowed and worthwhile."""
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
    output = run_language_model(layout, grown, ids, additive(layout, sees)[:, None], position, logits_setting)
    return TreeState(state, cache_of(output), sees, position, _scored(output.logits, trees))


def branches_of(
    layout: ModelLayout, grown: TreeState, trees: Sequence[Tree], stems: Sequence[Sequence[int]]
) -> Branches:
    """One branch after each node of `stems[row]` (PREFIX_END: after the prefix); shorter rows get dead branches."""
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
    cache = copy_cache(grown.cache) if not nodes else grown.cache
    mask = None if most == 1 and bool(sees.all()) else additive(layout, sees)
    return Branches(cache, mask, position, grown.prefix.tile_mask)


def extend_branches(layout: ModelLayout, branches: Branches, ids: Any) -> tuple[Branches, Any]:
    """Run `ids` [rows, branches], one token per branch. Returns the new branches and their logits
    [rows, branches, vocabulary].

    Consumes the cache of `branches`.
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
    """The branches `chosen[row]` of each row, in that order; rows with fewer are padded with dead ones."""
    import torch

    most, device = max(map(len, chosen)), branches.position.device
    index = sent(torch.tensor([[*places, *[0] * (most - len(places))] for places in chosen]), device)
    position = branches.position.gather(1, index)
    if branches.mask is None:
        return replace(branches, position=position)
    dead = sent(torch.tensor([[place >= len(places) for place in range(most)] for places in chosen]), device)
    mask = branches.mask.take_along_dim(index[:, :, None], 1)
    return replace(branches, mask=mask.masked_fill(dead[:, :, None], torch.finfo(mask.dtype).min), position=position)


def additive(layout: ModelLayout, sees: Any) -> Any:
    """0 where a token is seen, the least number of the model's format elsewhere."""
    import torch

    dtype = layout.model.dtype
    return torch.zeros(sees.shape, dtype=dtype, device=sees.device).masked_fill_(~sees, torch.finfo(dtype).min)


def _read_at_once(layout: ModelLayout, prefixes: Sequence[EncodedPrompt], trees: Sequence[Tree]) -> TreeState:
    """Run prefix and tree as one text, in which the last tokens see their ancestors rather than all before."""
    import torch

    model, pad, device = layout.model, layout.pad, input_device(layout.model)
    longest, nodes = max(len(prefix.ids) for prefix in prefixes), max(len(tree.tokens) for tree in trees)
    texts = [
        extend(
            prefix, (*[pad] * (longest + nodes - len(prefix.ids) - len(tree.tokens)), *tree.tokens), layout.reply_type
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
    batch["attention_mask"] = additive(layout, torch.cat([earlier.expand(len(trees), -1, -1), sees], dim=1))[:, None]
    batch["position_ids"] = torch.cat([standing, position.expand(*standing.shape[:-1], -1)], dim=-1)
    scored = torch.arange(longest + nodes - max(tree.scored for tree in trees), longest + nodes, device=device)
    logit_places: Any = torch.unique(torch.cat([lengths - 1, scored]))
    logits_setting = {} if layout.all_logits else dict.fromkeys(logits_to_keep(model, 1), logit_places)
    layout.forget_positions()
    with pruned_to_logit_positions(layout, logits_setting, longest + nodes):
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
    """Ids and depths [rows, width], and node visibility [rows, width, width]; trees are aligned at the end."""
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
    return sent(ids, device), sent(depths, device), sent(sees, device)


def _lineage(tree: Tree) -> Any:
    """[nodes, nodes]: which nodes each node sees, including itself."""
    import torch

    sees = torch.eye(len(tree.tokens), dtype=torch.bool)
    for node in sorted(range(len(tree.tokens)), key=tree.depths.__getitem__):
        if tree.parents[node] != PREFIX_END:
            sees[node] |= sees[tree.parents[node]]
    return sees


def _scored(logits: Any, trees: Sequence[Tree]) -> Any:
    return logits[:, logits.shape[1] - max(tree.scored for tree in trees) :]
