"""Decide which requests are run together and which beginnings of prompts they share. Pure Python, without torch.

Requests about one image begin with the same tokens. This common beginning (prefix) is run once for
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# --- three ways to run requests --------------------------------------------------------------------------------------


Way = Literal["tree", "rows", "plain"]
"""How requests are run, the fastest way first:

tree       prefixes of any length in one batch, then everything after a prefix in one forward pass, in which each token
           sees its own ancestors; prefixes are cached for later calls
rows       prefixes of equal length in one batch, then rows of equal length, each in a copy of its prefix's cache
plain      one row at a time, and nothing cached: the reference
"""


@dataclass(frozen=True)
class FastPaths:
    """How requests are run. In every way but the plain one, image encoders run once per image."""

    way: Way
    shared: bool = False
    """Whether different questions about an image may share its keys and values."""

    @property
    def ragged(self) -> bool:
        """Whether a batch may hold prefixes of different length, and later calls may continue cached prefixes."""
        return self.way == "tree"

    @property
    def name(self) -> str:
        """A description for the run's manifest, such as "tree, image shared"."""
        if self.way == "plain":
            return "plain"
        return f"{self.way}, {'image' if self.shared else 'prompt'} shared"


PLAIN = FastPaths("plain")
"""The slowest way, which is used if no other is exact."""


# --- the plan ---------------------------------------------------------------------------------------------------------
# Requests about one image begin with the same tokens: the image, often the instruction, sometimes the question.
# This shared prefix is run once. What follows is a trie of tokens, each node of which is run once, whichever question,
# template, option order or option it belongs to.


PREFIX_END = -1
"""The index that stands for the last token of the prefix, which is not a node of the tree itself."""


@dataclass(frozen=True)
class PrefixItem:
    """The tokens of a request."""

    key: str
    """Digest of the images. Two requests can share a prefix only if they have the same images."""
    tokens: tuple[int, ...]
    image_end: int = 0
    """Number of tokens up to the end of the last image. A shared prefix contains at least these tokens."""
    tails: tuple[tuple[int, ...], ...] = ()
    """Token ids of each continuation that is scored after `tokens`; () if a reply is generated."""
    form: str = ""
    """The shapes of all inputs that do not have one entry per token, as text.

    Requests with different shapes are never run in one batch.
    """


@dataclass(frozen=True)
class SharingGroup:
    """Requests that share their first `prefix` tokens."""

    members: tuple[int, ...]
    """Indices of the requests in the list that is planned, sorted by their tokens."""
    prefix: int


