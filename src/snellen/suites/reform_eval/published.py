"""The published, already re-formulated data of ReForm-Eval: JSON files with images in base64, or by name.

`published.toml` says which file has the questions of which of the 61 benchmarks, and how the file is laid out. There
are five groups of layouts, A to E below. If a file has instructions (`instructs`), they become those of its benchmark.
Two variants of the data are read: one with images inside of the files, and one with only the names or original ids of
images, which are then in a folder of the user.
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

MAX_FILE_NAME_CHARACTERS = 200
"""A text with more characters is an image in base64, and a shorter one the name of an image."""


class Drawing(Struct, frozen=True, forbid_unknown_fields=True):
    width: int
    corners: bool = False
    """Whether the four numbers of a box are two corners. Otherwise they are a corner, width and height."""


class PublishedEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the questions of a benchmark are in the published data (`files`), and how these files are laid out
    (`form`).
    """

    form: str
    files: tuple[str, ...]
    type: str = ""
    """TDIUC's own name of the task."""
    draw: Drawing | None = None
    crop: bool = False


@cache
def published_entries() -> dict[str, PublishedEntry]:
    """Return the 61 benchmarks of the data, by their short names in the catalogue."""
    return packaged_toml("snellen.suites.reform_eval", "published.toml", dict[str, PublishedEntry])


class PublishedImages:
    """Reads the images of one file of questions, which are stored in its records or as files in a folder."""

    def __init__(self, folder: Path, entry: PublishedEntry) -> None:
        self.entry = entry
        self._folder = folder

    def picture(
        self, text: str | int, where: str, boxes: tuple[Box, ...] = ()
    ) -> bytes | Path | ImageSpec:
        """Return the image as its question shows it: whole, cropped to its box, or with its boxes drawn.

        Args:
            text: The image in base64, or its name.
            where: File and position, for error messages.
            boxes: Boxes of the question.
        """
        content = self._content(str(text), where)
        entry = self.entry
        if entry.crop and boxes:
            return ImageSpec(content, crop=boxes[0])
        if entry.draw is None or not boxes:
            return content
        outlines = []
        for number, box in enumerate(boxes):
            drawn_box = from_corners(*box) if entry.draw.corners else box
            colour = PALETTE[number % len(PALETTE)]
            outlines.append(Outline(drawn_box, colour, entry.draw.width))
        return ImageSpec(content, outlines=tuple(outlines))

    def _content(self, text: str, where: str) -> bytes | Path:
        """Return an image, decoded from base64 text, or the path of the file that a shorter text names.

        A text of more than `MAX_FILE_NAME_CHARACTERS` characters is an image, and a shorter one is a name. A name may
        lack its suffix, or be the number of a COCO image: 42 stands for `000000000042.jpg`.

        Raises:
            DataError: The text is not base64, or there is no such file.
        """
        if len(text) > MAX_FILE_NAME_CHARACTERS:
            try:
                return base64.b64decode(text.rpartition("base64,")[2], validate=True)
            except (binascii.Error, ValueError):
                raise DataError(f"{where}: the image {text[:30]!r}... is not base64") from None
        names = [text, f"{text}.jpg", f"{text}.png"]
        if text.isdigit():
            names += [f"{int(text):012d}.jpg", f"COCO_val2014_{int(text):012d}.jpg"]
        for name in names:
            path = self._folder / name
            if path.is_file():
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


def _as_texts(value: OneOrMoreTexts) -> tuple[str, ...]:
    """Return a text as a tuple of one, and a list of texts as a tuple without repetitions."""
    return (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))


def _checked_index(answer: int, options: tuple[str, ...], where: str) -> int:
    """Return the index of the correct option unchanged. Raises DataError if there is no option with this index."""
    if not 0 <= answer < len(options):
        raise DataError(f"{where}: answer {answer} but options are 0-{len(options) - 1}")
    return answer


