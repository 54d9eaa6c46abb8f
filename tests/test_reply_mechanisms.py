"""One mechanism of reading a test: what it reads in several wordings and languages, and near misses that stay open."""

from __future__ import annotations

import pytest

from snellen.extraction import ExtractedChoice, read_choice

ROOMS = ("In a kitchen", "In a bathroom", "In a bedroom", "In an office")
MOODS = ("He is excited", "He is bored", "He is scared", "He is angry")
BULB = ("It becomes brighter", "It becomes dimmer", "It goes out", "Its brightness does not change")
ANIMALS = ("cat", "dog", "horse", "cow")
PEOPLE = ("Anna", "Ben", "They are the same height")
STATES = ("United States", "United Kingdom", "United Arab Emirates", "Germany")


def read(reply: str, options: tuple[str, ...], question: str = "") -> ExtractedChoice:
    return read_choice(reply, options, tuple("ABCDEFGH"[: len(options)]), question=question)


@pytest.mark.parametrize(
    ("reply", "options", "place"),
    [
        ("bedroom", ROOMS, 2),
        ("It was taken in the office.", ROOMS, 3),
        ("It looks like a hotel bedroom.", ROOMS, 2),
        ("He looks bored.", MOODS, 1),
        ("He is not bored but angry.", MOODS, 3),
        ("Its brightness doesn't change.", BULB, 3),
        ("The bulb goes out.", BULB, 2),
        ("7", ("Line 2", "Line 4", "Line 5", "Line 7"), 3),
        ("III", ("Molecule I", "Molecule II", "Molecule III", "Molecule IV"), 2),
        ("Pour it into the pan.", ("Add the flour", "Preheat the oven", "Pour into a pan", "Let it cool"), 2),
        ("Not in a kitchen.", ROOMS, None),
        ("There is a kitchen knife on an office desk.", ROOMS, None),
        ("kitchen or bathroom", ROOMS, None),
        ("in a living room", ROOMS, None),
        ("The boy doesn't look angry.", MOODS, None),
        ("The boy watches an angry dog.", MOODS, None),
        ("It doesn't become brighter.", BULB, None),
        ("V", ("Molecule I", "Molecule II", "Molecule III", "Molecule IV"), None),
        ("He holds a phone.", ("Talking on the phone", "Reading a book", "Riding a bike"), None),
        ("A woman rides a horse.", ("A man rides a horse", "A man feeds a horse", "Men ride horses"), None),
    ],
)
def test_an_option_is_read_by_the_words_that_tell_it_from_the_others(
    reply: str, options: tuple[str, ...], place: int | None
) -> None:
    reading = read(reply, options)
    assert reading.choice == place
    assert reading.confidence == ("none" if place is None else "likely")


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("The cat is in front of the dog.", None),
        ("The cat is to the left of the dog.", None),
        ("The dog is behind.", 2),
    ],
)
def test_a_relation_is_not_read_the_other_way_round(reply: str, place: int | None) -> None:
    sides = ("to the left of", "to the right of", "behind", "in front of")
    assert read(reply, tuple(f"The dog is {side} the cat" for side in sides)).choice == place


