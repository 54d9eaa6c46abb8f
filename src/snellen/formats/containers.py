"""Find the records in a JSON value, whatever its layout: a list, columns, objects by id, or results
inside other objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

ID = "id"
"""Name of the field for the key under which a record is stored: `{"7": {...}}` has the record with
the id 7.
"""
VALUE = "prediction"
"""Name of the field for a plain value under an id: `{"7": "A dog."}` is the prediction "A dog." for
the id 7.
"""
PART = "split"
"""Name of the field for the part of the file that a record comes from."""
MAX_LEVELS = 4
"""Objects within one another that are looked into for records."""
MIN_IDS = 2
"""Keys from which an object of plain values counts as a map by id."""

Object = Mapping[str, Any]
Records = list[dict[str, Any]]


def records_in(content: Any) -> list[Any] | None:
    """Return the records of a decoded JSON value; None if it has none.

    Evaluation programs arrange records in many ways. These are known, and tried in this order:

    - a list of records;
    - an object with one list of records (`{"results": [...], "acc": 0.5}`);
    - an object with a list for each of its parts (`{"val": [...], "test": [...]}`), whose names
      become the field `split`;
    - the same with facts about each part beside its list (`{"gpt": {"acc": 0.5, "rows": [...]},
      ...}`), perhaps inside a field such as `results`;
    - an object for each part, with records under the same ids (`{"gpt": {"7": {...}}, "llava":
      {"7": {...}}}`);
    - columns under their names, also as pandas writes them;
    - records in an object beside objects with sums of their numbers (`{"acc_by_type": {...},
      "details": {...}}`);
    - texts or numbers under their ids (`{"7": "A dog."}`), also several such maps side by side
      (`{"results": {"7": 1}, "outputs": {"7": "B"}}`);
    - columns in an object inside (`{"run": {"predictions": [...], "labels": [...]}}`);
    - records under their ids (`{"7": {...}}`), at any depth (`{"video": {"action": [...]}}`);
    - the only list of records further inside (`{"run": {"version": 3, "results": [...]}}`).
    """
    if isinstance(content, list):
        return content
    if not isinstance(content, dict) or not content:
        return None
    layouts = (
        _in_lists,
        _in_parts_with_facts,
        _in_parts_by_id,
        _in_columns,
        _in_objects_beside_sums,
        _in_maps_by_id,
    )
    for layout in layouts:
        records = layout(content)
        if records:
            return records
    for value in content.values():
        if isinstance(value, dict):
            records = _in_lists_of_columns(value)
            if records:
                return records
    nested = _in_nested_objects(_without_facts(content))
    if nested and len(nested) > 1:
        return nested
    only_list = _only_list_inside(content)
    if only_list is None and nested and _has_several_texts(nested[0]):
        return nested
    return only_list


def _has_several_texts(record: Any) -> bool:
    """Return whether an object has several texts, as a question with its reply has.

    Numbers that sum up a run have not.
    """
    values = record.values() if isinstance(record, dict) else ()
    return sum(isinstance(value, str) for value in values) >= MIN_TEXTS_OF_ONLY_RECORD


MIN_TEXTS_OF_ONLY_RECORD = 3
"""A single object under a name is a record only if it has this many texts, its id among them."""


def _is_plain(value: Any) -> bool:
    """Return whether a value is a text, a number, a Boolean or null, and not a list or an object."""
    return value is None or isinstance(value, (str, int, float))


def _has_ids(value: Any) -> bool:
    """Return whether a value is an object with at least `MIN_IDS` keys, so that these may be ids
    of records.
    """
    return isinstance(value, dict) and len(value) >= MIN_IDS


def _only_list_inside(content: Object) -> Records | None:
    """Return the only list of several records in nested objects; None if there is none, or more
    than one.
    """
    lists: list[Records] = []
    level: list[Any] = list(content.values())
    for _ in range(MAX_LEVELS):
        inner_level: list[Any] = []
        for value in level:
            if _is_list_of_objects(value) and len(value) >= MIN_IDS:
                lists.append(value)
            elif isinstance(value, dict):
                inner_level += value.values()
        level = inner_level
    return lists[0] if len(lists) == 1 else None


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(element, dict) for element in value)


# --- lists of records -------------------------------------------------------------------------------------------------


def _in_lists(content: Object) -> Records:
    """Return the records of an object that contains one list of records, or only lists of records
    with the same fields.

    In the latter case, such as `{"val": [...], "test": [...]}`, the name of its list is added to
    each record as the field `split`. Returns an empty list for any other object.
    """
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
    """Return the records of an object with several parts, each of which has one list of records and
    facts about them.

    `{"gpt": {"model": "GPT", "acc": 0.5, "rows": [{"id": 1}]}, ...}` gives `{"split": "gpt",
    "model": "GPT", "id": 1}` and so on. Texts are facts about each record, and are added to it.
    Numbers, such as an accuracy, are about all records and are left out. The parts may also be
    inside one field of `content`. Returns an empty list for any other object.
    """
    for parts in (content, *content.values()):
        if not _has_ids(parts):
            continue
        list_fields = {_field_of_list(part) for part in parts.values()}
        if len(list_fields) > 1 or "" in list_fields:
            continue
        [list_field] = list_fields
        records: Records = []
        for key, part in parts.items():
            texts = {field: value for field, value in part.items() if isinstance(value, str)}
            for record in part[list_field]:
                records.append({PART: key, **texts, **record})
        return records
    return []


def _in_parts_by_id(content: Object) -> Records:
    """Return the records of an object with several parts that have records under the same ids.

    `{"gpt": {"7": {...}}, "llava": {"7": {...}}}` gives records with the fields `split` ("gpt") and
    `id` ("7"). A part may lack up to half of the ids. Returns an empty list for any other object.
    """
    parts = list(content.values())
    if len(parts) < 2 or not all(_has_ids(part) for part in parts):
        return []
    largest: Object = max(parts, key=len)
    for part in parts:
        has_ids_of_largest = part.keys() <= largest.keys()
        lacks_most = len(part) < len(largest) / 2
        if not has_ids_of_largest or lacks_most:
            return []
    records: Records = []
    for name, part in content.items():
        for key, record in part.items():
            if not isinstance(record, dict) or not _has_plain_value(record):
                return []
            records.append({PART: name, ID: key, **record})
    return records


def _field_of_list(part: Any) -> str:
    """Return the name of the field that contains the only list of records of an object: `rows` for
    `{"acc": 0.5, "rows": [{...}]}`.

    Empty if the object has no such list, or several, or no field with a plain value beside it.
    """
    if not isinstance(part, dict):
        return ""
    if not _has_plain_value(part):
        return ""
    fields = [field for field, value in part.items() if value and _is_list_of_objects(value)]
    return fields[0] if len(fields) == 1 else ""


# --- tables by column ---------------------------------------------------------------------------------------------------


def _in_columns(content: Object) -> Records:
    """Return the rows of a table that an object stores column by column; empty if it is not such a table.

    A column is a list (`{"id": [1, 2], "reply": ["A", "B"]}`) or, as pandas writes it, an object by row number
    (`{"id": {"0": 1, "1": 2}, ...}`). With `orient="split"`, pandas writes `{"columns": [...], "data": [[...], ...]}`.
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