def _index_of_answer(answer: str, options: tuple[str, ...], where: str) -> int:
    """Return the index of the option whose text is the answer.

    If no text is exactly equal, one that is equal except for case and surrounding spaces is accepted.

    Args:
        answer: Text of the answer.
        options: Texts of the options.
        where: File and record, for the message.

    Raises:
        DataError: No option is equal to the answer, or several are equal except for case and spaces.
    """
    if answer in options:
        return options.index(answer)
    folded_answer = answer.strip().casefold()
    folded_options = [option.strip().casefold() for option in options]
    if folded_options.count(folded_answer) == 1:
        return folded_options.index(folded_answer)
    raise DataError(f"{where}: the answer {answer!r} is none of the options {list(options)}")


class _Data(Struct, frozen=True):
    data: list[msgspec.Raw]


def _records_of(path: Path, form: type[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the records in the list `data` of a JSON file, each with its location for messages.

    Args:
        path: The file.
        form: The type of the records.
    """
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


def _read_vqa(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield multiple-choice questions from files that give the answer as a text.

    A record may have several rationales, reasons why the answer is right. Then the question asks for the reason,
    and the rationales are the options.
    """
    for where, item in _records_of(paths[0], _Vqa):
        context = item.context or None
        answer = _as_texts(item.answer)[0]
        if item.rationale_options:
            question = wording.why_question(item.question, answer)
            options = item.rationale_options
            correct_text = _as_texts(item.rationale)[0]
        else:
            question = item.question
            options = item.answer_options
            correct_text = answer
            if item.rationale and not context:
                context = wording.explanation_context(_as_texts(item.rationale)[0])
        correct_index = _index_of_answer(correct_text, options, where)
        choice = _choice_question(question, options, correct_index)
        picture = shelf.picture(item.image_id, where)
        yield _image_question(item.question_id, choice, picture, where, context)


def _read_open_vqa(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield open questions with their accepted answers."""
    for where, item in _records_of(paths[0], _Vqa):
        question = QuestionDraft(item.question, texts=_as_texts(item.answer))
        yield _image_question(
            item.question_id, question, shelf.picture(item.image_id, where), where
        )


class _Claim(Struct, frozen=True):
    instance_id: str | int
    image_id: str | int
    claim: str
    text_evidence: str
    answer: str
    answer_options: tuple[str, ...]


def _read_claims(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield questions whether a text and an image support a claim. The text is the context of the question.

    Args:
        paths: The file of questions.
        shelf: Finds the images.
    """
    for where, item in _records_of(paths[0], _Claim):
        gold = _index_of_answer(item.answer, item.answer_options, where)
        question = _choice_question(wording.claim_question(item.claim), item.answer_options, gold)
        context = wording.evidence_context(item.text_evidence) if item.text_evidence else None
        picture = shelf.picture(item.image_id, where)
        yield _image_question(item.instance_id, question, picture, where, context)


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


def _parse_boxes(region: tuple[Any, ...], where: str) -> tuple[Box, ...]:
    """Return the boxes in the field of a record.

    `(1, 2, 3, 4)` is one box, `((1, 2, 3, 4), (5, 6, 7, 8))` are two, and `()` is none.

    Raises:
        DataError: The field is something else.
    """
    boxes: tuple[Any, ...] = ()
    if region:
        is_list_of_boxes = isinstance(region[0], (list, tuple))
        boxes = region if is_list_of_boxes else (region,)
    try:
        return msgspec.convert(boxes, tuple[Box, ...])
    except msgspec.ValidationError:
        raise DataError(f"{where}: {list(region)} is neither a box nor a list of boxes") from None


def _question_and_rewordings(item: _Core, where: str) -> tuple[str, tuple[str, ...]]:
    """Return the question of a record, and further wordings of it. Raises DataError if there is no question."""
    texts = _as_texts(item.question or item.questions)
    wordings = [text for text in texts if text.strip()]
    if not wordings:
        raise DataError(f"{where}: there is no question")
    question, *rewordings = wordings
    return question, tuple(rewordings)


def _read_core_choice(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield multiple-choice questions from files that give the answer as the index of an option."""
    for where, item in _records_of(paths[0], _Core):
        options = item.answer_options
        first, rewordings = _question_and_rewordings(item, where)
        question = _choice_question(
            first, options, _checked_index(item.answer, options, where), rewordings
        )
        picture = shelf.picture(item.img or item.image or "", where, _parse_boxes(item.bbox, where))
        yield _image_question(item.question_id, question, picture, where)


def _read_core_open(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield open questions about texts in images and about documents.

    If the answer is a list, its words are joined to one text. An answer of signs only, such as `-`, is kept,
    because the published results count it; an empty one is left out.
    """
    for where, item in _records_of(paths[0], _Core):
        first, rewordings = _question_and_rewordings(item, where)
        if isinstance(item.answer_txt, str):
            gold = item.answer_txt
        else:
            gold = " ".join(item.answer_txt)
        picture = shelf.picture(item.img or item.image or "", where, _parse_boxes(item.bbox, where))
        if not gold.strip():
            yield Exclusion("no answer")
            continue
        yield _image_question(
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


def _read_sampled(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield the questions of files whose records have an image with texts or options, but no question.

    Which question is asked depends on the layout of the file. For example, `sampled-match` asks whether the text
    fits the image, and `sampled-captions` asks for a caption.
    """
    form = shelf.entry.form
    caption_questions = {
        "sampled-captions": wording.CAPTION_QUESTION,
        "sampled-captions-with-text": wording.CAPTION_WITH_TEXT_QUESTION,
    }
    for number, (where, item) in enumerate(_records_of(paths[0], _Sampled)):
        name = number if item.id is None else item.id
        picture = shelf.picture(item.img, where, _parse_boxes(item.region, where))
        if form in caption_questions:
            if not item.annos:
                raise DataError(f"{where}: there is no caption")
            question = QuestionDraft(caption_questions[form], texts=item.annos)
        else:
            text, options = _question_and_options(form, item, where)
            correct_index = _checked_index(item.gt, options, where)
            question = _choice_question(text, options, correct_index)
        yield _image_question(name, question, picture, where)


def _question_and_options(form: str, item: _Sampled, where: str) -> tuple[str, tuple[str, ...]]:
    """Return the question and the options of a record that has no question of its own (see `_read_sampled`).

    Args:
        form: The layout of the file, such as `sampled-match`, which decides what is asked.
        item: The record.
        where: File and record, for messages.

    Raises:
        DataError: The question needs a text of the record, and there is none.
    """
    anno = _as_texts(item.anno)
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
            if item.method:
                return wording.step_question(item.method), item.options
            return wording.DISASTER_QUESTION, item.options


# --- D: flat lists -------------------------------------------------------------------------------------------------


class _Flat(Struct, frozen=True):
    id: str | int
    image: str | int
    question: str
    answer: int
    options: tuple[str, ...]


def _read_list(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield the multiple-choice questions of a JSON file that is a list of records.

    Args:
        paths: The file of questions.
        shelf: Finds the images.
    """
    records = read_json(paths[0], list[msgspec.Raw])
    for where, record in list_items(paths[0], "", records, _Flat):
        gold = _checked_index(record.answer, record.options, where)
        question = _choice_question(record.question, record.options, gold)
        picture = shelf.picture(record.image, where)
        yield _image_question(record.id, question, picture, where)


class _Counted(Struct, frozen=True):
    Image_ID: str | int
    Question: str
    Answer: str | int
    Resolved_COCO_category: str = ""


class _Choices(Struct, frozen=True):
    choice: tuple[str | int, ...]


def _read_choices(path: Path) -> tuple[str, ...]:
    """Return the distinct choices of a file, from which distractors are drawn."""
    return tuple(dict.fromkeys(str(choice) for choice in read_json(path, _Choices).choice))


def _read_counting(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield the counting questions of COCO-QA ("How many dogs ...?").

    Wrong options are drawn once from the file of choices. (For the published results they were drawn anew for each
    test.)
    """
    questions_file, choices_file = paths[:2]
    distractors = DistractorSpec(tiers=(_read_choices(choices_file),))
    records = read_json(questions_file, list[msgspec.Raw])
    for number, (where, item) in enumerate(list_items(questions_file, "", records, _Counted), 1):
        question = QuestionDraft(item.Question, texts=(str(item.Answer),), distractors=distractors)
        draft = _image_question(number, question, shelf.picture(item.Image_ID, where), where)
        tags = {}
        if item.Resolved_COCO_category:
            tags["object"] = item.Resolved_COCO_category
        yield replace(draft, tags=tags)


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


def _read_tdiuc(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield the questions of one task of the dataset TDIUC, such as counting.

    Wrong options are drawn once from the file of choices. (For the published results they were drawn anew for each
    test.)

    Args:
        paths: The files of questions, of annotations (the answers), and of choices.
        shelf: The images, and the name of the task in TDIUC.

    Raises:
        DataError: An answer has no question.
    """
    questions_file, annotations_file, choices_file = paths[:3]
    pool = _read_choices(choices_file)
    answers = {}
    annotations = read_json(annotations_file, list[msgspec.Raw])
    for _, annotation in list_items(annotations_file, "", annotations, _Annotation):
        if annotation.question_type == shelf.entry.type and annotation.answers:
            answers[annotation.question_id] = annotation.answers[0].answer

    questions = read_json(questions_file, list[msgspec.Raw])
    for where, record in list_items(questions_file, "", questions, _Question):
        answer = answers.pop(record.question_id, None)
        if answer is None:
            continue
        distractors = DistractorSpec(tiers=(pool,))
        question = QuestionDraft(record.question, texts=(answer,), distractors=distractors)
        picture = shelf.picture(record.image_id, where)
        yield _image_question(record.question_id, question, picture, where)
    if answers:
        raise DataError(
            f"{annotations_file}: question {min(answers)} is not in {questions_file.name}; are both files whole?"
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


def _read_dialogues(paths: Paths, shelf: PublishedImages) -> Items:
    """Yield the dialogues. The published answers serve as the replies of earlier rounds in the history."""
    lists = read_json(paths[0], _Dialogues).data
    for where, item in list_items(paths[0], "data.dialogs", lists.dialogs, _Dialogue):
        try:
            rounds = tuple(_dialogue_round(turn, lists, where) for turn in item.dialog)
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


def _dialogue_round(turn: _Turn, lists: _Lists, where: str) -> QuestionDraft:
    """Return a round of a dialogue as a multiple-choice question. Raises DataError if the answer is not an option."""
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


def _choice_question(
    question: str, options: tuple[str, ...], gold: int, rewordings: tuple[str, ...] = ()
) -> QuestionDraft:
    return QuestionDraft(question=question, options=options, gold=(gold,), rewordings=rewordings)


def _image_question(
    name: str | int,
    question: QuestionDraft,
    picture: bytes | Path | ImageSpec,
    where: str,
    context: str | None = None,
) -> Draft | Exclusion:
    """Return the draft of a question about an image, or an exclusion if two of its options are equal."""
    options = [option.strip() for option in question.options]
    if len(set(options)) < len(options):
        return Exclusion("two of its options are the same")
    return Draft(
        id=str(name),
        rounds=(question,),
        images=(picture,),
        where=where,
        context=context,
        group=_image_group(picture),
    )


def _image_group(picture: bytes | Path | ImageSpec) -> str:
    """Return an identifier of an image file, by which questions about the same image are grouped.

    It is the same for different crops or outlines of a file, because questions about regions of one image depend on
    each other.
    """
    file = picture.file if isinstance(picture, ImageSpec) else picture
    if isinstance(file, bytes):
        return hashlib.sha256(file).hexdigest()
    return file.name if isinstance(file, Path) else file.place


FORM_READERS: dict[str, FormReader] = {
    "vqa": _read_vqa,
    "vqa-open": _read_open_vqa,
    "claim": _read_claims,
    "core-choice": _read_core_choice,
    "core-open": _read_core_open,
    "list": _read_list,
    "count": _read_counting,
    "tdiuc": _read_tdiuc,
    "dialogue": _read_dialogues,
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
        _read_sampled,
    ),
}


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    benchmark: str
    """Name of the benchmark in the catalogue without the name of the suite, such as `vsr`."""
    images: str = ""
    """Folder of the images, if the files contain only their names."""


class _Instructs(Struct, frozen=True):
    instructs: tuple[str, ...] = ()


def instructions(folder: Path, benchmark: str) -> tuple[str, ...]:
    """Return the instructions that are stored in the file of a benchmark, without repetitions.

    Returns:
        The texts in the order of the file. It is an empty tuple for files without instructions: only files whose form
        begins with `core` have them.

    Raises:
        DataError: The file cannot be read.
    """
    entry = published_entries()[benchmark]
    if not entry.form.startswith("core"):
        return ()
    content = read_json(locate_file(folder, entry.files[0]), _Instructs)
    texts = [text.strip() for text in content.instructs]
    return tuple(dict.fromkeys(texts))


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the questions of one benchmark, in the order of its file. Raises DataError naming file and record."""
    chosen = read_params(params, Params)
    entry = published_entries()[chosen.benchmark]
    paths = [locate_file(folder, name) for name in entry.files]
    shelf = PublishedImages(Path(chosen.images) if chosen.images else paths[0].parent, entry)
    yield from without_exclusions(FORM_READERS[entry.form](paths, shelf), paths[0])


def importable_benchmarks(
    folder: Path, names: Sequence[str] = (), images: Path | None = None
) -> list[BenchmarkSpec]:
    """Return catalogue entries of benchmarks, changed so that they are built from the files in a folder.

    Args:
        folder: Folder with the files of ReForm-Eval-Data.
        names: Short names of the benchmarks, such as `vsr`. Without names, all benchmarks whose files are there.
        images: Folder with the images, if the files contain only their names.

    Raises:
        UnknownNameError: A benchmark does not exist.
        DataError: The folder does not exist, the files of a benchmark cannot be read, or no files were found.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; it should hold the files of ReForm-Eval-Data")
    _check_names(names)
    chosen = list(names)
    if not names:
        for name, entry in published_entries().items():
            if all(locate_or_none(folder, file) for file in entry.files):
                chosen.append(name)
    if not chosen:
        raise DataError(
            f"{folder}: no file of ReForm-Eval-Data is there; it has folders such as CLEVR and MSCOCO"
        )
    return [_benchmark_spec(name, folder, images) for name in chosen]


def hub_patterns(names: Sequence[str]) -> list[str]:
    """Return patterns of the files that benchmarks need, such as `**file.json`, to download only these from a hub.

    Args:
        names: Short names of the benchmarks. Without names, the files of all are needed.

    Raises:
        UnknownNameError: A benchmark does not exist.
    """
    _check_names(names)
    entries = published_entries()
    patterns = []
    for name in names or entries:
        for file in entries[name].files:
            patterns.append(f"**{file}")
    return patterns


def _check_names(names: Sequence[str]) -> None:
    """Raise UnknownNameError for a name that is not one of the 61 benchmarks."""
    for name in names:
        if name not in published_entries():
            raise registry.unknown_name("benchmark of reform-eval", name, published_entries())


def _benchmark_spec(name: str, folder: Path, images: Path | None) -> BenchmarkSpec:
    """Return the catalogue entry of a benchmark with the published files as the source that it is built from."""
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
