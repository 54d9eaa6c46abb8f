"""Services whose format is not OpenAI's. A `Provider` is a record with what is different for one of them.

Everything else, such as retries and limits, is the same for all. A package adds a service by an
entry point in the group `snellen.models` that names its `Provider`. Model strings
`NAME:MODEL[@URL]` then reach it (docs/providers.md).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.images import Images
from snellen.errors import DataError, ModelError
from snellen.formats.json_files import JSON_FAULTS, decode_whole
from snellen.formats.shown_text import HALF_CHARACTERS
from snellen.models.api_keys import api_key, refuse_secrets
from snellen.models.base import ShownByName, failed
from snellen.models.batches import BatchCalls, BatchEndpoint
from snellen.models.chat import PREFIX_DROPPED, ImagePartCache, has_response_prefix
from snellen.models.client import Client, ClientOptions, Clock
from snellen.models.connections import HttpReply, HttpRequest, check_url
from snellen.models.identity import ADDRESS, address_of
from snellen.models.key_references import with_keys
from snellen.models.key_removal import presentable, without_key
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.models.request_options import with_extra_fields
from snellen.models.server_faults import (
    ReportedError,
    ServerFault,
    fault_of_reported,
    fault_of_status,
    read_reported_error,
    says_unsupported,
)
from snellen.records import ImagePart, ImageRef, Request, RequestKind, Response, Role

OK = 200


class AskedModel(Struct, frozen=True):
    """The request and the settings from which a provider makes the body of a request."""

    model: str
    request: Request
    """The request after the options of the model string were applied. It does not end with an assistant message."""
    options: ClientOptions
    reasoning_tokens: int
    """Tokens that the reply may have for its reasoning; 0 for a model that does not reason."""
    image: Callable[[ImageRef], msgspec.Raw]
    """An image as the provider's content part."""
    refused: frozenset[str] = frozenset()
    """Which of the provider's `droppable` fields the model has refused."""

    @property
    def system(self) -> tuple[str, ...]:
        """The texts of the system messages."""
        texts = []
        for message in self.request.messages:
            if message.role == "system":
                texts.append(message.text)
        return tuple(texts)

    def turns(self, write_text: Callable[[str], Any]) -> Iterator[tuple[Role, list[Any]]]:
        """Yield the role and the content parts of each message, without system messages.

        Args:
            write_text: Returns a text as a content part in the provider's format. Images are
                converted by `image`.
        """
        for message in self.request.messages:
            if message.role == "system":
                continue
            parts: list[Any] = []
            for part in message.content:
                if isinstance(part, ImagePart):
                    parts.append(self.image(part.image))
                else:
                    parts.append(write_text(part.text))
            yield message.role, parts

    @property
    def most_tokens(self) -> int:
        """Maximum number of tokens of the reply, including its reasoning."""
        return self.request.decoding.max_new_tokens + self.reasoning_tokens


class OutgoingRequest(Struct, frozen=True):
    """A complete request, for a function that computes its headers, such as a signature."""

    method: str
    url: str
    body: bytes


HeaderSource = Callable[[OutgoingRequest], Awaitable[Mapping[str, str]]]


