"""From a source to a built benchmark: questions and answers in separate files, each picture stored once.

The folder appears complete or not at all. The same input gives the same bytes.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from snellen import registry
from snellen.benchmark import (
    DECISIONS,
    EXAMPLES,
    FORMAT,
    HISTORY,
    INDISTINGUISHABLE,
    MANIFEST,
    ORIGINS,
    PICTURES,
    SAMPLES,
    SET_APART,
    USED,
    Benchmark,
    BenchmarkCounts,
    BenchmarkManifest,
    BuildInfo,
    Verification,
    file_digest,
    first_samples,
)
from snellen.building.recipe import BuildStats, Decisions, DistractorWriter, Drafts, Recipe, reformulate
from snellen.building.staging import staging_folder
from snellen.catalogue import BenchmarkSpec, entry_file, entry_folder
from snellen.catalogue.entries import Expected
from snellen.conditions import Condition
from snellen.drafts import (
    PARAMS,
    Draft,
    ImageFile,
    LazyFrames,
    LazyImage,
    PictureSpec,
    QuestionDraft,
    picture_bytes,
)
from snellen.errors import DataError, WrongRowsError
from snellen.formats.record_files import ENDING, RecordWriter, Stored, sort_by_group
from snellen.images import ImageStore
from snellen.paths import benchmark_folder, check_benchmark_name
from snellen.records import (
    Answer,
    Example,
    Formulation,
    History,
    ImageRef,
    IndistinguishableQuestion,
    Sample,
    SetApartQuestion,
    SourcePictures,
    SourceRows,
    Turn,
)
from snellen.reformulation.distractor_sources import PictureEmbedder
from snellen.reformulation.regions import render_picture
from snellen.seeds import rng_for

if TYPE_CHECKING:
    from snellen.building.refresh import UsedData

OWN_FILES, WITH_SNELLEN = "files named by the user", "Snellen itself"
"""The origin of a source that was not fetched."""
ANSWERS = "answers.jsonl.gz"
DEFAULT = Recipe()
StoredT = TypeVar("StoredT", bound=Stored)

Progress = Callable[[int], object]
"""Called with the number of questions built so far."""


def build_benchmark(
    spec: BenchmarkSpec,
    *,
    source: Path | None = None,
    to: Path | None = None,
    recipe: Recipe = DEFAULT,
    writer: DistractorWriter | None = None,
    embedder: PictureEmbedder | None = None,
    progress: Progress | None = None,
    limit: int | None = None,
    origin: str = "",
    decisions: Decisions = MappingProxyType({}),
    verification: Verification | None = None,
    used: UsedData | None = None,
) -> Benchmark:
    """Build a benchmark from its source, replacing an earlier build of it.

    `source` is the folder with the user's files (default: the entry's own folder, if its files lie there), `to` the
    folder to create (default: under $SNELLEN_HOME). `recipe` overrides settings of the entry, `writer` writes
    distractors, `embedder` tells which pictures are alike, and `origin` tells in words where the files in `source` come
    from. With `limit`, only the samples are built that a run with this limit asks. `decisions` are kept in the folder,
    with the questions that they set apart, and `verification` in the manifest. Nothing is drawn of data that is `used`
    (`snellen.building.refresh`). Raises DataError naming file and line of the wrong rows; nothing is left behind in
    that case, and an earlier build stays as it was.
    """
    check_benchmark_name(spec.name)
    reader = registry.find("readers", spec.source.reader)
    target = to or benchmark_folder(spec.name)
    if target.exists() and not target.is_dir():
        raise DataError(f"{target} is a file; choose another folder")
    # Another build may be replacing the folder right now; a parent that is a file is reported below.
    with suppress(FileNotFoundError, NotADirectoryError):
        if any(target.iterdir()) and not (target / MANIFEST).exists():
            raise DataError(f"{target} exists and is not a benchmark; choose another folder")
    with staging_folder(target) as folder, _naming_entry(spec):
        stats = BuildStats()
        files = source or entry_folder(spec)
        read: Drafts = lambda: reader(spec.source.params, files)  # noqa: E731
        drafts = reformulate(spec, used.unused(read) if used else read, recipe, writer, stats, embedder, decisions)
        if limit is not None:
            drafts = _first_by_place(list(drafts), limit)
        drafts = used.noting(drafts, folder / USED) if used else drafts
        apart = ExampleDrawer(recipe.examples, spec, recipe.seed)
        _write_records(decisions.values(), folder / DECISIONS)
        manifest = _write(spec, drafts, apart, folder, progress, is_part=limit is not None)
        manifest = replace(
            manifest,
            warnings=(*manifest.warnings, *stats.notes),
            made=BuildInfo(
                stats.read,
                stats.complete,
                _settings(recipe),
                writer.name if writer else "",
                stats.rejected,
                stats.chance,
                limit or 0,
                origin or (OWN_FILES if source else WITH_SNELLEN),
                used.earlier if used else (),
                used.left if used else 0,
            ),
            verification=verification,
        )
        (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2))
    return Benchmark(target)


@contextmanager
def _naming_entry(spec: BenchmarkSpec) -> Iterator[None]:
    """Name the entry's file where its parameters are at fault."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(PARAMS):
            raise DataError(f"{entry_file(spec) or spec.name}: {error}") from None
        raise


