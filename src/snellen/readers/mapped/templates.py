"""Templates of an entry, filled from a record's fields: `{imageId}.jpg`, `COCO_val2014_{image_id:012d}.jpg`.

Braces hold the path of a field (`types.semantic`, `answers.answer` for the answers of a list of objects,
`rationales[0]`, `choices[correct_choice_idx]`), or alternatives of which the first non-empty one is taken (`a|b`,
optionally ending with a quoted text). After colons come a number format or transforms of the text (`:strip`, `:stem`,
see `transforms`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from snellen import registry
from snellen.common.drafts import PARAMS
from snellen.errors import DataError, UnknownNameError
from snellen.readers.mapped.records import Fields, Record, is_integer, is_optional

Transform = Callable[[list[str]], list[str]]
ValueGetter = Callable[[Record], Any]
SPECIAL = "@"
"""Prefix of the fields that the reader adds, such as `@key`, `@row`, `@index`."""
_BRACES = re.compile(r"\{([^{}]+)\}")
_PATH = re.compile(r"([^.\[\]|:']+(?:\.[^.\[\]|:']+)*)(?:\[(\d+|[^\[\]]+)\])?")
_NUMBER = re.compile(r"0?\d*d")


class FieldError(Exception):
    """A field of a record that cannot be used; the reader adds the location."""


class Field:
    """The content of a pair of braces: its texts in a record, one or, for a list, several."""

    def __init__(self, text: str, fields: Fields, *, needed: bool) -> None:
        alternatives, *steps = _split(text)
        self.name = alternatives[0]
        self._values = [_value(alternative, fields) for alternative in alternatives]
        self._transforms = [_transform(step) for step in steps]
        self._number = steps[0] if len(steps) == 1 and _NUMBER.fullmatch(steps[0]) else ""
        # Set when there is a single value without transforms, or an integer with only a number format.
        is_plain = len(self._values) == 1 and (not steps or self._number)
        self._plain: ValueGetter | None = self._values[0] if is_plain else None
        if (
            self._plain is not None
            and self._number
            and not is_integer(fields, _path_of(alternatives[0])[0])
        ):
            self._plain = None
        paths = [_path_of(name)[0] for name in alternatives if not name.startswith("'")]
        self.may_be_empty = not needed and any(
            path[0].startswith(SPECIAL) or is_optional(fields, path) for path in paths
        )

    def texts(self, record: Record) -> list[str] | tuple[str, ...]:
        """The field's texts, none when it is empty. Raises FieldError for a list item that does not exist."""
        texts = self._first(record)
        for transform in self._transforms:
            texts = transform(list(texts))
        return texts

    def text(self, record: Record) -> str:
        """The field's text, which may be empty only for an optional field. Raises FieldError."""
        if self._plain is not None:
            # A fast path: most fields are plain, and this runs for every template of every record.
            value = self._plain(record)
            if value.__class__ is str:
                if value and not value.isspace():
                    return value
            elif value.__class__ is int:
                return format(value, self._number) if self._number else str(value)
        texts = self.texts(record)
        if texts and texts[0] and not texts[0].isspace():
            return texts[0]
        if self.may_be_empty:
            return ""
        raise FieldError(f"{self.name} is empty")

    def is_filled(self, record: Record) -> bool:
        """Whether the field has content before its transforms."""
        return any(text.strip() for text in self._first(record))

    def _first(self, record: Record) -> list[str] | tuple[str, ...]:
        for value in self._values:
            content = value(record)
            if isinstance(content, str):
                if content:
                    return (content,)
            elif isinstance(content, list):
                if content:
                    return [_as_text(item) for item in content]
            elif content is not None:
                return (_as_text(content),)
        return ()


