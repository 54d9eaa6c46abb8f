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
"""Prefix of the names of fields that the reader adds to a record, such as `@key`, `@row` and
`@index`.
"""
_BRACES = re.compile(r"\{([^{}]+)\}")
_PATH = re.compile(r"([^.\[\]|:']+(?:\.[^.\[\]|:']+)*)(?:\[(\d+|[^\[\]]+)\])?")
_NUMBER = re.compile(r"0?\d*d")


class FieldError(Exception):
    """Error about a field of a record that cannot be used.

    The reader catches it and adds the location of the record.
    """


class Field:
    """What is between two braces of a template, such as `answers[0]:strip`.

    In a record it has one text or, for a list, several.
    """

    def __init__(self, text: str, fields: Fields, *, needed: bool) -> None:
        """Parse the content of the braces of a template, such as `name|title:strip` in `{name|title:strip}`.

        Args:
            text: One or several alternatives, of which the first with a value counts, and transforms of the value.
            fields: The fields of a record, by name.
            needed: Whether a record without a value is an error. Then `may_be_empty` is False.
        """
        alternatives, *steps = _split_field(text)
        self.name = alternatives[0]
        self._values = [_make_value_getter(alternative, fields) for alternative in alternatives]
        self._transforms = [_make_transform(step) for step in steps]
        self._number = steps[0] if len(steps) == 1 and _NUMBER.fullmatch(steps[0]) else ""
        # Set when there is a single value without transforms, or an integer with only a number format.
        self._plain: ValueGetter | None = None
        if len(self._values) == 1:
            [value] = self._values
            if not steps:
                self._plain = value
            elif self._number:
                path, *_ = _parse_path(alternatives[0])
                if is_integer(fields, path):
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
        """Return the texts of the field in a record, after its transforms; an empty sequence if the
        field is empty.

        Raises FieldError if the template asks for an item beyond the end of a list.
        """
        texts = self._first_filled(record)
        for transform in self._transforms:
            texts = transform(list(texts))
        return texts

    def text(self, record: Record) -> str:
        """Return the text of the field in a record, after its transforms; for a list, that of its
        first item.

        If it is empty, an empty text is returned for an optional field, and FieldError is raised
        for any other.
        """
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
        """Return whether the field is not empty in a record, before its transforms."""
        return any(text.strip() for text in self._first_filled(record))

    def _first_filled(self, record: Record) -> list[str] | tuple[str, ...]:
        """Return the texts of the first alternative that is not empty in a record: of `a` or else
        `b` for the field `{a|b}`.

        If all alternatives are empty, an empty tuple is returned.
        """
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
    """A text with fields in braces, such as `{question} ({hint})`.

    With `needed`, even optional fields must not be empty.
    """

    def __init__(self, text: str, fields: Fields, *, needed: bool = False) -> None:
        """Split a template into literal texts and fields in braces: `Is it {colour}?` has one field.

        Args:
            text: The template.
            fields: The fields of a record, by name.
            needed: Whether a record in which a field of the template is empty is an error.

        Raises:
            DataError: A brace lacks its other one, or a field does not exist.
        """
        # The pieces are in turns a text and the content of braces.
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
        """Return the text of the template for a record.

        Raises FieldError if a required field is empty.
        """
        if self.is_field:
            return self.fields[0].text(record)
        text = self._literals[0]
        for field, literal in zip(self.fields, self._literals[1:], strict=True):
            text += field.text(record) + literal
        return text

    def fill_all(self, record: Record) -> Sequence[str]:
        """Return all texts of the template for a record: several if it is a single field that
        contains a list, otherwise one.

        Raises FieldError as `fill` does.
        """
        return self.fields[0].texts(record) if self.is_field else (self.fill(record),)


def _split_field(text: str) -> tuple[list[str], *tuple[str, ...]]:
    """Split a field into its alternatives and the names of its transforms: `a|b:strip:stem` gives
    `["a", "b"], "strip", "stem"`.

    Separators inside quotes belong to the quoted text.
    """
    alternatives, *steps = re.split(r":(?=(?:[^']*'[^']*')*[^']*$)", text)
    return re.split(r"\|(?=(?:[^']*'[^']*')*[^']*$)", alternatives), *steps


def _parse_path(text: str) -> tuple[tuple[str, ...], str]:
    """Split a path into its names and the index in brackets: `a.b[0]` gives `(("a", "b"), "0")`.

    The index may be empty. Raises DataError if the text is not a path.
    """
    parts = _PATH.fullmatch(text)
    if parts is None:
        raise DataError(
            f"{{{text}}} is not a field of a record; write {{name}}, {{name.inner}} or {{list[0]}}"
        )
    return tuple(parts[1].split(".")), parts[2] or ""


def _make_value_getter(text: str, fields: Fields) -> ValueGetter:
    """Return a function that takes a record and returns the value of `text` in it.

    The text is a quoted text (`'none'`), which is itself the value, or a path (`a.b`), or an item
    of a list (`choices[0]`). Raises UnknownNameError if it names a field that the entry does not
    declare.
    """
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
    """Return a function that takes a record and returns the value that a path leads to.

    The path ("a", "b") leads to the field `b` in the object that the field `a` contains. The most common kinds of paths
    have functions of their own, which are faster than `_follow_path`: a field, a field in an object, and a field in each
    object of a list in an object.
    """
    if len(path) == 1:
        name = path[0]
        return lambda record: record.get(name)
    outer, inner, *deeper = path
    is_in_object = isinstance(fields.get(outer), dict)
    if is_in_object and len(path) == 2:

        def get_inner(record: Record) -> Any:
            outer_value = record.get(outer) or {}
            return outer_value.get(inner)

        return get_inner
    if is_in_object and len(path) == 3 and isinstance(fields[outer].get(inner), list):
        [last] = deeper

        def get_from_each_item(record: Record) -> list[Any]:
            outer_value = record.get(outer) or {}
            items = outer_value.get(inner) or ()
            return [item.get(last) for item in items]

        return get_from_each_item
    return lambda record: _follow_path(record, path)


def _check_field_exists(path: tuple[str, ...], fields: Fields) -> None:
    """Raise UnknownNameError if a path begins with a name that is neither a declared field nor one
    that the reader adds.
    """
    if path[0] not in fields and not path[0].startswith(SPECIAL):
        raise registry.unknown_name("field", path[0], fields)


def _follow_path(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value that a path leads to; None if it leads through a value that is missing or
    has no fields, or past the end of a list.

    Inside a list of objects, a name gives a list with its value in each object: for `{"a": [{"b":
    1}, {"b": 2}]}`, the path `a.b` gives `[1, 2]`.
    """
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, (list, tuple)):
            if step.isdecimal():
                place = int(step)
                value = value[place] if place < len(value) else None
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
    """Return the function for a transform: a number format such as `05d`, or a registered transform
    such as `strip`.
    """
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
    """Return a value as text: empty for None, and `true` or `false` for a Boolean."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()  # as JSON writes it
    return str(value)
