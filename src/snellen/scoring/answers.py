"""The answers of a built benchmark. Nothing left of scoring can import this."""

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
    """The known answers of a benchmark; empty for a split whose answers are hidden.

    Raises DataError when the file is missing, or is not the one that was built.
    """
    path = answers_file(folder)
    if path is None:
        return {}
    return PackedRecords(Answer, attrgetter("sample_id", "turn"), read_built_records(path, Answer))


def sample_answers(folder: Path) -> dict[str, list[Answer]]:
    """The known answers by sample, those of its rounds in order. Raises as `open_answers`."""
    answers: dict[str, list[Answer]] = {}
    for (sample_id, _), answer in open_answers(folder).items():
        answers.setdefault(sample_id, []).append(answer)
    return answers


def answers_at_hand(folder: Path) -> Mapping[Key, Answer] | None:
    """The same, but None where the answers are known and their file is not here, as in a run's own questions."""
    return open_answers(folder) if has_answers(folder) else None


def has_answers(folder: Path) -> bool:
    """Whether the answers are here, or there are none to be known."""
    return record_file(folder, ANSWERS).exists() or ANSWERS not in Benchmark(folder).manifest.files


def changed_answers(run: Path, benchmarks: Iterable[Benchmark]) -> list[str]:
    """Names of the benchmarks whose known answers are others than when the run was last asked the same questions."""
    changed = []
    for benchmark in benchmarks:
        questions = questions_folder(run, benchmark.name)
        if not (questions / MANIFEST).exists():
            continue
        try:
            kept_manifest = Benchmark(questions).manifest
        except DataError:
            continue  # damaged: the run keeps its questions anew when it goes on
        has_same_questions = kept_manifest.questions == benchmark.manifest.questions
        if has_same_questions and kept_manifest.files.get(ANSWERS) not in (
            None,
            benchmark.manifest.files.get(ANSWERS),
        ):
            changed.append(benchmark.name)
    return changed


def with_answer_tags(
    samples: Iterable[Sample], answers: Mapping[Key, Answer]
) -> Mapping[str, Sample]:
    """The samples by id; from here on the tags of their answers are tags of theirs. None are added for hidden ones."""
    tags: dict[str, dict[str, str]] = {}
    for (sample_id, _), answer in answers.items():
        if answer.tags:
            tags.setdefault(sample_id, {}).update(answer.tags)
    tagged = (
        replace(sample, tags={**sample.tags, **tags[sample.id]}) if sample.id in tags else sample
        for sample in samples
    )
    return PackedRecords(Sample, attrgetter("id"), tagged)


def answers_file(folder: Path) -> Path | None:
    """The file of the known answers, as it was built; None where they are hidden. Raises as `open_answers`."""
    return Benchmark(folder).part(ANSWERS)
