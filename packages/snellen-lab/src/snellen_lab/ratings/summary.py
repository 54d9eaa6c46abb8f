"""What ratings come to: means by model and dimension, agreement by dimension, and how each rater rated. Pure.

All values are turned so that high is good. Checks of attention enter nothing but the raters' table.

The ratings gathered in a study's folder, and how they are given to the runs whose replies were rated.

ratings.jsonl   one RaterSheet per line, and one for each rater
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import msgspec
from msgspec import Struct

from snellen.plugin_api import (
    DataError,
    Estimate,
    RatingStudy,
    RunRatings,
    StoreError,
    as_word,
    group_spread,
    kept_lines,
    read_manifest,
    rng_for,
    score_interval,
    student_t,
    unvaried_interval,
    write_atomically,
    write_run_ratings,
)
from snellen_lab.ratings.sheets import (
    RaterSheet,
    RatingKey,
    published_key,
    read_key,
    read_sheets,
    write_key,
)

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
            {
                name: table.mean(model, names, scale, table.turned)
                for name, names in _columns(key).items()
            },
            {
                name: table.mean(model, names, (-math.inf, math.inf), table.z_scores)
                for name, names in _columns(key).items()
            },
        )
        for model in key.models
    )
    return RatingSummary(
        models, tuple(table.agreement(d.name, seed) for d in key.study.dimensions), raters, left_out
    )


def counted_sheets(
    key: RatingKey, sheets: Sequence[RaterSheet], *, without_flagged: bool
) -> list[RaterSheet]:
    """The sheets that count: all, or those of raters who are not flagged."""
    return [sheet for sheet in sheets if not (without_flagged and _rater_check(key, sheet).flags)]


def question_means(
    key: RatingKey, sheets: Sequence[RaterSheet], model: str
) -> dict[str, dict[str, float]]:
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
        self,
        model: str,
        dimensions: Sequence[str],
        bounds: tuple[float, float],
        values: Mapping[str, Cells],
    ) -> Estimate:
        """Mean over raters and items of a model."""
        numbers = [item.number for item in self._items if item.model == model]
        full = [
            (cell, value)
            for number in numbers
            for cell, value in self.full_cells(number, dimensions, values)
        ]
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
            cell = (rater, number)
            if all(cell in values[name] for name in dimensions):
                yield cell, math.fsum(values[name][cell] for name in dimensions) / len(dimensions)

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


def _standardised(cells: Cells) -> Cells:
    """z-scores by rater; a rater who gives one value throughout, or rated a single item, has none."""
    by_rater: dict[str, list[float]] = {}
    for (rater, _), value in cells.items():
        by_rater.setdefault(rater, []).append(value)
    scales = {
        rater: scale for rater, values in by_rater.items() if (scale := _mean_and_deviation(values))
    }
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
        if any(
            item.expected.get(name) != given_value
            for name, given_value in sheet.ratings[item.number].items()
        )
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
    titles = {
        d.name: d.title + (turned if d.better == "lower" else "") for d in key.study.dimensions
    }
    return {**titles, **{overall.name: overall.name for overall in key.study.overall}}


# --- agreement of raters ---------------------------------------------------------------------------------------------


RESAMPLES = 2000


def alpha_estimate(units: Sequence[Sequence[float]], rng: random.Random) -> Estimate:
    """Krippendorff's alpha for interval values: 1 - observed / expected disagreement, at most 1; 0 is chance. With the
    2.5th and 97.5th percentile over resamples of items; n counts values.

    A unit holds the values that one item got; items with one value count for nothing. With the difference function
    (a - b)^2 the disagreement of all ordered pairs of m values is 2 (m sum x^2 - (sum x)^2), so
    alpha = 1 - (n - 1) sum_u [m_u S_u - T_u^2] / (m_u - 1) / (n S - T^2) (Krippendorff 2011, "Computing
    Krippendorff's Alpha-Reliability"). None where all values are the same, or none can be compared.
    Raters are not drawn again: two copies of one rater would agree with each other.
    """
    moments = [_moments(unit) for unit in units if len(unit) > 1]
    alphas = (
        _alpha(rng.choices(moments, k=len(moments)))
        for _ in range(RESAMPLES if len(moments) > 1 else 0)
    )
    sorted_alphas = sorted(value for value in alphas if value is not None)
    low, high = (
        (sorted_alphas[round(share * (len(sorted_alphas) - 1))] for share in (0.025, 0.975))
        if sorted_alphas
        else (None, None)
    )
    return Estimate(
        _alpha(moments), None, low, high, sum(m for m, _, _ in moments), groups=len(moments)
    )


_Moments = tuple[int, float, float]
"""How many values, their sum, the sum of their squares."""


def _moments(unit: Sequence[float]) -> _Moments:
    return len(unit), math.fsum(unit), math.fsum(value * value for value in unit)


def _alpha(units: Sequence[_Moments]) -> float | None:
    n, total, squares = (math.fsum(unit[place] for unit in units) for place in range(3))
    expected = n * squares - total * total
    if expected <= 0:
        return None
    observed = math.fsum((m * square - part * part) / (m - 1) for m, part, square in units)
    return 1 - (n - 1) * observed / expected


def crossed_mean(
    values: Sequence[float],
    raters: Sequence[Hashable],
    items: Sequence[Hashable],
    bounds: tuple[float, float],
    missing: int = 0,
) -> Estimate:
    """Mean of ratings with a 95% interval for other raters and other items; each rates, or is rated, many times.

    The variance is V_raters + V_items - V_cells (Cameron, Gelbach and Miller 2011, section 2.2), each a
    delete-one-group jackknife, and at least the larger of the first two, since the difference can come out too small.
    Student's t has as many degrees of freedom as the fewer of raters and items, less one (the same, section 2.3). The
    interval bends near the bounds of the scale (`score_interval`). None for a single rater or item. `missing` ratings
    are counted as unscored.
    """
    n = len(values)
    if not n:
        return Estimate(None, None, None, None, 0, missing)
    mean = math.fsum(values) / n
    parts = [(value - mean) / n for value in values]
    by_rater, by_item = group_spread(parts, raters), group_spread(parts, items)
    fewest = min(by_rater.groups, by_item.groups)
    if fewest < 2:
        return Estimate(mean, None, None, None, n, missing, 0, fewest)
    cells = group_spread(parts, range(n)).jackknife
    rater_variance, item_variance = by_rater.jackknife, by_item.jackknife
    variance = max(rater_variance + item_variance - cells, rater_variance, item_variance)
    factor = (student_t(fewest - 1) / NormalDist().inv_cdf(0.975)) ** 2
    if variance > 1e-24 and bounds[0] < mean < bounds[1]:
        low, high = score_interval(mean, factor * variance, bounds)
        return Estimate(mean, math.sqrt(variance), low, high, n, missing, 0, fewest)
    return Estimate(
        mean, math.sqrt(variance), *unvaried_interval(mean, fewest, bounds), n, missing, 0, fewest
    )


SHEETS = "ratings.jsonl"


class Gathered(Struct, frozen=True):
    """What reading files did: all sheets that the folder now has, and what there is to say of the files."""

    sheets: tuple[RaterSheet, ...]
    added: int
    notes: tuple[str, ...]


def gather(
    folder: Path, files: Sequence[Path], study: RatingStudy | None = None, *, replace: bool = False
) -> Gathered:
    """Add the ratings in `files` to a study's folder; nothing is written unless all can be read.

    With `study` the folder is made for its published sheet. A rater whose ratings are there already counts once;
    where they differ, DataError, unless the new ones are to `replace` them. Raises DataError, StoreError.
    """
    key = read_key(folder) if study is None else published_key(study)
    sheets = {
        sheet.rater: sheet
        for sheet in (read_gathered(folder) if (folder / SHEETS).exists() else ())
    }
    earlier_raters, notes = set(sheets), list[str]()
    fresh = set[str]()
    for file in files:
        sheets_read = read_sheets(file, key)
        notes += [f"{file.name}: {note}" for note in sheets_read.notes]
        for sheet in sheets_read.sheets:
            earlier = sheets.get(sheet.rater)
            if (
                earlier
                and earlier.ratings != sheet.ratings
                and (sheet.rater in fresh or not replace)
            ):
                raise DataError(
                    f"{file}: {sheet.rater!r} has rated already ({earlier.source}), and differently; rename one of "
                    "the two, or let the new ratings take the place of the earlier ones with --replace"
                )
            fresh.add(sheet.rater)
            sheets[sheet.rater] = sheet
    if study is not None:
        write_key(folder, key)
    all_sheets = tuple(sheets.values())
    write_atomically(folder / SHEETS, msgspec.json.Encoder().encode_lines(all_sheets))
    return Gathered(all_sheets, len(set(sheets) - earlier_raters), tuple(notes))


def read_gathered(folder: Path) -> tuple[RaterSheet, ...]:
    """The ratings in a study's folder. Raises StoreError when there are none, or a line is not a rater's sheet."""
    path = folder / SHEETS
    if not path.exists():
        raise StoreError(
            f"{folder}: no ratings yet; `snellen rate read {as_word(folder)} FILES...` adds some"
        )
    return tuple(kept_lines(path, RaterSheet, "a rater's ratings"))


# --- ratings given to runs -------------------------------------------------------------------------------------------


def give_ratings(
    folder: Path, runs: Sequence[Path], *, without_flagged: bool = False
) -> dict[Path, RunRatings]:
    """Write each run the ratings of its model in a study; they count wherever the run is scored from then on.

    Raises StoreError for a folder that is not a study's, DataError for a run none of whose replies were rated.
    """
    key, sheets = read_key(folder), read_gathered(folder)
    counted = counted_sheets(key, sheets, without_flagged=without_flagged)
    ratings_by_run = {}
    for run in runs:
        model = read_manifest(run).model
        means = question_means(key, counted, model)
        if not means:
            rated = ", ".join(key.models)
            raise DataError(
                f"{run}: no reply of {model} was rated in {folder}, only those of {rated}"
            )
        ratings_by_run[run] = RunRatings(key.study.name, len(counted), means)
    for run, ratings in ratings_by_run.items():
        write_run_ratings(run, ratings)
    return ratings_by_run
