"""Errors that a user sees: one line each, saying what is wrong, where, and what to do."""

from __future__ import annotations


class SnellenError(Exception):
    """An error that the user can fix. Its message names the fault, the place and the remedy."""

    exit_code = 2


class DataError(SnellenError):
    """Input data that cannot be used: a bad row, a broken image, a missing file."""


class UnknownNameError(SnellenError):
    """A benchmark, model, protocol, metric or template that nobody registered."""


class ModelError(SnellenError):
    """A model that cannot be loaded or does not support what was asked of it."""


class StoreError(SnellenError):
    """A run folder that cannot be written, or was written by something else."""


class MissingExtraError(SnellenError):
    """An optional dependency is missing that the requested feature needs."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package}: pip install 'snellen[{extra}]'"
            + (" (with torch pinned first where a CPU build is wanted)" if extra == "hf" else "")
        )


class ErrorBudgetError(SnellenError):
    """More requests failed than --error-budget allows; the answers received are stored."""

    exit_code = 3
