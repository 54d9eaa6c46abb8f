"""From a reply to the option it names: the reference extractor, and others by name.

The rules behind published numbers stand beside the suites whose papers printed them.
"""

from __future__ import annotations

from functools import partial

from snellen import registry
from snellen.extraction.reading import Confidence, ExtractedChoice, Extractor, NamedExtractor, RuleMethod
from snellen.extraction.standard import VERSION, read_choice

STANDARD = NamedExtractor(VERSION, read_choice, "standard")
STRICT = NamedExtractor(f"{VERSION}-strict", partial(read_choice, mode="strict"), "strict")


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
