"""Records in a JSON value of any layout: a list, a table by column, objects under their ids, results inside objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

ID = "id"
"""The field that a key becomes under which a record is stored."""
VALUE = "prediction"
"""The field that a plain value under an id becomes: files that map ids to texts hold replies."""
PART = "split"
"""The field that the name of a record's part becomes."""
DEEPEST = 4
"""Objects within one another that are looked into for records."""
FEWEST_IDS = 2
"""Keys from which an object of plain values counts as a map by id."""

Object = Mapping[str, Any]
Records = list[dict[str, Any]]


def records_in(content: Any) -> list[Any] | None:
    """Return the records of a decoded JSON value, or None if it has none.

    These layouts are known, and tried in this order:

    - a list of records;
    - an object with one list of records (`{"results": [...], "acc": 0.5}`);
    - an object with a list for each of its parts (`{"val": [...], "test": [...]}`), whose names become the field
      `split`;
    - such a list for each part, beside facts about it (`{"results": {"gpt": {"acc": 0.5, "rows": [...]}, ...}}`);
    - columns under their names, also as pandas writes them;
    - texts or numbers under their ids (`{"7": "A dog."}`), also several such maps side by side
      (`{"results": {"7": 1}, "outputs": {"7": "B"}}`);
    - records under their ids (`{"7": {...}}`), at any depth (`{"video": {"action": [...]}}`);
    - the only list of records further inside (`{"run": {"version": 3, "results": [...]}}`).
    """
    if isinstance(content, list):
        return content
    if not isinstance(content, dict) or not content:
        return None
    layouts = (_in_lists, _in_parts_with_facts, _in_columns, _in_maps_by_id)
    for layout in layouts:
        records = layout(content)
        if records:
            return records
    nested = _nested(_without_facts(content))
    if nested and len(nested) > 1:
        return nested
    return _only_list_inside(content)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))


def _has_ids(value: Any) -> bool:
    """Whether a value is an object with as many keys as may be ids."""
    return isinstance(value, dict) and len(value) >= FEWEST_IDS


def _only_list_inside(content: Object) -> Records | None:
    """Return the only list of several records inside the objects of an object; None if there are none or several."""
    lists: list[Records] = []
    level: list[Any] = list(content.values())
    for _ in range(DEEPEST):
        inner_level: list[Any] = []
        for value in level:
            if _is_list_of_objects(value) and len(value) >= FEWEST_IDS:
                lists.append(value)
            elif isinstance(value, dict):
                inner_level += value.values()
        level = inner_level
    return lists[0] if len(lists) == 1 else None


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, dict) for element in value)


# --- lists of records -------------------------------------------------------------------------------------------------


def _in_lists(content: Object) -> Records:
    """Return the records of the only list in an object, or of lists that are all its parts."""
    lists: dict[str, Records] = {}
    for name, value in content.items():
        if value and _is_list_of_objects(value):
            lists[name] = value
    if len(lists) == 1:
        [records] = lists.values()
        return records

    fields_of_parts = {frozenset(part[0]) for part in lists.values()}
    if len(lists) < len(content) or len(fields_of_parts) > 1:
        return []
    records = []
    for name, part in lists.items():
        for record in part:
            records.append({PART: name, **record})
    return records


def _in_parts_with_facts(content: Object) -> Records:
    """Return the records of several parts, each an object with one list of records and facts about it.

    The parts are in the object itself, or in one of its fields. A record has the texts among the facts of its part, such
    as the name of a model; numbers are of all records together, and left out.
    """
    for parts in (content, *content.values()):
        if not _has_ids(parts):
            continue
        names = {_field_of_list(part) for part in parts.values()}
        if len(names) > 1 or "" in names:
            continue
        [name] = names
        records: Records = []
        for key, part in parts.items():
            texts = {field: value for field, value in part.items() if isinstance(value, str)}
            for record in part[name]:
                records.append({PART: key, **texts, **record})
        return records
    return []


