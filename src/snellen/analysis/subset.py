"""Restrict runs to questions that meet a condition, or that every run answered (MMBench, appendix C)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from snellen import registry
from snellen.callers import for_caller, setting
from snellen.common.conditions import Condition
from snellen.errors import DataError
from snellen.protocols.base import UNDECLARED, labelled_declaration
from snellen.reasons import Reason
from snellen.records import Answer, Prediction
from snellen.runs.run_folder import BenchmarkUse
from snellen.scoring.scored_run import LeftOutQuestion, ScoredBenchmark, ScoredRun, by_row

Key = tuple[str, str]
"""Benchmark and sample."""
Shortfall = tuple[Reason, str] | None
"""Why a question counts as not answered, with detail; None if it was answered."""
NEVER_SENT: Shortfall = ("not asked", "")


def filter_runs(runs: Sequence[ScoredRun], text: str) -> list[ScoredRun]:
    """Restrict runs to the questions that meet a condition on tags and facts, as in `snellen run --where`.

    Args:
        runs: The runs.
        text: The condition, such as `l2 == 'counting'`. A tag is a label of a sample, a fact one of its benchmark.

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
    facts_by_benchmark: dict[str, dict[str, Any]] = {}
    known_names: set[str] = set()
    for run in runs:
        for scored in run.benchmarks:
            facts = scored.spec.facts()
            facts_by_benchmark[scored.spec.name] = facts
            known_names.update(facts)
            for sample in scored.samples.values():
                known_names.update(sample.tags)
    unknown_names = condition.names - known_names
    if unknown_names:
        where = for_caller("--where", "where")
        suggestion = registry.unknown_name("fact", min(unknown_names), known_names)
        raise DataError(f"{where}: {suggestion}")

    narrowed_runs = []
    for run in runs:
        keys: set[tuple[str, str]] = set()
        for scored in run.benchmarks:
            facts = facts_by_benchmark[scored.spec.name]
            for sample in scored.samples.values():
                if condition.holds({**facts, **sample.tags}):
                    keys.add((scored.spec.name, sample.id))
        if not keys:
            raise DataError(
                f"no question of {run.folder} meets the condition "
                f"{setting('where', text, is_quoted=True)}"
            )
        note = f"only questions where {text}: {len(keys):,}"
        narrowed_runs.append(_with_note(narrow_run(run, keys), note))
    return narrowed_runs


