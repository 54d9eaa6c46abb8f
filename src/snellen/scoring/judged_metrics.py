"""Metrics of open questions that judges mark.

A reply without a valid mark is unmarked: its question is unscored, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from snellen.metrics.declaration import (
    Metric,
    MetricInput,
    MetricRow,
    SummedMetric,
    metric_row,
    share_row,
)
from snellen.metrics.open_questions import open_questions, score_open_questions
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import (
    HIDDEN_ANSWER,
    AskedQuestion,
    Unscored,
    Value,
    why_unanswered,
)
from snellen.metrics.scoring_context import MetricScores, ScoringContext
from snellen.protocols.prompts.role_prompts import prompt_versions
from snellen.protocols.verdict import (
    MARKS,
    RIGHT_OR_WRONG,
    JudgedMarking,
    Verdict,
)
from snellen.scoring.judges import JudgeEnsemble

Versions = Callable[[AskedQuestion], Sequence[str]]
"""Function of a question that returns the versions of the prompt to use."""
ShownQuestion = Callable[[AskedQuestion], str]
"""Function of a question that returns its text as a judge sees it."""
Reduce = Callable[[list[list[Verdict]]], "dict[str, float] | Unscored"]
"""Function of a question's verdicts, a list per presentation, that returns its rows or why there are none."""
NO_JUDGE = Unscored("no judge", "score with --judge MODEL (judge=MODEL)")


PromptSlots = Callable[[AskedQuestion], Mapping[str, str]]
"""Function of a question that returns the texts of further slots of the judge's prompt."""


def question_as_asked(question: AskedQuestion) -> str:
    """Return the text of a question as the model was asked it."""
    return question.turn.question


def no_slots(question: AskedQuestion) -> Mapping[str, str]:
    """Return no texts: the prompt has only the usual slots."""
    return {}


class JudgedMetric(Metric, frozen=True, kw_only=True):
    """A metric whose values are marks of judges."""

    computed_over: ClassVar[MetricInput] = "judge"
    versions: Versions
    """Versions of the prompt for a question."""
    reduce: Reduce
    """Turns the verdicts on a question into its rows."""
    scale: tuple[int, int] = MARKS
    """Lowest and highest mark."""
    shown_question: ShownQuestion = question_as_asked
    """The question as a judge sees it."""
    slots: PromptSlots = no_slots
    """Further texts in the judge's prompt."""

    def score(self, questions: Sequence[AskedQuestion], context: ScoringContext) -> MetricScores:
        """Score the open questions by judge models. Questions without a reply are not sent to them."""

        def measure(measurable: Sequence[AskedQuestion]) -> Mapping[str, Sequence[Value]]:
            """Return the values of some questions, by row; without judges, the reason why there is none."""
            if context.judges is not None:
                return self.measure(measurable, context.judges)
            without_judge = [NO_JUDGE] * len(measurable)
            return dict.fromkeys(self.names, without_judge)

        scores = score_open_questions(open_questions(questions), self.rows, measure)
        return MetricScores(scores)

    def measure(
        self, questions: Sequence[AskedQuestion], panel: JudgeEnsemble
    ) -> dict[str, list[Value]]:
        """Ask judge models to mark the replies to some questions.

        Args:
            questions: The questions with their replies.
            panel: The judge models.

        Returns:
            The metric can yield several numbers. For the name of each, one item per question: a value, or the reason
            why there is none.

        Raises:
            ModelError, ErrorBudgetError, StoreError: As `JudgeEnsemble.verdicts`.
        """
        verdicts = verdicts_on_questions(
            questions,
            panel,
            self.versions,
            self.scale,
            shown_question=self.shown_question,
            slots=self.slots,
        )
        values_by_row: dict[str, list[Value]] = {row: [] for row in self.names}
        for verdicts_on_question in verdicts:
            reduced = self.reduce(verdicts_on_question)
            for row, values in values_by_row.items():
                value = reduced if isinstance(reduced, Unscored) else reduced[row]
                values.append(value)
        return values_by_row


