"""Log-likelihoods from servers, through real HTTP on loopback; the toy language model is the witness."""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import snellen
from servers import (
    Fault,
    Server,
    _Asked,
    broken,
    error_body,
    rate_limited,
    start_server,
    toy_logprob,
    toy_prompt,
    toy_tokens,
)
from small import picture
from snellen.building.benchmark import Benchmark
from snellen.common.decoding import inspect_image
from snellen.errors import ModelError
from snellen.models import served
from snellen.models.base import NO_CONTINUATIONS
from snellen.models.client import Clock
from snellen.models.loading import load_model
from snellen.models.openai import OpenAIModel
from snellen.models.openai_places import OpenAIOptions, Place
from snellen.models.served import PromptTokens, border_scores
from snellen.models.server_faults import ServerFault
from snellen.records import ImagePart, ImageRef, Message, Request, Response, TextPart, Variant

BYTES = picture(3)
PICTURE = inspect_image(BYTES, "test")


class Shelf:
    def read(self, image: ImageRef) -> bytes:
        assert image == PICTURE
        return BYTES


async def no_wait(seconds: float) -> None:
    """A sleep that does not."""


def model_at(server: Server, **options: object) -> OpenAIModel:
    chosen = OpenAIOptions(**options)  # type: ignore[arg-type]
    return OpenAIModel("m", "any", Place((server.url,)), chosen, Clock(no_wait, lambda: 0.0))


def question(*options: str, opened: str = "") -> Request:
    messages = [Message("user", (ImagePart(PICTURE), TextPart("Which animal is it?")))]
    if opened:
        messages.append(Message("assistant", (TextPart(opened),)))
    return Request(
        "made", "q", Variant(), tuple(messages), kind="loglikelihood", continuations=options
    )


def ask(model: OpenAIModel, *requests: Request) -> list[Response]:
    async def all_of_them() -> list[Response]:
        try:
            return [await model.ask(request, Shelf()) for request in requests]
        finally:
            await model.close()

    return asyncio.run(all_of_them())


def ask_one(model: OpenAIModel, request: Request) -> Response:
    [response] = ask(model, request)
    return response


def by_hand(request: Request, text: str) -> tuple[float, int]:
    """Sum and number of the scored tokens: those after the header `ASSISTANT:` and what opens the reply."""
    url = f"data:image/png;base64,{b64encode(BYTES).decode()}"
    said: list[dict[str, Any]] = [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": "Which animal is it?"},
            ],
        }
    ]
    opened = request.messages[-1].text + " " if request.messages[-1].role == "assistant" else ""
    said.append({"role": "assistant", "content": opened + text})
    asked = msgspec.convert({"messages": said, "continue_final_message": True}, _Asked)
    tokens = toy_tokens(toy_prompt(asked))
    border = len(tokens) - len(toy_tokens(f" {text}"))
    return math.fsum(toy_logprob(tokens[:i], tokens[i]) for i in range(border, len(tokens))), len(
        tokens
    ) - border


@pytest.mark.parametrize("token_ids", [True, False])
@pytest.mark.parametrize("opened", ["", "It is a"])
def test_prompt_logprobs_are_summed_from_where_the_reply_begins(
    token_ids: bool, opened: str
) -> None:
    request = question("cat", "large dog", "large dog, or two", opened=opened)
    with start_server(flavour="vllm", token_ids=token_ids) as server:
        response = ask_one(model_at(server), request)
    assert [(score.sum, score.tokens) for score in response.scores] == [
        (pytest.approx(total), tokens)
        for total, tokens in (by_hand(request, text) for text in request.continuations)
    ]
    assert [score.bytes for score in response.scores] == [3, 9, 17]
    assert response.notes == ("likelihood by prompt_logprobs",)


