"""Describe the fields of a record, from which flags, keywords, files and tables of the documentation are made."""

# Without postponed annotations: flags are made of these types, and to read them from text takes 10 ms.

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Option(Struct, frozen=True):
    """Annotation of a field that users may set.

    Examples:
        >>> class Settings(Struct):
        ...     limit: Annotated[int, Option("Maximum samples.", flag="-n")] = 10
        >>> record_fields(Settings)["limit"].option.help
        'Maximum samples.'
    """

    help: str
    unless: str = ""
    """What applies if the option is not given, if the default does not show it."""
    flag: str = ""
    """Another spelling of its flag, such as -p."""
    metavar: str = ""
    """How its value is written on the command line, such as IN,OUT."""
    alone: str = ""
    """Value of its flag without an argument."""
    in_python: str = ""
    """What else its keyword takes; a sentence that the help of the flag omits."""
    page: str = ""
    """Page of the documentation that says more."""


class RecordField(Struct, frozen=True):
    """A field of a record, with its annotation taken apart."""

    name: str
    type: Any
    """The type without None and without annotations."""
    default: Any
    limits: Meta
    option: Option

    @property
    def is_list(self) -> bool:
        """Whether it holds any number of items of one type. Up to a fixed number of them are one value, as prices are."""
        if self.limits.max_length is not None:
            return False
        return get_origin(self.type) is tuple and get_args(self.type)[1:] == (...,)

    @property
    def is_table(self) -> bool:
        """Whether it holds values by name: NAME=VALUE on the command line."""
        if get_origin(self.type) is dict:
            return True
        return self.is_list and get_origin(get_args(self.type)[0]) is tuple

    @property
    def is_repeated(self) -> bool:
        """Whether its flag may be given several times."""
        return self.is_list or self.is_table

    @property
    def flag(self) -> str:
        """Its flag on the command line, without the `no-` that negates it."""
        if self.option.flag.startswith("--"):
            return self.option.flag
        flag = f"--{self.name.replace('_', '-')}"
        return flag.removesuffix("s") if self.is_repeated else flag

    @property
    def choices(self) -> tuple[str, ...]:
        """Values that it, or each of its items, may have; empty if any text is allowed."""
        item_type = get_args(self.type)[0] if self.is_list else self.type
        if get_origin(item_type) is not Literal:
            return ()
        return get_args(item_type)

    def plain(self, value: Any) -> Any:
        """Return a value in the form in which the record stores it.

        A path becomes a string. In a field for a list, a single string becomes a tuple of this string.
        """
        if isinstance(value, Path):
            value = str(value)
        if not self.is_list or isinstance(value, Mapping) or not isinstance(value, Iterable):
            return value
        if isinstance(value, str):
            return (value,)
        return tuple(str(item) if isinstance(item, Path) else item for item in value)


@cache
def record_fields(form: type[Struct]) -> Mapping[str, RecordField]:
    """Return the fields of a record that have an `Option`, by name, in order.

    The annotations of the record must be types and not text, so its module must not postpone annotations.
    """
    fields = {}
    for field in msgspec.structs.fields(form):
        field_type, notes = _take_apart(form.__annotations__[field.name])
        bounds = [note for note in notes if isinstance(note, Meta)]
        limits = bounds[0] if bounds else Meta()
        default = field.default
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        for note in notes:
            if isinstance(note, Option):
                fields[field.name] = RecordField(field.name, field_type, default, limits, note)
    return fields


def _take_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Separate a type hint into the type without None, and its annotations.

    `Annotated[int | None, Meta(gt=0)]` gives `(int, (Meta(gt=0),))`.
    """
    if get_origin(hint) is Annotated:
        inner_type, inner_notes = _take_apart(hint.__origin__)
        return inner_type, (*inner_notes, *hint.__metadata__)
    if get_origin(hint) in (Union, UnionType):
        alternatives = [part for part in get_args(hint) if part is not NoneType]
        if len(alternatives) == 1:
            return _take_apart(alternatives[0])
    return hint, ()


def shows_fields(*forms: type[Struct], **defaults: Any) -> Callable[[FunctionT], FunctionT]:
    """Decorate a function that takes fields of records as keywords, so that its signature lists them.

    `help()` shows the signature, and notebooks complete by it.

    Args:
        forms: The records.
        defaults: Defaults that differ from those of the records, by name.
    """
    fields: dict[str, RecordField] = {}
    for form in forms:
        fields.update(record_fields(form))

    def with_signature(function: FunctionT) -> FunctionT:
        """Give a function with `**keywords` a signature in which each field of the record is a keyword, for help and editors."""
        signature = inspect.signature(function)
        own_parameters = []
        for parameter in signature.parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                own_parameters.append(parameter)
        keywords = []
        for name, field in fields.items():
            # A positional parameter `model` stands for the field `models`.
            if name in signature.parameters or name.removesuffix("s") in signature.parameters:
                continue
            default = defaults.get(name, field.default)
            keywords.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
        function.__dict__["__signature__"] = signature.replace(
            parameters=[*own_parameters, *keywords]
        )
        return function

    return with_signature
