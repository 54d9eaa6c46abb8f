"""The ratings gathered in a study's folder, and how they are given to the runs whose replies were rated.

ratings.jsonl   one RaterSheet per line, and one for each rater
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.common.paths import as_word
from snellen.errors import DataError, StoreError
from snellen.experiments.ratings.key import published_key, read_key, write_key
from snellen.experiments.ratings.sheets import RaterSheet, read_sheets
from snellen.experiments.ratings.study import RatingStudy
from snellen.experiments.ratings.summary import counted_sheets, question_means
from snellen.metrics.declaration import metric_row
from snellen.runs.journal import read_manifest, write_atomically
from snellen.scoring.rated import RATINGS, RatedMetric, RunRatings

SHEETS = "ratings.jsonl"


class Gathered(Struct, frozen=True):
    """What reading files did: all sheets that the folder now has, and what there is to say of the files."""

    sheets: tuple[RaterSheet, ...]
    added: int
    notes: tuple[str, ...]


def gather(folder: Path, files: Sequence[Path], study: RatingStudy | None = None, *, replace: bool = False) -> Gathered:
    """Add the ratings in `files` to a study's folder; nothing is written unless all can be read.

    With `study` the folder is made for its published sheet. A rater whose ratings are there already counts once;
    where they differ, DataError, unless the new ones are to `replace` them. Raises DataError, StoreError.
    """
    key = read_key(folder) if study is None else published_key(study)
    sheets = {sheet.rater: sheet for sheet in (read_gathered(folder) if (folder / SHEETS).exists() else ())}
    earlier_raters, notes = set(sheets), list[str]()
    fresh = set[str]()
    for file in files:
        sheets_read = read_sheets(file, key)
        notes += [f"{file.name}: {note}" for note in sheets_read.notes]
        for sheet in sheets_read.sheets:
            earlier = sheets.get(sheet.rater)
            if earlier and earlier.ratings != sheet.ratings and (sheet.rater in fresh or not replace):
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
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        raise StoreError(
            f"{folder}: no ratings yet; `snellen rate read {as_word(folder)} FILES...` adds some"
        ) from None
    sheets = []
    for number, line in enumerate(lines, 1):
        try:
            sheets.append(msgspec.json.decode(line, type=RaterSheet))
        except msgspec.DecodeError as error:
            raise StoreError(f"{path}:{number}: not a rater's ratings ({error}); mend or remove the line") from None
    return tuple(sheets)


# --- ratings given to runs -------------------------------------------------------------------------------------------


def give_ratings(folder: Path, runs: Sequence[Path], *, without_flagged: bool = False) -> dict[Path, RunRatings]:
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
            raise DataError(f"{run}: no reply of {model} was rated in {folder}, only those of {rated}")
        ratings_by_run[run] = RunRatings(key.study.name, len(counted), means)
    for run, ratings in ratings_by_run.items():
        write_atomically(run / RATINGS, msgspec.json.encode(ratings))
    return ratings_by_run


def rated_metric(study: RatingStudy, prefix: str = "rated_") -> RatedMetric:
    """What people give in a study: its overall means, the first of which is its headline, then its dimensions.

    All are turned so that high is good, and lie on the study's scale.
    """
    columns = (*(overall.name for overall in study.overall), *(dimension.name for dimension in study.dimensions))
    bounds = {"low": float(study.lowest), "high": float(study.highest)}
    unit = f"from {study.lowest} to {study.highest}"
    rows = (
        metric_row(f"{prefix}{column.replace(' ', '_')}", unit=unit, scale=study.name, **bounds) for column in columns
    )
    description = f"what people give in the study {study.name}, mean over raters, high is good"
    return RatedMetric(what=description, rows=tuple(rows), study=study.name, columns=columns)
