"""Files of predictions of strangers, by kind: small invented ones, with the number that counting by hand gives."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest

import small
import snellen as sn
from snellen.errors import DataError
from snellen.formats.containers import records_in
from snellen.formats.listed_cells import python_literal
from snellen.interchange.predictions.json_replies import answer_field, field_of_reply
from snellen.interchange.predictions.shown_options import listed_options
from snellen.interchange.predictions.taking import FileReading, import_runs, taken_files
from snellen.recognition.verdicts import verdict_of_cell
from snellen.runs.run_folder import read_manifest
from strangers_tables import FEELINGS, N, feeling, lines, table

THINGS = ("a red cube", "a blue ball", "a green cone", "a grey mug")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- which column is which -------------------------------------------------------------------------------------------


def test_a_predicted_attribute_is_compared_with_the_attribute() -> None:
    rows = [
        {"image": f"{n}.jpg", "emotion": FEELINGS[n % 4], "pred_emotion": feeling(n)}
        for n in range(N)
    ]
    assert sn.score(table("faces.csv", rows)).value() == 0.75


def test_each_of_several_predicted_attributes_is_a_question() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        gender = ("female", "male")[n % 2]
        rows.append(
            {
                "image": f"{n}.jpg",
                "gender": gender,
                "emotion": FEELINGS[n % 4],
                "pred_gender": gender if n % 8 else "male",  # wrong where n is 0, 8, 16, 24, 32
                "pred_emotion": feeling(n),  # 30 of 40
            }
        )
    assert sn.score(table("faces.csv", rows)).value() == pytest.approx((35 + 30) / 80)


def test_fields_of_a_reply_in_json_are_compared_with_columns() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(12):
        said = {"order_total": {"value": f"{n}.00"}, "payment": "cash" if n % 3 else "card"}
        rows.append(
            {
                "sample_id": n,
                "is_gold": 1,
                "order_total_gt_value": str(n),
                "payment_gt_value": "cash",
                "model_json": json.dumps(said),
            }
        )
    # 12 totals, which are written otherwise, and 8 of 12 ways to pay.
    assert sn.score(table("orders.csv", rows)).value() == pytest.approx(20 / 24)


def test_what_was_read_in_a_raw_reply_counts_if_only_that_has_the_words_of_the_right_answers() -> (
    None
):
    rows = [
        {
            "file": f"{n}.tif",
            "gt_defect_present": n % 2 == 0,
            "llava_defect_present": n % 4 == 0,
            "llava_raw_response": f"DEFECT: {('Yes', 'No')[n % 4 > 0]}\nTYPE: colour",
        }
        for n in range(N)
    ]
    assert sn.score(table("defects.csv", rows)).value() == 0.75


def test_models_are_told_by_their_columns_of_verdicts() -> None:
    rows = [
        {
            "file": f"{n}.tif",
            "gt_defect_present": n % 2 == 0,
            "clip_defect_predicted": True,
            "llava_defect_present": n % 4 == 0,
            "clip_correct": n % 2 == 0,
            "llava_correct": n % 4 != 2,
        }
        for n in range(N)
    ]
    runs = import_runs([Path(table("defects.csv", rows))], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.5, 0.75]


def test_facts_that_are_always_the_right_answer_are_no_models() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "label": FEELINGS[n % 4],
            "emotion_text": FEELINGS[n % 4],
            "clip": feeling(n),
            "blip2": FEELINGS[n % 4] if n % 5 else "angry",
        }
        for n in range(N)
    ]
    runs = import_runs([Path(table("models.csv", rows))], FileReading())
    # clip is wrong where n is 0, 4, ...; blip2 where n is 0, 5, ... and not angry.
    assert [sn.score(run).value() for run in runs] == [0.75, pytest.approx(34 / 40)]


def test_verdicts_tell_which_of_several_columns_has_the_replies() -> None:
    rows = [
        {
            "question": f"Which is {n}?",
            "choices": FEELINGS,
            "answer": FEELINGS[n % 4],
            "element": FEELINGS[n % 4] if n % 2 else "sad",
            "free_form_vqa": FEELINGS[(n + 1) % 4],
            "multiple_choice_vqa": feeling(n),
            "scores": int(feeling(n) == FEELINGS[n % 4]),
        }
        for n in range(N)
    ]
    assert sn.score(lines("tifa.jsonl", rows)).value() == 0.75


def test_answers_before_and_after_a_check_are_runs() -> None:
    rows = [
        {
            "question": f"Is there a dog in image {n}?",
            "answer": ("yes", "no")[n % 2],
            "initial_answer": "yes",
            "final_answer": ("Yes, there is.", "No.")[n % 2],
            "initial_correct": n % 2 == 0,
            "verified_correct": True,
        }
        for n in range(N)
    ]
    runs = import_runs([Path(lines("checked.jsonl", rows))], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.5, 1.0]


def test_a_caption_beside_its_foil_is_right_and_what_a_model_chose_is_its_reply() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        caption, foil = f"a cat and a dog on bed {n}", f"a cat and a cow on bed {n}"
        chosen = "" if n % 8 == 0 else foil if n % 8 == 1 else caption
        answer = {"free_form_answer": "(1)", "multiple_choice_answer": chosen}
        rows.append(
            {
                "answer": answer,
                "caption": caption,
                "negative_caption": foil,
                "filename": f"{n}.jpg",
                "correct": chosen == caption,
            }
        )
    # Rows without a choice count as not right, as the file says: 30 of 40.
    assert sn.score(lines("foils.jsonl", rows)).value() == 0.75


def test_captions_of_models_are_compared_with_the_given_ones() -> None:
    words = "the small ship sails along a far coast at dusk".split()
    rows = [
        {
            "image": f"{n}.jpg",
            "base_caption": f"a picture {n}",
            "lora_caption": f"{' '.join(words)} {n}",
            "given_caption": f"{' '.join(words)} {n}",
        }
        for n in range(N)
    ]
    runs = import_runs([Path(table("captions.csv", rows))], FileReading())
    first, second = [sn.score(run) for run in runs]
    assert {row.metric for row in first.rows} >= {"cider"}
    assert first.value() < second.value()


def test_points_are_compared_with_boxes() -> None:
    rows = [
        {
            "img_path": f"{n}.png",
            "prompt_to_evaluate": f"Close window {n}",
            "pred": [50.0 if n % 4 else 500.0, 20.0],
            "raw_response": '{"name": "left_click", "coordinate": [50, 20]}',
            "bbox": [10, 10, 100, 30],
            "correctness": "correct" if n % 4 else ("wrong_format" if n % 8 else "wrong"),
        }
        for n in range(N)
    ]
    Path("clicks.json").write_text(json.dumps({"details": rows, "metrics": {"acc": 0.75}}))
    assert sn.score("clicks.json").value() == 0.75


def test_a_column_of_facts_whose_cells_replies_have_holds_the_right_answers() -> None:
    rows = [{"image": f"{n}.jpg", "domain": FEELINGS[n % 4], "pred": feeling(n)} for n in range(N)]
    assert sn.score(table("domains.csv", rows)).value() == 0.75
    without = [{**row, "pred": FEELINGS[(n // 4) % 4]} for n, row in enumerate(rows)]
    with pytest.raises(DataError, match="without right answers"):
        sn.score(table("unrelated.csv", without))


def test_right_answers_that_no_reply_can_be_are_refused() -> None:
    rows = [
        {
            "image": f"{n}.png",
            "ground_truth": f"finding_{n % 10}",
            "prompt_text": ("Is this an MRI scan? (Yes/No)", "Which is it: [A] CT [B] MRI?")[n % 2],
            "model_response": ("Yes", "A. A CT scan")[n % 2],
        }
        for n in range(N)
    ]
    rows += [
        {**row, "prompt_text": "Is this a CT scan? (Yes/No)", "model_response": "No"}
        for row in rows
    ]
    with pytest.raises(DataError, match=r"do not answer these questions.*'answer': 'NAME'"):
        sn.score(table("probes.csv", rows))


def test_verdicts_on_sentences_are_no_right_answers() -> None:
    rows = [
        {
            "question": "Describe the image.",
            "image": f"{n}.jpg",
            "response": f"A person rides horse {n} across a field.",
            "label": "ACCURATE" if n % 8 else "INACCURATE",
        }
        for n in range(N)
    ]
    with pytest.raises(DataError, match="without right answers"):
        sn.score(lines("sentences.jsonl", rows))


@pytest.mark.parametrize(
    "names",
    [("clip_correct", "xvlm_correct"), ("mistralai/Mixtral-8x7B", "gpt-4-1106")],
)
def test_verdicts_alone_have_a_result_for_each_model(names: tuple[str, str]) -> None:
    rows = [
        {"prompt": f"What is in {n}.jpg?", names[0]: n % 2 == 0, names[1]: True} for n in range(N)
    ]
    runs = import_runs([Path(table("verdicts.csv", rows))], FileReading())
    assert [sn.score(run).value("recorded_verdict") for run in runs] == [1 / 2, 1]


# --- how replies are read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("kind", ["number", "choice", "text", "yes-no"])
def test_the_answer_in_a_reply_in_json_is_read(kind: str, *, is_fenced: bool) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        wrong = n % 4 == 0
        row: dict[str, Any] = {"id": n, "question": f"What about {n}?"}
        match kind:
            case "number":
                row["answer"], said = str(n), n + wrong
            case "choice":
                row |= {"options": THINGS, "answer": "ABCD"[n % 4]}
                said = "B" if wrong else "ABCD"[n % 4]
            case "text":
                row["answer"], said = f"{n} euros", f"{n + wrong} euros"
            case _:
                row["question"] = f"Is there a dog in {n}?"
                row["answer"], said = ("yes", "no")[n % 2], "No" if wrong else ("Yes", "No")[n % 2]
        reply = json.dumps({"reason": "A is red; no doubt: 3 of 4. Yes", "answer": said})
        row["response"] = f"```json\n{reply}\n```" if is_fenced else reply
        rows.append(row)
    assert sn.score(lines("json.jsonl", rows)).value() == 0.75


def test_fields_of_replies() -> None:
    replies = ['{"thought": "b", "final_answer": "A", "answer": "x"}', "{'final_answer': 'B'}"]
    assert answer_field(replies, ["A", "B"], "label") == "final_answer"
    assert answer_field([r"\frac{a}{b}", "{3}"], ["A"], "label") == ""
    assert answer_field(['{"total": 1}'], ['{"total": 2}'], "answer") == ""
    assert field_of_reply('So: {"a": {"b": 1}, "label": "cat"}', "label") == "cat"
    assert field_of_reply("a cat", "label") == "a cat"


def test_an_answer_in_an_object_of_the_reply_is_the_reply() -> None:
    rows = [
        {
            "id": n,
            "question": f"What does it cost in {n}?",
            "answer": f"{n} euros",
            "response": {"answer": f"{n + (n % 4 == 0)} euros", "explanation": "it says so"},
        }
        for n in range(N)
    ]
    assert sn.score(lines("objects.jsonl", rows)).value() == 0.75


def test_short_words_for_yes_and_no_choose_an_option() -> None:
    rows = [
        {
            "question": f"Is there a dog in {n}?",
            "options": ["yes", "no"],
            "answer": "AB"[n % 2],
            "response": "It isn't."
            if n % 4 == 0
            else ("Sure, there is.", "I don't think so.")[n % 2],
        }
        for n in range(N)
    ]
    assert sn.score(lines("choices.jsonl", rows)).value() == 0.75


def test_a_reply_that_names_none_of_a_closed_set_has_nothing_right() -> None:
    findings = [
        "there is no sign of a fracture in the bone",
        "there is a clear fracture of the left bone",
        "there is a small tumour in the upper lobe",
    ]
    rows = [
        {
            "question": "What does the scan show?",
            "answer": findings[n % 3],
            "response": findings[n % 3] if n % 30 == 0 else "a scan of a bone",
        }
        for n in range(60)
    ]
    assert sn.score(lines("closed.jsonl", rows)).value() == pytest.approx(2 / 60)


@pytest.mark.parametrize(
    "prompt",
    [
        "Which? A. red cube B. blue ball C. green cone. Choose one letter and answer with it only.",
        "Which?\nA.red cube\nB.blue ball\nC.green cone\nAnswer with the letter.",
        "Which?\n**A.** red cube\n**B.** blue ball\n**C.** green cone",
        "Which?\n[A] red cube\n[B] blue ball\n[C] green cone",
        "Which?\nA - red cube\nB - blue ball\nC - green cone",
        "Choose from the following:\na) red cube\nb) blue ball\nc) green cone\nanswer:",
        "Options:\n1. red cube\n2. blue ball\n3. green cone\nChoose the number.",
    ],
)
def test_options_are_listed_in_many_ways(prompt: str) -> None:
    options = [option.rstrip(".") for option in listed_options(prompt)]
    assert options == ["red cube", "blue ball", "green cone"]


def test_steps_with_numbers_are_no_options() -> None:
    assert listed_options("Do this:\n1. Look at the image.\n2. Count the dogs.") == ()
    assert listed_options("Which? A. left B. right C. choose freely")[-1] == "choose freely"


def test_a_list_from_a_to_z_may_be_followed_by_another_mark() -> None:
    lines = [f"{letter}. thing {letter.lower()}" for letter in ascii_uppercase]
    options = listed_options("\n".join(["Which?", *lines, "B. Answer with one letter."]))
    assert options == tuple(f"thing {letter.lower()}" for letter in ascii_uppercase)


def test_the_files_verdicts_are_the_headline_where_its_replies_are_read_otherwise() -> None:
    rows = [
        {
            "question": f"Which thing is {n}?",
            "choices": THINGS,
            "answer": THINGS[n % 4],
            "response": f"I see {THINGS[n % 4]}, {THINGS[(n + 1) % 4]} and more. Any questions?",
            "true_false": n % 5 != 0,
        }
        for n in range(N)
    ]
    assert sn.score(lines("judged.jsonl", rows)).value() == 0.8


# --- layouts ---------------------------------------------------------------------------------------------------------


def test_an_item_with_a_list_of_words_beside_its_questions_is_read() -> None:
    questions = [
        {"question": f"Is there thing {n}?", "llava_answer": "Yes", "label": "yes"}
        for n in range(3)
    ]
    content = {f"{n}.jpg": {"detected": ["a", "b"], "questions": questions} for n in range(4)}
    records = records_in(content)
    assert records is not None
    assert len(records) == 4
    Path("items.json").write_text(json.dumps(content))
    assert sn.score("items.json").value() == 1.0


def test_rows_two_levels_down_are_found_beside_sums() -> None:
    row = {"question": "is it red?", "choices": ["yes", "no"], "answer": "yes", "scores": 1}
    details = {f"{n}.jpg": {f"is it {m}?": row for m in range(4)} for n in range(3)}
    content = {"average": 1.0, "by_type": {"color": 1, "object": 0.5}, "details": details}
    records = records_in(content)
    assert records is not None
    assert len(records) == 12
    assert records[0]["answer"] == "yes"


def test_the_main_question_of_a_record_counts_and_not_its_variants() -> None:
    rows = [
        {
            "question_id": n,
            "original": {
                "question": f"What is {n}?",
                "answer": f"thing {n}",
                "model_prediction": f"thing {n}",
            },
            "variants": [
                {
                    "variant_question": "And if not?",
                    "expected_answer": "unknown",
                    "model_prediction": "no",
                }
            ],
        }
        for n in range(N)
    ]
    [run] = import_runs([Path(lines("variants.jsonl", rows))], FileReading())
    assert sn.score(run).value() == 1.0


def test_rows_without_a_right_answer_are_named_and_left_out() -> None:
    rows = [
        {
            "id": n,
            "question": f"Which is {n}?",
            "options": THINGS,
            "answer": "" if n == 7 else "ABCD"[n % 4],
            "response": "B",
        }
        for n in range(N)
    ]
    run = sn.import_run(lines("hidden.jsonl", rows))
    assert sn.score(run).value() == pytest.approx(10 / 39)
    assert "without a right answer: 1 (7)" in "; ".join(read_manifest(run).notes)


def test_a_text_that_is_a_literal_of_python_alone_stays_a_text() -> None:
    assert python_literal("[...]") is None
    assert python_literal("[b'x']") is None
    rows = [
        {"question": f"{n}?", "answer": "[...]", "response": "[...] is left out"} for n in range(N)
    ]
    sn.score(lines("literal.jsonl", rows))


def test_words_with_the_kind_of_a_mistake_are_verdicts() -> None:
    assert verdict_of_cell("wrong_format") == 0.0
    assert verdict_of_cell("Inaccurate") == 0.0
    assert verdict_of_cell("wrongly") is None


# --- refusals lead on ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "row", "benchmark"),
    [
        ("mine.jsonl", {"question_id": "validation_Art_{}", "text": "B"}, "modern/mmmu"),
        ("mine.jsonl", {"question_id": "v1_{}", "text": "a man"}, "modern/mm-vet"),
        (
            "mine.jsonl",
            {"image": "VizWiz_val_0000000{}.jpg", "prediction": "a can"},
            "modern/vizwiz",
        ),
        ("textvqa_llava_7b.jsonl", {"question_id": "{}", "text": "a"}, "modern/textvqa"),
    ],
)
def test_a_refusal_names_the_benchmark(name: str, row: dict[str, str], benchmark: str) -> None:
    rows = [{key: text.format(n) for key, text in row.items()} for n in range(9)]
    rows = [{**cells, "prompt": f"What is thing {n}?"} for n, cells in enumerate(rows)]
    with pytest.raises(DataError, match=f"benchmark='{benchmark}'"):
        sn.score(lines(name, rows))


def test_a_table_of_right_answers_can_be_given() -> None:
    replies = [{"question_id": n, "prompt": f"What is {n}?", "text": feeling(n)} for n in range(N)]
    path = lines("replies.jsonl", replies)
    with pytest.raises(DataError, match=r"benchmark='ANSWERS.csv'"):
        sn.score(path)
    table("ANSWERS.csv", [{"id": n, "answer": FEELINGS[n % 4]} for n in range(N)])
    assert sn.score(sn.import_run(path, benchmark="ANSWERS.csv")).value() == 0.75
    table("others.csv", [{"id": f"x{n}", "answer": "A"} for n in range(N)])
    with pytest.raises(DataError, match="give each right answer the id of its row"):
        sn.import_run(path, benchmark="others.csv")


# --- more layouts and names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        lambda n: {
            "true_diagnosis": f"disease {n % 7}",
            "gpt4o_diagnosis": said(n),
            "rad_diagnosis": said(n),
        },
        lambda n: {"gold": f"disease {n % 7}", "run1": said(n), "run2": said(n)},
        lambda n: {"human": f"disease {n % 7}", "gpt4o": said(n), "gemini": said(n)},
    ],
)
def test_columns_of_models_are_told_by_the_right_answers(row: Any) -> None:
    rows = [{"case": f"c{n}", **row(n)} for n in range(N)]
    runs = import_runs([Path(table("cases.csv", rows))], FileReading())
    assert [sn.score(run).value() for run in runs] == [0.75, 0.75]


def said(n: int) -> str:
    return f"disease {n % 7}" if n % 4 else "influenza"


def test_a_model_s_choice_among_lettered_options() -> None:
    rows = [
        {
            "question": f"Which is {n}?",
            **{f"choice_{letter}": thing for letter, thing in zip("abcd", THINGS, strict=True)},
            "correct": f"choice_{'abcd'[n % 4]}",
            "model_choice": "ABCD"[n % 4] if n % 4 else "B",
        }
        for n in range(N)
    ]
    assert sn.score(table("choices.csv", rows)).value() == 0.75


def test_best_guesses_are_no_options_and_confidences_no_models() -> None:
    rows = [
        {
            "file": f"{n}.png",
            "true_class": FEELINGS[n % 4],
            "pred_class": feeling(n),
            "pred_confidence": 0.9,
            "top5": "['happy', 'sad']",
        }
        for n in range(N)
    ]
    assert sn.score(table("classes.csv", rows)).value() == 0.75


def test_lists_of_labels_are_compared_as_sets() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "labels": ["cat", "dog"] if n % 2 else ["car"],
            "predictions": ["bus"] if n % 4 == 0 else ["dog", "cat"] if n % 2 else ["car"],
        }
        for n in range(N)
    ]
    assert sn.score(lines("labels.jsonl", rows)).value() == 0.75


def test_lists_in_an_object_inside_are_the_columns_of_a_table() -> None:
    content = {
        "model": "mine",
        "accuracy": 0.75,
        "results": {
            "predictions": [feeling(n) for n in range(N)],
            "ground_truths": [FEELINGS[n % 4] for n in range(N)],
        },
    }
    Path("lists.json").write_text(json.dumps(content))
    assert sn.score("lists.json").value() == 0.75


def test_the_last_turn_of_a_conversation_to_learn_from_is_right() -> None:
    rows = [
        {
            "id": n,
            "conversations": [
                {"from": "human", "value": f"<image>\nWhich feeling is {n}?"},
                {"from": "gpt", "value": FEELINGS[n % 4]},
            ],
            "model_output": feeling(n),
        }
        for n in range(N)
    ]
    assert sn.score(lines("talks.jsonl", rows)).value() == 0.75


def test_of_a_record_that_asks_itself_variants_inside_are_left_out() -> None:
    rows = [
        {
            "original_question": f"What is {n}?",
            "original_answer": f"thing {n}",
            "original_model_prediction": f"thing {n}" if n % 4 else "nothing",
            "original_correct": n % 4 != 0,
            "details": [
                {"variant_question": "And?", "expected_answer": "no", "model_prediction": "no"}
            ],
        }
        for n in range(N)
    ]
    assert sn.score(lines("families.jsonl", rows)).value() == 0.75


def test_a_column_of_replies_that_is_empty_is_named() -> None:
    rows = [{"id": n, "question": f"What is {n}?", "gt": "a", "model_answer": ""} for n in range(N)]
    with pytest.raises(DataError, match="'model_answer' is empty in all 40 rows"):
        sn.score(lines("template.jsonl", rows))


def test_each_model_has_its_verdicts_whatever_its_name() -> None:
    rows = [
        {
            "Question": f"Which feeling is {n}?",
            "Ground Truth": FEELINGS[n % 4],
            "GPT-4o": f"{FEELINGS[n % 4]} or {FEELINGS[(n + 1) % 4]}",
            "Claude 3.5": FEELINGS[n % 4],
            "GPT-4o Correct": "No" if n % 4 else "Yes",
            "Claude 3.5 Correct": "Yes",
        }
        for n in range(N)
    ]
    taken = taken_files(Path(table("models.csv", rows)), FileReading())
    verdicts = [[row.verdict for row in of_model.file.rows] for of_model in taken]
    assert [sum(map(bool, of_model)) for of_model in verdicts] == [10, 40]


def test_a_refused_file_leaves_no_folder() -> None:
    rows = [
        {"id": n // 2, "question": f"What is {n // 2}?", "answer": "a", "response": str(n)}
        for n in range(N)
    ]
    with pytest.raises(DataError, match="say different things"):
        sn.score(lines("twice.jsonl", rows))
    assert not list(Path("runs").glob("*"))


def test_options_in_the_order_shown_count_and_not_the_foil_beside_them() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        pair = (f"the open door {n}", f"the crouched door {n}")
        shown = pair if n % 2 else pair[::-1]
        rows.append(
            {
                "id": n,
                "true_caption": pair[0],
                "false_caption": pair[1],
                "option_a": shown[0],
                "option_b": shown[1],
                "correct_label": "A" if n % 2 else "B",
                "raw_output": "A.",
            }
        )
    assert sn.score(lines("order.jsonl", rows)).value() == 0.5


def test_an_answer_called_correct_is_no_verdict_beside_the_answers_of_people() -> None:
    rows = [
        {
            "question": f"Is thing {n} red?",
            "correct_answer": "yes" if n % 2 else "no",
            "human_answer": "no",
            "gpt4o_answer": "yes" if n % 4 else "no",
        }
        for n in range(N)
    ]
    # By hand: wrong where n is even and no multiple of 4, which is a quarter of the rows; people are right in half.
    assert sn.score(table("people.csv", rows)).value() == 0.75


def test_replies_of_two_ways_of_asking_are_two_runs() -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "answer": f"thing {n}",
            "prediction_direct": f"thing {n}" if n % 2 else "nothing",
            "prediction_cot": f"thing {n}",
        }
        for n in range(N)
    ]
    taken = taken_files(Path(table("ways.csv", rows)), FileReading())
    assert [of_way.file.model for of_way in taken] == ["prediction_direct", "prediction_cot"]


def test_samples_of_lmms_eval_count_the_answers_of_all_annotators() -> None:
    answers = ["coke"] * 2 + ["coca cola"] * 8
    rows = [
        {
            "doc_id": n,
            "doc": {"question": f"What does sign {n} say?", "answers": answers},
            "target": "coca cola",
            "resps": [["coke"]],
            "filtered_resps": ["coke"],
        }
        for n in range(N)
    ]
    # VQA accuracy, the mean over each nine of ten annotators: (8 * 2/3 + 2 * 1/3) / 10.
    value = sn.score(lines("textvqa_val_samples.jsonl", rows)).value()
    assert value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("metric", "reply_field", "gold_field", "target"),
    [
        ("exact_match", "pred", "answer", "answer"),  # MaXM's target is the name of the field
        ("anls", "pred_answer", "answer", "answer"),
        ("some_score", "prediction", "ground_truth", ""),
    ],
)
def test_references_of_a_metric_of_lmms_eval_are_right_answers(
    metric: str, reply_field: str, gold_field: str, target: str
) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        reply = f"râul {n}" if n % 4 else "nimic"  # 30 of 40 are the second of two references
        handed = {gold_field: [f"un canal {n}", f"râul {n}"], reply_field: reply, "image_id": n}
        rows.append(
            {
                "doc_id": n,
                "target": target,
                "filtered_resps": [reply],
                metric: handed,
                "input": f"Ce este {n}?",
            }
        )
    [taken] = taken_files(Path(lines("samples_maxm.jsonl", rows)), FileReading())
    assert all(row.verdict is None for row in taken.file.rows)
    assert not any("own verdicts" in note for note in taken.file.notes)
    assert sn.score("samples_maxm.jsonl").value() == 0.75


def test_the_verdicts_of_an_object_for_a_metric_are_named_by_their_column() -> None:
    rows = [
        {
            "doc_id": n,
            "target": f"thing {n}",
            "filtered_resps": [f"thing {n}" if n % 4 else "another"],
            "mmmu_acc": {"answer": f"thing {n}", "parsed_pred": f"thing {n}" if n % 4 else "x"},
            "input": f"What is {n}?",
        }
        for n in range(N)
    ]
    [taken] = taken_files(Path(lines("samples.jsonl", rows)), FileReading())
    notes = " ".join(taken.file.notes)
    assert "the file's own verdicts, in 'mmmu_acc.parsed_pred': 75.0% of 40 right" in notes


def test_options_called_answers_in_samples_of_lmms_eval_are_not_all_right() -> None:
    rows = [
        {
            "doc_id": n,
            "doc": {"question": f"What is {n}?", "answers": [f"red {n}", f"blue {n}"]},
            "target": f"red {n}",
            "resps": [[f"blue {n}"]],
            "filtered_resps": [f"blue {n}"],
        }
        for n in range(N)
    ]
    assert sn.score(lines("samples.jsonl", rows)).value() == 0


def test_the_few_sentences_that_a_model_says_answer_yes_or_no() -> None:
    rows = [
        {
            "id": n,
            "question": f"Is thing {n} red?",
            "answer": "yes" if n % 2 else "no",
            "response": "Yes, I think it is so." if n % 4 else "Yes, indeed it is.",
        }
        for n in range(N)
    ]
    assert sn.score(table("sentences.csv", rows)).value() == 0.5


@pytest.mark.parametrize(
    "mark", ["**{}**, it is.", "\u201c{}\u201d, it is.", "<answer>{}</answer>", "_{}_"]
)
def test_marks_around_yes_and_no_are_no_part_of_the_words(mark: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        said = "Yes" if n % 4 else "No"
        row = {"id": n, "question": f"Is thing {n} red?", "answer": "yes" if n % 2 else "no"}
        rows.append({**row, "response": mark.format(said)})
    # Right answers are no, yes, no, yes, and replies no, yes, yes, yes: three of four are right.
    assert sn.score(table("marked.csv", rows)).value() == 0.75


@pytest.mark.parametrize("outer", ["scores", "evaluation", "metrics"])
def test_fields_of_an_object_of_scores_are_verdicts(outer: str) -> None:
    # The reply says more than the right answer in all rows; the file calls 30 of 40 right, and 20 of 40 strictly.
    rows = [
        {
            "qa_id": f"q{n}",
            "question": f"What is thing {n}?",
            "gt": f"thing {n}",
            "pred": f"thing {n}||another" if n % 4 else f"thing {n}||other",
            outer: {"a": int(n % 4 > 0), "exact": n % 2},
        }
        for n in range(N)
    ]
    summary = {"average_scores": [75.0, 50.0], "total_num_sample": N}
    Path("qa.json").write_text(json.dumps({"instances": rows, "evaluation_meta": summary}))
    [taken] = taken_files(Path("qa.json"), FileReading())
    assert [row.verdict for row in taken.file.rows] == [float(n % 4 > 0) for n in range(N)]
    notes = " ".join(taken.file.notes)
    assert f"'{outer}.a': 75.0% of 40 right ('{outer}.exact': 50.0%" in notes
    assert "may all be the answer" not in notes
    assert sn.score("qa.json").value() == 0.75


def test_votes_for_options_in_an_object_of_scores_are_no_verdicts() -> None:
    rows = [
        {
            "id": n,
            "question": f"Which is {n}?",
            "answer": f"thing {n}",
            "prediction": f"thing {n}" if n % 4 else "another",
            "scores": {"A": n % 2, "B": 1 - n % 2},
        }
        for n in range(N)
    ]
    [taken] = taken_files(Path(lines("votes.jsonl", rows)), FileReading())
    assert all(row.verdict is None for row in taken.file.rows)


def test_a_printed_average_that_the_verdicts_do_not_give_is_named() -> None:
    rows = [
        {"question": f"What is {n}?", "gt": f"thing {n}", "pred": f"thing {n}", "scores": {"a": 1}}
        for n in range(N)
    ]
    summary = {"average_scores": [52.0]}
    Path("qa.json").write_text(json.dumps({"instances": rows, "evaluation_meta": summary}))
    [taken] = taken_files(Path("qa.json"), FileReading())
    assert "the file prints 52.0% in 'evaluation_meta.average_scores'" in " ".join(taken.file.notes)


def test_whether_the_format_is_right_says_nothing_of_the_answer() -> None:
    rows = [
        {
            "question": f"What is {n}?",
            "answer": f"thing {n}",
            "prediction": f"thing {n}" if n % 4 else "nothing",
            "format_correct": int(n % 10 > 0),
        }
        for n in range(N)
    ]
    assert sn.score(table("format.csv", rows)).value() == 0.75


def test_a_word_within_the_name_of_a_class_answers_no_question() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "question": "Is this an X-ray? (Yes/No)",
            "ground_truth": f"knee_arthritis_{n}" if n % 2 else f"general_anatomy_{n}",
            "response": f"No, it is a knee, {n}." if n % 2 else "Yes",
        }
        for n in range(N)
    ]
    with pytest.raises(DataError, match="do not answer these questions"):
        sn.score(table("classes.csv", rows))


@pytest.mark.parametrize("flag", ["is_success", "task_solved", "succeeded"])
def test_the_number_of_a_log_of_tasks_without_replies_is_how_many_succeeded(flag: str) -> None:
    rows = [{"name": f"env_{n}", "memory": [], flag: n % 4 > 0} for n in range(N)]
    Path("trial.json").write_text(json.dumps(rows))
    assert sn.score("trial.json").value("recorded_verdict") == 3 / 4


@pytest.mark.parametrize("field", ["r", "reward", "score"])
def test_scores_in_lists_of_samples_are_the_verdicts_of_the_file(field: str) -> None:
    rows = []
    for n in range(N):
        scores = [n % 4 == 0, 1, 0.5]  # (1 / 4 + 1 + 1 / 2) / 3 on average
        infos = [{field: score, "steps": 7} for score in scores]
        rows.append({"idx": n, "ys": ["a", "b", "c"], "infos": infos})
    Path("samples.json").write_text(json.dumps(rows))
    results = sn.score("samples.json")
    assert results.value("recorded_verdict") == pytest.approx(1.75 / 3)
    notes = "; ".join(results.runs[0].manifest.notes)
    assert "their mean over 120 samples" in notes
    assert "40 rows (100.0%) have a sample with the full score" in notes


def test_marks_in_lists_of_samples_are_told_and_no_column_is_asked_for() -> None:
    infos = [{"score": 7.5}, {"score": 6.5}, {"score": 4.0}]
    rows = [{"idx": n, "ys": ["a", "b", "c"], "infos": infos} for n in range(N)]
    Path("samples.json").write_text(json.dumps(rows))
    with pytest.raises(DataError) as error:
        sn.score("samples.json")
    assert "'score' is 6.000 on average over 120" in str(error.value)
    assert "reply=NAME" not in str(error.value)


@pytest.mark.parametrize(
    ("right", "said", "model"),
    [
        ("ground_truth_transcription", "trocr_transcription", "trocr"),
        ("gt_text", "llava_text", "llava"),
        ("reference_translation", "qwen2_translation", "qwen2"),
    ],
)
def test_a_column_called_after_a_model_and_what_is_right_has_its_replies(
    right: str, said: str, model: str
) -> None:
    rows = [
        {"crop_path": f"{n}.jpg", said: f"word {n}", right: f"word {n}" if n % 4 else f"wood {n}"}
        for n in range(N)
    ]
    [taken] = taken_files(Path(table("words.csv", rows)), FileReading())
    assert taken.file.model == model
    assert [row.reply for row in taken.file.rows] == [f"word {n}" for n in range(N)]
    assert [row.references[0] for row in taken.file.rows][:2] == ["wood 0", "word 1"]


def test_each_of_several_columns_called_after_models_is_a_model() -> None:
    rows = [
        {
            "image": f"{n}.jpg",
            "question_text": f"What is {n}?",
            "gt_text": f"thing {n}",
            "llava_text": f"thing {n}" if n % 4 else "another",  # 30 of 40
            "qwen_text": f"thing {n}" if n % 2 else "another",  # 20 of 40
        }
        for n in range(N)
    ]
    taken = taken_files(Path(table("things.csv", rows)), FileReading())
    assert [of_model.file.model for of_model in taken] == ["llava_text", "qwen_text"]


def test_what_was_read_beside_the_right_text_of_another_thing_is_no_reply() -> None:
    rows = [
        {"id": n, "question_text": f"What is {n}?", "gt_text": f"thing {n}", "source_text": "book"}
        for n in range(N)
    ]
    with pytest.raises(DataError):
        taken_files(Path(table("things.csv", rows)), FileReading())


def test_an_object_of_numbers_is_no_replies_without_right_answers() -> None:
    summary = {"CHAIR_s": 29.4, "CHAIR_i": 15.9, "Recall": 66.0, "total_captions": 496}
    Path("chair_results.json").write_text(json.dumps(summary))
    with pytest.raises(DataError, match=r"numbers that sum up a run .*'CHAIR_s'.* and no replies"):
        sn.score("chair_results.json")
    # Ids may be words, and replies numbers.
    Path("counts.json").write_text(json.dumps({f"image_{n}": n for n in range(N)}))
    with pytest.raises(DataError, match="has replies without right answers"):
        sn.score("counts.json")


@pytest.mark.parametrize("as_text", [False, True])
def test_spellings_of_one_text_are_of_documents(as_text: bool) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        answers: Any = [f"itc limited {n}", f"ITC Limited {n}"]
        rows.append(
            {
                "generation": f"ITC Limited {n}" if n % 4 else "no such words at all",
                "answers": str(answers) if as_text else answers,
            }
        )
    Path("answers.json").write_text(json.dumps(rows))
    [taken] = taken_files(Path("answers.json"), FileReading())
    assert taken.file.metrics[0] == "anls"
    assert sn.score("answers.json").value() == 0.75


def test_synonyms_are_no_spellings_of_one_text() -> None:
    rows = [
        {
            "generation": f"sofa {n}",
            "answers": [f"sofa {n}", f"couch {n}", f"Couch {n}"][: 2 + (n < 9)],
        }
        for n in range(N)
    ]
    [taken] = taken_files(Path(lines("things.jsonl", rows)), FileReading())
    assert taken.file.metrics[0] == "typed_match"


def test_a_transcript_that_goes_on_and_on_is_named_with_what_it_adds() -> None:
    page = "the quick brown fox jumps over the lazy dog "  # 44 characters
    rows = [
        {
            "page": f"{n}.jpg",
            "bow_f1": 0.8,
            "prediction": page + ("x" if n else page * 99),
            "reference": page,
        }
        for n in range(N)
    ]
    rows = [{**row, "ocr_engine": "vlm"} for row in rows]
    [taken] = taken_files(Path(table("pages.csv", rows)), FileReading())
    notes = " ".join(taken.file.notes)
    # 99 further copies of the page are 99 errors per character, and 99 / 40 = 2.475 of the mean.
    assert "1 of 40; they add at least 2.48 to the mean rate of errors" in notes
    assert "'bow_f1' 80.0%" in notes


def test_the_rule_about_years_is_named_with_the_metric_of_charts() -> None:
    rows = [
        {"question": f"When {n} {half}?", "answer": "2010", "prediction": "2011", "split": half}
        for n in range(N)
        for half in ("test_human", "test_augmented")
    ]
    [taken] = taken_files(Path(table("charts.csv", rows)), FileReading())
    assert "numbers may be 5 % off and years may not" in " ".join(taken.file.notes)
    assert sn.score("charts.csv").value() == 0


def test_a_wide_interval_is_said_to_be_of_the_images_that_questions_share(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {
            "image": f"{n // 2}.png",
            "question": f"Is it {n}?",
            "answer": ("yes", "no")[n % 2],
            "prediction": "Yes" if n % 3 else "No",
        }
        for n in range(N)
    ]
    code, printed, _ = small.command(capsys, "score", lines("results.jsonl", rows))
    assert code == 0
    assert "there are questions on only 20 images" in printed
