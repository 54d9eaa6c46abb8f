"""Store scorings in the folder of a run, one per settings, and open them again.

predictions.jsonl, scores.jsonl, results.json, scoring.json     standard settings, next to the journal
scores/<digest of the settings>/ with the same files            any other settings
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, combinations, groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from snellen import __version__
from snellen.building.benchmark import Benchmark
from snellen.catalogue.errata import Errata, chosen_errata, errata_digest
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.common.paths import shell_word
from snellen.common.record_fields import record_fields
from snellen.errors import DataError, SnellenError, StoreError
from snellen.formats.whole_files import write_atomically
from snellen.metrics.declaration import (
    StoredRow,
    find_metric,
    judging_code,
    remember_rows,
    stored_rows_of,
)
from snellen.metrics.question_counts import QuestionCounts
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import identity_of
from snellen.records import Method, Prediction, Result, Score
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import BenchmarkUse, RunManifest, journals, read_manifest
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.answers import (
    answers_at_hand,
    answers_digest,
    changed_answers,
    has_answers,
    with_answer_tags,
)
from snellen.scoring.code_digests import CodeDigest, changed_files, changed_names
from snellen.scoring.corrected_answers import corrected_answers
from snellen.scoring.judges import JudgeUse
from snellen.scoring.request_costs import RoleUse
from snellen.scoring.run_ratings import RATINGS
from snellen.scoring.run_scoring import rules_of, spec_by_rules
from snellen.scoring.scored_run import (
    RowKey,
    RunExtent,
    ScoredBenchmark,
    ScoredRun,
    flat_row,
    result_of_flat,
)
from snellen.scoring.stored_records import (
    LineRange,
    StoredRecords,
    encoded_lines,
    faults_told,
    open_records,
)

SCORINGS = "scores"
SCORING = "scoring.json"
PREDICTIONS = "predictions.jsonl"
SCORES = "scores.jsonl"
COUNTS = "counts.jsonl"
RESULTS = "results.json"
SCORING_FILES = (PREDICTIONS, SCORES, COUNTS, RESULTS, SCORING)
STANDARD = ""
"""The name of the scoring by standard settings, which is stored next to the journal."""
CHOSEN_LATEST = "latest"
CHOSEN_STANDARD = "standard"
"""The words by which a user chooses the most recently requested scoring, and the one by standard settings."""
GOLDS_ABSENT = "the answers are not available: the values are the saved ones, and samples are shown without ground truth"

RecordT = TypeVar("RecordT", Prediction, Score, QuestionCounts)


class StoredScoring(Struct, frozen=True, kw_only=True):
    """The content of `scoring.json`: the settings of a scoring, and facts that its other files do not have."""

    snellen: str
    """The version of Snellen that scored."""
    scoring: ScoringSpec
    judge: JudgeSpec
    """The settings of the judges, with their models by name."""
    judge_fingerprints: tuple[dict[str, str], ...] = ()
    journals: dict[str, int]
    """Names of the journals that were scored, with their sizes in bytes."""
    reading_stages: tuple[str, ...]
    distinct_requests: int = field(name="asked")
    reused: int
    judges: tuple[JudgeUse, ...] = ()
    roles: tuple[RoleUse, ...] = ()
    extent: RunExtent | None = None
    """How complete the run was. None for files of versions that did not record it."""
    counterpart: str | None = None
    """For a scoring as published, the name of the scoring by standard rules."""
    errata: tuple[Errata, ...] = ()
    """The lists by which ground truths of its benchmarks were corrected."""
    n_corrected: dict[str, int] = {}
    """By benchmark: ground truths that were corrected."""
    own_rows: tuple[StoredRow, ...] = ()
    """Rows of metrics in the user's own code. A process that opens the scoring needs them because it does not import
    this code."""
    answers: dict[str, str] | None = None
    """By benchmark: the digest of the file of answers. None for files of versions that did not record it."""
    code: dict[str, CodeDigest] = {}
    """Digests of the metrics, judges and extractors that the user wrote, by the short name of each."""
    order: int = 0
    """The scoring of a run with the highest number was asked for last, and is shown unless another one is named.

    It is 0 for a scoring that nobody asked for, such as the standard one that a comparison needs, and for files of
    versions that did not record it.
    """


class ScoringSettings(Struct, frozen=True):
    """The settings on which the scores depend, in addition to the journal and the answers."""

    scoring: ScoringSpec
    judge: JudgeSpec
    fingerprints: tuple[dict[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name under which a scoring with these settings is stored: empty for the standard ones, otherwise a digest."""
        if not self.fingerprints and self.scoring == ScoringSpec():
            return STANDARD
        identity = msgspec.json.encode(self, order="sorted")
        if self.scoring.has_errata:
            errata = chosen_errata(self.scoring.errata, self.scoring.errata_files)
            identity += errata_digest(errata.values()).encode()
        return hashlib.blake2b(identity, digest_size=6).hexdigest()

    @property
    def title(self) -> str:
        """Title of the scoring: its metrics, its judges and the other settings that are not the standard ones.

        Examples:
            >>> ScoringSettings(ScoringSpec(metrics=("anls",), extractor="strict"), JudgeSpec()).title
            'anls, extractor strict'
            >>> ScoringSettings(ScoringSpec(), JudgeSpec()).title
            'standard settings'
        """
        parts: list[str] = []
        for metric in self.scoring.metrics:
            judge = judging_code(metric)
            name = judge or metric
            if name.startswith("__main__"):  # a function of a script or notebook
                name = f"{name.rpartition(':')[2]} of a script"
            parts.append(f"judge {name}" if judge else name)
        for name, declared in record_fields(ScoringSpec).items():
            value = getattr(self.scoring, name)
            if name == "metrics" or value == declared.default:
                continue
            words = name.replace("_", " ")
            if isinstance(value, tuple):
                value = " and ".join(value)
            parts.append(words if value is True else f"{words} {value}")
        parts += [f"judge {model}" for model in self.judge.models]
        return ", ".join(parts) or "standard settings"

    @property
    def standard(self) -> ScoringSettings:
        """These settings with the standard instead of published rules."""
        return replace(self, scoring=replace(self.scoring, as_published=False))


