"""Test prompts that show which fast paths a model allows, and a comparison of its replies with the reference.

Some prompts exceed a length at which behaviour may change. The reference of a reply is one row without a cache, with a
full forward pass for every token. Greedy tokens alone would show little, because a path that is off by a nat changes
few of them, so the log-probabilities by which tokens were chosen are compared as well.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from msgspec.structs import replace as replace_struct

from snellen.common.decoding import inspect_image
from snellen.models.hf.cached_forward import write_token_by_token
from snellen.models.hf.conversation import Conversation
from snellen.models.hf.decoding import generate_rows
from snellen.models.hf.encode import ContinuedPrompt, EncodedPrompt, Encoder, extend
from snellen.models.hf.engine import Engine
from snellen.models.hf.load import Kind, double, import_transformers, kind_of
from snellen.models.hf.model_layout import ModelLayout
from snellen.models.hf.reference import reference_reply
from snellen.models.hf.sharing_plan import FastPaths, Writing
from snellen.models.hf.thresholds import Tolerance, UnrepeatableError
from snellen.records import ImagePart, ImageRef, Message, TextPart

QUESTIONS = (
    "What is in the picture?",
    "How many things do you see here, and which of them is the largest?",
)
REPLIES = ("yes", "a red square and two circles")
REPEATS = 4
"""How often each prompt is encoded twice, to see whether a processor is random."""
BRIEF = 16
"""Tokens of a text without an image, if no length with a change of behaviour is known."""
COMPUTE: dict[Kind, float] = {"cpu": 3e12, "accelerator": 3e15}
"""Floating-point operations for long probes: about ten seconds."""
PASSES = 16
"""Maximum number of forward passes over a text of full length, for all paths that are tried."""


Shows = Literal["words", "pictures", "clips"]
"""Content of a prompt: text only, images, or clips given as video."""
FRAMES, SECONDS = 4, 4.0
"""Number of frames of a test clip, and seconds between two. They are so far apart that times exceed other positions."""


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
        if shows == "clips":
            return [
                replace_struct(self.add(10 * seed + i, size), time=i * SECONDS)
                for i in range(FRAMES)
            ]
        return [self.add(seed, size)] if shows == "pictures" else []

    def read(self, image: ImageRef) -> bytes:
        return self[image.digest]


def build_probe(
    conversation: Conversation, encoder: Encoder, encoder_decoder: bool, shows: Shows = "pictures"
) -> list[ContinuedPrompt]:
    """Return prompts with two questions about one image or clip, one about another, and two about two of them each.

    Prompts with two are left out if the processor rejects them. With `shows="words"` prompts have text only.

    Raises ValueError if the processor rejects the prompts, UnrepeatableError if it encodes the same prompt differently.
    """
    noise = _Noise()

    def asked(pictures: Sequence[ImageRef], question: str) -> ContinuedPrompt:
        prompt = conversation.write(
            [Message("user", (*map(ImagePart, pictures), TextPart(question)))]
        )
        if not all(encoder.repeats(prompt, noise) for _ in range(REPEATS)):
            raise UnrepeatableError(
                "its processor produces different inputs when it processes the same image and question again, so "
                "replies are not reproducible; disable its random steps"
            )
        encoded = encoder.encode(prompt, noise)
        if encoder_decoder:
            return encoder.reply_with(encoded, REPLIES)
        return encoder.continue_with(prompt, encoded, REPLIES)

    # Of different shape: what pads them to one size may change what is seen of them (Emu3).
    first, second = noise.shown(shows, 1, (96, 72)), noise.shown(shows, 2, (64, 80))
    prompts = [
        asked(first, QUESTIONS[0]),
        asked(first, QUESTIONS[1]),
        asked(second, QUESTIONS[0]),
    ]
    if shows == "words":
        return prompts
    # Of the same shapes as the first two, so that different images share a batch.
    third, fourth = noise.shown(shows, 3, (96, 72)), noise.shown(shows, 4, (64, 80))
    try:
        pairs = [
            asked([*first, *second], QUESTIONS[0]),
            asked([*third, *fourth], QUESTIONS[1]),
        ]
    except UnrepeatableError:
        raise
    except REFUSALS:
        return prompts
    return [*prompts, *pairs]


def with_repetition(prompt: ContinuedPrompt) -> ContinuedPrompt:
    """Return the prompt with its longest continuation repeated at the end, which shows if reading the others has effects."""
    return replace(prompt, tails=(*prompt.tails, max(prompt.tails, key=len)))


def without_image(
    probe: Sequence[ContinuedPrompt], layout: ModelLayout, length: int
) -> list[ContinuedPrompt]:
    """Return two short prompts without an image, each with a short and a longer continuation.

    The longer continuation of the first prompt reaches `length` tokens.
    """
    words = _words(probe, layout)
    rng = random.Random(1)
    prompts = []
    for count, most in ((4, length), (7, BRIEF)):
        start = tuple(rng.choice(words) for _ in range(count))
        after = tuple(rng.choice(words) for _ in range(max(2, most - count)))
        prompts.append(ContinuedPrompt(EncodedPrompt(start, {}), (after[:2], after)))
    return prompts


def stretched(
    probe: Sequence[ContinuedPrompt], layout: ModelLayout, length: int
) -> list[ContinuedPrompt]:
    """Return three prompts of up to `length` tokens, made from the first of `probe` and tokens that occur in it.

    The first is short with a continuation that reaches `length`. The second has a prompt of that length, with
    continuations of unequal length. The third is half as long and about the same image.
    """
    first, few = probe[0], max(len(tail) for tail in probe[0].tails)
    words = _words(probe, layout)
    rng = random.Random(0)

    def more(count: int) -> tuple[int, ...]:
        return tuple(rng.choice(words) for _ in range(max(1, count)))

    def longer(count: int) -> ContinuedPrompt:
        longer_context = extend(
            first.context, more(count - len(first.context.ids)), layout.reply_type
        )
        return with_repetition(ContinuedPrompt(longer_context, first.tails[:3]))

    if layout.encoder_decoder:
        return [longer(length), longer(length // 2)]
    crossing = ContinuedPrompt(
        first.context, (first.tails[0], more(length - len(first.context.ids)))
    )
    return [crossing, longer(length - few), longer(length // 2)]


def _words(probe: Sequence[ContinuedPrompt], layout: ModelLayout) -> list[int]:
    """Return tokens of text that occur in the probe."""
    return sorted(
        {token for prompt in probe for tail in prompt.tails for token in tail} - layout.seen_tokens
    )


def affordable_length(model: Any) -> int:
    """Return the number of tokens of the longest probe that `model` reads in about ten seconds."""
    size = sum(values.numel() for values in model.parameters())
    return int(COMPUTE[kind_of(model)] / (2 * size * PASSES))


def text_length(prompt: ContinuedPrompt, encoder_decoder: bool) -> int:
    """Return the tokens of a prompt with its longest continuation; an encoder-decoder reads them separately."""
    after = max(len(tail) for tail in prompt.tails)
    return (
        max(len(prompt.context.ids), after) if encoder_decoder else len(prompt.context.ids) + after
    )


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

    def __call__(
        self, members: Sequence[int]
    ) -> Callable[[Any, list[list[int]]], tuple[list[int], list[bool]]]:
        def choose(logits: Any, tokens_so_far: list[list[int]]) -> tuple[list[int], list[bool]]:
            best, tokens = double(logits).log_softmax(-1).max(-1)
            for member, before, score in zip(members, tokens_so_far, best.tolist(), strict=True):
                self.scores.setdefault((member, len(before)), score)
            return tokens.tolist(), [token in self.ends for token in tokens.tolist()]

        return choose


@dataclass(frozen=True)
class ProbeReply:
    """A reply of a path, and the log-probabilities by which it chose the tokens."""

    tokens: list[int]
    scores: list[float]


def picked_replies(picker: GreedyPicker, replies: Sequence[Sequence[int]]) -> list[ProbeReply]:
    """Return replies that were written with `picker`."""
    return [
        ProbeReply(
            list(reply),
            [picker.scores.get((i, place), float("nan")) for place in range(len(reply))],
        )
        for i, reply in enumerate(replies)
    ]


def generated_replies(layout: ModelLayout, rows: Sequence[EncodedPrompt]) -> list[ProbeReply]:
    """Return replies by the model's own `generate`, in one batch."""
    steps, transformers = list[list[float]](), import_transformers()

    class Watch(transformers.LogitsProcessor):
        def __call__(self, input_ids: Any, scores: Any) -> Any:
            steps.append(double(scores).log_softmax(-1).amax(-1).tolist())
            return scores

    ends, replies = layout.end_tokens, list[ProbeReply]()
    for i, tokens in enumerate(generate_rows(layout, rows, REPLY, logits_processor=[Watch()])):
        last = next((place + 1 for place, token in enumerate(tokens) if token in ends), len(tokens))
        scores = [steps[place][i] if place < len(steps) else float("nan") for place in range(last)]
        replies.append(ProbeReply(tokens[:last], scores))
    return replies


