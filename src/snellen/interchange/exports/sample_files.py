"""The table of replies as a file: CSV, Excel, JSON Lines or Parquet."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from snellen.building.kept_sources import check_overwrites_no_source
from snellen.common.late import import_extra
from snellen.errors import DataError
from snellen.formats.shown_text import csv_table
from snellen.formats.whole_files import write_atomically
from snellen.formats.xlsx import MAX_CELL_CHARACTERS, MAX_ROWS
from snellen.interchange.exports.base import Exporter, ExportJob, sample_table, write_frame

if TYPE_CHECKING:
    import polars


def flat_rows(frame: polars.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame with each list and record as a text of JSON.

    Examples:
        >>> import polars as pl
        >>> flat_rows(pl.DataFrame({"reply": ["A"], "options": [["cat", "dog"]]}))
        [{'reply': 'A', 'options': '["cat","dog"]'}]
    """
    rows: list[dict[str, Any]] = []
    for row in frame.iter_rows(named=True):
        flat = {}
        for name, value in row.items():
            is_nested = isinstance(value, (list, dict))
            flat[name] = msgspec.json.encode(value).decode() if is_nested else value
        rows.append(flat)
    return rows


def write_samples(frame: polars.DataFrame, path: Path) -> Path:
    """Write a table of replies in the format of the suffix: .csv, .xlsx, .jsonl or .parquet.

    CSV and Excel have no lists, so these cells are texts of JSON.

    Raises:
        DataError: A sheet cannot hold so many rows, or so long a text, or a benchmark was built from that file.
        MissingExtraError: The package that writes .xlsx files is missing.
        StoreError: The file cannot be written.
    """
    check_overwrites_no_source(path)
    suffix = path.suffix.lower()
    if suffix == ".csv":
        write_atomically(path, csv_table(flat_rows(frame)).encode())
    elif suffix == ".xlsx":
        write_atomically(path, _sheet(frame))
    elif suffix == ".jsonl":
        lines = [msgspec.json.encode(row) + b"\n" for row in frame.iter_rows(named=True)]
        write_atomically(path, b"".join(lines))
    else:
        write_frame(frame, path)
    return path


def _sheet(frame: polars.DataFrame) -> bytes:
    """Return the table as an .xlsx file. Raises DataError for what a sheet cannot hold."""
    xlsxwriter = import_extra("xlsxwriter", "xlsx", "writing .xlsx files")
    rows = flat_rows(frame)
    if len(rows) >= MAX_ROWS:
        raise DataError(f"an .xlsx file has at most {MAX_ROWS:,} rows; write .csv or .parquet")
    content = io.BytesIO()
    options = {
        **{f"strings_to_{kind}": False for kind in ("numbers", "formulas", "urls")},
        "nan_inf_to_errors": True,
    }
    with xlsxwriter.Workbook(content, options) as book:
        sheet = book.add_worksheet()
        sheet.freeze_panes(1, 0)
        sheet.write_row(0, 0, frame.columns)
        for number, row in enumerate(rows, 1):
            for column, (name, value) in enumerate(row.items()):
                _check_length(value, f"{row.get('sample_id', number)}, {name}")
                if value is not None:
                    sheet.write(number, column, value)
    return content.getvalue()


def _check_length(value: Any, where: str) -> None:
    """Raise DataError for a text that a cell cannot hold."""
    if isinstance(value, str) and len(value.encode("utf-16-le")) // 2 > MAX_CELL_CHARACTERS:
        raise DataError(
            f"{where}: {len(value):,} characters, but a cell of an .xlsx file holds at most {MAX_CELL_CHARACTERS:,}; write .csv, "
            ".jsonl or .parquet"
        )


def _write(job: ExportJob) -> list[Path]:
    return [write_samples(sample_table(job.runs), job.path)]


PARQUET = Exporter(title="one row for each reply, as Parquet", write=_write, suffix=".parquet")
CSV = Exporter(title="one row for each reply, as CSV", write=_write, suffix=".csv")
JSONL = Exporter(title="one row for each reply, as JSON Lines", write=_write, suffix=".jsonl")
XLSX = Exporter(title="one row for each reply, as Excel", write=_write, suffix=".xlsx")
SAMPLES = Exporter(
    title="one row for each reply; the suffix decides: .parquet, .csv, .jsonl or .xlsx",
    write=_write,
    suffix=".parquet",
    further_suffixes=(".csv", ".jsonl", ".xlsx"),
)


def is_sample_table(exporter: Exporter) -> bool:
    """Return whether an exporter writes the table of replies."""
    return exporter.write is _write
