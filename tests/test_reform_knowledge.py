"""GQA, WHOOPS!, ScienceQA, ViQuAE with and without knowledge, A-OKVQA in three ways, ImageNetVC."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reform
from snellen import registry
from snellen.building.recipe import Recipe
from snellen.catalogue import entries
from snellen.reformulation.distractor_prompts import request_text
from snellen.reformulation.sampling import Sampling
from snellen.suites.reform_eval.readers.texts import cut_passages

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat")
SINGERS = (
    "Jackie Wilson",
    "Marian Gold",
    "Chris de Burgh",
    "Kate Bush",
    "Nina Hagen",
    "Edith Piaf",
)
BRANDS = ("Levi's", "Persil", "Nestle", "Volvo", "Omega", "Lego")


def gqa(folder: Path) -> Path:
    content: dict[str, Any] = {}
    for n in range(20):
        structural, semantic, gold = [
            ("query", "obj", ANIMALS[n % 6]),
            ("verify", "attr", ("yes", "no")[n // 2 % 2]),
        ][n % 2]
        content[f"20{n:06d}"] = {
            "semantic": [{"operation": "select", "dependencies": [], "argument": "beast"}],
            "entailed": [],
            "equivalent": [f"20{n:06d}"],
            "question": f"Which beast is it, {n}?",
            "imageId": f"n{n % 5}",
            "isBalanced": True,
            "groups": {"global": None, "local": "13-beast"},
            "answer": gold,
            "types": {
                "detailed": f"{semantic}{structural}",
                "semantic": semantic,
                "structural": structural,
            },
            "fullAnswer": f"It is {gold}.",
        }
    reform.write_json(folder / "testdev_balanced_questions.json", content)
    for n in range(5):
        reform.write_picture(folder / "images" / f"n{n}.jpg", n, (48, 40))
    return folder


def whoops(folder: Path) -> Path:
    folder.mkdir(parents=True)
    with (folder / "whoops_dataset.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            [
                "image_id",
                "image_designer",
                "selected_caption",
                "commonsense_category",
                "question_answering_pairs",
            ]
        )
        for n in range(6):
            pairs = [[f'What is "odd", {n}?', ANIMALS[n]], ["And, so?", ANIMALS[(n + 1) % 6]]][
                : 0 if n == 5 else 2
            ]
            table.writerow(
                [f"id{n}", "A\nB", "A cat, a dog", ("Age", "Job")[n % 2], json.dumps(pairs)]
            )
    for n in range(6):
        reform.write_picture(folder / "whoops_images" / f"id{n}.png", n, (48, 40))
    return folder


def science_qa(folder: Path) -> Path:
    problems = {
        str(n): {
            "question": f"Which one, {n}?",
            "choices": list(ANIMALS[: 2 + n % 4]),
            "answer": n % 2,
            "hint": "" if n % 3 else f"Beasts have hint {n}.",
            "image": "image.png" if n % 5 else None,
            "task": "closed choice",
            "grade": "grade4",
            "subject": ("natural science", "social science")[n % 2],
            "topic": "biology",
            "category": "Animals",
            "skill": "Know beasts",
            "lecture": "",
            "solution": "",
            "split": "test" if n > 2 else "train",
        }
        for n in range(20)
    }
    reform.write_json(folder / "problems.json", problems)
    reform.write_json(
        folder / "pid_splits.json",
        {"train": ["0", "1", "2"], "test": [str(n) for n in range(3, 20)]},
    )
    for n in range(3, 20):
        if n % 5:
            reform.write_picture(folder / "images" / "test" / str(n) / "image.png", n, (48, 40))
    return folder


def viquae(folder: Path) -> Path:
    """Eleven questions. The sixth's article lacks the answer; of the seventh it holds an alias of the answer only."""
    folder.mkdir(parents=True)
    lines = []
    for n in range(11):
        brand = BRANDS[n % 6]
        lines.append(
            {
                "id": f"qw_{n}",
                "kilt_id": f"qw_{n}",
                "input": f"this singer helped to advertise what brand, {n}?",
                "original_question": "x",
                "image": f"512px-{n % 6}.png",
                "url": "http://x",
                "wikidata_id": f"Q{n}",
                "meta": {"mentions": []},
                "output": {
                    "answer": [brand, f"{brand} Strauss"]
                    if n != 6
                    else ["Unheard of", "Levi Strauss"],
                    "original_answer": brand if n != 6 else "Unheard of",
                    "provenance": [{"title": [SINGERS[n % 6]], "wikipedia_id": ["1"]}],
                },
            }
        )
    (folder / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for n in range(6):
        reform.write_picture(folder / "images" / f"512px-{n}.png", n, (48, 40))
    articles = [
        {
            "wikipedia_title": name,
            "wikipedia_id": "1",
            "text": {
                "paragraph": [
                    name + "\n",
                    f"{name} sang. " + "A filling sentence of seven words here. " * 20,
                    "Section::::Advertising.\n",
                    "BULLET::::- Persil and Lego",
                    f"Later {name} sang for the {BRANDS[n] if n != 5 else 'other'} brand, by Levi Strauss. The end.",
                ]
            },
        }
        for n, name in enumerate(SINGERS)
    ]
    with gzip.open(folder / "humans_with_faces.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(article) + "\n" for article in articles[:3])
    (folder / "humans_without_faces.jsonl").write_text(
        "".join(json.dumps(article) + "\n" for article in articles[3:])
    )
    other = {"wikipedia_title": "Paris", "text": {"paragraph": ["Levi's"]}}
    (folder / "non_humans.jsonl").write_text(json.dumps(other) + "\n")
    return folder


def a_okvqa(folder: Path) -> Path:
    content = [
        {
            "split": "val",
            "image_id": 139 + n % 4,
            "question_id": f"22Mex{n}",
            "question": f"What is the man by the bags awaiting, {n}?",
            "choices": list(ANIMALS[:4]),
            "correct_choice_idx": n % 4,
            "direct_answers": [ANIMALS[n % 4]] * 10,
            "difficult_direct_answer": False,
            "rationales": [
                f"Reason {n} for {ANIMALS[n % 4]}.",
                f"Second cause {n}.",
                f"Third cause {n}.",
            ],
        }
        for n in range(12)
    ]
    reform.write_json(folder / "aokvqa_v1p0_val.json", content)
    for n in range(4):
        reform.write_picture(folder / "val2017" / f"{139 + n:012d}.jpg", n, (48, 40))
    return folder


def imagenetvc(folder: Path) -> Path:
    golds = {
        "color": ("black", "white", "Brown", "red", "green"),
        "shape": ("round", "oval", "square", "star"),
        "material": ("wood", "metal", "glass", "paper"),
        "component": ("yes", "no"),
        "others": ("yes", "no", "1", "2", "4", "8", "water", "forest", "tree", "ground"),
    }
    (folder / "datasets").mkdir(parents=True)
    for subset, answers in golds.items():
        with (folder / "datasets" / f"{subset}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["category", "question", "answer"])
            for n, answer in enumerate(answers):
                table.writerow(
                    [("tench", "great white shark")[n % 2], f"What of a {subset}, {n}?", answer]
                )
    (folder / "ImageNet_mapping.txt").write_text(
        "n01440764 tench, Tinca tinca\nn01484850 great white shark, white shark\n"
    )
    for wnid in ("n01440764", "n01484850"):
        for n in range(3):
            reform.write_picture(
                folder / "rank" / wnid / f"{wnid}_{n}.JPEG", n + int(wnid[-1]) * 3, (48, 40)
            )
    return folder


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "gqa": gqa,
    "whoops": whoops,
    "scienceqa": science_qa,
    "viquae": viquae,
    "k-viquae": viquae,
    "a-okvqa": a_okvqa,
    "a-okvqra": a_okvqa,
    "a-okvqar": a_okvqa,
    "imagenetvc": imagenetvc,
}
# Questions of the complete benchmark, and those that the paper's way of sampling leaves.
COUNTS = {
    "gqa": (20, 2), "whoops": (10, 1), "scienceqa": (14, 1), "viquae": (11, 1), "k-viquae": (10, 1), "a-okvqa": (12, 1),
    "a-okvqra": (12, 1), "a-okvqar": (12, 1), "imagenetvc": (25, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_benchmark_goes_through_build_run_and_score(name: str, tmp_path: Path) -> None:
    source = LAYOUTS[name](tmp_path / "files")
    complete = reform.made(name, source, tmp_path)
    whole, sampled = COUNTS[name]
    assert complete.manifest.counts.samples == whole
    reform.holds_together(complete, tmp_path / "runs")
    paper = reform.made(name, source, tmp_path / "paper", Recipe(distractors="pool"))
    assert paper.manifest.counts.samples == sampled


def test_gqa_draws_from_answers_to_questions_of_the_same_type(tmp_path: Path) -> None:
    for sample in reform.made("gqa", gqa(tmp_path / "files"), tmp_path).samples():
        allowed = (
            {"yes", "no"}
            if sample.tags["structural"] == "verify"
            else set(ANIMALS[::2]) | {"yes", "no"}
        )
        assert set(sample.options) <= allowed
        assert sample.group == f"n{int(sample.id[2:]) % 5}"


def test_whoops_is_the_same_from_its_table_and_from_its_pairs(tmp_path: Path) -> None:
    source = whoops(tmp_path / "files")
    table = reform.made("whoops", source, tmp_path)
    with (source / "whoops_dataset.csv").open(newline="") as file:
        pairs = [
            {"image": f"{row['image_id']}.png", "question": question, "reference": answer}
            for row in csv.DictReader(file)
            for question, answer in json.loads(row["question_answering_pairs"])
        ]
    (source / "whoops_dataset.csv").unlink()
    reform.write_json(source / "whoops_vqa_pairs.json", pairs)
    listed = reform.made("whoops", source, tmp_path / "pairs")
    assert [(s.id, s.question, s.options, s.images) for s in listed.samples()] == [
        (s.id, s.question, s.options, s.images) for s in table.samples()
    ]
    assert reform.golds(listed) == reform.golds(table)


def test_science_qa_keeps_options_asks_without_the_hint_and_drops_what_has_no_picture(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("scienceqa", science_qa(tmp_path / "files"), tmp_path)
    golds = reform.golds(benchmark)
    for sample in benchmark.samples():
        n = int(sample.id)
        assert n > 2 and n % 5
        assert sample.options == ANIMALS[: 2 + n % 4]
        assert sample.context is None
        assert golds[sample.id, 0] == ANIMALS[n % 2]


def test_viquae_accepts_aliases_of_the_answer(tmp_path: Path) -> None:
    benchmark = reform.made("viquae", viquae(tmp_path / "files"), tmp_path)
    assert reform.golds(benchmark)["qw_3", 0] == "Volvo"
    assert all(sample.context is None for sample in benchmark.samples())


def test_knowledge_is_the_passage_of_the_linked_article_that_holds_the_answer_else_an_alias(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("k-viquae", viquae(tmp_path / "files"), tmp_path)
    found = {sample.id: sample.context for sample in benchmark.samples()}
    assert found.keys() == {f"qw_{n}" for n in range(11) if n != 5}
    for name, context in found.items():
        n = int(name.removeprefix("qw_"))
        assert context is not None
        assert context.startswith(f"{SINGERS[n % 6]}. ")
        assert (BRANDS[n % 6] if n != 6 else "Levi Strauss") in context
        assert "Section::::" not in context and "BULLET::::" not in context
    assert any(
        "1 skipped: no passage of the linked articles holds the answer" in w
        for w in benchmark.manifest.warnings
    )


def test_passages_are_whole_sentences_of_a_hundred_words_at_most() -> None:
    sentence = "This is one sentence of seven words."
    passages = list(
        cut_passages(
            "Title", ["Title", " ".join([sentence] * 40), "word " * 130 + "end.", "Last one."]
        )
    )
    bodies = [passage.removeprefix("Title. ") for passage in passages]
    assert [len(body.split()) for body in bodies] == [98, 98, 84, 131, 2]
    assert (
        " ".join(bodies).split()
        == f"{' '.join([sentence] * 40)} {'word ' * 130}end. Last one.".split()
    )


def test_a_okvqa_gives_a_reason_or_asks_for_it(tmp_path: Path) -> None:
    source = a_okvqa(tmp_path / "files")
    plain, given, asked = (
        reform.made(name, source, tmp_path) for name in ("a-okvqa", "a-okvqra", "a-okvqar")
    )
    reasons = {f"Reason {n} for {ANIMALS[n % 4]}." for n in range(12)}
    for sample, reasoned in zip(plain.samples(), given.samples(), strict=True):
        n = int(sample.id.removeprefix("22Mex"))
        assert (sample.question, sample.options, sample.context) == (
            reasoned.question,
            ANIMALS[:4],
            None,
        )
        assert reasoned.context == f"Explanation: Reason {n} for {ANIMALS[n % 4]}."
    golds = reform.golds(asked)
    for sample in asked.samples():
        n = int(sample.id.removeprefix("22Mex"))
        assert sample.question.endswith(f"The answer is {ANIMALS[n % 4]}. Why?")
        assert (
            golds[sample.id, 0] == f"Reason {n} for {ANIMALS[n % 4]}."
            and set(sample.options) < reasons
        )


def test_imagenetvc_draws_a_picture_of_the_class_and_answers_of_the_same_kind(
    tmp_path: Path,
) -> None:
    benchmark = reform.made("imagenetvc", imagenetvc(tmp_path / "files"), tmp_path)
    words = {"water", "forest", "tree", "ground"}
    kinds = {
        "color": ({"black", "white", "brown", "red", "green"},),
        "shape": ({"round", "oval", "square", "star"},),
        "material": ({"wood", "metal", "glass", "paper"},),
        "component": ({"yes", "no"},),
        "others": ({"yes", "no"}, {"1", "2", "4", "8"}, words),
    }
    for sample in benchmark.samples():
        assert any(set(sample.options) <= kind for kind in kinds[sample.tags["subset"]])
        wnid = ("n01440764", "n01484850")[(int(sample.id.split("-")[1]) - 1) % 2]
        assert sample.group.startswith(f"{wnid}/{wnid}_")


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "fault"),
    [
        (
            "gqa",
            "testdev_balanced_questions.json",
            '"answer": "horse"',
            '"answer": " "',
            r"testdev_balanced_questions.json: 20000002: answer is empty",
        ),
        (
            "gqa",
            "testdev_balanced_questions.json",
            '"imageId": "n2"',
            '"imageId": "n9"',
            r"20000002: cannot read",
        ),
        (
            "gqa",
            "testdev_balanced_questions.json",
            '"semantic": "obj"',
            '"sem": "obj"',
            r"20000000: .*`semantic`",
        ),
        (
            "whoops",
            "whoops_dataset.csv",
            "question_answering_pairs",
            "question_answer_pairs",
            r"whoops_dataset.csv:1: the column 'question_answering_pairs' is missing",
        ),
        (
            "whoops",
            "whoops_dataset.csv",
            '""horse""]',
            '""horse""',
            r"dataset.csv:5: question_answering_pairs: ",
        ),
        (
            "whoops",
            "whoops_dataset.csv",
            '""horse""',
            '""""',
            r"dataset.csv:5: question_answering_pairs.1 is empty",
        ),
        (
            "scienceqa",
            "problems.json",
            '1, "hint": "Beasts have hint 3',
            '7, "hint": "Beasts have hint 3',
            r"problems.json: 3: answer 7 but choices are 0-4",
        ),
        (
            "scienceqa",
            "pid_splits.json",
            '"test": ["3"',
            '"test": ["33"',
            r"pid_splits.json: test\[0\]: there is no record '33' in problems.json",
        ),
        (
            "scienceqa",
            "pid_splits.json",
            '"test"',
            '"dev"',
            r"there is no split 'test'; it has train, dev",
        ),
        (
            "viquae",
            "test.jsonl",
            '"original_answer": "Volvo"',
            '"original_answer": ""',
            r"test.jsonl:4: output.original_answer is empty",
        ),
        (
            "viquae",
            "test.jsonl",
            "512px-3.png",
            "512px-33.png",
            r"test.jsonl:4: cannot read the image .*512px-33.png",
        ),
        (
            "k-viquae",
            "non_humans.jsonl",
            '"wikipedia_title"',
            '"title"',
            r"non_humans.jsonl:1: .*wikipedia_title",
        ),
        (
            "k-viquae",
            "humans_without_faces.jsonl",
            '"paragraph"',
            '"par"',
            r"humans_without_faces.jsonl:1: text: .*paragraph",
        ),
        (
            "a-okvqa",
            "aokvqa_v1p0_val.json",
            '"correct_choice_idx": 3',
            '"correct_choice_idx": 4',
            r"aokvqa_v1p0_val.json: \[3\]: correct_choice_idx 4 but choices are 0-3",
        ),
        (
            "a-okvqar",
            "aokvqa_v1p0_val.json",
            '"Second cause 2."',
            '""',
            r"\[2\]: rationales\[1\] is empty",
        ),
        ("a-okvqra", "aokvqa_v1p0_val.json", '"rationales"', '"reasons"', r"\[0\]: .*rationales"),
        (
            "imagenetvc",
            "datasets/shape.csv",
            "tench",
            "trench",
            r"shape.csv:2: there is no category 'trench'",
        ),
        ("imagenetvc", "datasets/shape.csv", "square", "", r"shape.csv:4: the answer is empty"),
        (
            "imagenetvc",
            "datasets/color.csv",
            "category",
            "class",
            r"color.csv:1: the column 'category' is missing",
        ),
        (
            "imagenetvc",
            "ImageNet_mapping.txt",
            "n01440764 tench, Tinca tinca",
            "n01440764",
            r"ImageNet_mapping.txt:1: a line must hold",
        ),
        (
            "imagenetvc",
            "ImageNet_mapping.txt",
            "n01484850",
            "n09999999",
            r"csv:3: there is no image in .*n09999999",
        ),
    ],
)
def test_a_broken_file_is_refused_with_file_and_place(
    name: str, file: str, old: str, new: str, fault: str, tmp_path: Path
) -> None:
    source = LAYOUTS[name](tmp_path / "files")
    reform.broken(source / file, old, new)
    reform.refused(name, source, tmp_path, fault)


def test_a_packed_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    source = viquae(tmp_path / "files")
    path = source / "humans_with_faces.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-40])
    reform.refused(
        "k-viquae", source, tmp_path, r"humans_with_faces.jsonl.gz: cannot read the file"
    )


def test_the_three_forms_of_a_okvqa_ask_of_the_same_questions(tmp_path: Path) -> None:
    source = a_okvqa(tmp_path / "files")
    half = Recipe(sample=Sampling("balanced", ratio=0.5), distractors="pool")
    names = ("a-okvqa", "a-okvqra", "a-okvqar")
    ids = {
        name: [sample.id for sample in reform.made(name, source, tmp_path, half).samples()]
        for name in names
    }
    assert ids["a-okvqa"] == ids["a-okvqra"] == ids["a-okvqar"] and len(ids["a-okvqa"]) == 6


def test_a_writer_of_rationales_is_told_the_question_itself(tmp_path: Path) -> None:
    source = entries()["reform-eval/a-okvqar"].source
    read = registry.find_registered("readers", source.reader)
    question = next(read(source.params, a_okvqa(tmp_path / "files"))).rounds[0]
    told, spec = request_text(question, 3), question.distractors
    assert spec and question.question == f"{spec.question} The answer is {spec.rationale}. Why?"
    assert told.splitlines()[1] == f"Question: {spec.question}"
