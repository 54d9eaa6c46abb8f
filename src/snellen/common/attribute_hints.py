"""Errors for attributes and keywords that other libraries have and Snellen calls otherwise."""

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


def hinted(meant: str, *names: str) -> dict[str, str]:
    """Return the same hint for several names."""
    return dict.fromkeys(names, meant)


def answering_keywords(
    hint: str, *, without_effect: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[Callable[ParametersT, ReturnedT]], Callable[ParametersT, ReturnedT]]:
    """Return a decorator of methods whose TypeError for an unknown keyword says what to write instead.

    Args:
        hint: The line to write.
        without_effect: Keywords of other libraries with the value that asks for what happens anyway.

    Examples:
        >>> @answering_keywords("songs() has all of them")
        ... def sing(loud: bool = False) -> str:
        ...     return "la"
        >>> sing(quiet=True)
        Traceback (most recent call last):
        TypeError: sing() has no keyword 'quiet'; songs() has all of them
    """

    def with_answers(
        method: Callable[ParametersT, ReturnedT],
    ) -> Callable[ParametersT, ReturnedT]:
        """Return a method that accepts keywords without effect, and rejects other unknown keywords with the hint."""
        known = inspect.signature(method).parameters

        @functools.wraps(method)
        def answering(*args: ParametersT.args, **keywords: ParametersT.kwargs) -> ReturnedT:
            unknown_names = [name for name in keywords if name not in known]
            for name in unknown_names:
                has_no_effect = name in without_effect and keywords[name] == without_effect[name]
                if not has_no_effect:
                    raise TypeError(f"{method.__name__}() has no keyword {name!r}; {hint}")
                del keywords[name]
            return method(*args, **keywords)

        return answering

    return with_answers
