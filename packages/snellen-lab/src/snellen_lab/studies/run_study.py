"""Run a study: each cell (a combination of factors) is a run like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from snellen import DataError, JudgeSpec, StoreError, ignore_progress, load_model
from snellen.plugin_api import (
    Announce,
    Benchmark,
    ProgressListener,
    QuestionSpec,
    RunOutcome,
    Sampling,
    SuccessiveRuns,
    announce_nothing,
    build_missing,
    build_variant,
    check_budget,
    draw_subset,
    find_benchmarks,
    find_metric,
    matching_specs,
    metric_with,
    read_text,
    record_fields,
    run_spec,
    slug,
    write_atomically,
)
from snellen_lab.studies.cell_table import STUDY_FILES, StudyOutcome, write_study
from snellen_lab.studies.cells import CellGrid, CellSpec, grid_of
from snellen_lab.studies.declaration import (
    BUILD_DISTRACTORS,
    BUILD_OPTIONS,
    NOT_OF_A_RUN,
    SAMPLE_RATIO,
    SAMPLE_SEED,
    StudySample,
    StudySpec,
)
from snellen_lab.studies.series import StudyCell, compute_statistics, study_numbers

RUNS = "runs"
PARTS = "benchmarks"
STUDY_FILE = "study.json"
NO_JUDGE = JudgeSpec()


_Asked = tuple[StudyCell, RunOutcome | None]
"""A cell before its run is scored, and the outcome of its run; None if the model could not run it."""


def carry_out_study(
    study: StudySpec,
    models: Sequence[Any],
    folder: Path,
    *,
    source: Path | None = None,
    levels: Mapping[str, Sequence[Any] | str | Path] | None = None,
    judge: JudgeSpec = NO_JUDGE,
    progress: ProgressListener = ignore_progress,
    announce: Announce = announce_nothing,
) -> StudyOutcome:
    """Run all cells of a study with each model, score the runs, compute the statistics, and write the results.

    The same call resumes an interrupted study. Cells that a model cannot run, such as generation for a model that only
    scores options, are left out and announced.

    Args:
        study: The study.
        models: The models.
        folder: Folder of the results and of the runs of the cells.
        source: Source files of benchmarks that are not built yet.
        levels: Levels that replace those of a factor.
        judge: Settings of the judges.
        progress: Receives the progress of the runs.
        announce: Receives messages for the user.

    Raises:
        ErrorBudgetError: All cells were run, and too many requests of one failed.
        SnellenError: The study cannot be carried out.
    """
    _check_names(models)
    grid = grid_of(study, levels)
    _claim_folder(study, folder)
    asked_metrics, left_out = _metrics(study, judge)
    for note in (*grid.notes, *left_out.values()):
        announce(note)
    spec = run_spec(study.fixed)
    until = spec.execution.until
    if until:
        raise DataError(
            f"until = {until!r}: all cells of a study use the same questions; remove it"
        )
    all_metrics = dict.fromkeys((*spec.scoring.metrics, *asked_metrics))  # each once, in order
    scoring = replace(spec.scoring, metrics=tuple(all_metrics))
    runs = SuccessiveRuns(scoring, judge, progress, announce)
    if source is not None:
        build_missing(_patterns_built_as_usual(study, grid), source, announce)
    asked_cells = list(_Asking(study, grid, folder, source, runs, announce).cells(models))
    cells = _scored(asked_cells, runs)
    rows = [row for row in study.metrics if row not in left_out]
    numbers = study_numbers(grid, cells, rows)
    if not numbers.series:
        raise DataError(
            f"{study.name}: no cell has a value of {', '.join(rows) or 'its headline metric'}"
        )
    notes = (*grid.notes, *left_out.values(), *_shared(cells))
    outcome = StudyOutcome(
        study, folder, numbers, compute_statistics(numbers, study.statistics), notes
    )
    for file in STUDY_FILES:
        write_study(outcome, folder / file)
    for _, run_outcome in asked_cells:
        if run_outcome:
            check_budget(run_outcome, spec.execution.error_budget)
    return outcome


def _check_names(models: Sequence[Any]) -> None:
    """Raise DataError if two models have the same name, because their cells would be confused."""
    names: set[str] = set()
    for model in models:
        name = model if isinstance(model, str) else load_model(model).name
        if name in names:
            raise DataError(f"two models are named {name}; rename or remove one of them")
        names.add(name)


def study_folder(study: StudySpec) -> Path:
    """Return the default folder of a study."""
    return Path("studies") / slug(study.name)


def _claim_folder(study: StudySpec, folder: Path) -> None:
    """Write the name of the study into its folder. Raises StoreError if the folder has another study."""
    path = folder / STUDY_FILE
    if path.exists():
        try:
            folder_study = json.loads(read_text(path))["name"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path}: cannot read which study this is ({error}); choose another folder for the output"
            ) from None
        if folder_study != study.name:
            raise StoreError(
                f"{folder} holds the study {folder_study}; choose another folder for the output"
            )
    write_atomically(
        path, json.dumps({"name": study.name, "title": study.title}, indent=1).encode()
    )


def _metrics(study: StudySpec, judge: JudgeSpec) -> tuple[list[str], dict[str, str]]:
    """Return the metrics to compute, and those that need a judge although none is named.

    Returns:
        The metrics to request; and for each row that is left out, a note.
    """
    requested_metrics: list[str] = []
    left_out: dict[str, str] = {}
    for row in study.metrics:
        name = metric_with(row)
        metric = find_metric(name)
        if metric.computed_over == "judge" and not judge.models:
            left_out[row] = f"{row} needs a judge and is left out; name one as judge"
        elif not metric.is_always_reported:
            requested_metrics.append(name)
    return requested_metrics, left_out


def _patterns_built_as_usual(study: StudySpec, grid: CellGrid) -> list[str]:
    """Return the benchmarks of all cells that use them as they are usually built."""
    patterns: dict[str, None] = {}
    for cell in grid.cells:
        if not _recipe(cell):
            patterns.update(dict.fromkeys(_fields(study, cell).get("benchmarks", ())))
    return list(patterns)


def _fields(study: StudySpec, cell: CellSpec) -> dict[str, Any]:
    """Return the run fields of a cell by name: those of the study, then those of the cell itself.

    A field of the cell overrides the same field of the study.
    """
    question_fields = record_fields(QuestionSpec)
    fields: dict[str, Any] = {}
    for name, value in {**study.fixed, **cell.fields}.items():
        if name in NOT_OF_A_RUN:
            continue
        if name in question_fields:
            value = question_fields[name].plain(value)
        fields[name] = value
    return fields


def _recipe(cell: CellSpec) -> dict[str, Any]:
    """Return how the benchmarks of a cell are built, if the study varies that.

    For example, {"options": 4}. Other keys are `distractors`. The dict is empty if the study does
    not vary it, or if the level of the cell is empty.
    """
    recipe: dict[str, Any] = {}
    for field in (BUILD_OPTIONS, BUILD_DISTRACTORS):
        value = cell.fields.get(field)
        if value:
            name = field.rpartition(".")[2]
            recipe[name] = value
    return recipe


class _Asking:
    """Runs all cells of a study, one model after the other."""

    def __init__(
        self,
        study: StudySpec,
        grid: CellGrid,
        folder: Path,
        source: Path | None,
        runs: SuccessiveRuns,
        announce: Announce,
    ) -> None:
        self._study = study
        self._grid = grid
        self._folder = folder
        self._source = source
        self._runs = runs
        self._announce = announce

    def cells(self, models: Sequence[Any]) -> Iterator[_Asked]:
        """Run and yield each cell of each model."""
        for model in models:
            label = model
            if not isinstance(model, str):
                label = load_model(model).name
                model = load_model(model).model
            for number, cell in enumerate(self._grid.cells, 1):
                self._announce(
                    f"{label}, cell {number} of {len(self._grid.cells)}: {cell.label or self._study.title}"
                )
                yield self._ask(model, label, cell)

    def _ask(self, model: Any, label: str, cell: CellSpec) -> _Asked:
        """Run a cell with a model. Variants and samples of its benchmarks are built if needed."""
        full_benchmarks: dict[str, str] = {}
        fields = _fields(self._study, cell)
        recipe = _recipe(cell)
        if recipe:
            fields["benchmarks"] = tuple(
                self._variants(fields["benchmarks"], recipe, full_benchmarks)
            )
        if self._study.sample:
            fields["benchmarks"] = tuple(
                self._parts(fields["benchmarks"], self._study.sample, cell, full_benchmarks)
            )
        fields |= {"runs": str(self._folder / RUNS), "report": False, "models": (label,)}
        outcome = self._runs.ask(model, run_spec(fields))
        if not isinstance(outcome, RunOutcome):
            why = outcome.reason
            return StudyCell(label, cell, why=why, full_benchmarks=full_benchmarks), None
        return StudyCell(label, cell, full_benchmarks=full_benchmarks), outcome

    def _parts(
        self,
        patterns: Sequence[str],
        sample: StudySample,
        cell: CellSpec,
        full_benchmarks: dict[str, str],
    ) -> Iterator[str]:
        """Yield the folder of a sample of each benchmark. Samples that do not exist yet are drawn.

        For each sample, the name of its full benchmark is added to `full_benchmarks`.
        """
        seed = int(cell.fields.get(SAMPLE_SEED, sample.seed))
        ratio = cell.fields.get(SAMPLE_RATIO)
        if ratio:
            sample = replace(sample, sampling=Sampling(sample.sampling.rule, ratio=ratio))
        for use in find_benchmarks(patterns, announce=self._announce):
            drawn_sample = _part(use.benchmark, sample, seed, self._folder / PARTS)
            full_benchmarks[drawn_sample.name] = full_benchmarks.get(
                use.benchmark.name, use.benchmark.name
            )
            yield str(drawn_sample.folder)

    def _variants(
        self,
        patterns: Sequence[str],
        recipe: Mapping[str, Any],
        full_benchmarks: dict[str, str],
    ) -> Iterator[str]:
        """Build variants of benchmarks, such as with more options, and yield their folders.

        For each variant, the name of the original benchmark is added to `full_benchmarks`.
        """
        for pattern in patterns:
            for spec in matching_specs(pattern):
                name = spec.name
                if "options" in recipe:
                    name += f"-{recipe['options']}-options"
                if "distractors" in recipe:
                    name += f"-{recipe['distractors']}-distractors"
                full_benchmarks[name] = spec.name
                folder = build_variant(
                    spec,
                    recipe,
                    name=name,
                    to=self._folder / PARTS / slug(name),
                    source=self._source,
                    folders=[Path(pattern) for pattern in patterns],
                    announce=self._announce,
                )
                yield str(folder)


def _part(benchmark: Benchmark, sample: StudySample, seed: int, folder: Path) -> Benchmark:
    """Draw a sample of a benchmark, or return the existing one if the benchmark is unchanged."""
    name = sample.sampling.subset_name(benchmark.name)
    if sample.by:
        name += f"-by-{sample.by}"
    name += f"-seed-{seed}"
    return draw_subset(
        benchmark,
        sample.sampling,
        name=name,
        by=sample.by,
        seed=seed,
        to=folder / slug(name),
        reuse=True,
    )


def _scored(cells: Sequence[_Asked], runs: SuccessiveRuns) -> list[StudyCell]:
    """Score the runs of the cells. A run that several cells share is scored once.

    Args:
        cells: Each cell with the outcome of its run; the outcome is None if the cell was not run.
        runs: The scorer.

    Returns:
        The cells, each with its scored run if it has one.
    """
    folders: list[Path] = []
    for _, outcome in cells:
        if outcome and outcome.folder not in folders:
            folders.append(outcome.folder)
    scored_runs = dict(zip(folders, runs.score(folders), strict=True))
    scored_cells = []
    for cell, outcome in cells:
        if outcome:
            cell = replace(cell, run=scored_runs[outcome.folder])
        scored_cells.append(cell)
    return scored_cells


def _shared(cells: Sequence[StudyCell]) -> Iterator[str]:
    """Yield a note for cells that share a run, or whose requests were all answered in other cells.

    Such cells are not independent observations.
    """
    folders: dict[tuple[str, Path], list[str]] = {}
    for cell in cells:
        if cell.run:
            folders.setdefault((cell.model, cell.run.folder), []).append(cell.spec.label)
            if not cell.run.distinct_requests:
                yield (
                    f"{cell.model}: all requests of the cell {cell.spec.label} were already answered in other cells, "
                    "so it is not an independent observation"
                )
    for (model, _), labels in folders.items():
        if len(labels) > 1:
            yield f"{model}: the cells {', '.join(labels)} are one run"
