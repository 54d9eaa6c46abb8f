"""Errors for attributes and keywords of other libraries, which say what they are called in Snellen."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

ParametersT = ParamSpec("ParametersT")
ReturnedT = TypeVar("ReturnedT")


def unknown_attribute(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Return the error for an attribute that an object lacks, with what was most likely meant.

    Args:
        owner: The object.
        name: The attribute.
        hints: What to write instead, by the names of other libraries.
    """
    owner_type = type(owner)
    message = f"{owner_type.__name__!r} object has no attribute {name!r}"
    hint = hints.get(name, "") or hints.get(name.removeprefix("to_"), "")
    if not hint:
        public_names = [member for member in dir(owner_type) if not member.startswith("_")]
        close = difflib.get_close_matches(name, public_names, n=1)
        if close:
            hint = f"did you mean {close[0]}?"
    if hint:
        message += f"; {hint}"
    return AttributeError(message)


def same_hint(hint: str, *names: str) -> dict[str, str]:
    """Return a table with the same hint for several names, as `unknown_attribute` takes it."""
    return dict.fromkeys(names, hint)


def answering_keywords(
    hint: str, *, without_effect: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Callable[ParametersT, ReturnedT]], Callable[ParametersT, ReturnedT]]:
    """Return a decorator for methods. Its TypeError for an unknown keyword says what to write instead.

    Args:
        hint: What to write instead.
        without_effect: Keywords of other libraries that are accepted if they have this value, because the method does
            what they ask for anyway.

    Examples:
        >>> @answering_keywords("songs() has all of them")
        ... def sing(loud: bool = False) -> str:
        ...     return "la"
        >>> sing(quiet=True)
        Traceback (most recent call last):
        TypeError: sing() has no keyword 'quiet'; songs() has all of them
    """

    def with_hint(
        method: Callable[ParametersT, ReturnedT],
    ) -> Callable[ParametersT, ReturnedT]:
        """Return a method that accepts keywords without effect, and rejects other unknown keywords with the hint."""
        known_names = inspect.signature(method).parameters

        @functools.wraps(method)
        def checked_method(*args: ParametersT.args, **keywords: ParametersT.kwargs) -> ReturnedT:
            """Call the method without keywords that have no effect. Raises TypeError, with the hint, for any other unknown one."""
            unknown_names = [name for name in keywords if name not in known_names]
            for name in unknown_names:
                has_no_effect = name in without_effect and keywords[name] == without_effect[name]
                if not has_no_effect:
                    raise TypeError(f"{method.__name__}() has no keyword {name!r}; {hint}")
                del keywords[name]
            return method(*args, **keywords)

        return checked_method

    return with_hint
