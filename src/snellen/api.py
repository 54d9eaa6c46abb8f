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
    """Write a built benchmark in a format of another tool (docs/exports.md).

    Args:
        benchmark: Name or folder of the benchmark.
        form: The format (see `snellen list exporters`).
        path: File or folder to write, depending on the format.
        answers: Whether to write the ground truth as well.

    Returns:
        The files that were written.

    Raises:
        UnknownNameError: The benchmark or format does not exist.
        DataError: The format cannot hold a benchmark, or the answers are hidden.
        StoreError: The files cannot be written.

    Examples:
        >>> [file.name for file in sn.export_benchmark("eyechart/shape", path="exported")]
        ['test-00000-of-00001.parquet', 'README.md']
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
    """Evaluate a model on benchmarks and score it. The same call resumes an interrupted run.

    Args:
        model: A model string (`hf:org/name`, `openai:name@url`, `snellen:tiny`, ...), an object with
            `generate(requests, images)` and, if it can, `loglikelihood`, or a list of these. Each model gets its own
            run.
        benchmarks: Names, globs, suites or folders.
        protocols: Protocols such as "circular" or "instability?m=5". By default each benchmark is run as its suite does
            by `method` (generation, likelihood or both), or once.
        progress: Called with a `RunProgress` whenever replies arrive, from one thread at a time.
        announce: Called with lines for a reader, such as what is built, left out, or sent to a judge.
        fields: Fields of a `RunSpec` (docs/reference/run-fields.md), except that `report` is off by default: `limit`,
            `name`, `where`, `temperature`, `workers` ... `roles` is a dict of the other models that a protocol needs,
            strings or objects. `judge` is a model, a list of models or a `JudgeSpec`.

    Raises:
        UnknownNameError, DataError, ModelError, StoreError: A name, a value, a model or the run's folder does not fit.
        HookError: A metric or extractor of another package fails.
        SpentBudgetError: `max_cost`, `max_requests` or `max_time` was reached first.
        ErrorBudgetError: After all models have run: more than `error_budget` (a share) of the requests failed.
        AbsentBenchmarkError: After all models have run: benchmarks that cannot be fetched were left out.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4)
        >>> results.value()
        1.0
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
    """Run two models on the same images, in a random order, until it is decided which is better (docs/adaptive.md).

    Args:
        first: A model, as in `evaluate`.
        second: The other model.
        benchmarks: Names, globs, suites or folders.
        protocols: Protocols, as in `evaluate`.
        metric: Metric to decide by. By default the headline metric of each benchmark.
        equivalent: The largest difference that does not matter, in percentage points.
        progress: Called with a `RunProgress` whenever replies arrive.
        announce: Called with lines for a reader.
        fields: Fields of a `RunSpec`, as in `evaluate`.

    Returns:
        `differences` with a verdict, an interval that is valid whenever one stops, and the number of questions; and the
        two runs, which `evaluate` can complete.

    Raises:
        SnellenError: As `evaluate`.

    Examples:
        >>> decided = sn.decide("snellen:oracle", "snellen:uniform", "eyechart/shape")
        >>> [difference.verdict for difference in decided.differences]
        ['first']
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

    Examples:
        >>> counts = sn.build("eyechart/shape", to="shapes", examples=8).manifest.counts
        >>> counts.samples, counts.examples
        (292, 8)
    """
    spec = build_spec(fields)
    own = is_own(benchmark)
    given = [name for name, value in fields.items() if value is not None]
    check_targets(given, has_tables=own, has_entries=not own)
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

    Examples:
        >>> for colour in ("red", "green", "blue"):
        ...     Path("photos", colour).mkdir(parents=True)
        ...     Image.new("RGB", (40, 40), colour).save(Path("photos", colour, "1.png"))
        >>> benchmark = sn.reform("photos", options=3, to="colours")
        >>> next(benchmark.samples()).question
        'What does the picture show?'
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
    """Read and score the stored replies of a run again, without running its model.

    The files `predictions.jsonl`, `scores.jsonl` and `results.json` are written next to the journal, or, for settings
    other than the standard ones, into a folder of their own under `scores`. No scoring overwrites another. A run that
    cannot be written keeps nothing.

    Args:
        folder: Folder of the run.
        judge: A model string, an object, a list of these (the majority counts), or a `JudgeSpec`. It reads replies that
            rules cannot. Its verdicts are stored in the run's folder (docs/judging.md).
        announce: Called with lines for a reader.
        fields: Fields of a `ScoringSpec` (docs/reference/run-fields.md). `metrics` are computed in addition to each
            benchmark's own. With `as_published`, extraction rules, metrics and scale are those of each suite's paper,
            and `results.json` has both.

    Raises:
        StoreError: The folder is not a run.
        UnknownNameError: A name does not exist.
        ModelError: A judge cannot reply.
        ErrorBudgetError: A judge gave no verdict on more replies than its `failures` allow.

    Examples:
        >>> [run] = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4).runs
        >>> sn.score(run.folder, extractor="strict").value()
        1.0
    """
    return Results(
        score_folders([Path(folder)], scoring_spec({**fields}), judge_spec(judge), announce)
    )


def load_run(folder: str | Path | Iterable[str | Path], scoring: str | None = None) -> Results:
    """Load the results of one or several runs as they were scored. No reply is requested, read or scored again.

    This works without the benchmark and its answers: a run contains its own questions.

    Args:
        folder: Folder of a run, or a list of folders for runs that share tables and can be compared.
        scoring: Name of a folder under each run's `scores`, or "" for the scoring by standard settings. By default the
            standard one, or else the only one.

    Raises:
        StoreError: A folder is not a run, was not scored so, or received replies since.
        DataError: The list is empty, or a folder is named twice.

    Examples:
        >>> _ = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="first")
        >>> sn.load_run("runs/first").value()
        1.0
    """
    folders = [Path(run) for run in ([folder] if isinstance(folder, (str, Path)) else folder)]
    if not folders:
        raise DataError("load_run was given no folder; name one run or several")
    check_named_once(folders)
    return Results([load_scoring(run, scoring) for run in folders])
