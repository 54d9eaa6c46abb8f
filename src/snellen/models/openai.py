"""Models behind any OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, OpenAI itself, Azure.

`chat` and, for log-likelihoods, `served` define what is sent; `client` sends, waits and retries. This module determines
how such servers differ: which of them continue a reply, and how they score.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
from snellen.models import chat, next_tokens, served, server_facts, sglang_scoring
from snellen.models.api_keys import api_key, key_not_sent, refuse_secrets
from snellen.models.base import ALL_KINDS, NO_CONTINUATIONS, ReplyListener, ShownByName, failed
from snellen.models.batches import BatchCalls, OpenAIBatches, only_one_server
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.client import Client, ClientOptions, Clock, answering_string
from snellen.models.connections import HttpReply, HttpRequest, check_url
from snellen.models.identity import ADDRESS, hosts_of
from snellen.models.key_references import with_keys
from snellen.models.key_removal import presentable, without_key
from snellen.models.model_strings import ModelSpec
from snellen.models.options import read_options
from snellen.models.served import ImageEncoder, LikelihoodSource, PromptTokens
from snellen.models.server_faults import ServerFault
from snellen.models.template_dates import date_note
from snellen.records import ImageRef, Message, Request, RequestKind, Response, TextPart

ADAPTER = "openai-2"
"""Version of the adapter; increases if the same request would be sent differently."""

OPENAI_HOST = "api.openai.com"
DEFAULT_URL = f"https://{OPENAI_HOST}/v1"
AZURE_ADDRESS = "AZURE_OPENAI_ENDPOINT"
"""Environment variable with the address of a resource, for model strings without one."""


class OpenAIOptions(ClientOptions, frozen=True):
    """Options after the `?` of a model string; docs/models-openai.md explains each."""

    prefix: Literal["auto", "send", "drop"] = "auto"
    max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    likelihood: Literal[
        "auto", "extension", "next_tokens", "generate", "prompt_logprobs", "letters", "off"
    ] = "auto"
    """How continuations are scored (see `served`); auto uses what the server offers, but never letters."""
    detail: Literal["", "auto", "low", "high", "original"] = ""
    """The detail in which the service looks at an image (`image_url.detail`); empty if the service decides."""
    batch: bool = False
    """Whether a run submits its requests in batches, at half price and within a day."""
    cache_images: bool = False
    """Whether images are marked with `cache_control`, for services such as OpenRouter that forward it to Claude."""


class AzureOptions(OpenAIOptions, frozen=True):
    """Options of a deployment on Azure."""

    api_version: str = ""
    """Version of the dated interface, such as 2024-10-21; empty for the interface without dates, under /openai/v1."""


class Place(Struct, frozen=True):
    """The addresses of a model's servers, and the credentials for them."""

    urls: tuple[str, ...]
    """Addresses of servers with the same model, all with the same path."""
    hosted: bool = False
    """Whether it is a service with OpenAI's own newest variant of the format."""
    query: str = ""
    """Query string that is appended to every path."""
    headers: dict[str, str] = {}
    key: str = ""
    """API key, which is never stored or printed."""


def identity_of_string(spec: ModelSpec) -> str:
    """Return `openai:NAME@PATH?options`: the model string without hosts and without options of the transport.

    OpenAI's own models have no path. Raises ModelError if the target cannot be parsed.
    """
    model, urls = _split_target(spec)
    return answering_string(
        spec, model if _is_openai(urls[0]) else f"{model}@{urlsplit(urls[0]).path}"
    )


def identity_of_deployment(spec: ModelSpec) -> str:
    """Return the model string of a deployment on Azure without options of the transport: its name and its resource."""
    deployment, _, url = spec.target.partition("@")
    return answering_string(
        spec, f"{deployment}@{urlsplit(url or os.environ.get(AZURE_ADDRESS, '')).netloc}"
    )