def _first_by_place(drafts: Sequence[Draft], limit: int) -> Iterator[Draft]:
    """The drafts that a run with a limit asks, in order; pictures of the others are not read, their notes are kept."""
    first = set(first_samples([draft.id for draft in drafts], limit))
    notes = tuple(note for draft in drafts for note in draft.notes)
    for draft in drafts:
        if draft.id in first:
            yield replace(draft, notes=notes)
            notes = ()


def _settings(recipe: Recipe) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(recipe).items() if value != getattr(DEFAULT, name)}


def _write(
    spec: BenchmarkSpec,
    drafts: Iterable[Draft],
    apart: ExampleDrawer,
    folder: Path,
    progress: Progress | None,
    *,
    is_part: bool,
) -> BenchmarkManifest:
    checker = DraftChecker(spec, ImageStore(folder / "images"))
    digest, questions_digest = hashlib.sha256(), hashlib.sha256()
    with ExitStack() as stack:
        samples = stack.enter_context(RecordWriter(folder / SAMPLES))
        answers = stack.enter_context(RecordWriter(folder / ANSWERS))
        histories = stack.enter_context(RecordWriter(folder / HISTORY))
        origins = stack.enter_context(RecordWriter(folder / ORIGINS))
        pictures = stack.enter_context(RecordWriter(folder / PICTURES))
        for draft, sample, golds in apart.without_examples(
            checker.without_set_apart((draft, *checker.split(draft)) for draft in checker.sound(drafts))
        ):
            samples.write(sample)
            for gold in golds:
                answers.write(gold)
            pictures.write(SourcePictures(sample.id, checker.names(draft)))
            if draft.replies:
                histories.write(History(sample.id, draft.replies))
            if draft.rows:
                origins.write(SourceRows(sample.id, draft.rows, draft.cells))
            digest.update(msgspec.json.encode((sample, golds, draft.replies), order="deterministic"))
            questions_digest.update(msgspec.json.encode((sample, draft.replies), order="deterministic"))
            checker.count(sample, golds, draft)
            if progress:
                progress(checker.samples)
    _write_records(checker.set_apart, folder / SET_APART)
    for example in _write_records(list(apart.examples()), folder / EXAMPLES):
        digest.update(msgspec.json.encode(example, order="deterministic"))
        checker.count_example(example)
    sort_by_group(folder / SAMPLES)
    alike = _write_indistinguishable(checker.indistinguishable(), folder / INDISTINGUISHABLE)
    if not checker.histories:
        (folder / HISTORY).unlink()
    if not checker.origins:
        (folder / ORIGINS).unlink()
    spec = replace(spec, formulation=checker.formulation())
    return BenchmarkManifest(
        FORMAT,
        spec,
        digest.hexdigest()[:16],
        checker.counts(),
        checker.warnings(is_part),
        checker.tag_counts(),
        questions=questions_digest.hexdigest()[:16],
        indistinguishable=alike,
        files={path.name: file_digest(path) for path in sorted(folder.glob(f"*{ENDING}"))},
        answer_tags=checker.answer_tags(),
    )


