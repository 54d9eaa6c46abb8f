"""Batch endpoints of services: requests are submitted together, answered within a day, and cost half.

Each request in a batch has the same JSON body as if it were sent by itself, and its result is read
like a direct reply. This module knows nothing of runs: `snellen.runs.batch_driver` decides which
requests are submitted, and records which batch contains which requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.images import Images
from snellen.errors import ModelError
from snellen.formats.json_files import JSON_FAULTS
from snellen.models.base import AsyncModel
from snellen.models.client import Client, ClientOptions, Clock
from snellen.models.connections import HttpReply, HttpRequest
from snellen.models.key_removal import presentable
from snellen.models.retry import Retry
from snellen.models.server_faults import ServerFault, fault_of_status, read_reported_error
from snellen.records import BATCH_HOURS, Request, Response, in_batch

MEGABYTE = 1_000_000
TRANSFER_SECONDS = 1800.0
"""Time limit for sending or fetching the file of a batch."""
MOST_RESULT_BYTES = 2_000 * MEGABYTE
CLOCK_SKEW = 600.0
"""Seconds by which the clock of a service may differ from this machine's."""
LISTED = 100
"""Batches on one page of a list."""
BATCHED = "sent in batch "
"""Beginning of the note on a reply that came from a batch; the id of the batch follows."""


class BatchLimits(Struct, frozen=True):
    """The largest batch that a service accepts."""

    requests: int
    size: int
    """Bytes of the file, or of the body."""


class BatchState(Struct, frozen=True):
    """How far a batch is."""

    status: Literal["running", "ended", "failed"]
    """A batch that failed was not carried out at all, and costs nothing."""
    service_status: str
    """The status as the service names it, such as in_progress, completed or expired."""
    finished: int = 0
    """Requests that are finished."""
    detail: str = ""
    """Why a batch failed."""
    is_overfull: bool = False
    """Whether the batch failed because the batches of this account already contain too many tokens."""


class BatchError(ModelError):
    """A batch endpoint refused a call, or could not be reached."""

    def __init__(self, message: str, fault: ServerFault) -> None:
        super().__init__(message)
        self.fault = fault


class BatchResult(Struct, frozen=True):
    """The result of one request of a batch: a reply, or the reason why there is none."""

    key: str
    """The key of the request, which was its `custom_id`."""
    outcome: HttpReply | ServerFault
    """The HTTP reply, as if the request had been sent by itself; or a fault that says why there is none."""


class BatchEndpoint(Protocol):
    """The batch endpoint of one service: submits batches, and reads their states and results."""

    limits: BatchLimits
    overhead: int
    """Bytes of a submission in addition to the lines of its requests."""

    def line(self, key: str, body: bytes) -> bytes:
        """Return a request as a line of a batch.

        Args:
            key: The key of the request, by which its result is found.
            body: The JSON body that the request has when it is sent by itself.
        """
        ...

    async def submit(
        self, lines: Sequence[bytes], submission_id: str, since: float, known: Sequence[str]
    ) -> str:
        """Submit a batch and return its id.

        Args:
            lines: The requests, as `line` returns them.
            submission_id: Identifies the submission. It is not the id of the batch, which the
                service chooses.
            since: Time of the first attempt, in seconds since 1970.
            known: Ids of other batches of the run and of the account, which cannot be this one.
        """
        ...

    async def earlier(self, since: float) -> list[str]:
        """Return the ids of existing batches that `find` could mistake for a batch submitted at a certain time.

        Args:
            since: The time, in seconds since 1970.

        Returns:
            The ids; [] if the service identifies batches by their submission.
        """
        ...

    async def find(self, submission_id: str, since: float, count: int, known: Sequence[str]) -> str:
        """Return the id of a batch whose submission may have arrived although it was not confirmed.

        Args:
            submission_id: Identifies the submission.
            since: Time of the submission, in seconds since 1970.
            count: Number of its requests.
            known: Ids of other batches of the run and of the account, which cannot be this one.

        Returns:
            The id; empty if the service has no such batch.
        """
        ...

    async def state(self, batch: str) -> BatchState:
        """Return the state of a batch, such as how many of its requests are finished."""
        ...

    async def results(self, batch: str) -> bytes:
        """Return the results of a batch that has ended, in the service's format, one line of JSON per request."""
        ...

    async def cancel(self, batch: str) -> None:
        """Cancel a batch. Requests that are finished already keep their results."""
        ...

    def read(self, line: bytes) -> BatchResult:
        """Return the result in one line of `results`.

        Raises ValueError or msgspec's errors if the line does not have the service's format.
        """
        ...


