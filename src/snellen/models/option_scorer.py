"""Score options over an OpenAI-compatible server, in the best way that it supports.

`served`, `next_tokens` and `sglang_scoring` define what is sent and how it is read, without I/O. This module decides which
of these ways a server is asked in, and remembers what the server has shown to support.
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
    """Post a body to a path of the server; `OpenAIModel.send` explains the arguments."""

    def __call__(
        self,
        path: str,
        images: Images,
        write: Callable[[ImageEncoder], bytes],
        *,
        from_root: bool = False,
    ) -> Awaitable[HttpReply | ServerFault]: ...


class OptionScorer:
    """Scores the continuations of requests, and knows in which way.

    Args:
        model: The model as requests name it.
        options: The options of its model string.
        send: Posts a body to the server.
        list_models: Returns the server's list of models; None while it does not answer.
        encode: Returns an image as it is sent.
        now: Returns the time for `Retry-After`, in seconds.
        settled: Parts of the dialect that the user has fixed.
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
        """Note on scored options, once it is known whether they follow the same header as replies."""
        self._gives_next_tokens: bool | None = None
        """Whether continuations can be scored by next tokens; None before it was tried."""
        self._adapter: str | None = None
        """The adapter (LoRA) that SGLang is asked for; None until it is known."""
        self._opened_thought: str | None = None
        """The mark with which SGLang's template opens a thought before replies, or empty; None until it is known."""
        self._detecting = asyncio.Lock()

    @property
    def scores_letters(self) -> bool:
        """Whether only the letters of options are scored, which is another quantity than all other ways give."""
        return self._likelihood_source == "letters"

    async def score(
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
        """Return the tokens that SGLang writes of a conversation with a continuation at its end."""
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
            text = token_replies.read_token_text(reply, self._now())
            if isinstance(text, ServerFault):
                return text
            self._opened_thought = sglang_scoring.opened_thought_of(text, mark)
            return self._opened_thought

    def _fault_of_next_tokens(self, fault: ServerFault, dialect: Dialect) -> ServerFault | None:
        """Return a fault of next tokens for which the request is sent again; None to score options in the other way.

        If no options have been scored by next tokens so far, they are not tried again.
        """
        other_dialect = chat.adapt_dialect(dialect, fault, self._settled)
        if fault.retry or other_dialect is not None:
            return fault
        if self._gives_next_tokens is None:
            self._gives_next_tokens = False
        return None

    def _fault_of_tokens(self, fault: ServerFault, dialect: Dialect) -> ServerFault | None:
        """Return a fault of the addresses for tokens, as `_fault_of_next_tokens` does.

        An internal error or a page of a gateway may be all that these addresses ever answer, while replies arrive. The
        options of this question are then scored in the other way, and the next question tries again.
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
        further_text = token_replies.read_token_text(reply, self._now())
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
        return next_tokens.read_next_tokens(reply, tokens, self._now())

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
        """Ask the server once, when first needed, how it scores continuations, if at all.

        While the server does not answer, prompt log-probabilities are tried. After the first successful question this
        is final.
        """
        async with self._detecting:
            if self._likelihood_source is None:
                reply = await self._list_models()
                if reply is None:
                    return "prompt_logprobs"
                self._likelihood_source = served.likelihood_source_of(reply, self._served.model)
            return self._likelihood_source