class Provider(Struct, frozen=True):
    """A service: how requests to it are written, and how its replies are read.

    Calling it with a parsed model string returns the model.

    Examples:
        >>> parrot = Provider(
        ...     name="parrot",
        ...     url="https://parrot.example/v1",
        ...     path=lambda model: "/say",
        ...     key_variables=(),
        ...     write=lambda asked: {"prompt": asked.request.messages[-1].text, "length": asked.most_tokens},
        ...     read=lambda body: Response(text=body["reply"]),
        ...     image=lambda media_type, base64: b'"%b"' % base64,
        ...     image_types=frozenset({"image/png"}),
        ... )
        >>> parrot.name
        'parrot'
    """

    name: str
    """The scheme of its model strings: `parrot` in `parrot:MODEL`."""
    url: str
    """Address of the service, to which paths are appended; `{region}` stands for the option `region`."""
    path: Callable[[str], str]
    """Returns the path for a model's name, which is appended to `url`."""
    key_variables: tuple[str, ...]
    """Environment variables that may hold the key, the first that is set."""
    write: Callable[[AskedModel], dict[str, Any]]
    """The body of a request."""
    read: Callable[[Any], Response | ServerFault]
    """Returns the response in the decoded body of a reply with status 200, or a fault.

    If it raises KeyError, TypeError, ValueError or an error of msgspec, the reply counts as malformed.
    """
    image: Callable[[str, bytes], bytes]
    """Returns the JSON of a content part, given a media type and an image in base64."""
    image_types: frozenset[str]
    """Media types that it takes; others are sent as PNG."""
    headers: Callable[[str], dict[str, str]] = lambda key: {"authorization": f"Bearer {key}"}
    """Returns the HTTP headers of every request, given the API key."""
    read_error: Callable[[HttpReply, float], ReportedError] = lambda reply, now: (
        read_reported_error(reply.body)
    )
    """Returns the error in a reply with another status, given the reply and the time in seconds since 1970."""
    droppable: Mapping[str, tuple[str, ...]] = {}
    """Fields that may be left out if a model rejects them, by the name that the error message uses for them.

    The value is the path of the field in the body, such as `("generationConfig", "seed")`. With an empty path, `write`
    has to leave the field out itself (see `AskedModel.refused`). If a message contains several of the names, the first
    one here counts.
    """
    untaken: tuple[str, ...] = ()
    """Those of `temperature`, `top_p` and `seed` that the service does not accept."""
    untaken_while_thinking: tuple[str, ...] = ()
    """Those of them that it accepts only if the model does not reason."""
    version: int = 1
    """Increases when the same request would be sent differently."""
    options: type[ClientOptions] = ClientOptions
    """The record of the options after `?` in its model strings."""
    open_batches: Callable[[BatchCalls], BatchEndpoint] | None = None
    """Its batch endpoint, if it has one; its `options` then have a field `batch`."""
    open_headers: Callable[[ModelSpec, Any], HeaderSource | None] = lambda spec, options: None
    """Returns a function that computes the headers of each request, such as a signature or a token that expires.

    It returns None if the service is used with an API key.
    """

    def __call__(self, spec: ModelSpec) -> ProviderModel:
        """Return the model of a model string `NAME:MODEL[@URL]`. The service is not contacted yet.

        Raises ModelError if the string is invalid or the API key is missing.
        """
        refuse_secrets(spec)
        options = read_options(spec, self.options)
        model, _, url = spec.target.partition("@")
        fields = {name: getattr(options, name) for name in options.__struct_fields__}
        missing = ""
        if not url:
            missing = next((name for name in self._options_in_url if not fields[name]), "")
        if not model or missing:
            needed_option = f"?{missing}=..." if missing else ""
            raise ModelError(
                f"{spec.text}: invalid model string; write {self.name}:MODEL{needed_option}"
            )
        if not url:
            url = self.url.format(**fields)
        url = url.rstrip("/")
        check_url(spec.text, url)
        url = with_keys(url)
        headers = self.open_headers(spec, options)
        key = "" if headers else api_key(spec, options.api_key_env, self.key_variables)
        return ProviderModel(spec, self, model, ServiceAddress(url, key, headers), options)

    @property
    def _options_in_url(self) -> tuple[str, ...]:
        """Return the options that the service's URL contains, such as `region` for `{region}`; () if there are none.

        Without a value for each of them, the URL is incomplete.
        """
        names = []
        for name in self.options.__struct_fields__:
            if f"{{{name}}}" in self.url:
                names.append(name)
        return tuple(names)


class ServiceAddress(Struct, frozen=True):
    """The address of a service, and either the API key for it or a function that computes the headers."""

    url: str
    key: str = ""
    headers: HeaderSource | None = None