@pytest.mark.parametrize("token_ids", [True, False])
@pytest.mark.parametrize(
    ("template", "is_noted"), [("plain", False), ("thinks", True), ("adds", True), ("skips", True)]
)
def test_what_a_template_writes_before_any_reply_is_no_part_of_an_option(
    template: str, is_noted: bool, token_ids: bool
) -> None:
    """The witness sums over the words of each option alone, in the text that the template writes."""
    request = question("red", "dark green", "dark green square")
    with start_server(flavour="vllm", template=template, token_ids=token_ids) as server:
        first, later = ask(model_at(server), request, replace(request, sample_id="r"))
    finished = {"thinks": "<think>\n\n</think>\n\n", "adds": "<think>\n\n</think>\n\n"}
    url = f"data:image/png;base64,{b64encode(BYTES).decode()}"
    expected = []
    for option in request.continuations:
        said = [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": url}},
                    {"type": "text", "text": "Which animal is it?"},
                ],
            },
            {"role": "assistant", "content": finished.get(template, "") + option},
        ]
        asked = msgspec.convert({"messages": said, "continue_final_message": True}, _Asked)
        tokens = toy_tokens(toy_prompt(asked))
        words = len(option.split())
        places = range(len(tokens) - words, len(tokens))
        expected.append((math.fsum(toy_logprob(tokens[:i], tokens[i]) for i in places), words))
    for response in (first, later):
        assert [(score.sum, score.tokens) for score in response.scores] == [
            (pytest.approx(total), words) for total, words in expected
        ]
        assert (served.OTHER_HEADER in response.notes) == is_noted


def test_a_mark_is_no_beginning_of_an_option() -> None:
    assert served.border_mark(("@home", "red")) == "#"
    request = question("@home", "# one", "red")
    with start_server(flavour="vllm") as server:
        response = ask_one(model_at(server), request)
    # The blank after "ASSISTANT:" is a token of its own before "@" and "#", and part of " red".
    assert [score.tokens for score in response.scores] == [3, 3, 1]


def test_a_question_costs_one_request_an_option_and_one_for_the_prompt_that_finds_the_servers_cache() -> (
    None
):
    with start_server(flavour="vllm") as server:
        ask_one(model_at(server), question("cat", "dog", "cow"))
        asked = [seen.asked for seen in server.seen()]
    assert [one.get("prompt_logprobs") for one in asked] == [0, 0, 0, None, None]
    assert [one["messages"][-1]["content"] for one in asked[:4]] == ["cat", "dog", "cow", "@"]
    assert [one.get("continue_final_message") for one in asked] == [True, True, True, True, None]
    assert all(one["return_token_ids"] and one["max_tokens"] == 1 for one in asked)


def test_the_way_is_asked_for_once_and_only_when_something_is_to_be_scored() -> None:
    with start_server(flavour="vllm") as server:
        model = model_at(server)
        assert model.kinds == {"generate", "loglikelihood"}
        assert not server.seen("/v1/models")
        ask(model, question("cat", "dog"), question("cat", "cow"))
        assert len(server.seen("/v1/models")) == 1


def test_what_was_gained_before_a_fault_is_not_asked_again() -> None:
    with start_server(flavour="vllm") as server:
        server.script(rate_limited("1", times=2), replace(broken(), matching='"dog"'))
        response = ask_one(model_at(server), question("cat", "dog"))
        texts = [one.asked["messages"][-1]["content"] for one in server.seen()]
    assert response.error is None
    assert texts[:6] == ["cat", "cat", "cat", "dog", "dog", "@"]


@pytest.mark.parametrize("likelihood", ["extension", "prompt_logprobs", "letters"])
def test_a_request_without_continuations_fails_alone_and_is_not_sent(likelihood: str) -> None:
    with start_server(flavour="vllm") as server:
        response = ask_one(model_at(server, likelihood=likelihood), question())
        assert not server.seen()
    assert response.error is not None
    assert (response.error.kind, response.error.detail) == ("bad_request", NO_CONTINUATIONS)


@pytest.mark.parametrize("flavour", ["plain", "sglang"])
def test_a_server_without_prompt_logprobs_ends_the_run_and_says_what_else_there_is(
    flavour: str,
) -> None:
    with (
        start_server(flavour=flavour) as server,
        pytest.raises(ModelError, match=r"likelihood=letters.*worker.*hf:"),
    ):
        ask_one(model_at(server), question("cat", "dog"))


