"""Score and generate for a batch of groups, running shared prefixes once, with token trees after the prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
    GrowingReplies,
    TokenPicker,
    advance,
    cache_of,
    copy_cache,
    crop_cache,
    logits_of_texts,
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
from snellen.models.hf.sharing_plan import PREFIX_END, PrefixItem, SharingGroup, Tree

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
    """Run prompts that share their beginning: first each shared beginning, then a tree of the different endings.

    Args:
        layout: The model and its special tokens.
        prefixes: The shared beginnings.
        trees: The tree of each beginning. Its nodes are tokens, and each sees only the beginning and its ancestors.
        at_once: Allow a single forward pass for both, which is faster for short inputs.
    """
    longest_prefix = max(len(prefix.ids) for prefix in prefixes)
    largest_tree = max(len(tree.tokens) for tree in trees)
    is_small = 0 < largest_tree <= FEW and longest_prefix + largest_tree <= AT_ONCE
    if at_once and is_small:
        return _run_with_prefixes(layout, prefixes, trees)
    return extend_trees(layout, prefill(layout, prefixes), trees)


def extend_trees(layout: ModelLayout, state: CachedState, trees: Sequence[Tree]) -> TreeState:
    """Run the tree of each row after the prefix in that row, in one forward pass.

    Only a copy of the cache grows, so `state` can be continued again.
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
    mask = additive(layout, sees)[:, None]
    position = state.position[:, None] + depths
    most_scored = max(tree.scored for tree in trees)
    logits_setting = logits_to_keep(layout.language_model, most_scored)
    grown = replace(state, cache=copy_cache(state.cache))
    output = run_language_model(layout, grown, ids, mask, position, logits_setting)
    scored_logits = _of_scored_nodes(output.logits, trees)
    return TreeState(state, cache_of(output), sees, position, scored_logits)


def branches_of(
    layout: ModelLayout, grown: TreeState, trees: Sequence[Tree], stems: Sequence[Sequence[int]]
) -> Branches:
    """Return branches along which texts can be generated.

    Row r has one branch after each node of `stems[r]`; PREFIX_END is the end of its prefix. Rows with fewer branches are
    padded with dead branches, which see nothing.
    """
    import torch

    rows = len(stems)
    most_branches = max(len(row_stems) for row_stems in stems)
    device = grown.sees.device
    nodes, tokens = grown.sees.shape[1:]
    sees = torch.zeros((rows, most_branches, tokens), dtype=torch.bool, device=device)
    position = torch.zeros((rows, most_branches), dtype=torch.long, device=device)
    for row, (tree, row_stems) in enumerate(zip(trees, stems, strict=True)):
        first_node = nodes - len(tree.tokens)  # trees are aligned at the end
        for branch, node in enumerate(row_stems):
            if node == PREFIX_END:
                prefix_length = grown.prefix.mask.shape[1]
                sees[row, branch, :prefix_length] = grown.prefix.mask[row].bool()
                position[row, branch] = grown.prefix.position[row]
            else:
                sees[row, branch] = grown.sees[row, first_node + node]
                position[row, branch] = grown.position[row, first_node + node] + 1
    mask = additive(layout, sees)
    if most_branches == 1 and bool(sees.all()):
        mask = None
    return Branches(grown.cache, mask, position, grown.prefix.tile_mask)


