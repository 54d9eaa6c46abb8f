"""What of an entry's source a build may change by name: a declared choice, or a parameter of its reader."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from snellen import registry
from snellen.catalogue.entries import BenchmarkSpec, merged
from snellen.errors import DataError


def with_params(spec: BenchmarkSpec, settings: Mapping[str, Any]) -> BenchmarkSpec:
    """The entry with these settings of its source: choices by the name of one of their values, other parameters that
    it names by a value of the same type (a text that stands for one, as in TOML, is read).

    Raises UnknownNameError for a name or a value that it does not have, DataError for a value of another type.
    """
    params = spec.source.params
    for name, value in settings.items():
        if name in spec.source.choices:
            alternatives = spec.source.choices[name]
            if value not in alternatives:
                raise registry.unknown(f"value of {name}", str(value), alternatives)
            params = merged(params, alternatives[value])
        elif name in params:
            params = {**params, name: _as_given(name, value, params[name])}
        else:
            raise registry.unknown(f"parameter of {spec.name}", name, {*spec.source.choices, *params})
    return replace(spec, source=replace(spec.source, params=params)) if settings else spec


def _as_given(name: str, value: Any, now: Any) -> Any:
    read = _read(value) if isinstance(value, str) and not isinstance(now, str) else value
    if type(read) is not type(now):
        raise DataError(f"{name} is {now!r} in the entry; {value!r} is of another type")
    return read


def _read(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
