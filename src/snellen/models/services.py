"""Services with formats of their own: what is particular to each, as a `Provider`.

`anthropic:MODEL`                Claude by the Messages API, version 2023-06-01 (platform.claude.com/docs)
`bedrock:MODEL?region=...`       models on Amazon Bedrock by its Converse API, by API key or AWS credentials
`gemini:MODEL`                   Gemini by the generativelanguage REST interface, v1beta (ai.google.dev/api)
`vertex:MODEL?project=...`       the same on Google Cloud, with the token of google-auth
"""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from snellen.errors import MissingExtraError, ModelError
from snellen.formats.json_files import JSON_FAULTS
from snellen.installation import install_line
from snellen.models.batches import AnthropicBatches
from snellen.models.chat import mark_images_for_cache, verdict_schema
from snellen.models.client import ClientOptions
from snellen.models.connections import HttpReply
from snellen.models.model_strings import ModelSpec
from snellen.models.provider import AskedModel, HeaderSource, OutgoingRequest, Provider
from snellen.models.server_faults import ReportedError, ServerFault, read_reported_error
from snellen.records import TOOL_CALLS, Response, TokenLogprob, Usage

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
FINISHES = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": TOOL_CALLS,
    "malformed_tool_use": TOOL_CALLS,
}
"""Why a reply ended, in the words of Anthropic and of Bedrock."""


def _tokens_read(uncached: int | None, cached: int | None, stored: int | None) -> int | None:
    """Return all input tokens of a reply, for services that count three kinds separately.

    These are tokens read as usual, read from the service's cache, and written into it. None if the service did not count.
    """
    if uncached is None:
        return None
    return uncached + (cached or 0) + (stored or 0)


# --- Anthropic --------------------------------------------------------------------------------------------------------
# Newer models take no temperature and no top_p, and think as much as they decide themselves ("adaptive"); older ones
# have no such mode. Both are found out by what a model refuses.


THINKING_BUDGET = ("thinking.type.enabled", "budget_tokens")
"""What a model names that refuses to be given a budget for its thinking."""
LEAST_THINKING = 1024
"""The smallest budget for thinking that the service takes."""
ANTHROPIC_LIMITS = ("requests", "tokens", "input-tokens", "output-tokens")


def write_anthropic_image(media_type: str, base64: bytes) -> bytes:
    """Return the JSON of an image in a request."""
    form = b'{"type":"image","source":{"type":"base64","media_type":"%b","data":"%b"}}'
    return form % (media_type.encode(), base64)


def write_anthropic(call: AskedModel) -> dict[str, Any]:
    """Return the body of a request.

    Thinking is requested by a budget if `reasoning_tokens` is set and the model takes one, or else by an effort if one is
    set. A model that thinks takes no temperature.
    """
    decoding = call.request.decoding
    options = call.options
    messages = []
    for role, content in call.turns(lambda text: {"type": "text", "text": text}):
        messages.append({"role": role, "content": content})
    if getattr(options, "cache_images", False):
        mark_images_for_cache([message["content"] for message in messages])
    body: dict[str, Any] = {
        "model": call.model,
        "max_tokens": max(call.most_tokens, 1),
        "messages": messages,
    }
    if call.system:
        body["system"] = "\n\n".join(call.system)
    if decoding.stop:
        body["stop_sequences"] = list(decoding.stop)

    has_effort = options.reasoning_effort not in ("", "none")
    thinking: dict[str, Any] = {}
    if options.reasoning_effort == "none" or options.reasoning_tokens == 0:
        thinking = {"type": "disabled"}
    elif options.reasoning_tokens and call.refused.isdisjoint(THINKING_BUDGET):
        budget = max(options.reasoning_tokens, LEAST_THINKING)
        thinking = {"type": "enabled", "budget_tokens": budget, "display": "summarized"}
    elif options.reasoning_tokens or has_effort:
        thinking = {"type": "adaptive", "display": "summarized"}
    if options.reasoning_tokens and options.reasoning_effort != "none":
        budget = max(options.reasoning_tokens, LEAST_THINKING)
        body["max_tokens"] = decoding.max_new_tokens + budget
    if thinking:
        body["thinking"] = thinking

    thinks = thinking.get("type") in ("enabled", "adaptive")
    if not thinks or "thinking" in call.refused:
        body["temperature"] = decoding.temperature
        if decoding.temperature > 0 and decoding.top_p < 1:
            body["top_p"] = decoding.top_p
    output: dict[str, Any] = {}
    if has_effort:
        output["effort"] = options.reasoning_effort
    if decoding.choices:
        output["format"] = {"type": "json_schema", "schema": verdict_schema(decoding.choices)}
    if output:
        body["output_config"] = output
    return body


