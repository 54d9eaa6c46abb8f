"""Lines of answers: LLaVA's (`question_id`, `prompt`, `text` ...) and POPE's (`question`, `answer`).

LLaVA's scripts of evaluation write the former, with `answer_id` and `model_id` (haotian-liu/LLaVA 1.5,
`llava/eval/model_vqa*.py`), for MMBench with the options of each round of CircularEval, in the order shown. POPE's
evaluation reads the latter (RUCAIBox/POPE, `evaluate.py`), a line for each line of its questions, in their order;
`answer` is the reply.

Samples files of lmms-eval (`--log_samples`, 0.3 to 0.7): a JSON object per line.

A line has `doc_id`, `target` (a text), `filtered_resps` and, where they differ, `resps`, `input` (the prompt), a digest
and the task's own metrics. The writer drops the question's record (`doc`) and all other arguments; older files, and
those of lm-eval, still have them. The requests of a document stand in one list, which the writer unpacks where there
is one alone: a reply, or for `multiple_choice` a pair of loss and flag for each option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.json_files import first_row_fault, read_json_line_rows, read_json_value
from snellen.interchange.predictions.rows import (
    PredictedRow,
    PredictionFile,
    check_fields,
    gold_places,
    listed_options,
    needs,
    only_model,
)
from snellen.recognition.columns import usual_names

OF_LLAVA = ("question_id", "prompt", "text")
OF_POPE = ("question", "answer")
PICTURES = usual_names()["picture"]
NOT_OF_POPE = ("prediction", "gt_answers", "label", "question_id", "id", "index", "options", "A")
"""Fields beside which `answer` may be the right answer, or a record is of another form."""


def _pope_fault(path: Path, benchmark: str) -> str:
    """Why a file is not one of POPE's; empty when it is one."""
    if fault := first_row_fault(path, read_json_line_rows, OF_POPE):
        return fault
    first = read_json_line_rows(path)[0]
    if foreign_fields := [name for name in NOT_OF_POPE if name in first]:
        return f"its first record has {foreign_fields[0]}"
    return (
        ""
        if benchmark
        else "its answers are replies; name the benchmark that was asked with --benchmark"
    )


def _llava_rows(path: Path) -> PredictionFile:
    """The file's lines. Raises DataError naming a line that lacks something, and for replies of two models."""
    records = read_json_line_rows(path)
    rows = [
        _llava_row(record, f"line {n}", f"{path}: line {n}") for n, record in enumerate(records, 1)
    ]
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


LLAVA = PredictionForm(
    title="an answers file of LLaVA", fault=needs(read_json_line_rows, OF_LLAVA), rows=_llava_rows
)
POPE = PredictionForm(title="an answers file of POPE", fault=_pope_fault, rows=_pope_rows)


NEEDED = ("doc_id", "filtered_resps")
OPTION_FIELDS = ("options", "choices")
LOSSES = (
    "lmms-eval keeps the loss of each option, in most of its models the mean over its tokens; its negative is taken "
    "for the log-likelihood, so that the rules sum and mean agree"
)


def _read_rows(path: Path) -> PredictionFile:
    """The file's lines; each reply of a document is a presentation of it. Raises DataError naming a line."""
    rows: list[PredictedRow] = []
    for number, record in enumerate(read_json_line_rows(path), 1):
        rows += _rows(record, f"line {number}", f"{path}: line {number}")
    date, _, task = path.name.partition("_samples_")
    notes = (LOSSES,) if any(row.scores for row in rows) else ()
    repeats = any(row.presentation for row in rows)
    results = path.with_name(f"{date}_results.json")
    return PredictionFile(
        rows=tuple(rows),
        repeats=repeats,
        title=task.partition(".json")[0] or path.stem,
        model=_model(results) if task and results.is_file() else "",
        notes=notes,
    )


def _model(results: Path) -> str:
    """The model's name in the file of results that the writer puts beside the samples."""
    content = read_json_value(results)
    return _text(content.get("model_name")) if isinstance(content, dict) else ""


def _rows(record: Mapping[str, Any], name: str, where: str) -> list[PredictedRow]:
    check_fields(record, NEEDED, where)
    doc = record["doc"] if isinstance(record.get("doc"), dict) else {}
    prompt = _text(record.get("input"))
    options = next(
        (_texts(doc[field]) for field in OPTION_FIELDS if field in doc), ()
    ) or listed_options(prompt)
    losses = _losses(record["filtered_resps"])
    if losses and len(losses) != len(options):
        options = ()
    target = _text(record.get("target"))
    gold = _gold(target, options, by_place=bool(losses))
    if not gold and not losses:
        options = ()  # the prompt lists something else, or the target is not a single option
    question = _text(doc.get("question"))
    row = PredictedRow(
        where=name,
        id=str(record["doc_id"]),
        question=question,
        prompt=prompt,
        options=options,
        gold=gold,
        references=() if options or not target.strip() else (target,),
        scores=tuple(-loss for loss in losses),
    )
    if losses:
        return [row]
    replies = _replies(record, where)
    return [replace(row, presentation=test, reply=reply) for test, reply in enumerate(replies)]


def _gold(target: str, options: tuple[str, ...], by_place: bool) -> tuple[int, ...]:
    """By its place from 0 under likelihood, else by its letter or text."""
    if by_place and target.strip().isdecimal() and int(target) < len(options):
        return (int(target),)
    return gold_places(target, options)


def _losses(answers: Any) -> tuple[float, ...]:
    """One loss per option of a document asked by likelihood; empty for replies."""
    losses = [_loss(pair) for pair in answers] if isinstance(answers, list) else []
    numbers = tuple(loss for loss in losses if loss is not None)
    return numbers if len(numbers) == len(losses) > 1 else ()


def _loss(pair: Any) -> float | None:
    """The loss of a pair of loss and flag, which the writer turns into texts; None for anything else."""
    if not (isinstance(pair, list) and len(pair) == 2 and str(pair[1]) in ("True", "False")):
        return None
    try:
        return float(pair[0])
    except (TypeError, ValueError):
        return None


def _replies(record: Mapping[str, Any], where: str) -> list[str]:
    """The replies as they came where the file has them, else as the task's filter left them."""
    for field in ("resps", "filtered_resps"):
        replies = _flat(record.get(field))
        if replies:
            return replies
    raise DataError(f"{where}: filtered_resps holds no reply")


def _flat(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for element in value for text in _flat(element)]
    return []


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else ""
        if value is None or isinstance(value, (list, dict))
        else str(value)
    )


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        value = value.get("text")
    return (
        tuple(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    )


PREDICTION_FORM = PredictionForm(
    title="a samples file of lmms-eval", fault=needs(read_json_line_rows, NEEDED), rows=_read_rows
)
