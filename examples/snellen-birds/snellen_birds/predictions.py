"""Such a file, as another toolkit wrote it, becomes a run: `snellen score FILE.lines --benchmark birds/colours`."""

from __future__ import annotations

from pathlib import Path

from snellen import DataError
from snellen.plugin_api import PredictedRow, PredictionFile, PredictionForm, open_text


def lines_of(path: Path) -> PredictionFile:
    """A prediction a line: `id = reply`. Raises DataError for a line that is none."""
    rows = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            name, separator, reply = line.decode().rstrip("\n").partition(" = ")
            if not separator:
                raise DataError(f"{path}:{number}: it is not `id = reply`")
            rows.append(PredictedRow(where=f"line {number}", id=name, reply=reply))
    return PredictionFile(rows=tuple(rows), repeats=False)


def not_lines(path: Path, benchmark: str) -> str:
    """Why a file is no such file; empty when it is one."""
    return "" if path.suffix == ".lines" and benchmark else "not a .lines file with --benchmark"


PREDICTION_FORM = PredictionForm(title="a file of lines", fault=not_lines, rows=lines_of)
