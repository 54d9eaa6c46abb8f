"""Score a run from its journal: read the stored replies and compare them with the answers.

The evaluated model receives no request. Judges do if the caller passes a panel of them (`snellen.scoring.judges`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from snellen.callers import for_caller
from snellen.catalogue import (
    BenchmarkSpec,
    entry_file,
    published_number_of,
    suite_facts,
    suite_of,
)
from snellen.catalogue.errata import chosen_errata
from snellen.catalogue.suites import AsPublished
from snellen.errors import DataError, HookError, SnellenError, UnknownNameError
from snellen.extraction import find_extractor
from snellen.metrics.declaration import (
    DEFAULT_TEXT_METRICS,
    check_row,
    find_metric,
    under_registered_name,
)
from snellen.metrics.kept_programs import programs_kept
from snellen.metrics.question_counts import QuestionCounts
from snellen.metrics.questions import AnswerSequence, AskedQuestion
from snellen.metrics.scoring_context import ScoringContext
from snellen.protocols.base import Protocol, parse_protocol
from snellen.records import Answer, Prediction, Sample, Score
from snellen.registry import code_attribute, nearest_names
from snellen.registry import names as registered_names
from snellen.runs.locks import is_read_only
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, read_manifest
from snellen.runs.spec import ScoringSpec
from snellen.scoring.answers import Key, open_answers, with_answer_tags
from snellen.scoring.choice_scoring import score_choice
from snellen.scoring.code_digests import code_digests, note_use
from snellen.scoring.corrected_answers import corrected_answers
from snellen.scoring.journal_reading import (
    JournalIndex,
    PartPredictions,
    PartReader,
    PredictionsByQuestion,
    Question,
    ReadingRules,
    index_journals,
    predictions_in_order,
    run_reading_stages,
)
from snellen.scoring.judges import JudgeEnsemble
from snellen.scoring.published_means import HeadlineRule, HeadlineScores, headline_rule
from snellen.scoring.request_costs import MultiStepCost, score_cost
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
"""Sort key of a group of scores within a benchmark: index of the protocol, position of the metric."""


@programs_kept()
def score_run(
    folder: Path,
    spec: ScoringSpec = DEFAULT,
    panel: JudgeEnsemble | None = None,
    *,
    hidden: Collection[str] = (),
    samples_at_once: int = SAMPLES_AT_ONCE,
) -> ScoredRun:
    """Read and score all replies of a run, which may be unfinished.

    With `spec.as_published`, each benchmark whose suite has published tables is read and scored by the rules of these
    tables.

    Args:
        folder: The folder of the run.
        spec: Extractor, metrics and rules.
        panel: Judges that read unparsed replies and compute judged metrics.
        hidden: Names of benchmarks to score without their answers, as if the answers were secret.
        samples_at_once: Samples of a benchmark that are in memory at once. It affects no number. A benchmark that needs
            judges, or a metric over all replies, is always scored in one part.

    Raises:
        UnknownNameError: A metric or an extractor is unknown.
        HookError: A metric or an extractor fails.
        StoreError: The folder is not a run.
        DataError: A benchmark has changed since the run, or a judged metric has no judge.

    Examples:
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> [scored] = score_run(results.runs[0].folder).benchmarks
        >>> scored.spec.name
        'eyechart/colour'
    """
    check_scoring(spec, judged=panel is not None)
    manifest = read_manifest(folder)
    spool = RecordSpool(None if is_read_only(folder) else folder)
    scorables: list[_Scorable] = []
    for use in manifest.benchmarks:
        is_hidden = use.name in hidden
        scorables.append(_open_for_scoring(use, folder, manifest, spec, is_hidden=is_hidden))
    code = code_digests(
        chain.from_iterable(_metrics_of(scorable.spec, spec.metrics) for scorable in scorables),
        (scorable.reading.extractor for scorable in scorables),
    )
    rules = {scorable.name: scorable.rules for scorable in scorables}
    stages = reading_stages(spec, panel, _judge_prompts(rules, panel))

    # A benchmark is scored in parts of this many samples.
    sizes: dict[str, int] = {}
    for scorable in scorables:
        sizes[scorable.name] = _part_size(scorable, spec.metrics, samples_at_once, panel)
    journal_index = index_journals(folder, manifest, _part_numbers(scorables, sizes))
    reader = PartReader(folder, manifest, journal_index.journals)
    scored_parts = {scorable.name: _ScoredParts(spool) for scorable in scorables}
    all_parts = _parts(scorables, sizes)
    # Judges are asked about the replies of all benchmarks at once. Otherwise each part is scored by itself.
    groups_of_parts: Iterable[list[_SamplePart]] = ([part] for part in all_parts)
    if panel:
        groups_of_parts = [list(all_parts)]
    for parts in groups_of_parts:
        predictions_of_parts = [_read_part(part, reader, journal_index) for part in parts]
        run_reading_stages(predictions_of_parts, stages)
        for part, part_predictions in zip(parts, predictions_of_parts, strict=True):
            _score_part(
                part,
                part_predictions,
                spec.metrics,
                panel,
                scored_parts[part.scorable.name],
                final=manifest.is_imported,
            )

    note_use(code)
    extent = RunExtent()
    scored_benchmarks: list[ScoredBenchmark] = []
    for scorable in scorables:
        parts_of_benchmark = scored_parts[scorable.name]
        extent = extent.plus(parts_of_benchmark.extent)
        scored_benchmarks.append(parts_of_benchmark.combine(scorable, spec.metrics))
    return ScoredRun(
        folder=folder,
        manifest=manifest,
        scoring=spec,
        reading_stages=tuple(stage.name for stage in stages),
        benchmarks=tuple(scored_benchmarks),
        distinct_requests=journal_index.distinct_requests,
        reused=journal_index.reused,
        judges=tuple(panel.uses) if panel else (),
        roles=journal_index.roles,
        costs=journal_index.requests,
        extent=extent,
        code=code,
    )


def check_scoring(spec: ScoringSpec, *, judged: bool) -> None:
    """Check scoring settings.

    Args:
        spec: The settings.
        judged: Whether there is a judge model.

    Raises:
        UnknownNameError: The extractor or a metric does not exist.
        DataError: A metric needs a judge, and there is none, or a file is not a list of errata.
    """
    find_extractor(spec.extractor)
    chosen_errata(spec.errata, spec.errata_files)
    check_metrics(spec.metrics)
    for name in spec.metrics:
        if find_metric(name).computed_over == "judge" and not judged:
            judge = for_caller("--judge (judge=)", "judge=MODEL")
            raise DataError(f"the metric {name} needs a judge; name a model with {judge}")


def uses_judge(
    spec: BenchmarkSpec,
    samples: Iterable[Sample],
    protocols: Sequence[Protocol],
    scoring: ScoringSpec,
) -> bool:
    """Return whether a judge model could change the scores of a benchmark.

    It could if a metric is computed by judges, or if the benchmark has multiple-choice questions, because judges read
    replies that the extractor cannot read. They do not see likelihoods.
    """
    published_spec = spec_by_rules(spec, rules_of(spec, scoring))
    for name in _metrics_of(published_spec, scoring.metrics):
        if find_metric(name).computed_over == "judge":
            return True
    if all(protocol.method == "likelihood" for protocol in protocols):
        return False
    return any(turn.options for sample in samples for turn in sample.rounds)


def check_scoring_of(spec: BenchmarkSpec, scoring: ScoringSpec) -> None:
    """Check that everything exists which is needed to score a benchmark: its extractor, metrics and headline.

    Raises:
        UnknownNameError: One of them is unknown; the message names the benchmark.
        HookError: The extractor or a metric cannot be imported.
    """
    rules = rules_of(spec, scoring)
    headlines = [spec.headline]
    if rules is not None:
        headlines += [rules.headline, *rules.instead.values()]
    try:
        find_extractor(_reading_rules(spec, scoring, rules).extractor)
        for name in _metrics_of(spec_by_rules(spec, rules), scoring.metrics):
            try:
                find_metric(name)
            except UnknownNameError:
                if name in spec.metrics and not nearest_names(name, registered_names("metrics")):
                    raise _unknown_in_entry(name) from None
                raise
        for row in headlines:
            if row:
                check_row("headline", row)
    except (UnknownNameError, HookError) as error:
        if spec.suite and spec.suite not in suite_facts():
            raise UnknownNameError(
                f"{spec.name}: {str(error).partition(';')[0]}; its suite {spec.suite!r} is not available: give "
                f"its folder with {for_caller('--suites (sn.add_suites)', 'sn.add_suites(FOLDER)')}, or install its package"
            ) from None
        raise type(error)(f"{entry_file(spec) or spec.name}: {error}") from error


def missing_metric(scored: ScoredRun | None) -> str:
    """Return which metric of the benchmarks of a run is not available here, and the remedy; empty if all are.

    The stored scores of such a run can be read, but not what they mean.
    """
    for benchmark in scored.benchmarks if scored else ():
        try:
            for name in benchmark.spec.metrics:
                find_metric(name)
        except (UnknownNameError, HookError) as error:
            try:
                check_scoring_of(benchmark.spec, ScoringSpec())
            except (UnknownNameError, HookError) as error_with_remedy:
                return str(error_with_remedy)
            return str(error)
    return ""


def _unknown_in_entry(name: str) -> UnknownNameError:
    """Return the error for a metric in the TOML file of a benchmark that no metric of Snellen resembles.

    It may be a function of the user; the message says how to name such a function.
    """
    call = for_caller(f"`--metric FILE.py:{name}`", f"metrics=['FILE.py:{name}']")
    return UnknownNameError(
        f"unknown metric {name!r}; a function of your own is named in the suite.toml, under [hooks.metrics]: {name} = "
        f'"MODULE:{name}"; or leave it out here and give {call} with the run'
    )


def check_metrics(names: Iterable[str]) -> None:
    """Raise UnknownNameError for an unknown metric, DataError for one that is always reported."""
    for name in names:
        if find_metric(name).is_always_reported:
            raise DataError(f"{name} is always reported where it applies; remove it")


def rules_of(spec: BenchmarkSpec, scoring: ScoringSpec) -> AsPublished | None:
    """Return how the paper of a benchmark suite scored this benchmark.

    Returns:
        The rules; None if the settings do not ask for scoring as published, or if the suite declares no rules.
    """
    if not scoring.as_published:
        return None
    suite = suite_of(spec)
    rules = suite.as_published if suite else None
    if rules is None or not rules.by_entry:
        return rules
    number = published_number_of(spec)
    extractor = number.extractor if number and number.extractor else scoring.extractor
    return replace(rules, extractor=extractor)


def _reading_rules(
    spec: BenchmarkSpec, scoring: ScoringSpec, rules: AsPublished | None
) -> ReadingRules:
    """Return how replies to a benchmark are read: by which extractor, and by which rule from likelihoods.

    Args:
        spec: The benchmark.
        scoring: The scoring settings of the user.
        rules: The rules of the benchmark's paper, if they apply. They take precedence over the settings.
    """
    extractor = rules.extractor if rules else scoring.extractor
    likelihood_rule = scoring.likelihood_rule
    if likelihood_rule == "own":
        likelihood_rule = spec.likelihood_rule
    return ReadingRules(extractor, likelihood_rule)


def _judge_prompts(
    rules: Mapping[str, AsPublished | None], panel: JudgeEnsemble | None
) -> dict[str, str]:
    """Return the name of the judge prompt for each benchmark: that of the published rules, or else of the panel."""
    if panel is None:
        return {}
    prompts: dict[str, str] = {}
    for name, published_rules in rules.items():
        prompts[name] = panel.spec.prompt
        if published_rules is not None and published_rules.judge_prompt:
            prompts[name] = published_rules.judge_prompt
    return prompts


def spec_by_rules(spec: BenchmarkSpec, rules: AsPublished | None) -> BenchmarkSpec:
    """Return the catalogue entry of a benchmark with the metrics and the headline of its paper.

    Args:
        spec: The entry.
        rules: How the paper scored it (see `rules_of`); if None, the entry is returned unchanged.
    """
    if rules is None:
        return spec
    number = published_number_of(spec) if rules.by_entry else None
    if number is None:
        return replace(spec, metrics=rules.metrics.get(spec.task, spec.metrics))
    metrics = number.metrics or spec.metrics
    judge = number.judge
    # A published number that a judge computed can only be reproduced with a judge.
    if spec.formulation == "text" and judge and judge.metric and judge.metric not in metrics:
        metrics = (judge.metric, *metrics)
    return replace(spec, metrics=metrics, headline=number.headline or spec.headline)


class _Scorable(Struct, frozen=True):
    """A benchmark of a run with everything that its scoring needs."""

    spec: BenchmarkSpec
    rules: AsPublished | None
    reading: ReadingRules
    protocols: tuple[Protocol, ...]
    samples: Mapping[str, Sample]
    """Samples by id; their tags include those of their answers."""
    answers: Mapping[Key, Answer]
    ratings: RunRatings | None
    headline: HeadlineRule
    n_corrected: int

    @property
    def name(self) -> str:
        return self.spec.name


def _open_for_scoring(
    use: BenchmarkUse, folder: Path, manifest: RunManifest, scoring: ScoringSpec, *, is_hidden: bool
) -> _Scorable:
    """Open a benchmark of a run for scoring: its samples, its correct answers, and its scoring rules.

    Args:
        use: How the run used the benchmark.
        folder: The folder of the run.
        manifest: The manifest of the run.
        scoring: The scoring settings. They can ask for corrected answers (errata).
        is_hidden: Whether the correct answers are not to be read.
    """
    opened = reopen_benchmark(use, folder)
    check_scoring_of(opened.spec, scoring)
    rules = rules_of(opened.spec, scoring)
    answers: Mapping[Key, Answer] = {} if is_hidden else open_answers(opened.folder)
    n_corrected = 0
    if scoring.has_errata and answers:
        errata = chosen_errata(scoring.errata, scoring.errata_files).get(opened.spec.name)
        answers, applied = corrected_answers(errata, opened.samples(use.selection), answers)
        n_corrected = sum(correction.outcome == "corrected" for correction in applied)
    spec = spec_by_rules(opened.spec, rules)
    needs_replies = any(
        find_metric(name).needs_replies for name in _metrics_of(spec, scoring.metrics)
    )
    reading = replace(_reading_rules(opened.spec, scoring, rules), keeps_replies=needs_replies)
    samples = with_answer_tags(opened.samples(use.selection), answers)
    labels = use.protocols or manifest.protocols
    return _Scorable(
        spec=spec,
        rules=rules,
        reading=reading,
        protocols=tuple(parse_protocol(label) for label in labels),
        samples=samples,
        answers=answers,
        ratings=read_run_ratings(folder),
        headline=headline_rule(spec, samples.values()),
        n_corrected=n_corrected,
    )


class _SamplePart(Struct, frozen=True):
    """Consecutive samples of a benchmark."""

    scorable: _Scorable
    number: int
    samples: dict[str, Sample]


def _part_size(
    scorable: _Scorable, metrics: Sequence[str], samples_at_once: int, panel: JudgeEnsemble | None
) -> int:
    """Return how many samples of a benchmark to score at a time.

    Judges, and metrics over groups of questions or over the corpus, need all replies at once. Otherwise a limited
    number of samples at a time saves memory.
    """
    needs_all = panel is not None
    for name in _metrics_of(scorable.spec, metrics):
        if find_metric(name).computed_over in ("corpus", "groups"):
            needs_all = True
    if needs_all:
        return max(1, len(scorable.samples))
    return max(1, samples_at_once)


def _metrics_of(spec: BenchmarkSpec, metrics: Sequence[str]) -> list[str]:
    """Return the names of the metrics of a benchmark: those of its entry, or else the default ones, then `metrics`.

    `my_file.py:brevity` is left out if the entry has `brevity`, because both names stand for the same metric.
    """
    metrics_of_entry = spec.metrics or DEFAULT_TEXT_METRICS
    without_duplicates: dict[str, str] = {}
    for name in (*metrics_of_entry, *metrics):
        without_duplicates.setdefault(code_attribute(name), name)
    return list(without_duplicates.values())


def _parts(scorables: Sequence[_Scorable], sizes: Mapping[str, int]) -> Iterator[_SamplePart]:
    """Split the samples of each benchmark into parts that are scored one after the other.

    Args:
        scorables: The benchmarks.
        sizes: The number of samples in a part, by the name of the benchmark.
    """
    for scorable in scorables:
        size = sizes[scorable.name]
        n_parts = math.ceil(len(scorable.samples) / size)
        remaining_ids = iter(scorable.samples)
        for number in range(n_parts):
            ids = islice(remaining_ids, size)
            samples = {sample_id: scorable.samples[sample_id] for sample_id in ids}
            yield _SamplePart(scorable, number, samples)


def _part_numbers(
    scorables: Sequence[_Scorable], sizes: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Return the number of the part that each sample is in, by the name of the benchmark and the id of the sample.

    Args:
        scorables: The benchmarks.
        sizes: The number of samples in a part, by the name of the benchmark.
    """
    numbers: dict[str, dict[str, int]] = {}
    for scorable in scorables:
        size = sizes[scorable.name]
        numbers_of_samples: dict[str, int] = {}
        for position, sample_id in enumerate(scorable.samples):
            numbers_of_samples[sample_id] = position // size
        numbers[scorable.name] = numbers_of_samples
    return numbers


