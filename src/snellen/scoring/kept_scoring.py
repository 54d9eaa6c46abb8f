"""Scorings kept in a run's folder: none is overwritten by one with other settings, and each can be opened again.

predictions.jsonl, scores.jsonl, results.json, scoring.json     by the standard settings, beside the journal
scores/<digest of the settings>/ with the same files            by any others
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from snellen import __version__
from snellen.errors import StoreError
from snellen.models.base import AsyncModel, Model, identity_of
from snellen.paths import as_word
from snellen.records import Prediction, Result, Score
from snellen.runs.journal import RunManifest, journals, read_manifest, write_atomically
from snellen.runs.own_questions import reopen_benchmark
from snellen.runs.spec import JudgeSpec, ScoringSpec
from snellen.scoring.answers import answers_at_hand, with_answer_tags
from snellen.scoring.corpus_counts import QuestionCounts
from snellen.scoring.flat_results import flat_row, result_of_flat
from snellen.scoring.judges.ensemble import JudgeUse
from snellen.scoring.rated import RATINGS
from snellen.scoring.role_uses import RoleUse
from snellen.scoring.run_scoring import is_large, rules_of, spec_by_rules
from snellen.scoring.score_table import ScoreTable
from snellen.scoring.scored_run import ScoredBenchmark, ScoredRun
from snellen.scoring.stored_records import BYTES_AT_ONCE, LineRange, OpenFile, StoredRecords, encoded_lines, faults_told

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
    counterpart: str | None = None
    """Of one as published: the name of the scoring by standard rules."""


class ScoringSettings(Struct, frozen=True):
    """All that the numbers of a scoring depend on besides the journal and the answers."""

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
    identities = [identity_of(one) for one in judges]
    if not identities:
        return ScoringSettings(scoring, JudgeSpec())
    plain = JudgeSpec()
    asked = replace(
        judge,
        models=tuple(one.name for one in judges),
        price=None,
        failures=plain.failures,
        calibrate=plain.calibrate,
    )
    return ScoringSettings(scoring, asked, tuple(identity.fingerprint for identity in identities))


def scoring_folder(run: Path, name: str) -> Path:
    """Where the scoring of that name is kept."""
    return run / SCORINGS / name if name else run


def scoring_names(run: Path) -> list[str]:
    """The scorings that are kept, the standard one first."""
    others = sorted(path.parent.name for path in run.glob(f"{SCORINGS}/*/{SCORING}"))
    return [*([STANDARD] if (run / SCORING).exists() else []), *others]


def keep_scoring(scored: ScoredRun, settings: ScoringSettings, rows: Sequence[Result], counterpart: str | None) -> None:
    """Write a scoring into its folder; `rows` are its results. Raises StoreError."""
    folder = scoring_folder(scored.folder, settings.name)
    (folder / SCORING).unlink(missing_ok=True)  # it stands for the other files, so it is the last to come
    _write_lines(folder / PREDICTIONS, (p for benchmark in scored.benchmarks for p in benchmark.predictions))
    _write_lines(folder / SCORES, (score for benchmark in scored.benchmarks for score in benchmark.scores))
    _write_lines(folder / COUNTS, (tally for benchmark in scored.benchmarks for tally in benchmark.tallies))
    flat = [flat_row(row) for row in rows]
    write_atomically(folder / RESULTS, json.dumps(flat, indent=1, ensure_ascii=False).encode())
    kept = KeptScoring(
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
        counterpart=counterpart,
    )
    write_atomically(folder / SCORING, msgspec.json.format(msgspec.json.encode(kept), indent=1))


def _write_lines(path: Path, records: Iterable[Struct]) -> None:
    """A file of records, and no file where there are none but an earlier scoring had some."""
    left = iter(records)
    first = list(islice(left, 1))
    if first or path.name != COUNTS:
        write_atomically(path, encoded_lines(chain(first, left)))
    else:
        path.unlink(missing_ok=True)


def is_scored_whole(run: Path) -> bool:
    """Whether a run's standard scoring is of all that its journals hold. Raises StoreError for a damaged file."""
    path = scoring_folder(run, STANDARD) / SCORING
    return path.exists() and _decoded(path, KeptScoring).journals == _sizes(run)


