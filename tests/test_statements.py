"""Statements as answers: what a reply says of the things that a question asks about, in which order."""

from __future__ import annotations

from itertools import permutations

import pytest

from snellen.extraction import read_choice

YES_NO = ("yes", "no")
THINGS = ("dog", "cat", "boy", "robot")
RELATIONS = (
    "chasing",
    "behind",
    "feeding",
    "on top of",
    "to the left of",
    "taller than",
    "looking at",
    "under",
    "inside",
    "holding",
    "pulling",
)
SENTENCES = (
    "A red ball lies on the grass.",
    "A blue ball lies on the grass.",
    "A dog runs on the beach.",
    "A cat sits.",
)
LABELS = ("A", "B", "C", "D")


def said(reply: str, question: str, options: tuple[str, ...] = YES_NO, **more: str) -> str | None:
    labels = LABELS if options == SENTENCES else ()
    choice = read_choice(reply, options, labels, question=question, **more).choice
    return None if choice is None else options[choice]


LEFT_OPEN = None
"""A reader of the reply would say, and Snellen does not: better than the contrary."""


SWAPS = [(one, relation, other) for relation in RELATIONS for one, other in permutations(THINGS, 2)]


def test_a_statement_about_the_same_things_in_the_other_order_is_no_yes() -> None:
    assert len(SWAPS) == 132
    for one, relation, other in SWAPS:
        question = f"Is the {one} {relation} the {other}?"
        assert said(f"The {one} is {relation} the {other}.", question) == "yes"
        assert said(f"The {other} is {relation} the {one}.", question) is None
        assert said(f"The {one} is not {relation} the {other}.", question) == "no"
        assert said(f"The {other} is not {relation} the {one}.", question) is None


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The laptop is behind the cat, so the statement is false.", "no"),
        ("The laptop is behind the cat, so the statement is not correct.", "no"),
        ("The laptop is behind the cat. This statement is true.", "yes"),
        ("The laptop is behind the cat, but only from the left.", "yes"),
        ("The laptop is behind the cat in the image.", "yes"),
        ("The laptop is in front of the cat.", LEFT_OPEN),
        ("The statement is true. The statement is false.", None),
    ],
)
def test_a_verdict_on_the_statement_counts_for_more_than_its_words(
    reply: str, answer: str | None
) -> None:
    assert said(reply, "Is the laptop behind the cat?") == answer


@pytest.mark.parametrize(
    ("reply", "question", "answer"),
    [
        ("Auf dem Bild ist kein Hund zu sehen.", "Ist auf dem Bild ein Hund zu sehen?", LEFT_OPEN),
        ("De lamp brandt niet.", "Brandt de lamp?", LEFT_OPEN),
        ("Die Katze jagt den Hund.", "Jagt der Hund die Katze?", None),
    ],
)
def test_the_verb_that_opens_a_question_may_stand_elsewhere(
    reply: str, question: str, answer: str | None
) -> None:
    assert said(reply, question) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The man is taller.", LEFT_OPEN),
        ("The man is shorter than the woman.", LEFT_OPEN),
        ("Compared to the woman, the man is taller.", LEFT_OPEN),
        ("The woman is taller.", LEFT_OPEN),
        ("The woman is taller than the man.", "shorter"),
        ("The woman is shorter, so the man is taller.", LEFT_OPEN),
    ],
)
def test_a_comparison_is_of_the_one_that_the_question_asks_about(
    reply: str, answer: str | None
) -> None:
    assert (
        said(reply, "Is the man taller or shorter than the woman?", ("taller", "shorter")) == answer
    )