def test_openai_and_a_model_with_likelihood_off_are_not_asked_at_all(
    questions: Benchmark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    for text in ("openai:gpt", "openai:m@http://127.0.0.1:9/v1?likelihood=off"):
        assert load_model(text).kinds == {"generate"}
        with pytest.raises(ModelError, match="does not provide log-likelihoods"):
            snellen.evaluate(text, str(questions.folder), "likelihood", runs=tmp_path)


def test_a_server_that_is_down_is_a_failure_of_each_request() -> None:
    with start_server(flavour="vllm") as server:
        model = model_at(server, retries=1, stop_after=0)
    response = ask_one(model, question("cat", "dog"))
    assert response.error is not None
    assert response.error.kind == "connection"


def test_an_unknown_picture_is_a_failure_of_its_request() -> None:
    lost = Request(
        "made",
        "q",
        Variant(),
        (Message("user", (TextPart("?"),)),),
        kind="loglikelihood",
        continuations=("",),
    )
    with start_server(flavour="vllm") as server:
        response = ask_one(model_at(server), lost)
    assert response.error is not None
    assert "no tokens" in response.error.detail


# --- letters -----------------------------------------------------------------------------------------------------


def test_letters_are_asked_with_their_options_and_only_on_request() -> None:
    with start_server(flavour="sglang") as server:
        model = model_at(server, likelihood="letters")
        response = ask_one(model, question("cat", "dog", "cow"))
        [seen] = server.seen()
    text = seen.asked["messages"][-1]["content"][-1]["text"]
    assert (
        text
        == "\nOptions: (A) cat; (B) dog; (C) cow.\nReply with the letter of the right option alone."
    )
    assert (seen.asked["logprobs"], seen.asked["top_logprobs"]) == (True, 20)
    assert response.notes == ("likelihood by letters",)
    assert sum(math.exp(score.sum) for score in response.scores) < 1
    assert {(score.tokens, score.bytes) for score in response.scores} == {(1, 1)}
    assert model.fingerprint()["likelihood"] == "letters"


def test_a_letter_that_is_no_candidate_is_less_likely_than_all_candidates() -> None:
    with start_server(flavour="sglang", candidates=2) as server:
        response = ask_one(
            model_at(server, likelihood="letters"), question("cat", "dog", "cow", "hen")
        )
    values = sorted(score.sum for score in response.scores)
    assert values[0] == values[1] < values[2] < values[3]
    assert "not among the candidates" in response.notes[1]


def letters_reply(*positions: dict[str, float]) -> Any:
    content = [
        {
            "token": max(p, key=lambda t: p[t]),
            "top_logprobs": [{"token": t, "logprob": v} for t, v in p.items()],
        }
        for p in positions
    ]
    body = msgspec.json.encode({"choices": [{"logprobs": {"content": content}}]})
    return served.read_letters(served.HttpReply(200, {}, body), 3, 0.0)


def test_ways_to_write_a_letter_add_up() -> None:
    response = letters_reply(
        {" (": -0.1}, {"A": math.log(0.3), " A": math.log(0.2), "B": math.log(0.4), "(C": -3.0}
    )
    assert [math.exp(score.sum) for score in response.scores[:2]] == pytest.approx([0.5, 0.4])
    assert response.scores[2].sum == -3.0


def test_a_reply_without_a_letter_chooses_nothing() -> None:
    response = letters_reply({"The": -0.1, "It": -2.0}, {"A": -0.1})
    assert len({score.sum for score in response.scores}) == 1
    assert response.notes[1] == served.NO_LETTER


def test_a_server_that_tells_no_candidates_ends_the_run() -> None:
    with start_server(candidates=0) as server, pytest.raises(ModelError, match="top_logprobs"):
        ask_one(model_at(server, likelihood="letters"), question("cat", "dog"))


# --- the border, by itself ---------------------------------------------------------------------------------------

ids = st.lists(st.integers(0, 3), max_size=5)


@given(ids, st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=4))
def test_all_continuations_are_scored_from_one_border_which_no_token_of_theirs_precedes(
    alone: list[int], tails: list[list[int]]
) -> None:
    prompts = [
        PromptTokens((9, *alone, *tail), (None, *(-1.0 for _ in (*alone, *tail)))) for tail in tails
    ]
    outcome = border_scores(PromptTokens((9, *alone)), prompts, ["x"] * len(tails))
    assert isinstance(outcome, Response)
    assert [score.tokens for score in outcome.scores] == [len(tail) for tail in tails]


