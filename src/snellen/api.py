"""The public API: build, evaluate, score, decide, export."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from snellen.benchmark_building import (
    build_entry,
    build_own,
    build_reformed,
    find_annotations,
    find_own,
    rows_as_file,
)
from snellen.building.benchmark import Benchmark
from snellen.building.builder import Progress
from snellen.building.spec import (
    ReformSpec,
    build_spec,
    check_targets,
    reform_spec,
)
from snellen.catalogue import BenchmarkSpec, select
from snellen.common.field_values import check_known
from snellen.common.paths import slug
from snellen.common.record_fields import shows_fields
from snellen.errors import DataError
from snellen.experiments.deciding import DecidedComparison, decide_between
from snellen.experiments.evaluation import check_finished, evaluate_spec
from snellen.experiments.outcome_checks import check_budget
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import check_named_once, score_folders
from snellen.interchange.exports.base import BenchmarkJob, Exporter, export_path
from snellen.models.model_strings import as_model_string
from snellen.recognition.own_sources import is_own
from snellen.registry import find, names
from snellen.runs.finding import Announce, open_benchmark, silent
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.spec import (
    RUN_FIELDS,
    ExecutionSpec,
    JudgeSpec,
    QuestionSpec,
    RunSpec,
    ScoringSpec,
    judge_spec,
    run_spec,
    scoring_spec,
)
from snellen.scoring.kept_scoring import load_scoring

if TYPE_CHECKING:
    from snellen.building.keywords import BuildKeywords, ReformKeywords
    from snellen.runs.keywords import RunKeywords, ScoringKeywords

KEYWORDS = tuple("model" if name == "models" else name for name in RUN_FIELDS)
"""The fields of a run as `evaluate` calls them."""


def export_benchmark(
    benchmark: str | Path,
    form: str = "dataset",
    path: str | Path | None = None,
    *,
    answers: bool = False,
) -> list[Path]:
    """Write a built benchmark, by name or folder, in a form of another tool (docs/exports.md), and return the files.

    Golds are written with `answers` alone. Raises UnknownNameError, DataError for a form that has no place for a
    benchmark or golds that are not here, StoreError.
    """
    exporter: Exporter = find("exporters", form)
    if exporter.write_benchmark is None:
        forms = ", ".join(
            name for name in names("exporters") if find("exporters", name).write_benchmark
        )
        raise DataError(f"{form} is a form of runs; a benchmark is written as {forms}")
    opened = open_benchmark(str(benchmark))
    to = export_path(form, exporter, path, f"{slug(opened.name)}-{form}")
    return list(exporter.write_benchmark(BenchmarkJob(opened, to, answers)))


@shows_fields(QuestionSpec, ExecutionSpec, RunSpec, report=False)
def evaluate(
    model: Any,
    benchmarks: str | Iterable[str],
    protocols: str | Iterable[str] = (),
    *,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
    **fields: Unpack[RunKeywords],
) -> Results:
    """Evaluate a model and score it; the same call goes on with a run that was interrupted.

    `model` is a model string (`hf:org/name`, `openai:name@url`, `snellen:tiny`, ...), an object with
    `generate(requests, images)` and, where it can, `loglikelihood`, or a list of these; each has a run of its own.
    `benchmarks` are names, globs, suites or folders; `protocols` such as "circular" or "instability?m=5". Without
    protocols each benchmark is asked as its suite is by `method` (generation, likelihood or both), or once.

    All other keywords are fields of a `RunSpec`: `limit`, `name`, `where`, `temperature`, `workers` ... (docs/runs.md
    has them one by one, with those of an exam.toml), but that `report` is off unless asked for. `roles` is a dict of
    the other models that a protocol asks, strings or objects (docs/reasoning.md); `judge` a model, a list of these or a
    `JudgeSpec`. `progress` is called with a `RunProgress` whenever something was answered, from one thread at a time;
    `announce` with lines for a reader (what is built, left out, or asked of a judge).

    Raises UnknownNameError, DataError, ModelError, HookError (a metric or an extractor of others that fails) or
    StoreError, each with one line that says what to do, SpentBudgetError where `max_cost`, `max_requests` or `max_time`
    came before the end, and, when all models have been asked, ErrorBudgetError when more than `error_budget` (a share)
    of a run's requests failed, and AbsentBenchmarkError when benchmarks were left out that cannot be fetched.
    """
    models = [
        as_model_string(entry) for entry in (model if isinstance(model, (list, tuple)) else [model])
    ]
    check_known(fields, KEYWORDS, "field", "")
    roles = fields.pop("roles", {})
    spec = run_spec({"report": False, **fields, "benchmarks": benchmarks, "protocols": protocols})
    finished = evaluate_spec(spec, models, roles=roles, progress=progress, announce=announce)
    check_finished(finished, spec.execution.error_budget)
    return Results([run.scored for run in finished])


def decide(
    first: Any,
    second: Any,
    benchmarks: str | Iterable[str],
    protocols: str | Iterable[str] = (),
    *,
    metric: str = "",
    equivalent: float = 0.0,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
    **fields: Unpack[RunKeywords],
) -> DecidedComparison:
    """Ask two models the same pictures in a random order until it is decided which is better (docs/adaptive.md).

    Models, benchmarks, protocols and all other keywords are as in `evaluate` (`limit`, `runs`, `scoring` ...). `metric`
    is by default each benchmark's headline; `equivalent` the greatest difference that does not matter, in percentage
    points. `differences` of the result have verdict, interval and what was asked; the two runs go on to whole ones by
    `evaluate`. Raises as `evaluate` does.
    """
    check_known(fields, KEYWORDS, "field", "")
    spec = run_spec({**fields, "benchmarks": benchmarks, "protocols": protocols})
    decision = decide_between(
        spec,
        [first, second],
        metric=metric,
        equivalent=equivalent,
        progress=progress,
        announce=announce,
    )
    for outcome in decision.outcomes:
        check_budget(outcome, spec.execution.error_budget)
    return decision


def build(
    benchmark: str | Path | BenchmarkSpec | Any,
    *,
    progress: Progress | None = None,
    **fields: Unpack[BuildKeywords],
) -> Benchmark:
    """Build one benchmark: of the catalogue, or from your own questions (docs/own-data.md).

    Your own questions are a file or folder of any form, `hf://org/name`, an entry (.toml), a list of dicts, a data frame
    or a `datasets.Dataset`. What each column holds is recognised by names and content, or read from an entry next to the
    file. Nothing half-built is left behind.

    Args:
        benchmark: A name of the catalogue, a `BenchmarkSpec`, or your own questions.
        progress: Called with the number of questions built so far.
        fields: Fields of a `BuildSpec` (docs/reference/build-fields.md): `source`, `to`, `columns`, `options` ... Some
            are only for benchmarks of the catalogue, some only for your own questions.

    Raises:
        DataError: A row is wrong (the message names file and line), the source cannot be fetched, or a field does not
            apply.
        UnknownNameError: A name does not exist.
        ModelError: The writer of distractors does not reply. What it wrote is kept.

    Example:
        >>> build("eyechart/shape", to="shapes", examples=8).manifest.counts.samples
        56
    """
    spec = build_spec(fields)
    own = is_own(benchmark)
    check_targets(fields, has_tables=own, has_entries=not own)
    if not own:
        is_named = isinstance(benchmark, (str, Path))
        entry = _one_entry(str(benchmark)) if is_named else benchmark
        return build_entry(entry, spec, progress=progress)
    if isinstance(benchmark, (str, Path)):
        return build_own(find_own(benchmark, spec), spec, progress=progress)
    with rows_as_file(benchmark, spec) as (path, file_spec):
        return build_own(find_own(path, file_spec), file_spec, progress=progress)


def _one_entry(name: str) -> BenchmarkSpec:
    """Return the benchmark of a name. Raises DataError if the name stands for several."""
    chosen = select(name)
    if len(chosen) != 1:
        raise DataError(f"{name} stands for {len(chosen)} benchmarks; build them one by one")
    return chosen[0]


@shows_fields(ReformSpec)
def reform(
    target: str | Path,
    *,
    announce: Announce = silent,
    progress: Progress | None = None,
    **fields: Unpack[ReformKeywords],
) -> Benchmark:
    """Build a checked benchmark of multiple-choice questions from annotations (docs/reform.md).

    Each question passes all checks, or gets another distractor, or is set apart: checks of texts and images always, and
    those by models that `jury` and `blind` name (docs/verifying.md). An entry (.toml) is written next to the
    annotations, which says what was made of them.

    Args:
        target: A folder of images by class, a file in COCO's form, a table of any form, or the entry of an earlier call.
        announce: Called with lines for a reader: what was recognised, and where the entry is.
        progress: Called with the number of questions built so far.
        fields: Fields of a `ReformSpec` (docs/reference/build-fields.md): `ask`, `distractors`, `per_type` ...

    Raises:
        DataError: A row is wrong, no type of question fits the annotations, or a field does not apply.
        UnknownNameError: A name does not exist.
        ModelError: A model does not reply.
    """
    spec = reform_spec(fields)
    source = find_annotations(target, spec, announce=announce)
    return build_reformed(source, spec, announce=announce, progress=progress)


@shows_fields(ScoringSpec)
def score(
    folder: str | Path,
    *,
    judge: JudgeSpec | Any = (),
    announce: Announce = silent,
    **fields: Unpack[ScoringKeywords],
) -> Results:
    """Read and score a run again, without asking its model; writes `predictions.jsonl`, `scores.jsonl`
    and `results.json` beside its journal, or by other settings than the standard ones into a folder of their own under
    `scores`, so that no scoring overwrites another. A run that cannot be written keeps nothing.

    The keywords are the fields of a `ScoringSpec` (docs/runs.md). Replies that are hard to
    read go to a `judge`: a model string, an object, a list of these, of which the majority counts, or a `JudgeSpec`
    that also says how they are asked; verdicts are kept in the run's folder. What is
    still unparsed counts as not right, or is a random guess as published (`unparsed="legacy-random"`, `guess_seed`).
    `metrics` are computed besides each benchmark's own; the judged ones need a judge. With `as_published` the results
    are those of the rules behind the tables of each suite's paper (extractor, metrics, scale); `results.json` has them
    beside the standard ones, by `convention`, the other files are the standard ones. docs/judging.md says more.

    Raises StoreError for a folder that is not a run, UnknownNameError for a name that nobody has, ModelError for a
    judge that cannot answer, and ErrorBudgetError when a judge gave no verdict on more than its `failures` allow.
    """
    return Results(
        score_folders([Path(folder)], scoring_spec({**fields}), judge_spec(judge), announce)
    )


def load_run(folder: str | Path | Iterable[str | Path], scoring: str | None = None) -> Results:
    """The results of a run, or of several, as they were scored; nothing is asked, read or scored again.

    `folder` is the run's, or a list of folders for runs that share tables and can be compared. `scoring` is one of the
    folders under each run's `scores`, "" the scoring by standard settings; unless named it is that one, or else the
    only one. It works without the benchmark and its answers: the run has its own questions. Raises StoreError for a
    folder that is not a run, was not scored so, or was asked more since; DataError for an empty list and for a folder
    that is named twice.
    """
    folders = [Path(run) for run in ([folder] if isinstance(folder, (str, Path)) else folder)]
    if not folders:
        raise DataError("load_run was given no folder; name one run or several")
    check_named_once(folders)
    return Results([load_scoring(run, scoring) for run in folders])
