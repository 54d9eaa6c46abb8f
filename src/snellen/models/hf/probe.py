"""Small test prompts for a model when it is loaded, to see which fast paths it allows."""

from __future__ import annotations

import io
import random

from snellen.images import inspect_image
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.encode import ContinuedPrompt, Encoder
from snellen.records import ImagePart, ImageRef, Message, TextPart

QUESTIONS = ("What is in the picture?", "How many things do you see here, and which of them is the largest?")
REPLIES = ("yes", "a red square and two circles")


class _Noise(dict[str, bytes]):
    """Two synthetic pictures, in memory."""

    def add(self, seed: int) -> ImageRef:
        from PIL import Image

        size = (96, 72)
        buffer = io.BytesIO()
        pixels = random.Random(seed).randbytes(size[0] * size[1] * 3)
        Image.frombytes("RGB", size, pixels).save(buffer, "PNG")
        image = inspect_image(buffer.getvalue(), "probe")
        self[image.digest] = buffer.getvalue()
        return image

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def build_probe(conversation: Conversation, encoder: Encoder, encoder_decoder: bool) -> list[ContinuedPrompt]:
    """Two questions about one picture and one about another. Raises ValueError when the processor rejects them."""
    noise = _Noise()
    first_picture, second_picture = noise.add(1), noise.add(2)
    prompts = []
    for image, question in (
        (first_picture, QUESTIONS[0]),
        (first_picture, QUESTIONS[1]),
        (second_picture, QUESTIONS[0]),
    ):
        prompt = conversation.write([Message("user", (ImagePart(image), TextPart(question)))])
        encoded = encoder.encode(prompt, noise)
        prompts.append(
            encoder.reply_with(encoded, REPLIES) if encoder_decoder else encoder.continue_with(prompt, encoded, REPLIES)
        )
    return prompts
