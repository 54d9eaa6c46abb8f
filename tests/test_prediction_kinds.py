"""Kinds of result files that authors publish, each with the number that a careful person computes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply
from snellen.interchange.predictions.several_answers import letters_in_reply, places_named
from snellen.interchange.predictions.shown_options import ShownOptions
from snellen.interchange.predictions.tables import read_predictions, recognise_predictions
from snellen.interchange.predictions.taking import FileReading, taken_files
from snellen.metrics.vqa import typed_match
from snellen.recognition.columns import PARTLY, name_score
from snellen.recognition.reply_names import is_name_of_reply, is_verdict
from snellen.recognition.verdicts import reading_of_verdicts, verdict_of_cell

THINGS = ("red kite", "blue lamp", "old boat", "tall tree", "grey stone")
N = 20


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def questions() -> list[dict[str, Any]]:
    """Open questions of which 16 of 20 are answered correctly."""
    rows: list[dict[str, Any]] = []
    for n in range(N):
        answer = f"{THINGS[n % 5]} {n}"
        right = n % 5 != 0
        rows.append(
            {
                "id": n,
                "question": f"Which thing is number {n}?",
                "gold": answer,
                "said": answer if right else "a whale",
                "right": right,
            }
        )
    return rows


def as_json(content: Any) -> str:
    return json.dumps(content)


def as_lines(rows: Sequence[Any]) -> str:
    return "\n".join(map(json.dumps, rows))


def event_log() -> str:
    """OpenAI's evals: a first line with settings, an event for each sample, a last line with a report."""
    events: list[dict[str, Any]] = [{"spec": {"eval_name": "things", "seed": 1}}]
    for row in questions():
        data = {
            "correct": row["right"],
            "expected": row["gold"],
            "sampled": row["said"],
            "options": [row["gold"]],
        }
        events.append({"event_id": row["id"], "type": "match", "data": data})
    return as_lines([*events, {"final_report": {"accuracy": 0.8}}])


def wandb_table() -> str:
    rows = [[row["question"], row["gold"], row["said"]] for row in questions()]
    columns = ["question", "ground_truth", "prediction"]
    return as_json({"columns": columns, "data": rows, "ncols": 3, "nrows": N})


def promptfoo() -> str:
    results: list[dict[str, Any]] = []
    for row in questions():
        variables = {"question": row["question"], "expected": row["gold"]}
        results.append(
            {"success": row["right"], "response": {"output": row["said"]}, "vars": variables}
        )
    return as_json(
        {"evalId": "e", "results": {"version": 3, "results": results, "stats": {"n": N}}}
    )


def settings_first() -> str:
    rows = [{"id": r["id"], "label": r["gold"], "output": r["said"]} for r in questions()]
    return as_lines([{"config": {"temperature": 0}, "model": "mine"}, *rows])


def called_true() -> str:
    return as_lines(
        [{"image": r["id"], "true": r["gold"], "predicted": r["said"]} for r in questions()]
    )


def passed() -> str:
    return as_lines(
        [
            {
                "question": r["question"],
                "expected": r["gold"],
                "actual": f"{r['said']} or the like of it",
                "status": "pass" if r["right"] else "fail",
            }
            for r in questions()
        ]
    )


def grades() -> str:
    return as_lines(
        [
            {
                "problem": r["question"],
                "answer": r["gold"],
                "model_response": "It is that thing.",
                "judgement": "A" if r["right"] else "BC"[r["id"] % 2],
            }
            for r in questions()
        ]
    )


def several_passes() -> str:
    """Two passes: one has 16 right of 20, the other all."""
    return as_lines(
        [
            {
                "question": r["question"],
                "answer": r["gold"],
                "pred_0": r["said"],
                "pred_1": r["gold"],
            }
            for r in questions()
        ]
    )


@pytest.mark.parametrize(
    ("content", "share"),
    [
        (event_log, 0.8),
        (wandb_table, 0.8),
        (promptfoo, 0.8),
        (settings_first, 0.8),
        (called_true, 0.8),
        (passed, 0.8),
        (grades, 0.8),
        (several_passes, 0.9),
    ],
)
def test_a_kind_of_file_gives_the_careful_number(content: Callable[[], str], share: float) -> None:
    text = content()
    path = Path("results.json" if text.startswith('{"') and "\n" not in text else "results.jsonl")
    path.write_text(text)
    assert sn.score(path).value() == pytest.approx(share)