def _read_part(part: _SamplePart, reader: PartReader, index: JournalIndex) -> PartPredictions:
    """Read what the model answered to the samples of a part."""
    name = part.scorable.name
    positions = index.positions.get((name, part.number), ())
    return reader.read(name, part.samples, positions, part.scorable.reading)


class _ScoredParts:
    """Predictions, scores and tallies of the parts of a benchmark, collected in a spool."""

    def __init__(self, spool: RecordSpool) -> None:
        """Start without records. Records are written to the spool, a temporary file, and only their lines are noted."""
        self._spool = spool
        self._predictions: list[LineRange] = []
        self._scores: dict[Section, dict[RowKey, list[LineRange]]] = defaultdict(dict)
        self._tallies: dict[Section, list[LineRange]] = defaultdict(list)
        self.extent = RunExtent()

    def add_predictions(self, predictions: Iterable[Prediction]) -> None:
        """Write predictions to the temporary file."""
        self._predictions.append(self._spool.write(predictions))

    def add_scores(self, section: Section, scores: Iterable[Score]) -> None:
        """Write scores to the temporary file in batches, and note which of its lines each metric has."""
        line_ranges = self._scores[section]
        remaining = iter(scores)
        batch = list(islice(remaining, SCORES_AT_ONCE))
        while batch:
            for row_key, scores_of_row in by_row(batch).items():
                line_range = self._spool.write(scores_of_row)
                line_ranges.setdefault(row_key, []).append(line_range)
            batch = list(islice(remaining, SCORES_AT_ONCE))

    def add_tallies(self, section: Section, tallies: Sequence[QuestionCounts]) -> None:
        """Write the counts of questions of a metric to the temporary file."""
        self._tallies[section].append(self._spool.write(tallies))

    def combine(self, scorable: _Scorable, requested: tuple[str, ...]) -> ScoredBenchmark:
        """Combine the parts that were scored one after the other into one scored benchmark.

        `requested` are the metrics that the user asked for. The records stay in the temporary file and are read from it when needed.
        """
        ranges_by_row: dict[RowKey, list[LineRange]] = {}
        for _, section in sorted(self._scores.items()):
            for row_key, line_ranges in section.items():
                ranges_by_row.setdefault(row_key, []).extend(line_ranges)
        tally_ranges: list[LineRange] = []
        for _, line_ranges in sorted(self._tallies.items()):
            tally_ranges.extend(line_ranges)

        file = self._spool.file
        score_rows: dict[RowKey, StoredRecords[Score]] = {}
        for row_key, line_ranges in ranges_by_row.items():
            score_rows[row_key] = StoredRecords(file, Score, line_ranges)
        return ScoredBenchmark(
            spec=scorable.spec,
            samples=scorable.samples,
            predictions=StoredRecords(file, Prediction, self._predictions),
            score_rows=score_rows,
            answers=scorable.answers,
            tallies=StoredRecords(file, QuestionCounts, tally_ranges),
            published=scorable.rules,
            requested_metrics=requested,
            n_corrected=scorable.n_corrected,
        )