MIN_ROWS = 3
"""Smallest number of cells with which lists of the same length in a nested object are taken for the
columns of a table.
"""


def _in_lists_of_columns(value: Object) -> Records:
    """Return the rows of a table that an object stores as a list for each column: `{"predictions":
    [...], "labels": [...]}`.

    Empty if the object contains anything else, or the lists differ in length or have fewer than
    `MIN_ROWS` cells.
    """
    columns = list(value.values())
    for column in columns:
        if not isinstance(column, list) or not all(_is_plain(cell) for cell in column):
            return []
    if len(columns) < 2 or len(columns[0]) < MIN_ROWS:
        return []
    return _in_columns(value)


def _in_rows(names: Any, rows: Any) -> Records:
    """Convert rows, which are lists of cells, to records.

    `["id", "reply"]` and `[[1, "A"], [2, "B"]]` give `[{"id": 1, "reply": "A"}, {"id": 2, "reply": "B"}]`. Empty if
    there are fewer than two columns, or the values have another form.

    Args:
        names: The names of the columns.
        rows: For each row, its cells in the order of the names.
    """
    if not isinstance(names, list) or not isinstance(rows, list) or len(names) < 2:
        return []
    if not all(isinstance(name, str) for name in names):
        return []
    records: Records = []
    for row in rows:
        if not isinstance(row, list) or len(row) != len(names):
            return []
        records.append(dict(zip(names, row, strict=True)))
    return records


def _is_numbered(rows: Object) -> bool:
    """Return whether the keys of an object are "0", "1", "2", ... in this order."""
    return bool(rows) and list(rows) == [str(number) for number in range(len(rows))]


# --- maps by id -----------------------------------------------------------------------------------------------------------


