"""A study from its declaration to its numbers: every cell is a run, asked, scored and kept like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from snellen import DataError, JudgeSpec, ModelError, ScoringSpec, StoreError, load_model
from snellen.plugin_api import (
    MANIFEST,
    RUN_MANIFEST,
    Announce,
    Benchmark,
    BenchmarkSpec,
    Kind,
    LazyRoleModels,
    ProgressListener,
    QuestionSpec,
    Recipe,
    Reopened,
    RunOutcome,
    RunPlan,
    RunSpec,
    Sampling,
    benchmark_folder,
    build_benchmark,
    carry_out,
    check_budget,
    check_judging,
    check_sharing,
    draw_subset,
    find_benchmarks,
    find_metric,
    ignore_progress,
    is_given_unasked,
    is_ready,
    metric_with,
    needed_kind,
    plan_scored_run,
    protocols_of,
    read_text,
    record_fields,
    reopened,
    run_spec,
    score_folders,
    silent,
    slug,
    specs_of,
    subset_name,
    write_atomically,
)
from snellen_lab.studies.cell_table import STUDY_FILES, StudyOutcome, write_study
from snellen_lab.studies.declaration import (
    BUILD_DISTRACTORS,
    BUILD_OPTIONS,
    NOT_OF_A_RUN,
    SAMPLE_RATIO,
    SAMPLE_SEED,
    CellGrid,
    CellSpec,
    StudySample,
    StudySpec,
    grid_of,
)
from snellen_lab.studies.series import StudyCell, computed, study_numbers

RUNS = "runs"
PARTS = "benchmarks"
STUDY_FILE = "study.json"
NO_JUDGE = JudgeSpec()


_Asked = tuple[StudyCell, RunOutcome | None]
"""A cell that has been asked, before its run is scored, and what asking it came to; None when it was not asked."""


def carry_out_study(
    study: StudySpec,
    models: Sequence[Any],
    folder: Path,
    *,
    source: Path | None = None,
    levels: Mapping[str, Sequence[Any] | str | Path] | None = None,
    judge: JudgeSpec = NO_JUDGE,
    progress: ProgressListener = ignore_progress,
    announce: Announce = silent,
) -> StudyOutcome:
    """Ask each model every cell of a study that is not answered yet, score all, compute the statistics, write them.

    `folder` holds the cells' runs; the same call goes on with them. Benchmarks that are not built are built from
    `source`. A cell that a model cannot be asked (replies of one that only scores options) is left out and said.
    Raises SnellenError; ErrorBudgetError when all cells were asked and too many requests of one failed.
    """
    _check_names(models)
    grid = grid_of(study, levels)
    _claim_folder(study, folder)
    asked_metrics, left_out = _metrics(study, judge)
    for note in (*grid.notes, *left_out.values()):
        announce(note)
    spec = run_spec(study.fixed)
    if until := spec.execution.until:
        raise DataError(
            f"until = {until!r}: the cells of a study are asked the same questions; leave it out"
        )
    scoring = replace(
        spec.scoring, metrics=tuple(dict.fromkeys((*spec.scoring.metrics, *asked_metrics)))
    )
    check_judging(scoring, judge)
    _build(study, grid, source, announce)
    asked_cells = list(_Asking(study, grid, folder, source, progress, announce).cells(models))
    cells = _scored(asked_cells, scoring, judge, announce)
    rows = [row for row in study.metrics if row not in left_out]
    numbers = study_numbers(grid, cells, rows)
    if not numbers.series:
        raise DataError(
            f"{study.name}: no cell has a value of {', '.join(rows) or 'its headline metric'}"
        )
    notes = (*grid.notes, *left_out.values(), *_shared(cells))
    outcome = StudyOutcome(study, folder, numbers, computed(numbers, study.statistics), notes)
    for file in STUDY_FILES:
        write_study(outcome, folder / file)
    for _, run_outcome in asked_cells:
        if run_outcome:
            check_budget(run_outcome, spec.execution.error_budget)
    return outcome


def _check_names(models: Sequence[Any]) -> None:
    """Raise DataError when two models have one name, as their cells could not be told apart."""
    names = [model if isinstance(model, str) else load_model(model).name for model in models]
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(
            f"two models are called {twice[0]}; give one of them another name, or leave it out"
        )


def study_folder(study: StudySpec) -> Path:
    """Where a study lies unless its caller says otherwise."""
    return Path("studies") / slug(study.name)


def _claim_folder(study: StudySpec, folder: Path) -> None:
    """Write down which study a folder holds. Raises StoreError when it is another one."""
    path = folder / STUDY_FILE
    if path.exists():
        try:
            folder_study = json.loads(read_text(path))["name"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path}: cannot read which study this is ({error}); choose another --output"
            ) from None
        if folder_study != study.name:
            raise StoreError(f"{folder} holds the study {folder_study}; choose another --output")
    write_atomically(
        path, json.dumps({"name": study.name, "title": study.title}, indent=1).encode()
    )


def _metrics(study: StudySpec, judge: JudgeSpec) -> tuple[list[str], dict[str, str]]:
    """The metrics to ask for; and the rows that lack a judge, with what to do."""
    needed: list[str] = []
    left_out: dict[str, str] = {}
    for row in study.metrics:
        name = metric_with(row)
        metric = find_metric(name)
        if metric.computed_over == "judge" and not judge.models:
            left_out[row] = f"{row} needs a judge and is left out; name one with --judge"
        elif not is_given_unasked(metric):
            needed.append(name)
    return needed, left_out


def _build(study: StudySpec, grid: CellGrid, source: Path | None, announce: Announce) -> None:
    """Build from `source` what no one has built. Raises DataError for a benchmark that cannot be built."""
    if source is None:
        return
    as_usual = [cell for cell in grid.cells if _recipe(cell) == Recipe()]
    patterns = [
        pattern for cell in as_usual for pattern in _fields(study, cell).get("benchmarks", ())
    ]
    for spec in (spec for pattern in dict.fromkeys(patterns) for spec in specs_of(pattern)):
        if not is_ready(spec):
            announce(f"building {spec.name}")
            build_benchmark(spec, source=spec.source_in(source))


def _fields(study: StudySpec, cell: CellSpec) -> dict[str, Any]:
    """The fields of a cell's run."""
    fields = {
        name: value
        for name, value in {**study.fixed, **cell.fields}.items()
        if name not in NOT_OF_A_RUN
    }
    by_name = record_fields(QuestionSpec)
    return {
        name: by_name[name].plain(value) if name in by_name else value
        for name, value in fields.items()
    }