def _blocks(message: dict[str, Any]) -> Any:
    """Return the content blocks of a reply. Raises ValueError if they are null."""
    if message["content"] is None:
        raise ValueError("its 'content' is null, not a list")
    return message["content"]


def read_anthropic(body: Any) -> Response | ServerFault:
    """Return the response in a reply: text blocks as its text, thinking blocks as its reasoning."""
    stop_reason = body["stop_reason"]
    if stop_reason == "refusal":
        return ServerFault(
            "refused", "the service's safety classifier stopped the reply (stop_reason refusal)"
        )
    blocks = _blocks(body)
    if stop_reason is None and not blocks:
        return ServerFault("server", "the reply ended before it began", retry=True)
    thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]

    usage = body.get("usage") or {}
    cached = usage.get("cache_read_input_tokens")
    stored = usage.get("cache_creation_input_tokens")
    output_details = usage.get("output_tokens_details") or {}
    return Response(
        text="".join(texts),
        reasoning="\n\n".join(thoughts) or None,
        finish=FINISHES.get(stop_reason, stop_reason),
        usage=Usage(
            _tokens_read(usage.get("input_tokens"), cached, stored),
            usage.get("output_tokens"),
            cached or None,
            output_details.get("thinking_tokens") or None,
            stored_tokens=stored or None,
        ),
    )


def read_anthropic_error(reply: HttpReply, now: float) -> ReportedError:
    """Return the error, with the seconds until all exhausted limits are full again.

    Headers named anthropic-ratelimit-...-reset have the times (RFC 3339).
    """
    error = read_reported_error(reply.body)
    waits = []
    for limit in ANTHROPIC_LIMITS:
        remaining = reply.headers.get(f"anthropic-ratelimit-{limit}-remaining")
        reset = reply.headers.get(f"anthropic-ratelimit-{limit}-reset")
        if reset and remaining == "0":
            reset_time = datetime.fromisoformat(reset).timestamp()
            waits.append(max(0.0, reset_time - now))
    code = "billing_error" if "credit balance" in error.message else error.code
    return ReportedError(error.message, code, error.parameter, max(waits, default=None))


class AnthropicOptions(ClientOptions, frozen=True):
    """How requests are submitted."""

    batch: bool = False
    """Whether a run submits its requests in batches, at half price and within a day."""
    cache_images: bool = False
    """Whether images are marked with `cache_control`, so that further requests about them read them from the cache."""


ANTHROPIC = Provider(
    name="anthropic",
    url="https://api.anthropic.com/v1",
    path=lambda model: "/messages",
    key_variables=("ANTHROPIC_API_KEY",),
    headers=lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
    write=write_anthropic,
    read=read_anthropic,
    read_error=read_anthropic_error,
    image=write_anthropic_image,
    image_types=IMAGE_TYPES | {"image/gif"},
    untaken=("seed",),
    untaken_while_thinking=("temperature", "top_p"),
    version=2,
    options=AnthropicOptions,
    open_batches=AnthropicBatches,
    droppable={
        **dict.fromkeys(THINKING_BUDGET, ()),
        "thinking": ("thinking",),
        "effort": ("output_config", "effort"),
        # Of a model that takes one of the two, the temperature is kept.
        "top_p": ("top_p",),
        "temperature": ("temperature",),
    },
)


