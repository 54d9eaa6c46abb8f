"""Read right answers that consist of several values.

A question may have several right options, or a list as its answer, or alternatives of which any one
is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from snellen.common.answer_forms import AnswerForm
from snellen.formats.delimited import LETTERS
from snellen.formats.listed_cells import listed
from snellen.interchange.predictions.rows import is_number
from snellen.interchange.predictions.shown_options import ShownOptions
from snellen.recognition.folding import as_text, folded, whole_number
from snellen.recognition.named_option import bare_label, named_option

_BETWEEN = r"\s*(?:,|;|&|/|\band\b)?\s*"
_LETTERS = re.compile(rf"\(?([A-Z])\)?(?:{_BETWEEN}\(?[A-Z]\)?)*\.?")
"""A text that is only letters of options: `AC`, `A, C`, `(A) and (C)`."""
_ANNOUNCED = re.compile(
    rf"(?:answers?|options?|choices?)\b[^A-Z\n]{{0,12}}(\(?[A-Z]\)?(?:{_BETWEEN}\(?[A-Z]\)?)*)(?![a-z])"
)
_LIST = re.compile(r"\[[^\[\]]*\]")
MOSTLY = 0.9
"""Share of the rows whose right answers and replies have to be lists."""
ListKind = Literal["", "items", "set", "whole"]


def places_named(cell: Any, shown: ShownOptions, form: AnswerForm = "any") -> tuple[int, ...]:
    """Return the indices of all options that a cell names, sorted.

    The result is empty if any part of the cell names no option, and if the whole cell is the text
    of a single option.

    Args:
        cell: A text such as `A, C`, or a list such as `["A", "C"]`.
        shown: The options that the row showed.
        form: How right answers of the table name options. With `index1`, numbers in a list count
            from 1.

    Examples:
        >>> places_named("A, C", ShownOptions(("a cat", "a dog", "a car")))
        (0, 2)
    """
    values = listed(cell) if isinstance(cell, list) or str(cell).strip().startswith("[") else None
    if values is None:
        text = as_text(cell).strip()
        if named_option(text, shown.options, "text") is not None:
            return ()
        if not _LETTERS.fullmatch(text):
            return _joined_options(text, shown.options)
        values = re.findall(r"\b[A-Z]\b|[A-Z]", text.replace("and", " "))
    first = 1 if form == "index1" or len(shown.options) in values else 0
    places: set[int] = set()
    for value in values:
        number = whole_number(as_text(value))
        place = named_option(value, shown.options, labels=shown.labels, in_words=True)
        if number is not None and isinstance(value, int):
            place = number - first
        if place is None or not 0 <= place < len(shown.options):
            return ()
        places.add(place)
    return tuple(sorted(places))


_SIGNS_BETWEEN_OPTIONS = re.compile(r"(?:[\s,;|&/]|\band\b)*")


def _joined_options(text: str, options: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the options in a text that consists of several of them: `a cat and a dog`.

    The options may be separated by signs or `and`. The result is empty if the text names fewer than
    two options, or has any other words. Options may contain commas, so longer ones are looked for
    first.
    """
    rest = folded(text)
    places: list[int] = []
    for place in sorted(range(len(options)), key=lambda place: -len(options[place])):
        option = folded(options[place])
        found = re.search(rf"(?<!\w){re.escape(option)}(?!\w)", rest) if option else None
        if found is not None:
            rest = f"{rest[: found.start()]} {rest[found.end() :]}"
            places.append(place)
    is_whole = _SIGNS_BETWEEN_OPTIONS.fullmatch(rest) is not None
    return tuple(sorted(places)) if len(places) > 1 and is_whole else ()


def letters_of(places: Iterable[int]) -> str:
    """Return the letters of options by their indices, as one word: `AC` for 0 and 2."""
    return "".join(LETTERS[place] for place in places)


def letters_in_reply(reply: str, shown: ShownOptions, form: AnswerForm = "any") -> str:
    """Return the letters of the options that a reply names, as one word: `AC` for `The answers are A and C`.

    A reply in which no option can be recognised is returned as it is.
    """
    announced = _ANNOUNCED.findall(reply)
    lines = reply.strip().splitlines() or [""]
    for text in (reply, *announced[-1:], lines[-1]):
        places = places_named(text, shown, form)
        if not places:
            place = named_option(text, shown.options, labels=shown.labels, in_words=True)
            places = () if place is None else (place,)
        if places:
            return letters_of(places)
    return reply


def list_in_answer(cell: Any) -> tuple[str, ...]:
    """Return the values of a list as texts. In a text, the last list in brackets counts.

    The result is empty if there is no list, or if it has lists, objects or missing values in it.
    """
    if isinstance(cell, str):
        lists = _LIST.findall(cell)
        cell = lists[-1] if lists else ""
    values = listed(cell) if cell else None
    if not values or any(isinstance(value, (list, dict)) or value is None for value in values):
        return ()
    return tuple(as_text(value).strip() for value in values)


def is_list(cell: Any) -> bool:
    """Return whether a cell is a list, or a text that spells one in brackets: `[1, 2]`."""
    is_in_brackets = isinstance(cell, str) and cell.strip().startswith("[")
    return (isinstance(cell, list) or is_in_brackets) and listed(cell) is not None


