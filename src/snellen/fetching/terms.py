"""Ask once whether the user accepts the terms of a dataset, and record it in `agreed.json` in Snellen's folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec
from snellen.common.foreign import read_file
from snellen.common.paths import snellen_home
from snellen.errors import DataError, NoSourceError
from snellen.fetching.download import writing
from snellen.fetching.user_callbacks import is_true, user_callbacks

YES = "SNELLEN_YES"
"""The environment variable that accepts all terms if it is true (1, true, yes, on)."""


def check_agreements(specs: Sequence[BenchmarkSpec]) -> None:
    """Ask the user to accept the terms of benchmarks, once per benchmark and text of its terms.

    Raises:
        NoSourceError: The user declines, or cannot be asked.
        DataError: The record of accepted terms cannot be read or written.
    """
    if is_true(os.environ.get(YES)):
        return
    accepted = _accepted_terms()
    unanswered = [
        spec for spec in specs if spec.agreement and accepted.get(spec.name) != spec.agreement
    ]
    if not unanswered:
        return

    terms = "; ".join(
        f"{spec.name} is for {spec.agreement} ({spec.url or spec.licence})" for spec in unanswered
    )
    if not user_callbacks().accept(f"{terms}. Do you agree?"):
        consent = for_caller(f"use --yes or {YES}=1", f"set os.environ[{YES!r}] = '1'")
        raise NoSourceError(f"{terms}; {consent} to agree and download")
    for spec in unanswered:
        accepted[spec.name] = spec.agreement
    with writing(_agreements_file().parent):
        _agreements_file().write_bytes(msgspec.json.format(msgspec.json.encode(accepted), indent=1))


def _agreements_file() -> Path:
    return snellen_home() / "agreed.json"


def _accepted_terms() -> dict[str, str]:
    """Return the text of the accepted terms by benchmark."""
    try:
        return msgspec.json.decode(read_file(_agreements_file()), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(
            f"cannot read {_agreements_file()} ({error}); remove it to be asked again"
        ) from None
