"""The interface of a model, and the optional abilities that a model may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.formats.shown_text import object_line
from snellen.records import ErrorKind, Failure, ImageRef, Request, RequestKind, Response

NO_CONTINUATIONS = "the request has no continuations; there is nothing to score"
ALL_KINDS: frozenset[RequestKind] = frozenset({"generate", "loglikelihood"})
"""The `kinds` of a model with both methods. A model that only generates has `frozenset({"generate"})`."""

# --- models ----------------------------------------------------------------------------------------------------------


@runtime_checkable
class Model(Protocol):
    """A model that answers batches.

    A request that fails on its own gets a Response with `error`. An exception means that the model is unusable.

    Examples:
        >>> from snellen import Response
        >>> class Yes:
        ...     name = "yes"
        ...     kinds = frozenset({"generate"})
        ...     batch_size = 16
        ...
        ...     def fingerprint(self):
        ...         return {"version": "1"}
        ...
        ...     def generate(self, requests, images):
        ...         return [Response(text="yes") for request in requests]
    """

    name: str
    """The model string or name that the user wrote; tables show it."""
    kinds: frozenset[RequestKind]
    """The methods that the model has."""
    batch_size: int
    """Preferred number of requests per call; the model may split them further."""

    def fingerprint(self) -> dict[str, str]:
        """Return everything that replies depend on: revision of the weights, dtype, processor, adapter version."""
        ...

    def generate(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Reply to requests. Responses have the order of the requests."""
        ...

    def loglikelihood(self, requests: Sequence[Request], images: Images) -> Sequence[Response]:
        """Score the continuations of requests. Responses have the order of the requests."""
        ...


@runtime_checkable
class AsyncModel(Protocol):
    """A model behind a network, which gets one request per call and many calls at once.

    Examples:
        >>> class Parrot:
        ...     name = "parrot"
        ...     kinds = frozenset({"generate"})
        ...     concurrency = 8
        ...
        ...     def fingerprint(self):
        ...         return {"version": "1"}
        ...
        ...     async def ask(self, request, images):
        ...         return Response(text=request.messages[-1].text)
        ...
        ...     async def close(self):
        ...         pass
        >>> isinstance(Parrot(), AsyncModel)
        True
    """

    name: str
    kinds: frozenset[RequestKind]
    concurrency: int
    """Requests that are sent at once. More may wait in `ask`, so the model enforces the limit itself."""

    def fingerprint(self) -> dict[str, str]:
        """Return everything that replies depend on."""
        ...

    async def ask(self, request: Request, images: Images) -> Response:
        """Send a request. A failed request returns a Response with a typed `error` and does not raise."""
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class ShownByName:
    """Base class of models that Python shows as their class and name: `<HFModel: hf:org/name>`."""

    name: str

    def __repr__(self) -> str:
        return object_line(self, self.name)


def failed(kind: ErrorKind, detail: str, attempts: int = 1) -> Response:
    """Return the response of a failed request.

    Args:
        kind: Type of the failure.
        detail: Text for the user.
        attempts: How often the request was sent.
    """
    return Response(error=Failure(kind, detail, attempts))


class ServerGoneError(ModelError):
    """A server that answers nobody any more."""

    def __init__(
        self, message: str, failure: Response | None = None, failing: Iterable[str] = ()
    ) -> None:
        super().__init__(message)
        self.failure = failure
        """How the last request failed."""
        self.failing = frozenset(failing)
        """Keys of the requests that failed since the last answer."""


def answers_by_sample(model: object) -> bool:
    """Return whether a model has an attribute `answers_by_sample` that is true.

    Such a model looks up the sample of a request. Samples with equal requests are then sent one by one, while other
    models get each request only once.
    """
    return bool(getattr(model, "answers_by_sample", False))


def sends_batches(model: object) -> bool:
    """Return whether the requests of a model are to be submitted in batches (`snellen.models.batches`).

    Such a model has an attribute `batch_endpoint` that is not None.
    """
    return getattr(model, "batch_endpoint", None) is not None


# --- streaming -------------------------------------------------------------------------------------------------------

