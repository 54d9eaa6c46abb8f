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
from snellen.report.content import ChartBlock, PageBlock, TableBlock, ViewsBlock
from snellen.report.findings import findings
from snellen.report.paired_tables import tables_of
from snellen.report.run_view import RunView, benchmarks_of, common_views, method_rows, run_views
from snellen.scoring.kept_scoring import is_scored_whole, load_scoring
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun
from snellen.viewing.library import Flips, RunLibrary, ShownRun, flips_of

MOST_RUNS = 8
RESAMPLES = 2_000
OVER_SHARED = (
    " These counts include only questions that all of these runs answered under each of their protocols. A "
    "difference in the tables includes all questions for which its two runs have a value."
)


class RunComparison(Struct, frozen=True):
    """What the page of a comparison shows. Charts and tables are blocks as in a report."""

    sentences: tuple[str, ...]
    charts: tuple[PageBlock, ...]
    tables: tuple[PageBlock, ...]
    flips: tuple[Flips, ...]
    fault: str = ""
    """Why the numbers were not compared."""
    left_out: dict[str, tuple[str, ...]] = {}
    """Benchmarks that not all of the runs have, by run: they are in no chart, and only in the differences of runs that
    both have them."""

    @property
    def n_left_out(self) -> int:
        return len(set().union(*self.left_out.values()))


def compare_shown(library: RunLibrary, runs: Sequence[ShownRun]) -> RunComparison:
    """Compare the first of several runs with each of the others, for a page."""
    flips: list[Flips] = []
    for other in runs[1:]:
        flips.extend(flips_of(library, runs[0], other))
    try:
        scored_runs = [read_scored(run) for run in runs]
        resamples = RESAMPLES if len(runs) > 2 else 0
        comparison = compare_runs(scored_runs, resamples=resamples, with_flips=False)
        compared = ComparedRuns(scored_runs, comparison)
        tables = tables_of(compared.in_both, comparison.labels[0])
    except SnellenError as error:
        return RunComparison((), (), (), tuple(flips), str(error))

    names_by_run: dict[str, list[str]] = {}
    for run, scored_run in zip(runs, scored_runs, strict=True):
        names_by_run[run.name] = [scored.spec.name for scored in scored_run.benchmarks]
    shared_names = set.intersection(*map(set, names_by_run.values()))
    other_benchmarks: dict[str, tuple[str, ...]] = {}
    for run_name, names in names_by_run.items():
        not_shared = tuple(name for name in names if name not in shared_names)
        if not_shared:
            other_benchmarks[run_name] = not_shared

    views = common_views(scored_runs)
    return RunComparison(
        tuple(findings(views, compared, of_instruments=True)) if views else (),
        tuple(_charts(views)) if views else (),
        tuple(TableBlock(table, "matrix", "folded") for table in tables),
        tuple(flips),
        "" if comparison.differences else nothing_in_common(scored_runs),
        other_benchmarks,
    )


def _charts(views: Sequence[RunView]) -> Iterator[PageBlock]:
    """Dimensions, as a radar where there are enough, then benchmarks; over the questions that all runs replied to."""
    alike = _were_asked_alike(views)
    if not alike:
        shared = replied_by_all([view.run for view in views])
        views = run_views(shared, results_of_all(shared))
    drawer = ChartDrawer(views)
    labels = tuple(view.label for view in views)
    # A chart of one run alone compares nothing.
    methods = Counter[str](line.method for line in method_rows(views))
    bars, rim = "Lines are 95% intervals; chance is dashed.", "The rim is 100%; chance is dotted."
    radar, dimensions, benchmarks = (
        ChartBlock(
            tuple(panel for panel in panels if methods.get(panel.title, 2) > 1),
            caption if alike else caption + OVER_SHARED,
            labels,
        )
        for panels, caption in (
            (drawer.radar(), rim),
            (drawer.dimension_bars(), bars),
            (drawer.benchmark_bars(), bars),
        )
    )
    has_one_each = len(benchmarks_of(views)) == len(
        drawer.dimensions
    )  # then both charts show the same numbers
    if radar.panels or not (has_one_each and benchmarks.panels):
        yield ViewsBlock(radar, dimensions) if radar.panels else dimensions
    if benchmarks.panels and not (has_one_each and radar.panels):
        yield benchmarks


def _were_asked_alike(views: Sequence[RunView]) -> bool:
    """Whether the runs were asked the same questions of each benchmark, and replied to all."""
    selections = defaultdict(set)
    for view in views:
        for use in view.run.manifest.benchmarks:
            selections[use.name].add(msgspec.json.encode(use.selection))
    is_all_there = not any(row.estimate.unanswered for view in views for row in view.rows)
    return is_all_there and all(len(of_runs) == 1 for of_runs in selections.values())


def read_scored(run: ShownRun) -> ScoredRun:
    """As it was kept where that is of all replies, else scored now; nothing is written."""
    return load_scoring(run.folder) if is_scored_whole(run.folder) else score_run(run.folder)


def flips_by_protocol(flips: Sequence[Flips]) -> list[Flips]:
    """Summed over benchmarks, which are then the empty name."""
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for flip in flips:
        counts = sums[flip.first, flip.second, flip.protocol]
        for place, count in enumerate((flip.only_first, flip.only_second, flip.common)):
            counts[place] += count
    return [
        Flips(first, second, "", protocol, *counts)
        for (first, second, protocol), counts in sums.items()
    ]
