"""What a judge may cost, before it is asked: a likely figure, and one that no judge can exceed. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.protocols.verdict import Deliberation
from snellen.records import Request, Response
from snellen.runs.spec import TokenPrice

TEMPLATE_TOKENS = 64
"""Most tokens that a chat template and its default system prompt add to a request of one message."""
_NO_VERDICT = Response(text="")


class RequestTokens(Struct, frozen=True):
    """Tokens of some requests."""

    calls: int
    read: int
    written: int

    def cost(self, price: TokenPrice) -> float:
        return (self.read * price[0] + self.written * price[1]) / 1e6


def pending_requests(talk: Deliberation, known: Mapping[str, Response]) -> list[Request]:
    """What a judge has to be asked yet for one verdict, were none of its replies a verdict; empty when it is known."""
    pending: list[Request] = []
    try:
        requests = next(talk)
        while True:
            pending += [request for request in requests if request.key not in known]
            requests = talk.send([known.get(request.key, _NO_VERDICT) for request in requests])
    except StopIteration:
        return pending


def likely_tokens(requests: Sequence[Request]) -> RequestTokens:
    """An estimate: four letters are one token, a letter beyond ASCII is one, and a verdict takes all that it may."""
    return _summed(requests, _likely)


def most_tokens(requests: Sequence[Request]) -> RequestTokens:
    """A bound: no tokeniser makes more tokens of a text than it has bytes."""
    return _summed(requests, lambda text: len(text.encode("utf-8", "surrogatepass")), TEMPLATE_TOKENS)


def estimate_cost(
    talks: Iterable[Sequence[Request]], price: TokenPrice | None = None, *, besides: Sequence[Request] = ()
) -> str:
    """Calls, tokens and, for a price, cost in words, each as it is likely and at most.

    `talks` has for each verdict the requests that it may take: it is likely to come at the first, and at most all are
    put, and what is asked `besides`. What is asked in the same words is asked once.
    """
    first: dict[str, Request] = {}
    every = {request.key: request for request in besides}
    for requests in talks:
        first.update({request.key: request for request in requests[:1]})
        every.update({request.key: request for request in requests})
    likely, most = likely_tokens(list(first.values())), most_tokens(list(every.values()))
    line = (
        f"{likely.calls:,} calls to make, some {likely.read:,} tokens to read and {likely.written:,} to write; "
        f"at most {most.calls:,} calls, {most.read:,} and {most.written:,} tokens"
    )
    if price is None:
        return line
    return f"{line}; likely {likely.cost(price):,.3g}, at most {_rounded_up(most.cost(price))} at the price given"


def _summed(requests: Sequence[Request], tokens: Callable[[str], int], template: int = 0) -> RequestTokens:
    read = sum(tokens(message.text) + template for request in requests for message in request.messages)
    return RequestTokens(len(requests), read, sum(request.decoding.max_new_tokens for request in requests))


def _likely(text: str) -> int:
    plain = sum(map(str.isascii, text))
    return math.ceil(plain / 4) + len(text) - plain


def _rounded_up(value: float) -> str:
    """Three digits that are never less than the value."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit - 1e-9) * unit:,.3g}" if value < 1000 else f"{math.ceil(value):,}"
