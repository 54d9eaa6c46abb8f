"""Set few-shot examples apart from the questions of a benchmark."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec.structs import asdict

from snellen.building.checking import Question
from snellen.callers import setting
from snellen.catalogue import BenchmarkSpec
from snellen.common.conditions import Condition
from snellen.common.drafts import Draft
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Example

ALL = "all"


class ExampleDrawer:
    """Filter that removes few-shot examples from a stream of questions and keeps them in `questions`.

    Args:
        choice: A number of examples, a condition on tags, `all`, or nothing. For a number, images are taken in a random
            order, each with all its questions, until there are enough questions with a known answer.
        spec: The benchmark.
        seed: Seed of the random order.

    Raises:
        DataError: `choice` is 0 or not a valid condition.
    """

    def __init__(self, choice: str, spec: BenchmarkSpec, seed: int) -> None:
        """Choose which questions of a benchmark are reserved as solved examples for prompts.

        Args:
            choice: A number of questions, a condition on their tags, `ALL`, or empty for none.
            spec: The benchmark.
            seed: Seed of the draw.

        Raises:
            DataError: The number is 0.
        """
        self.questions: list[Question] = []
        self._choice = choice.strip()
        self._spec = spec
        self._seed = seed
        self._count: int | None = None
        self._condition: Condition | None = None
        if self._choice.isdecimal():
            self._count = int(self._choice)
        elif self._choice not in ("", ALL):
            self._condition = Condition(self._choice, setting="examples")
        if self._count == 0:
            raise DataError(
                f"{setting('examples', 0)} reserves nothing; remove it, or give a number of at least 1"
            )

    def without_examples(self, questions: Iterable[Question]) -> Iterator[Question]:
        """Yield the questions that are not examples, and collect the examples in `questions`.

        Raises:
            DataError: At the end: there are fewer examples than the number that was given, or none.
        """
        if self._count is not None:
            yield from self._without_first_images(questions, self._count)
        else:
            for question in questions:
                draft, _, _ = question
                if self._is_example(draft):
                    self.questions.append(question)
                else:
                    yield question
        if self._choice and not self.questions:
            raise DataError(
                f"{self._spec.name}: no question meets the condition {setting('examples', self._choice, is_quoted=True)}"
            )

    def _is_example(self, draft: Draft) -> bool:
        """Return whether a draft meets the user's condition on tags, or is an example because all are."""
        if self._condition is None:
            return self._choice == ALL
        return self._condition.holds({**self._spec.facts(), **draft.tags, **draft.answer_tags})

    def _without_first_images(
        self, questions: Iterable[Question], count: int
    ) -> Iterator[Question]:
        """Yield all questions except those reserved as examples, which are about randomly chosen
        images.

        Each image gets a random number. Images with the lowest numbers are reserved with all their
        questions, no more of them than are necessary for `count` questions with an answer. As soon
        as an image is not necessary any more, its questions are yielded, so that few questions are
        in memory.

        Raises:
            DataError: Fewer than `count` questions have an answer.
        """
        reserved: dict[str, list[Question]] = defaultdict(list)  # by image
        highest_first: list[tuple[float, str]] = []  # heap of (-random number, image)
        n_reserved = 0
        bound = 1.0  # images with this random number or a higher one are not necessary
        for question in questions:
            _, sample, answers = question
            image = sample.group
            random_number = rng_for(self._spec.name, image, "examples", self._seed).random()
            if random_number >= bound or not answers:
                yield question
                continue
            if image not in reserved:
                heapq.heappush(highest_first, (-random_number, image))
            reserved[image].append(question)
            n_reserved += 1
            # Release the images with the highest numbers while the others have enough questions.
            while True:
                _, highest_image = highest_first[0]
                if n_reserved - len(reserved[highest_image]) < count:
                    break
                negative_number, _ = heapq.heappop(highest_first)
                bound = -negative_number
                n_reserved -= len(reserved[highest_image])
                yield from reserved.pop(highest_image)
        if n_reserved < count:
            raise DataError(
                f"{self._spec.name}: only {n_reserved} questions have an answer, so {count} cannot be reserved as "
                "examples; give a smaller number, or `all` for a benchmark that contains only examples"
            )
        # A negative number sorts the image with the lowest random number last, so the order is reversed.
        for _, image in sorted(highest_first, reverse=True):
            self.questions.extend(reserved[image])

    def examples(self) -> Iterator[Example]:
        """Yield the reserved examples with their answers.

        Raises DataError if one is a dialogue or has a hidden answer.
        """
        for draft, sample, golds in self.questions:
            if sample.turns:
                raise DataError(
                    f"{draft.where}: a dialogue cannot be a few-shot example; reserve questions with a single "
                    "round"
                )
            if not golds:
                raise DataError(
                    f"{draft.where}: the answer is hidden, so the question cannot be an example"
                )
            [gold] = golds
            yield Example(**asdict(sample), gold=gold.options, texts=gold.texts)
