"""Drafts that can be asked and scored: checked, split into question and answer, counted; and what is alike."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec.structs import replace

from snellen.building.benchmark import BenchmarkCounts
from snellen.building.recipe import Drafts
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.entries import Expected
from snellen.common.decoding import inspect_image
from snellen.common.drafts import (
    Draft,
    ImageFile,
    LazyFrames,
    LazyImage,
    PictureSpec,
    QuestionDraft,
    picture_bytes,
)
from snellen.common.drawing import image_content
from snellen.common.images import ImageStore
from snellen.errors import DataError, WrongRowsError
from snellen.records import (
    Answer,
    Example,
    Formulation,
    ImageRef,
    IndistinguishableQuestion,
    Sample,
    SetApartQuestion,
    Turn,
)

Question = tuple[Draft, Sample, list[Answer]]


class DraftChecker:
    """Checks drafts, splits them into question and answer, and counts."""

    def __init__(self, spec: BenchmarkSpec, images: ImageStore) -> None:
        self.samples = self.histories = self.origins = self._examples = 0
        self._spec, self._images = spec, images
        self._questions = self._answers = 0
        self._ids: dict[str, str] = {}
        self._pictures: dict[Hashable, ImageRef] = {}
        self._clips: dict[str, list[tuple[str, ImageRef]]] = {}
        self._digests: set[str] = set()
        self._tags: dict[str, Counter[str]] = {}
        self._answer_tags: set[str] = set()
        self._forms: Counter[Formulation] = Counter()
        self._notes: list[str] = []
        self._alike, self._noted = IndistinguishableFinder(), list[str]()
        self.set_apart: list[SetApartQuestion] = []

    def sound(self, drafts: Iterable[Draft]) -> Iterator[Draft]:
        """The drafts until the first fault. Raises WrongRowsError at the end, with all faults."""
        faults: list[str] = []
        stream = iter(drafts)
        while True:
            try:
                draft = next(stream)
                check_draft(draft)
                if draft.id in self._ids:
                    raise DataError(
                        f"{draft.where}: the id {draft.id!r} is taken by {self._ids[draft.id]}; ids must differ"
                    )
                self._ids[draft.id] = draft.where
                list(self._stored(draft))
            except StopIteration:
                break
            except DataError as error:
                faults += error.faults if isinstance(error, WrongRowsError) else [str(error)]
                # A reader that raised is exhausted, but after a draft that failed its check reading goes on.
                continue
            if not faults:
                yield draft
        if faults:
            raise WrongRowsError(sorted(faults, key=_by_place))
        if not self._ids:
            raise DataError(f"{self._spec.name}: the source has no questions")

    def split(self, draft: Draft) -> tuple[Sample, list[Answer]]:
        images = tuple(picture for _, picture in self._stored(draft))
        first = draft.rounds[0]
        sample = Sample(
            id=draft.id,
            benchmark=self._spec.name,
            question="" if draft.dialogue else first.question,
            images=images,
            options=() if draft.dialogue else first.options,
            context=draft.context,
            turns=tuple(Turn(r.question, r.options) for r in draft.rounds)
            if draft.dialogue
            else (),
            regions=draft.regions,
            group=draft.group or (images[0].digest if images else draft.id),
            tags=draft.tags,
            rewordings=() if draft.dialogue else first.rewordings,
        )
        golds = [
            Answer(draft.id, turn, r.gold, r.texts, r.relevance, draft.answer_tags, r.candidates)
            for turn, r in enumerate(draft.rounds)
            if r.gold or r.texts
        ]
        return sample, golds

    def without_set_apart(self, questions: Iterable[Question]) -> Iterator[Question]:
        """The questions that are asked; the others are in `set_apart` when the stream has ended."""
        for draft, sample, golds in questions:
            if draft.set_apart:
                self._notes += draft.notes
                self.set_apart.append(SetApartQuestion(sample, tuple(golds), draft.set_apart))
            else:
                yield draft, sample, golds

    def names(self, draft: Draft) -> tuple[str, ...]:
        """What the files of a draft's pictures are called, but for those that no file holds by itself."""
        return tuple(name for name, _ in self._stored(draft) if name)

    def _stored(self, draft: Draft) -> Iterator[tuple[str, ImageRef]]:
        """The names of a draft's pictures and the pictures, in order, each stored once; of a clip its frames."""
        for image in draft.images:
            if isinstance(image, LazyFrames):
                yield from self._clip(image, draft.where)
            else:
                yield _file_name(image), self._picture(image, draft.where)

    def _clip(self, clip: LazyFrames, where: str) -> list[tuple[str, ImageRef]]:
        """The frames of a clip, which is read once, however many questions it has."""
        if clip.place not in self._clips:
            frames = [
                (frame.name, replace(self._images.put(frame.content, where), time=frame.time))
                for frame in clip.read()
            ]
            self._clips[clip.place] = frames
            self._digests.update(picture.digest for _, picture in frames)
        return self._clips[clip.place]

    def _picture(self, image: ImageFile | PictureSpec, where: str) -> ImageRef:
        picture = image if isinstance(image, PictureSpec) else PictureSpec(image)
        name = (_name(picture.file), picture.crop, picture.outlines)
        if (stored := self._pictures.get(name)) is None:
            stored = self._pictures[name] = self._images.put(image_content(picture, where), where)
            self._digests.add(stored.digest)
        return stored

    def count(self, sample: Sample, golds: list[Answer], draft: Draft) -> None:
        self.samples += 1
        self._questions += len(sample.rounds)
        self._answers += len(golds)
        self.histories += bool(draft.replies)
        self.origins += bool(draft.rows)
        self._notes += draft.notes
        self._alike.note(sample, golds, draft.replies)
        self._noted.append(sample.id)
        self._forms[sample.formulation] += 1
        for name, value in sample.tags.items():
            self._tags.setdefault(name, Counter())[value] += 1
        self._answer_tags.update(*(gold.tags for gold in golds))

    def count_example(self, example: Example) -> None:
        self._examples += 1
        self._forms[example.formulation] += 1

    def indistinguishable(self) -> Iterator[IndistinguishableQuestion]:
        """Questions that nothing tells apart from another one with another answer."""
        return self._alike.questions(self._noted)

    def formulation(self) -> Formulation:
        """The formulation of most samples."""
        if not self._forms:
            raise DataError(
                f"{self._spec.name}: all {len(self.set_apart)} questions are set apart; none is left to ask"
            )
        return self._forms.most_common(1)[0][0]

    def counts(self) -> BenchmarkCounts:
        return BenchmarkCounts(
            self.samples, self._questions, len(self._digests), self._answers, self._examples
        )

    def tag_counts(self) -> dict[str, dict[str, int]]:
        """How many samples carry each value of each tag; empty for a tag with more than 100 values."""
        return {
            name: dict(sorted(values.items())) if len(values) <= 100 else {}
            for name, values in sorted(self._tags.items())
        }

    def answer_tags(self) -> tuple[str, ...]:
        return tuple(sorted(self._answer_tags))

    def warnings(self, is_part: bool) -> tuple[str, ...]:
        expected, counts = Expected() if is_part else self._spec.expected, self.counts()
        samples = counts.samples + counts.examples + len(self.set_apart)
        pairs = (("samples", expected.samples, samples), ("images", expected.images, counts.images))
        warnings = [
            f"{noun}: built {count}, expected {expected_count}"
            for noun, expected_count, count in pairs
            if expected_count not in (None, count)
        ]
        if 0 < counts.answers < counts.questions:
            warnings.append(
                f"{counts.questions - counts.answers} of {counts.questions} questions have no answer"
            )
        return (*warnings, *self._notes)