class BatchingModel(AsyncModel, Protocol):
    """A model whose requests can be submitted in batches."""

    batch_endpoint: BatchEndpoint | None
    """Where they are submitted; None if the model string does not say `batch=true`."""

    @property
    def batch_form(self) -> str:
        """The variant of the service's format in which requests are written now.

        It is stored with a batch, because the results have to be read in the same variant
        (`read_batched`).
        """
        ...

    async def batch_body(self, request: Request, images: Images) -> bytes:
        """Return the JSON body that a request has when it is sent by itself. Raises DataError for a damaged image."""
        ...

    def read_batched(self, request: Request, reply: HttpReply, form: str) -> Response | ServerFault:
        """Return the response in the service's reply to a request of a batch, or a fault.

        Args:
            request: The request.
            reply: The reply.
            form: The value of `batch_form` when the request was written.
        """
        ...

    def adapt_batches(self, fault: ServerFault) -> bool:
        """From now on, write requests without the parameter that the service has rejected.

        Args:
            fault: The fault that names the parameter.

        Returns:
            Whether this changes anything, so that sending the request again may help.
        """
        ...


def batched_response(response: Response, batch: str) -> Response:
    """Return a response with a note that it came from a batch, and its tokens counted at half price."""
    usage = None
    if response.usage is not None:
        usage = in_batch(response.usage)
    note = f"{BATCHED}{batch}"
    return replace(response, usage=usage, notes=(*response.notes, note))


def only_one_server(name: str, urls: Sequence[str]) -> None:
    """Raise ModelError if a model with `batch=true` has several servers, because only one of them would know a batch."""
    if len(urls) > 1:
        raise ModelError(f"{name}: batch=true needs one server; give one address")


# --- calls of an endpoint ---------------------------------------------------------------------------------------------


