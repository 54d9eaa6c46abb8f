"""The page of a training: its scores over steps, and the questions that flipped between steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from snellen.records import Result
from snellen.report.content import ChartBlock
from snellen.report.training_curves import (
    TRAINING_CAPTION,
    TrainingRows,
    curve_panel,
    training_step,
)
from snellen.scoring.scored_run import model_label
from snellen.viewing.comparing import flips_by_protocol
from snellen.viewing.library import FlipCounts, RunLibrary, flip_counts
from snellen.viewing.run_table import RunTableRow


class ShownTraining(Struct, frozen=True):
    """The runs of a training by step."""

    name: str
    run_rows: dict[int, RunTableRow]

    @property
    def first(self) -> RunTableRow:
        """The run of the first step."""
        return next(iter(self.run_rows.values()))

    @property
    def last(self) -> RunTableRow:
        """The run of the last step."""
        return next(reversed(self.run_rows.values()))


class TrainingStep(Struct, frozen=True):
    """A row of the table of scores."""

    step: int
    run_row: RunTableRow
    rows: dict[str, Result]
    """Headline by benchmark, and under an empty name that of the run."""


class StepFlips(Struct, frozen=True):
    """Questions that flipped between two steps under one protocol, over all benchmarks."""

    before: int
    after: int
    flips: FlipCounts


class TrainingPage(Struct, frozen=True):
    """Content of the page of a training."""

    training: ShownTraining
    steps: tuple[TrainingStep, ...]
    benchmarks: tuple[str, ...]
    curves: ChartBlock
    flips: tuple[StepFlips, ...]


def shown_trainings(run_rows: Sequence[RunTableRow]) -> list[ShownTraining]:
    """Return the trainings of which at least two steps (checkpoints) were evaluated, the latest training first.

    If a step was evaluated several times, the latest run of it counts.
    """
    run_rows_by_training: dict[str, dict[int, RunTableRow]] = {}
    for run_row in sorted(run_rows, key=lambda run_row: run_row.started, reverse=True):
        name_and_step = step_of(run_row)
        if name_and_step is not None:
            name, step = name_and_step
            run_rows_by_training.setdefault(name, {}).setdefault(step, run_row)
    trainings = []
    for name, run_row_by_step in run_rows_by_training.items():
        if len(run_row_by_step) > 1:
            trainings.append(ShownTraining(name, dict(sorted(run_row_by_step.items()))))
    return trainings


def step_of(run_row: RunTableRow) -> tuple[str, int] | None:
    """Return the training and the step of a run; None for a run that is not labelled NAME@STEP."""
    manifest = run_row.run.manifest
    return None if manifest is None else training_step(model_label(manifest))


def training_page(
    library: RunLibrary, training: ShownTraining, headlines: dict[int, dict[str, Result]]
) -> TrainingPage:
    """Collect the content of a page.

    Args:
        library: The library of the runs.
        training: The training.
        headlines: Headline of each benchmark by step, and under an empty name that of the run.
    """
    steps = []
    rows_by_benchmark: dict[str, dict[int, Result]] = defaultdict(dict)
    for step, run_row in training.run_rows.items():
        results_with_value = {}
        for name, row in headlines[step].items():
            if row.estimate.value is not None:
                results_with_value[name] = row
                rows_by_benchmark[name][step] = row
        steps.append(TrainingStep(step, run_row, results_with_value))

    names = sorted(rows_by_benchmark, key=bool)  # the mean first
    if len(names) == 2:
        names = names[1:]  # the mean of one benchmark is that benchmark
    panels = []
    for name in names:
        rows: TrainingRows = {training.name: rows_by_benchmark[name]}
        panels.append(curve_panel(name, rows, [training.name]))
    curves = ChartBlock(tuple(panels), TRAINING_CAPTION)

    flips = []
    for before, after in pairwise(training.run_rows):
        runs = (training.run_rows[before].run, training.run_rows[after].run)
        for counts in flips_by_protocol(flip_counts(library, *runs)):
            flips.append(StepFlips(before, after, counts))
    return TrainingPage(training, tuple(steps), tuple(names), curves, tuple(flips))
