"""What ratings come to: means by model and dimension, agreement by dimension, and how each rater rated. Pure.

All values are turned so that high is good. Checks of attention enter nothing but the raters' table.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from snellen.analysis.statistics import NO_BOUNDS
from snellen.ratings.key import RatingKey
from snellen.ratings.reliability import alpha_estimate, crossed_mean
from snellen.ratings.sheets import RaterSheet
from snellen.records import Estimate
from snellen.seeds import rng_for

MOST_ALIKE = 0.5
"""A rater who gives one value in more than this share of the cells is flagged."""


class ModelRatings(Struct, frozen=True):
    """One model: its mean by dimension, then over the study's overalls; and the same in raters' standard deviations."""

    model: str
    means: dict[str, Estimate]
    standardised: dict[str, Estimate]
    """Of z-scores: each value less the rater's mean on the dimension, over the rater's standard deviation there."""


class DimensionAgreement(Struct, frozen=True):
    """One dimension over all models."""

    dimension: str
    mean: float | None
    alpha: Estimate
    """Krippendorff's alpha for interval values."""
    missing: int
    """Ratings that were not given."""


class RaterCheck(Struct, frozen=True):
    """How one person rated."""

    rater: str
    n: int
    missing: int
    value: int
    """The value given most often, as given."""
    share: float
    """Of the ratings, how many have that value."""
    checks: int
    """Checks of attention answered, wholly or in part."""
    failed: int
    """Checks in which a value is not the one asked for."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Why to be careful with this rater; empty when nothing is."""
        return tuple(
            flag
            for flag, holds in (
                (f"{self.value} in more than half of the cells", self.share > MOST_ALIKE),
                ("failed a check", self.failed > 0),
            )
            if holds
        )


class RatingSummary(Struct, frozen=True):
    """All tables of a study."""

    models: tuple[ModelRatings, ...]
    dimensions: tuple[DimensionAgreement, ...]
    raters: tuple[RaterCheck, ...]
    left_out: tuple[str, ...] = ()
    """Raters whose ratings do not count."""


def summarise_ratings(
    key: RatingKey, sheets: Sequence[RaterSheet], *, without_flagged: bool = False, seed: int = 0
) -> RatingSummary:
    """The tables of a study; `without_flagged` leaves out raters that are flagged, who stay in the raters' table."""
    raters = tuple(_rater_check(key, sheet) for sheet in sheets)
    counted = counted_sheets(key, sheets, without_flagged=without_flagged)
    left_out = tuple(sheet.rater for sheet in sheets if sheet not in counted)
    table = _Ratings(key, counted)
    scale = (float(key.study.lowest), float(key.study.highest))
    models = tuple(
        ModelRatings(
            model,
            {name: table.mean(model, names, scale, table.turned) for name, names in _columns(key).items()},
            {name: table.mean(model, names, NO_BOUNDS, table.z_scores) for name, names in _columns(key).items()},
        )
        for model in key.models
    )
    return RatingSummary(models, tuple(table.agreement(d.name, seed) for d in key.study.dimensions), raters, left_out)


def counted_sheets(key: RatingKey, sheets: Sequence[RaterSheet], *, without_flagged: bool) -> list[RaterSheet]:
    """The sheets that count: all, or those of raters who are not flagged."""
    return [sheet for sheet in sheets if not (without_flagged and _rater_check(key, sheet).flags)]


def question_means(key: RatingKey, sheets: Sequence[RaterSheet], model: str) -> dict[str, dict[str, float]]:
    """What a model's reply to each question has on average over raters, by dimension and overall, high is good.

    A rater counts who rated the reply on all dimensions of a column; a column that nobody rated is left out.
    """
    table, means = _Ratings(key, sheets), dict[str, dict[str, float]]()
    for item in key.items:
        if item.model == model and not item.is_check:
            for column, names in _columns(key).items():
                values = [value for _, value in table.full_cells(item.number, names, table.turned)]
                if values:
                    means.setdefault(item.scene, {})[column] = math.fsum(values) / len(values)
    return means


def _columns(key: RatingKey) -> dict[str, tuple[str, ...]]:
    """The columns of a table of models: each dimension, then each overall; with the dimensions that it averages."""
    single = {dimension.name: (dimension.name,) for dimension in key.study.dimensions}
    return {**single, **{overall.name: overall.dimensions for overall in key.study.overall}}


