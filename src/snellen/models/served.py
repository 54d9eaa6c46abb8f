"""Log-likelihoods from a server: encoding requests and reading replies. No I/O.

There are three sources, of which a run uses one:

extension        `snellen worker` announces in its list of models that it scores continuations itself.
prompt_logprobs  vLLM gives the log-probability of each prompt token. Each continuation is sent as an open
                 final assistant message, and so is a mark with which none of them begins: tokens that
                 all of these share are context, the others are scored. A token that straddles the
                 border thus belongs to the continuation, for all continuations alike, and what the
                 template writes before any reply, such as an empty thought, to none.
letters          For servers that give only the most likely candidates of the first tokens (OpenAI, SGLang,
                 llama.cpp): options are shown with letters, and the letters' probabilities are read.
                 This is a different quantity: never chosen by default, never mixed with the others.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Sequence
from itertools import takewhile
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

LikelihoodSource = Literal["extension", "prompt_logprobs", "letters"]
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
"""Replies by which the end of the header is found: each is a token of its own in most vocabularies."""
OTHER_HEADER = "options are scored after a different header than replies have"
_OPENING = ("(", "[", "{", "<", '"', "'")
_AROUND = " \t\n\r([{<*\"'`.:,)>]}"


def likelihood_note(source: LikelihoodSource) -> str:
    """The note on every response with scores from this source."""
    return f"likelihood by {source}"


# --- choosing a source -------------------------------------------------------------------------------------------


def likelihood_source_of(reply: HttpReply, model: str) -> LikelihoodSource | ServerFault:
    """The source that a model list announces; without an announcement, prompt log-probabilities are tried.

    A worker whose class cannot score is a fatal fault.
    """
    if reply.status != OK:
        return "prompt_logprobs"
    try:
        models = msgspec.json.decode(reply.body)["data"]
        entries = [
            model_entry for model_entry in models if model_entry.get("id") == model
        ] or models
        extensions = [
            model_entry["snellen"]
            for model_entry in entries
            if isinstance(model_entry.get("snellen"), dict)
        ]
    except (*JSON_FAULTS, KeyError, TypeError, AttributeError):
        return "prompt_logprobs"
    if not extensions:
        return "prompt_logprobs"
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


def encode_extension(model: RequestedModel, request: Request, picture: ImageEncoder) -> bytes:
    body = {
        "model": model.model,
        "messages": chat.write_messages(request.messages, picture),
        "continuations": request.continuations,
    }
    return msgspec.json.encode(body)


def read_extension(reply: HttpReply, request: Request, now: float) -> Response | ServerFault:
    """The scores of a worker, one per continuation, in order."""
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
    pairs = zip(scores, request.continuations, strict=True)
    return Response(
        scores=tuple(
            ContinuationScore(score.sum, score.tokens, len(text.encode())) for score, text in pairs
        ),
        notes=(likelihood_note("extension"),),
    )


# --- prompt log-probabilities ------------------------------------------------------------------------------------


class PromptTokens(Struct, frozen=True):
    """A prompt as the server tokenised it."""

    ids: tuple[int, ...]
    logprobs: tuple[float | None, ...] = ()
    """In nats, of each token given those before it; the first has none. Empty when only ids were requested."""
    lists_ids: bool = True
    """Whether the server lists the ids separately."""


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
    picture: ImageEncoder,
    *,
    scored: bool = True,
) -> bytes:
    """Ask for the tokens of the prompt with `continuation` at its end, and for their log-probabilities if `scored`.

    With 0 alternatives a position lists only the prompt's own token. At least one token must be generated.
    """
    body: dict[str, Any] = {
        "model": model.model,
        "messages": chat.write_messages(with_continuation(request.messages, continuation), picture),
        dialect.max_tokens_field: 1,
        "temperature": 0,
        "return_token_ids": True,
    }
    if continuation is not None or chat.has_response_prefix(request):
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    if scored:
        body["prompt_logprobs"] = 0
    return chat.encode_body(body, model, dialect)


def with_continuation(
    messages: tuple[Message, ...], continuation: str | None
) -> tuple[Message, ...]:
    """The conversation with `continuation` as the beginning of the reply, after an existing response prefix."""
    if continuation is None:
        return messages
    opened = messages[-1].text if messages and messages[-1].role == "assistant" else ""
    earlier = messages[:-1] if opened else messages
    set_off = (
        opened
        and not opened[-1].isspace()
        and not opened.endswith(_OPENING)
        and not continuation[:1].isspace()
    )
    return (
        *earlier,
        Message("assistant", (TextPart(opened + (" " if set_off else "") + continuation),)),
    )


def read_prompt(reply: HttpReply, now: float, *, scored: bool = True) -> PromptTokens | ServerFault:
    """The tokens of a prompt. A server that does not report them is a fatal fault."""
    if reply.status != OK:
        fault = chat.read_fault(reply, now)
        if fault.kind == "bad_request" and "prompt_logprobs" in fault.detail:
            return replace(fault, kind="model", detail=f"{fault.detail}; {OTHERWISE}", fatal=True)
        return fault
    try:
        prompted = msgspec.json.decode(reply.body, type=_Prompted)
    except JSON_FAULTS as error:
        return no_completion(reply.body, error)
    ids, positions = prompted.prompt_token_ids, prompted.prompt_logprobs
    if not scored:
        return (
            PromptTokens(tuple(ids))
            if ids
            else ServerFault("malformed", "the reply does not list the prompt's tokens")
        )
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
    # The first position has no log-probability and maybe no name; it is the same in all prompts.
    names = (
        [str(i) for i in ids]
        if ids
        else [next(iter(position), "-1") if position else "-1" for position in positions]
    )
    try:
        logprobs = [
            position[name].logprob if position else None
            for position, name in zip(positions, names, strict=True)
        ]
        return PromptTokens(tuple(map(int, names)), tuple(logprobs), lists_ids=ids is not None)
    except (KeyError, ValueError) as error:
        return ServerFault("malformed", f"the prompt's token {error} has no log-probability")


def border_mark(continuations: Sequence[str]) -> str:
    """A reply that begins as none of `continuations` does."""
    beginnings = {text.lstrip()[:1].lower() for text in continuations}
    return next((mark for mark in MARKS if mark not in beginnings), MARKS[0])


def has_other_header(alone: PromptTokens, marked: PromptTokens) -> bool:
    """Whether the prompt that replies follow (`alone`) ends otherwise than what stands before the mark in `marked`.

    A mark has up to two tokens, and a blank at the end of a prompt may be one of its own.
    """
    ids = zip(alone.ids, marked.ids, strict=False)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], ids)))
    return shared < len(alone.ids) - 1 or shared < len(marked.ids) - 2


def border_scores(
    marked: PromptTokens, prompts: Sequence[PromptTokens], continuations: Sequence[str]
) -> Response | ServerFault:
    """One score per continuation: the sum over the tokens after those that all prompts share with `marked`, the prompt
    with a mark in the place of a continuation."""
    tokens = zip(marked.ids, *(prompt.ids for prompt in prompts), strict=False)
    border = len(list(takewhile(lambda ids: len(set(ids)) == 1, tokens)))
    scores = []
    for prompt, text in zip(prompts, continuations, strict=True):
        tail = prompt.logprobs[border:]
        if not tail:
            return ServerFault(
                "bad_request", f"the continuation {text!r} has no tokens; there is nothing to score"
            )
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
    model: RequestedModel, request: Request, dialect: Dialect, picture: ImageEncoder
) -> bytes:
    """Ask for the letter of an option, the continuations shown as options after the question.

    Raises ValueError for more options than letters or candidates.
    """
    if len(request.continuations) > TOP:
        raise ValueError(
            f"{TOP} candidates per token are too few for {len(request.continuations)} options"
        )
    lettered = "; ".join(
        f"({label}) {text}" for label, text in zip(LETTERS, request.continuations, strict=False)
    )
    messages = request.messages[:-1] if chat.has_response_prefix(request) else request.messages
    last_message = messages[-1]
    question = replace(
        last_message, content=(*last_message.content, TextPart(f"\nOptions: {lettered}.\n{ASK}"))
    )
    body = {
        "model": model.model,
        "messages": chat.write_messages((*messages[:-1], question), picture),
        dialect.max_tokens_field: POSITIONS,
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": TOP,
    }
    return chat.encode_body(body, model, dialect)


def read_letters(reply: HttpReply, count: int, now: float) -> Response | ServerFault:
    """Log-probabilities of the first `count` letters at the position where the reply names one.

    A letter that is not among the candidates gets just less than the least likely candidate, an upper bound;
    if no letter is, all scores are equal and nothing is chosen.
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
    position = next(
        (
            candidate_position
            for candidate_position in positions
            if candidate_position.token.strip(_AROUND)
        ),
        positions[0],
    )
    masses = dict.fromkeys(LETTERS[:count], 0.0)
    for candidate in position.top_logprobs:
        name = candidate.token.strip(_AROUND)
        if name in masses:
            masses[name] += math.exp(candidate.logprob)
    least = math.nextafter(
        min(
            (candidate_position.logprob for candidate_position in position.top_logprobs),
            default=0.0,
        ),
        -math.inf,
    )
    values = [math.log(mass) if mass else least for mass in masses.values()]
    notes = [likelihood_note("letters")]
    if missing := [name for name, mass in masses.items() if not mass]:
        notes.append(
            NO_LETTER
            if len(missing) == count
            else f"not among the candidates: {', '.join(missing)}"
        )
    # A letter's score does not depend on the option's length, so all rules agree.
    return Response(
        scores=tuple(ContinuationScore(value, 1, 1) for value in values), notes=tuple(notes)
    )
