"""Types of the hooks that suites add to the registry's groups.

The types of the other groups are defined where they are used: extractors are `snellen.extraction.NamedExtractor`,
templates `snellen.protocols.prompts.templates.Templates`, judge prompts
`snellen.protocols.prompts.role_prompts.JudgePrompt` (and `matching_prompts` their versions), report tables
`snellen.report.content.SuiteTables`, metrics as described in `snellen.registry`. A source counter is a function
like `snellen.building.source_counts.count_source`, registered under the name of its suite; a rating study is a
`snellen.experiments.ratings.study.RatingStudy`, an acuity test a `snellen.psychometrics.stimuli.trials.AcuityTest`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from snellen.catalogue.entries import BenchmarkSpec


class TableForm(Struct, frozen=True, kw_only=True):
    """A table format that `snellen build FILE` reads with a reader of its own (group `table_forms`)."""

    title: str
    """As in "files of MMBench's form"."""
    reader: str
    """A name in the group `readers`; its parameters are `files`, `images`, `answers` and `lenient`."""
    recognises: Callable[[Path], bool]
    """Whether a file is in this format and not in Snellen's own."""
    notice: str = ""
    """What the user should know about how such a file is read."""
    page: str = ""
    """The docs page that describes the format."""


class WrittenSubmission(Protocol):
    """What a file for an evaluation server holds."""

    @property
    def benchmark(self) -> str: ...
    @property
    def protocol(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def empty(self) -> int:
        """Rows whose reply is empty."""

    @property
    def missing(self) -> str:
        """What is missing and how to get it; empty when nothing is."""


class SubmissionWriter(Protocol):
    """Writes a run's replies to one benchmark as a file for an evaluation server.

    `benchmark` may be empty when the run has only one; an empty `protocol` leaves the choice to the format. Raises
    DataError when something is missing, unless `partial`.
    """

    def __call__(
        self, folder: Path, path: Path, *, benchmark: str = "", protocol: str = "", partial: bool = False
    ) -> WrittenSubmission: ...


class PredictionForm(Struct, frozen=True, kw_only=True):
    """A format of files of predictions that `snellen score FILE` takes (group `prediction_forms`)."""

    title: str
    """As in "a samples file of lmms-eval"."""
    fault: Callable[[Path, str], str]
    """(file, benchmark or "") -> why the file is not of this format, in a few words; empty when it is."""
    rows: Callable[[Path], Any] | None = None
    """The file as a `snellen.interchange.predictions.rows.PredictionFile`. Raises DataError."""
    read: Callable[[Path, str, Path | None, str], Path] | None = None
    """Instead of `rows`, for a format that is joined in its own way: (file, benchmark or "", folder or None, model's
    name) -> the folder of a run. Raises DataError, StoreError."""
    fallback: bool = False
    """Whether another format that fits a file too goes first."""


class Importer(Struct, frozen=True, kw_only=True):
    """Published data in a format of its own, for `snellen import` (group `importers`)."""

    title: str
    """As in "the files of ReForm-Eval-Data"."""
    benchmarks: Callable[[Path, Sequence[str], Path | None], Sequence[BenchmarkSpec]]
    """(folder, short names or none, picture folder or None) -> the entries to build from that folder."""
    dataset: str = ""
    """The Hugging Face hub dataset that holds the files; none when empty."""
    patterns: Callable[[Sequence[str]], Sequence[str]] = lambda names: ["**"]
    """The files of that dataset that these benchmarks need."""
    names: Callable[[], Collection[str]] = tuple
    """Short names of the benchmarks that the dataset holds: it is the last place that those of the suite are fetched
    from."""


class ScaffoldedTable(Struct, frozen=True, kw_only=True):
    """What a scaffold made, for display: a table, notes, and the next commands."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    closing: str = ""


Scaffold = Callable[[Path, Path | None, Path, str], ScaffoldedTable]
"""(question table, picture folder or None, folder to create, name or "") -> what was made, for `snellen init`."""


def params_with(params: dict[str, Any], *, answers: str | Path | None, lenient: bool) -> dict[str, Any]:
    """A table reader's parameters, with the user's own settings added."""
    return {**params, **({"answers": str(answers)} if answers else {}), **({"lenient": True} if lenient else {})}
