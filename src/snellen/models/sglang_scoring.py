"""Get log-likelihoods of options from SGLang's own address `/generate`. No I/O.

SGLang's chat completions give no log-probabilities of the prompt, but `/generate` does. It takes
token ids instead of messages. `/tokenize` makes them of the same conversation with the server's own
chat template (typed against the sources of SGLang 0.5.23).

A question needs one request for its prompt, and one for each option of several tokens. The reply to
the first one has the log-probabilities of the options' first tokens (`token_ids_logprob`) and the
length of the prompt, which includes the tokens of images. Each of the others asks for
log-probabilities from the last token of the prompt on (`logprob_start_len`). The server then takes
the prompt from its cache, and computes only the option.

SGLang scores an option as the beginning of a reply. If the chat template begins reasoning before
each reply (`<think>`), the option would be scored inside the reasoning. Such a model is refused.

Which tokens are scored is decided as for `prompt_logprobs` (see `served`): the tokens that the
prompts with each option, and with a mark such as "@" instead of an option, have in common are the
question. The tokens after them are the option.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.extraction.thoughts import THOUGHTS
from snellen.formats.json_files import JSON_FAULTS
from snellen.models import chat, token_replies
from snellen.models.chat import RequestedModel
from snellen.models.connections import HttpReply
from snellen.models.request_options import with_extra_fields
from snellen.models.served import (
    OK,
    OTHERWISE,
    ImageEncoder,
    common_length,
    likelihood_note,
    with_continuation,
)
from snellen.models.server_faults import ServerFault, no_completion
from snellen.records import ContinuationScore, ImagePart, Request, Response

GENERATE_PATH = "/generate"
TOKENIZE_PATH = "/tokenize"
DETOKENIZE_PATH = "/detokenize"
UNCHANGED = {
    "max_new_tokens": 1,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}
"""Sampling parameters that do not change the model's probabilities.

All of them are sent, because the server may have been started with other defaults (`--preferred-sampling-params`).
"""
SHARED_FIELDS = (
    "lora_path",
    "mm_processor_kwargs",
    "images_config",
    "max_dynamic_patch",
    "min_dynamic_patch",
    "cache_salt",
    "extra_key",
    "priority",
)
"""Fields of `extra_body` that mean the same in a chat completion and in `/generate`."""


class _ImageUrl(Struct):
    url: str


class _ImagePart(Struct):
    image_url: _ImageUrl


Scored = tuple[float | None, int, str | None]
"""A token as SGLang lists it: its log-probability in nats (none for the first of a prompt), its id, and its text."""


class _MetaInfo(Struct):
    prompt_tokens: int
    input_token_logprobs: list[Scored] = []
    output_token_ids_logprobs: list[list[Scored] | None] = []


class _Generated(Struct):
    meta_info: _MetaInfo


class _Entry(Struct):
    id: str
    parent: str | None = None


class _Models(Struct):
    data: list[_Entry]


class ScoredQuestion(Struct, frozen=True):
    """The parts that all requests to `/generate` about one question have in common."""

    context: tuple[int, ...]
    """The tokens of the prompt, with a placeholder for each image."""
    images: tuple[str, ...]
    """Its images, as data URLs."""
    adapter: str = ""
    """The adapter (LoRA) with which the model is asked; empty for none."""
    extra_body: dict[str, Any] = {}
    """The user's own fields."""


class ReadPrompt(Struct, frozen=True):
    """What the server has computed for the prompt of a question."""

    length: int
    """Number of tokens of the prompt, including those of images."""
    next_logprobs: Mapping[int, float]
    """Log-probability, in nats, of each requested token as the first one after the prompt."""


def conversation_body(
    model: RequestedModel, request: Request, continuation: str, encode_image: ImageEncoder
) -> bytes:
    """Return the JSON body that asks for the token ids of a conversation whose reply begins with `continuation`."""
    messages = with_continuation(request.messages, continuation)
    # `add_generation_prompt` is left out: with it, SGLang writes another prompt than for a chat completion.
    body: dict[str, Any] = {
        "model": model.model,
        "messages": chat.write_messages(messages, encode_image),
        "continue_final_message": True,
    }
    if model.template_settings:
        body["chat_template_kwargs"] = model.template_settings
    return msgspec.json.encode(with_extra_fields(body, model.options.extra_body))


