"""Read the replies of a run from its journals, part by part: first by the extractor's rules, then by reading stages.

A first pass over the journals (`look_through`) counts requests and notes the positions of the exchanges of each part.
The parts are then read one after the other (`PartReader`).

For a protocol in several steps, the journal contains the steps. This module combines the steps of a sample, here called
a talk, into the answer to which they led.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
    """All steps of one sample under one protocol, with their conclusion."""

    protocol: str
    sample: Sample
    conclusion: Conclusion | None
    """None if the talk has not ended, as in a run that was stopped."""
    cost: MultiStepCost
    row: AnswerSequence


class MultiStepAnswers:
    """Collects the steps of talks. If a step was answered several times, the last reply counts."""

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
        """Yield each exchange in several steps that was begun, whether it is finished or not.

        In some protocols the model answers a question in several steps. They declare a function that says which reply
        the steps lead to; exchanges of other protocols are left out.
        """
        for (protocol, benchmark, sample_id), by_variant in self._steps.items():
            if protocol not in self._conclude:
                continue
            steps = steps_in_order(by_variant.values())
            sample = samples[benchmark][sample_id]
            conclusion = self._conclude[protocol](sample, steps)
            row = _answer_sequence(steps, has_ended=conclusion is not None)
            yield MultiStepAnswer(protocol, sample, conclusion, multi_step_cost(steps), row)


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
    """Return the steps of one sample under one protocol by step number."""
    return sorted(exchanges, key=_step_number)


def _step_number(exchange: Exchange) -> int:
    step = exchange.request.variant.step
    return step.number if step else 0


def _answer_sequence(steps: Sequence[Exchange], *, has_ended: bool) -> AnswerSequence:
    """Count the steps of a conversation that were answered before the first one that failed."""
    n_answered = 0
    for step in steps:
        if step.response.error is not None:
            break
        n_answered += 1
    is_broken = n_answered < len(steps) or not has_ended
    return AnswerSequence(n_answered, broken=is_broken)


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
    """Predictions for a part of a benchmark, read from the journals."""

    predictions: PredictionsByQuestion
    uncertain_replies: dict[int, UnparsedReply]
    """Replies whose reading is not certain, by `id()` of their prediction."""
    costs: dict[Question, MultiStepCost]
    """Costs of the answers of protocols in several steps."""
    rows: dict[Question, AnswerSequence]
    """For protocols in several steps, how many steps were answered before the first failure."""

    def note_doubt(self, prediction: Prediction, question: Turn, response: Response) -> None:
        """Remember a reply from which no option could be read with certainty, for a judge model or a random guess.

        A reply of several steps that ended without an answer is not remembered, because there is nothing to read in it.
        """
        is_reply = prediction.method == "generation" and prediction.error is None
        if not is_reply or prediction.reason == "undecided":
            return
        if question.options and prediction.confidence != "certain":
            self.uncertain_replies[id(prediction)] = UnparsedReply(
                prediction, question, response.text or ""
            )


def look_through(
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
        journals, dict(positions_by_part), n_asked, n_reused, uses, requests.costs(unanswered)
    )


class PartReader:
    """Reads the exchanges of a run, one part of a benchmark at a time."""

    def __init__(self, folder: Path, manifest: RunManifest, journals: Sequence[Path]) -> None:
        self._folder, self._protocols, self._journals = folder, manifest.protocols, journals
        self._baselines = _Baselines(folder, manifest.protocols)

    def read(
        self,
        benchmark: str,
        samples: Mapping[str, Sample],
        positions: Sequence[int],
        reading: ReadingRules,
    ) -> PartPredictions:
        """Read the exchanges of a part of a benchmark.

        Args:
            benchmark: Name of the benchmark.
            samples: Its samples by id.
            positions: Positions of the exchanges in the journals.
            reading: The extractor and the rule for likelihoods.

        Raises:
            StoreError: An exchange does not match its sample.
            DataError: Two different presentations have the same `Variant`.
        """
        part_predictions = PartPredictions({}, {}, {}, {})
        answers, shared = MultiStepAnswers(self._protocols), _Shared()
        with JournalReader(self._journals) as journal:
            for position in positions:
                exchange = journal.read(position)
                request = exchange.request
                sample = samples[request.sample_id]
                check_matches_sample(self._folder, exchange, sample)
                if request.variant.step:
                    answers.add(exchange)
                    continue
                question = sample.rounds[request.variant.turn]
                prediction = predict(
                    exchange.protocol,
                    question,
                    request,
                    exchange.response,
                    reading.extractor,
                    reading.rule,
                    self._baselines.of(exchange),
                )
                prediction = shared.one(prediction, sample)
                tests = part_predictions.predictions.setdefault(
                    (prediction.protocol, sample.id, request.variant.turn), {}
                )
                earlier = tests.get(request.variant)
                if earlier is not None and earlier.key != prediction.key:
                    raise duplicate_presentation(exchange.protocol, request)
                # The same request was sent again, after a failure or by another worker. The last reply counts.
                if prediction.error is None or earlier is None:
                    tests[prediction.variant] = prediction
                    part_predictions.note_doubt(prediction, question, exchange.response)
        for answer in answers.begun({benchmark: samples}):
            key, conclusion = (answer.protocol, answer.sample.id, 0), answer.conclusion
            part_predictions.rows[key] = answer.row
            if conclusion is None:
                continue
            question = answer.sample.rounds[0]
            prediction = predict_conclusion(
                answer.protocol, question, conclusion, reading.extractor
            )
            part_predictions.predictions[key] = {prediction.variant: prediction}
            part_predictions.note_doubt(prediction, question, conclusion.response)
            if conclusion.response.error is None:
                part_predictions.costs[key] = answer.cost
        return part_predictions


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
        self._asking: set[str] = set()
        for label in labels:
            if declaration_of(parse_protocol(label)).baselines:
                self._asking.add(label)
        self._scores: dict[_BaselineKey, tuple[ContinuationScore, ...]] = {}
        if not self._asking:
            return
        for exchange in read_exchanges(folder):
            is_baseline = exchange.request.variant.baseline
            if is_baseline and exchange.response.error is None:
                self._scores[_baseline_key(exchange)] = exchange.response.scores

    def of(self, exchange: Exchange) -> tuple[ContinuationScore, ...] | None:
        """Return the baseline of an exchange: empty if its reply is missing, None if the protocol uses no baseline."""
        if exchange.protocol not in self._asking:
            return None
        return self._scores.get(_baseline_key(exchange), ())


def _baseline_key(exchange: Exchange) -> _BaselineKey:
    """Return the key of a presentation, which is the same for its exchange and for its baseline."""
    request = exchange.request
    return (
        exchange.protocol,
        request.benchmark,
        request.sample_id,
        replace(request.variant, baseline=""),
    )


MOST_SHARED = 10_000
"""Presentations that are remembered at most. If there are more, they differ for every question."""


class _Shared:
    """Replaces equal strings and presentations of predictions by one object, to save memory."""

    def __init__(self) -> None:
        self._variants: dict[Variant, Variant] = {}
        self._protocols: dict[str, str] = {}

    def one(self, prediction: Prediction, sample: Sample) -> Prediction:
        """Return the prediction with texts and variant shared with equal predictions, which saves memory."""
        if len(self._variants) > MOST_SHARED:
            self._variants.clear()
        return replace(
            prediction,
            protocol=self._protocols.setdefault(prediction.protocol, prediction.protocol),
            benchmark=sample.benchmark,
            sample_id=sample.id,
            variant=self._variants.setdefault(prediction.variant, prediction.variant),
        )


def read_on(parts: Sequence[PartPredictions], stages: Sequence[NamedStage]) -> None:
    """Run further stages of reading on the replies in which the extractor found no certain option.

    A stage is for example a judge model. It gets the replies that the stages before it could not read. The predictions
    in `parts` are replaced in place.
    """
    for stage in stages:
        entries = []
        for part in parts:
            for predictions in part.predictions.values():
                # A presentation may have been answered twice: `id` finds the reply that counts.
                for presentation, prediction in predictions.items():
                    reply = part.uncertain_replies.get(id(prediction))
                    if reply is not None and stage.takes(prediction):
                        entries.append((part, predictions, presentation, reply))

        new_predictions = stage.read([reply for *_, reply in entries])
        for entry, new_prediction in zip(entries, new_predictions, strict=True):
            part, predictions, presentation, reply = entry
            predictions[presentation] = new_prediction
            part.uncertain_replies[id(new_prediction)] = replace(reply, prediction=new_prediction)


def in_order(tests: Mapping[Variant, Prediction]) -> tuple[Prediction, ...]:
    """Sort the predictions on one question by the number of their presentation, then by its content.

    The order does therefore not depend on the order in which replies arrived.
    """
    if len(tests) < 2:
        return tuple(tests.values())

    def position(presentation: Variant) -> tuple[int, bytes]:
        return presentation.test, msgspec.json.encode(presentation)

    return tuple(tests[presentation] for presentation in sorted(tests, key=position))
