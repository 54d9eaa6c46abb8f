"""LVLM-eHub's results by task."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec

from snellen.analysis.capability import headline_metric
from snellen.analysis.statistics import mean_of_estimates
from snellen.catalogue import dimension_titles
from snellen.records import Estimate
from snellen.report.run_view import ModelMethodRow, RunView, benchmarks_of, method_rows
from snellen.report.sections import NO_ROW, scored_benchmarks
from snellen.report.suite_tables import SuiteTables
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

SUITE = "lvlm-ehub"


@cache
def task_titles() -> dict[str, str]:
    """`tasks.toml`: tasks by the paper's words (Table A.6)."""
    text = files(__package__).joinpath("tasks.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, str])


def task_tables(views: Sequence[RunView]) -> list[Table]:
    """A table by task; none for runs without the suite's benchmarks."""
    specs = {name: scored.spec for name, scored in scored_benchmarks(views).items() if scored.spec.suite == SUITE}
    if not specs:
        return []
    tasks: dict[tuple[str, str], list[str]] = {}
    for name in benchmarks_of(views):
        if name in specs:
            tasks.setdefault((specs[name].dimension, specs[name].task), []).append(name)
    return [_by_task(views, tasks)]


def _by_task(views: Sequence[RunView], tasks: dict[tuple[str, str], list[str]]) -> Table:
    lines = method_rows(views)
    titles = task_titles()
    rows = tuple(
        (dimension_titles().get(dimension, dimension), titles.get(task, task), len(names),
         *(_mean_cell(line, names) for line in lines))
        for (dimension, task), names in tasks.items()
    )  # fmt: skip
    note = "Unweighted means of the benchmarks' headline metrics, over those of the task that are in the runs."
    header = ("capability", "task", "benchmarks", *(line.label for line in lines))
    return Table("By task", header, rows, label_columns=3, notes=(note,))


def _mean_cell(line: ModelMethodRow, names: Sequence[str]) -> Cell:
    numbers = {name: number for name in names if (number := _headline(line, name))}
    units = {unit for unit, _ in numbers.values()}
    if len(units) > 1:
        return AbsentCell(f"no mean, since units differ: {', '.join(sorted(units))}")
    if not numbers:
        return AbsentCell(NO_ROW)
    missing = [name.rpartition("/")[2] for name in names if name not in numbers]
    mean = mean_of_estimates([estimate for _, estimate in numbers.values()])
    return NumberCell(units.pop(), mean, note=f"without {', '.join(missing)}" if missing else "")


def _headline(line: ModelMethodRow, name: str) -> tuple[str, Estimate] | None:
    """The unit and value that stand for a benchmark; None where the run has no value."""
    scored = line.view.benchmark(name)
    number = line.lookup(headline_metric(scored.spec), name) if scored else None
    return None if number is None or number.estimate.value is None else (number.unit, number.estimate)


TASK_TABLE = SuiteTables("LVLM-eHub", task_tables)
