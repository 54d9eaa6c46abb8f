"""Replies that are told of while they are written: the same in the end as those that come whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import EVENTS, Fault, error_body, start_server, stream_body
from snellen.common.images import BLANK, BLANK_PNG
from snellen.models.base import (
    AsyncModel,
    AsyncStreamingModel,
    StreamingModel,
    WithdrawsAnswers,
    answer_group,
)
from snellen.models.chat import read_chat
from snellen.models.connections import HttpReply
from snellen.models.loading import load_model
from snellen.models.openai_stream import ChatStream
from snellen.records import (
    Decoding,
    ImagePart,
    ImageRef,
    Message,
    Request,
    Response,
    TextPart,
    Variant,
)

SENTENCE = "A dog, <b>two</b> cats\nand a ÿ: [DONE]"


class Blank:
    def read(self, image: ImageRef) -> bytes:
        return BLANK_PNG


def question(text: str) -> Request:
    return Request(
        "b",
        "s",
        Variant(),
        (Message("user", (ImagePart(BLANK), TextPart(text))),),
        decoding=Decoding(max_new_tokens=40),
    )


def heard(url: str, text: str = SENTENCE) -> tuple[Response, Response, list[str]]:
    """The reply as it came whole and in parts, and what was told of it."""

    async def ask() -> tuple[Response, Response, list[str]]:
        model, told = load_model(f"openai:any@{url}?retries=0"), list[str]()
        assert isinstance(model, AsyncModel) and isinstance(model, AsyncStreamingModel)
        whole = await model.ask(question(text), Blank())
        parts = await model.ask_streaming(question(text), Blank(), told.append)
        await model.close()
        return whole, parts, told

    return asyncio.run(ask())


def test_a_reply_in_parts_is_the_reply_that_comes_whole() -> None:
    with start_server(reply="echo") as server:
        whole, parts, told = heard(server.url)
        asked = [seen.asked.get("stream") for seen in server.seen()]
    assert asked == [None, True]
    assert (parts.text, parts.finish) == (whole.text, whole.finish) == (SENTENCE, "stop")
    assert (
        told[-1] == SENTENCE and len(told) >= 2 and all(SENTENCE.startswith(text) for text in told)
    )


def test_a_server_that_does_not_stream_is_heard_all_the_same() -> None:
    with start_server(reply="echo", streams=False) as server:
        whole, parts, told = heard(server.url)
    assert parts.text == whole.text == SENTENCE and told == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (stream_body("A dog", ends=False), "malformed"),
        ("data: {\n\n", "malformed"),
        (f"data: {error_body('out of memory')}\n\n", "server"),
        # OpenRouter's, within the choice; its code is the status of the provider behind it.
        ('data: {"choices":[{"delta":{"content":"A d"},"finish_reason":"error"}]}\n\n', "server"),
        (
            'data: {"choices":[{"delta":{"content":"A d"},"finish_reason":"error",'
            '"error":{"code":429,"message":"busy"}}]}\n\n',
            "rate_limit",
        ),
    ],
)
def test_a_stream_that_breaks_off_is_no_reply(body: str, kind: str) -> None:
    with start_server(
        script=[Fault(body=body, headers=EVENTS, matching='"stream":true', times=9)]
    ) as server:
        whole, parts, _ = heard(server.url)
    assert whole.error is None
    assert parts.error is not None and parts.error.kind == kind


@given(st.data())
def test_it_does_not_matter_where_a_stream_is_cut(data: st.DataObject) -> None:
    body = stream_body(f"<think>Hm, a dog? </think>{SENTENCE}").encode()
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=12)))
    told = list[str]()
    stream = ChatStream(told.append)
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        stream.watch(body[start:end])
    response = read_chat(stream.assemble(HttpReply(200, EVENTS, body)), 0.0)
    assert isinstance(response, Response)
    assert (response.text, response.reasoning) == (SENTENCE, "Hm, a dog?")
    assert told[-1] == SENTENCE and not any("Hm" in text for text in told)


def test_a_local_model_tells_of_each_token_and_replies_the_same() -> None:
    pytest.importorskip("transformers", reason="waits for transformers")
    model, told = load_model("snellen:tiny"), list[str]()
    assert isinstance(model, StreamingModel) and not isinstance(model, AsyncModel)
    asked = question("Describe the picture.")
    [whole] = model.generate([asked], Blank())
    parts = model.generate_streaming(asked, Blank(), told.append)
    assert (parts.text, parts.finish, parts.usage) == (whole.text, whole.finish, whole.usage)
    assert told[-1] == whole.text and len(set(told)) > 1


def test_a_local_model_streams_by_the_plain_path_what_another_worker_found_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("transformers", reason="waits for transformers")
    from snellen.models.hf.engine import Engine
    from snellen.models.hf.sharing_plan import PLAIN

    model = load_model("snellen:tiny")
    assert isinstance(model, StreamingModel) and isinstance(model, WithdrawsAnswers)
    used = []
    generate = Engine.generate

    def watched(self: Engine, rows: Any, pick: Any, longest: int, paths: Any) -> Any:
        used.append(paths)
        return generate(self, rows, pick, longest, paths)

    monkeypatch.setattr(Engine, "generate", watched)
    asked = question("Describe the picture.")
    model.distrust(answer_group(asked))
    model.generate_streaming(asked, Blank(), lambda text: None)
    assert used == [PLAIN]


def test_a_streamed_reply_of_a_local_model_is_checked_and_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("transformers", reason="waits for transformers")
    from snellen.models.hf.engine import Engine
    from snellen.models.hf.sharing_plan import PLAIN

    asked, told = question("Describe the picture."), list[str]()
    [right] = load_model("snellen:tiny").generate([asked], Blank())
    model = load_model("snellen:tiny")
    assert isinstance(model, StreamingModel) and isinstance(model, WithdrawsAnswers)
    generate = Engine.generate

    def wrong_unless_plain(self: Engine, rows: Any, pick: Any, longest: int, paths: Any) -> Any:
        replies = generate(self, rows, pick, longest, paths)
        if paths == PLAIN:
            return replies
        return [[*tokens[:1], *tokens] for tokens in replies]  # its first token twice

    monkeypatch.setattr(Engine, "generate", wrong_unless_plain)
    streamed = model.generate_streaming(asked, Blank(), told.append)
    assert (streamed.text, told[-1]) == (right.text, right.text)
    assert model.disproved == {answer_group(asked)}
    assert any(line.startswith("spot checks (generate): 1 request") for line in model.findings())