def scoring_settings(
    scoring: ScoringSpec, judge: JudgeSpec, judges: Sequence[Model | AsyncModel] = ()
) -> ScoringSettings:
    """Return the settings that identify a scoring.

    The price, the calibration and the failure limit of a judge are left out, because they do not affect the scores.
    """
    identities = [identity_of(judge) for judge in judges]
    if not identities:
        return ScoringSettings(scoring, JudgeSpec())
    plain = JudgeSpec()
    settings = replace(
        judge,
        models=tuple(model.name for model in judges),
        price=None,
        failures=plain.failures,
        calibrate=plain.calibrate,
        moved=plain.moved,
    )
    return ScoringSettings(
        scoring, settings, tuple(identity.fingerprint for identity in identities)
    )


def scoring_folder(run: Path, name: str) -> Path:
    """Return the folder of the scoring of that name."""
    if name == STANDARD:
        return run
    return run / SCORINGS / name


def scoring_names(run: Path) -> list[str]:
    """Return the names of the stored scorings, the standard one first."""
    other_names = sorted(path.parent.name for path in run.glob(f"{SCORINGS}/*/{SCORING}"))
    has_standard = (run / SCORING).exists()
    if has_standard:
        return [STANDARD, *other_names]
    return other_names


def kept_settings(run: Path, name: str) -> ScoringSettings:
    """Return the settings of a stored scoring. Raises StoreError if its file is damaged."""
    kept_scoring = _decoded(scoring_folder(run, name) / SCORING, StoredScoring)
    return ScoringSettings(
        kept_scoring.scoring, kept_scoring.judge, kept_scoring.judge_fingerprints
    )


def scorings_by_age(run: Path) -> list[str]:
    """Return the names of the stored scorings of a run. The last name is that of the most recently requested scoring.

    A stored scoring has the results of scoring the run with certain settings. Damaged ones come first. Then come those
    that no user requested, or that are from versions that did not record requests, by the time of their files, with the
    standard scoring at the end. Last are those that a user requested, the most recent one at the end.
    """

    def age(name: str) -> tuple[int, bool, int]:
        """Return what a scoring is sorted by: when it was asked for, then the standard scoring last, then its file's time."""
        path = scoring_folder(run, name) / SCORING
        try:
            order = _decoded(path, StoredScoring).order
        except StoreError:
            order = -1
        return order, name == STANDARD, path.stat().st_mtime_ns

    return sorted(scoring_names(run), key=age)


