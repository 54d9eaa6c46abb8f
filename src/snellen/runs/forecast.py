"""Estimate a run without sending anything: requests, images, tokens, and their cost at a given price."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from snellen.models.model_strings import says_batch
from snellen.records import (
    BATCH_HOURS,
    ContinuationScore,
    ImageRef,
    Request,
    Response,
    Usage,
    in_batch,
)
from snellen.runs.batch_ledger import open_keys
from snellen.runs.drivers import SampleItem, cost_of, next_requests
from snellen.runs.journal import read_exchanges
from snellen.runs.plan import RunPlan
from snellen.runs.run_folder import holds_answers
from snellen.runs.spec import TokenPrice
from snellen.runs.work_items import work_items

METHOD = (
    "token counts are estimates: one token for four letters, width x height / 750 for an image (at most 1,600), "
    "and the maximum length for a reply; models count differently, especially for images"
)
Reply = Callable[[Request], Response]


class Amount(Struct, frozen=True):
    """A number of requests, with their images and tokens."""

    requests: int = 0
    images: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, request: Request) -> Amount:
        """Add one request to an estimate of requests, images and tokens."""
        text_tokens = sum(likely_of_text(message.text) for message in request.messages)
        image_tokens = sum(likely_of_image(image) for image in request.images)
        # The prompt of a likelihood is counted once, although not every server shares it among continuations.
        continuation_tokens = sum(likely_of_text(text) for text in request.continuations)
        template_tokens = TEMPLATE_TOKENS // 4
        input_tokens = text_tokens + image_tokens + continuation_tokens + template_tokens
        return Amount(
            requests=self.requests + 1,
            images=self.images + len(request.images),
            input_tokens=self.input_tokens + input_tokens,
            output_tokens=self.output_tokens + request.decoding.max_new_tokens,
        )


class Forecast(Struct, frozen=True):
    """Requests that a run has yet to send, as a range if the number depends on the replies."""

    model: str
    folder: str
    answered: int
    """Requests answered in earlier sessions."""
    least: Amount
    most: Amount
    in_batches: int = 0
    """Requests in batches that were submitted earlier and have not ended."""

    @property
    def is_batched(self) -> bool:
        """Whether the model string has `batch=true`."""
        return says_batch(self.model)

    def lines(self, price: TokenPrice | None) -> Iterator[str]:
        """Yield the estimate as lines of text: requests, images, tokens and, if a price is given, the cost."""
        requests = _range(self.least.requests, self.most.requests)
        yield f"{self.model}: {requests} requests to send, in {self.folder}"
        if self.answered:
            yield f"  {self.answered:,} were answered earlier and are not sent again"
        if self.in_batches:
            yield f"  {self.in_batches:,} are in batches that were submitted earlier, and are not sent again"
        images = _range(self.least.images, self.most.images)
        input_tokens = _range(self.least.input_tokens, self.most.input_tokens)
        yield (
            f"  {images} images to send; about {input_tokens} input tokens, at most {self.most.output_tokens:,} "
            "output tokens"
        )
        if price is not None:
            costs: dict[str, None] = {}
            for amount in (self.least, self.most):
                usage = Usage(amount.input_tokens, amount.output_tokens)
                if self.is_batched:
                    usage = in_batch(usage)
                costs[f"{cost_of(usage, price):,.3g}"] = None
            price_text = "half the price given" if self.is_batched else "the price given"
            cache_note = "; no input is assumed to be cached" if len(price) > 2 else ""
            yield f"  {' to '.join(costs)} at {price_text}{cache_note}"
        if self.is_batched:
            yield (
                f"  sent in batches, which take up to {BATCH_HOURS} hours each; steps that depend on earlier replies take "
                "a batch each"
            )
        yield f"  {METHOD}"


def forecast_requests(plan: RunPlan) -> Forecast:
    """Estimate how many requests a run will send, without sending any.

    The plan is run with two simulated models. The replies of the first one cannot be read, so protocols end as early as
    possible. The second one always chooses the same option, so they continue to their end. These give the least and the
    greatest number.

    Examples:
        >>> from snellen.experiments.execution import plan_scored_run
        >>> from snellen.plugin_api import run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4}
        >>> plan = plan_scored_run(run_spec(fields).of_model())
        >>> forecast_requests(plan).most.requests
        4
    """
    [model] = plan.question.models
    submitted = open_keys(plan.folder)
    answered = _answered(plan)
    done = {*answered, *submitted}
    of_unreadable = _amount_asked(plan, _unreadable, done)
    of_steady = _amount_asked(plan, _respond_steadily, done)
    least, greatest = sorted((of_unreadable, of_steady), key=lambda amount: amount.requests)
    return Forecast(model, str(plan.folder), len(answered), least, greatest, len(submitted))


def is_answered(plan: RunPlan) -> bool:
    """Return whether a run has all replies that its plan needs, so that it can be scored."""
    answers = {
        exchange.request.key: exchange.response
        for exchange in read_exchanges(plan.folder)
        if exchange.response.error is None
    }
    try:
        for item in work_items(plan):
            for _ in _requests(item, lambda request: answers[request.key]):
                pass
    except KeyError:
        return False
    return True


def _answered(plan: RunPlan) -> Collection[str]:
    """Return the keys of the requests that the run's folder already has replies to."""
    if not holds_answers(plan.folder):
        return ()
    return {
        exchange.request.key
        for exchange in read_exchanges(plan.folder)
        if exchange.response.error is None
    }


