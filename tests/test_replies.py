"""Replies labelled by people who have never seen the rules: what is read of them gets no worse."""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from snellen.extraction import STANDARD, ExtractedChoice, named_extractors, read_choice
from snellen.extraction.full_reading import LOOKED_AT, READ_AT_MOST, read_in_full
from snellen.extraction.option_index import index_options
from snellen.extraction.standard import ERROR

REPLIES = Path(__file__).parent / "replies"
OPTIONS, LABELS = ("taxi", "bus", "train", "bicycle"), ("A", "B", "C", "D")


@cache
def readings(name: str) -> list[tuple[dict[str, Any], ExtractedChoice]]:
    """The replies of a set that are not ambiguous, and what is read of each."""
    kept = [
        json.loads(line) for line in (REPLIES / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    return [
        (
            case,
            STANDARD.read(
                case["reply"],
                case["options"],
                case["labels"],
                finish=case["finish"],
                question=case["question"],
            ),
        )
        for case in kept
        if not case["ambiguous"]
    ]


def outcomes(name: str) -> Counter[str]:
    """Of the replies that are not ambiguous: how many are right, wrong, open, and wrong by confidence."""
    counted: Counter[str] = Counter()
    for case, reading in readings(name):
        outcome = (
            "right"
            if reading.choice == case["gold"]
            else "open"
            if reading.choice is None
            else "wrong"
        )
        counted.update([outcome, f"{outcome} {reading.confidence}"])
    return counted


MEASURED = (
    ("awkward-a", 156, 71, 2),
    ("awkward-b", 159, 78, 5),
    ("en-dev-2", 349, 266, 0),
    ("en-dev-3", 346, 264, 0),
    ("en-dev", 499, 379, 0),
    ("en-fifth", 196, 132, 0),
    ("en-fourth", 447, 336, 0),
    ("en-natural", 398, 360, 0),
    ("en-sixth", 196, 128, 0),
    ("ml-dev-2", 171, 145, 0),
    ("ml-dev-3", 175, 158, 0),
    ("ml-dev", 302, 244, 0),
    ("ml-fourth", 196, 177, 0),
    ("natural-a", 197, 157, 0),
    ("natural-b", 198, 177, 0),
    ("natural-c", 218, 131, 0),
    ("other-near-misses", 713, 713, 0),
    ("swaps", 1154, 508, 0),
)
"""Of each set: replies, and how many are read right and wrong. The reader has learnt from all of them."""


@pytest.mark.parametrize(("name", "cases", "right", "wrong"), MEASURED)
def test_no_more_replies_are_misread_or_left_open_than_when_the_reader_was_last_trained(
    name: str, cases: int, right: int, wrong: int
) -> None:
    counted = outcomes(name)
    assert counted["right"] + counted["wrong"] + counted["open"] == cases
    assert counted["right"] >= right
    assert counted["wrong"] <= wrong
    assert counted["wrong certain"] == 0


def test_arguments_that_have_changed_places_invert_no_answer() -> None:
    """A reader that compares bags of words says yes to these."""
    kinds = ("swap_other", "swap_antisymmetric", "comparison_converse", "passive", "converse")
    swapped = [
        (case, reading.choice) for case, reading in readings("swaps") if case["kind"] in kinds
    ]
    inverted = [
        case["id"] for case, choice in swapped if choice is not None and choice != case["gold"]
    ]
    assert len(swapped) >= 300
    assert len(inverted) <= 0.02 * len(swapped)


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("A... wait, actually B", 1),
        ("B. On second thought, C.", 2),
        ("It's a bus, sorry, I meant a train", 2),
        ("You'd think B, but it's C", 2),
        ("The wrong answer is A", None),
        ("A: no", None),
        ("I doubt it's B", None),
        ("I disagree with A", None),
        ("Most likely B.", 1),
        ("Ans B", 1),
        ("Option-B", 1),
        ("✅ C", 2),
        ("B est la bonne réponse", 1),
        ("La opción D", 3),
        ("所以是B", 1),
        ("A. taxi B. bus C. train D. bicycle A. taxi B. bus C. train D. bicycle", None),
    ],
)
def test_the_replies_of_the_issue_are_read(reply: str, place: int | None) -> None:
    assert read_choice(reply, OPTIONS, LABELS, error=0.05).choice == place
    assert read_choice(reply, OPTIONS, LABELS).choice in (place, None)


