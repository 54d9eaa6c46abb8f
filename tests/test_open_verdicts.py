"""What long replies to yes-no questions say, as a person reads them."""

from __future__ import annotations

import pytest

from snellen.extraction import read_choice
from snellen.extraction.asked_reply import AskedReply
from snellen.extraction.yes_no import verdict_part
from snellen.metrics.hallucination import read_yes_no

PLAN = "To determine if the lung is healthy, we need to look at several features"
STEPS = ":\n\n1. **Fields**: They should be clear.\n2. **Ribs**: They appear to be intact."


# A person asked "Is the lung healthy?" decides by the verdict alone: a plan repeats the question, and its steps say what
# a lung should look like.
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (PLAN + ".", None),
        (PLAN + STEPS, None),
        (f"The image is an X-ray. {PLAN}{STEPS}\n3. **Airways**: The airways", None),
        (PLAN + STEPS + "\n\nTherefore, the lung is healthy.", "yes"),
        (PLAN + STEPS + "\n\n**Conclusion**: the lung is not healthy.", "no"),
        (PLAN + STEPS + "\n\nOverall, there is no healthy lung. The answer is no.", "no"),
        (PLAN + ". The lung is not healthy.", "no"),
        (
            "Yes\n\nExplanation: To determine if it is, we need to look at it. It has no spots.",
            "yes",
        ),
        ("Yes. To determine if it stays so, we need to repeat the scan.", "yes"),
        ("The lung is healthy. To determine the age, we need more images.", "yes"),
    ],
)
def test_a_plan_is_no_verdict_and_its_conclusion_is(reply: str, said: str | None) -> None:
    asked = AskedReply(reply, "Is the lung healthy?")
    assert read_yes_no(asked) == said
    choice = {"yes": 0, "no": 1, None: None}[said]
    assert read_choice(reply, ["Yes", "No"], [], question="Is the lung healthy?").choice == choice


def test_words_that_begin_like_a_conclusion_do_not_conclude() -> None:
    steps = "\n1. Overall size: It is normal.\n2. Soft tissues: They are normal."
    assert not verdict_part(f"To determine if it is ill, let's look at it:{steps}").strip()


@pytest.mark.parametrize(
    ("question", "reply", "said"),
    [
        (
            "Is the hair drier to the right of the person?",
            "The hair drier is in the person's hand, so it is not to the right of the person.",
            "no",
        ),
        (
            "Did the batter hit the ball?",
            "The image shows a boy with a bat. However, the ball is not visible, so it is not possible to say if he did.",
            None,
        ),
        (
            "Is the terrace bigger than the kitchen?",
            "The size of the terrace is not given, so it is not possible to determine whether it is bigger.",
            None,
        ),
        (
            "Is there a spoon in the image?",
            "There is a spoon visible in the corner. Therefore, the answer before, that there is none, is incorrect.",
            "yes",
        ),
        ("Does x = 1 solve it?", "Inserting 1 gives 0 on both sides.\nThe answer is True.", "yes"),
        ("Does x = 1 solve it?", "Inserting 1 gives 0 and 2.\nThe answer is False.", "no"),
    ],
)
def test_the_conclusion_decides_before_its_reasons(
    question: str, reply: str, said: str | None
) -> None:
    assert read_yes_no(AskedReply(reply, question)) == said


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("Sure, there is.", 0),
        ("I don't think so.", 1),
        ("It is a dog.", None),
        ("The heart appears to be", None),
    ],
)
def test_short_and_cut_answers_to_a_choice_of_yes_or_no(reply: str, choice: int | None) -> None:
    assert read_choice(reply, ["yes", "no"], ["A", "B"]).choice == choice
