"""Decide by fingerprints whether stored replies are from the model that is loaded now."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from snellen.callers import setting
from snellen.errors import StoreError
from snellen.models.object_digest import DECLARE, is_of_content, why_not_fingerprinted
from snellen.runs.run_folder import holds_answers


def check_identity(folder: Path, name: str, fingerprint: Mapping[str, str]) -> None:
    """Check that replies in a folder can be attributed to a model.

    Args:
        folder: The folder of a run.
        name: The name of the model.
        fingerprint: Its present fingerprint.

    Raises:
        StoreError: The folder holds replies, and the model is an object that has no fingerprint, so it may have
            changed since.
    """
    reason = why_not_fingerprinted(fingerprint)
    if reason and holds_answers(folder):
        raise StoreError(
            f"{folder} contains replies of {name}, and Snellen cannot tell whether the model is still the same "
            f"({reason}); {DECLARE}, or choose another folder ({setting('name')})"
        )


def changed_fact(earlier: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first fact that differs between two fingerprints, such as `dtype was float32, is bfloat16`.

    A fingerprint is a table of facts about a model, such as a digest of its weights.

    Returns:
        The text; empty if the fingerprints are equal.
    """
    for name in sorted({*earlier, *now}):
        before = earlier.get(name)
        after = now.get(name)
        if before != after:
            return f"{name} was {before}, is {after}"
    return ""


def suggest_fix(fingerprint: Mapping[str, str]) -> str:
    """Return what the user can do if the fingerprint of a model has changed, as a part of an error message."""
    if is_of_content(fingerprint):
        return (
            f"choose another {setting('name')} or, if its answers do not depend on that, {DECLARE}"
        )
    return f"choose another {setting('name')}"
