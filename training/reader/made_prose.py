"""Replies made from forms that real models' replies have: an answer at once or at last among much else, a point that is
closer, and what is said of another thing than was asked about; each with the twins that take it back.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from made_replies import DEEDS, capital, made_case

DETAILS = (
    "The {y} stands beside the {z}.", "It can be seen from the side.", "There is a {z} in the background.", "",
    "However, the {z} is hard to make out.", "The light makes it look otherwise.", "It appears to be late in the day.",
    "This creates the illusion that it moves.", "It is possible that there is no other {z} nearby.",
)  # fmt: skip
AT_ONCE = (
    ("Yes, the {x} is {doing} the {y}.", 0), ("No, the {x} is not {doing} the {y}.", 1), ("Yes. {detail}", 0),
    ("No. {detail}", 1), ("Yes, the {x} appears to be {doing} the {y}. {detail}", 0),
    ("No, the {x} does not seem to be {doing} the {y}. {detail}", 1), ("Yes, and the {y} falls down.", 0),
    ("No, the {x} is only looking at the {z}. {detail}", 1), ("No. There is no {x} in the picture. {detail}", 1),
    ("No, there were no such events in the picture. {detail}", 1), ("No. The {x} is {doing} the {z}. {detail}", 1),
    ("No, she is not. She looks at the {z}. {detail}", 1), ("Yes, it falls off the branch while running.", 0),
    ("Yes, in the image, the {x} is {doing} the {y}. {detail} {detail}", 0), ("Yes, one of them stumbles.", 0),
    ("Yes, there is something unexpected when it falls. However, the focus is on the {z}.", 0),
    ("Yes, a {z} stumbles over a stone, and another one laughs.", 0), ("No, all of them are calm. {detail}", 1),
)  # fmt: skip
"""What answers "Is the {x} {doing} the {y}?" at its beginning, or seems to; and the option: yes, no, or neither."""
WORKINGS = (
    "I count them one by one:\n\n- row {a}\n- row {b}\n- {c} at the back",
    "{a} + {b} is not {c}.",
    "The first has {a}, the second {b} and the third {c}.",
    "Given {a} and {b}, we look at {c} again.",
)
RESULTS = (
    "\n\nSo, the correct answer is ({label}) {text}.", "\n\nTherefore, the answer is {label}. {text}",
    "\n\nThe option that fits is:\n\n**{label}. {text}**", "\n\nAnswer: {label}",
    " The closest is **({label}) {text}**.",
    "\n\nThis matches with:\n\n**{label}. {text}**", "\n\n{label}. {text}",
    "\n\nHence it must be {text}, which is ({label}).",
)  # fmt: skip
FIRST_LINES = (
    "**{label}. {text}**\n\n",
    "{label}. {text}\n\n",
    "({label}) {text}\n",
    "**({label})** {text}\n\n",
    "({label}) {text}: ",
)
BEHIND_THEM = (
    ("The third row is not {other}, as it cannot be told from the front.", False),
    ("{other} would be too many.", False),
    ("This is the best option although {other} is close to it.", False),
    ("It could be seen as {other} by some.", False),
    ("Without more information it is not possible to say why.", False), ("", False),
    ("Wait, I counted one twice: the answer is {other_label}. {other}", True),
)  # fmt: skip


def plain_forms(seed: int = 31) -> Iterator[dict[str, Any]]:
    """What is said at once or at last, among much else."""
    draw = random.Random(seed)
    for number in range(400):
        doing, _, things = draw.choice(DEEDS)
        x, y, z = draw.sample(things.split(), 3)
        form, gold = draw.choice(AT_ONCE)
        reply = form.format(
            x=x, y=y, z=z, doing=doing, detail=draw.choice(DETAILS).format(y=y, z=z)
        )
        question, labels = f"Is the {x} {doing} the {y}?", draw.choice(("", "AB"))
        yield made_case(
            f"at-once-{number:03d}", "at once", question, ["Yes", "No"], labels, reply.strip(), gold
        )
    for number in range(400):
        options = [str(count) for count in draw.sample(range(1, 40), 4)]
        gold, other = draw.sample(range(4), 2)
        shown = {
            "label": "ABCD"[gold],
            "text": options[gold],
            "other": options[other],
            "other_label": "ABCD"[other],
        }
        working = draw.choice(WORKINGS).format(
            **dict(zip("abc", draw.sample(options, 3), strict=True))
        )
        result = draw.choice(("", *RESULTS))
        comment, taken_back = draw.choice(BEHIND_THEM)
        first = draw.choice(FIRST_LINES).format(**shown) + comment.format(**shown)
        last = working + result.format(**shown)
        reply, meant = draw.choice(
            ((first, other if taken_back else gold), (last, gold if result else None))
        )
        yield made_case(
            f"at-last-{number:03d}", "at last", "How many are there?", options, "ABCD", reply, meant
        )


MEASURES = (
    "closer darker brighter farther higher".split(),
    "point square spot marker ball".split(),
)
JUDGED = (
    ("({label}) {text}\n\nThe {thing} {place} looks so beside the {thing} {rival}.", True), ("{text}.", True),
    ("{thing} {place} is {measure}.", True), ("{thing} {place} is {measure} than {thing} {rival}.", True),
    ("I would say that {text}, as {thing} {rival} lies in the shade.", True), ("({label}) {text}", True),
    ("{thing} {rival} is not {measure}.", False), ("{thing}s A and B are compared by how {measure} they are.", False),
    ("Comparing {thing} A and {thing} B, the one that is {measure} is {thing} {place}.", True),
    ("Neither A nor B is {measure}.", False), ("It is hard to say which is {measure}, A or B.", False),
)  # fmt: skip


def points(seed: int = 32) -> Iterator[dict[str, Any]]:
    """Points A and B that are named like the options' labels."""
    draw = random.Random(seed)
    for number in range(240):
        measure, thing = map(draw.choice, MEASURES)
        gold = draw.randrange(2)
        options = draw.choice(
            (
                [f"A is {measure}", f"B is {measure}"],
                [f"A is {measure}", f"B is {measure}", "About the same"],
            )
        )
        form, says = draw.choice(JUDGED)
        if len(options) == 3 and draw.random() < 0.3:
            gold, form, says = (
                2,
                draw.choice(("({label}) {text}\n\nThe {thing}s A and B look alike.", "{text}.")),
                True,
            )
        words = {
            "label": "ABC"[gold],
            "text": options[gold],
            "thing": thing,
            "place": "ABC"[gold],
            "rival": "BA"[gold % 2],
            "measure": measure,
        }
        reply = capital(form.format(**words))
        question = f"Which {thing} is {measure}?"
        yield made_case(
            f"point-{number:03d}",
            "point",
            question,
            options,
            "ABC"[: len(options)],
            reply,
            gold if says else None,
        )