# --- Bedrock ----------------------------------------------------------------------------------------------------------


BEDROCK_KEY = "AWS_BEARER_TOKEN_BEDROCK"
BEDROCK_STOPS = {"guardrail_intervened", "content_filtered"}
BEDROCK_FAILURES = {"malformed_model_output"}
"""Reasons to stop that are failures of the service."""


class BedrockOptions(ClientOptions, frozen=True):
    """Where the models run."""

    region: str = "us-east-1"


def write_bedrock_image(media_type: str, base64: bytes) -> bytes:
    """Return the JSON of an image in a request."""
    form = b'{"image":{"format":"%b","source":{"bytes":"%b"}}}'
    image_format = media_type.removeprefix("image/")
    return form % (image_format.encode(), base64)


def write_bedrock(call: AskedModel) -> dict[str, Any]:
    """Return the body of a request.

    Fields that only the models of one maker take go into `extra_body` (additionalModelRequestFields).
    """
    decoding = call.request.decoding
    settings: dict[str, Any] = {
        "maxTokens": max(call.most_tokens, 1),
        "temperature": decoding.temperature,
    }
    if decoding.temperature > 0 and decoding.top_p < 1:
        settings["topP"] = decoding.top_p
    if decoding.stop:
        settings["stopSequences"] = list(decoding.stop)
    messages = []
    for role, content in call.turns(lambda text: {"text": text}):
        messages.append({"role": role, "content": content})
    body: dict[str, Any] = {"messages": messages, "inferenceConfig": settings}
    if call.system:
        body["system"] = [{"text": text} for text in call.system]
    return body


def read_bedrock(body: Any) -> Response | ServerFault:
    """Return the response in a reply, or the fault that its stop reason means."""
    stop_reason = body["stopReason"]
    if stop_reason in BEDROCK_STOPS:
        return ServerFault("refused", f"the service withheld the reply (stopReason {stop_reason})")
    if stop_reason in BEDROCK_FAILURES:
        return ServerFault(
            "server", f"the reply was cut off (stopReason {stop_reason})", retry=True
        )
    texts = []
    thoughts = []
    for block in _blocks(body["output"]["message"]):
        if "text" in block:
            texts.append(block["text"])
        if "reasoningContent" in block:
            thought = block["reasoningContent"].get("reasoningText")
            if thought:
                thoughts.append(thought["text"])

    usage = body.get("usage") or {}
    cached = usage.get("cacheReadInputTokens")
    stored = usage.get("cacheWriteInputTokens")
    read = _tokens_read(usage.get("inputTokens"), cached, stored)
    return Response(
        text="".join(texts),
        reasoning="\n\n".join(thoughts) or None,
        finish=FINISHES.get(stop_reason, stop_reason),
        usage=Usage(read, usage.get("outputTokens"), cached or None, stored_tokens=stored or None),
    )


def read_bedrock_error(reply: HttpReply, now: float) -> ReportedError:
    """Return the error, whose code is in a header."""
    error = read_reported_error(reply.body)
    header = reply.headers.get("x-amzn-errortype", "")
    code = header.partition(":")[0]
    return ReportedError(error.message, code or error.code)


def open_signing(spec: ModelSpec, options: BedrockOptions) -> HeaderSource | None:
    """Return a function that signs requests with AWS credentials; None if there is an API key.

    The credentials are those that botocore finds, as for AWS's command line. Raises ModelError if there are none.
    """
    if options.api_key_env or os.environ.get(BEDROCK_KEY, "").strip():
        return None
    missing = (
        f"{spec.text}: the environment variable {BEDROCK_KEY} is not set; set it to an API key, or "
    )
    try:
        botocore_session = importlib.import_module("botocore.session")
    except ImportError:
        raise ModelError(
            f"{missing}sign requests with AWS credentials: {install_line('bedrock')}"
        ) from None
    aws_error = importlib.import_module("botocore.exceptions").BotoCoreError
    try:
        credentials = botocore_session.get_session().get_credentials()
    except aws_error as error:
        raise ModelError(f"{missing}correct the AWS credentials ({error})") from None
    if credentials is None:
        raise ModelError(
            f"{missing}give AWS credentials, as for `aws configure` or in AWS_ACCESS_KEY_ID"
        )
    return _Signing(spec, credentials, options.region, aws_error).headers


