"""Drivers send the requests of active protocols to the models of a run, and return the responses.

`drive` serves models that answer batches: it keeps a window of active protocols, so that all presentations of an image
are sent together. `drive_async` (`snellen.runs.async_driver`) serves models behind a network, with many requests in
flight. If a run has both kinds, `drive` serves all of them. A request is sent to the model of its role.

Both drivers write each response to the store before its protocol receives it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol as Form

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.formats.shown_text import HALF_CHARACTERS, whole_characters
from snellen.models.base import AnswersInParts, Model, PrefetchesImages, failed
from snellen.protocols.base import Protocol, RequestGenerator, reject_duplicate_presentations
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import (
    BATCH_PRICE_SHARE,
    EVALUATED,
    IMPOSSIBLE,
    ContinuationScore,
    Exchange,
    Request,
    RequestKind,
    Response,
    Sample,
    Usage,
)
from snellen.runs.run_store import RunStore
from snellen.runs.spec import ExecutionSpec, TokenPrice

# --- limits on the requests, the time and the money of one session -----------------------------------------------------
# After a limit is reached, only requests that were already sent are still answered.


MILLION = 1_000_000


def cost_of(usage: Usage, price: TokenPrice) -> float:
    """Return the cost of some requests, in the currency of the price.

    Tokens of requests that were submitted in a batch cost half, including cached ones. `usage` may be a sum over
    several requests. The share of cached tokens is then assumed to be the same in batches and outside.

    Args:
        usage: The number of tokens.
        price: The price of a million input tokens and output tokens; optionally also of input tokens that were read
            from the provider's cache, and of those that were stored in it. Without these they cost as much as other
            input.
    """
    input_price = price[0]
    output_price = price[1]
    cached_price = price[2] if len(price) > 2 else input_price
    stored_price = price[3] if len(price) > 3 else input_price

    input_tokens = usage.prompt_tokens or 0
    cached_tokens = usage.cached_tokens or 0
    stored_tokens = usage.stored_tokens or 0
    other_tokens = max(0, input_tokens - cached_tokens - stored_tokens)
    input_cost = other_tokens * input_price
    input_cost += cached_tokens * cached_price
    input_cost += stored_tokens * stored_price
    batch_discount = 1 - BATCH_PRICE_SHARE
    if input_tokens:
        batch_share = (usage.batch_prompt_tokens or 0) / input_tokens
        input_cost *= 1 - batch_discount * batch_share

    output_tokens = usage.completion_tokens or 0
    batch_output_tokens = usage.batch_completion_tokens or 0
    output_cost = (output_tokens - batch_discount * batch_output_tokens) * output_price
    return (input_cost + output_cost) / MILLION


class BudgetUse(Struct, frozen=True):
    """The part of a session's budget that its earlier rounds used.

    An adaptive run has several rounds, each of which evaluates further questions.
    """

    requests: int = 0
    paid: float = 0.0
    seconds: float = 0.0


NO_BUDGET_USED = BudgetUse()


class RunBudget:
    """The limits on the requests, the time and the cost of a session, and what was used of them so far.

    Each of several worker processes has an equal share of the requests and of the cost.
    """

    def __init__(
        self,
        execution: ExecutionSpec,
        worker: int = 0,
        earlier: BudgetUse = NO_BUDGET_USED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compute the limits of one worker process.

        Args:
            execution: The limits of the session: requests, cost, and time in seconds.
            worker: Index of this worker; requests and cost are divided among all workers.
            earlier: What earlier rounds of the session used.
            clock: Returns the present time in seconds.
        """
        self._execution = execution
        self._clock = clock
        workers = execution.workers
        self._max_requests: int | None = None
        if execution.max_requests is not None:
            remaining = max(0, execution.max_requests - earlier.requests)
            share, rest = divmod(remaining, workers)
            self._max_requests = share + 1 if worker < rest else share
        self._max_cost: float | None = None
        if execution.max_cost is not None:
            self._max_cost = (execution.max_cost - earlier.paid) / workers
        self._deadline: float | None = None
        if execution.max_time is not None:
            self._deadline = clock() + execution.max_time - earlier.seconds
        self._n_sent = 0
        self._n_settled = 0
        """Requests that were answered or failed."""
        self._n_priced = 0
        """Responses with token counts, so that their cost is known."""
        self._n_unpriced = 0
        """Replies without token counts."""
        self.paid = 0.0
        """Cost of the replies so far, in the currency of the price."""
        self.exhausted_by = ""
        """The setting whose limit was reached, such as `--max-requests 100`; empty before that."""

    @property
    def is_limited(self) -> bool:
        """Whether the user set a limit on requests, cost or time."""
        limits = (self._max_requests, self._max_cost, self._deadline)
        return limits != (None, None, None)

    @property
    def price(self) -> TokenPrice | None:
        """Price per million input and output tokens, if it was given."""
        return self._execution.price

    def allow_request(self) -> bool:
        """Return whether another request may be sent. If so, it is counted as sent.

        Requests in flight and replies without token counts are charged the mean price of the other replies. If the
        first replies have no counts, no further request is allowed.
        """
        if not self.exhausted_by:
            self.exhausted_by = self._reached_limit()
        if self.exhausted_by:
            return False
        self._n_sent += 1
        return True

    def record_response(self, response: Response) -> None:
        """Record that a sent request was answered or failed, and add the cost of the response if it is known."""
        self._n_settled += 1
        if self._execution.price is None:
            return
        usage = response.usage
        if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
            if response.error is None:
                self._n_unpriced += 1
            return
        self._n_priced += 1
        self.paid += cost_of(usage, self._execution.price)

    def _reached_limit(self) -> str:
        """Return the setting that forbids another request, such as `--max-requests 100`; empty if none does."""
        if self._max_requests is not None and self._n_sent >= self._max_requests:
            return setting("max_requests", self._execution.max_requests)
        if self._deadline is not None and self._clock() >= self._deadline:
            return setting("max_time", self._execution.max_time)
        if self._max_cost is None:
            return ""

        max_cost_setting = setting("max_cost", self._execution.max_cost)
        if self._n_unpriced and not self._n_priced:
            return (
                f"{max_cost_setting}, which cannot be enforced because the replies have no token counts (use "
                f"{setting('max_requests')} instead)"
            )
        n_with_known_cost = self._n_settled - self._n_unpriced  # a failure costs nothing
        mean_cost = self.paid / n_with_known_cost if n_with_known_cost else 0.0
        n_with_unknown_cost = self._n_sent - n_with_known_cost
        n_with_next_request = n_with_unknown_cost + 1
        expected_cost = self.paid + mean_cost * n_with_next_request
        if self._max_cost <= 0 or expected_cost > self._max_cost:
            return max_cost_setting
        return ""


