"""LVLM-eHub's results by task, and as the sum of ability scores of its tiny form."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from snellen.analysis.capability import headline_metric
from snellen.analysis.statistics import mean_of_estimates, scaled_estimate
from snellen.catalogue import dimension_titles
from snellen.metrics.declaration import SHARE, printed_unit, unit_multiplier
from snellen.records import Estimate
from snellen.report.formatting import decimal_text
from snellen.report.run_view import ModelMethodRow, RunView, benchmarks_of, method_rows
from snellen.report.sections import NO_ROW, scored_benchmarks
from snellen.report.suite_tables import SuiteTables
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

SUITE = "lvlm-ehub"
POINTS = printed_unit(SHARE, 100)


class Abilities(Struct, frozen=True, forbid_unknown_fields=True):
    """`abilities.toml`."""

    tasks: dict[str, str]
    abilities: dict[str, tuple[str, ...]]


@cache
def ehub_abilities() -> Abilities:
    text = files(__package__).joinpath("abilities.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), Abilities)


def ability_score_tables(views: Sequence[RunView]) -> list[Table]:
    """A table by task and one by ability; none for runs without the suite's benchmarks."""
    specs = {name: scored.spec for name, scored in scored_benchmarks(views).items() if scored.spec.suite == SUITE}
    if not specs:
        return []
    tasks: dict[tuple[str, str], list[str]] = {}
    for name in benchmarks_of(views):
        if name in specs:
            tasks.setdefault((specs[name].dimension, specs[name].task), []).append(name)
    return [_by_task(views, tasks), _by_ability(views)]


def _by_task(views: Sequence[RunView], tasks: dict[tuple[str, str], list[str]]) -> Table:
    lines = method_rows(views)
    titles = ehub_abilities().tasks
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


class _Ability(Struct, frozen=True):
    """One ability of one run: the mean of its sets in per cent, and which sets there are."""

    mean: Estimate | None
    pooled: float
    """The same with each question counting alike."""
    missing: tuple[str, ...]


def _by_ability(views: Sequence[RunView]) -> Table:
    lines = method_rows(views)
    found = [{name: _ability(line, sets) for name, sets in ehub_abilities().abilities.items()} for line in lines]
    rows: list[tuple[Cell, ...]] = [
        (dimension_titles()[name], len(sets), *(cell for own in found for cell in _ability_cells(own[name])))
        for name, sets in ehub_abilities().abilities.items()
    ]
    sets = sum(len(names) for names in ehub_abilities().abilities.values())
    rows.append(("sum", sets, *(cell for own in found for cell in (_sum_cell(own), ""))))
    header = ("ability", "sets", *(part for line in lines for part in (line.label, "pooled")))
    notes = (
        "The second version of Tiny LVLM-eHub adds up five abilities of 100 points each. Here an ability is the mean "
        "of its sets' headline metrics (pooled: of their questions), and there is no sum without all sets. Of its 23 "
        "published sums (94 to 328; snellen paper lvlm-ehub tiny) most neighbours lie closer than a standard error.",
    )
    return Table("Ability scores in the form of Tiny LVLM-eHub", header, tuple(rows), label_columns=2, notes=notes)


def _ability(line: ModelMethodRow, sets: Sequence[str]) -> _Ability:
    numbers = {name: number for name in sets if (number := _headline(line, f"{SUITE}/{name}"))}
    points = {
        name: scaled_estimate(estimate, 100 / unit_multiplier(unit))
        for name, (unit, estimate) in numbers.items()
        if unit.startswith(SHARE)
    }
    missing = tuple(name for name in sets if name not in points)
    if not points:
        return _Ability(None, 0.0, missing)
    questions = sum(estimate.n for estimate in points.values())
    pooled = math.fsum(estimate.n * (estimate.value or 0.0) for estimate in points.values()) / questions
    return _Ability(mean_of_estimates(list(points.values())), pooled, missing)


def _ability_cells(ability: _Ability) -> tuple[Cell, Cell]:
    if ability.mean is None:
        return AbsentCell(NO_ROW), ""
    note = f"without {', '.join(ability.missing)}" if ability.missing else ""
    return NumberCell(POINTS, ability.mean, note=note), decimal_text(ability.pooled, 2)


def _sum_cell(abilities: dict[str, _Ability]) -> Cell:
    missing = [name for ability in abilities.values() for name in ability.missing]
    means = [ability.mean for ability in abilities.values() if ability.mean is not None]
    if missing:
        return AbsentCell(f"no sum: {len(missing)} sets are missing")
    return NumberCell(POINTS, scaled_estimate(mean_of_estimates(means), len(means)))


ABILITY_SCORES = SuiteTables("LVLM-eHub by task and ability", "LVLM-eHub", ability_score_tables)
