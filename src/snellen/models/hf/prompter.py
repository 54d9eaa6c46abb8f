"""Write the prompts of a model that runs in this process, and separate reasoning from its replies."""

from __future__ import annotations

import logging
from typing import Any

from msgspec.structs import replace

from snellen.errors import ModelError
from snellen.extraction.thoughts import split_thoughts
from snellen.models.hf.conversation import ChatPrompt, Conversation
from snellen.models.hf.tokens import TextTokens
from snellen.models.request_options import ProcessorOptions
from snellen.models.template_dates import declared_date
from snellen.records import Request, Response

FINISHED = 10_000
"""How many finished conversations are remembered to begin as their prompts do."""
logger = logging.getLogger("snellen")


class Prompter:
    """Writes the prompts of one model, and separates the reasoning from its replies.

    Raises ModelError if the chat template is random, or does not accept a question.

    Args:
        name: Name of the model, for messages.
        processor: The model's processor.
        model_type: Type of the model, which selects a format if there is no chat template.
        options: Options of the model string.
        checkpoint: Repository or folder of the weights, whose name says whether the model reasons.
        clips_as_video: Whether to give clips as video, if processor and template support it.

    Raises ModelError for a template whose output is random, or that does not take a question.
    """

    def __init__(
        self,
        name: str,
        processor: Any,
        model_type: str,
        options: ProcessorOptions,
        checkpoint: str,
        *,
        clips_as_video: bool,
    ) -> None:
        self._options = options
        self._reasoning_tokens = options.reasoning_budget(checkpoint)
        self.conversation = Conversation(
            processor,
            model_type,
            options.chat_template_kwargs,
            clips_as_video=clips_as_video,
            date=declared_date(options.date),
        )
        if chance := self.conversation.chance:
            raise ModelError(
                f"{name}: its chat template is random ({chance}), so prompts are not reproducible"
            )
        try:
            oddities = self.conversation.oddities
        except ValueError as error:
            raise ModelError(f"{name}: {error}") from error
        if not self.conversation.has_template:
            logger.warning(
                "%s has no chat template; prompts are written in the %s (docs/whitebox.md)",
                name,
                self.conversation.name,
            )
        if oddities:
            logger.warning("%s: the chat template %s", name, "; it ".join(oddities))
        self.tokens = TextTokens(
            getattr(processor, "tokenizer", processor), self.conversation.complete
        )
        self._finished: set[tuple[Any, ...]] = set()
        """Shapes of conversations and replies whose finished text was checked."""

    def facts(self) -> dict[str, str]:
        """Return the facts about prompts that replies depend on, for the model's fingerprint."""
        facts = {"prompt": self.conversation.name}
        if self.conversation.date:
            facts["date"] = str(self.conversation.date)
        return facts

    def sent(self, request: Request) -> Request:
        """Return a request after the options of the model string were applied.

        If the model reasons, its reply may have more tokens, so that reasoning does not use up
        those of the answer. A request that ends with the beginning of the reply gets no further
        tokens.
        """
        request = self._options.applied(request)
        continues_reply = request.messages[-1].role == "assistant"
        if request.kind != "generate" or not self._reasoning_tokens or continues_reply:
            return request
        limit = request.decoding.max_new_tokens + self._reasoning_tokens
        return replace(request, decoding=replace(request.decoding, max_new_tokens=limit))

    def write(self, request: Request) -> ChatPrompt:
        """Return the prompt before the reply to a request or, if options are scored, before the continuations.

        Raises ValueError if the chat template rejects the conversation or changes its content.
        """
        if request.kind == "generate":
            return self.conversation.write(request.messages)
        return self.conversation.write_scored(request.messages)

    def continuations(self, request: Request) -> list[str]:
        """Return the continuations of a request as they are written, without control tokens."""
        return [self.conversation.as_text(text) for text in request.continuations]

    def require_finished(self, request: Request, prompt: ChatPrompt) -> None:
        """Raise ValueError unless each continuation has the same tokens as in the complete conversation.

        The chat template may write other text around a complete reply than around its beginning.
        This is checked once for each continuation and each shape of a conversation (roles and types
        of parts).
        """
        shape = []
        for message in request.messages:
            shape.append((message.role, tuple(type(part) for part in message.content)))
        last = request.messages[-1]
        opening = last.text if last.role == "assistant" else None
        for reply in request.continuations:
            key = (tuple(shape), opening, prompt.join, reply)
            if key in self._finished:
                continue
            finished = self.conversation.finish(request.messages, prompt, reply)
            text = prompt.with_reply(self.conversation.as_text(reply))
            self.tokens.require_beginning(text, finished)
            if len(self._finished) >= FINISHED:
                self._finished.clear()
            self._finished.add(key)

    def without_thoughts(self, response: Response, request: Request) -> Response:
        """Return a response with the model's reasoning moved from its text to the field `reasoning`.

        The chat template may have written the mark that begins the reasoning (`<think>`) into the
        prompt. Then the text begins with the reasoning, without the mark. This is not so if the
        conversation ends with the beginning of the reply.
        """
        continues_reply = request.messages[-1].role == "assistant"
        closing_mark = "" if continues_reply else self.conversation.opened_thought
        parts = split_thoughts(response.text or "", closing_mark)
        return replace(response, text=parts.answer, reasoning=parts.reasoning)