def reply_flaw(
    layout: ModelLayout,
    row: EncodedPrompt,
    reply: ProbeReply,
    tolerance: Tolerance,
    stepwise: bool = False,
) -> str:
    """Return how a reply of at most REPLY tokens differs from the reference; empty if it does not."""
    if not reply.tokens or (
        len(reply.tokens) < REPLY and reply.tokens[-1] not in layout.end_tokens
    ):
        return "stops early"
    # A token that stands for an image cannot be read back without one.
    count = next(
        (i for i, token in enumerate(reply.tokens) if token in layout.seen_tokens),
        len(reply.tokens),
    )
    if not count:
        return ""
    reference = reference_reply(layout, row, reply.tokens[:count], stepwise=stepwise)
    if max(reference.deficits) > tolerance.token:
        return "writes another token"
    off = max(abs(a - b) for a, b in zip(reference.scores, reply.scores[:count], strict=True))
    return "" if off <= tolerance.token else f"is off by {off:.2g} nats"


def choose_writing(
    engine: Engine,
    rows: Sequence[EncodedPrompt],
    fast_paths: FastPaths,
    tolerance: Tolerance,
    cached: bool = True,
) -> tuple[Writing, dict[str, str]]:
    """Return the fastest way to write replies to `rows` that equals the reference, and why faster ones are refused.

    Without `cached`, ways that cache parts of a text are not tried. Raises ValueError if not even a forward pass for
    each token equals the reference.
    """
    alone = [[row] for row in rows]
    by_form: dict[str, list[EncodedPrompt]] = {}
    for row in rows:
        by_form.setdefault(row.form, []).append(row)
    ways: dict[Writing, list[list[EncodedPrompt]]] = {}
    if cached:
        if fast_paths.cache:
            ways["shared"] = [list(rows)]
        if fast_paths.batch:
            ways["generate in batches"] = list(by_form.values())
        ways["generate"] = alone
    refusals: dict[str, str] = {}
    for way, batches in ways.items():
        try:
            flaws = [
                batch_flaw(engine, batch, replace(fast_paths, writing=way), tolerance)
                for batch in batches
            ]
        except REFUSALS as error:
            flaws = [error_line(error)]
        if not any(flaws):
            return way, refusals
        refusals[f"replies {way}"] = next(filter(None, flaws))
    picker = GreedyPicker(engine.layout.end_tokens)
    replies = picked_replies(picker, write_token_by_token(engine.layout, rows[:1], picker, REPLY))
    if wrong := reply_flaw(engine.layout, rows[0], replies[0], tolerance, stepwise=True):
        raise ValueError(f"a reply that is written by one forward pass for each token {wrong}")
    return "token by token", refusals


def batch_flaw(
    engine: Engine, rows: Sequence[EncodedPrompt], fast_paths: FastPaths, tolerance: Tolerance
) -> str:
    """Return how a reply differs from the reference when `rows` are answered together; empty if none does."""
    engine.prefix_cache.clear()
    if fast_paths.writing == "shared":
        picker = GreedyPicker(engine.layout.end_tokens)
        replies = picked_replies(picker, engine.generate(rows, picker, REPLY, fast_paths))
    else:
        with engine.remember(rows, fast_paths):
            replies = generated_replies(engine.layout, rows)
    flaws = (
        reply_flaw(engine.layout, row, reply, tolerance)
        for row, reply in zip(rows, replies, strict=True)
    )
    return next(filter(None, flaws), "")


def error_line(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