def extend_branches(layout: ModelLayout, branches: Branches, ids: Any) -> tuple[Branches, Any]:
    """Run one token per branch, `ids` [rows, branches]. The cache of `branches` is consumed.

    Returns the new branches and their logits [rows, branches, vocabulary].
    """
    import torch

    rows, count = ids.shape
    mask = branches.mask
    if mask is not None:
        # Each new token sees itself, and not those of the other branches.
        sees_itself = torch.eye(count, dtype=torch.bool, device=ids.device)
        new_columns = additive(layout, sees_itself).expand(rows, -1, -1)
        mask = torch.cat([mask, new_columns], dim=2)
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
    """Return some of the branches along which texts are generated.

    Args:
        branches: The present branches of each row.
        chosen: For each row, the indices of its branches to keep, in the order to keep them. Rows with fewer branches
            than the longest are padded with branches that see nothing.
    """
    import torch

    device = branches.position.device
    most_branches = max(len(row) for row in chosen)
    padded_rows = []
    padding_rows = []  # whether each branch is padding
    for row in chosen:
        n_missing = most_branches - len(row)
        padded_rows.append([*row, *[0] * n_missing])
        padding_rows.append([*[False] * len(row), *[True] * n_missing])
    index = copy_to_device(torch.tensor(padded_rows), device)  # [rows, most_branches]
    position = branches.position.gather(1, index)
    if branches.mask is None:
        return replace(branches, position=position)
    is_padding = copy_to_device(torch.tensor(padding_rows), device)
    mask = branches.mask.take_along_dim(index[:, :, None], 1)
    lowest = torch.finfo(mask.dtype).min
    mask = mask.masked_fill(is_padding[:, :, None], lowest)
    return replace(branches, mask=mask, position=position)


def additive(layout: ModelLayout, sees: Any) -> Any:
    """Return an attention mask: 0 where a token is seen, and the lowest number of the model's format elsewhere."""
    import torch

    dtype = layout.model.dtype
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min)


def _run_with_prefixes(
    layout: ModelLayout, prefixes: Sequence[EncodedPrompt], trees: Sequence[Tree]
) -> TreeState:
    """Run each prefix and its tree as one text, in which tokens of the tree see only their ancestors.

    A row is the prefix, padding, and the tree at the end: prefixes are aligned at the left and trees at the right.
    """
    import torch

    model = layout.model
    pad = layout.pad
    device = input_device(model)
    longest = max(len(prefix.ids) for prefix in prefixes)
    nodes = max(len(tree.tokens) for tree in trees)
    width = longest + nodes

    texts = []
    for prefix, tree in zip(prefixes, trees, strict=True):
        padding = [pad] * (width - len(prefix.ids) - len(tree.tokens))
        texts.append(extend(prefix, (*padding, *tree.tokens), layout.reply_type))
    batch = to_device(model, pad_rows(texts, pad, "right"))

    # Prefixes see the tokens before them; nodes see their row's prefix and their ancestors.
    lengths = torch.tensor([len(prefix.ids) for prefix in prefixes], device=device)
    is_token = torch.arange(longest, device=device) < lengths[:, None]
    _, depths, sees_nodes = _tree_tensors(trees, nodes, pad, device)
    sees_prefix = is_token[:, None].expand(-1, nodes, -1)
    sees = torch.cat([sees_prefix, sees_nodes], dim=2)
    causal = torch.ones((longest, width), dtype=torch.bool, device=device).tril()
    causal_rows = causal.expand(len(trees), -1, -1)
    batch["attention_mask"] = additive(layout, torch.cat([causal_rows, sees], dim=1))[:, None]

    prefix_positions, next_position = layout.places(batch, is_token, texts[0].per_token)
    position = next_position[:, None] + depths
    node_positions = position.expand(*prefix_positions.shape[:-1], -1)
    batch["position_ids"] = torch.cat([prefix_positions, node_positions], dim=-1)

    # Logits are needed at the ends of prefixes, and at the scored nodes, which are the last ones.
    ends_of_prefixes = lengths - 1
    most_scored = max(tree.scored for tree in trees)
    scored = torch.arange(width - most_scored, width, device=device)
    needed: Any = torch.unique(torch.cat([ends_of_prefixes, scored]))
    logits_setting: dict[str, Any] = {}
    if not layout.all_logits:
        logits_setting = dict.fromkeys(logits_to_keep(model, 1), needed)
    layout.forget_positions()
    output = model(**batch, **logits_setting, **layout.first_cache(), use_cache=True)
    cache = cache_of(output)
    logits = output.logits
    if logits_setting:
        index_of_ends = torch.searchsorted(needed, ends_of_prefixes)
    else:
        index_of_ends = ends_of_prefixes + logits.shape[1] - width

    tile_mask = batch.get("cross_attention_mask")
    prefix_state = CachedState(
        cache=crop_cache(cache, longest) if tile_mask is None else None,
        mask=is_token.long(),
        position=next_position,
        logits=logits[torch.arange(len(trees), device=device), index_of_ends],
        tile_mask=None if tile_mask is None else tile_mask[:, -1:],
    )
    return TreeState(prefix_state, cache, sees, position, _of_scored_nodes(logits, trees))


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
    """Return a matrix [nodes, nodes] that is true where a node sees another: its ancestors and itself."""
    import torch

    sees = torch.eye(len(tree.tokens), dtype=torch.bool)
    parents_first = sorted(range(len(tree.tokens)), key=tree.depths.__getitem__)
    for node in parents_first:
        parent = tree.parents[node]
        if parent != PREFIX_END:
            sees[node] |= sees[parent]
    return sees


