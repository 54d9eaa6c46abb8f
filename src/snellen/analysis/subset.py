"""Runs narrowed to questions that meet a condition, or that every run answered (MMBench, appendix C)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from snellen import registry
from snellen.common.conditions import Condition
from snellen.errors import DataError
from snellen.protocols.base import UNDECLARED, labelled_declaration
from snellen.reasons import Reason
from snellen.records import Prediction
from snellen.scoring.scored_run import ExcludedQuestion, ScoredBenchmark, ScoredRun, by_row

Key = tuple[str, str]
"""Benchmark and sample."""
Shortfall = tuple[Reason, str] | None
"""Why a question counts as not answered, with detail; None if it was answered."""
NEVER: Shortfall = ("not asked", "")


def filter_runs(runs: Sequence[ScoredRun], text: str) -> list[ScoredRun]:
    """The runs narrowed to questions that meet a condition on tags and facts, as in `snellen run --where`.

    Raises DataError for a fact that no benchmark has, or when a run has no such question.
    """
    condition = Condition(text)
    facts = {scored.spec.name: scored.spec.facts() for run in runs for scored in run.benchmarks}
    tags = {
        name
        for run in runs
        for scored in run.benchmarks
        for sample in scored.samples.values()
        for name in sample.tags
    }
    known_names = {*tags, *(name for benchmark_facts in facts.values() for name in benchmark_facts)}
    if unknown := condition.names - known_names:
        raise DataError(f"--where: {registry.unknown('fact', min(unknown), known_names)}")
    narrowed = []
    for run in runs:
        keys = {
            (scored.spec.name, sample.id)
            for scored in run.benchmarks
            for sample in scored.samples.values()
            if condition.holds({**facts[scored.spec.name], **sample.tags})
        }
        if not keys:
            raise DataError(f"no question of {run.folder} fits --where {text!r}")
        narrowed.append(
            _noted(narrow_run(run, keys), f"only questions where {text}: {len(keys):,}")
        )
    return narrowed


def common_answered(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs narrowed to the questions that all of them answered: asked, not failed, not refused.

    `left_out` of each run says what was left out and why. A reply that names no option still is an answer. Raises
    DataError for runs on different builds of a benchmark, and when no question is left.
    """
    check_same_builds(runs)
    reasons = [_reasons(run) for run in runs]
    everything = dict.fromkeys(
        (scored.spec.name, sample)
        for run in runs
        for scored in run.benchmarks
        for sample in scored.samples
    )
    common = {
        key
        for key in everything
        if all(shortfalls.get(key, NEVER) is None for shortfalls in reasons)
    }
    if not common:
        raise DataError(
            "no question was answered by all of the runs; leave one out, or name abilities with --where"
        )
    note = f"only the {len(common):,} of {len(everything):,} questions that all {len(runs)} runs answered"
    return [
        replace(
            _noted(narrow_run(run, common), note),
            left_out=tuple(
                ExcludedQuestion(*key, *(shortfalls.get(key, NEVER) or (None, "")))
                for key in everything
                if key not in common
            ),
        )
        for run, shortfalls in zip(runs, reasons, strict=True)
    ]


def replied_by_all(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """The runs narrowed to the questions that all of them replied to, if only by a refusal; without a benchmark where
    there is none."""
    replied = [
        {key for key, why in _reasons(run).items() if why is None or why[0] == "refused"}
        for run in runs
    ]
    common = set.intersection(*replied)
    return [narrow_run(run, common) for run in runs]


def narrow_run(run: ScoredRun, keys: Collection[Key]) -> ScoredRun:
    """A run narrowed to some questions; benchmarks without any are left out. Request counts stay those of all.

    What a rule has let it ask is not a random part of these questions alone, so the narrowed run has no such part."""
    ids_by_benchmark: dict[str, set[str]] = defaultdict(set)
    for benchmark, sample in keys:
        ids_by_benchmark[benchmark].add(sample)
    selections = [
        (scored, ids_by_benchmark[scored.spec.name] & scored.samples.keys())
        for scored in run.benchmarks
    ]
    return replace(
        run,
        manifest=replace(
            run.manifest,
            benchmarks=tuple(replace(use, part=None) for use in run.manifest.benchmarks),
        ),
        benchmarks=tuple(_narrowed(scored, ids) for scored, ids in selections if ids),
        counterpart=narrow_run(run.counterpart, keys) if run.counterpart else None,
        kept_rows=None,
    )


def _narrowed(scored: ScoredBenchmark, ids: Collection[str]) -> ScoredBenchmark:
    return replace(
        scored,
        samples={name: sample for name, sample in scored.samples.items() if name in ids},
        predictions=tuple(p for p in scored.predictions if p.sample_id in ids),
        score_rows=by_row(score for score in scored.scores if score.sample_id in ids),
        answers={key: answer for key, answer in scored.answers.items() if key[0] in ids},
        tallies=tuple(tally for tally in scored.tallies if tally.sample_id in ids),
    )


def _noted(run: ScoredRun, note: str) -> ScoredRun:
    return replace(run, manifest=replace(run.manifest, notes=(*run.manifest.notes, note)))


def _reasons(run: ScoredRun) -> dict[Key, Shortfall]:
    """For each question asked, why it counts as not answered."""
    shortfalls: dict[Key, Shortfall] = {}
    declared = {label: labelled_declaration(label) for label in run.manifest.protocols}
    for scored in run.benchmarks:
        for prediction in scored.predictions:
            if not declared.get(prediction.protocol, UNDECLARED).is_unbiased(prediction.variant):
                continue  # asked, or not, because of earlier replies: to leave its question out would choose by these
            key = scored.spec.name, prediction.sample_id
            shortfalls[key] = shortfalls.get(key) or _reason(prediction)
    return shortfalls


def _reason(prediction: Prediction) -> Shortfall:
    if prediction.error is not None:
        return "request failed", prediction.error.kind
    return ("refused", "") if prediction.reason == "refused" else None


def check_same_builds(runs: Sequence[ScoredRun]) -> None:
    first_uses = {use.name: (use, run) for run in reversed(runs) for use in run.manifest.benchmarks}
    for run in runs:
        for use in run.manifest.benchmarks:
            first_use, first_run = first_uses[use.name]
            if not use.fits(first_use.version, first_use.questions):
                raise DataError(
                    f"{run.folder} and {first_run.folder} are on different builds of {use.name}; score both on one "
                    "(a file of predictions with --benchmark and the built benchmark's name)"
                )