def _score_part(
    part: _SamplePart,
    part_predictions: PartPredictions,
    metrics: Sequence[str],
    panel: JudgeEnsemble | None,
    scored: _ScoredParts,
    *,
    final: bool,
) -> None:
    """Score a part of a benchmark and add the results to `scored`.

    For each protocol there is one section for choice scores and costs, then one for each metric, and a last one for
    published means. The order of sections does not depend on how the benchmark is split into parts.

    `final` is true if no more replies will come, as in a run that another program made.
    """
    scorable = part.scorable
    for number, protocol in enumerate(scorable.protocols):
        questions = _asked_questions(part, part_predictions, protocol, final=final)
        scored.extent = scored.extent.plus(extent_of(questions))
        headline = HeadlineScores(scorable.headline)
        choice_scores = _choice_scores(questions, part_predictions.costs)
        scored.add_scores((number, 0), headline.watch(choice_scores))
        names = _metrics_of(scorable.spec, metrics)
        for position, name in enumerate(names, 1):
            section = (number, position)
            context = ScoringContext(name, scorable.spec, panel, scorable.ratings)
            try:
                metric_scores = find_metric(name).score(questions, context)
                scored.add_tallies(section, metric_scores.counts)
                scored.add_scores(
                    section, headline.watch(under_registered_name(name, metric_scores.scores))
                )
            except SnellenError:
                raise
            except Exception as error:  # foreign code may raise anything
                raise HookError(f"the metric {name}, on {scorable.name}", error) from error
        last_section = (number, len(names) + 1)
        scored.add_scores(last_section, headline.question_scores())
        scored.add_tallies(last_section, headline.tallies(part.samples))
    scored.add_predictions(_in_sample_order(part, part_predictions.predictions))


