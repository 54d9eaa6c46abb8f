"""Convert the options of a model string from text to the types of a record."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, get_origin

import msgspec
import msgspec.inspect as msgspec_inspect
from msgspec import Struct

from snellen import registry
from snellen.errors import ModelError
from snellen.models.model_strings import ModelSpec

OptionsT = TypeVar("OptionsT", bound=Struct)

# From the most specific type to the least, so that the example of a table or a flag is not a number.
_EXAMPLES = ('["one", "two"]', '{"name": "value"}', "true", "0.5", "1")
_NOUNS: dict[type[msgspec_inspect.Type], str] = {
    msgspec_inspect.BoolType: "true or false",
    msgspec_inspect.IntType: "a whole number",
    msgspec_inspect.FloatType: "a number",
    msgspec_inspect.DictType: "a table in JSON",
    msgspec_inspect.VarTupleType: "a text, or a list of texts in JSON",
}
_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def read_options(spec: ModelSpec, form: type[OptionsT]) -> OptionsT:
    """Return the options of a model string as a typed record.

    Args:
        spec: The parsed model string.
        form: The record, with a field for each option.

    Raises:
        ModelError: An option does not exist or has an invalid value.

    Examples:
        >>> class Options(Struct):
        ...     window: int = 1
        >>> spec = ModelSpec("birds:watcher?window=4", "birds", "watcher", {"window": "4"})
        >>> read_options(spec, Options).window
        4
    """
    types = {field.name: field.type for field in msgspec.structs.fields(form)}
    for name in spec.options:
        if name not in types:
            raise ModelError(f"{spec.text}: {registry.unknown_name('option', name, types)}")
    values = {}
    for name, text in spec.options.items():
        try:
            values[name] = option_value(text, types[name])
        except msgspec.MsgspecError:
            raise ModelError(f"{spec.text}: {option_fault(name, text, types[name])}") from None
    try:
        return msgspec.convert(values, form)
    except msgspec.ValidationError as error:
        raise ModelError(f"{spec.text}: {error}") from None


def option_value(text: str, kind: Any) -> Any:
    """Convert text to a type. A table is JSON; a list is JSON or a single item. Raises msgspec's errors."""
    value: Any = text
    if get_origin(kind) is dict:
        value = msgspec.json.decode(text)
    elif get_origin(kind) is tuple:
        value = msgspec.json.decode(text) if text.startswith("[") else [text]
    return msgspec.convert(value, kind, strict=False)


def option_fault(name: str, text: str, kind: Any) -> str:
    """Describe why text is not a value of a type, and what to write instead."""
    choices: list[str] = []
    nouns: list[str] = []
    for alternative in _alternatives(kind):
        if isinstance(alternative, msgspec_inspect.LiteralType):
            choices.extend(str(value) for value in alternative.values if value)
        elif type(alternative) in _NOUNS:
            nouns.append(_NOUNS[type(alternative)] + _describe_bounds(alternative))
    if choices:
        return str(registry.unknown_name(f"value of {name}", text, choices))

    expected = " or ".join(nouns) or "a valid value"
    fault = f"{name}={text!r} is not {expected}"
    example = _example(text, kind)
    if example:
        fault += f"; write {name}={example}"
    return fault


def _alternatives(kind: Any) -> tuple[msgspec_inspect.Type, ...]:
    described = msgspec_inspect.type_info(kind)
    if isinstance(described, msgspec_inspect.UnionType):
        return described.types
    return (described,)


def _describe_bounds(number: msgspec_inspect.Type) -> str:
    """Return for example ` that is at least 0 and at most 1`, or an empty string for a type without bounds."""
    bounds = []
    for attribute, comparison in _BOUNDS.items():
        bound = getattr(number, attribute, None)
        if bound is not None:
            bounds.append(f"{comparison} {bound:g}")
    return f" that is {' and '.join(bounds)}" if bounds else ""


def _example(text: str, kind: Any) -> str:
    """Return a value to write: the text with a decimal point if a comma was its only fault, or else an example."""
    with_point = text.replace(",", ".")
    with suppress(msgspec.MsgspecError):
        if isinstance(option_value(with_point, kind), float):
            return with_point
    for example in _EXAMPLES:
        with suppress(msgspec.MsgspecError):
            option_value(example, kind)
            return f"{example}, for example"
    return ""
