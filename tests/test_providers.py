"""Services with formats of their own, by stand-ins on loopback that hold requests to what the services publish."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import replace

from provider_servers import (
    AnthropicService,
    BedrockService,
    GeminiService,
    PublishedService,
    VertexService,
    anthropic_reply,
    bedrock_reply,
    gemini_reply,
    published_gemini,
)
from servers import Fault, Server, reply_body, start_server
from snellen.errors import ModelError
from snellen.experiments.evaluation import evaluate_spec
from snellen.experiments.report_files import report_path
from snellen.models.chat import PREFIX_DROPPED
from snellen.models.client import Clock
from snellen.models.identity import identifying_string
from snellen.models.loading import load_model
from snellen.models.model_strings import model_string, parse_spec
from snellen.models.openai import OpenAIModel
from snellen.models.openai_places import OpenAIOptions
from snellen.models.options import read_options
from snellen.models.provider import Provider, ProviderModel, ServiceAddress
from snellen.models.request_options import declared_reasoning_tokens
from snellen.records import (
    Decoding,
    ImagePart,
    ImageRef,
    Message,
    Request,
    Response,
    TextPart,
    Usage,
    Variant,
)
from snellen.registry import find_registered
from snellen.runs.spec import run_spec

KEY = "very-secret-0123456789"
NOW = 1_700_000_000.0
PICTURE = ImageRef("d" * 64, "image/jpeg", 4, 3)
BYTES = b"\xff\xd8 not decoded on the way " + bytes(range(256))
NAMES = {
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-3-flash",
    "bedrock": "eu.amazon.nova-lite-v1:0",
}
SERVICES: dict[str, type[PublishedService]] = {
    "anthropic": AnthropicService,
    "gemini": GeminiService,
    "bedrock": BedrockService,
}
BASES = {"anthropic": "/v1", "gemini": "/v1beta", "bedrock": ""}
VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "bedrock": "AWS_BEARER_TOKEN_BEDROCK",
    "azure": "AZURE_OPENAI_API_KEY",
}


class Shelf:
    def read(self, image: ImageRef) -> bytes:
        return BYTES


class Waits(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def question(*messages: Message, decoding: Decoding | None = None) -> Request:
    asked = messages or (
        Message("user", (ImagePart(PICTURE), TextPart("Which? (A) one; (B) two."))),
    )
    return Request("made", "1", Variant(), asked, decoding=decoding or Decoding())


@pytest.fixture(scope="module", params=list(SERVICES))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(provider: str) -> Iterator[Server]:
    with start_server(service=SERVICES[provider], key=KEY) as started:
        yield started


def base(provider: str, server: Server) -> str:
    return f"http://127.0.0.1:{server.port}{BASES[provider]}"


def ask(
    provider: str, server: Server, request: Request, waits: Waits | None = None, **options: Any
) -> Response:
    declared: Provider = find_registered("models", provider)
    spec = parse_spec(model_string(f"{provider}:{NAMES[provider]}", **({"timeout": 20} | options)))

    address = ServiceAddress(base(provider, server), KEY)
    clock = Clock(Waits() if waits is None else waits, lambda: NOW)
    model = ProviderModel(
        spec, declared, NAMES[provider], address, read_options(spec, declared.options), clock
    )

    async def play() -> Response:
        try:
            return await model.ask(request, Shelf())  # type: ignore[arg-type]
        finally:
            await model.close()

    return asyncio.run(play())


def last_body(server: Server) -> Any:
    [*_, seen] = server.seen(server_path(server))
    return seen.asked


def server_path(server: Server) -> str:
    for service in (*SERVICES.values(), VertexService):
        if server.seen(service.place):
            return service.place
    raise AssertionError("nothing was asked")


def test_a_picture_a_question_and_a_system_prompt_arrive_as_the_service_publishes(
    provider: str, server: Server
) -> None:
    response = ask(provider, server, question(), system="Be brief.")
    assert (response.error, response.text, response.finish) == (None, "(B)", "stop")
    assert response.usage == Usage(7, 3)
    asked = last_body(server)
    picture = {
        "anthropic": lambda: asked["messages"][0]["content"][0]["source"]["data"],
        "gemini": lambda: asked["contents"][0]["parts"][0]["inlineData"]["data"],
        "bedrock": lambda: asked["messages"][0]["content"][0]["image"]["source"]["bytes"],
    }[provider]()
    assert base64.b64decode(picture) == BYTES
    system = {"anthropic": "system", "gemini": "systemInstruction", "bedrock": "system"}[provider]
    assert "Be brief." in str(asked[system])
    assert "Be brief." not in str({name: part for name, part in asked.items() if name != system})


def test_images_before_the_question_are_marked_for_the_cache() -> None:
    mark = {"type": "ephemeral"}
    second = ImageRef("e" * 64, "image/jpeg", 4, 3)
    example = (
        Message("user", (ImagePart(second), TextPart("Is it a cat?"))),
        Message("assistant", (TextPart("No."),)),
    )
    asked_twice = Message("user", (ImagePart(PICTURE), ImagePart(second), TextPart("Which?")))
    with start_server(service=AnthropicService, key=KEY) as started:
        ask("anthropic", started, question(*example, asked_twice), cache_images=True)
        messages = last_body(started)["messages"]
        first, last = messages[2]["content"][:2]
        assert last["cache_control"] == mark
        assert base64.b64decode(last["source"]["data"]) == BYTES
        assert "cache_control" not in first
        assert "cache_control" not in str(messages[:2])

        rounds = (*example, Message("user", (TextPart("A dog?"),)))
        ask("anthropic", started, question(*rounds), cache_images=True)
        messages = last_body(started)["messages"]
        assert messages[0]["content"][0]["cache_control"] == mark

        behind = Message("user", (TextPart("Which?"), ImagePart(PICTURE)))
        ask("anthropic", started, question(behind), cache_images=True)
        assert "cache_control" not in str(last_body(started))
        ask("anthropic", started, question(asked_twice))
        assert "cache_control" not in str(last_body(started))


def test_marking_images_is_no_part_of_what_a_model_is() -> None:
    names = [f"anthropic:{NAMES['anthropic']}{options}" for options in ("", "?cache_images=true")]
    assert identifying_string(names[0]) == identifying_string(names[1])


def test_a_dialogue_with_sampling_and_stops_is_what_the_service_publishes(
    provider: str, server: Server
) -> None:
    talk = (
        Message("user", (ImagePart(PICTURE), TextPart("Is it a cat?"))),
        Message("assistant", (TextPart("No."),)),
        Message("user", (TextPart("A dog?"),)),
        Message("assistant", (TextPart("The answer is"),)),
    )
    sampled = Decoding(max_new_tokens=50, temperature=0.7, top_p=0.9, seed=3, stop=("\n\n",))
    response = ask(provider, server, question(*talk, decoding=sampled), reasoning_tokens=0)
    assert response.error is None, response
    assert PREFIX_DROPPED in response.notes
    sent = msgspec.json.encode(last_body(server)).decode()
    assert "The answer is" not in sent
    assert "50" in sent


def test_fields_of_the_services_own_are_merged_into_the_body(server: Server, provider: str) -> None:
    extra: dict[str, Any] = {
        "anthropic": {"metadata": {"user_id": "u"}},
        "gemini": {"generationConfig": {"topK": 5}},
        "bedrock": {"additionalModelRequestFields": {"top_k": 5}},
    }[provider]
    assert ask(provider, server, question(), extra_body=extra).error is None
    asked = last_body(server)
    if provider == "gemini":
        assert asked["generationConfig"]["topK"] == 5
        assert asked["generationConfig"]["maxOutputTokens"] > 0
    else:
        assert extra.items() <= asked.items()


REASONED: dict[str, Any] = {
    "anthropic": lambda: anthropic_reply(
        [
            {"type": "thinking", "thinking": "It barks.", "signature": "s"},
            {"type": "text", "text": "(A)", "citations": None},
        ],
        "end_turn",
        cache_read_input_tokens=100,
        output_tokens_details={"thinking_tokens": 2},
    ),
    "gemini": lambda: gemini_reply(
        [{"text": "It barks.", "thought": True}, {"text": "(A)"}],
        promptTokenCount=107,
        cachedContentTokenCount=100,
        candidatesTokenCount=1,
        thoughtsTokenCount=2,
    ),
    "bedrock": lambda: bedrock_reply(
        [{"reasoningContent": {"reasoningText": {"text": "It barks."}}}, {"text": "(A)"}],
        "end_turn",
        cacheReadInputTokens=100,
    ),
}


def test_reasoning_and_its_tokens_are_kept_apart_from_the_answer(
    server: Server, provider: str
) -> None:
    server.script(Fault(body=msgspec.json.encode(REASONED[provider]()).decode()))
    response = ask(provider, server, question(), reasoning_tokens=2048)
    assert (response.text, response.reasoning) == ("(A)", "It barks.")
    thought = None if provider == "bedrock" else 2
    assert response.usage == Usage(107, 3, 100, thought)


def test_a_budget_for_reasoning_is_added_to_that_of_the_answer(
    server: Server, provider: str
) -> None:
    assert ask(provider, server, question(), reasoning_tokens=2048).error is None
    asked = last_body(server)
    if provider == "anthropic":
        assert (asked["max_tokens"], asked["thinking"]["budget_tokens"]) == (2078, 2048)
    elif provider == "gemini":
        settings = asked["generationConfig"]
        assert (settings["maxOutputTokens"], settings["thinkingConfig"]["thinkingBudget"]) == (
            2078,
            2048,
        )
    else:
        assert asked["inferenceConfig"]["maxTokens"] == 2078


@pytest.mark.parametrize("effort", ["none", "high"])
def test_an_effort_is_passed_on_as_the_service_spells_it(effort: str) -> None:
    spelt = {
        ("anthropic", "none"): {"thinking": {"type": "disabled"}},
        ("anthropic", "high"): {"output_config": {"effort": "high"}},
        ("gemini", "none"): {"thinkingBudget": 0, "includeThoughts": False},
        ("gemini", "high"): {"thinkingLevel": "HIGH", "includeThoughts": True},
    }
    for name in ("anthropic", "gemini"):
        with start_server(service=SERVICES[name], key=KEY) as started:
            assert ask(name, started, question(), reasoning_effort=effort).error is None
            asked = last_body(started)
            where = asked if name == "anthropic" else asked["generationConfig"]["thinkingConfig"]
            assert spelt[name, effort].items() <= where.items()


CUT = {
    "anthropic": lambda: anthropic_reply([], "max_tokens"),
    "gemini": lambda: gemini_reply(
        [{"text": "First", "thought": True}],
        "MAX_TOKENS",
        thoughtsTokenCount=30,
        candidatesTokenCount=0,
    ),
    "bedrock": lambda: bedrock_reply([], "max_tokens"),
}
WITHHELD = {
    "anthropic": lambda: anthropic_reply([], "refusal"),
    "gemini": lambda: gemini_reply([], "SAFETY"),
    "bedrock": lambda: bedrock_reply([], "guardrail_intervened"),
}


def test_a_reply_that_the_limit_cut_says_so_in_one_word(server: Server, provider: str) -> None:
    server.script(Fault(body=msgspec.json.encode(CUT[provider]()).decode()))
    response = ask(provider, server, question())
    assert (response.text, response.finish) == ("", "length")


def test_what_the_service_withholds_is_a_typed_refusal(server: Server, provider: str) -> None:
    server.script(Fault(body=msgspec.json.encode(WITHHELD[provider]()).decode()))
    response = ask(provider, server, question())
    assert response.error is not None
    assert (response.error.kind, response.error.attempts) == ("refused", 1)


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT"])
def test_a_prompt_that_gemini_blocks_is_a_refusal_with_its_reason(reason: str) -> None:
    body = published_gemini(
        {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 7}}
    )
    with start_server(service=GeminiService, key=KEY) as started:
        started.script(Fault(body=msgspec.json.encode(body).decode()))
        error = ask("gemini", started, question()).error
    assert error is not None
    assert error.kind == "refused"
    assert reason in error.detail


BROKEN_OFF = {
    "anthropic": [
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        {"type": "message", "content": [], "stop_reason": None, "usage": {}},
    ],
    "gemini": [
        {"candidates": [{"finishReason": "OTHER"}]},
        {"candidates": [{"finishReason": "MALFORMED_RESPONSE", "content": {"parts": []}}]},
        {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
    ],
    "bedrock": [
        {
            "output": {"message": {"role": "assistant", "content": []}},
            "stopReason": "malformed_model_output",
            "usage": {},
        },
    ],
}
"""Failures of each service that it reports under status 200."""


def test_a_failure_under_status_200_is_tried_again_and_never_an_empty_reply(
    server: Server, provider: str
) -> None:
    for body in BROKEN_OFF[provider]:
        fault = Fault(body=msgspec.json.encode(body).decode(), times=2)
        server.script(fault)
        assert ask(provider, server, question()).text == "(B)"
        server.script(replace(fault, times=9))
        response = ask(provider, server, question(), retries=2)
        server.script()
        assert response.text is None
        assert response.error is not None
        assert response.error.attempts == 3


def test_a_failing_model_on_bedrock_is_asked_again() -> None:
    with start_server(service=BedrockService, key=KEY) as started:
        started.script(Fault(424, '{"message": "The model failed."}'))
        assert ask("bedrock", started, question()).text == "(B)"


class SamplingClaude(AnthropicService):
    """A model that takes a temperature or top_p, but not both, and no temperature while it thinks."""

    def check(self, asked: Any, headers: dict[str, str]) -> str:
        thinks = asked.get("thinking", {"type": "disabled"})["type"]
        if thinks == "adaptive":
            return "adaptive thinking is not supported on this model"
        if "temperature" in asked and "top_p" in asked:
            return "`temperature` and `top_p` cannot both be specified for this model."
        if thinks == "enabled" and asked.get("temperature", 1) != 1:
            return "`temperature` may only be set to 1 when thinking is enabled"
        known = {name: asked[name] for name in asked if name not in ("temperature", "top_p")}
        return super().check(known, headers)


class AdaptiveClaude(AnthropicService):
    """A model that decides itself how long it thinks, and takes no temperature."""

    def check(self, asked: Any, headers: dict[str, str]) -> str:
        if asked.get("thinking", {}).get("type") == "enabled":
            return (
                '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
                '"output_config.effort" to control thinking behavior.'
            )
        if "temperature" in asked:
            return "`temperature` is deprecated for this model."
        return super().check(asked, headers)


def test_claude_is_sent_the_temperature_that_was_asked_for() -> None:
    sampled = Decoding(max_new_tokens=50, temperature=0.7, top_p=0.9)
    with start_server(service=SamplingClaude, key=KEY) as started:
        assert ask("anthropic", started, question()).notes == ()
        assert last_body(started)["temperature"] == 0
        response = ask("anthropic", started, question(decoding=sampled))
        asked = last_body(started)
    assert (asked["temperature"], "top_p" in asked) == (0.7, False)
    assert response.notes == (
        "seed was not sent: the service does not accept it",
        "top_p was not sent: the server rejects it",
    )


def test_a_claude_that_thinks_is_sent_no_temperature() -> None:
    with start_server(service=SamplingClaude, key=KEY) as started:
        response = ask("anthropic", started, question(), reasoning_tokens=2048)
        asked = last_body(started)
    assert response.error is None
    assert "temperature" not in asked
    assert response.notes == ("temperature was not sent: the service does not accept it",)


def test_a_claude_that_takes_no_budget_for_its_thinking_thinks_as_it_likes() -> None:
    with start_server(service=AdaptiveClaude, key=KEY) as started:
        response = ask("anthropic", started, question(), reasoning_tokens=2048)
        asked = last_body(started)
        plain = ask("anthropic", started, question())
    assert response.error is None
    assert asked["thinking"]["type"] == "adaptive"
    assert asked["max_tokens"] == question().decoding.max_new_tokens + 2048
    assert "thinking.type.enabled was not sent: the server rejects it" in response.notes
    assert plain.error is None
    assert "temperature was not sent: the server rejects it" in plain.notes


def error_of(provider: str, kind: str) -> Fault:
    """What each service sends when it has no room, with its own way to say how long."""
    if provider == "anthropic":
        body = {
            "type": "error",
            "error": {"type": "rate_limit_error", "message": "too many"},
            "request_id": "r",
        }
        reset = "2023-11-14T22:13:27Z"  # seven seconds after NOW
        limits = {
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": reset,
            "anthropic-ratelimit-requests-remaining": "9",
            "anthropic-ratelimit-requests-reset": "2023-11-14T23:13:27Z",
        }
        overloaded = {
            "type": "error",
            "error": {"type": "overloaded_error", "message": "Overloaded"},
        }
        status, sent = (429, body) if kind == "rate" else (529, overloaded)
        return Fault(status, msgspec.json.encode(sent).decode(), limits if kind == "rate" else {})
    if provider == "gemini":
        details = (
            [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
            if kind == "rate"
            else []
        )
        name, status = ("RESOURCE_EXHAUSTED", 429) if kind == "rate" else ("UNAVAILABLE", 503)
        error = {"code": status, "status": name, "message": "no room", "details": details}
        return Fault(status, msgspec.json.encode({"error": error}).decode())
    status, code = (
        (429, "ThrottlingException") if kind == "rate" else (503, "ServiceUnavailableException")
    )
    headers = {"x-amzn-errortype": code} | ({"retry-after": "7"} if kind == "rate" else {})
    return Fault(status, '{"message": "no room"}', headers)


def test_a_rate_limit_is_waited_for_as_long_as_the_service_says(
    server: Server, provider: str
) -> None:
    server.script(error_of(provider, "rate"))
    waits = Waits()
    assert ask(provider, server, question(), waits).error is None
    assert len(waits) == 1
    assert 7 <= waits[0] <= 7.8


def test_a_service_without_room_is_asked_again(server: Server, provider: str) -> None:
    server.script(msgspec.structs.replace(error_of(provider, "full"), times=2))
    waits = Waits()
    assert ask(provider, server, question(), waits).error is None
    assert len(waits) == 2


def error_with(status: int, message: str, *details: dict[str, Any]) -> Fault:
    return Fault(
        status, msgspec.json.encode({"error": {"message": message, "details": details}}).decode()
    )


NO_QUOTA = {
    "@type": "x/google.rpc.QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}],
}
BAD_KEY = {"@type": "x/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


@pytest.mark.parametrize(
    ("name", "fault", "words"),
    [
        ("anthropic", error_with(400, "Your credit balance is too low"), "credit"),
        ("gemini", error_with(400, "API key not valid", BAD_KEY), "check the API key"),
        ("gemini", error_with(429, "quota of the day", NO_QUOTA), "quota of the day"),
        (
            "bedrock",
            Fault(403, '{"message": "no access"}', {"x-amzn-errortype": "AccessDeniedException"}),
            "no access",
        ),
    ],
)
def test_what_would_fail_every_request_ends_the_run(name: str, fault: Fault, words: str) -> None:
    with start_server(service=SERVICES[name], key=KEY) as started:
        started.script(fault)
        with pytest.raises(ModelError, match=words):
            ask(name, started, question())


def test_a_reply_in_another_form_is_malformed_and_tried_again(
    server: Server, provider: str
) -> None:
    server.script(
        Fault(body=reply_body("(B)")), Fault(body="[]"), Fault(body='{"promptFeedback": {}}')
    )
    waits = Waits()
    assert ask(provider, server, question(), waits).text == "(B)"
    assert len(waits) == 3


CALLS = {
    "anthropic": lambda: anthropic_reply(
        [{"type": "tool_use", "id": "t", "name": "f", "input": {}}], "tool_use"
    ),
    "gemini": lambda: gemini_reply([{"functionCall": {"name": "f", "args": {}}}]),
    "bedrock": lambda: bedrock_reply(
        [{"toolUse": {"toolUseId": "t", "name": "f", "input": {}}}], "tool_use"
    ),
}


def test_a_reply_that_only_calls_a_tool_says_so_in_one_word(server: Server, provider: str) -> None:
    server.script(Fault(body=msgspec.json.encode(CALLS[provider]()).decode()))
    response = ask(provider, server, question())
    assert (response.text, response.finish) == ("", "tool_calls")


@pytest.mark.parametrize(
    ("name", "body", "lack"),
    [
        (
            "anthropic",
            {"content": None, "stop_reason": "end_turn"},
            "its 'content' is null, not a list",
        ),
        ("anthropic", {"stop_reason": "end_turn"}, "it has no 'content'"),
        (
            "bedrock",
            {"output": {"message": {"content": None}}, "stopReason": "end_turn"},
            "'content' is null, not a",
        ),
        ("gemini", {"candidates": []}, "it has no candidates and gives no reason"),
        ("gemini", {"candidates": [None]}, "a part of it is null, or has an unexpected type"),
    ],
)
def test_what_a_malformed_reply_lacks_is_said_in_plain_words(
    name: str, body: Any, lack: str
) -> None:
    with start_server(service=SERVICES[name], key=KEY) as started:
        started.script(Fault(body=msgspec.json.encode(body).decode(), times=9))
        error = ask(name, started, question(), retries=1).error
    assert error is not None and error.kind == "malformed"
    assert (
        error.detail.startswith(f"the reply does not have the format of {name}: ")
        and lack in error.detail
    )
    assert "Error" not in error.detail


def test_half_of_a_surrogate_pair_in_a_reply_is_replaced_and_noted(
    server: Server, provider: str
) -> None:
    spelt = {
        "anthropic": anthropic_reply([{"type": "text", "text": "(B) @"}], "end_turn"),
        "gemini": gemini_reply([{"text": "(B) @"}]),
        "bedrock": bedrock_reply([{"text": "(B) @"}], "end_turn"),
    }
    server.script(Fault(body=msgspec.json.encode(spelt[provider]).decode().replace("@", "\\ud83d")))
    waits = Waits()
    response = ask(provider, server, question(), waits)
    assert (response.text, waits) == ("(B) \ufffd", [])
    assert "half characters" in response.notes


def test_a_field_that_a_model_refuses_is_left_out_from_then_on_and_noted() -> None:
    with start_server(service=AnthropicService, key=KEY) as started:
        message = "This model does not support the effort parameter."
        started.script(Fault(400, msgspec.json.encode({"error": {"message": message}}).decode()))
        response = ask("anthropic", started, question(), reasoning_effort="high")
        assert response.error is None
        assert "effort was not sent: the server rejects it" in response.notes
        assert last_body(started)["output_config"] == {}


def test_the_schema_of_a_verdict_is_one_that_the_service_publishes() -> None:
    for name in ("anthropic", "gemini"):
        with start_server(service=SERVICES[name], key=KEY) as started:
            assert ask(name, started, question(decoding=Decoding(choices=("A", "B")))).error is None
            assert '"verdict"' in msgspec.json.encode(last_body(started)).decode()


def test_a_key_that_the_service_repeats_is_removed(server: Server, provider: str) -> None:
    server.script(Fault(400, msgspec.json.encode({"error": {"message": f"bad {KEY}"}}).decode()))
    error = ask(provider, server, question()).error
    assert error is not None
    assert KEY not in error.detail


def test_a_model_opens_by_its_string_with_the_key_of_its_environment_variable(
    server: Server, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLES[provider], raising=False)
    text = f"{provider}:{NAMES[provider]}@{base(provider, server)}"
    with pytest.raises(ModelError, match=VARIABLES[provider]):
        load_model(text)
    monkeypatch.setenv(VARIABLES[provider], KEY)
    model = load_model(text)
    assert isinstance(model, ProviderModel)
    assert model.client.urls == (base(provider, server),)
    assert KEY not in str(model.fingerprint())


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("anthropic:claude", "https://api.anthropic.com/v1"),
        ("gemini:gemini-3-flash", "https://generativelanguage.googleapis.com/v1beta"),
        ("bedrock:m?region=eu-west-1", "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ("azure:d@https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1"),
        (
            "azure:d@https://r.openai.azure.com?api_version=2024-10-21",
            "https://r.openai.azure.com/openai/deployments/d",
        ),
    ],
)
def test_without_an_address_the_services_own_is_asked(
    text: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLES.values():
        monkeypatch.setenv(variable, KEY)
    model = load_model(text)
    assert isinstance(model, (ProviderModel, OpenAIModel))
    assert model.client.urls == (url,)


def test_the_same_service_elsewhere_is_the_same_model_and_another_setting_is_not() -> None:
    assert identifying_string(
        "anthropic:claude@http://a:1?timeout=3&concurrency=2"
    ) == identifying_string("anthropic:claude")
    assert identifying_string("gemini:g?temperature=1") != identifying_string("gemini:g")
    assert identifying_string("azure:d@https://one.net?retries=1") == identifying_string(
        "azure:d@https://one.net"
    )
    assert identifying_string("azure:d@https://one.net") != identifying_string(
        "azure:d@https://two.net"
    ), "names are the users' own"


def test_azure_is_asked_with_its_key_header_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with start_server() as started:
        model = load_model(
            f"azure:my-deployment@http://127.0.0.1:{started.port}?api_version=2024-10-21&retries=0"
        )
        with pytest.raises(ModelError, match="404"):
            reply_of(model)
        path = "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
        [seen] = started.seen(path)
    assert seen.headers["api-key"] == KEY
    assert "authorization" not in seen.headers
    assert seen.asked["max_completion_tokens"] == 30


def reply_of(model: Any) -> Response:
    """What a model says to the usual question, and nothing is left open."""

    async def play() -> Response:
        try:
            return await model.ask(question(), Shelf())
        finally:
            await model.close()

    return asyncio.run(play())


def test_vertex_is_asked_with_the_token_of_google_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    auth = pytest.importorskip("google.auth")
    credentials = pytest.importorskip("google.oauth2.credentials").Credentials(token=KEY)
    monkeypatch.setattr(auth, "default", lambda scopes: (credentials, "p"))
    with start_server(service=VertexService, key=KEY) as started:
        url = f"http://127.0.0.1:{started.port}/v1/projects/p/locations/europe-west4/publishers/google"
        model = load_model(f"vertex:gemini-3-flash@{url}")
        response = reply_of(model)
    assert (response.error, response.text) == (None, "(B)")


def signature(
    request: tuple[str, str, bytes],
    headers: dict[str, str],
    secret: str,
    scope: tuple[str, str, str],
    time: str,
) -> str:
    """AWS's Signature Version 4 as its documentation describes it, of method, path and body, over sorted `headers`."""
    method, path, body = request
    date, region, service = scope
    lines = [f"{name}:{value}" for name, value in headers.items()]
    canonical = [
        method,
        quote(path),
        "",
        *lines,
        "",
        ";".join(headers),
        hashlib.sha256(body).hexdigest(),
    ]
    credential = f"{date}/{region}/{service}/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in (
        date,
        region,
        service,
        "aws4_request",
        f"AWS4-HMAC-SHA256\n{time}\n{credential}\n{digest}",
    ):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # AWS's own example, as is the case below, get-vanilla


