"""Why two results on the same questions differ: a cause for each question, and a bridge from one number to the other.

Causes are told by evidence, in the order of `CAUSES`: what was asked comes before what was replied, and that before how
a reply was read. Where the records do not have what would tell two causes apart, the cause says so.

The bridge is exact: with v the verdicts on the n questions that both have, the step of a cause is the sum of v_B - v_A
over its questions, divided by n; the questions that only one side has are the first and the last step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Literal

from msgspec import Struct

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
    "right answer": "another right answer",
    "options": "other options",
    "prompt": "another prompt",
    "option order": "options in another order",
    "image": "another image",
    "decoding": "other settings of decoding",
    "cut reply": "a reply that ends early",
    "failed request": "a request that failed",
    "reply": "another reply to the same input",
    "reply, input not recorded": "another reply; whether the input differs is not recorded",
    "random fallback": "an option drawn at random where the reply names none",
    "reading": "the same reply, read otherwise",
    "judge": "the same reply, judged by another judge",
    "metric": "the same reply and reading, by another metric",
    "metric or judge": "the same reply; what was read in it is not recorded",
}
"""All causes in words, in the order in which they are looked for."""


class ReconciledItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one side has on a question. Empty texts and None mean that it is not recorded."""

    id: str = ""
    question: str = ""
    prompt: str = ""
    """All that the model was shown."""
    options: tuple[str, ...] = ()
    """In the order shown."""
    golds: tuple[str, ...] = ()
    """Right options as texts, or the accepted texts."""
    image: str = ""
    decoding: str = ""
    """Settings of decoding, in a fixed order."""
    reply: str | None = None
    """None if no reply came."""
    is_cut: bool = False
    """Whether the reply is known to end at a limit of its length."""
    reading: str | None = None
    """What the side read in the reply: the text of an option, or an answer; None if that is not recorded."""
    is_drawn: bool = False
    """Whether the side drew an option at random, since its rule finds none in the reply."""
    judge: str = ""
    metric: str = ""
    verdict: Fraction
    """How right it counts, from 0 to 1."""
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
    """A step of the bridge from the first number to the second."""

    cause: str
    """A key of `CAUSES`, or which questions it is about."""
    words: str
    questions: int
    gained: int
    """Questions with a higher verdict on the second side."""
    lost: int
    change: Fraction
    """What it adds to the number."""


class Reconciliation(Struct, frozen=True):
    """Two results, the bridge between them, and the questions behind each step."""

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
    """Join the items of two sides, find the cause of each different verdict, and make the bridge.

    Raises ValueError if the sides share no question.
    """
    pairs, only_first, only_second = joined_items(first, second)
    if not pairs:
        raise ValueError("the two results have no question in common")
    differences: list[Difference] = []
    hidden = 0
    for name, one, other in pairs:
        if one.verdict != other.verdict:
            differences.append(Difference(name, cause_of(one, other), one, other))
        elif one.reply != other.reply or one.reading != other.reading:
            hidden += 1
    common = len(pairs)
    first_number = _mean(first)
    second_number = _mean(second)
    first_common = _mean([one for _, one, _ in pairs])
    second_common = _mean([other for _, _, other in pairs])
    steps = [
        _side_step("only in the first", only_first, first_common - first_number),
        *_cause_steps(differences, common),
        _side_step("only in the second", only_second, second_number - second_common),
    ]
    return Reconciliation(
        *labels,
        first_number,
        second_number,
        common,
        len(only_first),
        len(only_second),
        tuple(step for step in steps if step.questions),
        tuple(differences),
        hidden,
    )


def _mean(items: Sequence[ReconciledItem]) -> Fraction:
    return sum((item.verdict for item in items), Fraction(0)) / len(items) if items else Fraction(0)


def _side_step(cause: str, items: Sequence[ReconciledItem], change: Fraction) -> BridgeStep:
    words = f"questions {cause} result"
    return BridgeStep(cause, words, len(items), 0, 0, change)


def _cause_steps(differences: Iterable[Difference], common: int) -> list[BridgeStep]:
    by_cause: dict[Cause, list[Difference]] = defaultdict(list)
    for difference in differences:
        by_cause[difference.cause].append(difference)
    steps: list[BridgeStep] = []
    for cause, words in CAUSES.items():
        members = by_cause.get(cause, [])
        changes = [difference.change for difference in members]
        gained = sum(change > 0 for change in changes)
        total = sum(changes, Fraction(0)) / common
        steps.append(BridgeStep(cause, words, len(members), gained, len(members) - gained, total))
    return steps


# --- joining ----------------------------------------------------------------------------------------------------------------


def folded_text(text: str) -> str:
    """A text without what harnesses change: blanks, capitals, marks for images, a final full stop or question mark."""
    plain = text.replace("<image>", " ").replace("<image 1>", " ")
    return " ".join(plain.split()).casefold().rstrip(".?").rstrip()


Pair = tuple[str, ReconciledItem, ReconciledItem]


def joined_items(
    first: Sequence[ReconciledItem], second: Sequence[ReconciledItem]
) -> tuple[list[Pair], list[ReconciledItem], list[ReconciledItem]]:
    """Join items by their ids if these agree, or else by the text, options and image of their questions.

    Returns the pairs with their names, and the items that only one side has.
    """
    by_id = {item.id: item for item in second if item.id}
    shared = sum(bool(item.id) and item.id in by_id for item in first)
    ids_agree = 0
    for item in first:
        other = by_id.get(item.id) if item.id else None
        if other is not None and _may_be_same(item, other):
            ids_agree += 1
    if shared and 2 * ids_agree > shared and 2 * shared > min(len(first), len(second)):
        return _joined_by(first, second, lambda item: (item.id,) if item.id else ())
    return _joined_by(first, second, _content_key)


