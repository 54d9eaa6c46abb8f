"""The adapter of OpenAI-compatible servers, through real HTTP on loopback."""

from __future__ import annotations

import asyncio
import base64
import gc
import logging
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.utils import format_datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import (
    Fault,
    Server,
    broken,
    dropped,
    endless,
    error_body,
    filtered,
    malformed,
    rate_limited,
    reply_body,
    slow,
    start_server,
)
from snellen.errors import DataError, ModelError
from snellen.formats.retry_after import parse_retry_after
from snellen.models import chat
from snellen.models.adaptive_limit import AdaptiveLimit
from snellen.models.base import AsyncModel
from snellen.models.byte_budget import ByteBudget
from snellen.models.client import Clock
from snellen.models.connections import HttpReply
from snellen.models.key_removal import presentable
from snellen.models.loading import load_model
from snellen.models.model_strings import parse_spec
from snellen.models.openai import OpenAIModel, open_openai
from snellen.models.openai_places import OpenAIOptions, Place
from snellen.models.retry import Retry
from snellen.models.server_faults import ServerFault
from snellen.records import (
    Decoding,
    Failure,
    ImagePart,
    ImageRef,
    Message,
    Request,
    Response,
    TextPart,
    Usage,
    Variant,
)

KEY = "sk-very-secret-0123456789"
NOW = 1_700_000_000.0
BYTES = b"\xff\xd8 not decoded by anybody on the way " + bytes(range(256))
PICTURE = ImageRef("d" * 64, "image/jpeg", 4, 3)


class Shelf:
    """Images in memory; counts how often they are read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, image: ImageRef) -> bytes:
        if image != PICTURE:
            raise DataError(f"image {image.digest[:12]} is missing")
        self.reads += 1
        return BYTES


def question(
    text: str = "Which? (A) one; (B) two.", *, prefix: str = "", decoding: Decoding | None = None
) -> Request:
    messages = [Message("user", (ImagePart(PICTURE), TextPart(text)))]
    if prefix:
        messages.append(Message("assistant", (TextPart(prefix),)))
    return Request("made", text, Variant(), tuple(messages), decoding=decoding or Decoding())


class Waits(list[float]):
    """A sleep that does not, and remembers for how long."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def model_at(
    url: str, waits: Waits | None = None, *, key: str = "", name: str = "any", **options: object
) -> OpenAIModel:
    waits = Waits() if waits is None else waits
    chosen = OpenAIOptions(**options)  # type: ignore[arg-type]
    headers = {"authorization": f"Bearer {key}"} if key else {}
    place = Place((url,), headers=headers, key=key)
    return OpenAIModel(f"openai:{name}@{url}", name, place, chosen, Clock(waits, lambda: NOW))


def ask(model: AsyncModel, *requests: Request, images: Shelf | None = None) -> list[Response]:
    shelf = images or Shelf()

    async def together() -> list[Response]:
        try:
            return await asyncio.gather(*(model.ask(request, shelf) for request in requests))
        finally:
            await model.close()

    return asyncio.run(together())


def ask_one(model: AsyncModel, request: Request | None = None) -> Response:
    [response] = ask(model, request or question())
    return response


def failure(response: Response) -> Failure:
    assert response.text is None
    assert response.error is not None
    return response.error


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    with start_server() as server:
        yield server


@pytest.fixture
def server(shared: Server) -> Server:
    shared.script()
    return shared


# What is sent and what comes back


def test_text_finish_usage_and_seconds_come_back(server: Server) -> None:
    response = ask_one(load_model(f"openai:any@{server.url}?concurrency=2"))
    assert response.text in ("The answer is (A).", "The answer is (B).")
    assert response.finish == "stop"
    assert response.usage == Usage(7, 3)
    assert response.seconds is not None
    assert response.seconds > 0
    assert (response.error, response.notes) == (None, ())


def test_stored_image_bytes_are_sent_as_they_are() -> None:
    with start_server() as server:
        ask_one(model_at(server.url))
        [seen] = server.seen()
    [message] = seen.asked["messages"]
    picture, text = message["content"]
    head, _, body = picture["image_url"]["url"].partition(",")
    assert head == "data:image/jpeg;base64"
    assert base64.b64decode(body, validate=True) == BYTES
    assert text == {"type": "text", "text": "Which? (A) one; (B) two."}


def test_the_detail_of_images_is_sent_with_each_and_is_part_of_the_fingerprint() -> None:
    with start_server() as server:
        model = model_at(server.url, detail="low")
        ask_one(model)
        ask_one(model_at(server.url))
        low, plain = [seen.asked["messages"][0]["content"][0] for seen in server.seen()]
    assert low["image_url"]["detail"] == "low"
    assert "detail" not in plain["image_url"]
    assert model.fingerprint()["image detail"] == "low"


