"""What an experiment tracker receives about a run, and what a tracker declares (the registry's group `trackers`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from snellen import __version__
from snellen.analysis.aggregate import results_of
from snellen.errors import UnknownNameError
from snellen.registry import find, names, unknown
from snellen.scoring.kept_scoring import RESULTS
from snellen.scoring.scored_run import ScoredRun

REPORT = "report.html"
_UNUSUAL = re.compile(r"[^\w./-]+", re.ASCII)


class TrackedMetric(Struct, frozen=True):
    """A number of a whole benchmark with its interval."""

    name: str
    """`BENCHMARK/PROTOCOL/METRIC`, in letters, digits and `_ . - /`, which all trackers take."""
    value: float
    low: float | None
    high: float | None
    n: int
    """Questions that were scored."""


class TrackedRun(Struct, frozen=True):
    """A scored run as a tracker receives it."""

    name: str
    settings: dict[str, str]
    metrics: tuple[TrackedMetric, ...]
    files: tuple[Path, ...]
    """Results and report, where they were written."""

    @property
    def values(self) -> dict[str, float]:
        """All numbers by name; the ends of an interval and the number of questions end in `_low`, `_high`, `_n`."""
        numbers: dict[str, float] = {}
        for metric in self.metrics:
            ends = {"": metric.value, "_low": metric.low, "_high": metric.high, "_n": float(metric.n)}
            numbers |= {metric.name + end: value for end, value in ends.items() if value is not None}
        return numbers


class Tracker(Struct, frozen=True):
    """An experiment tracker to which runs are logged."""

    title: str
    """As in "MLflow: a store's address, #EXPERIMENT"; says what stands after the colon."""
    log: Callable[[TrackedRun, str], str]
    """(run, what stands after the colon) -> where it went, for a reader. Raises DataError, MissingExtraError."""


def track(runs: Sequence[ScoredRun], target: str) -> list[str]:
    """Log runs to the tracker that `NAME:PLACE` names, each as a run of its own there, and say where they went.

    Raises UnknownNameError, DataError, MissingExtraError.
    """
    name, _, place = target.partition(":")
    if name not in names("trackers"):
        raise UnknownNameError(f"--track {target}: {unknown('tracker', name, names('trackers'))}")
    tracker: Tracker = find("trackers", name)
    return [tracker.log(tracked_run(run), place) for run in runs]


def tracked_run(run: ScoredRun) -> TrackedRun:
    """What a tracker receives about a run: its settings, the numbers of whole benchmarks, its results and report."""
    folder = run.kept_in or run.folder
    return TrackedRun(
        run.folder.name,
        {_plain(name): value for name, value in _settings(run)},
        tuple(
            TrackedMetric(
                _plain(f"{row.benchmark}/{row.protocol}/{row.metric}"),
                row.estimate.value, row.estimate.low, row.estimate.high, row.estimate.n,
            )
            for row in results_of(run)
            if not row.slice and row.benchmark != "*" and row.estimate.value is not None
        ),
        tuple(path for name in (RESULTS, REPORT) if (path := folder / name).exists()),
    )  # fmt: skip


def _plain(name: str) -> str:
    return _UNUSUAL.sub("_", name)


def _settings(run: ScoredRun) -> Iterator[tuple[str, str]]:
    manifest, decoding = run.manifest, run.manifest.decoding
    yield "model", manifest.model
    yield "snellen", __version__
    yield "started", manifest.started
    yield "protocols", ", ".join(manifest.protocols)
    yield "templates", manifest.templates
    yield "temperature", f"{decoding.temperature:g}"
    yield "top_p", f"{decoding.top_p:g}"
    yield "seed", str(decoding.seed)
    yield "few_shot", str(manifest.few_shot[0] if manifest.few_shot else 0)
    yield "extractor", run.scoring.extractor
    yield "likelihood_rule", run.scoring.likelihood_rule
    for use in manifest.benchmarks:
        yield f"benchmark/{use.name}", use.version
    for name, value in sorted(manifest.fingerprint.items()):
        yield f"fingerprint/{name}", value