class _Signing:
    """Signs requests (AWS Signature Version 4), with credentials that are renewed when they expire."""

    def __init__(
        self, spec: ModelSpec, credentials: Any, region: str, aws_error: type[Exception]
    ) -> None:
        self._spec = spec
        self._credentials = credentials
        self._region = region
        self._aws_error = aws_error
        self._signer_class = importlib.import_module("botocore.auth").SigV4Auth
        self._request_class = importlib.import_module("botocore.awsrequest").AWSRequest

    async def headers(self, request: OutgoingRequest) -> Mapping[str, str]:
        """Return the headers of a request, with its signature. Raises ModelError if AWS gives no credentials."""
        try:
            credentials = await asyncio.to_thread(self._credentials.get_frozen_credentials)
        except self._aws_error as error:
            raise ModelError(f"{self._spec.text}: AWS returned no credentials; {error}") from None
        signed = self._request_class(method=request.method, url=request.url, data=request.body)
        signer = self._signer_class(credentials, "bedrock", self._region)
        signer.add_auth(signed)
        return dict(signed.headers)


BEDROCK = Provider(
    name="bedrock",
    url="https://bedrock-runtime.{region}.amazonaws.com",
    path=lambda model: f"/model/{quote(model, safe='')}/converse",
    key_variables=(BEDROCK_KEY,),
    write=write_bedrock,
    read=read_bedrock,
    read_error=read_bedrock_error,
    image=write_bedrock_image,
    image_types=IMAGE_TYPES | {"image/gif"},
    untaken=("seed",),
    options=BedrockOptions,
    open_headers=open_signing,
    droppable={
        # Of a model that takes one of the two, the temperature is kept.
        "top_p": ("inferenceConfig", "topP"),
        "topP": ("inferenceConfig", "topP"),
        "temperature": ("inferenceConfig", "temperature"),
    },
)


# --- Gemini, and the same on Google Cloud -----------------------------------------------------------------------------


GEMINI_ROLES = {"user": "user", "assistant": "model"}
GEMINI_FINISHES = {"STOP": "stop", "MAX_TOKENS": "length"}
GEMINI_STOPS = {
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "LANGUAGE",
    "MODEL_ARMOR",
}
"""Finish reasons by which the service withholds a reply."""
GEMINI_FAILURES = {
    "OTHER",
    "FINISH_REASON_UNSPECIFIED",
    "MALFORMED_RESPONSE",
    "IMAGE_OTHER",
    "NO_IMAGE",
}
"""Finish reasons of a reply that broke off by a failure of the service."""
GEMINI_CALLS = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
"""Finish reasons of a model that calls tools instead of replying."""


def write_gemini_image(media_type: str, base64: bytes) -> bytes:
    """Return the JSON of an image in a request."""
    return b'{"inlineData":{"mimeType":"%b","data":"%b"}}' % (media_type.encode(), base64)


def write_gemini(call: AskedModel) -> dict[str, Any]:
    """Return the body of a request. `reasoning_tokens` is the thinking budget, `reasoning_effort` the thinking level."""
    decoding = call.request.decoding
    options = call.options
    settings: dict[str, Any] = {
        "maxOutputTokens": call.most_tokens,
        "temperature": decoding.temperature,
    }
    if decoding.temperature > 0:
        settings["seed"] = decoding.seed
        if decoding.top_p < 1:
            settings["topP"] = decoding.top_p
    if decoding.stop:
        settings["stopSequences"] = list(decoding.stop)
    if decoding.choices:
        settings["responseMimeType"] = "application/json"
        settings["responseSchema"] = _one_of(decoding.choices)
    if options.logprobs:
        settings["responseLogprobs"] = True
        settings["logprobs"] = options.logprobs
    if call.reasoning_tokens or options.reasoning_tokens == 0 or options.reasoning_effort:
        settings["thinkingConfig"] = _thinking(call)
    contents = []
    for role, parts in call.turns(lambda text: {"text": text}):
        contents.append({"role": GEMINI_ROLES[role], "parts": parts})
    body: dict[str, Any] = {"contents": contents, "generationConfig": settings}
    if call.system:
        body["systemInstruction"] = {"parts": [{"text": "\n\n".join(call.system)}]}
    return body


