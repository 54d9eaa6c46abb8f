"""The public API: build, evaluate, score, decide, export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from snellen.benchmark_building import (
    as_list,
    benchmark_pattern,
    build_entry,
    build_own,
    build_reformed,
    find_annotations,
    find_own,
    rows_as_file,
)
from snellen.building.benchmark import Benchmark
from snellen.building.builder import Progress
from snellen.building.replaced_builds import ROWS_IN_MEMORY
from snellen.building.spec import (
    ReformSpec,
    build_spec,
    check_targets,
    reform_spec,
)
from snellen.catalogue import BenchmarkSpec
from snellen.catalogue.recipes import VENDOR
from snellen.common.attribute_hints import answering_keywords
from snellen.common.field_values import check_known
from snellen.common.paths import slug
from snellen.common.record_fields import shows_fields
from snellen.errors import DataError, UnknownNameError
from snellen.experiments.deciding import DecidedComparison, decide_between
from snellen.experiments.default_listeners import default_announce
from snellen.experiments.evaluation import FinishedRun, check_finished, evaluate_spec
from snellen.experiments.loaded_benchmark import LoadedBenchmark
from snellen.experiments.outcome_checks import check_budget
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import (
    as_scored_last,
    check_named_once,
    is_scored_again,
    open_stored,
    score_folders,
    scoring_for_all,
)
from snellen.experiments.vendor_recipes import Reproduced, apply_recipe, compare_with_card
from snellen.given_arguments import (
    chosen_metrics,
    extractor_name,
    given_model,
    given_models,
    given_progress,
    separate_judges,
    warn_of_unused,
)
from snellen.interchange.exports.base import BenchmarkJob, Exporter, export_path
from snellen.keyword_names import own_keywords, with_own_names
from snellen.metrics.own import judge_names
from snellen.models import loading
from snellen.models.loaded_model import ModelInHand
from snellen.recognition.own_sources import is_own
from snellen.registry import find_registered, is_code, names, register_scoring_code
from snellen.runs.finding import Announce, announce_nothing, open_benchmark, select_to_build
from snellen.runs.run_folder import runs_in
from snellen.runs.run_progress import ProgressListener, ignore_progress
from snellen.runs.separated_names import separated_benchmarks, separated_protocols
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
from snellen.scoring.scored_run import ScoredRun

if TYPE_CHECKING:
    from snellen.analysis.paired.differences import Comparison
    from snellen.building.keywords import BuildKeywords, ReformKeywords
    from snellen.experiments.keywords import CompareKeywords
    from snellen.runs.keywords import RunKeywords, ScoringKeywords

KEYWORDS = tuple("model" if name == "models" else name for name in RUN_FIELDS)
"""The fields of a run as `evaluate` calls them."""
EVALUATE_KEYWORDS = (*KEYWORDS, "metrics", "extractor", "columns", "recipe", "progress")
"""All keywords of `evaluate` that other libraries may call otherwise."""


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
    exporter: Exporter = find_registered("exporters", form)
    if exporter.write_benchmark is None:
        forms = ", ".join(
            name
            for name in names("exporters")
            if find_registered("exporters", name).write_benchmark
        )
        raise DataError(
            f"{form} is an export format for runs; benchmarks can be written as {forms}"
        )
    opened = open_benchmark(str(benchmark))
    to = export_path(form, exporter, path, f"{slug(opened.name)}-{form}")
    return list(exporter.write_benchmark(BenchmarkJob(opened, to, answers)))


@shows_fields(QuestionSpec, ExecutionSpec, RunSpec, report=False)
def evaluate(
    model: Any,
    benchmarks: Any = None,
    protocols: str | Iterable[str] = (),
    *,
    metrics: Any = (),
    extractor: str | Callable[..., Any] = "",
    columns: Mapping[str, Any] | None = None,
    recipe: str = "",
    processor: Any = None,
    progress: ProgressListener | bool | None = None,
    announce: Announce | None = None,
    **fields: Unpack[RunKeywords],
) -> Results:
    """Evaluate a model on benchmarks and score it. The same call resumes an interrupted run.

    Args:
        model: A model string (`hf:org/name`, `openai:name@url`, `snellen:tiny`, ...), a transformers model by
            `sn.hf(model, processor)`, a function `f(question, images)`, an object or class with
            `generate(requests, images)` and, if it can, `loglikelihood`, or a list of these. Each model gets its own
            run. `workers` is the number of processes that load a model string, and of threads that call a function.
        benchmarks: Names, globs, suites or folders; your own questions as a file, list of dicts, data frame or
            `datasets.Dataset`, which are built first; what `sn.build` or `sn.load_benchmark` returned; or a list of
            these.
        protocols: Protocols such as "circular" or "instability?m=5". By default each benchmark is run as its suite does
            by `method` (generation, likelihood or both), or once.
        metrics: Metrics to compute in addition to those of each benchmark: names, functions `f(reply, references)`,
            `f(reply, reference)` or `f(question, reply, reference)` (see `sn.metric`), functions by name, or
            `my_metrics.py:NAME`. Functions measure open questions; as `judge`, they also mark chosen options.
        extractor: How choices are extracted from replies (docs/extraction.md): a name, a function of
            `(reply, options, labels)` that returns an index or None, or one of the reply alone that returns the part to
            read.
        columns: Columns of your own questions that are not recognised, by role: `{"image": "photo", "tag": ["city",
            "year"]}`. A tag is what reports group by; columns such as `category`, `subject` and `split` are tags by
            themselves.
        recipe: Settings of a recipe (docs/recipes.md): `vendor` for that of the model's family, a name, or the path of a
            TOML file. The model is one model string; settings that the call or the string has take precedence.
        processor: The processor of a transformers model that is given as it is, as in `sn.hf(model, processor)`.
        progress: Whether to show progress, or what is called with a `RunProgress` whenever replies arrive, from one
            thread at a time. By default, terminals and notebooks show progress.
        announce: Called with lines for a reader, such as what is built, left out, or sent to a judge. By default,
            terminals and notebooks show them.
        fields: Fields of a `RunSpec` (docs/reference/run-fields.md), except that `report` is off by default: `limit`,
            `name`, `where`, `temperature`, `workers` ... `roles` is a dict of the other models that a protocol needs,
            strings or objects. `judge` is a model, a list of models, a `JudgeSpec`, or a function
            `f(question, reply, reference)` that returns a truth value or a share. Its mean is a metric with the name of
            the function; of a question with options, it gets the text of the option that was read. Options of model strings (`device`, `dtype`, `batch_size`, `base_url` ...) and usual other
            names of keywords (`tasks`, `max_samples`, `output_dir` ...) are taken as well.

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
    arguments = {
        "benchmarks": benchmarks,
        "protocols": protocols,
        "metrics": metrics,
        "extractor": extractor,
        "columns": columns,
        "recipe": recipe,
        "progress": progress,
    }
    given = {name: value for name, value in arguments.items() if not _is_default(value)}
    settings = own_keywords({**given, **fields}, EVALUATE_KEYWORDS)
    if processor is not None:
        model = _with_processor(model, processor)
    if "benchmarks" not in settings:
        raise DataError(
            "evaluate needs a benchmark or your own questions as its second argument (sn.list_benchmarks() shows what "
            "there is); sn.score(rows) scores predictions that you have"
        )
    models = given_models(model, settings)
    judging_functions, settings["judge"] = separate_judges(settings.get("judge", ()))
    extractor = extractor_name(settings.pop("extractor", ""))
    chosen = settings.pop("metrics", ())
    listener = given_progress(settings.pop("progress", None))
    roles = settings.pop("roles", {})
    say = announce or default_announce()
    benchmarks = separated_benchmarks(as_list(settings.pop("benchmarks")))
    columns = settings.pop("columns", None) or {}
    settings["benchmarks"] = [
        benchmark_pattern(benchmark, say, columns) for benchmark in benchmarks
    ]
    if isinstance(settings.get("protocols"), (str, list, tuple)):
        settings["protocols"] = separated_protocols(settings["protocols"])
    recipe = settings.pop("recipe", "")
    spec = run_spec({"report": False, **settings})
    if recipe:
        models, spec = _with_recipe(models, spec, recipe, say)
    scoring = spec.scoring
    register_scoring_code(scoring.metrics, extractor or scoring.extractor)
    own_metrics = (*chosen_metrics(chosen), *judge_names(judging_functions))
    if own_metrics:
        scoring = replace(scoring, metrics=(*scoring.metrics, *own_metrics))
    if extractor:
        scoring = replace(scoring, extractor=extractor)
    finished = evaluate_spec(
        replace(spec, scoring=scoring),
        models,
        roles=roles,
        progress=listener,
        announce=say,
    )
    check_finished(finished, spec.execution.error_budget)
    results = Results([run.scored for run in finished])
    warn_of_unused(own_metrics, results)
    return results