@pytest.mark.parametrize(
    "write",
    [
        lambda places: places,
        lambda places: "".join("ABCD"[place] for place in places),
        lambda places: ["ABCD"[place] for place in places],
        lambda places: " and ".join(f"({'ABCD'[place]})" for place in places),
    ],
)
def test_several_right_options_have_to_be_given_together(
    write: Callable[[list[int]], Any],
) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(12):
        options = [f"{thing} {n}" for thing in THINGS[:4]]
        given = [0, 2] if n % 4 else [0, 1, 2]  # a superset is not right
        rows.append(
            {
                "question": f"Which two of {n}?",
                "options": options,
                "answer": write([0, 2]),
                "prediction": write(given),
            }
        )
    path = Path("several.jsonl")
    path.write_text(as_lines(rows))
    assert sn.score(path).value() == pytest.approx(0.75)


def test_options_that_a_cell_or_a_reply_names_together() -> None:
    shown = ShownOptions(("a cat", "a dog", "a car", "a bus"))
    assert places_named("B, D", shown) == (1, 3)
    assert places_named(["a cat", "a bus"], shown) == (0, 3)
    assert places_named([1, 4], shown) == (0, 3)  # 4 is an option only when counted from 1
    assert places_named("a dog", shown) == ()
    assert letters_in_reply("Both fit, so the answers are A and C.", shown) == "AC"
    assert letters_in_reply("I cannot tell", shown) == "I cannot tell"


def test_lists_of_numbers_are_one_answer_and_lists_of_letters_answer_a_question_each() -> None:
    cells = [
        {
            "question": f"Which cell {n}?",
            "answer": f"[{n % 3}, 2]",
            "prediction": f"[{n % 3}, {2 if n % 4 else 0}]",
        }
        for n in range(12)
    ]
    Path("cells.jsonl").write_text(as_lines(cells))
    assert sn.score("cells.jsonl").value() == pytest.approx(0.75)

    passages = [
        {
            "question": f"Passage {n}",
            "standard_answer": ["A", "C"],
            "model_output": "1. A 2. B, I think",
            "model_answer": ["A", "B"],
        }
        for n in range(6)
    ]
    Path("passages.jsonl").write_text(as_lines(passages))
    assert sn.score("passages.jsonl").value() == pytest.approx(0.5)


def test_measurements_are_scored_by_how_near_replies_come() -> None:
    rows = [{"id": n, "gt": 10.25 + n, "pred": (10.25 + n) * 1.12} for n in range(20)]
    Path("lengths.jsonl").write_text(as_lines(rows))
    # The mean of 0.12 times 10.25 ... 29.25: the mean absolute error.
    assert sn.score("lengths.jsonl").value() == pytest.approx(0.12 * 19.75)


def test_verdicts_that_contradict_repeated_answers_are_not_the_headline() -> None:
    rows = [
        {"question": r["question"], "answer": r["gold"], "prediction": r["said"], "score": 0.1}
        for r in questions()
    ]
    Path("confidences.jsonl").write_text(as_lines(rows))
    assert sn.score("confidences.jsonl").value() == pytest.approx(0.8)


@pytest.mark.parametrize("name", ["output_tokens", "response_options", "predictions_sha256"])
def test_facts_about_replies_are_no_replies(name: str) -> None:
    assert not is_name_of_reply(name)
    rows = [{"id": n, "answer": "abc"[n % 3], name: "abc"[n % 3]} for n in range(9)]
    Path("facts.jsonl").write_text(as_lines(rows))
    with pytest.raises(DataError):
        recognise_predictions(Path("facts.jsonl"))


def test_names_of_right_answers() -> None:
    for name in ("gt_count", "answer_gt", "ground_truth_answer", "gold_ans", "reference_caption"):
        assert name_score("answer", name) > 0.5, name
    assert name_score("answer", "prompt_direct answer") == 0


def test_words_and_marks_of_verdicts() -> None:
    assert [verdict_of_cell(text) for text in ("PASS", "[[incorrect]]", "0.25", "7")] == [
        1,
        0,
        0.25,
        None,
    ]
    of_ten = reading_of_verdicts({"2": 3, "9": 4, "10": 1}, is_judged=True)
    assert of_ten is not None
    assert of_ten("9") == 0.9
    of_five = reading_of_verdicts({"1": 3, "3": 4, "5": 1}, is_judged=True)
    assert of_five is not None
    assert of_five("3") == 0.5
    assert reading_of_verdicts({"2": 3, "9": 4, "10": 1}, is_judged=False) is None


