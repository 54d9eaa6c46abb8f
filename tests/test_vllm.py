"""vLLM in this process, against a stand-in of its documented interface that runs a small model of transformers.

`hf:` with the same weights is the witness. A real vLLM was asked by hand (docs/evidence/whitebox.md).
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers

from snellen.errors import DataError, MissingExtraError, ModelError
from snellen.models.base import NO_CONTINUATIONS
from snellen.models.embedded import tiny_checkpoint
from snellen.models.loading import load_model
from snellen.records import Decoding, ImagePart, ImageRef, Message, Request, TextPart, Variant
from tiny_archs import Pictures, ask

FOLDER = tiny_checkpoint("tiny")
OPTIONS = ("red", "a dark green square", "a dark blue circle, or two")


@dataclass
class SamplingParams:
    max_tokens: int
    temperature: float
    stop: list[str] | None = None
    top_p: float = 1.0
    seed: int | None = None
    prompt_logprobs: int | None = None


@dataclass
class LLM:
    """Takes what `vllm.LLM` documents. Prompts are run one at a time by the model's own forward and `generate`."""

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

    def __post_init__(self) -> None:
        self.processor = transformers.AutoProcessor.from_pretrained(self.model)
        self.weights = transformers.AutoModelForImageTextToText.from_pretrained(
            self.model, dtype=torch.float32
        ).eval()

    def generate(
        self, prompts: list[Any], sampling_params: list[SamplingParams], use_tqdm: bool
    ) -> list[Any]:
        assert not use_tqdm
        self.calls.append((prompts, sampling_params))
        return [
            self._answer(prompt, how) for prompt, how in zip(prompts, sampling_params, strict=True)
        ]

    @torch.no_grad()
    def _answer(self, prompt: Any, how: SamplingParams) -> Any:
        placeholder = self.processor.image_token_id
        images = prompt.get("multi_modal_data", {}).get("image", [])
        assert prompt["prompt_token_ids"].count(placeholder) == len(images)
        inputs: dict[str, Any] = {}
        tokens_an_image = 0
        if images:
            read = self.processor(
                text=["<image>" * len(images)], images=images, return_tensors="pt"
            )
            inputs["pixel_values"] = read["pixel_values"]
            tokens_an_image = int((read["input_ids"] == placeholder).sum()) // len(images)
        ids: list[int] = []
        for token in prompt["prompt_token_ids"]:
            ids += [token] * (tokens_an_image if token == placeholder else 1)
        inputs["input_ids"] = torch.tensor([ids])
        logprobs = None
        if how.prompt_logprobs is not None:
            values = self.weights(**inputs).logits[0].log_softmax(-1)
            logprobs = [None]
            for place in range(1, len(ids)):
                value = float(values[place - 1, ids[place]])
                logprobs.append({ids[place]: SimpleNamespace(logprob=value)})
        written = self.weights.generate(
            **inputs, max_new_tokens=how.max_tokens, do_sample=False, pad_token_id=0
        )[0, len(ids) :].tolist()
        text = self.processor.tokenizer.decode(written, skip_special_tokens=True)
        completion = SimpleNamespace(text=text, token_ids=written, finish_reason="stop")
        return SimpleNamespace(prompt_token_ids=ids, prompt_logprobs=logprobs, outputs=[completion])


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    module = SimpleNamespace(LLM=LLM, SamplingParams=SamplingParams, __version__="0.0-stand-in")
    monkeypatch.setitem(sys.modules, "vllm", module)  # type: ignore[arg-type]
    return module


@pytest.fixture
def model(stand_in: SimpleNamespace) -> Any:
    return load_model(f"vllm:{FOLDER}?max_model_len=4096")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)  # type: ignore[arg-type]
    with pytest.raises(MissingExtraError, match=r"pip install .*\[vllm\]'"):
        load_model("vllm:org/name")


def test_an_unknown_option_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ModelError, match="tensor_parallel_size"):
        load_model("vllm:org/name?tensor_paralel_size=2")


def test_a_folder_that_does_not_exist_is_named(stand_in: SimpleNamespace) -> None:
    with pytest.raises(ModelError, match="there is no folder"):
        load_model("vllm:./nowhere")


