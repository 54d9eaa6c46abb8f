"""Ratings of parts of the votes, and of all votes at equal style, for the links above the table of ratings.

The parts are categories of questions, which the operator defines by patterns, and languages of questions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError
from snellen_server.arena.languages import NAMES
from snellen_server.arena.settings import QuestionCategory
from snellen_server.arena_ratings.log import Battle, VoteLog, vote_log
from snellen_server.arena_ratings.rating import (
    ModelRating,
    Term,
    counted_votes,
    ranked_when_settled,
    rate_votes,
)
from snellen_server.arena_ratings.style import has_style
from snellen_server.arena_ratings.votes import RatingSettings

SliceKind = Literal["style", "category", "language"]
MIN_VOTES = 50
"""Counted votes that a part needs before it is rated."""
MAX_SLICES = 12
"""Categories, and languages, that are rated at most: those with the most votes."""


class RatingSlice(Struct, frozen=True):
    """The ratings from a part of the votes (a category or a language), or from all at equal style."""

    kind: SliceKind
    name: str
    """A category, the name of a language, or `equal style`."""
    votes: int
    models: tuple[ModelRating, ...]
    """Models on which enough people have voted in this part; the best first in each group."""
    terms: tuple[Term, ...] = ()
    """What the differences of style are worth, in points per standard deviation."""

    @property
    def address(self) -> str:
        """Return the value of the query parameter `by` in the address of this slice's page."""
        return f"{self.kind}:{self.name}"


def category_of(question: str, categories: Sequence[QuestionCategory]) -> str:
    """Return the first category whose pattern is found in a question; an empty string if there is none."""
    for category in categories:
        if re.search(category.pattern, question, re.IGNORECASE):
            return category.name
    return ""


def rated_slices(battles: Sequence[Battle], settings: RatingSettings) -> tuple[RatingSlice, ...]:
    """Rate the votes at equal style, then the votes of each category and of each language.

    Only the `MAX_SLICES` largest categories and languages with at least `MIN_VOTES` votes are rated. Slices that
    cannot be rated are left out.
    """
    with_sandwich = replace(settings, interval="sandwich")
    log = vote_log(battles)
    slices = []

    log_with_style = VoteLog(log.battles.filter(pl.Series(has_style(log.battles))))
    at_equal_style = replace(with_sandwich, style=True)
    slices.append(_rated_slice("style", "equal style", log_with_style, at_equal_style))

    categories = Counter(battle.category for battle in battles if battle.category)
    for category, count in categories.most_common(MAX_SLICES):
        if count >= MIN_VOTES:
            of_category = replace(with_sandwich, category=category)
            slices.append(_rated_slice("category", category, log, of_category))

    languages = Counter(battle.language for battle in battles if battle.language)
    for code, count in languages.most_common(MAX_SLICES):
        if count >= MIN_VOTES:
            of_language = replace(with_sandwich, language=code)
            slices.append(_rated_slice("language", NAMES.get(code, code), log, of_language))
    return tuple(rated for rated in slices if rated is not None)


def _rated_slice(
    kind: SliceKind, name: str, log: VoteLog, settings: RatingSettings
) -> RatingSlice | None:
    """Rate a part of the votes; None if it has too few votes or no models that can be ranked."""
    try:
        if counted_votes(log, settings).count < MIN_VOTES:
            return None
        rating = rate_votes(log, settings)
    except DataError:  # no vote is left, or no two models can be compared
        return None
    models = ranked_when_settled(rating.models)
    return RatingSlice(kind, name, rating.votes, models, rating.terms) if models else None
