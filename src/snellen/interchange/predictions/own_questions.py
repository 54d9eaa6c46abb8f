"""Make questions from the rows of a file of predictions: grouped by id, checked, and stored to build a benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import setting
from snellen.common.drafts import Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import json_lines
from snellen.interchange.predictions.benchmark_signs import how_to_give_answers
from snellen.interchange.predictions.joining import PlacedRow, expected_presentations
from snellen.interchange.predictions.question_types import RECORDED
from snellen.interchange.predictions.rows import (
    Findings,
    PredictedRow,
    PredictionFile,
    folded_question,
    is_number,
    name_of,
)
from snellen.interchange.predictions.scoring_call import scoring_call

QUESTION_UNKNOWN = "(the file does not have the question)"
QUESTIONS = "questions.jsonl"
"""File in the folder of a run with the questions made from its predictions."""


class OwnQuestions(Struct, frozen=True):
    """The questions of a file, and its rows with the question of each."""

    drafts: tuple[Draft, ...]
    placed: tuple[PlacedRow, ...]
    contradictions: tuple[str, ...] = ()
    """Messages about rows with the same id that contradict each other."""


class KeptQuestion(Struct, frozen=True, omit_defaults=True):
    """A question made from a file of predictions, in the form in which the folder of a run stores it."""

    id: str
    rounds: tuple[KeptRound, ...]
    where: str
    dialogue: bool = False
    context: str = ""
    group: str = ""
    tags: dict[str, str] = {}


class KeptRound(Struct, frozen=True, omit_defaults=True):
    """A round of a `KeptQuestion`."""

    question: str
    options: tuple[str, ...] = ()
    gold: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    rewordings: tuple[str, ...] = ()


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    file: str


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Read the questions that are stored in the folder of a run. Raises DataError if the file is damaged."""
    chosen = read_params(params, Params)
    for _, kept in json_lines((folder or Path()) / chosen.file, KeptQuestion):
        rounds = tuple(
            QuestionDraft(
                kept_round.question,
                kept_round.options,
                kept_round.gold,
                kept_round.texts,
                rewordings=kept_round.rewordings,
                may_repeat=len(set(kept_round.options)) < len(kept_round.options),
            )
            for kept_round in kept.rounds
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
    """Return a question in the form that is stored in the folder of a run."""
    rounds = tuple(
        KeptRound(
            question.question,
            question.options,
            question.gold,
            question.texts,
            question.rewordings,
        )
        for question in draft.rounds
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
    """Return the questions of a file of predictions, which is scored by its own options and right answers.

    If rows of a table have the same id but ask different things, the id is not that of a question,
    but of an image, for example. Each row is then a question of its own.

    Raises:
        DataError: If the file cannot be scored by itself.
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
    check_own_questions(path, questions, findings, file)
    return questions


def _repeated_ids(file: PredictionFile) -> list[str]:
    return [name for name, count in Counter(row.id for row in file.rows).items() if count > 1]


def _by_row(file: PredictionFile) -> PredictionFile:
    """Return the file with a different id for each row: a repeated `7` becomes `7 (2)`. Rows of an id stay a group."""
    seen: Counter[str] = Counter()
    rows: list[PredictedRow] = []
    for row in file.rows:
        seen[row.id] += 1
        name = row.id if seen[row.id] == 1 else f"{row.id} ({seen[row.id]})"
        rows.append(replace(row, id=name, group=row.group or row.picture or row.id))
    return replace(file, rows=tuple(rows))


def own_questions(file: PredictionFile, findings: Findings) -> OwnQuestions:
    """Group the rows of a file by question. Rows that contradict each other are left out and noted."""
    contradictions = Findings()
    groups: dict[str, dict[int, list[PredictedRow]]] = defaultdict(lambda: defaultdict(list))
    dialogues = {row.id for row in file.rows if row.turn is not None}
    has_answers = any(row.gold or row.references for row in file.rows)
    for number, row in enumerate(file.rows, 1):
        fault = _fault(row)
        if has_answers and row.turn is None and not (row.gold or row.references):
            fault = WITHOUT_ANSWER
        if not fault and row.turn is None and row.id in dialogues:
            fault = "of no round of their dialogue"
        if fault:
            findings.add(f"rows left out, {fault}", name_of(row))
        else:
            groups[row.id or f"row {number}"][row.turn or 0].append(row)
    expected = expected_presentations(
        len(rows) for turns in groups.values() for rows in turns.values()
    )
    # Only presentations of one question may differ in their wording.
    common_wordings = _recurring_questions(groups) if expected > 1 else frozenset[str]()
    drafts: list[Draft] = []
    placed: list[PlacedRow] = []
    for name, turns in groups.items():
        rounds = _rounds(name, turns, common_wordings, findings, contradictions)
        if not rounds:
            continue
        first = turns[0][0]
        drafts.append(
            Draft(
                id=name,
                rounds=tuple(round_question.draft for round_question in rounds),
                where=first.where,
                dialogue=first.turn is not None,
                context=first.context or None,
                group=first.group or first.picture,
                answer_tags=first.tags,
            )
        )
        for round_question in rounds:
            placed += round_question.placed
    return OwnQuestions(tuple(drafts), tuple(placed), tuple(contradictions.notes()))


WITHOUT_ANSWER = "without a right answer"


def _fault(row: PredictedRow) -> str:
    """Return why a row cannot be scored by itself, such as `with a single option`; empty if it can be."""
    options = [option.strip() for option in row.options]
    count = len(options)
    if row.method == "likelihood" and not options:
        return "with likelihoods but without options"
    if len(options) == 1:
        return "with a single option"
    if "" in options:
        return "with an empty option"
    if len(set(options)) < count and (row.method == "likelihood" or not row.lists_options):
        return "with the same option twice"
    if options and any(not 0 <= index < count for index in row.gold):
        return "whose right answer is none of their options"
    if row.likeliest_option is not None and not 0 <= row.likeliest_option < count:
        return "whose prediction is none of their options"
    if row.scores and len(row.scores) != count:
        return "whose scores are not one for each option"
    return ""


def _recurring_questions(
    groups: Mapping[str, Mapping[int, Sequence[PredictedRow]]],
) -> frozenset[str]:
    """Return wordings that several ids have, for example because all questions use the same prompt templates."""
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
    """Return the rounds of a dialogue, up to the first one that is missing or whose rows contradict each other.

    A question that is no dialogue has one round.

    Args:
        name: The id of the dialogue or question.
        turns: Its rows by round, from 0.
        common: Texts that are wordings of many questions, so that rows of one question may differ
            by them.
        findings: Receives notes about skipped rows.
        contradictions: Receives notes about rows that contradict each other.
    """
    rounds: list[_OwnRound] = []
    has_ended = False
    for turn in sorted(turns):
        rows = turns[turn]
        if has_ended:
            fault = "after a round that is left out"
        else:
            conflict = _conflict(rows, common)
            if conflict:
                for row in rows:
                    contradictions.add(conflict, name_of(row))
                has_ended = True
                continue
            fault = "" if turn == len(rounds) else "after a round that is not there"
        if not fault:
            rounds.append(_round(name, turn, rows))
            continue
        for row in rows:
            findings.add(f"rows left out, {fault}", name_of(row))
        has_ended = True
    return rounds


def _conflict(rows: Sequence[PredictedRow], common: frozenset[str]) -> str:
    """Return why rows with one id cannot all be the same question, as it was repeatedly asked; empty if they can.

    Args:
        rows: The rows.
        common: Texts that are wordings of many questions, so that rows of one question may differ
            by them.
    """
    golds = {
        frozenset(row.options[index].strip() for index in row.gold) for row in rows if row.options
    }
    if len({row.picture for row in rows}) > 1:
        return "rows of one id show different images"
    if len({bool(row.options) for row in rows}) > 1:
        return "rows of one id are with options and without"
    if len(golds) > 1:
        return "rows of one id have different right answers (name the benchmark to score them by its own)"
    if len({row.references for row in rows}) > 1:
        return "rows of one id have different references"
    wordings = {folded_question(row.question) for row in rows}
    if len(wordings) > 1 and not (wordings <= common or _have_one_subject(rows)):
        return "rows of one id ask different questions"
    if _differ_without_question(rows):
        return "rows of one id without a question differ in other columns"
    return ""


def _differ_without_question(rows: Sequence[PredictedRow]) -> bool:
    """Return whether rows without questions have different words in other columns (`object`: car, dog).

    Their id may then be that of an image about which several things were asked.
    """
    if any(
        row.question or row.prompt or row.options or row.presentation is not None for row in rows
    ):
        return False
    facts = [{name: text for name, text in row.tags.items() if not is_number(text)} for row in rows]
    return any(fact != facts[0] for fact in facts)


def _have_one_subject(rows: Sequence[PredictedRow]) -> bool:
    """Return whether all rows state the same subject."""
    subjects = {row.subject for row in rows}
    return len(subjects) == 1 and "" not in subjects


def _round(name: str, turn: int, rows: Sequence[PredictedRow]) -> _OwnRound:
    """Make one question from its rows, with the options of all rows in order of appearance.

    Options with equal text are distinct only by their labels. They are kept apart if all rows show the same order.
    """
    first = rows[0]
    wordings = list(dict.fromkeys(row.question.strip() for row in rows))
    shown = [tuple(option.strip() for option in row.options) for row in rows]
    if len(set(shown)) == 1:
        options = shown[0]
        orders = [tuple(range(len(options)))] * len(rows)
    else:
        options = tuple(dict.fromkeys(chain.from_iterable(shown)))
        orders = [tuple(map(options.index, row_options)) for row_options in shown]
    draft = QuestionDraft(
        question=wordings[0] or first.prompt.strip() or QUESTION_UNKNOWN,
        options=options,
        gold=tuple(sorted(orders[0][place] for place in first.gold)) if options else (),
        texts=() if options else tuple(text for text in first.references if text.strip()),
        rewordings=tuple(wordings[1:]),
        may_repeat=len(set(options)) < len(options),
    )
    placed = tuple(
        PlacedRow(row, name, turn, order, wordings.index(row.question.strip()))
        for row, order in zip(rows, orders, strict=True)
    )
    return _OwnRound(draft, placed)


FEWEST_PLACED = 20
"""At least this many rows with a right answer are scored even if most rows have none."""


def check_own_questions(
    path: Path, questions: OwnQuestions, findings: Findings, file: PredictionFile
) -> None:
    """Raise DataError if rows contradict each other, if most rows cannot be scored, or if there are no right answers."""
    rows = file.rows
    if questions.contradictions:
        raise DataError(
            f"{path}: {'; '.join(questions.contradictions)}; give each question an id of its own, or name the "
            f"benchmark that was asked with {setting('benchmark')}"
        )
    n_answered = len(rows) - len(findings.names(f"rows left out, {WITHOUT_ANSWER}"))
    n_placed = len(questions.placed)
    is_rest = n_placed < FEWEST_PLACED and 2 * n_placed < len(rows)
    if not questions.drafts or 2 * n_placed < n_answered or is_rest:
        reasons = "; ".join(findings.notes()) or "it has no rows"
        count = (
            f"only {len(questions.placed):,} of {len(rows):,} rows"
            if questions.drafts
            else "no row"
        )
        raise DataError(
            f"{path}: {count} can be scored by itself ({reasons}); "
            f"{how_to_give_answers(path, _cells(rows))}"
        )
    has_answers = any(
        question.gold or question.texts for draft in questions.drafts for question in draft.rounds
    )
    if not has_answers and file.headline != RECORDED:
        replies = [row.reply.strip() for row in rows if row.reply]
        raise DataError(
            f"{path} has replies without right answers; {_with_likely_answers(path, file)}"
            f"{how_to_give_answers(path, _cells(rows), replies=replies)}"
        )


def _with_likely_answers(path: Path, file: PredictionFile) -> str:
    """Return the command to type if a column may hold the right answers; else empty.

    Its cells often occur in the replies.
    """
    column = file.likely_answers
    if not column:
        return ""
    command = scoring_call(path, columns={"answer": column})
    return f"the cells of {column!r} stand in many replies; if they are the right answers: {command}; else "


def _cells(rows: Sequence[PredictedRow]) -> list[dict[str, str]]:
    """Return for each row the cells that may show which benchmark was asked, such as its id and image."""
    return [
        {**row.tags, "id": row.id, "image": row.picture, "question": row.question or row.prompt}
        for row in rows
    ]
