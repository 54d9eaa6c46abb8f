"""From a run's journal to scores: responses are read anew and answers opened; the model is asked nothing.

Judges are asked where the caller brings a panel of them (`snellen.scoring.judges.ensemble`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen.benchmark import Benchmark
from snellen.catalogue import BenchmarkSpec, suite_facts
from snellen.catalogue.suites import AsPublished
from snellen.errors import DataError
from snellen.extraction import find_extractor
from snellen.metrics.corpus import CorpusCountMetric
from snellen.metrics.declaration import ChoiceMetric, CorpusMetric, ReplyMetric, find_metric
from snellen.protocols.base import Protocol, duplicate_presentation, parse_protocol
from snellen.protocols.prediction import LikelihoodRule, predict, predict_conclusion
from snellen.records import Prediction, Sample, Score, Turn, Variant
from snellen.runs.journal import RunManifest, read_exchanges, read_manifest
from snellen.runs.mending import check_fits
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.spec import ScoringSpec
from snellen.scoring.answers import open_answers, with_answer_tags
from snellen.scoring.baselines import Baselines
from snellen.scoring.choice_scoring import score_choice, score_choice_metric
from snellen.scoring.corpus_counts import QuestionCounts, count_questions, own_scores
from snellen.scoring.judges.ensemble import JudgeEnsemble
from snellen.scoring.judges.marking import JudgedMetric
from snellen.scoring.option_ranks import OptionRanking, score_ranks
from snellen.scoring.picture_means import PictureMean, count_over_pictures
from snellen.scoring.questions import AskedQuestion
from snellen.scoring.request_costs import CostTally, RequestCost
from snellen.scoring.role_uses import RoleTally, RoleUse
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.talks import TalkCost, Talks, score_cost
from snellen.scoring.text_scoring import DEFAULT_TEXT_METRICS, score_texts
from snellen.scoring.unparsed import NamedStage, UnparsedReply, reading_stages

Presented = dict[tuple[str, str, int], dict[Variant, Prediction]]
"""(protocol, sample, round) -> presentation -> prediction."""


DEFAULT = ScoringSpec()
MOST_SHARED = 10_000
"""Presentations that differ for every question are not worth remembering."""


def score_run(
    folder: Path, spec: ScoringSpec = DEFAULT, panel: JudgeEnsemble | None = None, *, hidden: Collection[str] = ()
) -> ScoredRun:
    """Read and score all responses of a run, whole or unfinished; `panel` reads on and gives judged metrics.

    The answers of benchmarks called one of `hidden` are not opened: they are read as those of a split whose answers
    nobody has. With `as_published` each benchmark whose suite has published tables is read and scored by their rules.

    Raises UnknownNameError for a name that nobody has, StoreError for a folder that is no run, DataError when a
    benchmark has changed since or a judged metric has no judge, and what reading stages and panel raise.
    """
    check_scoring(spec, judged=panel is not None)
    manifest = read_manifest(folder)
    opened = {use.name: reopen_benchmark(use, folder) for use in manifest.benchmarks}
    samples = {use.name: {s.id: s for s in opened[use.name].samples(use.selection)} for use in manifest.benchmarks}
    rules = {name: rules_of(one.spec, spec) for name, one in opened.items()}
    readings = {name: _reading(opened[name].spec, spec, rule) for name, rule in rules.items()}
    read = _read(folder, manifest, samples, readings)
    stages = reading_stages(spec, panel, _judge_prompts(rules, panel))
    if not any(stage.likely for stage in stages):
        read.doubtful = {key: one for key, one in read.doubtful.items() if one.prediction.choice is None}
    _read_on(read.presented, read.doubtful, stages)
    protocols = {text: parse_protocol(text) for text in manifest.protocols}
    benchmarks = tuple(
        _score_benchmark(
            _Scorable(
                opened[use.name],
                spec_by_rules(opened[use.name].spec, rules[use.name]),
                rules[use.name],
                use.name in hidden,
            ),
            samples[use.name],
            read.presented[use.name],
            read.costs[use.name],
            [protocols[text] for text in use.protocols or protocols],
            spec.metrics,
            panel,
        )
        for use in manifest.benchmarks
    )
    uses = tuple(panel.uses) if panel else ()
    names = tuple(stage.name for stage in stages)
    return ScoredRun(
        folder, manifest, spec, names, benchmarks, read.asked, read.reused, uses, read.roles, read.requests
    )


def check_scoring(spec: ScoringSpec, *, judged: bool) -> None:
    """Raise UnknownNameError for a name of scoring that nobody has, DataError for a judged metric without a judge."""
    find_extractor(spec.extractor)
    check_metrics(spec.metrics)
    for name in spec.metrics:
        if find_metric(name).computed_over == "judge" and not judged:
            raise DataError(f"the metric {name} needs a judge; name a model with --judge (judge=)")


def check_metrics(names: Iterable[str]) -> None:
    """Raise UnknownNameError for a metric that nobody has, DataError for one that is no choice of the caller."""
    for name in names:
        metric = find_metric(name)
        if metric.computed_over == "derived" or (isinstance(metric, ChoiceMetric) and metric.measure is None):
            raise DataError(f"{name} needs no asking for: it is given wherever it applies")


def rules_of(spec: BenchmarkSpec, scoring: ScoringSpec) -> AsPublished | None:
    """The rules of its suite's tables, if a benchmark is scored by them."""
    suite = suite_facts().get(spec.suite) if scoring.as_published else None
    return suite.as_published if suite else None


