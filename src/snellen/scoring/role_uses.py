"""What was asked of each model of a run, by role."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from snellen.records import EVALUATED, Exchange, Usage
from snellen.runs.journal import RunManifest
from snellen.scoring.token_counts import usage_text


class RoleUse(Struct, frozen=True):
    """One model in one role, over all sessions of a run."""

    role: str
    model: str
    answered: int
    failed: int
    usage: Usage | None = None
    """Tokens, as the model counts them; None where it does not count, or not always."""

    @property
    def sentence(self) -> str:
        """`questioner openai:gpt: 12 requests, 1 failed (3,400 tokens read, 560 written, as it counts them)`."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        tokens = f" ({usage_text(self.usage)}, as it counts them)" if self.usage else ""
        return f"{self.role or 'evaluated'} {self.model}: {self.answered + self.failed:,} requests{failed}{tokens}"


class RoleTally:
    """Adds exchanges up. A run with one model alone needs no table of them."""

    def __init__(self, manifest: RunManifest) -> None:
        self._models = {EVALUATED: manifest.model, **{role: use.model for role, use in manifest.roles.items()}}
        self._answered, self._failed = Counter[str](), Counter[str]()
        self._read, self._written, self._counted = Counter[str](), Counter[str](), Counter[str]()

    def add(self, exchange: Exchange) -> None:
        role, response = exchange.request.role, exchange.response
        if exchange.reused:
            return
        if response.error is not None:
            self._failed[role] += 1
            return
        self._answered[role] += 1
        if response.usage:
            self._counted[role] += 1
            self._read[role] += response.usage.prompt_tokens or 0
            self._written[role] += response.usage.completion_tokens or 0

    @property
    def uses(self) -> tuple[RoleUse, ...]:
        if len(self._models) == 1:
            return ()
        return tuple(
            RoleUse(role, model, self._answered[role], self._failed[role], self._usage(role))
            for role, model in self._models.items()
        )

    def _usage(self, role: str) -> Usage | None:
        whole = 0 < self._answered[role] == self._counted[role]
        return Usage(self._read[role], self._written[role]) if whole else None
