"""Whether stored answers are those of the model at hand: by its fingerprint, and never by its name alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.errors import StoreError
from snellen.models.base import DECLARE, is_of_content, why_not_fingerprinted
from snellen.runs.journal import holds_answers


def check_identity(folder: Path, name: str, fingerprint: Mapping[str, str]) -> None:
    """Raise StoreError where a folder holds answers of an object that may have changed since, as far as anyone can
    tell."""
    why = why_not_fingerprinted(fingerprint)
    if why and holds_answers(folder):
        raise StoreError(
            f"{folder} holds answers of {name}, and nothing says whether it is still the same ({why}); {DECLARE}, or "
            "choose another folder (--name)"
        )


def changed_fact(earlier: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The first fact that differs between two fingerprints, in words; empty when none does."""
    for name in sorted({*earlier, *now}):
        if earlier.get(name) != now.get(name):
            return f"{name} was {earlier.get(name)}, is {now.get(name)}"
    return ""


def way_out(fingerprint: Mapping[str, str]) -> str:
    """What to do where a fingerprint has changed."""
    if is_of_content(fingerprint):
        return f"choose another --name or, where its answers do not depend on that, {DECLARE}"
    return "choose another --name"
