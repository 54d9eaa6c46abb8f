"""Explain why two results on the same questions differ: a cause for each question, and a bridge between the numbers.

The cause of a question is the first difference in the records, in the order of `CAUSES`: differences of the input come
before those of the reply, and these before those of its scoring. If the records cannot tell two causes apart, the cause
names both.

The bridge is exact. Let v be the verdicts on the n questions that both sides have. The step of a cause is the sum of
v_B - v_A over its questions, divided by n. The first and the last step are the questions that only one side has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct, field

Cause = Literal[
    "right answer",
    "options",
    "prompt",
    "option order",
    "image",
    "decoding",
    "cut reply",
    "failed request",
    "reply",
    "reply, input not recorded",
    "random fallback",
    "reading",
    "judge",
    "metric",
    "metric or judge",
]

CAUSES: dict[Cause, str] = {
    "right answer": "another correct answer",
    "options": "other options",
    "prompt": "another prompt",
    "option order": "options in another order",
    "image": "another image",
    "decoding": "other settings of decoding",
    "cut reply": "a truncated reply",
    "failed request": "a request that failed",
    "reply": "another reply to the same input",
    "reply, input not recorded": "another reply; whether the input differs is not recorded",
    "random fallback": "an option drawn at random, because the reply names none",
    "reading": "the same reply, read differently",
    "judge": "the same reply, judged by another judge",
    "metric": "the same reply and reading, scored by another metric",
    "metric or judge": "the same reply; its extracted answer is not recorded",
}
"""Descriptions of the causes, in the order in which they are checked."""


class ReconciledItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record that one side has of a question. Empty texts and None mean "not recorded"."""

    id: str = ""
    question: str = ""
    prompt: str = ""
    """The complete prompt."""
    options: tuple[str, ...] = ()
    """Option texts in the order shown."""
    correct_answers: tuple[str, ...] = ()
    """Texts of the correct options, or the accepted answers."""
    image: str = ""
    decoding: str = ""
    """Settings of decoding, in a fixed order."""
    reply: str | None = None
    """None if the request failed."""
    is_cut: bool = False
    """Whether the reply was cut off at the length limit."""
    reading: str | None = None
    """The option text or answer that the side extracted from the reply; None if not recorded."""
    is_drawn: bool = False
    """Whether the side chose an option at random because it found none in the reply."""
    judge: str = ""
    metric: str = ""
    verdict: Fraction
    """The score of the question, from 0 to 1."""
    category: str = ""


class Difference(Struct, frozen=True):
    """A question on which the verdicts of two sides differ, and why."""

    name: str
    cause: Cause
    first: ReconciledItem
    second: ReconciledItem

    @property
    def change(self) -> Fraction:
        """The second verdict less the first."""
        return self.second.verdict - self.first.verdict


class BridgeStep(Struct, frozen=True):
    """A step from the first number to the second: by how much one cause changes the number."""

    cause: str
    """A key of `CAUSES`, or `only in the first` or `only in the second`."""
    description: str
    questions: int
    gains: int = field(name="gained")
    """Questions with a higher verdict on the second side."""
    losses: int = field(name="lost")
    change: Fraction
    """Change of the number in this step."""


class Reconciliation(Struct, frozen=True):
    """Two evaluation results, the steps that lead from one number to the other, and the questions behind each step."""

    first_label: str
    second_label: str
    first_number: Fraction
    second_number: Fraction
    common: int
    """Questions that both have."""
    only_first: int
    only_second: int
    steps: tuple[BridgeStep, ...]
    differences: tuple[Difference, ...]
    same_verdict_other_reading: int = 0
    """Questions with equal verdicts whose replies or readings differ."""
    notes: tuple[str, ...] = ()


