"""Where things are, which relation holds, what is usual of a thing, and how good an image is.

CLEVR: the questions about where objects are, as multiple choice (ReForm-Eval A.5).

Reads `questions/CLEVR_val_questions.json` and `images/val` of CLEVR v1.0. Each question has a type, its
`question_family_index`, of which there are 90. The paper uses 23 of them: those whose program goes from object to
object by relations such as "left of". Six types each follow one, two and three relations, and five ask for an object
that is in two relations ("both ... and"). Types that also compare or join what they find are left out.

VSR: which spatial relation holds between the two objects? (ReForm-Eval A.5)

Reads `splits/random/test.jsonl` of Visual Spatial Reasoning and its images: a folder `images` or COCO's
`train2017` and `val2017`. The file pairs images with captions, and each pair with a true caption becomes a question:
1,181 questions about 1,074 images, the number of images in Table 6 (the 1,811 samples there belong to another
benchmark). The options are the true caption and the same caption with other relations of the split. A relation is
drawn as often as it occurs there; otherwise a model could guess the correct option because its relation is common.

ImageNetVC: visual common sense about the 1000 classes of ImageNet.

Five files `color.csv`, `shape.csv`, `material.csv`, `component.csv`, `others.csv` (category, question,
answer), `ImageNet_mapping.txt` (`n01440764 tench, Tinca tinca`: the first name is the category), and a
folder of images per class (`rank/n01440764/`).

VizWiz's images by blind people with five workers' votes on their quality (ReForm-Eval A.1: VizWiz_2, VizWiz_4).

Reads `annotations/val.json` of the quality issues task, a list of `{"image": ..., "flaws": {"FRM": 2, ...}}`, and
the folder `val`. An image is used if the verdict with the most votes is some votes ahead of the next one, and is either
"no flaw" or a flaw with a name. VizWiz_2 has the images of VizWiz_4 and, in addition, those without a flaw.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from snellen.common.drafts import (
    DistractorSpec,
    Draft,
    Exclusion,
    QuestionDraft,
    answer_pools,
    read_params,
    without_exclusions,
)
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.formats.delimited import DelimitedLines, DelimitedTable, open_text
from snellen.formats.json_files import json_lines, list_items, read_json, stream_list
from snellen.formats.locate import base_of, locate_file, locate_or_none
from snellen.reformulation.answer_equality import opposite_yes_no

CLEVR_FILLERS = ("Not sure", "Unknown")
"""Further wrong options for a type of question that has too few different answers."""
_JOINING_OR_COMPARING = frozenset({"union", "less_than", "greater_than"})
"""Functions that compare or join what a program finds, besides those whose name begins with `equal`."""


class ClevrParams(Struct, frozen=True, forbid_unknown_fields=True):
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
        """Whether the question is only about where objects are, such as left of or behind another one.

        Each question of CLEVR comes with the program that answers it, a list of functions. The program must use
        `relate` (go from an object to those in a given direction), and must not compare, or join, what it finds
        (`equal_*`, `less_than`, `greater_than`, `union`).
        """
        functions = {node.function for node in self.program}
        for function in functions:
            if function.startswith("equal") or function in _JOINING_OR_COMPARING:
                return False
        return "relate" in functions


def read_clevr(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a multiple-choice question for each question about space, in the order of the file.

    Its wrong options are the answers to other questions of the same type (CLEVR's `question_family_index`). The
    file is read twice: first to collect the answers of each type, then to make the questions.
    """
    chosen = read_params(params, ClevrParams)
    name = f"CLEVR_{chosen.split}_questions.json"
    path = locate_file(folder, f"questions/{name}", name)
    pictures = locate_file(folder, f"images/{chosen.split}")
    answers_by_family: dict[int, dict[str, None]] = {}
    for where, question in _read_spatial_questions(path):
        if not question.answer:
            raise DataError(f"{where}: the answer is empty")
        answers_by_family.setdefault(question.question_family_index, {})[question.answer] = None
    tiers = {family: tuple(sorted(texts)) for family, texts in answers_by_family.items()}
    for where, question in _read_spatial_questions(path):
        yield _clevr_draft(question, tiers[question.question_family_index], pictures, where)


