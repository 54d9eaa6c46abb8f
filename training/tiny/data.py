"""What the tiny models are shown and asked: train scenes only, prompts by Snellen's own renderer."""

from __future__ import annotations

import multiprocessing
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from build import GRID, PATCHES, SIDE
from snellen.common.seeds import rng_for
from snellen.protocols.prompts.rendering import (
    EarlierReply,
    PromptRenderer,
    labels_for,
    write_reply,
)
from snellen.protocols.prompts.templates import default_templates
from snellen.records import ImageRef, Message, Method, Sample, Turn, Variant
from snellen.suites.eyechart.reader import TASKS, DrawnQuestion, ask, captions, make_question
from snellen.suites.eyechart.scenes import (
    CANVAS,
    PLACES,
    SHAPE_COLOURS,
    SHAPE_KINDS,
    Level,
    Scene,
    Shape,
    paint,
)

SHARES: tuple[tuple[Level, int], ...] = (("easy", 68), ("medium", 26), ("hard", 6))
"""Scenes of each level among a hundred."""

WEIGHTS = {
    "shape": 1, "place": 3, "colour": 4, "count": 4, "size": 3, "word": 3, "exists": 2, "odd": 4,
    "position": 2, "relation": 4, "match": 2, "caption-choice": 3,
}  # fmt: skip
"""How many scenes a task contributes; those of other tasks can be asked the same question."""

ALSO = {
    "shape": ("single",),
    "colour": ("single", "pair", "crowd"),
    "count": ("single", "group", "odd"),
    "exists": ("single", "pair", "crowd"),
    "match": ("single", "pair", "crowd"),
    "position": ("single", "crowd"),
    "caption-choice": ("single", "pair", "crowd"),
}
"""Families whose scenes answer a task's question without doubt, beyond those that it is tested on."""

CHOICES = tuple(name for name in TASKS if name not in ("word", "caption", "dialogue"))
_IMAGE = ImageRef("0" * 64, "image/png", CANVAS, CANVAS)
_OPENING = "<|user|><image>"


class Source(msgspec.Struct, frozen=True):
    """A scene with what may be asked of it."""

    task: str
    level: Level
    scene: Scene
    tasks: tuple[str, ...]


