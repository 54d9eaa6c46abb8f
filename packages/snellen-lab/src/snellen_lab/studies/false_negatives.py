"""How often a wrong option is right too, as people and a jury found: a statistic of studies (ReForm-Eval, Table 31)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from snellen.plugin_api import (
    SHARE,
    AbsentCell,
    Benchmark,
    Cell,
    Estimate,
    NumberCell,
    Table,
    estimate_mean,
)
from snellen_lab.studies.series import (
    StudyNumbers,
    StudyPart,
    StudyRow,
    StudyStatistic,
)
from snellen_lab.verification.audit_labels import labels_file, read_audit_labels

TWO_RIGHT = "two right options"
HEADER = ("cell", "benchmark as built", "by people [95%] n", "by the jury [95%] n")
NOTES = (
    "The share of questions with a wrong option that is right too; the paper's is of single distractors, of which a "
    "question has several.",
)


def _false_negatives(numbers: StudyNumbers) -> StudyPart:
    """Return which share of the distractors of each cell's benchmarks are right answers after all.

    People who audited the benchmark say so, or a jury of models.
    """
    folders: dict[tuple[str, Path], None] = {}
    for cell in numbers.cells:
        if cell.run:
            for use in cell.run.manifest.benchmarks:
                folders[cell.spec.label, Path(use.folder)] = None

    rows: list[StudyRow] = []
    table_rows: list[tuple[Cell, ...]] = []
    for label, folder in folders:
        if not Benchmark.is_in(folder):
            continue
        benchmark = Benchmark(folder)
        cells: list[Cell] = []
        for judge, estimate, why_absent in (
            ("people", _by_people(benchmark), f"not audited yet: `snellen audit {folder}`"),
            ("the jury", _by_jury(benchmark), "no jury yet: `snellen lint ... --jury MODEL`"),
        ):
            if not estimate:
                cells.append(AbsentCell(why_absent))
                continue
            cells.append(NumberCell(SHARE, estimate))
            row = StudyRow(
                statistic="false-negatives",
                quantity=f"false negatives by {judge}",
                model="",
                benchmark=benchmark.name,
                protocol="",
                metric="",
                unit=SHARE,
                estimate=estimate,
                cell=label,
            )
            rows.append(row)
        table_rows.append((label, benchmark.name, *cells))
    if not table_rows:
        return StudyPart(tuple(rows), ())
    table = Table("False negatives", HEADER, tuple(table_rows), label_columns=2, notes=NOTES)
    return StudyPart(tuple(rows), (table,))


def _by_people(benchmark: Benchmark) -> Estimate | None:
    """The share of the questions labelled in an audit that have two right options: as it was settled, else as
    its raters said in the mean. None where no question is labelled."""
    labels = read_audit_labels(labels_file(benchmark))
    settled = {label.item for label in labels if label.settles}
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for label in labels:
        if label.settles or label.item not in settled:
            verdicts[label.item].append(label.label == TWO_RIGHT)
    return (
        estimate_mean([sum(votes) / len(votes) for votes in verdicts.values()], list(verdicts))
        if verdicts
        else None
    )


def _by_jury(benchmark: Benchmark) -> Estimate | None:
    """Return the share of questions that failed the jury's check; None where none was asked."""
    verification = benchmark.manifest.verification
    checks = verification.checks if verification else ()
    check = next((check for check in checks if check.name == "jury" and check.checked), None)
    if check is None:
        return None
    failed = [1.0] * check.failed + [0.0] * (check.checked - check.failed)
    return estimate_mean(failed, range(check.checked))


FALSE_NEGATIVES = StudyStatistic("False negatives", _false_negatives)