def read_conversation_tokens(reply: HttpReply, now: float) -> tuple[int, ...] | ServerFault:
    """Return the token ids that a server has made of a conversation.

    If the server is too old to tokenise conversations, the fault is fatal, because no question can
    be scored.
    """
    tokens = token_replies.read_tokens(reply, now)
    if reply.status == OK or not isinstance(tokens, ServerFault):
        return tokens
    fault = tokens
    is_unknown = reply.status == HTTPStatus.NOT_FOUND or "required" in fault.detail
    if not is_unknown:
        return fault
    return replace(
        fault,
        kind="model",
        detail=f"{fault.detail}; this SGLang does not tokenise conversations (POST {TOKENIZE_PATH}): "
        f"use SGLang 0.5.16 or later, or {OTHERWISE}",
        fatal=True,
    )


def tokens_as_text_body(model: RequestedModel, tokens: Sequence[int]) -> bytes:
    """Return the JSON body that asks for the text of token ids, including special tokens."""
    body = {"model": model.model, "tokens": tokens, "skip_special_tokens": False}
    return msgspec.json.encode(body)


def opened_thought_of(text: str, mark: str) -> str:
    """Return the text with which a chat template begins reasoning directly before a reply; empty if it does not.

    Args:
        text: A conversation that ends with a reply, as the server renders it.
        mark: That reply, such as "@".

    Examples:
        >>> opened_thought_of("user: x assistant: <think> @", "@")
        '<think>'
        >>> opened_thought_of("user: x assistant: <think> </think> @", "@")
        ''
    """
    before_reply = text.rstrip().removesuffix(mark).rstrip()
    for opening, _ in THOUGHTS:
        if before_reply.endswith(opening):
            return opening
    return ""


def scored_in_thought(opening: str) -> ServerFault:
    """Return the fatal fault for a server whose chat template begins reasoning (`opening`) before each reply."""
    return ServerFault(
        "model",
        f"the server's chat template opens a thought ({opening}) before a reply, and SGLang would score options inside "
        "it; if the template has a setting against that, give it, such as "
        '?chat_template_kwargs={"enable_thinking":false}, or load the model with `snellen worker` or hf:',
        fatal=True,
    )


