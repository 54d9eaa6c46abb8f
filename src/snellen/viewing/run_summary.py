"""Summarise a scored run for the table of runs and for the page of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from snellen.analysis.aggregate import aggregate_run
from snellen.analysis.corrections import unused_audits
from snellen.analysis.headline import (
    HEADLINE,
    headline_chance,
    headline_metrics,
    headline_rows,
)
from snellen.analysis.option_letters import LetterPreference, letter_preferences
from snellen.errors import SnellenError
from snellen.records import Estimate, Result
from snellen.report.adaptive_procedures import procedure_of
from snellen.report.number_text import metric_title
from snellen.report.reported_runs import CHOICE_METRIC_NAMES, describe_average, has_predictions
from snellen.report.samples import GalleryEntry
from snellen.scoring.kept_scoring import scoring_note, scoring_title
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun, unknown_suites


class Headline(Struct, frozen=True):
    """The number of a run in the table of runs, equal to that in its reports."""

    title: str = field(name="words")
    """Metric and protocol, or the number of benchmarks that it is the mean of."""
    estimate: Estimate
    unit: str
    protocol: str
    """Protocol of its first benchmark."""
    metric: str
    """The metric of all its benchmarks; `headline` if they have several."""


class RunSummary(Struct, frozen=True):
    """What the table of runs shows."""

    headline: Headline | None = None
    questions: dict[str, int] = {}
    """Number of questions with each outcome, under one protocol or more."""
    scoring: str = ""
    """What the scoring is, such as "extractor strict", if the run is not shown by standard settings."""


class RunDetails(Struct, frozen=True):
    """What the page of a run shows in addition to its summary."""

    started_benchmarks: tuple[str, ...] = field(default=(), name="asked")
    """Benchmarks with at least one request."""
    results: tuple[Result, ...] = ()
    """Results of complete benchmarks in their headline metrics and in the metrics of all questions with options."""
    headlines: dict[str, tuple[str, ...]] = {}
    """Headline metrics by benchmark, the preferred one first."""
    outcomes: dict[str, dict[str, dict[str, int]]] = {}
    """Number of questions with each outcome, by benchmark and protocol."""
    letters: tuple[LetterPreference, ...] = ()
    """Preferences for option letters."""
    chance: dict[str, dict[str, float]] = {}
    """Chance level by benchmark and headline metric; metrics without one are absent."""
    overall: Result | None = None
    """The number of the run, if it has one."""
    thresholds: tuple[tuple[str, str], ...] = ()
    """Of an adaptive test: what varied, and the threshold as text."""
    thresholds_fault: str = ""
    """Of an adaptive test: why its thresholds are not shown."""
    answers_missing: bool = field(default=False, name="golds_absent")
    """Whether the numbers are those stored with the run, because the ground truth is not on this machine."""
    scored_with: str = ""
    """How the run was scored, and which other scorings it has, if it is not shown by standard settings."""
    not_applied: tuple[str, ...] = ()
    """Notes on rules of suites and corrections that are not applied, since their package is not installed."""


def visible_results(run: ScoredRun, hidden: Collection[str]) -> list[Result]:
    """Return the results of benchmarks that are not hidden, and the means over these."""
    return [row for row in aggregate_run(visible(run, hidden)) if not row.slice]


def visible(run: ScoredRun, hidden: Collection[str]) -> ScoredRun:
    """Return a run without the named benchmarks, whose answers must not be visible."""
    benchmarks = tuple(scored for scored in run.benchmarks if scored.spec.name not in hidden)
    return replace(run, benchmarks=benchmarks)


def overall_row(rows: Iterable[Result]) -> Result | None:
    """Return the number of a run, by the first method that gives it one."""
    for row in rows:
        if row.metric == HEADLINE and row.estimate.value is not None:
            return row
    return None


def headline_of(run: ScoredRun, rows: Sequence[Result]) -> Headline | None:
    """Return the one number that stands for a run in the table of runs, with a title that says what it is.

    For a single benchmark the title is for example `accuracy under circular`, for several it is
    `accuracy on average over 3 benchmarks`.

    Args:
        run: The run.
        rows: Its results.

    Returns:
        None if no benchmark has a value, or if the benchmarks have no common scale.
    """
    overall = overall_row(rows)
    if overall is None:
        return None
    headlines = headline_rows(run, rows)[overall.method]
    first = headlines[0]
    distinct_metrics = {row.metric for row in headlines}
    metric = distinct_metrics.pop() if len(distinct_metrics) == 1 else HEADLINE

    if len(headlines) == 1:
        title = f"{metric_title(metric)} under {first.protocol}"
        if len(run.benchmarks) > 1:
            title += f" of {first.benchmark}"
    else:
        title = describe_average(len(headlines), overall.over)
        if metric != HEADLINE:
            title = f"{metric_title(metric)} {title}"
    return Headline(title, overall.estimate, overall.unit, first.protocol, metric)


class OutcomeCounter:
    """Counts the outcomes of questions by benchmark and protocol."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[str, str, str]]()

    def add(self, entry: GalleryEntry) -> None:
        """Count a question."""
        self._counts[entry.scored.spec.name, entry.protocol, entry.outcome] += 1

    def by_benchmark(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the number of questions, by benchmark, then by protocol, then by outcome (such as `right`)."""
        counts_by_benchmark: dict[str, dict[str, dict[str, int]]] = {}
        for (benchmark, protocol, outcome), count in self._counts.items():
            counts_by_protocol = counts_by_benchmark.setdefault(benchmark, {})
            counts_by_outcome = counts_by_protocol.setdefault(protocol, {})
            counts_by_outcome[outcome] = count
        return counts_by_benchmark


def own_scoring_of(run: ScoredRun) -> str:
    """Return the title of the stored scoring that a run was opened with; empty for standard settings."""
    if run.stored_in is None or run.stored_in == run.folder:
        return ""
    return scoring_title(run.folder, run.stored_in.name)


def details_of(
    run: ScoredRun,
    rows: Sequence[Result],
    outcomes: Mapping[str, dict[str, dict[str, int]]],
    hidden: Collection[str],
) -> RunDetails:
    """Collect what the page of a run shows.

    Args:
        run: The run.
        rows: Its visible results.
        outcomes: The number of questions by benchmark, protocol and outcome.
        hidden: Names of benchmarks whose answers must not be visible.
    """
    headlines = {scored.spec.name: tuple(headline_metrics(scored)) for scored in run.benchmarks}
    shown_rows = []
    for row in rows:
        if row.benchmark not in headlines:
            continue
        if row.metric in headlines[row.benchmark] or row.metric in CHOICE_METRIC_NAMES:
            shown_rows.append(row)
    thresholds: tuple[tuple[str, str], ...] = ()
    thresholds_fault = ""
    try:
        thresholds = _thresholds(visible(run, hidden))
    except SnellenError as error:  # the pages of all other runs must still be made
        thresholds_fault = str(error)
    started_benchmarks = []
    chance_levels = {}
    for scored in run.benchmarks:
        chance_levels[scored.spec.name] = _chance_levels(scored)
        if has_predictions(scored):
            started_benchmarks.append(scored.spec.name)
    return RunDetails(
        started_benchmarks=tuple(started_benchmarks),
        results=tuple(shown_rows),
        headlines=headlines,
        outcomes=dict(outcomes),
        letters=tuple(letter_preferences(run.benchmarks)),
        chance=chance_levels,
        overall=overall_row(rows),
        thresholds=thresholds,
        thresholds_fault=thresholds_fault,
        answers_missing=any(scored.answers_missing for scored in run.benchmarks),
        scored_with=scoring_note(run.folder) if own_scoring_of(run) else "",
        not_applied=(*unknown_suites(run), *unused_audits(run)),
    )


def _chance_levels(scored: ScoredBenchmark) -> dict[str, float]:
    """Return the chance level of each headline metric of a benchmark that has one."""
    levels: dict[str, float] = {}
    for metric in headline_metrics(scored):
        level = headline_chance(scored, metric)
        if level is not None:
            levels[metric] = level
    return levels


def _thresholds(run: ScoredRun) -> tuple[tuple[str, str], ...]:
    """Return the results of an adaptive procedure, such as acuity thresholds, as names and texts."""
    procedure = procedure_of(run.manifest)
    if procedure is None:
        return ()
    return tuple(procedure.summarise(run))
