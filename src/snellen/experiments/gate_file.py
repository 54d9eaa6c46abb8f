"""The rules of a gate, from flags or from a TOML file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from snellen.analysis.paired.gate import ALPHA, GateRule, gate_rules
from snellen.callers import for_caller
from snellen.common.foreign import read_text
from snellen.errors import DataError


class GateFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A TOML file with the rules of a gate."""

    rules: tuple[GateRule, ...]
    """`[[rules]]`: `worse = "1pt"`, and `on = "BENCHMARK:METRIC"`; the headline of the run without `on`."""
    alpha: float = ALPHA
    """The probability of a false alarm, and of a miss, that the gate may have."""


def gate_settings(
    margin: str, on: Sequence[str], file: Path | None
) -> tuple[list[GateRule], float]:
    """Return the rules of a release check and its error rate, from the command line or from a file.

    Args:
        margin: By how much a candidate may be worse, such as `1pt`.
        on: The benchmarks or metrics to check.
        file: A TOML file with rules, instead of the other two.

    Raises:
        DataError: The file cannot be used, or both a file and other settings are given.
    """
    if file is None:
        return gate_rules(margin, on), ALPHA
    if margin or on:
        raise DataError(
            f"{file} already defines the rules; remove the other rules "
            + for_caller("(--fail-if-worse, --on), or remove --gate", "(margin, on), or the file")
        )
    try:
        settings = msgspec.toml.decode(read_text(file), type=GateFile)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise DataError(f"{file}: {error}") from error
    if not settings.rules:
        raise DataError(f'{file} has no rules; add [[rules]] with worse = "1pt"')
    if not 0 < settings.alpha < 0.5:
        raise DataError(f"{file}: alpha {settings.alpha:g} is not between 0 and 0.5")
    return list(settings.rules), settings.alpha
