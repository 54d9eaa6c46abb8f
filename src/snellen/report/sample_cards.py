"""Prepare what a page shows of a question: the conversation, the options, the reading, the ground truth and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from snellen.metrics.declaration import SHARE, declared_row
from snellen.protocols.base import labelled_declaration
from snellen.protocols.prediction import holds_shares
from snellen.reasons import word_reason
from snellen.records import (
    IMPOSSIBLE,
    Answer,
    Exchange,
    ImagePart,
    ImageRef,
    Message,
    Prediction,
    Response,
    Score,
    Step,
    Variant,
)
from snellen.report.number_text import (
    DASH,
    capitalised,
    decimal_text,
    metric_meaning,
    metric_title,
    shorten,
)
from snellen.report.samples import Gallery, GalleryEntry, Outcome, outcome_of

MAX_SHOWN_LETTERS = 4000
"""Longest text that a page shows, in characters."""
MAX_CHIP_LETTERS = 60
"""Longest text that the chip of a presentation shows, in characters."""
MAX_SHOWN_REFERENCES = 6
"""Reference answers that a page shows."""
OUTCOME_SIGNS: dict[Outcome, str] = {
    "right": "✓",
    "right so far": "…",
    "wrong": "✗",
    "unparsed": "?",
    "error": "!",
    "scored": "·",
    "answer not known": "·",
}

# --- records of a page -----------------------------------------------------------------------------------------------


class Picture(Struct, frozen=True):
    """An image of a card."""

    number: int | None
    """Index in the page's list of images; None if the page does not contain it."""
    text: str
    """Alternative text, or why the image is absent."""
    width: int = 0
    height: int = 0


class SentMessage(Struct, frozen=True):
    """A message of a prompt."""

    role: str
    parts: tuple[str | None, ...]
    """Text; None stands for an image."""
    is_open: bool
    """Whether the model is to continue it."""


class ShownFailure(Struct, frozen=True):
    """The failure of a request."""

    kind: str
    """Type of failure with its attempts, and the colon before the detail."""
    detail: str


class ShownExchange(Struct, frozen=True):
    """The conversation of a request with its response."""

    sent: tuple[SentMessage, ...]
    reply: str | None
    reasoning: str
    """Reasoning before the reply, if it was separate; else empty."""
    failure: ShownFailure | None
    facts: tuple[str, ...]
    step: str = ""
    """Which of several steps it was, as in `round 2 · sub-questions · questioner`."""
    is_folded: bool = False


class ShownOption(Struct, frozen=True):
    """An option with the label that it had."""

    text: str
    label: str = ""


class OptionRow(Struct, frozen=True):
    """An option in the order shown."""

    label: str
    option: str
    signs: tuple[str, ...]
    """`chosen`, `correct`."""
    share: float = 0.0
    """Its probability among the options, under likelihood."""
    score: str = ""
    """Its score as text, under likelihood."""


class Reading(Struct, frozen=True):
    """What a response was read as: an option and by which rule, or why none."""

    text: str
    option: ShownOption | None = None


class CorrectAnswer(Struct, frozen=True):
    """The correct options, or some of the reference answers."""

    texts: tuple[str, ...]
    is_quoted: bool = False
    has_more: bool = False


class PresentationChip(Struct, frozen=True):
    """The reading of a presentation: an option or text."""

    outcome: Outcome
    option: ShownOption | None
    text: str
    tooltip: str
    is_shown: bool
    """Whether it is the presentation that is shown in full."""


class SampleCard(Struct, frozen=True):
    """A question under a protocol of a model."""

    model: int
    label: str
    benchmark: str
    protocol: str
    outcome: Outcome
    turn: str
    sample_id: str
    tags: tuple[tuple[str, str], ...]
    pictures: tuple[Picture, ...]
    exchanges: tuple[ShownExchange, ...]
    options: tuple[OptionRow, ...]
    reading: Reading
    correct_answer: CorrectAnswer | None
    replies: str
    """Number of replies: `4 replies`, or `asked 1 of 4`; empty for a question that is asked once."""
    presentations: tuple[PresentationChip, ...]
    scores: str


# --- the card --------------------------------------------------------------------------------------------------------


def sample_card(
    entry: GalleryEntry, gallery: Gallery, label: str, numbers: Mapping[str, int]
) -> SampleCard:
    """Return the card of an entry.

    Args:
        entry: The entry.
        gallery: The gallery that contains it.
        label: Name of its model.
        numbers: Index in the page's list of images, by digest.
    """
    sample = entry.sample
    options = sample.rounds[entry.turn].options
    exchanges = gallery.exchanges.get((entry.model, entry.exchange_key), [])
    turn = f"round {entry.turn + 1} of {len(sample.turns)}" if sample.turns else ""
    return SampleCard(
        model=entry.model,
        label=label,
        benchmark=sample.benchmark,
        protocol=entry.protocol,
        outcome=entry.outcome,
        turn=turn,
        sample_id=sample.id,
        tags=tuple(sample.tags.items()),
        pictures=tuple(_picture(image, entry, gallery, numbers) for image in sample.images),
        exchanges=tuple(shown_exchange(exchange) for exchange in exchanges),
        options=shown_options(entry.shown_prediction, entry.answer, options),
        reading=shown_reading(entry.shown_prediction, options),
        correct_answer=shown_correct_answer(entry.answer, options),
        replies=_count_of_replies(entry),
        presentations=_presentations(entry, options),
        scores=scores_text(entry.scores),
    )


