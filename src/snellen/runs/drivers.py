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
from snellen.models.base import Model, PrefetchesImages, failed
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

# --- what one call of a run may take: requests, time, money -----------------------------------------------------------
# Once it is spent, only requests already on their way are still answered.


MILLION = 1_000_000


def cost_of(usage: Usage, price: TokenPrice) -> float:
    """Return the cost of some requests, in the currency of the price.

    Tokens in batches cost half, including cached ones. In a sum over requests, the share of cached tokens is assumed to
    be the same in batches and outside.

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
    cached = usage.cached_tokens or 0
    stored = usage.stored_tokens or 0
    other = max(0, input_tokens - cached - stored)
    input_cost = other * input_price + cached * cached_price + stored * stored_price

    discount = 1 - BATCH_PRICE_SHARE
    if input_tokens:
        batch_share = (usage.batch_prompt_tokens or 0) / input_tokens
        input_cost *= 1 - discount * batch_share
    output_tokens = usage.completion_tokens or 0
    batch_output_tokens = usage.batch_completion_tokens or 0
    output_cost = (output_tokens - discount * batch_output_tokens) * output_price
    return (input_cost + output_cost) / MILLION


class BudgetUse(Struct, frozen=True):
    """The part of the budget that earlier rounds of a call used."""

    requests: int = 0
    paid: float = 0.0
    seconds: float = 0.0


NO_BUDGET_USED = BudgetUse()


class RunBudget:
    """Counts requests as they are sent and answered. Each of several workers has an equal share."""

    def __init__(
        self,
        execution: ExecutionSpec,
        worker: int = 0,
        earlier: BudgetUse = NO_BUDGET_USED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compute what is left to use for one worker of a run.

        Args:
            execution: The limits of the whole run: requests, cost, and time in seconds.
            worker: Number of this worker; requests and cost are divided among all workers.
            earlier: What earlier sessions of the run used.
            clock: The present time in seconds.
        """
        self._execution = execution
        self._clock = clock
        workers = execution.workers
        self._requests: int | None = None
        if execution.max_requests is not None:
            remaining = max(0, execution.max_requests - earlier.requests)
            share, rest = divmod(remaining, workers)
            self._requests = share + 1 if worker < rest else share
        self._cost: float | None = None
        if execution.max_cost is not None:
            self._cost = (execution.max_cost - earlier.paid) / workers
        self._ends: float | None = None
        if execution.max_time is not None:
            self._ends = clock() + execution.max_time - earlier.seconds
        self._taken = self._answered = self._counted = self._uncounted = 0
        self.paid = 0.0
        """Cost of the replies so far, in the currency of the price."""
        self.spent = ""
        """The setting whose budget is used up, as text; empty before that."""

    @property
    def is_limited(self) -> bool:
        return (self._requests, self._cost, self._ends) != (None, None, None)

    @property
    def price(self) -> TokenPrice | None:
        """Price per million input and output tokens, if it was given."""
        return self._execution.price

    def take(self) -> bool:
        """Count one more request as sent, and return True, or return False if the budget does not allow it.

        Requests in flight and replies without token counts are charged the mean price of the other replies. If the
        first replies have no counts, no further request is allowed.
        """
        if not self.spent:
            self.spent = self._reason()
        if self.spent:
            return False
        self._taken += 1
        return True

    def settle(self, response: Response) -> None:
        """Record that a sent request was answered or failed."""
        self._answered += 1
        if self._execution.price is None:
            return
        usage = response.usage
        if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
            self._uncounted += response.error is None
        else:
            self._counted += 1
            self.paid += cost_of(usage, self._execution.price)

    def _reason(self) -> str:
        """Return the setting that forbids to send another request, such as `--max-requests 100`; empty if none does."""
        if self._requests is not None and self._taken >= self._requests:
            return setting("max_requests", self._execution.max_requests)
        if self._ends is not None and self._clock() >= self._ends:
            return setting("max_time", self._execution.max_time)
        if self._cost is not None:
            if self._uncounted and not self._counted:
                return (
                    f"{setting('max_cost', self._execution.max_cost)}, which cannot be enforced because the replies have "
                    f"no token counts (use {setting('max_requests')} instead)"
                )
            answered = self._answered - self._uncounted  # a failure costs nothing
            mean_cost = self.paid / answered if answered else 0.0
            n_unpaid = self._taken - answered + 1  # with the next request
            expected_cost = self.paid + mean_cost * n_unpaid
            if self._cost <= 0 or expected_cost > self._cost:
                return setting("max_cost", self._execution.max_cost)
        return ""