def _by_place(fault: str) -> list[tuple[int, str]]:
    """Faults in order of their lines: numbers in a text count as numbers."""
    return [
        (int(part) if part.isdecimal() else 0, part)
        for part in re.split(r"(\d+)", fault.partition(": ")[0])
    ]


def _name(file: ImageFile) -> Hashable:
    if isinstance(file, LazyImage):
        return file.place
    return file if isinstance(file, Path) else hashlib.sha256(file).hexdigest()


def _file_name(image: ImageFile | PictureSpec) -> str:
    """What a picture's file is called, with its folder; empty for a picture that no file holds by itself."""
    file = image.file if isinstance(image, PictureSpec) else image
    return "/".join(file.parts[-2:]) if isinstance(file, Path) else ""


def check_draft(draft: Draft) -> None:
    """Raise DataError, naming the location, for a draft that cannot be asked or scored."""
    if not draft.id.strip():
        raise DataError(f"{draft.where}: the id is empty")
    if draft.replies and len(draft.replies) != len(draft.rounds):
        raise DataError(
            f"{draft.where}: {len(draft.replies)} published replies for {len(draft.rounds)} rounds"
        )
    if doubled := draft.tags.keys() & draft.answer_tags.keys():
        raise DataError(
            f"{draft.where}: {min(doubled)!r} is both a tag and an answer tag; name it once"
        )
    for number, question in enumerate(draft.rounds):
        _check_round(question, f"{draft.where}, round {number}" if draft.dialogue else draft.where)


def _check_round(question: QuestionDraft, where: str) -> None:
    if not question.question.strip():
        raise DataError(f"{where}: the question is empty")
    options = [option.strip() for option in question.options]
    if len(options) == 1:
        raise DataError(
            f"{where}: a choice needs two options or more, but there is only {options[0]!r}"
        )
    if "" in options:
        raise DataError(f"{where}: option {options.index('')} is empty")
    if len(set(options)) < len(options) and not question.may_repeat:
        twice = next(option for option in options if options.count(option) > 1)
        raise DataError(f"{where}: the option {twice!r} appears twice; options must differ")
    composed = [unicodedata.normalize("NFC", option) for option in options]
    if len(set(composed)) < len(set(options)) and not question.may_repeat:
        twice = next(option for option in composed if composed.count(option) > 1)
        raise DataError(
            f"{where}: the option {twice!r} appears twice, spelt in two ways that look alike (Unicode normalisation); "
            "options must differ"
        )
    for gold in question.gold:
        if not 0 <= gold < len(options):
            raise DataError(f"{where}: answer {gold} but options are 0-{len(options) - 1}")
    if any(not text.strip() for text in question.texts):
        raise DataError(f"{where}: an answer text is empty")
    _check_relevance(question, where)


