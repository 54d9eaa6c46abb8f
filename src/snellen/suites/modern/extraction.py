"""How the makers of today's benchmarks read replies, faults included, for their published numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snellen.extraction.reading import (
    ExtractedChoice,
    NamedExtractor,
    labels_alone,
    no_choice,
    published_rule,
    texts_alone,
)
from snellen.metrics.numbers import parsed_expressions
from snellen.metrics.ocr import edit_distance

_LETTER = re.compile(r"\(([A-Za-z])\)")
_WORD = re.compile(r"\w")
_BOXED = re.compile(r"oxed\{(.*)\}", re.DOTALL)
_NO_NUMBER = re.compile(r"\\(?!frac|sqrt|pi|cdot|times)[a-z]+|(?<![\\a-z])[a-z]|[^\x00-\x7f]")
_MATHVISION_LETTERS = "ABCDE"
_MATHVISION_PHRASES = (
    "the final answer is",
    "the answer is",
    "the correct answer is",
    "the answer should be",
)
_DROPPED = (
    "\\left",
    "\\right",
    "\\text",
    "\\mbox",
    "\\,",
    "\\!",
    "^{\\circ}",
    "^\\circ",
    "$",
    " ",
    "\n",
)


def _single_letters(labels: Sequence[str]) -> str:
    """Return what a rule that reads only one-letter labels cannot do with the labels that were shown; empty if
    nothing.
    """
    if all(len(label) == 1 and label.isalpha() for label in labels):
        return labels_alone(labels)
    return "finds labels of one letter alone, and others were shown"


def mathvista_choice(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Read a choice by MathVista's rule, for short answers that a judge has extracted from replies.

    The first letter in parentheses, or a letter that is the whole text, names an option. For any other text, the
    option with the smallest edit distance is chosen, however different it is: "No answer" chooses one, too. Source:
    evaluation/calculate_score.py of lupantech/MathVista.
    """
    if not options:
        return no_choice("no match")
    text = reply.strip()
    letters = list(labels[: len(options)])
    in_parentheses = _LETTER.search(text)
    if in_parentheses:
        text = in_parentheses[1].upper()
        letters = [letter.upper() for letter in letters]
    if text in letters:
        place = letters.index(text)
        return ExtractedChoice(place, "label", "certain", follows_format=True)
    distances = [edit_distance(text, option) for option in options]
    return ExtractedChoice(distances.index(min(distances)), "own rule", "certain")


MATHVISTA = NamedExtractor("mathvista", published_rule(mathvista_choice), _single_letters)


