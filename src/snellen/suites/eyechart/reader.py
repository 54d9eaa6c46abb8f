"""The embedded suite as a source: draws its images while it is read, and asks about them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import registry
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.readers.question_types import plural
from snellen.suites.eyechart.scenes import (
    FIRST_COUNTS,
    LEVELS,
    PLACES,
    SHAPE_COLOURS,
    SHAPE_KINDS,
    Family,
    Level,
    Scene,
    Shape,
    compose,
    paint,
    to_png,
)


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    task: str
    split: str = "test"
    count: int = 300
    levels: tuple[Level, ...] = LEVELS


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """`count` questions of one task, its levels taking turns.

    The generator's name holds the split, so train and test never share a seed.
    """
    chosen = read_params(params, Params)
    if chosen.task not in TASKS:
        raise registry.unknown_name("eyechart task", chosen.task, TASKS)
    for number in range(chosen.count):
        level = chosen.levels[number % len(chosen.levels)]
        scene, items = make_question(
            chosen.task, level, rng_for("eyechart", chosen.task, chosen.split, level, number)
        )
        rounds = tuple(_round(item) for item in items)
        yield Draft(
            id=f"{chosen.task}-{chosen.split}-{number:05d}",
            rounds=rounds,
            images=(to_png(paint(scene)),),
            where=f"eyechart/{chosen.task} number {number}",
            dialogue=chosen.task == "dialogue",
            tags={"level": level},
            replies=tuple(item.options[item.gold] for item in items)
            if chosen.task == "dialogue"
            else (),
        )


def _round(item: DrawnQuestion) -> QuestionDraft:
    return QuestionDraft(
        item.question, item.options, (item.gold,) if item.options else (), item.texts
    )


# --- questions about scenes: a task in each of ReForm-Eval's eight dimensions, and more -------------------------------
# `ask(task, scene, level, rng)` is pure: the training script asks many tasks of one scene, the
# benchmark asks the one that its catalogue entry names.


class DrawnQuestion(Struct, frozen=True):
    """A question with its gold: `gold` indexes `options`, or `texts` are the references."""

    question: str
    options: tuple[str, ...] = ()
    gold: int = -1
    texts: tuple[str, ...] = ()


class QuestionTask(Struct, frozen=True):
    families: tuple[Family, ...]
    ask: Callable[[Scene, Level, random.Random], tuple[DrawnQuestion, ...]]
    """One item, or one per round of a dialogue."""


def make_question(
    task: str, level: Level, rng: random.Random
) -> tuple[Scene, tuple[DrawnQuestion, ...]]:
    """Return a scene that suits the task, and the task's questions about it."""
    scene = compose(rng.choice(TASKS[task].families), level, rng)
    return scene, ask(task, scene, level, rng)


