"""The type of open questions, told by their right answers: yes or no, classes, numbers, boxes, VQA, captions, texts.

A type brings the metrics that compare its answers. Answers that are few classes make a question of choice among them.
Yes and no in English are not options to show: such questions stay open, and the metric `pope` reads their replies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal

from msgspec import Struct

from snellen.recognition.folding import word_count

AnswerKind = Literal[
    "yes-no",
    "classes",
    "number",
    "expression",
    "box",
    "list",
    "vqa",
    "caption",
    "text",
    "long text",
]

YES_NO = (
    ("yes", "no"),
    ("true", "false"),
    ("y", "n"),
    ("是", "否"),
    ("ja", "nein"),
    ("oui", "non"),
    ("sí", "no"),
    ("да", "нет"),
    ("是的", "不是"),
    ("对", "错"),
    ("对", "不对"),
    ("有", "没有"),
    ("正确", "错误"),
    ("はい", "いいえ"),
    ("예", "아니오"),
    ("네", "아니요"),
    ("نعم", "لا"),
    ("có", "không"),
    ("đúng", "sai"),
    ("हाँ", "नहीं"),
    ("हां", "नहीं"),
    ("ใช่", "ไม่ใช่"),
    ("ya", "tidak"),
    ("evet", "hayır"),
    ("sim", "não"),
    ("sì", "no"),
    ("tak", "nie"),
)
"""Pairs of answers that are yes and no."""
SHARE = 0.98
"""Questions have a type if the answers of at least this share of them are of it."""
MOST_CLASSES = 5
FEWEST_PER_CLASS = 5
"""The fewest questions that have the same class as their answer."""
LONGEST_CLASS = 3
"""The most words of a class."""
ANNOTATORS = 10
FEWEST_ANNOTATORS = 4
"""If nearly all questions have at least this many answers, these come from several annotators (VQA has ten)."""
CAPTION_WORDS = 5
"""The fewest words of captions, on average."""
LONG_TEXT_WORDS = 15
"""Answers are explanations, which no reply repeats, if half of them have at least this many words."""
LETTERS_IN_PROSE = 0.6
"""The share of the characters of explanations that are letters, at least; lists and JSON objects have fewer."""
_SOLUTION_END = re.compile(r"^#{4}\s*(\S.*?)\s*$", re.MULTILINE)
"""The last line of a worked solution of GSM8K: `#### 42`."""
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_TAGGED = re.compile(r"<answer>\s*(.*?)\s*</answer>", re.DOTALL | re.IGNORECASE)
EXPRESSIONS = 0.1
"""The share of mathematical answers that are expressions in LaTeX, at least; the others are numbers."""
_LATEX = re.compile(
    r"\\(?:frac|dfrac|sqrt|pi|times|cdot|text|infty|left|log|sin|cos|pm|cup|in)\b|\^"
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?%?")
_BOX = re.compile(r"\s*[\[(][\d.,\s\[\]()-]+[\])]\s*")


class AnswerType(Struct, frozen=True):
    """The type of the open questions of a file."""

    kind: AnswerKind
    classes: tuple[str, ...] = ()
    """The answers to choose from, in order; empty unless there are few."""
    metrics: tuple[str, ...] = ()
    """The metrics that compare such answers, the headline first; empty for classes."""
    why: str = ""
    """What the answers are, for one line about how the file is read."""


TEXT = AnswerType(
    "text", metrics=("typed_match", "exact_match", "contains_answer", "word_accuracy"), why="texts"
)
"""Replies are often sentences, which an exact match never accepts."""
LONG_TEXT = AnswerType("long text", metrics=("rouge_l", "typed_match"), why="long texts")
"""ROUGE-L counts words that reply and answer share; a judge says whether they mean the same."""
LIST = AnswerType("list", metrics=("exact_match", "typed_match"), why="lists of numbers")
EXPRESSION = AnswerType(
    "expression", metrics=("math_accuracy", "typed_match"), why="mathematical expressions"
)
YES_OR_NO = AnswerType("yes-no", metrics=("pope", "typed_match"), why="yes or no")


def answer_type(references: Sequence[Sequence[str]]) -> AnswerType:
    """Return the type of the questions of a file, by the accepted answers of each question.

    Args:
        references: For each question, its accepted answers. Questions without any do not count.

    Returns:
        The type that fits nearly all questions; `TEXT` if no other type does.

    Examples:
        >>> answer_type([("left",), ("Right",)] * 5).classes
        ('left', 'Right')
        >>> answer_type([("3",), ("12",), ("1,200",)]).kind
        'number'
    """
    answered = [texts for texts in references if texts]
    if not answered:
        return TEXT
    firsts = [texts[0].strip() for texts in answered]
    counts = Counter(_folded(text) for text in firsts)
    pair = _yes_no(counts)
    if pair == ("yes", "no"):
        return YES_OR_NO
    if pair is not None:
        return AnswerType("yes-no", _as_written(pair, firsts), why=" or ".join(pair))

    has_annotators = _share(len(texts) >= FEWEST_ANNOTATORS for texts in answered) >= SHARE
    if has_annotators:
        n_words = 0
        n_texts = 0
        for texts in answered:
            n_words += sum(len(text.split()) for text in texts)
            n_texts += len(texts)
        if n_words / n_texts >= CAPTION_WORDS:
            return AnswerType("caption", metrics=("cider", "rouge_l"), why="captions")
        why = "answers of annotators"
        if len(answered[0]) == ANNOTATORS:
            why = f"{ANNOTATORS} {why}"
        return AnswerType("vqa", metrics=("vqa_accuracy", "typed_match"), why=why)

    lists_of_numbers = [text for text in firsts if _BOX.fullmatch(text)]
    n_boxes = sum(len(_figures(text)) == 4 for text in lists_of_numbers)
    if n_boxes / len(firsts) >= SHARE:
        return AnswerType("box", metrics=("boxes",), why="boxes")
    if len(lists_of_numbers) / len(firsts) >= SHARE:
        return LIST
    if _share(_NUMBER.fullmatch(text) is not None for text in firsts) >= SHARE:
        return AnswerType("number", metrics=("number_accuracy", "typed_match"), why="numbers")
    share_in_latex = _share(_LATEX.search(text) is not None for text in firsts)
    if share_in_latex >= EXPRESSIONS and _share(map(_is_mathematical, firsts)) >= SHARE:
        return EXPRESSION
    classes = _classes(counts)
    if classes:
        return AnswerType("classes", _as_written(classes, firsts), why=f"{len(classes)} classes")
    if median(map(word_count, firsts)) >= LONG_TEXT_WORDS and _are_prose(firsts):
        return LONG_TEXT
    return TEXT


def final_answer(solution: str) -> str:
    """Return the answer that a worked solution ends in: behind `####`, in its last `\\boxed{}` or tag; else the text.

    Examples:
        >>> final_answer("Half of 84 is 84 / 2 = <<84/2=42>>42.\\n#### 42")
        '42'
    """
    for ending in (_SOLUTION_END, _BOXED, _TAGGED):
        answers: list[str] = ending.findall(solution)
        if answers and answers[-1].strip():
            return answers[-1].strip()
    return solution


def _are_prose(texts: Sequence[str]) -> bool:
    """Return whether texts are sentences, and not mostly JSON objects, lists of numbers or programs."""
    n_characters = 0
    n_letters = 0
    for text in texts:
        n_characters += len("".join(text.split()))
        n_letters += sum(character.isalpha() for character in text)
    share_in_brackets = _share(text.startswith(("{", "[")) for text in texts)
    return n_letters >= LETTERS_IN_PROSE * n_characters and share_in_brackets < 1 - SHARE


def _folded(text: str) -> str:
    return text.strip().casefold().rstrip(".!").strip()


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values)


def _is_mathematical(text: str) -> bool:
    """Return whether an answer is a number, an expression, or a letter or two that may be variables."""
    if len(text) < 3 or _LATEX.search(text) is not None:
        return True
    has_digit = any(character.isdigit() for character in text)
    return has_digit and len(text.split()) < 10


def _figures(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


def _yes_no(folded: Counter[str]) -> tuple[str, str] | None:
    """Return the pair of words for yes and no to which all answers belong, such as true and false; else None.

    Questions of a small file may all be answered alike. One word of a pair is then enough if it is
    yes or true.
    """
    for pair in YES_NO:
        if not folded.keys() <= set(pair):
            continue
        has_both = len(folded) == 2
        if has_both or pair[0] in ("yes", "true"):
            return pair
    return None


def _classes(folded: Counter[str]) -> tuple[str, ...]:
    """Return the different answers if they are classes; else empty.

    Classes are two to five short texts, each the answer of several questions.
    """
    if not 2 <= len(folded) <= MOST_CLASSES:
        return ()
    if min(folded.values()) < FEWEST_PER_CLASS:
        return ()
    for text in folded:
        is_word = len(text) > 1 and not _NUMBER.fullmatch(text)
        if not is_word or len(text.split()) > LONGEST_CLASS:
            return ()
    return tuple(sorted(folded))


def _as_written(classes: Sequence[str], texts: Sequence[str]) -> tuple[str, ...]:
    """Return the classes as the answers of a file write them most often.

    Args:
        classes: The classes in small letters, without punctuation.
        texts: The answers.
    """
    spellings: dict[str, Counter[str]] = {name: Counter() for name in classes}
    for text in texts:
        spelling = text.strip().rstrip(".!").strip()
        spellings[_folded(text)][spelling] += 1
    written = []
    for name, counts in spellings.items():
        most_common = counts.most_common(1)
        written.append(most_common[0][0] if most_common else name)
    return tuple(written)