NO_BUDGET = RunBudget(ExecutionSpec())
"""Budget without limits."""


# --- one driver -------------------------------------------------------------------------------------------------------


REQUEST_KINDS: tuple[RequestKind, ...] = ("generate", "loglikelihood")


class WorkItem(Form):
    """Work for a driver: waves of requests whose exchanges are stored under a label."""

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
    """Counts since the last update, for progress bars."""

    questions: int = 0
    """Finished questions."""
    requests: int = 0
    failures: int = 0
    stored: int = 0
    """Questions of `questions` whose replies were all stored before."""


def finished_questions(item: WorkItem, *, is_stored: bool) -> ProgressUpdate:
    """Return the update for a finished item.

    Args:
        item: The item.
        is_stored: Whether all its replies were stored before, so that nothing was asked.
    """
    questions = questions_of(item)
    return ProgressUpdate(questions=questions, stored=questions if is_stored else 0)


def sent_since(store: RunStore, before: tuple[int, int]) -> ProgressUpdate:
    """Return how many requests were sent and how many failed since an earlier moment.

    Args:
        store: The store of the run's requests. It counts a request that fails again only once.
        before: Its counts of requests and failures at that moment.
    """
    requests_before, failures_before = before
    requests, failures = store.counts
    return ProgressUpdate(requests=requests - requests_before, failures=failures - failures_before)


ProgressCallback = Callable[[ProgressUpdate], object]


class ActiveItem:
    """An item in progress: its current requests, and their responses so far."""

    def __init__(self, item: WorkItem) -> None:
        """Start a unit of work, such as a sample under a protocol. Its first requests are fetched separately."""
        self.item = item
        self.label = item.label
        self._wave = item.start()
        self.requests: list[Request] = []
        self.responses: list[Response | None] = []

    def advance(self, store: RunStore) -> bool:
        """Advance until a response is missing; returns False if the protocol has ended."""
        while None not in self.responses:
            responses = [response for response in self.responses if response is not None]
            try:
                self.requests = advance_item(self._wave, responses)
            except StopIteration:
                return False
            self.responses = [store.find(self.label, request) for request in self.requests]
        return True

    def missing(self) -> list[int]:
        """Return the indices of the requests without a response."""
        indices = []
        for index, response in enumerate(self.responses):
            if response is None:
                indices.append(index)
        return indices


def questions_of(item: WorkItem) -> int:
    """Return the number of questions in an item; each turn of a dialogue is a question."""
    if isinstance(item, SampleItem):
        return len(item.sample.rounds)
    return 1


def advance_item(wave: RequestGenerator, responses: list[Response]) -> list[Request]:
    """Return the next requests of a protocol, given the responses to its last requests (none at the start)."""
    if not responses:
        return next(wave)
    return wave.send(responses)


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
    live: list[ActiveItem] = []
    waiting = 0
    for item in items:
        active = ActiveItem(item)
        if active.advance(store):
            live.append(active)
            waiting += len(active.missing())
        else:
            progress(finished_questions(item, is_stored=True))
        if waiting >= window:
            live = _serve(models, live, store, budget, progress)
            waiting = sum(len(active.missing()) for active in live)
        if budget.spent:
            return
    while live and not budget.spent:
        live = _serve(models, live, store, budget, progress)


def announce_images(
    items: Iterator[WorkItem], model: PrefetchesImages, ahead: int
) -> Iterator[WorkItem]:
    """Yield units of work in their order, and tell the model in advance which images will be needed.

    Args:
        items: The units of work, such as samples.
        model: A model that can load images in advance.
        ahead: How many units of work in advance.
    """
    coming: deque[WorkItem] = deque()
    for item in items:
        if isinstance(item, SampleItem):
            model.expect(item.sample.images, item.images)
        coming.append(item)
        if len(coming) > ahead:
            yield coming.popleft()
    yield from coming


