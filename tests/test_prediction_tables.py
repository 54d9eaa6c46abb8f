"""Tables of predictions of any layout: read by the rules of `build`, whatever holds the rows."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.formats.text_table import write_text_table
from snellen.interchange.predictions.known_names import known_benchmark
from snellen.interchange.predictions.rows import gold_places
from snellen.interchange.predictions.tables import (
    read_predictions,
    recognise_predictions,
    replies_in_cell,
)
from snellen.recognition.answer_types import answer_type
from snellen.runs.run_folder import read_manifest
from snellen.scoring.answers import open_answers

OPTIONS = ("red", "blue", "green")
GOLDS = (1, 0, 2, 1)
REPLIES = ("The answer is B.", "A", "(B) a lamp", "Answer: B")
"""Three of four are right."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(rows: Sequence[Mapping[str, Any]], name: str = "p.jsonl") -> Path:
    path = Path(name)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        write_text_table(
            path, tuple(rows[0]), [{k: str(v) for k, v in row.items()} for row in rows]
        )
    return path


def scored(path: Path, benchmark: str = "") -> dict[str, float | None]:
    results = sn.score(sn.import_run(path, benchmark))
    return {row.metric: row.estimate.value for row in results.rows if not row.slice}


def notes(path: Path) -> str:
    return "; ".join(read_manifest(sn.import_run(path)).notes)


def question(number: int) -> dict[str, Any]:
    return {"id": f"q{number}", "question": f"Which colour is car {number}?"}


LAYOUTS = {
    "columns": lambda options: dict(zip("ABC", options, strict=True)),
    "list": lambda options: {"options": list(options)},
    "choices": lambda options: {"choices": list(options)},
    "python literal": lambda options: {"options": str(list(options))},
    "json text": lambda options: {"options": json.dumps(options)},
    "bars": lambda options: {"options": "|".join(options)},
    "lines": lambda options: {
        "options": "\n".join(f"{m}. {o}" for m, o in zip("ABC", options, strict=True))
    },
    "object": lambda options: {"options": dict(zip("ABC", options, strict=True))},
    "numbered columns": lambda options: {f"option_{n}": o for n, o in enumerate(options, 1)},
    "lettered columns": lambda options: {
        f"choice_{m}": o for m, o in zip("abc", options, strict=True)
    },
    "MMMU": lambda options: {
        "all_choices": ["A", "B", "C"],
        "index2ans": dict(zip("ABC", options, strict=True)),
    },
}
ANSWERS = {
    "letter": lambda place: "ABC"[place],
    "small letter": lambda place: "abc"[place],
    "in brackets": lambda place: f"({'ABC'[place]})",
    "text": lambda place: OPTIONS[place],
    "number from 0": lambda place: place,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reply_name", ["prediction", "response", "model_answer"])
def test_three_of_four_are_right_in_every_layout_of_options(layout: str, reply_name: str) -> None:
    rows = [
        {**question(n), **LAYOUTS[layout](OPTIONS), "answer": "ABC"[gold], reply_name: reply}
        for n, (gold, reply) in enumerate(zip(GOLDS, REPLIES, strict=True))
    ]
    assert scored(saved(rows))["accuracy"] == 0.75


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(LAYOUTS)),
    st.sampled_from(sorted(ANSWERS)),
    st.sampled_from(["question", "query", "Question Text"]),
    st.sampled_from(["answer", "label", "correct_answer", "gt_answer"]),
    st.sampled_from([".jsonl", ".json", ".csv", ".tsv", ".xlsx", ".parquet"]),
)
def test_every_layout_that_build_reads_is_read_alike_by_score(
    tmp_path_factory: pytest.TempPathFactory,
    layout: str,
    answer: str,
    question_name: str,
    answer_name: str,
    suffix: str,
) -> None:
    folder = tmp_path_factory.mktemp("layout")
    rows = [
        {
            "id": f"q{n}",
            question_name: f"Which colour is car {n}?",
            **LAYOUTS[layout](OPTIONS),
            answer_name: ANSWERS[answer](gold),
        }
        for n, gold in enumerate(GOLDS)
    ]
    table = saved(rows, str(folder / f"t{suffix}"))
    predictions = saved([{**row, "reply": "A"} for row in rows], str(folder / f"p{suffix}"))
    built = sn.build(table, to=folder / "built", no_pictures=True)
    [file] = read_predictions(recognise_predictions(predictions))
    read = [(row.id, row.question or row.prompt, row.options, (row.gold, ())) for row in file.rows]
    assert read == questions_of(built)


