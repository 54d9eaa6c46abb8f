"""Result files of the original code, of the large study and of the tiny one: `ANSWERS/MODEL/TIME/DATASET.json`.

A JSON list of records with `question`, `answer` (the reply), `gt_answers` (a text or several), `image_path` and
`model_name`; of the tiny study also `task_type`, and `question_id` where its replies are to be marked. Captions have
`cider_score`, the rounds of Visdial `MRR` besides.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from snellen.catalogue import BenchmarkSpec, entries
from snellen.catalogue.hooks import PredictionForm
from snellen.errors import DataError
from snellen.formats.json_files import first_row_fault, read_json_rows
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile, only_model

SUITE = "lvlm-ehub"
NEEDED = ("question", "answer", "gt_answers", "image_path", "model_name")
OF_CANDIDATES = ("legacy_visdial_reciprocal_rank",)
SHORT_ANSWERS = ("typed_match", "contains_answer", "exact_match")
NO_GOLD = "BLANK"
"""What stands for the gold of a task to be planned."""
CANDIDATES = (
    "gt_answers are the candidates of a round, not its right answer, which the original never read; only its "
    "reciprocal rank, which counts the first candidate that occurs in the reply, is defined for them"
)


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not a result file; empty when it is one."""
    del benchmark
    return first_row_fault(path, read_json_rows, NEEDED)


def _read_rows(path: Path) -> PredictionFile:
    """The file's records. Raises DataError naming a record that lacks something, and for replies of two models."""
    records = read_json_rows(path)
    rows = tuple(_row(record, f"record {n}", f"{path}: record {n}") for n, record in enumerate(records, 1))
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
    text = files("snellen.suites.lvlm_ehub").joinpath("result_files.toml").read_text("utf-8")
    return tomllib.loads(text)


def _entry(title: str) -> BenchmarkSpec | None:
    """The entry that asks what a data set of the original asks, where one is known."""
    name = _names().get(title)
    return entries()[f"{SUITE}/{name}"] if name else None


def _row(record: Mapping[str, Any], name: str, where: str) -> PredictedRow:
    for field in NEEDED:
        if field not in record:
            raise DataError(f"{where}: {field} is missing")
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


PREDICTION_FORM = PredictionForm(title="a result file of LVLM-eHub", fault=_fault, rows=_read_rows)
