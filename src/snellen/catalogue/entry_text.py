"""An entry as the text of its file."""

from __future__ import annotations

from typing import Any

import msgspec
import tomli_w
from msgspec import Struct

from snellen.catalogue.entries import BenchmarkSpec


def entry_text(spec: BenchmarkSpec) -> str:
    """What an entry says besides the defaults, in TOML."""
    return tomli_w.dumps(_said(spec))


def _said(record: Struct) -> dict[str, Any]:
    """The fields that differ from their defaults, and those that have none."""
    said: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(record)):
        value = getattr(record, field.name)
        default = (
            field.default_factory() if field.default is msgspec.NODEFAULT and not field.required else field.default
        )
        if value is not None and value != default:
            said[field.name] = _value(value)
    return said


def _value(value: Any) -> Any:
    if isinstance(value, Struct):
        return {**_tag(value), **_said(value)}
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return value


def _tag(record: Struct) -> dict[str, Any]:
    config = type(record).__struct_config__
    return {str(config.tag_field): config.tag} if config.tag else {}
