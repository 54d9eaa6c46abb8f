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
from snellen.errors import DataError
from snellen.formats.inspect_log import log_rows
from snellen.formats.text_table import write_text_table
from snellen.interchange.predictions.cells import replies_in_cell
from snellen.interchange.predictions.known_names import known_benchmark
from snellen.interchange.predictions.shown_options import places_by_exclusion
from snellen.interchange.predictions.tables import (
    read_predictions,
    recognise_predictions,
)
from snellen.recognition.answer_types import answer_type
from snellen.recognition.named_option import named_option
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
    built = sn.build(table, to=folder / "built", no_images=True)
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
    # Replies that name none of two options are refused.
    reply = OPEN_ANSWERS[kind][0] if kind in ("true or false", "ja or nein") else "red"
    predictions = saved([{**row, "reply": reply} for row in rows], f"p{suffix}")

    built = sn.build(table, to="built", no_images=True)
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
    assert named_option("1", options, in_words=True) is None
    assert named_option("D", options, in_words=True) is None
    assert named_option("vitamin", options, in_words=True) == 2


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


def test_unknown_beside_other_answers_is_an_answer() -> None:
    golds = ("Paris", "Unknown", "Rome", "Unknown")
    replies = ("Paris", "Unknown", "Oslo", "Rome")
    rows = [
        {"question": f"Where is {n}?", "answer": gold, "response": reply}
        for n, (gold, reply) in enumerate(zip(golds, replies, strict=True))
    ]
    assert scored(saved(rows, "places.jsonl"))["typed_match"] == 0.5


def test_numbered_options_in_the_question_are_labels_although_there_is_a_prompt() -> None:
    rows = [
        {
            "question": f"Which of these, {n}?\nOption 1: cat\nOption 2: dog",
            "prompt": f"Look at image {n}.",
            "answer": "12"[n % 2],
            "response": "Option 1",
        }
        for n in range(4)
    ]
    [file] = read_predictions(recognise_predictions(saved(rows, "numbered.jsonl")))
    assert {row.labels for row in file.rows} == {("1", "2")}


# --- containers ----------------------------------------------------------------------------------------------------------


def colours(count: int = 6) -> None:
    rows = [
        {**question(n), **dict(zip("ABC", OPTIONS, strict=True)), "answer": "ABC"[n % 3]}
        for n in range(count)
    ]
    sn.build(saved(rows, "t.jsonl"), to="bench", no_images=True)


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
    with pytest.raises(
        sn.DataError, match=r"name it: sn.import_run\('p.jsonl', columns={'reply': 'NAME'}\)$"
    ):
        sn.import_run(saved([{"id": 1, "question": "What?", "gpt": "A", "llava": "B"}] * 2))
    with pytest.raises(sn.DataError, match=r"or build the questions: sn.build\('p\.jsonl'\)$"):
        sn.import_run(saved([{"id": 1, "image": "a.png", "text": "Is it?", "label": "yes"}] * 2))
    with pytest.raises(
        sn.DataError, match=r"sn.import_run\('x_POPE.json', benchmark='modern/pope'\);"
    ):
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
        sn.DataError, match=r"programs.*sn.import_run\('p\.jsonl', columns={'reply': 'NAME'}\)$"
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


SOLUTION = "Half of the {} apples are red, and of the red ones Ann eats 2, so that {} red apples are left for the pie."


@pytest.mark.parametrize("ending", ["\n#### {}", " So the answer is $\\boxed{{{}}}$."])
def test_the_right_answer_of_a_worked_solution_is_what_it_ends_in(ending: str) -> None:
    rows = [
        {
            **question(n),
            "answer": SOLUTION.format(2 * n + 4, n) + ending.format(f"1,00{n}"),
            "prediction": f"Ann eats {n} of them. So the answer is 100{n % 3}.",
        }
        for n in range(4)
    ]
    path = saved(rows)
    assert scored(path)["number_accuracy"] == 0.75
    assert "read as numbers: number_accuracy" in notes(path)


def test_json_objects_are_no_long_texts() -> None:
    objects = [json.dumps({f"field {k}": f"value {k + n}" for k in range(12)}) for n in range(4)]
    assert answer_type([(text,) for text in objects]).kind == "text"


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
    assert "columns={'reply': 'early.1.0.pred'} takes another" in notes(path)


def test_a_files_own_verdicts_stand_in_a_note() -> None:
    rows = [
        {**question(n), "answer": "a cup", "response": "a hat", "correct": n < 3} for n in range(4)
    ]
    assert "the file's own verdicts, in 'correct': 75.0% of 4 right" in notes(saved(rows))


def test_objects_without_a_reply_are_no_replies_and_what_was_parsed_of_one_is_no_right_answer() -> (
    None
):
    rows = [
        {
            "sample_id": f"s{n}",
            "raw_model_response": [{"dm": 673.2, "prob": 0.9}],
            "parsed_response": {"label": "star" if n % 2 else "noise"},
            "predicted_label": "star" if n % 2 else "noise",
            "true_label": "star" if n % 4 else "noise",
        }
        for n in range(24)
    ]
    assert scored(saved(rows))["accuracy"] == 0.75


def test_answers_that_were_read_in_the_replies_are_not_right_answers() -> None:
    rows = [
        {
            **question(n),
            "answer": "red",
            "raw_response": json.dumps({"answer": "red", "why": "it is"}),
        }
        for n in range(4)
    ]
    with pytest.raises(sn.DataError, match="'answer' is what the replies say"):
        sn.import_run(saved(rows))


@pytest.mark.parametrize("models", ["Model", "models", "method"])
def test_a_table_of_scores_is_shown_beside_a_run(models: str) -> None:
    rows = [{models: name, "Text": "93.5%", "Image": "N/A", "Gap": 21.2} for name in "ab"]
    with pytest.raises(
        sn.DataError, match=r"show them beside a run: `snellen score RUN --published p\.csv`"
    ):
        sn.import_run(saved(rows, "p.csv"))


