"""Runs that were picked, beside one another: differences with intervals, charts, and questions that flipped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.paired.comparison import compare_runs
from snellen.errors import SnellenError
from snellen.report.content import Block, ChartBlock, TableBlock, ViewsBlock
from snellen.report.figures import ChartDrawer
from snellen.report.findings import findings
from snellen.report.flipped import Flips
from snellen.report.paired_tables import circular_tables, comparison_tables
from snellen.report.run_view import RunView, benchmarks_of, common_views, method_rows
from snellen.scoring.kept_scoring import is_scored_whole, load_scoring
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun, run_labels
from snellen.viewing.library import RunLibrary, ShownRun, flips_of

MOST_RUNS = 8
RESAMPLES = 2_000
OVER_ALL = " Each share is over all questions of its run; the sentences compare those that the runs have in common."


class RunComparison(Struct, frozen=True):
    """What the page of a comparison shows. Charts and tables are blocks as in a report."""

    sentences: tuple[str, ...]
    charts: tuple[Block, ...]
    tables: tuple[Block, ...]
    flips: tuple[Flips, ...]
    fault: str = ""
    """Why the numbers were not compared."""
    left_out: dict[str, tuple[str, ...]] = {}
    """Benchmarks that not all of the runs have, by run: they are in no sentence and no chart."""

    @property
    def n_left_out(self) -> int:
        return len(set().union(*self.left_out.values()))


def compare(library: RunLibrary, runs: Sequence[ShownRun]) -> RunComparison:
    """The first run with each other one."""
    flips = tuple(flip for other in runs[1:] for flip in flips_of(library, runs[0], other))
    try:
        scored = [read_scored(run) for run in runs]
        labels = run_labels(scored)
        comparison = compare_runs(scored, baseline=labels[0], resamples=RESAMPLES if len(runs) > 2 else 0)
        tables = [
            *(comparison_tables(comparison) if comparison.differences else ()),
            *circular_tables(scored, baseline=labels[0]),
        ]
    except SnellenError as error:
        return RunComparison((), (), (), flips, str(error))
    benchmarks = {run.name: [b.spec.name for b in its.benchmarks] for run, its in zip(runs, scored, strict=True)}
    shared = set.intersection(*map(set, benchmarks.values()))
    views = common_views(scored)
    return RunComparison(
        tuple(findings(views, of_instruments=True)) if views else (),
        tuple(_charts(views)) if views else (),
        tuple(TableBlock(table, "matrix", "folded") for table in tables),
        flips,
        "" if comparison.differences else "these runs have no benchmark, protocol and metric in common",
        {run: tuple(b for b in names if b not in shared) for run, names in benchmarks.items() if set(names) - shared},
    )


def _charts(views: Sequence[RunView]) -> Iterator[Block]:
    """Dimensions, as a radar where there are enough, then benchmarks."""
    drawer = ChartDrawer(views)
    labels = tuple(view.label for view in views)
    # A chart of one run alone compares nothing.
    methods = Counter[str](line.method for line in method_rows(views))
    bars = "Lines are 95% intervals; chance is dashed." + OVER_ALL * _were_asked_unequally(views)
    radar, dimensions, benchmarks = (
        ChartBlock(tuple(panel for panel in panels if methods.get(panel.title, 2) > 1), caption, labels)
        for panels, caption in (
            (drawer.radar(), "The rim is 100%; chance is dotted."),
            (drawer.dimension_bars(), bars),
            (drawer.benchmark_bars(), bars),
        )
    )
    has_one_each = len(benchmarks_of(views)) == len(drawer.dimensions)  # then both charts show the same numbers
    if radar.panels or not (has_one_each and benchmarks.panels):
        yield ViewsBlock(radar, dimensions) if radar.panels else dimensions
    if benchmarks.panels and not (has_one_each and radar.panels):
        yield benchmarks


def _were_asked_unequally(views: Sequence[RunView]) -> bool:
    """Whether numbers of a benchmark and protocol are over more questions of one run than of another."""
    by_benchmark: dict[tuple[str, str], set[int]] = defaultdict(set)
    for view in views:
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for row in view.rows:
            place = row.benchmark, row.protocol
            counts[place] = max(counts[place], row.estimate.n)
        for place, count in counts.items():
            by_benchmark[place].add(count)
    return any(len(counts_of_runs) > 1 for counts_of_runs in by_benchmark.values())


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
    return [Flips(first, second, "", protocol, *counts) for (first, second, protocol), counts in sums.items()]
