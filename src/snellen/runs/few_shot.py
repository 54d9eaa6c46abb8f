"""Which examples are shown, with their answers, before a question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.records import Example, Sample

PURPOSE = "few-shot"


class FewShot:
    """Draws `count` examples for each sample by its name, or with `same` one set that all samples of a form share.

    A sample with options is shown examples with options, any other one open questions. Never drawn are the sample
    itself and questions about one of its pictures, or, without pictures, the same question; of a set that all share,
    such an example gives way to the next one.
    """

    def __init__(self, examples: Sequence[Example], count: int, seed: int = 0, shared: bool = False) -> None:
        self._count, self._seed, self._same = count, seed, shared
        self._names = {_name(example) for example in examples}
        self._by_form: dict[bool, list[Example]] = defaultdict(list)
        self._by_subject: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for example in examples:
            self._by_form[bool(example.options)].append(example)
            for subject in _subjects(example):
                self._by_subject[subject].add(_name(example))
        if shared:
            for of_form in self._by_form.values():
                rng_for(of_form[0].benchmark, PURPOSE, seed).shuffle(of_form)

    def drawn_for(self, sample: Sample) -> tuple[Example, ...]:
        """The examples in the order in which they are shown. Raises DataError where there are too few."""
        has_options = bool(sample.rounds[0].options)
        alike = (self._by_subject.get(subject, set()) for subject in _subjects(sample))
        left_out = ({_name(sample)} & self._names).union(*alike)
        fit = self._by_form[has_options]
        if left_out:
            fit = [example for example in fit if _name(example) not in left_out]
        if len(fit) < self._count:
            raise DataError(
                f"{sample.benchmark} {sample.id}: {len(fit)} examples {'with' if has_options else 'without'} options "
                f"are about something else than it is, but --few-shot {self._count} needs as many; ask for fewer, or "
                "build with more examples"
            )
        if self._same:
            return tuple(fit[: self._count])
        return tuple(rng_for(sample.benchmark, sample.id, PURPOSE, self._seed).sample(fit, self._count))


def _name(sample: Sample) -> tuple[str, str]:
    return sample.benchmark, sample.id


def _subjects(sample: Sample) -> list[str]:
    """What a sample is about: its pictures, or, where it has none, its question."""
    question = f"{sample.context or ''}\n{sample.rounds[0].question}"
    return [image.digest for image in sample.images] or [question]