def test_options_called_sentences_or_numbered_are_read() -> None:
    """As in caption matching of TempCompass."""
    texts = ("A man dunks a ball.", "A man passes a ball.")
    rows = [
        {
            "question": _listed("Sentence A", "Sentence B", texts),
            "answer": f"Sentence A: {texts[0]}",
            "prediction": "Sentence A.",
        },
        {
            "question": _listed("Option 1", "Option 2", texts),
            "answer": f"Option 2: {texts[1]}",
            "prediction": "Option 2",
        },
        {
            "question": _listed("Option 1", "Option 2", texts),
            "answer": f"Option 2: {texts[1]}",
            "prediction": "Option 1",
        },
        {
            "question": _listed("Caption A", "Caption B", texts),
            "answer": f"Caption B: {texts[1]}",
            "prediction": texts[1],
        },
    ]
    assert scored(saved(rows))["accuracy"] == 0.75


def _listed(first: str, second: str, texts: Sequence[str]) -> str:
    return f"Which fits the video?\n{first}: {texts[0]}\n{second}: {texts[1]}"


def test_questions_of_yes_or_no_have_the_level_of_guessing() -> None:
    rows = [{**question(n), "answer": "yes", "prediction": "Yes, it is."} for n in range(12)]
    results = sn.score(sn.import_run(saved(rows)))
    report = results.report(Path("report.md")).read_text("utf-8")
    assert "significantly above chance (50.0%)" in report


def test_codes_for_classes_are_read_as_the_file_says() -> None:
    rows = [
        {
            "id": n,
            "expected": "FAIL" if n % 2 else "PASS",
            "result": "PASS" if n % 4 else "FAIL",
            "raw_response": "A" if n % 4 else "B",
        }
        for n in range(24)
    ]
    path = saved(rows)
    assert scored(path)["accuracy"] == 0.25
    assert "what the file says was read in it counts" in notes(path)


def test_objects_with_commas_between_lines_are_rows_and_a_few_contradictions_do_not_take_the_file() -> (
    None
):
    rows = [
        {"question_id": f"{n}", "prediction": "A", "gt_answer": "AB"[n % 2]} for n in range(200)
    ]
    rows.append({"question_id": "1", "prediction": "B", "gt_answer": "B"})
    Path("p.json").write_text(",\n".join(map(json.dumps, rows)))
    assert scored(Path("p.json"))["accuracy"] == 0.5
    assert "of which the first counts: 1 (1)" in notes(Path("p.json"))


def test_a_pipe_is_called_one() -> None:
    os.mkfifo("p.jsonl")
    with pytest.raises(sn.DataError, match=r"p\.jsonl: it is a pipe, not a file"):
        sn.import_run("p.jsonl")


def test_the_type_of_answers() -> None:
    ten = ("red", "red", "dark red", *["red"] * 7)
    assert answer_type([ten] * 3).metrics[0] == "vqa_accuracy"
    assert answer_type([("3",), ("1,200",), ("-2.5",)]).metrics[0] == "number_accuracy"
    assert answer_type([("2\\sqrt{3}",), ("y=2x",), ("12",)]).metrics[0] == "math_accuracy"
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
        ("m_DocumentVQA_validation_seed42", "modern/docvqa", "m"),
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
    assert "Not in these runs: MMStar." in out


@pytest.mark.parametrize(
    ("sample", "fault"),
    [
        ({"output": {"choices": [{"message": {}}]}}, ""),
        ({"output": {"choices": [{"message": {"content": [{"type": "text"}, "B"]}}]}}, ""),
        ({"input": [{"role": "user"}]}, ""),
        ({"output": {"choices": ["x"]}}, "not a sample of Inspect"),
        ({"output": {"choices": {"a": 1}}}, "not a sample of Inspect"),
        ({"input": ["a"]}, "not a sample of Inspect"),
        ({"input": "attachment://x", "attachments": [1]}, "not a sample of Inspect"),
    ],
)
def test_an_odd_sample_of_inspect_counts_as_no_reply_or_is_named(
    sample: dict[str, Any], fault: str, tmp_path: Path
) -> None:
    reply = {"choices": [{"message": {"content": "ANSWER: B"}}]}
    whole = {"input": "Which?", "choices": ["cat", "dog"], "target": "B", "output": reply}
    samples = [{**whole, "id": 1, "epoch": 1}, {**whole, "id": 2, "epoch": 1, **sample}]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"eval": {"task": "t", "model": "m"}, "samples": samples}))

    if fault:
        with pytest.raises(DataError, match=f"sample 2: {fault}"):
            list(log_rows(path))
    else:
        assert len(list(log_rows(path))) == 2


# --- kinds of files that somebody published --------------------------------------------------------------------------


def test_an_answer_called_otherwise_than_its_option_is_found_by_exclusion() -> None:
    prompt = "Where is cat {}? A: To the left, B: To the right, C: Above, D: Underneath"
    golds = ("Left", "Right", "On top", "Under")
    rows = [
        {"prompt": prompt.format(n), "ground_truth": golds[n % 4], "answer": "ABCA"[n % 4]}
        for n in range(8)
    ]
    path = saved(rows, "prompts.jsonl")
    assert scored(path)["accuracy"] == 0.75
    assert "'On top' is taken for the option 'Above'" in notes(path)


def test_an_answer_is_not_guessed_where_two_options_remain() -> None:
    options = ("Left", "Right", "Above", "Below")
    answers = [(options, answer) for answer in ("left", "right", "on top", "beneath")]
    assert places_by_exclusion(answers) == {}


@pytest.mark.parametrize("answer", ["D", "4", "N/A", "?", "-", "unanswerable", "None of the above"])
def test_an_answer_that_may_be_none_of_the_options_is_not_placed(answer: str) -> None:
    options = ("Left", "Right", "Above")
    answers = [(options, each) for each in ("left", "right", answer)]
    assert places_by_exclusion(answers) == {}


