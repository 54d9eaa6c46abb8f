"""WikiHow: which step of a task does the picture show? (ReForm-Eval A.6)

Reads `WikihowText_data.json` (one article per line) and the pictures of the steps, `<step_id>.png`, as Visual
Goal-Step Inference distributes them. An article is a skill, its methods are tasks, the headlines of their
steps the texts. Distractors are other steps of the task, then of the skill, then of the whole file.

The release names no validation split; the paper's 32,194 steps are drawn from all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.json_files import json_lines
from snellen.formats.locate import locate
from snellen.suites.reform_eval import wording

POOL = 1000
"""Steps of the whole file that are kept as its distractors."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class WikihowStep(Struct, frozen=True):
    step_id: str
    headline: str | None = None
    img: str | None = None
    """Where the picture was; a step without is asked about by nobody."""

    @property
    def text(self) -> str:
        return (self.headline or "").strip()


class WikihowMethod(Struct, frozen=True):
    steps: tuple[WikihowStep, ...]
    name: str | None = None


class WikihowArticle(Struct, frozen=True):
    file_id: str
    goal: str
    methods: tuple[WikihowMethod, ...]
    category_hierarchy: tuple[str, ...] = ()


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per step that has a headline and a picture, in the order of the file."""
    read_params(params, Params)
    path = locate(folder, "WikihowText_data.json")
    pictures = locate(folder, "wiki_images", "images")
    pool, notes = _survey(path)
    for where, article in json_lines(path, WikihowArticle):
        for draft in _drafts(article, pool, pictures, where):
            yield replace(draft, notes=notes) if notes else draft
            notes = ()


def _survey(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Some steps of the whole file, and what to say of those that are not asked about."""
    rng = rng_for("wikihow", "pool")
    pool: list[str] = []
    counts: Counter[str] = Counter()
    count_so_far = 0
    for _, article in json_lines(path, WikihowArticle):
        for step in (step for method in article.methods for step in method.steps):
            if not step.text or not step.img:
                counts["without a picture" if step.text else "without a headline"] += 1
            if not step.text:
                continue
            count_so_far += 1
            if len(pool) < POOL:
                pool.append(step.text)
            elif (place := rng.randrange(count_so_far)) < POOL:
                pool[place] = step.text
    if not pool:
        raise DataError(f"{path}: no step has a headline")
    return tuple(pool), tuple(
        f"{path.name}: {count} steps {reason} left out" for reason, count in sorted(counts.items())
    )


def _drafts(article: WikihowArticle, pool: tuple[str, ...], pictures: Path, where: str) -> Iterator[Draft]:
    texts = [[step.text for step in method.steps if step.text] for method in article.methods]
    for number, method in enumerate(article.methods):
        skill = tuple(text for position, steps in enumerate(texts) if position != number for text in steps)
        task = (method.name or "").strip() or article.goal
        for step in method.steps:
            if not step.text or not step.img:
                continue
            yield Draft(
                id=step.step_id,
                rounds=(
                    QuestionDraft(
                        wording.step_question(task),
                        texts=(step.text,),
                        distractors=DistractorSpec(tiers=(texts[number], skill, pool)),
                    ),
                ),
                images=(pictures / f"{step.step_id}.png",),
                where=f"{where}: step {step.step_id}",
                group=step.step_id,
                tags={"category": article.category_hierarchy[0]} if article.category_hierarchy else {},
            )
