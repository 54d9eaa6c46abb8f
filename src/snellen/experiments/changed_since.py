"""What has changed since a run was asked before, in lines for whoever goes on with it or scores it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from snellen.building.benchmark import Benchmark
from snellen.errors import DataError
from snellen.runs.finding import Announce
from snellen.runs.plan import RunPlan
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.scoring.answers import changed_answers


def announce_changed_answers(folder: Path, benchmarks: Iterable[Benchmark], announce: Announce) -> None:
    if changed := changed_answers(folder, benchmarks):
        names = ", ".join(changed)
        announce(f"{folder}: the answers of {names} have changed since it was last asked; it is scored by those of now")


def announce_fewer_questions(plan: RunPlan, announce: Announce) -> None:
    """Say of each benchmark that fewer questions are scored than earlier calls of this run chose."""
    if not (plan.folder / RUN_MANIFEST).exists():
        return
    earlier = {use.name: use.selection for use in read_manifest(plan.folder).benchmarks}
    for use in plan.benchmarks:
        before = earlier.get(use.benchmark.name, use.selection)
        if before == use.selection or before.part or use.selection.part:
            continue
        chosen, now = use.benchmark.count(before), use.benchmark.count(use.selection)
        if now < chosen:
            announce(
                f"{plan.folder}: an earlier call chose {chosen:,} samples of {use.benchmark.name}, this one {now:,}; "
                "these alone are scored, answers to the others are kept for a call that chooses them again"
            )


def built_since(folder: Path, names: Sequence[str]) -> str:
    """Which benchmarks have been built again where a run found them, in brackets; empty for none."""
    since = []
    for use in read_manifest(folder).benchmarks:
        with suppress(DataError):  # nothing is there, or it is damaged
            version = Benchmark(Path(use.folder)).manifest.version
            if use.name in names and version != use.version:
                since.append(f"{use.name} has been built again: its version was {use.version} and is {version}")
    return f" ({'; '.join(since)})" if since else ""
