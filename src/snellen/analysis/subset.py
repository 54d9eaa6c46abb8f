"""Runs on fewer questions: those of a condition, or those that every run answered (MMBench, appendix C)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from snellen import registry
from snellen.conditions import Condition
from snellen.errors import DataError
from snellen.reasons import Reason
from snellen.records import Prediction
from snellen.scoring.scored_run import ExcludedQuestion, ScoredBenchmark, ScoredRun

Key = tuple[str, str]
"""Benchmark and sample."""
Shortfall = tuple[Reason, str] | None
"""Why a question counts as not answered, with its detail; None when it was."""
NEVER: Shortfall = ("not asked", "")


def runs_where(runs: Sequence[ScoredRun], text: str) -> list[ScoredRun]:
    """The runs on the questions that a condition on tags and facts holds for, as in `snellen run --where`.

    Raises DataError for a fact that no benchmark has, or when a run has no such question.
    """
    condition = Condition(text)
    facts = {one.spec.name: one.spec.facts() for run in runs for one in run.benchmarks}
    tags = {name for run in runs for one in run.benchmarks for sample in one.samples.values() for name in sample.tags}
    known = {*tags, *(name for some in facts.values() for name in some)}
    if unknown := condition.names - known:
        raise DataError(f"--where: {registry.unknown('fact', min(unknown), known)}")
    kept = []
    for run in runs:
        keys = {
            (one.spec.name, sample.id)
            for one in run.benchmarks
            for sample in one.samples.values()
            if condition.holds({**facts[one.spec.name], **sample.tags})
        }
        if not keys:
            raise DataError(f"no question of {run.folder} fits --where {text!r}")
        kept.append(_noted(narrow_run(run, keys), f"only questions where {text}: {len(keys):,}"))
    return kept


def common_answered(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs on the questions that each of them answered: asked, nothing failed, nothing refused.

    What was left out, and why, stands in `left_out` of each. A reply that names no option is an answer all the
    same. Raises DataError for runs on different builds of a benchmark, and when no question is left.
    """
    _check_same(runs)
    reasons = [_reasons(run) for run in runs]
    everything = dict.fromkeys(
        (one.spec.name, sample) for run in runs for one in run.benchmarks for sample in one.samples
    )
    common = {key for key in everything if all(found.get(key, NEVER) is None for found in reasons)}
    if not common:
        raise DataError("no question was answered by all of the runs; leave one out, or name abilities with --where")
    told = f"only the {len(common):,} of {len(everything):,} questions that all {len(runs)} runs answered"
    return [
        replace(
            _noted(narrow_run(run, common), told),
            left_out=tuple(
                ExcludedQuestion(*key, *(found.get(key, NEVER) or (None, "")))
                for key in everything
                if key not in common
            ),
        )
        for run, found in zip(runs, reasons, strict=True)
    ]


def narrow_run(run: ScoredRun, keys: Collection[Key]) -> ScoredRun:
    """A run on some of its questions; a benchmark without any is left out. Counts of requests stay those of all."""
    chosen: dict[str, set[str]] = defaultdict(set)
    for benchmark, sample in keys:
        chosen[benchmark].add(sample)
    some = [(one, chosen[one.spec.name] & one.samples.keys()) for one in run.benchmarks]
    return replace(run, benchmarks=tuple(_narrowed(one, ids) for one, ids in some if ids))


def _narrowed(one: ScoredBenchmark, ids: Collection[str]) -> ScoredBenchmark:
    return replace(
        one,
        samples={name: sample for name, sample in one.samples.items() if name in ids},
        predictions=tuple(p for p in one.predictions if p.sample_id in ids),
        scores=tuple(score for score in one.scores if score.sample_id in ids),
        answers={key: answer for key, answer in one.answers.items() if key[0] in ids},
        tallies=tuple(tally for tally in one.tallies if tally.sample_id in ids),
    )


def _noted(run: ScoredRun, note: str) -> ScoredRun:
    return replace(run, manifest=replace(run.manifest, notes=(*run.manifest.notes, note)))


def _reasons(run: ScoredRun) -> dict[Key, Shortfall]:
    """For each question that was asked why it counts as not answered."""
    found: dict[Key, Shortfall] = {}
    for one in run.benchmarks:
        for prediction in one.predictions:
            key = one.spec.name, prediction.sample_id
            found[key] = found.get(key) or _reason(prediction)
    return found


def _reason(prediction: Prediction) -> Shortfall:
    if prediction.error is not None:
        return "request failed", prediction.error.kind
    return ("refused", "") if prediction.reason == "refused" else None


def _check_same(runs: Sequence[ScoredRun]) -> None:
    first = {use.name: (use, run) for run in reversed(runs) for use in run.manifest.benchmarks}
    for run in runs:
        for use in run.manifest.benchmarks:
            other, whose = first[use.name]
            if not use.fits(other.version, other.questions):
                raise DataError(
                    f"{run.folder} and {whose.folder} are on different builds of {use.name}; score both on one "
                    "(a file of predictions with --benchmark and the built benchmark's name)"
                )
