"""Visual Dialog 1.0, val2018: ten questions about an image, asked one after the other (ReForm-Eval A.8).

Reads `visdial_1.0_val.json`, `visdial_1.0_val_dense_annotations.json` and the folder `VisualDialog_val2018`. Each
question was published with 100 candidate answers. As in the paper, they are not used as options. For one round of
each dialogue, annotators marked which candidates are right (dense annotations), and no wrong option has the same
meaning as one of these.

With `candidates = "ranked"` the candidates are the options (Das et al. 2017, section 5.2). With `candidates =
"listed"` each question is asked alone as an open question, and the candidates are kept with its answer, as in
LVLM-eHub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from snellen.common.drafts import DistractorSpec, Draft, QuestionDraft, read_params
from snellen.errors import DataError
from snellen.formats.json_files import list_items, read_json
from snellen.formats.locate import base_of, locate_file, locate_or_none
from snellen.reformulation.answer_equality import fold_answer

ROUNDS = 10
_YES = frozenset({"yes", "yeah", "yep", "yea", "yup", "sure", "definitely"})
_NO = frozenset({"no", "nope", "nah", "not"})
VISDIAL_FILLERS = ("maybe", "i can't tell", "only partly")
"""Further wrong options for questions with too few, so that even yes-no questions have four options."""


class Params(Struct, frozen=True, forbid_unknown_fields=True):
    split: str = "val2018"
    candidates: Literal["", "ranked", "listed"] = ""


class _Turn(Struct, frozen=True):
    question: int
    answer: int
    answer_options: tuple[int, ...] = ()
    gt_index: int | None = None


class _Dialog(Struct, frozen=True):
    image_id: int
    caption: str
    dialog: tuple[_Turn, ...]


class _Data(Struct, frozen=True):
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    dialogs: list[msgspec.Raw]


class _File(Struct, frozen=True):
    split: str
    data: _Data


class _Dense(Struct, frozen=True):
    image_id: int
    round_id: int
    gt_relevance: tuple[float, ...]


Dialogs = list[tuple[str, _Dialog]]
Relevant = dict[tuple[int, int], tuple[float, ...]]
"""How right each candidate answer is, in [0, 1], by (image, round from 0)."""


def read(params: dict[str, Any], folder: Path | None) -> Iterator[Draft]:
    """Yield the dialogues of VisDial, each with ten rounds.

    The caption of the image is the context, and the published answers serve as the replies of earlier rounds in the
    history. With `candidates = "listed"`, each round is a question of its own instead.
    """
    chosen = read_params(params, Params)
    split = chosen.split
    path = locate_file(folder, "visdial_1.0_val.json")
    content = read_json(path, _File)
    if content.split != split:
        raise DataError(f"{path}: the split is {content.split}, not {split}")
    dialogs = list(list_items(path, "data.dialogs", content.data.dialogs, _Dialog))
    for where, dialog in dialogs:
        _check_dialogue(where, dialog, content.data)
    is_listed = chosen.candidates == "listed"
    relevances: Relevant = {}
    if not is_listed:
        relevances = _read_relevance(folder, dialogs)
    if chosen.candidates:
        make_round = _published_choice
    else:
        make_round = partial(_reformed_question, pools=_Pools(content.data, dialogs))
    image_folders = (
        locate_or_none(folder, f"VisualDialog_{split}"),
        locate_or_none(folder, "images"),
    )
    image_folder: Path | None = None
    for where, dialog in dialogs:
        name = f"VisualDialog_{split}_{dialog.image_id:012d}.jpg"
        image_folder = image_folder or base_of(name, image_folders, where)
        picture = image_folder / name
        if is_listed:
            yield from _single_questions(dialog, content.data, picture, where)
            continue
        rounds = []
        replies = []
        for number, turn in enumerate(dialog.dialog):
            relevance = relevances.get((dialog.image_id, number))
            rounds.append(make_round(turn, content.data, relevance, f"{where}, round {number}"))
            replies.append(content.data.answers[turn.answer].strip())
        yield Draft(
            id=str(dialog.image_id),
            rounds=tuple(rounds),
            images=(picture,),
            where=where,
            dialogue=True,
            context=dialog.caption.strip(),
            group=str(dialog.image_id),
            replies=tuple(replies),
            notes=_note_on_left_out(dialog, rounds, where) if chosen.candidates else (),
        )


def _check_dialogue(where: str, dialog: _Dialog, lists: _Data) -> None:
    """Raise DataError if a dialogue does not have ten rounds, or refers to questions or answers that do not exist."""
    if len(dialog.dialog) != ROUNDS:
        raise DataError(f"{where}: {len(dialog.dialog)} rounds, not {ROUNDS}")
    for number, turn in enumerate(dialog.dialog):
        if not 0 <= turn.question < len(lists.questions):
            raise DataError(f"{where}, round {number}: there is no question {turn.question}")
        for answer in (turn.answer, *turn.answer_options):
            if not 0 <= answer < len(lists.answers):
                raise DataError(f"{where}, round {number}: there is no answer {answer}")


def _read_relevance(folder: Path | None, dialogs: Dialogs) -> Relevant:
    """Return how right each candidate answer is, by image and round, from the dense annotations."""
    path = locate_file(folder, "visdial_1.0_val_dense_annotations.json")
    return _parse_relevance(path, {dialog.image_id for _, dialog in dialogs})


def _parse_relevance(path: Path, images: set[int]) -> Relevant:
    """Return how right each of the 100 candidate answers is, in [0, 1], by (image, round from 0).

    Only some rounds are annotated. Raises DataError for an image without a dialogue, or a round that does not
    exist.
    """
    relevant: Relevant = {}
    for where, annotation in list_items(path, "", read_json(path, list[msgspec.Raw]), _Dense):
        if annotation.image_id not in images:
            raise DataError(f"{where}: there is no dialogue about the image {annotation.image_id}")
        if not 1 <= annotation.round_id <= ROUNDS:
            raise DataError(f"{where}: round_id is {annotation.round_id}, not 1 to {ROUNDS}")
        relevant[annotation.image_id, annotation.round_id - 1] = annotation.gt_relevance
    return relevant


def _question_text(turn: _Turn, lists: _Data) -> str:
    """Return the text of a round's question, with a question mark."""
    question = lists.questions[turn.question].strip()
    return question if question.endswith("?") else f"{question}?"


