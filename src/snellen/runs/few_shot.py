"""Draw few-shot examples: questions that are shown with their answers before the question to answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from snellen.callers import setting
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Example, Sample

FEW_SHOT = "few-shot"
"""Part of the seed of the random draw, so that it is independent of other draws."""


class FewShot:
    """Draws few-shot examples for samples.

    A sample with options gets examples with options, any other sample gets open questions. The sample itself is never
    drawn, nor is a question about one of its images. For a sample without images, this is the same question.

    Args:
        examples: Examples to draw from.
        count: Examples per sample.
        seed: Seed of the draw.
        shared: Whether all samples with options, and all samples without, share one set of examples. An example that a
            sample must not get is then replaced by the next one.
    """

    def __init__(
        self, examples: Sequence[Example], count: int, seed: int = 0, shared: bool = False
    ) -> None:
        """Prepare to draw solved examples for the prompts of a benchmark.

        Args:
            examples: The questions to draw from, with their answers.
            count: The number of examples in each prompt.
            seed: Seed of the draws.
            shared: Whether all prompts have the same examples.
        """
        self._count = count
        self._seed = seed
        self._shared = shared
        self._keys = {_sample_key(example) for example in examples}
        # Examples with options, and examples of open questions.
        self._by_has_options: dict[bool, list[Example]] = defaultdict(list)
        # The examples about each subject, such as an image.
        self._keys_by_subject: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for example in examples:
            has_options = bool(example.options)
            self._by_has_options[has_options].append(example)
            for subject in _subjects(example):
                self._keys_by_subject[subject].add(_sample_key(example))
        if shared:
            for examples_of_kind in self._by_has_options.values():
                rng = rng_for(examples_of_kind[0].benchmark, FEW_SHOT, seed)
                rng.shuffle(examples_of_kind)

    def examples_for(self, sample: Sample) -> tuple[Example, ...]:
        """Return the solved examples to show before a question, in their order.

        Examples have options if the question has, and are never about the same subject (such as its image).

        Raises:
            DataError: There are too few such examples.
        """
        has_options = bool(sample.rounds[0].options)
        excluded: set[tuple[str, str]] = set()
        if _sample_key(sample) in self._keys:
            excluded.add(_sample_key(sample))
        for subject in _subjects(sample):
            excluded |= self._keys_by_subject.get(subject, set())

        candidates = self._by_has_options[has_options]
        if excluded:
            candidates = [example for example in candidates if _sample_key(example) not in excluded]
        if len(candidates) < self._count:
            with_options = "with" if has_options else "without"
            raise DataError(
                f"{sample.benchmark} {sample.id}: only {len(candidates)} examples "
                f"{with_options} options have a different subject, fewer than "
                f"{setting('few_shot', self._count)} needs; use a smaller number, or build with more examples"
            )
        if self._shared:
            return tuple(candidates[: self._count])
        rng = rng_for(sample.benchmark, sample.id, FEW_SHOT, self._seed)
        return tuple(rng.sample(candidates, self._count))


def _sample_key(sample: Sample) -> tuple[str, str]:
    """Return the benchmark and the id of a sample, which identify it together."""
    return sample.benchmark, sample.id


def _subjects(sample: Sample) -> list[str]:
    """Return what a sample is about: its images or, if it has none, its question."""
    if sample.images:
        return [image.digest for image in sample.images]
    return [f"{sample.context or ''}\n{sample.rounds[0].question}"]