def test_where_a_token_straddles_for_one_continuation_all_begin_before_it() -> None:
    straddles = PromptTokens((1, 2, 34), (None, -1.0, -2.0))
    whole = PromptTokens((1, 2, 3, 5), (None, -1.0, -0.5, -0.25))
    outcome = border_scores(PromptTokens((1, 2, 3)), [straddles, whole], ["a", "b"])
    assert isinstance(outcome, Response)
    assert [(score.sum, score.tokens) for score in outcome.scores] == [(-2.0, 1), (-0.75, 2)]


def test_a_scored_token_without_a_log_probability_is_malformed() -> None:
    outcome = border_scores(PromptTokens((1,)), [PromptTokens((1, 2), (None, None))], ["a"])
    assert isinstance(outcome, ServerFault)
    assert outcome.kind == "malformed"


def test_positions_with_several_tokens_need_the_ids() -> None:
    body = {"prompt_logprobs": [None, {"5": {"logprob": -2.0}, "6": {"logprob": -0.5}}]}
    unnamed = served.read_prompt(served.HttpReply(200, {}, msgspec.json.encode(body)), 0.0)
    assert isinstance(unnamed, ServerFault)
    assert unnamed.fatal
    named = served.read_prompt(
        served.HttpReply(200, {}, msgspec.json.encode(body | {"prompt_token_ids": [4, 5]})), 0.0
    )
    assert named == PromptTokens((4, 5), (None, -2.0))


# --- a whole run -------------------------------------------------------------------------------------------------


def test_a_served_model_runs_the_likelihood_protocol(questions: Benchmark, tmp_path: Path) -> None:
    with start_server(flavour="vllm") as server:
        results = snellen.evaluate(
            f"openai:any@{server.url}?concurrency=2",
            str(questions.folder),
            ["vanilla", "likelihood"],
            runs=tmp_path,
        )
    assert results.value("accuracy", benchmark=questions.name, protocol="likelihood") is not None


# --- next tokens ---------------------------------------------------------------------------------------------------


NEXT_TOKENS: dict[str, Any] = {
    "flavour": "vllm",
    "tokenizes": True,
    "next_tokens": True,
    "template": "line",
}


def chat_bodies(server: Server) -> list[Any]:
    return [seen.asked for seen in server.seen()]


def test_options_are_scored_after_one_prompt_that_the_server_computes_once() -> None:
    with start_server(**NEXT_TOKENS) as server:
        model = model_at(server)
        response = ask_one(model, question("cat", "dog", "a red cat", "a red dog"))
        bodies = chat_bodies(server)
    assert response.notes == ("likelihood by next_tokens",)
    # One request for each beginning that another token follows: none, "a" and "a red".
    openings = [
        body["messages"][-1]["content"] for body in bodies if "continue_final_message" in body
    ]
    assert len(bodies) == 3 and openings == ["a", "a red"]
    assert all("prompt_logprobs" not in body and body["max_tokens"] == 1 for body in bodies)
    assert [score.tokens for score in response.scores] == [1, 1, 3, 3]


