"""Runs that were picked, beside one another: differences with intervals, charts, and questions that flipped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from snellen.analysis.aggregate import results_of_all
from snellen.analysis.paired.comparison import compare_runs
from snellen.analysis.paired.records import PairedDifference
from snellen.errors import SnellenError
from snellen.metrics.declaration import SHARE
from snellen.report.content import Block, ChartBlock, TableBlock, ViewsBlock
from snellen.report.figures import ChartDrawer
from snellen.report.findings import compared_views, findings
from snellen.report.paired_tables import comparison_tables
from snellen.report.run_view import run_views
from snellen.report.table import metric_title
from snellen.scoring.kept_scoring import is_scored_whole, load_scoring
from snellen.scoring.run_scoring import score_run
from snellen.scoring.scored_run import ScoredRun, run_labels
from snellen.viewing.filters import QuestionFilter
from snellen.viewing.indexing import RIGHT, UNPARSED, WRONG
from snellen.viewing.library import RunLibrary, ShownRun

MOST_RUNS = 8
RESAMPLES = 2_000
SURE = 0.05


class Flips(Struct, frozen=True):
    """Questions of a benchmark that one of two runs has right and the other has not."""

    first: str
    second: str
    benchmark: str
    protocol: str
    only_first: int
    only_second: int
    common: int

    def questions(self, better: str, worse: str) -> QuestionFilter:
        return QuestionFilter(benchmark=self.benchmark, protocol=self.protocol, better=better, worse=worse)


class RunComparison(Struct, frozen=True):
    """What the page of a comparison shows. Charts and tables are blocks as in a report."""

    sentences: tuple[str, ...]
    charts: tuple[Block, ...]
    tables: tuple[Block, ...]
    flips: tuple[Flips, ...]
    fault: str = ""
    """Why the numbers were not compared."""


def compare(library: RunLibrary, runs: Sequence[ShownRun]) -> RunComparison:
    """The first run with each other one."""
    flips = tuple(flip for other in runs[1:] for flip in _flips(library, runs[0], other))
    try:
        scored = [read_scored(run) for run in runs]
        labels = run_labels(scored)
        comparison = compare_runs(scored, baseline=labels[0], resamples=RESAMPLES if len(runs) > 2 else 0)
    except SnellenError as error:
        return RunComparison((), (), (), flips, str(error))
    views = run_views(scored, results_of_all(scored))
    drawer = ChartDrawer(views)
    radar, dimensions, benchmarks = (
        ChartBlock(tuple(panels), caption, tuple(labels))
        for panels, caption in (
            (drawer.radar(), "The rim is 100 %; chance is dotted."),
            (drawer.dimension_bars(), "Bars are 95 % intervals; chance is dotted."),
            (drawer.benchmark_bars(), "Bars are 95 % intervals; chance is dotted."),
        )
    )
    by_dimension: list[Block] = [ViewsBlock(radar, dimensions)] if radar.panels else [dimensions]
    charts = (*by_dimension, *([benchmarks] if benchmarks.panels else []))
    return RunComparison(
        tuple(findings(views) if len(compared_views(views)) == len(views) else _sentences(comparison.differences)),
        charts,
        tuple(
            TableBlock(table, "matrix", "folded")
            for table in (comparison_tables(comparison) if comparison.differences else ())
        ),
        flips,
        "" if comparison.differences else "these runs have no benchmark, protocol and metric in common",
    )


def read_scored(run: ShownRun) -> ScoredRun:
    """As it was kept where that is of all replies, else scored now; nothing is written."""
    return load_scoring(run.folder) if is_scored_whole(run.folder) else score_run(run.folder)


def _sentences(differences: Sequence[PairedDifference]) -> Iterator[str]:
    """For each pair and method the mean over all; where scales differ, on how many benchmarks which is better."""
    pairs: dict[tuple[str, str, str], list[PairedDifference]] = defaultdict(list)
    for difference in differences:
        if difference.difference.value is not None:
            pairs[difference.first, difference.second, difference.method].append(difference)
    for of_pair in pairs.values():
        overall = [difference for difference in of_pair if difference.scope == "overall"]
        single = [difference for difference in of_pair if difference.scope == "benchmark"]
        if overall or len(single) == 1:
            yield from map(_sentence, overall or single)
        elif single:
            yield _count_sentence(single)


def _count_sentence(differences: Sequence[PairedDifference]) -> str:
    leads = [(d.difference.value or 0.0) * (1 if d.better == "higher" else -1) for d in differences]
    sure = [
        lead for lead, d in zip(leads, differences, strict=True) if d.p_adjusted is not None and d.p_adjusted < SURE
    ]
    better, worse = sum(lead > 0 for lead in leads), sum(lead < 0 for lead in leads)
    first, second = differences[0].first, differences[0].second
    return (
        f"By {differences[0].method}, {first} is better than {second} on {better} and worse on {worse} of "
        f"{len(differences)} benchmarks. It is surely better on {sum(lead > 0 for lead in sure)} and surely worse on "
        f"{sum(lead < 0 for lead in sure)} (corrected for {len(differences)} tests)."
    )


def _sentence(difference: PairedDifference) -> str:
    estimate, unit = difference.difference, difference.unit
    factor, words = (100.0, " points") if unit == SHARE else (1.0, "")
    value = factor * (estimate.value or 0.0)
    place = "over all benchmarks in common" if difference.scope == "overall" else f"on {difference.benchmark}"
    way = f"{metric_title(difference.metric)} {place} ({difference.protocol})"
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f", 95 % interval {factor * estimate.low:+.1f} to {factor * estimate.high:+.1f}"
    p = difference.p_adjusted if difference.p_adjusted is not None else difference.p
    sure = estimate.low is not None and estimate.high is not None and not estimate.low <= 0 <= estimate.high
    if p is None:
        verdict = "the interval leaves out 0" if sure else "the interval holds 0, so this may be chance"
    else:
        shown = f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
        verdict = f"{shown}: " + ("more than chance explains" if p < SURE else "this may be chance")
    return f"{difference.first} against {difference.second}: {value:+.1f}{words} of {way}{interval}; {verdict}."


def _flips(library: RunLibrary, first: ShownRun, second: ShownRun) -> list[Flips]:
    rows = library.rows(_FLIPS, first.id, second.id)
    return [Flips(first.name, second.name, *row) for row in rows]


def flips_by_protocol(flips: Sequence[Flips]) -> list[Flips]:
    """Summed over benchmarks, which are then the empty name."""
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for flip in flips:
        counts = sums[flip.first, flip.second, flip.protocol]
        for place, count in enumerate((flip.only_first, flip.only_second, flip.common)):
            counts[place] += count
    return [Flips(first, second, "", protocol, *counts) for (first, second, protocol), counts in sums.items()]


_FLIPS = f"""
SELECT question.benchmark, protocol, sum(one.outcome = {RIGHT} AND other.outcome != {RIGHT}),
  sum(one.outcome != {RIGHT} AND other.outcome = {RIGHT}), count(*)
FROM entry AS one JOIN entry AS other USING (question, protocol) JOIN question ON question.id = question
WHERE one.run = ? AND other.run = ?
AND one.outcome IN ({RIGHT}, {WRONG}, {UNPARSED}) AND other.outcome IN ({RIGHT}, {WRONG}, {UNPARSED})
GROUP BY question.benchmark, protocol ORDER BY protocol, question.benchmark
"""
