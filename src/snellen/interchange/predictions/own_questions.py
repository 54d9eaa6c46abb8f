"""The questions that a file of predictions makes by itself: grouped by id, checked, and kept to build a benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import json_lines
from snellen.interchange.predictions.joining import PlacedRow, expected_presentations
from snellen.interchange.predictions.known_names import known_benchmark
from snellen.interchange.predictions.rows import (
    Findings,
    PredictedRow,
    PredictionFile,
    folded_question,
    name_of,
)

QUESTION_UNKNOWN = "(the file does not have the question)"
QUESTIONS = "questions.jsonl"
"""The questions that a file makes, in the folder of its run."""


class OwnQuestions(Struct, frozen=True):
    """The questions of a file, and its rows with the question of each."""

    drafts: tuple[Draft, ...]
    placed: tuple[PlacedRow, ...]
    contradictions: tuple[str, ...] = ()
    """How rows of one id contradict each other, and which."""


class KeptQuestion(Struct, frozen=True, omit_defaults=True):
    """A question of a file of predictions, as the run's folder keeps it to build its benchmark."""

    id: str
    rounds: tuple[KeptRound, ...]
    where: str
    dialogue: bool = False
    context: str = ""
    group: str = ""
    tags: dict[str, str] = {}


class KeptRound(Struct, frozen=True, omit_defaults=True):
    """A round of it."""

    question: str
    options: tuple[str, ...] = ()
    gold: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    rewordings: tuple[str, ...] = ()


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """The questions that files of predictions made, as the folder of a run keeps them. Raises DataError."""
    chosen = read_params(params, Params)
    for _, kept in json_lines((folder or Path()) / chosen.file, KeptQuestion):
        rounds = tuple(
            QuestionDraft(
                one.question,
                one.options,
                one.gold,
                one.texts,
                rewordings=one.rewordings,
                may_repeat=len(set(one.options)) < len(one.options),
            )
            for one in kept.rounds
        )
        yield Draft(
            id=kept.id,
            rounds=rounds,
            where=kept.where,
            dialogue=kept.dialogue,
            context=kept.context or None,
            group=kept.group,
            answer_tags=kept.tags,
        )


def kept_question(draft: Draft) -> KeptQuestion:
    """Return a question as the run's folder keeps it."""
    rounds = tuple(
        KeptRound(one.question, one.options, one.gold, one.texts, one.rewordings)
        for one in draft.rounds
    )
    return KeptQuestion(
        draft.id,
        rounds,
        draft.where,
        draft.dialogue,
        draft.context or "",
        draft.group,
        draft.answer_tags,
    )


def checked_questions(
    path: Path, file: PredictionFile, findings: Findings, *, is_table: bool
) -> OwnQuestions:
    """The questions of a file. Raises DataError if it cannot be scored by itself.

    An id of a table that rows with different questions have is not the question's: rows are then counted one by one.
    """
    questions = own_questions(file, findings)
    if questions.contradictions and is_table:
        by_row = _by_row(file)
        findings.clear()
        questions = own_questions(by_row, findings)
        findings.add(
            "ids that several questions have, so that they are the image's or another thing's; rows are counted one "
            "by one",
            ", ".join(_repeated_ids(file)[:3]),
        )
    check_own_questions(path, questions, findings, len(file.rows))
    return questions


def _repeated_ids(file: PredictionFile) -> list[str]:
    return [name for name, count in Counter(row.id for row in file.rows).items() if count > 1]


def _by_row(file: PredictionFile) -> PredictionFile:
    """A file whose repeated ids tell rows apart: `7`, `7 (2)`; rows of one id stay a group."""
    seen: Counter[str] = Counter()
    rows: list[PredictedRow] = []
    for row in file.rows:
        seen[row.id] += 1
        name = row.id if seen[row.id] == 1 else f"{row.id} ({seen[row.id]})"
        rows.append(replace(row, id=name, group=row.group or row.picture or row.id))
    return replace(file, rows=tuple(rows))


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
                    group=first.group or first.picture,
                    answer_tags=first.tags,
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
    if len(set(options)) < count and (row.method == "likelihood" or not row.lists_options):
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
    first = rows[0]
    shown = [tuple(option.strip() for option in row.options) for row in rows]
    if len(set(shown)) == 1:
        return _round_shown_once(name, turn, rows, shown[0], wordings)
    options = tuple(dict.fromkeys(option for options in shown for option in options))
    place = {option: index for index, option in enumerate(options)}
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


def _round_shown_once(
    name: str,
    turn: int,
    rows: Sequence[PredictedRow],
    options: tuple[str, ...],
    wordings: Sequence[str],
) -> _OwnRound:
    """One question whose options all rows show in the same order; they may say the same, as the labels tell them apart."""
    first = rows[0]
    draft = QuestionDraft(
        question=wordings[0] or first.prompt.strip() or QUESTION_UNKNOWN,
        options=options,
        gold=tuple(sorted(first.gold)) if options else (),
        texts=() if options else tuple(text for text in first.references if text.strip()),
        rewordings=tuple(wordings[1:]),
        may_repeat=len(set(options)) < len(options),
    )
    order = tuple(range(len(options)))
    placed = tuple(
        PlacedRow(row, name, turn, order, wordings.index(row.question.strip())) for row in rows
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
        raise DataError(
            f"{path}: {count} can be scored by itself ({reasons}); name the benchmark that was evaluated: "
            f"{_next_command(path)}"
        )
    if not any(
        question.gold or question.texts for draft in questions.drafts for question in draft.rounds
    ):
        raise DataError(
            f"{path} has replies without right answers; name the benchmark that was evaluated: {_next_command(path)}"
        )


def _next_command(path: Path) -> str:
    """The command that scores a file by a benchmark: the one that its name says it is of, where it says one."""
    known = known_benchmark(path.stem)
    name = known.spec.name if known else "BENCHMARK"
    return f"snellen score {path} --benchmark {name}"
