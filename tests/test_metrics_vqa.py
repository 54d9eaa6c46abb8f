"""Answers to questions: the word-match edge table in both columns, VQA accuracy, POPE."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.extraction.asked_reply import AskedReply
from snellen.extraction.yes_no import short_yes_or_no
from snellen.metrics.hallucination import POPE, pope_counts, pope_rows, pope_yes_no, read_yes_no
from snellen.metrics.normalise import vqa_normalise
from snellen.metrics.numbers import relaxed_accuracy
from snellen.metrics.ocr import exact_match
from snellen.metrics.vqa import (
    direct_answer_accuracy,
    gqa_accuracy,
    legacy_vqa_accuracy,
    typed_match,
    vqa_accuracy,
)
from snellen.suites.lvlm_ehub.extraction import vqa_match


@pytest.mark.parametrize(
    ("reply", "gold", "legacy_value", "standard_value"),
    [
        ("Yes, there is no doubt", "no", 1.0, 0.0),
        ("17.1%", "17.1%", 0.0, 1.0),
        ("$5.00", "$5.00", 0.0, 1.0),
        ("none of these", "0", 1.0, 0.0),
        ("1.5 metres", "1", 1.0, 0.0),
        ("not a dog", "dog", 1.0, 0.0),
        ("two cats", "cat", 0.0, 1.0),
        ("C++", "C", 1.0, 0.0),
        ("Options: Yes No", "yes", 1.0, 0.0),
        ("Options: Yes No", "no", 1.0, 0.0),
        ("There are two.", "2", 1.0, 1.0),
        ("two or 3", "3", 1.0, 0.0),
        ("A dog without a leash", "leash", 1.0, 0.0),
        ("a red bus", "red buses", 0.0, 1.0),
        ("No, it is not.", "no", 1.0, 1.0),
        ("glass", "glas", 0.0, 0.0),
        ("three puppies", "puppy", 0.0, 1.0),
    ],
)
def test_word_match_in_both_columns(reply, gold, legacy_value, standard_value):
    assert vqa_match(reply, [gold]) == legacy_value
    assert typed_match(reply, [gold]) == standard_value


@pytest.mark.parametrize("gold", ["a", "The", "..."])
def test_a_gold_that_is_an_article_or_a_symbol_is_right_for_any_reply_in_legacy_only(gold):
    assert vqa_match("anything", [gold]) == 1.0
    with pytest.raises(DataError, match="gold"):
        typed_match("anything", [gold])


def test_any_of_several_golds_counts():
    assert typed_match("a tabby", ["cat", "tabby"]) == vqa_match("a tabby", ["cat", "tabby"]) == 1.0


def leave_one_out(answer: str, given: list[str]) -> float:
    """The measure as the paper writes it: the mean over all sets of all annotators but one."""
    sets = list(combinations(given, len(given) - 1))
    return sum(min(1.0, others.count(answer) / 3) for others in sets) / len(sets)


@pytest.mark.parametrize(
    ("agree", "value"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (10, 1.0)]
)
def test_vqa_accuracy_of_ten_annotators_by_number_that_agree(agree, value):
    annotators = ["Two."] * agree + ["a cat"] * (10 - agree)
    assert vqa_accuracy("2", annotators) == pytest.approx(value)


answers = st.lists(
    st.sampled_from(["yes", "No.", "two", "the red one", "2"]), min_size=4, max_size=10
)


@given(st.sampled_from(["yes", "no", "2", "red 1"]), answers)
def test_vqa_accuracy_is_the_mean_over_leaving_each_annotator_out(reply, annotators):
    assert vqa_accuracy(reply, annotators) == pytest.approx(
        leave_one_out(vqa_normalise(reply), [vqa_normalise(a) for a in annotators])
    )
    assert vqa_accuracy(reply, annotators) == vqa_accuracy(reply, annotators[::-1])


def test_the_official_script_normalises_only_where_annotators_disagree():
    assert legacy_vqa_accuracy("Yes.", ["yes"] * 10) == 0.0
    assert vqa_accuracy("Yes.", ["yes"] * 10) == 1.0
    assert (
        legacy_vqa_accuracy("Yes.", ["yes"] * 9 + ["no"])
        == vqa_accuracy("Yes.", ["yes"] * 9 + ["no"])
        == 1.0
    )


def test_vqa_accuracy_needs_four_annotators():
    with pytest.raises(DataError, match="at least 4"):
        vqa_accuracy("yes", ["yes"] * 3)
    with pytest.raises(DataError, match="no annotator"):
        legacy_vqa_accuracy("yes", [])


def test_gqa_forgives_case_blanks_and_the_full_stop_and_nothing_else():
    assert gqa_accuracy(" Yes. ", ["yes"]) == 1.0
    assert gqa_accuracy("yes it is", ["yes"]) == 0.0
    assert gqa_accuracy("the table", ["table"]) == 0.0


@pytest.mark.parametrize(
    ("reply", "said", "legacy_said"),
    [
        ("Yes", "yes", "yes"),
        ("yes, there is a dog.", "yes", "yes"),
        ("No.", "no", "no"),
        ("NO", "no", "yes"),
        ("no, there isn't", "no", "no"),
        ("No there is no dog in it", "no", "no"),
        ("The answer is no", "no", "no"),
        ("The answer is yes.", "yes", "yes"),
        ("There is no dog in the image.", "no", "no"),
        ("There is a dog.", "yes", "yes"),
        ("There is a dog, not a cat.", "yes", "no"),
        ("In the picture, a dog is visible", "yes", "yes"),
        ("I do not see a dog", "no", "no"),
        ("I don't see any dog here.", "no", "yes"),
        ("A dog cannot be seen.", "no", "yes"),
        ("Yes, there is no doubt.", "yes", "no"),
        ("Yes, there is a dog but no cat", "yes", "no"),
        ("Options: Yes No", None, "no"),
        ("yes or no", None, "no"),
        ("", None, "yes"),
        ("I'm sorry, I cannot help with that.", None, "yes"),
        ("I am not sure", None, "no"),
        ("dog", None, "yes"),
    ],
)
def test_yes_and_no_are_read_with_their_sense(reply, said, legacy_said):
    assert read_yes_no(reply) == said
    assert pope_yes_no(reply) == legacy_said


@pytest.mark.parametrize(
    ("question", "reply", "said"),
    [
        ("Are there two pens?", "There are three pens.", "no"),
        ("Are there two pens?", "There are two pens.", "yes"),
        ("Is the car red?", "The car is blue.", "no"),
        ("Is there a dog in the image?", "There is no dog.", "no"),
        ("Is there a dog in the image?", "No, there is no dog in the image.", "no"),
        ("Is there a dog in the image?", "I'm sorry, I cannot help with that.", None),
    ],
)
def test_yes_and_no_are_read_with_the_question(question, reply, said):
    assert read_yes_no(AskedReply(reply, question)) == said
    if said:
        assert typed_match(AskedReply(reply, question), [said]) == 1.0


@pytest.mark.parametrize(
    ("reply", "gold", "value"),
    [
        ("seven hundred", "7", 0.0),
        ("minus seven", "7", 0.0),
        ("seven hundred", "700", 1.0),
        ("Answer: 8\n\nExplanation: 5 + 3 = 8", "8", 1.0),
        ("2011<|im_end|>", "2011", 1.0),
        ("2011</s>", "2011", 1.0),
        ("<think>2010 or 2011?</think>2011", "2011", 1.0),
        ("<answer>2011</answer>", "2011", 1.0),
        ("\\boxed{2011}", "2011", 1.0),
        ("I'm sorry, I can't count the 3 people.", "3", 0.0),
        ("The answer is B.", "B", 1.0),
        ("It is not A. The answer is B.", "A", 0.0),
    ],
)
def test_answers_pass_one_door_before_they_are_compared(reply, gold, value):
    assert typed_match(reply, [gold]) == value


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Which day comes after 11 May 2020?", 1.0),
        ("Which is later, 11 May 2020 or 12 May 2020?", 0.0),
        ("Which day is it?", 0.0),
    ],
)
def test_a_date_of_the_question_may_be_repeated(question: str, value: float) -> None:
    reply = AskedReply("The day after May 11, 2020 is May 12, 2020.", question)
    assert typed_match(reply, ["2020-05-12"]) == value


@pytest.mark.parametrize(
    "reply", ["2011<|im_end|>", "2011</s>", "<answer>2011</answer>", "\\boxed{2011}", "**2011**"]
)
def test_exact_match_sees_no_turn_tokens_and_frames(reply):
    assert exact_match(reply, ["2011"]) == 1.0


def test_relaxed_accuracy_takes_the_answer_that_a_reply_announces():
    assert relaxed_accuracy("Answer: 8\n\nExplanation: 5 + 3 = 8", ["8"]) == 1.0
    assert relaxed_accuracy("12M", ["12"]) == 0.0
    assert relaxed_accuracy("I'm sorry, I can't read the 12 bars.", ["12"]) == 0.0


GOLDS = ["yes", "no"] * 3


def pope(replies, golds):
    """POPE's numbers by name."""
    counts = [pope_counts(reply, gold) for reply, gold in zip(replies, golds, strict=True)]
    return dict(
        zip(
            POPE.names,
            pope_rows([sum(column) for column in zip(*counts, strict=True)]),
            strict=True,
        )
    )