def reconcile(
    first: Sequence[ReconciledItem],
    second: Sequence[ReconciledItem],
    labels: tuple[str, str] = ("A", "B"),
) -> Reconciliation:
    """Explain why two evaluations of the same questions give different numbers.

    The records of both are joined by question. For each question on which they give different verdicts, the cause is
    found, such as another prompt. The difference of the two numbers is then split into steps, one for each cause.

    Raises:
        ValueError: The sides do not share any question.

    Examples:
        >>> from snellen.plugin_api import side_of_file
        >>> row = {"question": "What is it?", "A": "cat", "B": "dog", "answer": "B", "id": "q1"}
        >>> for name, reply, hit in (("one.jsonl", "B", 1), ("two.jsonl", "A", 0)):
        ...     _ = Path(name).write_text(json.dumps({**row, "prediction": reply, "hit": hit}))
        >>> first, second = side_of_file(Path("one.jsonl")), side_of_file(Path("two.jsonl"))
        >>> found = reconcile(first.items, second.items)
        >>> float(found.first_number), float(found.second_number)
        (1.0, 0.0)
    """
    joined, only_first, only_second = joined_items(first, second)
    if not joined:
        raise ValueError("the two results do not share any question")
    differences: list[Difference] = []
    n_read_differently = 0
    for name, first_item, second_item in joined:
        if first_item.verdict != second_item.verdict:
            cause = cause_of(first_item, second_item)
            differences.append(Difference(name, cause, first_item, second_item))
        elif first_item.reply != second_item.reply or first_item.reading != second_item.reading:
            n_read_differently += 1
    n_common = len(joined)
    first_number = _mean(first)
    second_number = _mean(second)
    first_common = _mean([first_item for _, first_item, _ in joined])
    second_common = _mean([second_item for _, _, second_item in joined])
    steps = [
        _side_step("only in the first", only_first, first_common - first_number),
        *_cause_steps(differences, n_common),
        _side_step("only in the second", only_second, second_number - second_common),
    ]
    first_label, second_label = labels
    return Reconciliation(
        first_label=first_label,
        second_label=second_label,
        first_number=first_number,
        second_number=second_number,
        common=n_common,
        only_first=len(only_first),
        only_second=len(only_second),
        steps=tuple(step for step in steps if step.questions),
        differences=tuple(differences),
        same_verdict_other_reading=n_read_differently,
    )


def _mean(items: Sequence[ReconciledItem]) -> Fraction:
    """Return the exact mean verdict; 0 without items."""
    if not items:
        return Fraction(0)
    return sum((item.verdict for item in items), Fraction(0)) / len(items)


def _side_step(cause: str, items: Sequence[ReconciledItem], change: Fraction) -> BridgeStep:
    """Return the step of the questions that only one side has."""
    return BridgeStep(
        cause=cause,
        description=f"questions {cause} result",
        questions=len(items),
        gains=0,
        losses=0,
        change=change,
    )


def _cause_steps(differences: Iterable[Difference], n_common: int) -> list[BridgeStep]:
    """Compute how much each cause contributes to the difference between two evaluation results.

    Args:
        differences: The questions on which the results differ, each with its cause.
        n_common: The number of questions that both results have.

    Returns:
        One step for each possible cause, even if no question has it: how many questions became right or wrong, and the
        change of the mean.
    """
    by_cause: dict[Cause, list[Difference]] = defaultdict(list)
    for difference in differences:
        by_cause[difference.cause].append(difference)

    steps: list[BridgeStep] = []
    for cause, description in CAUSES.items():
        changes = [difference.change for difference in by_cause.get(cause, [])]
        n_gained = sum(change > 0 for change in changes)
        n_lost = len(changes) - n_gained
        total_change = sum(changes, Fraction(0)) / n_common
        step = BridgeStep(
            cause=cause,
            description=description,
            questions=len(changes),
            gains=n_gained,
            losses=n_lost,
            change=total_change,
        )
        steps.append(step)
    return steps


# --- joining ----------------------------------------------------------------------------------------------------------------


def folded_text(text: str) -> str:
    """Return a text without the details in which evaluation harnesses differ, so that two texts can be compared.

    Line breaks and repeated spaces become one space, capital letters become small, and image placeholders and a final
    full stop or question mark are removed.
    """
    for placeholder in ("<image>", "<image 1>"):
        text = text.replace(placeholder, " ")
    with_single_spaces = " ".join(text.split())
    return with_single_spaces.casefold().rstrip(".?").rstrip()


