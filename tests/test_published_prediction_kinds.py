"""Kinds of published prediction files, each as a small invented sibling with the number that follows from its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import snellen as sn
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply
from snellen.extraction.closed_answers import breaks_off
from snellen.interchange.predictions.taking import FileReading, import_runs
from snellen.metrics.hallucination import read_yes_no
from snellen.report.findings import findings
from snellen.report.run_view import run_views

N = 40


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_lines(name: str, rows: Sequence[Any]) -> Path:
    path = Path(name)
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows))
    return path


def first_sentence(path: Path) -> str:
    results = sn.score(path)
    return findings(run_views(results.runs, results.rows))[0]


# --- verdicts that contradict the headline --------------------------------------------------------------------------


@pytest.mark.parametrize(("judged_right", "is_said"), [(0.8, True), (0.45, False)])
def test_verdicts_far_from_the_reading_of_a_choice_are_in_the_first_sentence(
    judged_right: float, is_said: bool
) -> None:
    rows = [
        {
            "question": f"What is thing {n}?",
            "options": [f"cup {n}", f"jug {n}", f"pan {n}", f"pot {n}"],
            "answer": "ABCD"[n % 4],
            "response": "ABCD"[n % 4 if n % 5 < 2 else (n + 1) % 4],
            "correct": n < judged_right * N,
        }
        for n in range(N)
    ]
    sentence = first_sentence(write_lines("choices.jsonl", rows))
    assert "answers 40.0% of the questions correctly" in sentence
    assert (f"but {judged_right:.1%} by the file's own verdicts" in sentence) == is_said


# --- a column for each model -----------------------------------------------------------------------------------------

PAINTINGS = ("The Scream", "Guernica", "Sunflowers", "The Night Watch", "Water Lilies")


def answered_by(step: int) -> list[str]:
    """What a model says that is wrong on one in `step` paintings."""
    return [PAINTINGS[(n + (n % step == 0)) % 5] for n in range(N)]


@pytest.mark.parametrize(
    ("gold", "first", "second"),
    [
        ("answer", "GPT4V", "Gemini Pro"),
        ("ground_truth", "GPT4V_answer", "Gemini Pro_answer"),
        ("ground_truth", "baseline_prediction", "finetuned_prediction"),
        ("answer", "pred_vitb", "pred_vitl"),
        ("answer", "ours", "Random"),
        ("correct_answer", "resnet50-vqa", "clip_linear"),
    ],
)
def test_each_column_of_a_model_is_a_run(gold: str, first: str, second: str) -> None:
    rows: list[dict[str, Any]] = []
    for n, said in enumerate(zip(answered_by(4), answered_by(2), strict=True)):
        asked = {"image": f"{n}.jpg", "question": "Which painting is it?", "artist": f"Painter {n}"}
        rows.append({**asked, gold: PAINTINGS[n % 5], first: said[0], second: said[1]})
    runs = import_all(write_lines("paintings.jsonl", rows))
    assert [run.name.partition("-")[2].partition("-")[2] for run in runs] == [
        slug(first),
        slug(second),
    ]
    assert [sn.score(run).value() for run in runs] == [0.75, 0.5]


def import_all(path: Path) -> list[Path]:
    return import_runs([path], FileReading())


def test_options_and_kinds_of_answers_are_no_models() -> None:
    with_options = [
        {
            "stem": f"Which is {n}?",
            **{f"op{letter}": PAINTINGS[(n + place) % 5] for place, letter in enumerate("abcd")},
            "cop": n % 4,
            "raw_output": f"I say {'ABCD'[n % 4]}.",
            "final_output": "ABCD"[n % 4],
        }
        for n in range(N)
    ]
    [run] = import_all(write_lines("options.jsonl", with_options))
    assert sn.score(run).value() == 1.0
    unanswered = [
        {name: cell for name, cell in row.items() if not name.endswith("output")}
        for row in with_options
    ]
    with pytest.raises(DataError, match="no column is recognised as the replies"):
        import_all(write_lines("unanswered.jsonl", unanswered))


# --- replies that were cut ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "reply", "reading"),
    [
        ("Is the heart enlarged?", "The heart is", None),
        ("Is the heart enlarged?", "The heart appears to be", None),
        ("Is the heart enlarged?", "The heart is not", "no"),
        ("Are there lines in the lung fields?", "According to the chest X-ray,", None),
        ("Are there lines in the lung fields?", "According to the image, there are", None),
        ("Are there lines in the lung fields?", "According to the image, there are no", "no"),
        ("Is there a dog in the image?", "There is a", None),
        ("Is there a dog in the image?", "Yes, the image shows", "yes"),
        ("Is there a dog in the image?", "There is no dog visible in", "no"),
        ("Is there a dog in the image?", "It is hard to tell whether there is a dog", None),
    ],
)
def test_a_reply_that_was_cut_before_its_answer_says_neither(
    question: str, reply: str, reading: str | None
) -> None:
    assert read_yes_no(AskedReply(reply, question)) == reading
    if reading is not None:
        assert not breaks_off(reply)