@pytest.mark.parametrize(
    ("reply", "options"),
    [
        ("Das ist kein Vogel", ("Vogel", "Hund")),
        ("No es un gato", ("gato", "perro")),
        ("Ce n'est pas un chat", ("chat", "chien")),
        ("Não é um gato", ("gato", "cão")),
        ("Non è un gatto", ("gatto", "cane")),
        ("Het is geen hond", ("hond", "kat")),
        ("To nie jest pies", ("pies", "kot")),
        ("Это не кошка", ("кошка", "собака")),
        ("这不是猫", ("猫", "狗")),
        ("これは猫ではありません", ("猫", "犬")),
        ("고양이가 아닙니다", ("고양이", "개")),
        ("Bu bir kedi değil", ("kedi", "köpek")),
        ("Itu bukan kucing", ("kucing", "anjing")),
        ("Đây không phải là con mèo", ("con mèo", "con chó")),
        ("هذه ليست قطة", ("قطة", "كلب")),
        ("यह बिल्ली नहीं है", ("बिल्ली", "कुत्ता")),
    ],
)
def test_what_is_denied_in_any_language_is_no_answer(reply: str, options: tuple[str, ...]) -> None:
    assert read_choice(reply, options, LABELS[:2]).choice is None


@pytest.mark.parametrize(
    ("reply", "options", "place"),
    [
        (r"\boxed{\frac{1}{2}}", ("1", "2", "1/2"), 2),
        (r"It is $2\sqrt{3}$.", ("2", r"2\sqrt{3}", "3"), 1),
        (r"\boxed{2\pi}", ("2", "π", "2π"), 2),
        (r"\boxed{2\pi}", ("2", "3", "4"), None),
        ("5 km", ("5 cm", "5 km"), 1),
        (r"x = 4\sqrt{3}", ("4", "8", "12"), None),
        ("It is 5 km long.", ("5 cm", "8 cm", "12 cm"), None),
        ("-5", ("5", "-5"), 1),
        ("5", ("5.0", "5"), 1),
        ("if x:\n    y = 1", ("if x:\n    y = 2", "if x:\n    y = 1"), 1),
    ],
)
def test_numbers_units_and_exact_texts_are_told_apart(
    reply: str, options: tuple[str, ...], place: int | None
) -> None:
    assert read_choice(reply, options, LABELS[: len(options)]).choice == place


def test_a_reply_cut_before_it_concluded_is_unread_with_a_reason_of_its_own() -> None:
    cut = "Let me think. The option A looks"
    assert read_choice(cut, OPTIONS, LABELS, finish="length").reason == "cut off"
    assert (
        read_choice(
            "The answer is B. The picture shows a long", OPTIONS, LABELS, finish="length"
        ).choice
        == 1
    )
    assert read_choice("B", OPTIONS, LABELS, finish="length").choice == 1


def test_published_rules_know_nothing_of_the_end_of_a_reply() -> None:
    cut = "Let me think. The option (A) looks"
    for name, extractor in named_extractors().items():
        if name.startswith("legacy:"):
            assert extractor.read(cut, OPTIONS, LABELS, finish="length") == extractor.read(
                cut, OPTIONS, LABELS
            )


def test_the_question_tells_which_denial_is_the_answer() -> None:
    reply = "The picture shows a taxi, a train and a bicycle. It does not show a bus."
    for error, denied in ((ERROR, (1, None)), (0.05, (1,))):
        assert (
            read_choice(
                reply, OPTIONS, LABELS, question="Which of these is not shown?", error=error
            ).choice
            in denied
        )
        assert (
            read_choice(
                reply, OPTIONS, LABELS, question="Which of these is shown?", error=error
            ).choice
            is None
        )


def calls(reply: str, options: tuple[str, ...], labels: tuple[str, ...]) -> int:
    """How many Python and C functions one reading calls."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    asked = index_options(options, labels)
    read_in_full("warm", asked, ERROR)
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        read_in_full(reply, asked, ERROR)
    finally:
        sys.setprofile(before)
    return count


HOSTILE = (
    "A A A ",
    "\n",
    "A. \n",
    "at first A but ",
    "wait, A. ",
    "no, ",
    "= 5 cm ",
    "5 cm + ",
    "nicht A ",
    "ignore = ",
    "\\frac{1}{2}",
)


@pytest.mark.parametrize("loop", HOSTILE)
def test_work_stops_growing_with_replies_that_nobody_would_read(loop: str) -> None:
    options, labels = ("5 cm", "6 cm", "A " * 20_000), ("A", "B", "C")
    once = calls(loop * (2 * LOOKED_AT // len(loop)), options, labels)
    assert calls(loop * (4 * LOOKED_AT // len(loop)), options, labels) <= 1.1 * once + 200
    assert once <= 60 * READ_AT_MOST
