"""Choose among several servers of one model, and pause those that fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from snellen.models.adaptive_limit import AdaptiveLimit
from snellen.models.byte_budget import MOST_IN_HAND, ByteBudget
from snellen.models.connections import Connections

FAILURES = 3
"""After so many timeouts and errors of its own in a row a server counts as down; one that cannot be reached does at
once."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds that a server which is down is left alone: at first, doubled each time, and at most."""


class BalancedServer:
    """One of the servers and how it is doing."""

    def __init__(self, url: str, connections: Connections, concurrency: int) -> None:
        self.url, self.connections = url, connections
        self.slots = AdaptiveLimit(concurrency)
        self.assigned = 0
        """Requests sent to this server and not answered yet."""
        self.is_down = False
        self.asked_again = 0.0
        """When a server that is down is asked again, in seconds of the clock."""
        self.failures = 0
        """Consecutive failures."""
        self._times_down = 0

    def answered(self) -> None:
        self.is_down, self.failures, self._times_down = False, 0, 0

    def failed(self, now: float, *, unreachable: bool) -> None:
        """Record that the server did not answer a request. `unreachable`: it did not even answer with an error."""
        self.failures += 1
        if self.is_down and now < self.asked_again:
            return  # late news: it was asked before it counted as down
        if not (unreachable or self.failures >= FAILURES):
            return
        self.is_down = True
        self.asked_again = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._times_down, 10))
        self._times_down += 1


class BalancedServers:
    """The servers of one model, which all give the same replies."""

    def __init__(
        self,
        urls: Sequence[str],
        headers: Mapping[str, str],
        most_bytes: int,
        concurrency: int,
        now: Callable[[], float],
    ) -> None:
        """Each server gets at most `concurrency` requests at once. Raises ModelError for a proxy that is not HTTP."""
        # Each has its share of the room, so that one which takes nothing keeps no other from being asked.
        room = MOST_IN_HAND // len(urls)
        self._servers = [
            BalancedServer(
                url, Connections(url, dict(headers), most_bytes, ByteBudget(room)), concurrency
            )
            for url in urls
        ]
        self._now = now

    @property
    def is_reached(self) -> bool:
        """Whether a connection to one of the servers was ever opened."""
        return any(server.connections.is_reached for server in self._servers)

    def choose(self, without: Collection[BalancedServer] = ()) -> BalancedServer | None:
        """Return the server for the next request, among those not in `without`; None if none is left.

        This is a failed server whose pause is over, for a single request, or else the server with the fewest requests
        and failures. If all servers are pausing, it is the one whose pause ends first.
        """
        candidates = [server for server in self._servers if server not in without]
        up = [server for server in candidates if not server.is_down]
        now = self._now()
        due = [
            server
            for server in candidates
            if server.is_down and not server.assigned and server.asked_again <= now
        ]
        if due:
            return due[0]
        if up:
            return min(up, key=lambda server: (server.assigned, server.failures))
        return min(candidates, key=lambda server: server.asked_again, default=None)

    def others_than(self, url: str) -> list[BalancedServer]:
        """Return the servers at other addresses than `url`."""
        return [server for server in self._servers if server.url != url]

    async def close(self) -> None:
        for server in self._servers:
            await server.connections.close()
