"""One sample as a page shows it: picture, prompt as sent, reply as received, how it was read, and the gold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from snellen.metrics.declaration import declared
from snellen.protocols.prediction import holds_shares
from snellen.reasons import word_reason
from snellen.records import Answer, Exchange, ImagePart, ImageRef, Message, Prediction, Score, Step, Variant
from snellen.report.gallery import Gallery, GalleryEntry, Outcome, outcome_of
from snellen.report.table import DASH, decimal_text, metric_title, shorten

LONGEST = 4000
"""Longest text that a page shows, in characters."""
SIGNS: dict[Outcome, str] = {"right": "✓", "wrong": "✗", "unparsed": "?", "error": "!", "scored": "·", "no gold": "·"}
REFERENCES = 6
"""Reference texts that are shown of an answer."""


class Picture(Struct, frozen=True):
    """A picture by its index in the page's list, or none of it; `words` say what it is, or why it is not there."""

    number: int | None
    words: str
    width: int = 0
    height: int = 0


class SentMessage(Struct, frozen=True):
    """What was said in one role; a part without text is a picture."""

    role: str
    parts: tuple[str | None, ...]
    is_open: bool
    """Whether the model is to go on with it."""


class ShownFailure(Struct, frozen=True):
    kind: str
    """With its attempts, and the colon before the detail."""
    detail: str


class ShownTalk(Struct, frozen=True):
    """The conversation of one request, and what came back."""

    sent: tuple[SentMessage, ...]
    reply: str | None
    reasoning: str
    """What the model thought before, where that was told apart; else empty."""
    failure: ShownFailure | None
    facts: tuple[str, ...]
    step: str = ""
    """Which step of several it was, as in `round 2 · sub-questions · questioner`."""
    is_folded: bool = False


class ShownOption(Struct, frozen=True):
    """An option with the label that it had."""

    text: str
    label: str = ""


class OptionRow(Struct, frozen=True):
    """An option in the order shown; under likelihood with its share among the options and its score as text."""

    label: str
    option: str
    signs: tuple[str, ...]
    """`chosen`, `correct`."""
    share: float = 0.0
    score: str = ""


class Reading(Struct, frozen=True):
    """What a response was read as: an option and by what, or why none."""

    words: str
    option: ShownOption | None = None


class Gold(Struct, frozen=True):
    """The right options, or some of the reference texts."""

    texts: tuple[str, ...]
    is_quoted: bool = False
    has_more: bool = False


class PresentationChip(Struct, frozen=True):
    """How one presentation was read: an option, or a text."""

    outcome: Outcome
    option: ShownOption | None
    text: str
    tooltip: str
    is_shown: bool


class SampleCard(Struct, frozen=True):
    """One question under one protocol of one model."""

    model: int
    label: str
    benchmark: str
    protocol: str
    outcome: Outcome
    turn: str
    sample_id: str
    tags: tuple[tuple[str, str], ...]
    pictures: tuple[Picture, ...]
    talk: tuple[ShownTalk, ...]
    options: tuple[OptionRow, ...]
    reading: Reading
    gold: Gold | None
    presentations: tuple[PresentationChip, ...]
    """All of them, where there are several."""
    scores: str


def sample_card(entry: GalleryEntry, gallery: Gallery, label: str, numbers: Mapping[str, int]) -> SampleCard:
    """The card of an entry; `numbers` gives each picture's index in the page's list."""
    options = entry.sample.rounds[entry.turn].options
    return SampleCard(
        entry.model,
        label,
        entry.sample.benchmark,
        entry.protocol,
        entry.outcome,
        f"round {entry.turn + 1} of {len(entry.sample.turns)}" if entry.sample.turns else "",
        entry.sample.id,
        tuple(entry.sample.tags.items()),
        tuple(_picture(image, entry, gallery, numbers) for image in entry.sample.images),
        tuple(map(shown_talk, gallery.exchanges.get((entry.model, entry.exchange_key), []))),
        shown_options(entry.shown_prediction, entry.answer, options),
        shown_reading(entry.shown_prediction, options),
        shown_gold(entry.answer, options),
        _presentations(entry, options) if len(entry.predictions) > 1 else (),
        scores_text(entry.scores),
    )


def _picture(image: ImageRef, entry: GalleryEntry, gallery: Gallery, numbers: Mapping[str, int]) -> Picture:
    if image.digest in numbers:
        words = f"Picture of {entry.sample.id}, {image.width} by {image.height} pixels"
        return Picture(numbers[image.digest], words, image.width, image.height)
    reason = "missing from the benchmark's folder" if image.digest in gallery.missing else "left out: the page is full"
    return Picture(None, f"picture {image.digest[:12]} {reason}")


