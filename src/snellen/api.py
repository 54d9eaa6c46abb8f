"""The public API: build, evaluate, acuity, score, decide, export."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import DEFAULT as DEFAULT_RECIPE
from snellen.building.builder import Progress
from snellen.building.builder import build_benchmark as build_spec
from snellen.building.recipe import Decisions, Recipe
from snellen.building.reforming import ReformSettings, reform_source, with_questions
from snellen.catalogue import (
    BenchmarkSpec,
    SourceSpec,
    dimension_titles,
    entries,
    select,
    suite_members,
)
from snellen.catalogue.entries import with_params
from snellen.catalogue.forms import recognised_form, titles_of_forms
from snellen.catalogue.places import HubPlace
from snellen.catalogue.suites import params_with
from snellen.common.field_values import check_known
from snellen.common.paths import check_benchmark_name, slug
from snellen.common.record_fields import shows_fields
from snellen.errors import DataError, ModelError
from snellen.experiments.deciding import DecidedComparison, decide_between
from snellen.experiments.evaluation import check_finished, evaluate_spec
from snellen.experiments.outcome_checks import check_budget
from snellen.experiments.results import Results
from snellen.experiments.scored_folders import check_named_once, score_folders
from snellen.interchange.exports.base import BenchmarkJob, Exporter, export_path
from snellen.models.loading import load_model
from snellen.models.model_strings import as_model_string
from snellen.psychometrics import WIDTH
from snellen.recognition.own_sources import (
    OwnSource,
    entry_of,
    is_own,
    own_source,
    telling_of_rows,
    write_entry,
    write_rows,
)
from snellen.recognition.recognising import TableSettings
from snellen.reformulation.distractors import PictureEmbedder
from snellen.registry import find, names, unknown
from snellen.runs.distractor_writer import ModelDistractorWriter
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
from snellen.scoring.run_scoring import check_metrics
from snellen.verification.verify import Solvers, verify

if TYPE_CHECKING:
    from snellen.psychometrics.acuity_run import AcuityRun
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


def acuity(
    models: Any,
    tests: str | Iterable[str] = (),
    *,
    budget: int | None = None,
    width: float = WIDTH,
    input_side: int | None = None,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
    **fields: Unpack[RunKeywords],
) -> list[AcuityRun]:
    """Measure thresholds: how small, faint or crowded a thing may be for a model to see it (docs/acuity.md).

    `models` are as in `evaluate`; `tests` are names (`letter-size`), all by default. `budget` is the most questions
    that a model is asked in all, else 48 for each test; a test ends early once its 95% interval is narrower than
    `width`, in octaves, or as a share of the range where levels are not spaced by ratios. `input_side` is the longer
    side to which a model behind an API reduces pictures. Other keywords are as in `evaluate`. Each run has `thresholds`
    and, for tests of places, `fields`. Raises as `evaluate` does.
    """
    from snellen.psychometrics.measuring import measure_acuity

    listed = [
        as_model_string(entry)
        for entry in (models if isinstance(models, (list, tuple)) else [models])
    ]
    test_names = [tests] if isinstance(tests, str) else list(tests)
    benchmarks = [name if "/" in name else f"acuity/{name}" for name in test_names] or ["acuity"]
    check_known(fields, KEYWORDS, "field", "")
    spec = run_spec({"report": False, **fields, "benchmarks": benchmarks})
    runs = measure_acuity(
        spec,
        listed,
        budget=budget,
        width=width,
        input_side=input_side,
        progress=progress,
        announce=announce,
    )
    for run in runs:
        if run.outcome is not None:
            check_budget(run.outcome, spec.execution.error_budget)
    return runs


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
    benchmark: str | BenchmarkSpec | Any,
    *,
    source: str | Path | None = None,
    hub: bool = False,
    revision: str = "",
    to: str | Path | None = None,
    params: Mapping[str, Any] | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    writer: Any = None,
    decisions: Decisions = MappingProxyType({}),
    progress: Progress | None = None,
) -> Benchmark:
    """Build one benchmark of the catalogue, or of an entry of your own; whatever is neither is built by `build_table`.

    `source` is the folder with its official files, fetched where none is given and a place is known; `to` the folder
    to make (default: under $SNELLEN_HOME). With `hub` it is built from its dataset on the Hugging Face hub, fetched at
    `revision` (the entry's, else the newest) unless `source` is a folder with that dataset's files. `params` are
    choices and parameters of the entry's source, by name (docs/datasets.md, Choices). `recipe` says how it is
    sampled and how many options there are, where the entry is not to decide; `writer` is a model
    string or object that writes distractors where the paper had a model write them. `decisions` say which distractors
    are not to be used and which questions are set apart, such as `Benchmark.decisions()` of one that was verified
    (docs/verifying.md). Raises DataError naming file and line of wrong rows; nothing half-built is left. ModelError
    when the writer does not answer: what it wrote is kept.
    """
    if is_own(benchmark):
        return build_table(benchmark, to=to, recipe=recipe, writer=writer, progress=progress)
    if isinstance(benchmark, str):
        chosen = select(benchmark)
        if len(chosen) != 1:
            raise DataError(
                f"{benchmark} stands for {len(chosen)} benchmarks; build them one by one"
            )
        benchmark = chosen[0]
    folder, origin = Path(source) if source else None, ""
    if hub or not benchmark.source.embedded:
        from snellen.fetching.sources import source_to_build

        benchmark, folder, origin = source_to_build(
            benchmark, folder, revision, hub=hub, settings=params or {}
        )
    else:
        benchmark = with_params(benchmark, params or {})
    return _built(
        benchmark,
        folder,
        to=to,
        recipe=recipe,
        writer=writer,
        progress=progress,
        origin=origin,
        decisions=decisions,
    )


def _built(
    spec: BenchmarkSpec, source: Path | None, *, to: str | Path | None, writer: Any, **settings: Any
) -> Benchmark:
    """Build an entry, whose distractors a model writes if one is named."""
    with (
        ModelDistractorWriter(load_model(writer)) if writer is not None else nullcontext() as author
    ):
        return build_spec(
            spec, source=source, to=Path(to) if to else None, writer=author, **settings
        )


def build_table(
    table: Any,
    *,
    name: str = "",
    images: str | Path | None = None,
    to: str | Path | None = None,
    dimension: str = "",
    metrics: Sequence[str] = (),
    answers: str | Path | None = None,
    lenient: bool = False,
    no_pictures: bool = False,
    hidden_answers: bool = False,
    examples: int | str = "",
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_is: str = "",
    fetch_pictures: bool = False,
    recipe: Recipe = DEFAULT_RECIPE,
    writer: Any = None,
    progress: Progress | None = None,
) -> Benchmark:
    """Build a benchmark from your own questions: a file or folder of any form, `hf://org/name`, an entry (.toml), a
    list of dicts, a data frame or a `datasets.Dataset` (docs/own-data.md).

    What each column holds is recognised by names and content, or read from an entry beside the file; `columns` says it
    (`{"question": "Frage"}`), and `answer_is` how answers name options: letter, text, index0, index1. `images` is the
    folder that image paths are relative to (default: the file's own). A table in which no question has a picture, or
    none an answer, is refused unless that is meant: `no_pictures`, `hidden_answers`; pictures at addresses are fetched
    with `fetch_pictures` alone. A `recipe` with a number of options or a source of distractors, or a `writer`, makes
    open questions multiple choice. A table of a suite's form is read as such (MMBench's: docs/mmbench.md): `answers` is
    a file with the answers it hides. `lenient` leaves out rows that cannot be used, and counts them. `examples` are set
    apart to be shown before others: a number of questions, a condition on tags, or "all" (docs/few-shot.md). Raises
    DataError naming file and line of wrong rows; nothing half-built is left.
    """
    if dimension and dimension not in dimension_titles():
        raise unknown("dimension", dimension, dimension_titles())
    check_metrics(metrics)
    if name:
        check_own_name(name, to)
    recipe = replace(recipe, examples=str(examples)) if examples else recipe
    settings = TableSettings(
        _as_lists(columns),
        answer_is,
        str(images or ""),
        no_pictures,
        hidden_answers,
        fetch_pictures,
        makes_options(recipe, writer),
    )
    with tempfile.TemporaryDirectory() as folder:
        if not isinstance(table, (str, Path)):
            if not (name or to):
                raise DataError("rows in memory have no name; give the benchmark one: name=...")
            path = Path(folder) / f"{name or Path(str(to)).name}.jsonl"
            write_rows(table, path)
            table, settings = path, replace(settings, images=settings.images or str(Path.cwd()))
        with telling_of_rows(Path(folder)):
            source = None
            if isinstance(table, Path) or not table.startswith("hf://"):
                source = table_of_form(Path(table), settings, answers, lenient)
            source = source or with_questions(own_source(table, settings, name))
            spec = replace(source.spec, name=name or source.spec.name)
            spec = replace(
                spec, dimension=dimension or spec.dimension, metrics=tuple(metrics) or spec.metrics
            )
            source = replace(source, spec=spec)
            return build_own(
                source, to=to, recipe=recipe, writer=writer, progress=progress, lenient=lenient
            )


def makes_options(recipe: Recipe, writer: Any) -> bool:
    """Whether it is asked for that open questions become multiple choice."""
    return (
        writer is not None
        or recipe.options is not None
        or recipe.distractors != DEFAULT_RECIPE.distractors
    )


def table_of_form(
    path: Path, settings: TableSettings, answers: str | Path | None, lenient: bool
) -> OwnSource | None:
    """A table that a suite's form reads; None for others. Raises DataError for settings that such a table has no use
    for, and the other way round."""
    form = recognised_form(path) if not settings.columns and entry_of(path) is None else None
    if form is None:
        if answers:
            raise DataError(f"{path}: answers apart are for files of {titles_of_forms()}")
        return None
    if settings.no_pictures or settings.hidden_answers:
        raise DataError(
            f"{path} is of {form.title}, which needs no word about missing pictures or answers"
        )
    if settings.make_options or settings.fetch_pictures or settings.answer_is:
        raise DataError(
            f"{path} is of {form.title}, which has options of its own; leave the flags for others out"
        )
    params = params_with(
        {"images": settings.images, "files": [path.name]}, answers=answers, lenient=lenient
    )
    spec = BenchmarkSpec(
        name=path.stem,
        title=path.name,
        formulation="choice",
        source=SourceSpec(form.reader, params),
    )
    return OwnSource(spec, path)


def build_own(
    source: OwnSource,
    *,
    to: str | Path | None,
    recipe: Recipe,
    writer: Any,
    progress: Progress | None,
    lenient: bool = False,
) -> Benchmark:
    """Build what a user gave. Raises DataError for a name that hides one of the catalogue."""
    spec = source.spec
    check_own_name(spec.name, to)
    recipe = replace(recipe, lenient=lenient and "lenient" not in spec.source.params)
    if spec.source.places and source.entry:
        return build(spec, to=to, recipe=recipe, writer=writer, progress=progress)
    revisions = [place.revision[:7] for place in spec.source.places if isinstance(place, HubPlace)]
    origin = f"{spec.title}@{revisions[0]}" if revisions else ""
    return _built(
        spec, source.folder, to=to, recipe=recipe, writer=writer, progress=progress, origin=origin
    )


def check_own_name(name: str, to: str | Path | None) -> None:
    """Raise DataError for a name that is none, or hides one of the catalogue."""
    check_benchmark_name(name)
    if to is None and name in {*entries(), *suite_members()}:
        kind = "suite" if name in suite_members() else "benchmark"
        raise DataError(
            f"{name} is a {kind} of the catalogue, which your questions would hide; choose another name (--name)"
        )


def reform(
    target: str | Path,
    *,
    images: str | Path | None = None,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    ask: Sequence[str] = (),
    options: int | None = None,
    distractors: str = "",
    per_type: int | None = None,
    count: int | None = None,
    seed: int = 0,
    name: str = "",
    title: str = "",
    licence: str = "",
    to: str | Path | None = None,
    writer: Any = None,
    embeddings: str = "",
    jury: Sequence[Any] = (),
    blind: Sequence[Any] = (),
    runs: str | Path = "runs",
    lenient: bool = False,
    force: bool = False,
    announce: Announce = silent,
    progress: Progress | None = None,
) -> Benchmark:
    """Build a checked benchmark of closed questions from annotations (docs/reform.md): a folder of pictures by class, a
    file in COCO's form, a table of any form, or the TOML of an earlier call.

    `images` and `columns` are as in `build_table`. `ask` are types of questions (default: all that fit), `distractors`
    sources such as "near-text:2,random:1". `per_type` questions of each type are drawn (500; 0 for all), or `count` in
    total; another `seed` draws others. Each question passes checks, or gets another distractor, or is set apart: of
    texts and pictures always, by a `jury` of models that see the picture and by `blind` ones that do not where these
    are named (docs/verifying.md; they are asked in `runs`). Rows that cannot be used are
    an error, or with `lenient` left out and counted. Beside the annotations a TOML file is written that says
    what was made of them. `writer` is a model that writes distractors, `embeddings` a `clip:` model that tells which
    pictures are alike. `announce` is called with lines for a reader. Raises DataError, UnknownNameError, ModelError.
    """
    settings = ReformSettings(
        ask=tuple(ask),
        options=options,
        distractors=distractors,
        per_type=per_type,
        count=count,
        seed=seed,
        title=title,
        licence=licence,
    )
    table = TableSettings(_as_lists(columns), images=str(images or ""))
    source, line = reform_source(target, settings, table, name=name, force=force)
    for note in (*source.recognition.lines(), f"  {line}") if source.recognition else ():
        announce(note)
    return build_reformed(
        source,
        settings,
        to=to,
        writer=writer,
        embeddings=embeddings,
        lenient=lenient,
        solvers=Solvers(tuple(jury), tuple(blind), runs=str(runs), announce=announce),
        announce=announce,
        progress=progress,
    )


def build_reformed(
    source: OwnSource,
    settings: ReformSettings,
    *,
    to: str | Path | None,
    writer: Any,
    embeddings: str,
    lenient: bool,
    solvers: Solvers,
    announce: Announce,
    progress: Progress | None,
) -> Benchmark:
    """The benchmark of questions that pass all checks; an entry that was not there is written."""
    spec = source.spec
    check_own_name(spec.name, to)
    recipe = Recipe(seed=spec.source.params.get("seed", 0), embeddings=embeddings, lenient=lenient)
    if source.entry:
        recipe = replace(
            recipe,
            sample=settings.sampling,
            options=settings.options,
            distractors=settings.distractors,
        )
    embedder = picture_embedder(embeddings) if embeddings else None

    def version(decisions: Decisions, folder: Path) -> Benchmark:
        return _built(
            spec,
            source.folder,
            to=folder,
            recipe=recipe,
            writer=writer,
            progress=progress,
            embedder=embedder,
            decisions=decisions,
        )

    benchmark = verify(version, spec.name, solvers, to=Path(to) if to else None)
    if source.recognition:
        announce(f"written to {write_entry(source.recognition, spec)}; change it there")
    return benchmark


def _as_lists(columns: Mapping[str, str | Sequence[str]] | None) -> dict[str, list[str]]:
    return {
        role: [held] if isinstance(held, str) else list(held)
        for role, held in (columns or {}).items()
    }


def picture_embedder(model: str) -> PictureEmbedder:
    """Unit vectors of pictures by a `clip:` model. Raises ModelError for another one."""
    opened = load_model(model)
    if not hasattr(opened, "embed_pictures"):
        raise ModelError(f"{model}: embeds no pictures; name a clip: model")
    embedder: PictureEmbedder = opened.embed_pictures
    return embedder


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
