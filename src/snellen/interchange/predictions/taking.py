"""Import files of predictions as runs, which are then scored like any other run.

Without a benchmark, questions are made from the options and references in the files, without images. Files of several
models with the same questions become runs of one benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.callers import for_caller
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.forms import prediction_form
from snellen.catalogue.suites import PredictionForm
from snellen.common.drafts import Draft
from snellen.common.foreign import TABLE_BYTES, NotAFileError, open_file, read_file
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.formats.rows import is_row_file
from snellen.formats.whole_files import write_atomically
from snellen.interchange.predictions.answer_tables import answers_in
from snellen.interchange.predictions.joining import (
    PlacedRow,
    absent_questions,
    are_rotations,
    exchanges_of,
    join_rows,
    number_presentations,
)
from snellen.interchange.predictions.option_letters import (
    with_note_on_letters,
    without_letters_as_options,
)
from snellen.interchange.predictions.own_questions import (
    QUESTIONS,
    OwnQuestions,
    checked_questions,
    kept_question,
)
from snellen.interchange.predictions.own_summary import (
    PrintedAccuracy,
    check_lists_all,
    outer_object,
    printed_accuracy,
)
from snellen.interchange.predictions.question_types import (
    as_named,
    check_answers_met,
    check_answers_possible,
    check_numbers_said,
    check_options_named,
    share_right,
    with_types,
)
from snellen.interchange.predictions.rows import (
    Findings,
    PredictionFile,
    folded_question,
    with_failure,
    with_whole_characters,
)
from snellen.interchange.predictions.scoring_call import given
from snellen.interchange.predictions.tables import (
    TABLE,
    TITLE,
    binary_columns,
    prediction_rows,
    read_predictions,
    recognise_predictions,
)
from snellen.protocols.base import labelled_declaration, parse_protocol
from snellen.recognition.folding import word_count
from snellen.recognition.own_sources import own_source
from snellen.recognition.recognising import TableSettings
from snellen.records import Method, Sample
from snellen.runs.finding import find_benchmarks
from snellen.runs.imported_predictions import (
    ImportedPredictions,
    check_import,
    earlier_model_name,
    imported_run_folder,
    write_imported_run,
)
from snellen.runs.own_questions import questions_folder
from snellen.runs.run_folder import RUN_MANIFEST, read_manifest
from snellen.scoring.kept_scoring import SCORING_FILES, SCORINGS


class FileReading(Struct, frozen=True):
    """What the user says about how to read files of predictions."""

    benchmark: str = ""
    """The benchmark that was evaluated: a name, the folder of a built one, or a table with questions and answers."""
    form: str = ""
    """The form of the files; recognised by their content when empty."""
    columns: Mapping[str, Sequence[str]] = {}
    """Columns by role, for tables."""
    answer_is: str = ""
    """How answers name options, for tables."""
    answers: Mapping[str, Any] = {}
    """The right answers by id, of a table that has no questions."""


class TakenFile(Struct, frozen=True):
    """The predictions of one model in a file."""

    path: Path
    form: str
    title: str
    """Title of the form."""
    file: PredictionFile
    questions: PredictionForm | None = None
    """The form, if it builds its benchmark itself."""
    is_one_of_several: bool = False
    """Whether the file has predictions of other models too."""


def import_run(
    path: str | Path,
    benchmark: str = "",
    form: str = "",
    to: str | Path | None = None,
    model: str = "",
    columns: Mapping[str, str | Sequence[str]] | None = None,
    answer_is: str = "",
) -> Path:
    """Make a run of a file of predictions that another toolkit wrote, and return its folder, for `score`.

    Args:
        path: The file.
        benchmark: The benchmark that was evaluated, to whose questions each row is joined: a name, the folder of a
            built one, or a table with questions and answers. Without it the file's own options and references are
            scored.
        form: The form of the file; recognised by its content when empty.
        to: The run's folder. Default: under `runs`, by what is in the file.
        model: The model's name. Default: what the file says.
        columns: For a table, the columns of roles that are not recognised (`{"reply": "gpt"}`).
        answer_is: For a table, how answers name options: letter, text, index0 or index1.

    What does not fit is in the notes of the manifest.

    Raises:
        DataError: No row of the file can be used, or it has replies of several models.
        UnknownNameError: No form or benchmark has that name.
        StoreError: The folder holds another run.

    Examples:
        >>> row = {"id": "1", "question": "Is it day?", "A": "yes", "B": "no", "answer": "A", "reply": "(A)"}
        >>> _ = Path("replies.jsonl").write_text(json.dumps(row))
        >>> sn.score(sn.import_run("replies.jsonl", model="mine")).value()
        1.0
    """
    lists = {
        role: (names,) if isinstance(names, str) else tuple(names)
        for role, names in (columns or {}).items()
    }
    reading = FileReading(benchmark, form, lists, answer_is)
    folders = import_runs([Path(path)], reading, Path(to) if to else None, model)
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise DataError(
            f"{path} has replies of {len(folders)} models; they are the runs {names}: score these with sn.score"
        )
    return folders[0]


def import_runs(
    paths: Sequence[Path], reading: FileReading, to: Path | None = None, model: str = ""
) -> list[Path]:
    """Make runs of files of predictions, one for each model, and return their folders.

    Files that ask the same questions become runs of one benchmark, so that they can be compared. `to` and `model` are
    for a single run. Raises as `import_run`.
    """
    said = {
        "benchmark": reading.benchmark,
        "form": reading.form,
        "columns": reading.columns,
        "answer_is": reading.answer_is,
    }
    with given(**said, to=to, model=model):
        return _runs_of_files(paths, reading, to, model)


def _runs_of_files(
    paths: Sequence[Path], reading: FileReading, to: Path | None, model: str
) -> list[Path]:
    if reading.benchmark and is_row_file(Path(reading.benchmark)):
        table = Path(reading.benchmark)
        answers = answers_in(reading.benchmark, list(prediction_rows(table)))
        if answers:
            reading = replace(reading, benchmark="", answers=answers)
    taken: list[TakenFile] = []
    for path in paths:
        taken += taken_files(path, reading)
    if (to or model) and len(taken) > 1:
        raise DataError(
            f"{for_caller('--to and --model', 'to and model')} are for one model at a time, and there are {len(taken)}"
        )
    if reading.benchmark:
        return [_joined_run(file, reading.benchmark, to, model) for file in taken]
    runs: dict[int, Path] = {}
    # Indices of files whose rows also define the questions.
    self_contained: list[int] = []
    for index, file in enumerate(taken):
        if file.questions is not None:
            runs[index] = _joined_run(file, "", to, model)
        else:
            self_contained.append(index)
    for group in _same_questions([taken[index] for index in self_contained]):
        for position, folder in _own_runs(group, to, model):
            runs[self_contained[position]] = folder
    return [runs[index] for index in sorted(runs)]


def import_with_notes(
    paths: Sequence[Path],
    reading: FileReading,
    announce: Callable[[str], object],
    to: Path | None = None,
    model: str = "",
) -> list[Path]:
    """Make runs of files of predictions as `import_runs` does, and announce each run with the notes about its file."""
    folders = import_runs(paths, reading, to, model)
    for folder in folders:
        manifest = read_manifest(folder)
        announce(f"{manifest.fingerprint.get('predictions', '')} is the run {folder}")
        for note in manifest.notes:
            announce(f"  note: {note}")
    return folders


def taken_files(path: Path, reading: FileReading) -> list[TakenFile]:
    """Read the predictions of a file, one `TakenFile` for each model. Raises DataError if the file cannot be read."""
    try:
        open_file(path).close()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except NotAFileError as error:
        advice = "" if path.is_dir() else "; save what it gives as a file"
        raise DataError(f"{path}: {error.strerror}{advice}") from None
    chosen = None
    codes: tuple[str, ...] = ()
    answers = ""
    if reading.form != TABLE and not reading.columns and not reading.answers:
        chosen = prediction_form(reading.form, path, reading.benchmark)
    if chosen is None:
        table = recognise_predictions(
            path,
            reading.columns,
            reading.answer_is,
            is_gold_known=bool(reading.benchmark),
            answers=reading.answers,
        )
        files = read_predictions(table)
        codes = binary_columns(table.roles)
        answers = table.column("answer")
        form, title, questions = TABLE, TITLE, None
    else:
        form, of_form = chosen
        files = of_form.rows(path)
        files = files if isinstance(files, list) else [files]
        title = of_form.title
        questions = of_form if of_form.questions else None
    content = outer_object(path)
    check_lists_all(path, content)
    printed = printed_accuracy(content)
    taken: list[TakenFile] = []
    for file in files:
        cleaned = replace(file, rows=tuple(map(with_failure, file.rows)))
        cleaned = with_whole_characters(cleaned)
        if not reading.benchmark and questions is None:
            cleaned = with_types(as_named(cleaned))
            check_numbers_said(path, cleaned)
            check_options_named(path, cleaned, codes)
            if "reply" in reading.columns and "answer" not in reading.columns:
                check_answers_met(path, cleaned, reading.columns["reply"][0], answers)
            if "answer" not in reading.columns:
                check_answers_possible(path, cleaned)
            cleaned = _compared(cleaned, printed if len(files) == 1 else None)
            cleaned = with_note_on_letters(path, cleaned)
        if reading.benchmark:
            cleaned = without_letters_as_options(cleaned)
        taken.append(TakenFile(path, form, title, cleaned, questions, len(files) > 1))
    return taken


FEWEST_REASONED = 50
WORDS_OF_REASONS = 20
"""Replies from which it is odd that all are right, and words in half of them, with which they give reasons."""


def _compared(file: PredictionFile, printed: PrintedAccuracy | None) -> PredictionFile:
    """Return a file with notes if its replies do not have the accuracy that it states, or seem to be training data.

    The second is so if all replies are right and long: they may have been written from their right
    answers.

    Args:
        file: The file.
        printed: The accuracy that it states; None if it states none.
    """
    share = share_right(file)
    if share is None:
        return file
    notes = [printed.note(share)] if printed is not None else []
    lengths = [word_count(row.reply or "") for row in file.rows]
    if share == 1 and len(lengths) >= FEWEST_REASONED and median(lengths) >= WORDS_OF_REASONS:
        notes.append(
            "all replies give reasons and are right: they may be texts to learn from, written for their right answers"
        )
    return replace(file, notes=(*file.notes, *filter(None, notes)))


# --- runs of a built benchmark -----------------------------------------------------------------------------------------------


def _joined_run(taken: TakenFile, benchmark: str, to: Path | None, model: str) -> Path:
    """Join the rows of a file to the questions of a benchmark; return the folder of the run."""
    folder = to or _run_folder(taken, benchmark)
    check_import(folder, taken.path)
    model = model or earlier_model_name(folder, taken.path)
    findings = Findings()
    with _gone_if_refused(folder):
        if taken.questions is not None and taken.questions.questions is not None:
            target = taken.questions.questions(taken.path, benchmark, folder)
        else:
            target = asked_benchmark(benchmark, folder)
        placed = join_rows(taken.path, taken.file, target, findings)
        return _write_run(taken, target, placed, findings, folder, model)


@contextmanager
def _gone_if_refused(folder: Path) -> Iterator[None]:
    """Remove the folder of a run that was begun and then refused, unless it was there before."""
    was_there = folder.exists()
    try:
        yield
    except DataError:
        if not was_there:
            rmtree(folder, ignore_errors=True)
        raise


def _run_folder(taken: TakenFile, benchmark: str = "") -> Path:
    """Return the default folder of a run, with the model's name if the file has several models."""
    folder = imported_run_folder(taken.path, benchmark, taken.form)
    if taken.is_one_of_several:
        return folder.with_name(f"{folder.name}-{slug(taken.file.model)}")
    return folder


