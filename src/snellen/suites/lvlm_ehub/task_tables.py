"""The report's table of LVLM-eHub's results by task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.headline import headline_metric
from snellen.catalogue import dimension_titles
from snellen.formats.json_files import packaged_toml
from snellen.records import Estimate
from snellen.report.content import SuiteTables
from snellen.report.matrix_tables import NOT_MEASURED, scored_benchmarks
from snellen.report.reported_runs import ModelMethodRow, ReportedRun, benchmarks_of, method_rows
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

SUITE = "lvlm-ehub"


@cache
def task_titles() -> dict[str, str]:
    """`tasks.toml`: tasks by the paper's words (Table A.6)."""
    return packaged_toml("snellen.suites.lvlm_ehub", "tasks.toml", dict[str, str])


def task_tables(reported_runs: Sequence[ReportedRun]) -> list[Table]:
    """Return a table for each task; none for runs without benchmarks of the suite."""
    specs = {
        name: scored.spec
        for name, scored in scored_benchmarks(reported_runs).items()
        if scored.spec.suite == SUITE
    }
    if not specs:
        return []
    tasks: dict[tuple[str, str], list[str]] = {}
    for name in benchmarks_of(reported_runs):
        if name in specs:
            tasks.setdefault((specs[name].dimension, specs[name].task), []).append(name)
    return [_by_task(reported_runs, tasks)]


def _by_task(
    reported_runs: Sequence[ReportedRun], tasks: dict[tuple[str, str], list[str]]
) -> Table:
    """Return a table of mean results by task, with a row for each task and a column for each run.

    Args:
        reported_runs: The runs.
        tasks: For each pair of a capability and a task, the names of its benchmarks.
    """
    model_rows = method_rows(reported_runs)
    titles = task_titles()
    rows: list[tuple[str | int | Cell, ...]] = []
    for (dimension, task), names in tasks.items():
        dimension_title = dimension_titles().get(dimension, dimension)
        means = [_mean_cell(model_row, names) for model_row in model_rows]
        rows.append((dimension_title, titles.get(task, task), len(names), *means))
    note = "Unweighted means of the benchmarks' headline metrics, over those of the task that are in the runs."
    header = ("capability", "task", "benchmarks", *(model_row.label for model_row in model_rows))
    return Table("By task", header, tuple(rows), label_columns=3, notes=(note,))


def _mean_cell(model_row: ModelMethodRow, names: Sequence[str]) -> Cell:
    """Return the table cell with a model's mean over several benchmarks.

    Benchmarks without a number are left out and named in a note. There is no mean if no benchmark has a number, or if
    their units differ.
    """
    units: set[str] = set()
    estimates: list[Estimate] = []
    missing: list[str] = []
    for name in names:
        number = _headline(model_row, name)
        if number:
            unit, estimate = number
            units.add(unit)
            estimates.append(estimate)
        else:
            missing.append(name.rpartition("/")[2])
    if len(units) > 1:
        return AbsentCell(f"no mean, since units differ: {', '.join(sorted(units))}")
    if not estimates:
        return AbsentCell(NOT_MEASURED)
    note = f"without {', '.join(missing)}" if missing else ""
    return NumberCell(units.pop(), mean_of_estimates(estimates), note=note)


def _headline(model_row: ModelMethodRow, name: str) -> tuple[str, Estimate] | None:
    """Return the unit and value of a benchmark's headline; None if the run has no value."""
    scored = model_row.reported_run.benchmark(name)
    number = model_row.lookup(headline_metric(scored.spec), name) if scored else None
    return (
        None if number is None or number.estimate.value is None else (number.unit, number.estimate)
    )


TASK_TABLE = SuiteTables("LVLM-eHub", task_tables)
