"""Terms that a user agrees to once before data are fetched: kept in `agreed.json` in Snellen's own folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from snellen.catalogue import BenchmarkSpec
from snellen.common.paths import home
from snellen.errors import DataError, NoSourceError
from snellen.fetching.attendance import attendance, is_true
from snellen.fetching.download import writing

YES = "SNELLEN_YES"
"""The environment variable that agrees to all terms when it says yes (1, true, on)."""


def check_agreements(specs: Sequence[BenchmarkSpec]) -> None:
    """Ask, once per benchmark, whether the user agrees to its terms. Raises NoSourceError when nobody does."""
    if is_true(os.environ.get(YES)):
        return
    agreed = _agreed()
    unanswered = [spec for spec in specs if spec.agreement and agreed.get(spec.name) != spec.agreement]
    if not unanswered:
        return
    terms = "; ".join(f"{spec.name} is for {spec.agreement} ({spec.url or spec.licence})" for spec in unanswered)
    if not attendance().accept(f"{terms}. Do you agree?"):
        raise NoSourceError(f"{terms}; agree with --yes or {YES}=1, and it is fetched")
    answers = agreed | {spec.name: spec.agreement for spec in unanswered}
    with writing(_file().parent):
        _file().write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1))


def _file() -> Path:
    return home() / "agreed.json"


def _agreed() -> dict[str, str]:
    """By benchmark, the terms that were agreed to."""
    try:
        return msgspec.json.decode(_file().read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{_file()} cannot be read ({error}); remove it, and you are asked again") from None
