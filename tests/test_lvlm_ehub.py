"""LVLM-eHub's 47 data sets: read from small official files, asked in the printed words, refused when broken."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import mini_ehub
import reform
import small
import snellen as sn
from mini_ehub import EMBODIED, MINIATURES, OCR, POPE
from snellen.analysis.headline import headline_metric
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.entries import parse_entry
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.suites.lvlm_ehub.readers import caption_text, name_persons_by_position

TABLE_A6 = {
    "Perception": 8,
    "Knowledge": 16,
    "Reasoning": 12,
    "Commonsense": 2,
    "Hallucination": 3,
    "Embodied": 4,
}
OMITTED = {"whoops-captions", "whoops-vqa"}
"""Sets of the advertised 47 that Table A.6 does not list."""
BEST = {
    "contains_answer", "exact_match", "pope_f1", "rouge_l", "accuracy", "legacy_visdial_reciprocal_rank", "typed_match",
    "entity_f1", "mean_class_accuracy", "count_accuracy", "anls",
}  # fmt: skip
"""Metrics that a reply with the gold makes 1."""
NUMBERS = {
    "imagenet-1k": 50000,
    "cifar10": 10000,
    "pets37": 3669,
    "flowers102": 6149,
    "coco-oc": 10000,
    "coco-mci": 10000,
    "vcr-oc": 10000,
    "vcr-mci": 10000,
    "iiit5k": 3000,
    "ic13": 848,
    "ic15": 2077,
    "total-text": 2551,
    "cute80": 288,
    "svt": 647,
    "svtp": 645,
    "coco-text": 9896,
    "wordart": 1511,
    "ctw": 1572,
    "host": 2416,
    "wost": 2416,
    "nocaps": 4500,
    "flickr30k": 1000,
    "docvqa": 5349,
    "textvqa": 5000,
    "stvqa": 4000,
    "ocr-vqa": 100037,
    "ok-vqa": 5046,
    "gqa": 12578,
    "visdial": 20640,
    "icon-qa": 6316,
    "vsr": 10972,
    "scienceqa": 2017,
    "vizwiz": 1131,
    "snli-ve": 500,
    "vcr": 500,
    **dict.fromkeys(POPE, 3000),
}
"""Questions by Table A.6."""
DOCUMENTS = {"sroie": 347, "funsd": 50, "imagenetvc": 10000}
"""Images by Table A.6, which does not count their questions."""


def spec(name: str) -> BenchmarkSpec:
    return entries()[f"lvlm-ehub/{name}"]


def built(name: str, source: Path, to: Path) -> Benchmark:
    return build_benchmark(spec(name), source=source, to=to / f"built-{name}")


def made(name: str, to: Path) -> Benchmark:
    return built(name, mini_ehub.official(name, to / name), to)


def test_the_suite_has_the_45_sets_of_table_a6_and_the_two_of_whoops() -> None:
    own = [entry for entry in entries().values() if entry.suite == "lvlm-ehub"]
    assert {entry.short for entry in own} == set(MINIATURES) and len(own) == 47
    assert Counter(entry.dimension for entry in own if entry.short not in OMITTED) == TABLE_A6
    assert [entry.dimension for entry in own if entry.short in OMITTED] == [
        "Knowledge",
        "Reasoning",
    ]


def test_every_set_expects_the_number_of_table_a6() -> None:
    counted = {name: spec(name).expected.samples for name in NUMBERS}
    assert counted == NUMBERS
    assert {name: spec(name).complete.images for name in DOCUMENTS} == DOCUMENTS
    assert set(NUMBERS) | set(DOCUMENTS) | OMITTED | set(EMBODIED) == set(MINIATURES)


@pytest.mark.parametrize("name", [name for name in MINIATURES if name not in EMBODIED])
def test_a_benchmark_is_built_and_the_oracle_gets_the_most_of_each_metric(
    name: str, tmp_path: Path
) -> None:
    benchmark = made(name, tmp_path)
    counts = benchmark.manifest.counts
    assert counts.samples == counts.questions == counts.answers > 2
    reform.no_tag_tells(benchmark)
    check_that_the_oracle_is_right(benchmark, tmp_path / "runs")


def check_that_the_oracle_is_right(benchmark: Benchmark, runs: Path) -> None:
    results = sn.evaluate("snellen:oracle", str(benchmark.folder), runs=runs, name="oracle")
    rows = {
        row.metric: row.estimate.value
        for row in results.rows
        if row.benchmark == benchmark.name and not row.slice
    }
    reached = {metric: rows[metric] for metric in BEST & set(rows)}
    assert reached == dict.fromkeys(reached, 1.0) and reached


EXPLAIN = (
    "Give a detailed explanation of the image, describe the scene and the observed objects, and spatial relationships "
    "in this image."
)
WORDS_AROUND = {
    "minecraft": ("Look at the image. ", " Make a plan."),
    "virtualhome": ("", ""),
    "meta-world": (f"{EXPLAIN}\n\n", ""),
    "franka-kitchen": (
        "",
        " You should give your step plan based on this input image.\n\nYou should analyze from the image whether the "
        "action goal is achieved already, if achieved, no need to generate the plans.",
    ),
}
"""The file's own of Minecraft, none for VirtualHome, and those of Figures A.7 and A.6."""


