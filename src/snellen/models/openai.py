"""Models behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI itself.

What goes over the wire is decided in `chat` and, for log-likelihoods, in `served`; how long to wait in
`retry`, how many may be in flight in `limits`. Here is the one loop that asks, waits and asks again.
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
from snellen.models.base import ALL_KINDS, ModelSpec, read_options
from snellen.models.chat import Dialect, Fault
from snellen.models.connections import Connections, Reply
from snellen.models.limits import AdaptiveLimit
from snellen.models.retry import Retry
from snellen.models.served import Picture, Tokens, Way
from snellen.records import ErrorKind, Failure, Kind, Request, Response

ADAPTER = "openai-1"
"""Goes up when the same request would be put to the server differently."""

OPENAI_HOST = "api.openai.com"
DEFAULT_URL = f"https://{OPENAI_HOST}/v1"


class OpenAIOptions(Struct, frozen=True):
    """What may stand after the `?` of a model string; docs/models-openai.md explains each."""

    concurrency: Annotated[int, Meta(ge=1)] = 32
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Seconds for one attempt, from connecting to the last byte of the reply."""
    retries: Annotated[int, Meta(ge=0)] = 6
    patience: Annotated[float, Meta(ge=0)] = 300.0
    """The longest Retry-After that is waited for, in seconds."""
    prefix: Literal["auto", "send", "drop"] = "auto"
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    api_key_env: str = ""
    likelihood: Literal["auto", "extension", "prompt_logprobs", "letters", "off"] = "auto"
    """How continuations are scored (see `served`); auto takes what the server offers, but never letters."""


def open_openai(spec: ModelSpec) -> OpenAIModel:
    """The model of `openai:NAME[@URL]`. Talks to nobody yet.

    Raises ModelError for a string that makes no sense and for an API key that is not set.
    """
    _refuse_secrets(spec)
    options = read_options(spec, OpenAIOptions)
    model, url = _split_target(spec)
    return OpenAIModel(spec.text, model, url, options, _api_key(spec, url, options.api_key_env))


