"""Predictions to questions of MMBench's form: tables whose rotations are CircularEval, joined as any others are.

They are joined to a benchmark or to a table with the questions and their answers, else to the file's own.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.suites import PredictionForm
from snellen.errors import DataError
from snellen.formats.delimited import LETTERS, TABLES, DelimitedTable, open_text
from snellen.formats.text_table import read_text_table, write_text_table
from snellen.interchange.predictions.rows import PredictionFile
from snellen.interchange.predictions.tables import read_table_rows
from snellen.interchange.predictions.taking import asked_benchmark
from snellen.runs.finding import specs_of
from snellen.suites.mmbench.survey import normal_index


def _fault(path: Path, benchmark: str) -> str:
    """Why a file is not a table of predictions to choices; empty when it is one."""
    try:
        columns = {
            name if name in LETTERS else name.strip().lower()
            for name in read_text_table(path).columns
        }
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    for name in ("index", "prediction"):
        if name not in columns:
            return f"there is no column {name}"
    if benchmark and not _asks_choices(benchmark):
        return f"{benchmark} does not ask choices"
    return "" if benchmark or {"A", "B"} <= columns else "there are no options in columns A, B, ..."


def _asks_choices(benchmark: str) -> bool:
    return _is_table(benchmark) or all(spec.formulation == "choice" for spec in specs_of(benchmark))


def _is_table(answers: str) -> bool:
    return Path(answers).suffix.lower() in TABLES


def _rows(path: Path) -> PredictionFile:
    """The table's rows by the indexes that questions have. Raises DataError."""
    file = read_table_rows(path)
    return replace(file, rows=tuple(replace(row, id=normal_index(row.id)) for row in file.rows))


def _questions(path: Path, answers: str, folder: Path) -> Benchmark:
    """The benchmark that `answers` stands for; built inside the run's folder of a table's texts, or of the file's own
    questions and answers where it is empty."""
    if answers and not _is_table(answers):
        return asked_benchmark(answers)
    table = Path(answers) if answers else _own_table(path, folder)
    with open_text(table) as file:
        header = DelimitedTable(file, table).header
    if {"index", "answer"} <= set(header) and "question" not in header:
        raise DataError(
            f"{table} has answers without their questions; build the questions with `snellen build QUESTIONS --answers "
            f"{table.name}`, and give the benchmark's name"
        )
    spec = BenchmarkSpec(
        name=table.stem,
        title=table.name,
        formulation="choice",
        source=SourceSpec(
            "mmbench", {"files": [table.name], "pictures": False, "as_published": True}
        ),
    )
    return build_benchmark(spec, source=table, to=folder / "benchmark")


def _own_table(path: Path, folder: Path) -> Path:
    """The questions of a file of predictions as a table of their own."""
    cells = read_text_table(path)
    columns = [
        name for name in cells.columns if name.strip().lower() not in ("prediction", "image")
    ]
    if "answer" not in {name.strip().lower() for name in columns}:
        raise DataError(
            f"{path} has predictions without their right answers; name the benchmark that was asked with --benchmark"
        )
    table = folder / f"{path.stem}.tsv"
    table.parent.mkdir(parents=True, exist_ok=True)
    write_text_table(table, columns, [row for _, row in cells.rows])
    return table


PREDICTION_FORM = PredictionForm(
    title="a table of predictions of MMBench's form", fault=_fault, rows=_rows, questions=_questions
)
