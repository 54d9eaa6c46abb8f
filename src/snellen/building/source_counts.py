"""Counts questions and pictures in official files and compares them with the paper's tables, without keeping a build.

The evaluated part goes through the checks of a build, pictures and all, so that nothing agrees that `build` refuses.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.checking import DraftChecker
from snellen.building.recipe import BuildStats, Recipe, needs_writing, reformulate
from snellen.catalogue import BenchmarkSpec
from snellen.common.drafts import (
    Draft,
    ImageFile,
    LazyFrames,
    LazyImage,
    PictureSpec,
    QuestionDraft,
)
from snellen.common.images import ImageStore
from snellen.errors import DataError
from snellen.reformulation.distractors import Rejected
from snellen.reformulation.sampling import draw_sample

TOLERANCE = 0.03
"""How far a share may lie from what published accuracies imply: some two standard errors of a few hundred questions."""


class Composition(Struct):
    """What the evaluated questions with options are made of."""

    questions: int = 0
    answers: Counter[str] = msgspec.field(default_factory=Counter)
    """For how many questions an answer is right."""
    guessed: float = 0.0
    """Questions that guessing gets right, on average."""

    def add(self, question: QuestionDraft) -> None:
        if question.gold and question.options:
            self.questions += 1
            self.answers.update(question.options[place] for place in question.gold)
            self.guessed += len(question.gold) / len(question.options)

    def share(self, answer: str) -> float:
        return self.answers[answer] / self.questions

    @property
    def chance(self) -> float:
        return self.guessed / self.questions


class SourceCounts(Struct, frozen=True):
    """The counts of one benchmark."""

    read: int
    """Questions in the files."""
    complete: int
    """Questions of the complete benchmark, drawn from the files as in the paper."""
    images: int
    """Pictures of the complete benchmark."""
    sampled: int
    """Questions that are evaluated."""
    notes: tuple[str, ...] = ()
    """What the reader excluded, and why."""
    composition: Composition = msgspec.field(default_factory=Composition)
    """What the evaluated questions are made of; distractors that a model writes are taken to be written."""
    refused: str = ""
    """Why a build of the evaluated part is refused; empty when it is not."""


def count_source(spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """Count a benchmark's questions as a build would, and check the evaluated ones.

    Raises DataError for files that are missing or wrong.
    """
    reader = registry.find("readers", spec.source.reader)
    strata: list[str] = []
    pictures: list[tuple[Hashable, ...]] = []
    notes: list[str] = []
    for draft in reader(spec.source.params, source):
        strata.append(draft.stratum)
        pictures.append(_pictures(draft))
        notes += draft.notes
    complete = draw_sample(strata, spec.source.select, spec.draw, "select", 0)
    sampled = draw_sample(
        [strata[place] for place in complete], spec.source.sample, spec.draw, "sample", 0
    )
    images = {picture for place in complete for picture in pictures[place]}
    counted = SourceCounts(len(strata), len(complete), len(images), len(sampled), tuple(notes))
    del strata, pictures
    return _checked(counted, spec, source)


def _checked(counted: SourceCounts, spec: BenchmarkSpec, source: Path | None) -> SourceCounts:
    """The counts with what the evaluated questions are made of, and the first reason why a build refuses them."""
    reader = registry.find("readers", spec.source.reader)
    composition, refused = Composition(), ""

    def evaluated() -> Iterator[Draft]:
        whole = partial(reader, spec.source.params, source)
        for draft in reformulate(spec, whole, Recipe(), _Unwritten(), BuildStats()):
            for question in draft.rounds:
                composition.add(question)
            yield draft

    drafts = evaluated()
    with tempfile.TemporaryDirectory(prefix="snellen-verify-") as folder:
        checker = DraftChecker(spec, ImageStore(Path(folder)))
        try:
            for draft in checker.sound(drafts):
                checker.split(draft)
        except DataError as error:
            refused = str(error).splitlines()[0]
    with suppress(DataError):  # the first one is known
        for _ in drafts:
            pass
    return replace(counted, composition=composition, refused=refused)


class _Unwritten:
    """Stands for the model that writes distractors: as many as are wanted, without words of their own."""

    name = ""

    def write(
        self, benchmark: str, drafts: Sequence[Draft], count: int, rejected: Rejected
    ) -> list[Draft]:
        texts = tuple(f"distractor {number}" for number in range(1, count + 1))
        return [replace(draft, rounds=tuple(_with_tier(draft.rounds, texts))) for draft in drafts]


def _with_tier(rounds: Iterable[QuestionDraft], tier: tuple[str, ...]) -> Iterator[QuestionDraft]:
    for question in rounds:
        if question.distractors and needs_writing(question):
            yield replace(question, distractors=replace(question.distractors, tiers=(tier,)))
        else:
            yield question


def _pictures(draft: Draft) -> tuple[Hashable, ...]:
    """Identities of a draft's pictures: the file and the crop. Outlines do not make another picture."""
    return tuple(
        (_file(image.file), image.crop) if isinstance(image, PictureSpec) else (_file(image), None)
        for image in draft.images
    )


def _file(file: ImageFile | LazyFrames) -> Hashable:
    if isinstance(file, (LazyImage, LazyFrames)):
        return file.place
    return file if isinstance(file, Path) else hashlib.blake2b(file, digest_size=16).digest()


def count_differences(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Counts that differ from the paper's, as in `samples 3,669, paper 3,680`; empty when all agree."""
    rows = (
        ("samples", counted.complete, spec.complete.samples, "paper"),
        ("images", counted.images, spec.complete.images, "paper"),
        ("evaluated", counted.sampled, spec.expected.samples, "published data"),
    )
    counts = [
        f"{noun} {count:,}, {where} {printed:,}"
        for noun, count, printed, where in rows
        if printed not in (None, count)
    ]
    shares = (
        share
        for share in implied_shares(spec, counted)
        if abs(share.here - share.implied) > TOLERANCE
    )
    return [*counts, *(f"{share}, which published accuracies imply" for share in shares)]


class ImpliedShare(Struct, frozen=True):
    """A share of the evaluated questions beside what published accuracies imply of it, both in [0, 1]."""

    what: str
    here: float
    implied: float

    def __str__(self) -> str:
        return f"{self.what} {self.here:.1%}, not {self.implied:.1%}"


def implied_shares(spec: BenchmarkSpec, counted: SourceCounts) -> list[ImpliedShare]:
    """The shares of answers, and the accuracy of guessing, of which published accuracies imply something."""
    composition, implied = counted.composition, spec.implied
    if not composition.questions:
        return []
    shares = [
        ImpliedShare(f"answer {name!r}", composition.share(name), share)
        for name, share in implied.answers.items()
    ]
    if implied.chance is not None:
        shares.append(ImpliedShare("guessing", composition.chance, implied.chance))
    return shares


def difference_reasons(spec: BenchmarkSpec, counted: SourceCounts) -> list[str]:
    """Why counts may differ: the entry's remark and the reader's exclusions, or else the likeliest causes."""
    reasons = [*([spec.remark] if spec.remark else []), *counted.notes]
    if reasons or not count_differences(spec, counted):
        return reasons
    expected = spec.complete.samples
    if expected is not None and counted.read < expected:
        return ["the files give fewer questions than the paper has: another release, or not whole"]
    if expected is not None and counted.complete > expected:
        return [
            "the paper filtered further by a rule that it does not print, or used another release"
        ]
    return ["another release of the files, or a draw that the paper did not seed"]