def test_a_number_may_end_a_sentence_that_repeats_numbers_of_its_question() -> None:
    asked = AskedReply("The share in 1994 is 1.0%.", "What was the share in 1994?")
    assert typed_match(asked, ["1.0%"]) == 1
    assert typed_match(asked, ["1994"]) == 0
    unasked = AskedReply("The share in 1994 is 1.0%.", "What was the share?")
    assert typed_match(unasked, ["1.0%"]) == 0  # it may be the share of another year
    assert typed_match(AskedReply("Of 5 and 6 it is 5, not 6.", "5 or 6?"), ["6"]) == 0


def test_cells_with_alternatives_accept_each() -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "ground_truth": f"cup {n} | mug {n}",
            "predicted_answer": f"mug {n}",
        }
        for n in range(6)
    ]
    rows[0]["predicted_answer"] = "plate"
    Path("alternatives.jsonl").write_text(as_lines(rows))
    assert sn.score("alternatives.jsonl").value() == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("content", "share"),
    [
        ("size,correct\n3x3,True\n3x3,False\n4x4,False\n4x4,True\n", 1 / 2),
        ("id,verdict\n1,incorrect\n1,correct\n2,correct\n2,correct\n", 3 / 4),  # ids repeat
        ("item,correct,format_ok,steps_correct\n1,1,0,0\n2,1,0,0\n3,1,1,0\n4,0,0,0\n", 3 / 4),
        ("name,status,is_success\na,done,True\nb,done,True\nc,done,False\nd,done,True\n", 3 / 4),
    ],
)
def test_the_number_of_a_table_of_verdicts_is_their_share(content: str, share: float) -> None:
    Path("verdicts.csv").write_text(content)
    assert sn.score("verdicts.csv").value("recorded_verdict") == pytest.approx(share)


def test_a_table_of_verdicts_that_differ_is_refused_with_each_share() -> None:
    Path("verdicts.csv").write_text("id,style_correctness,was_right\n1,1,0\n2,1,1\n3,0,1\n4,1,0\n")
    with pytest.raises(
        DataError, match=r"'style_correctness' 75\.0% of 4, 'was_right' 50\.0% of 4"
    ):
        sn.score("verdicts.csv")
    run = sn.import_run("verdicts.csv", columns={"verdict": "was_right"})
    assert sn.score(run).value("recorded_verdict") == 1 / 2


def test_the_plain_name_of_several_verdicts_leads_and_a_note_has_the_others() -> None:
    Path("verdicts.csv").write_text("item,correct,vlm_is_correct\n1,1,0\n2,1,0\n3,1,1\n4,0,0\n")
    [file] = read_predictions(recognise_predictions(Path("verdicts.csv")))
    assert [row.verdict for row in file.rows] == [1, 1, 1, 0]
    [note] = [note for note in file.notes if "own verdicts, in 'correct'" in note]
    assert "'vlm_is_correct': 25.0%" in note


def test_verdicts_beside_empty_replies_do_not_count() -> None:
    rows = [{"item": n, "prediction": "", "correct": n > 0} for n in range(3)]
    Path("failed.json").write_text(as_json(rows))
    with pytest.raises(DataError, match="'prediction' is empty in all 3 rows"):
        sn.score("failed.json")


@pytest.mark.parametrize("column", ["api_success", "request_success", "parse_success", "status_ok"])
def test_whether_a_request_succeeded_is_no_verdict(column: str) -> None:
    lines = [f"q{n},What is it?,It is a dog on a sofa.,{n != 3}" for n in range(9)]
    Path("log.csv").write_text(f"id,question,response,{column}\n" + "\n".join(lines))
    with pytest.raises(DataError, match="replies without right answers"):
        sn.score("log.csv")
    without_replies = [f"q{n},What is it?,{n != 3}" for n in range(9)]
    Path("flags.csv").write_text(f"id,question,{column}\n" + "\n".join(without_replies))
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score("flags.csv")


