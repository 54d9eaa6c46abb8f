"""Rate limits: how often one visitor, and all visitors of one network, may do something."""

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
    """Parse IP networks, or single addresses.

    Raises DataError for a text that is neither; the message begins with `where`.
    """
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
    """Return whether an address belongs to any of some networks; an unknown address (None) belongs to none."""
    return address is not None and any(address in network for network in networks)


def client_address(peer: str, forwarded_for: str, trusted: Sequence[Network]) -> Address | None:
    """Return the address of the client that sent a request, perhaps through trusted proxies.

    Each proxy appends the address it received the request from to `X-Forwarded-For`. So the client is the last address
    there that is not a trusted proxy; addresses before it may be forged and are ignored.

    Args:
        peer: Address of the other end of the connection.
        forwarded_for: The header `X-Forwarded-For`: addresses separated by commas, or "".
        trusted: Networks of the trusted proxies.

    Returns:
        The address. None if the peer has no address (a Unix socket) and no proxy names one.
    """
    address = _parse_address(peer)
    forwarded_addresses = forwarded_for.split(",") if forwarded_for else []
    for text in reversed(forwarded_addresses):
        if not is_within(address, trusted):
            break
        sender = _parse_address(text.strip())
        if sender is None:
            break
        address = sender
    return address


def retry_words(seconds: int) -> str:
    """Return the sentence that tells a client when to send the request again, such as "try again in 5 minutes"."""
    if seconds < 120:
        return f"try again in {seconds} {'second' if seconds == 1 else 'seconds'}"
    return f"try again in {math.ceil(seconds / 60)} minutes"


def network_of(address: Address | None) -> str:
    """Return the network that rate limits count as one visitor: an IPv4 /24 or an IPv6 /64, or "unknown"."""
    if address is None:
        return "unknown"
    prefix_length = 24 if address.version == 4 else 64
    return str(ip_network((address, prefix_length), strict=False))


def _parse_address(text: str) -> Address | None:
    """Return an IP address, an IPv4 address inside an IPv6 one as IPv4; None if the text is not an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
MAX_BUCKETS = 100_000
"""Greatest number of buckets in memory. The one that was unused for longest is dropped first."""


@dataclass(frozen=True)
class Rate:
    """A number of requests per number of seconds.

    All of them may be sent at once; after that, one more is allowed every `seconds / count`
    seconds.
    """

    count: int
    seconds: float


def parse_rate(text: str, where: str) -> Rate:
    """Read a rate from a configuration file.

    Args:
        text: A number of requests and a time, such as `30/minute`, `5/10 seconds` or `100/day`.
        where: Name of the setting, for the error message.

    Raises:
        DataError: If the text has another form.
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,6})?\s*(second|minute|hour|day)s?\s*", text)
    requests = int(match[1]) if match else 0
    units = int(match[2] or 1) if match else 0
    if match is None or not requests or not units:
        raise DataError(f"{where}: {text!r} is not a rate; write 30/minute, 5/hour or 100/day")
    return Rate(requests, units * SECONDS[match[3]])


@dataclass(frozen=True)
class RateLimit:
    """A rate limit that a feature declares. The server's configuration can set other rates for it."""

    name: str
    per_visitor: str
    per_network: str


class Limiter:
    """Counts requests in memory, by the limit and by who sends them (token buckets).

    Each process of a server counts for itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def wait(self, name: str, rates: tuple[tuple[str, Rate], ...]) -> float:
        """Count a request under a limit if all its rates allow it now.

        Args:
            name: Name of the limit.
            rates: Pairs of who sends the request (a visitor, a network) and the rate that applies to them.

        Returns:
            0.0 if the request is allowed and has been counted; otherwise the seconds to wait, and it is not counted.
        """
        now = self._clock()
        with self._lock:
            levels: dict[str, float] = {}
            longest_wait = 0.0
            for who, rate in rates:
                level = self._tokens_left((name, who), rate, now)
                levels[who] = level
                seconds_to_one_request = (1 - level) * rate.seconds / rate.count
                longest_wait = max(longest_wait, seconds_to_one_request)
            if longest_wait > 0:
                return longest_wait
            for who, level in levels.items():
                self._buckets[name, who] = (level - 1, now)
                self._buckets.move_to_end((name, who))
            while len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        return 0.0

    def _tokens_left(self, key: tuple[str, str], rate: Rate, now: float) -> float:
        """Return how many requests a caller may send now.

        This is a token bucket. It is full at first, each request takes one from it, and it is refilled at the rate, but
        never with more than `rate.count`.

        Args:
            key: The name of the limit, and the caller.
            rate: The number of requests and the seconds in which they may be sent.
            now: The current time in seconds.
        """
        full = float(rate.count)
        level, filled_at = self._buckets.get(key, (full, now))
        refill = (now - filled_at) * rate.count / rate.seconds
        return min(full, level + refill)
