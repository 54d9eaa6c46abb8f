"""A model's score must not depend on how it words its answers.

The wordings of `reply_styles.json` are by a person who had not seen the reader.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import small
import snellen as sn
from snellen.building.benchmark import Benchmark
from snellen.extraction import read_choice

WORDINGS = json.loads((Path(__file__).parent / "reply_styles.json").read_text("utf-8"))
STYLES: dict[str, list[str]] = WORDINGS["styles"]
OPTIONS = {
    "What animal is in the picture?": ["cat", "dog", "horse", "cow"],
    "What colour is the car?": ["red", "blue", "green", "white"],
    "How many people are there?": ["2", "3", "4", "5"],
    "Where is the cup?": ["on the table", "under the chair", "in the sink", "on the shelf"],
}
LABELS = "ABCD"


def worded(wording: str, options: list[str], choice: int) -> str:
    """Say in a wording that one of the options is the answer."""
    text = options[choice]
    other = options[(choice + 1) % len(options)]
    reply = wording.replace("{letter}", LABELS[choice]).replace("{text}", text)
    return reply.replace("{Text}", text[0].upper() + text[1:]).replace("{other}", other)


@pytest.mark.parametrize("wording", WORDINGS["wordings"])
def test_everyday_wordings_are_read(wording: str) -> None:
    for question, options in OPTIONS.items():
        for choice in range(len(options)):
            reply = worded(wording, options, choice)
            reading = read_choice(reply, options, list(LABELS), question=question)
            assert reading.choice == choice, reply


@pytest.mark.parametrize("style", list(STYLES))
def test_the_interval_contains_the_models_score_in_every_style(
    style: str, make: Callable[..., Benchmark]
) -> None:
    wordings = STYLES[style]
    options = list(small.ANIMALS[:4])

    def reply(request: sn.Request) -> str:
        number = int(request.sample_id[1:])
        correct = number % len(options)  # as in small.rows
        is_right = number % 3 != 0
        choice = correct if is_right else (correct + 1) % len(options)
        return worded(wordings[number % len(wordings)], options, choice)

    benchmark = make(small.rows(110, pictures=110))
    results = sn.evaluate(sn.Scripted(reply, name=style), str(benchmark.folder))
    row = next(row for row in results.rows if (row.metric, row.benchmark) == ("accuracy", "mine"))

    n_right = sum(number % 3 != 0 for number in range(110))
    assert row.estimate.low <= n_right / 110 <= row.estimate.high


YES_NO = ["yes", "no"]


@pytest.mark.parametrize(
    ("question", "options", "reply", "meant"),
    [
        ("Which way?", ["left", "right"], "It seems left at first.\n<ans>1</ans>", 1),
        ("Which way?", ["left", "right"], "<result>right</result>", 1),
        ("Is it raining?", YES_NO, "Therefore, the answer (Yes or No) is Yes.", 0),
        ("Is it raining?", YES_NO, "Therefore, the answer (Yes or No) is no.", 1),
        ("Is it raining?", YES_NO, "Therefore, the answer (Yes or No) is not known.", None),
        ("What is it?", ["cat", "dog", "cow", "pig"], "So the answer (A, B, C or D) is C.", 2),
        ("Is there a kettle?", YES_NO, "是的，桌子上有一个水壶。", 0),
        ("Is there a kettle?", YES_NO, "Nein, auf dem Tisch steht nur eine Tasse.", 1),
        ("Are there at least three cups?", YES_NO, "There are five cups on the shelf.", 0),
        ("Are there fewer than four cups?", YES_NO, "There are six cups on the shelf.", 1),
        ("Is the door red?", YES_NO, "The door is green.", 1),
    ],
)
def test_what_a_reply_states_is_read(
    question: str, options: list[str], reply: str, meant: int | None
) -> None:
    labels = [str(number) for number in range(len(options))]
    if len(options) > 2:
        labels = list(LABELS[: len(options)])
    assert read_choice(reply, options, labels, question=question).choice == meant
