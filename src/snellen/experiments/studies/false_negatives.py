"""How often a wrong option is right too, by the source of distractors (ReForm-Eval, Table 31): as people said, and as a
jury of models did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.analysis.statistics import estimate_mean
from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.errors import DataError
from snellen.experiments.studies.series import StudyNumbers
from snellen.experiments.studies.statistic import StudyPart, StudyRow, StudyStatistic
from snellen.metrics.declaration import SHARE
from snellen.records import Estimate
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

LABEL, JURY = "two right options", "jury"
HEADER = ("cell", "benchmark as built", "by people [95%] n", "by the jury [95%] n")
NOTES = (
    "The share of questions with a wrong option that is right too; the paper's is of single distractors, of which a "
    "question has several.",
)


class Label(Struct, frozen=True):
    """What an audit keeps of a rater's word, as far as it matters here."""

    item: str
    by: str
    label: str | None
    settles: bool = False


def _compute(numbers: StudyNumbers) -> StudyPart:
    folders = dict.fromkeys(
        (cell.spec.label, Path(use.folder))
        for cell in numbers.cells
        if cell.run
        for use in cell.run.manifest.benchmarks
    )
    rows: list[StudyRow] = []
    table: list[tuple[Cell, ...]] = []
    for label, folder in folders:
        if not (folder / MANIFEST).exists():
            continue
        benchmark = Benchmark(folder)
        people, jury = by_people(benchmark), by_jury(benchmark)
        rows += _rows(label, benchmark.name, people, jury)
        table.append((
            label, benchmark.name,
            NumberCell(SHARE, people) if people else AbsentCell(f"nobody has looked: `snellen audit {folder}`"),
            NumberCell(SHARE, jury) if jury else AbsentCell("no jury was asked: `snellen lint ... --jury MODEL`"),
        ))  # fmt: skip
    return StudyPart(tuple(rows), (Table("False negatives", HEADER, tuple(table), label_columns=2, notes=NOTES),))


def _rows(cell: str, benchmark: str, people: Estimate | None, jury: Estimate | None) -> Iterator[StudyRow]:
    for quantity, estimate in (("false negatives by people", people), ("false negatives by the jury", jury)):
        if estimate is not None:
            yield StudyRow(
                statistic="false-negatives", quantity=quantity, model="", benchmark=benchmark, protocol="", metric="",
                unit=SHARE, estimate=estimate, cell=cell,
            )  # fmt: skip


def by_people(benchmark: Benchmark) -> Estimate | None:
    """The share of the questions labelled in an audit that have two right options: as it was settled, else as
    its raters said in the mean. None where no question is labelled."""
    path = benchmark.folder.with_name(f"{benchmark.folder.name}.audit.jsonl")
    if not path.exists():
        return None
    latest: dict[tuple[str, str, bool], str | None] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            label = msgspec.json.decode(line, type=Label)
        except msgspec.DecodeError as error:
            raise DataError(f"{path}:{number}: not a label of an audit ({error})") from None
        latest[label.item, label.by, label.settles] = label.label
    labels: dict[str, list[str]] = defaultdict(list)
    for (item, _, settles), said in latest.items():
        if said and (settles or not any(one == item and known and s for (one, _, s), known in latest.items())):
            labels[item].append(said)
    if not labels:
        return None
    values = [sum(label == LABEL for label in said) / len(said) for said in labels.values()]
    return estimate_mean(values, list(labels))


def by_jury(benchmark: Benchmark) -> Estimate | None:
    """The share of questions that failed the jury's check; None where none was asked."""
    verification = benchmark.manifest.verification
    checks = verification.checks if verification else ()
    check = next((check for check in checks if check.name == JURY and check.checked), None)
    if check is None:
        return None
    failed = [1.0] * check.failed + [0.0] * (check.checked - check.failed)
    return estimate_mean(failed, range(check.checked))


FALSE_NEGATIVES = StudyStatistic("False negatives", _compute)
