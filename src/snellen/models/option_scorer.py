"""Get log-likelihoods of options from an OpenAI-compatible server.

Servers differ in how they can be asked for them. `served`, `next_tokens` and `sglang_scoring`
define the requests of each way and read the replies, without I/O. This module chooses the way,
sends the requests, and remembers which ways the server supports.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec
from msgspec.structs import replace

from snellen.common.images import Images
from snellen.errors import DataError
from snellen.models import chat, next_tokens, served, sglang_scoring, token_replies
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.connections import HttpReply
from snellen.models.openai_places import OpenAIOptions
from snellen.models.served import ImageEncoder, LikelihoodSource, PromptTokens
from snellen.models.server_faults import ServerFault
from snellen.records import ImageRef, Message, Request, Response, TextPart


class Send(Protocol):
    """Sends a body to a path of the server (HTTP POST). `OpenAIModel.send` explains the arguments."""

    def __call__(
        self,
        path: str,
        images: Images,
        write: Callable[[ImageEncoder], bytes],
        *,
        from_root: bool = False,
    ) -> Awaitable[HttpReply | ServerFault]: ...


class OptionScorer:
    """Gets the log-likelihoods of continuations (options) from a server, and finds out how to ask for them.

    Args:
        model: The model with the name by which the server knows it.
        options: The options of its model string.
        send: Sends a body to the server.
        list_models: Returns the server's list of models; None if it does not answer.
        encode: Returns an image in the format in which it is sent.
        now: Returns the time in seconds since 1970, for replies with `Retry-After`.
        settled: Names of the parts of the dialect that the user has chosen, which are not changed
            after an error.
    """

    def __init__(
        self,
        model: RequestedModel,
        options: OpenAIOptions,
        send: Send,
        list_models: Callable[[], Awaitable[HttpReply | None]],
        encode: Callable[[ImageRef, Images], msgspec.Raw],
        now: Callable[[], float],
        settled: frozenset[str],
    ) -> None:
        self._served = model
        self._options = options
        self._send = send
        self._list_models = list_models
        self._encode = encode
        self._now = now
        self._settled = settled
        self._likelihood_source: LikelihoodSource | ServerFault | None = None
        """How the server scores continuations; None until it is known."""
        if options.likelihood != "auto" and options.likelihood != "off":
            self._likelihood_source = options.likelihood
        self._header_note: tuple[str, ...] | None = None
        """A note if options follow a different prompt header than replies; None until this is known."""
        self._gives_next_tokens: bool | None = None
        """Whether the server can score continuations in the way of `next_tokens`; None before it was tried."""
        self._adapter: str | None = None
        """The adapter (LoRA) to name in requests to SGLang, or empty for none; None until it is known."""
        self._opened_thought: str | None = None
        """The text with which SGLang's chat template begins the model's reasoning before a reply, such as `<think>`.

        Empty if it begins no reasoning; None until it is known.
        """
        self._detecting = asyncio.Lock()

    @property
    def scores_letters(self) -> bool:
        """Whether the probabilities of the options' letters (A, B, ...) are read instead of those of their texts.

        This is another quantity, which must not be compared with the scores of any other way.
        """
        return self._likelihood_source == "letters"

    async def score(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
    ) -> Response | ServerFault:
        """Return the log-likelihoods of a request's continuations, in a way that the server supports.

        Args:
            request: The request.
            images: Where its images are read.
            dialect: The variant of the chat format that the server accepts.
            answered_prompts: Receives the prompts that the server has scored. If a later prompt
                fails, pass the same dictionary again, and these prompts are not sent a second time.

        Returns:
            A response with one score per continuation, or a fault.
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
            outcome = served.read_extension(reply, request, self._now())
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
            outcome = served.read_letters(reply, len(request.continuations), self._now())
        if isinstance(outcome, ServerFault):
            return outcome
        if self._likelihood_source is None:  # the server answers, but says nothing of itself
            self._likelihood_source = source
        return replace(outcome, seconds=time.perf_counter() - started)

    async def _score_next_tokens(
        self, request: Request, images: Images, dialect: Dialect
    ) -> Response | ServerFault | None:
        """Score continuations by asking for the probabilities of certain tokens after a prompt (see `next_tokens`).

        The server computes the prompt once for all continuations.

        Returns:
            The response, or a fault after which the request should be sent again. None if the
            server does not support this, or if it cannot be done for these continuations; then the
            caller uses `_score_prompts`.
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
            return token_replies.read_tokens(reply, self._now())

        prompts: list[tuple[int, ...]] = []
        mark = served.border_mark(request.continuations)
        for continuation in (None, mark, *request.continuations):
            prompt = await tokenise(continuation)
            if isinstance(prompt, ServerFault):
                return self._fault_of_tokens(prompt, dialect)
            prompts.append(prompt)
        alone, marked, *continued = prompts
        endings = next_tokens.endings_after(alone, continued)
        # The server may write a different header before a scored reply than before a reply that it generates. Then the
        # prompts with continuations do not begin with the prompt alone, or they have further tokens before the mark.
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
                return self._fault_of_tokens(messages, dialect)
            if messages is None:
                return None
            after = await self._ask_next_tokens(messages, tokens, images, dialect)
            if isinstance(after, ServerFault):
                return self._fault_of_next_tokens(after, dialect)
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
        """Score continuations with SGLang's `/generate` (see `sglang_scoring`).

        One request computes the prompt, and gives the probability of the first token of each
        option. Each option of several tokens then needs a further request.
        """
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
        prompt = sglang_scoring.read_computed_prompt(reply, first_tokens, self._now())
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
            values = sglang_scoring.read_option(reply, question.context, continuation, self._now())
            if isinstance(values, ServerFault):
                return values
            logprobs.append(values)
        return sglang_scoring.option_scores(logprobs, request.continuations)

    async def _tokenise_for_generate(
        self, request: Request, images: Images
    ) -> tuple[sglang_scoring.ScoredQuestion, list[tuple[int, ...]]] | ServerFault:
        """Ask SGLang for the token ids of a question and of its continuations.

        Returns:
            The question with its token ids and images; and the token ids of each continuation. A
            fault if a request fails, if a continuation has no tokens of its own, or if the chat
            template begins reasoning before a reply.
        """
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
            adapter = sglang_scoring.adapter_of(self._served.model, listed)
            if listed is not None:
                self._adapter = adapter
        try:
            urls = sglang_scoring.image_urls(request, lambda image: self._encode(image, images))
        except DataError as error:
            return ServerFault("bad_request", str(error))
        question = sglang_scoring.ScoredQuestion(context, urls, adapter, self._options.extra_body)
        return question, endings

    async def _tokens_by_sglang(
        self, request: Request, continuation: str, images: Images
    ) -> tuple[int, ...] | ServerFault:
        """Return the token ids that SGLang makes of a conversation whose reply begins with `continuation`."""
        reply = await self._send(
            sglang_scoring.TOKENIZE_PATH,
            images,
            partial(sglang_scoring.conversation_body, self._served, request, continuation),
            from_root=True,
        )
        if isinstance(reply, ServerFault):
            return reply
        return sglang_scoring.read_conversation_tokens(reply, self._now())

    async def _learn_opened_thought(self, request: Request, images: Images) -> str | ServerFault:
        """Return the text with which SGLang's chat template begins reasoning before a reply, such as `<think>`.

        This is found out once, by rendering a short conversation. Empty if the template does not do
        this.
        """
        async with self._detecting:
            if self._opened_thought is not None:
                return self._opened_thought
            short = replace(request, messages=(Message("user", (TextPart("x"),)),))
            mark = served.border_mark(())
            tokens = await self._tokens_by_sglang(short, mark, images)
            if isinstance(tokens, ServerFault):
                return tokens
            body = sglang_scoring.tokens_as_text_body(self._served, tokens)
            text = await self._text_of_tokens(sglang_scoring.DETOKENIZE_PATH, body, images)
            if isinstance(text, ServerFault):
                return text
            self._opened_thought = sglang_scoring.opened_thought_of(text, mark)
            return self._opened_thought

    async def _text_of_tokens(self, path: str, body: bytes, images: Images) -> str | ServerFault:
        """Ask the server for the text of tokens.

        Args:
            path: The path of the request, from the root of the server.
            body: The request, which holds the tokens.
            images: Where images are read; the request has none.

        Returns:
            The text, or why there is none.
        """
        reply = await self._send(path, images, lambda _: body, from_root=True)
        if isinstance(reply, ServerFault):
            return reply
        return token_replies.read_token_text(reply, self._now())

    def _fault_of_next_tokens(self, fault: ServerFault, dialect: Dialect) -> ServerFault | None:
        """Decide what to do if a request for next tokens has failed.

        If it failed for good before any options were scored in this way, this way is not tried
        again.

        Returns:
            The fault, if sending the request again, perhaps in another dialect, may help; None if
            the options should be scored by `_score_prompts` instead.
        """
        other_dialect = chat.adapt_dialect(dialect, fault, self._settled)
        if fault.retry or other_dialect is not None:
            return fault
        if self._gives_next_tokens is None:
            self._gives_next_tokens = False
        return None

    def _fault_of_tokens(self, fault: ServerFault, dialect: Dialect) -> ServerFault | None:
        """Decide what to do if a request to tokenise or detokenise text has failed, like `_fault_of_next_tokens`.

        After an internal error or a reply that is not JSON, the result is None, so that the options
        of this question are scored by `_score_prompts`. Some servers always answer so at these
        addresses, although they do give replies. The next question tries these addresses again.
        """
        if fault.kind in ("server", "malformed"):
            return None
        return self._fault_of_next_tokens(fault, dialect)

    async def _begun_messages(
        self,
        request: Request,
        endings: Sequence[tuple[int, ...]],
        beginning: next_tokens.Beginning,
        images: Images,
    ) -> tuple[Message, ...] | ServerFault | None:
        """Return the conversation in which the reply has begun with some tokens of an option.

        For example, for the tokens of "a red" it ends with an assistant message "a red". The text
        of these tokens is found by cutting the text of the option's other tokens off its end.

        Args:
            request: The request.
            endings: The token ids of each continuation.
            beginning: The first tokens of at least one of them; if it is empty, the conversation is
                returned as it is.
            images: Where images are read.

        Returns:
            The messages; a fault if the server cannot be asked for the text; None if the text
            cannot be cut off.
        """
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
        body = next_tokens.detokenize_body(self._served, further_tokens)
        further_text = await self._text_of_tokens(next_tokens.DETOKENIZE_PATH, body, images)
        if isinstance(further_text, ServerFault):
            return further_text
        begun = complete.text.removesuffix(further_text).rstrip()
        if not further_text or begun == complete.text or not begun:
            return None
        return (*earlier, Message("assistant", (TextPart(begun),)))

    async def _ask_next_tokens(
        self, messages: tuple[Message, ...], tokens: Sequence[int], images: Images, dialect: Dialect
    ) -> next_tokens.NextTokens | ServerFault | None:
        """Ask for the log-probabilities of some tokens directly after a prompt.

        Returns:
            The log-probabilities; None if the reply does not have all of them; a fault if there is
            no reply.
        """
        reply = await self._send(
            chat.PATH,
            images,
            lambda encode_image: next_tokens.next_tokens_body(
                self._served, messages, tokens, dialect, encode_image
            ),
        )
        if isinstance(reply, ServerFault):
            return reply
        return next_tokens.read_next_tokens(reply, tokens, self._now())

    async def _score_prompts(
        self,
        request: Request,
        images: Images,
        dialect: Dialect,
        answered_prompts: dict[str, PromptTokens],
    ) -> Response | ServerFault:
        """Score continuations with one request for each, sent one after the other.

        In each request, the continuation is the end of the prompt, and the server returns the
        log-probabilities of the prompt's tokens. After the first request the server has the image
        in its cache.

        A further request has a mark such as "@" instead of a continuation. The tokens that all
        these prompts have in common are the question, so the scored tokens begin after them. The
        request with the mark is sent last: its scores are not needed, and the server has already
        computed most of its prompt. The first question of a run also asks for the tokens of the
        prompt without a continuation, to find out whether options follow the same header as
        replies.
        """

        async def tokenise(continuation: str | None, scored: bool) -> PromptTokens | ServerFault:
            """Return the tokens of the prompt that ends with a continuation; with None, of the prompt before a reply.

            If `scored`, the log-probabilities of the tokens are requested as well.
            """
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
            tokens = served.read_prompt(reply, self._now(), scored=scored)
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

    async def _learn_likelihood_source(self) -> LikelihoodSource | ServerFault:
        """Return how the server can be asked for log-likelihoods. The server is asked once.

        If the server does not answer, log-probabilities of prompts are tried for now, and the next
        call asks again.

        Returns:
            The way; a fault if the server says that it cannot score continuations.
        """
        async with self._detecting:
            if self._likelihood_source is None:
                reply = await self._list_models()
                if reply is None:
                    return "prompt_logprobs"
                self._likelihood_source = served.likelihood_source_of(reply, self._served.model)
            return self._likelihood_source
