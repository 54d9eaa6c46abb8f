"""Requests, tokens and seconds of a run, by benchmark and by role of the model, and the requests without a reply."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Generic, TypeVar

from msgspec import Struct

from snellen.metrics.declaration import Metric, metric_row
from snellen.metrics.questions import AskedQuestion, Unscored, why_unanswered
from snellen.records import EVALUATED, Exchange, Response, Score, Usage
from snellen.runs.drivers import cost_of
from snellen.runs.journal import JournalReader, read_stored_lines
from snellen.runs.journal_lines import (
    EntryResponse,
    JournalEntry,
    StoredExchange,
    presentation_identity,
    request_identity,
)
from snellen.runs.run_folder import RunManifest
from snellen.runs.spec import TokenPrice

PERCENTILES = (50, 95, 99)
Place = tuple[str, str]
"""Benchmark and protocol."""


class UnansweredRequest(Struct, frozen=True, gc=False):
    """A request that failed for a presentation under a protocol."""

    identity: bytes
    role: str
    benchmark: str
    protocol: str
    kind: str
    """Kind of the failure."""


class UnansweredRequests:
    """Failed requests of a run whose presentations never received a reply.

    Add all failures first, then the replies: a reply removes the failure of the same presentation. Several
    presentations may share a request, which then counts once. It counts even if it was answered for another
    presentation, because a question still lacks an answer. For the roles in `by_sample`, samples do not share requests.
    """

    def __init__(self, by_sample: Collection[str]) -> None:
        """Start without requests.

        Args:
            by_sample: Roles whose models answer by sample, so that equal requests for different samples are different
                ones.
        """
        self._by_sample = by_sample
        self._waiting: dict[bytes, UnansweredRequest] = {}
        self._failed: set[bytes] = set()
        self._answered: set[bytes] = set()
        """Requests that failed and were later answered for some presentation."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add_failure(self, exchange: Exchange | StoredExchange) -> None:
        """Count a request that failed, which a later one may still answer."""
        request = exchange.request
        error = exchange.response.error
        presentation = presentation_identity(exchange.protocol, request)
        identity = request_identity(request, self._by_sample)
        self._failed.add(identity)
        self._waiting[presentation] = UnansweredRequest(
            identity=identity,
            role=request.role,
            benchmark=request.benchmark,
            protocol=exchange.protocol,
            kind=error.kind if error else "",
        )

    def add_reply(self, exchange: StoredExchange) -> None:
        """Record that a request received a reply, so that an earlier failure of it no longer counts as unanswered.

        A reply that was reused from a cache does not count as an answer to its own request, because the request was not
        sent again.
        """
        self._waiting.pop(presentation_identity(exchange.protocol, exchange.request), None)
        identity = request_identity(exchange.request, self._by_sample)
        if identity in self._failed and not exchange.reused:
            self._answered.add(identity)

    def by_role(self) -> Counter[str]:
        """Return the number of requests without a reply for each role."""
        return Counter(request.role for request in self._by_identity().values())

    def answered_elsewhere_by_role(self) -> Counter[str]:
        """Return, for each role, how many of the requests of `by_role` were answered for another presentation."""
        counts: Counter[str] = Counter()
        for identity, request in self._by_identity().items():
            if identity in self._answered:
                counts[request.role] += 1
        return counts

    def by_kind(self) -> Counter[str]:
        """Return the number of requests without a reply for each kind of failure."""
        return Counter(request.kind for request in self._by_identity().values())

    def by_benchmark_and_protocol(self) -> Counter[tuple[str, str]]:
        """Return the number of requests without a reply, by (benchmark, protocol).

        A request that several of them share counts for each.
        """
        distinct: set[tuple[str, str, bytes]] = set()
        for request in self._waiting.values():
            distinct.add((request.benchmark, request.protocol, request.identity))
        return Counter((benchmark, protocol) for benchmark, protocol, _ in distinct)

    def _by_identity(self) -> dict[bytes, UnansweredRequest]:
        """Return the requests without a reply by their identity, so that equal requests count once."""
        return {request.identity: request for request in self._waiting.values()}


def unanswered_requests(
    paths: Sequence[Path],
    authors: Mapping[str, str],
    by_sample: Collection[str],
    failures: Iterable[int],
) -> UnansweredRequests:
    """Return the requests that failed and were not answered later.

    If there are failures, this function reads all journals once more, because the reply may be in an earlier journal.

    Args:
        paths: The journals.
        authors: Passed to `read_stored_lines`.
        by_sample: Roles whose requests are not shared between samples.
        failures: Positions of the failed exchanges in the journals (see `JournalReader`).

    Raises:
        StoreError: A journal is damaged.
    """
    unanswered = UnansweredRequests(by_sample)
    with JournalReader(paths) as journal:
        for position in failures:
            unanswered.add_failure(journal.read(position))
    if unanswered:
        for exchange in read_stored_lines(paths, authors):
            if exchange.response.error is None:
                unanswered.add_reply(exchange)
    return unanswered