def test_images_are_marked_for_the_cache_of_a_gateway_on_request() -> None:
    with start_server() as server:
        ask_one(model_at(server.url, cache_images=True))
        ask_one(model_at(server.url))
        marked, plain = [seen.asked["messages"][0]["content"] for seen in server.seen()]
    assert marked[0].pop("cache_control") == {"type": "ephemeral"}
    assert marked == plain


def test_an_image_is_read_once_for_the_requests_that_travel_together(server: Server) -> None:
    shelf = Shelf()
    ask(
        model_at(server.url, concurrency=1),
        question("a"),
        question("b"),
        question("c"),
        images=shelf,
    )
    assert shelf.reads == 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 1000))
def test_cached_pictures_stay_within_their_bytes_and_are_what_was_stored(
    order: list[int], most: int
) -> None:
    pictures = chat.ImagePartCache(most)
    for i in order:
        part = pictures.part(
            ImageRef(str(i), "image/png", 1, 1), lambda image: image.digest.encode() * 100
        )
        assert base64.b64encode(str(i).encode() * 100) in bytes(part)
        assert pictures.cached_bytes <= max(most, len(bytes(part)))


def test_a_missing_image_fails_its_request_alone(server: Server) -> None:
    other = ImageRef("e" * 64, "image/png", 1, 1)
    lost = Request("made", "lost", Variant(), (Message("user", (ImagePart(other),)),))
    gone, fine = ask(model_at(server.url), lost, question())
    assert failure(gone) == Failure("bad_request", "image eeeeeeeeeeee is missing", 1)
    assert fine.error is None


def test_greedy_decoding_sends_no_sampling_parameters() -> None:
    sampled = Decoding(max_new_tokens=9, temperature=0.7, top_p=0.9, seed=3, stop=("\n",))
    with start_server() as server:
        ask(
            model_at(server.url, concurrency=1),
            question(decoding=Decoding(top_p=0.5, seed=4)),
            question(decoding=sampled),
        )
        bodies = [
            {k: v for k, v in seen.asked.items() if k != "messages"} for seen in server.seen()
        ]
    assert bodies == [
        {"model": "any", "max_tokens": 30, "temperature": 0.0},
        {
            "model": "any",
            "max_tokens": 9,
            "temperature": 0.7,
            "top_p": 0.9,
            "seed": 3,
            "stop": ["\n"],
        },
    ]


def test_system_messages_and_dialogues_pass_through_as_strings() -> None:
    said = (("system", "Be short."), ("user", "One?"), ("assistant", "Yes."), ("user", "Two?"))
    messages = tuple(Message(role, (TextPart(text),)) for role, text in said)  # type: ignore[arg-type]
    with start_server(reply="echo") as server:
        assert (
            ask_one(model_at(server.url), Request("made", "s", Variant(), messages)).text == "Two?"
        )
        [seen] = server.seen()
    assert seen.asked["messages"] == [{"role": role, "content": text} for role, text in said]


def test_any_characters_survive_the_way_there_and_back() -> None:
    text = 'quotes " \\ line\nbreak é 漢字 🎉 \x00'
    with start_server(reply="echo") as server:
        assert ask_one(model_at(server.url), question(text)).text == text


@pytest.mark.parametrize("content", [None, ""])
def test_an_empty_reply_is_an_empty_text_and_no_error(server: Server, content: str | None) -> None:
    server.script(Fault(body=reply_body(content, finish="length")))
    response = ask_one(model_at(server.url))
    assert (response.text, response.finish, response.error) == ("", "length", None)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_answer(server: Server, field: str) -> None:
    server.script(Fault(body=reply_body("(B)", **{field: "I think (A)"})))
    response = ask_one(model_at(server.url))
    assert (response.text, response.reasoning) == ("(B)", "I think (A)")


def test_a_refusal_field_is_the_text_and_noted(server: Server) -> None:
    server.script(Fault(body=reply_body(None, refusal="I cannot tell.")))
    response = ask_one(model_at(server.url))
    assert (response.text, response.notes) == ("I cannot tell.", (chat.REFUSAL,))


def test_content_in_parts_is_joined(server: Server) -> None:
    parts = reply_body("X").replace(
        '"X"', '[{"type":"text","text":"The "},{"type":"text","text":"end"}]'
    )
    server.script(Fault(body=parts))
    assert ask_one(model_at(server.url)).text == "The end"


def test_a_chunked_reply_is_read(server: Server) -> None:
    server.script(Fault(chunked=True))
    assert ask_one(model_at(server.url)).error is None


def test_loglikelihood_is_a_typed_failure_where_it_is_off(server: Server) -> None:
    model = model_at(server.url, likelihood="off")
    assert model.kinds == {"generate"}
    asked = Request("made", "s", Variant(), (), kind="loglikelihood", continuations=("a",))
    assert failure(ask_one(model, asked)).kind == "model"


