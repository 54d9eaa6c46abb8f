"""Position bias: which option letters a model chooses more or less often than they are correct.

For each letter there is a choice rate, how often it is the correct one, and the difference of both. A letter is
favoured (avoided) if the corrected interval of its difference is above (below) zero. Intervals are corrected for all
letters of questions with as many options, since one of many letters would seem favoured by luck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.option_letters import LetterPreference, letter_preferences
from snellen.analysis.paired.significance import SIGNIFICANCE_LEVEL
from snellen.analysis.quantiles import normal_quantile
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.number_text import capitalised, decimal_text, unit_of_difference
from snellen.report.reported_runs import ReportedRun
from snellen.report.table import AbsentCell, Cell, Column, NumberCell, Table, tabulate

LETTER_NOTES = (
    "Over parsed replies in all benchmarks, separately for each number of options, with 95% intervals by image. "
    "A difference above 0 means that the letter is chosen more often than it is correct. The intervals of "
    "differences, and the verdict, are corrected for the number of letters.",
    "If a protocol stops at the first failure of a question, only the first option order counts, because later "
    "orders were used only for questions that had not failed. Otherwise all orders count.",
)
NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}


class _LetterRow(Struct, frozen=True):
    """A letter of one run, with the corrected interval of its difference."""

    run: str
    letter: LetterPreference


def letter_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table of how often each option letter is chosen, by run and protocol.

    Its first notes say which letters a model chooses significantly more or less often than they are correct.

    Returns:
        One table; none if no protocol shows letters.
    """
    rows: list[_LetterRow] = []
    verdicts: list[str] = []
    for reported_run in reported_runs:
        preferences = letter_preferences(reported_run.run.benchmarks)
        for protocol, letters_of_protocol in groupby(preferences, lambda letter: letter.protocol):
            letters = corrected_letters(list(letters_of_protocol))
            rows += [_LetterRow(reported_run.label, letter) for letter in letters]
            for n_options, verdict in _verdicts(letters):
                if verdict:
                    subject = (
                        f"{reported_run.label} under {protocol}, with {_options_text(n_options)}"
                    )
                    verdicts.append(f"{subject}: {verdict}.")
    if not rows:
        return []

    if any(row.letter.difference.value is not None for row in rows):
        quantifier = "No other letter" if verdicts else "No letter"
        verdicts.append(f"{quantifier} is significantly favoured or avoided.")
    columns: list[Column[_LetterRow]] = [
        Column("run", lambda row: row.run, is_label=True),
        Column("protocol", lambda row: row.letter.protocol, is_label=True),
        Column("letter", lambda row: f"{row.letter.label} of {row.letter.options}", is_label=True),
        Column("chosen [95%] n", lambda row: NumberCell(SHARE, row.letter.choice_rate)),
        Column("correct answer there", lambda row: _ground_truth_cell(row.letter.correct, SHARE)),
        Column(
            "difference",
            lambda row: _ground_truth_cell(row.letter.difference, unit_of_difference(SHARE)),
        ),
    ]
    return [tabulate("Option letters", columns, rows, [*verdicts, *LETTER_NOTES])]


def _ground_truth_cell(estimate: Estimate, unit: str) -> Cell:
    """Return a cell with a number that needs the correct answers."""
    if estimate.value is None:
        return AbsentCell("the answers are hidden")
    return NumberCell(unit, estimate)


def letter_sentences(letters: Sequence[LetterPreference]) -> list[str]:
    """Return sentences that say which option letters a run prefers, one for each number of options.

    There is none if the correct answers are not available.

    Args:
        letters: All letters under one protocol, with intervals that are not yet corrected for their number.
    """
    sentences: list[str] = []
    for n_options, verdict in _verdicts(corrected_letters(letters)):
        opening = capitalised(f"with {_options_text(n_options)}")
        sentences.append(f"{opening}, {verdict or 'no letter is clearly favoured'}.")
    return sentences


def corrected_letters(letters: Sequence[LetterPreference]) -> list[LetterPreference]:
    """Correct the intervals of the differences of option letters for the number of letters (Bonferroni).

    The letters of questions with the same number of options are one family: A and B of questions with two options, A to
    D of questions with four.
    """
    family_sizes: Counter[int] = Counter()
    for letter in letters:
        if letter.difference.value is not None:
            family_sizes[letter.options] += 1

    corrected: list[LetterPreference] = []
    for letter in letters:
        difference = _widen_interval(letter.difference, family_sizes[letter.options])
        corrected.append(replace(letter, difference=difference))
    return corrected


def _widen_interval(difference: Estimate, family_size: int) -> Estimate:
    """Widen the 95% interval of a difference by the Bonferroni correction for several differences.

    With the correction, all intervals of a family contain their true values with a probability of 95%.

    Args:
        difference: A difference of two shares, from -1 to 1, with its uncorrected interval.
        family_size: The number of differences in the family.

    Returns:
        The difference with the wider interval, which ends at -1 and 1. It is unchanged if it has no interval.
    """
    value = difference.value
    if value is None or difference.low is None or difference.high is None:
        return difference
    corrected_quantile = normal_quantile(SIGNIFICANCE_LEVEL / family_size)
    factor = corrected_quantile / normal_quantile()
    low = value - factor * (value - difference.low)
    high = value + factor * (difference.high - value)
    return replace(difference, low=max(low, -1.0), high=min(high, 1.0))


def _verdicts(letters: Sequence[LetterPreference]) -> Iterator[tuple[int, str]]:
    """Yield each number of options with its verdict, empty if no letter is favoured or avoided.

    Args:
        letters: Corrected letters of one protocol, sorted by number of options.
    """
    for n_options, letters_of_count in groupby(letters, lambda letter: letter.options):
        with_difference = [
            letter for letter in letters_of_count if letter.difference.value is not None
        ]
        if not with_difference:
            continue
        clauses: list[str] = []
        for letter in with_difference:
            low = letter.difference.low or 0.0
            high = letter.difference.high or 0.0
            if low > 0:
                points = _points_text(low, high)
                clauses.append(
                    f"{letter.label} is favoured: chosen {points} points more often than it is correct"
                )
            # Of two letters, one is avoided because the other is favoured.
            elif high < 0 and n_options > 2:
                points = _points_text(-high, -low)
                clauses.append(
                    f"{letter.label} is avoided: chosen {points} points less often than it is correct"
                )
        yield n_options, "; ".join(clauses)


def _points_text(low: float, high: float) -> str:
    """Return an interval of shares in percentage points: `3.1 to 8.2`."""
    return f"{decimal_text(100 * low, 1)} to {decimal_text(100 * high, 1)}"


def _options_text(n_options: int) -> str:
    """Return `four options`, or `12 options` for a number without a short word."""
    return f"{NUMBER_WORDS.get(n_options, n_options)} options"