@pytest.mark.parametrize("opened", ["", "The animal is", "The answer is ("])
def test_next_tokens_and_prompt_logprobs_give_the_same_scores(opened: str) -> None:
    options = ("cat", "a red cat", "a red dog", "it is")
    with start_server(**NEXT_TOKENS) as server:
        asked = question(*options, opened=opened)
        sums = []
        for likelihood in ("next_tokens", "prompt_logprobs"):
            model = model_at(server, likelihood=likelihood, prefix="send")
            response = ask_one(model, asked)
            assert response.error is None and f"likelihood by {likelihood}" in response.notes
            sums.append([(score.sum, score.tokens) for score in response.scores])
    assert sums[0] == sums[1]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="no address that tokenises"),
        pytest.param(
            NEXT_TOKENS | {"next_tokens": False}, id="an older vLLM that ignores the field"
        ),
        # The header before a finished reply is not the one that a reply follows.
        pytest.param(NEXT_TOKENS | {"template": "adds"}, id="adds"),
        pytest.param(NEXT_TOKENS | {"template": "skips"}, id="skips"),
        # The blank at the end of the header becomes part of an option's first token.
        pytest.param(NEXT_TOKENS | {"template": "plain"}, id="joins"),
    ],
)
def test_a_server_without_next_tokens_is_asked_for_the_prompt(settings: dict[str, Any]) -> None:
    with start_server(**{"flavour": "vllm", **settings}) as server:
        first, second = ask(model_at(server), question("cat", "dog"), question("bird", "a cow"))
        tokenised = server.seen("/tokenize")
    for response in (first, second):
        assert response.error is None and "likelihood by prompt_logprobs" in response.notes
    # It is found out once.
    assert len(tokenised) == (4 if settings else 1)


@pytest.mark.parametrize("address", ["logprob_token_ids", "/detokenize"])
def test_a_server_that_refuses_next_tokens_is_asked_for_the_prompt(address: str) -> None:
    settings = NEXT_TOKENS
    if address == "/detokenize":
        settings = settings | {"detokenizes": False}
    with start_server(**settings) as server:
        if address == "logprob_token_ids":
            server.script(Fault(400, error_body("bad value"), matching=address, times=9))
        responses = ask(model_at(server), question("cat", "a red dog"), question("cat", "a cow"))
    for response in responses:
        assert response.error is None and response.notes == ("likelihood by prompt_logprobs",)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(body="<html>Welcome</html>"), id="a page of a gateway"),
        pytest.param(Fault(500, error_body("not for images")), id="an internal error"),
    ],
)
def test_a_server_that_cannot_tokenise_is_asked_for_the_prompt(fault: Fault) -> None:
    with start_server(**NEXT_TOKENS, tokenize_fault=fault) as server:
        response = ask_one(model_at(server), question("cat", "a dog"))
    assert response.error is None and response.notes == ("likelihood by prompt_logprobs",)


def test_a_setting_that_is_refused_is_left_out_of_next_tokens() -> None:
    refused = error_body("Unsupported parameter: 'temperature'.", "unsupported_parameter")
    with start_server(**NEXT_TOKENS) as server:
        server.script(Fault(400, refused, matching="logprob_token_ids"))
        response = ask_one(model_at(server), question("cat", "a dog"))
    assert response.error is None and response.notes == ("likelihood by next_tokens",)


def test_an_option_that_begins_another_is_scored_by_next_tokens() -> None:
    with start_server(**NEXT_TOKENS) as server:
        asked = question("cat", "cat dog", "cat dog cow")
        response = ask_one(model_at(server), asked)
        by_prompts = ask_one(model_at(server, likelihood="prompt_logprobs"), asked)
    assert response.notes == ("likelihood by next_tokens",)
    assert response.scores == by_prompts.scores


def test_an_empty_option_does_not_change_how_others_are_scored() -> None:
    with start_server(**NEXT_TOKENS) as server:
        empty, other = ask(model_at(server), question("cat", ""), question("cat", "dog"))
    assert empty.error is not None and "has no tokens" in empty.error.detail
    assert other.notes == ("likelihood by next_tokens",)


def test_sentences_are_scored_by_a_prompt_each() -> None:
    sentence = "a red {} sits on the old table near the big window"
    with start_server(**NEXT_TOKENS) as server:
        response = ask_one(
            model_at(server), question(sentence.format("cat"), sentence.format("cow"))
        )
        bodies = chat_bodies(server)
    assert response.notes == ("likelihood by prompt_logprobs",)
    assert not any("logprob_token_ids" in body for body in bodies)


def test_a_fault_that_passes_does_not_change_how_options_are_scored() -> None:
    with start_server(**NEXT_TOKENS) as server:
        server.script(broken(times=2))
        response = ask_one(model_at(server), question("cat", "a dog"))
    assert response.error is None and response.notes == ("likelihood by next_tokens",)
