"""Statistic of studies: how often a wrong option is correct too, according to people and to a jury of models.

ReForm-Eval, Table 31.
"""

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
    "The share of questions with a wrong option that is correct too. The paper's share is of single wrong options, and a "
    "question has several of them.",
)


def _false_negatives(numbers: StudyNumbers) -> StudyPart:
    """Return for each benchmark of a study the share of questions with a wrong option that is correct too.

    The shares are those that people found in an audit of the benchmark, and that a jury of models found.
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
        found_by_people = (
            "people",
            _by_people(benchmark),
            f"not audited yet: `snellen audit {folder}`",
        )
        found_by_jury = (
            "the jury",
            _by_jury(benchmark),
            "no jury yet: `snellen lint ... --jury MODEL`",
        )
        for judge, estimate, why_absent in (found_by_people, found_by_jury):
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
    """Estimate the share of questions with two correct options, from labels that people gave in an audit.

    If the raters of a question disagreed and the label was settled, the settled label counts; otherwise the mean of the
    raters. None if no question is labelled.
    """
    labels = read_audit_labels(labels_file(benchmark))
    settled_questions = {label.item for label in labels if label.settles}
    verdicts: dict[str, list[bool]] = defaultdict(list)
    for label in labels:
        if label.settles or label.item not in settled_questions:
            verdicts[label.item].append(label.label == TWO_RIGHT)
    if not verdicts:
        return None
    shares = [sum(votes) / len(votes) for votes in verdicts.values()]
    return estimate_mean(shares, list(verdicts))


def _by_jury(benchmark: Benchmark) -> Estimate | None:
    """Estimate the share of questions that failed the check by a jury of models; None without such a check."""
    verification = benchmark.manifest.verification
    if verification is None:
        return None
    for check in verification.checks:
        if check.name == "jury" and check.checked:
            passed = check.checked - check.failed
            failures = [1.0] * check.failed + [0.0] * passed
            return estimate_mean(failures, range(check.checked))
    return None


FALSE_NEGATIVES = StudyStatistic("False negatives", _false_negatives)