class _Reading(Struct, frozen=True):
    """By what the responses to a benchmark are read."""

    extractor: str
    rule: LikelihoodRule


def _reading(spec: BenchmarkSpec, scoring: ScoringSpec, rules: AsPublished | None) -> _Reading:
    rule = spec.likelihood_rule if scoring.likelihood_rule == "own" else scoring.likelihood_rule
    return _Reading(rules.extractor if rules else scoring.extractor, rule)


def _judge_prompts(rules: Mapping[str, AsPublished | None], panel: JudgeEnsemble | None) -> dict[str, str]:
    """How judges are asked about each benchmark: as its suite was published, or else as they are asked anyway."""
    if panel is None:
        return {}
    return {name: (rule.judge_prompt if rule else "") or panel.spec.prompt for name, rule in rules.items()}


def spec_by_rules(spec: BenchmarkSpec, rules: AsPublished | None) -> BenchmarkSpec:
    """The entry with the metrics that it is scored by."""
    return replace(spec, metrics=rules.metrics.get(spec.task, spec.metrics)) if rules else spec


class _Scorable(Struct, frozen=True):
    """A built benchmark, and by what it is scored."""

    benchmark: Benchmark
    spec: BenchmarkSpec
    rules: AsPublished | None
    is_hidden: bool
    """Whether its answers are not to be opened."""


class _Read(Struct):
    """What a journal holds, as read by the rules."""

    presented: dict[str, Presented]
    doubtful: dict[int, UnparsedReply]
    """Replies that the rules left open, or read as likely, by the id of their prediction."""
    costs: dict[str, dict[tuple[str, str, int], TalkCost]]
    """What the answers took that several steps led to, by benchmark and question."""
    roles: tuple[RoleUse, ...] = ()
    requests: tuple[RequestCost, ...] = ()
    asked: int = 0
    reused: int = 0


def _read(
    folder: Path, manifest: RunManifest, samples: dict[str, dict[str, Sample]], readings: Mapping[str, _Reading]
) -> _Read:
    read = _Read({name: {} for name in samples}, {}, {name: {} for name in samples})
    roles, requests, talks = RoleTally(manifest), CostTally(), Talks(manifest.protocols)
    baselines, shared = Baselines(folder, manifest.protocols), _Shared()
    for exchange in read_exchanges(folder):
        request = exchange.request
        read.asked += not exchange.reused
        read.reused += exchange.reused
        sample = samples.get(request.benchmark, {}).get(request.sample_id)
        roles.add(exchange)
        if sample is not None:
            requests.add(exchange)
        if sample is None or request.variant.baseline:
            continue  # asked under a larger limit or another condition; or found by `baselines`
        check_fits(folder, exchange, sample)
        if request.variant.step:
            talks.add(exchange)
            continue
        question, reading = sample.rounds[request.variant.turn], readings[request.benchmark]
        prediction = predict(
            exchange.protocol,
            question,
            request,
            exchange.response,
            reading.extractor,
            reading.rule,
            baselines.of(exchange),
        )
        prediction = shared.one(prediction, sample)
        key = prediction.protocol, sample.id, request.variant.turn
        tests = read.presented[request.benchmark].setdefault(key, {})
        earlier = tests.get(request.variant)
        if earlier is not None and earlier.key != prediction.key:
            raise duplicate_presentation(exchange.protocol, request)
        # The same request again, after a failure or by another worker: the last answer that came counts.
        if prediction.error is None or earlier is None:
            tests[prediction.variant] = prediction
            if _is_doubtful(prediction, question):
                read.doubtful[id(prediction)] = UnparsedReply(prediction, question, exchange.response.text or "")
    for talk in talks.ended(samples):
        question, extractor = talk.sample.rounds[0], readings[talk.sample.benchmark].extractor
        prediction = predict_conclusion(talk.protocol, question, talk.conclusion, extractor)
        key = talk.protocol, talk.sample.id, 0
        read.presented[talk.sample.benchmark][key] = {prediction.variant: prediction}
        if _is_doubtful(prediction, question):
            text = talk.conclusion.response.text or ""
            read.doubtful[id(prediction)] = UnparsedReply(prediction, question, text)
        if talk.conclusion.response.error is None:
            read.costs[talk.sample.benchmark][key] = talk.cost
    read.roles, read.requests = roles.uses, requests.costs
    return read


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