WALK = "\n".join(
    f"* **{label}. {text}** There is none." for label, text in zip(LABELS, SENTENCES, strict=True)
)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("gap", [" ", "\n\n"])
def test_an_answer_is_not_taken_back_by_a_word_about_each_option_that_ends_in_a_full_stop(
    place: int, gap: str
) -> None:
    reply = (
        f"The correct answer is **{LABELS[place]}. {SENTENCES[place]}**{gap}Here's why:\n\n{WALK}"
    )
    assert said(reply, "", SENTENCES) == SENTENCES[place]
    for end in (len(reply) - 3, len(reply) - 20, len(reply) // 2 + 30):
        assert said(reply[:end], "", SENTENCES, finish="length") == SENTENCES[place]
    in_a_line = reply.replace("* ", "").replace("\n", " ")
    assert said(in_a_line, "", SENTENCES) == SENTENCES[place]


@pytest.mark.parametrize(
    "opening", ["Let's look at each option:", "Looking at the picture, step by step:"]
)
def test_a_walk_through_the_options_that_is_cut_off_names_none(opening: str) -> None:
    reply = f"{opening}\n{WALK}"
    second, last = reply.index("* **B."), reply.index("* **D.")
    for end in (second + 20, second + 40, last + 12, last + 22):
        assert said(reply[:end], "", SENTENCES, finish="length") is None


def test_a_line_that_calls_its_option_right_turns_no_answer() -> None:
    walk = WALK.replace(
        f"{SENTENCES[2]}** There is none.", f"{SENTENCES[2]}** This is the correct answer."
    )
    assert said(f"Let's look at each option:\n{walk}", "", SENTENCES) is LEFT_OPEN


@pytest.mark.parametrize(
    "blanks", [" " * 64_000, "\n" * 64_000, "\t \n" * 20_000, "\u3000" * 64_000]
)
def test_long_runs_of_blanks_say_nothing(blanks: str) -> None:
    for reply in (
        "{}B",
        "B{}",
        "taxi:{}\nbus:{}",
        "The answer is{}B.",
        "{}The answer is B.{}Not A.",
    ):
        short, long = (
            reply.replace("{}", gap) for gap in ("\n\n" if "\n" in blanks else " ", blanks)
        )
        readings = [read_choice(text, ("taxi", "bus"), ("A", "B")) for text in (short, long)]
        assert readings[0].choice == readings[1].choice
        if readings[0].span and readings[1].span:
            shown = [
                text[reading.span[0] : reading.span[1]]
                for text, reading in zip((short, long), readings, strict=True)
                if reading.span
            ]
            assert shown[0].split() == shown[1].split()


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ('The statement "The horse is pulling the cart." is incorrect.', "no"),
        ("It is not true that the horse is pulling the cart.", "no"),
        ("It would be wrong to say that the horse is pulling the cart.", "no"),
        ("It is true that the horse is pulling the cart.", "yes"),
        ("The caption does not match what I see.", "no"),
        ("The caption matches the picture.", "yes"),
        ("Whether the statement is true or false cannot be determined from the image.", None),
        ("I cannot say whether the statement is true.", None),
    ],
)
def test_verdicts_in_other_words(reply: str, answer: str | None) -> None:
    question = "The horse is pulling the cart. Is this right?"
    assert said(reply, question) == answer
    truth = {"yes": "True", "no": "False", None: None}[answer]
    assert said(reply, "True or false? The horse is pulling the cart.", ("True", "False")) in (
        truth,
        None,
    )


@pytest.mark.parametrize(
    ("question", "reply", "answer"),
    [
        ("Is the dog chasing the cat?", "The dog is being chased by the cat.", None),
        ("Was the cake eaten by the dog?", "The cake was eaten by the dog.", LEFT_OPEN),
        ("Is the man standing by the car?", "The man is standing by the car.", LEFT_OPEN),
    ],
)
def test_who_does_and_who_is_done_to_change_places(
    question: str, reply: str, answer: str | None
) -> None:
    assert said(reply, question) == answer


def test_words_that_things_share_tell_none_of_them_apart() -> None:
    question, speeds = "Is the red car faster or slower than the blue car?", ("faster", "slower")
    assert (
        said("The blue car appears to be faster than the red car.", question, speeds) is LEFT_OPEN
    )
    assert (
        said("The red car appears to be faster than the blue car.", question, speeds) is LEFT_OPEN
    )


