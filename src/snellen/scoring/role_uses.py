"""What was asked of each model of a run, by role."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from snellen.records import EVALUATED, Usage
from snellen.runs.budget import cost_of
from snellen.runs.journal import RunManifest
from snellen.runs.journal_line import JournalEntry
from snellen.runs.spec import TokenPrice
from snellen.scoring.token_counts import plus, usage_text


class RoleUse(Struct, frozen=True):
    """One model in one role, over all sessions of a run."""

    role: str
    model: str
    answered: int
    failed: int
    usage: Usage | None = None
    """Tokens of what was answered, as the model counts them; None where it does not count, or not always."""
    from_cache: int = 0
    """Requests besides, that were answered in earlier runs."""

    def sentence(self, price: TokenPrice | None = None) -> str:
        """`questioner openai:gpt: 12 requests, 1 failed (3,400 tokens read, 560 written, as it counts them)`.

        `price` is that of the evaluated model's tokens."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        cached = f", {self.from_cache:,} more from the cache" if self.from_cache else ""
        tokens = f" ({usage_text(self.usage)}, as it counts them)" if self.usage else ""
        paid = f"; {cost_of(self.usage, price):,.3g} at the price given" if self.usage and price else ""
        role = self.role or "evaluated"
        return f"{role} {self.model}: {self.answered + self.failed:,} requests{failed}{cached}{tokens}{paid}"


class RoleTally:
    """Adds exchanges up, by role."""

    def __init__(self, manifest: RunManifest) -> None:
        self._models = {EVALUATED: manifest.model, **{role: use.model for role, use in manifest.roles.items()}}
        self._answered, self._failed, self._cached = Counter[str](), Counter[str](), Counter[str]()
        self._usages: dict[str, Usage] = {}
        self._counted = Counter[str]()

    def add(self, entry: JournalEntry) -> None:
        role, response = entry.request.role, entry.response
        self._cached[role] += entry.from_cache
        if entry.reused:
            return
        if response.error is not None:
            self._failed[role] += 1
            return
        self._answered[role] += 1
        if response.usage:
            self._counted[role] += 1
            self._usages[role] = plus(self._usages.get(role, Usage()), response.usage)

    @property
    def uses(self) -> tuple[RoleUse, ...]:
        return tuple(
            RoleUse(role, model, self._answered[role], self._failed[role], self._usage(role), self._cached[role])
            for role, model in self._models.items()
        )

    def _usage(self, role: str) -> Usage | None:
        return self._usages[role] if 0 < self._answered[role] == self._counted[role] else None
