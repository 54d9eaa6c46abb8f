"""Rate limits: how often one visitor, and one network, may do a thing."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from snellen import DataError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def parse_networks(texts: Sequence[str], where: str) -> tuple[Network, ...]:
    """Networks or single addresses. Raises DataError, which begins with `where`, for what is neither."""
    networks = []
    for text in texts:
        try:
            networks.append(ip_network(text))
        except ValueError as error:
            raise DataError(
                f"{where}: {text!r} is not an address or network ({error}); write 10.0.0.5 or 10.0.0.0/24"
            ) from None
    return tuple(networks)


def is_within(address: Address | None, networks: Sequence[Network]) -> bool:
    return address is not None and any(address in network for network in networks)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> Address | None:
    """Return the address of the caller: the last one in `X-Forwarded-For` that is not a trusted proxy, else the peer's.

    What stands further to the left was written by whoever asks, and is not believed. None when the peer has no address
    (a Unix socket) and no proxy names one.
    """
    address = _parsed(peer)
    for text in reversed(forwarded_for.split(",")) if forwarded_for else ():
        if not is_within(address, trusted):
            break
        earlier = _parsed(text.strip())
        if earlier is None:
            break
        address = earlier
    return address


def retry_words(seconds: int) -> str:
    """When somebody whom a limit makes wait may come again."""
    if seconds < 120:
        return f"try again in {seconds} {'second' if seconds == 1 else 'seconds'}"
    return f"try again in {math.ceil(seconds / 60)} minutes"


def network_of(address: Address | None) -> str:
    """Return the network that rate limits count as one place: an IPv4 /24 or an IPv6 /64."""
    if address is None:
        return "unknown"
    return str(ip_network((address, 24 if address.version == 4 else 64), strict=False))


def _parsed(text: str) -> Address | None:
    """Return an IP address, an IPv4 address inside an IPv6 one as IPv4; None if the text is not an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
MOST_KEPT = 100_000
"""The most buckets kept; the one unused for longest is dropped first."""


@dataclass(frozen=True)
class Rate:
    """A number of requests per number of seconds: a first burst of all of them, then evenly."""

    count: int
    seconds: float


def parse_rate(text: str, where: str) -> Rate:
    """`30/minute`, or `5/10 seconds`. Raises DataError, which begins with `where`."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,6})?\s*(second|minute|hour|day)s?\s*", text)
    if not match or not int(match[1]) or match[2] == "0":
        raise DataError(f"{where}: {text!r} is not a rate; write 30/minute, 5/hour or 100/day")
    return Rate(int(match[1]), int(match[2] or 1) * SECONDS[match[3]])


@dataclass(frozen=True)
class RateLimit:
    """A limit that a feature declares; the server's configuration may name other rates under its name."""

    name: str
    per_visitor: str
    per_network: str


class Limiter:
    """Token buckets in memory, by the name of a limit and who asks. Each process counts for itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait(self, name: str, rates: tuple[tuple[str, Rate], ...]) -> float:
        """Seconds until it may be done, and 0.0 when it may be done now, which is then counted for all of `rates`."""
        now = self._clock()
        with self._lock:
            levels = [(name, who, rate, self._level((name, who), rate, now)) for who, rate in rates]
            longest = max(
                ((1 - level) * rate.seconds / rate.count for _, _, rate, level in levels),
                default=0.0,
            )
            if longest > 0:
                return longest
            for limit, who, _, level in levels:
                self._buckets[limit, who] = (level - 1, now)
                self._buckets.move_to_end((limit, who))
            while len(self._buckets) > MOST_KEPT:
                self._buckets.popitem(last=False)
        return 0.0

    def _level(self, key: tuple[str, str], rate: Rate, now: float) -> float:
        level, then = self._buckets.get(key, (float(rate.count), now))
        return min(float(rate.count), level + (now - then) * rate.count / rate.seconds)
