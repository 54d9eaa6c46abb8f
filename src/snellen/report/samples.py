"""Choose the samples that a report shows: some for each model, benchmark and protocol, wrong replies first.

The samples of a large benchmark are chosen from a random part of it, which is the same each time and for each model.
Entries are chosen from predictions and scores. Then the journal is read once, keeping only their exchanges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from snellen.common.decoding import data_uri, to_plain_file
from snellen.common.seeds import rng_for
from snellen.errors import DataError
from snellen.protocols.base import Declaration, labelled_declaration
from snellen.records import Answer, Exchange, Prediction, Sample, Score, Variant
from snellen.report.reported_runs import ReportedRun, question_metric
from snellen.runs.journal import read_exchanges
from snellen.runs.own_questions import RunImages
from snellen.scoring.journal_reading import steps_in_order
from snellen.scoring.scored_run import ScoredBenchmark

Outcome = Literal[
    "wrong", "unparsed", "error", "scored", "answer not known", "right so far", "right"
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""Outcomes in order of interest.

A text reply that is neither right nor wrong is `scored`. A question whose replies are right but incomplete is `right so
far`.
"""
_RIGHT_OUTCOMES: tuple[Outcome, ...] = ("right", "right so far")

ResponseKey = tuple[str, str, int]
"""Protocol, sample id and turn of a question."""


class GalleryLimits(Struct, frozen=True):
    """Limits on what a page contains."""

    not_right: int = 12
    """Questions per model and benchmark that are not right, over all protocols."""
    right: int = 4
    """Questions per model and benchmark that are right, over all protocols."""
    entries: int = 1500
    """Questions in total."""
    image_bytes: int = 24_000_000
    """Bytes of all image files; base64 takes a third more."""


DEFAULT_LIMITS = GalleryLimits()
CROWDED_PAGE_LIMITS = GalleryLimits(entries=160, image_bytes=250_000)
"""Limits of a page whose tables and charts take most of the 5 MB that can be sent by mail."""
MAX_SAMPLES_TO_CHOOSE_FROM = 20_000
"""Up to this many samples, all samples of a benchmark may be shown."""
RANDOM_PART_SIZE = 2_000
"""Samples of a larger benchmark from which the shown ones are chosen."""
CROWDED_PAGE_CELLS = 300
"""From this many pairs of a model and a benchmark on, a page is crowded."""


class ExchangeKey(Struct, frozen=True):
    """Key of the exchange of a presentation in a run, or of all steps that led to an answer."""

    protocol: str
    benchmark: str
    sample_id: str
    variant: Variant | None
    """None for all steps of the sample."""


class GalleryEntry(Struct, frozen=True):
    """A question under a protocol of a model."""

    model: int
    """Index of its run."""
    scored: ScoredBenchmark
    protocol: str
    sample: Sample
    turn: int
    outcome: Outcome
    predictions: tuple[Prediction, ...]
    shown_prediction: Prediction
    """The presentation that is shown in full: the first with the worst outcome."""
    scores: tuple[Score, ...]
    rank: int = 0
    """Position among the entries of its model and benchmark."""

    @property
    def answer(self) -> Answer | None:
        """The ground truth, or None if it is hidden."""
        return self.scored.answers.get((self.sample.id, self.turn))

    @property
    def exchange_key(self) -> ExchangeKey:
        """Key of its exchanges in the journal."""
        has_steps = labelled_declaration(self.protocol).conclude is not None
        variant = None if has_steps else self.shown_prediction.variant
        return ExchangeKey(self.protocol, self.sample.benchmark, self.sample.id, variant)


class Gallery(Struct, frozen=True):
    """The chosen entries, those that are not right first, and what was left out."""

    entries: tuple[GalleryEntry, ...]
    exchanges: dict[tuple[int, ExchangeKey], list[Exchange]]
    """Exchanges by model and key: one for a presentation, or all steps that led to an answer, in order."""
    images: dict[str, str]
    """Data URIs by digest."""
    missing: frozenset[str]
    """Digests of images that are no longer in their benchmark's folder."""
    left_out: dict[Outcome, int]
    """Number of questions that are not shown."""


