"""A suite's description (`suite.toml`): the facts of its paper, and what it adds besides its entries.

docs/reference/suite-fields.md lists all fields.

The hooks that suites add to the registry's groups have their types here. Those of the other groups are defined where
they are used: extractors are `snellen.extraction.NamedExtractor`,
templates `snellen.protocols.prompts.templates.PromptTemplates`, judge prompts
`snellen.protocols.prompts.role_prompts.JudgePrompt` (and `matching_prompts` their versions), report tables
`snellen.report.content.SuiteTables`, metrics as described in `snellen.registry`. A rating study is a
`snellen.scoring.rating_study.RatingStudy`, an acuity test an `AcuityTest` of the package snellen-lab.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

from msgspec import Struct

from snellen.catalogue.entries import (
    BenchmarkName,
    BenchmarkSpec,
    MetricName,
    ProtocolLabel,
    TemplatesName,
)
from snellen.common.faults import names_of
from snellen.errors import DataError
from snellen.formats.json_files import converted, parse_toml
from snellen.registry import SuiteGroup, unknown_name

HookGroup = Literal["readers", "metrics", "protocols", "models", "transforms", SuiteGroup]
"""The registry groups that a suite can add names to."""
HOOK_GROUPS: tuple[HookGroup, ...] = get_args(HookGroup)
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class DefaultProtocols(Struct, frozen=True, forbid_unknown_fields=True):
    """Protocols of a run that does not name any."""

    generation: tuple[ProtocolLabel, ...] = ()
    """By generation; once in vanilla order where it is left out."""
    likelihood: tuple[ProtocolLabel, ...] = ()
    """By likelihood."""


class SuitePart(Struct, frozen=True, forbid_unknown_fields=True):
    """A named part of a suite: the benchmarks that none of the models in `held_out_for` has seen."""

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
    """The rules by which the tables of a suite's paper were made: its prompts, extractor, metrics and means."""

    templates: TemplatesName = ""
    """How its questions are asked: a name of the group `templates`; as any others where it is left out."""
    extractor: Annotated[str, names_of("extractors")] = "standard"
    """How replies are read: a name of the group `extractors`."""
    judge_prompt: Annotated[str, names_of("matching_prompts")] = ""
    """How judges are asked: a name of the group `matching_prompts`; as in any run where it is left out."""
    metrics: dict[str, tuple[MetricName, ...]] = {}
    """By task, the metrics of open questions, the headline first; those of the entry for any other task."""
    headline: str = ""
    """The row of questions with options that stands for a benchmark; accuracy where it is left out."""
    instead: dict[str, str] = {}
    """Rows of questions with options that stand in place of others."""
    dimension: PrintedMean = "mean"
    """The number printed for a dimension: the `mean` of values on one scale, or the `mean of printed` figures."""
    overall: PrintedMean | Literal["sum"] = "mean"
    """The number printed over all dimensions: the same, or their `sum`."""
    scale: dict[str, float] = {}
    """By unit, the factor in print."""
    by_entry: bool = False
    """Whether the suite has benchmarks of many papers: prompt, extractor, metrics and headline are those of each entry's
    `[published]`, and what it leaves out is as in any run."""


