"""Reader of the embedded suite `eyechart`: draws random scenes, and asks questions about them.

There is a task in each of ReForm-Eval's eight dimensions, and some more.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import registry
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.readers.question_types import plural
from snellen.suites.eyechart.scenes import (
    CANVAS,
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
    """Parameters of the source in an entry of the catalogue."""

    task: str
    """One of `TASKS`."""
    split: str = "test"
    """Name of the split, which seeds the questions."""
    count: int = 300
    """Number of questions."""
    levels: tuple[Level, ...] = LEVELS
    """Levels of difficulty, which take turns."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of one task with their images. No folder is read.

    The seed of a question contains the name of the split, so that two splits never share a question by construction.

    Args:
        params: The fields of `Params`.
        folder: Not used.

    Raises:
        UnknownNameError: If there is no such task.
    """
    chosen = read_params(params, Params)
    if chosen.task not in TASKS:
        raise registry.unknown_name("eyechart task", chosen.task, TASKS)
    for number in range(chosen.count):
        level = chosen.levels[number % len(chosen.levels)]
        rng = rng_for("eyechart", chosen.task, chosen.split, level, number)
        scene, questions = make_question(chosen.task, level, rng)
        is_dialogue = chosen.task == "dialogue"
        replies: tuple[str, ...] = ()
        if is_dialogue:
            replies = tuple(question.options[question.gold] for question in questions)
        yield Draft(
            id=f"{chosen.task}-{chosen.split}-{number:05d}",
            rounds=tuple(_round(question) for question in questions),
            images=(to_png(paint(scene)),),
            where=f"eyechart/{chosen.task} number {number}",
            dialogue=is_dialogue,
            tags={"level": level},
            replies=replies,
        )


def _round(question: DrawnQuestion) -> QuestionDraft:
    """Return a question in the form that the build takes: a round of a draft."""
    golds = (question.gold,) if question.options else ()
    return QuestionDraft(question.question, question.options, golds, question.texts)


# --- questions about scenes ------------------------------------------------------------------------------------------
# The training script asks questions of many tasks about one scene; the benchmark asks those of one task.


class DrawnQuestion(Struct, frozen=True):
    """A question about a scene, with its answer."""

    question: str
    options: tuple[str, ...] = ()
    """The options; empty for an open question."""
    gold: int = -1
    """Index of the correct option; -1 for an open question."""
    texts: tuple[str, ...] = ()
    """Reference answers of an open question."""


class QuestionTask(Struct, frozen=True):
    """A kind of question, and the scenes that it can be asked about."""

    families: tuple[Family, ...]
    ask: Callable[[Scene, Level, random.Random], tuple[DrawnQuestion, ...]]
    """Function that returns the question about a scene, or the questions of all rounds of a dialogue."""


def make_question(
    task: str, level: Level, rng: random.Random
) -> tuple[Scene, tuple[DrawnQuestion, ...]]:
    """Return a random scene that suits a task, and the task's question about it (several for a dialogue)."""
    family = rng.choice(TASKS[task].families)
    scene = compose(family, level, rng)
    return scene, ask(task, scene, level, rng)