# The response prefix


@pytest.mark.parametrize(
    ("flavour", "prefix", "sent"),
    [
        ("plain", "auto", False),
        ("vllm", "auto", True),
        ("sglang", "auto", True),
        ("openai", "auto", False),
        ("plain", "send", True),
        ("vllm", "drop", False),
    ],
)
def test_response_prefix_is_sent_where_it_is_continued(
    flavour: str, prefix: str, sent: bool
) -> None:
    with start_server(flavour=flavour) as server:
        model = model_at(server.url, prefix=prefix, max_tokens_field="max_completion_tokens")
        first, second = ask(
            model,
            question("a (A)", prefix="The answer is"),
            question("b (A)", prefix="The answer is"),
        )
        chats, lists = server.seen(), server.seen("/v1/models")
    for seen in chats:
        assert seen.asked["messages"][-1]["role"] == ("assistant" if sent else "user")
        assert seen.asked.get("continue_final_message", False) is sent
        assert seen.asked.get("add_generation_prompt", True) is not sent
    assert first.notes == second.notes == (() if sent else (chat.PREFIX_DROPPED,))
    assert first.text == (" (A)" if sent else "The answer is (A).")
    assert len(lists) == (prefix == "auto")


def test_nobody_is_asked_about_the_prefix_when_no_request_has_one() -> None:
    with start_server(flavour="vllm") as server:
        assert ask_one(model_at(server.url)).notes == ()
        assert server.seen("/v1/models") == []


def test_a_server_that_cannot_continue_after_all_is_asked_without_prefix() -> None:
    unable = broken(
        400,
        message="continue_final_message is set but the final message does not appear in the chat",
    )
    with start_server(flavour="vllm", script=(unable,)) as server:
        response = ask_one(model_at(server.url), question(prefix="The answer is"))
    assert (response.error, response.notes) == (None, (chat.PREFIX_DROPPED,))


def test_a_prefix_that_the_user_insists_on_is_not_dropped() -> None:
    with start_server(flavour="openai") as server:
        model = model_at(server.url, prefix="send", max_tokens_field="max_completion_tokens")
        assert failure(ask_one(model, question(prefix="The answer is"))).kind == "bad_request"


USELESS_LISTS = {
    "not implemented": broken(501),
    "not found": broken(404),
    "broken": broken(500),
    "busy": rate_limited("1"),
    "refused": broken(401),
    "moved": Fault(302, "", {"location": "http://elsewhere.invalid/"}),
    "garbage": malformed("<html>nothing here</html>"),
    "another form": malformed('{"data": [null, {"owned_by": 5}]}'),
    "endless": endless(),
    "hanging": slow(3600),
    "dropped": dropped("before"),
    "cut": dropped("within"),
}
"""What a server may answer when it is asked for its list of models."""


@pytest.mark.parametrize("kind", USELESS_LISTS)
def test_a_server_that_says_nothing_of_itself_answers_questions(kind: str) -> None:
    about = USELESS_LISTS[kind]
    with start_server(about=about) as server:
        seconds = 2 if kind == "hanging" else 10
        model = model_at(server.url, timeout=seconds, reply_bytes=4096, retries=0)
        texts = [f"Which? (A) one; (B) two. {i}" for i in range(3)]
        replies = ask(model, *(question(text, prefix="The answer is") for text in texts))
        later = len(server.seen("/v1/models"))
    assert [reply.error for reply in replies] == [None] * 3
    assert all(reply.notes == (chat.PREFIX_DROPPED,) for reply in replies)
    assert (
        later <= 12
    )  # each of three questions asks three times, and a GET on a connection that is lost is sent again


def test_a_server_that_is_not_up_yet_is_asked_about_itself_again() -> None:
    with start_server(flavour="vllm", about=broken(503), script=(broken(503, times=2),)) as server:

        class Starting(Waits):
            """A sleep in which the server comes up, before a request is sent again."""

            async def __call__(self, seconds: float) -> None:
                self.append(seconds)
                if len(server.seen()) == 2:
                    server.says_of_itself(None)

        reply = ask_one(model_at(server.url, Starting()), question(prefix="The answer is"))
    assert (reply.error, reply.notes) == (None, ())


def test_only_a_known_owner_continues_a_prefix() -> None:
    def list_of(reply: Fault) -> bool:
        return chat.continues_response_prefix(
            HttpReply(reply.status, reply.headers, (reply.body or "").encode())
        )

    assert not list_of(broken(404))
    assert not list_of(malformed())
    assert list_of(Fault(body='{"data": [{"id": "x", "owned_by": "llamacpp"}]}'))


