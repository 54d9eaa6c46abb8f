"""Drivers carry requests from active protocols to the models of a run, and the responses back.

`drive` serves models that answer batches: it keeps a window of active protocols, so that all presentations of a
picture are asked together. `drive_async` (`snellen.runs.async_driver`) serves models behind a network, with many
requests in flight. Where a run has both kinds, `drive` serves all of them. A request goes to the model of its role.
Both drivers write each response to the store before its protocol sees it.
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

from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.formats.shown_text import HALF_CHARACTERS, whole_characters
from snellen.models.base import Model, PrefetchesImages, failed
from snellen.protocols.base import Protocol, RequestGenerator, distinct_presentations
from snellen.protocols.prompts.rendering import PromptRenderer
from snellen.records import (
    EVALUATED,
    IMPOSSIBLE,
    ContinuationScore,
    Exchange,
    Kind,
    Request,
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
    """What tokens cost, in the currency of the price."""
    return (
        (usage.prompt_tokens or 0) * price[0] + (usage.completion_tokens or 0) * price[1]
    ) / MILLION


class BudgetTaken(Struct, frozen=True):
    """How much of the budget earlier rounds of a call used."""

    requests: int = 0
    paid: float = 0.0
    seconds: float = 0.0


NOTHING_TAKEN = BudgetTaken()


class RunBudget:
    """Counts requests as they are sent and answered. One of several workers has its share."""

    def __init__(
        self,
        execution: ExecutionSpec,
        worker: int = 0,
        earlier: BudgetTaken = NOTHING_TAKEN,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._execution, self._clock = execution, clock
        workers = execution.workers
        most = (
            None
            if execution.max_requests is None
            else max(0, execution.max_requests - earlier.requests)
        )
        self._requests = None if most is None else most // workers + (worker < most % workers)
        self._cost = (
            None if execution.max_cost is None else (execution.max_cost - earlier.paid) / workers
        )
        self._ends = (
            None if execution.max_time is None else clock() + execution.max_time - earlier.seconds
        )
        self._taken = self._answered = self._counted = self._uncounted = 0
        self.paid = 0.0
        """What the answers cost so far, in the currency of the price."""
        self.spent = ""
        """What the budget ran out of, in words; empty while it has not."""

    @property
    def is_limited(self) -> bool:
        return (self._requests, self._cost, self._ends) != (None, None, None)

    def take(self) -> bool:
        """Whether one more request may be sent; it then counts as sent.

        Requests on their way count as paid too, as do answers whose tokens nobody counted, each at the mean price of
        the other answers. If the first answers come without counts, nothing more is sent.
        """
        if not self.spent:
            self.spent = self._reason()
        if self.spent:
            return False
        self._taken += 1
        return True

    def settle(self, response: Response) -> None:
        """A request that was sent has been answered, or has failed."""
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
        if self._requests is not None and self._taken >= self._requests:
            return f"--max-requests {self._execution.max_requests}"
        if self._ends is not None and self._clock() >= self._ends:
            return f"--max-time {self._execution.max_time:g}"
        if self._cost is not None:
            if self._uncounted and not self._counted:
                return (
                    f"--max-cost {self._execution.max_cost:g}, which cannot hold as the answers come without counts of "
                    "tokens (--max-requests can)"
                )
            answered = self._answered - self._uncounted  # a failure costs nothing
            mean = self.paid / answered if answered else 0.0
            if self._cost <= 0 or self.paid + mean * (self._taken - answered + 1) > self._cost:
                return f"--max-cost {self._execution.max_cost:g}"
        return ""


NO_BUDGET = RunBudget(ExecutionSpec())
"""Never spent."""


# --- one driver -------------------------------------------------------------------------------------------------------


REQUEST_KINDS: tuple[Kind, ...] = ("generate", "loglikelihood")


class WorkItem(Form):
    """What a driver works off: waves of requests whose exchanges are stored under a label."""

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
        return distinct_presentations(
            self.label, self.protocol.ask(self.sample, self.prompt, self.history)
        )


class ProgressUpdate(Struct, frozen=True):
    """What happened since the last update, for progress bars."""

    questions: int = 0
    requests: int = 0
    failures: int = 0


def asked_since(store: RunStore, before: tuple[int, int]) -> ProgressUpdate:
    """The requests since the store's counts were `before`; one that fails again is no further one."""
    requests, failures = store.counts
    return ProgressUpdate(requests=requests - before[0], failures=failures - before[1])


ProgressCallback = Callable[[ProgressUpdate], object]


class ActiveItem:
    """A protocol under way: the requests it waits for, and the responses so far."""

    def __init__(self, item: WorkItem) -> None:
        self.item, self.label = item, item.label
        self._wave = item.start()
        self.requests: list[Request] = []
        self.responses: list[Response | None] = []

    def advance(self, store: RunStore) -> bool:
        """Go on until the model must be asked; False when the protocol has ended."""
        while True:
            if any(response is None for response in self.responses):
                return True
            try:
                self.requests = advance_item(
                    self._wave, [r for r in self.responses if r is not None]
                )
            except StopIteration:
                return False
            self.responses = [store.find(self.label, request) for request in self.requests]

    def missing(self) -> list[int]:
        return [i for i, response in enumerate(self.responses) if response is None]


