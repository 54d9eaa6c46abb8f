"""Which option an answer names, in each form in which tables, prompts and predictions write one."""

from __future__ import annotations

from typing import Any

import pytest

from snellen.recognition.named_option import bare_label, label_of, named_option

OPTIONS = ("a cat", "a dog to the left", "3")


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("B", 1),
        ("b", 1),
        ("(B)", 1),
        ("B.", 1),
        ("B. a dog", 1),
        ("B.dog", 1),
        ("Option 2: a dog", 1),
        ("A Cat.", 0),
        ("３", 2),
        ("3", 2),
        (["B"], 1),
        (1, 1),
        (3, 2),
        ("D", None),
        ("D.C. is a city", None),
        ("left", None),
        ("", None),
        (7, None),
    ],
)
def test_an_answer_in_any_form_names_an_option(answer: Any, place: int | None) -> None:
    assert named_option(answer, OPTIONS) == place


@pytest.mark.parametrize(
    ("form", "answer", "place"),
    [
        ("letter", "C", 2),
        ("letter", "option_b", 1),
        ("letter", "3", None),
        ("text", "C", None),
        ("text", "3", 2),
        ("index0", "1.0", 1),
        ("index1", "1", 0),
        ("index1", "4", None),
    ],
)
def test_a_stated_form_is_the_only_one(form: Any, answer: Any, place: int | None) -> None:
    columns = ("option_a", "option_b", "option_c")
    assert named_option(answer, OPTIONS, form, columns=columns) == place


def test_labels_that_were_shown_count_and_not_the_letters_from_a_on() -> None:
    assert named_option("D", ("cat", "dog"), labels=("B", "D")) == 1
    assert named_option("A", ("cat", "dog"), labels=("B", "D")) is None
    assert named_option("2", ("cat", "dog"), labels=("1", "2")) == 1


@pytest.mark.parametrize(("words", "place"), [("left", 1), ("dog", 1), ("bird", 2), ("to", 1)])
def test_words_of_one_option_name_it(words: str, place: int | None) -> None:
    assert named_option(words, ("a cat", "a dog to the left", "a bird"), in_words=True) == place
    assert named_option("beginning", ("a", "the beginnings"), in_words=True) == 1


def test_two_options_of_one_text_are_named_by_neither() -> None:
    assert named_option("same", ("same", "Same", "other")) == 0
    assert named_option("SAME", ("same", "Same", "other")) is None


def test_a_label_stands_alone_or_before_words() -> None:
    assert [bare_label(text) for text in ("(c)", "C:", "cat", "")] == ["C", "C", "", ""]
    assert [label_of(text) for text in ("C) x", "c. x", "D.C.", "cat")] == ["C", "C", "", ""]