def _asked_questions(
    part: _SamplePart, part_predictions: PartPredictions, protocol: Protocol, *, final: bool
) -> list[AskedQuestion]:
    """Return the questions of a part that a protocol asks, each with its answer and the predictions on it.

    Args:
        part: The part of a benchmark.
        part_predictions: What was read in the replies to its samples.
        protocol: The protocol.
        final: Whether no more replies will come.
    """
    predictions = part_predictions.predictions
    questions: list[AskedQuestion] = []
    for sample in part.samples.values():
        if not protocol.applies(sample):
            continue
        for turn in range(len(sample.rounds)):
            key = (protocol.label, sample.id, turn)
            answered_before = part_predictions.answered_steps.get(key)
            if answered_before is None:
                answered_before = _answered_rounds_before(predictions, protocol, sample, turn)
            question = AskedQuestion(
                protocol=protocol,
                sample=sample,
                number=turn,
                answer=part.scorable.answers.get((sample.id, turn)),
                predictions=predictions_in_order(predictions.get(key, {})),
                before=answered_before,
                final=final,
            )
            questions.append(question)
    return questions


def _answered_rounds_before(
    predictions: PredictionsByQuestion, protocol: Protocol, sample: Sample, turn: int
) -> AnswerSequence:
    """Return how many rounds of a dialogue were answered before a round, and whether it broke off before that round.

    Args:
        predictions: The predictions of all questions.
        protocol: The protocol.
        sample: The dialogue.
        turn: The index of the round.
    """
    n_asked = 0
    while n_asked <= turn and (protocol.label, sample.id, n_asked) in predictions:
        n_asked += 1
    was_broken_off = 0 < n_asked <= turn
    if was_broken_off:
        n_answered = n_asked - 1  # the dialogue was broken off because the last request failed
        return AnswerSequence(n_answered, broken=True)
    return AnswerSequence(turn)