def _reformed_question(
    turn: _Turn, lists: _Data, relevance: tuple[float, ...] | None, where: str, pools: _Pools
) -> QuestionDraft:
    """Return a round of a dialogue as a multiple-choice question.

    Its wrong options are answers that people gave to other questions. Candidates that annotators called right,
    although they are not the published answer, are never used.

    Args:
        turn: The round.
        lists: All questions and answers of the file, to which rounds refer by number.
        relevance: How right each candidate is; None if the round is not annotated.
        where: File and round, for messages.
        pools: The answers of all dialogues.
    """
    answer = lists.answers[turn.answer].strip()
    also_right = []
    relevances = _checked_relevance(turn, relevance, where)
    for candidate, share in zip(turn.answer_options, relevances, strict=False):
        if share > 0 and candidate != turn.answer:
            also_right.append(lists.answers[candidate])
    distractors = DistractorSpec(
        tiers=pools.of(lists.questions[turn.question], answer),
        fillers=VISDIAL_FILLERS,
        prompt="dialogue",
        also_right=tuple(also_right),
    )
    return QuestionDraft(_question_text(turn, lists), texts=(answer,), distractors=distractors)


def _checked_relevance(
    turn: _Turn, relevance: tuple[float, ...] | None, where: str
) -> tuple[float, ...]:
    """Return how right each candidate of a round is; an empty tuple if the round is not annotated.

    Raises DataError if there are more or fewer numbers than candidates.
    """
    if relevance is not None and len(relevance) != len(turn.answer_options):
        raise DataError(
            f"{where}: {len(turn.answer_options)} candidates, {len(relevance)} of them annotated"
        )
    return relevance or ()


def _published_choice(
    turn: _Turn, lists: _Data, relevance: tuple[float, ...] | None, where: str
) -> QuestionDraft:
    """Return a round of a dialogue as a multiple-choice question with its published candidates, in the order of the
    file.

    Candidates that are equal except for spaces are merged to one option, with the greatest of their relevances;
    empty ones are left out. Raises DataError if the answer is empty, or not among the candidates.
    """
    if turn.answer not in turn.answer_options:
        raise DataError(
            f"{where}: the answer {turn.answer} is none of the {len(turn.answer_options)} candidates"
        )
    if turn.gt_index not in (None, turn.answer_options.index(turn.answer)):
        raise DataError(
            f"{where}: gt_index {turn.gt_index} is not the place of the answer {turn.answer}"
        )
    shares = _checked_relevance(turn, relevance, where)
    share_by_option: dict[str, float] = {}
    for index, answer in enumerate(turn.answer_options):
        text = lists.answers[answer].strip()
        if text:
            share = shares[index] if shares else 0.0
            share_by_option[text] = max(share_by_option.get(text, 0.0), share)
    gold = lists.answers[turn.answer].strip()
    if not gold:
        raise DataError(f"{where}: the answer {turn.answer} is empty")
    options = tuple(share_by_option)
    return QuestionDraft(
        question=_question_text(turn, lists),
        options=options,
        gold=(options.index(gold),),
        relevance=tuple(share_by_option.values()) if shares else (),
    )


