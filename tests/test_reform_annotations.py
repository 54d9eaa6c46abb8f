"""Closed questions from a user's annotations: their sources, types of questions, distractors, the command."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image, ImageDraw

import reform
import small
import snellen as sn
from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import BuildInputs, Recipe
from snellen.catalogue import entries
from snellen.common.drafts import AnnotatedImage, AnnotatedObject, Draft, QuestionDraft
from snellen.errors import DataError, UnknownNameError
from snellen.readers import annotations
from snellen.readers.question_types import (
    AnnotatedSource,
    Formed,
    FormedQuestion,
    QuestionType,
    choice_question,
    direction_of,
    phrased,
)
from snellen.readers.text_questions import PresenceQuestions, numbers_nearby, shared_area
from snellen.records import Box, Sample
from snellen.reformulation.distractor_sources import parse_sources
from snellen.reformulation.sampling import Sampling, draw_sample
from snellen.scoring.answers import open_answers
from test_reform_classes import needs_wordnet

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 60),
    "blue": (40, 60, 220),
    "yellow": (240, 220, 40),
}
SIZE = (300, 240)


def drawn(path: Path, shapes: list[tuple[Box, tuple[int, int, int]]], **options: Any) -> Path:
    """An image with filled rectangles on white."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.new("RGB", SIZE, "white")
    for (x, y, width, height), colour in shapes:
        ImageDraw.Draw(picture).rectangle([x, y, x + width, y + height], fill=colour)
    picture.save(path, **options)
    return path