def _of_scored_nodes(logits: Any, trees: Sequence[Tree]) -> Any:
    """Return the logits of the last nodes, as many as the tree with the most scored nodes has."""
    most_scored = max(tree.scored for tree in trees)
    return logits[:, logits.shape[1] - most_scored :]


# --- groups of requests -----------------------------------------------------------------------------------------------


def score_by_tree(
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    trees: Sequence[Tree],
    grown: TreeState,
) -> dict[int, Scores]:
    """Return the token scores of requests whose prompts and continuations were run as trees.

    Args:
        items: The tokens of all requests.
        groups: Groups of requests with a common beginning of the prompt (the prefix).
        trees: The tree of each group: the tokens after the prefix.
        grown: The model's outputs for the prefixes and trees.

    Returns:
        For each request by its index in `items`: the log-probabilities of the tokens of each continuation.
    """
    scores: dict[int, Scores] = {}
    for row, (group, tree) in enumerate(zip(groups, trees, strict=True)):
        prefix_logits = grown.prefix.logits[row]
        node_logits = None if grown.logits is None else grown.logits[row]
        scores.update(_tree_scores(prefix_logits, node_logits, items, group, tree))
    return scores


def generate_by_tree(
    layout: ModelLayout,
    groups: Sequence[SharingGroup],
    trees: Sequence[Tree],
    grown: TreeState,
    pick: TokenPicker,
    longest: int,
) -> dict[int, list[int]]:
    """Generate replies as branches of the trees.

    Every member of a group has one continuation of one token, which stands for the text to generate.

    Args:
        layout: The model.
        groups: Groups of requests, one per row.
        trees: The tree of each group.
        grown: The state after prefixes and trees.
        pick: Chooses the next tokens.
        longest: Maximum number of tokens of a reply.

    Returns:
        The new tokens of each request, by its index.
    """
    import torch

    members = [member for group in groups for member in group.members]
    # For each row, the nodes after which replies begin.
    stems: list[list[int]] = []
    first_logits = []
    for row, tree in enumerate(trees):
        row_stems = [member_predictors[0][0] for member_predictors in tree.predictors]
        stems.append(row_stems)
        first_logits.extend(_logits_at_node(grown, trees, row, node) for node in row_stems)
    logits = torch.stack(first_logits)

    branches = branches_of(layout, grown, trees, stems)
    branches = replace(branches, cache=with_room(branches.cache, longest))
    # For each row, the replies whose branches are still running, in branch order. Replies are numbered over all rows.
    live: list[list[int]] = []
    count = 0
    for row_stems in stems:
        live.append(list(range(count, count + len(row_stems))))
        count += len(row_stems)
    index = _branch_index(live, logits.device)

    replies = GrowingReplies(len(members), pick(members))
    for step in range(longest):
        tokens = replies.choose(logits)
        running = [[reply for reply in row if not replies.ended[reply]] for row in live]
        if step == longest - 1 or not any(running):
            break
        if running != live:
            kept = []
            for live_row, running_row in zip(live, running, strict=True):
                kept.append([live_row.index(reply) for reply in running_row])
            branches = select_branches(branches, kept)
            live = running
            index = _branch_index(live, logits.device)

        most_branches = max(len(row) for row in live)
        next_ids = []
        for row in live:
            padding = [layout.pad] * (most_branches - len(row))
            next_ids.append([*(tokens[reply] for reply in row), *padding])
        ids = copy_to_device(torch.tensor(next_ids), logits.device)
        branches, branch_logits = extend_branches(layout, branches, ids)
        rows, row_branches, targets = index
        logits = logits.index_copy(0, targets, branch_logits[rows, row_branches])
    return dict(zip(members, replies.tokens, strict=True))