def _in_maps_by_id(content: Object) -> Records:
    """Return a record for each id of an object that maps ids to texts or numbers; empty if it is not such an object.

    - `{"7": "A dog.", "8": "A cat."}` gives `[{"id": "7", "prediction": "A dog."}, ...]`.
    - Several maps with the same ids, `{"scores": {"7": 1, ...}, "outputs": {"7": "B", ...}}`, give
      `[{"id": "7", "scores": 1, "outputs": "B"}, ...]`.

    Among several maps, the largest holds replies. Smaller ones, with other keys, are facts about all records.
    """
    if _has_ids(content) and _are_plain(content):
        return [{ID: key, VALUE: value} for key, value in content.items()]
    maps: dict[str, Object] = {}
    for name, value in content.items():
        if _has_ids(value) and _are_plain(value) and not _are_settings(value):
            maps[name] = value
    if not maps:
        return []

    largest = max(maps.values(), key=len)
    have_ids_inside = any(_are_ids(values) for values in maps.values())
    are_records_by_name = _are_ids(content) and not have_ids_inside
    if are_records_by_name or len(largest) <= len(content):
        return []  # the keys of `content` are the ids, of records with a few plain fields each
    maps_of_replies: dict[str, Object] = {}
    for name, values in maps.items():
        if values.keys() == largest.keys():
            maps_of_replies[name] = values
    if len(maps_of_replies) == 1:
        return [{ID: key, VALUE: value} for key, value in largest.items()]
    records: Records = []
    for key in largest:
        record: dict[str, Any] = {ID: key}
        for name, values in maps_of_replies.items():
            record[name] = values[key]
        records.append(record)
    return records


def _in_objects_beside_sums(content: Object) -> Records:
    """Return the records of an object in which one field has the records, and others have numbers
    that sum them up.

    `{"acc": 0.8, "acc_by_type": {"color": 1, ...}, "details": {"a.png": {"What is it?": {...},
    ...}, ...}}` gives the records of `details`. Returns an empty list if there are no such sums, or
    fewer records than numbers in them.
    """
    sums: list[Object] = []
    others: list[Object] = []
    for value in content.values():
        if isinstance(value, dict) and value:
            has_only_numbers = all(isinstance(item, (int, float)) for item in value.values())
            if has_only_numbers:
                sums.append(value)
            else:
                others.append(value)
        elif not _is_plain(value):
            return []
    if not sums or len(others) != 1:
        return []

    records = _in_nested_objects(others[0]) or []
    most_numbers = max(len(numbers) for numbers in sums)
    return records if len(records) > most_numbers else []


def _are_ids(content: Object) -> bool:
    """Return whether all keys of an object contain a digit.

    Ids of records usually do, names of fields seldom.
    """
    for key in content:
        has_digit = any(character.isdigit() for character in key)
        if not has_digit:
            return False
    return True


def _has_plain_value(record: Object) -> bool:
    return any(_is_plain(value) for value in record.values())


def _are_plain(values: Object) -> bool:
    return all(_is_plain(value) for value in values.values())


def _are_settings(values: Object) -> bool:
    """Return whether an object mixes texts, numbers and Booleans, like the settings of a command; replies do not."""
    types = {type(value) for value in values.values()}
    has_numbers = int in types or float in types
    return bool in types and str in types and has_numbers


MIN_SHARE_OF_RECORDS = 0.75
"""Smallest share of records among the values of an object by which the other values are taken for
facts about all records.
"""


# --- records under their ids ----------------------------------------------------------------------------------------------


def _without_facts(content: Object) -> Object:
    """Return the part of an object that has its records, without facts about all of them.

    `{"acc": 0.5, "results": {"7": {...}, "8": {...}}}` gives `{"7": {...}, "8": {...}}`. The object
    is returned unchanged if it has no plain value, or if not exactly one of its fields contains
    records.
    """
    has_plain_values = not all(isinstance(value, (dict, list)) for value in content.values())
    if not has_plain_values:
        return content
    objects_of_records: list[Object] = []
    for value in content.values():
        if not _has_ids(value):
            continue
        records = {key: record for key, record in value.items() if isinstance(record, dict)}
        # Beside records by id there may be a plain value about all of them:
        # `{"type": "GEN", "0": {...}, "1": {...}}`.
        are_all = len(records) == len(value)
        are_most = len(records) >= MIN_SHARE_OF_RECORDS * len(value) and _are_ids(records)
        if are_all or are_most:
            objects_of_records.append(records)
    return objects_of_records[0] if len(objects_of_records) == 1 else content