Pair = tuple[str, ReconciledItem, ReconciledItem]


def joined_items(
    first: Sequence[ReconciledItem], second: Sequence[ReconciledItem]
) -> tuple[list[Pair], list[ReconciledItem], list[ReconciledItem]]:
    """Find the items of two evaluation results that are about the same question.

    They are joined by their identifiers if both results share more than half of these (of the smaller result), and if
    more than half of the shared ones have texts that may be the same question. Otherwise they are joined by the text,
    options and image of their questions.

    Returns:
        The pairs with their names, the items that only the first result has, and those that only the second one has.
    """
    second_by_id = {item.id: item for item in second if item.id}
    n_shared = 0
    n_agreeing = 0
    for item in first:
        if not item.id or item.id not in second_by_id:
            continue
        n_shared += 1
        if _may_be_same(item, second_by_id[item.id]):
            n_agreeing += 1
    shares_most_identifiers = n_shared > min(len(first), len(second)) / 2
    most_texts_agree = n_agreeing > n_shared / 2
    if shares_most_identifiers and most_texts_agree:
        return _joined_by(first, second, lambda item: (item.id,) if item.id else ())
    return _joined_by(first, second, _content_key)


def _may_be_same(first: ReconciledItem, second: ReconciledItem) -> bool:
    """Return whether two results with the same question identifier may be about the same question.

    They may be if one of the texts was not recorded, if one text contains the other, or if the options are the same.
    """
    first_text = folded_text(first.question or first.prompt)
    second_text = folded_text(second.question or second.prompt)
    if not first_text or not second_text:
        return True
    if first_text in second_text or second_text in first_text:
        return True
    return set(first.options) == set(second.options)


def _content_key(item: ReconciledItem) -> tuple[object, ...]:
    """Return what identifies a question by its content: text, options in any order, and file name of the image.

    Returns:
        An empty tuple if the text was not recorded.
    """
    text = folded_text(item.question or item.prompt)
    if not text:
        return ()
    options = frozenset(map(folded_text, item.options))
    file_name = item.image.rpartition("/")[2]
    return text, options, file_name


def _joined_by(
    first: Sequence[ReconciledItem],
    second: Sequence[ReconciledItem],
    key: Callable[[ReconciledItem], tuple[object, ...]],
) -> tuple[list[Pair], list[ReconciledItem], list[ReconciledItem]]:
    """Find the items of two evaluation results that have the same key.

    Items with an empty key are not joined. If several items have the same key, they are joined in their order.

    Returns:
        The pairs with their names, the items that only the first result has, and those that only the second one has.
    """
    unmatched_by_key: dict[tuple[object, ...], list[ReconciledItem]] = defaultdict(list)
    only_second: list[ReconciledItem] = []
    for item in second:
        item_key = key(item)
        if item_key:
            unmatched_by_key[item_key].append(item)
        else:
            only_second.append(item)
    pairs: list[Pair] = []
    only_first: list[ReconciledItem] = []
    for number, item in enumerate(first, 1):
        candidates = unmatched_by_key.get(key(item), [])
        if candidates:
            pairs.append((item.id or f"row {number}", item, candidates.pop(0)))
        else:
            only_first.append(item)
    for unmatched in unmatched_by_key.values():
        only_second += unmatched
    return pairs, only_first, only_second


# --- causes -----------------------------------------------------------------------------------------------------------------


def cause_of(first: ReconciledItem, second: ReconciledItem) -> Cause:
    """Return why two sides give different verdicts on a question: the first difference in the order of `CAUSES`."""
    input_cause = _input_cause(first, second)
    if input_cause is not None:
        return input_cause
    if (first.reply is None) != (second.reply is None):
        return "failed request"
    if _reply_text(first) != _reply_text(second):
        return _reply_cause(first, second)
    return _scoring_cause(first, second)