def _is_doubtful(prediction: Prediction, question: Turn) -> bool:
    """Whether something may read on in a reply; in the doubt with which a talk ended there is no answer."""
    if prediction.reason == "undecided":
        return False
    generated = prediction.method == "generation" and prediction.error is None
    return generated and bool(question.options) and prediction.confidence != "certain"


def _read_on(presented: dict[str, Presented], doubtful: dict[int, UnparsedReply], stages: Sequence[NamedStage]) -> None:
    """Put in place of each unparsed prediction, and of likely ones where asked, what the stages make of it."""
    if not stages:
        return
    # A presentation that was answered twice counts as it was answered last.
    everything = [tests for questions in presented.values() for tests in questions.values()]
    left = [(tests, test, doubtful[id(p)]) for tests in everything for test, p in tests.items() if id(p) in doubtful]
    for stage in stages:
        given = [one for one in left if stage.likely or one[2].prediction.choice is None]
        made = stage.read([one for _, _, one in given])
        for (tests, test, _), prediction in zip(given, made, strict=True):
            tests[test] = prediction
        left = [(tests, test, replace(one, prediction=tests[test])) for tests, test, one in left]
        left = [one for one in left if one[2].prediction.choice is None or one[2].prediction.confidence == "likely"]


def _in_order(tests: Mapping[Variant, Prediction]) -> tuple[Prediction, ...]:
    """By number, then by content: the same however a run was interrupted."""
    if len(tests) < 2:
        return tuple(tests.values())
    return tuple(tests[variant] for variant in sorted(tests, key=lambda v: (v.test, msgspec.json.encode(v))))


def _score_benchmark(
    scorable: _Scorable,
    samples: dict[str, Sample],
    presented: Presented,
    costs: Mapping[tuple[str, str, int], TalkCost],
    protocols: Sequence[Protocol],
    metrics: Sequence[str],
    panel: JudgeEnsemble | None,
) -> ScoredBenchmark:
    spec = scorable.spec
    answers = {} if scorable.is_hidden else open_answers(scorable.benchmark.folder)
    scores: list[Score] = []
    tallied: list[QuestionCounts] = []
    for protocol in protocols:
        questions = [
            AskedQuestion(
                protocol,
                sample,
                turn,
                answers.get((sample.id, turn)),
                _in_order(presented.get((protocol.label, sample.id, turn), {})),
            )
            for sample in samples.values()
            if protocol.applies(sample)
            for turn in range(len(sample.rounds))
        ]
        for question in questions:
            if question.turn.options:
                scores.extend(score_choice(question))
            if question.declaration.conclude:
                scores.extend(score_cost(question, costs.get((protocol.label, question.sample.id, question.number))))
        open_questions = [question for question in questions if not question.turn.options]
        for name in dict.fromkeys((*(spec.metrics or DEFAULT_TEXT_METRICS), *metrics)):
            metric = find_metric(name)
            if isinstance(metric, ChoiceMetric):
                scores.extend(s for q in questions if q.turn.options for s in score_choice_metric(q, metric))
            elif isinstance(metric, OptionRanking):
                scores.extend(score_ranks(questions, metric))
            elif isinstance(metric, PictureMean):
                counted = count_over_pictures(questions, name, metric, spec.pictures_share)
                tallied.extend(counted)
                scores.extend(own_scores(counted))
            elif isinstance(metric, CorpusCountMetric):
                counted = count_questions(questions, name, metric)
                tallied.extend(counted)
                scores.extend(own_scores(counted))
            elif isinstance(metric, (ReplyMetric, CorpusMetric, JudgedMetric)):
                scores.extend(score_texts(open_questions, metric, panel))
    predictions = tuple(prediction for tests in presented.values() for prediction in _in_order(tests))
    tagged = with_answer_tags(samples.values(), answers)
    return ScoredBenchmark(spec, tagged, predictions, tuple(scores), answers, tuple(tallied), scorable.rules)
