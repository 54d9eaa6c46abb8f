"""Thresholds as tables: a row for each test, a column for each model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from snellen.psychometrics.acuity_run import AcuityRun
from snellen.psychometrics.differences import ThresholdDifference, difference_record, threshold_differences
from snellen.psychometrics.thresholds import Threshold, input_words
from snellen.report.table import DASH, Cell, Table, percent

THRESHOLD = (
    "A threshold is the level at which a model is halfway between guessing and its best, with a 95 % credible interval."
)
BOUND = "“sees all” and “not even” are bounds: the threshold lies beyond the hardest or the easiest level."
DIFFERENCE = (
    "x 2 [1.4, 2.9]: the threshold of the second model is twice that of the first. Alone right: shared questions that "
    "only the first, and only the second, answered rightly, with McNemar's exact p."
)


def acuity_tables(runs: Sequence[AcuityRun]) -> list[Table]:
    """Thresholds of all models, what their input allows, their differences, and places of the visual field."""
    tables = (
        _threshold_table(runs),
        _input_table(runs),
        difference_table([each for each in threshold_differences(list(runs)) if each.difference or each.better]),
        _places_table(runs),
    )
    return [table for table in tables if table.rows]


def acuity_records(runs: Sequence[AcuityRun]) -> Iterator[str]:
    """Lines of JSON: thresholds, shares by place, and differences, each with its `kind`."""
    for run in runs:
        for threshold in run.thresholds:
            content = {"kind": "threshold", "model": run.model, **msgspec.to_builtins(threshold)}
            yield msgspec.json.encode(content).decode()
        for name, shares in run.fields.items():
            content = {"kind": "places", "model": run.model, "benchmark": name, "places": shares}
            yield msgspec.json.encode(content).decode()
    yield from map(difference_record, threshold_differences(list(runs)))


def _threshold_table(runs: Sequence[AcuityRun]) -> Table:
    by_model = [{(each.benchmark, each.method): each for each in run.thresholds} for run in runs]
    names = {key: threshold for thresholds in by_model for key, threshold in thresholds.items()}
    several = _has_several_methods(runs)
    rows: list[tuple[Cell, ...]] = [
        (_name(threshold, several), threshold.title, *(_cell(each.get(key)) for each in by_model))
        for key, threshold in names.items()
    ]
    notes = tuple(
        f"{run.model}, {each.test}: {note}." for run in runs for each in run.thresholds for note in each.notes
    )
    header = ("test", "what varies", *(run.model for run in runs))
    has_bound = any("sees" in threshold.verdict for run in runs for threshold in run.thresholds)
    return Table("Thresholds", header, tuple(rows), label_columns=2, notes=(THRESHOLD, *(BOUND,) * has_bound, *notes))


def _has_several_methods(runs: Sequence[AcuityRun]) -> bool:
    return len({threshold.method for run in runs for threshold in run.thresholds}) > 1


def _name(threshold: Threshold, with_method: bool) -> str:
    return _short(threshold.benchmark) + f" ({threshold.method})" * with_method


def _short(benchmark: str) -> str:
    return benchmark.rpartition("/")[2]


def _cell(threshold: Threshold | None) -> str:
    return DASH if threshold is None else f"{threshold.text}, n={threshold.asked}"


def _input_table(runs: Sequence[AcuityRun]) -> Table:
    several = _has_several_methods(runs)
    rows = tuple(
        (run.model, _name(each, several), words)
        for run in runs
        for each in run.thresholds
        if (words := input_words(each))
    )
    note = (
        "What its input allows is the threshold of a reader that compares signs, in whole pixels of what the model's "
        "own image processor leaves."
    )
    return Table("Eye or brain", ("model", "test", "threshold"), rows, label_columns=2, notes=(note,))


def difference_table(differences: Sequence[ThresholdDifference]) -> Table:
    """Two models by two, in each test that both were asked."""
    rows = tuple(
        (_short(d.benchmark), d.first, d.second, d.text, d.better or "not decided", _shared(d)) for d in differences
    )
    header = ("test", "first", "second", "second threshold by first", "sees better", "alone right")
    return Table("Differences", header, rows, label_columns=3, notes=(DIFFERENCE,))


def _shared(difference: ThresholdDifference) -> str:
    shared = difference.shared
    return f"{shared.only_first}, {shared.only_second} of {shared.questions}, p={shared.p:.2g}"


def _places_table(runs: Sequence[AcuityRun]) -> Table:
    rows = tuple((run.model, _short(name), _seen(run, name)) for run in runs for name in run.fields)
    return Table("Places", ("model", "test", "read"), rows, label_columns=2)


def _seen(run: AcuityRun, name: str) -> str:
    shares = run.fields[name]
    seen, asked = sum(share.right for share in shares), sum(share.asked for share in shares)
    return f"{percent(seen / asked)} of {asked}"
