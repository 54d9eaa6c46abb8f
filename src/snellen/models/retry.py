"""How long to wait before a request is sent again."""

from __future__ import annotations

from msgspec import Struct

from snellen.seeds import rng_for


class Retry(Struct, frozen=True):
    """Exponential waiting with jitter. All times in seconds."""

    retries: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    """A server that asks for a longer wait than this is not asked again."""

    def wait(self, attempt: int, name: str, requested: float | None = None) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) failed, or None to give up.

        `requested` is the server's Retry-After, which is honoured, plus jitter. `name` distinguishes requests, so
        that those that failed together do not retry together.
        """
        if attempt > self.retries:
            return None
        jitter = rng_for("retry", name, attempt).random()
        if requested is None:
            return min(self.longest, self.first * 2.0 ** (attempt - 1)) * (0.5 + jitter / 2)
        if requested > self.patience:
            return None
        return requested + jitter * max(self.first, requested / 10)