def _serve(
    models: Mapping[str, Model],
    live: list[ActiveItem],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> list[ActiveItem]:
    """Send the next requests of all samples that are being evaluated, and store the responses.

    Requests are sent together if they are for the same model, of the same kind, and with the same source of images.

    Args:
        models: The model in each role.
        live: The samples.
        store: Stores the responses.
        budget: Stops sending when it is spent.
        progress: Is called for each finished sample.

    Returns:
        The samples that need further requests.
    """
    waiting: dict[tuple[str, RequestKind], list[tuple[ActiveItem, int]]] = {}
    for role in models:
        for kind in REQUEST_KINDS:
            waiting[role, kind] = []
    for active in live:
        for index in active.missing():
            request = active.requests[index]
            role = played_role(request.role, models)
            waiting[role, request.kind].append((active, index))

    def source_of_images(pair: tuple[ActiveItem, int]) -> int:
        active, _ = pair
        return id(active.item.images)

    for (role, kind), pairs in waiting.items():
        for _, group in itertools.groupby(pairs, key=source_of_images):
            ask_together(models[role], kind, list(group), store, budget, progress)
    unfinished = []
    for active in live:
        if active.advance(store):
            unfinished.append(active)
        else:
            progress(finished_questions(active.item, is_stored=False))
    return unfinished


def played_role(role: str, models: Mapping[str, object]) -> str:
    """Return the role unchanged. Raises ModelError if no model has the role."""
    if role not in models:
        raise ModelError(
            f"no model has the role {role}; the protocol that uses the role must declare it in `roles`"
        )
    return role


def ask_together(
    model: Model,
    kind: RequestKind,
    waiting: list[tuple[ActiveItem, int]],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> None:
    """Send each distinct request once, as far as the budget allows, and share its response with equal requests.

    Args:
        model: The model of the requests' role.
        kind: Kind of all requests.
        waiting: Items with the index of a request, all with the same source of images.
        store: Stores the responses.
        budget: Limits the requests to send.
        progress: Receives an update.
    """
    identities = [store.identity(active.requests[index]) for active, index in waiting]
    # The first item and index of each distinct request.
    first: dict[bytes, tuple[ActiveItem, int]] = {}
    for pair, identity in zip(waiting, identities, strict=True):
        first.setdefault(identity, pair)
    sent = [pair for pair in first.values() if budget.take()]
    if not sent:
        return
    requests = [active.requests[index] for active, index in sent]
    images = waiting[0][0].item.images
    responses = answer_batch(model, kind, requests, images)

    before = store.counts
    exchanges = []
    response_by_identity = {}
    for (active, _), request, response in zip(sent, requests, responses, strict=True):
        exchanges.append(Exchange(active.label, request, response))
        response_by_identity[store.identity(request)] = response
    store.append(exchanges)
    for response in responses:
        budget.settle(response)
    for (active, index), identity in zip(waiting, identities, strict=True):
        shared = response_by_identity.get(identity)
        if shared is None:
            continue
        if first[identity] != (active, index):
            shared = store.share(active.label, active.requests[index], shared)
        active.responses[index] = shared
    progress(sent_since(store, before))


def answer_batch(
    model: Model, kind: RequestKind, requests: list[Request], images: Images
) -> list[Response]:
    """Return checked responses to requests of one kind. Raises ModelError if their number or type is wrong."""
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
    """Return the response, or a failure if it does not answer the request."""
    if response.error is not None:
        return response
    if request.kind == "generate":
        if response.text is None:
            return failed("model", "the model gave no text")
        return _readable(response, response.text)

    if len(response.scores) != len(request.continuations):
        return failed(
            "model",
            f"the model gave {len(response.scores)} scores for {len(request.continuations)} continuations",
        )
    invalid = _no_log_likelihoods(response.scores)
    if invalid:
        return failed("model", f"the model gave {invalid[0]} for a log-likelihood")
    if not any(score.is_impossible for score in response.scores):
        return response
    scores: list[ContinuationScore] = []
    for score in response.scores:
        scores.append(replace(score, sum=IMPOSSIBLE) if score.is_impossible else score)
    return replace(response, scores=tuple(scores))


def _no_log_likelihoods(scores: Sequence[ContinuationScore]) -> list[float]:
    """Return the scores of options that cannot be log-likelihoods: NaN and plus infinity.

    If every option has a probability of zero (minus infinity), something is wrong, and all scores are returned.
    """
    sums = [score.sum for score in scores]
    if all(score.is_impossible for score in scores):
        return sums
    return [value for value in sums if math.isnan(value) or value == math.inf]


def _readable(response: Response, text: str) -> Response:
    """Return the response with lone surrogates in its text replaced, because files cannot contain them."""
    readable_text = whole_characters(text)
    if readable_text == text:
        return response
    return replace(response, text=readable_text, notes=(*response.notes, HALF_CHARACTERS))
