"""Access to the answers of a built benchmark. Only scoring and later layers may import this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from snellen.building.benchmark import MANIFEST, Benchmark
from snellen.building.builder import ANSWERS
from snellen.building.older_builds import read_built_records, record_file
from snellen.errors import DataError
from snellen.records import Answer, Sample
from snellen.runs.own_questions import questions_folder
from snellen.scoring.stored_records import PackedRecords

Key = tuple[str, int]
"""Sample id and round."""


def open_answers(folder: Path) -> Mapping[Key, Answer]:
    """Return the answers of a benchmark by sample id and round; empty for a split whose answers are secret.

    Raises:
        DataError: The file of the answers is missing, or is not the one that was built.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> folder = open_benchmark("eyechart/colour").folder
        >>> type(next(iter(open_answers(folder).values()))).__name__
        'Answer'
    """
    path = answers_file(folder)
    if path is None:
        return {}
    return PackedRecords(Answer, attrgetter("sample_id", "turn"), read_built_records(path, Answer))


def sample_answers(folder: Path) -> dict[str, list[Answer]]:
    """Read the correct answers of a built benchmark.

    Returns:
        For each sample identifier, the answers to its questions in order: one, or one for each round of a dialogue.

    Raises:
        DataError: As `open_answers`.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> folder = open_benchmark("eyechart/colour").folder
        >>> answers = sample_answers(folder)
        >>> len(next(iter(answers.values())))
        1
    """
    answers: dict[str, list[Answer]] = {}
    for (sample_id, _), answer in open_answers(folder).items():
        answers.setdefault(sample_id, []).append(answer)
    return answers


def answers_at_hand(folder: Path) -> Mapping[Key, Answer] | None:
    """Return the answers like `open_answers`, or None if their file is not on this machine.

    For example, the copy of the questions in the folder of a run has no answers. An empty mapping means that the answers are
    secret for everyone.
    """
    return open_answers(folder) if has_answers(folder) else None


def has_answers(folder: Path) -> bool:
    """Return whether the answers are available, or secret for everyone.

    Examples:
        >>> from snellen.plugin_api import open_benchmark
        >>> has_answers(open_benchmark("eyechart/colour").folder)
        True
    """
    return record_file(folder, ANSWERS).exists() or ANSWERS not in Benchmark(folder).manifest.files


def answers_digest(benchmark: Benchmark) -> str | None:
    """Return the digest of the file of a benchmark's answers; None if they are secret."""
    return benchmark.manifest.files.get(ANSWERS)


def changed_answers(run: Path, benchmarks: Iterable[Benchmark]) -> list[str]:
    """Return the names of the benchmarks whose answers, but not questions, have changed since the run."""
    changed = []
    for benchmark in benchmarks:
        questions = questions_folder(run, benchmark.name)
        if not (questions / MANIFEST).exists():
            continue
        try:
            kept = Benchmark(questions)
            kept_manifest = kept.manifest
        except DataError:
            continue  # damaged: the run stores its questions again when it resumes
        has_same_questions = kept_manifest.questions == benchmark.manifest.questions
        old_answers = answers_digest(kept)
        new_answers = answers_digest(benchmark)
        if has_same_questions and old_answers is not None and old_answers != new_answers:
            changed.append(benchmark.name)
    return changed


def with_answer_tags(
    samples: Iterable[Sample], answers: Mapping[Key, Answer]
) -> Mapping[str, Sample]:
    """Return the samples by identifier, with the tags of their answers added to their own tags.

    Tags that would give the answer away are stored with the answer and are available only after a run.
    """
    answer_tags: dict[str, dict[str, str]] = {}
    for (sample_id, _), answer in answers.items():
        if answer.tags:
            answer_tags.setdefault(sample_id, {}).update(answer.tags)

    def tagged_samples() -> Iterable[Sample]:
        """Yield the samples, with the tags of their answers."""
        for sample in samples:
            if sample.id in answer_tags:
                yield replace(sample, tags={**sample.tags, **answer_tags[sample.id]})
            else:
                yield sample

    return PackedRecords(Sample, attrgetter("id"), tagged_samples())


def answers_file(folder: Path) -> Path | None:
    """Return the file of the answers; None if they are secret. Raises DataError like `open_answers`."""
    return Benchmark(folder).part(ANSWERS)
