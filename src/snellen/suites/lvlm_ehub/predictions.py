"""Result files of the original code, of the large study and of the tiny one: `ANSWERS/MODEL/TIME/DATASET.json`.

A JSON list of records with `question`, `answer` (the reply), `gt_answers` (a text or several), `image_path` and
`model_name`; of the tiny study also `task_type`, and `question_id` where its replies are to be marked. Captions have
`cider_score`, the rounds of Visdial `MRR` besides.

LVLM-eHub's results by task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from snellen.analysis.headline import headline_metric
from snellen.analysis.statistics import mean_of_estimates
from snellen.catalogue import BenchmarkSpec, dimension_titles, entries
from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.json_files import packaged_toml, read_json_rows
from snellen.interchange.predictions.rows import (
    PredictedRow,
    PredictionFile,
    check_fields,
    needs,
    only_model,
)
from snellen.records import Estimate
from snellen.report.content import SuiteTables
from snellen.report.run_view import ModelMethodRow, RunView, benchmarks_of, method_rows
from snellen.report.sections import NO_ROW, scored_benchmarks
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

SUITE = "lvlm-ehub"
NEEDED = ("question", "answer", "gt_answers", "image_path", "model_name")
OF_CANDIDATES = ("legacy_visdial_reciprocal_rank",)
SHORT_ANSWERS = ("typed_match", "contains_answer", "exact_match")
ANNOTATORS = 10
NO_GOLD = "BLANK"
"""What stands for the gold of a task to be planned."""
CANDIDATES = (
    "gt_answers are the candidates of a round, not its right answer, which the original never read; only its "
    "reciprocal rank, which counts the first candidate that occurs in the reply, is defined for them"
)


def _read_rows(path: Path) -> PredictionFile:
    """The file's records. Raises DataError naming a record that lacks something, and for replies of two models."""
    records = read_json_rows(path)
    rows = tuple(
        _row(record, f"record {n}", f"{path}: record {n}") for n, record in enumerate(records, 1)
    )
    title = path.name.removesuffix(".gz").removesuffix(".json")
    spec, tiny = _entry(title), any("task_type" in record for record in records)
    task = spec.task if spec and not tiny else "vqa"  # the tiny study scored all of its sets as VQA
    return PredictionFile(
        rows=rows,
        repeats=False,
        title=title,
        model=only_model(path, (str(record["model_name"]) for record in records)),
        suite=SUITE,
        task=task,
        metrics=OF_CANDIDATES if task == "candidates" else spec.metrics if spec else SHORT_ANSWERS,
        notes=tuple(_candidate_notes(rows)) if task == "candidates" else (),
    )


def _candidate_notes(rows: Sequence[PredictedRow]) -> Iterator[str]:
    yield CANDIDATES
    if emptied := sum(not text for row in rows for text in row.references):
        yield f"candidates that the original wrote back as empty texts, left out: {emptied:,}"


@cache
def _names() -> Mapping[str, str]:
    return packaged_toml("snellen.suites.lvlm_ehub", "result_files.toml", dict[str, str])


def _entry(title: str) -> BenchmarkSpec | None:
    """The entry that asks what a data set of the original asks, where one is known."""
    name = _names().get(title)
    return entries()[f"{SUITE}/{name}"] if name else None


def _row(record: Mapping[str, Any], name: str, where: str) -> PredictedRow:
    check_fields(record, NEEDED, where)
    answer, golds = record["answer"], record["gt_answers"]
    if not isinstance(answer, str):
        raise DataError(f"{where}: the answer is {answer!r}; a reply is a text")
    texts = golds if isinstance(golds, list) else [golds]
    if not all(isinstance(text, (str, int, float)) for text in texts):
        raise DataError(f"{where}: gt_answers is neither a text nor a list of texts")
    return PredictedRow(
        where=name,
        id=str(record.get("question_id", "")),
        question=str(record["question"]),
        references=() if golds == NO_GOLD else tuple(map(str, texts)),
        reply=answer,
        picture=str(record["image_path"]),
    )


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not one of the original's; empty when it is one."""
    if fault := needs(read_json_rows, NEEDED)(path, benchmark):
        return fault
    [first, *_] = read_json_rows(path)
    golds = first["gt_answers"]
    is_published = path.stem in _names()
    if isinstance(golds, list) and len(golds) == ANNOTATORS and not is_published:
        return f"its questions have the answers of {ANNOTATORS} annotators, as VQA has, and its name is none of LVLM-eHub's"
    return ""


PREDICTION_FORM = PredictionForm(title="a result file of LVLM-eHub", fault=_fault, rows=_read_rows)


@cache
def task_titles() -> dict[str, str]:
    """`tasks.toml`: tasks by the paper's words (Table A.6)."""
    return packaged_toml("snellen.suites.lvlm_ehub", "tasks.toml", dict[str, str])


def task_tables(views: Sequence[RunView]) -> list[Table]:
    """A table by task; none for runs without the suite's benchmarks."""
    specs = {
        name: scored.spec
        for name, scored in scored_benchmarks(views).items()
        if scored.spec.suite == SUITE
    }
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
        (
            dimension_titles().get(dimension, dimension),
            titles.get(task, task),
            len(names),
            *(_mean_cell(line, names) for line in lines),
        )
        for (dimension, task), names in tasks.items()
    )
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
    return (
        None if number is None or number.estimate.value is None else (number.unit, number.estimate)
    )


TASK_TABLE = SuiteTables("LVLM-eHub", task_tables)
