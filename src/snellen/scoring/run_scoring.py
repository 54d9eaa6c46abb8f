"""From a run's journal to scores: responses are read anew and answers opened; the model is asked nothing.

Judges are asked where the caller brings a panel of them (`snellen.scoring.judges`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, takewhile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.catalogue import BenchmarkSpec, entry_file, suite_facts, suite_of
from snellen.catalogue.suites import AsPublished
from snellen.errors import DataError, HookError, SnellenError, UnknownNameError
from snellen.extraction import find_extractor
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    check_row,
    find_metric,
    is_given_unasked,
)
from snellen.metrics.kept_programs import programs_kept
from snellen.metrics.question_counts import QuestionCounts
from snellen.metrics.questions import AnswersInARow, AskedQuestion
from snellen.metrics.scoring_context import ScoringContext
from snellen.protocols.base import Protocol, parse_protocol
from snellen.records import Answer, Prediction, Sample, Score
from snellen.runs.locks import is_read_only
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, read_manifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.answers import Key, open_answers, with_answer_tags
from snellen.scoring.choice_scoring import score_choice
from snellen.scoring.journal_reading import (
    PartRead,
    PartReader,
    Presented,
    Question,
    ReadingRules,
    in_order,
    look_through,
    read_on,
)
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.published_means import HeadlineRule, HeadlineScores, headline_rule
from snellen.scoring.request_costs import TalkCost, score_cost
from snellen.scoring.run_ratings import RunRatings, read_run_ratings
from snellen.scoring.scored_run import (
    RowKey,
    RunExtent,
    ScoredBenchmark,
    ScoredRun,
    by_row,
    extent_of,
)
from snellen.scoring.stored_records import LineRange, RecordSpool, StoredRecords
from snellen.scoring.unparsed import reading_stages

DEFAULT = ScoringSpec()
SAMPLES_AT_ONCE = 10_000
SCORES_AT_ONCE = 5_000
Section = tuple[int, int]
"""Where scores stand among those of a benchmark: number of the protocol, place of the metric."""


@programs_kept()
def score_run(
    folder: Path,
    spec: ScoringSpec = DEFAULT,
    panel: JudgeEnsemble | None = None,
    *,
    hidden: Collection[str] = (),
    samples_at_once: int = SAMPLES_AT_ONCE,
) -> ScoredRun:
    """Read and score all responses of a run, whole or unfinished; `panel` reads on and gives judged metrics.

    The answers of benchmarks called one of `hidden` are not opened: they are read as those of a split whose answers
    nobody has. With `as_published` each benchmark whose suite has published tables is read and scored by their rules.
    A benchmark is scored in parts of `samples_at_once` samples, which changes no number. Judges, and metrics that need
    all replies at once, see a benchmark as a whole.

    Raises UnknownNameError for a name that nobody has, HookError for a metric or extractor that fails, StoreError for a
    folder that is not a run, DataError when a benchmark has changed since or a judged metric has no judge, and what
    reading stages and panel raise.
    """
    check_scoring(spec, judged=panel is not None)
    manifest = read_manifest(folder)
    spool = RecordSpool(None if is_read_only(folder) else folder)
    scorables = [
        _scorable(use, folder, manifest, spec, is_hidden=use.name in hidden)
        for use in manifest.benchmarks
    ]
    stages = reading_stages(
        spec,
        panel,
        _judge_prompts({scorable.name: scorable.rules for scorable in scorables}, panel),
    )
    sizes = {
        scorable.name: _part_size(scorable, spec.metrics, samples_at_once, panel)
        for scorable in scorables
    }
    asking = look_through(
        folder,
        manifest,
        {
            scorable.name: {
                key: place // sizes[scorable.name] for place, key in enumerate(scorable.samples)
            }
            for scorable in scorables
        },
    )
    reader = PartReader(folder, manifest, asking.journals)
    benchmarks = {scorable.name: _ScoredParts(spool) for scorable in scorables}
    all_parts = _parts(scorables, sizes)
    # Judges are asked about the replies of all benchmarks at once.
    for parts in [list(all_parts)] if panel else ([part] for part in all_parts):
        parts_read = [
            reader.read(
                part.of.name,
                part.samples,
                asking.places.get((part.of.name, part.number), ()),
                part.of.reading,
            )
            for part in parts
        ]
        read_on(parts_read, stages)
        for part, part_read in zip(parts, parts_read, strict=True):
            _score_part(
                part,
                part_read,
                spec.metrics,
                panel,
                benchmarks[part.of.name],
                final=manifest.made_elsewhere,
            )
    return ScoredRun(
        folder,
        manifest,
        spec,
        tuple(stage.name for stage in stages),
        tuple(benchmarks[scorable.name].together(scorable) for scorable in scorables),
        asking.asked,
        asking.reused,
        tuple(panel.uses) if panel else (),
        asking.roles,
        costs=asking.requests,
        extent=reduce(
            RunExtent.plus, (scored.extent for scored in benchmarks.values()), RunExtent()
        ),
    )


def check_scoring(spec: ScoringSpec, *, judged: bool) -> None:
    """Raise UnknownNameError for a name of scoring that nobody has, DataError for a judged metric without a judge."""
    find_extractor(spec.extractor)
    check_metrics(spec.metrics)
    for name in spec.metrics:
        if find_metric(name).computed_over == "judge" and not judged:
            raise DataError(f"the metric {name} needs a judge; name a model with --judge (judge=)")


def check_scoring_of(spec: BenchmarkSpec, scoring: ScoringSpec) -> None:
    """Raise UnknownNameError or HookError, naming the benchmark, for a metric or an extractor that it is to be scored
    by and that is not there or cannot be imported, and for a headline that is no row of any."""
    rules = rules_of(spec, scoring)
    try:
        find_extractor(_reading(spec, scoring, rules).extractor)
        for name in _metrics_of(spec_by_rules(spec, rules), scoring.metrics):
            find_metric(name)
        for row in (spec.headline, *((rules.headline, *rules.instead.values()) if rules else ())):
            if row:
                check_row("headline", row)
    except (UnknownNameError, HookError) as error:
        if spec.suite and spec.suite not in suite_facts():
            raise UnknownNameError(
                f"{spec.name}: {str(error).partition(';')[0]}; its suite {spec.suite!r} is not known here: name its "
                "folder with --suites (sn.add_suites), or install its package"
            ) from None
        raise type(error)(f"{entry_file(spec) or spec.name}: {error}") from error


def check_metrics(names: Iterable[str]) -> None:
    """Raise UnknownNameError for a metric that nobody has, DataError for one that the caller cannot choose."""
    for name in names:
        if is_given_unasked(find_metric(name)):
            raise DataError(f"{name} needs no asking for: it is given wherever it applies")


def rules_of(spec: BenchmarkSpec, scoring: ScoringSpec) -> AsPublished | None:
    """The rules of its suite's tables, if a benchmark is scored by them."""
    suite = suite_of(spec) if scoring.as_published else None
    return suite.as_published if suite else None