def _in_nested_objects(content: Object, path: tuple[str, ...] = ()) -> Records | None:
    """Return the records inside objects within objects; None if a value inside is neither a record nor a level of keys.

    An object with a plain value is a record; one whose values are all objects or lists is a level of keys. A record
    without an id gets its keys as id: `{"video": {"a": {"reply": "B"}}}` gives `{"id": "video/a", "reply": "B"}`.

    Args:
        content: The object.
        path: The keys that lead to it.
    """
    if len(path) >= MAX_LEVELS:
        return None
    records: Records = []
    for key, value in content.items():
        value_path = (*path, key)
        if value and _is_list_of_objects(value):
            for number, record in enumerate(value):
                record_path = (*value_path, str(number)) if len(value) > 1 else value_path
                records.append({ID: "/".join(record_path), **record})
        elif not isinstance(value, dict) or not value:
            return None
        elif _has_plain_value(value) or _is_item(value) or _are_in_brackets(value):
            records.append({ID: "/".join(value_path), **value})
        else:
            inner_records = _in_nested_objects(value, value_path)
            if inner_records is None:
                return None
            records += inner_records
    return records or None


def _is_item(value: Object) -> bool:
    """Return whether an object has a list of records, and another of plain values: of what an image shows, for example."""
    n_lists_of_records = 0
    n_lists_of_values = 0
    for inner in value.values():
        if not isinstance(inner, list) or not inner:
            return False
        if _is_list_of_objects(inner):
            n_lists_of_records += 1
        if all(_is_plain(item) for item in inner):
            n_lists_of_values += 1
    return n_lists_of_records == 1 and n_lists_of_values > 0


def _are_in_brackets(value: Object) -> bool:
    """Return whether each field of an object is a list of one plain value, as MM-Vet's evaluator writes grades."""
    lists = [inner for inner in value.values() if isinstance(inner, list) and len(inner) == 1]
    return len(lists) == len(value) > 1 and all(_is_plain(inner[0]) for inner in lists)


# --- questions in lists ---------------------------------------------------------------------------------------------------

IsName = Callable[[str], bool]
"""A function that takes the name of a field and tells whether the field contains a certain thing,
such as a reply.
"""


def question_list(record: Object, is_reply: IsName, is_answer: IsName) -> str:
    """Return the field of a record that holds a list of questions; empty if there is none.

    A list holds questions if its first object has the field `question`, or fields for a reply and for a correct answer.
    If a record has several such lists, the one with replies is meant. A record with a `question` of its own has none.

    Args:
        record: The record.
        is_reply: Whether a field with a given name holds a reply.
        is_answer: Whether a field with a given name holds a correct answer.
    """
    if "question" in record:
        return ""
    lists: list[str] = []
    lists_with_replies: list[str] = []
    for name, value in record.items():
        if not value or not _is_list_of_objects(value):
            continue
        first_object = value[0]
        replies = {field for field in first_object if is_reply(field)}
        answers = {field for field in first_object if is_answer(field)}
        has_answer_and_reply = bool(answers) and bool(replies - answers)
        if "question" in first_object or has_answer_and_reply:
            lists.append(name)
            if replies:
                lists_with_replies.append(name)
    if len(lists) > 1:
        lists = lists_with_replies
    return lists[0] if len(lists) == 1 else ""


FURTHER = "further questions"
"""Name of the field with the number of further questions in a record, which are not the main one.
"""


def main_question(record: Object, is_reply: IsName, is_answer: IsName) -> Object:
    """Return the question that a record is about, without a list of further questions, such as variants of it.

    Further questions test how robust a model is, and are not scored with the main one. They are counted in the field
    `FURTHER`, so that the user is told of them.

    `{"id": 7, "original": {"question": ..., "answer": ..., "reply": ...}, "variants": [{...}, {...}]}` becomes
    `{"id": 7, "question": ..., "answer": ..., "reply": ..., "further questions": 2}`.

    Args:
        record: The record.
        is_reply: Whether a field with a given name holds a reply.
        is_answer: Whether a field with a given name holds a correct answer.

    Returns:
        The question. The record itself if it has no list of questions with replies, or not exactly one main question.
    """
    main_fields: list[str] = []
    further_fields: list[str] = []
    for name, value in record.items():
        if isinstance(value, dict) and "question" in value:
            has_reply = any(is_reply(field) for field in value)
            has_answer = any(is_answer(field) for field in value)
            if has_reply and has_answer:
                main_fields.append(name)
        elif value and _is_list_of_objects(value) and any(is_reply(field) for field in value[0]):
            further_fields.append(name)
    if not further_fields or "question" in record:
        return record

    question = {name: value for name, value in record.items() if name not in further_fields}
    if not _asks_itself(record, is_reply):
        if len(main_fields) != 1:
            return record
        [main] = main_fields
        question |= question.pop(main)
    question[FURTHER] = sum(len(record[name]) for name in further_fields)
    return question


