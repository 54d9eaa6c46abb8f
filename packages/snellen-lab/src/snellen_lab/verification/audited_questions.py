"""The questions of a benchmark that people label in an audit: a random sample, or those of a list."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import DataError, Sample
from snellen.plugin_api import (
    Answer,
    Benchmark,
    json_lines,
    open_answers,
    rng_for,
)


class AuditItem(Struct, frozen=True):
    """A question to be labelled in an audit, with its correct answers."""

    id: str
    """Digest of all that a rater sees, which is the same in another build."""
    sample: Sample
    golds: tuple[Answer, ...]

    def is_right(self, turn: int, index: int) -> bool:
        """Return whether an option is correct, by its index in a round of the question (`turn`)."""
        return any(gold.turn == turn and index in gold.options for gold in self.golds)


def audited_items(benchmark: Benchmark, limit: int, seed: int = 0) -> list[AuditItem]:
    """Draw a simple random sample of the questions with known answers.

    With the same seed, a smaller sample consists of the first questions of a larger one. Raises
    DataError if no answer is known.
    """
    answers = _answers_by_sample(benchmark)
    if not answers:
        raise DataError(
            f"{benchmark.name}: the benchmark has no answers, so there is nothing to audit"
        )

    def random_order(name: str) -> tuple[float, str]:
        return rng_for(benchmark.name, name, "audit", seed).random(), name

    drawn_names = sorted(answers, key=random_order)[:limit]
    return _items(benchmark, answers, drawn_names)


def named_items(benchmark: Benchmark, names: Sequence[str]) -> list[AuditItem]:
    """Return the questions with these identifiers.

    Raises DataError if the benchmark has no such question, or no answer to it.
    """
    answers = _answers_by_sample(benchmark)
    for name in names:
        if name not in answers:
            raise DataError(f"{benchmark.name} has no question {name!r} with a known answer")
    return _items(benchmark, answers, list(dict.fromkeys(names)))


def _answers_by_sample(benchmark: Benchmark) -> dict[str, list[Answer]]:
    """Return the answers of each sample of a benchmark, in the order of its rounds."""
    answers_by_sample: dict[str, list[Answer]] = defaultdict(list)
    for (sample_id, _), answer in open_answers(benchmark.folder).items():
        answers_by_sample[sample_id].append(answer)
    return answers_by_sample


def _items(
    benchmark: Benchmark, answers: Mapping[str, Sequence[Answer]], names: Sequence[str]
) -> list[AuditItem]:
    """Return the items of these samples, in the order of `names`."""
    wanted_names = set(names)
    items = {}
    for sample in benchmark.samples():
        if sample.id in wanted_names:
            golds = tuple(answers[sample.id])
            items[sample.id] = AuditItem(_digest(sample, golds), sample, golds)
    return [items[name] for name in names]


def _digest(sample: Sample, golds: Sequence[Answer]) -> str:
    """Return a digest that identifies a question in an audit.

    It is computed from all that a rater sees: the question, its images and options, and the correct answers. Ids, groups
    and tags do not count, so that the same question of another build of the benchmark has the same digest.

    Args:
        sample: The question.
        golds: The correct answers of its rounds.
    """
    question = replace(sample, id="", benchmark="", group="", tags={})
    answers = [(gold.options, gold.texts) for gold in golds]
    encoded = msgspec.json.encode((question, answers), order="deterministic")
    return hashlib.blake2b(encoded, digest_size=8).hexdigest()


class _ListedQuestion(Struct):
    id: str


def ids_in(path: Path) -> Iterator[str]:
    """Yield the ids of the questions in a file of JSON lines, such as a list by `snellen lint`.

    Each line must have an `id`. Raises DataError if one has none.
    """
    for _, question in json_lines(path, _ListedQuestion):
        yield question.id
