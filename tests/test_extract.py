"""Reading choices: labelled cases, the properties of the reference extractor, its speed by counting."""

from __future__ import annotations

import json
import sys
from itertools import permutations
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snellen.errors import UnknownNameError
from snellen.extraction import (
    ExtractedChoice,
    RuleMethod,
    find_extractor,
    named_extractors,
    read_choice,
    standard,
)
from snellen.reasons import NoChoiceReason

COLOURS = ("red", "blue", "green", "yellow")
UPPER, LOWER, NUMBERS = (
    tuple(ascii_uppercase),
    tuple(ascii_lowercase),
    tuple(str(i + 1) for i in range(26)),
)
CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "replies" / "conformance.jsonl").read_text().splitlines()
]
MODES = ("standard", "strict")


# Labelled cases


def reading_of(case: dict[str, Any], mode: str = "standard") -> ExtractedChoice:
    """What `mode` makes of a case."""
    return find_extractor(mode).read(case["reply"], case["options"], case["labels"])


def test_unambiguous_cases_are_read_as_a_careful_person_reads_them() -> None:
    cases = [case for case in CASES if case["kind"] == "unambiguous"]
    readings = [(reading_of(case), case["expected"]) for case in cases]
    right = sum(reading.choice == expected for reading, expected in readings)
    certain = [
        (reading, expected) for reading, expected in readings if reading.confidence == "certain"
    ]
    certain_and_wrong = sum(reading.choice != expected for reading, expected in certain)

    assert len(cases) > 1000
    assert right / len(cases) >= 0.93
    assert len(certain) > 500
    assert certain_and_wrong <= 4


def test_strict_agrees_with_standard_where_it_names_an_option() -> None:
    for case in CASES:
        strict = reading_of(case, "strict")
        if strict.choice is not None:
            assert strict.extraction_method != "text"
            assert strict.choice == reading_of(case).choice, case["id"]


def test_the_span_holds_the_deciding_words() -> None:
    reading = read_choice("After a long look: the answer is Ｂ.", COLOURS, UPPER)
    assert reading.span is not None
    assert "After a long look: the answer is Ｂ."[slice(*reading.span)] == "Ｂ"


@pytest.mark.parametrize(
    ("reply", "method"),
    [
        ("(B)", "label"),
        ("(B) blue", "label+text"),
        ("blue (B)", "label+text"),
        ("It is blue.", "text"),
    ],
)
def test_each_extraction_method_is_reached(reply: str, method: str) -> None:
    reading = read_choice(reply, COLOURS, UPPER)
    assert (reading.extraction_method, reading.reason) == (method, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (" \n", "empty"),
        ("<think>B or C?", "empty"),
        ("I'm sorry, I cannot tell.", "refused"),
        ("A or B", "ambiguous"),
        ("not B", "negated"),
        ("purple", "no match"),
        ("the sky and the sea " * 40, "loop"),
    ],
)
def test_each_reason_for_no_option_is_reached(reply: str, reason: str) -> None:
    reading = read_choice(reply, COLOURS, UPPER)
    assert (reading.choice, reading.extraction_method, reading.reason) == (None, None, reason)


def test_the_detail_tells_readings_apart() -> None:
    assert read_choice("The answer is (b).", COLOURS, UPPER).detail == "stated as the answer"
    weighed = read_choice("You'd think A, but it's B", COLOURS, UPPER)
    assert weighed.confidence == "likely" and weighed.detail.startswith("weighed, ")


def test_a_reading_has_a_probability_and_an_error_rate_decides_what_is_read() -> None:
    reply = "You'd think A, but it's B"
    assert 0.5 < read_choice(reply, COLOURS, UPPER, error=0.5).probability < 1
    assert read_choice(reply, COLOURS, UPPER, error=0.5).choice == 1
    assert read_choice(reply, COLOURS, UPPER, error=1e-6).choice is None
    assert (
        read_choice("B", COLOURS, UPPER, error=1e-6).choice == 1
    )  # what is certain is read in any case
    assert find_extractor("standard?error=0.5").read(reply, COLOURS, UPPER).choice == 1
    with pytest.raises(UnknownNameError, match="error"):
        find_extractor("standard?error=2")
    with pytest.raises(UnknownNameError, match="no error rate that can be set"):
        find_extractor("strict?error=0.1")


@pytest.mark.parametrize(
    "reply", ["You'd think A, but it's B", "B", "not B", "", "I cannot see it.", "red or blue"]
)
def test_probabilities_cover_the_options_and_no_answer(reply: str) -> None:
    reading = read_choice(reply, COLOURS, UPPER)
    everything = range(len(COLOURS))
    none = 1 - reading.probability_of(everything)

    assert len(reading.probabilities) in (0, len(COLOURS) + 1)
    assert sum(reading.probabilities) == pytest.approx(1 if reading.probabilities else 0)
    assert reading.probability == pytest.approx(
        none if reading.choice is None else reading.probability_of([reading.choice])
    )


