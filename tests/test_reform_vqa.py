"""Files in the form of the VQA challenge: VQA v2 and its dialogues, OK-VQA, VizWiz, seven tasks of TDIUC, COCO-QA."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import reform
from snellen.building.recipe import Recipe
from snellen.formats import json_files


class Annotation(Struct, frozen=True):
    question_id: int
    answers: list[dict[str, Any]]


ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat")
TASKS = {
    "sport": ("sport_recognition", ("tennis", "soccer", "skiing", "surfing", "baseball")),
    "scene": ("scene_recognition", ("kitchen", "beach", "street", "office", "forest")),
    "color": ("color", ("red", "green", "blue", "white", "black")),
    "utility": ("utility_affordance", ("oven", "knife", "bus", "bed", "umbrella")),
    "position": ("positional_reasoning", ("table", "chair", "roof", "floor", "wall")),
    "detection": ("object_recognition", ANIMALS),
    "counting": ("counting", ("1", "2", "3", "4", "5", "6")),
}


def pictures(folder: Path, count: int = 4) -> None:
    for number in range(count):
        reform.write_picture(folder / f"COCO_val2014_{number:012d}.jpg", number, (48, 40))


def pair(folder: Path, prefix: str, asked: list[tuple[dict[str, Any], dict[str, Any]]]) -> Path:
    """A file of questions and one of annotations, with what the official ones hold around the lists."""
    questions = [
        {"image_id": n % 4, "question": q.pop("question"), "question_id": n * 3 + 1, **q}
        for n, (q, _) in enumerate(asked)
    ]
    notes = [
        {"image_id": n % 4, "question_id": n * 3 + 1, **note} for n, (_, note) in enumerate(asked)
    ]
    head = {
        "info": {"description": "questions [annotations]", "version": "2.0"},
        "data_type": "mscoco",
    }
    reform.write_json(
        folder / f"{prefix}OpenEnded_mscoco_val2014_questions.json",
        {**head, "questions": questions},
    )
    reform.write_json(
        folder / f"{prefix}mscoco_val2014_annotations.json",
        {**head, "annotations": notes, "license": {"url": "x", "name": "CC {4}, [by]"}},
    )
    return folder


def votes(*answers: str) -> list[dict[str, Any]]:
    return [
        {"answer": text, "answer_confidence": "yes", "answer_id": n}
        for n, text in enumerate(answers, 1)
    ]


def vqav2(folder: Path) -> Path:
    """200 questions about four images: animals, numbers, yes and no."""
    asked = []
    for n in range(200):
        kind, gold = [
            ("other", ANIMALS[n // 3 % 6]),
            ("number", str(n // 3 % 7)),
            ("yes/no", ("yes", "no")[n // 3 % 2]),
        ][n % 3]
        of = {"other": "what is the", "number": "how many", "yes/no": "is the"}[kind]
        note = {"question_type": of, "answer_type": kind, "multiple_choice_answer": gold}
        asked.append(
            ({"question": f"{of} thing {n}?"}, {**note, "answers": votes(*[gold] * 9, "a beast")})
        )
    pictures(folder / "val2014")
    return pair(folder, "v2_", asked)


def ok_vqa(folder: Path) -> Path:
    asked = [
        (
            {"question": f"What is bred here, {n}?"},
            {
                "question_type": ("one", "two")[n % 2],
                "answer_type": "other",
                "answers": votes(ANIMALS[n % 6], "beast", ANIMALS[n % 6], ""),
                "confidence": 3,
            },
        )
        for n in range(12)
    ]
    pictures(folder / "coco" / "val2014")
    return pair(folder, "", asked)


def tdiuc(folder: Path) -> Path:
    """90 questions of each of the seven tasks; every tenth is from Visual Genome, and its answer is in no other."""
    asked = [
        (
            {"question": f"What {kind} {n}?"},
            {
                "question_type": kind,
                "answers": votes("a lie" if n % 10 == 9 else answers[n % len(answers)]),
                "ans_source": "imported_genome"
                if n % 10 == 9
                else ("generation", "imported_vqa")[n % 2],
            },
        )
        for kind, answers in TASKS.values()
        for n in range(90)
    ]
    pictures(folder / "Images" / "val2014")
    pair(folder, "", asked)
    for name, file in (
        ("Questions", "OpenEnded_mscoco_val2014_questions"),
        ("Annotations", "mscoco_val2014_annotations"),
    ):
        (folder / name).mkdir()
        (folder / f"{file}.json").rename(folder / name / f"{file}.json")
    return folder


def vizwiz(folder: Path) -> Path:
    content = [
        {
            "image": f"VizWiz_val_{n:08d}.jpg",
            "question": "What is this?",
            "answers": votes(*[gold] * 8, "beast", ""),
            "answer_type": "other" if gold != "unanswerable" else gold,
            "answerable": int(gold != "unanswerable"),
        }
        for n, gold in enumerate((*ANIMALS, "unanswerable", *ANIMALS[:3]))
    ]
    reform.write_json(folder / "Annotations" / "val.json", content)
    for n in range(len(content)):
        reform.write_picture(folder / "val" / f"VizWiz_val_{n:08d}.jpg", n, (48, 40))
    return folder


def coco_qa(folder: Path) -> Path:
    """Every third question is one of number; two of them are about each of 600 images, which look alike."""
    numbers = ("one", "two", "three", "four", "five")
    rows = []
    for n in range(3600):
        kind, answer = (1, numbers[n // 6 % 5]) if n % 3 == 0 else (0, "cat")
        rows.append((f"how many cats are in view {n}", answer, str(n // 6), str(kind)))
    (folder / "test").mkdir(parents=True)
    for name, column in zip(
        ("questions", "answers", "img_ids", "types"), zip(*rows, strict=True), strict=True
    ):
        (folder / "test" / f"{name}.txt").write_text("\n".join(column) + "\n")
    first = reform.write_picture(folder / "val2014" / f"COCO_val2014_{0:012d}.jpg", 1, (48, 40))
    for n in range(1, 600):
        (folder / "val2014" / f"COCO_val2014_{n:012d}.jpg").hardlink_to(first)
    return folder


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "vqav2": vqav2,
    "vqa-mt": vqav2,
    "ok-vqa": ok_vqa,
    "vizwiz": vizwiz,
    **{f"tdiuc-{task}": tdiuc for task in TASKS},
}
# Questions that the source has, that its complete form has, and that the paper's way of sampling leaves.
COUNTS = {
    "vqav2": (200, 20, 2),
    "vqa-mt": (4, 4, 4),
    "ok-vqa": (12, 12, 1),
    "vizwiz": (10, 10, 1),
    **{
        f"tdiuc-{task}": (81, 81, {"utility": 81, "sport": 3, "position": 3}.get(task, 1))
        for task in TASKS
    },
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_benchmark_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    source = LAYOUTS[name](tmp_path / "files")
    complete = reform.made(name, source, tmp_path)
    read, whole, sampled = COUNTS[name]
    assert (complete.manifest.build_info.read, complete.manifest.counts.samples) == (read, whole)
    assert {len(turn.options) for sample in complete.samples() for turn in sample.rounds} <= {2, 4}
    reform.holds_together(complete, tmp_path / "runs")
    paper = reform.made(name, source, tmp_path / "paper", Recipe(distractors="pool"))
    assert paper.manifest.counts.samples == sampled


def test_the_gold_is_what_most_annotators_said_and_no_distractor_is_what_any_said(
    tmp_path: Path,
) -> None:
    for name in ("ok-vqa", "vizwiz"):
        benchmark = reform.made(name, LAYOUTS[name](tmp_path / f"{name}-files"), tmp_path)
        golds = reform.golds(benchmark)
        assert set(golds.values()) <= {*ANIMALS, "unanswerable"}
        for sample in benchmark.samples():
            assert golds[sample.id, 0] in sample.options and "beast" not in sample.options


def test_a_yes_no_question_gets_the_other_one_and_others_answers_of_their_type(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("vqav2", vqav2(tmp_path / "files"), tmp_path)
    kinds = {"yes/no": {"yes", "no"}, "number": set("0123456"), "other": set(ANIMALS)}
    seen = set()
    for sample in reform.scored_samples(benchmark):
        kind = sample.tags["answer_type"]
        seen.add(kind)
        assert set(sample.options) <= kinds[kind] and len(sample.options) == (
            2 if kind == "yes/no" else 4
        )
        assert sample.group == f"COCO_val2014_{(int(sample.id) - 1) // 3 % 4:012d}.jpg"
    assert seen == set(kinds)


def test_a_dialogue_holds_the_first_ten_questions_about_a_picture_of_those_that_vqa_v2_drew(
    tmp_path: Path,
) -> None:
    source = vqav2(tmp_path / "files")
    single = reform.made("vqav2", source, tmp_path)
    about: dict[str, list[str]] = {}
    for sample in sorted(single.samples(), key=lambda sample: int(sample.id)):
        about.setdefault(sample.group, []).append(sample.question)
    dialogues = reform.made("vqa-mt", source, tmp_path)
    found = {
        sample.group: [turn.question for turn in sample.turns] for sample in dialogues.samples()
    }
    assert found == {
        group: questions[:10] for group, questions in about.items() if len(questions) >= 3
    }


def test_a_dialogue_has_ten_rounds_at_most_and_three_at_least(tmp_path: Path) -> None:
    # 1600 questions, so that some 40 are drawn about each image, but of the last image two.
    asked = [
        (
            {"question": f"What {n}?"},
            {
                "question_type": "what",
                "answer_type": "other",
                "multiple_choice_answer": ANIMALS[n % 6],
                "answers": [],
            },
        )
        for n in range(1600)
    ]
    pictures(tmp_path / "files" / "val2014")
    source = pair(tmp_path / "files", "v2_", asked)
    questions = source / "v2_OpenEnded_mscoco_val2014_questions.json"
    notes = source / "v2_mscoco_val2014_annotations.json"
    for path, name in ((questions, "questions"), (notes, "annotations")):
        content = json.loads(path.read_text())
        for item in content[name]:
            item["image_id"] = min(item["image_id"], 2) if item["question_id"] > 30 else 3
        path.write_text(json.dumps(content))
    rounds = {
        sample.group: len(sample.turns)
        for sample in reform.made("vqa-mt", source, tmp_path).samples()
    }
    assert rounds == {f"COCO_val2014_{n:012d}.jpg": 10 for n in range(3)}


def test_tdiuc_leaves_visual_genome_out_and_says_when_a_file_has_none(tmp_path: Path) -> None:
    source = tdiuc(tmp_path / "files")
    benchmark = reform.made("tdiuc-sport", source, tmp_path)
    assert {option for sample in benchmark.samples() for option in sample.options} == set(
        TASKS["sport"][1]
    )
    (left_out,) = [warning for warning in benchmark.manifest.warnings if "Visual Genome" in warning]
    assert (
        "9 skipped: the question comes from Visual Genome, which models were trained on" in left_out
    )
    notes = source / "Annotations" / "mscoco_val2014_annotations.json"
    notes.write_text(notes.read_text().replace("imported_genome", "imported"))
    warnings = reform.made("tdiuc-sport", source, tmp_path / "unmarked").manifest.warnings
    assert any(
        "no answer comes from Visual Genome by its ans_source; the paper leaves" in text
        for text in warnings
    )


@pytest.mark.parametrize("name", ["genome", "Visual Genome", "vg"])
def test_visual_genome_is_known_by_its_names(name: str, tmp_path: Path) -> None:
    source = tdiuc(tmp_path / "files")
    notes = source / "Annotations" / "mscoco_val2014_annotations.json"
    notes.write_text(notes.read_text().replace("imported_genome", name))
    assert reform.made("tdiuc-sport", source, tmp_path).manifest.counts.samples == 81


def test_coco_qa_gives_the_first_number_question_of_each_picture_as_many_as_the_paper_has(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("mscoco-count", coco_qa(tmp_path / "files"), tmp_path)
    assert (benchmark.manifest.build_info.read, benchmark.manifest.counts.samples) == (600, 513)
    for sample in benchmark.samples():
        assert sample.question == f"How many cats are in view {int(sample.group) * 6}?"
        assert (
            set(sample.options) < {"one", "two", "three", "four", "five"}
            and len(sample.options) == 4
        )
    reform.holds_together(benchmark, tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "fault"),
    [
        (
            "vqav2",
            "v2_OpenEnded_mscoco_val2014_questions.json",
            '"question_id": 10}',
            '"question_id": 11}',
            r"questions\[3\]: the question_id 11 has no record in .*annotations.json",
        ),
        (
            "vqav2",
            "v2_OpenEnded_mscoco_val2014_questions.json",
            '"image_id": 3, "qu',
            '"image_id": 2, "qu',
            r"questions\[3\]: the image_id is 2, but 3 in .*annotations.json: annotations\[3\]",
        ),
        (
            "vqav2",
            "v2_OpenEnded_mscoco_val2014_questions.json",
            '"question": "how many thing 1?"',
            '"question": 1',
            r"questions.json: questions\[1\]: Expected `str`, got `int` - at `\$.question`",
        ),
        (
            "vqav2",
            "v2_OpenEnded_mscoco_val2014_questions.json",
            '"questions":',
            '"question":',
            r"questions.json: there is no list 'questions'",
        ),
        (
            "vqav2",
            "v2_mscoco_val2014_annotations.json",
            '"question_id": 10,',
            '"question_id": 7,',
            r"questions\[3\]: the question_id 10 has no record in .*annotations.json",
        ),
        (
            "vqav2",
            "v2_mscoco_val2014_annotations.json",
            '"answer_id": 3}',
            '"answer_id": 3',
            r"annotations.json: annotations\[0\]: not JSON",
        ),
        (
            "ok-vqa",
            "mscoco_val2014_annotations.json",
            '"answer": "goat"',
            '"answer": null',
            r"annotations.json: annotations\[5\]: Expected `str`, got `null` - at `\$.answers\[0\].answer`",
        ),
        (
            "vizwiz",
            "Annotations/val.json",
            '"answerable": 1',
            '"answerable": "yes"',
            r"val.json: \[0\]: .*answerable",
        ),
        (
            "vizwiz",
            "Annotations/val.json",
            "VizWiz_val_00000004",
            "VizWiz_val_00000099",
            r"val.json: \[4\]: cannot read the image .*VizWiz_val_00000099.jpg",
        ),
        (
            "tdiuc-scene",
            "Annotations/mscoco_val2014_annotations.json",
            '"scene_recognition", "answers": [{"answer": "kitchen"',
            '"scene_recognition", "answers": [{"answer": " "',
            r"questions\[90\]: note.answers.answer is empty; is this the file of a split with hidden",
        ),
    ],
)
def test_a_broken_pair_is_refused_with_file_and_place(
    name: str, file: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    source = LAYOUTS[name](tmp_path / "files")
    reform.broken(source / file, old, new)
    reform.refused(name, source, tmp_path, fault)


def test_an_annotation_without_a_question_is_refused(tmp_path: Path) -> None:
    source = ok_vqa(tmp_path / "files")
    path = source / "mscoco_val2014_annotations.json"
    content = json.loads(path.read_text())
    content["annotations"].append({**content["annotations"][0], "question_id": 777})
    path.write_text(json.dumps(content))
    reform.refused(
        "ok-vqa",
        source,
        tmp_path,
        r"annotations.json: annotations\[12\]: there is no record with the question_id 777",
    )


def test_a_file_of_another_set_is_no_tdiuc(tmp_path: Path) -> None:
    reform.refused(
        "tdiuc-color",
        ok_vqa(tmp_path / "files"),
        tmp_path,
        r"questions.json: no record meets .note.question_type == 'color'.; is this the right file",
    )


@pytest.mark.parametrize(
    ("file", "line", "new", "fault"),
    [
        ("types", 3, "7", r"types.txt:4: Invalid enum value '7' - at `\$.type`"),
        ("img_ids", 3, "x3", r"img_ids.txt:4: Expected `int`, got `str` - at `\$.image`"),
        ("answers", 3, "", r"questions.txt:4: answer is empty"),
        ("answers", 3, None, r"answers.txt: 3599 lines, but questions.txt has 3600"),
        (
            "img_ids",
            0,
            "9999",
            r"questions.txt:1: cannot read the image .*COCO_val2014_000000009999.jpg",
        ),
    ],
)
def test_broken_text_files_are_refused_with_file_and_line(
    file: str, line: int, new: str | None, fault: str, tmp_path: Path
) -> None:
    source = coco_qa(tmp_path / "files")
    path = source / "test" / f"{file}.txt"
    lines = path.read_text().splitlines()
    lines[line : line + 1] = [] if new is None else [new]
    path.write_text("\n".join(lines) + "\n")
    reform.refused("mscoco-count", source, tmp_path, fault)


def test_the_order_of_the_annotations_does_not_matter(tmp_path: Path) -> None:
    source = vqav2(tmp_path / "files")
    straight = reform.made("vqav2", source, tmp_path)
    path = source / "v2_mscoco_val2014_annotations.json"
    content = json.loads(path.read_text())
    content["annotations"].sort(key=lambda note: note["question_id"] * 7 % 601)
    path.write_text(json.dumps(content))
    mixed = reform.made("vqav2", source, tmp_path / "mixed")
    assert [s.question for s in mixed.samples()] == [s.question for s in straight.samples()]
    assert reform.golds(mixed) == reform.golds(straight)


def test_a_small_window_reads_what_a_large_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tdiuc(tmp_path / "files")
    path = source / "Annotations" / "mscoco_val2014_annotations.json"
    large = list(json_files.stream_list(path, "annotations", Annotation))
    assert [note.question_id for _, note in large] == [n * 3 + 1 for n in range(630)]
    for window in (7, 64, 1000):
        monkeypatch.setattr(json_files, "READ_BYTES", window)
        assert list(json_files.stream_list(path, "annotations", Annotation)) == large
