"""A form of tables: `snellen build FILE.tsv` takes one whose columns are bird, colour and song."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.plugin_api import Draft, LazyImage, TableForm, locate_file, read_params
from snellen_birds.drawing import draw_bird
from snellen_birds.reader import colour_question

HEADER = "bird\tcolour\tsong"


class TableParams(Struct, frozen=True, forbid_unknown_fields=True):
    """What `snellen build` says to the reader of any form of tables."""

    files: tuple[str, ...]
    images: str = ""
    answers: str = ""
    lenient: bool = False


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft for each row; `folder` may be the file itself. Raises DataError for a colour that is none."""
    chosen = read_params(params, TableParams)
    path = folder if folder and folder.is_file() else locate_file(folder, *chosen.files)
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t"), 2):
            where = f"{path}:{number}"
            question = colour_question(row["colour"], where)
            yield Draft(
                row["bird"],
                (question,),
                (LazyImage(where, partial(draw_bird, row["bird"], row["colour"])),),
                where,
            )


def recognises(path: Path) -> bool:
    """Whether a file is such a table."""
    return path.suffix == ".tsv" and path.is_file() and path.read_text("utf-8").startswith(HEADER)


TABLE_FORM = TableForm(title="the form of birds", reader="bird-table", recognises=recognises)
