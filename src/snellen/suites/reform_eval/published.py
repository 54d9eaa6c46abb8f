"""The published, already re-formulated data of ReForm-Eval: JSON files with images in base64, or by name.

`published.toml` says which file holds which of the 61 benchmarks, in which of the forms below. Instructions that
a file brings (`instructs`) become those of its benchmark. Both variants are read: with images inside, and the raw
one with file names or original ids, whose images lie in a folder of the user.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.callers import setting
from snellen.catalogue import BenchmarkSpec, SourceSpec, entries
from snellen.catalogue.suites import Importer
from snellen.common.drafts import (
    DistractorSpec,
    Draft,
    Exclusion,
    ImageSpec,
    Outline,
    QuestionDraft,
    read_params,
    without_exclusions,
)
from snellen.common.drawing import PALETTE, from_corners
from snellen.errors import DataError
from snellen.formats.json_files import list_items, packaged_toml, read_json
from snellen.formats.locate import locate_file, locate_or_none
from snellen.records import Box
from snellen.suites.reform_eval import wording

NAME_LENGTH = 200
"""A longer text is an image itself, not the name of one."""


class Drawing(Struct, frozen=True, forbid_unknown_fields=True):
    width: int
    corners: bool = False
    """Boxes are given by two corners, not by corner and size."""


class PublishedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a benchmark lies in the published data, and in which form."""

    form: str
    files: tuple[str, ...]
    type: str = ""
    """TDIUC's own name of the task."""
    draw: Drawing | None = None
    crop: bool = False


@cache
def published_entries() -> dict[str, PublishedEntry]:
    """The 61 benchmarks of the data, by their short names in the catalogue."""
    return packaged_toml("snellen.suites.reform_eval", "published.toml", dict[str, PublishedEntry])


class PublishedImages:
    """Images of one file: inside its records, or in a folder."""

    def __init__(self, folder: Path, entry: PublishedEntry) -> None:
        self.entry = entry
        self._folder = folder

    def picture(
        self, text: str | int, where: str, boxes: tuple[Box, ...] = ()
    ) -> bytes | Path | ImageSpec:
        """The image as its question shows it: cut out, or with its boxes drawn."""
        content = self._content(str(text), where)
        entry = self.entry
        if entry.crop and boxes:
            return ImageSpec(content, crop=boxes[0])
        if entry.draw is None or not boxes:
            return content
        if entry.draw.corners:
            boxes = tuple(from_corners(*box) for box in boxes)
        width = entry.draw.width
        outlines = tuple(
            Outline(box, PALETTE[place % len(PALETTE)], width) for place, box in enumerate(boxes)
        )
        return ImageSpec(content, outlines=outlines)

    def _content(self, text: str, where: str) -> bytes | Path:
        if len(text) > NAME_LENGTH:
            try:
                return base64.b64decode(text.rpartition("base64,")[2], validate=True)
            except (binascii.Error, ValueError):
                raise DataError(f"{where}: the image {text[:30]!r}... is not base64") from None
        names = [text, f"{text}.jpg", f"{text}.png"]
        if text.isdigit():
            names += [f"{int(text):012d}.jpg", f"COCO_val2014_{int(text):012d}.jpg"]
        for name in names:
            if (path := self._folder / name).is_file():
                return path
        raise DataError(
            f"{where}: the image {text!r} is not in {self._folder}; name the folder of the images with {setting('images')}"
        )


NO_YES = wording.MATCHING_OPTIONS[::-1]
"""Options of the matching task in the order of its labels 0, 1."""
ENTAILMENT = ("yes", "not sure", "no")
"""Options of SNLI-VE in the order of its labels 0, 1, 2: entailment, neutral, contradiction."""

Paths = list[Path]
Items = Iterator[Draft | Exclusion]
FormReader = Callable[[Paths, PublishedImages], Items]
OneOrMoreTexts = str | list[str]


def _texts(value: OneOrMoreTexts) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))


def _index(answer: int, options: tuple[str, ...], where: str) -> int:
    if not 0 <= answer < len(options):
        raise DataError(f"{where}: answer {answer} but options are 0-{len(options) - 1}")
    return answer