def questions_of(item: WorkItem) -> int:
    """How many questions it asks: each turn of a dialogue is one."""
    return len(item.sample.rounds) if isinstance(item, SampleItem) else 1


def advance_item(wave: RequestGenerator, responses: list[Response]) -> list[Request]:
    """The next requests of a protocol, after `responses` to its last ones (none at the start)."""
    return wave.send(responses) if responses else next(wave)


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
    """Run all items with models that answer batches; `window` is how many requests wait before any is asked.

    Raises ModelError when a model is unusable; what was answered before is stored.
    """
    models = {EVALUATED: model, **roles}
    window = window or model.batch_size
    if isinstance(model, PrefetchesImages):
        items = announced(items, model, window)
    live: list[ActiveItem] = []
    waiting = 0
    for item in items:
        active = ActiveItem(item)
        if active.advance(store):
            live.append(active)
            waiting += len(active.missing())
        else:
            progress(ProgressUpdate(questions=questions_of(active.item)))
        if waiting >= window:
            live = _serve(models, live, store, budget, progress)
            waiting = sum(len(active.missing()) for active in live)
        if budget.spent:
            return
    while live and not budget.spent:
        live = _serve(models, live, store, budget, progress)


def announced(items: Iterator[WorkItem], model: PrefetchesImages, ahead: int) -> Iterator[WorkItem]:
    """The items in order; `model` is told of the pictures of each one up to `ahead` items in advance."""
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
    """Ask what all active protocols wait for, and return those that are not finished."""
    waiting: dict[tuple[str, Kind], list[tuple[ActiveItem, int]]] = {
        (role, kind): [] for role in models for kind in REQUEST_KINDS
    }
    for active in live:
        for i in active.missing():
            request = active.requests[i]
            waiting[played_role(request.role, models), request.kind].append((active, i))
    for (role, kind), pairs in waiting.items():
        for _, group in itertools.groupby(pairs, key=lambda pair: id(pair[0].item.images)):
            _ask(models[role], kind, list(group), store, budget, progress)
    unfinished = []
    for active in live:
        if active.advance(store):
            unfinished.append(active)
        else:
            progress(ProgressUpdate(questions=questions_of(active.item)))
    return unfinished


def played_role(role: str, models: Mapping[str, object]) -> str:
    """The role itself. Raises ModelError where no model plays it."""
    if role not in models:
        raise ModelError(
            f"no model has the role {role}; the protocol that asks it must declare it in `roles`"
        )
    return role


def _ask(
    model: Model,
    kind: Kind,
    waiting: list[tuple[ActiveItem, int]],
    store: RunStore,
    budget: RunBudget,
    progress: ProgressCallback,
) -> None:
    """Ask each distinct request once, as far as the budget goes; the store answers its other presentations."""
    identities = [store.identity(active.requests[i]) for active, i in waiting]
    first = dict(zip(reversed(identities), reversed(waiting), strict=True))
    distinct = [
        pair
        for pair, identity in zip(waiting, identities, strict=True)
        if first[identity] == pair and budget.take()
    ]
    if not distinct:
        return
    requests = [active.requests[i] for active, i in distinct]
    responses = answer_batch(model, kind, requests, waiting[0][0].item.images)
    before = store.counts
    store.append(
        Exchange(active.label, request, response)
        for (active, _), request, response in zip(distinct, requests, responses, strict=True)
    )
    for response in responses:
        budget.settle(response)
    came = {
        store.identity(request): response
        for request, response in zip(requests, responses, strict=True)
    }
    for (active, i), identity in zip(waiting, identities, strict=True):
        if identity not in came:
            continue
        is_first, response = first[identity] == (active, i), came[identity]
        active.responses[i] = (
            response if is_first else store.share(active.label, active.requests[i], response)
        )
    progress(asked_since(store, before))


def answer_batch(
    model: Model, kind: Kind, requests: list[Request], images: Images
) -> list[Response]:
    """Responses to requests of one kind, checked. Raises ModelError for a model that gives more or fewer."""
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
    """The response, or a failure if it does not answer the request."""
    if response.error is not None:
        return response
    fault = ""
    if request.kind == "generate":
        if response.text is not None:
            return _readable(response, response.text)
        fault = "the model gave no text"
    elif len(response.scores) != len(request.continuations):
        fault = f"the model gave {len(response.scores)} scores for {len(request.continuations)} continuations"
    elif wrong := _no_log_likelihoods(response.scores):
        fault = f"the model gave {wrong[0]} for a log-likelihood"
    if fault:
        return failed("model", fault)
    if any(score.is_impossible for score in response.scores):
        return replace(
            response,
            scores=tuple(
                replace(s, sum=IMPOSSIBLE) if s.is_impossible else s for s in response.scores
            ),
        )
    return response


def _no_log_likelihoods(scores: Sequence[ContinuationScore]) -> list[float]:
    """Those that are none, NaN or infinity, or all where none is possible: comparisons with them mean nothing."""
    if scores and all(score.is_impossible for score in scores):
        return [score.sum for score in scores]
    return [score.sum for score in scores if math.isnan(score.sum) or score.sum == math.inf]


def _readable(response: Response, text: str) -> Response:
    """The same response with lone surrogates of its text, which no file can hold, replaced."""
    whole = whole_characters(text)
    return (
        response
        if whole == text
        else replace(response, text=whole, notes=(*response.notes, HALF_CHARACTERS))
    )
