"""Numbers that replies give: against the reference's, as a count of objects, within 5%, or as an expression."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from snellen.common.late import import_extra, late_pattern
from snellen.errors import DataError
from snellen.extraction.closed_answers import declines, stated_answer
from snellen.formats.quantities import quantities, units_agree, whole_quantity
from snellen.metrics.declaration import (
    CorpusCountMetric,
    Marks,
    MetricRow,
    metric_row,
    read_rate_metric,
    reply_by_reply,
    reply_metric,
    share_row,
)
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.ocr import normalised_references
from snellen.metrics.question_counts import Counts
from snellen.metrics.vqa import number_in

_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_BOXED = late_pattern(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ANSWER_CUE = late_pattern(r"\banswer\b(?:\s+is|\s*[:=])[\s:*]*", re.IGNORECASE)
_SENTENCE = late_pattern(r"\n+|(?<=[.!?])\s+")
_EQUALS_SIGN = late_pattern(r"[=≈]")
_RATIO = late_pattern(r"[\s$]*\d+(?:\.\d+)?\s*:\s*\d+(?:\.\d+)?[\s$.]*")
_TIMES_PI = late_pattern(r"((?:\d+(?:[./]\d+)?)?)\s*π")
_WORD = late_pattern(r"[a-z]+(?:-[a-z]+)?")


def read_numbers(reply: str) -> tuple[Fraction, ...]:
    """Return the distinct numbers that a reply gives as its answer, in order; empty if it gives none.

    The first of these parts that has a number counts: the last `\\boxed{}`, what follows the last `answer is`, the last
    sentence with a number and, in it, what follows the last equals sign. Number words up to `ninety-nine` count only where
    there are no digits.
    """
    for part in _answer_parts(reply):
        numbers = _numbers_in(part)
        if numbers:
            return numbers
    return ()


def _answer_parts(reply: str) -> Iterator[str]:
    """Yield the parts of a reply that may state its result, the likeliest first.

    These are the last `\\boxed{}`, the sentence after "answer", and then all sentences from the last to the first; of
    each, what follows the last equals sign comes first.
    """
    boxes = list(_BOXED.finditer(reply))
    if boxes:
        yield boxes[-1][1]
    after_answer = _ANSWER_CUE.split(reply)[-1]
    if after_answer != reply:
        first_sentence = _SENTENCE.split(after_answer.strip())[0]
        yield first_sentence
    for sentence in reversed(_SENTENCE.split(reply)):
        result = _EQUALS_SIGN.split(sentence)[-1]
        yield result
        yield sentence


def _numbers_in(text: str) -> tuple[Fraction, ...]:
    """Return the distinct numbers in a text: those in figures, or, if there are none, those in words."""
    figures = []
    for quantity in quantities(text, "."):
        if quantity.root == 1 and not quantity.pi:
            figures.append(quantity.values[0])
    if figures:
        return tuple(dict.fromkeys(figures))

    spelled_numbers = []
    for word in _WORD.findall(text.lower()):
        number = _spelled_number(word)
        if number is not None:
            spelled_numbers.append(number)
    return tuple(dict.fromkeys(spelled_numbers))


def _spelled_number(word: str) -> Fraction | None:
    """Return the number that a word stands for, such as 2 for `two` and 21 for `twenty-one`; None for other words."""
    tens, _, units = word.partition("-")
    if tens in _TENS:
        unit = number_in(units) if units else 0.0
        if unit is None or unit >= 10:
            return None
        return Fraction(20 + 10 * _TENS.index(tens) + int(unit))
    if word in _TEENS:
        return Fraction(13 + _TEENS.index(word))
    number = number_in(word)
    return None if number is None else Fraction(int(number))


def number_right(reply: str, references: Sequence[str]) -> Marks:
    """Return whether a reply gives the number, or the list of numbers, of a reference.

    A reference with decimals also accepts what rounds to it: 1.4523 for `1.45`. A whole number must be exact. The
    numbers of a list, such as `[2007, 2008]`, must be in the same order.

    Returns:
        (1.0,) if the reply gives the numbers of a reference and no others, else (0.0,). None if it gives no numbers, or
        more than a reference has, so that it is unclear which are meant.

    Raises:
        DataError: A reference has no number.
    """
    gold_numbers = [_numbers_in(reference) for reference in references]
    if not gold_numbers or not all(gold_numbers):
        raise DataError(f"gold {' / '.join(references)!r} is not a number")
    reply_numbers = read_numbers(reply)
    gold_lengths = {len(numbers) for numbers in gold_numbers}
    if len(reply_numbers) not in gold_lengths:
        return None
    for reference, numbers in zip(references, gold_numbers, strict=True):
        if _are_within(reply_numbers, numbers, slack=_half_unit(reference)):
            return (1.0,)
    return (0.0,)


def _half_unit(reference: str) -> Fraction:
    """Return half a unit of the last decimal of a reference: 0.005 for "1.45"; 0 for a number without decimals."""
    decimals = re.search(r"\d\.(\d+)", reference)
    return Fraction(1, 2 * 10 ** len(decimals[1])) if decimals else Fraction(0)


def _are_within(numbers: Sequence[Fraction], gold: Sequence[Fraction], slack: Fraction) -> bool:
    """Return whether there are as many numbers as correct ones, and each is within `slack` of the correct one."""
    if len(numbers) != len(gold):
        return False
    for number, correct_number in zip(numbers, gold, strict=True):
        if abs(number - correct_number) > slack:
            return False
    return True


NUMBER_ACCURACY = read_rate_metric(
    "number",
    "the number that a reply answers with is the reference's, to its decimals; and how many replies have none",
    [share_row("number_accuracy", interval="linearised", unparsed="wrong")],
    number_right,
)


# --- counting: how far the number in a reply is from the number of objects --------------------------------------------


CountReader = Callable[[str], float | None]
_LEGACY_WORDS = {
    word: str(i)
    for i, word in enumerate("none one two three four five six seven eight nive".split())
}
"""In the script's own spelling."""


