"""Log-likelihoods from a server: encoding requests and reading replies. No I/O.

There are these sources. `next_tokens`, `generate` and `prompt_logprobs` give the same scores; of the others a run uses one:

extension        `snellen worker` announces in its list of models that it scores continuations itself.
prompt_logprobs  vLLM gives the log-probability of each prompt token. Each continuation is sent as an open
                 final assistant message, and so is a mark with which none of them begins: tokens that
                 all of these share are context, the others are scored. A token that straddles the
                 border thus belongs to the continuation, for all continuations alike, and what the
                 template writes before any reply, such as an empty thought, to none.
generate         SGLang gives the log-probabilities of a prompt's tokens at its own address, for an option after a
                 prompt that it has computed (see `sglang_scoring`). Again the same scores.
next_tokens      vLLM gives the log-probabilities of chosen tokens after a prompt, which it computes only once for all
                 continuations (see `next_tokens`).
letters          For servers that give only the most likely candidates of the first tokens (OpenAI,
                 llama.cpp): options are shown with letters, and the letters' probabilities are read.
                 This is a different quantity: never chosen by default, never mixed with the others.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.formats.json_files import JSON_FAULTS
from snellen.models import chat
from snellen.models.chat import Dialect, RequestedModel
from snellen.models.connections import HttpReply
from snellen.models.server_faults import ServerFault, no_completion
from snellen.records import ContinuationScore, ImageRef, Message, Request, Response, TextPart

LikelihoodSource = Literal["extension", "next_tokens", "generate", "prompt_logprobs", "letters"]
ImageEncoder = Callable[[ImageRef], msgspec.Raw]

EXTENSION_PATH = "/loglikelihood"
OK = 200
TOP = 20
"""Candidates per position: OpenAI's and vLLM's limit."""
LETTERS = string.ascii_uppercase
POSITIONS = 4
"""Tokens generated to find the letter: "(" or a space may come before it."""
ASK = "Reply with the letter of the right option alone."
OTHERWISE = (
    "use ?likelihood=letters for the probabilities of option letters, or load the model with `snellen worker` or "
    "hf:"
)
NO_LETTER = "no option letter is among the most likely tokens"
MARKS = ("@", "#", "~", "^", "|", "=", "x")
"""Short texts that stand for a reply, to find the token after which replies begin.