class BatchCalls:
    """HTTP calls to a batch endpoint, which are repeated after temporary faults.

    Args:
        name: Model string, for messages.
        url: The address of the service, to which paths are appended.
        options: Options of the model string.
        key: The API key, which is removed from messages.
        headers: HTTP headers of every call.
        clock: Source of time.
    """

    def __init__(
        self,
        name: str,
        url: str,
        options: ClientOptions,
        key: str,
        headers: Mapping[str, str],
        clock: Clock,
    ) -> None:
        patient = msgspec.structs.replace(
            options,
            timeout=max(options.timeout, TRANSFER_SECONDS),
            reply_bytes=max(options.reply_bytes, MOST_RESULT_BYTES),
        )
        self._name = name
        self._key = key
        self._clock = clock
        self._client = Client(name, (url,), patient, key, headers, clock)
        self._retry = Retry(retries=options.retries, patience=options.patience)

    async def get(self, path: str) -> bytes:
        """Return the body of the reply to a GET request."""
        return await self._call(HttpRequest("GET", path))

    async def post(self, path: str, body: bytes = b"", content_type: str = "") -> bytes:
        """Send a POST request that does no harm if it arrives twice, and return the body of the reply."""
        headers = {"content-type": content_type} if content_type else {}
        return await self._call(HttpRequest("POST", path, body, headers))

    async def create(self, path: str, body: bytes, find: Callable[[], Awaitable[str]]) -> str:
        """Create a batch and return its id.

        If it is not known whether an attempt has arrived, the service is searched for the batch
        before the next attempt. A second batch with the same requests would have to be paid as
        well.

        Args:
            path: The path to which the body is sent.
            body: The JSON body.
            find: Searches for the batch, and returns its id; empty if there is none.

        Raises:
            BatchError: The batch was refused. If the fault in it is temporary, it is not known
                whether the batch exists.
        """
        request = HttpRequest("POST", path, body)
        attempt = 1
        may_have_arrived = False
        while True:
            outcome = await self._exchange(request)
            if isinstance(outcome, bytes):
                created = _read_object(outcome, self._name)
                return str(created["id"])
            fault = outcome
            wait = self._wait(attempt, fault)
            if wait is None:
                raise self._error(request, fault)
            await self._clock.sleep(wait)

            # A server that limits requests has not taken this one. After other faults, nobody knows.
            if fault.kind != "rate_limit":
                may_have_arrived = True
            if may_have_arrived:
                arrived = await self._find_arrived(find)
                if arrived:
                    return arrived
            attempt += 1

    async def _find_arrived(self, find: Callable[[], Awaitable[str]]) -> str:
        """Return the id that `find` returns; empty if the service has no such batch.

        Raises BatchError with a temporary fault if the search fails, because then it is not known
        whether the batch exists.
        """
        try:
            return await find()
        except BatchError as error:
            raise BatchError(str(error), replace(error.fault, retry=True)) from None

    async def _call(self, request: HttpRequest) -> bytes:
        """Send a request, again after temporary faults, and return the body of the reply. Raises BatchError."""
        attempt = 1
        while True:
            outcome = await self._exchange(request)
            if isinstance(outcome, bytes):
                return outcome
            wait = self._wait(attempt, outcome)
            if wait is None:
                raise self._error(request, outcome)
            await self._clock.sleep(wait)
            attempt += 1

    async def _exchange(self, request: HttpRequest) -> bytes | ServerFault:
        """Send a request once, and return the body of the reply, or a fault if it failed."""

        async def compose() -> HttpRequest:
            return request

        reply = await self._client.exchange(compose)
        if isinstance(reply, ServerFault):
            return reply
        if reply.status in (HTTPStatus.OK, HTTPStatus.CREATED):
            return reply.body
        error = read_reported_error(reply.body)
        hint = "is there a batch endpoint at this address"
        return fault_of_status(reply, error, self._client.now(), hint)

    def _wait(self, attempt: int, fault: ServerFault) -> float | None:
        """Return how many seconds to wait before the next attempt; None if the request should not be sent again."""
        if not fault.retry:
            return None
        return self._retry.wait(attempt, self._name, fault.retry_after)

    def _error(self, request: HttpRequest, fault: ServerFault) -> BatchError:
        """Return the error for a request that failed, without the API key."""
        path = request.path.partition("?")[0]
        detail = presentable(fault.detail, self._key)
        return BatchError(f"{self._name}: {request.method} {path}: {detail}", fault)

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the JSON object in a body, which must have a field `id` or `data`. Raises ModelError otherwise."""
        return _read_object(body, self._name)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()


def _read_object(body: bytes, name: str) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(body, type=dict[str, Any])
    except JSON_FAULTS as error:
        raise ModelError(f"{name}: the reply about a batch is not JSON: {error}") from None
    if "id" not in content and "data" not in content:
        raise ModelError(f"{name}: the reply about a batch has neither 'id' nor 'data'")
    return content


# --- OpenAI and compatible servers ------------------------------------------------------------------------------------
# platform.openai.com/docs/guides/batch: a file of at most 50,000 requests and 200 MB, uploaded with the purpose
# "batch". Results are in two files, one for requests that were answered and one for those that failed.


class _OpenAIResponse(Struct):
    status_code: int = 0
    body: msgspec.Raw = msgspec.Raw(b"null")


class _OpenAIError(Struct):
    code: str | None = None
    message: str | None = None


class _OpenAILine(Struct):
    custom_id: str
    response: _OpenAIResponse | None = None
    error: _OpenAIError | None = None


_ENDED = frozenset({"completed", "expired", "cancelled", "canceled"})
_MARK = "snellen"
"""Field of a batch's metadata that identifies the submission."""
_OVERFULL = "token_limit_exceeded"
_BOUNDARY = "snellen-batch-4f1d6c8f0b7e4a0c"


