"""The style of replies: how long they are and how much Markdown they have.

People prefer long, formatted replies at equal content. Chatbot Arena therefore rates models at equal style (Li,
Angelopoulos and Chiang, "Does style matter?", 2024): the differences of style between the two replies are covariates
beside the models. Here these differences are computed from a log of votes.
"""

from __future__ import annotations

import re

import polars as pl

from snellen import DataError
from snellen_server.arena_ratings.votes import Array

CHARACTERS = "characters"
MARKDOWN = {
    "headers": r"(?m)^#{1,6} ",
    "list_items": r"(?m)^\s*(?:[-*+]|\d+\.) ",
    "bold": r"\*\*[^*\n]+\*\*",
}
"""Patterns of the elements of Markdown that are counted."""
SIDES = ("left", "right")
MEASURES = (CHARACTERS, *MARKDOWN)
COVARIATE_NAMES = {CHARACTERS: "length", "list_items": "list items"}
"""Names of covariates for readers, where they differ from the name of the measure."""


def style_of(text: str, side: str) -> dict[str, float]:
    """Return the style of the reply on one side, by the names that `Battle` has for it.

    Example:
        >>> style_of("# Two birds\\n- a wren\\n- **a robin**", "left")
        {'left_characters': 34.0, 'left_headers': 1.0, 'left_list_items': 2.0, 'left_bold': 1.0}
    """
    measured = {f"{side}_{CHARACTERS}": float(len(text))}
    for name, pattern in MARKDOWN.items():
        measured[f"{side}_{name}"] = float(len(re.findall(pattern, text)))
    return measured


def has_style(table: pl.DataFrame) -> Array:
    """Return whether the style of both replies of each vote is known, Booleans of shape (N,).

    The style is known if the table has the reply itself or its number of characters.
    """
    is_known = pl.lit(True)
    for side in SIDES:
        has_reply = pl.col(f"{side}_reply").is_not_null()
        has_length = pl.col(f"{side}_{CHARACTERS}").is_not_null()
        is_known &= has_reply | has_length
    return table.select(is_known.alias("known"))["known"].to_numpy()


def style_differences(table: pl.DataFrame) -> dict[str, Array]:
    """Return the style covariates by name: differences between left and right reply, each of shape (N,).

    They are standardised to mean 0 and standard deviation 1. Length is the difference of log(characters + 1); a count
    of Markdown elements is (l - r) / (l + r + 1). A covariate that is the same in all votes is left out.

    Raises:
        DataError: If a vote has neither its replies nor their style, or no covariate remains.
    """
    missing = int((~has_style(table)).sum())
    if missing:
        raise DataError(
            f"{missing:,} of {table.height:,} votes have no replies, so style cannot be measured; remove style"
        )
    left_length = _style_column("left", CHARACTERS)
    right_length = _style_column("right", CHARACTERS)
    columns = {CHARACTERS: (left_length + 1).log() - (right_length + 1).log()}
    for name in MARKDOWN:
        left_count = _style_column("left", name)
        right_count = _style_column("right", name)
        columns[name] = (left_count - right_count) / (left_count + right_count + 1)
    differences = table.select(column.alias(name) for name, column in columns.items())

    covariates = {}
    for name in columns:
        values = differences[name].to_numpy()
        deviation = values.std()
        if deviation > 0:
            covariates[COVARIATE_NAMES.get(name, name)] = (values - values.mean()) / deviation
    if not covariates:
        raise DataError(
            "the two replies are of the same length and Markdown in all votes; remove style"
        )
    return covariates


def _style_column(side: str, name: str) -> pl.Expr:
    """Return the style of the reply on one side as a column: its number of characters, or of a Markdown element.

    It is counted in the text of the reply. If the text is missing, it is the count stored when the vote was cast.
    """
    text = pl.col(f"{side}_reply")
    if name == CHARACTERS:
        from_text = text.str.len_chars()
    else:
        from_text = text.str.count_matches(MARKDOWN[name])
    stored = pl.col(f"{side}_{name}")
    return pl.coalesce(from_text.cast(pl.Float64), stored)