def _branch_index(live: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any, Any]:
    """Return three tensors with one entry per live branch: its row, its index in the row, and its reply."""
    import torch

    positions = []
    for row, replies in enumerate(live):
        for branch, reply in enumerate(replies):
            positions.append((row, branch, reply))
    rows, branches, targets = copy_to_device(torch.tensor(positions), device).unbind(1)
    return rows, branches, targets


def score_by_rows(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
) -> dict[int, Scores]:
    """Return the token scores of requests, with one row for each prompt and then one row for each continuation.

    Args:
        layout: The model and its special tokens.
        items: The tokens of all requests: a prompt (`tokens`) and its continuations (`tails`).
        groups: Groups of requests with a common beginning of the prompt (the prefix).
        prefixes: The model's cache after the prefixes, one row for each group.

    Returns:
        For each request by its index in `items`: the log-probabilities of the tokens of each continuation.
    """
    scores: dict[int, Scores] = {}
    for block in _blocks(items, groups):
        state = _after_prompts(layout, prefixes, items, groups, block)
        tails: list[tuple[int, Sequence[int]]] = []  # (row of the prompt, token ids)
        for row, (_, member) in enumerate(block):
            for tail in items[member].tails:
                tails.append((row, tail))
        remaining = iter(_tail_scores(layout, state, tails))
        for _, member in block:
            scores[member] = [next(remaining) for _ in items[member].tails]
    return scores


def generate_by_rows(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
    pick: TokenPicker,
    longest: int,
) -> dict[int, list[int]]:
    """Generate replies token by token, with one row of the batch for each request.

    Args:
        layout: The model and its special tokens.
        items: The tokens of all prompts.
        groups: Groups of prompts with a common beginning (the prefix).
        prefixes: The model's cache after the prefixes, one row for each group.
        pick: Returns, for some requests, the function that chooses the next token of each.
        longest: The maximum number of new tokens.

    Returns:
        The new tokens of each request, by its index in `items`.
    """
    new_tokens: dict[int, list[int]] = {}
    for block in _blocks(items, groups):
        members = [member for _, member in block]
        state = _after_prompts(layout, prefixes, items, groups, block)
        state = replace(state, cache=with_room(state.cache, longest))
        replies = GrowingReplies(len(members), pick(members))
        for step in range(longest):
            tokens = replies.choose(state.logits)
            if all(replies.ended) or step == longest - 1:
                break
            state = advance(layout, state, [[token] for token in tokens])
        new_tokens.update(zip(members, replies.tokens, strict=True))
    return new_tokens


def _logits_at_node(grown: TreeState, trees: Sequence[Tree], row: int, node: int) -> Any:
    """Return the logits [vocabulary] at a predicting node of a row's tree, or at the end of its prefix."""
    if node == PREFIX_END:
        return grown.prefix.logits[row]
    row_logits = grown.logits[row]
    first_node = row_logits.shape[0] - len(trees[row].tokens)
    return row_logits[first_node + node]


def _blocks(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup]
) -> list[list[tuple[int, int]]]:
    """Divide prompts into batches of equal length.

    Args:
        items: The tokens of all prompts.
        groups: Groups of prompts with a common beginning.

    Returns:
        The batches. Each prompt is a pair of the index of its group and its own index in `items`.
    """
    pairs_by_length: dict[int, list[tuple[int, int]]] = {}
    for row, group in enumerate(groups):
        for member in group.members:
            length = len(items[member].tokens)
            pairs_by_length.setdefault(length, []).append((row, member))
    return list(pairs_by_length.values())


