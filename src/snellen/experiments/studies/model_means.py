"""The mean over models in each cell, as papers print it."""

from __future__ import annotations

import math
from collections import defaultdict

from msgspec.structs import replace

from snellen.analysis.statistics import estimate_mean
from snellen.experiments.studies.series import CellScores, StudyNumbers, StudySeries
from snellen.experiments.studies.statistic import StudyPart, StudyRow, StudyStatistic, bare, study_row
from snellen.records import Estimate
from snellen.report.table import Cell, NumberCell, Table

ALL_MODELS = "mean of the models"
HEADER = ("benchmark", "metric", "cell", "models", "mean over models [95%] n")


def _compute(numbers: StudyNumbers) -> StudyPart:
    members: dict[tuple[str, str, str, str], list[tuple[StudySeries, CellScores]]] = defaultdict(list)
    for series in numbers.series:
        for scores in series.cells:
            members[series.place, series.metric, series.split, scores.label].append((series, scores))
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for (place, _, _, label), of_models in members.items():
        series, estimate = of_models[0][0], _mean(of_models)
        row = study_row(series, "models", "mean over models", estimate, cell=label)
        rows.append(replace(row, model=ALL_MODELS))
        number = NumberCell(series.unit, estimate)
        table.append((place, series.row.heading, label or "as declared", len(of_models), number))
    return StudyPart(tuple(rows), (Table("Mean over models", HEADER, tuple(table), label_columns=3),) if table else ())


def _mean(members: list[tuple[StudySeries, CellScores]]) -> Estimate:
    """Of the models' values question by question, so that its interval is over pictures; the bare mean where they have
    none."""
    questions = set.intersection(*(set(scores.values) for _, scores in members))
    values = [scores.estimate.value for _, scores in members if scores.estimate.value is not None]
    if not questions or any(len(scores.values) > len(questions) for _, scores in members):
        return bare(math.fsum(values) / len(values) if values else None, len(questions))
    series = members[0][0]
    ordered = sorted(questions)
    means = [math.fsum(scores.values[question] for _, scores in members) / len(members) for question in ordered]
    return estimate_mean(means, [series.groups[question] for question in ordered], bounds=series.bounds)


MODELS = StudyStatistic("Mean over models", _compute)
