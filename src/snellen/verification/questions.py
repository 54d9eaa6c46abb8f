"""The questions of a built benchmark as checks see them: one record for each, with its texts folded once."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.catalogue import BenchmarkSpec
from snellen.metrics.normalise import standard_normalise
from snellen.records import Answer, ImageRef, Sample
from snellen.scoring.answers import Key, open_answers

_ARTICLES = frozenset({"a", "an", "the"})
# Signs that `standard_normalise` drops although they distinguish texts: x < 5 is not x > 5, -5 is not 5.
_SIGNS = re.compile(r"[<>=≤≥≠*/^%$€£°±×÷~&|]|(?<!\w)[-−](?=[\d.])")


class LintQuestion(Struct, frozen=True, gc=False):
    """One question with its correct answer, in the form in which checks compare questions.

    `gold` has the indices of the correct options, and `texts` the accepted answers. Both are empty if the answer is
    hidden.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> question = LintMaterial.of(open_benchmark("eyechart/colour")).questions[0]
        >>> question.chance
        0.25
    """

    n_folds: ClassVar[int] = 5
    """Number of parts (folds) into which the questions are divided by image. What is learned on four is tested on the
    fifth."""
    id: str
    """Identifier of the sample; followed by `#2` for the second round of a dialogue."""
    sample_id: str
    group: str
    scene: int
    """Equal for questions about the same images, regions, context and history."""
    question: str
    options: tuple[str, ...]
    folded: tuple[str, ...]
    """The options without case, punctuation and articles."""
    gold: tuple[int, ...]
    texts: tuple[str, ...]
    tags: dict[str, str]
    """Tags of the sample, without the tags of its answer."""

    @property
    def fold(self) -> int:
        """Which of the `n_folds` parts (folds) the question belongs to, from 0.

        A check can learn from the questions of some folds and be tested on another. All questions about one image are
        in the same fold.
        """
        return zlib.crc32(self.group.encode()) % self.n_folds

    @property
    def chance(self) -> float:
        return len(self.gold) / len(self.options)

    def expected_accuracy(self, candidates: list[int]) -> float:
        """Return the probability that a random one of some options is correct.

        Args:
            candidates: Indices of the options; if empty, all.
        """
        indices = candidates or list(range(len(self.options)))
        n_correct = sum(index in self.gold for index in indices)
        return n_correct / len(indices)


class LintMaterial(Struct, frozen=True):
    """Everything that the checks look at.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> material = LintMaterial.of(open_benchmark("eyechart/colour"))
        >>> material.questions[0].folded
        ('green', 'blue', 'pink', 'yellow')
    """

    max_length: ClassVar[int] = 4000
    """Number of characters of context and questions above which a sample is long."""
    benchmark: Benchmark
    questions: list[LintQuestion]
    pictures: dict[str, ImageRef]
    """By digest, in order of appearance."""
    uses: Counter[str]
    """How many samples show each image."""
    first_sample: dict[str, str]
    """The first sample that shows each image."""
    imageless: list[str]
    """Samples without an image."""
    long: list[str]
    """Samples whose context and questions have more than `max_length` characters."""

    @classmethod
    def of(cls, benchmark: Benchmark) -> LintMaterial:
        """Collect what the checks of a benchmark need: its questions, its images and how often each is used, and odd samples.

        Raises:
            DataError: A file of the benchmark cannot be read.
        """
        answers = open_answers(benchmark.folder)
        material = cls(benchmark, [], {}, Counter(), {}, [], [])
        for sample in benchmark.samples():
            material.questions.extend(_questions(sample, answers))
            for image in sample.images:
                material.pictures.setdefault(image.digest, image)
                material.first_sample.setdefault(image.digest, sample.id)
                material.uses[image.digest] += 1
            if not sample.images:
                material.imageless.append(sample.id)
            texts = [sample.context or "", *(turn.question for turn in sample.rounds)]
            if sum(map(len, texts)) > cls.max_length:
                material.long.append(sample.id)
        return material

    @property
    def spec(self) -> BenchmarkSpec:
        return self.benchmark.spec

    @property
    def choices(self) -> list[LintQuestion]:
        """Questions with options whose gold is known."""
        return [q for q in self.questions if q.options and q.gold]


def _questions(sample: Sample, answers: Mapping[Key, Answer]) -> Iterator[LintQuestion]:
    """Yield the questions of a sample in the form that checks compare, with folded texts.

    A scene is everything that is shown before a question: images, regions, context, and earlier rounds of a dialogue.
    """
    image_digests = tuple(image.digest for image in sample.images)
    scene = hash((image_digests, sample.regions, sample.context))
    for number, turn in enumerate(sample.rounds):
        answer = answers.get((sample.id, number))
        question = fold_text(turn.question)
        yield LintQuestion(
            id=f"{sample.id}#{number + 1}" if sample.turns else sample.id,
            sample_id=sample.id,
            group=sample.group,
            scene=scene,
            question=question,
            options=turn.options,
            folded=tuple(fold_text(option) for option in turn.options),
            gold=answer.options if answer else (),
            texts=answer.texts if answer else (),
            tags=sample.tags,
        )
        scene = hash((scene, question))


def fold_text(text: str) -> str:
    """Reduce a text to what matters when two texts are compared.

    Capital letters, punctuation and articles are dropped. Signs that carry meaning, such as `<`, are kept and moved to
    the end. A text of nothing but other signs is returned unchanged, so only an empty text becomes empty.

    Examples:
        >>> fold_text("The Boat!"), fold_text("x < 5")
        ('boat', 'x 5 <')
    """
    words = standard_normalise(text).split()
    content_words = [word for word in words if word not in _ARTICLES]
    signs = _SIGNS.findall(text)
    folded = " ".join([*(content_words or words), *signs])
    return folded or text.strip()