@pytest.mark.parametrize("name", EMBODIED)
def test_a_task_to_be_planned_has_no_gold(name: str, tmp_path: Path) -> None:
    benchmark = made(name, tmp_path)
    counts = benchmark.manifest.counts
    assert (counts.samples, counts.images, counts.answers) == (3, 3, 0)
    [first, *_] = benchmark.samples()
    begin, end = WORDS_AROUND[name]
    assert first.question == f"{begin}Move kettle 0.{end}"
    results = sn.evaluate(Listener(), str(benchmark.folder), runs=tmp_path / "runs")
    rows = {row.metric: row.estimate for row in results.rows if row.benchmark == benchmark.name}
    assert (
        next(iter(rows)) == headline_metric(benchmark.spec) == "rated_overall"
        and len(rows) == 2 + 5
    )
    assert {(estimate.value, estimate.unscored) for estimate in rows.values()} == {(None, 3)}


@pytest.mark.parametrize(
    ("name", "samples", "golds"),
    [
        ("imagenet-1k", 16, {"ILSVRC2012_val_00000016": ("tench", "Tinca tinca")}),
        ("cifar10", 30, {"0": ("airplane",), "11": ("automobile",)}),
        ("pets37", 20, {"american_bulldog_2": ("american bulldog",)}),
        ("flowers102", 4, {"image_00005": ("frangipani",)}),
        ("coco-oc", 4, {"139-1": ("1",), "140-2": ("4",)}),
        ("vcr-mci", 4, {"movie_0/scene@0.jpg-2": ("no",), "movie_1/scene@1.jpg-1": ("Yes",)}),
        ("svtp", 4, {"test/2.png": ("Café",), "test/word 3.jpg": ("New York",)}),
        ("sroie", 12, {"X2_company": ("SHOP 2 SDN BHD",), "X0_total": ("0.50",)}),
        ("funsd", 6, {"80_0": ("June 5, 1988",)}),
        ("whoops-captions", 4, {"id1": ("An odd green cup .", "A cup .")}),
        ("docvqa", 12, {"49157": ("No",), "49153": ("line RONALDO", "RONALDO line")}),
        ("textvqa", 12, {"34603": ("yes",) * 8 + ("RONALDO", "7")}),
        ("stvqa", 13, {"svt/p0-1": ("7", "the 7"), "coco-text/p0-2": ("x",)}),
        ("ocr-vqa", 8, {"061_3": ("Yes",), "064_2": ("Travel",)}),
        ("ok-vqa", 12, {}),
        ("gqa", 20, {"20000001": ("yes",)}),
        ("vizwiz", 6, {"VizWiz_val_00000000": ("cat",) * 6 + ("beast",) * 4}),
        ("pope-random", 12, {"1": ("yes",), "2": ("no",)}),
    ],
)
def test_golds_are_what_the_official_files_say(
    name: str, samples: int, golds: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    benchmark = made(name, tmp_path)
    found = {sample: answer.texts for (sample, _), answer in open_answers(benchmark.folder).items()}
    assert len(found) == samples
    assert {id_: found[id_] for id_ in golds} == golds


@pytest.mark.parametrize(
    ("name", "golds"),
    [
        ("vsr", {"000000000000-1": "No", "000000000000-2": "Yes"}),
        ("snli-ve", {"4000.jpg#0r0": "yes", "4000.jpg#1r1": "not sure", "4000.jpg#2r2": "no"}),
        ("vcr", {"val-0": "To the car.", "val-1": "To eat.", "val-2": "Friends of dog."}),
        ("imagenetvc", {"color-3-1": "brown", "color-3-3": "brown", "others-6-2": "8"}),
    ],
)
def test_the_right_option_is_what_the_official_files_say(
    name: str, golds: dict[str, str], tmp_path: Path
) -> None:
    found = reform.golds(made(name, tmp_path))
    assert {id_: found[id_, 0] for id_ in golds} == golds


def test_the_options_of_imagenetvc_are_all_answers_of_the_subset_about_each_picture(
    tmp_path: Path,
) -> None:
    samples = {sample.id: sample for sample in made("imagenetvc", tmp_path).samples()}
    assert len(samples) == 25 * 3
    assert samples["color-1-1"].options == ("black", "brown", "green", "red", "white")
    # Whether the item's own answer is yes, a number or a word does not show.
    assert len(samples["others-1-1"].options) == len(samples["others-7-1"].options) == 10


class Listener:
    """A model that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def generate(self, requests: list[sn.Request], images: Any) -> list[str]:
        self.asked += [request.messages[0].text for request in requests]
        return ["yes"] * len(requests)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("imagenet-1k", {"The photo of the"}),
        ("cifar10", {"The photo of the"}),
        *(
            (
                name,
                {
                    f"Question: How many {what} are there in the image? Answer:"
                    for what in mini_ehub.COLOURS
                },
            )
            for name in ("coco-oc", "vcr-oc")
        ),
        (
            "coco-mci",
            # A misspelling of the file stays.
            {
                *(
                    f"Question: Does {what} cup exist in the image. Answer:"
                    for what in mini_ehub.COLOURS[:3]
                ),
                f"Question: Does {mini_ehub.COLOURS[3]} cup exis in the image. Answer:",
            },
        ),
        *((name, {"what is written in the image?"}) for name in OCR),
        ("nocaps", {"what is described in the image?"}),
        ("flickr30k", {"what is described in the image?"}),
        ("whoops-captions", {"what is described in the image?"}),
        (
            "sroie",
            {
                "what is the name of the company that issued this invoice?",
                "where was this invoice issued?",
                "On which date was the receipt issued?",
                "What is the total amount of the receipt?",
            },
        ),
    ],
)
def test_a_printed_prompt_is_all_that_is_asked_with_the_templates_of_the_data(
    name: str, asked: set[str], tmp_path: Path
) -> None:
    model = Listener()
    sn.evaluate(model, str(made(name, tmp_path).folder), templates="data", runs=tmp_path / "runs")
    assert set(model.asked) == asked


def test_snellen_s_own_instruction_comes_before_the_question_by_default(tmp_path: Path) -> None:
    model = Listener()
    sn.evaluate(model, str(made("svt", tmp_path).folder), runs=tmp_path / "runs")
    assert (
        all(text.endswith(".\nwhat is written in the image?") for text in model.asked)
        and model.asked
    )


def test_pope_is_asked_as_it_stands_in_the_file_and_counted_by_picture(tmp_path: Path) -> None:
    benchmark = made("pope-adversarial", tmp_path)
    samples = list(benchmark.samples())
    assert samples[4].question == "Is there an imange of thing 4 in the image?"
    assert Counter(sample.group for sample in samples) == {
        f"COCO_val2014_{310196 + n:012d}": 6 for n in range(2)
    }
    assert reform.scored_tags(benchmark, "label") == {"yes": 6, "no": 6}
    assert not any(sample.tags for sample in samples)


def test_pope_is_the_same_from_a_list(tmp_path: Path) -> None:
    lines = made("pope-random", tmp_path)
    files = mini_ehub.official("pope-random", tmp_path / "list")
    rows = [json.loads(line) for line in (files / "coco_pope_random.json").read_text().splitlines()]
    (files / "coco_pope_random.json").unlink()
    reform.write_json(files / "coco_pope_random1.json", rows)
    assert (
        built("pope-random", files, tmp_path / "other").manifest.version == lines.manifest.version
    )


def test_the_paper_s_lists_of_ids_say_which_questions_are_read(tmp_path: Path) -> None:
    vcr = mini_ehub.official("vcr", tmp_path / "vcr")
    (vcr / "vcr_val_random500_annoid.yaml").write_text("- val-2\n- val-0\n")
    assert [sample.id for sample in built("vcr", vcr, tmp_path).samples()] == ["val-0", "val-2"]
    snli = mini_ehub.official("snli-ve", tmp_path / "snli")
    whole = {sample.id: sample for sample in made("snli-ve", tmp_path).samples()}
    names = ["4001.jpg#2r7", "4000.jpg#0r0", "4000.jpg#0r5"]
    (snli / "ve_dev_random500_pairid.yaml").write_text("".join(f"- {name}\n" for name in names))
    listed = built("snli-ve", snli, tmp_path / "listed")
    # The third has no label.
    assert list(listed.samples()) == [whole[name] for name in names[:2]]
    assert listed.manifest.warnings[-1].endswith("1 skipped: its annotators agree on no label")
    (snli / "ve_dev_random500_pairid.yaml").write_text("- 4000.jpg#0r77\n")
    with pytest.raises(DataError, match=r"ve_dev_random500_pairid.yaml:1: "):
        built("snli-ve", snli, tmp_path / "again")


def test_a_published_number_is_that_of_word_matching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sn.evaluate(Listener(), str(made("pope-random", tmp_path).folder), runs="runs", name="yes")
    published = sn.score("runs/yes", as_published=True)
    assert published.value("legacy_vqa_match") == 50.0


def test_persons_are_called_by_where_they_are(tmp_path: Path) -> None:
    first, second, third = made("vcr", tmp_path).samples()
    assert first.question == "Where is the person on the right going with the person on the left?"
    assert first.options[1] == "Home, soon."
    assert second.question == "Why is the person in the middle here?"
    assert third.question == (
        "Who are the person on the right and the person on the left and the person in the middle and another person "
        "on the left?"
    )
    assert name_persons_by_position([5, 500, 10], 900) == [
        f"the person {place}" for place in ("on the left", "on the right", "in the middle")
    ]
    assert caption_text(("Is", (3,), ",", "here", "?"), {3: "dog"}) == "Is dog, here?"


def test_options_of_vcr_that_become_the_same_are_left_out_and_counted(tmp_path: Path) -> None:
    source = mini_ehub.official("vcr", tmp_path / "files")
    reform.broken(source / "val.jsonl", '["To", "eat", "."]', '["To", "rest", "."]')
    benchmark = built("vcr", source, tmp_path)
    assert benchmark.manifest.counts.samples == 2
    assert (
        benchmark.manifest.warnings[-1]
        == "val.jsonl: 1 skipped: two options are the same once tags are words"
    )


def test_whoops_captions_are_the_same_from_the_authors_table(tmp_path: Path) -> None:
    pairs = made("whoops-captions", tmp_path)
    table = mini_ehub.official("whoops-captions", tmp_path / "table")
    rows = json.loads((table / "whoops_captions.json").read_text())
    (table / "whoops_captions.json").unlink()
    with (table / "whoops_dataset.csv").open("w", newline="") as file:
        written_rows = csv.writer(file)
        written_rows.writerow(["image_id", "crowd_captions"])
        written_rows.writerows(
            [row["filename"].removesuffix(".png"), json.dumps(row["caption"])] for row in rows
        )
    other = built("whoops-captions", table, tmp_path / "other")
    assert other.manifest.version == pairs.manifest.version


@pytest.mark.parametrize(
    ("of", "fault"),
    [
        (
            "reform-eval/nocap",
            "of: unknown benchmark 'reform-eval/nocap'; did you mean reform-eval/nocaps",
        ),
        (
            "lvlm-ehub/nocaps",
            "of: lvlm-ehub/nocaps asks another entry's questions itself; name the one that has",
        ),
    ],
)
def test_the_questions_of_an_entry_that_has_files_are_asked_and_of_no_other(
    of: str, fault: str
) -> None:
    source = {"reader": "reasked", "params": {"of": of}}
    entry = parse_entry(
        {"name": "x", "title": "X", "formulation": "text", "source": source}, "x.toml"
    )
    with pytest.raises(DataError, match=fault):
        build_benchmark(entry, source=Path(), to=Path("built"))


def test_the_words_around_a_task_are_those_of_figure_a5_where_the_files_have_none_and_never_twice(
    tmp_path: Path,
) -> None:
    source = mini_ehub.official("minecraft", tmp_path / "files")
    (source / "prefix_prompt.txt").unlink()
    whole = (
        "You are a helpful assistant to complete any Minecraft task specified by me.\n\n"
        f"{EXPLAIN} You should answer the following question based on the image.\n\nMove kettle 0."
    )
    assert next(built("minecraft", source, tmp_path).samples()).question == whole
    reform.write_json(
        source / "val_dataset.json", [{"image_path": "pictures/0.png", "question": whole}]
    )
    assert next(built("minecraft", source, tmp_path / "again").samples()).question == whole
    (source / "prefix_prompt.txt").write_text("{INSERT HERE}")
    reform.write_json(
        source / "val_dataset.json", [{"image_path": "pictures/0.png", "question": "Row."}]
    )
    assert next(built("minecraft", source, tmp_path / "bare").samples()).question == "Row."


def test_a_prefix_without_a_marker_stands_before_the_question_and_an_empty_one_is_refused(
    tmp_path: Path,
) -> None:
    source = mini_ehub.official("minecraft", tmp_path / "files")
    (source / "prefix_prompt.txt").write_text("Answer in steps.")
    first = next(built("minecraft", source, tmp_path).samples())
    assert first.question == "Answer in steps. Move kettle 0."
    (source / "prefix_prompt.txt").write_text(" ")
    with pytest.raises(
        DataError, match=r"prefix_prompt.txt: the file is empty; write {INSERT HERE}"
    ):
        built("minecraft", source, tmp_path / "again")


Break = tuple[str, str, str, str]
"""A file, what is replaced in it and by what, and the refusal."""
NO_LABEL: Break = (
    "test_label.txt",
    "test/1.png RONALDO",
    "test/1.png",
    r"test_label.txt:1: 'test/1.png' is not an image's path",
)


def pope_label(name: str) -> Break:
    """A label that is neither yes nor no, in the file of POPE's split `name`."""
    return (
        f"coco_{name.replace('-', '_')}.json",
        '"label": "no"',
        '"label": "nein"',
        rf"{name[5:]}.json:2: Invalid enum value",
    )


NO_QUESTION: Break = (
    "val_dataset.json",
    '"Move kettle 1."',
    '""',
    r"val_dataset.json: \[1\]: question is empty",
)
BROKEN: dict[str, Break] = {
    "imagenet-1k": ("", "val/n01440764", "val/tench", "val/tench: not the folder of a class"),
    "cifar10": (
        "",
        "cifar-10-batches-py/batches.meta",
        "cifar-10-batches-py/meta",
        "batches.meta.*No such file",
    ),
    "pets37": (
        "annotations/test.txt",
        "Abyssinian_1 1 1 1",
        "Abyssinian_1 1",
        r"test.txt:3: .* is not a file's name",
    ),
    "flowers102": (
        "",
        "flowers-102/jpg/image_00006.jpg",
        "6.jpg",
        "cannot read the image .*image_00006.jpg",
    ),
    "coco-oc": (
        "coco_oc.json",
        '"text_out": "2"',
        '"text_out": ""',
        r"coco_oc.json: \[1\]: text_out is empty",
    ),
    "coco-mci": (
        "coco_mci.json",
        '"text_out": "no"',
        '"text_out": "."',
        r"coco_mci.json: \[1\]: text_out is empty",
    ),
    "vcr-oc": (
        "vcr1_oc.json",
        '"text_in"',
        '"text"',
        r"vcr1_oc.json: \[0\]: .*missing required field `text_in`",
    ),
    "vcr-mci": (
        "vcr1_mci.json",
        "movie_1/scene@1",
        "movie_2/scene@1",
        r"vcr1_mci.json: \[2\]: .*movie_2/scene@1.jpg",
    ),
    **dict.fromkeys(OCR, NO_LABEL),
    "sroie": ("gt_answers/X0.txt", '"total"', '"sum"', "X0.txt: unknown key 'sum'"),
    "funsd": (
        "dataset/testing_data/annotations/80.json",
        "[0, 1]",
        "[0, 99]",
        "80.json: form id 0: linked with 99",
    ),
    "nocaps": (
        "nocaps_val_4500_captions.json",
        '"image_id": 10',
        '"image_id": 99',
        "there is no record with the id 99",
    ),
    "flickr30k": (
        "results_20130124.token",
        "0.jpg#0\t",
        "0.jpg 0 ",
        "results_20130124.token:1: .* is not NAME.jpg#0",
    ),
    "whoops-captions": (
        "whoops_captions.json",
        '"caption"',
        '"text"',
        r"whoops_captions.json: \[0\]: caption is empty",
    ),
    "docvqa": ("val/val_v1.0.json", '["No"]', "[]", r"val_v1.0.json: data\[4\]: answers is empty"),
    "textvqa": (
        "TextVQA_0.5.1_val.json",
        '"image_id": "a0"',
        '"image_id": 0',
        r"data\[0\]: Expected `str`, got `int`",
    ),
    "stvqa": (
        "train_task_3.json",
        '"file_name": "p1.jpg"',
        '"file_name": "q.jpg"',
        "cannot read the image .*q.jpg",
    ),
    "ocr-vqa": (
        "dataset.json",
        '"061": {"split": 2',
        '"061": {"split": "2"',
        "dataset.json: 061: Expected `int`",
    ),
    "ok-vqa": ("", "coco/val2014", "coco/val", "val2014 is missing"),
    "gqa": (
        "testdev_balanced_questions.json",
        '"answer": "cat"',
        '"answer": ""',
        "20000000: answer is empty",
    ),
    "visdial": (
        "visdial_1.0_val.json",
        '"split": "val2018"',
        '"split": "test"',
        "the split is test, not val2018",
    ),
    "icon-qa": (
        "iconqa/test/choose_txt/3/data.json",
        '"answer": 3',
        '"answer": 9',
        "answer 9 but choices are 0-4",
    ),
    "vsr": (
        "all_vsr_validated_data.jsonl",
        '"label": 1',
        '"label": 2',
        "all_vsr_validated_data.jsonl:2: label 2 but",
    ),
    "scienceqa": (
        "pid_splits.json",
        '"3"',
        '"33"',
        r"pid_splits.json: test\[0\]: there is no record '33' in problems.json",
    ),
    "vizwiz": (
        "val_grounding.json",
        '"question"',
        '"asked"',
        "00000000.jpg: .*missing required field `question`",
    ),
    "whoops-vqa": ("", "whoops_images/id1.png", "1.png", "cannot read the image .*id1.png"),
    "snli-ve": (
        "snli_1.0_dev.jsonl",
        '"neutral"',
        '"perhaps"',
        "snli_1.0_dev.jsonl:2: Invalid enum value 'perhaps'",
    ),
    "imagenetvc": (
        "datasets/shape.csv",
        "tench",
        "trench",
        "shape.csv:2: there is no category 'trench'",
    ),
    "vcr": ("val.jsonl", "[3]", "[9]", "val.jsonl:2: the tag 9 but objects are 0-5"),
    **{name: pope_label(name) for name in POPE},
    **dict.fromkeys(EMBODIED, NO_QUESTION),
}


@pytest.mark.parametrize("name", MINIATURES)
def test_a_broken_twin_is_refused_with_file_and_place(name: str, tmp_path: Path) -> None:
    source = mini_ehub.official(name, tmp_path / "files")
    file, old, new, fault = BROKEN[name]
    if file:
        reform.broken(source / file, old, new)
    else:
        (source / old).rename(source / new)
    with pytest.raises(DataError, match=fault):
        built(name, source, tmp_path)
    assert not (tmp_path / f"built-{name}").exists()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            '"answer_label": 1',
            '"answer_label": 4',
            r"val.jsonl:2: answer_label 4 but answer_choices are 0-3",
        ),
        ('"metadata_fn": "movie/1.json"', '"metadata_fn": "movie/9.json"', r"movie/9.json"),
        ('"question": ["Why", "is", [3]', '"question": ["Why", "is", "3"', ""),
    ],
)
def test_vcr_names_the_line_that_is_wrong(old: str, new: str, fault: str, tmp_path: Path) -> None:
    source = mini_ehub.official("vcr", tmp_path / "files")
    reform.broken(source / "val.jsonl", old, new)
    if fault:
        with pytest.raises(DataError, match=fault):
            built("vcr", source, tmp_path)
    else:  # a question about nobody reads no boxes
        (source / "vcr1images/movie/1.json").unlink()
        assert built("vcr", source, tmp_path).manifest.counts.samples == 3