NO_BUDGET = RunBudget(ExecutionSpec())
"""Budget without limits."""


# --- the driver of models that answer lists of requests ----------------------------------------------------------------
# The requests that a protocol needs next, and that can be sent at the same time, are called a wave. A protocol is a
# generator: it yields a wave, and receives the responses to it.


REQUEST_KINDS: tuple[RequestKind, ...] = ("generate", "loglikelihood")


class WorkItem(Form):
    """A unit of work for a driver, such as a sample under a protocol.

    `start` returns a generator that yields waves of requests. The exchanges are stored under `label`.
    """

    @property
    def label(self) -> str: ...

    @property
    def images(self) -> Images: ...

    def start(self) -> RequestGenerator: ...


class SampleItem(Struct, frozen=True):
    """One sample under one protocol."""

    sample: Sample
    protocol: Protocol
    prompt: PromptRenderer
    images: Images
    history: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return self.protocol.label

    def start(self) -> RequestGenerator:
        return reject_duplicate_presentations(
            self.label, self.protocol.ask(self.sample, self.prompt, self.history)
        )


class ProgressUpdate(Struct, frozen=True):
    """What has happened after the last update: finished questions, sent requests, failures. For progress bars."""

    questions: int = 0
    """Questions that were finished."""
    requests: int = 0
    """Requests that were sent."""
    failures: int = 0
    """Requests that failed."""
    stored: int = 0
    """How many of `questions` sent no request, because all their replies were stored before."""


