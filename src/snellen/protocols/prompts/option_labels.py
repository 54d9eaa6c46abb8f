"""Option labels: what stands in front of an option."""

from __future__ import annotations

import string
from collections.abc import Sized
from typing import Literal

from snellen.common.seeds import rng_for

LabelStyle = Literal["upper", "lower", "number", "random"]
"""The alphabet that labels are of; `random` draws one of the three for each question."""
LABEL_STYLES: tuple[LabelStyle, ...] = ("upper", "lower", "number", "random")


def labels_for(style: LabelStyle, count: int, *names: str | int) -> tuple[str, ...]:
    """`count` labels in order of place; "random" draws one of the three alphabets, by a generator that `names` seed.

    Above 26 options all are numbers.
    """
    if style == "random":
        style = rng_for(*names).choice(("upper", "lower", "number"))
    return _alphabet(style, count)


def alphabet_of(labels: tuple[str, ...], options: Sized) -> tuple[str, ...]:
    """As many labels as there are `options`, from the alphabet of `labels`; numbers if there are more than 26."""
    if not labels:
        return ()
    first = labels[0]
    return _alphabet("number" if first.isdigit() else "upper" if first.isupper() else "lower", len(options))


def _alphabet(style: str, count: int) -> tuple[str, ...]:
    if style == "number" or count > len(string.ascii_uppercase):
        return tuple(str(i + 1) for i in range(count))
    return tuple((string.ascii_uppercase if style == "upper" else string.ascii_lowercase)[:count])
