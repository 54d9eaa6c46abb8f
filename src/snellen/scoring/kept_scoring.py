"""Scorings kept in a run's folder: none is overwritten by one with other settings, and each can be opened again.

predictions.jsonl, scores.jsonl, results.json, scoring.json     by the standard settings, beside the journal
scores/<digest of the settings>/ with the same files            by any others
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain, groupby
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.common.foreign import TABLE_BYTES, read_file
from snellen.common.paths import as_word
from snellen.errors import StoreError
from snellen.formats.whole_files import write_atomically
from snellen.metrics.question_counts import QuestionCounts
from snellen.models.base import AsyncModel, Model
from snellen.models.identity import identity_of
from snellen.records import Method, Prediction, Result, Score
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.run_folder import RunManifest, journals, read_manifest
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.answers import answers_at_hand, with_answer_tags
from snellen.scoring.judges import JudgeUse
from snellen.scoring.request_costs import RoleUse
from snellen.scoring.run_ratings import RATINGS
from snellen.scoring.run_scoring import rules_of, spec_by_rules
from snellen.scoring.scored_run import (
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
"""The name of the scoring by standard settings, which lies beside the journal."""
GOLDS_ABSENT = "the answers are not here: the numbers are those that were kept, and samples are shown without gold"

RecordT = TypeVar("RecordT", Prediction, Score, QuestionCounts)


class KeptScoring(Struct, frozen=True, kw_only=True):
    """What a scoring was made by, and what its other files do not say."""

    snellen: str
    """The version that scored."""
    scoring: ScoringSpec
    judge: JudgeSpec
    """Models by name."""
    judge_fingerprints: tuple[dict[str, str], ...] = ()
    journals: dict[str, int]
    """The journals that were scored, with their bytes."""
    reading_stages: tuple[str, ...]
    asked: int
    reused: int
    judges: tuple[JudgeUse, ...] = ()
    roles: tuple[RoleUse, ...] = ()
    extent: RunExtent | None = None
    """How far the run had come; None where that was not noted yet."""
    counterpart: str | None = None
    """Of one as published: the name of the scoring by standard rules."""


class ScoringSettings(Struct, frozen=True):
    """All that the numbers of a scoring depend on in addition to the journal and the answers."""

    scoring: ScoringSpec
    judge: JudgeSpec
    fingerprints: tuple[dict[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Empty for the standard settings, else their digest."""
        if not self.fingerprints and self.scoring == ScoringSpec():
            return STANDARD
        return hashlib.blake2b(msgspec.json.encode(self, order="sorted"), digest_size=6).hexdigest()

    @property
    def standard(self) -> ScoringSettings:
        """The same by the standard rules."""
        return replace(self, scoring=replace(self.scoring, as_published=False))


def scoring_settings(
    scoring: ScoringSpec, judge: JudgeSpec, judges: Sequence[Model | AsyncModel] = ()
) -> ScoringSettings:
    """The settings behind a scoring; how a judge is paid, checked and tolerated changes no number."""
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
    """Where the scoring of that name is kept."""
    return run / SCORINGS / name if name else run


def scoring_names(run: Path) -> list[str]:
    """The scorings that are kept, the standard one first."""
    other_names = sorted(path.parent.name for path in run.glob(f"{SCORINGS}/*/{SCORING}"))
    return [*([STANDARD] if (run / SCORING).exists() else []), *other_names]


def keep_scoring(
    scored: ScoredRun, settings: ScoringSettings, rows: Sequence[Result], counterpart: str | None
) -> None:
    """Write a scoring into its folder; `rows` are its results. Raises StoreError."""
    folder = scoring_folder(scored.folder, settings.name)
    (folder / SCORING).unlink(
        missing_ok=True
    )  # it stands for the other files, so it is the last to come
    _write_lines(folder / PREDICTIONS, (benchmark.predictions for benchmark in scored.benchmarks))
    _write_lines(
        folder / SCORES,
        (row for benchmark in scored.benchmarks for row in benchmark.score_rows.values()),
    )
    _write_lines(folder / COUNTS, (benchmark.tallies for benchmark in scored.benchmarks))
    flat = [flat_row(row, is_kept=True) for row in rows]
    write_atomically(folder / RESULTS, json.dumps(flat, indent=1, ensure_ascii=False).encode())
    description = KeptScoring(
        snellen=__version__,
        scoring=settings.scoring,
        judge=settings.judge,
        judge_fingerprints=settings.fingerprints,
        journals=_sizes(scored.folder),
        reading_stages=scored.reading_stages,
        asked=scored.asked,
        reused=scored.reused,
        judges=scored.judges,
        roles=scored.roles,
        extent=scored.extent,
        counterpart=counterpart,
    )
    write_atomically(
        folder / SCORING, msgspec.json.format(msgspec.json.encode(description), indent=1)
    )


def _write_lines(path: Path, parts: Iterable[Collection[Struct]]) -> None:
    """A file of records, and no file where there are none but an earlier scoring had some."""
    filled = [part for part in parts if len(part)]
    if filled or path.name != COUNTS:
        write_atomically(path, chain.from_iterable(map(encoded_lines, filled)))
    else:
        path.unlink(missing_ok=True)


def is_scored_whole(run: Path) -> bool:
    """Whether a run's standard scoring is of all that its journals hold. Raises StoreError for a damaged file."""
    path = scoring_folder(run, STANDARD) / SCORING
    return path.exists() and _decoded(path, KeptScoring).journals == _sizes(run)


class ScoredReplies(Struct, frozen=True):
    """The replies that a run had when it was scored."""

    count: int
    journals: frozenset[str]
    """Names of the journals that held some."""


