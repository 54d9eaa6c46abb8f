"""Reading and extraction metrics: hand-computed values, edit distance by the textbook, invariants."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.errors import DataError
from snellen.metrics.kie import entity_counts, entity_rows, word_f1
from snellen.metrics.ocr import (
    anls,
    character_error_rate,
    contains_answer,
    edit_distance,
    edit_similarity,
    exact_match,
    legacy_anls,
    word_accuracy,
)
from snellen.suites.lvlm_ehub.extraction import class_match, kie_word_counts, kie_word_rows
from snellen.suites.reform_eval.predictions import ocr_match

PER_SAMPLE = [word_accuracy, contains_answer, exact_match, anls, edit_similarity, word_f1]


@pytest.mark.parametrize(
    ("reply", "gold", "words", "contained", "exact", "legacy_hit"),
    [
        ("The sign says STOP.", "stop", 1.0, 1.0, 0.0, 1.0),
        ("STOP", "stop", 1.0, 1.0, 1.0, 1.0),
        ("stop sign", "sign stop", 1.0, 0.0, 0.0, 0.0),
        ("It reads: happy day", "happy birthday", 0.5, 0.0, 0.0, 0.0),
        ("nonstop", "stop", 0.0, 0.0, 0.0, 0.0),
        ("hello world", "hello-world", 1.0, 1.0, 1.0, 0.0),  # legacy looks for helloworld
        ("a caf\u00e9", "caf\u00e9", 1.0, 1.0, 0.0, 1.0),  # legacy as caf
        ("a caf", "caf\u00e9", 0.0, 0.0, 0.0, 1.0),
        ("", "stop", 0.0, 0.0, 0.0, 0.0),
        ("C++", "C", 0.0, 0.0, 0.0, 1.0),
        ("$5.00", "$5.00", 1.0, 1.0, 1.0, 1.0),
    ],
)
def test_reading_by_hand(reply, gold, words, contained, exact, legacy_hit):
    assert word_accuracy(reply, [gold]) == words
    assert contains_answer(reply, [gold]) == contained
    assert exact_match(reply, [gold]) == exact
    assert ocr_match(reply, [gold]) == legacy_hit


def test_legacy_joins_the_references_and_standard_takes_the_best():
    assert ocr_match("happy new year", ["happy", "new"]) == 1.0
    assert ocr_match("new happy year", ["happy", "new"]) == 0.0
    assert class_match("a tabby", ["cat", "tabby"]) == 1.0
    assert word_accuracy("a tabby", ["cat", "tabby"]) == 1.0


def test_a_gold_without_letters_matches_any_reply_in_legacy_and_is_an_error_in_standard():
    assert ocr_match("anything", ["\u65e5\u672c"]) == 1.0
    assert ocr_match("", ["\u65e5\u672c"]) == 0.0
    assert contains_answer("anything", ["\u65e5\u672c"]) == 0.0
    for metric in (word_accuracy, contains_answer, exact_match, word_f1):
        with pytest.raises(DataError, match="no letter or digit"):
            metric("anything", ["..."])


@pytest.mark.parametrize("metric", PER_SAMPLE)
def test_references_must_be_a_list_with_a_text(metric):
    for references in ([], "stop", ["  "]):
        with pytest.raises(DataError, match=r"references|gold"):
            metric("stop", references)


def test_anls_by_hand():
    assert anls("hallo", ["hello"]) == pytest.approx(0.8)
    assert anls("Hello ", ["hello"]) == 1.0
    assert anls("abxx", ["abcd"]) == 0.0  # NL is exactly 0.5: zero by the paper's equation
    assert anls("abcx", ["abcd", "zzzz"]) == pytest.approx(0.75)


def test_legacy_anls_is_that_of_published_scripts():
    assert (
        legacy_anls("abxx", ["abcd"]) == 0.5
    )  # kept at exactly 0.5 where the paper's equation has 0
    assert legacy_anls("axxx", ["abcd"]) == 0.0
    assert legacy_anls("Hello ", ["hello"]) == 1.0
    # One edit; `anls` divides by the five letters, the scripts by the six signs of the reply as received.
    assert legacy_anls("hallo ", ["hello"]) == pytest.approx(1 - 1 / 6)
    with pytest.raises(DataError, match="references"):
        legacy_anls("stop", [])
    assert edit_similarity("abxx", ["abcd"]) == pytest.approx(0.5)


def test_the_character_error_rate_can_exceed_one():
    assert character_error_rate("hallo", ["hello"]) == pytest.approx(0.2)
    assert character_error_rate("abcdef", ["xy"]) == pytest.approx(3.0)
    assert character_error_rate("", ["four"]) == 1.0


texts = st.text("abc ", max_size=15)
golds = st.text("abc ", min_size=1, max_size=15).filter(str.strip)


def textbook_distance(first: str, second: str) -> int:
    row = list(range(len(second) + 1))
    for i, left in enumerate(first, start=1):
        above, row = row, [i]
        for j, right in enumerate(second, start=1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (left != right)))
    return row[-1]


@given(texts, texts)
def test_the_edit_distance_is_the_textbooks(first, second):
    assert edit_distance(first, second) == textbook_distance(first, second)


def test_the_edit_distance_of_long_texts_is_the_textbooks():
    first, second = "the quick brown fox " * 9, "a quick brown dog jumps " * 7
    assert edit_distance(first, second) == textbook_distance(first, second)


@given(texts, texts, texts)
def test_the_edit_distance_is_a_metric(first, second, third):
    assert edit_distance(first, second) == edit_distance(second, first)
    assert (edit_distance(first, second) == 0) == (first == second)
    assert edit_distance(first, third) <= edit_distance(first, second) + edit_distance(
        second, third
    )


@given(texts, st.lists(golds, min_size=1, max_size=4))
def test_metrics_stay_in_the_unit_interval_and_more_golds_never_hurt(reply, references):
    for metric in PER_SAMPLE:
        value = metric(reply, references)
        assert 0.0 <= value <= 1.0
        assert value >= metric(reply, references[:1])
        assert value == metric(reply, references[::-1])


@given(golds)
def test_a_gold_scores_one_against_itself(gold):
    for metric in PER_SAMPLE:
        assert metric(gold, [gold]) == 1.0


@given(texts, golds)
def test_what_matches_exactly_is_contained_and_what_is_contained_has_all_words(reply, gold):
    assert (
        exact_match(reply, [gold]) <= contains_answer(reply, [gold]) <= word_accuracy(reply, [gold])
    )


def entity_f1(pairs):
    """F1, precision and recall of replies and their golds."""
    return entity_rows(
        [sum(column) for column in zip(*(entity_counts(*pair) for pair in pairs), strict=True)]
    )


def test_entity_f1_by_hand():
    """Right: two companies and the date; predicted: four replies that are not empty; gold: five."""
    read = [
        ("abc ltd", "ABC Ltd."),
        ("8.00", "RM 9.00"),
        ("XYZ", "XYZ"),
        ("", "12.50"),
        ("01-02-2019", "01/02/2019"),
    ]
    f1, precision, recall = entity_f1([(reply, [gold]) for reply, gold in read])
    assert (f1, precision, recall) == (
        pytest.approx(6 / 9),
        pytest.approx(3 / 4),
        pytest.approx(3 / 5),
    )


def test_entity_f1_of_silence_is_zero():
    assert entity_f1([("", ["5"])]) == (0.0, 0.0, 0.0)


@given(st.lists(st.tuples(texts, golds.map(lambda gold: [gold])), min_size=1, max_size=5))
def test_entity_f1_is_bounded_and_unmoved_by_repeating_the_questions(pairs):
    once = entity_f1(pairs)
    assert all(0.0 <= value <= 1.0 for value in once)
    assert entity_f1(pairs * 2) == pytest.approx(once)
    assert entity_f1([(gold, [gold]) for _, [gold] in pairs])[0] == 1.0


def test_word_f1_by_hand():
    assert word_f1("the total is 9.00", ["9.00"]) == pytest.approx(2 * 1 / (4 + 1))
    assert word_f1("b b", ["b"]) == pytest.approx(2 / 3)
    assert word_f1("", ["b"]) == 0.0


def test_legacy_word_f1_keeps_case_and_is_zero_without_a_match():
    counts = [kie_word_counts(*pair) for pair in (("ABC ltd", "ABC Ltd"), ("12.50", "12.50 EUR"))]
    f1, precision, recall = kie_word_rows([sum(column) for column in zip(*counts, strict=True)])
    assert (precision, recall) == (pytest.approx(2 / 3), pytest.approx(2 / 4))
    assert f1 == pytest.approx(2 * (2 / 3) * 0.5 / (2 / 3 + 0.5))
    assert kie_word_rows(kie_word_counts("abc", "ABC"))[0] == 0.0