def _thinking(call: AskedModel) -> dict[str, Any]:
    """Return the settings for thinking: a budget in tokens, or a level."""
    options = call.options
    thinking: dict[str, Any] = {"includeThoughts": call.reasoning_tokens > 0}
    if options.reasoning_effort == "none":
        thinking["thinkingBudget"] = 0
    elif options.reasoning_effort:
        thinking["thinkingLevel"] = options.reasoning_effort.upper()
    elif options.reasoning_tokens is not None:
        thinking["thinkingBudget"] = options.reasoning_tokens
    return thinking


def _one_of(choices: tuple[str, ...]) -> dict[str, Any]:
    """Return the schema of a JSON object whose `verdict` is one of the choices."""
    verdict = {"type": "STRING", "enum": list(choices)}
    return {"type": "OBJECT", "properties": {"verdict": verdict}, "required": ["verdict"]}


def read_gemini(body: Any) -> Response | ServerFault:
    """Return the response in the first candidate of a reply: thoughts as its reasoning, other parts as its text."""
    candidates = body.get("candidates") or []
    if not candidates:
        reason = (body.get("promptFeedback") or {}).get("blockReason")
        if not reason:
            raise ValueError("it has no candidates and gives no reason")
        return ServerFault("refused", f"the service blocked the prompt (blockReason {reason})")
    candidate = candidates[0]
    finish = candidate.get("finishReason")
    if finish in GEMINI_STOPS:
        return ServerFault("refused", f"the service withheld the reply (finishReason {finish})")
    if finish in GEMINI_FAILURES:
        return ServerFault("server", f"the reply was cut off (finishReason {finish})", retry=True)

    content = candidate.get("content") or {}
    thoughts = ""
    text = ""
    is_tool_call = finish in GEMINI_CALLS
    answer_parts = []
    for part in content.get("parts") or []:
        if part.get("thought"):
            thoughts += part.get("text", "")
        else:
            text += part.get("text", "")
            answer_parts.append(part)
    if answer_parts and all("functionCall" in part for part in answer_parts):
        is_tool_call = True
    if is_tool_call:
        finish = TOOL_CALLS

    usage = body.get("usageMetadata") or {}
    answer_tokens = usage.get("candidatesTokenCount")
    thought_tokens = usage.get("thoughtsTokenCount")
    # Google counts thoughts and the answer separately.
    output_tokens = None
    if answer_tokens is not None or thought_tokens is not None:
        output_tokens = (answer_tokens or 0) + (thought_tokens or 0)
    return Response(
        text=text,
        reasoning=thoughts or None,
        finish=GEMINI_FINISHES.get(finish, finish),
        usage=Usage(
            usage.get("promptTokenCount"),
            output_tokens,
            usage.get("cachedContentTokenCount") or None,
            thought_tokens or None,
        ),
        logprobs=_logprobs(candidate.get("logprobsResult") or {}),
    )


def _logprobs(result: dict[str, Any]) -> tuple[TokenLogprob, ...]:
    """Return the log-probability of each generated token, with its alternatives if the service lists them.

    Args:
        result: `{"chosenCandidates": [{"token": ..., "logProbability": ...}, ...], "topCandidates": [{"candidates":
            [...]}, ...]}`, with one item for each token in both lists.
    """
    chosen_tokens = result.get("chosenCandidates") or []
    steps = result.get("topCandidates") or [{}] * len(chosen_tokens)
    logprobs = []
    for chosen, step in zip(chosen_tokens, steps, strict=False):
        alternatives = []
        for candidate in step.get("candidates", []):
            alternatives.append((candidate["token"], candidate["logProbability"]))
        logprob = TokenLogprob(chosen["token"], chosen["logProbability"], tuple(alternatives))
        logprobs.append(logprob)
    return tuple(logprobs)