@dataclass(frozen=True)
class Pool:
    """Train pictures: `pixels` (N, 64, 64, 3) bytes, `labels` and `nearest` (N, 64, len(HEADS)), one source each."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int8]
    nearest: NDArray[np.int8]
    sources: list[Source]


HEADS = {
    "kind": 7, "colour": 9, "quadrant": 4, "relation": 4, "larger": 2, "alike": 10, "odd": 2,
    "place": 7, "letter": 27, "letter place": 8,
}  # fmt: skip
"""What the vision tower learns to tell of each patch, with the number of classes; -1 is "not asked"."""


def labels_of(task: str, scene: Scene, nearest: bool) -> NDArray[np.int8]:
    """(64, len(HEADS)): what each patch of the picture shows, or what is `nearest` to it.

    With `nearest` all patches speak: a decoder that looks everywhere at once hears an answer already.
    """
    table = np.full((PATCHES, len(HEADS)), -1, dtype=np.int8)
    column = {name: i for i, name in enumerate(HEADS)}
    table[:, [column["kind"], column["colour"], column["letter"]]] = 0
    table[:, column["place"]] = PLACES.index(scene.place) + 1 if scene.place else 0
    cell = CANVAS // GRID
    middles = np.arange(GRID) * cell + cell // 2
    across, down = (grid.ravel() for grid in np.meshgrid(middles, middles))
    pair = len(scene.things) == 2 and not scene.place
    far = np.array([np.hypot(across - thing.x, down - thing.y) for thing in scene.things])
    for number, thing in enumerate(scene.things):
        own = (far[number] < thing.radius * 0.9) | (far[number] == far[number].min())
        if nearest:
            own = far.argmin(0) == number
        table[own, column["kind"]] = SHAPE_KINDS.index(thing.kind) + 1
        table[own, column["colour"]] = SHAPE_COLOURS.index(thing.colour) + 1
        table[own, column["quadrant"]] = 2 * (thing.y >= CANVAS // 2) + (thing.x >= CANVAS // 2)
        table[own, column["alike"]] = min(sum(t.kind == thing.kind for t in scene.things), 9)
        if task == "odd":
            table[own, column["odd"]] = number == 0
        if pair:
            other: Shape = scene.things[1 - number]
            dx, dy = thing.x - other.x, thing.y - other.y
            table[own, column["relation"]] = (dx > 0) if abs(dx) > abs(dy) else 2 + (dy > 0)
            table[own, column["larger"]] = thing.radius > other.radius
    size = scene.word_scale
    places = [
        (scene.word_at[0] + (number * 6 + 2.5) * size, scene.word_at[1] + 3.5 * size)
        for number in range(len(scene.word))
    ]
    far = np.array([np.hypot(across - x, down - y) for x, y in places])
    for number, (letter, (x, y)) in enumerate(zip(scene.word, places, strict=True)):
        own = (abs(across - x) < 3 * size) & (abs(down - y) < 4.5 * size)
        own[int(min(y // cell, 7) * GRID + min(x // cell, 7))] = True
        if nearest:
            own = far.argmin(0) == number
        table[own, column["letter"]] = ord(letter) - 64
        table[own, column["letter place"]] = number
    return table


def shrink(picture: Image.Image) -> NDArray[np.uint8]:
    """The picture as the processor resizes it, before it is normalised."""
    return np.asarray(picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR))


def _one(
    job: tuple[str, Level, int],
) -> tuple[NDArray[np.uint8], NDArray[np.int8], NDArray[np.int8], Source]:
    task, level, index = job
    rng = rng_for("eyechart", task, "train", level, index)
    families = TASKS[task].families
    scene, _ = make_question(task, level, rng)
    family = families[0] if len(families) == 1 else "single" if len(scene.things) == 1 else "pair"
    tasks = tuple(name for name in TASKS if family in ALSO.get(name, TASKS[name].families))
    own, nearest = labels_of(task, scene, nearest=False), labels_of(task, scene, nearest=True)
    return shrink(paint(scene)), own, nearest, Source(task, level, scene, tasks)


def pool(size: int, scratch: Path, workers: int = 2) -> Pool:
    """About `size` train pictures, painted once and kept in `scratch`."""
    arrays = [scratch / f"pool-{size}.{name}.npy" for name in ("pixels", "labels", "nearest")]
    sources = scratch / f"pool-{size}.json"
    if not sources.exists():
        scratch.mkdir(parents=True, exist_ok=True)
        share = size / sum(WEIGHTS.values()) / 100
        jobs = [
            (task, level, index)
            for task, weight in WEIGHTS.items()
            for level, part in SHARES
            for index in range(round(share * weight * part))
        ]
        with multiprocessing.Pool(workers) as hands:
            made = hands.map(_one, jobs, chunksize=200)
        for path, column in zip(arrays, zip(*made, strict=True), strict=False):
            np.save(path, np.stack(column))
        sources.write_bytes(msgspec.json.encode([one[-1] for one in made]))
    return Pool(
        *(np.load(path) for path in arrays),
        msgspec.json.decode(sources.read_bytes(), type=list[Source]),
    )


@dataclass(frozen=True)
class Piece:
    """A stretch of a conversation after the image; `learned` where the model is to say it itself."""

    text: str
    learned: bool


@dataclass(frozen=True)
class Talk:
    """A conversation about one picture, without its opening `<|user|><image>`."""

    name: str
    pieces: tuple[Piece, ...]


@cache
def prompt(family: str) -> PromptRenderer:
    return PromptRenderer(default_templates(), family, prefix=False)


LABEL_FIRST = "The answer is ({label}) {option}."
OPTION_FIRST = "The answer is {option} ({label})."
LABEL_ALONE = "The answer is ({label})."


@dataclass(frozen=True)
class Mix:
    """Shares: of questions that show their options, and of these and the others that tell the answer first."""

    shown: float = 0.6
    told: float = 0.0
    told_unshown: float = 0.0
    reply: str = OPTION_FIRST
    """How a question about options is answered. With the option first a model this small finds the label of a
    word that it has said; with the label first it would have to find that of one that it only sees."""


def talk(source: Source, rng: random.Random, mix: Mix) -> Talk:
    """One conversation that an evaluation could have about the scene."""
    task = rng.choice(source.tasks)
    items = ask(task, source.scene, source.level, rng)
    if task in CHOICES or task == "dialogue":
        shown = rng.random() < mix.shown
        told = rng.random() < (mix.told if shown else mix.told_unshown)
        method: Method = "generation" if shown else "likelihood"
        if task == "dialogue":
            return _dialogue(items, rng, method, mix.reply)
        return _choice(task, items[0], rng, method, mix.reply, told)
    item = items[0]
    family = "text" if task == "word" else "caption"
    variant = Variant(template=rng.choice(prompt(family).template_ids("generation")))
    messages = prompt(family).generate(_sample(item), variant).messages
    references = captions(source.scene) if task == "caption" else item.texts
    # One wording of a caption: a small model that wavers between five writes none of them well.
    return Talk(task, (*_history(messages), Piece(f"{references[0]}<|end|>", True)))


def _sample(item: DrawnQuestion) -> Sample:
    return Sample("train", "eyechart", item.question, (_IMAGE,), item.options)


def _variant(options: int, rng: random.Random, template: str, **more: int) -> Variant:
    style = rng.choices(("upper", "lower", "number"), (5, 3, 3))[0]
    order = tuple(rng.sample(range(options), options))
    in_context = rng.random() < 0.4
    return Variant(
        template=template,
        order=order,
        labels=labels_for(style, options, rng),
        in_context=in_context,
        **more,
    )


def _choice(
    task: str, item: DrawnQuestion, rng: random.Random, method: Method, form: str, told: bool
) -> Talk:
    asked = prompt("choice")
    variant = _variant(len(item.options), rng, rng.choice(asked.template_ids(method)))
    right = item.options[item.gold]
    if method == "generation":
        messages = asked.generate(_sample(item), variant).messages
        reply = form.format(label=variant.labels[variant.order.index(item.gold)], option=right)
    else:
        messages, reply = asked.loglikelihood(_sample(item), variant).messages, right
    opening = (Piece(f"{right}\n", False),) if told else ()
    return Talk(
        f"{task}.{method[0]}", (*opening, *_history(messages), Piece(f"{reply}<|end|>", True))
    )


def _dialogue(
    items: tuple[DrawnQuestion, ...], rng: random.Random, method: Method, form: str
) -> Talk:
    asked = prompt("dialogue")
    last = rng.randrange(len(items))
    sample = Sample(
        "train",
        "eyechart",
        images=(_IMAGE,),
        turns=tuple(Turn(item.question, item.options) for item in items),
    )
    variant = _variant(
        len(items[last].options), rng, rng.choice(asked.template_ids(method)), turn=last
    )
    style = (
        "number"
        if variant.labels[0] == "1"
        else "upper"
        if variant.labels[0].isupper()
        else "lower"
    )
    layout = asked.templates.layout
    replies = []
    for number, item in enumerate(items[: last + 1]):
        order = variant.order if number == last else tuple(range(len(item.options)))
        label = labels_for(style, len(order), rng)[order.index(item.gold)]
        right = item.options[item.gold]
        replies.append(write_reply(layout, label, right) if method == "generation" else right)
    render = asked.generate if method == "generation" else asked.loglikelihood
    messages = render(
        sample, variant, tuple(EarlierReply(reply) for reply in replies[:-1])
    ).messages
    own = len(replies) - 1
    if method == "generation":
        # Earlier rounds stand in the history as Snellen writes them, which is not what this model says.
        own = 0
        label = variant.labels[variant.order.index(items[last].gold)]
        replies[-1] = form.format(label=label, option=items[last].options[items[last].gold])
    return Talk(
        f"dialogue.{method[0]}", (*_history(messages, own), Piece(f"{replies[-1]}<|end|>", True))
    )


def _history(messages: tuple[Message, ...], learned: int = 0) -> tuple[Piece, ...]:
    """The conversation up to the reply; of the assistant's messages the last `learned` are to be learned."""
    said = sum(message.role == "assistant" for message in messages)
    pieces = []
    for message in messages:
        if message.role == "assistant":
            pieces.append(Piece(f"{message.text}<|end|>", said <= learned))
            said -= 1
        else:
            opening = "" if not pieces else "<|user|>"
            pieces.append(Piece(f"{opening}{message.text}<|end|><|assistant|>", False))
    return tuple(pieces)


def corpus(count: int, sources: list[Source], rng: random.Random) -> list[str]:
    """Texts for the tokenizer: prompts and replies without their special tokens."""
    texts = []
    for _ in range(count):
        for piece in talk(rng.choice(sources), rng, Mix(reply=LABEL_FIRST)).pieces:
            texts += (
                piece.text.replace("<|assistant|>", "<|end|>")
                .replace("<|user|>", "<|end|>")
                .split("<|end|>")
            )
    return texts
