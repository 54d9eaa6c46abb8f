"""Read the replies of a run from its journals, part by part: first by the extractor's rules, then by reading stages.

A first pass over the journals (`index_journals`) counts requests and notes the positions of the exchanges of each part.
The parts are then read one after the other (`PartReader`).

In some protocols the model answers a question in several steps, each of which is a request. The journal contains the
steps, and this module combines them into the answer to which they led (`MultiStepAnswers`).
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.extraction.thoughts import split_thoughts
from snellen.metrics.questions import AnswerSequence
from snellen.protocols.base import (
    Conclude,
    Conclusion,
    declaration_of,
    duplicate_presentation,
    labelled_declaration,
    parse_protocol,
)
from snellen.protocols.prediction import LikelihoodRule, predict, predict_conclusion
from snellen.records import ContinuationScore, Exchange, Prediction, Response, Sample, Turn, Variant
from snellen.runs.journal import JournalReader, numbered_journals, read_entries, read_exchanges
from snellen.runs.mending import check_matches_sample
from snellen.runs.run_folder import RunManifest
from snellen.scoring.request_costs import (
    CostTally,
    MultiStepCost,
    RequestCost,
    RoleTally,
    RoleUse,
    multi_step_cost,
    unanswered_requests,
)
from snellen.scoring.unparsed import NamedStage, UnparsedReply


class MultiStepAnswer(Struct, frozen=True):
    """The answer to one sample under a protocol in several steps."""

    protocol: str
    sample: Sample
    conclusion: Conclusion | None
    """None if steps are missing, as in a run that was stopped."""
    cost: MultiStepCost
    answered_steps: AnswerSequence


class MultiStepAnswers:
    """Collects the steps of answers in several steps. If a step was answered several times, the last reply counts."""

    def __init__(self, protocols: Sequence[str]) -> None:
        """Prepare to collect the steps of answers that a model gives in several steps.

        Args:
            protocols: The labels of the run's protocols.
        """
        # By protocol, the function that returns the answer to which some steps lead.
        self._conclude: dict[str, Conclude] = {}
        for label in protocols:
            conclude = labelled_declaration(label).conclude
            if conclude:
                self._conclude[label] = conclude
        self._steps: dict[tuple[str, str, str], dict[Variant, Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Add one step of an answer: a request with its response. A failure does not replace an earlier response."""
        request = exchange.request
        key = (exchange.protocol, request.benchmark, request.sample_id)
        steps = self._steps.setdefault(key, {})
        if exchange.response.error is None or request.variant not in steps:
            steps[request.variant] = exchange

    def begun(self, samples: Mapping[str, Mapping[str, Sample]]) -> Iterator[MultiStepAnswer]:
        """Yield the answer to each sample of which at least one step is in the journals, even if steps are missing.

        Args:
            samples: The samples by benchmark and identifier.
        """
        for (protocol, benchmark, sample_id), step_by_variant in self._steps.items():
            conclude = self._conclude.get(protocol)
            if conclude is None:
                continue
            steps = steps_in_order(step_by_variant.values())
            sample = samples[benchmark][sample_id]
            conclusion = conclude(sample, steps)
            yield MultiStepAnswer(
                protocol=protocol,
                sample=sample,
                conclusion=conclusion,
                cost=multi_step_cost(steps),
                answered_steps=_answered_steps(steps, has_ended=conclusion is not None),
            )


def with_conclusions(
    exchanges: Iterable[Exchange],
    protocols: Sequence[str],
    samples: Mapping[str, Mapping[str, Sample]],
) -> Iterator[Exchange]:
    """Yield the exchanges of a run, with all steps towards an answer replaced by one exchange with the answer.

    In some protocols the model answers a question in several steps. Other exchanges are yielded unchanged and come
    first. If the steps ended without an answer, the exchange has an empty reply.

    Args:
        exchanges: Requests with their responses.
        protocols: The labels of the run's protocols.
        samples: The samples by benchmark and identifier. Steps of other samples are dropped.
    """
    answers = MultiStepAnswers(protocols)
    for exchange in exchanges:
        if not exchange.request.variant.step:
            yield exchange
        elif exchange.request.sample_id in samples.get(exchange.request.benchmark, {}):
            answers.add(exchange)
    for answer in answers.begun(samples):
        conclusion = answer.conclusion
        if conclusion is None:
            continue
        response = Response(text="") if conclusion.undecided else conclusion.response
        yield Exchange(answer.protocol, conclusion.request, response)


