"""Published scores that a judge gives: MIA-Bench, MM-MT-Bench, MM-Vet, Vibe-Eval, CharXiv, ChartMuseum, MathVista, SimpleVQA, WorldVQA and LLaVA-Bench."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from statistics import mean

from snellen.errors import DataError
from snellen.metrics.declaration import MetricRow, metric_row, share_row
from snellen.metrics.question_counts import Counts
from snellen.metrics.questions import AskedQuestion, Unscored
from snellen.protocols.prompts.role_prompts import load_judge_prompts
from snellen.protocols.verdict import RIGHT_OR_WRONG, Verdict
from snellen.scoring.judged_metrics import (
    JudgedMetric,
    Reduce,
    SummedMarks,
    grade_shares,
    unmarked_reason,
    valid_marks,
)
from snellen.suites.modern.readers import charxiv_questions

TENTHS = (0, 10)
LLAVA_MARKS = (1, 10)
MM_MT_BENCH_MARKS = (1, 10)
VIBE_EVAL_MARKS = (1, 5)
INCORRECT, NOT_ATTEMPTED, CORRECT = GRADES = (0, 1, 2)
"""What a judge of short facts says of a reply, as SimpleQA has it."""
CHARXIV_REASONING_PROMPTS = {
    "1": "charxiv-reasoning-published-1",
    "2": "charxiv-reasoning-published-2",
    "3": "charxiv-reasoning-published-3",
    "4": "charxiv-reasoning-published-3",
}
"""Versions by the kind of answer: text in the chart, text in general, number in the chart, number in general."""
_CHARXIV_RUBRICS = (
    (1,),
    (2, 3, 4, 5, 6, 7),
    (8, 9, 10, 12, 14, 15, 17, 19),
    (11,),
    (13,),
    (16,),
    (18,),
)
"""Numbers of the descriptive questions that are graded alike (princeton-nlp/CharXiv, src/descriptive_utils.py)."""
CHARXIV_DESCRIPTIVE_PROMPTS = {
    str(number): f"charxiv-descriptive-published-{index}"
    for index, numbers in enumerate(_CHARXIV_RUBRICS, 1)
    for number in numbers
}
_PROMPTS = load_judge_prompts("snellen.suites.modern")
MIA_BENCH_PROMPT = _PROMPTS["mia-bench-published-1"]
MME_COT_PRECISION_PROMPT = _PROMPTS["mme-cot-precision-1"]
MME_COT_RECALL_PROMPT = _PROMPTS["mme-cot-recall-1"]
MM_MT_BENCH_PROMPT = _PROMPTS["mm-mt-bench-1"]
MM_VET_PROMPT = _PROMPTS["mm-vet-published-1"]
VIBE_EVAL_PROMPT = _PROMPTS["vibe-eval-published-1"]
CHARXIV_TERM_PROMPT = _PROMPTS["charxiv-reasoning-published-1"]
CHARXIV_MEANING_PROMPT = _PROMPTS["charxiv-reasoning-published-2"]
CHARXIV_VALUE_PROMPT = _PROMPTS["charxiv-reasoning-published-3"]
CHARXIV_TITLE_PROMPT = _PROMPTS["charxiv-descriptive-published-1"]
CHARXIV_LABEL_PROMPT = _PROMPTS["charxiv-descriptive-published-2"]
CHARXIV_NUMBER_PROMPT = _PROMPTS["charxiv-descriptive-published-3"]
CHARXIV_YES_PROMPT = _PROMPTS["charxiv-descriptive-published-4"]
CHARXIV_LIST_PROMPT = _PROMPTS["charxiv-descriptive-published-5"]
CHARXIV_TREND_PROMPT = _PROMPTS["charxiv-descriptive-published-6"]
CHARXIV_LAYOUT_PROMPT = _PROMPTS["charxiv-descriptive-published-7"]
CHARTMUSEUM_PROMPT = _PROMPTS["chartmuseum-published-1"]
MATHVISTA_PROMPT = _PROMPTS["mathvista-1"]
SIMPLEVQA_PROMPT = _PROMPTS["simplevqa-published-1"]
WORLDVQA_PROMPT = _PROMPTS["worldvqa-1"]
LLAVA_BENCH_REPLY_PROMPT = _PROMPTS["llava-bench-reply-1"]
LLAVA_BENCH_REFERENCE_PROMPT = _PROMPTS["llava-bench-reference-1"]


def _mean_tenths_of(row: str) -> Reduce:
    """Return a function that turns the marks of judges (0 to 10) into one number from 0 to 1: the mean mark divided by
    10.

    Args:
        row: Name of the row of results that the number is stored under.
    """

    def mean_tenths(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
        marks = valid_marks(verdicts)
        if not marks:
            return unmarked_reason(verdicts)
        highest_mark = TENTHS[1]
        return {row: mean(marks) / highest_mark}

    return mean_tenths


_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_WEIGHT_SUBJECTS = {
    1: "first component is",
    2: "first and second component is each",
    3: "first second, and third component is each",
    4: "first second, third, and fourth component is each",
    5: "first second, third, fourth and fifth component is each",
}
"""How MIA-Bench's prompt names the components whose weights follow, by their number; the signs are the makers'."""


def mia_bench_slots(question: AskedQuestion) -> dict[str, str]:
    """Return MIA-Bench's sentences on the components of an instruction and on the points that each is worth.

    Raises DataError if the benchmark was built without the weights, or has none or more than five components.
    """
    notes = question.answer.judge_notes if question.answer else {}
    components = notes.get("components", ())
    weights = notes.get("weights", ())
    if len(components) not in _WEIGHT_SUBJECTS or len(weights) != len(components):
        raise DataError(
            f"{question.label}: MIA-Bench's judge needs one to five components and the weight of each; here are "
            f"{len(components)} components and {len(weights)} weights; build modern/mia-bench again, or use the metric judged_correct"
        )
    named = [
        f"the {ordinal} component is:' {component}'"
        for ordinal, component in zip(_ORDINALS, components, strict=False)
    ]
    points = weights[0]
    if len(weights) > 1:
        points = f"{', '.join(weights[:-1])} and {weights[-1]}"
    return {
        "components": "T" + ", and ".join(named)[1:],
        "weights": f"The {_WEIGHT_SUBJECTS[len(components)]} worth {points} scores.",
    }


def _mean_mark(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """Return the mean mark of MM-MT-Bench."""
    marks = valid_marks(verdicts)
    return {"mm_mt_bench": mean(marks)} if marks else unmarked_reason(verdicts)


def _scaled_mark(verdicts: list[list[Verdict]]) -> dict[str, float] | Unscored:
    """Return the mean mark of Vibe-Eval as a share: 0 for the lowest mark, 1 for the highest."""
    marks = valid_marks(verdicts)
    if not marks:
        return unmarked_reason(verdicts)
    lowest, highest = VIBE_EVAL_MARKS
    return {"vibe_eval": (mean(marks) - lowest) / (highest - lowest)}


def _reply_and_reference(verdicts: list[list[Verdict]]) -> Counts | Unscored:
    """Return the counts of a question whose judges marked both the reply and the reference answer.

    Args:
        verdicts: For each presentation of the question, first the marks that all judges gave to the reply, then
            those that they gave to the reference answer.

    Returns:
        Four numbers to be summed over questions: 1, the mean mark of the reply, 1, and the mean mark of the
        reference answer. If either has no valid mark, the reason.
    """
    reply_verdicts: list[list[Verdict]] = []
    reference_verdicts: list[list[Verdict]] = []
    for presentation_verdicts in verdicts:
        n_judges = len(presentation_verdicts) // 2
        reply_verdicts.append(presentation_verdicts[:n_judges])
        reference_verdicts.append(presentation_verdicts[n_judges:])
    reply_marks = valid_marks(reply_verdicts)
    reference_marks = valid_marks(reference_verdicts)
    if not reply_marks or not reference_marks:
        all_verdicts = chain.from_iterable(verdicts)
        reason = next(verdict.outcome for verdict in all_verdicts if verdict.value is None)
        return Unscored("no verdict", reason)
    return 1.0, mean(reply_marks), 1.0, mean(reference_marks)


def _llava_means(sums: Counts) -> tuple[float | None, ...]:
    """Turn the summed counts of all questions into the three scores of LLaVA-Bench.

    They are the mean mark of replies, the mean mark of reference answers, and the first in percent of the second.
    The published score is the third (haotian-liu/LLaVA, llava/eval/summarize_gpt_review.py).

    Args:
        sums: The number of replies, the sum of their marks, the number of reference answers, and the sum of their
            marks.

    Returns:
        The scores; None for each that has no marks.
    """
    n_replies, reply_marks, n_references, reference_marks = sums
    reply_mean = reply_marks / n_replies if n_replies else None
    if not n_references:
        return reply_mean, None, None
    reference_mean = reference_marks / n_references
    relative = None if reply_mean is None else 100 * reply_mean / reference_mean
    return reply_mean, reference_mean, relative


def _llava_marks(name: str, title: str, **declared: str) -> MetricRow:
    low, high = LLAVA_MARKS
    return metric_row(
        name,
        title=title,
        unit="points",
        low=float(low),
        high=float(high),
        interval="linearised",
        **declared,
    )


def _charxiv_prompt(question: AskedQuestion, prompts: Mapping[str, str]) -> str:
    """Return which version of CharXiv's prompt a judge gets for a question, by the question's tag `kind`.

    Args:
        question: The question.
        prompts: The name of the version for each value of the tag.

    Raises:
        DataError: The question lacks the tag, or has a value that CharXiv has no prompt for.
    """
    kind = question.sample.tags.get("kind", "")
    if kind not in prompts:
        known = ", ".join(prompts)
        raise DataError(
            f"{question.label}: CharXiv's judge has rules for each kind of question, but this one has kind {kind!r}; "
            f"give it a tag kind (a column tag_kind) with one of {known}, or use the metric judged_correct"
        )
    return prompts[kind]


def _right_or_wrong(name: str, title: str, version: str, what: str) -> JudgedMetric:
    return JudgedMetric(
        description=what,
        rows=(share_row(name, title),),
        versions=lambda question: [version],
        reduce=grade_shares({name: RIGHT_OR_WRONG[1]}),
        scale=RIGHT_OR_WRONG,
    )


def _short_facts(name: str, title: str, version: str) -> JudgedMetric:
    """Declare a metric whose judge grades each reply as correct, incorrect or not attempted (no answer was given).

    Args:
        name: Name of the metric and of the row with the share of correct replies. The rows with the other two
            shares are `NAME_incorrect` and `NAME_not_attempted`.
        title: Title of the benchmark.
        version: Version of the judge's prompt.
    """
    wrong = f"{name}_incorrect"
    unattempted = f"{name}_not_attempted"
    return JudgedMetric(
        description=f"shares of replies that a judge finds correct, incorrect and not attempted ({title})",
        rows=(
            share_row(name, title),
            share_row(wrong, f"{title}, incorrect", better="lower", scale=""),
            share_row(unattempted, f"{title}, not attempted", better="neither", scale=""),
        ),
        versions=lambda question: [version],
        reduce=grade_shares({name: CORRECT, wrong: INCORRECT, unattempted: NOT_ATTEMPTED}),
        scale=(GRADES[0], GRADES[-1]),
    )


MIA_BENCH = JudgedMetric(
    description="how much of an instruction a reply follows, from 0 to 1 in tenths, by a judge with the published prompt (MIA-Bench)",
    rows=(share_row("mia_bench", "MIA-Bench"),),
    versions=lambda question: ["mia-bench-published-1"],
    reduce=_mean_tenths_of("mia_bench"),
    scale=TENTHS,
    slots=mia_bench_slots,
)
MM_MT_BENCH = JudgedMetric(
    description="mean mark from 1 to 10 of replies in conversations, by a judge that knows the reference (MM-MT-Bench)",
    rows=(
        metric_row(
            "mm_mt_bench",
            title="MM-MT-Bench",
            unit="points",
            low=float(MM_MT_BENCH_MARKS[0]),
            high=float(MM_MT_BENCH_MARKS[1]),
        ),
    ),
    versions=lambda question: ["mm-mt-bench-1"],
    reduce=_mean_mark,
    scale=MM_MT_BENCH_MARKS,
)
MM_VET = JudgedMetric(
    description="how right a reply is, from 0 to 1 in tenths, by a judge that knows the reference (MM-Vet)",
    rows=(share_row("mm_vet", "MM-Vet"),),
    versions=lambda question: ["mm-vet-published-1"],
    reduce=_mean_tenths_of("mm_vet"),
    scale=TENTHS,
)
VIBE_EVAL = JudgedMetric(
    description="how well a reply matches the reference, 0 for a mark of 1 and 100% for 5, by a judge with the published prompt (Vibe-Eval)",
    rows=(share_row("vibe_eval", "Vibe-Eval"),),
    versions=lambda question: ["vibe-eval-published-1"],
    reduce=_scaled_mark,
    scale=VIBE_EVAL_MARKS,
)
CHARXIV_REASONING = JudgedMetric(
    description="share of final answers that are the reference's term, meaning or number, by a judge with the published prompts (CharXiv)",
    rows=(share_row("charxiv_reasoning", "CharXiv, reasoning, judged"),),
    versions=lambda question: [_charxiv_prompt(question, CHARXIV_REASONING_PROMPTS)],
    reduce=grade_shares({"charxiv_reasoning": RIGHT_OR_WRONG[1]}),
    scale=RIGHT_OR_WRONG,
)
CHARXIV_DESCRIPTIVE = JudgedMetric(
    description="share of final answers that are the reference's under the rules of their kind of question, by a judge with the published prompts (CharXiv)",
    rows=(share_row("charxiv_descriptive", "CharXiv, descriptive, judged"),),
    versions=lambda question: [_charxiv_prompt(question, CHARXIV_DESCRIPTIVE_PROMPTS)],
    reduce=grade_shares({"charxiv_descriptive": RIGHT_OR_WRONG[1]}),
    scale=RIGHT_OR_WRONG,
    shown_question=lambda question: charxiv_questions("graded")[question.sample.tags["kind"]],
)
CHARTMUSEUM = _right_or_wrong(
    "chartmuseum",
    "ChartMuseum",
    "chartmuseum-published-1",
    "share of final answers that are equivalent to the reference's, by a judge with the published prompt (ChartMuseum)",
)
MATHVISTA = _right_or_wrong(
    "mathvista",
    "MathVista, open questions, judged",
    "mathvista-1",
    "share of open replies whose final answer, as a judge reads it, has the reference's value (MathVista)",
)
SIMPLEVQA = _short_facts("simplevqa", "SimpleVQA", "simplevqa-published-1")
WORLDVQA = _short_facts("worldvqa", "WorldVQA", "worldvqa-1")
LLAVA_BENCH = SummedMarks(
    description="mean marks from 1 to 10 of replies and of their references by a judge that is shown both, and their ratio (LLaVA-Bench)",
    rows=(
        _llava_marks("llava_bench", "LLaVA-Bench, mark of the reply"),
        _llava_marks(
            "llava_bench_reference",
            "LLaVA-Bench, mark of the reference",
            better="neither",
            undefined="no reference has a mark",
        ),
        metric_row(
            "llava_bench_relative",
            title="LLaVA-Bench, reply relative to the reference",
            unit="percent",
            low=100.0 * LLAVA_MARKS[0] / LLAVA_MARKS[1],
            high=100.0 * LLAVA_MARKS[1] / LLAVA_MARKS[0],
            interval="linearised",
            undefined="no reference has a mark",
        ),
    ),
    versions=lambda question: ["llava-bench-reply-1", "llava-bench-reference-1"],
    count=_reply_and_reference,
    compute=_llava_means,
    per_question=("llava_bench", "llava_bench_reference"),
    never_answered=(1.0, float(LLAVA_MARKS[0]), 0.0, 0.0),
    scale=LLAVA_MARKS,
    decimals=True,
)
