"""The chat-completions format of OpenAI and of the servers that speak it: writing and reading, no I/O."""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.models.connections import Reply
from snellen.models.retry import parse_retry_after
from snellen.records import ErrorKind, ImagePart, ImageRef, Message, Request, Response, TextPart, Usage

PATH = "/chat/completions"
PREFIX_DROPPED = "response prefix dropped"
REASONING_LEFT_OUT = "reasoning left out"
REFUSAL = "the text is the reply's refusal field"

KNOWN_OWNERS = frozenset({"vllm", "sglang", "llamacpp", "snellen"})
"""What `owned_by` says in the model list of servers that continue a final assistant message."""

Prefix = Literal["send", "drop"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


class Dialect(Struct, frozen=True):
    """How a server wants to be asked, as far as it is known by now."""

    prefix: Prefix
    max_tokens_field: MaxTokensField
    without: frozenset[str] = frozenset()
    """Parameters that the server has refused."""


class Fault(Struct, frozen=True):
    """Why one attempt brought no reply."""

    kind: ErrorKind
    detail: str
    retry: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    fatal: bool = False
    """No other request would fare better: the run should end."""
    refuses: str = ""
    """The parameter that the server does not take."""


class Pictures:
    """Images as content parts, written once for all the requests about an image that travel together."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._parts: OrderedDict[str, bytes] = OrderedDict()

    def part(self, image: ImageRef, read: Callable[[ImageRef], bytes]) -> msgspec.Raw:
        """The image's bytes, as they are stored, as a base64 data URL in a content part."""
        part = self._parts.pop(image.digest, None)
        if part is None:
            url = b"data:%b;base64,%b" % (image.media_type.encode(), b64encode(read(image)))
            part = b'{"type":"image_url","image_url":{"url":"%b"}}' % url
            self.held_bytes += len(part)
        self._parts[image.digest] = part
        while self.held_bytes > self.most_bytes and len(self._parts) > 1:
            self.held_bytes -= len(self._parts.popitem(last=False)[1])
        return msgspec.Raw(part)


def ends_open(request: Request) -> bool:
    """The conversation ends with words of the assistant that the reply is to continue."""
    return bool(request.messages) and request.messages[-1].role == "assistant"


def encode(model: str, request: Request, dialect: Dialect, picture: Callable[[ImageRef], msgspec.Raw]) -> bytes:
    """The JSON body of a request. Only what changes the reply is said: a greedy reply has no seed."""
    messages, decoding = request.messages, request.decoding
    body: dict[str, Any] = {"model": model}
    if ends_open(request):
        if dialect.prefix == "drop":
            messages = messages[:-1]
        else:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    body["messages"] = write(messages, picture)
    body[dialect.max_tokens_field] = decoding.max_new_tokens
    body["temperature"] = decoding.temperature
    if decoding.temperature > 0:
        body["seed"] = decoding.seed
        if decoding.top_p < 1:
            body["top_p"] = decoding.top_p
    if decoding.stop:
        body["stop"] = decoding.stop
    if decoding.choices:
        body["response_format"] = _one_of(decoding.choices)
    for name in dialect.without:
        body.pop(name, None)
    return msgspec.json.encode(body)


def write(messages: Sequence[Message], picture: Callable[[ImageRef], msgspec.Raw]) -> list[dict[str, Any]]:
    """A conversation as it goes over the wire, pictures as `picture` writes them."""
    return [_message(message, picture) for message in messages]


def _one_of(choices: tuple[str, ...]) -> dict[str, Any]:
    """The schema of `{"verdict": ...}`: servers want an object at the top."""
    schema = {
        "type": "object",
        "properties": {"verdict": {"type": "string", "enum": choices}},
        "required": ["verdict"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


def notes_for(request: Request, dialect: Dialect) -> tuple[str, ...]:
    """What is to be said about how a request was asked."""
    dropped = (PREFIX_DROPPED,) if ends_open(request) and dialect.prefix == "drop" else ()
    return (*dropped, *(f"{name} left out: the server refuses it" for name in sorted(dialect.without)))


def _message(message: Message, picture: Callable[[ImageRef], msgspec.Raw]) -> dict[str, Any]:
    """Text alone goes as a string: a final assistant message in parts is not continued everywhere."""
    if all(isinstance(part, TextPart) for part in message.content):
        return {"role": message.role, "content": message.text}
    parts = [picture(part.image) if isinstance(part, ImagePart) else part for part in message.content]
    return {"role": message.role, "content": parts}


class _Part(Struct):
    text: str = ""


class _Said(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(Struct):
    message: _Said
    finish_reason: str | None = None


class _Completion(Struct):
    choices: list[_Choice]
    usage: Usage | None = None


_read_completion = msgspec.json.Decoder(_Completion).decode


def read(reply: Reply, now: float) -> Response | Fault:
    """The response in a reply, or what is wrong with it. `now` is seconds since 1970."""
    if reply.status != HTTPStatus.OK:
        return read_fault(reply, now)
    try:
        completion = _read_completion(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message, _, _ = _error_of(reply.body)
        if message:  # some gateways report a failure under status 200
            return Fault("server", f"HTTP 200 with an error: {message}", retry=True)
        return Fault("malformed", f"the reply is no chat completion: {error}", retry=True)
    if not completion.choices:
        return Fault("malformed", "the reply has no choices", retry=True)
    choice = completion.choices[0]
    if choice.finish_reason == "content_filter":
        return Fault("refused", "the server's content filter stopped the reply")
    said, notes = choice.message, []
    content = said.content or ""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    if not text and said.refusal:
        text = said.refusal
        notes.append(REFUSAL)
    if said.reasoning_content or said.reasoning:
        notes.append(REASONING_LEFT_OUT)
    return Response(text=text, finish=choice.finish_reason, usage=completion.usage, notes=tuple(notes))


_FILTER_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}


def read_fault(reply: Reply, now: float) -> Fault:
    """What a reply with an error status says."""
    message, code, param = _error_of(reply.body)
    said = message or reply.body[:200].decode("utf-8", "replace").strip() or _phrase(reply.status)
    detail = f"HTTP {reply.status}: {said}"
    asked = parse_retry_after(reply.headers.get("retry-after", ""), now)
    if asked is not None:
        detail += f"; Retry-After {asked:.0f} s"
    match reply.status:
        case 400 | 403 if code in _FILTER_CODES:
            return Fault("refused", detail)
        case 401 | 403:
            return Fault("auth", f"{detail}; check the API key", fatal=True)
        case 404:
            return Fault("model", f"{detail}; check the model's name and that the URL ends in /v1", fatal=True)
        case 402:
            return Fault("auth", detail, fatal=True)
        case 429 if code == "insufficient_quota":
            return Fault("auth", detail, fatal=True)
        case 429:
            return Fault("rate_limit", detail, retry=True, retry_after=asked)
        case 503 if asked is not None:
            return Fault("rate_limit", detail, retry=True, retry_after=asked)
        case 408 | 504:
            return Fault("timeout", detail, retry=True, retry_after=asked)
        case status if status >= 500 or status in (409, 425):
            return Fault("server", detail, retry=True, retry_after=asked)
        case status if 300 <= status < 400:
            where = reply.headers.get("location", "elsewhere")
            return Fault("model", f"{detail}: redirected to {where}; give that URL", fatal=True)
        case _:
            return Fault("bad_request", detail, refuses=_refused_parameter(message, code, param))


def adapt(dialect: Dialect, fault: Fault, settled: frozenset[str]) -> Dialect | None:
    """How to ask instead after `fault`, or None when nothing can be done.

    `settled` names what the user has chosen: `prefix`, `max_tokens`. Each step is taken once, so
    asking again in this way comes to an end.
    """
    name = fault.refuses
    if name == dialect.max_tokens_field == "max_tokens" and name not in settled:
        return replace(dialect, max_tokens_field="max_completion_tokens")
    if name == "prefix":
        return replace(dialect, prefix="drop") if dialect.prefix == "send" and "prefix" not in settled else None
    if name in ("temperature", "top_p", "seed", "stop", "response_format") and name not in dialect.without:
        return replace(dialect, without=dialect.without | {name})
    return None


def continues(reply: Reply, now: float) -> bool | Fault:
    """Whether a model list is of a server that continues a final assistant message.

    False for one that we do not know. A fault that is worth another attempt is returned as it is.
    """
    if reply.status != HTTPStatus.OK:
        fault = read_fault(reply, now)
        return fault if fault.retry else False
    try:
        owners = {str(model["owned_by"]).lower() for model in msgspec.json.decode(reply.body)["data"]}
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return False
    return bool(owners & KNOWN_OWNERS)


def _refused_parameter(message: str, code: str, param: str) -> str:
    """The parameter that an error 400 is about, `prefix` for the response prefix, or nothing."""
    lowered = message.lower()
    if "continue_final_message" in message or "add_generation_prompt" in message or "prefill" in lowered:
        return "prefix"
    unsupported = code in ("unsupported_parameter", "unsupported_value") or any(
        word in lowered for word in ("unsupported", "not supported", "does not support", "unrecognized", "unknown")
    )
    if not unsupported:
        return ""
    named = ("max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "response_format")
    return param if param in named else next((name for name in named if f"'{name}'" in message), "")


def _error_of(body: bytes) -> tuple[str, str, str]:
    """Message, code and parameter of an error, in any of the JSON forms that servers use; empty without."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "", "", ""
    error = content.get("error", content) if isinstance(content, dict) else content
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or ""
        return str(message), str(error.get("code") or error.get("type") or ""), str(error.get("param") or "")
    return (str(error), "", "") if isinstance(error, str) else ("", "", "")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"
