"""Find which option an answer names: by its label, its text, both, its number, or words that only this option has.

Used for right answers in tables and predictions, for options listed in prompts, and for answers
that an evaluation harness read in replies.
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
"""The fewest characters of an answer that may name an option by the beginning of a word: `Under` for `Underneath`."""


def bare_label(text: str) -> str:
    """Return the letter that a text consists of, as a capital: `B` for `(b)` or `b.`; empty for any other text."""
    letter = text.strip(_SIGNS).upper()
    return letter if len(letter) == 1 and letter in LETTERS else ""


def label_of(text: str) -> str:
    """Return the label that a text is or begins with: `B` for `(b)` and `B. a dog`, `2` for `Option 2: a dog`.

    The text is empty if there is no label.
    """
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
        options: The texts of the options.
        form: How the answer names an option. `any` tries in this order: a label alone (`B`), the
            text, the index from 0 if the answer is a JSON number, and a label with brackets or more
            words (`(b)`, `B. a dog`). A number that is the text of an option means that option.
        labels: The labels that were shown with the options; letters from A if empty.
        columns: Names of the options' columns. An answer may be such a name (`option_b`).
        in_words: Whether a part of an option's text is enough, if no other option has it (`left`
            for "to the left"). The part may also be the beginning of a word.

    Returns:
        The index from 0; None if the answer names no option, or several.

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
    """Return the index of the option whose column has the name that an answer gives, such as `option_b`.

    None if no column has this name, or if it is a single letter, which is read as a label.
    """
    name = folded_name(text)
    if len(name) < 2:
        return None
    names = [folded_name(column) for column in columns[: len(options)]]
    return names.index(name) if name in names else None


def _by_label(text: str, options: Sequence[str], labels: Sequence[str]) -> int | None:
    """Return the index of the option whose label a text is or begins with; None if no label fits.

    A number written like a label (`(2)`, `Option 2`) counts from 1.
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
    """Return the index of the only option with this text; None if there is none, or several.

    Texts are compared as they are and, if that finds nothing, without differences of capitals,
    spaces and a final full stop.
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
    """Return the index of the only option that contains a text as whole words; None if there is none, or several.

    If no option does, the text may be the beginning of a word (`Under` for `Underneath`). A letter
    or a small number is not looked for, because it may be a label or an index: 1 need not mean `1
    cat`.
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
