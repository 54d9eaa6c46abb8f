"""Replies that only one of the last looks reads, each beside one that it must leave."""

from __future__ import annotations

import pytest

from snellen.extraction import find_extractor, read_choice

ANIMALS, RANGES = ("cat", "dog", "rabbit", "horse"), ("0-25", "26-50", "51-75", "76-100")
WHERE, BOTH = ("On top of it", "Under it", "Behind it"), ("A tree", "A house", "Both a tree and a house", "Neither")
TOLD, ORDERS = ("Yes", "No", "Cannot be determined"), ("Sun, Moon, Star", "Moon, Sun, Star", "Star, Moon, Sun")


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("A. cat\nB. dog\nC. rabbit ✅\nD. horse", ANIMALS, "Which animal is it?", 2),
        ("C > B > D > A", ANIMALS, "Which animal is it?", 2),
        ("C > B > D > A", ANIMALS, "Which is the least likely?", None),
        ("A: 5 %, B: 90 %, C: 3 %, D: 2 %", ANIMALS, "Which animal is it?", 1),
        ('{"A": 0.1, "B": 0.1, "C": 0.1, "D": 0.7}', ANIMALS, "Which animal is it?", 3),
        ("Possibly A, possibly C. The ears decide, so the latter.", ANIMALS, "Which animal is it?", 2),
        ("The picture contains a tree and a house.", BOTH, "What does it contain?", 2),
        ("The picture contains a tree or a house.", BOTH, "What does it contain?", None),
        ("There is no way to know that.", TOLD, "Is it open?", 2),
        ("I can't see the image, so there is no way to know that.", TOLD, "Is it open?", None),
        ("First comes the moon, then the sun, then the star.", ORDERS, "In what order?", 1),
        ("The bar ends at 47 visitors.", RANGES, "How many visitors came?", 1),
        ("The bar ends at 47 chairs.", RANGES, "How many visitors came?", None),
        ("There are no commas in it.", ("0", "1", "2"), "How many commas are there?", 0),
        ("The cat hides beneath the sofa.", WHERE, "Where is the cat relative to the sofa?", 1),
        ("The sofa stands underneath the cat.", WHERE, "Where is the cat relative to the sofa?", None),
        ("She looks very happy.", ("Happiness", "Sadness", "Anger"), "What does she feel?", 0),
        ("The U.S. has the lowest rate.", ("Japan", "United States"), "Which has the lowest rate?", 1),
        ("It is a strawman.", ("Straw man", "Ad hominem"), "Which fallacy is it?", 0),
        ("He rides his bicycle to school.", ("On foot", "By bus", "By bike"), "How does he get there?", 2),
        ("The shop is closed.", ("Yes", "No"), "Is the shop open?", 1),
        ("They are parallel to each other.", ("Yes", "No"), "Are the two lines parallel?", 0),
        (
            "- A. cat: hooves, no\n- B. dog: barks\n- C. rabbit: hops\n- D. horse: gallops",
            ANIMALS,
            "Which animal barks?",
            1,
        ),
        ("A bird is perched on the dog, with a horse in the corner.", ANIMALS, "What is it perched on?", 1),
        ("There are four candles, three of which are lit.", ("2", "3", "4"), "How many candles are lit?", 1),
    ],
)
def test_a_last_look_reads_what_is_meant_and_no_more(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    reading = read_choice(reply, options, tuple("ABCD"[: len(options)]), question=question)
    assert reading.choice == place
    assert reading.confidence == ("none" if place is None else "likely")


def test_strict_and_cut_replies_are_not_looked_at_again() -> None:
    reply, labels = "The picture contains a tree and a house.", tuple("ABCD")
    assert read_choice(reply, BOTH, labels, "strict").choice is None
    assert read_choice("The bar ends at 47", RANGES, labels, finish="length", question="How many came?").choice is None


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("[ ] A. red\n[x] B. blue\n[ ] C. green", 1),
        ("- [X] red\n- [ ] blue\n- [ ] green", 0),
        ('{"red": 0.1, "blue": 0.2, "green": 0.7}', 2),
        ('```json\n{"A": 80, "B": 15, "C": 5}\n```', 0),
        ("Red: 5 %\nBlue: 90 %\nGreen: 5 %", 1),
        ("[x] A. red\n[x] B. blue\n[ ] C. green", None),
        ("[ ] A. red\n[ ] B. blue\n[ ] C. green", None),
        ('{"red": 0.5, "blue": 0.5, "green": 0}', None),
        ('{"red": 0.9, "blue": 0.1}', None),
        ('{"red": 0.1, "blue": 0.2, "grey": 0.7}', None),
    ],
)
def test_a_form_of_all_options_is_read_where_one_is_ticked_or_has_most(reply: str, place: int | None) -> None:
    read = find_extractor("standard").read(reply, ["red", "blue", "green"], ["A", "B", "C"], finish="stop", question="")
    assert read.choice == place


@pytest.mark.parametrize(
    "reply",
    ["So B. Update: please disregard my first answer.", "Both statement A and statement C are true.", "Both A and B."],
)
def test_an_answer_to_be_disregarded_and_two_at_once_are_none(reply: str) -> None:
    read = find_extractor("standard").read(reply, ["red", "blue", "green"], ["A", "B", "C"], finish="stop", question="")
    assert read.choice is None