def _place(answer: str, options: tuple[str, ...], where: str) -> int:
    """Where the answer's text stands among the options, as it is or trimmed and without case."""
    if answer in options:
        return options.index(answer)
    folded = [option.strip().casefold() for option in options]
    if folded.count(answer.strip().casefold()) == 1:
        return folded.index(answer.strip().casefold())
    raise DataError(f"{where}: the answer {answer!r} is none of the options {list(options)}")


class _Data(Struct, frozen=True):
    data: list[msgspec.Raw]


def _items(path: Path, form: type[Any]) -> Iterator[tuple[str, Any]]:
    return list_items(path, "data", read_json(path, _Data).data, form)


# --- A: questions, answers by their text --------------------------------------------------------------------------


class _Vqa(Struct, frozen=True):
    question_id: str | int
    image_id: str | int
    question: str = ""
    answer: OneOrMoreTexts = ""
    answer_options: tuple[str, ...] = ()
    context: str = ""
    rationale: OneOrMoreTexts = ""
    rationale_options: tuple[str, ...] = ()


def _vqa(paths: Paths, shelf: PublishedImages) -> Items:
    for where, item in _items(paths[0], _Vqa):
        context = item.context or None
        if item.rationale_options:
            question = wording.why_question(item.question, _texts(item.answer)[0])
            options, gold = item.rationale_options, _texts(item.rationale)[0]
        else:
            question, options, gold = item.question, item.answer_options, _texts(item.answer)[0]
            context = context or (
                wording.explanation_context(_texts(item.rationale)[0]) if item.rationale else None
            )
        yield _draft(
            item.question_id,
            _chosen(question, options, _place(gold, options, where)),
            shelf.picture(item.image_id, where),
            where,
            context,
        )


def _vqa_open(paths: Paths, shelf: PublishedImages) -> Items:
    for where, item in _items(paths[0], _Vqa):
        question = QuestionDraft(item.question, texts=_texts(item.answer))
        yield _draft(item.question_id, question, shelf.picture(item.image_id, where), where)


class _Claim(Struct, frozen=True):
    instance_id: str | int
    image_id: str | int
    claim: str
    text_evidence: str
    answer: str
    answer_options: tuple[str, ...]


def _claim(paths: Paths, shelf: PublishedImages) -> Items:
    for where, item in _items(paths[0], _Claim):
        gold = _place(item.answer, item.answer_options, where)
        question = _chosen(wording.claim_question(item.claim), item.answer_options, gold)
        context = wording.evidence_context(item.text_evidence) if item.text_evidence else None
        yield _draft(
            item.instance_id, question, shelf.picture(item.image_id, where), where, context
        )


# --- B: core questions, answers by index, wordings to choose from --------------------------------------------------


class _Core(Struct, frozen=True):
    question_id: str | int
    image: str | None = None
    img: str | None = None
    question: OneOrMoreTexts = ""
    questions: OneOrMoreTexts = ""
    answer: int = 0
    answer_options: tuple[str, ...] = ()
    answer_txt: OneOrMoreTexts = ""
    bbox: tuple[Any, ...] = ()


def _boxes(region: tuple[Any, ...], where: str) -> tuple[Box, ...]:
    """One box, or a list of them."""
    boxes = region if region and isinstance(region[0], (list, tuple)) else (region,) * bool(region)
    try:
        return msgspec.convert(boxes, tuple[Box, ...])
    except msgspec.ValidationError:
        raise DataError(f"{where}: {list(region)} is neither a box nor a list of boxes") from None


def _wordings(item: _Core, where: str) -> tuple[str, tuple[str, ...]]:
    """The question, and its rewordings."""
    texts = tuple(text for text in _texts(item.question or item.questions) if text.strip())
    if not texts:
        raise DataError(f"{where}: there is no question")
    return texts[0], texts[1:]


