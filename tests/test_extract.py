"""Reading choices: the conformance set, the properties of the reference extractor, its speed by counting."""

from __future__ import annotations

import sys
from functools import cache
from itertools import permutations
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import get_args

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
)
from snellen.extraction.conformance import (
    ConformanceCase,
    conformance_cases,
    conformance_page,
    count_conformance,
    read,
    write_conformance_page,
)
from snellen.extraction.full_reading import READ_AT_MOST, read_in_full
from snellen.extraction.option_index import index_options
from snellen.extraction.standard import ERROR
from snellen.reasons import NoChoiceReason

COLOURS = ("red", "blue", "green", "yellow")
UPPER, LOWER, NUMBERS = (
    tuple(ascii_uppercase),
    tuple(ascii_lowercase),
    tuple(str(i + 1) for i in range(26)),
)
CASES = conformance_cases()
MODES = ("standard", "strict")


# The conformance set


@cache
def reading_of(case: ConformanceCase, mode: str = "standard") -> ExtractedChoice:
    """What `mode` makes of a case; most tests ask, and a case is read once for all."""
    return find_extractor(mode).read(case.reply, case.options, case.labels)


def test_standard_reads_the_unambiguous_cases_right() -> None:
    result = count_conformance("standard", [case for case in CASES if case.kind == "unambiguous"])
    assert result.right / result.cases >= 0.93
    assert result.mislabelled == 0


@pytest.mark.parametrize("mode", MODES)
def test_hardly_a_case_is_mislabelled(mode: str) -> None:
    named = [case.id for case in CASES if read(mode, case) not in (None, case.expected)]
    assert len(named) <= 1


def test_what_is_certain_is_right() -> None:
    for case in CASES:
        reading = reading_of(case)
        assert reading.confidence != "certain" or reading.choice == case.expected, case.id


def test_the_cases_are_many_distinct_and_well_formed() -> None:
    assert len(CASES) >= 300
    assert len({case.id for case in CASES}) == len(CASES)
    assert len({(case.reply, case.options, case.labels) for case in CASES}) == len(CASES)
    for case in CASES:
        assert len(case.labels) == len(case.options)
        assert case.expected is None or 0 <= case.expected < len(case.options)
        assert not (case.open_ok and (case.expected is None or case.kind == "unambiguous")), case.id


def test_the_conformance_page_is_up_to_date(tmp_path: Path) -> None:
    assert write_conformance_page([str(tmp_path / "page.md")]) == 0
    written = (tmp_path / "page.md").read_text("utf-8")
    assert written == conformance_page()
    shown = Path(__file__).parent.parent / "docs/evidence" / "extraction-conformance.md"
    assert shown.read_text("utf-8") == written, "run: python -m snellen.extraction.conformance"


def test_a_bold_reply_with_white_space_is_read_like_the_plain_one() -> None:
    for case in CASES:
        plain = reading_of(case)
        for dressed in (f"\n\n  **{case.reply}**\n ", f"__{case.reply}__"):
            again = read_choice(dressed, case.options, case.labels)
            assert (again.choice, again.extraction_method, again.reason) == (
                plain.choice,
                plain.extraction_method,
                plain.reason,
            ), (
                case.id,
                dressed,
            )


def test_strict_agrees_with_standard_where_it_names_an_option() -> None:
    for case in CASES:
        strict = reading_of(case, "strict")
        if strict.choice is not None:
            assert strict.extraction_method != "text"
            assert strict.choice == reading_of(case).choice, case.id


def test_the_span_holds_the_deciding_words() -> None:
    reading = read_choice("After a long look: the answer is Ｂ.", COLOURS, UPPER)
    assert reading.span is not None
    assert "After a long look: the answer is Ｂ."[slice(*reading.span)] == "Ｂ"
    for case in CASES:
        got = reading_of(case)
        if (
            got.choice is not None
            and got.extraction_method == "label"
            and got.span is not None
            and len(case.reply) < 200
        ):
            named = case.reply[slice(*got.span)]
            assert len(named) == 1 or any(character.isalnum() for character in named), case.id


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
        ("(B) green", "ambiguous"),
        ("not B", "negated"),
        ("purple", "no match"),
    ],
)
def test_each_reason_for_no_option_is_reached(reply: str, reason: str) -> None:
    reading = read_choice(reply, COLOURS, UPPER)
    assert (reading.choice, reading.extraction_method, reading.reason) == (None, None, reason)