def load_scoring(run: Path, name: str | None = None) -> ScoredRun:
    """A scoring as it was kept; nothing is read or scored again, and no answer is needed.

    Without a name it is the standard one, or else the only one. Raises StoreError for a folder that is no run, a run
    that was not scored so, one that was asked more since, or files that are damaged; DataError when not even the
    questions are at hand.
    """
    manifest, names = read_manifest(run), scoring_names(run)
    chosen = _chosen(run, name, names)
    folder = scoring_folder(run, chosen)
    kept = _decoded(folder / SCORING, KeptScoring)
    if kept.journals != _sizes(run):
        raise StoreError(
            f"{run} was asked more, or given ratings, since it was scored; score it again: snellen score {as_word(run)}"
        )
    compact = is_large(run)
    stored, scores = _stored(folder, compact), _scores(folder / SCORES, compact)
    convention = "as-published" if kept.scoring.as_published else "standard"
    flat = _decoded(folder / RESULTS, list[dict[str, Any]])
    rows = tuple(row for row in map(result_of_flat, flat) if row.convention == convention)
    benchmarks = []
    for use in manifest.benchmarks:
        opened = reopen_benchmark(use, run)
        rules = rules_of(opened.spec, kept.scoring)
        golds = answers_at_hand(opened.folder, compact=compact)
        benchmarks.append(
            ScoredBenchmark(
                spec_by_rules(opened.spec, rules),
                with_answer_tags(opened.samples(use.selection), golds or {}, compact=compact),
                stored.predictions.get(use.name, ()),
                scores.get(use.name, ()),
                golds or {},
                stored.tallies.get(use.name, ()),
                rules,
                golds is None,
            )
        )
    return ScoredRun(
        run,
        _noted_absence(manifest, benchmarks),
        kept.scoring,
        kept.reading_stages,
        tuple(benchmarks),
        kept.asked,
        kept.reused,
        kept.judges,
        kept.roles,
        counterpart=None if kept.counterpart is None else load_scoring(run, kept.counterpart),
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
    kept = ", ".join(one or "the standard one" for one in names)
    raise StoreError(
        f"{run} has no scoring {name}; kept: {kept}"
        if name
        else f"{run} was not scored by standard settings; name one of its scorings: {kept}"
    )


def _sizes(run: Path) -> dict[str, int]:
    """The journals of a run with their bytes, and the ratings that it was given."""
    given = [run / RATINGS] if (run / RATINGS).exists() else []
    return {path.name: path.stat().st_size for path in (*journals(run), *given)}


class _Stored(Struct, frozen=True):
    """By benchmark."""

    predictions: Mapping[str, Collection[Prediction]]
    tallies: Mapping[str, Collection[QuestionCounts]]


def _stored(folder: Path, compact: bool) -> _Stored:
    """What was predicted and counted, left in its files if `compact`."""
    if compact:
        return _Stored(
            _ranges_by_benchmark(folder / PREDICTIONS, Prediction),
            _ranges_by_benchmark(folder / COUNTS, QuestionCounts),
        )
    texts: dict[str, str] = {}
    return _Stored(
        _by_benchmark(folder / PREDICTIONS, Prediction, texts), _by_benchmark(folder / COUNTS, QuestionCounts, texts)
    )


def _scores(path: Path, compact: bool) -> Mapping[str, Collection[Score]]:
    """The scores of a file by benchmark, in tables if `compact`."""
    if not compact:
        return _by_benchmark(path, Score, {})
    tables: dict[str, ScoreTable] = {}
    for benchmark, scores in groupby(_records(path, Score), key=lambda score: score.benchmark):
        tables.setdefault(benchmark, ScoreTable(benchmark)).add((), scores)
    return tables


def _by_benchmark(path: Path, kind: type[RecordT], texts: dict[str, str]) -> dict[str, tuple[RecordT, ...]]:
    """The records of a file by benchmark. Names that many of them have are one object, kept in `texts`."""
    found: dict[str, list[RecordT]] = defaultdict(list)
    for record in _records(path, kind):
        names = (record.protocol, record.benchmark, record.sample_id)
        protocol, benchmark, sample_id = (texts.setdefault(name, name) for name in names)
        found[benchmark].append(replace(record, protocol=protocol, benchmark=benchmark, sample_id=sample_id))
    return {benchmark: tuple(records) for benchmark, records in found.items()}


def _records(path: Path, kind: type[RecordT]) -> Iterator[RecordT]:
    if path.name == COUNTS and not path.exists():
        return
    decoder = msgspec.json.Decoder(kind)
    with faults_told(path), path.open("rb") as file:
        while lines := file.readlines(BYTES_AT_ONCE):
            yield from decoder.decode_lines(b"".join(lines))


class _OfBenchmark(Struct, frozen=True, gc=False):
    benchmark: str


def _ranges_by_benchmark(path: Path, kind: type[RecordT]) -> dict[str, StoredRecords[RecordT]]:
    """The records of a file by benchmark, which are left there; a file that is written anew changes nothing."""
    if path.name == COUNTS and not path.exists():
        return {}
    ranges: dict[str, list[LineRange]] = defaultdict(list)
    decoder, start = msgspec.json.Decoder(_OfBenchmark), 0
    with faults_told(path):
        file = OpenFile(path.open("rb"), str(path))
        for benchmark, lines in groupby(file.content, lambda line: decoder.decode(line).benchmark):
            size = count = 0
            for line in lines:
                size, count = size + len(line), count + 1
            ranges[benchmark].append(LineRange(start, start + size, count))
            start += size
    return {name: StoredRecords(file, kind, own) for name, own in ranges.items()}


def _decoded(path: Path, kind: Any) -> Any:
    with faults_told(path):
        return msgspec.json.Decoder(kind).decode(path.read_bytes())
