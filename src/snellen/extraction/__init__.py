"""From a reply to the option it names: the reference extractor, and others by name.

The rules behind published numbers stand beside the suites whose papers printed them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from snellen import registry
from snellen.extraction.reading import Confidence, ExtractedChoice, Extractor, NamedExtractor, RuleMethod

if TYPE_CHECKING:
    from snellen.extraction.standard import STANDARD, STRICT, VERSION, read_choice

_OF_THE_STANDARD = ("STANDARD", "STRICT", "VERSION", "read_choice")


def __getattr__(name: str) -> Any:
    """The reference extractor is imported when it is used: it is large, and whoever reads no reply goes without."""
    if name not in _OF_THE_STANDARD:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("snellen.extraction.standard"), name)


def find_extractor(name: str) -> NamedExtractor:
    """Raises UnknownNameError for an extractor that nobody has."""
    extractor: NamedExtractor = registry.find("extractors", name)
    return extractor


def named_extractors() -> dict[str, NamedExtractor]:
    """All extractors by name, Snellen's own first."""
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
