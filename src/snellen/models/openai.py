"""Models behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI itself, Azure.

`chat` and, for log-likelihoods, `served` define what is sent over the wire; `client` asks, waits and retries. Here
stands what is particular to such servers: which of them continue a reply, and how they score.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.foreign import without_secrets
from snellen.common.images import Images
from snellen.errors import DataError, ModelError
from snellen.extraction.thoughts import split_thoughts
from snellen.formats.json_files import JSON_FAULTS, decode_whole
from snellen.models import chat, served, server_facts
from snellen.models.api_keys import api_key, refuse_secrets
from snellen.models.base import ALL_KINDS, NO_CONTINUATIONS, ReplyListener, ShownByName, failed
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.client import Client, ClientOptions, Clock, answering_string
from snellen.models.connections import HttpReply, HttpRequest, check_url
from snellen.models.identity import ADDRESS, hosts_of
from snellen.models.key_references import with_keys
from snellen.models.key_removal import presentable
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.models.served import LikelihoodSource, PictureEncoder, PromptTokens
from snellen.models.server_faults import ServerFault
from snellen.models.template_dates import date_note
from snellen.records import Kind, Request, Response

ADAPTER = "openai-2"
"""Adapter version; increases when the same request would be sent differently."""

OPENAI_HOST = "api.openai.com"
DEFAULT_URL = f"https://{OPENAI_HOST}/v1"
AZURE_ADDRESS = "AZURE_OPENAI_ENDPOINT"
"""The environment variable with the address of a resource, where a model string has none."""


class OpenAIOptions(ClientOptions, frozen=True):
    """Options after the `?` of a model string; docs/models-openai.md explains each."""

    prefix: Literal["auto", "send", "drop"] = "auto"
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    likelihood: Literal["auto", "extension", "prompt_logprobs", "letters", "off"] = "auto"
    """How continuations are scored (see `served`); auto uses what the server offers, but never letters."""


class AzureOptions(OpenAIOptions, frozen=True):
    """The same for a deployment on Azure."""

    api_version: str = ""
    """Of the dated interface, such as 2024-10-21; empty: the one without dates, under /openai/v1."""


class Place(Struct, frozen=True):
    """Where a model's servers are reached, and how they are told who asks."""

    urls: tuple[str, ...]
    """Of several servers with the same model, all on the same path."""
    hosted: bool = False
    """Whether it is a service that speaks OpenAI's own newest form of the format."""
    query: str = ""
    """Goes behind every path."""
    headers: dict[str, str] = {}
    key: str = ""
    """Kept out of what is stored and printed."""


def identity_of_string(spec: ModelSpec) -> str:
    """`openai:NAME@PATH?options`: the model string without the hosts of its servers and how they are asked.

    OpenAI's own models have no path. Raises ModelError for a target that cannot be read.
    """
    model, urls = _split_target(spec)
    return answering_string(
        spec, model if _is_openai(urls[0]) else f"{model}@{urlsplit(urls[0]).path}"
    )


def identity_of_deployment(spec: ModelSpec) -> str:
    """The same of a deployment on Azure, which is known by its name and its resource."""
    deployment, _, url = spec.target.partition("@")
    return answering_string(
        spec, f"{deployment}@{urlsplit(url or os.environ.get(AZURE_ADDRESS, '')).netloc}"
    )


def open_openai(spec: ModelSpec) -> OpenAIModel:
    """The model of `openai:NAME[@URL[,URL...]]`. Does not contact a server yet.

    Raises ModelError for an invalid string and for a missing API key.
    """
    refuse_secrets(spec)
    options = read_options(spec, OpenAIOptions)
    model, references = _split_target(spec)
    urls = tuple(map(with_keys, references))
    hosted = _is_openai(urls[0])
    # OPENAI_API_KEY is sent only to OpenAI, unless named explicitly.
    key = api_key(
        spec,
        options.api_key_env,
        ("OPENAI_API_KEY",) if hosted else (),
        "point the model at a server of yours with @URL",
    )
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return OpenAIModel(spec.text, model, Place(urls, hosted, headers=headers, key=key), options)