def choose_gallery(
    reported_runs: Sequence[ReportedRun], limits: GalleryLimits | None = None
) -> Gallery:
    """Choose the sample questions that a report shows, and read their prompts, replies and images.

    Each pair of a model and a benchmark (a cell) gets an equal share of the places on the page. At most a quarter of
    them is for questions that were answered correctly. Other outcomes, such as wrong or unparsed replies, come first.

    Args:
        reported_runs: The runs of the report.
        limits: Limits of the page; by default they depend on the number of models and benchmarks.
    """
    n_cells = max(sum(len(reported_run.run.benchmarks) for reported_run in reported_runs), 1)
    if limits is None:
        limits = DEFAULT_LIMITS if n_cells < CROWDED_PAGE_CELLS else CROWDED_PAGE_LIMITS
    n_per_cell = max(limits.entries // n_cells, 1)
    most_right = min(limits.right, n_per_cell // 4)
    most_not_right = min(limits.not_right, n_per_cell - most_right)

    chosen: list[GalleryEntry] = []
    left_out_counts: Counter[Outcome] = Counter()
    for model, reported_run in enumerate(reported_runs):
        for scored in reported_run.run.benchmarks:
            included_ids = random_part(scored)
            entries = list(question_entries(model, scored, included_ids))
            chosen.extend(_pick_shown(entries, most_not_right, most_right))
            if included_ids is None:
                left_out_counts.update(entry.outcome for entry in entries)
            else:
                left_out_counts.update(_all_outcomes(scored))
    if len(chosen) > limits.entries:
        chosen = _evenly_spaced(chosen, limits.entries)
    left_out_counts.subtract(entry.outcome for entry in chosen)

    chosen.sort(key=_display_order)
    images, missing = _read_images(reported_runs, chosen, limits.image_bytes)
    left_out = {
        outcome: left_out_counts[outcome] for outcome in OUTCOMES if left_out_counts[outcome]
    }
    return Gallery(
        entries=tuple(chosen),
        exchanges=_read_chosen_exchanges(reported_runs, chosen),
        images=images,
        missing=missing,
        left_out=left_out,
    )


def _evenly_spaced(entries: Sequence[GalleryEntry], count: int) -> list[GalleryEntry]:
    """Return `count` of the entries, at equal distances in their order.

    It is used if a page has too little space for one entry of each pair of a model and a benchmark.
    """
    indexes = [number * len(entries) // count for number in range(count)]
    return [entries[index] for index in indexes]


def _display_order(entry: GalleryEntry) -> tuple[int, int, str, int]:
    """Return the sort key of an entry on the page: by outcome, wrong ones first, then by rank, benchmark and model."""
    outcome_index = OUTCOMES.index(entry.outcome)
    return outcome_index, entry.rank, entry.sample.benchmark, entry.model


# --- outcomes --------------------------------------------------------------------------------------------------------


def outcome_of(
    prediction: Prediction, answer: Answer | None, value: float | None, is_verdict: bool
) -> Outcome:
    """Return the outcome of one reply to a question, such as `right`, `wrong` or `unparsed`.

    Args:
        prediction: What was read from the reply: an option for a multiple-choice question, a text for an open
            question.
        answer: The ground truth; None if it is hidden.
        value: The value of the question's first metric. It is needed only for open questions.
        is_verdict: Whether that metric is only 1 (right) or 0 (wrong). If it is on a scale, a reply to an open
            question is `scored`.
    """
    if prediction.error:
        return "error"
    is_open_question = prediction.text is not None
    if not is_open_question and prediction.choice is None:
        return "unparsed"
    if answer is None:
        return "answer not known"
    if not is_open_question:
        return "right" if prediction.choice in answer.options else "wrong"
    if value is None or not is_verdict:
        return "scored"
    return "right" if value == 1 else "wrong"


def question_outcome(outcomes: Sequence[Outcome], sample: Sample, declared: Declaration) -> Outcome:
    """Return the outcome of a question that has several replies: the worst outcome of a reply.

    It is `right so far` if all replies are right, but the protocol needs more of them.
    """
    worst = min(outcomes, key=OUTCOMES.index)
    if worst == "right" and len(outcomes) < declared.n_presentations(sample):
        return "right so far"
    return worst


def random_part(scored: ScoredBenchmark) -> frozenset[str] | None:
    """Return the identifiers of some random samples of a large benchmark, or None for all samples of a smaller one."""
    if len(scored.samples) <= MAX_SAMPLES_TO_CHOOSE_FROM:
        return None
    rng = rng_for(scored.spec.name, "gallery")
    return frozenset(rng.sample(sorted(scored.samples), RANDOM_PART_SIZE))


def _all_outcomes(scored: ScoredBenchmark) -> Iterator[Outcome]:
    """Yield the outcome (`right`, `wrong`, `unparsed` ...) of each question under each protocol.

    It gives the same outcomes as `question_entries` but needs less memory, so it is used to count the outcomes of large
    benchmarks.
    """
    metric, is_verdict = _text_metric(scored)
    value_by_question: dict[ResponseKey, float | None] = {}
    for score in scored.scores_of(metric):
        value_by_question[score.protocol, score.sample_id, score.turn] = score.value

    # A question has several replies if the protocol presents it several times.
    reply_outcomes_by_question: dict[ResponseKey, list[Outcome]] = defaultdict(list)
    for prediction in scored.predictions:
        question = (prediction.protocol, prediction.sample_id, prediction.turn)
        answer = scored.answers.get((prediction.sample_id, prediction.turn))
        value = value_by_question.get(question)
        outcome = outcome_of(prediction, answer, value, is_verdict)
        reply_outcomes_by_question[question].append(outcome)

    declarations: dict[str, Declaration] = {}
    for question, reply_outcomes in reply_outcomes_by_question.items():
        protocol, sample_id, _ = question
        if protocol not in declarations:
            declarations[protocol] = labelled_declaration(protocol)
        sample = scored.samples[sample_id]
        yield question_outcome(reply_outcomes, sample, declarations[protocol])


def _text_metric(scored: ScoredBenchmark) -> tuple[str, bool]:
    """Return the metric that decides whether replies to open questions of a benchmark are right.

    Returns:
        The name of the benchmark's first metric for open questions, and whether its values are verdicts. They are
        if every value is 0 (wrong) or 1 (right), and are not if the metric has a scale, as CIDEr has.
    """
    metric = question_metric(scored, has_options=False)
    is_verdict = all(score.value in (None, 0, 1) for score in scored.scores_of(metric))
    return metric, is_verdict


# --- entries ---------------------------------------------------------------------------------------------------------


def question_entries(
    model: int, scored: ScoredBenchmark, included_ids: Collection[str] | None = None
) -> Iterator[GalleryEntry]:
    """Yield what a report can show of each question under each protocol: its replies, scores and outcome.

    If a question has several replies, the one with the worst outcome is the one that is shown first.

    Args:
        model: Index of the run.
        scored: The benchmark.
        included_ids: Identifiers of the samples to include; all if None.
    """
    predictions_by_key: dict[ResponseKey, list[Prediction]] = defaultdict(list)
    for prediction in scored.predictions:
        if included_ids is None or prediction.sample_id in included_ids:
            key = (prediction.protocol, prediction.sample_id, prediction.turn)
            predictions_by_key[key].append(prediction)
    scores_by_key: dict[ResponseKey, list[Score]] = defaultdict(list)
    for score in scored.scores:
        if included_ids is None or score.sample_id in included_ids:
            scores_by_key[score.protocol, score.sample_id, score.turn].append(score)

    metric, is_verdict = _text_metric(scored)
    declarations = {
        protocol: labelled_declaration(protocol) for protocol, _, _ in predictions_by_key
    }
    for key, predictions in predictions_by_key.items():
        protocol, sample_id, turn = key
        sample = scored.samples[sample_id]
        answer = scored.answers.get((sample_id, turn))
        scores = tuple(scores_by_key[key])
        value = next((score.value for score in scores if score.metric == metric), None)
        outcomes = [outcome_of(prediction, answer, value, is_verdict) for prediction in predictions]
        worst = outcomes.index(min(outcomes, key=OUTCOMES.index))
        yield GalleryEntry(
            model=model,
            scored=scored,
            protocol=protocol,
            sample=sample,
            turn=turn,
            outcome=question_outcome(outcomes, sample, declarations[protocol]),
            predictions=tuple(predictions),
            shown_prediction=predictions[worst],
            scores=scores,
        )


def _pick_shown(
    entries: Sequence[GalleryEntry], most_not_right: int, most_right: int
) -> list[GalleryEntry]:
    """Choose some questions of one model on one benchmark to be shown.

    Questions are sorted into buckets, one for each outcome and protocol. Buckets take turns: one question of each, then
    a second one of each. Open questions that are neither right nor wrong come in the order of their scores, the lowest
    first. Each chosen question gets its position in the choice as its `rank`.

    Args:
        entries: All questions.
        most_not_right: The greatest number of questions that were not answered correctly.
        most_right: The greatest number of questions that were.
    """
    buckets: dict[tuple[int, str], list[GalleryEntry]] = defaultdict(list)
    for entry in entries:
        buckets[OUTCOMES.index(entry.outcome), entry.protocol].append(entry)

    right: list[list[GalleryEntry]] = []
    not_right: list[list[GalleryEntry]] = []
    for outcome_index, protocol in sorted(buckets):
        bucket = buckets[outcome_index, protocol]
        outcome = OUTCOMES[outcome_index]
        if outcome == "scored":
            bucket.sort(key=_first_value)
        if outcome in _RIGHT_OUTCOMES:
            right.append(bucket)
        else:
            not_right.append(bucket)
    picked = [*_interleave(not_right)[:most_not_right], *_interleave(right)[:most_right]]
    return [replace(entry, rank=rank) for rank, entry in enumerate(picked)]


def _interleave(buckets: Sequence[Sequence[GalleryEntry]]) -> list[GalleryEntry]:
    """Merge several lists of questions: the first of each list, then the second of each, and so on."""
    entries: list[GalleryEntry] = []
    for turn in zip_longest(*buckets):
        entries.extend(entry for entry in turn if entry is not None)
    return entries


def _first_value(entry: GalleryEntry) -> float:
    """Return the first value among the scores of an entry; 0 without one."""
    for score in entry.scores:
        if score.value is not None:
            return score.value
    return 0.0


# --- what the entries need -------------------------------------------------------------------------------------------


def _read_chosen_exchanges(
    reported_runs: Sequence[ReportedRun], entries: Sequence[GalleryEntry]
) -> dict[tuple[int, ExchangeKey], list[Exchange]]:
    """Read the requests and responses of the chosen questions from the journals of the runs.

    If the same request was sent several times, the last one with a reply counts, as in scoring.
    """
    exchanges: dict[tuple[int, ExchangeKey], dict[Variant, Exchange]] = defaultdict(dict)
    for model, reported_run in enumerate(reported_runs):
        keys = {entry.exchange_key for entry in entries if entry.model == model}
        if not keys:
            continue
        for exchange in read_exchanges(reported_run.run.folder):
            request = exchange.request
            variant = None if request.variant.step else request.variant
            key = ExchangeKey(exchange.protocol, request.benchmark, request.sample_id, variant)
            if key not in keys:
                continue
            exchange_by_variant = exchanges[model, key]
            if exchange.response.error is None or request.variant not in exchange_by_variant:
                exchange_by_variant[request.variant] = exchange
    return {key: steps_in_order(by_variant.values()) for key, by_variant in exchanges.items()}


def _read_images(
    reported_runs: Sequence[ReportedRun], entries: Sequence[GalleryEntry], max_bytes: int
) -> tuple[dict[str, str], frozenset[str]]:
    """Read the images of the chosen questions for the page.

    Questions that were chosen first for each model and benchmark come first. Images that exceed the limit are left out.

    Args:
        reported_runs: The runs.
        entries: The chosen questions.
        max_bytes: The greatest total size of the images.

    Returns:
        Data URIs by the digest of the image, and the digests of images that cannot be read.
    """
    stores: dict[tuple[int, str], RunImages] = {}
    for model, reported_run in enumerate(reported_runs):
        for use in reported_run.run.manifest.benchmarks:
            stores[model, use.name] = RunImages(use, reported_run.run.folder)

    uris: dict[str, str] = {}
    missing: set[str] = set()
    remaining_bytes = max_bytes
    for entry in sorted(entries, key=lambda entry: entry.rank):
        for image in entry.sample.images:
            if image.digest in uris or image.digest in missing:
                continue
            store = stores[entry.model, entry.sample.benchmark]
            try:
                media_type, content = to_plain_file(image, store.read(image))
            except DataError:
                missing.add(image.digest)
                continue
            if len(content) <= remaining_bytes:
                remaining_bytes -= len(content)
                uris[image.digest] = data_uri(media_type, content)
    return uris, frozenset(missing)
