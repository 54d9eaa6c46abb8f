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
    """Return the index of the column that an answer names, if its name is longer than a letter; otherwise None."""
    name = folded_name(text)
    if len(name) < 2:
        return None
    names = [folded_name(column) for column in columns[: len(options)]]
    return names.index(name) if name in names else None


def _by_label(text: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Return the index of the option whose label a text is or begins with; None if there is none.

    A number that is written like a label (`(2)`, `Option 2`) counts from 1.
    """
    shown_labels = list(labels) or list(LETTERS[: len(options)])
    label = text if text in shown_labels else label_of(text)
    if label in shown_labels:
        return shown_labels.index(label)
    if label == text or not label.isdecimal():
        return None
    number = int(label)
    return number - 1 if 1 <= number <= len(options) else None


def _by_text(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the only option with this text, as it is or else without what toolkits change.

    None if there is none, or several.
    """
    for simplify in (str.strip, folded):
        simple_text = simplify(text)
        matches = []
        for index, option in enumerate(options):
            if simplify(unicodedata.normalize("NFKC", option)) == simple_text:
                matches.append(index)
        if len(matches) == 1:
            return matches[0]
    return None


def _by_index(text: str, options: Sequence[str], first: int = 0) -> int | None:
    match = _WHOLE_NUMBER.fullmatch(text)
    if match is None:
        return None
    place = int(match[1]) - first
    return place if 0 <= place < len(options) else None


def _by_words(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the only option that has some words, or a word that begins with them; otherwise None.

    A letter or a number that may be an index does not count as a word: 1 need not mean `1 cat`.
    """
    folded_text = folded(text)
    number = whole_number(folded_text)
    may_be_index = number is not None and number <= len(options)
    if not folded_text or may_be_index or bare_label(folded_text):
        return None
    # With a space on both sides, a text is only found at the borders of words.
    padded_options = [f" {folded(option)} " for option in options]
    matches = [i for i, option in enumerate(padded_options) if f" {folded_text} " in option]
    if not matches and len(folded_text) >= SHORTEST_BEGINNING:
        matches = [i for i, option in enumerate(padded_options) if f" {folded_text}" in option]
    return matches[0] if len(matches) == 1 else None