def read_count(reply: str) -> float | None:
    """Return the only number in a reply, in digits or as a word up to twelve.

    None if the reply has no number or several different ones: "two dogs (2)" is 2, "2 or 3" is None.
    """
    numbers: set[float] = set()
    for word in standard_normalise(reply).split():
        number = number_in(word)
        if number is not None:
            numbers.add(number)
    for quantity in quantities(reply):
        numbers.add(float(quantity.values[0]))
    return numbers.pop() if len(numbers) == 1 else None


def legacy_read_count(reply: str) -> float:
    """Read a number as the published script of GVT does: the first run of digits; 0 if there is none.

    Before that, number words become digits wherever their letters are found, so `someone` is 1. `nine` and `Two` are 0,
    because the script misspells the first as `nive` and distinguishes capital letters.
    """
    for word, digit in _LEGACY_WORDS.items():
        reply = reply.replace(word, digit)
    digits = re.search(r"\d+", reply)
    return float(digits[0]) if digits else 0.0


def _count_objects(reader: CountReader, reply: str, texts: Sequence[str]) -> Counts:
    """Return the counts of a reply to a question about a number of objects, to be summed over questions.

    Args:
        reader: Returns the number in a reply, or None.
        reply: The reply.
        texts: The correct number, as text.

    Returns:
        1; whether the number is correct; whether it is at most one off; whether the reply has a number; the absolute
        error; and its square. The last five are 0 without a number.
    """
    gold = read_count(texts[0]) if texts else None
    if gold is None:
        raise DataError(f"gold {' / '.join(texts)!r} is not a number")
    number = reader(reply)
    if number is None:
        return (1, 0, 0, 0, 0, 0)
    error = abs(number - gold)
    return (1, error == 0, error <= 1, 1, error, error * error)


def _count_rows(sums: Counts) -> tuple[float | None, ...]:
    """Return the metrics of counts from their sums: accuracy, near accuracy, mean error, root of squared error, unread.

    The errors are over the replies with a number, and None if there are none.
    """
    n_questions, n_right, n_near, n_read, error, squared_error = sums
    mean_error = None
    root_mean_square = None
    if n_read:
        mean_error = error / n_read
        root_mean_square = math.sqrt(squared_error / n_read)
    return (
        n_right / n_questions,
        n_near / n_questions,
        mean_error,
        root_mean_square,
        1 - n_read / n_questions,
    )


def _count_metric_rows(name_prefix: str, title_prefix: str) -> tuple[MetricRow, ...]:
    """Return the rows of a counting metric.

    They are accuracy, near accuracy (at most one off), two errors, and the share of replies without a number.
    """

    def error(name: str, title: str) -> MetricRow:
        """Declare the row of a mean counting error, in objects."""
        return metric_row(
            f"{name_prefix}{name}",
            title=f"{title_prefix}{title}",
            unit="objects",
            low=0.0,
            better="lower",
            interval="linearised",
            scale=f"{name_prefix}{name}",
            unparsed="left out",
            undefined="no reply has just one number",
        )

    def rate(name: str, title: str, **declared: object) -> MetricRow:
        """Declare the row of a share of questions."""
        return share_row(
            f"{name_prefix}{name}",
            f"{title_prefix}{title}",
            interval="linearised",
            **{"unparsed": "wrong"} | declared,
        )

    return (
        rate("count_accuracy", "count accuracy"),
        rate("count_within_1", "count within 1"),
        error("count_mae", "count MAE"),
        error("count_rmse", "count RMSE"),
        rate(
            "count_unparsed_rate",
            "count unparsed rate",
            better="lower",
            scale="",
            unparsed="counted",
        ),
    )


