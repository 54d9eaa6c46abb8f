"""The values of a model string's options: from text to what the option's type wants, and what is wrong in words."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, get_origin

import msgspec
from msgspec import inspect

from snellen import registry

_EXAMPLES = ('["one", "two"]', '{"name": "value"}', "true", "0.5", "1")
"""From the most particular type to the least: what a table or a flag can be written as is no number."""
_NOUNS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.DictType: "a table in JSON",
    inspect.VarTupleType: "a text, or a list of texts in JSON",
}
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def option_value(text: str, kind: Any) -> Any:
    """The value that a text stands for: tables as JSON, lists as JSON or as one text. Raises msgspec's errors."""
    if get_origin(kind) is dict:
        value = msgspec.json.decode(text)
    elif get_origin(kind) is tuple:
        value = msgspec.json.decode(text) if text.startswith("[") else [text]
    else:
        value = text
    return msgspec.convert(value, kind, strict=False)


def option_fault(name: str, text: str, kind: Any) -> str:
    """What is wrong with an option whose text has no value, and what to write instead."""
    wanted = [one for one in _alternatives(kind) if not isinstance(one, inspect.NoneType)]
    choices = [str(value) for one in wanted if isinstance(one, inspect.LiteralType) for value in one.values if value]
    if choices:
        return str(registry.unknown(f"value of {name}", text, choices))
    nouns = " or ".join(_NOUNS[type(one)] + _limits(one) for one in wanted if type(one) in _NOUNS)
    fault = f"{name}={text!r} is not {nouns}" if nouns else f"{name}={text!r} is no value of this option"
    example = _example(text, kind)
    return f"{fault}; write {name}={example}" if example else fault


def _alternatives(kind: Any) -> tuple[inspect.Type, ...]:
    described = inspect.type_info(kind)
    return described.types if isinstance(described, inspect.UnionType) else (described,)


def _limits(number: inspect.Type) -> str:
    """` that is at least 0 and at most 1`."""
    given = {words: getattr(number, limit, None) for limit, words in _LIMITS.items()}
    stated = " and ".join(f"{words} {value:g}" for words, value in given.items() if value is not None)
    return f" that is {stated}" if stated else ""


def _example(text: str, kind: Any) -> str:
    """What may stand there instead: the text with a decimal point, where a comma was all that was wrong."""
    with suppress(msgspec.MsgspecError):
        if isinstance(option_value(text.replace(",", "."), kind), float):
            return text.replace(",", ".")
    for example in _EXAMPLES:
        with suppress(msgspec.MsgspecError):
            option_value(example, kind)
            return f"{example}, for example"
    return ""
