"""Read tables whose rows list several samples of a reply, with a score of each: `[{"r": 0}, {"r": 1}]`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.reply_choice import MOSTLY
from snellen.recognition.columns import usual_names
from snellen.recognition.folding import folded_name

SAMPLE_OF = "sample of"
"""The column of a sample with the row that lists it."""
_SCORES_OF_SAMPLES = frozenset((*usual_names()["verdict"], "r", "reward", "value"))
"""Names of the field with the score of each of several samples of a row."""


class ScoredSamples(Struct, frozen=True):
    """The column with a list of samples in each row, and the field with the score of each sample."""

    column: str
    field: str
    scores: tuple[float, ...]
    """The scores of all samples."""

    @property
    def are_shares(self) -> bool:
        """Whether scores are from 0 to 1, so that they can be read as verdicts."""
        return all(0 <= score <= 1 for score in self.scores)

    def average(self) -> str:
        """Return what the scores are on average, for a message about scores that are no shares."""
        mean = sum(self.scores) / len(self.scores)
        return (
            f"{self.column!r} lists a score of each of several samples: {self.field!r} is {mean:.3f} on average over "
            f"{len(self.scores):,}"
        )


def scored_samples(rows: Sequence[SourceRow]) -> ScoredSamples | None:
    """Return where rows list several samples with a score of each; None for any other table."""
    scores_by_field: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        for column, field, scores in _scores_in_lists(row):
            scores_by_field[column, field].extend(scores)
    for (column, field), scores in scores_by_field.items():
        n_rows = sum(bool(row.cells.get(column)) for row in rows)
        if n_rows > MOSTLY * len(rows) and len(scores) > len(rows):
            return ScoredSamples(column, field, tuple(scores))
    return None


def rows_of_samples(
    rows: Sequence[SourceRow], samples: ScoredSamples
) -> tuple[list[SourceRow], str]:
    """Return a row for each sample, with its score, and a note about the samples of a row together.

    Args:
        rows: The rows, each of which lists samples.
        samples: Where the samples and their scores are.
    """
    unfolded: list[SourceRow] = []
    n_best = 0
    for row in rows:
        scores: list[float] = []
        for column, field, scores_of_field in _scores_in_lists(row):
            if (column, field) == (samples.column, samples.field):
                scores = scores_of_field
        n_best += max(scores, default=0.0) == 1
        for score in scores:
            cells = {SAMPLE_OF: row.where, samples.field: score}
            unfolded.append(row._replace(cells=cells))
    note = (
        f"each of the {len(rows):,} rows lists samples in {samples.column!r} with a score of each in {samples.field!r}: the "
        f"headline is their mean over {len(unfolded):,} samples; {n_best:,} rows ({n_best / len(rows):.1%}) have a sample "
        "with the full score"
    )
    return unfolded, note


def _scores_in_lists(row: SourceRow) -> list[tuple[str, str, list[float]]]:
    """Return the scores in lists of objects in a row.

    For a column `samples` with `[{"r": 0}, {"r": 1}]`, the result is `[("samples", "r", [0.0,
    1.0])]`. The list is empty if the row has no such column.
    """
    found: list[tuple[str, str, list[float]]] = []
    for column, cell in row.cells.items():
        samples = cell if isinstance(cell, list) else []
        if not samples or not all(isinstance(sample, dict) for sample in samples):
            continue
        for field in samples[0]:
            values = [sample.get(field) for sample in samples]
            are_numbers = all(isinstance(value, (bool, int, float)) for value in values)
            if folded_name(field) in _SCORES_OF_SAMPLES and are_numbers:
                found.append((column, field, [float(value) for value in values]))
    return found