def test_the_witness_of_signatures_signs_as_aws_does() -> None:
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}
    signed = signature(
        ("GET", "/", b""),
        headers,
        SECRET,
        ("20150830", "us-east-1", "service"),
        headers["x-amz-date"],
    )
    assert signed == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.mark.parametrize("token", ["", "of-a-role"])
def test_bedrock_is_asked_with_a_signature_where_there_is_no_api_key(
    monkeypatch: pytest.MonkeyPatch, no_credentials: None, token: str
) -> None:
    for name, value in (
        ("ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("SECRET_ACCESS_KEY", SECRET),
        ("SESSION_TOKEN", token),
    ):
        monkeypatch.setenv(f"AWS_{name}", value)
    with start_server(service=BedrockService) as started:
        address = f"127.0.0.1:{started.port}"
        model = load_model(f"bedrock:{NAMES['bedrock']}@http://{address}?region=eu-west-1")
        response = reply_of(model)
        [seen] = started.seen(BedrockService.place)
    assert (response.error, response.text) == (None, "(B)")
    time = seen.headers["x-amz-date"]
    signed = {"host": address, "x-amz-date": time} | (
        {"x-amz-security-token": token} if token else {}
    )
    scope = (time[:8], "eu-west-1", "bedrock")
    made = signature(("POST", BedrockService.place, bytes(seen.body)), signed, SECRET, scope, time)
    assert seen.headers["authorization"] == (
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{'/'.join(scope)}/aws4_request, "
        f"SignedHeaders={';'.join(signed)}, Signature={made}"
    )


def test_bedrock_without_key_and_credentials_says_what_either_needs(
    monkeypatch: pytest.MonkeyPatch, no_credentials: None
) -> None:
    with pytest.raises(
        ModelError,
        match=r"^bedrock:m: .*_BEARER_TOKEN_BEDROCK is not set; .* in AWS_ACCESS_KEY_ID$",
    ):
        load_model("bedrock:m")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(
        ModelError, match=r"correct the AWS credentials \(The config profile \(nobody\) could"
    ):
        load_model("bedrock:m")
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ModelError, match=r"or sign requests with AWS credentials: .*\[bedrock\]"):
        load_model("bedrock:m")


