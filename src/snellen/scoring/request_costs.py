"""What answers took: requests, tokens, seconds, by benchmark and by role of the model; which requests have no reply."""

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
    """A request without a reply for a presentation under a protocol."""

    identity: bytes
    role: str
    benchmark: str
    protocol: str
    kind: str
    """Of the failure."""


class UnansweredRequests:
    """Collects failures of a run, then takes off those whose presentation was asked again and answered.

    Several presentations may wait for one request, which counts once. It counts although another presentation of it was
    answered: a question goes without an answer. For the roles `by_sample` each sample has requests of its own.
    """

    def __init__(self, by_sample: Collection[str]) -> None:
        self._by_sample = by_sample
        self._waiting: dict[bytes, UnansweredRequest] = {}
        self._failed: set[bytes] = set()
        self._answered: set[bytes] = set()
        """Of those that failed, those that were answered for some presentation."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add_failure(self, exchange: Exchange | StoredExchange) -> None:
        request, error = exchange.request, exchange.response.error
        presentation = presentation_identity(exchange.protocol, request)
        identity = request_identity(request, self._by_sample)
        self._failed.add(identity)
        self._waiting[presentation] = UnansweredRequest(
            identity,
            request.role,
            request.benchmark,
            exchange.protocol,
            error.kind if error else "",
        )

    def add_reply(self, exchange: StoredExchange) -> None:
        """Take note of a reply, after all failures that may have come before it; one reused is no further request."""
        self._waiting.pop(presentation_identity(exchange.protocol, exchange.request), None)
        identity = request_identity(exchange.request, self._by_sample)
        if identity in self._failed and not exchange.reused:
            self._answered.add(identity)

    def by_role(self) -> Counter[str]:
        """How many requests each role left without a reply."""
        return Counter(request.role for request in self._by_identity().values())

    def answered_elsewhere_by_role(self) -> Counter[str]:
        """How many of these were answered for another presentation."""
        identities = self._by_identity()
        return Counter(identities[identity].role for identity in identities.keys() & self._answered)

    def by_kind(self) -> Counter[str]:
        """How many requests have no reply, by the kind of failure."""
        return Counter(request.kind for request in self._by_identity().values())

    def by_place(self) -> Counter[tuple[str, str]]:
        """How many requests each benchmark and protocol would lack if it were asked alone."""
        identities = {
            (request.benchmark, request.protocol, request.identity)
            for request in self._waiting.values()
        }
        return Counter((benchmark, protocol) for benchmark, protocol, _ in identities)

    def _by_identity(self) -> dict[bytes, UnansweredRequest]:
        return {request.identity: request for request in self._waiting.values()}


def unanswered_requests(
    paths: Sequence[Path],
    authors: Mapping[str, str],
    by_sample: Collection[str],
    failures: Iterable[int],
) -> UnansweredRequests:
    """What has no reply in the end of the requests that failed at these places of journals (see `JournalReader`).

    Where any did, the journals are read once more, as a reply may stand in one before. Raises StoreError.
    """
    unanswered = UnansweredRequests(by_sample)
    with JournalReader(paths) as journal:
        for place in failures:
            unanswered.add_failure(journal.read(place))
    if unanswered:
        for exchange in read_stored_lines(paths, authors):
            if exchange.response.error is None:
                unanswered.add_reply(exchange)
    return unanswered


class RequestCost(Struct, frozen=True):
    """One protocol on one benchmark, as if it had been asked alone: answers taken over from another protocol count."""

    benchmark: str
    protocol: str
    answered: int
    failed: int
    """Different requests that have no reply in the end."""
    usage: Usage | None
    """Tokens of those that were answered; None where a model does not count, or not always."""
    seconds: tuple[float, ...] = ()
    """The percentiles of the seconds that a request took; empty where they were not measured."""


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """The nearest-rank percentiles: the least value that at least this percentage do not exceed; empty for none."""
    ordered = sorted(values)
    return tuple(ordered[-(-len(ordered) * p // 100) - 1] for p in PERCENTILES) if ordered else ()


class CostTally:
    """Adds exchanges up, by benchmark and protocol."""

    def __init__(self) -> None:
        self._responses = UsageTally[Place]()
        self._seconds: dict[Place, array[float]] = defaultdict(lambda: array("d"))

    def add(self, entry: JournalEntry) -> None:
        place, response = (entry.request.benchmark, entry.protocol), entry.response
        self._responses.add(place, response)
        if response.error is None and response.seconds is not None:
            self._seconds[place].append(response.seconds)

    def costs(self, unanswered: UnansweredRequests) -> tuple[RequestCost, ...]:
        """What each protocol took on each benchmark; `unanswered` is what has no reply in the end."""
        responses, failed = self._responses, unanswered.by_place()
        return tuple(
            RequestCost(
                *place,
                responses.answered[place],
                failed[place],
                responses.usage(place),
                percentiles(self._seconds.get(place, ())),
            )
            for place in dict.fromkeys((*responses.answered, *failed))
        )


# --- tokens ----------------------------------------------------------------------------------------------------------


KeyT = TypeVar("KeyT", bound=Hashable)


class UsageTally(Generic[KeyT]):
    """Counts the responses that came by some key, and adds their tokens up."""

    def __init__(self) -> None:
        self.answered, self._counted = Counter[KeyT](), Counter[KeyT]()
        self._usages: dict[KeyT, Usage] = {}

    def add(self, key: KeyT, response: EntryResponse) -> None:
        if response.error is not None:
            return
        self.answered[key] += 1
        if response.usage is not None:
            self._counted[key] += 1
            self._usages[key] = plus(self._usages.get(key, Usage()), response.usage)

    def usage(self, key: KeyT) -> Usage | None:
        """Tokens of what was answered; None where a model does not count, or not always."""
        return self._usages.get(key) if self.answered[key] == self._counted[key] else None


def sum_usage(responses: Iterable[Response]) -> Usage | None:
    """The sums over the responses whose model counts; None where none does."""
    usages = [response.usage for response in responses if response.usage]
    return reduce(plus, usages) if usages else None


def plus(first: Usage, second: Usage) -> Usage:
    """Two usages together."""
    return Usage(
        *(_sum(getattr(first, name), getattr(second, name)) for name in Usage.__struct_fields__)
    )


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second


def usage_text(usage: Usage) -> str:
    """`3,400 tokens read (1,200 of them cached), 560 written (400 of them reasoning)`."""
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    reasoning = f" ({usage.reasoning_tokens:,} of them reasoning)" if usage.reasoning_tokens else ""
    return f"{usage.prompt_tokens or 0:,} tokens read{cached}, {usage.completion_tokens or 0:,} written{reasoning}"


# --- models by role --------------------------------------------------------------------------------------------------


class RoleUse(Struct, frozen=True):
    """One model in one role, over all sessions of a run."""

    role: str
    model: str
    answered: int
    """Different requests that were answered wherever they were asked."""
    failed: int
    """Different requests of which a presentation has no reply in the end, however often they were asked."""
    usage: Usage | None = None
    """Tokens of what was answered, as the model counts them; None where it does not count, or not always."""
    from_cache: int = 0
    """Further requests, which were answered in earlier runs."""

    def sentence(self, price: TokenPrice | None = None) -> str:
        """`questioner openai:gpt: 12 requests, 1 failed (3,400 tokens read, 560 written, as it counts them)`.

        `price` is that of the evaluated model's tokens."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        cached = f", {self.from_cache:,} more from the cache" if self.from_cache else ""
        tokens = f" ({usage_text(self.usage)}, as it counts them)" if self.usage else ""
        paid = (
            f"; {cost_of(self.usage, price):,.3g} at the price given"
            if self.usage and price
            else ""
        )
        role = self.role or "evaluated"
        return f"{role} {self.model}: {self.answered + self.failed:,} requests{failed}{cached}{tokens}{paid}"