@pytest.mark.parametrize(
    ("replies", "accuracy", "precision", "recall", "f1", "yes_rate", "unparsed"),
    [
        (["yes"] * 6, 0.5, 0.5, 1.0, 2 / 3, 1.0, 0.0),
        (["no"] * 6, 0.5, None, 0.0, 0.0, 0.0, 0.0),
        ([None] * 6, 0.0, None, 0.0, 0.0, 0.0, 1.0),
        (GOLDS, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0),
        (["yes", "yes", None, "no", "no", None], 2 / 6, 1 / 2, 1 / 3, 0.4, 2 / 6, 2 / 6),
    ],
)
def test_pope_of_scripted_models_by_hand(
    replies, accuracy, precision, recall, f1, yes_rate, unparsed
):
    values = (accuracy, precision, recall, f1, yes_rate, unparsed)
    for value, expected in zip(pope(replies, GOLDS).values(), values, strict=True):
        assert value == (None if expected is None else pytest.approx(expected))


labels = st.lists(
    st.tuples(st.sampled_from(["yes", "no", None]), st.sampled_from(["yes", "no"])), min_size=1
)


@given(labels, st.randoms(use_true_random=False))
def test_pope_does_not_depend_on_order_or_repetition_and_its_f1_follows_from_p_and_r(pairs, draw):
    score = pope([reply for reply, _ in pairs], [gold for _, gold in pairs])
    draw.shuffle(pairs)
    again = pope([reply for reply, _ in pairs * 2], [gold for _, gold in pairs * 2])
    assert again == pytest.approx(score)
    precision, recall = score["pope_precision"], score["pope_recall"]
    if precision and recall:
        assert score["pope_f1"] == pytest.approx(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("22/03/2026", 1.0),
        ("It was 03-22-2026.", 1.0),
        ("2026.3.22", 1.0),
        ("2026-03-22", 1.0),
        ("23/03/2026", 0.0),
        ("From 22/03/2026 to 24/03/2026", 0.0),
        ("22/2026", 0.0),
        ("It was on March 22nd, 2026.", 1.0),
        ("22 Mar 2026", 1.0),
        ("May 22, 2026", 0.0),
        ("From March 22, 2026 to 24 March 2026", 0.0),
        # The same date in two forms, and numbers that are no date.
        ("2026-03-22 (22/03/2026)", 1.0),
        ("03/22/2026 (March 22, 2026)", 1.0),
        ("March 22, 2026, call 555-12-3456", 1.0),
        ("Since version 1.2.3, of March 22, 2026", 1.0),
        # The answer that is announced, and denied dates.
        ("It says 20 March 2026 and 22 March 2026.\nFinal answer: March 22, 2026", 1.0),
        ("It says 20 March 2026 and 22 March 2026.\nFinal answer: March 20, 2026", 0.0),
        ("The date is March 22, 2026, not March 24, 2026.", 1.0),
        ("It isn't March 22, 2026", 0.0),
    ],
)
@pytest.mark.parametrize("gold", ["2026-03-22", "March 22, 2026", "22 March 2026"])
def test_a_date_is_the_same_in_any_order(gold: str, reply: str, value: float) -> None:
    assert typed_match(reply, [gold]) == value


