"""How long to wait before a request is sent again."""

from __future__ import annotations

from msgspec import Struct

from snellen.common.seeds import rng_for


class Retry(Struct, frozen=True):
    """Exponential waiting with jitter. All times in seconds."""

    retries: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    """A server that asks for a longer wait than this is not asked again."""

    @property
    def seconds(self) -> float:
        """The longest that all waits for one request take together, where no server asks for longer ones."""
        return sum(map(self._longest_wait, range(1, self.retries + 1)))

    def _longest_wait(self, attempt: int) -> float:
        return min(self.longest, self.first * 2.0 ** (attempt - 1))

    def wait(self, attempt: int, name: str, requested: float | None = None) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) failed, or None to give up.

        `requested` is the server's Retry-After, which is honoured, plus jitter. `name` distinguishes requests, so
        that those that failed together do not retry together.
        """
        if attempt > self.retries:
            return None
        jitter = rng_for("retry", name, attempt).random()
        if requested is None:
            return self._longest_wait(attempt) * (0.5 + jitter / 2)
        if requested > self.patience:
            return None
        return requested + jitter * max(self.first, requested / 10)