def _reading(spec: BenchmarkSpec, scoring: ScoringSpec, rules: AsPublished | None) -> ReadingRules:
    rule = spec.likelihood_rule if scoring.likelihood_rule == "own" else scoring.likelihood_rule
    return ReadingRules(rules.extractor if rules else scoring.extractor, rule)


def _judge_prompts(
    rules: Mapping[str, AsPublished | None], panel: JudgeEnsemble | None
) -> dict[str, str]:
    """How judges are asked about each benchmark: as its suite was published, or else as they are asked anyway."""
    if panel is None:
        return {}
    return {
        name: (rule.judge_prompt if rule else "") or panel.spec.prompt
        for name, rule in rules.items()
    }


def spec_by_rules(spec: BenchmarkSpec, rules: AsPublished | None) -> BenchmarkSpec:
    """The entry with the metrics that it is scored by."""
    return replace(spec, metrics=rules.metrics.get(spec.task, spec.metrics)) if rules else spec


class _Scorable(Struct, frozen=True):
    """A benchmark as a run asked it, and by what it is scored."""

    spec: BenchmarkSpec
    rules: AsPublished | None
    reading: ReadingRules
    protocols: tuple[Protocol, ...]
    samples: Mapping[str, Sample]
    """With the tags of their answers."""
    answers: Mapping[Key, Answer]
    ratings: RunRatings | None
    headline: HeadlineRule

    @property
    def name(self) -> str:
        return self.spec.name