def common_answered(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Restrict runs to the questions that all of them answered.

    A question is answered if its requests did not fail and the model did not refuse. A reply without an option counts
    as an answer. `ScoredRun.left_out_questions` of each returned run lists the other questions with the reason.

    Raises:
        DataError: The runs are on different builds of a benchmark, or no question was answered by all.
    """
    check_same_builds(runs)
    reasons_by_run = [_shortfalls(run) for run in runs]
    all_keys: dict[tuple[str, str], None] = {}
    for run in runs:
        for scored in run.benchmarks:
            for sample_id in scored.samples:
                all_keys[scored.spec.name, sample_id] = None

    common_keys = set()
    for key in all_keys:
        # A sample without an entry was never sent to the model; the reason None means that it was answered.
        if all(reasons.get(key, NEVER_SENT) is None for reasons in reasons_by_run):
            common_keys.add(key)
    if not common_keys:
        raise DataError(
            f"no question was answered by all of the runs; remove a run, or select abilities with {setting('where')}"
        )

    note = f"only the {len(common_keys):,} of {len(all_keys):,} questions that all {len(runs)} runs answered"
    restricted_runs = []
    for run, reasons in zip(runs, reasons_by_run, strict=True):
        left_out_questions: list[LeftOutQuestion] = []
        for key in all_keys:
            if key not in common_keys:
                reason, detail = reasons.get(key, NEVER_SENT) or (None, "")
                left_out_questions.append(LeftOutQuestion(*key, reason, detail))
        restricted_run = _with_note(narrow_run(run, common_keys), note)
        restricted_runs.append(
            replace(restricted_run, left_out_questions=tuple(left_out_questions))
        )
    return restricted_runs


def replied_by_all(runs: Sequence[ScoredRun]) -> list[ScoredRun]:
    """Restrict runs to the questions for which all have a reply; refusals count as replies."""
    replied_by_run = []
    for run in runs:
        replied = set()
        for key, shortfall in _shortfalls(run).items():
            if shortfall is None or shortfall[0] == "refused":
                replied.add(key)
        replied_by_run.append(replied)
    common = set.intersection(*replied_by_run)
    return [narrow_run(run, common) for run in runs]


def narrow_run(run: ScoredRun, keys: Collection[Key]) -> ScoredRun:
    """Return a run with only some of its samples. Benchmarks that have none of them are removed.

    Request counts stay unchanged. The result no longer says that a stopping rule chose a random part of each benchmark,
    because that part is not random among the remaining samples.

    Args:
        run: The scored run.
        keys: The samples to keep, as pairs of benchmark and sample identifier.
    """
    ids_by_benchmark: dict[str, set[str]] = defaultdict(set)
    for benchmark, sample_id in keys:
        ids_by_benchmark[benchmark].add(sample_id)

    narrowed: list[ScoredBenchmark] = []
    for scored in run.benchmarks:
        ids = ids_by_benchmark[scored.spec.name] & scored.samples.keys()
        if ids:
            narrowed.append(_narrow_benchmark(scored, ids))
    uses = tuple(replace(use, part=None) for use in run.manifest.benchmarks)
    return replace(
        run,
        manifest=replace(run.manifest, benchmarks=uses),
        benchmarks=tuple(narrowed),
        counterpart=narrow_run(run.counterpart, keys) if run.counterpart else None,
        stored_rows=None,
    )


def _narrow_benchmark(scored: ScoredBenchmark, ids: Collection[str]) -> ScoredBenchmark:
    """Return a scored benchmark with only the samples whose identifiers are in `ids`."""
    samples = {name: sample for name, sample in scored.samples.items() if name in ids}
    predictions = [prediction for prediction in scored.predictions if prediction.sample_id in ids]
    scores = [score for score in scored.scores if score.sample_id in ids]
    tallies = [tally for tally in scored.tallies if tally.sample_id in ids]
    answers: dict[tuple[str, int], Answer] = {}
    for (sample_id, turn), answer in scored.answers.items():
        if sample_id in ids:
            answers[sample_id, turn] = answer
    return replace(
        scored,
        samples=samples,
        predictions=tuple(predictions),
        score_rows=by_row(scores),
        answers=answers,
        tallies=tuple(tallies),
    )


def _with_note(run: ScoredRun, note: str) -> ScoredRun:
    return replace(run, manifest=replace(run.manifest, notes=(*run.manifest.notes, note)))


def _shortfalls(run: ScoredRun) -> dict[Key, Shortfall]:
    """Return, for each sample that was sent to the model, why it counts as not answered; None if it was answered."""
    reasons: dict[Key, Shortfall] = {}
    declared = {label: labelled_declaration(label) for label in run.manifest.protocols}
    for scored in run.benchmarks:
        for prediction in scored.predictions:
            if not declared.get(prediction.protocol, UNDECLARED).is_unbiased(prediction.variant):
                # Whether it was sent depends on earlier replies, so it must not decide which questions remain.
                continue
            key = (scored.spec.name, prediction.sample_id)
            reasons[key] = reasons.get(key) or _shortfall_of(prediction)
    return reasons


def _shortfall_of(prediction: Prediction) -> Shortfall:
    """Return why a prediction does not count as an answer, with a detail; None if it does."""
    if prediction.error is not None:
        return "request failed", prediction.error.kind
    return ("refused", "") if prediction.reason == "refused" else None


def check_same_builds(runs: Sequence[ScoredRun]) -> None:
    """Raise DataError if two runs used different builds of the same benchmark."""
    first_uses: dict[str, tuple[BenchmarkUse, ScoredRun]] = {}
    for run in runs:
        for use in run.manifest.benchmarks:
            first_use, first_run = first_uses.setdefault(use.name, (use, run))
            if not use.matches_build(first_use.version, first_use.questions):
                raise DataError(
                    f"{run.folder} and {first_run.folder} used different builds of {use.name}; score both with "
                    f"the same build (for a file of predictions, give {setting('benchmark')} and the name of the built "
                    "benchmark)"
                )