@pytest.mark.parametrize(
    "words",
    [
        "It looks shiny, so the answer is {}.",
        "It is shiny.\n\nAnswer: ({})",
        "It must be ({}), as it is shiny.",
        "It is shiny, so $\\boxed{{{}}}$ fits.",
    ],
)
def test_replies_that_state_labels_late_were_shown_the_options_of_the_file(words: str) -> None:
    rows = [
        {
            "input": f"What is object {n} like?",
            "options": ["red thing", "blue thing", "green thing"],
            "target": "ABC"[n % 3],
            "output": words.format("ABA"[n % 3]),
        }
        for n in range(6)
    ]
    assert scored(saved(rows, "late.json"))["accuracy"] == pytest.approx(2 / 3)


def test_of_options_that_prompts_do_not_show_the_readings_of_the_file_count() -> None:
    rows = [
        {
            "choices": ["black", "draw", "white"],
            "input_prompt": f"Who wins game {n}?",
            "model_response": "White wins, as the black king is in check.",
            "parsed_prediction": "white",
            "ground_truth": "white" if n else "black",
        }
        for n in range(4)
    ]
    path = saved(rows, "chess.jsonl")
    assert scored(path)["accuracy"] == 0.75
    assert "the prompts do not show the options" in notes(path)


def test_captions_to_be_written_are_texts_for_a_judge_although_prompts_list_facts() -> None:
    prompt = (
        "One fact fits video {}.\nInformation A: a man dunks\nInformation B: a man runs\nCaption:"
    )
    rows = [
        {
            "question": prompt.format(n),
            "answer": "AB"[n % 2] + ". a man " + ("dunks", "runs")[n % 2],
            "prediction": "Somebody is seen near a hoop.",
        }
        for n in range(6)
    ]
    assert "read as long texts: rouge_l" in notes(saved(rows, "captions.jsonl"))


def test_a_record_with_an_empty_list_of_questions_asks_nothing() -> None:
    pair = {"question": "How many?", "answer": "2", "pred": "2"}
    records = [{"id": "a", "pairs": [pair]}, {"id": "b", "pairs": []}, {"id": "c", "pairs": [pair]}]
    table = recognise_predictions(saved(records, "pairs.jsonl"))
    assert [row.cells["id"] for row in table.rows] == ["a/0", "c/0"]


def test_fields_of_a_form_are_questions_with_replies_of_their_own() -> None:
    records = [
        {
            "case": str(n),
            "fields": [
                {"field": "name", "truth": f"Ann {n}", "predicted": f"Ann {n}"},
                {"field": "town", "truth": "Rome", "predicted": "Oslo"},
            ],
            "raw_output": "{...}",
        }
        for n in range(3)
    ]
    assert scored(saved(records, "forms.jsonl"))["typed_match"] == 0.5


def test_parts_with_lists_beside_settings_are_models() -> None:
    def part(model: str, reply: str) -> dict[str, Any]:
        rows = [
            {
                "question_id": n,
                "question": f"Which {n}?",
                "model_answer": reply,
                "ground_truth": "cat",
            }
            for n in range(3)
        ]
        return {"model_id": model, "accuracy": 0.5, "question_results": rows}

    content = {
        "settings": {"device": "cpu", "memory": "16GB", "version": "2", "seed": 1},
        "results": {"one": part("one", "cat"), "two": part("two", "dog")},
    }
    Path("models.json").write_text(json.dumps(content))
    files = read_predictions(recognise_predictions(Path("models.json")))
    assert {file.model: len(file.rows) for file in files} == {"one": 3, "two": 3}


def helm_state(number: int, letter: str, **further: Any) -> dict[str, Any]:
    texts = ["red", "blue"]
    references = [
        {"output": {"text": text}, "tags": ["correct"] if text == "blue" else []} for text in texts
    ]
    instance = {
        "input": {"text": f"Which {number}?"},
        "references": references,
        "id": f"id{number}",
    }
    return {
        "instance": instance,
        "train_trial_index": 0,
        **further,
        "output_mapping": dict(zip("AB", texts, strict=True)),
        "request": {"model": "acme/one", "prompt": "..."},
        "result": {"completions": [{"text": letter, "logprob": 0.0, "tokens": []}]},
    }


def saved_helm(*states: Mapping[str, Any]) -> Path:
    content = {"adapter_spec": {"method": "x"}, "request_states": states}
    Path("state.json").write_text(json.dumps(content))
    return Path("state.json")


def test_a_scenario_state_of_helm_is_a_choice_of_its_output_mapping() -> None:
    path = saved_helm(helm_state(1, "B"), helm_state(2, "A"))
    assert scored(path)["accuracy"] == 0.5


def test_perturbed_copies_in_a_scenario_state_of_helm_are_left_out_and_counted() -> None:
    perturbed = helm_state(1, "A")
    perturbed["instance"]["perturbation"] = {"name": "typos"}
    path = saved_helm(helm_state(1, "B"), helm_state(2, "A"), perturbed)
    assert scored(path)["accuracy"] == 0.5
    assert "perturbed copies of questions, left out as in HELM's own accuracy: 1" in notes(path)


def test_a_scenario_state_of_helm_with_an_option_in_each_request_is_refused_with_the_reason() -> (
    None
):
    states = [helm_state(1, "", reference_index=place) for place in range(2)]
    with pytest.raises(DataError, match="each option in a request of its own"):
        scored(saved_helm(*states))


