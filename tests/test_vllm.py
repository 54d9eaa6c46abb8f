"""vLLM in this process, against a stand-in of its documented interface: real vLLM needs a GPU."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from servers import _Asked, toy_id, toy_logprob, toy_prompt, toy_tokens
from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import NO_CONTINUATIONS
from snellen.models.loading import load_model
from snellen.records import Decoding, ImageRef, Message, Request, TextPart
from tiny_archs import Pictures, ask


@dataclass
class SamplingParams:
    max_tokens: int
    temperature: float
    stop: list[str] | None = None
    top_p: float = 1.0
    seed: int | None = None
    prompt_logprobs: int | None = None


class Added(str):
    """A token that is no text, as tokenizers list them."""

    special = True


@dataclass
class LLM:
    """Takes what `vllm.LLM` documents, and answers with the toy language model of the test server."""

    model: str
    revision: str | None
    dtype: str
    tensor_parallel_size: int
    gpu_memory_utilization: float
    trust_remote_code: bool
    limit_mm_per_prompt: dict[str, int]
    seed: int
    max_model_len: int = 0
    quantization: str = ""
    mm_processor_kwargs: dict[str, Any] = field(default_factory=dict)
    calls: list[Any] = field(default_factory=list)

    def get_tokenizer(self) -> Any:
        return SimpleNamespace(
            all_special_tokens=["<image>", "</s>"], added_tokens_decoder={7: Added("<|im_end|>")}
        )

    def chat(
        self,
        messages: list[Any],
        sampling_params: list[SamplingParams],
        use_tqdm: bool,
        add_generation_prompt: bool,
        continue_final_message: bool,
    ) -> list[Any]:
        assert add_generation_prompt != continue_final_message
        self.calls.append((messages, sampling_params, continue_final_message))
        return [
            self._answer(one, how, continue_final_message)
            for one, how in zip(messages, sampling_params, strict=True)
        ]

    def _answer(self, messages: list[Any], how: SamplingParams, continued: bool) -> Any:
        asked = msgspec.convert({"messages": messages, "continue_final_message": continued}, _Asked)
        tokens = toy_tokens(toy_prompt(asked))
        logprobs = [
            None
            if i == 0
            else {toy_id(token): SimpleNamespace(logprob=toy_logprob(tokens[:i], token))}
            for i, token in enumerate(tokens)
        ]
        return SimpleNamespace(
            prompt_token_ids=[toy_id(token) for token in tokens],
            prompt_logprobs=logprobs if how.prompt_logprobs is not None else None,
            outputs=[
                SimpleNamespace(text=toy_prompt(asked), token_ids=[1, 2], finish_reason="stop")
            ],
        )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    module = SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams, __version__="0.0-stand-in")
    monkeypatch.setitem(sys.modules, "vllm", module)  # type: ignore[arg-type]
    return module


@pytest.fixture
def model(stand_in: SimpleNamespace) -> Any:
    return load_model("vllm:org/name@main?max_model_len=4096")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # type: ignore[arg-type]
    with pytest.raises(MissingExtraError, match=r"pip install .*\[vllm\]'"):
        load_model("vllm:org/name")


def test_an_unknown_option_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ModelError, match="tensor_parallel_size"):
        load_model("vllm:org/name?tensor_paralel_size=2")


def test_the_string_says_what_is_loaded(model: Any) -> None:
    engine = model._engine
    assert (engine.model, engine.revision, engine.max_model_len) == ("org/name", "main", 4096)
    assert model.fingerprint()["vllm"] == "0.0-stand-in"


def test_settings_of_the_processor_and_the_weights_reach_the_engine(
    stand_in: SimpleNamespace,
) -> None:
    options = "dtype=fp16&quantization=awq&max_pixels=3136"
    model: Any = load_model(f"vllm:org/name?{options}")
    engine = model._engine
    assert (engine.dtype, engine.quantization) == ("float16", "awq")
    assert engine.mm_processor_kwargs == {"max_pixels": 3136}
    facts = model.fingerprint()
    assert (facts["dtype"], facts["quantised"]) == ("float16", "awq")
    assert facts["processor settings"] == '{"max_pixels":3136}'


def test_replies_come_in_order_though_open_conversations_are_asked_apart(model: Any) -> None:
    pictures = Pictures()
    shown = pictures.add("red")
    sampled = Decoding(max_new_tokens=3, temperature=0.5, top_p=0.9, seed=7, stop=("\n",))
    requests = [
        ask("one", shown),
        ask("two words", shown, reply="It is"),
        ask("x", decoding=sampled),
    ]
    responses = model.generate(requests, pictures)
    endings = ["one\nASSISTANT: ", "two words\nASSISTANT: It is", "USER: x\nASSISTANT: "]
    assert all(
        response.text.endswith(end) for response, end in zip(responses, endings, strict=True)
    )
    assert [continued for _, _, continued in model._engine.calls] == [False, True]
    assert model._engine.calls[0][1][1] == SamplingParams(3, 0.5, ["\n"], 0.9, 7)
    assert model._engine.calls[0][1][0].seed is None


def test_continuations_are_scored_from_where_the_reply_begins(model: Any) -> None:
    pictures = Pictures()
    request = ask("Which?", pictures.add("red"), continuations=("cat", "large dog"))
    [response] = model.loglikelihood([request], pictures)
    [(opened, _, _)] = [call for call in model._engine.calls if call[2]]
    for score, messages, count in zip(response.scores, opened[:2], (1, 2), strict=True):
        asked = msgspec.convert({"messages": messages, "continue_final_message": True}, _Asked)
        tokens = toy_tokens(toy_prompt(asked))
        by_hand = [
            toy_logprob(tokens[:i], tokens[i]) for i in range(len(tokens) - count, len(tokens))
        ]
        assert (score.sum, score.tokens) == (pytest.approx(math.fsum(by_hand)), count)


def test_a_missing_picture_fails_alone(model: Any) -> None:
    class Lost(Pictures):
        def read(self, image: ImageRef) -> bytes:
            if image.digest not in self:
                raise DataError("the image is missing")
            return self[image.digest]

    pictures = Lost()
    gone = Pictures().add("blue")
    requests = [
        ask("one", gone, continuations=("a", "b")),
        ask("two", pictures.add("red"), continuations=("a", "b")),
    ]
    responses = model.loglikelihood(requests, pictures)
    assert responses[0].error.detail == "the image is missing"
    assert len(responses[1].scores) == 2
    empty = Request(
        "tiny",
        "e",
        requests[0].variant,
        (Message("user", (TextPart("?"),)),),
        "loglikelihood",
        ("",),
    )
    [response] = model.loglikelihood([empty], pictures)
    assert "no tokens" in response.error.detail


def test_a_request_without_continuations_fails_alone(model: Any) -> None:
    good = ask("Which?", continuations=("a", "b"))
    first, bad, last = model.loglikelihood(
        [good, replace(good, continuations=()), good], Pictures()
    )
    assert first == last
    assert len(first.scores) == 2
    assert (bad.error.kind, bad.error.detail) == ("bad_request", NO_CONTINUATIONS)
    assert model.loglikelihood([replace(good, continuations=())], Pictures())[0].error == bad.error


def test_what_spells_a_control_token_reaches_the_engine_as_text(model: Any) -> None:
    pictures = Pictures()
    shown = pictures.add("red")
    [reply] = model.generate([ask("What does <image> mean in <|im_end|>?", shown)], pictures)
    assert reply.text.endswith("What does < image> mean in < |im_end|>?\nASSISTANT: ")
    [scored] = model.loglikelihood([ask("Which?", shown, continuations=("</s>", "red"))], pictures)
    opened = [
        messages[-1]["content"]
        for call, _, continued in model._engine.calls
        if continued
        for messages in call
    ]
    assert opened == ["< /s>", "red", "@"]
    assert [score.bytes for score in scored.scores] == [4, 3]
