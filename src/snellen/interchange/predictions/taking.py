"""From files of predictions to runs: from there they are scored like any other.

Without a benchmark the questions are what the files say of them: options and references, but no images. Files of
several models that ask the same questions become runs of one benchmark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.forms import prediction_form
from snellen.catalogue.suites import PredictionForm
from snellen.common.drafts import Draft
from snellen.common.foreign import NotAFileError, open_file
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.formats.rows import is_row_file
from snellen.formats.whole_files import write_atomically
from snellen.interchange.predictions.joining import (
    PlacedRow,
    absent_questions,
    are_rotations,
    exchanges_of,
    join_rows,
    number_presentations,
)
from snellen.interchange.predictions.own_questions import (
    QUESTIONS,
    OwnQuestions,
    checked_questions,
    kept_question,
)
from snellen.interchange.predictions.question_types import as_named, with_types
from snellen.interchange.predictions.rows import (
    Findings,
    PredictionFile,
    folded_question,
    with_failure,
    with_whole_characters,
)
from snellen.interchange.predictions.tables import (
    TABLE,
    TITLE,
    read_predictions,
    recognise_predictions,
)
from snellen.protocols.base import labelled_declaration, parse_protocol
from snellen.recognition.own_sources import own_source
from snellen.recognition.recognising import TableSettings
from snellen.records import Method, Sample
from snellen.runs.finding import find_benchmarks
from snellen.runs.imported_predictions import (
    ImportedPredictions,
    check_import,
    imported_run_folder,
    write_imported_run,
)


class FileReading(Struct, frozen=True):
    """What a user says about files of predictions."""

    benchmark: str = ""
    """The benchmark that was evaluated: a name, the folder of a built one, or a table with questions and answers."""
    form: str = ""
    """The form of the files; recognised by their content when empty."""
    columns: Mapping[str, Sequence[str]] = {}
    """The columns of roles, for tables."""
    answer_is: str = ""
    """How answers name options, for tables."""


class TakenFile(Struct, frozen=True):
    """The predictions of one model in a file, with the questions that they make."""

    path: Path
    form: str
    title: str
    """The form in words."""
    file: PredictionFile
    questions: PredictionForm | None = None
    """The form, if it builds its questions in its own way."""
    is_one_of_several: bool = False
    """Whether the file has predictions of other models, too."""


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
            f"{path} has replies of {len(folders)} models; they are the runs {names}: score these, or `snellen score {path}`"
        )
    return folders[0]


def import_runs(
    paths: Sequence[Path], reading: FileReading, to: Path | None = None, model: str = ""
) -> list[Path]:
    """Make runs of files of predictions, one for each model, and return their folders.

    Files that ask the same questions become runs of one benchmark, so that they can be compared. `to` and `model` are
    for a single run. Raises as `import_run`.
    """
    taken = [one for path in paths for one in taken_files(path, reading)]
    if (to or model) and len(taken) > 1:
        raise DataError(f"--to and --model are for one model at a time, and there are {len(taken)}")
    if reading.benchmark:
        return [_joined_run(one, reading.benchmark, to, model) for one in taken]
    runs: dict[int, Path] = {}
    own: list[int] = []
    for place, one in enumerate(taken):
        if one.questions is not None:
            runs[place] = _joined_run(one, "", to, model)
        else:
            own.append(place)
    for group in _same_questions([taken[place] for place in own]):
        for place, folder in _own_runs(group, to, model):
            runs[own[place]] = folder
    return [runs[place] for place in sorted(runs)]


def taken_files(path: Path, reading: FileReading) -> list[TakenFile]:
    """The predictions of a file, one part for each model. Raises DataError."""
    try:
        open_file(path).close()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: no such file") from None
    except NotAFileError as error:
        advice = "" if path.is_dir() else "; save what it gives as a file"
        raise DataError(f"{path}: {error.strerror}{advice}") from None
    chosen = None
    if reading.form != TABLE and not reading.columns:
        chosen = prediction_form(reading.form, path, reading.benchmark)
    if chosen is None:
        table = recognise_predictions(
            path, reading.columns, reading.answer_is, is_gold_known=bool(reading.benchmark)
        )
        files = read_predictions(table)
        form, title, questions = TABLE, TITLE, None
    else:
        form, of_form = chosen
        files = [of_form.rows(path)]
        title, questions = of_form.title, of_form if of_form.questions else None
    taken: list[TakenFile] = []
    for file in files:
        whole = replace(file, rows=tuple(map(with_failure, file.rows)))
        whole = with_whole_characters(whole)
        if not reading.benchmark and questions is None:
            whole = with_types(as_named(whole))
        taken.append(TakenFile(path, form, title, whole, questions, len(files) > 1))
    return taken


# --- runs of a built benchmark -----------------------------------------------------------------------------------------------


def _joined_run(one: TakenFile, benchmark: str, to: Path | None, model: str) -> Path:
    """The run of a file whose rows are joined to the questions of a benchmark."""
    folder = to or _run_folder(one, benchmark)
    check_import(folder, one.path)
    findings = Findings()
    if one.questions is not None and one.questions.questions is not None:
        target = one.questions.questions(one.path, benchmark, folder)
    else:
        target = asked_benchmark(benchmark, folder)
    placed = join_rows(one.path, one.file, target, findings)
    return _written(one, target, placed, findings, folder, model)


def _run_folder(one: TakenFile, benchmark: str = "") -> Path:
    folder = imported_run_folder(one.path, benchmark, one.form)
    return (
        folder.with_name(f"{folder.name}-{slug(one.file.model)}")
        if one.is_one_of_several
        else folder
    )


def asked_benchmark(benchmark: str, folder: Path | None = None) -> Benchmark:
    """The one built benchmark of a name or folder, or that of a table, which is built inside the run's `folder`.

    Raises DataError for a name that stands for several.
    """
    path = Path(benchmark)
    if folder is not None and path.is_file() and is_row_file(path):
        source = own_source(path, TableSettings(no_pictures=True))
        params = {**source.spec.source.params, "no_pictures": True}
        spec = replace(source.spec, source=replace(source.spec.source, params=params))
        return build_benchmark(spec, source=source.folder, to=folder / "benchmark")
    [use, *further_uses] = find_benchmarks([benchmark])
    if further_uses:
        raise DataError(
            f"{benchmark} stands for {1 + len(further_uses)} benchmarks; name the one that was asked"
        )
    return use.benchmark


def _written(
    one: TakenFile,
    target: Benchmark,
    placed: Sequence[PlacedRow],
    findings: Findings,
    folder: Path,
    model: str,
) -> Path:
    check_import(folder, one.path, target)
    file = one.file
    samples = {sample.id: sample for sample in target.samples()}
    placed = number_presentations(one.path, placed, samples, file.repeats, findings)
    label = _label(one.path, placed, samples, file.repeats)
    absent = absent_questions(target, placed, circular=labelled_declaration(label).circular)
    notes = (f"read as {one.title}", *file.notes, *findings.notes(), *absent)
    predictions = ImportedPredictions(one.path, model or file.model, label, notes)
    write_imported_run(folder, target, predictions, exchanges_of(placed, samples, label))
    return folder


def _label(
    path: Path, placed: list[PlacedRow], samples: Mapping[str, Sample], repeats: bool
) -> str:
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
    circular = not repeats and all(are_rotations(rows, samples) for rows in groups.values())
    return parse_protocol(
        "circular?all_passes=true" if circular else f"instability?m={several}"
    ).label


# --- runs of the files' own questions ----------------------------------------------------------------------------------------


class _OwnFile(Struct, frozen=True):
    """A file with its own questions and what was found in its rows."""

    taken: TakenFile
    questions: OwnQuestions
    findings: Findings


def _own_runs(
    group: Sequence[tuple[int, _OwnFile]], to: Path | None, model: str
) -> Iterator[tuple[int, Path]]:
    """The runs of files that ask the same questions, each with its place among the files."""
    drafts = _all_questions([own.questions for _, own in group])
    files = [own.taken.file for _, own in group]
    name = _common_name([file.title for file in files])
    for place, own in group:
        taken = own.taken
        folder = to or _run_folder(taken)
        check_import(folder, taken.path)
        lines = b"".join(msgspec.json.encode(kept_question(draft)) + b"\n" for draft in drafts)
        write_atomically(folder / QUESTIONS, lines)
        spec = spec_of_file(name, taken.path, files, drafts)
        target = build_benchmark(spec, source=folder, to=folder / "benchmark")
        if own.questions.drafts == drafts:
            placed: Sequence[PlacedRow] = own.questions.placed
        else:
            placed = join_rows(taken.path, _with_own_ids(taken.file), target, own.findings)
        own_model = model or taken.file.model or _model_of(taken.file.title, name, len(group))
        yield place, _written(taken, target, placed, own.findings, folder, own_model)


def _with_own_ids(file: PredictionFile) -> PredictionFile:
    """A file whose rows without an id have that of the question which they make."""
    rows = tuple(
        row if row.id else replace(row, id=f"row {number}")
        for number, row in enumerate(file.rows, 1)
    )
    return replace(file, rows=rows)


def _all_questions(files: Sequence[OwnQuestions]) -> tuple[Draft, ...]:
    """The questions of several files, each once by its id; the first file's go first."""
    by_id: dict[str, Draft] = {}
    for questions in files:
        for draft in questions.drafts:
            by_id.setdefault(draft.id, draft)
    return tuple(by_id.values())


