"""Result files of the original code, of the large study and of the tiny one: `ANSWERS/MODEL/TIME/DATASET.json`.

A JSON list of records with `question`, `answer` (the reply), `gt_answers` (a text or several), `image_path` and
`model_name`; of the tiny study also `task_type`, and `question_id` where its replies are to be marked. Captions have
`cider_score`, the rounds of Visdial `MRR` besides.

LVLM-eHub's results by task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from snellen.analysis.combined_estimates import mean_of_estimates
from snellen.analysis.headline import headline_metric
from snellen.catalogue import BenchmarkSpec, dimension_titles, entries
from snellen.formats.json_files import packaged_toml
from snellen.interchange.predictions.forms import table_form
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile
from snellen.interchange.predictions.tables import prediction_rows
from snellen.records import Estimate
from snellen.report.content import SuiteTables
from snellen.report.matrix_tables import NO_ROW, scored_benchmarks
from snellen.report.run_view import ModelMethodRow, RunView, benchmarks_of, method_rows
from snellen.report.table import AbsentCell, Cell, NumberCell, Table

SUITE = "lvlm-ehub"
OF_CANDIDATES = ("legacy_visdial_reciprocal_rank",)
SHORT_ANSWERS = ("typed_match", "contains_answer", "exact_match")
ANNOTATORS = 10
NO_GOLD = "BLANK"
"""What stands for the gold of a task to be planned."""
CANDIDATES = (
    "gt_answers are the candidates of a round, not its right answer, which the original never read; only its "
    "reciprocal rank, which counts the first candidate that occurs in the reply, is defined for them"
)


def _with_task(path: Path, file: PredictionFile, columns: Collection[str]) -> PredictionFile:
    """Return the file with the task and metrics of its data set, which its title names.

    The tiny study, whose files have a column `task_type`, scored all of its data sets as VQA.
    """
    spec = _entry(file.title)
    task = spec.task if spec and "task_type" not in columns else "vqa"
    rows = tuple(
        replace(row, references=()) if row.references == (NO_GOLD,) else row for row in file.rows
    )
    is_of_candidates = task == "candidates"
    return replace(
        file,
        rows=rows,
        suite=SUITE,
        task=task,
        metrics=OF_CANDIDATES if is_of_candidates else spec.metrics if spec else SHORT_ANSWERS,
        notes=(*file.notes, *(_candidate_notes(rows) if is_of_candidates else ())),
    )


def _candidate_notes(rows: Sequence[PredictedRow]) -> Iterator[str]:
    yield CANDIDATES
    if emptied := sum(not text for row in rows for text in row.references):
        yield f"candidates that the original wrote back as empty texts, left out: {emptied:,}"


@cache
def _names() -> Mapping[str, str]:
    return packaged_toml("snellen.suites.lvlm_ehub", "result_files.toml", dict[str, str])


def _entry(title: str) -> BenchmarkSpec | None:
    """Return the entry that asks the same as a data set of the original, by its title; None if none is known."""
    name = _names().get(title)
    return entries()[f"{SUITE}/{name}"] if name else None


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not one of the original's; empty when it is one."""
    if fault := _FORM.fault(path, benchmark):
        return fault
    golds = next(iter(prediction_rows(path))).cells.get("gt_answers")
    is_published = path.stem in _names()
    if isinstance(golds, list) and len(golds) == ANNOTATORS and not is_published:
        return f"its questions have the answers of {ANNOTATORS} annotators, as VQA has, and its name is none of LVLM-eHub's"
    return ""


_FORM = table_form(
    "a result file of LVLM-eHub",
    needs=("question", "answer", "gt_answers", "image_path", "model_name"),
    columns={
        "id": ("question_id",),
        "question": ("question",),
        "image": ("image_path",),
        "answer": ("gt_answers",),
        "reply": ("answer",),
        "model": ("model_name",),
    },
    finish=_with_task,
)
PREDICTION_FORM = replace(_FORM, fault=_fault)


@cache
def task_titles() -> dict[str, str]:
    """`tasks.toml`: tasks by the paper's words (Table A.6)."""
    return packaged_toml("snellen.suites.lvlm_ehub", "tasks.toml", dict[str, str])


def task_tables(views: Sequence[RunView]) -> list[Table]:
    """Return a table for each task; none for runs without benchmarks of the suite."""
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
    """Return a table of mean results by task, with a row for each task and a column for each run.

    Args:
        views: The runs.
        tasks: For each pair of a capability and a task, the names of its benchmarks.
    """
    lines = method_rows(views)
    titles = task_titles()
    rows: list[tuple[str | int | Cell, ...]] = []
    for (dimension, task), names in tasks.items():
        dimension_title = dimension_titles().get(dimension, dimension)
        means = [_mean_cell(line, names) for line in lines]
        rows.append((dimension_title, titles.get(task, task), len(names), *means))
    note = "Unweighted means of the benchmarks' headline metrics, over those of the task that are in the runs."
    header = ("capability", "task", "benchmarks", *(line.label for line in lines))
    return Table("By task", header, tuple(rows), label_columns=3, notes=(note,))


def _mean_cell(line: ModelMethodRow, names: Sequence[str]) -> Cell:
    """Return the table cell with a model's mean over several benchmarks.

    Benchmarks without a number are left out and named in a note. There is no mean if no benchmark has a number, or if
    their units differ.
    """
    units: set[str] = set()
    estimates: list[Estimate] = []
    missing: list[str] = []
    for name in names:
        number = _headline(line, name)
        if number:
            unit, estimate = number
            units.add(unit)
            estimates.append(estimate)
        else:
            missing.append(name.rpartition("/")[2])
    if len(units) > 1:
        return AbsentCell(f"no mean, since units differ: {', '.join(sorted(units))}")
    if not estimates:
        return AbsentCell(NO_ROW)
    note = f"without {', '.join(missing)}" if missing else ""
    return NumberCell(units.pop(), mean_of_estimates(estimates), note=note)


def _headline(line: ModelMethodRow, name: str) -> tuple[str, Estimate] | None:
    """Return the unit and value of a benchmark's headline; None if the run has no value."""
    scored = line.view.benchmark(name)
    number = line.lookup(headline_metric(scored.spec), name) if scored else None
    return (
        None if number is None or number.estimate.value is None else (number.unit, number.estimate)
    )


TASK_TABLE = SuiteTables("LVLM-eHub", task_tables)
