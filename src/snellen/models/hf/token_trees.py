"""Token trees after prefixes: run in one forward pass, extended token by token in generation.

A prefix is the beginning that several prompts have in common, such as an image. What follows it in these prompts is
stored as a tree: a node is a token, and prompts that begin alike share nodes. All nodes are in the row of the cache in
which the prefix is, one after another, and a mask says which of them each node sees (attends to): the prefix, its
ancestors and itself. Twenty prompts about one image therefore store the keys and values of the image once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
    cache_of,
    logits_to_keep,
    run_language_model,
)
from snellen.models.hf.caches import (
    copy_cache,
)
from snellen.models.hf.encode import Tensors
from snellen.models.hf.load import copy_to_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.sharing_plan import PREFIX_END, Tree


@dataclass(frozen=True)
class TreeState:
    """State of the language model after several prefixes and the trees that follow them. Each row has one of each."""

    prefix: CachedState
    """The state before the trees. Its cache is not changed by them."""
    cache: Any
    sees: Any
    """Whether each node sees (attends to) each token of its row; shape (rows, nodes, tokens).

    Smaller trees have padding before their nodes, so that all trees end at the last index.
    """
    position: Any
    """[rows, nodes], the position of each node."""
    logits: Any
    """Logits at the last nodes, at which scored tokens are predicted; shape (rows, largest `scored`, vocabulary).

    None if no tree has nodes.
    """


@dataclass(frozen=True)
class Branches:
    """The texts that are being generated. Texts with the same prefix are branches in one row of the cache."""

    cache: Any
    mask: Any
    """Attention mask of shape (rows, branches, tokens): 0 if a branch sees a token, else the lowest possible number.

    None if each row has one branch, which sees all tokens.
    """
    position: Any
    """[rows, branches], the position of the next token."""
    seen: Tensors
    again: Tensors
    """Both as in `CachedState`."""


def extend_trees(layout: ModelLayout, state: CachedState, trees: Sequence[Tree]) -> TreeState:
    """Run the nodes of all trees in one forward pass, each tree after the prefix in its row.

    The tokens are added to a copy of the cache, so `state` can be continued again.

    Args:
        layout: The model.
        state: The state after the prefixes, one per row.
        trees: The tree of each row.
    """
    import torch

    rows = len(trees)
    width = max(len(tree.tokens) for tree in trees)
    device = state.mask.device
    if not width:
        sees = torch.zeros((rows, 0, state.mask.shape[1]), dtype=torch.bool, device=device)
        no_positions = sees[:, :, 0].long()
        return TreeState(state, state.cache, sees, no_positions, None)

    ids, depths, sees_nodes = _tree_tensors(trees, width, layout.pad, device)
    sees_prefix = state.mask.bool()[:, None].expand(-1, width, -1)
    sees = torch.cat([sees_prefix, sees_nodes], dim=2)
    mask = additive_mask(layout, sees)[:, None]
    position = state.position[:, None] + depths
    most_scored = max(tree.scored for tree in trees)
    logits_setting = logits_to_keep(layout.language_model, most_scored)
    continued = replace(state, cache=copy_cache(state.cache))
    output = run_language_model(layout, continued, ids, mask, position, logits_setting)
    scored_logits = output.logits[:, output.logits.shape[1] - most_scored :]
    return TreeState(state, cache_of(output), sees, position, scored_logits)


def branches_of(
    layout: ModelLayout,
    tree_state: TreeState,
    trees: Sequence[Tree],
    branch_starts: Sequence[Sequence[int]],
) -> Branches:
    """Return branches along which texts can be generated, each beginning after a node of a tree.

    Rows with fewer branches than others are padded with branches that see nothing.

    Args:
        layout: The model.
        tree_state: The state after the trees.
        trees: The tree of each row.
        branch_starts: For each row, the index of the node after which each branch begins.
            PREFIX_END stands for the end of the prefix.
    """
    import torch

    rows = len(branch_starts)
    most_branches = max(len(row_starts) for row_starts in branch_starts)
    device = tree_state.sees.device
    nodes, tokens = tree_state.sees.shape[1:]
    prefix = tree_state.prefix
    prefix_length = prefix.mask.shape[1]
    sees = torch.zeros((rows, most_branches, tokens), dtype=torch.bool, device=device)
    position = torch.zeros((rows, most_branches), dtype=torch.long, device=device)
    for row in range(rows):
        first_node = nodes - len(trees[row].tokens)  # trees are aligned at the end
        for branch, node in enumerate(branch_starts[row]):
            if node == PREFIX_END:
                sees[row, branch, :prefix_length] = prefix.mask[row].bool()
                position[row, branch] = prefix.position[row]
            else:
                sees[row, branch] = tree_state.sees[row, first_node + node]
                position[row, branch] = tree_state.position[row, first_node + node] + 1
    sees_everything = most_branches == 1 and bool(sees.all())
    mask = None if sees_everything else additive_mask(layout, sees)
    return Branches(tree_state.cache, mask, position, prefix.seen, prefix.again)


def extend_branches(layout: ModelLayout, branches: Branches, ids: Any) -> tuple[Branches, Any]:
    """Add one token to each branch, and run the model on these tokens in one forward pass.

    The tokens are added to the cache of `branches`, which must not be used again.

    Args:
        layout: The model.
        branches: The branches.
        ids: The token id for each branch; shape (rows, branches).

    Returns:
        The longer branches, and the logits of the next token of each; shape (rows, branches,
        vocabulary).
    """
    import torch

    rows, count = ids.shape
    mask = branches.mask
    if mask is not None:
        # Each new token sees itself, and not those of the other branches.
        sees_itself = torch.eye(count, dtype=torch.bool, device=ids.device)
        new_columns = additive_mask(layout, sees_itself).expand(rows, -1, -1)
        mask = torch.cat([mask, new_columns], dim=2)
    state = CachedState(branches.cache, None, None, None, branches.seen, branches.again)
    output = run_language_model(
        layout,
        state,
        ids,
        None if mask is None else mask[:, None],
        branches.position,
        logits_to_keep(layout.language_model, count),
    )
    longer = replace(branches, cache=cache_of(output), mask=mask, position=branches.position + 1)
    return longer, output.logits[:, -count:]


def select_branches(branches: Branches, chosen: Sequence[Sequence[int]]) -> Branches:
    """Return some of the branches along which texts are generated.

    Args:
        branches: The present branches of each row.
        chosen: For each row, the indices of its branches to keep, in the order to keep them. Rows with fewer branches
            than the longest are padded with branches that see nothing.
    """
    import torch

    device = branches.position.device
    most_branches = max(len(row) for row in chosen)
    index_rows: list[list[int]] = []
    padding_rows: list[list[bool]] = []
    for row in chosen:
        n_missing = most_branches - len(row)
        index_rows.append([*row, *[0] * n_missing])
        padding_rows.append([False] * len(row) + [True] * n_missing)
    index = copy_to_device(torch.tensor(index_rows), device)  # [rows, most_branches]
    position = branches.position.gather(1, index)
    if branches.mask is None:
        return replace(branches, position=position)

    is_padding = copy_to_device(torch.tensor(padding_rows), device)
    mask = branches.mask.take_along_dim(index[:, :, None], 1)
    sees_nothing = torch.finfo(mask.dtype).min
    mask = mask.masked_fill(is_padding[:, :, None], sees_nothing)
    return replace(branches, mask=mask, position=position)


def additive_mask(layout: ModelLayout, sees: Any) -> Any:
    """Return an attention mask, which is added to attention scores.

    It is 0 where a token is seen, and elsewhere the lowest number of the model's number format. It
    has the shape of `sees`.

    Args:
        layout: The model.
        sees: A tensor of Booleans of any shape, true where a token is seen.
    """
    import torch

    dtype = layout.model.dtype
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min)


def _tree_tensors(trees: Sequence[Tree], width: int, pad: int, device: Any) -> tuple[Any, Any, Any]:
    """Return the nodes of several trees as tensors. A tree with fewer nodes than `width` has padding before them.

    Args:
        trees: The trees, one for each row.
        width: Number of nodes of the largest tree.
        pad: Token id for padding.
        device: Device of the tensors.

    Returns:
        Token ids [rows, width]; the depth of each node in its tree [rows, width]; and whether each node sees each other
        node [rows, width, width]. A node sees itself and its ancestors.
    """
    import torch

    rows = len(trees)
    ids = torch.full((rows, width), pad)
    depths = torch.zeros((rows, width), dtype=torch.long)
    sees = torch.eye(width, dtype=torch.bool).repeat(rows, 1, 1)
    for row, tree in enumerate(trees):
        if not tree.tokens:
            continue
        start = width - len(tree.tokens)
        ids[row, start:] = torch.tensor(tree.tokens)
        depths[row, start:] = torch.tensor(tree.depths)
        sees[row, start:, start:] = _sees_ancestors(tree)
    return copy_to_device(ids, device), copy_to_device(depths, device), copy_to_device(sees, device)


def _sees_ancestors(tree: Tree) -> Any:
    """Return which nodes of a tree each node sees: itself, and all nodes on the path to it.

    The result is a tensor of Booleans of shape (nodes, nodes), with a row for the node that sees.
    """
    import torch

    sees = torch.eye(len(tree.tokens), dtype=torch.bool)
    parents_first = sorted(range(len(tree.tokens)), key=tree.depths.__getitem__)
    for node in parents_first:
        parent = tree.parents[node]
        if parent != PREFIX_END:
            sees[node] |= sees[parent]
    return sees