@pytest.mark.parametrize(
    ("name", "reasons"),
    [
        ("o3-mini", True),
        ("gpt-4o-mini", False),
        ("gemini-2.5-pro", True),
        ("gemini-2.0-flash", False),
        ("Qwen/Qwen3-VL-8B-Thinking", True),
        ("Qwen/Qwen3-VL-8B-Instruct", False),
        ("llava-hf/llava-1.5-7b-hf", False),
    ],
)
def test_which_models_reason_is_declared_by_their_names(name: str, reasons: bool) -> None:
    assert (declared_reasoning_tokens(name) > 0) == reasons


def test_options_of_a_table_are_those_of_a_model_string() -> None:
    text = model_string(
        "openai:m@http://h/v1", extra_body={"a": {"b": 1}}, stop=["\n", "&"], temperature=0.5
    )
    spec = run_spec(
        {
            "models": [
                {
                    "model": "openai:m@http://h/v1",
                    "extra_body": {"a": {"b": 1}},
                    "stop": ["\n", "&"],
                    "temperature": 0.5,
                }
            ]
        }
    )
    assert spec.question.models == (text,)
    options = read_options(parse_spec(text), OpenAIOptions)
    assert (options.extra_body, options.stop, options.temperature) == (
        {"a": {"b": 1}},
        ("\n", "&"),
        0.5,
    )
    with pytest.raises(ModelError, match="extra_body"):
        load_model("openai:m@http://h/v1?extra_body=[1]")


