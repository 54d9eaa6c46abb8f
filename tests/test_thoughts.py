"""What a model thinks is never its answer, whichever way its replies come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import small
import snellen as sn
from snellen.extraction.thoughts import split_thoughts
from test_worker import served

WORDS = [f"shop {n}" for n in range(4)]
THINKING = "Is it shop 0, shop 1, shop 2 or shop 3?"
FORMS: dict[str, Callable[[str], str]] = {
    "closed": lambda answer: f"<think>\n{THINKING}\n</think>\n\n{answer}",
    "opened by the prompt": lambda answer: f"{THINKING}\n</think>\n\n{answer}",
    "never closed": lambda answer: f"<think>{THINKING}",
    "behind the answer": lambda answer: f"{answer} <think>{THINKING}</think>",
    "in capitals": lambda answer: f"<THINK>{THINKING}</THINK>{answer}",
    "Mistral's": lambda answer: f"[THINK]{THINKING}[/THINK]{answer}",
    "Kimi's": lambda answer: f"\u25c1think\u25b7{THINKING}\u25c1/think\u25b7{answer}",
    "gpt-oss's": lambda answer: (
        f"<|channel|>analysis<|message|>{THINKING}<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{answer}"
    ),
}


@pytest.fixture(autouse=True)
def in_a_folder_with_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open questions whose answers are `WORDS`."""
    monkeypatch.chdir(tmp_path)
    rows = []
    for n, word in enumerate(WORDS):
        question = f"What is written on {n}?"
        rows.append({"id": f"t{n}", "question": question, "answer": word, "image": small.cell(n)})
    sn.build(small.write(rows, Path("table.jsonl")), to="bench")


def text_metrics(results: Any) -> dict[str, float | None]:
    values = {row.metric: row.estimate.value for row in results.rows if not row.slice}
    return {name: values[name] for name in ("exact_match", "word_accuracy")}


ALL_WRONG = {"exact_match": 0.0, "word_accuracy": 0.0}
ALL_RIGHT = {"exact_match": 1.0, "word_accuracy": 1.0}


@pytest.mark.parametrize("form", FORMS)
def test_thoughts_of_a_prediction_file_are_not_its_answers(form: str) -> None:
    said = [{"id": f"t{n}", "prediction": FORMS[form]("a tree")} for n in range(len(WORDS))]
    small.write(said, Path("wrong.jsonl"))
    assert text_metrics(sn.score(sn.import_run("wrong.jsonl", "./bench"))) == ALL_WRONG


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"never closed"}))
def test_answers_around_thoughts_are_read(form: str) -> None:
    said = [{"id": f"t{n}", "prediction": FORMS[form](word)} for n, word in enumerate(WORDS)]
    small.write(said, Path("right.jsonl"))
    assert text_metrics(sn.score(sn.import_run("right.jsonl", "./bench"))) == ALL_RIGHT


class Thoughtful:
    """A model of somebody's own, which returns what it writes as it is."""

    name = "thoughtful"

    def generate(self, requests: Sequence[Any], images: Any) -> list[str]:
        return [FORMS["closed"]("a tree") for _ in requests]


class ThoughtfulWorker:
    def generate(self, messages: Any, images: Any, **settings: Any) -> str:
        return FORMS["closed"]("a tree")


def test_thoughts_of_an_own_model_are_not_its_answers() -> None:
    assert text_metrics(sn.evaluate(Thoughtful(), "./bench", runs="runs")) == ALL_WRONG


def test_thoughts_of_a_worker_are_not_its_answers() -> None:
    with served(ThoughtfulWorker()) as url:
        results = sn.evaluate(f"openai:mine@{url}", "./bench", runs="runs")
    assert text_metrics(results) == ALL_WRONG


def test_a_thought_that_never_ends_is_said_to_be_cut_off() -> None:
    said = [{"id": f"t{n}", "prediction": FORMS["never closed"]("")} for n in range(len(WORDS))]
    small.write(said, Path("cut.jsonl"))
    results = sn.score(sn.import_run("cut.jsonl", "./bench"))
    [benchmark] = results.runs[0].benchmarks
    reasons = {prediction.reason for prediction in benchmark.predictions}
    assert reasons == {"reasoning cut off"}


@pytest.mark.parametrize(
    ("text", "closing", "parts"),
    [
        ("<think>hm</think>(A)", "", ("hm", "(A)")),
        ("<think>hm", "", ("hm", "")),
        ("hm</think>\n(A)", "</think>", ("hm", "(A)")),
        ("hm</think>\n(A)", "", ("hm", "(A)")),
        ("hm", "</think>", ("hm", "")),
        ("<think>a</think> One. <think>b</think> (A)", "", ("a\n\nb", "(A)")),
        ("(A) <think>hm", "", ("hm", "(A)")),
        ("(A)", "", (None, "(A)")),
        (" 2 < 3 \n", "", (None, " 2 < 3 \n")),
        ("<thinking>a <think> b</thinking>c", "", ("a <think> b", "c")),
    ],
)
def test_thoughts_are_split_from_the_answer(
    text: str, closing: str, parts: tuple[str | None, str]
) -> None:
    split = split_thoughts(text, closing)
    assert (split.reasoning, split.answer) == parts
