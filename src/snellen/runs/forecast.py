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

ESTIMATE_NOTE = (
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
        """Return this amount with one more request. Its tokens are estimated from its texts and the sizes of its images."""
        input_tokens = TEMPLATE_TOKENS // 4
        for message in request.messages:
            input_tokens += estimate_text_tokens(message.text)
        for image in request.images:
            input_tokens += estimate_image_tokens(image)
        # A request that scores options has one prompt for all of them. It is counted once, although some servers
        # process it again for each option (continuation).
        for continuation in request.continuations:
            input_tokens += estimate_text_tokens(continuation)
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
        requests = _format_range(self.least.requests, self.most.requests)
        yield f"{self.model}: {requests} requests to send, in {self.folder}"
        if self.answered:
            yield f"  {self.answered:,} were answered earlier and are not sent again"
        if self.in_batches:
            yield f"  {self.in_batches:,} are in batches that were submitted earlier, and are not sent again"
        images = _format_range(self.least.images, self.most.images)
        input_tokens = _format_range(self.least.input_tokens, self.most.input_tokens)
        yield (
            f"  {images} images to send; about {input_tokens} input tokens, at most {self.most.output_tokens:,} "
            "output tokens"
        )
        if price is not None:
            least_cost = self._cost(self.least, price)
            greatest_cost = self._cost(self.most, price)
            cost = least_cost if least_cost == greatest_cost else f"{least_cost} to {greatest_cost}"
            price_text = "half the price given" if self.is_batched else "the price given"
            cache_note = "; no input is assumed to be cached" if len(price) > 2 else ""
            yield f"  {cost} at {price_text}{cache_note}"
        if self.is_batched:
            yield (
                f"  sent in batches, which take up to {BATCH_HOURS} hours each; steps that depend on earlier replies take "
                "a batch each"
            )
        yield f"  {ESTIMATE_NOTE}"

    def _cost(self, amount: Amount, price: TokenPrice) -> str:
        """Return the cost of an amount of requests, with three digits. In batches, tokens cost half."""
        usage = Usage(amount.input_tokens, amount.output_tokens)
        if self.is_batched:
            usage = in_batch(usage)
        return f"{cost_of(usage, price):,.3g}"


def forecast_requests(plan: RunPlan) -> Forecast:
    """Estimate how many requests a run will send, as a range, without sending any.

    The plan is run with two simulated models. The replies of the first one cannot be read, so protocols end as early as
    possible. The second one always chooses the same option, so that protocols continue to their end. The smaller of the
    two numbers of requests is the least that the run can send, and the larger one the most.

    Examples:
        >>> from snellen.experiments.execution import plan_scored_run
        >>> from snellen.plugin_api import run_spec
        >>> fields = {"models": ["snellen:oracle"], "benchmarks": ["eyechart/colour"], "limit": 4}
        >>> plan = plan_scored_run(run_spec(fields).of_model())
        >>> forecast_requests(plan).most.requests
        4
    """
    [model] = plan.question.models
    keys_in_batches = open_keys(plan.folder)
    answered_keys = _answered_keys(plan)
    keys_not_to_send = {*answered_keys, *keys_in_batches}
    with_unreadable_replies = _simulate(plan, _reply_unreadably, keys_not_to_send)
    with_constant_replies = _simulate(plan, _reply_constantly, keys_not_to_send)
    least = with_unreadable_replies
    most = with_constant_replies
    if most.requests < least.requests:
        least, most = most, least
    return Forecast(
        model,
        str(plan.folder),
        answered=len(answered_keys),
        least=least,
        most=most,
        in_batches=len(keys_in_batches),
    )


def is_answered(plan: RunPlan) -> bool:
    """Return whether a run has all replies that its plan needs, so that it can be scored."""
    stored_replies: dict[str, Response] = {}
    for exchange in read_exchanges(plan.folder):
        if exchange.response.error is None:
            stored_replies[exchange.request.key] = exchange.response

    def stored_reply(request: Request) -> Response:
        return stored_replies[request.key]

    try:
        for item in work_items(plan):
            for _ in _simulated_requests(item, stored_reply):
                pass  # a request without a stored reply raises KeyError
    except KeyError:
        return False
    return True


def _answered_keys(plan: RunPlan) -> Collection[str]:
    """Return the keys of the requests that the run's folder already has replies to."""
    if not holds_answers(plan.folder):
        return ()
    keys = set()
    for exchange in read_exchanges(plan.folder):
        if exchange.response.error is None:
            keys.add(exchange.request.key)
    return keys


def _simulate(plan: RunPlan, reply: Reply, keys_not_to_send: Collection[str]) -> Amount:
    """Return how many requests a plan sends, and their images and tokens, if a simulated model answers them.

    Args:
        plan: The plan of the run.
        reply: Returns the simulated response to a request.
        keys_not_to_send: Keys of the requests that are not counted, because they were answered or submitted before.
    """
    amount = Amount()
    counted_keys = set(keys_not_to_send)
    for item in work_items(plan):
        for request in _simulated_requests(item, reply):
            if request.key not in counted_keys:
                counted_keys.add(request.key)
                amount = amount.plus(request)
    return amount


def _simulated_requests(item: SampleItem, reply: Reply) -> Iterator[Request]:
    """Yield all requests that a sample needs under a protocol, if `reply` gives the responses."""
    generator = item.start()
    responses: list[Response] = []
    while True:
        try:
            requests = next_requests(generator, responses)
        except StopIteration:
            return
        yield from requests
        responses = [reply(request) for request in requests]


def _reply_unreadably(request: Request) -> Response:
    """Return a simulated response without text; for a request that scores options, a response with scores."""
    if request.kind == "loglikelihood":
        return _score_options(request)
    return Response(text="")


def _reply_constantly(request: Request) -> Response:
    """Return a simulated response that names the first option of the question, in whatever order options are shown."""
    if request.kind == "loglikelihood":
        return _score_options(request)
    labels = request.variant.labels
    if not labels:  # an open question
        return Response(text="a word")
    order = request.variant.order
    position_of_first_option = order.index(0) if order else 0
    return Response(text=f"({labels[position_of_first_option]})")


def _score_options(request: Request) -> Response:
    """Return a simulated response to a request that scores options by likelihood: the first option is the likeliest."""
    scores = []
    for index in range(len(request.continuations)):
        log_likelihood = -1.0 - index
        scores.append(ContinuationScore(log_likelihood, tokens=1, bytes=1))
    return Response(scores=tuple(scores))


def _format_range(least: int, most: int) -> str:
    """Return a range for a reader, such as "3 to 1,200", or one number if both are equal."""
    if least == most:
        return f"{least:,}"
    return f"{least:,} to {most:,}"


# --- estimates of the number of tokens, for models that have not counted them yet --------------------------------------


TEMPLATE_TOKENS = 64
"""Maximum tokens that a chat template and its default system prompt add to a request with one message."""
PIXELS_PER_TOKEN = 750
"""Image pixels per token, by Anthropic's published rule. Models differ more in this than for text."""
MAX_IMAGE_TOKENS = 1600
"""Maximum tokens of an image: by the same rule, larger images are scaled down first."""


class RequestTokens(Struct, frozen=True):
    """Number of requests, and their input and output tokens."""

    calls: int
    input_tokens: int
    output_tokens: int

    def cost(self, price: TokenPrice) -> float:
        return cost_of(Usage(self.input_tokens, self.output_tokens), price)


def estimate_tokens(requests: Sequence[Request]) -> RequestTokens:
    """Estimate the tokens of requests without images, assuming that each reply has the maximum length.

    Four ASCII characters are counted as one token, and so is any other character.
    """
    return _count_tokens(requests, estimate_text_tokens)


def max_tokens_of(requests: Sequence[Request]) -> RequestTokens:
    """Return an upper bound on the tokens of requests without images: a text has at most as many tokens as bytes."""
    return _count_tokens(requests, lambda text: len(text.encode()), TEMPLATE_TOKENS)


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of a text: four ASCII characters are one token, any other character is one."""
    ascii_characters = sum(character.isascii() for character in text)
    other_characters = len(text) - ascii_characters
    return math.ceil(ascii_characters / 4) + other_characters


def estimate_image_tokens(image: ImageRef) -> int:
    """Estimate the tokens of an image: width times height divided by 750, at most 1,600."""
    pixels = image.width * image.height
    return min(math.ceil(pixels / PIXELS_PER_TOKEN), MAX_IMAGE_TOKENS)


def _count_tokens(
    requests: Sequence[Request], tokens_of_text: Callable[[str], int], tokens_per_message: int = 0
) -> RequestTokens:
    """Return the number of requests, and the tokens of their texts and of replies of the maximum length.

    Args:
        requests: The requests.
        tokens_of_text: Returns the number of tokens of a text.
        tokens_per_message: Tokens that are added for each message, for what a chat template puts around it.
    """
    input_tokens = 0
    output_tokens = 0
    for request in requests:
        for message in request.messages:
            input_tokens += tokens_of_text(message.text) + tokens_per_message
        output_tokens += request.decoding.max_new_tokens
    return RequestTokens(len(requests), input_tokens, output_tokens)
