"""MME-CoT's quality of reasoning: precision and recall of the steps of a solution, by a judge (arXiv 2502.09621).

The aggregation is that of the makers (CaraJ7/MME-CoT, 4cbdf81, final_score/precision.py, recall.py and quality.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, ClassVar

from snellen.errors import DataError
from snellen.metrics.declaration import MetricInput, SummedMetric, share_row
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import HIDDEN_ANSWER, AskedQuestion, Unscored, why_unanswered
from snellen.metrics.scoring_context import ScoringContext
from snellen.protocols.prompts.role_prompts import judge_prompt
from snellen.protocols.verdict import Deliberation, JudgeTask, Verdict, ask_for_verdict
from snellen.scoring.judged_metrics import NO_JUDGE

PRECISION_PROMPT = "mme-cot-precision-1"
RECALL_PROMPT = "mme-cot-recall-1"
REASONING = "Reasoning"
"""The kind of questions whose solutions have key steps; the others ask what is visible."""
MAX_SOLUTIONS = 4
_COUNTED_TYPES = ("logical inference", "image caption")
"""The types that the makers count. Their prompt calls the second one "image description", so that they count none."""
_GOOD_JUDGMENTS = ("Match", "Reasonable")
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")


class StepMarking(JudgeTask, frozen=True, kw_only=True):
    """A solution whose steps a judge marks. The value of the verdict is a share of steps.

    It is the precision, the share of the solution's own steps that are right, or the recall, the share of key steps
    that the solution has.
    """

    correct_answer: str
    ground_truth: str
    """The key steps as the judge is shown them."""
    solution_sizes: tuple[int, ...] = ()
    """The number of key steps of each accepted solution, for the recall; empty for the precision."""

    def start(self) -> Deliberation:
        """Yield the judge's requests, and return its verdict."""
        texts = judge_prompt(self.version)
        text = texts.fill(
            self.reply,
            question=self.question.strip(),
            gold=self.correct_answer,
            ground_truth=self.ground_truth,
        )
        return ask_for_verdict(self._request(text, ()), texts.remind(), self._read)

    def _read(self, reply: str) -> Verdict | None:
        steps = marked_steps(reply)
        if not steps:
            return None
        if self.solution_sizes:
            return Verdict("given", recall_of(steps, self.solution_sizes))
        precision = precision_of(steps)
        return None if precision is None else Verdict("given", precision)


def marked_steps(reply: str) -> list[dict[str, Any]]:
    """Return the steps in a judge's reply: the objects of the first list in it. Empty if it has no such list.

    Commas before a closing bracket and single backslashes, as in LaTeX, are accepted.

    Examples:
        >>> marked_steps('Here: [{"step_index": 0, "judgment": "Matched",}]')
        [{'step_index': 0, 'judgment': 'Matched'}]
    """
    start = reply.find("[")
    if start < 0:
        return []
    text = _TRAILING_COMMA.sub(r"\1", reply[start:])
    decoder = json.JSONDecoder(strict=False)
    for candidate in (text, text.replace("\\", "\\\\")):
        try:
            steps, _ = decoder.raw_decode(candidate)
        except (json.JSONDecodeError, RecursionError):
            continue
        are_objects = isinstance(steps, list) and all(isinstance(step, dict) for step in steps)
        return steps if are_objects else []
    return []


def precision_of(steps: Sequence[dict[str, Any]]) -> float | None:
    """Return the share of logical inferences that the judge found right.

    It is 0 if the solution has none, and None if a step has no type or an inference no judgment.
    """
    if any("step_type" not in step for step in steps):
        return None
    counted = [step for step in steps if step["step_type"] in _COUNTED_TYPES]
    if any("judgment" not in step for step in counted):
        return None
    if not counted:
        return 0.0
    n_good = sum(step["judgment"] in _GOOD_JUDGMENTS for step in counted)
    return n_good / len(counted)


def recall_of(steps: Sequence[dict[str, Any]], solution_sizes: Sequence[int]) -> float:
    """Return the largest share of key steps that a reply has of one of the accepted solutions.

    Args:
        steps: The judge's marks of the key steps of all solutions, one solution after the other.
        solution_sizes: The number of key steps of each solution.
    """
    recalls = []
    start = 0
    for size in solution_sizes:
        steps_of_solution = steps[start : start + size]
        start += size
        if size:
            n_matched = sum(step.get("judgment") == "Matched" for step in steps_of_solution)
            recalls.append(n_matched / size)
    return max(recalls)


def key_steps(question: AskedQuestion) -> list[list[str]]:
    """Return the key steps of each accepted solution: first conclusions, then what is visible.

    Raises DataError if the benchmark was built without them.
    """
    notes = question.answer.judge_notes if question.answer else {}
    solutions = []
    for number in range(1, MAX_SOLUTIONS + 1):
        conclusions = notes.get(f"conclusions_{number}", ())
        captions = notes.get(f"captions_{number}", ())
        steps = [text.strip() for text in (*conclusions, *captions)]
        if steps:
            solutions.append(steps)
    if not solutions:
        raise DataError(
            f"{question.label}: no key steps of a solution, which MME-CoT's judge compares replies with; "
            "build modern/mme-cot again, or use the metric judged_correct"
        )
    return solutions


def _ground_truth_of_precision(question: AskedQuestion) -> str:
    """Return what the judge of single steps is shown, as the makers compose it: the descriptions stand twice."""
    notes = question.answer.judge_notes if question.answer else {}
    conclusions: list[str] = []
    for number in range(1, MAX_SOLUTIONS + 1):
        conclusions.extend(notes.get(f"conclusions_{number}", ()))
    descriptions = notes.get("descriptions", ())
    texts = [text.strip() for text in (*conclusions, *descriptions, *descriptions)]
    return json.dumps(texts)


