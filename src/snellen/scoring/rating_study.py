"""What people rate: a study of ratings, as its TOML file declares it, and the metric of what they gave.

A suite brings a study by a name in the group `rating_studies`. The package snellen-lab has people rate replies.
"""

from __future__ import annotations

import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from snellen.common.foreign import read_text
from snellen.errors import DataError
from snellen.metrics.declaration import metric_row
from snellen.registry import find_registered
from snellen.scoring.run_ratings import RatedMetric


class RatingDimension(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that is rated."""

    name: str
    title: str
    """As in a table, and at the end of a column's title in a sheet."""
    question: str = ""
    """What a rater is asked."""
    low: str = ""
    """What the lowest value means."""
    high: str = ""
    better: Literal["higher", "lower"] = "higher"
    columns: tuple[str, ...] = ()
    """Other words by which a sheet's columns call it."""


class OverallRating(Struct, frozen=True, forbid_unknown_fields=True):
    """A mean over dimensions, each turned so that high is good."""

    name: str
    dimensions: tuple[str, ...]


class PublishedSheet(Struct, frozen=True, forbid_unknown_fields=True):
    """What the items of a sheet were, which says so nowhere: for each scene one item per model, in this order."""

    models: tuple[str, ...]
    scenes: tuple[str, ...]


class RatingStudy(Struct, frozen=True, forbid_unknown_fields=True):
    """A study as its TOML file declares it."""

    name: str
    title: str
    dimensions: tuple[RatingDimension, ...]
    lowest: int = 1
    highest: int = 5
    instructions: str = ""
    """What raters read first."""
    citation: str = ""
    overall: tuple[OverallRating, ...] = ()
    sheet: PublishedSheet | None = None

    @property
    def values(self) -> range:
        return range(self.lowest, self.highest + 1)

    def dimension(self, name: str) -> RatingDimension:
        return next(dimension for dimension in self.dimensions if dimension.name == name)

    def oriented(self, dimension: str, value: int) -> int:
        """The value turned so that high is good: lowest + highest - value where low is good, 6 - value from 1 to 5."""
        return (
            value
            if self.dimension(dimension).better == "higher"
            else self.lowest + self.highest - value
        )


def find_rating_study(name: str) -> RatingStudy:
    """The study in a TOML file, or the one that a suite brings by this name. Raises DataError, UnknownNameError.

    Examples:
        >>> find_rating_study("lvlm-ehub-embodied").lowest
        1
    """
    if name.endswith(".toml"):
        return read_rating_study(Path(name))
    study: RatingStudy = find_registered("rating_studies", name)
    return study


def read_rating_study(file: Path | Traversable) -> RatingStudy:
    """The study that a TOML file declares. Raises DataError naming the file and what is wrong in it."""
    try:
        study = msgspec.convert(tomllib.loads(read_text(file)), RatingStudy)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise DataError(
            f"{file}: not a study of ratings ({error}); docs/ratings.md has an example"
        ) from None
    if fault := _fault(study):
        raise DataError(f"{file}: {fault}")
    return study


def _fault(study: RatingStudy) -> str:
    names = [dimension.name for dimension in study.dimensions]
    if not names:
        return "there are no dimensions; add [[dimensions]] with name and title"
    if len(set(names)) < len(names):
        return "two dimensions have the same name; rename one"
    if not 0 <= study.lowest < study.highest <= 9:
        return f"the scale goes from {study.lowest} to {study.highest}; give digits from 0 to 9, the lowest first"
    for overall in study.overall:
        if not overall.dimensions or (
            unknown := [name for name in overall.dimensions if name not in names]
        ):
            dimension_names = ", ".join(unknown) if overall.dimensions else "nothing"
            return f"the overall {overall.name!r} is a mean of {dimension_names}; name some of {', '.join(names)}"
    return ""


def rated_metric(study: RatingStudy, prefix: str = "rated_") -> RatedMetric:
    """What people give in a study: its overall means, the first of which is its headline, then its dimensions.

    All are turned so that high is good, and lie on the study's scale.

    Examples:
        >>> rated_metric(find_rating_study("lvlm-ehub-embodied")).study
        'lvlm-ehub-embodied'
    """
    columns = (
        *(overall.name for overall in study.overall),
        *(dimension.name for dimension in study.dimensions),
    )
    bounds = {"low": float(study.lowest), "high": float(study.highest)}
    unit = f"from {study.lowest} to {study.highest}"
    rows = (
        metric_row(f"{prefix}{column.replace(' ', '_')}", unit=unit, scale=study.name, **bounds)
        for column in columns
    )
    description = f"what people give in the study {study.name}, mean over raters, high is good"
    return RatedMetric(description=description, rows=tuple(rows), study=study.name, columns=columns)