def _scorable(
    use: BenchmarkUse, folder: Path, manifest: RunManifest, scoring: ScoringSpec, *, is_hidden: bool
) -> _Scorable:
    opened = reopen_benchmark(use, folder)
    check_scoring_of(opened.spec, scoring)
    rules = rules_of(opened.spec, scoring)
    answers: Mapping[Key, Answer] = {} if is_hidden else open_answers(opened.folder)
    spec = spec_by_rules(opened.spec, rules)
    samples = with_answer_tags(opened.samples(use.selection), answers)
    return _Scorable(
        spec,
        rules,
        _reading(opened.spec, scoring, rules),
        tuple(parse_protocol(text) for text in use.protocols or manifest.protocols),
        samples,
        answers,
        read_run_ratings(folder),
        headline_rule(spec, samples.values()),
    )


class _Part(Struct, frozen=True):
    """Consecutive samples of a benchmark."""

    of: _Scorable
    number: int
    samples: dict[str, Sample]


def _part_size(
    scorable: _Scorable, metrics: Sequence[str], most: int, panel: JudgeEnsemble | None
) -> int:
    """How many samples of a benchmark are scored at once: all for judges and metrics that need all replies."""
    inputs = {find_metric(name).computed_over for name in _metrics_of(scorable.spec, metrics)}
    whole = panel or not inputs.isdisjoint(("corpus", "groups"))
    return max(1, len(scorable.samples) if whole else most)


def _metrics_of(spec: BenchmarkSpec, metrics: Sequence[str]) -> list[str]:
    """What a benchmark is scored by, in addition to what every question gives."""
    return list(dict.fromkeys((*(spec.metrics or DEFAULT_TEXT_METRICS), *metrics)))