CHOICE_FAILURES = {
    # OpenRouter, "Errors and debugging": a provider that fails while it writes.
    "error in the choice": {
        "choices": [
            {
                "finish_reason": "error",
                "message": {"role": "assistant", "content": "The ans"},
                "error": {"code": 502, "message": "Upstream error from Foo: overloaded"},
            }
        ]
    },
    "finish reason alone": {
        "choices": [{"finish_reason": "error", "message": {"role": "assistant", "content": ""}}]
    },
    "error beside choices": {
        "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": ""}}],
        "error": {"code": 504, "message": "provider timed out"},
    },
    # Of DeepSeek, of vLLM and SGLang.
    "no resources": {
        "choices": [
            {"finish_reason": "insufficient_system_resource", "message": {"content": "The a"}}
        ]
    },
    "aborted": {"choices": [{"finish_reason": "abort", "message": {"content": "The a"}}]},
}


@pytest.mark.parametrize("kind", CHOICE_FAILURES)
def test_a_failure_inside_a_reply_is_tried_again(kind: str) -> None:
    body = msgspec.json.encode(CHOICE_FAILURES[kind]).decode()
    with start_server(script=(malformed(body, times=2),)) as server:
        reply = ask_one(model_at(server.url))
        assert len(server.seen()) == 3
    assert (reply.error, reply.text) == (None, "The answer is (A).")


@pytest.mark.parametrize("kind", CHOICE_FAILURES)
def test_a_failure_inside_every_reply_is_a_failure(kind: str) -> None:
    body = msgspec.json.encode(CHOICE_FAILURES[kind]).decode()
    with start_server(script=(malformed(body, times=9),)) as server:
        reply = ask_one(model_at(server.url, retries=2))
    assert failure(reply).kind in ("server", "timeout")
    assert reply.text is None


# Parameters that servers refuse


def test_max_completion_tokens_is_learned_once() -> None:
    with start_server(flavour="openai") as server:
        responses = ask(
            model_at(server.url, concurrency=1), question("a"), question("b"), question("c")
        )
        fields = ["max_tokens" in seen.asked for seen in server.seen()]
    assert [response.error for response in responses] == [None] * 3
    assert fields == [True, False, False, False]


def test_max_tokens_field_of_the_user_is_kept() -> None:
    with start_server(flavour="openai") as server:
        error = failure(ask_one(model_at(server.url, max_tokens_field="max_tokens")))
        assert server.stats()["requests"] == 1
    assert (error.kind, error.attempts) == ("bad_request", 1)
    assert "max_completion_tokens" in error.detail


def test_a_refused_temperature_is_left_out_and_noted(server: Server) -> None:
    message = "Unsupported value: 'temperature' does not support 0 with this model."
    server.script(broken(400, message=message, code="unsupported_value"))
    response = ask_one(model_at(server.url))
    assert (response.error, response.notes) == (
        None,
        ("temperature was not sent: the server rejects it",),
    )


@given(
    st.sampled_from(
        ["max_tokens", "max_completion_tokens", "prefix", "temperature", "stop", "", "other"]
    )
)
def test_adapting_comes_to_an_end(name: str) -> None:
    dialect: chat.Dialect | None = chat.Dialect("send", "max_tokens")
    for _ in range(3):
        dialect = dialect and chat.adapt_dialect(
            dialect, ServerFault("bad_request", "", rejected_parameter=name), frozenset()
        )
    assert dialect is None


# Failures and second attempts


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (rate_limited(times=3), "rate_limit"),
        (rate_limited("1", times=3, status=503), "rate_limit"),
        (broken(503, times=3), "server"),
        (broken(500, times=3), "server"),
        (broken(408, times=3), "timeout"),
        (dropped(times=3), "connection"),
        (dropped("within", times=3), "connection"),
        (malformed(times=3), "malformed"),
        (malformed('{"choices": []}', times=3), "malformed"),
        (malformed('{"choices": [{"message": {"content": 3}}]}', times=3), "malformed"),
        (malformed("<html>", times=3), "malformed"),
        (malformed(error_body("upstream is gone"), times=3), "server"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_passing_failure_is_tried_again_and_typed_when_it_stays(
    server: Server, fault: Fault, kind: str
) -> None:
    waits = Waits()
    server.script(fault)
    error = failure(ask_one(model_at(server.url, waits, retries=2)))
    assert (error.kind, error.attempts, len(waits)) == (kind, 3, 2)
    server.script(fault)
    assert ask_one(model_at(server.url, retries=3)).error is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "<!DOCTYPE html>\n<title>502</title>" + "x" * 99,
            "it begins with '<!DOCTYPE html> <title>502</title>xxxx",
        ),
        ("\n", "it is empty"),
        ('{"choices": [', "Input data was truncated"),
    ],
)
def test_a_reply_that_is_no_completion_is_described(server: Server, body: str, said: str) -> None:
    server.script(malformed(body))
    detail = failure(ask_one(model_at(server.url, retries=0))).detail
    assert detail.startswith(f"the reply is not a chat completion: {said}") and len(detail) < 120


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        ("red \\ud83d", "red \ufffd"),
        ("\\ude00 red", "\ufffd red"),
        ("\\ud83d\\ude00 \\ud83d", "\N{GRINNING FACE} \ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_in_a_reply_is_replaced_and_noted(
    server: Server, escaped: str, text: str
) -> None:
    server.script(malformed(reply_body("@").replace("@", escaped)))
    response = ask_one(model_at(server.url, retries=0))
    assert (response.text, response.notes) == (text, ("half characters",))


