"""Score options by asking a server for the probabilities of certain tokens after a prompt. No I/O.

vLLM has a parameter `logprob_token_ids` (vllm-project/vllm#43463; tried with 0.32): a list of
tokens whose log-probabilities it returns at each position that it generates. One request with the
prompt gives the log-probabilities of the first tokens of all options. An option of several tokens
needs a further request for each of its beginnings: for "a red cat" and "a red dog", these are the
prompt followed by "a", and by "a red". The server computes the prompt once and keeps it in its
cache, which it cannot do for `prompt_logprobs`.

The server itself tokenises the prompt together with each option, as it does for `prompt_logprobs`
(see `served`), so both ways give the same scores. Beginnings such as "a red" are sent as text, and
the server returns the tokens that it made of them. If these are not the tokens of the option, the
option is scored with `prompt_logprobs` instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from snellen.formats.json_files import JSON_FAULTS
from snellen.models import chat
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.connections import HttpReply
from snellen.models.served import OK, ImageEncoder, likelihood_note, with_continuation
from snellen.models.server_faults import ServerFault, no_completion
from snellen.records import ContinuationScore, Message, Request, Response

TOKENIZE_PATH = "/tokenize"
DETOKENIZE_PATH = "/detokenize"
MOST_TOKENS = 128
"""Tokens whose log-probabilities one request may ask for: vLLM's limit."""
MOST_BEGINNINGS = 3
"""Options are scored in this way if they need at most this many requests per option on average.

Options that are sentences need more requests, because each beginning needs one. One prompt per option then costs less.
"""
ID_PREFIX = "token_id:"
"""vLLM writes a token as `token_id:17` if its id is asked for."""

Beginning = tuple[int, ...]
"""The token ids at the beginning of an option, after which its next token is scored; () for its first token."""


class _Candidate(Struct):
    token: str
    logprob: float


class _Position(Struct):
    top_logprobs: list[_Candidate] = []


class _Logprobs(Struct):
    content: list[_Position] | None = None


class _Choice(Struct):
    logprobs: _Logprobs | None = None


class _Completion(Struct):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None


class NextTokens(Struct, frozen=True):
    """The log-probabilities of certain tokens directly after a prompt, as a server returned them."""

    prompt: tuple[int, ...]
    """The tokens of the prompt, as the server read it."""
    logprobs: Mapping[int, float]
    """The log-probabilities, in nats, of the tokens that were asked for."""


def tokenize_body(
    model: RequestedModel, request: Request, continuation: str | None, encode_image: ImageEncoder
) -> bytes:
    """Return the JSON body that asks for the token ids of a prompt which ends with `continuation`.

    With None, the prompt ends where a reply would begin.
    """
    messages = with_continuation(request.messages, continuation)
    is_open = messages[-1].role == "assistant"
    body: dict[str, Any] = {
        "model": model.model,
        "messages": chat.write_messages(messages, encode_image),
        "add_generation_prompt": not is_open,
        "continue_final_message": is_open,
    }
    if model.template_settings:
        body["chat_template_kwargs"] = model.template_settings
    return msgspec.json.encode(body)


def detokenize_body(model: RequestedModel, tokens: Sequence[int]) -> bytes:
    """Return the JSON body that asks for the text of some token ids."""
    return msgspec.json.encode({"model": model.model, "tokens": tokens})


def next_tokens_body(
    model: RequestedModel,
    messages: tuple[Message, ...],
    tokens: Sequence[int],
    dialect: Dialect,
    encode_image: ImageEncoder,
) -> bytes:
    """Return the JSON body that asks for the log-probabilities of `tokens` directly after a prompt."""
    body: dict[str, Any] = {
        "model": model.model,
        "messages": chat.write_messages(messages, encode_image),
        dialect.max_tokens_field: 1,
        "temperature": 0,
        "logprobs": True,
        "logprob_token_ids": list(tokens),
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    if messages[-1].role == "assistant":
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    return chat.encode_body(body, model, dialect)


def read_next_tokens(
    reply: HttpReply, tokens: Sequence[int], now: float
) -> NextTokens | ServerFault | None:
    """Return the log-probabilities of `tokens` after a prompt, from a server's reply.

    Returns:
        The log-probabilities; None if the reply lacks some of them, or does not list the tokens of
        the prompt; a fault if the server reports an error or the reply cannot be read.
    """
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        completion = msgspec.json.decode(reply.body, type=_Completion)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)
    logprobs: dict[int, float] = {}
    for choice in completion.choices[:1]:
        positions = choice.logprobs.content if choice.logprobs else None
        for candidate in positions[0].top_logprobs if positions else ():
            name = candidate.token.removeprefix(ID_PREFIX)
            if name.isdecimal() and name != candidate.token:
                logprobs[int(name)] = candidate.logprob
    if completion.prompt_token_ids is None or not logprobs.keys() >= set(tokens):
        return None
    return NextTokens(tuple(completion.prompt_token_ids), logprobs)


def endings_after(
    alone: Sequence[int], prompts: Sequence[Sequence[int]]
) -> list[tuple[int, ...]] | None:
    """Return the tokens of each prompt that follow the common beginning `alone`.

    Returns None if one of the prompts does not begin with `alone`, or has nothing after it.

        >>> endings_after([1, 2], [[1, 2, 7], [1, 2, 8, 9]])
        [(7,), (8, 9)]
        >>> endings_after([1, 2], [[1, 3, 7]]) is None
        True
    """
    border = len(alone)
    endings = []
    for prompt in prompts:
        ending = tuple(prompt[border:])
        if tuple(prompt[:border]) != tuple(alone) or not ending:
            return None
        endings.append(ending)
    return endings


def tokens_after_beginnings(endings: Sequence[tuple[int, ...]]) -> dict[Beginning, list[int]]:
    """Return which tokens have to be scored after which beginning of an option, the shortest beginnings first.

    For example, the options (1, 2), (1, 3) and (4,) need the tokens 1 and 4 after the prompt, and
    the tokens 2 and 3 after the prompt and token 1.

        >>> tokens_after_beginnings([(1, 2), (1, 3), (4,)])
        {(): [1, 4], (1,): [2, 3]}
    """
    following: dict[Beginning, list[int]] = {}
    longest = max(len(ending) for ending in endings)
    for length in range(longest):
        for ending in endings:
            if len(ending) <= length:
                continue
            tokens = following.setdefault(ending[:length], [])
            if ending[length] not in tokens:
                tokens.append(ending[length])
    return following


def summed_scores(
    endings: Sequence[tuple[int, ...]],
    continuations: Sequence[str],
    logprobs: Mapping[Beginning, Mapping[int, float]],
) -> Response:
    """Return a response with the score of each continuation: the sum of the log-probabilities of its tokens.

    Args:
        endings: The token ids of each continuation.
        continuations: Their texts.
        logprobs: For each beginning, the log-probabilities in nats of the tokens that may follow
            it.
    """
    scores = []
    for ending, text in zip(endings, continuations, strict=True):
        values = []
        for index, token in enumerate(ending):
            beginning = ending[:index]
            values.append(logprobs[beginning][token])
        score = ContinuationScore(math.fsum(values), len(values), len(text.encode()))
        scores.append(score)
    return Response(scores=tuple(scores), notes=(likelihood_note("next_tokens"),))
