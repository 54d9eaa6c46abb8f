"""Summarise the ratings of a study: means by model, agreement by dimension, checks of raters.

All values are turned so that high is good. Attention checks count in the table of raters only.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.plugin_api import Estimate, rng_for
from snellen_lab.ratings.rater_statistics import alpha_estimate, crossed_mean
from snellen_lab.ratings.sheets import RaterSheet, RatingKey

MAX_SAME_VALUE = 0.5
"""Share of ratings with the same value above which a rater is flagged."""
Z_SCORE_BOUNDS = (-math.inf, math.inf)


class ModelRatings(Struct, frozen=True):
    """Mean ratings of a model: for each dimension, then for each overall score of the study."""

    model: str
    means: dict[str, Estimate]
    standardised: dict[str, Estimate]
    """The same of z-scores: each value minus the rater's mean in the dimension, divided by the standard deviation."""


class DimensionAgreement(Struct, frozen=True):
    """Agreement of raters in a dimension, over all models."""

    dimension: str
    mean: float | None
    alpha: Estimate
    """Krippendorff's alpha for interval values."""
    missing: int
    """Ratings that were not given."""


class RaterCheck(Struct, frozen=True):
    """Signs of how carefully a person rated."""

    rater: str
    n: int
    missing: int
    value: int
    """The most frequent value, as given."""
    share: float
    """Share of the ratings that have this value."""
    checks: int
    """Attention checks that were answered, at least in part."""
    failed: int
    """Attention checks with a value that is not the expected one."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Return the reasons to doubt this rater; () if there are none."""
        flags = []
        if self.share > MAX_SAME_VALUE:
            flags.append(f"{self.value} in more than half of the cells")
        if self.failed:
            flags.append("failed a check")
        return tuple(flags)


class RatingSummary(Struct, frozen=True):
    """The results of a rating study."""

    models: tuple[ModelRatings, ...]
    dimensions: tuple[DimensionAgreement, ...]
    raters: tuple[RaterCheck, ...]
    left_out_raters: tuple[str, ...] = ()
    """Raters whose ratings were left out."""


def summarise_ratings(
    key: RatingKey, sheets: Sequence[RaterSheet], *, without_flagged: bool = False, seed: int = 0
) -> RatingSummary:
    """Summarise the ratings of a study.

    Args:
        key: The study's items.
        sheets: The sheets of all raters.
        without_flagged: Leave out flagged raters, except in the table of raters.
        seed: Seed of the bootstrap of alpha.
    """
    sheets_that_count = counted_sheets(key, sheets, without_flagged=without_flagged)
    ratings = _Ratings(key, sheets_that_count)
    scale = (float(key.study.lowest), float(key.study.highest))
    models = []
    for model in key.models:
        means = {}
        standardised = {}
        for column, dimensions in _columns(key).items():
            means[column] = ratings.mean(model, dimensions, scale, ratings.oriented)
            standardised[column] = ratings.mean(model, dimensions, Z_SCORE_BOUNDS, ratings.z_scores)
        models.append(ModelRatings(model, means, standardised))
    return RatingSummary(
        models=tuple(models),
        dimensions=tuple(
            ratings.agreement(dimension.name, seed) for dimension in key.study.dimensions
        ),
        raters=tuple(_rater_check(key, sheet) for sheet in sheets),
        left_out_raters=tuple(sheet.rater for sheet in sheets if sheet not in sheets_that_count),
    )


def counted_sheets(
    key: RatingKey, sheets: Sequence[RaterSheet], *, without_flagged: bool
) -> list[RaterSheet]:
    """Return the ratings of all raters, or of those without flags if `without_flagged` is set."""
    if not without_flagged:
        return list(sheets)
    return [sheet for sheet in sheets if not _rater_check(key, sheet).flags]


def question_means(
    key: RatingKey, sheets: Sequence[RaterSheet], model: str
) -> dict[str, dict[str, float]]:
    """Return the mean rating of a model's reply to each question. High is good.

    A rater counts in an overall score only if they rated the reply in all its dimensions. A
    dimension or score without any rating is left out.

    Returns:
        By question (scene), the means by dimension and overall score; {} if no reply of the model
        was rated.
    """
    ratings = _Ratings(key, sheets)
    means: dict[str, dict[str, float]] = defaultdict(dict)
    for item in key.items:
        if item.model != model or item.is_check:
            continue
        for column, dimensions in _columns(key).items():
            rated = list(ratings.complete_cells(item.number, dimensions, ratings.oriented))
            if rated:
                total = math.fsum(value for _, value in rated)
                means[item.scene][column] = total / len(rated)
    return dict(means)


def _columns(key: RatingKey) -> dict[str, tuple[str, ...]]:
    """Return the columns of the table of models, each with the dimensions that are averaged in it.

    A dimension has a column of its own: ("redundancy",). An overall score averages several.
    """
    columns: dict[str, tuple[str, ...]] = {}
    for dimension in key.study.dimensions:
        columns[dimension.name] = (dimension.name,)
    for overall in key.study.overall:
        columns[overall.name] = overall.dimensions
    return columns


RatingCell = tuple[str, int]
"""A rater and the number of an item."""
Ratings = Mapping[RatingCell, float]
"""Values in one dimension."""