def _picture(
    image: ImageRef, entry: GalleryEntry, gallery: Gallery, numbers: Mapping[str, int]
) -> Picture:
    """Return an image of a sample on a report page, or a text that says why it is not shown.

    Args:
        image: The image.
        entry: The sample with its replies.
        gallery: All samples and images of the page.
        numbers: The number of each image that the page contains, by its digest.
    """
    if image.digest in numbers:
        alternative_text = f"Image of {entry.sample.id}, {image.width} by {image.height} pixels"
        return Picture(numbers[image.digest], alternative_text, image.width, image.height)
    reason = "left out: the page is full"
    if image.digest in gallery.missing:
        reason = "missing from the benchmark's folder"
    return Picture(None, f"image {image.digest[:12]} {reason}")


def _count_of_replies(entry: GalleryEntry) -> str:
    """Return how many replies a question has: `4 replies`, or `asked 2 of 4` if it is not decided yet.

    The text is empty for a single reply.
    """
    count = len(entry.predictions)
    if entry.outcome == "right so far":
        expected = labelled_declaration(entry.protocol).n_presentations(entry.sample)
        return f"asked {count} of {expected}"
    return f"{count} replies" if count > 1 else ""


def _presentations(entry: GalleryEntry, options: Sequence[str]) -> tuple[PresentationChip, ...]:
    """Return a chip for each presentation of a question: which option was chosen, and whether it was right."""
    chips = []
    for prediction in entry.predictions:
        variant = prediction.variant
        option = None
        if prediction.choice is not None:
            option = _option(prediction.choice, options, variant)
        if prediction.text is None:
            text = prediction.reason or ""
        else:
            text = shorten(prediction.text, MAX_CHIP_LETTERS)
        chip = PresentationChip(
            outcome=outcome_of(prediction, entry.answer, None, is_verdict=False),
            option=option,
            text=text,
            tooltip=f"reply {variant.test + 1}, template {variant.template}",
            is_shown=prediction is entry.shown_prediction,
        )
        chips.append(chip)
    return tuple(chips)


# --- the conversation ------------------------------------------------------------------------------------------------


def shown_exchange(exchange: Exchange) -> ShownExchange:
    """Return the conversation as sent, and the response. Conversations with other models than the evaluated are folded."""
    request = exchange.request
    response = exchange.response
    sent = []
    for index, message in enumerate(request.messages, 1):
        sent.append(_sent_message(message, is_last=index == len(request.messages)))
    step = request.variant.step
    return ShownExchange(
        sent=tuple(sent),
        reply=response.text,
        reasoning=response.reasoning or "",
        failure=_failure(response),
        facts=_facts(exchange),
        step=_describe_step(step, request.role) if step else "",
        is_folded=bool(request.role),
    )


def _sent_message(message: Message, *, is_last: bool) -> SentMessage:
    """Return a message as the card shows it: its texts, with None for each image."""
    parts: list[str | None] = []
    for part in message.content:
        parts.append(None if isinstance(part, ImagePart) else part.text)
    is_begun_reply = is_last and message.role == "assistant"
    return SentMessage(message.role, tuple(parts), is_begun_reply)


def _failure(response: Response) -> ShownFailure | None:
    """Return why a request failed and after how many attempts; None if it has a response."""
    error = response.error
    if not error:
        return None
    attempts = f" after {error.attempts} attempts" if error.attempts > 1 else ""
    return ShownFailure(f"{error.kind}{attempts}: ", error.detail)


def _facts(exchange: Exchange) -> tuple[str, ...]:
    """Return remarks on a reply: why it ended, how many seconds it took, whether it was reused, and notes."""
    response = exchange.response
    facts = []
    if response.finish:
        facts.append(f"finish: {response.finish}")
    if response.seconds is not None:
        facts.append(f"{response.seconds:.2f} s")
    if exchange.reused:
        facts.append("answered by an earlier response to the same request")
    return (*facts, *response.notes)


def _describe_step(step: Step, role: str) -> str:
    """Return a step of a dialogue as text: `round 2 · its purpose · role`."""
    round_text = f"round {step.round}" if step.round else ""
    clauses = [part for part in (round_text, step.purpose, role) if part]
    return " · ".join(clauses)


# --- scores ----------------------------------------------------------------------------------------------------------


def scores_text(scores: Sequence[Score]) -> str:
    """Describe the metrics of a question: their values, or why they have none.

    Secondary metrics, and metrics that need more presentations than were asked, are left out.
    """
    texts = []
    for score in scores:
        if not _is_shown(score):
            continue
        text = f"{metric_title(score.metric)} {_score_value(score)}"
        if score.reason:
            text += f" ({word_reason(score.reason, score.detail)})"
        texts.append(text)
    return "; ".join(texts)


