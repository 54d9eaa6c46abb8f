"""The questions of a built benchmark as checks see them: one record for each, with its texts folded once."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.catalogue import BenchmarkSpec
from snellen.metrics.normalise import standard_normalise
from snellen.records import Answer, ImageRef, Sample
from snellen.scoring.answers import Key, open_answers

QUESTION_FOLDS = 5
"""The parts into which questions fall by picture; what is learned on four is tested on the fifth."""
_ARTICLES = frozenset({"a", "an", "the"})
# Signs that `standard_normalise` drops although they distinguish texts: x < 5 is not x > 5, -5 is not 5.
_SIGNS = re.compile(r"[<>=≤≥≠*/^%$€£°±×÷~&|]|(?<!\w)[-−](?=[\d.])")


class LintQuestion(Struct, frozen=True, gc=False):
    """One question with its gold. `gold` and `texts` are empty for a hidden answer."""

    id: str
    """Of the sample, with `#2` for the second round of a dialogue."""
    sample_id: str
    group: str
    scene: int
    """Equal for questions about the same pictures, regions, context and history."""
    question: str
    options: tuple[str, ...]
    folded: tuple[str, ...]
    """The options without case, punctuation and articles."""
    gold: tuple[int, ...]
    texts: tuple[str, ...]
    tags: dict[str, str]
    """Those of the sample; those of the answer are not a fault."""

    @property
    def fold(self) -> int:
        """Which of QUESTION_FOLDS folds it is in; all questions about one picture share a fold."""
        return zlib.crc32(self.group.encode()) % QUESTION_FOLDS

    @property
    def chance(self) -> float:
        return len(self.gold) / len(self.options)

    def expected_accuracy(self, places: list[int]) -> float:
        """Chance that one of `places`, drawn at random, is right; any option if `places` is empty."""
        places = places or list(range(len(self.options)))
        return sum(place in self.gold for place in places) / len(places)


class LintMaterial(Struct, frozen=True):
    """Everything that the checks look at."""

    benchmark: Benchmark
    questions: list[LintQuestion]
    pictures: dict[str, ImageRef]
    """By digest, in order of appearance."""
    uses: Counter[str]
    """How many samples show each picture."""
    first_sample: dict[str, str]
    """The first sample that shows each picture."""
    pictureless: list[str]
    """Samples without a picture."""
    long: list[str]
    """Samples whose context and questions have more than LONG_QUESTION characters."""

    @property
    def spec(self) -> BenchmarkSpec:
        return self.benchmark.spec

    @property
    def choices(self) -> list[LintQuestion]:
        """Questions with options whose gold is known."""
        return [q for q in self.questions if q.options and q.gold]


LONG_QUESTION = 4000
"""Characters of a context and its questions above which a sample is long."""


def gather_material(benchmark: Benchmark) -> LintMaterial:
    """Read a benchmark's questions and answers. Raises DataError for files that cannot be read."""
    answers = open_answers(benchmark.folder)
    material = LintMaterial(benchmark, [], {}, Counter(), {}, [], [])
    for sample in benchmark.samples():
        material.questions.extend(_questions(sample, answers))
        for image in sample.images:
            material.pictures.setdefault(image.digest, image)
            material.first_sample.setdefault(image.digest, sample.id)
            material.uses[image.digest] += 1
        if not sample.images:
            material.pictureless.append(sample.id)
        if (
            len(sample.context or "") + sum(len(turn.question) for turn in sample.rounds)
            > LONG_QUESTION
        ):
            material.long.append(sample.id)
    return material


def _questions(sample: Sample, answers: Mapping[Key, Answer]) -> Iterator[LintQuestion]:
    scene = hash((tuple(image.digest for image in sample.images), sample.regions, sample.context))
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
    """Fold a text for comparison: drop case, punctuation and articles, but keep the signs that carry meaning.

    A text of signs alone is returned as it is, so only an empty text folds to an empty one.

    Examples:
        >>> fold_text("The Boat!"), fold_text("x < 5")
        ('boat', 'x 5 <')
    """
    words = standard_normalise(text).split()
    content_words = [word for word in words if word not in _ARTICLES] or words
    return " ".join([*content_words, *_SIGNS.findall(text)]) or text.strip()
