"""Which option an answer names: by its label, its text, both, its number, or words that one option alone has.

Right answers of tables, of prompts' lists and of predictions, options that a row shows, and what a harness read in a reply
are all looked up here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from snellen.common.answer_forms import AnswerForm
from snellen.formats.delimited import LETTERS
from snellen.recognition.folding import as_text, folded, folded_name, whole_number

LABEL_NOUNS = "option|choice|sentence|caption|statement|description|candidate"
"""What prompts call an option before its letter or number: `Sentence A: ...`, `Option 2: ...`."""
_SIGNS = "()[].:、， "
"""Signs around a label: `(A)`, `A.`, `[B]:`."""
_LABEL_BEFORE_TEXT = re.compile(
    rf"(?:(?i:{LABEL_NOUNS}) )([A-Za-z1-9])[).:]\s*\S.*"  # Option 2: a dog
    r"|[(\[]?([A-Za-z])[)\].:]+\s+\S.*"  # b) a dog
    r"|[(\[]?([A-Z])[)\].:]+(?:[^\sA-Z]|[A-Z][a-z]).*",  # B.dog, but not D.C.
    re.DOTALL,
)
_WHOLE_NUMBER = re.compile(r"(\d{1,4})(?:\.0+)?")
SHORTEST_BEGINNING = 4
"""Characters of an answer that may be the beginning of a word of its option: `Under` for `Underneath`."""


def bare_label(text: str) -> str:
    """The capital letter that a text is, with or without signs around it (`(b)`); empty for any other text."""
    letter = text.strip(_SIGNS).upper()
    return letter if len(letter) == 1 and letter in LETTERS else ""


def label_of(text: str) -> str:
    """The label that a text is, or that stands before more words (`B. a dog`, `Option 2: a dog`); empty for others."""
    label = bare_label(text)
    if label:
        return label
    match = _LABEL_BEFORE_TEXT.fullmatch(text.strip())
    if match is None:
        return ""
    return (match[1] or match[2] or match[3]).upper()


def named_option(
    answer: Any,
    options: Sequence[str],
    form: AnswerForm = "any",
    *,
    labels: Sequence[str] = (),
    columns: Sequence[str] = (),
    in_words: bool = False,
) -> int | None:
    """Return the index of the option that an answer names.

    Args:
        answer: A text, a number, or a list with one of these.
        options: Texts of the options.
        form: How the answer names one. `any` tries them in this order: a bare label (`B`), the text, the index from 0 if
            the answer is a JSON number, and a label with signs or words (`(b)`, `B. a dog`). A number that is the text of
            an option is that text.
        labels: What was shown before the options; letters from A if empty.
        columns: Names of the options' columns, which an answer may be, too (`option_b`).
        in_words: Whether words may name the only option that has them (`left` for "to the left"), or a word of which
            begins so.

    Returns:
        None if the answer names no option, or several.

    Examples:
        >>> options = ["a cat", "a dog to the left"]
        >>> named_option("B", options), named_option("(b) a dog", options), named_option("A cat.", options)
        (1, 1, 0)
        >>> named_option(1, options), named_option("1", options, "index1")
        (1, 0)
        >>> named_option("left", options), named_option("left", options, in_words=True)
        (None, 1)
    """
    if isinstance(answer, list) and len(answer) == 1:
        [answer] = answer
    text = unicodedata.normalize("NFKC", as_text(answer)).strip()
    match form:
        case "letter":
            place = _by_column(text, columns, options)
            return _by_label(text, options, labels) if place is None else place
        case "text":
            return _by_text(text, options)
        case "index0":
            return _by_index(text, options)
        case "index1":
            return _by_index(text, options, first=1)

    by_text = _by_text(text, options)
    is_bare_label = text in (labels or list(LETTERS[: len(options)]))
    if is_bare_label and not (text.isdecimal() and by_text is not None):
        return _by_label(text, options, labels)
    if by_text is not None:
        return by_text
    if isinstance(answer, int) and not isinstance(answer, bool):
        return _by_index(text, options)
    by_label = _by_label(text, options, labels)
    if by_label is None and in_words:
        return _by_words(text, options)
    return by_label


def _by_column(text: str, columns: Sequence[str], options: Sequence[str]) -> int | None:
    """The place of the column that an answer is called like, if its name is longer than a letter."""
    name = folded_name(text)
    names = [folded_name(column) for column in columns[: len(options)]]
    return names.index(name) if len(name) > 1 and name in names else None


def _by_label(text: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    shown = list(labels) or list(LETTERS[: len(options)])
    label = text if text in shown else label_of(text)
    if label in shown:
        return shown.index(label)
    is_number_of_one = label.isdecimal() and 1 <= int(label) <= len(options)
    return int(label) - 1 if is_number_of_one and label != text else None


def _by_text(text: str, options: Sequence[str]) -> int | None:
    """The only option with this text; as it is, or else without what toolkits change."""
    for shape in (str.strip, folded):
        wanted = shape(text)
        places = [
            place
            for place, option in enumerate(options)
            if shape(unicodedata.normalize("NFKC", option)) == wanted
        ]
        if len(places) == 1:
            return places[0]
    return None


def _by_index(text: str, options: Sequence[str], first: int = 0) -> int | None:
    match = _WHOLE_NUMBER.fullmatch(text)
    if match is None:
        return None
    place = int(match[1]) - first
    return place if 0 <= place < len(options) else None


def _by_words(text: str, options: Sequence[str]) -> int | None:
    """The only option that has some words, or a word that begins so.

    A letter or a number that may be a place is no such word: 1 need not mean `1 cat`.
    """
    words = folded(text)
    number = whole_number(words)
    may_be_place = number is not None and number <= len(options)
    if not words or may_be_place or bare_label(words):
        return None
    padded = [f" {folded(option)} " for option in options]
    containing = [place for place, option in enumerate(padded) if f" {words} " in option]
    if not containing and len(words) >= SHORTEST_BEGINNING:
        containing = [place for place, option in enumerate(padded) if f" {words}" in option]
    return containing[0] if len(containing) == 1 else None
