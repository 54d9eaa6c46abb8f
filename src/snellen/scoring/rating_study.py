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
    """A mean over several rated dimensions. Ratings in a dimension where low is good are reversed first."""

    name: str
    dimensions: tuple[str, ...]


class PublishedSheet(Struct, frozen=True, forbid_unknown_fields=True):
    """What the rows of a published sheet of ratings are about, which the sheet itself does not say.

    It has one row per model for each scene, in the order of `scenes` and, within a scene, of `models`.
    """

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

    @staticmethod
    def find(name: str) -> RatingStudy:
        """Return the study in a TOML file, or the one that a suite brings by this name.

        Raises:
            UnknownNameError: No suite has such a study.
            DataError: The file declares no study, or one with a fault.

        Examples:
            >>> RatingStudy.find("lvlm-ehub-embodied").lowest
            1
        """
        if name.endswith(".toml"):
            return RatingStudy.read(Path(name))
        study: RatingStudy = find_registered("rating_studies", name)
        return study

    @staticmethod
    def read(file: Path | Traversable) -> RatingStudy:
        """Read a study from a TOML file.

        Raises:
            DataError: The file declares no study, or one with a fault, which the message names.

        Examples:
            >>> head = 'name = "captions"\\ntitle = "Captions of animals"'
            >>> dimension = 'name = "fit"\\ntitle = "Does the caption fit the image?"'
            >>> _ = Path("captions.toml").write_text(f"{head}\\n[[dimensions]]\\n{dimension}\\n")
            >>> RatingStudy.read(Path("captions.toml")).dimensions[0].name
            'fit'
        """
        try:
            study = msgspec.convert(tomllib.loads(read_text(file)), RatingStudy)
        except (
            OSError,
            UnicodeDecodeError,
            tomllib.TOMLDecodeError,
            msgspec.ValidationError,
        ) as error:
            raise DataError(
                f"{file}: not a study of ratings ({error}); docs/ratings.md has an example"
            ) from None
        fault = _fault(study)
        if fault:
            raise DataError(f"{file}: {fault}")
        return study

    def metric(self, prefix: str = "rated_") -> RatedMetric:
        """Return the metric of the ratings that people give in this study.

        Its rows are the overall means, the first of which is the headline, and then the dimensions. All values lie on
        the scale of the study and are turned so that high is good.

        Args:
            prefix: Beginning of the name of each row.

        Examples:
            >>> RatingStudy.find("lvlm-ehub-embodied").metric().study
            'lvlm-ehub-embodied'
        """
        columns = [overall.name for overall in self.overall]
        columns += [dimension.name for dimension in self.dimensions]
        unit = f"from {self.lowest} to {self.highest}"
        rows = []
        for column in columns:
            row = metric_row(
                f"{prefix}{column.replace(' ', '_')}",
                unit=unit,
                scale=self.name,
                low=float(self.lowest),
                high=float(self.highest),
            )
            rows.append(row)
        return RatedMetric(
            description=f"what people give in the study {self.name}, mean over raters, high is good",
            rows=tuple(rows),
            study=self.name,
            columns=tuple(columns),
        )

    @property
    def values(self) -> range:
        return range(self.lowest, self.highest + 1)

    def dimension(self, name: str) -> RatingDimension:
        """Return the dimension of a name. Raises KeyError if there is none."""
        by_name = {dimension.name: dimension for dimension in self.dimensions}
        return by_name[name]

    def oriented(self, dimension: str, value: int) -> int:
        """Return a rating on a scale where high is good.

        If low is good in the dimension, the scale is reversed: on a scale from 1 to 5, 2 becomes 4.

        Args:
            dimension: The name of the dimension.
            value: The rating.
        """
        if self.dimension(dimension).better == "higher":
            return value
        return self.lowest + self.highest - value


def _fault(study: RatingStudy) -> str:
    """Return the first mistake in the settings of a rating study, and how to correct it; empty if there is none."""
    names = [dimension.name for dimension in study.dimensions]
    if not names:
        return "there are no dimensions; add [[dimensions]] with name and title"
    if len(set(names)) < len(names):
        return "two dimensions have the same name; rename one"
    if not 0 <= study.lowest < study.highest <= 9:
        return f"the scale goes from {study.lowest} to {study.highest}; give digits from 0 to 9, the lowest first"
    for overall in study.overall:
        unknown_names = [name for name in overall.dimensions if name not in names]
        if unknown_names or not overall.dimensions:
            averaged = ", ".join(unknown_names) or "nothing"
            return f"the overall {overall.name!r} is a mean of {averaged}; name some of {', '.join(names)}"
    return ""