def test_a_slow_reply_is_a_timeout() -> None:
    with start_server(script=(slow(60, times=2),)) as server:
        error = failure(ask_one(model_at(server.url, timeout=0.05, retries=1)))
    assert (error.kind, error.attempts) == ("timeout", 2)
    assert "0.05 s" in error.detail


def test_a_server_that_is_not_there_is_a_connection_failure() -> None:
    with start_server() as server:
        url = server.url
    error = failure(ask_one(model_at(url, retries=1, stop_after=0)))
    assert (error.kind, error.attempts) == ("connection", 2)
    assert url in error.detail


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (broken(400, message="maximum context length is 4096 tokens"), "bad_request"),
        (broken(413), "bad_request"),
        (filtered(), "refused"),
        (broken(400, message="flagged", code="content_filter"), "refused"),
        (broken(403, message="flagged", code="content_policy_violation"), "refused"),
    ],
)
def test_a_failure_that_would_stay_is_not_tried_again(
    server: Server, fault: Fault, kind: str
) -> None:
    waits = Waits()
    server.script(fault)
    error = failure(ask_one(model_at(server.url, waits)))
    assert (error.kind, error.attempts, waits) == (kind, 1, [])


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (broken(401), 'no key was sent, .*; api_key_env="OPENAI_API_KEY" sends it here'),
        (broken(403), "no key was sent"),
        (broken(404, message="The model `x` does not exist."), "`x` does not exist"),
        (broken(402, message="no credit"), "no credit"),
        (broken(429, code="insufficient_quota", message="over quota"), "over quota"),
        (Fault(308, "", {"location": "https://there/v1"}), "https://there/v1"),
    ],
)
def test_what_would_fail_every_request_ends_the_run(
    server: Server, fault: Fault, words: str
) -> None:
    server.script(fault)
    with pytest.raises(ModelError, match=words) as caught:
        ask_one(model_at(server.url))
    assert "\n" not in str(caught.value)


def test_a_key_that_was_sent_is_to_be_checked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_KEY", KEY)
    server.script(broken(401))
    model = load_model(f"openai:llava@{server.url}?api_key_env=OWN_KEY")
    with pytest.raises(ModelError, match="check the API key"):
        ask_one(model)


def test_an_unknown_model_is_named() -> None:
    with (
        start_server(models=("llava",)) as server,
        pytest.raises(ModelError, match="`lava` does not exist"),
    ):
        ask_one(model_at(server.url, name="lava"))


def test_a_failure_leaves_the_other_requests_alone(server: Server) -> None:
    server.script(Fault(500, error_body("no"), times=100, matching="poison"))
    responses = ask(
        model_at(server.url, retries=1), *(question(text) for text in ("a", "poison", "b"))
    )
    assert [response.error is None for response in responses] == [True, False, True]


def test_retry_after_in_seconds_and_as_a_date_is_kept_to(server: Server) -> None:
    waits = Waits()
    date = format_datetime(datetime.fromtimestamp(NOW + 20, UTC), usegmt=True)
    server.script(rate_limited("7"), rate_limited(date))
    assert ask_one(model_at(server.url, waits)).error is None
    first, second = waits
    assert 7 <= first <= 7.7
    assert 20 <= second <= 22


def test_a_server_that_wants_to_be_left_alone_for_an_hour_is(server: Server) -> None:
    waits = Waits()
    server.script(rate_limited("3600"))
    error = failure(ask_one(model_at(server.url, waits)))
    assert (error.kind, error.attempts, waits) == ("rate_limit", 1, [])
    assert "3600 s" in error.detail


@given(st.integers(1, 20), st.text(max_size=5), st.none() | st.floats(0, 400))
def test_waits_grow_within_bounds_and_never_undercut_the_server(
    attempt: int, name: str, asked: float | None
) -> None:
    retry = Retry()
    wait = retry.wait(attempt, name, asked)
    assert wait == retry.wait(attempt, name, asked)
    if attempt > retry.retries or (asked is not None and asked > retry.patience):
        assert wait is None
    elif asked is None:
        whole = min(30.0, 0.5 * 2 ** (attempt - 1))
        assert wait is not None
        assert whole / 2 <= wait <= whole
    else:
        assert wait is not None
        assert asked <= wait <= asked + max(0.5, asked / 10)


