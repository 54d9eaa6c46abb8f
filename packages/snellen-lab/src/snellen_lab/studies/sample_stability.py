"""Statistic of studies that vary the sample: scores on samples compared with scores on the full benchmark.

ReForm-Eval, Tables 29 and 30.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from snellen.plugin_api import (
    SHARE,
    Cell,
    Table,
)
from snellen_lab.cell_texts import decimal_or_dash
from snellen_lab.studies.declaration import SAMPLE_RATIO, SAMPLE_SEED
from snellen_lab.studies.sampling_study import SampleComparison, compare_samples
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

HEADER = (
    "benchmark",
    "metric",
    "other levels",
    "share",
    "draws",
    "models",
    "correlation",
    "deviation",
    "variance",
)
NOTES = (
    "Correlation: Pearson's, over models, of scores on a sample and on the full benchmark, mean over draws. Deviation: of a "
    "score on a sample from that on the whole. Variance: over draws (divisor: draws - 1), mean over models. Shares are "
    "in points.",
)
DrawScores = Mapping[tuple[float, int], float]
"""Score of a model by the ratio of the sample and the number of the draw."""


def stability_part(numbers: StudyNumbers) -> StudyPart:
    """Compare the scores of a study's models on samples with those on the full benchmark.

    There is a comparison for each ratio, that is, size of the samples as a share of the benchmark.
    """
    series_by_place: dict[tuple[str, ...], list[StudySeries]] = defaultdict(list)
    for series in numbers.of_benchmarks():
        series_by_place[series.benchmark, series.metric, series.split].append(series)

    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for models in series_by_place.values():
        first = models[0]
        scale = 100.0 if first.unit == SHARE else 1.0
        for other_levels in dict.fromkeys(_other_levels(cell) for cell in first.cells):
            scores = [_draw_scores(series, other_levels) for series in models]
            ratios: set[float] = set()
            for model_scores in scores:
                ratios.update(ratio for ratio, _ in model_scores)
            for ratio in sorted(ratios):
                comparison = _compare_ratio(scores, ratio, scale)
                cell = f"share={ratio:g}"
                if other_levels:
                    cell = f"{cell}, {other_levels}"
                quantities = {
                    "correlation over models": comparison.rho,
                    "mean absolute deviation": comparison.deviation,
                    "variance over draws": comparison.variance,
                }
                for quantity, value in quantities.items():
                    row = study_row(first, "stability", quantity, bare(value), cell=cell, unit="")
                    rows.append(row)
                table_rows.append(
                    (
                        first.benchmark,
                        first.row.heading,
                        other_levels,
                        f"{100 * ratio:g}%",
                        _count_draws(scores, ratio),
                        len(models),
                        decimal_or_dash(comparison.rho, 4),
                        decimal_or_dash(comparison.deviation, 2),
                        decimal_or_dash(comparison.variance, 2),
                    )
                )
    title = "Samples compared with the full benchmark"
    return part_of(rows, Table(title, HEADER, tuple(table_rows), label_columns=4, notes=NOTES))


def _other_levels(cell: CellScores) -> str:
    """Return the levels of a cell as text, without those of the sample: its ratio and its draw."""
    levels = []
    for name, value in cell.cell.spec.fields.items():
        if name not in (SAMPLE_RATIO, SAMPLE_SEED):
            levels.append(f"{name}={value}")
    return ", ".join(levels)


def _draw_scores(series: StudySeries, other_levels: str) -> DrawScores:
    """Return the score of a model on each sample, by the sample's ratio and draw.

    Only cells whose other levels are these count.
    """
    scores = {}
    for cell in series.cells:
        value = cell.estimate.value
        if value is None or _other_levels(cell) != other_levels:
            continue
        fields = cell.cell.spec.fields
        ratio = float(fields.get(SAMPLE_RATIO, 1.0))
        draw = int(fields.get(SAMPLE_SEED, 0))
        scores[ratio, draw] = value
    return scores


def _compare_ratio(models: Sequence[DrawScores], ratio: float, scale: float) -> SampleComparison:
    """Compare scores on samples of one size with scores on the full benchmark.

    Only draws in which all models have a score count.

    Args:
        models: For each model, its scores by the ratio of the sample and the number of the draw.
        ratio: Size of the samples as a share of the benchmark.
        scale: Factor of all scores, such as 100 for percent.
    """
    common_draws = set.intersection(*(_draws(scores, ratio) for scores in models))
    scores_by_draw = []
    for draw in sorted(common_draws):
        scores_by_draw.append([scale * scores[ratio, draw] for scores in models])

    full_scores: list[float | None] = []
    for scores in models:
        full_score = None
        for (share, _), value in scores.items():
            if share == 1:
                full_score = scale * value
                break
        full_scores.append(full_score)
    if None in full_scores:
        full_scores = [None] * len(models)
    return compare_samples(scores_by_draw, full_scores)


def _draws(scores: DrawScores, ratio: float) -> set[int]:
    """Return the numbers of the draws in which a model has a score on a sample of this ratio."""
    return {draw for share, draw in scores if share == ratio}


def _count_draws(models: Sequence[DrawScores], ratio: float) -> int:
    """Return the number of draws of this ratio in which any model has a score."""
    draws: set[int] = set()
    for scores in models:
        draws |= _draws(scores, ratio)
    return len(draws)