OPEN_ANSWERS = {
    "yes or no": ["Yes", "no"] * 6,
    "true or false": ["True", "False"] * 6,
    "ja or nein": ["ja", "nein"] * 6,
    "classes": ["left", "right", "under"] * 4,
    "numbers": [str(3 * n) for n in range(12)],
    "boxes": [[n, 2, 30 + n, 40] for n in range(12)],
    "ten annotators": [["red"] * 7 + ["crimson"] * 3] * 12,
    "captions": [[f"a man rides horse {n} on a beach"] * 5 for n in range(12)],
    "texts": [f"the {colour} car" for colour in "red green blue".split()] * 4,
    "lists of texts": [["red", f"crimson {n}"] for n in range(12)],
}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".xlsx", ".parquet"])
@pytest.mark.parametrize("kind", OPEN_ANSWERS)
def test_build_and_score_read_and_compare_open_answers_alike(kind: str, suffix: str) -> None:
    rows = [
        {"id": f"q{n}", "question": f"What of car {n}?", "answer": answer}
        for n, answer in enumerate(OPEN_ANSWERS[kind])
    ]
    table = saved(rows, f"t{suffix}")
    predictions = saved([{**row, "reply": "red"} for row in rows], f"p{suffix}")

    built = sn.build(table, to="built", no_pictures=True)
    taken = Benchmark(sn.import_run(predictions) / "benchmark")

    assert taken.spec.metrics == built.spec.metrics
    assert taken.spec.formulation == built.spec.formulation
    assert questions_of(taken) == questions_of(built)


def questions_of(benchmark: Benchmark) -> list[tuple[object, ...]]:
    """Return the questions of a benchmark with their options and answers."""
    answers = open_answers(benchmark.folder)
    questions: list[tuple[object, ...]] = []
    for sample in benchmark.samples():
        asked = sample.rounds[0]
        answer = answers.get((sample.id, 0))
        golds = (answer.options, answer.texts) if answer else None
        questions.append((sample.id, asked.question, asked.options, golds))
    return questions


def test_options_that_only_the_prompt_lists_are_read() -> None:
    rows = [
        {
            "id": n,
            "prompt": f"Car {n}?\n(a) red (b) blue (c) green",
            "y_true": "abc"[gold],
            "response": reply,
            "y_pred": "a",
        }
        for n, (gold, reply) in enumerate(zip(GOLDS, REPLIES, strict=True))
    ]
    assert scored(saved(rows))["accuracy"] == 0.75


def test_a_prompt_may_list_its_options_in_another_order_and_a_right_answer_be_a_part_of_one() -> (
    None
):
    prompts = [
        "Where is it? Choose one: A :To the left, B: To the right, C: On top, D: Under",
        "Where is it? Choose one: C: On top, D: Under, A: To the left, B: To the right",
        "Where is it? Choose one: A: To the left, B: To the right, C: Above, D: Under",
    ]
    asked = ((0, "A", "Left"), (1, "D", "Under"), (0, "B", "On top"), (2, "C", "On top"))
    rows = [
        {"prompt": prompts[number], "answer": reply, "ground_truth": gold}
        for number, reply, gold in asked
    ]
    path = saved(rows)
    [file] = read_predictions(recognise_predictions(path))
    assert [row.options[1] for row in file.rows] == ["To the right"] * 3
    assert scored(path)["accuracy"] == pytest.approx(2 / 3)
    assert "whose right answer is none of the options in their prompt: 1 (line 4)" in notes(path)


def test_a_right_answer_that_may_be_a_place_is_no_word_of_an_option() -> None:
    options = ("2 cats", "1 cat", "vitamin D")
    assert gold_places("1", options) == gold_places("D", options) == ()
    assert gold_places("vitamin", options) == (2,)


