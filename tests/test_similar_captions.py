"""Captions that nearly fit: what they name, which images are similar, which caption is the nearest."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.suites.reform_eval.readers.coco import (
    Categories,
    SimilarImages,
    category_finder,
    coco_words,
    differs_from_all,
    most_similar,
    overlap,
)

COCO = (
    "person",
    "dog",
    "hot dog",
    "bus",
    "knife",
    "sheep",
    "wine glass",
    "couch",
    "bear",
    "teddy bear",
    "tennis racket",
)
named = st.frozensets(st.sampled_from("abcde"), max_size=4)


@pytest.mark.parametrize(
    ("caption", "found"),
    [
        ("A man and two women on a couch.", {"person", "couch"}),
        ("People eating hot dogs", {"person", "hot dog"}),
        (
            "Two buses, three sheep; KNIVES and wine glasses!",
            {"bus", "sheep", "knife", "wine glass"},
        ),
        ("A teddy bear on sofas", {"teddy bear", "couch"}),
        ("a bearded manatee in a doghouse, busily", set()),
        ("the tennis racquet of a surfer", {"tennis racket", "person"}),
        ("", set()),
    ],
)
def test_a_caption_names_categories_by_whole_words(caption: str, found: set[str]) -> None:
    assert category_finder(COCO, coco_words())(caption) == found


def test_every_category_is_named_by_its_own_name_and_its_other_words() -> None:
    name = category_finder(coco_words(), coco_words())
    for category, words in coco_words().items():
        for word in (category, *words):
            assert category in name(f"There is a {word} here."), word


@given(named, named)
def test_overlap_is_symmetric_and_one_for_the_same(one: Categories, other: Categories) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert 0 <= overlap(one, other) <= 1
    assert (overlap(one, other) == 1) == (one == other != frozenset())
    union = one | other
    assert overlap(one, other) == (len(one & other) / len(union) if union else 0)


@given(st.lists(named, min_size=1, max_size=12), st.integers(1, 6), st.integers(0, 99))
def test_neighbours_show_something_else_and_are_the_most_similar(
    shown: list[Categories], count: int, seed: int
) -> None:
    pictures = dict(enumerate(shown))
    near = SimilarImages(pictures).nearest(0, count, random.Random(seed))
    rivals = {key: overlap(shown[0], names) for key, names in pictures.items() if names - shown[0]}
    assert len(near) == len(set(near)) == min(count, len(rivals))
    likeness = [rivals[key] for key in near]
    assert likeness == sorted(rivals.values(), reverse=True)[: len(near)]


def test_of_equally_similar_pictures_another_seed_draws_others() -> None:
    pictures = {0: frozenset("a"), **{key: frozenset("ab") for key in range(1, 40)}}
    neighbours = SimilarImages(pictures)
    assert len({tuple(neighbours.nearest(0, 3, random.Random(seed))) for seed in range(8)}) > 1
    assert neighbours.nearest(0, 3, random.Random(1)) == SimilarImages(pictures).nearest(
        0, 3, random.Random(1)
    )


def test_a_caption_that_may_be_true_of_the_picture_comes_last() -> None:
    gold, shown = frozenset({"person", "surfboard"}), frozenset({"person", "surfboard"})
    riding = ("A man rides a wave on his board.", frozenset({"person", "surfboard"}))
    dog = ("A dog on a surfboard.", frozenset({"dog", "surfboard"}))
    kite = ("A kite over a beach with umbrellas.", frozenset({"kite", "umbrella"}))
    assert most_similar(gold, [kite, riding, dog], shown) == dog[0]
    assert most_similar(gold, [riding], shown) == riding[0]
    assert most_similar(gold, [], shown) is None


def test_a_caption_differs_when_it_says_none_of_the_others() -> None:
    assert not differs_from_all("The dogs, on a sofa.", ["A cat.", "the dogs on sofa"])
    assert differs_from_all("A dog on a sofa.", ["A cat on a sofa."])