def _ground_truth_of_recall(solutions: Iterable[Sequence[str]]) -> str:
    """Return the key steps of all solutions with their numbers, as the judge is shown them."""
    steps: list[dict[str, int | str]] = []
    for solution in solutions:
        for content in solution:
            steps.append({"step_index": len(steps), "content": content})
    return json.dumps(steps)


class ReasoningQuality(SummedMetric, frozen=True, kw_only=True):
    """MME-CoT's metric of the questions that ask for reasoning, with options or without."""

    computed_over: ClassVar[MetricInput] = "judge"
    needs_replies: ClassVar[bool] = True

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Ask the judges to mark the steps of each reply.

        The counts of a question are its precision and 1, and its recall and 1; zeros where there is no verdict.

        Raises:
            DataError: A question has no key steps.
            ModelError, ErrorBudgetError, StoreError: As `JudgeEnsemble.verdicts`.
        """
        reasoning = [
            question for question in questions if question.sample.tags.get("kind") == REASONING
        ]
        if context.judges is None:
            return [tally_of(question, context.metric, NO_JUDGE) for question in reasoning]

        markable = [question for question in reasoning if question.answered and question.answer]
        tasks: list[StepMarking] = []
        owners: list[AskedQuestion] = []
        for question in markable:
            for task in _tasks_of(question, context.judges.spec.max_tokens):
                tasks.append(task)
                owners.append(question)
        verdicts_by_question: dict[int, dict[str, list[Verdict]]] = {}
        for question, task, verdicts in zip(
            owners, tasks, context.judges.verdicts(tasks), strict=True
        ):
            by_version = verdicts_by_question.setdefault(id(question), {})
            by_version.setdefault(task.version, []).extend(verdicts)

        tallies = []
        for question in reasoning:
            counts = self._counts(question, verdicts_by_question.get(id(question), {}))
            tallies.append(tally_of(question.missing_as_wrong, context.metric, counts))
        return tallies

    def _counts(
        self, question: AskedQuestion, verdicts: dict[str, list[Verdict]]
    ) -> Counts | Unscored:
        """Return the counts of a question, or why it has none."""
        if question.answer is None:
            return HIDDEN_ANSWER if question.answered else why_unanswered(question)
        if not question.answered:
            # A reply that will never be received has no right step.
            return (0.0, 1.0, 0.0, 1.0) if question.final else why_unanswered(question)
        counts: list[float] = []
        for version in (PRECISION_PROMPT, RECALL_PROMPT):
            shares = [verdict.value for verdict in verdicts[version] if verdict.value is not None]
            counts += [fmean(shares), 1.0] if shares else [0.0, 0.0]
        if not any(counts[1::2]):
            return Unscored("no verdict", verdicts[PRECISION_PROMPT][0].outcome)
        return tuple(counts)


def _tasks_of(question: AskedQuestion, max_new_tokens: int) -> list[StepMarking]:
    """Return what a judge is asked about the replies to a question: for each reply, precision and recall."""
    solutions = key_steps(question)
    sizes = tuple(len(solution) for solution in solutions)
    ground_truths = {
        PRECISION_PROMPT: _ground_truth_of_precision(question),
        RECALL_PROMPT: _ground_truth_of_recall(solutions),
    }
    tasks = []
    for prediction in question.answered:
        for version, ground_truth in ground_truths.items():
            task = StepMarking(
                benchmark=prediction.benchmark,
                sample_id=prediction.sample_id,
                variant=prediction.variant,
                question=question.turn.question,
                reply=prediction.text or "",
                version=version,
                max_new_tokens=max_new_tokens,
                correct_answer=_correct_answer(question),
                ground_truth=ground_truth,
                solution_sizes=sizes if version == RECALL_PROMPT else (),
            )
            tasks.append(task)
    return tasks


def _correct_answer(question: AskedQuestion) -> str:
    """Return the correct answer as the dataset has it: the letter of an option, or a text."""
    answer = question.answer
    if answer is None:
        return ""
    if answer.options:
        return ", ".join("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[option] for option in answer.options)
    return answer.texts[0]


def _quality(sums: Counts) -> tuple[float | None, ...]:
    """Return mean precision, mean recall and their harmonic mean."""
    precisions, n_precisions, recalls, n_recalls = sums
    precision = precisions / n_precisions if n_precisions else None
    recall = recalls / n_recalls if n_recalls else None
    if precision is None or recall is None or not precision + recall:
        return precision, recall, None
    return precision, recall, 2 * precision * recall / (precision + recall)


_UNDEFINED = "no reply has a verdict, or no step of any is right"
MME_COT = ReasoningQuality(
    description="precision and recall of the steps of reasoning and their F1, by a judge, over questions of reasoning (MME-CoT)",
    rows=(
        share_row(
            "mme_cot_precision",
            "MME-CoT, precision of steps",
            interval="linearised",
            undefined=_UNDEFINED,
        ),
        share_row(
            "mme_cot_recall",
            "MME-CoT, recall of key steps",
            interval="linearised",
            undefined=_UNDEFINED,
        ),
        share_row("mme_cot", "MME-CoT, F1", interval="linearised", undefined=_UNDEFINED),
    ),
    compute=_quality,
    per_question=("mme_cot_precision", "mme_cot_recall"),
)