@pytest.mark.parametrize(
    ("column", "words"), [("status", ("success", "failed")), ("success", ("True", "False"))]
)
@pytest.mark.parametrize("no_reply", ["", "Error: timeout"])
def test_verdicts_that_are_wrong_only_without_a_reply_are_of_requests(
    column: str, words: tuple[str, str], no_reply: str
) -> None:
    def write(said: dict[int, str]) -> None:
        lines = []
        for n in range(9):
            word = words[n in said]
            lines.append(f"q{n},What is it?,{said.get(n, 'It is a dog.')},{word}")
        Path("log.csv").write_text(f"id,question,response,{column}\n" + "\n".join(lines))

    write({3: no_reply})
    with pytest.raises(DataError, match="replies without right answers"):
        sn.score("log.csv")
    # With a wrong reply of the model, too, they are verdicts on replies.
    write({3: no_reply, 4: "It is a cat."})
    assert sn.score("log.csv").value("recorded_verdict") == pytest.approx(7 / 9)


def test_statuses_that_are_all_the_same_are_no_verdicts() -> None:
    Path("log.csv").write_text("name,status\na,success\nb,success\nc,success\n")
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score("log.csv")


@pytest.mark.parametrize(
    "names", [("llava_response", "gpt4o_response"), ("pred_qwen2-vl", "pred_llava")]
)
def test_replies_of_several_models_stand_in_columns_of_their_own(names: tuple[str, str]) -> None:
    rows = [
        {"question": r["question"], "answer": r["gold"], names[0]: r["said"], names[1]: r["gold"]}
        for r in questions()
    ]
    Path("models.jsonl").write_text(as_lines(rows))
    models = [file.model for file in read_predictions(recognise_predictions(Path("models.jsonl")))]
    assert models == list(names)


def test_verdicts_on_one_of_several_models_are_of_its_replies() -> None:
    rows = [
        {
            "question": r["question"],
            "answer": r["gold"],
            "base_output": r["said"],
            "base_correct": int(r["right"]),
            "tuned_output": r["gold"],
            "tuned_correct": 1,
        }
        for r in questions()
    ]
    Path("models.jsonl").write_text(as_lines(rows))
    files = read_predictions(recognise_predictions(Path("models.jsonl")))
    shares = [sum(row.verdict or 0 for row in file.rows) / N for file in files]
    assert shares == [0.8, 1.0]


@pytest.mark.parametrize(
    "row",
    [
        {"opa": "a cat", "opb": "a dog", "opc": "a car", "opd": "a bus", "cop": 2},
        {
            "choices": {"text": ["a cat", "a dog", "a car", "a bus"], "label": [*"ABCD"]},
            "answerKey": "C",
        },
    ],
)
def test_layouts_of_options_of_well_known_sets(row: dict[str, Any]) -> None:
    rows = [
        {"id": n, "question": f"What is {n}?", **row, "prediction": "ABCC"[n % 4]} for n in range(8)
    ]
    Path("known.jsonl").write_text(as_lines(rows))
    assert sn.score("known.jsonl").value() == pytest.approx(0.5)


def test_verdicts_that_deny_letters_which_replies_name_are_not_the_headline() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(10):
        options = ", ".join(
            f"{letter}) {thing}" for letter, thing in zip("ABCD", THINGS[:4], strict=True)
        )
        rows.append(
            {
                "question": f"Which of {n}: {options}?",
                "gold": "ABCD"[n % 4],
                "response": f"**The correct answer is {'ABCD'[n % 4]})**",
                "correct": n % 2 == 0,  # by a script that looks for letters at the beginning
            }
        )
        rows.append(
            {
                "question": f"How many are {n} things?",
                "gold": f"{THINGS[n % 5]} {n}",
                "response": f"I count a {THINGS[n % 5]} {n}.",
                "correct": True,
            }
        )
    Path("tasks.jsonl").write_text(as_lines(rows))
    assert sn.score("tasks.jsonl").value() == pytest.approx(1.0)


def test_several_verdicts_with_uncertain_names_are_none() -> None:
    rows = [
        {
            "question": r["question"],
            "answer": r["gold"],
            "prediction": r["said"],
            "reasoning_correctness": "wrong",
            "style_correctness": "correct" if r["id"] % 2 else "wrong",
        }
        for r in questions()
    ]
    Path("steps.jsonl").write_text(as_lines(rows))
    [file] = read_predictions(recognise_predictions(Path("steps.jsonl")))
    assert {row.verdict for row in file.rows} == {None}