def _recipe(cell: CellSpec) -> Recipe:
    """How the benchmarks of a cell are built; the default where nothing of that varies, or the level is empty."""
    set_fields = {
        name.rpartition(".")[2]: cell.fields.get(name)
        for name in (BUILD_OPTIONS, BUILD_DISTRACTORS)
    }
    return msgspec.convert({name: value for name, value in set_fields.items() if value}, Recipe)


class _Asking:
    """Asks one model after the other; a model that stays the same between cells is loaded once."""

    def __init__(
        self,
        study: StudySpec,
        grid: CellGrid,
        folder: Path,
        source: Path | None,
        progress: ProgressListener,
        announce: Announce,
    ) -> None:
        self._study, self._grid, self._folder, self._source = study, grid, folder, source
        self._progress, self._announce = progress, announce
        self._loaded: tuple[str, Any] = ("", None)
        self._kinds: dict[str, frozenset[Kind]] = {}

    def cells(self, models: Sequence[Any]) -> Iterator[_Asked]:
        """Every cell of each model, asked."""
        for model in models:
            label = model if isinstance(model, str) else load_model(model).name
            for number, cell in enumerate(self._grid.cells, 1):
                self._announce(
                    f"{label}, cell {number} of {len(self._grid.cells)}: {cell.label or self._study.title}"
                )
                yield self._ask(model, label, cell)

    def _ask(self, model: Any, label: str, cell: CellSpec) -> _Asked:
        wholes: dict[str, str] = {}
        fields = _fields(self._study, cell)
        if (recipe := _recipe(cell)) != Recipe():
            fields["benchmarks"] = tuple(self._variants(fields["benchmarks"], recipe, wholes))
        if self._study.sample:
            fields["benchmarks"] = tuple(
                self._parts(fields["benchmarks"], self._study.sample, cell, wholes)
            )
        spec = run_spec(
            {**fields, "runs": str(self._folder / RUNS), "report": False, "models": (label,)}
        )
        check_sharing(spec.execution)
        opened = self._open(model, spec)
        name = opened if isinstance(opened, str) else load_model(opened).name
        plan = plan_scored_run(spec.with_question(models=(name,)).of_model(), self._announce)
        if why := _cannot(name, self._kinds_of(opened), plan):
            self._announce(f"left out: {why}")
            return StudyCell(label, cell, why=why, wholes=wholes), None
        cast = LazyRoleModels(dict(plan.question.roles))
        outcome = carry_out(
            replace(plan, others=tuple(self._others(plan.folder))),
            opened,
            cast,
            self._progress,
            self._announce,
        )
        return StudyCell(label, cell, wholes=wholes), outcome

    def _open(self, model: Any, spec: RunSpec) -> Any:
        """The model of a cell: loaded, or its string where workers load it."""
        if not isinstance(model, str):
            if spec.execution.is_asked_elsewhere:
                raise ModelError(
                    "an object of this process cannot be shared by workers; name it by a model string"
                )
            return model
        return model if spec.execution.is_asked_elsewhere else self._model(model)

    def _model(self, text: str) -> Any:
        if self._loaded[0] != text:
            self._loaded = ("", None)  # what it holds is free before the next one is loaded
            self._loaded = (text, load_model(text))
        return self._loaded[1]

    def _kinds_of(self, opened: Any) -> frozenset[Kind]:
        """What a model can be asked. One that workers will load is loaded for this once, and not kept."""
        if not isinstance(opened, str):
            return load_model(opened).kinds
        if opened not in self._kinds:
            self._kinds[opened] = load_model(opened).kinds
        return self._kinds[opened]

    def _parts(
        self, patterns: Sequence[str], sample: StudySample, cell: CellSpec, wholes: dict[str, str]
    ) -> Iterator[str]:
        """The folders of the parts that are asked, drawn where they are not; `wholes` learns what they are parts of."""
        seed = int(cell.fields.get(SAMPLE_SEED, sample.seed))
        ratio = cell.fields.get(SAMPLE_RATIO)
        drawn_sample = (
            replace(sample, sampling=Sampling(sample.sampling.rule, ratio=ratio))
            if ratio
            else sample
        )
        for use in find_benchmarks(patterns, announce=self._announce):
            part = _part(use.benchmark, drawn_sample, seed, self._folder / PARTS)
            wholes[part.name] = wholes.get(use.benchmark.name, use.benchmark.name)
            yield str(part.folder)

    def _variants(
        self, patterns: Sequence[str], recipe: Recipe, wholes: dict[str, str]
    ) -> Iterator[str]:
        """The folders of the benchmarks built by a recipe: from their files where these are named, else from the built
        benchmark, whose options are made anew. `wholes` learns what they are variants of."""
        for spec in (spec for pattern in patterns for spec in specs_of(pattern)):
            sources = recipe.distractors and f"{recipe.distractors}-distractors"
            words = (f"{recipe.options}-options" if recipe.options else "", sources)
            name = "-".join((spec.name, *filter(None, words)))
            to = self._folder / PARTS / slug(name)
            wholes[name] = spec.name
            if not (to / MANIFEST).exists():
                self._announce(f"building {name}")
                variant, files = self._variant(spec, patterns, recipe, name)
                build_benchmark(variant, source=files, to=to, recipe=recipe)
            yield str(to)

    def _variant(
        self, spec: BenchmarkSpec, patterns: Sequence[str], recipe: Recipe, name: str
    ) -> tuple[BenchmarkSpec, Path]:
        """The entry of a variant, with the same questions in each, and the folder that it is built from."""
        if self._source is not None:
            variant = replace(spec, name=name, source=replace(spec.source, drawn_with=spec.draw))
            return variant, spec.source_in(self._source)
        folders = [Path(pattern) for pattern in patterns if (Path(pattern) / MANIFEST).exists()]
        folder = next(
            (path for path in folders if Benchmark(path).name == spec.name),
            benchmark_folder(spec.name),
        )
        if not (folder / MANIFEST).exists() and not spec.source.embedded:
            raise DataError(
                f"{self._study.name} builds {spec.name} in several ways; name its files (--source)"
            )
        [use] = find_benchmarks(
            [str(folder) if (folder / MANIFEST).exists() else spec.name], announce=self._announce
        )
        changed: Reopened = (
            "options" if recipe.distractors == Recipe().distractors else "distractors"
        )
        return reopened(use.benchmark, name, changed), use.benchmark.folder

    def _others(self, own_folder: Path) -> Iterator[Path]:
        """The runs of the study besides the cell's own."""
        for manifest in sorted((self._folder / RUNS).glob(f"*/{RUN_MANIFEST}")):
            if manifest.parent != own_folder:
                yield manifest.parent


