"""The papers' rules, faults included: every row that the specifications record."""

from __future__ import annotations

import pytest

from snellen.extraction import find_extractor
from snellen.registry import names
from snellen.suites.lvlm_ehub.extraction import ehub_word_match, vqa_match
from snellen.suites.mmbench.extraction import mmbench_step1, mmbench_toolkit
from snellen.suites.reform_eval.predictions import reform_eval_first_label

ANIMALS = ("cat", "dog", "a red car", "none of the above")
LABELS = ("A", "B", "C", "D")


@pytest.mark.parametrize("form", ["C", "C.", "(C)", "C,", "(C)."])
def test_mmbench_takes_the_forms_of_the_paper_among_all_words(form: str) -> None:
    assert mmbench_step1(f"I think {form} fits", ANIMALS, LABELS).choice == 2
    assert mmbench_step1(form, ANIMALS, LABELS).choice == 2


def test_mmbench_passes_over_a_lone_a_in_a_sentence_only() -> None:
    assert mmbench_step1("A", ANIMALS, LABELS).choice == 0
    assert mmbench_step1("A dog", ANIMALS, LABELS).choice is None
    assert mmbench_step1("It is (A) I think", ANIMALS, LABELS).choice == 0


def test_mmbench_lets_the_first_of_several_win() -> None:
    assert mmbench_step1("B or C", ANIMALS, LABELS).choice == 1


@pytest.mark.parametrize(
    ("reply", "place", "hit"),
    [
        ("(B)", 1, True),
        ("The answer is (B) dog.", 1, True),
        ("The cat(s) is (B)", None, True),
        ("B. yes", None, False),
        ("A", None, False),
        ("[A]", None, False),
        ("( A )", None, False),
        ("(B", None, False),
        ("Answer: (b)", 1, True),
        ("(1)", 0, True),
        ("(Z)", None, True),
        ("(0)", None, False),
        ("", None, False),
        (" ", None, False),
        ("(A) or (B)", 0, True),
        ("not (A), so (C)", 0, True),
        ("(A) cat; (B) dog; (C) a red car; (D) none of the above. (C)", 0, True),
    ],
)
def test_reform_eval_takes_the_first_label_of_any_alphabet(
    reply: str, place: int | None, hit: bool
) -> None:
    reading = reform_eval_first_label(reply, ANIMALS, LABELS)
    assert (reading.choice, reading.follows_format) == (place, hit)


@pytest.mark.parametrize(
    ("reply", "gold", "right"),
    [
        ("Yes, there is no doubt", "no", True),
        ("17.1%", "17.1%", False),
        ("$5.00", "$5.00", False),
        ("C++", "C", True),
        ("anything", "a", True),
        ("anything", "The", True),
        ("anything", "...", True),
        ("none of these", "0", True),
        ("1.5 metres", "1", True),
        ("not a dog", "dog", True),
        ("two cats", "cat", False),
        ("Options: Yes No", "yes", True),
        ("Options: Yes No", "no", True),
        ("It opens at 9:30", "9:30", True),
        ("Colour:red", "colour red", False),  # the colon is in no list of the originals, and stays
    ],
)
def test_ehub_asks_whether_the_gold_occurs(reply: str, gold: str, right: bool) -> None:
    assert bool(vqa_match(reply, [gold])) is right
    assert (ehub_word_match(reply, [gold], LABELS).choice == 0) is right


def test_ehub_takes_the_first_option_in_the_order_shown() -> None:
    assert ehub_word_match("the dog and the cat", ANIMALS, LABELS).choice == 0
    assert ehub_word_match("two dogs", ("1", "2"), LABELS).choice == 1


def test_ehub_deletes_thirty_two_full_stops_and_no_more() -> None:
    assert vqa_match("x." * 32 + "end", ["x" * 32 + "end"])
    assert not vqa_match("x." * 33 + "end", ["x" * 33 + "end"])


def test_the_toolkit_changed_its_readings_from_one_date_to_the_next() -> None:
    dates = ("2024-01", "2025-08", "2026-06")
    early, middle, late = (find_extractor(f"legacy:mmbench-toolkit-{date}").read for date in dates)
    explained = "B is what I see here, it barks"
    assert early(explained, ANIMALS, LABELS).choice == 1
    assert middle(explained, ANIMALS, LABELS).choice is None
    # No word boundary behind the letter: the article is an option.
    assert early("The answer is a dog", ANIMALS, LABELS).choice == 1
    assert late("The answer is a dog", ANIMALS, LABELS).choice == 0
    wordy = "a long explanation " * 10 + "dog"
    assert early(wordy, ANIMALS, LABELS).choice == 1
    assert middle(wordy, ANIMALS, LABELS).choice is None


def test_the_toolkit_takes_substrings_and_knows_four_refusals() -> None:
    assert mmbench_toolkit("hotdog", ANIMALS, LABELS).choice == 1
    assert mmbench_toolkit("top left", ("left", "top left"), LABELS[:2]).choice is None
    assert mmbench_toolkit("Cannot determine the answer", ANIMALS, LABELS).reason == "refused"
    assert mmbench_toolkit("Z", ANIMALS, LABELS).choice is None


@pytest.mark.parametrize("name", names("extractors"))
def test_every_rule_that_reads_labels_counts_a_label_alone_as_the_format(name: str) -> None:
    # The hit rate of a model that is always right was 0 by the rules of MMStar, MathVista and MATH-V.
    extractor = find_extractor(name)
    labels = ("A", "B", "C")
    if extractor.limit(labels):
        assert name in ("legacy:exact-text", "legacy:lvlm-ehub")
        return
    reading = extractor.read("(B)", ("cat", "dog", "cow"), labels)
    assert (reading.choice, reading.follows_format) == (1, True)