def asked_benchmark(benchmark: str, folder: Path | None = None) -> Benchmark:
    """Return the built benchmark with a name or in a folder.

    If `benchmark` is a table with questions and answers, it is built inside the run's `folder`, without its images: they
    need not be there to score replies.

    Raises:
        DataError: If the name stands for several benchmarks.
    """
    path = Path(benchmark)
    if folder is not None and path.is_file() and is_row_file(path):
        source = own_source(path, TableSettings(leave_out_images=True))
        return build_benchmark(source.spec, source=source.folder, to=folder / "benchmark")
    [use, *further_uses] = find_benchmarks([benchmark])
    if further_uses:
        raise DataError(
            f"{benchmark} stands for {1 + len(further_uses)} benchmarks; name the one that was asked"
        )
    return use.benchmark


def _write_run(
    taken: TakenFile,
    target: Benchmark,
    placed: Sequence[PlacedRow],
    findings: Findings,
    folder: Path,
    model: str,
    *,
    has_own_questions: bool = False,
) -> Path:
    """Write the run of a file whose rows have been matched to questions, and return its folder."""
    check_import(folder, taken.path, None if has_own_questions else target)
    file = taken.file
    samples = {sample.id: sample for sample in target.samples()}
    placed = number_presentations(taken.path, placed, samples, file.repeats, findings)
    label = _label(taken.path, placed, samples, file.repeats)
    absent = absent_questions(target, placed, circular=labelled_declaration(label).circular)
    notes = (f"read as {taken.title}", *file.notes, *findings.notes(), *absent)
    predictions = ImportedPredictions(taken.path, model or file.model, label, notes)
    write_imported_run(folder, target, predictions, exchanges_of(placed, samples, label))
    return folder


