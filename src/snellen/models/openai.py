"""Models behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI itself, Azure.

`chat` writes the requests, `option_scorer` scores options, and `client` sends, waits and retries.
This module finds out which variant of the format (dialect) a server accepts, and whether it can
continue a given beginning of a reply.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import quote, urlsplit

import msgspec
from msgspec.structs import replace

from snellen.common.foreign import without_secrets
from snellen.common.images import Images
from snellen.errors import DataError, ModelError
from snellen.models import chat, served, server_facts
from snellen.models.api_keys import api_key, key_not_sent, refuse_secrets
from snellen.models.base import ALL_KINDS, NO_CONTINUATIONS, ReplyListener, ShownByName, failed
from snellen.models.batches import BatchCalls, OpenAIBatches, only_one_server
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.client import Client, Clock
from snellen.models.connections import HttpReply, HttpRequest, check_url
from snellen.models.identity import ADDRESS, hosts_of
from snellen.models.key_references import with_keys
from snellen.models.key_removal import presentable, without_key
from snellen.models.model_strings import ModelSpec
from snellen.models.openai_places import (
    AZURE_ADDRESS,
    OPENAI_HOST,
    AzureOptions,
    OpenAIOptions,
    Place,
    is_openai,
    split_target,
)
from snellen.models.openai_stream import ChatStream
from snellen.models.option_scorer import OptionScorer
from snellen.models.options import read_options
from snellen.models.served import ImageEncoder, PromptTokens
from snellen.models.server_faults import ServerFault
from snellen.models.template_dates import date_note
from snellen.records import ImageRef, Request, RequestKind, Response

ADAPTER = "openai-2"
"""Version of the adapter; increases if the same request would be sent differently."""


def open_openai(spec: ModelSpec) -> OpenAIModel:
    """Return the model of `openai:NAME[@URL[,URL...]]`, without contacting a server.

    Raises ModelError for an invalid string and for a missing API key.
    """
    refuse_secrets(spec)
    options = read_options(spec, OpenAIOptions)
    model, references = split_target(spec)
    urls = tuple(map(with_keys, references))
    hosted = is_openai(urls[0])
    # OPENAI_API_KEY is sent only to OpenAI, unless named explicitly.
    key = api_key(
        spec,
        options.api_key_env,
        ("OPENAI_API_KEY",) if hosted else (),
        "give the address of your server with @URL",
    )
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return OpenAIModel(spec.text, model, Place(urls, hosted, headers=headers, key=key), options)


def open_azure(spec: ModelSpec) -> OpenAIModel:
    """Return the model of `azure:DEPLOYMENT[@https://RESOURCE.openai.azure.com]`.

    The default address is AZURE_OPENAI_ENDPOINT. Raises ModelError for an invalid string, and for a missing address or
    API key.
    """
    refuse_secrets(spec)
    options = read_options(spec, AzureOptions)
    if options.batch:
        raise ModelError(
            f"{spec.text}: batch=true is available for openai: and anthropic:; remove it"
        )
    deployment, _, url = spec.target.partition("@")
    url = (url or os.environ.get(AZURE_ADDRESS, "")).rstrip("/")
    if not url:
        raise ModelError(
            f"{spec.text}: the Azure resource is missing; write "
            f"azure:DEPLOYMENT@https://RESOURCE.openai.azure.com, or set the environment variable {AZURE_ADDRESS} "
            "to its address"
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
        self._model = model
        self._place = place
        self._options = options
        self._served = RequestedModel(model, options, place.hosted)
        # A key may also be part of an address, as `${NAME}`.
        sends_no_key = not place.key and not place.headers and "${" not in name
        self.client = Client(
            name,
            place.urls,
            options,
            place.key,
            place.headers,
            clock,
            hint_without_key=key_not_sent() if sends_no_key else "",
        )
        self._image_parts = chat.ImagePartCache(
            write=partial(chat.image_part, detail=options.detail)
        )
        self.batch_endpoint: OpenAIBatches | None = None
        if options.batch:
            only_one_server(name, place.urls)
            calls = BatchCalls(name, place.urls[0], options, place.key, place.headers, clock)
            self.batch_endpoint = OpenAIBatches(calls)
        max_tokens_field = options.max_tokens_field
        if max_tokens_field == "auto":
            max_tokens_field = "max_completion_tokens" if place.hosted else "max_tokens"
        self._dialect = Dialect(
            prefix="send" if options.prefix == "send" else "drop",
            max_tokens_field=max_tokens_field,
        )
        settled = set()
        if options.prefix != "auto":
            settled.add("prefix")
        if options.max_tokens_field != "auto":
            settled.add("max_tokens")
        self._settled = frozenset(settled)
        """Parts of the dialect that the user has fixed."""
        self._prefix_known = options.prefix != "auto" or place.hosted
        likelihood = options.likelihood
        # Hosted services do not score continuations, nor do batches.
        is_unsupported = likelihood == "auto" and place.hosted
        cannot_score = options.batch or likelihood == "off" or is_unsupported
        self.kinds: frozenset[RequestKind] = frozenset({"generate"}) if cannot_score else ALL_KINDS
        """Kinds of requests. Whether the server can score is determined with the first continuations."""
        self._scorer = OptionScorer(
            self._served,
            options,
            self.send,
            self._list_models,
            lambda image, images: self._image_parts.part(image, images.read),
            self.client.now,
            self._settled,
        )
        self._detecting = asyncio.Lock()

    def fingerprint(self) -> dict[str, str]:
        """Return what is known about the model.

        A server does not report a digest of its weights. So the fingerprint contains its address,
        the interface, and whether it is OpenAI's own.
        """
        place = self._place
        url = place.urls[0]
        is_openais_own = is_openai(url)
        path = without_secrets(urlsplit(url).path) + place.query
        facts = {
            "adapter": ADAPTER,
            "model": self._model,
            "endpoint": OPENAI_HOST if is_openais_own else path,
            "prefix": self._options.prefix,
            **self._options.facts(self._model),
            **self._served.date_facts(),
        }
        if self._options.detail:
            facts["image detail"] = self._options.detail
        if not is_openais_own:
            facts[ADDRESS] = hosts_of(place.urls)
        # The sources that auto chooses from measure the same quantity; letters measure another.
        if self._scorer.scores_letters:
            facts["likelihood"] = "letters"
        return facts

    async def server_facts(self) -> dict[str, str]:
        """Return what each server states about the model, such as its revision.

        {} for services such as OpenAI, which state nothing that helps.
        """
        urls = self._place.urls
        if self._place.hosted:
            return {}
        facts_by_server = await asyncio.gather(*(self._facts_of_server(url) for url in urls))
        facts: dict[str, str] = {}
        for url, stated in zip(urls, facts_by_server, strict=True):
            host = hosts_of([url])
            for name, text in stated.items():
                facts[f"{name} at {host}"] = presentable(text, self._place.key)
        return facts

    async def _facts_of_server(self, url: str) -> dict[str, str]:
        """Return what one server states: in its list of models, and at a further address if it is of a known kind."""
        reply = await self.client.ask_about_server(self._compose_list, url)
        if reply is None:
            return {}
        facts = server_facts.read_listed_facts(reply, self._model)
        for path in server_facts.further_paths(facts, self._model):
            request = HttpRequest("GET", path, from_root=True)

            async def compose(request: HttpRequest = request) -> HttpRequest:
                return request

            reply = await self.client.ask_about_server(compose, url)
            if reply is None:
                return facts
            further_facts = server_facts.read_further_facts(path, reply, self._model)
            if further_facts:
                return facts | further_facts
        return facts

    @property
    def waiting(self) -> int:
        return self.client.waiting

    def stop_sending(self) -> None:
        self.client.stop_sending()

    async def close(self) -> None:
        await self.client.close()
        if self.batch_endpoint is not None:
            await self.batch_endpoint.calls.close()

    async def ask_streaming(
        self, request: Request, images: Images, listener: ReplyListener
    ) -> Response:
        """Return the response like `ask`, calling `listener` while the reply arrives. Raises ModelError as the class says."""
        return await self._ask(request, images, listener)

    async def ask(self, request: Request, images: Images) -> Response:
        """Return the response, or a response with a failure. Raises ModelError as the class says."""
        return await self._ask(request, images)

    async def _ask(
        self, request: Request, images: Images, listener: ReplyListener | None = None
    ) -> Response:
        """Send a request to the server and return its response.

        A request that the model does not support, such as one for log-likelihoods, fails at once.
        """
        if request.kind not in self.kinds:
            return failed(
                "model", f"{self.name} does not support {request.kind}; {served.OTHERWISE}"
            )
        if request.kind == "loglikelihood" and not request.continuations:
            return failed("bad_request", NO_CONTINUATIONS)
        shaped = self._options.applied(request)
        answered_prompts: dict[str, PromptTokens] = {}

        async def send() -> Response | ServerFault:
            """Send the request once.

            Scoring may take several prompts. If one of them fails, those that were answered are
            remembered, and the next attempt does not send them again.
            """
            outcome = await self._send_in_dialect(shaped, images, answered_prompts, listener)
            if isinstance(outcome, Response):
                # The circuit breaker may call this again later to test the server. It must then really send something.
                answered_prompts.clear()
            return outcome

        return self._with_date(shaped, await self.client.ask(request, send))

    def _with_date(self, shaped: Request, response: Response) -> Response:
        """Return a response with a note if the server's chat template is known to write today's date into prompts."""
        if response.error is not None:
            return response
        has_system = any(message.role == "system" for message in shaped.messages)
        date_notes = date_note(self._model, has_system)
        if not date_notes:
            return response
        return replace(response, notes=(*date_notes, *response.notes))

    # --- requests in batches ---

    @property
    def batch_form(self) -> str:
        """The variant of the chat format in which requests are written now (`Dialect`), as JSON."""
        return msgspec.json.encode(self._dialect, order="sorted").decode()

    async def batch_body(self, request: Request, images: Images) -> bytes:
        """Return the body of a request as `ask` sends it. Raises DataError if an image cannot be read."""
        shaped = self._options.applied(request)
        await self._learn_prefix(shaped)
        try:
            return chat.encode_chat(
                self._served,
                shaped,
                self._dialect,
                lambda image: self._image_parts.part(image, images.read),
                caches_images=self._options.cache_images,
            )
        except ValueError as error:
            raise DataError(str(error)) from None

    def read_batched(self, request: Request, reply: HttpReply, form: str) -> Response | ServerFault:
        """Read the server's reply to a request that was sent in a batch.

        Args:
            request: The request.
            reply: Status and body of the reply.
            form: The form in which the request was written (`batch_form`): a `Dialect` as JSON.

        Returns:
            The response, or a fault if the server reports an error or the reply cannot be read.
        """
        shaped = self._options.applied(request)
        dialect = msgspec.json.decode(form, type=Dialect)
        outcome = chat.read_chat(reply, self.client.now())
        if isinstance(outcome, ServerFault):
            return replace(outcome, detail=presentable(outcome.detail, self._place.key))
        notes = (*chat.request_notes(shaped, dialect), *outcome.notes)
        response = self._with_date(shaped, replace(outcome, notes=notes))
        return without_key(response, self._place.key)

    def adapt_batches(self, fault: ServerFault) -> bool:
        """From now on, write requests in a variant that avoids a fault. Returns False if there is no such variant."""
        adapted = chat.adapt_dialect(self._dialect, fault, self._settled)
        if adapted is None:
            return False
        self._dialect = adapted
        return True

    async def _send_in_dialect(
        self,
        request: Request,
        images: Images,
        answered_prompts: dict[str, PromptTokens],
        listener: ReplyListener | None,
    ) -> Response | ServerFault:
        """Send a request. If the server rejects a parameter, send the request again at once without it.

        What the server rejects is remembered for all later requests.
        """
        while True:
            await self._learn_prefix(request)
            dialect = self._dialect
            if request.kind == "generate":
                outcome = await self._generate(request, images, dialect, listener)
            else:
                outcome = await self._scorer.score(request, images, dialect, answered_prompts)
            if isinstance(outcome, Response):
                # The server has answered a request that ends with the beginning of a reply. Even if it does not say
                # whether it continues such a beginning, the present assumption is kept for the rest of the run.
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
        """Send a request for a reply once. If there is a listener, it is called with the text so far as it arrives."""
        started = time.perf_counter()
        stream = ChatStream(listener) if listener else None

        def write(encode_image: ImageEncoder) -> bytes:
            return chat.encode_chat(
                self._served,
                request,
                dialect,
                encode_image,
                streaming=stream is not None,
                caches_images=self._options.cache_images,
            )

        reply = await self.send(chat.PATH, images, write, stream.watch if stream else None)
        if isinstance(reply, ServerFault):
            return reply
        if stream:
            reply = stream.assemble(reply)
        outcome = chat.read_chat(reply, self.client.now())
        if isinstance(outcome, ServerFault):
            return outcome
        seconds = time.perf_counter() - started
        notes = (*chat.request_notes(request, dialect), *outcome.notes)
        return replace(outcome, seconds=seconds, notes=notes)

    async def send(
        self,
        path: str,
        images: Images,
        write: Callable[[ImageEncoder], bytes],
        watch: Callable[[bytes], None] | None = None,
        *,
        from_root: bool = False,
    ) -> HttpReply | ServerFault:
        """Send a body to a path of the server, and return the reply. A body that cannot be built gives a fault.

        Args:
            path: The path, which is appended to the server's address.
            images: Where images are read.
            write: Returns the body. It is given a function that returns an image as a content part.
            watch: Called with the bytes of the reply as they arrive.
            from_root: Whether the path replaces the path of the address, such as `/v1`, instead of
                being appended to it.
        """

        def encode_image(image: ImageRef) -> msgspec.Raw:
            return self._image_parts.part(image, images.read)

        async def compose() -> HttpRequest:
            try:
                body = write(encode_image)
            except ValueError as error:
                raise DataError(str(error)) from None
            return HttpRequest("POST", path + self._place.query, body, from_root=from_root)

        try:
            return await self.client.exchange(compose, watch)
        except DataError as error:
            return ServerFault("bad_request", str(error))

    async def _learn_prefix(self, request: Request) -> None:
        """Find out once whether the server continues an assistant message at the end of a conversation.

        This is done when it is first needed. As long as the server does not answer, it is assumed
        that it does not. After its first answer this is not asked again.
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