def _read_spatial_questions(path: Path) -> Iterator[tuple[str, ClevrQuestion]]:
    """Yield the questions about space, each with its location. Other questions of the file are skipped."""
    return (
        (where, question)
        for where, question in stream_list(path, "questions", ClevrQuestion)
        if question.spatial
    )


def _clevr_draft(
    question: ClevrQuestion, answers: tuple[str, ...], pictures: Path, where: str
) -> Draft:
    """Return the draft of a question of CLEVR; its wrong options are other answers to questions of its kind."""
    distractors = DistractorSpec(tiers=(answers,), fillers=CLEVR_FILLERS)
    return Draft(
        id=str(question.question_index),
        rounds=(
            QuestionDraft(question.question, texts=(question.answer,), distractors=distractors),
        ),
        images=(pictures / question.image_filename,),
        where=where,
        group=str(question.image_index),
        tags={"type": str(question.question_family_index), "asks": question.program[-1].function},
        stratum=str(question.question_family_index),
    )


WORDINGS = (
    "Which sentence says correctly where the objects are?",
    "Which of these statements about positions is true of the picture?",
    "How do the two objects lie to each other?",
    "Which relation between the objects does the picture show?",
)
_BESIDE = "beside, next to, near, close to, by, adjacent to, alongside, along, with, at the side of"
_TOUCHING = "touching, against, attached to, connected to"
COMPATIBLE_RELATIONS = tuple(
    frozenset(relations.split(", "))
    for relations in (
        f"{_BESIDE}, {_TOUCHING}, at the left side of, left of",
        f"{_BESIDE}, {_TOUCHING}, at the right side of, right of",
        f"{_TOUCHING}, above, over, on top of, on",
        f"{_TOUCHING}, below, under, beneath, down from",
        f"{_TOUCHING}, on, in, inside, within, into, enclosed by, in the middle of, part of, surrounding, contains",
        "contains, consists of, has as a part, surrounding, around",
        f"{_BESIDE}, behind, at the back of, beyond",
        f"{_BESIDE}, in front of, ahead of",
        "far from, far away from, away from, detached from, outside, out of, off, beyond, facing away from",
        "across from, across, opposite to, facing, toward",
        "at, by, near, close to, at the edge of, on",
    )
)
"""Groups of relations that may be true at the same time. Relations of a group are no wrong options for each other."""


