"""Runs that were picked, beside one another: differences with intervals, charts, and questions that flipped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from snellen.analysis.aggregate import results_of_all
from snellen.analysis.paired.comparison import ComparedRuns, compare_runs
from snellen.analysis.paired.nothing_in_common import nothing_in_common
from snellen.analysis.subset import replied_by_all
from snellen.errors import SnellenError
from snellen.report.chart_drawer import ChartDrawer
from snellen.report.content import ChartBlock, PageBlock, RadarOrBarsBlock, TableBlock
from snellen.report.drawing import ChartPanel
from snellen.report.findings import findings
from snellen.report.paired_tables import tables_of
from snellen.report.reported_runs import (
    ReportedRun,
    benchmarks_of,
    method_rows,
    prepare_common_benchmarks,
    prepare_reported_runs,
)
from snellen.scoring.kept_scoring import (
    STANDARD,
    are_scored_differently,
    is_scored_whole,
    load_scoring,
    shared_last_scoring,
)
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun
from snellen.viewing.library import FlipCounts, RunLibrary, ShownRun, flip_counts

MAX_COMPARED_RUNS = 8
RANK_RESAMPLES = 2_000
SHARED_QUESTIONS_NOTE = (
    " These counts include only questions that all of these runs answered under each of their protocols. A "
    "difference in the tables includes all questions for which its two runs have a value."
)


SCORED_DIFFERENTLY_NOTE = (
    "These runs were last scored in different ways, so standard settings are used for all of them. Questions that "
    "flipped are not counted."
)


class RunComparison(Struct, frozen=True):
    """What the page of a comparison shows. Charts and tables are blocks as in a report."""

    sentences: tuple[str, ...]
    charts: tuple[PageBlock, ...]
    tables: tuple[PageBlock, ...]
    flips: tuple[FlipCounts, ...]
    fault: str = ""
    """Why the numbers were not compared."""
    left_out: dict[str, tuple[str, ...]] = {}
    """Benchmarks that not all of the runs have, by run: they are in no chart, and only in the differences of runs that
    both have them."""
    note: str = ""
    """By which scoring the runs are compared, if they were last scored in different ways."""

    @property
    def n_left_out(self) -> int:
        return len(set().union(*self.left_out.values()))


def compare_shown(library: RunLibrary, runs: Sequence[ShownRun]) -> RunComparison:
    """Compare the first of several runs with each of the others, and return what the page of the comparison shows.

    If the runs cannot be compared, the result has the error message, and the counts of questions that changed
    between the runs. These counts come from the index, which has the results of each run's last scoring. If the
    runs were last scored in different ways, the counts would mean nothing, so there are none.
    """
    is_scored_alike = not are_scored_differently(run.folder for run in runs)
    flips: list[FlipCounts] = []
    if is_scored_alike:
        for other in runs[1:]:
            flips.extend(flip_counts(library, runs[0], other))
    try:
        scored_runs = read_scored(runs)
        resamples = RANK_RESAMPLES if len(runs) > 2 else 0
        comparison = compare_runs(scored_runs, resamples=resamples, with_flips=False)
        compared = ComparedRuns(scored_runs, comparison)
        tables = tables_of(compared.in_both, comparison.labels[0])
    except SnellenError as error:
        return RunComparison(
            sentences=(), charts=(), tables=(), flips=tuple(flips), fault=str(error)
        )

    names_by_run: dict[str, list[str]] = {}
    for run, scored_run in zip(runs, scored_runs, strict=True):
        names_by_run[run.name] = [scored.spec.name for scored in scored_run.benchmarks]
    shared_names = set.intersection(*map(set, names_by_run.values()))
    other_benchmarks: dict[str, tuple[str, ...]] = {}
    for run_name, names in names_by_run.items():
        not_shared = tuple(name for name in names if name not in shared_names)
        if not_shared:
            other_benchmarks[run_name] = not_shared

    sentences: list[str] = []
    charts: list[PageBlock] = []
    reported_runs = prepare_common_benchmarks(scored_runs)
    if reported_runs:
        sentences = findings(reported_runs, compared, of_instruments=True)
        charts = list(_charts(reported_runs))
    return RunComparison(
        sentences=tuple(sentences),
        charts=tuple(charts),
        tables=tuple(TableBlock(table, "matrix", "folded") for table in tables),
        flips=tuple(flips),
        fault="" if comparison.differences else nothing_in_common(scored_runs),
        left_out=other_benchmarks,
        note="" if is_scored_alike else SCORED_DIFFERENTLY_NOTE,
    )


def _charts(reported_runs: Sequence[ReportedRun]) -> Iterator[PageBlock]:
    """Yield the charts of several runs: a radar chart of ability dimensions if there are enough, and bars of benchmarks.

    If the runs did not answer the same questions, the charts are over the questions that all of them answered.
    """
    answered_same_questions = _answered_same_questions(reported_runs)
    if not answered_same_questions:
        shared = replied_by_all([reported_run.run for reported_run in reported_runs])
        reported_runs = prepare_reported_runs(shared, results_of_all(shared))
    drawer = ChartDrawer(reported_runs)
    labels = tuple(reported_run.label for reported_run in reported_runs)
    n_runs_by_method = Counter[str](model_row.method for model_row in method_rows(reported_runs))
    scope = "" if answered_same_questions else SHARED_QUESTIONS_NOTE

    def block(panels: Sequence[ChartPanel], caption: str) -> ChartBlock:
        # A chart of one run alone compares nothing.
        comparing_panels = [panel for panel in panels if n_runs_by_method.get(panel.title, 2) > 1]
        return ChartBlock(tuple(comparing_panels), caption + scope, labels)

    bars_caption = "Lines are 95% intervals; chance is dashed."
    radar = block(drawer.radar(), "The rim is 100%; chance is dotted.")
    dimensions = block(drawer.dimension_bars(), bars_caption)
    benchmarks = block(drawer.benchmark_bars(), bars_caption)

    # With one benchmark for each dimension, both charts would show the same numbers.
    has_one_each = len(benchmarks_of(reported_runs)) == len(drawer.dimensions)
    if radar.panels:
        yield RadarOrBarsBlock(radar, dimensions)
    elif not (has_one_each and benchmarks.panels):
        yield dimensions
    if benchmarks.panels and not (has_one_each and radar.panels):
        yield benchmarks


def _answered_same_questions(reported_runs: Sequence[ReportedRun]) -> bool:
    """Return whether all runs were asked the same questions of each benchmark, and have a reply to each of them."""
    selections_by_benchmark: dict[str, set[bytes]] = defaultdict(set)
    for reported_run in reported_runs:
        if any(row.estimate.unanswered for row in reported_run.rows):
            return False
        for use in reported_run.run.manifest.benchmarks:
            selection = msgspec.json.encode(use.selection)
            selections_by_benchmark[use.name].add(selection)
    return all(len(selections) == 1 for selections in selections_by_benchmark.values())


def read_scored(runs: Sequence[ShownRun]) -> list[ScoredRun]:
    """Return runs with the scores of their last scoring if all were scored in the same way, and otherwise standard
    scores.

    Stored scores are used if they cover all replies. Otherwise the run is scored now; nothing is written.
    """
    name = shared_last_scoring(run.folder for run in runs)
    scored: list[ScoredRun] = []
    for run in runs:
        is_stored = name != STANDARD or is_scored_whole(run.folder)
        scored.append(load_scoring(run.folder, name) if is_stored else score_run(run.folder))
    return scored


def flips_by_protocol(flips: Sequence[FlipCounts]) -> list[FlipCounts]:
    """Add up the counts of changed questions over benchmarks.

    Args:
        flips: For each pair of runs, protocol and benchmark, how many questions only one of the runs answered
            correctly.

    Returns:
        One record per pair of runs and protocol. Its field `benchmark` is empty.
    """
    members_by_key: dict[tuple[str, str, str], list[FlipCounts]] = defaultdict(list)
    for flip in flips:
        members_by_key[flip.first, flip.second, flip.protocol].append(flip)

    totals: list[FlipCounts] = []
    for (first, second, protocol), members in members_by_key.items():
        total = FlipCounts(
            first=first,
            second=second,
            benchmark="",
            protocol=protocol,
            only_first=sum(flip.only_first for flip in members),
            only_second=sum(flip.only_second for flip in members),
            common=sum(flip.common for flip in members),
        )
        totals.append(total)
    return totals
