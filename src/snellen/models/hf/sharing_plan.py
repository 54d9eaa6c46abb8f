"""How a window of tokenised requests is run, and the plan of what they share. Pure, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# --- the ladder: from a tree in one forward pass down to one row at a time ---------------------------------------------


Way = Literal["tree", "rows", "full rows", "plain"]
"""How options are scored:

tree       everything after a shared prefix in one forward pass, each token seeing its own ancestors
rows       rows of equal length after a shared prefix, each in a copy of its cache
full rows  every option with its whole prompt, in batches
plain      every option with its whole prompt, one row at a time, nothing kept
"""
Writing = Literal["shared", "generate in batches", "generate", "token by token"]
"""How replies are written: after shared prefixes; by the model's own `generate`, in batches or one at a time; or
by one full forward pass per token, which is the reference."""


@dataclass(frozen=True)
class FastPaths:
    """How requests are run. Encoders run once per image, or once per prompt, in every way but the plain one."""

    way: Way
    shared: bool = False
    """An image's keys and values may serve another question too."""
    ragged: bool = False
    """Prefixes of unequal length may share a batch of trees, and prefixes of one call may serve the next."""
    writing: Writing = "shared"
    """How replies are written."""

    @property
    def uses_cache(self) -> bool:
        """Whether a prompt is run once for all its continuations."""
        return self.way in ("tree", "rows")

    @property
    def shares(self) -> bool:
        """Whether anything is done differently from the reference."""
        return self.way != "plain" or self.writing != "token by token"

    @property
    def rows_name(self) -> str:
        """Description of how scores are computed, as in "tree, picture shared, features kept, trunks kept"."""
        if self.way == "plain":
            return "plain"
        if self.way == "full rows":
            return "full rows, encoders kept"
        facts = [self.way, "picture shared" if self.shared else "prompt shared", "features kept"]
        facts.append("trunks kept" if self.ragged else "one group at a time")
        return ", ".join(facts)

    @property
    def name(self) -> str:
        """A description of the strategy, for the run's manifest."""
        usual_writing: Writing = "generate"
        if self.uses_cache:
            usual_writing = "shared"
        elif self.way == "full rows":
            usual_writing = "generate in batches"
        if self.writing == usual_writing:
            return self.rows_name
        return f"{self.rows_name}; replies {self.writing}"


PLAIN = FastPaths("plain", writing="token by token")
"""The last rung: one row at a time, no cache, no padding, all logits."""


# --- the plan ---------------------------------------------------------------------------------------------------------
# Requests about one image begin with the same tokens: the image, often the instruction, sometimes the question.
# This shared prefix is run once. What follows is a trie of tokens, each node of which is run once, whichever question,
# template, option order or option it belongs to.


PREFIX_END = -1
"""In a tree, the last token of the prefix."""


@dataclass(frozen=True)
class PrefixItem:
    """A tokenised request."""

    key: str
    """Digest of what must be equal besides the tokens for a prefix to be shared: the images."""
    tokens: tuple[int, ...]
    image_end: int = 0
    """Number of tokens up to and including the last image's: a shared prefix has at least these."""
    tails: tuple[tuple[int, ...], ...] = ()
    """The continuations that are scored after `tokens`; none for generation."""
    form: str = ""
    """Shapes of all inputs that are not per token: requests of different form never share a batch."""


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
        """Return half of this budget, but at least one request and one token."""
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
    """Plan the forward passes for some requests, so that common prefixes are run once.

    Apart from the indices, the plan does not depend on the order of the requests.

    Args:
        items: The tokenised requests.
        budget: How much fits in one forward pass.
        shared: Whether different prompts may share a prefix; otherwise only equal prompts do.
        ragged: Whether a batch may hold prefixes of different length; otherwise every batch holds one group.

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
    if not ragged:
        return [[group] for group in groups]
    batches: list[list[SharingGroup]] = []
    for group in groups:
        if batches and _fits(items, [*batches[-1], group], budget):
            batches[-1].append(group)
        else:
            batches.append([group])
    return batches


def build_tree(items: Sequence[PrefixItem], group: SharingGroup) -> Tree:
    """Return the trie of all tokens after the prefix of `group`: rests of prompts, then continuations.

    A final scored token needs no node of its own, because no token after it is predicted.
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
    """Return how many tokens of a cached prefix a group can reuse; 0 if too few to be worth it.

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
    """Return groups of requests with a common prefix, of any size. Sorted requests are added as long as they fit."""

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
    """Return the minimum length of a shared prefix: the images, or half of a text without images."""
    return item.image_end or (len(item.tokens) + 1) // 2


def _split(items: Sequence[PrefixItem], group: SharingGroup, budget: Budget) -> list[SharingGroup]:
    """Split a group of requests into parts that fit into memory together. A request that alone is too large is a part.

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


def _fits(items: Sequence[PrefixItem], groups: Sequence[SharingGroup], budget: Budget) -> bool:
    """Return whether groups can be one batch: inputs of the same shapes, within the budget."""
    forms = {items[group.members[0]].form for group in groups}
    if len(forms) > 1:
        return False
    requests = 0
    width = 0
    for group in groups:
        requests += len(group.members)
        tokens_after = _tokens_after_prefix(items, group.members, group.prefix)
        width = max(width, group.prefix, tokens_after)
    return requests <= budget.rows and len(groups) * width <= budget.tokens


def _tokens_after_prefix(items: Sequence[PrefixItem], members: Sequence[int], prefix: int) -> int:
    """Return an upper bound of the tokens after a prefix; tokens that members share further on count for each."""
    total = 0
    for member in members:
        item = items[member]
        total += len(item.tokens) - prefix
        total += sum(len(tail) for tail in item.tails)
    return total


def _walk(nodes: dict[tuple[int, int], int], start: int, tokens: Sequence[int]) -> list[int]:
    """Return the nodes on the path from `start` along `tokens`, with `start` first. Missing nodes are added.

    `nodes` maps (parent node, token) to a node of the trie.
    """
    path = [start]
    for token in tokens:
        node = nodes.setdefault((path[-1], token), len(nodes))
        path.append(node)
    return path


def _with_predictors_last(
    edges: list[tuple[int, int]], predictors: list[tuple[tuple[int, ...], ...]]
) -> Tree:
    """Return the tree with its predicting nodes last, so that only their logits need computing.

    Args:
        edges: (Parent node, token) of each node; parents come before their children.
        predictors: For each member and each of its continuations, the node that predicts each token.
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