def open_openai(spec: ModelSpec) -> OpenAIModel:
    """Return the model of `openai:NAME[@URL[,URL...]]`, without contacting a server.

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
        self._likelihood_source: LikelihoodSource | ServerFault | None = None
        """How the server scores continuations; None until it is known."""
        if likelihood != "auto" and likelihood != "off":
            self._likelihood_source = likelihood
        self._header_note: tuple[str, ...] | None = None
        """Note on scored options, once it is known whether they follow the same header as replies."""
        self._gives_next_tokens: bool | None = None
        """Whether continuations can be scored by next tokens; None before it was tried."""
        self._adapter: str | None = None
        """The adapter (LoRA) that SGLang is asked for; None until it is known."""
        self._opened_thought: str | None = None
        """The mark with which SGLang's template opens a thought before replies, or empty; None until it is known."""
        self._detecting = asyncio.Lock()

    def fingerprint(self) -> dict[str, str]:
        """Return what is known about the model.

        A server does not report a digest of its weights, so its address is part of the fingerprint, as are the
        interface and whether it is OpenAI's own.
        """
        place = self._place
        url = place.urls[0]
        is_openai = _is_openai(url)
        path = without_secrets(urlsplit(url).path) + place.query
        facts = {
            "adapter": ADAPTER,
            "model": self._model,
            "endpoint": OPENAI_HOST if is_openai else path,
            "prefix": self._options.prefix,
            **self._options.facts(self._model),
            **self._served.date_facts(),
        }
        if self._options.detail:
            facts["image detail"] = self._options.detail
        if not is_openai:
            facts[ADDRESS] = hosts_of(place.urls)
        # The sources that auto chooses from measure the same quantity; letters measure another.
        if self._likelihood_source == "letters":
            facts["likelihood"] = "letters"
        return facts

    async def server_facts(self) -> dict[str, str]:
        """Return what each server states about the model. Services such as OpenAI state nothing useful."""
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
        """Send a request to the server and return its response. Requests that the model does not support fail at once."""
        if request.kind not in self.kinds:
            return failed(
                "model", f"{self.name} does not support {request.kind}; {served.OTHERWISE}"
            )
        if request.kind == "loglikelihood" and not request.continuations:
            return failed("bad_request", NO_CONTINUATIONS)
        shaped = self._options.applied(request)
        answered_prompts: dict[str, PromptTokens] = {}

        async def send() -> Response | ServerFault:
            """Send the request once. If it fails in part, the prompts that were answered are not sent again by the next attempt."""
            outcome = await self._send_in_dialect(shaped, images, answered_prompts, listener)
            if isinstance(outcome, Response):
                answered_prompts.clear()  # the breaker may send the same again, to see whether anybody answers
            return outcome

        return self._with_date(shaped, await self.client.ask(request, send))

    def _with_date(self, shaped: Request, response: Response) -> Response:
        """Return the response, with a note on the date in the server's template if the template is known to write one."""
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
        """The known dialect of the server, as JSON."""
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
        """Switch to a dialect that the server accepts after a fault. Returns False if there is none."""
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
        """Send a request, and send it again at once in another dialect if the server rejects the first."""
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
        """Send a request for a reply once, in a dialect. A listener receives the reply while it arrives."""
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

        reply = await self._send(chat.PATH, images, write, stream.watch if stream else None)
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

    async def _score(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
    ) -> Response | ServerFault:
        """Return the scores of a request's continuations, in the way that the server supports.

        `answered_prompts` keeps the prompts that were scored, for another attempt.
        """
        source = await self._learn_likelihood_source()
        if isinstance(source, ServerFault):
            return source
        started = time.perf_counter()
        outcome: Response | ServerFault
        by_next_tokens: Response | ServerFault | None = None
        if source == "next_tokens" and self._gives_next_tokens is not False:
            by_next_tokens = await self._score_next_tokens(request, images, dialect)
        if by_next_tokens is not None:
            outcome = by_next_tokens
        elif source in ("next_tokens", "prompt_logprobs"):
            outcome = await self._score_prompts(request, images, dialect, answered_prompts)
        elif source == "generate":
            outcome = await self._score_generate(request, images)
        elif source == "extension":
            reply = await self._send(
                served.EXTENSION_PATH,
                images,
                lambda encode_image: served.encode_extension(self._served, request, encode_image),
            )
            if isinstance(reply, ServerFault):
                return reply
            outcome = served.read_extension(reply, request, self.client.now())
        else:
            reply = await self._send(
                chat.PATH,
                images,
                lambda encode_image: served.encode_letters(
                    self._served, request, dialect, encode_image
                ),
            )
            if isinstance(reply, ServerFault):
                return reply
            outcome = served.read_letters(reply, len(request.continuations), self.client.now())
        if isinstance(outcome, ServerFault):
            return outcome
        if self._likelihood_source is None:  # the server answers, but says nothing of itself
            self._likelihood_source = source
        return replace(outcome, seconds=time.perf_counter() - started)

    async def _score_next_tokens(
        self, request: Request, images: Images, dialect: Dialect
    ) -> Response | ServerFault | None:
        """Score continuations by the probabilities of their tokens after a prompt that the server computes once.

        Returns None if the server has no such addresses or refuses these requests, or if these tokens cannot be scored
        in this way; then `_score_prompts` scores them.
        """
        if not all(text.strip() for text in request.continuations):
            return None

        async def tokenise(continuation: str | None) -> tuple[int, ...] | ServerFault:
            reply = await self._send(
                next_tokens.TOKENIZE_PATH,
                images,
                lambda encode_image: next_tokens.tokenize_body(
                    self._served, request, continuation, encode_image
                ),
                from_root=True,
            )
            if isinstance(reply, ServerFault):
                return reply
            return next_tokens.read_tokens(reply, self.client.now())

        prompts: list[tuple[int, ...]] = []
        mark = served.border_mark(request.continuations)
        for continuation in (None, mark, *request.continuations):
            prompt = await tokenise(continuation)
            if isinstance(prompt, ServerFault):
                return self._fault_of_tokens(prompt)
            prompts.append(prompt)
        alone, marked, *continued = prompts
        endings = next_tokens.endings_after(alone, continued)
        # Where the header before a scored reply is another one, no prompt of a reply has these tokens after it.
        if endings is None or len(marked) > len(alone) + served.MARK_TOKENS:
            if self._gives_next_tokens is None:
                self._gives_next_tokens = False
            return None
        following = next_tokens.tokens_after_beginnings(endings)
        if len(following) > next_tokens.MOST_BEGINNINGS * len(endings):
            return None

        logprobs: dict[next_tokens.Beginning, Mapping[int, float]] = {}
        read_prompt: tuple[int, ...] = ()
        for beginning, tokens in following.items():
            if len(tokens) > next_tokens.MOST_TOKENS:
                return None
            messages = await self._begun_messages(request, endings, beginning, images)
            if isinstance(messages, ServerFault):
                return self._fault_of_tokens(messages)
            if messages is None:
                return None
            after = await self._ask_next_tokens(messages, tokens, images, dialect)
            if isinstance(after, ServerFault):
                return self._fault_of_next_tokens(after)
            if after is None:
                self._gives_next_tokens = False
                return None
            if not beginning:
                read_prompt = after.prompt
            if after.prompt != (*read_prompt, *beginning):
                return None
            logprobs[beginning] = after.logprobs
        self._gives_next_tokens = True
        return next_tokens.summed_scores(endings, request.continuations, logprobs)

    async def _score_generate(self, request: Request, images: Images) -> Response | ServerFault:
        """Score continuations over SGLang: one request computes the prompt, further ones the longer options after it."""
        tokenised = await self._tokenise_for_generate(request, images)
        if isinstance(tokenised, ServerFault):
            return tokenised
        question, endings = tokenised

        async def generate(body: bytes) -> HttpReply | ServerFault:
            return await self._send(
                sglang_scoring.GENERATE_PATH, images, lambda _: body, from_root=True
            )

        first_tokens = sorted({ending[0] for ending in endings})
        reply = await generate(sglang_scoring.prompt_body(question, first_tokens))
        if isinstance(reply, ServerFault):
            return reply
        prompt = sglang_scoring.read_computed_prompt(reply, first_tokens, self.client.now())
        if isinstance(prompt, ServerFault):
            return prompt

        logprobs: list[list[float]] = []
        for ending, continuation in zip(endings, request.continuations, strict=True):
            if len(ending) == 1:
                logprobs.append([prompt.next_logprobs[ending[0]]])
                continue
            reply = await generate(sglang_scoring.option_body(question, ending, prompt.length))
            if isinstance(reply, ServerFault):
                return reply
            values = sglang_scoring.read_option(
                reply, question.context, continuation, self.client.now()
            )
            if isinstance(values, ServerFault):
                return values
            logprobs.append(values)
        return sglang_scoring.option_scores(logprobs, request.continuations)

    async def _tokenise_for_generate(
        self, request: Request, images: Images
    ) -> tuple[sglang_scoring.ScoredQuestion, list[tuple[int, ...]]] | ServerFault:
        """Return a question in the tokens that SGLang writes of it, and the tokens of each continuation."""
        opened_thought = await self._learn_opened_thought(request, images)
        if isinstance(opened_thought, ServerFault):
            return opened_thought
        if opened_thought:
            return sglang_scoring.scored_in_thought(opened_thought)
        prompts: list[tuple[int, ...]] = []
        mark = served.border_mark(request.continuations)
        for continuation in (mark, *request.continuations):
            prompt = await self._tokens_by_sglang(request, continuation, images)
            if isinstance(prompt, ServerFault):
                return prompt
            prompts.append(prompt)

        context, (_, *endings) = sglang_scoring.context_and_endings(prompts)
        for ending, continuation in zip(endings, request.continuations, strict=True):
            if not ending:
                return served.no_tokens(continuation)
        adapter = self._adapter
        if adapter is None:
            listed = await self._list_models()
            adapter = sglang_scoring.adapter_of(self._model, listed)
            if listed is not None:
                self._adapter = adapter
        try:
            urls = sglang_scoring.image_urls(
                request, lambda image: self._image_parts.part(image, images.read)
            )
        except DataError as error:
            return ServerFault("bad_request", str(error))
        question = sglang_scoring.ScoredQuestion(context, urls, adapter, self._options.extra_body)
        return question, endings

    async def _tokens_by_sglang(
        self, request: Request, continuation: str, images: Images
    ) -> tuple[int, ...] | ServerFault:
        """Return the tokens that SGLang writes of a conversation with a continuation at its end."""
        reply = await self._send(
            sglang_scoring.TOKENIZE_PATH,
            images,
            partial(sglang_scoring.conversation_body, self._served, request, continuation),
            from_root=True,
        )
        if isinstance(reply, ServerFault):
            return reply
        return sglang_scoring.read_conversation_tokens(reply, self.client.now())

    async def _learn_opened_thought(self, request: Request, images: Images) -> str | ServerFault:
        """Return the mark with which SGLang's template opens a thought before replies; empty if it opens none.

        It is learnt once, from a short conversation.
        """
        async with self._detecting:
            if self._opened_thought is not None:
                return self._opened_thought
            short = replace(request, messages=(Message("user", (TextPart("x"),)),))
            mark = served.border_mark(())
            tokens = await self._tokens_by_sglang(short, mark, images)
            if isinstance(tokens, ServerFault):
                return tokens
            reply = await self._send(
                sglang_scoring.DETOKENIZE_PATH,
                images,
                lambda _: sglang_scoring.tokens_as_text_body(self._served, tokens),
                from_root=True,
            )
            if isinstance(reply, ServerFault):
                return reply
            text = sglang_scoring.read_text_of_tokens(reply, self.client.now())
            if isinstance(text, ServerFault):
                return text
            self._opened_thought = sglang_scoring.opened_thought_of(text, mark)
            return self._opened_thought

    def _fault_of_next_tokens(self, fault: ServerFault) -> ServerFault | None:
        """Return a fault of next tokens for which the request is sent again; None to score options in the other way.

        If no options have been scored by next tokens so far, they are not tried again.
        """
        other_dialect = chat.adapt_dialect(self._dialect, fault, self._settled)
        if fault.retry or other_dialect is not None:
            return fault
        if self._gives_next_tokens is None:
            self._gives_next_tokens = False
        return None

    def _fault_of_tokens(self, fault: ServerFault) -> ServerFault | None:
        """Return a fault of the addresses for tokens, as `_fault_of_next_tokens` does.

        An internal error or a page of a gateway may be all that these addresses ever answer, while replies arrive. The
        options of this question are then scored in the other way, and the next question tries again.
        """
        if fault.kind in ("server", "malformed"):
            return None
        return self._fault_of_next_tokens(fault)

    async def _begun_messages(
        self,
        request: Request,
        endings: Sequence[tuple[int, ...]],
        beginning: next_tokens.Beginning,
        images: Images,
    ) -> tuple[Message, ...] | ServerFault | None:
        """Return the conversation whose reply has begun with these tokens; None if their text cannot be cut out."""
        if not beginning:
            return request.messages
        # A continuation that begins with these tokens and goes on. The text of its further tokens is cut off.
        length = len(beginning)
        continuation, ending = next(
            (continuation, ending)
            for continuation, ending in zip(request.continuations, endings, strict=True)
            if ending[:length] == beginning and len(ending) > length
        )
        [*earlier, complete] = served.with_continuation(request.messages, continuation)
        further_tokens = ending[length:]
        reply = await self._send(
            next_tokens.DETOKENIZE_PATH,
            images,
            lambda _: next_tokens.detokenize_body(self._served, further_tokens),
            from_root=True,
        )
        if isinstance(reply, ServerFault):
            return reply
        further_text = next_tokens.read_token_text(reply, self.client.now())
        if isinstance(further_text, ServerFault):
            return further_text
        begun = complete.text.removesuffix(further_text).rstrip()
        if not further_text or begun == complete.text or not begun:
            return None
        return (*earlier, Message("assistant", (TextPart(begun),)))

    async def _ask_next_tokens(
        self, messages: tuple[Message, ...], tokens: Sequence[int], images: Images, dialect: Dialect
    ) -> next_tokens.NextTokens | ServerFault | None:
        """Ask for the log-probabilities of tokens after a prompt; None if the server does not tell them."""
        reply = await self._send(
            chat.PATH,
            images,
            lambda encode_image: next_tokens.next_tokens_body(
                self._served, messages, tokens, dialect, encode_image
            ),
        )
        if isinstance(reply, ServerFault):
            return reply
        return next_tokens.read_next_tokens(reply, tokens, self.client.now())

    async def _score_prompts(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
    ) -> Response | ServerFault:
        """Score continuations with one request each, sent in sequence, and one for a mark that shows where they begin.

        After the first request the server has the image in its cache. The mark is sent last: only its tokens are
        requested, and the server has already computed most of its prompt. The first question of a run also requests the
        prompt of a reply, to see whether options follow the same header.
        """

        async def tokenise(continuation: str | None, scored: bool) -> PromptTokens | ServerFault:
            """Return the tokens of the prompt with a continuation; without one, the prompt of a reply."""
            name = "" if continuation is None else f"={continuation}"
            if name in answered_prompts:
                return answered_prompts[name]
            reply = await self._send(
                chat.PATH,
                images,
                lambda encode_image: served.logprobs_request_body(
                    self._served, request, continuation, dialect, encode_image, scored=scored
                ),
            )
            if isinstance(reply, ServerFault):
                return reply
            tokens = served.read_prompt(reply, self.client.now(), scored=scored)
            if isinstance(tokens, PromptTokens):
                answered_prompts[name] = tokens
            return tokens

        prompts: list[PromptTokens] = []
        for continuation in request.continuations:
            prompt = await tokenise(continuation, scored=True)
            if isinstance(prompt, ServerFault):
                return prompt
            prompts.append(prompt)
        # A server that lists no ids names tokens only by their log-probabilities.
        needs_scores = not all(prompt.lists_ids for prompt in prompts)
        mark = served.border_mark(request.continuations)
        marked = await tokenise(mark, scored=needs_scores)
        if isinstance(marked, ServerFault):
            return marked
        has_prefix = chat.has_response_prefix(request)
        if self._header_note is None and not has_prefix:
            alone = await tokenise(None, scored=needs_scores)
            # After a fault, the next question tries again.
            if isinstance(alone, PromptTokens):
                is_other = served.has_other_header(alone, marked)
                self._header_note = (served.OTHER_HEADER,) if is_other else ()
        outcome = served.border_scores(marked, prompts, request.continuations)
        if isinstance(outcome, ServerFault) or has_prefix:
            return outcome
        return replace(outcome, notes=(*outcome.notes, *(self._header_note or ())))

    async def _send(
        self,
        path: str,
        images: Images,
        write: Callable[[ImageEncoder], bytes],
        watch: Callable[[bytes], None] | None = None,
        *,
        from_root: bool = False,
    ) -> HttpReply | ServerFault:
        """Post a body to a path, and return the reply. A body that cannot be built is also a fault.

        Args:
            path: The path after the base URL.
            images: Where images are read.
            write: Returns the body; it receives a function that encodes images.
            watch: Called with the bytes of the reply as they arrive.
            from_root: Whether the path begins at the root of the server.
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

    async def _learn_likelihood_source(self) -> LikelihoodSource | ServerFault:
        """Ask the server once, when first needed, how it scores continuations, if at all.

        While the server does not answer, prompt log-probabilities are tried. After the first successful question this
        is final.
        """
        async with self._detecting:
            if self._likelihood_source is None:
                reply = await self._list_models()
                if reply is None:
                    return "prompt_logprobs"
                self._likelihood_source = served.likelihood_source_of(reply, self._model)
            return self._likelihood_source

    async def _learn_prefix(self, request: Request) -> None:
        """Ask the server once, when first needed, whether it continues a final assistant message.

        While the server does not answer, it counts as a server that does not. After the first successful question this
        is final.
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
    """Return the model's name and the base URLs of `NAME[@URL[,URL...]]`. Raises ModelError."""
    match = re.fullmatch(r"(?P<model>[^@].*?)(?:@(?P<urls>https?://[^/].*))?", spec.target)
    looks_like_url = re.search(r"://|@[\w.]+(:\d|/)", spec.target)
    if match is None or (not match["urls"] and looks_like_url):
        raise ModelError(
            f"{spec.text}: invalid model string; write openai:NAME@http://HOST:PORT/v1, or openai:NAME for OpenAI"
        )
    addresses = re.split(r",(?=https?://)", match["urls"] or DEFAULT_URL)
    urls = tuple(dict.fromkeys(url.rstrip("/") for url in addresses))
    paths = set()
    for url in urls:
        check_url(spec.text, url)
        paths.add(OPENAI_HOST if _is_openai(url) else urlsplit(url).path)
    if len(paths) > 1:
        raise ModelError(
            f"{spec.text}: all servers of a model must have the same path after the host; make the URLs end alike"
        )
    return match["model"], urls