COUNTING = CorpusCountMetric(
    description="counting: right, at most one off; mean absolute and root mean squared error of the replies with one number",
    rows=_count_metric_rows("", ""),
    count=reply_by_reply(partial(_count_objects, read_count)),
    compute=_count_rows,
    per_question=("count_accuracy", "count_within_1", "count_mae"),
    by_answer=True,
)
LEGACY_COUNTING = CorpusCountMetric(
    description="the same by GVT's script: the first run of digits, 0 without one",
    rows=_count_metric_rows("legacy_", "legacy "),
    count=reply_by_reply(partial(_count_objects, legacy_read_count)),
    compute=_count_rows,
    per_question=("legacy_count_accuracy",),
    by_answer=True,
)


# --- relaxed accuracy: a number may be off by 5%, anything else has to be the same (ChartQA, PlotQA) -----------------


RELATIVE_TOLERANCE = Fraction(1, 20)
_MILLIONS = re.compile(r"(?<=\d)M\b")
_YEAR = re.compile(r"(?:1[89]|20)\d\d")


def relaxed_accuracy(reply: str, references: Sequence[str]) -> float:
    """1 if the reply is a gold's number to within 5%, or the words of a gold that is not one (Methani et al. 2020).

    For a reference that is a number, the answer in the reply must have exactly one number, in words or in figures. It
    may have thousands separators, a unit or a percent sign: `5%` agrees with 5 and with 0.05, but `$5` agrees with
    neither `5%` nor 5 km. A reference that is zero or a year (1800 to 2099 without a unit) must be met exactly, because
    5% of a year is a century. Other references are compared with the reply by `normalise.standard`. Raises DataError as
    `word_accuracy` does.
    """
    golds = normalised_references(references, standard_normalise)
    answer = stated_answer(reply)
    answer_words = standard_normalise(answer)
    numbers: list[Number] = []
    if not declines(reply):
        numbers = _quantities_in(_MILLIONS.sub(" million", answer))
    for gold, reference in zip(golds, references, strict=True):
        number = _whole_number(reference)
        if number is None:
            is_right = answer_words == gold
        else:
            is_right = _is_within_tolerance(numbers, number, reference)
        if is_right:
            return 1.0
    return 0.0


Number = tuple[Fraction, str]
"""A value and its unit; empty for none."""


def _quantities_in(reply: str) -> list[Number]:
    """Return the numbers in figures in a reply with their units or, if there are none, its numbers in words."""
    numbers = []
    for quantity in quantities(reply, "."):
        if quantity.root == 1 and not quantity.pi:
            numbers.append((quantity.values[0], quantity.unit))
    if numbers:
        return numbers
    return [(value, "") for value in read_numbers(reply)]


def _whole_number(text: str) -> Number | None:
    """Return the number and its unit if a text is a number and nothing else, such as "5 km".

    None for any other text, and for a number with a root or with pi.
    """
    quantity = whole_quantity(text, ".")
    if quantity and quantity.root == 1 and not quantity.pi:
        return quantity.values[0], quantity.unit
    return None


def _is_within_tolerance(numbers: Sequence[Number], gold: Number, reference: str) -> bool:
    """Return whether a reply's only number is close enough to the ground truth.

    A year has to be exact. A percentage also matches the share that it stands for: 25% and 0.25.

    Args:
        numbers: Value and unit of each number in the reply.
        gold: Value and unit of the ground truth.
        reference: The ground truth as it was written.
    """
    if len(numbers) != 1:
        return False
    value, unit = numbers[0]
    target, gold_unit = gold
    if not units_agree(unit, gold_unit):
        return False
    readings = [value]
    if {unit, gold_unit} == {"%", ""}:
        readings.append(value / 100 if unit else value * 100)
    is_year = bool(_YEAR.fullmatch(reference.strip()))
    tolerance = 0 if not target or is_year else RELATIVE_TOLERANCE * abs(target)
    return any(abs(reading - target) <= tolerance for reading in readings)


