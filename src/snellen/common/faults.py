"""What is wrong with a table or an object that a user wrote, by its key and the nearest right one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args, get_type_hints

import msgspec

from snellen.registry import nearest_names, unknown

_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")


def told(error: Exception, form: Any, content: Any = None) -> tuple[str, str]:
    """Where msgspec found a fault in `content`, which was to be a `form` (`.records`; empty for the whole), and what it
    is: `unknown field 'fild'; did you mean file?`"""
    message, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`")
    field = _FIELD.fullmatch(message)
    if field is None:
        return path, message
    for step in re.findall(r"\w+", path):
        kind = get_type_hints(form).get(step)
        form = next((inner for inner in (kind, *get_args(kind)) if hasattr(inner, "__struct_fields__")), form)
        content = content.get(step) if isinstance(content, Mapping) else None
    if field[1] == "contains unknown":
        return path, str(unknown("field", field[2], form.__struct_fields__))
    if "[" in path or not isinstance(content, Mapping):
        return path, message
    near = nearest_names(field[2], sorted(content))
    return path, f"{message}; " + (
        f"did you write it as {' or '.join(near)}?" if near else f"it has {', '.join(content)}"
    )


def told_in_line(error: Exception, form: Any, content: Any) -> str:
    """The same in one text: a field by its place and the nearest right one, any other fault in msgspec's words."""
    path, fault = told(error, form, content)
    if str(error).startswith(fault):
        return str(error)
    return f"{path.lstrip('.')}: {fault}" if path else fault


def told_of_json(error: Exception, form: Any, text: bytes | str | msgspec.Raw) -> str:
    """The same of an object in JSON."""
    content = None
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        content = msgspec.json.decode(text)
    return told_in_line(error, form, content)