class OpenAIBatches:
    """The batch endpoint of OpenAI and of compatible servers: `/files` and `/batches`."""

    limits = BatchLimits(50_000, 200 * MEGABYTE)
    overhead = 1024

    def __init__(self, calls: BatchCalls) -> None:
        self.calls = calls

    def line(self, key: str, body: bytes) -> bytes:
        form = b'{"custom_id":"%b","method":"POST","url":"/v1/chat/completions","body":%b}\n'
        return form % (key.encode(), body)

    async def submit(
        self, lines: Sequence[bytes], submission_id: str, since: float, known: Sequence[str]
    ) -> str:
        """Upload requests as a file and create a batch of them, unless an earlier attempt has created it.

        Args:
            lines: The requests, a line each.
            submission_id: Identifies the batch.
            since: Time of the first attempt.
            known: Batches that are not this one.

        Returns:
            The id of the batch.
        """
        head = (
            f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{_BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="{submission_id}.jsonl"\r\n'
            "content-type: application/jsonl\r\n\r\n"
        )
        form = b"".join([head.encode(), *lines, f"\r\n--{_BOUNDARY}--\r\n".encode()])
        uploaded = await self.calls.post(
            "/files", form, f"multipart/form-data; boundary={_BOUNDARY}"
        )
        batch = {
            "input_file_id": self.calls.read(uploaded)["id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": f"{BATCH_HOURS}h",
            "metadata": {_MARK: submission_id},
        }

        async def find() -> str:
            return await self.find(submission_id, since, len(lines), known)

        return await self.calls.create("/batches", msgspec.json.encode(batch), find)

    async def earlier(self, since: float) -> list[str]:
        return []  # their metadata tell batches apart

    async def find(self, submission_id: str, since: float, count: int, known: Sequence[str]) -> str:
        """Return the id of the batch whose metadata contain this submission id; empty if there is none."""
        cursor = ""
        while True:
            listing = await self.calls.get(f"/batches?limit={LISTED}{cursor}")
            page = self.calls.read(listing)
            batches = page.get("data") or []
            for batch in batches:
                metadata = batch.get("metadata") or {}
                if metadata.get(_MARK) == submission_id:
                    return str(batch["id"])
            if not batches or not page.get("has_more"):
                return ""
            oldest = batches[-1]
            created_at = oldest.get("created_at") or 0
            if created_at < since - CLOCK_SKEW:
                return ""
            cursor = f"&after={oldest['id']}"

    async def state(self, batch: str) -> BatchState:
        """Return whether a batch is running, has ended or has failed, how many of its requests are finished, and why it failed."""
        description = self.calls.read(await self.calls.get(f"/batches/{batch}"))
        status = str(description.get("status")).lower()
        counts = description.get("request_counts") or {}
        finished = (counts.get("completed") or 0) + (counts.get("failed") or 0)
        if status in _ENDED:
            return BatchState("ended", status, finished)
        if status != "failed":
            return BatchState("running", status, finished)
        errors = (description.get("errors") or {}).get("data") or [{}]
        error = errors[0]
        detail = str(error.get("message") or error.get("code") or "no reason given")
        if error.get("line"):
            detail = f"line {error['line']}: {detail}"
        is_overfull = error.get("code") == _OVERFULL
        return BatchState("failed", status, 0, detail, is_overfull)

    async def results(self, batch: str) -> bytes:
        description = self.calls.read(await self.calls.get(f"/batches/{batch}"))
        files = []
        for field in ("output_file_id", "error_file_id"):
            file_id = description.get(field)
            if file_id:
                content = await self.calls.get(f"/files/{file_id}/content")
                files.append(content if content.endswith(b"\n") else content + b"\n")
        return b"".join(files)

    async def cancel(self, batch: str) -> None:
        await self.calls.post(f"/batches/{batch}/cancel")

    def read(self, line: bytes) -> BatchResult:
        """Return the result in a line of OpenAI's output file: a reply, or the reason why there is none."""
        result = msgspec.json.decode(line, type=_OpenAILine)
        if result.error is not None:
            detail = result.error.message or result.error.code or "no reason given"
            return BatchResult(result.custom_id, unfinished(result.error.code or "", detail))
        if result.response is None:
            raise ValueError("the line has neither a response nor an error")
        reply = HttpReply(result.response.status_code, {}, bytes(result.response.body))
        return BatchResult(result.custom_id, reply)


def unfinished(word: str, detail: str = "") -> ServerFault:
    """Return the fault of a request that a batch did not carry out.

    Args:
        word: The service's word for why, such as expired or batch_cancelled.
        detail: Its sentence, if there is one.
    """
    if "expired" in word:
        expired = f"the batch expired before the request was carried out ({BATCH_HOURS} hours)"
        return ServerFault("timeout", expired, retry=True)
    if "cancel" in word:
        return ServerFault("server", "the batch was cancelled before the request was carried out")
    return ServerFault("server", detail or "the batch has no result for the request", retry=True)


# --- Anthropic --------------------------------------------------------------------------------------------------------
# platform.claude.com/docs/en/build-with-claude/batch-processing: one body of at most 100,000 requests or 256 MB.
# Results are kept for 29 days. A batch has no metadata: one whose id is not known is found by its time and size, and
# its results then show by their `custom_id` whether it is the right one.


class _AnthropicError(Struct):
    error: msgspec.Raw = msgspec.Raw(b"null")


class _AnthropicResult(Struct):
    type: str
    message: msgspec.Raw = msgspec.Raw(b"null")
    error: _AnthropicError | None = None


class _AnthropicLine(Struct):
    custom_id: str
    result: _AnthropicResult


STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Status that each type of error has for a request that is sent alone (platform.claude.com/docs/en/api/errors)."""


class AnthropicBatches:
    """`/messages/batches` of Anthropic."""

    limits = BatchLimits(100_000, 256 * MEGABYTE)
    overhead = 1024

    def __init__(self, calls: BatchCalls) -> None:
        self.calls = calls

    def line(self, key: str, body: bytes) -> bytes:
        return b'{"custom_id":"%b","params":%b},' % (key.encode(), body)

    async def submit(
        self, lines: Sequence[bytes], submission_id: str, since: float, known: Sequence[str]
    ) -> str:
        body = b'{"requests":[%b]}' % b"".join(lines).removesuffix(b",")

        async def find() -> str:
            return await self.find(submission_id, since, len(lines), known)

        return await self.calls.create("/messages/batches", body, find)

    async def earlier(self, since: float) -> list[str]:
        """Return the ids of the account's batches that may have been created since a time."""
        ids = []
        async for batch in self._listed(since):
            ids.append(str(batch["id"]))
        return ids

    async def find(self, submission_id: str, since: float, count: int, known: Sequence[str]) -> str:
        """Return the id of the oldest unknown batch with so many requests; empty if there is none."""
        oldest = ""
        async for batch in self._listed(since):
            counts = batch.get("request_counts") or {}
            if sum(counts.values()) == count and batch["id"] not in known:
                oldest = str(batch["id"])
        return oldest

    async def _listed(self, since: float) -> AsyncIterator[dict[str, Any]]:
        """Yield the batches of the account that may have been created since a time, the latest first."""
        after = ""
        while True:
            page = self.calls.read(await self.calls.get(f"/messages/batches?limit={LISTED}{after}"))
            batches = page.get("data") or []
            for batch in batches:
                if _seconds(batch["created_at"]) < since - CLOCK_SKEW:
                    return
                yield batch
            if not page.get("has_more") or not batches:
                return
            after = f"&after_id={batches[-1]['id']}"

    async def state(self, batch: str) -> BatchState:
        description = self.calls.read(await self.calls.get(f"/messages/batches/{batch}"))
        status = str(description.get("processing_status"))
        counts = description.get("request_counts") or {}
        unfinished_count = counts.get("processing") or 0
        finished = sum(counts.values()) - unfinished_count
        if status == "ended":
            return BatchState("ended", status, finished)
        return BatchState("running", status, finished)

    async def results(self, batch: str) -> bytes:
        return await self.calls.get(f"/messages/batches/{batch}/results")

    async def cancel(self, batch: str) -> None:
        await self.calls.post(f"/messages/batches/{batch}/cancel")

    def read(self, line: bytes) -> BatchResult:
        """Return the result in a line of the output file: a reply, the service's error, or the reason why there is none."""
        parsed = msgspec.json.decode(line, type=_AnthropicLine)
        key = parsed.custom_id
        result = parsed.result
        if result.type == "succeeded":
            return BatchResult(key, HttpReply(HTTPStatus.OK, {}, bytes(result.message)))
        if result.type == "errored" and result.error is not None:
            body = b'{"type":"error","error":%b}' % bytes(result.error.error)
            code = read_reported_error(body).code
            # The documentation's example of a batch calls it invalid_request.
            status = STATUS_OF_ERROR.get(code) or STATUS_OF_ERROR.get(f"{code}_error", 500)
            return BatchResult(key, HttpReply(status, {}, body))
        return BatchResult(key, unfinished(result.type))


def _seconds(time: str) -> float:
    """Return a time of RFC 3339 in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()