def is_bare_list(cell: Any) -> bool:
    """Return whether a cell is a list without quoted texts, such as `[2014, 2016]`.

    Examples:
        >>> is_bare_list("[2014, 2016]"), is_bare_list([2014, 2016]), is_bare_list("['exit', 'way out']")
        (True, True, False)
    """
    if isinstance(cell, list):
        return not any(isinstance(value, str) for value in cell)
    return is_list(cell) and "'" not in cell and '"' not in cell


_PLURALS = frozenset("answer label gold target reference truth gt response solution alias".split())
"""Names of columns of right answers. In the plural, such as `answers`, a cell may hold several accepted ones."""


def is_plural(name: str) -> bool:
    """Return whether the name of a column is a plural for right answers, so that a cell may hold several of them.

    Args:
        name: The name in small letters, with underscores between words.

    Examples:
        >>> is_plural("gt_answers"), is_plural("answer"), is_plural("class")
        (True, False, False)
    """
    return any(
        word in ("aliases", "alternatives") or (word.endswith("s") and word[:-1] in _PLURALS)
        for word in name.split("_")
    )


def kind_of_lists(answers: Iterable[tuple[Any, Any]]) -> ListKind:
    """Return what it means that right answers and replies of a file are lists.

    Lists of letters answer one question per item, and so do lists in which a few values recur, such
    as the 0s and 1s of a whole test set. Other lists of numbers, such as coordinates, are one
    answer. Lists of labels are compared as sets if this fits the replies: many of them have exactly
    the labels of the right answer. Other lists are alternatives, of which a reply gives one.

    Args:
        answers: The right answer and the reply of each row.

    Returns:
        `items` if each item answers a question of its own, `whole` if a list is one answer, `set`
        if it is one answer in which the order does not count; empty if lists are alternatives, or
        if there are no lists of several values.
    """
    rows = 0
    letters = 0
    numbers = 0
    several = 0
    n_equal = 0
    n_equal_several = 0
    n_of_one_length = 0
    n_values = 0
    values: set[str] = set()
    lengths: set[int] = set()
    for gold_cell, reply_cell in answers:
        if reply_cell in (None, "", []):
            continue  # a row without a reply tells nothing
        rows += 1
        gold, reply = list_in_answer(gold_cell), list_in_answer(reply_cell)
        if not gold or not reply:
            continue
        several += len(gold) > 1
        n_of_one_length += len(gold) == len(reply)
        n_values += len(gold)
        values.update(gold)
        are_labels = isinstance(gold_cell, list) and isinstance(reply_cell, list)
        is_equal = are_labels and set(map(folded, gold)) == set(map(folded, reply))
        n_equal += is_equal
        n_equal_several += is_equal and len(set(map(folded, gold))) > 1
        lengths.add(len(reply))
        letters += all(bare_label(value) for value in (*gold, *reply))
        numbers += len(gold) > 1 and all(map(is_number, (*gold, *reply)))
    if not several:
        return ""
    do_values_recur = FEWEST_PER_VALUE * len(values) * rows <= n_values
    if letters > MOSTLY * rows or (do_values_recur and n_of_one_length > MOSTLY * rows):
        return "items"
    if numbers > MOSTLY * rows:
        return "whole"
    are_often_equal = n_equal > EQUAL_SETS * rows
    # Several replies to one question seldom are all of its accepted answers.
    are_mostly_equal = n_equal_several > 0.5 * rows
    return "set" if are_mostly_equal or (are_often_equal and len(lengths) > 1) else ""


FEWEST_PER_VALUE = 5
"""Values recur in lists if each list has them this many times on average."""
EQUAL_SETS = 0.2
"""Lists of labels are sets only if right answer and reply have the same labels in more than this share of the rows."""


# --- alternatives in one cell ----------------------------------------------------------------------------------------

_SIGNS = ("|", ";")
FEWEST_MET = 3
"""The parts between signs are alternatives if at least this many replies are equal to one of their parts."""


def sign_between_alternatives(answered: Iterable[tuple[str, str]]) -> str:
    """Return the sign that separates accepted answers in one cell, `|` or `;`; empty if there is none.

    At least three replies must be one of the parts between such signs, and no reply may contain the
    sign itself.

    Args:
        answered: The right answer and the reply of each row.

    Examples:
        >>> sign_between_alternatives([("a cup | a mug", "a mug"), ("red", "red"), ("1 | one", "1"), ("x|y", "y")])
        '|'
    """
    rows = list(answered)
    for sign in _SIGNS:
        met = 0
        for answer, reply in rows:
            if sign in reply:
                met = 0
                break
            parts = [folded(part) for part in answer.split(sign)]
            met += len(parts) > 1 and all(parts) and folded(reply) in parts
        if met >= FEWEST_MET:
            return sign
    return ""


def alternatives(references: Sequence[str], sign: str) -> tuple[str, ...]:
    """Return the accepted answers, each split at a sign: `a cup` and `a mug` for `a cup | a mug` and `|`.

    They are returned as they are if the sign is an empty text.
    """
    if not sign:
        return tuple(references)
    parts = [part.strip() for reference in references for part in reference.split(sign)]
    return tuple(part for part in parts if part)
