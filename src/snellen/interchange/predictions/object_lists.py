"""Read files that list the objects which captions mention, as scripts for CHAIR write them (Rohrbach et al. 2018).

A record has three lists: the objects in the image, those that the caption mentions, and the
mentioned ones that are not in the image (hallucinated). The name of the last has that word; the
other two are recognised by comparing the lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from snellen.formats.source_row import SourceRow
from snellen.interchange.predictions.cells import count_in_cell, image_names, place_of, text_in_cell
from snellen.interchange.predictions.rows import PredictedRow

MOSTLY = 0.95
"""The share of the rows in which the lists have to fit each other."""
FEWEST_WRONG = 3
"""Rows with hallucinated objects, at least."""
_WORD = "hallucinat"


class ObjectLists(Struct, frozen=True):
    """The columns with the objects that captions mention, and with those in the images."""

    mentioned: str
    in_image: str


def object_lists(rows: Sequence[SourceRow]) -> ObjectLists | None:
    """Return the columns that list the mentioned objects and those in the image; None if a file has no such lists."""
    names: set[str] = set()
    others_than_objects: set[str] = set()
    for row in rows:
        for name, cell in row.cells.items():
            (others_than_objects if _objects(cell) is None else names).add(name)
    names -= others_than_objects
    hallucinated = [name for name in names if _WORD in name.casefold()]
    if len(hallucinated) != 1:
        return None
    [wrong] = hallucinated
    others = sorted(names - {wrong})
    for mentioned in others:
        for in_image in others:
            if mentioned != in_image and _fit(rows, wrong, mentioned, in_image):
                return ObjectLists(mentioned, in_image)
    return None


def _fit(rows: Sequence[SourceRow], wrong: str, mentioned: str, in_image: str) -> bool:
    """Return whether the wrong objects are the mentioned ones that are not in the image, in nearly all rows.

    Args:
        rows: The rows.
        wrong: Column of the wrong objects.
        mentioned: Column of the objects that the reply mentions.
        in_image: Column of the objects in the image.
    """
    n_fitting = 0
    n_with_wrong = 0
    for row in rows:
        expected_wrong = _set(row.cells, mentioned) - _set(row.cells, in_image)
        stated_wrong = _set(row.cells, wrong)
        if stated_wrong == expected_wrong:
            n_fitting += 1
        if stated_wrong:
            n_with_wrong += 1
    return n_with_wrong >= FEWEST_WRONG and n_fitting >= MOSTLY * len(rows)


def _set(cells: Mapping[str, Any], name: str) -> frozenset[str]:
    return frozenset(item.casefold() for item in _objects(cells.get(name)) or ())


def _objects(cell: Any) -> list[str] | None:
    """Return the objects in a list of texts; None if a cell is anything else.

    An item may also be a pair of the word in the caption and its object: `["puppy", "dog"]` gives
    `dog`.
    """
    if not isinstance(cell, list):
        return None
    objects = []
    for item in cell:
        name = item[-1] if isinstance(item, list) and item else item
        if not isinstance(name, str):
            return None
        objects.append(name)
    return objects


def rows_of_lists(
    rows: Sequence[SourceRow], lists: ObjectLists, id_column: str, pictures: Sequence[str]
) -> list[PredictedRow]:
    """Return a prediction for each row: the objects that its caption mentions, with those in its image as the answer."""
    predictions: list[PredictedRow] = []
    for row in rows:
        cells = row.cells
        predictions.append(
            PredictedRow(
                where=place_of(row),
                id=text_in_cell(cells.get(id_column)),
                presentation=count_in_cell(cells.get("presentation")),
                question="Which objects does the caption mention?",
                picture=image_names(cells, pictures),
                references=(json.dumps(_objects(cells.get(lists.in_image)) or []),),
                reply=json.dumps(_objects(cells.get(lists.mentioned)) or []),
            )
        )
    return predictions
