"""Gemini on Google Cloud: `vertex:MODEL?project=...`. The format is Gemini's; the token is that of google-auth.

Gemini by Google's generativelanguage REST interface: `gemini:MODEL`. Format: ai.google.dev/api, v1beta.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen.errors import MissingExtraError, ModelError
from snellen.formats.decoding import JSON_FAULTS
from snellen.models.base import ModelSpec
from snellen.models.client import ClientOptions
from snellen.models.connections import HttpReply
from snellen.models.faults import ReportedError, ServerFault, read_reported_error
from snellen.models.provider import AskedModel, HeaderSource, OutgoingRequest, Provider
from snellen.records import ImagePart, Message, Part, Response, TokenLogprob, Usage

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})
_ROLES = {"user": "user", "assistant": "model"}
_FINISHES = {"STOP": "stop", "MAX_TOKENS": "length"}
_STOPPED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE"}
"""Finish reasons by which the service withholds a reply."""


def write_gemini_picture(media_type: str, base64: bytes) -> bytes:
    return b'{"inlineData":{"mimeType":"%b","data":"%b"}}' % (media_type.encode(), base64)


def write_gemini(call: AskedModel) -> dict[str, Any]:
    """The body. `reasoning_tokens` is the thinking budget, `reasoning_effort` the thinking level."""
    decoding, options = call.request.decoding, call.options
    settings: dict[str, Any] = {"maxOutputTokens": call.most_tokens, "temperature": decoding.temperature}
    if decoding.temperature > 0:
        settings |= {"seed": decoding.seed} | ({"topP": decoding.top_p} if decoding.top_p < 1 else {})
    if decoding.stop:
        settings["stopSequences"] = list(decoding.stop)
    if decoding.choices:
        settings |= {"responseMimeType": "application/json", "responseSchema": _one_of(decoding.choices)}
    if options.logprobs:
        settings |= {"responseLogprobs": True, "logprobs": options.logprobs}
    if call.reasoning_tokens or options.reasoning_tokens == 0 or options.reasoning_effort:
        settings["thinkingConfig"] = _thinking(call)
    body: dict[str, Any] = {
        "contents": [
            {"role": _ROLES[message.role], "parts": [_part(part, call) for part in message.content]}
            for message in call.request.messages
            if message.role != "system"
        ],
        "generationConfig": settings,
    }
    if system := [message for message in call.request.messages if message.role == "system"]:
        body["systemInstruction"] = {"parts": [{"text": _text(system)}]}
    return body


def _text(messages: list[Message]) -> str:
    return "\n\n".join(message.text for message in messages)


def _thinking(call: AskedModel) -> dict[str, Any]:
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
    verdict = {"type": "STRING", "enum": list(choices)}
    return {"type": "OBJECT", "properties": {"verdict": verdict}, "required": ["verdict"]}


def _part(part: Part, call: AskedModel) -> Any:
    return call.picture(part.image) if isinstance(part, ImagePart) else {"text": part.text}


def read_gemini(body: Any) -> Response | ServerFault:
    """The parts of the first candidate: thoughts as the reasoning, the rest as the answer."""
    candidates = body.get("candidates") or []
    if not candidates:
        reason = body["promptFeedback"]["blockReason"]
        return ServerFault("refused", f"the service blocked the prompt (blockReason {reason})")
    candidate = candidates[0]
    finish = candidate.get("finishReason")
    if finish in _STOPPED:
        return ServerFault("refused", f"the service withheld the reply (finishReason {finish})")
    parts = (candidate.get("content") or {}).get("parts") or []
    thoughts = "".join(part.get("text", "") for part in parts if part.get("thought"))
    usage = body.get("usageMetadata") or {}
    output_tokens, thought = usage.get("candidatesTokenCount"), usage.get("thoughtsTokenCount")
    # Google counts thoughts apart from the reply.
    total = None if output_tokens is None and thought is None else (output_tokens or 0) + (thought or 0)
    return Response(
        text="".join(part.get("text", "") for part in parts if not part.get("thought")),
        reasoning=thoughts or None,
        finish=_FINISHES.get(finish, finish),
        usage=Usage(
            usage.get("promptTokenCount"), total, usage.get("cachedContentTokenCount") or None, thought or None
        ),
        logprobs=_logprobs(candidate.get("logprobsResult") or {}),
    )


def _logprobs(logprobs: dict[str, Any]) -> tuple[TokenLogprob, ...]:
    chosen = logprobs.get("chosenCandidates") or []
    alternatives = [step.get("candidates", []) for step in logprobs.get("topCandidates") or []] or [[]] * len(chosen)
    return tuple(
        TokenLogprob(
            token["token"],
            token["logProbability"],
            tuple((candidate["token"], candidate["logProbability"]) for candidate in top),
        )
        for token, top in zip(chosen, alternatives, strict=False)
    )


def read_gemini_error(reply: HttpReply, now: float) -> ReportedError:
    """The error with what its details add: a bad key's reason, the wait (RetryInfo), a quota of the day."""
    error = read_reported_error(reply.body)
    try:
        content = msgspec.json.decode(reply.body)
        details = content["error"].get("details") or []
    except (*JSON_FAULTS, KeyError, TypeError, AttributeError):
        return error
    for detail in details:
        kind = str(detail.get("@type", "")).rpartition(".")[2]
        if kind == "RetryInfo" and str(detail.get("retryDelay", "")).endswith("s"):
            error = replace(error, retry_after=float(detail["retryDelay"][:-1]))
        elif kind == "ErrorInfo":
            error = replace(error, code=str(detail.get("reason", "")))
        elif kind == "QuotaFailure" and any(
            "PerDay" in str(violation.get("quotaId")) for violation in detail.get("violations", ())
        ):
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
    picture=write_gemini_picture,
    picture_types=PICTURE_TYPES,
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


