"""What an exporter declares: a form of another tool in which runs are written (the registry's group `exporters`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from snellen.building.benchmark import Benchmark
from snellen.records import Result
from snellen.scoring.scored_run import ScoredRun


class ExportJob(Struct, frozen=True):
    """What is to be written, and where."""

    runs: tuple[ScoredRun, ...]
    rows: tuple[Result, ...]
    """The results of all runs, as `results_of_all` gives them."""
    path: Path
    """A file, or a folder where the exporter has no suffix."""
    pictures: bool = False
    """Whether pictures are written too, where the form has a place for them."""
    answers: bool = False
    """Whether golds are written into forms that are made to be published."""


class BenchmarkJob(Struct, frozen=True):
    """Which built benchmark is to be written, and where."""

    benchmark: Benchmark
    path: Path
    """A file, or a folder where the exporter has no suffix."""
    answers: bool = False
    """Whether golds are written."""


class Exporter(Struct, frozen=True, kw_only=True):
    """A form in which runs are written for other tools."""

    title: str
    """As in "logs of Inspect"."""
    write: Callable[[ExportJob], Sequence[Path]]
    """Writes the files and returns their paths. Raises DataError for what the form cannot hold, StoreError for a file
    that cannot be written."""
    suffix: str = ""
    """That of the one file that is written; empty for a form of several files in a folder."""
    write_benchmark: Callable[[BenchmarkJob], Sequence[Path]] | None = None
    """The same for a built benchmark, where the form has a place for its questions."""
    for_hub: bool = False
    """Whether what is written is a dataset in the layout of the Hugging Face hub, which can be pushed there."""
