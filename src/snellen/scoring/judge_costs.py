"""Estimate the requests and the cost of judging before a judge is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from snellen.protocols.verdict import Deliberation
from snellen.records import Request, Response
from snellen.runs.forecast import estimate_tokens, max_tokens_of
from snellen.runs.spec import TokenPrice

_NO_VERDICT = Response(text="")


def pending_requests(talk: Deliberation, responses: Mapping[str, Response]) -> list[Request]:
    """Return the requests that one verdict may still take, if no reply were a valid verdict.

    Args:
        talk: The deliberation of the task.
        responses: Stored responses by request key.

    Returns:
        The requests in order; empty if the verdict is available.
    """
    pending: list[Request] = []
    try:
        requests = next(talk)
        while True:
            replies = []
            for request in requests:
                if request.key not in responses:
                    pending.append(request)
                replies.append(responses.get(request.key, _NO_VERDICT))
            requests = talk.send(replies)
    except StopIteration:
        return pending


def estimate_cost(
    talks: Iterable[Sequence[Request]],
    price: TokenPrice | None = None,
    *,
    besides: Sequence[Request] = (),
) -> str:
    """Describe how many calls and tokens a judge model will need, and what they cost if a price is given.

    There are two figures. The likely one assumes that the first request of each verdict is enough; the maximum assumes
    that all are needed. Equal requests are sent once.

    Args:
        talks: For each verdict, the requests that it may take, in order.
        price: Price of a million input tokens and of a million output tokens.
        besides: Further requests that count towards the maximum.
    """
    likely_requests: dict[str, Request] = {}
    all_requests = {request.key: request for request in besides}
    for requests in talks:
        if requests:
            likely_requests[requests[0].key] = requests[0]
        for request in requests:
            all_requests[request.key] = request
    likely = estimate_tokens(list(likely_requests.values()))
    most = max_tokens_of(list(all_requests.values()))
    line = (
        f"about {likely.calls:,} calls with {likely.input_tokens:,} input and {likely.output_tokens:,} output tokens; at most "
        f"{most.calls:,} calls with {most.input_tokens:,} and {most.output_tokens:,} tokens"
    )
    if price is None:
        return line
    return f"{line}; likely {likely.cost(price):,.3g}, at most {_round_up(most.cost(price))} at the price given"


def _round_up(value: float) -> str:
    """Format a value with three digits, rounded up, so that a maximum is never understated."""
    if value <= 0:
        return "0"
    if value >= 1000:
        return f"{math.ceil(value):,}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    # The tolerance keeps a value that is already round from growing by a unit.
    return f"{math.ceil(value / unit - 1e-9) * unit:,.3g}"
