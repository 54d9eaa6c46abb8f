"""Options scored over SGLang's `/generate`, through real HTTP; `hf:` with the same weights is the witness."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

from sglang_server import SGLang, serve_sglang
from snellen.errors import DataError, ModelError
from snellen.models.embedded import tiny_checkpoint
from snellen.models.loading import load_model
from snellen.records import (
    ImagePart,
    ImageRef,
    Message,
    Part,
    Request,
    Response,
    Role,
    TextPart,
    Variant,
)
from tiny_archs import Pictures, ask


class Shelf(Pictures):
    """Images in memory; a lost one is bad data, as in a benchmark."""

    def read(self, image: ImageRef) -> bytes:
        if image.digest not in self:
            raise DataError(f"image {image.digest[:8]} is missing")
        return self[image.digest]


PICTURES = Shelf()
RED = PICTURES.add("red")
BLUE = PICTURES.add("blue", (64, 64))
SHORT = ("red", "blue", "green")
LONG = ("red", "a dark green square", "a dark blue circle, or two")


def talk(*turns: tuple[Role, tuple[Part, ...]], options: tuple[str, ...]) -> Request:
    messages = tuple(Message(role, parts) for role, parts in turns)
    return Request("tiny", "talk", Variant(), messages, kind="loglikelihood", continuations=options)


QUESTIONS = {
    "an image": ask("What colour is it?", RED, continuations=SHORT),
    "options of several tokens": ask("What is it?", RED, continuations=LONG),
    "text alone": ask("What colour is the sky?", continuations=LONG),
    "an opened reply": ask("What is it?", BLUE, reply="It is", continuations=LONG),
    "two images, a system turn and an earlier turn": talk(
        ("system", (TextPart("Be short."),)),
        ("user", (ImagePart(RED), TextPart("What colour?"))),
        ("assistant", (TextPart("red"),)),
        ("user", (ImagePart(BLUE), TextPart("And this one?"))),
        options=LONG,
    ),
}


def ask_server(
    server: SGLang, *requests: Request, options: str = "", name: str = ""
) -> list[Response]:
    model = load_model(f"openai:{name or server.name}@{server.url}{options}")

    async def answers() -> list[Response]:
        try:
            return [await model.ask(request, PICTURES) for request in requests]
        finally:
            await model.close()

    return asyncio.run(answers())


@pytest.mark.parametrize("avoids_retokenising", [False, True])
def test_scores_are_those_of_the_same_weights_in_this_process(avoids_retokenising: bool) -> None:
    requests = list(QUESTIONS.values())
    folder = tiny_checkpoint("tiny")
    with serve_sglang(folder, avoids_retokenising=avoids_retokenising) as server:
        responses = ask_server(server, *requests)
    witness = load_model(f"hf:{folder}?dtype=float32").loglikelihood(requests, PICTURES)
    for name, response, expected in zip(QUESTIONS, responses, witness, strict=True):
        assert response.error is None, (name, response.error)
        assert [score.sum for score in response.scores] == pytest.approx(
            [score.sum for score in expected.scores], abs=1e-4
        ), name
        assert [score.tokens for score in response.scores] == [
            score.tokens for score in expected.scores
        ], name
        assert response.notes == ("likelihood by generate",)


def test_a_prompt_is_computed_once_and_each_longer_option_begins_at_its_last_token() -> None:
    request = QUESTIONS["options of several tokens"]
    with serve_sglang(tiny_checkpoint("tiny")) as server:
        [response] = ask_server(server, request)
        tokenised = server.bodies("/tokenize")
        prompt, *options = server.bodies("/generate")
        length = server.generate(prompt)["meta_info"]["prompt_tokens"]
    # The first is of a short conversation, which shows whether the template opens a thought.
    assert [body["messages"][-1]["content"] for body in tokenised] == ["@", "@", *LONG]
    assert "logprob_start_len" not in prompt
    several = [score.tokens for score in response.scores if score.tokens > 1]
    assert len(several) >= 2
    assert [body["logprob_start_len"] for body in options] == [length - 1] * len(several)
    context = prompt["input_ids"]
    assert all(body["input_ids"][: len(context)] == context for body in options)
    assert [len(body["input_ids"]) - len(context) for body in options] == several


def test_a_server_that_does_not_tokenise_conversations_ends_the_run() -> None:
    with (
        serve_sglang(tiny_checkpoint("tiny"), tokenises_conversations=False) as server,
        pytest.raises(ModelError, match=r"POST /tokenize.*0\.5\.16.*likelihood=letters"),
    ):
        ask_server(server, QUESTIONS["an image"])


def test_options_are_not_scored_inside_a_thought() -> None:
    """SGLang continues the prompt of a reply (`_append_assistant_prefix_to_prompt_ids` in serving_chat.py)."""
    opened = ask("What is it?", RED, reply="It is", continuations=LONG)
    for request in (QUESTIONS["an image"], opened):
        with (
            serve_sglang(tiny_checkpoint("tiny"), opens_thought=True) as server,
            pytest.raises(ModelError, match=r"opens a thought \(<think>\).*enable_thinking"),
        ):
            ask_server(server, request)
        assert server.bodies("/generate") == []


def test_options_are_scored_where_a_setting_of_the_template_prevents_thoughts() -> None:
    setting = '?chat_template_kwargs={"enable_thinking":false}'
    requests = (QUESTIONS["an image"], QUESTIONS["text alone"])
    with serve_sglang(tiny_checkpoint("tiny"), opens_thought=True) as server:
        first, second = ask_server(server, *requests, options=setting)
        asked = len(server.bodies("/detokenize"))
    with serve_sglang(tiny_checkpoint("tiny")) as server:
        expected = ask_server(server, *requests)
    assert [first.scores, second.scores] == [response.scores for response in expected]
    assert asked == 1


@pytest.mark.parametrize(
    ("served_name", "asked_name", "adapter"),
    [
        ("tiny", "tiny", None),
        ("tiny", "tiny:birds", "birds"),
        ("s3://bucket/tiny", "s3://bucket/tiny", None),
        ("s3://bucket/tiny", "s3://bucket/tiny:birds", "birds"),
    ],
)
def test_an_adapter_in_the_name_is_asked_for_as_chat_completions_do(
    served_name: str, asked_name: str, adapter: str | None
) -> None:
    """`_parse_model_parameter` in serving_base.py of SGLang; `/generate` does not read a model's name."""
    with serve_sglang(tiny_checkpoint("tiny"), name=served_name) as server:
        ask_server(server, QUESTIONS["an image"], name=asked_name)
        asked = server.bodies("/generate")
    assert {body.get("lora_path") for body in asked} == {adapter}