def _field_of_list(part: Any) -> str:
    """Return the field with the only list of records in an object that has plain fields, too; empty if it has none."""
    if not isinstance(part, dict) or not any(_is_plain(value) for value in part.values()):
        return ""
    names = [name for name, value in part.items() if value and _is_list_of_objects(value)]
    return names[0] if len(names) == 1 else ""


# --- tables by column ---------------------------------------------------------------------------------------------------


def _in_columns(content: Object) -> Records:
    """Return the rows of a table whose columns an object holds.

    They are lists or, as pandas writes them, objects by row number, or apart from their names (`orient="split"`).
    """
    if {"columns", "data"} <= content.keys():
        return _in_rows(content["columns"], content["data"])
    columns: dict[str, Sequence[Any]] = {}
    for name, value in content.items():
        if isinstance(value, dict) and _is_numbered(value):
            columns[name] = list(value.values())
        elif isinstance(value, list):
            columns[name] = value
        elif not _is_plain(value):
            return []
    lengths = {len(column) for column in columns.values()}
    if len(columns) < 2 or len(lengths) > 1:
        return []
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _in_rows(names: Any, rows: Any) -> Records:
    """Return the records of rows whose cells are in the order of the names of their columns."""
    if not isinstance(names, list) or not isinstance(rows, list) or len(names) < 2:
        return []
    if not all(isinstance(name, str) for name in names):
        return []
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return []
    return [dict(zip(names, row, strict=True)) for row in rows]


def _is_numbered(rows: Object) -> bool:
    return bool(rows) and list(rows) == [str(number) for number in range(len(rows))]


# --- maps by id -----------------------------------------------------------------------------------------------------------


def _in_maps_by_id(content: Object) -> Records:
    """Return a record for each id of maps from ids to plain values: the object itself, or several side by side in it."""
    if _has_ids(content) and _are_plain(content):
        return [{ID: key, VALUE: value} for key, value in content.items()]
    maps: dict[str, Object] = {}
    for name, value in content.items():
        if _has_ids(value) and _are_plain(value) and not _are_settings(value):
            maps[name] = value
    if not maps:
        return []
    # Other maps say something of all records; that of the replies is the largest, and maps beside it have its ids.
    largest = max(maps.values(), key=len)
    if len(largest) <= len(content):
        return []  # each key is the id of a record with a few plain fields
    by_id = {name: value for name, value in maps.items() if value.keys() == largest.keys()}
    if len(by_id) == 1:
        by_id = {VALUE: largest}
    records: Records = []
    for key in largest:
        values = {name: values_by_id[key] for name, values_by_id in by_id.items()}
        records.append({ID: key, **values})
    return records


def _are_plain(values: Object) -> bool:
    return all(_is_plain(value) for value in values.values())


def _are_settings(values: Object) -> bool:
    """Whether plain values are of too many kinds to be replies: texts, numbers and flags, as those of a command are."""
    kinds = {type(value) for value in values.values()}
    has_numbers = int in kinds or float in kinds
    return bool in kinds and str in kinds and has_numbers


# --- records under their ids ----------------------------------------------------------------------------------------------


def _without_facts(content: Object) -> Object:
    """Return the one object of records that stands beside facts about all of them: `{"acc": 0.5, "results": {...}}`.

    Facts are plain values and objects of them; what is no such object is returned as it is.
    """
    if all(isinstance(value, (dict, list)) for value in content.values()):
        return content
    objects_of_records: list[Object] = []
    for value in content.values():
        if _has_ids(value) and all(isinstance(record, dict) for record in value.values()):
            objects_of_records.append(value)
    return objects_of_records[0] if len(objects_of_records) == 1 else content


def _nested(content: Object, path: tuple[str, ...] = ()) -> Records | None:
    """Return the records at the ends of objects within objects; None if an end is something else.

    A record has a plain field; an object with only objects and lists of objects in it is a level of keys. A record
    without an id of its own gets its path of keys.
    """
    if len(path) >= DEEPEST:
        return None
    records: Records = []
    for key, value in content.items():
        place = (*path, key)
        if value and _is_list_of_objects(value):
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


