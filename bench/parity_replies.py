"""Replies in named forms, drawn at random: what was said, what is right, and whether the reply means it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

ANIMALS = ("cat", "dog", "horse", "cow", "sheep", "goat", "red panda", "polar bear")
LETTERS = "ABCD"


@dataclass(frozen=True)
class Case:
    form: str
    reply: str
    gold: str
    meant: bool | None
    """Whether a person would say that the reply gives the gold; None where that is no question of yes or no."""
    options: tuple[str, ...] = ()


def marked(case: Case, note: str) -> Case:
    return replace(case, form=f"{case.form} ({note})")


def stripped(case: Case) -> Case:
    return replace(case, reply=case.reply.strip())


def shown(case: Case, ours: float | None, theirs: float | None) -> str:
    said = " ".join(case.reply.split()).replace("|", "\\|").replace("`", "'")
    gold = case.gold.replace("|", "\\|") or ", ".join(dict.fromkeys(case.options))
    return f"`{said or ' '}` / `{gold}`: {_word(ours)}, {_word(theirs)}"


def _word(value: float | None) -> str:
    return "raises" if value is None else {1.0: "right", 0.0: "wrong"}.get(value, f"{value:.2f}")


CHOICES = {
    "letter": "{L}",
    "letter, full stop": "{L}.",
    "letter in brackets": "({L})",
    "letter and text": "{L}. {text}",
    "bold letter": "**{L}**",
    "small letter": "{l}",
    "boxed letter": "\\boxed{{{L}}}",
    "answer is": "The answer is {L}.",
    "answer is, brackets": "The correct answer is ({L}).",
    "answer colon": "Answer: {L}",
    "option": "Option {L} is correct.",
    "text": "{text}",
    "text in a sentence": "It is a {text}.",
    "reasoned": "It has no horns, so it is not a {other}. The answer is {L}.",
    "A as an article": "A {text} can be seen in the picture, so {L}.",
    "article and text": "A {text} is in the picture.",
    "rejects then chooses": "{M} is wrong, because nothing barks. {L} is right.",
    "changes its mind": "At first I thought {M}, but it must be {L}.",
    "long, ends in the letter": "The animal stands in a field and looks at us. Its fur is brown. It is {L}",
    "two letters": "{L} or {M}",
    "all letters": "A, B, C or D",
    "none": "None of the options.",
    "refusal": "I cannot see any animal in this picture.",
    "nothing": "",
}
_UNDECIDED = {"two letters", "all letters", "none", "refusal", "nothing"}


def choice(rng: random.Random) -> Case:
    count = rng.choice((2, 4, 4))
    options = tuple(rng.sample(ANIMALS, count))
    gold, said = rng.randrange(count), rng.randrange(count)
    other = rng.choice([place for place in range(count) if place != said])
    form = rng.choice(list(CHOICES))
    if rng.random() < 0.5:
        said, gold = gold, gold
        other = (said + 1) % count
    text = CHOICES[form].format(
        L=LETTERS[said],
        l=LETTERS[said].lower(),
        M=LETTERS[other],
        text=options[said],
        other=options[other],
    )
    return Case(form, text, LETTERS[gold], said == gold and form not in _UNDECIDED, options)


YES_NO = {
    "word": "{W}",
    "word, full stop": "{W}.",
    "small word": "{w}",
    "capitals": "{C}",
    "word and sentence": "{W}, {sentence}",
    "sentence": "{S}",
    "answer is": "The answer is {w}.",
    "answer colon": "Answer: {W}",
    "late": "Looking at the picture, {w}.",
    "bold": "**{W}**",
    "no doubt": "{W}, there is no doubt about it.",
    "knows": "I now know: {w}.",
    "letter": "{W[0]}",
    "both": "Yes or no",
    "refusal": "Sorry, I cannot tell from this picture.",
    "another word": "Noted.",
    "eyes": "The eyes are open.",
    "nothing": "",
}


def yes_no(rng: random.Random) -> Case:
    gold, said, form = (
        rng.choice(("yes", "no")),
        rng.choice(("yes", "no")),
        rng.choice(list(YES_NO)),
    )
    sentence = "there is a dog in it." if said == "yes" else "there is no dog in it."
    text = YES_NO[form].format(
        W=said.capitalize(), w=said, C=said.upper(), sentence=sentence, S=sentence.capitalize()
    )
    undecided = {"both", "refusal", "another word", "eyes", "nothing"}
    return Case(form, text, gold, said == gold and form not in undecided)


def chart(rng: random.Random) -> Case:
    kind = rng.choice(("number", "percent", "year", "zero", "word"))
    if kind == "word":
        gold, other = rng.sample(("Blue", "Los Angeles", "Yes", "No", "Q1"), 2)
        right = rng.random() < 0.6
        form, said = rng.choice(
            (("as it is", "{}"), ("small", "{l}"), ("full stop", "{}."), ("blanks", " {} "))
        )
        text = gold if right else other
        return Case(f"word: {form}", said.format(text, l=text.lower()), gold, right)
    if kind == "zero":
        said = rng.choice(("0", "0.0", "0%", "zero", "1"))
        return Case(f"zero: {said}", said, "0", said != "1")
    if kind == "year":
        gold_year = rng.randint(1990, 2020)
        year = gold_year + rng.choice((0, 0, 1, -3, 20))
        return Case("year", str(year), str(gold_year), year == gold_year)
    value = round(rng.uniform(1.2, 99), rng.choice((0, 1, 2)))
    gold = f"{value:g}"
    if rng.random() < 0.3:
        value, gold = value * 100, f"{value * 100:.0f}"
    error = rng.choice((0.0, 0.0, 0.03, -0.045, 0.06, -0.2))
    said_value = value * (1 + error)
    if gold.isdigit() and 1800 <= int(gold) <= 2099:
        gold, value = "1234", 1234.0
        said_value = value * (1 + error)
    said = f"{said_value:.4g}" if said_value < 1000 else f"{said_value:.0f}"
    forms = {
        "as it is": said,
        "full stop": f"{said}.",
        "unit": f"{said} km",
        "dollars": f"${said}",
        "separators": f"{float(said):,.2f}" if float(said) >= 1000 else said,
        "a sentence": f"The answer is {said}.",
        "bold": f"**{said}**",
        "about": f"about {said}",
        "negative": f"-{said}",
        "percent sign": f"{said}%",
    }
    form = rng.choice(list(forms))
    if kind == "percent":
        meant = _near(said, gold) and form not in {"negative", "unit", "dollars"}
        return Case(f"percent gold: {form}", forms[form], f"{gold}%", meant)
    return Case(f"number: {form}", forms[form], gold, _near(said, gold) and form != "negative")


def _near(said: str, gold: str) -> bool:
    return abs(float(said) - float(gold)) <= 0.05 * abs(float(gold)) + 1e-9


WORDS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()


def number(rng: random.Random) -> Case:
    whole = rng.random() < 0.7
    if whole:
        gold_value = rng.randint(2, 15)
        said_value = float(gold_value if rng.random() < 0.6 else rng.randint(2, 15))
        gold, said = str(gold_value), str(int(said_value))
        forms = {
            "figure": said,
            "word": WORDS[int(said)],
            "Word.": f"{WORDS[int(said)].capitalize()}.",
            "sentence": f"There are {said} cats.",
            "full stop": f"{said}.",
            "with decimals": f"{said}.0",
            "sum": f"2 + {int(said) - 2} = {said}",
            "two numbers": f"{said} or {int(said) + 1}",
            "inside another": f"1{said}",
            "answer is": f"I see rows of 3. The answer is {said}.",
            "a little more": f"{said}.4",
            "nothing": "I cannot count them.",
        }
        form = rng.choice(list(forms))
        meant = said == gold and form not in {
            "two numbers",
            "inside another",
            "a little more",
            "nothing",
        }
        return Case(
            form, forms[form], gold, meant or (form == "inside another" and f"1{said}" == gold)
        )
    decimals = rng.choice((1, 2))
    exact = round(rng.uniform(0.2, 20), 4)
    gold = f"{exact:.{decimals}f}"
    said_value = exact if rng.random() < 0.6 else exact + rng.choice((0.3, -0.7, 1.5))
    forms = {
        "rounded": f"{said_value:.{decimals}f}",
        "more decimals": f"{said_value:.4f}",
        "unit": f"{said_value:.{decimals}f} cm",
        "answer is": f"The answer is {said_value:.{decimals}f}.",
        "boxed": f"\\boxed{{{said_value:.{decimals}f}}}",
    }
    form = rng.choice(list(forms))
    said = f"{said_value:.4f}" if form == "more decimals" else f"{said_value:.{decimals}f}"
    return Case(
        f"decimals: {form}",
        forms[form],
        gold,
        abs(float(said) - float(gold)) <= 0.5 / 10**decimals + 1e-12,
    )


def formula(rng: random.Random) -> Case:
    over, under = rng.randint(1, 9), rng.choice((2, 3, 4, 5, 7))
    kind = rng.choice(("fraction", "whole", "root"))
    right = rng.random() < 0.6
    gold = {
        "fraction": f"\\frac{{{over}}}{{{under}}}",
        "whole": str(over * 7),
        "root": f"{over}\\sqrt{{2}}",
    }[kind]
    shift = 0 if right else 1
    said = {
        "fraction": f"\\frac{{{over + shift}}}{{{under}}}",
        "whole": str((over + shift) * 7),
        "root": f"{over + shift}\\sqrt{{2}}",
    }[kind]
    plain = {"fraction": f"{over + shift}/{under}", "whole": said, "root": said}[kind]
    forms = {
        "as it is": said,
        "boxed": f"So we have \\boxed{{{said}}}.",
        "dollars": f"${said}$",
        "answer is": f"The answer is ${said}$.",
        "equation": f"$x = {said}$",
        "plain": plain,
        "boxed with text": f"\\boxed{{x = {said}}}",
    }
    form = rng.choice(list(forms))
    return Case(f"{kind}: {form}", forms[form], gold, right)


def box(rng: random.Random) -> Case:
    """In coordinates from 0 to 1."""
    left, top = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
    right, bottom = left + rng.uniform(0.1, 0.4), top + rng.uniform(0.1, 0.4)
    hit = rng.random() < 0.6
    shift = rng.uniform(0, 0.02) if hit else rng.uniform(0.3, 0.45)
    said = [left + shift, top + shift, right + shift, bottom + shift]
    a, b, c, d = (f"{side:.2f}" for side in said)
    forms = {
        "brackets": f"[{a}, {b}, {c}, {d}]",
        "sentence": f"The box is [{a}, {b}, {c}, {d}].",
        "round brackets": f"({a}, {b}, {c}, {d})",
        "pairs": f"<box>({a},{b}),({c},{d})</box>",
        "json": f'{{"bbox_2d": [{a}, {b}, {c}, {d}], "label": "dog"}}',
        "bare": f"{a} {b} {c} {d}",
        "corners the other way": f"[{c}, {d}, {a}, {b}]",
        "two boxes": f"[0.90, 0.90, 0.99, 0.99], no: [{a}, {b}, {c}, {d}]",
        "in thousandths": f"[{said[0] * 1000:.0f}, {said[1] * 1000:.0f}, {said[2] * 1000:.0f}, {said[3] * 1000:.0f}]",
        "nothing": "It is on the left.",
        "three numbers": f"[{a}, {b}, {c}]",
    }
    form = rng.choice(list(forms))
    gold = [round(side, 4) for side in (left, top, right, bottom)]
    rounded = [float(text) for text in (a, b, c, d)]
    meant = _iou(rounded, gold) >= 0.5 and form not in {
        "in thousandths",
        "nothing",
        "three numbers",
    }
    return Case(form, forms[form], str(gold), meant)


def _iou(first: list[float], second: list[float]) -> float:
    wide = max(0.0, min(first[2], second[2]) - max(first[0], second[0]))
    high = max(0.0, min(first[3], second[3]) - max(first[1], second[1]))
    areas = [(side[2] - side[0]) * (side[3] - side[1]) for side in (first, second)]
    return wide * high / (sum(areas) - wide * high)


def point(rng: random.Random) -> Case:
    """In coordinates from 0 to 1."""
    left, top = rng.uniform(0.05, 0.6), rng.uniform(0.05, 0.6)
    gold = [round(side, 4) for side in (left, top, left + 0.2, top + 0.1)]
    hit = rng.random() < 0.6
    x, y = (f"{left + (0.1 if hit else 0.3):.3f}", f"{top + 0.05:.3f}")
    forms = {
        "brackets": f"[{x}, {y}]",
        "round brackets": f"({x}, {y})",
        "click": f"pyautogui.click(x={x}, y={y})",
        "sentence": f"Click at ({x}, {y}).",
        "point tag": f'<point x="{x}" y="{y}">button</point>',
        "json": f'{{"x": {x}, "y": {y}}}',
        "bare": f"{x}, {y}",
        "box": f"[{float(x) - 0.02:.3f}, {float(y) - 0.02:.3f}, {float(x) + 0.02:.3f}, {float(y) + 0.02:.3f}]",
        "number before it": f"Of the 2 buttons click the one at [{x}, {y}].",
        "thinks first": f"[0.990, 0.990] is the clock. I click [{x}, {y}].",
        "percent": f"[{float(x) * 100:.1f}%, {float(y) * 100:.1f}%]",
        "nothing": "The button on the left.",
    }
    form = rng.choice(list(forms))
    meant = gold[0] <= float(x) <= gold[2] and gold[1] <= float(y) <= gold[3] and form != "nothing"
    return Case(form, forms[form], str(gold), meant)


def reading(rng: random.Random) -> Case:
    if rng.random() < 0.3:
        gold = rng.choice((r"\frac { a } { b }", "x ^ { 2 } + 1", "3 + 4 = 7"))
        forms = {
            "as it is": gold,
            "no blanks": gold.replace(" ", ""),
            "dollars": f"${gold}$",
            "capitals": gold.upper(),
            "another": "y",
        }
        form = rng.choice(list(forms))
        return Case(
            f"HME100k: {form}",
            forms[form],
            gold,
            form not in {"capitals", "another"} or forms[form] == gold,
        )
    gold = rng.choice(("on", "STOP", "$5.00", "Café", "12 May"))
    forms = {
        "as it is": gold,
        "sentence": f"It reads {gold} here.",
        "capitals": gold.upper(),
        "line break": f"It\n{gold}",
        "inside a word": f"x{gold}x",
        "another": "front",
        "full width": "".join(
            chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" else sign for sign in gold
        ),
    }
    form = rng.choice(list(forms))
    return Case(f"text: {form}", forms[form], gold, form not in {"another", "inside a word"})


def votes(rng: random.Random) -> Case:
    pool = (
        "yes",
        "2",
        "two",
        "The dog",
        "a dog.",
        "it's",
        "dont",
        "light-blue",
        "1,000",
        "Yes ",
        "none",
    )
    first = rng.choice(pool)
    answers = tuple(first if rng.random() < 0.6 else rng.choice(pool) for _ in range(10))
    agree = rng.random() < 0.2
    answers = (first,) * 10 if agree else answers
    reply = rng.choice(
        (first, rng.choice(pool), first.capitalize() + ".", f"the {first}", first.upper())
    )
    kind = (
        "all annotators agree"
        if len({answer.strip() for answer in answers}) == 1
        else "annotators differ"
    )
    return Case(kind, reply, "", None, answers)