PAIRS = (
    ("boy", "girl"), ("man", "woman"), ("bride", "bridesmaid"), ("gate", "fence"), ("upper chart", "lower chart"),
    ("north tower", "south tower"), ("barn", "farmhouse"), ("waiter on the left", "waiter on the right"), ("bus",
    "tram"),
    ("first picture", "second picture"), ("runner", "coach"), ("teacher", "pupil"), ("table", "chair"),
    ("front door", "back door"),
    ("driver", "passenger"), ("older child", "younger child"), ("goalkeeper", "referee"), ("plate", "bowl"),
    ("house", "garage"),
)  # fmt: skip
"""What is asked about, and what is not; either may be either."""
ASKED = (
    ("What colour is the {a}?", "red blue green white black yellow", "The {a} is {x}.", "is {x}."),
    ("What is the {a} next to?", "tree well bench statue lamp wall", "The {a} is next to a {x}.",
    "stands next to a {x}."),
    ("How many flags are on the {a}?", "2 3 4 5 7 9", "There are {x} flags on the {a}.", "has {x} flags."),
    ("What is on the {a}?", "snow dust paint ivy sand moss", "On the {a} there is {x}.", "is covered in {x}."),
    ("What is the {a} made of?", "wood brick iron paper glass clay", "The {a} is made of {x}.",
    "seems to be made of {x}."),
)  # fmt: skip
BESIDES = ("", "", " in the picture", ", as one can see", ", I think", " here")


def other_things(seed: int = 33) -> Iterator[dict[str, Any]]:
    """What is said of the thing that was asked about, of another one, of both, of another time."""
    draw = random.Random(seed)
    for number in range(400):
        a, b = draw.sample(draw.choice(PAIRS), 2)
        question, things, of_a, behind = draw.choice(ASKED)
        options = draw.sample(things.split(), 4)
        x, y = draw.sample(options, 2)
        of_b = of_a.replace("{a}", "{b}").replace("{x}", "{y}")
        also = behind.replace("{x}", "{y}")
        form, says = draw.choice(
            (
                (of_a, True),
                (of_b, False),
                (f"{of_b} {of_a}", True),
                (f"{of_a} {of_b}", True),
                (f"The {{b}} {also}", False),
                (f"The {{a}} {behind}", True),
                (f"The {{a}} {behind} The {{b}} {also}", True),
                (f"Last year the {{a}} {also}", False),
                (f"The {{b}} {also} The {{a}} cannot be seen.", False),
                (f"The {{b}}, not the {{a}}, {also}", False),
                (f"Unlike the {{b}}, the {{a}} {behind}", True),
                (f"In other photos, the {{a}} {also}", False),
            )
        )
        reply = form.format(a=a, b=b, x=x, y=y)
        reply = reply[:-1] + draw.choice(BESIDES) + "."
        labels = draw.choice(("ABCD", "ABCD", "1234", ""))
        gold = options.index(x) if says else None
        yield made_case(
            f"other-thing-{number:03d}",
            "other thing",
            question.format(a=a),
            options,
            labels,
            reply,
            gold,
        )