def _with_processor(model: Any, processor: Any) -> Any:
    """Return a transformers model with its processor. Raises DataError for a model string or several models."""
    if isinstance(model, (str, Path, list, tuple)):
        raise DataError(
            "processor=... belongs to one transformers model in memory; a model string loads its own processor, and "
            "of several models each is sn.hf(model, processor)"
        )
    from snellen.models.hf.in_memory import hf  # imports torch

    return hf(model, processor)


def _with_recipe(
    models: Sequence[Any], spec: RunSpec, recipe: str, announce: Announce
) -> tuple[list[Any], RunSpec]:
    """Return the model and the run with the settings of a recipe. Raises DataError for a model that is an object."""
    objects = [model for model in models if not isinstance(model, str)]
    if objects:
        raise DataError(
            f"recipe={recipe!r}: a recipe is applied to a model string, such as 'hf:org/name', and this model is "
            f"{objects[0]!r:.60}"
        )
    applied = apply_recipe(spec.with_question(models=tuple(models)), recipe, announce)
    return list(applied.spec.question.models), applied.spec.with_question(models=())


@shows_fields(QuestionSpec, ExecutionSpec, RunSpec, report=False)
def reproduce(
    model: str,
    benchmarks: str | Iterable[str] = (),
    *,
    recipe: str = VENDOR,
    progress: ProgressListener = ignore_progress,
    announce: Announce | None = None,
    **fields: Unpack[RunKeywords],
) -> list[Reproduced]:
    """Run what the card of a model prints, by its vendor's recipe, and compare the numbers (docs/recipes.md).

    Args:
        model: A model string.
        benchmarks: Benchmarks of the card to run; all of them by default.
        recipe: `vendor` for the recipe of the model's family, the name of a recipe, or the path of a TOML file.
        progress: Called with a `RunProgress` whenever replies arrive.
        announce: Called with lines for a reader. By default, terminals and notebooks show them.
        fields: Fields of a `RunSpec`, as in `evaluate`.

    Returns:
        For each number of the card: `printed`, `measured`, `low` and `high` (its 95% interval) in the unit of the card,
        `agrees`, and `differs`, what is known to differ. Numbers that disagree come first. A benchmark that could not be
        fetched has no measured number, and `differs` says why.

    Raises:
        DataError: No recipe is for the model, or its card prints nothing of the benchmarks.
        UnknownNameError: No recipe has the name.
        ErrorBudgetError: More than `error_budget` (a share) of the requests failed.

    Examples:
        >>> from pathlib import Path
        >>> text = "name = 'mine'\\ntitle = 'Mine'\\nsource = 'my paper'\\nsizes = { S = ['tiny'] }\\n"
        >>> number = "[[numbers]]\\nbenchmark = 'eyechart/position'\\nprinted = 'Positions'\\nvalues = { S = 50.0 }\\n"
        >>> _ = Path("mine.toml").write_text(text + number)
        >>> [number] = sn.reproduce("snellen:tiny", recipe="mine.toml", limit=30)
        >>> number.printed, round(number.measured, 1), number.agrees
        (50.0, 63.3, True)
    """
    say = announce or default_announce()
    spec = run_spec(
        {"report": False, **fields, "models": (model,), "benchmarks": tuple(as_list(benchmarks))}
    )

    def evaluated(part: RunSpec) -> list[FinishedRun]:
        finished = evaluate_spec(part, progress=progress, announce=say)
        for run in finished:
            check_budget(run.outcome, part.execution.error_budget)
        return finished

    return compare_with_card(spec, evaluated, recipe, say)