Cells = Mapping[tuple[str, int], float]
"""By rater and item."""


class _Ratings:
    """The ratings of a study by dimension."""

    def __init__(self, key: RatingKey, sheets: Sequence[RaterSheet]) -> None:
        self._items = [item for item in key.items if not item.is_check]
        self._raters = [sheet.rater for sheet in sheets]
        self.turned: dict[str, Cells] = {
            dimension.name: {
                (sheet.rater, item.number): float(key.study.oriented(dimension.name, value))
                for sheet in sheets
                for item in self._items
                if (value := sheet.ratings.get(item.number, {}).get(dimension.name)) is not None
            }
            for dimension in key.study.dimensions
        }
        self.z_scores = {name: _standardised(cells) for name, cells in self.turned.items()}

    def mean(
        self, model: str, dimensions: Sequence[str], bounds: tuple[float, float], values: Mapping[str, Cells]
    ) -> Estimate:
        """Mean over raters and items of a model."""
        numbers = [item.number for item in self._items if item.model == model]
        full = [(cell, value) for number in numbers for cell, value in self.full_cells(number, dimensions, values)]
        return crossed_mean(
            [value for _, value in full],
            [rater for (rater, _), _ in full],
            [number for (_, number), _ in full],
            bounds,
            len(numbers) * len(self._raters) - len(full),
        )

    def full_cells(
        self, number: int, dimensions: Sequence[str], values: Mapping[str, Cells]
    ) -> Iterator[tuple[tuple[str, int], float]]:
        """The cells of an item that are rated on all `dimensions`, each with the mean over these."""
        for rater in self._raters:
            some = [values[name].get((rater, number)) for name in dimensions]
            if len(whole := _whole(some)) == len(some):
                yield (rater, number), math.fsum(whole) / len(whole)

    def agreement(self, dimension: str, seed: int) -> DimensionAgreement:
        cells = self.turned[dimension]
        units = [
            [cells[rater, item.number] for rater in self._raters if (rater, item.number) in cells]
            for item in self._items
        ]
        return DimensionAgreement(
            dimension,
            math.fsum(cells.values()) / len(cells) if cells else None,
            alpha_estimate(units, rng_for("ratings", dimension, "bootstrap", seed)),
            len(self._raters) * len(self._items) - len(cells),
        )


def _whole(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _standardised(cells: Cells) -> Cells:
    """z-scores by rater; a rater who gives one value throughout, or rated a single item, has none."""
    by_rater: dict[str, list[float]] = {}
    for (rater, _), value in cells.items():
        by_rater.setdefault(rater, []).append(value)
    scales = {rater: scale for rater, values in by_rater.items() if (scale := _mean_and_deviation(values))}
    return {
        (rater, number): (value - scales[rater][0]) / scales[rater][1]
        for (rater, number), value in cells.items()
        if rater in scales
    }


def _mean_and_deviation(values: Sequence[float]) -> tuple[float, float] | None:
    n = len(values)
    mean = math.fsum(values) / n
    squares = math.fsum((value - mean) ** 2 for value in values)
    return (mean, math.sqrt(squares / (n - 1))) if n > 1 and squares > 0 else None


def _rater_check(key: RatingKey, sheet: RaterSheet) -> RaterCheck:
    rated = [item for item in key.items if not item.is_check]
    values = [value for item in rated for value in sheet.ratings.get(item.number, {}).values()]
    ranked = Counter(values).most_common(1)
    value, most = ranked[0] if ranked else (0, 0)
    answered = [item for item in key.items if item.is_check and item.number in sheet.ratings]
    failed = [
        item
        for item in answered
        if any(item.expected.get(name) != given for name, given in sheet.ratings[item.number].items())
    ]
    return RaterCheck(
        sheet.rater,
        len(values),
        len(rated) * len(key.study.dimensions) - len(values),
        value,
        most / len(values) if values else 0.0,
        len(answered),
        len(failed),
    )


def shown_titles(key: RatingKey) -> dict[str, str]:
    """The columns of a table of models with their titles; of a dimension where low is good, what was done to it."""
    turned = f" ({key.study.lowest + key.study.highest} - r)"
    titles = {d.name: d.title + (turned if d.better == "lower" else "") for d in key.study.dimensions}
    return {**titles, **{overall.name: overall.name for overall in key.study.overall}}
