"""Find the options that a row showed to the model: in cells, in a list in its prompt, or only as letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from msgspec import Struct

from snellen.formats.delimited import LETTERS
from snellen.interchange.predictions.rows import is_empty_cell
from snellen.recognition.folding import as_text, folded
from snellen.recognition.named_option import LABEL_NOUNS, bare_label, label_of, named_option


class ShownOptions(Struct, frozen=True):
    """The options of a row in the order in which the model saw them, with the labels before them.

    Without labels, the options are lettered A, B, C and so on.
    """

    options: tuple[str, ...]
    labels: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.options)

    @property
    def has_gap(self) -> bool:
        """Whether a letter is missing, as B is in A, C, D. An empty cell between filled ones leaves such a gap."""
        return bool(self.labels) and self.labels != tuple(ascii_uppercase[: len(self.labels)])


def option_cells(cells: Mapping[str, Any], columns: Sequence[str]) -> ShownOptions:
    """Return the options of a table that has a column for each of them.

    Empty cells are skipped, and the other options keep the letters of their columns: A and C if the
    second cell is empty.
    """
    options: list[str] = []
    letters: list[str] = []
    for place, name in enumerate(columns):
        if cells.get(name, "") != "":
            options.append(as_text(cells[name]))
            letters.append(LETTERS[place])
    has_gap = letters != list(LETTERS[: len(letters)])
    return ShownOptions(tuple(options), tuple(letters) if has_gap else ())


def cells_to_last(cells: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the cells of options up to the last one that is filled.

    Empty cells before it are kept, since a spreadsheet may have emptied a cell such as `None`.
    """
    texts = [as_text(cells.get(name, "")) for name in columns]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)


HIDDEN = frozenset(("hidden", "?"))
"""What files have in place of a right answer that is not published."""
UNKNOWN = "unknown"
"""It means an unpublished answer if a file has no other answers. Beside others, it is an answer itself."""


def words_for_hidden(golds: Sequence[str]) -> frozenset[str]:
    """Return the texts that a column of right answers has where the answer is not published: `hidden`, `?`.

    `unknown` is one of them only if the column has no other answers, because it may otherwise be an
    answer itself.
    """
    written = {gold.strip().casefold() for gold in golds} - {""}
    has_answers = bool(written - HIDDEN - {UNKNOWN})
    return HIDDEN if has_answers else HIDDEN | {UNKNOWN}


def letters_of_golds(golds: Sequence[str], hidden: Collection[str]) -> tuple[str, ...]:
    """Return the letters of all options that a file seems to have, judged by its right answers.

    For right answers B and D, these are A to D. The result is empty unless more than half of the
    right answers are letters, with two different ones at least.

    Args:
        golds: The right answers.
        hidden: Words in place of answers that are not published.
    """
    answers = [gold for gold in golds if gold and gold.strip().casefold() not in hidden]
    counts = Counter(map(label_of, answers))
    letters = [letter for letter in LETTERS[:10] if counts[letter]]
    in_letters = sum(counts[letter] for letter in letters)
    if len(letters) < 2 or 2 * in_letters <= len(answers):
        return ()
    return tuple(LETTERS[: LETTERS.index(letters[-1]) + 1])


def options_of_letters(letters: tuple[str, ...]) -> ShownOptions:
    """Return placeholders for options whose texts are not in the file: `option A` with the label A, and so on."""
    return ShownOptions(tuple(f"option {letter}" for letter in letters), letters)


# --- options that a prompt lists -------------------------------------------------------------------------------------

