"""Lines of answers: LLaVA's (`question_id`, `prompt`, `text` ...) and POPE's (`question`, `answer`).

LLaVA's scripts of evaluation write the former, with `answer_id` and `model_id` (haotian-liu/LLaVA 1.5,
`llava/eval/model_vqa*.py`), for MMBench with the options of each round of CircularEval, in the order shown. POPE's
evaluation reads the latter (RUCAIBox/POPE, `evaluate.py`), a line for each line of its questions, in their order;
`answer` is the reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snellen.catalogue.hooks import PredictionForm
from snellen.errors import DataError
from snellen.formats.json_files import first_row_fault, read_json_line_rows
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile, only_model
from snellen.interchange.predictions.texts import listed_options
from snellen.recognition.columns import usual_names

OF_LLAVA = ("question_id", "prompt", "text")
OF_POPE = ("question", "answer")
PICTURES = usual_names()["picture"]
NOT_OF_POPE = ("prediction", "gt_answers", "label", "question_id", "id", "index", "options", "A")
"""Fields beside which `answer` may be the right answer, or a record is of another form."""


def _llava_fault(path: Path, benchmark: str) -> str:
    """Why a file is not one of LLaVA's; empty when it is one."""
    del benchmark
    return first_row_fault(path, read_json_line_rows, OF_LLAVA)


def _pope_fault(path: Path, benchmark: str) -> str:
    """Why a file is not one of POPE's; empty when it is one."""
    if fault := first_row_fault(path, read_json_line_rows, OF_POPE):
        return fault
    first = read_json_line_rows(path)[0]
    if foreign_fields := [name for name in NOT_OF_POPE if name in first]:
        return f"its first record has {foreign_fields[0]}"
    return "" if benchmark else "its answers are replies; name the benchmark that was asked with --benchmark"


def _llava_rows(path: Path) -> PredictionFile:
    """The file's lines. Raises DataError naming a line that lacks something, and for replies of two models."""
    records = read_json_line_rows(path)
    rows = [_llava_row(record, f"line {n}", f"{path}: line {n}") for n, record in enumerate(records, 1)]
    model = only_model(path, (str(record.get("model_id") or "") for record in records))
    return PredictionFile(rows=tuple(rows), repeats=False, title=path.stem, model=model)


def _llava_row(record: Mapping[str, Any], name: str, where: str) -> PredictedRow:
    prompt = str(_field(record, "prompt", where))
    options = record.get("options")
    return PredictedRow(
        where=name,
        id=str(_field(record, "question_id", where)),
        prompt=prompt,
        options=tuple(map(str, options)) if isinstance(options, list) else listed_options(prompt),
        reply=_reply(_field(record, "text", where), where),
        picture=_picture(record),
    )


def _pope_rows(path: Path) -> PredictionFile:
    """The file's lines. Raises DataError naming a line that lacks something."""
    records = read_json_line_rows(path)
    rows = tuple(
        PredictedRow(
            where=f"line {n}",
            question=str(_field(record, "question", f"{path}: line {n}")),
            reply=_reply(_field(record, "answer", f"{path}: line {n}"), f"{path}: line {n}"),
            picture=_picture(record),
        )
        for n, record in enumerate(records, 1)
    )
    return PredictionFile(rows=rows, repeats=False, title=path.stem)


def _field(record: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in record:
        raise DataError(f"{where}: {name} is missing")
    return record[name]


def _reply(value: Any, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise DataError(f"{where}: the answer is {value!r}; a reply is a text")
    return value


def _picture(record: Mapping[str, Any]) -> str:
    return next((str(record[name]) for name in PICTURES if isinstance(record.get(name), str)), "")


LLAVA = PredictionForm(title="an answers file of LLaVA", fault=_llava_fault, rows=_llava_rows)
POPE = PredictionForm(title="an answers file of POPE", fault=_pope_fault, rows=_pope_rows)
