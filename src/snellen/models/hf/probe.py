"""Test prompts for a model when it is loaded, to see which fast paths it allows: short ones, and some that are longer
than a length at which its behaviour may begin."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from snellen.common.images import inspect_image
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.devices import Kind, kind_of
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Encoder, extend
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.noise import UnrepeatableError
from snellen.records import ImagePart, ImageRef, Message, TextPart

QUESTIONS = ("What is in the picture?", "How many things do you see here, and which of them is the largest?")
REPLIES = ("yes", "a red square and two circles")
REPEATS = 4
"""How often each prompt is put together twice, to see whether a processor acts at random."""
BRIEF = 16
"""Tokens of a text without a picture, where nothing is known to begin at a length."""
COMPUTE: dict[Kind, float] = {"cpu": 3e12, "accelerator": 3e15}
"""Floating-point operations that long probes may take: about ten seconds."""
PASSES = 16
"""How often, at most, a text of the full length is read over all paths that are tried."""


class _Noise(dict[str, bytes]):
    """Two synthetic pictures, in memory."""

    def add(self, seed: int, size: tuple[int, int]) -> ImageRef:
        from PIL import Image

        buffer = io.BytesIO()
        pixels = random.Random(seed).randbytes(size[0] * size[1] * 3)
        Image.frombytes("RGB", size, pixels).save(buffer, "PNG")
        image = inspect_image(buffer.getvalue(), "probe")
        self[image.digest] = buffer.getvalue()
        return image

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def build_probe(
    conversation: Conversation, encoder: Encoder, encoder_decoder: bool, *, pictures: bool = True
) -> list[ContinuedPrompt]:
    """Two questions about one picture and one about another, or of their words alone. Raises ValueError when the
    processor rejects them, UnrepeatableError when it makes other inputs of the same."""
    noise = _Noise()
    # Of different shape: what pads them to one size may change what is seen of them (Emu3).
    first_picture, second_picture = noise.add(1, (96, 72)), noise.add(2, (64, 80))
    prompts = []
    for image, question in (
        (first_picture, QUESTIONS[0]),
        (first_picture, QUESTIONS[1]),
        (second_picture, QUESTIONS[0]),
    ):
        image_parts = (ImagePart(image),) if pictures else ()
        prompt = conversation.write([Message("user", (*image_parts, TextPart(question)))])
        encoded = encoder.encode(prompt, noise)
        if not all(encoder.repeats(prompt, noise) for _ in range(REPEATS)):
            raise UnrepeatableError(
                "its processor makes other inputs of the same picture and question a second time, so no answer could "
                "be repeated; switch off what it does at random"
            )
        prompts.append(
            encoder.reply_with(encoded, REPLIES) if encoder_decoder else encoder.continue_with(prompt, encoded, REPLIES)
        )
    return prompts


def with_repetition(prompt: ContinuedPrompt) -> ContinuedPrompt:
    """The longest continuation again at the end: it scores differently if reading the others left a trace."""
    return replace(prompt, tails=(*prompt.tails, max(prompt.tails, key=len)))


def without_picture(probe: Sequence[ContinuedPrompt], layout: ModelLayout, length: int) -> list[ContinuedPrompt]:
    """Two prompts of a few words without a picture, each with a short continuation and a longer one; the first's
    reaches `length` tokens."""
    words = _words(probe, layout)
    rng = random.Random(1)
    prompts = []
    for count, most in ((4, length), (7, BRIEF)):
        start = tuple(rng.choice(words) for _ in range(count))
        after = tuple(rng.choice(words) for _ in range(max(2, most - count)))
        prompts.append(ContinuedPrompt(EncodedPrompt(start, {}), (after[:2], after)))
    return prompts


def stretched(probe: Sequence[ContinuedPrompt], layout: ModelLayout, length: int) -> list[ContinuedPrompt]:
    """Three prompts of up to `length` tokens, made from the first of `probe` and tokens that occur in it.

    A short one with a continuation that reaches `length`, so that it crosses whatever begins on the way; one whose
    prompt is that long, with continuations of unequal length; and one half as long about the same picture.
    """
    first, few = probe[0], max(len(tail) for tail in probe[0].tails)
    words = _words(probe, layout)
    rng = random.Random(0)

    def more(count: int) -> tuple[int, ...]:
        return tuple(rng.choice(words) for _ in range(max(1, count)))

    def longer(count: int) -> ContinuedPrompt:
        longer_context = extend(first.context, more(count - len(first.context.ids)), layout.reply_type)
        return with_repetition(ContinuedPrompt(longer_context, first.tails[:3]))

    if layout.encoder_decoder:
        return [longer(length), longer(length // 2)]
    crossing = ContinuedPrompt(first.context, (first.tails[0], more(length - len(first.context.ids))))
    return [crossing, longer(length - few), longer(length // 2)]


def _words(probe: Sequence[ContinuedPrompt], layout: ModelLayout) -> list[int]:
    """Tokens of text that occur in the probe."""
    return sorted({token for prompt in probe for tail in prompt.tails for token in tail} - {layout.image_token})


def affordable_length(model: Any) -> int:
    """Tokens of the longest probe that `model` reads in some ten seconds."""
    size = sum(values.numel() for values in model.parameters())
    return int(COMPUTE[kind_of(model)] / (2 * size * PASSES))


def text_length(prompt: ContinuedPrompt, encoder_decoder: bool) -> int:
    """Tokens of a prompt with its longest continuation, which an encoder-decoder reads separately."""
    after = max(len(tail) for tail in prompt.tails)
    return max(len(prompt.context.ids), after) if encoder_decoder else len(prompt.context.ids) + after
