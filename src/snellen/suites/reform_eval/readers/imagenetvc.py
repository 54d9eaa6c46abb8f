"""ImageNetVC: visual common sense about the 1000 classes of ImageNet.

Five files `color.csv`, `shape.csv`, `material.csv`, `component.csv`, `others.csv` (category, question,
answer), `ImageNet_mapping.txt` (`n01440764 tench, Tinca tinca`: the first name is the category), and a
folder of pictures per class (`rank/n01440764/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, DelimitedTable, open_text
from snellen.formats.json_files import read_json
from snellen.formats.locate import locate
from snellen.readers.exclusions import answer_pools
from snellen.reformulation.answer_equality import opposite_yes_no

SUBSETS = ("color", "shape", "material", "component", "others")
PICTURE_SUFFIXES = frozenset({".jpeg", ".jpg", ".png"})


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    images: str = "rank"
    """Folder with a folder of pictures per class; `train` for ImageNet's own."""
    candidates: Literal["", "subset", "type"] = ""
    """All answers of a subset are the options, and each picture of the class is asked about (LVLM-eHub, B.4). `type`:
    of `others` only those of the item's own type (yes and no, numbers, words), which gives the type away."""
    candidate_file: str = ""
    """A JSON object of these lists in an order of their own, by `color` ... `others`, or `others word` ... by type."""
    wordings: tuple[str, ...] = ("{question}",)
    """How each question is put: `{question} The answer is`; with several, presentations take turns."""


class CommonsenseQuestion(Struct, frozen=True):
    where: str
    subset: str
    number: int
    category: str
    question: str
    answer: str

    @property
    def kind(self) -> tuple[str, str]:
        """What an answer must be of to be a distractor: `others` mixes yes and no, numbers and words."""
        if opposite_yes_no(self.answer):
            return self.subset, "yes/no"
        return self.subset, "number" if self.answer.isdecimal() else "word"

    def set_name(self, candidates: str) -> str:
        """The set of candidates that it is asked with."""
        return " ".join(self.kind) if candidates == "type" and self.subset == "others" else self.subset


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """A draft per question, about one picture of its class that is drawn by the question's name.

    With `candidates` a draft per question and picture of its class. Distractors: answers of the same subset and kind.
    Raises DataError for a class without pictures.
    """
    chosen = read_params(params, Params)
    first = locate(folder, "color.csv")
    classes = _classes(locate(folder, "ImageNet_mapping.txt"))
    images = locate(folder, chosen.images)
    questions = [question for subset in SUBSETS for question in _rows(first.with_name(f"{subset}.csv"), subset)]
    pool = answer_pools((question.kind, question.answer) for question in questions)
    candidates = _candidates(questions, chosen, first)
    pictures: dict[str, list[Path]] = {}
    for question in questions:
        if question.category not in classes:
            raise DataError(f"{question.where}: there is no category {question.category!r} in ImageNet_mapping.txt")
        wnid = classes[question.category]
        if wnid not in pictures:
            pictures[wnid] = _pictures(images / wnid, question.where)
        name = f"{question.subset}-{question.number}"
        if chosen.candidates:
            question_draft = _among(question, candidates[question.set_name(chosen.candidates)], chosen)
            for number, image in enumerate(pictures[wnid], 1):
                draft = _draft(question, question_draft, image, f"{name}-{number}")
                yield replace(draft, tags={**draft.tags, "item": name})
        else:
            distractors = DistractorSpec(tiers=(pool[question.kind],))
            question_draft = replace(_worded(question, chosen), texts=(question.answer,), distractors=distractors)
            yield _draft(question, question_draft, rng_for("imagenetvc", name, "picture").choice(pictures[wnid]), name)


def _candidates(questions: list[CommonsenseQuestion], chosen: Params, beside: Path) -> dict[str, tuple[str, ...]]:
    """The distinct answers of each set in alphabetical order, or as the file lists them."""
    if not chosen.candidates:
        return {}
    answer_sets: dict[str, set[str]] = {}
    for question in questions:
        answer_sets.setdefault(question.set_name(chosen.candidates), set()).add(question.answer)
    if not chosen.candidate_file:
        return {name: tuple(sorted(answers)) for name, answers in answer_sets.items()}
    listed = read_json(beside.with_name(chosen.candidate_file), dict[str, tuple[str, ...]])
    for name, answers in sorted(answer_sets.items()):
        if lacking := sorted(answers - set(listed.get(name, ()))):
            raise DataError(f"{chosen.candidate_file}: {name!r} lacks the answer {lacking[0]!r}; list every answer")
    return listed


def _among(question: CommonsenseQuestion, options: tuple[str, ...], chosen: Params) -> QuestionDraft:
    return replace(_worded(question, chosen), options=options, gold=(options.index(question.answer),))


def _worded(question: CommonsenseQuestion, chosen: Params) -> QuestionDraft:
    first, *rewordings = (wording.replace("{question}", question.question) for wording in chosen.wordings)
    return QuestionDraft(first, rewordings=tuple(rewordings))


def _draft(question: CommonsenseQuestion, question_draft: QuestionDraft, image: Path, name: str) -> Draft:
    return Draft(
        id=name,
        rounds=(question_draft,),
        images=(image,),
        where=question.where,
        group=f"{image.parent.name}/{image.name}",
        tags={"subset": question.subset},
        stratum=f"{question.subset}/{question.answer if question.kind[1] == 'yes/no' else question.kind[1]}",
    )


def _rows(path: Path, subset: str) -> Iterator[CommonsenseQuestion]:
    """The rows of a subset, numbered from 1."""
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        if missing := {"category", "question", "answer"} - set(table.header):
            raise DataError(f"{path}:1: the column {min(missing)!r} is missing")
        for number, (line, _, cells, _) in enumerate(table, 1):
            where = f"{path}:{line}"
            if empty := {"category", "question", "answer"} - cells.keys():
                raise DataError(f"{where}: the {min(empty)} is empty")
            answer = cells["answer"].strip().lower()
            yield CommonsenseQuestion(where, subset, number, cells["category"].strip(), cells["question"], answer)


def _classes(path: Path) -> dict[str, str]:
    """WordNet id by the first name of its class. Of two classes of one name the later counts, as in the original."""
    classes: dict[str, str] = {}
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            wnid, _, names = line.strip().partition(" ")
            if not wnid:
                continue
            if not names:
                raise DataError(f"{path}:{number}: a line must hold a WordNet id and names, not {line.strip()!r}")
            classes[names.partition(",")[0].strip()] = wnid
    return classes


def _pictures(folder: Path, where: str) -> list[Path]:
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in PICTURE_SUFFIXES)
    if not files:
        raise DataError(f"{where}: there is no picture in {folder}")
    return files