def _choice_scores(
    questions: Sequence[AskedQuestion], costs: Mapping[Question, MultiStepCost]
) -> Iterator[Score]:
    """Yield the scores that every benchmark has: those of multiple-choice questions, and the costs of several steps.

    Args:
        questions: The questions with their replies.
        costs: What it cost to answer a question in several steps, by question.
    """
    for question in questions:
        if question.turn.options:
            yield from score_choice(question)
        if question.declaration.conclude:
            key = question.protocol.label, question.sample.id, question.number
            yield from score_cost(question, costs.get(key))


def _in_sample_order(part: _SamplePart, predictions: PredictionsByQuestion) -> Iterator[Prediction]:
    """Yield the predictions of a part in a fixed order: by sample, then by protocol and round.

    The order does not depend on the order in which replies arrived. Protocols that the run no longer has are last, in
    alphabetical order.
    """
    sample_positions = {sample_id: position for position, sample_id in enumerate(part.samples)}
    labels = [protocol.label for protocol in part.scorable.protocols]
    protocol_positions = {label: position for position, label in enumerate(labels)}

    def position(question: Question) -> tuple[int, int, str, int]:
        label, sample_id, turn = question
        protocol_position = protocol_positions.get(label, len(labels))
        return sample_positions[sample_id], protocol_position, label, turn

    for question in sorted(predictions, key=position):
        yield from predictions_in_order(predictions[question])