class _Ratings:
    """The ratings of a study, as numbers by dimension, rater and item."""

    def __init__(self, key: RatingKey, sheets: Sequence[RaterSheet]) -> None:
        """Collect the ratings of each dimension, as values of which a high one is good, and as z-scores."""
        self._items = [item for item in key.items if not item.is_check]
        self._raters = [sheet.rater for sheet in sheets]
        self.oriented: dict[str, Ratings] = {}
        """Values by dimension, where high is good."""
        self.z_scores: dict[str, Ratings] = {}
        for dimension in key.study.dimensions:
            oriented = {}
            for sheet in sheets:
                for item in self._items:
                    value = sheet.ratings.get(item.number, {}).get(dimension.name)
                    if value is not None:
                        oriented_value = key.study.oriented(dimension.name, value)
                        oriented[sheet.rater, item.number] = float(oriented_value)
            self.oriented[dimension.name] = oriented
            self.z_scores[dimension.name] = _z_scores(oriented)

    def mean(
        self,
        model: str,
        dimensions: Sequence[str],
        bounds: tuple[float, float],
        values: Mapping[str, Ratings],
    ) -> Estimate:
        """Return a model's mean rating over raters and items.

        If there are several dimensions, the mean over them is taken first, for each rater and item.

        Args:
            model: The model.
            dimensions: Names of the dimensions.
            bounds: The smallest and the largest possible rating.
            values: The ratings by dimension, and in it by rater and item.
        """
        numbers = [item.number for item in self._items if item.model == model]
        means = []
        raters = []
        items = []
        for number in numbers:
            for rater, value in self.complete_cells(number, dimensions, values):
                means.append(value)
                raters.append(rater)
                items.append(number)
        missing = len(numbers) * len(self._raters) - len(means)
        return crossed_mean(means, raters, items, bounds, missing)

    def complete_cells(
        self, number: int, dimensions: Sequence[str], values: Mapping[str, Ratings]
    ) -> Iterator[tuple[str, float]]:
        """Yield each rater who rated an item in all these dimensions, with the mean of the ratings.

        Args:
            number: Number of the item.
            dimensions: Names of the dimensions.
            values: The ratings by dimension, and in it by rater and item.
        """
        for rater in self._raters:
            cell = (rater, number)
            if all(cell in values[dimension] for dimension in dimensions):
                total = math.fsum(values[dimension][cell] for dimension in dimensions)
                yield rater, total / len(dimensions)

    def agreement(self, dimension: str, seed: int) -> DimensionAgreement:
        """Return how well raters agree in a dimension; `seed` is that of the bootstrap interval of alpha."""
        ratings = self.oriented[dimension]
        ratings_by_item = []
        for item in self._items:
            cells = [(rater, item.number) for rater in self._raters]
            ratings_by_item.append([ratings[cell] for cell in cells if cell in ratings])
        mean = None
        if ratings:
            mean = math.fsum(ratings.values()) / len(ratings)
        rng = rng_for("ratings", dimension, "bootstrap", seed)
        return DimensionAgreement(
            dimension=dimension,
            mean=mean,
            alpha=alpha_estimate(ratings_by_item, rng),
            missing=len(self._raters) * len(self._items) - len(ratings),
        )


def _z_scores(ratings: Ratings) -> Ratings:
    """Standardise ratings by rater: (value - mean) / standard deviation of the rater's values.

    Args:
        ratings: The ratings by rater and item.

    Returns:
        The z-scores. A rater with a single rating, or with equal ones, has none.
    """
    values_by_rater: dict[str, list[float]] = defaultdict(list)
    for (rater, _), value in ratings.items():
        values_by_rater[rater].append(value)

    means: dict[str, float] = {}
    deviations: dict[str, float] = {}
    for rater, values in values_by_rater.items():
        n = len(values)
        mean = math.fsum(values) / n
        sum_of_squares = math.fsum((value - mean) ** 2 for value in values)
        if n > 1 and sum_of_squares > 0:
            means[rater] = mean
            deviations[rater] = math.sqrt(sum_of_squares / (n - 1))

    z_scores = {}
    for (rater, number), value in ratings.items():
        if rater in means:
            z_scores[rater, number] = (value - means[rater]) / deviations[rater]
    return z_scores


def _rater_check(key: RatingKey, sheet: RaterSheet) -> RaterCheck:
    """Return the check of a rater's sheet."""
    values: list[int] = []
    n_items = 0
    checks = 0
    failed = 0
    for item in key.items:
        ratings = sheet.ratings.get(item.number)
        if not item.is_check:
            n_items += 1
            values.extend((ratings or {}).values())
        elif ratings is not None:
            checks += 1
            if any(item.expected.get(name) != value for name, value in ratings.items()):
                failed += 1

    most_frequent = 0
    count = 0
    if values:
        [(most_frequent, count)] = Counter(values).most_common(1)
    return RaterCheck(
        rater=sheet.rater,
        n=len(values),
        missing=n_items * len(key.study.dimensions) - len(values),
        value=most_frequent,
        share=count / len(values) if values else 0.0,
        checks=checks,
        failed=failed,
    )


def shown_titles(key: RatingKey) -> dict[str, str]:
    """Return the titles of the columns in the table of models, by the column's name.

    If low ratings are good in a dimension, its title says how values were turned, as in "Redundancy
    (6 - r)".
    """
    orientation = f" ({key.study.lowest + key.study.highest} - r)"
    titles = {}
    for dimension in key.study.dimensions:
        title = dimension.title
        if dimension.better == "lower":
            title += orientation
        titles[dimension.name] = title
    for overall in key.study.overall:
        titles[overall.name] = overall.name
    return titles
