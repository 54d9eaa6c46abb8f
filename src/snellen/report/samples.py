"""Samples of a report: which it shows (wrong ones first, some for each model, benchmark and protocol), and as what.

Those of a large benchmark are chosen from a random part of it, the same each time and for each model.

Entries are chosen from predictions and scores; then the journal is read once, keeping only their exchanges.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import data_uri, to_plain_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.metrics.declaration import SHARE, declared
from snellen.protocols.base import Declaration, labelled_declaration
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
    Sample,
    Score,
    Step,
    Variant,
)
from snellen.report.run_view import RunView, question_metric
from snellen.report.table import (
    DASH,
    capitalised,
    decimal_text,
    metric_meaning,
    metric_title,
    shorten,
)
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import RunPictures
from snellen.scoring.journal_reading import steps_in_order
from snellen.scoring.scored_run import ScoredBenchmark

Outcome = Literal[
    "wrong", "unparsed", "error", "scored", "answer not known", "right so far", "right"
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In order of interest. A text reply that is neither right nor wrong is `scored`; a question whose replies are right,
but not all there, is `right so far`."""


class GalleryLimits(Struct, frozen=True):
    """How much a page may hold."""

    not_right: int = 12
    """Questions not right, per model and benchmark, over all protocols."""
    right: int = 4
    entries: int = 1500
    image_bytes: int = 24_000_000
    """Stored bytes of all pictures; base64 takes a third more."""


DEFAULT = GalleryLimits()
CROWDED = GalleryLimits(entries=160, image_bytes=250_000)
"""Of a page whose tables and charts take most of the 5 MB that can be sent by mail."""
MOST_SAMPLES = 20_000
"""Samples of a benchmark up to which all may be shown."""
RANDOM_PART = 2_000
"""Samples of a larger one from which those shown are chosen."""
MOST_CELLS = 300
"""Models times benchmarks from which on a page is crowded."""


class GalleryEntry(Struct, frozen=True):
    """One question under one protocol of one model."""

    model: int
    """Index of its run."""
    scored: ScoredBenchmark
    protocol: str
    sample: Sample
    turn: int
    outcome: Outcome
    predictions: tuple[Prediction, ...]
    shown_prediction: Prediction
    """The presentation shown in full: the first with the entry's outcome."""
    scores: tuple[Score, ...]
    rank: int = 0
    """Position among the entries of its model and benchmark."""

    @property
    def answer(self) -> Answer | None:
        return self.scored.answers.get((self.sample.id, self.turn))

    @property
    def exchange_key(self) -> ExchangeKey:
        variant = (
            None if labelled_declaration(self.protocol).conclude else self.shown_prediction.variant
        )
        return ExchangeKey(self.protocol, self.sample.benchmark, self.sample.id, variant)


class ExchangeKey(Struct, frozen=True):
    """Where the exchange of a presentation is found in a run, or the steps that led to an answer."""

    protocol: str
    benchmark: str
    sample_id: str
    variant: Variant | None
    """None for all steps of the sample."""


class Gallery(Struct, frozen=True):
    """The chosen entries, the wrong ones first, and what was left out."""

    entries: tuple[GalleryEntry, ...]
    exchanges: dict[tuple[int, ExchangeKey], list[Exchange]]
    """One for a presentation, all steps in order for an answer to which several led."""
    images: dict[str, str]
    """Digest -> data URI."""
    missing: frozenset[str]
    """Digests of pictures that are no longer in their benchmark's folder."""
    left_out: dict[Outcome, int]
    """Questions that are not shown."""


