"""Records in a JSON value of any layout: a list, a table by column, objects under their ids, results inside objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

ID = "id"
"""The field that a key becomes under which a record is stored."""
VALUE = "prediction"
"""The field that a plain value under an id becomes: files that map ids to texts hold replies."""
DEEPEST = 4
"""Objects within one another that are looked into for records."""
FEWEST_IDS = 2
"""Keys from which an object of plain values counts as a map by id."""


def records_in(content: Any) -> list[Any] | None:
    """Return the records of a decoded JSON value, or None if it has none.

    These layouts are known:

    - a list of records;
    - an object with one list of records (`{"results": [...], "acc": 0.5}`), or with one for each of its parts
      (`{"val": [...], "test": [...]}`), whose names become the field `split`;
    - columns under their names, also as pandas writes them;
    - records under their ids (`{"7": {...}}`), at any depth (`{"video": {"action": [...]}}`);
    - texts or numbers under their ids (`{"7": "A dog."}`), also several such maps side by side
      (`{"results": {"7": 1}, "outputs": {"7": "B"}}`).
    """
    if isinstance(content, list):
        return content
    if not isinstance(content, dict) or not content:
        return None
    lists = {
        name: value
        for name, value in content.items()
        if isinstance(value, list) and value and _are_objects(value)
    }
    if len(lists) == 1:
        [records] = lists.values()
        return records
    if lists and len(lists) == len(content) and _are_alike(lists.values()):
        return [{"split": name, **record} for name, part in lists.items() for record in part]
    if columns := _columns(content):
        return [
            dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)
        ]
    if maps := _maps_by_id(content):
        return _joined(maps)
    records = _nested(_without_facts(content))
    return records if records and len(records) > 1 else None


def _are_objects(values: Iterable[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _are_alike(lists: Iterable[Sequence[Mapping[str, Any]]]) -> bool:
    """Whether the first objects of some lists have the same fields."""
    return len({frozenset(objects[0]) for objects in lists}) == 1


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


# --- tables by column ---------------------------------------------------------------------------------------------------


def _columns(content: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return the columns that an object holds under their names; none if it holds something else.

    They are lists or, as pandas writes them, objects by row number, or apart from their names (`orient="split"`).
    """
    if content.keys() == {"columns", "index", "data"}:
        names, rows = content["columns"], content["data"]
        if not isinstance(names, list) or not isinstance(rows, list):
            return {}
        if not all(isinstance(name, str) for name in names):
            return {}
        if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return {}
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    columns: dict[str, Sequence[Any]] = {}
    for name, value in content.items():
        if isinstance(value, dict) and _is_numbered(value):
            columns[name] = list(value.values())
        elif isinstance(value, list):
            columns[name] = value
        else:
            return {}
    lengths = {len(column) for column in columns.values()}
    return columns if len(columns) > 1 and len(lengths) == 1 else {}


def _is_numbered(rows: Mapping[str, Any]) -> bool:
    return bool(rows) and list(rows) == [str(number) for number in range(len(rows))]


# --- maps by id -----------------------------------------------------------------------------------------------------------


def _maps_by_id(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the maps from ids to plain values, by their names: the object itself, or several side by side in it."""
    if len(content) >= FEWEST_IDS and all(_is_plain(value) for value in content.values()):
        return {VALUE: content}
    maps: dict[str, Mapping[str, Any]] = {}
    for name, value in content.items():
        if not isinstance(value, dict) or len(value) < FEWEST_IDS:
            continue
        if all(_is_plain(inner) for inner in value.values()):
            maps[name] = value
    if not maps:
        return {}
    # Settings are such a map, too: that of the questions is the largest, and others count if they have its ids.
    largest = max(maps.values(), key=len)
    if len(largest) <= len(content):
        return {}  # each key is the id of a record with a few plain fields
    by_id = {name: value for name, value in maps.items() if value.keys() == largest.keys()}
    return {VALUE: largest} if len(by_id) == 1 else by_id


def _joined(maps: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    ids = next(iter(maps.values()))
    return [{ID: key, **{name: values[key] for name, values in maps.items()}} for key in ids]


# --- records under their ids ----------------------------------------------------------------------------------------------


def _without_facts(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one object of records that stands beside facts about all of them: `{"acc": 0.5, "results": {...}}`.

    Facts are plain values and objects of them; what is no such object is returned as it is.
    """
    if all(isinstance(value, (dict, list)) for value in content.values()):
        return content
    of_records = [
        value
        for value in content.values()
        if isinstance(value, dict) and len(value) >= FEWEST_IDS and _are_objects(value.values())
    ]
    return of_records[0] if len(of_records) == 1 else content


def _nested(content: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[dict[str, Any]] | None:
    """Return the records at the ends of objects within objects; None if an end is something else.

    A record has a plain field; an object with only objects and lists of objects in it is a level of keys. A record
    without an id of its own gets its path of keys.
    """
    if len(path) >= DEEPEST:
        return None
    records: list[dict[str, Any]] = []
    for key, value in content.items():
        place = (*path, key)
        if isinstance(value, list) and value and _are_objects(value):
            for number, record in enumerate(value):
                own_place = (*place, str(number)) if len(value) > 1 else place
                records.append({ID: "/".join(own_place), **record})
        elif not isinstance(value, dict) or not value:
            return None
        elif any(_is_plain(inner) for inner in value.values()):
            records.append({ID: "/".join(place), **value})
        else:
            inner_records = _nested(value, place)
            if inner_records is None:
                return None
            records += inner_records
    return records or None


def unfolded(
    record: Mapping[str, Any], prefers: Callable[[Iterable[str]], bool]
) -> list[Mapping[str, Any]]:
    """Return the questions that a record holds in a list, each with the other fields of the record.

    `{"image": "a.png", "questions": [{"question": ..., "answer": ...}]}` becomes one record for each question. Of
    several such lists the one counts whose fields the caller prefers. A record without one is returned as it is.
    """
    if "question" in record:
        return [record]
    lists = [
        name
        for name, value in record.items()
        if isinstance(value, list) and value and _are_objects(value) and "question" in value[0]
    ]
    if len(lists) > 1:
        lists = [name for name in lists if prefers(record[name][0])]
    if len(lists) != 1:
        return [record]
    [name] = lists
    shared = {field: value for field, value in record.items() if field != name}
    questions: list[Mapping[str, Any]] = []
    for number, question in enumerate(record[name]):
        place = {ID: f"{record[ID]}/{number}"} if ID in record else {}
        questions.append({**shared, **place, **question})
    return questions
