"""Replies made from forms: minimal pairs of statements, and short replies that choose an option or do not.

    python training/reader/made_replies.py > made.jsonl

Each line is a labelled reply as in `replies/*.jsonl`. In the pairs, the things or the words of a statement are
exchanged: a reader that compares words and not their order is wrong in half of them. The same command always gives the
same lines.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Said = tuple[str, int | None]
"""A reply, and the place of the option that it means."""

GRADED = (
    ("taller", "shorter", "giraffe elephant zebra"), ("older", "younger", "nurse pilot baker"),
    ("bigger", "smaller", "melon cherry plum"), ("faster", "slower", "tram ferry scooter"),
    ("heavier", "lighter", "anvil kettle bucket"), ("longer", "shorter", "ribbon rope belt"),
    ("brighter", "darker", "lantern torch candle"), ("wider", "narrower", "canal river ditch"),
    ("higher", "lower", "shelf lamp mirror"), ("warmer", "colder", "soup tea juice"),
    ("louder", "quieter", "drill fan printer"), ("thicker", "thinner", "cable thread wire"),
    ("deeper", "shallower", "well pond puddle"), ("newer", "older", "chapel bridge tower"),
    ("cheaper", "more expensive", "sandwich salad pizza"), ("richer", "poorer", "merchant sailor farmer"),
    ("closer", "farther", "buoy lighthouse raft"), ("larger", "smaller", "circle square triangle"),
    ("stronger", "weaker", "ox donkey goat"), ("cleaner", "dirtier", "plate pan fork"),
)  # fmt: skip
"""A measure, its contrary, and three things."""
DEEDS = (
    ("chasing", "chased", "fox hare wolf"), ("feeding", "fed", "girl parrot boy"),
    ("pushing", "pushed", "nurse porter guard"), ("pulling", "pulled", "mule tractor cart"),
    ("watching", "watched", "cat crow owl"), ("carrying", "carried", "clown juggler dancer"),
    ("painting", "painted", "artist model pupil"), ("greeting", "greeted", "mayor driver guest"),
    ("following", "followed", "duck goose swan"), ("biting", "bitten", "puppy kitten rat"),
    ("lifting", "lifted", "coach player referee"), ("calling", "called", "singer drummer host"),
    ("helping", "helped", "cook waiter cashier"), ("photographing", "photographed", "tourist guide vendor"),
)  # fmt: skip
"""What one does to another."""
SIDES = (
    ("to the left of", "to the right of", "vase clock book"), ("above", "below", "flag window door"),
    ("behind", "in front of", "barrel ladder bench"), ("before", "after", "parade speech dinner"),
    ("north of", "south of", "harbour castle mill"), ("inside", "outside", "coin purse box"),
)  # fmt: skip
"""A relation of which the contrary holds the other way round."""
OPENINGS = (
    "", "", "", "In the image, ", "Here, ", "From what I can see, ", "The picture shows that ", "It looks like ",
    "Judging by the photo, ",
)  # fmt: skip
BEHIND = (
    ".",
    ".",
    ".",
    " in this picture.",
    ", as the photo shows.",
    ". The background is blurred.",
)
SAME = ("It is about the same for both", "Neither differs from the other in that")


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def which_measure(
    more: str, less: str, x: str, y: str, z: str
) -> Iterator[tuple[str, list[str], list[Said]]]:
    yield (
        f"Is the {x} {more} or {less} than the {y}?",
        [more, less],
        [
            (f"the {x} is {more}", 0),
            (f"the {x} is {more} than the {y}", 0),
            (f"the {y} is {more}", 1),
            (f"the {y} is {more} than the {x}", 1),
            (f"the {y} is {less} than the {x}", 0),
            (f"the {x} is {less} than the {y}", 1),
            (f"compared with the {x}, the {y} is {less}", 0),
            (f"compared with the {y}, the {x} is {less}", 1),
            (f"of the two, the {y} is the {more} one", 1),
            (f"of the two, the {x} is the {more} one", 0),
            (f"the {x} is {more} than the {z}", None),
            (f"the {z} is {more} than the {y}", None),
            (f"the {y} is the {less} of the two", 0),
            (f"the {z} is {less}", None),
        ],
    )


def which_thing(
    more: str, less: str, x: str, y: str, z: str
) -> Iterator[tuple[str, list[str], list[Said]]]:
    things = [f"the {x}", f"the {y}", "They are the same"]
    for options in (things[:2], things):
        yield (
            f"Which is {more}, the {x} or the {y}?",
            options,
            [
                (f"the {x} is {more} than the {y}", 0),
                (f"the {x} is {less} than the {y}", 1),
                (f"the {y} is {more} than the {x}", 1),
                (f"the {y} is {less} than the {x}", 0),
                (f"the {x} and not the {y} is {more}", 0),
                (f"the {x} is {more} than the {z}", None),
                (f"the {z} is {more} than the {x}", None),
                (f"next to the {y}, the {x} is the {more} one", 0),
                (f"it is the {y} that is {more}", 1),
                (f"the {y} is {less}", 0),
                (f"the {x} is {less}, so it is the {y}", 1),
            ],
        )


def yes_or_no(
    doing: str, done: str, x: str, y: str, z: str
) -> Iterator[tuple[str, list[str], list[Said]]]:
    yield (
        f"Is the {x} {doing} the {y}?",
        ["Yes", "No"],
        [
            (f"the {x} is {doing} the {y}", 0),
            (f"the {y} is {doing} the {x}", None),
            (f"the {y} is being {done} by the {x}", 0),
            (f"the {x} is being {done} by the {y}", None),
            (f"the {x} is not {doing} the {y}", 1),
            (f"the {x} isn't {doing} the {y}", 1),
            (f"the {z} is {doing} the {y}", None),
            (f"the {x} is {doing} the {z}", None),
            (f"the {y} is not {doing} the {x}", None),
            (f"the small {x} is {doing} the old {y}", 0),
            (f"the old {y} is {doing} the small {x}", None),
            (f"the statement is false, the {z} is {doing} the {y}", 1),
            (f"the {y} is {doing} the {x}, so the statement is false", 1),
            (f"nobody is {doing} the {y}", 1),
        ],
    )
    yield (
        f"Which sentence describes the picture: who is {doing} whom?",
        [f"The {x} is {doing} the {y}.", f"The {y} is {doing} the {x}."],
        [
            (f"the {x} is {doing} the {y}", 0),
            (f"the {y} is {doing} the {x}", 1),
            (f"the {y} is being {done} by the {x}", 0),
            (f"the {x} is being {done} by the {y}", 1),
            (f"the {z} is {doing} the {x}", None),
        ],
    )
    yield (
        f"Who is {doing} the {y}?",
        [f"the {x}", f"the {z}"],
        [
            (f"the {y} is being {done} by the {x}", 0),
            (f"the {y} is {doing} the {x}", None),
            (f"the {x} is {doing} the {z}", None),
            (f"the {x} watches how the {z} is {doing} the {y}", 1),
            (f"the {x} is {doing} the {y}", 0),
        ],
    )


def on_which_side(
    near: str, far: str, x: str, y: str, z: str
) -> Iterator[tuple[str, list[str], list[Said]]]:
    said: list[Said] = [
        (f"the {x} is {near} the {y}", 0),
        (f"the {y} is {near} the {x}", 1),
        (f"the {y} is {far} the {x}", 0),
        (f"the {x} is {far} the {y}", 1),
        (f"the {z} is {near} the {y}", None),
    ]
    more: list[Said] = [(f"the {x} is not {near} the {y}", 1), (f"the {x} is {near} the {z}", None)]
    yield f"Is the {x} {near} the {y}?", ["Yes", "No"], said + more
    yield f"Where is the {x} in relation to the {y}?", [near, far], said
    yield f"Statement: The {x} is {near} the {y}. True or false?", ["True", "False"], said + more


def pairs(seed: int = 28) -> Iterator[dict[str, Any]]:
    """All pairs, with the options turned at random."""
    draw = random.Random(seed)
    families = (
        (which_measure, GRADED),
        (which_thing, GRADED),
        (yes_or_no, DEEDS),
        (on_which_side, SIDES),
    )
    number = 0
    for family, scenes in families:
        for one, other, things in scenes:
            for question, options, replies in family(one, other, *things.split()):
                for said, gold in replies:
                    order = draw.sample(range(len(options)), len(options))
                    opening = draw.choice(OPENINGS)
                    reply = capital(opening + said) + draw.choice(BEHIND)
                    number += 1
                    yield {
                        "id": f"pairs-{number:04d}",
                        "kind": family.__name__,
                        "question": question,
                        "options": [options[place] for place in order],
                        "labels": list("ABC"[: len(options)]) if draw.random() < 0.7 else [],
                        "reply": reply,
                        "finish": "stop",
                        "gold": None if gold is None else order.index(gold),
                        "ambiguous": False,
                        "lang": "en",
                    }


OPTIONS = (
    "taxi bus train bicycle", "cat dog horse cow", "red blue green yellow", "kitchen bathroom bedroom attic",
    "apple banana pear grape", "2 3 4 5", "spring summer autumn winter", "violin piano guitar drum",
    "Paris London Rome Madrid", "wood metal glass paper", "left right", "soccer tennis golf hockey",
)  # fmt: skip
CHOOSES = (
    "{X}", "({X})", "The answer is {X}.", "I think it's {X}, not {Y}", "{Y}... wait, actually {X}",
    "{Y}. On second thought, {X}.", "It's {y}, sorry, I meant {x}", "You'd think {Y}, but it's {X}",
    "At first I thought {Y}, but it must be {X}.", "Not {Y}, so {X}.", "The correct answer is **{X}**. As for {y}, no.",
    "**{X}. {x}**\n\nExplanation: {y} would look different.", "{X}. The other, {y}, does not fit.",
    "I would say it is {x}, not {y}.", "Although it looks like {y}, it is {x}.", "The answer is {Y}. Wait, no: {X}.",
    "{X} is correct, {Y} is wrong.", "Answer: {X} (I am quite sure)", "The correct answer would be {X}, since it fits.",
    "所以是{X}", "答案是{X}。", "It could be {Y}, but {X} fits better.", "Between {X} and {Y} I choose {X}.",
    "Most likely {X}.", "So it is {x}.", "It's not {y}, so ({X}).", "{x}", "It is {x}.", "Definitely {x}, no doubt.",
    "The answer is {X}, as I said.", "{X}, because it is nothing like {y}.", "{Y}? No. {X}.",

    "I was going to say {y}, but {x} is right.", "Let me think. {y} is too small. Therefore {X}.",
    "C'est {x}.", "Das ist {x}, nicht {y}.",
)  # fmt: skip
DOES_NOT = (
    "The wrong answer is {X}", "{X}: no", "Not {X}.", "I doubt it's {X}", "{X} or {Y}", "Either {x} or {y}.",
    "I disagree with {X}", "The answer is not {X}.", "{X} is wrong.", "If it were bigger the answer would be {X}.",
    "The answer is {X}. Actually, I can't tell.", "Some would say {X}.", "Is it {X}?", "It could be {X} or {Y}.",
    "Vitamin {X} is healthy.", "See figure {X}.", "{X} and {Y}", "It is hardly {x}.", "{X}, {Y}",
    "I cannot say whether it is {x} or {y}.", "It is {x}. No, that is wrong as well.", "Anything but {x}.",
    "The least likely answer is {X}.", "Why not {X}?", "I would rule out {X} and {Y}.", "Team {X} plays today.",
    "The answer should look like ({X}).", "My neighbour thinks it is {x}.", "It is neither {x} nor {y}.",
)  # fmt: skip
SENTENCES = (
    "A man rides a horse.", "A woman reads a book.", "Two dogs run on the beach.", "A boat lies in the harbour.",
    "Children play in the snow.", "The table is empty.", "It is raining.", "A train leaves the station.",
    "The lamp is switched on.", "A cat sleeps on the sofa.", "The boy eats an apple.", "The road is blocked.",
)  # fmt: skip
REASONS = (
    "There is none.",
    "Nothing of the kind is visible.",
    "This fits what is seen.",
    "The shape is different.",
)
VERDICTS = (
    "The correct answer is **{label}. {text}**",
    "**{label}. {text}** is the correct answer.",
    "The answer is ({label}) {text}",
    "The best description is **{label}. {text}**",
)
WALKS = (
    "Here's why:",
    "Let's look at each option:",
    "Explanation:",
    "Why the others are wrong:",
    "Step by step:",
)
JUDGED = (
    ("{s}, so the statement is false.", 1), ("{s}, so the statement is true.", 0),
    ('The statement "{s}" is incorrect.', 1), ("It is true that {s}.", 0), ("It would be wrong to say that {s}.", 1),
    ("The caption matches the picture.", 0), ("The caption does not match what I see.", 1),
    ("The statement is not correct: there is no such thing here.", 1), ("{s}. This statement is true.", 0),
    ("Whether the statement is true I cannot say.", None), ("The claim is accurate, since {s}.", 0),
    ("{s}, but only from one side.", None), ("Someone says that {s}.", None),
)  # fmt: skip
_TIMES = 20
"""How often a form is filled in."""


def short_replies(seed: int = 29) -> Iterator[dict[str, Any]]:
    """The short forms, each filled in with options drawn at random."""
    draw = random.Random(seed)
    number = 0
    for forms, chooses in ((CHOOSES, True), (DOES_NOT, False)):
        for form in forms:
            for _ in range(_TIMES):
                options = draw.choice(OPTIONS).split()
                draw.shuffle(options)
                labels = list(draw.choice(("ABCD", "ABCD", "abcd", "1234"))[: len(options)])
                one, other = draw.sample(range(len(options)), 2)
                words = {
                    "X": labels[one],
                    "Y": labels[other],
                    "x": options[one],
                    "y": options[other],
                }
                number += 1
                yield {
                    "id": f"short-{number:04d}",
                    "kind": form,
                    "options": options,
                    "labels": labels,
                    "question": draw.choice(
                        ("", "Which of these is it?", "What is shown in the picture?")
                    ),
                    "reply": form.format(**words),
                    "finish": "stop",
                    "gold": one if chooses else None,
                    "ambiguous": False,
                    "lang": "en",
                }


def walks(seed: int = 30) -> Iterator[dict[str, Any]]:
    """Verdicts before, behind or without a word about each option, whole and cut short, and verdicts on statements."""
    draw = random.Random(seed)
    for number in range(400):
        options = draw.sample(SENTENCES, 4)
        gold = draw.randrange(4)
        verdict = draw.choice(VERDICTS).format(label="ABCD"[gold], text=options[gold])
        bullet, bold = draw.choice(("* ", "- ", "")), draw.choice(("**", ""))
        lines = [
            f"{bullet}{bold}{label}. {text}{bold} {draw.choice(REASONS)}"
            for label, text in zip("ABCD", options, strict=True)
        ]
        walk = f"{draw.choice(WALKS)}\n\n" + "\n".join(lines)
        form = draw.choice(("first", "last", "none"))
        parts = {"first": [verdict, walk], "last": [walk, verdict], "none": [walk]}[form]
        reply = draw.choice(("\n\n", " ")).join(parts)
        cut = draw.random() < 0.4
        end = (
            draw.randrange(len(verdict) + 1 if form == "first" else 40, len(reply))
            if cut
            else len(reply)
        )
        chosen = form == "first" or (form == "last" and not cut)
        yield made_case(
            f"walk-{number:03d}",
            form,
            "",
            options,
            "ABCD",
            reply[:end],
            gold if chosen else None,
            cut=cut,
        )
    for number in range(300):
        said = draw.choice(SENTENCES).rstrip(".")
        form, judged = draw.choice(JUDGED)
        question = draw.choice(
            ('Is this statement true? "{}."', "{}. Is this right?", "Does the caption fit: {}?")
        )
        sides = [("Yes", "No"), ("True", "False"), ("No", "Yes"), ("yes", "no")]
        options = list(draw.choice(sides))
        place = (
            None
            if judged is None
            else judged
            if options[0].lower() in ("yes", "true")
            else 1 - judged
        )
        reply = capital(form.format(s=said[0].lower() + said[1:]))
        yield made_case(
            f"judged-{number:03d}", "judged", question.format(said), options, "AB", reply, place
        )


def made_case(
    name: str,
    kind: str,
    question: str,
    options: list[str],
    labels: str,
    reply: str,
    gold: int | None,
    *,
    cut: bool = False,
) -> dict[str, Any]:
    """A labelled reply as in `replies/*.jsonl`."""
    return {
        "id": name,
        "kind": kind,
        "question": question,
        "options": options,
        "labels": list(labels),
        "reply": reply,
        "finish": "length" if cut else "stop",
        "gold": gold,
        "ambiguous": False,
        "lang": "en",
    }


if __name__ == "__main__":
    for reply in (*pairs(), *short_replies(), *walks()):
        print(json.dumps(reply, ensure_ascii=False))