def _amount_asked(plan: RunPlan, reply: Reply, answered: Collection[str]) -> Amount:
    """Return what a plan sends if every request gets the simulated reply, without the requests already answered."""
    amount = Amount()
    keys = set(answered)
    for item in work_items(plan):
        for request in _requests(item, reply):
            if request.key not in keys:
                keys.add(request.key)
                amount = amount.plus(request)
    return amount


def _requests(item: SampleItem, reply: Reply) -> Iterator[Request]:
    """Yield all requests of an item if every request gets the simulated reply."""
    wave = item.start()
    responses: list[Response] = []
    while True:
        try:
            requests = next_requests(wave, responses)
        except StopIteration:
            return
        yield from requests
        responses = [reply(request) for request in requests]


def _unreadable(request: Request) -> Response:
    return _scored(request) if request.kind == "loglikelihood" else Response(text="")


def _respond_steadily(request: Request) -> Response:
    """Return a simulated response that always names the same option."""
    if request.kind == "loglikelihood":
        return _scored(request)
    order = request.variant.order
    labels = request.variant.labels
    if not labels:
        return Response(text="a word")
    position = order.index(0) if order else 0
    return Response(text=f"({labels[position]})")


def _scored(request: Request) -> Response:
    """Return a simulated response to a request that scores options by likelihood: the first option is the likeliest."""
    scores = []
    for index in range(len(request.continuations)):
        scores.append(ContinuationScore(-1.0 - index, 1, 1))
    return Response(scores=tuple(scores))


def _range(least: int, most: int) -> str:
    """Return a range for a reader, such as "3 to 1,200", or one number if both are equal."""
    if least == most:
        return f"{least:,}"
    return f"{least:,} to {most:,}"


# --- how many tokens requests are, before a model counts them ---------------------------------------------------------


TEMPLATE_TOKENS = 64
"""Maximum tokens that a chat template and its default system prompt add to a request with one message."""
PIXELS_A_TOKEN = 750
"""Image pixels per token, by Anthropic's published rule. Models differ more in this than for text."""
MOST_OF_A_IMAGE = 1600
"""Maximum tokens of an image: by the same rule, larger images are scaled down first."""


class RequestTokens(Struct, frozen=True):
    """Number of requests, and their input and output tokens."""

    calls: int
    input_tokens: int
    output_tokens: int

    def cost(self, price: TokenPrice) -> float:
        return cost_of(Usage(self.input_tokens, self.output_tokens), price)


def likely_tokens(requests: Sequence[Request]) -> RequestTokens:
    """Estimate the tokens of requests: four ASCII characters or one other character per token, and the longest replies."""
    return _summed(requests, likely_of_text)


def most_tokens(requests: Sequence[Request]) -> RequestTokens:
    """Return an upper bound on the tokens of requests without images: a text has at most as many tokens as bytes."""
    return _summed(requests, lambda text: len(text.encode()), TEMPLATE_TOKENS)


def likely_of_text(text: str) -> int:
    """Estimate the tokens of a text: four ASCII characters are one token, any other character is one."""
    ascii_characters = sum(character.isascii() for character in text)
    other_characters = len(text) - ascii_characters
    return math.ceil(ascii_characters / 4) + other_characters


def likely_of_image(image: ImageRef) -> int:
    """Estimate the tokens of an image: width times height divided by 750, at most 1,600."""
    pixels = image.width * image.height
    return min(math.ceil(pixels / PIXELS_A_TOKEN), MOST_OF_A_IMAGE)


def _summed(
    requests: Sequence[Request], tokens_of_text: Callable[[str], int], template: int = 0
) -> RequestTokens:
    """Return the tokens of requests, with `template` tokens more for each message."""
    input_tokens = 0
    output_tokens = 0
    for request in requests:
        for message in request.messages:
            input_tokens += tokens_of_text(message.text) + template
        output_tokens += request.decoding.max_new_tokens
    return RequestTokens(len(requests), input_tokens, output_tokens)
