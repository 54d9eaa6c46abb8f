"""Error messages about tables and JSON objects that a user wrote, with the key of the fault and similar valid names.

A field may take the name of something in the registry, such as a metric. `names_of` annotates its type with the group
of the registry, and `check_names` checks the names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, Struct

from snellen.callers import for_caller
from snellen.errors import DataError
from snellen.registry import (
    Group,
    code_name,
    is_code,
    nearest_names,
    singular,
    targets,
    unknown_name,
)

_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")


def locate_fault(error: Exception, form: Any, content: Any = None) -> tuple[str, str]:
    """Return where the fault is that a validation error of msgspec reports, and a message about it.

    The message about an unknown field names the most similar valid one: `unknown field 'fild'; did you mean file?`. The
    message about a missing field names similar fields that the content has, or else all of them.

    Args:
        error: The error.
        form: The type that `content` should have.
        content: The invalid content.

    Returns:
        The path, such as `.records` (empty for the whole content), and the message.
    """
    message, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`")
    field = _FIELD.fullmatch(message)
    if field is None:
        return path, message
    problem, field_name = field[1], field[2]

    # Follow the path to the record that has the wrong field.
    for step in re.findall(r"\w+", path):
        field_type: Any = get_type_hints(form).get(step)
        for inner_type in (field_type, *get_args(field_type)):
            if hasattr(inner_type, "__struct_fields__"):
                form = inner_type
                break
        content = content.get(step) if isinstance(content, Mapping) else None

    if problem == "contains unknown":
        return path, str(unknown_name("field", field_name, form.__struct_fields__))
    if "[" in path or not isinstance(content, Mapping):
        return path, message
    similar_names = nearest_names(field_name, sorted(content))
    if similar_names:
        return path, f"{message}; did you write it as {' or '.join(similar_names)}?"
    return path, f"{message}; it has {', '.join(content)}"


def format_validation_error(error: Exception, form: Any, content: Any) -> str:
    """Return the message of a validation error with the field that it is about.

    Args:
        error: The error, as msgspec raised it.
        form: The type that `content` should have.
        content: The invalid content.
    """
    path, fault = locate_fault(error, form, content)
    if str(error).startswith(fault):
        return str(error)
    return f"{path.lstrip('.')}: {fault}" if path else fault


def format_json_error(error: Exception, form: Any, text: bytes | str | msgspec.Raw) -> str:
    """Format a validation error for a JSON object, naming the field and the closest valid name."""
    content = None
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        content = msgspec.json.decode(text)
    return format_validation_error(error, form, content)


def names_of(group: Group | Literal["benchmarks"], *, listed: bool = False) -> Meta:
    """Return an annotation for a field that takes the name of a benchmark, or of a registered thing such as a metric.

    `check_names` then checks that the name exists. Options may follow the name after `?` or `:`.

    Args:
        group: Group of the registry, or "benchmarks" for the catalogue.
        listed: Whether the field takes several names with commas between them.

    Examples:
        >>> from typing import Annotated
        >>> class Exam(Struct):
        ...     metric: Annotated[str, names_of("metrics")]
        >>> check_names(Exam("anls"), "exam.toml")
    """
    return Meta(extra={"group": group, "separator": "," if listed else None})


def check_names(
    record: Struct, where: str, also: Mapping[str, Collection[str]] = MappingProxyType({})
) -> None:
    """Raise DataError for the first field of a record that has an unknown name, such as a metric that does not exist.

    Args:
        record: The record. The annotation `names_of` of a field says which group of names it takes, such as `metrics`.
        where: The file or setting that contains the record, for the message.
        also: Further known names in addition to those of the registry, by group. Names of benchmarks are only those given
            here.

    Examples:
        >>> from typing import Annotated
        >>> class Exam(Struct):
        ...     metric: Annotated[str, names_of("metrics")]
        >>> check_names(Exam("anl"), "exam.toml")
        Traceback (most recent call last):
        snellen.errors.DataError: exam.toml: metric: unknown metric 'anl'; did you mean anls?
    """
    for path, settings, text in _given_names(record, type(record), ""):
        group = settings["group"]
        separator = settings["separator"]
        known_names = set(also.get(group, ()))
        if group != "benchmarks":
            known_names.update(targets(group))
        labels = text.split(separator) if separator else [text]
        for label in labels:
            # A label may have settings behind its name: `circular?all_passes`, `hf:org/model`.
            name = re.split("[?:]", label, maxsplit=1)[0]
            if label in known_names or name in known_names:
                continue
            if group == "metrics" and is_code(code_name(label)):
                fault = refuse_code_in_benchmark(code_name(label))
            else:
                fault = str(unknown_name(singular(group), name, known_names))
            raise DataError(f"{where}: {path}: {fault}")


def refuse_code_in_benchmark(metric: str) -> str:
    """Return why a benchmark cannot name a metric in a file of the user, and how to compute that metric."""
    call = for_caller(
        f"`snellen run MODEL BENCHMARK --metric {metric}` (or `snellen score RUN --metric {metric}`)",
        f"sn.evaluate(MODEL, BENCHMARK, metrics={metric!r})",
    )
    return (
        f"{metric} is your own code, which a benchmark cannot name, because it would run wherever the benchmark is "
        f"sent; leave it out here and write {call}"
    )


def _given_names(value: Any, kind: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the names in a record for which the type of a field has the annotation `names_of`.

    Args:
        value: A record, or the value of one of its fields.
        kind: The type of the value, with its annotations.
        path: Path of the value, such as `source.reader`.

    Yields:
        The path of a field, the settings of its annotation (`group` and `separator`), and the text in the field.
    """
    if get_origin(kind) is Annotated:
        for annotation in kind.__metadata__:
            if value and annotation.extra:
                yield path, annotation.extra, value
    elif isinstance(value, Struct):
        for name, field_type in _field_types(type(value)).items():
            if name in value.__struct_fields__:
                field_path = f"{path}.{name}" if path else name
                yield from _given_names(getattr(value, name), field_type, field_path)
    elif get_origin(kind) in (Union, UnionType):
        for member in get_args(kind):
            if _is_of_type(value, member):
                yield from _given_names(value, member, path)
    elif isinstance(value, tuple):
        item_type = get_args(kind)[0]
        for item in value:
            yield from _given_names(item, item_type, path)
    elif isinstance(value, dict) and get_origin(kind) is dict:
        value_type = get_args(kind)[1]
        for name, item in value.items():
            yield from _given_names(item, value_type, f"{path}.{name}")


def _is_of_type(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type. Annotations and the types of items are ignored: `["a"]` is a `list[int]`."""
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    plain_type = get_origin(kind) or kind
    return isinstance(plain_type, type) and isinstance(value, plain_type)


@cache
def _field_types(record: type[Struct]) -> Mapping[str, Any]:
    """Return the types of a record's fields with their annotations, by name."""
    return get_type_hints(record, include_extras=True)
