"""How long to wait before a request is sent again."""

from __future__ import annotations

from msgspec import Struct

from snellen.common.seeds import rng_for


class Retry(Struct, frozen=True):
    """How often, and after which waits, a failed request is sent again.

    Each wait is twice as long as the last one, with a random part (exponential backoff with
    jitter). All times are in seconds.
    """

    retries: int = 6
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    """A server that asks for a longer wait than this is not asked again."""

    @property
    def seconds(self) -> float:
        """The longest time that all waits for one request can take together, in seconds.

        This holds as long as the server does not ask for longer waits.
        """
        return sum(map(self._longest_wait, range(1, self.retries + 1)))

    def _longest_wait(self, attempt: int) -> float:
        return min(self.longest, self.first * 2.0 ** (attempt - 1))

    def wait(self, attempt: int, name: str, requested: float | None = None) -> float | None:
        """Return how many seconds to wait before a failed request is sent again, or None to give up.

        Args:
            attempt: The number of the attempt that failed, from 1.
            name: Identifies the request. Two requests that failed at the same time get different
                random parts, so that they are not sent again at the same time.
            requested: The wait in seconds that the server asked for (Retry-After), if it did. The
                result is then a little longer. If it is longer than `patience`, the result is None.
        """
        if attempt > self.retries:
            return None
        jitter = rng_for("retry", name, attempt).random()
        if requested is None:
            return self._longest_wait(attempt) * (0.5 + jitter / 2)
        if requested > self.patience:
            return None
        return requested + jitter * max(self.first, requested / 10)