def _core_choice(paths: Paths, shelf: PublishedImages) -> Items:
    for where, item in _items(paths[0], _Core):
        options = item.answer_options
        first, rewordings = _wordings(item, where)
        question = _chosen(first, options, _index(item.answer, options, where), rewordings)
        picture = shelf.picture(item.img or item.image or "", where, _boxes(item.bbox, where))
        yield _draft(item.question_id, question, picture, where)


def _core_open(paths: Paths, shelf: PublishedImages) -> Items:
    """Scene text and key information. A list of golds is a text of several words, joined by blanks.

    A gold without a letter or digit is kept: the published numbers count it, and other metrics have no value for it.
    """
    for where, item in _items(paths[0], _Core):
        first, rewordings = _wordings(item, where)
        gold = item.answer_txt if isinstance(item.answer_txt, str) else " ".join(item.answer_txt)
        picture = shelf.picture(item.img or item.image or "", where, _boxes(item.bbox, where))
        if not gold.strip():
            yield Exclusion("no answer")
            continue
        yield _draft(
            item.question_id,
            QuestionDraft(first, texts=(gold,), rewordings=rewordings),
            picture,
            where,
        )


# --- C: sampled files ----------------------------------------------------------------------------------------------


class _Sampled(Struct, frozen=True):
    img: str | int
    id: str | int | None = None
    anno: OneOrMoreTexts = ""
    annos: tuple[str, ...] = ()
    gt: int = 0
    method: str = ""
    options: tuple[str, ...] = ()
    region: tuple[Any, ...] = ()


def _sampled(paths: Paths, shelf: PublishedImages) -> Items:
    form = shelf.entry.form
    for number, (where, item) in enumerate(_items(paths[0], _Sampled)):
        name = number if item.id is None else item.id
        picture = shelf.picture(item.img, where, _boxes(item.region, where))
        if form.startswith("sampled-caption"):
            if not item.annos:
                raise DataError(f"{where}: there is no caption")
            question = (
                wording.CAPTION_WITH_TEXT_QUESTION
                if form == "sampled-captions-with-text"
                else wording.CAPTION_QUESTION
            )
            yield _draft(name, QuestionDraft(question, texts=item.annos), picture, where)
            continue
        question, options = _question_and_options(form, item, where)
        yield _draft(
            name, _chosen(question, options, _index(item.gt, options, where)), picture, where
        )


def _question_and_options(form: str, item: _Sampled, where: str) -> tuple[str, tuple[str, ...]]:
    """The question of a sampled record, whose published templates are the question, and its options."""
    anno = _texts(item.anno)
    if form in ("sampled-match", "sampled-entailment") and not anno:
        raise DataError(f"{where}: there is no text")
    match form:
        case "sampled-match":
            return wording.matching_question(anno[0]), NO_YES
        case "sampled-texts":
            return wording.TEXT_QUESTION, anno
        case "sampled-entailment":
            return wording.entailment_question(anno[0]), ENTAILMENT
        case "sampled-region":
            return wording.EXPRESSION_QUESTION, item.options
        case _:
            return wording.step_question(
                item.method
            ) if item.method else wording.DISASTER_QUESTION, item.options


# --- D: flat lists -------------------------------------------------------------------------------------------------


class _Flat(Struct, frozen=True):
    id: str | int
    image: str | int
    question: str
    answer: int
    options: tuple[str, ...]


def _list(paths: Paths, shelf: PublishedImages) -> Items:
    for where, item in list_items(paths[0], "", read_json(paths[0], list[msgspec.Raw]), _Flat):
        gold = _index(item.answer, item.options, where)
        question = _chosen(item.question, item.options, gold)
        yield _draft(item.id, question, shelf.picture(item.image, where), where)


class _Counted(Struct, frozen=True):
    Image_ID: str | int
    Question: str
    Answer: str | int
    Resolved_COCO_category: str = ""


class _Choices(Struct, frozen=True):
    choice: tuple[str | int, ...]


def _pool(path: Path) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(choice) for choice in read_json(path, _Choices).choice))