LISTED_APART = "rows left out, whose right answer is none of the options in their prompt"
_LISTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^[ \t]*\(?([A-Z])[.):][ \t]+(?=\S)",
        r"^[ \t]*\(([A-Z])\)[ \t]*(?=\S)",
        rf"^[ \t]*(?i:{LABEL_NOUNS}) ([A-Z1-9])[.):][ \t]+(?=\S)",
        r"(?<!\w)\(([A-Z])\)[ \t]*(?=\S)",
        r"(?<!\w)\(([a-z])\)[ \t]*(?=\S)",
        r"(?<!\S)([A-Z])[.)][ \t]+(?=\S)",
        r"(?<!\S)([A-Z]) ?:[ \t]*(?=\S)",
        r"^[ \t]*\*{0,2}([A-Z])\*{0,2}[.):]\*{0,2}[ \t]*(?=\S)",
        r"^[ \t]*[\[<]([A-Z])[\]>][ \t]*(?=\S)",
        r"^[ \t]*([A-Z])[ \t]+[-–][ \t]+(?=\S)",
        r"^[ \t]*\(?([a-z])[.):][ \t]+(?=\S)",
        r"^[ \t]*\(?([1-9])[.):][ \t]+(?=\S)",
    )
)
"""Patterns for the mark before an option in a prompt, such as `A.` or `(b)`. Those for one option
per line come first."""


def listed_options(prompt: str) -> tuple[str, ...]:
    """Return the texts of the options that a prompt lists, in the order of their letters.

    The last list that begins with A counts, as in `A. a cat B. a dog`. A list may also show all its
    letters in another order (C, D, A, B). The result is empty if there is no list of two or more.
    """
    for pattern in _LISTS:
        marks = list(pattern.finditer(prompt))
        if marks and marks[0][1].isdecimal() and not _is_announced(prompt, marks[0]):
            continue
        options = _turned_list(prompt, marks) or _listed_texts(prompt, _last_list(marks))
        if options:
            return options
    return ()


_ANNOUNCES = re.compile(
    rf"\b(?:options?|choices?|choose|candidates?|alternatives|select|following|{LABEL_NOUNS})\b[^\n]*:?\s*\Z|\?\s*\Z",
    re.IGNORECASE,
)
"""The end of a line after which numbered lines are options. Without it they may be the steps of an instruction."""


def _is_announced(prompt: str, mark: re.Match[str]) -> bool:
    """Return whether a numbered line in a prompt is an option, and not a step of an instruction.

    It is one if it begins with a word such as `Option`, or if the line before announces options or
    is a question.
    """
    has_noun = any(character.isalpha() for character in mark[0])
    return has_noun or _ANNOUNCES.search(prompt[: mark.start()]) is not None


_ENDS_IN_TEXT = re.compile(
    r"\b(?:caption|description|summary|story|report)\s*:\s*\Z", re.IGNORECASE
)


def asks_for_text(prompt: str) -> bool:
    """Return whether a prompt ends with a heading such as `Generated Caption:`, after which the model writes a text."""
    return _ENDS_IN_TEXT.search(prompt) is not None


_NUMBERED = re.compile(rf"^[ \t]*(?:(?:{LABEL_NOUNS}) |\(?)1[.):]", re.IGNORECASE | re.MULTILINE)


def shown_in_prompt(prompt: str) -> ShownOptions:
    """Return the options that a prompt lists, with the labels 1, 2, 3 if these are numbered; empty if it lists none."""
    if asks_for_text(prompt):
        return ShownOptions(())
    options = listed_options(prompt)
    is_numbered = bool(options) and _NUMBERED.search(prompt) is not None
    numbers = tuple(str(number) for number in range(1, len(options) + 1))
    return ShownOptions(options, numbers if is_numbered else ())


