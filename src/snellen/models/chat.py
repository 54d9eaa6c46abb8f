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

from snellen.formats.decoding import JSON_FAULTS
from snellen.images import to_plain_file
from snellen.models.connections import HttpReply
from snellen.models.retry import parse_retry_after
from snellen.records import ErrorKind, ImagePart, ImageRef, Message, Request, Response, TextPart, Usage

PATH = "/chat/completions"
PREFIX_DROPPED = "response prefix dropped"
REASONING_LEFT_OUT = "reasoning left out"
USAGE_UNREADABLE = "token counts cannot be read"
REFUSAL = "the text is the reply's refusal field"

KNOWN_OWNERS = frozenset({"vllm", "sglang", "llamacpp", "snellen"})
"""Values of `owned_by` in the model lists of servers that continue a final assistant message."""

Prefix = Literal["send", "drop"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


class Dialect(Struct, frozen=True):
    """The variant of the format that a server accepts, as far as known so far."""

    prefix: Prefix
    max_tokens_field: MaxTokensField
    rejected_parameters: frozenset[str] = frozenset()
    """Parameters that the server has rejected."""


class ServerFault(Struct, frozen=True):
    """Why an attempt failed."""

    kind: ErrorKind
    detail: str
    retry: bool = False
    retry_after: float | None = None
    """Seconds that the server asked for."""
    fatal: bool = False
    """Every other request would fail too, so the run should end."""
    rejected_parameter: str = ""
    """The parameter that the server does not accept."""


class ImagePartCache:
    """Images as content parts, encoded once for all concurrent requests about an image."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self.most_bytes = most_bytes
        self.held_bytes = 0
        self._parts: OrderedDict[str, bytes] = OrderedDict()

    def part(self, image: ImageRef, read: Callable[[ImageRef], bytes]) -> msgspec.Raw:
        """The image as a base64 data URL in a content part: its stored bytes where every server reads them alike."""
        part = self._parts.pop(image.digest, None)
        if part is None:
            media_type, content = to_plain_file(image, read(image))
            url = b"data:%b;base64,%b" % (media_type.encode(), b64encode(content))
            part = b'{"type":"image_url","image_url":{"url":"%b"}}' % url
            self.held_bytes += len(part)
        self._parts[image.digest] = part
        while self.held_bytes > self.most_bytes and len(self._parts) > 1:
            self.held_bytes -= len(self._parts.popitem(last=False)[1])
        return msgspec.Raw(part)


def has_response_prefix(request: Request) -> bool:
    """Whether the conversation ends with an assistant message that the reply must continue."""
    return bool(request.messages) and request.messages[-1].role == "assistant"


def encode_chat(model: str, request: Request, dialect: Dialect, picture: Callable[[ImageRef], msgspec.Raw]) -> bytes:
    """The JSON body of a request. Only settings that affect the reply are included: a greedy request has no seed."""
    messages, decoding = request.messages, request.decoding
    body: dict[str, Any] = {"model": model}
    if has_response_prefix(request):
        if dialect.prefix == "drop":
            messages = messages[:-1]
        else:
            body |= {"continue_final_message": True, "add_generation_prompt": False}
    body["messages"] = write_messages(messages, picture)
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
    for name in dialect.rejected_parameters:
        body.pop(name, None)
    return msgspec.json.encode(body)


def write_messages(messages: Sequence[Message], picture: Callable[[ImageRef], msgspec.Raw]) -> list[dict[str, Any]]:
    """A conversation as sent over the wire, with pictures encoded by `picture`."""
    return [_message(message, picture) for message in messages]


def _one_of(choices: tuple[str, ...]) -> dict[str, Any]:
    """The schema of `{"verdict": ...}`: servers require an object at the top level."""
    schema = {
        "type": "object",
        "properties": {"verdict": {"type": "string", "enum": choices}},
        "required": ["verdict"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


def request_notes(request: Request, dialect: Dialect) -> tuple[str, ...]:
    """Notes on how a request was sent."""
    dropped = (PREFIX_DROPPED,) if has_response_prefix(request) and dialect.prefix == "drop" else ()
    return (*dropped, *(f"{name} left out: the server refuses it" for name in sorted(dialect.rejected_parameters)))


def _message(message: Message, picture: Callable[[ImageRef], msgspec.Raw]) -> dict[str, Any]:
    """Text-only content is sent as a string: not every server continues a final assistant message in parts."""
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
    usage: msgspec.Raw = msgspec.Raw(b"null")


_read_completion = msgspec.json.Decoder(_Completion).decode


def read_chat(reply: HttpReply, now: float) -> Response | ServerFault:
    """The response in a reply, or what is wrong with it. `now` is seconds since 1970."""
    if reply.status != HTTPStatus.OK:
        return read_fault(reply, now)
    try:
        completion = _read_completion(reply.body)
    except JSON_FAULTS as error:
        message, _, _ = _error_of(reply.body)
        if message:  # some gateways report a failure under status 200
            return ServerFault("server", f"HTTP 200 with an error: {message}", retry=True)
        return ServerFault("malformed", f"the reply is no chat completion: {error}", retry=True)
    if not completion.choices:
        return ServerFault("malformed", "the reply has no choices", retry=True)
    choice = completion.choices[0]
    if choice.finish_reason == "content_filter":
        return ServerFault("refused", "the server's content filter stopped the reply")
    reply_message, notes = choice.message, []
    content = reply_message.content or ""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    if not text and reply_message.refusal:
        text = reply_message.refusal
        notes.append(REFUSAL)
    if reply_message.reasoning_content or reply_message.reasoning:
        notes.append(REASONING_LEFT_OUT)
    usage = _usage(completion.usage)
    if isinstance(usage, str):
        notes.append(usage)
        usage = None
    return Response(text=text, finish=choice.finish_reason, usage=usage, notes=tuple(notes))


def _usage(raw: msgspec.Raw) -> Usage | str | None:
    """The token counts of a reply, also where a server writes them as texts; or a note that they cannot be read."""
    try:
        return msgspec.json.decode(raw, type=Usage | None, strict=False)
    except JSON_FAULTS:
        return USAGE_UNREADABLE


_FILTER_CODES = {"content_filter", "content_policy_violation", "moderation_blocked"}


def read_fault(reply: HttpReply, now: float) -> ServerFault:
    """The fault described by a reply with an error status."""
    message, code, param = _error_of(reply.body)
    reason = message or reply.body[:200].decode("utf-8", "replace").strip() or _phrase(reply.status)
    detail = f"HTTP {reply.status}: {reason}"
    retry_after = parse_retry_after(reply.headers.get("retry-after", ""), now)
    if retry_after is not None:
        detail += f"; Retry-After {retry_after:.0f} s"
    match reply.status:
        case 400 | 403 if code in _FILTER_CODES:
            return ServerFault("refused", detail)
        case 401 | 403:
            return ServerFault("auth", f"{detail}; check the API key", fatal=True)
        case 404:
            return ServerFault("model", f"{detail}; check the model's name and that the URL ends in /v1", fatal=True)
        case 402:
            return ServerFault("auth", detail, fatal=True)
        case 429 if code == "insufficient_quota":
            return ServerFault("auth", detail, fatal=True)
        case 429:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 503 if retry_after is not None:
            return ServerFault("rate_limit", detail, retry=True, retry_after=retry_after)
        case 408 | 504:
            return ServerFault("timeout", detail, retry=True, retry_after=retry_after)
        case status if status >= 500 or status in (409, 425):
            return ServerFault("server", detail, retry=True, retry_after=retry_after)
        case status if 300 <= status < 400:
            where = reply.headers.get("location", "elsewhere")
            return ServerFault("model", f"{detail}: redirected to {where}; give that URL", fatal=True)
        case _:
            return ServerFault("bad_request", detail, rejected_parameter=_refused_parameter(message, code, param))


def adapt_dialect(dialect: Dialect, fault: ServerFault, settled: frozenset[str]) -> Dialect | None:
    """The dialect to try after `fault`, or None when there is none.

    `settled` names what the user has fixed: `prefix`, `max_tokens`. Each adaptation is made at most once,
    so the attempts come to an end.
    """
    name = fault.rejected_parameter
    if name == dialect.max_tokens_field == "max_tokens" and name not in settled:
        return replace(dialect, max_tokens_field="max_completion_tokens")
    if name == "prefix":
        return replace(dialect, prefix="drop") if dialect.prefix == "send" and "prefix" not in settled else None
    if name in ("temperature", "top_p", "seed", "stop", "response_format") and name not in dialect.rejected_parameters:
        return replace(dialect, rejected_parameters=dialect.rejected_parameters | {name})
    return None


def continues_response_prefix(reply: HttpReply, now: float) -> bool | ServerFault:
    """Whether a model list comes from a server that continues a final assistant message.

    False for an unknown server. A fault that is worth another attempt is returned unchanged.
    """
    if reply.status != HTTPStatus.OK:
        fault = read_fault(reply, now)
        return fault if fault.retry else False
    try:
        owners = {str(model["owned_by"]).lower() for model in msgspec.json.decode(reply.body)["data"]}
    except (*JSON_FAULTS, KeyError, TypeError):
        return False
    return bool(owners & KNOWN_OWNERS)


def _refused_parameter(message: str, code: str, param: str) -> str:
    """The parameter that an error 400 complains about (`prefix` for the response prefix), or an empty text."""
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
    """Message, code and parameter of an error, in any of the JSON forms that servers use; empty where missing."""
    try:
        content = msgspec.json.decode(body)
    except JSON_FAULTS:
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