def test_requests_that_failed_together_do_not_come_back_together() -> None:
    assert len({Retry().wait(1, str(i)) for i in range(50)}) == 50


@pytest.mark.parametrize("text", ["", "soon", "-3", "1.2.3", "٣", "Wed, 99 Foo 2024"])
def test_an_unreadable_retry_after_is_none(text: str) -> None:
    assert parse_retry_after(text, NOW) is None


def test_a_past_retry_after_date_is_no_wait() -> None:
    assert parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", NOW) == 0.0


# Concurrency


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    with start_server(latency=0.02) as server:
        responses = ask(model_at(server.url, concurrency=4), *(question(str(i)) for i in range(24)))
        peak = server.stats()["peak"]
    assert all(response.error is None for response in responses)
    assert peak == 4


def test_the_slot_is_free_while_a_request_waits(server: Server) -> None:
    """With one slot, the second request can only be answered while the first one waits."""
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await go_on.wait()

    async def play() -> tuple[Response, Response]:
        model = OpenAIModel(
            "m", "any", Place((server.url,)), OpenAIOptions(concurrency=1), Clock(sleep)
        )
        try:
            first = asyncio.create_task(model.ask(question("first"), Shelf()))
            await waiting.wait()
            assert model.client.limit.in_use == 0
            second = await model.ask(question("second"), Shelf())
            go_on.set()
            return await first, second
        finally:
            await model.close()

    server.script(rate_limited("5"))
    assert [response.error for response in asyncio.run(play())] == [None, None]


def test_a_rate_limit_slows_down_and_an_ordinary_error_does_not(server: Server) -> None:
    model = model_at(server.url, concurrency=8)
    server.script(broken(500, times=4), malformed(times=2), dropped(times=2))
    ask(model, *(question(str(i)) for i in range(8)))
    assert model.client.limit.allowed == 8
    server.script(rate_limited(times=8))
    ask(model, *(question(str(i)) for i in range(8)))
    assert model.client.limit.allowed < 8


def test_a_server_with_room_for_few_answers_all_in_the_end() -> None:
    with start_server(latency=0.01, capacity=3, retry_after="0") as server:
        model = model_at(server.url, concurrency=16, retries=20)
        responses = ask(model, *(question(str(i)) for i in range(48)))
    assert all(response.error is None for response in responses)
    assert model.client.limit.in_use == 0


def test_one_window_of_rate_limits_halves_the_slots_once() -> None:
    async def play() -> None:
        limit = AdaptiveLimit(64)
        together = [await limit.acquire() for _ in range(64)]
        for acquired in together:
            limit.slow_down(acquired)
            limit.release()
        assert limit.allowed == 32
        together = [await limit.acquire() for _ in range(32)]
        for acquired in together:
            limit.slow_down(acquired)
        assert limit.allowed == 16

    asyncio.run(play())


