"""What an extractor says about one reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

Way = Literal["mark", "mark+text", "text", "empty", "refusal", "ambiguous", "negated", "no-match"]
"""How the option was found, or why none was.

Found: `mark` (its mark), `mark+text` (its mark and its own text beside it), `text` (its text alone).
Not found: `empty` (nothing was said), `refusal` (the model would not or could not say), `ambiguous`
(several options are named, or a mark and another option's text), `negated` (options are named only to
be denied), `no-match` (nothing that was said is an option).
"""
FOUND: frozenset[Way] = frozenset({"mark", "mark+text", "text"})
Confidence = Literal["certain", "likely", "none"]


class Reading(Struct, frozen=True, omit_defaults=True):
    """The option that a reply names, as the place it was shown in, or None; never a guess."""

    choice: int | None
    """Index of the PLACE into the options as they were passed in; the caller maps places to identities."""
    way: Way
    confidence: Confidence
    """`certain`: the reply says little else, or says so in words; `likely`: found inside a longer text."""
    why: str = ""
    """One short phrase for the reader of a report."""
    span: tuple[int, int] | None = None
    """Where in the reply, as received, the deciding words stand: [start, end)."""
    hit: bool = False
    """The reply kept the asked-for format: it names exactly one of the marks shown, as a mark (either case)."""


Extractor = Callable[[str, Sequence[str], Sequence[str]], Reading]
"""(reply, options in the order shown, marks in the same order) -> Reading. Pure, never raises."""
