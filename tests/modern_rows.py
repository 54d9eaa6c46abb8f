"""What miniature tables of the datasets of the suite `modern` are made of: types of columns, images, questions."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from msgspec import Struct

import mini_hub
import small

TEXT, INT, TEXTS, PICTURE, VOTES = (
    pa.string(),
    pa.int64(),
    mini_hub.TEXTS,
    mini_hub.PICTURE,
    mini_hub.VOTES,
)
PICTURES, NUMBERS = pa.list_(PICTURE), pa.list_(INT)
ROWS = 6
ANIMALS = small.ANIMALS
Row = dict[str, Any]


class Table(Struct, frozen=True):
    """A file of a dataset: the types of its columns, and its rows by their numbers."""

    file: str
    types: dict[str, pa.DataType]
    row: Callable[[int], Row]
    rows: int = ROWS


def columns(names: str, kind: pa.DataType = TEXT) -> dict[str, pa.DataType]:
    return dict.fromkeys(names.split(), kind)


def shown(number: int) -> Row:
    return mini_hub.drawn(number + 1)


def ask(number: int) -> str:
    return f"Which animal is number {number}?"


def letter(number: int, options: int = 4) -> str:
    return "ABCDEFGHIJ"[number % options]


def lettered(form: str, options: int = 4, between: str = "\n") -> str:
    """Options as one text: `A. cat`, `B. dog`."""
    return between.join(f"{form.format(letter(n))}{ANIMALS[n]}" for n in range(options))


def base64_image(number: int) -> str:
    return base64.b64encode(small.picture(number + 1)).decode()