def last_own_scoring(run: Path) -> str:
    """Return the name of the most recently requested scoring of a run, if nothing has changed since.

    The result is empty, which is the name of the standard scoring, if that scoring is the most recent one, if something
    has changed, or if the run was not scored.
    """
    names = scorings_by_age(run)
    if not names or names[-1] == STANDARD:
        return STANDARD
    with suppress(StoreError):  # a damaged file
        if not changed_since(run, names[-1]):
            return names[-1]
    return STANDARD


def changed_since(run: Path, name: str) -> str:
    """Return what has changed since a scoring was stored, such as "it has new replies or ratings"; often empty.

    After a change, the stored numbers are no longer those of the run.

    Raises:
        StoreError: The file of the scoring is damaged.
    """
    stored = _decoded(scoring_folder(run, name) / SCORING, StoredScoring)
    if stored.journals != _sizes(run):
        return "it has new replies or ratings"
    manifest = read_manifest(run)
    if stored.answers is None:
        opened = [benchmark for _, benchmark in _benchmarks_with_answers(manifest, run)]
        changed = changed_answers(run, opened)
    else:
        present_digests = _answers_digests(manifest, run)
        changed = []
        for benchmark, scored_digest in stored.answers.items():
            # Answers that are not on this machine count as unchanged.
            if present_digests.get(benchmark, scored_digest) != scored_digest:
                changed.append(benchmark)
    return f"the answers of {', '.join(changed)} have changed" if changed else ""


def _answers_digests(manifest: RunManifest, run: Path) -> dict[str, str]:
    """Return the digest of the file of answers of each benchmark whose answers are on this machine."""
    digests: dict[str, str] = {}
    for name, opened in _benchmarks_with_answers(manifest, run):
        digest = answers_digest(opened)
        if digest is not None:
            digests[name] = digest
    return digests


def _benchmarks_with_answers(manifest: RunManifest, run: Path) -> Iterator[tuple[str, Benchmark]]:
    """Yield the benchmarks of a run that are on this machine with their answers, by name."""
    for use in manifest.benchmarks:
        with suppress(DataError):  # it is not there, or damaged
            opened = reopen_benchmark(use, run)
            if has_answers(opened.folder):
                yield use.name, opened


def are_scored_differently(runs: Iterable[Path]) -> bool:
    """Return whether runs were last scored with different settings, or with different versions of the user's own code.

    The last scoring of a run is the one that `last_own_scoring` names.
    """
    distinct = {_settings_and_code(run, last_own_scoring(run)) for run in runs}
    return len(distinct) > 1


def shared_last_scoring(runs: Iterable[Path]) -> str:
    """Return the name of the scoring by which several runs are compared if the user does not name one.

    It is the most recently requested scoring if that is the same for all runs, and the standard scoring otherwise.
    """
    latest = {_settings_and_code(run, last_own_scoring(run)) for run in runs}
    if len(latest) != 1:
        return STANDARD
    name, _ = latest.pop()
    return name


def are_opened_differently(runs: Iterable[Path]) -> bool:
    """Return whether the most recently requested scorings of runs differ in settings, or in the user's own code.

    Unlike `are_scored_differently`, it also considers scorings after which something has changed. Runs without a
    scoring are ignored.
    """
    distinct: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for run in runs:
        names = scorings_by_age(run)
        if names:
            distinct.add(_settings_and_code(run, names[-1]))
    return len(distinct) > 1


def changed_code(runs: Iterable[tuple[Path, str]]) -> list[str]:
    """Return the user's own metrics, judges and extractors whose code differs between stored scorings of several runs.

    For example, `mine.py:NAME` is returned if the function was edited after the first run was scored. Numbers from
    different code are not comparable. The result is empty if no code differs.

    Args:
        runs: The folder of each run, with the name of one of its scorings.
    """
    codes = [stored_code(run, name) for run, name in runs]
    names: dict[str, None] = {}
    for one, other in combinations(codes, 2):
        names.update(dict.fromkeys(changed_names(one, other)))
    return list(names)


