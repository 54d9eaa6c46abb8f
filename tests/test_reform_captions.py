"""Images with reference captions, and dialogues about an image."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mini_text
import reform
from mini_text import ANSWERS, QUESTIONS
from snellen.building.benchmark import HISTORY, Benchmark
from snellen.building.recipe import Recipe
from snellen.common.drafts import Draft
from snellen.formats.record_files import read_records
from snellen.records import History
from snellen.scoring.answers import open_answers
from snellen.suites.visdial.reader import VISDIAL_FILLERS, read

CAPTIONS = ("coco-caption", "textcaps", "nocaps", "flickr30k")
AFFIRMING = {"yes", "yes, it is"}
DENYING = {"no", "no, not at all"}


def _made(name: str, to: Path, recipe: Recipe = reform.COMPLETE) -> Benchmark:
    return reform.made(name, mini_text.MINIATURES[name](to / "official"), to / "built", recipe)


@pytest.mark.parametrize("name", (*CAPTIONS, "visdial"))
def test_a_benchmark_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    reform.holds_together(_made(name, tmp_path), tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "pictures", "first", "limit"),
    [
        ("coco-caption", 12, "10", 12),
        ("textcaps", 12, "t0", 15),
        ("nocaps", 12, "10", 14),
        ("flickr30k", 11, "0", 16),
    ],
)
def test_a_picture_is_asked_about_once_and_has_all_its_captions(
    name: str, pictures: int, first: str, limit: int, tmp_path: Path
) -> None:
    benchmark = _made(name, tmp_path)
    assert (benchmark.manifest.counts.samples, benchmark.manifest.counts.images) == (
        pictures,
        pictures,
    )
    texts = open_answers(benchmark.folder)[first, 0].texts
    assert texts == tuple(
        f"A RONALDO sign of shape {place} stands in the street ." for place in range(5)
    )
    # The 75th percentile of the references' lengths (ReForm-Eval B.1).
    assert benchmark.spec.max_new_tokens == limit
    made = reform.made(name, tmp_path / "official", tmp_path / "default", Recipe()).manifest
    assert (made.build_info.complete, made.counts.samples) == (pictures, 1)


def test_nocaps_is_balanced_by_the_novelty_of_its_objects(tmp_path: Path) -> None:
    manifest = _made("nocaps", tmp_path).manifest
    assert manifest.tags["domain"] == {"in-domain": 4, "near-domain": 4, "out-domain": 4}


def test_flickr30k_is_the_same_from_the_split_and_from_the_site_s_own_file(tmp_path: Path) -> None:
    split = _made("flickr30k", tmp_path)
    site = reform.made(
        "flickr30k", mini_text.flickr30k_tokens(tmp_path / "site"), tmp_path / "other"
    )
    assert open_answers(site.folder) == open_answers(split.folder)
    assert list(site.samples()) == list(split.samples())


def test_a_dialogue_has_ten_rounds_of_four_options_its_caption_and_the_published_replies(
    tmp_path: Path,
) -> None:
    benchmark = _made("visdial", tmp_path)
    golds = open_answers(benchmark.folder)
    histories = {
        history.sample_id: history.replies
        for history in read_records(benchmark.folder / HISTORY, History)
    }
    for sample in benchmark.samples():
        assert sample.context == f"a car and {int(sample.group) - 185565} people"
        assert sample.question == ""
        assert len(sample.turns) == len(histories[sample.id]) == 10
        for number, turn in enumerate(sample.turns):
            assert turn.question.rstrip("?") in {question.rstrip("?") for question in QUESTIONS}
            assert turn.question.endswith("?") and not turn.question.endswith("??")
            (gold,) = golds[sample.id, number].options
            assert turn.options[gold] == histories[sample.id][number]
            assert len(turn.options) == 4
            assert set(turn.options) <= {*ANSWERS, *VISDIAL_FILLERS}
            for side in (AFFIRMING, DENYING):
                # A second answer that affirms would be as right as the gold.
                assert turn.options[gold] not in side or len(side & set(turn.options)) == 1


def _drafts(official: Path) -> list[Draft]:
    return list(read({}, official))


def test_what_annotators_call_right_too_is_no_distractor(tmp_path: Path) -> None:
    official = mini_text.visdial(tmp_path)
    asked = _drafts(official)[0].rounds
    # Candidates 1 and 3 of round 4 are right by 0.5 and 0.4; the gold itself is candidate 0.
    others = [text for text in ANSWERS if text != asked[4].texts[0]]
    assert asked[4].distractors and asked[4].distractors.also_right == (others[0], others[2])
    assert [bool(one.distractors and one.distractors.also_right) for one in asked] == [
        number == 4 for number in range(10)
    ]
    sample = next(iter(reform.made("visdial", official, tmp_path / "built").samples()))
    assert not {others[0], others[2]} & set(sample.turns[4].options)


def test_answers_to_questions_that_begin_alike_are_the_nearest_candidates(tmp_path: Path) -> None:
    for draft in _drafts(mini_text.visdial(tmp_path)):
        for one in draft.rounds:
            assert one.distractors and one.distractors.prompt == "dialogue"
            near, every = one.distractors.tiers
            assert set(near) <= set(every) <= set(ANSWERS)
            if one.question.startswith("what color"):
                assert set(near) <= {"red", "dark blue", "a green one", "white"}


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "fault"),
    [
        (
            "coco-caption",
            "annotations/captions_val2017.json",
            '"image_id": 12',
            '"image_id": 99',
            "annotations.10.: .* 99",
        ),
        (
            "coco-caption",
            "annotations/captions_val2017.json",
            '"caption"',
            '"text"',
            "annotations.0.: .*`caption`",
        ),
        (
            "nocaps",
            "nocaps_val_4500_captions.json",
            '"id": 13, "file',
            '"id": 13, "pile',
            "images.3.: .*`file_name`",
        ),
        (
            "textcaps",
            "TextCaps_0.1_val.json",
            "t0",
            "t99",
            "data.0.: cannot read the image .*train_images/t99.jpg",
        ),
        (
            "flickr30k",
            "dataset_flickr30k.json",
            '"sentences"',
            '"captions"',
            "images.0.: .*`sentences`",
        ),
        (
            "visdial",
            "visdial_1.0_val.json",
            '"val2018"',
            '"test2018"',
            "the split is test2018, not val2018",
        ),
        (
            "visdial",
            "visdial_1.0_val.json",
            '"answer": 0',
            '"answer": 77',
            "dialogs.0., round 0: there is no answer 77",
        ),
        (
            "visdial",
            "visdial_1.0_val.json",
            '"question": 1',
            '"question": 9',
            "round 1: there is no question 9",
        ),
        (
            "visdial",
            "visdial_1.0_val.json",
            '"image_id": 185566',
            '"image_id": 1',
            r"dialogs.1.: cannot read the image",
        ),
        (
            "visdial",
            "visdial_1.0_val_dense_annotations.json",
            "185565",
            "4",
            "annotations.json: .0.: .* image 4",
        ),
        (
            "visdial",
            "visdial_1.0_val_dense_annotations.json",
            "[1.0, ",
            "[",
            "round 4: 14 candidates, 13 of them",
        ),
        (
            "visdial",
            "visdial_1.0_val_dense_annotations.json",
            ": 5,",
            ": 11,",
            "round_id is 11, not 1 to 10",
        ),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    name: str, file: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    official = mini_text.MINIATURES[name](tmp_path / "official")
    reform.broken(official / file, old, new)
    reform.refused(name, official, tmp_path, fault)


def test_a_picture_without_captions_and_a_line_without_a_tab_are_refused(tmp_path: Path) -> None:
    official = mini_text.flickr30k_tokens(tmp_path / "official")
    with (official / "test.txt").open("a") as file:
        file.write("4711\n")
    reform.refused("flickr30k", official, tmp_path, r"test.txt:12: captions.caption is empty")
    reform.broken(official / "results_20130124.token", "1.jpg#0\t", "1.jpg#0 ")
    reform.refused(
        "flickr30k",
        official,
        tmp_path,
        r"results_20130124.token:6: '1.jpg#0 A 7 .* is not NAME.jpg#0",
    )


def test_a_dialogue_that_ends_early_is_refused(tmp_path: Path) -> None:
    official = mini_text.visdial(tmp_path / "official")
    path = official / "visdial_1.0_val.json"
    content = json.loads(path.read_text())
    del content["data"]["dialogs"][2]["dialog"][9]
    path.write_text(json.dumps(content))
    reform.refused("visdial", official, tmp_path, r"data.dialogs\[2\]: 9 rounds, not 10")