def test_what_answers_depend_on_is_part_of_the_fingerprint_and_what_is_only_kept_is_not() -> None:
    plain = load_model("openai:m@http://h/v1").fingerprint()
    for option in (
        "system=s",
        "temperature=0.5",
        "reasoning_effort=low",
        'extra_body={"a":1}',
        "stop=x",
        "seed=0",
    ):
        assert load_model(f"openai:m@http://h/v1?{option}").fingerprint() != plain
    assert load_model("openai:m@http://h/v1?logprobs=3&timeout=9").fingerprint() == plain


def test_options_of_the_model_string_reach_an_openai_compatible_server() -> None:
    with start_server() as started:
        options = {
            "system": "Be brief.",
            "extra_body": {"top_k": 5},
            "chat_template_kwargs": {"enable_thinking": False},
        }
        text = model_string(
            f"openai:any@{started.url}", reasoning_effort="low", logprobs=2, stop="\n", **options
        )
        model = load_model(text)
        response = reply_of(model)
        [seen] = started.seen()
    asked = seen.asked
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (asked["top_k"], asked["chat_template_kwargs"]) == (5, {"enable_thinking": False})
    assert (asked["reasoning_effort"], asked["stop"]) == ("low", ["\n"])
    assert asked["max_tokens"] > 30
    assert [token.token for token in response.logprobs] == [
        "(",
        *{one.token for one in response.logprobs} - {"(", ")"},
        ")",
    ]
    assert all(len(token.alternatives) <= 2 for token in response.logprobs)