def _part(whole: Benchmark, sample: StudySample, seed: int, folder: Path) -> Benchmark:
    """The part of a benchmark that is asked: as it was drawn before, if the whole is the same."""
    name = subset_name(whole.name, sample.sampling) + (f"-by-{sample.by}" if sample.by else "")
    name = f"{name}-seed-{seed}"
    to = folder / slug(name)
    if (to / MANIFEST).exists():
        part = Benchmark(to)
        if (part.spec.source.params.get("version"), part.spec.source.sample) == (
            whole.manifest.version,
            sample.sampling,
        ):
            return part
    return draw_subset(whole, sample.sampling, name=name, by=sample.by, seed=seed, to=to)


def _cannot(name: str, kinds: frozenset[Kind], plan: RunPlan) -> str:
    """Why a model cannot be asked what a plan says; empty when it can."""
    for selected in plan.benchmarks:
        for protocol in protocols_of(selected.benchmark.spec, plan):
            if (kind := needed_kind(protocol)) not in kinds:
                needed = "replies" if kind == "generate" else "log-likelihoods"
                return f"{name} gives no {needed}, which {protocol.label} needs"
    return ""


def _scored(
    cells: Sequence[_Asked], scoring: ScoringSpec, judge: JudgeSpec, announce: Announce
) -> list[StudyCell]:
    """The cells with their runs scored; cells that are one run are scored once."""
    folders = list(dict.fromkeys(outcome.folder for _, outcome in cells if outcome))
    runs = dict(zip(folders, score_folders(folders, scoring, judge, announce), strict=True))
    return [replace(cell, run=runs[outcome.folder]) if outcome else cell for cell, outcome in cells]


def _shared(cells: Sequence[StudyCell]) -> Iterator[str]:
    """What a reader has to know of cells that asked the very same."""
    folders: dict[tuple[str, Path], list[str]] = {}
    for cell in cells:
        if cell.run:
            folders.setdefault((cell.model, cell.run.folder), []).append(cell.spec.label)
            if not cell.run.asked:
                yield (
                    f"{cell.model}: all requests of the cell {cell.spec.label} had been answered in other cells, "
                    "so it adds no observation of its own"
                )
    for (model, _), labels in folders.items():
        if len(labels) > 1:
            yield f"{model}: the cells {', '.join(labels)} are one run"