def ask(task: str, scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    return TASKS[task].ask(scene, level, rng)


def phrase(shape: Shape) -> str:
    return f"{'an' if shape.colour[0] in 'aeiou' else 'a'} {shape.colour} {shape.kind}"


def _choice(
    question: str, right: str, wrong: list[str], rng: random.Random
) -> tuple[DrawnQuestion, ...]:
    options = [right, *wrong]
    rng.shuffle(options)
    return (DrawnQuestion(question, tuple(options), options.index(right)),)


def _yes_no(question: str, yes: bool) -> tuple[DrawnQuestion, ...]:
    return (DrawnQuestion(question, ("yes", "no"), 0 if yes else 1),)


def _wrong_names(pool: tuple[str, ...], right: str, count: int, rng: random.Random) -> list[str]:
    return rng.sample([name for name in pool if name != right], count)


def _shape(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    kind = scene.shapes[0].kind
    return _choice(
        "What shape is in the picture?", kind, _wrong_names(SHAPE_KINDS, kind, 3, rng), rng
    )


def _place(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    return _choice(
        "What place does the picture show?",
        scene.place,
        _wrong_names(PLACES, scene.place, 3, rng),
        rng,
    )


def _colour(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    shape = rng.choice(scene.shapes)
    return _choice(
        f"What colour is the {shape.kind}?",
        shape.colour,
        _wrong_names(SHAPE_COLOURS, shape.colour, 3, rng),
        rng,
    )


def _count(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    kind = scene.shapes[0].kind
    number = sum(shape.kind == kind for shape in scene.shapes)
    first = rng.choice([first for first in FIRST_COUNTS[level] if first <= number < first + 4])
    near = [first, first + 1, first + 2, first + 3]
    options = tuple(str(n) for n in near)
    return (
        DrawnQuestion(f"How many {plural(kind)} are in the picture?", options, near.index(number)),
    )


def _size(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    large = rng.random() < 0.5
    shapes = sorted(scene.shapes, key=lambda shape: shape.radius, reverse=large)
    word = "larger" if large else "smaller"
    return _choice(
        f"Which shape is {word}?",
        f"the {shapes[0].kind}",
        [f"the {t.kind}" for t in shapes[1:]],
        rng,
    )


def _word(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    return (DrawnQuestion("What word is written in the picture?", texts=(scene.word,)),)


def _exists(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    shape, yes = _claim(scene, rng)
    return _yes_no(f"Is there {phrase(shape)} in the picture?", yes)


def _claim(scene: Scene, rng: random.Random) -> tuple[Shape, bool]:
    """Draw something that is in the scene, or something that differs from it in kind or colour."""
    shape = rng.choice(scene.shapes)
    if rng.random() < 0.5:
        return shape, True
    present = {(t.kind, t.colour) for t in scene.shapes}
    near = [(kind, shape.colour) for kind in SHAPE_KINDS] + [
        (shape.kind, colour) for colour in SHAPE_COLOURS
    ]
    kind, colour = rng.choice([pair for pair in near if pair not in present])
    return Shape(kind, colour, shape.x, shape.y, shape.radius), False


def _odd(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    single, common = scene.shapes[0].kind, scene.shapes[1].kind
    absent = rng.sample([kind for kind in SHAPE_KINDS if kind not in (single, common)], 2)
    return _choice("Which shape appears only once?", single, [common, *absent], rng)


_QUADRANTS = ("top left", "top right", "bottom left", "bottom right")


def _quadrant(shape: Shape) -> str:
    return f"{'top' if shape.y < 128 else 'bottom'} {'left' if shape.x < 128 else 'right'}"


def _position(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    shape = rng.choice(scene.shapes)
    right = _quadrant(shape)
    return _choice(
        f"In which corner is the {shape.kind}?", right, _wrong_names(_QUADRANTS, right, 3, rng), rng
    )


_RELATIONS = ("left of", "right of", "above", "below")


def _relation(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    first, second = rng.sample(scene.shapes, 2)
    right = _relation_between(first, second)
    question = f"Where is the {first.kind} seen from the {second.kind}?"
    return _choice(question, right, _wrong_names(_RELATIONS, right, 3, rng), rng)


def _relation_between(first: Shape, second: Shape) -> str:
    dx, dy = first.x - second.x, first.y - second.y
    if abs(dx) > abs(dy):
        return "left of" if dx < 0 else "right of"
    return "above" if dy < 0 else "below"


def _match(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    shape, yes = _claim(scene, rng)
    return _yes_no(f"Does the picture match the caption: {phrase(shape)}?", yes)


def _caption_choice(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Captions of which each is to the others as they are to it, so that none looks like the one the others come of.

    Easy ones differ in kind and colour; else two kinds and two colours make all four.
    """
    shape = rng.choice(scene.shapes)
    present = {(t.kind, t.colour) for t in scene.shapes}
    kinds = [kind for kind in SHAPE_KINDS if kind != shape.kind]
    colours = [colour for colour in SHAPE_COLOURS if colour != shape.colour]
    if level == "easy":
        pairs = zip(rng.sample(kinds, 5), rng.sample(colours, 5), strict=True)
        distractors = [pair for pair in pairs if pair not in present][:3]
    else:
        kind, colour = rng.choice([(k, c) for k in kinds for c in colours if (k, c) not in present])
        distractors = [(shape.kind, colour), (kind, shape.colour), (kind, colour)]
    wrong = [phrase(Shape(kind, colour, 0, 0, 1)) for kind, colour in distractors]
    return _choice("Which caption fits the picture?", phrase(shape), wrong, rng)


def captions(scene: Scene) -> tuple[str, ...]:
    """Five references for what is in the scene, the first two things at most."""
    if len(scene.shapes) == 1:
        name = phrase(scene.shapes[0])
        return (
            name,
            f"{name} on a grey background",
            f"the picture shows {name}",
            f"there is {name} in the picture",
            f"{name} in the {_quadrant(scene.shapes[0])}",
        )
    first, second = sorted(scene.shapes[:2], key=lambda shape: (-shape.radius, shape.kind))
    a, b = phrase(first), phrase(second)
    where = _relation_between(first, second)
    return (
        f"{a} {where} {b}",
        f"{a} and {b}",
        f"{b} and {a}",
        f"the picture shows {a} and {b}",
        f"{a} next to {b}",
    )


def _caption(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    return (DrawnQuestion("Describe the picture.", texts=captions(scene)),)


def _dialogue(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Four rounds about one thing; later ones speak of "it"."""
    shape = scene.shapes[0]
    claim, yes = _claim(scene, rng)
    return (
        *_shape(scene, level, rng),
        *_choice(
            "What colour is it?",
            shape.colour,
            _wrong_names(SHAPE_COLOURS, shape.colour, 3, rng),
            rng,
        ),
        *_choice(
            "In which corner is it?",
            _quadrant(shape),
            _wrong_names(_QUADRANTS, _quadrant(shape), 3, rng),
            rng,
        ),
        *_yes_no(f"Is it {phrase(claim)}?", yes),
    )


TASKS: dict[str, QuestionTask] = {
    "shape": QuestionTask(("single",), _shape),
    "place": QuestionTask(("place",), _place),
    "colour": QuestionTask(("crowd",), _colour),
    "count": QuestionTask(("group",), _count),
    "size": QuestionTask(("pair",), _size),
    "word": QuestionTask(("word",), _word),
    "exists": QuestionTask(("single", "pair"), _exists),
    "odd": QuestionTask(("odd",), _odd),
    "position": QuestionTask(("single",), _position),
    "relation": QuestionTask(("pair",), _relation),
    "match": QuestionTask(("single", "pair"), _match),
    "caption-choice": QuestionTask(("single", "pair"), _caption_choice),
    "caption": QuestionTask(("single", "pair"), _caption),
    "dialogue": QuestionTask(("single",), _dialogue),
}