def test_a_relation_said_of_the_other_thing_is_open() -> None:
    sides, question = ("left", "right", "above", "below"), "Where is the red ball in relation to the blue cube?"
    assert read("The blue cube is to the right of the red ball.", sides, question).choice is None
    assert read("The red ball is to the right of the blue cube.", sides, question).choice == 1


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("Anna is taller than Ben.", PEOPLE, "Who is taller, Anna or Ben?", 0),
        ("Anna is shorter than Ben.", PEOPLE, "Who is taller, Anna or Ben?", None),
        ("Anna is not taller than Ben.", PEOPLE, "Who is taller, Anna or Ben?", None),
        ("Ben is older than Anna.", PEOPLE, "Who is taller, Anna or Ben?", None),
        (
            "The cat is bigger than the mouse but smaller than the horse.",
            ("cat", "mouse", "horse"),
            "Which is the heaviest?",
            None,
        ),
        (
            "El camión es más grande que el coche y la moto.",
            ("El camión", "La moto", "El coche"),
            "¿Cuál es más grande?",
            0,
        ),
        ("La moto es más pequeña que el camión.", ("El camión", "La moto", "El coche"), "¿Cuál es más grande?", None),
        ("Das Pferd ist größer als der Hund und die Katze.", ("Hund", "Katze", "Pferd"), "Welches Tier ist größer?", 2),
        ("Die Maus ist kleiner als die Katze.", ("Hund", "Katze", "Maus"), "Welches Tier ist größer?", None),
        (
            "Le cheval est plus lourd que le chien.",
            ("le chat", "le chien", "le cheval"),
            "Lequel est le plus lourd ?",
            2,
        ),
    ],
)
def test_a_comparison_answers_only_a_question_for_its_measure(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    assert read(reply, options, question).choice == place


FRUIT, TOOLS = ("apple", "banana", "carrot", "grape"), ("hammer", "saw", "apple", "nail")


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("Apple, banana and grape are fruits; the carrot is a vegetable.", FRUIT, "Which is NOT a fruit?", 2),
        ("All but the carrot are fruits.", FRUIT, "Which is NOT a fruit?", 2),
        ("A carrot isn't a fruit.", FRUIT, "Which is NOT a fruit?", 2),
        ("It's not the apple.", FRUIT, "Which is NOT a fruit?", None),
        ("Not A.", FRUIT, "Which is NOT a fruit?", None),
        ("The apple is a fruit.", FRUIT, "Which is NOT a fruit?", None),
        ("Hammer, saw and nail are tools; the apple is a fruit.", TOOLS, "Which is a fruit?", 2),
        ("Not a hammer, not a saw, not a nail.", TOOLS, "Which is a fruit?", 2),
        ("A hammer, a saw, and a nail. But no apple.", TOOLS, "Which is a fruit?", None),
        ("The hammer, saw and nail could all be right, the apple is wrong.", TOOLS, "Which is a fruit?", None),
        ("The first excludes A and B. No need for D.", TOOLS, "Which is a fruit?", 2),
    ],
)
def test_what_became_of_the_others_tells_which_is_left(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    assert read(reply, options, question).choice == place


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("It has a tail like a cat.", None),
        ("It is a zebra, similar to a horse.", None),
        ("It used to be a cat.", None),
        ("Were it smaller, it would be a cat.", None),
        ("I would have said cat if not for the hooves.", None),
        ("Option A would mean that it has whiskers.", None),
        ("B is tempting but wrong.", None),
        ("The dog is missing.", None),
        ("It is false that this is a dog.", None),
        ("He isn't there for the dog.", None),
        ("Is it a dog?", None),
        ("Without the hooves it would be a cat.", None),
        ("It's the size of a dog.", None),
        ("It is as big as a dog.", None),
        ("If it barks, the answer is B.", None),
        ("The caption says it is a cat, but that's false.", None),
        ("Looks like a dog, moves like a dog, but it is a horse.", 2),
        ("It looks like a dog.", 1),
        ("The third option is right.", 2),
        ("The second option is wrong.", None),
        ("Not a dog, surely; a horse.", 2),
    ],
)
def test_what_is_only_likened_supposed_or_asked_is_no_answer(reply: str, place: int | None) -> None:
    assert read(reply, ANIMALS, "Which animal is it?").choice == place


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("The main idea is A.", ANIMALS, "What is the main idea of the poster?", 0),
        ("The best caption is B. C mentions things that aren't there.", ANIMALS, "Select the best caption.", 1),
        ("Peter hält die Tasche und Anna hält den Schirm.", ("Peter", "Anna", "Karl"), "Wer hält den Schirm?", 1),
        ("Luca è il più alto; Anna è la più bassa.", ("Marco", "Luca", "Anna"), "Chi è più alto?", 1),
        ("Germany did not win.", ("Spain", "France", "Germany"), "Which country won?", None),
        ("The left house does not have one.", ("The left house", "The right house"), "Which has a chimney?", None),
        ("The car is parked next to a red house.", ("red", "blue", "white"), "What color is the car?", None),
    ],
)
def test_the_words_of_the_question_tell_what_is_said_of_its_subject(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    assert read(reply, options, question).choice == place


@pytest.mark.parametrize(
    ("reply", "question", "place"),
    [
        ("Both images show the same person in other clothes.", "Do the two images show the same person?", 0),
        ("He wears a hat and no glasses.", "Does the man wear glasses?", 1),
        ("There is a dog.", "Is there a dog in the picture?", 0),
        ("No doubt, there is a dog.", "Is there a dog in the picture?", 0),
        ("No question, there is a dog.", "Is there a dog in the picture?", 0),
        ("No problem, there is a dog.", "Is there a dog in the picture?", 0),
        ("No worries, there is a dog.", "Is there a dog in the picture?", 0),
        ("Yes, there is no dog.", "Is there a dog in the picture?", None),
        ("The light next to the red car is green.", "Is the light red?", None),
        ("No idea.", "Is the light red?", None),
    ],
)
def test_yes_and_no_are_read_in_the_words_of_the_question(reply: str, question: str, place: int | None) -> None:
    assert read(reply, ("Yes", "No"), question).choice == place


@pytest.mark.parametrize(
    ("reply", "options", "place"),
    [
        ("UK", STATES, 1),
        ("the U.S.", STATES, 0),
        ("us", STATES, None),
        ("Not the UK.", STATES, None),
        ("saxaphone", ("saxophone", "trumpet", "violin"), 0),
        ("viola", ("saxophone", "trumpet", "violin"), None),
        ("three fifths", ("2/3", "2/5", "3/5", "3/8"), 2),
        ("two thirds", ("1/3", "2/5", "3/5", "3/8"), None),
        ("The eighth panel.", tuple(f"Panel {number}" for number in range(1, 9)), 7),
        ("Es sind 3 Personen.", ("zwei", "drei", "vier"), 1),
        ("None of the options matches; it is a rabbit.", ("cat", "dog", "none of the above"), 2),
        ("I cannot determine. None of the options.", ("cat", "dog", "none of the above"), None),
        ("It is open, busy and new: all of the statements hold.", ("It is open", "It is busy", "All of the above"), 2),
        ("The shop is open and busy.", ("The shop is open", "The shop is busy", "All of the above"), None),
    ],
)
def test_an_option_is_read_in_another_form_of_its_words(
    reply: str, options: tuple[str, ...], place: int | None
) -> None:
    assert read(reply, options).choice == place


@pytest.mark.parametrize(
    ("reply", "options", "place"),
    [
        ("おそらく秋だと思います。", ("春", "夏", "秋", "冬"), 2),
        ("青春です", ("春", "夏", "秋", "冬"), None),
        ("应该更接近愤怒。", ("高兴", "悲伤", "愤怒"), 2),
        ("斑马", ("猫", "狗", "马"), None),
        ("男性は眼鏡をかけていません。", ("男性", "女性"), None),
        ("남자는 안경을 쓰지 않았습니다.", ("남자", "여자"), None),
        ("ليست القاهرة ولا الرياض، فهي دبي.", ("القاهرة", "دبي", "الرياض"), 1),
        ("O cachorro está dormindo no tapete.", ("A gata", "O cachorro", "O coelho"), 1),
        ("Il y a 4 vélos.", ("2", "3", "4", "5"), 2),
    ],
)
def test_words_end_where_the_language_ends_them(reply: str, options: tuple[str, ...], place: int | None) -> None:
    assert read(reply, options).choice == place


@pytest.mark.parametrize(
    "reply",
    [
        "We examine each option.\n\nA. They are parallel: then the slopes are equal.\nB. They are skew: then the",
        "Bei Option A müsste eine Wand zu sehen sein. Option B würde bedeuten, dass",
    ],
)
def test_a_cut_reply_that_only_weighs_options_is_cut_off(reply: str) -> None:
    options = ("They are parallel", "They are skew", "They are one")
    assert read_choice(reply, options, ("A", "B", "C"), finish="length").reason == "cut off"


GAPS, HOUSES = ("1", "2", "3", "5"), ("The left house", "The right house", "Both houses", "Neither house")
DEEDS, RUNNERS = ("cooking", "reading", "running", "painting"), ("Ann", "Ben", "Carl")
MORE, CHIMNEY, WON = "How many more apples than oranges are there?", "Which house has a chimney?", "Who won the race?"


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("Blue is 25 %. Green is the largest.", ("blue", "red", "green"), "Which slice is the largest?", 2),
        ("Dave is responsible for testing. He reports to Ann.", ("Ann", "Dave"), "Who is responsible for testing?", 1),
        ("AB is 10, and the radius is 5.", ("5", "10", "20"), "What is the radius of the circle?", 0),
        ("Apples: 5. Oranges: 2. The difference is 3.", GAPS, MORE, None),
        ("The difference is 3; there are 5 apples.", GAPS, MORE, None),
        ("There are 5 apples and 2 oranges.", GAPS, MORE, None),
        ("The left house has a chimney and so does the right house.", HOUSES, CHIMNEY, 2),
        ("The left house has a chimney, and the right house has one too.", HOUSES, CHIMNEY, 2),
        ("Neon is no noble gas. Chlorine is a halogen.", ("Neon", "Chlorine", "Iron"), "Which is a noble gas?", None),
        ("Stickstoff ist ein Gas, Chlor ein Halogen.", ("Stickstoff", "Chlor", "Argon"), "Was ist ein Edelgas?", None),
        ("Ann holds the ball, but Ben throws it.", RUNNERS, "Who holds the ball?", None),
        ("Ann is at the left, Ben and Carl at the right.", RUNNERS, "Who is the tallest?", None),
        ("First preheat the oven, then pour.", ("preheat the oven", "pour", "stir"), "What is the next step?", None),
    ],
)
def test_of_several_options_the_one_that_is_said_to_be_what_is_asked_for_needs_strong_evidence(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    assert read(reply, options, question).choice == place


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("It must be a cat.\n\nAnswer: B", 1),
        ("The answer is A or B, but I would go with B.", 1),
        ("The answer is A. The angle at C is a right angle.", 0),
        ("This means horse, not to be confused with the hooves of a cow, which means cow.", 2),
        ("The answer is A.\nThe answer is B.", None),
        ("The answer is A, so it must be B.", None),
        ("The answer is cat. So the animal is a dog.", None),
        ("I choose A. I choose B.", None),
        ("So it is a cat. Therefore it must be a dog.", None),
        ("Option A is correct. Option B is correct.", None),
        ("Correct answer: C. Final answer: D.", None),
        ("I think it is a cat. I believe it is a dog.", None),
        ("A cat, as it has whiskers. A dog, as it barks.", None),
        ("Some may say cat.", None),
        ("Many people think it is a dog.", None),
        ("It is easily confused with a cat.", None),
    ],
)
def test_a_reply_that_states_several_answers_is_open(reply: str, place: int | None) -> None:
    assert read(reply, ANIMALS, "Which animal is it?").choice == place


