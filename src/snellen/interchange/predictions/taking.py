"""From a file of predictions to a run: from there it is scored like any other.

Without a benchmark its questions are what the file says of them: options and references, but no pictures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen import registry
from snellen.building.benchmark import Benchmark
from snellen.building.builder import build_benchmark
from snellen.catalogue import BenchmarkSpec, SourceSpec
from snellen.catalogue.forms import prediction_form
from snellen.catalogue.suites import PredictionForm
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.common.paths import slug
from snellen.errors import DataError
from snellen.interchange.predictions.joining import (
    PlacedRow,
    absent_questions,
    are_rotations,
    exchanges_of,
    expected_presentations,
    join_rows,
    number_presentations,
)
from snellen.interchange.predictions.rows import (
    Findings,
    PredictedRow,
    PredictionFile,
    folded_question,
    name_of,
    with_failure,
)
from snellen.protocols.base import labelled_declaration, parse_protocol
from snellen.records import Method, Sample
from snellen.runs.finding import find_benchmarks
from snellen.runs.imported_predictions import (
    ImportedPredictions,
    check_import,
    imported_run_folder,
    write_imported_run,
)


def import_run(
    path: str | Path,
    benchmark: str = "",
    form: str = "",
    to: str | Path | None = None,
    model: str = "",
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
    return _import_rows(
        path, name, chosen, benchmark, folder or imported_run_folder(path, benchmark, name), model
    )


def _import_rows(
    path: Path, name: str, form: PredictionForm, benchmark: str, folder: Path, model: str
) -> Path:
    prediction_file: PredictionFile = form.rows(path)
    file = replace(prediction_file, rows=tuple(map(with_failure, prediction_file.rows)))
    findings = Findings()
    check_import(folder, path)
    if benchmark or form.questions:
        target = (
            form.questions(path, benchmark, folder)
            if form.questions
            else asked_benchmark(benchmark)
        )
        placed = join_rows(path, file, target, findings)
    else:
        file_questions = own_questions(file, findings)
        check_own_questions(path, file_questions, findings, len(file.rows))
        target = build_benchmark(
            spec_of_file(path, name, file), source=path.parent, to=folder / "benchmark"
        )
        placed = list(file_questions.placed)
    check_import(folder, path, target)
    samples = {sample.id: sample for sample in target.samples()}
    placed = number_presentations(path, placed, samples, file.repeats, findings)
    label = _label(path, placed, samples, file.repeats)
    absent = absent_questions(target, placed, circular=labelled_declaration(label).circular)
    notes = (f"read as {form.title}", *file.notes, *findings.notes(), *absent)
    predictions = ImportedPredictions(path, model or file.model, label, notes)
    write_imported_run(folder, target, predictions, exchanges_of(placed, samples, label))
    return folder


def asked_benchmark(benchmark: str) -> Benchmark:
    """The one built benchmark of a name or folder. Raises DataError for a name that stands for several."""
    [use, *further_uses] = find_benchmarks([benchmark])
    if further_uses:
        raise DataError(
            f"{benchmark} stands for {1 + len(further_uses)} benchmarks; name the one that was asked"
        )
    return use.benchmark


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


QUESTION_UNKNOWN = "(the file does not have the question)"


class OwnQuestions(Struct, frozen=True):
    """The questions of a file, and its rows with the question of each."""

    drafts: tuple[Draft, ...]
    placed: tuple[PlacedRow, ...]
    contradictions: tuple[str, ...] = ()
    """How rows of one id contradict each other, and which."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str
    form: str


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The questions of a file of predictions of the form `form`. Raises DataError."""
    chosen = read_params(params, Params)
    form = registry.find("prediction_forms", chosen.form)
    yield from own_questions(form.rows((folder or Path()) / chosen.file), Findings()).drafts


def spec_of_file(path: Path, form: str, file: PredictionFile) -> BenchmarkSpec:
    """The entry of the benchmark that a file makes."""
    kinds = {_formulation(row) for row in file.rows}
    return BenchmarkSpec(
        name=slug(file.title or path.stem),
        title=file.title or path.name,
        formulation="dialogue"
        if "dialogue" in kinds
        else "choice"
        if "choice" in kinds
        else "text",
        source=SourceSpec("predictions", {"file": path.name, "form": form}),
        suite=file.suite,
        task=file.task,
        metrics=file.metrics,
        remark="made of a file of predictions: its questions are those that have a row, and have no pictures",
    )


def _formulation(row: PredictedRow) -> str:
    return "dialogue" if row.turn is not None else "choice" if row.options else "text"


def own_questions(file: PredictionFile, findings: Findings) -> OwnQuestions:
    """Group a file's rows by question. Those that contradict each other are of none."""
    contradictions = Findings()
    groups: dict[str, dict[int, list[PredictedRow]]] = defaultdict(lambda: defaultdict(list))
    dialogues = {row.id for row in file.rows if row.turn is not None}
    for number, row in enumerate(file.rows, 1):
        if fault := _fault(row) or (
            "of no round of their dialogue" if row.turn is None and row.id in dialogues else ""
        ):
            findings.add(f"rows left out, {fault}", name_of(row))
        else:
            groups[row.id or f"row {number}"][row.turn or 0].append(row)
    most = expected_presentations(len(rows) for turns in groups.values() for rows in turns.values())
    common = _recurring_questions(groups)
    drafts, placed = list[Draft](), list[PlacedRow]()
    for name, turns in groups.items():
        rounds = _rounds(name, turns, common if most > 1 else frozenset(), findings, contradictions)
        if rounds:
            first = next(iter(turns[0]))
            dialogue = first.turn is not None
            drafts.append(
                Draft(
                    id=name,
                    rounds=tuple(round_question.draft for round_question in rounds),
                    where=first.where,
                    dialogue=dialogue,
                    context=first.context or None,
                    group=first.picture,
                )
            )
            placed += [row for round_question in rounds for row in round_question.placed]
    return OwnQuestions(tuple(drafts), tuple(placed), tuple(contradictions.notes()))


