"""A suite's description (`suite.toml`): the facts of its paper, and what it adds besides its entries.

docs/reference/suite-fields.md lists all fields.

The hooks that suites add to the registry's groups have their types here. Those of the other groups are defined where
they are used: extractors are `snellen.extraction.NamedExtractor`,
templates `snellen.protocols.prompts.templates.Templates`, judge prompts
`snellen.protocols.prompts.role_prompts.JudgePrompt` (and `matching_prompts` their versions), report tables
`snellen.report.content.SuiteTables`, metrics as described in `snellen.registry`. A source counter is a function
like `snellen.building.source_counts.count_source`, registered under the name of its suite; a rating study is a
`snellen.experiments.ratings.study.RatingStudy`, an acuity test a `snellen.psychometrics.trials.AcuityTest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import Struct

from snellen.catalogue.entries import BenchmarkSpec
from snellen.errors import DataError
from snellen.formats.json_files import parse_toml
from snellen.registry import SuiteGroup, unknown

HookGroup = Literal["readers", "metrics", "protocols", "models", "transforms", SuiteGroup]
"""The registry groups that a suite can add names to."""
HOOK_GROUPS: tuple[HookGroup, ...] = get_args(HookGroup)
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class DefaultProtocols(Struct, frozen=True, forbid_unknown_fields=True):
    """Protocols of a run that does not name any."""

    generation: tuple[str, ...] = ()
    likelihood: tuple[str, ...] = ()


class SuitePart(Struct, frozen=True, forbid_unknown_fields=True):
    """A named part of a suite: the benchmarks held out for these models."""

    held_out_for: tuple[str, ...]


class Aggregation(Struct, frozen=True, forbid_unknown_fields=True):
    """How the suite aggregates its results into one number."""

    average: Literal["macro", "micro"] = "macro"
    """`macro`: the units named in `over` have equal weight; `micro`: all questions do, whatever their unit."""
    over: Literal["questions", "benchmarks", "dimensions"] = "benchmarks"

    @property
    def counts_questions(self) -> bool:
        """Whether every question has equal weight, whatever its benchmark."""
        return self.average == "micro" or self.over == "questions"


PrintedMean = Literal["mean", "mean of printed"]
"""The mean of values on one scale, and none where scales differ; or that of the figures as printed, on any scales."""


class AsPublished(Struct, frozen=True, forbid_unknown_fields=True):
    """By what rules the tables of a suite's paper were made."""

    templates: str = ""
    """How its questions are asked: a name of the group `templates`; as any others when empty."""
    extractor: str = "standard"
    """Who reads the replies: a name of the registry's group `extractors`."""
    judge_prompt: str = ""
    """How judges are asked to match: a name of the registry's group `matching_prompts`; the run's when empty."""
    metrics: dict[str, tuple[str, ...]] = {}
    """By task: metrics of open questions, the headline first; those of the entry where a task is not named."""
    headline: str = ""
    """The row that stands for a benchmark with options; accuracy when empty."""
    instead: dict[str, str] = {}
    """Rows of choices that stand in the tables in place of Snellen's own."""
    dimension: PrintedMean = "mean"
    """What is printed for a dimension."""
    overall: PrintedMean | Literal["sum"] = "mean"
    """What is printed over all dimensions: a mean of their values, or their sum."""
    scale: dict[str, float] = {}
    """By unit: what its values are multiplied by in print."""


class Suite(DefaultProtocols, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A suite of benchmarks, as its paper defines it. An entry's own protocols take precedence."""

    name: str
    """The usual prefix of its benchmarks' names; `snellen run MODEL NAME` runs the whole suite."""
    title: str
    citation: str = ""
    url: str = ""
    short_names: bool = False
    """Whether a name without a suite that several suites have is the benchmark of this one."""
    dimensions: dict[str, str] = {}
    """Capabilities that its benchmarks test, in the order of its tables, with their titles."""
    taxonomy: str = ""
    """The suite whose dimensions its benchmarks use, where it has none of its own."""
    tasks: dict[str, DefaultProtocols] = {}
    """Protocols for the benchmarks of a task, replacing the suite's."""
    parts: dict[str, SuitePart] = {}
    """Named parts besides its dimensions and tasks: `snellen run MODEL SUITE:PART`."""
    pools: dict[str, tuple[str, ...]] = {}
    """Benchmarks (without the suite's name) whose questions are also counted together, as `SUITE/POOL`."""
    aggregation: Aggregation | None = None
    """None for that of the suite whose taxonomy it uses, else a mean over benchmarks."""
    as_published: AsPublished | None = None
    """None where its paper has no tables, or none by rules of their own."""
    hooks: dict[HookGroup, dict[str, str]] = {}
    """For each registry group: names and their targets (`module:attribute`)."""

    def protocols_for(self, task: str) -> DefaultProtocols:
        return self.tasks.get(task, self)


def parse_suite(text: str, where: str) -> Suite:
    """A suite's facts. Raises DataError naming the file for a wrong or unknown field."""
    try:
        content = parse_toml(text, where)
        if strange := set(content).difference(Suite.__struct_fields__):
            raise DataError(f"{where}: {unknown('field', min(strange), Suite.__struct_fields__)}")
        hooks = content.get("hooks", {})
        if isinstance(hooks, dict) and (strange := set(hooks) - set(HOOK_GROUPS)):
            raise DataError(f"{where}: {unknown('group of hooks', min(strange), HOOK_GROUPS)}")
        suite = msgspec.convert(content, Suite)
    except msgspec.ValidationError as error:
        raise DataError(f"{where}: {error}") from None
    if suite.dimensions and suite.taxonomy:
        raise DataError(f"{where}: a suite has dimensions of its own or another's taxonomy, not both; leave one out")
    for group, targets in suite.hooks.items():
        for name, target in targets.items():
            if not _TARGET.fullmatch(target):
                raise DataError(f"{where}: hooks.{group}.{name} is {target!r}; write it as module:attribute")
    return suite


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
    rows: Callable[[Path], Any]
    """The file as a `snellen.interchange.predictions.rows.PredictionFile`. Raises DataError."""
    questions: Callable[[Path, str, Path], Any] | None = None
    """(file, benchmark or "", folder of the run) -> the `Benchmark` that was asked, for a format that builds it in its
    own way: of a table with answers, or of the file itself. Raises DataError."""
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
