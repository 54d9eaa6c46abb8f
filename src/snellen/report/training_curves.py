"""Scores over the steps of a training: runs that are labelled NAME@STEP."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, MutableMapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from snellen.metrics.declaration import SHARE, declared_row, metric_row
from snellen.records import Estimate, Result
from snellen.report.axes import ChartAxis
from snellen.report.drawing import ChartPanel, ChartPoint
from snellen.report.flipped import flip_tables
from snellen.report.number_text import DASH, figure_text, metric_title
from snellen.report.reported_runs import ReportedRun, method_rows
from snellen.report.scatter_chart import ScatterPoint, scatter_chart
from snellen.report.table import Cell, Column, NumberCell, Table, tabulate

TRAINING_CAPTION = (
    "Headline of each evaluated step with its 95% interval. Steps of one training share a line."
)
_STEP_LABEL = re.compile(r"(?P<training>.+)@(?P<step>\d+)")

MEAN_TITLE = "mean over benchmarks"

Steps = Mapping[int, ReportedRun]
"""The runs of a training by step, in order."""
TrainingRows = MutableMapping[str, dict[int, Result]]
"""Results of one benchmark by training and step."""


def training_step(label: str) -> tuple[str, int] | None:
    """Return the training and the step that a label NAME@STEP names, or None for another label."""
    match = _STEP_LABEL.fullmatch(label)
    return (match["training"], int(match["step"])) if match else None


def trainings(reported_runs: Sequence[ReportedRun]) -> dict[str, Steps]:
    """Return the runs of each training that was evaluated at two steps or more."""
    by_training: dict[str, dict[int, ReportedRun]] = defaultdict(dict)
    for reported_run in reported_runs:
        name_and_step = training_step(reported_run.label)
        if name_and_step is not None:
            training, step = name_and_step
            by_training[training][step] = reported_run
    return {
        training: dict(sorted(steps.items()))
        for training, steps in by_training.items()
        if len(steps) > 1
    }


def step_headlines(reported_run: ReportedRun) -> dict[str, Result]:
    """Return the headline number of a run on each benchmark, by its name. The mean of them is under an empty name.

    If the run has numbers by generation and by likelihood, those by generation are returned.
    """
    headlines: dict[str, Result] = {}
    for model_row in method_rows([reported_run]):
        for name, row in model_row.headlines.items():
            headlines.setdefault(name, row)
        if model_row.headline is not None:
            headlines.setdefault("", model_row.headline)
    return headlines


def training_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return tables of trainings: the scores at each step, and the questions that became right or wrong between steps."""
    tables = []
    for training, steps in trainings(reported_runs).items():
        tables.append(_score_table(training, steps))
        runs = [reported_run.run for reported_run in steps.values()]
        labels = [reported_run.label for reported_run in steps.values()]
        flips = flip_tables(runs, itertools.pairwise(labels))
        tables.extend(replace(table, title=f"{training}: {table.title.lower()}") for table in flips)
    return tables


class _StepRow(Struct, frozen=True):
    """The headlines of one step of a training, by benchmark; that of the mean has an empty name."""

    step: int
    headlines: dict[str, Result]


def _score_table(training: str, steps: Steps) -> Table:
    """Return a table of the scores of a training, with a row for each evaluated step (checkpoint) and a column for each
    benchmark."""
    rows = [_StepRow(step, step_headlines(reported_run)) for step, reported_run in steps.items()]
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.headlines))
    benchmarks = [name for name in names if name]

    columns = [Column[_StepRow]("step", lambda row: str(row.step), is_label=True)]
    has_mean = "" in names and len(benchmarks) != 1  # the mean of one benchmark is that benchmark
    if has_mean:
        columns.append(_headline_column("mean", ""))
    columns += [_headline_column(name, name) for name in benchmarks]
    return tabulate(f"{training}: scores by step", columns, rows)


def _headline_column(heading: str, name: str) -> Column[_StepRow]:
    """Return a column with the headline number of one benchmark at each step of a training.

    Args:
        heading: The heading of the column.
        name: The benchmark; empty for the mean over benchmarks.
    """

    def headline_cell(row: _StepRow) -> Cell:
        headline = row.headlines.get(name)
        return DASH if headline is None else NumberCell(headline.unit, headline.estimate)

    return Column(heading, headline_cell)


def training_panels(reported_runs: Sequence[ReportedRun]) -> list[ChartPanel]:
    """Draw a chart for each benchmark: the scores over the steps of trainings, with a line for each training."""
    steps_by_training = trainings(reported_runs)
    results_by_benchmark: dict[str, TrainingRows] = defaultdict(lambda: defaultdict(dict))
    for training, steps in steps_by_training.items():
        for step, reported_run in steps.items():
            for benchmark, result in step_headlines(reported_run).items():
                if benchmark and result.estimate.value is not None:
                    results_by_benchmark[benchmark][training][step] = result
    series = list(steps_by_training)
    panels: list[ChartPanel] = []
    for benchmark, results in results_by_benchmark.items():
        panels.append(curve_panel(benchmark, results, series))
    return panels


def headline_panels(reported_runs: Sequence[ReportedRun]) -> list[ChartPanel]:
    """Draw the headline number of runs over the steps of trainings, with a line for each training.

    Nothing is drawn if a run does not belong to a training, or if the numbers have different units.
    """
    steps_by_training = trainings(reported_runs)
    n_in_trainings = sum(map(len, steps_by_training.values()))
    if not reported_runs or n_in_trainings != len(reported_runs):
        return []
    panels = training_panels(reported_runs)
    if len(panels) == 1:
        return panels
    results: TrainingRows = defaultdict(dict)
    units: set[str] = set()
    for training, steps in steps_by_training.items():
        for step, reported_run in steps.items():
            result = step_headlines(reported_run).get("")
            if result is not None and result.estimate.value is not None:
                results[training][step] = result
                units.add(result.unit)
    if len(units) != 1:
        return []
    return [curve_panel("", results, list(steps_by_training))]


def curve_panel(name: str, results: TrainingRows, series: Sequence[str]) -> ChartPanel:
    """Draw the scores on a benchmark over the steps of one or several trainings.

    Args:
        name: The benchmark; empty for the mean over benchmarks.
        results: Results that have a value, by training and step.
        series: The names of all trainings, in the order of their colours.
    """
    points = []
    lines: list[tuple[int, list[ChartPoint]]] = []
    metric = unit = ""
    for training, result_by_step in results.items():
        number = series.index(training)
        line = []
        for step, result in sorted(result_by_step.items()):
            x = Estimate(value=float(step), stderr=None, low=None, high=None, n=0)
            label = f"{training}, step {step}"
            score = f"{metric_title(result.metric)} {figure_text(result.estimate, result.unit)}"
            points.append(
                ScatterPoint(number, label, x, result.estimate, tooltip=f"{label}: {score}")
            )
            line.append((float(step), result.estimate.value or 0.0))
            metric = result.metric
            unit = result.unit
        lines.append((number, line))

    steps = [point.x.value or 0.0 for point in points]
    x_axis = ChartAxis("step", "", max(steps), min(steps))
    if name:
        metric_axis = declared_row(metric)
    else:
        metric_axis = metric_row(MEAN_TITLE, unit=SHARE if unit.startswith(SHARE) else unit)
    y_axis = ChartAxis.of_metric(metric_axis, [point.y for point in points], unit)
    title = f"{name or MEAN_TITLE}: score by training step"
    return ChartPanel(
        name or MEAN_TITLE, scatter_chart(title, points, x_axis, y_axis, curves=lines)
    )