def test_a_window_of_successes_adds_one_slot_up_to_the_most() -> None:
    async def play() -> list[int]:
        limit = AdaptiveLimit(4)
        for acquired in [await limit.acquire() for _ in range(4)]:
            limit.slow_down(acquired)
        for _ in range(2):
            limit.slow_down(1)
        assert limit.allowed == 1
        allowed = []
        for _ in range(12):
            limit.succeeded(2)
            allowed.append(limit.allowed)
        return allowed

    assert asyncio.run(play()) == [2, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_a_server_that_turns_away_a_few_whatever_the_load_is_asked_as_fast_as_ever(
    share: float,
) -> None:
    """Halving at each refusal, as TCP does, would end at sqrt(1.5 / share) in flight: 4 of 32 at one in ten."""

    async def play() -> float:
        limit, chance, allowed = AdaptiveLimit(32), random.Random(0), []
        held = [await limit.acquire() for _ in range(32)]
        for _ in range(3000):
            acquired = held.pop(0)
            (limit.slow_down if chance.random() < share else limit.succeeded)(acquired)
            limit.release()
            while limit.in_use < limit.allowed:
                held.append(await limit.acquire())
            allowed.append(limit.allowed)
        return sum(allowed) / len(allowed)

    assert asyncio.run(play()) > 31


def test_the_room_of_a_server_is_learned() -> None:
    """A server that turns away what is beyond 20 at once: of 64 slots those stay of which it refuses about 15 %."""

    async def play() -> tuple[float, float]:
        limit, refused, allowed = AdaptiveLimit(64), [], []
        held: list[tuple[int, bool]] = []
        for _ in range(5000):
            while limit.in_use < limit.allowed:
                has_room = sum(was_taken for _, was_taken in held) < 20
                held.append((await limit.acquire(), has_room))
            acquired, was_taken = held.pop(0)
            (limit.succeeded if was_taken else limit.slow_down)(acquired)
            limit.release()
            refused.append(not was_taken)
            allowed.append(limit.allowed)
        return sum(allowed[1000:]) / 4000, sum(refused[1000:]) / 4000

    allowed, refused = asyncio.run(play())
    assert 20 <= allowed < 26
    assert refused < 0.2


def test_what_waits_for_room_leaves_in_order_and_when_it_is_cancelled() -> None:
    async def play() -> list[int]:
        in_hand, came = ByteBudget(10), list[int]()

        async def take(number: int) -> None:
            await in_hand.room()
            with in_hand.holding(10):
                came.append(number)
                await asyncio.sleep(0)

        taking = [asyncio.create_task(take(number)) for number in range(5)]
        await asyncio.sleep(0)
        taking[1].cancel()
        await asyncio.gather(*taking, return_exceptions=True)
        assert in_hand.held == 0
        return came

    assert asyncio.run(play()) == [0, 2, 3, 4]


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_slots_are_never_lost_nor_made_up(most: int, steps: list[tuple[int, int]]) -> None:
    """Any order of taking, cancelling, giving back and slowing down keeps the count of slots right."""

    async def play() -> None:
        limit = AdaptiveLimit(most)
        tasks: list[asyncio.Task[int]] = []
        for what, which in steps:
            held = [task for task in tasks if task.done()]
            if what == 0:
                tasks.append(asyncio.create_task(limit.acquire()))
            elif what == 1 and tasks:
                task = tasks[which % len(tasks)]
                if not task.done() and task.cancel():
                    tasks.remove(task)
            elif held:
                task = held[which % len(held)]
                limit.slow_down(task.result()) if what == 2 else limit.succeeded(task.result())
                limit.release()
                tasks.remove(task)
            if which % 2:
                await asyncio.sleep(0)
            assert 1 <= limit.allowed <= most
            assert limit.in_use <= most
        for _ in range(3):
            await asyncio.sleep(0)
        assert limit.in_use == sum(task.done() for task in tasks)
        while tasks:
            await asyncio.sleep(0)
            for task in [task for task in tasks if task.done()]:
                tasks.remove(task)
                limit.release()
        assert limit.in_use == 0

    asyncio.run(play())


# Connections


@pytest.mark.parametrize("headers", [{}, {"connection": "close"}])
def test_a_connection_that_the_server_closed_is_replaced(
    server: Server, headers: dict[str, str]
) -> None:
    server.script(Fault(cut="after", headers=headers, times=3))
    responses = ask(model_at(server.url, concurrency=1), *(question(str(i)) for i in range(5)))
    assert [response.error for response in responses] == [None] * 5


def test_a_model_can_be_used_in_one_event_loop_after_another(server: Server) -> None:
    model = model_at(server.url)
    assert ask_one(model).error is None
    assert ask_one(model).error is None


def test_a_request_cancelled_at_any_turn_gives_its_slot_back_and_its_connection_up() -> None:
    async def play(url: str, turns: int) -> None:
        model = model_at(url, concurrency=1)
        task = asyncio.create_task(model.ask(question(), Shelf()))
        while not model.client.limit.in_use:
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert model.client.limit.in_use == 0
        await model.close()

    for turns in range(40):
        with start_server(latency=60) as server:
            asyncio.run(play(server.url, turns))
    gc.collect()  # a socket that is left open warns when it is collected


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with start_server() as server:
        monkeypatch.setenv("http_proxy", f"http://user:word@127.0.0.1:{server.port}")
        with pytest.raises(ModelError, match="404"):  # it is no proxy, but it was asked to be one
            ask_one(model_at("http://model.invalid/v1"))
        [seen] = server.seen("http://model.invalid/v1/chat/completions")
    assert seen.headers["proxy-authorization"] == f"Basic {base64.b64encode(b'user:word').decode()}"
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(ModelError, match=r"NO_PROXY=model\.invalid"):
        model_at("http://model.invalid/v1")


# Keys and model strings


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (f"provided: Bearer {KEY}; check the API key", "provided: Bearer ***; check the API key"),
        (f"Is Bearer {KEY}? No (see {KEY}).", "Is Bearer ***? No (see ***)."),
        (
            "Bearer ab12.cd-34_~+/==, (Bearer x|y,z:1). Bearer ab12",
            "Bearer ***, (Bearer ***). Bearer ***",
        ),
        ('{"sent": "Bearer ab.12", "code": 401}', '{"sent": "Bearer ***", "code": 401}'),
        ("not 'Bearer \"ab12\"', not Bearer <ab<12>.", "not 'Bearer ***\"', not Bearer ***>."),
        ("keys sk-ab12-cd, sk-proj-****34: wrong", "keys ***, ***: wrong"),
    ],
)
def test_what_stands_after_a_key_stays(told: str, shown: str) -> None:
    assert presentable(told, KEY) == shown