def choose_gallery(views: Sequence[RunView], bounds: GalleryLimits | None = None) -> Gallery:
    """Choose entries, then fetch their prompts and replies from the journals and pictures from the benchmarks."""
    cells = max(sum(len(view.run.benchmarks) for view in views), 1)
    bounds = bounds or (DEFAULT if cells < MOST_CELLS else CROWDED)
    fair = max(bounds.entries // cells, 1)
    right = min(bounds.right, max(fair // 4, 0))
    not_right = min(bounds.not_right, fair - right)
    chosen: list[GalleryEntry] = []
    left_out: Counter[Outcome] = Counter()
    for i, view in enumerate(views):
        for scored in view.run.benchmarks:
            part = random_part(scored)
            entries = list(question_entries(i, scored, part))
            chosen += _pick(entries, not_right, right)
            left_out.update(
                (entry.outcome for entry in entries) if part is None else _outcomes(scored)
            )
    if len(chosen) > bounds.entries:
        # Evenly over models and benchmarks, as not every pair of them can have one.
        chosen = [chosen[place * len(chosen) // bounds.entries] for place in range(bounds.entries)]
    left_out.subtract(entry.outcome for entry in chosen)
    chosen.sort(
        key=lambda entry: (
            OUTCOMES.index(entry.outcome),
            entry.rank,
            entry.sample.benchmark,
            entry.model,
        )
    )
    images, missing = _images(views, chosen, bounds.image_bytes)
    omitted = {outcome: left_out[outcome] for outcome in OUTCOMES if left_out[outcome]}
    return Gallery(tuple(chosen), _exchanges(views, chosen), images, missing, omitted)


def outcome_of(
    prediction: Prediction, answer: Answer | None, value: float | None, is_verdict: bool
) -> Outcome:
    """The outcome of one presentation; `value` is its question's first metric, used for texts only."""
    if prediction.error:
        return "error"
    if prediction.text is None:
        if prediction.choice is None:
            return "unparsed"
        if answer is None:
            return "answer not known"
        return "right" if prediction.choice in answer.options else "wrong"
    if answer is None:
        return "answer not known"
    if value is None or not is_verdict:
        return "scored"
    return "right" if value == 1 else "wrong"


def question_outcome(outcomes: Sequence[Outcome], sample: Sample, declared: Declaration) -> Outcome:
    """That of a question: of its replies the worst one's, but not right while fewer came than its protocol asks for."""
    worst = min(outcomes, key=OUTCOMES.index)
    return (
        "right so far"
        if worst == "right" and len(outcomes) < declared.n_presentations(sample)
        else worst
    )


def random_part(scored: ScoredBenchmark) -> frozenset[str] | None:
    """The ids of the samples of a large benchmark from which those shown are chosen; None for all of a smaller one."""
    if len(scored.samples) <= MOST_SAMPLES:
        return None
    return frozenset(
        rng_for(scored.spec.name, "gallery").sample(sorted(scored.samples), RANDOM_PART)
    )


def _outcomes(scored: ScoredBenchmark) -> Iterator[Outcome]:
    """The outcome of each question, for benchmarks of which not all are held at once."""
    first, is_verdict = _text_metric(scored)
    values = {(s.protocol, s.sample_id, s.turn): s.value for s in scored.scores_of(first)}
    outcomes: dict[tuple[str, str, int], list[Outcome]] = defaultdict(list)
    for prediction in scored.predictions:
        question = prediction.protocol, prediction.sample_id, prediction.turn
        answer = scored.answers.get(question[1:])
        outcomes[question].append(outcome_of(prediction, answer, values.get(question), is_verdict))
    declarations = {protocol: labelled_declaration(protocol) for protocol, _, _ in outcomes}
    for (protocol, sample_id, _), of_question in outcomes.items():
        yield question_outcome(of_question, scored.samples[sample_id], declarations[protocol])


def _text_metric(scored: ScoredBenchmark) -> tuple[str, bool]:
    """The first metric of texts, and whether it is a verdict: 0 or 1 for every question, which CIDEr is not."""
    first = question_metric(scored, has_options=False)
    return first, all(score.value in (None, 0, 1) for score in scored.scores_of(first))


def question_entries(
    model: int, scored: ScoredBenchmark, part: Collection[str] | None = None
) -> Iterator[GalleryEntry]:
    """One entry per question asked; only of the samples of a `part`."""
    questions: dict[tuple[str, str, int], list[Prediction]] = defaultdict(list)
    for prediction in scored.predictions:
        if part is None or prediction.sample_id in part:
            questions[prediction.protocol, prediction.sample_id, prediction.turn].append(prediction)
    scores: dict[tuple[str, str, int], list[Score]] = defaultdict(list)
    for score in scored.scores:
        if part is None or score.sample_id in part:
            scores[score.protocol, score.sample_id, score.turn].append(score)
    first, is_verdict = _text_metric(scored)
    declarations = {protocol: labelled_declaration(protocol) for protocol, _, _ in questions}
    for (protocol, sample_id, turn), predictions in questions.items():
        question_scores = tuple(scores[protocol, sample_id, turn])
        value = next((score.value for score in question_scores if score.metric == first), None)
        answer = scored.answers.get((sample_id, turn))
        outcomes = [outcome_of(p, answer, value, is_verdict) for p in predictions]
        worst, sample = outcomes.index(min(outcomes, key=OUTCOMES.index)), scored.samples[sample_id]
        outcome = question_outcome(outcomes, sample, declarations[protocol])
        yield GalleryEntry(
            model,
            scored,
            protocol,
            sample,
            turn,
            outcome,
            tuple(predictions),
            predictions[worst],
            question_scores,
        )


def _pick(entries: Sequence[GalleryEntry], not_right: int, right: int) -> list[GalleryEntry]:
    """At most this many of each, protocols and outcomes taking turns; texts with the lowest scores first."""
    buckets: dict[tuple[int, str], list[GalleryEntry]] = defaultdict(list)
    for entry in entries:
        buckets[OUTCOMES.index(entry.outcome), entry.protocol].append(entry)
    for (outcome, _), bucket in buckets.items():
        if OUTCOMES[outcome] == "scored":
            bucket.sort(key=_value)
    ordered = [buckets[key] for key in sorted(buckets)]
    good = [bucket for bucket in ordered if bucket[0].outcome in ("right", "right so far")]
    bad = [bucket for bucket in ordered if bucket[0].outcome not in ("right", "right so far")]
    picked = [*_take_turns(bad)[:not_right], *_take_turns(good)[:right]]
    return [replace(entry, rank=rank) for rank, entry in enumerate(picked)]


def _take_turns(buckets: Sequence[Sequence[GalleryEntry]]) -> list[GalleryEntry]:
    return [entry for turn in zip_longest(*buckets) for entry in turn if entry is not None]


def _value(entry: GalleryEntry) -> float:
    return next((score.value for score in entry.scores if score.value is not None), 0.0)


def _exchanges(
    views: Sequence[RunView], entries: Sequence[GalleryEntry]
) -> dict[tuple[int, ExchangeKey], list[Exchange]]:
    """The chosen exchanges; of several for one presentation or step the last one answered, as in scoring."""
    exchanges: dict[tuple[int, ExchangeKey], dict[Variant, Exchange]] = defaultdict(dict)
    for i, view in enumerate(views):
        keys = {entry.exchange_key for entry in entries if entry.model == i}
        for exchange in read_exchanges(view.run.folder) if keys else ():
            request = exchange.request
            variant = None if request.variant.step else request.variant
            key = ExchangeKey(exchange.protocol, request.benchmark, request.sample_id, variant)
            if key in keys and (
                exchange.response.error is None or request.variant not in exchanges[i, key]
            ):
                exchanges[i, key][request.variant] = exchange
    return {key: steps_in_order(by_variant.values()) for key, by_variant in exchanges.items()}


def _images(
    views: Sequence[RunView], entries: Sequence[GalleryEntry], budget: int
) -> tuple[dict[str, str], frozenset[str]]:
    """Data URIs of the entries' pictures within the budget, those of each cell's first entries first."""
    stores: dict[tuple[int, str], RunPictures] = {
        (i, use.name): RunPictures(use, view.run.folder)
        for i, view in enumerate(views)
        for use in view.run.manifest.benchmarks
    }
    uris: dict[str, str] = {}
    missing: set[str] = set()
    for entry in sorted(entries, key=lambda entry: entry.rank):
        for image in entry.sample.images:
            if image.digest in uris or image.digest in missing:
                continue
            try:
                stored = stores[entry.model, entry.sample.benchmark].read(image)
                media_type, content = to_plain_file(image, stored)
            except DataError:
                missing.add(image.digest)
                continue
            if len(content) <= budget:
                budget -= len(content)
                uris[image.digest] = data_uri(media_type, content)
    return uris, frozenset(missing)


# --- what is shown of one --------------------------------------------------------------------------------------------


LONGEST = 4000
"""Longest text that a page shows, in characters."""
SIGNS: dict[Outcome, str] = {
    "right": "✓",
    "right so far": "…",
    "wrong": "✗",
    "unparsed": "?",
    "error": "!",
    "scored": "·",
    "answer not known": "·",
}
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
    replies: str
    """How many there are: `4 replies`, or `asked 1 of 4`; empty for a question that is asked once."""
    presentations: tuple[PresentationChip, ...]
    scores: str


def sample_card(
    entry: GalleryEntry, gallery: Gallery, label: str, numbers: Mapping[str, int]
) -> SampleCard:
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
        _count_of_replies(entry),
        _presentations(entry, options),
        scores_text(entry.scores),
    )


def _picture(
    image: ImageRef, entry: GalleryEntry, gallery: Gallery, numbers: Mapping[str, int]
) -> Picture:
    if image.digest in numbers:
        words = f"Picture of {entry.sample.id}, {image.width} by {image.height} pixels"
        return Picture(numbers[image.digest], words, image.width, image.height)
    reason = (
        "missing from the benchmark's folder"
        if image.digest in gallery.missing
        else "left out: the page is full"
    )
    return Picture(None, f"picture {image.digest[:12]} {reason}")


def shown_talk(exchange: Exchange) -> ShownTalk:
    """The conversation as sent, then the response; what other models were sent is folded."""
    request, response = exchange.request, exchange.response
    last = len(request.messages) - 1
    failure = None
    if response.error:
        attempts = (
            f" after {response.error.attempts} attempts" if response.error.attempts > 1 else ""
        )
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
    return " · ".join(
        filter(None, (f"round {step.round}" if step.round else "", step.purpose, role))
    )


def _message(message: Message, is_last: bool) -> SentMessage:
    parts = tuple(None if isinstance(part, ImagePart) else part.text for part in message.content)
    return SentMessage(message.role, parts, is_last and message.role == "assistant")


def scores_text(scores: Sequence[Score]) -> str:
    """The metrics of a question with their values, or why they have none; not those for which more had to be asked."""
    return "; ".join(
        f"{metric_title(score.metric)} {_score_value(score)}"
        + (f" ({word_reason(score.reason, score.detail)})" if score.reason else "")
        for score in scores
        if _is_told(score)
    )


def score_meanings(scores: Iterable[Score]) -> str:
    """What each metric in `scores_text` is, a sentence for each that declares it."""
    metrics = dict.fromkeys(score.metric for score in scores if _is_told(score))
    meanings = {capitalised(metric_title(metric)): metric_meaning(metric) for metric in metrics}
    return " ".join(
        f"{title}: {meaning.rstrip('.')}." for title, meaning in meanings.items() if meaning
    )


def _is_told(score: Score) -> bool:
    return not declared(score.metric).secondary_to and score.reason != "not asked"


def _score_value(score: Score) -> str:
    """`100%` for shares, of few replies: no decimals."""
    if score.value is None:
        return DASH
    return f"{score.value:.0%}" if declared(score.metric).unit == SHARE else f"{score.value:.3g}"


def shown_options(
    prediction: Prediction, answer: Answer | None, options: Sequence[str]
) -> tuple[OptionRow, ...]:
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
        rows.append(OptionRow(label, options[option], signs, *scores.get(option, (0.0, ""))))
    return tuple(rows)


def _scores(values: Sequence[float], are_shares: bool) -> dict[int, tuple[float, str]]:
    """Each option's share among the options, and its score as text."""
    finite = [value for value in values if math.isfinite(value)]
    best = max(finite, default=0.0)
    weights = [math.exp(value - best) if math.isfinite(value) else 0.0 for value in values]
    weights = list(values) if are_shares else weights
    total = math.fsum(weights) or 1.0
    return {
        i: (weight / total, _score_text(value))
        for i, (value, weight) in enumerate(zip(values, weights, strict=True))
    }


def _score_text(value: float) -> str:
    if value <= IMPOSSIBLE:
        return "-inf"
    return decimal_text(value, 3) if math.isfinite(value) else str(value)


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
    return ShownOption(
        options[choice], variant.labels[place] if place < len(variant.labels) else ""
    )


def shown_gold(answer: Answer | None, options: Sequence[str]) -> Gold | None:
    """The right options, or the reference texts; None where they are hidden."""
    if answer is None:
        return None
    if answer.options:
        return Gold(tuple(options[option] for option in answer.options))
    return Gold(answer.texts[:REFERENCES], is_quoted=True, has_more=len(answer.texts) > REFERENCES)


def _count_of_replies(entry: GalleryEntry) -> str:
    count = len(entry.predictions)
    if entry.outcome == "right so far":
        return (
            f"asked {count} of {labelled_declaration(entry.protocol).n_presentations(entry.sample)}"
        )
    return f"{count} replies" if count > 1 else ""


def _presentations(entry: GalleryEntry, options: Sequence[str]) -> tuple[PresentationChip, ...]:
    rows = []
    for prediction in entry.predictions:
        option = (
            None
            if prediction.choice is None
            else _option(prediction.choice, options, prediction.variant)
        )
        text = prediction.reason or "" if prediction.text is None else shorten(prediction.text, 60)
        variant = prediction.variant
        rows.append(
            PresentationChip(
                outcome_of(prediction, entry.answer, None, is_verdict=False),
                option,
                text,
                f"reply {variant.test + 1}, template {variant.template}",
                prediction is entry.shown_prediction,
            )
        )
    return tuple(rows)
