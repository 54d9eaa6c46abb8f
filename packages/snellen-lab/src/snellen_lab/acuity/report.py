"""Tables and records of the thresholds of models, and of the differences between models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from snellen import DataError
from snellen.plugin_api import (
    AdaptiveComparison,
    AdaptiveProcedure,
    Cell,
    ScoredRun,
    Table,
    percent_text,
)
from snellen_lab.acuity.acuity_run import (
    AcuityRun,
    ThresholdDifference,
    difference_record,
    read_acuity,
    threshold_differences,
)
from snellen_lab.acuity.labels import (
    has_several_methods,
    label_of,
    needs_method_rows,
    row_key,
    short_name,
)
from snellen_lab.acuity.thresholds import Threshold, describe_input_limit, total_shares
from snellen_lab.cell_texts import DASH

THRESHOLD_NOTE = "A threshold is the level at which a model is halfway between chance and its best, with a 95% credible interval."
BOUND_NOTE = "“sees all” and “not even” are bounds: the threshold is outside the tested levels."
INPUT_NOTE = (
    "The limit of the input is the threshold of an ideal reader: it compares the image, as the model's own image "
    "processor leaves it, with the shape of each option at each position."
)
DIFFERENCE_NOTE = (
    "x 2 [1.4, 2.9]: the threshold of the second model is twice that of the first. The model with the better threshold, "
    "computed from all its replies, sees better; the difference is significant if the interval excludes 1 (for a plain "
    "difference, 0). The last column says how many of the questions that both models had only the first, and only the "
    "second, answered correctly."
)


def acuity_tables(runs: Sequence[AcuityRun]) -> list[Table]:
    """Return tables of thresholds, of what the models' inputs allow, of differences, and of the visual field.

    Tables without rows are left out.
    """
    differences = []
    for difference in threshold_differences(list(runs)):
        if difference.difference or difference.better:
            differences.append(difference)
    tables = (
        _threshold_table(runs),
        _input_table(runs),
        difference_table(differences),
        _places_table(runs),
    )
    return [table for table in tables if table.rows]


def _summarise(run: ScoredRun) -> list[tuple[str, str]]:
    """Return a line for each threshold of a run: what was measured by which method, and the threshold."""
    lines = []
    for threshold in read_acuity(run).thresholds:
        lines.append((f"{threshold.title}, {threshold.method}", threshold.text))
    return lines


def _compare(scored: Sequence[ScoredRun]) -> AdaptiveComparison:
    """Compare the thresholds of several runs, test by test."""
    runs = [read_acuity(run) for run in scored]
    differences = list(threshold_differences(runs))
    if not differences:
        raise DataError("these runs have no test in common that was measured by the same method")
    records = [difference_record(difference) for difference in differences]
    return AdaptiveComparison(tuple(acuity_tables(runs)), tuple(records))


ADAPTIVE_PROCEDURE = AdaptiveProcedure(
    measures="thresholds", summarise=_summarise, compare=_compare
)


def acuity_records(runs: Sequence[AcuityRun]) -> Iterator[str]:
    """Yield lines of JSON: thresholds, shares by place, and differences, each with its `kind`."""
    for run in runs:
        for threshold in run.thresholds:
            content = {"kind": "threshold", "model": run.model, **msgspec.to_builtins(threshold)}
            yield msgspec.json.encode(content).decode()
        for name, shares in run.fields.items():
            content = {"kind": "places", "model": run.model, "benchmark": name, "places": shares}
            yield msgspec.json.encode(content).decode()
    for difference in threshold_differences(list(runs)):
        yield difference_record(difference)


def _threshold_table(runs: Sequence[AcuityRun]) -> Table:
    """Return a table with a row per test and a column per model."""
    with_method_rows = needs_method_rows(runs)
    # If each model was asked by one method, but not all by the same, cells name the method.
    with_method_cells = has_several_methods(runs) and not with_method_rows

    thresholds_by_model: list[dict[tuple[str, str], Threshold]] = []
    examples: dict[tuple[str, str], Threshold] = {}
    notes = [THRESHOLD_NOTE]
    threshold_notes = []
    for run in runs:
        thresholds = {}
        for threshold in run.thresholds:
            thresholds[row_key(threshold, with_method_rows)] = threshold
            if "sees" in threshold.verdict and BOUND_NOTE not in notes:
                notes.append(BOUND_NOTE)
            for note in threshold.notes:
                threshold_notes.append(f"{run.model}, {threshold.test}: {note}.")
        thresholds_by_model.append(thresholds)
        examples.update(thresholds)

    rows: list[tuple[Cell, ...]] = []
    for key, example in examples.items():
        cells = []
        for thresholds in thresholds_by_model:
            cells.append(_threshold_cell(thresholds.get(key), with_method_cells))
        rows.append((label_of(example, with_method_rows), example.title, *cells))
    return Table(
        "Thresholds",
        ("test", "what varies", *(run.model for run in runs)),
        tuple(rows),
        label_columns=2,
        notes=(*notes, *threshold_notes),
    )


def _threshold_cell(threshold: Threshold | None, with_method: bool) -> str:
    """Return a threshold with its number of replies as text; a dash if there is none."""
    if threshold is None:
        return DASH
    text = f"{threshold.text}, n={threshold.trials}"
    if with_method:
        text += f", by {threshold.method}"
    return text


def _input_table(runs: Sequence[AcuityRun]) -> Table:
    """Return a table of thresholds in relation to the ideal ones."""
    with_method = has_several_methods(runs)
    rows = []
    for run in runs:
        for threshold in run.thresholds:
            limit = describe_input_limit(threshold)
            if limit:
                rows.append((run.model, label_of(threshold, with_method), limit))
    return Table(
        "Limits of the models' inputs",
        ("model", "test", "threshold"),
        tuple(rows),
        label_columns=2,
        notes=(INPUT_NOTE,),
    )


def difference_table(differences: Sequence[ThresholdDifference]) -> Table:
    """Return a table with a row for each difference between two models in a test."""
    rows = []
    for difference in differences:
        shared = difference.shared
        row = (
            short_name(difference.benchmark),
            difference.first,
            difference.second,
            difference.text,
            difference.better or "not decided",
            f"{shared.only_first} to {shared.only_second} of {shared.questions}",
        )
        rows.append(row)
    header = (
        "test",
        "first",
        "second",
        "second compared with first",
        "sees better, by threshold",
        "on the same questions",
    )
    return Table("Differences", header, tuple(rows), label_columns=3, notes=(DIFFERENCE_NOTE,))


def _places_table(runs: Sequence[AcuityRun]) -> Table:
    """Return a table with the share of letters that each model read, in each test of places in an image."""
    rows = []
    for run in runs:
        for benchmark, shares in run.fields.items():
            n_correct, n_replies = total_shares(shares)
            share = percent_text(n_correct / n_replies)
            rows.append((run.model, short_name(benchmark), f"{share} of {n_replies}"))
    return Table("Places", ("model", "test", "read"), tuple(rows), label_columns=2)