def open_azure(spec: ModelSpec) -> OpenAIModel:
    """The model of `azure:DEPLOYMENT[@https://RESOURCE.openai.azure.com]`.

    AZURE_OPENAI_ENDPOINT is the address where none is given. Raises ModelError for an invalid string, and for a missing
    address or API key.
    """
    refuse_secrets(spec)
    options = read_options(spec, AzureOptions)
    deployment, _, url = spec.target.partition("@")
    url = (url or os.environ.get(AZURE_ADDRESS, "")).rstrip("/")
    if not url:
        raise ModelError(
            f"{spec.text}: which resource? Write azure:DEPLOYMENT@https://RESOURCE.openai.azure.com, or put the "
            f"address into the environment variable {AZURE_ADDRESS}"
        )
    check_url(spec.text, url)
    url = with_keys(url)
    key = api_key(spec, options.api_key_env, ("AZURE_OPENAI_API_KEY",))
    dated = options.api_version
    base = f"{url}/openai/deployments/{quote(deployment, safe='')}" if dated else f"{url}/openai/v1"
    query = f"?api-version={quote(dated)}" if dated else ""
    return OpenAIModel(
        spec.text, deployment, Place((base,), True, query, {"api-key": key}, key), options
    )


class OpenAIModel(ShownByName):
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
        place: Place,
        options: OpenAIOptions,
        clock: Clock = Clock(),  # noqa: B008
    ) -> None:
        self.name = name
        self.concurrency = options.concurrency * len(place.urls)
        self._model, self._place, self._options = model, place, options
        self._served = RequestedModel(model, options, place.hosted)
        self.client = Client(name, place.urls, options, place.key, place.headers, clock)
        self._pictures = chat.ImagePartCache()
        field = options.max_tokens_field
        self._dialect = Dialect(
            prefix="send" if options.prefix == "send" else "drop",
            max_tokens_field=field
            if field != "auto"
            else "max_completion_tokens"
            if place.hosted
            else "max_tokens",
        )
        self._settled = frozenset(
            name
            for name, choice in (
                ("prefix", options.prefix),
                ("max_tokens", options.max_tokens_field),
            )
            if choice != "auto"
        )
        self._prefix_known = options.prefix != "auto" or place.hosted
        cannot_score = options.likelihood == "off" or (
            options.likelihood == "auto" and place.hosted
        )
        self.kinds: frozenset[Kind] = frozenset({"generate"}) if cannot_score else ALL_KINDS
        """Whether the server can score is determined with the first continuations to score."""
        likelihood = options.likelihood
        self._likelihood_source: LikelihoodSource | ServerFault | None = (
            None if likelihood == "auto" or likelihood == "off" else likelihood
        )
        self._header_note: tuple[str, ...] | None = None
        """The note on scored options, once it is known whether they follow the same header as replies."""
        self._detecting = asyncio.Lock()

    def fingerprint(self) -> dict[str, str]:
        """Return what is known about the model: a server does not report a digest of its weights, so its address is
        part of who answers, as are the interface and whether it is OpenAI's own."""
        place, url = self._place, self._place.urls[0]
        facts = {
            "adapter": ADAPTER,
            "model": self._model,
            "endpoint": OPENAI_HOST
            if _is_openai(url)
            else without_secrets(urlsplit(url).path) + place.query,
            "prefix": self._options.prefix,
            **self._options.facts(self._model),
            **self._served.date_facts(),
        }
        if not _is_openai(url):
            facts[ADDRESS] = hosts_of(place.urls)
        # The sources that auto chooses from measure the same quantity; letters measure another.
        return facts | ({"likelihood": "letters"} if self._likelihood_source == "letters" else {})

    async def server_facts(self) -> dict[str, str]:
        """Return what each server states about the model; services such as OpenAI do not state anything of use."""
        if self._place.hosted:
            return {}
        stated = await asyncio.gather(*map(self._facts_of_server, self._place.urls))
        facts: dict[str, str] = {}
        for url, facts_of_server in zip(self._place.urls, stated, strict=True):
            for name, text in facts_of_server.items():
                facts[f"{name} at {hosts_of([url])}"] = presentable(text, self._place.key)
        return facts

    async def _facts_of_server(self, url: str) -> dict[str, str]:
        reply = await self.client.ask_about_server(self._compose_list, url)
        if reply is None:
            return {}
        facts = server_facts.read_listed_facts(reply, self._model)
        path = server_facts.further_path(facts, self._model)
        if not path:
            return facts

        async def compose() -> HttpRequest:
            return HttpRequest("GET", path, from_root=True)

        reply = await self.client.ask_about_server(compose, url)
        if reply is None:
            return facts
        return facts | server_facts.read_further_facts(path, reply, self._model)

    @property
    def waiting(self) -> int:
        return self.client.waiting

    def stop_sending(self) -> None:
        self.client.stop_sending()

    async def close(self) -> None:
        await self.client.close()

    async def ask_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """`ask`, and `listener` is told of a reply while it comes. Raises ModelError as the class says."""
        return await self._ask(request, images, listener)

    async def ask(self, request: Request, images: Images) -> Response:
        """The response, or a failure in it. Raises ModelError as the class says."""
        return await self._ask(request, images)

    async def _ask(
        self, request: Request, images: Images, listener: ReplyListener | None = None
    ) -> Response:
        if request.kind not in self.kinds:
            return failed("model", f"{self.name} does not do {request.kind}; {served.OTHERWISE}")
        if request.kind == "loglikelihood" and not request.continuations:
            return failed("bad_request", NO_CONTINUATIONS)
        shaped = self._options.applied(request)
        answered_prompts: dict[str, PromptTokens] = {}

        async def send() -> Response | ServerFault:
            """An attempt, which leaves the parts of a request that were answered for the next one."""
            outcome = await self._send_in_dialect(shaped, images, answered_prompts, listener)
            if isinstance(outcome, Response):
                answered_prompts.clear()  # the breaker may send the same again, to see whether anybody answers
            return outcome

        response = await self.client.ask(request, send)
        has_system = any(message.role == "system" for message in shaped.messages)
        dated = date_note(self._model, has_system) if response.error is None else ()
        return replace(response, notes=(*dated, *response.notes)) if dated else response

    async def _send_in_dialect(
        self,
        request: Request,
        images: Images,
        answered_prompts: dict[str, PromptTokens],
        listener: ReplyListener | None,
    ) -> Response | ServerFault:
        """What comes of a request, sent again at once in a dialect that the server accepts."""
        while True:
            await self._learn_prefix(request)
            dialect = self._dialect
            if request.kind == "generate":
                outcome = await self._generate(request, images, dialect, listener)
            else:
                outcome = await self._score(request, images, dialect, answered_prompts)
            if isinstance(outcome, Response):
                # It answers, but says nothing of itself: what was taken for granted stays so for the whole run.
                self._prefix_known |= chat.has_response_prefix(request)
                return outcome
            if not outcome.rejected_parameter:
                return outcome
            if self._dialect is dialect:  # else another request has adapted it meanwhile
                adapted = chat.adapt_dialect(dialect, outcome, self._settled)
                if adapted is None:
                    return outcome
                self._dialect = adapted

    async def _generate(
        self, request: Request, images: Images, dialect: Dialect, listener: ReplyListener | None
    ) -> Response | ServerFault:
        started = time.perf_counter()
        stream = ChatStream(listener) if listener else None
        reply = await self._send(
            chat.PATH,
            images,
            lambda picture: chat.encode_chat(
                self._served, request, dialect, picture, streaming=stream is not None
            ),
            stream.watch if stream else None,
        )
        if stream and isinstance(reply, HttpReply):
            reply = stream.whole(reply)
        outcome = (
            reply if isinstance(reply, ServerFault) else chat.read_chat(reply, self.client.now())
        )
        if isinstance(outcome, ServerFault):
            return outcome
        seconds = time.perf_counter() - started
        return replace(
            outcome, seconds=seconds, notes=(*chat.request_notes(request, dialect), *outcome.notes)
        )

    async def _score(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
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
                served.EXTENSION_PATH,
                images,
                lambda picture: served.encode_extension(self._served, request, picture),
            )
            outcome = (
                served.read_extension(outcome, request, self.client.now())
                if isinstance(outcome, HttpReply)
                else outcome
            )
        else:
            outcome = await self._send(
                chat.PATH,
                images,
                lambda picture: served.encode_letters(self._served, request, dialect, picture),
            )
            if isinstance(outcome, HttpReply):
                outcome = served.read_letters(
                    outcome, len(request.continuations), self.client.now()
                )
        if not isinstance(outcome, Response):
            return outcome
        if self._likelihood_source is None:  # it answers, but says nothing of itself
            self._likelihood_source = source
        return replace(outcome, seconds=time.perf_counter() - started)

    async def _score_prompts(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
    ) -> Response | ServerFault:
        """One request per continuation and one for the mark that shows where they begin, sent in sequence.

        This way the server has the picture in its cache after the first. The mark comes last: only its tokens are
        requested, and the server has just computed all but its end. The first question of a run also asks for the
        prompt that replies follow, to see whether options follow the same.
        """

        async def learn(text: str | None, scored: bool) -> PromptTokens | ServerFault:
            name = "" if text is None else f"={text}"
            if name not in answered_prompts:
                reply = await self._send(
                    chat.PATH,
                    images,
                    lambda picture: served.logprobs_request_body(
                        self._served, request, text, dialect, picture, scored=scored
                    ),
                )
                tokens = (
                    reply
                    if isinstance(reply, ServerFault)
                    else served.read_prompt(reply, self.client.now(), scored=scored)
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
        are_named = all(prompt.lists_ids for prompt in prompts)
        marked = await learn(served.border_mark(request.continuations), scored=not are_named)
        if isinstance(marked, ServerFault):
            return marked
        if self._header_note is None and not chat.has_response_prefix(request):
            alone = await learn(None, scored=not are_named)
            if isinstance(
                alone, PromptTokens
            ):  # a courtesy: without an answer the next question asks again
                is_other = served.has_other_header(alone, marked)
                self._header_note = (served.OTHER_HEADER,) if is_other else ()
        outcome = served.border_scores(marked, prompts, request.continuations)
        if isinstance(outcome, ServerFault) or chat.has_response_prefix(request):
            return outcome
        return replace(outcome, notes=(*outcome.notes, *(self._header_note or ())))

    async def _send(
        self,
        path: str,
        images: Images,
        write: Callable[[PictureEncoder], bytes],
        watch: Callable[[bytes], None] | None = None,
    ) -> HttpReply | ServerFault:
        """Post the body that `write` builds with encoded pictures; a body that cannot be built is a fault too."""

        async def compose() -> HttpRequest:
            try:
                body = write(lambda image: self._pictures.part(image, images.read))
            except ValueError as error:
                raise DataError(str(error)) from None
            return HttpRequest("POST", path + self._place.query, body)

        try:
            return await self.client.exchange(compose, watch)
        except DataError as error:
            return ServerFault("bad_request", str(error))

    async def _learn_likelihood_source(self) -> LikelihoodSource | ServerFault:
        """Ask the server once, and only when needed, how it scores continuations, if at all.

        While it does not say so, prompt log-probabilities are tried; a question that is answered settles that.
        """
        async with self._detecting:
            if self._likelihood_source is None:
                reply = await self._list_models()
                if reply is None:
                    return "prompt_logprobs"
                self._likelihood_source = served.likelihood_source_of(reply, self._model)
            return self._likelihood_source

    async def _learn_prefix(self, request: Request) -> None:
        """Ask the server once, and only when needed, whether it continues a final assistant message.

        While it does not say so, it counts as one that does not; a question that is answered settles that.
        """
        if self._prefix_known or not chat.has_response_prefix(request):
            return
        async with self._detecting:
            if self._prefix_known:
                return
            reply = await self._list_models()
            if reply is None:
                return
            if chat.continues_response_prefix(reply):
                self._dialect = replace(self._dialect, prefix="send")
            self._prefix_known = True

    async def _list_models(self) -> HttpReply | None:
        return await self.client.ask_about_server(self._compose_list)

    async def _compose_list(self) -> HttpRequest:
        return HttpRequest("GET", "/models" + self._place.query)


def _split_target(spec: ModelSpec) -> tuple[str, tuple[str, ...]]:
    """The model's name and the base URLs of `NAME[@URL[,URL...]]`. Raises ModelError."""
    if not (
        match := re.fullmatch(r"(?P<model>[^@].*?)(?:@(?P<urls>https?://[^/].*))?", spec.target)
    ) or (not match["urls"] and re.search(r"://|@[\w.]+(:\d|/)", spec.target)):
        raise ModelError(
            f"{spec.text}: cannot be read; write openai:NAME@http://HOST:PORT/v1, or openai:NAME for OpenAI"
        )
    addresses = re.split(r",(?=https?://)", match["urls"] or DEFAULT_URL)
    urls = tuple(dict.fromkeys(url.rstrip("/") for url in addresses))
    for url in urls:
        check_url(spec.text, url)
    if len({OPENAI_HOST if _is_openai(url) else urlsplit(url).path for url in urls}) > 1:
        raise ModelError(
            f"{spec.text}: servers of one model have the same path behind their hosts; end all URLs alike"
        )
    return match["model"], urls


def _is_openai(url: str) -> bool:
    address = urlsplit(url)
    return address.scheme == "https" and address.hostname == OPENAI_HOST


# --- A chat completion that comes in parts (server-sent events), put together to the one that would have ---


EVENT = b"data:"
DONE = b"[DONE]"


class _Delta(Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _PartialChoice(Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Part(Struct, frozen=True):
    choices: tuple[_PartialChoice, ...] = ()
    error: msgspec.Raw = msgspec.Raw(b"null")


_read_part = msgspec.json.Decoder(_Part).decode


class ChatStream:
    """What has come of one reply. A server that does not stream sends it whole, and is heard all the same."""

    def __init__(self, listener: ReplyListener) -> None:
        self._listener = listener
        self._line, self._texts = b"", dict[str, str]()
        self._finish: str | None = None
        self._error: msgspec.Raw | None = None
        self._fault = ""
        self._ended = False

    def watch(self, part: bytes) -> None:
        """Take the next bytes, wherever they are cut, and tell the listener what there is of the answer now."""
        *lines, self._line = (self._line + part).split(b"\n")
        before = self._texts.get("content")
        for line in lines:
            if line.startswith(EVENT):
                self._take(line.removeprefix(EVENT).strip())
        if self._texts.get("content") != before:
            self._listener(split_thoughts(self._texts["content"]).answer)

    def _take(self, event: bytes) -> None:
        if event == DONE:
            self._ended = True
            return
        try:
            part, _ = decode_whole(event, _read_part)
        except JSON_FAULTS as error:
            self._fault = f"an event of the stream cannot be read: {error}"
            return
        if bytes(part.error) != b"null":
            self._error = part.error
        for choice in part.choices[:1]:
            if bytes(choice.error) != b"null":
                self._error = choice.error
            for name in _Delta.__struct_fields__:
                if text := getattr(choice.delta, name):
                    self._texts[name] = self._texts.get(name, "") + text
            self._finish = choice.finish_reason or self._finish

    def whole(self, reply: HttpReply) -> HttpReply:
        """The reply as if it had come whole; unchanged where it was not a stream. One that broke off is malformed."""
        is_stream = reply.headers.get("content-type", "").startswith("text/event-stream")
        if reply.status != HTTPStatus.OK or not is_stream:
            return reply
        body: dict[str, Any]
        if self._error is not None:
            body = {"error": self._error}
        elif self._fault or not (self._ended or self._finish):
            body = {"malformed": self._fault or "the stream ended before the reply did"}
        else:
            body = {"choices": [{"message": self._texts, "finish_reason": self._finish}]}
        return replace(reply, body=msgspec.json.encode(body))
