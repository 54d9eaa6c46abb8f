"""Choose among several servers of one model, and pause those that fail."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from snellen.models.adaptive_limit import AdaptiveLimit
from snellen.models.byte_budget import MOST_IN_HAND, ByteBudget
from snellen.models.connections import Connections

FAILURES = 3
"""A server counts as down after this many timeouts and internal errors in a row, or as soon as it cannot be reached."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
"""Seconds that a server which is down is left alone: at first, doubled each time, and at most."""


class BalancedServer:
    """One of several servers of a model, with its number of requests and its recent failures."""

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
        """Record that a request to the server failed, and pause the server if it counts as down.

        Args:
            now: The present time in seconds.
            unreachable: Whether no connection was possible. If the server did reply with an error,
                or too late, it is paused only after `FAILURES` failures in a row.
        """
        self.failures += 1
        if self.is_down and now < self.asked_again:
            return  # this request was sent before the pause began, so it says nothing new
        if not (unreachable or self.failures >= FAILURES):
            return
        self.is_down = True
        self.asked_again = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._times_down, 10))
        self._times_down += 1


class BalancedServers:
    """The servers of one model. All of them give the same replies, so a request can go to any of them."""

    def __init__(
        self,
        urls: Sequence[str],
        headers: Mapping[str, str],
        most_bytes: int,
        concurrency: int,
        now: Callable[[], float],
    ) -> None:
        """Prepare the connections to the servers. None is opened yet.

        Raises ModelError if the environment names a proxy that is not an HTTP proxy.

        Args:
            urls: The addresses of the servers.
            headers: HTTP headers of every request.
            most_bytes: Maximum length of a reply in bytes.
            concurrency: Maximum number of requests in flight to each server.
            now: Returns the present time in seconds.
        """
        # Each server gets an equal share of the memory for requests that are not sent yet. A server that has stopped
        # reading then cannot use up the memory that requests to the others need.
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
        """Return the server to which the next request should be sent.

        A paused server whose pause is over comes first, and gets a single request to see whether it
        works again. Otherwise it is the running server with the fewest requests and recent
        failures. If all servers are paused, it is the one whose pause ends first.

        Args:
            without: Servers that must not be chosen, because they were tried before.

        Returns:
            The server; None if `without` contains all servers.
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
        """Return the servers whose address is not `url`."""
        return [server for server in self._servers if server.url != url]

    async def close(self) -> None:
        for server in self._servers:
            await server.connections.close()