def _is_openai(url: str) -> bool:
    """Return whether an address is OpenAI's own."""
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
    """The received part of a streamed reply. A server that does not stream sends it as a whole, which is handled too."""

    def __init__(self, listener: ReplyListener) -> None:
        self._listener = listener
        self._line = b""
        """Bytes after the last line break."""
        self._texts: dict[str, str] = {}
        """The texts so far, by the field of a reply that they belong to."""
        self._finish: str | None = None
        self._error: msgspec.Raw | None = None
        self._fault = ""
        self._ended = False

    def watch(self, part: bytes) -> None:
        """Take the next bytes, which may be cut anywhere, and pass the answer so far to the listener."""
        *lines, self._line = (self._line + part).split(b"\n")
        before = self._texts.get("content")
        for line in lines:
            if line.startswith(EVENT):
                self._take(line.removeprefix(EVENT).strip())
        if self._texts.get("content") != before:
            self._listener(split_thoughts(self._texts["content"]).answer)

    def _take(self, event: bytes) -> None:
        """Take one event of the stream: a part of the reply, or its end."""
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
        if not part.choices:
            return
        choice = part.choices[0]
        if bytes(choice.error) != b"null":
            self._error = choice.error
        for name in _Delta.__struct_fields__:
            text = getattr(choice.delta, name)
            if text:
                self._texts[name] = self._texts.get(name, "") + text
        self._finish = choice.finish_reason or self._finish

    def assemble(self, reply: HttpReply) -> HttpReply:
        """Return the reply in its unstreamed form, unchanged if it was not a stream. An incomplete stream is malformed."""
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
