"""MMBench's questions as a dataset on the hub: Parquet files with the columns of its tables and images inside.

They are written as one of its tables, so that every check of that form holds for them too.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from snellen.common.drafts import Draft
from snellen.formats.hub_parquet import ImageColumn, ParquetSplit
from snellen.suites.mmbench.reader import read

NEEDED = ("index", "question", "A", "B")
OPTIONAL = (
    "C",
    "D",
    "answer",
    "hint",
    "category",
    "l2-category",
    "L2-category",
    "source",
    "split",
    "comment",
)
PICTURE = "image"
EMPTY = "nan"
"""What an empty cell of the table became as a text (lmms-lab-encoder/MMBench)."""


class _Row(Struct, frozen=True, rename={"l2": "l2-category", "l2_upper": "L2-category"}):
    index: int | str
    question: str
    A: str
    B: str
    C: str = ""
    D: str = ""
    answer: str = ""
    hint: str = ""
    category: str = ""
    l2: str = ""
    l2_upper: str = ""
    source: str = ""
    split: str = ""
    comment: str = ""


def read_hub_table(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each question of a dataset on the hub, as `read` does for a table of MMBench's form.

    Args:
        params: Parameters of `read`, with the Parquet files under `files`.
        folder: Folder of the files.

    Raises:
        DataError: If a row is wrong; the message names the file and the row.
    """
    files = params["files"]
    settings = {name: value for name, value in params.items() if name not in ("files", "official")}
    with TemporaryDirectory(prefix="snellen-mmbench-") as temporary:
        # `dev-00000-of-00001.parquet` becomes `dev.tsv`.
        split_name = Path(files[0]).name.partition("-")[0]
        table = Path(temporary, f"{split_name}.tsv")
        _write_table(ParquetSplit(folder, files), table)
        yield from read({**settings, "files": (table.name,)}, table)


def _write_table(split: ParquetSplit, table: Path) -> None:
    """Write the rows of Parquet files as a table of MMBench's form (.tsv), with images as base64 text."""
    image_column = ImageColumn(PICTURE)
    header = [name for name in (*NEEDED, *OPTIONAL) if name != "L2-category"]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow([*header, PICTURE])
        for position, row in split.rows(NEEDED, OPTIONAL, _Row):
            cells: dict[str, Any] = msgspec.to_builtins(row)
            cells["l2-category"] = cells["l2-category"] or cells["L2-category"]
            texts = []
            for name in header:
                texts.append("" if cells[name] == EMPTY else cells[name])
            image = image_column.at(position).read()
            writer.writerow([*texts, base64.b64encode(image).decode()])
