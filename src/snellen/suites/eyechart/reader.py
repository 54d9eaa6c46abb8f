"""The embedded suite as a source: draws its pictures while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen import registry
from snellen.drafts import Draft, QuestionDraft, read_params
from snellen.seeds import rng_for
from snellen.suites.eyechart.draw import paint, to_png
from snellen.suites.eyechart.questions import TASKS, DrawnQuestion, make_question
from snellen.suites.eyechart.scenes import LEVELS, Level


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
        raise registry.unknown("eyechart task", chosen.task, TASKS)
    for number in range(chosen.count):
        level = chosen.levels[number % len(chosen.levels)]
        scene, items = make_question(chosen.task, level, rng_for("eyechart", chosen.task, chosen.split, level, number))
        rounds = tuple(_round(item) for item in items)
        yield Draft(
            id=f"{chosen.task}-{chosen.split}-{number:05d}",
            rounds=rounds,
            images=(to_png(paint(scene)),),
            where=f"eyechart/{chosen.task} number {number}",
            dialogue=chosen.task == "dialogue",
            tags={"level": level},
            replies=tuple(item.options[item.gold] for item in items) if chosen.task == "dialogue" else (),
        )


def _round(item: DrawnQuestion) -> QuestionDraft:
    return QuestionDraft(item.question, item.options, (item.gold,) if item.options else (), item.texts)