def _asks_itself(record: Object, is_reply: IsName) -> bool:
    """Return whether a record has a question, its answer and a reply in fields of one prefix: `original_question`, ..."""
    for name in record:
        prefix = name.removesuffix("question")
        if prefix in (name, "") or f"{prefix}answer" not in record:
            continue
        if any(field.startswith(prefix) and is_reply(field) for field in record):
            return True
    return False


def unfolded(record: Object, name: str, is_reply: IsName) -> list[Object]:
    """Return a record for each question in a list of a record, with the other fields of the record.

    `{"image": "a.png", "qa": [{"question": "Q1"}, {"question": "Q2"}]}` becomes
    `[{"image": "a.png", "question": "Q1"}, {"image": "a.png", "question": "Q2"}]`. A record with the id 7 gives the ids
    `7/0`, `7/1`, ... to questions without an id of their own.

    Args:
        record: The record with the list.
        name: The field that holds the list.
        is_reply: Whether a field with a given name holds a reply. A reply of the outer record is left out of questions
            that have replies of their own.
    """
    shared = {field: value for field, value in record.items() if field != name}
    shared_without_replies = {
        field: value for field, value in shared.items() if not is_reply(field)
    }
    questions: list[Object] = []
    for number, question in enumerate(record[name]):
        has_reply = any(is_reply(field) for field in question)
        unfolded_question = dict(shared_without_replies if has_reply else shared)
        if ID in record:
            unfolded_question[ID] = f"{record[ID]}/{number}"
        questions.append({**unfolded_question, **question})
    return questions


# --- replies in lists -----------------------------------------------------------------------------------------------------

MODEL_FIELDS = ("model", "model_name", "model_id")
_FIELDS_OF_MESSAGES = frozenset({"role", "from", "type", "finish_reason", "message"})
"""Fields of the objects of a conversation, or of a service's completions."""


def with_listed_replies(record: Object, is_reply: IsName) -> list[Object]:
    """Move replies that are in a list of objects into a list of texts.

    `{"question": ..., "samples": [{"output": "a"}, {"output": "b"}]}` becomes
    `{"question": ..., "samples.output": ["a", "b"]}`. If each object names its model, the result has one record per
    model, with the replies of that model.

    Args:
        record: The record, which may hold such a list.
        is_reply: Whether a field with a given name holds a reply.

    Returns:
        The new records. Only the record itself if it has no such list, or several.

    Examples:
        >>> record = {"id": 1, "tries": [{"reply": "a"}, {"reply": "b"}]}
        >>> with_listed_replies(record, lambda name: name == "reply")
        [{'id': 1, 'tries.reply': ['a', 'b']}]
    """
    reply_fields: list[tuple[str, str]] = []
    """Pairs of a field that has a list of objects, and the field of these objects that has a reply."""
    for name, value in record.items():
        if not value or not _is_list_of_objects(value):
            continue
        first_object = value[0]
        is_conversation = not _FIELDS_OF_MESSAGES.isdisjoint(first_object)
        if is_conversation:
            continue
        for field, reply in first_object.items():
            if is_reply(field) and _is_plain(reply):
                reply_fields.append((name, field))
    list_names = {name for name, _ in reply_fields}
    if len(list_names) != 1:
        return [record]

    list_name, reply_field = reply_fields[0]
    objects = record[list_name]
    model_field = ""
    for candidate in MODEL_FIELDS:
        if all(isinstance(item.get(candidate), str) for item in objects):
            model_field = candidate
            break

    replies_by_model: dict[Any, list[Any]] = {}
    for item in objects:
        replies = replies_by_model.setdefault(item.get(model_field), [])
        if item.get(reply_field) is not None:
            replies.append(item[reply_field])

    records: list[Object] = []
    for model, replies in replies_by_model.items():
        new_record = {field: value for field, value in record.items() if field != list_name}
        if model_field:
            new_record["model"] = model
        new_record[f"{list_name}.{reply_field}"] = replies
        records.append(new_record)
    return records