def progress_of_finished(item: WorkItem, *, is_stored: bool) -> ProgressUpdate:
    """Return the progress update that says that a unit of work is finished.

    Args:
        item: The unit of work, such as a sample under a protocol.
        is_stored: Whether all its replies were stored before, so that no request was sent.
    """
    n_questions = count_item_questions(item)
    return ProgressUpdate(questions=n_questions, stored=n_questions if is_stored else 0)


def progress_since(store: RunStore, before: tuple[int, int]) -> ProgressUpdate:
    """Return how many requests were sent, and how many of them failed, after an earlier moment.

    Args:
        store: The store of the run's requests and responses. It counts a request that fails again only once.
        before: Its `counts` at that moment: the number of requests, and of those that failed.
    """
    requests_before, failures_before = before
    requests, failures = store.counts
    return ProgressUpdate(requests=requests - requests_before, failures=failures - failures_before)


ProgressCallback = Callable[[ProgressUpdate], object]


class ActiveItem:
    """A unit of work in progress: the requests that it needs now, and their responses so far.

    A unit of work is, for example, a sample under a protocol.
    """

    def __init__(self, item: WorkItem) -> None:
        """Start a unit of work, such as a sample under a protocol. The first call of `advance` gets its requests."""
        self.item = item
        self.label = item.label
        self._generator = item.start()
        self.requests: list[Request] = []
        self.responses: list[Response | None] = []
        """The response to each of `requests`; None if it is missing."""

    def advance(self, store: RunStore) -> bool:
        """Get the next requests of the protocol, until one of them has no response in the store.

        Returns:
            Whether a response is missing. False means that the protocol has ended.
        """
        while None not in self.responses:
            responses = [response for response in self.responses if response is not None]
            try:
                self.requests = next_requests(self._generator, responses)
            except StopIteration:
                return False
            self.responses = [store.find(self.label, request) for request in self.requests]
        return True

    def missing_indices(self) -> list[int]:
        """Return the indices of the requests without a response."""
        indices = []
        for index, response in enumerate(self.responses):
            if response is None:
                indices.append(index)
        return indices


def count_item_questions(item: WorkItem) -> int:
    """Return the number of questions in a unit of work; each turn of a dialogue is a question."""
    if isinstance(item, SampleItem):
        return len(item.sample.rounds)
    return 1


def next_requests(generator: RequestGenerator, responses: list[Response]) -> list[Request]:
    """Return the next requests of a protocol.

    Args:
        generator: The protocol, as a generator of lists of requests.
        responses: The responses to its last requests; empty at the start.

    Raises:
        StopIteration: The protocol needs no further requests.
    """
    if not responses:
        return next(generator)
    return generator.send(responses)


def drive(
    model: Model,
    items: Iterator[WorkItem],
    store: RunStore,
    *,
    roles: Mapping[str, Model] = MappingProxyType({}),
    window: int = 0,
    budget: RunBudget = NO_BUDGET,
    progress: ProgressCallback = lambda update: None,
) -> None:
    """Run all items with models that answer batches.

    Args:
        model: The evaluated model.
        items: The items to run.
        store: Stores the responses.
        roles: The other models, by role.
        window: Requests to collect before any is sent; 0 for the batch size of the model.
        budget: Limits the requests to send.
        progress: Receives updates.

    Raises:
        ModelError: A model is unusable. Replies that arrived before are stored.
    """
    models = {EVALUATED: model, **roles}
    window = window or model.batch_size
    if isinstance(model, PrefetchesImages):
        items = announce_images(items, model, window)
    unfinished: list[ActiveItem] = []
    n_waiting_requests = 0
    for item in items:
        active = ActiveItem(item)
        if active.advance(store):
            unfinished.append(active)
            n_waiting_requests += len(active.missing_indices())
        else:
            progress(progress_of_finished(item, is_stored=True))
        if n_waiting_requests >= window:
            unfinished = _send_waves(models, unfinished, store, budget, progress)
            n_waiting_requests = sum(len(active.missing_indices()) for active in unfinished)
        if budget.exhausted_by:
            return
    while unfinished and not budget.exhausted_by:
        unfinished = _send_waves(models, unfinished, store, budget, progress)


