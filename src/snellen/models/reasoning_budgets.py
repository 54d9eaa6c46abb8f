"""How many tokens a model may have for its reasoning, declared by its name in reasoning_budgets.toml."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

DEFAULT_REASONING_TOKENS = 16_384
"""For a model that is asked to reason and of which nothing is declared."""


class ReasoningModels(Struct, frozen=True):
    """Models that reason alike."""

    names: tuple[str, ...]
    """Patterns of their names, in small letters."""
    tokens: int


class _Table(Struct):
    models: tuple[ReasoningModels, ...]


@cache
def reasoning_models() -> tuple[ReasoningModels, ...]:
    """The declared kinds, in the order in which they are looked at."""
    return msgspec.toml.decode((files(__package__) / "reasoning_budgets.toml").read_bytes(), type=_Table).models


@cache
def declared_reasoning_tokens(model: str) -> int:
    """Tokens for the reasoning of the model with this name; 0 for one that is not known to reason."""
    name = model.lower().rstrip("/").rsplit("/", 1)[-1]
    found = (kind.tokens for kind in reasoning_models() if any(fnmatchcase(name, form) for form in kind.names))
    return next(found, 0)
