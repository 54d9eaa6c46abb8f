"""Samples files of lmms-eval (`--log_samples`, 0.3 to 0.7): a JSON object per line.

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
from snellen.formats.json_files import read_json_line_rows, read_json_value
from snellen.interchange.predictions.rows import (
    PredictedRow,
    PredictionFile,
    check_fields,
    gold_places,
    listed_options,
    needs,
)

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
        verdict=_verdict(record),
        reading=_parsed(record),
    )
    if losses:
        return [row]
    replies = _replies(record, where)
    return [replace(row, presentation=test, reply=reply) for test, reply in enumerate(replies)]


_ANSWERS = ("answer", "gt", "ground_truth", "target")
_NO_METRICS = frozenset(
    ("doc_id", "doc", "target", "resps", "filtered_resps", "input", "arguments")
)


def _verdict(record: Mapping[str, Any]) -> float | None:
    """How right a task's own metric says that the reply is; None if no field is such a metric.

    A metric is a number from 0 to 1, or an object with what was parsed and the answer, as of MMMU.
    """
    for name, value in record.items():
        if name in _NO_METRICS or name.endswith("_hash"):
            continue
        if isinstance(value, dict):
            parsed = value.get("parsed_pred")
            answer = next((value[key] for key in _ANSWERS if key in value), None)
            if isinstance(parsed, str) and isinstance(answer, str):
                return float(parsed == answer)
            value = value.get("score")
        if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
            return float(value)
    return None


def _parsed(record: Mapping[str, Any]) -> str | None:
    """What the task read in the reply, where its metric has that."""
    for value in record.values():
        if isinstance(value, dict) and isinstance(value.get("parsed_pred"), str):
            return str(value["parsed_pred"])
    return None


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