def test_letters_without_options_are_labels_and_hidden_answers_are_none() -> None:
    rows = [
        {
            "idx": n,
            "answer": f"({'ABC'[gold]})",
            "full_prediction": f"({letter}) something\n\nBecause it is so.",
            "prediction": f"({letter})",
        }
        for n, (gold, letter) in enumerate(zip(GOLDS, "BABB", strict=True))
    ]
    hidden = [{"idx": 9, "answer": "hidden", "full_prediction": "A", "prediction": "A"}]
    several = [{"idx": 8, "answer": ["A", "B"], "full_prediction": "A", "prediction": "A"}]
    Path("p.json").write_text(json.dumps({"val": rows + several, "test": hidden}))
    results = sn.score(sn.import_run("p.json"))
    [accuracy] = [
        r.estimate
        for r in results.rows
        if (r.metric, r.slice) == ("accuracy", "") and r.benchmark != "*"
    ]
    assert (accuracy.value, accuracy.n) == (0.75, 4)


# --- containers ----------------------------------------------------------------------------------------------------------


def colours(count: int = 6) -> None:
    rows = [
        {**question(n), **dict(zip("ABC", OPTIONS, strict=True)), "answer": "ABC"[n % 3]}
        for n in range(count)
    ]
    sn.build(saved(rows, "t.jsonl"), to="bench", no_pictures=True)


def right(count: int = 6) -> list[tuple[str, str]]:
    return [(f"q{n}", "ABC"[n % 3]) for n in range(count)]


CONTAINERS: dict[str, Any] = {
    "map": dict(right()),
    "results": {"results": [{"id": i, "prediction": r} for i, r in right()], "acc": 1.0},
    "records by id": {i: {"response": r, "error": ""} for i, r in right()},
    "maps side by side": {
        "acc": 1.0,
        "results": {i: 0 for i, _ in right()},
        "outputs": dict(right()),
    },
    "by column": {"id": [i for i, _ in right()], "prediction": [r for _, r in right()]},
}


@pytest.mark.parametrize(
    "name", ["map", "results", "records by id", "maps side by side", "by column"]
)
def test_containers_of_replies_are_opened(name: str) -> None:
    colours()
    Path("p.json").write_text(json.dumps(CONTAINERS[name]))
    assert scored(Path("p.json"), "./bench")["accuracy"] == 1.0


LINES: dict[str, Any] = {
    "objects beside": lambda i, r: {"id": i, "prediction": r, "usage": {"n": 3}, "tags": ["x"]},
    "chat": lambda i, r: {
        "id": i,
        "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": r}],
    },
    "parts": lambda i, r: {"id": i, "response": [{"type": "text", "text": r}]},
    "list of one": lambda i, r: {"id": i, "resps": [[r]]},
    "batch": lambda i, r: {
        "custom_id": i,
        "response": {
            "status_code": 200,
            "body": {"model": "gpt", "choices": [{"message": {"role": "assistant", "content": r}}]},
        },
    },
}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_replies_are_opened(name: str) -> None:
    colours()
    path = saved([LINES[name](i, r) for i, r in right()])
    assert scored(path, "./bench")["accuracy"] == 1.0


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "gb18030"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_encodings_and_delimiters_are_those_of_build(encoding: str, delimiter: str) -> None:
    colours()
    lines = [delimiter.join(("id", "prediction"))]
    lines += [delimiter.join((i, f"答案是{r}。")) for i, r in right()]
    Path("p.csv").write_text("\n".join(lines) + "\n", encoding)
    assert scored(Path("p.csv"), "./bench")["accuracy"] == 1.0