def _turned_list(prompt: str, marks: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """Return the options of a prompt that lists them with their letters in any order, sorted by letter.

    The result is empty unless the prompt has exactly the first three or more letters of the
    alphabet, each once.
    """
    letters = [_letter_of_mark(mark) for mark in marks]
    if len(marks) < 3 or sorted(letters) != list(ascii_uppercase[: len(marks)]):
        return ()
    by_letter = dict(zip(letters, _listed_texts(prompt, marks), strict=False))
    return tuple(by_letter[letter] for letter in sorted(by_letter))


def _letter_of_mark(mark: re.Match[str]) -> str:
    """Return the letter of an option in a list; of an option with a number, the letter at that position (B for 2)."""
    label = mark[1].upper()
    return ascii_uppercase[int(label) - 1] if label.isdecimal() else label


def _last_list(marks: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """Return the marks (such as `A.`) of the last list in a prompt that goes A, B and so on.

    Args:
        marks: All marks in the prompt, in order.

    Returns:
        The marks of that list; empty if no A is followed by a B.
    """
    run: list[re.Match[str]] = []
    last: list[re.Match[str]] = []
    for mark in marks:
        letter = _letter_of_mark(mark)
        if letter == "A":
            run = []
        is_complete = len(run) == len(ascii_uppercase)
        if is_complete or letter != ascii_uppercase[len(run)]:
            run = []
            continue
        run.append(mark)
        if len(run) >= 2:
            last = list(run)
    return last


_INSTRUCTION = re.compile(
    r"(?:(?<=[.?!;])|(?<=[.?!;][\"')])|(?<=\S)[ \t]{2,})[ \t]*(?:please|choose|select|pick|answer|respond|reply|give|provide|output|"
    r"return|write|explain|think|only|just|do not|don't|your (?:answer|response|choice)|the (?:correct )?answer)\b.*\Z",
    re.IGNORECASE | re.DOTALL,
)
"""A sentence behind the last option that tells how to answer."""


def _listed_texts(prompt: str, marks: Sequence[re.Match[str]]) -> tuple[str, ...]:
    """Return the texts of the options after their marks, without commas that separate all of them.

    An instruction after the last option, such as `Answer with a letter.`, is removed. The result is
    empty if a text is empty.
    """
    if not marks:
        return ()
    line_end = prompt.find("\n", marks[-1].end())
    last_end = line_end if line_end >= 0 else len(prompt)
    ends = [*(mark.start() for mark in marks[1:]), last_end]
    texts: list[str] = []
    for mark, end in zip(marks, ends, strict=True):
        texts.append(prompt[mark.end() : end].strip())
    if all(text.endswith(",") for text in texts[:-1]):
        texts = [text.removesuffix(",").strip() for text in texts]
    if not any(map(_INSTRUCTION.search, texts[:-1])):
        texts[-1] = _INSTRUCTION.sub("", texts[-1])
    return tuple(texts) if all(texts) else ()


# --- answers in words of their own -----------------------------------------------------------------------------------


def places_by_exclusion(
    answered: Iterable[tuple[tuple[str, ...], str]],
) -> dict[tuple[tuple[str, ...], str], int]:
    """Return the option that a right answer must mean although it is worded differently, by excluding the others.

    If all other right answers to questions with the same options name one option each, the one left
    over is meant. This is not done for an answer that may be a label (D where only three options
    were found), or that says that no option is right.

    Args:
        answered: The options and the right answer of each question.

    Returns:
        The index of the option, by options and answer; empty if nothing can be concluded.

    Examples:
        >>> options = ("Left", "Right", "Above")
        >>> places_by_exclusion([(options, answer) for answer in ("left", "right", "on top")])
        {(('Left', 'Right', 'Above'), 'on top'): 2}
    """
    answers_of_list: dict[tuple[str, ...], dict[str, int | None]] = {}
    for options, answer in answered:
        places = answers_of_list.setdefault(options, {})
        if answer not in places:
            places[answer] = named_option(answer, options, in_words=True)

    excluded: dict[tuple[tuple[str, ...], str], int] = {}
    for options, places in answers_of_list.items():
        unnamed = [answer for answer, place in places.items() if place is None]
        remaining = set(range(len(options))) - set(places.values())
        if len(options) < 3 or not len(unnamed) == len(remaining) == 1:
            continue
        [answer] = unnamed
        if _may_name_option(answer):
            excluded[options, answer] = remaining.pop()
    return excluded


_NO_OPTION = re.compile(
    r"unknown|hidden|invalid|missing|(?:none|neither|not|no|cannot|can't|un\w+able)\b.*",
    re.IGNORECASE,
)
"""Answers that say that no option is right, or that none is known."""


def _may_name_option(answer: str) -> bool:
    """Return whether an answer that equals no option may still mean one.

    It cannot if it is a letter or a number, or says that there is no answer, as `none of these`
    does.
    """
    is_label = bool(bare_label(answer)) or folded(answer).isdecimal()
    is_absent = is_empty_cell(answer) or _NO_OPTION.fullmatch(answer.strip()) is not None
    return not (is_label or is_absent or not folded(answer).strip("?-–— "))
