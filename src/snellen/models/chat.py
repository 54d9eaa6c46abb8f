"""Write requests and read replies in the chat-completions format of OpenAI and compatible servers. No I/O."""

from __future__ import annotations

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import PLAIN_TYPES, to_plain_file
from snellen.extraction.thoughts import split_thoughts
from snellen.formats.json_files import JSON_FAULTS, decode_whole
from snellen.formats.shown_text import HALF_CHARACTERS
from snellen.models.connections import HttpReply
from snellen.models.request_options import RequestOptions, with_extra_fields
from snellen.models.server_faults import (
    ADDRESS_HINT,
    ReportedError,
    ServerFault,
    fault_of_reported,
    fault_of_status,
    no_completion,
    read_reported_error,
    says_unsupported,
)
from snellen.models.template_dates import date_setting
from snellen.records import (
    TOOL_CALLS,
    ImagePart,
    ImageRef,
    Message,
    Request,
    Response,
    TextPart,
    TokenLogprob,
    Usage,
)

PATH = "/chat/completions"
CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'
"""End of a content part up to which the service stores the prompt, for five minutes from its last use."""
PREFIX_DROPPED = "response prefix dropped"
LONGEST_FINGERPRINT = 100
"""Characters of a reply's `system_fingerprint` that are noted."""
USAGE_UNREADABLE = "token counts cannot be read"
REFUSAL = "the text is taken from the refusal field of the reply"

KNOWN_OWNERS = frozenset({"vllm", "sglang", "llamacpp", "snellen"})
"""Values of `owned_by` in the model lists of servers that continue a final assistant message."""

DROPPED = (
    "temperature",
    "top_p",
    "seed",
    "stop",
    "response_format",
    "reasoning_effort",
    "chat_template_kwargs",
)
"""Parameters that are left out for a server that refuses them."""

Prefix = Literal["send", "drop"]
MaxTokensField = Literal["max_tokens", "max_completion_tokens"]


class Dialect(Struct, frozen=True):
    """The variant of the chat format that a server accepts. It is changed when the server rejects a parameter."""

    prefix: Prefix
    max_tokens_field: MaxTokensField
    rejected_parameters: frozenset[str] = frozenset()
    """Parameters that the server has rejected."""


def image_part(media_type: str, base64: bytes, *, detail: str = "") -> bytes:
    """Return the JSON of a content part with an image as a data URL.

    Args:
        media_type: Such as `image/png`.
        base64: The image file in base64.
        detail: Value of OpenAI's field `detail`; empty to leave it out.
    """
    url = b"data:%b;base64,%b" % (media_type.encode(), base64)
    detail_field = b""
    if detail:
        detail_field = b',"detail":"%b"' % detail.encode()
    return b'{"type":"image_url","image_url":{"url":"%b"%b}}' % (url, detail_field)


class ImagePartCache:
    """Cache of images in the form in which requests contain them.

    An image is encoded once, even if many requests about it are in flight.
    """

    def __init__(
        self,
        most_bytes: int = 32 << 20,
        write: Callable[[str, bytes], bytes] = image_part,
        media_types: frozenset[str] = PLAIN_TYPES,
    ) -> None:
        """Create an empty cache.

        Args:
            most_bytes: Maximum size of the cache. Beyond it, the images that were not used for the
                longest time are removed.
            write: Returns the JSON of a content part, given a media type and an image in base64.
            media_types: Media types that the service accepts. Images of other types are converted
                to PNG.
        """
        self.most_bytes = most_bytes
        self.cached_bytes = 0
        self._write = write
        self._media_types = media_types
        self._parts: OrderedDict[str, bytes] = OrderedDict()

    def part(self, image: ImageRef, read_stored: Callable[[ImageRef], bytes]) -> msgspec.Raw:
        """Return the content part of an image.

        The stored file is sent as it is if every server decodes it in the same way. Otherwise it is
        converted to PNG.
        """
        part = self._parts.pop(image.digest, None)
        if part is None:
            media_type, content = to_plain_file(image, read_stored(image), self._media_types)
            part = self._write(media_type, b64encode(content))
            self.cached_bytes += len(part)
        self._parts[image.digest] = part  # as the most recently used
        while self.cached_bytes > self.most_bytes and len(self._parts) > 1:
            _, oldest = self._parts.popitem(last=False)
            self.cached_bytes -= len(oldest)
        return msgspec.Raw(part)


def has_response_prefix(request: Request) -> bool:
    """Return whether the conversation ends with an assistant message that the reply must continue."""
    return bool(request.messages) and request.messages[-1].role == "assistant"