def legacy_relaxed_accuracy(reply: str, references: Sequence[str]) -> float:
    """`relaxed_correctness` of pix2struct, which published tables use, to the letter; 1 or 0.

    Its quirks are kept: any year agrees with any other year, `5%` does not agree with 5, `1,200` does not agree with
    1200, `0.0` does not agree with 0, and `12 cm` is compared as a text.
    """
    return float(any(_legacy_meets(reply, reference) for reference in references))


def _legacy_meets(reply: str, reference: str) -> bool:
    """Return whether a reply agrees with a reference, as ChartQA's code decides it.

    Two numbers agree if they differ by at most 5% of the reference. In all other cases, and if the reference is 0, the
    texts must be equal except for upper and lower case.
    """
    number = _legacy_number(reply)
    target = _legacy_number(reference)
    if number is not None and target:
        return abs(number - target) / abs(target) <= 0.05
    return reply.lower() == reference.lower()


def _legacy_number(text: str) -> float | None:
    """Return the number that a text is, as ChartQA's code reads it; None if it is none. `5%` is 0.05."""
    try:
        if text.endswith("%"):
            return float(text.rstrip("%")) / 100
        return float(text)
    except ValueError:
        return None


RELAXED_ACCURACY = reply_metric(relaxed_accuracy, unit="share")
LEGACY_RELAXED_ACCURACY = reply_metric(
    legacy_relaxed_accuracy, unit="share", title="legacy relaxed accuracy"
)


# --- answers in LaTeX or plain signs, compared as expressions by math-verify (extra `math`) ---------------------------


MATH_TIMEOUT_SECONDS = 5
_LATEX_DELIMITER = late_pattern(r"\$|\\[(\[]|\\boxed")
"""What tells LaTeX apart from the words around it."""


def math_right(reply: str, references: Sequence[str]) -> Marks:
    """Return whether a reply states an expression that equals a reference: `1/2` and `\\frac{1}{2}`, `x=3` and 3.

    The expression is the last `\\boxed{}`, or else the answer that math-verify finds. A reply with the same text as a
    reference (a letter, a word) is also correct.

    Returns:
        (1.0,) if it does, (0.0,) if it does not, None if the reply has no expression.

    Raises:
        DataError: A reference is not a mathematical expression.
        MissingExtraError: math-verify is not installed.
    """
    golds: list[list[Any]] = []
    for reference in references:
        delimited = reference if "$" in reference else f"${reference}$"
        golds.append(parsed_expressions(delimited))
    if not golds or not all(golds):
        raise DataError(f"gold {' / '.join(references)!r} is not a mathematical expression")
    if any(_same_text(reply, reference) for reference in references):
        return (1.0,)
    if _RATIO.fullmatch(reply):
        return (0.0,)  # math-verify takes the first number of a ratio for the answer

    if "π" in reply and not _LATEX_DELIMITER.search(reply):
        reply = _TIMES_PI.sub(r"$\1\\pi$", reply)
    is_bare_latex = "\\" in reply and not _LATEX_DELIMITER.search(reply)
    answer = parsed_expressions(f"${reply}$") if is_bare_latex else []
    if not answer:
        answer = parsed_expressions(reply)
    if not answer:
        return None
    is_correct = any(_equal(gold, answer) for gold in golds)
    return (float(is_correct),)


def _same_text(reply: str, reference: str) -> bool:
    """Return whether two texts are equal, apart from some signs.

    Case, blanks around colons, and blanks, $ and full stops at the ends of the texts do not matter.
    """
    texts: list[str] = []
    for text in (reply, reference):
        folded = text.strip(" \n$.").casefold()
        texts.append(re.sub(r"\s*:\s*", ":", folded))
    return texts[0] == texts[1]


def parsed_expressions(text: str) -> list[Any]:
    """Return the expressions that math-verify finds in a text; those that are SymPy objects come first.

    Raises MissingExtraError if math-verify is not installed.
    """
    math_verify = import_extra(
        "math_verify", "math", "comparing mathematical expressions", "math-verify"
    )
    return list(math_verify.parse(text, parsing_timeout=_timeout_seconds()))


def _equal(gold: list[Any], answer: list[Any]) -> bool:
    from math_verify import verify

    return bool(verify(gold, answer, timeout_seconds=_timeout_seconds()))


def _timeout_seconds() -> int | None:
    """Return the number of seconds after which math-verify gives up an expression; None outside of the main thread.

    The timer of math-verify works only in the main thread.
    """
    return MATH_TIMEOUT_SECONDS if threading.current_thread() is threading.main_thread() else None


MATH_ACCURACY = read_rate_metric(
    "math",
    "an expression in the reply equals the reference's, by math-verify; and how many replies have none",
    [share_row("math_accuracy", interval="linearised", unparsed="wrong")],
    math_right,
)