def test_the_key_is_sent_and_appears_nowhere_else(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    caplog.set_level(logging.DEBUG)
    spec = f"openai:any@{server.url}?api_key_env=MY_KEY&retries=0"
    shown = [repr(load_model(spec)), str(load_model(spec).fingerprint())]
    with start_server(key=KEY) as guarded:
        response = ask_one(load_model(spec.replace(server.url, guarded.url)))
        assert response.error is None
        assert guarded.seen()[0].headers["authorization"] == f"Bearer {KEY}"
    server.script(
        broken(500, message=f"Bearer {KEY} is no good,\n nor are sk-others-1234 and {KEY}")
    )
    error = failure(ask_one(load_model(spec)))
    shown += [error.detail, caplog.text]
    assert error.detail == "HTTP 500: Bearer *** is no good, nor are *** and ***"
    assert not any(re.search(r"\bsk-", text) for text in shown)


def test_a_refused_key_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with (
        start_server(key="another") as server,
        pytest.raises(ModelError, match="Incorrect API key") as caught,
    ):
        ask_one(load_model(f"openai:any@{server.url}?api_key_env=MY_KEY"))
    assert KEY not in str(caught.value)


def test_openai_without_a_key_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        load_model("openai:gpt-4o")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = load_model("openai:gpt-4o")
    assert model.fingerprint()["endpoint"] == "api.openai.com"


@pytest.mark.parametrize("host", ["http://127.0.0.1:{port}", "http://localhost:{port}"])
def test_the_key_of_openai_goes_to_nobody_else(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with start_server() as server:
        ask_one(load_model(f"openai:any@{host.format(port=server.port)}/v1"))
        assert "authorization" not in server.seen()[0].headers
    for url in ("https://api.openai.com.example/v1", "http://api.openai.com/v1"):
        model = load_model(f"openai:any@{url}")
        assert isinstance(model, OpenAIModel)
        assert model._place == Place((url,))


@pytest.mark.parametrize(
    "text",
    [
        f"openai:any@http://h/v1?api_key={KEY}",
        f"openai:any@http://h/v1?api_key_env={KEY}",
        f"openai:any@http://user:{KEY}@h/v1",
        f"openai:any@http://h/v1?api_key={KEY}&concurrency=many",
    ],
)
def test_a_key_in_a_model_string_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ModelError, match="api_key_env") as caught:
        load_model(text)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "openai:any@http://h/v1?concurrency=0",
            "concurrency=.0. is not a whole number that is at least 1",
        ),
        (
            "openai:any@http://h/v1?timeout=0",
            "timeout=.0. is not a number that is more than 0; write timeout=0.5",
        ),
        ("openai:any@http://h/v1?prefix=maybe", "maybe"),
        ("openai:any@http://h/v1?timout=3", "did you mean timeout"),
        ("openai:@http://h/v1", "write openai:NAME@"),
        ("openai:http://h/v1", "write openai:NAME@"),
        ("openai:any@localhost:8000/v1", "write openai:NAME@"),
        ("openai:any@http://", "write openai:NAME@"),
        ("openai:any@http://h/v1?api_key_env=SNELLEN_UNSET", "SNELLEN_UNSET is not set"),
    ],
)
def test_a_model_string_that_makes_no_sense_says_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        load_model(text)


@pytest.mark.parametrize("name", ["llava", "org/name", "claude@2024", "qwen2.5-vl:7b"])
def test_any_model_name_is_understood(name: str) -> None:
    model = open_openai(parse_spec(f"openai:{name}@http://127.0.0.1:8000/v1/?concurrency=3"))
    assert model.concurrency == 3
    assert model.fingerprint() == {
        "adapter": "openai-2",
        "model": name,
        "address": "127.0.0.1:8000",
        "endpoint": "/v1",
        "prefix": "auto",
    }


def test_the_model_is_an_async_model(server: Server) -> None:
    maker: Callable[[str], object] = load_model
    assert isinstance(maker(f"openai:any@{server.url}"), AsyncModel)


# The server itself


def test_the_server_answers_the_same_from_a_thread_and_from_a_process() -> None:
    texts = []
    for process in (False, True):
        with start_server(process=process) as server:
            texts.append(
                [
                    response.text
                    for response in ask(
                        model_at(server.url), *(question(f"{i} (A) (B)") for i in range(8))
                    )
                ]
            )
            assert len(server.seen()) == 8
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 2
