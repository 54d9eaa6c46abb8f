"""Writing TOML that people read and change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WIDE = 100
"""A value that would be longer than that is written over several lines."""


def toml_text(content: Mapping[str, Any]) -> str:
    """The file of these values, texts, numbers, lists and tables; tables in tables are written inline."""
    plain = {name: value for name, value in content.items() if not isinstance(value, Mapping)}
    lines = [f"{name} = {_value(value)}" for name, value in plain.items()]
    for name, table in content.items():
        if isinstance(table, Mapping):
            simple = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
            lines += ["", f"[{name}]", *(f"{_key(key)} = {_value(value)}" for key, value in simple.items())]
            for key, inner in table.items():
                if isinstance(inner, Mapping):
                    rows = (f"{_key(field)} = {_value(value)}" for field, value in inner.items())
                    lines += ["", f"[{name}.{_key(key)}]", *rows]
    return "\n".join(lines).lstrip("\n") + "\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(inner)}" for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        items = [_value(item) for item in value]
        line = f"[{', '.join(items)}]"
        return line if len(line) < WIDE else "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)