def steps_in_order(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Return the steps of an answer to one sample under one protocol, sorted by the number of the step."""
    return sorted(exchanges, key=_step_number)


def _step_number(exchange: Exchange) -> int:
    """Return the number of a step, from 1; 0 for an exchange that is not a step."""
    step = exchange.request.variant.step
    return step.number if step else 0


def _answered_steps(steps: Sequence[Exchange], *, has_ended: bool) -> AnswerSequence:
    """Count the steps of an answer that received a response, up to the first that failed.

    Args:
        steps: The steps in their order.
        has_ended: Whether the steps led to an answer. If not, the sequence is broken off.
    """
    n_answered = 0
    for step in steps:
        if step.response.error is not None:
            break
        n_answered += 1
    has_failed_step = n_answered < len(steps)
    return AnswerSequence(n_answered, broken=has_failed_step or not has_ended)


Question = tuple[str, str, int]
"""Protocol, sample, round."""
PredictionsByQuestion = dict[Question, dict[Variant, Prediction]]
"""Question -> presentation -> prediction."""
PartKey = tuple[str, int]
"""Benchmark, and number of the part."""


class ReadingRules(Struct, frozen=True):
    """How the replies to a benchmark are read."""

    extractor: str
    """Reads the text of a reply."""
    rule: LikelihoodRule
    """Ranks options by log-likelihood."""
    keeps_replies: bool = False
    """Whether a prediction of an option keeps the text of the reply, for metrics that need it."""


class JournalIndex(Struct, frozen=True):
    """Counts of the requests of a run, and the positions of the exchanges of each part in its journals."""

    journals: Sequence[Path]
    positions: Mapping[PartKey, array[int]]
    """Positions for `JournalReader.read`."""
    distinct_requests: int
    reused: int
    roles: tuple[RoleUse, ...]
    requests: tuple[RequestCost, ...]


class PartPredictions(Struct):
    """The predictions for some samples of a benchmark (a part), read from the journals."""

    predictions: PredictionsByQuestion
    uncertain_replies: dict[int, UnparsedReply]
    """Replies whose reading is not certain, by `id()` of their prediction."""
    costs: dict[Question, MultiStepCost]
    """Costs of the answers of protocols in several steps."""
    answered_steps: dict[Question, AnswerSequence]
    """For protocols in several steps, how many steps were answered before the first failure."""

    def note_doubt(self, prediction: Prediction, question: Turn, response: Response) -> None:
        """Add a reply to `uncertain_replies` if the extractor could not read with certainty which option it chooses.

        Later stages of reading (a judge model or a random guess) get these replies. There is nothing to read in a reply
        that stands for steps which ended without an answer.

        Args:
            prediction: What the extractor read.
            question: The question, which may have no options.
            response: The response of the model.
        """
        is_reply = prediction.method == "generation" and prediction.error is None
        if not is_reply or prediction.reason == "undecided":
            return
        if question.options and prediction.confidence != "certain":
            unparsed = UnparsedReply(prediction, question, response.text or "")
            self.uncertain_replies[id(prediction)] = unparsed


def index_journals(
    folder: Path, manifest: RunManifest, parts: Mapping[str, Mapping[str, int]]
) -> JournalIndex:
    """Go through the journals of a run once, to count requests and to note where the replies of each part are.

    The samples of a benchmark are scored in parts, to save memory.

    Args:
        folder: The folder of the run.
        manifest: Its manifest.
        parts: The number of the part of each sample, by benchmark and sample identifier.

    Raises:
        StoreError: A line is not a request with a response of this run.
    """
    positions_by_part: defaultdict[PartKey, array[int]] = defaultdict(lambda: array("q"))
    roles = RoleTally(manifest)
    requests = CostTally()
    n_reused = 0
    failures = array("q")
    journals = numbered_journals(folder)
    for position, entry in read_entries(journals, manifest.authors):
        request = entry.request
        n_reused += entry.reused
        roles.add(entry)
        part_number = parts.get(request.benchmark, {}).get(request.sample_id)
        if part_number is None:
            continue  # asked under a larger limit or another condition
        requests.add(entry)
        if entry.response.error is not None:
            failures.append(position)
        if not request.variant.baseline:  # `_Baselines` reads the baselines
            positions_by_part[request.benchmark, part_number].append(position)
    unanswered = unanswered_requests(journals, manifest.authors, manifest.by_sample, failures)
    uses = roles.uses(unanswered)
    n_asked = sum(use.answered + use.failed for use in uses)
    return JournalIndex(
        journals=journals,
        positions=dict(positions_by_part),
        distinct_requests=n_asked,
        reused=n_reused,
        roles=uses,
        requests=requests.costs(unanswered),
    )


class PartReader:
    """Reads the exchanges of a run, one part of a benchmark at a time."""

    def __init__(self, folder: Path, manifest: RunManifest, journals: Sequence[Path]) -> None:
        """Prepare to read the exchanges of a run.

        Args:
            folder: The folder of the run.
            manifest: The manifest of the run.
            journals: The journals, in the order to which positions refer.
        """
        self._folder = folder
        self._protocols = manifest.protocols
        self._journals = journals
        self._baselines = _Baselines(folder, manifest.protocols)

    def read(
        self,
        benchmark: str,
        samples: Mapping[str, Sample],
        positions: Sequence[int],
        rules: ReadingRules,
    ) -> PartPredictions:
        """Read what the model answered to some samples of a benchmark.

        Args:
            benchmark: Name of the benchmark.
            samples: The samples by identifier.
            positions: Positions of their exchanges in the journals.
            rules: The extractor and the rule for likelihoods.

        Raises:
            StoreError: An exchange does not match its sample.
            DataError: Two different presentations have the same `Variant`.
        """
        part = PartPredictions(predictions={}, uncertain_replies={}, costs={}, answered_steps={})
        multi_step_answers = MultiStepAnswers(self._protocols)
        shared = _SharedObjects()
        with JournalReader(self._journals) as journal:
            for position in positions:
                exchange = journal.read(position)
                sample = samples[exchange.request.sample_id]
                check_matches_sample(self._folder, exchange, sample)
                if exchange.request.variant.step:
                    multi_step_answers.add(exchange)
                else:
                    self._add_reply(part, exchange, sample, rules, shared)

        for answer in multi_step_answers.begun({benchmark: samples}):
            key = (answer.protocol, answer.sample.id, 0)
            part.answered_steps[key] = answer.answered_steps
            conclusion = answer.conclusion
            if conclusion is None:
                continue
            question = answer.sample.rounds[0]
            prediction = predict_conclusion(answer.protocol, question, conclusion, rules.extractor)
            part.predictions[key] = {prediction.variant: prediction}
            part.note_doubt(prediction, question, conclusion.response)
            if conclusion.response.error is None:
                part.costs[key] = answer.cost
        return part

    def _add_reply(
        self,
        part: PartPredictions,
        exchange: Exchange,
        sample: Sample,
        rules: ReadingRules,
        shared: _SharedObjects,
    ) -> None:
        """Read the reply to a single request, and add the prediction to a part.

        Args:
            part: The predictions of the part, which are changed in place.
            exchange: The request with its response.
            sample: The sample of the request.
            rules: The extractor and the rule for likelihoods.
            shared: Strings and presentations that predictions share.

        Raises:
            DataError: A different request has the same `Variant`.
        """
        request = exchange.request
        question = sample.rounds[request.variant.turn]
        prediction = predict(
            exchange.protocol,
            question,
            request,
            exchange.response,
            extractor=rules.extractor,
            rule=rules.rule,
            baseline=self._baselines.scores_for(exchange),
        )
        if rules.keeps_replies and prediction.text is None and prediction.error is None:
            reply = split_thoughts(exchange.response.text or "").answer
            prediction = replace(prediction, text=reply)
        prediction = shared.share(prediction, sample)
        key = (prediction.protocol, sample.id, request.variant.turn)
        prediction_by_variant = part.predictions.setdefault(key, {})
        earlier = prediction_by_variant.get(request.variant)
        if earlier is not None and earlier.key != prediction.key:
            raise duplicate_presentation(exchange.protocol, request)
        # The same request was sent again, after a failure or by another worker. The last reply counts.
        if prediction.error is None or earlier is None:
            prediction_by_variant[prediction.variant] = prediction
            part.note_doubt(prediction, question, exchange.response)


_BaselineKey = tuple[str, str, str, Variant]
"""Protocol, benchmark, sample, presentation."""


class _Baselines:
    """Scores of baseline requests, which some protocols subtract from those of the options.

    Reads the journals only if a protocol among `labels` declares baselines.
    """

    def __init__(self, folder: Path, labels: Iterable[str]) -> None:
        """Read the baseline scores of a run: how likely each option is without the question or the image.

        Args:
            folder: The folder of the run.
            labels: The labels of its protocols. If none of them uses baselines, the journal is not read.
        """
        self._protocols_with_baselines: set[str] = set()
        for label in labels:
            if declaration_of(parse_protocol(label)).baselines:
                self._protocols_with_baselines.add(label)
        self._scores: dict[_BaselineKey, tuple[ContinuationScore, ...]] = {}
        if not self._protocols_with_baselines:
            return
        for exchange in read_exchanges(folder):
            is_baseline = exchange.request.variant.baseline
            if is_baseline and exchange.response.error is None:
                self._scores[_baseline_key(exchange)] = exchange.response.scores

    def scores_for(self, exchange: Exchange) -> tuple[ContinuationScore, ...] | None:
        """Return the baseline scores that belong to a request for the likelihood of options.

        Returns:
            The score of each option; an empty tuple if the baseline request has no reply, and None if the protocol uses no
            baselines.
        """
        if exchange.protocol not in self._protocols_with_baselines:
            return None
        return self._scores.get(_baseline_key(exchange), ())


def _baseline_key(exchange: Exchange) -> _BaselineKey:
    """Return a key that is equal for a request and for its baseline request."""
    request = exchange.request
    variant = replace(request.variant, baseline="")
    return exchange.protocol, request.benchmark, request.sample_id, variant


MAX_SHARED_VARIANTS = 10_000
"""Presentations that are remembered at most. If there are more, they differ for every question."""


class _SharedObjects:
    """Replaces equal strings and presentations of predictions by one object, to save memory."""

    def __init__(self) -> None:
        self._variants: dict[Variant, Variant] = {}
        self._protocols: dict[str, str] = {}

    def share(self, prediction: Prediction, sample: Sample) -> Prediction:
        """Return an equal prediction that refers to the strings and the `Variant` of earlier predictions, to save memory."""
        if len(self._variants) > MAX_SHARED_VARIANTS:
            self._variants.clear()
        return replace(
            prediction,
            protocol=self._protocols.setdefault(prediction.protocol, prediction.protocol),
            benchmark=sample.benchmark,
            sample_id=sample.id,
            variant=self._variants.setdefault(prediction.variant, prediction.variant),
        )


def run_reading_stages(parts: Sequence[PartPredictions], stages: Sequence[NamedStage]) -> None:
    """Run further stages of reading, such as a judge model, on replies in which the extractor found no certain option.

    Each stage gets the replies of all parts that it accepts and that the stages before it left uncertain. The
    predictions in `parts` are replaced in place.
    """
    for stage in stages:
        uncertain = list(_uncertain_replies(parts, stage))
        new_predictions = stage.read([item.reply for item in uncertain])
        for item, new_prediction in zip(uncertain, new_predictions, strict=True):
            item.prediction_by_variant[item.variant] = new_prediction
            new_reply = replace(item.reply, prediction=new_prediction)
            item.part.uncertain_replies[id(new_prediction)] = new_reply


class _UncertainReply(NamedTuple):
    """A reply that a stage is to read again, and where its prediction is stored."""

    reply: UnparsedReply
    part: PartPredictions
    prediction_by_variant: dict[Variant, Prediction]
    """The predictions on its question, which are part of those in `part`."""
    variant: Variant


def _uncertain_replies(
    parts: Sequence[PartPredictions], stage: NamedStage
) -> Iterator[_UncertainReply]:
    """Yield the uncertain replies of some parts that a stage accepts."""
    for part in parts:
        for prediction_by_variant in part.predictions.values():
            for variant, prediction in prediction_by_variant.items():
                # A presentation may have been answered twice: `id` finds the reply that counts.
                reply = part.uncertain_replies.get(id(prediction))
                if reply is not None and stage.takes(prediction):
                    yield _UncertainReply(reply, part, prediction_by_variant, variant)


def predictions_in_order(
    prediction_by_variant: Mapping[Variant, Prediction],
) -> tuple[Prediction, ...]:
    """Sort the predictions on one question by the number of their presentation, and then by its content.

    The order therefore does not depend on the order in which replies arrived.
    """
    if len(prediction_by_variant) < 2:
        return tuple(prediction_by_variant.values())

    def position(variant: Variant) -> tuple[int, bytes]:
        return variant.test, msgspec.json.encode(variant)

    variants = sorted(prediction_by_variant, key=position)
    return tuple(prediction_by_variant[variant] for variant in variants)
