"""Published scores: points of MME and OCRBench summed over categories, We-Math's problems with their steps, and how
near a number is to VSI-Bench's."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import fmean

from snellen.catalogue import BenchmarkSpec
from snellen.errors import DataError
from snellen.metrics.declaration import metric_row, reply_metric, share_row
from snellen.metrics.numbers import read_numbers
from snellen.metrics.question_counts import Counts, QuestionCounts, tally_of
from snellen.metrics.questions import AskedQuestion, Unscored
from snellen.metrics.scoring_context import ScoringContext
from snellen.records import Prediction
from snellen.scoring.grouped import (
    GroupedMetric,
    Right,
    Rights,
    all_right,
    right_answer_rule,
    rights_of,
)

PERCEPTION = (
    "existence", "count", "position", "color", "posters", "celebrity", "scene", "landmark", "artwork", "OCR",
)  # fmt: skip
COGNITION = ("commonsense_reasoning", "numerical_calculation", "text_translation", "code_reasoning")
READING = {
    "Regular Text Recognition": 50,
    "Irregular Text Recognition": 50,
    "Artistic Text Recognition": 50,
    "Handwriting Recognition": 50,
    "Digit String Recognition": 50,
    "Non-Semantic Text Recognition": 50,
    "Scene Text-centric VQA": 200,
    "Doc-oriented VQA": 200,
    "Key Information Extraction": 200,
    "Handwritten Mathematical Expression Recognition": 100,
}
"""OCRBench's types of question, and how many there are of each."""
FORMULAS = "HME100k"
FORMULA_CATEGORY = "Handwritten Mathematical Expression Recognition"
"""The category whose questions are all of that dataset, for files that name the category alone."""
_INCOMPLETE = "one of its categories has no question, and its points are the sum over all of them"
_COUNTS = 4
"""How many counts each category has: correct questions, questions, images with all questions correct, images."""


class CategoryPoints(GroupedMetric, frozen=True, kw_only=True):
    """A metric whose result is a sum of points over categories, such as MME's.

    The points of a category depend on how many of its questions are correct, and on how many of its images have all
    their questions correct. Confidence intervals treat the questions about one image as one unit.
    """

    categories: tuple[str, ...]
    """Values of the tag `category`."""
    rule: Callable[[BenchmarkSpec], Right] = right_answer_rule

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Return the counts of each group of questions about the same image in the same category."""
        rule = self.rule(context.benchmark)
        clusters: dict[Hashable, list[AskedQuestion]] = defaultdict(list)
        for question in questions:
            category = question.sample.tags.get("category")
            clusters[question.sample.group, category].append(question)
        tallies = []
        for members in clusters.values():
            rights = [rights_of(member, rule) for member in members]
            counts = self._count(members[0], rights)
            tallies.append(tally_of(members[0], context.metric, counts))
        return tallies

    def _count(self, first: AskedQuestion, members: Sequence[Rights]) -> Counts | Unscored:
        """Return the counts of some questions about one image: four numbers for each category, one category after the
        other.

        The four numbers of their own category are: correct questions, questions, 1 if all are correct (else 0), and
        1 for the image. Those of all other categories are 0.

        Args:
            first: One of the questions, which tells the category.
            members: For each question, whether it is correct in each presentation, or why that is unknown.

        Returns:
            The counts; the reason if the category is missing or unknown, or if the questions cannot be scored.
        """
        category = first.sample.tags.get("category", "")
        if category not in self.categories:
            return Unscored("metric undefined", _category_fault(category, self.categories))
        all_correct = all_right(members)
        if isinstance(all_correct, Unscored):
            return all_correct
        n_correct = 0.0
        for rights in members:
            if not isinstance(rights, Unscored):
                n_correct += fmean(rights.values())
        own_counts = [n_correct, float(len(members)), *all_correct]
        counts = [0.0] * _COUNTS * len(self.categories)
        start = _COUNTS * self.categories.index(category)
        counts[start : start + _COUNTS] = own_counts
        return tuple(counts)


def _category_fault(category: str, categories: Sequence[str]) -> str:
    """Return the message for a question whose category is missing or unknown; it lists the known ones."""
    known = ", ".join(categories)
    if not category:
        return f"the questions have no category; it needs a column category with {known}"
    return f"the category {category!r} is not among those of its score: {known}"


def _by_category(sums: Counts) -> list[Counts]:
    return [sums[start : start + _COUNTS] for start in range(0, len(sums), _COUNTS)]


def _mme(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts into MME's two scores, perception and cognition.

    A category's score is 100 times its accuracy, plus 100 times the share of its images with both questions
    correct. The scores of the ten perception categories and of the four cognition categories are added up.

    Args:
        sums: Four counts for each category, see `CategoryPoints._count`.

    Returns:
        Both scores; None for both if a category has no questions.
    """
    counts = _by_category(sums)
    if not all(n_asked for _, n_asked, _, _ in counts):
        return None, None
    points = [
        100 * right / n_asked + 100 * both_right / pictures
        for right, n_asked, both_right, pictures in counts
    ]
    return sum(points[: len(PERCEPTION)]), sum(points[len(PERCEPTION) :])


