"""Stand-ins for services with formats of their own. Each checks a request against what its service publishes.

Anthropic's and Google's own packages hold the published formats: a request is read by their types, and replies are
built of them. Bedrock's is in the service model that botocore carries.
"""

from __future__ import annotations

import base64
import importlib
import types
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import msgspec
import pytest
from typing_extensions import get_type_hints, is_typeddict

from servers import Fault, Service

for package in ("anthropic", "google.genai"):
    if not find_spec(package):
        pytest.skip(f"waits for {package}", allow_module_level=True)
Json = dict[str, Any]


def anthropic_types() -> Any:
    """Late, as they take three seconds to import, in each process that merely collects the tests."""
    return importlib.import_module("anthropic.types")


def gemini_types() -> Any:
    return importlib.import_module("google.genai.types")


def refusal(message: str) -> Fault:
    return Fault(
        400,
        msgspec.json.encode(
            {"error": {"type": "invalid_request_error", "message": message}}
        ).decode(),
    )


class PublishedService(Service):
    """Answers where `place` is the path, a request that `check` finds nothing wrong with."""

    place = ""
    key_header = ""

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Fault:
        fault = super().take(method, path, headers, body)  # control, and the log of what was seen
        if path.startswith("/_"):
            return fault
        if path != self.place:
            return Fault(404, '{"error": {"message": "no such path"}}')
        if (
            self.config.key
            and headers.get(self.key_header, "").removeprefix("Bearer ") != self.config.key
        ):
            return Fault(
                401, '{"error": {"type": "authentication_error", "message": "invalid key"}}'
            )
        asked = msgspec.json.decode(body)
        wrong = self.check(asked, headers)
        if wrong:
            return refusal(wrong)
        scripted = self._scripted(body)
        return scripted or Fault(body=msgspec.json.encode(self.reply(asked)).decode())

    def check(self, asked: Json, headers: dict[str, str]) -> str:
        """What is wrong with a request, or an empty text."""
        raise NotImplementedError

    def reply(self, asked: Json) -> Json:
        raise NotImplementedError


class AnthropicService(PublishedService):
    place, key_header = "/v1/messages", "x-api-key"

    def check(self, asked: Json, headers: dict[str, str]) -> str:
        if headers.get("anthropic-version") != "2023-06-01":
            return "anthropic-version: header is required"
        return misfit(
            asked, anthropic_types().message_create_params.MessageCreateParamsNonStreaming
        )

    def reply(self, asked: Json) -> Json:
        return anthropic_reply([{"type": "text", "text": "(B)", "citations": None}], "end_turn")


def anthropic_reply(content: list[Json], stop_reason: str, **usage: Any) -> Json:
    body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "output_tokens": 3, **usage},
    }
    built: Json = (
        anthropic_types()
        .Message.model_validate(body, strict=True)
        .model_dump(mode="json", exclude_unset=True)
    )
    return built


class GeminiService(PublishedService):
    place, key_header = "/v1beta/models/gemini-3-flash:generateContent", "x-goog-api-key"

    def check(self, asked: Json, headers: dict[str, str]) -> str:
        published = gemini_types()
        forms = {
            "systemInstruction": published.Content,
            "generationConfig": published.GenerationConfig,
        }
        try:
            for content in asked["contents"]:
                published.Content.model_validate(content)
            for name, form in forms.items():
                form.model_validate(asked.get(name, {}))
        except (ValueError, KeyError) as error:
            return str(error)
        return ", ".join(asked.keys() - {"contents", *forms})

    def reply(self, asked: Json) -> Json:
        return gemini_reply([{"text": "(B)"}])


def gemini_reply(
    parts: list[Json], finish: str = "STOP", candidate: Json | None = None, **usage: int
) -> Json:
    body = {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts},
                "finishReason": finish,
                **(candidate or {}),
            }
        ],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, **usage},
    }
    return published_gemini(body)


def published_gemini(body: Json) -> Json:
    built: Json = (
        gemini_types()
        .GenerateContentResponse.model_validate(body)
        .model_dump(mode="json", by_alias=True, exclude_unset=True)
    )
    return built


class VertexService(GeminiService):
    place = "/v1/projects/p/locations/europe-west4/publishers/google/models/gemini-3-flash:generateContent"
    key_header = "authorization"


class BedrockService(PublishedService):
    place, key_header = "/model/eu.amazon.nova-lite-v1%3A0/converse", "authorization"

    def check(self, asked: Json, headers: dict[str, str]) -> str:
        shape = converse_shape()
        given = {"modelId": self.place.split("/")[2], **_with_blobs(asked)}
        wrong = importlib.import_module("botocore.validate").ParamValidator().validate(given, shape)
        return str(wrong.generate_report()) or next(_other_values(given, shape), "")

    def reply(self, asked: Json) -> Json:
        return bedrock_reply([{"text": "(B)"}], "end_turn")


@cache
def converse_shape() -> Any:
    """What a request of the Converse API may hold, by the service model that botocore carries."""
    described = (
        importlib.import_module("botocore.loaders")
        .Loader()
        .load_service_model("bedrock-runtime", "service-2")
    )
    service = importlib.import_module("botocore.model").ServiceModel(described)
    return service.operation_model("Converse").input_shape


def _with_blobs(value: Any) -> Any:
    """The same with the bytes that base64 stands for. Raises ValueError where it is none."""
    if isinstance(value, list):
        return list(map(_with_blobs, value))
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(inner, validate=True) if name == "bytes" else _with_blobs(inner)
        for name, inner in value.items()
    }


def _other_values(value: Any, shape: Any) -> Iterator[str]:
    """Texts that are not among those which the service model lists, which botocore leaves to the service."""
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        for name, inner in value.items():
            yield from _other_values(inner, shape.members[name])
    elif shape.type_name == "list":
        for inner in value:
            yield from _other_values(inner, shape.member)
    elif value not in (getattr(shape, "enum", None) or [value]):
        yield f"{value} is none of {', '.join(shape.enum)}"


def bedrock_reply(content: list[Json], stop: str, **usage: int) -> Json:
    used = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10, **usage}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": stop,
        "usage": used,
    }


_keys = cache(partial(get_type_hints, include_extras=True))


def misfit(value: Any, kind: Any) -> str:
    """Where a value is not of a published type (made of keys, lists, choices and plain types); empty if it is."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Required, NotRequired, Annotated):
        return misfit(value, inner[0])
    if origin in (Union, types.UnionType):
        tried = [misfit(value, one) for one in inner]
        return "" if "" in tried else min(tried, key=len)
    if origin is Literal:
        return "" if value in inner else f"{value!r} is none of {inner}"
    if is_typeddict(kind):
        if not isinstance(value, dict):
            return f"{value!r} is no {kind.__name__}"
        hints = _keys(kind)
        unknown, missing = value.keys() - hints.keys(), kind.__required_keys__ - value.keys()
        if unknown or missing:
            return f"{kind.__name__}: unknown {sorted(unknown)}, missing {sorted(missing)}"
        return next(
            (wrong for name, one in value.items() if (wrong := misfit(one, hints[name]))), ""
        )
    if origin is not None and issubclass(origin, Iterable) and not issubclass(origin, dict):
        if not isinstance(value, list):
            return f"{value!r} is no list"
        return next((wrong for one in value if (wrong := misfit(one, inner[0]))), "")
    plain = (int, float) if kind is float else origin or kind
    return (
        ""
        if kind is Any or kind is object or isinstance(value, plain)
        else f"{value!r} is no {kind}"
    )
