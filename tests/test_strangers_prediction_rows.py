"""Which question a row is of, what is right, and what to type next: small files of strangers, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.errors import DataError
from snellen.runs.run_folder import read_manifest
from strangers_tables import FEELINGS, N, feeling, lines, table


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


STYLES = ("cubism", "analytical cubism", "baroque", "realism", "mannerism", "pop art")
"""More than the classes that make any open questions a choice."""


@pytest.mark.parametrize("sentence", ["{}", "The painting is in the style of {}."])
def test_a_label_that_has_another_within_is_another_label(sentence: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(60):
        style = STYLES[n % 6]
        # Ten paintings are cubism; those of 0, 6 and 12 are called analytical cubism: 57 of 60 are right.
        said = "Analytical Cubism" if style == "cubism" and n < 18 else style
        rows.append({"image": f"{n}.jpg", "gt": style, "preds": sentence.format(said)})
    assert sn.score(table("styles.csv", rows)).value() == 0.95


def test_answers_to_questions_of_several_kinds_are_no_labels_to_choose_from() -> None:
    asked = {
        "What colour is the cat?": ("white", "White"),
        "What colour is the cow?": ("black and white", "Black and white"),
        "What colour is the dog?": ("black", "Black"),
        "Is it night?": ("yes", "Yes, it is a black night."),
        "Is it raining?": ("no", "No, it is 2 o'clock and dry."),
        "How many dogs are there?": ("2", "two"),
    }
    rows: list[dict[str, Any]] = []
    for n in range(60):
        question = list(asked)[n % 6]
        answer, reply = asked[question]
        rows.append({"id": n, "question": question, "answer": answer, "prediction": reply})
    results = sn.score(table("kinds.csv", rows))
    assert results.value("typed_match") == 1.0


def test_questions_of_several_parts_are_told_apart_where_ids_begin_anew() -> None:
    parts: dict[str, list[dict[str, Any]]] = {"on the left": [], "on the right": []}
    for n in range(10):
        right = "AB"[n % 2]
        wrong = "BA"[n % 2]
        for part, n_right in (("on the left", 8), ("on the right", 5)):  # 13 of 20
            said = right if n < n_right else wrong
            reply = f"Looking at the picture {part}. Answer: ({said})"
            parts[part].append({"id": n, "pred": [reply], "answer": f"({right})"})
    Path("parts.json").write_text(json.dumps(parts))
    assert sn.score("parts.json").value() == 0.65


def test_the_expected_verdict_is_the_answer_where_replies_say_it_and_no_other_column() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        verdict = "SAFE" if n % 2 else "UNSAFE"
        said = "UNSAFE" if n < 10 else verdict  # wrong for 1, 3, 5, 7 and 9: 35 of 40 are right
        rows.append(
            {
                "image_id": f"gauge {n}.jpg",
                "ground_truth_value": f"0.{n + 10}",
                "expected_value": f"0.{n + 10} bar",
                "expected_verdict": verdict,
                "model_response": f"The needle of gauge {n} is in view.\n\nVerdict: {said}",
            }
        )
    assert sn.score(table("gauges.csv", rows)).value() == 0.875


def test_what_the_verdict_should_be_is_no_verdict_on_the_reply() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        row = {
            "id": n,
            "question": f"What colour is ball {n}?",
            "answer": "red" if n % 2 else "blue",
        }
        rows.append({**row, "prediction": "red" if n % 4 else "grey", "expected_verdict": "yes"})
    folder = sn.import_run(table("expected.csv", rows))
    assert not any("verdicts" in note for note in read_manifest(folder).notes)
    assert sn.score(folder).value() == 0.5  # red is right in 20 of 40


def test_answers_of_annotators_are_right_and_not_the_target_that_a_model_learned_from() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        brand, other = f"brand{n}", f"maker{n}"
        # Replies to every second question are what five of ten say, and not the target: by VQA accuracy all are right.
        said = brand if n % 2 else other
        answers = [brand] * 5 + [other] * 5
        row = {"id": n, "question": f"Which brand is in picture {n}?", "answers": answers}
        rows.append({**row, "target_answer": brand, "prediction": said})
    assert sn.score(lines("brands.jsonl", rows)).value("vqa_accuracy") == 1.0


def test_a_second_refusal_keeps_the_column_that_the_first_asked_for() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        rows.append({"imagen": f"{n}.jpg", "original": f"plaza {n}", "generada": f"calle {n}"})
    name = table("leyendas.csv", rows)
    with pytest.raises(DataError, match=r"columns=\{'reply': 'NAME'\}"):
        sn.import_run(name)
    with pytest.raises(DataError, match=r"columns=\{'reply': 'generada', 'answer': 'NAME'\}"):
        sn.import_run(name, columns={"reply": "generada"})
    sn.import_run(name, columns={"reply": "generada", "answer": "original"})


def test_a_rate_of_errors_is_no_verdict_and_percentages_stay_such() -> None:
    plates = ("AB12", "CD34", "EF56", "GH78")
    rows: list[dict[str, Any]] = []
    for n in range(N):
        plate = plates[n % 4]
        said = (
            "AB1" if n % 4 == 0 else plate
        )  # one of four characters is missing in every fourth plate
        row = {"image": f"{n}.jpg", "ground_truth": plate, "prediction": said}
        rows.append({**row, "CER_score": 0.25 if n % 4 == 0 else 0.0})
    run = sn.import_run(table("plates.csv", rows))
    notes = "; ".join(read_manifest(run).notes)
    assert "verdicts" not in notes
    assert "'CER_score', 6.2% on average" in notes
    assert sn.score(run).value("character_error_rate") == 0.0625  # 0.25 / 4

    written = [
        {"id": n, "gt": "a b c d", "prediction": "a b c e", "cer": 14.0 + n % 2} for n in range(N)
    ]
    notes = "; ".join(read_manifest(sn.import_run(table("lines.csv", written))).notes)
    assert "'cer', 14.5 on average" in notes


def test_percentages_of_which_most_are_0_stay_such() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        is_right = n < 16  # 16 of 40: 40 %
        said = "a red bus" if is_right else "42"
        row = {"id": n, "question": f"What is {n}?", "answer": "a red bus", "prediction": said}
        rows.append({**row, "anls": 100 if is_right else 0})
    notes = "; ".join(read_manifest(sn.import_run(table("percentages.csv", rows))).notes)
    assert "'anls', 40.0 on average" in notes


def test_a_model_that_some_rows_do_not_name_is_one_model() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        model = "maker/model" if n < 10 else ""
        row = {"id": n, "question": f"What is {n}?", "answer": FEELINGS[n % 4], "model_id": model}
        rows.append({**row, "response": feeling(n)})
    folder = sn.import_run(table("one.csv", rows))
    assert any("is empty in 30 rows" in note for note in read_manifest(folder).notes)
    assert sn.score(folder).value() == 0.75  # feeling() is wrong in one of four, in all 40 rows


@pytest.mark.parametrize("has_ids", [True, False])
def test_rows_without_a_model_are_of_another_one_where_they_ask_the_same(*, has_ids: bool) -> None:
    rows: list[dict[str, Any]] = []
    for model in ("maker/model", ""):
        for n in range(N):
            reply = feeling(n) if model else "sad"  # "sad" is right in one of four
            row = {"id": n} if has_ids else {}
            row |= {"question": f"Who is on picture {n}?", "answer": FEELINGS[n % 4]}
            rows.append({**row, "model": model, "response": reply})
    results = sn.score(table("two.csv", rows))
    values = {run.manifest.model: sn.Results([run]).value() for run in results.runs}
    assert values == {"maker/model": 0.75, "two": 0.25}


def test_parts_with_replies_to_most_of_the_same_questions_have_results_of_their_own() -> None:
    parts: dict[str, list[dict[str, Any]]] = {"baseline": [], "ours": []}
    for n in range(N):
        row = {"id": n, "question": f"Who is on picture {n}?", "answer": FEELINGS[n % 4]}
        parts["ours"].append({**row, "prediction": feeling(n)})
        if n < 36:  # four questions have no row, and "sad" is right in one of four
            parts["baseline"].append({**row, "prediction": "sad"})
    Path("parts.json").write_text(json.dumps(parts))
    results = sn.score("parts.json")
    values = {run.manifest.model: sn.Results([run]).value() for run in results.runs}
    assert values == {"baseline": 9 / 40, "ours": 0.75}
