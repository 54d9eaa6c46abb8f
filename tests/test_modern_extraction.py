"""How the makers of today's benchmarks read replies: cases of their own published outputs."""

from __future__ import annotations

import pytest

from snellen.suites.modern.extraction import mathvista_choice

LABELS = tuple("ABCDEFGH")


@pytest.mark.parametrize(
    ("reply", "options", "choice"),
    [
        ("(B)", ("yes", "no"), "no"),
        ("(b) no", ("yes", "no"), "no"),
        (" A ", ("yes", "no"), "yes"),
        # A letter that is not shown and any other text stand for the nearest option: `extraction` and `prediction` of
        # the questions 5, 25, 43, 149 and 538 in the results of InstructBLIP and IDEFICS.
        ("E", ("97", "102", "107", "122"), "97"),
        ("C", ("yes", "no"), "no"),
        ("D", ("August", "April", "May"), "May"),
        ("75°", ("55°", "60°", "65°", "70°"), "55°"),
        ("None", ("9π", "6π", "3π", "π"), "9π"),
        ("There is no answer provided in the model response.", ("True", "False"), "False"),
    ],
)
def test_mathvista_reads_an_extracted_answer(
    reply: str, options: tuple[str, ...], choice: str
) -> None:
    place = mathvista_choice(reply, options, LABELS).choice
    assert place is not None and options[place] == choice


def test_mathvista_finds_labels_that_were_shown_in_small_letters() -> None:
    # The words of both options are as far from "(b)" as the letter is; only the label tells them apart.
    assert mathvista_choice("(b)", ("7", "8"), ("a", "b")).choice == 1