Most tokenizers never join one of these with the text before it.
"""
OTHER_HEADER = "options are scored after a different header than replies have"
MARK_TOKENS = 2
"""Maximum number of tokens of a mark: the mark itself, and perhaps a space before it."""
_OPENING = ("(", "[", "{", "<", '"', "'")
_AROUND = " \t\n\r([{<*\"'`.:,)>]}"


def likelihood_note(source: LikelihoodSource) -> str:
    """Return the note that every response with scores from this source gets, such as `likelihood by letters`."""
    return f"likelihood by {source}"


# --- choosing a source -------------------------------------------------------------------------------------------


def likelihood_source_of(reply: HttpReply, model: str) -> LikelihoodSource | ServerFault:
    """Return how a server can be asked for log-likelihoods, judged by its list of models.

    A Snellen worker announces that it scores continuations itself. For vLLM the result is
    `next_tokens`, for SGLang `generate`. For any other server it is `prompt_logprobs`, and also if
    the list cannot be read.

    Args:
        reply: The server's list of models.
        model: Name of the model.

    Returns:
        The way; a fatal fault if a worker announces that its class cannot score.
    """
    if reply.status != OK:
        return "prompt_logprobs"
    try:
        models = msgspec.json.decode(reply.body)["data"]
        entries = [entry for entry in models if entry.get("id") == model] or models
        extensions = []
        owners = {entry.get("owned_by") for entry in entries}
        for entry in entries:
            extension = entry.get("snellen")
            if isinstance(extension, dict):
                extensions.append(extension)
    except (*JSON_FAULTS, KeyError, TypeError, AttributeError):
        return "prompt_logprobs"
    if not extensions:
        if "vllm" in owners:
            return "next_tokens"
        return "generate" if "sglang" in owners else "prompt_logprobs"
    if any(extension.get("loglikelihood") is True for extension in extensions):
        return "extension"
    return ServerFault(
        "model",
        "the worker's class has no method loglikelihood; add it, or remove likelihood",
        fatal=True,
    )


# --- the worker's extension --------------------------------------------------------------------------------------


class _Score(Struct):
    sum: float
    tokens: int = 0


class _Scores(Struct):
    scores: list[_Score]


def encode_extension(model: RequestedModel, request: Request, encode_image: ImageEncoder) -> bytes:
    """Return the JSON body that asks a Snellen worker (`snellen worker`) for the scores of continuations."""
    body = {
        "model": model.model,
        "messages": chat.write_messages(request.messages, encode_image),
        "continuations": request.continuations,
    }
    return msgspec.json.encode(body)


def read_extension(reply: HttpReply, request: Request, now: float) -> Response | ServerFault:
    """Return a response with the scores in the reply of a Snellen worker, one per continuation, in order."""
    if reply.status != OK:
        return chat.read_fault(reply, now)
    try:
        scores = msgspec.json.decode(reply.body, type=_Scores).scores
    except JSON_FAULTS as error:
        return ServerFault("malformed", f"the reply contains no scores: {error}", retry=True)
    if len(scores) != len(request.continuations):
        return ServerFault(
            "malformed",
            f"the server returned {len(scores)} scores for {len(request.continuations)} continuations",
        )
    continuation_scores = []
    for score, text in zip(scores, request.continuations, strict=True):
        continuation_scores.append(ContinuationScore(score.sum, score.tokens, len(text.encode())))
    return Response(scores=tuple(continuation_scores), notes=(likelihood_note("extension"),))


# --- prompt log-probabilities ------------------------------------------------------------------------------------


class PromptTokens(Struct, frozen=True):
    """The tokens of a prompt, as the server reported them."""

    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...] = ()
    """Log-probability of each token given the tokens before it, in nats; None for the first token.

    Empty if only the ids were requested.
    """
    lists_ids: bool = True
    """Whether the server lists the ids by themselves. If not, they were read from the list of log-probabilities."""


class _Candidate(Struct):
    logprob: float


class _Prompted(Struct):
    prompt_logprobs: list[dict[str, _Candidate] | None] | None = None
    prompt_token_ids: list[int] | None = None


def logprobs_request_body(
    model: RequestedModel,
    request: Request,
    continuation: str | None,
    dialect: Dialect,
    encode_image: ImageEncoder,
    *,
    scored: bool = True,
) -> bytes:
    """Return the JSON body that asks for the tokens of a prompt which ends with `continuation`.

    With None, the prompt ends where a reply would begin. If `scored`, the log-probabilities of the
    tokens are requested too. One token is generated and ignored, because servers do not accept
    zero.
    """
    messages = with_continuation(request.messages, continuation)
    body: dict[str, Any] = {
        "model": model.model,
        "messages": chat.write_messages(messages, encode_image),
        dialect.max_tokens_field: 1,
        "temperature": 0,
        "return_token_ids": True,
    }
    if continuation is not None or chat.has_response_prefix(request):
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    if scored:
        # With 0 alternatives a position lists only the prompt's own token.
        body["prompt_logprobs"] = 0
    return chat.encode_body(body, model, dialect)


def with_continuation(
    messages: tuple[Message, ...], continuation: str | None
) -> tuple[Message, ...]:
    """Return a conversation whose last message is the beginning of the model's reply, with `continuation` in it.

    If the conversation already ends with the beginning of a reply, the continuation is appended to
    it: "Answer:" and "cat" give "Answer: cat". The space between them is added only if neither has
    one there, and not after an opening bracket or quote. With None, the conversation is returned as
    it is.
    """
    if continuation is None:
        return messages
    ends_with_reply = bool(messages) and messages[-1].role == "assistant"
    prefix = messages[-1].text if ends_with_reply else ""
    earlier = messages[:-1] if prefix else messages
    needs_blank = bool(prefix) and not prefix[-1].isspace() and not prefix.endswith(_OPENING)
    has_blank = continuation[:1].isspace()
    separator = " " if needs_blank and not has_blank else ""
    reply = TextPart(prefix + separator + continuation)
    return (*earlier, Message("assistant", (reply,)))


def read_prompt(reply: HttpReply, now: float, *, scored: bool = True) -> PromptTokens | ServerFault:
    """Return the tokens of a prompt from a server's reply, with their log-probabilities if `scored`.

    A server that does not report log-probabilities of prompts gives a fatal fault, because scoring
    cannot work with it.
    """
    if reply.status != OK:
        fault = chat.read_fault(reply, now)
        if fault.kind == "bad_request" and "prompt_logprobs" in fault.detail:
            return replace(fault, kind="model", detail=f"{fault.detail}; {OTHERWISE}", fatal=True)
        return fault
    try:
        prompted = msgspec.json.decode(reply.body, type=_Prompted)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)
    ids = prompted.prompt_token_ids
    positions = prompted.prompt_logprobs
    if not scored:
        if not ids:
            return ServerFault("malformed", "the reply does not list the prompt's tokens")
        return PromptTokens(tuple(ids))
    if not positions:
        return ServerFault(
            "model",
            f"the server does not return log-probabilities of prompt tokens; {OTHERWISE}",
            fatal=True,
        )
    if ids is None and any(position and len(position) > 1 for position in positions):
        return ServerFault(
            "model", f"the server does not return the tokens of the prompt; {OTHERWISE}", fatal=True
        )
    if ids is not None and len(ids) != len(positions):
        return ServerFault(
            "malformed", f"{len(ids)} prompt tokens have {len(positions)} log-probabilities"
        )

    # Each position maps token ids, as texts, to log-probabilities. The first position may be empty; its token is the
    # same in all prompts.
    names = [str(i) for i in ids] if ids else []
    if not ids:
        for position in positions:
            names.append(next(iter(position)) if position else "-1")
    try:
        logprobs: list[float | None] = []
        for name, position in zip(names, positions, strict=True):
            logprobs.append(position[name].logprob if position else None)
        token_ids = tuple(int(name) for name in names)
    except (KeyError, ValueError) as error:
        return ServerFault("malformed", f"the prompt's token {error} has no log-probability")
    return PromptTokens(token_ids, tuple(logprobs), lists_ids=ids is not None)


def border_mark(continuations: Sequence[str]) -> str:
    """Return a short text, such as "@", whose first character is not that of any of the continuations.

    If all of `MARKS` are first characters of continuations, the first mark is returned.
    """
    first_characters = {text.lstrip()[:1].lower() for text in continuations}
    for mark in MARKS:
        if mark not in first_characters:
            return mark
    return MARKS[0]


def has_other_header(alone: PromptTokens, marked: PromptTokens) -> bool:
    """Return whether a server ends a prompt differently before a reply than before a scored option.

    The header is what the chat template writes before the reply, such as "ASSISTANT:". If it
    differs, the log-likelihoods of options are not those that the same texts would have as replies.

    Args:
        alone: The tokens of the prompt before a reply.
        marked: The tokens of the same prompt with a mark in the place of an option.
    """
    shared = common_length([alone.ids, marked.ids])
    # The prompts may differ in their last tokens without having different headers: a space at the end of the prompt
    # may be a separate token, and the mark has up to MARK_TOKENS tokens.
    differs_before_reply = shared < len(alone.ids) - 1
    differs_before_mark = shared < len(marked.ids) - MARK_TOKENS
    return differs_before_reply or differs_before_mark


def common_length(texts: Sequence[Sequence[int]]) -> int:
    """Return the number of tokens at the beginning that all texts have in common: 1 for (5, 6) and (5, 7)."""
    length = 0
    for tokens in zip(*texts, strict=False):
        if len(set(tokens)) > 1:
            break
        length += 1
    return length


def no_tokens(continuation: str) -> ServerFault:
    """Return the fault for a continuation that adds no tokens to the prompt, such as an empty text."""
    return ServerFault(
        "bad_request", f"the continuation {continuation!r} has no tokens; there is nothing to score"
    )


def border_scores(
    marked: PromptTokens, prompts: Sequence[PromptTokens], continuations: Sequence[str]
) -> Response | ServerFault:
    """Return a response with one score per continuation: the sum of the log-probabilities of its tokens, in nats.

    The tokens that all prompts and the prompt with the mark have in common are the question. The
    tokens after them are the continuation.

    Args:
        marked: The prompt with a mark in the place of a continuation.
        prompts: The prompt with each continuation.
        continuations: Texts of the continuations.

    Returns:
        The response; a fault if a continuation has no tokens, or a token has no log-probability.
    """
    border = common_length([marked.ids, *(prompt.ids for prompt in prompts)])
    scores = []
    for prompt, text in zip(prompts, continuations, strict=True):
        tail = prompt.logprobs[border:]
        if not tail:
            return no_tokens(text)
        logprobs = [value for value in tail if value is not None]
        if len(logprobs) < len(tail):
            return ServerFault(
                "malformed", f"a token of the continuation {text!r} has no log-probability"
            )
        scores.append(ContinuationScore(math.fsum(logprobs), len(tail), len(text.encode())))
    return Response(scores=tuple(scores), notes=(likelihood_note("prompt_logprobs"),))


# --- option letters ----------------------------------------------------------------------------------------------


class _Token(Struct):
    token: str
    logprob: float


class _Position(Struct):
    token: str
    top_logprobs: list[_Token] = []


class _Content(Struct):
    content: list[_Position] | None = None


class _Lettered(Struct):
    logprobs: _Content | None = None


class _LettersReply(Struct):
    choices: list[_Lettered]


def encode_letters(
    model: RequestedModel, request: Request, dialect: Dialect, encode_image: ImageEncoder
) -> bytes:
    """Return the JSON body that asks for the letter of the right option.

    The continuations are listed after the question as options "(A) ...; (B) ...", and the model is
    asked for a letter.

    Raises ValueError if there are more options than candidates per token, which are 20.
    """
    if len(request.continuations) > TOP:
        raise ValueError(
            f"{TOP} candidates per token are too few for {len(request.continuations)} options"
        )
    options = []
    for letter, text in zip(LETTERS, request.continuations, strict=False):
        options.append(f"({letter}) {text}")
    instruction = TextPart(f"\nOptions: {'; '.join(options)}.\n{ASK}")
    messages = request.messages[:-1] if chat.has_response_prefix(request) else request.messages
    *earlier, last = messages
    question = replace(last, content=(*last.content, instruction))
    body = {
        "model": model.model,
        "messages": chat.write_messages((*earlier, question), encode_image),
        dialect.max_tokens_field: POSITIONS,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": TOP,
    }
    return chat.encode_body(body, model, dialect)


def read_letters(reply: HttpReply, count: int, now: float) -> Response | ServerFault:
    """Return a response with the log-probability of each of the first `count` letters.

    It is read at the first token of the reply that is not only spaces or brackets. Different tokens
    for the same letter, such as "A" and "(A", are added up. A letter that is not among the
    candidates gets a score just below that of the least likely candidate, because it is at most as
    likely. If no letter is among them, all scores are equal, so no option is chosen.
    """
    if reply.status != OK:
        fault = chat.read_fault(reply, now)
        if fault.kind == "bad_request" and "logprobs" in fault.detail:
            return replace(fault, kind="model", fatal=True)
        return fault
    try:
        choices = msgspec.json.decode(reply.body, type=_LettersReply).choices
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)
    positions = choices[0].logprobs.content if choices and choices[0].logprobs else None
    if not positions or not any(position.top_logprobs for position in positions):
        return ServerFault(
            "model",
            "the server does not return log-probabilities of its tokens (top_logprobs)",
            fatal=True,
        )
    # Spaces and brackets may come before the letter.
    letter_position = positions[0]
    for position in positions:
        if position.token.strip(_AROUND):
            letter_position = position
            break

    # "A", " A" and "(A" are different tokens for one letter.
    probabilities = dict.fromkeys(LETTERS[:count], 0.0)
    least_likely = 0.0
    for candidate in letter_position.top_logprobs:
        least_likely = min(least_likely, candidate.logprob)
        letter = candidate.token.strip(_AROUND)
        if letter in probabilities:
            probabilities[letter] += math.exp(candidate.logprob)
    upper_bound = math.nextafter(least_likely, -math.inf)

    scores = []
    missing = []
    for letter, probability in probabilities.items():
        if not probability:
            missing.append(letter)
        value = math.log(probability) if probability else upper_bound
        # A letter's score does not depend on the option's length, so all rules of normalisation agree.
        scores.append(ContinuationScore(value, 1, 1))
    notes = [likelihood_note("letters")]
    if missing and len(missing) == count:
        notes.append(NO_LETTER)
    elif missing:
        notes.append(f"not among the candidates: {', '.join(missing)}")
    return Response(scores=tuple(scores), notes=tuple(notes))