class RoleTally:
    """Adds exchanges up, by role."""

    def __init__(self, manifest: RunManifest) -> None:
        self._models = {
            EVALUATED: manifest.model,
            **{role: use.model for role, use in manifest.roles.items()},
        }
        self._responses, self._cached = UsageTally[str](), Counter[str]()

    def add(self, entry: JournalEntry) -> None:
        self._cached[entry.request.role] += entry.from_cache
        if not entry.reused:
            self._responses.add(entry.request.role, entry.response)

    def uses(self, unanswered: UnansweredRequests) -> tuple[RoleUse, ...]:
        """What each role was asked; `unanswered` is what has no reply in the end."""
        failed, answered_elsewhere = unanswered.by_role(), unanswered.answered_elsewhere_by_role()
        responses = self._responses
        return tuple(
            RoleUse(
                role,
                model,
                responses.answered[role] - answered_elsewhere[role],
                failed[role],
                responses.usage(role),
                self._cached[role],
            )
            for role, model in self._models.items()
        )


# --- answers to which several steps led -------------------------------------------------------------------------------


class TalkCost(Struct, frozen=True, gc=False):
    """What one answer took, whoever answered; a reply that served another question too counts for both."""

    rounds: int
    requests: int
    tokens: int | None
    """Read and written, by all models; None where one of them does not count."""


def talk_cost(steps: Sequence[Exchange]) -> TalkCost:
    rounds = max(step.round for exchange in steps if (step := exchange.request.variant.step))
    usage = sum_usage(exchange.response for exchange in steps)
    counted = usage is not None and all(exchange.response.usage for exchange in steps)
    tokens = (
        (usage.prompt_tokens or 0) + (usage.completion_tokens or 0) if usage and counted else None
    )
    return TalkCost(rounds, len(steps), tokens)


COST = Metric(
    what="what an answer took that several steps led to: rounds, requests, and tokens read and written by all models",
    rows=tuple(
        metric_row(name, title=title, unit=unit, low=0.0, better="lower", scale=name)
        for name, title, unit in (
            ("rounds_used", "rounds used", "rounds"),
            ("requests_used", "requests used", "requests"),
            ("tokens_used", "tokens used", "tokens"),
        )
    ),
)


def score_cost(question: AskedQuestion, cost: TalkCost | None) -> Iterator[Score]:
    """The rows of `COST` for a question of a protocol of several steps; no cost where no answer came."""
    if cost is None:
        yield from (question.score(name, why_unanswered(question)) for name in COST.names)
        return
    uncounted = Unscored("metric undefined", "a model does not count its tokens")
    values = (
        float(cost.rounds),
        float(cost.requests),
        uncounted if cost.tokens is None else float(cost.tokens),
    )
    yield from (question.score(name, value) for name, value in zip(COST.names, values, strict=True))