def open_headers(spec: ModelSpec, options: VertexOptions) -> HeaderSource:
    """Headers with a token of the credentials that google-auth finds: a service account, or gcloud's login.

    Raises MissingExtraError without google-auth and ModelError without credentials.
    """
    try:
        auth = importlib.import_module("google.auth")
        transport = importlib.import_module("google.auth.transport.requests")
    except ImportError as error:
        raise MissingExtraError(error.name or "google-auth", "vertex", spec.text) from None
    try:
        credentials, _ = auth.default(scopes=[SCOPE])
    except auth.exceptions.GoogleAuthError as error:
        raise ModelError(f"{spec.text}: no credentials for Google Cloud; {error}") from None
    return _Tokens(spec, credentials, transport.Request(), auth.exceptions.GoogleAuthError).headers


class _Tokens:
    """A token that is renewed, by one request at a time, when it has expired."""

    def __init__(self, spec: ModelSpec, credentials: Any, transport: Any, fault: type[Exception]) -> None:
        self._spec, self._credentials, self._transport, self._fault = spec, credentials, transport, fault
        self._renewing: asyncio.Lock | None = None

    async def headers(self, request: OutgoingRequest) -> Mapping[str, str]:
        if not self._credentials.valid:
            self._renewing = self._renewing or asyncio.Lock()
            async with self._renewing:
                if not self._credentials.valid:
                    await self._renew()
        return {"authorization": f"Bearer {self._credentials.token}"}

    async def _renew(self) -> None:
        try:
            await asyncio.to_thread(self._credentials.refresh, self._transport)
        except self._fault as error:
            raise ModelError(f"{self._spec.text}: Google Cloud gives no token; {error}") from None


VERTEX = replace(
    GEMINI,
    name="vertex",
    url="https://{location}-aiplatform.googleapis.com/v1/projects/{project}/locations/{location}/publishers/google",
    key_variables=(),
    options=VertexOptions,
    open_headers=open_headers,
)
