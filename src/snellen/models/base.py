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
    """The server has stopped answering all requests, so that the run cannot continue."""

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
        """Return the same response as `generate`, and call `listener` with the text so far while it is generated.

        The listener is called in the thread that called this method.
        """
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
    """A model that needs the folders of the run's benchmarks before the run.

    An example is the oracle, which looks up the correct answers there.
    """

    def prepare(self, benchmarks: Sequence[Path]) -> None:
        """Receive the folders before the first request."""
        ...


@runtime_checkable
class HasFindings(Protocol):
    """A model that checks its own replies during a run."""

    def findings(self) -> tuple[str, ...]:
        """Return sentences about what the model has found so far, for the run's manifest; empty if there are none."""
        ...


class AnswerGroup(NamedTuple):
    """Requests of the same kind and with the same number of images, which a model runs in the same way.

    If the model's answer to one of them turns out to be wrong, its answers to the others may be
    wrong too.
    """

    kind: RequestKind
    images: int
    """Number of images of each request."""


def answer_group(request: Request) -> AnswerGroup:
    """Return the group to which a request belongs: its kind, and its number of images."""
    return AnswerGroup(request.kind, len(request.images))


@runtime_checkable
class WithdrawsAnswers(Protocol):
    """A model that may find out during a run that some of its earlier answers were wrong.

    An example is a local model that answers by a fast method, and checks some of the answers by a
    slow one.
    """

    @property
    def disproved(self) -> frozenset[AnswerGroup]:
        """Groups of requests in which the model has found a wrong answer; empty if there are none."""
        ...

    def doubts(self, request: Request) -> bool:
        """Return whether the earlier answer to a request may be wrong. If so, the request is sent again."""
        ...

    def distrust(self, group: AnswerGroup) -> None:
        """Answer all further requests of a group by the slow reference method.

        This is called if another copy of the model, such as that of another worker process, gave a
        wrong answer to a request of the group.
        """
        ...


@runtime_checkable
class PrefetchesImages(Protocol):
    """A model that can decode images in advance, before the requests with these images are sent."""

    def expect(self, expected: Sequence[ImageRef], images: Images) -> None:
        """Begin to prepare images that later requests will show, and return at once.

        An image that cannot be read raises nothing here; the request that shows it fails later.
        """
        ...


@runtime_checkable
class AnswersInParts(Protocol):
    """A model that returns the answers to a list of requests in several parts.

    Each part is stored as soon as it arrives, so that an error in a later part does not lose it.
    """

    def generate_in_parts(
        self, requests: Sequence[Request], images: Images
    ) -> Iterator[dict[int, Response]]:
        """Yield the responses of one part after the other, each by the index of its request in `requests`.

        For example, `{2: response}` has the response to `requests[2]`. If an error is raised, the
        parts that were yielded before it are stored.
        """
        ...


@runtime_checkable
class WaitsToAskAgain(Protocol):
    """A model behind a network that says how many of its requests are waiting for a retry.

    These requests are not in flight, so other requests can be sent in their place.
    """

    @property
    def waiting(self) -> int:
        """Number of requests that failed and wait until they are sent again."""
        ...


@runtime_checkable
class StopsSending(Protocol):
    """A model behind a network that can stop sending without losing requests that are in flight."""

    def stop_sending(self) -> None:
        """Cancel the requests that are not in flight yet, and those that come until `close` is called.

        Requests in flight still get their responses.
        """
        ...


@runtime_checkable
class DescribesServer(Protocol):
    """A model behind a network whose servers may state which model they serve.

    The address of a server stays the same if it is restarted with another checkpoint under the same name.
    """

    async def server_facts(self) -> dict[str, str]:
        """Return what the servers state about the model that they serve, such as its revision.

        Only facts are included that stay the same as long as a server has the same model. Their
        names contain the host of the server. The result is empty if the servers state nothing. If a
        server cannot be reached, this raises no error.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...
