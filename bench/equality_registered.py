"""One registered architecture, asked through its own processor: its rung, and how far that is from the reference."""

from __future__ import annotations

import io
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from snellen.common.decoding import inspect_image
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Encoder
from snellen.models.hf.engine import Engine
from snellen.models.hf.model_layout import input_names, read_layout
from snellen.models.hf.probe import (
    REFUSALS,
    REPLY,
    GreedyPicker,
    ProbeReply,
    build_probe,
    error_line,
    picked_replies,
)
from snellen.models.hf.reference import Scores, reference_reply, reference_scores
from snellen.models.hf.selfcheck import choose_fast_paths
from snellen.models.hf.tolerance import Tolerance, largest_difference
from snellen.records import ImagePart, ImageRef, Message, TextPart
from tiny_registered import CannotBuildError, Small, make_registered

ASKED = (
    ("first", "Is there a circle on the left?"),
    ("first", "Which of these colours has the larger of the two squares: red, green or blue?"),
    ("second", "Is there a circle on the left?"),
    ("first", "Name the animal."),
)
"""Images and questions that the self-check does not ask."""
CELL_BORDER = re.compile(r"(?<!\\)\|")
OPTIONS = ("no", "a green triangle", "two blue squares and a dog")


def is_right(line: str) -> bool:
    """Whether a line says that all that was asked was answered as by the reference, and that the image was seen."""
    return all(map(str.strip, CELL_BORDER.split(line))) and "**" not in line


class _Drawn(dict[str, bytes]):
    """Synthetic images of several shapes."""

    def add(self, seed: int, size: tuple[int, int]) -> ImageRef:
        buffer = io.BytesIO()
        Image.frombytes("RGB", size, random.Random(seed).randbytes(size[0] * size[1] * 3)).save(
            buffer, "PNG"
        )
        image = inspect_image(buffer.getvalue(), "drawn")
        self[image.digest] = buffer.getvalue()
        return image

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def registered_row(name: str, place: Callable[[Any], Any]) -> str:
    """The line of the architecture `name`, whose model `place` moves. What differs from the reference, and an image
    that is not seen, is bold."""
    try:
        small = make_registered(name)
    except CannotBuildError as error:
        return f"{name} |  | not asked: {error} | | | "
    except (ImportError, *REFUSALS) as error:
        return f"{name} |  | no small model: {_plain(error)} | | | "
    needs = f"Pillow, {small.needs}" if small.needs else "Pillow"
    try:
        return _asked(name, needs, replace(small, model=place(small.model)))
    except (ImportError, MemoryError, *REFUSALS) as error:
        return f"{name} | {needs} | cannot be asked: {_plain(error)} | | | "


def _asked(name: str, needs: str, small: Small) -> str:
    model, words = small.model, getattr(small.processor, "tokenizer", small.processor)
    layout = read_layout(model, words.pad_token_id, words.eos_token_id)
    conversation = Conversation(small.processor, model.config.model_type)
    encoder = Encoder(small.processor, input_names(model), closes=layout.encoder_decoder)
    engine = Engine(layout, 16, 4096)
    verdict = choose_fast_paths(engine, build_probe(conversation, encoder, layout.encoder_decoder))
    drawn = _Drawn()
    pictures = {
        "first": drawn.add(11, (90, 60)),
        "second": drawn.add(12, (60, 80)),
        "third": drawn.add(13, (90, 60)),
    }

    def put(picture: str, question: str) -> ContinuedPrompt:
        prompt = conversation.write_scored(
            [Message("user", (ImagePart(pictures[picture]), TextPart(question)))]
        )
        encoded = encoder.encode(prompt, drawn)
        return (
            encoder.reply_with(encoded, OPTIONS)
            if layout.encoder_decoder
            else encoder.continue_with(prompt, encoded, OPTIONS)
        )

    window = [put(picture, question) for picture, question in ASKED]
    expected = reference_scores(layout, window)
    off = largest_difference(expected, engine.score(window, verdict.fast_paths))
    moved = largest_difference(expected[:1], _reference(layout, put("third", ASKED[0][1])))
    written, tolerance = _replies_off(engine, window, verdict.replies, verdict.tolerance)
    found = [
        verdict.name,
        _bold_unless(off <= tolerance, f"{off:.0e}"),
        _bold_unless(written <= tolerance, f"{written:.0e}"),
        _bold_unless(moved > 2 * tolerance, f"{moved:.2g}"),
    ]
    return " | ".join([name, needs, *found])


def _bold_unless(right: bool, number: str) -> str:
    return number if right else f"**{number}**"


def _reference(layout: Any, prompt: ContinuedPrompt) -> list[Scores]:
    return reference_scores(layout, [prompt])


def _replies_off(
    engine: Engine, window: Sequence[ContinuedPrompt], fast_paths: Any, tolerance: Tolerance
) -> tuple[float, float]:
    """How far the tokens of greedy replies are from the likeliest, or from their probabilities by the reference."""
    rows = [prompt.context for prompt in window]
    picker = GreedyPicker(engine.layout.end_tokens)
    replies = picked_replies(picker, engine.generate(rows, picker, REPLY, fast_paths))
    off = 0.0
    for row, reply in zip(rows, replies, strict=True):
        off = max(off, _off(engine.layout, row, reply))
    return off, tolerance.token


def _off(layout: Any, row: EncodedPrompt, reply: ProbeReply) -> float:
    # A token that stands for an image cannot be read back without one.
    count = next(
        (i for i, token in enumerate(reply.tokens) if token in layout.seen_tokens),
        len(reply.tokens),
    )
    if not count:
        return 0.0
    reference = reference_reply(layout, row, reply.tokens[:count])
    return max(
        [
            *reference.deficits,
            *(abs(a - b) for a, b in zip(reference.scores, reply.scores[:count], strict=True)),
        ]
    )


def _plain(error: Exception) -> str:
    """An error in one line that fits a cell."""
    return error_line(error).replace("|", "\\|").replace("<", "&lt;")
