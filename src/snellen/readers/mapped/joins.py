"""Joins with a second file, such as annotations of questions or captions of pictures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from snellen.common.conditions import Condition
from snellen.errors import DataError
from snellen.readers.mapped.fields import Record
from snellen.readers.mapped.records import LocatedRecords, Records, read_source_records


class Join(Records, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The second file; its matching records are added to a record under `name`."""

    name: str
    key: str
    """The field of the second file that identifies the matching record."""
    to: str
    """The field of the first file that `key` matches."""
    take: Literal["one", "first", "all"] = "one"
    """`one`: exactly one per record, and none unmatched; `first`: the first match or none; `all`: a list of matches."""
    keep: str = ""
    """Condition that a record of the second file must meet."""
    same: tuple[str, ...] = ()
    """Fields that must be equal in both."""
    others: bool = False
    """Whether the second file may have records without a match in the first."""


def joined(records: LocatedRecords, join: Join, path: Path, folder: Path | None) -> LocatedRecords:
    """The records, joined with those of the second file at `path`. Raises DataError naming an unmatched record."""
    seconds = _filtered(read_source_records(join, path, folder), join.keep)
    if join.take == "one":
        return _side_by_side(records, seconds, join, path)
    return _collected(records, seconds, join)


def _filtered(records: LocatedRecords, keep: str) -> LocatedRecords:
    condition = Condition(keep, nested=True) if keep else None
    return (pair for pair in records if condition is None or condition.holds(pair[1]))


def _side_by_side(records: LocatedRecords, seconds: LocatedRecords, join: Join, path: Path) -> LocatedRecords:
    """Read both files in parallel; a record of the second that comes early waits for its match."""
    waiting: dict[Any, tuple[str, Record]] = {}
    key, to, name, equal_fields = join.key, join.to, join.name, join.same
    for where, record in records:
        wanted_key = record[to]
        while wanted_key not in waiting:
            following = next(seconds, None)
            if following is None:
                raise DataError(f"{where}: the {to} {wanted_key} has no record in {path}")
            if following[1][key] in waiting:
                raise DataError(f"{following[0]}: the {key} {following[1][key]} appears twice")
            waiting[following[1][key]] = following
        place, second = waiting.pop(wanted_key)
        for field in equal_fields:
            if second[field] != record[field]:
                raise DataError(f"{where}: the {field} is {record[field]}, but {second[field]} in {place}")
        record[name] = second
        yield where, record
    for place, second in chain(waiting.values(), seconds):
        raise DataError(f"{place}: there is no record with the {to} {second[key]}")


def _collected(records: LocatedRecords, seconds: LocatedRecords, join: Join) -> LocatedRecords:
    """Each record with all its matches, or the first; the second file is held in memory."""
    matches: dict[Any, list[Record]] = {}
    places: dict[Any, str] = {}
    for where, second in seconds:
        places.setdefault(second[join.key], where)
        matches.setdefault(second[join.key], []).append(second)
    for where, record in records:
        mine = matches.get(record[join.to], [])
        places.pop(record[join.to], None)
        record[join.name] = mine if join.take == "all" else mine[0] if mine else {}
        yield where, record
    if join.take == "all" and not join.others:
        for key, where in places.items():
            raise DataError(f"{where}: there is no record with the {join.to} {key}")


def gathered(records: LocatedRecords, by: str) -> Iterator[tuple[str, Record]]:
    """Group records by a field, in order of first appearance: the first of each group, with all as its `@rows`."""
    together: dict[Any, tuple[str, Record]] = {}
    for where, record in records:
        _, first = together.setdefault(record[by], (where, {**record, "@rows": []}))
        first["@rows"].append(record)
    yield from together.values()
