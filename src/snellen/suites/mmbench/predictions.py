"""Predictions to questions of MMBench's form: tables whose rotations are CircularEval, joined as any others are.

They are joined to a benchmark or to a table with the questions and their answers, else to the file's own.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.callers import for_caller, setting
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES, DelimitedTable, open_text
from snellen.formats.text_table import TextTable, write_text_table
from snellen.interchange.predictions.rows import PredictionFile
from snellen.interchange.predictions.tables import (
    prediction_rows,
    read_predictions,
    recognise_predictions,
)
from snellen.suites.mmbench.survey import FORM_COLUMNS, L2_COLUMNS, base_index, normal_index


def _fault(path: Path, benchmark: str) -> str:
    """Return why a file is not a table of CircularEval, which repeats questions with rotated options; "" if it is one.

    A table without repeated questions is read by another reader, unless it is joined to a table of MMBench's form.

    Args:
        path: The file of predictions.
        benchmark: Path of the table of questions; empty if there is none.
    """
    if benchmark and not _is_table(benchmark):
        return f"{benchmark} is a built benchmark; leave {for_caller('--as', 'form=...')} out"
    try:
        rows = [row.cells for row in prediction_rows(path)]
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    columns: set[str] = set()
    for cells in rows:
        columns.update(cells)
    for name in ("index", "prediction"):
        if name not in columns:
            return f"there is no column {name}"
    if benchmark:
        return "" if _has_form(Path(benchmark)) else f"{benchmark} is not of MMBench's form"
    if not {"question", "A", "B"} <= columns:
        return "there are no options in columns A, B, ..."

    questions = {}
    for cells in rows:
        questions[normal_index(str(cells.get("index", "")))] = cells.get("question")
    for index, question in questions.items():
        base = base_index(index, "", grouped=False)
        is_rotation = base != index and questions.get(base) == question
        if is_rotation and question:
            return ""
    return "no row repeats a question with its options in another order"


def _is_table(answers: str) -> bool:
    return Path(answers).suffix.lower() in TABLES


def _has_form(table: Path) -> bool:
    with open_text(table) as file:
        header = set(DelimitedTable(file, table).header)
    return {"index", "A", "B"} <= header or {"index", "answer"} == header


def _rows(path: Path) -> PredictionFile:
    """Return the table's rows by the indexes of questions. Raises DataError."""
    [file] = read_predictions(recognise_predictions(path, is_gold_known=True))
    return file


def _questions(path: Path, answers: str, folder: Path) -> Benchmark:
    """Return the benchmark of the table `answers`, or of the file's own questions and answers where it is empty."""
    if not answers:
        return _own_questions(path, folder)
    table = Path(answers)
    with open_text(table) as file:
        header = DelimitedTable(file, table).header
    if {"index", "answer"} <= set(header) and "question" not in header:
        build = for_caller(
            f"`snellen build QUESTIONS --answers {table.name}`",
            f"sn.build(QUESTIONS, answers={table.name!r})",
        )
        raise DataError(
            f"{table} has answers without their questions; build the questions with {build}, and give the "
            "benchmark's name"
        )
    return _built(table, table.name, folder, lenient=False)


def _own_questions(path: Path, folder: Path) -> Benchmark:
    """Return the benchmark that the questions of a file of predictions make. Raises DataError, naming that file."""
    cells = TextTable.read(path)
    columns = []
    has_answers = False
    for column in cells.columns:
        name = column.strip()
        is_of_form = name in (*LETTERS, *FORM_COLUMNS, *L2_COLUMNS)
        if not is_of_form or name.lower() == "image":
            continue
        columns.append(column)
        has_answers = has_answers or name.lower() == "answer"
    if not has_answers:
        raise DataError(
            f"{path} has predictions without their right answers; name the benchmark that was asked with {setting('benchmark')}"
        )
    with TemporaryDirectory() as temporary:
        table = Path(temporary) / f"{path.stem}.tsv"
        write_text_table(table, columns, [row for _, row in cells.rows])
        try:
            return _built(table, path.name, folder, lenient=True)
        except DataError as error:
            raise DataError(str(error).replace(str(table), str(path))) from None


def _built(table: Path, title: str, folder: Path, *, lenient: bool) -> Benchmark:
    """Build a benchmark from a table of MMBench's form without reading its images, in the subfolder `benchmark`."""
    params = {
        "files": [table.name],
        "reads_images": False,
        "as_published": True,
        "lenient": lenient,
    }
    spec = BenchmarkSpec(
        name=table.stem,
        title=title,
        formulation="choice",
        source=SourceSpec("mmbench", params),
        headline="circular_accuracy",
    )
    return build_benchmark(spec, source=table, to=folder / "benchmark")


PREDICTION_FORM = PredictionForm(
    title="a table of predictions of MMBench's form", fault=_fault, rows=_rows, questions=_questions
)
