"""Score and generate for groups of requests whose common beginning (prefix) was run once.

What follows the prefix is run as a tree in one row per group, or in one row per request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from snellen.models.hf.cached_forward import (
    CachedState,
    advance,
    logits_of_texts,
    select_rows,
)
from snellen.models.hf.caches import (
    with_room,
)
from snellen.models.hf.decoding import GrowingReplies, TokenPicker
from snellen.models.hf.load import copy_to_device
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import Scores
from snellen.models.hf.sharing_plan import (
    PREFIX_END,
    PrefixItem,
    SharingGroup,
    Tree,
    build_tree,
)
from snellen.models.hf.token_trees import (
    TreeState,
    branches_of,
    extend_branches,
    extend_trees,
    select_branches,
)


def score_by_tree(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
) -> dict[int, Scores]:
    """Return the token scores of requests, with the rest of their prompts and their continuations as trees.

    Args:
        layout: The model.
        items: The tokens of all requests.
        groups: Groups of requests with a common beginning of the prompt (the prefix).
        prefixes: The model's cache after the prefixes, one row for each group.

    Returns:
        For each request by its index in `items`: the log-probabilities of the tokens of each continuation.
    """
    trees = [build_tree(items, group) for group in groups]
    tree_state = extend_trees(layout, prefixes, trees)
    scores: dict[int, Scores] = {}
    for row, (group, tree) in enumerate(zip(groups, trees, strict=True)):
        prefix_logits = prefixes.logits[row]
        node_logits = None if tree_state.logits is None else tree_state.logits[row]
        scores.update(_tree_scores(prefix_logits, node_logits, items, group, tree))
    return scores


def generate_by_tree(
    layout: ModelLayout,
    items: Sequence[PrefixItem],
    groups: Sequence[SharingGroup],
    prefixes: CachedState,
    pick: TokenPicker,
    longest: int,
) -> dict[int, list[int]]:
    """Generate replies to requests with common prefixes, as branches of the trees.

    Each request has a single continuation of one token, which stands in the place of the reply. The
    node that predicts it is where the reply begins.

    Args:
        layout: The model.
        items: The tokens of all requests.
        groups: Groups of requests with a common beginning of the prompt (the prefix).
        prefixes: The model's cache after the prefixes, one row for each group.
        pick: Returns, for some requests, the function that chooses the next token of each.
        longest: Maximum number of tokens of a reply.

    Returns:
        The token ids of the reply to each request, by its index.
    """
    import torch

    trees = [build_tree(items, group) for group in groups]
    tree_state = extend_trees(layout, prefixes, trees)
    members: list[int] = []
    for group in groups:
        members.extend(group.members)
    # For each row, the nodes after which replies begin.
    branch_starts: list[list[int]] = []
    first_logits = []
    for row, tree in enumerate(trees):
        row_starts = [member_predictors[0][0] for member_predictors in tree.predictors]
        branch_starts.append(row_starts)
        for node in row_starts:
            first_logits.append(_logits_at_node(tree_state, trees, row, node))
    logits = torch.stack(first_logits)

    branches = branches_of(layout, tree_state, trees, branch_starts)
    branches = replace(branches, cache=with_room(branches.cache, longest))
    # For each row, the replies whose branches are still running, in branch order. Replies are numbered over all rows.
    live: list[list[int]] = []
    count = 0
    for row_starts in branch_starts:
        live.append(list(range(count, count + len(row_starts))))
        count += len(row_starts)
    index = _branch_index(live, logits.device)

    replies = GrowingReplies(len(members), pick(members))
    for step in range(longest):
        tokens = replies.choose(logits)
        running = [[reply for reply in row if not replies.ended[reply]] for row in live]
        if step == longest - 1 or not any(running):
            break
        if running != live:
            running_branches = []
            for live_row, running_row in zip(live, running, strict=True):
                running_branches.append([live_row.index(reply) for reply in running_row])
            branches = select_branches(branches, running_branches)
            live = running
            index = _branch_index(live, logits.device)

        most_branches = max(len(row) for row in live)
        next_ids = []
        for row in live:
            padding = [layout.pad] * (most_branches - len(row))
            row_ids = [tokens[reply] for reply in row]
            next_ids.append(row_ids + padding)
        ids = copy_to_device(torch.tensor(next_ids), logits.device)
        branches, branch_logits = extend_branches(layout, branches, ids)
        rows, row_branches, targets = index
        logits = logits.index_copy(0, targets, branch_logits[rows, row_branches])
    return dict(zip(members, replies.tokens, strict=True))


def _branch_index(live: Sequence[Sequence[int]], device: Any) -> tuple[Any, Any, Any]:
    """Return where each running branch is, as three tensors with one entry per branch.

    Args:
        live: For each row, the numbers of the replies that its branches generate.
        device: Device of the tensors.

    Returns:
        The row of each branch, its index in the row, and the number of its reply.
    """
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
    most_rows: int,
) -> dict[int, Scores]:
    """Return the token scores of requests, first with one row for each prompt, then with one for each continuation.

    Args:
        layout: The model and its special tokens.
        items: The tokens of all requests: a prompt (`tokens`) and its continuations (`tails`).
        groups: Groups of requests with a common beginning of the prompt (the prefix).
        prefixes: The model's cache after the prefixes, one row for each group.
        most_rows: Maximum number of continuations in a forward pass.

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
        tail_scores: Scores = []
        for start in range(0, len(tails), most_rows):
            tail_scores += _tail_scores(layout, state, tails[start : start + most_rows])
        remaining = iter(tail_scores)
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


def _logits_at_node(tree_state: TreeState, trees: Sequence[Tree], row: int, node: int) -> Any:
    """Return the logits at a node of a row's tree, or at the end of its prefix (PREFIX_END); shape (vocabulary)."""
    if node == PREFIX_END:
        return tree_state.prefix.logits[row]
    row_logits = tree_state.logits[row]
    first_node = row_logits.shape[0] - len(trees[row].tokens)
    return row_logits[first_node + node]


def _blocks(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup]
) -> list[list[tuple[int, int]]]:
    """Divide prompts into batches of prompts with the same number of tokens, which need no padding.

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
    """Return the log-probabilities of the tokens of a continuation, in nats.

    Args:
        first: Logits of its first token; shape (vocabulary).
        later: Logits of its second and further tokens; shape (tokens, vocabulary). None if it has
            only one token.
        tail: Token ids of the continuation.
    """
    import torch

    logits = first[None]
    if later is not None and len(tail) > 1:
        logits = torch.cat([logits, later[: len(tail) - 1]])
    tokens = torch.tensor(tail, device=logits.device)[:, None]
    log_probabilities = logits.float().log_softmax(-1)
    scores: list[float] = log_probabilities.gather(-1, tokens)[:, 0].tolist()
    return scores


def _tree_scores(
    prefix_logits: Any,
    node_logits: Any,
    items: Sequence[PrefixItem],
    group: SharingGroup,
    tree: Tree,
) -> dict[int, Scores]:
    """Return the scores of the requests of a group.

    Args:
        prefix_logits: Logits at the end of the group's prefix; shape (vocabulary).
        node_logits: Logits at the last nodes; shape (nodes, vocabulary). Only the last
            `tree.scored` are used. None if no tree has nodes.
        items: The tokenised requests.
        group: The group.
        tree: The tree of the group.

    Returns:
        For each request by its index in `items`: the log-probabilities of the tokens of each
        continuation, in nats.
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
