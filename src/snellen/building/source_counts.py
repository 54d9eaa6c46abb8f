"""Count the questions and images of official files, and compare them with the tables of the paper.

Nothing is built. The evaluated part passes through the checks of a build, images included, so that files which `build`
would reject do not seem to agree with the paper.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.checking import DraftChecker
from snellen.building.recipe import BuildStats, Recipe, needs_writing, reformulate
from snellen.catalogue import BenchmarkSpec
from snellen.common.drafts import (
    Draft,
    ImageFile,
    ImageSpec,
    LazyFrames,
    LazyImage,
    QuestionDraft,
)
from snellen.common.images import ImageStore
from snellen.errors import DataError
from snellen.readers.calling import find_reader
from snellen.reformulation.distractors import Rejected
from snellen.reformulation.sampling import draw_sample

SHARE_TOLERANCE = 0.03
"""Largest accepted difference between a share of the questions and the share that published
accuracies imply.

It is about two standard errors for a few hundred questions.
"""


class Composition(Struct):
    """How often each answer is correct among the evaluated questions with options."""

    questions: int = 0
    """Questions with options and a known answer."""
    answers: Counter[str] = msgspec.field(default_factory=Counter)
    """Number of questions by the text of the correct option."""
    correct_by_chance: float = 0.0
    """Expected number of questions that a random choice answers correctly."""

    def add(self, question: QuestionDraft) -> None:
        """Count a question by its correct options.

        Questions without options or without a known answer are ignored.
        """
        if not question.gold or not question.options:
            return
        self.questions += 1
        self.answers.update(question.options[option] for option in question.gold)
        self.correct_by_chance += len(question.gold) / len(question.options)

    def share(self, answer: str) -> float:
        """Return the share of the questions, from 0 to 1, whose correct option is `answer`."""
        return self.answers[answer] / self.questions

    @property
    def chance(self) -> float:
        """Accuracy of a random choice."""
        return self.correct_by_chance / self.questions


class SourceCounts(Struct, frozen=True):
    """The counts of one benchmark."""

    read: int
    """Questions in the files."""
    complete: int
    """Questions of the complete benchmark, drawn from the files as in the paper."""
    images: int
    """Images of the complete benchmark."""
    sampled: int
    """Questions that are evaluated."""
    notes: tuple[str, ...] = ()
    """Rows that the reader excluded, and why."""
    composition: Composition = msgspec.field(default_factory=Composition)
    """Correct answers of the evaluated questions. Distractors that a model would write are replaced by placeholders."""
    refused: str = ""
    """Why a build of the evaluated part would fail; empty if it would not."""


def count_source(spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """Count the questions and images of a benchmark's official files, and check the questions that would be evaluated.

    Args:
        spec: The benchmark entry.
        source: The folder with the files; None for their usual place.

    Raises:
        DataError: Files are missing or wrong.
    """
    counts = _count_questions(spec, source)
    composition, refused = _check_evaluated(spec, source)
    return replace(counts, composition=composition, refused=refused)


def _count_questions(spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """Count the questions and images of a benchmark's source files, without opening the images.

    Three numbers of questions are counted: those in the files, those of the published benchmark, and those that a run
    evaluates.

    Args:
        spec: The benchmark entry.
        source: The folder with the files; None for their usual place.
    """
    reader = find_reader(spec.source.reader)
    strata: list[str] = []
    images_by_draft: list[tuple[Hashable, ...]] = []
    notes: list[str] = []
    for draft in reader(spec.source.params, source):
        strata.append(draft.stratum)
        images_by_draft.append(_image_identities(draft))
        notes += draft.notes
    complete = draw_sample(strata, spec.source.select, spec.draw, "select", 0)
    complete_strata = [strata[index] for index in complete]
    sampled = draw_sample(complete_strata, spec.source.sample, spec.draw, "sample", 0)
    complete_images: set[Hashable] = set()
    for index in complete:
        complete_images.update(images_by_draft[index])
    return SourceCounts(
        read=len(strata),
        complete=len(complete),
        images=len(complete_images),
        sampled=len(sampled),
        notes=tuple(notes),
    )


def _check_evaluated(spec: BenchmarkSpec, source: Path | None) -> tuple[Composition, str]:
    """Run the evaluated questions through the checks of a build, without writing anything.

    Returns:
        How often each answer is correct, and the first reason why a build would fail; the reason is
        empty if it would succeed.
    """
    reader = find_reader(spec.source.reader)
    composition = Composition()

    def evaluated() -> Iterator[Draft]:
        """Yield the samples that a build would include, and count their options in `composition`."""
        read = partial(reader, spec.source.params, source)
        for draft in reformulate(spec, read, Recipe(), _PlaceholderWriter(), BuildStats()):
            for question in draft.rounds:
                composition.add(question)
            yield draft

    refused = ""
    drafts = evaluated()
    with tempfile.TemporaryDirectory(prefix="snellen-verify-") as folder:
        checker = DraftChecker(spec, ImageStore(Path(folder)))
        try:
            for draft in checker.sound(drafts):
                checker.split(draft)
        except DataError as error:
            refused = str(error).splitlines()[0]
    with suppress(DataError):  # the first one is known; the other drafts are still counted
        for _ in drafts:
            pass
    return composition, refused


class _PlaceholderWriter:
    """Distractor writer that calls no model: it writes `distractor 1`, `distractor 2` and so on."""

    name = ""

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        """Give each question placeholders as wrong options, because only the number of questions matters here."""
        texts = tuple(f"distractor {number}" for number in range(1, count + 1))
        written: list[Draft] = []
        for draft in drafts:
            rounds = tuple(_with_distractors(question, texts) for question in draft.rounds)
            written.append(replace(draft, rounds=rounds))
        return written


def _with_distractors(question: QuestionDraft, texts: tuple[str, ...]) -> QuestionDraft:
    """Return a question with these distractors, if a model must write them."""
    if question.distractors is None or not needs_writing(question):
        return question
    return replace(question, distractors=replace(question.distractors, tiers=(texts,)))


def _image_identities(draft: Draft) -> tuple[Hashable, ...]:
    """Return a value for each image of a sample by which equal images are recognised: its file and
    its crop.

    Outlines are ignored, so that two boxes drawn on one photo count as one image.
    """
    identities: list[Hashable] = []
    for image in draft.images:
        if isinstance(image, ImageSpec):
            identities.append((_file_identity(image.file), image.crop))
        else:
            identities.append((_file_identity(image), None))
    return tuple(identities)


def _file_identity(file: ImageFile | LazyFrames) -> Hashable:
    """Return the path of a file, or a digest of its content if it has none."""
    if isinstance(file, (LazyImage, LazyFrames)):
        return file.place
    if isinstance(file, Path):
        return file
    return hashlib.blake2b(file, digest_size=16).digest()


def count_differences(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Compare the counts of a benchmark's official files with the numbers that were published.

    Args:
        spec: The benchmark entry, which has the published numbers.
        counted: The counts of the files.

    Returns:
        The differences as texts, such as `samples 3,669, paper 3,680`; an empty list if there are
        none.
    """
    comparisons = (
        ("samples", counted.complete, spec.complete.samples, "paper"),
        ("images", counted.images, spec.complete.images, "paper"),
        ("evaluated", counted.sampled, spec.expected.samples, "published data"),
    )
    differences: list[str] = []
    for noun, count, published, publication in comparisons:
        if published is not None and published != count:
            differences.append(f"{noun} {count:,}, {publication} {published:,}")
    for share in implied_shares(spec, counted):
        if abs(share.here - share.implied) > SHARE_TOLERANCE:
            differences.append(f"{share}, which published accuracies imply")
    return differences