ALIKE = 0.5
"""The share of the questions of the smaller of two files that the other has to ask, too, to be of the same benchmark."""


def _same_questions(taken: Sequence[TakenFile]) -> list[list[tuple[int, _OwnFile]]]:
    """Files with their own questions, together where they ask the same; each with its place.

    Raises DataError for a file that cannot be scored by itself.
    """
    groups: list[list[tuple[int, _OwnFile]]] = []
    contents: list[set[tuple[object, ...]]] = []
    for place, one in enumerate(taken):
        findings = Findings()
        questions = checked_questions(one.path, one.file, findings, is_table=one.form == TABLE)
        own = _OwnFile(one, questions, findings)
        content = {_content(draft) for draft in questions.drafts}
        for group, known in zip(groups, contents, strict=True):
            shared = len(content & known)
            if shared > ALIKE * min(len(content), len(known)):
                group.append((place, own))
                known |= content
                break
        else:
            groups.append([(place, own)])
            contents.append(content)
    return groups


def _content(draft: Draft) -> tuple[object, ...]:
    """What makes a question the same in files of several models: its id, texts and right answers."""
    first = draft.rounds[0]
    golds = frozenset(first.options[place] for place in first.gold) or frozenset(first.texts)
    return draft.id, folded_question(first.question), frozenset(first.options), golds