def test_the_detail_tells_readings_apart() -> None:
    assert read_choice("The answer is (b).", COLOURS, UPPER).detail == "stated as the answer"
    weighed = read_choice("I think it's B, not C", COLOURS, UPPER)
    assert weighed.confidence == "likely" and weighed.detail.startswith("weighed, 9")
    assert "for 'blue'" in read_choice("not B", COLOURS, UPPER).detail


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
        choice = read_choice(said.format(named), order, UPPER[: len(order)], error=0.05).choice
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
        st.sampled_from([w for case in CASES for w in case.reply.split(" ")[:30]]), max_size=12
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


TRICKY = (
    "red",
    "a red car",
    "yes",
    "no",
    "not",
    "on",
    "A",
    "b",
    "2",
    "4 cm",
    "I",
    "left",
    "top left",
    "B flat",
    "The",
    "one",
)
OPENED = ("", " ", "The answer is ", "The answer is: ", "The correct answer is ", "\n")
BARE_OR_NOT = ("({})", "{}", "({}).", "{}.", "({}):", "{}:")


@settings(max_examples=500)
@given(
    st.lists(st.sampled_from(TRICKY), min_size=1, max_size=5),
    ALPHABETS,
    st.sampled_from(OPENED),
    st.sampled_from(BARE_OR_NOT),
    st.sampled_from(("", "{}", "{}.", "{} ")),
    st.data(),
)
def test_the_short_way_reads_like_the_full_way(
    options: list[str],
    alphabet: tuple[str, ...],
    opened: str,
    mark: str,
    text: str,
    data: st.DataObject,
) -> None:
    labels = alphabet[: len(options)]
    shown = data.draw(st.sampled_from(alphabet[:7]))
    behind = text.format(data.draw(st.sampled_from(options)))
    reply = f"{opened}{mark.format(shown)}{' ' if behind else ''}{behind}"
    in_full = read_in_full(reply, index_options(tuple(options), labels), ERROR)
    short = find_extractor("standard").read(reply, options, labels)
    assert (short.choice, short.confidence, short.extraction_method) == (
        in_full.choice,
        in_full.confidence,
        in_full.extraction_method,
    )


def test_the_same_question_is_prepared_once() -> None:
    assert index_options(COLOURS, UPPER[:4]) is index_options(tuple(COLOURS), UPPER[:4])


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

    asked = index_options(COLOURS, UPPER[:4])
    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        read_in_full(reply, asked, ERROR)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("loop", LOOPS)
def test_work_grows_no_faster_than_the_reply(loop: str) -> None:
    once, twice = calls(loop * 300), calls(loop * 600)
    assert twice <= 2.2 * once + 200


@pytest.mark.parametrize("loop", ["A or ", "B. blue ", "it is red, and ", "答案是"])
def test_no_more_of_a_reply_is_read_than_is_said(loop: str) -> None:
    full = calls(loop * (2 * READ_AT_MOST // len(loop)))
    assert calls(loop * (8 * READ_AT_MOST // len(loop))) <= 1.1 * full + 200


def test_an_answer_is_found_behind_forty_thousand_characters() -> None:
    reply = "The sky in this picture has some colour. " * 1000 + "So the answer is (B)."
    reading = read_choice(reply, COLOURS, UPPER)
    assert reading.choice == 1
    assert reading.span is not None
    assert reply[slice(*reading.span)] == "B"
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
    assert len(set(versions)) == len(versions) == 8


def test_a_reading_is_stored_small() -> None:
    assert ExtractedChoice(None, None, "none", reason="empty") == read_choice("", COLOURS, UPPER)
    assert ConformanceCase("x", "B", COLOURS, UPPER[:4], 1, "unambiguous").note == ""
