"""Requests with different numbers of images in one window, against a reference that shares no code with Snellen.

The reference writes the prompt itself, has a processor and a model that transformers loaded, and runs one row.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="waits for torch")
pytest.importorskip("transformers", reason="waits for transformers")

import torch
import transformers as tf
from PIL import Image

import snellen as sn
from small import built, cell, rows
from snellen.models.loading import load_model
from snellen.records import ImagePart, Request, Response
from tiny_archs import Pictures, ask, save

OPTIONS = ("red", "dark green", "a very long answer indeed")
COLOURS = (("red", (40, 30)), ("blue", (64, 80)), ("green", (96, 40)), ("yellow", (30, 90)))


class Witness:
    """A model and its processor as transformers loads them, asked one row at a time."""

    def __init__(self, folder: Path, prompt: str, placeholder: str) -> None:
        """`prompt` has {images} and {question}; `placeholder` stands for each image."""
        self.prompt, self.placeholder = prompt, placeholder
        self.processor = tf.AutoProcessor.from_pretrained(folder)
        self.model = tf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
        self.model.eval()

    def before(self, request: Request) -> str:
        question, *opened = request.messages
        count = sum(isinstance(part, ImagePart) for part in question.content)
        before = self.prompt.format(pictures=self.placeholder * count, question=question.text)
        return f"{before} {opened[0].text}" if opened else before

    def inputs(self, text: str, request: Request, images: Any) -> dict[str, Any]:
        shown = []
        for part in request.messages[0].content:
            if isinstance(part, ImagePart):
                stored = io.BytesIO(images.read(part.image))
                shown.append(Image.open(stored).convert("RGB"))
        return dict(self.processor(images=shown or None, text=text, return_tensors="pt"))

    @torch.no_grad()
    def score(self, request: Request, option: str, images: Any) -> float:
        """Log-probability of `option`, from one forward pass over the prompt and the option."""
        before = self.before(request)
        context = self.inputs(before, request, images)["input_ids"][0].tolist()
        blank = "" if before.endswith(("(", " ")) else " "
        inputs = self.inputs(f"{before}{blank}{option}", request, images)
        ids = inputs["input_ids"][0].tolist()
        shared = 0
        while shared < min(len(context), len(ids)) and context[shared] == ids[shared]:
            shared += 1
        values = self.model(**inputs, use_cache=False).logits[0].double().log_softmax(-1)
        return sum(float(values[i - 1, ids[i]]) for i in range(shared, len(ids)))

    @torch.no_grad()
    def reply(self, request: Request, images: Any) -> str:
        """The greedy reply of the model's own `generate` to this prompt alone."""
        inputs = self.inputs(self.before(request), request, images)
        width = inputs["input_ids"].shape[1]
        longest = request.decoding.max_new_tokens
        ids = self.model.generate(**inputs, max_new_tokens=longest, do_sample=False)
        if (ids[:, :width] == inputs["input_ids"]).all():
            ids = ids[:, width:]
        text: str = self.processor.tokenizer.decode(ids[0], skip_special_tokens=True)
        return text.strip()


class Watched:
    """A model that keeps what it was asked and what it answered."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.name, self.kinds, self.batch_size = "watched", model.kinds, model.batch_size
        self.exchanges: list[tuple[Request, Response]] = []
        self.images: Any = None

    def fingerprint(self) -> dict[str, str]:
        found: dict[str, str] = self._model.fingerprint()
        return found

    def generate(self, requests: Sequence[Request], images: Any) -> Sequence[Response]:
        self.images = images
        return self._kept(requests, self._model.generate(requests, images))

    def loglikelihood(self, requests: Sequence[Request], images: Any) -> Sequence[Response]:
        self.images = images
        return self._kept(requests, self._model.loglikelihood(requests, images))

    def _kept(
        self, requests: Sequence[Request], answered: Sequence[Response]
    ) -> Sequence[Response]:
        self.exchanges += zip(requests, answered, strict=True)
        return answered


ARCHITECTURES = {
    "Mllama": ("User: {pictures}{question}\nAssistant:", "<|image|>\n", (1, 2, 0, 3, 1, 2, 3, 0, 2)),
    "LLaVA-NeXT": ("User: {pictures}{question}\nAssistant:", "<image>\n", (1, 2, 0, 3, 1, 2, 3, 0, 2)),
    "Idefics2": ("User: {pictures}{question}\nAssistant:", "<image>\n", (1, 2, 0, 3, 1, 2, 3, 0, 2)),
    "Idefics3": ("User: {pictures}{question}\nAssistant:", "<image>\n", (1, 2, 0, 3, 1, 2, 3, 0, 2)),
    # Its forward pass needs an image.
    "BLIP-2 OPT": ("{pictures}Question: {question} Answer:", "", (1, 2, 3, 1, 2, 1, 2, 3)),
}  # fmt: skip
"""The prompt as the format of each model says, what stands for an image, and how many images are shown."""


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_windows_of_different_numbers_of_pictures_equal_single_rows(
    name: str, tmp_path: Path
) -> None:
    prompt, placeholder, counts = ARCHITECTURES[name]
    folder = save(name, tmp_path)
    witness = Witness(folder, prompt, placeholder)
    model: Any = load_model(f"hf:{folder}")
    pictures = Pictures()
    images = [pictures.add(colour, size) for colour, size in COLOURS]
    scored, written = [], []
    for i, count in enumerate(counts):
        shown = list(islice(cycle(images), i, i + count))
        question = f"What colour is it{' now' * (i % 3)}?"
        scored.append(ask(question, *shown, continuations=OPTIONS))
        written.append(ask(question, *shown))

    for request, response in zip(scored, model.loglikelihood(scored, pictures), strict=True):
        expected = [witness.score(request, option, pictures) for option in OPTIONS]
        assert [score.sum for score in response.scores] == pytest.approx(expected, abs=1e-4)
    for request, response in zip(written, model.generate(written, pictures), strict=True):
        assert response.text == witness.reply(request, pictures)


def test_a_run_over_questions_with_different_numbers_of_pictures_equals_single_rows(
    tmp_path: Path,
) -> None:
    folder = save("Mllama", tmp_path / "model")
    prompt, placeholder, _ = ARCHITECTURES["Mllama"]
    witness = Witness(folder, prompt, placeholder)
    questions = rows(24, options=3)
    for i, row in enumerate(questions):
        row["image"] = [cell(10 * i + n) for n in range(i % 4)]
    benchmark = built(questions, tmp_path / "mine")
    watched = Watched(load_model(f"hf:{folder}"))

    sn.evaluate(
        watched, str(benchmark.folder), ["vanilla", "likelihood"], runs=str(tmp_path / "runs")
    )

    counts = set()
    assert len(watched.exchanges) == 48
    for request, response in watched.exchanges:
        counts.add(sum(isinstance(part, ImagePart) for part in request.messages[0].content))
        if request.kind == "generate":
            assert response.text == witness.reply(request, watched.images)
            continue
        expected = [witness.score(request, text, watched.images) for text in request.continuations]
        assert [score.sum for score in response.scores] == pytest.approx(expected, abs=1e-4)
    assert counts == {0, 1, 2, 3}
