"""Ratings gathered in a study's folder, given to the runs whose replies were rated; and the metric that they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from snellen.errors import DataError
from snellen.metrics.declaration import metric_row
from snellen.ratings.gathered import read_gathered
from snellen.ratings.key import read_key
from snellen.ratings.study import RatingStudy
from snellen.ratings.summary import counted_sheets, question_means
from snellen.runs.journal import read_manifest, write_atomically
from snellen.scoring.rated import RATINGS, RatedMetric, RunRatings


def give_ratings(folder: Path, runs: Sequence[Path], *, without_flagged: bool = False) -> dict[Path, RunRatings]:
    """Write each run the ratings of its model in a study; they count wherever the run is scored from then on.

    Raises StoreError for a folder that is none, DataError for a run none of whose replies were rated.
    """
    key, sheets = read_key(folder), read_gathered(folder)
    counted = counted_sheets(key, sheets, without_flagged=without_flagged)
    given = {}
    for run in runs:
        model = read_manifest(run).model
        means = question_means(key, counted, model)
        if not means:
            rated = ", ".join(key.models)
            raise DataError(f"{run}: no reply of {model} was rated in {folder}, only those of {rated}")
        given[run] = RunRatings(key.study.name, len(counted), means)
    for run, ratings in given.items():
        write_atomically(run / RATINGS, msgspec.json.encode(ratings))
    return given


def rated_metric(study: RatingStudy, prefix: str = "rated_") -> RatedMetric:
    """What people give in a study: its overall means, the first of which stands for it, then its dimensions.

    All are turned so that high is good, and lie on the study's scale.
    """
    columns = (*(overall.name for overall in study.overall), *(dimension.name for dimension in study.dimensions))
    bounds = {"low": float(study.lowest), "high": float(study.highest)}
    unit = f"from {study.lowest} to {study.highest}"
    rows = (
        metric_row(f"{prefix}{column.replace(' ', '_')}", unit=unit, scale=study.name, **bounds) for column in columns
    )
    what = f"what people give in the study {study.name}, mean over raters, high is good"
    return RatedMetric(what=what, rows=tuple(rows), study=study.name, columns=columns)
