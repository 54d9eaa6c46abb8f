"""Answers of a whole run to questions with up to three images, against each question asked by itself.

The reference writes the prompt itself, has a model and a processor of its own, and runs one row without a cache.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
from PIL import Image

import snellen as sn
from hf_strangers import KNOWN, STRANGERS, stranger
from small import built, rows
from snellen.models.hf.model import HFModel
from snellen.records import ImagePart, Request, Response

SIZES = ((40, 30), (64, 80), (96, 40), (30, 90), (50, 50))
LONG = (
    "Look closely at everything that is shown, near and far, and take your time before you answer. "
)


def picture(number: int) -> str:
    """A square on a ground, as it stands in a table."""
    ground = (37 * number % 255, (91 * number + 40) % 255, (53 * number + 90) % 255)
    square = ((200 - 29 * number) % 255, 17 * number % 255, 111 * number % 255)
    image = Image.new("RGB", SIZES[number % len(SIZES)], ground)
    image.paste(square, (5, 5, 20, 25))
    stored = io.BytesIO()
    image.save(stored, "PNG")
    return base64.b64encode(stored.getvalue()).decode()


def questions(count: int) -> list[dict[str, Any]]:
    made = rows(count, options=3)
    for i, row in enumerate(made):
        row["image"] = [picture((i // 4 * 2 + n) % 20) for n in range(i % 4)]
        row["question"] = LONG * (0, 0, 1, 0, 4)[i % 5] + f"Which animal is number {i}?"
    return made


class Reference:
    """A model and a processor asked as their authors would: one prompt at a time."""

    def __init__(self, name: str, images: Any) -> None:
        self.model, self.processor = stranger(name)
        self.images = images

    def prompt(self, request: Request) -> str:
        turns = []
        for message in request.messages:
            parts = [
                "<image>" if isinstance(part, ImagePart) else part.text for part in message.content
            ]
            end = "" if message.role == "assistant" else "<|end|>"
            turns.append(f"<|{message.role}|>{''.join(parts)}{end}")
        if request.messages[-1].role != "assistant":
            turns.append("<|assistant|>")
        return "".join(turns)

    def inputs(self, request: Request, text: str) -> dict[str, Any]:
        shown = []
        for image in request.images:
            stored = io.BytesIO(self.images.read(image))
            shown.append(Image.open(stored).convert("RGB"))
        return dict(self.processor(images=shown or None, text=text, return_tensors="pt"))

    @torch.no_grad()
    def score(self, request: Request, option: str) -> float:
        before = self.prompt(request)
        context = self.inputs(request, before)["input_ids"][0].tolist()
        blank = "" if before.endswith(("(", " ", "|>")) else " "
        inputs = self.inputs(request, f"{before}{blank}{option}")
        ids = inputs["input_ids"][0].tolist()
        start = 0
        while start < len(context) and context[start] == ids[start]:
            start += 1
        values = self.model(**inputs, use_cache=False).logits[0].double().log_softmax(-1)
        return sum(float(values[place - 1, ids[place]]) for place in range(start, len(ids)))

    @torch.no_grad()
    def reply(self, request: Request, most: int) -> str:
        """The first `most` greedy tokens, each from a forward pass over all before it, without a cache."""
        inputs = self.inputs(request, self.prompt(request))
        ids = inputs["input_ids"]
        width = ids.shape[1]
        ends = self.processor.tokenizer.eos_token_id
        while ids.shape[1] < width + most and ids[0, -1] != ends:
            asked = {**inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
            best = self.model(**asked, use_cache=False).logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, best], dim=1)
        written = self.processor.tokenizer.decode(ids[0, width:], skip_special_tokens=True)
        return str(written).strip()


NAMES = (*STRANGERS, *KNOWN)
FIRST_TOKENS = 8
MODELS = [
    *(pytest.param(name, 3, id=name) for name in NAMES[::3]),
    *(pytest.param(name, 1, id=f"{name}, whole replies", marks=pytest.mark.slow) for name in NAMES),
]
"""Models, and how many replies there are for each that the reference writes to the end.

Without a cache it takes more time than all else. Of the other replies it writes the first tokens. A third of the replies
are to questions with each number of images and each length.
"""


@pytest.mark.parametrize(("name", "share"), MODELS)
def test_a_run_answers_as_one_question_at_a_time(
    name: str, share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last: dict[tuple[Any, ...], tuple[Request, Response]] = {}
    seen: dict[str, Any] = {}

    def watched(method: str) -> Any:
        original = getattr(HFModel, method)

        def ask(self: HFModel, requests: Sequence[Request], images: Any) -> Any:
            answers = original(self, requests, images)
            seen["images"] = images
            for request, response in zip(requests, answers, strict=True):
                last[repr(request.messages), request.continuations] = request, response
            return answers

        return ask

    monkeypatch.setattr(HFModel, "generate", watched("generate"))
    monkeypatch.setattr(HFModel, "loglikelihood", watched("loglikelihood"))
    benchmark = built(questions(24), tmp_path / "mine")

    sn.evaluate(
        sn.hf(*stranger(name), name="stranger"),
        str(benchmark.folder),
        ["vanilla", "likelihood"],
        runs=str(tmp_path / "runs"),
    )

    # A question that was asked again has only its last answer here, as in the run.
    assert len(last) == 48
    reference = Reference(name, seen["images"])
    written = 0
    for request, response in last.values():
        if request.kind == "generate":
            written += 1
            if written % share == 0:
                assert response.text == reference.reply(request, request.decoding.max_new_tokens)
            else:
                assert response.text.startswith(reference.reply(request, FIRST_TOKENS))
            continue
        expected = [reference.score(request, option) for option in request.continuations]
        assert [score.sum for score in response.scores] == pytest.approx(expected, abs=1e-3)