def test_packed_lines_are_read_and_the_model_is_called_by_the_file() -> None:
    colours()
    lines = "".join(json.dumps({"id": i, "prediction": r}) + "\n" for i, r in right())
    Path("mine.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    run = sn.import_run("mine.jsonl.gz", "./bench")
    assert read_manifest(run).model == "mine"


def test_results_of_coco_are_captions_of_images() -> None:
    rows = [{"image_id": 10 + n, "caption": "a red car"} for n in range(3)]
    [file] = read_predictions(recognise_predictions(saved(rows, "r.json"), is_gold_known=True))
    assert [(row.picture, row.reply) for row in file.rows] == [
        (str(10 + n), "a red car") for n in range(3)
    ]


def test_results_of_coco_are_joined_by_the_numbers_of_images() -> None:
    rows = [
        {"image": f"COCO_val2014_{n:012d}.png", "question": "What is shown?", "answer": f"a {n}"}
        for n in (42, 7, 310196)
    ]
    for row in rows:
        Path(row["image"]).write_bytes(small.picture(len(row["answer"])))
    sn.build(saved(rows, "t.jsonl"), to="bench")
    said = [{"image_id": n, "caption": f"a {n}"} for n in (7, 42, 310196)]
    assert scored(saved(said, "r.json"), "./bench")["exact_match"] == 1.0


def test_the_replies_in_a_cell() -> None:
    assert replies_in_cell("x") == ("x",)
    assert replies_in_cell(None) == replies_in_cell([]) == ()
    assert replies_in_cell([["a"], ["b"]]) == ("a", "b")
    assert replies_in_cell([{"message": {"content": "a"}}]) == ("a",)
    assert replies_in_cell(
        [{"type": "reasoning", "text": "no"}, {"type": "text", "text": "a"}]
    ) == ("a",)


# --- rows that cannot be used ----------------------------------------------------------------------------------------------


def table_of(row: Mapping[str, str]) -> list[dict[str, str]]:
    rows = [
        {
            "index": str(n),
            "question": f"What is in picture {n}?",
            **dict(zip("ABCD", ("cup", "hat", "car", "tree"), strict=True)),
            "answer": "ABCD"[n % 4],
            "prediction": "ABCD"[n % 4] if n != 3 else "A",
        }
        for n in range(8)
    ]
    return [*rows, {"index": "8", "question": "How many?", **row}]


@pytest.mark.parametrize(
    ("row", "accuracy", "note"),
    [
        ({"B": "1", "C": "2", "D": "3", "answer": "C", "prediction": "C"}, 8 / 9, ""),
        ({"A": "1", "C": "2", "D": "3", "answer": "C", "prediction": "C"}, 8 / 9, ""),
        (
            {"A": "red", "B": "red", "C": "blue", "answer": "C", "prediction": "C"},
            8 / 9,
            "",
        ),
        ({"A": "up", "B": "down", "answer": "up", "prediction": "A"}, 8 / 9, ""),
        (
            {"A": "1", "B": "2", "answer": "D", "prediction": "A"},
            7 / 8,
            "rows left out, whose right answer is none of their options: 1 (8)",
        ),
        (
            {"A": "red", "answer": "A", "prediction": "A"},
            7 / 8,
            "rows left out, with a single option: 1 (8)",
        ),
    ],
)
@pytest.mark.parametrize("name", ["m.xlsx", "m.tsv", "m.jsonl"])
def test_a_row_that_cannot_be_used_never_takes_the_file_with_it(
    name: str, row: Mapping[str, str], accuracy: float, note: str
) -> None:
    rows = table_of(row)
    path = Path(name)
    write_text_table(path, tuple(rows[0]), rows)
    assert scored(path)["accuracy"] == pytest.approx(accuracy)
    assert note in notes(path)


def test_columns_of_a_toolkits_verdicts_are_no_fault() -> None:
    rows = [{**row, "hit": "1", "log": "Match"} for row in table_of({"A": "1", "B": "2"})[:8]]
    write_text_table(Path("m_openai_result.xlsx"), tuple(rows[0]), rows)
    assert scored(Path("m_openai_result.xlsx"))["accuracy"] == 7 / 8


def test_an_id_that_repeats_with_other_questions_is_the_images() -> None:
    rows = [
        {"question_id": n % 2, "question": f"Is it {n}?", "answer": "yes", "prediction": "Yes."}
        for n in range(6)
    ]
    path = saved(rows)
    assert scored(path)["pope_accuracy"] == 1.0
    assert "ids that several questions have" in notes(path)


def test_a_file_without_replies_or_answers_says_the_next_command() -> None:
    with pytest.raises(sn.DataError, match=r"name it: snellen score p.jsonl --column reply=NAME$"):
        sn.import_run(saved([{"id": 1, "question": "What?", "gpt": "A", "llava": "B"}] * 2))
    with pytest.raises(sn.DataError, match=r"or build the questions: snellen build p\.jsonl$"):
        sn.import_run(saved([{"id": 1, "image": "a.png", "text": "Is it?", "label": "yes"}] * 2))
    with pytest.raises(sn.DataError, match=r"snellen score x_POPE.json --benchmark modern/pope$"):
        sn.import_run(saved([{"id": n, "prediction": "yes"} for n in range(3)], "x_POPE.json"))


# --- the type of the questions ------------------------------------------------------------------------------------------------


def test_golds_of_yes_and_no_are_scored_by_popes_accuracy() -> None:
    said = ("Yes, there is a cup.", "No, there is no dog.", "Yes.", "no")
    rows = [
        {**question(n), "answer": ("Yes", "No")[n % 2], "prediction": text}
        for n, text in enumerate(said)
    ]
    path = saved(rows)
    values = scored(path)
    assert values["pope_accuracy"] == 1.0 and "exact_match" not in values
    assert "read as yes or no: pope" in notes(path)


def test_what_programs_gave_is_read_in_their_place() -> None:
    """As MathVista's files have it: `response` is the program, `execution` what it printed."""
    rows = [
        {
            **question(n),
            "answer": str(n),
            "response": f"x = {n}\nprint(x + 1)",
            "execution": str(n),
            "extraction": str(n),
        }
        for n in range(6)
    ]
    path = saved(rows)
    assert scored(path)["number_accuracy"] == 1.0
    assert "are programs, so what they gave is read, in 'extraction'" in notes(path)


PROGRAMS = ("x = 3\ny = x + 1\nprint(y)", "def solution():\n    return 4\n")


def test_programs_without_their_results_are_refused() -> None:
    rows = [{**question(n), "answer": "4", "generated": PROGRAMS[n % 2]} for n in range(4)]
    with pytest.raises(
        sn.DataError, match=r"programs.*snellen score p\.jsonl --column reply=NAME$"
    ):
        sn.import_run(saved(rows))


def test_the_results_of_programs_are_read_in_another_column_of_predictions() -> None:
    options = ["A)3", "B)4", "C)5"]
    rows = [
        {
            **question(n),
            "options": options,
            "answer": "B",
            "generated": PROGRAMS[n % 2],
            "generated_prediction": "4",
            "prediction": "ABBB"[n],
        }
        for n in range(4)
    ]
    path = saved(rows)
    assert scored(path)["accuracy"] == 0.75
    assert "in 'generated' are programs, so what they gave is read, in 'prediction'" in notes(path)


def test_long_right_answers_are_compared_by_rouge() -> None:
    gold = "To solve a linear equation, isolate the variable on one side by doing the same on both sides of it"
    rows = [{**question(n), "answer": f"{gold} ({n})", "prediction": gold} for n in range(4)]
    path = saved(rows)
    assert read_manifest(sn.import_run(path)).notes.count("read as long texts: rouge_l") == 1
    assert 0.9 < (scored(path)["rouge_l"] or 0) < 1


@pytest.mark.parametrize("name", ["p.json", "p.jsonl"])
def test_objects_with_indents_that_follow_each_other_are_rows(name: str) -> None:
    rows = [
        {**question(n), "options": OPTIONS, "answer": "ABC"[gold], "prediction": reply}
        for n, (gold, reply) in enumerate(zip(GOLDS, REPLIES, strict=True))
    ]
    Path(name).write_text("".join(json.dumps(row, indent=2) + "\n" for row in rows))
    assert scored(Path(name))["accuracy"] == 0.75


def test_prompts_that_replies_repeat_are_left_out() -> None:
    rows = []
    for n in range(6):
        prompt = f"Which of these is in image number {n}?\nA. a cup\nB. a hat\nAnswer:"
        rows.append({"question": prompt, "answer": "B", "response": f"user\n{prompt} B"})
    path = saved(rows)
    assert scored(path)["accuracy"] == 1.0
    assert "the replies repeat their prompts" in notes(path)


def test_records_beside_facts_about_all_of_them() -> None:
    rows = {str(n): {"answer": "a cup", "output": "a cup"} for n in range(4)}
    content = {"acc": 12.5, "count": 4, "args": {"shots": 2, "seed": 3}, "results": rows}
    path = Path("p.json")
    path.write_text(json.dumps(content))
    assert scored(path)["typed_match"] == 1.0


def test_right_answers_that_are_called_correct() -> None:
    """As in TheoremQA's files, beside a solution; usually such a column says whether a reply is right."""
    rows = [
        {"question": f"{n} + 1?", "correct": [f"{n + 1}"], "solution": "It is.", "pred": f"{n + 1}"}
        for n in range(5)
    ]
    assert scored(saved(rows))["number_accuracy"] == 1.0


def test_right_answers_whose_name_begins_with_gt() -> None:
    rows = [
        {"image_id": n, "gt_gender": ["male", "female"][n % 2], "pred": "male"} for n in range(12)
    ]
    assert scored(saved(rows))["accuracy"] == 0.5


def test_fields_of_one_name_may_all_be_the_reply() -> None:
    rows = [
        {"gold": "AB"[n % 2], "early": {"0.0": {"pred": "A"}, "1.0": {"pred": "AB"[n % 2]}}}
        for n in range(8)
    ]
    path = saved(rows)
    assert scored(path)["accuracy"] == 0.5
    assert "--column reply=early.1.0.pred takes another" in notes(path)


def test_a_files_own_verdicts_stand_in_a_note() -> None:
    rows = [
        {**question(n), "answer": "a cup", "response": "a hat", "correct": n < 3} for n in range(4)
    ]
    assert "the file's own verdicts, in 'correct': 75.0% of 4 right" in notes(saved(rows))


def test_a_pipe_is_called_one() -> None:
    os.mkfifo("p.jsonl")
    with pytest.raises(sn.DataError, match=r"p\.jsonl: it is a pipe, not a file"):
        sn.import_run("p.jsonl")


def test_the_type_of_answers() -> None:
    ten = ("red", "red", "dark red", *["red"] * 7)
    assert answer_type([ten] * 3).metrics[0] == "vqa_accuracy"
    assert answer_type([("3",), ("1,200",), ("-2.5",)]).metrics[0] == "number_accuracy"
    assert answer_type([("[1, 2, 3, 4]",), ("(0.1, 0.2, 0.3, 0.4)",)]).kind == "box"
    captions = ["a man rides a brown horse"] * 5
    assert answer_type([captions] * 3).kind == "caption"
    assert answer_type([("left",), ("right",)] * 6).classes == ("left", "right")
    assert answer_type([("True",), ("false",)]).classes == ("True", "false")
    assert answer_type([("yes",), ("No",)]).metrics[0] == "pope"
    assert answer_type([("a cup",), ("a hat",), ("a car",)]).kind == "text"
    assert answer_type([("yes",), ("no",), ("a cup",)]).kind == "text"


@pytest.mark.parametrize(
    ("title", "name", "model"),
    [
        ("vila_13b_POPE", "modern/pope", "vila_13b"),
        ("vila_13b_MMMU_DEV_VAL", "modern/mmmu", "vila_13b"),
        ("gpt4o_SEEDBench_IMG", "modern/seed-bench", "gpt4o"),
        ("m_RealWorldQA_openai_result", "modern/realworldqa", "m"),
        ("m_MMBench_DEV_EN", "mmbench/dev-en", "m"),
        ("m_ChartQA_TEST", "modern/chartqa", "m"),
        ("m_TextVQA_VAL", "modern/textvqa", "m"),
        ("m_OCRBench", "modern/ocrbench", "m"),
        ("m_MMStar", "modern/mmstar", "m"),
        ("m_MME", "modern/mme", "m"),
    ],
)
def test_names_of_other_harnesses_are_known(title: str, name: str, model: str) -> None:
    known = known_benchmark(title)
    assert known is not None and (known.spec.name, known.model) == (name, model)


@pytest.mark.parametrize("title", ["llava_count", "output", "results_gpt4o_done", "Counting"])
def test_ordinary_words_are_no_names_of_benchmarks(title: str) -> None:
    assert known_benchmark(title) is None


def test_a_known_name_brings_its_metrics() -> None:
    rows = [
        {
            "index": n,
            "question": f"Is there a {n}?",
            "answer": "yes",
            "prediction": "Yes, there is.",
        }
        for n in range(4)
    ]
    path = saved(rows, "vila_13b_POPE.jsonl")
    values = scored(path)
    assert values["pope_accuracy"] == 1.0
    assert read_manifest(sn.import_run(path)).model == "vila_13b"


@pytest.mark.parametrize(
    ("metric", "lacks"),
    [
        ("mme", "it needs a column category with existence"),
        ("ocrbench", "it needs a column category with Regular Text Recognition"),
        ("vqa_accuracy", "the metric needs at least 4 (VQA has 10)"),
        ("boxes", "is not a box of four numbers"),
    ],
)
def test_a_metric_without_a_value_says_what_it_lacks(
    metric: str, lacks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**question(n), "answer": "a cup", "prediction": "cup"} for n in range(3)]
    code, out, err = small.command(capsys, "score", str(saved(rows)), "--metric", metric)
    assert code == 0, err
    assert lacks in " ".join(out.split())