def _input_cause(first: ReconciledItem, second: ReconciledItem) -> Cause | None:
    """Return the first respect in which two evaluations of the same question had different input.

    Returns:
        A cause such as `prompt` or `option order`; None if everything that both sides recorded is the same.
    """
    items = (first, second)
    options = [frozenset(map(folded_text, item.options)) for item in items]
    correct_answers = [frozenset(map(folded_text, item.correct_answers)) for item in items]
    if all(correct_answers) and correct_answers[0] != correct_answers[1]:
        return "right answer"
    if all(options) and options[0] != options[1]:
        return "options"
    if first.reply is not None and _reply_text(first) == _reply_text(second):
        return None  # if the reply is the same, other differences of the input had no effect

    prompts = [folded_text(item.prompt) for item in items]
    orders = [tuple(map(folded_text, item.options)) for item in items]
    if all(prompts):
        first_frame = _without_options(prompts[0], orders[0])
        second_frame = _without_options(prompts[1], orders[1])
        if first_frame != second_frame:
            return "prompt"
    if all(orders) and orders[0] != orders[1]:
        return "option order"
    images = [item.image.rpartition("/")[2] for item in items]
    if all(images) and images[0] != images[1]:
        return "image"
    if first.decoding and second.decoding and first.decoding != second.decoding:
        return "decoding"
    return None


def _without_options(prompt: str, options: Sequence[str]) -> str:
    """Remove the option texts from a prompt, so that prompts with options in another order are equal."""
    for option in sorted(options, key=len, reverse=True):
        prompt = prompt.replace(option, "")
    return " ".join(prompt.split())


def _reply_text(item: ReconciledItem) -> str:
    return " ".join((item.reply or "").split())


def _reply_cause(first: ReconciledItem, second: ReconciledItem) -> Cause:
    """Return why two evaluations of the same question have different replies although their input is the same.

    A reply may be cut off at the token limit. Otherwise it is an ordinary difference; the cause also says if some of
    the input was not recorded, because that could differ too.
    """
    shorter, longer = sorted((_reply_text(first), _reply_text(second)), key=len)
    is_beginning = bool(shorter) and longer.startswith(shorter)
    if is_beginning or first.is_cut != second.is_cut:
        return "cut reply"
    for item in (first, second):
        has_input = item.prompt or (item.question and item.options)
        if not has_input or not item.decoding:
            return "reply, input not recorded"
    return "reply"


def _scoring_cause(first: ReconciledItem, second: ReconciledItem) -> Cause:
    """Return why the same reply was scored as right by one evaluation and as wrong by another.

    Either the answer was read differently from the reply (a random fallback is one that guesses if nothing can be
    read), or a different judge or metric scored it.
    """
    has_other_judge = first.judge != second.judge
    if first.reading is None or second.reading is None:
        return "judge" if has_other_judge else "metric or judge"
    if folded_text(first.reading) != folded_text(second.reading):
        used_fallback = first.is_drawn or second.is_drawn
        return "random fallback" if used_fallback else "reading"
    return "judge" if has_other_judge else "metric"


# --- aggregation ------------------------------------------------------------------------------------------------------------


def guess_aggregation(
    items: Sequence[ReconciledItem], reported: float, tolerance: float = 0.006
) -> str:
    """Find out how a reported number was computed from the verdicts on single questions.

    Three ways are tried: the mean over questions, the mean of the means over categories, and the mean over answered
    questions.

    Args:
        items: The questions with their verdicts.
        reported: The reported number, in percent.
        tolerance: How far a computed number may be from it, in percentage points.

    Returns:
        A description of the first way that gives the number; empty if there is none.
    """
    candidates = {"mean over questions": _mean(items)}
    by_category: dict[str, list[ReconciledItem]] = defaultdict(list)
    for item in items:
        by_category[item.category].append(item)
    if len(by_category) > 1:
        means = [_mean(members) for members in by_category.values()]
        candidates["mean of the means over categories"] = sum(means, Fraction(0)) / len(means)
    answered = [item for item in items if item.reply is not None]
    if answered and len(answered) < len(items):
        candidates["mean over answered questions"] = _mean(answered)

    for description, value in candidates.items():
        percent = float(value) * 100
        if abs(percent - reported) <= tolerance:
            return description
    return ""
