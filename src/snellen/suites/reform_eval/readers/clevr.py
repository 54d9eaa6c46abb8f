"""CLEVR: the questions that are about where things are, as multiple choice (ReForm-Eval A.5).

Reads `questions/CLEVR_val_questions.json` and `images/val` of CLEVR v1.0. A type of question is a
`question_family_index`. Of the 90, the 23 of the paper are those whose program walks from thing to thing
by relations (one, two or three of them, or two at once): its sixes of one, two and three hops and the five
of "both ... and". Those that compare or add up what they find so are about more than space, and stay out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_stream import stream_list
from snellen.formats.locate import locate

CLEVR_FILLERS = ("Not sure", "Unknown")
"""What fills up the options of a type that has too few answers."""
_MORE = frozenset({"union", "less_than", "greater_than"})
"""Functions of programs that do more than walk; all that begin with `equal` belong to them."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "val"


class ProgramStep(Struct, frozen=True):
    """A step of the program that answers a question."""

    function: str


class ClevrQuestion(Struct, frozen=True):
    question_index: int
    question_family_index: int
    image_index: int
    image_filename: str
    question: str
    answer: str
    program: tuple[ProgramStep, ...]

    @property
    def spatial(self) -> bool:
        functions = {node.function for node in self.program}
        more = _MORE & functions or any(name.startswith("equal") for name in functions)
        return "relate" in functions and not more


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per question about space, in the order of the file; its distractors are the type's other answers."""
    chosen = read_params(params, Params)
    name = f"CLEVR_{chosen.split}_questions.json"
    path = locate(folder, f"questions/{name}", name)
    pictures = locate(folder, f"images/{chosen.split}")
    answers: dict[int, dict[str, None]] = {}
    for where, question in _spatial(path):
        if not question.answer:
            raise DataError(f"{where}: the answer is empty")
        answers.setdefault(question.question_family_index, {})[question.answer] = None
    tiers = {family: tuple(sorted(texts)) for family, texts in answers.items()}
    for where, question in _spatial(path):
        yield _draft(question, tiers[question.question_family_index], pictures, where)


def _spatial(path: Path) -> Iterator[tuple[str, ClevrQuestion]]:
    return ((where, question) for where, question in stream_list(path, "questions", ClevrQuestion) if question.spatial)


def _draft(question: ClevrQuestion, answers: tuple[str, ...], pictures: Path, where: str) -> Draft:
    distractors = DistractorSpec(tiers=(answers,), fillers=CLEVR_FILLERS)
    return Draft(
        id=str(question.question_index),
        rounds=(QuestionDraft(question.question, texts=(question.answer,), distractors=distractors),),
        images=(pictures / question.image_filename,),
        where=where,
        group=str(question.image_index),
        tags={"type": str(question.question_family_index), "asks": question.program[-1].function},
        stratum=str(question.question_family_index),
    )
