"""Sentences that answer yes-no questions without a yes or no, made from templates: "There are three pens."

Real files have few of them, and nearly all of their questions are about presence. Each made reply is labelled by the
template that made it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

THINGS = (
    (
        "dog cat pen bicycle traffic light laptop cup person bench umbrella kite sheep truck bottle chair clock horse sofa"
        " backpack surfboard fork banana bird boat"
    )
    .replace("traffic light", "traffic_light")
    .split()
)
COLOURS = "red blue green yellow white black brown orange".split()
NUMBERS = ("one", "two", "three", "four", "five", "six")
PLACES = "kitchen beach street park office airport garden bathroom".split()
ACTIONS = "sleeping running eating swimming reading jumping sitting dancing".split()
SIDES = (("left", "right"), ("above", "below"), ("in front of", "behind"), ("inside", "outside"))
ENDINGS = ("", " Please answer yes or no.", " Answer the question using a single word or phrase.")


def made_statements(count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield cases with question, options, reply and the place of the option that the reply means."""
    draw = random.Random(seed)
    makers = (_presence, _number, _colour, _place, _action, _side, _refusal)
    for number in range(count):
        question, reply, answer = makers[number % len(makers)](draw)
        options = draw.choice((("yes", "no"), ("Yes", "No"), ("No", "Yes")))
        gold = None
        if answer is not None:
            gold = [option.casefold() for option in options].index(answer)
        yield {
            "id": f"made-{number}",
            "question": question + draw.choice(ENDINGS),
            "options": options,
            "labels": (),
            "reply": reply,
            "gold": gold,
        }


UNDECIDED = (
    "Cannot be determined",
    "Not enough information",
    "cannot tell",
    "It cannot be determined from the image",
    "I do not know",
)


def made_refusals(count: int, seed: int = 2) -> Iterator[dict[str, Any]]:
    """Yield refusals of questions that have an option for them, and of the same questions without it."""
    draw = random.Random(seed)
    for number in range(count):
        question, reply, _ = _refusal(draw)
        if draw.random() < 0.5:
            question = draw.choice(("What is on the table?", "Which of these is in the picture?"))
            options = draw.sample(THINGS, 3)
        else:
            options = ["yes", "no"]
        gold = None
        if number % 3:
            gold = draw.randrange(len(options) + 1)
            options.insert(gold, draw.choice(UNDECIDED))
        yield {
            "id": f"refusal-{number}",
            "question": question,
            "options": tuple(options),
            "labels": tuple("ABCD"[: len(options)]) if draw.random() < 0.7 else (),
            "reply": reply,
            "gold": gold,
        }


def _article(thing: str) -> str:
    return f"an {thing}" if thing[0] in "aeiou" else f"a {thing}"


def _many(thing: str) -> str:
    return {"person": "people", "sheep": "sheep", "bench": "benches"}.get(thing, f"{thing}s")


def _presence(draw: random.Random) -> tuple[str, str, str]:
    thing, other = draw.sample(THINGS, 2)
    thing = thing.replace("_", " ")
    other = other.replace("_", " ")
    one = _article(thing)
    question = draw.choice(
        (
            f"Is there {one} in the image?",
            f"Is there {one} in this picture?",
            f"Does the image contain {one}?",
        )
    )
    if draw.random() < 0.5:
        forms = (
            f"There is {one} in the image.", f"The image features {one}.", f"I can see {one} in the picture.",
            f"The picture shows {one} next to {_article(other)}.", f"{one.capitalize()} is visible on the left.",
            f"In the image, {one} is present.", f"There are two {_many(thing)}.", f"The {thing} is in the background.",
        )  # fmt: skip
        return question, draw.choice(forms), "yes"
    forms = (
        f"There is no {thing} in the image.", f"I don't see {one} in the image.", f"The image does not show {one}.",
        f"There isn't any {thing}.", f"I cannot see {one} in this picture.", f"No {thing} is visible.",
        f"The image shows {_article(other)}, but no {thing}.", f"There are no {_many(thing)} in the image.",
        f"The {thing} is not present in the image.",
    )  # fmt: skip
    return question, draw.choice(forms), "no"