def test_boxes_are_told_from_answers_of_annotators() -> None:
    rows = [
        {**question(n), "answer": [1, 2, 30, 40 + n], "prediction": f"[1, 2, 30, {40 + n}]"}
        for n in range(3)
    ]
    assert scored(saved(rows))["box_accuracy"] == 1.0


def test_questions_in_a_list_of_their_record_and_talks_in_turn_are_opened() -> None:
    record = {
        "qa": [{"question": "Is it?", "answer": "Yes", "prediction": "Yes."}] * 2,
        "questions": [{"question": "Is it?", "answer": "Yes"}] * 2,
    }
    Path("p.json").write_text(
        json.dumps({"a": {"one": {"id": "1", **record}}, "b": {"two": {"id": "2", **record}}})
    )
    assert scored(Path("p.json"))["pope_accuracy"] == 1.0
    rows = [
        {"id": n, "answer": "B", "choices": ["x", "y"], "messages": ["Which?", "(B) y</s>"]}
        for n in range(3)
    ]
    assert scored(saved(rows))["accuracy"] == 1.0


# --- several models -----------------------------------------------------------------------------------------------------------


def model_rows(right: int) -> list[dict[str, Any]]:
    return [
        {
            **question(n),
            "answer": "AB"[n % 2],
            "A": "x",
            "B": "y",
            "prediction": "AB"[n % 2] if n < right else "C",
        }
        for n in range(8)
    ]