def _label(
    path: Path, placed: list[PlacedRow], samples: Mapping[str, Sample], repeats: bool
) -> str:
    """Return the label of the protocol that fits the rows, such as `vanilla` or `circular`.

    It depends on whether rows have replies or likelihoods, and on how often each question was
    asked.

    Raises:
        DataError: If the file has both replies and likelihoods.
    """
    methods: set[Method] = {row.row.method for row in placed if not row.row.failure}
    if len(methods) > 1:
        raise DataError(f"{path} has replies and likelihoods; put each into a file of its own")
    groups: dict[tuple[str, int], list[PlacedRow]] = {}
    for row in placed:
        groups.setdefault(row.key, []).append(row)
    presentations = max(map(len, groups.values()), default=1)
    if "likelihood" in methods:
        return parse_protocol(f"likelihood?m={presentations}").label
    if presentations == 1 and not labelled_declaration(_stated_protocol(placed)).circular:
        return "vanilla"
    is_circular = not repeats and all(are_rotations(rows, samples) for rows in groups.values())
    stated = _stated_protocol(placed)
    if stated and (is_circular or not labelled_declaration(stated).circular):
        return stated
    if is_circular:
        return parse_protocol("circular?all_passes=true").label
    return parse_protocol(f"instability?m={presentations}").label


