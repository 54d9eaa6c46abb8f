"""The public API: build, evaluate, score; results as frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from snellen.analysis import subset
from snellen.analysis.aggregate import results_of_all
from snellen.analysis.paired.comparison import RESAMPLES, compare_runs
from snellen.analysis.paired.records import Comparison
from snellen.analysis.paired.significance import Correction
from snellen.analysis.sequential.estimates import SequentialEstimate, sequential_estimates
from snellen.benchmark import Benchmark
from snellen.building.builder import DEFAULT as DEFAULT_RECIPE
from snellen.building.builder import Progress
from snellen.building.builder import build_benchmark as build_spec
from snellen.building.recipe import Recipe
from snellen.catalogue import BenchmarkSpec, SourceSpec, dimension_titles, entries, select, suite_members
from snellen.catalogue.choices import with_params
from snellen.catalogue.forms import recognised_form, titles_of_forms
from snellen.catalogue.hooks import params_with
from snellen.deciding import DecidedComparison, decide_between
from snellen.errors import DataError
from snellen.evaluation import check_budget, evaluate_spec, score_folders, silent
from snellen.exports.declaration import BenchmarkJob, Exporter, ExportJob
from snellen.exports.tracking import track
from snellen.formats.frames import check_polars
from snellen.formats.shown_text import object_line
from snellen.models.base import as_model_string, load_model
from snellen.paths import slug
from snellen.protocols.base import parse_protocol
from snellen.protocols.prediction import RuleChoice
from snellen.readers.hub import from_hub
from snellen.records import Result
from snellen.registry import find, names, unknown
from snellen.runs.distractor_writer import ModelDistractorWriter
from snellen.runs.plan import Announce, open_benchmark
from snellen.runs.progress import ProgressListener, ignore_progress
from snellen.runs.spec import (
    JudgeSpec,
    MethodChoice,
    ScoringSpec,
    TokenPrice,
    Unparsed,
    as_names,
    judge_spec,
    run_spec,
    scoring_spec,
)
from snellen.scoring.flat_results import flat_row
from snellen.scoring.kept_scoring import load_scoring
from snellen.scoring.run_scoring import check_metrics
from snellen.scoring.scored_run import ScoredRun, run_labels

if TYPE_CHECKING:
    import polars

    from snellen.studies.outcome import StudyOutcome
    from snellen.studies.statistic import StudyRow

DEFAULT_SCORING = ScoringSpec()
SHOWN_RUNS = 3
"""Runs that the line of several runs names."""
NOBODY: Mapping[str, Any] = MappingProxyType({})


class Results:
    """What one or several runs found. `rows` are Result records; they and frames are made when asked for.

    Runs of the same model are told apart by their folders: `model` is then `name (folder)`. Several runs have their
    `average_rank` among the rows."""

    def __init__(self, runs: Sequence[ScoredRun]) -> None:
        self.runs = tuple(runs)

    @cached_property
    def rows(self) -> list[Result]:
        return results_of_all(self.runs)

    def __repr__(self) -> str:
        shown = [f"{run.manifest.model} in {run.folder}" for run in self.runs[:SHOWN_RUNS]]
        more = [f"{len(self.runs) - SHOWN_RUNS} more runs"] if len(self.runs) > SHOWN_RUNS else []
        benchmarks = {scored.spec.name for run in self.runs for scored in run.benchmarks}
        return object_line(self, ", ".join(shown + more), benchmarks=len(benchmarks), numbers=len(self.rows))

    def table(self, *, slices: bool = False) -> polars.DataFrame:
        """One row a number: model, benchmark, dimension, protocol, method, metric, value, low, high,
        stderr, n, unscored, errors, groups. `*` stands for a mean over benchmarks. With `slices` also the parts
        of benchmarks (by tag, by template, by round)."""
        check_polars()
        import polars as pl

        rows = [row for row in self.rows if slices or not row.slice]
        return pl.DataFrame([flat_row(row) for row in rows], infer_schema_length=None)

    def scores(self) -> polars.DataFrame:
        """One row a question and metric; a missing value is unscored, and `reason` says what happened."""
        check_polars()
        import polars as pl

        scores = (
            {"model": run.manifest.model, **msgspec.structs.asdict(score)}
            for run in self.runs
            for benchmark in run.benchmarks
            for score in benchmark.scores
        )
        return pl.DataFrame(list(scores), infer_schema_length=None)

    def samples(self) -> polars.DataFrame:
        """One row a presentation: the question with its gold, the request as sent, the reply as received, how it was
        read, and the question's scores (docs/exports.md has the columns). Reads the journals once more."""
        from snellen.exports.sample_table import sample_table

        return sample_table(self.runs)

    def _repr_html_(self) -> str:
        """The summary, as notebooks show it."""
        from snellen.report.notebook import html_summary

        return html_summary(self.runs, self.rows)

    def value(self, metric: str, *, benchmark: str = "*", model: str = "", protocol: str = "") -> float | None:
        """One number. Raises DataError when no row or several rows fit, UnknownNameError for a wrong protocol."""
        label = parse_protocol(protocol).label if protocol else ""
        fitting = [
            row
            for row in self.rows
            if (row.metric, row.benchmark, row.slice) == (metric, benchmark, "")
            and (benchmark != "*" or row.dimension == "*")
            and model in ("", row.model)
            and label in ("", row.protocol)
        ]
        if not fitting:
            raise DataError(f"there is no {metric} of {benchmark}; {self._nearest(metric, benchmark)}")
        if len(fitting) > 1:
            raise DataError(f"{len(fitting)} numbers fit {metric} of {benchmark}; name model and protocol")
        return fitting[0].estimate.value

    def _nearest(self, metric: str, benchmark: str) -> str:
        """What there is instead of a number that is not there."""
        benchmarks = sorted({row.benchmark for row in self.rows})
        if benchmark not in benchmarks:
            return f"the benchmarks are {', '.join(benchmarks)}"
        metrics = sorted({row.metric for row in self.rows if row.benchmark == benchmark and not row.slice})
        if metric not in metrics:
            return f"the metrics of {benchmark} are {', '.join(metrics)}"
        return "see table() for the models and protocols that have one"

    def stopped(self) -> list[SequentialEstimate]:
        """What runs that a rule stopped (`until`) know of whole benchmarks, with intervals that hold whenever one
        stops."""
        return [one for run in self.runs for one in sequential_estimates(run)]

    def only(self, *, where: str = "", common_answered: bool = False) -> Results:
        """The same runs on fewer questions: where a condition on tags and facts holds, and of these, with
        `common_answered`, the ones that every run answered. Raises DataError when none is left."""
        runs: Sequence[ScoredRun] = subset.filter_runs(self.runs, where) if where else self.runs
        return Results(subset.common_answered(runs) if common_answered else runs)

    def compare(
        self,
        *,
        metrics: str | Iterable[str] = (),
        baseline: str | Path = "",
        correction: Correction = "holm",
        resamples: int = RESAMPLES,
        seed: int = 0,
        to: str | Path | None = None,
    ) -> Comparison:
        """The runs compared question by question: differences with intervals and p-values, ranks with intervals, and
        the questions on which they differ. `to` is a `.md`, `.csv` or `.json` file to write.

        Each benchmark counts by its headline metric, or by `metrics`. All pairs are compared, or with the folder or
        the label of a run as `baseline` that one with each other. p-values are corrected by `holm`, `bh` or not
        (`none`). Without `resamples` there are no ranks. Raises DataError for fewer than two runs, for different builds
        of a benchmark, or where nothing is common; UnknownNameError for a wrong baseline; MissingExtraError without
        numpy.
        """
        labels = {run.folder: label for run, label in zip(self.runs, run_labels(self.runs), strict=True)}
        found = compare_runs(
            self.runs,
            metrics=as_names(metrics),
            baseline=labels.get(Path(baseline), str(baseline)) if baseline else "",
            correction=correction,
            resamples=resamples,
            seed=seed,
        )
        if not found.differences:
            raise DataError(
                "these runs have no benchmark, protocol and metric in common; run the models on the same benchmarks"
            )
        if to is not None:
            from snellen.report.write_comparison import write_comparison

            write_comparison(found, Path(to))
        return found

    def export(
        self, form: str, path: str | Path | None = None, *, pictures: bool = False, answers: bool = False
    ) -> list[Path]:
        """Write the runs in a form of another tool (docs/exports.md), and return the files.

        `path` is a file or a folder, as the form is. `pictures` are written where the form has a place for them, and
        golds into forms that are made to be published with `answers` alone. Raises UnknownNameError, DataError for
        what a form cannot hold, StoreError.
        """
        exporter: Exporter = find("exporters", form)
        name = "-".join([self.runs[0].folder.name, *([form] if form != "samples" else [])])
        to = Path(path) if path else Path(name + exporter.suffix)
        return list(exporter.write(ExportJob(self.runs, tuple(self.rows), to, pictures, answers)))

    def track(self, target: str) -> list[str]:
        """Log the runs to an experiment tracker, `mlflow:URI`, `wandb:PROJECT` or `trackio:PROJECT`, each as a run of
        its own there, and return where they went (docs/exports.md). Raises UnknownNameError, DataError,
        MissingExtraError.
        """
        return track(self.runs, target)

    def report(self, path: str | Path) -> Path:
        """Write one report: `.html` (self-contained), `.md`, `.tex`, `.csv`, `.json` or `.parquet`."""
        from snellen.report.write import write_report

        return write_report(self.runs, self.rows, Path(path))

    def figures(self, folder: str | Path, form: str = "svg") -> list[Path]:
        """Write each figure of the report as a file of its own (`svg`, `png` or `pdf`), and `captions.txt` beside them.

        Raises DataError for another form, MissingExtraError where `snellen[figures]` is needed, StoreError.
        """
        from snellen.report.figure_files import write_figures

        return write_figures(self.runs, self.rows, Path(folder), form)

    def latex_tables(self, folder: str | Path) -> list[Path]:
        """Write each table of the report as a file to be read with `\\input`, for a paper that uses booktabs."""
        from snellen.report.latex import write_latex_tables

        return write_latex_tables(self.runs, self.rows, Path(folder))


