"""What is found about one part of an environment."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["good", "absent", "poor", "broken"]
"""`absent`: optional and not there. `poor`: works, but not for long or not well. `broken`: Snellen cannot work so."""


class Diagnosis(Struct, frozen=True):
    """One thing that was looked at, what was found, and what to do about it where something is to be done."""

    part: str
    name: str
    state: State
    found: str
    remedy: str = ""
