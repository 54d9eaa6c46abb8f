"""Which letters of options models like: a table, and the verdict in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec.structs import replace

from snellen.analysis.option_letters import LetterPreference, letter_preferences
from snellen.analysis.paired.significance import LEVEL
from snellen.analysis.statistics import z
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.run_view import RunView
from snellen.report.table import (
    AbsentCell,
    Cell,
    NumberCell,
    Table,
    capitalised,
    decimal_text,
    unit_of_difference,
)

HEADER = ("run", "protocol", "letter", "chosen [95%] n", "right answer there", "difference")
NOTES = (
    "Over the replies that name an option, in all benchmarks, by how many options a question has; 95% intervals are by "
    "picture. Above 0, a letter is chosen more often than it is right; the interval of a difference allows for the "
    "number of letters, as the verdict does.",
    "If a protocol ends a question with its first failure, only the first order of the options counts, as later ones "
    "were asked only of questions that had not failed yet. If all orders were asked, all count.",
)
NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


def letter_tables(views: Sequence[RunView]) -> list[Table]:
    """Which letters the runs like, under each protocol that shows any; none where no protocol does."""
    rows: list[tuple[Cell, ...]] = []
    verdicts: list[str] = []
    is_known = False
    for view in views:
        for protocol, of_protocol in groupby(
            letter_preferences(view.run.benchmarks), lambda each: each.protocol
        ):
            letters = corrected_letters(list(of_protocol))
            is_known |= any(letter.difference.value is not None for letter in letters)
            rows += [
                (view.label, protocol, f"{each.label} of {each.options}", *_cells(each))
                for each in letters
            ]
            verdicts += [
                f"{view.label} under {protocol}, with {_count_words(count)}: {words}."
                for count, words in _verdicts(letters)
                if words
            ]
    if not rows:
        return []
    if is_known:
        verdicts.append(f"No {'other ' * bool(verdicts)}letter is clearly favoured or avoided.")
    return [
        Table("Option letters", HEADER, tuple(rows), label_columns=3, notes=(*verdicts, *NOTES))
    ]


def _cells(letter: LetterPreference) -> Iterator[Cell]:
    yield NumberCell(SHARE, letter.chosen)
    for estimate, unit in ((letter.correct, SHARE), (letter.difference, unit_of_difference(SHARE))):
        yield (
            AbsentCell("the answers are hidden")
            if estimate.value is None
            else NumberCell(unit, estimate)
        )


def letter_sentences(letters: Sequence[LetterPreference]) -> list[str]:
    """Which letters one run favours under one protocol: a sentence for each number of options. No sentence where the
    answers are hidden."""
    return [
        f"{capitalised(f'with {_count_words(count)}')}, {words or 'no letter is clearly favoured'}."
        for count, words in _verdicts(corrected_letters(letters))
    ]


def corrected_letters(letters: Sequence[LetterPreference]) -> list[LetterPreference]:
    """The letters of one protocol, each with the interval of its difference that holds for all letters of questions
    with so many options together."""
    known = Counter(letter.options for letter in letters if letter.difference.value is not None)
    return [
        replace(letter, difference=_corrected(letter.difference, known[letter.options]))
        for letter in letters
    ]


def _verdicts(corrected: Sequence[LetterPreference]) -> Iterator[tuple[int, str]]:
    """For each number of options which letters are favoured or avoided, in words; empty where none is clearly."""
    for count, of_count in groupby(corrected, lambda letter: letter.options):
        known = [letter for letter in of_count if letter.difference.value is not None]
        if not known:
            continue
        words = []
        for letter in known:
            low, high = letter.difference.low or 0.0, letter.difference.high or 0.0
            if low > 0:
                words.append(
                    f"{letter.label} is favoured, {_points(low, high)} points more often chosen than right"
                )
            elif high < 0 and count > 2:  # of two letters, one is avoided as the other is favoured
                words.append(
                    f"{letter.label} is avoided, {_points(-high, -low)} points less often chosen than right"
                )
        yield count, "; ".join(words)


def _corrected(difference: Estimate, family: int) -> Estimate:
    value, low, high = difference.value, difference.low, difference.high
    if value is None or low is None or high is None:
        return difference
    wider = z(LEVEL / family) / z()
    return replace(
        difference,
        low=max(value - wider * (value - low), -1.0),
        high=min(value + wider * (high - value), 1.0),
    )


def _points(low: float, high: float) -> str:
    return f"{decimal_text(100 * low, 1)} to {decimal_text(100 * high, 1)}"


def _count_words(options: int) -> str:
    return f"{NUMBER_WORDS.get(options, options)} options"
