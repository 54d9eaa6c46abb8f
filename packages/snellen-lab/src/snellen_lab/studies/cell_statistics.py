"""What studies say of their cells: spread, means over models, differences, samples against the whole, agreement.

Means over models are as papers print them, differences are on the same questions with paired intervals; how well
samples of each size stand for the whole is ReForm-Eval's Tables 29 and 30.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean, stdev

from msgspec import Struct
from msgspec.structs import replace

from snellen.plugin_api import (
    DASH,
    SAME,
    SHARE,
    AbsentCell,
    Cell,
    Estimate,
    NumberCell,
    Table,
    decimal_text,
    estimate_mean,
    fractional_ranks,
    interval_text,
    percent,
    score_interval,
    spearman,
    student_t,
    unit_of_difference,
    value_text,
    z,
)
from snellen_lab.studies.declaration import (
    BASELINE,
    SAMPLE_RATIO,
    SAMPLE_SEED,
    CellGrid,
)
from snellen_lab.studies.sampling_study import against_whole
from snellen_lab.studies.series import (
    CellScores,
    Question,
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    StudyStatistic,
    bare,
    study_row,
)
from snellen_lab.studies.variance_components import VarianceComponent, variance_components

SPREAD_HEADER = (
    "model", "benchmark", "metric", "cells", "baseline", "mean [95%] n", "sd", "least", "greatest", "beyond",
)  # fmt: skip
SPREAD_NOTES = (
    "sd: standard deviation of the cells' values (divisor: cells - 1).",
    "The interval of the mean is for these cells and other pictures; that under beyond is for other levels, too, of "
    "what varies (prompts, seeds ... as a sample of many).",
)


def _part(
    rows: Sequence[StudyRow],
    title: str,
    header: Sequence[str],
    table: Sequence[tuple[Cell, ...]],
    label_columns: int,
    notes: tuple[str, ...] = (),
    more: Sequence[Table] = (),
) -> StudyPart:
    """Rows with their table, which is left out where it has no line."""
    tables = (
        Table(title, tuple(header), tuple(table), label_columns=label_columns, notes=notes),
        *more,
    )
    return StudyPart(tuple(rows), tables if table else ())


def _spread(numbers: StudyNumbers) -> StudyPart:
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for series in numbers.series:
        values = series.levels
        if not values:
            continue
        mean = (
            series.mean_of_questions() if series.common else _mean_without_questions(series, values)
        )
        beyond = _beyond(series, mean, components_of(series, numbers.grid))
        spread = stdev(values) if len(values) > 1 else None
        quantities = {
            "mean": mean,
            "mean beyond these cells": beyond,
            "standard deviation": bare(spread, mean.n),
            "least": bare(min(values), mean.n),
            "greatest": bare(max(values), mean.n),
        }
        rows += [
            study_row(series, "spread", name, estimate) for name, estimate in quantities.items()
        ]
        base = series.baseline
        if base:
            rows.append(study_row(series, "spread", "baseline", base.estimate))
        unit = series.unit
        table.append(
            (
                series.model,
                series.place,
                series.row.heading,
                len(values),
                value_text(base.estimate, unit) if base else DASH,
                NumberCell(unit, mean),
                *(value_text(bare(value), unit) for value in (spread, min(values), max(values))),
                interval_text(beyond, unit) if beyond.low is not None else DASH,
            )
        )
    left_out = sum(series.left_out for series in numbers.series)
    more_notes = (
        [f"{left_out:,} questions without a value in some cell are left out."] if left_out else []
    )
    return _part(rows, "Over the cells", SPREAD_HEADER, table, 3, (*SPREAD_NOTES, *more_notes))


def _mean_without_questions(series: StudySeries, values: list[float]) -> Estimate:
    """The mean of cells that are not means over questions; a single cell keeps its own interval."""
    if len(series.cells) == 1:
        return series.cells[0].estimate
    return bare(fmean(values), max(scores.estimate.n for scores in series.cells))


def _beyond(series: StudySeries, mean: Estimate, components: list[VarianceComponent]) -> Estimate:
    """The mean with the interval for other pictures and other levels of what varies.

    To the variance over pictures comes that of each source in which no question takes part, divided by its number of
    levels: var(mean) = s^2 + sum sigma^2_S / n_S, with Satterthwaite's degrees of freedom. No interval for fewer than
    two levels or groups.
    """
    sources = [component for component in components if ITEM not in component.factors]
    if mean.value is None or not sources or not mean.stderr or mean.groups < 2:
        return bare(mean.value, mean.n)
    terms = [(mean.stderr**2, mean.groups - 1.0)]
    terms += [
        (max(0.0, component.variance) / component.levels, float(component.df))
        for component in sources
    ]
    variance = math.fsum(term for term, _ in terms)
    df = variance**2 / math.fsum(term**2 / df for term, df in terms)
    low, high = series.bounds
    if not low + SAME < mean.value < high - SAME:
        return bare(mean.value, mean.n)
    low, high = score_interval(
        mean.value, variance * (student_t(max(1.0, df)) / z()) ** 2, series.bounds
    )
    if mean.low is not None and mean.high is not None:
        low, high = min(low, mean.low), max(high, mean.high)
    return Estimate(
        mean.value,
        math.sqrt(variance),
        low,
        high,
        mean.n,
        mean.unscored,
        mean.errors,
        mean.groups,
        not_asked=mean.not_asked,
    )


SPREAD = StudyStatistic("Spread", _spread)


# --- shares of variance ----------------------------------------------------------------------------------------------


ITEM = "item"
"""The questions, as a factor beside those of the study."""
VARIANCE_HEADER = (
    "model",
    "benchmark",
    "metric",
    "source",
    "share of variance",
    "sd",
    "levels",
    "df",
)
VARIANCE_NOTES = (
    "Score of a question in a cell = mean + effects of each factor, of the question (item), of their combinations, and "
    "a residual; variances by the method of moments. One below 0 counts as 0 in the shares.",
    "With few degrees of freedom (df) a variance is poorly known.",
)


def components_of(series: StudySeries, grid: CellGrid) -> list[VarianceComponent]:
    """The variance components of a series; none for one that is not a mean over questions, or with a cell missing.

    Of a single factor the cells that were asked are enough.
    """
    factors = {name: labels for name, labels in grid.factors.items() if len(labels) > 1}
    sizes = (
        [len(series.cells)] if len(factors) == 1 else [len(labels) for labels in factors.values()]
    )
    if (
        not factors
        or len(series.common) < 2
        or len(series.cells) != math.prod(sizes)
        or len(series.cells) < 2
    ):
        return []
    values = [cell.values[question] for cell in series.cells for question in series.common]
    return variance_components([*factors, ITEM], [*sizes, len(series.common)], values)


def _variance_part(numbers: StudyNumbers) -> StudyPart:
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for series in numbers.of_benchmarks():
        for component in components_of(series, numbers.grid):
            n = len(series.common)
            for quantity, value in (
                ("variance", component.variance),
                ("share of variance", component.share),
            ):
                unit = "share" if quantity.startswith("share") else f"{series.unit} squared"
                rows.append(
                    study_row(
                        series,
                        "variance",
                        quantity,
                        bare(value, n),
                        cell=component.source,
                        unit=unit,
                    )
                )
            deviation = Estimate(math.sqrt(max(0.0, component.variance)), None, None, None, n)
            table.append(
                (
                    series.model,
                    series.benchmark,
                    series.row.heading,
                    component.source,
                    percent(component.share),
                    value_text(deviation, series.unit),
                    component.levels,
                    component.df,
                )
            )
    return _part(rows, "Shares of variance", VARIANCE_HEADER, table, 4, VARIANCE_NOTES)


VARIANCE = StudyStatistic("Variance", _variance_part)


ALL_MODELS = "mean of the models"
MEANS_HEADER = ("benchmark", "metric", "cell", "models", "mean over models [95%] n")


def _model_means(numbers: StudyNumbers) -> StudyPart:
    members: dict[tuple[str, str, str, str], list[tuple[StudySeries, CellScores]]] = defaultdict(
        list
    )
    for series in numbers.series:
        for scores in series.cells:
            members[series.place, series.metric, series.split, scores.label].append(
                (series, scores)
            )
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for (place, _, _, label), of_models in members.items():
        series, estimate = of_models[0][0], _mean(of_models)
        row = study_row(series, "models", "mean over models", estimate, cell=label)
        rows.append(replace(row, model=ALL_MODELS))
        number = NumberCell(series.unit, estimate)
        table.append((place, series.row.heading, label or "as declared", len(of_models), number))
    return _part(rows, "Mean over models", MEANS_HEADER, table, 3)


def _mean(members: list[tuple[StudySeries, CellScores]]) -> Estimate:
    """Of the models' values question by question, so that its interval is over pictures; the bare mean where they have
    none."""
    questions = set.intersection(*(set(scores.values) for _, scores in members))
    values = [scores.estimate.value for _, scores in members if scores.estimate.value is not None]
    if not questions or any(len(scores.values) > len(questions) for _, scores in members):
        return bare(math.fsum(values) / len(values) if values else None, len(questions))
    series = members[0][0]
    ordered = sorted(questions)
    means = [
        math.fsum(scores.values[question] for _, scores in members) / len(members)
        for question in ordered
    ]
    return estimate_mean(
        means, [series.groups[question] for question in ordered], bounds=series.bounds
    )


MODELS = StudyStatistic("Mean over models", _model_means)


MOST_PAIRED = 6
"""Cells up to which all pairs are compared; of more each is compared with the mean of all."""
MEAN_OF_CELLS = "mean of the cells"
PAIRS_HEADER = ("model", "benchmark", "metric", "cell", "minus", "difference [95%] n")
PAIRS_NOTES = (
    "Each interval holds on its own in 95 of 100 studies; of many some leave out 0 by chance.",
)
Values = Mapping[Question, float]


def _compared(series: StudySeries) -> Iterator[tuple[str, str, Values, Values]]:
    """Which cells are compared: with the baseline where there is one, all pairs of few cells, else with their mean."""
    if series.baseline and series.baseline.values:
        for scores in series.cells:
            yield scores.label, BASELINE, scores.values, series.baseline.values
    if len(series.cells) <= MOST_PAIRED:
        for first, second in combinations(series.cells, 2):
            yield first.label, second.label, first.values, second.values
    elif not series.baseline:
        mean = {
            q: math.fsum(scores.values[q] for scores in series.cells) / len(series.cells)
            for q in series.common
        }
        for scores in series.cells:
            yield scores.label, MEAN_OF_CELLS, scores.values, mean


def _differences(numbers: StudyNumbers) -> StudyPart:
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for series in numbers.of_benchmarks():
        for first, second, first_values, second_values in (
            _compared(series) if series.groups else ()
        ):
            difference: Estimate = series.difference(first_values, second_values)
            if difference.value is None:
                continue
            rows.append(
                study_row(series, "pairs", "difference", difference, cell=first, against=second)
            )
            number = NumberCell(unit_of_difference(series.unit), difference)
            table.append(
                (series.model, series.benchmark, series.row.heading, first, second, number)
            )
    return _part(rows, "Differences of cells", PAIRS_HEADER, table, 5, PAIRS_NOTES)


PAIRS = StudyStatistic("Pairs", _differences)


STABILITY_HEADER = (
    "benchmark", "metric", "other levels", "share", "draws", "models", "correlation", "deviation", "variance",
)  # fmt: skip
QUANTITIES = ("correlation over models", "mean absolute deviation", "variance over draws")
STABILITY_NOTES = (
    "Correlation: Pearson's, over models, of scores on a sample and on the whole, mean over draws. Deviation: of a "
    "score on a sample from that on the whole. Variance: over draws (divisor: draws - 1), mean over models. Shares are "
    "in points.",
)


def _sample_stability(numbers: StudyNumbers) -> StudyPart:
    places: dict[tuple[str, ...], list[StudySeries]] = defaultdict(list)
    for series in numbers.of_benchmarks():
        places[series.benchmark, series.metric, series.split].append(series)
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for members in places.values():
        for others in dict.fromkeys(_others(cell) for cell in members[0].cells):
            values = [_values(series, others) for series in members]
            scale = 100.0 if members[0].unit == SHARE else 1.0
            for ratio in sorted({ratio for by_cell in values for ratio, _ in by_cell}):
                measured = _stability(values, ratio, scale)
                cell = ", ".join(filter(None, (f"share={ratio:g}", others)))
                rows += [
                    study_row(members[0], "stability", quantity, bare(value), cell=cell, unit="")
                    for quantity, value in zip(QUANTITIES, measured, strict=True)
                ]
                draws = len(
                    {draw for by_cell in values for share, draw in by_cell if share == ratio}
                )
                words = (
                    DASH if value is None else decimal_text(value, digits)
                    for value, digits in zip(measured, (4, 2, 2), strict=True)
                )
                name, heading = members[0].benchmark, members[0].row.heading
                table.append(
                    (name, heading, others, f"{100 * ratio:g}%", draws, len(members), *words)
                )
    return _part(rows, "Samples against the whole", STABILITY_HEADER, table, 4, STABILITY_NOTES)


def _others(cell: CellScores) -> str:
    """What the cell sets besides the share and the draw."""
    spec = cell.cell.spec
    others = {
        name: value
        for name, value in spec.fields.items()
        if name not in (SAMPLE_RATIO, SAMPLE_SEED)
    }
    return ", ".join(f"{name}={value}" for name, value in others.items())


def _values(series: StudySeries, others: str) -> dict[tuple[float, int], float]:
    """The score of each share and draw."""
    return {
        (
            float(cell.cell.spec.fields.get(SAMPLE_RATIO, 1.0)),
            int(cell.cell.spec.fields.get(SAMPLE_SEED, 0)),
        ): value
        for cell in series.cells
        if _others(cell) == others and (value := cell.estimate.value) is not None
    }


def _stability(
    models: Sequence[dict[tuple[float, int], float]], ratio: float, scale: float
) -> tuple[float | None, float | None, float | None]:
    """The `QUANTITIES` of samples of one share, from the scores of each model by share and draw."""
    draws = sorted(
        set.intersection(*({draw for share, draw in cells if share == ratio} for cells in models))
    )
    wholes = [
        next((scale * value for (share, _), value in cells.items() if share == 1), None)
        for cells in models
    ]
    by_draw = [[scale * cells[ratio, draw] for cells in models] for draw in draws]
    full_scores: list[float | None] = [None] * len(models) if None in wholes else wholes
    correlation, _, deviation, spread = against_whole(by_draw, full_scores)
    return correlation, deviation, spread


STABILITY = StudyStatistic("Samples against the whole", _sample_stability)


SHOWN = 10
"""Samples that a pair of metrics shows."""
LONGEST = 300
"""Characters of a reply or reference that a table shows."""
AGREEMENT_HEADER = ("model", "benchmark", "cell", "metrics", "rank correlation [95%] n")
FARTHEST = (
    "sample",
    "reply",
    "reference",
    "higher by",
    "value",
    "rank",
    "lower by",
    "value",
    "rank",
)
ALIKE = "one of the metrics is the same for all replies"
AGREEMENT_NOTES = (
    "Spearman's correlation over replies that have both values; ranks from 1, the best, to n.",
)


class _Pair(Struct, frozen=True):
    """Two metrics of one cell, on the questions that have both."""

    first: StudySeries
    second: StudySeries
    scores: tuple[CellScores, CellScores]
    questions: tuple[Question, ...]

    def values(self, number: int) -> list[float]:
        return [self.scores[number].values[question] for question in self.questions]

    def from_best(self, number: int) -> list[float]:
        """Ranks of one metric, 1 for the best reply; equal ones share their mean rank."""
        sign = 1 if (self.first, self.second)[number].row.better == "lower" else -1
        return fractional_ranks([sign * value for value in self.values(number)])

    @property
    def correlation(self) -> Estimate:
        groups = len({self.first.groups[question] for question in self.questions})
        return spearman(self.values(0), self.values(1), groups)


def _pairs(numbers: StudyNumbers) -> Iterator[_Pair]:
    by_place: dict[tuple[str, str, str], list[StudySeries]] = defaultdict(list)
    for series in numbers.of_benchmarks():
        by_place[series.model, series.benchmark, series.protocol].append(series)
    for members in by_place.values():
        for first, second in combinations(members, 2):
            second_cells = {scores.label: scores for scores in second.cells}
            for scores in first.cells:
                counterpart = second_cells.get(scores.label)
                common = tuple(q for q in scores.values if counterpart and q in counterpart.values)
                if counterpart and len(common) > 1:
                    yield _Pair(first, second, (scores, counterpart), common)


def _metric_agreement(numbers: StudyNumbers) -> StudyPart:
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    tables: list[Table] = []
    for pair in _pairs(numbers):
        series, label = pair.first, pair.scores[0].label
        correlation = pair.correlation
        rows.append(
            study_row(
                series,
                "agreement",
                "rank correlation",
                correlation,
                cell=label,
                against=pair.second.metric,
                unit="",
            )
        )
        names = f"{series.row.display_name} and {pair.second.row.display_name}"
        number = AbsentCell(ALIKE) if correlation.value is None else NumberCell("", correlation)
        table.append((series.model, series.benchmark, label, names, number))
        far, shown_rows = _farthest(pair) if correlation.value is not None else ([], [])
        rows += far
        if not shown_rows:
            continue
        title = f"Where {names} differ most: {', '.join(filter(None, (series.model, series.benchmark, label)))}"
        tables.append(Table(title, FARTHEST, tuple(shown_rows)))
    return _part(
        rows, "Rank correlation of metrics", AGREEMENT_HEADER, table, 4, AGREEMENT_NOTES, tables
    )


def _farthest(pair: _Pair) -> tuple[list[StudyRow], list[tuple[Cell, ...]]]:
    """The samples whose ranks are farthest apart, as rows and as lines of a table."""
    standing = (pair.from_best(0), pair.from_best(1))
    gaps = [a - b for a, b in zip(*standing, strict=True)]
    order = sorted(range(len(gaps)), key=lambda place: (-abs(gaps[place]), pair.questions[place]))
    rows, lines = list[StudyRow](), list[tuple[Cell, ...]]()
    for place in order[:SHOWN]:
        if not gaps[place]:
            break
        sample, turn = pair.questions[place]
        rows.append(
            study_row(
                pair.first,
                "agreement",
                "difference of ranks",
                bare(gaps[place], len(gaps)),
                cell=f"{pair.scores[0].label} {sample}".strip(),
                against=pair.second.metric,
                unit="ranks",
            )
        )
        reply, reference = _texts(pair.scores[0], sample, turn)
        better, worse = (0, 1) if gaps[place] < 0 else (1, 0)
        cells: list[Cell] = [sample, reply, reference]
        for number in (better, worse):
            series = (pair.first, pair.second)[number]
            value = value_text(bare(pair.values(number)[place]), series.unit)
            cells += [series.row.display_name, value, f"{standing[number][place]:g} of {len(gaps)}"]
        lines.append(tuple(cells))
    return rows, lines


def _texts(scores: CellScores, sample: str, turn: int) -> tuple[str, str]:
    """The reply to a question, and its longest reference."""
    run = scores.cell.run
    scored = (
        next(benchmark for benchmark in run.benchmarks if benchmark.spec.name == scores.benchmark)
        if run
        else None
    )
    if scored is None:
        return "", ""
    reply = next(
        (
            p.text
            for p in scored.predictions
            if (p.sample_id, p.variant.turn) == (sample, turn) and p.text
        ),
        "",
    )
    answer = scored.answers.get((sample, turn))
    return _short(reply or ""), _short(max(answer.texts, key=len, default="") if answer else "")


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 1]}…"


AGREEMENT = StudyStatistic("Agreement of metrics", _metric_agreement)
