"""A user's own tables of MMBench's form: recognised, and written from any benchmark of choices."""

from __future__ import annotations

from pathlib import Path

from snellen.benchmark import Benchmark
from snellen.catalogue.hooks import TableForm
from snellen.errors import DataError
from snellen.scoring.answers import open_answers
from snellen.suites.mmbench.reader import recognises
from snellen.suites.mmbench.writer import write_file

TABLE_FORM = TableForm(
    title="MMBench's form",
    reader="mmbench",
    recognises=recognises,
    notice="circular copies as one question; with a column id for index, each row would be one",
    page="docs/mmbench.md",
)


def write_mmbench(benchmark: Benchmark, path: str | Path, *, answers: bool = True, rotated: bool = True) -> int:
    """Write a benchmark of choices as a file of MMBench's form (.tsv or .csv), and return how many rows it has.

    All rotations stand in it, or with `rotated` off the base rows; `answers` off leaves the column out.
    Raises DataError for a benchmark that the form cannot hold.
    """
    by_round = open_answers(benchmark.folder) if answers else {}
    golds = {name: answer.options[0] for (name, _), answer in by_round.items() if len(answer.options) == 1}
    if len(golds) < len(by_round):
        raise DataError(f"{benchmark.name}: some questions have several correct options; MMBench's form holds one")
    return write_file(benchmark, Path(path), golds, rotated=rotated)