class Template:
    """A text with fields in it. With `needed` no field may be empty, even an optional one."""

    def __init__(self, text: str, fields: Fields, *, needed: bool = False) -> None:
        pieces = _BRACES.split(text)
        if stray := [piece for piece in pieces[::2] if "{" in piece or "}" in piece]:
            raise DataError(
                f"{PARAMS}: the template {text!r} has a brace without its other one: {stray[0]!r}"
            )
        self.text = text
        self._literals = pieces[::2]
        try:
            self.fields = [Field(piece, fields, needed=needed) for piece in pieces[1::2]]
        except (DataError, UnknownNameError) as error:
            raise DataError(f"{PARAMS}: the template {text!r}: {error}") from None
        self.is_field = len(self.fields) == 1 and not any(self._literals)

    def fill(self, record: Record) -> str:
        """The text with its fields filled in. Raises FieldError for a required field that is empty."""
        if self.is_field:
            return self.fields[0].text(record)
        text = self._literals[0]
        for field, literal in zip(self.fields, self._literals[1:], strict=True):
            text += field.text(record) + literal
        return text

    def fill_all(self, record: Record) -> Sequence[str]:
        """All texts of a template that is a single field, else its one text. Raises FieldError."""
        return self.fields[0].texts(record) if self.is_field else (self.fill(record),)


def _split(text: str) -> tuple[list[str], *tuple[str, ...]]:
    """The alternatives, and the steps after the colons."""
    alternatives, *steps = re.split(r":(?=(?:[^']*'[^']*')*[^']*$)", text)
    return re.split(r"\|(?=(?:[^']*'[^']*')*[^']*$)", alternatives), *steps


def _path_of(text: str) -> tuple[tuple[str, ...], str]:
    """The steps of a path, and the index in brackets after it."""
    parts = _PATH.fullmatch(text)
    if parts is None:
        raise DataError(
            f"{{{text}}} is not a field of a record; write {{name}}, {{name.inner}} or {{list[0]}}"
        )
    return tuple(parts[1].split(".")), parts[2] or ""


def _value(text: str, fields: Fields) -> ValueGetter:
    if text.startswith("'"):
        literal = text.strip("'")
        return lambda record: literal
    path, place = _path_of(text)
    _check(path, fields)
    if place:
        if not place.isdecimal():
            _check((place,), fields)
        return lambda record: _item_at(_along(record, path), place, record, text.partition("[")[0])
    return _getter(path, fields)


def _getter(path: tuple[str, ...], fields: Fields) -> ValueGetter:
    """A function that gets the value at a path, with shortcuts for the most common kinds of path."""
    if len(path) == 1:
        name = path[0]
        return lambda record: record.get(name)
    outer, inner, *deeper = path
    if len(path) == 2 and isinstance(fields.get(outer), dict):
        return lambda record: (record.get(outer) or {}).get(inner)
    if (
        len(path) == 3
        and isinstance(fields.get(outer), dict)
        and isinstance(fields[outer].get(inner), list)
    ):
        last = deeper[0]
        return lambda record: [
            item.get(last) for item in (record.get(outer) or {}).get(inner) or ()
        ]
    return lambda record: _along(record, path)


def _check(path: tuple[str, ...], fields: Fields) -> None:
    if path[0] not in fields and not path[0].startswith(SPECIAL):
        raise registry.unknown_name("field", path[0], fields)


def _along(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a path; for a list of objects, the list of their values."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, (list, tuple)):
            value = (
                value[int(step)] if step.isdecimal() else [_along(item, (step,)) for item in value]
            )
        else:
            return None
    return value


def _item_at(values: Any, place: str, record: Record, name: str) -> Any:
    """The list item at an index, which is a number or another field's value."""
    number = int(place) if place.isdecimal() else record.get(place)
    if not values and place.isdecimal():
        return None
    if not isinstance(number, int) or not 0 <= number < len(values or ()):
        raise FieldError(f"{place} {number} but {name} are 0-{len(values or ()) - 1}")
    return values[number]


def _transform(step: str) -> Transform:
    if _NUMBER.fullmatch(step):
        return lambda texts: [_numbered(text, step) for text in texts]
    transform: Transform = registry.find_registered("transforms", step)
    return transform


def _numbered(text: str, form: str) -> str:
    try:
        return format(int(text), form)
    except ValueError:
        raise FieldError(f"{text!r} is not a number") from None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