def _check_relevance(question: QuestionDraft, where: str) -> None:
    if question.relevance and len(question.relevance) != len(question.options):
        raise DataError(
            f"{where}: {len(question.relevance)} relevance values for {len(question.options)} options"
        )
    if wrong := [value for value in question.relevance if not 0 <= value < math.inf]:
        raise DataError(
            f"{where}: the relevance of an option is {wrong[0]}; give numbers from 0 up"
        )
    if question.relevance and not question.gold:
        raise DataError(
            f"{where}: relevance is given, but no answer; say which option is right too"
        )


class SoundRows:
    """A source without the rows that cannot be used, which are in `faults` when it has been read."""

    SHOWN = 3

    def __init__(self, read: Drafts) -> None:
        self._read = read
        self._readable: dict[Hashable, str] = {}
        self.faults: dict[str, None] = {}

    def __call__(self) -> Iterator[Draft]:
        try:
            for draft in self._read():
                try:
                    check_draft(draft)
                    self._check_pictures(draft)
                except DataError as error:
                    self.faults[str(error)] = None
                else:
                    yield draft
        except WrongRowsError as error:
            self.faults |= dict.fromkeys(error.faults)

    def _check_pictures(self, draft: Draft) -> None:
        for image in draft.images:
            if not isinstance(image, LazyFrames):
                file = image.file if isinstance(image, PictureSpec) else image
                if (fault := self._readable.get(_name(file))) is None:
                    fault = self._readable[_name(file)] = _picture_fault(file, draft.where)
                if fault:
                    raise DataError(fault)

    def note(self) -> tuple[str, ...]:
        """How many rows were left out, with the first reasons."""
        count = len(self.faults)
        more = f"; and {count - self.SHOWN:,} more" if count > self.SHOWN else ""
        first = "; ".join(sorted(self.faults, key=_by_place)[: self.SHOWN])
        return (f"{count:,} rows are left out: {first}{more}",) if count else ()


def _picture_fault(file: ImageFile, where: str) -> str:
    try:
        inspect_image(picture_bytes(file, where), where)
    except DataError as error:
        return str(error)
    return ""


# --- questions that nothing tells apart but their answers -------------------------------------------------------------
# A model is shown the pictures, the context, the question with its options, and in a dialogue what was said before.
# Where all of this is equal and the golds are not, no reply can be right for all of these questions. That golds are
# hidden says nothing about a question with a picture; hidden ones without a picture count as different.


_encode = msgspec.json.Encoder().encode


class IndistinguishableFinder:
    """Takes note of questions one by one, in 24 bytes each, and at the end finds those that nothing tells apart."""

    def __init__(self) -> None:
        self._shown, self._golds, self._samples = array("Q"), array("Q"), array("Q")

    def note(self, sample: Sample, golds: Sequence[Answer], replies: Sequence[str]) -> None:
        """Take note of a sample's questions; `replies` is the published history of a dialogue."""
        by_turn = {gold.turn: gold for gold in golds}
        number = self._samples[-1] + 1 if self._samples else 0
        content = _digest(([image.digest for image in sample.images], sample.context))
        for turn, question in enumerate(sample.rounds):
            content = _digest((content, question, replies[turn - 1] if replies and turn else ""))
            self._shown.append(content)
            self._golds.append(_gold(sample, turn, by_turn.get(turn)))
            self._samples.append(number)

    def questions(self, ids: Sequence[str]) -> Iterator[IndistinguishableQuestion]:
        """The questions with equals of another gold, in order; `ids` are those of the samples in the order noted."""
        groups: dict[int, list[int]] = defaultdict(list)
        repeated = self._repeated()
        for place, content in enumerate(self._shown if repeated else ()):
            if content in repeated:
                groups[content].append(place)
        alike = [
            places
            for places in groups.values()
            if len({self._golds[place] for place in places}) > 1
        ]
        first = (
            {number: place for place, number in reversed(list(enumerate(self._samples)))}
            if alike
            else {}
        )
        for group, places in enumerate(alike):
            kinds: dict[int, int] = {}
            for place in places:
                number = self._samples[place]
                kind = kinds.setdefault(self._golds[place], len(kinds))
                yield IndistinguishableQuestion(ids[number], place - first[number], group, kind)

    def _repeated(self) -> frozenset[int]:
        """Digests of content that more than one question shows."""
        return frozenset(
            content for content, following in pairwise(sorted(self._shown)) if content == following
        )


def _gold(sample: Sample, turn: int, gold: Answer | None) -> int:
    if gold is None:
        return _digest(None if sample.images else (sample.id, turn))
    return _digest((sorted(gold.options), sorted(gold.texts)))


def _digest(content: object) -> int:
    """A number of 64 bits; among a million questions two different ones collide in one build out of 40 million."""
    return int.from_bytes(hashlib.blake2b(_encode(content), digest_size=8).digest())
