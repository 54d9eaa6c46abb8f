"""Check drafts, split them into question and answer, and count what was built."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from snellen.building.benchmark import BenchmarkCounts
from snellen.building.draft_images import DraftImages
from snellen.building.draft_rules import check_draft
from snellen.building.indistinguishable import IndistinguishableFinder
from snellen.building.skipped_rows import fault_order
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.entries import ExpectedCounts
from snellen.common.drafts import Draft
from snellen.common.images import ImageStore
from snellen.errors import DataError, WrongRowsError
from snellen.records import (
    Answer,
    Example,
    Formulation,
    IndistinguishableQuestion,
    Sample,
    SetApartQuestion,
    Turn,
)

MAX_TAG_VALUES = 100
"""Largest number of different values of a tag for which samples are counted by value."""
Question = tuple[Draft, Sample, list[Answer]]
"""A draft, and the two parts that it was split into: the sample that models are shown, and the
answers.
"""


class DraftChecker:
    """Checks the drafts of one build, splits them, and counts the questions that are written.

    A draft passes through `sound` and `split`. Then it is either set apart (`without_set_apart`), shown as an example
    (`count_example`) or written (`count`).

    Args:
        spec: The benchmark.
        images: Where its images are stored.
    """

    def __init__(self, spec: BenchmarkSpec, images: ImageStore) -> None:
        """Start a build without samples.

        Args:
            spec: The benchmark entry that declares the expected counts.
            images: Where the images are stored.
        """
        self._spec = spec
        self._images = DraftImages(images)
        self._where_by_id: dict[str, str] = {}
        self.set_apart: list[SetApartQuestion] = []
        """Questions that checks or people found bad."""

        self.samples = 0
        self.histories = 0
        """Dialogues with published replies."""
        self.origins = 0
        """Samples that several rows of the source show."""
        self._questions = 0
        self._answers = 0
        self._examples = 0
        self._formulations: Counter[Formulation] = Counter()
        self._tags: dict[str, Counter[str]] = {}
        self._answer_tags: set[str] = set()
        self._notes: list[str] = []
        self._indistinguishable = IndistinguishableFinder()
        self._counted_ids: list[str] = []

    def sound(self, drafts: Iterable[Draft]) -> Iterator[Draft]:
        """Check drafts, and yield them until the first one has a fault.

        The drafts after it are checked but not yielded, so that the error reports all faults at once. A fault is an
        empty text, an id that occurs twice, an image that cannot be read, and the like. The images are stored.

        Raises:
            WrongRowsError: At the end, with all faults.
            DataError: The source has no drafts.
        """
        faults: list[str] = []
        stream = iter(drafts)
        while True:
            try:
                draft = next(stream)
                check_draft(draft)
                self._check_id(draft)
                list(self._images.named(draft))  # stores the images
            except StopIteration:
                break
            except DataError as error:
                faults += error.faults if isinstance(error, WrongRowsError) else [str(error)]
                # If the reader raised the error, it yields nothing more, and the loop ends. If a
                # draft failed a check, the next ones are checked too.
                continue
            if not faults:
                yield draft
        if faults:
            raise WrongRowsError(sorted(faults, key=fault_order))
        if not self._where_by_id:
            raise DataError(f"{self._spec.name}: the source has no questions")

    def _check_id(self, draft: Draft) -> None:
        """Remember the identifier of a sample. Raises DataError if another sample has the same one."""
        if draft.id in self._where_by_id:
            raise DataError(
                f"{draft.where}: the id {draft.id!r} is already used by {self._where_by_id[draft.id]}; ids must "
                "be unique"
            )
        self._where_by_id[draft.id] = draft.where

    def split(self, draft: Draft) -> tuple[Sample, list[Answer]]:
        """Split a draft into the sample that models are shown, which has no answers, and the known answers.

        A question whose answer is hidden has none. If the draft names no group, related samples are those with the
        same first image.
        """
        images = tuple(image for _, image in self._images.named(draft))
        group = draft.group
        if not group:
            group = images[0].digest if images else draft.id
        sample = Sample(
            id=draft.id,
            benchmark=self._spec.name,
            images=images,
            context=draft.context,
            regions=draft.regions,
            group=group,
            tags=draft.tags,
        )
        if draft.dialogue:
            turns = tuple(Turn(each.question, each.options) for each in draft.rounds)
            sample = replace(sample, turns=turns)
        else:
            first = draft.rounds[0]
            sample = replace(
                sample,
                question=first.question,
                options=first.options,
                rewordings=first.rewordings,
            )

        answers: list[Answer] = []
        for turn, question in enumerate(draft.rounds):
            if not question.gold and not question.texts:
                continue  # the answer is hidden
            answers.append(
                Answer(
                    sample_id=draft.id,
                    turn=turn,
                    options=question.gold,
                    texts=question.texts,
                    relevance=question.relevance,
                    tags=draft.answer_tags,
                    candidates=question.candidates,
                    judge_notes=draft.judge_notes,
                )
            )
        return sample, answers

    def without_set_apart(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions of the benchmark, without those that a check or a reviewer found to
        be bad.

        The bad ones are collected in `set_apart`, with the reasons.
        """
        for draft, sample, answers in questions:
            if draft.set_apart:
                self._notes += draft.notes
                self.set_apart.append(SetApartQuestion(sample, tuple(answers), draft.set_apart))
            else:
                yield draft, sample, answers

    def names(self, draft: Draft) -> tuple[str, ...]:
        """Return the names of the files of a draft's images, without images that have no file of their own."""
        names = []
        for name, _ in self._images.named(draft):
            if name:
                names.append(name)
        return tuple(names)

    def count(self, sample: Sample, answers: list[Answer], draft: Draft) -> None:
        """Add a sample that is written to the benchmark to the counts of its manifest.

        Args:
            sample: The sample.
            answers: The correct answers to its questions.
            draft: The sample as the reader made it.
        """
        self.samples += 1
        self._questions += len(sample.rounds)
        self._answers += len(answers)
        if draft.replies:
            self.histories += 1
        if draft.rows:
            self.origins += 1
        self._notes += draft.notes
        self._indistinguishable.note(sample, answers, draft.replies)
        self._counted_ids.append(sample.id)
        self._formulations[sample.formulation] += 1
        for name, value in sample.tags.items():
            self._tags.setdefault(name, Counter())[value] += 1
        for answer in answers:
            self._answer_tags.update(answer.tags)

    def count_example(self, example: Example) -> None:
        """Count a few-shot example."""
        self._examples += 1
        self._formulations[example.formulation] += 1

    # --- what was built ----------------------------------------------------------------------------------------------

    def indistinguishable(self) -> Iterator[IndistinguishableQuestion]:
        """Yield the questions that look the same to a model as another question with a different
        answer.
        """
        return self._indistinguishable.questions(self._counted_ids)

    def formulation(self) -> Formulation:
        """Return the formulation of most samples. Raises DataError if there are none."""
        if not self._formulations:
            raise DataError(
                f"{self._spec.name}: all {len(self.set_apart)} questions are set aside; none remains in the "
                "benchmark"
            )
        [(formulation, _)] = self._formulations.most_common(1)
        return formulation

    def counts(self) -> BenchmarkCounts:
        """Return the numbers of samples, questions, images, answers and examples."""
        return BenchmarkCounts(
            samples=self.samples,
            questions=self._questions,
            images=len(self._images.digests),
            answers=self._answers,
            examples=self._examples,
        )

    def tag_counts(self) -> dict[str, dict[str, int]]:
        """Return how many samples have each value of each tag: `{"level": {"easy": 20, "hard": 20}}`.

        A tag with more than 100 values, such as an index, has no counts.
        """
        counts: dict[str, dict[str, int]] = {}
        for name, values in sorted(self._tags.items()):
            if len(values) > MAX_TAG_VALUES:
                counts[name] = {}
            else:
                counts[name] = dict(sorted(values.items()))
        return counts

    def answer_tags(self) -> tuple[str, ...]:
        """Return the names of the tags that give answers away, which are stored with the answers."""
        return tuple(sorted(self._answer_tags))

    def warnings(self, is_part: bool) -> tuple[str, ...]:
        """Return warnings about a finished build.

        They name counts that differ from the declared ones, the number of questions without an answer, and notes of the
        reader.

        Args:
            is_part: Whether only a part of the benchmark was built, so that the declared counts do not apply.
        """
        expected = ExpectedCounts() if is_part else self._spec.expected
        counts = self.counts()
        n_samples = counts.samples + counts.examples + len(self.set_apart)
        warnings: list[str] = []
        if expected.samples not in (None, n_samples):
            warnings.append(f"samples: built {n_samples}, expected {expected.samples}")
        if expected.images not in (None, counts.images):
            warnings.append(f"images: built {counts.images}, expected {expected.images}")
        n_hidden = counts.questions - counts.answers
        if counts.answers and n_hidden > 0:
            warnings.append(f"{n_hidden} of {counts.questions} questions have no answer")
        return (*warnings, *self._notes)
