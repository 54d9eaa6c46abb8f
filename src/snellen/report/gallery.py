"""Which samples a report shows: wrong ones first, some for each model, benchmark and protocol.

Those of a large benchmark are chosen from a random part of it, the same each time and for each model.

Entries are chosen from predictions and scores; then the journal is read once, keeping only their exchanges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.images import to_plain_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.protocols.base import labelled_declaration
from snellen.records import Answer, Exchange, Prediction, Sample, Score, Variant
from snellen.report.offline_page import data_uri
from snellen.report.reply_counts import question_metric
from snellen.report.run_view import RunView
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import RunPictures
from snellen.scoring.scored_run import ScoredBenchmark
from snellen.scoring.talks import steps_in_order

Outcome = Literal["wrong", "unparsed", "error", "scored", "no gold", "right"]
OUTCOMES: tuple[Outcome, ...] = ("wrong", "unparsed", "error", "scored", "no gold", "right")
"""In order of interest; a text reply that is neither right nor wrong is `scored`."""


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
        variant = None if labelled_declaration(self.protocol).conclude else self.shown_prediction.variant
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
            left_out.update((entry.outcome for entry in entries) if part is None else _outcomes(scored))
    if len(chosen) > bounds.entries:
        # Evenly over models and benchmarks, as not every pair of them can have one.
        chosen = [chosen[place * len(chosen) // bounds.entries] for place in range(bounds.entries)]
    left_out.subtract(entry.outcome for entry in chosen)
    chosen.sort(key=lambda entry: (OUTCOMES.index(entry.outcome), entry.rank, entry.sample.benchmark, entry.model))
    images, missing = _images(views, chosen, bounds.image_bytes)
    omitted = {outcome: left_out[outcome] for outcome in OUTCOMES if left_out[outcome]}
    return Gallery(tuple(chosen), _exchanges(views, chosen), images, missing, omitted)


def outcome_of(prediction: Prediction, answer: Answer | None, value: float | None, is_verdict: bool) -> Outcome:
    """The outcome of one presentation; `value` is its question's first metric, used for texts only."""
    if prediction.error:
        return "error"
    if prediction.text is None:
        if prediction.choice is None:
            return "unparsed"
        if answer is None:
            return "no gold"
        return "right" if prediction.choice in answer.options else "wrong"
    if answer is None:
        return "no gold"
    if value is None or not is_verdict:
        return "scored"
    return "right" if value == 1 else "wrong"


def random_part(scored: ScoredBenchmark) -> frozenset[str] | None:
    """The ids of the samples of a large benchmark from which those shown are chosen; None for all of a smaller one."""
    if len(scored.samples) <= MOST_SAMPLES:
        return None
    return frozenset(rng_for(scored.spec.name, "gallery").sample(sorted(scored.samples), RANDOM_PART))


def _outcomes(scored: ScoredBenchmark) -> Iterator[Outcome]:
    """The outcome of each question's worst presentation, for benchmarks of which not all are held at once."""
    first, is_verdict = _text_metric(scored)
    values = {(s.protocol, s.sample_id, s.turn): s.value for s in scored.scores_of(first)}
    worst: dict[tuple[str, str, int], int] = {}
    for prediction in scored.predictions:
        question = prediction.protocol, prediction.sample_id, prediction.turn
        answer = scored.answers.get(question[1:])
        outcome = OUTCOMES.index(outcome_of(prediction, answer, values.get(question), is_verdict))
        worst[question] = min(worst.get(question, outcome), outcome)
    return (OUTCOMES[outcome] for outcome in worst.values())


def _text_metric(scored: ScoredBenchmark) -> tuple[str, bool]:
    """The first metric of texts, and whether it is a verdict: 0 or 1 for every question, which CIDEr is not."""
    first = question_metric(scored, has_options=False)
    return first, all(score.value in (None, 0, 1) for score in scored.scores_of(first))


def question_entries(
    model: int, scored: ScoredBenchmark, part: Collection[str] | None = None
) -> Iterator[GalleryEntry]:
    """One entry per question asked, with the outcome of its worst presentation; only of the samples of a `part`."""
    questions: dict[tuple[str, str, int], list[Prediction]] = defaultdict(list)
    for prediction in scored.predictions:
        if part is None or prediction.sample_id in part:
            questions[prediction.protocol, prediction.sample_id, prediction.turn].append(prediction)
    scores: dict[tuple[str, str, int], list[Score]] = defaultdict(list)
    for score in scored.scores:
        if part is None or score.sample_id in part:
            scores[score.protocol, score.sample_id, score.turn].append(score)
    first, is_verdict = _text_metric(scored)
    for (protocol, sample_id, turn), predictions in questions.items():
        question_scores = tuple(scores[protocol, sample_id, turn])
        value = next((score.value for score in question_scores if score.metric == first), None)
        answer = scored.answers.get((sample_id, turn))
        outcomes = [outcome_of(p, answer, value, is_verdict) for p in predictions]
        worst = min(outcomes, key=OUTCOMES.index)
        yield GalleryEntry(
            model, scored, protocol, scored.samples[sample_id], turn, worst,
            tuple(predictions), predictions[outcomes.index(worst)], question_scores,
        )  # fmt: skip


def _pick(entries: Sequence[GalleryEntry], not_right: int, right: int) -> list[GalleryEntry]:
    """At most this many of each, protocols and outcomes taking turns; texts with the lowest scores first."""
    buckets: dict[tuple[int, str], list[GalleryEntry]] = defaultdict(list)
    for entry in entries:
        buckets[OUTCOMES.index(entry.outcome), entry.protocol].append(entry)
    for (outcome, _), bucket in buckets.items():
        if OUTCOMES[outcome] == "scored":
            bucket.sort(key=_value)
    ordered = [buckets[key] for key in sorted(buckets)]
    good = [bucket for bucket in ordered if bucket[0].outcome == "right"]
    bad = [bucket for bucket in ordered if bucket[0].outcome != "right"]
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
            if key in keys and (exchange.response.error is None or request.variant not in exchanges[i, key]):
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
