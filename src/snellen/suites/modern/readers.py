"""Datasets whose rows are more than a mapping can say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from snellen.common.drafts import Draft
from snellen.errors import DataError
from snellen.formats.json_files import JSON_FAULTS, parse_toml
from snellen.formats.listed_cells import python_literal
from snellen.protocols.prompts.rendering import IMAGE_MARK
from snellen.readers.mapped import read, read_hub_rows
from snellen.suites.modern.multi_image import MARKED_OBJECTS
from snellen.suites.modern.short_answers import dynamath_kind

QUESTIONS = Path(__file__).with_name("charxiv_questions.toml")


def read_chartqapro(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for the last question of each row. Earlier questions of the same row, and their answers, are its
    context: "Q1: ... A1: ...".

    Args:
        params: The mapping of the entry, which yields a draft for each question of a row.
        folder: The folder with the official files.
    """
    drafts = read_hub_rows(params, folder)
    for _, drafts_of_row in groupby(drafts, key=lambda draft: draft.where):
        *earlier, last = drafts_of_row
        lines = [last.context or ""]
        for number, draft in enumerate(earlier, 1):
            [turn] = draft.rounds
            lines.append(f"Q{number}: {turn.question}\nA{number}: {turn.texts[0]}")
        context = "\n".join(lines).strip()
        yield replace(last, context=context or None)