def test_options_that_are_called_wrong_behind_their_full_stop_are_no_sentences_of_their_own() -> (
    None
):
    reply = (
        f"The correct answer is **(B) {SENTENCES[1]}** See the line. Option (A) {SENTENCES[0]} is wrong, and option "
        f"(C) {SENTENCES[2]} is wrong because there is none."
    )
    assert said(reply, "", SENTENCES) == SENTENCES[1]


def test_a_walk_that_is_cut_off_at_its_first_option_names_none() -> None:
    lead = "Let's consider each of the options.\n\n"
    assert (
        said(f"{lead}A. {SENTENCES[0]} The umbrella might", "", SENTENCES, finish="length") is None
    )
    assert said(f"{lead}The answer is clear.\n\nA. {SENTENCES[0]}", "", SENTENCES) == SENTENCES[0]


ACCIDENT = "Did any accident or anything unexpected happen in the video?"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Yes, the waiter drops a plate while running through the hall.", "yes"),
        (
            "Yes, a waiter stumbles over the dog while serving the guests, and another waiter laughs.",
            "yes",
        ),
        ("No, there were no accidents. The guests look at the dog.", "no"),
        ("At first I thought yes, but the plate only seems to fall.", None),
    ],
)
def test_a_yes_that_nothing_takes_back_is_read(reply: str, answer: str | None) -> None:
    assert said(reply, ACCIDENT) == answer


@pytest.mark.parametrize(
    ("question", "reply", "answer"),
    [
        ("Does the rider fall?", "Yes, the rider does not fall.", None),
        ("Does the rider fall?", "No, the rider falls.", None),
        ("Does the rider fall?", "Yes, the rider falls.", "yes"),
        ("Does the rider fall?", "No, the rider does not fall.", "no"),
        ("Is the gate locked?", "It is not true that the gate is unlocked.", LEFT_OPEN),
        (
            "Is the oven switched on?",
            "It would be wrong to say that the oven isn't switched on.",
            LEFT_OPEN,
        ),
        (
            "Is anyone apart from the guide wearing a helmet?",
            "Not only the guide is wearing a helmet.",
            LEFT_OPEN,
        ),
        (
            "Is the red car faster than the blue one?",
            "The red car is not as slow as the blue one.",
            LEFT_OPEN,
        ),
        (
            "Is the red car bigger than the white car?",
            "Compared with the red car, the white car is smaller.",
            LEFT_OPEN,
        ),
        (
            "True or false: The ladder leans against the tree.",
            "The ladder leans against the tree, not the shed.",
            LEFT_OPEN,
        ),
    ],
)
def test_what_does_not_stand_as_asked_is_left_open(
    question: str, reply: str, answer: str | None
) -> None:
    assert said(reply, question) == answer


@pytest.mark.parametrize(
    ("question", "options", "reply"),
    [
        (
            "Where is the cup in relation to the plate?",
            ("to the left", "to the right"),
            "To the right of the cup there is the plate.",
        ),
        (
            "Which country exports less wheat?",
            ("Spain", "Poland"),
            "Spain does not export as much wheat as Poland.",
        ),
        (
            "Which is wider?",
            ("the road", "the path", "they are equal in width"),
            "The path isn't narrower than the road.",
        ),
        (
            "Ist der Mann größer oder kleiner als die Frau?",
            ("größer", "kleiner"),
            "Die Frau ist größer.",
        ),
        (
            "¿La torre es más alta o más baja que el árbol?",
            ("más alta", "más baja"),
            "El árbol es más alto que la torre.",
        ),
    ],
)
def test_things_the_other_way_round_choose_no_option(
    question: str, options: tuple[str, ...], reply: str
) -> None:
    assert read_choice(reply, options, (), question=question).choice is None


@pytest.mark.parametrize(
    "form", ["({}) {}\n\nThe boxes are alike.", "I add the rows: 7 and 3 and 2.\n\n**{}. {}**"]
)
def test_a_label_with_its_text_alone_in_the_first_or_last_line_is_the_answer(form: str) -> None:
    options = ("7 boxes", "10 boxes", "12 boxes", "14 boxes")
    assert (
        read_choice(
            form.format("C", options[2]), options, LABELS, question="How many are there?"
        ).choice
        == 2
    )
