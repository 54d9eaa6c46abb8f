"""The small question that a model is asked when it is loaded, to see which fast paths it allows."""

from __future__ import annotations

import io
import random

from snellen.images import inspect_image
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.encode import Continued, Encoder
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


def probe(conversation: Conversation, encoder: Encoder, encoder_decoder: bool) -> list[Continued]:
    """Two questions about one picture and one about another. Raises ValueError when they are refused."""
    noise = _Noise()
    one, other = noise.add(1), noise.add(2)
    asked = []
    for image, question in ((one, QUESTIONS[0]), (one, QUESTIONS[1]), (other, QUESTIONS[0])):
        prompt = conversation.write([Message("user", (ImagePart(image), TextPart(question)))])
        encoded = encoder.encode(prompt, noise)
        asked.append(
            encoder.reply_with(encoded, REPLIES) if encoder_decoder else encoder.continue_with(prompt, encoded, REPLIES)
        )
    return asked