def test_a_hit_is_a_label_and_never_a_text() -> None:
    assert read_choice("(B) blue", COLOURS, UPPER).follows_format
    assert read_choice("b", COLOURS, UPPER).follows_format
    assert not read_choice("blue", COLOURS, UPPER).follows_format
    assert not read_choice("A or B", COLOURS, UPPER).follows_format


def test_without_labels_texts_are_read() -> None:
    assert read_choice("It is blue.", COLOURS, ()).choice == 1
    assert read_choice("B", COLOURS, ()).choice is None
    assert read_choice("B", (), ()).choice is None


# Properties

NOUNS = (
    "cat",
    "dog",
    "red car",
    "kitchen table",
    "table",
    "left",
    "top left",
    "sunny day",
    "New York",
    "York",
    "elephant",
)
SENTENCES = (
    "{}",
    "{}.",
    " {}",
    "It is {}.",
    "The answer is {}.",
    "The answer is: {}",
    "It's not that, it is {}",
    "**{}**",
)


@given(
    st.lists(st.sampled_from(NOUNS), min_size=2, max_size=5, unique=True),
    st.sampled_from(SENTENCES),
    st.data(),
)
def test_an_option_named_by_its_text_is_the_same_in_any_order(
    options: list[str], said: str, data: st.DataObject
) -> None:
    named = data.draw(st.sampled_from(options))
    for order in permutations(options):
        choice = read_choice(said.format(named), order, UPPER[: len(order)]).choice
        assert choice is not None
        assert order[choice] == named


ALPHABETS = st.sampled_from((UPPER, LOWER, NUMBERS))
MARKED = (
    "{}",
    "({})",
    "{}.",
    "({}).",
    " {}",
    "{})",
    "[{}]",
    '"{}"',
    "**{}**",
    "The answer is ({}).",
    "Answer: {}",
    "答案：{}",
)


@given(ALPHABETS, st.integers(2, 26), st.sampled_from(MARKED), st.sampled_from(MODES), st.data())
def test_a_reply_of_a_label_is_that_label_in_every_alphabet(
    alphabet: tuple[str, ...], count: int, said: str, mode: str, data: st.DataObject
) -> None:
    options = [f"thing {chr(0x3B1 + i)}{chr(0x3B1 + i)}" for i in range(count)]
    place = data.draw(st.integers(0, count - 1))
    reading = find_extractor(mode).read(said.format(alphabet[place]), options, alphabet[:count])
    assert (reading.choice, reading.extraction_method, reading.follows_format) == (
        place,
        "label",
        True,
    )


ANY_TEXT = st.one_of(
    st.text(max_size=200),
    st.text(alphabet="ABCDabcd .,;:()[]\"'*_\\{}<>/-\n红答案是选不或", max_size=60),
    st.lists(
        st.sampled_from([w for case in CASES for w in case["reply"].split(" ")[:30]]), max_size=12
    ).map(" ".join),
)
ANY_LIST = st.lists(
    st.one_of(st.text(max_size=12), st.sampled_from(["a", "A", "no", "", "...", "not a cat", "3"])),
    max_size=6,
)


@settings(max_examples=200)
@given(
    ANY_TEXT,
    ANY_LIST,
    st.one_of(ANY_LIST, st.sampled_from([list(UPPER[:6]), list(LOWER[:6]), list(NUMBERS[:6])])),
)
def test_no_reply_raises_and_every_choice_is_in_range(
    reply: str, options: list[str], labels: list[str]
) -> None:
    for extractor in named_extractors().values():
        reading = extractor.read(reply, options, labels)
        if reading.choice is None:
            assert reading.extraction_method is None and reading.reason in get_args(NoChoiceReason)
            assert reading.confidence == "none"
        else:
            assert 0 <= reading.choice < len(options)
            assert reading.extraction_method in get_args(RuleMethod) and reading.reason is None
        if reading.span is not None:
            assert 0 <= reading.span[0] <= reading.span[1] <= len(reply)


@settings(max_examples=150)
@given(ANY_TEXT, st.sampled_from([COLOURS, ("yes", "no"), ("cat", "dog", "red")]))
@example("0,a:", COLOURS)
def test_white_space_and_bold_around_any_reply_change_nothing(
    reply: str, options: tuple[str, ...]
) -> None:
    plain = read_choice(reply, options, UPPER[: len(options)])
    for dressed in (f"  {reply}\n", f"**{reply}**"):
        again = read_choice(dressed, options, UPPER[: len(options)])
        assert (again.choice, again.extraction_method, again.reason) == (
            plain.choice,
            plain.extraction_method,
            plain.reason,
        )


