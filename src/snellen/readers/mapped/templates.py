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
        alternatives, *steps = _split_field(text)
        self.name = alternatives[0]
        self._values = [_make_value_getter(alternative, fields) for alternative in alternatives]
        self._transforms = [_make_transform(step) for step in steps]
        self._number = steps[0] if len(steps) == 1 and _NUMBER.fullmatch(steps[0]) else ""
        # Set when there is a single value without transforms, or an integer with only a number format.
        self._plain: ValueGetter | None = None
        if len(self._values) == 1:
            [value] = self._values
            if not steps or (self._number and is_integer(fields, _parse_path(alternatives[0])[0])):
                self._plain = value
        self.may_be_empty = False
        for alternative in alternatives:
            if alternative.startswith("'"):
                continue  # a text in quotes
            path, *_ = _parse_path(alternative)
            is_special = path[0].startswith(SPECIAL)
            if not needed and (is_special or is_optional(fields, path)):
                self.may_be_empty = True

    def texts(self, record: Record) -> list[str] | tuple[str, ...]:
        """Return the texts of the field in a record; empty if the field is. Raises FieldError for an index beyond
        the end of its list."""
        texts = self._first_filled(record)
        for transform in self._transforms:
            texts = transform(list(texts))
        return texts

    def text(self, record: Record) -> str:
        """Return the text of the field in a record. Raises FieldError if it is empty, unless the field is optional."""
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
        """Return whether the field has content in a record before its transforms."""
        return any(text.strip() for text in self._first_filled(record))

    def _first_filled(self, record: Record) -> list[str] | tuple[str, ...]:
        """Return the texts of the first alternative of the field that is not empty."""
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
        # Texts and fields take turns.
        pieces = _BRACES.split(text)
        literals = pieces[::2]
        field_texts = pieces[1::2]
        for literal in literals:
            if "{" in literal or "}" in literal:
                raise DataError(
                    f"{PARAMS}: the template {text!r} has a brace without its other one: {literal!r}"
                )
        self.text = text
        self._literals = literals
        try:
            self.fields = [Field(field_text, fields, needed=needed) for field_text in field_texts]
        except (DataError, UnknownNameError) as error:
            raise DataError(f"{PARAMS}: the template {text!r}: {error}") from None
        self.is_field = len(self.fields) == 1 and not any(self._literals)

    def fill(self, record: Record) -> str:
        """Return the text with its fields filled in from a record. Raises FieldError if a required field is empty."""
        if self.is_field:
            return self.fields[0].text(record)
        text = self._literals[0]
        for field, literal in zip(self.fields, self._literals[1:], strict=True):
            text += field.text(record) + literal
        return text

    def fill_all(self, record: Record) -> Sequence[str]:
        """Return all texts of a template that is a single field, or the one text of another template. Raises
        FieldError."""
        return self.fields[0].texts(record) if self.is_field else (self.fill(record),)


def _split_field(text: str) -> tuple[list[str], *tuple[str, ...]]:
    """Return the alternatives of a field, `a|b`, and its transforms, `:strip:stem`. Separators within quotes belong
    to the quoted text."""
    alternatives, *steps = re.split(r":(?=(?:[^']*'[^']*')*[^']*$)", text)
    return re.split(r"\|(?=(?:[^']*'[^']*')*[^']*$)", alternatives), *steps


def _parse_path(text: str) -> tuple[tuple[str, ...], str]:
    """Return the names of a path, `a.b`, and the index in brackets after it, or an empty text. Raises DataError if
    the text is not a path."""
    parts = _PATH.fullmatch(text)
    if parts is None:
        raise DataError(
            f"{{{text}}} is not a field of a record; write {{name}}, {{name.inner}} or {{list[0]}}"
        )
    return tuple(parts[1].split(".")), parts[2] or ""


def _make_value_getter(text: str, fields: Fields) -> ValueGetter:
    """Return a function that gets the value of a field's alternative from a record: a quoted text, the value at a
    path, or an item of a list. Raises UnknownNameError for a field that is not declared."""
    if text.startswith("'"):
        literal = text.strip("'")
        return lambda record: literal
    path, index = _parse_path(text)
    _check_field_exists(path, fields)
    if index:
        if not index.isdecimal():
            _check_field_exists((index,), fields)
        name = text.partition("[")[0]
        return lambda record: _list_item(_follow_path(record, path), index, record, name)
    return _make_path_getter(path, fields)


def _make_path_getter(path: tuple[str, ...], fields: Fields) -> ValueGetter:
    """Return a function that gets the value at a path from a record. The most common kinds of paths have functions
    of their own, which are faster."""
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
    return lambda record: _follow_path(record, path)


def _check_field_exists(path: tuple[str, ...], fields: Fields) -> None:
    """Raise UnknownNameError if the first name of a path is neither a declared field nor one that the reader adds."""
    if path[0] not in fields and not path[0].startswith(SPECIAL):
        raise registry.unknown_name("field", path[0], fields)


def _follow_path(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path; for a list of objects, the list of their values. None if the path leads through a
    value without fields."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, (list, tuple)):
            if step.isdecimal():
                value = value[int(step)]
            else:
                value = [_follow_path(item, (step,)) for item in value]
        else:
            return None
    return value


def _list_item(values: Any, index: str, record: Record, name: str) -> Any:
    """Return an item of a list in a record.

    Args:
        values: The list.
        index: The position from 0, such as `2`, or the name of the record's field that has the position.
        record: The record.
        name: Name of the list, for messages.

    Returns:
        The item. None if the list is empty and `index` is a number.

    Raises:
        FieldError: There is no item at the position.
    """
    is_fixed = index.isdecimal()
    if is_fixed and not values:
        return None
    number = int(index) if is_fixed else record.get(index)
    count = len(values or ())
    if not isinstance(number, int) or not 0 <= number < count:
        raise FieldError(f"{index} {number} but {name} are 0-{count - 1}")
    return values[number]


def _make_transform(step: str) -> Transform:
    """Return the transform of a step: a number format, `05d`, or a registered transform by its name."""
    if _NUMBER.fullmatch(step):
        return lambda texts: [_format_integer(text, step) for text in texts]
    transform: Transform = registry.find_registered("transforms", step)
    return transform


def _format_integer(text: str, form: str) -> str:
    """Return a whole number in a format such as `05d`. Raises FieldError if the text is not a whole number."""
    try:
        return format(int(text), form)
    except ValueError:
        raise FieldError(f"{text!r} is not a number") from None


def _as_text(value: Any) -> str:
    """Return a value as a text; empty for None, and `true` or `false` as JSON writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    return str(value)