@dataclass(frozen=True)
class Budget:
    """How many requests and tokens fit into memory in one forward pass."""

    rows: int
    """Requests."""
    tokens: int
    """Tokens, padding included."""

    def halved(self) -> Budget:
        """Return half of this budget, but at least one request and one token."""
        return Budget(max(1, self.rows // 2), max(1, self.tokens // 2))


@dataclass(frozen=True)
class Tree:
    """The tokens after a prefix as a tree (trie), in which texts that begin with the same tokens share nodes.

    For example, the texts (5, 6) and (5, 7) need three nodes: 5, then 6 and 7 after it.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    """For each node, the index of the node before it; PREFIX_END if it follows the prefix directly."""
    depths: tuple[int, ...]
    """Distance from the prefix: 0 for a token that follows it directly."""
    scored: int
    """Number of nodes at which the logits of a scored token are read. These are the last nodes."""
    predictors: tuple[tuple[tuple[int, ...], ...], ...]
    """Where the log-probability of each scored token is read.

    `predictors[m][t][j]` is the node before token j of continuation t of the group's request m, or PREFIX_END.
    """


def plan_sharing(
    items: Sequence[PrefixItem], budget: Budget, *, shared: bool = True, ragged: bool = True
) -> list[list[SharingGroup]]:
    """Plan the forward passes for some requests, so that common prefixes are run once.

    Apart from the indices, the plan does not depend on the order of the requests.

    Args:
        items: The tokenised requests.
        budget: How much fits in one forward pass.
        shared: Whether different prompts may share a prefix; otherwise only equal prompts do.
        ragged: Whether a batch may hold prefixes of different length; otherwise all its prefixes are equally long.

    Returns:
        Batches of groups. Every request is in exactly one group. Groups of a batch have inputs of the same shapes and
        similar length.
    """
    groups: list[SharingGroup] = []
    for group in _groups_by_prefix(items, shared):
        groups.extend(_split(items, group, budget))

    longest_of_form: dict[str, int] = {}
    for group in groups:
        form = items[group.members[0]].form
        longest_of_form[form] = max(group.prefix, longest_of_form.get(form, 0))

    def longest_first(group: SharingGroup) -> tuple[Any, ...]:
        first = items[group.members[0]]
        return -longest_of_form[first.form], first.form, -group.prefix, first.key, first.tokens

    groups.sort(key=longest_first)
    batches: list[list[SharingGroup]] = []
    for group in groups:
        if batches and _fits(items, [*batches[-1], group], budget, ragged):
            batches[-1].append(group)
        else:
            batches.append([group])
    return batches


def build_tree(items: Sequence[PrefixItem], group: SharingGroup) -> Tree:
    """Return the tree of all tokens after the prefix of a group: the rest of each prompt, then its continuations.

    The last token of a continuation gets no node unless another text goes on after it, because
    nothing is predicted from it.
    """
    nodes: dict[tuple[int, int], int] = {}
    predictors = []
    for member in group.members:
        item = items[member]
        rest_of_prompt = item.tokens[group.prefix :]
        prompt_end = _walk(nodes, PREFIX_END, rest_of_prompt)[-1]
        member_predictors = []
        for tail in item.tails:
            path = _walk(nodes, prompt_end, tail[:-1])
            member_predictors.append(tuple(path[: len(tail)]))
        predictors.append(tuple(member_predictors))
    return _with_predictors_last(list(nodes), predictors)


def reusable_length(
    items: Sequence[PrefixItem], group: SharingGroup, cached: Sequence[int], shared: bool
) -> int:
    """Return how many tokens of a cached prefix a group can reuse; 0 if they are too few to be worth it.

    Args:
        items: The tokenised requests.
        group: A group of them.
        cached: Tokens of a prefix that was run earlier with the same images.
        shared: Whether a part of the prefix may be reused; otherwise only an identical prefix counts.
    """
    prefix = items[group.members[0]].tokens[: group.prefix]
    if not shared:
        return group.prefix if prefix == tuple(cached) else 0
    members = [items[member] for member in group.members]
    length = common_prefix(prefix, cached)
    if length < len(cached):
        # Logits are cached only at the end of the prefix, so each member must run its own last token.
        shortest = min(len(item.tokens) for item in members)
        length = min(length, shortest - 1)
    required = max(_min_shared_length(item) for item in members)
    return length if length >= max(1, required) else 0


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest common prefix of two token sequences."""
    length = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        length += 1
    return length


def _groups_by_prefix(items: Sequence[PrefixItem], shared: bool) -> list[SharingGroup]:
    """Return groups of requests whose prompts begin with the same tokens. Groups can have any size.

    The requests are sorted by their tokens. Each one is added to the last group as long as they
    have a prefix that is long enough in common; otherwise it begins a new group.
    """

    def by_tokens(index: int) -> tuple[Any, ...]:
        item = items[index]
        return item.key, item.tokens, item.tails

    groups: list[SharingGroup] = []
    for index in sorted(range(len(items)), key=by_tokens):
        prefix = 0
        if groups:
            prefix = _prefix_with(items, groups[-1], index, shared)
        if prefix:
            groups[-1] = SharingGroup((*groups[-1].members, index), prefix)
        else:
            groups.append(SharingGroup((index,), len(items[index].tokens)))
    return groups


def _prefix_with(items: Sequence[PrefixItem], group: SharingGroup, index: int, shared: bool) -> int:
    """Return the length of the common prefix of `group` and request `index`, or 0 if it is too short to share."""
    first = items[group.members[0]]
    item = items[index]
    if first.key != item.key:
        return 0
    if not shared:
        return group.prefix if first.tokens == item.tokens else 0
    prefix = common_prefix(first.tokens[: group.prefix], item.tokens)
    required = max(_min_shared_length(item), first.image_end, 1)
    return prefix if prefix >= required else 0


def _min_shared_length(item: PrefixItem) -> int:
    """Return how long a prefix must be to be shared: up to the end of the images; without images, half of the prompt."""
    return item.image_end or (len(item.tokens) + 1) // 2


def _split(items: Sequence[PrefixItem], group: SharingGroup, budget: Budget) -> list[SharingGroup]:
    """Split a group of requests into parts that fit into memory.

    A request that is too large by itself becomes a part of its own.

    Args:
        items: The tokens of all requests.
        group: Requests with a common beginning of the prompt.
        budget: The maximum number of requests and of tokens in a part.
    """
    parts: list[list[int]] = []
    part: list[int] = []
    for member in group.members:
        extended = [*part, member]
        exceeds_rows = len(extended) > budget.rows
        exceeds_tokens = _tokens_after_prefix(items, extended, group.prefix) > budget.tokens
        if part and (exceeds_rows or exceeds_tokens):
            parts.append(part)
            part = [member]
        else:
            part = extended
    parts.append(part)
    return [SharingGroup(tuple(members), group.prefix) for members in parts]


def _fits(
    items: Sequence[PrefixItem], groups: Sequence[SharingGroup], budget: Budget, ragged: bool
) -> bool:
    """Return whether groups can be run in one batch: their inputs have the same shapes, and they fit into memory.

    Unless `ragged`, their prefixes must also have the same length.
    """
    forms = {items[group.members[0]].form for group in groups}
    prefixes = {group.prefix for group in groups}
    if len(forms) > 1 or (len(prefixes) > 1 and not ragged):
        return False
    requests = 0
    width = 0
    for group in groups:
        requests += len(group.members)
        tokens_after = _tokens_after_prefix(items, group.members, group.prefix)
        width = max(width, group.prefix, tokens_after)
    return requests <= budget.rows and len(groups) * width <= budget.tokens


def _tokens_after_prefix(items: Sequence[PrefixItem], members: Sequence[int], prefix: int) -> int:
    """Return an upper bound on the number of tokens after a prefix.

    Tokens that several requests have in common after the prefix are counted for each of them.
    """
    total = 0
    for member in members:
        item = items[member]
        total += len(item.tokens) - prefix
        total += sum(len(tail) for tail in item.tails)
    return total


def _walk(nodes: dict[tuple[int, int], int], start: int, tokens: Sequence[int]) -> list[int]:
    """Return the nodes on the path from `start` along some tokens, beginning with `start`. Missing nodes are added.

    Args:
        nodes: The index of each node, by the index of the node before it and its token. It is
            updated.
        start: Index of the first node.
        tokens: The tokens on the path.
    """
    path = [start]
    for token in tokens:
        node = nodes.setdefault((path[-1], token), len(nodes))
        path.append(node)
    return path


def _with_predictors_last(
    edges: list[tuple[int, int]], predictors: list[tuple[tuple[int, ...], ...]]
) -> Tree:
    """Return a tree in which the nodes whose logits are needed come last.

    The model can then compute the logits of the last nodes alone.

    Args:
        edges: For each node, the index of the node before it and its token. A node comes after the
            node before it.
        predictors: For each request and each of its continuations, the node at which each token is
            predicted.
    """
    depths: list[int] = []
    for parent, _ in edges:
        depths.append(0 if parent == PREFIX_END else depths[parent] + 1)

    predicting: set[int] = set()
    for member_predictors in predictors:
        for path in member_predictors:
            predicting.update(path)
    predicting.discard(PREFIX_END)

    order = sorted(range(len(edges)), key=lambda node: (node in predicting, node))
    new_index = {PREFIX_END: PREFIX_END}
    for index, node in enumerate(order):
        new_index[node] = index

    renumbered = []
    for member_predictors in predictors:
        paths = [tuple(new_index[node] for node in path) for path in member_predictors]
        renumbered.append(tuple(paths))
    return Tree(
        tokens=tuple(edges[node][1] for node in order),
        parents=tuple(new_index[edges[node][0]] for node in order),
        depths=tuple(depths[node] for node in order),
        scored=len(predicting),
        predictors=tuple(renumbered),
    )