def read_muirbench(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts whose image marks are numbered through question and options: `<image 1>`, `<image 2>`. Options
    that are images thus differ, in any order."""
    for draft in read_hub_rows(params, folder):
        [unnumbered] = draft.rounds
        texts = []
        n_marks = 0
        for text in (unnumbered.question, *unnumbered.options):
            beginning, *parts = text.split(IMAGE_MARK)
            numbered = beginning
            for part in parts:
                n_marks += 1
                numbered += f"<image {n_marks}>{part}"
            texts.append(numbered)
        question = replace(unnumbered, question=texts[0], options=tuple(texts[1:]))
        yield replace(draft, rounds=(question,))


def read_charxiv_descriptive(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts with the text of each question in place of its number.

    The dataset gives a question as four words: the number of its text, and row, column and name of the subplot.
    """
    for draft in read_hub_rows(params, folder):
        [turn] = draft.rounds
        number, row, column, name = turn.question.split(" ", 3)
        template = charxiv_questions("asked")[number]
        question = template.replace("{plot}", _plot_in_words(row, column, name))
        yield replace(draft, rounds=(replace(turn, question=question),))


def read_charxiv_reasoning(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts with the tag `instruction`, which chooses the makers' words for the form of the answer."""
    for draft in read_hub_rows(params, folder):
        [turn] = draft.rounds
        instruction = charxiv_instruction(draft.tags["kind"], turn.texts[0])
        yield replace(draft, tags={**draft.tags, "instruction": instruction})


def charxiv_instruction(kind: str, answer: str) -> str:
    """Return which of CharXiv's instructions a reasoning question has.

    Args:
        kind: The kind of answer: 1 is a text in the chart, 2 a text in general, 3 a number in the chart, and 4 a number
            in general, whose decimals the instruction names.
        answer: The correct answer.

    Examples:
        >>> charxiv_instruction("3", "0.25"), charxiv_instruction("4", "0.25"), charxiv_instruction("4", "12")
        ('3', '4.2', '4.0')
    """
    if kind != "4":
        return kind
    _, _, decimals = answer.partition(".")
    return f"4.{len(decimals)}"


def read_mvbench(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of all tasks. Each task has a file `json/TASK.json` and a folder of clips.

    Args:
        params: The mapping of the entry, and `tasks`: the folder of clips of each task.
        folder: The folder with the official files.
    """
    shared = {name: value for name, value in params.items() if name not in ("tasks", "files")}
    for task, clip_folder in params["tasks"].items():
        task_params = {
            **shared,
            "records": {**params["records"], "file": [f"json/{task}.json"]},
            "video": {**params["video"], "folders": [clip_folder]},
            "tags": {"task": task},
        }
        for draft in read(task_params, folder):
            yield replace(draft, id=f"{task}-{draft.id}")


def read_mtvqa(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a draft for each question of a row. The mapping's question is the list of questions with answers, as
    Python writes it."""
    for draft in read_hub_rows(params, folder):
        [drawn] = draft.rounds
        for index, pair in enumerate(_question_answer_pairs(drawn.question, draft.where)):
            question = pair["question"].strip()
            answer = pair["answer"].strip()
            asked = replace(drawn, question=question, texts=(answer,))
            yield replace(draft, id=f"{draft.id}-{index}", rounds=(asked,))


def _question_answer_pairs(text: str, where: str) -> list[dict[str, str]]:
    """Return the questions and answers in the text of a Python list. Raises DataError if it has another form."""
    pairs = []
    try:
        for pair in python_literal(text):
            pairs.append({"question": str(pair["question"]), "answer": str(pair["answer"])})
        return pairs
    except (TypeError, KeyError):
        raise DataError(
            f"{where}: qa_pairs is not a list of questions and answers: {text[:80]!r}"
        ) from None


def _plot_in_words(row: str, column: str, name: str) -> str:
    """Return how a question names its subplot: by its own name unless that is `-`, as the current plot if row is 0
    (there is only one), or by row and column."""
    if name != "-":
        return name
    return "the current plot" if row == "0" else f"the subplot at row {row} and column {column}"


@cache
def charxiv_questions(form: Literal["asked", "graded"]) -> dict[str, str]:
    """Return CharXiv's descriptive questions by their numbers: as models are asked them, or as a judge sees them."""
    questions: dict[str, str] = parse_toml(QUESTIONS.read_text("utf-8"), str(QUESTIONS))[form]
    return questions


def read_dynamath(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield drafts with the tag `kind`: the kind of answer, which decides the last words of the question. The files may
    have it, and otherwise it follows from the answer."""
    for draft in read_hub_rows(params, folder):
        [turn] = draft.rounds
        kind = draft.tags.get("kind") or dynamath_kind(turn.texts[0])
        yield replace(draft, tags={**draft.tags, "kind": kind})


def read_remi(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Questions with `<image1>` as the mark of an image, and labels of marked objects that are lists of numbers."""
    for draft in read_hub_rows(params, folder):
        [drawn] = draft.rounds
        question = re.sub(r"<image(\d)>", r"<image \1>", drawn.question)
        texts = drawn.texts
        if draft.tags.get("task") == MARKED_OBJECTS:
            texts = tuple(texts[0].split(","))
        yield replace(draft, rounds=(replace(drawn, question=question, texts=texts),))


class _Part(msgspec.Struct):
    """A part of a message: a text, or the place of the image."""

    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: Literal["user", "assistant"]
    content: str | list[_Part]

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content.strip()
        return "".join(part.text for part in self.content).strip()


def read_mm_mt_bench(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a question for each turn of a user; its text contains the turns before it, with their reference answers."""
    for draft in read_hub_rows(params, folder):
        [drawn] = draft.rounds
        earlier = ""
        for turn, (asked, answered) in enumerate(_turns(drawn.question, draft.where)):
            question = asked.text
            if earlier:
                question = f"The conversation so far:{earlier}\n\nUser: {question}"
            yield replace(
                draft,
                id=f"{draft.id}-{turn}",
                rounds=(replace(drawn, question=question, texts=(answered.text,)),),
                tags={**draft.tags, "turn": str(turn)},
            )
            earlier += f"\n\nUser: {asked.text}\n\nAssistant: {answered.text}"


def _turns(text: str, where: str) -> list[tuple[_Message, _Message]]:
    """Return the messages of a conversation, each of the user with the reference answer. Raises DataError."""
    try:
        messages = msgspec.json.decode(text, type=list[_Message])
    except JSON_FAULTS as error:
        raise DataError(f"{where}: conversation is not a list of messages: {error}") from None
    asked, answered = messages[::2], messages[1::2]
    roles = [message.role for message in messages]
    if not messages or roles != ["user", "assistant"] * len(answered):
        raise DataError(f"{where}: the messages of user and assistant do not alternate: {roles}")
    return list(zip(asked, answered, strict=True))


def spatialsense_file(texts: list[str]) -> list[str]:
    """Return the paths of SpatialSense's images: in the folder `flickr` for an address on the web, else in `nyu`."""
    return [f"{_photo_folder(text)}/{text.rpartition('/')[2]}" for text in texts]


def _photo_folder(address: str) -> str:
    return "flickr" if address.startswith("http") else "nyu"