def shown_talk(exchange: Exchange) -> ShownTalk:
    """The conversation as sent, then the response; what other models were sent is folded."""
    request, response = exchange.request, exchange.response
    last = len(request.messages) - 1
    failure = None
    if response.error:
        attempts = f" after {response.error.attempts} attempts" if response.error.attempts > 1 else ""
        failure = ShownFailure(f"{response.error.kind}{attempts}: ", response.error.detail)
    facts = (
        *([f"finish: {response.finish}"] if response.finish else []),
        *([f"{response.seconds:.2f} s"] if response.seconds is not None else []),
        *(["answered by an earlier response to the same request"] if exchange.reused else []),
        *response.notes,
    )
    step = request.variant.step
    return ShownTalk(
        tuple(_message(message, place == last) for place, message in enumerate(request.messages)),
        response.text,
        response.reasoning or "",
        failure,
        facts,
        _place(step, request.role) if step else "",
        bool(request.role),
    )


def _place(step: Step, role: str) -> str:
    return " · ".join(filter(None, (f"round {step.round}" if step.round else "", step.purpose, role)))


def _message(message: Message, is_last: bool) -> SentMessage:
    parts = tuple(None if isinstance(part, ImagePart) else part.text for part in message.content)
    return SentMessage(message.role, parts, is_last and message.role == "assistant")


def scores_text(scores: Sequence[Score]) -> str:
    """The metrics of a question with their values, or why they have none."""
    return "; ".join(
        f"{metric_title(score.metric)} {DASH if score.value is None else f'{score.value:.3g}'}"
        + (f" ({word_reason(score.reason, score.detail)})" if score.reason else "")
        for score in scores
        if not declared(score.metric).secondary_to
    )


def shown_options(prediction: Prediction, answer: Answer | None, options: Sequence[str]) -> tuple[OptionRow, ...]:
    """Options in the order shown, with the choice, the gold and, under likelihood, the scores."""
    variant = prediction.variant
    gold = answer.options if answer else ()
    values = prediction.scores
    scores = _scores(values, holds_shares(prediction)) if len(values) == len(options) else {}
    rows = []
    for place, option in enumerate(variant.order or range(len(options))):
        label = variant.labels[place] if place < len(variant.labels) else ""
        chosen = option == prediction.choice
        signs = (*(["chosen"] if chosen else []), *(["correct"] if option in gold else []))
        rows.append(OptionRow(label, options[option], signs, *scores.get(option, ())))
    return tuple(rows)


def _scores(values: Sequence[float], are_shares: bool) -> dict[int, tuple[float, str]]:
    """Each option's share among the options, and its score as text."""
    finite = [value for value in values if math.isfinite(value)]
    best = max(finite, default=0.0)
    weights = [math.exp(value - best) if math.isfinite(value) else 0.0 for value in values]
    weights = list(values) if are_shares else weights
    total = math.fsum(weights) or 1.0
    return {
        i: (weight / total, decimal_text(value, 3) if math.isfinite(value) else str(value))
        for i, (value, weight) in enumerate(zip(values, weights, strict=True))
    }


def shown_reading(prediction: Prediction, options: Sequence[str]) -> Reading:
    """What a response was read as, and by what."""
    if prediction.error:
        return Reading("nothing: no answer came")
    if prediction.text is not None:
        return Reading("text, as it came")
    if prediction.choice is None:
        return Reading(f"nothing ({word_reason(prediction.reason, prediction.detail)})")
    format_note = ", in the form asked for" if prediction.follows_format else ""
    words = f"by {prediction.extraction_method or ''}{format_note}"
    return Reading(words, _option(prediction.choice, options, prediction.variant))


def _option(choice: int, options: Sequence[str], variant: Variant) -> ShownOption:
    place = (variant.order or tuple(range(len(options)))).index(choice)
    return ShownOption(options[choice], variant.labels[place] if place < len(variant.labels) else "")


def shown_gold(answer: Answer | None, options: Sequence[str]) -> Gold | None:
    """The right options, or the reference texts; None where they are hidden."""
    if answer is None:
        return None
    if answer.options:
        return Gold(tuple(options[option] for option in answer.options))
    return Gold(answer.texts[:REFERENCES], is_quoted=True, has_more=len(answer.texts) > REFERENCES)


def _presentations(entry: GalleryEntry, options: Sequence[str]) -> tuple[PresentationChip, ...]:
    rows = []
    for prediction in entry.predictions:
        option = None if prediction.choice is None else _option(prediction.choice, options, prediction.variant)
        text = prediction.reason or "" if prediction.text is None else shorten(prediction.text, 60)
        variant = prediction.variant
        rows.append(
            PresentationChip(
                outcome_of(prediction, entry.answer, None, is_verdict=False),
                option,
                text,
                f"presentation {variant.test + 1}, template {variant.template}",
                prediction is entry.shown_prediction,
            )
        )
    return tuple(rows)