@pytest.mark.parametrize(
    ("reply", "gold", "value"),
    [
        ("Twenty dozen = 20 × 12 = 240 cups\n\n$34,800 ÷ 240 = $145\n\n**145**", "145", 1.0),
        ("First = 3\nSecond = 4\n- Total = 20 + 60 + 240 = **320 cards**", "320", 1.0),
        ("First = 3\nSecond = 4\n- Total = 20 + 60 + 240 = **320 cards**", "240", 0.0),
        ("The answer is 7.\n\n(The 20 groups are not needed to answer the question.)", "7", 1.0),
        ("2 dogs\n3 cats", "3", 0.0),
    ],
)
def test_a_calculation_answers_with_the_number_of_its_last_line(reply, gold, value):
    assert typed_match(reply, [gold]) == value


def test_direct_answers_count_three_annotators_without_leaving_one_out():
    answers = ["thirty"] * 8 + ["30th"] * 2
    assert direct_answer_accuracy("30th.", answers) == pytest.approx(2 / 3)
    assert direct_answer_accuracy("Thirty", answers) == 1.0
    with pytest.raises(DataError, match="needs at least 4"):
        direct_answer_accuracy("30th", ["30th"])


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("It is.", "yes"),
        ("Sure, there is.", "yes"),
        ("Of course there is!", "yes"),
        ("I think it does.", "yes"),
        ("Right, there is", "yes"),
        ("Certainly.", "yes"),
        ("It isn't.", "no"),
        ("I don't think so.", "no"),
        ("Of course not", "no"),
        ("It certainly is not.", "no"),
        ("It is in the", None),
    ],
)
def test_short_answers_without_yes_or_no_are_read(reply: str, expected: str | None) -> None:
    asked = AskedReply(reply, "Is there a dog in the image?")
    assert read_yes_no(reply) == read_yes_no(asked) == expected


