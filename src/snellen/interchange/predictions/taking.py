"""From a file of predictions to a run: from there it is scored like any other."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue.forms import prediction_form
from snellen.catalogue.hooks import PredictionForm
from snellen.errors import DataError
from snellen.interchange.predictions.joining import absent_questions, join_rows
from snellen.interchange.predictions.placed import (
    PlacedRow,
    are_rotations,
    exchanges_of,
    number_presentations,
)
from snellen.interchange.predictions.rows import Findings, PredictionFile, with_failure
from snellen.interchange.predictions.standalone import check_own_questions, own_questions, spec_of_file
from snellen.protocols.base import parse_protocol
from snellen.records import Method
from snellen.runs.finding import find_benchmarks
from snellen.runs.imported_predictions import (
    ImportedPredictions,
    check_import,
    imported_run_folder,
    write_imported_run,
)


def import_run(
    path: str | Path, benchmark: str = "", form: str = "", to: str | Path | None = None, model: str = ""
) -> Path:
    """Make a run of a file of predictions that another toolkit wrote, and return its folder, for `score`.

    `benchmark` is the built benchmark that was asked (a name or folder), to whose questions each row is joined, or a
    table with questions and answers where the form takes one; without it the file's own options and references are
    scored. `form` names its format; recognised by the content when empty. The run lies in `to` (default: under `runs`,
    by what is in the file), and is called by `model` or what the file says. What does not fit is told in the
    manifest's notes.

    Raises DataError for a file of no form that is known or without any row that fits, UnknownNameError, and StoreError
    for a folder that holds another run.
    """
    path, folder = Path(path), Path(to) if to else None
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    name, chosen = prediction_form(form, path, benchmark)
    if chosen.read is not None:
        return chosen.read(path, benchmark, folder, model)
    return _import_rows(path, name, chosen, benchmark, folder or imported_run_folder(path, benchmark, name), model)


def _import_rows(path: Path, name: str, form: PredictionForm, benchmark: str, folder: Path, model: str) -> Path:
    if form.rows is None:
        raise DataError(f"the form {name} declares neither rows nor read; it cannot be used")
    prediction_file: PredictionFile = form.rows(path)
    file = replace(prediction_file, rows=tuple(map(with_failure, prediction_file.rows)))
    findings = Findings()
    check_import(folder, path)
    if benchmark:
        target = _opened(benchmark)
        placed = join_rows(path, file, target, findings)
    else:
        file_questions = own_questions(file, findings)
        check_own_questions(path, file_questions, findings, len(file.rows))
        target = build_benchmark(spec_of_file(path, name, file), source=path.parent, to=folder / "benchmark")
        placed = list(file_questions.placed)
    check_import(folder, path, target)
    placed = number_presentations(path, placed, file.repeats, findings)
    samples = {sample.id: sample for sample in target.samples()}
    notes = (f"read as {form.title}", *file.notes, *findings.notes(), *absent_questions(list(samples.values()), placed))
    label = _label(path, placed, file.repeats)
    predictions = ImportedPredictions(path, model or file.model, label, notes)
    write_imported_run(folder, target, predictions, exchanges_of(placed, samples, label))
    return folder


def _opened(benchmark: str) -> Benchmark:
    [use, *further_uses] = find_benchmarks([benchmark])
    if further_uses:
        raise DataError(f"{benchmark} stands for {1 + len(further_uses)} benchmarks; name the one that was asked")
    return use.benchmark


def _label(path: Path, placed: list[PlacedRow], repeats: bool) -> str:
    """The protocol that the rows are of: several presentations of each question, or one; by one method."""
    methods: set[Method] = {row.row.method for row in placed if not row.row.failure}
    if len(methods) > 1:
        raise DataError(f"{path} has replies and likelihoods; put each into a file of its own")
    groups: dict[tuple[str, int], list[PlacedRow]] = {}
    for row in placed:
        groups.setdefault(row.key, []).append(row)
    several = max(map(len, groups.values()), default=1)
    if "likelihood" in methods:
        return parse_protocol(f"likelihood?m={several}").label
    if several == 1:
        return "vanilla"
    circular = not repeats and all(map(are_rotations, groups.values()))
    return parse_protocol("circular?all_passes=true" if circular else f"instability?m={several}").label