def test_fields_of_the_user_go_where_they_mean_the_same() -> None:
    extra = '?extra_body={"lora_path":"birds","top_k":3,"reasoning_effort":"none"}'
    with serve_sglang(tiny_checkpoint("tiny")) as server:
        [response] = ask_server(server, QUESTIONS["an image"], options=extra)
        [tokenised, *_] = server.bodies("/tokenize")
        [generated] = server.bodies("/generate")
    assert response.error is None
    assert tokenised["reasoning_effort"] == "none"
    assert generated["lora_path"] == "birds"
    assert generated["sampling_params"]["top_k"] == -1


def test_an_option_without_tokens_and_a_lost_image_fail_alone() -> None:
    lost = ask("What is it?", Pictures().add("green"), continuations=SHORT)

    empty = ask("What is it?", RED, continuations=("red", ""))
    with serve_sglang(tiny_checkpoint("tiny")) as server:
        first, second, third = ask_server(server, empty, lost, QUESTIONS["an image"])
    assert first.error is not None
    assert "no tokens" in first.error.detail
    assert second.error is not None
    assert second.error.kind == "bad_request"
    assert third.error is None


def test_an_option_that_the_server_joins_with_the_prompt_is_not_scored() -> None:
    request = ask("What is it?", RED, continuations=LONG)
    with serve_sglang(tiny_checkpoint("tiny")) as server:
        inputs = server._inputs

        def joined(tokens: list[int], urls: list[str]) -> object:
            """The last token of the prompt is another one as soon as an option follows."""
            read = inputs(tokens, urls)
            prompts = server.bodies("/generate")
            if len(prompts) > 1:
                ending = len(tokens) - len(prompts[0]["input_ids"])
                read["input_ids"][0, -ending - 1] += 1
            return read

        server._inputs = joined  # type: ignore[method-assign]
        [response] = ask_server(server, request)
    assert response.error is not None
    assert "SGLANG_MM_AVOID_RETOKENIZE=1" in response.error.detail
