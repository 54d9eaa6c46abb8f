"""Replies to questions that offer their answers: "Which is bigger, liver or spleen?"."""

from __future__ import annotations

import pytest

from snellen.extraction.asked_reply import AskedReply
from snellen.extraction.closed_answers import offered_answers
from snellen.metrics.vqa import typed_match


@pytest.mark.parametrize(
    ("question", "reply", "chosen"),
    [
        (
            "Which is bigger in this image, liver or spleen?",
            "In the image, the spleen appears to be larger than the liver. The liver is on the right.",
            "spleen",
        ),
        (
            "Which is the biggest in this image, lung, heart or liver?",
            "The largest structure visible is the liver. The heart is smaller, and so are the lungs.",
            "liver",
        ),
        (
            "Which side of lung is abnormal in this image,left or right?",
            "The X-ray has an abnormal finding on the right side of the lung. The left lung is clear.",
            "right",
        ),
        ("Is the man sitting or standing?", "The man is standing, not sitting.", "standing"),
        ("Is the fence wooden or metal?", "It is metal.", "metal"),
        ("What colour is it, gray or black?", "Grey", "gray"),
    ],
)
def test_of_the_answers_that_a_question_offers_the_chosen_one_is_right(
    question: str, reply: str, chosen: str
) -> None:
    offered = offered_answers(question)
    assert chosen in offered
    for answer in offered:
        assert typed_match(AskedReply(reply, question), [answer]) == float(answer == chosen)


# Nothing tells which of two answers such sentences choose, or the right answer is not one that the question offers.
@pytest.mark.parametrize(
    ("question", "reply", "gold"),
    [
        ("Is the cat on the left or the dog?", "The cat and the dog are on the left.", "left"),
        ("Are there any cats or dogs?", "Yes, there are cats and dogs.", "yes"),
        ("Is this a Macbook or Windows laptop?", "It may be a Macbook or a Windows laptop.", "Macbook"),
    ],
)  # fmt: skip
def test_without_a_choice_the_words_of_the_right_answer_count(
    question: str, reply: str, gold: str
) -> None:
    assert typed_match(AskedReply(reply, question), [gold]) == 1.0


def test_words_are_the_same_in_any_number_and_spelling() -> None:
    assert typed_match("Two horses", ["horse"]) == 1.0
    assert typed_match("a red bus", ["red buses"]) == 1.0
    assert typed_match("The colour is grey.", ["gray"]) == 1.0
    assert typed_match("glass", ["glas"]) == 0.0