def _parts(scorables: Sequence[_Scorable], sizes: Mapping[str, int]) -> Iterator[_Part]:
    for scorable in scorables:
        remaining = iter(scorable.samples)
        for number in range(-(-len(scorable.samples) // sizes[scorable.name])):
            yield _Part(
                scorable,
                number,
                {key: scorable.samples[key] for key in islice(remaining, sizes[scorable.name])},
            )


class _ScoredParts:
    """What becomes of the parts of a benchmark, kept in a spool."""

    def __init__(self, spool: RecordSpool) -> None:
        self._spool = spool
        self._predictions: list[LineRange] = []
        self._scores: dict[Section, dict[RowKey, list[LineRange]]] = defaultdict(dict)
        self._tallies: dict[Section, list[LineRange]] = defaultdict(list)
        self.extent = RunExtent()

    def add_predictions(self, predictions: Iterable[Prediction]) -> None:
        self._predictions.append(self._spool.write(predictions))

    def add_scores(self, section: Section, scores: Iterable[Score]) -> None:
        remaining = iter(scores)
        while batch := list(islice(remaining, SCORES_AT_ONCE)):
            for key, members in by_row(batch).items():
                self._scores[section].setdefault(key, []).append(self._spool.write(members))

    def add_tallies(self, section: Section, tallies: Sequence[QuestionCounts]) -> None:
        self._tallies[section].append(self._spool.write(tallies))

    def together(self, scorable: _Scorable) -> ScoredBenchmark:
        """The benchmark with all that was added, section by section."""
        rows: dict[RowKey, list[LineRange]] = {}
        for _, section in sorted(self._scores.items()):
            for key, lines in section.items():
                rows.setdefault(key, []).extend(lines)
        tallies = [lines for _, section in sorted(self._tallies.items()) for lines in section]
        file = self._spool.file
        return ScoredBenchmark(
            scorable.spec,
            scorable.samples,
            StoredRecords(file, Prediction, self._predictions),
            {key: StoredRecords(file, Score, lines) for key, lines in rows.items()},
            scorable.answers,
            StoredRecords(file, QuestionCounts, tallies),
            scorable.rules,
        )


def _score_part(
    part: _Part,
    part_read: PartRead,
    metrics: Sequence[str],
    panel: JudgeEnsemble | None,
    scored: _ScoredParts,
    *,
    final: bool,
) -> None:
    """Score a part of a benchmark; what is scored first of each protocol stands in front, whatever the parts."""
    scorable, presented = part.of, part_read.presented
    for number, protocol in enumerate(scorable.protocols):
        questions = [
            AskedQuestion(
                protocol,
                sample,
                turn,
                scorable.answers.get((sample.id, turn)),
                in_order(presented.get((protocol.label, sample.id, turn), {})),
                part_read.rows.get((protocol.label, sample.id, turn))
                or _rounds_before(presented, protocol, sample, turn),
                final,
            )
            for sample in part.samples.values()
            if protocol.applies(sample)
            for turn in range(len(sample.rounds))
        ]
        scored.extent = scored.extent.plus(extent_of(questions))
        headline = HeadlineScores(scorable.headline)
        choice_scores = _choice_scores(questions, part_read.costs)
        scored.add_scores((number, 0), headline.watch(choice_scores))
        names = _metrics_of(scorable.spec, metrics)
        for position, name in enumerate(names, 1):
            section = (number, position)
            context = ScoringContext(name, scorable.spec, panel, scorable.ratings)
            try:
                metric_scores = find_metric(name).score(questions, context)
                scored.add_tallies(section, metric_scores.counts)
                scored.add_scores(section, headline.watch(metric_scores.scores))
            except SnellenError:
                raise
            except Exception as error:  # foreign code may raise anything
                raise HookError(f"the metric {name}, on {scorable.name}", error) from error
        scored.add_scores((number, len(names) + 1), headline.question_scores())
        scored.add_tallies((number, len(names) + 1), headline.tallies(part.samples))
    scored.add_predictions(_in_sample_order(part, presented))


def _rounds_before(
    presented: Presented, protocol: Protocol, sample: Sample, turn: int
) -> AnswersInARow:
    """The rounds that a round of a dialogue follows; one that was never asked broke off with the last one asked."""
    n_asked = sum(
        1 for _ in takewhile(lambda n: (protocol.label, sample.id, n) in presented, range(turn + 1))
    )
    return (
        AnswersInARow(turn) if not 0 < n_asked <= turn else AnswersInARow(n_asked - 1, broken=True)
    )


def _choice_scores(
    questions: Sequence[AskedQuestion], costs: Mapping[Question, TalkCost]
) -> Iterator[Score]:
    for question in questions:
        if question.turn.options:
            yield from score_choice(question)
        if question.declaration.conclude:
            key = question.protocol.label, question.sample.id, question.number
            yield from score_cost(question, costs.get(key))


def _in_sample_order(part: _Part, presented: Presented) -> Iterator[Prediction]:
    """The predictions sample by sample, those of a sample by protocol and round, however the run was interrupted."""
    samples = {key: place for place, key in enumerate(part.samples)}
    labels = {protocol.label: place for place, protocol in enumerate(part.of.protocols)}
    last = len(labels)
    for key in sorted(presented, key=lambda q: (samples[q[1]], labels.get(q[0], last), q[0], q[2])):
        yield from in_order(presented[key])