def _stated_protocol(placed: Sequence[PlacedRow]) -> str:
    """Return the protocol with several presentations of a question that all rows state; else empty.

    A presentation is one showing of a question, for example with its options in another order. Rows
    may also state `vanilla`: a run under `vanilla` and `circular` has its first presentations under
    both.
    """
    labels = {row.row.protocol for row in placed}
    if "" in labels:
        return ""
    stated: list[str] = []
    for label in labels:
        declaration = labelled_declaration(label)
        if declaration.circular or declaration.instability:
            stated.append(label)
    return stated[0] if len(stated) == 1 else ""


# --- runs of the files' own questions ----------------------------------------------------------------------------------------


class _OwnFile(Struct, frozen=True):
    """A file whose rows also define the questions, with notes about its rows."""

    taken: TakenFile
    questions: OwnQuestions
    findings: Findings


def _own_runs(
    group: Sequence[tuple[int, _OwnFile]], to: Path | None, model: str
) -> Iterator[tuple[int, Path]]:
    """Write runs of one benchmark for files with the same questions.

    Args:
        group: The files, each with its index in the argument of `_same_questions`.
        to: The folder of the run, if there is one.
        model: The name of the model, if there is one.

    Yields:
        The index of a file, and the folder of its run.
    """
    drafts = _all_questions([own_file.questions for _, own_file in group])
    files = [own_file.taken.file for _, own_file in group]
    name = _common_name([file.title for file in files])
    for index, own_file in group:
        taken = own_file.taken
        folder = to or _run_folder(taken)
        check_import(folder, taken.path)
        lines = [msgspec.json.encode(kept_question(draft)) for draft in drafts]
        model_name = (
            model
            or earlier_model_name(folder, taken.path)
            or taken.file.model
            or _model_of(taken.file.title, name, len(group))
        )
        shared = _shared_benchmark(folder, lines) if len(group) == 1 else None
        with _gone_if_refused(folder):
            if shared is not None:
                target = shared
            else:
                write_atomically(folder / QUESTIONS, b"".join(line + b"\n" for line in lines))
                spec = spec_of_file(name, taken.path, files, drafts)
                target = build_benchmark(spec, source=folder, to=folder / "benchmark")
                _remove_scores_of_others(folder, target)
            if own_file.questions.drafts == drafts:
                placed: Sequence[PlacedRow] = own_file.questions.placed
            else:
                with_ids = _with_own_ids(taken.file)
                placed = join_rows(taken.path, with_ids, target, own_file.findings)
            run = _write_run(
                taken, target, placed, own_file.findings, folder, model_name, has_own_questions=True
            )
        yield index, run


