"""Result files of the original code, of the large study and of the tiny one: `ANSWERS/MODEL/TIME/DATASET.json`.

A JSON list of records with `question`, `answer` (the reply), `gt_answers` (a text or several), `image_path` and
`model_name`; of the tiny study also `task_type`, and `question_id` where its replies are to be marked. Captions have
`cider_score`, the rounds of Visdial `MRR` besides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, entries
from snellen.formats.json_files import packaged_toml
from snellen.interchange.predictions.forms import table_form
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile
from snellen.interchange.predictions.tables import prediction_rows

SUITE = "lvlm-ehub"
OF_CANDIDATES = ("legacy_visdial_reciprocal_rank",)
SHORT_ANSWERS = ("typed_match", "contains_answer", "exact_match")
ANNOTATORS = 10
NO_GOLD = "BLANK"
"""Placeholder for the correct answer of a task that the model is to plan, which has none."""
CANDIDATES = (
    "gt_answers are the candidates of a round, not its right answer, which the original never read; only its "
    "reciprocal rank, which counts the first candidate that occurs in the reply, is defined for them"
)


def _with_task(path: Path, file: PredictionFile, columns: Collection[str]) -> PredictionFile:
    """Complete a result file with its task and metrics, which depend on the dataset that its title names.

    For example, captions are scored by other metrics than short answers. Files with a column `task_type` belong to
    the tiny version of the study, which scored all datasets as VQA.
    """
    spec = _entry(file.title)
    task = "vqa"
    if spec and "task_type" not in columns:
        task = spec.task
    rows = []
    for row in file.rows:
        has_no_answer = row.references == (NO_GOLD,)
        rows.append(replace(row, references=()) if has_no_answer else row)
    notes = list(file.notes)
    if task == "candidates":
        metrics = OF_CANDIDATES
        notes.extend(_candidate_notes(rows))
    elif spec:
        metrics = spec.metrics
    else:
        metrics = SHORT_ANSWERS
    return replace(
        file, rows=tuple(rows), suite=SUITE, task=task, metrics=metrics, notes=tuple(notes)
    )


def _candidate_notes(rows: Sequence[PredictedRow]) -> Iterator[str]:
    """Yield notes about a file of questions with candidate answers: how they are scored, and how many candidates are
    empty.
    """
    yield CANDIDATES
    n_empty = sum(row.references.count("") for row in rows)
    if n_empty:
        yield f"candidates that the original wrote back as empty texts, left out: {n_empty:,}"


@cache
def _names() -> Mapping[str, str]:
    return packaged_toml("snellen.suites.lvlm_ehub", "result_files.toml", dict[str, str])


def _entry(title: str) -> BenchmarkSpec | None:
    """Return the catalogue entry with the same questions as a dataset of the original, by its title; None if there is
    none.
    """
    name = _names().get(title)
    return entries()[f"{SUITE}/{name}"] if name else None


def _fault(path: Path, benchmark: str) -> str:
    """Return why a file is not a result file of LVLM-eHub; "" if it is one.

    The columns must be those of LVLM-eHub. A file of VQA's own results has the same columns. It is recognised by the ten
    answers of its first row, unless its name is that of a dataset of LVLM-eHub.
    """
    fault = _FORM.fault(path, benchmark)
    if fault:
        return fault
    first_row = next(iter(prediction_rows(path)))
    answers = first_row.cells.get("gt_answers")
    has_answers_of_vqa = isinstance(answers, list) and len(answers) == ANNOTATORS
    if has_answers_of_vqa and path.stem not in _names():
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