def read_gemini_error(reply: HttpReply, now: float) -> ReportedError:
    """Return the error with what its details add: a bad key's reason, the wait (RetryInfo), a daily quota."""
    error = read_reported_error(reply.body)
    try:
        content = msgspec.json.decode(reply.body)
        details = content["error"].get("details") or []
    except (*JSON_FAULTS, KeyError, TypeError, AttributeError):
        return error
    for detail in details:
        kind = str(detail.get("@type", "")).rpartition(".")[2]
        if kind == "RetryInfo":
            delay = str(detail.get("retryDelay", ""))
            if delay.endswith("s"):
                error = replace(error, retry_after=float(delay.removesuffix("s")))
        elif kind == "ErrorInfo":
            error = replace(error, code=str(detail.get("reason", "")))
        elif kind == "QuotaFailure":
            for violation in detail.get("violations", ()):
                if "PerDay" in str(violation.get("quotaId")):
                    return replace(error, code="insufficient_quota")
    return error


GEMINI = Provider(
    name="gemini",
    url="https://generativelanguage.googleapis.com/v1beta",
    path=lambda model: f"/models/{model}:generateContent",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    headers=lambda key: {"x-goog-api-key": key},
    write=write_gemini,
    read=read_gemini,
    read_error=read_gemini_error,
    image=write_gemini_image,
    image_types=IMAGE_TYPES,
    droppable={
        "thinking": ("generationConfig", "thinkingConfig"),
        "seed": ("generationConfig", "seed"),
        "ogprobs": ("generationConfig", "responseLogprobs"),
    },
)


SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class VertexOptions(ClientOptions, frozen=True):
    """Where a project runs its models."""

    project: str = ""
    location: str = "us-central1"


def open_vertex_headers(spec: ModelSpec, options: VertexOptions) -> HeaderSource:
    """Return a function that makes headers with a token of Google Cloud.

    The credentials are those that google-auth finds: a service account, or gcloud's login. Raises MissingExtraError
    without google-auth and ModelError without credentials.
    """
    try:
        auth = importlib.import_module("google.auth")
        transport = importlib.import_module("google.auth.transport.requests")
    except ImportError as error:
        raise MissingExtraError(error.name or "google-auth", "vertex", spec.text) from None
    auth_error = auth.exceptions.GoogleAuthError
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except auth_error as error:
        raise ModelError(f"{spec.text}: no credentials for Google Cloud; {error}") from None
    return _Tokens(spec, credentials, transport.Request(), auth_error).headers


class _Tokens:
    """A token that is renewed, by one request at a time, when it has expired."""

    def __init__(
        self, spec: ModelSpec, credentials: Any, transport: Any, auth_error: type[Exception]
    ) -> None:
        self._spec = spec
        self._credentials = credentials
        self._transport = transport
        self._auth_error = auth_error
        self._renewing: asyncio.Lock | None = None

    async def headers(self, request: OutgoingRequest) -> Mapping[str, str]:
        if not self._credentials.valid:
            self._renewing = self._renewing or asyncio.Lock()
            async with self._renewing:
                if not self._credentials.valid:
                    await self._renew()
        return {"authorization": f"Bearer {self._credentials.token}"}

    async def _renew(self) -> None:
        """Get a new token. Raises ModelError if that fails."""
        try:
            await asyncio.to_thread(self._credentials.refresh, self._transport)
        except self._auth_error as error:
            raise ModelError(
                f"{self._spec.text}: Google Cloud returned no token; {error}"
            ) from None


VERTEX = replace(
    GEMINI,
    name="vertex",
    url="https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/google",
    key_variables=(),
    options=VertexOptions,
    open_headers=open_vertex_headers,
)