def _common_name(titles: Sequence[str]) -> str:
    """What the titles of files have in common at their end, or else at their beginning; the first title if nothing."""
    if len(set(titles)) == 1:
        return titles[0]
    words = [title.replace("-", "_").split("_") for title in titles]
    for common in (_common_end(words), _common_end([list(reversed(one)) for one in words])[::-1]):
        text = "_".join(common)
        if any(character.isalpha() for character in text):
            return text
    return titles[0]


def _common_end(words: Sequence[Sequence[str]]) -> list[str]:
    common: list[str] = []
    for column in zip(*(reversed(one) for one in words), strict=False):
        if len(set(column)) > 1:
            break
        common.insert(0, column[0])
    return common


def _model_of(title: str, name: str, files: int) -> str:
    """The model that a file's title names before the benchmark's name; empty for a single file."""
    if files < 2:
        return ""
    return title.replace(name, "").strip("_-. ") or title


def spec_of_file(
    name: str, path: Path, files: Sequence[PredictionFile], drafts: Sequence[Draft]
) -> BenchmarkSpec:
    """The entry of the benchmark that files of predictions make."""
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
        groups=first.groups,
        remark="made of a file of predictions: its questions are those that have a row, and have no pictures",
    )


def _formulation(draft: Draft) -> Any:
    if draft.dialogue:
        return "dialogue"
    return "choice" if draft.rounds[0].options else "text"