# --- questions in lists ---------------------------------------------------------------------------------------------------

IsName = Callable[[str], bool]
"""Tells from the name of a field what the field holds."""


def question_list(record: Object, is_reply: IsName, is_answer: IsName) -> str:
    """Return the field of a record that holds a list of questions; empty if none does, or if the record asks one itself.

    Questions are objects with a `question`, or with a reply and a right answer as the callables tell by names. Of several
    lists the one counts that has replies.
    """
    if "question" in record:
        return ""
    lists: list[str] = []
    with_replies: list[str] = []
    for name, value in record.items():
        if not value or not _is_list_of_objects(value):
            continue
        replies = {field for field in value[0] if is_reply(field)}
        answers = {field for field in value[0] if is_answer(field)}
        if "question" in value[0] or (answers and replies - answers):
            lists.append(name)
            if replies:
                with_replies.append(name)
    if len(lists) > 1:
        lists = with_replies
    return lists[0] if len(lists) == 1 else ""


def unfolded(record: Object, name: str, is_reply: IsName) -> list[Object]:
    """Return the questions that a record holds in a list, each with the other fields of the record.

    `{"image": "a.png", "questions": [{"question": ..., "answer": ...}]}` becomes one record for each question. A reply to
    all of them is left out if each has its own.
    """
    shared = {field: value for field, value in record.items() if field != name}
    shared_without_replies = {
        field: value for field, value in shared.items() if not is_reply(field)
    }
    questions: list[Object] = []
    for number, question in enumerate(record[name]):
        has_reply = any(is_reply(field) for field in question)
        own_id = {ID: f"{record[ID]}/{number}"} if ID in record else {}
        questions.append(
            {**(shared_without_replies if has_reply else shared), **own_id, **question}
        )
    return questions


# --- replies in lists -----------------------------------------------------------------------------------------------------

MODEL_FIELDS = ("model", "model_name", "model_id")
_OF_MESSAGES = frozenset({"role", "from", "type", "finish_reason", "message"})
"""Fields of the objects of a conversation, or of a service's completions."""


def with_listed_replies(record: Object, is_reply: IsName) -> list[Object]:
    """Return a record whose replies stand in a list of objects with these replies beside its other fields.

    `{"question": ..., "samples": [{"output": "a"}, {"output": "b"}]}` becomes a record with the replies `["a", "b"]` in
    `samples.output`. Where each object names its model, there is a record for each model, with all its replies. Any
    other record is returned as it is.

    Examples:
        >>> record = {"id": 1, "tries": [{"reply": "a"}, {"reply": "b"}]}
        >>> with_listed_replies(record, lambda name: name == "reply")
        [{'id': 1, 'tries.reply': ['a', 'b']}]
    """
    found: list[tuple[str, str]] = []
    for name, value in record.items():
        if not value or not _is_list_of_objects(value) or not _OF_MESSAGES.isdisjoint(value[0]):
            continue
        for field, reply in value[0].items():
            if is_reply(field) and _is_plain(reply):
                found.append((name, field))
    if not found or len({name for name, _ in found}) > 1:
        return [record]

    name, field = found[0]
    objects = record[name]
    others = {key: value for key, value in record.items() if key != name}
    model_fields = [
        key for key in MODEL_FIELDS if all(isinstance(one.get(key), str) for one in objects)
    ]
    model_field = model_fields[0] if model_fields else ""
    replies_by_model: dict[Any, list[Any]] = {}
    for one in objects:
        replies = replies_by_model.setdefault(one.get(model_field), [])
        if one.get(field) is not None:
            replies.append(one[field])
    records: list[Object] = []
    for model, replies in replies_by_model.items():
        of_model = {"model": model} if model_field else {}
        records.append({**others, **of_model, f"{name}.{field}": replies})
    return records
