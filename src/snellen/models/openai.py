"""Models behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI itself.

`chat` and, for log-likelihoods, `served` define what is sent over the wire; `retry` how long to wait, `limits`
how many requests may be in flight. This module has the one loop that asks, waits and retries.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

import httpcore
from msgspec import Meta, Struct
from msgspec.structs import replace

from snellen.errors import DataError, ModelError
from snellen.images import Images
from snellen.models import chat, served
from snellen.models.base import ALL_KINDS, NO_CONTINUATIONS, ModelSpec, read_options
from snellen.models.breaker import CircuitBreaker
from snellen.models.chat import Dialect, ServerFault
from snellen.models.connections import MOST_BYTES, Connections, HttpReply, TooLongError, check_url
from snellen.models.limits import AdaptiveLimit
from snellen.models.redaction import presentable, without_key
from snellen.models.retry import Retry
from snellen.models.served import LikelihoodSource, PictureEncoder, PromptTokens
from snellen.records import ErrorKind, Failure, Kind, Request, Response

ADAPTER = "openai-1"
"""Adapter version; increases when the same request would be sent differently."""

OPENAI_HOST = "api.openai.com"
DEFAULT_URL = f"https://{OPENAI_HOST}/v1"


class OpenAIOptions(Struct, frozen=True):
    """Options after the `?` of a model string; docs/models-openai.md explains each."""

    concurrency: Annotated[int, Meta(ge=1, le=10_000)] = 32
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Time limit of one attempt in seconds, from connecting to the last byte of the reply."""
    retries: Annotated[int, Meta(ge=0)] = 6
    patience: Annotated[float, Meta(ge=0)] = 300.0
    """The longest Retry-After to wait for, in seconds."""
    stop_after: Annotated[int, Meta(ge=0)] = 16
    """Requests that fail in a row before the server is only probed, and the run ends when that fails too; 0: never."""
    reply_bytes: Annotated[int, Meta(ge=1024)] = MOST_BYTES
    """The longest reply that is read."""
    prefix: Literal["auto", "send", "drop"] = "auto"
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    api_key_env: str = ""
    likelihood: Literal["auto", "extension", "prompt_logprobs", "letters", "off"] = "auto"
    """How continuations are scored (see `served`); auto uses what the server offers, but never letters."""


def open_openai(spec: ModelSpec) -> OpenAIModel:
    """The model of `openai:NAME[@URL]`. Does not contact the server yet.

    Raises ModelError for an invalid string and for a missing API key.
    """
    _refuse_secrets(spec)
    options = read_options(spec, OpenAIOptions)
    model, url = _split_target(spec)
    return OpenAIModel(spec.text, model, url, options, _api_key(spec, url, options.api_key_env))


