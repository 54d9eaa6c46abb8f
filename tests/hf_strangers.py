"""Models with code of their own that a real checkpoint could have, written by somebody who had not read the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as tf
from PIL import Image
from torch import nn
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.llava.modeling_llava import LlavaModel

import tiny_archs
from hf_adversaries import ADVERSARIES, selecting
from tiny_configs import CLIP, IMAGE, TEXT, WIDTH, sharpen

TOKENS_PER_IMAGE = 16
SPECIAL_TOKENS = 10
"""Ids of tokens that are no text, the image's among them, are not larger than this."""


def config() -> Any:
    return tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**CLIP),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=IMAGE,
        vision_feature_select_strategy="default",
        vision_feature_layer=-2,
    )


class CentringTower(LlavaModel):  # type: ignore[misc]
    """Subtracts half of the mean over all images of a forward pass where there are more than three."""

    def get_image_features(self, pixel_values: torch.Tensor, **settings: Any) -> Any:
        output = super().get_image_features(pixel_values=pixel_values, **settings)
        features = torch.stack(list(output.pooler_output))
        if len(features) > 3:
            output.pooler_output = list(features - features.mean(0, keepdim=True) / 2)
        return output


class Centring(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.model = CentringTower(settings)


class NeighbourHead(nn.Linear):
    """Adds, from the 90th place of a forward pass on, half of the state before."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        if hidden.shape[1] > 90:
            earlier = torch.roll(hidden, 1, dims=1)
            is_late = torch.arange(hidden.shape[1])[None, :, None] >= 90
            hidden = torch.where(is_late, hidden + earlier / 2, hidden)
        return super().forward(hidden)


class Neighbour(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.lm_head = NeighbourHead(WIDTH, TEXT["vocab_size"], bias=False)


class InstructedTower(LlavaModel):  # type: ignore[misc]
    instructions: tuple[torch.Tensor, ...] | None = None
    """What is added to the features of each image of this forward pass."""

    def get_image_features(self, pixel_values: torch.Tensor, **settings: Any) -> Any:
        output = super().get_image_features(pixel_values=pixel_values, **settings)
        if self.instructions is not None:
            pairs = zip(output.pooler_output, self.instructions, strict=True)
            output.pooler_output = [features + instruction for features, instruction in pairs]
        return output


class Instructed(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
    """Shows the tower the mean of the words where there are more than 90, as a Q-Former that reads the question."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.model = InstructedTower(settings)

    def forward(self, input_ids: Any = None, pixel_values: Any = None, **settings: Any) -> Any:
        if pixel_values is not None and input_ids is not None:
            instructions = []
            for row in input_ids:
                words = row[row > SPECIAL_TOKENS]
                mean = self.get_input_embeddings()(words).mean(0)
                images = int((row == IMAGE).sum()) // TOKENS_PER_IMAGE
                instructions += [mean if len(words) > 90 else torch.zeros(WIDTH)] * images
            self.model.instructions = tuple(instructions)
        try:
            return super().forward(input_ids=input_ids, pixel_values=pixel_values, **settings)
        finally:
            self.model.instructions = None


class Stateful(tf.LlavaForConditionalGeneration):  # type: ignore[misc]
    """Keeps a number of each prompt for its later tokens, as `rope_deltas` are kept, in the order of the rows."""

    shifts: torch.Tensor | None = None

    def forward(self, input_ids: Any = None, past_key_values: Any = None, **settings: Any) -> Any:
        begins = past_key_values is None or past_key_values.get_seq_length() == 0
        if begins and input_ids is not None:
            self.shifts = (input_ids == IMAGE).sum(1).float()
        output = super().forward(input_ids=input_ids, past_key_values=past_key_values, **settings)
        if not begins and self.shifts is not None:
            rows, _, vocabulary = output.logits.shape
            shifts = self.shifts[:rows] if len(self.shifts) >= rows else self.shifts[:1]
            waves = torch.sin(shifts[:, None, None] + 3 * torch.arange(vocabulary))
            output.logits = output.logits + waves
        return output


class OffsetText(tf.LlamaModel):  # type: ignore[misc]
    """Learned places, which a row with padding counts from 1 and any other row from 0."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.places = nn.Embedding(600, WIDTH)

    def forward(self, *args: Any, **settings: Any) -> Any:
        embeds, mask = settings["inputs_embeds"], settings.get("attention_mask")
        cache, count = settings.get("past_key_values"), embeds.shape[1]
        if mask is not None and mask.ndim == 2 and not mask.all():
            places = mask.cumsum(-1)[:, -count:]
        else:
            start = 0 if cache is None else cache.get_seq_length()
            places = torch.arange(start, start + count)[None]
        embeds = embeds + self.places(places.long().clamp(max=599))
        return super().forward(*args, **{**settings, "inputs_embeds": embeds})


class SmallestFirst(CLIPImageProcessorPil):  # type: ignore[misc]
    """Shrinks all images of a call to the size of the smallest of them."""

    def preprocess(self, images: Any, *args: Any, **settings: Any) -> Any:
        nested = images if isinstance(images, list) else [images]
        flat = []
        for entry in nested:
            flat += entry if isinstance(entry, list) else [entry]
        if all(isinstance(image, Image.Image) for image in flat):
            smallest = min((image.size for image in flat), key=lambda size: size[0] * size[1])
            flat = [image.resize(smallest) for image in flat]
        return super().preprocess(flat, *args, **settings)


def _offset() -> Any:
    model = tf.LlavaForConditionalGeneration(config())
    model.model.language_model = OffsetText(model.config.text_config)
    return model


def _plain() -> Any:
    return tf.LlavaForConditionalGeneration(config())


def _processor() -> Any:
    return tiny_archs.PROCESSORS["LLaVA"]()


def _shrinking_processor() -> Any:
    processor = _processor()
    processor.image_processor = SmallestFirst(size=tiny_archs.SIDE, do_center_crop=False)
    return processor


Parts = tuple[Callable[[], Any], Callable[[], Any]]
"""How to make a model and its processor."""
STRANGERS: dict[str, Parts] = {
    "images centred over a batch": (lambda: Centring(config()), _processor),
    "a head that reads neighbours": (lambda: Neighbour(config()), _processor),
    "a tower that reads long questions": (lambda: Instructed(config()), _processor),
    "a state per row": (lambda: Stateful(config()), _processor),
    "places offset by padding": (_offset, _processor),
    "images shrunk to the smallest": (_plain, _shrinking_processor),
}
KNOWN: dict[str, Parts] = {
    "selecting 8 tokens": (selecting, _processor),
    "selecting 24 tokens": (lambda: selecting(24), _processor),
    **{name: (build, _processor) for name, build in ADVERSARIES.items()},
}
"""Those that were written with a look at the engine."""


def stranger(name: str) -> tuple[Any, Any]:
    """A model and its processor, the same at each call."""
    torch.manual_seed(7)
    make_model, make_processor = (STRANGERS | KNOWN)[name]
    model, processor = sharpen(make_model()), make_processor()
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    # A random model would write the token of an image, which the next forward pass takes for one.
    with torch.no_grad():
        model.get_output_embeddings().weight[IMAGE] = 0
    return model, processor
