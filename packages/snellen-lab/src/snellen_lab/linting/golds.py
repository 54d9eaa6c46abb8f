"""Checks of the right answers: how often each position, label and text is the right one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from snellen.plugin_api import (
    LintMaterial,
    LintQuestion,
    estimate_mean,
    fold_text,
)
from snellen_lab.linting.material import (
    SIGNIFICANCE_LEVEL,
    Finding,
    Severity,
    estimate_text,
    first_examples,
    rule_finding,
)
from snellen_lab.linting.uniformity import uniformity_p_value

MAX_LISTED_CELLS = 8
MAX_LISTED_TEXTS = 5
SKEWED_RATIO = 1.5
"""Ratio to chance from which the most frequent position or label is a serious finding."""
CONSTANT_REPLY_LIMIT = 0.25
"""Accuracy of a constant reply above which it is a warning."""


def gold_positions(material: LintMaterial) -> Iterator[Finding]:
    """Check whether each position, and each label, is right equally often.

    Questions are compared with others that have the same number of options.
    """
    questions_by_size: dict[int, list[LintQuestion]] = defaultdict(list)
    for question in material.choices:
        if len(question.gold) == 1:
            questions_by_size[len(question.options)].append(question)

    for n_options, questions in sorted(questions_by_size.items()):
        orders = {question.folded for question in questions}
        if len(orders) > 1:
            positions = [f"place {index + 1}" for index in range(n_options)]
            right_positions = [question.gold[0] for question in questions]
            yield _evenness("gold-position", questions, right_positions, positions)

        label_sets = {frozenset(order) for order in orders}
        if len(label_sets) == 1:
            [labels] = label_sets
            ordered_labels = sorted(labels)
            right_labels = []
            for question in questions:
                right_text = question.folded[question.gold[0]]
                right_labels.append(ordered_labels.index(right_text))
            yield _evenness("label-balance", questions, right_labels, ordered_labels)


def _evenness(
    check: str, questions: Sequence[LintQuestion], right: Sequence[int], cells: Sequence[str]
) -> Finding:
    """Return a finding on whether right options are distributed evenly.

    Args:
        check: Name of the check.
        questions: The questions.
        right: For each question, the index in `cells` of its right option.
        cells: The names of the positions or labels.
    """
    counts = Counter(right)
    n_cells = len(cells)
    p = uniformity_p_value([counts[index] for index in range(n_cells)], check)
    favourite, n_favourite = counts.most_common(1)[0]

    severity: Severity
    if p >= SIGNIFICANCE_LEVEL:
        severity = "note"
    elif n_favourite >= SKEWED_RATIO * len(right) / n_cells:
        severity = "serious"
    else:
        severity = "warning"

    listed = [f"{cells[index]} {count:,}" for index, count in counts.most_common(MAX_LISTED_CELLS)]
    if len(counts) > MAX_LISTED_CELLS:
        listed.append("...")
    message = f"of {n_cells} options the answer is {', '.join(listed)}; p = {p:.2g} if all were equally likely"
    examples: tuple[str, ...] = ()
    if severity != "note":
        favourite_questions = []
        for question, cell in zip(questions, right, strict=True):
            if cell == favourite:
                favourite_questions.append(question.id)
        examples = first_examples(favourite_questions)
    return Finding(
        check,
        severity,
        message,
        n_favourite,
        len(right),
        examples,
        chance=1 / n_cells,
        p=p,
    )


def majority_answer(material: LintMaterial) -> Iterator[Finding]:
    """Measure the accuracy of always choosing what is most often right in other questions.

    This is done for questions with options, and separately for open questions.
    """
    choices = material.choices
    if choices:
        right_in_fold = [Counter[str]() for _ in range(LintQuestion.n_folds)]
        for question in choices:
            right_texts = [question.folded[index] for index in question.gold]
            right_in_fold[question.fold].update(right_texts)

        # A whole fold is left out. If only the question itself were, then of two balanced labels the other would always lead.
        right_elsewhere = []
        for fold in range(LintQuestion.n_folds):
            counts = Counter[str]()
            for other_fold in range(LintQuestion.n_folds):
                if other_fold != fold:
                    counts.update(right_in_fold[other_fold])
            right_elsewhere.append(counts)

        values = []
        for question in choices:
            chosen = _most_frequent_options(question, right_elsewhere[question.fold])
            values.append(question.expected_accuracy(chosen))
        yield rule_finding(
            "majority-answer", "the option most often correct for other images", choices, values
        )

    open_questions = [
        question for question in material.questions if not question.options and question.texts
    ]
    if open_questions:
        yield _constant_reply(open_questions)


def _most_frequent_options(question: LintQuestion, frequency: Counter[str]) -> list[int]:
    """Return the indices of the options whose text has the highest count in `frequency`."""
    counts = [frequency[text] for text in question.folded]
    highest = max(counts)
    return [index for index, count in enumerate(counts) if count == highest]


def _constant_reply(questions: Sequence[LintQuestion]) -> Finding:
    """Measure the accuracy of the one reply that most open questions accept."""
    accepted_texts = [{fold_text(text) for text in question.texts} for question in questions]
    frequency: Counter[str] = Counter()
    for texts in accepted_texts:
        frequency.update(texts)
    # If several texts are equally frequent, the first in alphabetical order is taken, because sets have no fixed order.
    highest_frequency = max(frequency.values())
    reply = min(text for text, count in frequency.items() if count == highest_frequency)

    values = []
    right_ids = []
    for question, texts in zip(questions, accepted_texts, strict=True):
        values.append(float(reply in texts))
        if reply in texts:
            right_ids.append(question.id)
    estimate = estimate_mean(values, [question.group for question in questions])
    is_warning = (estimate.low or 0) > CONSTANT_REPLY_LIMIT
    return Finding(
        "constant-reply",
        "warning" if is_warning else "note",
        f"always replying {reply!r} scores {estimate_text(estimate)}",
        len(right_ids),
        len(questions),
        first_examples(right_ids) if is_warning else (),
        estimate,
    )


class _TextRecord:
    """How often an option text was right and wrong, and the probability of always or never right."""

    def __init__(self) -> None:
        self.right = 0
        self.wrong = 0
        self.log_p_always_right = 0.0
        self.log_p_never_right = 0.0


def always_or_never_right(material: LintMaterial) -> Iterator[Finding]:
    """Find option texts that are right in all questions, or in none, which chance does not explain."""
    choices = [question for question in material.choices if len(question.gold) == 1]
    records: dict[str, _TextRecord] = defaultdict(_TextRecord)
    for question in choices:
        for index, text in enumerate(question.folded):
            record = records[text]
            if index in question.gold:
                record.right += 1
            else:
                record.wrong += 1
            record.log_p_always_right += math.log(question.chance)
            record.log_p_never_right += math.log1p(-question.chance)

    # Bonferroni: among many texts, some are always right by chance.
    bound = math.log(SIGNIFICANCE_LEVEL / max(1, len(records)))
    always_right = set()
    never_right = set()
    for text, record in records.items():
        if not record.wrong and record.log_p_always_right < bound:
            always_right.add(text)
        if not record.right and record.log_p_never_right < bound:
            never_right.add(text)
    if always_right:
        yield _constant_texts_finding("always-right", always_right, "right", choices)
    if never_right:
        yield _constant_texts_finding("never-right", never_right, "wrong", choices)


def _constant_texts_finding(
    check: str, texts: Collection[str], word: str, choices: Sequence[LintQuestion]
) -> Finding:
    """Return a finding about option texts that are always right, or always wrong."""
    question_ids = []
    for question in choices:
        if not set(texts).isdisjoint(question.folded):
            question_ids.append(question.id)
    listed = [repr(text) for text in sorted(texts)[:MAX_LISTED_TEXTS]]
    if len(texts) > MAX_LISTED_TEXTS:
        listed.append("...")
    message = (
        f"offer one of {len(texts):,} texts that are {word} wherever they are offered: "
        f"{', '.join(listed)}"
    )
    severity: Severity = "serious" if 2 * len(question_ids) > len(choices) else "warning"
    examples = first_examples(question_ids)
    return Finding(check, severity, message, len(question_ids), len(choices), examples)
