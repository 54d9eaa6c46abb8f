"""ARO's four sets from small official files; shuffles made without a tagger."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import mini_aro
import reform
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import entries
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.suites.aro.reader import clean_caption, is_name_or_quality, make_shuffles


def made(name: str, source: Path, to: Path) -> Benchmark:
    benchmark = build_benchmark(entries()[f"aro/{name}"], source=source, to=to / f"built-{name}")
    reform.no_tag_tells(benchmark)
    return benchmark


def true_captions(benchmark: Benchmark) -> list[str]:
    answers = open_answers(benchmark.folder)
    return [sample.options[answers[sample.id, 0].options[0]] for sample in benchmark.samples()]


def test_a_relation_is_two_captions_about_the_box_of_the_picture(tmp_path: Path) -> None:
    benchmark = made("vg-relation", mini_aro.visual_genome(tmp_path / "vg"), tmp_path)
    first, second = benchmark.samples()
    assert (first.id, first.tags) == ("1-1", {"relation": "eating"})
    assert first.options == ("the grass is eating the horse", "the horse is eating the grass")
    assert true_captions(benchmark) == [
        "the horse is eating the grass",
        "the man is to the left of the horse",
    ]
    with Image.open(benchmark.images.path(first.images[0].digest)) as shown:
        assert shown.size == (40, 30)
    assert first.group == second.group


def test_attributes_are_read_with_their_pair_as_a_tag_of_the_answer(tmp_path: Path) -> None:
    benchmark = made("vg-attribution", mini_aro.visual_genome(tmp_path / "vg"), tmp_path)
    assert reform.scored_tags(benchmark, "attributes") == {"crouched and open": 2}
    assert set(true_captions(benchmark)) == {"the crouched cat and the open door"}


@pytest.mark.parametrize("name", ["coco-order", "flickr30k-order"])
def test_a_caption_stands_among_four_shuffles_and_one_without_them_is_left_out(
    name: str, tmp_path: Path
) -> None:
    maker = mini_aro.coco if name == "coco-order" else mini_aro.flickr30k
    benchmark = made(name, maker(tmp_path / "files"), tmp_path)
    assert true_captions(benchmark) == [clean_caption(text) for text in mini_aro.CAPTIONS]
    for sample in benchmark.samples():
        assert len(set(sample.options)) == 5
        assert len({tuple(sorted(option.split())) for option in sample.options}) == 1
    assert any(
        "1 skipped: a caption that cannot be shuffled" in note
        for note in benchmark.manifest.warnings
    )


def test_options_that_the_authors_loader_made_are_read_as_they_are_and_once(tmp_path: Path) -> None:
    folder = mini_aro.coco(tmp_path / "files")
    case = {
        "image": "val2014/COCO_val2014_000000000000.jpg",
        "caption_options": ["a b c", "b a c", "c b a", "c a b", "a c b"],
    }
    alike = {**case, "caption_options": ["a b d", "b a d", "b a d", "d a b", "a d b"]}
    reform.write_json(folder / "coco_order.json", [case, case, case, alike])
    benchmark = made("coco-order", folder, tmp_path)
    [sample] = benchmark.samples()
    assert sample.options == ("a b c", "b a c", "c b a", "c a b", "a c b")
    assert any(
        "1 skipped: two of its options are the same" in note for note in benchmark.manifest.warnings
    )


def test_the_options_of_the_suite_are_shuffled_by_default_and_the_oracle_is_right(
    tmp_path: Path,
) -> None:
    benchmark = made("vg-attribution", mini_aro.visual_genome(tmp_path / "vg"), tmp_path)
    folder = str(benchmark.folder)
    assert (
        sn.evaluate("snellen:oracle", folder, runs=tmp_path).value(
            "accuracy", benchmark="aro/vg-attribution"
        )
        == 1
    )
    results = sn.evaluate("snellen:uniform", folder, runs=tmp_path)
    assert {row.protocol for row in results.rows if row.benchmark == "aro/vg-attribution"} == {
        "instability?m=1&perturb=order&in_context=false"
    }


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"bbox_w": 40', '"bbox_w": "wide"', "visual_genome_relation.json"),
        ('"true_caption": "the horse', '"caption": "the horse', "true_caption"),
        ('"image_path": "1.jpg"', '"image_path": "9.jpg"', "9.jpg"),
    ],
)
def test_a_broken_file_is_refused_with_its_place(
    old: str, new: str, fault: str, tmp_path: Path
) -> None:
    folder = mini_aro.visual_genome(tmp_path / "vg")
    reform.broken(folder / "visual_genome_relation.json", old, new)
    with pytest.raises(DataError, match=fault):
        made("vg-relation", folder, tmp_path)


# --- shuffles ----------------------------------------------------------------------------------------------------


def test_nouns_and_adjectives_are_told_from_other_words() -> None:
    words = "a small brown dog is sitting quietly on the wooden building near two parked cars and a family".split()
    assert [word for word in words if is_name_or_quality(word)] == [
        "small",
        "brown",
        "dog",
        "wooden",
        "building",
        "cars",
        "family",
    ]


def test_the_first_shuffle_leaves_other_words_in_their_places_and_the_second_the_others() -> None:
    caption = clean_caption(mini_aro.CAPTIONS[1])
    words = caption.split()
    nouns, others, *_ = make_shuffles(caption, random.Random(1)) or ()
    for place, word in enumerate(words):
        kept = others if is_name_or_quality(word) else nouns
        assert kept.split()[place] == word


@given(
    st.lists(
        st.sampled_from("red blue dog cat runs over the quickly tree house".split()),
        min_size=1,
        max_size=12,
    )
)
def test_shuffles_have_the_same_words_and_are_all_different(words: list[str]) -> None:
    caption = " ".join(words)
    shuffles = make_shuffles(caption, random.Random(0))
    if shuffles is not None:
        assert len({caption, *shuffles}) == 5
        assert all(Counter(text.split()) == Counter(words) for text in shuffles)


def test_trigrams_keep_their_words_and_within_them_only_their_order_changes() -> None:
    caption = "one big cat two old dogs three wet birds"
    *_, within, whole = make_shuffles(caption, random.Random(2)) or ()
    threes = [caption.split()[i : i + 3] for i in (0, 3, 6)]
    assert [sorted(within.split()[i : i + 3]) for i in (0, 3, 6)] == [
        sorted(three) for three in threes
    ]
    assert sorted(whole.split()[i : i + 3] for i in (0, 3, 6)) == sorted(threes)


def test_a_caption_is_cut_to_thirty_words_without_its_full_stop() -> None:
    assert clean_caption("A dog; (brown).") == "a dog brown"
    assert len(clean_caption(" ".join(["word"] * 40)).split()) == 30


def test_the_shuffles_do_not_depend_on_the_machine(tmp_path: Path) -> None:
    first, second = (
        made("coco-order", mini_aro.coco(tmp_path / name), tmp_path / name) for name in ("a", "b")
    )
    assert first.manifest.version == second.manifest.version
    assert json.dumps([s.options for s in first.samples()]) == json.dumps(
        [s.options for s in second.samples()]
    )