def class_folders(root: Path, each: int = 4) -> Path:
    for name, colour in COLOURS.items():
        for number in range(each):
            box = (10 + 21 * (number % 10), 20 + 30 * (number // 10), 80, 80)
            drawn(root / f"{name}_square" / f"{number}.png", [(box, colour)])
    return root


OBJECTS: list[list[tuple[str, Box]]] = [
    [("dog", (10, 10, 60, 60)), ("cat", (200, 20, 60, 50))],
    [("dog", (10, 10, 60, 60)), ("dog", (100, 10, 60, 60)), ("bus", (120, 150, 100, 60))],
    [("umbrella", (20, 150, 30, 30)), ("bus", (140, 20, 120, 90)), ("cat", (230, 180, 40, 40))],
    [("knife", (130, 100, 40, 40))],
    [("dog", (20, 20, 100, 100)), ("cat", (25, 25, 95, 95))],
    [("knife", (10, 10, 30, 30)), ("umbrella", (240, 190, 40, 40)), ("dog", (110, 90, 50, 50))],
]
NAMES = ("dog", "cat", "bus", "umbrella", "knife")


def coco(folder: Path, **changes: Any) -> Path:
    """A file in COCO's form with its images in `images`."""
    images, objects = [], []
    for number, things in enumerate(OBJECTS):
        drawn(
            folder / "images" / f"{number}.png",
            [(box, (number * 30, 40 * len(name), 99)) for name, box in things],
        )
        images.append(
            {"id": number, "file_name": f"{number}.png", "width": SIZE[0], "height": SIZE[1]}
        )
        objects += [
            {
                "id": len(objects) + place,
                "image_id": number,
                "category_id": NAMES.index(name),
                "bbox": box,
                "iscrowd": 0,
            }
            for place, (name, box) in enumerate(things)
        ]
    kinds = {
        "dog": "animal",
        "cat": "animal",
        "bus": "vehicle",
        "umbrella": "thing",
        "knife": "thing",
    }
    categories = [
        {"id": n, "name": name, "supercategory": kinds[name]} for n, name in enumerate(NAMES)
    ]
    path = folder / "instances.json"
    path.write_text(
        json.dumps({"images": images, "annotations": objects, "categories": categories, **changes})
    )
    return path


def table(path: Path, rows: list[dict[str, Any]]) -> Path:
    for number, row in enumerate(rows):
        box = (20 + 17 * (number % 11), 20 + 35 * (number // 11), 90, 60)
        drawn(path.parent / row["image"], [(box, (40 * (number % 6), 80, 80))])
    return small.write(rows, path)


def questions(benchmark: Benchmark) -> Iterator[tuple[Sample, str]]:
    """Samples of one round with the text of the right option."""
    answers = open_answers(benchmark.folder)
    for sample in benchmark.samples():
        if not sample.turns:
            yield sample, sample.options[answers[sample.id, 0].options[0]]


def drafts(params: dict[str, Any], folder: Path) -> list[Draft]:
    return list(annotations.read(params, folder))


def notes(found: list[Draft]) -> str:
    return "\n".join(note for draft in found for note in draft.notes)


# --- sources of annotations --------------------------------------------------------------------------------------


def test_a_folder_for_each_class_becomes_questions_whose_gold_is_the_folder(tmp_path: Path) -> None:
    benchmark = sn.reform(class_folders(tmp_path / "photos"), to=tmp_path / "built")
    found = list(questions(benchmark))
    assert len(found) == 16
    assert all(gold == sample.id.split("/")[0].replace("_", " ") for sample, gold in found)
    assert all(set(sample.options) == {f"{name} square" for name in COLOURS} for sample, _ in found)
    reform.holds_together(benchmark, tmp_path / "runs")


def test_of_folders_of_splits_the_one_to_evaluate_on_is_taken(tmp_path: Path) -> None:
    for split in ("train", "val"):
        class_folders(tmp_path / "photos" / split, each=2)
    benchmark = sn.reform(tmp_path / "photos", to=tmp_path / "built")
    assert {sample.tags["split"] for sample in benchmark.samples()} == {"val"}
    assert len(list(benchmark.samples())) == 8


def test_objects_of_cocos_form_are_counted_and_a_crowd_is_not(tmp_path: Path) -> None:
    path = coco(tmp_path)
    content = json.loads(path.read_text())
    content["annotations"].append(
        {"id": 99, "image_id": 3, "category_id": 2, "bbox": [0, 0, 50, 50], "iscrowd": 1}
    )
    path.write_text(json.dumps(content))
    found = drafts({"form": "coco", "file": path.name, "questions": [{"type": "count"}]}, tmp_path)
    counts = {draft.id: draft.rounds[0].texts[0] for draft in found}
    assert counts["1/count/dog"] == "2" and counts["3/count/knife"] == "1"
    assert (
        "3/count/bus" not in counts
        and "1 skipped: count: a crowd that was not counted" in notes(found)
    )
    assert found[0].rounds[0].question == "How many dogs are in the picture?"


def test_of_lvis_only_names_that_were_looked_for_are_said_to_be_missing(tmp_path: Path) -> None:
    path = coco(tmp_path)
    content = json.loads(path.read_text())
    for image in content["images"]:
        image |= {
            "neg_category_ids": [4] if image["id"] in (0, 1) else [],
            "not_exhaustive_category_ids": [0],
        }
        image["coco_url"] = f"http://images.cocodataset.org/images/{image.pop('file_name')}"
    path.write_text(json.dumps(content))
    kinds = [{"type": "presence"}, {"type": "count"}]
    found = drafts({"form": "coco", "file": path.name, "questions": kinds}, tmp_path)
    denied = [draft.id for draft in found if draft.rounds[0].texts == ("no",)]
    assert denied == ["0/presence/knife", "1/presence/knife"]
    assert not [draft for draft in found if draft.id.endswith("count/dog")]
    assert "4 skipped: presence: it is not said which names are missing" in notes(found)
    assert "count: not all objects of the name are marked" in notes(found)


def test_captions_and_objects_may_have_text_as_their_ids(tmp_path: Path) -> None:
    path = coco(tmp_path)
    content = json.loads(path.read_text())
    for image in content["images"]:
        image["id"] = f"img-{image['id']}"
    content["annotations"] = [
        {"id": n, "image_id": f"img-{n}", "caption": f"  picture {word}\n"}
        for n, word in enumerate(("one", "two", "three", "four", "five", "six"))
    ]
    path.write_text(
        json.dumps({"images": content["images"], "annotations": content["annotations"]})
    )
    benchmark = sn.reform(path, to=tmp_path / "built", ask=["caption"])
    assert {gold for _, gold in questions(benchmark)} >= {"picture one", "picture six"}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"annotations": [{"image_id": 77, "category_id": 0}]},
            "annotations[0]: there is no image 77",
        ),
        (
            {"annotations": [{"image_id": 0, "category_id": 9}]},
            "annotations[0]: there is no category 9",
        ),
        (
            {"annotations": [{"image_id": 0, "category_id": 0, "bbox": [1, 2]}]},
            "this one has 2 numbers",
        ),
        (
            {"images": [{"id": 0, "file_name": "gone.png"}], "annotations": []},
            "name their folder with images=",
        ),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    path = coco(tmp_path, **changes)
    with pytest.raises(DataError) as caught:
        sn.reform(path, to=tmp_path / "built")
    assert fault in str(caught.value) and "\n" not in str(caught.value)


# --- types of questions ------------------------------------------------------------------------------------------


def objects_of(sample: Sample) -> list[tuple[str, Box]]:
    return OBJECTS[int(sample.id.split("/")[0])]


def test_every_answer_from_boxes_is_true_and_no_distractor_is(tmp_path: Path) -> None:
    benchmark = sn.reform(coco(tmp_path), to=tmp_path / "built", images=tmp_path / "images")
    types = Counter(sample.tags["type"] for sample, _ in questions(benchmark))
    assert set(types) == {"count", "location", "object-class", "presence", "size", "spatial"}
    for sample, gold in questions(benchmark):
        things, about = objects_of(sample), sample.id.split("/")[2]
        boxes = dict(things)
        match sample.tags["type"]:
            case "count":
                assert gold == str(sum(name == about for name, _ in things))
            case "presence":
                assert (gold == "yes") == (about in boxes)
            case "object-class":
                assert gold == things[int(about)][0]
                assert not (set(sample.options) - {gold}) & set(boxes)
            case "size":
                first, second = (boxes[option.removeprefix("the ")] for option in sample.options)
                larger = (
                    sample.options[0]
                    if first[2] * first[3] > second[2] * second[3]
                    else sample.options[1]
                )
                assert gold == larger
            case "location":
                x, y, width, height = boxes[about]
                column = ("left", "centre", "right")[int((x + width / 2) / SIZE[0] * 3)]
                row = ("top", "middle", "bottom")[int((y + height / 2) / SIZE[1] * 3)]
                assert gold == f"{row} {column}".replace("middle centre", "centre")
            case _:
                one, other = (boxes[name] for name in about.split("-"))
                beyond = {
                    "left of": one[0] + one[2] <= other[0],
                    "right of": other[0] + other[2] <= one[0],
                    "above": one[1] + one[3] <= other[1],
                    "below": other[1] + other[3] <= one[1],
                }
                true = [word for word, holds in beyond.items() if holds]
                assert gold.partition(" the ")[0] in true
                assert sum(option.partition(" the ")[0] in true for option in sample.options) == 1
    reform.holds_together(benchmark, tmp_path / "runs")


def test_presence_is_as_often_yes_as_no_for_each_picture(tmp_path: Path) -> None:
    for rule in ("even", "random", "popular", "adversarial"):
        kinds = [{"type": "presence", "negatives": rule}]
        found = drafts({"form": "coco", "file": coco(tmp_path).name, "questions": kinds}, tmp_path)
        for picture in {draft.group for draft in found}:
            said = Counter(draft.rounds[0].texts[0] for draft in found if draft.group == picture)
            assert said["yes"] == said["no"] > 0


def test_names_are_denied_as_often_as_they_occur_so_that_a_name_alone_says_nothing() -> None:
    often = [
        AnnotatedImage(f"a{n}", b"", "", objects=(AnnotatedObject("common"),)) for n in range(90)
    ]
    rare = [
        AnnotatedImage(f"b{n}", b"", "", objects=(AnnotatedObject(f"rare {n % 5}"),))
        for n in range(90)
    ]
    source = AnnotatedSource([*often, *rare])
    denied: Counter[str] = Counter()
    for picture in rare:
        for formed in PresenceQuestions().questions(picture, source):
            assert isinstance(formed, FormedQuestion)
            denied[formed.key] += formed.answer == "no"
    # The common name is half of what occurs, but one of six names.
    assert denied["common"] > 40


def test_an_object_that_another_one_covers_is_not_asked_for_and_nor_is_one_of_two(
    tmp_path: Path,
) -> None:
    kinds = [
        {"type": "object-class", "most": 0},
        {"type": "location", "most": 0},
        {"type": "spatial", "most": 0},
    ]
    found = drafts({"form": "coco", "file": coco(tmp_path).name, "questions": kinds}, tmp_path)
    ids = {draft.id for draft in found}
    assert not {name for name in ids if name.startswith("4/object-class")}
    assert "object-class: another object fills much the same box" in notes(found)
    assert "1/location/dog" not in ids and "1/spatial/dog-bus" not in ids


def test_a_picture_that_is_stored_turned_is_not_asked_for_left_and_right(tmp_path: Path) -> None:
    path = coco(tmp_path)
    exif = Image.Exif()
    exif[0x0112] = 3
    with Image.open(tmp_path / "images" / "3.png") as picture:
        picture.save(tmp_path / "images" / "3.jpg", exif=exif)
    path.write_text(path.read_text().replace("3.png", "3.jpg"))
    found = drafts(
        {"form": "coco", "file": path.name, "questions": [{"type": "location"}]}, tmp_path
    )
    assert not [draft for draft in found if draft.group == "3"]
    assert "1 skipped: location: the image is stored turned" in notes(found)


BOXES = st.tuples(st.floats(0, 200), st.floats(0, 200), st.floats(1, 90), st.floats(1, 90))


@given(BOXES, BOXES)
@example((0.0, 0.0, 1.0, 21.371851727470947), (0.0, 21.371851727470947, 1.0, 21.371851727470947))
def test_a_direction_is_the_opposite_of_the_other_way_round(box: Box, other: Box) -> None:
    opposite = {
        "left of": "right of",
        "right of": "left of",
        "above": "below",
        "below": "above",
        "": "",
    }
    assert direction_of(other, box) == opposite[direction_of(box, other)]
    assert (
        shared_area(box, other) == 0
        or not direction_of(box, other)
        or shared_area(box, other) < 1e-9
    )


@pytest.mark.parametrize("options", [2, 3, 4, 5, 8])
def test_a_number_is_as_likely_to_be_the_least_option_as_any_other(options: int) -> None:
    places: Counter[int] = Counter()
    source = AnnotatedSource([])
    for seed in range(2000):
        near = [
            int(number) for (number,) in numbers_nearby(20, source.rng(str(seed)))[: options - 1]
        ]
        shown = sorted([20, *near])
        assert shown == list(range(shown[0], shown[0] + options))
        places[shown.index(20)] += 1
    assert all(abs(places[place] / 2000 - 1 / options) < 0.04 for place in range(options))


def test_a_table_says_by_its_columns_what_is_asked(tmp_path: Path) -> None:
    rows = [
        {
            "image": f"{n}.png",
            "caption": [f"a {word} scene", f"the {word} view"],
            "weather": ("sunny", "rainy")[n % 2],
            "objects": [
                {"name": "man", "box": [10, 10, 50, 50], "attributes": {"shirt": word}},
                {"name": "horse"},
            ],
            "relations": [
                {"subject": 0, "predicate": ("rides", "holds", "washes")[n % 3], "object": 1}
            ],
            "ocr": [
                {"text": f"SIGN {word}", "box": [20, 20, 60, 30]},
                {"text": "--", "box": [90, 90, 40, 30]},
            ],
            "questions": [
                {"question": "What colour is it?", "answer": ("red", "blue", "green")[n % 3]},
                {"question": "Is it day?", "answers": ["yes"]},
                {"question": "How many legs?", "answer": "four"},
            ],
        }
        for n, word in enumerate(("quiet", "loud", "empty", "busy", "dark", "bright"))
    ]
    benchmark = sn.reform(table(tmp_path / "scenes.jsonl", rows), to=tmp_path / "built")
    assert set(benchmark.manifest.tags["type"]) >= {
        "answer",
        "attribute",
        "caption",
        "count",
        "dialogue",
        "match",
        "relation",
        "text",
    }
    asked = {
        sample.id: (sample.question, gold, sample.options) for sample, gold in questions(benchmark)
    }
    _, gold, options = asked["0.png/relation/man-horse"]
    assert gold == "the man rides the horse" and "the man washes the horse" in options
    assert asked["0.png/attribute/man shirt"][:2] == ("What is the shirt of the man?", "quiet")
    assert asked["0.png/answer/2"][1] == "four"
    assert {int(option) for option in asked["0.png/answer/2"][2] if option != "four"} <= set(
        range(9)
    )
    assert asked["0.png/text/0"][:2] == ("What is written in the red box?", "SIGN quiet")
    assert "the quiet view" not in asked["0.png/caption"][2]


def test_rows_with_labels_of_one_picture_are_named_with_what_to_do(tmp_path: Path) -> None:
    rows = [{"image": f"{n % 4}.png", "label": "red" if n % 2 else "blue"} for n in range(6)]
    path = table(tmp_path / "labels.csv", rows)
    with pytest.raises(DataError) as refused:
        sn.reform(path, to=tmp_path / "built")
    assert str(refused.value).replace(f"{tmp_path}/", "").splitlines() == [
        f"labels.csv:{line}: the image {name!r} is that of labels.csv:{first} too; write what both say in one row "
        "(several labels as `[\"red\", \"round\"]`), or give each row an id (columns={'id': 'NAME'})"
        for line, name, first in ((6, "0.png", 2), (7, "1.png", 3))
    ]


def test_two_pictures_of_one_id_in_cocos_form_are_refused(tmp_path: Path) -> None:
    path = coco(tmp_path)
    content = json.loads(path.read_text())
    content["images"].append({**content["images"][1], "id": 0})
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"instances\.json: image 0"):
        sn.reform(path, to=tmp_path / "built")


def test_a_caption_is_asked_about_twice_once_of_its_picture_and_once_of_another(
    tmp_path: Path,
) -> None:
    rows = [{"image": f"{n}.png", "caption": f"scene number {n}"} for n in range(9)]
    benchmark = sn.reform(
        table(tmp_path / "scenes.csv", rows), ask=["match"], to=tmp_path / "built"
    )
    answers: dict[str, set[str]] = {}
    for sample, gold in questions(benchmark):
        answers.setdefault(sample.question, set()).add(gold)
    assert len(answers) == 9 and all(said == {"yes", "no"} for said in answers.values())


def test_columns_of_a_form_are_asked_for_by_key_and_columns_that_repeat_as_attributes(
    tmp_path: Path,
) -> None:
    rows = [
        {
            "image": f"{n}.png",
            "company": f"Firm {n} Ltd",
            "total_amount": f"{n}.50",
            "currency": ("EUR", "USD")[n % 2],
        }
        for n in range(12)
    ]
    benchmark = sn.reform(table(tmp_path / "receipts.csv", rows), to=tmp_path / "built")
    asked = {
        sample.id: (sample.question, gold, sample.options) for sample, gold in questions(benchmark)
    }
    assert asked["3.png/key/total amount"][:2] == ("What is the total amount?", "3.50")
    assert all(option.endswith(".50") for option in asked["3.png/key/total amount"][2])
    assert set(asked["3.png/attribute/currency"][2]) == {"EUR", "USD"}


def test_a_types_settings_and_its_wording_are_the_entrys(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {"type": "count", "ask": "Count the {names}.", "most": 1},
        {"type": "object-class", "show": "crop"},
        {"type": "location", "fields": "halves"},
    ]
    params = {"form": "coco", "file": coco(tmp_path).name, "questions": kinds}
    found = drafts(params, tmp_path)
    assert found[0].rounds[0].question in ("Count the dogs.", "Count the cats.")
    assert Counter(draft.tags["type"] for draft in found if draft.group == "0")["count"] == 1
    assert {draft.rounds[0].texts[0] for draft in found if draft.tags["type"] == "location"} <= {
        "left half",
        "right half",
    }
    for wrong, fault in (
        ({"type": "count", "largets": 3}, "largets"),
        ({"type": "cuont"}, "did you mean count"),
        ({"typ": "count"}, "name the type"),
        ({"type": "count", "ask": "How many {things}?"}, "it may name {names}"),
    ):
        with pytest.raises(
            (DataError, UnknownNameError), match=fault.replace("{", r"\{").replace("}", r"\}")
        ):
            drafts({**params, "questions": [wrong]}, tmp_path)


def test_a_type_of_another_package_is_asked_like_snellens_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Darkness(QuestionType, frozen=True):
        needs = "anything"

        def fits(self, picture: AnnotatedImage) -> bool:
            return True

        def questions(self, picture: AnnotatedImage, source: AnnotatedSource) -> Formed:
            yield FormedQuestion("", (choice_question("Is it dark?", ("no",), closed=True),), "no")

    monkeypatch.setitem(registry._NAMES["question_types"], "darkness", Darkness)
    benchmark = sn.reform(
        class_folders(tmp_path / "photos"), ask=["darkness"], to=tmp_path / "built"
    )
    assert {gold for _, gold in questions(benchmark)} == {"no"}


def test_an_article_fits_the_word() -> None:
    words = ("dog", "umbrella", "Egg", "unicycle", "hour")
    assert [phrased("Is there a {name} here?", name=word).split()[2] for word in words] == [
        "a",
        "an",
        "an",
        "a",
        "a",
    ]


# --- distractors -------------------------------------------------------------------------------------------------


def birds(folder: Path) -> Path:
    """Classes of which some have like names, and others look alike."""
    looks = {
        "bald eagle": (20, 20, 20), "golden eagle": (250, 240, 90), "truck": (30, 30, 30), "garbage truck": (0, 160, 0),
        "rose": (220, 0, 90), "tulip": (0, 200, 200),
    }  # fmt: skip
    for name, colour in looks.items():
        for number in range(2):
            drawn(folder / name / f"{number}.png", [((number * 9, 0, 250, 230), colour)])
    return folder


def nearest(benchmark: Benchmark, gold: str) -> set[str]:
    return {
        option
        for sample, right in questions(benchmark)
        if right == gold
        for option in sample.options
    } - {gold}


def test_hard_distractors_read_like_the_answer_or_look_like_the_picture(tmp_path: Path) -> None:
    source = birds(tmp_path / "birds")
    by_text = sn.reform(
        source, options=2, distractors="near-text", to=tmp_path / "text", force=True
    )
    assert nearest(by_text, "bald eagle") == {"golden eagle"} and nearest(by_text, "truck") == {
        "garbage truck"
    }
    by_picture = sn.reform(
        source, options=2, distractors="near-image", to=tmp_path / "picture", force=True
    )
    assert nearest(by_picture, "bald eagle") == {"truck"} and nearest(by_picture, "truck") == {
        "bald eagle"
    }
    again = sn.reform(
        source, options=2, distractors="near-image", to=tmp_path / "again", force=True
    )
    assert again.manifest.version == by_picture.manifest.version


def test_sources_may_be_mixed_each_with_its_share(tmp_path: Path) -> None:
    benchmark = sn.reform(
        birds(tmp_path / "birds"),
        options=4,
        distractors="near-text:1,random:2",
        to=tmp_path / "built",
    )
    shown = [set(sample.options) for sample, gold in questions(benchmark) if gold == "bald eagle"]
    assert all("golden eagle" in options and len(options) == 4 for options in shown)
    assert shown[0] != shown[1]


def test_wordnets_neighbours_are_near_but_neither_the_same_nor_a_kind_of_it(tmp_path: Path) -> None:
    needs_wordnet()
    for name in ("dog", "domestic dog", "animal", "wolf", "truck", "teapot", "qwertyish thing"):
        drawn(
            tmp_path / "things" / name / "0.png",
            [((len(name), 0, 100, 100), (len(name) * 9, 80, 9))],
        )
    benchmark = sn.reform(
        tmp_path / "things", options=3, distractors="wordnet", to=tmp_path / "built"
    )
    [dog] = [set(sample.options) for sample, gold in questions(benchmark) if gold == "dog"]
    assert "wolf" in dog and not dog & {"domestic dog", "animal"}
    assert (
        "an answer is not a noun of WordNet, so its distractors are drawn from all: 1 times"
        in "".join(benchmark.manifest.warnings)
    )


@pytest.mark.parametrize(
    "source", ["pool", "random", "near-text", "near-image", "near-text:2,random:1"]
)
def test_no_source_offers_what_is_in_the_picture(tmp_path: Path, source: str) -> None:
    benchmark = sn.reform(
        coco(tmp_path), ask=["object-class"], distractors=source, to=tmp_path / "built"
    )
    for sample, gold in questions(benchmark):
        assert not (set(sample.options) - {gold}) & {name for name, _ in objects_of(sample)}


def test_sources_that_cannot_work_are_refused_in_a_line(tmp_path: Path) -> None:
    photos = class_folders(tmp_path / "photos", each=1)
    for settings, fault in (
        ({"distractors": "near-txt"}, "did you mean near-text"),
        ({"distractors": "near-text:0"}, "how many"),
        ({"distractors": "written,pool"}, "name it alone"),
        ({"distractors": "written"}, "writer='MODEL'"),
        (
            {"distractors": "pool", "writer": "snellen:tiny"},
            "writer applies only to the distractor source 'written'",
        ),
        ({"distractors": "near-image", "embeddings": "snellen:tiny"}, "cannot embed images"),
    ):
        with pytest.raises((DataError, sn.SnellenError), match=fault):
            sn.reform(photos, to=tmp_path / "built", **settings)  # type: ignore[arg-type]
        assert not (tmp_path / "built").exists() and not (tmp_path / "photos.toml").exists()
    assert parse_sources(" near-text:2, random ") == parse_sources("near-text:2,random")


def test_a_build_of_the_catalogue_takes_the_same_names_and_refuses_those_without_effect(
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError, match="no question of eyechart/count needs distractors"):
        build_benchmark(
            entries()["eyechart/count"],
            to=tmp_path / "built",
            recipe=Recipe(distractors="near-text"),
        )


def test_a_model_writes_distractors_where_that_is_asked_for(tmp_path: Path) -> None:
    class Writer:
        name = "writer"

        def write(self, benchmark: str, drafts: Any, count: int, rejected: Any) -> list[Draft]:
            return [
                replace(draft, rounds=tuple(self._with(r, count) for r in draft.rounds))
                for draft in drafts
            ]

        def _with(self, question: QuestionDraft, count: int) -> QuestionDraft:
            assert question.distractors and question.distractors.prompt == "options"
            near = tuple(f"{question.texts[0]} {number}" for number in range(count))
            return replace(question, distractors=replace(question.distractors, tiers=(near,)))

    entry = sn.reform(
        class_folders(tmp_path / "photos", each=1), to=tmp_path / "built"
    ).manifest.spec
    benchmark = build_benchmark(
        entry,
        source=tmp_path,
        to=tmp_path / "written",
        recipe=Recipe(distractors="written"),
        inputs=BuildInputs(writer=Writer()),
    )
    assert all(
        all(option.startswith(gold) for option in sample.options)
        for sample, gold in questions(benchmark)
    )


# --- sampling ----------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1),
    st.integers(1, 9),
    st.integers(),
)
def test_a_layered_sample_has_as_many_of_each_kind_and_of_each_of_its_answers(
    pairs: list[tuple[str, str]], each: int, seed: int
) -> None:
    strata = [f"{kind}/{answer}" for kind, answer in pairs]
    chosen = [pairs[place] for place in draw_sample(strata, Sampling("layered", each=each), seed)]
    sizes, kinds = Counter(pairs), Counter(kind for kind, _ in pairs)
    for kind in kinds:
        answers = {answer: number for (of, answer), number in Counter(chosen).items() if of == kind}
        assert sum(answers.values()) == min(each, kinds[kind])
        full = [answer for answer, number in answers.items() if number < sizes[kind, answer]]
        spread = [answers.get(answer, 0) for of, answer in sizes if of == kind and answer in full]
        assert not spread or max(spread) - min(spread) <= 1