def replies_when_scored(run: Path) -> ScoredReplies:
    """Return the replies that a run had at any of its kept scorings: the most, and in which journals."""
    most = 0
    filled: set[str] = set()
    for name in scoring_names(run):
        with suppress(StoreError):  # a damaged file says nothing
            kept = _decoded(scoring_folder(run, name) / SCORING, KeptScoring)
            most = max(most, kept.asked + kept.reused)
            filled.update(path for path, size in kept.journals.items() if size and path != RATINGS)
    return ScoredReplies(most, frozenset(filled))


def has_ended(run: Path) -> bool:
    """Whether a run has asked all that it was to ask, and was scored by any settings: not while its journals hold more
    than what was scored. A scoring of a run that was stopped ends nothing. Raises StoreError for a damaged file."""
    sizes = {path.name: path.stat().st_size for path in journals(run)}
    for name in scoring_names(run):
        kept = _decoded(scoring_folder(run, name) / SCORING, KeptScoring)
        is_of_all = {path: size for path, size in kept.journals.items() if path != RATINGS} == sizes
        if is_of_all and (kept.extent is None or kept.extent.is_whole):
            return True
    return False


def load_scoring(run: Path, name: str | None = None) -> ScoredRun:
    """A scoring as it was kept; nothing is read or scored again, and no answer is needed.

    Without a name it is the standard one, or else the only one. Raises StoreError for a folder that is not a run, a run
    that was not scored so, one that was asked more since, or files that are damaged; DataError when not even the
    questions are at hand.
    """
    manifest, names = read_manifest(run), scoring_names(run)
    chosen = _chosen(run, name, names)
    folder = scoring_folder(run, chosen)
    description = _decoded(folder / SCORING, KeptScoring)
    if description.journals != _sizes(run):
        raise StoreError(
            f"{run} was asked more, or given ratings, since it was scored; score it again: snellen score {as_word(run)}"
        )
    predictions = _stored(folder / PREDICTIONS, Prediction, _OfBenchmark)
    tallies = _stored(folder / COUNTS, QuestionCounts, _OfBenchmark)
    scores = _stored(folder / SCORES, Score, _OfRow)
    convention = "as-published" if description.scoring.as_published else "standard"
    flat = _decoded(folder / RESULTS, list[dict[str, Any]])
    rows = tuple(row for row in map(result_of_flat, flat) if row.convention == convention)
    benchmarks = []
    for use in manifest.benchmarks:
        opened = reopen_benchmark(use, run)
        rules = rules_of(opened.spec, description.scoring)
        golds, place = answers_at_hand(opened.folder), _OfBenchmark(use.name)
        benchmarks.append(
            ScoredBenchmark(
                spec_by_rules(opened.spec, rules),
                with_answer_tags(opened.samples(use.selection), golds or {}),
                predictions.get(place, ()),
                {
                    (row.protocol, row.method, row.metric): row_scores
                    for row, row_scores in scores.items()
                    if row.benchmark == use.name
                },
                golds or {},
                tallies.get(place, ()),
                rules,
                golds is None,
            )
        )
    return ScoredRun(
        run,
        _noted_absence(manifest, benchmarks),
        description.scoring,
        description.reading_stages,
        tuple(benchmarks),
        description.asked,
        description.reused,
        description.judges,
        description.roles,
        description.extent,
        counterpart=None
        if description.counterpart is None
        else load_scoring(run, description.counterpart),
        kept_rows=rows,
        kept_in=folder,
    )


def _noted_absence(manifest: RunManifest, benchmarks: Sequence[ScoredBenchmark]) -> RunManifest:
    absent = any(scored.golds_absent for scored in benchmarks)
    return replace(manifest, notes=(*manifest.notes, GOLDS_ABSENT)) if absent else manifest


def _chosen(run: Path, name: str | None, names: Sequence[str]) -> str:
    if name is None and (STANDARD in names or len(names) == 1):
        return names[0]
    if name in names:
        return name or STANDARD
    if not names:
        raise StoreError(f"{run} was not scored yet; score it: snellen score {as_word(run)}")
    listing = ", ".join(scoring or "the standard one" for scoring in names)
    raise StoreError(
        f"{run} has no scoring {name}; kept: {listing}"
        if name
        else f"{run} was not scored by standard settings; name one of its scorings: {listing}"
    )


def _sizes(run: Path) -> dict[str, int]:
    """The journals of a run with their bytes, and the ratings that it was given."""
    ratings = [run / RATINGS] if (run / RATINGS).exists() else []
    return {path.name: path.stat().st_size for path in (*journals(run), *ratings)}


class _OfBenchmark(Struct, frozen=True, gc=False):
    """What a line of a file is about."""

    benchmark: str


class _OfRow(Struct, frozen=True, gc=False):
    """The same of a line that is a score."""

    benchmark: str
    protocol: str
    method: Method
    metric: str


PlaceT = TypeVar("PlaceT", _OfBenchmark, _OfRow)


def _stored(
    path: Path, kind: type[RecordT], place: type[PlaceT]
) -> dict[PlaceT, StoredRecords[RecordT]]:
    """The records of a file by what they are about, left where they are; a file written anew changes nothing."""
    if path.name == COUNTS and not path.exists():
        return {}
    ranges: dict[PlaceT, list[LineRange]] = defaultdict(list)
    decoder, start = msgspec.json.Decoder(place), 0
    with faults_told(path):
        file = open_records(path)
        for about, lines in groupby(file.content, decoder.decode):
            size = count = 0
            for line in lines:
                size, count = size + len(line), count + 1
            ranges[about].append(LineRange(start, start + size, count))
            start += size
    return {about: StoredRecords(file, kind, lines) for about, lines in ranges.items()}


def _decoded(path: Path, kind: Any) -> Any:
    with faults_told(path):
        return msgspec.json.Decoder(kind).decode(read_file(path, TABLE_BYTES))
