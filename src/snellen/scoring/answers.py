"""The answers of a built benchmark. Nothing left of scoring can import this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from pathlib import Path

from msgspec.structs import replace

from snellen.benchmark import MANIFEST, Benchmark
from snellen.building.builder import ANSWERS
from snellen.errors import DataError
from snellen.formats.record_files import read_records
from snellen.records import Answer, Sample
from snellen.runs.own_questions import questions_folder
from snellen.scoring.stored_records import PackedRecords

Key = tuple[str, int]
"""Sample id and round."""


def open_answers(folder: Path, *, compact: bool = False) -> Mapping[Key, Answer]:
    """The known answers of a benchmark, packed if `compact`; empty for a split whose answers are hidden.

    Raises DataError when the file is missing, or is not the one that was built.
    """
    path = answers_file(folder)
    if path is None:
        return {}
    found = read_records(path, Answer)
    return PackedRecords(Answer, _key, found) if compact else {_key(answer): answer for answer in found}


def _key(answer: Answer) -> Key:
    return answer.sample_id, answer.turn


def answers_at_hand(folder: Path, *, compact: bool = False) -> Mapping[Key, Answer] | None:
    """The same, but None where the answers are known and their file is not here, as in a run's own questions."""
    return open_answers(folder, compact=compact) if has_answers(folder) else None


def has_answers(folder: Path) -> bool:
    """Whether the answers are here, or there are none to be known."""
    return (folder / ANSWERS).exists() or ANSWERS not in Benchmark(folder).manifest.files


def changed_answers(run: Path, benchmarks: Iterable[Benchmark]) -> list[str]:
    """Names of the benchmarks whose known answers are others than when the run was last asked."""
    changed = []
    for benchmark in benchmarks:
        kept = questions_folder(run, benchmark.name)
        if not (kept / MANIFEST).exists():
            continue
        try:
            before = Benchmark(kept).manifest.files.get(ANSWERS)
        except DataError:
            continue  # damaged: the run keeps its questions anew when it goes on
        if before not in (None, benchmark.manifest.files.get(ANSWERS)):
            changed.append(benchmark.name)
    return changed


def with_answer_tags(
    samples: Iterable[Sample], answers: Mapping[Key, Answer], *, compact: bool = False
) -> Mapping[str, Sample]:
    """The samples by id, packed if `compact`; from here on the tags of their answers are tags of theirs. None are added
    for hidden ones."""
    tags: dict[str, dict[str, str]] = {}
    for (sample_id, _), answer in answers.items():
        if answer.tags:
            tags.setdefault(sample_id, {}).update(answer.tags)
    tagged = (
        replace(sample, tags={**sample.tags, **tags[sample.id]}) if sample.id in tags else sample for sample in samples
    )
    if compact:
        return PackedRecords(Sample, attrgetter("id"), tagged)
    return {sample.id: sample for sample in tagged}


def answers_file(folder: Path) -> Path | None:
    """The file of the known answers, as it was built; None where they are hidden. Raises as `open_answers`."""
    return Benchmark(folder).part(ANSWERS)
