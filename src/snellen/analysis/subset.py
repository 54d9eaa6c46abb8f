"""Restrict runs to questions that meet a condition, or that every run answered (MMBench, appendix C)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from snellen import registry
from snellen.callers import for_caller, setting
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
    """Restrict runs to the questions that meet a condition on tags and facts, as in `snellen run --where`.

    Raises:
        DataError: No benchmark has a fact in the condition, or no question of a run meets it.

    Examples:
        >>> from snellen.plugin_api import score_run
        >>> results = sn.evaluate("snellen:oracle", "eyechart/colour", limit=4, report=False)
        >>> run = score_run(results.runs[0].folder, sn.ScoringSpec())
        >>> [narrowed] = filter_runs([run], "benchmark == 'eyechart/colour'")
        >>> len(narrowed.benchmarks[0].samples)
        4
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
        where = for_caller("--where", "where")
        raise DataError(f"{where}: {registry.unknown_name('fact', min(unknown), known_names)}")
    narrowed = []
    for run in runs:
        keys = {
            (scored.spec.name, sample.id)
            for scored in run.benchmarks
            for sample in scored.samples.values()
            if condition.holds({**facts[scored.spec.name], **sample.tags})
        }
        if not keys:
            raise DataError(
                f"no question of {run.folder} meets the condition "
                f"{setting('where', text, is_quoted=True)}"
            )
        narrowed.append(
            _noted(narrow_run(run, keys), f"only questions where {text}: {len(keys):,}")
        )
    return narrowed


def common_answered(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Restrict runs to the questions that all of them answered.

    A question is answered if its requests did not fail and the model did not refuse. A reply without an option counts as
    an answer. `ScoredRun.left_out` of each returned run lists the other questions with the reason.

    Raises:
        DataError: The runs are on different builds of a benchmark, or no question was answered by all.
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
            f"no question was answered by all of the runs; remove a run, or select abilities with {setting('where')}"
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
    """Restrict runs to the questions for which all have a reply; refusals count as replies."""
    replied = [
        {
            key
            for key, shortfall in _reasons(run).items()
            if shortfall is None or shortfall[0] == "refused"
        }
        for run in runs
    ]
    common = set.intersection(*replied)
    return [narrow_run(run, common) for run in runs]


def narrow_run(run: ScoredRun, keys: Collection[Key]) -> ScoredRun:
    """Restrict a run to some samples. Benchmarks without any of them are removed; request counts stay unchanged.

    A stopping rule evaluates a random part of all questions of a benchmark, not of the remaining ones. The manifest of
    the returned run therefore names no such part.
    """
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
    """Return, for each sample with a prediction, why it counts as not answered; None if it was answered."""
    shortfalls: dict[Key, Shortfall] = {}
    declared = {label: labelled_declaration(label) for label in run.manifest.protocols}
    for scored in run.benchmarks:
        for prediction in scored.predictions:
            if not declared.get(prediction.protocol, UNDECLARED).is_unbiased(prediction.variant):
                # Whether it was sent depends on earlier replies, so it must not decide which questions remain.
                continue
            key = scored.spec.name, prediction.sample_id
            shortfalls[key] = shortfalls.get(key) or _reason(prediction)
    return shortfalls


def _reason(prediction: Prediction) -> Shortfall:
    if prediction.error is not None:
        return "request failed", prediction.error.kind
    return ("refused", "") if prediction.reason == "refused" else None


def check_same_builds(runs: Sequence[ScoredRun]) -> None:
    """Raise DataError if runs used different builds of a benchmark."""
    first_uses = {use.name: (use, run) for run in reversed(runs) for use in run.manifest.benchmarks}
    for run in runs:
        for use in run.manifest.benchmarks:
            first_use, first_run = first_uses[use.name]
            if not use.fits(first_use.version, first_use.questions):
                raise DataError(
                    f"{run.folder} and {first_run.folder} used different builds of {use.name}; score both with "
                    f"the same build (for a file of predictions, give {setting('benchmark')} and the name of the built "
                    "benchmark)"
                )