class OpenAIModel:
    """An `AsyncModel` that requests chat completions.

    A request that fails has a typed `error` in its response, after up to `retries` further attempts.
    ModelError is raised only for faults that every request would share: a refused key (401, 403), no
    credit (402, insufficient_quota), an unknown model or path (404), a redirection, an untrusted
    certificate; and when the server answers nobody any more (`CircuitBreaker`).
    """

    def __init__(
        self,
        name: str,
        model: str,
        url: str,
        options: OpenAIOptions,
        key: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`sleep` waits between attempts and `now` (seconds since 1970) evaluates Retry-After; tests pass their own."""
        self.name = name
        self.concurrency = options.concurrency
        self.limit = AdaptiveLimit(options.concurrency)
        self._model, self._url, self._options, self._key = model, url, options, key
        self._sleep, self._now = sleep, now
        self._retry = Retry(retries=options.retries, patience=options.patience)
        self._breaker = CircuitBreaker(options.stop_after, self._retry, sleep)
        self._pictures = chat.ImagePartCache()
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "snellen"}
        sent_headers = headers | ({"authorization": f"Bearer {key}"} if key else {})
        self._connections = Connections(url, sent_headers, options.reply_bytes)
        hosted = _is_openai(url)
        field = options.max_tokens_field
        self._dialect = Dialect(
            prefix="send" if options.prefix == "send" else "drop",
            max_tokens_field=field if field != "auto" else "max_completion_tokens" if hosted else "max_tokens",
        )
        self._settled = frozenset(
            name
            for name, choice in (("prefix", options.prefix), ("max_tokens", options.max_tokens_field))
            if choice != "auto"
        )
        self._prefix_known = options.prefix != "auto" or hosted
        cannot_score = options.likelihood == "off" or (options.likelihood == "auto" and hosted)
        self.kinds: frozenset[Kind] = frozenset({"generate"}) if cannot_score else ALL_KINDS
        """Whether the server can score is determined with the first continuations to score."""
        likelihood = options.likelihood
        self._likelihood_source: LikelihoodSource | ServerFault | None = (
            None if likelihood == "auto" or likelihood == "off" else likelihood
        )
        self._detecting = asyncio.Lock()

    def fingerprint(self) -> dict[str, str]:
        """What is known about the model: a server does not report a digest of its weights."""
        facts = {"adapter": ADAPTER, "model": self._model, "server": self._url, "prefix": self._options.prefix}
        # The sources that auto chooses from measure the same quantity; letters measure another.
        return facts | ({"likelihood": "letters"} if self._likelihood_source == "letters" else {})

    async def close(self) -> None:
        await self._connections.close()

    async def ask(self, request: Request, images: Images) -> Response:
        """The response, or a failure in it. Raises ModelError as the class says."""
        if request.kind not in self.kinds:
            return _failed("model", f"{self.name} does not do {request.kind}; {served.OTHERWISE}", 1)
        if request.kind == "loglikelihood" and not request.continuations:
            return _failed("bad_request", NO_CONTINUATIONS, 1)
        attempt = 1
        answered_prompts: dict[str, PromptTokens] = {}
        while True:
            outcome = await self._attempt(request, images, answered_prompts)
            if isinstance(outcome, Response):
                answered_prompts.clear()  # the breaker may send the same again, to see whether anybody answers
                return without_key(outcome, self._key)
            detail = presentable(outcome.detail, self._key)
            if outcome.fatal:
                raise ModelError(f"{self.name}: {detail}")
            if outcome.retry and self._breaker.is_open:
                continue
            wait = self._retry.wait(attempt, request.key, outcome.retry_after) if outcome.retry else None
            if wait is None:
                return _failed(outcome.kind, detail, attempt)
            await self._sleep(wait)
            attempt += 1

    async def _attempt(
        self, request: Request, images: Images, answered_prompts: dict[str, PromptTokens]
    ) -> Response | ServerFault:
        """One attempt in a slot, as soon as the breaker lets it through.

        `answered_prompts` keeps the parts of a request that were answered for the next attempt.
        """
        acquired = await self.limit.acquire()
        try:
            outcome = await self._breaker.attempt(
                request.key, lambda: self._send_in_dialect(request, images, answered_prompts)
            )
            if isinstance(outcome, Response):
                self.limit.succeeded(acquired)
            elif outcome.kind == "rate_limit":
                self.limit.slow_down(acquired)
            return outcome
        finally:
            self.limit.release()

    async def _send_in_dialect(
        self, request: Request, images: Images, answered_prompts: dict[str, PromptTokens]
    ) -> Response | ServerFault:
        """What comes of a request, sent again at once in a dialect that the server accepts."""
        while True:
            if fault := await self._learn_prefix(request):
                return fault
            dialect = self._dialect
            if request.kind == "generate":
                outcome = await self._generate(request, images, dialect)
            else:
                outcome = await self._score(request, images, dialect, answered_prompts)
            if isinstance(outcome, Response) or not outcome.rejected_parameter:
                return outcome
            if self._dialect is dialect:  # else another request has adapted it meanwhile
                adapted = chat.adapt_dialect(dialect, outcome, self._settled)
                if adapted is None:
                    return outcome
                self._dialect = adapted

    async def _generate(self, request: Request, images: Images, dialect: Dialect) -> Response | ServerFault:
        started = time.perf_counter()
        reply = await self._send(
            chat.PATH, images, lambda picture: chat.encode_chat(self._model, request, dialect, picture)
        )
        outcome = reply if isinstance(reply, ServerFault) else chat.read_chat(reply, self._now())
        if isinstance(outcome, ServerFault):
            return outcome
        seconds = time.perf_counter() - started
        return replace(outcome, seconds=seconds, notes=(*chat.request_notes(request, dialect), *outcome.notes))

    async def _score(
        self, request: Request, images: Images, dialect: Dialect, answered_prompts: dict[str, PromptTokens]
    ) -> Response | ServerFault:
        source = await self._learn_likelihood_source()
        if isinstance(source, ServerFault):
            return source
        started = time.perf_counter()
        outcome: Response | HttpReply | ServerFault
        if source == "prompt_logprobs":
            outcome = await self._score_prompts(request, images, dialect, answered_prompts)
        elif source == "extension":
            outcome = await self._send(
                served.EXTENSION_PATH, images, lambda picture: served.encode_extension(self._model, request, picture)
            )
            outcome = (
                served.read_extension(outcome, request, self._now()) if isinstance(outcome, HttpReply) else outcome
            )
        else:
            outcome = await self._send(
                chat.PATH, images, lambda picture: served.encode_letters(self._model, request, dialect, picture)
            )
            if isinstance(outcome, HttpReply):
                outcome = served.read_letters(outcome, len(request.continuations), self._now())
        return replace(outcome, seconds=time.perf_counter() - started) if isinstance(outcome, Response) else outcome

    async def _score_prompts(
        self, request: Request, images: Images, dialect: Dialect, answered_prompts: dict[str, PromptTokens]
    ) -> Response | ServerFault:
        """One request per continuation and one for the prompt alone, sent in sequence.

        This way the server has the picture in its cache after the first. The prompt alone comes last: only
        its tokens are requested, and the server has just computed all but its end.
        """

        async def learn(text: str | None, scored: bool) -> PromptTokens | ServerFault:
            name = "" if text is None else f"={text}"
            if name not in answered_prompts:
                reply = await self._send(
                    chat.PATH,
                    images,
                    lambda picture: served.logprobs_request_body(
                        self._model, request, text, dialect, picture, scored=scored
                    ),
                )
                tokens = (
                    reply if isinstance(reply, ServerFault) else served.read_prompt(reply, self._now(), scored=scored)
                )
                if isinstance(tokens, ServerFault):
                    return tokens
                answered_prompts[name] = tokens
            return answered_prompts[name]

        prompts: list[PromptTokens] = []
        for text in request.continuations:
            if isinstance(tokens := await learn(text, True), ServerFault):
                return tokens
            prompts.append(tokens)
        alone = await learn(None, scored=not all(prompt.named for prompt in prompts))
        return alone if isinstance(alone, ServerFault) else served.border_scores(alone, prompts, request.continuations)

    async def _send(
        self, path: str, images: Images, write: Callable[[PictureEncoder], bytes]
    ) -> HttpReply | ServerFault:
        """Post the body that `write` builds with encoded pictures; a body that cannot be built is a fault too."""
        try:
            body = write(lambda image: self._pictures.part(image, images.read))
        except (DataError, ValueError) as error:
            return ServerFault("bad_request", str(error))
        return await self._exchange("POST", path, body)

    async def _learn_likelihood_source(self) -> LikelihoodSource | ServerFault:
        """Ask the server once, and only when needed, how it scores continuations, if at all."""
        async with self._detecting:
            if self._likelihood_source is None:
                reply = await self._exchange("GET", "/models")
                source = (
                    reply
                    if isinstance(reply, ServerFault)
                    else served.likelihood_source_of(reply, self._model, self._now())
                )
                if isinstance(source, ServerFault) and not source.fatal:
                    return source
                self._likelihood_source = source
            return self._likelihood_source

    async def _learn_prefix(self, request: Request) -> ServerFault | None:
        """Ask the server once, and only when needed, whether it continues a final assistant message."""
        if self._prefix_known or not chat.has_response_prefix(request):
            return None
        async with self._detecting:
            if self._prefix_known:
                return None
            reply = await self._exchange("GET", "/models")
            answer = reply if isinstance(reply, ServerFault) else chat.continues_response_prefix(reply, self._now())
            if isinstance(answer, ServerFault):
                return answer
            if answer:
                self._dialect = replace(self._dialect, prefix="send")
            self._prefix_known = True
        return None

    async def _exchange(self, method: str, path: str, body: bytes = b"") -> HttpReply | ServerFault:
        """One HTTP exchange; a failure below HTTP is a fault that is worth another attempt."""
        limit = self._options.timeout
        try:
            async with asyncio.timeout(limit):
                return await self._connections.send(method, path, body)
        except TooLongError:
            most = self._options.reply_bytes
            detail = f"the reply is longer than {most:,} bytes; raise reply_bytes= if that is right"
            return ServerFault("too_long", detail)
        except TimeoutError:
            return ServerFault(
                "timeout", f"no complete reply within {limit:g} s; raise timeout= for slow models", retry=True
            )
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            httpcore.ProxyError,
        ) as error:
            message = str(error) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in message:
                hint = "name the certificate of its authority in SSL_CERT_FILE"
                return ServerFault("connection", f"{self._url}: {message}; {hint}", fatal=True)
            return ServerFault("connection", f"{self._url}: {message}; is the server running?", retry=True)


def _failed(kind: ErrorKind, detail: str, attempts: int) -> Response:
    return Response(error=Failure(kind, detail, attempts))


def _refuse_secrets(spec: ModelSpec) -> None:
    """Refuse keys in a model string, which is stored with the run and printed. The errors do not repeat the key."""
    variable = spec.options.get("api_key_env", "")
    if "api_key" in spec.options or not re.fullmatch(r"[A-Za-z_]\w*|", variable):
        raise ModelError(
            "openai: a key does not belong in the model string, which is stored with the run; "
            "put it into an environment variable and write ?api_key_env=ITS_NAME"
        )
    if re.search(r"://[^/]*@", spec.target):
        raise ModelError("openai: a user or password does not belong in the URL; write ?api_key_env=NAME_OF_VARIABLE")


def _split_target(spec: ModelSpec) -> tuple[str, str]:
    """The model's name and the base URL of `NAME[@URL]`. Raises ModelError."""
    if not (match := re.fullmatch(r"(?P<model>[^@].*?)(?:@(?P<url>https?://[^/].*))?", spec.target)) or (
        not match["url"] and re.search(r"://|@[\w.]+(:\d|/)", spec.target)
    ):
        raise ModelError(
            f"{spec.text}: cannot be read; write openai:NAME@http://HOST:PORT/v1, or openai:NAME for OpenAI"
        )
    url = (match["url"] or DEFAULT_URL).rstrip("/")
    check_url(spec.text, url)
    return match["model"], url


def _is_openai(url: str) -> bool:
    address = urlsplit(url)
    return address.scheme == "https" and address.hostname == OPENAI_HOST


def _api_key(spec: ModelSpec, url: str, variable: str) -> str:
    """The key from the environment. OPENAI_API_KEY is sent only to OpenAI, unless named explicitly."""
    hosted = _is_openai(url)
    name = variable or ("OPENAI_API_KEY" if hosted else "")
    if not name:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        hint = " or point the model at a server of yours with @http://HOST:PORT/v1" if hosted and not variable else ""
        raise ModelError(f"{spec.text}: the environment variable {name} is not set; put the API key into it{hint}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ModelError(f"{spec.text}: the environment variable {name} does not hold an API key; set it again")
    return key