def _fault(row: PredictedRow) -> str:
    """Why a row cannot be scored by itself."""
    options, count = [option.strip() for option in row.options], len(row.options)
    if row.method == "likelihood" and not options:
        return "with likelihoods but without options"
    if len(options) == 1:
        return "with a single option"
    if "" in options:
        return "with an empty option"
    if len(set(options)) < count:
        return "with the same option twice"
    if any(not 0 <= place < count for place in row.gold if options):
        return "whose right answer is none of their options"
    if row.chosen is not None and not 0 <= row.chosen < count:
        return "whose prediction is none of their options"
    if row.scores and len(row.scores) != count:
        return "whose scores are not one for each option"
    return ""


def _recurring_questions(
    groups: Mapping[str, Mapping[int, Sequence[PredictedRow]]],
) -> frozenset[str]:
    """Wordings that more than one id has, as where all questions are put by the same templates."""
    ids: dict[str, set[str]] = defaultdict(set)
    for name, turns in groups.items():
        for rows in turns.values():
            for row in rows:
                ids[folded_question(row.question)].add(name)
    return frozenset(text for text, names in ids.items() if len(names) > 1)


class _OwnRound(Struct, frozen=True):
    draft: QuestionDraft
    placed: tuple[PlacedRow, ...]


def _rounds(
    name: str,
    turns: Mapping[int, Sequence[PredictedRow]],
    common: frozenset[str],
    findings: Findings,
    contradictions: Findings,
) -> list[_OwnRound]:
    """The rounds of one id up to the first that is missing or contradicts itself."""
    rounds: list[_OwnRound] = []
    ended = ""
    for turn in sorted(turns):
        rows = turns[turn]
        conflict = "" if ended else _conflict(rows, common)
        fault = ended or ("" if turn == len(rounds) else "after a round that is not there")
        if conflict or fault:
            for row in rows:
                (contradictions if conflict else findings).add(
                    conflict or f"rows left out, {fault}", name_of(row)
                )
            ended = "after a round that is left out"
            continue
        rounds.append(_round(name, turn, rows))
    return rounds


def _conflict(rows: Sequence[PredictedRow], common: frozenset[str]) -> str:
    """Why rows of one id are not presentations of one question; empty when they are."""
    if len({row.picture for row in rows}) > 1:
        return "rows of one id show different pictures"
    if len({bool(row.options) for row in rows}) > 1:
        return "rows of one id are with options and without"
    if (
        len(
            {
                frozenset(row.options[place].strip() for place in row.gold)
                for row in rows
                if row.options
            }
        )
        > 1
    ):
        return "rows of one id have different right answers (name the benchmark to score them by its own)"
    if len({row.references for row in rows}) > 1:
        return "rows of one id have different references"
    wordings = {folded_question(row.question) for row in rows}
    if len(wordings) > 1 and not (wordings <= common or _one_subject(rows)):
        return "rows of one id ask different questions"
    return ""


def _one_subject(rows: Sequence[PredictedRow]) -> bool:
    subjects = {row.subject for row in rows}
    return len(subjects) == 1 and "" not in subjects


def _round(name: str, turn: int, rows: Sequence[PredictedRow]) -> _OwnRound:
    """One question of all its rows; its options are those of all of them, in order of appearance."""
    wordings = list(dict.fromkeys(row.question.strip() for row in rows))
    options = tuple(dict.fromkeys(option.strip() for row in rows for option in row.options))
    place = {option: index for index, option in enumerate(options)}
    first = rows[0]
    draft = QuestionDraft(
        question=wordings[0] or first.prompt.strip() or QUESTION_UNKNOWN,
        options=options,
        gold=tuple(sorted(place[first.options[index].strip()] for index in first.gold))
        if options
        else (),
        texts=() if options else tuple(text for text in first.references if text.strip()),
        rewordings=tuple(wordings[1:]),
    )
    placed = tuple(
        PlacedRow(
            row,
            name,
            turn,
            tuple(place[option.strip()] for option in row.options),
            wordings.index(row.question.strip()),
        )
        for row in rows
    )
    return _OwnRound(draft, placed)


def check_own_questions(path: Path, questions: OwnQuestions, findings: Findings, rows: int) -> None:
    """Raise DataError where rows contradict each other, and where most of a file cannot be scored by itself."""
    if questions.contradictions:
        raise DataError(
            f"{path}: {'; '.join(questions.contradictions)}; give each question an id of its own, or name the "
            "benchmark that was asked with --benchmark"
        )
    if not questions.drafts or 2 * len(questions.placed) < rows:
        reasons = "; ".join(findings.notes()) or "it has no rows"
        count = f"only {len(questions.placed):,} of {rows:,} rows" if questions.drafts else "no row"
        raise DataError(f"{path}: {count} can be scored by itself ({reasons})")
    if not any(
        question.gold or question.texts for draft in questions.drafts for question in draft.rounds
    ):
        raise DataError(
            f"{path} has predictions without their right answers; name the benchmark that was asked with --benchmark"
        )
