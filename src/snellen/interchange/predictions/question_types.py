"""The type of a file's questions: what the catalogue says of a known benchmark, or what the right answers are."""

from __future__ import annotations

from msgspec.structs import replace

from snellen.interchange.predictions.known_names import as_known, known_benchmark
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile
from snellen.recognition.answer_types import LONG_TEXT, TEXT, answer_type, class_of


def as_named(file: PredictionFile) -> PredictionFile:
    """A file with what the catalogue says of the benchmark that its name says it is of."""
    if file.suite or file.metrics:
        return file
    known = known_benchmark(file.title)
    if known is None:
        return file
    called = replace(file, model=file.model or known.model)
    of_kind = as_known(called, known)
    if of_kind is not None:
        return of_kind
    # Its questions are of another kind, as where others ask it with options: the name alone is taken.
    return replace(called, title=known.spec.short)


def with_types(file: PredictionFile) -> PredictionFile:
    """A file whose open questions have their type: a choice among classes, or the metrics of its answers."""
    open_rows = [row for row in file.rows if not row.options and row.references]
    if file.metrics or not open_rows:
        return _with_overall(file, len(open_rows))
    kind = answer_type([row.references for row in open_rows])
    if kind.classes and len(open_rows) == sum(bool(row.references) for row in file.rows):
        rows = tuple(_as_choice(row, kind.classes) for row in file.rows)
        note = (
            f"read as a choice of {' or '.join(kind.classes)}, as all right answers are: accuracy"
        )
        return replace(file, rows=rows, notes=(*file.notes, note))
    notes = file.notes
    if kind != TEXT:
        is_mixed = any(row.options for row in file.rows)
        subject = "questions without options read as" if is_mixed else "read as"
        notes = (*notes, f"{subject} {kind.why}: {kind.metrics[0]}")
    if kind == LONG_TEXT:
        notes = (
            *notes,
            "a judge compares long texts better: --metric judged_correct --judge MODEL",
        )
    typed = replace(file, metrics=kind.metrics, notes=notes)
    return _with_overall(typed, len(open_rows))


def _with_overall(file: PredictionFile, open_rows: int) -> PredictionFile:
    """A file with questions of both kinds, whose headline is the accuracy over all of them."""
    has_choices = any(row.options for row in file.rows)
    if not (has_choices and open_rows) or file.headline:
        return file
    metrics = file.metrics if OVERALL in file.metrics else (*file.metrics, OVERALL)
    note = "questions with and without options: the headline is the accuracy over all of them"
    return replace(file, metrics=metrics, headline=OVERALL, notes=(*file.notes, note))


OVERALL = "overall_accuracy"


def _as_choice(row: PredictedRow, classes: tuple[str, ...]) -> PredictedRow:
    """A row as a choice among classes, which the model was not shown as options."""
    if row.options:
        return row
    places = [place for text in row.references if (place := class_of(text, classes)) is not None]
    return replace(
        row,
        options=classes,
        lists_options=False,
        gold=tuple(dict.fromkeys(places)),
        references=(),
    )