def score_meanings(scores: Iterable[Score]) -> str:
    """Explain the metrics of the scores of a question, in one sentence for each metric."""
    meanings: dict[str, str] = {}
    for score in scores:
        meaning = metric_meaning(score.metric)
        if meaning and _is_shown(score):
            title = capitalised(metric_title(score.metric))
            meanings[title] = meaning.rstrip(".")
    return " ".join(f"{title}: {meaning}." for title, meaning in meanings.items())


def _is_shown(score: Score) -> bool:
    return not declared_row(score.metric).secondary_to and score.reason != "not asked"


def _score_value(score: Score) -> str:
    """Format a value: `100%` for shares, which have no decimals because they are of few replies."""
    if score.value is None:
        return DASH
    if declared_row(score.metric).unit == SHARE:
        return f"{score.value:.0%}"
    return f"{score.value:.3g}"


# --- options, reading and ground truth -------------------------------------------------------------------------------


def shown_options(
    prediction: Prediction, answer: Answer | None, options: Sequence[str]
) -> tuple[OptionRow, ...]:
    """Return the options of a question as the model saw them, in their order and with their letters.

    Each says whether the model chose it and whether it is correct. If options were scored by likelihood, each has its
    score and its probability among the options.
    """
    variant = prediction.variant
    correct = answer.options if answer else ()
    probabilities: list[float] = [0.0] * len(options)
    score_texts = [""] * len(options)
    if len(prediction.scores) == len(options):
        probabilities = _option_probabilities(prediction.scores, holds_shares(prediction))
        score_texts = [_score_text(value) for value in prediction.scores]

    rows = []
    for position, option in enumerate(variant.order or range(len(options))):
        label = variant.labels[position] if position < len(variant.labels) else ""
        signs = []
        if option == prediction.choice:
            signs.append("chosen")
        if option in correct:
            signs.append("correct")
        row = OptionRow(
            label=label,
            option=options[option],
            signs=tuple(signs),
            share=probabilities[option],
            score=score_texts[option],
        )
        rows.append(row)
    return tuple(rows)


def _option_probabilities(scores: Sequence[float], are_shares: bool) -> list[float]:
    """Convert the scores that a model gave the options of a question to probabilities that add up to 1.

    Args:
        scores: The score of each option.
        are_shares: Whether the scores are shares, which only have to be scaled. Otherwise they are log-likelihoods,
            and their softmax is returned. A log-likelihood of minus infinity gives a probability of 0.
    """
    weights: list[float] = []
    if are_shares:
        weights.extend(scores)
    else:
        finite_scores = [score for score in scores if math.isfinite(score)]
        greatest = max(finite_scores, default=0.0)  # subtracted, so that no exponential overflows
        for score in scores:
            weights.append(math.exp(score - greatest) if math.isfinite(score) else 0.0)
    total = math.fsum(weights) or 1.0
    return [weight / total for weight in weights]


def _score_text(value: float) -> str:
    if value <= IMPOSSIBLE:
        return "-inf"
    return decimal_text(value, 3) if math.isfinite(value) else str(value)


def shown_reading(prediction: Prediction, options: Sequence[str]) -> Reading:
    """Return what was read from a reply (an option, a text or nothing), and which method found it."""
    if prediction.error:
        return Reading("nothing: no answer came")
    if prediction.text is not None:
        return Reading("text as received")
    if prediction.choice is None:
        return Reading(f"nothing ({word_reason(prediction.reason, prediction.detail)})")
    method_text = f"by {prediction.extraction_method or ''}"
    if prediction.follows_format:
        method_text += ", in the requested format"
    return Reading(method_text, _option(prediction.choice, options, prediction.variant))


def _option(choice: int, options: Sequence[str], variant: Variant) -> ShownOption:
    """Return the text of an option and the letter under which the model saw it.

    Args:
        choice: The index of the option in `options`.
        options: The options in their original order.
        variant: How the question was presented: the order of its options and their letters. Options can be presented
            without letters.
    """
    unchanged_order = tuple(range(len(options)))
    order = variant.order or unchanged_order
    position = order.index(choice)
    label = variant.labels[position] if position < len(variant.labels) else ""
    return ShownOption(options[choice], label)


def shown_correct_answer(answer: Answer | None, options: Sequence[str]) -> CorrectAnswer | None:
    """Return the correct answer of a question as a page shows it: the correct options, or the first reference texts.

    Returns:
        None if the correct answer is not available.
    """
    if answer is None:
        return None
    if answer.options:
        return CorrectAnswer(tuple(options[index] for index in answer.options))
    has_more = len(answer.texts) > MAX_SHOWN_REFERENCES
    return CorrectAnswer(answer.texts[:MAX_SHOWN_REFERENCES], is_quoted=True, has_more=has_more)