def test_files_of_several_models_are_runs_of_one_benchmark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved(model_rows(8), "gpt_cars.jsonl")
    saved(list(reversed(model_rows(4)))[1:], "llava_cars.jsonl")
    code, out, err = small.command(capsys, "score", "gpt_cars.jsonl", "llava_cars.jsonl", "--json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    found = {
        (row["model"], row["benchmark"]): row["value"]
        for row in rows
        if row["metric"] == "accuracy" and row["benchmark"] != "*" and not row.get("slice")
    }
    assert found == {("gpt", "cars"): 1.0, ("llava", "cars"): 0.5}


def test_a_column_of_models_and_columns_of_models_are_several_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{**row, "model": m} for m in ("one", "two") for row in model_rows(8)]
    saved(rows, "all.jsonl")
    code, out, err = small.command(capsys, "score", "all.jsonl", "--json")
    assert code == 0 and {json.loads(line)["model"] for line in out.splitlines()} == {
        "one",
        "two",
    }, err

    wide = [
        {**{k: v for k, v in row.items() if k != "prediction"}, "gpt": "A", "llava": "B"}
        for row in model_rows(8)
    ]
    saved(wide, "wide.jsonl")
    flags = ("--column", "reply=gpt", "--column", "reply=llava")
    code, out, err = small.command(capsys, "score", "wide.jsonl", *flags, "--json")
    assert code == 0, err
    values = {
        json.loads(line)["model"]: json.loads(line)["value"]
        for line in out.splitlines()
        if json.loads(line)["metric"] == "accuracy"
    }
    assert values == {"gpt": 0.5, "llava": 0.5}


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_published_scores_are_shown_next_to_the_runs(
    layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(model_rows(4), "mine_POPE.jsonl")
    long = [
        {"Model": "GPT", "Benchmark": "POPE", "Score": "88.1%"},
        {"Model": "Small", "Benchmark": "POPE", "Score": "41"},
        {"Model": "Small", "Benchmark": "MMStar", "Score": "30"},
    ]
    wide = [{"method": "GPT", "POPE": "88.1"}, {"method": "Small", "POPE": "41", "MMStar": "30"}]
    write = {"long": long, "wide": wide}[layout]
    columns = tuple(dict.fromkeys(name for row in write for name in row))
    write_text_table(Path("board.csv"), columns, write)
    code, out, err = small.command(capsys, "score", "mine_POPE.jsonl", "--published", "board.csv")
    assert code == 0, err
    lines = [" ".join(line.split()) for line in out.splitlines()]
    places = [
        next(place for place, line in enumerate(lines) if f" {name} " in f" {line} ")
        for name in ("GPT 88.10", "(run)", "Small 41.00")
    ]
    assert places == sorted(places)
    assert "Not of these runs: MMStar." in out
