"""What a run would ask, without asking it: requests, pictures, tokens, and what they would cost at a given price."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from snellen.records import ContinuationScore, ImageRef, Request, Response, Usage
from snellen.runs.drivers import SampleItem, advance_item, cost_of
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import RunPlan
from snellen.runs.run_folder import holds_answers
from snellen.runs.spec import TokenPrice
from snellen.runs.work_items import work_items

METHOD = (
    "tokens are estimated: four letters count as one, a picture as width x height / 750 but at most 1,600, and a reply "
    "as the longest allowed; each model counts in its own way, pictures most of all"
)
Reply = Callable[[Request], Response]


class Amount(Struct, frozen=True):
    """Requests, and what is in them."""

    requests: int = 0
    pictures: int = 0
    read: int = 0
    written: int = 0

    def plus(self, request: Request) -> Amount:
        words = sum(likely_of_text(message.text) for message in request.messages)
        picture_tokens = sum(likely_of_picture(image) for image in request.images)
        # A likelihood is the prompt read once more with each continuation, or once for all where a server shares it.
        endings = sum(likely_of_text(text) for text in request.continuations)
        return Amount(
            self.requests + 1,
            self.pictures + len(request.images),
            self.read + words + picture_tokens + endings + TEMPLATE_TOKENS // 4,
            self.written + request.decoding.max_new_tokens,
        )


class Forecast(Struct, frozen=True):
    """What a run has yet to ask: at least, and at most where what its protocols ask depends on the replies."""

    model: str
    folder: str
    answered: int
    """Requests that were answered before."""
    least: Amount
    most: Amount

    def lines(self, price: TokenPrice | None) -> Iterator[str]:
        """For a reader."""
        yield f"{self.model}: {_range(self.least.requests, self.most.requests)} requests to ask, in {self.folder}"
        if self.answered:
            yield f"  {self.answered:,} were answered before and are not asked again"
        yield (
            f"  {_range(self.least.pictures, self.most.pictures)} pictures to send; "
            f"some {_range(self.least.read, self.most.read)} tokens to read, "
            f"at most {self.most.written:,} to write"
        )
        if price is not None:
            costs = [
                cost_of(Usage(amount.read, amount.written), price)
                for amount in (self.least, self.most)
            ]
            yield (
                "  "
                + " to ".join(dict.fromkeys(f"{cost:,.3g}" for cost in costs))
                + " at the price given"
            )
        yield f"  {METHOD}"


def forecast(plan: RunPlan) -> Forecast:
    """Go through a plan with two pretended models: one whose replies nothing can read, after which a protocol stops at
    its earliest, and one that always names the same option, after which it goes on to its end."""
    [model] = plan.question.models
    answered = _answered(plan)
    least, most = _amount_asked(plan, _unreadable, answered), _amount_asked(plan, _steady, answered)
    first, last = sorted((least, most), key=lambda amount: amount.requests)
    return Forecast(model, str(plan.folder), len(answered), first, last)


def is_answered(plan: RunPlan) -> bool:
    """Whether a run has all answers that its plan asks for, so that nothing is left but to score them."""
    answers = {
        e.request.key: e.response for e in read_exchanges(plan.folder) if e.response.error is None
    }
    try:
        for item in work_items(plan):
            for _ in _requests(item, lambda request: answers[request.key]):
                pass
    except KeyError:
        return False
    return True


def _answered(plan: RunPlan) -> Collection[str]:
    if not holds_answers(plan.folder):
        return ()
    return {
        exchange.request.key
        for exchange in read_exchanges(plan.folder)
        if exchange.response.error is None
    }


def _amount_asked(plan: RunPlan, reply: Reply, answered: Collection[str]) -> Amount:
    amount, keys = Amount(), set(answered)
    for item in work_items(plan):
        for request in _requests(item, reply):
            if request.key not in keys:
                keys.add(request.key)
                amount = amount.plus(request)
    return amount


def _requests(item: SampleItem, reply: Reply) -> Iterator[Request]:
    wave, responses = item.start(), list[Response]()
    while True:
        try:
            requests = advance_item(wave, responses)
        except StopIteration:
            return
        yield from requests
        responses = [reply(request) for request in requests]


def _unreadable(request: Request) -> Response:
    return _scored(request) if request.kind == "loglikelihood" else Response(text="")


def _steady(request: Request) -> Response:
    if request.kind == "loglikelihood":
        return _scored(request)
    order, labels = request.variant.order, request.variant.labels
    if not labels:
        return Response(text="a word")
    return Response(text=f"({labels[order.index(0) if order else 0]})")


def _scored(request: Request) -> Response:
    return Response(
        scores=tuple(ContinuationScore(-1.0 - i, 1, 1) for i in range(len(request.continuations)))
    )


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


# --- how many tokens requests are, before a model counts them ---------------------------------------------------------


TEMPLATE_TOKENS = 64
"""Most tokens that a chat template and its default system prompt add to a request of one message."""
PIXELS_A_TOKEN = 750
"""Pixels of a picture per token, by Anthropic's published rule. Models differ more here than for texts."""
MOST_OF_A_PICTURE = 1600
"""Most tokens of one picture: by that rule larger pictures are scaled down first."""


class RequestTokens(Struct, frozen=True):
    """Tokens of some requests."""

    calls: int
    read: int
    written: int

    def cost(self, price: TokenPrice) -> float:
        return cost_of(Usage(self.read, self.written), price)


def likely_tokens(requests: Sequence[Request]) -> RequestTokens:
    """An estimate: four ASCII characters are one token, any other character is one, and a reply uses its whole
    limit."""
    return _summed(requests, likely_of_text)


def most_tokens(requests: Sequence[Request]) -> RequestTokens:
    """A bound for texts: no tokeniser makes more tokens of a text than it has bytes."""
    return _summed(requests, lambda text: len(text.encode()), TEMPLATE_TOKENS)


def likely_of_text(text: str) -> int:
    """Four ASCII characters are one token, any other character is one."""
    plain = sum(map(str.isascii, text))
    return math.ceil(plain / 4) + len(text) - plain


def likely_of_picture(picture: ImageRef) -> int:
    """Width times height divided by 750, at most 1,600."""
    return min(math.ceil(picture.width * picture.height / PIXELS_A_TOKEN), MOST_OF_A_PICTURE)


def _summed(
    requests: Sequence[Request], tokens: Callable[[str], int], template: int = 0
) -> RequestTokens:
    prompt_tokens = sum(
        tokens(message.text) + template for request in requests for message in request.messages
    )
    return RequestTokens(
        len(requests), prompt_tokens, sum(request.decoding.max_new_tokens for request in requests)
    )
