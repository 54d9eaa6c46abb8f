"""Statistic of studies: the mean over models of each cell, as papers print it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from snellen.plugin_api import Cell, Estimate, NumberCell, Table, estimate_mean
from snellen_lab.studies.series import (
    CellScores,
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    bare,
    part_of,
    study_row,
)

ALL_MODELS = "mean of the models"
HEADER = ("benchmark", "metric", "cell", "models", "mean over models [95%] n")


def model_means_part(numbers: StudyNumbers) -> StudyPart:
    """Return the mean over models of each cell."""
    members: dict[tuple[str, str, str, str], list[tuple[StudySeries, CellScores]]]
    members = defaultdict(list)
    for series in numbers.series:
        for scores in series.cells:
            key = (series.place, series.metric, series.split, scores.label)
            members[key].append((series, scores))

    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for (model_and_benchmark, _, _, label), model_scores in members.items():
        series, _ = model_scores[0]
        mean = _mean_over_models(series, [scores for _, scores in model_scores])
        row = study_row(series, "models", "mean over models", mean, cell=label)
        rows.append(replace(row, model=ALL_MODELS))
        table_rows.append(
            (
                model_and_benchmark,
                series.row.heading,
                label or "as declared",
                len(model_scores),
                NumberCell(series.unit, mean),
            )
        )
    return part_of(rows, Table("Mean over models", HEADER, tuple(table_rows), label_columns=3))


def _mean_over_models(series: StudySeries, model_scores: Sequence[CellScores]) -> Estimate:
    """Return the mean of the models' values.

    If all models have values of the same questions, the mean is taken question by question, and its interval is over
    images. Otherwise it has no interval.
    """
    common = set.intersection(*(set(scores.values) for scores in model_scores))
    has_same_questions = all(len(scores.values) == len(common) for scores in model_scores)
    if not common or not has_same_questions:
        values = [
            scores.estimate.value for scores in model_scores if scores.estimate.value is not None
        ]
        mean = math.fsum(values) / len(values) if values else None
        n = len(common)
        if not any(scores.values for scores in model_scores):
            # A mean over benchmarks has no values of questions, but knows their number.
            n = max(scores.estimate.n for scores in model_scores)
        return bare(mean, n)

    questions = sorted(common)
    question_means = []
    for question in questions:
        total = math.fsum(scores.values[question] for scores in model_scores)
        question_means.append(total / len(model_scores))
    groups = [series.groups[question] for question in questions]
    return estimate_mean(question_means, groups, bounds=series.bounds)