def test_a_files_own_verdicts_on_texts_are_the_headline() -> None:
    def rows(column: str) -> list[dict[str, Any]]:
        return [
            {
                "question": f"Why {n}?",
                "answer": f"Since {n}.",
                "prediction": f"So {n}.",
                column: n / 4,
            }
            for n in range(4)
        ]

    judged = saved(rows("judge_score"), "judged.jsonl")
    assert "recorded_verdict" in scored(judged)
    assert sn.score(judged).value() == pytest.approx(0.375)
    assert "no rule can tell which of such replies its authors call right" in notes(judged)

    by_rule = saved(rows("score"), "by_rule.jsonl")
    assert sn.score(by_rule).value() == pytest.approx(0.375)
    assert scored(by_rule)["typed_match"] == 0.0


def test_numbers_that_no_prompt_shows_are_no_options() -> None:
    rows = [
        {
            "input_prompt": f"What is the maximum flow of network {n}? Reason step by step.",
            "choices": [str(flow) for flow in range(1, 20)],
            "label": n + 10,
            "model_response": f"Capacity matrix (C): 3 of 7.\n\nThe maximum flow is {n + 10}.",
        }
        for n in range(4)
    ]
    path = saved(rows, "flows.json")
    assert scored(path)["number_accuracy"] == 1.0
    assert "numbers that the prompts do not show" in notes(path)


@pytest.mark.parametrize(
    "reply", ["The answer is ({}).", "{}", "{}. It is clear.", "\\boxed{{{}}}"]
)
def test_labels_as_replies_show_that_options_which_are_numbers_were_shown(reply: str) -> None:
    rows = [
        {
            "prompt": f"How many cats are in image {n}?",
            **{letter: str(n + place) for place, letter in enumerate("ABCD")},
            "answer": "ABCD"[n % 4],
            "prediction": reply.format("ABCD"[n % 2]),
        }
        for n in range(8)
    ]
    assert scored(saved(rows))["accuracy"] == 0.5


def test_replies_in_a_list_of_objects_are_presentations_of_their_question() -> None:
    rows = [
        {
            "id": n,
            "question": f"Which {n}?",
            "answer": f"cat {n}",
            "samples": [{"output": f"cat {n}"}, {"output": "dog"}],
        }
        for n in range(4)
    ]
    assert scored(saved(rows))["typed_match"] == 0.5


@pytest.mark.parametrize("is_list", [True, False])
def test_replies_of_several_models_in_one_field_are_runs_of_their_own(is_list: bool) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(4):
        replies: Any = {"gpt-4.1": f"cat {n}", "llava": "dog"}
        if is_list:
            replies = [{"model": model, "output": reply} for model, reply in replies.items()]
        rows.append({"question": f"Which {n}?", "answer": f"cat {n}", "responses": replies})
    Path("both.json").write_text(json.dumps(rows))
    results = sn.score("both.json")
    values = {
        row.model: row.estimate.value
        for row in results.rows
        if row.metric == "typed_match" and not row.slice and row.benchmark != "*"
    }
    assert values == {"gpt-4.1": 1.0, "llava": 0.0}


def test_several_replies_of_one_named_model_are_presentations() -> None:
    rows = [
        {
            "id": n,
            "question": f"Which {n}?",
            "answer": f"cat {n}",
            "samples": [
                {"model": "m", "output": f"cat {n}"},
                {"model": "m", "output": "dog"},
                {"model": "other", "output": "dog"},
            ],
        }
        for n in range(4)
    ]
    results = sn.score(saved(rows))
    values = {row.model: row.estimate.value for row in results.rows if row.metric == "typed_match"}
    assert values == {"m": 0.5, "other": 0.0}


@pytest.mark.parametrize(
    ("golds", "replies", "right"),
    [
        ([0, 2, 1, 1], ["0", "2", "0", "1"], 0.75),  # both from 0
        ([1, 3, 2, 2], ["1", "3", "1", "2"], 0.75),  # both from 1
        (["A", "C", "B", "B"], ["0", "2", "0", "1"], 0.75),  # a reply is 0
        (["A", "C", "B", "B"], ["(1)", "(3)", "(1)", "(2)"], 0.75),  # and one the number of options
    ],
)
def test_replies_that_are_numbers_of_options_are_read_as_such(
    golds: list[Any], replies: list[str], right: float
) -> None:
    rows = [
        {"question": f"Which {n}?", "choices": ["cat", "dog", "cow"], "label": gold, "pred": reply}
        for n, (gold, reply) in enumerate(zip(golds, replies, strict=True))
    ]
    path = saved(rows)
    assert scored(path)["accuracy"] == right
    assert "the replies are read as the number of an option" in notes(path)


def test_replies_that_are_numbers_as_the_options_are_stay_texts() -> None:
    rows = [
        {"question": f"How many {n}?", "choices": ["1", "2", "3"], "label": "B", "pred": "2"}
        for n in range(4)
    ]
    assert scored(saved(rows))["accuracy"] == 1.0


def test_objects_in_images_are_no_right_answers_of_captions() -> None:
    rows = [
        {"image_id": n, "gt_objects": ["dog"], "rounds": [{"round": 0, "response": "A dog runs."}]}
        for n in range(3)
    ]
    with pytest.raises(DataError, match="replies without right answers"):
        scored(saved(rows))


@pytest.mark.parametrize(
    ("golds", "replies"),
    [
        ((0, 1), ("No, there is not.", "Yes.")),
        (("False", "True"), ("0", "1")),
        (("no", "yes"), ("0", "1")),
    ],
)
def test_one_and_zero_are_yes_and_no_where_the_other_side_has_words(
    golds: tuple[Any, Any], replies: tuple[str, str]
) -> None:
    rows = [
        {"question": f"Is it {n}?", "label": golds[n % 2], "response": replies[n % 4 == 1]}
        for n in range(12)
    ]
    assert sn.score(saved(rows)).value() == 0.75


def test_the_name_of_an_options_column_is_a_reply() -> None:
    names = ("option_a", "option_b")
    rows = [
        {
            "question": f"{n}?",
            **dict.fromkeys(names, ""),
            "answer": "option_b",
            "pred": names[n % 2],
        }
        for n in range(4)
    ]
    rows = [{**row, "option_a": "cat", "option_b": "dog"} for row in rows]
    assert scored(saved(rows))["accuracy"] == 0.5


