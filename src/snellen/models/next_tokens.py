"""Log-likelihoods of options from one computed prompt, for servers that give the probabilities of chosen tokens. No I/O.

vLLM takes `logprob_token_ids` (vllm-project/vllm#43463; tried with 0.32): tokens whose log-probabilities it returns at
each position that it generates. One request after the prompt gives those of the first tokens of all options. Options of
several tokens need a request for each beginning that another token follows: for "a red cat" and "a red dog" these are the
prompt, "a" and "a red". The server computes the prompt once and keeps it, which it cannot do for `prompt_logprobs`.

The server tokenises the prompt with each option, as for `prompt_logprobs` (see `served`), so both give the same scores.
Beginnings are sent as text, and the server returns the tokens of what it read: where these are not the ones that were
meant, the option is scored in the other way.
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
"""Beginnings for each option, on average, up to which options are scored in this way. Sentences have more: each is a
request, and a prompt for each option costs less."""
ID_PREFIX = "token_id:"
"""How vLLM writes a token where its id is asked for."""

Beginning = tuple[int, ...]
"""The first tokens of an option, none or several, after which a further token is scored."""


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
    """What a server says of the position after a prompt."""

    prompt: tuple[int, ...]
    """The tokens of the prompt, as the server read it."""
    logprobs: Mapping[int, float]
    """The log-probabilities, in nats, of the tokens that were asked for."""


def tokenize_body(
    model: RequestedModel, request: Request, continuation: str | None, encode_image: ImageEncoder
) -> bytes:
    """Return a body that asks for the tokens of a prompt with `continuation` at its end; None for no continuation."""
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
    """Return a body that asks for the text of tokens."""
    return msgspec.json.encode({"model": model.model, "tokens": tokens})


def next_tokens_body(
    model: RequestedModel,
    messages: tuple[Message, ...],
    tokens: Sequence[int],
    dialect: Dialect,
    encode_image: ImageEncoder,
) -> bytes:
    """Return a body that asks for the log-probabilities of tokens at the position after a prompt."""
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
    """Return what a server says of tokens after a prompt; None if it does not say it of all of them."""
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
    """Return the tokens that each prompt has after `alone`; None if one does not begin with it or has none after it.

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
    """Return the beginnings after which tokens are to be scored, the shortest first, with these tokens.

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
    """Return the score of each continuation: the sum of its tokens' log-probabilities, each after its beginning."""
    scores = []
    for ending, text in zip(endings, continuations, strict=True):
        values = []
        for index, token in enumerate(ending):
            beginning = ending[:index]
            values.append(logprobs[beginning][token])
        score = ContinuationScore(math.fsum(values), len(values), len(text.encode()))
        scores.append(score)
    return Response(scores=tuple(scores), notes=(likelihood_note("next_tokens"),))