def test_another_seed_draws_other_questions_and_golds_stand_everywhere(tmp_path: Path) -> None:
    photos = class_folders(tmp_path / "photos", each=40)
    first, other = (
        sn.reform(photos, per_type=60, seed=seed, to=tmp_path / f"{seed}", force=True)
        for seed in (0, 1)
    )
    ids = [{sample.id for sample in benchmark.samples()} for benchmark in (first, other)]
    assert len(ids[0]) == len(ids[1]) == 60 and ids[0] != ids[1]
    assert set(Counter(gold for _, gold in questions(first)).values()) == {15}
    places = Counter(sample.options.index(gold) for sample, gold in questions(first))
    assert min(places[place] for place in range(4)) >= 6


# --- the command -------------------------------------------------------------------------------------------------


def test_the_command_says_that_images_with_a_drawn_box_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    to = str(tmp_path / "built")
    code, out, _ = small.command(capsys, "reform", str(coco(tmp_path)), "--to", to)
    assert code == 0 and Benchmark(tmp_path / "built").manifest.counts.images > 6
    sentence = (
        "possible questions; an image with a drawn box, or a part cut out, counts as one more image"
    )
    assert sentence in out
    # The same annotations, built without choosing types.
    code, out, _ = small.command(
        capsys, "build", str(coco(tmp_path)), "--to", str(tmp_path / "again")
    )
    assert code == 0 and sentence in out