def _count(paths: Paths, shelf: PublishedImages) -> Items:
    """Counting questions of COCO-QA. Their negatives were drawn anew for each test; here they are drawn once."""
    pool = _pool(paths[1])
    for number, (where, item) in enumerate(
        list_items(paths[0], "", read_json(paths[0], list[msgspec.Raw]), _Counted), 1
    ):
        question = QuestionDraft(
            item.Question, texts=(str(item.Answer),), distractors=DistractorSpec(tiers=(pool,))
        )
        draft = _draft(number, question, shelf.picture(item.Image_ID, where), where)
        yield replace(
            draft,
            tags={"object": item.Resolved_COCO_category} if item.Resolved_COCO_category else {},
        )


class _Question(Struct, frozen=True):
    question_id: int
    image_id: str | int
    question: str


class _Answer(Struct, frozen=True):
    answer: str


class _Annotation(Struct, frozen=True):
    question_id: int
    question_type: str
    answers: tuple[_Answer, ...]


def _tdiuc(paths: Paths, shelf: PublishedImages) -> Items:
    """One task's questions. Their negatives were drawn anew for each test; here they are drawn once."""
    pool = _pool(paths[2])
    golds = {
        record.question_id: record.answers[0].answer
        for _, record in list_items(
            paths[1], "", read_json(paths[1], list[msgspec.Raw]), _Annotation
        )
        if record.question_type == shelf.entry.type and record.answers
    }
    for where, record in list_items(
        paths[0], "", read_json(paths[0], list[msgspec.Raw]), _Question
    ):
        if (gold := golds.pop(record.question_id, None)) is not None:
            question = QuestionDraft(
                record.question, texts=(gold,), distractors=DistractorSpec(tiers=(pool,))
            )
            yield _draft(record.question_id, question, shelf.picture(record.image_id, where), where)
    if golds:
        raise DataError(
            f"{paths[1]}: question {min(golds)} is not in {paths[0].name}; are both files whole?"
        )


# --- E: dialogues --------------------------------------------------------------------------------------------------


class _Turn(Struct, frozen=True):
    question: int
    answer: int
    answer_options: tuple[int, ...]


class _Dialogue(Struct, frozen=True):
    image_id: str | int
    dialog: tuple[_Turn, ...]
    image_base64: str = ""
    caption: str = ""


class _Lists(Struct, frozen=True):
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    dialogs: list[msgspec.Raw]


class _Dialogues(Struct, frozen=True):
    data: _Lists


def _dialogue(paths: Paths, shelf: PublishedImages) -> Items:
    lists = read_json(paths[0], _Dialogues).data
    for where, item in list_items(paths[0], "data.dialogs", lists.dialogs, _Dialogue):
        try:
            rounds = tuple(_round(turn, lists, where) for turn in item.dialog)
        except IndexError:
            raise DataError(
                f"{where}: points behind the end of the lists of questions and answers"
            ) from None
        yield Draft(
            id=str(item.image_id),
            rounds=rounds,
            images=(shelf.picture(item.image_base64 or item.image_id, where),),
            where=where,
            dialogue=True,
            context=item.caption or None,
            replies=tuple(lists.answers[turn.answer] for turn in item.dialog),
        )


def _round(turn: _Turn, lists: _Lists, where: str) -> QuestionDraft:
    if turn.answer not in turn.answer_options:
        raise DataError(
            f"{where}: answer {turn.answer} is none of its options {list(turn.answer_options)}"
        )
    question = lists.questions[turn.question].strip()
    return QuestionDraft(
        question if question.endswith("?") else f"{question}?",
        tuple(lists.answers[option] for option in turn.answer_options),
        (turn.answer_options.index(turn.answer),),
    )


# -------------------------------------------------------------------------------------------------------------------


def _chosen(
    question: str, options: tuple[str, ...], gold: int, rewordings: tuple[str, ...] = ()
) -> QuestionDraft:
    return QuestionDraft(question, options, (gold,), rewordings=rewordings)