def _shared_benchmark(folder: Path, lines: Sequence[bytes]) -> Benchmark | None:
    """Return the benchmark that an earlier import of a file shares with other files.

    A file that was once scored together with others stays comparable with them when it is scored alone.

    Args:
        folder: The folder of the run.
        lines: The questions of the file, as they are stored.

    Returns:
        The benchmark; None without an earlier import, or if it does not have the same questions.
    """
    if not (folder / RUN_MANIFEST).exists():
        return None
    try:
        stored = read_file(folder / QUESTIONS, TABLE_BYTES).splitlines()
        benchmark = Benchmark(folder / "benchmark")
        [use] = read_manifest(folder).benchmarks
    except (OSError, DataError):
        return None
    is_current = use.matches_build(benchmark.manifest.version, benchmark.manifest.questions)
    return benchmark if is_current and set(lines) <= set(stored) else None


def _remove_scores_of_others(folder: Path, target: Benchmark) -> None:
    """Remove the scores of an earlier import of the same file as a benchmark of another name.

    This happens when a file is first scored alone and then together with others. The scores are computed again, and
    verdicts of judges are kept.
    """
    if not (folder / RUN_MANIFEST).exists():
        return
    for use in read_manifest(folder).benchmarks:
        if use.matches_build(target.manifest.version, target.manifest.questions):
            continue
        rmtree(questions_folder(folder, use.name), ignore_errors=True)
        rmtree(folder / SCORINGS, ignore_errors=True)
        for name in SCORING_FILES:
            (folder / name).unlink(missing_ok=True)


def _with_own_ids(file: PredictionFile) -> PredictionFile:
    """Return the file with an id for each row that has none: the id of the question made from this row."""
    rows = tuple(
        row if row.id else replace(row, id=f"row {number}")
        for number, row in enumerate(file.rows, 1)
    )
    return replace(file, rows=rows)