def test_the_command_says_what_it_took_for_what_and_writes_it_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(coco(tmp_path))
    words = [
        "reform",
        path,
        "--ask",
        "count,presence",
        "--to",
        str(tmp_path / "built"),
        "--licence",
        "CC0",
    ]
    code, out, err = small.command(capsys, *words)
    assert code == 0
    assert "instances.json: objects of 6 images in COCO's form" in err
    assert "counts as one more image" not in out
    assert (
        "built instances" in out
        and re.search(
            r"count \d+, presence \d+; drawn from \d+ possible questions$", out, re.MULTILINE
        )
        and f"next: `snellen run MODEL {tmp_path / 'built'}`; `snellen audit" in err
    )
    entry = tmp_path / "instances.toml"
    version = Benchmark(tmp_path / "built").manifest.version
    code, out, err = small.command(capsys, "reform", str(entry), "--to", str(tmp_path / "again"))
    assert code == 0 and Benchmark(tmp_path / "again").manifest.version == version
    assert Benchmark(tmp_path / "again").manifest.spec.licence == "CC0"
    code, out, err = small.command(capsys, "reform", path, "--to", str(tmp_path / "again"))
    assert code == 0 and "as" in err and "instances.toml says" in err and version in out
    code, _, err = small.command(
        capsys, "reform", path, "--ask", "size", "--to", str(tmp_path / "built")
    )
    assert code and "exists and differs" in err
    code, _, err = small.command(capsys, "reform", str(entry), "--ask", "count")
    assert code and "already defines ask" in err