class RequestedModel(Struct, frozen=True):
    """A served model and the options with which it is asked."""

    model: str
    options: RequestOptions = RequestOptions()
    hosted: bool = False
    """Whether it is a service whose models have no chat template of their own."""

    @property
    def template_settings(self) -> dict[str, Any]:
        """Settings for the server's chat template. Those of the user take precedence over the default date."""
        settings: dict[str, Any] = {}
        if not self.hosted:
            settings.update(date_setting(self.model, self.options.date))
        settings.update(self.options.chat_template_kwargs)
        return settings

    def date_facts(self) -> dict[str, str]:
        """Return the date that is sent to the server's chat template, for the fingerprint; {} if none is sent."""
        date = self.template_settings.get("date_string")
        return {} if date is None else {"date": str(date)}

    @property
    def reasoning_tokens(self) -> int:
        """Tokens that a reply may have for its reasoning."""
        return self.options.reasoning_budget(self.model)


def encode_chat(
    model: RequestedModel,
    request: Request,
    dialect: Dialect,
    encode_image: Callable[[ImageRef], msgspec.Raw],
    *,
    streaming: bool = False,
    caches_images: bool = False,
) -> bytes:
    """Return the JSON body of a request.

    A setting that cannot change the reply is left out: a request without sampling has no seed.

    Args:
        model: The model.
        request: The request.
        dialect: The variant of the format that the server accepts.
        encode_image: Returns an image as a content part.
        streaming: Whether the server should send the reply in parts.
        caches_images: Whether to mark the last image, so that the service caches the prompt up to
            it.
    """
    messages = request.messages
    decoding = request.decoding
    options = model.options
    body: dict[str, Any] = {"model": model.model}
    if streaming:
        body["stream"] = True
    if has_response_prefix(request):
        if dialect.prefix == "drop":
            messages = messages[:-1]
        else:
            body["continue_final_message"] = True
            body["add_generation_prompt"] = False
    written = write_messages(messages, encode_image)
    if caches_images:
        mark_images_for_cache([message["content"] for message in written])
    body["messages"] = written
    body[dialect.max_tokens_field] = decoding.max_new_tokens + model.reasoning_tokens
    body["temperature"] = decoding.temperature
    if decoding.temperature > 0:
        body["seed"] = decoding.seed
        if decoding.top_p < 1:
            body["top_p"] = decoding.top_p
    if decoding.stop:
        body["stop"] = decoding.stop
    if decoding.choices:
        body["response_format"] = _one_of(decoding.choices)
    if options.reasoning_effort:
        body["reasoning_effort"] = options.reasoning_effort
    if options.logprobs:
        body["logprobs"] = True
        body["top_logprobs"] = options.logprobs
    return encode_body(body, model, dialect)


def encode_body(body: dict[str, Any], model: RequestedModel, dialect: Dialect) -> bytes:
    """Return the JSON of a body, without the parameters that the server has rejected.

    The settings of the chat template and the user's `extra_body` are added.
    """
    accepted = {}
    for name, value in body.items():
        if name not in dialect.rejected_parameters:
            accepted[name] = value
    settings = model.template_settings
    if settings and "chat_template_kwargs" not in dialect.rejected_parameters:
        accepted["chat_template_kwargs"] = settings
    return msgspec.json.encode(with_extra_fields(accepted, model.options.extra_body))


def mark_images_for_cache(contents: Sequence[Any]) -> None:
    """Mark the last image before the question, so that the service caches the prompt up to this image.

    The next request about the same images then reads them from the cache. The mark is Anthropic's
    `cache_control`, which OpenRouter and other servers also accept. Images after the text of a
    question are not marked, because the prompt before them is different for each question.

    Args:
        contents: The contents of all messages in order. Each is a text or a list of parts; an image
            is a `msgspec.Raw`. The list with the marked image is changed in place.
    """
    for content in reversed(contents):
        if not isinstance(content, list):
            continue
        leading = 0
        while leading < len(content) and isinstance(content[leading], msgspec.Raw):
            leading += 1
        if leading:
            part = bytes(content[leading - 1])
            content[leading - 1] = msgspec.Raw(part[:-1] + CACHE_MARK)
            return


def write_messages(
    messages: Sequence[Message], encode_image: Callable[[ImageRef], msgspec.Raw]
) -> list[dict[str, Any]]:
    """Return the messages of a conversation as they are sent: `[{"role": "user", "content": ...}, ...]`.

    Args:
        messages: The messages.
        encode_image: Returns an image as a content part.
    """
    return [_message(message, encode_image) for message in messages]