@pytest.mark.parametrize("reply", ["Right.", "Left", "It is a dog.", "There are two"])
def test_what_names_a_thing_or_a_side_is_no_short_answer(reply: str) -> None:
    assert short_yes_or_no(reply) is None


@pytest.mark.parametrize(
    ("reply", "reference", "is_right"),
    [
        ("North Atlantic Conference", "the North Atlantic Conference", True),
        ("It is A41.", "The A41", True),
        ("a cup", "the cup", True),
        ("cup", "a cup", True),
        ("the B team", "A team", False),
        ("nothing", "the", False),
        # "A" after an article is a name, and the other word of `The The` is not an article alone.
        ("It is a train", "the A train", False),
        ("the A train", "the A train", True),
        ("The The", "The The", True),
        ("an A", "an A", True),
        ("a B", "an A", False),
        # "a" is a number.
        ("one week", "a week", True),
        ("1 week", "a week", True),
        ("week", "a week", True),
        ("two weeks", "a week", False),
        ("It takes 12 hours.", "an hour", False),
        ("twenty hours, then an hour", "an hour", True),
        ("three hundred", "a hundred", False),
        ("two dogs", "the dog", True),
    ],
)
def test_an_article_before_a_reference_need_not_be_said(
    reply: str, reference: str, *, is_right: bool
) -> None:
    assert typed_match(reply, [reference, "a hat"]) == is_right
    if reference != "the":
        assert typed_match(reply, [reference]) == is_right
