"""Collect ratings in the folder of a study, and write them into the rated runs.

The folder's file ratings.jsonl has a line for each rater (`RaterSheet`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen import DataError, StoreError
from snellen.plugin_api import (
    RatingStudy,
    RunRatings,
    kept_lines,
    read_manifest,
    runs_in,
    write_atomically,
)
from snellen_lab.ratings.sheets import (
    RaterSheet,
    published_key,
    read_key,
    read_sheets,
    write_key,
)
from snellen_lab.ratings.summary import counted_sheets, question_means

SHEETS = "ratings.jsonl"


class Gathered(Struct, frozen=True):
    """The result of adding files to a study: all its ratings now, and notes on the files."""

    sheets: tuple[RaterSheet, ...]
    new_raters: int
    notes: tuple[str, ...]


def gather(
    folder: Path, files: Sequence[Path], study: RatingStudy | None = None, *, replace: bool = False
) -> Gathered:
    """Add the ratings in files to a study's folder.

    If one of the files cannot be read, the folder is not changed.

    Args:
        folder: The study's folder.
        files: Files with ratings.
        study: If given, the files are sheets as this study's authors published them, and a new
            folder is made.
        replace: Whether new ratings replace different earlier ones of the same rater.

    Raises:
        DataError: A rater has rated already and differently, and `replace` is not set.
        StoreError: The folder is not a study's, or cannot be written.
    """
    key = read_key(folder) if study is None else published_key(study)
    earlier_sheets: tuple[RaterSheet, ...] = ()
    if (folder / SHEETS).exists():
        earlier_sheets = read_gathered(folder)
    sheets = {sheet.rater: sheet for sheet in earlier_sheets}
    n_earlier = len(sheets)
    new_raters: set[str] = set()
    """Raters with a sheet in one of the files."""
    notes: list[str] = []
    for file in files:
        sheets_read = read_sheets(file, key)
        notes += [f"{file.name}: {note}" for note in sheets_read.notes]
        for sheet in sheets_read.sheets:
            other = sheets.get(sheet.rater)
            is_different = other is not None and other.ratings != sheet.ratings
            may_replace = replace and sheet.rater not in new_raters
            if other is not None and is_different and not may_replace:
                raise DataError(
                    f"{file}: {sheet.rater!r} has rated already ({other.source}), and differently; rename one of "
                    "the two, or let the new ratings replace the earlier ones (`snellen rate read --replace`)"
                )
            new_raters.add(sheet.rater)
            sheets[sheet.rater] = sheet

    if study is not None:
        write_key(folder, key)
    all_sheets = tuple(sheets.values())
    write_atomically(folder / SHEETS, msgspec.json.Encoder().encode_lines(all_sheets))
    return Gathered(all_sheets, len(sheets) - n_earlier, tuple(notes))


def read_gathered(folder: Path) -> tuple[RaterSheet, ...]:
    """Return the ratings in a study's folder, one sheet for each rater.

    Raises StoreError if there are none, or if a line of the file is damaged.
    """
    path = folder / SHEETS
    if not path.exists():
        raise StoreError(
            f"{folder}: no ratings yet; `snellen rate read {shlex.quote(str(folder))} FILES...` adds some"
        )
    return tuple(kept_lines(path, RaterSheet, "a rater's ratings"))


def give_ratings(
    folder: Path, runs: Sequence[Path], *, without_flagged: bool = False
) -> dict[Path, RunRatings]:
    """Write the ratings of a study into the runs whose replies were rated.

    From then on, the ratings count as a metric whenever these runs are scored.

    Args:
        folder: The study's folder.
        runs: Folders of the runs. If one of them has no rated replies, none is written.
        without_flagged: Whether to leave out raters who seem to rate carelessly
            (`RaterCheck.flags`).

    Returns:
        The written ratings, by the folder of the run.

    Raises:
        StoreError: The folder is not a study's.
        DataError: A run has no rated replies.
    """
    key = read_key(folder)
    sheets_that_count = counted_sheets(key, read_gathered(folder), without_flagged=without_flagged)
    ratings_by_run = {}
    for run in runs_in(runs):
        model = read_manifest(run).model
        means = question_means(key, sheets_that_count, model)
        if not means:
            rated = ", ".join(key.models)
            raise DataError(
                f"{run}: no reply of {model} was rated in {folder}, only those of {rated}"
            )
        ratings_by_run[run] = RunRatings(key.study.name, len(sheets_that_count), means)
    # Runs are written last, so that none is written if an error occurs in any of them.
    for run, ratings in ratings_by_run.items():
        ratings.write(run)
    return ratings_by_run