def test_a_scene_with_fewer_boxes_than_persons_is_refused(tmp_path: Path) -> None:
    source = mini_ehub.official("vcr", tmp_path / "files")
    reform.write_json(source / "vcr1images/movie/1.json", {"boxes": [[0, 0, 9, 9]], "width": 900})
    with pytest.raises(
        DataError, match=r"val.jsonl:2: 1.json has no box of each person; it has 1 boxes"
    ):
        built("vcr", source, tmp_path)


def test_all_47_are_counted_against_table_a6_and_built_in_one_command_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SNELLEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name in MINIATURES:
        mini_ehub.official(name, tmp_path / "official" / name)
    source = str(tmp_path / "official")
    code, shown, _ = small.command(capsys, "verify", "lvlm-ehub", "--source", source, "--json")
    counted = {
        row["benchmark"].partition("/")[2]: row for row in map(json.loads, shown.splitlines())
    }
    assert code == 0 and set(counted) == set(MINIATURES)
    published = {name for name, row in counted.items() if row["state"] == "differs"}
    assert published == {*NUMBERS, *DOCUMENTS}
    assert counted["funsd"]["why"].startswith("Table A.6 counts the 50 forms")
    code, shown, said = small.command(capsys, "build", "lvlm-ehub", "--source", source)
    assert code == 0, said
    assert shown.count("built lvlm-ehub/") == 47