def export_benchmark(
    benchmark: str | Path, form: str = "dataset", path: str | Path | None = None, *, answers: bool = False
) -> list[Path]:
    """Write a built benchmark, by name or folder, in a form of another tool (docs/exports.md), and return the files.

    Golds are written with `answers` alone. Raises UnknownNameError, DataError for a form that has no place for a
    benchmark or golds that are not here, StoreError.
    """
    exporter: Exporter = find("exporters", form)
    if exporter.write_benchmark is None:
        forms = ", ".join(name for name in names("exporters") if find("exporters", name).write_benchmark)
        raise DataError(f"{form} is a form of runs; a benchmark is written as {forms}")
    opened = open_benchmark(str(benchmark))
    to = Path(path) if path else Path(f"{slug(opened.name)}-{form}{exporter.suffix}")
    return list(exporter.write_benchmark(BenchmarkJob(opened, to, answers)))


def evaluate(
    model: Any,
    benchmarks: str | Iterable[str],
    protocols: str | Iterable[str] = (),
    *,
    roles: Mapping[str, Any] = NOBODY,
    method: MethodChoice = "generation",
    controls: str | Iterable[str] = (),
    where: str = "",
    held_out_for: str | Iterable[str] = (),
    cards: str | Path = "",
    limit: int | None = None,
    until: str = "",
    name: str = "",
    runs: str | Path = "runs",
    templates: str | Path = "",
    prompt: str = "",
    prefix: bool = True,
    few_shot: int = 0,
    few_shot_from: str | Path = "",
    few_shot_same: bool = False,
    few_shot_seed: int = 0,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int = 0,
    stop: str | Iterable[str] = (),
    max_new_tokens: int | None = None,
    workers: int = 1,
    ray: str = "",
    ray_workers: int | None = None,
    gpus_per_worker: float | None = None,
    window: int = 0,
    error_budget: float = 0.0,
    price: TokenPrice | None = None,
    max_cost: float | None = None,
    max_requests: int | None = None,
    max_time: float | None = None,
    cache: str | Path = "",
    allow_same_requests: bool = False,
    report: bool = False,
    scoring: ScoringSpec = DEFAULT_SCORING,
    judge: JudgeSpec | Any = (),
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> Results:
    """Evaluate a model and score it; the same call goes on with a run that was interrupted.

    `model` is a model string (`hf:org/name`, `openai:name@url`, `snellen:tiny`, ...), an object with
    `generate(requests, images)` and, where it can, `loglikelihood`, or a list of these; each has a run of its own.
    `benchmarks` are names, globs, suites or folders; `protocols` such as "circular" or "instability?m=5". Without
    protocols each benchmark is asked as its suite is by `method` (generation, likelihood or both), or once.

    `roles` are the other models that a protocol asks, by role: `{"questioner": MODEL, "reasoner": MODEL}`, each a model
    string or an object (docs/reasoning.md). With `controls` (blank, shuffled, text) everything is also asked with a
    grey picture, another question's or none (docs/controls.md).

    The keywords are the fields of a `RunSpec` (docs/runs.md has them one by one, with those of an exam.toml), but
    that `report` is off unless asked for. `workers` are processes, each with the model, which has to be a model string
    then; `ray` names a cluster, which loads it too (docs/cluster.md).
    `scoring` and `judge` say how replies are read, as in `score`. `progress` is called with a `RunProgress`
    whenever something was answered, from one thread at a time; `announce` with lines for a reader (what is built,
    left out, or asked of a judge).

    Raises UnknownNameError, DataError, ModelError or StoreError, each with one line that says what to do,
    SpentBudgetError where `max_cost`, `max_requests` or `max_time` came before the end, and, when
    all models have been asked, ErrorBudgetError when more than `error_budget` (a share) of a run's requests failed.
    """
    models = [as_model_string(one) for one in (model if isinstance(model, (list, tuple)) else [model])]
    spec = run_spec(
        {
            "benchmarks": as_names(benchmarks), "protocols": as_names(protocols), "method": method,
            "controls": as_names(controls), "where": where,
            "held_out_for": as_names(held_out_for), "cards": str(cards), "limit": limit, "until": until, "name": name,
            "runs": str(runs), "templates": str(templates), "prompt": prompt, "prefix": prefix,
            "few_shot": few_shot, "few_shot_from": str(few_shot_from), "few_shot_same": few_shot_same,
            "few_shot_seed": few_shot_seed, "temperature": temperature, "top_p": top_p, "seed": seed,
            "stop": as_names(stop), "max_new_tokens": max_new_tokens, "workers": workers, "ray": ray,
            "ray_workers": ray_workers, "gpus_per_worker": gpus_per_worker, "window": window,
            "error_budget": error_budget,
            "price": price, "max_cost": max_cost, "max_requests": max_requests, "max_time": max_time,
            "cache": str(cache), "report": report, "allow_same_requests": allow_same_requests, "scoring": scoring,
            "judge": as_judge(judge),
        }
    )  # fmt: skip
    finished = evaluate_spec(spec, models, roles=roles, progress=progress, announce=announce)
    for run in finished:
        check_budget(run.outcome, spec.error_budget)
    return Results([run.scored for run in finished])


def decide(
    first: Any,
    second: Any,
    benchmarks: str | Iterable[str],
    protocols: str | Iterable[str] = (),
    *,
    metric: str = "",
    equivalent: float = 0.0,
    settings: Mapping[str, Any] = NOBODY,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> DecidedComparison:
    """Ask two models the same pictures in a random order until it is decided which is better (docs/adaptive.md).

    Models, benchmarks and protocols are as in `evaluate`; `settings` are other fields of a run (`limit`, `runs`,
    `scoring` ...). `metric` is by default each benchmark's headline; `equivalent` the greatest difference that does not
    matter, in percentage points. `differences` of the result have verdict, interval and what was asked; the two runs go
    on to whole ones by `evaluate`. Raises as `evaluate` does.
    """
    spec = run_spec({**settings, "benchmarks": as_names(benchmarks), "protocols": as_names(protocols)})
    found = decide_between(
        spec, [first, second], metric=metric, equivalent=equivalent, progress=progress, announce=announce
    )
    for outcome in found.outcomes:
        check_budget(outcome, spec.error_budget)
    return found


class StudyResults:
    """What a study found. `rows` are StudyRow records; `outcome` has tables and charts beside them."""

    def __init__(self, outcome: StudyOutcome) -> None:
        self.outcome = outcome
        self.rows: list[StudyRow] = outcome.rows

    def __repr__(self) -> str:
        found = self.outcome
        return object_line(
            self, f"{found.study.name} in {found.folder}", cells=len(found.numbers.cells), numbers=len(self.rows)
        )

    def table(self) -> polars.DataFrame:
        """One row a number: statistic, quantity, model, benchmark, metric, cell, against, value, low, high, n ..."""
        check_polars()
        import polars as pl

        from snellen.studies.statistic import flat_study_row

        return pl.DataFrame([flat_study_row(row) for row in self.rows], infer_schema_length=None)

    def value(
        self, quantity: str, *, metric: str = "", benchmark: str = "", model: str = "", cell: str | None = None
    ) -> float | None:
        """One number: `value("mean", metric="accuracy")`. Raises DataError when no row or several rows fit."""
        fitting = [
            row
            for row in self.rows
            if row.quantity == quantity
            and metric in ("", row.metric)
            and benchmark in ("", row.benchmark)
            and model in ("", row.model)
            and cell in (None, row.cell)
        ]
        if len(fitting) != 1:
            raise DataError(f"{len(fitting)} numbers are a {quantity} of that; name metric, benchmark, model and cell")
        return fitting[0].estimate.value

    def report(self, path: str | Path) -> Path:
        """Write the study: `.html` (self-contained), `.md`, `.csv` or `.json`."""
        from snellen.studies.outcome import write_study

        return write_study(self.outcome, Path(path))


def study(
    name: str | Path,
    model: Any,
    *,
    benchmarks: str | Iterable[str] = (),
    source: str | Path | None = None,
    output: str | Path = "",
    levels: Mapping[str, Sequence[Any] | str | Path] | None = None,
    metrics: str | Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
    judge: JudgeSpec | Any = (),
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> StudyResults:
    """Carry out a declared study, or a TOML file of your own (docs/studies.md); the same call goes on with it.

    `model` is as in `evaluate`. `benchmarks` are asked in place of the study's own, those that are not built are built
    from the folder `source`. `output` is the study's folder (default: `studies/NAME`), in which every cell is a run
    and the results lie as study.html, study.md, results.csv and results.json. `levels` replace those of a factor: a
    list, or a text file with one a line. `metrics` are rows of metrics, `settings` other fields of a run (`limit`,
    `workers`, `scoring` ...). Raises as `evaluate` does.
    """
    from snellen.studies.declaration import find_study
    from snellen.studying import carry_out_study, study_folder

    models = list(model) if isinstance(model, (list, tuple)) else [model]
    declared = find_study(str(name)).with_metrics(as_names(metrics))
    own = {"benchmarks": as_names(benchmarks)} if benchmarks else {}
    given = {name: asdict(x) if isinstance(x, ScoringSpec) else x for name, x in (settings or {}).items()}
    outcome = carry_out_study(
        declared.with_settings({**given, **own}),
        models,
        Path(output) if output else study_folder(declared),
        source=Path(source) if source else None,
        levels=levels,
        judge=as_judge(judge),
        progress=progress,
        announce=announce,
    )
    return StudyResults(outcome)


def build(
    benchmark: str | BenchmarkSpec,
    *,
    source: str | Path | None = None,
    hub: bool = False,
    revision: str = "",
    to: str | Path | None = None,
    params: Mapping[str, Any] | None = None,
    recipe: Recipe = DEFAULT_RECIPE,
    writer: Any = None,
    progress: Progress | None = None,
) -> Benchmark:
    """Build one benchmark of the catalogue, or of an entry of your own.

    `source` is the folder with its official files, `to` the folder to make (default: under
    $SNELLEN_HOME). With `hub` it is built from its dataset on the Hugging Face hub, fetched at `revision` (the
    entry's, else the newest) unless `source` is a folder with that dataset's files. `params` are choices and parameters
    of the entry's source, by name (docs/datasets.md, Choices). `recipe` says how it is
    sampled and how many options there are, where the entry is not to decide; `writer` is a model
    string or object that writes distractors where the paper had a model write them. Raises DataError naming file
    and line of wrong rows; nothing half-built is left. ModelError when the writer does not answer: what it wrote
    is kept.
    """
    if isinstance(benchmark, str):
        chosen = select(benchmark)
        if len(chosen) != 1:
            raise DataError(f"{benchmark} stands for {len(chosen)} benchmarks; build them one by one")
        benchmark = chosen[0]
    benchmark = with_params(benchmark, params or {})
    folder = Path(source) if source else None
    if hub:
        benchmark, folder = from_hub(benchmark, folder, revision)
    with ModelDistractorWriter(load_model(writer)) if writer is not None else nullcontext() as author:
        return build_spec(
            benchmark,
            source=folder,
            to=Path(to) if to else None,
            recipe=recipe,
            writer=author,
            progress=progress,
        )


def build_table(
    file: str | Path,
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
    progress: Progress | None = None,
) -> Benchmark:
    """Build a benchmark from your own questions in a .jsonl, .tsv or .csv file (docs/own-data.md).

    `images` is the folder that image paths are relative to (default: the file's own). A table of a suite's
    form is read as such (MMBench's: docs/mmbench.md): `answers` is a file with the answers it hides, and `lenient`
    leaves its wrong questions out, counted. A file of Snellen's own form in which no question has a picture, or none
    an answer, is refused unless that is meant: `no_pictures`, `hidden_answers`. `examples` are set apart to be shown
    before others: a number of questions, a condition on tags, or "all" (docs/few-shot.md). Raises DataError naming
    file and line of wrong rows; nothing half-built is left.
    """
    path = Path(file)
    if dimension and dimension not in dimension_titles():
        raise unknown("dimension", dimension, dimension_titles())
    check_metrics(metrics)
    own_name = name or path.stem
    if to is None and own_name in {*entries(), *suite_members()}:
        kind = "suite" if own_name in suite_members() else "benchmark"
        raise DataError(
            f"{own_name} is a {kind} of the catalogue, which your questions would hide; choose another name (--name)"
        )
    form = recognised_form(path)
    if (answers or lenient) and not form:
        raise DataError(f"{path}: answers apart and lenient reading are for files of {titles_of_forms()}")
    if form and (no_pictures or hidden_answers):
        raise DataError(f"{path} is of {form.title}, which needs no word about missing pictures or answers")
    meant = {"no_pictures": no_pictures, "hidden_answers": hidden_answers}
    own = {"file": path.name, **{name: True for name, is_meant in meant.items() if is_meant}}
    params = {"images": str(images or ""), **({"files": [path.name]} if form else own)}
    spec = BenchmarkSpec(
        name=own_name,
        title=path.name,
        formulation="choice",
        dimension=dimension,
        metrics=tuple(metrics),
        source=SourceSpec(form.reader if form else "table", params_with(params, answers=answers, lenient=lenient)),
    )
    return build_spec(
        spec,
        source=path if form else path.parent,
        to=Path(to) if to else None,
        recipe=Recipe(examples=str(examples)),
        progress=progress,
    )


def score(
    folder: str | Path,
    *,
    extractor: str = "standard",
    likelihood_rule: RuleChoice = "own",
    metrics: str | Iterable[str] = (),
    semantic: bool = False,
    unparsed: Unparsed = "not-right",
    guess_seed: int = 0,
    as_published: bool = False,
    judge: JudgeSpec | Any = (),
    announce: Announce = silent,
) -> Results:
    """Read and score a run again, without asking its model; writes `predictions.jsonl`, `scores.jsonl`
    and `results.json` beside its journal, or by other settings than the standard ones into a folder of their own under
    `scores`, so that no scoring overwrites another. A run that cannot be written keeps nothing.

    What the extractor leaves unparsed is read by a sentence-embedding model (`semantic`), then by a `judge`: a
    model string, an object, a list of these, of which the majority counts, or a `JudgeSpec` that also says how they
    are asked; verdicts are kept in the run's folder. What is still unparsed counts as not right, or is a random guess
    as published (`unparsed="legacy-random"`, `guess_seed`). `metrics` are computed besides each benchmark's own; the
    judged ones need a judge. With `as_published` the results are those of the rules behind the tables of each suite's
    paper (extractor, metrics, scale); `results.json` has them beside the standard ones, by `convention`, the other
    files are the standard ones. The keywords but the last two are the fields of a `ScoringSpec`; docs/judging.md says
    more.

    Raises StoreError for a folder that is no run, UnknownNameError for a name that nobody has, ModelError for a
    judge that cannot answer, and ErrorBudgetError when a judge gave no verdict on more than its `failures` allow.
    """
    scoring = scoring_spec(
        {
            "extractor": extractor, "likelihood_rule": likelihood_rule, "metrics": as_names(metrics),
            "semantic": semantic, "unparsed": unparsed, "guess_seed": guess_seed, "as_published": as_published,
        }
    )  # fmt: skip
    return Results(score_folders([Path(folder)], scoring, as_judge(judge), announce))


def load_run(folder: str | Path | Iterable[str | Path], scoring: str | None = None) -> Results:
    """The results of a run, or of several, as they were scored; nothing is asked, read or scored again.

    `folder` is the run's, or a list of folders for runs that share tables and can be compared. `scoring` is one of the
    folders under each run's `scores`, "" the scoring by standard settings; unless named it is that one, or else the
    only one. It works without the benchmark and its answers: the run has its own questions. Raises StoreError for a
    folder that is no run, was not scored so, or was asked more since; DataError for an empty list and for a folder
    that is named twice.
    """
    folders = [Path(one) for one in ([folder] if isinstance(folder, (str, Path)) else folder)]
    if not folders:
        raise DataError("load_run was given no folder; name one run or several")
    if repeated := [one for one, times in Counter(one.resolve() for one in folders).items() if times > 1]:
        raise DataError(f"{repeated[0]} is named more than once; name each run once")
    return Results([load_scoring(one, scoring) for one in folders])


def as_judge(judge: JudgeSpec | Any) -> JudgeSpec:
    """The record behind a judge: itself, or that of one model or of several. Raises DataError."""
    if isinstance(judge, JudgeSpec):
        return judge_spec(judge)
    return JudgeSpec(models=tuple(judge) if isinstance(judge, (list, tuple)) else (judge,))