def _is_default(value: Any) -> bool:
    """Return whether an argument was left out, as far as its value shows."""
    return value is None or (isinstance(value, (str, tuple)) and not value)


def decide(
    first: Any,
    second: Any,
    benchmarks: str | Iterable[str],
    protocols: str | Iterable[str] = (),
    *,
    metric: str = "",
    equivalent: float = 0.0,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
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
    named = [benchmarks] if isinstance(benchmarks, str) else benchmarks
    settings = {
        **fields,
        "benchmarks": separated_benchmarks(named),
        "protocols": separated_protocols(protocols),
    }
    spec = run_spec(settings)
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
        source = find_own(path, file_spec)
        return build_own(source, file_spec, origin=ROWS_IN_MEMORY, progress=progress)


def _one_entry(name: str) -> BenchmarkSpec:
    """Return the benchmark of a name. Raises DataError if the name stands for several."""
    chosen = select_to_build(name)
    if len(chosen) != 1:
        raise DataError(f"{name} matches {len(chosen)} benchmarks; build them one at a time")
    return chosen[0]


@shows_fields(ReformSpec)
def reform(
    target: str | Path,
    *,
    announce: Announce = announce_nothing,
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
    folder: Any = None,
    benchmark: str | Path = "",
    *,
    judge: JudgeSpec | Any = (),
    announce: Announce = announce_nothing,
    predictions: Sequence[str] | None = None,
    references: Sequence[Any] | None = None,
    **fields: Unpack[ScoringKeywords],
) -> Results:
    """Read and score the stored replies of a run again, or a file of predictions, without running a model.

    The files `predictions.jsonl`, `scores.jsonl` and `results.json` are written next to the journal, or, for settings
    other than the standard ones, into a folder of their own under `scores`. No scoring overwrites another. A run that
    cannot be written keeps nothing.

    Args:
        folder: Folder of the run, or of several runs, or the `Results` of runs, which are scored whole, or a file of
            predictions of any toolkit, which becomes a run first (docs/predictions.md; `sn.import_run` has more
            settings). Rows of predictions in memory work as well: a list
            of dicts, a data frame or a `datasets.Dataset`.
        benchmark: For predictions: the benchmark whose questions they answer. By default their own.
        judge: A model string, an object, a list of these (the majority counts), or a `JudgeSpec`. It reads replies that
            rules cannot. Its verdicts are stored in the run's folder (docs/judging.md). A function
            `f(question, reply, reference)` marks all replies, as in `evaluate`.
        announce: Called with lines for a reader.
        predictions: Replies, in place of `folder`.
        references: The ground truth of each of the `predictions`: a text, or a list of texts.
        fields: Fields of a `ScoringSpec` (docs/reference/run-fields.md). `metrics` are computed in addition to each
            benchmark's own. With `as_published`, extraction rules, metrics and scale are those of each suite's paper,
            and `results.json` has both.

    Raises:
        StoreError: The folder is not a run.
        DataError: The file is not recognised, or has no ground truth.
        UnknownNameError: A name does not exist.
        ModelError: A judge cannot reply.
        ErrorBudgetError: A judge gave no verdict on more replies than its `failures` allow.

    Examples:
        >>> [run] = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4).runs
        >>> sn.score(run.folder, extractor="strict").value()
        1.0
        >>> sn.score(predictions=["a red car", "two"], references=["red car", "three"]).value()
        0.5
    """
    rows = folder
    if isinstance(benchmark, Path):
        benchmark = str(benchmark)
    if not isinstance(benchmark, str) and predictions is None and references is None:
        rows, predictions, references, benchmark = None, folder, benchmark, ""
    if predictions is not None or references is not None:
        rows = _prediction_rows(rows, predictions, references)
    if rows is None:
        raise DataError("score needs the folder of a run, or predictions: a file or rows")
    given = with_own_names(fields, ScoringSpec.__struct_fields__)
    _check_columns(given)
    judging_functions, judge = separate_judges(judge)
    given["metrics"] = (
        *chosen_metrics(given.get("metrics", ())),
        *judge_names(judging_functions),
    )
    if "extractor" in given:
        given["extractor"] = extractor_name(given["extractor"])
    spec = scoring_spec(given)
    register_scoring_code((), spec.extractor)
    if not isinstance(rows, (str, Path, Results)):
        with rows_as_file(rows, build_spec({"name": "predictions"})) as (path, _):
            folders = _import_file(path, benchmark, announce)
        scored_rows = Results(
            score_folders(folders, spec, judge_spec(judge), announce, is_asked_for=True)
        )
        warn_of_unused(list(filter(is_code, spec.metrics)), scored_rows)
        return scored_rows
    if isinstance(rows, Results):
        folders = [run.folder for run in rows.runs]
    else:
        folders = runs_in([rows])
    if not isinstance(rows, Results) and Path(rows).is_file():
        folders = _import_file(Path(rows), benchmark, announce)
    elif benchmark:
        raise DataError(
            f"{folders[0]} is not a file of predictions, and a run is scored with the answers of its own benchmark; leave "
            "out benchmark"
        )
    results = Results(score_folders(folders, spec, judge_spec(judge), announce, is_asked_for=True))
    warn_of_unused(list(filter(is_code, spec.metrics)), results)
    return results


def _import_file(path: Path, benchmark: str, announce: Announce) -> list[Path]:
    """Import a file of predictions as runs, and return their folders.

    Args:
        path: The file.
        benchmark: Name of the benchmark that has the ground truth; "" if the file has it.
        announce: Called with lines for a reader.
    """
    # The readers of predictions take a while to import, and no other function here needs them.
    from snellen.interchange.predictions.taking import FileReading, import_with_notes

    return import_with_notes([path], FileReading(benchmark), announce)


def _check_columns(fields: Mapping[str, Any]) -> None:
    """Raise UnknownNameError for keywords that name columns of predictions."""
    for name in fields:
        role = name.removesuffix("_column").removesuffix("_col")
        if role in ("prediction", "pred", "response", "reference", "answer", "label", "target"):
            raise UnknownNameError(
                f"score has no keyword {name!r}; it finds columns by their names and content. If it fails to, rename "
                "them: sn.score(rows.rename(columns={'mine': 'prediction', 'truth': 'answer'}))"
            )


def _prediction_rows(
    folder: Any, predictions: Sequence[str] | None, references: Sequence[Any] | None
) -> list[dict[str, Any]]:
    """Return a row for each prediction with its reference. Raises DataError if they do not belong together."""
    if folder is not None or predictions is None or references is None:
        raise DataError(
            "score takes predictions together with references, and no folder: "
            "sn.score(predictions=[...], references=[...])"
        )
    if isinstance(predictions, str) or isinstance(references, str):
        raise DataError(
            "predictions and references are lists of texts; put a single one in brackets"
        )
    if len(predictions) != len(references):
        raise DataError(
            f"there are {len(predictions)} predictions and {len(references)} references; give one for each"
        )
    rows: list[dict[str, Any]] = []
    for number, (prediction, reference) in enumerate(zip(predictions, references, strict=True)):
        if reference is None:
            raise DataError(f"references[{number}] is None; leave out what has no ground truth")
        reply = "" if prediction is None else str(prediction)
        rows.append({"prediction": reply, "answers": _as_reference(reference)})
    return rows


def _as_reference(reference: Any) -> Any:
    return list(reference) if isinstance(reference, (list, tuple)) else str(reference)


def compare(
    *runs: Any,
    to: str | Path | None = None,
    scoring: str | None = None,
    **fields: Unpack[CompareKeywords],
) -> Comparison:
    """Compare runs question by question.

    Runs that are given as folders are compared as they were scored last; if that was not in the same way for all of
    them, by standard settings. A run that shares nothing with the others is left out of the comparison, and `left_out`
    of the result says why.

    Args:
        runs: Two or more runs, or a list of them: results, scored runs, or folders of scored runs. A folder may contain
            several runs, as `"runs"` does.
        to: A `.md`, `.csv` or `.json` file to write.
        scoring: For folders: the stored scoring to compare, as in `load_run`.
        fields: Fields of a `CompareSpec`, as in `Results.compare`.

    Raises:
        DataError: There are fewer than two runs, or they have nothing in common.
        StoreError: A folder is not a scored run.

    Examples:
        >>> first = sn.evaluate("snellen:oracle", "eyechart/shape", limit=8)
        >>> second = sn.evaluate("snellen:always-a", "eyechart/shape", limit=8)
        >>> difference = sn.compare(first, second).differences[0]
        >>> difference.first_value, difference.second_value
        (1.0, 0.0)
    """
    given = runs[0] if len(runs) == 1 and isinstance(runs[0], (list, tuple)) else runs
    announce = default_announce()
    folders = runs_in(each for each in given if isinstance(each, (str, Path)))
    if scoring is None and is_scored_again(folders):
        opened = as_scored_last(folders, ScoringSpec(), JudgeSpec(), announce)
    else:
        opened = open_stored(folders, scoring, announce)
    runs_by_folder = dict(zip(folders, opened, strict=True))
    scored: list[ScoredRun] = []
    for each in given:
        if isinstance(each, ScoredRun):
            scored.append(each)
        elif isinstance(each, Results):
            scored.extend(each.runs)
        else:
            scored.extend(runs_by_folder[folder] for folder in runs_in([each]))
    comparison = Results(scored).compare(to=to, **fields)
    for folder, reason in comparison.left_out.items():
        announce(f"{folder} is left out of the comparison: {reason}")
    return comparison


@answering_keywords(
    "load_benchmark(NAME)[:n] has n questions, filter(...) chooses them; a benchmark is one split, and its name says which"
)
def load_benchmark(benchmark: Any) -> LoadedBenchmark:
    """Load a benchmark with its questions, answers and images. It is built first, if necessary.

    Slices, `select`, `filter`, `shuffle` and `head` give parts of it, which `evaluate` takes.

    Args:
        benchmark: Name or folder of one benchmark, your own questions, or what `sn.build` returned.

    Raises:
        UnknownNameError: The benchmark does not exist.
        DataError: The name stands for several benchmarks, or the data cannot be fetched.

    Examples:
        >>> shapes = sn.load_benchmark("eyechart/shape")
        >>> len(shapes)
        300
        >>> shapes[0].question, shapes[0].answer
        ('What shape is in the picture?', 'star')
        >>> shapes[0].image.size
        (256, 256)
        >>> sn.evaluate("snellen:oracle", shapes.shuffle(seed=1)[:5]).value()
        1.0
    """
    if isinstance(benchmark, LoadedBenchmark):
        return benchmark
    if not isinstance(benchmark, Benchmark):
        announce = default_announce()
        benchmark = open_benchmark(benchmark_pattern(benchmark, announce), announce)
    return LoadedBenchmark(benchmark)


def load_model(model: Any) -> ModelInHand:
    """Load the model that a string names, or adapt an object that has a model's methods, to ask it single questions.

    `evaluate` takes the result as well as the string.

    Args:
        model: A model as `evaluate` takes it.

    Raises:
        UnknownNameError: The scheme does not exist.
        HookError: Code of others cannot be imported, or fails.
        ModelError: The model cannot be loaded.

    Examples:
        >>> model = sn.load_model("snellen:tiny")
        >>> image = sn.load_benchmark("eyechart/shape")[0].image
        >>> model.generate(image, "What shape is in the picture?")
        'star'
    """
    return ModelInHand(loading.load_model(given_model(model)))


def load_run(
    folder: str | Path | Iterable[str | Path],
    scoring: str | None = None,
    *,
    announce: Announce = announce_nothing,
) -> Results:
    """Load the results of one or several runs as they were scored. No reply is requested, read or scored again.

    This works without the benchmark and its answers: a run contains its own questions.

    Args:
        folder: Folder of a run, or of several runs, or a list of folders for runs that share tables and can be compared.
        scoring: Which stored scoring of each run: "latest", "standard", the name of a metric or judge that only one of
            them has, or the name (or the beginning of it) of a folder under the run's `scores`. By default each run is
            shown as it was scored last, or all by standard settings if that was in different ways and all have these.
        announce: Called with a line for a reader about each run that is shown by other than standard settings, or whose
            answers have changed since: which scoring is shown, and which others it has.

    Raises:
        StoreError: A folder is not a run, was not scored so, or received replies since.
        DataError: The list is empty, or a folder is named twice.

    Examples:
        >>> _ = sn.evaluate("snellen:oracle", "eyechart/shape", limit=4, name="first")
        >>> sn.load_run("runs/first").value()
        1.0
    """
    given = [folder] if isinstance(folder, (str, Path)) else list(folder)
    folders = runs_in(given)
    if not folders:
        raise DataError("load_run needs at least one run folder")
    check_named_once(folders)
    if scoring is None:
        scoring = scoring_for_all(folders, announce)
    return Results(open_stored(folders, scoring, announce))