def _all_questions(files: Sequence[OwnQuestions]) -> tuple[Draft, ...]:
    """Return the questions of several files without repeated ids, in the order of the files."""
    by_id: dict[str, Draft] = {}
    for questions in files:
        for draft in questions.drafts:
            by_id.setdefault(draft.id, draft)
    return tuple(by_id.values())


ALIKE = 0.5
"""Two files are of one benchmark if they share more than this part of the questions of the smaller one."""


def _same_questions(taken: Sequence[TakenFile]) -> list[list[tuple[int, _OwnFile]]]:
    """Group files by whether they ask the same questions. Each file is returned with its index.

    Raises:
        DataError: If a file cannot be scored by itself.
    """
    groups: list[list[tuple[int, _OwnFile]]] = []
    contents: list[set[tuple[object, ...]]] = []
    for index, file in enumerate(taken):
        findings = Findings()
        questions = checked_questions(file.path, file.file, findings, is_table=file.form == TABLE)
        own_file = _OwnFile(file, questions, findings)
        content = {_content(draft) for draft in questions.drafts}
        for group, group_content in zip(groups, contents, strict=True):
            shared = len(content & group_content)
            if shared > ALIKE * min(len(content), len(group_content)):
                group.append((index, own_file))
                group_content |= content
                break
        else:
            groups.append([(index, own_file)])
            contents.append(content)
    return groups


def _content(draft: Draft) -> tuple[object, ...]:
    """Return what identifies a question in the files of several models: its id, text, options and right answers."""
    first = draft.rounds[0]
    golds = frozenset(first.options[index] for index in first.gold) or frozenset(first.texts)
    return draft.id, folded_question(first.question), frozenset(first.options), golds


def _common_name(titles: Sequence[str]) -> str:
    """Return the words that all titles end with, or else begin with: `mmmu` for `llava_mmmu` and `qwen_mmmu`.

    If they have no words in common, the first title is returned.
    """
    if len(set(titles)) == 1:
        return titles[0]
    word_lists = [title.replace("-", "_").split("_") for title in titles]
    reversed_lists = [words[::-1] for words in word_lists]
    common_end = _common_beginning(reversed_lists)[::-1]
    common_beginning = _common_beginning(word_lists)
    for common in (common_end, common_beginning):
        text = "_".join(common)
        if any(character.isalpha() for character in text):
            return text
    return titles[0]


def _common_beginning(word_lists: Sequence[Sequence[str]]) -> list[str]:
    common: list[str] = []
    for words in zip(*word_lists, strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return common


def _model_of(title: str, name: str, files: int) -> str:
    """Return the model in a file's title: what remains without the name of the benchmark, as `llava` of `llava_mmmu`.

    The text is empty if there is only one file.
    """
    if files < 2:
        return ""
    return title.replace(name, "").strip("_-. ") or title


def spec_of_file(
    name: str, path: Path, files: Sequence[PredictionFile], drafts: Sequence[Draft]
) -> BenchmarkSpec:
    """Return the entry of a benchmark made from files of predictions."""
    first = files[0]
    kinds = Counter(_formulation(draft) for draft in drafts)
    formulation = kinds.most_common(1)[0][0]
    return BenchmarkSpec(
        name=slug(name or path.stem),
        title=name or path.name,
        formulation="dialogue" if kinds["dialogue"] else formulation,
        source=SourceSpec("predictions", {"file": QUESTIONS}),
        suite=first.suite,
        task=first.task,
        metrics=first.metrics,
        headline=first.headline,
        mean_over=first.mean_over,
        counted_together=first.counted_together,
        mean_of=first.mean_of,
        groups=first.groups,
        remark="made of a file of predictions: its questions are those that have a row, and have no images",
    )


def _formulation(draft: Draft) -> Any:
    if draft.dialogue:
        return "dialogue"
    return "choice" if draft.rounds[0].options else "text"