class ImpliedShare(Struct, frozen=True):
    """A share of the evaluated questions next to the share that published accuracies imply, both in [0, 1].

    For example, a model that always answers yes has the share of yes as its published accuracy.
    """

    what: str
    """Such as `answer 'yes'` or `guessing`."""
    here: float
    implied: float

    def __str__(self) -> str:
        return f"{self.what} {self.here:.1%}, not {self.implied:.1%}"


def implied_shares(spec: BenchmarkSpec, counted: SourceCounts) -> list[ImpliedShare]:
    """Return how often each answer is correct here, next to how often it was correct in the published evaluation.

    The second share follows from published accuracies, which the entry declares (`implied`): a model that always
    answers yes is right as often as yes is correct. The accuracy of guessing is compared in the same way. The list is
    empty if the entry declares no such accuracies, or if no question has options.
    """
    composition = counted.composition
    implied = spec.implied
    if not composition.questions:
        return []
    shares: list[ImpliedShare] = []
    for answer, implied_share in implied.answers.items():
        shares.append(ImpliedShare(f"answer {answer!r}", composition.share(answer), implied_share))
    if implied.chance is not None:
        shares.append(ImpliedShare("guessing", composition.chance, implied.chance))
    return shares


def difference_reasons(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Return texts that say why the counts may differ from the published ones.

    They are the remark in the entry and the rows that the reader excluded. If there are neither,
    but a difference exists, a likely cause is returned; if all counts agree, an empty list.
    """
    reasons = list(counted.notes)
    if spec.remark:
        reasons.insert(0, spec.remark)
    if reasons or not count_differences(spec, counted):
        return reasons
    expected = spec.complete.samples
    if expected is not None and counted.read < expected:
        return [
            "the files contain fewer questions than the paper reports: they are from another release, or "
            "incomplete"
        ]
    if expected is not None and counted.complete > expected:
        return [
            "the paper applied a further filter that it does not describe, or used another release"
        ]
    return ["another release of the files, or a random draw whose seed the paper does not give"]