class VsrParams(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "test"


class VsrPair(Struct, frozen=True):
    image: str
    image_link: str
    caption: str
    label: Literal[0, 1]
    relation: str


class SpatialCaption(Struct, frozen=True):
    """A caption split into four parts: for example `The cat`, `is` (may be empty), `on`, `the mat`."""

    subject: str
    verb: str
    relation: str
    object: str

    def saying(self, relation: str, verb: str) -> str:
        """Return the caption with another relation in place of its own: `The cat is under the mat.`

        Args:
            relation: The other relation.
            verb: The verb in front of it, `is` or `are`; empty for a relation that is a verb itself, such as
                `contains`.
        """
        return " ".join(filter(None, (self.subject, verb, relation, self.object))) + "."


def read_vsr(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a multiple-choice question for each true caption, in the order of the file.

    The true caption is the correct option. The wrong options are the same caption with other relations of the file,
    such as "The cat is under the mat." Frequent relations are drawn more often; otherwise the correct option could
    be guessed because its relation is a common one.
    """
    chosen = read_params(params, VsrParams)
    file_name = f"random/{chosen.split}.jsonl"
    path = locate_file(folder, f"data/splits/{file_name}", f"splits/{file_name}", file_name)
    image_folders = [
        locate_or_none(folder, name) for name in ("images", "trainval2017", "train2017", "val2017")
    ]
    if not any(image_folders):
        raise DataError(
            f"{folder}: the images are missing: images, trainval2017, or train2017 and val2017"
        )
    pairs = list(json_lines(path, VsrPair))
    verbs = {}
    for where, pair in pairs:
        verbs[pair.relation] = _parsed_caption(pair, where).verb

    for where, pair in pairs:
        if not pair.label:
            continue
        caption = _parsed_caption(pair, where)
        sentences = {}
        for relation, verb in verbs.items():
            sentences[relation] = caption.saying(relation, verb)
        # A relation is in the list as often as in the file, so that frequent ones are drawn more often.
        distractor_pool = [sentences[any_pair.relation] for _, any_pair in pairs]
        question = QuestionDraft(
            WORDINGS[0],
            texts=(sentences[pair.relation],),
            distractors=DistractorSpec(
                tiers=(distractor_pool,),
                also_right=_compatible_sentences(pair.relation, sentences),
            ),
            rewordings=WORDINGS[1:],
        )
        picture = base_of(pair.image, image_folders, where) / pair.image
        yield _vsr_draft(pair, question, picture, where)


def _parsed_caption(pair: VsrPair, where: str) -> SpatialCaption:
    """Return a caption split into subject, verb, relation and object.

    `The cat is on the mat.` with the relation `on` becomes `The cat`, `is`, `on`, `the mat`. Raises DataError if
    the caption does not contain its relation.
    """
    match = re.fullmatch(
        rf"(.+?) (?:(is|are) )?{re.escape(pair.relation)} (.+?)\.?", pair.caption.strip()
    )
    if match is None:
        raise DataError(
            f"{where}: the relation {pair.relation!r} is not in the caption {pair.caption!r}"
        )
    return SpatialCaption(match[1], match[2] or "", pair.relation, match[3])


def _compatible_sentences(relation: str, sentences: dict[str, str]) -> tuple[str, ...]:
    """Return the captions with another relation that may be true as well, and so cannot be wrong options.

    For example, if a cat is "on" a mat, "The cat is on top of the mat." may also be true.

    Args:
        relation: The relation in the true caption.
        sentences: The caption with each relation of the file in place of its own, by that relation.

    Returns:
        The sentences; an empty tuple if the relation is in no group of `COMPATIBLE_RELATIONS`.
    """
    compatible: set[str] = set()
    for group in COMPATIBLE_RELATIONS:
        if relation in group:
            compatible |= group
    compatible.discard(relation)
    return tuple(sentence for other, sentence in sentences.items() if other in compatible)


def _vsr_draft(pair: VsrPair, question: QuestionDraft, picture: Path, where: str) -> Draft:
    """Return the draft of a question about a caption. A sample of the questions is balanced by the relation."""
    return Draft(
        id=f"{pair.image}:{pair.caption}",
        rounds=(question,),
        images=(picture,),
        where=where,
        group=pair.image,
        tags={"relation": pair.relation},
        stratum=pair.relation,
    )


SUBSETS = ("color", "shape", "material", "component", "others")
IMAGE_SUFFIXES = frozenset({".jpeg", ".jpg", ".png"})


class ImagenetvcParams(Struct, frozen=True, forbid_unknown_fields=True):
    images: str = "rank"
    """Folder with a folder of images per class; `train` for ImageNet's own."""
    candidates: Literal["", "subset", "type"] = ""
    """All answers of a subset are the options, and each image of the class is asked about (LVLM-eHub, B.4). `type`:
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
        """The subset and the kind of the answer, such as `("others", "yes/no")`.

        Wrong options come from questions with the same value. The subset alone is not enough, because `others`
        mixes yes and no, numbers and words, so that the kind of an option would reveal that it is wrong.
        """
        if opposite_yes_no(self.answer):
            return self.subset, "yes/no"
        return self.subset, "number" if self.answer.isdecimal() else "word"

    def set_name(self, candidates: str) -> str:
        """Return the name of the list of options that the question is asked with.

        It is the subset, such as `color`. If `candidates` is `type`, questions of the subset `others` have a list
        for each kind of answer, such as `others word`.
        """
        if candidates == "type" and self.subset == "others":
            return " ".join(self.kind)
        return self.subset


def read_imagenetvc(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of ImageNetVC with images. A question is about a class, for example the colour of a tench.

    By default a question is asked once, about an image of the class that is drawn at random, and its wrong options
    are answers to other questions of the same subset and kind (yes or no, numbers, words). With the parameter
    `candidates`, it is asked about every image of the class, and its options are a fixed list.

    Raises DataError for a class that is not in the file of classes, or without images.
    """
    chosen = read_params(params, ImagenetvcParams)
    first_file = locate_file(folder, "color.csv")
    class_ids = _read_class_ids(locate_file(folder, "ImageNet_mapping.txt"))
    image_folder = locate_file(folder, chosen.images)
    questions: list[CommonsenseQuestion] = []
    for subset in SUBSETS:
        questions.extend(_read_questions(first_file.with_name(f"{subset}.csv"), subset))
    answers_by_kind = answer_pools((question.kind, question.answer) for question in questions)
    candidates = _listed_candidates(questions, chosen, first_file)

    images_by_class: dict[str, list[Path]] = {}
    for question in questions:
        if question.category not in class_ids:
            raise DataError(
                f"{question.where}: there is no category {question.category!r} in ImageNet_mapping.txt"
            )
        class_id = class_ids[question.category]  # in WordNet, such as n01440764
        if class_id not in images_by_class:
            images_by_class[class_id] = _images_in(image_folder / class_id, question.where)
        images = images_by_class[class_id]
        name = f"{question.subset}-{question.number}"
        if chosen.candidates:
            options = candidates[question.set_name(chosen.candidates)]
            question_draft = _with_listed_options(question, options, chosen)
            for number, image in enumerate(images, 1):
                draft = _imagenetvc_draft(question, question_draft, image, f"{name}-{number}")
                yield replace(draft, tags={**draft.tags, "item": name})
        else:
            question_draft = replace(
                _with_wordings(question, chosen),
                texts=(question.answer,),
                distractors=DistractorSpec(tiers=(answers_by_kind[question.kind],)),
            )
            image = rng_for("imagenetvc", name, "picture").choice(images)
            yield _imagenetvc_draft(question, question_draft, image, name)


def _listed_candidates(
    questions: list[CommonsenseQuestion], chosen: ImagenetvcParams, beside: Path
) -> dict[str, tuple[str, ...]]:
    """Return the list of options that all questions of a set share, such as all colours for the set `color`.

    Args:
        questions: All questions of the benchmark.
        chosen: The parameters. `candidates` says which questions form a set (see `CommonsenseQuestion.set_name`),
            and `candidate_file` may name a file with the lists.
        beside: A file of the benchmark. The candidate file is searched in the same folder.

    Returns:
        The options by the name of the set: those of the file, or without a file the different answers to the
        questions of the set in alphabetical order. Empty if the parameters ask for no fixed options.

    Raises:
        DataError: The list in the file lacks the answer to a question.
    """
    if not chosen.candidates:
        return {}
    answer_sets: dict[str, set[str]] = defaultdict(set)
    for question in questions:
        answer_sets[question.set_name(chosen.candidates)].add(question.answer)
    if not chosen.candidate_file:
        return {name: tuple(sorted(answers)) for name, answers in answer_sets.items()}

    listed = read_json(beside.with_name(chosen.candidate_file), dict[str, tuple[str, ...]])
    for name, answers in sorted(answer_sets.items()):
        unlisted = answers - set(listed.get(name, ()))
        if unlisted:
            raise DataError(
                f"{chosen.candidate_file}: {name!r} lacks the answer {min(unlisted)!r}; list every answer"
            )
    return listed


def _with_listed_options(
    question: CommonsenseQuestion, options: tuple[str, ...], chosen: ImagenetvcParams
) -> QuestionDraft:
    """Return the question as multiple choice with a fixed list of options, one of which is its answer."""
    return replace(
        _with_wordings(question, chosen), options=options, gold=(options.index(question.answer),)
    )


def _with_wordings(question: CommonsenseQuestion, chosen: ImagenetvcParams) -> QuestionDraft:
    """Return the question in each of the wordings that the parameters declare.

    The wording `{question} The answer is` turns "What colour is a lemon?" into "What colour is a lemon? The answer
    is". The first wording is the text of the question; the others are alternatives that protocols with several
    prompts can show.
    """
    first, *rewordings = (
        wording.replace("{question}", question.question) for wording in chosen.wordings
    )
    return QuestionDraft(first, rewordings=tuple(rewordings))


def _imagenetvc_draft(
    question: CommonsenseQuestion, question_draft: QuestionDraft, image: Path, name: str
) -> Draft:
    """Return the draft of a question about one image.

    Its stratum, within which samples are drawn evenly, is the subset with the answer, such as `others/yes`, if that is
    yes or no; otherwise the subset with the kind of the answer, such as `color/word`.
    """
    _, answer_kind = question.kind
    stratum_end = question.answer if answer_kind == "yes/no" else answer_kind
    return Draft(
        id=name,
        rounds=(question_draft,),
        images=(image,),
        where=question.where,
        group=f"{image.parent.name}/{image.name}",
        tags={"subset": question.subset},
        stratum=f"{question.subset}/{stratum_end}",
    )


def _read_questions(path: Path, subset: str) -> Iterator[CommonsenseQuestion]:
    """Yield the questions of one of the five files, such as color.csv, numbered from 1.

    Raises DataError for a missing column or an empty cell.
    """
    with open_text(path) as file:
        table = DelimitedTable(file, path)
        columns = {"category", "question", "answer"}
        missing_columns = columns - set(table.header)
        if missing_columns:
            raise DataError(f"{path}:1: the column {min(missing_columns)!r} is missing")
        for number, (line, _, cells, _) in enumerate(table, 1):
            where = f"{path}:{line}"
            empty_columns = columns - cells.keys()
            if empty_columns:
                raise DataError(f"{where}: the {min(empty_columns)} is empty")
            answer = cells["answer"].strip().lower()
            yield CommonsenseQuestion(
                where=where,
                subset=subset,
                number=number,
                category=cells["category"].strip(),
                question=cells["question"],
                answer=answer,
            )


def _read_class_ids(path: Path) -> dict[str, str]:
    """Return the WordNet id of each class by the first of its names.

    For example, the line `n01440764 tench, Tinca tinca` gives `{"tench": "n01440764"}`. If two classes have the
    same first name, the later line replaces the earlier one, as in the original code of ImageNetVC. Raises
    DataError for a line without names.
    """
    classes: dict[str, str] = {}
    with open_text(path) as file:
        for number, line in enumerate(DelimitedLines(file, path), 1):
            wnid, _, names = line.strip().partition(" ")
            if not wnid:
                continue
            if not names:
                raise DataError(
                    f"{path}:{number}: a line must hold a WordNet id and names, not {line.strip()!r}"
                )
            classes[names.partition(",")[0].strip()] = wnid
    return classes


def _images_in(folder: Path, where: str) -> list[Path]:
    """Return the images in a folder, sorted by name. Raises DataError if there are none."""
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
    if not files:
        raise DataError(f"{where}: there is no image in {folder}")
    return files


WORKERS = 5
Votes = Annotated[int, msgspec.Meta(ge=0, le=WORKERS)]
FLAW_NAMES = {
    "FRM": "bad framing",
    "BLR": "blur",
    "DRK": "too dark",
    "BRT": "too bright",
    "OBS": "an obstructed view",
    "ROT": "a rotated view",
}
"""The name of each flaw by its code. The codes NON (no flaw) and OTH (another flaw) are left out: they name no flaw."""

UNCLEAR = "no verdict that leads the next one by {} or more votes"


class VizwizParams(Struct, frozen=True, forbid_unknown_fields=True):
    task: Literal["any", "which"]
    """Whether there is an issue (VizWiz_2), or which it is (VizWiz_4)."""
    lead: int = 2
    """The least number of votes by which the most frequent verdict must be ahead of the next one."""
    most: int = 1
    """The least number of votes that the most frequent verdict must have. It is a minimum, despite its name."""


class Flaws(Struct, frozen=True):
    """How many workers saw each flaw; a worker may see several."""

    FRM: Votes
    BLR: Votes
    DRK: Votes
    BRT: Votes
    OBS: Votes
    ROT: Votes
    OTH: Votes
    NON: Votes


class QualityRecord(Struct, frozen=True):
    image: str
    flaws: Flaws


def read_vizwiz_quality(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield a question about each image on whose quality the workers agree. Other images are left out and counted."""
    chosen = read_params(params, VizwizParams)
    path = locate_file(folder, "annotations/val.json", "quality_annotations/val.json", "val.json")
    return without_exclusions(
        _vizwiz_drafts(path, locate_file(folder, "val", "Images/val"), chosen), path
    )


def _vizwiz_drafts(path: Path, pictures: Path, chosen: VizwizParams) -> Iterator[Draft | Exclusion]:
    """Yield a question about the quality of each image, or the reason why the image is left out.

    Five crowd workers looked at each image and marked the flaws that they saw, for example 4 votes for blur and 1
    for "too dark". The flaw with the most votes is the verdict ("no flaw" counts as one, too). An image is left out
    in these cases:

    - The verdict has fewer than `chosen.most` votes. Despite its name, this parameter is a minimum.
    - The verdict is fewer than `chosen.lead` votes ahead of the next one, or equal to it.
    - The verdict is "another flaw", which has no name that an option could show.
    - The task is to say which flaw it is, and the verdict is "no flaw".

    Args:
        path: The file with the votes.
        pictures: The folder of the images.
        chosen: The task (`any`: is there a flaw? `which`: which flaw is it?) and the two minimums.
    """
    for where, item in list_items(path, "items", read_json(path, list[msgspec.Raw]), QualityRecord):
        votes = Counter(asdict(item.flaws))
        # Votes are counted for each flaw, also 0, so there are always two flaws.
        (top, top_votes), (_, next_votes), *_ = votes.most_common()
        lead = top_votes - next_votes
        if top_votes < chosen.most or lead < max(chosen.lead, 1):
            yield Exclusion(UNCLEAR.format(chosen.lead))
        elif top not in {*FLAW_NAMES, "NON"}:
            yield Exclusion("a flaw that has no name")
        elif chosen.task == "any":
            yield _vizwiz_draft(item, where, pictures, _any_flaw_question(top == "NON"))
        elif top == "NON":
            yield Exclusion("no flaw")
        else:
            yield _vizwiz_draft(item, where, pictures, _flaw_question(votes, top))


def _any_flaw_question(flawless: bool) -> QuestionDraft:
    """Return the yes-no question whether anything is wrong with the quality of an image.

    Args:
        flawless: Whether the workers saw no flaw, so that the correct answer is "no".
    """
    question = "Is anything wrong with the quality of the picture, such as blur, bad framing or too little light?"
    return QuestionDraft(
        question, texts=("no" if flawless else "yes",), distractors=DistractorSpec()
    )


def _flaw_question(votes: Counter[str], top: str) -> QuestionDraft:
    """Return the question which flaw of an image stands out most.

    All other flaws are wrong options. They are offered in the order of their votes, so that an option that some
    workers saw comes before one that nobody saw.

    Args:
        votes: The number of votes for each flaw, by its code such as `BLR`.
        top: The code of the flaw with the most votes, which is the correct answer.
    """
    flaws_by_votes: dict[int, list[str]] = {}
    for flaw, count in votes.most_common():
        if flaw in FLAW_NAMES and flaw != top:
            flaws_by_votes.setdefault(count, []).append(FLAW_NAMES[flaw])
    tiers = tuple(tuple(flaws) for flaws in flaws_by_votes.values())
    distractors = DistractorSpec(tiers=tiers)
    return QuestionDraft(
        "Which quality issue of the picture stands out most?",
        texts=(FLAW_NAMES[top],),
        distractors=distractors,
    )


def _vizwiz_draft(
    item: QualityRecord, where: str, pictures: Path, question: QuestionDraft
) -> Draft:
    """Return the draft of a question about the quality of an image. A sample of the questions is balanced by the answer."""
    return Draft(
        id=item.image,
        rounds=(question,),
        images=(pictures / item.image,),
        where=where,
        group=item.image,
        stratum=question.texts[0],
    )