def _number(draw: random.Random) -> tuple[str, str, str]:
    things = _many(draw.choice(THINGS).replace("_", " "))
    asked = draw.choice(NUMBERS[1:])
    said = asked if draw.random() < 0.5 else draw.choice([n for n in NUMBERS[1:] if n != asked])
    question = draw.choice(
        (
            f"Are there {asked} {things} in the image?",
            f"Are there {asked} {things}?",
            f"Are there a total of {asked} {things} in this picture?",
            f"Is the number of {things} {asked}?",
        )
    )
    forms = (
        f"There are {said} {things} in the image.", f"I count {said} {things}.", f"The image shows {said} {things}.",
        f"I can see {said} of them.", f"There are {said}.",
    )  # fmt: skip
    return question, draw.choice(forms), "yes" if said == asked else "no"


def _colour(draw: random.Random) -> tuple[str, str, str]:
    thing = draw.choice(THINGS).replace("_", " ")
    asked, other = draw.sample(COLOURS, 2)
    said = asked if draw.random() < 0.5 else other
    question = draw.choice(
        (f"Is the {thing} {asked}?", f"Is there {_article(asked)} {thing} in the image?")
    )
    forms = (
        f"The {thing} is {said}.", f"The {thing} in the image is {said}.", f"It is {said}.", f"It is {_article(said)} {thing}.",
        f"The {thing} appears to be {said}.", f"The color of the {thing} is {said}.",
    )  # fmt: skip
    reply = draw.choice(forms)
    if said != asked and draw.random() < 0.3:
        reply = draw.choice(
            (f"The {thing} is not {asked}, it is {said}.", f"The {thing} is {said}, not {asked}.")
        )
    return question, reply, "yes" if said == asked else "no"


def _place(draw: random.Random) -> tuple[str, str, str]:
    asked, other = draw.sample(PLACES, 2)
    said = asked if draw.random() < 0.5 else other
    question = draw.choice(
        (
            f"Is this a photo of {_article(asked)}?",
            f"Does this image show {_article(asked)}?",
            f"Was this taken in {_article(asked)}?",
        )
    )
    forms = (
        f"It is a photo of {_article(said)}.", f"The image shows {_article(said)}.", f"This is {_article(said)}.",
        f"The photo was taken in {_article(said)}.", f"The scene is {_article(said)}.",
    )  # fmt: skip
    return question, draw.choice(forms), "yes" if said == asked else "no"


def _action(draw: random.Random) -> tuple[str, str, str]:
    who = draw.choice(("man", "woman", "dog", "girl", "boy", "cat"))
    asked, other = draw.sample(ACTIONS, 2)
    said = asked if draw.random() < 0.5 else other
    question = f"Is the {who} {asked}?"
    forms = (
        f"The {who} is {said}.", f"The {who} in the picture is {said} on the grass.", f"The {who} appears to be {said}.",
        f"It looks like the {who} is {said}.",
    )  # fmt: skip
    reply = draw.choice(forms)
    if said != asked and draw.random() < 0.4:
        reply = draw.choice((f"The {who} is not {asked}.", f"The {who} isn't {asked}, but {said}."))
    return question, reply, "yes" if said == asked else "no"


def _side(draw: random.Random) -> tuple[str, str, str]:
    first, second = (thing.replace("_", " ") for thing in draw.sample(THINGS, 2))
    one, other = draw.choice(SIDES)
    if draw.random() < 0.5:
        one, other = other, one
    asked = {"left": "on the left side of", "right": "on the right side of"}.get(one, one)
    contrary = {"left": "on the left side of", "right": "on the right side of"}.get(other, other)
    question = f"Is the {first} {asked} the {second}?"
    kind = draw.randrange(4)
    if kind == 0:
        return question, f"The {first} is {asked} the {second}.", "yes"
    if kind == 1:
        return question, f"The {first} is {contrary} the {second}.", "no"
    if kind == 2 and one not in ("inside", "outside"):
        return question, f"The {second} is {contrary} the {first}.", "yes"
    return question, f"The {first} is not {asked} the {second}.", "no"


def _refusal(draw: random.Random) -> tuple[str, str, None]:
    question, _, _ = draw.choice((_presence, _number, _colour, _place, _action, _side))(draw)
    thing = _article(draw.choice(THINGS).replace("_", " "))
    forms = (
        "I'm sorry, I can't answer that.", "I cannot see the image.", "The image does not provide enough information to tell.",
        f"I can't tell whether there is {thing}.", "It is not possible to determine this from the image.",
        "I don't have access to the picture.", "Sorry, but I am unable to view images.", "I'm not sure.",
        "I can't determine this.", "This cannot be determined.", "I can't tell from the image.", "It's impossible to say.",
    )  # fmt: skip
    return question, draw.choice(forms), None
