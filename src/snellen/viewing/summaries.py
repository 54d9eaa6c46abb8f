"""What is kept of a scored run in the index: one number and counts for the table of runs, and more for its own page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from importlib.util import find_spec

from msgspec import Struct
from msgspec.structs import replace

from snellen.analysis.aggregate import results_of
from snellen.analysis.capability import ALL, CAPABILITY, headlines_of, protocol_preference
from snellen.psychometrics import is_adaptive
from snellen.records import Estimate, Result
from snellen.report.gallery import GalleryEntry
from snellen.report.run_view import CHOICE_ROWS
from snellen.report.table import metric_title
from snellen.scoring.scored_run import ScoredRun


class Headline(Struct, frozen=True):
    """The one number of a run that stands in the table of runs."""

    words: str
    """Metric and protocol, and the benchmark where the run has several and this is of one."""
    estimate: Estimate
    unit: str
    protocol: str


class RunSummary(Struct, frozen=True):
    """What the table of runs shows."""

    headline: Headline | None = None
    outcomes: dict[str, dict[str, int]] = {}
    """How many questions have each outcome, by protocol."""


class LetterCount(Struct, frozen=True):
    """How often one label was chosen, and how often it stood before the correct option."""

    benchmark: str
    protocol: str
    label: str
    chosen: int
    correct: int


class RunDetails(Struct, frozen=True):
    """What the page of a run shows besides."""

    results: tuple[Result, ...] = ()
    """Of whole benchmarks, by their headline metrics and by those of all questions with options."""
    headlines: dict[str, tuple[str, ...]] = {}
    """The metrics that speak for a benchmark, the first before the others."""
    outcomes: dict[str, dict[str, dict[str, int]]] = {}
    """How many questions have each outcome, by benchmark and protocol."""
    letters: tuple[LetterCount, ...] = ()
    thresholds: tuple[tuple[str, str], ...] = ()
    """Of questions placed to measure them: what varied, and the threshold in words."""


def visible_results(run: ScoredRun, hidden: Collection[str]) -> list[Result]:
    """The results of benchmarks whose answers may be seen, and the means over these."""
    return [row for row in results_of(visible(run, hidden)) if not row.slice]


def visible(run: ScoredRun, hidden: Collection[str]) -> ScoredRun:
    """A run without the benchmarks whose answers may not be seen."""
    return replace(run, benchmarks=tuple(each for each in run.benchmarks if each.spec.name not in hidden))


def headline_of(rows: Sequence[Result]) -> Headline | None:
    """The mean accuracy over benchmarks by the preferred protocol; without options the suite's own mean, or the number
    of the first benchmark that has one."""
    valued = [row for row in rows if row.estimate.value is not None]
    overall = [row for row in valued if row.benchmark == ALL and row.dimension == ALL]
    accuracies = [row for row in overall if row.metric == "accuracy"]
    accuracies = accuracies or [row for row in valued if row.metric == "accuracy"]
    means = [row for row in overall if row.metric == CAPABILITY]
    if accuracies:
        best = min(accuracies, key=lambda row: protocol_preference(row.protocol))
    elif means or valued:
        best = (means or valued)[0]
    else:
        return None
    is_of_one = best.benchmark != ALL and len({row.benchmark for row in rows}) > 1
    place = f" of {best.benchmark}" if is_of_one else ""
    return Headline(f"{metric_title(best.metric)}{place}, {best.protocol}", best.estimate, best.unit, best.protocol)


class EntryCounter:
    """Counts outcomes and labels, entry by entry."""

    def __init__(self) -> None:
        self._outcomes = Counter[tuple[str, str, str]]()
        self._chosen, self._correct = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()

    def add(self, entry: GalleryEntry) -> None:
        place = entry.scored.spec.name, entry.protocol
        self._outcomes[*place, entry.outcome] += 1
        correct = entry.answer.options if entry.answer else ()
        for prediction in entry.predictions:
            labels = dict(zip(prediction.variant.order, prediction.variant.labels, strict=False))
            if prediction.choice in labels:
                self._chosen[*place, labels[prediction.choice]] += 1
                self._correct.update((*place, labels[option]) for option in correct if option in labels)

    def summary(self, rows: Sequence[Result]) -> RunSummary:
        outcomes: dict[str, Counter[str]] = defaultdict(Counter)
        for (_, protocol, outcome), count in self._outcomes.items():
            outcomes[protocol][outcome] += count
        return RunSummary(headline_of(rows), {protocol: dict(counts) for protocol, counts in outcomes.items()})

    def details(self, run: ScoredRun, rows: Sequence[Result], hidden: Collection[str]) -> RunDetails:
        headlines = {benchmark.spec.name: tuple(headlines_of(benchmark)) for benchmark in run.benchmarks}
        outcomes: dict[str, dict[str, dict[str, int]]] = defaultdict(lambda: defaultdict(dict))
        for (benchmark, protocol, outcome), count in self._outcomes.items():
            outcomes[benchmark][protocol][outcome] = count
        keys = sorted(self._chosen.keys() | self._correct.keys())
        return RunDetails(
            tuple(row for row in rows if row.metric in (*headlines.get(row.benchmark, ()), *CHOICE_ROWS)
                  and row.benchmark in headlines),
            headlines,
            outcomes,
            tuple(LetterCount(*key, self._chosen[key], self._correct[key]) for key in keys),
            _thresholds(visible(run, hidden)),
        )  # fmt: skip


def _thresholds(run: ScoredRun) -> tuple[tuple[str, str], ...]:
    """None where numpy, by which they are found, is not installed."""
    if not is_adaptive(run.manifest) or find_spec("numpy") is None:
        return ()
    from snellen.psychometrics.acuity_run import read_acuity

    return tuple((f"{each.title}, {each.method}", each.text) for each in read_acuity(run).thresholds)
