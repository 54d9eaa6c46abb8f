"""Text normalisations: what each keeps, and that the standard one settles in one pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from snellen.metrics.normalise import legacy_ocr_normalise, standard_normalise, vqa_normalise


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Hello, WORLD!", "hello world"),
        ("hello-world", "hello world"),
        ("café CAFÉ", "café café"),
        ("Straße", "strasse"),
        ("ｆｕｌｌ １２", "full 12"),
        ("ﬁne", "fine"),
        ("1.5 metres", "1.5 metres"),
        ("$1,000,000.50", "1000000.50"),
        ("17.1%", "17.1"),
        ("C++ and C#, not C", "c++ and c# not c"),
        ("a+b snake_case", "a b snake case"),
        ("三只猫 and コーヒー", "三 只 猫 and コ ー ヒ ー"),
        ("한국어 हिन्दी", "한국어 हिन्दी"),
        ("soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"),
        ("?!... -", ""),
    ],
)
def test_standard_keeps_words_in_one_case(text, normal):
    assert standard_normalise(text) == normal


@given(st.text(max_size=40))
@example("ㇰ+")  # a sign that is a word of its own, so that no plus belongs to it
def test_standard_is_idempotent(text):
    assert standard_normalise(standard_normalise(text)) == standard_normalise(text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_standard_words_of_two_texts_are_the_words_of_each(first, second):
    assert (
        standard_normalise(f"{first}\n{second}")
        == f"{standard_normalise(first)} {standard_normalise(second)}".strip()
    )


@given(st.text(st.characters(max_codepoint=0x24F), max_size=40))
def test_standard_does_not_see_case_or_punctuation_at_the_ends(text):
    assert standard_normalise(f'"{text.strip()}"') == standard_normalise(text)


def test_legacy_ocr_deletes_all_but_ascii_letters_and_digits():
    assert legacy_ocr_normalise("Hello-World, café 5!") == "helloworld caf 5"
    assert legacy_ocr_normalise("日本") == ""


@given(st.text(max_size=40))
def test_legacy_ocr_is_idempotent_and_ascii(text):
    assert legacy_ocr_normalise(legacy_ocr_normalise(text)) == legacy_ocr_normalise(text)
    assert re.fullmatch(r"[a-z0-9\s]*", legacy_ocr_normalise(text))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The answer is Two.", "answer is 2"),
        ("none", "0"),
        ("a-b", "b"),  # parted, and the a is an article
        ("x-y", "x y"),
        ("x- y z-w", "x y zw"),  # a sign that touches a blank anywhere is deleted everywhere
        ("1,000-x", "1000x"),  # digit-comma-digit: all signs deleted
        ("dont cant wed", "don't can't wed"),
        ("couldnt've", "couldn't've"),
        ("5.5 st.", "5.5 st"),
        ("red:blue", "red:blue"),  # the colon is not in the official list
        ("line\nbreak\ttab", "line break tab"),
        (". " * 40, ". . . . . . . ."),  # a flag passed as a count: only 32 full stops go
    ],
)
def test_vqa_is_the_official_scripts_form(text, normal):
    assert vqa_normalise(text) == normal


@given(st.text(st.sampled_from("ab1 2.,;-/'?!"), max_size=30))
def test_vqa_is_idempotent_below_thirty_two_full_stops(text):
    assert vqa_normalise(vqa_normalise(text)) == vqa_normalise(text)


def test_vqa_is_not_idempotent_above_thirty_two_full_stops():
    assert vqa_normalise(vqa_normalise("x" + "." * 40)) != vqa_normalise("x" + "." * 40)


@given(st.text("abc ", max_size=30))
def test_vqa_never_leaves_an_article_or_double_blanks(text):
    assert not {"a", "an", "the"} & set(vqa_normalise(text).split())
    assert "  " not in vqa_normalise(text)