class RequestCost(Struct, frozen=True):
    """Requests of one protocol on one benchmark, including those whose answers were reused from another protocol."""

    benchmark: str
    protocol: str
    answered: int
    failed: int
    """Distinct requests without a reply after all retries."""
    usage: Usage | None
    """Tokens of the answered requests; None if any reply lacks a token count."""
    seconds: tuple[float, ...] = ()
    """`PERCENTILES` of the seconds per request; empty if they were not measured."""


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return the percentiles of some values that `PERCENTILES` lists; empty without values.

    The nearest-rank method is used: a percentile of 90 is the smallest value that is at least as large as 90% of the
    values.
    """
    if not values:
        return ()
    ordered = sorted(values)
    results: list[float] = []
    for percentage in PERCENTILES:
        rank = -(-len(ordered) * percentage // 100)  # the quotient, rounded up
        results.append(ordered[rank - 1])
    return tuple(results)


class CostTally:
    """Sums the cost of exchanges by benchmark and protocol."""

    def __init__(self) -> None:
        self._responses = UsageTally[Place]()
        self._seconds: dict[Place, array[float]] = defaultdict(lambda: array("d"))

    def add(self, entry: JournalEntry) -> None:
        """Add a request with its response to the cost of its protocol on its benchmark."""
        key = (entry.request.benchmark, entry.protocol)
        response = entry.response
        self._responses.add(key, response)
        if response.error is None and response.seconds is not None:
            self._seconds[key].append(response.seconds)

    def costs(self, unanswered: UnansweredRequests) -> tuple[RequestCost, ...]:
        """Return the cost of each protocol on each benchmark."""
        responses = self._responses
        n_failed = unanswered.by_benchmark_and_protocol()
        costs = []
        for key in dict.fromkeys((*responses.answered, *n_failed)):
            benchmark, protocol = key
            cost = RequestCost(
                benchmark=benchmark,
                protocol=protocol,
                answered=responses.answered[key],
                failed=n_failed[key],
                usage=responses.usage(key),
                seconds=percentiles(self._seconds.get(key, ())),
            )
            costs.append(cost)
        return tuple(costs)


# --- tokens ----------------------------------------------------------------------------------------------------------


KeyT = TypeVar("KeyT", bound=Hashable)


class UsageTally(Generic[KeyT]):
    """Counts successful responses by key and sums their tokens."""

    def __init__(self) -> None:
        self.answered = Counter[KeyT]()
        self._counted = Counter[KeyT]()
        """Answered requests whose tokens are known."""
        self._usages: dict[KeyT, Usage] = {}

    def add(self, key: KeyT, response: EntryResponse) -> None:
        """Count a response and its tokens under a key. A failure is not counted."""
        if response.error is not None:
            return
        self.answered[key] += 1
        if response.usage is not None:
            self._counted[key] += 1
            self._usages[key] = plus(self._usages.get(key, Usage()), response.usage)

    def usage(self, key: KeyT) -> Usage | None:
        """Return the tokens of the answered requests of a key; None if any response lacks a token count."""
        are_all_counted = self.answered[key] == self._counted[key]
        return self._usages.get(key) if are_all_counted else None


def sum_usage(responses: Iterable[Response]) -> Usage | None:
    """Return the tokens of the responses that report them, added up; None if no response does."""
    usages = [response.usage for response in responses if response.usage]
    return reduce(plus, usages) if usages else None


def plus(first: Usage, second: Usage) -> Usage:
    """Add two usages field by field. A field is None if it is None in both."""
    sums: dict[str, int | None] = {}
    for name in Usage.__struct_fields__:
        sums[name] = _sum(getattr(first, name), getattr(second, name))
    return Usage(**sums)


def _sum(first: int | None, second: int | None) -> int | None:
    """Return the sum of two numbers of tokens. An unknown one (None) is left out; None if both are unknown."""
    if first is None:
        return second
    if second is None:
        return first
    return first + second


def usage_text(usage: Usage) -> str:
    """Format a number of tokens: `3,400 input tokens (1,200 of them cached), 560 output tokens (400 of them reasoning)`.

    The number of tokens in batch requests follows, if there are any.
    """
    text = f"{usage.prompt_tokens or 0:,} input tokens"
    cache_notes: list[str] = []
    if usage.cached_tokens:
        cache_notes.append(f"{usage.cached_tokens:,} of them cached")
    if usage.stored_tokens:
        cache_notes.append(f"{usage.stored_tokens:,} stored in the cache")
    if cache_notes:
        text += f" ({', '.join(cache_notes)})"
    text += f", {usage.completion_tokens or 0:,} output tokens"
    if usage.reasoning_tokens:
        text += f" ({usage.reasoning_tokens:,} of them reasoning)"
    if usage.batch_prompt_tokens or usage.batch_completion_tokens:
        in_batches = (usage.batch_prompt_tokens or 0) + (usage.batch_completion_tokens or 0)
        text += f", {in_batches:,} of all tokens in batches at half price"
    return text


# --- models by role --------------------------------------------------------------------------------------------------


class RoleUse(Struct, frozen=True):
    """One model in one role, over all sessions of a run."""

    role: str
    model: str
    answered: int
    """Distinct requests that were answered for every presentation that needed them."""
    failed: int
    """Distinct requests that left a presentation without a reply after all retries."""
    usage: Usage | None = None
    """Tokens of the answered requests, as the model counts them; None if any reply lacks a count."""
    from_cache: int = 0
    """Additional requests that were answered from the cache of earlier runs."""

    def sentence(self, price: TokenPrice | None = None) -> str:
        """Describe how a model was used, in one line.

        For example: `questioner openai:gpt: 12 requests, 1 failed (3,400 input tokens, 560 output tokens, as counted by
        the model)`. The role is that of the model in the run, such as questioner or judge.

        Args:
            price: The price of a million tokens. If it is given, the line ends with the cost.
        """
        role = self.role or "evaluated"
        count = self.answered + self.failed
        requests = "request" if count == 1 else "requests"
        text = f"{role} {self.model}: {count:,} {requests}"
        if self.failed:
            text += f", {self.failed:,} failed"
        if self.from_cache:
            text += f", {self.from_cache:,} more from the cache"
        if not self.usage:
            return text
        text += f" ({usage_text(self.usage)}, as counted by the model)"
        if price:
            text += f"; {cost_of(self.usage, price):,.3g} at the price given"
            has_cache_price = len(price) > 2
            if self.usage.cached_tokens and not has_cache_price:
                text += ", which counts cached tokens as others (a third price is theirs)"
        return text


class RoleTally:
    """Sums exchanges by role."""

    def __init__(self, manifest: RunManifest) -> None:
        """Prepare to count the requests and tokens of a run by the role of the model."""
        self._models = {EVALUATED: manifest.model}
        for role, use in manifest.roles.items():
            self._models[role] = use.model
        self._responses = UsageTally[str]()
        self._cached = Counter[str]()

    def add(self, entry: JournalEntry) -> None:
        self._cached[entry.request.role] += entry.from_cache
        if not entry.reused:
            self._responses.add(entry.request.role, entry.response)

    def uses(self, unanswered: UnansweredRequests) -> tuple[RoleUse, ...]:
        """Return the requests and tokens of each role."""
        failed = unanswered.by_role()
        answered_elsewhere = unanswered.answered_elsewhere_by_role()
        uses = []
        for role, model in self._models.items():
            n_answered = self._responses.answered[role] - answered_elsewhere[role]
            usage = self._responses.usage(role)
            use = RoleUse(
                role=role,
                model=model,
                answered=n_answered,
                failed=failed[role],
                usage=usage,
                from_cache=self._cached[role],
            )
            uses.append(use)
        return tuple(uses)


# --- answers of protocols in several steps ----------------------------------------------------------------------------


class MultiStepCost(Struct, frozen=True, gc=False):
    """Cost of one answer of a protocol in several steps, over all models that took part.

    A reply that is reused for several questions counts for each of them.
    """

    rounds: int
    requests: int
    tokens: int | None
    """Input and output tokens of all models; None if one of them does not report tokens."""


def multi_step_cost(steps: Sequence[Exchange]) -> MultiStepCost:
    """Return the cost of an answer that a model gave in several steps.

    Returns:
        The number of rounds, of requests, and of tokens (None if not all responses report their tokens).
    """
    rounds: list[int] = []
    for exchange in steps:
        step = exchange.request.variant.step
        if step is not None:
            rounds.append(step.round)
    n_rounds = max(rounds)
    usage = sum_usage(exchange.response for exchange in steps)
    all_report_tokens = all(exchange.response.usage for exchange in steps)
    tokens = None
    if usage is not None and all_report_tokens:
        tokens = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
    return MultiStepCost(n_rounds, len(steps), tokens)


COST = Metric(
    description="what an answer took that several steps led to: rounds, requests, and tokens read and written by all models",
    rows=tuple(
        metric_row(name, title=title, unit=unit, low=0.0, better="lower", scale=name)
        for name, title, unit in (
            ("rounds_used", "rounds used", "rounds"),
            ("requests_used", "requests used", "requests"),
            ("tokens_used", "tokens used", "tokens"),
        )
    ),
)


def score_cost(question: AskedQuestion, cost: MultiStepCost | None) -> Iterator[Score]:
    """Yield the scores of `COST` for a question of a protocol in several steps. `cost` is None without an answer."""
    if cost is None:
        for name in COST.names:
            yield question.score(name, why_unanswered(question))
        return
    tokens: float | Unscored
    if cost.tokens is None:
        tokens = Unscored("metric undefined", "a model does not count its tokens")
    else:
        tokens = float(cost.tokens)
    values = (float(cost.rounds), float(cost.requests), tokens)
    for name, value in zip(COST.names, values, strict=True):
        yield question.score(name, value)
