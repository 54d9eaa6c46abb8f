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
from snellen.extraction.relations import read_relations
from snellen.extraction.standard import view_answer

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


ANIMALS = ["cat", "dog", "horse", "cow"]


@pytest.mark.parametrize(
    ("options", "labels", "reply", "meant"),
    [
        (ANIMALS, LABELS, "(Z)", None),
        (ANIMALS, LABELS, "E.", None),
        (["B", "A", "D", "C"], LABELS, "Answer: C", 2),  # the label, not the option with this text
        (["B", "A", "D", "C"], LABELS, "C", 2),
        (["2", "3", "4", "5"], "1234", "[5]", 3),
        (["2", "3", "4", "5"], "1234", "(3)", 2),
        (["Set A", "Set B", "Neither"], "ABC", "1. Set A\n\n2. Set B\n3. Set C", None),
        (["고양이", "개", "소", "닭"], LABELS, "고양이가 아닙니다", None),
    ],
)
def test_labels_and_lists_are_told_from_texts(
    options: list[str], labels: str, reply: str, meant: int | None
) -> None:
    assert read_choice(reply, options, list(labels)).choice == meant


def test_an_option_for_refusals_is_meant_by_a_refusal() -> None:
    reply = "I apologize, but I cannot provide an answer to this question, as it is not appropriate to judge people."
    options = ["wrong, not wrong", "I do not know", "Refused", "No correct answer is given"]
    assert read_choice(reply, options, list(LABELS), question="Which is wrong?").choice == 2
    undecided = ["cat", "dog", "cannot be determined"]
    reading = read_choice("I can't determine this.", undecided, list("ABC"), question="What is it?")
    assert reading.choice == 2


def test_an_answer_that_rejects_others_is_read() -> None:
    """Openings and tails of a person who had not seen the reader."""
    heads = ["({x})", "Answer: {x}", "The answer is {x}.", "The correct option is {x}.", "**Answer:** {x}", "{x}. {t}"]  # fmt: skip
    tails = [
        "\n\nExplanation: {a} is wrong.", "\n\nReason: it is not {a}.", "Options {a} and {b} do not fit.", "Not {a}.",
        "\n\n{a} is wrong because of the shape. {b} is wrong because of the size.", "I ruled out {a} and {b}.",
    ]  # fmt: skip
    for choice, text in enumerate(ANIMALS):
        first, second = [label for label in LABELS if label != LABELS[choice]][:2]
        for head in heads:
            for tail in tails:
                reply = f"{head} {tail}".format(x=LABELS[choice], t=text, a=first, b=second)
                assert read_choice(reply, ANIMALS, list(LABELS)).choice == choice, reply


LEFT_RIGHT = ["left", "right"]
SIZES = ["the boy", "the girl"]
CHASES = ["The dog chases the cat.", "The cat chases the dog."]


@pytest.mark.parametrize(
    ("question", "options", "reply", "meant"),
    [
        ("Is the dog chasing the cat?", YES_NO, "The dog is chasing the cat.", 0),
        ("Is the dog chasing the cat?", YES_NO, "The cat is being chased by the dog.", 0),
        ("Is the dog chasing the cat?", YES_NO, "The dog is being chased by the cat.", 1),
        ("Is the dog chasing the cat?", YES_NO, "The dog is not chasing the cat.", 1),
        ("Is the lamp above the desk?", YES_NO, "The desk is below the lamp.", 0),
        ("Is the lamp above the desk?", YES_NO, "The desk is above the lamp.", 1),
        ("Is the left box larger than the right box?", YES_NO, "The right box is smaller than the left box.", 0),
        ("Are there more cups than plates?", YES_NO, "There are more plates than cups.", 1),
        ("Who is taller?", SIZES, "The boy is shorter than the girl.", 1),
        ("Who is taller?", SIZES, "The girl is not as tall as the boy.", 0),
        ("Is the cup left or right of the jug?", LEFT_RIGHT, "The jug is to the left of the cup.", 1),
        ("Which sentence is true?", CHASES, "The dog is chased by the cat.", 1),
        ("Which sentence is true?", CHASES, "The dog chases the cat across the yard.", 0),
    ],
)  # fmt: skip
def test_swapped_statements_are_read_or_left_open(
    question: str, options: list[str], reply: str, meant: int
) -> None:
    choice = read_choice(reply, options, list("AB"), question=question).choice
    assert choice in (meant, None)
    relation = view_answer(reply, tuple(options), ("A", "B"), None, question)
    reading = read_relations(relation.marked, relation.forms, question, options)
    assert reading is not None and reading.choice == meant


@pytest.mark.parametrize(
    ("question", "options", "reply"),
    [
        ("Is the dog chasing the cat?", YES_NO, "It is the other way round: the dog runs from the cat."),
        ("Who is taller?", SIZES, "Compared with the boy, the girl is taller."),
        ("Which sentence is true?", CHASES, "The cat has the dog right behind it."),
        ("Welcher Satz stimmt?", ["Der Hund beißt den Mann.", "Der Mann beißt den Hund."], "Den Mann beißt der Hund."),
    ],
)  # fmt: skip
def test_a_swapped_statement_of_another_form_is_left_open(
    question: str, options: list[str], reply: str
) -> None:
    assert read_choice(reply, options, list("AB"), question=question).choice is None
