"""The sharing plan: pure, so its properties are tested without a model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from snellen.models.hf.sharing_plan import (
    PREFIX_END,
    Budget,
    PrefixItem,
    SharingGroup,
    build_tree,
    common_prefix,
    plan_sharing,
    reusable_length,
)

TOKENS = st.integers(0, 3)
TAILS = st.lists(st.lists(TOKENS, min_size=1, max_size=4).map(tuple), max_size=4).map(tuple)


@st.composite
def item_lists(draw: st.DrawFn) -> list[PrefixItem]:
    """Requests about a few images (token 9), which share beginnings as real prompts do."""
    items = []
    for _ in range(draw(st.integers(0, 9))):
        key = draw(st.sampled_from(["", "cat", "dog"]))
        head = draw(st.sampled_from([(1,), (1, 2), ()]))
        picture = (9, 9) if key else ()
        rest = draw(st.lists(TOKENS, min_size=1, max_size=6).map(tuple))
        tokens = (*head, *picture, *rest)
        items.append(PrefixItem(key, tokens, len(head) + 2 if key else 0, draw(TAILS)))
    return items


BUDGETS = st.builds(Budget, st.integers(1, 6), st.integers(1, 60))


@given(item_lists(), BUDGETS, st.booleans(), st.booleans())
def test_every_request_is_run_exactly_once(
    items: list[PrefixItem], budget: Budget, shared: bool, ragged: bool
) -> None:
    batches = plan_sharing(items, budget, shared=shared, ragged=ragged)
    run = [member for batch in batches for group in batch for member in group.members]
    assert sorted(run) == list(range(len(items)))


@given(item_lists(), BUDGETS, st.booleans())
def test_a_prefix_is_a_prefix_of_all_its_members_and_holds_their_pictures(
    items: list[PrefixItem], budget: Budget, shared: bool
) -> None:
    for group in (group for batch in plan_sharing(items, budget, shared=shared) for group in batch):
        members = [items[m] for m in group.members]
        assert len({member.tokens[: group.prefix] for member in members}) == 1
        assert len({member.key for member in members}) == 1
        assert all(member.image_end <= group.prefix <= len(member.tokens) for member in members)
        if not shared:
            assert all(len(member.tokens) == group.prefix for member in members)


@given(item_lists(), BUDGETS, st.booleans())
def test_a_batch_keeps_to_the_budget_unless_a_single_request_is_over_it(
    items: list[PrefixItem], budget: Budget, ragged: bool
) -> None:
    for batch in plan_sharing(items, budget, ragged=ragged):
        members = sum(len(group.members) for group in batch)
        assert members <= budget.rows
        if members > 1:
            for group in batch:
                after = sum(
                    len(items[m].tokens) - group.prefix + sum(map(len, items[m].tails))
                    for m in group.members
                )
                assert after <= budget.tokens or len(group.members) == 1
        if len(batch) > 1:
            assert ragged or len({group.prefix for group in batch}) == 1
            assert len(batch) * max(group.prefix for group in batch) <= budget.tokens


@given(item_lists(), BUDGETS, st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_the_requests(
    items: list[PrefixItem], budget: Budget, random: object
) -> None:
    order = list(range(len(items)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = [items[i] for i in order]

    def content(window: list[PrefixItem]) -> list[list[tuple[int, list[PrefixItem]]]]:
        return [
            [(group.prefix, [window[m] for m in group.members]) for group in batch]
            for batch in plan_sharing(window, budget)
        ]

    assert content(items) == content(shuffled)


@given(item_lists())
def test_a_tree_spells_every_text_and_predicts_every_scored_token_from_the_token_before(
    items: list[PrefixItem],
) -> None:
    for group in (group for batch in plan_sharing(items, Budget(99, 9999)) for group in batch):
        tree = build_tree(items, group)

        def spelled(node: int, tree: object = tree) -> tuple[int, ...]:
            if node == PREFIX_END:
                return ()
            return (*spelled(tree.parents[node]), tree.tokens[node])  # type: ignore[attr-defined]

        texts = [spelled(node) for node in range(len(tree.tokens))]
        assert len(set(texts)) == len(texts), "a text is run twice"
        assert [len(text) - 1 for text in texts] == list(tree.depths)
        scored = set()
        for member, tails in zip(group.members, tree.predictors, strict=True):
            rest = items[member].tokens[group.prefix :]
            for tail, nodes in zip(items[member].tails, tails, strict=True):
                assert [spelled(node) for node in nodes] == [
                    (*rest, *tail[:n]) for n in range(len(tail))
                ]
                scored |= set(nodes) - {PREFIX_END}
        assert scored == set(range(len(tree.tokens) - tree.scored, len(tree.tokens)))


def test_single_token_options_of_one_question_need_no_second_forward() -> None:
    items = [PrefixItem("cat", (1, 9, 9, 5), 3, ((1,), (2,), (3,)))]
    [[group]] = plan_sharing(items, Budget(8, 100))
    assert group == SharingGroup((0,), 4)
    assert build_tree(items, group).tokens == ()


def test_five_templates_of_four_options_share_the_picture() -> None:
    items = [
        PrefixItem("cat", (1, 9, 9, 9, t, 7, 7), 4, ((1, 2), (1, 3, 4), (2,), (3, 1)))
        for t in range(5)
    ]
    [[group]] = plan_sharing(items, Budget(16, 1000))
    assert group.prefix == 4
    # 5 x (template token, 7, 7) and what has a successor among the options: 1, 1 3, and 3.
    assert len(build_tree(items, group).tokens) == 5 * (3 + 3)


def test_a_question_before_the_picture_is_not_shared() -> None:
    items = [PrefixItem("cat", (1, t, 9, 9), 4) for t in range(3)]
    assert [[group.prefix for group in batch] for batch in plan_sharing(items, Budget(8, 100))] == [
        [4, 4, 4]
    ]


@given(
    item_lists(), st.lists(st.sampled_from([0, 1, 2, 3, 9]), max_size=9).map(tuple), st.booleans()
)
def test_a_prefix_known_before_serves_what_begins_with_it_and_holds_the_pictures(
    items: list[PrefixItem], known: tuple[int, ...], shared: bool
) -> None:
    for group in (
        group for batch in plan_sharing(items, Budget(9, 999), shared=shared) for group in batch
    ):
        length = reusable_length(items, group, known, shared)
        assert length == (reusable_length(items, group, known[:length], shared) if length else 0)
        for item in (items[member] for member in group.members):
            if length:
                assert item.tokens[:length] == known[:length]
                assert item.image_end <= length <= group.prefix
                assert length == len(known) or length < len(item.tokens), (
                    "its last token predicts what nobody knows"
                )
                assert shared or item.tokens[: group.prefix] == known


@given(st.lists(TOKENS), st.lists(TOKENS))
def test_common_prefix_is_common_and_longest(one: list[int], other: list[int]) -> None:
    n = common_prefix(one, other)
    assert one[:n] == other[:n]
    assert one[n : n + 1] != other[n : n + 1] or not one[n:] or not other[n:]
