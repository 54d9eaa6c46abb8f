"""Test prompts that show which fast paths are exact for a model, and the comparison of its replies.

The reference for a reply is one row without a cache, with a full forward pass for every token. It
would not be enough to compare the chosen tokens: a fast path whose log-probabilities are wrong by a
nat still chooses mostly the same tokens. So the log-probabilities of the chosen tokens are compared
too.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec.structs import replace as replace_struct

from snellen.common.decoding import inspect_image
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.decoding import TokenChooser
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Encoder
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import double
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import reference_reply
from snellen.models.hf.sharing_plan import FastPaths
from snellen.models.hf.tolerance import Tolerance, UnrepeatableError
from snellen.records import ImagePart, ImageRef, Message, TextPart

QUESTIONS = (
    "What is in the picture?",
    "How many things do you see here, and which of them is the largest?",
)
REPLIES = ("yes", "a red square and two circles")
REPEATS = 4
"""How many times a prompt is encoded again, to see whether the processor is random."""

Shows = Literal["text", "images", "clips"]
"""Content of a prompt: text only, images, or clips given as video."""
FRAMES, SECONDS = 4, 4.0
"""Number of frames of a test clip, and seconds from one frame to the next.

They are so far apart that the positions that a model derives from times are larger than all other positions.
"""


class _Noise(dict[str, bytes]):
    """Synthetic images, in memory."""

    def add(self, seed: int, size: tuple[int, int]) -> ImageRef:
        from PIL import Image

        buffer = io.BytesIO()
        pixels = random.Random(seed).randbytes(size[0] * size[1] * 3)
        Image.frombytes("RGB", size, pixels).save(buffer, "PNG")
        image = inspect_image(buffer.getvalue(), "probe")
        self[image.digest] = buffer.getvalue()
        return image

    def shown(self, shows: Shows, seed: int, size: tuple[int, int]) -> list[ImageRef]:
        """Return the images for a kind of prompt: none, one image, or the frames of a clip."""
        if shows == "text":
            return []
        if shows == "images":
            return [self.add(seed, size)]
        frames = []
        for i in range(FRAMES):
            frame = self.add(10 * seed + i, size)
            frames.append(replace_struct(frame, time=i * SECONDS))
        return frames

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def build_probe(
    conversation: Conversation, encoder: Encoder, encoder_decoder: bool, shows: Shows = "images"
) -> list[ContinuedPrompt]:
    """Return test prompts: two questions about one image, one about another image, and two about two images each.

    With `shows="clips"` each image is a clip. With `shows="text"` there are three prompts without
    images. The prompts with two images are left out if the processor rejects them.

    Raises:
        ValueError: The processor rejects the prompts.
        UnrepeatableError: The processor makes different inputs when it encodes the same prompt
            again.
    """
    noise = _Noise()

    def encode(images: Sequence[ImageRef], question: str) -> ContinuedPrompt:
        """Return the prompt of a question about images, with its test continuations, as tensors.

        Raises UnrepeatableError if the processor is random.
        """
        parts = [*(ImagePart(image) for image in images), TextPart(question)]
        prompt = conversation.write([Message("user", tuple(parts))])
        if not all(encoder.repeats(prompt, noise) for _ in range(REPEATS)):
            raise UnrepeatableError(
                "its processor produces different inputs when it processes the same image and question again, so "
                "replies are not reproducible; disable its random steps"
            )
        encoded = encoder.encode(prompt, noise)
        if encoder_decoder:
            return encoder.reply_with(encoded, REPLIES)
        return encoder.continue_with(prompt, encoded, REPLIES)

    # The two images have different shapes. A processor that pads them to one size may change them (Emu3).
    first = noise.shown(shows, 1, (96, 72))
    second = noise.shown(shows, 2, (64, 80))
    prompts = [
        encode(first, QUESTIONS[0]),
        encode(first, QUESTIONS[1]),
        encode(second, QUESTIONS[0]),
    ]
    if shows == "text":
        return prompts
    # These have the same shapes as the first two, so that prompts with different images can be in one batch.
    third = noise.shown(shows, 3, (96, 72))
    fourth = noise.shown(shows, 4, (64, 80))
    try:
        pairs = [
            encode([*first, *second], QUESTIONS[0]),
            encode([*third, *fourth], QUESTIONS[1]),
        ]
    except UnrepeatableError:
        raise
    except REFUSALS:
        return prompts
    return [*prompts, *pairs]


def with_repetition(prompt: ContinuedPrompt) -> ContinuedPrompt:
    """Return a prompt with its longest continuation repeated at the end.

    If its scores differ from those of the first occurrence, scoring one continuation has changed
    the cache for the next.
    """
    longest = max(prompt.tails, key=len)
    return replace(prompt, tails=(*prompt.tails, longest))


REPLY = 8
"""Tokens of a test reply."""
REFUSALS = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    NotImplementedError,
)
"""Errors that architectures raise when they cannot be run in parts."""


def refusals() -> tuple[type[Exception], ...]:
    """Return the errors that models and processors raise on inputs or settings which they cannot use."""
    from huggingface_hub.errors import StrictDataclassError

    return (*REFUSALS, StrictDataclassError)


@dataclass
class GreedyPicker:
    """Picks the most likely tokens, and records their log-probabilities by (request, position)."""

    ends: frozenset[int]
    scores: dict[tuple[int, int], float] = field(default_factory=dict)

    def __call__(self, members: Sequence[int]) -> TokenChooser:
        """Return a function that chooses the most likely token, and records its log-probability in `self.scores`."""

        def choose(logits: Any, tokens_so_far: list[list[int]]) -> tuple[list[int], list[bool]]:
            """Choose the most likely token of each request, and return the tokens and whether each one ends its reply."""
            log_probabilities = double(logits).log_softmax(-1)
            best_scores, best_tokens = log_probabilities.max(-1)
            for member, before, score in zip(
                members, tokens_so_far, best_scores.tolist(), strict=True
            ):
                self.scores.setdefault((member, len(before)), score)
            tokens: list[int] = best_tokens.tolist()
            return tokens, [token in self.ends for token in tokens]

        return choose


@dataclass(frozen=True)
class ProbeReply:
    """The token ids of a reply, and the log-probability of each token when it was chosen, in nats."""

    tokens: list[int]
    scores: list[float]


def picked_replies(picker: GreedyPicker, replies: Sequence[Sequence[int]]) -> list[ProbeReply]:
    """Return replies that were written with `picker`, with the log-probabilities that it recorded."""
    probe_replies = []
    for request, tokens in enumerate(replies):
        scores = []
        for position in range(len(tokens)):
            scores.append(picker.scores.get((request, position), float("nan")))
        probe_replies.append(ProbeReply(list(tokens), scores))
    return probe_replies


def reply_flaw(
    layout: ModelLayout,
    row: EncodedPrompt,
    reply: ProbeReply,
    tolerance: Tolerance,
) -> str:
    """Return how a test reply differs from the reference, such as "writes another token"; empty if it does not."""
    if not reply.tokens:
        return "stops early"
    if len(reply.tokens) < REPLY and reply.tokens[-1] not in layout.end_tokens:
        return "stops early"
    # A token that stands for an image cannot be read back without one.
    tokens: list[int] = []
    for token in reply.tokens:
        if token in layout.seen_tokens:
            break
        tokens.append(token)
    if not tokens:
        return ""
    reference = reference_reply(layout, row, tokens)
    if max(reference.deficits) > tolerance.token:
        return "writes another token"
    scores = reply.scores[: len(tokens)]
    largest = max(abs(a - b) for a, b in zip(reference.scores, scores, strict=True))
    return "" if largest <= tolerance.token else f"is off by {largest:.2g} nats"


def replies_flaw(
    engine: Engine, rows: Sequence[EncodedPrompt], fast_paths: FastPaths, tolerance: Tolerance
) -> str:
    """Return how the first wrong reply differs from the reference if prompts are answered together.

    Empty if all replies agree with it.
    """
    engine.prefix_cache.clear()
    picker = GreedyPicker(engine.layout.end_tokens)
    try:
        replies = picked_replies(picker, engine.generate(rows, picker, REPLY, fast_paths))
    except REFUSALS as error:
        return error_line(error)
    for row, reply in zip(rows, replies, strict=True):
        difference = reply_flaw(engine.layout, row, reply, tolerance)
        if difference:
            return difference
    return ""


def error_line(error: Exception) -> str:
    """Return an error in one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:120]}"
