"""Replies labelled by people who have never seen the rules: what is read of them gets no worse."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from snellen.extraction import STANDARD, ExtractedChoice, named_extractors, read_choice

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


MEASURED = {
    "en-dev": 0.88, "en-dev-2": 0.93, "en-dev-3": 0.88, "en-fifth": 0.82, "en-fourth": 0.90, "en-natural": 0.98,
    "en-sixth": 0.80, "ml-dev": 0.88, "ml-dev-2": 0.91, "ml-dev-3": 0.95, "ml-fourth": 0.94, "natural-a": 0.91,
    "natural-b": 0.93, "natural-c": 0.80, "natural-d": 0.77, "natural-e": 0.80,
}  # fmt: skip
"""Set of labelled replies -> the least share that is read as its author reads it. The reader has learnt from all."""


@pytest.mark.parametrize("name", MEASURED)
def test_replies_are_read_as_their_authors_read_them(name: str) -> None:
    counted = outcomes(name)
    replies = counted["right"] + counted["wrong"] + counted["open"]
    assert counted["right"] / replies >= MEASURED[name]
    assert counted["wrong certain"] <= 0.01 * replies


def test_things_that_have_changed_places_invert_no_answer() -> None:
    """A reader that compares bags of words says yes to the second and the fourth sentence."""
    read: Counter[tuple[str | None, int | None]] = Counter()
    for relation in RELATIONS:
        for one, other in permutations(("dog", "cat", "boy", "robot"), 2):
            question = f"Is the {one} {relation} the {other}?"
            sentences = (
                (f"The {one} is {relation} the {other}.", "yes"),
                (f"The {other} is {relation} the {one}.", "no"),
                (f"The {one} is not {relation} the {other}.", "no"),
            )
            for sentence, answer in sentences:
                read[
                    answer, read_choice(sentence, ("yes", "no"), (), question=question).choice
                ] += 1
    assert read["yes", 1] == read["no", 0] == 0
    assert read["yes", 0] == 132
    assert read["no", 1] >= 200


RELATIONS = (
    "chasing", "behind", "feeding", "on top of", "to the left of", "taller than", "looking at", "under", "inside",
    "holding", "pulling",
)  # fmt: skip


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
    assert read_choice(reply, OPTIONS, LABELS).choice == place


DENIALS = (
    (("cat", "dog"), "It is not a cat.", "That isn't a cat.", "The animal is not a cat."),
    (("Katze", "Hund"), "Es ist keine Katze.", "Das ist keine Katze", "Es handelt sich nicht um eine Katze."),
    (("un gato", "un perro"), "No es un gato.", "El animal no es un gato.", "No se trata de un gato."),
    (("un chat", "un chien"), "Ce n'est pas un chat.", "L'animal n'est pas un chat.", "Ce n’est pas un chat"),
    (("um gato", "um cão"), "Não é um gato.", "O animal não é um gato.", "Não se trata de um gato."),
    (("un gatto", "un cane"), "Non è un gatto.", "L'animale non è un gatto."),
    (("hond", "kat"), "Het is geen hond"),
    (("pies", "kot"), "To nie jest pies"),
    (("кошка", "собака"), "Это не кошка.", "Животное на фото — не кошка.", "Это точно не кошка."),
    (("猫", "狗"), "不是猫。", "这不是猫", "图中的动物不是猫。", "这并非猫。", "它不可能是猫。"),
    (("猫", "犬"), "猫ではありません。", "これは猫ではない。", "猫じゃないです。", "猫ではございません。"),
    (("고양이", "개"), "고양이가 아닙니다.", "고양이가 아니에요.", "고양이는 아니다.", "고양이가 아닌 것 같습니다."),
    (("kedi", "köpek"), "Bu bir kedi değil", "Kedi değildir."),
    (("kucing", "anjing"), "Itu bukan kucing"),
    (("con mèo", "con chó"), "Đây không phải là con mèo"),
    (("قطة", "كلب"), "هذه ليست قطة.", "هذا ليس قطة.", "الحيوان ليس قطة."),
    (("बिल्ली", "कुत्ता"), "यह बिल्ली नहीं है।", "जानवर बिल्ली नहीं है।", "यह कोई बिल्ली नहीं है।"),
)  # fmt: skip
"""Options in a language, and replies that deny the first."""


@pytest.mark.parametrize("denials", DENIALS, ids=lambda denials: denials[0][0])
def test_what_is_denied_in_any_language_is_no_answer(denials: tuple[Any, ...]) -> None:
    options, *replies = denials
    for reply in replies:
        for labels in ((), LABELS[:2]):
            assert read_choice(reply, options, labels).choice != 0, reply
            assert read_choice(reply, options[::-1], labels).choice != 1, reply


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


THINGS = ("a cat", "a dog", "a cow", "a hen")
EVERYDAY = (
    "B", "(b)", "b.", "Option B", "B) a dog", "B - a dog", "dog", "A dog.", "It's a dog", "That is a dog.",
    "The picture shows a dog.", "The animal in the picture is a dog.", "Based on the image, the animal is a dog.",
    "I see a dog in the picture.", "Clearly, this is a dog.", "Looks like a dog to me", "The answer is B.",
    "The answer is option B: a dog.", "I believe the correct answer is B", "B is the correct answer.", "My answer: (B)",
    "So it must be B.", "ANSWER IS B", "Final answer: **B**", "The correct choice is (B) a dog.", "I would go with option B.",
    "It is B, a dog", "{\"answer\": \"B\"}", "Answer: B\n\nReason: it is not A.", "**B. a dog**\n\nA is too big. C has horns.",
    "B. A is incorrect.", "The answer is B. Options A and C do not fit.", "\\boxed{B}", "<answer>B</answer>",
    "<think>A? No.</think>B", "B<|im_end|>", "B</s>", "B<|eot_id|>", "<|im_start|>assistant\nB<|im_end|>",
)  # fmt: skip


@pytest.mark.parametrize("reply", EVERYDAY)
def test_everyday_wordings_are_read(reply: str) -> None:
    question = "What animal is in the picture?"
    assert read_choice(reply, THINGS, LABELS, question=question).choice == 1


STATED = (
    "({x})",
    "{x}.",
    "Answer: {x}",
    "**Answer:** {x}",
    "The answer is {x}.",
    "The correct option is {x}.",
)
REJECTED = (
    "\n\nExplanation: {other} is wrong.", "\n\nReason: it is not {other}.", " Options {other} and {third} do not fit.",
    " I ruled out {other} and {third}.", "\n\n- {other}: too small\n- {third}: too large",
)  # fmt: skip


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("rejected", REJECTED)
def test_an_answer_counts_though_the_others_are_rejected_behind_it(
    stated: str, rejected: str
) -> None:
    for place, label in enumerate(LABELS):
        other, third = [alternative for alternative in LABELS if alternative != label][:2]
        reply = stated.format(x=label) + rejected.format(other=other, third=third)
        reading = read_choice(reply, THINGS, LABELS)
        assert (reading.choice, reading.confidence) == (place, "certain"), reply


@pytest.mark.parametrize(
    ("question", "reply", "answer"),
    [
        ("Are there two pens?", "There are three pens.", "no"),
        ("Are there two pens?", "There are two pens on the desk.", "yes"),
        ("Is there a dog in the image?", "The image features a dog.", "yes"),
        ("Is there a dog in the image?", "There is no dog.", "no"),
        ("Is the car red?", "The car is blue.", "no"),
        ("Is the car red?", "The car is red.", "yes"),
        ("Is there a cat?", "I'm sorry, I can't tell.", None),
        ("Is the gate locked?", "The gate is open.", "no"),
    ],
)
def test_sentences_answer_yes_no_questions(question: str, reply: str, answer: str | None) -> None:
    choice = read_choice(reply, ("yes", "no"), (), question=question).choice
    assert (None if choice is None else ("yes", "no")[choice]) == answer