def test_a_refusal_names_the_column_whose_cells_stand_in_replies() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "photographer": f"P{n}",
            "species": THINGS[n % 5],
            "prediction": f"It looks like a {THINGS[n % 5] if n % 3 else 'whale'}, I think.",
        }
        for n in range(N)
    ]
    Path("birds.jsonl").write_text(as_lines(rows))
    with pytest.raises(DataError, match=r"'species' stand in many replies.*answer.*species"):
        sn.score("birds.jsonl")
    for row in rows:
        row["prediction"] = "It may be any of a red kite, a blue lamp, an old boat or a tall tree."
    Path("all.jsonl").write_text(as_lines(rows))
    with pytest.raises(DataError) as refusal:
        sn.score("all.jsonl")
    assert "species" not in str(refusal.value)


def test_a_solution_beside_the_ground_truth_is_the_reply() -> None:
    rows = [
        {"question": r["question"], "ground_truth": r["gold"], "solution": r["said"]}
        for r in questions()
    ]
    Path("solutions.jsonl").write_text(as_lines(rows))
    assert sn.score("solutions.jsonl").value() == pytest.approx(0.8)


def test_none_is_a_reply_where_it_is_the_right_answer_of_another_row() -> None:
    golds = [f"{thing} {n}" for n in range(4) for thing in THINGS] + ["None"]
    rows = [
        {"question": f"Which thing is number {n}?", "answer": gold, "prediction": "None"}
        for n, gold in enumerate(golds)
    ]
    Path("none.jsonl").write_text(as_lines(rows))
    [file] = read_predictions(recognise_predictions(Path("none.jsonl")))
    assert {row.reply for row in file.rows} == {"None"}


def test_replies_that_name_no_option_are_refused_with_the_column_that_says_the_same() -> None:
    rows = [
        {
            "image_path": f"{n}.jpg",
            "is_real_prediction": bool(n % 2),
            "actual_label": ("fake", "real")[n % 2 if n < 16 else 0],
            "from_a_camera": n % 2 if n < 16 else 0,
        }
        for n in range(N)
    ]
    Path("real.jsonl").write_text(as_lines(rows))
    with pytest.raises(DataError, match=r"'fake', 'real'.*'(true|false)'.*from_a_camera"):
        sn.score("real.jsonl")
    run = sn.import_run("real.jsonl", columns={"answer": "from_a_camera"})
    assert sn.score(run).value() == pytest.approx(0.9)


@pytest.mark.parametrize(("extra", "share"), [("predicted_index", 0.8), ("", 0.8)])
def test_a_reading_that_the_files_verdicts_confirm_counts(extra: str, share: float) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        said = n % 4 if n % 5 else (n + 1) % 4
        row = {
            "item_id": f"q{n}",
            "answer_index": n % 4,
            "correct": n % 5 != 0,
            "raw_response": str(said + 1),  # counted from 1
        }
        rows.append({**row, extra: said} if extra else row)
    Path("indices.jsonl").write_text(as_lines(rows))
    scores = sn.score("indices.jsonl")
    assert scores.value() == pytest.approx(share)
    [file] = taken_files(Path("indices.jsonl"), FileReading())
    assert [row.reply for row in file.file.rows] == [
        str(n % 4 if n % 5 else (n + 1) % 4) for n in range(N)
    ]


def test_verdicts_that_contradict_a_far_lower_number_are_the_headline() -> None:
    rows = [
        {"id": n, "answer": 3 * n, "prediction": str(1000 - n), "correct": n % 5 != 0}
        for n in range(N)
    ]
    Path("numbers.jsonl").write_text(as_lines(rows))
    assert sn.score("numbers.jsonl").value() == pytest.approx(0.8)
    [taken] = taken_files(Path("numbers.jsonl"), FileReading())
    assert any(
        "80.0%" in note and "its verdicts are the headline" in note for note in taken.file.notes
    )