def context_and_endings(
    prompts: Sequence[Sequence[int]],
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Return the tokens that all prompts have in common at their beginning, and the tokens of each prompt after them.

    >>> context_and_endings([[1, 2, 5], [1, 2, 7], [1, 2, 8, 9]])
    ((1, 2), [(5,), (7,), (8, 9)])
    """
    border = common_length(prompts)
    return tuple(prompts[0][:border]), [tuple(prompt[border:]) for prompt in prompts]


def image_urls(request: Request, encode_image: ImageEncoder) -> tuple[str, ...]:
    """Return the images of a conversation in order, as data URLs."""
    urls = []
    for message in request.messages:
        for part in message.content:
            if isinstance(part, ImagePart):
                content = msgspec.json.decode(encode_image(part.image), type=_ImagePart)
                urls.append(content.image_url.url)
    return tuple(urls)


def adapter_of(model: str, listed: HttpReply | None) -> str:
    """Return the adapter (LoRA) that is named in a model's name after a colon: `birds` for `base:birds`.

    SGLang's chat completions read names in the same way. Empty if the name has no adapter.

    Args:
        model: Name of the model, as it is sent.
        listed: The server's list of models; None if it is not known. It shows whether a colon is
            part of the model's own name.

    Examples:
        >>> adapter_of("base:birds", None), adapter_of("base", None)
        ('birds', '')
    """
    served_name = "" if listed is None else _served_name(listed)
    if model == served_name:
        return ""
    if served_name and model.startswith(f"{served_name}:"):
        return model.removeprefix(f"{served_name}:").strip()
    return model.partition(":")[2].strip()


def _served_name(listed: HttpReply) -> str:
    """Return the name of the base model in a server's list of models, which may also contain its adapters.

    Returns an empty text if the list cannot be read or has no such model.
    """
    if listed.status != OK:
        return ""
    try:
        entries = msgspec.json.decode(listed.body, type=_Models).data
    except JSON_FAULTS:
        return ""
    return next((entry.id for entry in entries if entry.parent is None), "")


def prompt_body(question: ScoredQuestion, next_tokens: Sequence[int]) -> bytes:
    """Return the JSON body that asks for the log-probabilities of `next_tokens` after the prompt, and for its length."""
    fields = {"input_ids": question.context, "token_ids_logprob": next_tokens}
    return _generate_body(question, fields)


def option_body(question: ScoredQuestion, ending: Sequence[int], prompt_length: int) -> bytes:
    """Return the JSON body that asks for the log-probabilities of an option's tokens after the prompt.

    Args:
        question: The question.
        ending: The token ids of the option.
        prompt_length: Number of tokens of the prompt as the server counts it, including those of
            images.
    """
    # SGLang gives no log-probability for the token at which it starts, so it starts at the prompt's last one.
    fields = {
        "input_ids": (*question.context, *ending),
        "logprob_start_len": prompt_length - 1,
    }
    return _generate_body(question, fields)


def _generate_body(question: ScoredQuestion, fields: dict[str, Any]) -> bytes:
    body: dict[str, Any] = {**fields, "sampling_params": UNCHANGED, "return_logprob": True}
    if question.images:
        body["image_data"] = question.images
    if question.adapter:
        body["lora_path"] = question.adapter
    given = question.extra_body
    shared = {name: given[name] for name in SHARED_FIELDS if name in given}
    return msgspec.json.encode(with_extra_fields(body, shared))


def read_computed_prompt(
    reply: HttpReply, next_tokens: Sequence[int], now: float
) -> ReadPrompt | ServerFault:
    """Return the length of a prompt and the log-probabilities of tokens after it, from the reply to `prompt_body`.

    The fault is fatal if the server does not return the log-probabilities of all `next_tokens`.
    """
    generated = _read_generated(reply, now)
    if isinstance(generated, ServerFault):
        return generated
    logprobs: dict[int, float] = {}
    for position in generated.meta_info.output_token_ids_logprobs[:1]:
        for logprob, token, _ in position or ():
            if logprob is not None:
                logprobs[token] = logprob
    if not logprobs.keys() >= set(next_tokens):
        return ServerFault(
            "model",
            f"the server does not return log-probabilities of chosen tokens (token_ids_logprob); {OTHERWISE}",
            fatal=True,
        )
    return ReadPrompt(generated.meta_info.prompt_tokens, logprobs)


def read_option(
    reply: HttpReply, context: Sequence[int], text: str, now: float
) -> list[float] | ServerFault:
    """Return the log-probabilities, in nats, of the tokens of an option.

    If the prompt has images, the server may turn it into text and tokenise it again. The option may
    then have other tokens than `/tokenize` gave; they are scored as they are. But if the beginning
    of the option and the end of the prompt have become one token, the option cannot be scored, and
    the result is a fault.

    Args:
        reply: The reply to `option_body`.
        context: The token ids of the prompt.
        text: The text of the option, for messages.
        now: Time in seconds since 1970.
    """
    generated = _read_generated(reply, now)
    if isinstance(generated, ServerFault):
        return generated
    listed = generated.meta_info.input_token_logprobs
    if not listed:
        return ServerFault(
            "model",
            f"the server does not return log-probabilities of prompt tokens; {OTHERWISE}",
            fatal=True,
        )
    (_, border_token, _), *option_tokens = listed
    if border_token != context[-1] or not option_tokens:
        return ServerFault(
            "bad_request",
            f"the server joined the option {text!r} with the prompt before it; "
            "start it with SGLANG_MM_AVOID_RETOKENIZE=1",
        )
    logprobs = []
    for logprob, token, _ in option_tokens:
        if logprob is None:
            return ServerFault(
                "malformed", f"token {token} of the option {text!r} has no log-probability"
            )
        logprobs.append(logprob)
    return logprobs


def _read_generated(reply: HttpReply, now: float) -> _Generated | ServerFault:
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        return msgspec.json.decode(reply.body, type=_Generated)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)


def option_scores(logprobs: Sequence[Sequence[float]], continuations: Sequence[str]) -> Response:
    """Return a response with the score of each continuation: the sum of the log-probabilities of its tokens."""
    scores = []
    for values, text in zip(logprobs, continuations, strict=True):
        scores.append(ContinuationScore(math.fsum(values), len(values), len(text.encode())))
    return Response(scores=tuple(scores), notes=(likelihood_note("generate"),))
