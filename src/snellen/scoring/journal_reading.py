"""How the replies of a run are read: its journals part by part, each part by the rules, then by the reading stages.

A journal is looked through once, for what was asked in all and where the exchanges of each part stand; then the parts
are read one after the other.

Of a protocol of several steps the journal has the steps: here they become the answers to which they led.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.metrics.questions import AnswersInARow
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
from snellen.runs.mending import check_fits
from snellen.runs.run_folder import RunManifest
from snellen.scoring.request_costs import (
    CostTally,
    RequestCost,
    RoleTally,
    RoleUse,
    TalkCost,
    talk_cost,
    unanswered_requests,
)
from snellen.scoring.unparsed import NamedStage, UnparsedReply


class Talk(Struct, frozen=True):
    """The steps of one sample under one protocol."""

    protocol: str
    sample: Sample
    conclusion: Conclusion | None
    """None of a talk that has not come to its end, as in a run that was stopped."""
    cost: TalkCost
    row: AnswersInARow


class Talks:
    """Collects steps. Of several answers to one step the last that came counts."""

    def __init__(self, protocols: Sequence[str]) -> None:
        declared = {label: labelled_declaration(label).conclude for label in protocols}
        self._conclude: dict[str, Conclude] = {
            label: conclude for label, conclude in declared.items() if conclude
        }
        self._steps: dict[tuple[str, str, str], dict[Variant, Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        request = exchange.request
        steps = self._steps.setdefault(
            (exchange.protocol, request.benchmark, request.sample_id), {}
        )
        if exchange.response.error is None or request.variant not in steps:
            steps[request.variant] = exchange

    def begun(self, samples: Mapping[str, Mapping[str, Sample]]) -> Iterator[Talk]:
        """All talks of protocols that say how an answer follows."""
        for (protocol, benchmark, sample_id), by_variant in self._steps.items():
            if protocol in self._conclude:
                steps, sample = steps_in_order(by_variant.values()), samples[benchmark][sample_id]
                conclusion = self._conclude[protocol](sample, steps)
                row = _answers_in_a_row(steps, has_ended=conclusion is not None)
                yield Talk(protocol, sample, conclusion, talk_cost(steps), row)


def with_conclusions(
    exchanges: Iterable[Exchange],
    protocols: Sequence[str],
    samples: Mapping[str, Mapping[str, Sample]],
) -> Iterator[Exchange]:
    """The presentations of a run, in order of arrival, and in place of steps the conclusions to which they led.

    A talk that ended without an answer replies nothing.
    """
    talks = Talks(protocols)
    for exchange in exchanges:
        if not exchange.request.variant.step:
            yield exchange
        elif exchange.request.sample_id in samples.get(exchange.request.benchmark, {}):
            talks.add(exchange)
    for talk in talks.begun(samples):
        if (conclusion := talk.conclusion) is not None:
            response = Response(text="") if conclusion.undecided else conclusion.response
            yield Exchange(talk.protocol, conclusion.request, response)


def steps_in_order(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """The steps of one sample under one protocol as they were asked."""
    return sorted(exchanges, key=_step_number)


def _step_number(exchange: Exchange) -> int:
    step = exchange.request.variant.step
    return step.number if step else 0


def _answers_in_a_row(steps: Sequence[Exchange], *, has_ended: bool) -> AnswersInARow:
    came = sum(1 for _ in takewhile(lambda step: step.response.error is None, steps))
    return AnswersInARow(came, broken=came < len(steps) or not has_ended)


Question = tuple[str, str, int]
"""Protocol, sample, round."""
Presented = dict[Question, dict[Variant, Prediction]]
"""Question -> presentation -> prediction."""
PartKey = tuple[str, int]
"""Benchmark, and number of the part."""


class ReadingRules(Struct, frozen=True):
    """By what the responses to a benchmark are read."""

    extractor: str
    rule: LikelihoodRule


class Asked(Struct, frozen=True):
    """What was asked in a run in all, and where the exchanges of each part of its samples stand."""

    journals: Sequence[Path]
    places: Mapping[PartKey, array[int]]
    asked: int
    reused: int
    roles: tuple[RoleUse, ...]
    requests: tuple[RequestCost, ...]


class PartRead(Struct):
    """What the journal holds of a part of a benchmark, as read by the rules."""

    presented: Presented
    doubtful: dict[int, UnparsedReply]
    """Replies whose reading is not certain, by the id of their prediction."""
    costs: dict[Question, TalkCost]
    """What the answers took that several steps led to."""
    rows: dict[Question, AnswersInARow]
    """How many of these steps were answered one after the other."""

    def note_doubt(self, prediction: Prediction, question: Turn, response: Response) -> None:
        """Keep the reply if something may read on in it; in the doubt with which a talk ended there is no answer."""
        if (
            prediction.method != "generation"
            or prediction.error is not None
            or prediction.reason == "undecided"
        ):
            return
        if question.options and prediction.confidence != "certain":
            self.doubtful[id(prediction)] = UnparsedReply(prediction, question, response.text or "")


def look_through(
    folder: Path, manifest: RunManifest, parts: Mapping[str, Mapping[str, int]]
) -> Asked:
    """What was asked, and where; `parts` has the number of the part of each sample, by benchmark and id.

    Raises StoreError for a line that is not an exchange of this run.
    """
    places: defaultdict[PartKey, array[int]] = defaultdict(lambda: array("q"))
    roles, requests = RoleTally(manifest), CostTally()
    reused, failures = 0, array("q")
    journals = numbered_journals(folder)
    for place, entry in read_entries(journals, manifest.authors):
        request = entry.request
        reused += entry.reused
        roles.add(entry)
        part = parts.get(request.benchmark, {}).get(request.sample_id)
        if part is None:
            continue  # asked under a larger limit or another condition
        requests.add(entry)
        if entry.response.error is not None:
            failures.append(place)
        if not request.variant.baseline:  # else found by `_Baselines`
            places[request.benchmark, part].append(place)
    unanswered = unanswered_requests(journals, manifest.authors, manifest.by_sample, failures)
    uses = roles.uses(unanswered)
    n_asked = sum(use.answered + use.failed for use in uses)
    return Asked(journals, dict(places), n_asked, reused, uses, requests.costs(unanswered))


class PartReader:
    """Reads the exchanges of parts of a run by the rules."""

    def __init__(self, folder: Path, manifest: RunManifest, journals: Sequence[Path]) -> None:
        self._folder, self._protocols, self._journals = folder, manifest.protocols, journals
        self._baselines = _Baselines(folder, manifest.protocols)

    def read(
        self,
        benchmark: str,
        samples: Mapping[str, Sample],
        places: Sequence[int],
        reading: ReadingRules,
    ) -> PartRead:
        """How the exchanges at these places, which are about samples of a benchmark, are read.

        Raises StoreError for an exchange that is not about its sample, DataError for two presentations that are alike.
        """
        part = PartRead({}, {}, {}, {})
        talks, shared = Talks(self._protocols), _Shared()
        with JournalReader(self._journals) as journal:
            for place in places:
                exchange = journal.read(place)
                request = exchange.request
                sample = samples[request.sample_id]
                check_fits(self._folder, exchange, sample)
                if request.variant.step:
                    talks.add(exchange)
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
                tests = part.presented.setdefault(
                    (prediction.protocol, sample.id, request.variant.turn), {}
                )
                earlier = tests.get(request.variant)
                if earlier is not None and earlier.key != prediction.key:
                    raise duplicate_presentation(exchange.protocol, request)
                # The same request again, after a failure or by another worker: the last answer that came counts.
                if prediction.error is None or earlier is None:
                    tests[prediction.variant] = prediction
                    part.note_doubt(prediction, question, exchange.response)
        for talk in talks.begun({benchmark: samples}):
            key, conclusion = (talk.protocol, talk.sample.id, 0), talk.conclusion
            part.rows[key] = talk.row
            if conclusion is None:
                continue
            question = talk.sample.rounds[0]
            prediction = predict_conclusion(talk.protocol, question, conclusion, reading.extractor)
            part.presented[key] = {prediction.variant: prediction}
            part.note_doubt(prediction, question, conclusion.response)
            if conclusion.response.error is None:
                part.costs[key] = talk.cost
        return part


_BaselinePlace = tuple[str, str, str, Variant]
"""Protocol, benchmark, sample, presentation."""


class _Baselines:
    """The baselines of the protocols among `labels` that ask for them; the journal is read only for those."""

    def __init__(self, folder: Path, labels: Iterable[str]) -> None:
        self._asking = {
            label for label in labels if declaration_of(parse_protocol(label)).baselines
        }
        self._scores: dict[_BaselinePlace, tuple[ContinuationScore, ...]] = {}
        for exchange in read_exchanges(folder) if self._asking else ():
            if exchange.request.variant.baseline and exchange.response.error is None:
                self._scores[_baseline_place(exchange)] = exchange.response.scores

    def of(self, exchange: Exchange) -> tuple[ContinuationScore, ...] | None:
        """What to subtract: empty when it never came, None when the protocol asks for no baseline."""
        return (
            self._scores.get(_baseline_place(exchange), ())
            if exchange.protocol in self._asking
            else None
        )


def _baseline_place(exchange: Exchange) -> _BaselinePlace:
    """The presentation that an exchange is of, or is the baseline of."""
    request = exchange.request
    return (
        exchange.protocol,
        request.benchmark,
        request.sample_id,
        replace(request.variant, baseline=""),
    )


MOST_SHARED = 10_000
"""Presentations that differ for every question are not worth remembering."""


class _Shared:
    """What thousands of predictions have in common, kept once: journals spell it out in every line."""

    def __init__(self) -> None:
        self._variants: dict[Variant, Variant] = {}
        self._protocols: dict[str, str] = {}

    def one(self, prediction: Prediction, sample: Sample) -> Prediction:
        if len(self._variants) > MOST_SHARED:
            self._variants.clear()
        return replace(
            prediction,
            protocol=self._protocols.setdefault(prediction.protocol, prediction.protocol),
            benchmark=sample.benchmark,
            sample_id=sample.id,
            variant=self._variants.setdefault(prediction.variant, prediction.variant),
        )


def read_on(parts: Sequence[PartRead], stages: Sequence[NamedStage]) -> None:
    """Let each stage in turn read the replies that it takes, and put its predictions in their place."""
    for stage in stages:
        entries = []
        for part in parts:
            for tests in part.presented.values():
                # A presentation that was answered twice counts as it was answered last.
                for test, prediction in tests.items():
                    reply = part.doubtful.get(id(prediction))
                    if reply is not None and stage.takes(prediction):
                        entries.append((part, tests, test, reply))

        predictions = stage.read([reply for *_, reply in entries])
        for (part, tests, test, reply), prediction in zip(entries, predictions, strict=True):
            tests[test] = prediction
            part.doubtful[id(prediction)] = replace(reply, prediction=prediction)


def in_order(tests: Mapping[Variant, Prediction]) -> tuple[Prediction, ...]:
    """By number, then by content: the same however a run was interrupted."""
    if len(tests) < 2:
        return tuple(tests.values())
    return tuple(
        tests[variant] for variant in sorted(tests, key=lambda v: (v.test, msgspec.json.encode(v)))
    )