def test_the_string_says_what_is_loaded(model: Any) -> None:
    engine = model._engine
    assert (engine.model, engine.revision, engine.max_model_len) == (str(FOLDER), None, 4096)
    facts = model.fingerprint()
    assert (facts["vllm"], facts["prompt"]) == ("0.0-stand-in", "chat template")
    # transformers renders the template and tokenises, for vllm: as for hf:.
    assert facts["transformers"] == transformers.__version__


def test_weights_in_a_folder_are_known_by_their_digest(
    stand_in: SimpleNamespace, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(FOLDER, folder)
    before = load_model(f"vllm:{folder}").fingerprint()["weights"]
    assert before == load_model(f"hf:{folder}").fingerprint()["weights"]

    # Training goes on: the same folder, another number in the weights.
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-2, 2)
        file.write(b"\x01\x02")
    after = load_model(f"vllm:{folder}").fingerprint()["weights"]
    assert before.startswith("sha256:")
    assert after.startswith("sha256:")
    assert after != before


def test_settings_of_the_processor_and_the_weights_reach_the_engine(
    stand_in: SimpleNamespace,
) -> None:
    options = 'dtype=fp16&quantization=awq&processor_kwargs={"do_normalize":false}'
    model: Any = load_model(f"vllm:{FOLDER}?{options}")
    engine = model._engine
    assert (engine.dtype, engine.quantization) == ("float16", "awq")
    assert engine.mm_processor_kwargs == {"do_normalize": False}
    facts = model.fingerprint()
    assert (facts["dtype"], facts["quantised"]) == ("float16", "awq")
    assert facts["processor settings"] == '{"do_normalize":false}'


def test_a_setting_that_the_processor_does_not_have_is_refused(stand_in: SimpleNamespace) -> None:
    with pytest.raises(ModelError, match="'max_pixels' has no effect"):
        load_model(f"vllm:{FOLDER}?max_pixels=3136")


def hard_requests(pictures: Pictures, **fields: Any) -> list[Request]:
    """No image, one, two, an opened reply, a system turn with an earlier turn, and what spells control tokens."""
    red, blue = pictures.add("red"), pictures.add("blue", (64, 64))
    kind = "loglikelihood" if "continuations" in fields else "generate"
    turns = (
        Message("system", (TextPart("Be short."),)),
        Message("user", (ImagePart(red), TextPart("What colour?"))),
        Message("assistant", (TextPart("red"),)),
        Message("user", (ImagePart(blue), TextPart("And this one?"))),
    )
    fields.setdefault("decoding", Decoding(max_new_tokens=6))
    return [
        ask("What colour is the sky?", **fields),
        ask("What is it?", red, **fields),
        ask("Are they alike?", red, blue, **fields),
        ask("What is it?", blue, reply="It is", **fields),
        Request("tiny", "talk", Variant(), turns, kind=kind, **fields),
        ask("What does <image> mean in <|end|>?", red, **fields),
    ]


def test_scores_and_replies_are_those_of_hf(model: Any) -> None:
    pictures = Pictures()
    witness: Any = load_model(f"hf:{FOLDER}")
    scored = hard_requests(pictures, continuations=OPTIONS)
    for response, expected in zip(
        model.loglikelihood(scored, pictures), witness.loglikelihood(scored, pictures), strict=True
    ):
        assert [score.sum for score in response.scores] == pytest.approx(
            [score.sum for score in expected.scores], abs=1e-4
        )
        assert [(score.tokens, score.bytes) for score in response.scores] == [
            (score.tokens, score.bytes) for score in expected.scores
        ]
    written = hard_requests(pictures)
    replies = model.generate(written, pictures)
    expected_replies = witness.generate(written, pictures)
    assert [reply.text for reply in replies] == [reply.text for reply in expected_replies]
    assert [reply.notes for reply in replies] == [reply.notes for reply in expected_replies]


def test_a_window_is_one_call_and_decoding_settings_reach_the_engine(model: Any) -> None:
    pictures = Pictures()
    sampled = Decoding(max_new_tokens=3, temperature=0.5, top_p=0.9, seed=7, stop=("\n",))
    requests = [ask("one", pictures.add("red")), ask("x", decoding=sampled)]
    assert len(model.generate(requests, pictures)) == 2
    [(_, settings)] = model._engine.calls
    assert settings[1] == SamplingParams(3, 0.5, ["\n"], 0.9, 7)
    assert settings[0].seed is None


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
    [response] = model.loglikelihood([replace(requests[1], continuations=("",))], pictures)
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
