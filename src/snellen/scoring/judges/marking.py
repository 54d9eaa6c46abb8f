"""Judged metrics of open questions: replies and golds go to a panel of judges, rows of scores come back.

A reply without a valid mark is unmarked: its question is unscored, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from snellen.metrics.declaration import Metric, MetricInput, MetricRow, metric_row, share
from snellen.protocols.judged_marking import MARKS, RIGHT_OR_WRONG, JudgedMarking
from snellen.protocols.prompts.judge_prompts import prompt_versions
from snellen.protocols.verdict import Verdict, majority_verdict
from snellen.scoring.judges.ensemble import JudgeEnsemble
from snellen.scoring.questions import AskedQuestion, Unscored, Value

Versions = Callable[[tuple[str, ...]], Sequence[str]]
"""From golds to the wordings that are asked."""
Reduce = Callable[[list[list[Verdict]]], "dict[str, float] | Unscored"]
"""From a question's verdicts, one list per presentation, to its rows, or why there are none."""


class JudgedMetric(Metric, frozen=True, kw_only=True):
    """A metric that judges give."""

    computed_over: ClassVar[MetricInput] = "judge"
    versions: Versions
    reduce: Reduce
    scale: tuple[int, int] = MARKS

    def measure(self, questions: Sequence[AskedQuestion], panel: JudgeEnsemble) -> dict[str, list[Value]]:
        """For each row a value for each question, or why there is none. Raises what the panel raises."""
        markings = [(number, test, marking) for number, test, marking in self._errands(questions, panel)]
        verdicts = panel.verdicts([marking for _, _, marking in markings])
        heard: list[list[list[Verdict]]] = [[[] for _ in question.came] for question in questions]
        for (number, test, _), row in zip(markings, verdicts, strict=True):
            heard[number][test].extend(row)
        values = [self.reduce(verdicts_of_question) for verdicts_of_question in heard]
        return {row: [value if isinstance(value, Unscored) else value[row] for value in values] for row in self.names}

    def _errands(
        self, questions: Sequence[AskedQuestion], panel: JudgeEnsemble
    ) -> Iterable[tuple[int, int, JudgedMarking]]:
        for number, question in enumerate(questions):
            golds = question.answer.texts if question.answer else ()
            for test, prediction in enumerate(question.came):
                for version in self.versions(golds):
                    yield (
                        number,
                        test,
                        JudgedMarking(
                            benchmark=prediction.benchmark,
                            sample_id=prediction.sample_id,
                            variant=prediction.variant,
                            question=question.turn.question,
                            golds=golds,
                            reply=prediction.text or "",
                            version=version,
                            scale=self.scale,
                            max_new_tokens=panel.spec.max_tokens,
                            structured=panel.spec.structured,
                        ),
                    )


def valid_marks(verdicts: list[list[Verdict]]) -> list[int]:
    """All marks that a question was given, of every presentation."""
    return [verdict.value for test in verdicts for verdict in test if verdict.value is not None]


def unmarked_reason(verdicts: list[list[Verdict]]) -> Unscored:
    """Why a question without a valid mark has no value."""
    return Unscored("no verdict", verdicts[0][0].outcome)


def _caption_rows(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    marks = valid_marks(verdicts)
    return {"judged_caption": sum(marks) / len(marks)} if marks else unmarked_reason(verdicts)


def grade_shares(grades: Mapping[str, int]) -> Reduce:
    """For each row the share of presentations with its grade, by the majority of valid votes; a tie abstains."""

    def shares(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
        votes = [majority_verdict(test) for test in verdicts]
        decided = [vote.value for vote in votes if vote.value is not None]
        if not decided:
            return Unscored("no verdict", votes[0].outcome)
        return {row: decided.count(grade) / len(decided) for row, grade in grades.items()}

    return shares


def mean_mark(name: str, title: str) -> MetricRow:
    """The row of a mean mark."""
    low, high = MARKS
    return metric_row(name, title=title, unit="points", low=float(low), high=float(high), scale=f"marks {low}-{high}")


CORRECT = JudgedMetric(
    what="share of replies that mean a gold, by the majority of five wordings of one rubric (and of the judges)",
    rows=(share("judged_correct"),),
    versions=lambda golds: prompt_versions("snellen-correct"),
    reduce=grade_shares({"judged_correct": RIGHT_OR_WRONG[1]}),
    scale=RIGHT_OR_WRONG,
)
CAPTION = JudgedMetric(
    what="mean mark from 1 to 5 of a caption against its references, by a judge that does not see the picture",
    rows=(mean_mark("judged_caption", "judged caption"),),
    versions=lambda golds: ["snellen-caption-1"],
    reduce=_caption_rows,
)
