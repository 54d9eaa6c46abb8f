"""The options that a prompt lists, one per line, as toolkits write them: `A. cat`, `(A) cat`, `A) cat`, `A: cat`."""

from __future__ import annotations

import re

_LISTED = re.compile(r"^\s*\(?([A-Z])[.):]\s+(\S.*?)\s*$", re.MULTILINE)


def listed_options(prompt: str) -> tuple[str, ...]:
    """The last list of two lines or more that are lettered from A on; empty when there is none."""
    last: tuple[str, ...] = ()
    current: list[str] = []
    for match in _LISTED.finditer(prompt):
        if match[1] == "A":
            current = []
        elif ord(match[1]) - ord("A") != len(current):
            current = []
            continue
        current.append(match[2])
        if len(current) >= 2:
            last = tuple(current)
    return last


def gold_places(target: str, options: tuple[str, ...]) -> tuple[int, ...]:
    """The place that a target names by its letter or its text; empty when it names none."""
    text = target.strip().strip("().").strip()
    if len(text) == 1 and "A" <= text.upper() <= "Z" and ord(text.upper()) - ord("A") < len(options):
        return (ord(text.upper()) - ord("A"),)
    same = [place for place, option in enumerate(options) if option.strip().casefold() == target.strip().casefold()]
    return (same[0],) if len(same) == 1 else ()
