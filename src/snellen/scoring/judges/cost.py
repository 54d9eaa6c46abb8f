"""What a judge may cost, before it is asked: a likely figure, and one that no judge can exceed. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from snellen.protocols.verdict import Deliberation
from snellen.records import Request, Response
from snellen.runs.spec import TokenPrice
from snellen.runs.token_estimates import likely_tokens, most_tokens

_NO_VERDICT = Response(text="")


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


def _rounded_up(value: float) -> str:
    """Three digits that are never less than the value."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / unit - 1e-9) * unit:,.3g}" if value < 1000 else f"{math.ceil(value):,}"