def _note_on_left_out(
    dialog: _Dialog, rounds: Sequence[QuestionDraft], where: str
) -> tuple[str, ...]:
    """Return a tuple with a note that says how many candidates were merged or left out; an empty tuple if none was."""
    left_out = sum(
        len(turn.answer_options) - len(question.options)
        for turn, question in zip(dialog.dialog, rounds, strict=True)
    )
    if not left_out:
        return ()
    return (
        f"{where}: {left_out} candidates left out: empty, or the same as another but for blanks",
    )


def _single_questions(dialog: _Dialog, lists: _Data, picture: Path, where: str) -> Iterator[Draft]:
    """Yield each question of a dialogue on its own, without caption and history.

    It has all candidates in the order of the file.

    Args:
        dialog: The dialogue.
        lists: All questions and answers of the file, to which dialogues refer.
        picture: The image.
        where: File and position, for error messages.

    Raises:
        DataError: If the answer is not a candidate.
    """
    for number, turn in enumerate(dialog.dialog):
        candidates = tuple(lists.answers[option].strip() for option in turn.answer_options)
        answer = lists.answers[turn.answer].strip()
        if answer not in candidates:
            raise DataError(
                f"{where}, round {number}: the answer {answer!r} is none of the {len(candidates)} candidates"
            )
        question = QuestionDraft(
            _question_text(turn, lists), texts=(answer,), candidates=candidates
        )
        yield Draft(
            id=f"{dialog.image_id}-{number + 1}",
            rounds=(question,),
            images=(picture,),
            where=f"{where}, round {number}",
            group=str(dialog.image_id),
        )


class _Pools:
    """The answers that people gave in all dialogues, to be used as wrong options.

    Answers to questions that begin with the same two words ("what color") are preferred. If the correct answer
    means yes, others that mean yes are not used, because they would be right, too; the same holds for no.
    """

    def __init__(self, lists: _Data, dialogs: Dialogs) -> None:
        # Distinct answers, in order, by the first two words of their question; under "" those to all questions.
        self._answers: dict[str, dict[str, None]] = {"": {}}
        # Results of _answers_of, by its arguments.
        self._by_kind: dict[tuple[str, str], tuple[str, ...]] = {}
        for _, dialog in dialogs:
            for turn in dialog.dialog:
                answer = lists.answers[turn.answer].strip()
                question = lists.questions[turn.question]
                for kind in ("", _first_two_words(question)):
                    self._answers.setdefault(kind, {})[answer] = None

    def of(self, question: str, gold: str) -> tuple[tuple[str, ...], ...]:
        """Return two tuples of wrong options for a question: the preferred ones, then all.

        The preferred ones are answers to questions that begin with the same two words. Neither has answers that
        mean yes if the correct answer does, or no if it does.
        """
        side = _yes_or_no(gold)
        return tuple(self._answers_of(kind, side) for kind in (_first_two_words(question), ""))

    def _answers_of(self, kind: str, side: str) -> tuple[str, ...]:
        """Return the answers to questions that begin with these words, without those that mean the same as the correct
        answer.

        Args:
            kind: The first two words of the questions; empty for all questions.
            side: `yes` or `no`, to leave out answers that mean this; empty to leave out none.
        """
        if (kind, side) not in self._by_kind:
            answers = self._answers.get(kind, {})
            self._by_kind[kind, side] = tuple(
                text for text in answers if not side or _yes_or_no(text) != side
            )
        return self._by_kind[kind, side]


def _first_two_words(question: str) -> str:
    """Return the first two words of a question, which tell its kind: `what color`, `is there`."""
    return " ".join(fold_answer(question).split()[:2])


def _yes_or_no(answer: str) -> str:
    """Return `yes` or `no` if an answer means that, by its first word; empty for any other answer."""
    first = fold_answer(answer).partition(" ")[0]
    if first in _YES:
        return "yes"
    return "no" if first in _NO else ""