def _write_records(records: Collection[StoredT], path: Path) -> Collection[StoredT]:
    """The records that were written; without any there is no file."""
    if records:
        with RecordWriter(path) as rows:
            for record in records:
                rows.write(record)
    return records


def _write_indistinguishable(questions: Iterable[IndistinguishableQuestion], path: Path) -> int:
    """How many there are; without any there is no file."""
    count = 0
    with RecordWriter(path) as rows:
        for count, question in enumerate(questions, 1):  # noqa: B007
            rows.write(question)
    if not count:
        path.unlink()
    return count


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
            turns=tuple(Turn(r.question, r.options) for r in draft.rounds) if draft.dialogue else (),
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
            frames = [(frame.name, self._images.put(frame.content, where)) for frame in clip.read()]
            self._clips[clip.place] = frames
            self._digests.update(picture.digest for _, picture in frames)
        return self._clips[clip.place]

    def _picture(self, image: ImageFile | PictureSpec, where: str) -> ImageRef:
        picture = image if isinstance(image, PictureSpec) else PictureSpec(image)
        name = (_name(picture.file), picture.crop, picture.outlines)
        if (stored := self._pictures.get(name)) is None:
            content = render_picture(picture, picture_bytes(picture.file, where), where)
            stored = self._pictures[name] = self._images.put(content, where)
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
        return BenchmarkCounts(self.samples, self._questions, len(self._digests), self._answers, self._examples)

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
            warnings.append(f"{counts.questions - counts.answers} of {counts.questions} questions have no answer")
        return (*warnings, *self._notes)