@pytest.mark.parametrize(
    ("reply", "options", "question", "place"),
    [
        ("Ben crossed the line first and won.", RUNNERS, WON, 1),
        ("The man is reading.", DEEDS, "What is the man doing?", 1),
        ("A woman holds a book. She is reading. A dog sleeps.", DEEDS, "What is the woman doing?", 1),
        ("Ann stumbled.", RUNNERS, WON, None),
        ("Ann lost.", RUNNERS, WON, None),
        ("The cow is sleeping.", ("cow", "horse"), "Which animal is eating?", None),
        ("A woman sits on a bench. A man is running past. The mood is calm.", DEEDS, "What is the woman doing?", None),
        ("A woman sits there. In the background a man is running.", DEEDS, "What does she do?", None),
        ("The man next to her is reading.", DEEDS, "What is the woman doing?", None),
        ("The woman is wearing a hat.", ("a hat", "a scarf"), "What is the man wearing?", None),
        ("The shop is at least 3.", ("2", "3", "4"), "How many shops are there?", None),
        ("There are 2 rows of 2 cars.", ("2", "3", "4"), "How many cars are there?", None),
        ("The dog is on the table.", ("on the table", "under the table"), "Where is the cat?", None),
        ("Anne a perdu.", ("Anne", "Luc"), "Qui gagne ?", None),
        ("Das Haus ist rot und das Auto steht davor.", ("rot", "blau"), "Welche Farbe hat das Auto?", None),
        ("Rome lies farther south.", ("Oslo", "Rome"), "Which city is farther north?", None),
        ("The plum is the smallest.", ("plum", "melon"), "Which fruit is the largest?", None),
        ("Two brown dogs and one white dog.", ("2", "3", "4"), "How many dogs are there?", None),
        ("There are 2 dogs on the left and 2 on the right.", ("2", "3", "4"), "How many dogs are there?", None),
        ("The diameter is 10, so half of it is the radius.", ("5", "10"), "What is the radius?", None),
        ("The house is red and the car stands beside it.", ("red", "blue"), "Which color is the car?", None),
        ("Ja, es ist voll. Nein, es ist nicht voll.", ("Ja", "Nein"), "Ist das Glas voll?", None),
    ],
)
def test_what_is_said_of_something_else_than_the_question_is_no_answer(
    reply: str, options: tuple[str, ...], question: str, place: int | None
) -> None:
    assert read(reply, options, question).choice == place