def _may_be_same(one: ReconciledItem, other: ReconciledItem) -> bool:
    """Whether two items of one id may be the same question: neither text, or one text is within the other's."""
    texts = [folded_text(item.question or item.prompt) for item in (one, other)]
    if not all(texts):
        return True
    return texts[0] in texts[1] or texts[1] in texts[0] or set(one.options) == set(other.options)


def _content_key(item: ReconciledItem) -> tuple[object, ...]:
    text = folded_text(item.question or item.prompt)
    if not text:
        return ()
    return text, frozenset(map(folded_text, item.options)), item.image.rpartition("/")[2]


def _joined_by(
    first: Sequence[ReconciledItem],
    second: Sequence[ReconciledItem],
    key: Callable[[ReconciledItem], tuple[object, ...]],
) -> tuple[list[Pair], list[ReconciledItem], list[ReconciledItem]]:
    """Join items by a key; those without one, and those whose key the other side lacks, are of one side alone."""
    waiting: dict[tuple[object, ...], list[ReconciledItem]] = defaultdict(list)
    only_second: list[ReconciledItem] = []
    for item in second:
        own_key = key(item)
        if own_key:
            waiting[own_key].append(item)
        else:
            only_second.append(item)
    pairs: list[Pair] = []
    only_first: list[ReconciledItem] = []
    for number, item in enumerate(first, 1):
        candidates = waiting.get(key(item), []) if key(item) else []
        if candidates:
            pairs.append((item.id or f"row {number}", item, candidates.pop(0)))
        else:
            only_first.append(item)
    for left in waiting.values():
        only_second += left
    return pairs, only_first, only_second


# --- causes -----------------------------------------------------------------------------------------------------------------


def cause_of(one: ReconciledItem, other: ReconciledItem) -> Cause:
    """Return why two sides give different verdicts on a question, by the first evidence in the order of `CAUSES`."""
    input_cause = _input_cause(one, other)
    if input_cause is not None:
        return input_cause
    if (one.reply is None) != (other.reply is None):
        return "failed request"
    if _reply_text(one) != _reply_text(other):
        return _reply_cause(one, other)
    return _scoring_cause(one, other)


def _input_cause(one: ReconciledItem, other: ReconciledItem) -> Cause | None:
    """What of the question or its input differs; None if nothing does that is recorded on both sides."""
    options = [frozenset(map(folded_text, item.options)) for item in (one, other)]
    golds = [frozenset(map(folded_text, item.golds)) for item in (one, other)]
    if all(golds) and golds[0] != golds[1]:
        return "right answer"
    if all(options) and options[0] != options[1]:
        return "options"
    same_reply = one.reply is not None and _reply_text(one) == _reply_text(other)
    if same_reply:
        return None  # the same reply was scored, whatever was asked
    prompts = [folded_text(item.prompt) for item in (one, other)]
    orders = [tuple(map(folded_text, item.options)) for item in (one, other)]
    other_order = all(orders) and orders[0] != orders[1]
    if all(prompts) and _without_options(prompts[0], orders[0]) != _without_options(
        prompts[1], orders[1]
    ):
        return "prompt"
    if other_order:
        return "option order"
    images = [item.image.rpartition("/")[2] for item in (one, other)]
    if all(images) and images[0] != images[1]:
        return "image"
    if one.decoding and other.decoding and one.decoding != other.decoding:
        return "decoding"
    return None


def _without_options(prompt: str, options: Sequence[str]) -> str:
    """A prompt without the texts of its options, whose order may differ."""
    for option in sorted(options, key=len, reverse=True):
        prompt = prompt.replace(option, "")
    return " ".join(prompt.split())


def _reply_text(item: ReconciledItem) -> str:
    return " ".join((item.reply or "").split())


def _reply_cause(one: ReconciledItem, other: ReconciledItem) -> Cause:
    shorter, longer = sorted((_reply_text(one), _reply_text(other)), key=len)
    is_beginning = bool(shorter) and longer.startswith(shorter)
    if is_beginning or one.is_cut != other.is_cut:
        return "cut reply"
    is_recorded = all(item.prompt or (item.question and item.options) for item in (one, other))
    has_decoding = bool(one.decoding and other.decoding)
    return "reply" if is_recorded and has_decoding else "reply, input not recorded"


def _scoring_cause(one: ReconciledItem, other: ReconciledItem) -> Cause:
    """Why the same reply has two verdicts."""
    readings = [item.reading for item in (one, other)]
    if readings[0] is not None and readings[1] is not None:
        if folded_text(readings[0]) != folded_text(readings[1]):
            return "random fallback" if one.is_drawn or other.is_drawn else "reading"
        if one.judge != other.judge:
            return "judge"
        return "metric"
    if one.judge != other.judge and (one.judge or other.judge):
        return "judge"
    return "metric or judge"


# --- aggregation ------------------------------------------------------------------------------------------------------------


def guess_aggregation(
    items: Sequence[ReconciledItem], reported: float, tolerance: float = 0.006
) -> str:
    """Return how verdicts are aggregated to a reported number in percent; empty if no known way gives it."""
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
    for words, value in candidates.items():
        if abs(float(value) * 100 - reported) <= tolerance:
            return words
    return ""
