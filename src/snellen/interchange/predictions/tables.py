"""Tables of predictions as VLMEvalKit writes them (.xlsx; .tsv and .json by PRED_FORMAT; commit e8e78f0, August 2026),
and as people do: an id, a question or a picture's name, and a reply under one of the usual names.

A row has all columns of the benchmark's table but the pictures, and `prediction`: `index`, `question`, `answer` and,
for a choice, the columns A, B, ... An answer that stands for several is a list as Python writes it, as of captions.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS
from snellen.formats.text_table import read_text_table
from snellen.interchange.predictions.joining import ROTATION_STEP
from snellen.interchange.predictions.rows import (
    LONGEST_PATH,
    PredictedRow,
    PredictionFile,
    gold_places,
    is_empty_cell,
    only_model,
)
from snellen.recognition.columns import usual_names

IDS = ("index", "id", "question_id", "qid", "sample_id")
REPLIES = (
    "prediction", "response", "reply", "output", "pred", "predicted_answer", "model_answer", "model_output",
    "model_response", "model_prediction", "generated_text", "generated_answer", "text",
)  # fmt: skip
PICTURES = usual_names()["picture"]


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not a table of predictions; empty when it is one."""
    del benchmark
    try:
        table = read_text_table(path)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    columns = _columns(table.columns)
    if not any(name in columns for name in (*IDS, "question", *PICTURES)):
        return "there is no column index or id, question or image"
    if sum(name in columns for name in REPLIES) != 1:
        reply_columns = [name for name in REPLIES if name in columns]
        return (
            f"there are columns {' and '.join(reply_columns)}"
            if reply_columns
            else "there is no column prediction"
        )
    if "prediction" in columns and (rotations := _rotations(columns, table.rows)):
        turned = f"it shows questions again with their options turned ({rotations[0]})"
        return f"{turned}; leave --as out, or name a circular form"
    return ""


def _columns(names: tuple[str, ...]) -> dict[str, str]:
    """Columns by what they mean; letters keep their case."""
    return {name if name in LETTERS else name.strip().lower(): name for name in names}


def _rotations(
    columns: Mapping[str, str], rows: Sequence[tuple[int, Mapping[str, str]]]
) -> list[str]:
    """Indexes of rows that show the question of a base row with its options in another order."""
    if not {"index", "question", "A", "B"} <= columns.keys():
        return []
    questions = {
        _whole(cells.get(columns["index"], "")): cells.get(columns["question"], "")
        for _, cells in rows
    }
    return [
        index
        for index, question in questions.items()
        if index.isdecimal()
        and (base := str(int(index) % ROTATION_STEP)) != index
        and question
        and questions.get(base) == question
    ]


def _whole(index: str) -> str:
    """`5.0`, as pandas writes a column of whole numbers with a hole, as `5`."""
    return index.strip().removesuffix(".0")


def read_table_rows(path: Path) -> PredictionFile:
    """The table's rows. Raises DataError."""
    table = read_text_table(path)
    columns = _columns(table.columns)
    rows = tuple(
        _row(
            {name: cells[column] for name, column in columns.items() if column in cells},
            f"line {line}",
        )
        for line, cells in table.rows
    )
    models = {
        cells.get(columns.get("model", columns.get("model_name", ""))) for _, cells in table.rows
    } - {None}
    return PredictionFile(
        rows=rows,
        repeats=False,
        title=path.stem,
        model=only_model(path, [str(model) for model in models]),
        notes=table.notes,
    )


def _row(cells: Mapping[str, str], where: str) -> PredictedRow:
    options = _options(cells)
    answers = _answers(cells.get("answer", ""))
    prediction = next((cells[column] for column in REPLIES if column in cells), "")
    picture = next((cells[column] for column in PICTURES if column in cells), "")
    return PredictedRow(
        where=where,
        id=_whole(next((cells[column] for column in IDS if column in cells), "")),
        question=cells.get("question", ""),
        context=cells.get("hint", ""),
        options=options,
        gold=tuple(sorted({place for text in answers for place in gold_places(text, options)})),
        references=() if options else answers,
        reply=None if is_empty_cell(prediction, (*options, *answers)) else prediction,
        picture=picture if len(picture) <= LONGEST_PATH else "",
    )


def _options(cells: Mapping[str, str]) -> tuple[str, ...]:
    """The cells of the letters up to the last that is filled; a spreadsheet may have emptied one before it."""
    count = max((place for place, letter in enumerate(LETTERS, 1) if letter in cells), default=0)
    return tuple(cells.get(letter, "") for letter in LETTERS[:count])


def _answers(cell: str) -> tuple[str, ...]:
    """The cell, or the texts of a list in it."""
    if cell.startswith("[") and cell.endswith("]"):
        try:
            values = ast.literal_eval(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return (cell,)
        if (
            isinstance(values, list)
            and values
            and all(isinstance(value, (str, int, float)) for value in values)
        ):
            return tuple(map(str, values))
    return (cell,) if cell.strip() else ()


PREDICTION_FORM = PredictionForm(
    title="a table of predictions", fault=_fault, rows=read_table_rows, fallback=True
)