def verdict_schema(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON schema of `{"verdict": ...}` with one of the choices.

    It is an object because servers require one at the top level.
    """
    return {
        "type": "object",
        "properties": {"verdict": {"type": "string", "enum": choices}},
        "required": ["verdict"],
        "additionalProperties": False,
    }


def _one_of(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return the `response_format` that makes a server reply with one of the choices."""
    schema = verdict_schema(choices)
    return {
        "type": "json_schema",
        "json_schema": {"name": "verdict", "strict": True, "schema": schema},
    }


def request_notes(request: Request, dialect: Dialect) -> tuple[str, ...]:
    """Return a note for each part of a request that was not sent, because the server rejects it; () if all was sent."""
    notes = []
    if has_response_prefix(request) and dialect.prefix == "drop":
        notes.append(PREFIX_DROPPED)
    for name in sorted(dialect.rejected_parameters):
        notes.append(f"{name} was not sent: the server rejects it")
    return tuple(notes)


def _message(message: Message, encode_image: Callable[[ImageRef], msgspec.Raw]) -> dict[str, Any]:
    """Return a message as it is sent to a server: `{"role": ..., "content": ...}`.

    The content of a message without images is a string, and not a list of parts, because not every server continues a
    final assistant message that is a list.

    Args:
        message: The message.
        encode_image: Returns the content part of an image as JSON.
    """
    is_text = all(isinstance(part, TextPart) for part in message.content)
    if is_text:
        return {"role": message.role, "content": message.text}
    parts: list[Any] = []
    for part in message.content:
        if isinstance(part, ImagePart):
            parts.append(encode_image(part.image))
        else:
            parts.append(part)
    return {"role": message.role, "content": parts}


class _Part(Struct):
    text: str = ""


class _Said(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(Struct):
    message: _Said | None = None
    finish_reason: str | None = None
    logprobs: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Completion(Struct):
    choices: list[_Choice]
    usage: msgspec.Raw = msgspec.Raw(b"null")
    error: msgspec.Raw = msgspec.Raw(b"null")
    system_fingerprint: Any = None
    """OpenAI's mark of the model and the machines behind a reply. It changes for harmless reasons."""


FAILED = frozenset({"error", "abort", "insufficient_system_resource"})
"""Finish reasons of a reply that the server could not complete, in the words of several servers.

`error` is OpenRouter's, `abort` is vLLM's and SGLang's, and the last one is DeepSeek's.
"""


_read_completion = msgspec.json.Decoder(_Completion).decode


def read_chat(reply: HttpReply, now: float) -> Response | ServerFault:
    """Return the response in an HTTP reply, or a fault if the reply is an error or cannot be read.

    Args:
        reply: The reply.
        now: The time in seconds since 1970.
    """
    if reply.status != HTTPStatus.OK:
        return read_fault(reply, now)
    try:
        completion, has_halves = decode_whole(reply.body, _read_completion)
    except JSON_FAULTS as error:
        reported = read_reported_error(reply.body)
        if reported.message:  # some gateways report a failure under status 200
            return fault_of_reported(reported)
        return no_completion(reply.body, error)
    if _is_error(completion.error):
        return fault_of_reported(read_reported_error(bytes(completion.error)))
    if not completion.choices:
        return ServerFault("malformed", "the reply has no choices", retry=True)
    choice = completion.choices[0]
    if _is_error(choice.error):
        return fault_of_reported(read_reported_error(bytes(choice.error)))
    if choice.finish_reason in FAILED:
        detail = f"the reply was cut off (finish_reason {choice.finish_reason})"
        return ServerFault("server", detail, retry=True)
    if choice.message is None:
        return ServerFault("malformed", "the reply's choice has no message", retry=True)
    if choice.finish_reason == "content_filter":
        return ServerFault("refused", "the server's content filter stopped the reply")

    message = choice.message
    notes = [HALF_CHARACTERS] if has_halves else []
    content = message.content or ""
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    if not text and message.refusal:
        text = message.refusal
        notes.append(REFUSAL)
    # A server without a parser for reasoning leaves it in the text.
    parts = split_thoughts(text)
    has_tool_calls = bytes(message.tool_calls) not in (b"null", b"[]")
    usage = _usage(completion.usage)
    if isinstance(usage, str):
        notes.append(usage)
        usage = None
    fingerprint = completion.system_fingerprint
    if isinstance(fingerprint, str) and fingerprint:
        notes.append(f"system_fingerprint {fingerprint[:LONGEST_FINGERPRINT]}")
    return Response(
        text=parts.answer,
        reasoning=message.reasoning_content or message.reasoning or parts.reasoning,
        finish=TOOL_CALLS if has_tool_calls and not text else choice.finish_reason,
        usage=usage,
        logprobs=_token_logprobs(choice.logprobs),
        notes=tuple(notes),
    )


def _is_error(error: msgspec.Raw) -> bool:
    """Return whether a JSON value reports an error: it is neither null nor empty."""
    return bytes(error).strip() not in (b"null", b"", b"{}", b'""', b"false")


class _PromptDetails(Struct):
    cached_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


def _usage(raw: msgspec.Raw) -> Usage | str | None:
    """Return the token counts of a reply; None if it has none, or a note if they cannot be read.

    Numbers that a server writes as strings are accepted.
    """
    try:
        counts = msgspec.json.decode(raw, type=_Usage | None, strict=False)
    except JSON_FAULTS:
        return USAGE_UNREADABLE
    if counts is None:
        return None
    cached = None
    if counts.prompt_tokens_details:
        cached = counts.prompt_tokens_details.cached_tokens
    thought = None
    if counts.completion_tokens_details:
        thought = counts.completion_tokens_details.reasoning_tokens
    return Usage(counts.prompt_tokens, counts.completion_tokens, cached or None, thought or None)


class _Alternative(Struct):
    token: str
    logprob: float


class _Token(Struct):
    token: str
    logprob: float
    top_logprobs: list[_Alternative] = []


class _Logprobs(Struct):
    content: list[_Token] | None = None


def _token_logprobs(raw: msgspec.Raw) -> tuple[TokenLogprob, ...]:
    """Return the log-probabilities of the reply's tokens; () if the server gives none, or in another format."""
    try:
        logprobs = msgspec.json.decode(raw, type=_Logprobs | None)
    except JSON_FAULTS:
        return ()
    if logprobs is None:
        return ()
    tokens = []
    for token in logprobs.content or ():
        alternatives = [(candidate.token, candidate.logprob) for candidate in token.top_logprobs]
        tokens.append(TokenLogprob(token.token, token.logprob, tuple(alternatives)))
    return tuple(tokens)


def read_fault(reply: HttpReply, now: float) -> ServerFault:
    """Return the fault that a reply with an error status describes."""
    error = read_reported_error(reply.body)
    return fault_of_status(reply, error, now, ADDRESS_HINT, _refused_parameter(error))


def adapt_dialect(dialect: Dialect, fault: ServerFault, settled: frozenset[str]) -> Dialect | None:
    """Return the variant of the format to try next, after the server has rejected a parameter.

    For example, `max_tokens` is replaced by `max_completion_tokens`. Each change can be made only
    once, so a request is not sent again forever.

    Args:
        dialect: The variant in which the failed request was written.
        fault: The fault, which names the parameter.
        settled: Settings that the user has chosen, `prefix` or `max_tokens`, which are not changed.

    Returns:
        The new variant; None if there is nothing to change.
    """
    name = fault.rejected_parameter
    if name == dialect.max_tokens_field == "max_tokens" and name not in settled:
        return replace(dialect, max_tokens_field="max_completion_tokens")
    if name == "prefix" and dialect.prefix == "send" and "prefix" not in settled:
        return replace(dialect, prefix="drop")
    if name in DROPPED and name not in dialect.rejected_parameters:
        return replace(dialect, rejected_parameters=dialect.rejected_parameters | {name})
    return None


def continues_response_prefix(reply: HttpReply) -> bool:
    """Return whether a server can continue an assistant message at the end of the conversation.

    This is judged by who owns the models in its list of models. It is false for servers that are
    not known, and if the list cannot be read.
    """
    if reply.status != HTTPStatus.OK:
        return False
    try:
        models = msgspec.json.decode(reply.body)["data"]
        owners = {str(model["owned_by"]).lower() for model in models}
    except (*JSON_FAULTS, KeyError, TypeError):
        return False
    return bool(owners & KNOWN_OWNERS)


def _refused_parameter(error: ReportedError) -> str:
    """Return the parameter that the server says it does not support; empty if it names none.

    `prefix` stands for an assistant message at the end of the conversation, which the reply should
    continue.
    """
    message = error.message
    if "continue_final_message" in message or "add_generation_prompt" in message:
        return "prefix"
    if "prefill" in message.lower():
        return "prefix"
    if not says_unsupported(error):
        return ""
    parameters = ("max_tokens", "max_completion_tokens", *DROPPED)
    if error.parameter in parameters:
        return error.parameter
    for name in parameters:
        if f"'{name}'" in message:
            return name
    return ""