def mmstar_choice(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Read a choice by MMStar's rule: the reply must begin with a letter, which may follow `(`, `option ` or `the
    answer is `.

    Upper or lower case does not matter, and whatever follows the letter is ignored, so that "a bird" chooses option
    A. The reply counts as following the requested format only if nothing but signs comes after the letter, or if
    the letter is a word of its own and has the case of the label. Source: eval/vlmeval/evaluate/mmstar.py of
    MMStar-Benchmark/MMStar.
    """
    stripped = reply.strip()
    text = stripped.casefold()
    letters = [label.casefold() for label in labels[: len(options)]]
    for opening in ("", "(", "option ", "the answer is "):
        if not text.startswith(opening):
            continue
        letter = text[len(opening) : len(opening) + 1]
        if letter not in letters:
            continue
        place = letters.index(letter)
        rest = text[len(opening) + 1 :]
        is_word = not rest[:1].isalnum()
        is_as_shown = stripped[len(opening) :].startswith(labels[place])
        is_last = not _WORD.search(rest)
        return ExtractedChoice(
            place,
            "own rule",
            "certain",
            follows_format=is_last or (is_word and is_as_shown),
        )
    return no_choice("no match")


MMSTAR = NamedExtractor("mmstar", published_rule(mmstar_choice), _single_letters)


def mathvision_choice(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    r"""Read a choice by MATH-V's rule: the answer in a reply (`mathvision_answer`) is a letter, or equals an option.

    It equals an option as a text, or as a number rounded to two decimals. Units are not understood: `8 kg` equals
    neither the option `$8 \mathrm{~kg}$` nor `8`. `(D) 105` is not a letter. Source: evaluation/evaluate.py of
    mathllm/MATH-V.
    """
    answer = mathvision_answer(reply)
    letters = [label.casefold() for label in labels[: len(options)]]
    if answer in letters:
        place = letters.index(answer)
        return ExtractedChoice(place, "label", "certain", follows_format=True)
    number = _number(answer)
    for place, option in enumerate(options):
        text = option.casefold().strip()
        same_number = number is not None and number == _number(text)
        if answer and (answer == text or same_number):
            return ExtractedChoice(place, "own rule", "certain")
    return no_choice("no match")


def mathvision_answer(reply: str) -> str:
    r"""Return the final answer in a reply as MATH-V's script finds it, in lower case.

    It is a letter at the beginning or end of the reply, or else what stands in `\boxed{...}`, or what follows a
    phrase such as "the answer is". If there is none of these, it is the whole reply.

    Examples:
        >>> mathvision_answer("So the answer is \\boxed{D}.")
        'd'
        >>> mathvision_answer("(D) 105")
        'd105'
    """
    text = reply.strip()
    for letter in _MATHVISION_LETTERS:
        is_last = text.endswith((f" {letter}.", f" ({letter})."))
        is_first = text.startswith((f"{letter}\n", f"({letter})\n", f"({letter}) {letter}\n"))
        if is_last or is_first:
            text = letter
    behind_is = text.split("is ")[-1].rstrip(".")
    if re.fullmatch(r"\s*[-+]?\d+(\.\d+)?\s*", behind_is):
        text = behind_is
    if "oxed{" in text:
        text = "\\boxed{" + text.split("oxed{")[-1]
    else:
        for phrase in _MATHVISION_PHRASES:
            for form in (phrase, phrase.capitalize()):
                if form in text:
                    text = text.split(form)[-1].strip().split("\n")[0].split(". ")[0]

    text = text.lower().replace("{}", "")
    boxed = _BOXED.findall(text)
    if boxed:
        text = boxed[-1]
    # Cut off at a closing brace that was not opened.
    before_closing, closing_brace, _ = text.partition("}")
    if closing_brace and "{" not in before_closing:
        text = before_closing
    text = text.split("=")[-1].split("\\approx")[-1]
    for dropped in _DROPPED:
        text = text.replace(dropped, "")
    text = re.sub(r"[({]([a-e])[)}]", r"\1", text)
    return text.rstrip(".").lstrip(":").strip()


def _number(text: str) -> float | None:
    """Return the value of a number, or of a formula without variables and units, rounded to two decimals.

    Returns:
        The value: 0.5 for `\frac{1}{2}`, for example. None if the text is neither, or if its value is not real.
    """
    text = text.replace("$", "").strip()
    if not re.search(r"\d", text) or _NO_NUMBER.search(text):
        return None
    try:
        return round(float(text), 2)
    except ValueError:
        pass
    parsed = parsed_expressions(f"${text}$")
    if not parsed or not getattr(parsed[0], "is_number", False):
        return None
    return round(float(parsed[0]), 2) if parsed[0].is_real else None


def _first_five_letters(labels: Sequence[str]) -> str:
    others = {label.upper() for label in labels} - set(_MATHVISION_LETTERS)
    if others:
        return "finds a label in parentheses from A to E alone, and others were shown"
    return labels_alone(labels)


MATHVISION = NamedExtractor("mathvision", published_rule(mathvision_choice), _first_five_letters)


def exact_text(reply: str, options: Sequence[str], labels: Sequence[str]) -> ExtractedChoice:
    """Read a choice by A-OKVQA's rule: the whole reply must be equal to the text of an option.

    Source: evaluation/eval_predictions.py of allenai/aokvqa.
    """
    del labels
    if reply in options:
        return ExtractedChoice(list(options).index(reply), "own rule", "certain")
    return no_choice("no match")


EXACT_TEXT = NamedExtractor("exact-text", published_rule(exact_text), texts_alone)
