"""Numbers, units and LaTeX are read once, and exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.formats.quantities import (
    plain_latex,
    quantities,
    readings,
    whole_quantity,
)
from snellen.metrics.ocr import contains_answer, exact_match
from snellen.metrics.vqa import typed_match


@pytest.mark.parametrize(
    ("text", "value", "root", "pi", "unit"),
    [
        ("-5", Fraction(-5), 1, 0, ""),
        ("$3.50", Fraction(7, 2), 1, 0, "$"),
        ("12,50 €", Fraction(25, 2), 1, 0, "€"),
        ("1 250 €", Fraction(1250), 1, 0, "€"),
        (r"\frac{1}{2}", Fraction(1, 2), 1, 0, ""),
        (r"2\sqrt{3}", Fraction(2), 3, 0, ""),
        (r"\sqrt{12}", Fraction(2), 3, 0, ""),
        (r"\frac{3\pi}{4}", Fraction(3, 4), 1, 1, ""),
        ("12 cm³", Fraction(12), 1, 0, "cm^3"),
        ("12 square centimetres", Fraction(12), 1, 0, "cm^2"),
        ("12.5 million", Fraction(12_500_000), 1, 0, ""),
        ("1억 2천만 원", Fraction(120_000_000), 1, 0, "₩"),
        ("1.2亿元", Fraction(120_000_000), 1, 0, "yuan"),
        ("25 per cent", Fraction(25), 1, 0, "%"),
        ("90 km/h", Fraction(90), 1, 0, "km/h"),
    ],
)
def test_a_quantity_is_a_value_and_a_unit(
    text: str, value: Fraction, root: int, pi: int, unit: str
) -> None:
    [quantity] = quantities(text)
    assert (quantity.values[0], quantity.root, quantity.pi, quantity.unit) == (
        value,
        root,
        pi,
        unit,
    )


def test_a_separator_that_can_be_either_gives_both_readings_unless_settled() -> None:
    assert set(readings("1,250")) == {Fraction(1250), Fraction(5, 4)}
    assert readings("1.250", ",") == (Fraction(1250),)
    assert readings("1.250", ".") == (Fraction(5, 4),)


@given(st.integers(-10_000, 10_000), st.sampled_from(["cm", "km", "%", "€"]))
def test_a_written_integer_is_read_back_with_its_sign_and_unit(number: int, unit: str) -> None:
    quantity = whole_quantity(f"{number} {unit}")
    assert quantity is not None
    assert (quantity.values, quantity.unit) == ((Fraction(number),), unit)


@given(st.text(max_size=80))
def test_no_text_raises_and_plain_latex_keeps_the_length(text: str) -> None:
    assert len(plain_latex(text)) == len(text)
    for quantity in quantities(text):
        assert 0 <= quantity.start < quantity.end <= len(text)


@pytest.mark.parametrize("metric", [exact_match, contains_answer, typed_match])
@pytest.mark.parametrize(
    ("reply", "gold"),
    [("-5", "5"), ("5", "-5"), ("$10", "EUR 10"), ("€10", "$10"), ("5 km", "5 cm")],
)
def test_a_number_keeps_its_sign_and_unit_in_every_metric_of_answers(
    metric, reply: str, gold: str
) -> None:  # type: ignore[no-untyped-def]
    assert metric(reply, [gold]) == 0.0
    assert metric(reply, [reply]) == 1.0