def _tail_scores(
    layout: ModelLayout, state: CachedState, tails: Sequence[tuple[int, Sequence[int]]]
) -> list[list[float]]:
    """Return the log-probabilities of the tokens of several continuations, run as one batch.

    Args:
        layout: The model and its special tokens.
        state: The model's cache after several prompts, one in each row.
        tails: For each continuation, the row of its prompt and its token ids.
    """
    # The state predicts the first token of each continuation. Later tokens need another forward pass.
    later_logits = None
    if any(len(continuation) > 1 for _, continuation in tails):
        repeated = select_rows(state, [row for row, _ in tails])
        without_last = [continuation[:-1] for _, continuation in tails]
        later_logits = logits_of_texts(layout, repeated, without_last)
    scores = []
    for index, (row, continuation) in enumerate(tails):
        later = None if later_logits is None else later_logits[index]
        scores.append(_row_scores(state.logits[row], later, continuation))
    return scores


def _after_prompts(
    layout: ModelLayout,
    prefixes: CachedState,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    block: Sequence[tuple[int, int]],
) -> CachedState:
    """Run the rest of each prompt of a batch, and return the model's cache after the complete prompts.

    Args:
        layout: The model and its special tokens.
        prefixes: The model's cache after the common beginning of each group.
        items: The tokens of all prompts.
        groups: Groups of prompts with a common beginning.
        block: The batch: for each prompt the index of its group and its own index in `items`.
    """
    state = select_rows(prefixes, [row for row, _ in block])
    rests: list[Sequence[int]] = []
    for row, member in block:
        prefix_length = groups[row].prefix
        rests.append(items[member].tokens[prefix_length:])
    if not rests[0]:
        return state
    return advance(layout, state, rests)


def _row_scores(first: Any, later: Any, tail: Sequence[int]) -> list[float]:
    """Return the log-probabilities of the tokens of a continuation.

    `first` [vocabulary] predicts its first token; `later` [tokens, vocabulary] predicts the others, None if there are none.
    """
    import torch

    logits = first[None]
    if later is not None and len(tail) > 1:
        logits = torch.cat([logits, later[: len(tail) - 1]])
    scores: list[float] = token_scores(logits, tail).tolist()
    return scores


def _tree_scores(
    prefix_logits: Any,
    node_logits: Any,
    items: Sequence[PrefixItem],
    group: SharingGroup,
    tree: Tree,
) -> dict[int, Scores]:
    """Return the scores of a group's members.

    Args:
        prefix_logits: [vocabulary], at the end of the group's prefix.
        node_logits: [nodes, vocabulary], of which the last `tree.scored` are used; None if the tree has no nodes.
        items: The tokenised requests.
        group: The group.
        tree: The tree of the group.
    """
    import torch

    logits = prefix_logits[None]
    if node_logits is not None:
        scored_nodes = node_logits[node_logits.shape[0] - tree.scored :]
        logits = torch.cat([logits, scored_nodes])
    logits = logits.float()

    # For every scored token, the row of `logits` that predicts it. Row 0 is the end of the prefix.
    unscored = len(tree.tokens) - tree.scored
    logit_rows = []
    tokens = []
    for member, member_predictors in zip(group.members, tree.predictors, strict=True):
        for tail, path in zip(items[member].tails, member_predictors, strict=True):
            for node, token in zip(path, tail, strict=True):
                logit_rows.append(0 if node == PREFIX_END else 1 + node - unscored)
                tokens.append(token)
    row_index = torch.tensor(logit_rows, device=logits.device)
    token_index = torch.tensor(tokens, device=logits.device)
    log_probabilities = logits[row_index, token_index] - logits.logsumexp(-1)[row_index]

    values = iter(log_probabilities.tolist())
    scores: dict[int, Scores] = {}
    for member in group.members:
        scores[member] = [[next(values) for _ in tail] for tail in items[member].tails]
    return scores