def test_a_budget_eaten_by_reasoning_is_a_reason_of_its_own_and_said_with_the_way_out(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    body = reply_body("", finish="length", reasoning_content="Let me see")
    with start_server() as started:
        started.script(Fault(body=body, times=10**6))
        model = f"openai:any@{started.url}"
        spec = run_spec(
            {
                "models": [model],
                "benchmarks": ["eyechart/colour"],
                "limit": 3,
                "runs": str(tmp_path),
            }
        )
        [finished] = evaluate_spec(spec, announce=said.append)
    [line] = [line for line in said if "reasoning" in line]
    assert line.startswith("3 of 3 replies were cut off in their reasoning")
    assert f"{model}?reasoning_tokens=16384" in line
    [benchmark] = finished.scored.benchmarks
    assert {prediction.reason for prediction in benchmark.predictions} == {"reasoning cut off"}
    assert "Let me see" in (report_path([finished.scored])).read_text("utf-8")


def test_empty_replies_and_calls_of_tools_are_said_in_the_terminal_and_in_the_report(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    call = reply_body(
        None,
        finish="tool_calls",
        tool_calls=[{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
    )
    with start_server() as started:
        started.script(Fault(body=call, times=2), Fault(body=reply_body(""), times=1))
        spec = run_spec(
            {
                "models": [f"openai:any@{started.url}?concurrency=1"],
                "benchmarks": ["eyechart/colour"],
                "limit": 5,
                "runs": str(tmp_path),
            }
        )
        [finished] = evaluate_spec(spec, announce=said.append)
    words = "3 of 5 replies are empty (tool calls: 2; configure the server without tools)"
    assert words in said
    [benchmark] = finished.scored.benchmarks
    assert Counter(p.reason for p in benchmark.predictions) == {"tool call": 2, "empty": 1, None: 2}
    assert words in report_path([finished.scored]).read_text("utf-8")


def test_replies_cut_before_they_answer_are_said_with_the_way_out(tmp_path: Path) -> None:
    said: list[str] = []
    with start_server() as started:
        started.script(
            Fault(
                body=reply_body("The picture shows a room in which", finish="length"), times=10**6
            )
        )
        model = f"openai:any@{started.url}"
        spec = run_spec(
            {
                "models": [model],
                "benchmarks": ["eyechart/colour"],
                "limit": 3,
                "runs": str(tmp_path),
            }
        )
        evaluate_spec(spec, announce=said.append)
    [line] = [line for line in said if "replies reached the length limit" in line]
    assert line.startswith(
        "3 of 3 replies reached the length limit before an answer; raise max_new_tok"
    )
