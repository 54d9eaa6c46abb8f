"""Right answers that are several: options together, lists, or alternatives of which a reply gives one."""

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
"""Letters of options one after the other: `AC`, `A, C`, `(A) and (C)`."""
_ANNOUNCED = re.compile(
    rf"(?:answers?|options?|choices?)\b[^A-Z\n]{{0,12}}(\(?[A-Z]\)?(?:{_BETWEEN}\(?[A-Z]\)?)*)(?![a-z])"
)
_LIST = re.compile(r"\[[^\[\]]*\]")
MOSTLY = 0.9
"""Share of the rows whose right answers and replies have to be lists."""
ListKind = Literal["", "items", "set", "whole"]


def places_named(cell: Any, shown: ShownOptions, form: AnswerForm = "any") -> tuple[int, ...]:
    """Return the places of all options that a cell names, in order; none if a part of it names no option.

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
    """Return the places of options that a text is made of, with signs or `and` between them; none if it has more.

    Options may have commas themselves, so the longest are looked for first.
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
    """Return the letters of options as one word: `AC`."""
    return "".join(LETTERS[place] for place in places)


def letters_in_reply(reply: str, shown: ShownOptions, form: AnswerForm = "any") -> str:
    """Return the letters of the options that a reply names, in order; the reply itself where that cannot be told."""
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
    """Return the values of a list, or of the last list that a text has; none for anything else."""
    if isinstance(cell, str):
        lists = _LIST.findall(cell)
        cell = lists[-1] if lists else ""
    values = listed(cell) if cell else None
    if not values or any(isinstance(value, (list, dict)) or value is None for value in values):
        return ()
    return tuple(as_text(value).strip() for value in values)


def is_list(cell: Any) -> bool:
    """Return whether a cell is a list, also one in brackets that is written as a text."""
    is_in_brackets = isinstance(cell, str) and cell.strip().startswith("[")
    return (isinstance(cell, list) or is_in_brackets) and listed(cell) is not None


def is_bare_list(cell: Any) -> bool:
    """Return whether a cell is a list of values without quotes, such as `[2014, 2016]`; one of quoted texts is none.

    Examples:
        >>> is_bare_list("[2014, 2016]"), is_bare_list([2014, 2016]), is_bare_list("['exit', 'way out']")
        (True, True, False)
    """
    if isinstance(cell, list):
        return not any(isinstance(value, str) for value in cell)
    return is_list(cell) and "'" not in cell and '"' not in cell


_PLURALS = frozenset("answer label gold target reference truth gt response solution alias".split())
"""Names of single right answers, which a plural makes a list of accepted ones."""


def is_plural(name: str) -> bool:
    """Return whether the folded name of a column says that it holds several right answers.

    Examples:
        >>> is_plural("gt_answers"), is_plural("answer"), is_plural("class")
        (True, False, False)
    """
    return any(
        word in ("aliases", "alternatives") or (word.endswith("s") and word[:-1] in _PLURALS)
        for word in name.split("_")
    )


def kind_of_lists(answers: Iterable[tuple[Any, Any]]) -> ListKind:
    """Return what lists in a file are: the answers to several questions of a row, or one answer; empty if neither.

    Lists of letters answer a question each. Lists of numbers, such as coordinates, are one answer. Lists of labels are sets
    if replies often give the same ones, and more in some rows than in others or nearly always several. Other lists are
    several accepted answers.

    Args:
        answers: The right answer and the reply of each row.
    """
    rows = 0
    letters = 0
    numbers = 0
    several = 0
    n_equal = 0
    n_equal_several = 0
    lengths: set[int] = set()
    for gold_cell, reply_cell in answers:
        if reply_cell in (None, "", []):
            continue  # a row without a reply tells nothing
        rows += 1
        gold, reply = list_in_answer(gold_cell), list_in_answer(reply_cell)
        if not gold or not reply:
            continue
        several += len(gold) > 1
        are_labels = isinstance(gold_cell, list) and isinstance(reply_cell, list)
        is_equal = are_labels and set(map(folded, gold)) == set(map(folded, reply))
        n_equal += is_equal
        n_equal_several += is_equal and len(set(map(folded, gold))) > 1
        lengths.add(len(reply))
        letters += all(bare_label(value) for value in (*gold, *reply))
        numbers += len(gold) > 1 and all(map(is_number, (*gold, *reply)))
    if not several:
        return ""
    if letters > MOSTLY * rows:
        return "items"
    if numbers > MOSTLY * rows:
        return "whole"
    are_often_equal = n_equal > EQUAL_SETS * rows
    # Several replies to one question seldom are all of its accepted answers.
    are_mostly_equal = n_equal_several > 0.5 * rows
    return "set" if are_mostly_equal or (are_often_equal and len(lengths) > 1) else ""


EQUAL_SETS = 0.2
"""The share of the rows in which lists of labels have to have the same ones, for them to be sets."""


# --- alternatives in one cell ----------------------------------------------------------------------------------------

_SIGNS = ("|", ";")
FEWEST_MET = 3
"""Replies that are one of the parts between signs, from which the parts are alternatives."""


def sign_between_alternatives(answered: Iterable[tuple[str, str]]) -> str:
    """Return the sign that separates accepted answers in cells; empty if none does.

    Several replies must be one of the parts, and no reply have the sign itself.

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
    """Return the references, each split at a sign; as they are without one."""
    if not sign:
        return tuple(references)
    parts = [part.strip() for reference in references for part in reference.split(sign)]
    return tuple(part for part in parts if part)
