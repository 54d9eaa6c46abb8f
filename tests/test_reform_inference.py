"""Cross-modal inference: captions that fit or do not, steps of a task, sentences and claims to be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import reform
import small
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.building.recipe import Recipe
from snellen.catalogue import entries
from snellen.reformulation.sampling import Sampling
from snellen.suites.reform_eval.readers.coco import category_finder, coco_words
from snellen.suites.reform_eval.readers.texts import read_wikihow

THINGS = ("person", "dog", "cat", "horse", "bench", "car")
SAID = {
    "person": "man",
    "dog": "dog",
    "cat": "kitten",
    "horse": "pony",
    "bench": "bench",
    "car": "taxi",
}


def coco(folder: Path) -> None:
    """Ten images of two things each, with two captions that name both and one that names the first."""
    images, annotations, captions = [], [], []
    for number in range(10):
        one, other = THINGS[number % 6], THINGS[(number + 1 + number // 6) % 6]
        reform.write_picture(folder / "val2017" / f"{number:012d}.jpg", number)
        images.append({"id": number, "file_name": f"{number:012d}.jpg"})
        for place, thing in enumerate((one, other)):
            box = {
                "id": number * 2 + place,
                "image_id": number,
                "category_id": THINGS.index(thing) + 1,
            }
            annotations.append({**box, "bbox": [0, 0, 9, 9], "iscrowd": 0})
        texts = (
            f"A {SAID[one]} near a {SAID[other]} at {number}.",
            f"The {SAID[other]} and the {SAID[one]}, {number} o'clock.\n",
            f"Picture {number} of a {SAID[one]}",
        )
        captions += [
            {"id": 100 + number * 3 + place, "image_id": number, "caption": text}
            for place, text in enumerate(texts)
        ]
    categories = [
        {"id": i, "name": name, "supercategory": "thing"} for i, name in enumerate(THINGS, 1)
    ]
    content = {"images": images, "annotations": annotations, "categories": categories}
    reform.write_json(folder / "annotations" / "instances_val2017.json", content)
    reform.write_json(
        folder / "annotations" / "captions_val2017.json",
        {"images": images, "annotations": captions},
    )


def wikihow(folder: Path) -> None:
    """Four articles: the first with a task of five steps and one of a single step; one step has no image."""

    def step(name: str, text: str) -> dict[str, Any]:
        reform.write_picture(folder / "wiki_images" / f"{name}.png", sum(text.encode()) % 200)
        return {
            "step_id": name,
            "headline": text,
            "description": "...",
            "img": "http://there/" + name,
        }

    verbs = ("Wash", "Peel", "Slice", "Boil", "Serve")
    rows = []
    for article, food in enumerate(("carrots", "apples", "beets", "plums")):
        long = [
            step(f"{article}_0_{n}", f"{verb} the {food} with care.")
            for n, verb in enumerate(verbs)
        ]
        short = [step(f"{article}_1_0", f"Buy {food} that are ready.")]
        if article == 0:
            long[4]["img"] = None
        methods = [{"name": f"Cooking {food}", "steps": long}, {"name": "", "steps": short}]
        goal = f"How to Eat {food}"
        rows.append(
            {
                "file_id": str(article),
                "goal": goal,
                "category_hierarchy": ["Food"],
                "methods": methods,
            }
        )
    small.write([], folder / "empty.jsonl")
    path = small.write(rows, folder / "articles.jsonl")
    path.rename(folder / "WikihowText_data.json")


def winoground(folder: Path) -> None:
    rows = []
    for number in range(6):
        for place in (0, 1):
            reform.write_picture(
                folder / "images" / f"ex_{number}_img_{place}.png", number * 2 + place
            )
        rows.append(
            {
                "id": number,
                "image_0": f"ex_{number}_img_0",
                "image_1": f"ex_{number}_img_1",
                "caption_0": f"{number} plants surrounding a bulb",
                "caption_1": f"a bulb surrounding {number} plants",
                "tag": "Noun",
                "secondary_tag": "",
                "num_main_preds": 1,
                "collapsed_tag": ("Object", "Relation")[number % 2],
            }
        )
    small.write(rows, folder / "examples.jsonl")


def snli_ve(folder: Path) -> None:
    rows = []
    for number in range(12):
        reform.write_picture(folder / "flickr30k-images" / f"{4000 + number // 3}.jpg", number // 3)
        label = ("entailment", "neutral", "contradiction")[number % 3]
        pair = {
            "Flickr30K_ID": str(4000 + number // 3),
            "pairID": f"{4000 + number // 3}.jpg#0r{number}",
        }
        rows.append(
            {**pair, "gold_label": label, "sentence1": "", "sentence2": f"Somebody does {number}."}
        )
    small.write(rows, folder / "snli_ve_test.jsonl")


def mocheg(folder: Path) -> None:
    """Six claims of two pieces of evidence; the last has no image, the first a piece without text."""
    rows, links = [], []
    for number in range(6):
        label = ("supported", "refuted", "NEI")[number % 3]
        for piece in range(2):
            text = (
                ""
                if (number, piece) == (0, 1)
                else f'<p class="a">Report &amp; proof\n{piece}, of {number}.</p>'
            )
            row = {
                "claim_id": str(number),
                "Claim": f'He said "{number}", then left.',
                "Evidence": text,
            }
            rows.append(
                {
                    **row,
                    "evidence_id": str(piece),
                    "cleaned_truthfulness": label,
                    "Origin": "x",
                    "Snopes URL": "",
                }
            )
        for place in range(0 if number == 5 else 2):
            name = f"{number}-proof-{place}-photo.jpg"
            reform.write_picture(folder / "test" / "images" / name, number * 2 + place)
            link = {"TOPIC": str(number), "ITERATION": "0", "DOCUMENT#": f"{number}-9-{place}.jpg"}
            links.append({**link, "RELEVANCY": str(place), "evidence_id": name})
    small.write(rows, folder / "test" / "Corpus2.csv")
    small.write(links, folder / "test" / "img_evidence_qrels.csv")


MINIATURES = {
    "mscoco-itm": (coco, 30),
    "mscoco-its": (coco, 30),
    "wikihow": (wikihow, 23),
    "winoground": (winoground, 12),
    "snli-ve": (snli_ve, 12),
    "mocheg": (mocheg, 9),
}


def whole(name: str, source: Path, to: Path) -> Benchmark:
    """The benchmark of all that the source has."""
    spec = entries()[f"reform-eval/{name}"]
    spec = replace(spec, source=replace(spec.source, select=Sampling(), sample=Sampling()))
    return build_benchmark(spec, source=source, to=to / name)


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "official"
    MINIATURES[request.param][0](folder)
    return folder


@pytest.mark.parametrize(
    ("name", "source"), [(name, name) for name in MINIATURES], indirect=["source"]
)
def test_a_benchmark_goes_through_build_run_and_score(
    name: str, source: Path, tmp_path: Path
) -> None:
    benchmark = whole(name, source, tmp_path)
    assert benchmark.manifest.counts.samples == MINIATURES[name][1]
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "source", "built"),
    [
        ("mscoco-itm", "mscoco-itm", 30),
        ("mscoco-its", "mscoco-its", 30),
        ("wikihow", "wikihow", 1),
        ("winoground", "winoground", 1),
        ("snli-ve", "snli-ve", 12),
        ("mocheg", "mocheg", 1),
    ],
    indirect=["source"],
)
def test_the_paper_draws_a_part(name: str, source: Path, built: int, tmp_path: Path) -> None:
    # Counts hold for sources of a thousand and more; a tenth is taken of any.
    assert reform.made(name, source, tmp_path, Recipe()).manifest.counts.samples == built


@pytest.mark.parametrize("source", ["mscoco-itm"], indirect=True)
def test_a_caption_that_does_not_match_is_a_similar_pictures_own(
    source: Path, tmp_path: Path
) -> None:
    benchmark = reform.made("mscoco-itm", source, tmp_path)
    name = category_finder(THINGS, coco_words())
    answers = reform.scored_tags(benchmark, "answer")
    assert answers.total() == 30 and min(answers.values()) > 5
    shown = {n: {THINGS[n % 6], THINGS[(n + 1 + n // 6) % 6]} for n in range(10)}
    for sample in reform.scored_samples(benchmark):
        caption = sample.question.split('"')[1]
        named = name(caption)
        own = shown[int(sample.group)]
        if sample.tags["answer"] == "yes":
            assert named and named <= own
        else:
            assert len(named & own) == 1 and len(named - own) == 1


@pytest.mark.parametrize("source", ["mscoco-its"], indirect=True)
def test_texts_to_choose_from_name_what_the_picture_lacks(source: Path, tmp_path: Path) -> None:
    benchmark = reform.made("mscoco-its", source, tmp_path)
    name = category_finder(THINGS, coco_words())
    shown = {n: {THINGS[n % 6], THINGS[(n + 1 + n // 6) % 6]} for n in range(10)}
    for sample in benchmark.samples():
        right = [option for option in sample.options if name(option) <= shown[int(sample.group)]]
        assert len(sample.options) == 4 and len(right) == 1


@pytest.mark.parametrize("source", ["wikihow"], indirect=True)
def test_other_steps_of_the_task_come_first_then_of_the_skill(source: Path) -> None:
    drafts = {draft.id: draft for draft in read_wikihow({}, source)}
    assert "0_0_4" not in drafts
    (first,) = drafts["0_0_0"].rounds
    assert (
        first.question
        == 'The picture shows one step of the task "Cooking carrots". Which step is it?'
    )
    assert first.distractors is not None
    task, skill, everything = first.distractors.tiers
    assert (
        len(task) == 5 and set(skill) == {"Buy carrots that are ready."} and len(everything) == 24
    )
    # A method without a name goes by the article's goal.
    (alone,) = drafts["1_1_0"].rounds
    assert '"How to Eat apples"' in alone.question
    assert drafts["0_0_0"].notes == ("WikihowText_data.json: 1 steps without an image left out",)


@pytest.mark.parametrize("source", ["winoground"], indirect=True)
def test_a_pair_of_captions_is_asked_about_both_pictures(source: Path, tmp_path: Path) -> None:
    samples = {
        sample.id: sample for sample in reform.made("winoground", source, tmp_path).samples()
    }
    assert (
        samples["3-0"].options
        == samples["3-1"].options
        == (
            "3 plants surrounding a bulb",
            "a bulb surrounding 3 plants",
        )
    )
    assert samples["3-0"].images != samples["3-1"].images
    assert samples["3-0"].tags == {"tag": "Noun", "swapped": "Relation"}


@pytest.mark.parametrize("source", ["snli-ve"], indirect=True)
def test_entailment_has_three_answers_and_pictures_by_either_name_of_the_field(
    source: Path, tmp_path: Path
) -> None:
    path = source / "snli_ve_test.jsonl"
    path.write_text(path.read_text().replace("Flickr30K_ID", "Flikr30kID"))
    benchmark = reform.made("snli-ve", source, tmp_path)
    assert benchmark.manifest.counts.images == 4
    assert reform.scored_tags(benchmark, "label") == {
        "contradiction": 4,
        "entailment": 4,
        "neutral": 4,
    }
    for sample in benchmark.samples():
        assert sample.options == ("yes", "not sure", "no")
        assert sample.question.startswith(
            'Can it be concluded from the picture that "Somebody does'
        )


@pytest.mark.parametrize("source", ["mocheg"], indirect=True)
def test_a_claim_comes_with_a_piece_of_text_and_its_first_picture(
    source: Path, tmp_path: Path
) -> None:
    benchmark = reform.made("mocheg", source, tmp_path)
    samples = {sample.id: sample for sample in benchmark.samples()}
    assert samples["1-2"].context == "Text evidence: Report & proof 1, of 1."
    assert (
        samples["1-2"].question
        == 'Claim: He said "1", then left.\nWhat do the text and the picture say of the claim?'
    )
    assert samples["1-2"].group == "1-proof-1-photo.jpg"
    assert samples["1-2"].options == ("supported", "refuted", "not enough information")
    # The claim without an image has two rows.
    assert benchmark.manifest.counts.images == 5
    assert [warning for warning in benchmark.manifest.warnings if "skipped" in warning] == [
        "Corpus2.csv: 2 skipped: the claim has no image as evidence",
        "Corpus2.csv: 1 skipped: there is no text evidence",
    ]


COCO_CAPTIONS, COCO_OBJECTS = (
    "annotations/captions_val2017.json",
    "annotations/instances_val2017.json",
)
QRELS = "test/img_evidence_qrels.csv"


@pytest.mark.parametrize(
    ("source", "file", "old", "new", "fault"),
    [
        (
            "mscoco-its",
            COCO_CAPTIONS,
            '"image_id": 3,',
            '"image_id": 33,',
            r"annotations\[9\]: there is no image 33",
        ),
        (
            "mscoco-its",
            COCO_CAPTIONS,
            '"Picture 0 of a man"',
            '" "',
            r"annotations\[2\]: the caption is empty",
        ),
        (
            "mscoco-itm",
            COCO_CAPTIONS,
            '"caption"',
            '"text"',
            r"annotations\[0\]: .*required field `caption`",
        ),
        (
            "mscoco-itm",
            COCO_OBJECTS,
            '"image_id": 0',
            '"image_id": 10',
            r"annotations\[0\]: there is no image 10",
        ),
        (
            "wikihow",
            "WikihowText_data.json",
            '"step_id"',
            '"id"',
            r"WikihowText_data.json:1: .*step_id",
        ),
        (
            "winoground",
            "examples.jsonl",
            '"3 plants surrounding a bulb"',
            '""',
            r"jsonl:4: caption_0 is empty",
        ),
        (
            "winoground",
            "examples.jsonl",
            '"ex_2_img_1"',
            '"ex_2_img_9"',
            r"jsonl:3: cannot .*ex_2_img_9.png",
        ),
        (
            "snli-ve",
            "snli_ve_test.jsonl",
            '"neutral"',
            '"-"',
            r"snli_ve_test.jsonl:2: Invalid enum value '-'",
        ),
        (
            "snli-ve",
            "snli_ve_test.jsonl",
            '"4001"',
            '""',
            r"snli_ve_test.jsonl:4: Flickr30K_ID is empty",
        ),
        (
            "snli-ve",
            "snli_ve_test.jsonl",
            '"4001"',
            '"5001"',
            r"jsonl:4: cannot read the image .*5001.jpg",
        ),
        (
            "mocheg",
            "test/Corpus2.csv",
            "refuted",
            "false",
            r"Corpus2.csv:6: Invalid enum value 'false'",
        ),
        (
            "mocheg",
            "test/Corpus2.csv",
            "cleaned_truthfulness",
            "truth",
            r"Corpus2.csv:1: the column .cleaned_truthfulness. is missing",
        ),
        (
            "mocheg",
            QRELS,
            "1-proof-1-photo.jpg",
            "nowhere.jpg",
            r"cannot read the image .*nowhere.jpg",
        ),
    ],
    indirect=["source"],
)
def test_a_broken_file_is_refused_with_file_and_place(
    request: pytest.FixtureRequest,
    source: Path,
    file: str,
    old: str,
    new: str,
    fault: str,
    tmp_path: Path,
) -> None:
    name = request.node.callspec.params["source"]
    reform.broken(source / file, old, new)
    reform.refused(name, source, tmp_path, fault)


@pytest.mark.parametrize("source", ["mscoco-itm"], indirect=True)
def test_captions_of_a_picture_without_objects_file_are_refused(
    source: Path, tmp_path: Path
) -> None:
    captions = source / COCO_CAPTIONS
    reform.broken(captions, '"images": [', '"images": [{"id": 77, "file_name": "77.jpg"}, ')
    reform.broken(captions, '"image_id": 4,', '"image_id": 77,')
    fault = r"annotations\[12\]: the image 77 is not among those of instances_val2017.json"
    reform.refused("mscoco-itm", source, tmp_path, fault)
