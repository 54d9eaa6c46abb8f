"""Tables of predictions as VLMEvalKit writes them (.xlsx; .tsv and .json by PRED_FORMAT; commit e8e78f0, August 2026).

A row has all columns of the benchmark's table but the pictures, and `prediction`: `index`, `question`, `answer` and,
for a choice, the columns A, B, ... An answer that stands for several is a list as Python writes it, as of captions.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from snellen.catalogue.hooks import PredictionForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.text_table import read_text_table
from snellen.predictions.prompt_options import gold_places
from snellen.predictions.rows import PredictedRow, PredictionFile

FAILED_REPLY = "Failed to obtain answer"
"""How the texts begin that the toolkit writes in place of a reply that never came."""
IDS = ("index", "id")


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is no table of predictions; empty when it is one."""
    del benchmark
    try:
        columns = _columns(read_text_table(path).columns)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    if not any(name in columns for name in IDS):
        return "there is no column index or id"
    return "" if "prediction" in columns else "there is no column prediction"


def _columns(names: tuple[str, ...]) -> dict[str, str]:
    """Columns by what they mean; letters keep their case."""
    return {name if name in LETTERS else name.strip().lower(): name for name in names}


def _read_rows(path: Path) -> PredictionFile:
    """The table's rows. Raises DataError."""
    table = read_text_table(path)
    columns = _columns(table.columns)
    return PredictionFile(
        rows=tuple(
            _row({name: cells[column] for name, column in columns.items() if column in cells}, f"line {line}")
            for line, cells in table.rows
        ),
        repeats=False,
        title=path.stem,
        notes=table.notes,
    )


def _row(cells: Mapping[str, str], where: str) -> PredictedRow:
    options = _options(cells)
    answers = _answers(cells.get("answer", ""))
    prediction = cells.get("prediction", "")
    failed = prediction.strip().startswith(FAILED_REPLY)
    name = next((cells[column] for column in IDS if column in cells), "")
    return PredictedRow(
        where=where,
        id=name.strip().removesuffix(".0"),
        question=cells.get("question", ""),
        context=cells.get("hint", ""),
        options=options,
        gold=tuple(sorted({place for text in answers for place in gold_places(text, options)})),
        references=() if options else answers,
        reply=None if failed else prediction,
        failure=prediction.strip() if failed else "",
    )


def _options(cells: Mapping[str, str]) -> tuple[str, ...]:
    options: list[str] = []
    for letter in LETTERS:
        if letter not in cells:
            break
        options.append(cells[letter])
    return tuple(options)


def _answers(cell: str) -> tuple[str, ...]:
    """The cell, or the texts of a list in it."""
    if cell.startswith("[") and cell.endswith("]"):
        try:
            values = ast.literal_eval(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return (cell,)
        if isinstance(values, list) and values and all(isinstance(value, (str, int, float)) for value in values):
            return tuple(map(str, values))
    return (cell,) if cell.strip() else ()


PREDICTION_FORM = PredictionForm(
    title="a table of predictions of VLMEvalKit", fault=_fault, rows=_read_rows, fallback=True
)