class SummedMarks(SummedMetric, frozen=True, kw_only=True):
    """A metric that is computed from sums of judges' marks over all questions, such as a ratio of two mean marks."""

    computed_over: ClassVar[MetricInput] = "judge"
    versions: Versions
    """Versions of the prompt for a question."""
    count: Callable[[list[list[Verdict]]], Counts | Unscored]
    """Computes the counts of a question from the verdicts on it."""
    never_answered: Counts
    """Counts of a question whose reply will never be received."""
    scale: tuple[int, int] = MARKS
    """Lowest and highest mark."""
    decimals: bool = False
    """Whether a mark may lie between whole numbers."""

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Ask the judges to mark the replies to open questions, and count the marks.

        Raises:
            ModelError, ErrorBudgetError, StoreError: As `JudgeEnsemble.verdicts`.
        """
        asked = open_questions(questions)
        markable = [question for question in asked if self._counts_without_marks(question) is None]
        # The counts of each markable question, in their order.
        counts_of_marks: Iterator[Counts | Unscored] = iter([NO_JUDGE] * len(markable))
        if context.judges is not None and markable:
            verdicts = verdicts_on_questions(
                markable, context.judges, self.versions, self.scale, decimals=self.decimals
            )
            counts_of_marks = map(self.count, verdicts)

        tallies: list[QuestionCounts] = []
        for question in asked:
            counts = self._counts_without_marks(question)
            if counts is None:
                counts = next(counts_of_marks)
            tallies.append(tally_of(question.missing_as_wrong, context.metric, counts))
        return tallies

    def _counts_without_marks(self, question: AskedQuestion) -> Counts | Unscored | None:
        """Return what a question counts if no judge can mark it; None if it has a reply and an answer to show a judge.

        The result is the reason why the question has no counts or, if its reply will never be received,
        `never_answered`.
        """
        if question.answer is None:
            return HIDDEN_ANSWER if question.answered else why_unanswered(question)
        if question.answered:
            return None
        return self.never_answered if question.final else why_unanswered(question)


def verdicts_on_questions(
    questions: Sequence[AskedQuestion],
    panel: JudgeEnsemble,
    versions: Versions,
    scale: tuple[int, int],
    *,
    decimals: bool = False,
    shown_question: ShownQuestion = question_as_asked,
    slots: PromptSlots = no_slots,
) -> list[list[list[Verdict]]]:
    """Ask judge models to mark the replies to some questions.

    Args:
        questions: The questions with their replies.
        panel: The judge models.
        versions: Versions of the prompt, by question.
        scale: Lowest and highest mark.
        decimals: Whether a mark may lie between whole numbers.
        shown_question: The text of a question as a judge sees it.
        slots: Texts of further slots of the prompt, by question.

    Returns:
        For each question and presentation of it, the verdicts: those of all judges with the first version of the
        prompt, then those with the next one.

    Raises:
        ModelError, ErrorBudgetError, StoreError: As `JudgeEnsemble.verdicts`.
    """
    tasks: list[JudgedMarking] = []
    positions: list[tuple[int, int]] = []
    for question_index, question in enumerate(questions):
        for presentation_index, prediction in enumerate(question.answered):
            for version in versions(question):
                task = JudgedMarking(
                    benchmark=prediction.benchmark,
                    sample_id=prediction.sample_id,
                    variant=prediction.variant,
                    question=shown_question(question),
                    reference_answers=question.reference_answers,
                    reply=prediction.text or "",
                    version=version,
                    scale=scale,
                    decimals=decimals,
                    max_new_tokens=panel.spec.max_tokens,
                    structured=panel.spec.structured,
                    slots=dict(slots(question)),
                )
                tasks.append(task)
                positions.append((question_index, presentation_index))

    verdicts = [_empty_lists(len(question.answered)) for question in questions]
    for position, verdicts_on_task in zip(positions, panel.verdicts(tasks), strict=True):
        question_index, presentation_index = position
        verdicts[question_index][presentation_index].extend(verdicts_on_task)
    return verdicts


def _empty_lists(count: int) -> list[list[Verdict]]:
    """Return as many different empty lists."""
    return [[] for _ in range(count)]


def valid_marks(verdicts: list[list[Verdict]]) -> list[float]:
    """Return the valid marks of all presentations of a question."""
    marks: list[float] = []
    for verdicts_on_presentation in verdicts:
        for verdict in verdicts_on_presentation:
            if verdict.value is not None:
                marks.append(verdict.value)
    return marks


def unmarked_reason(verdicts: list[list[Verdict]]) -> Unscored:
    """Return why a question without a valid mark has no value."""
    first_presentation = verdicts[0]
    first_verdict = first_presentation[0]
    return Unscored("no verdict", first_verdict.outcome)


def grade_shares(grades: Mapping[str, int]) -> Reduce:
    """Return a function that computes how often judges gave each grade.

    Args:
        grades: The grade that each row of the metric counts, by the name of the row.

    Returns:
        A function from the verdicts on a question (for each reply, one per judge) to a share for each row. The grade of
        a reply is the one that most judges gave; replies with a tie are left out.
    """

    def shares(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
        """Return the share of each grade among the replies without a tie, or why there is none."""
        majorities = [Verdict.majority(verdicts_on_reply) for verdicts_on_reply in verdicts]
        decided_grades = [majority.value for majority in majorities if majority.value is not None]
        if not decided_grades:
            return Unscored("no verdict", majorities[0].outcome)
        share_by_row: dict[str, float] = {}
        for row, grade in grades.items():
            share_by_row[row] = decided_grades.count(grade) / len(decided_grades)
        return share_by_row

    return shares


def mean_mark(name: str, title: str) -> MetricRow:
    """Declare the row of a mean mark."""
    low, high = MARKS
    return metric_row(
        name,
        title=title,
        unit="points",
        low=float(low),
        high=float(high),
        scale=f"marks {low}-{high}",
    )


def _mean_caption_mark(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """Return the mean mark of a caption, or why it has none."""
    marks = valid_marks(verdicts)
    if not marks:
        return unmarked_reason(verdicts)
    return {"judged_caption": sum(marks) / len(marks)}


CORRECT = JudgedMetric(
    description="share of replies that mean a gold, by the majority of five wordings of one rubric (and of the judges)",
    rows=(share_row("judged_correct"),),
    versions=lambda question: prompt_versions("snellen-correct"),
    reduce=grade_shares({"judged_correct": RIGHT_OR_WRONG[1]}),
    scale=RIGHT_OR_WRONG,
)
CAPTION = JudgedMetric(
    description="mean mark from 1 to 5 of a caption against its references, by a judge that does not see the image",
    rows=(mean_mark("judged_caption", "judged caption"),),
    versions=lambda question: ["snellen-caption-1"],
    reduce=_mean_caption_mark,
)