def test_types_are_shown_with_an_example_and_nothing_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = small.command(capsys, "reform", str(coco(tmp_path)), "--types", "--json")
    rows = {row["type"]: row for row in map(json.loads, out.splitlines())}
    assert code == 0 and rows["count"]["for example"] == "How many dogs are in the picture? 1"
    assert (
        rows["caption"]["for example"] == "needs captions"
        and not (tmp_path / "instances.toml").exists()
    )


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["missing.json"], "missing.json: no such file or folder"),
        (
            ["photos", "--ask", "count"],
            "count needs objects, all of a name, which no image has; types that fit: class",
        ),
        (["photos", "--count", "3", "--per-type", "2"], "cannot be combined"),
        (["photos", "--images", "nowhere"], "nowhere: no such folder of images"),
        (["empty"], "empty: neither a table"),
        (["names.csv"], "names.csv: no column holds images; name it with --column image=NAME"),
    ],
)
def test_wrong_input_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    fault: str,
) -> None:
    class_folders(tmp_path / "photos", each=1)
    (tmp_path / "empty").mkdir()
    with (tmp_path / "names.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["who", "what"], ["a", "b"]])
    monkeypatch.chdir(tmp_path)
    code, _, err = small.command(capsys, "reform", *words)
    assert code == 2 or code == 1
    assert fault in err and len(err.strip().splitlines()) == 1


def test_types_are_chosen_again_after_a_build_and_by_the_same_words_in_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`build` writes an entry with all types that fit; it says nothing that a user wrote, and may be replaced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    coco(tmp_path)
    assert small.command(capsys, "build", "instances.json")[0] == 0
    for _ in range(2):  # the second call says what the entry of the first says
        code, out, _ = small.command(capsys, "reform", "instances.json", "--ask", "count")
        assert code == 0 and re.search(r"  count \d+; drawn from", out)
    entry = Path("instances.toml")
    said = re.sub(
        r"questions = \[.*?\n\]", 'questions = ["presence"]', entry.read_text(), flags=re.S
    )
    entry.write_text(said)
    for verb in ("build", "reform"):
        code, out, _ = small.command(capsys, verb, "instances.toml")
        assert code == 0, verb
        assert set(Benchmark(tmp_path / "home/benchmarks/instances").manifest.tags["type"]) == {
            "presence"
        }
    code, _, err = small.command(capsys, "reform", "instances.json", "--ask", "count")
    assert code == 2 and "instances.toml exists and differs" in err
    code, _, err = small.command(capsys, "reform", "instances.json", "--types", "count", "presence")
    assert code == 2 and err == (
        "snellen: reform takes one source; choose types of questions with --ask count,presence, and --types shows all\n"
    )


def test_the_same_call_is_repeated_for_folders_by_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry beside the folder says its images' folder as it lies there, and not whole."""
    monkeypatch.chdir(tmp_path)
    class_folders(tmp_path / "shapes")
    first = sn.reform("shapes", ask=("class",), to="made")
    again = sn.reform("shapes", ask=("class",), to="made")
    assert again.manifest.version == first.manifest.version