def _ocrbench(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts into OCRBench's share of correct answers and its points out of 1000.

    The points say how many of the benchmark's 1000 questions would be correct: the accuracy of each category, times
    the category's full number of questions. So they are also comparable if only some of the questions were asked.

    Args:
        sums: Four counts for each category: correct questions, questions, and two that are not used here.

    Returns:
        The share and the points; None for the points if a category has no questions.
    """
    counts_by_category = _by_category(sums)
    n_correct_in_all = sum(counts[0] for counts in counts_by_category)
    n_asked_in_all = sum(counts[1] for counts in counts_by_category)
    share = n_correct_in_all / n_asked_in_all
    points = 0.0
    for size, counts in zip(READING.values(), counts_by_category, strict=True):
        n_correct, n_asked, _, _ = counts
        if not n_asked:
            return share, None
        points += size * n_correct / n_asked
    return share, points


def ocrbench_right(question: AskedQuestion, prediction: Prediction) -> float:
    """Return 1 if one of the accepted answers to a question of OCRBench occurs in the reply, else 0.

    Texts are compared in lower case. Formulas are compared without blanks and with their case.
    """
    tags = question.sample.tags
    is_formula = tags.get("dataset") == FORMULAS or tags.get("category") == FORMULA_CATEGORY

    def plain(text: str) -> str:
        text = text.strip().replace("\n", " ")
        return text.replace(" ", "") if is_formula else text.lower()

    reply = plain(prediction.text or "")
    return float(any(plain(gold) in reply for gold in question.reference_answers))


class ShareByRule(GroupedMetric, frozen=True, kw_only=True):
    """The mean over questions of the score that a rule, a function of the question with its tags and of the reply,
    returns.
    """

    rule: Right

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        return [
            tally_of(question, context.metric, all_right([rights_of(question, self.rule)]))
            for question in questions
        ]


@reply_metric(unit="share", title="MTVQA", interval="mean")
def mtvqa(reply: str, references: Sequence[str]) -> float:
    """1 if the answer occurs in the reply, both in lower case and without full stops (MTVQA, arXiv 2405.11985)."""

    def plain(text: str) -> str:
        return text.strip().lower().replace(".", "")

    return float(plain(references[0]) in plain(reply))


MME = CategoryPoints(
    description="MME: accuracy and accuracy+ in percent, summed over categories (arXiv 2306.13394, section 2.3)",
    rows=(
        metric_row(
            "mme_perception",
            title="MME perception",
            unit="points",
            low=0.0,
            high=2000.0,
            interval="linearised",
            unparsed="wrong",
            undefined=_INCOMPLETE,
        ),
        metric_row(
            "mme_cognition",
            title="MME cognition",
            unit="points",
            low=0.0,
            high=800.0,
            interval="linearised",
            unparsed="wrong",
            undefined=_INCOMPLETE,
        ),
    ),
    compute=_mme,
    categories=PERCEPTION + COGNITION,
)
OCRBENCH = CategoryPoints(
    description="OCRBench: an answer occurs in the reply; the points are right answers of 1000 (arXiv 2305.07895)",
    rows=(
        share_row("ocrbench_match", "OCRBench match", interval="linearised"),
        metric_row(
            "ocrbench_points",
            title="OCRBench points",
            unit="points",
            low=0.0,
            high=1000.0,
            interval="linearised",
            undefined=_INCOMPLETE,
        ),
    ),
    compute=_ocrbench,
    per_question=("ocrbench_match",),
    categories=tuple(READING),
    rule=lambda spec: ocrbench_right,
)
WHOLE = "multi"
"""Ending of the tag `part` of a question that asks for a whole problem. The other parts are single steps."""


class ProblemsOfSteps(GroupedMetric, frozen=True, kw_only=True):
    """We-Math's metric: how models do on problems of several steps, compared with each of the steps asked alone.

    For example, a model may answer all steps correctly but not the whole problem. Confidence intervals treat the
    questions of one problem as one unit.
    """

    def tallies(
        self, questions: Sequence[AskedQuestion], context: ScoringContext
    ) -> list[QuestionCounts]:
        """Return the counts of each problem. A problem has several questions: the problem itself, and each of its
        steps.

        Which question is which is told by the tag `part`: it ends with `multi` for the problem itself.
        """
        rule = right_answer_rule(context.benchmark)
        problems: dict[str, dict[str, AskedQuestion]] = defaultdict(dict)
        for question in questions:
            part = question.sample.tags.get("part", "")
            problems[question.sample.group][part] = question
        tallies = []
        for questions_by_part in problems.values():
            rights_by_part = {}
            for part, question in questions_by_part.items():
                rights_by_part[part] = rights_of(question, rule)
            first_question = next(iter(questions_by_part.values()))
            counts = _problem_counts(rights_by_part)
            tallies.append(tally_of(first_question, context.metric, counts))
        return tallies


def _problem_counts(rights_by_part: dict[str, Rights]) -> Counts | Unscored:
    """Return the counts of one problem of several steps: five shares over its presentations, then 1.0 for the problem.

    The shares are those of the presentations in which

    - the problem is wrong but all steps are right (insufficient generalisation),
    - the problem and a step are wrong (inadequate knowledge),
    - the problem and all steps are right (complete mastery by the strict standard),
    - the problem and at least one step are right (complete mastery by the loose standard),
    - the problem is right but a step is wrong (rote memorisation by the strict standard).

    Args:
        rights_by_part: For the problem and each of its steps, whether each presentation was answered correctly, or
            why that is unknown.

    Returns:
        The counts; the reason if a part or an answer is missing.
    """
    problem_rights = []
    step_rights = []
    for part, rights in rights_by_part.items():
        if part.endswith(WHOLE):
            problem_rights.append(rights)
        else:
            step_rights.append(rights)
    if len(problem_rights) != 1 or len(step_rights) < 2:
        return Unscored("metric undefined", "a problem was asked without all of its steps")
    # The problem and its steps in this order, in each presentation in which all have an answer.
    answered: list[Mapping[int, float]] = []
    for rights in (*problem_rights, *step_rights):
        if isinstance(rights, Unscored):
            return rights
        answered.append(rights)
    presentations = set.intersection(*(set(rights) for rights in answered))
    if not presentations:
        return Unscored(
            "metric undefined", "no presentation has an answer to a problem and all of its steps"
        )
    verdicts = []
    for presentation in sorted(presentations):
        are_right = [bool(rights[presentation]) for rights in answered]
        verdicts.append(_verdict(are_right))
    means = [math.fsum(column) / len(verdicts) for column in zip(*verdicts, strict=True)]
    return (*means, 1.0)


def _verdict(is_right: Sequence[bool]) -> tuple[bool, ...]:
    problem, *steps = is_right
    return (
        not problem and all(steps),
        not problem and not all(steps),
        problem and all(steps),
        problem and any(steps),
        problem and not all(steps),
    )


def _wemath(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts of all problems into We-Math's results.

    Args:
        sums: The six sums of `_problem_counts`.

    Returns:
        The score by the strict and by the loose standard; the shares of problems with inadequate knowledge, with
        insufficient generalisation, and with complete mastery; and the share of rote memorisation among the
        problems that are right, which is None if none is right.
    """
    ungeneralised, unknown, mastered, mastered_loosely, rote, problems = sums
    return (
        (0.5 * ungeneralised + mastered) / problems,
        (0.5 * ungeneralised + mastered_loosely) / problems,
        unknown / problems,
        ungeneralised / problems,
        mastered / problems,
        rote / (mastered + rote) if mastered + rote else None,
    )


_NO_PROBLEM = "no problem of several steps is right"
WEMATH = ProblemsOfSteps(
    description="We-Math: a problem is mastered where it and each of its single steps are right (arXiv 2407.01284)",
    rows=(
        share_row(
            "wemath_strict", "We-Math score, strict", interval="linearised", unparsed="wrong"
        ),
        share_row(
            "wemath_loose",
            "We-Math score, loose: one right step suffices",
            interval="linearised",
            unparsed="wrong",
        ),
        share_row(
            "insufficient_knowledge",
            "problems wrong with a wrong step",
            interval="linearised",
            unparsed="wrong",
            better="lower",
        ),
        share_row(
            "inadequate_generalization",
            "problems wrong with all steps right",
            interval="linearised",
            unparsed="wrong",
            better="neither",
        ),
        share_row(
            "complete_mastery",
            "problems right with all steps right",
            interval="linearised",
            unparsed="wrong",
        ),
        share_row(
            "rote_memorization",
            "problems right with a wrong step, of those right",
            interval="linearised",
            unparsed="wrong",
            better="lower",
            undefined=_NO_PROBLEM,
        ),
    ),
    compute=_wemath,
    per_question=("wemath_strict",),
)


BOUNDS = range(50, 0, -5)
"""The error bounds 50, 45, ..., 5, in percent of the correct number."""


@reply_metric(unit="share", title="mean relative accuracy", interval="mean")
def mean_relative_accuracy(reply: str, references: Sequence[str]) -> float:
    """Mean relative accuracy of a number: the share of ten error bounds that it meets (VSI-Bench, section 3), in [0, 1].

    The bounds are 50 %, 45 %, ..., 5 % of the correct number. The value is 0 if the reply has no number, or several. Raises
    DataError if the reference is not one number other than 0.
    """
    gold_numbers = read_numbers(references[0])
    reply_numbers = read_numbers(reply)
    if len(gold_numbers) != 1 or not gold_numbers[0]:
        raise DataError(f"gold {references[0]!r} is not one number other than 0")
    if len(reply_numbers) != 1:
        return 0.0
    [gold] = gold_numbers
    [number] = reply_numbers
    error = abs(number - gold)
    n_met = sum(error * 100 <= bound * abs(gold) for bound in BOUNDS)
    return n_met / len(BOUNDS)