def _by_place(fault: str) -> list[tuple[int, str]]:
    """Faults in order of their lines: numbers in a text count as numbers."""
    return [(int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", fault.partition(": ")[0])]


def picture_content(image: ImageFile | PictureSpec, where: str) -> bytes:
    """A picture as its question shows it. Raises DataError, naming the place."""
    picture = image if isinstance(image, PictureSpec) else PictureSpec(image)
    return render_picture(picture, picture_bytes(picture.file, where), where)


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
        raise DataError(f"{draft.where}: {len(draft.replies)} published replies for {len(draft.rounds)} rounds")
    if doubled := draft.tags.keys() & draft.answer_tags.keys():
        raise DataError(f"{draft.where}: {min(doubled)!r} is both a tag and an answer tag; name it once")
    for number, question in enumerate(draft.rounds):
        _check_round(question, f"{draft.where}, round {number}" if draft.dialogue else draft.where)


def _check_round(question: QuestionDraft, where: str) -> None:
    if not question.question.strip():
        raise DataError(f"{where}: the question is empty")
    options = [option.strip() for option in question.options]
    if len(options) == 1:
        raise DataError(f"{where}: a choice needs two options or more, but there is only {options[0]!r}")
    if "" in options:
        raise DataError(f"{where}: option {options.index('')} is empty")
    if len(set(options)) < len(options) and not question.may_repeat:
        twice = next(option for option in options if options.count(option) > 1)
        raise DataError(f"{where}: the option {twice!r} appears twice; options must differ")
    for gold in question.gold:
        if not 0 <= gold < len(options):
            raise DataError(f"{where}: answer {gold} but options are 0-{len(options) - 1}")
    if any(not text.strip() for text in question.texts):
        raise DataError(f"{where}: an answer text is empty")
    _check_relevance(question, where)


def _check_relevance(question: QuestionDraft, where: str) -> None:
    if question.relevance and len(question.relevance) != len(question.options):
        raise DataError(f"{where}: {len(question.relevance)} relevance values for {len(question.options)} options")
    if wrong := [value for value in question.relevance if not 0 <= value < math.inf]:
        raise DataError(f"{where}: the relevance of an option is {wrong[0]}; give numbers from 0 up")
    if question.relevance and not question.gold:
        raise DataError(f"{where}: relevance is given, but no answer; say which option is right too")


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
        alike = [places for places in groups.values() if len({self._golds[place] for place in places}) > 1]
        first = {number: place for place, number in reversed(list(enumerate(self._samples)))} if alike else {}
        for group, places in enumerate(alike):
            kinds: dict[int, int] = {}
            for place in places:
                number = self._samples[place]
                kind = kinds.setdefault(self._golds[place], len(kinds))
                yield IndistinguishableQuestion(ids[number], place - first[number], group, kind)

    def _repeated(self) -> frozenset[int]:
        """Digests of content that more than one question shows."""
        return frozenset(content for content, following in pairwise(sorted(self._shown)) if content == following)


def _gold(sample: Sample, turn: int, gold: Answer | None) -> int:
    if gold is None:
        return _digest(None if sample.images else (sample.id, turn))
    return _digest((sorted(gold.options), sorted(gold.texts)))


def _digest(content: object) -> int:
    """A number of 64 bits; among a million questions two different ones collide in one build out of 40 million."""
    return int.from_bytes(hashlib.blake2b(_encode(content), digest_size=8).digest())


# --- questions set apart as examples ----------------------------------------------------------------------------------


Question = tuple[Draft, Sample, list[Answer]]
ALL = "all"


class ExampleDrawer:
    """Lets the questions of a stream pass, except those that are set apart, which are in `questions` when the stream
    has ended.

    `which` is a number, a condition on tags, or `all`. Of a number the first pictures in a random order are taken whole
    until there are as many questions with a known answer. Raises DataError for what is none of these.
    """

    def __init__(self, choice: str, spec: BenchmarkSpec, seed: int) -> None:
        self.questions: list[Question] = []
        self._which, self._spec, self._seed = choice.strip(), spec, seed
        self._count = int(self._which) if self._which.isdecimal() else None
        if self._count == 0:
            raise DataError("--examples 0 sets nothing apart; leave it out, or give a number from 1 up")
        is_condition = self._count is None and self._which not in ("", ALL)
        self._condition = Condition(self._which, flag="--examples") if is_condition else None

    def without_examples(self, questions: Iterable[Question]) -> Iterator[Question]:
        """The questions that are not set apart."""
        if self._count is not None:
            yield from self._first_pictures(questions, self._count)
        else:
            for question in questions:
                if self._is_example(question[0]):
                    self.questions.append(question)
                else:
                    yield question
        if self._which and not self.questions:
            raise DataError(f"{self._spec.name}: no question fits --examples {self._which!r}")

    def _is_example(self, draft: Draft) -> bool:
        if self._condition is not None:
            return self._condition.holds({**self._spec.facts(), **draft.tags, **draft.answer_tags})
        return self._which == ALL

    def _first_pictures(self, questions: Iterable[Question], count: int) -> Iterator[Question]:
        """All questions but those about the first pictures in a random order that have `count` of them together."""
        chosen: dict[str, list[Question]] = defaultdict(list)
        latest: list[tuple[float, str]] = []
        total, limit = 0, 1.0
        for question in questions:
            _, sample, golds = question
            group = sample.group
            place = rng_for(self._spec.name, group, "examples", self._seed).random()
            if place >= limit or not golds:
                yield question
                continue
            if group not in chosen:
                heapq.heappush(latest, (-place, group))
            chosen[group].append(question)
            total += 1
            while total - len(chosen[latest[0][1]]) >= count:
                negative_place, last = heapq.heappop(latest)
                limit = -negative_place
                total -= len(chosen[last])
                yield from chosen.pop(last)
        if total < count:
            raise DataError(
                f"{self._spec.name}: only {total} questions have a known answer, so {count} cannot be set apart as "
                "examples; give a smaller number, or `all` for a benchmark of examples alone"
            )
        self.questions = [question for _, group in sorted(latest, reverse=True) for question in chosen[group]]

    def examples(self) -> Iterator[Example]:
        """The questions set apart, with their answers. Raises DataError for a dialogue, and for a hidden answer."""
        for draft, sample, golds in self.questions:
            if sample.turns:
                raise DataError(f"{draft.where}: a dialogue cannot be an example; set apart questions of one round")
            if not golds:
                raise DataError(f"{draft.where}: the answer is hidden, so the question cannot be an example")
            [gold] = golds
            yield Example(**asdict(sample), gold=gold.options, texts=gold.texts)