class OpenAIModel:
    """An `AsyncModel` that asks for chat completions.

    A request that fails has a typed `error` in its response, after up to `retries` further attempts.
    ModelError is raised only for what would fail every request: a refused key (401, 403), no
    credit (402, insufficient_quota), an unknown model or path (404), a redirection, an untrusted
    certificate.
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
        """`sleep` waits between attempts, `now` (seconds since 1970) dates a Retry-After: tests pass their own."""
        self.name = name
        self.concurrency = options.concurrency
        self.limit = AdaptiveLimit(options.concurrency)
        self._model, self._url, self._options, self._key = model, url, options, key
        self._sleep, self._now = sleep, now
        self._retry = Retry(retries=options.retries, patience=options.patience)
        self._pictures = chat.Pictures()
        headers = {"content-type": "application/json", "accept": "application/json", "user-agent": "snellen"}
        self._connections = Connections(url, headers | ({"authorization": f"Bearer {key}"} if key else {}))
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
        unable = options.likelihood == "off" or (options.likelihood == "auto" and hosted)
        self.kinds: frozenset[Kind] = frozenset({"generate"}) if unable else ALL_KINDS
        """Whether a server can score is asked when the first continuations are to be scored."""
        likelihood = options.likelihood
        self._way: Way | Fault | None = None if likelihood == "auto" or likelihood == "off" else likelihood
        self._detecting = asyncio.Lock()

    def fingerprint(self) -> dict[str, str]:
        """What is known of what answers: a server does not tell the digest of its weights."""
        known = {"adapter": ADAPTER, "model": self._model, "server": self._url, "prefix": self._options.prefix}
        # What auto chooses among measures the same; letters are another quantity.
        return known | ({"likelihood": "letters"} if self._way == "letters" else {})

    async def close(self) -> None:
        await self._connections.close()

    async def ask(self, request: Request, images: Images) -> Response:
        """The response, or a failure in it. Raises ModelError as the class says."""
        if request.kind not in self.kinds:
            return _failed("model", f"{self.name} does not do {request.kind}; {served.OTHERWISE}", 1)
        attempt = 1
        gained: dict[str, Tokens] = {}
        while True:
            outcome = await self._attempt(request, images, gained)
            if isinstance(outcome, Response):
                return outcome
            detail = self._presentable(outcome.detail)
            if outcome.fatal:
                raise ModelError(f"{self.name}: {detail}")
            wait = self._retry.wait(attempt, request.key, outcome.retry_after) if outcome.retry else None
            if wait is None:
                return _failed(outcome.kind, detail, attempt)
            await self._sleep(wait)
            attempt += 1

    async def _attempt(self, request: Request, images: Images, gained: dict[str, Tokens]) -> Response | Fault:
        """One turn in a slot; asking again at once in words that the server knows is part of it.

        `gained` keeps the parts of a request that were answered, for the next attempt.
        """
        acquired = await self.limit.acquire()
        try:
            while True:
                if fault := await self._learn_prefix(request):
                    return fault
                dialect = self._dialect
                if request.kind == "generate":
                    outcome = await self._generate(request, images, dialect)
                else:
                    outcome = await self._score(request, images, dialect, gained)
                if isinstance(outcome, Response) or not outcome.refuses:
                    break
                if self._dialect is dialect:  # else another request has learned it meanwhile
                    adapted = chat.adapt(dialect, outcome, self._settled)
                    if adapted is None:
                        break
                    self._dialect = adapted
            if isinstance(outcome, Response):
                self.limit.succeeded()
            elif outcome.kind == "rate_limit":
                self.limit.slow_down(acquired)
            return outcome
        finally:
            self.limit.release()

    async def _generate(self, request: Request, images: Images, dialect: Dialect) -> Response | Fault:
        started = time.perf_counter()
        reply = await self._send(chat.PATH, images, lambda picture: chat.encode(self._model, request, dialect, picture))
        outcome = reply if isinstance(reply, Fault) else chat.read(reply, self._now())
        if isinstance(outcome, Fault):
            return outcome
        seconds = time.perf_counter() - started
        return replace(outcome, seconds=seconds, notes=(*chat.notes_for(request, dialect), *outcome.notes))

    async def _score(
        self, request: Request, images: Images, dialect: Dialect, gained: dict[str, Tokens]
    ) -> Response | Fault:
        way = await self._learn_way()
        if isinstance(way, Fault):
            return way
        started = time.perf_counter()
        outcome: Response | Reply | Fault
        if way == "prompt_logprobs":
            outcome = await self._score_prompts(request, images, dialect, gained)
        elif way == "extension":
            outcome = await self._send(
                served.EXTENSION_PATH, images, lambda picture: served.encode_extension(self._model, request, picture)
            )
            outcome = served.read_extension(outcome, request, self._now()) if isinstance(outcome, Reply) else outcome
        else:
            outcome = await self._send(
                chat.PATH, images, lambda picture: served.encode_letters(self._model, request, dialect, picture)
            )
            if isinstance(outcome, Reply):
                outcome = served.read_letters(outcome, len(request.continuations), self._now())
        return replace(outcome, seconds=time.perf_counter() - started) if isinstance(outcome, Response) else outcome

    async def _score_prompts(
        self, request: Request, images: Images, dialect: Dialect, gained: dict[str, Tokens]
    ) -> Response | Fault:
        """One request a continuation and one for the prompt alone, one behind the other.

        So the server finds the picture of the first in its caches for the others. The prompt alone is
        the last: asked only for its tokens, all but its end is what the server has just computed.
        """

        async def learn(text: str | None, scored: bool) -> Tokens | Fault:
            name = "" if text is None else f"={text}"
            if name not in gained:
                reply = await self._send(
                    chat.PATH,
                    images,
                    lambda picture: served.encode_prompt(self._model, request, text, dialect, picture, scored=scored),
                )
                tokens = reply if isinstance(reply, Fault) else served.read_prompt(reply, self._now(), scored=scored)
                if isinstance(tokens, Fault):
                    return tokens
                gained[name] = tokens
            return gained[name]

        prompts: list[Tokens] = []
        for text in request.continuations:
            if isinstance(tokens := await learn(text, True), Fault):
                return tokens
            prompts.append(tokens)
        alone = await learn(None, scored=not all(prompt.named for prompt in prompts))
        return alone if isinstance(alone, Fault) else served.border_scores(alone, prompts, request.continuations)

    async def _send(self, path: str, images: Images, write: Callable[[Picture], bytes]) -> Reply | Fault:
        """Post what `write` makes of the pictures; what cannot be written is a fault too."""
        try:
            body = write(lambda image: self._pictures.part(image, images.read))
        except (DataError, ValueError) as error:
            return Fault("bad_request", str(error))
        return await self._exchange("POST", path, body)

    async def _learn_way(self) -> Way | Fault:
        """Ask once, and only when it matters, how the server scores continuations; or that it does not."""
        async with self._detecting:
            if self._way is None:
                reply = await self._exchange("GET", "/models")
                way = reply if isinstance(reply, Fault) else served.offered(reply, self._model, self._now())
                if isinstance(way, Fault) and not way.fatal:
                    return way
                self._way = way
            return self._way

    async def _learn_prefix(self, request: Request) -> Fault | None:
        """Ask once, and only when it matters, whether the server continues a final assistant message."""
        if self._prefix_known or not chat.ends_open(request):
            return None
        async with self._detecting:
            if self._prefix_known:
                return None
            reply = await self._exchange("GET", "/models")
            answer = reply if isinstance(reply, Fault) else chat.continues(reply, self._now())
            if isinstance(answer, Fault):
                return answer
            if answer:
                self._dialect = replace(self._dialect, prefix="send")
            self._prefix_known = True
        return None

    async def _exchange(self, method: str, path: str, body: bytes = b"") -> Reply | Fault:
        """One HTTP exchange; what goes wrong below HTTP is a fault that is worth another attempt."""
        limit = self._options.timeout
        try:
            async with asyncio.timeout(limit):
                return await self._connections.send(method, path, body)
        except TimeoutError:
            return Fault("timeout", f"no complete reply within {limit:g} s; raise timeout= for slow models", retry=True)
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            httpcore.ProxyError,
        ) as error:
            what = str(error) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in what:
                hint = "name the certificate of its authority in SSL_CERT_FILE"
                return Fault("connection", f"{self._url}: {what}; {hint}", fatal=True)
            return Fault("connection", f"{self._url}: {what}; is the server running?", retry=True)

    def _presentable(self, detail: str) -> str:
        """One short line without a key in it: servers repeat the key that they refuse."""
        if self._key:
            detail = detail.replace(self._key, "***")
        detail = re.sub(r"\bsk-[\w*-]+|(?<=Bearer )\S+", "***", detail)
        detail = " ".join(detail.split())
        return detail if len(detail) <= 300 else f"{detail[:297]}..."


def _failed(kind: ErrorKind, detail: str, attempts: int) -> Response:
    return Response(error=Failure(kind, detail, attempts))


def _refuse_secrets(spec: ModelSpec) -> None:
    """A model string is stored with the run and printed; it must not hold a key. The errors do not repeat it."""
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
    return match["model"], (match["url"] or DEFAULT_URL).rstrip("/")


def _is_openai(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.hostname == OPENAI_HOST


def _api_key(spec: ModelSpec, url: str, variable: str) -> str:
    """The key from the environment. OPENAI_API_KEY goes to OpenAI alone unless it is asked for by name."""
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
