"""What a file's own columns say is right, wrong or permitted: small files, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.errors import DataError
from strangers_tables import FEELINGS, N, feeling, lines, table


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("permitted", ["expected_output_space", "expected_labels", "targets"])
def test_a_list_that_all_rows_have_is_what_may_be_said(permitted: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        # feeling() is wrong in one of four rows, and every reply is in the list.
        row = {"id": n, "target_object": "the face", "true_feeling": FEELINGS[n % 4]}
        rows.append({**row, permitted: json.dumps(FEELINGS), "raw_output": feeling(n)})
    assert sn.score(table("faces.csv", rows)).value() == 0.75


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("suffix", [".txt", ".csv", ".tsv"])
def test_objects_in_a_text_file_are_read_as_json(suffix: str, *, as_list: bool) -> None:
    rows = [
        {"id": n, "question": "a, b and c; d", "answer": FEELINGS[n % 4], "prediction": feeling(n)}
        for n in range(N)
    ]
    text = json.dumps(rows, indent=1) if as_list else "\n".join(map(json.dumps, rows))
    Path(f"replies{suffix}").write_text(text)
    assert sn.score(f"replies{suffix}").value() == 0.75


@pytest.mark.parametrize(
    ("yes", "no"),
    [("satisfiable", "unsatisfiable"), ("valid", "invalid"), ("entailed", "not entailed")],
)
def test_yes_and_no_answer_for_a_word_and_its_negation(yes: str, no: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        said = "Yes" if (n % 2 == 0) == (n >= 10) else "**No**"  # wrong for 10 of 40
        rows.append(
            {"id": n, "text": f"p{n} and q", "label": yes if n % 2 == 0 else no, "pred": said}
        )
    assert sn.score(lines("logic.jsonl", rows)).value() == 0.75


@pytest.mark.parametrize(
    "flag", ["is_hallucination", "hallucinated", "is_wrong", "judge_incorrect"]
)
def test_a_flag_of_wrong_replies_is_a_verdict_the_other_way_round(flag: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        row: dict[str, Any] = {"id": n, "question": f"What is number {n}?"}
        if n % 2:  # some rows have several right answers, in numbered columns
            row |= {
                "Best_Answer1": f"It is a large tree {n}.",
                "Best_Answer2": f"An oak, number {n}.",
            }
        else:
            row["Best_Answer"] = f"It is a small house near the sea {n}."
        row |= {"response": f"That looks like a thing of the kind {n}.", flag: n % 4 == 0}
        rows.append(row)
    results = sn.score(lines("chat.jsonl", rows))
    assert results.value("recorded_verdict") == 0.75
    assert "40 rows of 40 questions" in results.runs[0].manifest.notes


def test_a_flag_that_replies_of_yes_and_no_are_about_is_no_verdict() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        said = "Yes, it is." if n % 2 else "No, it is supported."
        rows.append(
            {"id": n, "question": f"Is {n} made up?", "response": said, "hallucination": n % 4 > 1}
        )
    with pytest.raises(DataError):
        sn.score(lines("detector.jsonl", rows))


@pytest.mark.parametrize("name", ["attack_success", "jailbreak_successful", "is_successful_attack"])
def test_the_success_of_an_attack_is_no_right_reply(name: str) -> None:
    rows = [{"image": f"{n}.png", "problem": f"What is {n}?", name: n % 2 == 0} for n in range(N)]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        sn.score(lines("attacks.jsonl", rows))


def test_whether_an_attack_was_told_rightly_is_a_verdict() -> None:
    rows = [{"image": f"{n}.png", "attack_detected_correct": n % 4 == 0} for n in range(N)]
    assert sn.score(lines("attacks.jsonl", rows)).value("recorded_verdict") == 0.25


@pytest.mark.parametrize("judge", ["judge_{}", "human_judge_{}", "{}_judgement"])
def test_each_model_has_the_verdicts_of_its_own_judge(judge: str) -> None:
    n_right = {"fid": 10, "gpt35": 20, "newbing": 30}
    rows: list[dict[str, Any]] = []
    for n in range(N + 4):
        row: dict[str, Any] = {"question": f"Who won {n}?", "golden_answer": f"Ann Lee {n}"}
        for model, count in n_right.items():
            # The last four questions are improper: no model is judged, and one has no reply.
            row[f"answer_{model}"] = f"The winner of game {n} was, as far as is known, Mrs Lee."
            row[judge.format(model)] = n < count if n < N else None
            if n >= N and model == "newbing":
                row[f"answer_{model}"] = ""
        rows.append(row)
    results = sn.score(lines("judged.jsonl", rows))
    values = {
        run.manifest.model: sn.Results([run]).value("recorded_verdict") for run in results.runs
    }
    assert values == {"answer_fid": 0.25, "answer_gpt35": 0.5, "answer_newbing": 0.75}


def test_a_text_of_all_turns_of_a_dialogue_is_no_right_answer() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        turns = [f"there are {n} dogs on the wide beach today", f"the sky is blue above beach {n}"]
        talk = [
            {"round_id": k, "prompt": f"And {k}?", "response": turn} for k, turn in enumerate(turns)
        ]
        rows.append({"file_name": f"{n}.jpg", "conversations": talk, "caption": " ".join(turns)})
    Path("talk.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match="without right answers"):
        sn.score("talk.json")


@pytest.mark.parametrize(
    ("wrong", "total"), [("incorrect_answers", "total_questions"), ("errors", "num_samples")]
)
def test_a_list_of_wrong_replies_has_no_accuracy(wrong: str, total: str) -> None:
    listed = [{"id": n, "predicted_answer": "B", "ground_truth_answer": "A"} for n in range(10)]
    Path("arc.json").write_text(json.dumps({"accuracy": 0.75, total: N, wrong: listed}))
    with pytest.raises(DataError) as error:
        sn.score("arc.json")
    assert f"{wrong!r} lists only the replies that the file calls wrong (10 of 40)" in str(
        error.value
    )
    assert "75.0% in 'accuracy'" in str(error.value)


@pytest.mark.parametrize(
    ("right", "wrong"), [("faithful", "hallucination"), ("supported", "unsupported")]
)
def test_labels_of_truth_beside_sentences_are_verdicts(right: str, wrong: str) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        said = f"The face in this picture is {feeling(n)}, as it seems."
        label = right if n < 32 else wrong
        rows.append({"id": n, "true_feeling": FEELINGS[n % 4], "raw_output": said, "label": label})
    assert sn.score(table("reviewed.csv", rows)).value("recorded_verdict") == 0.8


def test_samples_of_one_row_are_one_group() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        votes = [n % 2, n % 2, n % 2, n % 2, 1]
        row = {"question": f"Is {n} odd?", "true_label": 1, "predictions": votes}
        rows.append({**row, "is_correct": n % 2 == 1})
    results = sn.score(lines("votes.jsonl", rows))
    groups = {sample.group for sample in results.runs[0].benchmarks[0].samples.values()}
    assert len(groups) == N


def test_correct_and_incorrect_are_verdicts_on_another_column() -> None:
    rows: list[dict[str, Any]] = []
    for n in range(N):
        right = "ABCD"[n % 4]
        said = right if n < 10 else "None"
        row = {"question_id": f"q{n}", "original_text": "C", "regenerated_answer": said}
        row |= {"ground_truth_answer": right, "result": "correct" if n < 10 else "incorrect"}
        rows.append(row)
    assert sn.score(lines("again.jsonl", rows)).value() == 0.25