def ask(task: str, scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Return the question of a task about a scene, or the questions of all rounds of a dialogue."""
    return TASKS[task].ask(scene, level, rng)


def phrase(shape: Shape) -> str:
    """Return a shape in words, such as "an orange star"."""
    article = "an" if shape.colour[0] in "aeiou" else "a"
    return f"{article} {shape.colour} {shape.kind}"


def _choice(
    question: str, right: str, wrong: Sequence[str], rng: random.Random
) -> tuple[DrawnQuestion, ...]:
    """Return a question with options in random order.

    Args:
        question: The question.
        right: The correct option.
        wrong: The other options.
        rng: Random generator.
    """
    options = [right, *wrong]
    rng.shuffle(options)
    return (DrawnQuestion(question, tuple(options), options.index(right)),)


def _yes_no(question: str, yes: bool) -> tuple[DrawnQuestion, ...]:
    """Return a question with the options yes and no, whose answer is yes if `yes` is true."""
    return (DrawnQuestion(question, ("yes", "no"), 0 if yes else 1),)


def _wrong_names(names: Sequence[str], right: str, count: int, rng: random.Random) -> list[str]:
    """Draw wrong options: some of `names` without the correct one."""
    return rng.sample([name for name in names if name != right], count)


def _shape(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask for the kind of the only shape."""
    kind = scene.shapes[0].kind
    wrong = _wrong_names(SHAPE_KINDS, kind, 3, rng)
    return _choice("What shape is in the picture?", kind, wrong, rng)


def _place(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask for the landscape."""
    wrong = _wrong_names(PLACES, scene.place, 3, rng)
    return _choice("What place does the picture show?", scene.place, wrong, rng)


def _colour(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask for the colour of one of the shapes, which are all of different kinds."""
    shape = rng.choice(scene.shapes)
    wrong = _wrong_names(SHAPE_COLOURS, shape.colour, 3, rng)
    return _choice(f"What colour is the {shape.kind}?", shape.colour, wrong, rng)


def _count(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask how many shapes there are of the kind of the first one; the options are four consecutive numbers."""
    kind = scene.shapes[0].kind
    count = sum(shape.kind == kind for shape in scene.shapes)
    possible_firsts = [first for first in FIRST_COUNTS[level] if first <= count < first + 4]
    first = rng.choice(possible_firsts)
    options = tuple(str(number) for number in range(first, first + 4))
    question = f"How many {plural(kind)} are in the picture?"
    return (DrawnQuestion(question, options, count - first),)


def _size(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask which of the shapes is the larger one, or the smaller one."""
    asks_for_larger = rng.random() < 0.5
    word = "larger" if asks_for_larger else "smaller"
    by_size = sorted(scene.shapes, key=lambda shape: shape.radius, reverse=asks_for_larger)
    right, *wrong = [f"the {shape.kind}" for shape in by_size]
    return _choice(f"Which shape is {word}?", right, wrong, rng)


def _word(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask for the word in the image, without options."""
    return (DrawnQuestion("What word is written in the picture?", texts=(scene.word,)),)


def _exists(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask whether a shape of some kind and colour is in the image."""
    shape, is_present = _shape_to_ask_for(scene, rng)
    return _yes_no(f"Is there {phrase(shape)} in the picture?", is_present)


def _shape_to_ask_for(scene: Scene, rng: random.Random) -> tuple[Shape, bool]:
    """Draw a shape that is in the scene, or one that is not, but differs from one in the scene only in kind or colour.

    Returns:
        The shape, and whether it is in the scene.
    """
    shape = rng.choice(scene.shapes)
    if rng.random() < 0.5:
        return shape, True
    present = {(drawn.kind, drawn.colour) for drawn in scene.shapes}
    similar = [(kind, shape.colour) for kind in SHAPE_KINDS]
    similar += [(shape.kind, colour) for colour in SHAPE_COLOURS]
    absent = [pair for pair in similar if pair not in present]
    kind, colour = rng.choice(absent)
    return Shape(kind, colour, shape.x, shape.y, shape.radius), False


def _odd(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask which kind of shape appears only once: that of the first shape. Two options are not in the image at all."""
    single = scene.shapes[0].kind
    common = scene.shapes[1].kind
    absent_kinds = [kind for kind in SHAPE_KINDS if kind not in (single, common)]
    wrong = [common, *rng.sample(absent_kinds, 2)]
    return _choice("Which shape appears only once?", single, wrong, rng)


_QUADRANTS = ("top left", "top right", "bottom left", "bottom right")


def _quadrant(shape: Shape) -> str:
    """Return the quarter of the image that contains the centre of a shape, such as "top left"."""
    vertical = "top" if shape.y < CANVAS // 2 else "bottom"
    horizontal = "left" if shape.x < CANVAS // 2 else "right"
    return f"{vertical} {horizontal}"


def _position(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask in which quarter of the image a shape is."""
    shape = rng.choice(scene.shapes)
    right = _quadrant(shape)
    wrong = _wrong_names(_QUADRANTS, right, 3, rng)
    return _choice(f"In which corner is the {shape.kind}?", right, wrong, rng)


_RELATIONS = ("left of", "right of", "above", "below")


def _relation(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask where one shape is, seen from another."""
    first, second = rng.sample(scene.shapes, 2)
    right = _relation_between(first, second)
    question = f"Where is the {first.kind} seen from the {second.kind}?"
    return _choice(question, right, _wrong_names(_RELATIONS, right, 3, rng), rng)


def _relation_between(first: Shape, second: Shape) -> str:
    """Return where the first shape is, seen from the second one: in the direction in which they are farther apart."""
    dx = first.x - second.x
    dy = first.y - second.y
    if abs(dx) > abs(dy):
        return "left of" if dx < 0 else "right of"
    return "above" if dy < 0 else "below"


def _match(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask whether a caption that names one shape matches the image."""
    shape, is_present = _shape_to_ask_for(scene, rng)
    return _yes_no(f"Does the picture match the caption: {phrase(shape)}?", is_present)


def _caption_choice(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask which of four captions fits the image.

    The options are symmetric, so that none stands out as the one that the others were made from. At the easy level, all
    differ in kind and colour. Otherwise they are the four combinations of two kinds and two colours.
    """
    shape = rng.choice(scene.shapes)
    present = {(drawn.kind, drawn.colour) for drawn in scene.shapes}
    other_kinds = [kind for kind in SHAPE_KINDS if kind != shape.kind]
    other_colours = [colour for colour in SHAPE_COLOURS if colour != shape.colour]
    if level == "easy":
        pairs = zip(rng.sample(other_kinds, 5), rng.sample(other_colours, 5), strict=True)
        wrong_pairs = [pair for pair in pairs if pair not in present][:3]
    else:
        absent_pairs = [pair for pair in product(other_kinds, other_colours) if pair not in present]
        kind, colour = rng.choice(absent_pairs)
        wrong_pairs = [(shape.kind, colour), (kind, shape.colour), (kind, colour)]
    wrong_captions = [phrase(Shape(kind, colour, 0, 0, 1)) for kind, colour in wrong_pairs]
    return _choice("Which caption fits the picture?", phrase(shape), wrong_captions, rng)


def captions(scene: Scene) -> tuple[str, ...]:
    """Return five reference captions of a scene, which name its first two shapes, or its only one."""
    if len(scene.shapes) == 1:
        shape = scene.shapes[0]
        name = phrase(shape)
        return (
            name,
            f"{name} on a grey background",
            f"the picture shows {name}",
            f"there is {name} in the picture",
            f"{name} in the {_quadrant(shape)}",
        )
    larger, smaller = sorted(scene.shapes[:2], key=lambda shape: (-shape.radius, shape.kind))
    first = phrase(larger)
    second = phrase(smaller)
    return (
        f"{first} {_relation_between(larger, smaller)} {second}",
        f"{first} and {second}",
        f"{second} and {first}",
        f"the picture shows {first} and {second}",
        f"{first} next to {second}",
    )


def _caption(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Ask for a description of the image."""
    return (DrawnQuestion("Describe the picture.", texts=captions(scene)),)


def _dialogue(scene: Scene, level: Level, rng: random.Random) -> tuple[DrawnQuestion, ...]:
    """Return four questions about the only shape; the later ones call it "it"."""
    shape = scene.shapes[0]
    quadrant = _quadrant(shape)
    claimed_shape, is_true = _shape_to_ask_for(scene, rng)
    kind_question = _shape(scene, level, rng)
    wrong_colours = _wrong_names(SHAPE_COLOURS, shape.colour, 3, rng)
    colour_question = _choice("What colour is it?", shape.colour, wrong_colours, rng)
    wrong_quadrants = _wrong_names(_QUADRANTS, quadrant, 3, rng)
    corner_question = _choice("In which corner is it?", quadrant, wrong_quadrants, rng)
    claim_question = _yes_no(f"Is it {phrase(claimed_shape)}?", is_true)
    return (*kind_question, *colour_question, *corner_question, *claim_question)


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