@pytest.mark.parametrize("reply", ["", "output", "cleaned_output"])
def test_zeros_and_ones_beside_texts_are_verdicts_and_confirm_the_reference(reply: str) -> None:
    rows = [
        {
            "ID": f"x{n}",
            "Place": THINGS[n % 5],
            "output": f"This is the {THINGS[n % 5 if n % 4 else (n + 1) % 5]}.",
            "pred": int(n % 4 != 0),
            "cleaned_output": THINGS[n % 5 if n % 4 else (n + 1) % 5],
        }
        for n in range(40)
    ]
    Path("places.jsonl").write_text(as_lines(rows))
    columns = {"reply": (reply,)} if reply else {}
    reading = recognise_predictions(Path("places.jsonl"), columns)
    assert reading.column("verdict") == "pred"
    assert reading.column("answer") == "Place"
    assert reading.column("reply") == (reply or "output")
    [file] = read_predictions(reading)
    assert sum(row.verdict or 0 for row in file.rows) == 30


def test_a_reference_that_is_called_like_replies_is_noted_where_the_reply_is_given() -> None:
    rows = [{"id": r["id"], "mine": r["said"], "output": r["gold"]} for r in questions()]
    Path("mine.jsonl").write_text(as_lines(rows))
    reading = recognise_predictions(Path("mine.jsonl"), {"reply": ("mine",)})
    assert any("'output' is called like replies" in note for note in reading.notes)


def test_zeros_and_ones_are_replies_where_right_answers_are_too() -> None:
    rows = [
        {"id": n, "label": n % 2, "pred": n % 2, "output": f"some text on {n}"} for n in range(N)
    ]
    Path("binary.jsonl").write_text(as_lines(rows))
    assert recognise_predictions(Path("binary.jsonl")).column("verdict") != "pred"


@pytest.mark.parametrize("join", ["\n".join, list])
def test_lists_of_right_and_wrong_answers_of_sentences_are_no_options(
    join: Callable[[list[str]], Any],
) -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "correct_answers": join([f"It is a cup {n}.", f"It is mug {n}."]),
            "incorrect_answers": join([f"It is a car {n}.", f"It is bus {n}."]),
            "model_answer": f"I would think that it is the cup of number {n}, or the like.",
            "truthfulness": "yes" if n % 5 else "no",
        }
        for n in range(N)
    ]
    Path("truths.jsonl").write_text(as_lines(rows))
    reading = recognise_predictions(Path("truths.jsonl"))
    assert not reading.column("distractors")
    assert not reading.column("options")
    assert sn.score("truths.jsonl").value() == pytest.approx(0.8)


def test_verdicts_on_other_things_and_scores_have_no_part() -> None:
    for name in ("used_correct_page", "judge.contains_correct_claim"):
        assert not is_verdict(name), name
        assert name_score("verdict", name) == 0, name
    for name in ("answer_exact_match", "answer_f1", "judge.best_answer_similarity"):
        assert name_score("answer", name) == 0, name
    assert name_score("verdict", "correct") > PARTLY


def test_steps_of_a_model_are_not_the_replies_of_another() -> None:
    rows = [
        {
            "question": r["question"],
            "answer": r["gold"],
            "gpt-4.1-steps": "1",
            "gpt-4.1-answers": r["said"],
        }
        for r in questions()
    ]
    Path("steps.jsonl").write_text(as_lines(rows))
    [file] = read_predictions(recognise_predictions(Path("steps.jsonl")))
    assert file.rows[1].reply == rows[1]["gpt-4.1-answers"]


def test_rows_with_options_that_right_answers_do_not_name_are_refused_where_they_are_most() -> None:
    rows = [
        {
            "question": f"Which of {n}?",
            "options": ["a cat", "a dog"],
            "answer": "an emu" if n < 25 else "a cat",
            "prediction": "a cat",
        }
        for n in range(40)
    ]
    Path("options.jsonl").write_text(as_lines(rows))
    with pytest.raises(DataError, match="25 of 40 rows with options"):
        sn.score("options.jsonl")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "model_id,task_id,score,url\n" + "".join(f"m{n},mmmu,{n},u{n}\n" for n in range(9)),
            "--published|published",
        ),
    ],
)
def test_tables_without_replies_say_what_they_hold(content: str, words: str) -> None:
    Path("table.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        sn.score("table.csv")


def test_an_object_of_boxes_by_id_is_called_so() -> None:
    boxes = {f"{n}.jpg": [0.5, 1.5, n, n + 0.25] for n in range(200)}
    Path("boxes.json").write_text(as_json(boxes))
    with pytest.raises(DataError, match="200 keys are ids"):
        sn.score("boxes.json")
