"""The number that a reply gives, against the number of the reference (CountBenchQA, MathVista)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from snellen.errors import DataError
from snellen.formats.late_patterns import late_pattern
from snellen.formats.quantities import quantities
from snellen.metrics.declaration import share
from snellen.metrics.rates import Marks, read_rate_metric
from snellen.metrics.vqa import number_in

_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_BOXED = late_pattern(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANSWER = late_pattern(r"\banswer\b(?:\s+is|\s*[:=])[\s:*]*", re.IGNORECASE)
_SENTENCE = late_pattern(r"\n+|(?<=[.!?])\s+")
_RESULT = late_pattern(r"[=≈]")
_WORD = late_pattern(r"[a-z]+(?:-[a-z]+)?")


def read_numbers(reply: str) -> tuple[Fraction, ...]:
    """The distinct numbers that a reply answers with, in order; none where it has no number.

    Of a reply of several sentences those count that stand in `\\boxed{}`, else after the last `answer is`, else in the
    last sentence that has a number, there behind the last equals sign. Words for numbers up to `ninety-nine` count
    where no figures stand.
    """
    return next(filter(None, map(_numbers, _places(reply))), ())


def _places(reply: str) -> Iterator[str]:
    yield from (match[1] for match in list(_BOXED.finditer(reply))[-1:])
    *_, behind = _ANSWER.split(reply)
    if behind != reply:
        yield _SENTENCE.split(behind.strip())[0]
    for sentence in reversed(_SENTENCE.split(reply)):
        *_, result = _RESULT.split(sentence)
        yield result
        yield sentence


def _numbers(text: str) -> tuple[Fraction, ...]:
    figures = [quantity.values[0] for quantity in quantities(text, ".") if quantity.root == 1 and not quantity.pi]
    words = [number for word in _WORD.findall(text.lower()) if (number := _spelled(word)) is not None]
    return tuple(dict.fromkeys(figures or words))


def _spelled(word: str) -> Fraction | None:
    """The number that a word is: `two`, `thirteen`, `twenty-one`."""
    tens, _, ones = word.partition("-")
    if tens in _TENS:
        unit = number_in(ones) if ones else 0.0
        return Fraction(20 + 10 * _TENS.index(tens) + int(unit)) if unit is not None and unit < 10 else None
    if word in _TEENS:
        return Fraction(13 + _TEENS.index(word))
    spelled = number_in(word)
    return None if spelled is None else Fraction(int(spelled))


def number_right(reply: str, references: Sequence[str]) -> Marks:
    """1 if the reply gives the numbers of a gold and no others, else 0; None where it gives none, or too many to tell.

    A gold with decimals is met by what rounds to it (`1.45` by 1.4523); a whole one by itself alone. A gold that is a
    list (`[2007, 2008]`) has to be given in its order. Raises DataError for a gold without a number.
    """
    golds = [(_numbers(reference), _half_unit(reference)) for reference in references]
    if not golds or not all(numbers for numbers, _ in golds):
        raise DataError(f"gold {' / '.join(references)!r} is no number")
    said = read_numbers(reply)
    if len(said) not in {len(numbers) for numbers, _ in golds}:
        return None
    return (float(any(_meet(said, numbers, slack) for numbers, slack in golds)),)


def _half_unit(reference: str) -> Fraction:
    """Half a unit of the last decimal of a gold; 0 where it has none."""
    decimals = re.search(r"\d\.(\d+)", reference)
    return Fraction(1, 2 * 10 ** len(decimals[1])) if decimals else Fraction(0)


def _meet(said: Sequence[Fraction], gold: Sequence[Fraction], slack: Fraction) -> bool:
    return len(said) == len(gold) and all(abs(s - g) <= slack for s, g in zip(said, gold, strict=True))


NUMBER_ACCURACY = read_rate_metric(
    "number",
    "the number that a reply answers with is the reference's, to its decimals; and how many replies have none",
    [share("number_accuracy", interval="linearised", unparsed="wrong")],
    number_right,
)