def announce_images(
    items: Iterator[WorkItem], model: PrefetchesImages, ahead: int
) -> Iterator[WorkItem]:
    """Yield units of work in their order, and tell the model in advance which images will be needed.

    Args:
        items: The units of work, such as samples.
        model: A model that can load images in advance.
        ahead: How many units of work in advance.
    """
    upcoming: deque[WorkItem] = deque()
    for item in items:
        if isinstance(item, SampleItem):
            model.expect(item.sample.images, item.images)
        upcoming.append(item)
        if len(upcoming) > ahead:
            yield upcoming.popleft()
    yield from upcoming


def _send_waves(
    models: Mapping[str, Model],
    active_items: list[ActiveItem],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> list[ActiveItem]:
    """Send the requests that units of work need next, and store the responses.

    Requests are sent together if they are for the same model, of the same kind, and with the same source of images.

    Args:
        models: The model in each role.
        active_items: The units of work, such as samples that are being evaluated.
        store: Stores the responses.
        budget: Stops sending when one of its limits is reached.
        progress: Is called for each finished unit of work.

    Returns:
        The units of work that need further requests.
    """
    waiting: dict[tuple[str, RequestKind], list[tuple[ActiveItem, int]]] = {}
    for role in models:
        for kind in REQUEST_KINDS:
            waiting[role, kind] = []
    for active in active_items:
        for index in active.missing_indices():
            request = active.requests[index]
            role = checked_role(request.role, models)
            waiting[role, request.kind].append((active, index))

    def source_of_images(item_and_index: tuple[ActiveItem, int]) -> int:
        active, _ = item_and_index
        return id(active.item.images)

    for (role, kind), items_and_indices in waiting.items():
        for _, group in itertools.groupby(items_and_indices, key=source_of_images):
            send_together(models[role], kind, list(group), store, budget, progress)

    unfinished = []
    for active in active_items:
        if active.advance(store):
            unfinished.append(active)
        else:
            progress(progress_of_finished(active.item, is_stored=False))
    return unfinished


def checked_role(role: str, models: Mapping[str, object]) -> str:
    """Return the role unchanged. Raises ModelError if no model has the role."""
    if role not in models:
        raise ModelError(
            f"no model has the role {role}; the protocol that uses the role must declare it in `roles`"
        )
    return role


def send_together(
    model: Model,
    kind: RequestKind,
    waiting: list[tuple[ActiveItem, int]],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> None:
    """Send requests to a model in one call, store the responses, and pass them to the units of work.

    A model may return its responses in parts. Each part is stored at once, so that an error in a
    later part loses none of them. If several requests are equal, only the first is sent, and its
    response is used for all. Requests that the budget does not allow are not sent, and get no
    response.

    Args:
        model: The model of the requests' role.
        kind: Kind of all requests.
        waiting: The requests, each as a unit of work and the index of the request in it. All have the same source of
            images.
        store: Stores the responses.
        budget: Limits the requests to send.
        progress: Receives an update.
    """
    identities = [store.identity(active.requests[index]) for active, index in waiting]
    first_with_identity: dict[bytes, tuple[ActiveItem, int]] = {}
    for item_and_index, identity in zip(waiting, identities, strict=True):
        first_with_identity.setdefault(identity, item_and_index)
    sent = []
    for item_and_index in first_with_identity.values():
        if budget.allow_request():
            sent.append(item_and_index)
    if not sent:
        return
    requests = [active.requests[index] for active, index in sent]
    first_active, _ = waiting[0]
    response_by_identity = {}
    for part in answers_in_parts(model, kind, requests, first_active.item.images):
        counts_before = store.counts
        exchanges = []
        for index, response in part.items():
            active, _ = sent[index]
            exchanges.append(Exchange(active.label, requests[index], response))
            response_by_identity[store.identity(requests[index])] = response
        store.append(exchanges)
        for response in part.values():
            budget.record_response(response)
        progress(progress_since(store, counts_before))

    counts_before = store.counts
    for (active, index), identity in zip(waiting, identities, strict=True):
        shared = response_by_identity.get(identity)
        if shared is None:  # the budget did not allow the request
            continue
        was_sent_itself = first_with_identity[identity] == (active, index)
        if not was_sent_itself:
            shared = store.share(active.label, active.requests[index], shared)
        active.responses[index] = shared
    progress(progress_since(store, counts_before))


def answers_in_parts(
    model: Model, kind: RequestKind, requests: list[Request], images: Images
) -> Iterator[dict[int, Response]]:
    """Yield the checked responses to some requests, as soon as the model has them.

    Each part is a dictionary from the index of a request to its response. Most models return all
    responses at once.

    Args:
        model: The model.
        kind: Whether the requests are for generated replies or for log-likelihoods.
        requests: The requests.
        images: The source of their images.

    Raises:
        ModelError: The model did not return one `Response` per request.
    """
    if kind != "generate" or not isinstance(model, AnswersInParts):
        responses = answer_batch(model, kind, requests, images)
        yield dict(enumerate(responses))
        return
    for part in model.generate_in_parts(requests, images):
        checked = {}
        for index, response in part.items():
            checked[index] = check_response(requests[index], response)
        yield checked


def answer_batch(
    model: Model, kind: RequestKind, requests: list[Request], images: Images
) -> list[Response]:
    """Send requests of one kind to a model in one call, and return the checked responses in the same order.

    A response that does not answer its request is replaced by a failure (`check_response`).

    Args:
        model: The model.
        kind: Whether the requests are for generated replies or for log-likelihoods.
        requests: The requests.
        images: The source of their images.

    Raises:
        ModelError: The model did not return one `Response` per request.
    """
    ask = model.generate if kind == "generate" else model.loglikelihood
    responses = list(ask(requests, images))
    if len(responses) != len(requests):
        raise ModelError(
            f"{model.name} gave {len(responses)} responses to {len(requests)} requests"
        )
    for response in responses:
        if not isinstance(response, Response):
            raise ModelError(
                f"{model.name} replied {response!r}; a reply has to be a text, or a Response"
            )
    return [
        check_response(request, response)
        for request, response in zip(requests, responses, strict=True)
    ]


def check_response(request: Request, response: Response) -> Response:
    """Return the response of a model, or a failure if it does not answer the request.

    A generated reply must have a text. A request that scores options must have one log-likelihood per option
    (continuation). Log-likelihoods of options with a probability of zero are stored as `IMPOSSIBLE`.
    """
    if response.error is not None:
        return response
    if request.kind == "generate":
        if response.text is None:
            return failed("model", "the model gave no text")
        return _with_whole_characters(response, response.text)

    if len(response.scores) != len(request.continuations):
        return failed(
            "model",
            f"the model gave {len(response.scores)} scores for {len(request.continuations)} continuations",
        )
    invalid = _invalid_log_likelihoods(response.scores)
    if invalid:
        return failed("model", f"the model gave {invalid[0]} for a log-likelihood")
    if not any(score.is_impossible for score in response.scores):
        return response
    scores: list[ContinuationScore] = []
    for score in response.scores:
        if score.is_impossible:
            scores.append(replace(score, sum=IMPOSSIBLE))
        else:
            scores.append(score)
    return replace(response, scores=tuple(scores))


def _invalid_log_likelihoods(scores: Sequence[ContinuationScore]) -> list[float]:
    """Return the scores of options that cannot be log-likelihoods: NaN and plus infinity.

    A single option may have a probability of zero, which is a log-likelihood of minus infinity. If every option has,
    the scores are wrong, and all of them are returned.
    """
    log_likelihoods = [score.sum for score in scores]
    if all(score.is_impossible for score in scores):
        return log_likelihoods
    invalid = []
    for value in log_likelihoods:
        if math.isnan(value) or value == math.inf:
            invalid.append(value)
    return invalid


def _with_whole_characters(response: Response, text: str) -> Response:
    """Return a response with the unpaired surrogates (half characters) in its text replaced.

    UTF-8 files cannot contain them. The response gets a note that says that they were replaced.

    Args:
        response: The response.
        text: Its text.
    """
    storable_text = whole_characters(text)
    if storable_text == text:
        return response
    return replace(response, text=storable_text, notes=(*response.notes, HALF_CHARACTERS))