class ProviderModel(ShownByName):
    """An `AsyncModel` at the service of a `Provider`.

    It generates replies, but cannot score options, because these services give no log-likelihoods
    of a prompt.
    """

    kinds: frozenset[RequestKind] = frozenset({"generate"})

    def __init__(
        self,
        spec: ModelSpec,
        provider: Provider,
        model: str,
        service: ServiceAddress,
        options: ClientOptions,
        clock: Clock = Clock(),  # noqa: B008
    ) -> None:
        self.name = spec.text
        self.concurrency = options.concurrency
        self._provider = provider
        self._model = model
        self._options = options
        self._service = service
        headers = {} if service.headers else provider.headers(service.key)
        self.client = Client(self.name, (service.url,), options, service.key, headers, clock)
        self._image_parts = ImagePartCache(write=provider.image, media_types=provider.image_types)
        self._refused: frozenset[str] = frozenset()
        self.batch_endpoint: BatchEndpoint | None = None
        self._batch_calls: BatchCalls | None = None
        if provider.open_batches is not None and getattr(options, "batch", False):
            self._batch_calls = BatchCalls(
                self.name, service.url, options, service.key, headers, clock
            )
            self.batch_endpoint = provider.open_batches(self._batch_calls)

    def fingerprint(self) -> dict[str, str]:
        """Return the facts that are known about the model. A service does not report a digest of its weights."""
        provider = self._provider
        facts = {"adapter": f"{provider.name}-{provider.version}", "model": self._model}
        address = address_of(self.name)
        if address:  # else it is the service's own
            facts[ADDRESS] = address
        return facts | self._options.facts(self._model)

    @property
    def waiting(self) -> int:
        return self.client.waiting

    def stop_sending(self) -> None:
        self.client.stop_sending()

    async def close(self) -> None:
        await self.client.close()
        if self._batch_calls is not None:
            await self._batch_calls.close()

    async def ask(self, request: Request, images: Images) -> Response:
        """Return the response to a request. If only this request failed, the response has an `error`.

        Raises ModelError for a fault that every request would have, such as a wrong API key.
        """
        if request.kind not in self.kinds:
            return failed(
                "model",
                f"{self.name} does not provide log-likelihoods; use a local model or a vLLM server for them",
            )
        shaped, notes = self._as_sent(request)
        response = await self.client.ask(request, lambda: self._send(shaped, images))
        return replace(response, notes=(*notes, *response.notes))

    def _as_sent(self, request: Request) -> tuple[Request, list[str]]:
        """Return the request as it is sent to the service, and notes on the settings that are left out."""
        shaped = self._options.applied(request)
        notes = []
        for name in self._unsupported_settings(shaped):
            notes.append(f"{name} was not sent: the service does not accept it")
        if has_response_prefix(shaped):
            shaped = replace(shaped, messages=shaped.messages[:-1])
            notes.append(PREFIX_DROPPED)
        return shaped, notes

    def _unsupported_settings(self, request: Request) -> list[str]:
        """Return the settings that are set in a request but that the service does not accept, such as `seed`."""
        decoding = request.decoding
        is_set = {
            "temperature": True,
            "top_p": decoding.top_p < 1,
            "seed": decoding.temperature > 0,
        }
        untaken = list(self._provider.untaken)
        options = self._options
        if options.reasoning_tokens or options.reasoning_effort not in ("", "none"):
            untaken += self._provider.untaken_while_thinking
        return [name for name in untaken if is_set[name]]

    async def _send(self, request: Request, images: Images) -> Response | ServerFault:
        """Send a request. If the model rejects a field that may be left out, send it again at once without the field."""
        while True:
            refused = self._refused
            outcome = await self._exchange(request, images, refused)
            if isinstance(outcome, Response):
                return replace(outcome, notes=(*outcome.notes, *_left_out(refused)))
            name = outcome.rejected_parameter
            if not name:
                return outcome
            self._refused |= {name}

    async def _exchange(
        self, request: Request, images: Images, refused: frozenset[str]
    ) -> Response | ServerFault:
        """Send a request once, without the fields in `refused`, and return the response with its duration in seconds."""
        path = self._provider.path(self._model)
        service = self._service

        async def compose() -> HttpRequest:
            content = self._body(request, images, refused)
            headers: Mapping[str, str] = {}
            if service.headers:
                headers = await service.headers(
                    OutgoingRequest("POST", service.url + path, content)
                )
            return HttpRequest("POST", path, content, headers)

        started = time.perf_counter()
        try:
            reply = await self.client.exchange(compose)
        except DataError as error:
            return ServerFault("bad_request", str(error))
        outcome = reply if isinstance(reply, ServerFault) else self._read(reply, refused)
        if isinstance(outcome, ServerFault):
            return outcome
        return replace(outcome, seconds=time.perf_counter() - started)

    def _body(self, request: Request, images: Images, refused: frozenset[str]) -> bytes:
        """Return the JSON body of a request without the fields in `refused`.

        Raises DataError if it cannot be written, for example because an image is damaged.
        """
        provider = self._provider
        options = self._options
        call = AskedModel(
            model=self._model,
            request=request,
            options=options,
            reasoning_tokens=options.reasoning_budget(self._model),
            image=lambda image: self._image_parts.part(image, images.read),
            refused=refused,
        )
        try:
            body = provider.write(call)
            for name in refused:
                _leave_out(body, provider.droppable[name])
            return msgspec.json.encode(with_extra_fields(body, options.extra_body))
        except ValueError as error:
            raise DataError(str(error)) from None

    # --- requests in batches ---

    @property
    def batch_form(self) -> str:
        """Names of the fields that the model has rejected so far, separated by spaces; empty if there are none."""
        return " ".join(sorted(self._refused))

    async def batch_body(self, request: Request, images: Images) -> bytes:
        """Return the JSON body of a request as `ask` sends it. Raises DataError for an image that cannot be read."""
        shaped, _ = self._as_sent(request)
        return self._body(shaped, images, self._refused)

    def read_batched(self, request: Request, reply: HttpReply, form: str) -> Response | ServerFault:
        """Return the response in the service's reply to a request of a batch, or a fault.

        Args:
            request: The request.
            reply: The reply.
            form: The value of `batch_form` when the request was written, which names the fields
                that were left out.
        """
        refused = frozenset(form.split())
        outcome = self._read(reply, refused)
        if isinstance(outcome, ServerFault):
            return replace(outcome, detail=presentable(outcome.detail, self._service.key))
        _, notes = self._as_sent(request)
        all_notes = (*notes, *outcome.notes, *_left_out(refused))
        return without_key(replace(outcome, notes=all_notes), self._service.key)

    def adapt_batches(self, fault: ServerFault) -> bool:
        """From now on, leave out the field that a fault names. Returns False if it is left out already."""
        if fault.rejected_parameter in self._refused:
            return False
        self._refused |= {fault.rejected_parameter}
        return True

    # --- reading ---

    def _read(self, reply: HttpReply, refused: frozenset[str]) -> Response | ServerFault:
        """Return the response in an HTTP reply, or a fault.

        Args:
            reply: The reply.
            refused: The fields that the request was sent without.
        """
        now = self.client.now()
        if reply.status != OK:
            error = self._provider.read_error(reply, now)
            rejected = self._rejected(error, refused)
            return fault_of_status(reply, error, now, "check the model's name", rejected)
        try:
            body, has_halves = decode_whole(reply.body, msgspec.json.decode)
            if isinstance(body, dict) and body.get("error"):
                return fault_of_reported(self._provider.read_error(reply, now))
            outcome = self._provider.read(body)
        except (*JSON_FAULTS, KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"the reply does not have the format of {self._provider.name}: {_lack(error)}"
            return ServerFault("malformed", detail, retry=True)
        if has_halves and isinstance(outcome, Response):
            return replace(outcome, notes=(*outcome.notes, HALF_CHARACTERS))
        return outcome

    def _rejected(self, error: ReportedError, refused: frozenset[str]) -> str:
        """Return the name of a field that the error rejects and that can be left out; empty if there is none."""
        if not says_unsupported(error):
            return ""
        for name in self._provider.droppable:
            if name in error.message and name not in refused:
                return name
        return ""


def _lack(error: Exception) -> str:
    """Return what is wrong with a reply, as a part of a message, judged by the error that reading it raised."""
    match error:
        case KeyError():
            return f"it has no {error}"
        case TypeError() | AttributeError():
            return "a part of it is null, or has an unexpected type"
        case _:
            return str(error)


def _left_out(refused: frozenset[str]) -> list[str]:
    """Return a note for each field that the model refused."""
    return [f"{name} was not sent: the server rejects it" for name in sorted(refused)]


def _leave_out(body: dict[str, Any], path: tuple[str, ...]) -> None:
    """Remove a field from a body, given by its path: ("generationConfig", "seed").

    Nothing happens if the path is empty or does not exist.
    """
    if not path:
        return
    *tables, name = path
    for table in tables:
        body = body.get(table, {})
    body.pop(name, None)