class Suite(DefaultProtocols, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A suite of benchmarks, as its paper defines it. An entry's own protocols take precedence."""

    name: str
    """By custom, benchmarks are called `NAME/...`; `snellen run MODEL NAME` runs all."""
    title: str
    """One line for lists and reports."""
    citation: str = ""
    """Its paper."""
    url: str = ""
    """Where its data are."""
    templates: TemplatesName = ""
    """The set of prompts that its benchmarks are asked by when a run names none (`--templates snellen`): one that each
    of its entries declares, or a name of the group `templates`."""
    published_prompts: bool = False
    """In place of `templates`: whether each benchmark is asked by the set of prompts of its published number (`prompt` of
    `[published]`) when a run names none; one that declares none is asked in Snellen's own words. Protocols by likelihood,
    and those that need several prompts, keep Snellen's templates."""
    short_names: bool = False
    """Whether a name without a suite that several suites have is the benchmark of this one."""
    aliases: dict[str, BenchmarkName | tuple[BenchmarkName, ...]] = {}
    """Names of benchmarks in other harnesses, in any case and with any punctuation: `GQA_TestDev_Balanced = "gqa"`. The
    name of a group of benchmarks has a list: `hrbench = ["hr-bench-4k", "hr-bench-8k"]`. The name of a benchmark with its
    split needs none."""
    dimensions: dict[str, str] = {}
    """Capabilities with their titles, in the order of the tables; each entry's `dimension` is one of them."""
    taxonomy: Annotated[str, names_of("suites")] = ""
    """In place of `[dimensions]`: another suite, whose dimensions the entries use."""
    tasks: dict[str, DefaultProtocols] = {}
    """`[tasks.TASK]`: `generation` and `likelihood` for the benchmarks of a task, in place of the suite's."""
    parts: dict[str, SuitePart] = {}
    """`[parts.NAME]`: `held_out_for = [models]`; the part `SUITE:NAME` holds what none of these models has seen."""
    pools: dict[str, tuple[BenchmarkName, ...]] = {}
    """Benchmarks whose questions are also scored together as `SUITE/POOL`, if a run has all of them:
    `pope = ["pope-random", ...]`."""
    aggregation: Aggregation | None = None
    """`average` (`macro`: units count alike; `micro`: all questions do) `over` `questions`, `benchmarks` or
    `dimensions`. As the suite of its `taxonomy` where it is left out, else macro over benchmarks."""
    as_published: AsPublished | None = None
    """The rules behind the paper's tables, for `--as-published`, as below."""
    hooks: dict[HookGroup, dict[str, str]] = {}
    """`[hooks.GROUP]`: names with what they stand for, `name = "module:attribute"`, as below."""

    def protocols_for(self, task: str) -> DefaultProtocols:
        """Return the default protocols of a task: those of `[tasks.TASK]`, or of the suite if the task has none."""
        return self.tasks.get(task, self)


def parse_suite(text: str, where: str) -> Suite:
    """Parse the description of a suite. Raises DataError, which names the file and a wrong or unknown field."""
    content = parse_toml(text, where)
    hooks = content.get("hooks", {})
    unknown_groups = set(hooks) - set(HOOK_GROUPS) if isinstance(hooks, dict) else set()
    if unknown_groups:
        group = min(unknown_groups)
        raise DataError(f"{where}: {unknown_name('group of hooks', group, HOOK_GROUPS)}")
    suite = converted(content, Suite, where)
    if suite.dimensions and suite.taxonomy:
        raise DataError(
            f"{where}: a suite has either its own dimensions or the taxonomy of another suite; remove one of them"
        )
    if suite.templates and suite.published_prompts:
        raise DataError(
            f"{where}: a suite has either templates for all its benchmarks or published_prompts; remove one of them"
        )
    for group, targets in suite.hooks.items():
        for name, target in targets.items():
            if not _TARGET.fullmatch(target):
                raise DataError(
                    f"{where}: hooks.{group}.{name} is {target!r}; write it as module:attribute"
                )
    return suite


class TableForm(Struct, frozen=True, kw_only=True):
    """A table format that `snellen build FILE` reads with a reader of its own (group `table_forms`).

    Examples:
        >>> def is_birds(path):
        ...     return path.suffix == ".birds"
        >>> form = TableForm(title="birds' table", reader="birds-table", recognises=is_birds)
        >>> form.recognises(Path("mine.birds"))
        True
    """

    title: str
    """As in "files of MMBench's form"."""
    reader: str
    """A name in the group `readers`; its parameters are `files`, `images` (seen from the file's folder), `answers` and
    `lenient`."""
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
        """The missing parts and how to get them; empty if nothing is missing."""


class SubmissionWriter(Protocol):
    """A function that writes a run's replies to one benchmark as a file for an evaluation server.

    `benchmark` may be empty if the run has only one benchmark. If `protocol` is empty, the format chooses one. Raises
    DataError if something is missing, unless `partial` is true. An attribute `suite_only = True` says that the format
    is only for benchmarks of its own suite.
    """

    def __call__(
        self,
        folder: Path,
        path: Path,
        *,
        benchmark: str = "",
        protocol: str = "",
        partial: bool = False,
    ) -> WrittenSubmission: ...


class PredictionForm(Struct, frozen=True, kw_only=True):
    """A format of files of predictions that `snellen score FILE` takes (group `prediction_forms`).

    Examples:
        >>> form = PredictionForm(title="birds' replies", fault=lambda path, text: "", rows=lambda path: [])
        >>> form.title
        "birds' replies"
    """

    title: str
    """As in "a samples file of lmms-eval"."""
    fault: Callable[[Path, str], str]
    """(file, benchmark or "") -> why the file is not of this format, in a few words; empty when it is."""
    rows: Callable[[Path], Any]
    """The file as a `snellen.interchange.predictions.rows.PredictionFile`, or a list with one for each model in it.
    Raises DataError."""
    questions: Callable[[Path, str, Path], Any] | None = None
    """(file, benchmark or "", folder of the run) -> the `Benchmark` that was asked, for a format that builds it in its
    own way: of a table with answers, or of the file itself. Raises DataError."""


class Importer(Struct, frozen=True, kw_only=True):
    """Published data in a format of its own, for `snellen import` (group `importers`).

    Examples:
        >>> importer = Importer(title="birds' archive", benchmarks=lambda source, names, folder: [])
        >>> importer.title
        "birds' archive"
    """

    title: str
    """As in "the files of ReForm-Eval-Data"."""
    benchmarks: Callable[[Path, Sequence[str], Path | None], Sequence[BenchmarkSpec]]
    """(folder, short names or none, image folder or None) -> the entries to build from that folder."""
    dataset: str = ""
    """The Hugging Face hub dataset that holds the files; none when empty."""
    patterns: Callable[[Sequence[str]], Sequence[str]] = lambda names: ["**"]
    """The files of that dataset that these benchmarks need."""
    names: Callable[[], Collection[str]] = tuple
    """Short names of the benchmarks that the dataset holds: it is the last place that those of the suite are fetched
    from."""


def params_with(
    params: dict[str, Any], *, answers: str | Path | None, lenient: bool
) -> dict[str, Any]:
    """Return the parameters of a table reader, with the user's settings added.

    Args:
        params: The parameters in the entry.
        answers: A separate file of answers, if the user gives one.
        lenient: Whether to skip wrong rows. If it is false, the parameter is left as it is in the entry.
    """
    params = dict(params)
    if answers:
        params["answers"] = str(answers)
    if lenient:
        params["lenient"] = True
    return params
