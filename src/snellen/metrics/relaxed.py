"""Relaxed accuracy: a number may be off by 5 %, anything else has to be the same (ChartQA, PlotQA)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from snellen.formats.quantities import quantities, units_agree, whole_quantity
from snellen.metrics.declaration import reply_metric
from snellen.metrics.normalise import standard_normalise
from snellen.metrics.numbers import read_numbers
from snellen.metrics.ocr import normalised_references

TOLERANCE = Fraction(1, 20)
_YEAR = re.compile(r"(?:1[89]|20)\d\d")


def relaxed_accuracy(reply: str, references: Sequence[str]) -> float:
    """1 if the reply is a gold's number to within 5 %, or the words of a gold that is no number (Methani et al. 2020).

    The number is the only one in the reply, in words or in figures, with thousands separators, a unit or a percent
    sign: `5%` agrees with 5 and with 0.05, `$5` with neither `5%` nor 5 km. A gold of zero, or one that is a year
    (1800 to 2099, bare), has to be met exactly: 5 % of a year is a century. Other golds are compared by
    `normalise.standard`. Raises DataError as `word_accuracy`.
    """
    golds = zip(normalised_references(references, standard_normalise), references, strict=True)
    words, numbers = standard_normalise(reply), _numbers(reply)
    return float(
        any(
            words == gold if (number := _whole(reference)) is None else _meets(numbers, number, reference)
            for gold, reference in golds
        )
    )


Number = tuple[Fraction, str]
"""A value and its unit; empty for none."""


def _numbers(reply: str) -> list[Number]:
    found = [(one.values[0], one.unit) for one in quantities(reply, ".") if one.root == 1 and not one.pi]
    return found or [(value, "") for value in read_numbers(reply)]


def _whole(text: str) -> Number | None:
    quantity = whole_quantity(text, ".")
    return (quantity.values[0], quantity.unit) if quantity and quantity.root == 1 and not quantity.pi else None


def _meets(said: Sequence[Number], gold: Number, reference: str) -> bool:
    if len(said) != 1 or not units_agree(said[0][1], gold[1]):
        return False
    (value, unit), (wanted, gold_unit) = said[0], gold
    readings = [value]
    if {unit, gold_unit} == {"%", ""}:
        readings.append(value / 100 if unit else value * 100)
    slack = 0 if not wanted or _YEAR.fullmatch(reference.strip()) else TOLERANCE * abs(wanted)
    return any(abs(reading - wanted) <= slack for reading in readings)


def legacy_relaxed_accuracy(reply: str, references: Sequence[str]) -> float:
    """`relaxed_correctness` of pix2struct, which published tables use, to the letter; 1 or 0.

    So any year agrees with any other, `5%` does not agree with 5, `1,200` not with 1200 nor `0.0` with 0, and `12 cm`
    is compared as a text.
    """
    return float(any(_legacy_meets(reply, reference) for reference in references))


def _legacy_meets(reply: str, reference: str) -> bool:
    said, wanted = _legacy_number(reply), _legacy_number(reference)
    if said is not None and wanted:
        return abs(said - wanted) / abs(wanted) <= 0.05
    return reply.lower() == reference.lower()


def _legacy_number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


RELAXED_ACCURACY = reply_metric(relaxed_accuracy, unit="share")
LEGACY_RELAXED_ACCURACY = reply_metric(legacy_relaxed_accuracy, unit="share", title="legacy relaxed accuracy")
