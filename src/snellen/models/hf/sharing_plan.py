"""What may be shared, rung by rung, and the plan of it within a window of tokenised requests. Pure, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Literal

# --- the rungs of the ladder: from a tree in one forward pass down to one row at a time -------------------------------


RowsTogether = Literal["ragged", "equal", "single"]
"""Which rows run in one forward pass after their prefixes: any, those of equal length, or none but one."""
Writing = Literal["shared", "generate in batches", "generate", "token by token"]
"""How replies are written: after shared prefixes; by the model's own `generate`, in batches or one at a time; or
by one full forward pass per token, which is the reference."""


@dataclass(frozen=True)
class ProvedRange:
    """The texts for which fast paths were proved. Others are run one row at a time, nothing shared."""

    shortest: int = 0
    """Tokens of the shortest prompt."""
    longest: int | None = None
    """Tokens of the longest text, continuation included; None: any length."""
    pictures: frozenset[int] | None = None
    """Numbers of images in a text; None: any number."""
    blind: bool = True
    """Whether texts without an image are among them."""

    def covers(self, tokens: int, more: int, pictures: int) -> bool:
        """Whether a prompt of `tokens` with up to `more` after it, and with so many images, is within it."""
        return (
            self.shortest <= tokens
            and (self.longest is None or tokens + more <= self.longest)
            and (self.pictures is None or pictures in self.pictures)
            and (self.blind or pictures > 0)
        )

    @property
    def name(self) -> str:
        """The limits, as part of a strategy's name; empty if everything is covered."""
        limits = []
        if self.shortest:
            limits.append(f"from {self.shortest} tokens")
        if self.longest is not None:
            limits.append(f"up to {self.longest} tokens")
        if self.pictures is not None:
            limits.append(f"with {' or '.join(map(str, sorted(self.pictures)))} pictures")
        elif not self.blind:
            limits.append("with a picture")
        return " ".join(limits)


@dataclass(frozen=True)
class FastPaths:
    """What may be shared without changing a score or a reply. If all are false, one row is run at a time."""

    vision_cache: bool = False
    """Encoders may run once per image, or once per prompt."""
    cache: bool = False
    """A prompt may be run once for all its continuations."""
    shared: bool = False
    """An image's keys and values may serve another question too."""
    batch: bool = False
    """Rows of equal length, or padded at their ends, may share a forward pass."""
    ragged: bool = False
    """Rows of unequal length may share one cache, which then has holes."""
    tree: bool = False
    """Everything after a prefix may be run in one forward pass, each token seeing its own ancestors."""
    at_once: bool = False
    """A short prefix may be run in the same forward pass as its tree."""
    prefix_cache: bool = False
    """Prefixes of one call may serve the next."""
    writing: Writing = "shared"
    """How replies are written."""
    proved: ProvedRange = ProvedRange()
    """The texts that all this holds for."""

    def with_path(self, name: str) -> FastPaths:
        """These and the fast path called `name`."""
        more: dict[str, Any] = {name: True}
        return replace(self, **more)

    @property
    def shares(self) -> bool:
        """Whether anything is done differently from the reference."""
        return self.cache or self.vision_cache or self.batch or self.writing != "token by token"

    @property
    def runs_together(self) -> bool:
        """Whether texts are run in any other way than each by itself and from its beginning."""
        return self.cache or self.batch

    @property
    def together(self) -> RowsTogether:
        """Which rows run in one forward pass after their prefixes."""
        return "ragged" if self.ragged else "equal" if self.batch else "single"

    @property
    def rows_name(self) -> str:
        """How scores are computed, without the limits."""
        if not (self.cache or self.vision_cache or self.batch):
            return "plain"
        if not self.cache:
            facts = ["full rows", *["encoders kept"] * self.vision_cache]
            return ", ".join([*facts, *["one row at a time"] * (not self.batch)])
        facts = [
            "tree" if self.tree else "rows",
            "picture shared" if self.shared else "prompt shared",
        ]
        more = {
            "features kept": self.vision_cache,
            "one forward": self.at_once,
            "trunks kept": self.prefix_cache,
            "one row at a time": not (self.batch or self.ragged),
            "one group at a time": self.batch and not self.ragged,
        }
        return ", ".join([*facts, *(fact for fact, true in more.items() if true)])

    @property
    def name(self) -> str:
        """A description of the strategy, for the run's manifest."""
        usual: Writing = (
            "shared" if self.cache else "generate in batches" if self.batch else "generate"
        )
        facts = [self.rows_name]
        if self.writing != usual:
            facts.append(f"replies {self.writing}")
        if self.proved.name:
            facts.append(f"{self.proved.name}, others plain")
        return "; ".join(facts)


PLAIN = FastPaths(writing="token by token")
"""The last rung: one row at a time, no cache, no padding."""


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
    anchor: int = 0
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
    """Batches of groups: every request is in exactly one group, and groups of similar length are together, if their
    inputs have the same shapes.

    `shared`: different prompts may share a prefix; otherwise only equal prompts do. `ragged`: prefixes of
    different length may be in one batch; otherwise every batch holds one group. Apart from the indices,
    the plan does not depend on the order of the items.
    """
    groups = _groups(items, shared)
    pieces = [piece for group in groups for piece in _split(items, group, budget)]
    longest_of_form: dict[str, int] = {}
    for piece in pieces:
        form = items[piece.members[0]].form
        longest_of_form[form] = max(piece.prefix, longest_of_form.get(form, 0))

    def order(group: SharingGroup) -> tuple[Any, ...]:
        first = items[group.members[0]]
        return -longest_of_form[first.form], first.form, -group.prefix, first.key, first.tokens

    pieces.sort(key=order)
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
        predictors.append(
            tuple(tuple(_walk(nodes, stem, tail[:-1])[: len(tail)]) for tail in items[member].tails)
        )
    return _ordered(list(nodes), predictors)


def reusable_length(
    items: Sequence[PrefixItem], group: SharingGroup, cached: Sequence[int], shared: bool
) -> int:
    """How many tokens of `known`, a prefix read earlier with the same images, `group` can reuse.

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
    """The minimum length of a shared prefix: the images, or half of a text without images."""
    return item.anchor or (len(item.tokens) + 1) // 2


def _split(items: Sequence[PrefixItem], group: SharingGroup, budget: Budget) -> list[SharingGroup]:
    """Parts of a group, each within the budget; a request that exceeds it is on its own."""
    pieces: list[list[int]] = [[]]
    for member in group.members:
        if pieces[-1] and (
            len(pieces[-1]) >= budget.rows
            or _after(items, [*pieces[-1], member], group.prefix) > budget.tokens
        ):
            pieces.append([])
        pieces[-1].append(member)
    return [SharingGroup(tuple(piece), group.prefix) for piece in pieces]


def _fits(items: Sequence[PrefixItem], groups: Sequence[SharingGroup], budget: Budget) -> bool:
    if len({items[group.members[0]].form for group in groups}) > 1:
        return False
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
    return list(
        accumulate(
            tokens, lambda node, token: nodes.setdefault((node, token), len(nodes)), initial=start
        )
    )


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
        predictors=tuple(
            tuple(tuple(place[n] for n in tail) for tail in member) for member in predictors
        ),
    )