# Long replies

LOOPS = (
    "A or ",
    "A, ",
    "A\n",
    "A. ",
    "A? ",
    "not A, ",
    "A is not ",
    "red, blue and ",
    "A. red ",
    '"B" ',
    "the answer is A ",
)
LOOPS += (
    "if A were ",
    "sorry, A ",
    "选A和",
    "不是A",
    "answer for the ",
    "(A ",
    "<answer>",
    "\\boxed{",
    "<think>",
    "\nHuman:",
)


def calls(reply: str) -> int:
    """How many Python and C functions one reading calls."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    read_choice(f"warm {len(reply)}", COLOURS, UPPER[:4])
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        read_choice(reply, COLOURS, UPPER[:4])
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("loop", LOOPS)
def test_work_grows_no_faster_than_the_reply(loop: str) -> None:
    once = calls(loop * 300)
    twice = calls(loop * 600)
    assert twice <= 2.4 * once + 500


@pytest.mark.parametrize(
    "loop", ["A or ", "B. blue ", "it is red, and ", "答案是", "\n", "A. \n", " "]
)
def test_no_more_of_a_reply_is_read_than_its_both_ends(loop: str) -> None:
    full = calls(loop * (70_000 // len(loop)))
    assert calls(loop * (280_000 // len(loop))) <= 1.1 * full + 200


def test_an_answer_is_found_behind_forty_thousand_characters() -> None:
    reply = "The sky in this picture has some colour. " * 1000 + "So the answer is (B)."
    assert read_choice(reply, COLOURS, UPPER).choice == 1
    assert (
        read_choice("The answer is (C). " + "It has a colour. " * 2000, COLOURS, UPPER).choice == 2
    )


def test_an_answer_is_found_in_a_long_text_without_blanks() -> None:
    assert read_choice("图中的天空有一种颜色，" * 4000 + "答案是B", COLOURS, UPPER).choice == 1


def test_no_letter_at_the_cut_becomes_an_answer() -> None:
    sentence = " I see vitamin B. "
    for shift in range(len(sentence)):  # then the cut falls on the same letters again
        reply = "x" * shift + sentence * 3000
        assert read_choice(reply, COLOURS, UPPER).choice is None


def test_every_extractor_has_a_version_of_its_own() -> None:
    versions = [extractor.version for extractor in named_extractors().values()]
    assert len(set(versions)) == len(versions) == 12


def test_a_reading_is_stored_small() -> None:
    assert ExtractedChoice(None, None, "none", reason="empty") == read_choice("", COLOURS, UPPER)


OPTION_TEXTS = st.sampled_from(
    ["cat", "a dog", "yes", "No.", "A", "b", "3", "(A) cat", "vitamin C", "None of the above", ""]
)
AROUND_LETTERS = st.sampled_from(
    ["{}", "({})", "{}.", "{})", "({}).", " {}\n", "({}", ".{}", "{}:"]
)


@given(
    st.lists(OPTION_TEXTS, min_size=1, max_size=4),
    st.sampled_from(["{}", "({})", "{}.", "[{}]"]),
    st.sampled_from(["ABCD", "abcd", "1234"]),
    st.sampled_from("ABCDabcd1"),
    AROUND_LETTERS,
    st.sampled_from([None, "stop", "length"]),
)
def test_a_letter_alone_is_read_as_the_longer_way_reads_it(
    options: list[str], style: str, alphabet: str, letter: str, around: str, finish: str | None
) -> None:
    labels = [style.format(character) for character in alphabet[: len(options)]]
    reply = around.format(letter)
    reading = read_choice(reply, options, labels, finish=finish)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standard, "exact_label", lambda *_: None)
        standard._read_cached.cache_clear()
        longer = read_choice(reply, options, labels, finish=finish)
    standard._read_cached.cache_clear()
    if letter.isupper() and letter not in alphabet[: len(options)]:
        # "C" where the labels are A and B: the longer way may weigh the options, the short one says no.
        assert reading == longer or reading == ExtractedChoice(
            None, None, "none", reason="no match"
        )
    else:
        assert reading == longer


@pytest.mark.parametrize(
    "reply", [r"So \boxed{50(5-\sqrt{5})}.", r"It is \(50(5-\sqrt{5})\).", r"50(5-\sqrt{5})"]
)
def test_a_formula_is_read_without_the_dollar_signs_of_its_option(reply: str) -> None:
    options = [r"$50 \sqrt{5}$", r"$100(\sqrt{5}-1)$", r"$50(5-\sqrt{5})$", r"$50(5+\sqrt{5})$"]
    assert read_choice(reply, options, "ABCD").choice == 2
