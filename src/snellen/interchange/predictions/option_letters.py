"""Files whose right answers are letters of options that the files do not have."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from snellen.extraction.standard import read_choice
from snellen.interchange.predictions.benchmark_signs import (
    BENCHMARK_TO_NAME,
    built_benchmarks_with_ids,
    built_names_clause,
)
from snellen.interchange.predictions.rows import PredictedRow, PredictionFile, count_named, name_of
from snellen.interchange.predictions.scoring_call import scoring_call
from snellen.interchange.predictions.shown_options import options_of_letters


def has_letters_alone(row: PredictedRow) -> bool:
    """Return whether the options of a row are letters, because the file does not have their texts.

    Examples:
        >>> shown = options_of_letters(("A", "B"))
        >>> has_letters_alone(PredictedRow(where="replies.csv:2", options=shown.options, labels=shown.labels))
        True
    """
    return bool(row.labels) and row.options == options_of_letters(row.labels).options


def without_letters_as_options(file: PredictionFile) -> PredictionFile:
    """Remove the options of each row whose options are only the letters A, B, C and so on, without texts.

    It is used for a file that is scored with a benchmark, which has the texts of the options. The letters of the right
    answers stay in the rows, to be compared with those of the benchmark.
    """
    rows: list[PredictedRow] = []
    for row in file.rows:
        rows.append(replace(row, options=(), labels=()) if has_letters_alone(row) else row)
    return replace(file, rows=tuple(rows))


def with_note_on_letters(path: Path, file: PredictionFile) -> PredictionFile:
    """Return the file with a first note if replies name no letter, and the file has only letters for options.

    Such a reply may state the text of an option (`a red square`), which only the benchmark has.
    """
    unread: list[str] = []
    n_read = 0
    for row in file.rows:
        if not (row.reply and has_letters_alone(row) and row.method == "generation"):
            continue
        n_read += 1
        if read_choice(row.reply, row.options, row.labels).choice is None:
            unread.append(name_of(row))
    if not unread:
        return file
    ids = {row.id for row in file.rows} - {""}
    built = built_benchmarks_with_ids(ids, with_options=True)
    benchmark = built[0] if len(built) == 1 else BENCHMARK_TO_NAME
    has_ids = f" ({built_names_clause(built)} these ids)" if built else ""
    note = (
        f"replies of {n_read:,} that name no letter: {count_named(unread)}; they are scored as wrong, because the file "
        "does not have the texts of the options; if the replies state these, name the benchmark or a table with the "
        f"options{has_ids}: {scoring_call(path, benchmark=benchmark)}"
    )
    return replace(file, notes=(note, *file.notes))
