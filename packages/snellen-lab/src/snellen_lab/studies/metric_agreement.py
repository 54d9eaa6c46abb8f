"""Statistic of studies: rank correlation of two metrics over replies, and the replies on which they differ most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from snellen.plugin_api import (
    AbsentCell,
    Cell,
    Estimate,
    NumberCell,
    Table,
    fractional_ranks,
    value_text,
)
from snellen_lab.rank_correlation import spearman
from snellen_lab.studies.series import (
    CellScores,
    Question,
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudySeries,
    bare,
    part_of,
    study_row,
)

MAX_EXAMPLES = 10
"""Samples listed for a pair of metrics."""
MAX_TEXT_LENGTH = 300
"""Characters of a reply or reference in a table."""
HEADER = ("model", "benchmark", "cell", "metrics", "rank correlation [95%] n")
EXAMPLES_HEADER = (
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
CONSTANT_METRIC = "one of the metrics is the same for all replies"
NOTES = (
    "Spearman's correlation over replies that have both values; ranks from 1, the best, to n.",
)


class _MetricScores(Struct, frozen=True):
    """The values of one of two metrics in a cell, on the questions that have both."""

    series: StudySeries
    scores: CellScores
    values: list[float]

    @property
    def ranks(self) -> list[float]:
        """Return the rank of each reply, 1 for the best; equal values share their mean rank."""
        sign = 1 if self.series.row.better == "lower" else -1
        return fractional_ranks([sign * value for value in self.values])


class _MetricPair(Struct, frozen=True):
    """Two metrics in one cell, with their values on the questions that have both."""

    first: _MetricScores
    second: _MetricScores
    questions: Sequence[Question]

    @property
    def label(self) -> str:
        return self.first.scores.label

    @property
    def names(self) -> str:
        first = self.first.series.row.display_name
        second = self.second.series.row.display_name
        return f"{first} and {second}"

    @property
    def correlation(self) -> Estimate:
        groups = {self.first.series.groups[question] for question in self.questions}
        return spearman(self.first.values, self.second.values, len(groups))


def agreement_part(numbers: StudyNumbers) -> StudyPart:
    """Return the rank correlation of each pair of metrics in each cell.

    The replies that the two metrics rank most differently are listed as well.
    """
    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    example_tables: list[Table] = []
    for metric_pair in _metric_pairs(numbers):
        series = metric_pair.first.series
        correlation = metric_pair.correlation
        row = study_row(
            series,
            "agreement",
            "rank correlation",
            correlation,
            cell=metric_pair.label,
            against=metric_pair.second.series.metric,
            unit="",
        )
        rows.append(row)
        number: Cell
        if correlation.value is None:
            number = AbsentCell(CONSTANT_METRIC)
        else:
            number = NumberCell("", correlation)
            example_rows, example_table = _examples(metric_pair)
            rows.extend(example_rows)
            if example_table.rows:
                example_tables.append(example_table)
        table_rows.append(
            (series.model, series.benchmark, metric_pair.label, metric_pair.names, number)
        )
    title = "Rank correlation of metrics"
    table = Table(title, HEADER, tuple(table_rows), label_columns=4, notes=NOTES)
    return part_of(rows, table, example_tables)


def _metric_pairs(numbers: StudyNumbers) -> Iterator[_MetricPair]:
    """Yield each pair of metrics that were computed from the same replies of a model, in each cell of the study.

    Cells in which fewer than two questions have both values are left out.
    """
    series_of_replies: dict[tuple[str, str, str], list[StudySeries]] = defaultdict(list)
    for series in numbers.of_benchmarks():
        series_of_replies[series.model, series.benchmark, series.protocol].append(series)
    for metrics in series_of_replies.values():
        for first, second in combinations(metrics, 2):
            yield from _pairs_of_cells(first, second)


def _pairs_of_cells(first: StudySeries, second: StudySeries) -> Iterator[_MetricPair]:
    """Yield the values of two metrics in each cell, on the questions that have both."""
    second_cells = {scores.label: scores for scores in second.cells}
    for first_scores in first.cells:
        second_scores = second_cells.get(first_scores.label)
        if second_scores is None:
            continue
        questions = [
            question for question in first_scores.values if question in second_scores.values
        ]
        if len(questions) < 2:
            continue
        first_values = [first_scores.values[question] for question in questions]
        second_values = [second_scores.values[question] for question in questions]
        yield _MetricPair(
            _MetricScores(first, first_scores, first_values),
            _MetricScores(second, second_scores, second_values),
            questions,
        )


def _examples(metric_pair: _MetricPair) -> tuple[list[StudyRow], Table]:
    """Return the replies that two metrics rank most differently, at most `MAX_EXAMPLES`, as rows and as a table."""
    first_ranks = metric_pair.first.ranks
    second_ranks = metric_pair.second.ranks
    n_questions = len(metric_pair.questions)
    gaps = [first - second for first, second in zip(first_ranks, second_ranks, strict=True)]

    def largest_gap_first(index: int) -> tuple[float, Question]:
        return -abs(gaps[index]), metric_pair.questions[index]

    farthest_first = sorted(range(n_questions), key=largest_gap_first)

    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for index in farthest_first[:MAX_EXAMPLES]:
        gap = gaps[index]
        if not gap:
            break
        sample, turn = metric_pair.questions[index]
        row = study_row(
            metric_pair.first.series,
            "agreement",
            "difference of ranks",
            bare(gap, n_questions),
            cell=f"{metric_pair.label} {sample}".strip(),
            against=metric_pair.second.series.metric,
            unit="ranks",
        )
        rows.append(row)

        first_cells = _metric_cells(metric_pair.first, index, first_ranks)
        second_cells = _metric_cells(metric_pair.second, index, second_ranks)
        reply, reference = _texts(metric_pair.first.scores, sample, turn)
        # The metric that ranks the reply higher comes first.
        if gap < 0:
            table_rows.append((sample, reply, reference, *first_cells, *second_cells))
        else:
            table_rows.append((sample, reply, reference, *second_cells, *first_cells))

    series = metric_pair.first.series
    names = (series.model, series.benchmark, metric_pair.label)
    subject = ", ".join(name for name in names if name)
    title = f"Where {metric_pair.names} differ most: {subject}"
    return rows, Table(title, EXAMPLES_HEADER, tuple(table_rows))


def _metric_cells(metric: _MetricScores, index: int, ranks: Sequence[float]) -> tuple[Cell, ...]:
    """Return three cells of a table: the name of a metric, its value of a reply, and the rank of the reply.

    Args:
        metric: The metric with its values.
        index: Index of the reply.
        ranks: Ranks of all replies by the metric.
    """
    value = value_text(bare(metric.values[index]), metric.series.unit)
    rank = f"{ranks[index]:g} of {len(ranks)}"
    return metric.series.row.display_name, value, rank


def _texts(scores: CellScores, sample: str, turn: int) -> tuple[str, str]:
    """Return the reply to a question and its longest reference, shortened."""
    run = scores.cell.run
    if run is None:
        return "", ""
    [scored] = [
        benchmark for benchmark in run.benchmarks if benchmark.spec.name == scores.benchmark
    ]
    reply = ""
    for prediction in scored.predictions:
        is_same = prediction.sample_id == sample and prediction.variant.turn == turn
        if is_same and prediction.text:
            reply = prediction.text
            break
    reference = ""
    answer = scored.answers.get((sample, turn))
    if answer:
        reference = max(answer.texts, key=len, default="")
    return _shorten(reply), _shorten(reference)


def _shorten(text: str) -> str:
    """Return a text in one line, cut at `MAX_TEXT_LENGTH` characters."""
    line = " ".join(text.split())
    if len(line) <= MAX_TEXT_LENGTH:
        return line
    return f"{line[: MAX_TEXT_LENGTH - 1]}…"