def _draft(
    name: str | int,
    question: QuestionDraft,
    picture: bytes | Path | ImageSpec,
    where: str,
    context: str | None = None,
) -> Draft | Exclusion:
    """A question about an image; one with the same option twice has no telling answer, and is left out."""
    options = [option.strip() for option in question.options]
    if len(set(options)) < len(options):
        return Exclusion("two of its options are the same")
    return Draft(str(name), (question,), (picture,), where, context=context, group=_group(picture))


def _group(picture: bytes | Path | ImageSpec) -> str:
    """The image as it was before anything was drawn: questions about its regions depend on each other."""
    file = picture.file if isinstance(picture, ImageSpec) else picture
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    return file.name if isinstance(file, Path) else file.place


FORM_READERS: dict[str, FormReader] = {
    "vqa": _vqa,
    "vqa-open": _vqa_open,
    "claim": _claim,
    "core-choice": _core_choice,
    "core-open": _core_open,
    "list": _list,
    "count": _count,
    "tdiuc": _tdiuc,
    "dialogue": _dialogue,
    **dict.fromkeys(
        (
            "sampled-match",
            "sampled-texts",
            "sampled-entailment",
            "sampled-region",
            "sampled-options",
            "sampled-captions",
            "sampled-captions-with-text",
        ),
        _sampled,
    ),
}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    benchmark: str
    """Its name in the catalogue, without the suite's."""
    images: str = ""
    """Folder of the images that the raw variant names."""


class _Instructs(Struct, frozen=True):
    instructs: tuple[str, ...] = ()


def instructions(folder: Path, benchmark: str) -> tuple[str, ...]:
    """The instructions that a benchmark's file brings; empty for most. Raises DataError."""
    entry = published_entries()[benchmark]
    if not entry.form.startswith("core"):
        return ()
    return tuple(
        dict.fromkeys(
            text.strip()
            for text in read_json(locate_file(folder, entry.files[0]), _Instructs).instructs
        )
    )


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The questions of one benchmark in the order of its file. Raises DataError naming file and record."""
    chosen = read_params(params, Params)
    entry = published_entries()[chosen.benchmark]
    paths = [locate_file(folder, name) for name in entry.files]
    shelf = PublishedImages(Path(chosen.images) if chosen.images else paths[0].parent, entry)
    yield from without_exclusions(FORM_READERS[entry.form](paths, shelf), paths[0])


def importable_benchmarks(
    folder: Path, names: Sequence[str] = (), images: Path | None = None
) -> list[BenchmarkSpec]:
    """The catalogue's entries of the benchmarks whose files are in `folder`, to be built from it.

    `names` are short names; all that are there when none is given. Raises UnknownNameError for a name that
    nobody has, DataError for one whose files are not there or when there are none at all.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; it should hold the files of ReForm-Eval-Data")
    _check(names)
    chosen = names or [
        name
        for name, entry in published_entries().items()
        if all(locate_or_none(folder, file) for file in entry.files)
    ]
    if not chosen:
        raise DataError(
            f"{folder}: no file of ReForm-Eval-Data is there; it has folders such as CLEVR and MSCOCO"
        )
    return [_spec(name, folder, images) for name in chosen]


def hub_patterns(names: Sequence[str]) -> list[str]:
    """The files that benchmarks need, as patterns for a hub. Raises UnknownNameError."""
    _check(names)
    return [
        f"**{file}"
        for name in names or published_entries()
        for file in published_entries()[name].files
    ]


def _check(names: Sequence[str]) -> None:
    for name in names:
        if name not in published_entries():
            raise registry.unknown_name("benchmark of reform-eval", name, published_entries())


def _spec(name: str, folder: Path, images: Path | None) -> BenchmarkSpec:
    params = {"benchmark": name, **({"images": str(images)} if images else {})}
    source = SourceSpec("reform-eval-data", params)
    return replace(
        entries()[f"reform-eval/{name}"], source=source, instructions=instructions(folder, name)
    )


IMPORTER = Importer(
    title="ReForm-Eval-Data",
    benchmarks=importable_benchmarks,
    dataset="Aweminus/ReForm-Eval-Data",
    patterns=hub_patterns,
    names=published_entries,
)
"""`snellen import reform-eval`, from a folder or the hub."""
