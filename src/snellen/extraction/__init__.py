"""From a reply to the option it names: the reference extractor, and others by name.

The rules behind published numbers stand beside the suites whose papers printed them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from snellen import registry
from snellen.callers import for_caller, setting
from snellen.errors import HookError, UnknownNameError
from snellen.extraction.reading import (
    Confidence,
    ExtractedChoice,
    Extractor,
    NamedExtractor,
    RuleMethod,
)

if TYPE_CHECKING:
    from snellen.extraction.standard import STANDARD, STRICT, VERSION, read_choice

_EXTRACTORS: dict[tuple[str, int], tuple[Any, NamedExtractor]] = {}
"""What is registered, and the extractor made from it, by its name and the `id` of what is registered.

What is registered is kept, too, so that nothing else can get its `id`.
"""
_IMPORTED_WHEN_USED = ("STANDARD", "STRICT", "VERSION", "read_choice")
"""Names of `snellen.extraction.standard` that this package has as well."""


def __getattr__(name: str) -> Any:
    """Import the reference extractor when it is first used. It is large, and programs that read no replies do not need it."""
    if name not in _IMPORTED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("snellen.extraction.standard"), name)


def find_extractor(name: str) -> NamedExtractor:
    """Return the extractor with a name, such as `standard`. An extractor reads which option a reply chooses.

    `NAME?error=0.01` returns a version of it that chooses no option if its reading may be wrong with a probability
    above 0.01.

    Raises:
        UnknownNameError: No extractor has this name, the error rate is not a number between 0 and 1, or the extractor
            has none that can be set.
        HookError: The extractor cannot be imported, or is not an extractor.

    Examples:
        >>> find_extractor("standard").read("The answer is (B).", ["a cat", "a dog"], ["A", "B"]).choice
        1
    """
    base, _, error = name.partition("?error=")
    short_name = registry.code_attribute(base)
    if short_name != base and short_name not in registry.own_targets("extractors"):
        registered = _unavailable
    else:
        registered = registry.find_registered("extractors", short_name)
    key = base, id(registered)
    if key not in _EXTRACTORS:  # an extractor is asked for with every reply, and made once
        from snellen.extraction.registered import as_extractor

        _EXTRACTORS[key] = registered, as_extractor(base, registered)
    _, extractor = _EXTRACTORS[key]
    if not error:
        return extractor
    if extractor.allowing is None:
        raise UnknownNameError(f"extractor {name!r}: {base} has no error rate that can be set")
    return _with_error(extractor.allowing, name, error)


def _unavailable(reply: str, options: Sequence[str], labels: Sequence[str]) -> Any:
    """Raise an error, in place of an extractor in the user's own code that this process was not given."""
    raise HookError(
        f"the extractor of this run is code that this {for_caller('command', 'call')} was not given; add {setting('extractor')}"
    )


@lru_cache(maxsize=64)
def _with_error(
    allowing: Callable[[float], NamedExtractor], name: str, error: str
) -> NamedExtractor:
    """Return an extractor that may be wrong with a probability.

    Args:
        allowing: Makes the extractor from the probability.
        name: Name of the extractor as the user gave it, for the message.
        error: The probability as a text, such as "0.01".

    Raises:
        UnknownNameError: The text is not a number between 0 and 1.
    """
    try:
        probability = float(error)
    except ValueError:
        probability = -1.0
    if not 0 < probability < 1:
        raise UnknownNameError(
            f"extractor {name!r}: an error rate is a number between 0 and 1, such as 0.01"
        )
    return allowing(probability)


def named_extractors() -> dict[str, NamedExtractor]:
    """Return all extractors by name, Snellen's own first.

    Examples:
        >>> "standard" in named_extractors()
        True
    """
    return {name: find_extractor(name) for name in registry.targets("extractors")}


__all__ = [
    "STANDARD",
    "STRICT",
    "VERSION",
    "Confidence",
    "ExtractedChoice",
    "Extractor",
    "NamedExtractor",
    "RuleMethod",
    "find_extractor",
    "named_extractors",
    "read_choice",
]
