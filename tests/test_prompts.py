"""Prompts: what a model sees, letter by letter."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import small
from snellen.api import evaluate
from snellen.catalogue import entries
from snellen.errors import DataError, UnknownNameError
from snellen.extraction import STANDARD
from snellen.protocols.prompts.rendering import (
    EarlierReply,
    LabelStyle,
    alphabet_of,
    labels_for,
    place_images,
)
from snellen.protocols.prompts.templates import default_templates, load_templates, parse_templates
from snellen.records import Decoding, ImagePart, ImageRef, Sample, Turn, Variant
from snellen.suites.eyechart.scenes import PLACES, SHAPE_COLOURS, SHAPE_KINDS

IMAGE = ImageRef("ab" * 32, "image/png", 8, 6)
SAMPLE = Sample("q", "b", "Which?", (IMAGE,), ("cat", "dog", "cow"))
SHOWN = Variant(template="choice.generation.0", order=(2, 0, 1), labels=("A", "B", "C"))
DIALOGUE = Sample(
    "d",
    "b",
    images=(IMAGE,),
    turns=(Turn("Which?", ("cat", "dog")), Turn("What?"), Turn("And?", ("a", "b"))),
)


def said(
    sample: Sample, variant: Variant, *history: str, **settings: object
) -> list[tuple[str, str]]:
    request = small.prompt_for("choice", **settings).generate(
        sample, variant, tuple(map(EarlierReply, history))
    )
    return [(message.role, message.text) for message in request.messages]


def test_a_question_stands_under_its_instruction_with_the_options_in_the_order_asked_for() -> None:
    instruction = "Look at the picture and answer the question by choosing one of the options."
    assert said(SAMPLE, SHOWN) == [
        ("user", f"{instruction}\nWhich? Options: (A) cow; (B) cat; (C) dog."),
        ("assistant", "The answer is"),
    ]
    assert said(SAMPLE, SHOWN, prefix=False) == said(SAMPLE, SHOWN)[:1]


def test_a_context_stands_before_the_question() -> None:
    assert "\nA hint.\nWhich? Options:" in said(replace(SAMPLE, context="A hint."), SHOWN)[0][1]


def test_the_picture_opens_the_conversation_even_before_the_in_context_sample() -> None:
    request = small.prompt_for("choice").generate(SAMPLE, replace(SHOWN, in_context=True))
    assert isinstance(request.messages[0].content[0], ImagePart)
    assert request.images == (IMAGE,)
    [example, reply, question, prefix] = request.messages
    assert example.text.endswith(
        "Can you see the image? Options: (A) Yes; (B) No; (C) Not Sure; (D) Maybe."
    )
    assert reply.text == "The answer is (A) Yes."
    assert question.text == "Which? Options: (A) cow; (B) cat; (C) dog."
    assert (prefix.role, prefix.text) == ("assistant", "The answer is")


@pytest.mark.parametrize("style", get_args(LabelStyle))
@pytest.mark.parametrize("count", range(2, 9))
def test_the_in_context_sample_has_the_four_printed_options_whatever_the_question_and_its_kind_of_labels(
    style: LabelStyle, count: int
) -> None:
    labels = labels_for(style, count, style, count)
    sample = replace(SAMPLE, options=tuple(f"option {i}" for i in range(count)))
    [example, reply, question, _] = said(
        sample, replace(SHOWN, order=(), labels=labels, in_context=True)
    )
    shown = re.findall(r"\((\w+)\) ([\w ]+)", example[1])
    assert [text for _, text in shown] == ["Yes", "No", "Not Sure", "Maybe"]
    assert [label for label, _ in shown][:count] == list(labels[:4])
    assert re.findall(r"\((\w+)\)", question[1]) == list(labels)
    assert f"({labels[0]})" in reply[1]


def test_the_in_context_sample_says_nothing_of_any_picture() -> None:
    example = default_templates().in_context
    words = set(" ".join((example.question, *example.options)).casefold().split())
    assert not words & {
        word for name in (*SHAPE_KINDS, *SHAPE_COLOURS, *PLACES) for word in name.split()
    }
    assert len(example.options) == len(set(example.options)) == 4


def test_an_open_question_shows_no_options_and_opens_no_reply() -> None:
    request = small.prompt_for("text").generate(
        replace(SAMPLE, options=()), Variant(template="text.generation.0")
    )
    assert [message.role for message in request.messages] == ["user"]
    assert request.messages[0].text.endswith("\nWhich?")


def test_under_likelihood_options_are_continuations_in_the_samples_own_order_and_are_not_shown() -> (
    None
):
    variant = replace(SHOWN, template="choice.likelihood.0", in_context=True)
    request = small.prompt_for("choice", decoding=Decoding(temperature=1.0)).loglikelihood(
        SAMPLE, variant
    )
    assert request.continuations == ("cat", "dog", "cow")
    assert request.kind == "loglikelihood"
    assert [message.role for message in request.messages] == ["user"]
    assert not any(option in request.messages[0].text for option in SAMPLE.options)
    assert request.decoding == Decoding(max_new_tokens=0)


def test_earlier_rounds_of_a_dialogue_are_history_and_only_the_last_is_asked() -> None:
    variant = Variant(turn=2, template="dialogue.generation.0", order=(0, 1), labels=("A", "B"))
    instruction = default_templates().named("dialogue.generation.0")
    assert said(DIALOGUE, variant, "The answer is (B) dog.", "a cat") == [
        ("user", f"{instruction}\nWhich? Options: (A) cat; (B) dog."),
        ("assistant", "The answer is (B) dog."),
        ("user", "What?"),
        ("assistant", "a cat"),
        ("user", "And? Options: (A) a; (B) b."),
        ("assistant", "The answer is"),
    ]


def test_braces_in_a_question_or_an_option_stay_as_they_are() -> None:
    sample = replace(SAMPLE, question="{x} {0}?", options=("{label}", "{}"))
    assert said(sample, replace(SHOWN, order=(0, 1)))[0][1].endswith(
        "{x} {0}? Options: (A) {label}; (B) {}."
    )


def test_sampling_is_seeded_by_the_presentation_only_when_there_is_chance() -> None:
    seeds = {
        temperature: [
            small.prompt_for("choice", decoding=Decoding(temperature=temperature, seed=9))
            .generate(SAMPLE, replace(SHOWN, seed=seed))
            .decoding.seed
            for seed in (0, 1, 2)
        ]
        for temperature in (0.0, 0.7)
    }
    assert seeds == {0.0: [0, 0, 0], 0.7: [9, 1, 2]}


@given(st.integers(1, 26), st.sampled_from(get_args(LabelStyle)), st.integers())
def test_labels_are_distinct_and_of_one_alphabet(count: int, style: LabelStyle, seed: int) -> None:
    labels = labels_for(style, count, seed)
    assert len(set(labels)) == count
    alphabets = {"upper": string.ascii_uppercase, "lower": string.ascii_lowercase}
    if style in alphabets:
        assert "".join(labels) == alphabets[style][:count]
    # Options of another number have labels of the same alphabet, as many as there are options.
    assert alphabet_of(labels, range(count)) == labels
    assert alphabet_of(labels, range(5))[:count] == labels[:5]
    assert alphabet_of((), range(5)) == ()


def test_random_labels_are_of_all_three_alphabets() -> None:
    assert {labels_for("random", 2, i) for i in range(60)} == {("A", "B"), ("a", "b"), ("1", "2")}


@given(st.integers(27, 120), st.sampled_from(get_args(LabelStyle)), st.integers())
def test_above_26_options_all_labels_are_numbers(count: int, style: LabelStyle, seed: int) -> None:
    labels = labels_for(style, count, seed)
    assert (
        labels == tuple(str(i + 1) for i in range(count)) == alphabet_of(("A", "B"), range(count))
    )
    # A reply that names one is read as that one.
    options = tuple(f"thing {chr(97 + i % 26)}{i}" for i in range(count))
    for place in (0, 26, count - 1):
        for reply in (
            f"({labels[place]})",
            f"The answer is ({labels[place]}).",
            labels[place],
            options[place],
        ):
            assert STANDARD.read(reply, options, labels).choice == place
    assert STANDARD.read(f"({count + 1})", options, labels).choice is None


@pytest.mark.parametrize(
    "protocol", ["vanilla", "circular", "likelihood", "instability?m=3&perturb=all"]
)
def test_a_hundred_options_are_built_asked_and_scored(protocol: str, tmp_path: Path) -> None:
    table = [
        {
            "id": f"q{i}",
            "question": f"Which is {i}?",
            "options": [f"word {n}w" for n in range(100)],
            "answer": 33 * i,
        }
        for i in range(4)
    ]
    benchmark = small.built(table, tmp_path / "made")
    results = evaluate("snellen:oracle", str(benchmark.folder), protocol, runs=tmp_path)
    assert results.value("accuracy", benchmark="mine") == 1.0


# --- templates ---------------------------------------------------------------------------------------------------


def test_every_family_has_six_different_instructions_for_each_method() -> None:
    templates = default_templates()
    open_questions = {
        "text",
        "caption",
        "ocr",
        "grounded-ocr",
        "kie",
        "ocr-vqa",
        "caption-text",
        "plan",
    }
    assert {
        family for family, methods in templates.families.items() if "likelihood" not in methods
    } == open_questions
    assert all("generation" in methods for methods in templates.families.values())
    assert {
        "choice",
        "dialogue",
        *(spec.family for spec in entries().values() if spec.family),
    } <= set(templates.families)
    for family, methods in templates.families.items():
        for method, group in methods.items():
            assert len(set(group.instructions)) == len(group.instructions) >= 6, (family, method)
            assert all(line == line.strip() and "{" not in line for line in group.instructions)


def test_a_template_is_found_by_its_id() -> None:
    prompt = small.prompt_for("choice")
    ids = prompt.template_ids("likelihood")
    assert ids[1] == "choice.likelihood.1"
    assert (
        prompt.templates.named(ids[1]) == prompt.templates.instructions("choice", "likelihood")[1]
    )


def test_a_family_or_method_that_has_no_templates_is_named() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no templates for text.likelihood; the file has choice.generation"
    ):
        small.prompt_for("text").template_ids("likelihood")


def test_ones_own_templates_stand_beside_those_that_the_file_lacks(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[choice.generation]\ninstructions = ["Mine."]\n')
    mine, base = load_templates(path), default_templates()
    assert mine.instructions("choice", "generation") == ("Mine.",)
    assert mine.instructions("choice", "likelihood") == base.instructions("choice", "likelihood")
    assert mine.instructions("text", "generation") == base.instructions("text", "generation")
    assert (mine.layout, mine.in_context) == (base.layout, base.in_context)
    assert mine.id != base.id


LAYOUT = """[layout]
heading = "H"
label = "<{label}>"
separator = ", "
stop = ""
response_prefix = "R"
reply = "{label}: {option}"
"""


def test_ones_own_layout_is_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(LAYOUT)
    request = replace(small.prompt_for("choice"), templates=load_templates(path)).generate(
        SAMPLE, SHOWN
    )
    assert request.messages[0].text.endswith("Which? H <A> cow, <B> cat, <C> dog")
    assert request.messages[1].text == "R"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[choice.generation", "t.toml: not a template file"),
        (
            "[choice]\ngeneration = 5",
            r"t.toml: \[choice.generation\]: Expected `object`, got `int`",
        ),
        ("choice = 5", r"t.toml: \[choice\] is not a table; a template file has \[FAMILY.METHOD\]"),
        (
            "[choice.generation]\nprompt = 'a'",
            r"generation\]: Object missing .* `instructions`; it has prompt",
        ),
        (
            "[choice.generatoin]\ninstructions = ['a']",
            r"t.toml: \[choice\]: unknown method 'generatoin'; did you mean gen",
        ),
        (
            "[choice.generation]\ninstructions = []",
            r"t.toml: \[choice.generation\] has no instructions",
        ),
        (
            "[choice.generation]\ninstructions = ['Say {this}']",
            r"leaves \{this\} unfilled in 'Say \{this\}'",
        ),
        (
            "[layout]\nheading = 'Options'",
            r"t.toml: \[layout\]: Object missing required field `\w+`; it has heading",
        ),
        (
            f"{LAYOUT}\nheader = ''",
            r"t.toml: \[layout\]: unknown field 'header'; did you mean heading\?",
        ),
        (f"{LAYOUT}\nimages = 'last'", r"t.toml: \[layout\]: Invalid enum value 'last'"),
        (
            f"{LAYOUT}\nquestion = 'Q:'",
            r"t.toml: \[layout\] question = 'Q:' must hold \{question\}",
        ),
        (
            f"{LAYOUT}\nopen = '{{letters}}'",
            r"t.toml: \[layout\] open = '\{letters\}' must hold nothing but",
        ),
        (
            LAYOUT.replace("<{label}>", "<{m}>"),
            r"t.toml: \[layout\] label = '<\{m\}>' must hold \{label\}",
        ),
        (LAYOUT.replace("<{label}>", "-"), r"t.toml: \[layout\] label = '-' must hold \{label\}"),
        (LAYOUT.replace("{option}", "{option"), r"t.toml: \[layout\] reply = .*expected '}'"),
    ],
)
def test_a_wrong_template_file_is_refused_with_its_name(text: str, fault: str) -> None:
    with pytest.raises(DataError, match=fault):
        parse_templates(text, "t.toml", default_templates())


def test_a_template_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read the templates"):
        load_templates(tmp_path / "no.toml")
    (tmp_path / "latin.toml").write_bytes("[café]".encode("latin-1"))
    with pytest.raises(DataError, match="cannot read the templates"):
        load_templates(tmp_path / "latin.toml")


# --- a prompt in place of every question -------------------------------------------------------------------------


def test_a_prompt_is_asked_in_place_of_instruction_and_question_and_options_follow() -> None:
    prompt = replace(
        small.prompt_for("choice"), templates=default_templates().with_prompt("The photo shows")
    )
    assert prompt.template_ids("generation") == ("choice.generation.0",)
    assert (
        prompt.generate(SAMPLE, SHOWN).messages[0].text
        == "The photo shows Options: (A) cow; (B) cat; (C) dog."
    )
    assert prompt.loglikelihood(SAMPLE, SHOWN).messages[0].text == "The photo shows"


def test_the_question_stands_where_a_prompt_says_so() -> None:
    templates = default_templates().with_prompt("Be brief. {question} Answer:")
    assert templates.prompt_for("Is it {red}?") == "Be brief. Is it {red}? Answer:"
    assert templates.id != default_templates().id == default_templates().with_prompt("").id


def test_the_options_stand_where_a_prompt_says_so() -> None:
    templates = default_templates().with_prompt("Choose: {options} {question} Reply:")
    choice = replace(small.prompt_for("choice"), templates=templates)
    question = replace(SAMPLE, question="Is {options} a word?")
    expected = "Choose: (A) cow; (B) cat; (C) dog. Is {options} a word? Reply:"
    assert choice.generate(question, SHOWN).messages[0].text == expected
    unlisted = choice.loglikelihood(question, SHOWN).messages[0].text
    assert unlisted == "Choose:  Is {options} a word? Reply:"


def test_a_field_that_stands_for_nothing_is_refused_in_a_prompt() -> None:
    with pytest.raises(
        DataError,
        match=r"prompt 'a {} and {name}': unknown field {}; the fields are {question} and {options}",
    ):
        default_templates().with_prompt("a {} and {name}")


def test_several_pictures_stand_at_their_marks_and_otherwise_before_the_text() -> None:
    first, second = (ImageRef(letter * 64, "image/png", 1, 1) for letter in "ab")
    shown = [
        "".join(
            part.image.digest[0] if isinstance(part, ImagePart) else part.text
            for part in place_images(images, text)
        )
        for images, text in (
            ((first, second), "Is <image> like <image>?"),
            ((first, second), "<image><image>"),
            ((first, second), "Are <image> alike?"),
            ((first,), "Is <image> red?"),
            ((), "<image>?"),
        )
    ]
    assert shown == ["Is a like b?", "ab", "abAre <image> alike?", "aIs <image> red?", "<image>?"]
