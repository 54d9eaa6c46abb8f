"""Replies that name no option although they come near to it: a hundred for each way in which a reply may mean one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import pytest

from snellen.extraction import read_choice

LABELS = ("A", "B", "C", "D", "E")


class Case(NamedTuple):
    question: str
    options: tuple[str, ...]
    reply: str


def cases(
    questions: tuple[tuple[str, tuple[str, ...]], ...], replies: tuple[str, ...], **words: tuple[str, ...]
) -> Iterator[Case]:
    """Each reply to each question; `{0}` to `{3}` are options in lower case, others stand for their words."""
    for (question, options), reply in product(questions, replies):
        shown = [option[0].lower() + option[1:] for option in options]
        used = {name: some for name, some in words.items() if "{" + name + "}" in reply}
        for chosen in product(*used.values()):
            yield Case(question, options, reply.format(*shown, **dict(zip(used, chosen, strict=True))))


ANIMALS = ("What animal is in the garden?", ("Cat", "Dog", "Rabbit", "Horse"))
FRUITS = ("Which fruit is on the plate?", ("Apple", "Banana", "Pear", "Grape"))
VEHICLES = ("What vehicle is parked outside?", ("Taxi", "Bus", "Tram", "Truck"))
COLOURS = ("What color is the car?", ("Red", "Blue", "Green", "Yellow"))
ROOMS = ("Which room is shown?", ("Kitchen", "Bathroom", "Bedroom", "Attic"))
THINGS = (ANIMALS, FRUITS, VEHICLES)


def several() -> Iterator[Case]:
    """Two options are given for one."""
    yield from cases(
        (*THINGS, ROOMS),
        (
            "{0} and {1}",
            "Both {0} and {1}.",
            "Either {0} or {1}.",
            "It is a {0} or a {1}.",
            "There are a {0} and a {1}.",
            "The answer is A and B.",
            "A and C",
            "A, C and D can all be seen.",
            "I see a {0}, and also a {2}.",
            "A {1} as well as a {3}.",
            "A {0}, together with a {1}.",
            "It could be a {0}. It could be a {1}.",
            "Maybe a {0}, maybe a {3}.",
            "It is a {0}. It is a {1}.",
            "A or B, both fit.",
            "So B and D are both right.",
            "The {0} is one answer, the {1} another.",
            "Half {0}, half {1}.",
            "Somewhere between {0} and {1}.",
            "First a {0}, then a {1}.",
            "On the one hand {0}, on the other hand {1}.",
            "A 50 %, B 50 %",
            "Not only a {0} but also a {1}.",
            "B and the {3}",
            "Therefore the answers are A and D.",
        ),
    )


def taken_back() -> Iterator[Case]:
    """An answer is given and then unsaid."""
    yield from cases(
        THINGS,
        tuple(
            f"{answer} {unsaid}"
            for answer in ("Answer: A. {0}.", "The answer is B.", "It is a {2}.")
            for unsaid in (
                "Actually the picture doesn't say.",
                "Actually, I can't tell.",
                "Wait, that isn't right.",
                "On second thought, I'm not sure.",
                "Hmm, actually it is unclear.",
                "No, none of them fits.",
                "Hold on, I cannot see that.",
                "Actually, nothing in the image shows that.",
                "Actually, it may be wrong.",
                "However, I can't be sure.",
                "Actually I don't know.",
                "Wait, no, that is wrong.",
            )
        ),
    )


def elsewhere() -> Iterator[Case]:
    """A sentence about an option that does not answer the question."""
    yield from cases(
        THINGS,
        (
            "The {0} is a symbol of the country.",
            "A {0} is known as a thing of many uses.",
            "The {1} costs more than it did last year.",
            "A {1} appears when the moon is full.",
            "The {3} was invented a long time ago.",
            "{0}s are popular in many countries.",
            "The {0} has been famous for centuries. The photo was taken at noon.",
            "A {2} is defined as something that has a name.",
            "The {2} means luck in some cultures.",
            "An old {3} stood for hope. The weather is fine.",
            "The {1} belongs to my neighbour.",
        ),
    )
    yield from cases(
        (
            ("Which hotel has the best rating?", ("Seaview Inn", "Palm Court", "Old Mill", "Grand Plaza")),
            ("Which city has the most visitors?", ("Paris", "London", "Rome", "Madrid")),
            ("Who won the race?", ("Anna", "Ben", "Carla", "David")),
        ),
        (
            "{X} is near the beach and offers breakfast.",
            "{X} was born in a small village.",
            "The weather is fine. {X} lies by the river.",
            "{X} has a long history.",
            "{X} likes swimming.",
            "{X} opened in 1920. The photo is old.",
        ),
        X=("Seaview Inn", "Palm Court", "Paris", "London", "Anna", "Ben"),
    )


def numbers_of_others() -> Iterator[Case]:
    """A number that is no count of what is asked for, or none that a range is sure to hold."""
    yield from cases(
        (
            ("How many visitors came?", ("0-25", "26-50", "51-75", "76-100")),
            ("How many visitors came?", ("fewer than 20", "20 to 40", "41 to 60", "more than 60")),
        ),
        (
            "There are {n} tables in the hall.",
            "{n} or 70 visitors came.",
            "Not {n} visitors.",
            "If {n} visitors had come, it would be full.",
            "Between {n} and 90.",
            "Between 10 and 30 visitors.",
            "{n} children and 70 adults.",
            "The hall was built {n} steps from the sea.",
            "It could be {n} visitors.",
            "Is it {n} visitors?",
            "There might be {n}.",
            "Room {n} has 3 doors.",
        ),
        n=("12", "33", "45", "55", "nineteen"),
    )


def other_orders() -> Iterator[Case]:
    """Things in an order that is not stated as the answer, or is none of the options."""
    orders = ("Sun, Moon, Star", "Moon, Sun, Star", "Star, Moon, Sun")
    letters = ("1-2-3-4", "2-1-4-3", "4-3-2-1")
    yield from cases(
        (("What is the correct order?", orders), ("In what order do they appear?", orders)),
        (
            "Not sun, moon, star.",
            "Sun, star, moon.",
            "The sun and the moon.",
            "The reverse of sun, moon, star.",
            "If it were sun, moon, star it would be simple.",
            "The sun is {big}, the star is {big} and the moon is {big}.",
            "It isn't moon, sun, star.",
            "First the star, then the sun, then the moon.",
            "Sun, moon, star. Moon, sun, star.",
            "The moon follows the sun, which follows the star.",
        ),
        big=("big", "small", "round", "yellow", "near", "far"),
    )
    yield from cases(
        (("What is the correct order of the pictures?", letters), ("Which order is right?", letters)),
        (
            "{s} 3, 1, 2, 4.",
            "{s} 1, 2 and 3.",
            "{s} not 1, 2, 3, 4.",
            "{s} 1, 2, 3, 4 or 2, 1, 4, 3.",
            "{s} 4, 3, 2.",
        ),
        s=("Pictures", "It is", "The order is", "I see", "Maybe", "Perhaps", "Steps", "Well,"),
    )


def rankings() -> Iterator[Case]:
    """Rankings, shares and lists that single out no option."""
    yield from cases(
        (*THINGS, ROOMS),
        (
            "A > B",
            "A > B > C",
            "A = B = C = D",
            "B < A",
            "A: 25 %, B: 25 %, C: 25 %, D: 25 %",
            "A: 40 %, B: 35 %, C: 15 %, D: 10 %",
            "A: 50 %, B: 50 %",
            '{{"A": 0.3, "B": 0.3, "C": 0.2, "D": 0.2}}',
            "A. {0}\nB. {1}\nC. {2}\nD. {3}",
            "A. {0} ✅\nB. {1} ✅\nC. {2}\nD. {3}",
            "A. {0} ❌\nB. {1} ❌\nC. {2}\nD. {3}",
            "- {0}: possible\n- {1}: possible\n- {2}: no\n- {3}: no",
            "A) {0}?\nB) {1}?\nC) {2}?\nD) {3}?",
            "A: 90 %, B: 90 %, C: 5 %, D: 5 %",
            "A. {0} (not correct)\nB. {1}\nC. {2}\nD. {3}",
            "1. {0}\n2. {1}\n3. {2}\n4. {3}",
        ),
    )
    yield from cases(
        (
            ("Which is the least likely animal?", ANIMALS[1]),
            ("Rank them from worst to best.", FRUITS[1]),
            ("Which vehicle is the slowest?", VEHICLES[1]),
        ),
        tuple(
            f"{order}{end}"
            for order in ("A > B > C > D", "D > C > B > A", "C > A > D > B", "A: 70 %, B: 10 %, C: 10 %, D: 10 %")
            for end in ("", ".", " ")
        ),
    )


def of_two() -> Iterator[Case]:
    """The former or the latter, of something else or denied."""
    yield from cases(
        (*THINGS, ROOMS),
        (
            "A {0} and a {1}; the latter is bigger.",
            "{0} or {1}, but not the latter and not the former.",
            "There is a {0} and a {1}. The former is older.",
            "{0}, {1} or {2}. I would choose the latter.",
            "The latter.",
            "So the former.",
            "I compared a {0} with a {1}. The latter has more legs.",
            "A {0} is unlike a {1}. Not the latter.",
            "{0} or {1}? The former, the latter, who knows.",
            "It's between {0} and {1}. I wouldn't choose the former or the latter.",
            "If it were a {0} or a {1}, I'd choose the latter.",
            "{0} and {1}. The latter half of the picture is dark.",
            "A or B. In the latter days of summer.",
            "A or B. Neither the former nor the latter.",
            "A and B. The former owner was a painter.",
            "Possibly A, possibly B, possibly C. So the latter.",
            "{0} or {1}. Not the latter, not the former.",
            "A {0} and a {1}, the former of which is brown.",
            "A {0} or a {1}. The former? The latter?",
            "The former looks better.",
            "The latter one, of course.",
            "{0} and {1}: the former is red, the latter is blue.",
            "A, B, C: the latter.",
            "The latter of the two days was sunny: A, B.",
            "Not A and not B, so neither the latter nor the former.",
            "Either {0} or {1}; the latter is rarer.",
        ),
    )


def joint() -> Iterator[Case]:
    """Options that stand for others, where not all of these are asserted."""
    yield from cases(
        (
            ("What does the picture contain?", ("A tree", "A house", "Both a tree and a house", "Neither")),
            ("What can be seen?", ("A tree", "A house", "Both", "Neither")),
        ),
        (
            "A tree or a house.",
            "Either a tree or a house.",
            "Is it a tree? Is it a house?",
            "A tree but maybe a house.",
            "If there is a tree and a house, it is a village.",
            "There might be a tree, there might be a house.",
            "It looks like a tree or a house or something.",
        ),
    )
    yield from cases(
        (
            ("Which of these are shown?", ("Cats", "Dogs", "Horses", "All of the above")),
            ("Which of these grow here?", ("Apples", "Pears", "Plums", "All of the above")),
            ("Which of these does he like?", ("Tea", "Coffee", "Juice", "All of these")),
            ("Which of these are sold?", ("Hats", "Shoes", "Belts", "All of them")),
        ),
        (
            "{0} and {1}.",
            "{1} and {2}.",
            "{0} or {1} or {2}.",
            "Not {0} and not {1}.",
            "{0}, {1} and maybe others.",
            "Some {0}, some {2}.",
            "Either {0}, {1} or {2}.",
            "Are there {0}, {1} and {2}?",
            "If there were {0}, {1} and {2}, I would say so.",
            "Both {0} and {2} are shown.",
            "{0} as well as {1}.",
            "It is hard to see {0}, {1} or {2}.",
            "I see {1}, I think, and {2}.",
            "{2} and {0}, not {1}.",
            "A and B.",
            "A and C are right.",
            "B, C",
            "{0}? {1}? {2}?",
            "{0} without {1} and {2} without {1}.",
        ),
    )
    yield from cases(
        (
            ("What did he buy?", ("Milk", "Bread", "Both milk and bread", "Eggs")),
            ("What did she eat?", ("Rice", "Beans", "Both rice and beans", "Soup")),
        ),
        (
            "{0} or {1}.",
            "Either {0} or {1}, or {3}.",
            "{0} and {3}.",
            "{1} and {3}.",
            "{0}, {1} and {3}.",
            "Not {0} or {1}.",
            "{0} instead of {1}? {1} instead of {0}?",
            "Maybe {0} or else {1}.",
            "Does he want {0} and {1}?",
            "If not {0} then {1}, if not {1} then {0}.",
        ),
    )


def untold() -> Iterator[Case]:
    """A model that sees no picture, or goes on to give a reason, does not say that it cannot be told."""
    yield from cases(
        (
            ("Is the shop open?", ("Yes", "No", "Cannot be determined")),
            ("Are they siblings?", ("Yes", "No", "Unknown")),
            ("Who is older?", ("The man", "The woman", "Not enough information")),
            ("Is it raining?", ("Yes", "No", "It is impossible to tell")),
        ),
        (
            "I'm sorry, but I can't tell.",
            "I cannot see any image.",
            "There is no image attached, so I cannot determine it.",
            "As an AI language model, I cannot determine that.",
            "Please upload the image, I can't tell without it.",
            "I cannot assist with that.",
            "I can't identify people in photos, sorry.",
            "I am unable to view the picture, so I cannot say.",
            "I can't open the image and don't know.",
            "I cannot say whether it is, but perhaps it is.",
            "It's not clear, though probably it is.",
            "I cannot determine anything without the picture.",
            "I don't have access to the picture, so it's impossible to know.",
            "It is hard to tell, however the light suggests something.",
            "No image was provided, so I can't say.",
            "Unfortunately I cannot process images, so I can't know.",
            "For privacy reasons I can't tell.",
            "I cannot say that I would know, but my best guess might be wrong.",
            "I'm not able to see the photo, I can't determine it.",
            "I apologize, it is impossible to say.",
            "The image failed to load, I can't tell.",
            "I can't answer without seeing the picture.",
            "My guidelines do not allow me to tell; I cannot say.",
            "Could you please provide the image? I can't determine it.",
            "The picture is blank, I can't tell.",
        ),
    )


def relations() -> Iterator[Case]:
    """Where something else is, or two places at once."""
    where = "Where is the cat relative to the sofa?"
    yield from cases(
        (
            (where, ("On top of it", "Under it", "Behind it", "In front of it")),
            (where, ("On the sofa", "Under the sofa", "Behind the sofa", "In front of the sofa")),
        ),
        (
            "The sofa is {r} the cat.",
            "The sofa stands {r} it.",
            "It is not {r} it.",
            "The cat isn't {r} the sofa.",
            "If it were {r} the sofa, it would be dark.",
            "Is it {r} it?",
            "It is {r} it or beside it.",
            "It could be {r} it.",
            "Either {r} it or next to it.",
            "It was {r} it. Now it has gone.",
        ),
        r=("beneath", "underneath", "atop", "in back of", "below", "upon"),
    )


def opposites() -> Iterator[Case]:
    """Yes or no of another thing, or half."""
    yield from cases(
        (
            ("Is the shop open?", ("Yes", "No")),
            ("Is the shop open on Mondays?", ("Yes", "No")),
            ("Is the door of the shop open?", ("Yes", "No", "Unknown")),
        ),
        (
            "The window is closed.",
            "The bank next to the shop is closed.",
            "The shop may be closed.",
            "It would be closed at night.",
            "The shop is open or closed.",
            "Some of it is closed.",
            "It is half closed.",
            "It is almost closed.",
            "It is usually closed.",
            "If it is closed, nobody can enter.",
            "A sign says something about it.",
            "The shop is closed on Sundays.",
            "One door is closed and one is open.",
            "It could be closed.",
            "The street is closed to cars.",
            "Closed and open at once.",
            "The owner is open to ideas.",
        ),
    )
    yield from cases(
        (
            ("Is the man standing?", ("Yes", "No")),
            ("Is the glass full?", ("Yes", "No")),
            ("Are the two lines parallel?", ("Yes", "No")),
            ("Is the cup on the left clean?", ("Yes", "No")),
        ),
        (
            "The woman is sitting.",
            "The bottle is empty.",
            "The plate is dirty.",
            "The curves intersect.",
            "It may be empty or dirty.",
            "Somebody might be sitting.",
            "Often they intersect.",
            "A dog is lying there.",
            "The other plate is dirty.",
            "The room is empty.",
            "Two people are seated.",
            "The roads intersect.",
            "The chair is empty and the table is full.",
        ),
    )


def forms() -> Iterator[Case]:
    """Words that look like an option's, or mean it, and are denied or another's."""
    yield from cases(
        (
            ("Which emotion does she show?", ("Happiness", "Sadness", "Anger", "Surprise")),
            ("What emotion is this?", ("Happiness", "Sadness", "Anger", "Surprise", "Fear")),
        ),
        (
            "She is not happy.",
            "She isn't sad.",
            "She is neither happy nor sad.",
            "Happy or sad, who knows.",
            "Is she angry?",
            "She would be happy if it rained.",
            "It isn't an angry face.",
            "She is sad and happy at once.",
            "She never gets angry.",
            "If she were surprised, her eyes would be wide.",
            "She doesn't look scared or sad.",
            "No surprised look, no angry look.",
            "She used to be happy.",
            "People may think that she is angry.",
            "Hardly happy.",
        ),
    )
    yield from cases(
        (
            ("Which part is shown?", ("Leaf", "Root", "Stem", "Flower")),
            ("How does he travel?", ("By bike", "By car", "By bus", "On foot")),
            ("Which country is it?", ("United States", "United Kingdom", "South Korea", "Japan")),
            ("Which word fits?", ("Stationary", "Elephant", "Mountain", "Umbrella")),
        ),
        (
            "No leaves.",
            "Not by bicycle.",
            "Not the U.S.",
            "He has no bicycle.",
            "Leaves or roots.",
            "It isn't the U.K.",
            "Neither the US nor the UK.",
            "The US or the UK.",
            "He would never ride a bicycle.",
            "Is it the U.S.?",
            "If he had a bicycle, he would ride it.",
            "Elefants or mountans.",
            "No elefant.",
            "Not an elefant.",
            "It can't be the U.S. or Japan.",
            "A bicycle or an automobile.",
            "I doubt that it is the U.K.",
            "Without leaves or roots.",
        ),
    )


def aligned() -> Iterator[Case]:
    """Several options in prose, of none or of all of which it is said what is asked for."""
    yield from cases(
        (
            ("What is the child reaching for?", ("Cookie jar", "Toy car", "Light switch", "Cat")),
            ("What is the bird perched on?", ("Wire", "Branch", "Fence", "Roof")),
            ("What is the man holding?", ("Phone", "Book", "Umbrella", "Newspaper")),
            ("What is the woman holding in her hand?", ("Bag", "Cup", "Key", "Rose")),
            ("What is the cat reaching for?", ("Ball", "Fish", "Ribbon", "Mouse")),
        ),
        (
            "There is a {0} on the shelf, and a {1} lies on the floor.",
            "The {0} is next to the {1}.",
            "A {2} hangs there. A {3} is below.",
            "He is neither reaching for, holding nor perched on the {0}; the {1} lies there.",
            "The {0} is old. The {1} is new. The {2} is broken.",
            "He is reaching for, holding or perched on the {0}, the {1} or the {2}.",
            "Reaching for, holding, perched on: the {0} and the {1}.",
            "It isn't reaching for, holding or perched on the {2}. A {3} lies near.",
            "The {0} looks good and so does the {1}.",
            "Would it hold, reach or perch on the {1}? The {0} is far.",
            "A {0}, a {1}, a {2} and a {3} can be seen.",
            "I can see a {3}. There's a {2} too.",
            "The {1} is red, while the {2} is green.",
        ),
    )
    yield from cases(
        (
            ("Who is the tallest in the portrait?", ("Father", "Mother", "Son", "Daughter")),
            ("Who is the tallest?", ("Anna", "Ben", "Carla", "David")),
        ),
        (
            "{0} is the tallest. {1} is taller than {0}.",
            "{0} is tall and {1} is tall.",
            "{0} is the tallest, but {1} is the tallest too.",
            "{0} is tall. {1} is tall. {2} is short.",
            "{0} and {1} are the tallest.",
            "{1}, {2} and {3} are tall.",
            "{0} is not the tallest, and {1} is sitting.",
            "{2} could be the tallest, {3} could be the tallest.",
            "{0} stands on a box. {1} sits.",
            "The portrait shows {0} and {1}.",
        ),
    )
    yield from cases(
        (
            ("How many candles are lit?", ("1", "2", "3", "4")),
            ("How many candles are lit in the room?", ("One", "Two", "Three", "Four")),
        ),
        (
            "There are 4 candles in 2 rows.",
            "4 candles, 3 plates and 2 cups.",
            "I see 3 cups and 4 plates.",
            "2 of them are red, 2 of them are white, 3 of them are tall.",
            "Row 2 has 3 candles, row 1 has 4 candles.",
            "Two of which are lit, three of which are lit.",
            "2 candles are lit or 3 candles are lit.",
            "Maybe 2, maybe 3 candles are lit.",
            "There were 4 candles and 3 plates on 2 tables.",
        ),
    )


CLASSES: dict[str, Callable[[], Iterator[Case]]] = {
    function.__name__: function
    for function in (
        several, taken_back, elsewhere, numbers_of_others, other_orders, rankings, of_two, joint, untold, relations,
        opposites, forms, aligned,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSES)
def test_replies_that_only_come_near_to_an_option_name_none(name: str) -> None:
    every = list(dict.fromkeys(CLASSES[name]()))
    read = [
        (case.reply, case.question, reading.choice, reading.detail)
        for case in every
        if (
            reading := read_choice(case.reply, case.options, LABELS[: len(case.options)], question=case.question)
        ).choice
        is not None
    ]
    assert len(every) >= 100
    assert read == []