def test_numbers_are_the_labels_of_options_that_golds_and_replies_number_from_one() -> None:
    options = {"1": "cat", "2": "dog", "3": "cow"}
    replies = ("2", "Option 3", "The answer is 2", "1. cat")
    rows = [
        {"question": f"{n}?", "options": options, "answer": "2", "response": reply}
        for n, reply in enumerate(replies)
    ]
    assert scored(saved(rows))["accuracy"] == 0.5


@pytest.mark.parametrize("word", ["Yes", "No."])
def test_a_model_that_always_says_the_same_word_is_scored_against_codes(word: str) -> None:
    rows = [{"question": f"Is it {n}?", "label": n % 4 // 3, "response": word} for n in range(12)]
    assert sn.score(saved(rows)).value() == (0.25 if word == "Yes" else 0.75)


def test_a_number_in_the_texts_of_options_means_that_text_and_no_place() -> None:
    options = ["3 cm", "1 cm", "2 cm"]
    rows = [
        {"question": f"How long {n}?", "choices": options, "label": label, "pred": number}
        for n, (label, number) in enumerate(zip("ABC", ("3", "1", "2"), strict=True))
    ]
    assert scored(saved(rows))["accuracy"] == 1.0


@pytest.mark.parametrize("field", ["id", "answer", "pred", "presentation"])
def test_thousands_of_digits_in_a_cell_are_no_number_of_anything(field: str) -> None:
    rows: list[dict[str, Any]] = [
        {"id": str(n), "question": f"Which {n}?", "choices": ["cat", "dog"], "answer": "A"}
        for n in range(20)
    ]
    for row in rows:
        row |= {"presentation": "0", "pred": "B"}
    rows[3][field] = "1" * 5000
    assert scored(saved(rows))["accuracy"] == 0.0


def test_answers_that_are_texts_of_numbered_options_stay_texts() -> None:
    rows = [
        {
            "question": f"How many {n}?",
            "options": {"0": "1", "1": "2", "2": "0"},
            "answer": str(n % 3),
            "prediction": str(n % 3),
        }
        for n in range(6)
    ]
    assert scored(saved(rows))["accuracy"] == 1.0


@pytest.mark.parametrize("wrong", [{"tags": None}, {"output": None}, {"output": {"text": None}}])
def test_a_reference_of_helm_without_tags_or_text_is_no_right_answer(wrong: dict[str, Any]) -> None:
    states = [helm_state(number, "A") for number in (1, 2, 3)]
    for reference in states[2]["instance"]["references"]:
        reference.update(wrong)
    assert scored(saved_helm(*states))["accuracy"] is not None


def test_a_column_called_after_a_model_holds_its_replies_and_a_ranking_counts_by_its_first() -> (
    None
):
    golds = ("fear", "anger", "sadness")
    rows = [
        {"name": f"{n}.jpg", "gt": golds[n % 3], "gpt4v": "fear,anger,sadness"} for n in range(6)
    ]
    path = saved(rows, "moods.csv")
    assert scored(path)["typed_match"] == pytest.approx(1 / 3)
    assert "of which the first counts" in notes(path)


@pytest.mark.parametrize("name", ["gpt4_judgement", "blip_caption", "gpt_question", "llava_score"])
def test_a_column_with_something_else_of_a_model_does_not_hold_its_replies(name: str) -> None:
    rows = [
        {"question": f"Which {n}?", "ground_truth": "cat", name: "It is fine."} for n in range(4)
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        recognise_predictions(saved(rows))


def test_a_list_of_several_right_answers_is_no_ranking() -> None:
    rows = [
        {
            "question": f"Which colours has car {n}?",
            "ground_truth": ["red", "blue", "green"],
            "response": "red, blue, green",
        }
        for n in range(6)
    ]
    assert "the first counts" not in notes(saved(rows, "colours.json"))


def test_numbers_as_options_under_numbers_are_texts() -> None:
    prompt = "How many cats {}?\nOption 1: 2\nOption 2: 3\nOption 3: 1"
    rows = [
        {"prompt": prompt.format(n), "ground_truth": "231"[n % 3], "response": "231"[n % 3]}
        for n in range(6)
    ]
    assert scored(saved(rows))["accuracy"] == 1


def test_hidden_is_an_answer_where_it_is_an_option() -> None:
    words = ["visible", "hidden"]
    rows = [
        {
            "question": f"Is object {n} visible or hidden?",
            "options": words,
            "ground_truth": words[n % 2],
            "response": "hidden",
        }
        for n in range(6)
    ]
    assert scored(saved(rows, "objects.json"))["accuracy"] == 0.5


def test_a_map_whose_keys_are_answers_has_no_columns() -> None:
    rows = [
        {
            "question_id": n,
            "question": f"What is the total of page {n}?",
            "answers": [f"${n}00", f"{n}00"],
            "response": f"${n}00",
            "votes": {"distribution": {str(n): 3, f"total {n}": 1}, "rounds": 4},
        }
        for n in range(40)
    ]
    roles = recognise_predictions(saved(rows, "totals.json")).roles
    assert roles.roles["answer"] == ("answers",)
    assert "options" not in roles.roles
    assert "votes.rounds" in roles.profiles


def test_columns_of_replies_with_verdicts_of_their_own_are_models() -> None:
    rows = [
        {
            "question": f"Which colour is car {n}?",
            "expected": "AB"[n % 2],
            "base_prediction": "A",
            "base_raw_output": "A",
            "base_correct": n % 2 == 0,
            "tuned_prediction": "AB"[n % 2],
            "tuned_raw_output": "AB"[n % 2],
            "tuned_correct": True,
        }
        for n in range(8)
    ]
    reading = recognise_predictions(saved(rows, "both.csv"))
    assert reading.roles.roles["reply"] == ("base_raw_output", "tuned_raw_output")
    assert "reading" not in reading.roles.roles
    [base, tuned] = read_predictions(reading)
    assert [row.reply for row in base.rows] == ["A"] * 8
    assert [row.reply for row in tuned.rows] == [*"AB"] * 4


def test_columns_of_replies_without_verdicts_are_one_model() -> None:
    rows = [
        {"question": f"Q{n}?", "gold": "cat", "raw_output": "A cat.", "clean_output": "cat"}
        for n in range(4)
    ]
    reading = recognise_predictions(saved(rows))
    assert reading.roles.roles["reply"] == ("raw_output",)


def test_parts_that_ask_the_same_questions_are_conditions() -> None:
    def part(reply: str) -> list[dict[str, str]]:
        return [
            {"question": f"What is {n} + {n}?", "gold_answer": str(2 * n), "full_response": reply}
            for n in (2, 3)
        ]

    Path("sums.json").write_text(json.dumps({"direct": part("4"), "cot": part("#### 6")}))
    files = read_predictions(recognise_predictions(Path("sums.json")))
    assert [file.model for file in files] == ["direct", "cot"]


def test_parts_that_ask_other_questions_are_one_model() -> None:
    def part(first: int) -> list[dict[str, str]]:
        return [
            {"question": f"What is {n} + {n}?", "gold": str(2 * n), "response": str(2 * n)}
            for n in range(first, first + 3)
        ]

    Path("sums.json").write_text(json.dumps({"val": part(1), "test": part(4)}))
    [file] = read_predictions(recognise_predictions(Path("sums.json")))
    assert len(file.rows) == 6


def test_of_sentences_about_statements_what_the_file_read_counts() -> None:
    rows = [
        {
            "statement": f"Scotland scored {n} points.",
            "response": f"Scotland scored {n} points, so the claim is {'true' if n % 2 else 'false'}.",
            "label": n % 2,
            "prediction": n % 2 if n else 1,
        }
        for n in range(20)
    ]
    path = saved(rows)
    assert scored(path)["number_accuracy"] == pytest.approx(0.95)
    assert "what the file says was read in each reply counts" in notes(path)


def test_numbers_of_classes_beside_their_names_are_refused() -> None:
    names = ("basophil", "platelet", "monocyte")
    rows = [{"true_label": n % 3, "output_text": names[n % 3]} for n in range(12)]
    with pytest.raises(DataError, match=r"numbers \(0, 1, 2\), and no reply has one"):
        sn.import_run(saved(rows))


def test_verdicts_without_replies_are_scored_by_model() -> None:
    rows = [
        {"item": f"i{n}", "model": model, "correct": n < right}
        for model, right in (("one", 3), ("two", 1))
        for n in range(4)
    ]
    one, two = read_predictions(recognise_predictions(saved(rows)))
    assert [file.model for file in (one, two)] == ["one", "two"]
    assert [row.verdict for row in one.rows] == [1, 1, 1, 0]
    assert [row.verdict for row in two.rows] == [1, 0, 0, 0]


def test_a_column_of_character_error_rates_calls_for_them() -> None:
    rows = [
        {"id": f"line{n}", "gt": "a lively song", "pred": "a lively sung", "cer": 1 / 13}
        for n in range(3)
    ]
    Path("report.json").write_text(json.dumps({"model": "ocr", "details": rows}))
    assert scored(Path("report.json"))["character_error_rate"] == pytest.approx(1 / 13)


def test_a_suffix_behind_a_known_one_says_how_a_file_was_made() -> None:
    rows = [{"question": f"Q{n}?", "gold": "cat", "response": "cat"} for n in range(3)]
    made = saved(rows, "replies.jsonl").rename("replies.jsonl.processed")
    assert len(recognise_predictions(Path(made)).rows) == 3


def test_a_packed_file_is_refused_with_what_unpacks_it() -> None:
    Path("outputs.json.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=r"unpack it with `unzip outputs\.json\.zip`, then name"):
        recognise_predictions(Path("outputs.json.zip"))


def test_settings_beside_a_sum_are_no_replies() -> None:
    settings = {"model": "gpt", "seed": 0, "debug": False, "engine": "one", "limit": -1}
    Path("sum.json").write_text(json.dumps({"acc": 86.5, "count": 200, "args": settings}))
    with pytest.raises(DataError, match="not a list of questions"):
        recognise_predictions(Path("sum.json"))


def test_the_marks_of_a_judge_are_said_beside_the_number() -> None:
    rows = [
        {
            "question": f"Where was flute {n} made?",
            "ground_truth": f"It was made in village {n}.",
            "prediction": f"In village {n}.",
            "lave_score": (n % 2) / 2 + 0.5,
        }
        for n in range(6)
    ]
    assert "'lave_score': 75.0% of 6 right" in notes(saved(rows))


def test_a_column_of_anls_and_the_halves_of_chartqa_call_for_their_metrics() -> None:
    anls = [
        {
            "question": f"Which name is {n}?",
            "answer": "pinterest",
            "predict": "pintrest",
            "anls": 0.5,
        }
        for n in range(3)
    ]
    path = saved(anls, "info.jsonl")
    assert sn.score(path).value() == pytest.approx(1 - 1 / 9)
    assert "a score of each row in 'anls', 50.0% on average: anls" in notes(path)

    charts = [
        {"query": f"What is bar {n}?", "prediction": "0.58", "answer": "0.57", "split": half}
        for n, half in enumerate(["test_human", "test_augmented"])
    ]
    assert scored(saved(charts, "charts.jsonl"))["relaxed_accuracy"] == 1.0
    charts[0]["split"] = "val"
    assert "relaxed_accuracy" not in scored(saved(charts, "others.jsonl"))


def test_the_rule_that_gives_a_files_own_scores_is_the_headline() -> None:
    def rows(score: float) -> list[dict[str, Any]]:
        answers = ["thirty"] * 8 + ["30th"] * 2
        return [
            {
                "question": f"Which {n}?",
                "gold_answers": answers,
                "model_answer": "30th",
                "score": score,
            }
            for n in range(4)
        ]

    by_three = saved(rows(2 / 3), "three.jsonl")
    assert sn.score(by_three).value() == pytest.approx(2 / 3)
    assert "the file's own scores are those of direct_answer_accuracy" in notes(by_three)
    # VQA v2 leaves one annotator out: 8 times 2/3, and twice 1/3.
    unlike = saved(rows(0.25), "unlike.jsonl")
    assert sn.score(unlike).value() == pytest.approx((8 * 2 / 3 + 2 * 1 / 3) / 10)


def test_a_judges_marks_from_one_to_five_are_shares_of_the_way() -> None:
    def rows(said: str) -> list[dict[str, Any]]:
        reference = (
            "It is a long and winding answer about the boats in the harbour of a small town. " * 2
        )
        return [
            {
                "example_id": f"e{n}",
                "prompt": f"Why {n}?",
                "reference": f"{reference} Number {n}.",
                "generation": f"Since {n}.",
                "score": mark,
                said: "I think so.",
            }
            for n, mark in enumerate([1, 2, 4, 5])
        ]

    judged = saved(rows("evaluator_explanation"), "judged.jsonl")
    assert sn.score(judged).value() == pytest.approx(0.5)
    assert "marks in 'score' are read as shares of the best one: 1 as 0%, 5 as 100%" in notes(
        judged
    )
    assert "recorded_verdict" not in scored(saved(rows("remark"), "unjudged.jsonl"))


def test_fields_of_an_object_read_in_some_replies_are_no_right_answers() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(6):
        read = {"labels": ["bird", f"fire{n}"], "unknown": n > 3}
        asks_for_json = n % 2 == 0
        output = f"```json\n{json.dumps(read)}\n```" if asks_for_json else f"A bird on wall {n}."
        rows.append(
            {
                "image": f"{n}.png",
                "model": "m",
                "output": output,
                "json_obj": read if asks_for_json else None,
            }
        )
    with pytest.raises(DataError, match=r"'json_obj\.labels' is what the replies say"):
        sn.import_run(saved(rows))


def test_verdicts_beside_replies_without_right_answers_are_the_headline() -> None:
    rows = [
        {"question": f"Where is {n}?", "predict_ans": "there", "correctness": said}
        for n, said in enumerate(["correct", "wrong", "wrong", "wrong"])
    ]
    assert scored(saved(rows))["recorded_verdict"] == 1 / 4


@pytest.mark.parametrize(
    ("column", "cells"), [("score", (0.91, 0.84, 0.77)), ("status", ("pass",))]
)
def test_confidences_and_statuses_beside_replies_are_no_verdicts(
    column: str, cells: tuple[float | str, ...]
) -> None:
    rows = [
        {"question": f"Where is {n}?", "prediction": f"there {n}", column: cells[n % len(cells)]}
        for n in range(30)
    ]
    with pytest.raises(DataError, match="replies without right answers"):
        sn.import_run(saved(rows))


def test_the_marks_of_a_merge_are_named_with_their_line() -> None:
    Path("merged.json").write_text(
        '[\n  {"question": "Why?",\n<<<<<<< HEAD\n   "answer": "So."}]\n'
    )
    with pytest.raises(DataError, match=r"line 3 has the mark of a Git merge .* keep one of"):
        recognise_predictions(Path("merged.json"))


def test_rows_of_an_image_without_questions_are_questions_of_their_own() -> None:
    probes = [
        ("a", "truck", "yes", "Yes."),
        ("a", "car", "yes", "No."),
        ("a", "person", "yes", "Yes."),
        ("a", "pizza", "no", "No."),
        ("b", "truck", "no", "Yes."),
        ("b", "dog", "yes", "Yes."),
    ]
    names = ("image_id", "object_probe", "gold_label", "prediction_raw")
    rows = [dict(zip(names, probe, strict=True)) for probe in probes]
    path = saved(rows, "probes.csv")
    assert sn.score(path).value() == pytest.approx(4 / 6)
    assert "the file has no questions, and 6 rows share their image" in notes(path)
    assert "6 rows of 6 questions" in notes(path)

    unnamed = [{name: row[name] for name in names if name != "object_probe"} for row in rows]
    assert sn.score(saved(unnamed, "unnamed.csv")).value() == pytest.approx(4 / 6)

    # One reply for each image, and right answers that are words and not captions.
    silent = [{**row, "prediction_raw": "Yes."} for row in rows]
    assert sn.score(saved(silent, "silent.csv")).value() == pytest.approx(4 / 6)


def test_an_id_of_an_image_is_no_id_of_a_question() -> None:
    rows = [
        {"id": str(number), "object": thing, "label": "yes", "prediction": reply}
        for number in range(3)
        for thing, reply in (("car", "yes"), ("dog", "yes"), ("cup", "no"))
    ]
    path = saved(rows, "objects.csv")
    assert sn.score(path).value() == pytest.approx(6 / 9)
    assert "9 rows of 9 questions" in notes(path)


def test_captions_with_several_references_stay_one_question() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "reference": f"{words} stands in field {n}",
            "prediction": f"a horse {n}",
        }
        for n in range(4)
        for words in ("a brown horse", "one large animal", "a horse that eats")
    ]
    path = saved(rows, "captions.csv")
    assert "4 rows of 4 questions" in notes(path)
    with_objects = [
        {**row, "probe": words} for row, words in zip(rows, ("car", "dog", "cup") * 4, strict=True)
    ]
    assert "12 rows of 12 questions" in notes(saved(with_objects, "apart.csv"))


def test_a_list_among_single_right_answers_is_one_answer() -> None:
    def charts(gold: Any, reply: str, name: str = "answer") -> Path:
        rows: list[dict[str, Any]] = [
            {"query": f"How many {n}?", "prediction": "3", name: "4", "split": half}
            for n, half in enumerate(["test_human", "test_human", "test_augmented"])
        ]
        rows.append({"query": "Which?", "prediction": reply, name: gold, "split": "test_human"})
        return saved(rows, "charts.json")

    for metric in ("relaxed_accuracy", "legacy_relaxed_accuracy"):
        assert scored(charts("[2014, 2016]", "[2014, 2016]"))[metric] == pytest.approx(1 / 4)
        assert scored(charts("[2013, 2016]", "2013"))[metric] == 0
        assert scored(charts([2013, 2016], "2013"))[metric] == 0
        assert scored(charts("[2013, 2016]", "2013", "answers"))[metric] == 1 / 4
        # Quoted texts are accepted answers, as VLMEvalKit writes them.
        assert scored(charts("['Asia', 'Oceania']", "Asia"))[metric] == 1 / 4
    said = notes(charts("[2013, 2016]", "2013"))
    assert "lists among single right answers, each of which is one answer" in said
    assert "1 (record 4)" in said


def test_a_column_of_mostly_lists_has_accepted_answers() -> None:
    rows = [
        {"question": f"Which {n}?", "prediction": "a mug", "answer": ["a cup", "a mug"]}
        for n in range(3)
    ]
    rows.append({"question": "Which?", "prediction": "red", "answer": "red"})
    assert scored(saved(rows))["exact_match"] == 1


def test_the_metric_that_is_asked_for_is_the_headline() -> None:
    rows = [
        {"question": "Which name?", "answer": "pinterest", "prediction": "pintrest"},
        {"question": "Which word?", "answer": "boat", "prediction": "boat"},
    ]
    path = saved(rows)
    by_anls = sn.score(path, metrics="anls")
    assert by_anls.value() == pytest.approx((1 - 1 / 9 + 1) / 2)
    run = by_anls.runs[0].folder
    assert sn.score(run).value() == 0.5
    assert sn.score(run, metrics=["exact_match", "anls"]).value() == 0.5
    assert sn.score(run, metrics=["anls", "exact_match"]).value() == by_anls.value()
    choice = saved([{**row, "A": "boat", "B": "pinterest"} for row in rows], "choice.jsonl")
    assert scored(choice)["accuracy"] == sn.score(choice, metrics="anls").value()


def test_long_sentences_that_a_few_replies_happen_to_match_are_for_a_judge() -> None:
    def rows(n_repeated: int) -> list[dict[str, Any]]:
        answers = [
            f"There are {n} boats of wood beside the old harbour wall in the image."
            for n in range(20)
        ]
        return [
            {
                "question": f"How many boats are in image {n}?",
                "gt_answer": answer,
                "model_answer": answer if n < n_repeated else f"I can see {n + 3} of them in it.",
            }
            for n, answer in enumerate(answers)
        ]

    path = saved(rows(2), "hallucinations.json")
    assert "read as long texts: rouge_l" in notes(path)
    assert "read as long texts" not in notes(saved(rows(12), "repeated.json"))


@pytest.mark.parametrize(
    ("name", "facts", "sign"),
    [
        ("a.json", {"questionId": 7, "docId": 3}, "the column 'docId'"),
        ("b.json", {"ucsf_document_id": "abcd0123"}, "the column 'ucsf_document_id'"),
        ("c.json", {"image": "data/spdocvqa_images/abcd_1.png"}, "the image's path in 'image'"),
        ("docvqa_first.json", {}, "the file's name"),
    ],
)
def test_questions_about_documents_are_scored_by_anls(
    name: str, facts: Mapping[str, Any], sign: str
) -> None:
    rows = [
        {"question": "Which name?", "prediction": "pintrest", "answers": ["pinterest"], **facts},
        {"question": "Which word?", "prediction": "boat", "answers": ["boat"], **facts},
    ]
    path = saved(rows, name)
    assert sn.score(path).value() == pytest.approx((1 - 1 / 9 + 1) / 2)
    assert f"{sign} says that the questions are of DocVQA's kind: anls" in notes(path)


def test_answers_without_a_sign_of_documents_stay_texts() -> None:
    rows = [
        {"questionId": n, "question": f"Which {n}?", "prediction": "pintrest"} for n in range(3)
    ]
    path = saved([{**row, "answers": ["pinterest"]} for row in rows])
    assert sn.score(path).value() == 0


def test_answers_by_condition_beside_the_right_ones_are_replies() -> None:
    rows = [
        {
            "question": f"Is there a boat in image {n}?",
            "answer": ("yes", "no")[n % 2],
            "cot_reasoning": f"REASONING: I see a boat in image {n}. FINAL ANSWER: Yes",
            "cot_answer": "Yes",
            "direct_answer": ("Yes", "No")[n % 2] if n else "No",
        }
        for n in range(4)
    ]
    path = saved(rows, "conditions.csv")
    results = sn.score(path)
    assert [run.manifest.model for run in results.runs] == ["cot_answer", "direct_answer"]
    assert [row.value for row in results] == [0.5, 0.75]

    alone = [{name: row[name] for name in row if name != "direct_answer"} for row in rows]
    assert sn.score(saved(alone, "alone.csv")).value() == 0.5


@pytest.mark.parametrize("name", ["short_answer", "wrong_answer", "multiple_choice_answer"])
def test_right_answers_in_another_form_are_no_replies(name: str) -> None:
    rows = [{"question": f"Is it {n}?", "answer": "yes", name: "yes"} for n in range(4)]
    with pytest.raises(DataError, match="its answers may be replies or right answers") as refused:
        sn.score(saved(rows, "golds.csv"))
    assert f"if {name!r} has the replies: " in str(refused.value)