def _settings_and_code(run: Path, name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return what tells whether two stored scorings were computed in the same way.

    Returns:
        The name of the scoring, which stands for its settings, and for each metric, judge and extractor of the user its
        short name with the digest of its code.
    """
    digests = ((key, code.digest) for key, code in stored_code(run, name).items())
    return name, tuple(sorted(digests))


def stored_code(run: Path, name: str) -> dict[str, CodeDigest]:
    """Return the digests of the user's own code that a scoring was stored with; empty for none and a damaged file."""
    path = scoring_folder(run, name) / SCORING
    if not path.exists():
        return {}
    try:
        stored: StoredScoring = _decoded(path, StoredScoring)
    except StoreError:
        return {}
    return stored.code


def have_standard_scores(runs: Iterable[Path]) -> bool:
    """Return whether every run has a standard scoring that covers all replies which it has now.

    It is not checked whether correct answers have changed since then; `change_note` says that.
    """
    for run in runs:
        if STANDARD not in scoring_names(run):
            return False
        with suppress(StoreError):  # a damaged file
            stored = _decoded(scoring_folder(run, STANDARD) / SCORING, StoredScoring)
            if stored.journals == _sizes(run):
                continue
        return False
    return True


def stored_metrics(run: Path, name: str) -> set[str]:
    """Return the names of the rows, such as `accuracy`, in the results of a stored scoring.

    Raises StoreError for a damaged file.
    """
    flat = _decoded(scoring_folder(run, name) / RESULTS, list[dict[str, Any]])
    return {str(row.get("metric")) for row in flat}


def scoring_note(run: Path) -> str:
    """Return a line that says by which scoring a run is shown, which others it has, and what has changed since.

    The most recently requested scoring is shown unless the user names another. The result is empty if there is nothing
    to say: the run was not scored, or only with standard settings, and nothing has changed since.
    """
    names = scorings_by_age(run)
    if not names:
        return ""
    note = f"scored with {scoring_title(run, names[-1])}"
    if len(names) > 1:
        others = ", ".join(_titled(run, name) for name in reversed(names[:-1]))
        note += f"; other scorings: {others}"
    change = change_note(run, names[-1])
    if names == [STANDARD] and not change:
        return ""
    return note + change


def change_note(run: Path, name: str) -> str:
    """Return the end of a line on a stored scoring, such as `; it has new replies or ratings since: score it again`.

    It is empty if nothing has changed, or if the file is damaged.
    """
    with suppress(StoreError):  # a damaged file
        change = changed_since(run, name)
        if change:
            return f"; {change} since: score it again"
    if files := changed_files(stored_code(run, name)):
        have = "has" if len(files) == 1 else "have"
        return f"; {', '.join(files)} {have} changed since: score it again"
    return ""


def scoring_title(run: Path, name: str) -> str:
    """Return a description of a stored scoring for users, such as "anls, extractor strict" or "standard settings"."""
    if name == STANDARD:
        return "standard settings"
    try:
        return kept_settings(run, name).title
    except StoreError:
        return "damaged"


def _titled(run: Path, name: str) -> str:
    """Return the name and, in brackets, the description of a stored scoring; or just "standard settings"."""
    if name == STANDARD:
        return "standard settings"
    return f"{name} ({scoring_title(run, name)})"


def _new_order(run: Path, name: str, is_asked_for: bool) -> int:
    """Return the number of a scoring that is about to be stored. The most recently requested one has the highest.

    If it already has the highest number, it keeps it, so that scoring a run twice in the same way gives identical
    files. A scoring that no user requested keeps its number, or gets 0.
    """
    orders: dict[str, int] = {}
    for stored_name in scoring_names(run):
        with suppress(StoreError):  # a damaged file of another scoring
            path = scoring_folder(run, stored_name) / SCORING
            orders[stored_name] = _decoded(path, StoredScoring).order
    present_order = orders.pop(name, 0)
    if not is_asked_for:
        return present_order
    highest_of_others = max(orders.values(), default=0)
    return max(present_order, highest_of_others + 1)


def keep_scoring(
    scored: ScoredRun,
    settings: ScoringSettings,
    rows: Sequence[Result],
    counterpart: str | None,
    *,
    is_asked_for: bool = True,
) -> None:
    """Write a scoring into its folder.

    Args:
        scored: The scored run.
        settings: Its settings.
        rows: Its results.
        counterpart: For a scoring as published, the name of the scoring by standard rules.
        is_asked_for: Whether the user asked for this scoring, so that it is the one to show from now on.

    Raises:
        StoreError: A file cannot be written.
    """
    folder = scoring_folder(scored.folder, settings.name)
    order = _new_order(scored.folder, settings.name, is_asked_for)
    # This file marks a scoring as complete, so it is removed first and written last.
    (folder / SCORING).unlink(missing_ok=True)
    predictions: list[Collection[Struct]] = []
    scores: list[Collection[Struct]] = []
    tallies: list[Collection[Struct]] = []
    n_corrected: dict[str, int] = {}
    for benchmark in scored.benchmarks:
        predictions.append(benchmark.predictions)
        scores.extend(benchmark.score_rows.values())
        tallies.append(benchmark.tallies)
        if benchmark.n_corrected:
            n_corrected[benchmark.spec.name] = benchmark.n_corrected
    _write_lines(folder / PREDICTIONS, predictions)
    _write_lines(folder / SCORES, scores)
    _write_lines(folder / COUNTS, tallies)
    flat = [flat_row(row, is_kept=True) for row in rows]
    write_atomically(folder / RESULTS, json.dumps(flat, indent=1, ensure_ascii=False).encode())
    description = StoredScoring(
        snellen=__version__,
        scoring=settings.scoring,
        judge=settings.judge,
        judge_fingerprints=settings.fingerprints,
        journals=_sizes(scored.folder),
        reading_stages=scored.reading_stages,
        distinct_requests=scored.distinct_requests,
        reused=scored.reused,
        judges=scored.judges,
        roles=scored.roles,
        extent=scored.extent,
        counterpart=counterpart,
        errata=_used_errata(scored),
        n_corrected=n_corrected,
        own_rows=stored_rows_of(settings.scoring.metrics),
        answers=_answers_digests(read_manifest(scored.folder), scored.folder),
        code=dict(scored.code),
        order=order,
    )
    write_atomically(
        folder / SCORING, msgspec.json.format(msgspec.json.encode(description), indent=1)
    )


def _used_errata(scored: ScoredRun) -> tuple[Errata, ...]:
    """Return the lists of errata by which the benchmarks of a scored run were corrected."""
    if not scored.scoring.has_errata:
        return ()
    chosen = chosen_errata(scored.scoring.errata, scored.scoring.errata_files)
    used: list[Errata] = []
    for benchmark in scored.benchmarks:
        errata = chosen.get(benchmark.spec.name)
        if errata is not None:
            used.append(errata)
    return tuple(used)


def _write_lines(path: Path, record_groups: Iterable[Collection[Struct]]) -> None:
    """Write records to a file, one JSON object a line.

    The file of counts is optional: without records it is removed.
    """
    nonempty_groups = [records for records in record_groups if len(records)]
    if not nonempty_groups and path.name == COUNTS:
        path.unlink(missing_ok=True)
        return
    lines_of_groups = map(encoded_lines, nonempty_groups)
    write_atomically(path, chain.from_iterable(lines_of_groups))


def is_scored_whole(run: Path) -> bool:
    """Return whether the standard scoring is there and nothing has changed since. Raises StoreError for a damaged file."""
    path = scoring_folder(run, STANDARD) / SCORING
    return path.exists() and not changed_since(run, STANDARD)


class ScoredReplies(Struct, frozen=True):
    """The replies that a run had when it was scored."""

    count: int
    journals: frozenset[str]
    """Names of the journals that were not empty."""


def replies_when_scored(run: Path) -> ScoredReplies:
    """Look up how much of a run its stored scorings cover.

    Returns:
        The largest number of replies that a scoring covers, and the names of all journals with replies that a scoring
        has read. Damaged files are skipped.
    """
    n_replies = 0
    journals_with_replies: set[str] = set()
    for name in scoring_names(run):
        with suppress(StoreError):
            stored = _decoded(scoring_folder(run, name) / SCORING, StoredScoring)
            n_replies = max(n_replies, stored.distinct_requests + stored.reused)
            for journal, size in stored.journals.items():
                if size and journal != RATINGS:
                    journals_with_replies.add(journal)
    return ScoredReplies(n_replies, frozenset(journals_with_replies))


def has_ended(run: Path) -> bool:
    """Return whether a run is complete and all replies in its journals have been scored (with any settings).

    Raises:
        StoreError: A file of a stored scoring is damaged.
    """
    sizes = {path.name: path.stat().st_size for path in journals(run)}
    for name in scoring_names(run):
        stored = _decoded(scoring_folder(run, name) / SCORING, StoredScoring)
        scored_sizes = {path: size for path, size in stored.journals.items() if path != RATINGS}
        is_complete = stored.extent is None or stored.extent.is_whole
        if is_complete and scored_sizes == sizes:
            return True
    return False


def load_scoring(run: Path, name: str | None = None) -> ScoredRun:
    """Open a stored scoring, without reading or scoring replies again. The answers need not be available.

    Args:
        run: The folder of the run.
        name: Which scoring, as `find_scoring` takes it; by default the one that was asked for last.

    Raises:
        StoreError: The folder is not a run or has no such scoring, the run has received replies since, or a file is
            damaged.
        DataError: The questions are not available.
    """
    manifest = read_manifest(run)
    chosen = find_scoring(run, name)
    folder = scoring_folder(run, chosen)
    description = _decoded(folder / SCORING, StoredScoring)
    if description.journals != _sizes(run):
        raise StoreError(
            f"{run} has new replies or ratings since it was scored; score it again: snellen score {shell_word(run)}"
        )
    remember_rows(description.own_rows)
    records = _LocatedRecords(
        predictions=_locate_records(folder / PREDICTIONS, Prediction, _OfBenchmark),
        tallies=_locate_records(folder / COUNTS, QuestionCounts, _OfBenchmark),
        scores=_locate_records(folder / SCORES, Score, _OfRow),
    )
    convention = "as-published" if description.scoring.as_published else "standard"
    results = []
    for flat in _decoded(folder / RESULTS, list[dict[str, Any]]):
        result = result_of_flat(flat)
        if result.convention == convention:
            results.append(result)
    errata_by_name = {errata.benchmark: errata for errata in description.errata}
    if description.scoring.errata and not errata_by_name:
        # Versions that did not record the lists had only Snellen's own.
        errata_by_name = chosen_errata(True, ())
    benchmarks = []
    for use in manifest.benchmarks:
        errata = errata_by_name.get(use.name)
        benchmarks.append(_stored_benchmark(use, run, description, records, errata))
    counterpart = None
    if description.counterpart is not None:
        counterpart = load_scoring(run, description.counterpart)
    return ScoredRun(
        folder=run,
        manifest=_with_note_on_missing_answers(manifest, benchmarks),
        scoring=description.scoring,
        reading_stages=description.reading_stages,
        benchmarks=tuple(benchmarks),
        distinct_requests=description.distinct_requests,
        reused=description.reused,
        judges=description.judges,
        roles=description.roles,
        extent=description.extent,
        counterpart=counterpart,
        stored_rows=tuple(results),
        stored_in=folder,
        code=description.code,
    )


class _LocatedRecords(NamedTuple):
    """Where the records of a stored scoring are in its files."""

    predictions: Mapping[_OfBenchmark, StoredRecords[Prediction]]
    tallies: Mapping[_OfBenchmark, StoredRecords[QuestionCounts]]
    scores: Mapping[_OfRow, StoredRecords[Score]]


def _stored_benchmark(
    use: BenchmarkUse,
    run: Path,
    description: StoredScoring,
    records: _LocatedRecords,
    errata: Errata | None,
) -> ScoredBenchmark:
    """Return a benchmark of a run as a stored scoring has it.

    Args:
        use: The benchmark, and which of its samples the run used.
        run: The folder of the run.
        description: The settings of the scoring.
        records: The records of the scoring, of all benchmarks.
        errata: The list by which its ground truths were corrected; None if they were not.
    """
    opened = reopen_benchmark(use, run)
    rules = rules_of(opened.spec, description.scoring)
    golds = answers_at_hand(opened.folder)
    if errata is not None and golds:
        golds, _ = corrected_answers(errata, opened.samples(use.selection), golds)
    score_rows: dict[RowKey, StoredRecords[Score]] = {}
    for row, row_scores in records.scores.items():
        if row.benchmark == use.name:
            score_rows[row.protocol, row.method, row.metric] = row_scores
    key = _OfBenchmark(use.name)
    return ScoredBenchmark(
        spec=spec_by_rules(opened.spec, rules),
        samples=with_answer_tags(opened.samples(use.selection), golds or {}),
        predictions=records.predictions.get(key, ()),
        score_rows=score_rows,
        answers=golds or {},
        tallies=records.tallies.get(key, ()),
        published=rules,
        requested_metrics=description.scoring.metrics,
        answers_missing=golds is None,
        n_corrected=description.n_corrected.get(use.name, 0),
    )


def _with_note_on_missing_answers(
    manifest: RunManifest, benchmarks: Sequence[ScoredBenchmark]
) -> RunManifest:
    """Add a note to the manifest if the answers of a benchmark are not available."""
    if not any(scored.answers_missing for scored in benchmarks):
        return manifest
    return replace(manifest, notes=(*manifest.notes, GOLDS_ABSENT))


def find_scoring(run: Path, choice: str | None = None) -> str:
    """Return the name of the stored scoring of a run that a user chose.

    Args:
        run: The folder of the run.
        choice: "latest" (or None) for the one that was asked for last, "standard" (or the empty string) for the one by
            standard settings, the name of a metric, judge or extractor that only one scoring has, or the name of the
            scoring's folder or the beginning of it.

    Raises:
        StoreError: The run has no such scoring, or several.
    """
    names = scoring_names(run)
    if not names:
        raise StoreError(
            f"{run} has not been scored yet; score it: snellen score {shell_word(run)}"
        )
    if choice is None or choice == CHOSEN_LATEST:
        return scorings_by_age(run)[-1]
    listing = ", ".join(_titled(run, name) for name in names)
    if choice in (STANDARD, CHOSEN_STANDARD):
        if STANDARD in names:
            return STANDARD
        raise StoreError(f"{run} has not been scored with standard settings; it has {listing}")

    own_names = [name for name in names if name != STANDARD]
    by_whole_name = [name for name in own_names if name == choice]
    by_setting = [name for name in own_names if choice in _words_of(run, name)]
    by_beginning = [name for name in own_names if name.startswith(choice)]
    for matching in (by_whole_name, by_setting, by_beginning):
        if len(matching) == 1:
            return matching[0]
        if matching:
            candidates = ", ".join(_titled(run, name) for name in matching)
            raise StoreError(
                f"{run} has several scorings that {choice} may mean: {candidates}; choose one by the beginning of its "
                "name"
            )
    raise StoreError(
        f"{run} has no scoring {choice}; it has {listing}. Choose one by its name or the beginning of that, by its "
        f"metric or judge, or with {CHOSEN_LATEST} or {CHOSEN_STANDARD}"
    )


def _words_of(run: Path, name: str) -> set[str]:
    """Return the words by which a user may choose a stored scoring: its metrics, judges and extractor."""
    try:
        settings = kept_settings(run, name)
    except StoreError:
        return set()
    words = {settings.scoring.extractor, *settings.judge.models}
    for metric in settings.scoring.metrics:
        code = judging_code(metric) or metric
        words.update((code, code.rpartition(":")[2]))
        with suppress(SnellenError):  # its package is not installed here
            words.update(find_metric(metric).names)
    return words


def _sizes(run: Path) -> dict[str, int]:
    """Return the size in bytes of each journal of a run, and of its file of ratings, by file name."""
    sizes = {path.name: path.stat().st_size for path in journals(run)}
    ratings = run / RATINGS
    if ratings.exists():
        sizes[ratings.name] = ratings.stat().st_size
    return sizes


class _OfBenchmark(Struct, frozen=True, gc=False):
    """The benchmark of a stored record; the other fields are not decoded."""

    benchmark: str


class _OfRow(Struct, frozen=True, gc=False):
    """The benchmark and the row of a stored score; the other fields are not decoded."""

    benchmark: str
    protocol: str
    method: Method
    metric: str


KeyT = TypeVar("KeyT", _OfBenchmark, _OfRow)


def _locate_records(
    path: Path, record_type: type[RecordT], key_type: type[KeyT]
) -> dict[KeyT, StoredRecords[RecordT]]:
    """Note where the records of each key are in a file, without loading the records.

    The file stays open, so that they can be read even after a new scoring has replaced the file.

    Args:
        path: The file.
        record_type: The type of a record.
        key_type: The type of a key, which is decoded from the same line.
    """
    if path.name == COUNTS and not path.exists():
        return {}
    ranges: dict[KeyT, list[LineRange]] = defaultdict(list)
    decoder = msgspec.json.Decoder(key_type)
    start = 0
    with faults_told(path):
        file = open_records(path)
        for key, lines in groupby(file.content, decoder.decode):
            size = 0
            count = 0
            for line in lines:
                size += len(line)
                count += 1
            ranges[key].append(LineRange(start, start + size, count))
            start += size
    return {key: StoredRecords(file, record_type, lines) for key, lines in ranges.items()}


def _decoded(path: Path, content_type: Any) -> Any:
    """Read a stored file of JSON as this type."""
    with faults_told(path):
        return msgspec.json.Decoder(content_type).decode(read_file(path, TABLE_BYTES))