CHANGES, SPEEDS = ("증가한다", "감소한다", "일정하다"), ("40 km/h", "60 km/h", "80 km/h")


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("정답은 2번입니다.", 1),
        ("정답은 ②번입니다. 그래프를 보세요.", 1),
        ("정답은 2입니다.", 1),
        ("정답은 2개입니다.", None),
        ("정답은 2번째 그림입니다.", None),
        ("정답은 2번이 아닙니다.", None),
        ("정답은 2명입니다.", None),
        ("정답은 2시입니다.", None),
        ("정답은 2배입니다.", None),
        ("정답은 2월입니다.", None),
        ("정답은 2층입니다.", None),
        ("정답은 2마리입니다.", None),
        ("정답은 7번입니다.", None),
    ],
)
def test_a_korean_answer_by_its_number_is_told_from_a_count(reply: str, place: int | None) -> None:
    assert read_choice(reply, CHANGES, ("1", "2", "3")).choice == place


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("The car is going at 80 kilometers per hour.", 2),
        ("It does 60 kilometres per hour.", 1),
        ("It is going at 80 miles per hour.", None),
        ("It is going at 80 meters per second.", None),
        ("It went 80 kilometers.", None),
        ("It is not going at 80 kilometers per hour.", None),
        ("It would be 80 kilometers per hour if it were faster.", None),
        ("Either 60 or 80 kilometers per hour.", None),
        ("180 kilometers per hour.", None),
        ("8 kilometers per hour.", None),
        ("80.5 kilometers per hour.", None),
        ("-80 kilometers per hour.", None),
    ],
)
def test_a_speed_is_read_in_words(reply: str, place: int | None) -> None:
    assert read(reply, SPEEDS).choice == place


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ("It's Ben rather than Carl.", 1),
        ("It is no other than Ann.", None),
        ("Rather than Ben.", None),
        ("Ben is smaller than Carl.", None),
        ("Someone other than Ben.", None),
        ("Anyone rather than Carl.", None),
        ("Not Ben rather than Carl.", None),
        ("Ben or Ann rather than Carl.", None),
        ("Not so much Ben as Carl or Ann.", None),
        ("It isn't Ben rather than Carl.", None),
        ("Other than Ann and Ben there is nobody.", None),
        ("Is it Ben rather than Carl? No.", None),
    ],
)
def test_rather_than_compares_nothing(reply: str, place: int | None) -> None:
    assert read(reply, RUNNERS, "Which team member is bigger?").choice == place