ReplyListener = Callable[[str], None]
"""Called repeatedly with the text of a reply until now. The text gets shorter if a fault restarts the reply."""


@runtime_checkable
class StreamingModel(Protocol):
    """A model that can report a reply while it generates it.

    Examples:
        >>> class Slow:
        ...     def generate_streaming(self, request, images, listener):
        ...         listener("a")
        ...         listener("a cat")
        ...         return Response(text="a cat")
        >>> isinstance(Slow(), StreamingModel)
        True
    """

    def generate_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """Return the same response as `generate`, calling `listener` in the calling thread meanwhile."""
        ...


@runtime_checkable
class AsyncStreamingModel(Protocol):
    """A model behind a network that can report a reply while it arrives.

    Examples:
        >>> class Slow:
        ...     async def ask_streaming(self, request, images, listener):
        ...         listener("a")
        ...         return Response(text="a cat")
        >>> isinstance(Slow(), AsyncStreamingModel)
        True
    """

    async def ask_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """Return the same response as `ask`. If the server does not stream, `listener` is not called."""
        ...


# --- optional abilities ----------------------------------------------------------------------------------------------


@runtime_checkable
class NeedsBenchmarks(Protocol):
    """A model that needs the benchmark folders of a run beforehand (the oracle)."""

    def prepare(self, benchmarks: Sequence[Path]) -> None:
        """Receive the folders before the first request."""
        ...


@runtime_checkable
class HasFindings(Protocol):
    """A model that checks its own replies during a run."""

    def findings(self) -> tuple[str, ...]:
        """Return sentences about what it found until now, for the notes of the run's manifest."""
        ...


class AnswerGroup(NamedTuple):
    """Requests of one model that are doubtful together: a wrong answer to one says that the others may be wrong too."""

    kind: RequestKind
    images: int
    """Number of images of each request."""


def answer_group(request: Request) -> AnswerGroup:
    """Return the group of a request."""
    return AnswerGroup(request.kind, len(request.images))


@runtime_checkable
class WithdrawsAnswers(Protocol):
    """A model that may find out during a run that some of its answers were wrong."""

    @property
    def disproved(self) -> frozenset[AnswerGroup]:
        """Groups in which it found a wrong answer."""
        ...

    def doubts(self, request: Request) -> bool:
        """Return whether the answer to an earlier request may be wrong, so that the request is to be sent again."""
        ...

    def distrust(self, group: AnswerGroup) -> None:
        """Answer requests of a group by the slow reference, because another model like this one was wrong about one."""
        ...


@runtime_checkable
class PrefetchesImages(Protocol):
    """A model that prepares images before the requests that show them."""

    def expect(self, expected: Sequence[ImageRef], images: Images) -> None:
        """Receive images of coming requests. Returns at once, and raises nothing for a damaged image."""
        ...


@runtime_checkable
class AnswersInParts(Protocol):
    """A model whose answers to some requests come in parts, so that each part can be stored at once."""

    def generate_in_parts(
        self, requests: Sequence[Request], images: Images
    ) -> Iterator[dict[int, Response]]:
        """Yield the responses of each part by the index of their request, as soon as they are there.

        What was yielded before an error is stored.
        """
        ...


@runtime_checkable
class WaitsToAskAgain(Protocol):
    """A model behind a network that reports how many requests wait for a retry, so that others can use their slots."""

    @property
    def waiting(self) -> int:
        """Requests that wait for a retry."""
        ...


@runtime_checkable
class StopsSending(Protocol):
    """A model behind a network that can stop sending without losing requests that are in flight."""

    def stop_sending(self) -> None:
        """Cancel the requests that are not in flight, until `close`; those in flight get their response."""
        ...


@runtime_checkable
class DescribesServer(Protocol):
    """A model behind a network whose servers may state which model they serve.

    The address of a server stays the same if it is restarted with another checkpoint under the same name.
    """

    async def server_facts(self) -> dict[str, str]:
        """Return what the servers state and what stays the same while they serve the same model.

        The names of facts contain the host. The result is empty if the servers state nothing. Faults of a server do
        not raise.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
