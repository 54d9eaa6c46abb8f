"""Convert settings that a user gave, in a call, in a file or by flags, to a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from snellen.common.record_fields import record_fields
from snellen.errors import DataError, UnknownNameError
from snellen.registry import unknown_name

RecordT = TypeVar("RecordT", bound=Struct)
_PLAIN_TYPES = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}


def convert_fields(
    content: Mapping[str, Any] | RecordT, form: type[RecordT], where: str = "", table: str = ""
) -> RecordT:
    """Convert fields to a record.

    Args:
        content: Values by field, or a record. A single string may replace a list of strings, a path a string, and None
            a default.
        form: The record. Its fields have an `Option`.
        where: Prefix of errors.
        table: Prefix of the names of fields in errors, such as `scoring.`.

    Raises:
        DataError: A value has the wrong type or is out of bounds.
        UnknownNameError: A field does not exist, or a name is not one of a field's choices.
    """
    if isinstance(content, Struct):
        content = asdict(content)
    if isinstance(content, Mapping):
        content = _plain_values(content, form, where, table)
    try:
        return msgspec.convert(content, form)
    except msgspec.ValidationError as error:
        fault, _, path = str(error).partition(" - at `$.")
        fault = re.sub("`([^`]+)`", lambda match: _describe_type(match[1]), fault)
        name = f"{table}{path.rstrip('`')}".rstrip(".")
        raise DataError(f"{where}{name}: {fault[:1].lower()}{fault[1:]}") from None


def _describe_type(name: str) -> str:
    """Describe a type in an error of msgspec for a user: `int | null` becomes `a whole number`."""
    descriptions = []
    for part in name.split(" | "):
        if part != "null":
            descriptions.append(_PLAIN_TYPES.get(part, part))
    return " or ".join(descriptions) or "None"


def _plain_values(
    content: Mapping[str, Any], form: type[Struct], where: str, table: str
) -> dict[str, Any]:
    """Return the values of fields in the form in which the record stores them: a path as a string, for example.

    A field that is None, and whose default is another value, is left out.

    Args:
        content: Values by the name of the field.
        form: The record.
        where: Prefix of errors.
        table: Prefix of the names of fields in errors, such as `scoring.`.

    Raises:
        UnknownNameError: A field does not exist, or a value is not one of its choices.
    """
    fields = record_fields(form)
    noun = f"field of [{table.rstrip('.')}]" if table else "field"
    check_known(content, fields, noun, where)
    values = {}
    for name, value in content.items():
        field = fields[name]
        uses_default = value is None and field.default is not None
        if not uses_default:
            values[name] = field.plain(value)
    for name, value in values.items():
        choices = fields[name].choices
        if not choices:
            continue
        items = value if isinstance(value, tuple) else (value,)
        texts = [item for item in items if isinstance(item, str)]
        check_known(texts, choices, f"value of {table}{name}", where)
    return values


def check_known(names: Iterable[str], choices: Iterable[str], noun: str, where: str) -> None:
    """Raise UnknownNameError, with the prefix `where`, for the first name that is not one of the choices.

    Examples:
        >>> check_known(["limt"], ["limit", "where"], "field", "exam.toml: ")
        Traceback (most recent call last):
        snellen.errors.UnknownNameError: exam.toml: unknown field 'limt'; did you mean limit?
    """
    for name in names:
        if name not in choices:
            raise UnknownNameError(f"{where}{unknown_name(noun, name, choices)}")


def fields_of(form: type[Struct], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items of `content` that are fields of a record, in the order of the record."""
    values = {}
    for name in form.__struct_fields__:
        if name in content:
            values[name] = content[name]
    return values
